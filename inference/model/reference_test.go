package model

import (
	"math"

	"prefdt/inference/kernel"
)

// matrix64 is a matrix in float64, for the naive reference of a whole episode.
type matrix64 [][]float64

// reference computes every slot of an episode from the package comment's
// formulas, with all tokens in view and the sliding mask, and no cache.
type reference struct {
	Arch
	w map[string]matrix64
}

func newReference(a Arch, parameters []float32) *reference {
	r := &reference{a, map[string]matrix64{}}
	for _, t := range a.Tensors() {
		m := make(matrix64, t.Rows)
		for i := range m {
			for _, v := range parameters[:t.Cols] {
				if t.IsMatrix() {
					v = kernel.FromFloat16(kernel.ToFloat16(v))
				}
				m[i] = append(m[i], float64(v))
			}
			parameters = parameters[t.Cols:]
		}
		r.w[t.Name] = m
	}
	return r
}

func (r *reference) linear(x matrix64, w, b string) matrix64 {
	y := make(matrix64, len(x))
	for i := range x {
		y[i] = make([]float64, len(r.w[w][0]))
		for j := range y[i] {
			for k, v := range x[i] {
				y[i][j] += v * r.w[w][k][j]
			}
			if b != "" {
				y[i][j] += r.w[b][0][j]
			}
		}
	}
	return y
}

func (r *reference) norm(x matrix64, gain, bias string) matrix64 {
	y := make(matrix64, len(x))
	for i := range x {
		var mean, variance float64
		for _, v := range x[i] {
			mean += v / float64(len(x[i]))
		}
		for _, v := range x[i] {
			variance += (v - mean) * (v - mean) / float64(len(x[i]))
		}
		for j, v := range x[i] {
			y[i] = append(y[i], (v-mean)/math.Sqrt(variance+NormEpsilon)*r.w[gain][0][j]+r.w[bias][0][j])
		}
	}
	return y
}

func gelu(x matrix64) matrix64 {
	for i := range x {
		for j, v := range x[i] {
			x[i][j] = 0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
		}
	}
	return x
}

func addRows(x, y matrix64) matrix64 {
	sum := make(matrix64, len(x))
	for i := range x {
		for j := range x[i] {
			sum[i] = append(sum[i], x[i][j]+y[min(i, len(y)-1)][j]) // one row is added to all
		}
	}
	return sum
}

// attention gathers, for each query i, the values of the keys it sees.
func (r *reference) attention(q, k, v matrix64, sees func(i, j int) bool) matrix64 {
	width := r.Width / r.Heads
	out := make(matrix64, len(q))
	for i := range q {
		out[i] = make([]float64, r.Width)
		for c := 0; c < r.Width; c += width {
			total := 0.0
			weight := make([]float64, len(k))
			for j := range k {
				if !sees(i, j) {
					continue
				}
				dot := 0.0
				for h := c; h < c+width; h++ {
					dot += q[i][h] * k[j][h]
				}
				weight[j] = math.Exp(dot / math.Sqrt(float64(width)))
				total += weight[j]
			}
			for j := range k {
				for h := c; h < c+width && total > 0; h++ {
					out[i][h] += weight[j] / total * v[j][h]
				}
			}
		}
	}
	return out
}

func toMatrix64(x []float32, n, cols int) matrix64 {
	m := make(matrix64, n)
	for i := range m {
		for _, v := range x[i*cols : (i+1)*cols] {
			m[i] = append(m[i], float64(v))
		}
	}
	return m
}

func columns(x matrix64, first, end int) matrix64 {
	y := make(matrix64, len(x))
	for i := range x {
		y[i] = x[i][first:end]
	}
	return y
}

// episode returns move, choice and price of every slot, flattened.
func (r *reference) episode(inputs []*Inputs) [][]float64 {
	d := r.Width
	all := func(i, j int) bool { return true }
	var x matrix64         // the stream, three tokens a slot
	var a2s, zs []matrix64 // per slot
	for _, in := range inputs {
		a0 := gelu(r.linear(toMatrix64(in.Aircraft, in.NumAircraft, AircraftFeatures), "aircraft.w", "aircraft.b"))
		z := gelu(r.linear(toMatrix64(in.Pairs, in.NumAircraft*in.NumUsers, PairFeatures), "pair.w", "pair.b"))
		mine := func(m, j int) bool { return j/in.NumUsers == m }
		p := r.attention(r.linear(a0, "pool.q", ""), r.linear(z, "pool.k", ""), r.linear(z, "pool.v", ""), mine)
		a1 := addRows(a0, r.linear(p, "pool.o", "pool.ob"))
		a2 := addRows(a1, r.linear(gelu(r.linear(r.norm(a1, "craft.ng", "craft.nb"), "craft.w1", "craft.b1")), "craft.w2", "craft.b2"))
		f := r.attention(r.w["fleet.q"], r.linear(a2, "fleet.k", ""), r.linear(a2, "fleet.v", ""), all)
		s := addRows(r.linear(f, "fleet.o", ""), r.linear(toMatrix64(in.State, 1, StateFeatures), "state.w", "state.b"))
		x = append(x, r.linear(toMatrix64(in.Action, 1, ActionFeatures), "action.w", "action.b")...)
		x = append(x, r.linear(toMatrix64(in.Return, 1, ReturnFeatures), "return.w", "return.b")...)
		x = append(x, s...)
		a2s, zs = append(a2s, a2), append(zs, z)
	}
	window := func(i, j int) bool { return j <= i && j/TokensPerSlot > i/TokensPerSlot-r.Context }
	for l := range r.Layers {
		name := func(s string) string { return BlockTensor(l, s) }
		qkv := r.linear(r.norm(x, name("n1g"), name("n1b")), name("qkv.w"), name("qkv.b"))
		mixed := r.attention(columns(qkv, 0, d), columns(qkv, d, 2*d), columns(qkv, 2*d, 3*d), window)
		x = addRows(x, r.linear(mixed, name("proj.w"), name("proj.b")))
		x = addRows(x, r.linear(gelu(r.linear(r.norm(x, name("n2g"), name("n2b")), name("fc.w"), name("fc.b"))), name("out.w"),
			name("out.b")))
	}
	var out [][]float64
	for t, in := range inputs {
		e := r.norm(x[3*t+2:3*t+3], "final.g", "final.b")
		h := gelu(addRows(r.linear(a2s[t], "craft.a", "craft.hb"), r.linear(e, "craft.e", "")))
		mean := matrix64{make([]float64, d)}
		for _, row := range h {
			for j, v := range row {
				mean[0][j] += v / float64(in.NumAircraft)
			}
		}
		h = addRows(h, r.linear(mean, "craft.mix", ""))
		var flat []float64
		for _, row := range r.linear(h, "flight.w", "flight.b") {
			flat = append(flat, math.Tanh(row[0]), math.Tanh(row[1]))
		}
		each := addRows(r.linear(h, "choice.a", ""), r.linear(e, "choice.e", ""))
		c := r.linear(zs[t], "choice.p", "choice.b")
		for i := range c {
			c[i] = addRows(c[i:i+1], each[i/in.NumUsers:i/in.NumUsers+1])[0]
		}
		for _, row := range r.linear(gelu(r.linear(gelu(c), "choice.w", "choice.wb")), "choice.o", "choice.ob") {
			flat = append(flat, row...)
		}
		price := r.linear(gelu(r.linear(e, "price.w", "price.b")), "price.o", "price.ob")
		out = append(out, append(flat, price[0][0]))
	}
	return out
}
