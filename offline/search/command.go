package search

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"prefdt/configs/cli"
	"prefdt/offline/command"
	"prefdt/offline/pareto"
	"prefdt/offline/seeds"
)

const usage = `offline search finds the ten-gene rules that trade delay against energy, by NSGA-II.

  offline search [flags]                      search; Ctrl-C and SIGTERM stop after the last complete generation
  offline search -resume [flags]              continue where it stopped, or with more generations
  offline search -restarts 8 -resume -shard 0/8
                                              one of eight searches, for eight jobs at a time in one
                                              folder; then the same without -shard
  offline search -evaluate ARCHIVE [-seeds A:B] [-json]
                                              fly an archive's members on other seeds

It writes state.json after every generation, and archive.json at the end, into the
folder -out.

Flags:
`

// Command is "offline search": it searches, or evaluates an archive. Results
// go to stdout, the progress of an evaluation to stderr.
func Command(ctx context.Context, call *cli.Call) error {
	c := Default()
	flags := call.Flags
	config := command.WorldFlag(flags)
	recipe := flags.String("recipe", "", "YAML `FILE` with the search, as configs/search.yaml; flags given go over it")
	flags.IntVar(&c.Population, "pop", c.Population, "members of the population, and so of the front")
	flags.IntVar(&c.Generations, "generations", c.Generations, "generations, the random first one included")
	flags.StringVar(&c.Seeds, "seeds", c.Seeds, "episode seeds, `A:B` (B excluded) or N for 0:N, all for training; with -evaluate "+
		"1000000:1000100 unless given")
	flags.Uint64Var(&c.Seed, "seed", c.Seed, "seed of the search itself")
	out := flags.String("out", "out/search", "`FOLDER` for the state and the archive")
	resume := flags.Bool("resume", false, "continue from the state in -out; without one, start")
	evaluate := flags.String("evaluate", "", "evaluate the archive in this `FILE` instead of searching")
	asJSON := flags.Bool("json", false, "with -evaluate: print one JSON object, progress to standard error")
	flags.IntVar(&c.Restarts, "restarts", c.Restarts,
		"independent searches, of this `NUMBER` of seeds from -seed on, whose rules make one archive")
	shard := command.ShardFlag(flags, "of -restarts; the same command without it makes the archive of all in -out")
	limit := command.LimitFlag(flags)
	workers := flags.Int("workers", runtime.GOMAXPROCS(0), "episodes simulated at a time; changes no result")
	if _, err := call.Parse(usage, 0); err != nil {
		return err
	}
	ctx, stop := limit(ctx)
	defer stop()
	share, err := shard()
	if err != nil {
		return err
	}
	mode, foreign := "searching", []string{"json"}
	if *evaluate != "" {
		mode, foreign = "-evaluate", []string{"config", "generations", "out", "pop", "recipe", "restarts", "resume", "seed", "shard"}
	}
	switch i := slices.IndexFunc(foreign, call.Given); {
	case i >= 0:
		return cli.BadInputf("-%s does not go with %s", foreign[i], mode)
	case *workers < 1 || *workers > 1024:
		return cli.BadInputf("-workers is %d, want 1 to 1024", *workers)
	case *evaluate != "":
		if !call.Given("seeds") {
			c.Seeds = "1000000:1000100"
		}
		return evaluateArchive(ctx, call, *evaluate, c.Seeds, *workers, *asJSON)
	}
	if c.World, err = config(c.World); err != nil {
		return cli.BadInput(err)
	}
	if err := call.Config(*recipe, &c); err != nil {
		return err
	}
	return searchInto(ctx, *out, c, share, *resume, *workers, call.Stdout)
}

// restart is one of a configuration's searches.
type restart struct {
	Config
	statePath string
	state     State
}

// restarts returns a shard's searches, with the states that they have been left in. Its
// errors are bad input.
func restarts(dir string, c Config, shard command.Shard, resume bool) (list []restart, err error) {
	n := max(c.Restarts, 1)
	if shard.N > n {
		return nil, fmt.Errorf("-shard divides restarts, and these are %d: for %d shards add -restarts %[2]d (one search is not divided)",
			n, shard.N)
	}
	for k := range n {
		if !shard.Has(k) {
			continue
		}
		r := restart{Config: c, statePath: filepath.Join(dir, "state.json")}
		r.Seed += uint64(k)
		if n > 1 {
			r.statePath = filepath.Join(dir, fmt.Sprintf("restart%d", k), "state.json")
		}
		if r.state, err = initialState(r.statePath, r.Config, resume); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

func searchInto(ctx context.Context, dir string, c Config, shard command.Shard, resume bool, workers int, stdout io.Writer) error {
	list, err := restarts(dir, c, shard, resume)
	if err == nil {
		err = command.CheckWritable(dir)
	}
	if err != nil {
		return cli.BadInput(err)
	}
	fmt.Fprintln(stdout, command.PropulsionLine(&c.World.Physics))
	var members []Member
	for i := range list {
		if len(list) > 1 {
			fmt.Fprintf(stdout, "search %d of %d, seed %d\n", i+1, len(list), list[i].Seed)
		}
		if err := list[i].run(ctx, workers, stdout); err != nil {
			return err
		}
		members = append(members, list[i].state.Population...)
	}
	if !shard.Whole() {
		_, err := fmt.Fprintf(stdout, "%v: %d searches are done; the same command without -shard makes the archive\n", shard, len(list))
		return err
	}
	archive := archiveOf(c, members)
	path := filepath.Join(dir, "archive.json")
	if err := command.ReplaceJSON(path, " ", archive); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	_, err = fmt.Fprintf(stdout, "%d members in %s, from %.1f s and %.0f J to %.1f s and %.0f J on the training seeds\n",
		len(archive.Members), path,
		archive.Members[0].DelayS, archive.Members[0].EnergyJ, archive.Members[len(archive.Members)-1].DelayS,
		archive.Members[len(archive.Members)-1].EnergyJ)
	return err
}

// run takes a search to its end.
func (r *restart) run(ctx context.Context, workers int, stdout io.Writer) error {
	reference := pareto.Reference
	reference.EnergyJ *= r.World.EnergyScale()
	started, first := time.Now(), r.state.Generation
	err := Run(ctx, r.Config, &r.state, workers, func(s *State) error {
		if err := command.ReplaceJSON(r.statePath, " ", s); err != nil {
			return fmt.Errorf("save search state: %w", err)
		}
		left := time.Since(started) / time.Duration(s.Generation-first) * time.Duration(r.Generations-s.Generation)
		_, err := fmt.Fprintf(stdout, "generation %d/%d  evaluations %d  hypervolume %.3fe6  left %s\n", s.Generation, r.Generations,
			s.Generation*r.Population, pareto.Hypervolume(memberPoints(s.Population), reference)/1e6, left.Round(100*time.Millisecond))
		return err
	})
	if command.Ended(ctx, err) {
		return command.Interrupted(ctx, " after generation %d of %d; the same command with -resume continues from %s", r.state.Generation,
			r.Generations, r.statePath)
	}
	return err
}

// initialState returns the state to search from, and never drops one without -resume.
func initialState(path string, c Config, resume bool) (State, error) {
	state, err := ReadState(path, c)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return State{}, nil
	case !resume:
		return State{}, fmt.Errorf("%s holds a search: add -resume to continue it, or give another -out", path)
	case err == nil && state.Generation > c.Generations:
		err = fmt.Errorf("search state %s: it is at generation %d, beyond the %d requested", path, state.Generation, c.Generations)
	}
	return state, err
}

func evaluateArchive(ctx context.Context, call *cli.Call, path, text string, workers int, asJSON bool) error {
	list, err := command.ParseSeeds(text, seeds.CheckEvaluation)
	if err != nil {
		return cli.BadInput(err)
	}
	a, err := ReadArchive(path)
	if err != nil {
		return cli.BadInput(err)
	}
	e, err := Evaluate(ctx, a, list, workers, command.Progress(call.Stderr, "seeds", len(list)))
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if err != nil {
		return fmt.Errorf("evaluate %s: %w", path, err)
	}
	if asJSON {
		return call.PrintJSON(e)
	}
	fmt.Fprintf(call.Stdout, "%d members on %d seeds from %d, per seed\n", e.Members, len(list), list[0])
	return e.Write(call.Stdout, "IGD, of the pooled span", e.IGD, "")
}
