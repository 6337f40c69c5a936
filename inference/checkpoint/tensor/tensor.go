// Package tensor replaces gorgonia.org/tensor, by a replace directive in go.mod. It
// has only the names that onnx-go's decoder needs to compile, which it would call
// to make tensors for a backend that accepts them. Package checkpoint's backend
// accepts none: onnx-go decodes a graph's structure, and the weights are read from
// bytes that were checked. So nothing here is called; New panics if it ever is.
//
// The replaced library is linked as a whole, because of its package initialisers
// (encoding/gob, gonum's BLAS and LAPACK), and its Dtype embeds reflect.Type,
// because of which the linker keeps every exported method of every type in the
// program: 6.4 MB of the leader's 19.9 MB.
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

// Tensor is a decoded tensor; there are none.
type Tensor any

// ConsOpt is an option of New.
type ConsOpt struct{}

// New panics: a checkpoint is decoded without tensors.
func New(...ConsOpt) Tensor {
	panic("checkpoint: onnx-go made a tensor, though the backend accepts none")
}

// Of is the option for an element type.
func Of(Dtype) ConsOpt { return ConsOpt{} }

// WithShape is the option for a shape.
func WithShape(...int) ConsOpt { return ConsOpt{} }

// WithBacking is the option for the elements.
func WithBacking(any) ConsOpt { return ConsOpt{} }
