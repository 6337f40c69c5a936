package leader

import (
	"fmt"
	"math"
	"testing"

	"prefdt/firmware/ledger"
	"prefdt/telemetry"
)

func flying(s telemetry.Status) bool { return s.State == telemetry.StateFlying }

func at(n int) func(telemetry.Status) bool {
	return func(s telemetry.Status) bool { return s.Slot >= n }
}

func done(s telemetry.Status) bool { return s.State == telemetry.StateDone }

// trueJ is what the batteries really lost.
func (r *rig) trueJ() (sum float64) {
	for _, a := range r.craft {
		sum += a.State().Spent.J()
	}
	return sum
}

func TestMission(t *testing.T) {
	r := newRig(t, 2, 30)
	f := r.launch()
	r.await("the leader", func(telemetry.Status) bool { return true })
	budget := r.command(r.topics.Budget(), `{"id":"b1","energy_j":9500,"mode":"target"}`, "b1")
	if !budget.Accepted || *budget.Saturated || math.Abs(*budget.FloorJ-8064) > 10 || *budget.EffectiveSlot != 0 {
		t.Errorf("budget acknowledged with %+v", budget)
	}
	r.takeOff()
	r.await("slot 9", at(9))
	if low := r.command(r.topics.Budget(), `{"id":"b2","energy_j":100,"mode":"ceiling"}`, "b2"); !low.Accepted || !*low.Saturated || *low.EffectiveSlot < 10 {
		t.Errorf("a budget below the floor was acknowledged with %+v", low)
	}
	if back := r.command(r.topics.Budget(), `{"id":"b3","energy_j":9300,"mode":"target"}`, "b3"); !back.Accepted || *back.Saturated {
		t.Errorf("a revision was acknowledged with %+v", back)
	}
	s := r.await("done", done)
	if s.Slot != 29 || s.MissedSlots > 3 {
		t.Errorf("ended with %+v", s)
	}
	landed := r.await("landed", func(s telemetry.Status) bool {
		return s.State == telemetry.StateDone && s.Aircraft[0].Landed != nil && *s.Aircraft[0].Landed && *s.Aircraft[1].Landed && s.Aircraft[0].Mode == "OFFBOARD"
	})
	f.kill(t)

	// Joules are conserved between batteries, status and ledger within the
	// counter's resolution, 100 J an aircraft.
	if got := landed.SpentJ + landed.TransitJ; math.Abs(got-r.trueJ()) > 200 {
		t.Errorf("booked %.0f J, the batteries lost %.0f J", got, r.trueJ())
	}
	l, err := ledger.Open(r.config.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sum, next := 0.0, 0
	if err := l.Rows(func(row ledger.Row) error {
		if row.Slot != next {
			return fmt.Errorf("row of slot %d after %d", row.Slot, next-1)
		}
		next++
		sum += row.EnergyJ
		return nil
	}); err != nil {
		t.Error(err)
	}
	if next != 30 || math.Abs(sum-landed.SpentJ) > 1e-6 {
		t.Errorf("the ledger has %d slots and %.3f J, the status says %.3f J", next, sum, landed.SpentJ)
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for i := 1; i < len(r.slots); i++ {
		if r.slots[i] <= r.slots[i-1] {
			t.Errorf("slot %d after slot %d", r.slots[i], r.slots[i-1])
		}
	}
	if r.told[r.slots[10]] != 4 {
		t.Errorf("%d decisions in slot %d, want 4", r.told[r.slots[10]], r.slots[10])
	}
	if c := f.fleet.Counts(); c.Held+c.Alarms > 0 || c.Stalled > 2*s.MissedSlots || c.MinSeparationM < 100 || c.MaxSpeedMPS > 12 {
		t.Errorf("flight: %+v", c)
	}
}

func TestRestart(t *testing.T) {
	r := newRig(t, 2, 60)
	f := r.launch()
	r.await("the leader", func(telemetry.Status) bool { return true })
	r.command(r.topics.Budget(), `{"id":"b1","energy_j":19000,"mode":"target"}`, "b1")
	r.takeOff()
	for _, n := range []int{1, 15, 35} {
		before := r.await("its slot", at(n))
		f.kill(t)
		f = r.launch()
		after := r.await("a slot after the restart", func(s telemetry.Status) bool {
			return s.Slot > before.Slot && flying(s) && s.MissedSlots > before.MissedSlots
		})
		if after.BudgetJ == nil || *after.BudgetJ != 19000 || after.SpentJ <= before.SpentJ {
			t.Errorf("restart after slot %d: %+v", before.Slot, after)
		}
	}
	// A command applied before the restarts is not applied again.
	if again := r.command(r.topics.Budget(), `{"id":"b1","energy_j":30000,"mode":"ceiling"}`, "b1"); *again.EffectiveSlot != 0 {
		t.Errorf("a repeat after a restart got %+v", again)
	}
	s := r.await("done", done)
	if s.BudgetJ == nil || *s.BudgetJ != 19000 {
		t.Errorf("ended with %+v", s)
	}
	landed := r.await("landed", func(s telemetry.Status) bool {
		return s.Aircraft[0].Landed != nil && *s.Aircraft[0].Landed && *s.Aircraft[1].Landed && s.Aircraft[0].Mode == "OFFBOARD"
	})
	f.kill(t)
	if got := landed.SpentJ + landed.TransitJ; math.Abs(got-r.trueJ()) > 200 {
		t.Errorf("booked %.0f J over three restarts, the batteries lost %.0f J", got, r.trueJ())
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	seen := map[int]bool{}
	for i, n := range r.slots {
		if seen[n] || i > 0 && n <= r.slots[i-1] {
			t.Errorf("slot %d was opened twice, or out of order", n)
		}
		seen[n] = true
	}
	// A restarted leader flies on while it listens three slots for another one;
	// no beacon tells of those.
	if got := len(seen) + s.MissedSlots; got < 60-3*3 {
		t.Errorf("%d slots opened and %d missed, want 60 together but for 3 after each restart", len(seen), s.MissedSlots)
	}
}
