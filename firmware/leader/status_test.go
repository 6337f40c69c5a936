package leader

import (
	"math"
	"testing"

	"prefdt/firmware/account"
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

// Of a budget to touchdown the ways home are in the predicted end and the floor, after the last slot too, until all are
// down; in slots there is nothing left to take.
func TestEndOfABudgetToTouchdown(t *testing.T) {
	frozen := loadCheckpoint(t)
	for _, scope := range []string{telemetry.ScopeLanded, telemetry.ScopeSlots} {
		l := newInPhase(t, telemetry.StateReturning, nil, frozen.Physics, &frozen.GoalConstants)
		for i := range l.views {
			l.views[i].Home = &l.views[i].Position
		}
		l.account.SetBounds(&account.Bounds{BudgetJ: 90e3, TotalJ: 90e3, Mode: goal.Ceiling, Scope: scope})
		l.settle(l.Config.Slots - 1)
		homeJ := 0.0
		if scope == telemetry.ScopeLanded {
			homeJ = l.account.WayHome(&l.views[0]).TotalJ() + l.account.WayHome(&l.views[1]).TotalJ()
			if homeJ < 1000 {
				t.Fatalf("the ways home take %v J", homeJ)
			}
		}
		for down, wantJ := range []float64{homeJ, homeJ / 2, 0} {
			if down > 0 {
				l.views[down-1].InAir, l.views[down-1].Landed = false, new(true)
			}
			if s := l.status(l.views); math.Abs(*s.PredictedEndJ-s.SpentJ-wantJ) > 1e-6 || s.FloorJ != *s.PredictedEndJ || s.Saturated {
				t.Errorf("%s, %d down: spent %v, predicted %v, floor %v, want %v more", scope, down, s.SpentJ, *s.PredictedEndJ,
					s.FloorJ, wantJ)
			}
		}
	}
}

// After a restart the end of a budget with bounds is null until it is planned again, in the first slot, not zero.
func TestNoEndBeforeThePlan(t *testing.T) {
	frozen := loadCheckpoint(t)
	l := newInPhase(t, telemetry.StateFlying, nil, frozen.Physics, &frozen.GoalConstants)
	for i := range l.views {
		l.views[i].Home = &l.views[i].Position
	}
	l.account.SetBounds(&account.Bounds{BudgetJ: 90e3, TotalJ: 90e3, Mode: goal.Ceiling, Scope: telemetry.ScopeLanded, LeastUp: 1})
	l.settle(30)
	if s := l.status(l.views); s.BudgetJ == nil || s.PredictedEndJ != nil {
		t.Errorf("before the plan: budget %v, predicted end %v", s.BudgetJ, s.PredictedEndJ)
	}
	l.planDuty(l.views)
	if s := l.status(l.views); s.PredictedEndJ == nil || *s.PredictedEndJ < s.SpentJ || *s.PredictedEndJ > 90e3 {
		t.Errorf("after it: spent %v, predicted end %v", s.SpentJ, s.PredictedEndJ)
	}
}
