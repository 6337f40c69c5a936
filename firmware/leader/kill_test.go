package leader

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"prefdt/simbridge/process"
	"prefdt/telemetry"
)

// program builds the leader and writes its configuration.
func (r *rig) program() (args []string) {
	r.t.Helper()
	dir := r.t.TempDir()
	r.config.Checkpoint, _ = filepath.Abs("../configs/checkpoint")
	text, err := yaml.Marshal(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	config, binary := filepath.Join(dir, "leader.yaml"), filepath.Join(dir, "leader")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		r.t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	return []string{binary, "-config", config}
}

func (r *rig) start(args []string) *process.Process {
	r.t.Helper()
	p, err := process.Start(args, filepath.Join(r.t.TempDir(), "leader.log"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(p.Stop)
	return p
}

// The real process is killed with SIGKILL in one slot after the other, and what
// it knows of the energy after each restart is held against the batteries: an
// uninterrupted flight would know them to the counter's resolution. With
// PREFDT_KILLS=all every slot of a mission of 100 has its turn, in slots of one
// second over five missions, at moments that move on from kill to kill.
func TestKilledInEverySlot(t *testing.T) {
	slots, slotMS, missions, mostSlots := 18, 120.0, 1, 3.0 // a slot is short, and others run too
	if os.Getenv("PREFDT_KILLS") == "all" {
		slots, slotMS, missions, mostSlots = 100+tail, 1000, 5, 2
	}
	const stride = 5
	kills, worstJ, worstS, sumS := 0, 0.0, 0.0, 0.0
	for first := range missions {
		k, j, s, sum := killEvery(t, slots, slotMS, first, stride)
		kills, worstJ, worstS, sumS = kills+k, max(worstJ, j), max(worstS, s), sumS+sum
	}
	t.Logf("%d kills: energy entry off by at most %.0f J, flight resumed after at most %.1f slots, %.1f on average", kills, worstJ, worstS, sumS/float64(kills))
	if kills == 0 || worstJ > 200 {
		t.Errorf("%d kills: the energy entry is off by %.0f J, the two counters resolve 200 J", kills, worstJ)
	}
	if worstS > mostSlots {
		t.Errorf("flight resumed only after %.1f slots", worstS)
	}
}

// tail is how many slots after the last kill its measurement takes: the new
// leader is silent on the broker for three.
const tail = 6

// killEvery flies one mission and kills the leader in every stride-th slot.
func killEvery(t *testing.T, slots int, slotMS float64, first, stride int) (kills int, worstJ, worstS, sumS float64) {
	r := newRigAt(t, 2, slots, slotMS)
	r.config.Request.BudgetJ = 300 * float64(slots)
	args := r.program()
	p := r.start(args)
	r.await("the leader", anyStatus)
	r.takeOff()
	for n := first; n < slots-tail; n += stride {
		if !r.until(func() bool { return r.opened(n) || r.last().Slot >= n }) {
			t.Fatalf("slot %d never came: %+v", n, r.last())
		}
		wall := time.Duration(slotMS * float64(time.Millisecond))
		time.Sleep(wall * time.Duration((n*7)%10) / 10) // where in the slot it dies
		r.mutex.Lock()
		before := r.offJ(r.last())
		r.mutex.Unlock()
		p.Kill()
		died := time.Now().UnixNano()
		r.mutex.Lock()
		seq := len(r.status)
		r.mutex.Unlock()
		p = r.start(args)
		if !r.until(func() bool { return r.legs[0].Load() > died && r.legs[1].Load() > died }) {
			t.Fatalf("killed in slot %d, no aircraft moved again: %+v", n, r.last())
		}
		resumed := float64(max(r.legs[0].Load(), r.legs[1].Load())-died) / 1e6 / slotMS
		// The first settlement of the new leader whose end is marked by a beacon.
		var s telemetry.Status
		if !r.until(func() bool {
			for _, s = range r.status[seq:] {
				if _, marked := r.truthJ[s.Slot+1]; marked && s.Slot >= n {
					return true
				}
			}
			return false
		}) {
			t.Fatalf("killed in slot %d, nothing was settled after it: %+v", n, r.last())
		}
		r.mutex.Lock()
		off := r.offJ(s)
		r.mutex.Unlock()
		if s.RemainingJ == nil || math.Abs(*s.RemainingJ-(r.config.Request.BudgetJ-s.SpentJ)) > 1e-6 {
			t.Errorf("killed in slot %d: the energy entry is %v with %v J spent", n, s.RemainingJ, s.SpentJ)
		}
		t.Logf("killed in slot %d, settled %d: off by %+.0f J, %+.0f J before it, moved again after %.1f slots", n, s.Slot, off, before, resumed)
		kills, worstJ, worstS, sumS = kills+1, max(worstJ, math.Abs(off)), max(worstS, resumed), sumS+resumed
	}
	r.await("done", done)
	for i := 1; i < len(r.slots); i++ {
		if r.slots[i] <= r.slots[i-1] {
			t.Errorf("slot %d after slot %d", r.slots[i], r.slots[i-1])
		}
	}
	p.Kill()
	return kills, worstJ, worstS, sumS
}

// offJ is what a status books more than the batteries had lost when the next
// slot's beacon came, which is a few milliseconds after its settlement. The mutex
// is held.
func (r *rig) offJ(s telemetry.Status) float64 {
	if _, marked := r.truthJ[s.Slot+1]; !marked {
		return math.NaN()
	}
	return s.SpentJ + s.TransitJ - r.truthJ[s.Slot+1]
}

// opened is whether a slot's beacon came. The mutex is held.
func (r *rig) opened(n int) bool { return len(r.slots) > 0 && r.slots[len(r.slots)-1] >= n }

// last is the newest status. The mutex is held.
func (r *rig) last() (s telemetry.Status) {
	if n := len(r.status); n > 0 {
		s = r.status[n-1]
	}
	return s
}

// until waits until what was heard satisfies a condition, which is called with
// the mutex held.
func (r *rig) until(ok func() bool) bool {
	return r.eventually(func() bool {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		return ok()
	})
}
