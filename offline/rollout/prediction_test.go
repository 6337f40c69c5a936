package rollout

import (
	"math"
	"testing"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// The total predicted at half time is the one at the end, also of budgets that cannot be
// spent at any price that is flown.
func TestPredictedEnd(t *testing.T) {
	ck, err := checkpoint.Load("../../configs/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	for _, budgetJ := range []float64{31e3, 34e3, 36e3, 38e3, 40e3, 45e3} {
		mean := 0.0
		const seeds = 20
		for seed := range uint64(seeds) {
			w := world.New(world.Standard(), 100_100+seed)
			p, err := inference.New(ck, inference.DecoderDispatch)
			if err != nil {
				t.Fatal(err)
			}
			o := goal.New(&ck.GoalConstants, &w.Config.Physics, w.Config.Slots, len(w.Aircraft))
			if err := o.SetBudget(budgetJ, goal.Target); err != nil {
				t.Fatal(err)
			}
			predicted := 0.0
			d := newFlight(w, p, &o)
			for !w.Done() {
				if d.step(); w.Slot == w.Config.Slots/2 {
					predicted = o.PredictedEndJ()
				}
			}
			mean += (predicted/o.SpentJ() - 1) / seeds
		}
		t.Logf("%v J: %+.2f %%", budgetJ, 100*mean)
		if math.Abs(mean) > 0.009 {
			t.Errorf("%v J: the total predicted at half time is %+.2f %% off", budgetJ, 100*mean)
		}
	}
}

// flight steps a world by a policy's decisions.
type flight struct {
	w *world.World
	p Policy
	o *goal.Objective

	snapshot slot.Snapshot
	decision slot.Decision
	action   world.Action
}

func newFlight(w *world.World, p Policy, o *goal.Objective) *flight { return &flight{w: w, p: p, o: o} }

func (f *flight) step() {
	f.w.Snapshot(&f.snapshot)
	decideAndObserve(f.p, &f.snapshot, f.o, &f.decision)
	f.w.FillAction(&f.snapshot, &f.decision, &f.action)
	f.o.Settle(teacher.Settlement(f.w, f.w.Step(f.action)))
}
