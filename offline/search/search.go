// Package search finds the paper's teacher: a ten-gene rule (Rule) whose genes
// NSGA-II sweeps over the trade-off between delay and energy. Inputs: a
// configuration. Outputs: an archive of non-dominated rules. "offline search"
// calls it, and the study; the corpus replays its archives. It comes first in the
// offline pipeline and flies in simbridge/world alone.
//
// A search is a function of its configuration: each generation draws from a
// random generator of its own, seeded by seed and generation, so a search that
// was interrupted and resumed, or that ran on another number of cores, ends with
// the same bits.
package search

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"prefdt/configs"
	"prefdt/configs/cli"
	"prefdt/inference/slot"
	"prefdt/offline/command"
	"prefdt/offline/pareto"
	"prefdt/offline/seeds"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// Config describes a search.
type Config struct {
	Population  int    `json:"population" yaml:"population" range:"2,10000"`
	Generations int    `json:"generations" yaml:"generations" range:"1,100000"` // the random one included
	Seeds       string `json:"seeds" yaml:"seeds"`                              // training seeds, A:B or N for 0:N
	Seed        uint64 `json:"seed" yaml:"seed"`                                // of the search itself
	// Restarts is the number of independent searches, of seeds Seed, Seed+1 and so on, whose
	// rules make one archive; 0 is 1. One search is a sequence of generations and
	// is not divided.
	Restarts int          `json:"restarts,omitempty" yaml:"restarts" range:"0,1000"`
	World    world.Config `json:"world" yaml:"-"` // its own file gives it
}

// Default is the paper's search: about 2000 evaluations of three episodes.
func Default() Config {
	c := Config{World: world.Standard()}
	configs.Default("search.yaml", &c)
	return c
}

// Check validates a configuration and returns the first violation.
func (c *Config) Check() error {
	if err := command.CheckRanges(c); err != nil {
		return fmt.Errorf("search %w", err)
	}
	if _, err := command.ParseSeeds(c.Seeds, seeds.CheckTraining); err != nil {
		return err
	}
	return c.World.Check()
}

// stateVersion changes whenever the same configuration would search differently.
const stateVersion = 1

// Hash names all that a search's course depends on. The numbers of generations and of
// restarts are not part of it: a finished search may be resumed with more.
func (c Config) Hash() string {
	c.Generations, c.Restarts = 0, 0
	raw, err := json.Marshal(c)
	if err != nil {
		panic(err) // a struct of numbers and strings
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(raw, "version %d", stateVersion)))
}

// State is a search between two generations: with the configuration, all that
// the next one depends on.
type State struct {
	Version    int      `json:"version"`
	ConfigHash string   `json:"config_sha256"`
	Generation int      `json:"generation"` // complete ones
	Population []Member `json:"population"`
}

// Run takes a search from a state, or from its beginning if the state is
// empty, to its last generation. step is called after each; its error, or the
// end of ctx, ends the search with the state of the last complete generation.
func Run(ctx context.Context, c Config, state *State, workers int, step func(*State) error) error {
	list, err := command.ParseSeeds(c.Seeds, seeds.CheckTraining)
	if err != nil {
		return err
	}
	within := geneBounds(c.World.Aircraft)
	for state.Generation < c.Generations {
		rng := rand.New(rand.NewPCG(c.Seed, uint64(state.Generation)))
		isFirst := state.Generation == 0
		var children []Member
		if isFirst {
			children = randomMembers(rng, within, c.Population)
		} else {
			children = offspring(rng, within, state.Population)
		}
		outcomes, err := Fly(ctx, &c.World, children, list, workers, nil)
		if err != nil {
			return err
		}
		for i := range children {
			children[i].Point = meanOutcome(outcomes[i])
		}
		next := children
		if !isFirst {
			next = survivors(append(slices.Clip(state.Population), children...), c.Population)
		}
		state.Version, state.ConfigHash = stateVersion, c.Hash()
		state.Generation, state.Population = state.Generation+1, next
		if err := step(state); err != nil {
			return err
		}
	}
	return nil
}

// Ensure returns the archive of a search at a path, made once: an interrupted one goes on from
// the state beside it.
func Ensure(ctx context.Context, path string, c Config, workers int, progress func(generations int)) (Archive, error) {
	if a, err := ReadArchive(path); err == nil && (a.Config.Hash() != c.Hash() || a.Config.Generations != c.Generations) {
		return a, cli.BadInputf("%s is of a search with another configuration: give that one, or another -out", path)
	} else if err == nil || !errors.Is(err, os.ErrNotExist) {
		return a, err
	}
	statePath := strings.TrimSuffix(path, ".json") + ".state.json"
	state, err := ReadState(statePath, c)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return Archive{}, err
	}
	err = Run(ctx, c, &state, workers, func(at *State) error {
		if progress != nil {
			progress(at.Generation)
		}
		return command.ReplaceJSON(statePath, "", at)
	})
	if err != nil {
		return Archive{}, err
	}
	a := state.Archive(c)
	if err := command.ReplaceJSON(path, "", a); err != nil {
		return a, err
	}
	if err := os.Remove(statePath); !errors.Is(err, os.ErrNotExist) { // another process may have made the same
		return a, err
	}
	return a, nil
}

// meanOutcome averages one member's outcomes over the seeds, in their order.
func meanOutcome(outcomes []pareto.Point) pareto.Point {
	var sum pareto.Point
	for _, o := range outcomes {
		sum.DelayS += o.DelayS
		sum.EnergyJ += o.EnergyJ
	}
	n := float64(len(outcomes))
	return pareto.Point{DelayS: sum.DelayS / n, EnergyJ: sum.EnergyJ / n}
}

// Fly returns the outcome of every member on every seed, [member][seed]. For progress see
// teacher.Episodes.
func Fly(ctx context.Context, c *world.Config, members []Member, list []uint64, workers int, progress func(done int)) ([][]pareto.Point,
	error) {
	var genes [][]float64
	for _, m := range members {
		genes = append(genes, m.Genes)
	}
	return teacher.Episodes(ctx, c, len(members), list, workers, func(w *world.World) (func(int) pareto.Point, error) {
		decideAs, err := DecideAs(&w.Config, genes)
		var r teacher.Runner
		return func(m int) pareto.Point {
			return r.Fly(w, func(s *slot.Snapshot, d *slot.Decision) { decideAs(m, s, d) }, nil)
		}, err
	}, progress)
}
