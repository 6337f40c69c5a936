package train

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prefdt/inference/model"
	"prefdt/offline/corpus"
)

func smallRun() (Config, Source) {
	c := Default()
	c.Arch = model.Arch{Width: 16, PairWidth: 8, Layers: 2, Heads: 2, Context: 4}
	c.Batch = 4
	c.Schedule.Steps, c.Schedule.WarmUpSteps = 40, 5
	return c, func(_, i int, ex *corpus.Example) error {
		*ex = *randomExample(rand.New(rand.NewPCG(uint64(i%8), 9)), 12) // eight flights, again and again
		return nil
	}
}

func TestLossFalls(t *testing.T) {
	c, source := smallRun()
	run, err := New(c, source)
	if err != nil {
		t.Fatal(err)
	}
	var first, last float64
	for i := range c.Schedule.Steps {
		line, err := run.Next()
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = line.Losses[0]
		}
		last = line.Losses[0]
	}
	if last > 0.8*first {
		t.Errorf("loss %v after %d steps, %v at first", last, c.Schedule.Steps, first)
	}
}

// A run stopped and resumed ends with the parameters of an uninterrupted one.
func TestResumeEqualsUninterrupted(t *testing.T) {
	c, source := smallRun()
	whole, _ := New(c, source)
	for range 12 {
		if _, err := whole.Next(); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "state")
	a, _ := New(c, source)
	for range 7 {
		a.Next()
	}
	if err := a.Save(path); err != nil {
		t.Fatal(err)
	}
	b, _ := New(c, source)
	if err := b.Load(path); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		b.Next()
	}
	if b.Step != whole.Step || !slices.Equal(b.Params.Data, whole.Params.Data) {
		t.Error("the resumed run differs")
	}
	p, err := ReadParams(path)
	if err != nil || !slices.Equal(p.Data, a.Params.Data) {
		t.Errorf("parameters do not read back: %v", err)
	}
	c.Seed++
	other, _ := New(c, source)
	if other.Load(path) == nil {
		t.Error("a state of another configuration was accepted")
	}
	a.Params.Data[3] = float32(math.NaN())
	if err := a.Save(path); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadParams(path); err == nil || !strings.Contains(err.Error(), "is damaged (number 3 is NaN)") {
		t.Errorf("a state with a parameter that is no number gives %v", err)
	}
}

// The float32 pass on tuned kernels stays beside the float64 reference over a
// short training trajectory.
func TestFloat32FollowsFloat64(t *testing.T) {
	arch := model.Arch{Width: 32, PairWidth: 16, Layers: 2, Heads: 4, Context: 5}
	w32, w64 := NewParams[float32](arch, arch.Tensors()), NewParams[float64](arch, arch.Tensors())
	w32.Init(2)
	g32, g64 := NewParams[float32](arch, arch.Tensors()), NewParams[float64](arch, arch.Tensors())
	n32, n64 := newNetwork(Default().LossWeights, w32, g32), newNetwork(Default().LossWeights, w64, g64)
	r := rand.New(rand.NewPCG(5, 6))
	opt := NewAdam(arch.Tensors())
	s := Default().Schedule
	for step := range 10 {
		ex := randomExample(r, 30)
		for i, x := range w32.Data {
			w64.Data[i] = float64(x)
		}
		clear(g32.Data)
		clear(g64.Data)
		l32, _ := n32.AddGradient(0, ex, 1)
		l64, _ := n64.AddGradient(0, ex, 1)
		if d := l32[0] - l64[0]; d > 1e-4 || d < -1e-4 {
			t.Fatalf("step %d: loss %v in float32, %v in float64", step, l32[0], l64[0])
		}
		var diff, norm float64
		for i := range g64.Data {
			d := float64(g32.Data[i]) - g64.Data[i]
			diff += d * d
			norm += g64.Data[i] * g64.Data[i]
		}
		if diff > 1e-8*norm {
			t.Fatalf("step %d: float32 gradient is off by %.2g of its square", step, diff/norm)
		}
		opt.Step(s.step(step), w32.Data, g32.Data)
	}
}

func BenchmarkEpisode(b *testing.B) {
	arch := Default().Arch
	w, g := NewParams[float32](arch, arch.Tensors()), NewParams[float32](arch, arch.Tensors())
	w.Init(1)
	ex := randomExample(rand.New(rand.NewPCG(1, 1)), 100)
	n := newNetwork(Default().LossWeights, w, g)
	b.ReportAllocs()
	for b.Loop() {
		n.AddGradient(0, ex, 1)
	}
	b.ReportMetric(float64(model.TokensPerSlot*ex.Slots)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
}
