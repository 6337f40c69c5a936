package belieftrain

import (
	"prefdt/inference/belief/learned"
	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// backward runs encoders back. Its matrices are working memory.
type backward[T kernel.Float] struct{ hidden2, hidden1, x, keys, rows kernel.Matrix[T] }

func resized[T kernel.Float](m *kernel.Matrix[T], rows, cols int) kernel.Matrix[T] {
	if cap(m.Data) < rows*cols {
		m.Data = make([]T, rows*cols+rows*cols/2)
	}
	*m = kernel.View(m.Data[:rows*cols], rows, cols)
	return *m
}

// linear adds to the gradient g of a layer y = x·W + b that of the loss, given its
// gradient dy by y. dx, unless it is nil, becomes the gradient by x.
func linear[T kernel.Float](dx *kernel.Matrix[T], dy, x kernel.Matrix[T], l, g *model.Linear[kernel.Matrix[T]]) {
	kernel.MatMulTransA(g.Weight, x, dy, true)
	kernel.AddBiasBackward(g.Bias.Data, dy)
	if dx != nil {
		kernel.MatMulTransB(resized(dx, dy.Rows, l.Weight.Rows), dy, l.Weight, false)
	}
}

// run adds to g the gradient of the loss by an encoder's parameters, given that by the
// outputs of its last Forward.
func (b *backward[T]) run(e *learned.Encoder[T], dy kernel.Matrix[T], g *learned.Layers[kernel.Matrix[T]]) {
	if dy.Rows == 0 {
		return
	}
	l := &e.Layers
	linear(&b.hidden2, dy, e.Gelu2, &l.Out, &g.Out)
	kernel.GeluBackward(b.hidden2.Data, b.hidden2.Data, e.Sum2.Data)
	linear(&b.hidden1, b.hidden2, e.Gelu1, &l.Hidden2, &g.Hidden2)
	kernel.GeluBackward(b.hidden1.Data, b.hidden1.Data, e.Sum1.Data)
	if e.Rows.Rows == 0 {
		linear(nil, b.hidden1, e.X, &l.Hidden1, &g.Hidden1)
		return
	}
	linear(&b.x, b.hidden1, e.X, &l.Hidden1, &g.Hidden1)
	b.pool(e, dy)
	linear(&b.rows, b.keys, e.RowGelu, &l.RowOut, &g.RowOut)
	kernel.GeluBackward(b.rows.Data, b.rows.Data, e.RowSum.Data)
	linear(nil, b.rows, e.Rows, &l.RowIn, &g.RowIn)
}

// pool is the attention: for p the softmax over {0, s}, y = sum p v and
// z = log(1 + sum exp s), ds = p (dy (v - y) + dz) and dv = p dy. What is averaged is
// such a v, without a gradient of its own; its y is in x and among the outputs.
func (b *backward[T]) pool(e *learned.Encoder[T], dy kernel.Matrix[T]) {
	resized(&b.keys, e.Keys.Rows, e.Keys.Cols)
	first := 0
	for i, count := range e.Counts {
		x, dx, attention := e.X.Row(i), b.x.Row(i), e.Attention(i, first)
		for r := first; r < first+count; r++ {
			key, dkey := e.Keys.Row(r), b.keys.Row(r)
			for h := range e.Heads {
				p := attention.Row(h)[r-first]
				sum := dx[e.Heads*e.Width+h]
				for k := h * e.Width; k < (h+1)*e.Width; k++ {
					sum += dx[k] * (key[e.Heads+k] - x[k])
					dkey[e.Heads+k] = p * dx[k]
				}
				if h < e.Averages {
					k := e.Heads*(e.Width+1) + h
					v := e.Rows.Row(r)[e.RowFeatures-e.Averages+h]
					sum += (dx[k] + dy.Row(i)[dy.Cols-e.Averages+h]) * (v - x[k])
				}
				dkey[h] = p * sum
			}
		}
		first += count
	}
}
