package learned

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Layout is the version of what the networks' rows hold and of what their outputs mean.
// Parameters that were trained for another one mean nothing here.
const Layout = 3

// Parameters are a trained estimator's.
type Parameters struct {
	Window int       // of the memory, in slots
	Data   []float32 // in the order of Tensors
}

// A file of parameters is eight bytes of magic, the window and the number of values as
// little-endian uint32, and the values as float32.
const magic = "PREFDTB1"

// MaxWindow is the longest memory, in slots.
const MaxWindow = 1000

// CheckWindow returns what is wrong with the length of a memory.
func CheckWindow(slots int) error {
	if slots < 1 || slots > MaxWindow {
		return fmt.Errorf("a memory of %d slots, want 1 to %d", slots, MaxWindow)
	}
	return nil
}

// Write writes the parameters as a file.
func (p *Parameters) Write(w io.Writer) error {
	b := []byte(magic)
	b = binary.LittleEndian.AppendUint32(b, uint32(p.Window))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p.Data)))
	for _, x := range p.Data {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("write the estimator's parameters: %w", err)
	}
	return nil
}

// Read reads a file of parameters.
func Read(r io.Reader) (*Parameters, error) {
	fail := func(format string, args ...any) (*Parameters, error) {
		return nil, fmt.Errorf("read the estimator's parameters: "+format, args...)
	}
	want := len(magic) + 8 + 4*ParameterCount()
	b, err := io.ReadAll(io.LimitReader(r, int64(want)+1))
	switch {
	case err != nil:
		return fail("%w", err)
	case !bytes.HasPrefix(b, []byte(magic)):
		return fail("the file starts with %.8q, want %q", b, magic)
	case len(b) != want || binary.LittleEndian.Uint32(b[len(magic)+4:]) != uint32(ParameterCount()):
		return fail("the file is not one of %d parameters, as this program's networks have", ParameterCount())
	}
	p := &Parameters{Window: int(binary.LittleEndian.Uint32(b[len(magic):]))}
	if err := CheckWindow(p.Window); err != nil {
		return fail("%w", err)
	}
	for b = b[len(magic)+8:]; len(b) > 0; b = b[4:] {
		x := math.Float32frombits(binary.LittleEndian.Uint32(b))
		if !(math.Abs(float64(x)) < 1e6) {
			return fail("parameter %d is %v", len(p.Data), x)
		}
		p.Data = append(p.Data, x)
	}
	return p, nil
}
