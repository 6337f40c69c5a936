package methods

import (
	"cmp"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"prefdt/inference/goal"
	"prefdt/inference/model"
	"prefdt/inference/slot"
	"prefdt/inference/token"
	"prefdt/offline/corpus"
	"prefdt/offline/nn/nntest"
	"prefdt/offline/offlinetest"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/simbridge/world"
)

func drawWindow(rng *rand.Rand) *pedaWindow {
	win := &pedaWindow{transitions: drawTransitions(rng, false), firstSlot: 2, omega: 0.3}
	win.windows = []int{win.slots}
	for i := range win.offload {
		win.offload[i] = float32(math.Tanh(float64(win.offload[i])))
	}
	for range win.slots * objectives {
		win.returns = append(win.returns, float32(rng.NormFloat64()))
	}
	return win
}

// formOf is the form of a method of sequence.yaml.
func formOf(name string) sequenceForm {
	rows := sequenceRows()
	return rows[slices.IndexFunc(rows, func(x sequenceRow) bool { return x.Name == name })].Form
}

// No two of the trained networks are of one form, and all that fly another's say so.
func TestFormsDiffer(t *testing.T) {
	seen := map[sequenceForm]string{}
	for _, x := range sequenceRows() {
		if other := seen[x.Form]; other != "" {
			t.Errorf("%s is of the form of %s", x.Name, other)
		}
		seen[x.Form] = x.Name
		if Find(new(Default()), cmp.Or(x.Training, x.Name)) == nil {
			t.Errorf("%s flies the network of %q", x.Name, x.Training)
		}
	}
}

// A flight's windows in one pass give what each gives by itself.
func TestWindowsInOnePass(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	a := model.Arch{Width: 8, PairWidth: 4, Layers: 2, Heads: 2, Context: 3}
	z, form := pedaSizes{2, 10, 5}, formOf("prefdt")
	w, _ := drawParams(rng, pedaTensors(a, z, form), 0.3)
	n := newPEDANetwork[float64](a, z, form, w, nil)
	whole := drawWindow(rng)
	whole.windows = []int{1, 2}
	n.forward(whole)
	together := append([]float64(nil), n.flight.Value.Data...)
	for _, slots := range [][2]int{{0, 1}, {1, 3}} {
		first, count := slots[0], slots[1]-slots[0]
		part := &pedaWindow{windows: []int{count}, firstSlot: whole.firstSlot + first, omega: whole.omega}
		part.reset()
		part.append(&whole.transitions, first, slots[1])
		part.returns = whole.returns[objectives*first:][:objectives*count]
		n.forward(part)
		for i, y := range n.flight.Value.Data {
			if want := together[2*z.aircraft*first+i]; math.Abs(y-want) > 1e-12 {
				t.Errorf("window of slots %v, output %d: %v, in one pass %v", slots, i, y, want)
			}
		}
	}
}

func countZeros(x []float64) (n int) {
	for _, v := range x {
		if v == 0 {
			n++
		}
	}
	return n
}

// The loss's gradient is that of central differences in every form, over two windows; and what
// is done in a slot changes no output of that slot, of an earlier one or of another window.
func TestPEDAGradient(t *testing.T) {
	tried := map[sequenceForm]bool{}
	for _, x := range sequenceRows() {
		form := x.Form
		if tried[form] {
			continue // of another corpus or another context
		}
		tried[form] = true
		rng := rand.New(rand.NewPCG(1, 6))
		a := model.Arch{Width: 4, PairWidth: 4, Layers: 1, Heads: 2, Context: 3}
		z := pedaSizes{2, 10, 5}
		w, g := drawParams(rng, pedaTensors(a, z, form), 0.3)
		n := newPEDANetwork(a, z, form, w, g)
		win := drawWindow(rng)
		win.windows = []int{1, 2}
		n.forward(win)
		n.setLoss(win, 1)
		n.tape.Backward()
		nntest.Gradients(t, w, g, 1e-7, func() float64 {
			n.forward(win)
			return n.setLoss(win, 1).Total()
		})
		if zeros := countZeros(g.Data); zeros > len(g.Data)*9/10 {
			t.Errorf("%+v: %d of %d gradients are zero", form, zeros, len(g.Data))
		}
		for _, x := range []struct {
			windows []int
			same    int // first slots, which the middle one's action does not reach
		}{{[]int{3}, 2}, {[]int{2, 1}, 3}} {
			win.windows = x.windows
			n.forward(win)
			before := append([]float64(nil), n.flight.Value.Data...)
			for k := range flightActions * z.aircraft { // of the middle slot
				win.flight[flightActions*z.aircraft+k] *= -1
			}
			n.forward(win)
			for i, y := range n.flight.Value.Data {
				if same := y == before[i]; same != (i < x.same*2*z.aircraft) {
					t.Errorf("%+v, windows of %v, output %d: the same is %v", form, x.windows, i, same)
				}
			}
		}
	}
}

// Totals of 3 s and 5 s, 40 J and 20 J at preferences 0 and 1: the regression goes through
// them, and the returns to go of a flight of costs 1 s, 2 s are 3 s, 2 s.
func TestPEDAReturns(t *testing.T) {
	d := &dataset{high: 1, flights: []storedFlight{
		{omega: 0, expert: true, total: pareto.Point{DelayS: 3, EnergyJ: 40}, cost: [][objectives]float64{{1, 10}, {2, 30}}},
		{omega: 1, expert: true, total: pareto.Point{DelayS: 5, EnergyJ: 20}, cost: [][objectives]float64{{1, 10}, {4, 10}}},
	}}
	for i := range d.flights {
		d.flights[i].reset()
	}
	d.standardise(1)
	p := offlinetest.Must(newPEDAData(d, sequenceForm{Targets: targetsLinear}))(t)
	toGo := d.flights[0].toGo()
	if !slices.Equal(toGo, [][objectives]float64{{3, 40}, {2, 30}}) || p.eta != [objectives]float64{2, 20} {
		t.Errorf("to go %v, eta %v", toGo, p.eta)
	}
	if got := p.at(0.5); math.Abs(got[0]-4) > 1e-9 || math.Abs(got[1]-30) > 1e-9 {
		t.Errorf("at 0.5: %v, want 4 s and 30 J", got)
	}
	for _, c := range []struct {
		form sequenceForm
		want [objectives]float32
	}{
		{sequenceForm{}, [objectives]float32{-1.5 * 0.25, -2 * 0.75}},
		{sequenceForm{UnweighedReturns: true}, [objectives]float32{-1.5, -2}},
		{sequenceForm{ScalarReturn: true}, [objectives]float32{-1.5*0.25 - 2*0.75, 0}},
	} {
		p.form = c.form
		if row := p.returnRow(nil, toGo[0], 0.25); [objectives]float32(row) != c.want {
			t.Errorf("%+v: row %v, want %v", c.form, row, c.want)
		}
	}
	if omega := p.omegaOfEnergy(25); math.Abs(omega-0.75) > 1e-9 {
		t.Errorf("25 J at %v", omega)
	}
}

// toyPEDA trains a form for a step on the toy front.
func toyPEDA(t *testing.T, r *Run, form string) NewPolicy {
	t.Helper()
	return offlinetest.Must(makePEDA(t.Context(), r, r.PEDA, formOf(form), toyFront(r)))(t)
}

// It imitates the member that a preference is matched to, where the linear conditioner asks for
// what the corpus has: at the ends it asks for less energy than flight takes.
func TestPEDAImitates(t *testing.T) {
	for _, x := range slices.Concat(sequenceRows()[:1], sequenceRows()[3:4]) {
		form := x.Form
		r := toyRun(t, 1)
		s := r.PEDA
		s.Steps, s.Width, s.Rate, s.WarmUp, s.Corpus.Flights, s.Corpus.Episodes = 200, 32, 3e-3, 10, 200, 10
		newPolicy := offlinetest.Must(makePEDA(t.Context(), r, s, form, toyFront(r)))(t)
		fast, frugal := flyToy(t, r, newPolicy, preferenceFor(0.3)), flyToy(t, r, newPolicy, preferenceFor(0.7))
		t.Logf("%+v: fast %+v, frugal %+v", form, fast, frugal)
		if fast.DelayS > 0.5*frugal.DelayS || frugal.EnergyJ > 1.03*r.leastJ() {
			t.Errorf("%+v: fast %+v, frugal %+v", form, fast, frugal)
		}
	}
}

// A budget is written over the energy entry; the preference and the delay entry are those of
// the setting that costs as much, unless one is given, and a revision changes the energy entry alone.
func TestPEDABudget(t *testing.T) {
	r := toyRun(t, 1)
	p := toyPEDA(t, r, "prefdt")().(*pedaPolicy)
	p.data.conditioner, p.data.low, p.data.high = conditioner{{100, 500}, {40e3, -10e3}}, 0, 1
	w := world.New(r.World, 100_000)
	o := goal.New(r.GoalConstants(), &r.World.Physics, r.World.Slots, r.World.Aircraft)
	var snapshot slot.Snapshot
	var d slot.Decision
	decide := func(budgetJ float64) []float32 {
		offlinetest.NoError(t, o.SetBudget(budgetJ, goal.Target))
		w.Snapshot(&snapshot)
		p.Decide(&snapshot, o, &d)
		return p.win.returns[len(p.win.returns)-objectives:]
	}
	check := func(got []float32, omega, delayS, energyJ float64) {
		t.Helper()
		want := p.data.returnRow(nil, [objectives]float64{delayS, energyJ}, omega)
		for j := range want {
			if math.Abs(float64(got[j]-want[j])) > 1e-4*math.Abs(float64(want[j])) {
				t.Errorf("returns %v, want %v", got, want)
			}
		}
	}
	check(decide(36e3), 0.4, 300, 36e3) // at 0.4 the conditioner asks for 300 s and 36 kJ
	o.Settle(goal.Settlement{DelayS: 7, EnergyJ: 500, Flying: 2})
	check(decide(34e3), 0.4, 293, 33.5e3)

	p.fixedOmega = 0.5 // a total changes the energy entry alone, from the first slot on
	for _, budgetJ := range []float64{30e3, 36e3} {
		p.Reset()
		o = goal.New(r.GoalConstants(), &r.World.Physics, r.World.Slots, r.World.Aircraft)
		check(decide(budgetJ), 0.5, 350, budgetJ)
		if p.win.omega != 0.5 {
			t.Errorf("preference %v at %v J", p.win.omega, budgetJ)
		}
	}
}

// toyDataset flies a corpus of the toy front, a fifth of it by heuristics.
func toyDataset(t *testing.T, r *Run, flights int) *dataset {
	t.Helper()
	s := Default().PEDA.Corpus
	s.Flights, s.Episodes = flights, 5
	return offlinetest.Must(buildDataset(t.Context(), r.World, s, outcomeShare, toyFront(r), 1, io.Discard))(t)
}

// The corpus's preference is delay's part of a normalised return, which has a band and not all of
// [0, 1]; settings span that band, and every member is flown where it is the nearest.
func TestOutcomeShares(t *testing.T) {
	a := &corpus.Archive{Points: []pareto.Point{{DelayS: 100, EnergyJ: 40e3}, {DelayS: 300, EnergyJ: 30e3}, {DelayS: 700, EnergyJ: 27e3}}}
	for i, want := range []float64{0.1 / 2.1, 0.3 / 1.8, 0.7 / 2.05} {
		if share := outcomeShare(a, pareto.Point{DelayS: 1000, EnergyJ: 20e3}, a.Points[i]); math.Abs(share-want) > 1e-12 {
			t.Errorf("share %d is %v, want %v", i, share, want)
		}
	}
	for i, want := range map[int]float64{0: 0, 2: 1} {
		if share := importanceShare(a, pareto.Point{}, a.Points[i]); share != want {
			t.Errorf("importance %d is %v, want %v", i, share, want)
		}
	}
	d := toyDataset(t, toyRun(t, 1), 200)
	heuristics := 0
	for _, x := range d.flights {
		if x.omega < d.low || x.omega > d.high {
			t.Fatalf("preference %v beyond %v to %v", x.omega, d.low, d.high)
		}
		if !x.expert {
			heuristics++
		}
	}
	if d.high-d.low > 0.9 || heuristics < 20 || heuristics > 60 {
		t.Errorf("preferences from %v to %v, %d of 200 flights by heuristics", d.low, d.high, heuristics)
	}
}

// Columns have mean 0 and deviation 1, but the preference, and a slot is standardised once as it is
// flown.
func TestPEDAStandardises(t *testing.T) {
	r := toyRun(t, 1)
	d := toyDataset(t, r, 40)
	omega := d.flights[0].omega
	d.standardise(r.World.Aircraft)
	first := &d.flights[0].transitions
	width := fleetWidth(r.World.Aircraft)
	if got := first.fleet[width-1]; got != float32(omega) {
		t.Errorf("preference %v became %v", omega, got)
	}
	fleet, users := d.moments(r.World.Aircraft)
	for name, m := range map[string]token.Moments{"fleet": fleet, "users": users} {
		for k := range m.Mean {
			if name == "fleet" && k == width-1 {
				continue
			}
			if math.Abs(m.Mean[k]) > 0.05 || math.Abs(m.Std[k]-1) > 0.3 { // some have a few values beyond the limit of 8
				t.Errorf("%s column %d has mean %v and deviation %v", name, k, m.Mean[k], m.Std[k])
			}
		}
	}
	before := slices.Clone(first.fleet)
	d.standardiseFrom(first, first.slots-1)
	if last := len(before) - width; slices.Equal(before, first.fleet) || !slices.Equal(before[:last], first.fleet[:last]) {
		t.Error("the last slot alone is to change")
	}
}

// Beyond its vertex a quadratic is held: delay does not fall with the preference, nor energy rise.
func TestConditionerIsMonotone(t *testing.T) {
	c := conditioner{{200, -400, 1000}, {40e3, -20e3, 12.5e3}} // vertices at 0.2 and 0.8
	for omega, want := range map[float64][objectives]float64{0: {160, 40e3}, 0.5: {250, 33125}, 1: {800, 32e3}} {
		got := c.at(omega)
		for j := range got {
			if math.Abs(got[j]-want[j]) > 1e-9 {
				t.Errorf("at %v: %v, want %v", omega, got, want)
			}
		}
	}
	if got := (&conditioner{{-10, 5, 1}, {1, 0, 0}}).at(0); got[0] != 0 {
		t.Errorf("a delay of %v is asked for", got[0])
	}
}

// A quadratic is found exactly, a line through it by least squares, the ideal point is the
// least of each return.
func TestFitConditioner(t *testing.T) {
	var omegas []float64
	var totals [][objectives]float64
	for _, w := range rollout.Linspace(0, 1, 5) {
		omegas, totals = append(omegas, w), append(totals, [objectives]float64{100 + 500*w*w, 40e3 - 13e3*w})
	}
	for targets, want := range map[string][objectives]float64{
		targetsQuadratic: {225, 33.5e3},
		targetsLinear:    {100 - 62.5 + 250, 33.5e3}, // of w^2 on these points: w - 0.125
		targetsIdeal:     {100, 27e3},
	} {
		c := offlinetest.Must(fitConditioner(targets, omegas, totals))(t)
		for j, got := range c.at(0.5) {
			if math.Abs(got-want[j]) > 1e-6 {
				t.Errorf("%s: %v, want %v", targets, c.at(0.5), want)
			}
		}
	}
	if _, err := fitConditioner(targetsQuadratic, omegas[:2], totals[:2]); err == nil {
		t.Error("two flights determine a quadratic")
	}
}

// Methods that learn from one corpus fly it once; another front's is flown anew.
func TestCorpusIsKept(t *testing.T) {
	r := toyRun(t, 1)
	r.Corpus = new(Corpus)
	var flown []*dataset
	for _, form := range []sequenceForm{formOf("prefdt"), {Targets: targetsLinear}, formOf("prefdt-rules")} {
		d := offlinetest.Must(r.corpus(t.Context(), &r.PEDA, form, toyFront(r)))(t)
		flown = append(flown, d)
	}
	if flown[0] != flown[1] || flown[0] == flown[2] {
		t.Error("the first two share a corpus, the third has its own")
	}
}
