package train

import "prefdt/inference/kernel"

type blockTape[T kernel.Float] struct {
	input                kernel.Matrix[T] // (L, d) input
	norm1                kernel.Matrix[T]
	norm1Mean, norm1Rstd []T
	qkv                  kernel.Matrix[T]   // (L, 3d)
	weights              []kernel.Matrix[T] // per head and chunk of queries
	mixed                kernel.Matrix[T]   // (L, d)
	mid                  kernel.Matrix[T]   // (L, d)
	norm2                kernel.Matrix[T]
	norm2Mean, norm2Rstd []T
	fcPre                kernel.Matrix[T] // (L, 4d)
	fc                   kernel.Matrix[T]
	output               kernel.Matrix[T] // (L, d) output
}

// TransformerForward takes a stream of tokens through the blocks.
func (t *Workspace[T]) TransformerForward(w *Params[T], x kernel.Matrix[T]) kernel.Matrix[T] {
	t.blocks = t.blocks[:0]
	for l := range w.blocks {
		x = t.blockForward(&w.blocks[l], x)
	}
	return x
}

// TransformerBackward returns the gradient by the stream's embeddings, given that
// by what the blocks made of them.
func (t *Workspace[T]) TransformerBackward(w, g *Params[T], dx kernel.Matrix[T]) kernel.Matrix[T] {
	for l := len(t.blocks) - 1; l >= 0; l-- {
		dx = t.blockBackward(&t.blocks[l], &w.blocks[l], &g.blocks[l], dx)
	}
	return dx
}

// blockForward runs one pre-norm transformer block.
func (t *Workspace[T]) blockForward(w *blockParams[T], x kernel.Matrix[T]) kernel.Matrix[T] {
	t.blocks = append(t.blocks, blockTape[T]{input: x})
	b := &t.blocks[len(t.blocks)-1]
	b.norm1, b.norm1Mean, b.norm1Rstd = t.LayerNorm(x, w.norm1Gain, w.norm1Bias)
	b.qkv = t.Linear(b.norm1, w.qkv, w.qkvBias)
	b.mixed = t.Matrix(x.Rows, x.Cols)
	t.attentionForward(b)
	b.mid = t.Sum(x, t.Linear(b.mixed, w.proj, w.projBias))
	b.norm2, b.norm2Mean, b.norm2Rstd = t.LayerNorm(b.mid, w.norm2Gain, w.norm2Bias)
	b.fcPre = t.Linear(b.norm2, w.fc, w.fcBias)
	b.fc = t.Gelu(b.fcPre)
	b.output = t.Sum(b.mid, t.Linear(b.fc, w.out, w.outBias))
	return b.output
}

// blockBackward returns the gradient by a block's input, given that by its output.
func (t *Workspace[T]) blockBackward(b *blockTape[T], w, g *blockParams[T], dy kernel.Matrix[T]) kernel.Matrix[T] {
	dfc := t.LinearInputGradient(g.out, g.outBias, dy, b.fc, w.out)
	kernel.GeluBackward(dfc.Data, dfc.Data, b.fcPre.Data)
	dn := t.LinearInputGradient(g.fc, g.fcBias, dfc, b.norm2, w.fc)
	dmid := dy // the residual path
	kernel.LayerNormBackward(dmid, dn, b.mid, w.norm2Gain, b.norm2Mean, b.norm2Rstd, g.norm2Gain, g.norm2Bias, true)

	dmixed := t.LinearInputGradient(g.proj, g.projBias, dmid, b.mixed, w.proj)
	dqkv := t.ZerosLike(b.qkv)
	t.attentionBackward(b, dqkv, dmixed)
	dn = t.LinearInputGradient(g.qkv, g.qkvBias, dqkv, b.norm1, w.qkv)
	dx := dmid // the residual path
	kernel.LayerNormBackward(dx, dn, b.input, w.norm1Gain, b.norm1Mean, b.norm1Rstd, g.norm1Gain, g.norm1Bias, true)
	return dx
}
