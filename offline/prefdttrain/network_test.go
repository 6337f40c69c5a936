package prefdttrain

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"prefdt/inference/model"
	"prefdt/inference/prefdt"
	"prefdt/offline/nn"
	"prefdt/offline/nn/nntest"
)

func smallForm() prefdt.Form {
	f := prefdt.Published(8)
	f.Arch = model.Arch{Width: 8, PairWidth: 6, Layers: 2, Heads: 2, Context: 5}
	f.Slots = 12
	return f
}

// randomBatch draws windows of some lengths, whose user sets change size, none included.
func randomBatch(r *rand.Rand, f *prefdt.Form, windows []int) *batch {
	b := &batch{windows: windows}
	for _, slots := range windows {
		first := r.IntN(f.Slots - slots + 1)
		omega := r.Float32()
		for t := range slots {
			n := r.IntN(4)
			b.slotNumber, b.userCounts = append(b.slotNumber, first+t), append(b.userCounts, n)
			b.aircraft = append(b.aircraft, nntest.Row(r, f.Aircraft*prefdt.AircraftFeatures)...)
			b.users = append(b.users, nntest.Row(r, n*f.UserWidth())...)
			b.returns, b.omega = append(b.returns, nntest.Row(r, prefdt.ReturnFeatures)...), append(b.omega, omega)
			b.action = append(b.action, nntest.Row(r, f.Aircraft*prefdt.ActionFeatures)...)
			b.motion = append(b.motion, nntest.Row(r, 2*f.Aircraft)...)
			for range n {
				b.server, b.offload = append(b.server, r.IntN(f.Aircraft+1)), append(b.offload, 2*r.Float32()-1)
			}
		}
	}
	return b
}

// Every tensor's gradient agrees with central differences in float64.
func TestGradients(t *testing.T) {
	f := smallForm()
	w, g := nntest.Random[float64](f.Tensors(), 1), nn.NewParams[float64](f.Tensors())
	n := newNetwork(&f, w, g)
	b := randomBatch(rand.New(rand.NewPCG(3, 4)), &f, []int{5, 1, 3})
	loss := func() float64 {
		n.forward(b)
		return n.loss(b, len(b.slotNumber), len(b.server)).Total()
	}
	loss()
	n.tape.Backward()
	for k, scale := range nntest.Gradients(t, w, g, 1e-9, loss) {
		if scale < 1e-7 {
			t.Errorf("%s: gradient %.2g, the check would be empty", w.Tensors[k].Name, scale)
		}
	}
}

// The float32 pass on tuned kernels is that of the float64 reference.
func TestFloat32FollowsFloat64(t *testing.T) {
	f := prefdt.Published(32)
	w32 := nntest.Random[float32](f.Tensors(), 2)
	w64, g32, g64 := nn.NewParams[float64](f.Tensors()), nn.NewParams[float32](f.Tensors()), nn.NewParams[float64](f.Tensors())
	for i, x := range w32.Data {
		w64.Data[i] = float64(x)
	}
	b := randomBatch(rand.New(rand.NewPCG(5, 6)), &f, []int{20, 7, 20, 1})
	n32, n64 := newNetwork(&f, w32, g32), newNetwork(&f, w64, g64)
	n32.forward(b)
	n64.forward(b)
	a, c := n32.loss(b, len(b.slotNumber), len(b.server)), n64.loss(b, len(b.slotNumber), len(b.server))
	if math.Abs(a.Total()-c.Total()) > 1e-3*c.Total() {
		t.Errorf("loss %v in float32, %v in float64", a, c)
	}
	n32.tape.Backward()
	n64.tape.Backward()
	var off, norm float64
	for i, x := range g64.Data {
		off += math.Pow(x-float64(g32.Data[i]), 2)
		norm += x * x
	}
	if off > 1e-6*norm {
		t.Errorf("the float32 gradient is off by %.2g of its square", off/norm)
	}
}

// A slot's answer depends on no later slot, on no other window and not on its own action.
func TestCausal(t *testing.T) {
	f := smallForm()
	n := newNetwork(&f, nntest.Random[float32](f.Tensors(), 2), nil)
	r := rand.New(rand.NewPCG(5, 6))
	b := randomBatch(r, &f, []int{3, 5, 2})
	n.forward(b)
	const slot = 3 + 2 // the third of the second window
	motion := slices.Clone(n.motion.Value.Row(slot))
	keep := func(x []float32, first, end, width int) []float32 { // all else is drawn anew
		y := nntest.Row(r, len(x))
		copy(y[first*width:end*width], x[first*width:end*width])
		return y
	}
	firstUser, endUser := 0, 0
	for s, count := range b.userCounts[:slot+1] {
		if endUser += count; s < 3 {
			firstUser += count
		}
	}
	changed, m := *b, f.Aircraft
	changed.aircraft = keep(b.aircraft, 3, slot+1, m*prefdt.AircraftFeatures)
	changed.users = keep(b.users, firstUser, endUser, f.UserWidth())
	changed.returns, changed.omega = keep(b.returns, 3, slot+1, prefdt.ReturnFeatures), keep(b.omega, 3, slot+1, 1)
	changed.action = keep(b.action, 3, slot, m*prefdt.ActionFeatures)
	n.forward(&changed)
	for i, x := range n.motion.Value.Row(slot) {
		if math.Abs(float64(x-motion[i])) > 1e-5 {
			t.Errorf("flight control %d is %v, with other slots elsewhere %v", i, motion[i], x)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	f := prefdt.Published(128)
	w, g := nntest.Random[float32](f.Tensors(), 2), nn.NewParams[float32](f.Tensors())
	n := newNetwork(&f, w, g)
	for _, count := range []int{4, 8, 16, 32} {
		windows := slices.Repeat([]int{20, 20, 20, 12}, count/4)
		r := rand.New(rand.NewPCG(5, 6))
		in := randomBatch(r, &f, windows)
		b.Run(map[int]string{4: "4", 8: "8", 16: "16", 32: "32"}[count], func(b *testing.B) {
			for b.Loop() {
				n.forward(in)
				n.loss(in, len(in.slotNumber), len(in.server))
				n.tape.Backward()
			}
			b.ReportMetric(float64(3*len(in.slotNumber))*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}
