package leader_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"prefdt/firmware/ledger"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// slotsAfterKill is how many slots after the last kill its measurement takes.
const slotsAfterKill = 6

// The leader is killed in every slot of a mission of 50, in five missions, at moments that move
// on from kill to kill. Its account of the energy after each restart is compared with the
// batteries: an uninterrupted flight would know them to the counter's resolution. Users get a
// beacon within two slots of the restart, and the fleet moves again within three.
func TestKilledInEverySlot(t *testing.T) {
	const slots, stride = 50 + slotsAfterKill, 5
	for first := range stride {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				r := rig.New(t, 2, slots)
				r.Config.Request.BudgetJ = 300 * slots
				r.Config.ReportByMS, r.Config.DecideByMS = 300, 450 // as they are by default
				f := r.StartLeader()
				r.TakeOff()
				var killed []int
				for n := first; n < slots-slotsAfterKill; n += stride {
					if !r.Eventually(func() bool { return r.SlotOpened(n) || r.LastStatus().Slot >= n }) {
						t.Fatalf("slot %d never came: %+v", n, r.LastStatus())
					}
					time.Sleep(r.Config.WallTime(float64((n*7)%10) / 10)) // when in the slot it is killed
					f = killIn(t, r, f, n)
					killed = append(killed, n)
				}
				r.Await("done", rig.Done)
				r.CheckSlotsInOrder()
				f.Kill()
				if off := worstFactorError(t, r.Config.StateDir, killed); off > 0.02 {
					t.Errorf("the multiplier was off by %.1f %% after a kill, want 2 %%", 100*off)
				}
			})
		})
	}
}

// killIn kills the leader in slot n, and checks the next one.
func killIn(t *testing.T, r *rig.Rig, f *rig.LeaderRun, n int) *rig.LeaderRun {
	t.Helper()
	before := r.AccountErrorJ(r.LastStatus())
	f.Kill()
	died, seq := time.Now(), len(r.Statuses())
	f = r.StartLeader()
	if !r.WaitAllMove(died) {
		t.Fatalf("killed in slot %d, no aircraft moved again: %+v", n, r.LastStatus())
	}
	moved := r.LastMoveAt(0)
	if m := r.LastMoveAt(1); m.After(moved) {
		moved = m
	}
	slotTime := r.Config.WallTime(1)
	resumed, opened := float64(moved.Sub(died))/float64(slotTime), float64(r.BeaconAfter(died).Sub(died))/float64(slotTime)
	// The first settlement of the new leader whose end is marked by a beacon.
	var s telemetry.Status
	if !r.Eventually(func() bool {
		for _, s = range r.Statuses()[seq:] {
			if !math.IsNaN(r.AccountErrorJ(s)) && s.Slot >= n {
				return true
			}
		}
		return false
	}) {
		t.Fatalf("killed in slot %d, nothing was settled after it: %+v", n, r.LastStatus())
	}
	off := r.AccountErrorJ(s)
	t.Logf("killed in slot %d, settled %d: off by %+.0f J, %+.0f J before it, a beacon after %.1f slots, moved again after %.1f", n,
		s.Slot, off, before, opened, resumed)
	if math.Abs(off) > 200 {
		t.Errorf("killed in slot %d: the energy entry is off by %.0f J, the two counters resolve 200 J", n, off)
	}
	if s.RemainingJ == nil || math.Abs(*s.RemainingJ-(r.Config.Request.BudgetJ-s.SpentJ)) > 1e-6 {
		t.Errorf("killed in slot %d: the energy entry is %v with %v J spent", n, s.RemainingJ, s.SpentJ)
	}
	if opened > 2 || resumed > 3 {
		t.Errorf("killed in slot %d: a beacon after %.1f slots, flight after %.1f", n, opened, resumed)
	}
	return f
}

// worstFactorError is the largest amount by which the propulsion multiplier differs, in the slots
// after a kill, from what it was before it. In this calm world nothing else moves
// it: without a kill it would be the same.
func worstFactorError(t *testing.T, stateDir string, killed []int) (most float64) {
	t.Helper()
	l, err := ledger.OpenReadOnly(ledger.Path(stateDir))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	flights, err := l.Flights()
	if err != nil {
		t.Fatal(err)
	}
	rows := flights[len(flights)-1].Rows
	for _, n := range killed {
		if n < settlingSlots || n >= len(rows) {
			continue
		}
		before := rows[n-1].PropulsionMultiplier
		for _, after := range rows[n:min(n+slotsAfterKill, len(rows))] {
			most = max(most, math.Abs(after.PropulsionMultiplier/before-1))
		}
	}
	return most
}

// settlingSlots is how many slots the multiplier takes from the archived airframe's to
// its own.
const settlingSlots = 4
