package corpus

import (
	"fmt"

	"prefdt/inference/slot"
	"prefdt/offline/pareto"
	"prefdt/offline/search"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// Simulator flies members of an archive and heuristics in a world that was reset. It serves one goroutine.
type Simulator struct {
	World     *world.World
	archive   *Archive
	runner    teacher.Runner
	scheduler teacher.Scheduler
	decideAs  func(member int, s *slot.Snapshot, d *slot.Decision) // by rules; nil before the first
}

// NewSimulator returns one of a world.
func NewSimulator(c *world.Config, a *Archive) *Simulator {
	return &Simulator{World: world.New(*c, 0), archive: a}
}

// Member flies a member of the archive, a price or a rule.
func (f *Simulator) Member(member int, each func(teacher.SettledSlot)) (total pareto.Point, err error) {
	a := f.archive
	if member < 0 || member >= len(a.Points) {
		return total, fmt.Errorf("flight of member %d, the archive has %d", member, len(a.Points))
	}
	if a.Prices != nil {
		return f.scheduler.Fly(f.World, teacher.ConstantPrice(a.Prices[member]), each), nil
	}
	if f.decideAs == nil {
		if f.decideAs, err = search.DecideAs(&f.World.Config, a.Genes); err != nil {
			return total, err
		}
	}
	return f.runner.Fly(f.World, func(s *slot.Snapshot, d *slot.Decision) { f.decideAs(member, s, d) }, each), nil
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
}

func newReplayer(m *Manifest) *replayer {
	return &replayer{Simulator: NewSimulator(&m.World, &m.Archive), manifest: m}
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

// fly flies f and returns what it cost. each, if not nil, receives every slot after it settled.
func (r *replayer) fly(f *Episode, each func(teacher.SettledSlot)) (total pareto.Point, err error) {
	r.reset(f)
	switch f.Teacher {
	case dispatchTeacher:
		total = r.scheduler.Fly(r.World, f.priceAt, each)
	case ruleTeacher:
		total, err = r.Member(f.Member, each)
	case heuristicTeacher:
		total, err = r.Heuristic(f.Member, each)
	default:
		err = fmt.Errorf("flight of teacher %q, want %q, %q or %q", f.Teacher, dispatchTeacher, ruleTeacher, heuristicTeacher)
	}
	return total, err
}

// replay flies f and holds it to what it cost before, bit for bit.
func (r *replayer) replay(f *Episode, each func(teacher.SettledSlot)) error {
	total, err := r.fly(f, each)
	if err == nil && (total.DelayS != f.DelayS || total.EnergyJ != f.EnergyJ) {
		err = fmt.Errorf("it costs (%v s, %v J), its manifest has (%v s, %v J); the world or the teacher has changed, build the corpus "+
			"anew", total.DelayS, total.EnergyJ, f.DelayS, f.EnergyJ)
	}
	return err
}

func (f *Episode) priceAt(t int) float64 {
	if f.ChangeSlot > 0 && t >= f.ChangeSlot {
		return f.ChangePrice
	}
	return f.Price
}
