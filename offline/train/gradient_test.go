package train

import (
	"math/rand/v2"
	"strings"
	"testing"

	"prefdt/inference/model"
	"prefdt/offline/corpus"
	"prefdt/offline/nn"
	"prefdt/offline/nn/nntest"
)

// randomExample draws a flight whose fleet and user sets change size, none
// included, with slots of no weight in it.
func randomExample(r *rand.Rand, slots int) *corpus.Example {
	e := &corpus.Example{Slots: slots}
	row := func(n int) []float32 { return nntest.Row(r, n) }
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
	w, g := nntest.Random[float64](arch.Tensors(), 1), nn.NewParams[float64](arch.Tensors())
	ex := randomExample(r, 24) // more than a chunk of queries, many windows
	n := newNetwork(arch, LossWeights{1, 3, 0.3, 1, 2}, w, g)
	loss := func() float64 {
		n.forward(ex)
		return n.setLoss(ex, 1).Loss
	}
	n.addGradient(ex, 1)
	for k, scale := range nntest.Gradients(t, w, g, 1e-9, loss) {
		name := w.Tensors[k].Name
		if scale < 1e-6 && !strings.HasSuffix(name, "pool.k") && !strings.HasSuffix(name, "pool.q") {
			t.Errorf("%s: gradient %.2g, the check would be empty", name, scale)
		}
	}
}
