package train

import (
	"math"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
	"prefdt/offline/corpus"
)

// tape holds every activation of one episode. Shapes: R rows of aircraft
// (sum M), N rows of pairs (sum M*U), S slots, L = 3S tokens; d and p are the
// widths. Backward needs them all; the buffers grow once and are reused.
type tape[T kernel.Float] struct {
	Workspace[T]
	example *corpus.Example

	aircraft, pairs, state, returns, action kernel.Matrix[T] // inputs

	aircraftPre, aircraftHidden        kernel.Matrix[T] // (R, d)
	pairPre, pairHidden                kernel.Matrix[T] // (N, p)
	userAttention                      SetAttention[T]  // over U
	usersPooled                        kernel.Matrix[T] // (R, d)
	aircraftPooled, aircraftNorm       kernel.Matrix[T] // (R, d)
	aircraftNormMean, aircraftNormRstd []T
	feedForwardPre, feedForward        kernel.Matrix[T] // (R, 2d)
	aircraftEncoded                    kernel.Matrix[T] // (R, d)
	fleetQuery                         kernel.Matrix[T] // (S, d)
	fleetAttention                     SetAttention[T]  // over M
	fleetPooled                        kernel.Matrix[T] // (S, d)

	tokenStream                  kernel.Matrix[T] // (L, d) token embeddings
	stateOutput                  kernel.Matrix[T] // (S, d) s rows of the last block
	embedding                    kernel.Matrix[T] // (S, d)
	embeddingMean, embeddingRstd []T

	embeddingForAircraft      kernel.Matrix[T] // (S, d)
	headPre, headHidden       kernel.Matrix[T] // (R, d)
	headMean                  kernel.Matrix[T] // (S, d)
	headMixed                 kernel.Matrix[T] // (S, d)
	head                      kernel.Matrix[T] // (R, d)
	move                      kernel.Matrix[T] // (R, 2)
	embeddingForPairs         kernel.Matrix[T] // (S, p)
	headForPairs              kernel.Matrix[T] // (R, p)
	choicePre1, choiceHidden1 kernel.Matrix[T] // (N, p)
	choicePre2, choiceHidden2 kernel.Matrix[T] // (N, p)
	choice                    kernel.Matrix[T] // (N, 3)
	pricePre, priceHidden     kernel.Matrix[T] // (S, p)
	price                     kernel.Matrix[T] // (S, 1)
}

// forward runs the network over a whole episode.
func (t *tape[T]) forward(w *Params[T], ep *corpus.Example) {
	t.example = ep
	t.Reset(w.Arch, ep.Slots)
	d := w.Arch.Width
	craftRows, pairRows := 0, 0
	for s := range ep.Slots {
		craftRows += ep.AircraftPerSlot[s]
		pairRows += ep.AircraftPerSlot[s] * ep.UsersPerSlot[s]
	}
	t.aircraft = t.Input(ep.Aircraft, craftRows, model.AircraftFeatures)
	t.pairs = t.Input(ep.Pairs, pairRows, model.PairFeatures)
	t.state = t.Input(ep.State, ep.Slots, model.StateFeatures)
	t.returns = t.Input(ep.Return, ep.Slots, model.ReturnFeatures)
	t.action = t.Input(ep.Action, ep.Slots, model.ActionFeatures)

	// State encoder, eq. (attn) and (stok).
	t.aircraftPre = t.Linear(t.aircraft, w.Matrix("aircraft.w"), w.Vector("aircraft.b"))
	t.aircraftHidden = t.Gelu(t.aircraftPre)
	t.pairPre = t.Linear(t.pairs, w.Matrix("pair.w"), w.Vector("pair.b"))
	t.pairHidden = t.Gelu(t.pairPre)
	groups := t.userAttention.Groups[:0] // one query row per aircraft, its users as keys
	row, pair := 0, 0
	for s := range ep.Slots {
		for range ep.AircraftPerSlot[s] {
			groups = append(groups, AttentionGroup{row, pair, ep.UsersPerSlot[s]})
			row, pair = row+1, pair+ep.UsersPerSlot[s]
		}
	}
	t.userAttention.Groups = groups
	t.usersPooled = t.userAttention.Forward(&t.Workspace, t.Linear(t.aircraftHidden, w.Matrix("pool.q"), nil), t.Linear(t.pairHidden, w.Matrix("pool.k"), nil), t.Linear(t.pairHidden, w.Matrix("pool.v"), nil))
	t.aircraftPooled = t.Sum(t.aircraftHidden, t.Linear(t.usersPooled, w.Matrix("pool.o"), w.Vector("pool.ob")))
	t.aircraftNorm, t.aircraftNormMean, t.aircraftNormRstd = t.LayerNorm(t.aircraftPooled, w.Vector("craft.ng"), w.Vector("craft.nb"))
	t.feedForwardPre = t.Linear(t.aircraftNorm, w.Matrix("craft.w1"), w.Vector("craft.b1"))
	t.feedForward = t.Gelu(t.feedForwardPre)
	t.aircraftEncoded = t.Sum(t.aircraftPooled, t.Linear(t.feedForward, w.Matrix("craft.w2"), w.Vector("craft.b2")))

	groups = t.fleetAttention.Groups[:0] // one query row per slot, its aircraft as keys
	row = 0
	for s := range ep.Slots {
		groups = append(groups, AttentionGroup{s, row, ep.AircraftPerSlot[s]})
		row += ep.AircraftPerSlot[s]
	}
	t.fleetAttention.Groups = groups
	t.fleetQuery = t.Zeros(ep.Slots, d)
	kernel.AddBias(t.fleetQuery, w.Vector("fleet.q"))
	t.fleetPooled = t.fleetAttention.Forward(&t.Workspace, t.fleetQuery, t.Linear(t.aircraftEncoded, w.Matrix("fleet.k"), nil), t.Linear(t.aircraftEncoded, w.Matrix("fleet.v"), nil))
	state := t.Linear(t.state, w.Matrix("state.w"), w.Vector("state.b"))
	kernel.MatMul(state, t.fleetPooled, w.Matrix("fleet.o"), true)
	ret := t.Linear(t.returns, w.Matrix("return.w"), w.Vector("return.b"))
	action := t.Linear(t.action, w.Matrix("action.w"), w.Vector("action.b"))

	// The stream a(t-1), g(t), s(t) through the blocks.
	t.tokenStream = t.Matrix(model.TokensPerSlot*ep.Slots, d)
	for s := range ep.Slots {
		copy(t.tokenStream.Row(3*s), action.Row(s))
		copy(t.tokenStream.Row(3*s+1), ret.Row(s))
		copy(t.tokenStream.Row(3*s+2), state.Row(s))
	}
	x := t.TransformerForward(w, t.tokenStream)
	t.stateOutput = t.Matrix(ep.Slots, d)
	for s := range ep.Slots {
		copy(t.stateOutput.Row(s), x.Row(3*s+2))
	}
	t.embedding, t.embeddingMean, t.embeddingRstd = t.LayerNorm(t.stateOutput, w.Vector("final.g"), w.Vector("final.b"))

	// Heads, eq. (bypass1) and (bypass2), per aircraft and per pair.
	t.embeddingForAircraft = t.Linear(t.embedding, w.Matrix("craft.e"), w.Vector("craft.hb"))
	t.headPre = t.Linear(t.aircraftEncoded, w.Matrix("craft.a"), nil)
	t.eachAircraft(func(s, r int) { kernel.Add(t.headPre.Row(r), t.embeddingForAircraft.Row(s)) })
	t.headHidden = t.Gelu(t.headPre)
	t.headMean = t.Zeros(ep.Slots, d)
	t.eachAircraft(func(s, r int) { addScaled(t.headMean.Row(s), t.headHidden.Row(r), 1/T(ep.AircraftPerSlot[s])) })
	t.headMixed = t.Linear(t.headMean, w.Matrix("craft.mix"), nil)
	t.head = t.Matrix(t.headHidden.Rows, d)
	copy(t.head.Data, t.headHidden.Data)
	t.eachAircraft(func(s, r int) { kernel.Add(t.head.Row(r), t.headMixed.Row(s)) })
	t.move = t.Linear(t.head, w.Matrix("flight.w"), w.Vector("flight.b"))
	for i, v := range t.move.Data {
		t.move.Data[i] = T(math.Tanh(float64(v)))
	}

	t.embeddingForPairs = t.Linear(t.embedding, w.Matrix("choice.e"), w.Vector("choice.b"))
	t.headForPairs = t.Linear(t.head, w.Matrix("choice.a"), nil)
	t.choicePre1 = t.Linear(t.pairHidden, w.Matrix("choice.p"), nil)
	t.eachPair(func(s, r, n int) {
		kernel.Add(t.choicePre1.Row(n), t.embeddingForPairs.Row(s))
		kernel.Add(t.choicePre1.Row(n), t.headForPairs.Row(r))
	})
	t.choiceHidden1 = t.Gelu(t.choicePre1)
	t.choicePre2 = t.Linear(t.choiceHidden1, w.Matrix("choice.w"), w.Vector("choice.wb"))
	t.choiceHidden2 = t.Gelu(t.choicePre2)
	t.choice = t.Linear(t.choiceHidden2, w.Matrix("choice.o"), w.Vector("choice.ob"))

	t.pricePre = t.Linear(t.embedding, w.Matrix("price.w"), w.Vector("price.b"))
	t.priceHidden = t.Gelu(t.pricePre)
	t.price = t.Linear(t.priceHidden, w.Matrix("price.o"), w.Vector("price.ob"))
}

// eachAircraft calls f for every slot s and row r of aircraft.
func (t *tape[T]) eachAircraft(f func(s, r int)) {
	r := 0
	for s := range t.example.Slots {
		for range t.example.AircraftPerSlot[s] {
			f(s, r)
			r++
		}
	}
}

// eachPair calls f for every slot s, aircraft row r and pair row n.
func (t *tape[T]) eachPair(f func(s, r, n int)) {
	n := 0
	t.eachAircraft(func(s, r int) {
		for range t.example.UsersPerSlot[s] {
			f(s, r, n)
			n++
		}
	})
}

func addScaled[T kernel.Float](dst, src []T, k T) { kernel.AddScaled(dst, k, src) }
