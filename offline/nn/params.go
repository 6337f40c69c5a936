package nn

import (
	"math/rand/v2"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// Params are a network's parameters as one vector, tensor after tensor. A
// gradient is a Params too.
type Params[T kernel.Float] struct {
	Tensors []model.Tensor
	Data    []T
}

// NewParams returns zeros in the shape of a network's tensors.
func NewParams[T kernel.Float](tensors []model.Tensor) *Params[T] {
	size := 0
	for _, t := range tensors {
		size += t.Size()
	}
	return &Params[T]{Tensors: tensors, Data: make([]T, size)}
}

// Init draws the initial values, see model.Tensor.
func (p *Params[T]) Init(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0x7072656664740000))
	data := p.Data
	for _, t := range p.Tensors {
		for i := range t.Size() {
			data[i] = T(t.InitMean)
			if t.InitStdDev > 0 {
				data[i] += T(t.InitStdDev * r.NormFloat64())
			}
		}
		data = data[t.Size():]
	}
}

// Bind sets each parameter of a network's list to its part of w and of the
// gradient g, which may be nil.
func Bind[T kernel.Float](list []*Param[T], w, g *Params[T]) {
	at := 0
	for i, t := range w.Tensors {
		end := at + t.Size()
		list[i].Value = kernel.View(w.Data[at:end], t.Rows, t.Cols)
		if g != nil {
			list[i].Grad = kernel.View(g.Data[at:end], t.Rows, t.Cols)
		}
		at = end
	}
}
