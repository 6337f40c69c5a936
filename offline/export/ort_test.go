package export

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"

	"prefdt/inference/belief/learned"
	"prefdt/inference/checkpoint"
	"prefdt/inference/model"
	"prefdt/offline/nn/nntest"
	"prefdt/offline/offlinetest"
	"prefdt/offline/ort"
)

// newRuntime starts ONNX Runtime, or skips the test where it is not installed.
func newRuntime(t *testing.T) *ort.Runtime {
	if ort.Folder() == "" {
		t.Skip("PREFDT_ORT names no folder with onnxruntime-node (npm install --ignore-scripts onnxruntime-node@1.30.0)")
	}
	r := offlinetest.Must(ort.Start(ort.Folder()))(t)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// TestParityWithONNXRuntime flies 60 slots with the graph in ONNX Runtime, its
// cache fed back, and with the streaming step.
func TestParityWithONNXRuntime(t *testing.T) {
	runtime := newRuntime(t)
	const slots, tolerance = 60, 1e-4
	for i, a := range []model.Arch{
		smallArch,
		{Width: 24, PairWidth: 12, Layers: 1, Heads: 3, Context: 1},
		{Width: 128, PairWidth: 64, Layers: 3, Heads: 4, Context: 20},
	} {
		dir := t.TempDir()
		offlinetest.NoError(t, Write(dir, testManifest(a), randomParameters(a, uint64(i)), nil))
		c := offlinetest.Must(checkpoint.Load(dir))(t)
		for _, m := range []int{1, 2, 5} {
			for _, u := range []int{0, 1, 6, 20} {
				t.Run(fmt.Sprintf("width %d, %d aircraft, %d users", a.Width, m, u), func(t *testing.T) {
					padded := 0
					if u == 0 || u == 6 {
						padded = 1 // none at all is no input to the graph
					}
					r := rand.New(rand.NewPCG(uint64(m), uint64(u)))
					cache := c.Net.NewCache()
					var out model.Outputs
					worst := 0.0
					for slot := range slots {
						in := randomInputs(r, m, u)
						c.Net.Step(in, cache, &out)
						response := offlinetest.Must(runtime.Run(&ort.Request{Model: filepath.Join(dir, checkpoint.GraphFile),
							Feeds: ort.Feeds(a, in, slot, padded), Carry: ort.CarryCache(a)}))(t)
						reference := response.Outputs
						var choice []float32
						for i, row := 0, (u+padded)*model.ChoiceOutputs; i < m; i++ {
							choice = append(choice, reference["choice"].Data[i*row:i*row+u*model.ChoiceOutputs]...)
						}
						for _, pair := range [][2][]float32{
							{out.Move, reference["move"].Data}, {out.Choice, choice}, {{out.FrontPosition}, reference["price"].Data},
						} {
							if len(pair[0]) != len(pair[1]) {
								t.Fatalf("slot %d: %d outputs, ONNX Runtime has %d", slot, len(pair[0]), len(pair[1]))
							}
							for i, x := range pair[0] {
								if d := math.Abs(float64(x - pair[1][i])); !(d < tolerance) {
									t.Fatalf("slot %d: output %v, ONNX Runtime %v", slot, x, pair[1][i])
								} else {
									worst = max(worst, d)
								}
							}
						}
					}
					t.Logf("largest difference %.2g", worst)
				})
			}
		}
	}
}

// TestEstimatorParityWithONNXRuntime runs an estimator's graph in ONNX Runtime, padded,
// and its networks, with anything from no observation to twenty of each query.
func TestEstimatorParityWithONNXRuntime(t *testing.T) {
	runtime := newRuntime(t)
	const tolerance = 1e-4
	dir := t.TempDir()
	offlinetest.NoError(t, Write(dir, testManifest(smallArch), randomParameters(smallArch, 1), testBeliefs(4)))
	c := offlinetest.Must(checkpoint.Load(dir))(t)
	nets := learned.NewNetworks(c.Beliefs.Data)
	r := rand.New(rand.NewPCG(9, 9))
	for round := range 5 {
		feeds, want := map[string]ort.Tensor{}, map[string][]float32{}
		for name, e := range map[string]*learned.Encoder[float32]{"link": &nets.Links, "phone": &nets.Phones} {
			n, most := 3+r.IntN(20), 1+r.IntN(20)
			b := learned.Batch{Queries: nntest.Row(r, n*e.QueryFeatures)}
			var rows, mask []float32
			for range n {
				count := r.IntN(most + 1)
				own := nntest.Row(r, count*e.RowFeatures)
				b.Rows, b.Counts = append(b.Rows, own...), append(b.Counts, count)
				rows = append(append(rows, own...), nntest.Row(r, (most-count)*e.RowFeatures)...) // padding must not change an output
				for k := range most {
					present := float32(0)
					if k < count {
						present = 1
					}
					mask = append(mask, present)
				}
			}
			feeds[name+".queries"] = ort.Tensor{Dims: []int{n, e.QueryFeatures}, Data: b.Queries}
			feeds[name+".rows"] = ort.Tensor{Dims: []int{n, most, e.RowFeatures}, Data: rows}
			feeds[name+".mask"] = ort.Tensor{Dims: []int{n, most}, Data: mask}
			want[name+".outputs"] = e.Forward(&b).Data
		}
		response := offlinetest.Must(runtime.Run(&ort.Request{Model: filepath.Join(dir, checkpoint.EstimatorFile), Feeds: feeds}))(t)
		for name, x := range want {
			got, worst := response.Outputs[name].Data, 0.0
			if len(got) != len(x) {
				t.Fatalf("%s: %d outputs, ONNX Runtime has %d", name, len(x), len(got))
			}
			for i := range x {
				worst = max(worst, math.Abs(float64(x[i]-got[i])))
			}
			if !(worst < tolerance) {
				t.Errorf("round %d, %s: off by %v", round, name, worst)
			}
			t.Logf("%s: largest difference %.2g", name, worst)
		}
	}
}

// TestONNXChecker runs the standard's own checker.
func TestONNXChecker(t *testing.T) {
	const python = "/usr/bin/python3" // the one Debian's python3-onnx belongs to
	if err := exec.Command(python, "-c", "import onnx").Run(); err != nil {
		t.Skip("python3-onnx is not installed")
	}
	dir := t.TempDir()
	offlinetest.NoError(t, Write(dir, testManifest(smallArch), randomParameters(smallArch, 1), testBeliefs(1)))
	script := "import onnx, sys; m = onnx.load(sys.argv[1]); onnx.checker.check_model(m, full_check=True); print(len(m.graph.node))"
	for _, name := range []string{checkpoint.GraphFile, checkpoint.EstimatorFile} {
		out, err := exec.Command(python, "-c", script, filepath.Join(dir, name)).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		t.Logf("%s: %s nodes", name, out[:len(out)-1])
	}
}
