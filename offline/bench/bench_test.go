package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"

	"prefdt/configs/cli"
	"prefdt/inference/model"
	"prefdt/offline/export"
	"prefdt/offline/offlinetest"
	"prefdt/offline/ort"
)

// ONNX Runtime's outputs equal the network's: the step's graph and the window's, at
// a size that is quick.
func TestPeersComputeTheSame(t *testing.T) {
	if ort.Folder() == "" {
		t.Skip("PREFDT_ORT names no folder with onnxruntime-node (npm install --ignore-scripts onnxruntime-node@1.30.0)")
	}
	r := offlinetest.Must(ort.Start(ort.Folder()))(t)
	defer r.Close()
	a := model.Arch{Width: 32, PairWidth: 16, Layers: 2, Heads: 4, Context: 5}
	parameters := randomParameters(a)
	net := offlinetest.Must(model.NewNet(a, parameters))(t)
	s := offlinetest.Must(measureStep(net, export.EncodeGraph(a.Graph(), parameters), r, t.TempDir()))(t)
	if s.ORTDifference == nil || !(*s.ORTDifference < 1e-4) || *s.ORTCallMS <= 0 {
		t.Errorf("got %+v", s)
	}
}

func TestReport(t *testing.T) {
	t.Setenv("PREFDT_ORT", "")
	dir := t.TempDir()
	var said strings.Builder
	args := []string{"-checkpoint", "../../configs/checkpoint", "-out", dir, "-bin", dir, "-only", "step,rollout,leader"}
	offlinetest.NoError(t, Command(t.Context(), cli.NewCall("offline bench", args, &said, io.Discard)))
	raw := offlinetest.Must(os.ReadFile(filepath.Join(dir, "bench.json")))(t)
	var got struct {
		Step          map[string]any
		DecisionP50MS float64 `json:"decision_p50_ms"`
		RolloutS      float64 `json:"rollout_s"`
		Leader        map[string]map[string]any
		Missing       map[string]string
	}
	offlinetest.NoError(t, json.Unmarshal(raw, &got))
	if p50, _ := got.Step["p50_ms"].(float64); !(p50 > 0) {
		t.Errorf("step %v", got.Step)
	}
	if !(got.DecisionP50MS > 0 && got.RolloutS*1e3 > got.DecisionP50MS) {
		t.Errorf("a flight of %v s, a decision of %v ms", got.RolloutS, got.DecisionP50MS)
	}
	if ratio, there := got.Step["ratio"]; !there || ratio != nil || got.Missing["step ort"] == "" {
		t.Errorf("without ONNX Runtime the ratio is %v, %v missing", ratio, got.Missing)
	}
	for _, a := range []string{"amd64", "arm64", "armv7"} {
		if l := got.Leader[a]; l == nil || l["binary_bytes"] != nil || got.Missing["leader "+a] == "" {
			t.Errorf("without programs the leader on %s is %v", a, l)
		}
	}
}

// The module answers 8 bytes for 1024.
func TestSpinning(t *testing.T) {
	runtime := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter())
	defer runtime.Close(t.Context())
	module := offlinetest.Must(runtime.Instantiate(t.Context(), spinning))(t)
	n := offlinetest.Must(module.ExportedFunction("run").Call(t.Context(), 1024, 2*taskUnit))(t)
	sum, _ := module.Memory().ReadUint32Le(1024)
	want := uint32(0)
	for range spins * 2 * taskUnit {
		want = want*1664525 + 1013904223
	}
	if n[0] != 2*taskOutput || sum != want {
		t.Errorf("%d bytes, %d, want %d and %d", n[0], sum, 2*taskOutput, want)
	}
}

var shippedCheckpoint = offlinetest.Shipped

func TestQuantile(t *testing.T) {
	if q := quantile([]float64{3, 1, 2}, 0.5); q != 2 {
		t.Errorf("the median of 1, 2, 3 is %v", q)
	}
}

// A decision allocates nothing once it has seen as many users, and a table has all sizes.
func TestMeasureScale(t *testing.T) {
	ck := shippedCheckpoint(t)
	all, err := measureScale(ck, 100)
	if err != nil || len(all) != 18 {
		t.Fatalf("%d sizes, %v", len(all), err)
	}
	for _, x := range all {
		if !(x.P50MS > 0) || x.Allocs > 0 {
			t.Errorf("%+v", x)
		}
	}
}

// A training step over random flights runs, at a size that is quick.
func TestTrainer(t *testing.T) {
	trainer := offlinetest.Must(newTrainer(model.Arch{Width: 16, PairWidth: 8, Layers: 1, Heads: 2, Context: 4}, 3, 10, 2))(t)
	if _, err := trainer.Next(); err != nil {
		t.Error(err)
	}
}

// BenchmarkStep times the shipped network's step at several numbers of users and
// slots: its cost grows with the users and not with the slot.
func BenchmarkStep(b *testing.B) {
	ck := shippedCheckpoint(b)
	for _, c := range []struct{ users, slot int }{{6, 30}, {6, 3000}, {12, 30}, {25, 30}, {50, 30}, {100, 30}} {
		b.Run(fmt.Sprintf("users=%d/slot=%d", c.users, c.slot), func(b *testing.B) {
			in := randomInputs(rand.New(rand.NewPCG(7, 8)), benchAircraft, c.users)
			cache := ck.Net.NewCache()
			var out model.Outputs
			for range c.slot {
				ck.Net.Step(in, cache, &out)
			}
			for b.Loop() {
				ck.Net.Step(in, cache, &out)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	const smaps = `00010000-007d1000 r--p 00000000 08:01 12 /bin/arm64/leader
Rss:                5504 kB
Pss:                5504 kB
55555b442000-55555bf5a000 rw-p 00000000 00:00 0 [heap]
Rss:               11228 kB
7f5c0a200000-7f5c121ff000 rwxp 00000000 00:00 0
Rss:               20480 kB
7f5c12e28000-7f5c132a7000 r-xp 00000000 08:01 13 /usr/bin/qemu-aarch64-static
Rss:                2528 kB
26f68f400000-26f690800000 rw-p 00000000 00:00 0
Rss:               10172 kB
`
	if rss, emulator := sumResident(smaps, "qemu-aarch64-static"); rss != (5504+10172)<<10 || emulator != (11228+20480+2528)<<10 {
		t.Errorf("resident %d, qemu %d", rss>>10, emulator>>10)
	}
	if rss, emulator := sumResident(smaps, ""); rss != (5504+11228+20480+2528+10172)<<10 || emulator != 0 {
		t.Errorf("without qemu: resident %d, qemu %d", rss>>10, emulator>>10)
	}
}
