package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"prefdt/configs/cli"
	"prefdt/inference/checkpoint"
	"prefdt/inference/model"
	"prefdt/offline/ort"
)

const usage = `offline replay decides a flight again that a leader recorded (record: FILE in
its configuration), slot by slot, and reports whether every decision and every
objective is the same to the last bit. With -inputs it writes what the network was given and gave, an
object on a line for each slot: see docs/python.md.

  offline replay -record FILE [-checkpoint DIR] [-inputs FILE]

`

// Command is "offline replay".
func Command(ctx context.Context, call *cli.Call) error {
	f := call.Flags
	path := f.String("record", "", "`file` that a leader wrote")
	dir := f.String("checkpoint", checkpoint.DefaultFolder, "`folder` of the policy that decided")
	inputs := f.String("inputs", "", "`file` to write the network's inputs and outputs to, as JSON lines")
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
	in, err := os.Open(*path)
	if err != nil {
		return cli.BadInput(err)
	}
	defer in.Close()
	var onStep func(int, *model.Inputs, *model.Outputs) error
	if *inputs != "" {
		out, err := os.Create(*inputs)
		if err != nil {
			return cli.BadInput(err)
		}
		defer out.Close()
		onStep = stepWriter(out, frozen)
	}
	slots, err := Replay(ctx, in, frozen, onStep)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted after %d equal slots", slots)
	}
	if err != nil {
		return fmt.Errorf("after %d equal slots: %w", slots, err)
	}
	return call.Result(*asJSON, map[string]int{"equal_slots": slots}, "%d slots are decided as they were in flight", slots)
}

// step is a line of -inputs: the tensors that ONNX Runtime is fed for policy.onnx, and what
// the network gave here.
type step struct {
	Slot   int                   `json:"slot"`
	Feeds  map[string]ort.Tensor `json:"feeds"`
	Price  float32               `json:"price"` // the front position that the graph's output "price" is
	MoveXY []float32             `json:"move"`  // by aircraft, in the unit disc
}

func stepWriter(w io.Writer, frozen *checkpoint.Checkpoint) func(slot int, in *model.Inputs, out *model.Outputs) error {
	lines, first := json.NewEncoder(w), true
	return func(slot int, in *model.Inputs, out *model.Outputs) error {
		padded := 0
		if in.NumUsers == 0 {
			padded = 1 // none at all is no input to the graph
		}
		position := slot
		if first {
			position, first = 0, false // the cache is empty
		}
		return lines.Encode(step{slot, ort.Feeds(frozen.Net.Arch, in, position, padded), out.FrontPosition, slices.Clone(out.Move)})
	}
}
