package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"prefdt/configs/cli"
	"prefdt/inference/checkpoint"
	"prefdt/inference/kernel"
	"prefdt/inference/model"
	"prefdt/offline/command"
	"prefdt/offline/export"
	"prefdt/offline/ort"
)

const usage = `offline bench measures what a decision, a rollout, a training step and the
leader cost on this machine, and writes bench.json. With PREFDT_ORT naming a
folder with onnxruntime-node, the step takes turns with ONNX Runtime.

  offline bench                    everything, three minutes
  offline bench -only step,gemm    some of it

Flags:
`

var parts = []string{"gemm", "step", "rollout", "train", "leader"}

// Command is "offline bench".
func Command(ctx context.Context, call *cli.Call) error {
	f, stdout, stderr := call.Flags, call.Stdout, call.Stderr
	dir := f.String("checkpoint", "configs/checkpoint", "`FOLDER` of the checkpoint")
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
	for _, p := range wanted {
		if !slices.Contains(parts, p) {
			return cli.BadInputf("-only has %q, want some of %s", p, strings.Join(parts, ","))
		}
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
	r := &Report{Processor: runtime.GOARCH + " " + level, Cores: runtime.GOMAXPROCS(0), Leader: map[string]LeaderFootprint{}, Missing: map[string]string{}}
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
	if err := command.ReplaceFile(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}); err != nil {
		return err
	}
	if *asJSON {
		return call.PrintJSON(r)
	}
	return r.print(stdout, path)
}

// measurePart fills in one part of the report.
func (r *Report) measurePart(ctx context.Context, part string, ck *checkpoint.Checkpoint, dir, bin, scratch string, slots int) (err error) {
	switch part {
	case "gemm":
		r.GEMM = measureGEMM()
	case "step":
		return r.measureSteps(ck, dir, scratch)
	case "rollout":
		seconds, err := measureRollout(ck)
		if err != nil {
			return err
		}
		ms, err := measureDecision(ck)
		r.RolloutS, r.DecisionP50MS = &seconds, &ms
		return err
	case "train":
		workers := min(2, r.Cores)
		for _, c := range []struct {
			arch                model.Arch
			batch, slots, steps int
		}{{ck.Arch, 16, 100, 8}, {PaperArch, 64, 20, 4}} {
			t, err := measureTrain(c.arch, c.batch, c.slots, workers, c.steps)
			if err != nil {
				return err
			}
			r.TrainingSteps = append(r.TrainingSteps, t)
		}
		r.TrainTokensPerS = &r.TrainingSteps[0].TokensPerS
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

// measureSteps measures the step at both sizes.
func (r *Report) measureSteps(ck *checkpoint.Checkpoint, dir, scratch string) error {
	var peer *ort.Runtime
	if ort.Folder() == "" {
		r.Missing["step ort"] = errNoORT.Error()
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
	r.StepScaling = measureStepScaling(ck.Net)
	parameters := randomParameters(PaperArch)
	net, err := model.NewNet(PaperArch, parameters)
	if err != nil {
		return err
	}
	r.PaperStep, err = measureStep(net, export.EncodeGraph(PaperArch.Graph(), parameters), peer, scratch)
	return err
}

// print writes the report as tables.
func (r *Report) print(w io.Writer, path string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(format string, a ...any) { fmt.Fprintf(t, format+"\n", a...) }
	row("%s, %d cores", r.Processor, r.Cores)
	for i, g := range r.GEMM {
		if i == 0 {
			row("\nproduct, m x k x n\tcores\tGFLOP/s\tgonum\tratio")
		}
		row("%s %dx%dx%d\t%d\t%.0f\t%.1f\t%.1f", g.Form, g.M, g.K, g.N, g.Cores, g.GFLOPS, g.GonumGFLOPS, g.Ratio)
	}
	if r.Step != nil {
		row("\nstep, ms\tp50\tp95\tp99\tweights GB/s\tORT p50\tp95\tp99\tcall\tratio\twindow in ORT\tratio")
		for _, s := range []*Step{r.Step, r.PaperStep} {
			row("%.2f M parameters\t%.4f\t%.4f\t%.4f\t%.0f\t%s\t%s\t%s\t%s\t%s\t%s\t%s", float64(s.Parameters)/1e6, s.P50MS, s.P95MS, s.P99MS, s.WeightsGBPerS,
				formatOptional(s.ORTP50MS), formatOptional(s.ORTP95MS), formatOptional(s.ORTP99MS), formatOptional(s.ORTCallMS), formatOptional(s.Ratio), formatOptional(s.ORTWindowMS), formatOptional(s.WindowRatio))
		}
	}
	for i, c := range r.StepScaling {
		if i == 0 {
			row("\nusers\tslot\tstep, ms")
		}
		row("%d\t%d\t%.4f", c.Users, c.Slot, c.P50MS)
	}
	if r.RolloutS != nil {
		row("\none decision, ms (p50)\t%s", formatOptional(r.DecisionP50MS))
		row("rollout of 100 slots, s\t%s", formatOptional(r.RolloutS))
	}
	for i, x := range r.TrainingSteps {
		if i == 0 {
			row("\ntraining step\tbatch x slots\tseconds\ttokens/s\tGoMLX's, times")
		}
		row("width %d\t%dx%d\t%.3f\t%.0f\t%s", x.Arch.Width, x.Batch, x.Slots, x.StepS, x.TokensPerS, formatOptional(x.GoMLXRatio))
	}
	if len(r.Leader) > 0 {
		row("\nleader\tbinary MB\tresident MB\tqemu beside it\tslots")
		for _, a := range leaderBuilds("") {
			l := r.Leader[a.arch]
			row("%s\t%s\t%s\t%s\t%d", a.arch, formatMegabytes(l.BinaryBytes), formatMegabytes(l.ResidentBytes), formatMegabytes(l.QemuBytes), l.Slots)
		}
	}
	for name, why := range r.Missing {
		row("\nmissing: %s: %s", name, why)
	}
	row("\n%s", path)
	return t.Flush()
}

func formatOptional(x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.4g", *x)
}

func formatMegabytes(n *int64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(*n)/1e6)
}
