package train

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
	"prefdt/offline/corpus"
	"prefdt/offline/nn"
	"prefdt/offline/offlinetest"
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
	run := offlinetest.Must(New(c, source))(t)
	var losses []float64
	for range c.Schedule.Steps {
		line := offlinetest.Must(run.Next())(t)
		losses = append(losses, line.Losses[0])
	}
	if first, last := losses[0], losses[len(losses)-1]; last > 0.8*first {
		t.Errorf("loss %v after %d steps, %v at first", last, c.Schedule.Steps, first)
	}
}

// A state's parameters are read with their configuration; that of another configuration is refused.
func TestReadParams(t *testing.T) {
	c, source := smallRun()
	run, _ := New(c, source)
	path := filepath.Join(t.TempDir(), "state")
	offlinetest.NoError(t, run.Save(path))
	if read, p, err := ReadParams(path); err != nil || read != c || !slices.Equal(p, run.Params.Data) {
		t.Errorf("parameters do not read back: %v", err)
	}
	c.LossWeights.Price++
	other, _ := New(c, source)
	if other.Load(path) == nil {
		t.Error("a state of another configuration was accepted")
	}
}

// The float32 pass on tuned kernels stays beside the float64 reference over a
// short training trajectory.
func TestFloat32FollowsFloat64(t *testing.T) {
	arch := model.Arch{Width: 32, PairWidth: 16, Layers: 2, Heads: 4, Context: 5}
	w32, w64 := nn.NewParams[float32](arch.Tensors()), nn.NewParams[float64](arch.Tensors())
	w32.Init(2)
	g32, g64 := nn.NewParams[float32](arch.Tensors()), nn.NewParams[float64](arch.Tensors())
	n32, n64 := newNetwork(arch, Default().LossWeights, w32, g32), newNetwork(arch, Default().LossWeights, w64, g64)
	r := rand.New(rand.NewPCG(5, 6))
	for step := range 10 {
		ex := randomExample(r, 30)
		for i, x := range w32.Data {
			w64.Data[i] = float64(x)
		}
		clear(g32.Data)
		clear(g64.Data)
		l32, l64 := n32.addGradient(ex, 1), n64.addGradient(ex, 1)
		if d := l32.Loss - l64.Loss; d > 1e-4 || d < -1e-4 {
			t.Fatalf("step %d: loss %v in float32, %v in float64", step, l32.Loss, l64.Loss)
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
		kernel.AddScaled(w32.Data, -1e-3, g32.Data)
	}
}

func BenchmarkEpisode(b *testing.B) {
	arch := Default().Arch
	w, g := nn.NewParams[float32](arch.Tensors()), nn.NewParams[float32](arch.Tensors())
	w.Init(1)
	ex := randomExample(rand.New(rand.NewPCG(1, 1)), 100)
	n := newNetwork(arch, Default().LossWeights, w, g)
	b.ReportAllocs()
	for b.Loop() {
		n.addGradient(ex, 1)
	}
	b.ReportMetric(float64(model.TokensPerSlot*ex.Slots)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
}
