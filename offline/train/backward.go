package train

import (
	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// backward adds the gradients of the loss to g, in the reverse order of forward.
func (t *tape[T]) backward(w, g *Params[T], out outputGrads[T]) {
	ep := t.ep
	none := kernel.Matrix[T]{}
	de := t.Like(t.e)
	dz := t.Like(t.z)
	da2 := t.Like(t.a2)

	// Price head.
	dp0 := t.Through(g.W("price.o"), g.B("price.ob"), out.price, t.p0, w.W("price.o"))
	kernel.GeluBackward(dp0.Data, dp0.Data, t.p0raw.Data)
	LinearBackward(de, g.W("price.w"), g.B("price.b"), dp0, t.e, w.W("price.w"))

	// Pair heads.
	dk1 := t.Through(g.W("choice.o"), g.B("choice.ob"), out.choice, t.k1, w.W("choice.o"))
	kernel.GeluBackward(dk1.Data, dk1.Data, t.k1raw.Data)
	dk0 := t.Through(g.W("choice.w"), g.B("choice.wb"), dk1, t.k0, w.W("choice.w"))
	kernel.GeluBackward(dk0.Data, dk0.Data, t.k0raw.Data)
	dePair, dhPair := t.Like(t.ePair), t.Like(t.hPair)
	t.eachPair(func(s, r, n int) {
		kernel.Add(dePair.Row(s), dk0.Row(n))
		kernel.Add(dhPair.Row(r), dk0.Row(n))
	})
	dh := t.Like(t.h)
	LinearBackward(dz, g.W("choice.p"), nil, dk0, t.z, w.W("choice.p"))
	LinearBackward(dh, g.W("choice.a"), nil, dhPair, t.h, w.W("choice.a"))
	LinearBackward(de, g.W("choice.e"), g.B("choice.b"), dePair, t.e, w.W("choice.e"))

	// Flight head and the interaction of the fleet.
	for i, y := range t.move.Data {
		out.move.Data[i] *= 1 - y*y
	}
	LinearBackward(dh, g.W("flight.w"), g.B("flight.b"), out.move, t.h, w.W("flight.w"))
	dhMix := t.Like(t.hMix)
	t.eachCraft(func(s, r int) { kernel.Add(dhMix.Row(s), dh.Row(r)) })
	dhMean := t.Through(g.W("craft.mix"), nil, dhMix, t.hMean, w.W("craft.mix"))
	dh0 := dh // the residual path
	t.eachCraft(func(s, r int) { addScaled(dh0.Row(r), dhMean.Row(s), 1/T(ep.Craft[s])) })
	kernel.GeluBackward(dh0.Data, dh0.Data, t.h0raw.Data)
	deCraft := t.Like(t.eCraft)
	t.eachCraft(func(s, r int) { kernel.Add(deCraft.Row(s), dh0.Row(r)) })
	LinearBackward(da2, g.W("craft.a"), nil, dh0, t.a2, w.W("craft.a"))
	LinearBackward(de, g.W("craft.e"), g.B("craft.hb"), deCraft, t.e, w.W("craft.e"))

	// Blocks.
	dlast := t.Matrix(t.last.Rows, t.last.Cols)
	kernel.LayerNormBackward(dlast, de, t.last, w.B("final.g"), t.em, t.es, g.B("final.g"), g.B("final.b"), false)
	dx := t.Zeros(ep.tokens(), t.Arch.Width)
	for s := range ep.Slots {
		copy(dx.Row(model.TokensPerSlot*s+2), dlast.Row(s))
	}
	dx = t.TransformBackward(w, g, dx)

	// Token embeddings.
	daction, dret, dstate := t.Matrix(ep.Slots, t.Arch.Width), t.Matrix(ep.Slots, t.Arch.Width), t.Matrix(ep.Slots, t.Arch.Width)
	for s := range ep.Slots {
		copy(daction.Row(s), dx.Row(3*s))
		copy(dret.Row(s), dx.Row(3*s+1))
		copy(dstate.Row(s), dx.Row(3*s+2))
	}
	LinearBackward(none, g.W("action.w"), g.B("action.b"), daction, t.action, w.W("action.w"))
	LinearBackward(none, g.W("return.w"), g.B("return.b"), dret, t.ret, w.W("return.w"))
	LinearBackward(none, g.W("state.w"), g.B("state.b"), dstate, t.state, w.W("state.w"))

	// State encoder.
	dfleet := t.Through(g.W("fleet.o"), nil, dstate, t.fleetPooled, w.W("fleet.o"))
	dq, dk, dv := t.fleet.Backward(&t.Tools, dfleet)
	kernel.AddBiasBackward(g.B("fleet.q"), dq)
	LinearBackward(da2, g.W("fleet.k"), nil, dk, t.a2, w.W("fleet.k"))
	LinearBackward(da2, g.W("fleet.v"), nil, dv, t.a2, w.W("fleet.v"))

	dc1 := t.Through(g.W("craft.w2"), g.B("craft.b2"), da2, t.c1, w.W("craft.w2"))
	kernel.GeluBackward(dc1.Data, dc1.Data, t.c1raw.Data)
	da1n := t.Through(g.W("craft.w1"), g.B("craft.b1"), dc1, t.a1n, w.W("craft.w1"))
	da1 := da2 // the residual path
	kernel.LayerNormBackward(da1, da1n, t.a1, w.B("craft.ng"), t.a1m, t.a1s, g.B("craft.ng"), g.B("craft.nb"), true)

	dpooled := t.Through(g.W("pool.o"), g.B("pool.ob"), da1, t.pooled, w.W("pool.o"))
	dq, dk, dv = t.pool.Backward(&t.Tools, dpooled)
	da0 := da1 // the residual path
	LinearBackward(da0, g.W("pool.q"), nil, dq, t.a0, w.W("pool.q"))
	LinearBackward(dz, g.W("pool.k"), nil, dk, t.z, w.W("pool.k"))
	LinearBackward(dz, g.W("pool.v"), nil, dv, t.z, w.W("pool.v"))
	kernel.GeluBackward(dz.Data, dz.Data, t.zraw.Data)
	LinearBackward(none, g.W("pair.w"), g.B("pair.b"), dz, t.pairs, w.W("pair.w"))
	kernel.GeluBackward(da0.Data, da0.Data, t.a0raw.Data)
	LinearBackward(none, g.W("aircraft.w"), g.B("aircraft.b"), da0, t.aircraft, w.W("aircraft.w"))
}
