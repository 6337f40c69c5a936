package train

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
	"prefdt/offline/corpus"
	"prefdt/offline/nn"
)

// TestTrainingForwardEqualsStreamingStep trains what flies: the forward pass of a
// whole flight against the streaming step with its rolling cache, slot by slot.
func TestTrainingForwardEqualsStreamingStep(t *testing.T) {
	a := model.Arch{Width: 32, PairWidth: 16, Layers: 2, Heads: 4, Context: 5}
	r := rand.New(rand.NewPCG(1, 1))
	p := nn.NewParams[float32](a.Tensors())
	i := 0
	for _, tensor := range a.Tensors() {
		for range tensor.Size() {
			x := float32(r.NormFloat64() / math.Sqrt(float64(tensor.Rows+4)))
			p.Data[i] = kernel.FromFloat16(kernel.ToFloat16(x)) // the step rounds weights to float16
			i++
		}
	}
	net, err := model.NewNet(a, p.Data)
	if err != nil {
		t.Fatal(err)
	}
	random := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return x
	}
	ex := &corpus.Example{Slots: 40}
	var steps []model.Outputs
	cache := net.NewCache()
	for range ex.Slots {
		m, u := 1+r.IntN(4), r.IntN(6)
		in := model.Inputs{NumAircraft: m, NumUsers: u, Aircraft: random(m * model.AircraftFeatures),
			Pairs: random(m * u * model.PairFeatures),
			State: random(model.StateFeatures), Return: random(model.ReturnFeatures), Action: random(model.ActionFeatures)}
		ex.AircraftPerSlot, ex.UsersPerSlot = append(ex.AircraftPerSlot, m), append(ex.UsersPerSlot, u)
		ex.Aircraft, ex.Pairs = append(ex.Aircraft, in.Aircraft...), append(ex.Pairs, in.Pairs...)
		ex.State, ex.Return, ex.Action = append(ex.State, in.State...), append(ex.Return, in.Return...), append(ex.Action, in.Action...)
		var out model.Outputs
		net.Step(&in, cache, &out)
		steps = append(steps, out)
	}
	n := newNetwork(a, Default().LossWeights, p, nil)
	n.forward(ex)
	near := func(slot int, what string, got, want []float32) []float32 {
		t.Helper()
		for i := range got {
			if d := math.Abs(float64(got[i] - want[i])); !(d < 1e-5) {
				t.Fatalf("slot %d: %s %d is %v in the step, %v in training", slot, what, i, got[i], want[i])
			}
		}
		return want[len(got):]
	}
	move, choice := n.move.Value.Data, n.choice.Value.Data
	for s := range steps {
		move = near(s, "move", steps[s].Move, move)
		choice = near(s, "choice", steps[s].Choice, choice)
		near(s, "price", []float32{steps[s].FrontPosition}, n.price.Value.Data[s:])
	}
}
