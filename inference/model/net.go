package model

import (
	"fmt"
	"slices"

	"prefdt/inference/kernel"
)

// Net is a network ready to step. It does not change, so any number of missions
// may share it, each with a Cache of its own.
type Net struct {
	Arch Arch

	weights *Weights[stored]
}

// stored is a parameter as the step reads it: a matrix packed, in float16, or its
// numbers, of a vector and of the two matrices that are multiplied in parts.
type stored struct {
	matrix *kernel.Packed
	vector []float32
}

// NewNet lays out parameters, in the order of Tensors. Weights are rounded to
// float16, as the exported graph stores them; the parameters are not kept.
func NewNet(a Arch, parameters []float32) (*Net, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	if len(parameters) != a.Parameters() {
		return nil, fmt.Errorf("network of %d parameters, this architecture has %d", len(parameters), a.Parameters())
	}
	layout := a.Layout()
	weights := mapWeights(a, func(t Tensor) stored {
		values := parameters[:t.Size()]
		parameters = parameters[t.Size():]
		if !t.IsMatrix() {
			return stored{vector: slices.Clone(values)}
		}
		half := make([]uint16, len(values))
		for i, v := range values {
			half[i] = kernel.ToFloat16(v)
		}
		if t.Name == layout.UserKey.Name || t.Name == layout.UserValue.Name {
			values = slices.Clone(values)
			for i, h := range half {
				values[i] = kernel.FromFloat16(h)
			}
			return stored{vector: values}
		}
		return stored{matrix: kernel.PackFloat16(half, t.Rows, t.Cols)}
	})
	return &Net{a, weights}, nil
}
