package leader

import (
	"math"
	"strings"
	"testing"

	"prefdt/firmware/crew"
	"prefdt/firmware/energy"
	"prefdt/firmware/fleet"
	"prefdt/firmware/ledger"
	"prefdt/firmware/mission"
	"prefdt/inference/belief"
	"prefdt/inference/goal"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// A budget is at most what the packs hold that are there, each by its own capacity.
func TestBudgetIsAtMostThePacks(t *testing.T) {
	frozen := loadCheckpoint(t)
	for joules, accepted := range map[float64]bool{249e3: true, 249001: false, 300e3: false} {
		l := newInPhase(t, telemetry.StateFlying, nil, frozen.Physics, &frozen.GoalConstants)
		l.Config.Aircraft[1].PackJ = 99e3
		var err error
		if l.fleet, err = NewFleet(&l.Config, frozen.Physics, l.Clock, l.Log); err != nil {
			t.Fatal(err)
		}
		err = l.decideCommand(&crew.Command{Budget: &telemetry.Budget{ID: "b1", EnergyJ: joules, Mode: telemetry.ModeTarget}},
			&telemetry.Ack{})
		if (err == nil) != accepted || err != nil && !strings.Contains(err.Error(), "at most 249000") {
			t.Errorf("%v J of packs of 150 and 99 kJ: %v", joules, err)
		}
	}
}

// Nor does a mission start with a configured budget that is more.
func TestStartNeedsABudgetThatThePacksHold(t *testing.T) {
	frozen := loadCheckpoint(t)
	l := newInPhase(t, telemetry.StateIdle, nil, frozen.Physics, &frozen.GoalConstants)
	l.views[1].CapacityJ = 99e3
	if err := l.account.SetBudget(250e3, goal.Target); err != nil {
		t.Fatal(err)
	}
	if _, err := l.checks(l.views).start(nil); err == nil || !strings.Contains(err.Error(), "250000 J, want at most 249000") {
		t.Errorf("%v", err)
	}
}

// Who carries aircraft to the starts of another world is told which area these are of.
func TestStartNamesTheCheckpointsArea(t *testing.T) {
	frozen := loadCheckpoint(t)
	l := newInPhase(t, telemetry.StateIdle, nil, frozen.Physics, &frozen.GoalConstants)
	const off = "aircraft 1 is 224 m from its start, want at most flight.start_within_m, 200; carry it there"
	start := l.Config.StartPosition(1, frozen.Physics.AreaSideM)
	l.views[0].Position = start.Add(physics.Position{NorthM: -224})
	for _, c := range []struct {
		configured *[2]float64
		want       string
	}{
		{nil, "the checkpoint is for an area of 1000 m, in which aircraft 1 starts at [333, 500]: " + off},
		{&[2]float64{start.EastM, start.NorthM}, off},
	} {
		l.Config.Aircraft[0].StartM = c.configured
		if err := l.checks(l.views).nearStart(&l.views[0], start); err == nil || err.Error() != c.want {
			t.Errorf("start_m %v: %v, want %q", c.configured, err, c.want)
		}
	}
}

// windy is a scheduler that believes in a wind.
type windy struct{ belief belief.Belief }

func (w *windy) Belief() *belief.Belief { return &w.belief }
func (*windy) Recall(*slot.Snapshot)    {}
func (*windy) Decide(s *slot.Snapshot, _ goal.Objective, d *slot.Decision) (seen goal.Observation) {
	d.Resize(s)
	return seen
}

// The wind that the policy believes in is in the reserve from its decision on, and not in
// that of the next mission.
func TestReserveHasTheWind(t *testing.T) {
	frozen := loadCheckpoint(t)
	w := &windy{}
	w.belief.Air = motion.Air{Winds: []motion.Wind{{MPS: physics.Position{NorthM: 12}, Probability: 1}}}
	l := newInPhase(t, telemetry.StateFlying, w, frozen.Physics, &frozen.GoalConstants)
	v := &l.views[0]
	v.Home = &physics.Position{EastM: v.Position.EastM - 333, NorthM: v.Position.NorthM - 500}
	calmJ, spareJ := l.account.HomeJ(v), l.account.SpareJ(v)
	l.decide(0, nil, l.views)
	if got := l.account.HomeJ(v); got < calmJ+6e3 || math.Abs(spareJ-l.account.SpareJ(v)-(got-calmJ)) > 1e-6 {
		t.Errorf("home takes %.0f J against 12 m/s, %.0f J in calm air", got, calmJ)
	}
	l.account.Begin(100, l.views)
	if got := l.account.HomeJ(v); got != calmJ {
		t.Errorf("in the next mission it takes %.0f J", got)
	}
}

// A leader that is started for another mission knows what was drawn from the packs in the
// one before: its meters begin at 0.
func TestAnotherMissionKnowsThePacks(t *testing.T) {
	frozen := loadCheckpoint(t)
	l := newInPhase(t, telemetry.StateIdle, nil, frozen.Physics, &frozen.GoalConstants)
	l.openLedger(t, t.TempDir())
	defer l.ledgerWriter.ledger.Close()
	l.Config.Mission = "m-2"
	saved := ledger.State{State: mission.State{Mission: "m-1", Phase: telemetry.StateDone}, Fleet: []fleet.SavedAircraft{
		{Number: 1, SystemID: 1, Pack: fleet.Pack{CapacityJ: 99e3, FittedJ: 5e3}, Meter: energy.State{SpentJ: 75e3}},
		{Number: 2, SystemID: 2},
	}}
	if err := l.beginOrContinue(saved, true); err != nil {
		t.Fatal(err)
	}
	views := l.fleet.Views()
	for i, want := range []float64{29e3, 150e3} {
		if got := l.account.ResidualJ(&views[i]); math.Abs(got-want) > 1e-6 {
			t.Errorf("aircraft %d has %v J left, want %v", i+1, got, want)
		}
	}
	if s := l.ledgerState().Fleet[0].Pack; s.CapacityJ != 99e3 || s.FittedJ != -70e3 {
		t.Errorf("saved: %+v", s)
	}
}
