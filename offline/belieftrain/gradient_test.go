package belieftrain

import (
	"math/rand/v2"
	"testing"

	"prefdt/inference/belief/learned"
	"prefdt/inference/slot"
	"prefdt/offline/nn"
	"prefdt/offline/nn/nntest"
	"prefdt/simbridge/world"
)

// Every tensor's gradient agrees with central differences in float64.
func TestGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	w, g := nn.NewParams[float64](learned.Tensors()), nn.NewParams[float64](learned.Tensors())
	for i := range w.Data {
		w.Data[i] = 0.2 * r.NormFloat64()
	}
	n := newNetwork(w.Data, g.Data)
	flight := 0 // the first with everything in it
	for ; ; flight++ {
		c := Draw(flightRand(flight))
		if c.Sounding && c.Throttling.Factor > 0 && c.Wind.MeanMaxMPS > 0 && c.Payload.FactorMax > 0 {
			break
		}
	}
	loss := func() float64 {
		var sum Losses
		f := source{window: 12, slotShare: 0.05, seeds: []uint64{99_970}, params: make([]float32, len(w.Data))}
		f.fly(0, flight, func(m *learned.Memory, s *slot.Snapshot, h *world.Hidden) { n.addSlot(m, s, h, Weights{1, 1}, &sum) })
		if sum.Links == 0 || sum.Phones == 0 {
			t.Fatalf("%+v: a network is not tried", sum)
		}
		return sum.Link + sum.Phone
	}
	loss()
	for k, size := range nntest.Gradients(t, w, g, 1e-6, loss) {
		if size < 1e-4 {
			t.Errorf("%s: gradient %.2g, the check would be empty", w.Tensors[k].Name, size)
		}
	}
}
