package belieftrain

import (
	"math/rand/v2"
	"slices"
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
	var slots []exampleSlot // flown once: the flight is not by these parameters
	f := source{window: 12, slotShare: 0.05, seeds: []uint64{99_970}, params: make([]float32, len(w.Data))}
	f.fly(0, flight, func(m *learned.Memory, s *slot.Snapshot, h *world.Hidden) { slots = append(slots, keepSlot(m, s, h)) })
	slots = slots[:1] // with all links and phones in them
	loss := func() float64 {
		var sum Losses
		for i := range slots {
			x := &slots[i]
			n.addSlot(&x.memory, &x.snapshot, &x.hidden, Weights{1, 1}, &sum)
		}
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

// exampleSlot is what addSlot reads of a slot.
type exampleSlot struct {
	memory   learned.Memory
	snapshot slot.Snapshot
	hidden   world.Hidden
}

func keepSlot(m *learned.Memory, s *slot.Snapshot, h *world.Hidden) (x exampleSlot) {
	x.memory = learned.Memory{Surroundings: m.Surroundings, Links: keepBatch(&m.Links), LinkPriors: slices.Clone(m.LinkPriors),
		Phones: keepBatch(&m.Phones)}
	x.snapshot.Users, x.snapshot.Aircraft = slices.Clone(s.Users), slices.Clone(s.Aircraft)
	x.hidden.Throttled = slices.Clone(h.Throttled)
	for _, gains := range h.UploadGain {
		x.hidden.UploadGain = append(x.hidden.UploadGain, slices.Clone(gains))
	}
	return x
}

func keepBatch(b *learned.Batch) learned.Batch {
	return learned.Batch{Queries: slices.Clone(b.Queries), Rows: slices.Clone(b.Rows), Counts: slices.Clone(b.Counts)}
}
