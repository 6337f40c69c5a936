package corpus

import (
	"fmt"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/inference/tracking"
	"prefdt/offline/front"
	"prefdt/offline/search"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// flyer replays flights in one world. It serves one goroutine.
type flyer struct {
	manifest *Manifest
	world    *world.World
	pilot    teacher.Pilot
	rule     *search.Rule
	snap     slot.Snapshot
	action   world.Action
	speed    float64

	steps []step
}

// step is what one slot of a flight was.
type step struct {
	decision slot.Decision
	delayS   float64
	energyJ  float64
	edgeJ    float64
	flying   int     // aircraft in the air
	modelJ   float64 // closed-form flight energy at the speeds flown, multiplier 1
}

func newFlyer(m *Manifest) *flyer {
	return &flyer{manifest: m, world: world.New(m.World, 0)}
}

// start sets the world to the beginning of a flight.
func (fl *flyer) start(f *Flight) {
	c := &fl.world.Config
	if *c = fl.manifest.World; f.World > 0 {
		*c = fl.manifest.Worlds[f.World-1]
	}
	c.Shock = world.Shock{FromSlot: f.ShockSlot, Factor: f.ShockFactor}
	c.Gust = f.Gust
	if f.LostSlot > 0 {
		c.Losses = []world.Loss{{Aircraft: 0, Slot: f.LostSlot}}
	}
	fl.world.Reset(f.Seed)
	fl.speed = c.Physics.Propulsion.BestSpeedMPS(c.Physics.SpeedMaxMPS)
}

// fly runs a flight and keeps its steps; its totals are the flight's outcome.
func (fl *flyer) fly(f *Flight) (total front.Point, err error) {
	fl.start(f)
	if slots := fl.world.Config.Slots; cap(fl.steps) < slots {
		fl.steps = make([]step, slots)
	} else {
		fl.steps = fl.steps[:slots]
	}
	switch f.Teacher {
	case dispatchTeacher:
		return fl.pilot.Fly(fl.world, f.priceAt, fl.record), nil
	case ruleTeacher:
		if f.Member < 0 || f.Member >= len(fl.manifest.Archive.Genes) {
			return total, fmt.Errorf("flight of rule %d, the archive has %d", f.Member, len(fl.manifest.Archive.Genes))
		}
		if fl.rule == nil {
			fl.rule, err = search.NewRule(&fl.world.Config, fl.manifest.Archive.Genes[f.Member])
		} else {
			err = fl.rule.Use(fl.manifest.Archive.Genes[f.Member])
		}
		if err != nil {
			return total, err
		}
		return fl.loop(fl.rule.Decide), nil
	case heuristicTeacher:
		return fl.loop(func(s *slot.Snapshot, d *slot.Decision) { fl.heuristic(f.Member, s, d) }), nil
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

// loop flies the world by any scheduler.
func (fl *flyer) loop(decide func(*slot.Snapshot, *slot.Decision)) (total front.Point) {
	var d slot.Decision
	for w := fl.world; !w.Done(); {
		w.Snapshot(&fl.snap)
		decide(&fl.snap, &d)
		w.Apply(&fl.snap, &d, &fl.action)
		o := w.Step(fl.action)
		fl.record(teacher.Slot{Snapshot: &fl.snap, Decision: &d, Outcome: o})
		total.DelayS += o.DelayS
		total.EnergyJ += o.EnergyJ()
	}
	return total
}

// record keeps a slot that has settled.
func (fl *flyer) record(t teacher.Slot) {
	s := &fl.steps[t.Snapshot.Slot]
	users, move, edge := s.decision.Users, s.decision.Move, s.decision.EdgeJ
	s.decision = *t.Decision
	s.decision.Users = append(users[:0], t.Decision.Users...)
	s.decision.Move = append(move[:0], t.Decision.Move...)
	s.decision.EdgeJ = append(edge[:0], t.Decision.EdgeJ...)
	s.delayS, s.energyJ, s.edgeJ, s.modelJ = t.Outcome.DelayS, t.Outcome.EnergyJ(), 0, 0
	for _, j := range t.Outcome.EdgeJ {
		s.edgeJ += j
	}
	s.flying = len(t.Snapshot.Aircraft)
	for _, a := range t.Snapshot.Aircraft {
		s.modelJ += fl.world.Config.Physics.Propulsion.PowerW(fl.world.Aircraft[a.Number-1].SpeedMPS)
	}
}

// heuristics is the number of scripted modes.
const heuristics = 3

// heuristic is the quality pool of Sec. IV-C: hover and compute locally, fly
// at v* and let the nearest aircraft take half of each task, or all of it.
func (fl *flyer) heuristic(mode int, s *slot.Snapshot, d *slot.Decision) {
	d.Size(s)
	for u := range s.Users {
		if mode > 0 && len(s.Aircraft) > 0 {
			d.Users[u] = slot.UserDecision{Server: 1 + nearestAircraft(s, u), Offload: 0.5 * float64(mode)}
		}
	}
	d.Price(&fl.world.Config.Physics, s)
	if mode > 0 {
		for m := range s.Aircraft {
			d.Move[m] = tracking.Move(s.Aircraft[m].Position, fl.world.Config.Start(s.Aircraft[m].Number-1), fl.speed, fl.speed)
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
