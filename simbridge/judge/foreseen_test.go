package judge

import (
	"testing"

	"prefdt/firmware/account"
	"prefdt/firmware/ledger"
	"prefdt/telemetry"
)

// packsFlight is [wholeFlight] under a budget of packs to touchdown, whose statuses tell the truth. It keeps every rule of what is told.
func packsFlight(stays bool) *flight {
	f := wholeFlight()
	f.Speed = 1
	b := telemetry.Budget{ID: "packs", Scope: telemetry.ScopeLanded, StandDown: telemetry.StandDownLand}
	if stays {
		b.StandDown = telemetry.StandDownNever
	}
	for k := range f.aircraft {
		b.Packs = append(b.Packs, telemetry.Pack{Aircraft: k + 1, Reserve: new(0.2)})
	}
	f.orders = append(f.orders, &order{id: "packs", kind: telemetry.KindBudget, deliveredS: 2, firstS: 2, answeredS: 2, accepted: true,
		budget: b})
	f.statuses = nil
	for t := 6.5; t < homeS+5; t++ {
		f.statuses = append(f.statuses, f.toldPacks(t))
	}
	return f
}

// toldPacks is a true status of packsFlight.
func (f *flight) toldPacks(t float64) status {
	const idleW = 150
	s := status{timeS: t, Status: telemetry.Status{Slot: int(t - slotsBeginS), State: telemetry.StateFlying, Scope: telemetry.ScopeLanded}}
	budgetJ, endJ := 0.0, 0.0
	for _, a := range f.aircraft {
		now, age, end := wholeState(a, t), 0.1, wholeState(a, homeS)
		homeJ := idleW * max(homeS-max(t, landsS), 0)
		s.Aircraft = append(s.Aircraft, telemetry.StatusAircraft{Number: a.number, AgeS: &age, UsableJ: new(now.LeftJ),
			ReserveJ: new(0.2 * now.PackJ), HomeJ: &homeJ})
		budgetJ, endJ = budgetJ+0.8*now.PackJ, endJ+end.SpentJ
	}
	s.BudgetJ, s.PredictedEndJ, s.FloorJ = &budgetJ, &endJ, endJ
	if t > returnsS {
		s.State = telemetry.StateReturning
	}
	return s
}

// Each rule of what is told of packs is kept by the truth, and broken by what differs from it by more than its bound.
func TestForeseenRules(t *testing.T) {
	kept := packsFlight(false)
	for _, rule := range foreseenRules {
		if x := judged(t, rule.Name, kept); x.Broken > 0 {
			t.Errorf("%s is broken: %s", rule.Name, x.First)
		}
	}
	all := func(change func(*status)) func(*flight) {
		return func(f *flight) {
			for k := range f.statuses {
				change(&f.statuses[k])
			}
		}
	}
	for rule, change := range map[string]func(*flight){
		"told reserve":  all(func(s *status) { *s.Aircraft[0].ReserveJ += 100 }),
		"told usable":   all(func(s *status) { *s.Aircraft[1].UsableJ += 1500 }),
		"told way home": all(func(s *status) { *s.Aircraft[0].HomeJ *= 1.2 }),
		"told floor":    all(func(s *status) { s.FloorJ += 100 }),
		"told end":      all(func(s *status) { *s.PredictedEndJ += 4e3 }),
		"told budget":   all(func(s *status) { *s.BudgetJ += 3e3 }),
	} {
		f := packsFlight(false)
		if change(f); judged(t, rule, f).Broken == 0 {
			t.Errorf("%s is kept: %+v", rule, judged(t, rule, f))
		}
	}
}

// One that may not land stays in the air while its pack has more than its reserve and its way home; one that may, where enough others stay.
func TestStaysUp(t *testing.T) {
	for _, x := range []struct {
		name   string
		stays  bool
		moreJ  float64
		broken int
	}{{"may land", false, 20e3, 0}, {"may not", true, 20e3, 1}, {"its pack is used up", true, -14e3, 0}} {
		f := packsFlight(x.stays)
		f.Slots = 80
		f.from(1, 0, wholeS, func(s *state) { s.LeftJ, s.PackJ = s.LeftJ+x.moreJ, 40e3 })
		f.from(1, 60, 65, func(s *state) { s.Mode = land })
		if got := judged(t, "stays up", f); got.Broken != x.broken {
			t.Errorf("%s: %+v", x.name, got)
		}
	}
}

// Ways home that took what was told of them leave the mean as it was.
func TestLearnedWay(t *testing.T) {
	for _, ratio := range []float64{1, 1.15} {
		f := packsFlight(false)
		f.complete, f.end.Ledger = true, &ledger.Flight{}
		f.end.Ledger.State.Account.Ways.Home = account.Taken{Ratio: ratio, Count: len(f.aircraft)}
		for k := range f.statuses {
			for i := range f.statuses[k].Aircraft {
				if f.statuses[k].timeS > landsS {
					f.statuses[k].Aircraft[i].Duty = telemetry.DutyLeaving
				}
			}
		}
		if got := judged(t, "learned way", f); got.Active == 0 || (got.Broken > 0) != (ratio > 1.1) {
			t.Errorf("%v: %+v", ratio, got)
		}
	}
}

// One that soon leaves for its pack flies no farther from home.
func TestNearItsReserve(t *testing.T) {
	for _, awayMPS := range []float64{2, 8} {
		f := packsFlight(false)
		for k := range f.statuses {
			x := &f.statuses[k].Aircraft[0]
			x.Duty = telemetry.DutyServing
			*x.UsableJ = *x.ReserveJ + *x.HomeJ + 500
		}
		f.from(1, 0, wholeS, func(s *state) { s.PositionM[1] = 300 + awayMPS*max(s.timeS-slotsBeginS, 0) })
		if got := judged(t, "near its reserve", f); got.Active == 0 || (got.Broken > 0) != (awayMPS > 5) {
			t.Errorf("%v m/s: %+v", awayMPS, got)
		}
	}
}

// What an aircraft draws in its descent is no joule of the slots, under a budget to touchdown.
func TestDescentInSlots(t *testing.T) {
	for _, fromHome := range []bool{false, true} {
		f := servingFlight()
		b := order{kind: telemetry.KindBudget, budget: telemetry.Budget{ID: "packs", Scope: telemetry.ScopeLanded}}
		for k := range f.aircraft {
			b.budget.Packs = append(b.budget.Packs, telemetry.Pack{Aircraft: k + 1, Reserve: new(0.2)})
		}
		f.give(54, true, b)
		f.from(1, 110, 200, func(s *state) { s.Mode = land })
		for k := range f.end.Ledger.Rows {
			if r := &f.end.Ledger.Rows[k]; r.Slot > 10 && fromHome {
				r.Aircraft[0].EnergyJ = 0
			}
		}
		if x := judged(t, "descent in slots", f); (x.Broken == 0) != fromHome || x.Active == 0 {
			t.Errorf("joules of the way home: %v, %+v", fromHome, x)
		}
	}
}
