package export

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// message is a protobuf message under construction. Field numbers are those of
// onnx.proto; repeated numbers are written one by one, as its version 2 does.
type message []byte

func (m *message) varint(field int, v int64) {
	*m = binary.AppendUvarint(*m, uint64(field)<<3)
	*m = binary.AppendUvarint(*m, uint64(v))
}

func (m *message) bytes(field int, b []byte) {
	*m = binary.AppendUvarint(*m, uint64(field)<<3|2)
	*m = binary.AppendUvarint(*m, uint64(len(b)))
	*m = append(*m, b...)
}

func (m *message) text(field int, s string) { m.bytes(field, []byte(s)) }

func (m *message) float(field int, x float32) {
	*m = binary.AppendUvarint(*m, uint64(field)<<3|5)
	*m = binary.LittleEndian.AppendUint32(*m, math.Float32bits(x))
}

// EncodeGraph writes a graph as a ModelProto. parameters are the values of its
// parameters, in the order of its initializers; for a step's graph that is the
// order of Tensors.
func EncodeGraph(g *model.Graph, parameters []float32) []byte {
	var graph message
	for i := range g.Nodes {
		graph.bytes(1, encodeNode(&g.Nodes[i]))
	}
	graph.text(2, "step")
	for i := range g.Initializers {
		t := &g.Initializers[i]
		values := t.Floats
		if t.Parameter {
			values, parameters = parameters[:t.Size()], parameters[t.Size():]
		}
		graph.bytes(5, encodeTensor(t, values))
	}
	for _, v := range g.Inputs {
		graph.bytes(11, encodeValue(v))
	}
	for _, v := range g.Outputs {
		graph.bytes(12, encodeValue(v))
	}
	var opset message
	opset.text(1, "")
	opset.varint(2, model.OperatorSet)
	var file message
	file.varint(1, model.IRVersion)
	file.text(2, "prefdt")
	file.bytes(7, graph)
	file.bytes(8, opset)
	return file
}

func encodeNode(n *model.Node) (m message) {
	for _, name := range n.Inputs {
		m.text(1, name)
	}
	for _, name := range n.Outputs {
		m.text(2, name)
	}
	m.text(4, n.Op)
	for _, name := range slices.Sorted(maps.Keys(n.Attributes)) {
		m.bytes(5, encodeAttribute(name, n.Attributes[name]))
	}
	return m
}

func encodeAttribute(name string, value any) (m message) {
	m.text(1, name)
	switch v := value.(type) {
	case float32:
		m.float(2, v)
		m.varint(20, 1) // FLOAT
	case int64:
		m.varint(3, v)
		m.varint(20, 2) // INT
	case []int64:
		for _, i := range v {
			m.varint(8, i)
		}
		m.varint(20, 7) // INTS
	}
	return m
}

func encodeTensor(t *model.Initializer, values []float32) (m message) {
	for _, d := range t.Dims {
		m.varint(1, int64(d))
	}
	m.varint(2, int64(t.Type))
	m.text(8, t.Name)
	var raw []byte
	for i := range t.Size() {
		switch t.Type {
		case model.Int64:
			raw = binary.LittleEndian.AppendUint64(raw, uint64(t.Ints[i]))
		case model.Float16:
			raw = binary.LittleEndian.AppendUint16(raw, kernel.ToFloat16(values[i]))
		case model.Float32:
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(values[i]))
		}
	}
	m.bytes(9, raw)
	return m
}

func encodeValue(v model.Value) (m message) {
	var shape message
	for _, d := range v.Dims {
		var dim message
		if d.Name != "" {
			dim.text(2, d.Name)
		} else {
			dim.varint(1, int64(d.Size))
		}
		shape.bytes(1, dim)
	}
	var tensor, kind message
	tensor.varint(1, int64(model.Float32))
	tensor.bytes(2, shape)
	kind.bytes(1, tensor)
	m.text(1, v.Name)
	m.bytes(2, kind)
	return m
}
