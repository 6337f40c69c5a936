// Package inference is the frozen policy. A snapshot and what is still asked
// of the mission come in, the joint decision of the slot goes out; nothing is
// solved over time, no weight changes. It stands between the report window and
// the flight envelope.
//
// Decide is one straight line: motion targets, tokens, the network's step
// against its rolling cache, and one of three decoders of the same outputs.
package inference

import (
	"fmt"
	"math"

	"prefdt/inference/checkpoint"
	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/model"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/inference/token"
	"prefdt/inference/tracking"
)

// Decoder names how the network's outputs become a decision.
type Decoder string

const (
	// Heads takes association and offload as the heads give them (the paper's).
	Heads Decoder = "heads"
	// Snapped takes the heads' association, and the offload at the closed-form
	// balance or deadline point of the actual shares.
	Snapped Decoder = "snapped"
	// Dispatch takes the predicted price into the exact dispatch.
	Dispatch Decoder = "dispatch"
)

// Decoders lists them.
func Decoders() []Decoder { return []Decoder{Dispatch, Snapped, Heads} }

// Policy is one mission's policy; it remembers the last slots.
type Policy struct {
	frozen  *checkpoint.Checkpoint
	decoder Decoder
	speed   float64 // v*

	tracker   tracking.Tracker
	targets   []physics.Position
	builder   *token.Builder
	rows      token.Rows
	inputs    model.Inputs
	outputs   model.Outputs
	cache     *model.Cache
	solver    dispatch.Solver
	envelope  tracking.Envelope
	positions []physics.Position
}

// New returns a policy at the start of a mission.
func New(frozen *checkpoint.Checkpoint, decoder Decoder) (*Policy, error) {
	if decoder != Heads && decoder != Snapped && decoder != Dispatch {
		return nil, fmt.Errorf("decoder is %q, want one of %q", decoder, Decoders())
	}
	c := &frozen.Physics
	return &Policy{
		frozen: frozen, decoder: decoder, speed: c.Propulsion.BestSpeedMPS(c.SpeedMaxMPS),
		builder: token.NewBuilder(c, &frozen.Scales, &frozen.Standard), cache: frozen.Net.NewCache(),
	}, nil
}

// Reset starts another mission in the same memory.
func (p *Policy) Reset() {
	p.tracker.Reset()
	p.builder.Reset()
	p.cache.Reset()
}

// Decide fills d with the joint decision of a slot. Users and aircraft may be
// any number, none included. It allocates nothing once it has seen as many.
func (p *Policy) Decide(s *slot.Snapshot, g *goal.Goal, d *slot.Decision) {
	d.Size(s)
	p.tracker.Observe(s.Users)
	if len(s.Aircraft) == 0 {
		d.Price(&p.frozen.Physics, s)
		return
	}
	p.targets = p.tracker.Targets(s.Aircraft, p.targets)
	p.builder.Fill(&p.rows, s, g, p.targets)
	p.inputs = model.Inputs{
		M: len(s.Aircraft), U: len(s.Users),
		Aircraft: p.rows.Aircraft, Pairs: p.rows.Pairs, State: p.rows.State, Return: p.rows.Return, Action: p.rows.Action,
	}
	p.frozen.Net.Step(&p.inputs, p.cache, &p.outputs)
	p.decode(s, g, d)
	if g.Mode == goal.Ceiling {
		p.guard(s, g, d)
	}
	p.move(s, d)
	p.builder.Acted(s, g, d)
}

// decode turns the outputs into associations and offload ratios.
func (p *Policy) decode(s *slot.Snapshot, g *goal.Goal, d *slot.Decision) {
	place := float64(p.outputs.Price)
	if g.Priced() {
		place = p.frozen.Scales.Place(g.Omega) // the request is itself a price
	}
	price := p.frozen.Price.Lambda(place)
	if p.decoder == Dispatch {
		p.solver.Solve(&p.frozen.Physics, s, price, d)
		return
	}
	for u := range s.Users {
		d.Users[u] = slot.UserDecision{}
		top := float32(0) // the local logit
		for m := range s.Aircraft {
			if logit := p.choice(s, m, u)[0]; logit > top {
				top, d.Users[u].Server = logit, m+1
			}
		}
	}
	for u := range s.Users {
		user := &d.Users[u]
		if user.Server == 0 {
			continue
		}
		out := p.choice(s, user.Server-1, u)
		if p.decoder == Heads {
			user.Offload = 1 / (1 + math.Exp(-float64(out[1])))
		} else {
			user.Offload = p.snap(s, d, u, out[2] > 0)
		}
	}
	d.PriceSPerJ = price
	d.Price(&p.frozen.Physics, s)
}

// choice returns the outputs of one pair.
func (p *Policy) choice(s *slot.Snapshot, m, u int) []float32 {
	at := (m*len(s.Users) + u) * model.Choices
	return p.outputs.Choice[at : at+model.Choices]
}

// snap returns the closed-form offload of a served user: the least that meets
// its deadline, or the balance.
func (p *Policy) snap(s *slot.Snapshot, d *slot.Decision, u int, deadline bool) float64 {
	m := d.Users[u].Server
	user := &s.Users[u]
	share := p.frozen.Physics.ShareOf(user.Gain[m-1], s.Aircraft[m-1].CPUHz, d.Served(m))
	local, offload := user.Task.LocalS(user.CPUHz), user.Task.OffloadS(share)
	if deadline {
		if rho, ok := physics.LeastMeeting(local, offload, user.Task.DeadlineS); ok {
			return rho
		}
	}
	return physics.Balance(local, offload)
}

// guard keeps a ceiling: it lowers the slot's edge energy to what is left
// above the flight floor of the slots to go. Under the dispatch decoder it
// raises the price, in which edge energy does not rise; under the others it
// takes offloads away from the aircraft that spends most.
func (p *Policy) guard(s *slot.Snapshot, g *goal.Goal, d *slot.Decision) {
	room := g.EnergyToGoJ - g.FloorToGoJ()
	if edgeJ(d) <= room {
		return
	}
	if p.decoder == Dispatch {
		low, high := d.PriceSPerJ, guardPriceSPerJ
		for range 20 {
			mid := (low + high) / 2
			if p.solver.Solve(&p.frozen.Physics, s, mid, d); edgeJ(d) > room {
				low = mid
			} else {
				high = mid
			}
		}
		p.solver.Solve(&p.frozen.Physics, s, high, d)
	}
	for edgeJ(d) > max(room, 0) {
		most := 0
		for m := range d.EdgeJ {
			if d.EdgeJ[m] > d.EdgeJ[most] {
				most = m
			}
		}
		for u := range d.Users {
			if d.Users[u].Server == most+1 {
				d.Users[u] = slot.UserDecision{}
			}
		}
		d.Price(&p.frozen.Physics, s)
	}
}

// guardPriceSPerJ is a price at which offloading has all but ended.
const guardPriceSPerJ = 20.0

func edgeJ(d *slot.Decision) (sum float64) {
	for _, j := range d.EdgeJ {
		sum += j
	}
	return sum
}

// move takes each aircraft along the flight head's direction at v*, the speed
// at which flying costs least, inside C1, C2 and the area.
func (p *Policy) move(s *slot.Snapshot, d *slot.Decision) {
	for m := range s.Aircraft {
		v := physics.Position{EastM: float64(p.outputs.Move[2*m]), NorthM: float64(p.outputs.Move[2*m+1])}
		if n := v.Norm(); n > 1e-6 {
			d.Move[m] = v.Scale(p.speed / n)
		} else {
			d.Move[m] = physics.Position{EastM: p.speed}
		}
	}
	p.positions = p.positions[:0]
	for m := range s.Aircraft {
		p.positions = append(p.positions, s.Aircraft[m].Position)
	}
	c := &p.frozen.Physics
	p.envelope.Limit(p.positions, d.Move, tracking.Limits{SpeedMaxMPS: c.SpeedMaxMPS, SeparationM: c.SeparationM, AreaM: c.AreaM})
}
