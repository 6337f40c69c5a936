package paperform

import (
	"math"

	"prefdt/inference/kernel"
	"prefdt/offline/train"
)

// outputGrads are the gradients of the loss by the outputs.
type outputGrads[T kernel.Float] struct{ motion, choice, offload kernel.Matrix[T] }

// loss is DT's mixed imitation loss, Sec. IV-B: L2 on the continuous actions
// and cross-entropy on the association, equally weighted. Gradients are times
// scale.
func (t *tape[T]) loss(scale float64) (sum train.LossTerms, g outputGrads[T]) {
	win := t.window
	g = outputGrads[T]{t.Zeros(t.motion.Rows, t.motion.Cols), t.Zeros(t.choice.Rows, t.choice.Cols), t.Zeros(t.offload.Rows, t.offload.Cols)}
	square := func(want []float32, y, dy []T) (mean float64) {
		for i := range y {
			diff := float64(y[i]) - float64(want[i])
			mean += diff * diff / float64(len(y))
			dy[i] = T(scale * 2 * diff / float64(len(y)))
		}
		return mean
	}
	sum.Move = square(win.Motion, t.motion.Data, g.motion.Data)
	if len(win.Server) > 0 {
		sum.Offload = square(win.Offload, t.offload.Data, g.offload.Data)
	}
	k := 1 / float64(max(len(win.Server), 1))
	for u, server := range win.Server {
		row, grad := t.choice.Row(u), g.choice.Row(u)
		best := 0
		for i, v := range row {
			if v > row[best] {
				best = i
			}
		}
		if best == server {
			sum.Accuracy += k
		}
		total := 0.0
		for _, v := range row {
			total += math.Exp(float64(v - row[best]))
		}
		for i, v := range row {
			p := math.Exp(float64(v-row[best])) / total
			if i == server {
				sum.Association -= k * math.Log(max(p, 1e-300))
				p--
			}
			grad[i] = T(scale * k * p)
		}
	}
	sum.Loss = sum.Association + sum.Offload + sum.Move
	return sum, g
}

// backward adds the gradients of the loss to g, in the reverse order of forward.
func (t *tape[T]) backward(w, g *train.Params[T], out outputGrads[T]) {
	slots, m, d := t.window.slots(), t.window.AircraftCount, w.Arch.Width
	none := kernel.Matrix[T]{}
	de := t.ZerosLike(t.embedding)

	for i, y := range t.offload.Data {
		out.offload.Data[i] *= 1 - y*y
	}
	t.bypassBackward(w, g, "rho", t.LinearInputGradient(g.Matrix("rho.o"), g.Vector("rho.ob"), out.offload, t.offloadHidden, w.Matrix("rho.o")), t.offloadHiddenRaw, de)
	t.bypassBackward(w, g, "choice", t.LinearInputGradient(g.Matrix("choice.o"), g.Vector("choice.ob"), out.choice, t.choiceHidden, w.Matrix("choice.o")), t.choiceHiddenRaw, de)
	for i, y := range t.motion.Data {
		out.motion.Data[i] *= 1 - y*y
	}
	df0 := t.LinearInputGradient(g.Matrix("flight.w"), g.Vector("flight.b"), out.motion, t.motionHidden, w.Matrix("flight.w"))
	kernel.GeluBackward(df0.Data, df0.Data, t.motionHiddenRaw.Data)
	train.LinearBackward(de, g.Matrix("flight.h"), g.Vector("flight.hb"), df0, t.embedding, w.Matrix("flight.h"))

	dlast := t.Matrix(slots, d)
	kernel.LayerNormBackward(dlast, de, t.stateRows, w.Vector("final.g"), t.normMean, t.normInvStd, g.Vector("final.g"), g.Vector("final.b"), false)
	dx := t.Zeros(3*slots, d)
	for s := range slots {
		copy(dx.Row(3*s+1), dlast.Row(s))
	}
	dx = t.TransformerBackward(w, g, dx)
	dret, dstate, daction := t.Matrix(slots, d), t.Matrix(slots, d), t.Matrix(slots, d)
	for s := range slots {
		for k, row := range [][]T{dret.Row(s), dstate.Row(s), daction.Row(s)} {
			copy(row, dx.Row(3*s+k))
			kernel.Add(t.slotEmbedding(g, s), row)
		}
	}
	train.LinearBackward(none, g.Matrix("action.w"), nil, daction, t.omega, w.Matrix("action.w"))
	train.LinearBackward(none, g.Matrix("action.x"), g.Vector("action.b"), daction, t.action, w.Matrix("action.x"))
	train.LinearBackward(none, g.Matrix("return.w"), g.Vector("return.b"), dret, t.returns, w.Matrix("return.w"))
	train.LinearBackward(none, g.Matrix("state.w"), nil, dstate, t.omega, w.Matrix("state.w"))
	train.LinearBackward(none, g.Matrix("state.z"), g.Vector("state.b"), dstate, t.aircraftBySlot, w.Matrix("state.z"))
	dpFleet := t.LinearInputGradient(g.Matrix("state.p"), nil, dstate, t.poolTokensBySlot, w.Matrix("state.p"))
	dp := kernel.View(dpFleet.Data, slots*m, d)
	dq, dk, dv := t.pool.Backward(&t.Workspace, t.LinearInputGradient(g.Matrix("pool.o"), g.Vector("pool.ob"), dp, t.pooled, w.Matrix("pool.o")))
	train.LinearBackward(none, g.Matrix("pool.q"), nil, dq, t.aircraft, w.Matrix("pool.q"))
	train.LinearBackward(none, g.Matrix("pool.k"), nil, dk, t.pairs, w.Matrix("pool.k"))
	train.LinearBackward(none, g.Matrix("pool.v"), nil, dv, t.pairs, w.Matrix("pool.v"))
}

// bypassBackward takes the gradient by a head's hidden layer further.
func (t *tape[T]) bypassBackward(w, g *train.Params[T], head string, dy, raw, de kernel.Matrix[T]) {
	kernel.GeluBackward(dy.Data, dy.Data, raw.Data)
	train.LinearBackward(kernel.Matrix[T]{}, g.Matrix(head+".z"), g.Vector(head+".b"), dy, t.userRows, w.Matrix(head+".z"))
	sum := t.Zeros(t.embedding.Rows, dy.Cols)
	t.eachUser(func(s, user int) { kernel.Add(sum.Row(s), dy.Row(user)) })
	train.LinearBackward(de, g.Matrix(head+".e"), nil, sum, t.embedding, w.Matrix(head+".e"))
}
