package train

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/model"
	"prefdt/offline/nn/nntest"
	"prefdt/offline/offlinetest"
)

// TestTrainingForwardEqualsStreamingStep trains what flies: the forward pass of a
// whole flight against the streaming step with its rolling cache, slot by slot.
func TestTrainingForwardEqualsStreamingStep(t *testing.T) {
	a := model.Arch{Width: 32, PairWidth: 16, Layers: 2, Heads: 4, Context: 5}
	r := rand.New(rand.NewPCG(1, 1))
	p := nntest.Random[float32](a.Tensors(), 1)
	net := offlinetest.Must(model.NewNet(a, p.Data))(t)
	ex := randomExample(r, 40)
	aircraft, pairs, state, returns, action := ex.Aircraft, ex.Pairs, ex.State, ex.Return, ex.Action
	take := func(rows *[]float32, n int) (first []float32) {
		first, *rows = (*rows)[:n], (*rows)[n:]
		return first
	}
	steps, cache := make([]model.Outputs, ex.Slots), net.NewCache()
	for s := range steps {
		m, u := ex.AircraftPerSlot[s], ex.UsersPerSlot[s]
		net.Step(&model.Inputs{NumAircraft: m, NumUsers: u, Aircraft: take(&aircraft, m*model.AircraftFeatures),
			Pairs: take(&pairs, m*u*model.PairFeatures), State: take(&state, model.StateFeatures),
			Return: take(&returns, model.ReturnFeatures), Action: take(&action, model.ActionFeatures)}, cache, &steps[s])
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
