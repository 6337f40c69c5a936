package methods

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"prefdt/configs/cli"
	"prefdt/offline/command"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

const usage = `offline method trains one of the methods that the paper compares its policy with, if
it learns, and flies it.

  offline method -list
  offline method sca-mpc -seeds 100000:100010      fly it at an even grid of settings
  offline method ppo -budget 0.01 -out out/try     with a hundredth of its environment steps
  offline method ppo -resume                       continue

The folder -out keeps trained policies, and the outcomes of each seed as it is flown:
Ctrl-C or SIGTERM may come at any time, or -limit end it: the exit status is 75 then,
and -resume goes on.

Flags:
`

// Command is "offline method".
func Command(ctx context.Context, call *cli.Call) error {
	f := call.Flags
	config := command.WorldFlag(f)
	recipe := f.String("recipe", "", "YAML `FILE` with the settings, as configs/methods.yaml")
	text := f.String("seeds", "100000:100010", "episodes to fly, `A:B` (B excluded): of calibration or of evaluation")
	settings := f.Int("settings", 21, "preferences to fly, evenly from the least delay to the least energy")
	budget := f.Float64("budget", 1, "`fraction` of the declared environment steps, tokens or transitions to learn from; of a solver's "+
		"iterations")
	out := f.String("out", "", "`FOLDER` of policies and outcomes (default out/methods/NAME)")
	resume := f.Bool("resume", false, "continue in -out; without anything there, start")
	ppo := f.String("ppo", "out/methods/ppo-plain", "`FOLDER` of the PPO policies, for methods that learn from their flights; trained "+
		"there if they are not")
	list := f.Bool("list", false, "print the methods")
	limit := command.LimitFlag(f)
	workers := f.Int("workers", runtime.GOMAXPROCS(0), "policies or flights at a time; changes no result")
	asJSON := call.JSONFlag()
	words, err := call.Parse(usage, 1)
	if err != nil {
		return err
	}
	ctx, stop := limit(ctx)
	defer stop()
	r := &Run{Config: Default(), PPODir: *ppo, Workers: *workers, Log: call.Stderr}
	if err := call.Config(*recipe, &r.Config); err != nil {
		return err
	}
	if *list {
		methods := Methods(&r.Config)
		if *asJSON {
			return call.PrintJSON(methods)
		}
		for _, m := range methods {
			fmt.Fprintf(call.Stdout, "%-22s %s\n", m.Name, m.Description)
		}
		return nil
	}
	if len(words) != 1 {
		return cli.BadInputf("want the name of a method (-list shows them)")
	}
	m := Find(&r.Config, words[0])
	if m == nil {
		return cli.BadInputf("no method is called %q (-list shows them)", words[0])
	}
	if !(*budget > 0 && *budget <= 100) || *settings < 2 || *settings > 1001 || *workers < 1 || *workers > 1024 {
		return cli.BadInputf("-budget is %v, -settings %d, -workers %d; want above 0 to 100, 2 to 1001, 1 to 1024", *budget, *settings,
			*workers)
	}
	if m.Spending != nil {
		for _, n := range m.Spending(&r.Config) {
			*n = max(int(float64(*n)**budget), 1)
		}
	}
	if r.World, err = config(world.Standard()); err != nil {
		return cli.BadInput(err)
	}
	flown, err := command.ParseSeeds(*text, heldOut)
	if err != nil {
		return cli.BadInput(err)
	}
	r.Dir = *out
	if r.Dir == "" {
		r.Dir = filepath.Join("out", "methods", m.Name)
	}
	if err := r.Claim(m, *resume); err != nil {
		return cli.BadInput(err)
	}
	at := rollout.Linspace(0, 1, *settings)
	if m.BudgetsJ != nil {
		at = m.BudgetsJ(&r.Config)
	}
	if _, err := r.readOutcomes(at); err != nil {
		return cli.BadInput(err)
	}
	newPolicy, err := m.New(ctx, r)
	if err == nil {
		var outcomes [][]pareto.Point
		if outcomes, err = Fly(ctx, r, m, newPolicy, at, flown); err == nil {
			figures := Measure(r, m, at, outcomes)
			if *asJSON {
				return call.PrintJSON(figures)
			}
			return figures.print(call)
		}
	}
	if command.Ended(ctx, err) {
		return command.Interrupted(ctx, "; the same command with -resume continues")
	}
	return fmt.Errorf("method %s: %w", m.Name, err)
}

// heldOut refuses seeds that a method may have learned from.
func heldOut(seed uint64) error {
	if seeds.CheckCalibration(seed) != nil && seeds.CheckEvaluation(seed) != nil {
		return fmt.Errorf("seed %d may have been trained on, use %d to %d or from %d", seed, seeds.CalibrationFirst, seeds.CalibrationLast,
			uint64(seeds.EvaluationFirst))
	}
	return nil
}

// Claim keeps trainings with different settings, or in different worlds, from sharing the
// run's folder.
func (r *Run) Claim(m *Method, resume bool) error {
	path := filepath.Join(r.Dir, "method.json")
	want, err := json.MarshalIndent([]any{m.Name, m.Settings(&r.Config), r.Scales, r.World}, "", "  ")
	if err != nil {
		return err
	}
	have, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return err
	case strings.TrimSpace(string(have)) != string(want):
		return fmt.Errorf("%s is of another method, world or settings: give those, or another -out", r.Dir)
	case !resume:
		return fmt.Errorf("%s holds a run: add -resume to continue it, or give another -out", r.Dir)
	}
	if err := command.CheckWritable(r.Dir); err != nil {
		return err
	}
	return command.ReplaceJSON(path, "  ", json.RawMessage(want))
}

// print writes the figures as a table.
func (f *Figures) print(call *cli.Call) error {
	fmt.Fprintf(call.Stdout, "%s at %d settings on %d seeds, per seed\n", f.Method, len(f.Settings), f.Hypervolume.N)
	budgets := ""
	if f.BudgetError > 0 {
		budgets = fmt.Sprintf("budgets, |E/B-1|\t%.4g\t\t\nbudgets exceeded\t%.4g\t\t\n", f.BudgetError, f.BudgetViolation)
	}
	return f.Write(call.Stdout, "fidelity", f.Fidelity, budgets)
}
