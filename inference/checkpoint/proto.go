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

// walk calls visit for each field of a message, and returns an error at one that the
// rules do not allow. It allocates nothing in proportion to declared sizes.
func (m *message) walk(data []byte, visit func(f field) error) error {
	var counts [32]int
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 {
			return fmt.Errorf("%s: cut short in a field's tag", m.name)
		}
		data = data[n:]
		f := field{number: int(min(tag>>3, 1<<29))}
		wireType := int(tag & 7)
		r, known := m.fields[f.number]
		switch {
		case !known:
			return fmt.Errorf("%s: field %d is not used by checkpoints", m.name, f.number)
		case r.maxCount == 0:
			return fmt.Errorf("%s: %s is not allowed in a checkpoint", m.name, r.name)
		case wireType != r.wireType:
			return fmt.Errorf("%s: %s has wire type %d, want %d", m.name, r.name, wireType, r.wireType)
		}
		if counts[f.number]++; counts[f.number] > r.maxCount {
			return fmt.Errorf("%s: more than %d of %s", m.name, r.maxCount, r.name)
		}
		switch wireType {
		case varint:
			if f.value, n = binary.Uvarint(data); n <= 0 {
				return fmt.Errorf("%s: %s is cut short", m.name, r.name)
			}
			data = data[n:]
		case fixed32:
			if len(data) < 4 {
				return fmt.Errorf("%s: %s is cut short", m.name, r.name)
			}
			f.value = uint64(binary.LittleEndian.Uint32(data))
			data = data[4:]
		case lengthDelimited:
			size, n := binary.Uvarint(data)
			if n <= 0 || size > uint64(len(data)-n) {
				return fmt.Errorf("%s: %s claims %d bytes, %d are left", m.name, r.name, size, len(data)-max(n, 0))
			}
			f.bytes, data = data[n:n+int(size)], data[n+int(size):]
		}
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}
