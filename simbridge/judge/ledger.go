package judge

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"prefdt/firmware/account"
	"prefdt/simbridge/record"
	"prefdt/telemetry"
)

// ledgerRules are of what is written, and of the whole flight.
var ledgerRules = []Rule{
	{"record", "the ledger's file, beacons",
		"opens whole, one row for each slot, at most the slot in progress lost at each end of the leader",
		contract + "ledger", (*check).ledger},
	{"energy", "true joules, statuses", "the resolution of the messages, and the gaps that the model bridges", contract + "joules",
		(*check).energy},
	{"lost", "statuses", "no joule of an aircraft of which nothing was received for 12 s, and of two a floor for 0.8 of what " +
		"both took", contract + "joules", (*check).lost},
	{"energy by slot", "true joules, the ledger's rows", "likewise, up to each slot", contract + "joules", (*check).energyBySlot},
	{"transit", "true joules, the ledger", "likewise, outside the slots", contract + "transit_j", (*check).transit},
	{"sums", "the ledger, the last status", "rows, aircraft and account have the same joules and delay", contract + "joules",
		(*check).sums},
	{"told sums", "statuses, the ledger's rows", "joules, users heard and slots missed as the rows up to it have them; the rest of the " +
		"budget", contract + "status", (*check).toldSums},
	{"edge joules", "decisions, the ledger's rows", "as many users as were sent to an aircraft, and what they take there, where no " +
		"result says otherwise", contract + "joules", (*check).edgeJoules},
	{"delay", "true delays of the users' tasks, the ledger", "3 % and 0.1 s in a slot, 1 s in all, " +
		"below those reported and above all; of one that was missed a fifth and 0.3 s off the mean of those before it, computed locally",
		contract + "results", (*check).delay},
	{"wind", "true wind, the ledger's rows", "in the mean of the later slots 8 m/s, or three of its standard deviations",
		"inference/belief",
		(*check).wind},
	{"exit", "the leader's process", "it ends when it is told to", "docs/failures.md", (*check).exit},
	{"course", "answers, states, landings", "each order is answered and each state left in time", contract + "mission", (*check).course},
	{"slots", "beacons, orders, faults", "each slot is opened, until the mission ends with a reason", contract + "time", (*check).slots},
	{"decided", "reports, decisions", "nine of ten tasks that were reported in time, by decide_by_ms", contract + "decision",
		(*check).decided},
	{"dispatch", "reports, decisions, the price of the next offer",
		"3 % and 40 ms above the exact dispatch of that slot, and 2 % and 0.1 s in all", "exact dispatch, " +
			"docs/glossary.md", (*check).dispatch},
}

// rows are the ledger's, in which what is wrong with their order is left to the rule "record".
func (f *flight) rows() []account.Row {
	if f.end.Ledger == nil {
		return nil
	}
	return f.end.Ledger.Rows
}

func (c *check) ledger() {
	if !c.complete || c.end.Ledger == nil && c.end.Error == "" { // another's leader goes on
		return
	}
	c.holds(c.endS, c.end.Ledger != nil && c.end.Error == "", "the ledger cannot be read: %s", c.end.Error)
	if c.end.Ledger == nil {
		return
	}
	last, opened := -1, c.opened()
	for _, r := range c.rows() {
		c.holds(c.endS, r.Slot == last+1, "the ledger has slot %d after slot %d", r.Slot, last)
		last = r.Slot
		if _, ok := opened[r.Slot]; !r.Missed {
			if ok || !c.excuses("broker away", 0, c.epochS+float64(r.Slot)) {
				c.holds(c.epochS+float64(r.Slot), ok, "the ledger has slot %d, which no beacon opened", r.Slot)
			}
			delete(opened, r.Slot)
		}
	}
	// The slot in progress is lost when the leader is killed, or the mission left its slots.
	down := c.fault(0, record.LeaderDown)
	for _, n := range slices.Sorted(maps.Keys(opened)) {
		timeS := opened[n].timeS
		lost := down.touches(timeS, timeS+1.5) || c.fault(0, "disk_refuses").touches(timeS, timeS+1.5) || !slices.Contains(
			[]string{telemetry.StateFlying, telemetry.StateHolding}, c.stateAt(timeS+1.5))
		c.holds(timeS, lost, "slot %d was opened, and the ledger has it not", n)
	}
}

const (
	modelErrorW = 260  // of the power model, which knows no shock, at v* and above
	modelledW   = 60   // of the model, where it has had measurements
	modelShare  = 0.12 // likewise in calm air, where nothing but the battery is silent
	climbW      = 450  // which a current that holds from the ground on has not
)

// powerMost is what flying costs at most over the leader's formula, without a shock.
func (a *aircraft) powerMost() float64 { return max(1, a.PowerMost) }

// powerRange is what flying costs one of the fleet at least and at most over the leader's formula: what the leader measures of
// all counts for each.
func (f *flight) powerRange() (least, most float64) {
	least, most = 1, 1
	for _, a := range f.aircraft {
		least, most = min(least, cmp.Or(a.PowerLeast, 1)), max(most, a.powerMost())
	}
	return least, most
}

// toldM is how far off the position is that an aircraft tells, four standard deviations of it.
func (a *aircraft) toldM() float64 {
	return 4 * (math.Hypot(a.ReceiverM, a.ReceiverUpM) + a.ReceiverMPS)
}

// unread is when nothing is known of what an aircraft draws: no message, no field, or no leader.
func (f *flight) unread(a *aircraft) spans {
	var all []span
	for _, x := range f.faults {
		switch x.kind {
		case "autopilot_reboot":
			x.toS = max(x.toS, x.fromS+bootS)
		case record.LeaderDown: // until it says something for the first time
			x.toS = min(max(x.toS, f.firstStatusAfter(x.toS)), f.endS)
			if silent, ok := f.fault(a.number, "heartbeat_silence").at(x.toS); ok { // nor is it known what autopilot sends
				x.toS = silent.toS
			}
		case "link_loss", "battery_absent", "battery_handover", "battery_wild", "disk_stall":
		default:
			continue
		}
		if x.aircraft == 0 || x.aircraft == a.number || x.kind == "disk_stall" {
			all = append(all, span{x.fromS, x.toS})
		}
	}
	return newSpans(all...).wider(0.5+a.MonitorS, 2.5+a.MonitorS)
}

// modelled is when, of a time in which nothing is measured, the model counts by what flying was measured to cost: in calm air, with the
// aircraft's speed known, and after some slots without a change of that.
func (c *check) modelled(a *aircraft, in span) spans {
	measuredS, shockS := in.fromS-c.settledSlots(), c.epochS+c.shockSlot()
	if !c.calm() || !(measuredS > c.epochS) || shockS > measuredS && shockS < in.toS || c.unread(a).touches(measuredS, in.fromS-1e-3) {
		return nil
	}
	known := c.fault(a.number, "battery_absent").and(a.offboard).and(spans{in})
	return known.without(c.fault(a.number, record.LeaderDown, "link_loss", "autopilot_reboot", "battery_reset", "disk_stall"))
}

// drawnJ is what it drew in some times.
func (a *aircraft) drawnJ(in spans) (sumJ float64) {
	for _, x := range in {
		sumJ += a.spentJ(x.toS) - a.spentJ(x.fromS)
	}
	return sumJ
}

// spreadW is by how much the power of an aircraft differed in the last seconds.
func (a *aircraft) spreadW(timeS, forS float64) float64 {
	const stepS = 0.5
	least, most := math.Inf(1), 0.0
	for t := timeS - forS; t < timeS; t += stepS {
		w := (a.spentJ(t+stepS) - a.spentJ(t)) / stepS
		least, most = min(least, w), max(most, w)
	}
	return most - least
}

// allowedJ is how far off the leader's account of an aircraft may be at a moment, of which the last reading is up to
// lagS old.
func (c *check) allowedJ(a *aircraft, timeS, lagS float64) (allowed float64) {
	heldW := float64(heldErrorW)
	if w := a.spreadW(timeS, 2*a.MonitorS+lagS); a.MonitorS > 0 && w > heldW {
		heldW = w // a reading of the first moment may hold as long
		c.finding.Assumed["the power changed between two readings"]++
	}
	allowed = counterStepJ + heldW*(a.MonitorS+lagS) + math.Abs(a.gain()-1)*a.spentJ(timeS)
	unread := c.unread(a)
	if x, now := unread.at(timeS); now {
		known := c.modelled(a, span{x.fromS, timeS})
		allowed += modelErrorW*a.powerMost()*(timeS-x.fromS-known.lengthS()) + modelShare*a.drawnJ(known)
		c.finding.Assumed["not measured"] += 1
	}
	if x := c.assumed("wrong land detector", a.number); x.touches(0, timeS) { // near the ground nothing else tells that it flies on
		const lastS = 10
		allowed += lastS * modelErrorW * a.powerMost()
		c.finding.Assumed["wrong land detector"]++
	}
	for _, x := range c.faults { // a counter begins anew: what was drawn since its last reading is unknown
		if x.aircraft != a.number || x.kind != "autopilot_reboot" && x.kind != "battery_reset" || x.fromS > timeS {
			continue
		}
		gapS := 0.5 + a.MonitorS
		if u, ok := unread.at(x.fromS); ok {
			gapS += min(u.toS, timeS) - u.fromS
		}
		allowed += 2*counterStepJ + modelErrorW*a.powerMost()*gapS
		c.finding.Assumed["counter began anew"]++
	}
	return allowed
}

func (c *check) energy() {
	const lagS = 1
	for _, s := range c.statuses {
		told, truth, allowed := s.toldJ(), 0.0, 0.0
		for _, a := range c.aircraft {
			truth, allowed = truth+a.spentJ(s.timeS), allowed+c.allowedJ(a, s.timeS, lagS)
		}
		if off := math.Abs(told - truth); off > allowed && c.excuses("broker away", 0, s.timeS) { // it is the last one, again
			allowed += lagS * climbW * float64(len(c.aircraft))
		}
		c.atMost(s.timeS, math.Abs(told-truth), allowed, "the leader counts %.0f J of %.0f, and the allowed error is %.0f", told, truth,
			allowed)
	}
}

// flownJ are the joules that a status has of its aircraft.
func (s *status) flownJ() (sumJ float64) {
	for _, t := range s.Aircraft {
		sumJ += t.SpentJ
	}
	return sumJ
}

// toldJ are all joules that a status has.
func (s *status) toldJ() float64 {
	if s.Scope == telemetry.ScopeLanded { // those outside the slots are in each aircraft's
		return s.flownJ()
	}
	return s.flownJ() + s.TransitJ
}

// lost: of one that is not heard the model counts until it is declared lost, and nothing from then on.
func (c *check) lost() {
	const knownS, mostJ = lostS + 2, 1
	down := c.fault(0, record.LeaderDown)
	var last map[int]float64 // of those that were lost in the status before
	lastS := 0.0
	for _, s := range c.statuses {
		now := map[int]float64{}
		for _, t := range s.Aircraft {
			if t.AgeS == nil || *t.AgeS < knownS {
				continue
			}
			now[t.Number] = t.SpentJ
			if before, ok := last[t.Number]; ok && !down.touches(lastS, s.timeS) {
				c.atMost(s.timeS, t.SpentJ-before, mostJ, "the leader counts %.0f J more of aircraft %d, not received for %.0f s",
					t.SpentJ-before, t.Number, *t.AgeS)
			}
		}
		last, lastS = now, s.timeS
	}
	c.floorOfLost(knownS)
}

// floorOfLost: the least that the slots left take is that of those in flight.
func (c *check) floorOfLost(knownS float64) {
	const share, freshS, leastSlots = 0.8, 1, 3 // also where flying comes to cost half as much again
	var before float64                          // a slot, with both in flight
	if len(c.aircraft) != 2 || c.bounded() {
		return
	}
	for _, s := range c.statuses {
		left, up, lost := float64(c.Slots-1-s.Slot), 0, 0
		if left < leastSlots || s.State != telemetry.StateFlying && s.State != telemetry.StateHolding {
			continue
		}
		perSlotJ := (s.FloorJ - s.SpentJ) / left
		for _, t := range s.Aircraft {
			switch a := c.aircraft[t.Number-1]; {
			case t.AgeS == nil || !a.offboard.contains(s.timeS) && *t.AgeS < freshS:
			case *t.AgeS < freshS:
				up++
			case *t.AgeS >= knownS:
				lost++
			}
		}
		switch {
		case up == 2:
			before = perSlotJ
		case up == 1 && lost == 1 && before > 0:
			c.atMost(s.timeS, perSlotJ, share*before, "the status has a floor of %.0f J a slot, one of two is lost, and it was %.0f J",
				perSlotJ, before)
		}
	}
}

// booked checks what the ledger has of each aircraft up to the end of each slot in which nothing excuses it, until that is on its way home.
func (c *check) booked(excused func(a *aircraft, endS float64) bool, boundJ func(a *aircraft, endS float64) float64) {
	if c.bounded() {
		return // which joules of one that comes home early are of the slots is the leader's to say
	}
	for i, a := range c.aircraft {
		bookedJ := 0.0
		for _, r := range c.rows() {
			endS := c.epochS + float64(r.Slot+1)
			if i >= len(r.Aircraft) || !math.IsNaN(c.calledHomeS(a, endS)) || c.assumed("low pack", a.number).contains(endS) {
				break
			}
			bookedJ += r.Aircraft[i].EnergyJ
			if r.Missed || excused(a, endS) { // its joules are shared out with those of the slots around it
				continue
			}
			truth := a.spentJ(endS) - a.spentJ(c.epochS)
			c.atMost(endS, math.Abs(bookedJ-truth), boundJ(a, endS), "the ledger has %.0f J of aircraft %d up to slot %d, it drew %.0f",
				bookedJ, a.number, r.Slot, truth)
		}
	}
}

func (c *check) energyBySlot() {
	c.booked(func(a *aircraft, endS float64) bool {
		return c.excusesAny(a.number, endS, "leader away", "disk stands")
	},
		func(a *aircraft, endS float64) float64 { return 2 * c.allowedJ(a, endS, 1) })
}

func (c *check) transit() {
	rows := c.rows()
	if c.bounded() || len(rows) == 0 {
		return
	}
	last := rows[len(rows)-1]
	for i, x := range c.end.Ledger.State.Account.Aircraft {
		a := c.aircraft[i]
		endS := c.epochS + float64(last.Slot+1)
		if c.homewardByOrder(a).contains(endS) || c.assumed("low pack", a.number).contains(endS) || last.Missed ||
			c.excuses("disk stands", a.number, endS) { // it may fly again since
			continue
		}
		truth := a.spentJ(c.endS) - a.spentJ(endS) + a.spentJ(c.epochS)
		// What nobody measured is the model's, in the slots or outside of them.
		modelJ := modelledW * c.unread(a).and(spans{{0, c.endS}}).lengthS()
		c.atMost(c.endS, math.Abs(x.TransitJ-truth), 2*c.allowedJ(a, c.endS, 1)+modelJ,
			"the ledger has %.0f J of aircraft %d outside the slots, it drew %.0f", x.TransitJ, a.number, truth)
	}
}

// sums: no joule is booked twice, or nowhere.
func (c *check) sums() {
	const share, slack = 1e-6, 1e-3
	rows := c.rows()
	if len(rows) == 0 {
		return
	}
	same := func(what string, a, b float64) {
		c.atMost(c.endS, math.Abs(a-b), share*math.Abs(b)+slack, "%s: %.1f, not %.1f", what, a, b)
	}
	x := &c.end.Ledger.State.Account
	energyJ := 0.0
	spentJ := make([]float64, len(x.Aircraft))
	for _, r := range rows {
		ofRowJ := 0.0
		for i, y := range r.Aircraft {
			ofRowJ += y.EnergyJ
			if spentJ[i] += y.EnergyJ; !r.Missed {
				same("an aircraft's joules up to a slot", spentJ[i], y.SpentJ)
			}
		}
		same("the joules of a slot's aircraft", ofRowJ, r.EnergyJ)
		energyJ += r.EnergyJ
	}
	same("the joules of all slots", energyJ, x.Objective.SpentJ)
	accountJ, transitJ := 0.0, 0.0
	for i, y := range x.Aircraft {
		same("the joules of an aircraft's slots", spentJ[i], y.SpentJ)
		accountJ, transitJ = accountJ+y.SpentJ, transitJ+y.TransitJ
	}
	if k := len(c.statuses) - 1; k >= 0 {
		toldJ := c.statuses[k].flownJ()
		if c.statuses[k].Scope == telemetry.ScopeLanded {
			accountJ += transitJ
		}
		lastJ := 0.0
		overS := c.reaches(c.epochS, overStates...)
		if c.next != nil || c.noneLed(overS-1) && c.statuses[k].timeS < overS+1 {
			lastJ = counterStepJ // at rest after that status, or taken back: in slots no meter counts down, also of those that landed
		}
		c.atMost(c.endS, math.Abs(toldJ-accountJ), share*math.Abs(accountJ)+slack+lastJ, "the joules told last: %.1f, not %.1f", toldJ,
			accountJ)
	}
}

// toldSums: what a status says of the slots is what the rows up to its own have.
func (c *check) toldSums() {
	const share, slack = 1e-6, 1e-3
	rows, n, spentJ, missed := c.rows(), 0, 0.0, 0
	down := c.fault(0, record.LeaderDown)
	for _, s := range c.statuses {
		for ; n < len(rows) && rows[n].Slot <= s.Slot; n++ {
			if spentJ += rows[n].EnergyJ; rows[n].Missed {
				missed++
			}
		}
		if s.RemainingJ != nil && s.BudgetJ != nil {
			c.atMost(s.timeS, math.Abs(*s.BudgetJ-s.SpentJ-*s.RemainingJ), share**s.BudgetJ+slack, "the status has %.0f J left of %.0f, "+
				"and %.0f spent", *s.RemainingJ, *s.BudgetJ, s.SpentJ)
		}
		if n == 0 || rows[n-1].Slot != s.Slot {
			continue
		}
		if s.Scope != telemetry.ScopeLanded {
			c.atMost(s.timeS, math.Abs(s.SpentJ-spentJ), share*spentJ+slack, "the status after slot %d has %.1f J in the slots, the rows "+
				"up to it %.1f", s.Slot, s.SpentJ, spentJ)
		}
		c.holds(s.timeS, s.MissedSlots == missed, "the status after slot %d has %d slots missed, the rows up to it %d", s.Slot,
			s.MissedSlots, missed)
		if fromS := c.epochS + float64(s.Slot); !rows[n-1].Missed && !down.touches(fromS, s.timeS) { // else nobody is heard yet
			c.holds(s.timeS, s.UsersHeard == rows[n-1].Reported, "the status after slot %d has %d users heard, its row %d", s.Slot,
				s.UsersHeard, rows[n-1].Reported)
		}
	}
}

// edgeJoules: what its users are to take of each aircraft is booked with the slot.
func (c *check) edgeJoules() {
	const share, slackJ = 0.01, 1e-3
	sent, joules := map[int]int{}, map[int]float64{}
	c.decisionsOf(func(d *decision, a *aircraft) {
		if d.ReportSlot == nil {
			sent[d.Slot]++
			joules[d.Slot] += c.takesJ(d)
		}
	})
	other := map[int]bool{} // slots of which a task was computed otherwise
	for _, t := range c.tasks {
		other[t.Slot] = other[t.Slot] || t.By == telemetry.ByOffer
	}
	for _, r := range c.rows() {
		fromS := c.epochS + float64(r.Slot)
		if r.Missed || c.excusesFrom(fromS, fromS+1, "leader away", "broker away", "disk stands") {
			continue
		}
		c.holds(fromS, r.Offloaded == sent[r.Slot], "the ledger has %d users sent in slot %d, %d were", r.Offloaded, r.Slot, sent[r.Slot])
		if !other[r.Slot] && !c.computes() { // else what a task takes is measured
			c.atMost(fromS, math.Abs(r.EdgeJ-joules[r.Slot]), share*joules[r.Slot]+slackJ, "the ledger has %.1f J of computing in "+
				"slot %d, its decisions take %.1f", r.EdgeJ, r.Slot, joules[r.Slot])
		}
	}
}

// opened is the beacon of each slot.
func (f *flight) opened() map[int]*beacon {
	all := map[int]*beacon{}
	for b := range pointers(f.beacons) {
		all[b.Slot.Slot] = b
	}
	return all
}

// listed reports whether a user may have a decision.
func (f *flight) listed(user string) bool { return len(f.Users) == 0 || slices.Contains(f.Users, user) }

// inTime reports whether a report came before its window closed, for certain, and when the slot was opened.
func (f *flight) inTime(r *report, b *beacon) bool {
	const marginS = 0.02 // to the leader, and for its beacon to the users
	return r.timeS >= b.timeS && r.timeS <= b.timeS+b.ReportByMS/b.SlotMS-marginS
}

// delay bounds what is booked: of a task whose report was lost the leader need not know.
func (c *check) delay() {
	const share, slackS, slotSlackS, resultS = 0.03, 1, 0.1, 4 // a result comes so much later at most
	if c.end.Ledger == nil || len(c.tasks) == 0 {
		return
	}
	opened := c.opened()
	c.missedDelay(opened)
	real := map[reportKey]bool{}
	least, most := map[int]float64{}, map[int]float64{}
	for _, t := range c.tasks {
		key := reportKey{t.User, t.Slot}
		real[key] = true
		r, reported := c.reports[key]
		if b := opened[t.Slot]; reported && b != nil && c.inTime(&r, b) {
			least[t.Slot] += t.DelayS
		}
		most[t.Slot] += t.DelayS
	}
	strange := c.strangersS(real)
	all, allLeast, allMost, excusedS := c.end.Ledger.State.Account.Objective.DelayS, 0.0, 0.0, 0.0
	for _, r := range c.rows() {
		if r.Missed {
			all -= r.DelayS
			continue
		}
		n, timeS := r.Slot, c.epochS+float64(r.Slot)
		allLeast, allMost = allLeast+least[n], allMost+most[n]+strange[n]
		off := max(least[n]-r.DelayS, r.DelayS-most[n]-strange[n], 0)
		bound := share*most[n] + slotSlackS
		if off > bound && c.excusesFrom(timeS, timeS+resultS, "leader away", "broker away", "disk stands", "strangers") {
			all, allLeast, allMost = all-r.DelayS, allLeast-least[n], allMost-most[n]-strange[n]
			excusedS += r.DelayS // results that came later may have corrected it
			continue
		}
		if off > bound && (c.fades() || c.computes()) { // results of a slot come after its row, and correct the sum
			c.finding.Assumed["results come later"]++
			continue
		}
		c.atMost(timeS, off, bound, "the ledger has %.2f s of delay in slot %d, the users' tasks took %.2f s, those reported %.2f s",
			r.DelayS, n, most[n], least[n])
	}
	c.atMost(c.endS, max(allLeast-all, all-allMost, 0), share*allLeast+slackS+excusedS,
		"the ledger has %.1f s of delay, the users' tasks took %.1f s, those reported %.1f s", all, allMost, allLeast)
}

// missedDelay: a slot that was missed counts for what the tasks of those before it take in the mean, computed locally.
func (c *check) missedDelay(opened map[int]*beacon) {
	const share, slackS, mostSlots, mostTaskS = 0.2, 0.3, 32, 60.0
	localS := map[int]float64{}
	for key, r := range c.reports {
		if b := opened[key.slot]; b != nil && c.listed(key.user) && r.Task != nil && c.inTime(&r, b) {
			t := taskOf(r.Task)
			localS[key.slot] += min(c.Physics.PenalizedDelayS(t, t.LocalTimeS(r.CPUHz)), mostTaskS)
		}
	}
	mean, slots := 0.0, 0.0
	for _, r := range c.rows() {
		switch timeS := c.epochS + float64(r.Slot); {
		case !r.Missed && r.Reported > 0:
			slots = min(slots+1, mostSlots)
			mean += (localS[r.Slot] - mean) / slots
		case r.Missed && slots > 0 && !c.excuses("strangers", 0, timeS) && !c.computes():
			c.atMost(timeS, math.Abs(r.DelayS-mean), share*mean+slackS, "the ledger has %.2f s of delay in slot %d, which was missed; "+
				"those before it would have taken %.2f s", r.DelayS, r.Slot, mean)
		}
	}
}

// strangersS is the most that users may count for whom the world does not know: as long as they say, and a minute each.
func (f *flight) strangersS(real map[reportKey]bool) map[int]float64 {
	const mostS = 60
	took, sumS := maps.Clone(f.resultsS), map[int]float64{}
	for d := range pointers(f.decisions) {
		key := reportKey{d.user, d.Slot}
		if r, ok := f.reports[key]; ok && r.Task != nil {
			_, localS := f.servedS(&d.Decision, &r.Report)
			took[key] = max(took[key], localS)
		}
	}
	reported := map[string]bool{}
	for key, r := range f.reports {
		reported[key.user] = reported[key.user] || r.Task != nil
	}
	for key, s := range took {
		if !real[key] && reported[key.user] && f.listed(key.user) {
			sumS[key.slot] += min(s+f.Physics.PenaltyS, mostS)
		}
	}
	return sumS
}

// wind compares what is believed of the wind with the truth, once there was time to observe it. A fleet that stands still sees
// little of it, and says so by its deviation.
func (c *check) wind() {
	const settledSlot, leastRows, offMPS, offDeviations, leastMPS = 15, 10, 8, 3, 10
	if slices.ContainsFunc(c.aircraft, func(a *aircraft) bool { return a.speedMPS < leastMPS }) { // it shows itself to those that move
		return
	}
	var off point
	sdMPS, rows := 0.0, 0.0
	for _, r := range c.rows() {
		if r.Slot >= settledSlot && r.Slot < len(c.end.WindMPS) && float64(r.Slot) < c.shockSlot() && r.Status != nil &&
			r.Status.State == telemetry.StateFlying && r.Seen != nil && r.Seen.Believed.WindMPS != nil {
			b, truth := r.Seen.Believed.WindMPS, c.end.WindMPS[r.Slot]
			off[0], off[1] = off[0]+b[0]-truth[0], off[1]+b[1]-truth[1]
			sdMPS, rows = sdMPS+r.Seen.Believed.WindSDMPS, rows+1
		}
	}
	if rows >= leastRows {
		c.atMost(c.endS, horizontalM(off)/rows, max(offMPS, offDeviations*sdMPS/rows),
			"the wind that is believed in is off by %.1f m/s in the mean", horizontalM(off)/rows)
	}
}

func (c *check) exit() { c.holds(c.endS, c.end.Exit == "", "%s", c.end.Exit) }

func (c *check) course() { c.holds(c.endS, c.complete && c.end.Failure == "", "%s", c.end.Failure) }

// slots: none is left out but by a fault, and the mission does not end without a reason.
func (c *check) slots() {
	if len(c.beacons) == 0 {
		return
	}
	overS := c.reaches(c.epochS, overStates...)
	endS, opened := min(overS, c.epochS+float64(c.Slots), c.endS), c.opened()
	for n := range int(math.Floor(endS - c.epochS - 0.2)) {
		fromS := c.epochS + float64(n)
		if opened[n] != nil || !c.excusesFrom(fromS, fromS+1, "leader away", "broker away", "disk stands") {
			c.holds(fromS, opened[n] != nil, "slot %d was not opened", n)
		}
	}
	if overS >= c.epochS+float64(c.Slots)-0.2 {
		return
	}
	reason := slices.ContainsFunc(c.missionOrders(telemetry.ActionReturn, telemetry.ActionStop), func(o *order) bool {
		return o.sentS <= overS && (len(o.mission.Aircraft) == 0 || c.noneLed(overS-1))
	})
	if !reason && (c.bounded() || c.noneLed(overS-1) || c.excuses("comes home by itself", 0, overS) || c.excuses("low pack", 0, overS)) {
		return
	}
	c.holds(overS, reason, "the mission was over %.1f slots before its end", float64(c.Slots)-c.slotAt(overS))
}

// noneLed reports whether no aircraft flies for its leader.
func (f *flight) noneLed(timeS float64) bool {
	return !slices.ContainsFunc(f.aircraft, func(a *aircraft) bool { return a.isLed(timeS) && a.offboard.contains(timeS) })
}

// decided: of the tasks that were reported in time some may have no decision in time.
func (c *check) decided() {
	const most = 0.1
	decided := map[reportKey]float64{}
	for _, d := range c.decisions {
		if d.ReportSlot == nil {
			decided[reportKey{d.user, d.Slot}] = d.timeS
		}
	}
	tasks, without, opened := 0.0, 0.0, c.opened()
	for key, r := range c.reports {
		b := opened[key.slot]
		if b == nil || r.Task == nil || !c.inTime(&r, b) || !c.listed(key.user) {
			continue
		}
		timeS, ok := decided[key]
		if ok = ok && timeS <= b.timeS+b.DecideByMS/b.SlotMS; !ok &&
			c.excusesFrom(b.timeS, b.timeS+1, "leader away", "broker away", "disk stands") {
			continue
		}
		if tasks++; !ok {
			without++
		}
	}
	if tasks > 0 {
		c.finding.Active += tasks - 1
		c.atMost(c.endS, without/tasks, most, "%.0f of %.0f tasks that were reported were not decided in time", without, tasks)
	}
}
