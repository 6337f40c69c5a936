package corpus

import (
	"fmt"

	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/pareto"
	"prefdt/offline/search"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// flightRunner replays flights in one world. It serves one goroutine.
type flightRunner struct {
	manifest     *Manifest
	world        *world.World
	scheduler    teacher.Scheduler
	rule         *search.Rule
	snapshot     slot.Snapshot
	action       world.Action
	bestSpeedMPS float64

	slots []flownSlot
}

// flownSlot is what one slot of a flight was.
type flownSlot struct {
	decision       slot.Decision
	delayS         float64
	energyJ        float64
	edgeJ          float64
	aircraftFlying int     // aircraft in the air
	modelFlightJ   float64 // closed-form flight energy at the speeds flown, multiplier 1
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

// fly runs a flight and keeps its steps; its totals are the flight's outcome.
func (fl *flightRunner) fly(f *Flight) (total pareto.Point, err error) {
	fl.reset(f)
	if slots := fl.world.Config.Slots; cap(fl.slots) < slots {
		fl.slots = make([]flownSlot, slots)
	} else {
		fl.slots = fl.slots[:slots]
	}
	switch f.Teacher {
	case dispatchTeacher:
		return fl.scheduler.Fly(fl.world, f.priceAt, fl.recordSlot), nil
	case ruleTeacher:
		if f.Member < 0 || f.Member >= len(fl.manifest.Archive.Genes) {
			return total, fmt.Errorf("flight of rule %d, the archive has %d", f.Member, len(fl.manifest.Archive.Genes))
		}
		if fl.rule == nil {
			fl.rule, err = search.NewRule(&fl.world.Config, fl.manifest.Archive.Genes[f.Member])
		} else {
			err = fl.rule.SetGenes(fl.manifest.Archive.Genes[f.Member])
		}
		if err != nil {
			return total, err
		}
		return fl.flyScheduler(fl.rule.Decide), nil
	case heuristicTeacher:
		return fl.flyScheduler(func(s *slot.Snapshot, d *slot.Decision) { fl.decideHeuristic(f.Member, s, d) }), nil
	}
	return total, fmt.Errorf("flight of teacher %q, want %q, %q or %q", f.Teacher, dispatchTeacher, ruleTeacher, heuristicTeacher)
}

// priceAt returns the price in force in a slot.
func (f *Flight) priceAt(t int) float64 {
	if f.ChangeSlot > 0 && t >= f.ChangeSlot {
		return f.ChangePrice
	}
	return f.Price
}

// flyScheduler flies the world by any scheduler.
func (fl *flightRunner) flyScheduler(decide func(*slot.Snapshot, *slot.Decision)) (total pareto.Point) {
	var d slot.Decision
	for w := fl.world; !w.Done(); {
		w.Snapshot(&fl.snapshot)
		decide(&fl.snapshot, &d)
		w.FillAction(&fl.snapshot, &d, &fl.action)
		o := w.Step(fl.action)
		fl.recordSlot(teacher.SettledSlot{Snapshot: &fl.snapshot, Decision: &d, Outcome: o})
		total.DelayS += o.DelayS
		total.EnergyJ += o.EnergyJ()
	}
	return total
}

// recordSlot keeps a slot that has settled.
func (fl *flightRunner) recordSlot(t teacher.SettledSlot) {
	s := &fl.slots[t.Snapshot.Slot]
	users, move, edge := s.decision.Users, s.decision.Move, s.decision.EdgeJ
	s.decision = *t.Decision
	s.decision.Users = append(users[:0], t.Decision.Users...)
	s.decision.Move = append(move[:0], t.Decision.Move...)
	s.decision.EdgeJ = append(edge[:0], t.Decision.EdgeJ...)
	s.delayS, s.energyJ, s.edgeJ, s.modelFlightJ = t.Outcome.DelayS, t.Outcome.EnergyJ(), 0, 0
	for _, j := range t.Outcome.EdgeJ {
		s.edgeJ += j
	}
	s.aircraftFlying = len(t.Snapshot.Aircraft)
	for _, a := range t.Snapshot.Aircraft {
		s.modelFlightJ += fl.world.Config.Physics.Propulsion.PowerW(fl.world.Aircraft[a.Number-1].SpeedMPS)
	}
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
