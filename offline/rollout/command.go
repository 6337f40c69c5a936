package rollout

import (
	"context"
	"fmt"
	"io"
	"os"

	"prefdt/inference/checkpoint"
	"prefdt/offline/command"
)

const usage = `offline replay decides a flight again that a leader recorded (record: FILE in
its configuration), slot by slot, and says whether every decision and every
objective is the same to the last bit.

  offline replay -record FILE [-checkpoint DIR]

`

// Command is "offline replay".
func Command(_ context.Context, args []string, stdout, _ io.Writer) error {
	f := command.Flags("replay")
	path := f.String("record", "", "`file` that a leader wrote")
	dir := f.String("checkpoint", "configs/checkpoint", "`folder` of the policy that decided")
	if done, err := command.Parse(f, usage, args, stdout); done {
		return err
	}
	if *path == "" {
		return fmt.Errorf("offline replay: want -record FILE (-h shows the flags)")
	}
	frozen, err := checkpoint.Load(*dir)
	if err != nil {
		return fmt.Errorf("offline replay: %w", err)
	}
	in, err := os.Open(*path)
	if err != nil {
		return fmt.Errorf("offline replay: %w", err)
	}
	defer in.Close()
	slots, err := Replay(in, frozen)
	if err != nil {
		return fmt.Errorf("offline replay: after %d equal slots: %w", slots, err)
	}
	fmt.Fprintf(stdout, "%d slots are decided as they were in flight\n", slots)
	return nil
}
