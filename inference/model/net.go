package model

import (
	"fmt"

	"prefdt/inference/kernel"
)

// Net holds the weights of a network, ready to step. It does not change, so
// any number of missions may share it, each with a Cache of its own.
type Net struct {
	Arch Arch

	aircraft, pair         linear
	poolQ, poolK, poolV    linear
	poolO                  linear
	craft1, craft2         linear
	craftNorm              norm
	fleetQ                 []float32 // (d)
	fleetK, fleetV, fleetO linear
	state, ret, action     linear
	blocks                 []block
	final                  norm
	craftE, craftA, mix    linear
	flight                 linear
	choiceE, choiceA       linear
	choiceP, choice2       linear
	choiceO                linear
	price1, price2         linear
}

// block is one transformer block.
type block struct {
	norm1, norm2       norm
	qkv, proj, fc, out linear
}

// linear is x·w + b, with float16 weights; b may be nil.
type linear struct {
	w *kernel.Packed
	b []float32
}

// norm is a layer norm.
type norm struct{ gain, bias []float32 }

// NewNet lays out parameters, in the order of Tensors. Weights are rounded to
// float16, as the exported graph stores them; the parameters are not kept.
func NewNet(a Arch, parameters []float32) (*Net, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	if len(parameters) != a.Parameters() {
		return nil, fmt.Errorf("network of %d parameters, this architecture has %d", len(parameters), a.Parameters())
	}
	tensors := map[string]Tensor{}
	values := map[string][]float32{}
	for _, t := range a.Tensors() {
		tensors[t.Name], values[t.Name] = t, parameters[:t.Size()]
		parameters = parameters[t.Size():]
	}
	vector := func(name string) []float32 { return append([]float32(nil), values[name]...) }
	weight := func(name, bias string) linear {
		t := tensors[name]
		half := make([]uint16, t.Size())
		for i, v := range values[name] {
			half[i] = kernel.Half(v)
		}
		return linear{kernel.PackHalf(half, t.Rows, t.Cols), vector(bias)}
	}
	n := &Net{
		Arch:     a,
		aircraft: weight("aircraft.w", "aircraft.b"), pair: weight("pair.w", "pair.b"),
		poolQ: weight("pool.q", ""), poolK: weight("pool.k", ""), poolV: weight("pool.v", ""), poolO: weight("pool.o", "pool.ob"),
		craftNorm: norm{vector("craft.ng"), vector("craft.nb")},
		craft1:    weight("craft.w1", "craft.b1"), craft2: weight("craft.w2", "craft.b2"),
		fleetQ: vector("fleet.q"), fleetK: weight("fleet.k", ""), fleetV: weight("fleet.v", ""), fleetO: weight("fleet.o", ""),
		state: weight("state.w", "state.b"), ret: weight("return.w", "return.b"), action: weight("action.w", "action.b"),
		final:  norm{vector("final.g"), vector("final.b")},
		craftE: weight("craft.e", ""), craftA: weight("craft.a", "craft.hb"), mix: weight("craft.mix", ""),
		flight:  weight("flight.w", "flight.b"),
		choiceE: weight("choice.e", ""), choiceA: weight("choice.a", ""), choiceP: weight("choice.p", "choice.b"),
		choice2: weight("choice.w", "choice.wb"), choiceO: weight("choice.o", "choice.ob"),
		price1: weight("price.w", "price.b"), price2: weight("price.o", "price.ob"),
	}
	for l := range a.Layers {
		name := func(s string) string { return Block(l, s) }
		n.blocks = append(n.blocks, block{
			norm1: norm{vector(name("n1g")), vector(name("n1b"))}, norm2: norm{vector(name("n2g")), vector(name("n2b"))},
			qkv: weight(name("qkv.w"), name("qkv.b")), proj: weight(name("proj.w"), name("proj.b")),
			fc: weight(name("fc.w"), name("fc.b")), out: weight(name("out.w"), name("out.b")),
		})
	}
	return n, nil
}
