package papertrain

import (
	"math"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
	"prefdt/inference/paperform"
)

// backward adds the gradient of the loss to the parameters', given the gradients by the
// outputs that loss set.
func (n *network[T]) backward() {
	w, g, f := n.w, n.g, n.form
	slots, m, d := n.e.Rows, f.Aircraft, f.Width

	// Heads.
	de := n.arena.Matrix(slots, d)
	tanhBackward(n.dmotion.Data, n.motion.Data)
	dh := n.linearBackward(n.dmotion, n.flightGelu, &w.Flight, &g.Flight)
	kernel.GeluBackward(dh.Data, dh.Data, n.flightSum.Data)
	n.linearBackwardInto(de, dh, n.e, &w.FlightHidden, &g.FlightHidden)
	n.userHeadBackward(de, n.dchoice, n.choiceSum, n.choiceGelu, &w.Choice, &g.Choice)
	tanhBackward(n.doffload.Data, n.offload.Data)
	n.userHeadBackward(de, n.doffload, n.offloadSum, n.offloadGelu, &w.Offload, &g.Offload)

	// Blocks.
	dx := n.arena.Matrix(slots, d)
	kernel.LayerNormBackward(dx, de, n.x, w.Final.Gain.Data, n.xStats.mean, n.xStats.rstd, g.Final.Gain.Data, g.Final.Bias.Data, false)
	stream := n.arena.Matrix(model.TokensPerSlot*slots, d)
	for l := len(n.blocks) - 1; l >= 0; l-- {
		mark := n.arena // what a block works with is free again after it, and still in the cache
		dx = n.blockBackward(l, dx, stream)
		n.arena.Release(mark)
	}

	// The three tokens of each slot.
	ret, state, act := perSlot(dx, 0), perSlot(dx, 1), perSlot(dx, 2)
	for s, t := range n.batch.slotNumber {
		for _, r := range []struct {
			token kernel.Matrix[T]
			dbias []T
		}{{ret, g.ReturnToken.Bias.Data}, {state, g.StateAircraft.Bias.Data}, {act, g.ActionToken.Bias.Data}} {
			kernel.Add(r.dbias, r.token.Row(s))
			kernel.Add(g.SlotEmbedding.Row(t), r.token.Row(s))
		}
		kernel.AddScaled(g.StateOmega.Data, n.omega.Data[s], state.Row(s))
		kernel.AddScaled(g.ActionOmega.Data, n.omega.Data[s], act.Row(s))
	}
	kernel.MatMulTransA(g.ReturnToken.Weight, n.returns, ret, true)
	kernel.MatMulTransA(g.ActionToken.Weight, n.action, act, true)
	kernel.MatMulTransA(g.StateAircraft.Weight, kernel.View(n.aircraft.Data, slots, m*paperform.AircraftFeatures), state, true)
	kernel.MatMulTransA(g.StatePooled, kernel.View(n.pooled.Data, slots, m*d), state, true)
	dpooled := n.arena.Matrix(slots, m*d)
	kernel.MatMulTransB(dpooled, state, w.StatePooled, false)
	n.poolBackward(kernel.View(dpooled.Data, slots*m, d))
}

func tanhBackward[T kernel.Float](dy, y []T) {
	for i, v := range y {
		dy[i] *= 1 - v*v
	}
}

// linearBackward adds the gradient of y = x·w + b to those of w and b and returns that of x.
func (n *network[T]) linearBackward(dy, x kernel.Matrix[T], w, g *model.Linear[kernel.Matrix[T]]) kernel.Matrix[T] {
	dx := n.arena.Matrix(x.Rows, x.Cols)
	n.linearBackwardInto(dx, dy, x, w, g)
	return dx
}

func (n *network[T]) linearBackwardInto(dx, dy, x kernel.Matrix[T], w, g *model.Linear[kernel.Matrix[T]]) {
	kernel.MatMulTransA(g.Weight, x, dy, true)
	kernel.AddBiasBackward(g.Bias.Data, dy)
	kernel.MatMulTransB(dx, dy, w.Weight, false)
}

func (n *network[T]) userHeadBackward(de, dout, sum, gelu kernel.Matrix[T], w, g *paperform.UserHead[kernel.Matrix[T]]) {
	dh := n.linearBackward(dout, gelu, &w.Out, &g.Out)
	kernel.GeluBackward(dh.Data, dh.Data, sum.Data)
	kernel.MatMulTransA(g.User.Weight, n.nearest, dh, true)
	context := n.arena.Matrix(n.e.Rows, dh.Cols)
	clear(context.Data)
	user := 0
	for s, users := range n.batch.userCounts {
		for range users {
			kernel.Add(context.Row(s), dh.Row(user))
			user++
		}
	}
	kernel.AddBiasBackward(g.User.Bias.Data, context)
	kernel.MatMulTransA(g.Context, n.e, context, true)
	kernel.MatMulTransB(de, context, w.Context, true)
}

// blockBackward returns the gradient by block l's input, given that by its output, which it
// overwrites. The last block's input is the whole stream.
func (n *network[T]) blockBackward(l int, dx, stream kernel.Matrix[T]) kernel.Matrix[T] {
	p, w, g, d := &n.blocks[l], &n.w.Blocks[l], &n.g.Blocks[l], n.form.Width
	dh := n.linearBackward(dx, p.gelu, &w.Down, &g.Down)
	kernel.GeluBackward(dh.Data, dh.Data, p.sum.Data)
	dh = n.linearBackward(dh, p.h2, &w.Up, &g.Up)
	kernel.LayerNormBackward(dx, dh, p.x2, w.Norm2.Gain.Data, p.stats2.mean, p.stats2.rstd, g.Norm2.Gain.Data, g.Norm2.Bias.Data, true)
	dmixed := n.linearBackward(dx, p.mixed, &w.Proj, &g.Proj)

	dh1 := n.arena.Matrix(p.h1.Rows, d)
	if l < len(n.blocks)-1 {
		dqkv := n.arena.Matrix(p.h1.Rows, 3*d)
		n.attendBackward(p, dmixed, columns(dqkv, 0, d), columns(dqkv, d, 2*d), columns(dqkv, 2*d, 3*d))
		n.linearBackwardInto(dh1, dqkv, p.h1, &w.QKV, &g.QKV)
	} else {
		dq, dkv := n.arena.Matrix(p.q.Rows, d), n.arena.Matrix(p.h1.Rows, 2*d)
		n.attendBackward(p, dmixed, dq, columns(dkv, 0, d), columns(dkv, d, 2*d))
		kernel.MatMulTransA(columns(g.QKV.Weight, 0, d), perSlot(p.h1, 1), dq, true)
		kernel.AddBiasBackward(g.QKV.Bias.Data[:d], dq)
		kernel.MatMulTransA(columns(g.QKV.Weight, d, 3*d), p.h1, dkv, true)
		kernel.AddBiasBackward(g.QKV.Bias.Data[d:], dkv)
		kernel.MatMulTransB(dh1, dkv, columns(w.QKV.Weight, d, 3*d), false)
		kernel.MatMulTransB(perSlot(dh1, 1), dq, columns(w.QKV.Weight, 0, d), true)
		// The stream itself: only its s* rows went on.
		clear(stream.Data)
		for s := range dx.Rows {
			copy(perSlot(stream, 1).Row(s), dx.Row(s))
		}
		dx = stream
	}
	kernel.LayerNormBackward(dx, dh1, p.x, w.Norm1.Gain.Data, p.stats1.mean, p.stats1.rstd, g.Norm1.Gain.Data, g.Norm1.Bias.Data, true)
	return dx
}

func (n *network[T]) attendBackward(p *pass[T], dmixed, dq, dk, dv kernel.Matrix[T]) {
	scale := T(1 / math.Sqrt(float64(n.form.Width/n.form.Heads)))
	context := model.TokensPerSlot * n.form.Context
	memory := n.arena.Take(context * context)
	n.eachWindow(p, func(i, q0, q1, k0, k1, c0, c1 int) {
		a, dout := p.attention[i], dmixed.Slice(q0, q1, c0, c1)
		kernel.MatMulTransA(dv.Slice(k0, k1, c0, c1), a, dout, false)
		da := kernel.View(memory[:a.Rows*a.Cols], a.Rows, a.Cols)
		kernel.MatMulTransB(da, dout, p.v.Slice(k0, k1, c0, c1), false)
		for i := range a.Rows {
			row, seen := da.Row(i), p.seen(i)
			kernel.SoftmaxBackward(row[:seen], row[:seen], a.Row(i)[:seen])
			clear(row[seen:])
		}
		kernel.Scale(da.Data, scale)
		kernel.MatMul(dq.Slice(q0, q1, c0, c1), da, p.k.Slice(k0, k1, c0, c1), false)
		kernel.MatMulTransA(dk.Slice(k0, k1, c0, c1), da, p.q.Slice(q0, q1, c0, c1), false)
	})
}

func (n *network[T]) poolBackward(dpooled kernel.Matrix[T]) {
	w, g, f := n.w, n.g, n.form
	m, d, heads := f.Aircraft, f.Width, f.Heads
	dgathered := n.linearBackward(dpooled, n.gathered, &w.UserOut, &g.UserOut)
	dq, dk, dv := n.arena.Matrix(n.query.Rows, d), n.arena.Matrix(n.key.Rows, d), n.arena.Matrix(n.value.Rows, d)
	clear(dq.Data)
	dh := d / heads
	scale := T(1 / math.Sqrt(float64(dh)))
	first := 0
	var weights [256]T // users of a slot, as many as a count of them can be
	for s, users := range n.batch.userCounts {
		for k := range m {
			q, dquery, dout := n.query.Row(s*m+k), dq.Row(s*m+k), dgathered.Row(s*m+k)
			for h := range heads {
				low, high := h*dh, (h+1)*dh
				p, dp := n.weights.Row(h)[first*m+k*users:][:users], weights[:users]
				for u := range p {
					row := (first+u)*m + k
					dp[u] = kernel.Dot(dout[low:high], n.value.Row(row)[low:high])
					copy(dv.Row(row)[low:high], dout[low:high])
					kernel.Scale(dv.Row(row)[low:high], p[u])
				}
				kernel.SoftmaxBackward(dp, dp, p)
				for u := range p {
					row, c := (first+u)*m+k, scale*dp[u]
					kernel.AddScaled(dquery[low:high], c, n.key.Row(row)[low:high])
					copy(dk.Row(row)[low:high], q[low:high])
					kernel.Scale(dk.Row(row)[low:high], c)
				}
			}
		}
		first += users
	}
	pairs := kernel.View(n.users.Data, n.users.Rows*m, len(f.UserFeatures))
	kernel.MatMulTransA(g.UserQuery, n.aircraft, dq, true)
	kernel.MatMulTransA(g.UserKey, pairs, dk, true)
	kernel.MatMulTransA(g.UserValue, pairs, dv, true)
}

// Terms are the sums over slots and users of each term of the loss.
type Terms struct{ Association, Offload, Flight, Right float64 }

func (t *Terms) add(o Terms) {
	t.Association += o.Association
	t.Offload += o.Offload
	t.Flight += o.Flight
	t.Right += o.Right
}

// loss is the mixed imitation loss, Sec. IV-B: squared errors of the continuous actions, a
// mean over the flight controls and one over the offload ratios, and cross-entropy of the
// association, equally weighted. It sets the gradients by the outputs, where slots and
// users are those that the means are over.
//
// The error of a heading, every other flight control, is around the circle: between 1 and -1, which are
// one heading, it is 0, where the plain difference has its least mean at the opposite heading.
func (n *network[T]) loss(slots, users int) (sum Terms) {
	squared := func(y kernel.Matrix[T], want []float32, weight float64, headings bool) (kernel.Matrix[T], float64) {
		dy, sum := n.arena.Matrix(y.Rows, y.Cols), 0.0
		for i, v := range y.Data {
			off := float64(v) - float64(want[i])
			if headings && i%2 == 1 {
				off = math.Remainder(off, 2)
			}
			sum += weight * off * off
			dy.Data[i] = T(2 * weight * off)
		}
		return dy, sum
	}
	n.dmotion, sum.Flight = squared(n.motion, n.batch.motion, 1/float64(slots*n.motion.Cols), true)
	n.doffload, sum.Offload = squared(n.offload, n.batch.offload, 1/float64(max(users, 1)), false)
	n.dchoice = n.arena.Matrix(n.choice.Rows, n.choice.Cols)
	k := 1 / float64(max(users, 1))
	for u, want := range n.batch.server {
		logits := n.choice.Row(u)
		best, top := 0, logits[0]
		for i, v := range logits {
			if v > top {
				best, top = i, v
			}
		}
		total := 0.0
		n.logits = n.logits[:0]
		for _, v := range logits {
			p := math.Exp(float64(v - top))
			n.logits = append(n.logits, p)
			total += p
		}
		sum.Association += k * (math.Log(total) - float64(logits[want]-top))
		if best == want {
			sum.Right += k
		}
		for i, p := range n.logits {
			grad := p / total
			if i == want {
				grad--
			}
			n.dchoice.Row(u)[i] = T(k * grad)
		}
	}
	return sum
}

// Loss is the sum of the terms that is minimised.
func (t Terms) Loss() float64 { return t.Association + t.Offload + t.Flight }
