// Package rollout flies a frozen policy in the simulated world, Algorithm 1's
// inner loop: one step a slot, what the slot cost subtracted from the target.
// Validation, calibration, evaluation and the study fly nothing else.
package rollout

import (
	"context"
	"errors"
	"math"
	"reflect"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/record"
	"prefdt/inference/slot"
	"prefdt/offline/front"
	"prefdt/offline/jobs"
	"prefdt/simbridge/world"
)

// Request is what a flight is asked for, from slot 0 unless revised.
type Request struct {
	Omega   float64   // delay share, when Mode is goal.Preference
	Mode    goal.Mode // goal.Preference, goal.Target or goal.Ceiling
	BudgetJ float64
	// Revise, if positive, is the slot from which the budget is RevisedJ.
	Revise   int
	RevisedJ float64
}

// BoundlessJ is a budget that nothing can spend.
const BoundlessJ = 1e12

// Result is what a flight cost.
type Result struct {
	front.Point
	// FloorJ is the least total that was possible without foreseeing a shock:
	// what was spent before it, and flight at v* from then on in the gusts that
	// came.
	FloorJ float64
	// BlindJ is what the shock's first slot spends above that, which is decided
	// before its flight can tell of the shock.
	BlindJ     float64
	SpeedMPS   float64 // mean over aircraft and slots
	MinApartM  float64 // least separation at the end of any slot
	MissedDead int     // deadlines missed
}

// Policy decides slot by slot; a checkpoint's, or one that the study compares.
type Policy interface {
	Reset()
	Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Seen
}

// Flyer flies one policy, one flight at a time.
type Flyer struct {
	policy Policy
	scales *goal.Scales
	world  *world.World
	link   link

	elsewhere bool
	d         slot.Decision
	action    world.Action

	record   func(start goal.State) *record.Writer // begins the record of a flight; nil: none is made
	recorder *record.Writer
}

// New returns a flyer of a checkpoint in a world.
func New(frozen *checkpoint.Checkpoint, decoder inference.Decoder, c world.Config, l Link) (*Flyer, error) {
	elsewhere := isElsewhere(c)
	if elsewhere { // it flies with the constants of where it is
		moved := *frozen
		moved.Physics = c.Physics
		frozen = &moved
	}
	p, err := inference.New(frozen, decoder)
	if err != nil {
		return nil, err
	}
	f, err := NewOf(p, &frozen.Scales, c, l)
	if err == nil {
		f.elsewhere = elsewhere
		f.link.forecast.Usual = frozen.Standard.Crowd()
	}
	return f, err
}

// NewOf returns a flyer of any policy, whose requests are read by some scales.
func NewOf(p Policy, scales *goal.Scales, c world.Config, l Link) (*Flyer, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	if len(c.Losses) > 0 && (l.Late > 0 || l.Unheard == LastReport || l.Unheard == Speculative) {
		return nil, errors.New("old reports do not go with a fleet that loses aircraft: their gains are of another fleet")
	}
	return &Flyer{policy: p, scales: scales, world: world.New(c, 0), link: link{Link: l}}, nil
}

// isElsewhere reports whether a world is another than the one the conditioner
// knows; what happens in it, how long it lasts and how many aircraft fly aside.
func isElsewhere(c world.Config) bool {
	known := world.Standard()
	c.Shock, c.Gust, c.Crowded, c.Losses, c.Slots, c.Aircraft = known.Shock, 0, false, nil, known.Slots, known.Aircraft
	return !reflect.DeepEqual(c, known)
}

// Fly flies one episode.
func (f *Flyer) Fly(seed uint64, r Request) Result {
	w := f.world
	w.Reset(seed)
	f.policy.Reset()
	c := &w.Config.Physics
	g := goal.New(f.scales, c, w.Config.Slots, len(w.Aircraft))
	g.SetElsewhere(f.elsewhere)
	if r.Mode == goal.Preference {
		g.PreferOmega(r.Omega)
	} else if err := g.Budget(r.BudgetJ, r.Mode); err != nil {
		panic(err) // requests are checked where they come in
	}
	if f.record != nil {
		f.recorder = f.record(g.State())
	}
	best := c.Propulsion.PowerW(c.Propulsion.BestSpeedMPS(c.SpeedMaxMPS))
	result := Result{MinApartM: math.Inf(1)}
	shock := w.Config.Shock
	slots := 0.0
	f.link.reset()
	for !w.Done() {
		if r.Revise > 0 && w.Slot == r.Revise {
			f.set(&g, record.Event{BudgetJ: &r.RevisedJ, Mode: r.Mode})
		}
		factor := w.Config.Factor(w.Slot)
		if w.Slot == shock.FromSlot && factor != 1 {
			result.FloorJ = g.SpentJ()
		}
		seen := f.link.snapshot(w)
		asked := g
		decide(f.policy, seen, &g, &f.d)
		f.recorder.Decided(seen, asked, &f.d)
		w.Apply(seen, &f.d, &f.action)
		f.link.unheard(w, seen, &f.d, &f.action)
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
			result.SpeedMPS += w.Aircraft[m].SpeedMPS
			slots++
			for n := range m {
				if !w.Aircraft[n].Lost {
					result.MinApartM = min(result.MinApartM, w.Aircraft[m].Position.Sub(w.Aircraft[n].Position).Norm())
				}
			}
		}
		if f.link.offers() { // results tell who took the offer, not where
			settled.EdgeJ = f.link.forecast.EdgeJ(c, seen, &f.d, f.link.takers)
			if f.link.takers > 0 { // and in this world share alike whoever else came
				settled.MostEdgeJ = math.MaxFloat64
			}
		}
		f.set(&g, record.Event{Settle: &settled})
		if w.Slot == shock.FromSlot+1 && factor != 1 {
			result.BlindJ = g.SpentJ() - result.FloorJ
		}
		result.MissedDead += o.Missed
	}
	result.DelayS, result.EnergyJ = g.DelayS(), g.SpentJ()
	result.SpeedMPS /= max(slots, 1)
	return result
}

// set does something to the objective, and has it recorded.
func (f *Flyer) set(o *goal.Objective, e record.Event) {
	if err := e.Apply(o); err != nil {
		panic(err) // requests are checked where they come in
	}
	f.recorder.Then(e)
}

// Sweep flies every seed with every request and returns results[request][seed].
// The result does not depend on the number of workers.
func Sweep(frozen *checkpoint.Checkpoint, decoder inference.Decoder, c world.Config, l Link, seeds []uint64, requests []Request, workers int, progress func(done int)) ([][]Result, error) {
	return SweepOf(func() (*Flyer, error) { return New(frozen, decoder, c, l) }, c, seeds, requests, workers, progress)
}

// SweepOf is Sweep by flyers of any policy, one for each worker.
func SweepOf(flyer func() (*Flyer, error), c world.Config, seeds []uint64, requests []Request, workers int, progress func(done int)) ([][]Result, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	results := make([][]Result, len(requests))
	for i := range results {
		results[i] = make([]Result, len(seeds))
	}
	err := jobs.Do(context.Background(), len(seeds), workers, flyer, func(f *Flyer, s int) error {
		for i, r := range requests {
			results[i][s] = f.Fly(seeds[s], r)
		}
		return nil
	}, progress)
	return results, err
}

// Points returns one seed's outcomes over all requests.
func Points(results [][]Result, seed int) []front.Point {
	p := make([]front.Point, len(results))
	for i := range results {
		p[i] = results[i][seed].Point
	}
	return p
}

// Grid returns n shares evenly spaced over a band.
func Grid(low, high float64, n int) []float64 {
	g := make([]float64, n)
	for i := range g {
		g[i] = low + (high-low)*float64(i)/float64(max(n-1, 1))
	}
	return g
}

// Axis returns the shares that n settings stand for, evenly spaced on a
// calibrated axis.
func Axis(r *goal.Remap, n int) []float64 {
	omegas := Grid(0, 1, n)
	for i, setting := range omegas {
		omegas[i] = r.Omega(setting)
	}
	return omegas
}

// Preferences turns shares into requests.
func Preferences(omegas []float64) []Request {
	r := make([]Request, len(omegas))
	for i, w := range omegas {
		r[i] = Request{Mode: goal.Preference, Omega: w}
	}
	return r
}
