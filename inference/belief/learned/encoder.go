package learned

import (
	"math"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// Shape is the sizes of an encoder.
type Shape struct {
	RowFeatures   int // of an observation
	RowHidden     int
	Heads, Width  int // of attention, and of a head's value
	Averages      int // heads that average an observation's last features, too
	QueryFeatures int
	Hidden        [2]int // behind the attention
	Outputs       int
}

// keys is the number of values of a row that attention reads.
func (s *Shape) keys() int { return s.Heads * (s.Width + 1) }

// pooled is the number of values that attention gives.
func (s *Shape) pooled() int { return s.keys() + s.Averages }

// Layers are the parameters of an encoder.
type Layers[T any] struct{ RowIn, RowOut, Hidden1, Hidden2, Out model.Linear[T] }

// layout returns the name and the shape of every parameter.
func (s *Shape) layout(name string) Layers[model.Tensor] {
	linear := func(layer string, in, out int) model.Linear[model.Tensor] {
		return model.LinearTensors(name+"."+layer+".w", name+"."+layer+".b", in, out)
	}
	return Layers[model.Tensor]{
		RowIn: linear("row1", s.RowFeatures, s.RowHidden), RowOut: linear("row2", s.RowHidden, s.keys()),
		Hidden1: linear("hidden1", s.pooled()+s.QueryFeatures, s.Hidden[0]), Hidden2: linear("hidden2", s.Hidden[0], s.Hidden[1]),
		Out: model.OutputTensors(name+".out.w", name+".out.b", s.Hidden[1], s.Outputs),
	}
}

// Batch is what an encoder reads: queries, and the observations that belong to each.
type Batch struct {
	Queries []float32 // (n, QueryFeatures)
	Rows    []float32 // (sum of Counts, RowFeatures)
	Counts  []int     // (n)
}

// Reset empties the batch.
func (b *Batch) Reset() { b.Queries, b.Rows, b.Counts = b.Queries[:0], b.Rows[:0], b.Counts[:0] }

// Encoder is a network over sets. Each query attends to its own observations:
//
//	h = gelu(row·row1)·row2          per row: a score for each head, then a value for each
//	p = softmax over {0, scores}      per query and head
//	a = sum of p·(a feature)         of the first heads: as many averages of the last features
//	x = [sum of p·value, log(1 + sum of exp(score)), a, query]
//	y = gelu(gelu(x·hidden1)·hidden2)·out, and a added to the last outputs
//
// The score of 0 belongs to no row and has the value 0: few observations, or poor ones,
// leave a sum near zero, and the logarithm says how much there was. The averages let what
// was measured reach an output as exactly as it was measured. An Encoder runs forward;
// its exported matrices are what a backward pass needs of the last one.
type Encoder[T kernel.Float] struct {
	Shape
	Layers Layers[kernel.Matrix[T]]

	Counts          []int
	Rows            kernel.Matrix[T] // (rows, RowFeatures)
	RowSum, RowGelu kernel.Matrix[T] // (rows, RowHidden), before and after gelu
	Keys            kernel.Matrix[T] // (rows, Heads scores and Heads*Width values)
	attention       kernel.Matrix[T] // (rows + n, Heads) numbers; see Attention
	products        kernel.Matrix[T] // of some heads' weights and values
	X               kernel.Matrix[T] // (n, Heads*Width + Heads + Averages + QueryFeatures)
	Sum1, Gelu1     kernel.Matrix[T] // (n, Hidden[0])
	Sum2, Gelu2     kernel.Matrix[T] // (n, Hidden[1])
	Outputs         kernel.Matrix[T] // (n, Outputs)
}

// resize makes m a matrix of undefined numbers, in its memory if that suffices.
func resize[T kernel.Float](m *kernel.Matrix[T], rows, cols int) {
	if cap(m.Data) < rows*cols {
		m.Data = make([]T, rows*cols+rows*cols/2)
	}
	*m = kernel.View(m.Data[:rows*cols], rows, cols)
}

func linear[T kernel.Float](y *kernel.Matrix[T], x kernel.Matrix[T], l *model.Linear[kernel.Matrix[T]]) {
	resize(y, x.Rows, l.Weight.Cols)
	kernel.MatMul(*y, x, l.Weight, false)
	kernel.AddBias(*y, l.Bias.Data)
}

func gelu[T kernel.Float](y *kernel.Matrix[T], x kernel.Matrix[T]) {
	resize(y, x.Rows, x.Cols)
	kernel.Gelu(y.Data, x.Data)
}

// Forward returns the outputs of a batch, a row for each query, until the next call.
func (e *Encoder[T]) Forward(b *Batch) kernel.Matrix[T] {
	e.Counts = b.Counts
	resize(&e.Rows, len(b.Rows)/e.RowFeatures, e.RowFeatures)
	for i, x := range b.Rows {
		e.Rows.Data[i] = T(x)
	}
	linear(&e.RowSum, e.Rows, &e.Layers.RowIn)
	gelu(&e.RowGelu, e.RowSum)
	linear(&e.Keys, e.RowGelu, &e.Layers.RowOut)
	n, pooled := len(b.Queries)/e.QueryFeatures, e.pooled()
	resize(&e.attention, e.Rows.Rows+n, e.Heads)
	resize(&e.X, n, pooled+e.QueryFeatures)
	first := 0
	for i := range n {
		x := e.X.Row(i)
		e.pool(x, i, first)
		first += b.Counts[i]
		for k, q := range b.Queries[i*e.QueryFeatures:][:e.QueryFeatures] {
			x[pooled+k] = T(q)
		}
	}
	linear(&e.Sum1, e.X, &e.Layers.Hidden1)
	gelu(&e.Gelu1, e.Sum1)
	linear(&e.Sum2, e.Gelu1, &e.Layers.Hidden2)
	gelu(&e.Gelu2, e.Sum2)
	linear(&e.Outputs, e.Gelu2, &e.Layers.Out)
	for i := range n {
		kernel.Add(e.Outputs.Row(i)[e.Shape.Outputs-e.Averages:], e.X.Row(i)[e.keys():pooled])
	}
	return e.Outputs
}

// Attention returns the weights of a query's rows, of which first is the first: (Heads, rows
// and 1), the last of the score that belongs to no row.
func (e *Encoder[T]) Attention(query, first int) kernel.Matrix[T] {
	rows := e.Counts[query] + 1
	return kernel.View(e.attention.Data[(first+query)*e.Heads:][:e.Heads*rows], e.Heads, rows)
}

const headsAtOnce = 3

// pool fills the first part of a query's x from its rows.
func (e *Encoder[T]) pool(x []T, query, first int) {
	heads, width, count := e.Heads, e.Width, e.Counts[query]
	keys, attention := e.Keys.Slice(first, first+count, 0, e.Keys.Cols), e.Attention(query, first)
	for h := range heads {
		row, top, at := attention.Row(h), T(0), count
		for r := range count {
			if row[r] = keys.Data[r*keys.Stride+h]; row[r] > top {
				top, at = row[r], r
			}
		}
		row[count] = 0
		kernel.Softmax(row)
		x[heads*width+h] = top - T(math.Log(float64(row[at]))) // of the sum of exponentials
	}
	// Some heads at a time, with 32 columns of values: a shape that the kernels are quick in.
	for h := 0; h < heads; h += headsAtOnce {
		next := min(h+headsAtOnce, heads)
		from := max(min(h*width, heads*width-32), 0)
		to := max(next*width, min(from+32, heads*width))
		resize(&e.products, next-h, to-from)
		kernel.MatMul(e.products, attention.Slice(h, next, 0, count), keys.Slice(0, count, heads+from, heads+to), false)
		for k := range next - h {
			copy(x[(h+k)*width:][:width], e.products.Row(k)[(h+k)*width-from:])
		}
	}
	for h := range e.Averages {
		average, column := T(0), e.RowFeatures-e.Averages+h
		for r, p := range attention.Row(h)[:count] {
			average += p * e.Rows.Data[(first+r)*e.RowFeatures+column]
		}
		x[heads*(width+1)+h] = average
	}
}
