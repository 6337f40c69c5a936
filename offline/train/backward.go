package train

import (
	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// backward adds the gradients of the loss to g, in the reverse order of forward.
func (t *tape[T]) backward(w, g *Params[T], out outputGrads[T]) {
	ep := t.example
	none := kernel.Matrix[T]{}
	de := t.ZerosLike(t.embedding)
	dz := t.ZerosLike(t.pairHidden)
	da2 := t.ZerosLike(t.aircraftEncoded)

	// Price head.
	dp0 := t.LinearInputGradient(g.Matrix("price.o"), g.Vector("price.ob"), out.price, t.priceHidden, w.Matrix("price.o"))
	kernel.GeluBackward(dp0.Data, dp0.Data, t.pricePre.Data)
	LinearBackward(de, g.Matrix("price.w"), g.Vector("price.b"), dp0, t.embedding, w.Matrix("price.w"))

	// Pair heads.
	dk1 := t.LinearInputGradient(g.Matrix("choice.o"), g.Vector("choice.ob"), out.choice, t.choiceHidden2, w.Matrix("choice.o"))
	kernel.GeluBackward(dk1.Data, dk1.Data, t.choicePre2.Data)
	dk0 := t.LinearInputGradient(g.Matrix("choice.w"), g.Vector("choice.wb"), dk1, t.choiceHidden1, w.Matrix("choice.w"))
	kernel.GeluBackward(dk0.Data, dk0.Data, t.choicePre1.Data)
	dePair, dhPair := t.ZerosLike(t.embeddingForPairs), t.ZerosLike(t.headForPairs)
	t.eachPair(func(s, r, n int) {
		kernel.Add(dePair.Row(s), dk0.Row(n))
		kernel.Add(dhPair.Row(r), dk0.Row(n))
	})
	dh := t.ZerosLike(t.head)
	LinearBackward(dz, g.Matrix("choice.p"), nil, dk0, t.pairHidden, w.Matrix("choice.p"))
	LinearBackward(dh, g.Matrix("choice.a"), nil, dhPair, t.head, w.Matrix("choice.a"))
	LinearBackward(de, g.Matrix("choice.e"), g.Vector("choice.b"), dePair, t.embedding, w.Matrix("choice.e"))

	// Flight head and the interaction of the fleet.
	for i, y := range t.move.Data {
		out.move.Data[i] *= 1 - y*y
	}
	LinearBackward(dh, g.Matrix("flight.w"), g.Vector("flight.b"), out.move, t.head, w.Matrix("flight.w"))
	dhMix := t.ZerosLike(t.headMixed)
	t.eachAircraft(func(s, r int) { kernel.Add(dhMix.Row(s), dh.Row(r)) })
	dhMean := t.LinearInputGradient(g.Matrix("craft.mix"), nil, dhMix, t.headMean, w.Matrix("craft.mix"))
	dh0 := dh // the residual path
	t.eachAircraft(func(s, r int) { addScaled(dh0.Row(r), dhMean.Row(s), 1/T(ep.AircraftPerSlot[s])) })
	kernel.GeluBackward(dh0.Data, dh0.Data, t.headPre.Data)
	deCraft := t.ZerosLike(t.embeddingForAircraft)
	t.eachAircraft(func(s, r int) { kernel.Add(deCraft.Row(s), dh0.Row(r)) })
	LinearBackward(da2, g.Matrix("craft.a"), nil, dh0, t.aircraftEncoded, w.Matrix("craft.a"))
	LinearBackward(de, g.Matrix("craft.e"), g.Vector("craft.hb"), deCraft, t.embedding, w.Matrix("craft.e"))

	// Blocks.
	dlast := t.Matrix(t.stateOutput.Rows, t.stateOutput.Cols)
	kernel.LayerNormBackward(dlast, de, t.stateOutput, w.Vector("final.g"), t.embeddingMean, t.embeddingRstd, g.Vector("final.g"), g.Vector("final.b"), false)
	dx := t.Zeros(model.TokensPerSlot*ep.Slots, t.Arch.Width)
	for s := range ep.Slots {
		copy(dx.Row(model.TokensPerSlot*s+2), dlast.Row(s))
	}
	dx = t.TransformerBackward(w, g, dx)

	// Token embeddings.
	daction, dret, dstate := t.Matrix(ep.Slots, t.Arch.Width), t.Matrix(ep.Slots, t.Arch.Width), t.Matrix(ep.Slots, t.Arch.Width)
	for s := range ep.Slots {
		copy(daction.Row(s), dx.Row(3*s))
		copy(dret.Row(s), dx.Row(3*s+1))
		copy(dstate.Row(s), dx.Row(3*s+2))
	}
	LinearBackward(none, g.Matrix("action.w"), g.Vector("action.b"), daction, t.action, w.Matrix("action.w"))
	LinearBackward(none, g.Matrix("return.w"), g.Vector("return.b"), dret, t.returns, w.Matrix("return.w"))
	LinearBackward(none, g.Matrix("state.w"), g.Vector("state.b"), dstate, t.state, w.Matrix("state.w"))

	// State encoder.
	dfleet := t.LinearInputGradient(g.Matrix("fleet.o"), nil, dstate, t.fleetPooled, w.Matrix("fleet.o"))
	dq, dk, dv := t.fleetAttention.Backward(&t.Workspace, dfleet)
	kernel.AddBiasBackward(g.Vector("fleet.q"), dq)
	LinearBackward(da2, g.Matrix("fleet.k"), nil, dk, t.aircraftEncoded, w.Matrix("fleet.k"))
	LinearBackward(da2, g.Matrix("fleet.v"), nil, dv, t.aircraftEncoded, w.Matrix("fleet.v"))

	dc1 := t.LinearInputGradient(g.Matrix("craft.w2"), g.Vector("craft.b2"), da2, t.feedForward, w.Matrix("craft.w2"))
	kernel.GeluBackward(dc1.Data, dc1.Data, t.feedForwardPre.Data)
	da1n := t.LinearInputGradient(g.Matrix("craft.w1"), g.Vector("craft.b1"), dc1, t.aircraftNorm, w.Matrix("craft.w1"))
	da1 := da2 // the residual path
	kernel.LayerNormBackward(da1, da1n, t.aircraftPooled, w.Vector("craft.ng"), t.aircraftNormMean, t.aircraftNormRstd, g.Vector("craft.ng"), g.Vector("craft.nb"), true)

	dpooled := t.LinearInputGradient(g.Matrix("pool.o"), g.Vector("pool.ob"), da1, t.usersPooled, w.Matrix("pool.o"))
	dq, dk, dv = t.userAttention.Backward(&t.Workspace, dpooled)
	da0 := da1 // the residual path
	LinearBackward(da0, g.Matrix("pool.q"), nil, dq, t.aircraftHidden, w.Matrix("pool.q"))
	LinearBackward(dz, g.Matrix("pool.k"), nil, dk, t.pairHidden, w.Matrix("pool.k"))
	LinearBackward(dz, g.Matrix("pool.v"), nil, dv, t.pairHidden, w.Matrix("pool.v"))
	kernel.GeluBackward(dz.Data, dz.Data, t.pairPre.Data)
	LinearBackward(none, g.Matrix("pair.w"), g.Vector("pair.b"), dz, t.pairs, w.Matrix("pair.w"))
	kernel.GeluBackward(da0.Data, da0.Data, t.aircraftPre.Data)
	LinearBackward(none, g.Matrix("aircraft.w"), g.Vector("aircraft.b"), da0, t.aircraft, w.Matrix("aircraft.w"))
}
