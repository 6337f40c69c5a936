package account

import (
	"fmt"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// slotResults is what a slot's delay is expected to be, until results correct it.
type slotResults struct {
	delayS     float64
	settled    bool
	entries    map[string]entry // by user
	decided    int              // users that a decision was made for
	edgeJ      float64          // of those, less what results say was not computed there
	takers     int              // users without a decision who took the offer
	mayTake    int              // users without a report of this slot whose results may count
	offered    bool             // there was an aircraft on offer
	heard      int
	offloaded  int
	priceSPerJ float64
	decisionMS float64
}

type entry struct {
	task   physics.Task
	localS float64 // its completion, computed locally
	delayS float64 // entered
	edgeJ  float64 // likewise, at the share that was told
	final  bool    // a result came
}

// maxCompletionS bounds a result that is believed, and what one task counts for
// in the account: what one user says must not move that for good.
const maxCompletionS = 60

// delayS is what a task counts for.
func (a *Account) delayS(t physics.Task, completionS float64) float64 {
	return min(a.Physics.DelayS(t, completionS), maxCompletionS)
}

// Decided is a slot's decision, as it was published.
type Decided struct {
	Slot       int
	Users      []string // by name, in the snapshot's order
	Snapshot   *slot.Snapshot
	Decision   *slot.Decision
	Heard      int     // reports in time, those of idle users included
	DecisionMS float64 // it took
	MayTake    int     // users without a report that may take the slot's offer
	Offered    bool    // there was an aircraft on offer
}

// Expect enters what a decision should cost.
func (a *Account) Expect(d Decided) {
	r := &slotResults{
		entries: make(map[string]entry, len(d.Users)), decided: len(d.Users), mayTake: d.MayTake, offered: d.Offered,
		heard: d.Heard, priceSPerJ: d.Decision.PriceSPerJ, decisionMS: d.DecisionMS,
	}
	a.localS = 0
	for i, name := range d.Users {
		u, c := &d.Snapshot.Users[i], &d.Decision.Users[i]
		e := entry{
			task: u.Task, localS: u.Task.LocalS(u.CPUHz), delayS: a.delayS(u.Task, c.CompletionS),
			edgeJ: a.Physics.EdgeJ(u.Task, physics.Share{CPUHz: c.CPUHz}, c.Offload),
		}
		r.entries[name] = e
		r.delayS += e.delayS
		r.edgeJ += e.edgeJ
		a.localS += a.delayS(u.Task, e.localS)
		if c.Server > 0 {
			r.offloaded++
		}
	}
	a.results[d.Slot] = r
}

// Correct enters a result over its expectation. It counts once, for a user that
// a decision was made for or, of those whose report did not come, for as many as
// may have taken the slot's offer. An error says what was wrong with one that
// should not have been sent.
func (a *Account) Correct(user string, res *telemetry.Result) error {
	r := a.results[res.Slot]
	if r == nil {
		return nil // too late, or of no slot of ours
	}
	e, decided := r.entries[user]
	switch most := max(maxCompletionS, 2*e.task.DeadlineS, 2*e.localS); {
	case res.CompletionS > most:
		return &telemetry.Invalid{Kind: "result: too long", Text: fmt.Sprintf("completion_s is %v, believed up to %v", res.CompletionS, most)}
	case decided && e.final:
		return nil
	case !decided && res.By == telemetry.ByDecision:
		return &telemetry.Invalid{Kind: "result: by no decision", Text: fmt.Sprintf("no decision was made for %s in slot %d", user, res.Slot)}
	case !decided && res.By == telemetry.ByOffer && !r.offered:
		return &telemetry.Invalid{Kind: "result: by no offer", Text: fmt.Sprintf("no aircraft was on offer in slot %d", res.Slot)}
	case !decided && len(r.entries)-r.decided >= r.mayTake:
		return &telemetry.Invalid{Kind: "result: without a report", Text: fmt.Sprintf("%s did not report in slot %d, and %d others that did not were counted", user, res.Slot, r.mayTake)}
	}
	if res.By == telemetry.ByOffer {
		r.takers++
	}
	if res.By != telemetry.ByDecision { // it never came, or too late
		r.edgeJ, e.edgeJ = r.edgeJ-e.edgeJ, 0
	}
	actual := min(res.CompletionS, maxCompletionS)
	if decided {
		actual = a.delayS(e.task, res.CompletionS)
	}
	change := actual - e.delayS
	e.delayS, e.final = actual, true
	r.entries[user] = e
	r.delayS += change
	if r.settled {
		a.correct(change)
	}
	return nil
}

// Expired is what is known of a slot once no result of it counts any more.
type Expired struct {
	Tasks      int // users that had a task
	Unreported int // of them, without a report
}

// Expire ends the time for results: those of slot n-2 count until the report
// window of slot n closes.
func (a *Account) Expire(n int) (expired []Expired) {
	for k, r := range a.results {
		if k <= n-2 {
			expired = append(expired, Expired{len(r.entries), len(r.entries) - r.decided})
			delete(a.results, k)
		}
	}
	return expired
}
