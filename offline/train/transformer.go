package train

import "prefdt/inference/kernel"

type blockTape[T kernel.Float] struct {
	x       kernel.Matrix[T] // (L, d) input
	n1      kernel.Matrix[T]
	m1, s1  []T
	qkv     kernel.Matrix[T]   // (L, 3d)
	weights []kernel.Matrix[T] // per head and chunk of queries
	mixed   kernel.Matrix[T]   // (L, d)
	mid     kernel.Matrix[T]   // (L, d)
	n2      kernel.Matrix[T]
	m2, s2  []T
	fcraw   kernel.Matrix[T] // (L, 4d)
	fc      kernel.Matrix[T]
	y       kernel.Matrix[T] // (L, d) output
}

// Transform takes a stream of tokens through the blocks.
func (t *Tools[T]) Transform(w *Params[T], x kernel.Matrix[T]) kernel.Matrix[T] {
	t.blocks = t.blocks[:0]
	for l := range w.blocks {
		x = t.block(&w.blocks[l], x)
	}
	return x
}

// TransformBackward returns the gradient by the stream's embeddings, given that
// by what the blocks made of them.
func (t *Tools[T]) TransformBackward(w, g *Params[T], dx kernel.Matrix[T]) kernel.Matrix[T] {
	for l := len(t.blocks) - 1; l >= 0; l-- {
		dx = t.blockBackward(&t.blocks[l], &w.blocks[l], &g.blocks[l], dx)
	}
	return dx
}

// block runs one pre-norm transformer block.
func (t *Tools[T]) block(w *block[T], x kernel.Matrix[T]) kernel.Matrix[T] {
	t.blocks = append(t.blocks, blockTape[T]{x: x})
	b := &t.blocks[len(t.blocks)-1]
	b.n1, b.m1, b.s1 = t.Norm(x, w.n1g, w.n1b)
	b.qkv = t.Linear(b.n1, w.qkv, w.qkvb)
	b.mixed = t.Matrix(x.Rows, x.Cols)
	t.attend(b)
	b.mid = t.Sum(x, t.Linear(b.mixed, w.proj, w.projb))
	b.n2, b.m2, b.s2 = t.Norm(b.mid, w.n2g, w.n2b)
	b.fcraw = t.Linear(b.n2, w.fc, w.fcb)
	b.fc = t.Gelu(b.fcraw)
	b.y = t.Sum(b.mid, t.Linear(b.fc, w.out, w.outb))
	return b.y
}

// blockBackward returns the gradient by a block's input, given that by its output.
func (t *Tools[T]) blockBackward(b *blockTape[T], w, g *block[T], dy kernel.Matrix[T]) kernel.Matrix[T] {
	dfc := t.Through(g.out, g.outb, dy, b.fc, w.out)
	kernel.GeluBackward(dfc.Data, dfc.Data, b.fcraw.Data)
	dn := t.Through(g.fc, g.fcb, dfc, b.n2, w.fc)
	dmid := dy // the residual path
	kernel.LayerNormBackward(dmid, dn, b.mid, w.n2g, b.m2, b.s2, g.n2g, g.n2b, true)

	dmixed := t.Through(g.proj, g.projb, dmid, b.mixed, w.proj)
	dqkv := t.Like(b.qkv)
	t.attendBackward(b, dqkv, dmixed)
	dn = t.Through(g.qkv, g.qkvb, dqkv, b.n1, w.qkv)
	dx := dmid // the residual path
	kernel.LayerNormBackward(dx, dn, b.x, w.n1g, b.m1, b.s1, g.n1g, g.n1b, true)
	return dx
}
