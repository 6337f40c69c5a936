package corpus

import (
	"fmt"
	"slices"

	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/offline/pareto"
	"prefdt/offline/search"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// Simulator flies members of archives and heuristics in a world that was reset. It serves one goroutine.
type Simulator struct {
	World     *world.World
	runner    teacher.Runner
	scheduler teacher.Scheduler
	rule      *search.Rule
}

// NewSimulator returns one of a world.
func NewSimulator(c *world.Config) *Simulator { return &Simulator{World: world.New(*c, 0)} }

// Member flies a member of an archive, a price or a rule.
func (f *Simulator) Member(a *Archive, member int, each func(teacher.SettledSlot)) (total pareto.Point, err error) {
	if member < 0 || member >= len(a.Points) {
		return total, fmt.Errorf("flight of member %d, the archive has %d", member, len(a.Points))
	}
	if a.Prices != nil {
		return f.scheduler.Fly(f.World, teacher.ConstantPrice(a.Prices[member]), each), nil
	}
	if f.rule == nil {
		f.rule, err = search.NewRule(&f.World.Config, a.Genes[member])
	} else {
		err = f.rule.SetGenes(a.Genes[member])
	}
	if err != nil {
		return total, err
	}
	return f.runner.Fly(f.World, f.rule.Decide, each), nil
}

// Heuristic flies a mode of the quality pool.
func (f *Simulator) Heuristic(mode int, each func(teacher.SettledSlot)) (total pareto.Point, err error) {
	if mode < 0 || mode >= len(heuristics) {
		return total, fmt.Errorf("flight of heuristic %d, there are %d", mode, len(heuristics))
	}
	return f.runner.Fly(f.World, func(s *slot.Snapshot, d *slot.Decision) { DecideHeuristic(mode, &f.World.Config, s, d) }, each), nil
}

// replayer flies a corpus's flights in one world, each exactly as before. It
// serves one goroutine.
type replayer struct {
	*Simulator
	manifest     *Manifest
	bestSpeedMPS float64

	slots []settledSlot
}

// settledSlot is one slot of a flight: what the teacher knew, what it decided, and
// what that cost.
type settledSlot struct {
	snapshot   slot.Snapshot
	decision   slot.Decision
	settlement goal.Settlement

	gains []float64 // memory of the users' gains
}

func newReplayer(m *Manifest) *replayer {
	return &replayer{Simulator: NewSimulator(&m.World), manifest: m}
}

func (r *replayer) reset(f *Episode) {
	c := &r.World.Config
	if *c = r.manifest.World; f.World > 0 {
		*c = r.manifest.Worlds[f.World-1]
	}
	c.Shock = world.Shock{FromSlot: f.ShockSlot, Factor: f.ShockFactor}
	c.Gust = f.Gust
	if f.LostSlot > 0 {
		c.AircraftLosses = []world.AircraftLoss{{Aircraft: 0, Slot: f.LostSlot}}
	}
	r.World.Reset(f.Seed)
	r.bestSpeedMPS = c.Physics.Propulsion.BestSpeedMPS(c.Physics.SpeedMaxMPS)
}

// fly flies f and returns its slots, valid until the next flight, and their sum.
func (r *replayer) fly(f *Episode) (slots []settledSlot, total pareto.Point, err error) {
	r.reset(f)
	n := r.World.Config.Slots
	r.slots = slices.Grow(r.slots[:0], n)[:n] // and the memory of each
	switch f.Teacher {
	case dispatchTeacher:
		total = r.scheduler.Fly(r.World, f.priceAt, r.recordSlot)
	case ruleTeacher:
		total, err = r.Member(&r.manifest.Archive, f.Member, r.recordSlot)
	case heuristicTeacher:
		total, err = r.Heuristic(f.Member, r.recordSlot)
	default:
		err = fmt.Errorf("flight of teacher %q, want %q, %q or %q", f.Teacher, dispatchTeacher, ruleTeacher, heuristicTeacher)
	}
	return r.slots, total, err
}

func (f *Episode) priceAt(t int) float64 {
	if f.ChangeSlot > 0 && t >= f.ChangeSlot {
		return f.ChangePrice
	}
	return f.Price
}

// recordSlot keeps a slot that has settled. The world reuses the memory of what
// it hands out, so everything is copied.
func (r *replayer) recordSlot(t teacher.SettledSlot) {
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
	s.settlement = teacher.Settlement(r.World, t.Outcome)
}
