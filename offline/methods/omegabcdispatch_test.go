package methods

import (
	"io"
	"math"
	"testing"

	"prefdt/inference/goal"
	"prefdt/offline/rollout"
)

// A front of 100 s + 500 s omega and 40 kJ - 10 kJ omega has a slope of 0.05 s/J.
func TestDispatchedPrice(t *testing.T) {
	p := &dispatchedPolicy{span: 0.02, pedaPolicy: &pedaPolicy{data: &pedaData{conditioner: conditioner{{100, 500}, {40e3, -10e3}}}}}
	if price := p.priceSPerJ(0.4); math.Abs(price-0.05) > 1e-9 {
		t.Errorf("price %v s/J, want 0.05", price)
	}
}

// Whatever its network has learned, its users' delay is no more than the heads', at the same flight.
func TestDispatchedUsers(t *testing.T) {
	r := toyRun(t, 1)
	r.Log = io.Discard
	s := r.PEDA
	s.Steps, s.Width, s.Layers, s.Heads, s.Context = 1, 16, 1, 2, 5
	s.Corpus.Flights, s.Corpus.Heuristic, s.Corpus.Episodes = 20, 0, 3
	newPolicy, err := makePEDA(t.Context(), r, s, formOf("omega-bc"), toyFront(r))
	if err != nil {
		t.Fatal(err)
	}
	request := rollout.Request{Mode: goal.Preference, Omega: 0}
	heads := flyToy(t, r, newPolicy, request)
	dispatched := flyToy(t, r, func() (rollout.Policy, error) {
		p, err := newPolicy()
		return &dispatchedPolicy{pedaPolicy: p.(*pedaPolicy), span: r.OmegaBCDispatch.Span}, err
	}, request)
	if dispatched.DelayS >= heads.DelayS {
		t.Errorf("dispatched %+v, by the heads %+v", dispatched, heads)
	}
}
