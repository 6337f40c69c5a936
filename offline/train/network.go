package train

import (
	"prefdt/inference/kernel"
	"prefdt/inference/model"
	"prefdt/offline/corpus"
	"prefdt/offline/nn"
)

// network is the policy network over a whole flight. Shapes: R rows of aircraft
// (sum M), N rows of pairs (sum M*U), S slots, L = 3S tokens; d and p are the
// widths. Package model has its formulas.
type network[T kernel.Float] struct {
	arch    model.Arch
	loss    LossWeights
	weights *model.Weights[nn.Param[T]]
	tape    nn.Tape[T]

	move   *nn.Var[T] // (R, 2)
	choice *nn.Var[T] // (N, 3)
	price  *nn.Var[T] // (S, 1)

	// Which slot, or aircraft row, a row belongs to.
	slotOfAircraft, aircraftOfPair []int
	usersOf                        []nn.AttentionGroup // each aircraft's pairs
	fleetOf                        []nn.AttentionGroup // each slot's aircraft
	logits                         []float64           // of one user
}

// newNetwork returns a network of parameters w that adds to the gradient g.
func newNetwork[T kernel.Float](a model.Arch, loss LossWeights, w, g *nn.Params[T]) *network[T] {
	n := &network[T]{arch: a, loss: loss, weights: model.NewWeights[nn.Param[T]](a)}
	nn.Bind(n.weights.List(), w, g)
	return n
}

// addGradient adds, to the gradient, that of the loss on an example, times scale.
func (n *network[T]) addGradient(ex *corpus.Example, scale float64) LossTerms {
	n.forward(ex)
	terms := n.setLoss(ex, scale)
	n.tape.Backward()
	return terms
}

// index lists which rows belong together.
func (n *network[T]) index(ex *corpus.Example) {
	n.slotOfAircraft, n.aircraftOfPair = n.slotOfAircraft[:0], n.aircraftOfPair[:0]
	n.usersOf, n.fleetOf = n.usersOf[:0], n.fleetOf[:0]
	for s := range ex.Slots {
		n.fleetOf = append(n.fleetOf, nn.AttentionGroup{Query: s, FirstKey: len(n.slotOfAircraft), KeyCount: ex.AircraftPerSlot[s],
			Stride: 1})
		for range ex.AircraftPerSlot[s] {
			row := len(n.slotOfAircraft)
			n.usersOf = append(n.usersOf, nn.AttentionGroup{Query: row, FirstKey: len(n.aircraftOfPair), KeyCount: ex.UsersPerSlot[s],
				Stride: 1})
			n.slotOfAircraft = append(n.slotOfAircraft, s)
			for range ex.UsersPerSlot[s] {
				n.aircraftOfPair = append(n.aircraftOfPair, row)
			}
		}
	}
}

func (n *network[T]) forward(ex *corpus.Example) {
	t, w, heads := &n.tape, n.weights, n.arch.Heads
	t.Reset()
	n.index(ex)
	aircraft := t.Input(ex.Aircraft, len(n.slotOfAircraft), model.AircraftFeatures)
	pairs := t.Input(ex.Pairs, len(n.aircraftOfPair), model.PairFeatures)
	state := t.Input(ex.State, ex.Slots, model.StateFeatures)
	returns := t.Input(ex.Return, ex.Slots, model.ReturnFeatures)
	action := t.Input(ex.Action, ex.Slots, model.ActionFeatures)

	// State encoder, eq. (attn) and (stok).
	a0 := t.Gelu(t.Linear(aircraft, &w.Aircraft)) // (R, d)
	z := t.Gelu(t.Linear(pairs, &w.Pair))         // (N, p)
	users := t.SetAttention(t.MatMul(a0, &w.UserQuery), t.MatMul(z, &w.UserKey), t.MatMul(z, &w.UserValue), n.usersOf, heads)
	a1 := t.AddLinear(a0, users, &w.UserOut)
	a2 := t.AddLinear(a1, t.Gelu(t.Linear(t.LayerNorm(a1, &w.EncoderNorm), &w.EncoderUp)), &w.EncoderDown)
	query := t.Lookup(&w.FleetQuery, make([]int, ex.Slots)) // (S, d), the same row
	fleet := t.SetAttention(query, t.MatMul(a2, &w.FleetKey), t.MatMul(a2, &w.FleetValue), n.fleetOf, heads)

	// The stream a(t-1), g(t), s(t) through the blocks.
	s := t.Add(t.Linear(state, &w.StateToken), t.MatMul(fleet, &w.FleetOut))
	x := t.Interleave(t.Linear(action, &w.ActionToken), t.Linear(returns, &w.ReturnToken), s) // (L, d)
	x = t.Transformer(n.arch, w.Blocks, x, []int{ex.Slots}, 2)                                // at the state token
	e := t.LayerNorm(x, &w.Final)                                                             // (S, d)

	// Heads, eq. (bypass1) and (bypass2), per aircraft and per pair.
	h0 := t.Gelu(t.AddRows(t.Linear(a2, &w.HeadAircraft), t.MatMul(e, &w.HeadContext), n.slotOfAircraft)) // (R, d)
	mean := t.MeanRows(h0, n.slotOfAircraft, ex.Slots)
	h := t.AddRows(h0, t.MatMul(mean, &w.HeadFleetMean), n.slotOfAircraft)
	n.move = t.Tanh(t.Linear(h, &w.Flight))

	each := t.AddRows(t.MatMul(h, &w.ChoiceAircraft), t.MatMul(e, &w.ChoiceContext), n.slotOfAircraft) // (R, p)
	c0 := t.Gelu(t.AddRows(t.Linear(z, &w.ChoicePair), each, n.aircraftOfPair))                        // (N, p)
	n.choice = t.MLP(c0, &w.ChoiceHidden, &w.ChoiceOut)

	n.price = t.MLP(e, &w.PriceHidden, &w.PriceOut)
}
