package leader_test

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"prefdt/firmware/ledger"
	"prefdt/simbridge/rig"
	"prefdt/telemetry"
)

// The real process is killed with SIGKILL in one slot after the other, and its
// account of the energy after each restart is compared with the batteries: an
// uninterrupted flight would know them to the counter's resolution. The fleet
// moves again within three slots of the restart. How long a process takes to
// start depends on the machine, so it is measured and left out, and of several
// kills the least counts: other load only adds to it. With PREFDT_KILLS=all every
// slot of a mission of 100 is tried, in slots of one second over five missions, at
// moments that move on from kill to kill, and every kill counts.
func TestKilledInEverySlot(t *testing.T) {
	slots, slotMS, missions, all := 18, 400.0, 1, os.Getenv("PREFDT_KILLS") == "all"
	if all {
		slots, slotMS, missions = 100+slotsAfterKill, 1000, 5
	}
	const stride = 5
	var found killStats
	for first := range missions {
		killEvery(t, &found, slots, slotMS, first, stride)
	}
	t.Logf("%d kills: energy entry off by at most %.0f J, multiplier by %.1f %%, a beacon %.1f to %.1f and flight %.1f to %.1f slots "+
		"after the process was up",
		found.count, found.worstJ, 100*found.worstFactor, found.leastOpenS, found.mostOpenS, found.leastS, found.mostS)
	if found.count == 0 || found.worstJ > 200 {
		t.Errorf("%d kills: the energy entry is off by %.0f J, the two counters resolve 200 J", found.count, found.worstJ)
	}
	if found.worstFactor > 0.02 {
		t.Errorf("the multiplier was off by %.1f %% after a kill, want 2 %%", 100*found.worstFactor)
	}
	if found.leastOpenS > 2 || all && found.mostOpenS > 2 {
		t.Errorf("users got a beacon only after %.1f to %.1f slots, want two", found.leastOpenS, found.mostOpenS)
	}
	if found.leastS > 3 || all && found.mostS > 3 {
		t.Errorf("flight resumed only after %.1f to %.1f slots", found.leastS, found.mostS)
	}
}

// killStats is what was measured over the kills of a test.
type killStats struct {
	count         int
	worstJ        float64 // the energy entry was off
	leastS, mostS float64 // slots until both aircraft moved again
	leastOpenS    float64 // slots until users got a beacon
	mostOpenS     float64
	worstFactor   float64 // the multiplier was off, relative
}

// slotsAfterKill is how many slots after the last kill its measurement takes.
const slotsAfterKill = 6

// killEvery flies one mission and kills the leader in every stride-th slot.
func killEvery(t *testing.T, found *killStats, slots int, slotMS float64, first, stride int) {
	r := rig.NewRealTime(t, 2, slots, slotMS)
	r.Config.Request.BudgetJ = 300 * float64(slots)
	r.Config.ReportByMS, r.Config.DecideByMS = 0.3*slotMS, 0.45*slotMS // as they are by default
	args := r.ProgramArgs()
	p := r.StartProgram(args)
	r.TakeOff()
	var slotsKilled []int
	for n := first; n < slots-slotsAfterKill; n += stride {
		if !r.Eventually(func() bool { return r.SlotOpened(n) || r.LastStatus().Slot >= n }) {
			t.Fatalf("slot %d never came: %+v", n, r.LastStatus())
		}
		time.Sleep(r.Config.WallTime(float64((n*7)%10) / 10)) // when in the slot it is killed
		before := r.AccountErrorJ(r.LastStatus())
		p.Kill()
		died, seq := time.Now(), len(r.Statuses())
		p = r.StartProgram(args)
		if !r.WaitAllMove(died) {
			t.Fatalf("killed in slot %d, no aircraft moved again: %+v", n, r.LastStatus())
		}
		moved := r.LastMoveAt(0)
		if m := r.LastMoveAt(1); m.After(moved) {
			moved = m
		}
		start := startupTime(t, args[0])
		resumed := (moved.Sub(died) - start).Seconds() * 1000 / slotMS
		opened := (r.BeaconAfter(died).Sub(died) - start).Seconds() * 1000 / slotMS
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
		if s.RemainingJ == nil || math.Abs(*s.RemainingJ-(r.Config.Request.BudgetJ-s.SpentJ)) > 1e-6 {
			t.Errorf("killed in slot %d: the energy entry is %v with %v J spent", n, s.RemainingJ, s.SpentJ)
		}
		t.Logf("killed in slot %d, settled %d: off by %+.0f J, %+.0f J before it, a beacon after %.1f slots, moved again after %.1f", n,
			s.Slot, off, before, opened, resumed)
		if found.count == 0 {
			found.leastS, found.leastOpenS = resumed, opened
		}
		found.leastS, found.leastOpenS, found.mostOpenS = min(found.leastS, resumed), min(found.leastOpenS, opened),
			max(found.mostOpenS, opened)
		slotsKilled = append(slotsKilled, n)
		found.count, found.worstJ, found.mostS = found.count+1, max(found.worstJ, math.Abs(off)), max(found.mostS, resumed)
	}
	r.Await("done", rig.Done)
	r.CheckSlotsInOrder()
	p.Kill()
	found.worstFactor = max(found.worstFactor, worstFactorError(t, r.Config.StateDir, slotsKilled))
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

// startupTime is what the leader's program takes from its start to its ledger,
// which here it cannot open.
func startupTime(t *testing.T, program string) time.Duration {
	t.Helper()
	r := rig.NewRealTime(t, 1, 1, 1000)
	r.Config.StateDir = filepath.Join(t.TempDir(), "file", "below")
	if err := os.WriteFile(filepath.Dir(r.Config.StateDir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	args := r.ProgramArgs()
	began := time.Now()
	out, err := exec.Command(program, args[1:]...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "state directory") {
		t.Fatalf("%v: %s", err, out)
	}
	return time.Since(began)
}
