package methods

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"prefdt/inference/physics"
	"prefdt/inference/prefdt"
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

// corpusRecipe is part of what identifies a method that learns from a corpus. It changes when the
// flights or their preferences do, so that what was measured before is measured anew.
const corpusRecipe = 2

// DatasetSettings of a corpus.
type DatasetSettings struct {
	Flights   int     `json:"flights" yaml:"flights" range:"1,100000"`
	Heuristic float64 `json:"heuristic" yaml:"heuristic" range:"0,1"`   // fraction of them by scripted heuristics
	Corner    float64 `json:"corner" yaml:"corner" range:"0,1"`         // fraction drawn from the shares of the four members of least delay
	Episodes  int     `json:"episodes" yaml:"episodes" range:"1,10000"` // that a member's share is a mean over
	Seeds     string  `json:"seeds" yaml:"seeds"`                       // training seeds A:B
	Seed      uint64  `json:"seed" yaml:"seed"`                         // of the draws
}

// Check returns what is wrong with the settings.
func (s *DatasetSettings) Check() error {
	_, err := command.ParseSeeds(s.Seeds, seeds.CheckTraining)
	return cmp.Or(command.CheckRanges(s), err)
}

// decider decides a slot.
type decider func(s *slot.Snapshot, d *slot.Decision)

// behaviour is what a corpus is flown by: for each worker, the deciders of its members.
type behaviour func() ([]decider, error)

// simulator flies the members of a behaviour in a world of its own. It serves one goroutine.
type simulator struct {
	teacher.Runner
	deciders []decider
	world    *world.World
}

func newSimulator(c world.Config, f behaviour) (*simulator, error) {
	deciders, err := f()
	return &simulator{deciders: deciders, world: world.New(c, 0)}, err
}

// mean flies a decider on some seeds and returns its mean outcome.
func (f *simulator) mean(decide decider, seeds []uint64) (mean pareto.Point) {
	for _, seed := range seeds {
		f.world.Reset(seed)
		p := f.Fly(f.world, decide, nil)
		mean.DelayS += p.DelayS / float64(len(seeds))
		mean.EnergyJ += p.EnergyJ / float64(len(seeds))
	}
	return mean
}

// dataset is a corpus in memory: the slots of its flights, one after another.
type dataset struct {
	observation observation
	actions     actions
	cost        [][objectives]float64 // of each slot: delay in s, energy in J
	last        []bool                // whether the slot is its flight's last
	omega       []float64             // of each flight
	expert      []bool                // of each flight: by a member of the front, not by a heuristic
	low, high   float64               // least and largest preference that flights are stored under
}

// flownMember is a member of a front and its mean outcome on training seeds.
type flownMember struct {
	index int
	pareto.Point
}

// labelling gives the share of each member of a front, in order of delay, by which preferences are
// matched to them. The scales eta are the spans of the returns of flights.
type labelling func(members []flownMember, etas pareto.Point) (shares []float64)

// outcomeShares are the paper's: delay's part of a normalised return, from which nothing is subtracted.
func outcomeShares(members []flownMember, etas pareto.Point) (shares []float64) {
	for _, m := range members {
		shares = append(shares, corpus.Share(m.Point, etas))
	}
	return shares
}

// importanceShares run from 0 at the least delay to 1 at the least energy, as the weights of a
// utility do: delay's part of what is above the front's ideal point.
func importanceShares(members []flownMember, _ pareto.Point) (shares []float64) {
	a := archiveOf(members)
	for _, m := range members {
		shares = append(shares, a.DelayShare(m.Point))
	}
	return shares
}

// archiveOf returns the outcomes of a front's members.
func archiveOf(members []flownMember) (a *corpus.Archive) {
	a = &corpus.Archive{}
	for _, m := range members {
		a.Points = append(a.Points, m.Point)
	}
	return a
}

// buildDataset flies a corpus. Preferences are matched by shares over the scales eta, which are spans
// of the returns of the flights matched: a first corpus of a tenth of the flights, matched by the spans of the front,
// gives them.
func buildDataset(ctx context.Context, c world.Config, s DatasetSettings, label labelling, f behaviour, workers int,
	log io.Writer) (*dataset, error) {
	list, err := command.ParseSeeds(s.Seeds, seeds.CheckTraining)
	if err != nil {
		return nil, err
	}
	members, err := flyMembers(ctx, c, f, list[:min(s.Episodes, len(list))], workers)
	if err != nil {
		return nil, err
	}
	if len(members) < 2 {
		return nil, fmt.Errorf("the corpus's front has %d members, want two at least", len(members))
	}
	var etas pareto.Point
	etas.DelayS, etas.EnergyJ = archiveOf(members).ReturnScales()
	draft := s
	draft.Flights = max(s.Flights/10, 1)
	sample, err := flyDataset(ctx, c, draft, members, label(members, etas), list, f, workers, nil)
	if err != nil {
		return nil, err
	}
	if spans := sample.spans(); spans.DelayS > 0 && spans.EnergyJ > 0 {
		etas = spans
	}
	return flyDataset(ctx, c, s, members, label(members, etas), list, f, workers, command.Progress(log, "flights of the corpus", s.Flights))
}

// flyDataset flies a corpus whose members have given shares.
func flyDataset(ctx context.Context, c world.Config, s DatasetSettings, members []flownMember, shares []float64, list []uint64, f behaviour,
	workers int, progress func(done int)) (*dataset, error) {
	parts := make([]dataset, s.Flights)
	err := jobs.Do(ctx, s.Flights, workers, func() (*simulator, error) { return newSimulator(c, f) }, func(w *simulator, i int) error {
		omega := corpus.DrawOmega(rand.New(rand.NewPCG(s.Seed, uint64(i))), shares, s.Corner)
		decide := w.deciders[members[pareto.Nearest(shares, omega)].index]
		mode, heuristic := corpus.DrawHeuristic(s.Seed, uint64(i), s.Heuristic)
		if heuristic {
			decide = func(s *slot.Snapshot, d *slot.Decision) {
				corpus.DecideHeuristic(mode, &w.world.Config, s, d)
			}
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
		p.omega, p.expert = []float64{omega}, []bool{!heuristic}
		return nil
	}, progress)
	if err != nil {
		return nil, err
	}
	all := &dataset{}
	all.low, all.high = corpus.Accepted(shares)
	all.observation.reset()
	all.grow(parts)
	for i := range parts {
		all.append(&parts[i])
		parts[i] = dataset{} // a corpus takes gigabytes, and two of them are not needed
	}
	return all, nil
}

// grow makes room for parts, and no more.
func (d *dataset) grow(parts []dataset) {
	slots, users := 0, 0
	for i := range parts {
		slots, users = slots+parts[i].observation.slots, users+len(parts[i].observation.ids)
	}
	o, a, p := &d.observation, &d.actions, &parts[0]
	perSlot, perUser := func(n int) int { return n / p.observation.slots * slots },
		func(n int) int { return n / max(len(p.observation.ids), 1) * users }
	o.fleet, a.flight = slices.Grow(o.fleet, perSlot(len(p.observation.fleet))), slices.Grow(a.flight, perSlot(len(p.actions.flight)))
	o.users, o.ids, o.first = slices.Grow(o.users, perUser(len(p.observation.users))), slices.Grow(o.ids, users),
		slices.Grow(o.first, slots+1)
	a.server, a.offload = slices.Grow(a.server, users), slices.Grow(a.offload, users)
	d.cost, d.last = slices.Grow(d.cost, slots), slices.Grow(d.last, slots)
}

// spans returns the span of each return over the flights.
func (d *dataset) spans() (spans pareto.Point) {
	low, high, sum := [objectives]float64{math.Inf(1), math.Inf(1)}, [objectives]float64{}, [objectives]float64{}
	for s, cost := range d.cost {
		for j := range sum {
			sum[j] += cost[j]
		}
		if d.last[s] {
			for j, x := range sum {
				low[j], high[j] = min(low[j], x), max(high[j], x)
			}
			sum = [objectives]float64{}
		}
	}
	return pareto.Point{DelayS: high[0] - low[0], EnergyJ: high[1] - low[1]}
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
func flyMembers(ctx context.Context, c world.Config, f behaviour, list []uint64, workers int) ([]flownMember, error) {
	deciders, err := f()
	if err != nil {
		return nil, err
	}
	points := make([]pareto.Point, len(deciders))
	err = jobs.Do(ctx, len(points), workers, func() (*simulator, error) { return newSimulator(c, f) }, func(w *simulator, i int) error {
		points[i] = w.mean(w.deciders[i], list)
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

// ruleBehaviour is of the archive of a search.
func ruleBehaviour(c world.Config, a *search.Archive) behaviour {
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
		a.flight = append(a.flight, float32(2*length/c.SpeedMaxMPS-1), float32(move.EastM/max(length, 1e-9)),
			float32(move.NorthM/max(length, 1e-9)))
	}
	for _, u := range d.Users {
		a.server, a.offload = append(a.server, u.Server), append(a.offload, float32(2*u.Offload-1))
	}
}

// polar returns flights as length and heading, each on [-1, 1], the paper's own form.
func (a *actions) polar() (flight []float32) {
	for i := 0; i < len(a.flight); i += flightActions {
		_, heading := prefdt.Polar(float64(a.flight[i+1]), float64(a.flight[i+2]))
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
