package papertrain

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"prefdt/inference/goal"
	"prefdt/inference/motion"
	"prefdt/inference/paperform"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/corpus"
	"prefdt/offline/jobs"
	"prefdt/offline/pareto"
	"prefdt/offline/search"
	"prefdt/offline/seeds"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// Corpus is the published corpus, Sec. IV-C: flights of the searched rules and of scripted
// heuristics, each stored under a preference. A flight is its row here; the world flies it
// again, exactly, when its slots are read.
type Corpus struct {
	World   world.Config         `json:"world"`
	Seed    uint64               `json:"seed"`              // of the draws
	Uniform bool                 `json:"uniform,omitempty"` // without corner emphasis
	Archive corpus.Archive       `json:"archive"`           // members in order of delay
	Shares  []float64            `json:"shares"`            // of the members: delay's part of the normalised return
	Etas    pareto.Point         `json:"eta"`               // eq. (rtgnorm): the span of each return over the flights
	Flights []Flight             `json:"flights"`
	Fit     Fit                  `json:"fit"`
	Rows    paperform.Statistics `json:"standard"`
	// UserFeatures are those that the statistics are of.
	UserFeatures []string `json:"user_features"`
}

// Flight is one flight of the corpus.
type Flight struct {
	Seed      uint64  `json:"seed"`
	Omega     float64 `json:"omega"`  // delay's share, under which it is stored
	Member    int     `json:"member"` // of the archive, or the heuristic's mode
	Heuristic bool    `json:"heuristic"`
	pareto.Point
}

// The recipe of Sec. IV-C.
const (
	bandTolerance    = 0.05
	cornerFraction   = 0.25
	cornerMembers    = 4
	heuristicShare   = 0.2
	statisticFlights = 500
)

var dirichletTiers = []int{1, 3, 8}

// validationFirst is the first seed of the flights that are kept for validation.
const validationFirst = 90_000

// RuleArchive flies every rule of a search on the first training seeds and returns those
// whose mean outcomes make a front: a search's own outcomes are means over three episodes.
func RuleArchive(ctx context.Context, found *search.Archive, episodes, workers int) (corpus.Archive, error) {
	a := corpus.Archive{Episodes: episodes}
	points := make([]pareto.Point, len(found.Members))
	err := jobs.Do(ctx, len(points), workers, func() (*flyer, error) { return newFlyer(&found.Config.World), nil }, func(f *flyer, i int) error {
		rule, err := search.NewRule(&found.Config.World, found.Members[i].Genes)
		if err != nil {
			return err
		}
		for e := range episodes {
			p := f.fly(uint64(e), rule.Decide, nil)
			points[i].DelayS += p.DelayS / float64(episodes)
			points[i].EnergyJ += p.EnergyJ / float64(episodes)
		}
		return nil
	}, nil)
	if err != nil {
		return a, err
	}
	for _, p := range pareto.NonDominated(points) {
		a.Append(p, 0, found.Members[slices.Index(points, p)].Genes)
	}
	return a, a.Check()
}

// Build draws and flies a corpus. The result does not depend on the number of workers.
//
// The preferences are matched by shares of returns over eta, and eta is the span of the
// returns of the flights matched. So the flights are drawn twice: first by the spans of the
// archive, then by those of the flights of the first draw.
func Build(ctx context.Context, config Config, c world.Config, a corpus.Archive, workers int, progress func(done int)) (*Corpus, error) {
	f, flights := &config.Form, config.Flights
	if err := errors.Join(c.Check(), a.Check(), f.Check(), f.Fits(c.Aircraft, c.Slots)); err != nil {
		return nil, fmt.Errorf("build corpus: %w", err)
	}
	if a.Genes == nil && a.Prices == nil {
		return nil, errors.New("build corpus: the archive has neither rules nor prices")
	}
	if flights < 2*statisticFlights {
		return nil, fmt.Errorf("build corpus: %d flights, want %d at least", flights, 2*statisticFlights)
	}
	m := &Corpus{World: c, Seed: config.Seed, Uniform: config.Uniform, Archive: a, UserFeatures: f.UserFeatures}
	m.Etas.DelayS, m.Etas.EnergyJ = a.ReturnScales()
	for round := range 2 {
		m.Shares = nil
		for _, p := range a.Points {
			m.Shares = append(m.Shares, Share(p, m.Etas))
		}
		m.Flights = make([]Flight, flights)
		err := jobs.Do(ctx, flights, workers, func() (*flyer, error) { return newFlyer(&c), nil }, func(fl *flyer, i int) (err error) {
			m.Flights[i] = m.draw(uint64(i))
			if err := seeds.CheckTraining(m.Flights[i].Seed); err != nil {
				return err
			}
			m.Flights[i].Point, err = fl.flight(m, &m.Flights[i], nil)
			return err
		}, func(done int) {
			if progress != nil {
				progress(round*flights + done)
			}
		})
		if err != nil {
			return nil, err
		}
		low, high := m.Flights[0].Point, m.Flights[0].Point
		for i := range m.Flights {
			p := m.Flights[i].Point
			low = pareto.Point{DelayS: min(low.DelayS, p.DelayS), EnergyJ: min(low.EnergyJ, p.EnergyJ)}
			high = pareto.Point{DelayS: max(high.DelayS, p.DelayS), EnergyJ: max(high.EnergyJ, p.EnergyJ)}
		}
		m.Etas = pareto.Point{DelayS: high.DelayS - low.DelayS, EnergyJ: high.EnergyJ - low.EnergyJ}
	}
	var err error
	if m.Fit, err = m.fitConditioner(); err != nil {
		return nil, err
	}
	m.Rows, err = m.statistics(f)
	return m, err
}

// Share returns the delay's part of an outcome over the scales eta, the share of eq.
// (omegastar). The normalisation is a pure ratio: nothing is subtracted.
func Share(p, etas pareto.Point) float64 {
	delay, energy := p.DelayS/etas.DelayS, p.EnergyJ/etas.EnergyJ
	return delay / (delay + energy)
}

// band returns the least and the largest share that the archive realises, eq. (omegastar).
func (m *Corpus) band() (low, high float64) { return slices.Min(m.Shares), slices.Max(m.Shares) }

// Accepted returns the least and the largest preference that a flight is stored under.
func (m *Corpus) Accepted() (low, high float64) { return Accepted(m.Shares) }

// Accepted returns the least and the largest preference that a flight is stored under: the
// band of the members' shares, widened by a tolerance. The settings are between these, too: at
// the band's own ends the regression, a compromise over all flights, asks for less than the
// extreme members realise.
func Accepted(shares []float64) (low, high float64) {
	return max(slices.Min(shares)-bandTolerance, 0), min(slices.Max(shares)+bandTolerance, 1)
}

// draw draws the i-th flight. Which heuristics fly does not depend on the shares, since their
// flights span most of the returns.
func (m *Corpus) draw(i uint64) Flight {
	f := Flight{Seed: i % validationFirst}
	if i >= validationFirst { // see validation
		f.Seed = i
	}
	corner := cornerFraction
	if m.Uniform {
		corner = 0
	}
	f.Omega = DrawOmega(rand.New(rand.NewPCG(m.Seed, i)), m.Shares, corner)
	f.Member = pareto.Nearest(m.Shares, f.Omega)
	if mode, flies := DrawHeuristic(m.Seed, i, heuristicShare); flies {
		f.Heuristic, f.Member = true, mode
	}
	return f
}

// DrawHeuristic returns which heuristic flies flight i, if any, from a generator of its own.
func DrawHeuristic(seed, i uint64, share float64) (mode int, flies bool) {
	r := rand.New(rand.NewPCG(seed+1, i))
	if r.Float64() >= share {
		return 0, false
	}
	return r.IntN(len(heuristics)), true
}

// DrawOmega draws a preference: a part in the share window of the four members of least delay,
// the others from Dirichlet distributions of three entropies, a third each, those that are not
// accepted drawn again. The shares are of members in order of delay.
func DrawOmega(r *rand.Rand, shares []float64, corner float64) float64 {
	low, high := Accepted(shares)
	if r.Float64() < corner {
		window := shares[:min(cornerMembers, len(shares))]
		first, last := slices.Min(window), slices.Max(window)
		return first + (last-first)*r.Float64()
	}
	alpha := dirichletTiers[r.IntN(len(dirichletTiers))]
	for {
		// The first entry of a symmetric Dirichlet distribution, as a ratio of gamma variates.
		a, b := 0.0, 0.0
		for range alpha {
			a += r.ExpFloat64()
			b += r.ExpFloat64()
		}
		if omega := a / (a + b); omega >= low && omega <= high {
			return omega
		}
	}
}

// GoalConstants returns the archived constants of the conditioning channel, with a setting
// map that changes nothing: calibration comes after training.
func (m *Corpus) GoalConstants() goal.Constants {
	low, high := m.Accepted()
	return goal.Constants{
		EtaDelayS: m.Etas.DelayS, EtaEnergyJ: m.Etas.EnergyJ, Slots: m.World.Slots, AircraftCount: m.World.Aircraft,
		Conditioner: m.Fit.Conditioner(low, high), SettingMap: goal.SettingMap{Omegas: []float64{low, high}},
	}
}

// Hash identifies a corpus by its content.
func (m *Corpus) Hash() string {
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err) // a struct of numbers
	}
	return fmt.Sprintf("%x", sha256.Sum256(raw))
}

// heuristic is one of the three fixed modes of the quality pool. It flies at v*, or hovers,
// and gives the nearest aircraft a fraction of each task that is then done sooner.
type heuristic struct {
	hovers  bool
	offload float64
}

// heuristics are the modes. The paper says that there are three, and not which.
var heuristics = []heuristic{{hovers: true}, {offload: 0.5}, {offload: 1}}

// DecideHeuristic decides a slot by a mode of the quality pool.
func DecideHeuristic(mode int, c *world.Config, s *slot.Snapshot, d *slot.Decision) {
	h := heuristics[mode]
	d.Resize(s)
	for u := range s.Users {
		user, best := &s.Users[u], 0
		for m := range s.Aircraft {
			if user.Position.Sub(s.Aircraft[m].Position).Norm() < user.Position.Sub(s.Aircraft[best].Position).Norm() {
				best = m
			}
		}
		local := user.Task.LocalTimeS(user.CPUHz)
		offload := user.Task.OffloadTimeS(c.Physics.EqualShare(user.Gain[best], s.Aircraft[best].CPUHz, float64(len(s.Users))))
		if physics.CompletionS(local, offload, h.offload) < local {
			d.Users[u] = slot.UserDecision{Server: best + 1, Offload: h.offload}
		}
	}
	d.Evaluate(&c.Physics, s)
	if !h.hovers {
		speedMPS := c.Physics.Propulsion.BestSpeedMPS(c.Physics.SpeedMaxMPS)
		for m := range s.Aircraft {
			d.Move[m] = motion.MoveToward(s.Aircraft[m].Position, c.Start(s.Aircraft[m].Number-1), speedMPS, speedMPS)
		}
	}
}

// flyer flies the flights of corpora in one world. It serves one goroutine.
type flyer struct {
	world    *world.World
	runner   teacher.Runner
	rule     *search.Rule
	dispatch teacher.Scheduler
}

func newFlyer(c *world.Config) *flyer { return &flyer{world: world.New(*c, 0)} }

func (f *flyer) fly(seed uint64, decide func(*slot.Snapshot, *slot.Decision), each func(teacher.SettledSlot)) pareto.Point {
	f.world.Reset(seed)
	return f.runner.Fly(f.world, decide, each)
}

// flight flies one flight of a corpus.
func (f *flyer) flight(m *Corpus, x *Flight, each func(teacher.SettledSlot)) (pareto.Point, error) {
	if x.Heuristic {
		if x.Member < 0 || x.Member >= len(heuristics) {
			return pareto.Point{}, fmt.Errorf("flight of heuristic %d, there are %d", x.Member, len(heuristics))
		}
		return f.fly(x.Seed, func(s *slot.Snapshot, d *slot.Decision) { DecideHeuristic(x.Member, &f.world.Config, s, d) }, each), nil
	}
	if x.Member < 0 || x.Member >= len(m.Archive.Points) {
		return pareto.Point{}, fmt.Errorf("flight of member %d, the archive has %d", x.Member, len(m.Archive.Points))
	}
	if m.Archive.Prices != nil {
		f.world.Reset(x.Seed)
		return f.dispatch.Fly(f.world, teacher.ConstantPrice(m.Archive.Prices[x.Member]), each), nil
	}
	var err error
	if f.rule == nil {
		f.rule, err = search.NewRule(&f.world.Config, m.Archive.Genes[x.Member])
	} else {
		err = f.rule.SetGenes(m.Archive.Genes[x.Member])
	}
	if err != nil {
		return pareto.Point{}, err
	}
	return f.fly(x.Seed, f.rule.Decide, each), nil
}
