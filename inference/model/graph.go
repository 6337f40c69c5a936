package model

import (
	"fmt"
	"math"
)

// Versions of the exported graph. Version 17 of the operators is the first
// with LayerNormalization.
const (
	OperatorSet = 17
	IRVersion   = 8
)

// ElementType is the type of an exported tensor's elements, with ONNX's codes.
type ElementType int32

const (
	Float32 ElementType = 1
	Int64   ElementType = 7
	Float16 ElementType = 10
)

// Size returns the bytes of one element.
func (t ElementType) Size() int {
	switch t {
	case Float32:
		return 4
	case Int64:
		return 8
	case Float16:
		return 2
	}
	return 0
}

// Dim is one dimension of an input or output: a number, or a name for what a
// slot decides.
type Dim struct {
	Size int
	Name string
}

// The dimensions that differ from slot to slot.
var (
	aircraftDim = Dim{Name: "aircraft"}
	usersDim    = Dim{Name: "users"}
)

// Value is an input or output of the graph; all are float32.
type Value struct {
	Name string
	Dims []Dim
}

// Initializer is a tensor stored in the graph: a parameter, or a constant that
// the operators need.
type Initializer struct {
	Name string
	Type ElementType
	Dims []int

	Parameter bool      // the values are those of the Tensor of this name
	Floats    []float32 // values of a Float32 constant
	Ints      []int64   // values of an Int64 constant
}

// Size returns the number of values.
func (t *Initializer) Size() int {
	n := 1
	for _, d := range t.Dims {
		n *= d
	}
	return n
}

// Node is one operator; Attributes are int64, float32 or []int64.
type Node struct {
	Op              string
	Inputs, Outputs []string
	Attributes      map[string]any
}

// Graph is the step as a list of standard ONNX operators in an order in which
// they can run.
type Graph struct {
	Inputs, Outputs []Value
	Initializers    []Initializer
	Nodes           []Node
}

// PastKey and PastValue name the cache of layer l among the graph's inputs,
// PresentKey and PresentValue the rolled one among its outputs. Feeding each
// present back as the next step's past, and the mask shifted by a slot, flies
// a mission. The newest slot is last.
func PastKey(l int) string      { return fmt.Sprintf("past_key.%d", l) }
func PastValue(l int) string    { return fmt.Sprintf("past_value.%d", l) }
func PresentKey(l int) string   { return fmt.Sprintf("present_key.%d", l) }
func PresentValue(l int) string { return fmt.Sprintf("present_value.%d", l) }

// graphBuilder adds nodes to a graph; each returns the name of its output.
type graphBuilder struct {
	Graph
	nodeCount int
}

func (b *graphBuilder) addNode(op string, attributes map[string]any, inputs ...string) string {
	b.nodeCount++
	name := fmt.Sprintf("%s.%d", op, b.nodeCount)
	b.Nodes = append(b.Nodes, Node{op, inputs, []string{name}, attributes})
	return name
}

// renameOutput gives the last node's output its name as an output of the graph.
func (b *graphBuilder) renameOutput(name string) {
	b.Nodes[len(b.Nodes)-1].Outputs[0] = name
}

func (b *graphBuilder) intConstant(name string, values ...int64) string {
	b.Initializers = append(b.Initializers, Initializer{Name: name, Type: Int64, Dims: []int{len(values)}, Ints: values})
	return name
}

func (b *graphBuilder) constant(name string, value float32) {
	b.Initializers = append(b.Initializers, Initializer{Name: name, Type: Float32, Dims: []int{1}, Floats: []float32{value}})
}

func (b *graphBuilder) matMul(x, w string) string { return b.addNode("MatMul", nil, x, w) }
func (b *graphBuilder) sum(x, y string) string    { return b.addNode("Add", nil, x, y) }
func (b *graphBuilder) mul(x, y string) string    { return b.addNode("Mul", nil, x, y) }
func (b *graphBuilder) linear(x string, l *Linear[string]) string {
	return b.sum(b.matMul(x, l.Weight), l.Bias)
}
func (b *graphBuilder) reshape(x, shape string) string { return b.addNode("Reshape", nil, x, shape) }
func (b *graphBuilder) transpose(x string, order ...int64) string {
	return b.addNode("Transpose", map[string]any{"perm": order}, x)
}
func (b *graphBuilder) concat(axis int64, x ...string) string {
	return b.addNode("Concat", map[string]any{"axis": axis}, x...)
}
func (b *graphBuilder) softmax(x string) string {
	return b.addNode("Softmax", map[string]any{"axis": int64(-1)}, x)
}
func (b *graphBuilder) norm(x string, n *Norm[string]) string {
	return b.addNode("LayerNormalization", map[string]any{"axis": int64(-1), "epsilon": float32(NormEpsilon)}, x, n.Gain, n.Bias)
}

// gelu is 0.5 x (1 + tanh(s (x + c x³))), in the form that ONNX Runtime fuses
// into one operator.
func (b *graphBuilder) gelu(x string) string {
	cubic := b.sum(b.mul(b.mul(x, "gelu.cubic"), x), "one")
	gate := b.sum(b.addNode("Tanh", nil, b.mul(b.mul(x, "gelu.scale"), cubic)), "one")
	return b.mul(b.mul(x, "half"), gate)
}

// Graph returns the step of this architecture. It is what the exporter writes
// and what the loader demands, node for node.
func (a Arch) Graph() *Graph {
	d, heads := a.Width, a.Heads
	width := d / heads
	b := &graphBuilder{}

	past := Dim{Size: a.PastTokens()}
	b.Inputs = []Value{
		{"aircraft", []Dim{aircraftDim, {Size: AircraftFeatures}}},
		{"pairs", []Dim{aircraftDim, usersDim, {Size: PairFeatures}}},
		{"user_mask", []Dim{usersDim}}, // 1 for a user, 0 for padding; without users one padded row
		{"state", []Dim{{Size: 1}, {Size: StateFeatures}}},
		{"return", []Dim{{Size: 1}, {Size: ReturnFeatures}}},
		{"action", []Dim{{Size: 1}, {Size: ActionFeatures}}},
		{"past_mask", []Dim{past}}, // 1 for a token that was, 0 before the mission began
	}
	b.Outputs = []Value{
		{"move", []Dim{aircraftDim, {Size: 2}}},
		{"choice", []Dim{aircraftDim, usersDim, {Size: ChoiceOutputs}}},
		{"price", []Dim{{Size: 1}}},
	}
	cache := []Dim{{Size: heads}, past, {Size: width}}
	for l := range a.Layers {
		b.Inputs = append(b.Inputs, Value{PastKey(l), cache}, Value{PastValue(l), cache})
		b.Outputs = append(b.Outputs, Value{PresentKey(l), cache}, Value{PresentValue(l), cache})
	}

	// Parameters. Weights are stored as float16 and cast once.
	w := mapWeights(a, func(t Tensor) string {
		i := Initializer{Name: t.Name, Type: Float32, Dims: []int{t.Cols}, Parameter: true}
		if t.IsMatrix() {
			i.Type, i.Dims = Float16, []int{t.Rows, t.Cols}
		}
		b.Initializers = append(b.Initializers, i)
		if t.IsMatrix() {
			return b.addNode("Cast", map[string]any{"to": int64(Float32)}, t.Name)
		}
		return t.Name
	})
	b.constant("one", 1)
	b.constant("hidden", 1e9) // what a masked score is lowered by
	b.constant("scale", float32(1/math.Sqrt(float64(width))))
	b.constant("half", 0.5)
	b.constant("gelu.scale", 0.7978845608)
	b.constant("gelu.cubic", 0.044715)
	b.Initializers = append(b.Initializers, Initializer{Name: "causal", Type: Float32, Dims: []int{TokensPerSlot, TokensPerSlot},
		Floats: []float32{1, 0, 0, 1, 1, 0, 1, 1, 1}})
	perHead := b.intConstant("shape.heads", 0, int64(heads), int64(width))                                   // (n, d) to (n, heads, d/heads)
	perPair := b.intConstant("shape.pair_heads", 0, 0, int64(heads), int64(width))                           // (m, n, d) to (m, n, heads, d/heads)
	perCraft := b.intConstant("shape.craft_heads", 0, int64(heads), 1, int64(width))                         // (m, d) to (m, heads, 1, d/heads)
	flat := b.intConstant("shape.row", 0, -1)                                                                // heads side by side again: (n, ...) to (n, d)
	one := b.intConstant("shape.one", -1)                                                                    // (1, 1) to (1)
	single := b.intConstant("shape.single", 1, int64(heads), 1, int64(width))                                // (d) to (1, heads, 1, d/heads)
	three := b.intConstant("shape.tokens", TokensPerSlot, int64(a.PastTokens()))                             // the past mask, for each new token
	broadcast := b.intConstant("shape.each_pair", 0, 1, -1)                                                  // (m, p) to (m, 1, p)
	first, second, last := b.intConstant("2", 2), b.intConstant("3", 3), b.intConstant("end", math.MaxInt64) // bounds of slices
	axis0, axis1 := b.intConstant("axis0", 0), b.intConstant("axis1", 1)

	// Sets. (M, d), (M, U, p)
	a0 := b.gelu(b.linear("aircraft", &w.Aircraft))
	z := b.gelu(b.linear("pairs", &w.Pair))

	// Pooling of users, per aircraft and head: (M, heads, 1, U)
	users := b.mul(b.addNode("Sub", nil, "user_mask", "one"), "hidden")
	q := b.mul(b.reshape(b.matMul(a0, w.UserQuery), perCraft), "scale")
	k := b.transpose(b.reshape(b.matMul(z, w.UserKey), perPair), 0, 2, 3, 1)
	v := b.transpose(b.reshape(b.matMul(z, w.UserValue), perPair), 0, 2, 1, 3)
	weights := b.mul(b.softmax(b.sum(b.matMul(q, k), users)), "user_mask")
	pooled := b.reshape(b.matMul(weights, v), flat)
	a1 := b.sum(a0, b.linear(pooled, &w.UserOut))
	hidden := b.gelu(b.linear(b.norm(a1, &w.EncoderNorm), &w.EncoderUp))
	a2 := b.sum(a1, b.linear(hidden, &w.EncoderDown))

	// Pooling of aircraft: (1, heads, 1, M)
	q = b.mul(b.reshape(w.FleetQuery, single), "scale")
	k = b.transpose(b.reshape(b.matMul(a2, w.FleetKey), perHead), 1, 2, 0)
	v = b.transpose(b.reshape(b.matMul(a2, w.FleetValue), perHead), 1, 0, 2)
	fleet := b.reshape(b.matMul(b.softmax(b.matMul(q, k)), v), flat)

	// The slot's three tokens: (3, d)
	state := b.sum(b.matMul(fleet, w.FleetOut), b.linear("state", &w.StateToken))
	ret := b.linear("return", &w.ReturnToken)
	action := b.linear("action", &w.ActionToken)
	x := b.concat(0, action, ret, state)

	seen := b.concat(1, b.addNode("Expand", nil, "past_mask", three), "causal")
	mask := b.mul(b.addNode("Sub", nil, seen, "one"), "hidden") // (3, past+3)
	lastMask := b.addNode("Slice", nil, mask, first, second, axis0)

	for l := range w.Blocks {
		block := &w.Blocks[l]
		h := b.linear(b.norm(x, &block.Norm1), &block.QKV)
		q, k, v := BlockTensor(l, "q"), BlockTensor(l, "k"), BlockTensor(l, "v")
		b.Nodes = append(b.Nodes, Node{"Split", []string{h}, []string{q, k, v}, map[string]any{"axis": int64(1)}})
		k = b.concat(1, PastKey(l), b.transpose(b.reshape(k, perHead), 1, 0, 2))
		v = b.concat(1, PastValue(l), b.transpose(b.reshape(v, perHead), 1, 0, 2))
		b.addNode("Slice", nil, k, second, last, axis1)
		b.renameOutput(PresentKey(l))
		b.addNode("Slice", nil, v, second, last, axis1)
		b.renameOutput(PresentValue(l))

		if l == a.Layers-1 { // e needs the state token alone
			q, x, mask = b.addNode("Slice", nil, q, first, second, axis0), b.addNode("Slice", nil, x, first, second, axis0), lastMask
		}
		q = b.mul(b.transpose(b.reshape(q, perHead), 1, 0, 2), "scale")
		weights := b.softmax(b.sum(b.matMul(q, b.transpose(k, 0, 2, 1)), mask))
		mixed := b.reshape(b.transpose(b.matMul(weights, v), 1, 0, 2), flat)
		x = b.sum(x, b.linear(mixed, &block.Proj))
		h = b.gelu(b.linear(b.norm(x, &block.Norm2), &block.Up))
		x = b.sum(x, b.linear(h, &block.Down))
	}
	e := b.norm(x, &w.Final)

	// Heads.
	h0 := b.gelu(b.sum(b.linear(a2, &w.HeadAircraft), b.matMul(e, w.HeadContext)))
	mean := b.addNode("ReduceMean", map[string]any{"axes": []int64{0}, "keepdims": int64(1)}, h0)
	h := b.sum(h0, b.matMul(mean, w.HeadFleetMean))
	b.addNode("Tanh", nil, b.linear(h, &w.Flight))
	b.renameOutput("move")

	each := b.sum(b.matMul(h, w.ChoiceAircraft), b.matMul(e, w.ChoiceContext)) // (M, p)
	c := b.gelu(b.sum(b.linear(z, &w.ChoicePair), b.reshape(each, broadcast)))
	c = b.gelu(b.linear(c, &w.ChoiceHidden))
	b.linear(c, &w.ChoiceOut)
	b.renameOutput("choice")

	y := b.gelu(b.linear(e, &w.PriceHidden))
	b.reshape(b.linear(y, &w.PriceOut), one)
	b.renameOutput("price")
	return &b.Graph
}
