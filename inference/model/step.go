package model

import (
	"fmt"
	"math"

	"prefdt/inference/kernel"
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
	SkipChoice    bool      // set by a caller that reads no Choice: most of what a pair costs
	Move          []float32 // (M, 2) east and north, each in (-1, 1)
	Choice        []float32 // (M, U, Choices)
	FrontPosition float32   // y on the price curve
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
	for range n.Arch.Layers {
		c.keys = append(c.keys, kernel.View(make([]float32, d*ring), d, ring))
		c.values = append(c.values, kernel.View(make([]float32, ring*d), ring, d))
	}
	return c
}

// Reset starts another mission.
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
	w, s := n.weights, &c.arena
	s.reset()
	d, heads, M, U := n.Arch.Width, n.Arch.Heads, in.NumAircraft, in.NumUsers

	// Sets: each aircraft gathers its users, the state token its aircraft.
	a0 := s.gelu(s.linear(&w.Aircraft, kernel.View(in.Aircraft, M, AircraftFeatures))) // (M, d)
	z := s.gelu(s.linear(&w.Pair, kernel.View(in.Pairs, M*U, PairFeatures)))           // (M*U, p)

	q, pooled := s.matMul(&w.UserQuery, a0), s.alloc(M, d)
	for m := range M {
		n.gatherUsers(s, pooled.Slice(m, m+1, 0, d), q.Slice(m, m+1, 0, d), z.Slice(m*U, (m+1)*U, 0, z.Cols))
	}
	a2 := s.linear(&w.UserOut, pooled)
	kernel.Add(a2.Data, a0.Data) // A1
	h := s.linear(&w.EncoderDown, s.gelu(s.linear(&w.EncoderUp, s.norm(&w.EncoderNorm, a2))))
	kernel.Add(a2.Data, h.Data) // A2 (M, d)

	fleet, query := s.alloc(1, d), s.alloc(1, d)
	copy(query.Data, w.FleetQuery.vector)
	attendSet(s, fleet, query, s.matMul(&w.FleetKey, a2), s.matMul(&w.FleetValue, a2), heads)

	// The slot's three tokens: action before, return, state.
	x := s.alloc(TokensPerSlot, d)
	copy(x.Row(0), s.linear(&w.ActionToken, row(in.Action)).Data)
	copy(x.Row(1), s.linear(&w.ReturnToken, row(in.Return)).Data)
	copy(x.Row(2), s.linear(&w.StateToken, row(in.State)).Data)
	kernel.Add(x.Row(2), s.matMul(&w.FleetOut, fleet).Data)

	// Transformer over the last Context slots.
	here := c.slots % n.Arch.Context * TokensPerSlot         // this slot's first token in the ring
	filled := min(c.slots+1, n.Arch.Context) * TokensPerSlot // tokens of the ring in use
	for l := range w.Blocks {
		b := &w.Blocks[l]
		qkv := s.linear(&b.QKV, s.norm(&b.Norm1, x)) // (3, 3d)
		for i := range TokensPerSlot {
			for j, x := range qkv.Row(i)[d : 2*d] {
				c.keys[l].Data[j*c.keys[l].Stride+here+i] = x
			}
			copy(c.values[l].Row(here+i), qkv.Row(i)[2*d:])
		}
		first := 0
		if l == len(w.Blocks)-1 { // e needs the state token alone
			first = 2
			x = x.Slice(2, 3, 0, d)
		}
		mixed := s.alloc(TokensPerSlot-first, d)
		attend(s, mixed, qkv.Slice(first, TokensPerSlot, 0, d), c.keys[l], c.values[l], heads, filled, here+first)
		kernel.Add(x.Data, s.linear(&b.Proj, mixed).Data)
		kernel.Add(x.Data, s.linear(&b.Down, s.gelu(s.linear(&b.Up, s.norm(&b.Norm2, x)))).Data)
	}
	c.slots++
	e := s.norm(&w.Final, x) // (1, d)

	// Flight, per aircraft.
	h = s.linear(&w.HeadAircraft, a2)
	kernel.AddBias(h, s.matMul(&w.HeadContext, e).Data)
	s.gelu(h) // H0
	mean := s.alloc(1, d)
	clear(mean.Data)
	for m := range M {
		kernel.Add(mean.Data, h.Row(m))
	}
	for i := range mean.Data {
		mean.Data[i] /= float32(M)
	}
	kernel.AddBias(h, s.matMul(&w.HeadFleetMean, mean).Data) // H
	out.Move = append(out.Move[:0], s.linear(&w.Flight, h).Data...)
	for i, v := range out.Move {
		out.Move[i] = float32(math.Tanh(float64(v)))
	}

	// Price.
	out.FrontPosition = s.linear(&w.PriceOut, s.gelu(s.linear(&w.PriceHidden, e))).Data[0]

	// Choice, per aircraft and user.
	if out.Choice = out.Choice[:0]; out.SkipChoice {
		return
	}
	each := s.matMul(&w.ChoiceAircraft, h) // (M, p)
	kernel.AddBias(each, s.matMul(&w.ChoiceContext, e).Data)
	c0 := s.linear(&w.ChoicePair, z)
	for m := range M {
		kernel.AddBias(c0.Slice(m*U, (m+1)*U, 0, c0.Cols), each.Row(m))
	}
	out.Choice = append(out.Choice, s.linear(&w.ChoiceOut, s.gelu(s.linear(&w.ChoiceHidden, s.gelu(c0)))).Data...)
}

// attend sets dst (rows, d) to what the queries gather from the first filled
// tokens of a ring, keys (d, ring) and values (ring, d), head by head, eq.
// (attn). Query i is token own+i and does not see those of its own slot that
// come after it. The queries are overwritten.
func attend(s *arena, dst, q, k, v matrix, heads, filled, own int) {
	width := dst.Cols / heads
	scores := s.alloc(q.Rows, v.Rows)
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
func attendSet(s *arena, dst, q, k, v matrix, heads int) {
	width := dst.Cols / heads
	scores := s.alloc(1, k.Rows)
	kernel.Scale(q.Data, float32(1/math.Sqrt(float64(width))))
	for c := 0; c < dst.Cols; c += width {
		kernel.MatMulTransB(scores, q.Slice(0, 1, c, c+width), k.Slice(0, k.Rows, c, c+width), false)
		kernel.Softmax(scores.Data)
		kernel.MatMul(dst.Slice(0, 1, c, c+width), scores, v.Slice(0, v.Rows, c, c+width), false)
	}
}

// gatherUsers sets the row dst (d) to what an aircraft's query gathers from its pairs
// z (U, p), head by head: attention over the keys z·pool.k and the values z·pool.v. A
// weighted mean of products is the product of the weighted mean, so that neither is
// computed for any pair: the query is multiplied by pool.k's transpose, and the mean by
// pool.v. No users give zero.
func (n *Net) gatherUsers(s *arena, dst, q, z matrix) {
	p, heads, width := z.Cols, n.Arch.Heads, n.Arch.Width/n.Arch.Heads
	key, value := kernel.View(n.weights.UserKey.vector, p, n.Arch.Width), kernel.View(n.weights.UserValue.vector, p, n.Arch.Width)
	queries, means, scores := s.alloc(heads, p), s.alloc(heads, p), s.alloc(heads, z.Rows)
	kernel.Scale(q.Data, float32(1/math.Sqrt(float64(width))))
	for h := range heads {
		c := h * width
		kernel.MatMulTransB(queries.Slice(h, h+1, 0, p), q.Slice(0, 1, c, c+width), key.Slice(0, p, c, c+width), false)
	}
	kernel.MatMulTransB(scores, queries, z, false)
	for h := range heads {
		kernel.Softmax(scores.Row(h))
	}
	kernel.MatMul(means, scores, z, false)
	for h := range heads {
		c := h * width
		kernel.MatMul(dst.Slice(0, 1, c, c+width), means.Slice(h, h+1, 0, p), value.Slice(0, p, c, c+width), false)
	}
}

func (in *Inputs) check() {
	if in.NumAircraft < 1 || in.NumUsers < 0 || len(in.Aircraft) != in.NumAircraft*AircraftFeatures ||
		len(in.Pairs) != in.NumAircraft*in.NumUsers*PairFeatures ||
		len(in.State) != StateFeatures || len(in.Return) != ReturnFeatures || len(in.Action) != ActionFeatures {
		panic(fmt.Sprintf("model: a step of %d aircraft and %d users has rows of %d, %d, %d, %d and %d numbers", in.NumAircraft,
			in.NumUsers,
			len(in.Aircraft), len(in.Pairs), len(in.State), len(in.Return), len(in.Action)))
	}
}
