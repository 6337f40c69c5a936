// Offline makes a checkpoint and measures it: search, corpus, training,
// calibration, export, evaluation. None of it is linked into the leader.
package main

import (
	"prefdt/configs/cli"
	"prefdt/offline/belieftrain"
	"prefdt/offline/bench"
	"prefdt/offline/compare"
	"prefdt/offline/corpus"
	"prefdt/offline/evaluate"
	"prefdt/offline/paper"
	"prefdt/offline/prefdttrain"
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
		{Name: "train-estimator", Summary: "train the estimator of beliefs", Run: belieftrain.Command},
		{Name: "calibrate", Summary: "calibrate settings, ceilings and floors", Run: calibrateCommand},
		{Name: "export", Summary: "write the checkpoint", Run: exportCommand},
		{Name: "evaluate", Summary: "evaluate a checkpoint on evaluation seeds", Run: evaluate.Command},
		{Name: "train-prefdt", Summary: "train PrefDT in the form in which it was published", Run: prefdttrain.Command},
		{Name: "study", Summary: "compare it with baselines and ablations", Run: study.Command},
		{Name: "method", Summary: "train and fly one of the paper's other methods", Run: paper.MethodCommand},
		{Name: "paper", Summary: "make the paper's tables with our figures beside its own", Run: paper.Command},
		{Name: "replay", Summary: "re-decide a recorded flight and compare bit for bit", Run: rollout.Command},
		{Name: "compare", Summary: "set a flight in a field world beside its rollouts, with pictures of what was believed",
			Run: compare.Command},
		{Name: "bench", Summary: "benchmark this machine", Run: bench.Command},
	},
	Was: map[string]string{"papertrain": "train-prefdt"},
	Notes: "Exit status: 0 done, 1 failed, 2 bad input and nothing was begun, 75 ended early and saved: the same command, with -resume, " +
		"continues.",
}

func main() { program.Main() }
