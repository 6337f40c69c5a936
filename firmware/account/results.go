package account

import (
	"fmt"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// slotResults is a decided slot's delay and edge energy: as expected, corrected by
// each result until it expires.
type slotResults struct {
	Row                          // EdgeJ of decisions, less what results report as not computed there
	settled bool                 // the row was returned
	tasks   map[string]taskEntry // by user
	*slotEdge
	decisions       int  // users for which a decision was made
	observed        bool // its users are known to the next offers already
	maxOfferUsers   int  // users without a report of this slot whose results may count
	offeredAircraft bool // at least one aircraft was on offer
	uncounted       bool // a user accepted it whose result does not count: an unknown one, or more than may have
}

type taskEntry struct {
	task             physics.Task
	localCompletionS float64     // completion time if all of it is computed locally
	delayS           float64     // as accounted
	edgeJ            float64     // likewise, at the CPU share of the decision
	final            bool        // a result was received
	cpuHz            float64     // the user's own, as reported
	decided          slot.Result // if it is computed as decided; without its times
}

// maxCompletionS bounds the completion time that is accepted, and the delay that one
// task counts for: one user's report must not distort the account for good.
const maxCompletionS = 60

// delayS is the delay that a task counts for: completion and penalty, bounded.
func (a *Account) delayS(t physics.Task, completionS float64) float64 {
	return min(a.Physics.PenalizedDelayS(t, completionS), maxCompletionS)
}

// SlotDecision is a slot's decision, as it was published.
type SlotDecision struct {
	Slot            int
	Users           []string // by name, in the snapshot's order
	Snapshot        *slot.Snapshot
	Decision        *slot.Decision
	Reported        int     // reports in time, those of idle users included
	DecisionMS      float64 // time that the decision took
	MaxOfferUsers   int     // users without a report that may have accepted the slot's offer
	OfferedAircraft bool    // at least one aircraft was on offer
	Seen            *Seen   // nil: no estimator remembers the slot
}

// AddDecision enters the expected cost of a decision.
func (a *Account) AddDecision(d SlotDecision) {
	edge := &slotEdge{aircraftEdgeJ: make([]float64, len(a.aircraft)), offerShare: make([]float64, len(a.aircraft))}
	r := &slotResults{
		Row:   Row{Slot: d.Slot, Reported: d.Reported, PriceSPerJ: d.Decision.PriceSPerJ, DecisionMS: d.DecisionMS, Seen: d.Seen},
		tasks: make(map[string]taskEntry, len(d.Users)), slotEdge: edge, decisions: len(d.Users), maxOfferUsers: d.MaxOfferUsers,
		offeredAircraft: d.OfferedAircraft,
	}
	for i := range d.Snapshot.Aircraft {
		r.offerShare[d.Snapshot.Aircraft[i].Number-1] = 1 / float64(len(d.Snapshot.Aircraft))
	}
	localS := 0.0
	for i, name := range d.Users {
		u, c := &d.Snapshot.Users[i], &d.Decision.Users[i]
		e := taskEntry{
			task: u.Task, localCompletionS: u.Task.LocalTimeS(u.CPUHz), delayS: a.delayS(u.Task, c.CompletionS),
			edgeJ: a.Physics.EdgeJ(u.Task, physics.Share{CPUHz: c.CPUHz}, c.Offload),
			cpuHz: u.CPUHz, decided: a.decidedResult(&d, i),
		}
		r.tasks[name] = e
		r.DelayS += e.delayS
		r.addEdgeJ(&e, 1)
		localS += a.delayS(u.Task, e.localCompletionS)
		if c.Server > 0 && c.Offload > 0 {
			r.Offloaded++
		}
	}
	if d.Reported > 0 { // otherwise no link is seen, and nothing of the tasks
		a.allLocal.add(localS)
	}
	a.results[d.Slot] = r
}

// addEdgeJ adds a task's edge energy, or with a sign of -1 removes it.
func (r *slotResults) addEdgeJ(e *taskEntry, sign float64) {
	r.EdgeJ += sign * e.edgeJ
	if number := e.decided.Aircraft; number > 0 {
		r.aircraftEdgeJ[number-1] += sign * e.edgeJ
	}
}

// ApplyResult replaces a task's expected delay by its result. A result counts once,
// for a user with a decision or, of users whose report was not received, for those that
// may have a task (known), as many as may have accepted the slot's offer. The error is for a result that should not
// have been sent. What shows a user's CPU or radio is kept for the next snapshot.
func (a *Account) ApplyResult(user string, res *telemetry.Result, known bool) error {
	r := a.results[res.Slot]
	if r == nil { // too late, or of a slot that was not opened
		if known && res.By == telemetry.ByOffer && len(a.lateOfferUsers) < a.mostOfferUsers {
			a.lateOfferUsers[user] = true
		}
		return nil
	}
	e, decided := r.tasks[user]
	switch most := max(maxCompletionS, 2*e.task.DeadlineS, 2*e.localCompletionS); {
	case res.CompletionS > most:
		return &telemetry.InvalidError{Kind: "result: too long", Text: fmt.Sprintf("completion_s is %v, want at most %v", res.CompletionS,
			most)}
	case decided && e.final:
		return nil
	case !decided && res.By == telemetry.ByDecision:
		return &telemetry.InvalidError{Kind: "result: by no decision", Text: fmt.Sprintf("no decision was made for %s in slot %d", user,
			res.Slot)}
	case !decided && res.By == telemetry.ByOffer && !r.offeredAircraft:
		return &telemetry.InvalidError{Kind: "result: by no offer", Text: fmt.Sprintf("no aircraft was on offer in slot %d", res.Slot)}
	case !decided && !known:
		r.uncounted = r.uncounted || res.By == telemetry.ByOffer
		return &telemetry.InvalidError{Kind: "result: of an unknown user", Text: fmt.Sprintf("%s has reported no task of late", user)}
	case !decided && len(r.tasks)-r.decisions >= r.maxOfferUsers:
		r.uncounted = r.uncounted || res.By == telemetry.ByOffer
		return &telemetry.InvalidError{Kind: "result: without a report",
			Text: fmt.Sprintf("%s did not report in slot %d, and %d others that did not were counted", user, res.Slot, r.maxOfferUsers)}
	}
	if decided {
		if err := a.observe(&e, res); err != nil {
			return err
		}
	}
	if res.By == telemetry.ByOffer {
		r.offerUsers++
	}
	if res.By != telemetry.ByDecision { // the decision did not reach the user in time
		r.addEdgeJ(&e, -1)
		e.edgeJ = 0
	}
	actual := min(res.CompletionS, maxCompletionS)
	if decided {
		actual = a.delayS(e.task, res.CompletionS)
	}
	change := actual - e.delayS
	e.delayS, e.final = actual, true
	r.tasks[user] = e
	r.DelayS += change
	if r.settled {
		a.correctDelay(change)
	}
	return nil
}

// Observed leaves a slot out of ExpireResults: its users are known to the next offers already.
func (a *Account) Observed(n int) {
	if r := a.results[n]; r != nil {
		r.observed = true
	}
}

// ExpiredSlot is the number of users of a slot, once no result of it counts any more.
type ExpiredSlot struct {
	Tasks      int // users that had a task
	Unreported int // of them, without a decision
}

// ExpireResults is called when the report window of slot n closes: results of slots up
// to n-2 no longer count. Tasks that are not over by then have none: as many are counted as
// had results of earlier slots meanwhile. An offer that too many take would else seem to be
// taken by few.
func (a *Account) ExpireResults(n int) (expired []ExpiredSlot) {
	for k, r := range a.results {
		if k <= n-2 {
			if others := len(r.tasks) - r.decisions; !r.observed {
				others = max(others, min(others+len(a.lateOfferUsers), r.maxOfferUsers))
				expired = append(expired, ExpiredSlot{r.decisions + others, others})
			}
			a.mostOfferUsers = r.maxOfferUsers
			clear(a.lateOfferUsers)
			delete(a.results, k)
		}
	}
	return expired
}
