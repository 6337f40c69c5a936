package train

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"prefdt/inference/model"
	"prefdt/offline/corpus"
)

// randomExample draws a flight whose fleet and user sets change size, none
// included, with slots of no weight in it.
func randomExample(r *rand.Rand, slots int) *corpus.Example {
	e := &corpus.Example{Slots: slots}
	row := func(n int) (x []float32) {
		for range n {
			x = append(x, float32(r.NormFloat64()))
		}
		return x
	}
	for s := range slots {
		m, u := 1+r.IntN(3), r.IntN(4)
		e.AircraftPerSlot, e.UsersPerSlot = append(e.AircraftPerSlot, m), append(e.UsersPerSlot, u)
		e.Aircraft = append(e.Aircraft, row(m*model.AircraftFeatures)...)
		e.Pairs = append(e.Pairs, row(m*u*model.PairFeatures)...)
		e.State = append(e.State, row(model.StateFeatures)...)
		e.Return = append(e.Return, row(model.ReturnFeatures)...)
		e.Action = append(e.Action, row(model.ActionFeatures)...)
		e.Labels.SlotWeight = append(e.Labels.SlotWeight, float32(min(s%3, 1)))
		e.Labels.PricePosition = append(e.Labels.PricePosition, r.Float32())
		e.Labels.Move = append(e.Labels.Move, row(2*m)...)
		for range u {
			e.Labels.Server = append(e.Labels.Server, r.IntN(m+1))
			e.Labels.Offload = append(e.Labels.Offload, r.Float32())
			e.Labels.MeetsDeadline = append(e.Labels.MeetsDeadline, float32(r.IntN(2)))
		}
	}
	e.Labels.MoveScale = 3.6
	return e
}

// Every tensor's gradient agrees with central differences in float64.
func TestGradients(t *testing.T) {
	arch := model.Arch{Width: 8, PairWidth: 6, Layers: 2, Heads: 2, Context: 3}
	r := rand.New(rand.NewPCG(3, 4))
	w, g := NewParams[float64](arch, arch.Tensors()), NewParams[float64](arch, arch.Tensors())
	w.Init(1)
	for i := range w.Data {
		w.Data[i] += 0.1 * r.NormFloat64() // move biases and gains off their neutral values
	}
	ex := randomExample(r, 24) // more than a chunk of queries, many windows
	n := newNetwork(LossWeights{1, 3, 0.3, 1, 2}, w, g)
	loss := func() float64 {
		n.forward(ex)
		return n.setLoss(ex, 1).Loss
	}
	if _, err := n.AddGradient(0, ex, 1); err != nil {
		t.Fatal(err)
	}

	at := 0
	for _, tensor := range arch.Tensors() {
		var worst, scale float64
		for k := range 8 {
			i := at + (k*7919)%tensor.Size()
			saved := w.Data[i]
			const h = 1e-5
			w.Data[i] = saved + h
			up := loss()
			w.Data[i] = saved - h
			down := loss()
			w.Data[i] = saved
			want := (up - down) / (2 * h)
			worst = max(worst, math.Abs(g.Data[i]-want))
			scale = max(scale, math.Abs(want), math.Abs(g.Data[i]))
		}
		// The loss is about 5, so a central difference is good to about 1e-10.
		if scale < 1e-6 && !strings.HasSuffix(tensor.Name, "pool.k") && !strings.HasSuffix(tensor.Name, "pool.q") {
			t.Errorf("%s: gradient %.2g, the check would be empty", tensor.Name, scale)
		}
		if worst > 1e-5*scale+1e-9 {
			t.Errorf("%s: gradient off by %.3g of %.3g", tensor.Name, worst, scale)
		}
		at += tensor.Size()
	}
}

// What an episode leaves in the arena does not reach the next one.
func TestArenaIsNotRead(t *testing.T) {
	arch := model.Arch{Width: 16, PairWidth: 8, Layers: 2, Heads: 2, Context: 3}
	w, first, second := NewParams[float32](arch, arch.Tensors()), NewParams[float32](arch, arch.Tensors()), NewParams[float32](arch, arch.Tensors())
	w.Init(1)
	ex := randomExample(rand.New(rand.NewPCG(5, 6)), 30)
	n := newNetwork(Default().LossWeights, w, first)
	n.AddGradient(0, ex, 1)
	for _, c := range n.tape.arena.chunks {
		for i := range c {
			c[i] = float32(math.NaN())
		}
	}
	Bind(n.weights.List(), w, second)
	n.AddGradient(0, ex, 1)
	if !slices.Equal(first.Data, second.Data) {
		t.Error("the gradient depends on what the arena held")
	}
}
