package paperform

import (
	"fmt"
	"math"
	"math/rand/v2"

	"prefdt/inference/goal"
	"prefdt/inference/model"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/inference/token"
	"prefdt/offline/corpus"
	"prefdt/offline/train"
)

// New starts the training of a network bound to so many aircraft and slots.
// Episodes of the source, standardised by Standard's statistics, are cut into
// windows at random places, as DT trains.
func New(c train.Config, aircraft, slots int, source train.Source) (*train.Trainer, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	columns, err := findFeatureColumns()
	if err != nil {
		return nil, err
	}
	type worker struct {
		ep    corpus.Example
		whole window
		tape  tape[float32]
	}
	workers := make([]worker, c.Workers)
	return train.NewWithGradient(c, tensors(c.Arch, aircraft, slots), func(k, i int, w, g *train.Params[float32], scale float64) (sum train.LossTerms, tokens int, err error) {
		me := &workers[k]
		me.ep.Reset()
		if err := source(k, i, &me.ep); err != nil {
			return sum, 0, err
		}
		if err := me.whole.readEpisode(&columns, &me.ep, aircraft); err != nil {
			return sum, 0, err
		}
		n := me.whole.slots()
		for first, end := 0, 1+rand.New(rand.NewPCG(c.Seed, uint64(i))).IntN(c.Arch.Context); first < n; first, end = end, end+c.Arch.Context {
			end = min(end, n)
			part := float64(end-first) / float64(n)
			win := me.whole.slice(first, end)
			me.tape.forward(w, &win)
			terms, out := me.tape.loss(scale * part)
			me.tape.backward(w, g, out)
			sum.Add(terms.Scaled(part))
		}
		return sum, model.TokensPerSlot * n, nil
	})
}

// Policy flies trained parameters; it remembers the last slots.
type Policy struct {
	params   *train.Params[float32]
	physics  *physics.Constants
	builder  *token.Builder
	columns  featureColumns
	aircraft int

	rows    token.Rows
	targets []physics.Position
	window  window
	tape    tape[float32]
}

// NewPolicy returns a policy at the start of a mission, reading rows by
// Standard's statistics.
func NewPolicy(p *train.Params[float32], c *physics.Constants, scales *goal.Constants, standard *token.Statistics) (*Policy, error) {
	columns, err := findFeatureColumns()
	if err != nil {
		return nil, err
	}
	policy := &Policy{params: p, physics: c, builder: token.NewBuilder(c, scales, standard), columns: columns, aircraft: p.Matrix("flight.w").Cols / 2}
	policy.Reset()
	return policy, nil
}

// Reset starts another mission.
func (p *Policy) Reset() {
	p.builder.Reset()
	p.window = window{AircraftCount: p.aircraft}
}

// Decide fills d. It panics on a fleet of another size, which the paper's
// encoder cannot serve.
func (p *Policy) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Observation {
	m := len(s.Aircraft)
	if m != p.aircraft {
		panic(fmt.Sprintf("paper form: %d aircraft, this network is bound to %d", m, p.aircraft))
	}
	d.Resize(s)
	p.targets = p.targets[:0]
	for i := range s.Aircraft {
		p.targets = append(p.targets, s.Aircraft[i].Position) // no feature of the paper's reads them
	}
	p.builder.Fill(&p.rows, s, g, p.targets)
	if p.window.slots() == p.params.Arch.Context {
		p.window.dropFirst()
	}
	p.window.appendSlot(&p.columns, &p.rows, s)
	p.tape.forward(p.params, &p.window)

	last := p.window.slots() - 1
	first := p.tape.choice.Rows - len(s.Users)
	for u := range s.Users {
		best, row := 0, p.tape.choice.Row(first+u)
		for i, v := range row {
			if v > row[best] {
				best = i
			}
		}
		if best > 0 {
			d.Users[u] = slot.UserDecision{Server: best, Offload: (1 + float64(p.tape.offload.Row(first + u)[0])) / 2}
		}
	}
	flight := p.tape.motion.Row(last)
	for i := range s.Aircraft {
		length := p.physics.SpeedMaxMPS * (1 + float64(flight[2*i])) / 2
		north, east := math.Sincos(math.Pi * (1 + float64(flight[2*i+1])))
		d.Move[i] = physics.Position{EastM: length * east, NorthM: length * north}
	}
	d.Evaluate(p.physics, s)
	servers := make([]int, len(s.Users))
	for u := range servers {
		servers[u] = d.Users[u].Server
	}
	at := last * aircraftActionFeatures * m
	p.window.Action = appendAction(p.window.Action[:at], flight, servers, func(u int) float64 { return d.Users[u].Offload })
	return goal.Observation{}
}
