package export

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prefdt/inference/belief/learned"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/kernel"
	"prefdt/inference/model"
	"prefdt/inference/physics"
	"prefdt/inference/token"
	"prefdt/offline/nn/nntest"
	"prefdt/offline/offlinetest"
)

var smallArch = model.Arch{Width: 16, PairWidth: 8, Layers: 2, Heads: 2, Context: 4}

func testManifest(a model.Arch) checkpoint.Manifest {
	return checkpoint.Manifest{
		Arch: a, Statistics: statistics(), Physics: physics.DefaultConstants(),
		GoalConstants: goal.Constants{
			EtaDelayS: 633, EtaEnergyJ: 11.6e3, Slots: 100, AircraftCount: 2,
			Conditioner: goal.Conditioner{Omegas: []float64{0, 0.5, 1}, DelayS: []float64{90, 200, 700},
				EnergyJ: []float64{39e3, 29e3, 27e3}},
			SettingMap: goal.SettingMap{Omegas: []float64{0, 0.4, 1}},
		},
		PriceCurve: checkpoint.PriceCurve{FrontPositions: []float64{0, 0.01, 0.5, 1}, PricesSPerJ: []float64{0, 2e-5, 0.01, 2.7}},
		OmegaBand:  [2]float64{0.01, 0.99},
		Training:   map[string]float64{"loss": 0.25}, Evaluation: map[string]float64{"hypervolume": 103.5e6},
		Seeds: map[string]int64{"train_first": 0, "train_last": 99999},
	}
}

// statistics are those of users with tasks of 1 Mbit and 1 s.
func statistics() token.Statistics {
	s, l := token.IdentityStatistics(), token.Features()
	for _, name := range []string{"bits", "cycles per bit", "deadline", "T_loc"} {
		s.Pair.Mean[slices.Index(l.Pair, name)] = 1
	}
	s.State.Mean[slices.Index(l.State, "users")] = 1
	return s
}

// testBeliefs returns parameters of an estimator that make every observation count.
func testBeliefs(seed uint64) *learned.Parameters {
	r := rand.New(rand.NewPCG(seed, 2))
	p := &learned.Parameters{Window: 20}
	for range learned.ParameterCount() {
		p.Data = append(p.Data, float32(0.3*r.NormFloat64()))
	}
	return p
}

// randomParameters keeps activations of order one through any depth.
func randomParameters(a model.Arch, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	var p []float32
	for _, t := range a.Tensors() {
		for range t.Size() {
			x := r.NormFloat64()
			switch {
			case t.IsMatrix():
				x /= math.Sqrt(float64(t.Rows))
			case strings.HasSuffix(t.Name, "g"): // gains of norms
				x = 1 + 0.2*x
			default:
				x *= 0.2
			}
			p = append(p, float32(x))
		}
	}
	return p
}

func randomInputs(r *rand.Rand, m, u int) *model.Inputs {
	return &model.Inputs{
		NumAircraft: m, NumUsers: u, Aircraft: nntest.Row(r, m*model.AircraftFeatures), Pairs: nntest.Row(r, m*u*model.PairFeatures),
		State: nntest.Row(r, model.StateFeatures), Return: nntest.Row(r, model.ReturnFeatures), Action: nntest.Row(r, model.ActionFeatures),
	}
}

func TestWhatIsWrittenIsLoaded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	m, p := testManifest(smallArch), randomParameters(smallArch, 1)
	offlinetest.NoError(t, Write(dir, m, p, nil))
	c := offlinetest.Must(checkpoint.Load(dir))(t)
	want := offlinetest.Must(model.NewNet(smallArch, p))(t)
	r := rand.New(rand.NewPCG(2, 2))
	a, b := c.Net.NewCache(), want.NewCache()
	var x, y model.Outputs
	for slot := range 10 {
		in := randomInputs(r, 3, 5)
		c.Net.Step(in, a, &x)
		want.Step(in, b, &y)
		if fmt.Sprint(x) != fmt.Sprint(y) {
			t.Fatalf("slot %d: the loaded network differs from the one exported", slot)
		}
	}
	if c.PriceCurve.PriceSPerJ(0.5) != 0.01 || c.Training["loss"] != 0.25 || c.Seeds["train_last"] != 99999 {
		t.Errorf("manifest read back as %+v", c.Manifest)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Errorf("folder holds %v, %v; want the two files alone", files, err)
	}
}

// An estimator that is loaded is the one exported, but for rounding; another export of the same has the
// same bytes, and one without it leaves none behind.
func TestEstimatorIsLoaded(t *testing.T) {
	dir, p := t.TempDir(), testBeliefs(1)
	offlinetest.NoError(t, Write(dir, testManifest(smallArch), randomParameters(smallArch, 1), p))
	again := map[string][]byte{}
	var err error
	again[checkpoint.ManifestFile], again[checkpoint.GraphFile], again[checkpoint.EstimatorFile], err = Encode(testManifest(smallArch),
		randomParameters(smallArch, 1), testBeliefs(1))
	for name, want := range again {
		if raw, err2 := os.ReadFile(filepath.Join(dir, name)); err != nil || err2 != nil || !bytes.Equal(raw, want) {
			t.Errorf("%s of two exports differs (%v, %v)", name, err, err2)
		}
	}
	c := offlinetest.Must(checkpoint.Load(dir))(t)
	at := 0
	for _, tensor := range learned.Tensors() {
		for range tensor.Size() {
			want := p.Data[at]
			if tensor.IsMatrix() {
				want = kernel.FromFloat16(kernel.ToFloat16(want))
			}
			if got := c.Beliefs.Data[at]; got != want {
				t.Fatalf("%s: parameter %d is %v, want %v", tensor.Name, at, got, want)
			}
			at++
		}
	}
	if c.Beliefs.Window != p.Window {
		t.Errorf("a memory of %d slots, want %d", c.Beliefs.Window, p.Window)
	}
	// One of another layout is replaced.
	path := filepath.Join(dir, checkpoint.ManifestFile)
	manifest := offlinetest.Must(os.ReadFile(path))(t)
	layout := []byte(fmt.Sprintf(`"layout": %d`, learned.Layout))
	offlinetest.NoError(t, os.WriteFile(path, bytes.Replace(manifest, layout, []byte(`"layout": 99`), 1), 0o600))
	if _, err := checkpoint.Load(dir); err == nil {
		t.Error("another layout was loaded")
	}
	offlinetest.NoError(t, WriteEstimator(dir, checkpoint.Estimator{}, testBeliefs(2)))
	if c, err = checkpoint.Load(dir); err != nil || c.Beliefs.Data[0] == p.Data[0] {
		t.Errorf("another estimator was put in: %v", err)
	}
	offlinetest.NoError(t, Write(dir, testManifest(smallArch), randomParameters(smallArch, 1), nil))
	if c, err = checkpoint.Load(dir); err != nil || c.Beliefs != nil {
		t.Errorf("after an export without an estimator: %v, %v", c.Beliefs, err)
	}
}

func TestRefusals(t *testing.T) {
	good := randomParameters(smallArch, 1)
	for _, c := range []struct {
		name, want string
		change     func(m *checkpoint.Manifest, p []float32) []float32
	}{
		{"too few parameters", "parameters, this architecture has", func(_ *checkpoint.Manifest, p []float32) []float32 { return p[1:] }},
		{"a weight that float16 cannot hold", "want a finite number",
			func(_ *checkpoint.Manifest, p []float32) []float32 { p[0] = 1e6; return p }},
		{"a weight that is no number", "want a finite number",
			func(_ *checkpoint.Manifest, p []float32) []float32 { p[5] = float32(math.NaN()); return p }},
		{"an architecture out of range", "multiple of its",
			func(m *checkpoint.Manifest, p []float32) []float32 { m.Arch.Heads = 3; return p }},
		{"a deviation of zero", "positive deviation", func(m *checkpoint.Manifest, p []float32) []float32 {
			m.Statistics.Pair.Std[3] = 0
			return p
		}},
		{"a figure that is no number", "figure", func(m *checkpoint.Manifest, p []float32) []float32 {
			m.Evaluation["hypervolume"] = math.Inf(1)
			return p
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := testManifest(smallArch)
			p := c.change(&m, append([]float32(nil), good...))
			dir := filepath.Join(t.TempDir(), "out")
			err := Write(dir, m, p, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Error("a refused export left something behind")
			}
		})
	}
}

// TestShippedSize holds the graph of the paper's network under 7 MB.
func TestShippedSize(t *testing.T) {
	a := model.Arch{Width: 256, PairWidth: 64, Layers: 3, Heads: 4, Context: 20}
	p := make([]float32, a.Parameters())
	for i := range p {
		p[i] = kernel.FromFloat16(uint16(i % 0x3c00))
	}
	_, graph, _, err := Encode(testManifest(a), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d parameters, %d bytes", a.Parameters(), len(graph))
	if len(graph) > 7e6 {
		t.Errorf("graph of %d bytes, want at most 7 MB", len(graph))
	}
}
