package leader

import (
	"math"
	"slices"
	"strings"
	"testing"

	"prefdt/firmware/account"
	"prefdt/firmware/crew"
	"prefdt/firmware/fleet"
	"prefdt/inference/duty"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/telemetry"
)

// decodeBudget is a budget as it comes over the wire.
func decodeBudget(t *testing.T, fields string) *crew.Command {
	t.Helper()
	b, err := telemetry.DecodeBudget([]byte(`{"id":"b1",` + fields + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return &crew.Command{Budget: &b}
}

// What a budget names that the fleet does not have is refused by that name.
func TestBudgetsAreRefusedByName(t *testing.T) {
	frozen := loadCheckpoint(t)
	for fields, why := range map[string]string{
		`"packs":[{"aircraft":3}]`: "packs.aircraft is 3, this fleet has 2",
		`"packs":[{"aircraft":1},{"aircraft":2,"usable_j":150001}]`: "packs.usable_j of aircraft 2 is 150001, want " +
			"at most 150000, its pack's capacity",
		`"packs":[{"aircraft":1,"reserve_j":150000},{"aircraft":2}]`: "packs.reserve of aircraft 1 is 150.0 kJ (100 % " +
			"of all that its pack holds), want less than 150.0 kJ, its pack",
		`"packs":[{"aircraft":1,"reserve":0.2}]`: "aircraft 2 flies and is not in packs; name " +
			"it, or give energy_j",
		`"energy_j":42000,"mode":"ceiling","stand_down":"shifts"`: "stand_down is shifts, and no aircraft is a " +
			"standby",
		`"energy_j":42000,"mode":"ceiling","stand_down":"land","least_up":3`: "least_up is 3, this fleet has 2",
		`"energy_j":300001,"packs":[{"aircraft":1}]`: "energy_j is 300001, want above 0 and at " +
			"most 300000",
		`"packs":[{"aircraft":1},{"aircraft":2}],"replaces_j":45000`:                    "no budget is in force",
		`"energy_j":42000,"mode":"ceiling","packs":[{"aircraft":1}],"replaces_j":45000`: "no budget is in force",
	} {
		l := newInPhase(t, telemetry.StateIdle, nil, frozen.Physics, &frozen.GoalConstants)
		err := l.decideCommand(decodeBudget(t, fields), &telemetry.Ack{})
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v\nwant %s", fields, err, why)
		}
	}
}

// A budget that asks for nothing beyond a total of the slots has no bounds: it flies as ever.
func TestPlainBudgetsHaveNoBounds(t *testing.T) {
	frozen := loadCheckpoint(t)
	for fields, bounded := range map[string]bool{
		`"energy_j":42000,"mode":"target"`:                                      false,
		`"energy_j":42000,"mode":"target","scope":"slots","stand_down":"never"`: false,
		`"energy_j":42000,"mode":"target","least_up":2`:                         false,
		`"energy_j":42000,"mode":"target","scope":"landed"`:                     true,
		`"energy_j":42000,"mode":"target","stand_down":"land"`:                  true,
		`"energy_j":42000,"packs":[{"aircraft":1}]`:                             true,
	} {
		l := newInPhase(t, telemetry.StateFlying, nil, frozen.Physics, &frozen.GoalConstants)
		var ack telemetry.Ack
		if err := l.decideCommand(decodeBudget(t, fields), &ack); err != nil {
			t.Fatal(err)
		}
		if got := l.current.requested.Bounds() != nil; got != bounded || (ack.CoveredUntilSlot != nil) != bounded || *ack.EnergyJ != 42000 {
			t.Errorf("%s: bounds %v, acknowledged %+v", fields, got, ack)
		}
	}
}

// inBounds is a leader in a state, whose budget has bounds.
func inBounds(t *testing.T, phase string, b account.Bounds) *inPhase {
	t.Helper()
	frozen := loadCheckpoint(t)
	l := newInPhase(t, phase, nil, frozen.Physics, &frozen.GoalConstants)
	l.Policy.MaxPriceSPerJ = frozen.PriceCurve.PriceSPerJ(1)
	l.schedule.Begin(0)
	l.account.SetBounds(&b)
	for i := range l.views {
		l.views[i].Home = &l.views[i].Position
	}
	return l
}

// An aircraft leaves when its pack is at its reserve and the way: in a hold too, and not where the
// crew lets none land, nor when its pilot has it.
func TestLeavesForItsReserve(t *testing.T) {
	packs := []account.PackBounds{{Number: 1, ReserveJ: 30e3, Reserves: true}, {Number: 2, ReserveJ: 30e3, Reserves: true}}
	for name, c := range map[string]struct {
		phase, standDown string
		spareJ           float64 // beyond reserve and way
		change           func(*fleet.View)
		leaves           bool
	}{
		"just enough":        {telemetry.StateFlying, telemetry.StandDownLand, 200, nil, true},
		"enough for a while": {telemetry.StateFlying, telemetry.StandDownLand, 40e3, nil, false},
		"in a hold":          {telemetry.StateHolding, telemetry.StandDownLand, 200, nil, true},
		"none may land":      {telemetry.StateFlying, telemetry.StandDownNever, 200, nil, false},
		"with its pilot": {telemetry.StateFlying, telemetry.StandDownLand, 200,
			func(v *fleet.View) { v.Flying, v.Phase = false, fleet.PhasePilot }, false},
		"on its way home already": {telemetry.StateFlying, telemetry.StandDownLand, 200, func(v *fleet.View) { v.Homeward = true }, false},
		"after the last slot":     {telemetry.StateReturning, telemetry.StandDownLand, 200, nil, false},
	} {
		l := inBounds(t, c.phase, account.Bounds{BudgetJ: 240e3, Mode: goal.Ceiling, Scope: telemetry.ScopeLanded, StandDown: c.standDown,
			LeastUp: 1, Packs: packs})
		v := &l.views[0]
		v.Charge = (30e3 + l.account.WayHome(v).TotalJ() + c.spareJ) / v.CapacityJ
		if c.change != nil {
			c.change(v)
		}
		l.planDuty(l.views)
		if got := l.duty.leaving(1); got != c.leaves {
			t.Errorf("%s: leaves %v", name, got)
		}
		if l.duty.leaving(2) {
			t.Errorf("%s: aircraft 2 leaves with a full pack", name)
		}
		if serving := l.appendServing(nil, 0, l.views); c.leaves && len(serving) != 1 {
			t.Errorf("%s: %d aircraft are offered", name, len(serving))
		}
	}
}

// By the plan aircraft leave, the weaker packs first, while more than least_up are in the air, the last too where the
// total ends; for their reserves they leave in any case, and one that the crew keeps up does not leave by the plan.
func TestWhoLeaves(t *testing.T) {
	const enough, reserve = 30e3, 100.0
	for name, c := range map[string]struct {
		leftJ   [3]float64
		stays   [3]bool
		left    [3]bool
		ends    bool
		leastUp int
		leaves  [3]string
		covered int
	}{
		"one of three stays": {[3]float64{enough, enough + 2, enough + 1}, [3]bool{}, [3]bool{}, false, 1,
			[3]string{byPlan, "", byPlan}, 99},
		"two of three stay": {[3]float64{enough, enough + 2, enough + 1}, [3]bool{}, [3]bool{}, false, 2, [3]string{byPlan, "", ""}, 99},
		"all stay":          {[3]float64{enough, enough, enough}, [3]bool{}, [3]bool{}, false, 3, [3]string{}, 99},
		"one is lost":       {[3]float64{enough, enough, enough}, [3]bool{}, [3]bool{true, false, false}, false, 2, [3]string{}, 99},
		"the crew keeps two up": {[3]float64{enough, enough, enough}, [3]bool{true, true, false}, [3]bool{}, false, 1,
			[3]string{"", "", byPlan}, 9},
		"reserves of two": {[3]float64{reserve, reserve, enough}, [3]bool{}, [3]bool{}, false, 3, [3]string{forReserve, forReserve, ""}, 9},
		"a reserve goes before": {[3]float64{reserve, reserve, reserve}, [3]bool{true, true, true}, [3]bool{}, false, 3,
			[3]string{forReserve, forReserve, forReserve}, 9},
		"the total ends": {[3]float64{enough, enough + 2, enough + 1}, [3]bool{false, true, false}, [3]bool{}, true, 2,
			[3]string{byPlan, "", byPlan}, 9},
		"fewer are up than asked": {[3]float64{enough, enough, enough}, [3]bool{}, [3]bool{true, true, false}, false, 2, [3]string{}, 9},
	} {
		d := dutyPlan{input: duty.Input{Slot: 10, Slots: 100, FlightW: 134}, leaves: make([]string, 3)}
		for i := range 3 {
			d.input.Aircraft = append(d.input.Aircraft, duty.Aircraft{Number: i + 1, LeftJ: c.leftJ[i], Stays: c.stays[i], Left: c.left[i]})
			d.orders = append(d.orders, duty.Order{Number: i + 1, Leaves: true, FliesUntil: 10})
		}
		d.choose(c.leastUp, c.ends)
		if !slices.Equal(d.leaves, c.leaves[:]) || d.covered != c.covered {
			t.Errorf("%s: leave %q, covered until %d, want %q and %d", name, d.leaves, d.covered, c.leaves, c.covered)
		}
	}
}

// One that soon has to leave for its pack flies no farther from home: that would take more than is kept.
func TestNearItsReserveItFliesNoFartherAway(t *testing.T) {
	const awayM, homeJ, flightW = 30.0, 14e3, 170.0
	for slots, wantM := range map[float64]float64{3: awayM, 5: math.Inf(1)} {
		d := dutyPlan{input: duty.Input{Slot: 10, Slots: 100, FlightW: flightW}, leaves: make([]string, 1)}
		d.input.Aircraft = []duty.Aircraft{{Number: 1, LeftJ: homeJ + slots*flightW, ReturnJ: 1e3, DescentJ: homeJ - 1e3,
			Position: physics.Position{EastM: awayM}}}
		d.orders = []duty.Order{{Number: 1, FliesUntil: 20, HomeLimitM: math.Inf(1)}}
		if d.choose(1, false); d.leaves[0] != "" || d.orders[0].HomeLimitM != wantM {
			t.Errorf("%v slots before its reserve: leaves %q, at most %v m from home, want %v", slots, d.leaves[0],
				d.orders[0].HomeLimitM, wantM)
		}
	}
}

// Who leaves is sent home by a settlement that has it, and not before.
func TestLeavesOnceDurable(t *testing.T) {
	l := inBounds(t, telemetry.StateFlying, account.Bounds{BudgetJ: 1, Mode: goal.Ceiling, Scope: telemetry.ScopeLanded,
		StandDown: telemetry.StandDownLand, LeastUp: 1})
	l.duty.leaves, l.duty.leftJ = []string{forReserve, ""}, []float64{0, 0}
	saved := []fleet.SavedAircraft{{Number: 1, UnderCommand: true}, {Number: 2, UnderCommand: true}}
	if l.duty.sendLeaving(saved, l.fleet, l.Log); l.duty.leaves[0] == "" {
		t.Error("it was sent home, and the ledger does not have that")
	}
	saved[0].SendHome()
	if l.duty.sendLeaving(saved, l.fleet, l.Log); l.duty.leaves[0] != "" || saved[0].UnderCommand || !saved[0].Homing {
		t.Errorf("it was not sent home: %+v", saved[0])
	}
	pilot := fleet.SavedAircraft{Number: 1, WithPilot: true}
	if pilot.SendHome(); pilot.Homing || !pilot.WithPilot {
		t.Errorf("its pilot has it: %+v", pilot)
	}
}

// The objective has what the bounds leave for the slots, and the joules of one on its way home are
// no slot's.
func TestBoundsInTheObjective(t *testing.T) {
	l := inBounds(t, telemetry.StateFlying, account.Bounds{
		BudgetJ: 100e3, TotalJ: 100e3, Mode: goal.Target, Scope: telemetry.ScopeLanded, StandDown: telemetry.StandDownLand, LeastUp: 1,
	})
	l.planDuty(l.views)
	homeJ := l.account.WayHome(&l.views[0]).TotalJ() + l.account.WayHome(&l.views[1]).TotalJ()
	if o := l.account.Objective(); math.Abs(o.BudgetJ()-(100e3-homeJ)) > 1e-6 || o.Mode() != goal.Target {
		t.Errorf("the slots have %.0f J as %s, want %.0f", o.BudgetJ(), o.Mode(), 100e3-homeJ)
	}
	l.views[0].Homeward, l.views[0].TotalJ, l.views[1].TotalJ = true, 500, 400
	l.account.Settle(0, l.views, func(int) (float64, float64) { return 0, 0 })
	if spent, transit := l.account.SpentJ(0), l.account.TransitJ(); spent != 0 || transit != 500 || l.account.SpentJ(1) != 400 ||
		l.account.DrawnJ() != 900 {
		t.Errorf("spent %v and %v, transit %v, drawn %v", spent, l.account.SpentJ(1), transit, l.account.DrawnJ())
	}
}

// A reserve that is a share of a pack is of the pack that is there at the start, which may become
// known after the crew's order: 20 % of 60 kJ, not of the airframe's 150 kJ.
func TestReserveShareOfAPackKnownLater(t *testing.T) {
	frozen := loadCheckpoint(t)
	l := newInPhase(t, telemetry.StateIdle, nil, frozen.Physics, &frozen.GoalConstants)
	l.Policy.MaxPriceSPerJ = frozen.PriceCurve.PriceSPerJ(1)
	for i := range l.views {
		l.views[i].CapacityKnown = false
	}
	var ack telemetry.Ack
	named := decodeBudget(t, `"scope":"landed","stand_down":"land","packs":[{"aircraft":1,"usable_j":29000,"reserve":0.2},{"aircraft":2,`+
		`"usable_j":28000,"reserve":0.2}]`)
	if err := l.decideCommand(named, &ack); err != nil {
		t.Errorf("packs of 29 and 28 kJ, as the crew says: %v", err)
	}
	order := decodeBudget(t, `"scope":"landed","stand_down":"land","packs":[{"aircraft":1,"reserve":0.2},{"aircraft":2,"reserve":0.2}]`)
	if err := l.decideCommand(order, &ack); err != nil {
		t.Fatal(err)
	}
	l.account.SetBounds(l.current.requested.Bounds())
	for _, known := range []float64{150e3, 60e3, 300e3} {
		for i := range l.views {
			l.views[i].CapacityJ, l.views[i].CapacityKnown = known, true
		}
		l.planDuty(l.views)
		if kept := l.account.KeptJ(&l.views[0]); math.Abs(kept-0.2*known) > 1e-6 {
			t.Errorf("of %v J %v are kept", known, kept)
		}
		if got := l.account.RequestedJ(); math.Abs(got-1.6*known) > 1 {
			t.Errorf("with packs of %v J the budget is %v J", known, got)
		}
		if _, err := l.checks(l.views).start(nil); err != nil && strings.Contains(err.Error(), "send another") {
			t.Error(err)
		}
	}
}

// A total below the floor lets nobody leave that least_up keeps in the air: the plan says so, and does
// not foresee an end below the floor, nor computes. Packs that have all land at once end the mission there.
func TestEndsAtTheFloor(t *testing.T) {
	reserves := func(share float64) (packs []account.PackBounds) {
		return []account.PackBounds{{Number: 1, ReserveShare: share, Reserves: true}, {Number: 2, ReserveShare: share, Reserves: true}}
	}
	for name, c := range map[string]struct {
		phase   string
		totalJ  float64
		leastUp int
		packs   []account.PackBounds
		covered bool // to the last slot
		up      int  // aircraft that the plan has fly to the end
	}{
		"two stay":                   {telemetry.StateFlying, 40e3, 2, nil, true, 2},
		"two stay, packs too":        {telemetry.StateFlying, 40e3, 2, reserves(0.2), true, 2},
		"two stay, before the start": {telemetry.StateIdle, 40e3, 2, reserves(0.2), true, 2},
		"nobody could object":        {telemetry.StateFlying, 30e3, 1, nil, true, 2},
		"in a hold":                  {telemetry.StateHolding, 30e3, 1, nil, true, 2},
		"the packs hold nothing":     {telemetry.StateFlying, 40e3, 2, reserves(0.95), false, 0},
	} {
		b := account.Bounds{
			BudgetJ: c.totalJ, TotalJ: c.totalJ, Mode: goal.Ceiling, Scope: telemetry.ScopeLanded, StandDown: telemetry.StandDownLand,
			LeastUp: c.leastUp, Packs: c.packs,
		}
		l := inBounds(t, c.phase, b)
		l.planDuty(l.views)
		d, up := &l.duty, 0
		for i := range d.orders {
			if d.orders[i].FliesUntil == l.Config.Slots {
				up++
			}
		}
		if d.endJ < d.floorJ || d.covered == l.Config.Slots-1 != c.covered || up != c.up {
			t.Errorf("%s: %.0f J foreseen, floor %.0f, covered until %d, %d fly to the end", name, d.endJ, d.floorJ, d.covered, up)
		}
		if c.covered && d.orders[0].EdgeLimitJ+d.orders[1].EdgeLimitJ > 0 {
			t.Errorf("%s: it is passed by more, by computing: %+v", name, d.orders)
		}
		if c.covered && !d.saturates(&b) {
			t.Errorf("%s: a total of %.0f is kept, floor %.0f", name, c.totalJ, d.floorJ)
		}
	}
}

// The floor has the way home of one that left: a total below that by less has the other stay, too.
func TestFloorHasTheWaysOfThoseThatLeft(t *testing.T) {
	planned := func(totalJ float64) (*inPhase, *dutyPlan, *account.Bounds) {
		b := account.Bounds{BudgetJ: totalJ, TotalJ: totalJ, Mode: goal.Ceiling, Scope: telemetry.ScopeLanded,
			StandDown: telemetry.StandDownLand, LeastUp: 1}
		l := inBounds(t, telemetry.StateFlying, b)
		l.views[0].Homeward = true
		l.planDuty(l.views)
		return l, &l.duty, &b
	}
	l, d, _ := planned(100e3)
	homeJ := l.account.WayHome(&l.views[0]).TotalJ()
	_, d, b := planned(d.floorJ - homeJ/2)
	if o := d.orders[1]; o.FliesUntil != l.Config.Slots || o.EdgeLimitJ > 0 || !d.saturates(b) || d.endJ < d.floorJ {
		t.Errorf("a total of %.0f J, floor %.0f, %.0f foreseen: %+v", b.TotalJ, d.floorJ, d.endJ, o)
	}
}
