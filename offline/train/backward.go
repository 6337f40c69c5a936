package train

import (
	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// linearBackward adds the gradients of y = x·w + b: to dw and db, and to dx
// unless it is empty.
func linearBackward[T kernel.Float](dx, dw kernel.Matrix[T], db []T, dy, x, w kernel.Matrix[T]) {
	if dy.Rows == 0 {
		return
	}
	kernel.MatMulTransA(dw, x, dy, true)
	if db != nil {
		kernel.AddBiasBackward(db, dy)
	}
	if dx.Rows > 0 {
		kernel.MatMulTransB(dx, dy, w, true)
	}
}

// through returns the gradient by x of y = x·w + b, and adds those by w and b.
func (t *tape[T]) through(dw kernel.Matrix[T], db []T, dy, x, w kernel.Matrix[T]) kernel.Matrix[T] {
	linearBackward(kernel.Matrix[T]{}, dw, db, dy, x, w)
	dx := t.arena.matrix(x.Rows, x.Cols)
	kernel.MatMulTransB(dx, dy, w, false)
	return dx
}

// like lends zeros to add gradients to.
func (t *tape[T]) like(x kernel.Matrix[T]) kernel.Matrix[T] { return t.arena.zeros(x.Rows, x.Cols) }

// backward adds the gradients of the loss to g, in the reverse order of forward.
func (t *tape[T]) backward(w, g *Params[T], out outputGrads[T]) {
	ep := t.ep
	none := kernel.Matrix[T]{}
	de := t.like(t.e)
	dz := t.like(t.z)
	da2 := t.like(t.a2)

	// Price head.
	dp0 := t.through(g.w("price.o"), g.b("price.ob"), out.price, t.p0, w.w("price.o"))
	kernel.GeluBackward(dp0.Data, dp0.Data, t.p0raw.Data)
	linearBackward(de, g.w("price.w"), g.b("price.b"), dp0, t.e, w.w("price.w"))

	// Pair heads.
	dk1 := t.through(g.w("choice.o"), g.b("choice.ob"), out.choice, t.k1, w.w("choice.o"))
	kernel.GeluBackward(dk1.Data, dk1.Data, t.k1raw.Data)
	dk0 := t.through(g.w("choice.w"), g.b("choice.wb"), dk1, t.k0, w.w("choice.w"))
	kernel.GeluBackward(dk0.Data, dk0.Data, t.k0raw.Data)
	dePair, dhPair := t.like(t.ePair), t.like(t.hPair)
	t.eachPair(func(s, r, n int) {
		kernel.Add(dePair.Row(s), dk0.Row(n))
		kernel.Add(dhPair.Row(r), dk0.Row(n))
	})
	dh := t.like(t.h)
	linearBackward(dz, g.w("choice.p"), nil, dk0, t.z, w.w("choice.p"))
	linearBackward(dh, g.w("choice.a"), nil, dhPair, t.h, w.w("choice.a"))
	linearBackward(de, g.w("choice.e"), g.b("choice.b"), dePair, t.e, w.w("choice.e"))

	// Flight head and the interaction of the fleet.
	for i, y := range t.move.Data {
		out.move.Data[i] *= 1 - y*y
	}
	linearBackward(dh, g.w("flight.w"), g.b("flight.b"), out.move, t.h, w.w("flight.w"))
	dhMix := t.like(t.hMix)
	t.eachCraft(func(s, r int) { kernel.Add(dhMix.Row(s), dh.Row(r)) })
	dhMean := t.through(g.w("craft.mix"), nil, dhMix, t.hMean, w.w("craft.mix"))
	dh0 := dh // the residual path
	t.eachCraft(func(s, r int) { addScaled(dh0.Row(r), dhMean.Row(s), 1/T(ep.Craft[s])) })
	kernel.GeluBackward(dh0.Data, dh0.Data, t.h0raw.Data)
	deCraft := t.like(t.eCraft)
	t.eachCraft(func(s, r int) { kernel.Add(deCraft.Row(s), dh0.Row(r)) })
	linearBackward(da2, g.w("craft.a"), nil, dh0, t.a2, w.w("craft.a"))
	linearBackward(de, g.w("craft.e"), g.b("craft.hb"), deCraft, t.e, w.w("craft.e"))

	// Blocks.
	dlast := t.arena.matrix(t.last.Rows, t.last.Cols)
	kernel.LayerNormBackward(dlast, de, t.last, w.b("final.g"), t.em, t.es, g.b("final.g"), g.b("final.b"), false)
	dx := t.arena.zeros(ep.tokens(), t.arch.Width)
	for s := range ep.Slots {
		copy(dx.Row(model.TokensPerSlot*s+2), dlast.Row(s))
	}
	for l := len(t.blocks) - 1; l >= 0; l-- {
		dx = t.blockBackward(&t.blocks[l], &w.blocks[l], &g.blocks[l], dx)
	}

	// Token embeddings.
	daction, dret, dstate := t.arena.matrix(ep.Slots, t.arch.Width), t.arena.matrix(ep.Slots, t.arch.Width), t.arena.matrix(ep.Slots, t.arch.Width)
	for s := range ep.Slots {
		copy(daction.Row(s), dx.Row(3*s))
		copy(dret.Row(s), dx.Row(3*s+1))
		copy(dstate.Row(s), dx.Row(3*s+2))
	}
	linearBackward(none, g.w("action.w"), g.b("action.b"), daction, t.action, w.w("action.w"))
	linearBackward(none, g.w("return.w"), g.b("return.b"), dret, t.ret, w.w("return.w"))
	linearBackward(none, g.w("state.w"), g.b("state.b"), dstate, t.state, w.w("state.w"))

	// State encoder.
	dfleet := t.through(g.w("fleet.o"), nil, dstate, t.fleetPooled, w.w("fleet.o"))
	dq, dk, dv := t.fleet.backward(t, dfleet)
	kernel.AddBiasBackward(g.b("fleet.q"), dq)
	linearBackward(da2, g.w("fleet.k"), nil, dk, t.a2, w.w("fleet.k"))
	linearBackward(da2, g.w("fleet.v"), nil, dv, t.a2, w.w("fleet.v"))

	dc1 := t.through(g.w("craft.w2"), g.b("craft.b2"), da2, t.c1, w.w("craft.w2"))
	kernel.GeluBackward(dc1.Data, dc1.Data, t.c1raw.Data)
	da1n := t.through(g.w("craft.w1"), g.b("craft.b1"), dc1, t.a1n, w.w("craft.w1"))
	da1 := da2 // the residual path
	kernel.LayerNormBackward(da1, da1n, t.a1, w.b("craft.ng"), t.a1m, t.a1s, g.b("craft.ng"), g.b("craft.nb"), true)

	dpooled := t.through(g.w("pool.o"), g.b("pool.ob"), da1, t.pooled, w.w("pool.o"))
	dq, dk, dv = t.pool.backward(t, dpooled)
	da0 := da1 // the residual path
	linearBackward(da0, g.w("pool.q"), nil, dq, t.a0, w.w("pool.q"))
	linearBackward(dz, g.w("pool.k"), nil, dk, t.z, w.w("pool.k"))
	linearBackward(dz, g.w("pool.v"), nil, dv, t.z, w.w("pool.v"))
	kernel.GeluBackward(dz.Data, dz.Data, t.zraw.Data)
	linearBackward(none, g.w("pair.w"), g.b("pair.b"), dz, t.pairs, w.w("pair.w"))
	kernel.GeluBackward(da0.Data, da0.Data, t.a0raw.Data)
	linearBackward(none, g.w("aircraft.w"), g.b("aircraft.b"), da0, t.aircraft, w.w("aircraft.w"))
}

// blockBackward returns the gradient by a block's input, given that by its output.
func (t *tape[T]) blockBackward(b *blockTape[T], w, g *block[T], dy kernel.Matrix[T]) kernel.Matrix[T] {
	dfc := t.through(g.out, g.outb, dy, b.fc, w.out)
	kernel.GeluBackward(dfc.Data, dfc.Data, b.fcraw.Data)
	dn := t.through(g.fc, g.fcb, dfc, b.n2, w.fc)
	dmid := dy // the residual path
	kernel.LayerNormBackward(dmid, dn, b.mid, w.n2g, b.m2, b.s2, g.n2g, g.n2b, true)

	dmixed := t.through(g.proj, g.projb, dmid, b.mixed, w.proj)
	dqkv := t.like(b.qkv)
	t.attendBackward(b, dqkv, dmixed)
	dn = t.through(g.qkv, g.qkvb, dqkv, b.n1, w.qkv)
	dx := dmid // the residual path
	kernel.LayerNormBackward(dx, dn, b.x, w.n1g, b.m1, b.s1, g.n1g, g.n1b, true)
	return dx
}
