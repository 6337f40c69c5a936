package methods

import (
	"math"
	"math/rand/v2"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/nn"
)

// The networks of the methods that learn by reward share what they read of a slot and
// how they decide. Users are read one by one and summed up by their mean, so that any
// number of them may be active; each user's own features decide for it, beside the
// fleet's summary.

// encoder sums a slot up.
type encoder[T any] struct {
	Embed  model.Linear[T] // of a user
	Fleet  model.Linear[T]
	Users  T // of the users' mean
	Hidden model.Linear[T]
}

// encoderTensors returns the tensors of an encoder of fleet and user rows of some widths.
func encoderTensors(name string, fleet, user, width, userPart int) encoder[model.Tensor] {
	return encoder[model.Tensor]{
		Embed:  model.LinearTensors(name+".user", name+".userb", user, userPart),
		Fleet:  model.LinearTensors(name+".fleet", name+".fleetb", fleet, width),
		Users:  model.MatrixTensor(name+".mean", userPart, width),
		Hidden: model.LinearTensors(name+".hidden", name+".hiddenb", width, width),
	}
}

// encode returns one row for each slot of x, whose fleet and users are read as given.
func encode[T kernel.Float](t *nn.Tape[T], e *encoder[nn.Param[T]], fleet, users []float32, x *transitions) *nn.Var[T] {
	rows := t.Input(users, len(x.ids), e.Embed.Weight.Value.Rows)
	mean := t.MeanRows(t.Gelu(t.Linear(rows, &e.Embed)), x.slotOfUser(), x.slots)
	h := t.Gelu(t.Add(t.Linear(t.Input(fleet, x.slots, e.Fleet.Weight.Value.Rows), &e.Fleet), t.MatMul(mean, &e.Users)))
	return t.Gelu(t.Linear(h, &e.Hidden))
}

// critic estimates values of a slot, or of a slot and its actions.
type critic[T any] struct {
	Encoder encoder[T]
	Out     model.Linear[T]
}

func criticTensors(name string, fleet, user, width, userPart, outputs int) critic[model.Tensor] {
	return critic[model.Tensor]{encoderTensors(name, fleet, user, width, userPart),
		model.OutputTensors(name+".out", name+".outb", width, outputs)}
}

// estimate returns a critic's values of each slot of x, whose fleet and users are read as given.
func estimate[T kernel.Float](t *nn.Tape[T], c *critic[nn.Param[T]], fleet, users []float32, x *transitions) *nn.Var[T] {
	return t.Linear(encode(t, &c.Encoder, fleet, users, x), &c.Out)
}

// actor decides: its outputs are the logits of each user's association and the means of
// the other actions.
type actor[T any] struct {
	Encoder encoder[T]
	Context T // of the summary, in a user's head
	User    model.Linear[T]
	Choice  model.Linear[T] // logits, and the mean of the fraction
	Flight  model.Linear[T]
	LogStd  T // of each aircraft's actions, and of the fraction
}

func actorTensors(aircraft, width, userPart, flight int) actor[model.Tensor] {
	return actor[model.Tensor]{
		Encoder: encoderTensors("actor", fleetWidth(aircraft), userWidth(aircraft), width, userPart),
		Context: model.MatrixTensor("actor.context", width, userPart),
		User:    model.LinearTensors("actor.own", "actor.ownb", userWidth(aircraft), userPart),
		Choice:  model.OutputTensors("actor.choice", "actor.choiceb", userPart, aircraft+2),
		Flight:  model.OutputTensors("actor.flight", "actor.flightb", width, flight*aircraft),
		LogStd:  model.Tensor{Name: "actor.logstd", Rows: 1, Cols: flight*aircraft + 1, InitMean: math.Log(0.5)},
	}
}

// distribution is the actor's over the actions of some slots.
type distribution[T kernel.Float] struct {
	choice *nn.Var[T] // (N, M+2)
	flight *nn.Var[T] // (S, flightActions M)
	logStd *nn.Var[T] // (1, flightActions M + 1)
}

// act returns the actor's distribution; pooled: users are decided for by the summary of their slot alone.
func act[T kernel.Float](t *nn.Tape[T], a *actor[nn.Param[T]], x *transitions, pooled bool) distribution[T] {
	h := encode(t, &a.Encoder, x.fleet, x.users, x)
	own := x.users
	if pooled {
		own = make([]float32, len(x.users))
	}
	user := t.Linear(t.Input(own, len(x.ids), a.User.Weight.Value.Rows), &a.User)
	user = t.Gelu(t.AddRows(user, t.MatMul(h, &a.Context), x.slotOfUser()))
	return distribution[T]{t.Linear(user, &a.Choice), t.Linear(h, &a.Flight), t.Lookup(&a.LogStd, []int{0})}
}

// logGaussian returns the log density of x under a mean and a log deviation, and its
// derivatives by these.
func logGaussian(x, mean, logStd float64) (log, dmean, dlogStd float64) {
	z := (x - mean) * math.Exp(-logStd)
	return -z*z/2 - logStd - math.Log(2*math.Pi)/2, z * math.Exp(-logStd), z*z - 1
}

// leastLogStd bounds the deviations from below: the density of a corpus flown by rules
// would else grow without limit.
const leastLogStd = -3

// deviation returns the log of an action's deviation, and 1, or 0 at the bound, for its
// gradient.
func (p *distribution[T]) deviation(k int) (logStd, free float64) {
	if x := float64(p.logStd.Value.Data[k]); x > leastLogStd {
		return x, 1
	}
	return leastLogStd, 0
}

// logProbability returns the log density of slot s's actions. With dlog, the derivative
// of a loss by it, it adds the loss's gradients by the outputs to the distribution's.
// The fraction of a user that computes locally is no action.
func (p *distribution[T]) logProbability(x *transitions, s int, dlog float64) (log float64) {
	width := p.flight.Value.Cols
	for k := range width {
		logStd, free := p.deviation(k)
		l, dmean, dstd := logGaussian(float64(x.flight[s*width+k]), float64(p.flight.Value.Row(s)[k]), logStd)
		log += l
		if dlog != 0 {
			p.flight.Grad.Row(s)[k] += T(dlog * dmean)
			p.logStd.Grad.Data[k] += T(dlog * dstd * free)
		}
	}
	for u := x.first[s]; u < x.first[s+1]; u++ {
		row := p.choice.Value.Row(u)
		last := len(row) - 1
		logits := make([]float64, last)
		for i := range logits {
			logits[i] = float64(row[i])
		}
		loss, _ := nn.CrossEntropy(logits, x.server[u]) // and their gradient in their place
		log -= loss
		if dlog != 0 {
			for i, g := range logits {
				p.choice.Grad.Row(u)[i] -= T(dlog * g)
			}
		}
		if x.server[u] == 0 {
			continue
		}
		logStd, free := p.deviation(width)
		l, dmean, dstd := logGaussian(float64(x.offload[u]), float64(row[last]), logStd)
		log += l
		if dlog != 0 {
			p.choice.Grad.Row(u)[last] += T(dlog * dmean)
			p.logStd.Grad.Data[width] += T(dlog * dstd * free)
		}
	}
	return log
}

// sample draws the actions of slot s, or with draw nil takes the likeliest, and appends
// them.
func (p *distribution[T]) sample(x *transitions, s int, draw *rand.Rand) {
	noise := func(k int) float64 {
		if draw == nil {
			return 0
		}
		logStd, _ := p.deviation(k)
		return math.Exp(logStd) * draw.NormFloat64()
	}
	for k, mean := range p.flight.Value.Row(s) {
		x.flight = append(x.flight, float32(float64(mean)+noise(k)))
	}
	for u := x.first[s]; u < x.first[s+1]; u++ {
		row := p.choice.Value.Row(u)
		last := len(row) - 1
		x.server = append(x.server, chooseServer(row[:last], draw))
		x.offload = append(x.offload, float32(float64(row[last])+noise(p.flight.Value.Cols)))
	}
}

// chooseServer draws from the softmax of the logits, or takes the greatest.
func chooseServer[T kernel.Float](logits []T, draw *rand.Rand) int {
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	if draw == nil {
		return best
	}
	total := 0.0
	for _, v := range logits {
		total += math.Exp(float64(v - logits[best]))
	}
	x := total * draw.Float64()
	for i, v := range logits {
		if x -= math.Exp(float64(v - logits[best])); x < 0 {
			return i
		}
	}
	return best
}

// actorFlight flies an actor's likeliest actions.
type actorFlight struct {
	constants *physics.Constants
	actor     actor[nn.Param[float32]]
	tape      nn.Tape[float32]
	pooled    bool
	omega     float64 // that the actor reads; 0 where it has been trained at one preference
	now       transitions
}

// newActorFlight returns the flight of parameters that begin with an actor's.
func newActorFlight(w *nn.Params[float32], c *physics.Constants, plain, pooled bool) *actorFlight {
	a := &actorFlight{constants: c, pooled: pooled, now: transitions{plain: plain}}
	list := model.Parameters[nn.Param[float32]](&a.actor)
	nn.Bind(list, &nn.Params[float32]{Tensors: w.Tensors[:len(list)], Data: w.Data}, nil)
	return a
}

func (a *actorFlight) decide(s *slot.Snapshot, d *slot.Decision) {
	a.now.reset()
	a.now.observe(a.constants, s, a.omega)
	a.tape.Reset()
	out := act(&a.tape, &a.actor, &a.now, a.pooled)
	out.sample(&a.now, 0, nil)
	a.now.decide(a.constants, s, 0, d)
	d.Evaluate(a.constants, s)
}
