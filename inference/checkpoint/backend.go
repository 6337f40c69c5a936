package checkpoint

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/owulveryck/onnx-go"
	"gonum.org/v1/gonum/graph"

	"prefdt/inference/model"
)

// nodeRecorder is an onnx-go backend that only lists the operators, in the order of
// the file. Edges form a multigraph: x·x has two between the same values.
type nodeRecorder struct {
	graph.Directed // the methods that read the graph, which the decoder never calls

	values []*value
	edges  map[int64][]edge // of the next operator, by the ID of the output that they start from
	nodes  []model.Node
}

// value is a tensor of the decoded graph. Because it has no method SetTensor, onnx-go
// decodes the structure alone, and a declared shape allocates nothing.
type value struct {
	id   int64
	name string
}

func (v *value) ID() int64           { return v.id }
func (v *value) SetName(name string) { v.name = name }
func (v *value) GetName() string     { return v.name }

// edge leads from an operator's output to an input; its weight is the input's index.
type edge struct {
	from, to *value
	position float64
}

func (e edge) From() graph.Node         { return e.from }
func (e edge) To() graph.Node           { return e.to }
func (e edge) ReversedEdge() graph.Edge { return edge{e.to, e.from, e.position} }
func (e edge) Weight() float64          { return e.position }

func (r *nodeRecorder) NewNode() graph.Node  { return &value{id: int64(len(r.values))} }
func (r *nodeRecorder) AddNode(n graph.Node) { r.values = append(r.values, n.(*value)) }
func (r *nodeRecorder) names(ids []int64) (names []string) {
	for _, id := range ids {
		names = append(names, r.values[id].name)
	}
	return names
}

func (r *nodeRecorder) NewWeightedEdge(from, to graph.Node, weight float64) graph.WeightedEdge {
	return edge{from.(*value), to.(*value), weight}
}

func (r *nodeRecorder) SetWeightedEdge(e graph.WeightedEdge) {
	from := e.From().ID()
	r.edges[from] = append(r.edges[from], e.(edge))
}

// ApplyOperation adds the operator whose edges were set last.
func (r *nodeRecorder) ApplyOperation(op onnx.Operation, outputs ...graph.Node) error {
	n := model.Node{Op: op.Name, Attributes: op.Attributes}
	for i, out := range outputs {
		edges := r.edges[out.ID()]
		delete(r.edges, out.ID())
		slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Compare(a.position, b.position) })
		var inputs []string
		for _, e := range edges {
			inputs = append(inputs, e.to.name)
		}
		if i > 0 && !slices.Equal(inputs, n.Inputs) {
			return fmt.Errorf("outputs of one %s read %q and %q", op.Name, n.Inputs, inputs)
		}
		n.Inputs = inputs
		n.Outputs = append(n.Outputs, out.(*value).name)
	}
	r.nodes = append(r.nodes, n)
	return nil
}

// decodeONNX decodes bytes that passed checkWire with onnx-go. Its panics become
// errors, though no bytes that pass are known to cause one.
func decodeONNX(data []byte) (nodes []model.Node, inputs, outputs []string, err error) {
	defer func() {
		if p := recover(); p != nil {
			nodes, err = nil, fmt.Errorf("decode graph: %v", p)
		}
	}()
	r := &nodeRecorder{edges: map[int64][]edge{}}
	m := onnx.NewModel(r)
	if err := m.UnmarshalBinary(data); err != nil {
		return nil, nil, nil, fmt.Errorf("decode graph: %w", err)
	}
	return r.nodes, r.names(m.Input), r.names(m.Output), nil
}
