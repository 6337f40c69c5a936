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
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/inference/token"
)

// Decoder names how the network's outputs become a decision.
type Decoder string

const (
	// DecoderHeads takes association and offload as the heads give them (the paper's).
	DecoderHeads Decoder = "heads"
	// DecoderSnapped takes the heads' association, and the offload at the closed-form
	// balance or deadline point of the actual shares.
	DecoderSnapped Decoder = "snapped"
	// DecoderDispatch takes the predicted price into the exact dispatch.
	DecoderDispatch Decoder = "dispatch"
)

// Decoders lists them.
func Decoders() []Decoder { return []Decoder{DecoderDispatch, DecoderSnapped, DecoderHeads} }

// Policy is one mission's policy; it remembers the last slots.
type Policy struct {
	checkpoint *checkpoint.Checkpoint
	decoder    Decoder
	minFlightW float64 // P(v*)

	planner         motion.Planner
	targets         []physics.Position
	rowBuilder      *token.Builder
	rows            token.Rows
	inputs          model.Inputs
	outputs         model.Outputs
	cache           *model.Cache
	solver          dispatch.Solver
	limiter         motion.Limiter
	positions       []physics.Position
	networkSnapshot slot.Snapshot // as if nobody came unheard
	networkDecision slot.Decision // of it
}

// New returns a policy at the start of a mission.
func New(frozen *checkpoint.Checkpoint, decoder Decoder) (*Policy, error) {
	if decoder != DecoderHeads && decoder != DecoderSnapped && decoder != DecoderDispatch {
		return nil, fmt.Errorf("decoder is %q, want one of %q", decoder, Decoders())
	}
	c := &frozen.Physics
	return &Policy{
		checkpoint: frozen, decoder: decoder, minFlightW: c.Propulsion.PowerW(c.Propulsion.BestSpeedMPS(c.SpeedMaxMPS)),
		rowBuilder: token.NewBuilder(c, &frozen.GoalConstants, &frozen.Statistics), cache: frozen.Net.NewCache(),
	}, nil
}

// Reset starts another mission in the same memory.
func (p *Policy) Reset() {
	p.planner.Reset()
	p.rowBuilder.Reset()
	p.cache.Reset()
}

// Decide fills d with the joint decision of a slot. Users and aircraft may be
// any number, none included. It allocates nothing once it has seen as many.
// What it returns is for the objective's Observe.
func (p *Policy) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) (seen goal.Observation) {
	d.Resize(s)
	if known := s.SyntheticUsers; len(s.Users) == 0 && len(known) > 0 && known[0].ID >= 0 {
		p.planner.Observe(known)
	} else {
		p.planner.Observe(s.Users)
	}
	if len(s.Aircraft) == 0 {
		d.Evaluate(&p.checkpoint.Physics, s)
		return seen
	}
	p.targets = p.planner.Targets(&p.checkpoint.Physics, s.Aircraft, p.targets)
	shown := p.viewForNetwork(s)
	p.rowBuilder.Fill(&p.rows, shown, o, p.targets)
	p.inputs = model.Inputs{
		NumAircraft: len(shown.Aircraft), NumUsers: len(shown.Users),
		Aircraft: p.rows.Aircraft, Pairs: p.rows.Pairs, State: p.rows.State, Return: p.rows.Return, Action: p.rows.Action,
	}
	p.checkpoint.Net.Step(&p.inputs, p.cache, &p.outputs)
	if len(s.Users) > 0 || shown == s {
		seen = p.schedule(s, &o, d)
	} else { // the imagined users are told nothing
		seen = p.schedule(shown, &o, &p.networkDecision)
		d.PriceSPerJ = p.networkDecision.PriceSPerJ
		d.Evaluate(&p.checkpoint.Physics, s)
	}
	p.move(s, d)
	if shown != s {
		if len(s.Users) > 0 {
			p.solver.Solve(&p.checkpoint.Physics, shown, d.PriceSPerJ, &p.networkDecision)
		}
		p.networkDecision.Move = append(p.networkDecision.Move[:0], d.Move...)
		d = &p.networkDecision
	}
	p.rowBuilder.RecordAction(shown, o, d)
	return seen
}

// schedule says who computes where, within the budget. o is Decide's own copy:
// what is paced goes by what this slot has seen.
func (p *Policy) schedule(s *slot.Snapshot, o *goal.Objective, d *slot.Decision) (seen goal.Observation) {
	d.Resize(s)
	most := 0.0
	if o.Budgeted() && p.decoder == DecoderDispatch {
		p.solver.Solve(&p.checkpoint.Physics, s, 0, d)
		seen = goal.Observation{Known: true, EdgeCapacityJ: totalEdgeJ(d)}
		o.Observe(seen)
		most = p.spendAboveFloorJ(s, o, d)
	}
	p.decode(s, o, d)
	if o.Budgeted() {
		p.pace(s, o, d, most)
	}
	return seen
}

// viewForNetwork returns what the network is shown of a slot: the slot itself, unless
// users come unheard. It has never seen any, and reads the price off what it
// did; so it is shown what dispatch does without them, and when nobody is
// heard at all, the imagined slot.
func (p *Policy) viewForNetwork(s *slot.Snapshot) *slot.Snapshot {
	unheard := len(s.Users) == 0 && len(s.SyntheticUsers) > 0
	for m := range s.Aircraft {
		unheard = unheard || p.decoder == DecoderDispatch && s.Aircraft[m].Unreported.ExpectedUsers > 0
	}
	if !unheard {
		return s
	}
	p.networkSnapshot.Slot, p.networkSnapshot.Slots, p.networkSnapshot.Users = s.Slot, s.Slots, s.Users
	if len(s.Users) == 0 {
		p.networkSnapshot.Users = s.SyntheticUsers
	}
	p.networkSnapshot.Aircraft = append(p.networkSnapshot.Aircraft[:0], s.Aircraft...)
	for m := range p.networkSnapshot.Aircraft {
		p.networkSnapshot.Aircraft[m].Unreported = slot.UnreportedLoad{}
	}
	return &p.networkSnapshot
}

// decode turns the outputs into associations and offload ratios.
func (p *Policy) decode(s *slot.Snapshot, o *goal.Objective, d *slot.Decision) {
	place := float64(p.outputs.FrontPosition)
	if o.PriceOnly() || !o.Budgeted() && s == &p.networkSnapshot { // nobody told what the returns are to be had for
		place = p.checkpoint.GoalConstants.FrontPosition(o.Omega()) // the request is itself a price
	}
	price := p.checkpoint.PriceAxis.PriceSPerJ(place)
	if p.decoder == DecoderDispatch {
		p.solver.Solve(&p.checkpoint.Physics, s, price, d)
		return
	}
	for u := range s.Users {
		d.Users[u] = slot.UserDecision{}
		top := float32(0) // the local logit
		for m := range s.Aircraft {
			if logit := p.pairOutputs(s, m, u)[0]; logit > top {
				top, d.Users[u].Server = logit, m+1
			}
		}
	}
	for u := range s.Users {
		user := &d.Users[u]
		if user.Server == 0 {
			continue
		}
		out := p.pairOutputs(s, user.Server-1, u)
		if p.decoder == DecoderHeads {
			user.Offload = 1 / (1 + math.Exp(-float64(out[1])))
		} else {
			user.Offload = p.snapOffload(s, d, u, out[2] > 0)
		}
	}
	d.PriceSPerJ = price
	d.Evaluate(&p.checkpoint.Physics, s)
}

// pairOutputs returns the outputs of one pair.
func (p *Policy) pairOutputs(s *slot.Snapshot, m, u int) []float32 {
	at := (m*len(s.Users) + u) * model.ChoiceOutputs
	return p.outputs.Choice[at : at+model.ChoiceOutputs]
}

// snapOffload returns the closed-form offload of a served user: the least that meets
// its deadline, or the balance.
func (p *Policy) snapOffload(s *slot.Snapshot, d *slot.Decision, u int, deadline bool) float64 {
	m := d.Users[u].Server
	user := &s.Users[u]
	share := p.checkpoint.Physics.EqualShare(user.Gain[m-1], s.Aircraft[m-1].CPUHz, s.Aircraft[m-1].Unreported.EffectiveUsers(d.ServedBy(m)))
	local, offload := user.Task.LocalTimeS(user.CPUHz), user.Task.OffloadTimeS(share)
	if deadline {
		if rho, ok := physics.LeastOffloadForDeadline(local, offload, user.Task.DeadlineS); ok {
			return rho
		}
	}
	return physics.BalancedOffload(local, offload)
}

// pace holds what the slot spends above the flight floor to what the budget
// leaves room for in the slots to go, and to what is due because those could
// not spend it any more; in the last slot the two are one. Under the dispatch
// decoder it moves the price, in which neither edge energy nor speed rises.
// What is still too much is cut from the offload ratios, in which edge energy
// is linear.
func (p *Policy) pace(s *slot.Snapshot, o *goal.Objective, d *slot.Decision, mostJ float64) {
	room, due, spent := o.HeadroomJ(), o.LeastSpendJ(), p.spendAboveFloorJ(s, o, d)
	if room == 0 {
		d.PriceSPerJ = maxPriceSPerJ
		for u := range d.Users {
			d.Users[u] = slot.UserDecision{}
		}
		d.Evaluate(&p.checkpoint.Physics, s)
		return
	}
	if p.decoder == DecoderDispatch {
		price := d.PriceSPerJ
		switch {
		case spent > room:
			low, high := p.bracketPrice(s, o, d, room, price, maxPriceSPerJ)
			if price = high; o.SlotsLeft() == 1 {
				price = low
			}
		case spent < due && mostJ > due:
			price, _ = p.bracketPrice(s, o, d, due, 0, price)
		case spent < due:
			price = 0
		}
		if price != d.PriceSPerJ {
			p.solver.Solve(&p.checkpoint.Physics, s, price, d)
		}
	}
	if over := p.spendAboveFloorJ(s, o, d) - room; over > 0 {
		keep := max(1-over/totalEdgeJ(d), 0)
		for u := range d.Users {
			d.Users[u].Offload *= keep
		}
		d.Evaluate(&p.checkpoint.Physics, s)
	}
}

// bracketPrice narrows two prices down, the lower at which more than a figure is
// spent and the higher at which it is not, until that spends nearly as much.
func (p *Policy) bracketPrice(s *slot.Snapshot, o *goal.Objective, d *slot.Decision, energyJ, low, high float64) (lower, higher float64) {
	const rounds, near = 12, 0.99
	for range rounds {
		mid := (low + high) / 2
		if low > 0 {
			mid = math.Sqrt(low * high)
		}
		p.solver.Solve(&p.checkpoint.Physics, s, mid, d)
		if spent := p.spendAboveFloorJ(s, o, d); spent > energyJ {
			low = mid
		} else if high = mid; spent > near*energyJ {
			break
		}
	}
	return low, high
}

// maxPriceSPerJ is a price at which offloading has all but ended.
const maxPriceSPerJ = 20.0

func totalEdgeJ(d *slot.Decision) (sum float64) {
	for _, j := range d.EdgeJ {
		sum += j
	}
	return sum
}

// spendAboveFloorJ is what a decision spends above the flight floor: its edge energy, and
// the flight that is faster than v* at its price.
func (p *Policy) spendAboveFloorJ(s *slot.Snapshot, o *goal.Objective, d *slot.Decision) float64 {
	c := &p.checkpoint.Physics
	sum := totalEdgeJ(d)
	for m := range s.Aircraft {
		sum += o.PropulsionMultiplier() * (c.Propulsion.PowerW(p.speedMPS(s, m, d.PriceSPerJ)) - p.minFlightW)
	}
	return sum
}

// speedMPS is the speed that a price asks an aircraft for.
func (p *Policy) speedMPS(s *slot.Snapshot, m int, priceSPerJ float64) float64 {
	return p.planner.SpeedMPS(&p.checkpoint.Physics, m, s.Slots-s.Slot, p.targets[m].Sub(s.Aircraft[m].Position).Norm(), priceSPerJ)
}

// move takes each aircraft along the flight head's direction, at the speed
// that the slot's price asks for, inside C1, C2 and the area.
func (p *Policy) move(s *slot.Snapshot, d *slot.Decision) {
	for m := range s.Aircraft {
		v := physics.Position{EastM: float64(p.outputs.Move[2*m]), NorthM: float64(p.outputs.Move[2*m+1])}
		speed := p.speedMPS(s, m, d.PriceSPerJ)
		if n := v.Norm(); n > 1e-6 {
			d.Move[m] = v.Scale(speed / n)
		} else {
			d.Move[m] = physics.Position{EastM: speed}
		}
		d.Move[m] = turnInside(s.Aircraft[m].Position, d.Move[m], p.checkpoint.Physics.AreaSideM)
	}
	p.positions = p.positions[:0]
	for m := range s.Aircraft {
		p.positions = append(p.positions, s.Aircraft[m].Position)
	}
	c := &p.checkpoint.Physics
	p.limiter.Limit(p.positions, d.Move, motion.Limits{SpeedMaxMPS: c.SpeedMaxMPS, SeparationM: c.SeparationM, AreaSideM: c.AreaSideM})
}

// turnInside turns a move that would leave the area, as little as keeps it inside at
// the same speed: to be held back at the edge costs more than to fly on.
func turnInside(from, move physics.Position, areaM float64) physics.Position {
	const steps = 36 // of a half turn
	for k := range steps {
		for _, side := range []float64{1, -1} {
			sin, cos := math.Sincos(side * math.Pi * float64(k) / steps)
			turned := physics.Position{EastM: cos*move.EastM - sin*move.NorthM, NorthM: sin*move.EastM + cos*move.NorthM}
			if to := from.Add(turned); to == to.ClampToArea(areaM) {
				return turned
			}
		}
	}
	return move
}
