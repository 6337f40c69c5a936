// Package rollout flies a frozen policy in the simulated world, Algorithm 1's
// inner loop: one step a slot, what the slot cost subtracted from the target.
// Validation, calibration, evaluation and the study fly nothing else.
package rollout

import (
	"context"
	"errors"
	"math"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/record"
	"prefdt/inference/slot"
	"prefdt/offline/jobs"
	"prefdt/offline/pareto"
	"prefdt/simbridge/world"
)

// Request is what a flight is asked for, from slot 0 unless revised.
type Request struct {
	Omega   float64   // delay share, when Mode is goal.Preference
	Mode    goal.Mode // goal.Preference, goal.Target or goal.Ceiling
	BudgetJ float64
	// ReviseSlot, if positive, is the slot from which the budget is RevisedBudgetJ.
	ReviseSlot     int
	RevisedBudgetJ float64
}

// UnlimitedJ is a budget that nothing can spend.
const UnlimitedJ = 1e12

// Result is what a flight cost.
type Result struct {
	pareto.Point
	// FloorJ is the least total that was possible without foreseeing a shock:
	// what was spent before it, and flight at v* from then on in the gusts that
	// came.
	FloorJ float64
	// ShockOnsetJ is what the shock's first slot spends above that, which is decided
	// before its flight can tell of the shock.
	ShockOnsetJ     float64
	MeanSpeedMPS    float64 // mean over aircraft and slots
	MinSeparationM  float64 // least separation at the end of any slot
	MissedDeadlines int     // deadlines missed
}

// Policy decides slot by slot; a checkpoint's, or one that the study compares.
type Policy interface {
	Reset()
	Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Observation
}

// Runner flies one policy, one flight at a time.
type Runner struct {
	policy        Policy
	goalConstants *goal.Constants
	world         *world.World
	link          linkState

	outOfDistribution bool
	decision          slot.Decision
	action            world.Action

	newRecord func(start goal.State) *record.Writer // begins the record of a flight; nil: none is made
	recorder  *record.Writer
}

// New returns a flyer of a checkpoint in a world.
func New(frozen *checkpoint.Checkpoint, decoder inference.Decoder, c world.Config, l ReportLink) (*Runner, error) {
	trained, err := WorldOf(&frozen.Manifest)
	if err != nil {
		return nil, err
	}
	elsewhere := !c.SameConstants(trained)
	if elsewhere { // it flies with the constants of where it is
		moved := *frozen
		moved.Physics = c.Physics
		frozen = &moved
	}
	p, err := inference.New(frozen, decoder)
	if err != nil {
		return nil, err
	}
	f, err := NewWithPolicy(p, &frozen.GoalConstants, c, l)
	if err == nil {
		f.outOfDistribution = elsewhere
		f.link.forecast.Prior = frozen.Statistics.UserPrior()
	}
	return f, err
}

// NewWithPolicy returns a flyer of any policy, whose requests are read by some scales.
func NewWithPolicy(p Policy, scales *goal.Constants, c world.Config, l ReportLink) (*Runner, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	if len(c.AircraftLosses) > 0 && (l.LateSlots > 0 || l.Fallback == FallbackLastReport || l.Fallback == FallbackSpeculative) {
		return nil, errors.New("old reports do not go with a fleet that loses aircraft: their gains are of another fleet")
	}
	return &Runner{policy: p, goalConstants: scales, world: world.New(c, 0), link: linkState{ReportLink: l}}, nil
}

// Fly flies one episode.
func (f *Runner) Fly(seed uint64, r Request) Result {
	w := f.world
	w.Reset(seed)
	f.policy.Reset()
	c := &w.Config.Physics
	g := goal.New(f.goalConstants, c, w.Config.Slots, len(w.Aircraft))
	g.SetOutOfDistribution(f.outOfDistribution)
	if r.Mode == goal.Preference {
		g.SetOmega(r.Omega)
	} else if err := g.SetBudget(r.BudgetJ, r.Mode); err != nil {
		panic(err) // requests are checked where they come in
	}
	if f.newRecord != nil {
		f.recorder = f.newRecord(g.State())
	}
	best := c.Propulsion.PowerW(c.Propulsion.BestSpeedMPS(c.SpeedMaxMPS))
	result := Result{MinSeparationM: math.Inf(1)}
	shock := w.Config.Shock
	slots := 0.0
	f.link.reset()
	for !w.Done() {
		if r.ReviseSlot > 0 && w.Slot == r.ReviseSlot {
			f.applyEvent(&g, record.Event{BudgetJ: &r.RevisedBudgetJ, Mode: r.Mode})
		}
		factor := w.Config.PropulsionFactor(w.Slot)
		if w.Slot == shock.FromSlot && factor != 1 {
			result.FloorJ = g.SpentJ()
		}
		seen := f.link.snapshot(w)
		asked := g
		decideAndObserve(f.policy, seen, &g, &f.decision)
		f.recorder.WriteDecision(seen, asked, &f.decision)
		w.FillAction(seen, &f.decision, &f.action)
		f.link.applyOffers(w, seen, &f.decision, &f.action)
		o := w.Step(f.action)
		settled := goal.Settlement{DelayS: o.DelayS, EnergyJ: o.EnergyJ()}
		for m := range w.Aircraft {
			settled.EdgeJ += o.EdgeJ[m]
			if o.FlightJ[m] > 0 {
				modelJ := c.Propulsion.PowerW(w.Aircraft[m].SpeedMPS)
				settled.ModelFlightJ += modelJ
				result.FloorJ += best * o.FlightJ[m] / modelJ
			}
			if w.Aircraft[m].Lost { // from the next slot on
				continue
			}
			settled.Flying++
			result.MeanSpeedMPS += w.Aircraft[m].SpeedMPS
			slots++
			for n := range m {
				if !w.Aircraft[n].Lost {
					result.MinSeparationM = min(result.MinSeparationM, w.Aircraft[m].Position.Sub(w.Aircraft[n].Position).Norm())
				}
			}
		}
		if f.link.usesOffers() { // results tell who took the offer, not where
			settled.EdgeJ = f.link.forecast.SlotEdgeJ(c, seen, &f.decision, f.link.offerTakers)
			if f.link.offerTakers > 0 { // and in this world share alike whoever else came
				settled.MaxEdgeJ = math.MaxFloat64
			}
		}
		f.applyEvent(&g, record.Event{Settle: &settled})
		if w.Slot == shock.FromSlot+1 && factor != 1 {
			result.ShockOnsetJ = g.SpentJ() - result.FloorJ
		}
		result.MissedDeadlines += o.Missed
	}
	result.DelayS, result.EnergyJ = g.DelayS(), g.SpentJ()
	result.MeanSpeedMPS /= max(slots, 1)
	return result
}

// applyEvent does something to the objective, and has it recorded.
func (f *Runner) applyEvent(o *goal.Objective, e record.Event) {
	if err := e.Apply(o); err != nil {
		panic(err) // requests are checked where they come in
	}
	f.recorder.WriteEvent(e)
}

// Sweep flies every seed with every request and returns results[request][seed].
// The result does not depend on the number of workers. The end of ctx ends it
// after a flight.
func Sweep(ctx context.Context, frozen *checkpoint.Checkpoint, decoder inference.Decoder, c world.Config, l ReportLink, seeds []uint64, requests []Request, workers int, progress func(done int)) ([][]Result, error) {
	return SweepRunners(ctx, func() (*Runner, error) { return New(frozen, decoder, c, l) }, c, seeds, requests, workers, progress)
}

// SweepRunners is Sweep by flyers of any policy, one for each worker.
func SweepRunners(ctx context.Context, flyer func() (*Runner, error), c world.Config, seeds []uint64, requests []Request, workers int, progress func(done int)) ([][]Result, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	results := make([][]Result, len(requests))
	for i := range results {
		results[i] = make([]Result, len(seeds))
	}
	err := jobs.Do(ctx, len(seeds), workers, flyer, func(f *Runner, s int) error {
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

// SeedPoints returns one seed's outcomes over all requests.
func SeedPoints(results [][]Result, seed int) []pareto.Point {
	p := make([]pareto.Point, len(results))
	for i := range results {
		p[i] = results[i][seed].Point
	}
	return p
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
