package chaos

import (
	"fmt"
	"math"

	"prefdt/firmware/ledger"
	"prefdt/inference/physics"
)

// Rules of a mission that is over.

// ended is what is known once a mission is over.
type ended struct {
	lost, duplicates, undurable, holding []string // findings of the crew
	courseError                          error    // why the mission did not take its course; the accounts are unknown then

	leaderJ, truthJ float64 // of all aircraft, by the last status and by the batteries
	allowedJ        float64 // between them
	bySlot          []float64
	leavesEarly     bool    // aircraft leave the slots, and their joules with them
	modelledJ       float64 // how far off the rows may be meanwhile, as nothing was measured
	lastSlot        int     // the last one that counts as a slot; -1: unknown, since the broker was gone
	mayLose         int     // slots, as the leader was killed
	wroteLedger     bool    // the leader was stopped by its own
	flight          ledger.Flight
	ledgerError     error

	ceilingJ     float64            // of a ceiling that could be kept; 0: none
	inSlotsJ     float64            // true joules of the slots
	strangers    bool               // they have tasks, too, of which the simulators know nothing
	delayS       float64            // true, of the users' tasks, penalties included
	contact      string             // how it did not do what a loss of contact requires
	exit         string             // how the leader ended by itself; empty: it did not
	windMPS      []physics.Position // true, by slot; nil: nothing is believed of it
	leftOutSlots float64            // for so many slots before its end the mission was over without a reason
	mustResume   bool               // every aircraft, to be under the leader's command in the last slot
	resumed      bool               // every aircraft was
	slotsDue     int                // that the mission was to open, but for what faults explain
	explained    int                // slots that faults explain
	reachesSlots bool               // no fault explains that there was no slot at all
}

func (j *judge) checkAcknowledged(e *event) string { return firstOf(e.ended.lost) }

func (j *judge) checkDuplicate(e *event) string { return firstOf(e.ended.duplicates) }

func (j *judge) checkDurable(e *event) string { return firstOf(e.ended.undurable) }

func (j *judge) checkHolding(e *event) string { return firstOf(e.ended.holding) }

func firstOf(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return texts[0]
}

func (j *judge) checkCeiling(e *event) string {
	const above = 0.005
	if o := e.ended; o.ceilingJ > 0 && o.inSlotsJ > o.ceilingJ*(1+above)+o.allowedJ {
		return fmt.Sprintf("the slots took %.0f J, under a ceiling of %.0f that could be kept", o.inSlotsJ, o.ceilingJ)
	}
	return ""
}

func (j *judge) checkRecord(e *event) string {
	o := e.ended
	if !o.wroteLedger {
		return ""
	}
	if o.ledgerError != nil {
		return fmt.Sprintf("the ledger cannot be read: %v", o.ledgerError)
	}
	last, opened := -1, -1 // slots
	for _, r := range o.flight.Rows {
		if r.Slot != last+1 {
			return fmt.Sprintf("the ledger has slot %d after slot %d", r.Slot, last)
		}
		if last = r.Slot; !r.Missed {
			opened = last
		}
	}
	if o.lastSlot >= 0 && (opened > o.lastSlot || last < o.lastSlot-o.mayLose) {
		return fmt.Sprintf("the ledger ends with slot %d, the mission did with %d", last, o.lastSlot)
	}
	return ""
}

func (j *judge) checkEnergy(e *event) string {
	if o := e.ended; o.wroteLedger && math.Abs(o.leaderJ-o.truthJ) > o.allowedJ {
		return fmt.Sprintf("the leader counts %.0f J of %.0f, and the allowed error is %.0f", o.leaderJ, o.truthJ, o.allowedJ)
	}
	return ""
}

// unreadJ is what the batteries of all aircraft may draw between their last message and a
// settlement, a step of each counter, and what they draw in the time by which the first
// beacon was late, from which the simulators count slots.
func (j *judge) unreadJ() float64 {
	return float64(len(j.aircraft)) * (counterStepJ + modelErrorW*(1-j.firstLateS))
}

func (j *judge) checkEnergyBySlot(e *event) string {
	o := e.ended
	if o.lastSlot < 0 || o.leavesEarly {
		return ""
	}
	allowed, booked, truth := o.allowedJ+o.modelledJ+j.unreadJ(), 0.0, 0.0
	for _, r := range o.flight.Rows {
		if r.Slot >= len(o.bySlot) {
			break
		}
		booked, truth = booked+r.EnergyJ, truth+o.bySlot[r.Slot]
		if r.Missed { // its joules are shared out with those of the slots around it
			continue
		}
		if math.Abs(booked-truth) > allowed {
			return fmt.Sprintf("the ledger has %.0f J up to slot %d, the batteries gave %.0f, and the allowed error is %.0f", booked,
				r.Slot, truth, allowed)
		}
	}
	return ""
}

func (j *judge) checkTransit(e *event) string {
	o := e.ended
	if o.lastSlot < 0 || o.leavesEarly || o.ledgerError != nil || !o.wroteLedger {
		return ""
	}
	booked, truth := 0.0, o.truthJ
	for _, a := range o.flight.State.Account.Aircraft {
		booked += a.TransitJ
	}
	for _, joules := range o.bySlot[:min(o.lastSlot+1, len(o.bySlot))] {
		truth -= joules
	}
	// Which joules of an outage at the end came after the last slot is not known: no beacon tells.
	outageJ := 0.0
	for k := len(o.flight.Rows) - 1; k >= 0 && o.flight.Rows[k].Missed; k-- {
		outageJ += o.flight.Rows[k].EnergyJ
	}
	if allowed := o.allowedJ + o.modelledJ + outageJ + j.unreadJ(); math.Abs(booked-truth) > allowed {
		return fmt.Sprintf("the ledger has %.0f J outside the slots, the batteries gave %.0f, and the allowed error is %.0f", booked, truth,
			allowed)
	}
	return ""
}

// checkDelay bounds what is booked from above: of tasks whose reports were lost the leader
// can know nothing.
func (j *judge) checkDelay(e *event) string {
	const most, slackS = 1.5, 20
	o := e.ended
	booked := o.flight.State.Account.Objective.DelayS // the rows, and what results came to later
	if o.strangers {
		return ""
	}
	if booked > most*o.delayS+slackS {
		return fmt.Sprintf("the ledger has %.0f s of delay, the users' tasks took %.0f", booked, o.delayS)
	}
	return ""
}

// checkWind compares what is believed of the wind with the truth, once there was time to
// observe it. A fleet that stands still sees little of it, and says so by its deviation.
func (j *judge) checkWind(e *event) string {
	const settledSlot, leastRows, offMPS, offDeviations = 15, 10, 8, 3
	off, sdMPS, rows := physics.Position{}, 0.0, 0.0
	for _, r := range e.ended.flight.Rows {
		if r.Slot >= settledSlot && r.Slot < len(e.ended.windMPS) && r.Seen != nil && r.Seen.Believed.WindMPS != nil {
			w := r.Seen.Believed.WindMPS
			sdMPS += r.Seen.Believed.WindSDMPS
			off, rows = off.Add(physics.Position{EastM: w[0], NorthM: w[1]}).Sub(e.ended.windMPS[r.Slot]), rows+1
		}
	}
	rows = max(rows, 1)
	if d, sd := off.Norm()/rows, sdMPS/rows; rows >= leastRows && d > max(offMPS, offDeviations*sd) {
		return fmt.Sprintf("the wind that is believed in is off by %.1f m/s in the mean of %.0f slots, its deviation is %.1f", d, rows, sd)
	}
	return ""
}

func (j *judge) checkContact(e *event) string { return e.ended.contact }

func (j *judge) checkExit(e *event) string { return e.ended.exit }

func (j *judge) checkRescue(*event) string {
	for i, a := range j.aircraft {
		if a.rescued != "" {
			return fmt.Sprintf("aircraft %d was landed by %s", i+1, a.rescued)
		}
	}
	return ""
}

func (j *judge) checkFlew(*event) string {
	const meanMPS, leastS = 2, 10
	for i, a := range j.aircraft {
		least := meanMPS * a.flownS
		if j.limits.windMPS > 0 { // it flies through the air, and may stay over a place
			least *= 0.1
		}
		if a.flownS > leastS && a.flownM < least && j.limits.reserve == 0 { // one may wait to land
			return fmt.Sprintf("aircraft %d flew %.0f m in %.0f s", i+1, a.flownM, a.flownS)
		}
	}
	return ""
}

func (j *judge) checkSlots(e *event) string {
	o := e.ended
	if j.slotsOpened == 0 && o.reachesSlots {
		return "no slot was opened"
	}
	if o.leftOutSlots+j.firstLateS > 0.7 {
		return fmt.Sprintf("the mission was over after slot %d, %.1f slots before its end", j.lastSlot, o.leftOutSlots)
	}
	if missed := o.slotsDue - j.slotsOpened; missed > o.explained+2+o.slotsDue/20 {
		return fmt.Sprintf("%d of %d slots were opened, and faults explain %d missed ones", j.slotsOpened, o.slotsDue, o.explained)
	}
	return ""
}

func (j *judge) checkCourse(e *event) string {
	if err := e.ended.courseError; err != nil {
		return err.Error()
	}
	return ""
}

// enough is of how many tasks a share must be decided.
const enough = 20

func (j *judge) checkAnswered(*event) string {
	const least = 0.3
	if u := j.users; u.tasks >= enough && float64(u.answered) < least*float64(u.tasks) {
		return fmt.Sprintf("%d of %d tasks reported were decided at all", u.answered, u.tasks)
	}
	return ""
}

func (j *judge) checkDecided(*event) string {
	const least = 0.7
	if u := j.users; u.tasks >= enough && float64(u.inTime) < least*float64(u.tasks) {
		return fmt.Sprintf("%d of %d tasks reported were decided in time", u.inTime, u.tasks)
	}
	return ""
}

func (j *judge) checkFleet(e *event) string {
	if o := e.ended; o.mustResume && !o.resumed {
		return "not every aircraft is under the leader's command at the end, as all should be after these faults"
	}
	return ""
}

// finish judges a mission that is over. tasks and inTime are of the users.
func (j *judge) finish(o *ended, tasks, inTime int) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.users.tasks, j.users.inTime = tasks, inTime
	j.handle(&event{kind: over, ended: o})
}
