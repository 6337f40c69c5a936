package rollout

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"prefdt/configs/cli"
	"prefdt/inference/belief/learned"
	"prefdt/inference/checkpoint"
)

const usage = `offline replay decides a flight again that a leader recorded (record: FILE in
its configuration), slot by slot, and reports whether every decision and every
objective is the same to the last bit.

  offline replay -record FILE [-checkpoint DIR] [-estimator FILE]

`

// Command is "offline replay".
func Command(ctx context.Context, call *cli.Call) error {
	f := call.Flags
	path := f.String("record", "", "`file` that a leader wrote")
	dir := f.String("checkpoint", "configs/checkpoint", "`folder` of the policy that decided")
	estimator := f.String("estimator", "", "`file` of the estimator that the policy decided with")
	asJSON := call.JSONFlag()
	if _, err := call.Parse(usage, 0); err != nil {
		return err
	}
	if *path == "" {
		return cli.BadInputf("want -record FILE (-h shows the flags)")
	}
	frozen, err := checkpoint.Load(*dir)
	if err != nil {
		return cli.BadInput(err)
	}
	var parameters *learned.Parameters
	if *estimator != "" {
		raw, err := os.ReadFile(*estimator)
		if err == nil {
			parameters, err = learned.Read(bytes.NewReader(raw))
		}
		if err != nil {
			return cli.BadInput(err)
		}
	}
	in, err := os.Open(*path)
	if err != nil {
		return cli.BadInput(err)
	}
	defer in.Close()
	slots, err := Replay(ctx, in, frozen, parameters)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted after %d equal slots", slots)
	}
	if err != nil {
		return fmt.Errorf("after %d equal slots: %w", slots, err)
	}
	return call.Result(*asJSON, map[string]int{"equal_slots": slots}, "%d slots are decided as they were in flight", slots)
}
