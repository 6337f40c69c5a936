package corpus

import (
	"fmt"
	"slices"

	"prefdt/inference/goal"
	"prefdt/inference/motion"
	"prefdt/inference/slot"
	"prefdt/offline/pareto"
	"prefdt/offline/search"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// flightRunner flies a corpus's flights in one world, each exactly as before. It
// serves one goroutine.
type flightRunner struct {
	manifest     *Manifest
	world        *world.World
	runner       teacher.Runner
	scheduler    teacher.Scheduler
	bestSpeedMPS float64

	slots []flownSlot
}

// flownSlot is one slot of a flight: what the teacher knew, what it decided, and
// what that cost.
type flownSlot struct {
	snapshot   slot.Snapshot
	decision   slot.Decision
	settlement goal.Settlement

	gains []float64 // memory of the users' gains
}

func newFlightRunner(m *Manifest) *flightRunner {
	return &flightRunner{manifest: m, world: world.New(m.World, 0)}
}

func (r *flightRunner) reset(f *Flight) {
	c := &r.world.Config
	if *c = r.manifest.World; f.World > 0 {
		*c = r.manifest.Worlds[f.World-1]
	}
	c.Shock = world.Shock{FromSlot: f.ShockSlot, Factor: f.ShockFactor}
	c.Gust = f.Gust
	if f.LostSlot > 0 {
		c.AircraftLosses = []world.AircraftLoss{{Aircraft: 0, Slot: f.LostSlot}}
	}
	r.world.Reset(f.Seed)
	r.bestSpeedMPS = c.Physics.Propulsion.BestSpeedMPS(c.Physics.SpeedMaxMPS)
}

// fly flies f and returns its slots, valid until the next flight, and their sum.
func (r *flightRunner) fly(f *Flight) (slots []flownSlot, total pareto.Point, err error) {
	r.reset(f)
	n := r.world.Config.Slots
	r.slots = slices.Grow(r.slots[:0], n)[:n] // and the memory of each
	switch f.Teacher {
	case dispatchTeacher:
		total = r.scheduler.Fly(r.world, f.priceAt, r.recordSlot)
	case ruleTeacher:
		if f.Member < 0 || f.Member >= len(r.manifest.Archive.Genes) {
			return nil, total, fmt.Errorf("flight of rule %d, the archive has %d", f.Member, len(r.manifest.Archive.Genes))
		}
		rule, err := search.NewRule(&r.world.Config, r.manifest.Archive.Genes[f.Member])
		if err != nil {
			return nil, total, err
		}
		total = r.runner.Fly(r.world, rule.Decide, r.recordSlot)
	case heuristicTeacher:
		total = r.runner.Fly(r.world, func(s *slot.Snapshot, d *slot.Decision) { r.decideHeuristic(f.Member, s, d) }, r.recordSlot)
	default:
		return nil, total, fmt.Errorf("flight of teacher %q, want %q, %q or %q", f.Teacher, dispatchTeacher, ruleTeacher, heuristicTeacher)
	}
	return r.slots, total, nil
}

func (f *Flight) priceAt(t int) float64 {
	if f.ChangeSlot > 0 && t >= f.ChangeSlot {
		return f.ChangePrice
	}
	return f.Price
}

// recordSlot keeps a slot that has settled. The world reuses the memory of what
// it hands out, so everything is copied.
func (r *flightRunner) recordSlot(t teacher.SettledSlot) {
	s := &r.slots[t.Snapshot.Slot]
	s.snapshot.Slot, s.snapshot.Slots = t.Snapshot.Slot, t.Snapshot.Slots
	s.snapshot.Aircraft = append(s.snapshot.Aircraft[:0], t.Snapshot.Aircraft...)
	s.snapshot.Users = append(s.snapshot.Users[:0], t.Snapshot.Users...)
	s.gains = teacher.CopyGains(s.snapshot.Users, s.gains)
	d := t.Decision
	s.decision = slot.Decision{
		Users: append(s.decision.Users[:0], d.Users...), Move: append(s.decision.Move[:0], d.Move...),
		PriceSPerJ: d.PriceSPerJ, DelayS: d.DelayS, EdgeJ: append(s.decision.EdgeJ[:0], d.EdgeJ...),
	}
	s.settlement = teacher.Settlement(r.world, t.Outcome)
}

// heuristicModes is the number of scripted modes.
const heuristicModes = 3

// decideHeuristic is the quality pool of Sec. IV-C: hover and compute locally, fly
// at v* and offload half of each task, or all of it, to the nearest aircraft.
func (r *flightRunner) decideHeuristic(mode int, s *slot.Snapshot, d *slot.Decision) {
	d.Resize(s)
	for u := range s.Users {
		if mode > 0 && len(s.Aircraft) > 0 {
			d.Users[u] = slot.UserDecision{Server: 1 + nearestAircraft(s, u), Offload: 0.5 * float64(mode)}
		}
	}
	d.Evaluate(&r.world.Config.Physics, s)
	if mode > 0 {
		for m := range s.Aircraft {
			d.Move[m] = motion.MoveToward(s.Aircraft[m].Position, r.world.Config.Start(s.Aircraft[m].Number-1), r.bestSpeedMPS, r.bestSpeedMPS)
		}
	}
}

func nearestAircraft(s *slot.Snapshot, u int) int {
	best := 0
	at := func(m int) float64 { return s.Users[u].Position.Sub(s.Aircraft[m].Position).Norm() }
	for m := range s.Aircraft {
		if at(m) < at(best) {
			best = m
		}
	}
	return best
}
