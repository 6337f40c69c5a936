package prefdttrain

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"prefdt/inference/goal"
	"prefdt/inference/prefdt"
	"prefdt/offline/command"
	"prefdt/offline/corpus"
	"prefdt/offline/jobs"
	"prefdt/offline/pareto"
	"prefdt/offline/seeds"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// Corpus is the published corpus, Sec. IV-C: flights of the searched rules and of scripted
// heuristics, each stored under a preference. A flight is its row here; the world flies it
// again, exactly, when its slots are read.
type Corpus struct {
	World   world.Config      `json:"world"`
	Seed    uint64            `json:"seed"`              // of the draws
	Uniform bool              `json:"uniform,omitempty"` // without corner emphasis
	Archive corpus.Archive    `json:"archive"`           // members in order of delay
	Shares  []float64         `json:"shares"`            // of the members: delay's part of the normalised return
	Etas    pareto.Point      `json:"eta"`               // eq. (rtgnorm): the span of each return over the flights
	Flights []Episode         `json:"flights"`
	Fit     Fit               `json:"fit"`
	Rows    prefdt.Statistics `json:"standard"`
	// UserFeatures are those that the statistics are of.
	UserFeatures []string `json:"user_features"`
}

// Episode is one flight of the corpus.
type Episode struct {
	Seed      uint64  `json:"seed"`
	Omega     float64 `json:"omega"`  // delay's share, under which it is stored
	Member    int     `json:"member"` // of the archive, or the heuristic's mode
	Heuristic bool    `json:"heuristic"`
	pareto.Point
}

// The recipe of Sec. IV-C.
const (
	cornerFraction   = 0.25
	heuristicShare   = 0.2
	statisticFlights = 500
)

// validationFirst is the first seed of the flights that are kept for validation.
const validationFirst = 90_000

// Build draws and flies a corpus. The result does not depend on the number of workers.
//
// The preferences are matched by shares of returns over eta, and eta is the span of the
// returns of the flights matched. So the flights are drawn twice: first by the spans of the
// archive, then by those of the flights of the first draw.
func Build(ctx context.Context, config Config, c world.Config, a corpus.Archive, workers int, progress func(done int)) (*Corpus, error) {
	f, flights := &config.Form, config.Flights
	if err := cmp.Or(config.Check(), c.Check(), a.Check(), f.Fits(c.Aircraft, c.Slots)); err != nil {
		return nil, fmt.Errorf("build corpus: %w", err)
	}
	m := &Corpus{World: c, Seed: config.Seed, Uniform: config.Uniform, Archive: a, UserFeatures: f.UserFeatures}
	m.Etas.DelayS, m.Etas.EnergyJ = a.ReturnScales()
	for round := range 2 {
		m.Shares = nil
		for _, p := range a.Points {
			m.Shares = append(m.Shares, corpus.Share(p, m.Etas))
		}
		m.Flights = make([]Episode, flights)
		err := jobs.Do(ctx, flights, workers, func() (*corpus.Simulator, error) { return corpus.NewSimulator(&c, &a), nil },
			func(s *corpus.Simulator, i int) (err error) {
				if m.Flights[i], err = m.draw(uint64(i)); err != nil {
					return err
				}
				if err := seeds.CheckTraining(m.Flights[i].Seed); err != nil {
					return err
				}
				m.Flights[i].Point, err = m.simulate(s, &m.Flights[i], nil)
				return err
			}, func(done int) {
				if progress != nil {
					progress(round*flights + done)
				}
			})
		if err != nil {
			return nil, err
		}
		var points []pareto.Point
		for i := range m.Flights {
			points = append(points, m.Flights[i].Point)
		}
		m.Etas = pareto.Spans(points)
	}
	var err error
	if m.Fit, err = m.fitConditioner(); err != nil {
		return nil, err
	}
	m.Rows, err = m.statistics(f)
	return m, err
}

// band returns the least and the largest share that the archive realises, eq. (omegastar).
func (m *Corpus) band() (low, high float64) { return slices.Min(m.Shares), slices.Max(m.Shares) }

// Accepted returns the least and the largest preference that a flight is stored under.
func (m *Corpus) Accepted() (low, high float64) { return corpus.Accepted(m.Shares) }

// draw draws the i-th flight. Which heuristics fly does not depend on the shares, since their
// flights span most of the returns.
func (m *Corpus) draw(i uint64) (f Episode, err error) {
	f = Episode{Seed: i % validationFirst}
	if i >= validationFirst { // see validation
		f.Seed = i
	}
	corner := cornerFraction
	if m.Uniform {
		corner = 0
	}
	if f.Omega, err = corpus.DrawOmega(rand.New(rand.NewPCG(m.Seed, i)), m.Shares, corner); err != nil {
		return f, err
	}
	f.Member = pareto.Nearest(m.Shares, f.Omega)
	if mode, flies := corpus.DrawHeuristic(m.Seed, i, heuristicShare); flies {
		f.Heuristic, f.Member = true, mode
	}
	return f, nil
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
func (m *Corpus) Hash() string { return command.Hash(m) }

// simulate flies one of the episodes.
func (m *Corpus) simulate(s *corpus.Simulator, x *Episode, each func(teacher.SettledSlot)) (pareto.Point, error) {
	s.World.Reset(x.Seed)
	if x.Heuristic {
		return s.Heuristic(x.Member, each)
	}
	return s.Member(x.Member, each)
}
