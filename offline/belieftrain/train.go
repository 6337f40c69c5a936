// Package belieftrain fits the estimator of package learned to the hidden state of
// simulated flights.
package belieftrain

import (
	"context"
	"io"
	"math"
	"math/rand/v2"

	"prefdt/inference/belief"
	"prefdt/inference/belief/learned"
	"prefdt/inference/goal"
	"prefdt/inference/kernel"
	"prefdt/inference/slot"
	"prefdt/offline/baseline"
	"prefdt/offline/corpus"
	"prefdt/offline/teacher"
	"prefdt/offline/train"
	"prefdt/simbridge/world"
)

// SurroundingsOf returns what is configured of a world.
func SurroundingsOf(c *world.Config) learned.Surroundings {
	return learned.Surroundings{
		Physics: &c.Physics, Sounding: c.Sounding, Wind: c.Wind.MeanMaxMPS > 0,
		Payload: c.Payload.FactorMax > 0, Slow: c.Throttling.Factor,
	}
}

// Losses are the sums of a flight's losses, each with its number of examples.
type Losses struct {
	Link, Phone, Wind    float64
	Links, Phones, Winds int
	LinkSquare           float64 // squared error of the mean logarithm of gain
}

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

// addSlot adds the losses of one slot, and scale times their gradient.
func (n *network[T]) addSlot(m *learned.Memory, s *slot.Snapshot, h *world.Hidden, scale *[3]float64, sum *Losses) {
	if len(m.Soundings) > 0 {
		n.addLinks(m, s, h, scale[0], sum)
	}
	if m.Slow > 0 && len(s.Users) > 0 {
		n.addPhones(m, s, h, scale[1], sum)
	}
	if m.Wind || m.Payload {
		n.addWind(m, h, scale[2], sum)
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
)

// addWind adds the negative logarithm of the density of the true wind and multiplier
// under the mixture of the candidates.
func (n *network[T]) addWind(m *learned.Memory, h *world.Hidden, scale float64, sum *Losses) {
	y := n.nets.Winds.Forward(&learned.Batch{Queries: m.WindFeatures})
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
	total := 0.0
	for _, x := range n.dwinds {
		total += math.Exp(x - top)
	}
	total = top + math.Log(total)
	sum.Wind -= total
	sum.Winds++
	for i, x := range n.dwinds {
		share := math.Exp(x - total) // of the candidate, a posteriori
		row := dy.Row(i)
		row[0], row[1] = T(scale*(w.Probability[i]-share)), 0
		if m.Payload {
			row[1] = T(scale * share * (w.LogFactor[i] - factor) / (multiplierSD * multiplierSD) * learned.MultiplierStep)
		}
	}
	n.back.run(&n.nets.Winds, dy, &n.gradient.Winds.Layers)
}

// source flies the flights that a network learns from.
type source struct {
	options  *Options
	params   []float32 // of the student
	world    world.World
	snapshot slot.Snapshot
	hidden   world.Hidden
	decision slot.Decision
	action   world.Action
}

// Options of a run.
type Options struct {
	Window      int
	Steps       int
	FirstSeed   uint64
	Seeds       uint64
	SlotShare   float64 // of slots that are learned from
	StudentFrom int     // step from which most flights are the student's
}

// fly flies flight i and calls each on some of its slots.
func (f *source) fly(step, i int, each func(m *learned.Memory, s *slot.Snapshot, h *world.Hidden)) {
	r := rand.New(rand.NewPCG(uint64(i), 0x62656c69656673))
	c := Draw(r)
	var e belief.Estimator
	students := 0.3
	if step >= f.options.StudentFrom {
		students = 0.7
	}
	switch x := r.Float64(); {
	case x < students:
		e = learned.New(SurroundingsOf(&c), &learned.Parameters{Window: f.options.Window, Data: f.params})
	case x < students+0.4*(1-students):
		e = &baseline.Truth{}
	case x < students+0.7*(1-students):
		e = baseline.NewFilter(&c)
	default:
		e = baseline.NewMemoryless(&c)
	}
	prices := teacher.PricesIn(&c, 64)
	b := baseline.NewBelieving(&c.Physics, e, prices[r.IntN(len(prices))])
	w := &f.world
	w.Config = c
	w.Reset(f.options.FirstSeed + uint64(i)%f.options.Seeds)
	b.Watch(w)
	b.Reset()
	m := learned.NewMemory(SurroundingsOf(&w.Config), f.options.Window)
	for !w.Done() {
		w.Snapshot(&f.snapshot)
		m.Observe(&f.snapshot)
		if r.Float64() < f.options.SlotShare {
			w.Hidden(&f.hidden)
			each(m, &f.snapshot, &f.hidden)
		}
		b.Decide(&f.snapshot, goal.Objective{}, &f.decision)
		w.FillAction(&f.snapshot, &f.decision, &f.action)
		w.Step(f.action)
	}
}

// worker is one worker's part in training. It implements train.Network.
type worker struct {
	network *network[float32]
	source  source
	batch   int
	slots   float64 // learned from in a flight, about
}

// AddGradient implements train.Network.
func (k *worker) AddGradient(i int, _ *corpus.Example, scale float64) (train.LossTerms, error) {
	var sum Losses
	each := scale / k.slots
	scales := [3]float64{each / 12, each / 6, 0.3 * each}
	k.source.fly(i/k.batch, i, func(m *learned.Memory, s *slot.Snapshot, h *world.Hidden) { k.network.addSlot(m, s, h, &scales, &sum) })
	var t train.LossTerms
	t.Association, t.DeadlineClass, t.Move = sum.Link/k.slots/12, sum.Phone/k.slots/6, sum.Wind/k.slots
	t.Price = sum.LinkSquare / float64(max(sum.Links, 1))
	t.Loss = t.Association + t.DeadlineClass + 0.3*t.Move
	return t, nil
}

// New returns a run.
func New(c train.Config, o Options) (*train.Trainer, error) {
	none := func(_, _ int, _ *corpus.Example) error { return nil }
	return train.NewWithNetwork(c, none, learned.Tensors(), func(w, g *train.Params[float32]) train.Network {
		return &worker{
			network: newNetwork(w.Data, g.Data), source: source{options: &o, params: w.Data},
			batch: c.Batch, slots: o.SlotShare * 100,
		}
	})
}

// Run trains in a folder, from the state in it if there is one.
func Run(ctx context.Context, c train.Config, o Options, dir string, stdout io.Writer) (*train.Trainer, error) {
	t, err := New(c, o)
	if err != nil {
		return nil, err
	}
	return t, t.Run(ctx, dir, 100, 0, nil, stdout)
}
