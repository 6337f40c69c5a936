package rollout

import (
	"context"
	"fmt"
	"io"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/duty"
	"prefdt/inference/goal"
	"prefdt/inference/model"
	"prefdt/inference/record"
	"prefdt/inference/slot"
)

// decideAndObserve decides a slot and gives the objective what the decision
// observed, before any other event.
func decideAndObserve(p Policy, s *slot.Snapshot, o *goal.Objective, d *slot.Decision) {
	o.Observe(p.Decide(s, *o, d))
}

// Replay decides a recorded flight again, slot by slot, on an objective of its
// own that only the recorded events come to. It returns the number of slots
// that were planned and decided as recorded, to the last bit, and the first difference. The end
// of ctx ends it after a slot. onStep, unless nil, is called with each slot's step of the network.
func Replay(ctx context.Context, r io.Reader, frozen *checkpoint.Checkpoint,
	onStep func(slot int, in *model.Inputs, out *model.Outputs) error) (slots int, err error) {
	in, err := record.NewReader(r)
	if err != nil {
		return 0, err
	}
	h := &in.Header
	if h.GraphSHA256 != frozen.GraphSHA256 {
		return 0, fmt.Errorf("the record is of checkpoint %.12s, the present one is %.12s: give its folder with -checkpoint", h.GraphSHA256,
			frozen.GraphSHA256)
	}
	moved := *frozen
	moved.Physics = h.Physics
	p, err := inference.New(&moved, inference.DecoderOf(h.Decoder))
	if err != nil {
		return 0, err
	}
	if h.Claims != (slot.Claims{}) {
		p.Claims = h.Claims
	}
	if h.Expected != nil {
		if frozen.Estimator == nil || frozen.Estimator.GraphSHA256 != h.EstimatorSHA256 {
			return 0, fmt.Errorf("the record is of a flight with the estimator %.12s, which the checkpoint has not", h.EstimatorSHA256)
		}
		expected := *h.Expected
		expected.Physics = &moved.Physics
		p.Estimator = frozen.NewEstimator(expected)
	}
	o := goal.Resume(&moved.GoalConstants, &moved.Physics, h.Objective)
	o.SetOutOfDistribution(h.OutOfDistribution)
	var d slot.Decision
	var planner *duty.Planner
	for {
		if err := ctx.Err(); err != nil {
			return slots, err
		}
		x, err := in.Next()
		if err == io.EOF {
			return slots, nil
		} else if err != nil {
			return slots, err
		}
		n := x.Snapshot.Slot
		for k := range x.Plans {
			plan := &x.Plans[k]
			if plan.Begins != nil {
				planner = duty.New(&moved.Physics, moved.UserPrior(), moved.PriceCurve.PriceSPerJ(1))
				planner.Restore(*plan.Begins)
			}
			if planner == nil {
				return slots, fmt.Errorf("slot %d was planned by a planner that never began", n)
			}
			if again := record.Planned(planner.Plan(plan.Limits())); again != plan.Made {
				return slots, fmt.Errorf("slot %d was planned %s, replayed it is %s", n, plan.Made, again)
			}
		}
		asked := o
		if asked.State() != x.Objective {
			asked.SetPreference(1) // as a leader does while nothing can be delivered
		}
		if asked.State() != x.Objective {
			return slots, fmt.Errorf("slot %d was decided for the objective %+v, replayed it is %+v", n, x.Objective, o.State())
		}
		o.Observe(p.Decide(&x.Snapshot, asked, &d))
		if !d.Equal(&x.Decision) {
			return slots, fmt.Errorf("slot %d was decided %+v, replayed it is %+v", n, x.Decision, d)
		}
		slots++
		if in, out := p.LastStep(); onStep != nil && in != nil && len(x.Snapshot.Aircraft) > 0 {
			if err := onStep(n, in, out); err != nil {
				return slots, err
			}
		}
		for i := range x.Events {
			if err := x.Events[i].Apply(&o); err != nil {
				return slots, fmt.Errorf("after slot %d: %w", n, err)
			}
		}
	}
}
