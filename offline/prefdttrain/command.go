package prefdttrain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"prefdt/configs/cli"
	"prefdt/offline/command"
	"prefdt/offline/corpus"
	"prefdt/offline/pareto"
	"prefdt/offline/search"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

const usage = `offline train-prefdt trains PrefDT in the form in which it was published: it searches the
rules, builds the published corpus of their flights, and trains on it.

  offline train-prefdt -config configs/prefdt.yaml -tokens 440e6 -resume
  offline train-prefdt -config configs/prefdt.yaml -export configs/paper
  offline train-prefdt -config configs/prefdt.yaml -from configs/paper -tokens 440e6

It saves the state every minute. Ctrl-C, SIGTERM and -limit save and end it with exit status
75; the same command with -resume continues, any number of times. The rate is constant until the last fifth of the tokens,
the cool-down, which has a state of its own: with fewer -tokens a run is cooled down
from where it stands, with more it goes on from where its cool-down began. -export trains nothing: it calibrates
the settings of what was cooled down on calibration seeds, and writes the checkpoint. -from
goes on from a checkpoint where a run's states are gone; one of the constant rate serves best.

Flags:
`

// Command is "offline train-prefdt".
func Command(ctx context.Context, call *cli.Call) error {
	c := Default()
	f := call.Flags
	config := f.String("config", "", "YAML `FILE` with form, corpus, batch and schedule, as configs/prefdt.yaml")
	out := f.String("out", "out/paper", "`FOLDER` for rules.json, corpus.json, state.bin, cooldown.bin and the logs")
	tokens := f.Float64("tokens", 440e6, "tokens of the whole run, the cool-down included")
	from := f.String("from", "", "begin with the parameters, steps and tokens of the checkpoint in this `FOLDER`; with -resume where "+
		"no run is")
	resume := f.Bool("resume", false, "continue from the states in -out; without one, start")
	validate := f.Float64("validate", 20e6, "tokens between two validations, 0 for none")
	exportTo := f.String("export", "", "calibrate and write the checkpoint to `FOLDER` instead of training")
	state := f.String("state", "", "with -export: state `FILE` instead of the cool-down's in -out")
	flights := f.Int("flights", 40, "with -export: calibration seeds that the settings are measured on")
	limit := command.LimitFlag(f)
	if _, err := call.Parse(usage, 0); err != nil {
		return err
	}
	ctx, stop := limit(ctx)
	defer stop()
	if err := call.Config(*config, &c); err != nil {
		return err
	}
	if err := c.Check(); err != nil {
		return cli.BadInput(err)
	}
	if !(*tokens >= c.tokensPerStep() && *tokens <= 1e13) || !(*validate >= 0 && *validate <= 1e13) {
		return cli.BadInputf("-tokens is %g, want a step's %.0f at least; -validate is %g, want 0 at least", *tokens, c.tokensPerStep(),
			*validate)
	}
	if *exportTo != "" {
		return exportCommand(ctx, call, c, *out, cmp.Or(*state, filepath.Join(*out, coolDownFile)), *flights, *exportTo)
	}
	if *state != "" {
		return cli.BadInputf("-state is of -export")
	}
	var begin *start
	if _, none := os.Stat(filepath.Join(*out, stateFile)); *from != "" && (none != nil || !*resume) {
		var err error
		if begin, err = readStart(*from, &c.Form); err != nil {
			return cli.BadInput(err)
		}
	}
	for _, name := range []string{stateFile, coolDownFile} {
		if _, err := os.Stat(filepath.Join(*out, name)); err == nil && !*resume {
			return cli.BadInputf("%s holds a run (%s): add -resume to continue it, or give another -out", *out, name)
		}
	}
	if head, err := readHeader(filepath.Join(*out, stateFile)); err == nil {
		if command.Hash(head.Config) != command.Hash(c) {
			return cli.BadInputf("%s holds a run of another configuration, %+v: give that one, or another -out", *out, head.Config)
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return cli.BadInput(err)
	}
	if err := command.CheckWritable(*out); err != nil {
		return cli.BadInput(err)
	}
	m, err := prepare(ctx, c, *out, call.Stderr)
	var t *run
	if err == nil {
		t, err = startRun(ctx, c, m, command.Progress(call.Stderr, "flights read", len(m.Flights)))
	}
	if command.Ended(ctx, err) {
		return command.Interrupted(ctx, "; the same command with -resume continues")
	} else if err != nil {
		return err
	}
	if begin != nil {
		if err := t.begin(begin, m); err != nil {
			return cli.BadInput(err)
		}
	}
	check := func(ctx context.Context, log io.Writer) error { return t.check(ctx, m, log, call.Stdout) }
	return t.run(ctx, *out, *tokens, *validate, check, call.Stdout)
}

const calibrationSeeds = seeds.CalibrationLast - seeds.CalibrationFirst + 1

func exportCommand(ctx context.Context, call *cli.Call, c Config, dir, state string, flights int, out string) error {
	head, err := readHeader(state)
	if err != nil {
		return cli.BadInput(err)
	}
	if d := head.Subject.CoolDown; filepath.Base(state) == coolDownFile && head.Step < d.From+d.Steps {
		return cli.BadInputf("%s is at step %d of a cool-down that ends at %d: train on, or name another -state", state, head.Step,
			d.From+d.Steps)
	}
	if flights < 2 || flights > calibrationSeeds {
		return cli.BadInputf("-flights is %d, want 2 to %d", flights, calibrationSeeds)
	}
	m, err := readCorpus(filepath.Join(dir, corpusFile), c)
	if err != nil {
		return cli.BadInput(err)
	}
	if err := command.CheckWritable(out); err != nil {
		return cli.BadInput(err)
	}
	ck, err := finish(ctx, m, state, flights, runtime.GOMAXPROCS(0), out, command.Progress(call.Stderr, "calibration seeds", flights))
	if command.Ended(ctx, err) {
		return command.Interrupted(ctx, " while settings were calibrated; the same command begins that anew")
	} else if err != nil {
		return err
	}
	_, err = fmt.Fprintf(call.Stdout, "checkpoint of %d parameters after %d million tokens, in %s; the leader flies it with decoder: "+
		"heads\n", ck.Published.Form.Parameters(), head.Progress.Tokens/1e6, out)
	return err
}

// prepare returns the corpus of a configuration, searched and built once in a folder.
func prepare(ctx context.Context, c Config, dir string, progress io.Writer) (*Corpus, error) {
	path := filepath.Join(dir, corpusFile)
	if m, err := readCorpus(path, c); err == nil || !errors.Is(err, os.ErrNotExist) {
		return m, err
	}
	workers := runtime.GOMAXPROCS(0)
	w := world.Standard()
	w.Aircraft = c.Form.Aircraft
	archive, err := teacherArchive(ctx, c, w, dir, workers, progress)
	if err != nil {
		return nil, err
	}
	m, err := Build(ctx, c, w, archive, workers, command.Progress(progress, "flights", 2*c.Flights))
	if err != nil {
		return nil, err
	}
	low, high := m.band()
	fmt.Fprintf(progress, "corpus: %d members, eta %.1f s and %.0f J, band [%.3f, %.3f], conditioner explains %.4f and %.4f\n",
		len(m.Shares), m.Etas.DelayS, m.Etas.EnergyJ, low, high, m.Fit.R2DelayS, m.Fit.R2EnergyJ)
	return m, command.ReplaceJSON(path, "", m)
}

// dispatchPrices is how many prices the dispatch teacher's archive has.
const dispatchPrices = 101

// teacherArchive returns the front that a corpus is matched to: of the rules, searched once in
// a folder, or of the dispatch teacher.
func teacherArchive(ctx context.Context, c Config, w world.Config, dir string, workers int, progress io.Writer) (corpus.Archive, error) {
	if c.Dispatch {
		return corpus.DispatchArchive(ctx, &w, dispatchPrices, c.Episodes, workers,
			command.Progress(progress, "archive episodes", c.Episodes))
	}
	find := search.Default()
	find.World = w
	found, err := search.Ensure(ctx, filepath.Join(dir, archiveFile), find, workers, nil)
	if err != nil {
		return corpus.Archive{}, err
	}
	return corpus.FlownRules(ctx, &found, c.Episodes, workers)
}

// readCorpus reads the corpus of a configuration.
func readCorpus(path string, c Config) (*Corpus, error) {
	m := &Corpus{}
	if err := command.ReadJSON(path, m); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read corpus: %w", err)
	} else if err != nil {
		return nil, cli.BadInputf("corpus %s is damaged (%v): remove it, and it is drawn again", path, err)
	}
	if len(m.Flights) != c.Flights || m.Archive.Episodes != c.Episodes || m.Seed != c.Seed || m.Uniform != c.Uniform ||
		(m.Archive.Prices != nil) != c.Dispatch || m.World.Aircraft != c.Form.Aircraft ||
		!slices.Equal(m.UserFeatures, c.Form.UserFeatures) {
		return nil, cli.BadInputf("%s has %d flights of seed %d (uniform: %v, by dispatch: %v) of %d aircraft, %d episodes for each "+
			"rule and user features %q, the configuration %d, %d (%v, %v), %d, %d and %q: give another -out", path,
			len(m.Flights), m.Seed, m.Uniform, m.Archive.Prices != nil, m.World.Aircraft, m.Archive.Episodes, m.UserFeatures, c.Flights,
			c.Seed, c.Uniform, c.Dispatch, c.Form.Aircraft, c.Episodes, c.Form.UserFeatures)
	}
	return m, nil
}

// check appends a line to the validation's log: the loss and the front of the parameters.
func (r *run) check(ctx context.Context, m *Corpus, log, stdout io.Writer) error {
	l := r.validate()
	front, err := m.fly(ctx, &r.Form, r.Params.Data, r.flights, r.settings, r.Workers)
	if err != nil {
		return err
	}
	hypervolume := pareto.Mean(front.Hypervolumes) / 1e6
	fidelity, reachS, cornerS := pareto.Mean(front.Fidelities), pareto.Mean(front.Reaches), pareto.Mean(front.Corners)
	fmt.Fprintf(stdout, "validation at step %d: loss %.4f  choice %.4f  offload %.5f  flight %.5f  right %.4f  "+
		"hypervolume %.3fe6  fidelity %.3f  reach %.0f s  corner %.1f s\n", r.Step,
		l.Total(), l.Association, l.Offload, l.Flight, l.Right, hypervolume, fidelity, reachS, cornerS)
	_, err = fmt.Fprintf(log, "%d,%d,%.5f,%.5f,%.5f,%.5f,%.5f,%.4f,%.4f,%.2f,%.2f\n", r.Step, r.progress.Tokens,
		l.Total(), l.Association, l.Offload, l.Flight, l.Right, hypervolume, fidelity, reachS, cornerS)
	return err
}

const validationHeader = "step,tokens,loss,choice,offload,flight,right,hypervolume_1e6,fidelity,reach_s,corner_s\n"

// score is the hypervolume.
func score(line []float64) float64 { return line[7] }
