package leader

import (
	"fmt"

	"prefdt/firmware/config"
	"prefdt/inference"
	"prefdt/inference/belief"
	"prefdt/inference/checkpoint"
	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// Scheduler is the frozen policy, or a substitute for it in a test.
type Scheduler interface {
	Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Observation
}

// Policy is the frozen policy and its checkpoint's description of the world, with the
// radio of the mission's surroundings.
type Policy struct {
	Scheduler
	Physics           physics.Constants
	Scales            *goal.Constants
	UserPrior         dispatch.UserPrior // users as expected before any report was received
	Claims            slot.Claims        // the most that a report weighs
	OutOfDistribution bool               // see goal.Objective.SetOutOfDistribution
	MaxPriceSPerJ     float64            // at which nothing is offloaded any more
	RecallSlots       int                // before a restart, from which the scheduler believes as though there had been none
}

// believer is a scheduler with an estimator.
type believer interface {
	Belief() *belief.Belief  // of the last decision; nil: it takes reports as exact
	Recall(s *slot.Snapshot) // a slot before a restart
}

// belief is that of the scheduler's last decision, nil without one.
func (p *Policy) belief() *belief.Belief {
	if b, ok := p.Scheduler.(believer); ok {
		return b.Belief()
	}
	return nil
}

// resultSlots is how many slots after its report a user's result still comes.
const resultSlots = 3

// LoadPolicy loads a configuration's checkpoint and, where its surroundings hide
// something, the estimator that finds it out.
func LoadPolicy(c *config.Config) (Policy, *checkpoint.Checkpoint, error) {
	trained, err := checkpoint.Load(c.Checkpoint)
	if err != nil {
		return Policy{}, nil, err
	}
	here := *trained
	here.Physics = c.Surroundings.Physics(trained.Physics)
	scheduler, err := inference.New(&here, inference.DecoderOf(c.Decoder))
	if err != nil {
		return Policy{}, nil, err
	}
	claims := here.Claims().Times(c.Users.LargestClaim)
	scheduler.Claims = claims
	recallSlots := 0
	if c.Surroundings.Hidden() {
		if here.Beliefs == nil {
			return Policy{}, nil, fmt.Errorf("surroundings are configured (by simbridge fly: for a world with wind or another hidden "+
				"state), and checkpoint %s has no estimator for them; leave them out, or take one with estimator.onnx: `offline export "+
				"-estimator configs/checkpoint -checkpoint FOLDER` puts the shipped one in", c.Checkpoint)
		}
		scheduler.Estimator = here.NewEstimator(c.Surroundings.Expected(&here.Physics))
		recallSlots = here.Beliefs.Window + resultSlots
	}
	return Policy{
		Scheduler: scheduler, Physics: here.Physics, Scales: &here.GoalConstants, UserPrior: here.UserPrior(), Claims: claims,
		MaxPriceSPerJ:     here.PriceCurve.PriceSPerJ(1),
		OutOfDistribution: c.Surroundings.OutOfDistribution(trained.Physics), RecallSlots: recallSlots,
	}, &here, nil
}
