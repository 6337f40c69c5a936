// Package chaos flies seeded missions of the leader while things go wrong:
// lost reports and links, a broker or an autopilot that restarts, batteries
// that say nothing or begin anew, a leader that is killed, storms of commands.
//
// The leader is its own process, the broker, the links and the autopilots'
// sockets are real. What it did is judged here alone, from what the autopilots
// received, what the crew was answered, and what the batteries really gave. In
// a slot it stands outside, as the world does.
package chaos

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Config is a run.
type Config struct {
	Missions   int
	Seed       uint64
	Only       int // this mission alone; -1: all
	Slots      int
	Speed      float64
	Aircraft   int
	Leader     string // program
	JumpLeader string // the same, whose wall clock jumps; empty: no such missions
	Checkpoint string
	Out        string // folder for logs
}

// Check says what is wrong with a configuration.
func (c *Config) Check() error {
	for _, r := range []struct {
		name      string
		x, lo, hi float64
	}{
		{"-missions", float64(c.Missions), 1, 100_000},
		{"-only", float64(c.Only), -1, float64(c.Missions - 1)},
		{"-slots", float64(c.Slots), quiet + 8, 10_000},
		{"-speed", c.Speed, 1, 40},
		{"-aircraft", float64(c.Aircraft), 1, 8},
	} {
		if !(r.x >= r.lo && r.x <= r.hi) {
			return fmt.Errorf("%s is %v, want %v to %v", r.name, r.x, r.lo, r.hi)
		}
	}
	if _, err := os.Stat(c.Leader); err != nil {
		return fmt.Errorf("the leader: %w", err)
	}
	return nil
}

// Result is what the missions came to.
type Result struct {
	Missions     int          `json:"missions"`
	Faults       map[Kind]int `json:"faults"`
	Unsafe       int          `json:"unsafe_setpoints"`
	Lost         int          `json:"lost_commands"`
	Doubled      int          `json:"doubled_commands"`
	LedgerErrorJ float64      `json:"ledger_max_error_j"`
	// LedgerCountedJ is the greatest of missions in which no counter began anew,
	// so that no gap was the model's alone to bridge.
	LedgerCountedJ float64 `json:"ledger_max_error_counted_j"`
	// LedgerShare is the greatest error as a share of what the message in use
	// can tell, with the gaps that only the model bridges.
	LedgerShare float64   `json:"ledger_max_error_share"`
	Resumed     int       `json:"resumed"`      // every aircraft flew for the leader in the last slot
	EndedSafely int       `json:"ended_safely"` // not every one did, and all came down
	Failures    []Failure `json:"failures"`
	MissedSlots int       `json:"missed_slots"`
	SlowestS    float64   `json:"slowest_answer_s"` // wall time
	LeastM      float64   `json:"min_separation_m"`
	WallS       float64   `json:"wall_s"`
}

// Failure is a mission to fly again with -only.
type Failure struct {
	Mission int    `json:"mission"`
	Seed    uint64 `json:"seed"`
	Reason  string `json:"reason"`
}

// Run flies the missions and tells of each.
func Run(ctx context.Context, c Config, progress io.Writer) (Result, error) {
	r := Result{Faults: map[Kind]int{}, Failures: []Failure{}, LeastM: 1e9}
	if err := c.Check(); err != nil {
		return r, err
	}
	began := time.Now()
	for k := range c.Missions {
		if c.Only >= 0 && k != c.Only {
			continue
		}
		m := &mission{Config: c, plan: draw(c.Seed, k, c.Slots, c.Aircraft, c.JumpLeader != "")}
		m.random = rand.New(rand.NewPCG(c.Seed, uint64(k)<<32))
		m.folder = filepath.Join(c.Out, fmt.Sprintf("mission-%d", k))
		if err := os.RemoveAll(m.folder); err != nil {
			return r, err
		}
		if err := os.MkdirAll(m.folder, 0o755); err != nil {
			return r, err
		}
		start := time.Now()
		o, err := m.fly(ctx)
		m.close()
		if ctx.Err() != nil {
			return r, fmt.Errorf("interrupted in mission %d", k)
		}
		reason := m.why(&o, err)
		r.add(&o, m.plan)
		if reason != "" {
			r.Failures = append(r.Failures, Failure{k, c.Seed, reason})
		}
		verdict := "ended safely"
		if o.resumed {
			verdict = "resumed"
		}
		if reason != "" {
			verdict = "FAILED: " + reason
		} else {
			os.RemoveAll(m.folder)
			if o.resumed {
				r.Resumed++
			} else {
				r.EndedSafely++
			}
		}
		fmt.Fprintf(progress, "mission %3d  %4.1f s  %-58s ledger %4.0f of %4.0f J  %s\n", k, time.Since(start).Seconds(), m.plan, o.errorJ, o.allowedJ, verdict)
	}
	r.WallS = time.Since(began).Seconds()
	return r, nil
}

func (p plan) String() string {
	var words []string
	for _, f := range p.Faults {
		words = append(words, fmt.Sprintf("%s@%d", f.Kind, f.Slot))
	}
	if p.Jump {
		words = append(words, string(ClockJump))
	}
	return strings.Join(words, " ")
}

// why is a mission's reason to have failed, or empty.
func (m *mission) why(o *outcome, err error) string {
	var reasons []string
	if err != nil {
		if m.judge != nil && m.crew != nil && o.state == "" { // what was judged until then
			m.balance(o)
			o.errorJ, o.allowedJ = 0, 0
		}
		reasons = append(reasons, err.Error())
	}
	reasons = append(reasons, m.notes...)
	if err == nil && !o.resumed && m.plan.mustResume(m.Slots, m.Speed) {
		reasons = append(reasons, "not every aircraft flies for the leader at the end, which by its table all do")
	}
	if err == nil && o.errorJ > o.allowedJ {
		reasons = append(reasons, fmt.Sprintf("the leader counts %.0f J of %.0f, and may be off by %.0f", o.leaderJ, o.truthJ, o.allowedJ))
	}
	return strings.Join(slices.Compact(reasons), "; ")
}

func (r *Result) add(o *outcome, p plan) {
	r.Missions++
	for _, f := range p.Faults {
		r.Faults[f.Kind]++
	}
	if p.Jump {
		r.Faults[ClockJump]++
	}
	r.Unsafe += o.unsafe
	r.Lost += o.lost
	r.Doubled += o.doubled
	r.MissedSlots += o.missed
	r.LedgerErrorJ = max(r.LedgerErrorJ, o.errorJ)
	if o.counted {
		r.LedgerCountedJ = max(r.LedgerCountedJ, o.errorJ)
	}
	if o.allowedJ > 0 {
		r.LedgerShare = max(r.LedgerShare, o.errorJ/o.allowedJ)
	}
	r.SlowestS = max(r.SlowestS, o.slowest.Seconds())
	if o.state != "" {
		r.LeastM = min(r.LeastM, o.separationM)
	}
}
