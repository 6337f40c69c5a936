package checkpoint

import (
	"cmp"
	"fmt"
	"math"

	"prefdt/inference/model"
)

// The messages of onnx.proto, as far as checkpoints use them. Field numbers are
// ONNX's. The counts suffice for the largest architecture that model.Arch allows.
var (
	modelProto = message{"model", map[int]fieldRule{
		1: {"ir_version", varint, 1}, 2: {"producer_name", lengthDelimited, 1}, 7: {"graph", lengthDelimited, 1},
		8:  {"opset_import", lengthDelimited, 1},
		20: {name: "training_info"}, 25: {name: "functions"},
	}}
	opsetProto = message{"opset_import", map[int]fieldRule{1: {"domain", lengthDelimited, 1}, 2: {"version", varint, 1}}}
	graphProto = message{"graph", map[int]fieldRule{
		1: {"node", lengthDelimited, 4096}, 2: {"name", lengthDelimited, 1}, 5: {"initializer", lengthDelimited, 2048},
		11: {"input", lengthDelimited, 128}, 12: {"output", lengthDelimited, 128},
		13: {name: "value_info"}, 14: {name: "quantization_annotation"}, 15: {name: "sparse_initializer"},
	}}
	nodeProto = message{"node", map[int]fieldRule{
		1: {"input", lengthDelimited, 8}, 2: {"output", lengthDelimited, 4}, 4: {"op_type", lengthDelimited, 1},
		5: {"attribute", lengthDelimited, 4}, 7: {name: "domain"},
	}}
	attributeProto = message{"attribute", map[int]fieldRule{
		1: {"name", lengthDelimited, 1}, 2: {"f", fixed32, 1}, 3: {"i", varint, 1}, 8: {"ints", varint, 8}, 20: {"type", varint, 1},
		5: {name: "t"}, 6: {name: "g (a subgraph)"}, 10: {name: "tensors"}, 11: {name: "graphs"}, 21: {name: "ref_attr_name"},
	}}
	tensorProto = message{"initializer", map[int]fieldRule{
		1: {"dims", varint, 4}, 2: {"data_type", varint, 1}, 8: {"name", lengthDelimited, 1}, 9: {"raw_data", lengthDelimited, 1},
		13: {name: "external_data"}, 14: {name: "data_location"},
	}}
	valueProto = message{"value", map[int]fieldRule{1: {"name", lengthDelimited, 1}, 2: {"type", lengthDelimited, 1}}}
	typeProto  = message{"type", map[int]fieldRule{1: {"tensor_type", lengthDelimited, 1}, 4: {name: "sequence_type"},
		5: {name: "map_type"}}}
	tensorTypeProto = message{"tensor_type", map[int]fieldRule{1: {"elem_type", varint, 1}, 2: {"shape", lengthDelimited, 1}}}
	shapeProto      = message{"shape", map[int]fieldRule{1: {"dim", lengthDelimited, 4}}}
	dimProto        = message{"dim", map[int]fieldRule{1: {"dim_value", varint, 1}, 2: {"dim_param", lengthDelimited, 1}}}
)

// ONNX's codes of attribute types.
const (
	attributeFloat = 1
	attributeInt   = 2
	attributeInts  = 7
)

// operators lists the operators in use and the type of each attribute. That an
// operator has all of its attributes is checked later, in verify.
var operators = map[string]map[string]uint64{
	"Add": {}, "Sub": {}, "Mul": {}, "MatMul": {}, "Tanh": {}, "Reshape": {}, "Expand": {}, "Slice": {}, "Equal": {},
	"Cast": {"to": attributeInt}, "Concat": {"axis": attributeInt}, "Softmax": {"axis": attributeInt}, "LogSoftmax": {"axis": attributeInt},
	"Split":     {"axis": attributeInt},
	"Transpose": {"perm": attributeInts}, "ReduceMean": {"axes": attributeInts, "keepdims": attributeInt},
	"ReduceMin":          {"axes": attributeInts, "keepdims": attributeInt},
	"LayerNormalization": {"axis": attributeInt, "epsilon": attributeFloat},
}

const (
	maxNameBytes = 64
	maxDim       = 1 << 16
)

type initializer struct {
	name        string
	elementType model.ElementType
	dims        []int
	raw         []byte
}

// graphContents is what checkWire keeps of a graph; the nodes are read by the decoder.
type graphContents struct {
	inputs, outputs []model.Value
	initializers    []initializer
	defined         map[string]string // name -> what it names
}

// checkWire checks a graph's bytes before anything else reads them: every count is
// limited, every declared size is compared with the data, and only the operators
// and attributes in use are allowed.
func checkWire(data []byte) (*graphContents, error) {
	file, err := modelProto.parse(data)
	if err != nil {
		return nil, err
	}
	if version := file.get(1).value; version != model.IRVersion {
		return nil, fmt.Errorf("graph has ir_version %d, this program reads %d", version, model.IRVersion)
	}
	if err := checkOpset(file.get(8).bytes); err != nil {
		return nil, err
	}
	graph, err := graphProto.parse(file.get(7).bytes)
	if err != nil {
		return nil, err
	}
	c := &graphContents{defined: map[string]string{}}
	for _, f := range graph {
		switch f.number {
		case 5:
			err = c.addInitializer(f.bytes)
		case 11:
			err = c.addValue(&c.inputs, "input", f.bytes)
		case 12:
			err = c.addValue(&c.outputs, "output", f.bytes)
		}
		if err != nil {
			return nil, err
		}
	}
	for i, node := range graph.all(1) {
		if err := c.checkNode(node.bytes); err != nil {
			return nil, fmt.Errorf("node %d: %w", i, err)
		}
	}
	for _, v := range c.outputs {
		if what := c.defined[v.Name]; what != "node output" {
			return nil, fmt.Errorf("output %q is computed by no node", v.Name)
		}
	}
	return c, nil
}

func checkOpset(data []byte) error {
	opset, err := opsetProto.parse(data)
	domain, version := opset.get(1).bytes, opset.get(2).value
	switch {
	case err != nil:
		return err
	case len(domain) > 0:
		return fmt.Errorf("graph imports operators of domain %.64q, want the standard ones", domain)
	case version != model.OperatorSet:
		return fmt.Errorf("graph has operator set %d, this program reads %d", version, model.OperatorSet)
	}
	return nil
}

// define adds a name, which may be defined only once.
func (c *graphContents) define(name, what string) error {
	if name == "" || len(name) > maxNameBytes {
		return fmt.Errorf("%s has the name %.64q of %d bytes, want 1 to %d", what, name, len(name), maxNameBytes)
	}
	if before, taken := c.defined[name]; taken {
		return fmt.Errorf("the name %q stands for both an %s and an %s", name, before, what)
	}
	c.defined[name] = what
	return nil
}

func (c *graphContents) addInitializer(data []byte) error {
	tensor, err := tensorProto.parse(data)
	if err != nil {
		return err
	}
	t := initializer{
		name: tensor.get(8).name(), elementType: model.ElementType(min(tensor.get(2).value, math.MaxInt32)), raw: tensor.get(9).bytes,
	}
	for _, f := range tensor.all(1) {
		if f.value < 1 || f.value > maxDim {
			return fmt.Errorf("initializer %.64q: dimension %d, want 1 to %d", t.name, int64(f.value), maxDim)
		}
		t.dims = append(t.dims, int(f.value))
	}
	if err := c.define(t.name, "initializer"); err != nil {
		return err
	}
	if t.elementType.Size() == 0 {
		return fmt.Errorf("initializer %q has elements of type %d, want float32 (1), int64 (7) or float16 (10)", t.name, t.elementType)
	}
	size := uint64(t.elementType.Size())
	for _, d := range t.dims { // at most 2^67 in four steps, hence the check inside the loop
		if size *= uint64(d); size > maxGraphBytes {
			break
		}
	}
	if size != uint64(len(t.raw)) {
		return fmt.Errorf("initializer %q has dimensions %v of %d bytes each and %d bytes of data", t.name, t.dims, t.elementType.Size(),
			len(t.raw))
	}
	c.initializers = append(c.initializers, t)
	return nil
}

// addValue reads an input or output; the node that computes an output defines its name.
func (c *graphContents) addValue(list *[]model.Value, what string, data []byte) error {
	value, err1 := valueProto.parse(data)
	kind, err2 := typeProto.parse(value.get(2).bytes)
	tensor, err3 := tensorTypeProto.parse(kind.get(1).bytes)
	shape, err4 := shapeProto.parse(tensor.get(2).bytes)
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		return err
	}
	v := model.Value{Name: value.get(1).name()}
	for _, f := range shape.all(1) {
		dim, err := dimProto.parse(f.bytes)
		size, name := dim.get(1).value, dim.get(2).bytes
		switch {
		case err != nil:
			return err
		case size > maxDim:
			return fmt.Errorf("%s %.64q: dimension %d, want at most %d", what, v.Name, int64(size), maxDim)
		case len(name) > maxNameBytes:
			return fmt.Errorf("%s %.64q: a dimension's name of %d bytes, want at most %d", what, v.Name, len(name), maxNameBytes)
		}
		v.Dims = append(v.Dims, model.Dim{Size: int(size), Name: string(name)})
	}
	if elementType := tensor.get(1).value; elementType != uint64(model.Float32) {
		return fmt.Errorf("%s %.64q has elements of type %d, want float32 (1)", what, v.Name, elementType)
	}
	*list = append(*list, v)
	if what == "input" {
		return c.define(v.Name, what)
	}
	return nil
}

// checkNode checks a node. It may read only names already defined: there are no cycles.
func (c *graphContents) checkNode(data []byte) error {
	node, err := nodeProto.parse(data)
	if err != nil {
		return err
	}
	for _, f := range node.all(1) {
		if _, ok := c.defined[string(f.bytes)]; !ok {
			return fmt.Errorf("reads %.64q, which nothing before it defines", f.bytes)
		}
	}
	op, outputs := node.get(4).name(), node.all(2)
	allowed, ok := operators[op]
	if !ok {
		return fmt.Errorf("operator %q is not used by checkpoints", op)
	}
	if len(outputs) == 0 {
		return fmt.Errorf("%s has no output", op)
	}
	seen := map[string]bool{}
	for _, f := range node.all(5) {
		name, err := checkAttribute(f.bytes, allowed)
		if err == nil && seen[name] {
			err = fmt.Errorf("attribute %q occurs twice", name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		seen[name] = true
	}
	for _, f := range outputs {
		if err := c.define(string(f.bytes), "node output"); err != nil {
			return err
		}
	}
	return nil
}

func checkAttribute(data []byte, allowed map[string]uint64) (name string, err error) {
	attribute, err := attributeProto.parse(data)
	if err != nil {
		return "", err
	}
	name = attribute.get(1).name()
	want, ok := allowed[name]
	if !ok {
		return "", fmt.Errorf("attribute %q is not allowed", name)
	}
	has := func(number int) bool { return len(attribute.all(number)) > 0 }
	if x := attribute.get(20).value; x != want || has(2) != (want == attributeFloat) || has(3) != (want == attributeInt) ||
		has(8) != (want == attributeInts) {
		return "", fmt.Errorf("attribute %q has type %d or another type's value, want type %d", name, x, want)
	}
	return name, nil
}
