package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"prefdt/simbridge/judge"
)

func testConfig(seed uint64) *Config {
	return &Config{Missions: fullRunMissions, Seed: seed, Slots: 40, Speed: 1, Aircraft: 2}
}

// oddFaults are those that drawOdd adds, or puts in place of the first.
var oddFaults = []coverageCell{
	{StaysArmed, Landing}, {TellsLanded, Landing}, {HeartbeatSilence, Landing}, {ModeRefused, Returning}, {ModeRefused, Stopped},
	{StationFlies, Flying},
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
			case !slices.Contains(slices.Concat(coverageCells(), copterFaults, addedFaults, rareFaults, oddFaults), x),
				!p.visits(f.State), f.Aircraft >= p.Aircraft, f.StartSlot < 0, f.DurationSlots < 1:
				t.Errorf("mission %d, %v: %+v", k, p, f)
			case f.State == Flying && f.StartSlot > p.Slots-quietSlots+2:
				t.Errorf("mission %d, %v: %+v begins too late", k, p, f)
			case f.State == Flying && p.HoldSlots > 0 && f.StartSlot >= p.HoldSlot && f.StartSlot <= p.HoldSlot+p.HoldSlots &&
				f.StartSlot < p.Slots-quietSlots:
				t.Errorf("mission %d, %v: %+v is in the hold", k, p, f)
			case i > 0 && !slices.Contains(oddFaults, x) && f.State == p.Faults[0].State && f.StartSlot <= p.Faults[0].StartSlot:
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
		if missing := slices.DeleteFunc(met.uncovered(&Config{}), isClockJump); len(missing) > 0 {
			t.Errorf("seed %d: %v", seed, missing)
		}
	}
}

// A long run fails for a cell that it never met, and any run for one that it planned.
func TestUncoveredCells(t *testing.T) {
	with, without := &Config{}, &Config{Processes: true}
	met := coverage{}
	for _, x := range coverageCells() {
		met.add(x.Kind, x.State)
	}
	if missing := met.uncovered(without); len(missing) > 0 {
		t.Fatal(missing)
	}
	if missing := met.uncovered(with); len(missing) != len(states)-2 {
		t.Errorf("without a clock that jumps: %v", missing)
	}
	if missing := met.uncovered(&Config{Kind: Packs}); len(missing) != len(states)-4 {
		t.Errorf("of packs, without a clock that jumps: %v", missing)
	}
	delete(met[PilotDisarm], Landing)
	if missing := met.uncovered(without); !slices.Equal(missing, []string{"pilot_disarm@landing"}) {
		t.Error(missing)
	}
	planned := coverage{PilotDisarm: {Landing: 1}, PilotHold: {Flying: 1}}
	if missing := planned.missingIn(met); !slices.Equal(missing, []string{"pilot_disarm@landing"}) {
		t.Error(missing)
	}
	r := Result{Uncovered: []string{"pilot_disarm@landing"}}
	if why := r.Failed(); !strings.Contains(why, "pilot_disarm@landing") {
		t.Errorf("failed for %q", why)
	}
	if table := met.String(); strings.Count(table, "\n") != len(faultTable)+4 || !strings.Contains(table, "landing") {
		t.Error(table)
	}
}

// A failed mission fails a run, a known finding does not.
func TestFailedRuns(t *testing.T) {
	for _, c := range []struct {
		r    Result
		fail bool
	}{
		{Result{Missions: 20}, false}, {Result{Missions: 200, Failures: []Failure{{}}}, true}, {Result{Missions: 200,
			Known: map[string]int{"home": 3}}, false},
	} {
		if got := c.r.Failed(); (got != "") != c.fail {
			t.Errorf("%+v: %q", c.r, got)
		}
	}
}

// A run names the rules that showed nothing.
func TestIdleRules(t *testing.T) {
	r := Result{}
	for n, active := range []float64{0, 10} {
		r.addFindings(&Flown{Mission: n, Report: judge.Report{Findings: []judge.Finding{
			{Rule: "none", Assumed: map[string]float64{"link cut": 2}}, {Rule: "far", Active: active, Used: 0.2}, {Rule: "near",
				Active: 1, Used: 0.9},
			{Rule: "broken", Active: 1, Used: 1.5, Broken: 1, First: "1.0 s: it is"}}}})
	}
	if never, far := r.idleRules(); !slices.Equal(never, []string{"none"}) || !slices.Equal(far, []string{"far (0.20)"}) {
		t.Errorf("%v, %v", never, far)
	}
	if r.Rules[0].Assumed["link cut"] != 4 || r.Rules[3].First != "mission 0, 1.0 s: it is" || r.Rules[3].Broken != 2 ||
		r.Rules[3].Used != 0 {
		t.Errorf("%+v", r.Rules)
	}
}

// At least a third of the missions fly at the stock rates, and missions with pilots so
// slowly that 5 ms of wall time are little.
func TestSituations(t *testing.T) {
	stock, met := 0, map[string]int{}
	for k := range fullRunMissions {
		p := drawPlan(testConfig(11), k)
		if p.StockRates {
			stock++
		}
		if p.hasFault(PilotDisarm, PilotPosition, PilotHold) && p.Speed > pilotSpeed {
			t.Errorf("mission %d, %v, flies at %v", k, &p, p.Speed)
		}
		for _, s := range p.situation() {
			met[s]++
		}
	}
	if stock < fullRunMissions/3 {
		t.Errorf("%d missions of %d fly at the stock rates", stock, fullRunMissions)
	}
	for _, s := range []string{"stock", "one_link", "wind", "crowd", "allow", "slow", "packs", "sensor", "two_counters", "wrong_samples",
		"slow_monitor", "tight_homes", "outside", string(ClockJump)} {
		if met[s] < 5 {
			t.Errorf("%d missions of %d have %s", met[s], fullRunMissions, s)
		}
	}
}

// Missions are found by what happens in them, each once.
func TestFitting(t *testing.T) {
	c := testConfig(7)
	plans := NewPlans(c)
	found := plans.Fitting([]string{"process_kill@flying", "pilot_position", "stock+wind", "any"}, 12)
	seen := map[int]bool{}
	for _, k := range found {
		if seen[k] {
			t.Errorf("mission %d twice", k)
		}
		seen[k] = true
	}
	if p := drawPlan(c, found[0]); len(found) != 12 || !p.hasFault(ProcessKill) {
		t.Errorf("%v, and the first is %v", found, &p)
	}
	if none := plans.Fitting([]string{"process_kill@nowhere"}, 12); len(none) > 0 {
		t.Error(none)
	}
}

// Missions of PX4 and of a total are the same whatever else a run may draw; a normal run has a share
// of each other kind, and a run of a kind that kind alone.
func TestKinds(t *testing.T) {
	count := map[string]int{}
	for k := range fullRunMissions {
		for _, kind := range Kinds {
			c := testConfig(7)
			c.Kind = kind
			p := drawPlan(c, k)
			copters := len(slices.DeleteFunc(slices.Clone(p.Copters), func(is bool) bool { return !is }))
			switch of := fmt.Sprintf("mission %d of %q, %v", k, kind, &p); {
			case kind == Plain && (p.lands() || copters > 0), kind == Packs && !p.lands(), kind == ArduPilot && copters != p.Aircraft,
				kind == Mixed && (copters == 0 || copters == p.Aircraft) && p.Aircraft > 1:
				t.Error(of)
			case p.lands() && (p.Ending != endSlots || !p.StockRates || len(p.Packs.SlotsOf) != p.Aircraft || p.Packs.LeastUp > p.Aircraft):
				t.Errorf("%s: %+v", of, p.Packs)
			case p.lands() && !p.Packs.Stays && slices.Min(p.Packs.SlotsOf) >= float64(p.Slots):
				t.Errorf("%s: no pack binds: %+v", of, p.Packs)
			case p.lands() && slices.ContainsFunc(p.Faults, func(f fault) bool { return !f.isOfPacks() }):
				t.Errorf("%s has faults that end a flight in their own ways", of)
			}
			if kind == AnyKind {
				count["packs"] += map[bool]int{true: 1}[p.lands()]
				count["ardupilot"] += map[bool]int{true: 1}[copters == p.Aircraft]
				count["mixed"] += map[bool]int{true: 1}[copters > 0 && copters < p.Aircraft]
			}
		}
	}
	for _, kind := range []string{"packs", "ardupilot", "mixed"} {
		if n := count[kind]; n < fullRunMissions/20 || n > fullRunMissions/5 {
			t.Errorf("%d missions of %d are %s", n, fullRunMissions, kind)
		}
	}
}

// Every mission of a long run of a kind begins with a fault that this kind can have, and each is
// the first of one.
func TestKindsPlanEveryCell(t *testing.T) {
	for _, kind := range []Kind{Packs, ArduPilot, Mixed} {
		c, met := testConfig(11), coverage{}
		c.Kind = kind
		for k := range fullRunMissions {
			p := drawPlan(c, k)
			met.add(p.Faults[0].Kind, p.Faults[0].State)
		}
		if missing := slices.DeleteFunc(met.uncovered(c), isClockJump); len(missing) > 0 {
			t.Errorf("%s: %v", kind, missing)
		}
	}
}

// isClockJump is whether a cell is of the wall clock, which is no mission's first fault.
func isClockJump(cell string) bool { return strings.HasPrefix(cell, string(ClockJump)) }
