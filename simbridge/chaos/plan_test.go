package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func testConfig(seed uint64) *Config {
	return &Config{Missions: fullRunMissions, Seed: seed, Slots: 40, Speed: 20, Aircraft: 2, JumpLeader: "leader-jump"}
}

// The same seed draws the same missions; each passes through the states of its
// faults, and its first fault can be met before any other of that state.
func TestDraw(t *testing.T) {
	for k := range 2 * fullRunMissions {
		c := testConfig(7)
		p := drawPlan(c, k)
		if q := drawPlan(c, k); fmt.Sprintf("%+v", p) != fmt.Sprintf("%+v", q) {
			t.Fatalf("%+v and %+v", p, q)
		}
		for i, f := range p.Faults {
			x := coverageCell{f.Kind, f.State}
			switch {
			case !slices.Contains(coverageCells(), x), !p.visits(f.State), f.Aircraft > 1, f.StartSlot < 0, f.DurationSlots < 1:
				t.Errorf("mission %d, %v: %+v", k, p, f)
			case f.State == Flying && f.StartSlot > p.Slots-quietSlots+2:
				t.Errorf("mission %d, %v: %+v begins too late", k, p, f)
			case f.State == Flying && p.HoldSlots > 0 && f.StartSlot >= p.HoldSlot && f.StartSlot <= p.HoldSlot+p.HoldSlots && f.StartSlot < p.Slots-quietSlots:
				t.Errorf("mission %d, %v: %+v is in the hold", k, p, f)
			case i > 0 && f.State == p.Faults[0].State && f.StartSlot <= p.Faults[0].StartSlot:
				t.Errorf("mission %d, %v: %+v is not after the first", k, p, f)
			case needsKeys(f) && !p.Signed:
				t.Errorf("mission %d, %v: %+v without keys", k, p, f)
			}
			for _, g := range p.Faults[:i] {
				if mutuallyExclusive(x, coverageCell{g.Kind, g.State}) {
					t.Errorf("mission %d: %+v and %+v together", k, f, g)
				}
			}
		}
		if p.HoldSlots > 0 && p.HoldSlot+p.HoldSlots > p.Slots-quietSlots+1 {
			t.Errorf("mission %d: %v holds until slot %d", k, p, p.HoldSlot+p.HoldSlots)
		}
	}
}

// In a run of 200 missions every possible cell is the first fault of one, for any seed.
func TestFullRunPlansEveryCell(t *testing.T) {
	for seed := range uint64(20) {
		met := coverage{}
		for k := range fullRunMissions {
			p := drawPlan(testConfig(seed), k)
			met.add(p.Faults[0].Kind, p.Faults[0].State)
		}
		if missing := met.uncovered(false); len(missing) > 0 {
			t.Errorf("seed %d: %v", seed, missing)
		}
	}
}

// A long run fails for a cell that it never met, a short one does not.
func TestUncoveredCellFailsALongRun(t *testing.T) {
	met := coverage{}
	for _, x := range coverageCells() {
		met.add(x.Kind, x.State)
	}
	if missing := met.uncovered(false); len(missing) > 0 {
		t.Fatal(missing)
	}
	delete(met[PilotDisarm], Landing)
	r := Result{Missions: fullRunMissions, Uncovered: met.uncovered(false)}
	if why := r.Failed(); !strings.Contains(why, "pilot_disarm@landing") {
		t.Errorf("failed for %q", why)
	}
	if r.Missions = fullRunMissions - 1; r.Failed() != "" {
		t.Errorf("failed for %q", r.Failed())
	}
	if missing := met.uncovered(true); len(missing) != 1+len(states)-2 {
		t.Errorf("with a clock that jumps: %v", missing)
	}
	if table := met.String(); strings.Count(table, "\n") != len(faultTable)+2 || !strings.Contains(table, "landing") {
		t.Error(table)
	}
}

// Unsafe setpoints, lost and duplicate commands fail a run even if no mission failed.
func TestSafetyViolationsFailARun(t *testing.T) {
	for _, r := range []Result{{UnsafeSetpoints: 1}, {LostCommands: 1}, {DuplicateCommands: 1}, {Failures: []Failure{{}}}} {
		if r.Failed() == "" {
			t.Errorf("%+v did not fail", r)
		}
	}
	if r := (Result{Missions: 20}); r.Failed() != "" {
		t.Error(r.Failed())
	}
}
