package prefdt

import (
	"math"

	"prefdt/inference/model"
)

// Graph returns the step of this form, as package model does of its own: what the exporter
// writes and what the loader demands, node for node. The tokens of the slots before are its
// memory: feeding "present" back as the next step's "past" flies a mission. A slot is named
// by a row of the embeddings, 1 there and 0 elsewhere; in the first slot "before" is zeros.
func (f *Form) Graph() *model.Graph {
	d, heads, m, features, past := f.Width, f.Heads, f.Aircraft, len(f.UserFeatures), f.PastTokens()
	width, column := d/heads, f.distanceColumn()
	b := &model.GraphBuilder{}
	size := func(n int) model.Dim { return model.Dim{Size: n} }
	users := model.Dim{Name: "users"}
	b.Inputs = []model.Value{
		{Name: "aircraft", Dims: []model.Dim{size(m), size(AircraftFeatures)}},
		{Name: "users", Dims: []model.Dim{users, size(m * features)}},
		{Name: "user_mask", Dims: []model.Dim{users}}, // 1 for a user, 0 for padding; without users one padded row
		{Name: "return", Dims: []model.Dim{size(1), size(ReturnFeatures)}},
		{Name: "omega", Dims: []model.Dim{size(1), size(1)}},
		{Name: "slot", Dims: []model.Dim{size(1), size(f.Slots)}},
		{Name: "action", Dims: []model.Dim{size(1), size(m * ActionFeatures)}}, // of the slot before
		{Name: "before", Dims: []model.Dim{size(1), size(f.Slots)}},
		{Name: "past", Dims: []model.Dim{size(past), size(d)}},
		{Name: "past_mask", Dims: []model.Dim{size(past + 1)}}, // 1 for a token that was, the last that action
	}
	b.Outputs = []model.Value{
		{Name: "motion", Dims: []model.Dim{size(1), size(2 * m)}},
		{Name: "choice", Dims: []model.Dim{users, size(m + 1)}},
		{Name: "offload", Dims: []model.Dim{users, size(1)}},
		{Name: "present", Dims: []model.Dim{size(past), size(d)}},
	}
	w := MapWeights(f, b.Parameter)
	tokens := past + model.TokensPerSlot
	causal := make([]float32, 0, tokens*tokens) // 0 where a token sees another, else what hides it
	for i := range tokens {
		for j := range tokens {
			hide := float32(0)
			if j > i {
				hide = -1e9
			}
			causal = append(causal, hide)
		}
	}
	b.Constant("one", []float32{1}, 1)
	b.Constant("hidden", []float32{1e9}, 1) // what a masked score is lowered by
	b.Constant("scale", []float32{float32(1 / math.Sqrt(float64(width)))}, 1)
	b.Constant("half", []float32{0.5}, 1)
	b.Constant("gelu.scale", []float32{0.7978845608}, 1)
	b.Constant("gelu.cubic", []float32{0.044715}, 1)
	b.Constant("new", []float32{1, 1}, 2) // the slot's return and state
	b.Constant("causal", causal, tokens, tokens)
	// (n, d) to (n, heads, d/heads)
	perHead := b.IntConstant("shape.heads", 0, int64(heads), int64(width))
	perPair := b.IntConstant("shape.pairs", -1, int64(m), int64(features)) // (N, M*FU) to (N, M, FU)
	// (N, M, d) to (N, M, heads, d/heads)
	perPairHead := b.IntConstant("shape.pair_heads", -1, int64(m), int64(heads), int64(width))
	// (M, d) to (M, heads, 1, d/heads)
	perCraft := b.IntConstant("shape.craft_heads", int64(m), int64(heads), 1, int64(width))
	flat := b.IntConstant("shape.row", 0, -1)                                                                   // heads side by side again
	side := b.IntConstant("shape.side", 1, -1)                                                                  // aircraft side by side
	shift, state, end := b.IntConstant("3", 3), b.IntConstant("state", -1), b.IntConstant("end", math.MaxInt64) // bounds of slices
	axis0, axis2 := b.IntConstant("axis0", 0), b.IntConstant("axis2", 2)
	distanceAt, distanceEnd := b.IntConstant("distance", int64(column)), b.IntConstant("distance.end", int64(column+1))
	perUser := b.IntConstant("shape.users", -1, int64(m*features)) // (N, M, FU) to (N, M*FU)

	// Pooling of users, per aircraft and head: (M, heads, 1, N)
	pairs := b.Reshape("users", perPair)
	q := b.Mul(b.Reshape(b.MatMul("aircraft", w.UserQuery), perCraft), "scale")
	k := b.Transpose(b.Reshape(b.MatMul(pairs, w.UserKey), perPairHead), 1, 2, 3, 0)
	v := b.Transpose(b.Reshape(b.MatMul(pairs, w.UserValue), perPairHead), 1, 2, 0, 3)
	missing := b.Mul(b.Op("Sub", nil, "user_mask", "one"), "hidden")
	weights := b.Mul(b.Softmax(b.Sum(b.MatMul(q, k), missing)), "user_mask")
	pooled := b.Linear(b.Reshape(b.MatMul(weights, v), flat), &w.UserOut)

	// The tokens of the window: (past + 3, d)
	now, before := b.MatMul("slot", w.SlotEmbedding), b.MatMul("before", w.SlotEmbedding)
	action := b.Sum(b.Sum(b.Linear("action", &w.ActionToken), b.Mul("omega", w.ActionOmega)), before)
	ret := b.Sum(b.Linear("return", &w.ReturnToken), now)
	s := b.Sum(b.Linear(b.Reshape("aircraft", side), &w.StateAircraft), b.MatMul(b.Reshape(pooled, side), w.StatePooled))
	s = b.Sum(b.Sum(s, b.Mul("omega", w.StateOmega)), now)
	x := b.Concat(0, "past", action, ret, s)
	b.Op("Slice", nil, x, shift, end, axis0)
	b.NameOutput("present")
	mask := b.Sum("causal", b.Mul(b.Op("Sub", nil, b.Concat(0, "past_mask", "new"), "one"), "hidden")) // (past+3, past+3)

	for l := range w.Blocks {
		block := &w.Blocks[l]
		h := b.Linear(b.Norm(x, &block.Norm1), &block.QKV)
		q, k, v := model.BlockTensor(l, "q"), model.BlockTensor(l, "k"), model.BlockTensor(l, "v")
		b.Nodes = append(b.Nodes, model.Node{Op: "Split", Inputs: []string{h}, Outputs: []string{q, k, v},
			Attributes: map[string]any{"axis": int64(1)}})
		k = b.Transpose(b.Reshape(k, perHead), 1, 2, 0)
		v = b.Transpose(b.Reshape(v, perHead), 1, 0, 2)
		if l == f.Layers-1 { // e needs the state token alone
			q, x, mask = b.Op("Slice", nil, q, state, end, axis0), b.Op("Slice", nil, x, state, end, axis0),
				b.Op("Slice", nil, mask, state, end, axis0)
		}
		q = b.Mul(b.Transpose(b.Reshape(q, perHead), 1, 0, 2), "scale")
		weights := b.Softmax(b.Sum(b.MatMul(q, k), mask))
		mixed := b.Reshape(b.Transpose(b.MatMul(weights, v), 1, 0, 2), flat)
		x = b.Sum(x, b.Linear(mixed, &block.Proj))
		h = b.Gelu(b.Linear(b.Norm(x, &block.Norm2), &block.Up))
		x = b.Sum(x, b.Linear(h, &block.Down))
	}
	e := b.Norm(x, &w.Final)

	b.Op("Tanh", nil, b.Linear(b.Gelu(b.Linear(e, &w.FlightHidden)), &w.Flight))
	b.NameOutput("motion")
	distances := b.Op("Slice", nil, pairs, distanceAt, distanceEnd, axis2)                                    // (N, M, 1)
	least := b.Op("ReduceMin", map[string]any{"axes": []int64{1}, "keepdims": int64(1)}, distances)           // (N, 1, 1)
	nearest := b.Op("Cast", map[string]any{"to": int64(model.Float32)}, b.Op("Equal", nil, distances, least)) // 1 for the nearest aircraft
	frames := b.Reshape(b.Mul(pairs, nearest), perUser)
	head := func(h *UserHead[string]) string {
		return b.Linear(b.Gelu(b.Sum(b.Linear(frames, &h.User), b.MatMul(e, h.Context))), &h.Out)
	}
	head(&w.Choice)
	b.NameOutput("choice")
	b.Op("Tanh", nil, head(&w.Offload))
	b.NameOutput("offload")
	return &b.Graph
}
