package paperform

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"prefdt/inference/goal"
	"prefdt/inference/model"
	published "prefdt/inference/paperform"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/inference/token"
	"prefdt/offline/corpus"
	"prefdt/offline/train"
	"prefdt/simbridge/world"
)

var smallArch = model.Arch{Width: 8, PairWidth: 6, Layers: 2, Heads: 2, Context: 7}

// randomWindow draws slots whose user sets change size, none included.
func randomWindow(r *rand.Rand, slots, aircraft int) *window {
	row := func(n int) (x []float32) {
		for range n {
			x = append(x, float32(r.NormFloat64()))
		}
		return x
	}
	w := &window{AircraftCount: aircraft, FirstSlot: 3}
	for range slots {
		n := r.IntN(4)
		w.UserCounts = append(w.UserCounts, n)
		w.AircraftRows = append(w.AircraftRows, row(aircraft*aircraftFeatures)...)
		w.Pairs = append(w.Pairs, row(aircraft*n*userFeatures)...)
		w.Return, w.Omega = append(w.Return, row(returnFeatures)...), append(w.Omega, row(1)...)
		w.Action = append(w.Action, row(aircraft*aircraftActionFeatures)...)
		w.Motion = append(w.Motion, row(2*aircraft)...)
		for range n {
			w.Server, w.Offload = append(w.Server, r.IntN(aircraft+1)), append(w.Offload, 2*r.Float32()-1)
		}
	}
	return w
}

// Every tensor's gradient agrees with central differences in float64.
func TestGradients(t *testing.T) {
	const aircraft = 2
	list := tensors(smallArch, aircraft, 12)
	r := rand.New(rand.NewPCG(3, 4))
	w, g := train.NewParams[float64](smallArch, list), train.NewParams[float64](smallArch, list)
	w.Init(1)
	for i := range w.Data {
		w.Data[i] += 0.1 * r.NormFloat64()
	}
	win := randomWindow(r, smallArch.Context, aircraft)
	n := newNetwork(w, g)
	loss := func() float64 {
		n.forward(win)
		return n.setLoss(win, 1).Loss
	}
	loss()
	n.tape.Backward()
	at := 0
	for _, tensor := range list {
		var worst, scale float64
		for k := range 12 {
			i := at + (k*7919+5*tensor.Cols)%tensor.Size()
			saved := w.Data[i]
			const h = 1e-5
			w.Data[i] = saved + h
			up := loss()
			w.Data[i] = saved - h
			down := loss()
			w.Data[i] = saved
			want := (up - down) / (2 * h)
			worst, scale = max(worst, math.Abs(g.Data[i]-want)), max(scale, math.Abs(want), math.Abs(g.Data[i]))
		}
		if scale < 1e-6 {
			t.Errorf("%s: gradient %.2g, the check would be empty", tensor.Name, scale)
		}
		if worst > 1e-5*scale+1e-9 {
			t.Errorf("%s: gradient off by %.3g of %.3g", tensor.Name, worst, scale)
		}
		at += tensor.Size()
	}
}

// A slot's answer depends on no later slot and not on its own action.
func TestCausal(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	list := tensors(smallArch, 2, 12)
	w := train.NewParams[float32](smallArch, list)
	w.Init(2)
	win := randomWindow(r, smallArch.Context, 2)
	n := newNetwork(w, nil)
	n.forward(win)
	want := slices.Clone(n.motion.Value.Row(3))
	cut := win.slice(0, 4)
	for i := 3 * 2 * aircraftActionFeatures; i < len(cut.Action); i++ {
		cut.Action[i] += 1
	}
	n.forward(&cut)
	for i, x := range n.motion.Value.Row(3) {
		if math.Abs(float64(x-want[i])) > 1e-5 {
			t.Errorf("flight %d is %v, with later slots %v", i, x, want[i])
		}
	}
}

// What flies is what was trained: the policy's decisions on a flight are those
// of training on the window that ends there.
func TestPolicyEqualsTraining(t *testing.T) {
	c := world.Standard()
	c.Slots = 12
	scales := goal.Constants{EtaDelayS: 600, EtaEnergyJ: 12e3, Slots: 12, AircraftCount: 2,
		Conditioner: goal.Conditioner{Omegas: []float64{0, 0.5, 1}, DelayS: []float64{90, 200, 700}, EnergyJ: []float64{39e3, 29e3, 27e3}},
		SettingMap:  goal.SettingMap{Omegas: []float64{0, 1}}}
	params := train.NewParams[float32](smallArch, tensors(smallArch, 2, 12))
	params.Init(3)
	statistics := Standard(token.IdentityStatistics())
	policy, err := NewPolicy(params, &c.Physics, &scales, &statistics)
	if err != nil {
		t.Fatal(err)
	}
	columns, err := findFeatureColumns()
	if err != nil {
		t.Fatal(err)
	}
	w := world.New(c, 7)
	g := goal.New(&scales, &c.Physics, c.Slots, c.Aircraft)
	builder := token.NewBuilder(&c.Physics, &scales, &statistics)
	ex := corpus.Example{}
	ex.Labels.MoveScale = 1
	var snapshot slot.Snapshot
	var d slot.Decision
	var action world.Action
	var rows token.Rows
	var moves [][]physics.Position
	for !w.Done() {
		w.Snapshot(&snapshot)
		builder.Fill(&rows, &snapshot, g, []physics.Position{{}, {}})
		policy.Decide(&snapshot, g, &d)
		ex.Slots++
		ex.AircraftPerSlot, ex.UsersPerSlot = append(ex.AircraftPerSlot, 2), append(ex.UsersPerSlot, len(snapshot.Users))
		ex.Aircraft, ex.Pairs = append(ex.Aircraft, rows.Aircraft...), append(ex.Pairs, rows.Pairs...)
		ex.State, ex.Return = append(ex.State, rows.State...), append(ex.Return, rows.Return...)
		for _, u := range d.Users {
			ex.Labels.Server, ex.Labels.Offload = append(ex.Labels.Server, u.Server), append(ex.Labels.Offload, float32(u.Offload))
		}
		for _, m := range d.Move {
			ex.Labels.Move = append(ex.Labels.Move, float32(m.EastM/c.Physics.SpeedMaxMPS), float32(m.NorthM/c.Physics.SpeedMaxMPS))
		}
		moves = append(moves, slices.Clone(d.Move))
		w.FillAction(&snapshot, &d, &action)
		o := w.Step(action)
		g.Settle(goal.Settlement{DelayS: o.DelayS, EnergyJ: o.EnergyJ(), Flying: 2})
	}
	var whole window
	if err := whole.readExample(&columns, &ex, 2); err != nil {
		t.Fatal(err)
	}
	n := newNetwork(params, nil)
	for s := range moves {
		win := whole.slice(max(s-smallArch.Context+1, 0), s+1)
		n.forward(&win)
		length, heading := published.Polar(moves[s][0].EastM/c.Physics.SpeedMaxMPS, moves[s][0].NorthM/c.Physics.SpeedMaxMPS)
		got := n.motion.Value.Row(win.slots() - 1)
		if math.Abs(float64(got[0]-length)) > 1e-4 || math.Abs(float64(got[1]-heading)) > 1e-3 {
			t.Errorf("slot %d: training answers %v, the policy flew (%v, %v)", s, got[:2], length, heading)
		}
	}
	if err := whole.readExample(&columns, &ex, 3); err == nil || !strings.Contains(err.Error(), "bound to 3") {
		t.Errorf("another fleet was read: %v", err)
	}
}
