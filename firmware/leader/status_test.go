package leader

import (
	"math"
	"testing"

	"prefdt/inference/goal"
	"prefdt/telemetry"
)

// A preference that no slot is decided with any more, for all are missed, is the setting
// of the statuses after it; after a budget it is the one that was in force.
func TestSettingAfterTheLastSlot(t *testing.T) {
	frozen := loadCheckpoint(t)
	const preference = 0.441
	for _, prefers := range []bool{true, false} {
		l := newInPhase(t, telemetry.StateFlying, nil, frozen.Physics, &frozen.GoalConstants)
		if err := l.account.SetBudget(33_000, goal.Target); err != nil {
			t.Fatal(err)
		}
		want := l.status(l.views).Setting
		if want < 0.01 || want > 0.99 || math.Abs(want-preference) < 0.01 {
			t.Fatalf("the budget is setting %v", want)
		}
		if prefers {
			l.account.SetPreference(preference)
			want = preference
		}
		l.settle(l.Config.Slots - 1)
		if got := l.status(l.views); math.Abs(got.Setting-want) > 1e-9 || (got.BudgetJ == nil) != prefers {
			t.Errorf("after the last slot the setting is %v, want %v", got.Setting, want)
		}
	}
}
