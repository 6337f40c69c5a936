package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"prefdt/configs/cli"
	"prefdt/inference/checkpoint"
	"prefdt/inference/kernel"
	"prefdt/inference/model"
	"prefdt/offline/command"
	"prefdt/offline/export"
	"prefdt/offline/ort"
)

const usage = `offline bench measures what a step, a flight, the leader and tasks cost on
this machine, and writes bench.json. With PREFDT_ORT naming a folder with
onnxruntime-node, the step takes turns with ONNX Runtime.

  offline bench                       everything, five minutes
  offline bench -only step,rollout    some of it

Flags:
`

var parts = []string{"step", "rollout", "scale", "leader", "tasks"}

// Command is "offline bench".
func Command(ctx context.Context, call *cli.Call) error {
	f, stdout, stderr := call.Flags, call.Stdout, call.Stderr
	dir := f.String("checkpoint", checkpoint.DefaultFolder, "`FOLDER` of the checkpoint")
	out := f.String("out", "out/bench", "`FOLDER` for bench.json")
	bin := f.String("bin", "bin", "`FOLDER` with the built programs, and arm64 and armv7 under it")
	only := f.String("only", "", "`PARTS` of "+strings.Join(parts, ",")+" (default all)")
	slots := f.Int("slots", 1000, "slots of the leader's missions")
	asJSON := call.JSONFlag()
	if _, err := call.Parse(usage, 0); err != nil {
		return err
	}
	wanted := parts
	if *only != "" {
		wanted = strings.Split(*only, ",")
	}
	if err := command.CheckNames("-only", wanted, parts); err != nil {
		return cli.BadInput(err)
	}
	if *slots < 1 || *slots > 1e6 {
		return cli.BadInputf("-slots is %d, want 1 to 1000000", *slots)
	}
	ck, err := checkpoint.Load(*dir)
	if err == nil {
		err = command.CheckWritable(*out)
	}
	if err != nil {
		return cli.BadInput(err)
	}
	level, err := kernel.Selected()
	if err != nil {
		return err
	}
	r := &Report{Processor: runtime.GOARCH + " " + level, Cores: runtime.GOMAXPROCS(0), Leader: map[string]LeaderFootprint{},
		Missing: map[string]string{}}
	scratch, err := os.MkdirTemp("", "prefdt-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	for _, p := range wanted {
		if err := ctx.Err(); err != nil {
			return errors.New("interrupted")
		}
		fmt.Fprintf(stderr, "%s ...\n", p)
		if err := r.measurePart(ctx, p, ck, *dir, *bin, scratch, *slots); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	path := filepath.Join(*out, "bench.json")
	if err := command.ReplaceJSON(path, "  ", r); err != nil {
		return err
	}
	if *asJSON {
		return call.PrintJSON(r)
	}
	err = command.PrintText(stdout, reportText, r)
	fmt.Fprintf(stdout, "\n%s\n", path)
	return err
}

func (r *Report) measurePart(ctx context.Context, part string, ck *checkpoint.Checkpoint, dir, bin, scratch string, slots int) (err error) {
	switch part {
	case "step":
		return r.measureSteps(ck, dir, scratch)
	case "rollout":
		flightS, decisionMS, err := measureRollout(ck)
		r.RolloutS, r.DecisionP50MS = &flightS, &decisionMS
		return err
	case "scale":
		r.Scale, err = measureScale(ck, scaleUsers[len(scaleUsers)-1])
		return err
	case "tasks":
		return r.measureTasks(ctx, bin, scratch)
	case "leader":
		for _, t := range leaderBuilds(bin) {
			l, err := measureLeader(ctx, t, bin, scratch, slots)
			if err != nil {
				r.Missing["leader "+t.arch] = err.Error()
			}
			r.Leader[t.arch] = l
		}
	}
	return nil
}

func (r *Report) measureSteps(ck *checkpoint.Checkpoint, dir, scratch string) error {
	var peer *ort.Runtime
	if ort.Folder() == "" {
		r.Missing["step ort"] = "PREFDT_ORT names no folder with onnxruntime-node (npm install --ignore-scripts onnxruntime-node@1.30.0)"
	} else {
		var err error
		if peer, err = ort.Start(ort.Folder()); err != nil {
			return err
		}
		defer peer.Close()
	}
	graph, err := os.ReadFile(filepath.Join(dir, checkpoint.GraphFile))
	if err != nil {
		return err
	}
	if r.Step, err = measureStep(ck.Net, graph, peer, scratch); err != nil {
		return err
	}
	parameters := randomParameters(PaperArch)
	net, err := model.NewNet(PaperArch, parameters)
	if err != nil {
		return err
	}
	r.PaperStep, err = measureStep(net, export.EncodeGraph(PaperArch.Graph(), parameters), peer, scratch)
	return err
}

//go:embed bench.tmpl
var reportText string

// Millions is the number of parameters, in millions.
func (s *Step) Millions() float64 { return float64(s.Parameters) / 1e6 }

// MB is a number of bytes in megabytes, nil of nil.
func (LeaderFootprint) MB(bytes *int64) *float64 {
	if bytes == nil {
		return nil
	}
	return new(float64(*bytes) / 1e6)
}
