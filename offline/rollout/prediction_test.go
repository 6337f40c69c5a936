package rollout

import (
	"math"
	"testing"

	"prefdt/inference"
	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/offline/offlinetest"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// The total predicted at half time is the one at the end, also of budgets that cannot be
// spent at any price that is flown.
func TestPredictedEnd(t *testing.T) {
	ck := shippedCheckpoint(t)
	var s slot.Snapshot
	var d slot.Decision
	var a world.Action
	for _, budgetJ := range []float64{31e3, 38e3, 45e3} {
		mean := 0.0
		const seeds = 20
		for seed := range uint64(seeds) {
			w := world.New(world.Standard(), 100_100+seed)
			p := offlinetest.Must(inference.New(ck, inference.DecoderDispatch))(t)
			o := goal.New(&ck.GoalConstants, &w.Config.Physics, w.Config.Slots, len(w.Aircraft))
			offlinetest.NoError(t, o.SetBudget(budgetJ, goal.Target))
			predicted := 0.0
			for !w.Done() {
				w.Snapshot(&s)
				decideAndObserve(p, &s, &o, &d)
				w.FillAction(&s, &d, &a)
				o.Settle(teacher.Settlement(w, w.Step(a)))
				if w.Slot == w.Config.Slots/2 {
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
