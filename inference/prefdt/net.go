package prefdt

import (
	"fmt"
	"math"
	"slices"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

type matrix = kernel.Matrix[float32]

// Net is a network ready to step. It does not change, so any number of missions may share
// it, each with a Memory of its own.
type Net struct {
	Form    Form
	weights *Weights[stored]
}

// stored is a parameter as the step reads it: a matrix packed, in float16, or a vector.
// What is looked up or read by columns is also kept as rows, of the same values.
type stored struct {
	matrix *kernel.Packed
	rows   matrix
}

// NewNet lays out parameters, in the order of Tensors. Weights are rounded to float16, as
// the exported graph stores them; the parameters are not kept.
func NewNet(f *Form, parameters []float32) (*Net, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	if len(parameters) != f.Parameters() {
		return nil, fmt.Errorf("network of %d parameters, this form has %d", len(parameters), f.Parameters())
	}
	return &Net{Form: *f, weights: MapWeights(f, func(t model.Tensor) stored {
		values := parameters[:t.Size()]
		parameters = parameters[t.Size():]
		if !t.IsMatrix() {
			return stored{rows: kernel.View(slices.Clone(values), t.Rows, t.Cols)}
		}
		half := make([]uint16, len(values))
		for i, v := range values {
			half[i] = kernel.ToFloat16(v)
		}
		s := stored{matrix: kernel.PackFloat16(half, t.Rows, t.Cols)}
		if t.Name == "time.e" {
			s.rows = kernel.View(make([]float32, len(half)), t.Rows, t.Cols)
			for i, h := range half {
				s.rows.Data[i] = kernel.FromFloat16(h)
			}
		}
		return s
	})}, nil
}

// Inputs are the rows of one slot, standardised, as Builder fills them.
type Inputs struct {
	Slot     int       // of the mission, from 0
	NumUsers int       // with a task, possibly none
	Aircraft []float32 // (M, AircraftFeatures)
	Users    []float32 // (N, M, FU)
	Return   []float32 // (ReturnFeatures)
	Omega    float32   // the preference
	Action   []float32 // (M, ActionFeatures) of the slot before; unused in the first
	Before   int       // the slot before; -1 in the first, which empties the memory
}

// Outputs are what a step computes. Their rows grow once and are reused.
type Outputs struct {
	Motion  []float32 // (M, 2) length and heading, each in (-1, 1)
	Choice  []float32 // (N, M+1) logits of the association, 0 is local
	Offload []float32 // (N) in (-1, 1)
}

// Memory is one mission's: the tokens of the slots before, oldest first, as they entered
// the stream, and working memory.
type Memory struct {
	tokens matrix // (PastTokens + 3, d); the last three are the present slot's
	filled int    // tokens of the slots before, -1 in the first
	buffer []float32
	used   int
}

// NewMemory returns the memory of a mission that begins.
func (n *Net) NewMemory() *Memory {
	rows := n.Form.PastTokens() + model.TokensPerSlot
	return &Memory{tokens: kernel.View(make([]float32, rows*n.Form.Width), rows, n.Form.Width)}
}

// alloc lends a matrix of undefined numbers until the next step.
func (mem *Memory) alloc(rows, cols int) matrix {
	n := rows * cols
	first := mem.used
	mem.used += (n + 15) &^ 15
	if mem.used > len(mem.buffer) {
		return kernel.View(make([]float32, n), rows, cols)
	}
	return kernel.View(mem.buffer[first:first+n:first+n], rows, cols)
}

func (mem *Memory) linear(l *model.Linear[stored], x matrix) matrix {
	_, cols := l.Weight.matrix.Size()
	y := mem.alloc(x.Rows, cols)
	l.Weight.matrix.MatMul(y, x, l.Bias.rows.Data)
	return y
}

func (mem *Memory) matMul(w *stored, x matrix) matrix {
	return mem.linear(&model.Linear[stored]{Weight: *w}, x)
}

func (mem *Memory) norm(n *model.Norm[stored], x matrix) matrix {
	y, mean, rstd := mem.alloc(x.Rows, x.Cols), mem.alloc(1, x.Rows), mem.alloc(1, x.Rows)
	kernel.LayerNorm(y, x, n.Gain.rows.Data, n.Bias.rows.Data, model.NormEpsilon, mean.Data, rstd.Data)
	return y
}

func (mem *Memory) mlp(up, down *model.Linear[stored], x matrix) matrix {
	h := mem.linear(up, x)
	kernel.Gelu(h.Data, h.Data)
	return mem.linear(down, h)
}

// Step computes one slot on the window that ends with it; the package comment gives its
// formulas. It does not allocate once the buffers have seen as many users. A slot beyond
// the embeddings is a programmer's error and panics, as rows that do not fit are.
func (n *Net) Step(in *Inputs, mem *Memory, out *Outputs) {
	f, w := &n.Form, n.weights
	in.check(f)
	if mem.used > len(mem.buffer) {
		mem.buffer = make([]float32, mem.used+mem.used/4)
	}
	mem.used = 0
	d, heads := f.Width, f.Heads
	x := mem.advance(n, in)

	for l := range w.Blocks {
		b := &w.Blocks[l]
		qkv := mem.linear(&b.QKV, mem.norm(&b.Norm1, x))
		first := 0
		if l == len(w.Blocks)-1 { // e needs the state token alone
			first = x.Rows - 1
		}
		mixed := mem.alloc(x.Rows-first, d)
		scores := mem.alloc(x.Rows-first, x.Rows)
		dh := d / heads
		for c := 0; c < d; c += dh {
			q := qkv.Slice(first, x.Rows, c, c+dh)
			kernel.MatMulTransB(scores, q, qkv.Slice(0, x.Rows, d+c, d+c+dh), false)
			for i := range scores.Rows {
				row, seen := scores.Row(i), first+i+1
				kernel.Scale(row[:seen], float32(1/math.Sqrt(float64(dh))))
				clear(row[seen:])
				kernel.Softmax(row[:seen])
			}
			kernel.MatMul(mixed.Slice(0, mixed.Rows, c, c+dh), scores, qkv.Slice(0, x.Rows, 2*d+c, 2*d+c+dh), false)
		}
		y := mem.linear(&b.Proj, mixed)
		kernel.Add(y.Data, x.Slice(first, x.Rows, 0, d).Data)
		x = y
		kernel.Add(x.Data, mem.mlp(&b.Up, &b.Down, mem.norm(&b.Norm2, x)).Data)
	}
	e := mem.norm(&w.Final, x) // (1, d)

	out.Motion = append(out.Motion[:0], mem.mlp(&w.FlightHidden, &w.Flight, e).Data...)
	tanh(out.Motion)
	users := mem.alloc(in.NumUsers, f.UserWidth())
	NearestFrames(f, users.Data, in.Users)
	out.Choice = append(out.Choice[:0], mem.userHead(&w.Choice, e, users).Data...)
	out.Offload = append(out.Offload[:0], mem.userHead(&w.Offload, e, users).Data...)
	tanh(out.Offload)
}

// advance completes the slot before by its action, adds this slot's return and state, and
// returns the window's tokens.
func (mem *Memory) advance(n *Net, in *Inputs) matrix {
	f, w, d := &n.Form, n.weights, n.Form.Width
	past, rows := f.PastTokens(), mem.tokens.Rows
	if in.Before < 0 {
		mem.filled = -1 // so that the next slot finds two tokens: no action is before the first return
	} else {
		copy(mem.tokens.Data, mem.tokens.Data[model.TokensPerSlot*d:])
		mem.filled = min(mem.filled+model.TokensPerSlot, past)
		action := mem.linear(&w.ActionToken, kernel.View(in.Action, 1, len(in.Action)))
		kernel.AddScaled(action.Data, in.Omega, w.ActionOmega.rows.Data)
		kernel.Add(action.Data, w.SlotEmbedding.rows.Row(in.Before))
		copy(mem.tokens.Row(rows-3), action.Data)
	}
	ret := mem.linear(&w.ReturnToken, kernel.View(in.Return, 1, ReturnFeatures))
	state := mem.linear(&w.StateAircraft, kernel.View(in.Aircraft, 1, len(in.Aircraft)))
	kernel.Add(state.Data, mem.matMul(&w.StatePooled, mem.pool(n, in)).Data)
	kernel.AddScaled(state.Data, in.Omega, w.StateOmega.rows.Data)
	for i, token := range []matrix{ret, state} {
		kernel.Add(token.Data, w.SlotEmbedding.rows.Row(in.Slot))
		copy(mem.tokens.Row(rows-2+i), token.Data)
	}
	// The stream begins with the return of a slot: in the first there is no action before it.
	first := past - mem.filled
	if in.Before < 0 {
		first = rows - 2
	}
	x := mem.alloc(rows-first, d)
	copy(x.Data, mem.tokens.Data[first*d:])
	return x
}

// pool returns what the aircraft gather of their users, side by side: (1, M*d).
func (mem *Memory) pool(n *Net, in *Inputs) matrix {
	f, w := &n.Form, n.weights
	M, d, dh, U := f.Aircraft, f.Width, f.Width/f.Heads, in.NumUsers
	pairs := kernel.View(in.Users, U*M, len(f.UserFeatures))
	q := mem.matMul(&w.UserQuery, kernel.View(in.Aircraft, M, AircraftFeatures))
	k, v := mem.matMul(&w.UserKey, pairs), mem.matMul(&w.UserValue, pairs)
	gathered, scores := mem.alloc(M, d), mem.alloc(1, U)
	clear(gathered.Data)
	for m := range M {
		for c := 0; c < d; c += dh {
			for u := range U {
				scores.Data[u] = float32(1/math.Sqrt(float64(dh))) * kernel.Dot(q.Row(m)[c:c+dh], k.Row(u*M + m)[c:c+dh])
			}
			kernel.Softmax(scores.Data)
			for u, weight := range scores.Data {
				kernel.AddScaled(gathered.Row(m)[c:c+dh], weight, v.Row(u*M + m)[c:c+dh])
			}
		}
	}
	p := mem.linear(&w.UserOut, gathered)
	return kernel.View(p.Data, 1, M*d)
}

func (mem *Memory) userHead(h *UserHead[stored], e, users matrix) matrix {
	x := mem.linear(&h.User, users)
	kernel.AddBias(x, mem.matMul(&h.Context, e).Data)
	kernel.Gelu(x.Data, x.Data)
	return mem.linear(&h.Out, x)
}

func tanh(x []float32) {
	for i, v := range x {
		x[i] = float32(math.Tanh(float64(v)))
	}
}

func (in *Inputs) check(f *Form) {
	if in.Slot < 0 || in.Slot >= f.Slots || in.Before >= f.Slots || len(in.Aircraft) != f.Aircraft*AircraftFeatures ||
		len(in.Users) != in.NumUsers*f.UserWidth() ||
		len(in.Return) != ReturnFeatures || len(in.Action) != f.Aircraft*ActionFeatures {
		panic(fmt.Sprintf("prefdt: slot %d after %d with %d users has rows of %d, %d, %d and %d numbers, the form is %+v", in.Slot,
			in.Before, in.NumUsers,
			len(in.Aircraft), len(in.Users), len(in.Return), len(in.Action), *f))
	}
}
