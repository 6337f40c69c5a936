package account

import (
	"fmt"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// slotResults is what a slot's delay is expected to be, until results correct it.
type slotResults struct {
	delayS          float64
	settled         bool
	tasks           map[string]taskEntry // by user
	decisions       int                  // users that a decision was made for
	edgeJ           float64              // of those, less what results say was not computed there
	offerUsers      int                  // users without a decision who took the offer
	maxOfferUsers   int                  // users without a report of this slot whose results may count
	offeredAircraft bool                 // there was an aircraft on offer
	reported        int
	offloaded       int
	priceSPerJ      float64
	decisionMS      float64
}

type taskEntry struct {
	task             physics.Task
	localCompletionS float64 // its completion, computed locally
	delayS           float64 // entered
	edgeJ            float64 // likewise, at the share that was told
	final            bool    // a result came
}

// maxCompletionS bounds a result that is believed, and what one task counts for
// in the account: what one user says must not move that for good.
const maxCompletionS = 60

// delayS is what a task counts for.
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
	DecisionMS      float64 // it took
	MaxOfferUsers   int     // users without a report that may take the slot's offer
	OfferedAircraft bool    // there was an aircraft on offer
}

// AddDecision enters what a decision should cost.
func (a *Account) AddDecision(d SlotDecision) {
	r := &slotResults{
		tasks: make(map[string]taskEntry, len(d.Users)), decisions: len(d.Users), maxOfferUsers: d.MaxOfferUsers, offeredAircraft: d.OfferedAircraft,
		reported: d.Reported, priceSPerJ: d.Decision.PriceSPerJ, decisionMS: d.DecisionMS,
	}
	a.allLocalDelayS = 0
	for i, name := range d.Users {
		u, c := &d.Snapshot.Users[i], &d.Decision.Users[i]
		e := taskEntry{
			task: u.Task, localCompletionS: u.Task.LocalTimeS(u.CPUHz), delayS: a.delayS(u.Task, c.CompletionS),
			edgeJ: a.Physics.EdgeJ(u.Task, physics.Share{CPUHz: c.CPUHz}, c.Offload),
		}
		r.tasks[name] = e
		r.delayS += e.delayS
		r.edgeJ += e.edgeJ
		a.allLocalDelayS += a.delayS(u.Task, e.localCompletionS)
		if c.Server > 0 {
			r.offloaded++
		}
	}
	a.results[d.Slot] = r
}

// ApplyResult enters a result over its expectation. It counts once, for a user that
// a decision was made for or, of those whose report did not come, for as many as
// may have taken the slot's offer. An error says what was wrong with one that
// should not have been sent.
func (a *Account) ApplyResult(user string, res *telemetry.Result) error {
	r := a.results[res.Slot]
	if r == nil {
		return nil // too late, or of no slot of ours
	}
	e, decided := r.tasks[user]
	switch most := max(maxCompletionS, 2*e.task.DeadlineS, 2*e.localCompletionS); {
	case res.CompletionS > most:
		return &telemetry.InvalidError{Kind: "result: too long", Text: fmt.Sprintf("completion_s is %v, believed up to %v", res.CompletionS, most)}
	case decided && e.final:
		return nil
	case !decided && res.By == telemetry.ByDecision:
		return &telemetry.InvalidError{Kind: "result: by no decision", Text: fmt.Sprintf("no decision was made for %s in slot %d", user, res.Slot)}
	case !decided && res.By == telemetry.ByOffer && !r.offeredAircraft:
		return &telemetry.InvalidError{Kind: "result: by no offer", Text: fmt.Sprintf("no aircraft was on offer in slot %d", res.Slot)}
	case !decided && len(r.tasks)-r.decisions >= r.maxOfferUsers:
		return &telemetry.InvalidError{Kind: "result: without a report", Text: fmt.Sprintf("%s did not report in slot %d, and %d others that did not were counted", user, res.Slot, r.maxOfferUsers)}
	}
	if res.By == telemetry.ByOffer {
		r.offerUsers++
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
	r.tasks[user] = e
	r.delayS += change
	if r.settled {
		a.correctDelay(change)
	}
	return nil
}

// ExpiredSlot is what is known of a slot once no result of it counts any more.
type ExpiredSlot struct {
	Tasks      int // users that had a task
	Unreported int // of them, without a report
}

// ExpireResults ends the time for results: those of slot n-2 count until the report
// window of slot n closes.
func (a *Account) ExpireResults(n int) (expired []ExpiredSlot) {
	for k, r := range a.results {
		if k <= n-2 {
			expired = append(expired, ExpiredSlot{len(r.tasks), len(r.tasks) - r.decisions})
			delete(a.results, k)
		}
	}
	return expired
}
