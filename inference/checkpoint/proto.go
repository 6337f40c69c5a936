package checkpoint

import (
	"encoding/binary"
	"fmt"
)

// field is one entry of a protobuf message: an integer in value, or bytes.
type field struct {
	number int
	value  uint64
	bytes  []byte
}

// fieldRule restricts one field of a message. Most of ONNX is left out on purpose:
// a field that is not listed, or is listed without a maximum count, is refused.
type fieldRule struct {
	name     string
	wireType int // 0 varint, 2 bytes, 5 four bytes
	maxCount int // how often the field may occur
}

type message struct {
	name   string
	fields map[int]fieldRule
}

const (
	varint          = 0
	lengthDelimited = 2
	fixed32         = 5
)

// fields are the fields of a message, in the order of the file.
type fields []field

// all returns the fields of a number.
func (l fields) all(number int) (some fields) {
	for _, f := range l {
		if f.number == number {
			some = append(some, f)
		}
	}
	return some
}

// get returns the first field of a number, which is empty if there is none.
func (l fields) get(number int) (f field) {
	if some := l.all(number); len(some) > 0 {
		f = some[0]
	}
	return f
}

// name returns the bytes as text, cut just beyond the longest name allowed.
func (f field) name() string { return string(f.bytes[:min(len(f.bytes), maxNameBytes+1)]) }

// parse returns the fields of a message, and an error at one that the rules do not
// allow. It allocates nothing in proportion to declared sizes.
func (m *message) parse(data []byte) (list fields, err error) {
	var counts [32]int
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 {
			return nil, fmt.Errorf("%s: cut short in a field's tag", m.name)
		}
		data = data[n:]
		f := field{number: int(min(tag>>3, 1<<29))}
		wireType := int(tag & 7)
		r, known := m.fields[f.number]
		switch {
		case !known:
			return nil, fmt.Errorf("%s: field %d is not used by checkpoints", m.name, f.number)
		case r.maxCount == 0:
			return nil, fmt.Errorf("%s: %s is not allowed in a checkpoint", m.name, r.name)
		case wireType != r.wireType:
			return nil, fmt.Errorf("%s: %s has wire type %d, want %d", m.name, r.name, wireType, r.wireType)
		}
		if counts[f.number]++; counts[f.number] > r.maxCount {
			return nil, fmt.Errorf("%s: more than %d of %s", m.name, r.maxCount, r.name)
		}
		switch wireType {
		case varint:
			if f.value, n = binary.Uvarint(data); n <= 0 {
				return nil, fmt.Errorf("%s: %s is cut short", m.name, r.name)
			}
			data = data[n:]
		case fixed32:
			if len(data) < 4 {
				return nil, fmt.Errorf("%s: %s is cut short", m.name, r.name)
			}
			f.value = uint64(binary.LittleEndian.Uint32(data))
			data = data[4:]
		case lengthDelimited:
			size, n := binary.Uvarint(data)
			if n <= 0 || size > uint64(len(data)-n) {
				return nil, fmt.Errorf("%s: %s claims %d bytes, %d are left", m.name, r.name, size, len(data)-max(n, 0))
			}
			f.bytes, data = data[n:n+int(size)], data[n+int(size):]
		}
		list = append(list, f)
	}
	return list, nil
}
