package paperform

import (
	"fmt"
	"math"

	"prefdt/inference/goal"
	published "prefdt/inference/paperform"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/inference/token"
	"prefdt/offline/train"
)

// Policy flies trained parameters; it keeps a window of the last slots.
type Policy struct {
	network *network[float32]
	physics *physics.Constants
	builder *token.Builder
	columns featureColumns

	rows    token.Rows
	targets []physics.Position
	window  window
}

// NewPolicy returns a policy at the start of a mission, reading rows by
// Standard's statistics.
func NewPolicy(p *train.Params[float32], c *physics.Constants, constants *goal.Constants, statistics *token.Statistics) (*Policy, error) {
	columns, err := findFeatureColumns()
	if err != nil {
		return nil, err
	}
	policy := &Policy{network: newNetwork(p, nil), physics: c, builder: token.NewBuilder(c, constants, statistics), columns: columns}
	policy.Reset()
	return policy, nil
}

// Reset starts another mission.
func (p *Policy) Reset() {
	p.builder.Reset()
	p.window = window{AircraftCount: p.network.aircraft()}
}

// Decide fills d. It panics on a fleet of another size, which the paper's
// encoder cannot serve.
func (p *Policy) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Observation {
	m := len(s.Aircraft)
	if m != p.network.aircraft() {
		panic(fmt.Sprintf("paper form: %d aircraft, this network is bound to %d", m, p.network.aircraft()))
	}
	d.Resize(s)
	p.targets = p.targets[:0]
	for i := range s.Aircraft {
		p.targets = append(p.targets, s.Aircraft[i].Position) // no feature of the paper's reads them
	}
	p.builder.Fill(&p.rows, s, g, p.targets)
	if p.window.slots() == p.network.arch.Context {
		p.window = p.window.slice(1, p.window.slots())
	}
	p.window.appendSlot(&p.columns, &p.rows, s)
	p.network.forward(&p.window)

	last := p.window.slots() - 1
	first := p.network.choice.Value.Rows - len(s.Users)
	for u := range s.Users {
		best, row := 0, p.network.choice.Value.Row(first+u)
		for i, v := range row {
			if v > row[best] {
				best = i
			}
		}
		if best > 0 {
			d.Users[u] = slot.UserDecision{Server: best, Offload: (1 + float64(p.network.offload.Value.Row(first + u)[0])) / 2}
		}
	}
	flight := p.network.motion.Value.Row(last)
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
	p.window.Action = published.AppendAction(p.window.Action[:at], flight, servers, func(u int) float64 { return d.Users[u].Offload })
	return goal.Observation{}
}
