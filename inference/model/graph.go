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

// Size returns the bytes of one element, 0 of any other type.
func (t ElementType) Size() int { return map[ElementType]int{Float32: 4, Int64: 8, Float16: 2}[t] }

// Dim is one dimension of an input or output: a number, or a name for what a
// slot decides.
type Dim struct {
	Size int
	Name string
}

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

// Graph returns the step of this architecture. It is what the exporter writes
// and what the loader demands, node for node.
func (a Arch) Graph() *Graph {
	d, heads := a.Width, a.Heads
	width := d / heads
	b := &GraphBuilder{}

	aircraftDim, usersDim, past := Dim{Name: "aircraft"}, Dim{Name: "users"}, Dim{Size: a.PastTokens()}
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

	w := b.Parameters(a)
	b.Constant("one", []float32{1}, 1)
	b.Constant("hidden", []float32{1e9}, 1) // what a masked score is lowered by
	b.Constant("scale", []float32{float32(1 / math.Sqrt(float64(width)))}, 1)
	b.Constant("half", []float32{0.5}, 1)
	b.Constant("gelu.scale", []float32{0.7978845608}, 1)
	b.Constant("gelu.cubic", []float32{0.044715}, 1)
	b.Constant("causal", []float32{1, 0, 0, 1, 1, 0, 1, 1, 1}, TokensPerSlot, TokensPerSlot)
	// (n, d) to (n, heads, d/heads)
	perHead := b.IntConstant("shape.heads", 0, int64(heads), int64(width))
	// (m, n, d) to (m, n, heads, d/heads)
	perPair := b.IntConstant("shape.pair_heads", 0, 0, int64(heads), int64(width))
	// (m, d) to (m, heads, 1, d/heads)
	perCraft := b.IntConstant("shape.craft_heads", 0, int64(heads), 1, int64(width))
	// heads side by side again: (n, ...) to (n, d)
	flat := b.IntConstant("shape.row", 0, -1)
	one := b.IntConstant("shape.one", -1) // (1, 1) to (1)
	// (d) to (1, heads, 1, d/heads)
	single := b.IntConstant("shape.single", 1, int64(heads), 1, int64(width))
	// the past mask, for each new token
	three := b.IntConstant("shape.tokens", TokensPerSlot, int64(a.PastTokens()))
	broadcast := b.IntConstant("shape.each_pair", 0, 1, -1)                                                  // (m, p) to (m, 1, p)
	first, second, last := b.IntConstant("2", 2), b.IntConstant("3", 3), b.IntConstant("end", math.MaxInt64) // bounds of slices
	axis0, axis1 := b.IntConstant("axis0", 0), b.IntConstant("axis1", 1)

	// Sets. (M, d), (M, U, p)
	a0 := b.Gelu(b.Linear("aircraft", &w.Aircraft))
	z := b.Gelu(b.Linear("pairs", &w.Pair))

	// Pooling of users, per aircraft and head: (M, heads, 1, U)
	users := b.Mul(b.Op("Sub", nil, "user_mask", "one"), "hidden")
	q := b.Mul(b.Reshape(b.MatMul(a0, w.UserQuery), perCraft), "scale")
	k := b.Transpose(b.Reshape(b.MatMul(z, w.UserKey), perPair), 0, 2, 3, 1)
	v := b.Transpose(b.Reshape(b.MatMul(z, w.UserValue), perPair), 0, 2, 1, 3)
	weights := b.Mul(b.Softmax(b.Sum(b.MatMul(q, k), users)), "user_mask")
	pooled := b.Reshape(b.MatMul(weights, v), flat)
	a1 := b.Sum(a0, b.Linear(pooled, &w.UserOut))
	hidden := b.Gelu(b.Linear(b.Norm(a1, &w.EncoderNorm), &w.EncoderUp))
	a2 := b.Sum(a1, b.Linear(hidden, &w.EncoderDown))

	// Pooling of aircraft: (1, heads, 1, M)
	q = b.Mul(b.Reshape(w.FleetQuery, single), "scale")
	k = b.Transpose(b.Reshape(b.MatMul(a2, w.FleetKey), perHead), 1, 2, 0)
	v = b.Transpose(b.Reshape(b.MatMul(a2, w.FleetValue), perHead), 1, 0, 2)
	fleet := b.Reshape(b.MatMul(b.Softmax(b.MatMul(q, k)), v), flat)

	// The slot's three tokens: (3, d)
	state := b.Sum(b.MatMul(fleet, w.FleetOut), b.Linear("state", &w.StateToken))
	ret := b.Linear("return", &w.ReturnToken)
	action := b.Linear("action", &w.ActionToken)
	x := b.Concat(0, action, ret, state)

	seen := b.Concat(1, b.Op("Expand", nil, "past_mask", three), "causal")
	mask := b.Mul(b.Op("Sub", nil, seen, "one"), "hidden") // (3, past+3)
	lastMask := b.Op("Slice", nil, mask, first, second, axis0)

	for l := range w.Blocks {
		block := &w.Blocks[l]
		h := b.Linear(b.Norm(x, &block.Norm1), &block.QKV)
		q, k, v := BlockTensor(l, "q"), BlockTensor(l, "k"), BlockTensor(l, "v")
		b.Nodes = append(b.Nodes, Node{"Split", []string{h}, []string{q, k, v}, map[string]any{"axis": int64(1)}})
		k = b.Concat(1, PastKey(l), b.Transpose(b.Reshape(k, perHead), 1, 0, 2))
		v = b.Concat(1, PastValue(l), b.Transpose(b.Reshape(v, perHead), 1, 0, 2))
		b.Op("Slice", nil, k, second, last, axis1)
		b.NameOutput(PresentKey(l))
		b.Op("Slice", nil, v, second, last, axis1)
		b.NameOutput(PresentValue(l))

		if l == a.Layers-1 { // e needs the state token alone
			q, x, mask = b.Op("Slice", nil, q, first, second, axis0), b.Op("Slice", nil, x, first, second, axis0), lastMask
		}
		q = b.Mul(b.Transpose(b.Reshape(q, perHead), 1, 0, 2), "scale")
		weights := b.Softmax(b.Sum(b.MatMul(q, b.Transpose(k, 0, 2, 1)), mask))
		mixed := b.Reshape(b.Transpose(b.MatMul(weights, v), 1, 0, 2), flat)
		x = b.Sum(x, b.Linear(mixed, &block.Proj))
		h = b.Gelu(b.Linear(b.Norm(x, &block.Norm2), &block.Up))
		x = b.Sum(x, b.Linear(h, &block.Down))
	}
	e := b.Norm(x, &w.Final)

	// Heads.
	h0 := b.Gelu(b.Sum(b.Linear(a2, &w.HeadAircraft), b.MatMul(e, w.HeadContext)))
	mean := b.Op("ReduceMean", map[string]any{"axes": []int64{0}, "keepdims": int64(1)}, h0)
	h := b.Sum(h0, b.MatMul(mean, w.HeadFleetMean))
	b.Op("Tanh", nil, b.Linear(h, &w.Flight))
	b.NameOutput("move")

	each := b.Sum(b.MatMul(h, w.ChoiceAircraft), b.MatMul(e, w.ChoiceContext)) // (M, p)
	c := b.Gelu(b.Sum(b.Linear(z, &w.ChoicePair), b.Reshape(each, broadcast)))
	c = b.Gelu(b.Linear(c, &w.ChoiceHidden))
	b.Linear(c, &w.ChoiceOut)
	b.NameOutput("choice")

	y := b.Gelu(b.Linear(e, &w.PriceHidden))
	b.Reshape(b.Linear(y, &w.PriceOut), one)
	b.NameOutput("price")
	return &b.Graph
}
