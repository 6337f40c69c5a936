package export

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"prefdt/inference/checkpoint"
	"prefdt/inference/model"
)

// runtime is ort.js, running.
type runtime struct {
	in  io.WriteCloser
	out *bufio.Reader
}

type ortTensor struct {
	Dims []int     `json:"dims"`
	Data []float32 `json:"data"`
}

type ortRequest struct {
	Model string               `json:"model"`
	Feeds map[string]ortTensor `json:"feeds"`
	Carry map[string]string    `json:"carry"`
}

type ortAnswer struct {
	Outputs map[string]ortTensor `json:"outputs"`
}

// newRuntime starts ONNX Runtime, or skips the test where it is not installed.
func newRuntime(t *testing.T) *runtime {
	if os.Getenv("PREFDT_ORT") == "" {
		t.Skip("PREFDT_ORT names no folder with onnxruntime-node (npm install --ignore-scripts onnxruntime-node@1.30.0)")
	}
	cmd := exec.Command("node", "ort.js")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return &runtime{in, bufio.NewReader(out)}
}

func (r *runtime) run(t *testing.T, request *ortRequest) map[string]ortTensor {
	t.Helper()
	if err := json.NewEncoder(r.in).Encode(request); err != nil {
		t.Fatal(err)
	}
	line, err := r.out.ReadBytes('\n')
	if err != nil {
		t.Fatal("ONNX Runtime ended: ", err)
	}
	var answer ortAnswer
	if err := json.Unmarshal(line, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Outputs
}

// feeds lays a step's inputs out for the graph, with so many padded rows of
// users after the real ones.
func feeds(a model.Arch, in *model.Inputs, slot, padded int) map[string]ortTensor {
	mask := make([]float32, in.U+padded)
	for u := range in.U {
		mask[u] = 1
	}
	var pairs []float32
	for m := range in.M {
		row := in.U * model.PairFeatures
		pairs = append(pairs, in.Pairs[m*row:(m+1)*row]...)
		for range padded * model.PairFeatures {
			pairs = append(pairs, 3) // must not matter
		}
	}
	past := make([]float32, a.Past())
	for i := range min(slot*model.TokensPerSlot, len(past)) {
		past[len(past)-1-i] = 1
	}
	f := map[string]ortTensor{
		"aircraft":  {[]int{in.M, model.AircraftFeatures}, in.Aircraft},
		"pairs":     {[]int{in.M, len(mask), model.PairFeatures}, pairs},
		"user_mask": {[]int{len(mask)}, mask},
		"state":     {[]int{1, model.StateFeatures}, in.State},
		"return":    {[]int{1, model.ReturnFeatures}, in.Return},
		"action":    {[]int{1, model.ActionFeatures}, in.Action},
		"past_mask": {[]int{len(past)}, past},
	}
	if slot == 0 {
		dims := []int{a.Heads, a.Past(), a.Width / a.Heads}
		for l := range a.Layers {
			zeros := make([]float32, a.Past()*a.Width)
			f[model.PastKey(l)], f[model.PastValue(l)] = ortTensor{dims, zeros}, ortTensor{dims, zeros}
		}
	}
	return f
}

func carry(a model.Arch) map[string]string {
	c := map[string]string{}
	for l := range a.Layers {
		c[model.PresentKey(l)], c[model.PresentValue(l)] = model.PastKey(l), model.PastValue(l)
	}
	return c
}

// TestParityWithONNXRuntime flies 60 slots with the graph in ONNX Runtime, its
// cache fed back, and with the streaming step.
func TestParityWithONNXRuntime(t *testing.T) {
	ort := newRuntime(t)
	const slots, tolerance = 60, 1e-4
	for i, a := range []model.Arch{
		small,
		{Width: 24, PairWidth: 12, Layers: 1, Heads: 3, Context: 1},
		{Width: 128, PairWidth: 64, Layers: 3, Heads: 4, Context: 20},
	} {
		dir := t.TempDir()
		if err := Write(dir, manifest(a), randomParameters(a, uint64(i))); err != nil {
			t.Fatal(err)
		}
		c, err := checkpoint.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
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
						theirs := ort.run(t, &ortRequest{filepath.Join(dir, checkpoint.GraphFile), feeds(a, in, slot, padded), carry(a)})
						var choice []float32
						for i, row := 0, (u+padded)*model.Choices; i < m; i++ {
							choice = append(choice, theirs["choice"].Data[i*row:i*row+u*model.Choices]...)
						}
						for _, pair := range [][2][]float32{
							{out.Move, theirs["move"].Data}, {out.Choice, choice}, {{out.Price}, theirs["price"].Data},
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

// TestONNXChecker runs the standard's own checker.
func TestONNXChecker(t *testing.T) {
	const python = "/usr/bin/python3" // the one Debian's python3-onnx belongs to
	if err := exec.Command(python, "-c", "import onnx").Run(); err != nil {
		t.Skip("python3-onnx is not installed")
	}
	dir := t.TempDir()
	if err := Write(dir, manifest(small), randomParameters(small, 1)); err != nil {
		t.Fatal(err)
	}
	script := "import onnx, sys; m = onnx.load(sys.argv[1]); onnx.checker.check_model(m, full_check=True); print(len(m.graph.node))"
	out, err := exec.Command(python, "-c", script, filepath.Join(dir, checkpoint.GraphFile)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("%s nodes", out[:len(out)-1])
}
