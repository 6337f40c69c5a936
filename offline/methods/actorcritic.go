package methods

import (
	"math"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/nn"
)

// The networks of the methods that learn by reward share what they read of a slot and
// how they decide. Users are read one by one and summed up by their mean, so that any
// number of them may be active; each user's own features decide for it, beside the
// fleet's summary. Actions are those of eq. (action), rescaled to [-1, 1] as in Sec. IV-B:
// each aircraft's length of flight, each user's association among M+1, and its offloaded
// fraction; but headings are unit vectors. As a number on [-1, 1] a heading is torn at
// 2 pi: the mean of headings to all sides would be west. And users come with the latencies of
// eq. (physfeat). Plain is the letter of the paper instead: headings are such numbers, and a
// user is what eq. (tokusr) has without the latencies, its bearing an angle.

const (
	aircraftFeatures    = 5
	fleetFeatures       = 3 // slot, number of users, omega
	taskFeatures        = 4
	userPairFeatures    = 6 // of a user and an aircraft
	flightActions       = 3 // of an aircraft: length, and the heading's east and north
	plainFlightActions  = 2 // length and heading
	objectives          = 2 // delay, energy
	loadedUsers         = 4 // that the number of users served is divided by
	gainOrders          = 2 // orders of magnitude that a gain is divided by, above
	typicalGainExponent = -11
)

func fleetWidth(aircraft int) int { return aircraftFeatures*aircraft + fleetFeatures }
func userWidth(aircraft int) int  { return taskFeatures + userPairFeatures*aircraft }

func flightWidth(plain bool) int {
	if plain {
		return plainFlightActions
	}
	return flightActions
}

// observation holds what is read of some slots: S of them with N users in all.
type observation struct {
	plain bool
	slots int
	fleet []float32 // (S, fleetWidth)
	users []float32 // (N, userWidth)
	first []int     // (S+1), each slot's first user, and N
	ids   []int     // (N)
}

func (o *observation) reset() {
	o.slots, o.fleet, o.users, o.first, o.ids = 0, o.fleet[:0], o.users[:0], append(o.first[:0], 0), o.ids[:0]
}

// add appends a slot, under a preference.
func (o *observation) add(c *physics.Constants, s *slot.Snapshot, omega float64) {
	for i := range s.Aircraft {
		a := &s.Aircraft[i]
		o.fleet = append(o.fleet, float32(2*a.Position.EastM/c.AreaSideM-1), float32(2*a.Position.NorthM/c.AreaSideM-1),
			float32(a.RemainingJ/c.BatteryCapacityJ), float32(a.ServedLastSlot)/loadedUsers, float32(a.SpeedMPS/c.SpeedMaxMPS))
	}
	o.fleet = append(o.fleet, float32(s.Slot)/float32(s.Slots), float32(len(s.Users))/(2*loadedUsers), float32(omega)) // omega last
	load := max(float64(len(s.Users))/float64(max(len(s.Aircraft), 1)), 1)
	for i := range s.Users {
		u := &s.Users[i]
		if o.plain {
			o.addPlain(c, s, u)
			continue
		}
		localS := u.Task.LocalTimeS(u.CPUHz)
		o.ids = append(o.ids, u.ID)
		o.users = append(o.users, float32(u.Task.Bits/1e6), float32(u.Task.DeadlineS), float32(localS),
			float32(min(localS/u.Task.DeadlineS, 10)))
		for m := range s.Aircraft {
			to := u.Position.Sub(s.Aircraft[m].Position)
			d := max(to.Norm(), 1)
			offloadS := u.Task.OffloadTimeS(c.EqualShare(u.Gain[m], s.Aircraft[m].CPUHz, load))
			o.users = append(o.users, float32(d/c.AreaSideM), float32(to.EastM/d), float32(to.NorthM/d),
				float32((math.Log10(max(u.Gain[m], 1e-20))-typicalGainExponent)/gainOrders), float32(min(offloadS, 10)),
				float32(min(offloadS/localS, 10)))
		}
	}
	o.slots++
	o.first = append(o.first, o.first[len(o.first)-1]+len(s.Users))
}

// addPlain appends a user as eq. (tokusr) has it, in as many columns as others.
func (o *observation) addPlain(c *physics.Constants, s *slot.Snapshot, u *slot.User) {
	o.ids = append(o.ids, u.ID)
	o.users = append(o.users, float32(u.Task.Bits/1e6), float32(u.Task.CyclesPerBit/1000), float32(u.Task.DeadlineS),
		float32(u.QueueBits/1e6))
	for m := range s.Aircraft {
		to := u.Position.Sub(s.Aircraft[m].Position)
		o.users = append(o.users, float32(to.Norm()/c.AreaSideM), float32(math.Atan2(to.NorthM, to.EastM)/math.Pi),
			float32((math.Log10(max(u.Gain[m], 1e-20))-typicalGainExponent)/gainOrders), 0, 0, 0)
	}
}

// gather sets o to the slots of another one, by their numbers.
func (o *observation) gather(from *observation, slots []int) {
	o.reset()
	fleet := len(from.fleet) / from.slots
	width := 0
	if n := from.first[from.slots]; n > 0 {
		width = len(from.users) / n
	}
	for _, s := range slots {
		o.fleet = append(o.fleet, from.fleet[s*fleet:(s+1)*fleet]...)
		o.users = append(o.users, from.users[from.first[s]*width:from.first[s+1]*width]...)
		o.ids = append(o.ids, from.ids[from.first[s]:from.first[s+1]]...)
		o.slots++
		o.first = append(o.first, o.first[o.slots-1]+from.first[s+1]-from.first[s])
	}
}

// slotOfUser returns each user's slot.
func (o *observation) slotOfUser() (index []int) {
	for s := range o.slots {
		for range o.first[s+1] - o.first[s] {
			index = append(index, s)
		}
	}
	return index
}

// actions are what was done in some slots, before it is limited to what is possible.
type actions struct {
	plain   bool
	flight  []float32 // (S, flightActions M), plain (S, plainFlightActions M)
	server  []int     // (N)
	offload []float32 // (N)
}

func (a *actions) reset() { a.flight, a.server, a.offload = a.flight[:0], a.server[:0], a.offload[:0] }

// gather sets a to the actions of some slots.
func (a *actions) gather(from *actions, o *observation, slots []int) {
	a.reset()
	width := len(from.flight) / o.slots
	for _, s := range slots {
		a.flight = append(a.flight, from.flight[s*width:(s+1)*width]...)
		a.server = append(a.server, from.server[o.first[s]:o.first[s+1]]...)
		a.offload = append(a.offload, from.offload[o.first[s]:o.first[s+1]]...)
	}
}

// decide writes the actions of slot i of a batch, whose first user is given, as a decision.
func (a *actions) decide(c *physics.Constants, s *slot.Snapshot, i, first int, d *slot.Decision) {
	d.Resize(s)
	for u := range s.Users {
		if server := a.server[first+u]; server > 0 {
			d.Users[u] = slot.UserDecision{Server: server, Offload: min(max((1+float64(a.offload[first+u]))/2, 0), 1)}
		}
	}
	for m := range s.Aircraft {
		flight := a.flight[flightWidth(a.plain)*(i*len(s.Aircraft)+m):]
		length := c.SpeedMaxMPS * min(max((1+float64(flight[0]))/2, 0), 1)
		var east, north float64
		if a.plain {
			north, east = math.Sincos(math.Pi * (1 + min(max(float64(flight[1]), -1), 1)))
		} else {
			east, north = float64(flight[1]), float64(flight[2])
		}
		norm := max(math.Hypot(east, north), 1e-9)
		d.Move[m] = physics.Position{EastM: length * east / norm, NorthM: length * north / norm}
	}
}

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

// encode returns one row for each slot.
func encode[T kernel.Float](t *nn.Tape[T], e *encoder[nn.Param[T]], fleet, users *nn.Var[T], slotOfUser []int, slots int) *nn.Var[T] {
	mean := t.MeanRows(t.Gelu(t.Linear(users, &e.Embed)), slotOfUser, slots)
	h := t.Gelu(t.Add(t.Linear(fleet, &e.Fleet), t.MatMul(mean, &e.Users)))
	return t.Gelu(t.Linear(h, &e.Hidden))
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

// act returns the actor's distribution; own is what each user's decisions read of itself, beside
// the summary of its slot.
func act[T kernel.Float](t *nn.Tape[T], a *actor[nn.Param[T]], fleet, users, own *nn.Var[T], slotOfUser []int, slots int) distribution[T] {
	h := encode(t, &a.Encoder, fleet, users, slotOfUser, slots)
	user := t.Gelu(t.AddRows(t.Linear(own, &a.User), t.MatMul(h, &a.Context), slotOfUser))
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
func (p *distribution[T]) logProbability(o *observation, a *actions, s int, dlog float64) (log float64) {
	width := p.flight.Value.Cols
	for k := range width {
		logStd, free := p.deviation(k)
		l, dmean, dstd := logGaussian(float64(a.flight[s*width+k]), float64(p.flight.Value.Row(s)[k]), logStd)
		log += l
		if dlog != 0 {
			p.flight.Grad.Row(s)[k] += T(dlog * dmean)
			p.logStd.Grad.Data[k] += T(dlog * dstd * free)
		}
	}
	for u := o.first[s]; u < o.first[s+1]; u++ {
		row := p.choice.Value.Row(u)
		last := len(row) - 1
		logits := make([]float64, last)
		for i := range logits {
			logits[i] = float64(row[i])
		}
		loss, _ := nn.CrossEntropy(logits, a.server[u]) // and their gradient in their place
		log -= loss
		if dlog != 0 {
			for i, g := range logits {
				p.choice.Grad.Row(u)[i] -= T(dlog * g)
			}
		}
		if a.server[u] == 0 {
			continue
		}
		logStd, free := p.deviation(width)
		l, dmean, dstd := logGaussian(float64(a.offload[u]), float64(row[last]), logStd)
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
func (p *distribution[T]) sample(o *observation, a *actions, s int, draw drawer) {
	noise := func(k int) float64 {
		if draw == nil {
			return 0
		}
		logStd, _ := p.deviation(k)
		return math.Exp(logStd) * draw.NormFloat64()
	}
	for k, mean := range p.flight.Value.Row(s) {
		a.flight = append(a.flight, float32(float64(mean)+noise(k)))
	}
	for u := o.first[s]; u < o.first[s+1]; u++ {
		row := p.choice.Value.Row(u)
		last := len(row) - 1
		a.server = append(a.server, chooseServer(row[:last], draw))
		a.offload = append(a.offload, float32(float64(row[last])+noise(p.flight.Value.Cols)))
	}
}

// drawer is what sampling needs of a random generator.
type drawer interface {
	NormFloat64() float64
	Float64() float64
}

// chooseServer draws from the softmax of the logits, or takes the greatest.
func chooseServer[T kernel.Float](logits []T, draw drawer) int {
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
