package search

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"prefdt/configs"
	"prefdt/configs/cli"
	"prefdt/inference/physics"
	"prefdt/offline/command"
	"prefdt/offline/pareto"
)

const usage = `offline search finds the ten-gene rules that trade delay against energy, by NSGA-II.

  offline search [flags]                      search; Ctrl-C stops after the last complete generation
  offline search -resume [flags]              continue where it stopped, or with more generations
  offline search -evaluate ARCHIVE [-seeds A:B] [-json]
                                              fly an archive's members on other seeds

It writes state.json after every generation, and archive.json and archive.csv
at the end, into the folder -out.

Flags:
`

// Command is "offline search": it searches, or evaluates an archive. Results
// go to stdout, the progress of an evaluation to stderr.
func Command(ctx context.Context, call *cli.Call) error {
	c := Default()
	flags := call.Flags
	config := command.WorldFlag(flags)
	recipe := flags.String("recipe", "", "YAML `FILE` with the search, as configs/search.yaml; flags given go over it")
	population := flags.Int("pop", c.Population, "members of the population, and so of the front")
	generations := flags.Int("generations", c.Generations, "generations, the random first one included")
	seeds := flags.String("seeds", "", "episode seeds, `A:B` (B excluded) or N for 0:N (default 3, all for training; with -evaluate 1000000:1000100)")
	seed := flags.Uint64("seed", 0, "seed of the search itself")
	out := flags.String("out", "out/search", "`FOLDER` for the state and the archive")
	resume := flags.Bool("resume", false, "continue from the state in -out; without one, start")
	evaluate := flags.String("evaluate", "", "evaluate the archive in this `FILE` instead of searching")
	asJSON := flags.Bool("json", false, "with -evaluate: print one JSON object, progress to standard error")
	workers := flags.Int("workers", runtime.GOMAXPROCS(0), "episodes flown at a time; changes no result")
	if _, err := call.Parse(usage, 0); err != nil {
		return err
	}
	var given []string
	flags.Visit(func(f *flag.Flag) { given = append(given, f.Name) })
	mode, foreign := "searching", []string{"json"}
	if *evaluate != "" {
		mode, foreign = "-evaluate", []string{"config", "recipe", "pop", "generations", "seed", "out", "resume"}
	}
	switch i := slices.IndexFunc(given, func(name string) bool { return slices.Contains(foreign, name) }); {
	case i >= 0:
		return cli.BadInputf("-%s does not go with %s", given[i], mode)
	case *workers < 1 || *workers > 1024:
		return cli.BadInputf("-workers is %d, want 1 to 1024", *workers)
	case *evaluate != "":
		return evaluateArchive(ctx, *evaluate, *seeds, *workers, *asJSON, call.Stdout, call.Stderr)
	}
	if *recipe != "" {
		if err := configs.Load(*recipe, &c); err != nil {
			return cli.BadInput(err)
		}
	}
	var err error
	if c.World, err = config(c.World); err != nil {
		return cli.BadInput(err)
	}
	for _, name := range given {
		switch name {
		case "pop":
			c.Population = *population
		case "generations":
			c.Generations = *generations
		case "seeds":
			c.Seeds = *seeds
		case "seed":
			c.Seed = *seed
		}
	}
	if err := c.Check(); err != nil {
		return cli.BadInput(err)
	}
	return searchInto(ctx, *out, c, *resume, *workers, call.Stdout)
}

// searchInto runs a search whose files live in a folder.
func searchInto(ctx context.Context, dir string, c Config, resume bool, workers int, stdout io.Writer) error {
	statePath := filepath.Join(dir, "state.json")
	state, err := initialState(statePath, c, resume)
	if err == nil {
		err = command.CheckWritable(dir)
	}
	if err != nil {
		return cli.BadInput(err)
	}
	fmt.Fprintln(stdout, propulsionLine(&c.World.Physics))
	reference := pareto.Reference
	reference.EnergyJ *= c.World.EnergyScale()
	started, first := time.Now(), state.Generation
	err = Run(ctx, c, &state, workers, func(s *State) error {
		if err := writeJSON(statePath, s); err != nil {
			return fmt.Errorf("save search state: %w", err)
		}
		left := time.Since(started) / time.Duration(s.Generation-first) * time.Duration(c.Generations-s.Generation)
		_, err := fmt.Fprintf(stdout, "generation %d/%d  evaluations %d  hypervolume %.3fe6  left %s\n", s.Generation, c.Generations,
			s.Generation*c.Population, pareto.Hypervolume(memberPoints(s.Population), reference)/1e6, left.Round(100*time.Millisecond))
		return err
	})
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted after generation %d of %d; the same command with -resume continues from %s", state.Generation, c.Generations, statePath)
	}
	if err != nil {
		return err
	}
	archive := state.Archive(c)
	path := filepath.Join(dir, "archive.json")
	if err := errors.Join(writeJSON(path, archive), command.ReplaceFile(filepath.Join(dir, "archive.csv"), archive.WriteCSV)); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	_, err = fmt.Fprintf(stdout, "%d members in %s, from %.1f s and %.0f J to %.1f s and %.0f J on the training seeds\n", len(archive.Members), path,
		archive.Members[0].DelayS, archive.Members[0].EnergyJ, archive.Members[len(archive.Members)-1].DelayS, archive.Members[len(archive.Members)-1].EnergyJ)
	return err
}

// initialState returns the state to search from, and never drops one without -resume.
func initialState(path string, c Config, resume bool) (State, error) {
	_, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return State{}, nil
	case err != nil:
		return State{}, fmt.Errorf("search state: %w", err)
	case !resume:
		return State{}, fmt.Errorf("%s holds a search: add -resume to continue it, or give another -out", path)
	}
	state, err := ReadState(path, c)
	if err == nil && state.Generation > c.Generations {
		err = fmt.Errorf("search state %s: it is at generation %d, beyond the %d requested", path, state.Generation, c.Generations)
	}
	return state, err
}

// propulsionLine shows the flight power that a search rests on, at hover, near
// its least and at V_max.
func propulsionLine(c *physics.Constants) string {
	var at []string
	best := math.Round(10*c.Propulsion.BestSpeedMPS(c.SpeedMaxMPS)) / 10
	for _, speed := range []float64{0, best, c.SpeedMaxMPS} {
		at = append(at, fmt.Sprintf("%.1f W at %v m/s", c.Propulsion.PowerW(speed), speed))
	}
	return "propulsion: " + strings.Join(at, ", ")
}

func evaluateArchive(ctx context.Context, path, seeds string, workers int, asJSON bool, stdout, stderr io.Writer) error {
	if seeds == "" {
		seeds = "1000000:1000100"
	}
	r, err := evaluationSeeds(seeds)
	if err != nil {
		return cli.BadInput(err)
	}
	a, err := ReadArchive(path)
	if err != nil {
		return cli.BadInput(err)
	}
	e, err := Evaluate(ctx, a, r, workers, command.Progress(stderr, "seeds", r.Len()))
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if err != nil {
		return fmt.Errorf("evaluate %s: %w", path, err)
	}
	return e.print(stdout, asJSON)
}
