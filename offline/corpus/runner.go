package corpus

import (
	"fmt"

	"prefdt/inference/goal"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
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
	rule         *search.Rule
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

// reset sets the world to the beginning of a flight.
func (fl *flightRunner) reset(f *Flight) {
	c := &fl.world.Config
	if *c = fl.manifest.World; f.World > 0 {
		*c = fl.manifest.Worlds[f.World-1]
	}
	c.Shock = world.Shock{FromSlot: f.ShockSlot, Factor: f.ShockFactor}
	c.Gust = f.Gust
	if f.LostSlot > 0 {
		c.AircraftLosses = []world.AircraftLoss{{Aircraft: 0, Slot: f.LostSlot}}
	}
	fl.world.Reset(f.Seed)
	fl.bestSpeedMPS = c.Physics.Propulsion.BestSpeedMPS(c.Physics.SpeedMaxMPS)
}

// fly flies f and returns its slots, valid until the next flight, and their sum.
func (fl *flightRunner) fly(f *Flight) (slots []flownSlot, total pareto.Point, err error) {
	fl.reset(f)
	if n := fl.world.Config.Slots; n <= cap(fl.slots) {
		fl.slots = fl.slots[:n] // and the memory of each
	} else {
		fl.slots = make([]flownSlot, n)
	}
	switch f.Teacher {
	case dispatchTeacher:
		total = fl.scheduler.Fly(fl.world, f.priceAt, fl.recordSlot)
	case ruleTeacher:
		if f.Member < 0 || f.Member >= len(fl.manifest.Archive.Genes) {
			return nil, total, fmt.Errorf("flight of rule %d, the archive has %d", f.Member, len(fl.manifest.Archive.Genes))
		}
		if fl.rule == nil {
			fl.rule, err = search.NewRule(&fl.world.Config, fl.manifest.Archive.Genes[f.Member])
		} else {
			err = fl.rule.SetGenes(fl.manifest.Archive.Genes[f.Member])
		}
		if err != nil {
			return nil, total, err
		}
		total = fl.runner.Fly(fl.world, fl.rule.Decide, fl.recordSlot)
	case heuristicTeacher:
		total = fl.runner.Fly(fl.world, func(s *slot.Snapshot, d *slot.Decision) { fl.decideHeuristic(f.Member, s, d) }, fl.recordSlot)
	default:
		return nil, total, fmt.Errorf("flight of teacher %q, want %q, %q or %q", f.Teacher, dispatchTeacher, ruleTeacher, heuristicTeacher)
	}
	return fl.slots, total, nil
}

// priceAt returns the price in force in a slot.
func (f *Flight) priceAt(t int) float64 {
	if f.ChangeSlot > 0 && t >= f.ChangeSlot {
		return f.ChangePrice
	}
	return f.Price
}

// recordSlot keeps a slot that has settled. The world reuses the memory of what
// it hands out, so everything is copied.
func (fl *flightRunner) recordSlot(t teacher.SettledSlot) {
	s := &fl.slots[t.Snapshot.Slot]
	s.snapshot.Slot, s.snapshot.Slots = t.Snapshot.Slot, t.Snapshot.Slots
	s.snapshot.Aircraft = append(s.snapshot.Aircraft[:0], t.Snapshot.Aircraft...)
	s.snapshot.Users = append(s.snapshot.Users[:0], t.Snapshot.Users...)
	s.gains = s.gains[:0]
	for u := range s.snapshot.Users {
		user, first := &s.snapshot.Users[u], len(s.gains)
		s.gains = append(s.gains, user.Gain...)
		user.Gain = s.gains[first:len(s.gains):len(s.gains)]
	}
	d := t.Decision
	s.decision = slot.Decision{
		Users: append(s.decision.Users[:0], d.Users...), Move: append(s.decision.Move[:0], d.Move...),
		PriceSPerJ: d.PriceSPerJ, DelayS: d.DelayS, EdgeJ: append(s.decision.EdgeJ[:0], d.EdgeJ...),
	}
	s.settlement = teacher.Settlement(fl.world, t.Outcome)
}

// heuristicModes is the number of scripted modes.
const heuristicModes = 3

// decideHeuristic is the quality pool of Sec. IV-C: hover and compute locally, fly
// at v* and let the nearest aircraft take half of each task, or all of it.
func (fl *flightRunner) decideHeuristic(mode int, s *slot.Snapshot, d *slot.Decision) {
	d.Resize(s)
	for u := range s.Users {
		if mode > 0 && len(s.Aircraft) > 0 {
			d.Users[u] = slot.UserDecision{Server: 1 + nearestAircraft(s, u), Offload: 0.5 * float64(mode)}
		}
	}
	d.Evaluate(&fl.world.Config.Physics, s)
	if mode > 0 {
		for m := range s.Aircraft {
			d.Move[m] = motion.MoveToward(s.Aircraft[m].Position, fl.world.Config.Start(s.Aircraft[m].Number-1), fl.bestSpeedMPS, fl.bestSpeedMPS)
		}
	}
}

func nearestAircraft(s *slot.Snapshot, u int) int {
	best := 0
	at := func(m int) float64 { return physics.Position.Sub(s.Users[u].Position, s.Aircraft[m].Position).Norm() }
	for m := range s.Aircraft {
		if at(m) < at(best) {
			best = m
		}
	}
	return best
}
