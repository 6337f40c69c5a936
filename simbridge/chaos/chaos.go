// Package chaos flies seeded missions of the leader under faults: lost reports and
// links, restarts of the broker and of autopilots, missing and reset battery values,
// killed leaders, storms of commands.
//
// Inputs: a seed, the number and size of the missions, the leader's program and a
// checkpoint.
// Outputs: a line for each mission and a [Result]: unsafe setpoints, lost and duplicate
// commands, the error of the leader's energy account, which fault met which state.
// Caller: the command `simbridge chaos`.
//
// The leader is a process of its own; the broker, the links and the autopilots' sockets
// are real. It is judged from outside alone: by the messages that the autopilots
// received, the answers to the crew, and the energy really drawn from the batteries.
package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"prefdt/inference/checkpoint"
)

// Config is a run.
type Config struct {
	Missions   int
	Seed       uint64
	Only       []int // only these missions; none: all
	Slots      int
	Speed      float64
	Aircraft   int
	Leader     string // program
	JumpLeader string // the same with a wall clock that jumps, see BuildJump; empty: no such missions
	DiskLeader string // the same with a disk that can stall and lose what was not synced, see BuildDisk; likewise
	Checkpoint string
	Out        string // folder for logs
	Jobs       int    // missions that fly at once
	Kind       Kind
}

// Check returns what is wrong with a configuration.
func (c *Config) Check() error {
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
	for _, program := range []string{c.Leader, c.JumpLeader, c.DiskLeader} {
		if program == "" && program != c.Leader {
			continue
		}
		if _, err := os.Stat(program); err != nil {
			return fmt.Errorf("the leader: %w", err)
		}
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
	Broken            map[string]int `json:"broken"`     // missions in which each rule was broken
	Known             map[string]int `json:"known"`      // the same of findings that are listed and fail no run
	NotJudged         int            `json:"not_judged"` // missions on which the machine was too slow to be judged
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

	// Delays by the machine, in wall time: of a thread of this process that sleeps and
	// is to wake, and of the leaders' threads that were ready and had no core; and the
	// events that were late by no more than that.
	HostDelayS       float64 `json:"host_held_us_up_s"`
	LeaderHostDelayS float64 `json:"host_held_leaders_up_s"`
	ExcusedByHost    int     `json:"excused_by_host"`
	MaxExcusedMS     float64 `json:"excused_by_host_max_ms"`

	Outcomes []Outcome `json:"-"` // of each mission, in their order
	planned  coverage  // first faults of the missions that were judged
}

// Outcome is how one mission went.
type Outcome struct {
	Mission   int
	Plan      string
	Broken    []string // rules, but for known findings
	NotJudged bool
	Hung      string // why it could not be flown to its end; empty: it was
}

// Failure is a mission to fly again with -only.
type Failure struct {
	Mission int    `json:"mission"`
	Seed    uint64 `json:"seed"`
	Reason  string `json:"reason"`
}

// observedS is for how long the machine is watched before the first mission of a run.
const observedS = 3

// Run flies the missions and prints a line for each, in their order.
func Run(ctx context.Context, c Config, progress io.Writer) (Result, error) {
	r := Result{Faults: map[FaultKind]int{}, FaultsByState: coverage{}, planned: coverage{}, Failures: []Failure{},
		Broken: map[string]int{}, Known: map[string]int{}, MinSeparationM: 1e9}
	if err := c.Check(); err != nil {
		return r, err
	}
	began := time.Now()
	h, p := &hostMonitor{}, &ports{}
	defer p.close()
	monitoring, stop := context.WithCancel(ctx)
	defer stop()
	go h.run(monitoring)
	var missions []*mission
	next := make(chan *mission, c.Missions) // in their order, so that each is printed soon after its end
	for k := range c.Missions {
		if len(c.Only) > 0 && !slices.Contains(c.Only, k) {
			continue
		}
		m := &mission{
			Config: c, plan: drawPlan(&c, k), number: k, host: h, ports: p,
			random: rand.New(rand.NewPCG(c.Seed, uint64(k)<<32)), folder: filepath.Join(c.Out, fmt.Sprintf("mission-%d", k)),
			over: make(chan *mission, 1),
		}
		m.Aircraft = m.plan.Aircraft
		missions = append(missions, m)
		next <- m
	}
	close(next)
	if len(c.Only) == 0 { // the first missions, too, fly no faster than the machine lets them
		select {
		case <-time.After(observedS * time.Second):
		case <-ctx.Done():
		}
	}
	for range c.Jobs {
		go func() {
			for m := range next {
				m.plan.Speed /= m.host.slowdown()
				m.over <- m.watch(ctx, m.plan.limit()+overtime, m.run)
			}
		}()
	}
	for i, m := range missions {
		missions[i] = nil // the memory of hundreds would keep the collector busy, and hold up those that fly
		m = <-m.over
		if m.interrupted != nil {
			return r, fmt.Errorf("interrupted: %w", m.interrupted)
		}
		r.addOutcome(m)
		verdict := "ended safely"
		switch {
		case m.notJudged:
			r.NotJudged++
			verdict = "not judged, the machine was too slow: " + m.failure
		case m.failure != "":
			r.Failures = append(r.Failures, Failure{m.number, c.Seed, m.failure})
			verdict = "FAILED: " + m.failure
		case m.outcome.resumed:
			r.Resumed++
			verdict = "resumed"
		default:
			r.EndedSafely++
		}
		if m.failure == "" {
			os.RemoveAll(m.folder)
		}
		if m.plan.lands() && m.judge != nil {
			verdict = m.judge.packsLeft() + verdict
		}
		for _, finding := range m.known {
			verdict += "; known: " + finding
		}
		fmt.Fprintf(progress, "mission %3d  %4.1f s, held up for %2.0f %%  %-58s ledger %4.0f of %4.0f J  %s\n",
			m.number, m.took.Seconds(), 100*m.heldUp, m.plan, m.outcome.MaxLedgerErrorJ, m.outcome.allowedErrorJ, verdict)
	}
	r.WallS = time.Since(began).Seconds()
	r.HostDelayS = h.canary.total().Seconds()
	r.Uncovered = r.planned.missingIn(r.FaultsByState)
	if r.Missions >= fullRunMissions {
		r.Uncovered = r.FaultsByState.uncovered(&c)
	}
	fmt.Fprintf(progress, "\n%s%d missions in %.0f s, %d at a time\n", r.FaultsByState, r.Missions, r.WallS, c.Jobs)
	return r, nil
}

// Failed returns why a run failed, or nothing. Unsafe setpoints, lost and duplicate
// commands count even if their mission did not fail; a possible cell that was never met
// counts in a run that was long enough to meet it.
func (r *Result) Failed() string {
	var reasons []string
	for _, x := range []struct {
		n    int
		what string
	}{
		{len(r.Failures), "missions failed"},
	} {
		if x.n > 0 {
			reasons = append(reasons, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	if len(r.Uncovered) > 0 {
		reasons = append(reasons, fmt.Sprintf("%d cells of fault and state were never met: %s", len(r.Uncovered),
			strings.Join(r.Uncovered, " ")))
	}
	if r.NotJudged > 1 && r.NotJudged > r.Missions/50 {
		reasons = append(reasons, fmt.Sprintf("%d missions of %d could not be judged: the machine was too slow", r.NotJudged, r.Missions))
	}
	return strings.Join(reasons, "; ")
}

// hadTimeToRecover reports whether the crew had the time to return every aircraft to
// the leader after the last fault.
func (m *mission) hadTimeToRecover() bool {
	quiet := float64(quietSlots)
	if m.plan.hasFault(BrokerRestart) {
		quiet += brokerRetryS * m.plan.Speed
	}
	neverBegan := func(f fault) bool { return f.State == Flying || f.State == Holding }
	return m.slotsEndedAt-m.lastFaultEndInSlots >= quiet && !slices.ContainsFunc(m.pendingFaults, neverBegan)
}

const (
	overtime  = time.Minute // beyond the longest flight: for the start and the end of its programs
	closingIn = time.Second // a mission that is interrupted ends its programs
)

// watch runs the mission and returns it once it is over. In place of one that is not over
// within a limit, or soon after an interruption, it returns another that says so: what hangs
// may still change the mission.
func (m *mission) watch(ctx context.Context, limit time.Duration, run func(context.Context) error) *mission {
	other := &mission{Config: m.Config, number: m.number, plan: m.plan, folder: m.folder, took: limit}
	over := make(chan error, 1)
	go func() { over <- run(ctx) }()
	select {
	case m.interrupted = <-over:
		return m
	case <-time.After(limit):
		path := filepath.Join(m.folder, "goroutines.txt")
		other.hung, other.failure = true, fmt.Sprintf("hung: not over within %.0f s, see %s", limit.Seconds(), path)
		if err := writeGoroutines(path); err != nil {
			other.failure += ": " + err.Error()
		}
	case <-ctx.Done():
		select {
		case <-over:
		case <-time.After(closingIn):
		}
		other.interrupted = ctx.Err()
	}
	if leader := m.leader.Load(); leader != nil && leader.Process != nil {
		leader.Signal(syscall.SIGKILL)
	}
	return other
}

// writeGoroutines writes the stacks of all goroutines.
func writeGoroutines(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	const asOnePanics = 2
	return errors.Join(pprof.Lookup("goroutine").WriteTo(file, asOnePanics), file.Close())
}

// run flies the mission in a folder of its own and decides whether it failed.
func (m *mission) run(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := cmp.Or(os.RemoveAll(m.folder), os.MkdirAll(m.folder, 0o755)); err != nil {
		return err
	}
	start := time.Now()
	err := m.fly(ctx)
	if m.judge != nil && m.crew != nil && m.users != nil {
		m.heldUp = float64(unionDuration(m.host.canary.within(m.began, time.Now()))) / float64(time.Since(m.began))
		m.judgeEnd(err)
		m.sortFindings()
	} else {
		m.failure = err.Error()
	}
	m.close()
	m.took = time.Since(start)
	return ctx.Err()
}

// sortFindings decides from the rules that were broken whether the mission failed, could
// not be judged, or has known findings alone.
func (m *mission) sortFindings() {
	var unknown []violation
	var reasons []string
	for _, v := range m.judge.broken() {
		m.brokenRules = append(m.brokenRules, v.rule)
		if issue := m.plan.knownIssue(v.rule); issue != "" {
			m.known = append(m.known, fmt.Sprintf("%s (%s): %s", v.rule, issue, v.first))
			continue
		}
		unknown = append(unknown, v)
		reasons = append(reasons, v.rule+": "+v.first)
	}
	if len(unknown) == 0 {
		return
	}
	m.writeAccounts()
	m.failure = strings.Join(reasons, "; ")
	m.notJudged = onlyTestedNothing(unknown) && m.hostWasSlow()
}

// hostWasSlow reports whether the machine held programs up for a good part of this
// mission's time: a quiet one does for 5 to 10 %.
func (m *mission) hostWasSlow() bool {
	const share = 0.2
	return m.heldUp > share
}

func (r *Result) addOutcome(m *mission) {
	o := &m.outcome
	r.Missions++
	unknown := slices.DeleteFunc(slices.Clone(m.brokenRules), func(rule string) bool { return m.plan.knownIssue(rule) != "" })
	hung := ""
	if m.hung {
		hung = m.failure
	}
	r.Outcomes = append(r.Outcomes, Outcome{m.number, m.plan.String(), unknown, m.notJudged, hung})
	for _, rule := range m.brokenRules {
		if m.plan.knownIssue(rule) != "" {
			r.Known[rule]++
		} else if !m.notJudged {
			r.Broken[rule]++
		}
	}
	if f := m.plan.Faults[0]; !m.notJudged {
		r.planned.add(f.Kind, f.State)
	}
	for _, f := range m.plan.Faults {
		r.Faults[f.Kind]++
	}
	if m.plan.ClockJumps {
		r.Faults[ClockJump]++
	}
	for _, x := range m.met {
		r.FaultsByState.add(x.Kind, x.State)
	}
	r.UnsafeSetpoints += o.UnsafeSetpoints
	r.LostCommands += o.LostCommands
	r.DuplicateCommands += o.DuplicateCommands
	r.ExcusedByHost += o.ExcusedByHost
	r.MaxExcusedMS = max(r.MaxExcusedMS, o.MaxExcusedMS)
	r.LeaderHostDelayS += o.LeaderHostDelayS
	r.MissedSlots += o.MissedSlots
	r.MaxLedgerErrorJ = max(r.MaxLedgerErrorJ, o.MaxLedgerErrorJ)
	r.MaxLedgerErrorNoResetJ = max(r.MaxLedgerErrorNoResetJ, o.MaxLedgerErrorNoResetJ)
	if o.allowedErrorJ > 0 {
		r.MaxLedgerErrorShare = max(r.MaxLedgerErrorShare, o.MaxLedgerErrorJ/o.allowedErrorJ)
	}
	r.LeftForPacks = append(r.LeftForPacks, o.LeftForPacks...)
	r.SlowestAnswerS = max(r.SlowestAnswerS, o.SlowestAnswerS)
	if o.state != "" {
		r.MinSeparationM = min(r.MinSeparationM, o.MinSeparationM)
	}
}
