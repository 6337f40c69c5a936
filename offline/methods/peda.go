package methods

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"prefdt/configs"
	"prefdt/inference/goal"
	"prefdt/inference/kernel"
	"prefdt/inference/model"
	"prefdt/inference/physics"
	"prefdt/inference/prefdt"
	"prefdt/inference/slot"
	"prefdt/inference/token"
	"prefdt/offline/command"
	"prefdt/offline/corpus"
	"prefdt/offline/nn"
	"prefdt/offline/prefdttrain"
	"prefdt/offline/rollout"
)

// PEDA, Table "family" of the paper, note g: the preference-conditioned decision
// transformer MODT(P) of Zhu, Dang and Grover (ICLR 2023), ported to this problem on the
// PPO corpus. Its input has a fixed dimension: every user has a place of its own, and
// those that are not active are zero. Association, fractions and flight are decoded from
// the state token's output alone, flight as length and heading on [-1, 1]. Returns, states and actions are the tokens of a slot, with
// the preference beside states and actions and weighing the returns (eq. (inject)), and
// the first return asked for is a linear regression of the corpus's on the preference, which is the
// share of delay in what a flight cost. Settings from 0 to 1 span the preferences of the corpus.
//
// With pooling the state is the attention summary of Sec. IV-A in place of the padded
// one; there is no path from a user's token to its decision in either. The third form has
// that path (eq. (bypass1) and (bypass2)) and the quadratic conditioner of eq. (reg): it is
// PrefDT, in the same lines, on the same flights, at the same budget. The rest of the
// paper's table takes something from that: targets at the ideal point, no returns
// (omega-BC), neither returns nor preference (unconditioned).

// sequenceForm is one of these networks and how it is asked.
type sequenceForm struct {
	Pooled       bool   `json:"pooled" yaml:"pooled"`
	Bypass       bool   `json:"bypass" yaml:"bypass"` // of a user's token to its decision
	Targets      string `json:"targets" yaml:"targets"`
	NoReturns    bool   `json:"no_returns" yaml:"no_returns"`
	NoPreference bool   `json:"no_preference" yaml:"no_preference"` // beside states and actions

	NoActionPreference bool `json:"no_action_preference,omitempty" yaml:"no_action_preference"` // beside actions
	UnweighedReturns   bool `json:"unweighed_returns,omitempty" yaml:"unweighed_returns"`       // by the preference
	ScalarReturn       bool `json:"scalar_return,omitempty" yaml:"scalar_return"`               // their sum, in place of the two
	Context            int  `json:"context,omitempty" yaml:"context"`                           // slots; 0: as in the settings
	Rules              bool `json:"rules,omitempty" yaml:"rules"`                               // on flights of the searched rules
	WeakerPPO          bool `json:"weaker_ppo,omitempty" yaml:"weaker_ppo"`                     // on flights of weaker PPO policies
}

// Targets are the returns that a preference asks for.
const (
	targetsLinear    = "linear"    // of a linear regression of the corpus's
	targetsQuadratic = "quadratic" // of a quadratic one
	targetsIdeal     = "ideal"     // the least delay and the least energy of the corpus
)

//go:embed sequence.yaml
var sequenceYAML []byte

// sequenceRow is a method of this kind, a row of the paper's tables.
type sequenceRow struct {
	Name, Description string
	Training          string // whose network it flies, if not its own
	Form              sequenceForm
	Paper             Paper
}

// sequenceRows are those of sequence.yaml, which are read once: a set of the tables asks for a method hundreds of times.
var sequenceRows = sync.OnceValue(func() (rows []sequenceRow) {
	configs.MustDecode(sequenceYAML, &rows)
	return rows
})

func sequenceMethods() (list []Method) {
	for _, x := range sequenceRows() {
		list = append(list, x.method())
	}
	return list
}

func (x sequenceRow) method() Method {
	form, flown, corpus := x.Form, plainPPO, ", on the corpus of the PPO policies"
	if form.WeakerPPO {
		flown, corpus = weakerPPO, ", on the corpus of weaker PPO policies"
	}
	newBehaviour, learnsFrom := flown.behaviour, flown.name
	if form.Rules {
		newBehaviour, learnsFrom, corpus = searchedRules, "", ""
	}
	return Method{
		Name: x.Name, Description: x.Description + corpus, Training: x.Training, LearnsFrom: learnsFrom,
		Settings: func(c *Config) any { return []any{c.PEDA, flown.settings(c.PPO), form, corpusRecipe} },
		Spending: func(c *Config) []*int { return []*int{&c.PEDA.Steps} },
		Budget: func(r *Run) Budget {
			return Budget{Policies: 1, Tokens: r.PEDA.Steps * r.PEDA.Batch * r.World.Slots * model.TokensPerSlot}
		},
		New: func(ctx context.Context, r *Run) (NewPolicy, error) {
			f, err := newBehaviour(ctx, r)
			if err != nil {
				return nil, err
			}
			return makePEDA(ctx, r, r.PEDA, form, f)
		},
		Paper: &x.Paper,
	}
}

// PEDASettings of one policy.
type PEDASettings struct {
	Steps    int             `json:"steps" yaml:"steps" range:"1,1e9"` // gradient steps
	Batch    int             `json:"batch" yaml:"batch"`               // flights of each, in windows of the context
	Workers  int             `json:"workers" yaml:"workers"`
	Width    int             `json:"width" yaml:"width"`
	Layers   int             `json:"layers" yaml:"layers"`
	Heads    int             `json:"heads" yaml:"heads"`
	Context  int             `json:"context" yaml:"context"`               // slots
	Rate     float64         `json:"rate" yaml:"rate" range:"1e-9,1"`      // peak learning rate, cosine to a fiftieth
	WarmUp   int             `json:"warm_up" yaml:"warm_up" range:"0,1e9"` // steps
	Decay    float64         `json:"decay" yaml:"decay" range:"0,1"`       // of the matrices
	ClipNorm float64         `json:"clip_norm" yaml:"clip_norm" range:"0,1e6"`
	Seed     uint64          `json:"seed" yaml:"seed"`
	Corpus   DatasetSettings `json:"corpus" yaml:"corpus"`
}

func (s *PEDASettings) arch() model.Arch {
	return model.Arch{Width: s.Width, PairWidth: s.Width / 2, Layers: s.Layers, Heads: s.Heads, Context: s.Context}
}

// trainConfig returns the optimiser's configuration.
func (s *PEDASettings) trainConfig() nn.Config {
	return nn.Config{
		Batch: s.Batch, Workers: s.Workers, Seed: s.Seed,
		Schedule: nn.Schedule{PeakRate: s.Rate, FinalFraction: 0.02, WarmUpSteps: s.WarmUp, Steps: s.Steps, Beta1: 0.9, Beta2: 0.98,
			WeightDecay: s.Decay, ClipNorm: s.ClipNorm},
	}
}

// Check returns what is wrong with the settings.
func (s *PEDASettings) Check() error {
	c := s.trainConfig()
	return cmp.Or(command.CheckRanges(s), s.arch().Check(), c.Check(), s.Corpus.Check())
}

// The published method has the paper's tokens without the closed forms psi: of a user's
// row, the columns of the task and of each aircraft's frame.
var (
	rawTaskColumns = []int{0, 1}       // bits, deadline
	rawPairColumns = []int{0, 1, 2, 3} // distance, bearing, gain
)

func rawUserWidth(aircraft int) int { return len(rawTaskColumns) + len(rawPairColumns)*aircraft }

const rawPairWidth = 6 // of a user in one aircraft's frame, its task included

// pedaSizes bind a network to fleet, users and mission.
type pedaSizes struct{ aircraft, users, slots int }

func (z pedaSizes) stateWidth() int {
	return fleetWidth(z.aircraft) + z.users*(1+rawUserWidth(z.aircraft))
}
func (z pedaSizes) actionWidth() int { return 2*z.aircraft + z.users*(z.aircraft+2) + 1 }

// pedaWeights are the network's parameters.
type pedaWeights[T any] struct {
	State   model.Linear[T] // of the padded state, or of the fleet where users are pooled
	Pool    []pooling[T]    // one, or none
	Return  model.Linear[T]
	Action  model.Linear[T]
	Slot    T // embedding
	Blocks  []model.Block[T]
	Final   model.Norm[T]
	Hidden  [3]model.Linear[T] // of flight, association, fraction
	Own     [2]model.Linear[T] // of a user's row, where it has a path of its own: association, fraction
	Flight  model.Linear[T]
	Choice  model.Linear[T] // (users, M+1), or (M+1) of each user
	Offload model.Linear[T] // (users), or 1
}

// pooling is each aircraft's attention over the users, eq. (attn).
type pooling[T any] struct {
	Query, Key, Value T
	Out               model.Linear[T]
	State             T
}

func pedaTensors(a model.Arch, z pedaSizes, form sequenceForm) []model.Tensor {
	d, shared := a.Width, a.Layout()
	w := pedaWeights[model.Tensor]{
		State: model.LinearTensors("state.w", "state.b", z.stateWidth(), d), Return: model.LinearTensors("return.w", "return.b", objectives,
			d),
		Action: model.LinearTensors("action.w", "action.b", z.actionWidth(), d), Slot: model.MatrixTensor("slot", z.slots, d),
		Blocks: shared.Blocks, Final: shared.Final,
		Flight:  model.OutputTensors("flight.w", "flight.b", d, 2*z.aircraft),
		Choice:  model.OutputTensors("choice.w", "choice.b", d, z.users*(z.aircraft+1)),
		Offload: model.OutputTensors("offload.w", "offload.b", d, z.users),
	}
	for i, name := range []string{"flight", "choice", "offload"} {
		w.Hidden[i] = model.LinearTensors(name+".h", name+".hb", d, d)
	}
	if form.Bypass {
		for i, name := range []string{"choice", "offload"} {
			w.Own[i] = model.LinearTensors(name+".own", name+".ownb", rawUserWidth(z.aircraft), d)
		}
		w.Choice, w.Offload = model.OutputTensors("choice.w", "choice.b", d, z.aircraft+1),
			model.OutputTensors("offload.w", "offload.b", d, 1)
	}
	if form.Pooled {
		w.State = model.LinearTensors("state.w", "state.b", fleetWidth(z.aircraft), d)
		w.Pool = []pooling[model.Tensor]{{
			Query: model.MatrixTensor("pool.q", aircraftFeatures, d), Key: model.MatrixTensor("pool.k", rawPairWidth, d),
			Value: model.MatrixTensor("pool.v", rawPairWidth, d),
			Out:   model.LinearTensors("pool.o", "pool.ob", d, d), State: model.MatrixTensor("pool.s", z.aircraft*d, d),
		}}
	}
	return model.Tensors(model.Parameters[model.Tensor](&w))
}

// pedaWindow is a run of slots of one flight, in windows. Shapes: S slots.
type pedaWindow struct {
	transitions
	windows   []int     // slots of each; none attends to another
	returns   []float32 // (S, objectives) to go, over eta, weighed by the preference
	firstSlot int
	omega     float32
}

// pedaNetwork computes one window.
type pedaNetwork[T kernel.Float] struct {
	arch    model.Arch
	sizes   pedaSizes
	form    sequenceForm
	weights pedaWeights[nn.Param[T]]
	tape    nn.Tape[T]

	// (S, 2M), (R, M+1), (R, 1): a row for each place of a user in each slot or, on a path of its own, for each user
	flight, choice, offload *nn.Var[T]
}

func newPEDANetwork[T kernel.Float](a model.Arch, z pedaSizes, form sequenceForm, w, g *nn.Params[T]) *pedaNetwork[T] {
	n := &pedaNetwork[T]{arch: a, sizes: z, form: form}
	n.weights.Blocks = make([]model.Block[nn.Param[T]], a.Layers)
	if form.Pooled {
		n.weights.Pool = make([]pooling[nn.Param[T]], 1)
	}
	nn.Bind(model.Parameters[nn.Param[T]](&n.weights), w, g)
	return n
}

// paddedState returns the rows of the fleet with every user's place beside it: a 1 and the
// user's raw columns where it is active, zeros where not.
func (n *pedaNetwork[T]) paddedState(x *transitions) (rows []float32) {
	z := n.sizes
	fleet, width, raw := fleetWidth(z.aircraft), userWidth(z.aircraft), rawUserWidth(z.aircraft)
	for s := range x.slots {
		rows = append(rows, x.fleet[s*fleet:(s+1)*fleet]...)
		users := make([]float32, z.users*(1+raw))
		for u := x.first[s]; u < x.first[s+1]; u++ {
			appendRaw(append(users[x.ids[u]*(1+raw):][:0], 1), x.users[u*width:(u+1)*width], 0, z.aircraft)
		}
		rows = append(rows, users...)
	}
	return rows
}

// appendRaw appends a user's raw columns: of its task, and of the frames of aircraft from one to another, which is left out.
func appendRaw(dst, row []float32, first, end int) []float32 {
	for _, k := range rawTaskColumns {
		dst = append(dst, row[k])
	}
	for m := first; m < end; m++ {
		for _, k := range rawPairColumns {
			dst = append(dst, row[taskFeatures+m*userPairFeatures+k])
		}
	}
	return dst
}

// pooledState returns the summed-up state.
func (n *pedaNetwork[T]) pooledState(x *transitions) *nn.Var[T] {
	t, w, z := &n.tape, &n.weights.Pool[0], n.sizes
	fleet, width := fleetWidth(z.aircraft), userWidth(z.aircraft)
	var aircraft, pairs []float32
	var groups []nn.AttentionGroup
	for s := range x.slots {
		for m := range z.aircraft {
			groups = append(groups, nn.AttentionGroup{Query: s*z.aircraft + m, FirstKey: len(pairs) / rawPairWidth,
				KeyCount: x.first[s+1] - x.first[s], Stride: 1})
			aircraft = append(aircraft, x.fleet[s*fleet+m*aircraftFeatures:][:aircraftFeatures]...)
			for u := x.first[s]; u < x.first[s+1]; u++ {
				pairs = appendRaw(pairs, x.users[u*width:(u+1)*width], m, m+1)
			}
		}
	}
	query, users := t.Input(aircraft, x.slots*z.aircraft, aircraftFeatures), t.Input(pairs, len(pairs)/rawPairWidth, rawPairWidth)
	pooled := t.SetAttention(t.MatMul(query, &w.Query), t.MatMul(users, &w.Key), t.MatMul(users, &w.Value), groups, n.arch.Heads)
	pooled = t.Reshape(t.Linear(pooled, &w.Out), x.slots, z.aircraft*n.arch.Width)
	return t.Add(t.Linear(t.Input(x.fleet, x.slots, fleet), &n.weights.State), t.MatMul(pooled, &w.State))
}

// actionRows returns the action token's rows: flight, and in each user's place who served
// it and its fraction.
func (n *pedaNetwork[T]) actionRows(win *pedaWindow) (rows []float32) {
	z, flight := n.sizes, win.polar()
	for s := range win.slots {
		rows = append(rows, flight[2*z.aircraft*s:2*z.aircraft*(s+1)]...)
		users := make([]float32, z.users*(z.aircraft+2))
		for u := win.first[s]; u < win.first[s+1]; u++ {
			at := users[win.ids[u]*(z.aircraft+2):]
			at[win.server[u]] = 1
			at[z.aircraft+1] = win.offload[u]
		}
		omega := win.omega
		if n.form.NoActionPreference {
			omega = 0
		}
		rows = append(append(rows, users...), omega)
	}
	return rows
}

func (n *pedaNetwork[T]) forward(win *pedaWindow) {
	t, w := &n.tape, &n.weights
	t.Reset()
	if n.form.NoReturns {
		clear(win.returns)
	}
	if n.form.NoPreference {
		win.omega = 0
		width := fleetWidth(n.sizes.aircraft)
		for s := range win.slots {
			win.fleet[(s+1)*width-1] = 0
		}
	}
	var state *nn.Var[T]
	if len(w.Pool) > 0 {
		state = n.pooledState(&win.transitions)
	} else {
		state = t.Linear(t.Input(n.paddedState(&win.transitions), win.slots, n.sizes.stateWidth()), &w.State)
	}
	returns := t.Linear(t.Input(win.returns, win.slots, objectives), &w.Return)
	action := t.Linear(t.Input(n.actionRows(win), win.slots, n.sizes.actionWidth()), &w.Action)
	var embedding []int
	for s := range win.slots {
		row := min(win.firstSlot+s, w.Slot.Value.Rows-1)
		embedding = append(embedding, row, row, row)
	}
	x := t.Add(t.Interleave(returns, state, action), t.Lookup(&w.Slot, embedding))
	x = t.Transformer(n.arch, w.Blocks, x, win.windows, 1) // at the state token
	e := t.LayerNorm(x, &w.Final)
	n.flight = t.Tanh(t.MLP(e, &w.Hidden[0], &w.Flight))
	if !n.form.Bypass {
		rows := win.slots * n.sizes.users
		n.choice = t.Reshape(t.MLP(e, &w.Hidden[1], &w.Choice), rows, n.sizes.aircraft+1)
		n.offload = t.Reshape(t.Tanh(t.MLP(e, &w.Hidden[2], &w.Offload)), rows, 1)
		return
	}
	var raw []float32
	width := userWidth(n.sizes.aircraft)
	for u := range win.ids {
		raw = appendRaw(raw, win.users[u*width:(u+1)*width], 0, n.sizes.aircraft)
	}
	users, slotOfUser := t.Input(raw, len(win.ids), rawUserWidth(n.sizes.aircraft)), win.slotOfUser()
	own := func(head int, out *model.Linear[nn.Param[T]]) *nn.Var[T] {
		hidden := t.AddRows(t.Linear(users, &w.Own[head-1]), t.Linear(e, &w.Hidden[head]), slotOfUser)
		return t.Linear(t.Gelu(hidden), out)
	}
	n.choice, n.offload = own(1, &w.Choice), t.Tanh(own(2, &w.Offload))
}

// row returns where user u of slot s is among the outputs.
func (n *pedaNetwork[T]) row(x *transitions, s, u int) int {
	if n.form.Bypass {
		return u
	}
	return s*n.sizes.users + x.ids[u]
}

// setLoss is the decision transformer's mixed loss over the active users, equally
// weighted, with gradients by the outputs times scale.
func (n *pedaNetwork[T]) setLoss(win *pedaWindow, scale float64) (sum prefdttrain.Losses) {
	flight := win.polar()
	dflight, dchoice, doffload := n.tape.ZeroGrad(n.flight), n.tape.ZeroGrad(n.choice), n.tape.ZeroGrad(n.offload)
	for i, want := range flight {
		l, grad := nn.SquaredError(float64(n.flight.Value.Data[i]), float64(want), 1/float64(len(flight)))
		sum.Flight += l
		dflight.Data[i] = T(scale * grad)
	}
	k := 1 / float64(max(len(win.server), 1))
	for s := range win.slots {
		for u := win.first[s]; u < win.first[s+1]; u++ {
			r := n.row(&win.transitions, s, u)
			doffload.Data[r] = prefdttrain.AddUser(&sum, n.choice.Value.Row(r), dchoice.Row(r), win.server[u],
				float64(n.offload.Value.Data[r]), float64(win.offload[u]), k, scale)
		}
	}
	return sum
}

// conditioner gives the returns that a preference asks for: a polynomial of it, for each.
type conditioner [objectives][]float64

// at evaluates it. Delay does not fall, nor energy rise, with omega: beyond a quadratic's vertex its
// value there is held.
func (c *conditioner) at(omega float64) (total [objectives]float64) {
	rises := [objectives]float64{1, -1}
	for j, coefficients := range c {
		x := omega
		if len(coefficients) == 3 && rises[j]*(coefficients[1]+2*coefficients[2]*omega) < 0 {
			x = -coefficients[1] / (2 * coefficients[2])
		}
		for k, a := range coefficients {
			total[j] += a * math.Pow(x, float64(k))
		}
	}
	total[0] = max(total[0], 0)
	return total
}

// fitConditioner fits a form's targets to the totals of a corpus's expert flights, eq. (reg).
func fitConditioner(targets string, omegas []float64, totals [][objectives]float64) (c conditioner, err error) {
	degree := map[string]int{targetsLinear: 1, targetsQuadratic: 2}[targets]
	if targets == targetsIdeal {
		for j := range c {
			c[j] = []float64{math.Inf(1)}
			for _, x := range totals {
				c[j][0] = min(c[j][0], x[j])
			}
		}
		return c, nil
	}
	var delays, energies []float64
	for _, x := range totals {
		delays, energies = append(delays, x[0]), append(energies, x[1])
	}
	fitted, err := corpus.FitPolynomials(degree, omegas, delays, energies)
	if err == nil {
		c = conditioner(fitted)
	}
	return c, err
}

// standardise puts a corpus's observations in deviations from their means, in place. The preference stays as it is.
func (d *dataset) standardise(aircraft int) {
	d.fleet, d.users = d.moments(aircraft)
	for i := range d.flights {
		d.standardiseFrom(&d.flights[i].transitions, 0)
	}
}

// moments returns the mean and the standard deviation of each column of fleets and users; 1 of a constant one.
func (d *dataset) moments(aircraft int) (fleet, users token.Moments) {
	var fleetSums, userSums corpus.MomentSums
	for i := range d.flights {
		fleetSums.Add(d.flights[i].fleet, fleetWidth(aircraft))
		userSums.Add(d.flights[i].users, userWidth(aircraft))
	}
	return fleetSums.Result(1e-6), userSums.Result(1e-6)
}

// standardiseFrom puts the rows of the slots from one on in deviations from the corpus's means.
func (d *dataset) standardiseFrom(x *transitions, from int) {
	fleet, user := len(d.fleet.Mean), len(d.users.Mean)
	for i, v := range x.fleet[from*fleet:] {
		if k := i % fleet; k < fleet-1 {
			x.fleet[from*fleet+i] = prefdt.Standardise(&d.fleet, k, float64(v))
		}
	}
	for i, v := range x.users[x.first[from]*user:] {
		x.users[x.first[from]*user+i] = prefdt.Standardise(&d.users, i%user, float64(v))
	}
}

// pedaData is a corpus with what a form asks for.
type pedaData struct {
	*dataset // standardised
	form     sequenceForm
	eta      [objectives]float64
	conditioner
}

func newPEDAData(d *dataset, form sequenceForm) (p *pedaData, err error) {
	spans := d.spans()
	p = &pedaData{dataset: d, form: form, eta: [objectives]float64{spans.DelayS, spans.EnergyJ}}
	var omegas []float64
	var totals [][objectives]float64
	for i := range d.flights {
		if f := &d.flights[i]; f.expert {
			omegas, totals = append(omegas, f.omega), append(totals, f.toGo()[0])
		}
	}
	p.conditioner, err = fitConditioner(form.Targets, omegas, totals)
	return p, err
}

// returnRow appends the return token's row: what is to go, negated, over eta, weighed.
func (p *pedaData) returnRow(dst []float32, toGo [objectives]float64, omega float64) []float32 {
	weights := [objectives]float64{omega, 1 - omega}
	if p.form.UnweighedReturns {
		weights = [objectives]float64{1, 1}
	}
	delay, energy := -toGo[0]/p.eta[0]*weights[0], -toGo[1]/p.eta[1]*weights[1]
	if p.form.ScalarReturn {
		delay, energy = delay+energy, 0
	}
	return append(dst, float32(delay), float32(energy))
}

// omegaOfEnergy returns the preference at which the conditioner asks for a total.
func (p *pedaData) omegaOfEnergy(energyJ float64) float64 {
	low, high := goal.Bisect(p.low, p.high, 50, func(omega float64) bool { return p.at(omega)[1] > energyJ }) // it falls
	return (low + high) / 2
}

// window sets win to a flight's slots.
func (p *pedaData) window(win *pedaWindow, f *storedFlight) {
	win.reset()
	win.append(&f.transitions, 0, f.slots)
	win.omega, win.returns = float32(f.omega), win.returns[:0]
	for _, toGo := range f.toGo() {
		win.returns = p.returnRow(win.returns, toGo, f.omega)
	}
}

// pedaWorker is a worker's part in training; it implements nn.Network.
type pedaWorker struct {
	*pedaNetwork[float32]
	data *pedaData
	seed uint64
	win  pedaWindow
}

// AddGradient implements nn.Network: a random flight, cut into windows at random.
func (w *pedaWorker) AddGradient(i int, scale float64) ([]float64, error) {
	rng := rand.New(rand.NewPCG(w.seed, uint64(i)))
	f := &w.data.flights[rng.IntN(len(w.data.flights))]
	w.data.window(&w.win, f)
	w.win.windows = w.win.windows[:0]
	context := w.arch.Context
	for from, to := 0, min(1+rng.IntN(context), f.slots); from < f.slots; from, to = to, min(to+context, f.slots) {
		w.win.windows = append(w.win.windows, to-from)
	}
	w.forward(&w.win)
	sum := w.setLoss(&w.win, scale)
	w.tape.Backward()
	return sum.List(1), nil
}

// pedaPolicy flies a network: a window of the last slots, computed anew in each.
type pedaPolicy struct {
	constants *physics.Constants
	network   *pedaNetwork[float32]
	data      *pedaData
	win       pedaWindow
	anyOmega  bool // see Run
	// budgetOmega is the preference beside a budget: Algorithm 1 takes the preference and the
	// delay entry of a setting, and writes a budget over the energy's. That setting is the one
	// that costs as much as the first total, unless fixedOmega is positive: see Run.
	budgetOmega, fixedOmega float64
}

// Reset implements rollout.Policy.
func (p *pedaPolicy) Reset() {
	p.win = pedaWindow{}
	p.win.reset()
}

// Decide implements rollout.Policy.
func (p *pedaPolicy) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Observation {
	win, z := &p.win, p.network.sizes
	omega := g.Omega()
	if !p.anyOmega {
		omega = p.data.low + omega*(p.data.high-p.data.low)
	}
	if g.Budgeted() {
		if win.slots == 0 {
			p.budgetOmega = p.data.omegaOfEnergy(g.BudgetJ())
			if p.fixedOmega > 0 {
				p.budgetOmega = p.data.low + p.fixedOmega*(p.data.high-p.data.low)
			}
		}
		omega = p.budgetOmega
	}
	toGo := p.data.at(omega)
	toGo[0] -= g.DelayS()
	toGo[1] -= g.SpentJ()
	if g.Budgeted() {
		toGo[1] = g.BudgetJ() - g.SpentJ()
	}
	if win.slots == p.network.arch.Context {
		var kept transitions
		kept.reset()
		kept.append(&win.transitions, 1, win.slots)
		win.transitions, win.returns, win.firstSlot = kept, win.returns[objectives:], win.firstSlot+1
	}
	last := win.slots
	win.omega = float32(omega)
	win.observe(p.constants, s, omega)
	p.data.standardiseFrom(&win.transitions, last)
	win.returns = p.data.returnRow(win.returns, toGo, omega)
	// The action of this slot is not known yet, and nothing before it reads it.
	flights, users := len(win.flight), len(win.server)
	win.flight = append(win.flight, make([]float32, flightActions*z.aircraft)...)
	win.server, win.offload = append(win.server, make([]int, len(s.Users))...), append(win.offload, make([]float32, len(s.Users))...)
	win.windows = append(win.windows[:0], win.slots)
	p.network.forward(win)

	win.flight = win.flight[:flights]
	win.addPolar(p.network.flight.Value.Row(last))
	for u := users; u < len(win.server); u++ {
		row := p.network.row(&win.transitions, last, u)
		win.server[u], win.offload[u] = chooseServer(p.network.choice.Value.Row(row), nil), p.network.offload.Value.Data[row]
	}
	win.decide(p.constants, s, last, d)
	d.Evaluate(p.constants, s)
	return goal.Observation{}
}

// makePEDA trains a policy on the corpus of a front.
func makePEDA(ctx context.Context, r *Run, s PEDASettings, form sequenceForm, f behaviour) (NewPolicy, error) {
	s.Context = cmp.Or(form.Context, s.Context)
	flown, err := r.corpus(ctx, &s, form, f)
	if err != nil {
		return nil, err
	}
	data, err := newPEDAData(flown, form)
	if err != nil {
		return nil, err
	}
	z := pedaSizes{r.World.Aircraft, r.World.UserCount(), r.World.Slots}
	t, err := nn.New(s.trainConfig(), nn.Task{Tensors: pedaTensors(s.arch(), z, form), Losses: prefdttrain.LossNames,
		Network: func(_ int, w, g *nn.Params[float32]) nn.Network {
			return &pedaWorker{pedaNetwork: newPEDANetwork(s.arch(), z, form, w, g), data: data, seed: s.Seed}
		}})
	if err != nil {
		return nil, err
	}
	newPolicy := func() rollout.Policy {
		p := &pedaPolicy{constants: &r.World.Physics, network: newPEDANetwork(s.arch(), z, form, t.Params, nil), data: data,
			anyOmega: r.AnyOmega, fixedOmega: r.BudgetOmega}
		p.Reset()
		return p
	}
	round := func() error {
		_, err := t.Next()
		return err
	}
	return newPolicy, trainToEnd(ctx, t, r.policyPath(), 500, 1, round, command.Progress(r.Log, "steps of PEDA", s.Steps))
}

// corpus returns the corpus of a front, which it flies unless the run's last one was the same.
func (r *Run) corpus(ctx context.Context, s *PEDASettings, form sequenceForm, f behaviour) (*dataset, error) {
	keep := r.Corpus
	if keep == nil {
		keep = new(Corpus)
	}
	key := fmt.Sprintf("%+v %+v %v %+v", r.World, s.Corpus, []bool{form.Rules, form.WeakerPPO}, r.PPO)
	if keep.key != key {
		keep.key, keep.flown = "", nil // the memory of two is not needed
		flown, err := buildDataset(ctx, r.World, s.Corpus, outcomeShare, f, r.Workers, r.Log)
		if err != nil {
			return nil, err
		}
		flown.standardise(r.World.Aircraft)
		keep.key, keep.flown = key, flown
	}
	return keep.flown, nil
}
