package belieftrain

import (
	"math"

	"prefdt/inference/belief/learned"
	"prefdt/inference/kernel"
	"prefdt/inference/slot"
	"prefdt/simbridge/world"
)

// Losses are the sums of a flight's losses, each with its number of examples.
type Losses struct {
	Link, Phone   float64
	Links, Phones int
	LinkSquare    float64 // squared error of the mean logarithm of gain
}

// Weights are the factors of the losses.
type Weights struct{ Link, Phone float64 }

// network computes the gradient of flights.
type network[T kernel.Float] struct {
	nets     *learned.Networks[T]
	gradient *learned.Networks[T]
	back     backward[T]
	dy       kernel.Matrix[T]
}

func newNetwork[T kernel.Float](w, g []T) *network[T] {
	return &network[T]{nets: learned.NewNetworks(w), gradient: learned.NewNetworks(g)}
}

// addSlot adds the losses of one slot, and their weighted gradient.
func (n *network[T]) addSlot(m *learned.Memory, s *slot.Snapshot, h *world.Hidden, w Weights, sum *Losses) {
	if len(m.LinkPriors) > 0 {
		n.addLinks(m, s, h, w.Link, sum)
	}
	if m.Slow > 0 && len(s.Users) > 0 {
		n.addPhones(m, s, h, w.Phone, sum)
	}
}

func (n *network[T]) addLinks(m *learned.Memory, s *slot.Snapshot, h *world.Hidden, scale float64, sum *Losses) {
	y := n.nets.Links.Forward(&m.Links)
	dy := resized(&n.dy, y.Rows, y.Cols)
	var row, grad [learned.LinkOutputs]float64
	for i := range m.LinkPriors {
		for k, v := range y.Row(i) {
			row[k] = float64(v)
		}
		logG := math.Log(h.UploadGain[i/len(s.Aircraft)][i%len(s.Aircraft)])
		mixture := learned.Change(&m.LinkPriors[i], row[:])
		sum.Link += m.LinkPriors[i].Loss(&mixture, row[:], logG, &grad)
		mean, _ := mixture.Moments()
		sum.LinkSquare += (mean - logG) * (mean - logG)
		for k, g := range grad {
			dy.Row(i)[k] = T(scale * g)
		}
	}
	sum.Links += y.Rows
	n.back.run(&n.nets.Links, dy, &n.gradient.Links.Layers)
}

func (n *network[T]) addPhones(m *learned.Memory, s *slot.Snapshot, h *world.Hidden, scale float64, sum *Losses) {
	y := n.nets.Phones.Forward(&m.Phones)
	dy := resized(&n.dy, y.Rows, y.Cols)
	for i := range s.Users {
		p, want := learned.Throttled(float64(y.Data[i])), 0.0
		if h.Throttled[s.Users[i].ID] {
			want = 1
		}
		sum.Phone -= math.Log(max(1-math.Abs(want-p), 1e-12))
		dy.Data[i] = T(scale * (p - want))
	}
	sum.Phones += y.Rows
	n.back.run(&n.nets.Phones, dy, &n.gradient.Phones.Layers)
}
