// Package rollout flies a frozen policy in the simulated world: one step a slot,
// and what the slot cost subtracted from the request, the inner loop of the
// paper's Algorithm 1.
//
// Inputs: a checkpoint or another Policy, a world, a ReportLink, seeds, and what
// each flight is asked for. Outputs: what each flight cost. Validation,
// calibration, evaluation and the study fly all their policies here.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"prefdt/inference"
	"prefdt/inference/belief"
	"prefdt/inference/checkpoint"
	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/record"
	"prefdt/inference/slot"
	"prefdt/offline/jobs"
	"prefdt/offline/pareto"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// Request is what a flight is to cost, from slot 0 unless revised.
type Request struct {
	Omega   float64   // delay share, when Mode is goal.Preference
	Mode    goal.Mode // goal.Preference, goal.Target or goal.Ceiling
	BudgetJ float64
	// ReviseSlot, if positive, is the slot from which the budget is RevisedBudgetJ.
	ReviseSlot     int
	RevisedBudgetJ float64
	// RevertSlot, if positive, is the slot from which it is BudgetJ again.
	RevertSlot int
	Packs      *Packs // nil: the budget alone, in slots
}

// EndBudgetJ is the budget in force at the end of a flight.
func (r *Request) EndBudgetJ() float64 {
	if r.ReviseSlot > 0 && r.RevertSlot == 0 {
		return r.RevisedBudgetJ
	}
	return r.BudgetJ
}

// UnlimitedJ is a budget above all that a flight can spend.
const UnlimitedJ = 1e12

// Result is what a flight cost.
type Result struct {
	pareto.Point
	// FloorJ is the least total that was possible without foreseeing a shock: what was
	// spent before it, and flight at v* from then on in the gusts that there were. Under
	// a shock it contains the policy's own spending, and no budget is judged by it.
	FloorJ         float64
	MeanSpeedMPS   float64 // mean over aircraft and slots
	MinSeparationM float64 // least separation at the end of any slot

	// SpentJ is what each aircraft spent in the scope of the request: in slots or, of landed packs,
	// from take-off to touchdown.
	SpentJ      []float64
	EdgeJ       []float64 // of it, on computing
	ServedSlots int       // with an aircraft in the air
}

// Policy decides slot by slot: a checkpoint, or what the study compares with it.
type Policy interface {
	Reset()
	Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Observation
}

// PolicyFunc is a policy that keeps nothing from slot to slot, and observes nothing.
type PolicyFunc func(s *slot.Snapshot, o goal.Objective, d *slot.Decision)

// Reset implements Policy.
func (f PolicyFunc) Reset() {}

// Decide implements Policy.
func (f PolicyFunc) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Observation {
	f(s, o, d)
	return goal.Observation{}
}

// Privileged is a policy that may know what is hidden of the world it flies in.
type Privileged interface{ Watch(*world.World) }

// Runner flies one policy, one flight at a time.
type Runner struct {
	policy        Policy
	goalConstants *goal.Constants
	world         *world.World
	link          linkState

	outOfDistribution bool
	decision          slot.Decision
	action            world.Action

	// Planner plans who is in the air, under a budget; nil: everybody is to the end.
	Planner DutyPlanner
	duty    dutyState

	// Measured, if set, has where an aircraft truly was at the start of a slot, in place of where its moves led.
	Measured func(slot, aircraft int) physics.Position
	// Ordered has what is ordered in a slot before it is decided, beside the request; nil: nothing is.
	Ordered func(slot int) []record.Event

	// OnDecided is called with each decision, the snapshot and the objective that it was made on; nil: it is not.
	OnDecided func(*slot.Snapshot, goal.Objective, *slot.Decision)
	// OnSettled is called with each slot and what it cost; nil: it is not.
	OnSettled func(slot int, delayS, energyJ float64)

	newRecord func(start goal.State) *record.Writer // begins the record of a flight; nil: none is made
	recorder  *record.Writer
}

// New returns a runner of a checkpoint in a world.
func New(frozen *checkpoint.Checkpoint, decoder inference.Decoder, c world.Config, l ReportLink) (*Runner, error) {
	trained, err := WorldOf(&frozen.Manifest)
	if err == nil {
		err = frozen.Fits(c.Aircraft, c.Slots)
	}
	if err != nil {
		return nil, err
	}
	outOfDistribution := !c.SameConstants(trained)
	if outOfDistribution { // it flies with the constants of this world
		moved := *frozen
		moved.Physics = c.Physics
		frozen = &moved
	}
	p, err := inference.New(frozen, decoder)
	if err != nil {
		return nil, err
	}
	if l.Prior == (dispatch.UserPrior{}) {
		l.Prior = frozen.UserPrior()
	}
	f, err := NewWithPolicy(p, &frozen.GoalConstants, c, l)
	if err == nil {
		f.outOfDistribution = outOfDistribution
	}
	return f, err
}

// WorldOf returns the world that a checkpoint was trained in, in which its
// conditioner's returns are attainable.
func WorldOf(m *checkpoint.Manifest) (world.Config, error) {
	c, err := world.FromRecord(m.World)
	if err != nil {
		return c, fmt.Errorf("checkpoint: %w", err)
	}
	c.Physics, c.Slots, c.Aircraft = m.Physics, m.GoalConstants.Slots, m.GoalConstants.AircraftCount
	return c, nil
}

// NewWithPolicy returns a runner of any policy, with the constants that its
// requests are read by.
func NewWithPolicy(p Policy, constants *goal.Constants, c world.Config, l ReportLink) (*Runner, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	if len(c.AircraftLosses) > 0 && (l.LateSlots > 0 || l.Fallback == FallbackLastReport || l.Fallback == FallbackSpeculative) {
		return nil, errors.New("late or repeated reports need a fleet that keeps its size: their gains are to its aircraft")
	}
	w := world.New(c, 0)
	if x, ok := p.(Privileged); ok {
		x.Watch(w)
	}
	return &Runner{policy: p, goalConstants: constants, world: w,
		link: linkState{ReportLink: l, forecast: dispatch.Forecast{Prior: l.Prior, Claims: l.Prior.Claims()}}}, nil
}

// Fly flies one episode.
func (f *Runner) Fly(seed uint64, r Request) Result {
	w := f.world
	w.Reset(seed)
	f.policy.Reset()
	f.link.reset()
	f.startDuty(&r)
	c := &w.Config.Physics
	objective := goal.New(f.goalConstants, c, w.Config.Slots, len(w.Aircraft))
	objective.SetOutOfDistribution(f.outOfDistribution)
	if r.Mode == goal.Preference {
		objective.SetOmega(r.Omega)
	} else if err := objective.SetBudget(r.BudgetJ, r.Mode); err != nil {
		panic(err) // requests are checked where they are read
	}
	if f.newRecord != nil {
		f.recorder = f.newRecord(objective.State())
	}
	m := meter{Result: Result{MinSeparationM: math.Inf(1)}}
	_, m.bestPowerW = c.MinPower()
	for !w.Done() {
		if r.ReviseSlot > 0 && w.Slot == r.ReviseSlot {
			f.applyEvent(&objective, record.Event{BudgetJ: &r.RevisedBudgetJ, Mode: r.Mode})
		}
		if r.RevertSlot > 0 && w.Slot == r.RevertSlot {
			f.applyEvent(&objective, record.Event{BudgetJ: &r.BudgetJ, Mode: r.Mode})
		}
		if f.Measured != nil {
			for m := range w.Aircraft {
				w.Aircraft[m].Position = f.Measured(w.Slot, m)
			}
		}
		if f.Ordered != nil {
			for _, e := range f.Ordered(w.Slot) {
				f.applyEvent(&objective, e)
			}
		}
		if w.Slot == w.Config.Shock.FromSlot && w.Config.PropulsionFactor(w.Slot) != 1 {
			m.FloorJ = objective.SpentJ()
		}
		if f.link.Missed != nil && f.link.Missed(w.Slot) {
			f.miss(&objective, &m)
			continue
		}
		f.planDuty(&objective, &r)
		seen := f.link.snapshot(w)
		f.order(seen)
		requested := objective
		decideAndObserve(f.policy, seen, &objective, &f.decision)
		if f.OnDecided != nil {
			f.OnDecided(seen, requested, &f.decision)
		}
		f.recorder.WriteDecision(seen, requested, &f.decision)
		w.FillAction(seen, &f.decision, &f.action)
		f.link.applyOffers(w, seen, &f.decision, &f.action)
		o := w.Step(f.action)
		m.addSlot(w, o)
		f.settleDuty(o.EdgeJ)
		settled := teacher.Settlement(w, o)
		if f.link.usesOffers() { // results show which users accepted the offer, not at which aircraft
			settled.EdgeJ = f.link.forecast.SlotEdgeJ(c, seen, &f.decision, f.link.acceptedOffers)
			if f.link.acceptedOffers > 0 { // and they change the shares of the others: it is not bounded
				settled.MaxEdgeJ = math.MaxFloat64
			}
		}
		f.applyEvent(&objective, record.Event{Settle: &settled})
		f.settled(w.Slot-1, settled)
	}
	m.DelayS, m.EnergyJ = objective.DelayS(), objective.SpentJ()
	m.SpentJ, m.EdgeJ = f.endDuty(&r)
	m.MeanSpeedMPS /= max(m.aircraftSlots, 1)
	return m.Result
}

// miss flies a slot without a leader: every task is computed locally, which is what
// a leader counts for it too.
func (f *Runner) miss(objective *goal.Objective, m *meter) {
	w := f.world
	f.link.lastMissed = w.Slot
	w.FillAction(&slot.Snapshot{}, &slot.Decision{}, &f.action)
	o := w.Step(f.action)
	m.addSlot(w, o)
	settled := teacher.Settlement(w, o)
	settled.ModelFlightJ = 0
	f.applyEvent(objective, record.Event{Settle: &settled})
	f.settled(w.Slot-1, settled)
}

func (f *Runner) settled(slot int, s goal.Settlement) {
	if f.OnSettled != nil {
		f.OnSettled(slot, s.DelayS, s.EnergyJ)
	}
}

// Believe has the runner's policy, which New made, decide on an estimator's beliefs, of the
// world itself if it is Privileged.
func (f *Runner) Believe(e belief.Estimator) {
	f.policy.(*inference.Policy).Estimator = e
	if x, ok := e.(Privileged); ok {
		x.Watch(f.world)
	}
}

// meter gathers a flight's result, slot by slot.
type meter struct {
	Result
	bestPowerW    float64 // P(v*)
	aircraftSlots float64
}

// addSlot adds a slot that has settled; w is the world after it.
func (m *meter) addSlot(w *world.World, o *world.Outcome) {
	if slices.ContainsFunc(o.FlightJ, func(j float64) bool { return j > 0 }) {
		m.ServedSlots++
	}
	for i := range w.Aircraft {
		a := &w.Aircraft[i]
		if o.FlightJ[i] > 0 {
			m.FloorJ += m.bestPowerW * o.FlightJ[i] / w.Config.Physics.Propulsion.PowerW(a.SpeedMPS)
		}
		if a.Lost { // from the next slot on
			continue
		}
		m.MeanSpeedMPS += a.SpeedMPS
		m.aircraftSlots++
		for j := range i {
			if !w.Aircraft[j].Lost {
				m.MinSeparationM = min(m.MinSeparationM, a.Position.Sub(w.Aircraft[j].Position).Norm())
			}
		}
	}
}

// applyEvent applies an event to the objective and records it.
func (f *Runner) applyEvent(o *goal.Objective, e record.Event) {
	if err := e.Apply(o); err != nil {
		panic(err) // requests are checked where they are read
	}
	f.recorder.WriteEvent(e)
}

// Sweep flies every seed with every request and returns results[request][seed].
// The result does not depend on the number of workers. The end of ctx ends it
// after a flight.
func Sweep(ctx context.Context, frozen *checkpoint.Checkpoint, decoder inference.Decoder, c world.Config, l ReportLink, seeds []uint64,
	requests []Request, workers int, progress func(done int)) ([][]Result, error) {
	return SweepRunners(ctx, func() (*Runner, error) { return New(frozen, decoder, c, l) }, c, seeds, requests, workers, progress)
}

// SweepRunners is Sweep by runners of any policy, one for each worker.
func SweepRunners(ctx context.Context, newRunner func() (*Runner, error), c world.Config, seeds []uint64, requests []Request, workers int,
	progress func(done int)) ([][]Result, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	results := make([][]Result, len(requests))
	for i := range results {
		results[i] = make([]Result, len(seeds))
	}
	err := jobs.Do(ctx, len(seeds), workers, newRunner, func(f *Runner, s int) error {
		for i, r := range requests {
			if err := ctx.Err(); err != nil {
				return err
			}
			results[i][s] = f.Fly(seeds[s], r)
		}
		return nil
	}, progress)
	return results, err
}

// Outcomes returns the delay and energy of every flight of a sweep.
func Outcomes(results [][]Result) [][]pareto.Point {
	outcomes := make([][]pareto.Point, len(results))
	for i, row := range results {
		outcomes[i] = make([]pareto.Point, len(row))
		for s, x := range row {
			outcomes[i][s] = x.Point
		}
	}
	return outcomes
}

// Linspace returns n shares evenly spaced over a band.
func Linspace(low, high float64, n int) []float64 {
	g := make([]float64, n)
	for i := range g {
		g[i] = low + (high-low)*float64(i)/float64(max(n-1, 1))
	}
	return g
}

// CalibratedOmegas returns the shares that n settings stand for, evenly spaced on a
// calibrated axis.
func CalibratedOmegas(r *goal.SettingMap, n int) []float64 {
	omegas := Linspace(0, 1, n)
	for i, setting := range omegas {
		omegas[i] = r.Omega(setting)
	}
	return omegas
}

// PreferenceRequests turns shares into requests.
func PreferenceRequests(omegas []float64) []Request {
	r := make([]Request, len(omegas))
	for i, w := range omegas {
		r[i] = Request{Mode: goal.Preference, Omega: w}
	}
	return r
}
