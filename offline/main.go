// Offline makes a checkpoint and measures it: search, corpus, training,
// calibration, export, evaluation. None of it is linked into the leader.
package main

import (
	"prefdt/configs/cli"
	"prefdt/offline/bench"
	"prefdt/offline/corpus"
	"prefdt/offline/evaluate"
	"prefdt/offline/papertrain"
	"prefdt/offline/rollout"
	"prefdt/offline/search"
	"prefdt/offline/study"
	"prefdt/offline/train"
)

var program = cli.Program{
	Name:  "offline",
	Usage: "offline makes a checkpoint and measures it. Commands, in the order of the pipeline:",
	Commands: []cli.Command{
		{Name: "search", Summary: "find the paper's ten-gene rules by NSGA-II", Run: search.Command},
		{Name: "corpus", Summary: "build the imitation corpus", Run: corpus.Command},
		{Name: "train", Summary: "train the policy network", Run: train.Command},
		{Name: "calibrate", Summary: "calibrate settings, ceilings and floors", Run: calibrateCommand},
		{Name: "export", Summary: "write the checkpoint", Run: exportCommand},
		{Name: "evaluate", Summary: "evaluate a checkpoint on evaluation seeds", Run: evaluate.Command},
		{Name: "papertrain", Summary: "train PrefDT in the form in which it was published", Run: papertrain.Command},
		{Name: "study", Summary: "compare it with baselines and ablations", Run: study.Command},
		{Name: "replay", Summary: "re-decide a recorded flight and compare bit for bit", Run: rollout.Command},
		{Name: "bench", Summary: "benchmark this machine", Run: bench.Command},
	},
	Notes: "Exit status: 0 done, 1 failed or interrupted (what is finished is kept), 2 bad input, and nothing was begun.",
}

func main() { program.Main() }
