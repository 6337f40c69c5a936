// Package judge decides from the record of a flight whether it was safe and did its work.
//
// Input: a record (simbridge/record) of simulated or of real autopilots. Output: for each rule of the table
// [Rules] how long it was active, how much of its bound was used at most, how often which assumption widened
// it, and how it was broken.
// Callers: simbridge/chaos, the commands judge and mutants, and tests.
//
// A rule is a function of the record and keeps nothing. What the leader says of itself is only what is judged.
package judge

import (
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"slices"
	"strings"
	"sync"

	"prefdt/inference/checkpoint"
)

// Rule is something that must hold in every flight.
type Rule struct {
	Name   string
	Reads  string // of the record
	Bound  string
	Source string // of the bound
	judge  func(*check)
}

// Finding is how a rule fared in a flight.
type Finding struct {
	Rule string `json:"rule"`
	// Active is for how many aircraft-seconds, or in how many events, it could have been broken.
	Active float64 `json:"active"`
	// Used is the greatest share of the bound, 1 and less if it was kept; of a rule without a number 0.
	Used    float64            `json:"used,omitempty"`
	Assumed map[string]float64 `json:"assumed,omitempty"` // aircraft-seconds, or events, in which an assumption widened or suspended it
	Broken  int                `json:"broken,omitempty"`  // times
	First   string             `json:"first,omitempty"`   // how, the first time
}

// Report is what is found of a flight.
type Report struct {
	Findings []Finding `json:"findings"` // of each rule, in the order of the table
	Figures  Figures   `json:"figures"`
}

// Judge judges the record in a file. With the checkpoint that the leader had, its policy is flown beside; nil: it is not.
func Judge(path string, frozen *checkpoint.Checkpoint) (*Report, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return Read(file, frozen)
}

// Read judges a record, as Judge does.
func Read(r io.Reader, frozen *checkpoint.Checkpoint) (*Report, error) {
	f, err := load(r)
	if err != nil {
		return nil, err
	}
	f.frozen, f.beside = frozen, sync.OnceValues(f.flyBeside)
	x := &Report{Figures: f.figures()}
	for _, rule := range rules {
		c := &check{flight: f, finding: Finding{Rule: rule.Name, Assumed: map[string]float64{}}}
		if !f.OtherBroker || slices.Contains(unasked, rule.Name) {
			rule.judge(c)
		}
		x.Findings = append(x.Findings, c.finding)
		x.Figures.LeftForPacks = append(x.Figures.LeftForPacks, c.leftShares...)
	}
	return x, nil
}

// rules is the table, in the order in which people read it.
var rules = slices.Concat(motionRules, packRules, foreseenRules, linkRules, controlRules, wireRules, inTimeRules, ledgerRules, toldRules,
	againRules, policyRules, nextRules,
	taskRules)

// untimed are the rules that do not depend on when something happens: they hold at any speed of the machine. With programs
// in real time a slow one may hide, or seem to show, that another is broken.
var untimed = []string{
	"touchdown", "home", "taken place", "whitelist", "disarm", "address", "incomplete", "commanded height", "slot number", "shares",
	"reported", "pays", "refusal", "duplicate", "record", "sums", "exit",
}

// unasked are the rules for which nobody has to know what the crew ordered.
var unasked = []string{
	"separation", "least separation", "fence", "height", "speed", "touchdown", "failsafe", "whitelist", "disarm", "address", "gap",
	"one stream", "station", "incomplete", "commanded speed", "commanded height", "exit", "course",
}

// IsTimed reports whether a rule depends on when something happens.
func IsTimed(rule string) bool { return !slices.Contains(untimed, rule) }

// IsUnsafe reports whether a rule is one of where aircraft fly, or of what they are commanded.
func IsUnsafe(rule string) bool {
	return slices.ContainsFunc(slices.Concat(motionRules, linkRules), func(r Rule) bool { return r.Name == rule })
}

// RuleTable is the table of rules in Markdown.
func RuleTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| rule | reads | bound | source |\n|---|---|---|---|\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.Name, r.Reads, r.Bound, r.Source)
	}
	return b.String()
}

// check is one rule in one flight.
type check struct {
	*flight
	finding    Finding
	leftShares []float64 // left of packs
}

// breakAt notes that the rule was broken.
func (c *check) breakAt(timeS float64, format string, args ...any) {
	if c.finding.Broken++; c.finding.First == "" {
		c.finding.First = fmt.Sprintf("%.1f s: ", timeS) + fmt.Sprintf(format, args...)
	}
}

// holds checks an event for which the rule holds or does not.
func (c *check) holds(timeS float64, ok bool, format string, args ...any) {
	if c.finding.Active++; !ok {
		c.breakAt(timeS, format, args...)
	}
}

// atMost checks a number of one event.
func (c *check) atMost(timeS, value, bound float64, format string, args ...any) {
	c.finding.Active++
	c.use(value, bound)
	if !(value <= bound) {
		c.breakAt(timeS, format, args...)
	}
}

// lasting checks a number of one reading, of which that are wrong in a row fewer than n are not believed.
func (c *check) lasting(wrong *int, n int, timeS, value, bound float64, format string, args ...any) {
	if *wrong++; value <= bound {
		*wrong = 0
	} else if value > bound && *wrong < n {
		c.finding.Active++
		return
	}
	c.atMost(timeS, value, bound, format, args...)
}

// pointers are those to the elements of a slice.
func pointers[T any](all []T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for k := range all {
			if !yield(&all[k]) {
				return
			}
		}
	}
}

// within checks that something happens in time after a moment; happensS is +Inf if it never does. A flight that
// ended before is not judged.
func (c *check) within(fromS, happensS, boundS float64, format string, args ...any) {
	if math.IsInf(happensS, 1) {
		if happensS = c.endS; happensS-fromS <= boundS {
			return
		}
		happensS = max(happensS, fromS+2*boundS)
	}
	c.atMost(fromS, happensS-fromS, boundS, format, args...)
}

// use notes how much of a bound was used.
func (c *check) use(value, bound float64) {
	if share := value / bound; bound > 0 && !math.IsNaN(share) && !math.IsInf(share, 0) {
		c.finding.Used = max(c.finding.Used, share)
	}
}

// always checks a number of an aircraft's state, at each that is in some times. It may come from a moment before a
// bound is reached, so that only what lasts for longer than lastsS breaks the rule. The text's operands are the aircraft's number, the
// number that is checked, its bound, and the aircraft's mode and height.
func (c *check) always(a *aircraft, in spans, lastsS float64, of func(*state) (value, bound float64), text string) {
	since, told := math.Inf(1), false
	for k := range a.states {
		s, value, bound := &a.states[k], math.NaN(), 0.0
		inTime := in.contains(s.timeS)
		if inTime {
			value, bound = of(s)
		}
		if inTime = inTime && !math.IsNaN(value); inTime && k+1 < len(a.states) {
			c.finding.Active += a.states[k+1].timeS - s.timeS
		}
		if !inTime || value <= bound {
			c.use(value, bound)
			since, told = math.Inf(1), false
			continue
		}
		if since = min(since, s.timeS); s.timeS-since >= lastsS {
			c.use(value, bound)
			if !told {
				c.breakAt(s.timeS, text, a.number, value, bound, s.Mode, s.PositionM[2])
				told = true
			}
		}
	}
}

// assume leaves out of some times those in which an assumption holds, and counts them.
func (c *check) assume(name string, number int, in spans) spans {
	when := c.assumed(name, number)
	if s := in.and(when).lengthS(); s > 0 && !math.IsInf(s, 1) {
		c.finding.Assumed[name] += s
	}
	return in.without(when)
}

// prolonged is a bound, and for how long assumptions hold in some times, which it counts.
func (c *check) prolonged(boundS float64, a *aircraft, in spans, names ...string) float64 {
	for _, name := range names {
		if lostS := c.assumed(name, a.number).and(in).lengthS(); lostS > 0 {
			c.finding.Assumed[name] += lostS
			boundS += lostS
		}
	}
	return boundS
}

// excuses reports whether an assumption holds at a moment, and counts it if so.
func (c *check) excuses(name string, number int, timeS float64) bool {
	if !c.assumed(name, number).contains(timeS) {
		return false
	}
	c.finding.Assumed[name]++
	return true
}

// assumption is something that was simulated, on account of which a rule cannot hold.
type assumption struct {
	name           string
	why            string
	faults         []string
	soonerS        float64 // it counts from so long before it began
	laterS         float64 // and for so long after its end
	everyAircrafts bool    // one that befalls one aircraft counts for all
}

// assumed is when an assumption holds for an aircraft.
func (f *flight) assumed(name string, number int) spans {
	k := slices.IndexFunc(assumptions, func(a assumption) bool { return a.name == name })
	if assumptions[k].everyAircrafts {
		number = 0
	}
	return f.widened(&assumptions[k], number)
}

// widened is when the faults of an assumption concern an aircraft, with what is added before and after them.
func (f *flight) widened(a *assumption, number int) spans {
	var all []span // each widened by itself: one may be no longer than a moment
	for _, x := range f.faults {
		if slices.Contains(a.faults, x.kind) && (number == 0 || x.aircraft == 0 || x.aircraft == number) {
			all = append(all, span{x.fromS - a.soonerS, x.toS + a.laterS})
		}
	}
	return newSpans(all...)
}
