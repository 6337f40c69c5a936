package model

import "fmt"

// GraphBuilder adds nodes to a graph; a method that adds one returns the name of
// its output.
type GraphBuilder struct {
	Graph
	nodeCount int
}

// Op adds an operator.
func (b *GraphBuilder) Op(op string, attributes map[string]any, inputs ...string) string {
	b.nodeCount++
	name := fmt.Sprintf("%s.%d", op, b.nodeCount)
	b.Nodes = append(b.Nodes, Node{op, inputs, []string{name}, attributes})
	return name
}

// NameOutput gives the last node's output its name as an output of the graph.
func (b *GraphBuilder) NameOutput(name string) { b.Nodes[len(b.Nodes)-1].Outputs[0] = name }

// Parameters stores every parameter of the policy network and returns the names of
// their values. Matrices are stored as float16 and cast once.
func (b *GraphBuilder) Parameters(a Arch) *Weights[string] {
	return mapWeights(a, b.Parameter)
}

// Parameter stores one parameter and returns the name of its value.
func (b *GraphBuilder) Parameter(t Tensor) string {
	i := Initializer{Name: t.Name, Type: Float32, Dims: []int{t.Cols}, Parameter: true}
	if t.IsMatrix() {
		i.Type, i.Dims = Float16, []int{t.Rows, t.Cols}
	}
	b.Initializers = append(b.Initializers, i)
	if t.IsMatrix() {
		return b.Op("Cast", map[string]any{"to": int64(Float32)}, t.Name)
	}
	return t.Name
}

// Constant stores numbers under a name.
func (b *GraphBuilder) Constant(name string, values []float32, dims ...int) {
	b.Initializers = append(b.Initializers, Initializer{Name: name, Type: Float32, Dims: dims, Floats: values})
}

// IntConstant stores integers, a shape or bounds, and returns their name.
func (b *GraphBuilder) IntConstant(name string, values ...int64) string {
	b.Initializers = append(b.Initializers, Initializer{Name: name, Type: Int64, Dims: []int{len(values)}, Ints: values})
	return name
}

// MatMul, Sum and Mul are products of matrices, sums and products of elements.
func (b *GraphBuilder) MatMul(x, w string) string { return b.Op("MatMul", nil, x, w) }
func (b *GraphBuilder) Sum(x, y string) string    { return b.Op("Add", nil, x, y) }
func (b *GraphBuilder) Mul(x, y string) string    { return b.Op("Mul", nil, x, y) }

// Linear is x·Weight + Bias.
func (b *GraphBuilder) Linear(x string, l *Linear[string]) string {
	return b.Sum(b.MatMul(x, l.Weight), l.Bias)
}

// Reshape, Transpose and Concat arrange elements; shape names an IntConstant.
func (b *GraphBuilder) Reshape(x, shape string) string { return b.Op("Reshape", nil, x, shape) }
func (b *GraphBuilder) Transpose(x string, order ...int64) string {
	return b.Op("Transpose", map[string]any{"perm": order}, x)
}
func (b *GraphBuilder) Concat(axis int64, x ...string) string {
	return b.Op("Concat", map[string]any{"axis": axis}, x...)
}

// Softmax and Norm work on the last axis.
func (b *GraphBuilder) Softmax(x string) string {
	return b.Op("Softmax", map[string]any{"axis": int64(-1)}, x)
}
func (b *GraphBuilder) Norm(x string, n *Norm[string]) string {
	return b.Op("LayerNormalization", map[string]any{"axis": int64(-1), "epsilon": float32(NormEpsilon)}, x, n.Gain, n.Bias)
}

// Gelu is 0.5 x (1 + tanh(s (x + c x³))), in the form that ONNX Runtime fuses
// into one operator, with the constants one, half, gelu.scale (s) and gelu.cubic
// (c) of the graph.
func (b *GraphBuilder) Gelu(x string) string {
	cubic := b.Sum(b.Mul(b.Mul(x, "gelu.cubic"), x), "one")
	gate := b.Sum(b.Op("Tanh", nil, b.Mul(b.Mul(x, "gelu.scale"), cubic)), "one")
	return b.Mul(b.Mul(x, "half"), gate)
}
