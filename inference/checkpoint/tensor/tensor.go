// Package tensor stands in for gorgonia.org/tensor, by a replace directive in
// go.mod. It has the names by which onnx-go's decoder makes tensors for a
// backend that carries them. Package checkpoint's backend carries none: onnx-go
// decodes a graph's structure alone, and the weights are read from bytes that
// were checked. So nothing here is called; New panics, should it ever be.
//
// The library itself is linked whole by its package initialisers (encoding/gob,
// gonum's BLAS and LAPACK), and its Dtype embeds reflect.Type, because of which
// the linker keeps every exported method of every type in the program: 6.4 MB
// of the leader's 19.9.
package tensor

// Dtype is an element type.
type Dtype struct{ name string }

// The element types of ONNX.
var (
	Bool       = Dtype{"bool"}
	Int8       = Dtype{"int8"}
	Int16      = Dtype{"int16"}
	Int32      = Dtype{"int32"}
	Int64      = Dtype{"int64"}
	Uint8      = Dtype{"uint8"}
	Uint16     = Dtype{"uint16"}
	Uint32     = Dtype{"uint32"}
	Uint64     = Dtype{"uint64"}
	Float32    = Dtype{"float32"}
	Float64    = Dtype{"float64"}
	Complex64  = Dtype{"complex64"}
	Complex128 = Dtype{"complex128"}
	String     = Dtype{"string"}
)

// Tensor is what a backend would carry.
type Tensor any

// ConsOpt would say how to make one.
type ConsOpt struct{}

// New panics: a checkpoint is decoded without tensors.
func New(...ConsOpt) Tensor {
	panic("checkpoint: a tensor was asked for, and a graph is decoded without")
}

// Of would set the element type.
func Of(Dtype) ConsOpt { return ConsOpt{} }

// WithShape would set the shape.
func WithShape(...int) ConsOpt { return ConsOpt{} }

// WithBacking would set the elements.
func WithBacking(any) ConsOpt { return ConsOpt{} }
