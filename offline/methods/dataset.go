package methods

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"prefdt/inference/motion"
	"prefdt/inference/paperform"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/command"
	"prefdt/offline/corpus"
	"prefdt/offline/jobs"
	"prefdt/offline/pareto"
	"prefdt/offline/search"
	"prefdt/offline/seeds"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// The corpora of the methods that learn from stored flights, by the paper's recipe
// (Sec. IV-C, after D4MORL, Zhu, Dang and Grover, ICLR 2023): preferences of three
// Dirichlet tiers, rejected outside the attainable band, each matched to the member of
// a front whose realised share is nearest, a fifth of the flights by scripted
// heuristics. The front is the archive of the searched rules, or the PPO policies.

// DatasetSettings of a corpus.
type DatasetSettings struct {
	Flights   int     `json:"flights" yaml:"flights"`
	Heuristic float64 `json:"heuristic" yaml:"heuristic"` // fraction of them by scripted heuristics
	Corner    float64 `json:"corner" yaml:"corner"`       // fraction drawn from the shares of the four members of least delay
	Episodes  int     `json:"episodes" yaml:"episodes"`   // that a member's share is a mean over
	Seeds     string  `json:"seeds" yaml:"seeds"`         // training seeds A:B
	Seed      uint64  `json:"seed" yaml:"seed"`           // of the draws
}

// Check returns what is wrong with the settings.
func (s *DatasetSettings) Check() error {
	if s.Flights < 1 || s.Flights > 100_000 || s.Episodes < 1 || s.Episodes > 10_000 || !(s.Heuristic >= 0 && s.Heuristic <= 1) || !(s.Corner >= 0 && s.Corner <= 1) {
		return fmt.Errorf("flights %d, episodes %d, heuristic %v, corner %v; want 1 to 100000, 1 to 10000, fractions", s.Flights, s.Episodes, s.Heuristic, s.Corner)
	}
	_, err := command.ParseSeeds(s.Seeds, seeds.CheckTraining)
	return err
}

// decider decides a slot.
type decider func(s *slot.Snapshot, d *slot.Decision)

// front is what a corpus is flown by: for each worker, the deciders of its members.
type front func() ([]decider, error)

// dataset is a corpus in memory: the slots of its flights, one after another.
type dataset struct {
	observation observation
	actions     actions
	cost        [][objectives]float64 // of each slot: delay in s, energy in J
	last        []bool                // whether the slot is its flight's last
	omega       []float64             // of each flight
	expert      []bool                // of each flight: by a member of the front, not by a heuristic
}

// flownMember is a member of a front and its mean outcome on training seeds.
type flownMember struct {
	index int
	pareto.Point
}

// buildDataset flies a corpus.
func buildDataset(ctx context.Context, c world.Config, s DatasetSettings, f front, workers int, log io.Writer) (*dataset, error) {
	list, err := command.ParseSeeds(s.Seeds, seeds.CheckTraining)
	if err != nil {
		return nil, err
	}
	members, err := flyMembers(ctx, c, f, list[:min(s.Episodes, len(list))], workers)
	if err != nil {
		return nil, err
	}
	shares := realisedShares(members)
	if len(shares) < 2 || shares[0] == shares[len(shares)-1] {
		return nil, fmt.Errorf("the corpus's front has %d members, want two at least that differ in share", len(members))
	}
	type worker struct {
		teacher.Runner
		deciders []decider
		world    *world.World
	}
	parts := make([]dataset, s.Flights)
	err = jobs.Do(ctx, s.Flights, workers, func() (*worker, error) {
		deciders, err := f()
		return &worker{deciders: deciders, world: world.New(c, 0)}, err
	}, func(w *worker, i int) error {
		rng := rand.New(rand.NewPCG(s.Seed, uint64(i)))
		omega := drawPreference(rng, shares, s.Corner)
		decide := w.deciders[members[pareto.Nearest(shares, omega)].index]
		expert := rng.Float64() >= s.Heuristic
		if !expert {
			mode := rng.IntN(heuristicModes)
			decide = func(s *slot.Snapshot, d *slot.Decision) { heuristic(&w.world.Config, mode, s, d) }
		}
		p := &parts[i]
		p.observation.reset()
		w.world.Reset(list[i%len(list)])
		w.Fly(w.world, decide, func(t teacher.SettledSlot) {
			p.observation.add(&c.Physics, t.Snapshot, omega)
			p.actions.add(&c.Physics, t.Decision)
			p.cost = append(p.cost, [objectives]float64{t.Outcome.DelayS, t.Outcome.EnergyJ()})
			p.last = append(p.last, false)
		})
		p.last[len(p.last)-1] = true
		p.omega, p.expert = []float64{omega}, []bool{expert}
		return nil
	}, command.Progress(log, "flights of the corpus", s.Flights))
	if err != nil {
		return nil, err
	}
	all := &dataset{}
	all.observation.reset()
	for i := range parts {
		all.append(&parts[i])
	}
	return all, nil
}

func (d *dataset) append(p *dataset) {
	d.observation.append(&p.observation)
	d.actions.append(&p.actions)
	d.cost, d.last, d.omega = append(d.cost, p.cost...), append(d.last, p.last...), append(d.omega, p.omega...)
	d.expert = append(d.expert, p.expert...)
}

// flyMembers returns the members of a front that no other dominates, by delay, within the
// reference point: a policy for which energy has no weight flies at full speed, at 142 kJ, and the
// corpus's scales and the conditioner's fit would be about it.
func flyMembers(ctx context.Context, c world.Config, f front, list []uint64, workers int) ([]flownMember, error) {
	deciders, err := f()
	if err != nil {
		return nil, err
	}
	points := make([]pareto.Point, len(deciders))
	type worker struct {
		teacher.Runner
		deciders []decider
		world    *world.World
	}
	err = jobs.Do(ctx, len(points), workers, func() (*worker, error) {
		deciders, err := f()
		return &worker{deciders: deciders, world: world.New(c, 0)}, err
	}, func(w *worker, i int) error {
		for _, seed := range list {
			w.world.Reset(seed)
			p := w.Fly(w.world, w.deciders[i], nil)
			points[i].DelayS += p.DelayS / float64(len(list))
			points[i].EnergyJ += p.EnergyJ / float64(len(list))
		}
		return nil
	}, nil)
	var members []flownMember
	front := pareto.NonDominated(points)
	worst, _ := pareto.References(&c, front)
	for _, p := range front {
		if p.DelayS > worst.DelayS || p.EnergyJ > worst.EnergyJ {
			continue
		}
		members = append(members, flownMember{slices.Index(points, p), p})
	}
	return members, err
}

// realisedShares returns the delay share of each member's outcome.
func realisedShares(members []flownMember) (shares []float64) {
	a := corpus.Archive{}
	for _, m := range members {
		a.Points = append(a.Points, m.Point)
	}
	for _, m := range members {
		shares = append(shares, a.DelayShare(m.Point))
	}
	return shares
}

// drawPreference draws from the three Dirichlet tiers, within the band of the shares
// widened by 0.05, but a part of the draws from the window of the first four shares.
func drawPreference(rng *rand.Rand, shares []float64, corner float64) float64 {
	const tolerance = 0.05
	if rng.Float64() < corner {
		return shares[0] + (shares[min(3, len(shares)-1)]-shares[0])*rng.Float64()
	}
	alpha := []int{1, 3, 8}[rng.IntN(3)]
	for {
		a, b := 0.0, 0.0 // gamma variates
		for range alpha {
			a += rng.ExpFloat64()
			b += rng.ExpFloat64()
		}
		if omega := a / (a + b); omega >= shares[0]-tolerance && omega <= shares[len(shares)-1]+tolerance {
			return omega
		}
	}
}

const heuristicModes = 3

// heuristic is the quality pool: hover and compute locally, or fly at v* towards the
// start and offload half of each task, or all of it, to the nearest aircraft.
func heuristic(c *world.Config, mode int, s *slot.Snapshot, d *slot.Decision) {
	d.Resize(s)
	best, _ := c.Physics.MinPower()
	for m := range s.Aircraft {
		if mode > 0 {
			d.Move[m] = motion.MoveToward(s.Aircraft[m].Position, c.Start(s.Aircraft[m].Number-1), best, best)
		}
	}
	for u := range s.Users {
		if mode == 0 {
			continue
		}
		nearest := 0
		for m := range s.Aircraft {
			if s.Users[u].Position.Sub(s.Aircraft[m].Position).Norm() < s.Users[u].Position.Sub(s.Aircraft[nearest].Position).Norm() {
				nearest = m
			}
		}
		d.Users[u] = slot.UserDecision{Server: nearest + 1, Offload: float64(mode) / 2}
	}
}

// ruleFront is the archive of a search.
func ruleFront(c world.Config, a *search.Archive) front {
	return func() ([]decider, error) {
		var deciders []decider
		for _, m := range a.Members {
			rule, err := search.NewRule(&c, m.Genes)
			if err != nil {
				return nil, err
			}
			deciders = append(deciders, rule.Decide)
		}
		return deciders, nil
	}
}

// add appends a decision as actions.
func (a *actions) add(c *physics.Constants, d *slot.Decision) {
	for _, move := range d.Move {
		length := move.Norm()
		a.flight = append(a.flight, float32(2*length/c.SpeedMaxMPS-1), float32(move.EastM/max(length, 1e-9)), float32(move.NorthM/max(length, 1e-9)))
	}
	for _, u := range d.Users {
		a.server, a.offload = append(a.server, u.Server), append(a.offload, float32(2*u.Offload-1))
	}
}

// polar returns flights as length and heading, each on [-1, 1], the paper's own form.
func (a *actions) polar() (flight []float32) {
	for i := 0; i < len(a.flight); i += flightActions {
		_, heading := paperform.Polar(float64(a.flight[i+1]), float64(a.flight[i+2]))
		flight = append(flight, a.flight[i], heading)
	}
	return flight
}

// addPolar appends flights of that form.
func (a *actions) addPolar(flight []float32) {
	for i := 0; i < len(flight); i += 2 {
		north, east := math.Sincos(math.Pi * (1 + float64(flight[i+1])))
		a.flight = append(a.flight, flight[i], float32(east), float32(north))
	}
}

func (a *actions) append(b *actions) {
	a.flight, a.server, a.offload = append(a.flight, b.flight...), append(a.server, b.server...), append(a.offload, b.offload...)
}

func (o *observation) append(p *observation) {
	o.fleet, o.users, o.ids = append(o.fleet, p.fleet...), append(o.users, p.users...), append(o.ids, p.ids...)
	base := o.first[o.slots]
	for _, n := range p.first[1:] {
		o.first = append(o.first, base+n)
	}
	o.slots += p.slots
}
