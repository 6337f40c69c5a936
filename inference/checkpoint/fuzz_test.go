package checkpoint_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"prefdt/inference/checkpoint"
	"prefdt/inference/model"
)

// Random changes of bytes rarely pass the first check of a protobuf or of strict
// JSON. So the fuzz targets here edit the parts of a valid file, each edit encoded
// in a few of the fuzzer's bytes.

// fieldTree is a field of a decoded protobuf message.
type fieldTree struct {
	protoField
	children *[]*fieldTree // its fields, if it is itself a message of the schema
}

// nestedMessages lists the fields of ONNX's messages that hold messages.
var nestedMessages = map[string]map[int]string{
	"model": {7: "graph", 8: "opset"}, "graph": {1: "node", 5: "tensor", 11: "value", 12: "value"}, "node": {5: "attribute"},
	"value": {2: "type"}, "type": {1: "tensor type"}, "tensor type": {2: "shape"}, "shape": {1: "dim"},
}

// parseTree returns a message's fields and adds every message in it to all.
func parseTree(name string, data []byte, all *[]*[]*fieldTree) *[]*fieldTree {
	fields := &[]*fieldTree{}
	*all = append(*all, fields)
	for _, p := range parseFields(data) {
		t := &fieldTree{protoField: p}
		if inner, ok := nestedMessages[name][p.number]; ok {
			t.children = parseTree(inner, p.bytes, all)
		}
		*fields = append(*fields, t)
	}
	return fields
}

func (t *fieldTree) rebuilt() protoField {
	p := t.protoField
	if t.children != nil {
		p.bytes = encodeTree(*t.children)
	}
	return p
}

func encodeTree(fields []*fieldTree) []byte {
	var parts []protoField
	for _, t := range fields {
		parts = append(parts, t.rebuilt())
	}
	return encodeFields(parts)
}

var boundaryNumbers = []uint64{0, 1, 2, 3, 7, 8, 10, 17, 255, 1 << 16, 1<<16 + 1, 1<<31 - 1, 1 << 32, 1<<63 - 1, 1 << 63, math.MaxUint64}

// editField edits one field: 2 bytes of e choose its message, 1 the field, 2 the edit.
func editField(all []*[]*fieldTree, e []byte) {
	m := all[int(binary.BigEndian.Uint16(e))%len(all)]
	if len(*m) == 0 {
		return
	}
	i := int(e[2]) % len(*m)
	t, arg := *(*m)[i], int(e[4])
	switch e[3] % 10 {
	case 0:
		t.value = boundaryNumbers[arg%len(boundaryNumbers)]
	case 1:
		t.number = arg
	case 2:
		t.wire = arg % 8
	case 3:
		*m = append((*m)[:i:i], (*m)[i+1:]...)
		return
	case 4:
		*m = append((*m)[:i:i], append([]*fieldTree{&t}, (*m)[i:]...)...)
		return
	case 5:
		*m = append(append((*m)[:i:i], (*m)[i+1:]...), &t)
		return
	case 6:
		t.children, t.bytes = nil, t.bytes[:min(arg, len(t.bytes))]
	case 7: // a byte of it
		t.children, t.bytes = nil, bytes.Clone(t.bytes)
		if len(t.bytes) > 0 {
			t.bytes[arg%len(t.bytes)] ^= 1 << (arg % 8)
		}
	case 8: // the value of another field of the message
		other := (*m)[arg%len(*m)]
		t.value, t.bytes, t.children = other.value, other.bytes, other.children
	case 9:
		t.value += uint64(arg)
	}
	(*m)[i] = &t
}

// FuzzGraph changes up to eight fields of a valid graph, past its hash. What
// is accepted must step.
func FuzzGraph(f *testing.F) {
	manifest, graph := validCheckpoint(f)
	if all := []*[]*fieldTree{}; !bytes.Equal(encodeTree(*parseTree("model", graph, &all)), graph) {
		f.Fatal("decoding and encoding changed the graph")
	}
	for what := range byte(10) {
		f.Add([]byte{0, 0, 0, what, 1}, []byte{})
		f.Add([]byte{0, 9, 0, what, 1, 1, 0, 1, what, 2}, []byte{})
	}
	for _, c := range hostileGraphs() {
		if raw := c.corrupt(bytes.Clone(graph)); len(raw) > 0 && len(raw) < 200 {
			f.Add([]byte{}, raw)
		}
	}
	f.Fuzz(func(t *testing.T, edits, raw []byte) {
		if len(raw) > 0 { // a whole graph
			stepIfAccepted(checkpoint.Decode(withGraphHash(manifest, raw), raw, nil))
			return
		}
		var all []*[]*fieldTree
		whole := parseTree("model", graph, &all)
		for n := 0; len(edits) >= 5 && n < 8; n++ {
			editField(all, edits)
			edits = edits[5:]
		}
		corrupted := encodeTree(*whole)
		stepIfAccepted(checkpoint.Decode(withGraphHash(manifest, corrupted), corrupted, nil))
	})
}

// FuzzManifest replaces two values of a valid manifest by any text. What is accepted
// must step, and can be encoded again.
func FuzzManifest(f *testing.F) {
	manifest, graph := validCheckpoint(f)
	at := valueSpans(f, manifest)
	for i, text := range []string{"null", "0", "-1", "1e308", "1e-308", "1e400", "[]", "{}", `""`, "[1,2]", "true", "64", "1000001", "NaN",
		`"x":1,"y"`, ""} {
		f.Add(uint16(7*i), text, uint16(0), "1")
		f.Add(uint16(13*i+1), text, uint16(11*i), text)
	}
	f.Fuzz(func(t *testing.T, n uint16, text string, n2 uint16, text2 string) {
		a, b := at[int(n)%len(at)], at[int(n2)%len(at)]
		if b.from < a.from {
			a, b, text, text2 = b, a, text2, text
		}
		corrupted := string(manifest[:a.from]) + text + string(manifest[a.to:])
		if b.from >= a.to { // they do not overlap
			corrupted = string(manifest[:a.from]) + text + string(manifest[a.to:b.from]) + text2 + string(manifest[b.to:])
		}
		c, err := checkpoint.Decode([]byte(corrupted), graph, nil)
		stepIfAccepted(c, err)
		if err == nil {
			if _, err := json.Marshal(c.Manifest); err != nil {
				t.Error(err)
			}
			for _, y := range []float64{-1, 0, 0.3, 2, math.NaN()} {
				if price := c.PriceCurve.PriceSPerJ(y); !(price >= 0 && price < 1e7) {
					t.Errorf("price %v at %v", price, y)
				}
			}
		}
	})
}

type span struct{ from, to int }

// valueSpans returns the span of each value of a JSON text, including objects, lists
// and keys.
func valueSpans(f *testing.F, text []byte) (at []span) {
	d := json.NewDecoder(bytes.NewReader(text))
	var open []int
	for {
		before := int(d.InputOffset())
		token, err := d.Token()
		if err != nil {
			return at
		}
		end := int(d.InputOffset())
		start := before + bytes.IndexFunc(text[before:end], func(r rune) bool { return r != ' ' && r != '\n' && r != ',' && r != ':' })
		switch token {
		case json.Delim('{'), json.Delim('['):
			open = append(open, start)
		case json.Delim('}'), json.Delim(']'):
			at = append(at, span{open[len(open)-1], end})
			open = open[:len(open)-1]
		default:
			at = append(at, span{start, end})
		}
	}
}

func stepIfAccepted(c *checkpoint.Checkpoint, err error) {
	if err != nil {
		_ = fmt.Sprint(err)
		return
	}
	var out model.Outputs
	c.Net.Step(&model.Inputs{NumAircraft: 1, Aircraft: make([]float32, model.AircraftFeatures), State: make([]float32, model.StateFeatures),
		Return: make([]float32, model.ReturnFeatures), Action: make([]float32, model.ActionFeatures)}, c.Net.NewCache(), &out)
}
