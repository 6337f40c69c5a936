package model

import (
	"fmt"

	"prefdt/inference/kernel"
)

// Net holds the weights of a network, ready to step. It does not change, so
// any number of missions may share it, each with a Cache of its own.
type Net struct {
	Arch Arch

	aircraft, pair                           linear
	poolQ, poolK, poolV                      linear
	poolO                                    linear
	aircraftFC1, aircraftFC2                 linear
	aircraftNorm                             norm
	fleetQ                                   []float32 // (d)
	fleetK, fleetV, fleetO                   linear
	stateToken, returnToken, actionToken     linear
	blocks                                   []block
	final                                    norm
	headContext, headAircraft, headFleetMean linear
	flight                                   linear
	choiceContext, choiceAircraft            linear
	choicePair, choiceHidden                 linear
	choiceOut                                linear
	priceHidden, priceOut                    linear
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
			half[i] = kernel.ToFloat16(v)
		}
		return linear{kernel.PackFloat16(half, t.Rows, t.Cols), vector(bias)}
	}
	n := &Net{
		Arch:     a,
		aircraft: weight("aircraft.w", "aircraft.b"), pair: weight("pair.w", "pair.b"),
		poolQ: weight("pool.q", ""), poolK: weight("pool.k", ""), poolV: weight("pool.v", ""), poolO: weight("pool.o", "pool.ob"),
		aircraftNorm: norm{vector("craft.ng"), vector("craft.nb")},
		aircraftFC1:  weight("craft.w1", "craft.b1"), aircraftFC2: weight("craft.w2", "craft.b2"),
		fleetQ: vector("fleet.q"), fleetK: weight("fleet.k", ""), fleetV: weight("fleet.v", ""), fleetO: weight("fleet.o", ""),
		stateToken: weight("state.w", "state.b"), returnToken: weight("return.w", "return.b"), actionToken: weight("action.w", "action.b"),
		final:       norm{vector("final.g"), vector("final.b")},
		headContext: weight("craft.e", ""), headAircraft: weight("craft.a", "craft.hb"), headFleetMean: weight("craft.mix", ""),
		flight:        weight("flight.w", "flight.b"),
		choiceContext: weight("choice.e", ""), choiceAircraft: weight("choice.a", ""), choicePair: weight("choice.p", "choice.b"),
		choiceHidden: weight("choice.w", "choice.wb"), choiceOut: weight("choice.o", "choice.ob"),
		priceHidden: weight("price.w", "price.b"), priceOut: weight("price.o", "price.ob"),
	}
	for l := range a.Layers {
		name := func(s string) string { return BlockTensor(l, s) }
		n.blocks = append(n.blocks, block{
			norm1: norm{vector(name("n1g")), vector(name("n1b"))}, norm2: norm{vector(name("n2g")), vector(name("n2b"))},
			qkv: weight(name("qkv.w"), name("qkv.b")), proj: weight(name("proj.w"), name("proj.b")),
			fc: weight(name("fc.w"), name("fc.b")), out: weight(name("out.w"), name("out.b")),
		})
	}
	return n, nil
}
