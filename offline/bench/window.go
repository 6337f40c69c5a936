package bench

import (
	"fmt"
	"math"

	"prefdt/inference/model"
)

// windowGraph is the network as the paper runs it: without a cache, each slot
// computes the tokens of the last Context slots anew. Its inputs are the step's
// rows of all these slots, one after another, with one number of aircraft and of
// users; its outputs are those of the last slot.
func windowGraph(a model.Arch, aircraft, users int) *model.Graph {
	d, heads, width, slots := a.Width, a.Heads, a.Width/a.Heads, a.Context
	tokens := model.TokensPerSlot * slots
	b := &graphBuilder{}
	input := func(name string, dims ...int) {
		v := model.Value{Name: name}
		for _, n := range dims {
			v.Dims = append(v.Dims, model.Dim{Size: n})
		}
		b.Inputs = append(b.Inputs, v)
	}
	input("aircraft", slots*aircraft, model.AircraftFeatures)
	input("pairs", slots*aircraft, users, model.PairFeatures)
	input("state", slots, model.StateFeatures)
	input("return", slots, model.ReturnFeatures)
	input("action", slots, model.ActionFeatures)
	b.Outputs = []model.Value{
		{Name: "move", Dims: []model.Dim{{Size: aircraft}, {Size: 2}}},
		{Name: "choice", Dims: []model.Dim{{Size: aircraft}, {Size: users}, {Size: model.ChoiceOutputs}}},
		{Name: "price", Dims: []model.Dim{{Size: 1}, {Size: 1}}},
	}
	w := b.addParameters(a)
	for name, x := range map[string]float32{"one": 1, "half": 0.5, "gelu.scale": 0.7978845608, "gelu.cubic": 0.044715, "scale": float32(1 / math.Sqrt(float64(width)))} {
		b.addConstant(name, []float32{x}, 1)
	}
	mask := make([]float32, tokens*tokens)
	for i := range tokens {
		for j := i + 1; j < tokens; j++ {
			mask[i*tokens+j] = -1e9
		}
	}
	b.addConstant("mask", mask, tokens, tokens)
	affine := func(x, weight, bias string) string { return b.op("Add", nil, b.op("MatMul", nil, x, w[weight]), bias) }
	matMul := func(x, weight string) string { return b.op("MatMul", nil, x, w[weight]) }
	gelu := func(x string) string {
		cubic := b.op("Add", nil, b.op("Mul", nil, b.op("Mul", nil, x, "gelu.cubic"), x), "one")
		gate := b.op("Add", nil, b.op("Tanh", nil, b.op("Mul", nil, b.op("Mul", nil, x, "gelu.scale"), cubic)), "one")
		return b.op("Mul", nil, b.op("Mul", nil, x, "half"), gate)
	}
	// attend mixes values (..., heads, keys, width) for queries (..., heads, n, width).
	attend := func(q, k, v, mask string) string {
		scores := b.op("MatMul", nil, b.op("Mul", nil, q, "scale"), k)
		if mask != "" {
			scores = b.op("Add", nil, scores, mask)
		}
		return b.op("MatMul", nil, b.op("Softmax", intAttribute("axis", -1), scores), v)
	}

	// Sets of every slot: rows (slots·M, d), pairs (slots·M, U, p).
	a0 := gelu(affine("aircraft", "aircraft.w", "aircraft.b"))
	z := gelu(affine("pairs", "pair.w", "pair.b"))
	perPair := []int{slots * aircraft, users, heads, width}
	pooled := attend(
		b.reshape(matMul(a0, "pool.q"), slots*aircraft, heads, 1, width),
		b.transpose(b.reshape(matMul(z, "pool.k"), perPair...), 0, 2, 3, 1),
		b.transpose(b.reshape(matMul(z, "pool.v"), perPair...), 0, 2, 1, 3), "")
	a1 := b.op("Add", nil, a0, affine(b.reshape(pooled, slots*aircraft, d), "pool.o", "pool.ob"))
	a2 := b.op("Add", nil, a1, affine(gelu(affine(b.layerNorm(a1, "craft.ng", "craft.nb"), "craft.w1", "craft.b1")), "craft.w2", "craft.b2"))
	perAircraft := []int{slots, aircraft, heads, width}
	fleet := attend(
		b.reshape("fleet.q", 1, heads, 1, width),
		b.transpose(b.reshape(matMul(a2, "fleet.k"), perAircraft...), 0, 2, 3, 1),
		b.transpose(b.reshape(matMul(a2, "fleet.v"), perAircraft...), 0, 2, 1, 3), "")

	// The stream, (tokens, d).
	state := b.op("Add", nil, matMul(b.reshape(fleet, slots, d), "fleet.o"), affine("state", "state.w", "state.b"))
	x := b.reshape(b.op("Concat", intAttribute("axis", 1), affine("action", "action.w", "action.b"), affine("return", "return.w", "return.b"), state), tokens, d)
	for l := range a.Layers {
		name := func(s string) string { return model.BlockTensor(l, s) }
		q, k, v := name("q"), name("k"), name("v")
		b.Nodes = append(b.Nodes, model.Node{Op: "Split", Inputs: []string{affine(b.layerNorm(x, name("n1g"), name("n1b")), name("qkv.w"), name("qkv.b"))}, Outputs: []string{q, k, v}, Attributes: intAttribute("axis", 1)})
		queries, hide := tokens, "mask"
		if l == a.Layers-1 { // only the last state token is used
			queries, hide = 1, ""
			q, x = b.lastRows(q, 1), b.lastRows(x, 1)
		}
		mixed := attend(
			b.transpose(b.reshape(q, queries, heads, width), 1, 0, 2),
			b.transpose(b.reshape(k, tokens, heads, width), 1, 2, 0),
			b.transpose(b.reshape(v, tokens, heads, width), 1, 0, 2), hide)
		x = b.op("Add", nil, x, affine(b.reshape(b.transpose(mixed, 1, 0, 2), queries, d), name("proj.w"), name("proj.b")))
		x = b.op("Add", nil, x, affine(gelu(affine(b.layerNorm(x, name("n2g"), name("n2b")), name("fc.w"), name("fc.b"))), name("out.w"), name("out.b")))
	}
	e := b.layerNorm(x, "final.g", "final.b")

	// Heads of the last slot.
	a2, z = b.lastRows(a2, aircraft), b.lastRows(z, aircraft)
	h0 := gelu(b.op("Add", nil, affine(a2, "craft.a", "craft.hb"), matMul(e, "craft.e")))
	mean := b.op("ReduceMean", map[string]any{"axes": []int64{0}, "keepdims": int64(1)}, h0)
	h := b.op("Add", nil, h0, matMul(mean, "craft.mix"))
	b.outputOp("move", "Tanh", affine(h, "flight.w", "flight.b"))
	each := b.reshape(b.op("Add", nil, matMul(h, "choice.a"), matMul(e, "choice.e")), aircraft, 1, a.PairWidth)
	c := gelu(b.op("Add", nil, affine(z, "choice.p", "choice.b"), each))
	b.outputOp("choice", "Add", matMul(gelu(affine(c, "choice.w", "choice.wb")), "choice.o"), "choice.ob")
	b.outputOp("price", "Add", matMul(gelu(affine(e, "price.w", "price.b")), "price.o"), "price.ob")
	return &b.Graph
}

// identityGraph has the inputs and outputs of g and does nothing: its time is that
// of a call without the arithmetic. An output is a copy of an input, and each
// cache one of its own.
func identityGraph(g *model.Graph) *model.Graph {
	b := &graphBuilder{}
	b.Inputs = g.Inputs
	caches := 0
	for i, out := range g.Outputs {
		from := g.Inputs[min(i, 2)]
		if i >= 3 {
			caches++
			from = g.Inputs[len(g.Inputs)-(len(g.Outputs)-3)+caches-1]
		}
		b.Outputs = append(b.Outputs, model.Value{Name: out.Name, Dims: from.Dims})
		b.outputOp(out.Name, "Identity", from.Name)
	}
	return &b.Graph
}

// graphBuilder adds nodes to a model.Graph; each returns the name of its output.
type graphBuilder struct {
	model.Graph
	count int
}

func (b *graphBuilder) op(op string, attributes map[string]any, inputs ...string) string {
	b.count++
	return b.addNode(fmt.Sprintf("%s.%d", op, b.count), op, attributes, inputs)
}

// outputOp is an operator whose output is one of the graph.
func (b *graphBuilder) outputOp(name, op string, inputs ...string) { b.addNode(name, op, nil, inputs) }

func (b *graphBuilder) addNode(name, op string, attributes map[string]any, inputs []string) string {
	b.Nodes = append(b.Nodes, model.Node{Op: op, Inputs: inputs, Outputs: []string{name}, Attributes: attributes})
	return name
}

func intAttribute(name string, values ...int64) map[string]any {
	if len(values) == 1 {
		return map[string]any{name: values[0]}
	}
	return map[string]any{name: values}
}

// addParameters stores every tensor, matrices as float16, and returns the names
// under which they are read.
func (b *graphBuilder) addParameters(a model.Arch) map[string]string {
	w := map[string]string{}
	for _, t := range a.Tensors() {
		i := model.Initializer{Name: t.Name, Type: model.Float32, Dims: []int{t.Cols}, Parameter: true}
		w[t.Name] = t.Name
		if t.IsMatrix() {
			i.Type, i.Dims = model.Float16, []int{t.Rows, t.Cols}
			w[t.Name] = b.op("Cast", intAttribute("to", int64(model.Float32)), t.Name)
		}
		b.Initializers = append(b.Initializers, i)
	}
	return w
}

func (b *graphBuilder) addConstant(name string, values []float32, dims ...int) {
	b.Initializers = append(b.Initializers, model.Initializer{Name: name, Type: model.Float32, Dims: dims, Floats: values})
}

func (b *graphBuilder) addIntegers(values ...int) string {
	b.count++
	i := model.Initializer{Name: fmt.Sprintf("ints.%d", b.count), Type: model.Int64, Dims: []int{len(values)}}
	for _, v := range values {
		i.Ints = append(i.Ints, int64(v))
	}
	b.Initializers = append(b.Initializers, i)
	return i.Name
}

func (b *graphBuilder) reshape(x string, dims ...int) string {
	return b.op("Reshape", nil, x, b.addIntegers(dims...))
}

func (b *graphBuilder) transpose(x string, order ...int64) string {
	return b.op("Transpose", map[string]any{"perm": order}, x)
}

func (b *graphBuilder) layerNorm(x, gain, bias string) string {
	return b.op("LayerNormalization", map[string]any{"axis": int64(-1), "epsilon": float32(model.NormEpsilon)}, x, gain, bias)
}

// lastRows is the last n rows of x.
func (b *graphBuilder) lastRows(x string, n int) string {
	return b.op("Slice", nil, x, b.addIntegers(-n), b.addIntegers(math.MaxInt32), b.addIntegers(0))
}
