package corpus

import (
	"math"

	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/inference/token"
	"prefdt/offline/pareto"
)

// ExampleReader turns flights into what the trainer reads: the rows of each slot, as
// a policy that was asked for the flight's outcome would have seen them, and
// the teacher's decision as the answer. It serves one goroutine.
type ExampleReader struct {
	manifest         *Manifest
	runner           *flightRunner
	rowBuilder       *token.Builder
	goalConstants    goal.Constants
	priceAxis        checkpoint.PriceAxis
	tracker          motion.Planner
	targets          []physics.Position
	rows             token.Rows
	receivedDecision slot.Decision
}

// NewExampleReader returns a reader of a corpus under some statistics.
func NewExampleReader(m *Manifest, standard *token.Statistics) *ExampleReader {
	scales := m.GoalConstants()
	fl := newFlightRunner(m)
	r := &ExampleReader{manifest: m, runner: fl, goalConstants: scales, priceAxis: m.Archive.PriceAxis()}
	r.rowBuilder = token.NewBuilder(&fl.world.Config.Physics, &r.goalConstants, standard)
	return r
}

// Examples returns the corpus as training goes through it, flight after flight
// and again from the first, under some statistics: a function that reads the
// i-th example into ex, with a reader for each worker.
func (m *Manifest) Examples(workers int, s *token.Statistics) func(worker, i int, ex *Example) error {
	readers := make([]*ExampleReader, workers)
	for k := range readers {
		readers[k] = NewExampleReader(m, s)
	}
	return func(worker, i int, ex *Example) error {
		return readers[worker].Read(&m.Flights[i%len(m.Flights)], ex)
	}
}

// shockSettleSlots is how long after a shock the measured multiplier still moves;
// those slots are context, not lessons.
const shockSettleSlots = 3

// Read flies f and fills ep.
//
// The return-to-go is the hindsight suffix sum, eq. (rtgnorm). Before a change
// of price it is what the first price would still have cost, as a policy reads
// it whose request is then revised. Loss falls only on the slots after the last
// change, because what was asked of the earlier ones is not what followed.
func (r *ExampleReader) Read(f *Flight, ep *Example) error {
	if _, err := r.runner.fly(f); err != nil {
		return err
	}
	fl, w := r.runner, r.runner.world
	fl.reset(f)
	r.tracker.Reset()
	r.rowBuilder.Reset()
	ep.Reset()
	ep.Slots = w.Config.Slots
	ep.Labels.MoveScale = float32(w.Config.Physics.SpeedMaxMPS / fl.bestSpeedMPS)

	g := goal.New(&r.goalConstants, &w.Config.Physics, w.Config.Slots, w.Config.Aircraft)
	g.SetOutOfDistribution(f.World > 0 || f.PriceOnly)
	left := 0 // aircraft in the end
	for _, s := range fl.slots {
		if s.aircraftFlying > 0 {
			left = s.aircraftFlying
		}
	}
	var delayToGo, energyToGo float64
	for _, s := range fl.slots {
		delayToGo += s.delayS
		energyToGo += s.energyJ
	}
	var beforeS, beforeJ float64 // correction of the entries before the change
	if f.ChangeSlot > 0 && f.World == 0 {
		beforeS, beforeJ = r.returnsBeforeChange(f)
	}
	for t := range fl.slots {
		s := &fl.slots[t]
		if s.aircraftFlying == 0 {
			ep.Slots = t // nothing is left to decide
			break
		}
		changed := f.ChangeSlot == 0 || t >= f.ChangeSlot
		asked := g.State()
		asked.Flying = s.aircraftFlying
		asked.Mode, asked.Omega, asked.DelayToGoS, asked.EnergyToGoJ = goal.Preference, f.Omega, delayToGo, energyToGo
		if !changed {
			asked.DelayToGoS += beforeS
			asked.EnergyToGoJ += beforeJ
		} else if f.ChangeSlot > 0 {
			asked.Omega = f.ChangeOmega
		}
		if f.BudgetOnly {
			asked.Mode, asked.BudgetJ, asked.Omega, asked.DelayToGoS = goal.Target, asked.SpentJ+asked.EnergyToGoJ, 0, 0
		}
		g.Restore(asked)
		learn := changed && (f.ShockFactor == 0 || t >= f.ShockSlot+shockSettleSlots) && (g.PriceOnly() || s.aircraftFlying == left)
		r.appendSlot(ep, f, g, s, learn)

		delayToGo -= s.delayS
		energyToGo -= s.energyJ
		w.Snapshot(&fl.snapshot) // whole again
		fl.world.FillAction(&fl.snapshot, &s.decision, &fl.action)
		w.Step(fl.action)
		g.Settle(goal.Settlement{DelayS: s.delayS, EnergyJ: s.energyJ, EdgeJ: s.edgeJ, ModelFlightJ: s.modelFlightJ, Flying: s.aircraftFlying})
	}
	return nil
}

// returnsBeforeChange returns by how much the rest of the flight after its change of price
// was cheaper, in both returns, than the archive's mean at the first price.
func (r *ExampleReader) returnsBeforeChange(f *Flight) (delayS, energyJ float64) {
	a := &r.manifest.Archive
	point := func(price float64) (delayS, energyJ float64) {
		y := r.priceAxis.FrontPosition(price)
		return interpolate(r.priceAxis.FrontPositions, a.delays(), y), interpolate(r.priceAxis.FrontPositions, a.energies(), y)
	}
	d0, e0 := point(f.Price)
	d1, e1 := point(f.ChangePrice)
	left := 1 - float64(f.ChangeSlot)/float64(r.manifest.World.Slots)
	return (d0 - d1) * left, (e0 - e1) * left
}

// appendSlot appends one slot's rows and answer.
func (r *ExampleReader) appendSlot(ep *Example, f *Flight, g goal.Objective, s *flownSlot, learn bool) {
	w, snap := r.runner.world, &r.runner.snapshot
	w.Snapshot(snap)
	d := &s.decision
	if f.UnreportedFraction > 0 {
		d = r.dropLostReports(f, snap, d)
	}
	r.tracker.Observe(snap.Users)
	r.targets = r.tracker.Targets(&w.Config.Physics, snap.Aircraft, r.targets)
	r.rowBuilder.Fill(&r.rows, snap, g, r.targets)
	r.rowBuilder.RecordAction(snap, g, d)

	ep.AircraftPerSlot, ep.UsersPerSlot = append(ep.AircraftPerSlot, len(snap.Aircraft)), append(ep.UsersPerSlot, len(snap.Users))
	ep.Aircraft = append(ep.Aircraft, r.rows.Aircraft...)
	ep.Pairs = append(ep.Pairs, r.rows.Pairs...)
	ep.State = append(ep.State, r.rows.State...)
	ep.Return = append(ep.Return, r.rows.Return...)
	ep.Action = append(ep.Action, r.rows.Action...)

	a := &ep.Labels
	weight := float32(0)
	if learn {
		weight = 1
	}
	a.SlotWeight = append(a.SlotWeight, weight)
	for u := range d.Users {
		x, user := &d.Users[u], &snap.Users[u]
		deadline := float32(0)
		if x.Server > 0 {
			c := &w.Config.Physics
			share := c.EqualShare(user.Gain[x.Server-1], snap.Aircraft[x.Server-1].CPUHz, float64(s.decision.ServedBy(x.Server)))
			least, ok := physics.LeastOffloadForDeadline(user.Task.LocalTimeS(user.CPUHz), user.Task.OffloadTimeS(share), user.Task.DeadlineS)
			if ok && math.Abs(x.Offload-least) < 1e-9 {
				deadline = 1
			}
		}
		a.Server = append(a.Server, x.Server)
		a.Offload = append(a.Offload, float32(x.Offload))
		a.MeetsDeadline = append(a.MeetsDeadline, deadline)
	}
	for _, move := range d.Move {
		a.Move = append(a.Move, float32(move.EastM/r.runner.bestSpeedMPS), float32(move.NorthM/r.runner.bestSpeedMPS))
	}
	a.PricePosition = append(a.PricePosition, float32(r.priceLabel(f, snap.Slot)))
}

// dropLostReports takes the users whose reports are lost out of a snapshot, and out of
// the decision.
func (r *ExampleReader) dropLostReports(f *Flight, snap *slot.Snapshot, d *slot.Decision) *slot.Decision {
	w := r.runner.world
	r.receivedDecision = slot.Decision{Users: r.receivedDecision.Users[:0], Move: d.Move, PriceSPerJ: d.PriceSPerJ, EdgeJ: d.EdgeJ}
	kept := snap.Users[:0]
	for u := range snap.Users {
		if w.Config.ReportLost(w.Seed, w.Slot, snap.Users[u].ID, f.UnreportedFraction) {
			continue
		}
		kept = append(kept, snap.Users[u])
		r.receivedDecision.Users = append(r.receivedDecision.Users, d.Users[u])
		r.receivedDecision.DelayS += w.Config.Physics.PenalizedDelayS(snap.Users[u].Task, d.Users[u].CompletionS)
	}
	snap.Users = kept
	return &r.receivedDecision
}

// priceLabel returns where on the price axis a flight was in a slot: that of its
// price or, without one, of its outcome.
func (r *ExampleReader) priceLabel(f *Flight, t int) float64 {
	if f.Teacher != dispatchTeacher {
		return r.manifest.Archive.FrontPosition(pareto.Point{DelayS: f.DelayS, EnergyJ: f.EnergyJ})
	}
	return r.priceAxis.FrontPosition(f.priceAt(t))
}
