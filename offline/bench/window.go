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
	b := &fixedBuilder{}
	b.Inputs = []model.Value{
		fixedValue("aircraft", slots*aircraft, model.AircraftFeatures),
		fixedValue("pairs", slots*aircraft, users, model.PairFeatures),
		fixedValue("state", slots, model.StateFeatures),
		fixedValue("return", slots, model.ReturnFeatures),
		fixedValue("action", slots, model.ActionFeatures),
	}
	b.Outputs = []model.Value{fixedValue("move", aircraft, 2), fixedValue("choice", aircraft, users, model.ChoiceOutputs),
		fixedValue("price", 1, 1)}
	w := b.Parameters(a)
	b.Constant("one", []float32{1}, 1)
	b.Constant("half", []float32{0.5}, 1)
	b.Constant("gelu.scale", []float32{0.7978845608}, 1)
	b.Constant("gelu.cubic", []float32{0.044715}, 1)
	b.Constant("scale", []float32{float32(1 / math.Sqrt(float64(width)))}, 1)
	mask := make([]float32, tokens*tokens)
	for i := range tokens {
		for j := i + 1; j < tokens; j++ {
			mask[i*tokens+j] = -1e9
		}
	}
	b.Constant("mask", mask, tokens, tokens)
	// attend mixes values (..., heads, keys, width) for queries (..., heads, n, width).
	attend := func(q, k, v, mask string) string {
		scores := b.MatMul(b.Mul(q, "scale"), k)
		if mask != "" {
			scores = b.Sum(scores, mask)
		}
		return b.MatMul(b.Softmax(scores), v)
	}

	// Sets of every slot: rows (slots·M, d), pairs (slots·M, U, p).
	a0 := b.Gelu(b.Linear("aircraft", &w.Aircraft))
	z := b.Gelu(b.Linear("pairs", &w.Pair))
	perPair := []int{slots * aircraft, users, heads, width}
	pooled := attend(
		b.reshape(b.MatMul(a0, w.UserQuery), slots*aircraft, heads, 1, width),
		b.Transpose(b.reshape(b.MatMul(z, w.UserKey), perPair...), 0, 2, 3, 1),
		b.Transpose(b.reshape(b.MatMul(z, w.UserValue), perPair...), 0, 2, 1, 3), "")
	a1 := b.Sum(a0, b.Linear(b.reshape(pooled, slots*aircraft, d), &w.UserOut))
	a2 := b.Sum(a1, b.Linear(b.Gelu(b.Linear(b.Norm(a1, &w.EncoderNorm), &w.EncoderUp)), &w.EncoderDown))
	perAircraft := []int{slots, aircraft, heads, width}
	fleet := attend(
		b.reshape(w.FleetQuery, 1, heads, 1, width),
		b.Transpose(b.reshape(b.MatMul(a2, w.FleetKey), perAircraft...), 0, 2, 3, 1),
		b.Transpose(b.reshape(b.MatMul(a2, w.FleetValue), perAircraft...), 0, 2, 1, 3), "")

	// The stream, (tokens, d).
	state := b.Sum(b.MatMul(b.reshape(fleet, slots, d), w.FleetOut), b.Linear("state", &w.StateToken))
	x := b.reshape(b.Concat(1, b.Linear("action", &w.ActionToken), b.Linear("return", &w.ReturnToken), state), tokens, d)
	for l := range w.Blocks {
		block := &w.Blocks[l]
		q, k, v := model.BlockTensor(l, "q"), model.BlockTensor(l, "k"), model.BlockTensor(l, "v")
		qkv := b.Linear(b.Norm(x, &block.Norm1), &block.QKV)
		b.Nodes = append(b.Nodes, model.Node{Op: "Split", Inputs: []string{qkv}, Outputs: []string{q, k, v},
			Attributes: map[string]any{"axis": int64(1)}})
		queries, hide := tokens, "mask"
		if l == a.Layers-1 { // only the last state token is used
			queries, hide = 1, ""
			q, x = b.lastRows(q, 1), b.lastRows(x, 1)
		}
		mixed := attend(
			b.Transpose(b.reshape(q, queries, heads, width), 1, 0, 2),
			b.Transpose(b.reshape(k, tokens, heads, width), 1, 2, 0),
			b.Transpose(b.reshape(v, tokens, heads, width), 1, 0, 2), hide)
		x = b.Sum(x, b.Linear(b.reshape(b.Transpose(mixed, 1, 0, 2), queries, d), &block.Proj))
		x = b.Sum(x, b.Linear(b.Gelu(b.Linear(b.Norm(x, &block.Norm2), &block.Up)), &block.Down))
	}
	e := b.Norm(x, &w.Final)

	// Heads of the last slot.
	a2, z = b.lastRows(a2, aircraft), b.lastRows(z, aircraft)
	h0 := b.Gelu(b.Sum(b.Linear(a2, &w.HeadAircraft), b.MatMul(e, w.HeadContext)))
	mean := b.Op("ReduceMean", map[string]any{"axes": []int64{0}, "keepdims": int64(1)}, h0)
	h := b.Sum(h0, b.MatMul(mean, w.HeadFleetMean))
	b.Op("Tanh", nil, b.Linear(h, &w.Flight))
	b.NameOutput("move")
	each := b.reshape(b.Sum(b.MatMul(h, w.ChoiceAircraft), b.MatMul(e, w.ChoiceContext)), aircraft, 1, a.PairWidth)
	c := b.Gelu(b.Sum(b.Linear(z, &w.ChoicePair), each))
	b.Linear(b.Gelu(b.Linear(c, &w.ChoiceHidden)), &w.ChoiceOut)
	b.NameOutput("choice")
	b.Linear(b.Gelu(b.Linear(e, &w.PriceHidden)), &w.PriceOut)
	b.NameOutput("price")
	return &b.Graph
}

// identityGraph has the inputs and outputs of g and does nothing: its time is that
// of a call without the arithmetic. An output is a copy of an input, and each
// cache one of its own.
func identityGraph(g *model.Graph) *model.Graph {
	b := &model.GraphBuilder{}
	b.Inputs = g.Inputs
	for i, out := range g.Outputs {
		from := g.Inputs[min(i, 2)]
		if i >= 3 {
			from = g.Inputs[len(g.Inputs)-len(g.Outputs)+i]
		}
		b.Outputs = append(b.Outputs, model.Value{Name: out.Name, Dims: from.Dims})
		b.Op("Identity", nil, from.Name)
		b.NameOutput(out.Name)
	}
	return &b.Graph
}

// fixedBuilder builds a graph in which every dimension is a number.
type fixedBuilder struct{ model.GraphBuilder }

func fixedValue(name string, dims ...int) model.Value {
	v := model.Value{Name: name}
	for _, n := range dims {
		v.Dims = append(v.Dims, model.Dim{Size: n})
	}
	return v
}

func (b *fixedBuilder) addIntegers(values ...int) string {
	var list []int64
	for _, v := range values {
		list = append(list, int64(v))
	}
	return b.IntConstant(fmt.Sprintf("ints.%d", len(b.Initializers)), list...)
}

func (b *fixedBuilder) reshape(x string, dims ...int) string {
	return b.Reshape(x, b.addIntegers(dims...))
}

func (b *fixedBuilder) lastRows(x string, n int) string {
	return b.Op("Slice", nil, x, b.addIntegers(-n), b.addIntegers(math.MaxInt32), b.addIntegers(0))
}
