// Package inference makes a slot's decision with the frozen policy, a
// preference-conditioned Decision Transformer whose weights do not change.
//
// Inputs: a snapshot of the fleet and its users, and the mission's objective.
// Outputs: the joint decision of the slot (who computes where, where each
// aircraft flies, the price of energy) and an observation for the objective. The
// leader calls Decide between the report window and the flight envelope, once a
// slot; rollouts call it on a simulated world.
//
// Decide runs, in this order: motion targets, tokens, the network's step on its
// rolling cache of the last slots, and one of three decoders of the same outputs.
package inference

import (
	"fmt"
	"math"
	"slices"

	"prefdt/inference/belief"
	"prefdt/inference/budget"
	"prefdt/inference/checkpoint"
	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/model"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/prefdt"
	"prefdt/inference/slot"
	"prefdt/inference/token"
)

// Decoder names a way of turning the network's outputs into a decision.
type Decoder string

const (
	// DecoderHeads uses the network's association and offload ratios (the paper's way).
	DecoderHeads Decoder = "heads"
	// DecoderClosedForm uses the network's association, and the closed-form balance or
	// deadline point at the actual shares for the offload ratios.
	DecoderClosedForm Decoder = "closed-form"
	// DecoderDispatch runs exact dispatch at the price that the network predicts, under a
	// preference, or that package budget sets.
	DecoderDispatch Decoder = "dispatch"
	// DecoderPrice runs exact dispatch at the network's price under a budget too, and
	// limits nothing: what the network by itself makes of a budget.
	DecoderPrice Decoder = "price"
)

// Decoders lists the decoders that fly, the default first.
func Decoders() []Decoder { return []Decoder{DecoderDispatch, DecoderClosedForm, DecoderHeads} }

// DecoderOf returns the decoder of a name, which may be one that it had a version before.
func DecoderOf(name string) Decoder {
	if name == "snapped" {
		return DecoderClosedForm
	}
	return Decoder(name)
}

// Policy makes the decisions of one mission, slot by slot; it remembers the last ones.
type Policy struct {
	Reserve budget.Reserve // of budgets; New sets the shipped one
	// Estimator says what to believe beyond the reports; nil: they are exact, in calm air.
	Estimator belief.Estimator
	Claims    slot.Claims // the most that a report weighs; New sets the checkpoint's

	published  *prefdt.Policy // nil in the shipped form; else it decides, and all below is unused
	checkpoint *checkpoint.Checkpoint
	decoder    Decoder
	curve      budget.Curve

	belief     belief.Belief
	views      views
	planner    motion.Planner
	targets    []physics.Position
	rowBuilder *token.Builder
	rows       token.Rows
	outputs    model.Outputs
	cache      *model.Cache
	weights    []float64 // of the ordered price, by aircraft; empty: none is ordered
	solver     dispatch.Solver
	limiter    motion.Limiter
	positions  []physics.Position
	began      bool // a decision was made since New or Reset
}

// views are a slot as it is seen on its way to a decision. Each shares the memory of the one before.
type views struct {
	believed slot.Snapshot // as reported, but gains and CPUs as they are believed to be
	weighed  slot.Weighed  // with every claim bounded: what is decided on
	network  networkView
}

// networkView is the slot of which the network's rows are: the one decided on, unless a part
// of its load is unreported. The network was not trained on such loads, and it infers the price
// from what it last did; so it is given the slot without them or, if no user reported, the
// synthetic users.
type networkView struct {
	slot.Snapshot
	decision   slot.Decision // of it, where it is not the slot decided on
	synthetic  bool          // its users are the synthetic ones: they give the price, there is nobody to decide for
	unreported bool          // it leaves a load out that is decided with
}

// set makes v the view of a slot; dispatched is whether users are dispatched, with their load.
func (v *networkView) set(s *slot.Snapshot, dispatched bool) {
	v.Slot, v.Slots, v.Users, v.Aircraft = s.Slot, s.Slots, s.Users, append(v.Aircraft[:0], s.Aircraft...)
	v.unreported = dispatched && slices.ContainsFunc(s.Aircraft, func(a slot.Aircraft) bool { return a.Unreported.ExpectedUsers > 0 })
	v.synthetic = len(s.Users) == 0 && (v.unreported || len(s.SyntheticUsers) > 0)
	if v.synthetic {
		v.Users = s.SyntheticUsers
	}
	if v.synthetic || v.unreported {
		for m := range v.Aircraft {
			v.Aircraft[m].Unreported = slot.UnreportedLoad{}
		}
	}
}

// New returns a policy at the start of a mission.
func New(c *checkpoint.Checkpoint, decoder Decoder) (*Policy, error) {
	if !slices.Contains(Decoders(), decoder) && decoder != DecoderPrice {
		return nil, fmt.Errorf("decoder is %q, want one of %q", decoder, Decoders())
	}
	if c.Published != nil {
		if decoder != DecoderHeads {
			return nil, fmt.Errorf("decoder is %q, a checkpoint of the published form flies by %q alone", decoder, DecoderHeads)
		}
		return &Policy{published: prefdt.NewPolicy(c.Paper, c.Published, &c.GoalConstants, &c.Physics)}, nil
	}
	p := &Policy{
		checkpoint: c, decoder: decoder, curve: EdgeCurve(c), Reserve: budget.Shipped, Claims: c.Claims(),
		rowBuilder: token.NewBuilder(&c.Physics, &c.GoalConstants, &c.Statistics), cache: c.Net.NewCache(),
	}
	p.outputs.SkipChoice = p.dispatches()
	return p, nil
}

// LastStep returns what the network was given and gave in the last decision, until the next; nil
// in the published form. For those who look into it: the decision is Decide's.
func (p *Policy) LastStep() (*model.Inputs, *model.Outputs) {
	if p.published != nil {
		return nil, nil
	}
	return &p.rows, &p.outputs
}

// EdgeCurve returns the prior of what a slot spends at its price, out of a checkpoint's
// archived front: the energy of the setting that each price stands for.
func EdgeCurve(c *checkpoint.Checkpoint) (x budget.Curve) {
	g := &c.GoalConstants
	_, minFlightW := c.Physics.MinPower()
	x.PricesSPerJ = goal.PriceGrid(c.PriceCurve.PriceSPerJ(1))
	for k, price := range x.PricesSPerJ {
		_, omega := goal.Bisect(0, 1, 50, func(omega float64) bool { // the front position rises with omega
			return g.FrontPosition(omega) < c.PriceCurve.FrontPosition(price)
		})
		_, energyJ := g.Conditioner.MissionReturn(omega)
		x.EdgeW[k] = max(energyJ/float64(g.Slots*g.AircraftCount)-minFlightW, 0)
	}
	return x
}

// Reset starts another mission in the same memory.
func (p *Policy) Reset() {
	if p.published != nil {
		p.published.Reset()
		return
	}
	if p.Estimator != nil {
		p.Estimator.Reset()
	}
	p.planner.Reset()
	p.rowBuilder.Reset()
	p.cache.Reset()
	p.began = false
}

// Recall has the estimator and the planner remember a slot that was decided before: those
// before a restart, one after another.
func (p *Policy) Recall(s *slot.Snapshot) {
	if p.Estimator != nil {
		p.belief.Resize(s)
		p.Estimator.Estimate(s, &p.belief)
	}
	weighed, _ := p.Claims.Weigh(s, &p.views.weighed)
	p.planner.Observe(weighed.Users)
}

// Belief returns what the last decision believed, until the next; nil: what was reported.
func (p *Policy) Belief() *belief.Belief {
	if p.Estimator == nil {
		return nil
	}
	return &p.belief
}

// Decide writes the joint decision of a slot into d. There may be any number of
// users and aircraft, none included; once it has seen as many, it allocates
// nothing. The observation is for the caller's Objective.Observe.
func (p *Policy) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) (observed goal.Observation) {
	if p.published != nil {
		p.published.Decide(s, o, d)
		return observed
	}
	d.Resize(s)
	if !p.began {
		p.rowBuilder.Resume(o.State().Rows)
		p.began = true
	}
	if p.Estimator != nil {
		p.belief.Resize(s)
		p.Estimator.Estimate(s, &p.belief)
		p.belief.Apply(s, &p.views.believed)
		s = &p.views.believed
	}
	weighed, bounded := p.Claims.Weigh(s, &p.views.weighed)
	observed = p.decide(weighed, o, d)
	observed.Rows = p.rowBuilder.Carried()
	if bounded {
		observed.WeighedDelayS = d.DelayS
		p.views.weighed.Restore(d)
		d.Evaluate(&p.checkpoint.Physics, s)
	}
	return observed
}

// decide is Decide on what is believed of a slot, and on claims that are bounded.
func (p *Policy) decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) (observed goal.Observation) {
	p.planner.Observe(s.LikelyUsers())
	p.targets = p.planner.Targets(&p.checkpoint.Physics, s.Aircraft, p.targets)
	if len(s.Aircraft) == 0 {
		d.Evaluate(&p.checkpoint.Physics, s)
		observed.Air = p.air(s, d)
		return observed
	}
	view := &p.views.network
	view.set(s, p.dispatches())
	p.rowBuilder.Fill(&p.rows, &view.Snapshot, o, p.targets)
	p.checkpoint.Net.Step(&p.rows, p.cache, &p.outputs)
	if view.synthetic {
		observed = p.schedule(&view.Snapshot, &o, &view.decision, true)
		d.PriceSPerJ = view.decision.PriceSPerJ
		d.Evaluate(&p.checkpoint.Physics, s)
	} else {
		observed = p.schedule(s, &o, d, false)
	}
	p.move(s, d)
	observed.Air = p.air(s, d)
	done := d
	if view.synthetic || view.unreported {
		done = &view.decision
		if !view.synthetic {
			p.solver.Solve(&p.checkpoint.Physics, &view.Snapshot, d.PriceSPerJ, done)
		}
		done.Move = append(done.Move[:0], d.Move...)
	}
	p.rowBuilder.RecordAction(&view.Snapshot, o, done)
	return observed
}

// schedule decides who computes where, within the budget; synthetic says that all users are. o is
// Decide's own copy, so that this slot's observation already counts in its price.
func (p *Policy) schedule(s *slot.Snapshot, o *goal.Objective, d *slot.Decision, synthetic bool) (observed goal.Observation) {
	d.Resize(s)
	if p.dispatches() {
		p.solver.Begin(&p.checkpoint.Physics, s)
	}
	if o.Budgeted() && p.decoder == DecoderDispatch {
		p.solver.Sweep(p.curve.PricesSPerJ[:], observed.EdgeJ[:])
		observed.Known = true
		observed.Air = p.air(s, d) // the moves are not decided yet: it is the floor that counts
		o.Observe(observed)
	}
	orderedSPerJ := 0.0
	if p.weights = p.weights[:0]; o.Budgeted() && p.decoder == DecoderDispatch {
		orderedSPerJ, p.weights = s.OrderedPrices(p.weights)
	}
	if len(p.weights) > 0 {
		p.solver.Ordered(&p.checkpoint.Physics, s, orderedSPerJ, p.weights, d)
		return observed
	}
	p.decode(s, o, d, synthetic)
	if o.Budgeted() && p.decoder != DecoderPrice {
		p.limitSpending(s, o, d)
		d.LimitEdge(&p.checkpoint.Physics, s)
	}
	return observed
}

// dispatches reports whether users are dispatched exactly, at a price.
func (p *Policy) dispatches() bool { return p.decoder == DecoderDispatch || p.decoder == DecoderPrice }

// decode turns the outputs into associations and offload ratios.
func (p *Policy) decode(s *slot.Snapshot, o *goal.Objective, d *slot.Decision, synthetic bool) {
	position := float64(p.outputs.FrontPosition)
	if o.PriceOnly() || !o.Budgeted() && synthetic { // the preference itself gives the price
		position = p.checkpoint.GoalConstants.FrontPosition(o.Omega())
	}
	price := p.checkpoint.PriceCurve.PriceSPerJ(position)
	if p.dispatches() {
		if o.Budgeted() && p.decoder == DecoderDispatch {
			price = p.curve.PriceSPerJ(o, p.Reserve)
		}
		p.solver.At(price, d)
		return
	}
	for u := range s.Users {
		d.Users[u] = slot.UserDecision{}
		top := float32(0) // the local logit
		for m := range s.Aircraft {
			if logit := p.pairOutputs(s, m, u)[0]; logit > top && s.Reaches(&p.checkpoint.Physics.Channel, u, m) {
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

// pairOutputs returns the network's outputs for one pair of aircraft and user.
func (p *Policy) pairOutputs(s *slot.Snapshot, m, u int) []float32 {
	at := (m*len(s.Users) + u) * model.ChoiceOutputs
	return p.outputs.Choice[at : at+model.ChoiceOutputs]
}

// snapOffload returns the closed-form offload ratio of a served user: the least that
// meets its deadline, or the balance.
func (p *Policy) snapOffload(s *slot.Snapshot, d *slot.Decision, u int, deadline bool) float64 {
	m := d.Users[u].Server
	user := &s.Users[u]
	share := p.checkpoint.Physics.EqualShare(user.Gain[m-1], s.Aircraft[m-1].CPUHz,
		s.Aircraft[m-1].Unreported.EffectiveUsers(d.ServedBy(m)))
	local, offload := user.Task.LocalTimeS(user.CPUHz), user.Task.OffloadTimeS(share)
	if deadline {
		if rho, ok := physics.LeastOffloadForDeadline(local, offload, user.Task.DeadlineS); ok {
			return rho
		}
	}
	return physics.BalancedOffload(local, offload)
}

// limitSpending keeps what the slot spends above the flight floor within the slot's
// limit. Under the dispatch decoder it raises the price, with which neither edge
// energy nor speed rises. Any remaining excess is cut from the offload ratios, in
// which edge energy is linear.
func (p *Policy) limitSpending(s *slot.Snapshot, o *goal.Objective, d *slot.Decision) {
	c, limitJ := &p.checkpoint.Physics, o.SlotLimitJ()
	if limitJ == 0 {
		d.PriceSPerJ = budget.MaxPriceSPerJ
		clear(d.Users)
		d.Evaluate(c, s)
		return
	}
	spentJ := p.planner.SpendAboveFloorJ(c, s, p.targets, &p.belief.Air, o.PropulsionMultiplier(), d)
	if p.decoder == DecoderDispatch && spentJ > limitJ {
		spend := func(priceSPerJ float64) float64 {
			p.solver.At(priceSPerJ, d)
			return p.planner.SpendAboveFloorJ(c, s, p.targets, &p.belief.Air, o.PropulsionMultiplier(), d)
		}
		spentJ = spend(budget.Within(d.PriceSPerJ, limitJ, spend))
	}
	usersJ := 0.0 // the rest is of the unreported load, which nothing decided here reduces
	for u := range d.Users {
		usersJ += c.EdgeJ(s.Users[u].Task, physics.Share{CPUHz: d.Users[u].CPUHz}, d.Users[u].Offload)
	}
	if excess := spentJ - limitJ; excess > 0 && usersJ > 0 {
		keep := max(1-excess/usersJ, 0)
		for u := range d.Users {
			d.Users[u].Offload *= keep
		}
		d.Evaluate(c, s)
	}
}

// air returns what the believed air makes of the power of the moves decided, and of the
// flight floor.
func (p *Policy) air(s *slot.Snapshot, d *slot.Decision) goal.Air {
	c, air := &p.checkpoint.Physics, &p.belief.Air
	if len(air.Winds) == 0 {
		return goal.Air{}
	}
	airW, groundW := 0.0, 0.0
	for m := range s.Aircraft {
		airW += air.ModelW(c, d.Move[m])
		groundW += c.Propulsion.PowerW(d.Move[m].Norm())
	}
	flown := 1.0
	if groundW > 0 {
		flown = airW / groundW
	}
	return goal.Air{Flown: flown, Hold: p.planner.HoldW(c, air) / p.planner.HoldW(c, &motion.Air{})}
}

// move moves each aircraft in the direction of the network's flight head, at the speed
// for the slot's price, within the limits of speed (C1), separation (C2) and area. In a
// wind, which the network does not know, the planner says both.
func (p *Policy) move(s *slot.Snapshot, d *slot.Decision) {
	for m := range s.Aircraft {
		if air := &p.belief.Air; len(air.Winds) > 0 {
			d.Move[m] = p.planner.MoveInAir(&p.checkpoint.Physics, s, m, p.targets[m], air, d.PriceSPerJ)
			continue
		}
		v := physics.Position{EastM: float64(p.outputs.Move[2*m]), NorthM: float64(p.outputs.Move[2*m+1])}
		speed := p.planner.SpeedMPS(&p.checkpoint.Physics, s, m, p.targets[m], d.PriceSPerJ)
		if n := v.Norm(); n > 1e-6 {
			d.Move[m] = v.Scale(speed / n)
		} else {
			d.Move[m] = physics.Position{EastM: speed}
		}
		d.Move[m] = turnInside(s.Aircraft[m].Position, d.Move[m], p.checkpoint.Physics.AreaSideM)
	}
	motion.StayNearHome(s, d.Move, p.planner.BestSpeedMPS())
	p.positions = p.positions[:0]
	for m := range s.Aircraft {
		p.positions = append(p.positions, s.Aircraft[m].Position)
	}
	p.limiter.Limit(p.positions, d.Move, motion.LimitsOf(&p.checkpoint.Physics))
	p.planner.Moved(s, d.Move)
}

// turnInside turns a move that would leave the area by the least angle that keeps it
// inside. The speed stays, because stopping at the edge costs more energy.
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
