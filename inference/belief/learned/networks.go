package learned

import (
	"fmt"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// The networks' sizes.
var (
	linkShape = Shape{
		RowFeatures: linkRowFeatures, RowHidden: 48, Heads: 6, Width: 6, Averages: linkAverages,
		QueryFeatures: linkQueryFeatures, Hidden: [2]int{64, 32}, Outputs: LinkOutputs,
	}
	phoneShape = Shape{
		RowFeatures: timingFeatures, RowHidden: 12, Heads: 3, Width: 3,
		QueryFeatures: phoneFeatures, Hidden: [2]int{16, 8}, Outputs: phoneOutputs,
	}
)

// Networks are the estimator's two.
type Networks[T kernel.Float] struct{ Links, Phones Encoder[T] }

// encoders are the networks by name, in the order of their parameters.
var encoders = []struct {
	name string
	*Shape
}{{"link", &linkShape}, {"phone", &phoneShape}}

func layouts() (list []Layers[model.Tensor]) {
	for _, e := range encoders {
		list = append(list, e.layout(e.name))
	}
	return list
}

// Tensors lists all parameters.
func Tensors() (list []model.Tensor) {
	layers := layouts()
	for _, t := range model.Parameters[model.Tensor](&layers) {
		list = append(list, *t)
	}
	return list
}

// ParameterCount returns the number of parameters.
func ParameterCount() (n int) {
	for _, t := range Tensors() {
		n += t.Size()
	}
	return n
}

// NewNetworks returns networks that compute with parameters in the order of Tensors,
// wherever these change.
func NewNetworks[T kernel.Float](data []T) *Networks[T] {
	if len(data) != ParameterCount() {
		panic(fmt.Sprintf("learned: %d parameters, want %d", len(data), ParameterCount()))
	}
	n := &Networks[T]{}
	layers := layouts()
	for k, e := range []*Encoder[T]{&n.Links, &n.Phones} {
		e.Shape = *encoders[k].Shape
		to := model.Parameters[kernel.Matrix[T]](&e.Layers)
		for i, t := range model.Parameters[model.Tensor](&layers[k]) {
			*to[i] = kernel.View(data[:t.Size()], t.Rows, t.Cols)
			data = data[t.Size():]
		}
	}
	return n
}
