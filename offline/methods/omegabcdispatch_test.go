package methods

import (
	"math"
	"testing"

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
	newPolicy := toyPEDA(t, r, "omega-bc")
	heads := flyToy(t, r, newPolicy, preferenceFor(0))
	dispatched := flyToy(t, r, func() rollout.Policy {
		return &dispatchedPolicy{pedaPolicy: newPolicy().(*pedaPolicy), span: r.OmegaBCDispatch.Span}
	}, preferenceFor(0))
	if dispatched.DelayS >= heads.DelayS {
		t.Errorf("dispatched %+v, by the heads %+v", dispatched, heads)
	}
}
