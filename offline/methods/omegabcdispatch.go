package methods

import (
	"context"

	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/offline/command"
	"prefdt/offline/rollout"
)

// omega-BC with dispatch: behaviour cloning on the preference, whose network is trained and
// flies as omega-BC's, while the exact dispatch of this repository (package dispatch) decides
// who computes where. Its price is the slope of the front that the corpus's quadratic
// regression describes at the preference: the seconds for which a joule less is bought there.

// OmegaBCDispatchSettings are all that it adds to omega-BC's, which are those of peda.
type OmegaBCDispatchSettings struct {
	Span float64 `json:"span" yaml:"span" range:"1e-6,1"` // of preferences over which the slope is taken
}

// Check returns what is wrong with the settings.
func (s *OmegaBCDispatchSettings) Check() error { return command.CheckRanges(s) }

func omegaBCDispatchMethod() Method {
	m := sequenceRow{Name: "omega-bc-dispatch", Description: "omega-BC's flight, users dispatched exactly at the price of its preference",
		Training: "omega-bc", Form: sequenceForm{Pooled: true, Bypass: true, Targets: targetsQuadratic, NoReturns: true},
		Paper: Paper{Optional: true}}.method()
	settings, train := m.Settings, m.New
	m.Settings = func(c *Config) any { return []any{settings(c), c.OmegaBCDispatch} }
	m.New = func(ctx context.Context, r *Run) (NewPolicy, error) {
		newPolicy, err := train(ctx, r)
		return func() rollout.Policy {
			return &dispatchedPolicy{pedaPolicy: newPolicy().(*pedaPolicy), span: r.OmegaBCDispatch.Span}
		}, err
	}
	return m
}

// dispatchedPolicy flies a network whose users are dispatched.
type dispatchedPolicy struct {
	*pedaPolicy
	span   float64
	solver dispatch.Solver
}

// Decide implements rollout.Policy.
func (p *dispatchedPolicy) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Observation {
	observed := p.pedaPolicy.Decide(s, g, d)
	p.solver.Solve(p.constants, s, p.priceSPerJ(float64(p.win.omega)), d)
	first := len(p.win.server) - len(d.Users)
	for u, x := range d.Users { // the network's context is what was done
		p.win.server[first+u], p.win.offload[first+u] = x.Server, float32(2*x.Offload-1)
	}
	return observed
}

// priceSPerJ is the slope of the front at a preference, 0 where it spares no energy.
func (p *dispatchedPolicy) priceSPerJ(omega float64) float64 {
	low, high := p.data.at(omega-p.span/2), p.data.at(omega+p.span/2)
	if saved := low[1] - high[1]; saved > 0 {
		return (high[0] - low[0]) / saved
	}
	return 0
}
