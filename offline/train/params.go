// Package train fits the policy network to a corpus by imitation, Sec. IV-B:
// one whole episode a tape, under the sliding-window causal mask that makes
// the flying step's rolling cache exact.
//
// The forward and the backward pass are written out, layer by layer, in
// forward.go and backward.go. In float64 they run the kernels' naive
// references and are what the gradient checks check; in float32 the same lines
// run the tuned kernels.
package train

import (
	"math"
	"math/rand/v2"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// Params is one vector of values with a view for every tensor of the network.
// A gradient is a Params too.
type Params[T kernel.Float] struct {
	Arch    model.Arch
	Tensors []model.Tensor
	Data    []T
	views   map[string]kernel.Matrix[T]

	blocks []blockParams[T]
}

// blockParams is the views of one transformer block, named as in package model.
type blockParams[T kernel.Float] struct {
	norm1Gain, norm1Bias, norm2Gain, norm2Bias []T
	qkv, proj, fc, out                         kernel.Matrix[T]
	qkvBias, projBias, fcBias, outBias         []T
}

// NewParams returns zeros in the shape of the architecture.
func NewParams[T kernel.Float](a model.Arch) *Params[T] {
	return NewParamsForTensors[T](a, a.Tensors())
}

// NewParamsForTensors returns zeros in the shape of other tensors, among them those of
// an architecture's transformer.
func NewParamsForTensors[T kernel.Float](a model.Arch, tensors []model.Tensor) *Params[T] {
	size := 0
	for _, t := range tensors {
		size += t.Size()
	}
	p := &Params[T]{Arch: a, Tensors: tensors, Data: make([]T, size), views: map[string]kernel.Matrix[T]{}}
	at := 0
	for _, t := range tensors {
		p.views[t.Name] = kernel.View(p.Data[at:at+t.Size()], t.Rows, t.Cols)
		at += t.Size()
	}
	for l := range a.Layers {
		w := func(name string) kernel.Matrix[T] { return p.views[model.BlockTensor(l, name)] }
		b := func(name string) []T { return w(name).Data }
		p.blocks = append(p.blocks, blockParams[T]{
			norm1Gain: b("n1g"), norm1Bias: b("n1b"), norm2Gain: b("n2g"), norm2Bias: b("n2b"),
			qkv: w("qkv.w"), proj: w("proj.w"), fc: w("fc.w"), out: w("out.w"),
			qkvBias: b("qkv.b"), projBias: b("proj.b"), fcBias: b("fc.b"), outBias: b("out.b"),
		})
	}
	return p
}

// Matrix returns a matrix by name, B a vector.
func (p *Params[T]) Matrix(name string) kernel.Matrix[T] { return p.views[name] }
func (p *Params[T]) Vector(name string) []T              { return p.views[name].Data }

// Init draws the initial weights: normal with deviation 1/sqrt(inputs), the
// residual outputs scaled down by the depth, gains one and biases zero.
func (p *Params[T]) Init(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0x7072656664740000))
	residual := 1 / math.Sqrt(2*float64(p.Arch.Layers))
	for _, t := range p.Tensors {
		data := p.views[t.Name].Data
		gain := isGain[nameInBlock(t.Name)]
		scale := 1 / math.Sqrt(float64(t.Rows))
		switch nameInBlock(t.Name) {
		case "proj.w", "out.w":
			scale *= residual
		case "flight.w", "choice.o", "price.o":
			scale *= 0.1 // start near "no opinion"
		}
		for i := range data {
			switch {
			case t.IsMatrix():
				data[i] = T(scale * r.NormFloat64())
			case t.Name == "fleet.q":
				data[i] = T(r.NormFloat64())
			case gain:
				data[i] = 1
			default:
				data[i] = 0
			}
		}
	}
}

var isGain = map[string]bool{"n1g": true, "n2g": true, "craft.ng": true, "final.g": true}

// nameInBlock strips the block from a tensor's name.
func nameInBlock(name string) string {
	for i := range name {
		if name[i] == '.' && i > 5 && name[:5] == "block" {
			return name[i+1:]
		}
	}
	return name
}
