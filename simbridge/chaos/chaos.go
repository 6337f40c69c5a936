// Package chaos flies seeded missions of the leader under faults: lost reports and
// links, restarts of the broker and of autopilots, missing and reset battery values,
// killed leaders, storms of commands.
//
// Inputs: a seed, the number and size of the missions, and a checkpoint.
// Outputs: a line for each mission and a [Result]: unsafe setpoints, lost and duplicate
// commands, the error of the leader's energy account, which fault met which state.
// Caller: the command `simbridge chaos`.
//
// Each mission has a process of its own, in which the leader's program, broker, users and
// autopilots fly in virtual time on a network in memory: see fly.go. With Processes the leader is
// a process, links are sockets and time is real; rules that depend on time are then not judged.
// The leader is judged from outside alone: by the messages that the autopilots received, the
// answers to the crew, and the energy really drawn from the batteries.
package chaos

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"prefdt/inference/checkpoint"
	"prefdt/simbridge/judge"
)

// Config is a run.
type Config struct {
	Missions   int
	Seed       uint64
	Only       []int // only these missions; none: all
	Slots      int
	Speed      float64
	Aircraft   int
	Leader     string // program, of missions with processes
	Processes  bool   // programs and sockets in real time, in place of one process in virtual time
	Flyer      string // the program that flies a mission: simbridge
	Checkpoint string
	Out        string // folder for results, and logs of missions that fail
	Resume     bool   // what the folder has of this run is not flown again
	Keep       bool   // the folders of missions that did not fail, too
	Jobs       int    // missions that fly at once
	Kind       Kind
}

// Check returns what is wrong with a configuration.
func (c *Config) Check() error {
	if c.Speed == 0 {
		c.Speed = 1
		if c.Processes {
			c.Speed = 10
		}
	}
	for _, r := range []struct {
		name      string
		x, lo, hi float64
	}{
		{"-missions", float64(c.Missions), 1, 100_000},
		{"-slots", float64(c.Slots), minSlots, 10_000},
		{"-speed", c.Speed, 1, 40},
		{"-aircraft", float64(c.Aircraft), 1, 8},
		{"-jobs", float64(c.Jobs), 1, 64},
	} {
		if !(r.x >= r.lo && r.x <= r.hi) {
			return fmt.Errorf("%s is %v, want %v to %v", r.name, r.x, r.lo, r.hi)
		}
	}
	for _, k := range c.Only {
		if k < 0 || k >= c.Missions {
			return fmt.Errorf("-only is %d, want 0 to %d", k, c.Missions-1)
		}
	}
	if err := c.checkKind(); err != nil {
		return err
	}
	if _, err := os.Stat(c.Leader); c.Processes && err != nil {
		return fmt.Errorf("the leader: %w", err)
	}
	if _, err := os.Stat(filepath.Join(c.Checkpoint, checkpoint.ManifestFile)); err != nil {
		return fmt.Errorf("-checkpoint: %w", err)
	}
	return nil
}

// Result is the outcome of a run.
type Result struct {
	Missions      int               `json:"missions"`
	Faults        map[FaultKind]int `json:"faults"`
	FaultsByState coverage          `json:"fault_by_state"` // how often each began in each state
	// cells of fault and state that were planned, in a long run all possible ones, and never met
	Uncovered         []string       `json:"uncovered"`
	Broken            map[string]int `json:"broken"` // missions in which each rule was broken
	Known             map[string]int `json:"known"`  // the same of findings that are listed and fail no run
	UnsafeSetpoints   int            `json:"unsafe_setpoints"`
	LostCommands      int            `json:"lost_commands"`
	DuplicateCommands int            `json:"doubled_commands"`
	MaxLedgerErrorJ   float64        `json:"ledger_max_error_j"`
	// MaxLedgerErrorNoResetJ is the greatest of missions in which no counter was reset,
	// so that no gap had to be bridged by the model alone.
	MaxLedgerErrorNoResetJ float64 `json:"ledger_max_error_counted_j"`
	// MaxLedgerErrorShare is the greatest error as a share of the allowed one, which
	// follows from the resolution of the messages and the gaps bridged by the model.
	MaxLedgerErrorShare float64   `json:"ledger_max_error_share"`
	Resumed             int       `json:"resumed"`      // every aircraft was under the leader's command in the last slot
	EndedSafely         int       `json:"ended_safely"` // not every one was, and all landed
	Failures            []Failure `json:"failures"`
	MissedSlots         int       `json:"missed_slots"`
	SlowestAnswerS      float64   `json:"slowest_answer_s"` // wall time
	MinSeparationM      float64   `json:"min_separation_m"`
	// LeftForPacks are the shares that were left, at touchdown, of packs that alone ended a flight.
	LeftForPacks []float64 `json:"left_for_packs,omitempty"`
	WallS        float64   `json:"wall_s"`
	// Rules is how each rule fared in all missions together, in the order of the table.
	Rules []judge.Finding `json:"rules"`

	Outcomes []Outcome `json:"-"` // of each mission, in their order
	planned  coverage  // first faults of the missions
}

// Outcome is how one mission went.
type Outcome struct {
	Mission int
	Plan    string
	Broken  []string // rules, but for known findings
	Hung    string   // why it could not be flown to its end; empty: it was
}

// Failure is a mission to fly again with -only.
type Failure struct {
	Mission int    `json:"mission"`
	Seed    uint64 `json:"seed"`
	Reason  string `json:"reason"`
}

// Failed returns why a run failed, or nothing. Unsafe setpoints, lost and duplicate
// commands count even if their mission did not fail; a possible cell that was never met
// counts in a run that was long enough to meet it, and a rule that showed nothing in a long one.
func (r *Result) Failed() string {
	var reasons []string
	if n := len(r.Failures); n > 0 {
		reasons = append(reasons, fmt.Sprintf("%d missions failed", n))
	}
	if r.Missions >= manyMissions {
		never, far := r.idleRules()
		if len(never) > 0 {
			reasons = append(reasons, fmt.Sprintf("%d rules were never active: %s", len(never), strings.Join(never, ", ")))
		}
		if len(far) > 0 {
			reasons = append(reasons, fmt.Sprintf("%d rules never came above half of their bound: %s", len(far), strings.Join(far, ", ")))
		}
	}
	if len(r.Uncovered) > 0 {
		reasons = append(reasons, fmt.Sprintf("%d cells of fault and state were never met: %s", len(r.Uncovered),
			strings.Join(r.Uncovered, " ")))
	}
	return strings.Join(reasons, "; ")
}

// add adds a mission to a run.
func (r *Result) add(f *Flown) {
	r.Missions++
	o := Outcome{Mission: f.Mission, Plan: f.Plan}
	for _, rule := range f.KnownRules {
		r.Known[rule]++
	}
	for _, rule := range f.Broken {
		r.Broken[rule]++
	}
	o.Broken = f.Broken
	if f.Hung {
		o.Hung = f.Failure
	}
	r.Outcomes = append(r.Outcomes, o)
	switch {
	case f.Failure != "":
		r.Failures = append(r.Failures, Failure{f.Mission, f.Seed, f.Failure})
	case f.Resumed:
		r.Resumed++
	default:
		r.EndedSafely++
	}
	r.planned.add(f.First.Kind, f.First.State)
	for _, kind := range f.Faults {
		r.Faults[kind]++
	}
	for _, x := range f.Met {
		r.FaultsByState.add(x.Kind, x.State)
	}
	r.addFindings(f)
	x := &f.Report.Figures
	r.MissedSlots += x.MissedSlots
	r.LeftForPacks = append(r.LeftForPacks, x.LeftForPacks...)
	r.SlowestAnswerS = max(r.SlowestAnswerS, x.SlowestAnswerS)
	if x.Ended {
		r.MaxLedgerErrorJ = max(r.MaxLedgerErrorJ, x.LedgerErrorJ)
		r.MinSeparationM = min(r.MinSeparationM, x.MinSeparationM)
		if !x.CounterResets {
			r.MaxLedgerErrorNoResetJ = max(r.MaxLedgerErrorNoResetJ, x.LedgerErrorJ)
		}
	}
}

// addFindings adds how each rule fared.
func (r *Result) addFindings(f *Flown) {
	for k, x := range f.Report.Findings {
		if k == len(r.Rules) {
			r.Rules = append(r.Rules, judge.Finding{Rule: x.Rule, Assumed: map[string]float64{}})
		}
		sum := &r.Rules[k]
		sum.Active += x.Active
		sum.Broken += x.Broken
		if x.Broken == 0 { // how near a flight came that kept it
			sum.Used = max(sum.Used, x.Used)
		} else if sum.First == "" {
			sum.First = fmt.Sprintf("mission %d, %s", f.Mission, x.First)
		}
		for name, n := range x.Assumed {
			sum.Assumed[name] += n
		}
		switch {
		case x.Broken == 0 || !slices.Contains(f.Broken, x.Rule):
		case x.Rule == "acknowledged":
			r.LostCommands += x.Broken
		case x.Rule == "duplicate":
			r.DuplicateCommands += x.Broken
		case judge.IsUnsafe(x.Rule):
			r.UnsafeSetpoints += x.Broken
		}
		if x.Rule == "energy" && x.Broken == 0 {
			r.MaxLedgerErrorShare = max(r.MaxLedgerErrorShare, x.Used)
		}
	}
}

// RuleActivity is a table of how each rule fared: for how long it was active, how near a flight came to its bound, which
// assumptions widened it, and how often it was broken.
func (r *Result) RuleActivity() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-22s %12s %6s %7s  %s\n", "rule", "active", "used", "broken", "assumed")
	for _, x := range r.Rules {
		var assumed []string
		for _, name := range slices.Sorted(maps.Keys(x.Assumed)) {
			assumed = append(assumed, fmt.Sprintf("%s %.0f", name, x.Assumed[name]))
		}
		fmt.Fprintf(&b, "%-22s %12.0f %6.2f %7d  %s\n", x.Rule, x.Active, x.Used, x.Broken, strings.Join(assumed, ", "))
	}
	never, far := r.idleRules()
	fmt.Fprintf(&b, "never active: %s\nnever above half of a bound: %s\n", strings.Join(never, ", "), strings.Join(far, ", "))
	return b.String()
}

// manyMissions is a run so long that a rule which showed nothing in it fails it.
const manyMissions = 1000

// idleRules are those that were never active, and those whose number never came above half of its bound: neither
// has shown anything.
func (r *Result) idleRules() (never, far []string) {
	const half = 0.5
	for _, x := range r.Rules {
		switch {
		case x.Active == 0:
			never = append(never, x.Rule)
		case x.Used > 0 && x.Used < half:
			far = append(far, fmt.Sprintf("%s (%.2f)", x.Rule, x.Used))
		}
	}
	return never, far
}
