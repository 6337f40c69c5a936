package model

import (
	"fmt"
	"math"

	"prefdt/inference/kernel"
	"prefdt/inference/reuse"
)

type matrix = kernel.Matrix[float32]

// Inputs are the rows of one slot, standardised, as package token fills them.
type Inputs struct {
	NumAircraft, NumUsers int       // aircraft, at least one; users with a task, possibly none
	Aircraft              []float32 // (M, AircraftFeatures)
	Pairs                 []float32 // (M, U, PairFeatures)
	State                 []float32 // (StateFeatures)
	Return                []float32 // (ReturnFeatures)
	Action                []float32 // (ActionFeatures)
}

// Outputs are what a step computes. Their rows grow once and are reused.
type Outputs struct {
	Move          []float32 // (M, 2) east and north, each in (-1, 1)
	Choice        []float32 // (M, U, Choices)
	FrontPosition float32   // y on the price axis
}

// Cache is one mission's memory: per layer, a ring with the keys and values of
// the last Context slots. A slot's tokens overwrite those of the slot that
// leaves the window. Nothing in the network depends on where in the ring a
// token lies, so the ring is read in the order it is stored. Keys lie
// transposed, a column for each token, so that scores are rows times a matrix;
// the ring is rounded up to whole vectors, and what is not in use is masked.
type Cache struct {
	keys, values []matrix // per layer (d, ring) and (ring, d)
	slots        int      // steps so far
	arena        arena
}

// NewCache returns the memory of a mission that begins.
func (n *Net) NewCache() *Cache {
	c := &Cache{}
	ring, d := (TokensPerSlot*n.Arch.Context+7)&^7, n.Arch.Width
	for range n.blocks {
		c.keys = append(c.keys, kernel.View(make([]float32, d*ring), d, ring))
		c.values = append(c.values, kernel.View(make([]float32, ring*d), ring, d))
	}
	return c
}

// Reset forgets the mission.
func (c *Cache) Reset() {
	c.slots = 0
	for _, v := range c.values {
		clear(v.Data) // what is masked has a weight of zero, and must be finite
	}
}

// Slots returns how many steps were taken since the mission began.
func (c *Cache) Slots() int { return c.slots }

// Step computes one slot, reading and extending the cache. The package comment
// gives its formulas. It does not allocate once the buffers have seen as many
// aircraft and users. Rows that do not fit M and U are a programmer's error
// and panic.
func (n *Net) Step(in *Inputs, c *Cache, out *Outputs) {
	in.check()
	w := &c.arena
	w.reset()
	d, heads, M, U := n.Arch.Width, n.Arch.Heads, in.NumAircraft, in.NumUsers

	// Sets: each aircraft gathers its users, the state token its aircraft.
	a0 := w.gelu(w.linear(&n.aircraft, kernel.View(in.Aircraft, M, AircraftFeatures))) // (M, d)
	z := w.gelu(w.linear(&n.pair, kernel.View(in.Pairs, M*U, PairFeatures)))           // (M*U, p)

	q, k, v := w.linear(&n.poolQ, a0), w.linear(&n.poolK, z), w.linear(&n.poolV, z)
	pooled := w.alloc(M, d)
	for m := range M {
		first, end := m*U, (m+1)*U
		attendSet(w, pooled.Slice(m, m+1, 0, d), q.Slice(m, m+1, 0, d), k.Slice(first, end, 0, d), v.Slice(first, end, 0, d), heads)
	}
	a2 := w.linear(&n.poolO, pooled)
	kernel.Add(a2.Data, a0.Data) // A1
	h := w.linear(&n.aircraftFC2, w.gelu(w.linear(&n.aircraftFC1, w.norm(&n.aircraftNorm, a2))))
	kernel.Add(a2.Data, h.Data) // A2 (M, d)

	fleet, query := w.alloc(1, d), w.alloc(1, d)
	copy(query.Data, n.fleetQ)
	attendSet(w, fleet, query, w.linear(&n.fleetK, a2), w.linear(&n.fleetV, a2), heads)

	// The slot's three tokens: action before, return, state.
	x := w.alloc(TokensPerSlot, d)
	w.linearInto(x.Slice(0, 1, 0, d), &n.actionToken, in.Action)
	w.linearInto(x.Slice(1, 2, 0, d), &n.returnToken, in.Return)
	w.linearInto(x.Slice(2, 3, 0, d), &n.stateToken, in.State)
	kernel.Add(x.Row(2), w.linear(&n.fleetO, fleet).Data)

	// Transformer over the last Context slots.
	here := c.slots % n.Arch.Context * TokensPerSlot         // this slot's place in the ring
	filled := min(c.slots+1, n.Arch.Context) * TokensPerSlot // tokens of the ring in use
	for l := range n.blocks {
		b := &n.blocks[l]
		qkv := w.linear(&b.qkv, w.norm(&b.norm1, x)) // (3, 3d)
		for i := range TokensPerSlot {
			for j, x := range qkv.Row(i)[d : 2*d] {
				c.keys[l].Data[j*c.keys[l].Stride+here+i] = x
			}
			copy(c.values[l].Row(here+i), qkv.Row(i)[2*d:])
		}
		first := 0
		if l == len(n.blocks)-1 { // e needs the state token alone
			first = 2
			x = x.Slice(2, 3, 0, d)
		}
		mixed := w.alloc(TokensPerSlot-first, d)
		attend(w, mixed, qkv.Slice(first, TokensPerSlot, 0, d), c.keys[l], c.values[l], heads, filled, here+first)
		kernel.Add(x.Data, w.linear(&b.proj, mixed).Data)
		kernel.Add(x.Data, w.linear(&b.out, w.gelu(w.linear(&b.fc, w.norm(&b.norm2, x)))).Data)
	}
	c.slots++
	e := w.norm(&n.final, x) // (1, d)

	// Flight, per aircraft.
	h = w.linear(&n.headAircraft, a2)
	kernel.AddBias(h, w.linear(&n.headContext, e).Data)
	w.gelu(h) // H0
	mean := w.alloc(1, d)
	clear(mean.Data)
	for m := range M {
		kernel.Add(mean.Data, h.Row(m))
	}
	for i := range mean.Data {
		mean.Data[i] /= float32(M)
	}
	kernel.AddBias(h, w.linear(&n.headFleetMean, mean).Data) // H
	out.Move = reuse.Slice(out.Move, M*2)
	n.flight.w.MatMul(kernel.View(out.Move, M, 2), h, n.flight.b)
	for i, v := range out.Move {
		out.Move[i] = float32(math.Tanh(float64(v)))
	}

	// Choice, per aircraft and user.
	each := w.linear(&n.choiceAircraft, h) // (M, p)
	kernel.AddBias(each, w.linear(&n.choiceContext, e).Data)
	c0 := w.linear(&n.choicePair, z)
	for m := range M {
		kernel.AddBias(c0.Slice(m*U, (m+1)*U, 0, c0.Cols), each.Row(m))
	}
	out.Choice = reuse.Slice(out.Choice, M*U*ChoiceOutputs)
	n.choiceOut.w.MatMul(kernel.View(out.Choice, M*U, ChoiceOutputs), w.gelu(w.linear(&n.choiceHidden, w.gelu(c0))), n.choiceOut.b)

	// Price.
	out.FrontPosition = w.linear(&n.priceOut, w.gelu(w.linear(&n.priceHidden, e))).Data[0]
}

// attend sets dst (rows, d) to what the queries gather from the first filled
// tokens of a ring, keys (d, ring) and values (ring, d), head by head, eq.
// (attn). Query i is token own+i and does not see those of its own slot that
// come after it. The queries are overwritten.
func attend(w *arena, dst, q, k, v matrix, heads, filled, own int) {
	width := dst.Cols / heads
	scores := w.alloc(q.Rows, v.Rows)
	for i := range q.Rows {
		kernel.Scale(q.Row(i), float32(1/math.Sqrt(float64(width))))
	}
	for c := 0; c < dst.Cols; c += width {
		kernel.MatMul(scores, q.Slice(0, q.Rows, c, c+width), k.Slice(c, c+width, 0, k.Cols), false)
		for i := range scores.Rows {
			row := scores.Row(i)
			maskScores(row[own+i+1 : own+q.Rows])
			maskScores(row[filled:])
			kernel.Softmax(row)
		}
		kernel.MatMul(dst.Slice(0, dst.Rows, c, c+width), scores, v.Slice(0, v.Rows, c, c+width), false)
	}
}

func maskScores(scores []float32) {
	for i := range scores {
		scores[i] = float32(math.Inf(-1))
	}
}

// attendSet sets the row dst to what one query gathers from a set, keys and
// values (n, d); an empty set gives zero.
func attendSet(w *arena, dst, q, k, v matrix, heads int) {
	width := dst.Cols / heads
	scores := w.alloc(1, k.Rows)
	kernel.Scale(q.Data, float32(1/math.Sqrt(float64(width))))
	for c := 0; c < dst.Cols; c += width {
		kernel.MatMulTransB(scores, q.Slice(0, 1, c, c+width), k.Slice(0, k.Rows, c, c+width), false)
		kernel.Softmax(scores.Data)
		kernel.MatMul(dst.Slice(0, 1, c, c+width), scores, v.Slice(0, v.Rows, c, c+width), false)
	}
}

func (in *Inputs) check() {
	if in.NumAircraft < 1 || in.NumUsers < 0 || len(in.Aircraft) != in.NumAircraft*AircraftFeatures || len(in.Pairs) != in.NumAircraft*in.NumUsers*PairFeatures ||
		len(in.State) != StateFeatures || len(in.Return) != ReturnFeatures || len(in.Action) != ActionFeatures {
		panic(fmt.Sprintf("model: a step of %d aircraft and %d users has rows of %d, %d, %d, %d and %d numbers", in.NumAircraft, in.NumUsers,
			len(in.Aircraft), len(in.Pairs), len(in.State), len(in.Return), len(in.Action)))
	}
}
