package belieftrain

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/belief/learned"
	"prefdt/inference/slot"
	"prefdt/simbridge/world"
)

// Every tensor's gradient agrees with central differences in float64.
func TestGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	w, g := make([]float64, learned.ParameterCount()), make([]float64, learned.ParameterCount())
	for i := range w {
		w[i] = 0.2 * r.NormFloat64()
	}
	n := newNetwork(w, g)
	flight := 0 // the first with everything in it
	for ; ; flight++ {
		c := Draw(flightRand(flight))
		if c.Sounding && c.Throttling.Factor > 0 && c.Wind.MeanMaxMPS > 0 && c.Payload.FactorMax > 0 {
			break
		}
	}
	loss := func() float64 {
		var sum Losses
		f := source{window: 12, slotShare: 0.05, seeds: []uint64{99_970}, params: make([]float32, len(w))}
		f.fly(0, flight, func(m *learned.Memory, s *slot.Snapshot, h *world.Hidden) { n.addSlot(m, s, h, Weights{1, 1}, &sum) })
		if sum.Links == 0 || sum.Phones == 0 {
			t.Fatalf("%+v: a network is not tried", sum)
		}
		return sum.Link + sum.Phone
	}
	loss()
	gradient := append([]float64(nil), g...)
	at := 0
	for _, tensor := range learned.Tensors() {
		var worst, size float64
		for k := range 3 {
			i := at + (k*7919)%tensor.Size()
			const h = 1e-5
			saved := w[i]
			w[i] = saved + h
			up := loss()
			w[i] = saved - h
			down := loss()
			w[i] = saved
			want := (up - down) / (2 * h)
			worst = max(worst, math.Abs(gradient[i]-want))
			size = max(size, math.Abs(want))
		}
		if size < 1e-4 {
			t.Errorf("%s: gradient %.2g, the check would be empty", tensor.Name, size)
		}
		if worst > 1e-5*size+1e-6 {
			t.Errorf("%s: gradient off by %.3g of %.3g", tensor.Name, worst, size)
		}
		at += tensor.Size()
	}
}
