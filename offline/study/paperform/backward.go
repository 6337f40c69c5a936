package paperform

import (
	"math"

	"prefdt/inference/kernel"
	"prefdt/offline/train"
)

// outputGrads are the gradients of the loss by the outputs.
type outputGrads[T kernel.Float] struct{ flight, choice, rho kernel.Matrix[T] }

// loss is DT's mixed imitation loss, Sec. IV-B: L2 on the continuous actions
// and cross-entropy on the association, equally weighted. Gradients are times
// scale.
func (t *tape[T]) loss(scale float64) (sum train.Terms, g outputGrads[T]) {
	win := t.win
	g = outputGrads[T]{t.Zeros(t.flight.Rows, t.flight.Cols), t.Zeros(t.choice.Rows, t.choice.Cols), t.Zeros(t.rho.Rows, t.rho.Cols)}
	square := func(want []float32, y, dy []T) (mean float64) {
		for i := range y {
			diff := float64(y[i]) - float64(want[i])
			mean += diff * diff / float64(len(y))
			dy[i] = T(scale * 2 * diff / float64(len(y)))
		}
		return mean
	}
	sum.Move = square(win.Flight, t.flight.Data, g.flight.Data)
	if len(win.Server) > 0 {
		sum.Offload = square(win.Offload, t.rho.Data, g.rho.Data)
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
			sum.Right += k
		}
		total := 0.0
		for _, v := range row {
			total += math.Exp(float64(v - row[best]))
		}
		for i, v := range row {
			p := math.Exp(float64(v-row[best])) / total
			if i == server {
				sum.Choice -= k * math.Log(max(p, 1e-300))
				p--
			}
			grad[i] = T(scale * k * p)
		}
	}
	sum.Loss = sum.Choice + sum.Offload + sum.Move
	return sum, g
}

// backward adds the gradients of the loss to g, in the reverse order of forward.
func (t *tape[T]) backward(w, g *train.Params[T], out outputGrads[T]) {
	slots, m, d := t.win.slots(), t.win.Aircraft, w.Arch.Width
	none := kernel.Matrix[T]{}
	de := t.Like(t.e)

	for i, y := range t.rho.Data {
		out.rho.Data[i] *= 1 - y*y
	}
	t.bypassBackward(w, g, "rho", t.Through(g.W("rho.o"), g.B("rho.ob"), out.rho, t.r0, w.W("rho.o")), t.r0raw, de)
	t.bypassBackward(w, g, "choice", t.Through(g.W("choice.o"), g.B("choice.ob"), out.choice, t.c0, w.W("choice.o")), t.c0raw, de)
	for i, y := range t.flight.Data {
		out.flight.Data[i] *= 1 - y*y
	}
	df0 := t.Through(g.W("flight.w"), g.B("flight.b"), out.flight, t.f0, w.W("flight.w"))
	kernel.GeluBackward(df0.Data, df0.Data, t.f0raw.Data)
	train.LinearBackward(de, g.W("flight.h"), g.B("flight.hb"), df0, t.e, w.W("flight.h"))

	dlast := t.Matrix(slots, d)
	kernel.LayerNormBackward(dlast, de, t.last, w.B("final.g"), t.em, t.es, g.B("final.g"), g.B("final.b"), false)
	dx := t.Zeros(3*slots, d)
	for s := range slots {
		copy(dx.Row(3*s+1), dlast.Row(s))
	}
	dx = t.TransformBackward(w, g, dx)
	dret, dstate, daction := t.Matrix(slots, d), t.Matrix(slots, d), t.Matrix(slots, d)
	for s := range slots {
		for k, row := range [][]T{dret.Row(s), dstate.Row(s), daction.Row(s)} {
			copy(row, dx.Row(3*s+k))
			kernel.Add(t.time(g, s), row)
		}
	}
	train.LinearBackward(none, g.W("action.w"), nil, daction, t.omega, w.W("action.w"))
	train.LinearBackward(none, g.W("action.x"), g.B("action.b"), daction, t.action, w.W("action.x"))
	train.LinearBackward(none, g.W("return.w"), g.B("return.b"), dret, t.ret, w.W("return.w"))
	train.LinearBackward(none, g.W("state.w"), nil, dstate, t.omega, w.W("state.w"))
	train.LinearBackward(none, g.W("state.z"), g.B("state.b"), dstate, t.fleet, w.W("state.z"))
	dpFleet := t.Through(g.W("state.p"), nil, dstate, t.pFleet, w.W("state.p"))
	dp := kernel.View(dpFleet.Data, slots*m, d)
	dq, dk, dv := t.pool.Backward(&t.Tools, t.Through(g.W("pool.o"), g.B("pool.ob"), dp, t.pooled, w.W("pool.o")))
	train.LinearBackward(none, g.W("pool.q"), nil, dq, t.craft, w.W("pool.q"))
	train.LinearBackward(none, g.W("pool.k"), nil, dk, t.pairs, w.W("pool.k"))
	train.LinearBackward(none, g.W("pool.v"), nil, dv, t.pairs, w.W("pool.v"))
}

// bypassBackward takes the gradient by a head's hidden layer further.
func (t *tape[T]) bypassBackward(w, g *train.Params[T], head string, dy, raw, de kernel.Matrix[T]) {
	kernel.GeluBackward(dy.Data, dy.Data, raw.Data)
	train.LinearBackward(kernel.Matrix[T]{}, g.W(head+".z"), g.B(head+".b"), dy, t.users, w.W(head+".z"))
	sum := t.Zeros(t.e.Rows, dy.Cols)
	t.eachUser(func(s, user int) { kernel.Add(sum.Row(s), dy.Row(user)) })
	train.LinearBackward(de, g.W(head+".e"), nil, sum, t.e, w.W(head+".e"))
}
