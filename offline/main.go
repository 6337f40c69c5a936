// Offline makes a checkpoint and measures it: search, corpus, training,
// calibration, export, evaluation. None of it is linked into the leader.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	"prefdt/offline/bench"
	"prefdt/offline/corpus"
	"prefdt/offline/evaluate"
	"prefdt/offline/rollout"
	"prefdt/offline/search"
	"prefdt/offline/study"
	"prefdt/offline/train"
)

type subcommand struct {
	name, summary string
	run           func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}

var subcommands = []subcommand{
	{"search", "find the paper's ten-gene rules by NSGA-II", search.Command},
	{"corpus", "build the flights that the policy imitates", corpus.Command},
	{"train", "fit the policy network to a corpus", train.Command},
	{"calibrate", "spread the settings over the front it achieves", calibrateCommand},
	{"export", "write it as a checkpoint", exportCommand},
	{"evaluate", "measure a checkpoint on evaluation seeds", evaluate.Command},
	{"study", "compare it with all it could have been", study.Command},
	{"replay", "decide a leader's recorded flight again", rollout.Command},
	{"bench", "measure what it all costs on this machine", bench.Command},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || args[0] == "-h" || args[0] == "--help" || args[0] == "help" {
		fmt.Println("offline makes a checkpoint and measures it.\n\n  offline COMMAND [flags]; offline COMMAND -h shows its flags\n\nCommands, in the order of the pipeline:")
		for _, s := range subcommands {
			fmt.Printf("  %-10s %s\n", s.name, s.summary)
		}
		return nil
	}
	for _, s := range subcommands {
		if s.name == args[0] {
			return s.run(ctx, args[1:], os.Stdout, os.Stderr)
		}
	}
	return fmt.Errorf("offline: unknown command %q (offline -h lists them)", args[0])
}
