package methods

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"prefdt/inference/slot"
	"prefdt/inference/token"
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
	flown    transitions
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

// storedFlight is one of a corpus.
type storedFlight struct {
	transitions
	cost   [][objectives]float64 // of each slot: delay in s, energy in J
	total  pareto.Point
	omega  float64 // that it is stored under
	expert bool    // by a member of the front, not by a heuristic
}

// toGo returns the costs from each slot on.
func (f *storedFlight) toGo() [][objectives]float64 {
	left := slices.Clone(f.cost)
	for s := len(left) - 2; s >= 0; s-- {
		for j := range left[s] {
			left[s][j] += left[s+1][j]
		}
	}
	return left
}

// dataset is a corpus in memory. Its flights have equally many slots.
type dataset struct {
	flights   []storedFlight
	low, high float64 // least and largest preference that flights are stored under

	fleet, users token.Moments // of the columns of transitions, once they are standardised
}

// front are the members of a behaviour that no other dominates, in order of delay, with their mean
// outcomes on training seeds.
type front struct {
	corpus.Archive
	members []int // of the behaviour
}

// labelling gives the share of an outcome, by which preferences are matched to the members of a front. The
// scales eta are the spans of the returns of flights.
type labelling func(a *corpus.Archive, etas, p pareto.Point) float64

// outcomeShare is the paper's: delay's part of a normalised return, from which nothing is subtracted.
func outcomeShare(_ *corpus.Archive, etas, p pareto.Point) float64 { return corpus.Share(p, etas) }

// importanceShare runs from 0 at the least delay to 1 at the least energy, as the weights of a
// utility do: delay's part of what is above the front's ideal point.
func importanceShare(a *corpus.Archive, _, p pareto.Point) float64 { return a.DelayShare(p) }

// buildDataset flies a corpus. Preferences are matched by shares over the scales eta, which are spans
// of the returns of the flights matched: a first corpus of a tenth of the flights, matched by the spans of the front,
// gives them.
func buildDataset(ctx context.Context, c world.Config, s DatasetSettings, label labelling, f behaviour, workers int,
	log io.Writer) (*dataset, error) {
	list, err := command.ParseSeeds(s.Seeds, seeds.CheckTraining)
	if err != nil {
		return nil, err
	}
	front, err := flyMembers(ctx, c, f, list[:min(s.Episodes, len(list))], workers)
	if err != nil {
		return nil, err
	}
	if len(front.Points) < 2 {
		return nil, fmt.Errorf("the corpus's front has %d members, want two at least", len(front.Points))
	}
	fly := func(flights int, etas pareto.Point, progress func(done int)) (*dataset, error) {
		var shares []float64
		for _, p := range front.Points {
			shares = append(shares, label(&front.Archive, etas, p))
		}
		d := &dataset{flights: make([]storedFlight, flights)}
		d.low, d.high = corpus.Accepted(shares)
		return d, jobs.Do(ctx, flights, workers, func() (*simulator, error) { return newSimulator(c, f) }, func(w *simulator, i int) error {
			omega, err := corpus.DrawOmega(rand.New(rand.NewPCG(s.Seed, uint64(i))), shares, s.Corner)
			if err != nil {
				return err
			}
			decide := w.deciders[front.members[pareto.Nearest(shares, omega)]]
			mode, heuristic := corpus.DrawHeuristic(s.Seed, uint64(i), s.Heuristic)
			if heuristic {
				decide = func(s *slot.Snapshot, d *slot.Decision) { corpus.DecideHeuristic(mode, &c, s, d) }
			}
			w.world.Reset(list[i%len(list)])
			d.flights[i] = w.store(decide, omega)
			d.flights[i].expert = !heuristic
			return nil
		}, progress)
	}
	var etas pareto.Point
	etas.DelayS, etas.EnergyJ = front.ReturnScales()
	draft, err := fly(max(s.Flights/10, 1), etas, nil)
	if err != nil {
		return nil, err
	}
	if spans := draft.spans(); spans.DelayS > 0 && spans.EnergyJ > 0 {
		etas = spans
	}
	return fly(s.Flights, etas, command.Progress(log, "flights of the corpus", s.Flights))
}

// store flies a decider in the world as it was reset, and keeps the flight under a preference.
func (f *simulator) store(decide decider, omega float64) (x storedFlight) {
	x.omega = omega
	f.flown.reset()
	constants := &f.world.Config.Physics
	x.total = f.Fly(f.world, decide, func(t teacher.SettledSlot) {
		f.flown.observe(constants, t.Snapshot, omega)
		f.flown.act(constants, t.Decision)
		x.cost = append(x.cost, [objectives]float64{t.Outcome.DelayS, t.Outcome.EnergyJ()})
	})
	x.reset()
	x.append(&f.flown, 0, f.flown.slots)
	return x
}

// spans returns the span of each return over the flights.
func (d *dataset) spans() pareto.Point {
	var totals []pareto.Point
	for i := range d.flights {
		totals = append(totals, d.flights[i].total)
	}
	return pareto.Spans(totals)
}

// flyMembers returns the front of a behaviour within the reference point: a policy for which energy has
// no weight flies at full speed, at 142 kJ, and the corpus's scales and the conditioner's fit would be about it.
func flyMembers(ctx context.Context, c world.Config, f behaviour, list []uint64, workers int) (kept front, err error) {
	deciders, err := f()
	if err != nil {
		return kept, err
	}
	points := make([]pareto.Point, len(deciders))
	err = jobs.Do(ctx, len(points), workers, func() (*simulator, error) { return newSimulator(c, f) }, func(w *simulator, i int) error {
		points[i] = w.mean(w.deciders[i], list)
		return nil
	}, nil)
	all := pareto.NonDominated(points)
	worst, _ := pareto.References(&c, all)
	for _, p := range all {
		if !beyond(p, worst) {
			kept.Points, kept.members = append(kept.Points, p), append(kept.members, slices.Index(points, p))
		}
	}
	return kept, err
}

// searchedRules searches the paper's teacher, once, and returns its archive.
func searchedRules(ctx context.Context, r *Run) (behaviour, error) {
	c := search.Default()
	c.World = r.World
	found, err := search.Ensure(ctx, filepath.Join(r.Dir, "archive.json"), c, r.Workers,
		command.Progress(r.Log, "generations of the search", c.Generations))
	return func() (deciders []decider, err error) {
		for _, m := range found.Members {
			rule, err := search.NewRule(&r.World, m.Genes)
			if err != nil {
				return nil, err
			}
			deciders = append(deciders, rule.Decide)
		}
		return deciders, nil
	}, err
}
