package nn

import "prefdt/inference/kernel"

// Var is a matrix that the forward pass computed and, once the backward pass has
// reached it, the gradient of the loss by it.
type Var[T kernel.Float] struct {
	Value kernel.Matrix[T]
	Grad  kernel.Matrix[T]

	constant bool // an input: nothing needs its gradient
	hasGrad  bool
}

// Param is a tensor of the parameters and the gradient by it, which the backward
// pass adds to. The gradient is empty where a network only runs forward.
type Param[T kernel.Float] struct{ Value, Grad kernel.Matrix[T] }

// Tape runs a network forward and back. Each operation computes its value and
// records its own backward pass; Backward runs those from the last to the first.
// The memory of one pass is lent by an arena and reused by the next.
type Tape[T kernel.Float] struct {
	operations []operation[T]
	arena      arena[T]
	mark       arena[T] // what a backward pass of blocks must keep, see beginBlock
}

// operation is a recorded backward pass: given the gradient dy by its output y,
// it adds to the gradients by its inputs and parameters. It may overwrite dy.
type operation[T kernel.Float] struct {
	y        *Var[T]
	backward func(dy kernel.Matrix[T])
}

// Reset begins another pass; what the last one computed is lost.
func (t *Tape[T]) Reset() {
	t.operations = t.operations[:0]
	t.arena.release(arena[T]{})
}

// Backward adds the gradient of the loss to the parameters'. Before it, the loss
// has set the gradients by the outputs, see ZeroGrad.
func (t *Tape[T]) Backward() {
	for i := len(t.operations) - 1; i >= 0; i-- {
		if o := &t.operations[i]; o.y.hasGrad && o.y.Value.Rows > 0 {
			o.backward(o.y.Grad)
		}
	}
}

// Input returns rows of features as a constant.
func (t *Tape[T]) Input(src []float32, rows, cols int) *Var[T] {
	x := &Var[T]{Value: t.matrix(rows, cols), constant: true}
	for i, v := range src[:rows*cols] {
		x.Value.Data[i] = T(v)
	}
	return x
}

// ZeroGrad returns the gradient by an output of the network, all zeros, for a
// loss to fill.
func (t *Tape[T]) ZeroGrad(y *Var[T]) kernel.Matrix[T] {
	y.Grad, y.hasGrad = t.zeros(y.Value.Rows, y.Value.Cols), true
	return y.Grad
}

// record returns the output of an operation, which fills its value.
func (t *Tape[T]) record(value kernel.Matrix[T], backward func(dy kernel.Matrix[T])) *Var[T] {
	y := &Var[T]{Value: value}
	t.operations = append(t.operations, operation[T]{y, backward})
	return y
}

// gradOf returns the gradient by x. The first time it holds undefined numbers, to
// be set; after that, accumulate says so, it is to be added to.
func (t *Tape[T]) gradOf(x *Var[T]) (grad kernel.Matrix[T], accumulate bool) {
	if accumulate = x.hasGrad; !accumulate {
		x.Grad, x.hasGrad = t.matrix(x.Value.Rows, x.Value.Cols), true
	}
	return x.Grad, accumulate
}

// addGrad adds dx to the gradient by x; it may keep dx as that gradient.
func (t *Tape[T]) addGrad(x *Var[T], dx kernel.Matrix[T]) {
	switch {
	case x.constant:
	case x.hasGrad:
		kernel.Add(x.Grad.Data, dx.Data)
	default:
		x.Grad, x.hasGrad = dx, true
	}
}

// matrix lends undefined numbers, until the next Reset.
func (t *Tape[T]) matrix(rows, cols int) kernel.Matrix[T] {
	return kernel.View(t.arena.take(rows*cols), rows, cols)
}

// zeros lends a matrix to add to.
func (t *Tape[T]) zeros(rows, cols int) kernel.Matrix[T] {
	m := t.matrix(rows, cols)
	clear(m.Data)
	return m
}

func (t *Tape[T]) clone(x kernel.Matrix[T]) kernel.Matrix[T] {
	y := t.matrix(x.Rows, x.Cols)
	copy(y.Data, x.Data)
	return y
}
