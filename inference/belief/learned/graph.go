package learned

import (
	"math"

	"prefdt/inference/model"
)

// Graph returns the networks as one graph of standard operators: what the
// exporter writes and a checkpoint's loader demands, node for node. Each network, by its
// name, reads queries (n, QueryFeatures) and the observations of each, padded to one length:
// rows (n, observed, RowFeatures) and a mask (n, observed), 1 for a row and 0 for padding,
// of which there is one row at least where no query has any. Encoder has the formulas.
func Graph() *model.Graph {
	b := &model.GraphBuilder{}
	for _, e := range encoders {
		dim, observed := model.Dim{Name: e.name + "s"}, model.Dim{Name: e.name + ".observed"}
		b.Inputs = append(b.Inputs,
			model.Value{Name: e.name + ".rows", Dims: []model.Dim{dim, observed, {Size: e.RowFeatures}}},
			model.Value{Name: e.name + ".mask", Dims: []model.Dim{dim, observed}},
			model.Value{Name: e.name + ".queries", Dims: []model.Dim{dim, {Size: e.QueryFeatures}}})
		b.Outputs = append(b.Outputs, model.Value{Name: e.name + ".outputs", Dims: []model.Dim{dim, {Size: e.Outputs}}})
	}
	layers := make([]Layers[string], len(encoders))
	for k, layout := range layouts() {
		names := model.Parameters[string](&layers[k])
		for i, t := range model.Parameters[model.Tensor](&layout) {
			*names[i] = b.Parameter(*t)
		}
	}
	b.Constant("one", []float32{1}, 1)
	b.Constant("zero", []float32{0}, 1)
	b.Constant("minus", []float32{-1}, 1)
	b.Constant("hidden", []float32{1e9}, 1) // what a masked score is lowered by
	b.Constant("half", []float32{0.5}, 1)
	b.Constant("gelu.scale", []float32{0.7978845608}, 1)
	b.Constant("gelu.cubic", []float32{0.044715}, 1)
	b.IntConstant("first", 0)
	b.IntConstant("last", -1)
	b.IntConstant("end", math.MaxInt64)
	b.IntConstant("axis1", 1)
	b.IntConstant("axis2", 2)
	b.IntConstant("shape.row", 0, -1)       // (n, ...) to one row each
	b.IntConstant("shape.scores", 0, 1, -1) // (n, observed) to (n, 1, observed)
	for k, e := range encoders {
		e.graph(b, e.name, &layers[k])
	}
	return &b.Graph
}

// graph adds an encoder's nodes; its last one is its output.
func (s *Shape) graph(b *model.GraphBuilder, name string, l *Layers[string]) {
	pooled, averages := s.poolGraph(b, name, l)
	x := b.Concat(1, pooled, name+".queries")
	y := b.Linear(b.Gelu(b.Linear(b.Gelu(b.Linear(x, &l.Hidden1)), &l.Hidden2)), &l.Out)
	if s.Averages > 0 { // added to the last outputs
		toLast := make([]float32, s.Averages*s.Outputs)
		for a := range s.Averages {
			toLast[a*s.Outputs+s.Outputs-s.Averages+a] = 1
		}
		b.Constant(name+".to_last", toLast, s.Averages, s.Outputs)
		b.Sum(y, b.MatMul(averages, name+".to_last"))
	}
	b.NameOutput(name + ".outputs")
}

// poolGraph adds the attention, and returns what it gives with the averages in it, and
// these alone.
func (s *Shape) poolGraph(b *model.GraphBuilder, name string, l *Layers[string]) (pooled, averages string) {
	slice := func(x, from, to, axis string) string { return b.Op("Slice", nil, x, from, to, axis) }
	heads, width := int64(s.Heads), int64(s.Width)
	split := b.IntConstant(name+".heads", heads)
	perHead := b.IntConstant(name+".shape.values", 0, 0, heads, width) // (n, observed, heads*width) apart
	weights := b.IntConstant(name+".shape.weights", 0, heads, 1, -1)   // (n, heads, observed) to rows

	keys := b.Linear(b.Gelu(b.Linear(name+".rows", &l.RowIn)), &l.RowOut)
	scores := b.Transpose(slice(keys, "first", split, "axis2"), 0, 2, 1) // (n, heads, observed)
	values := b.Transpose(b.Reshape(slice(keys, split, "end", "axis2"), perHead), 0, 2, 1, 3)

	none := b.Mul(b.Op("ReduceMean", map[string]any{"axes": []int64{2}, "keepdims": int64(1)}, scores), "zero")
	mask := b.Reshape(b.Mul(b.Op("Sub", nil, name+".mask", "one"), "hidden"), "shape.scores")
	scores = b.Concat(2, b.Sum(scores, mask), none)
	attention := slice(b.Softmax(scores), "first", "last", "axis2")
	amount := b.Mul(slice(b.Op("LogSoftmax", map[string]any{"axis": int64(-1)}, scores), "last", "end", "axis2"), "minus")
	sum := b.MatMul(b.Reshape(attention, weights), values) // (n, heads, 1, width)

	parts := []string{b.Reshape(sum, "shape.row"), b.Reshape(amount, "shape.row")}
	if s.Averages > 0 {
		some := int64(s.Averages)
		count, from := b.IntConstant(name+".averages", some), b.IntConstant(name+".averaged", -some)
		row := b.IntConstant(name+".shape.averaging", 0, some, 1, -1)
		column := b.IntConstant(name+".shape.averaged", 0, some, -1, 1)
		features := b.Reshape(b.Transpose(slice(name+".rows", from, "end", "axis2"), 0, 2, 1), column)
		averages = b.Reshape(b.MatMul(b.Reshape(slice(attention, "first", count, "axis1"), row), features), "shape.row")
		parts = append(parts, averages)
	}
	return b.Concat(1, parts...), averages
}
