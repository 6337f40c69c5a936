package leader_test

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"prefdt/firmware/rig"
	"prefdt/telemetry"
)

// The real process is killed with SIGKILL in one slot after the other, and what
// it knows of the energy after each restart is held against the batteries: an
// uninterrupted flight would know them to the counter's resolution. The fleet
// moves again within three slots of the restart. How long a process takes to
// start is the machine's, so it is measured and left out, and of several kills
// the least counts: whatever else the machine does only adds to it. With
// PREFDT_KILLS=all every slot of a mission of 100 has its turn, in slots of one
// second over five missions, at moments that move on from kill to kill, and
// every kill counts.
func TestKilledInEverySlot(t *testing.T) {
	slots, slotMS, missions, all := 18, 120.0, 1, os.Getenv("PREFDT_KILLS") == "all"
	if all {
		slots, slotMS, missions = 100+tail, 1000, 5
	}
	const stride = 5
	var found kills
	for first := range missions {
		killEvery(t, &found, slots, slotMS, first, stride)
	}
	t.Logf("%d kills: energy entry off by at most %.0f J, flight resumed %.1f to %.1f slots after the process was up", found.count, found.worstJ, found.leastS, found.mostS)
	if found.count == 0 || found.worstJ > 200 {
		t.Errorf("%d kills: the energy entry is off by %.0f J, the two counters resolve 200 J", found.count, found.worstJ)
	}
	if found.leastS > 3 || all && found.mostS > 3 {
		t.Errorf("flight resumed only after %.1f to %.1f slots", found.leastS, found.mostS)
	}
}

// kills is what was found over the kills of a test.
type kills struct {
	count         int
	worstJ        float64 // the energy entry was off
	leastS, mostS float64 // slots until both aircraft moved again
}

// tail is how many slots after the last kill its measurement takes.
const tail = 6

// killEvery flies one mission and kills the leader in every stride-th slot.
func killEvery(t *testing.T, found *kills, slots int, slotMS float64, first, stride int) {
	r := rig.NewAt(t, 2, slots, slotMS)
	r.Config.Request.BudgetJ = 300 * float64(slots)
	args := r.Program()
	p := r.Start(args)
	r.TakeOff()
	for n := first; n < slots-tail; n += stride {
		if !r.Eventually(func() bool { return r.Opened(n) || r.Last().Slot >= n }) {
			t.Fatalf("slot %d never came: %+v", n, r.Last())
		}
		time.Sleep(r.Config.Wall(float64((n*7)%10) / 10)) // where in the slot it dies
		before := r.OffJ(r.Last())
		p.Kill()
		died, seq := time.Now(), len(r.Statuses())
		p = r.Start(args)
		if !r.Moved(died) {
			t.Fatalf("killed in slot %d, no aircraft moved again: %+v", n, r.Last())
		}
		moved := r.MovedAt(0)
		if m := r.MovedAt(1); m.After(moved) {
			moved = m
		}
		resumed := (moved.Sub(died) - startTime(t, args[0])).Seconds() * 1000 / slotMS
		// The first settlement of the new leader whose end is marked by a beacon.
		var s telemetry.Status
		if !r.Eventually(func() bool {
			for _, s = range r.Statuses()[seq:] {
				if !math.IsNaN(r.OffJ(s)) && s.Slot >= n {
					return true
				}
			}
			return false
		}) {
			t.Fatalf("killed in slot %d, nothing was settled after it: %+v", n, r.Last())
		}
		off := r.OffJ(s)
		if s.RemainingJ == nil || math.Abs(*s.RemainingJ-(r.Config.Request.BudgetJ-s.SpentJ)) > 1e-6 {
			t.Errorf("killed in slot %d: the energy entry is %v with %v J spent", n, s.RemainingJ, s.SpentJ)
		}
		t.Logf("killed in slot %d, settled %d: off by %+.0f J, %+.0f J before it, moved again after %.1f slots", n, s.Slot, off, before, resumed)
		if found.count == 0 || resumed < found.leastS {
			found.leastS = resumed
		}
		found.count, found.worstJ, found.mostS = found.count+1, max(found.worstJ, math.Abs(off)), max(found.mostS, resumed)
	}
	r.Await("done", rig.Done)
	r.SlotsInOrder()
	p.Kill()
}

// startTime is what the leader's program takes from its start to its ledger,
// which here it cannot open.
func startTime(t *testing.T, program string) time.Duration {
	t.Helper()
	r := rig.New(t, 1, 1)
	r.Config.StateDir = filepath.Join(t.TempDir(), "file", "below")
	if err := os.WriteFile(filepath.Dir(r.Config.StateDir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	args := r.Program()
	began := time.Now()
	out, err := exec.Command(program, args[1:]...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "state directory") {
		t.Fatalf("%v: %s", err, out)
	}
	return time.Since(began)
}
