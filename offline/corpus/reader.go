package corpus

import (
	"cmp"
	"math"

	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/inference/token"
	"prefdt/offline/pareto"
	"prefdt/offline/teacher"
)

// ExampleReader turns flights into examples. It flies a flight again with the objective of a policy that
// is asked for the flight's own outcome: an example's rows are what that policy would have read, its labels
// what the teacher decided. It serves one goroutine.
type ExampleReader struct {
	*replayer
	rowBuilder    *token.Builder
	goalConstants goal.Constants
	priceCurve    checkpoint.PriceCurve
	tracker       motion.Planner
	targets       []physics.Position
	rows          token.Rows
	priceOnly     []bool // of each slot of a flight: whether its request was read as a price alone
}

// NewExampleReader returns a reader of a corpus whose rows are standardised by
// some statistics.
func NewExampleReader(m *Manifest, statistics *token.Statistics) *ExampleReader {
	r := &ExampleReader{replayer: newReplayer(m), goalConstants: m.GoalConstants(), priceCurve: m.Archive.PriceCurve()}
	r.rowBuilder = token.NewBuilder(&r.World.Config.Physics, &r.goalConstants, statistics)
	return r
}

// Examples returns the corpus as training goes through it, flight after flight
// and again from the first: a function that reads the i-th example into ex, with
// a reader for each worker.
func (m *Manifest) Examples(workers int, statistics *token.Statistics) func(worker, i int, ex *Example) error {
	readers := make([]*ExampleReader, workers)
	for k := range readers {
		readers[k] = NewExampleReader(m, statistics)
	}
	return func(worker, i int, ex *Example) error {
		return readers[worker].Read(&m.Flights[i%len(m.Flights)], ex)
	}
}

// shockSettleSlots is how long after a shock the measured multiplier still moves;
// those slots carry no loss.
const shockSettleSlots = 3

// Read flies f and fills ex.
//
// The return-to-go is the suffix sum of what the flight cost, eq. (rtgnorm).
// Before a change of price it is what the first price would still have cost,
// since a policy reads that until its request is revised. Loss falls only on the
// slots after the last change, because the request of the earlier ones is not
// what followed.
func (r *ExampleReader) Read(f *Episode, ex *Example) error {
	c := &r.World.Config.Physics
	ex.Reset()
	r.priceOnly = r.priceOnly[:0]
	var objective goal.Objective
	var refused error
	remaining := pareto.Point{DelayS: f.DelayS, EnergyJ: f.EnergyJ}
	err := r.replay(f, func(s teacher.SettledSlot) {
		t, fleet := s.Snapshot.Slot, len(s.Snapshot.Aircraft)
		if fleet == 0 || refused != nil {
			return // nothing is left to decide
		}
		if t == 0 { // the world is the flight's now
			r.tracker.Reset()
			r.rowBuilder.Reset()
			objective = goal.New(&r.goalConstants, c, s.Snapshot.Slots, fleet)
			objective.SetOutOfDistribution(f.World > 0 || f.PriceOnly)
		}
		if t == 0 || t == f.ChangeSlot {
			if refused = r.request(&objective, f, remaining); refused != nil {
				return
			}
		}
		r.priceOnly = append(r.priceOnly, objective.PriceOnly())
		r.appendSlot(ex, f, objective, s)
		settled := teacher.Settlement(r.World, s.Outcome)
		objective.Settle(settled)
		remaining.DelayS -= settled.DelayS
		remaining.EnergyJ -= settled.EnergyJ
	})
	ex.Labels.MoveScale = float32(c.SpeedMaxMPS / r.bestSpeedMPS)
	for t, fleet := range ex.AircraftPerSlot {
		kept := fleet == ex.AircraftPerSlot[ex.Slots-1] // to the end
		if t >= f.ChangeSlot && (f.ShockFactor == 0 || t >= f.ShockSlot+shockSettleSlots) && (kept || r.priceOnly[t]) {
			ex.Labels.SlotWeight[t] = 1
		}
	}
	return cmp.Or(err, refused)
}

// request asks for what remains of a flight, at its first slot and where its
// price changes.
func (r *ExampleReader) request(o *goal.Objective, f *Episode, remaining pareto.Point) error {
	omega := f.Omega
	if f.ChangeSlot > 0 {
		if o.Slot() == f.ChangeSlot {
			omega = f.ChangeOmega
		} else if f.World == 0 {
			delayS, energyJ := r.returnsBeforeChange(f)
			remaining.DelayS += delayS
			remaining.EnergyJ += energyJ
		}
	}
	if f.BudgetOnly {
		return o.SetBudget(o.SpentJ()+remaining.EnergyJ, goal.Target)
	}
	o.SetReturns(omega, remaining.DelayS, remaining.EnergyJ)
	return nil
}

// returnsBeforeChange returns by how much the rest of the flight after its change of price
// was cheaper, in both returns, than the archive's mean at the first price.
func (r *ExampleReader) returnsBeforeChange(f *Episode) (delayS, energyJ float64) {
	a := &r.manifest.Archive
	delays := a.each(func(p pareto.Point) float64 { return p.DelayS })
	energies := a.each(func(p pareto.Point) float64 { return p.EnergyJ })
	point := func(price float64) (delayS, energyJ float64) {
		y := r.priceCurve.FrontPosition(price)
		return interpolate(r.priceCurve.FrontPositions, delays, y), interpolate(r.priceCurve.FrontPositions, energies, y)
	}
	d0, e0 := point(f.Price)
	d1, e1 := point(f.ChangePrice)
	left := 1 - float64(f.ChangeSlot)/float64(r.manifest.World.Slots)
	return (d0 - d1) * left, (e0 - e1) * left
}

// appendSlot appends a slot, of weight 0.
func (r *ExampleReader) appendSlot(ex *Example, f *Episode, o goal.Objective, s teacher.SettledSlot) {
	c, snapshot, d := &r.World.Config.Physics, s.Snapshot, s.Decision
	if f.UnreportedFraction > 0 {
		snapshot, d = r.dropLostReports(f, s)
	}
	r.tracker.Observe(snapshot.Users)
	r.targets = r.tracker.Targets(c, snapshot.Aircraft, r.targets)
	r.rowBuilder.Fill(&r.rows, snapshot, o, r.targets)
	r.rowBuilder.RecordAction(snapshot, o, d)

	ex.Slots++
	ex.AircraftPerSlot, ex.UsersPerSlot = append(ex.AircraftPerSlot, len(snapshot.Aircraft)), append(ex.UsersPerSlot, len(snapshot.Users))
	ex.Aircraft = append(ex.Aircraft, r.rows.Aircraft...)
	ex.Pairs = append(ex.Pairs, r.rows.Pairs...)
	ex.State = append(ex.State, r.rows.State...)
	ex.Return = append(ex.Return, r.rows.Return...)
	ex.Action = append(ex.Action, r.rows.Action...)

	labels := &ex.Labels
	labels.SlotWeight = append(labels.SlotWeight, 0)
	for u := range d.Users {
		x, user := &d.Users[u], &snapshot.Users[u]
		deadline := float32(0)
		if x.Server > 0 {
			share := c.EqualShare(user.Gain[x.Server-1], snapshot.Aircraft[x.Server-1].CPUHz, float64(s.Decision.ServedBy(x.Server)))
			least, ok := physics.LeastOffloadForDeadline(user.Task.LocalTimeS(user.CPUHz), user.Task.OffloadTimeS(share),
				user.Task.DeadlineS)
			if ok && math.Abs(x.Offload-least) < 1e-9 {
				deadline = 1
			}
		}
		labels.Server = append(labels.Server, x.Server)
		labels.Offload = append(labels.Offload, float32(x.Offload))
		labels.MeetsDeadline = append(labels.MeetsDeadline, deadline)
	}
	for _, move := range d.Move {
		labels.Move = append(labels.Move, float32(move.EastM/r.bestSpeedMPS), float32(move.NorthM/r.bestSpeedMPS))
	}
	labels.PricePosition = append(labels.PricePosition, float32(r.priceLabel(f, snapshot.Slot)))
}

// dropLostReports returns a slot's snapshot and decision without the users whose
// reports are lost.
func (r *ExampleReader) dropLostReports(f *Episode, s teacher.SettledSlot) (*slot.Snapshot, *slot.Decision) {
	c := &r.World.Config
	received, d := *s.Snapshot, *s.Decision
	received.Users, d.Users, d.DelayS = nil, nil, 0
	for u, user := range s.Snapshot.Users {
		if c.ReportLost(f.Seed, s.Snapshot.Slot, user.ID, f.UnreportedFraction) {
			continue
		}
		received.Users = append(received.Users, user)
		d.Users = append(d.Users, s.Decision.Users[u])
		d.DelayS += c.Physics.PenalizedDelayS(user.Task, s.Decision.Users[u].CompletionS)
	}
	return &received, &d
}

// priceLabel returns where on the price curve a flight was in a slot: that of its
// price or, without one, of its outcome.
func (r *ExampleReader) priceLabel(f *Episode, t int) float64 {
	if f.Teacher != dispatchTeacher {
		return r.manifest.Archive.FrontPosition(pareto.Point{DelayS: f.DelayS, EnergyJ: f.EnergyJ})
	}
	return r.priceCurve.FrontPosition(f.priceAt(t))
}
