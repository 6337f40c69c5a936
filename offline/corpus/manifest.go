package corpus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/parquet-go/parquet-go"

	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/model"
	"prefdt/inference/token"
	"prefdt/offline/command"
	"prefdt/offline/jobs"
	"prefdt/offline/seeds"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// formatVersion of a manifest; a change of what a flight means raises it.
const formatVersion = 1

// Manifest is a corpus: everything that regenerates its flights.
type Manifest struct {
	Version     int              `json:"version"`
	World       world.Config     `json:"world"`
	Worlds      []world.Config   `json:"worlds,omitempty"` // the random ones
	Recipe      Recipe           `json:"recipe"`
	Seed        uint64           `json:"seed"` // of the draws
	Archive     Archive          `json:"archive"`
	Conditioner goal.Conditioner `json:"conditioner"` // fitted on these flights, archived with them
	Statistics  token.Statistics `json:"standard"`    // statistics of the rows
	Flights     []Episode        `json:"flights"`
}

// Build draws and flies a corpus. progress, if not nil, is called with
// the number of flights done. The result does not depend on the number of workers.
func Build(ctx context.Context, c world.Config, a Archive, r Recipe, flights int, seed uint64, workers int,
	progress func(done int)) (*Manifest, error) {
	m, err := newManifest(c, a, r, flights, seed)
	if err == nil {
		err = m.fly(ctx, 0, flights, workers, progress)
	}
	if err == nil {
		err = m.finish()
	}
	if err != nil {
		return nil, fmt.Errorf("build corpus: %w", err)
	}
	return m, nil
}

// newManifest returns a corpus before its flights.
func newManifest(c world.Config, a Archive, r Recipe, flights int, seed uint64) (*Manifest, error) {
	if err := errors.Join(c.Check(), a.Check(), r.Check()); err != nil {
		return nil, err
	}
	if flights < 1 {
		return nil, fmt.Errorf("%d flights, want one at least", flights)
	}
	m := &Manifest{Version: formatVersion, World: c, Recipe: r, Seed: seed, Archive: a, Flights: make([]Episode, flights)}
	for i := range r.WorldCount {
		m.Worlds = append(m.Worlds, RandomWorld(c, seed, i))
		if err := m.Worlds[i].Check(); err != nil {
			return nil, fmt.Errorf("random world %d: %w", i, err)
		}
	}
	return m, nil
}

// fly draws and flies n flights from the first-th on.
func (m *Manifest) fly(ctx context.Context, first, n, workers int, progress func(done int)) error {
	sampler := sampler{m, m.Archive.memberShares(), m.Archive.PriceCurve()}
	return jobs.Do(ctx, n, workers, func() (*replayer, error) { return newReplayer(m), nil }, func(runner *replayer, i int) error {
		f := sampler.episode(first + i)
		if err := seeds.CheckTraining(f.Seed); err != nil {
			return err
		}
		total, err := runner.fly(&f, nil)
		if err != nil {
			return err
		}
		f.DelayS, f.EnergyJ = total.DelayS, total.EnergyJ
		m.Flights[first+i] = f
		return nil
	}, progress)
}

// finish fits what rests on all flights.
func (m *Manifest) finish() (err error) {
	if m.Conditioner, err = fitConditioner(m); err == nil {
		m.Statistics, err = gatherStatistics(m)
	}
	if m.Recipe.HidePreviousAction {
		m.Statistics.Action.Ablate()
	}
	return err
}

// GoalConstants returns the archived constants of the conditioning channel, with a
// setting map that changes nothing: calibration comes after training.
func (m *Manifest) GoalConstants() goal.Constants {
	etaS, etaJ := m.Archive.ReturnScales()
	return goal.Constants{
		EtaDelayS: etaS, EtaEnergyJ: etaJ, Slots: m.World.Slots, AircraftCount: m.World.Aircraft,
		Conditioner: m.Conditioner, SettingMap: goal.SettingMap{Omegas: []float64{0, 1}},
	}
}

// Verify replays n flights spread over the corpus and compares their outcomes
// with the manifest's, bit for bit.
func (m *Manifest) Verify(n int) error {
	runner := newReplayer(m)
	for k := range min(n, len(m.Flights)) {
		i := k * len(m.Flights) / min(n, len(m.Flights))
		if err := runner.replay(&m.Flights[i], nil); err != nil {
			return fmt.Errorf("replay flight %d: %w", i, err)
		}
	}
	return nil
}

// matches reports whether this is the corpus of a world and a recipe of the
// dispatch teacher, and this program would still make it: the conditioner that
// it fits is the same, and some flights replay.
func (m *Manifest) matches(c world.Config, r Recipe, seed uint64, flights, episodes, prices int) bool {
	sweep := teacher.PricesIn(&c, prices)
	if slices.ContainsFunc(m.Archive.Prices, func(p float64) bool { return !slices.Contains(sweep, p) }) {
		return false
	}
	if len(m.World.Differences(c)) > 0 || m.Recipe != r || m.Seed != seed || len(m.Flights) != flights || m.Archive.Episodes != episodes ||
		m.Archive.Genes != nil {
		return false
	}
	fitted, err := fitConditioner(m)
	return err == nil && reflect.DeepEqual(fitted, m.Conditioner) && m.Verify(20) == nil
}

// Hash identifies a corpus by its content.
func (m *Manifest) Hash() string { return command.Hash(m) }

// Write stores a manifest as JSON.
func (m *Manifest) Write(w io.Writer) error { return json.NewEncoder(w).Encode(m) }

// Read reads and checks a manifest.
func Read(path string) (*Manifest, error) {
	var m Manifest
	err := command.ReadJSON(path, &m)
	if err == nil {
		err = m.check()
	}
	if err != nil {
		return nil, fmt.Errorf("read corpus %s: %w", path, err)
	}
	return &m, nil
}

func (m *Manifest) check() error {
	if m.Version != formatVersion {
		return fmt.Errorf("its version is %d, this program reads %d", m.Version, formatVersion)
	}
	if err := errors.Join(m.World.Check(), m.Archive.Check(), m.Recipe.Check(), m.Conditioner.Check(), m.Statistics.Check()); err != nil {
		return err
	}
	if len(m.Flights) == 0 {
		return errors.New("it has no flights")
	}
	for i := range m.Worlds {
		if err := m.Worlds[i].Check(); err != nil {
			return fmt.Errorf("random world %d: %w", i, err)
		}
	}
	for i := range m.Flights {
		f := &m.Flights[i]
		err := seeds.CheckTraining(f.Seed)
		if f.World < 0 || f.World > len(m.Worlds) {
			err = fmt.Errorf("its world is %d of %d", f.World, len(m.Worlds))
		}
		if err != nil {
			return fmt.Errorf("flight %d: %w", i, err)
		}
	}
	return nil
}

// WriteParquet stores the flights as a Parquet table, one row a flight.
func (m *Manifest) WriteParquet(w io.Writer) error {
	if err := parquet.Write(w, m.Flights, parquet.Compression(&parquet.Snappy)); err != nil {
		return fmt.Errorf("write corpus as Parquet: %w", err)
	}
	return nil
}

// UncalibratedCheckpoint returns a network's parameters, trained on the corpus
// on rows by those statistics, as a checkpoint that is not yet calibrated.
func (m *Manifest) UncalibratedCheckpoint(a model.Arch, parameters []float32, statistics token.Statistics) (*checkpoint.Checkpoint, error) {
	net, err := model.NewNet(a, parameters)
	if err != nil {
		return nil, err
	}
	low, high := m.Archive.OmegaBand()
	return &checkpoint.Checkpoint{Net: net, Manifest: checkpoint.Manifest{
		Arch: a, Statistics: statistics, GoalConstants: m.GoalConstants(), PriceCurve: m.Archive.PriceCurve(),
		OmegaBand: [2]float64{low, high}, Physics: m.World.Physics, World: m.World.Record(),
	}}, nil
}
