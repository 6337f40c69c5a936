package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/offline/command"
	"prefdt/offline/experiment"
	"prefdt/offline/offlinetest"
	"prefdt/offline/pareto"
	"prefdt/offline/search"
)

const smallStudy = `
checkpoint: ../configs/checkpoint
seeds: 2
ablation_seeds: 2
calibration_seeds: 1
link_seeds: 1
settings: 3
prices: 3
flights: 400
episodes: 1
train:
  arch: {width: 16, pair_width: 8, layers: 1, heads: 2, context: 4}
  batch: 1
  workers: 1
  schedule: {steps: 60, warm_up: 10}
`

//go:embed paper/testdata/miniature.yaml
var smallTables string

// fewRules stands in for the 2000 rules that the search of a teacher flies: they offload less and less.
func fewRules() search.Archive {
	var s search.State
	for k := range 12 {
		x := float64(k) / 11
		s.Population = append(s.Population, search.Member{Genes: []float64{3, 1 - x, 800, 0, 8.4, 1, 0.3, 8.4, 1, 0.3},
			Point: pareto.Point{DelayS: 100 + 600*x, EnergyJ: 40e3 - 13e3*x}})
	}
	return s.Archive(search.Default())
}

// What shards have measured in folders of their own, one of them ended in the middle and continued, ends as the files of one
// run; what was done before is not done again.
func TestInterruptedEqualsWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("trains")
	}
	for name, c := range map[string]struct {
		command, config, only string
		endAfter              string // in the log
		before, then          string // what is not done again, and what is done next
		// Files of the whole run that the others begin with: what is searched and flown there is the same wherever it is made
		// (TestPipeline, TestEnsure), and takes longest.
		given string
	}{
		"a study in training": {"study", smallStudy, "random,base", "step 50/60", "step 50/60", "step 60/60",
			"teacher/* corpus/*"},
		"a study in flight": {"study", smallStudy, "random,even,flagship-heads", "random, even settings 2/2",
			"random, nominal", "random, gusts", ""},
		"a form in training": {"paper", smallTables, "published,published-axis", "windows a step", "corpus", "published, nominal",
			"train/*/rules.json"},
		"rules over a link": {"paper", smallTables, "random,rules-50-link", "20 % lost 2/2", "5 % lost 2/2", "40 % lost 2/2", ""},
		"rules replanned": {"paper", smallTables, "even-budgets,rules-50-replan", "rules-50-replan, issued once 2/2",
			"rules-50-replan, budgets", "issued twice", ""},
		"methods of one network": {"paper", smallTables, "rules-21,cmdp,prefdt,prefdt-ideal", "prefdt, nominal 2/2", "windows a step",
			"prefdt-ideal, nominal", "search/*"},
	} {
		t.Run(name, func(t *testing.T) {
			config := offlinetest.Write(t, c.config, t.TempDir(), "config.yaml")
			run := func(ends bool, dir string, args ...string) (status int, text string) {
				t.Helper()
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				log := &offlinetest.Log{Text: c.endAfter, Stop: stop}
				if !ends {
					log.Stop = func() {}
				}
				args = append([]string{c.command}, append(args, "-config", config, "-out", dir, "-only", c.only, "-times=false")...)
				if c.command == "paper" {
					args = append(args, "-study", t.TempDir())
				}
				var stderr bytes.Buffer
				if status = program.Run(ctx, args, log, &stderr); status != 0 && !(ends && status == 75) {
					t.Fatalf("%q: status %d: %s", args, status, &stderr)
				}
				return status, log.String()
			}
			whole := t.TempDir()
			if name == "a form in training" {
				offlinetest.NoError(t, command.ReplaceJSON(filepath.Join(whole, "train", "published", "rules.json"), "", fewRules()))
			}
			run(false, whole)
			begun := func() string {
				dir := t.TempDir()
				for _, pattern := range strings.Fields(c.given) {
					files, err := fs.Glob(os.DirFS(whole), pattern)
					if offlinetest.NoError(t, err); len(files) == 0 {
						t.Errorf("the whole run has made no %s", pattern)
					}
					for _, name := range files {
						offlinetest.Write(t, string(offlinetest.Must(os.ReadFile(filepath.Join(whole, name)))(t)), dir, name)
					}
				}
				return dir
			}
			shards, interrupted := []string{begun(), begun()}, 0
			for i, dir := range shards {
				shard := []string{"-shard", fmt.Sprintf("%d/2", i)}
				if status, _ := run(true, dir, shard...); status == 0 {
					continue
				}
				interrupted++
				_, again := run(false, dir, append(shard, "-resume")...)
				if strings.Contains(again, c.before) || !strings.Contains(again, c.then) {
					t.Errorf("continued, without %q and with %q: %s", c.before, c.then, again)
				}
			}
			if interrupted != 1 {
				t.Errorf("%d shards were interrupted, want one", interrupted)
			}
			merged := t.TempDir()
			run(false, merged, append([]string{"merge"}, shards...)...)
			// Records say when, in which folders and in how many sittings results were measured.
			if hash := offlinetest.FolderHash; hash(t, merged, experiment.WithoutRecord) != hash(t, whole, experiment.WithoutRecord) {
				t.Error("the files of the merged shards are others")
			}
		})
	}
}
