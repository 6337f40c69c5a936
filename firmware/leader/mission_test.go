package leader_test

import (
	"math"
	"testing"

	"prefdt/firmware/ledger"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// bothLanded accepts a status of two aircraft that are on the ground in Land.
func bothLanded(s telemetry.Status) bool {
	for _, a := range s.Aircraft {
		if a.Landed == nil || !*a.Landed || a.Mode != "OFFBOARD" {
			return false
		}
	}
	return true
}

func TestMission(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 30)
		f := r.StartLeader()
		r.Await("the leader", rig.AnyStatus)
		budget := r.SendCommand(r.Topics.Budget(), `{"id":"b1","energy_j":9500,"mode":"target"}`, "b1")
		if !budget.Accepted || *budget.Saturated || math.Abs(*budget.FloorJ-8064) > 10 || *budget.EffectiveSlot != 0 ||
			*budget.EnergyJ != 9500 || budget.Mode != "target" {
			t.Errorf("budget acknowledged with %+v", budget)
		}
		check := watchLateness(t, r, f)
		r.TakeOff()
		r.Await("slot 9", rig.SlotSettled(9))
		if low := r.SendCommand(r.Topics.Budget(), `{"id":"b2","energy_j":100,"mode":"ceiling"}`, "b2"); !low.Accepted || !*low.Saturated ||
			*low.EffectiveSlot < 10 {
			t.Errorf("a budget below the floor was acknowledged with %+v", low)
		}
		if back := r.SendCommand(r.Topics.Budget(), `{"id":"b3","energy_j":9300,"mode":"target"}`, "b3"); !back.Accepted ||
			*back.Saturated {
			t.Errorf("a revision was acknowledged with %+v", back)
		}
		s := r.Await("done", rig.Done)
		if s.Slot != 29 {
			t.Errorf("ended with %+v", s)
		}
		landed := r.Await("landed", func(s telemetry.Status) bool { return rig.Done(s) && bothLanded(s) })
		check()
		c := f.Report().FleetCounts
		f.Kill()

		// Joules are conserved between batteries, status and ledger within the
		// counter's resolution, 100 J an aircraft.
		if got := landed.SpentJ + landed.TransitJ; math.Abs(got-r.BatteryLossJ()) > 200 {
			t.Errorf("accounted %.0f J, the batteries lost %.0f J", got, r.BatteryLossJ())
		}
		l, err := ledger.Open(r.Config.StateDir)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		flights, err := l.Flights()
		if err != nil {
			t.Fatal(err)
		}
		sum, next := 0.0, 0
		for _, row := range flights[0].Rows {
			if row.Slot != next {
				t.Errorf("row of slot %d after %d", row.Slot, next-1)
			}
			next = row.Slot + 1
			sum += row.EnergyJ
		}
		if len(flights[0].Rows) != 30 || math.Abs(sum-landed.SpentJ) > 1e-6 {
			t.Errorf("the ledger has %d slots and %.3f J, the status has %.3f J", len(flights[0].Rows), sum, landed.SpentJ)
		}
		r.CheckSlotsInOrder()
		for _, n := range r.Beacons() {
			if d := r.DecisionCount(n); d != 4 {
				t.Errorf("%d decisions in slot %d for 4 users", d, n)
			}
		}
		const mostMPS = 10
		if c.Held > 0 || c.Alarms > 0 || c.MinSeparationM < 100 || c.MaxSpeedMPS > mostMPS {
			t.Errorf("flight: %+v", c)
		}
	})
}

func TestRestart(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 60)
		f := r.StartLeader()
		r.Await("the leader", rig.AnyStatus)
		first := r.SendCommand(r.Topics.Budget(), `{"id":"b1","energy_j":19000,"mode":"target"}`, "b1")
		r.TakeOff()
		for _, n := range []int{1, 15, 35} {
			before := r.Await("its slot", rig.SlotSettled(n))
			f.Kill()
			f = r.StartLeader()
			after := r.Await("a slot after the restart", func(s telemetry.Status) bool {
				return s.Slot > before.Slot && rig.Flying(s) && s.MissedSlots > before.MissedSlots
			})
			if after.BudgetJ == nil || *after.BudgetJ != 19000 || after.SpentJ <= before.SpentJ {
				t.Errorf("restart after slot %d: %+v", before.Slot, after)
			}
		}
		// A command applied before the restarts is not applied again.
		if repeat := r.SendCommand(r.Topics.Budget(), `{"id":"b1","energy_j":19000,"mode":"target"}`, "b1"); repeat.EffectiveSlot == nil ||
			*repeat.EffectiveSlot != *first.EffectiveSlot {
			t.Errorf("a repeat after a restart got %+v, the first %+v", repeat, first)
		}
		s := r.Await("done", rig.Done)
		if s.BudgetJ == nil || *s.BudgetJ != 19000 {
			t.Errorf("ended with %+v", s)
		}
		landed := r.Await("landed", bothLanded)
		f.Kill()
		if got := landed.SpentJ + landed.TransitJ; math.Abs(got-r.BatteryLossJ()) > 200 {
			t.Errorf("accounted %.0f J over three restarts, the batteries lost %.0f J", got, r.BatteryLossJ())
		}
		r.CheckSlotsInOrder()
		// A restarted leader flies on while it listens one and a half slots for another
		// one; those slots have no beacon, and are missed. The one in which it is killed may be both.
		if got := len(r.Beacons()) + s.MissedSlots; got < 60 || got > 60+3 || s.MissedSlots > 3*3 {
			t.Errorf("%d slots opened and %d missed, want 60 together, at most three missed after each restart", len(r.Beacons()),
				s.MissedSlots)
		}
	})
}
