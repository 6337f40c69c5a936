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
	Link, Phone, Wind    float64
	Links, Phones, Winds int
	LinkSquare           float64 // squared error of the mean logarithm of gain
}

// Weights are the factors of the three losses.
type Weights struct{ Link, Phone, Wind float64 }

// network computes the gradient of flights.
type network[T kernel.Float] struct {
	nets     *learned.Networks[T]
	gradient *learned.Networks[T]
	back     backward[T]
	dy       kernel.Matrix[T]
	winds    learned.Winds
	dwinds   []float64
}

func newNetwork[T kernel.Float](w, g []T) *network[T] {
	return &network[T]{nets: learned.NewNetworks(w), gradient: learned.NewNetworks(g)}
}

// addSlot adds the losses of one slot, and their weighted gradient.
func (n *network[T]) addSlot(m *learned.Memory, s *slot.Snapshot, h *world.Hidden, w Weights, sum *Losses) {
	if len(m.Soundings) > 0 {
		n.addLinks(m, s, h, w.Link, sum)
	}
	if m.Slow > 0 && len(s.Users) > 0 {
		n.addPhones(m, s, h, w.Phone, sum)
	}
	if m.Wind || m.Payload {
		n.addWind(m, h, w.Wind, sum)
	}
}

func (n *network[T]) addLinks(m *learned.Memory, s *slot.Snapshot, h *world.Hidden, scale float64, sum *Losses) {
	y := n.nets.Links.Forward(&m.Links)
	dy := reuse(&n.dy, y.Rows, y.Cols)
	var row, grad [learned.LinkOutputs]float64
	for i := range m.Soundings {
		for k, v := range y.Row(i) {
			row[k] = float64(v)
		}
		logG := math.Log(h.UploadGain[i/len(s.Aircraft)][i%len(s.Aircraft)])
		mixture := learned.Change(&m.Soundings[i], row[:])
		sum.Link += m.Soundings[i].Loss(&mixture, row[:], logG, &grad)
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
	dy := reuse(&n.dy, y.Rows, y.Cols)
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

// What the loss allows a candidate wind and its multiplier to be off by.
const (
	windSDMPS    = 1.0
	multiplierSD = 0.05
	// What is added to the likelihood, a fiftieth of that of no knowledge, so that the few
	// winds that no belief foresees do not outweigh all others.
	windSurprise = 6e-5
)

// addWind adds the negative logarithm of the density of the true wind and multiplier
// under the mixture of the candidates.
func (n *network[T]) addWind(m *learned.Memory, h *world.Hidden, scale float64, sum *Losses) {
	y := n.nets.Winds.Forward(&learned.Batch{Queries: m.WindQueries()})
	dy := reuse(&n.dy, y.Rows, y.Cols)
	learned.Believe(m, y.Data, &n.winds)
	w := &n.winds
	n.dwinds = n.dwinds[:0]
	factor, top := math.Log(h.PowerFactor), math.Inf(-1)
	for i, at := range w.Candidates {
		d, f := at.Sub(h.WindMPS).Norm()/windSDMPS, 0.0
		if m.Payload {
			f = (factor - w.LogFactor[i]) / multiplierSD
		}
		x := math.Log(max(w.Probability[i], 1e-30)) - (d*d+f*f)/2
		n.dwinds = append(n.dwinds, x)
		top = max(top, x)
	}
	total := windSurprise * math.Exp(-top)
	for _, x := range n.dwinds {
		total += math.Exp(x - top)
	}
	total = top + math.Log(total)
	sum.Wind -= total
	sum.Winds++
	foreseen := 1 - windSurprise*math.Exp(-total)
	for i, x := range n.dwinds {
		share := math.Exp(x - total) // of the candidate, a posteriori
		row := dy.Row(i)
		row[0], row[1] = T(scale*(w.Probability[i]*foreseen-share)), 0
		if m.Payload {
			row[1] = T(scale * share * (w.LogFactor[i] - factor) / (multiplierSD * multiplierSD) * learned.MultiplierStep)
		}
	}
	n.back.run(&n.nets.Winds, dy, &n.gradient.Winds.Layers)
}
