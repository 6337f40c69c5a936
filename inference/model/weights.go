package model

import (
	"math"
	"reflect"
)

// Weights are the network's parameters, each a field with a name. T is what a
// parameter is where they are used: its shape in Arch.Layout, its numbers and
// their gradients in training, a packed matrix in Net, the name of a value in
// Graph.
type Weights[T any] struct {
	Aircraft, Pair Linear[T] // features to A0 and Z

	UserQuery, UserKey, UserValue T // each aircraft gathers its users, P
	UserOut                       Linear[T]
	EncoderNorm                   Norm[T] // A1 to A2
	EncoderUp, EncoderDown        Linear[T]
	FleetQuery                    T // (d), one learned query gathers the aircraft, F
	FleetKey, FleetValue          T
	FleetOut                      T

	StateToken, ReturnToken, ActionToken Linear[T]
	Blocks                               []Block[T]
	Final                                Norm[T] // to e

	HeadContext   T // e to H0
	HeadAircraft  Linear[T]
	HeadFleetMean T // to H
	Flight        Linear[T]

	ChoiceContext, ChoiceAircraft T // e and H to C0
	ChoicePair                    Linear[T]
	ChoiceHidden, ChoiceOut       Linear[T]
	PriceHidden, PriceOut         Linear[T]
}

// Linear is x·Weight + Bias.
type Linear[T any] struct{ Weight, Bias T }

// Norm is a layer norm.
type Norm[T any] struct{ Gain, Bias T }

// Block is one pre-norm transformer block.
type Block[T any] struct {
	Norm1     Norm[T]
	QKV, Proj Linear[T]
	Norm2     Norm[T]
	Up, Down  Linear[T]
}

// NewWeights returns weights with the architecture's number of blocks.
func NewWeights[T any](a Arch) *Weights[T] { return &Weights[T]{Blocks: make([]Block[T], a.Layers)} }

// List returns every parameter in the order of checkpoints, which is that of the
// fields. What is made of parameters is made by walking two lists together.
func (w *Weights[T]) List() []*T { return Parameters[T](w) }

// Parameters returns the parameters in structs and slices of layers, in the order of
// their fields. Each argument is a pointer.
func Parameters[T any](layers ...any) (list []*T) {
	var add func(v reflect.Value)
	add = func(v reflect.Value) {
		if p, ok := v.Addr().Interface().(*T); ok {
			list = append(list, p)
		} else if v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				add(v.Field(i))
			}
		} else {
			for i := range v.Len() {
				add(v.Index(i))
			}
		}
	}
	for _, l := range layers {
		add(reflect.ValueOf(l).Elem())
	}
	return list
}

// mapWeights makes each parameter from its tensor, in that order.
func mapWeights[T any](a Arch, f func(Tensor) T) *Weights[T] {
	w := NewWeights[T](a)
	to := w.List()
	for i, t := range a.Layout().List() {
		*to[i] = f(*t)
	}
	return w
}

// Tensor is one parameter's shape, a row-major matrix; vectors have one row.
type Tensor struct {
	Name       string
	Rows, Cols int

	// The values of a new network are normal with this mean and deviation.
	InitMean, InitStdDev float64
}

// Size returns the number of values.
func (t Tensor) Size() int { return t.Rows * t.Cols }

// IsMatrix reports whether the tensor multiplies rows, and so is exported as
// float16 and decayed in training; the others are biases, gains and queries.
func (t Tensor) IsMatrix() bool { return t.Rows > 1 }

// MatrixTensor returns a matrix; initially it keeps the deviation of its inputs.
func MatrixTensor(name string, in, out int) Tensor {
	return Tensor{Name: name, Rows: in, Cols: out, InitStdDev: 1 / math.Sqrt(float64(in))}
}

// LinearTensors returns a linear layer; its bias is initially zero.
func LinearTensors(weight, bias string, in, out int) Linear[Tensor] {
	return Linear[Tensor]{MatrixTensor(weight, in, out), Tensor{Name: bias, Rows: 1, Cols: out}}
}

// OutputTensors returns the last layer of a head, which initially answers near
// zero: no opinion.
func OutputTensors(weight, bias string, in, out int) Linear[Tensor] {
	l := LinearTensors(weight, bias, in, out)
	l.Weight.InitStdDev *= 0.1
	return l
}

// normTensors returns a layer norm, initially without effect.
func normTensors(gain, bias string, n int) Norm[Tensor] {
	return Norm[Tensor]{Tensor{Name: gain, Rows: 1, Cols: n, InitMean: 1}, Tensor{Name: bias, Rows: 1, Cols: n}}
}

// Layout returns the name and the shape of every parameter.
func (a Arch) Layout() *Weights[Tensor] {
	d, p := a.Width, a.PairWidth
	w := &Weights[Tensor]{
		Aircraft: LinearTensors("aircraft.w", "aircraft.b", AircraftFeatures, d),
		Pair:     LinearTensors("pair.w", "pair.b", PairFeatures, p),

		UserQuery: MatrixTensor("pool.q", d, d), UserKey: MatrixTensor("pool.k", p, d), UserValue: MatrixTensor("pool.v", p, d),
		UserOut:     LinearTensors("pool.o", "pool.ob", d, d),
		EncoderNorm: normTensors("craft.ng", "craft.nb", d),
		EncoderUp:   LinearTensors("craft.w1", "craft.b1", d, 2*d), EncoderDown: LinearTensors("craft.w2", "craft.b2", 2*d, d),
		FleetQuery: Tensor{Name: "fleet.q", Rows: 1, Cols: d, InitStdDev: 1},
		FleetKey:   MatrixTensor("fleet.k", d, d), FleetValue: MatrixTensor("fleet.v", d, d), FleetOut: MatrixTensor("fleet.o", d, d),

		StateToken:  LinearTensors("state.w", "state.b", StateFeatures, d),
		ReturnToken: LinearTensors("return.w", "return.b", ReturnFeatures, d),
		ActionToken: LinearTensors("action.w", "action.b", ActionFeatures, d),
		Final:       normTensors("final.g", "final.b", d),

		HeadContext: MatrixTensor("craft.e", d, d), HeadAircraft: LinearTensors("craft.a", "craft.hb", d, d),
		HeadFleetMean: MatrixTensor("craft.mix", d, d),
		Flight:        OutputTensors("flight.w", "flight.b", d, 2),

		ChoiceContext: MatrixTensor("choice.e", d, p), ChoiceAircraft: MatrixTensor("choice.a", d, p),
		ChoicePair:   LinearTensors("choice.p", "choice.b", p, p),
		ChoiceHidden: LinearTensors("choice.w", "choice.wb", p, p), ChoiceOut: OutputTensors("choice.o", "choice.ob", p, ChoiceOutputs),
		PriceHidden: LinearTensors("price.w", "price.b", d, p), PriceOut: OutputTensors("price.o", "price.ob", p, 1),
	}
	for l := range a.Layers {
		w.Blocks = append(w.Blocks, a.blockLayout(l))
	}
	return w
}

// blockLayout returns block l. What it adds to the stream is initially scaled
// down by the depth.
func (a Arch) blockLayout(l int) Block[Tensor] {
	d := a.Width
	name := func(s string) string { return BlockTensor(l, s) }
	b := Block[Tensor]{
		Norm1: normTensors(name("n1g"), name("n1b"), d),
		QKV:   LinearTensors(name("qkv.w"), name("qkv.b"), d, 3*d), Proj: LinearTensors(name("proj.w"), name("proj.b"), d, d),
		Norm2: normTensors(name("n2g"), name("n2b"), d),
		Up:    LinearTensors(name("fc.w"), name("fc.b"), d, 4*d), Down: LinearTensors(name("out.w"), name("out.b"), 4*d, d),
	}
	residual := 1 / math.Sqrt(2*float64(a.Layers))
	b.Proj.Weight.InitStdDev *= residual
	b.Down.Weight.InitStdDev *= residual
	return b
}

// Tensors lists every parameter, in the order of checkpoints.
func (a Arch) Tensors() []Tensor { return Tensors(a.Layout().List()) }

// Tensors returns what a list points to.
func Tensors(list []*Tensor) []Tensor {
	tensors := make([]Tensor, len(list))
	for i, t := range list {
		tensors[i] = *t
	}
	return tensors
}
