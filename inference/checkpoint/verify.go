package checkpoint

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// verify checks that the graph found is the one wanted, and returns its parameters in
// their order there. The nodes are the decoder's; initializers and the shapes of inputs
// and outputs are checkWire's, because the decoder loses float16 values and named
// dimensions.
func verify(want *model.Graph, found *graphContents, nodes []model.Node, inputs, outputs []string) (parameters []float32, err error) {
	if err := cmp.Or(sameValues("input", found.inputs, want.Inputs, inputs),
		sameValues("output", found.outputs, want.Outputs, outputs)); err != nil {
		return nil, err
	}
	if len(nodes) != len(want.Nodes) || len(found.initializers) != len(want.Initializers) {
		return nil, fmt.Errorf("graph has %d nodes and %d initializers, the manifest's architecture has %d and %d",
			len(nodes), len(found.initializers), len(want.Nodes), len(want.Initializers))
	}
	for i := range nodes {
		if err := sameNode(&nodes[i], &want.Nodes[i]); err != nil {
			return nil, fmt.Errorf("node %d: %w", i, err)
		}
	}
	count := 0
	for i := range want.Initializers {
		if w := &want.Initializers[i]; w.Parameter {
			count += w.Size()
		}
	}
	parameters = make([]float32, 0, count)
	for i := range want.Initializers {
		if parameters, err = readInitializer(&found.initializers[i], &want.Initializers[i], parameters); err != nil {
			return nil, fmt.Errorf("initializer %q: %w", want.Initializers[i].Name, err)
		}
	}
	return parameters, nil
}

func sameValues(what string, found, want []model.Value, decoded []string) error {
	if len(found) != len(want) || len(decoded) != len(want) {
		return fmt.Errorf("graph has %d %ss, the manifest's architecture has %d", len(found), what, len(want))
	}
	for i, w := range want {
		if found[i].Name != w.Name || decoded[i] != w.Name || !slices.Equal(found[i].Dims, w.Dims) {
			return fmt.Errorf("%s %d is %q %v, want %q %v", what, i, found[i].Name, found[i].Dims, w.Name, w.Dims)
		}
	}
	return nil
}

func sameNode(found, want *model.Node) error {
	if found.Op != want.Op || !slices.Equal(found.Inputs, want.Inputs) || !slices.Equal(found.Outputs, want.Outputs) {
		return fmt.Errorf("%s %q -> %q, want %s %q -> %q", found.Op, found.Inputs, found.Outputs, want.Op, want.Inputs, want.Outputs)
	}
	if len(found.Attributes) != len(want.Attributes) {
		return fmt.Errorf("%s has attributes %v, want %v", found.Op, found.Attributes, want.Attributes)
	}
	for name, w := range want.Attributes {
		if !reflect.DeepEqual(found.Attributes[name], w) {
			return fmt.Errorf("%s has attribute %s %v, want %v", found.Op, name, found.Attributes[name], w)
		}
	}
	return nil
}

// readInitializer appends the values of a parameter; those of a constant it compares.
func readInitializer(found *initializer, want *model.Initializer, parameters []float32) ([]float32, error) {
	if found.name != want.Name || found.elementType != want.Type || !slices.Equal(found.dims, want.Dims) {
		return nil, fmt.Errorf("found %q of type %d and dimensions %v, want type %d and %v", found.name, found.elementType, found.dims,
			want.Type, want.Dims)
	}
	for i := range want.Size() {
		var x float32
		switch want.Type {
		case model.Int64:
			if v := int64(binary.LittleEndian.Uint64(found.raw[8*i:])); v != want.Ints[i] {
				return nil, fmt.Errorf("element %d is %d, want %d", i, v, want.Ints[i])
			}
			continue
		case model.Float16:
			x = kernel.FromFloat16(binary.LittleEndian.Uint16(found.raw[2*i:]))
		case model.Float32:
			x = math.Float32frombits(binary.LittleEndian.Uint32(found.raw[4*i:]))
		}
		switch {
		case !want.Parameter && x != want.Floats[i]:
			return nil, fmt.Errorf("element %d is %v, want %v", i, x, want.Floats[i])
		case math.IsNaN(float64(x)) || math.IsInf(float64(x), 0):
			return nil, fmt.Errorf("element %d is %v, want a finite number", i, x)
		case want.Parameter:
			parameters = append(parameters, x)
		}
	}
	return parameters, nil
}
