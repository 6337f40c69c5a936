package judge

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"prefdt/firmware/account"
	"prefdt/inference/physics"
	decided "prefdt/inference/record"
	"prefdt/inference/slot"
	"prefdt/simbridge/record"
	"prefdt/telemetry"
)

// toldRules compare what the leader tells of its aircraft, and keeps of them, with what the simulators knew.
var toldRules = []Rule{
	{"told landed", "statuses, true states", "what its land detector said in the last 3 s; nothing, of one of which " +
		"nothing arrives for 6.5 s",
		contract + "landed", (*check).toldLanded},
	{"told source", "statuses, faults of batteries", "a measurement, but 10 s after one was missing, and 1.5 s after " +
		"the leader stood still; the model, 12 s after all are",
		contract + "status", (*check).toldSource},
	{"told reason", "statuses, acts of pilots", "a reason, 3 s after a HEARTBEAT showed it, while it is in the air and not given back; " +
		"that it rebooted, 4 s after its boot",
		contract + "status", (*check).toldReason},
	{"told height", "statuses, jumps of an aircraft's height", "a danger, from 3 s after on, while it is in the air and received",
		contract + "status", (*check).toldHeight},
	{"told parameter", "statuses, parameters that another station changes", "its name in the aircraft's reason, from 3 s after on",
		contract + "status", (*check).toldParameter},
	{"measured joules", "true joules, the ledger's rows", "75 J in the slots, an ArduCopter's 100, 100 more for each restart, and by how " +
		"much its power differed in the last second, where each reading arrives and is right", contract + "joules",
		(*check).measuredJoules},
	{"modelled joules", "true joules, statuses", "15 % and 80 J in 4 s in which nothing is measured, and what flying costs was before",
		contract + "joules", (*check).modelledJoules},
	{"flown", "the ledger's rows, true ways and power", "2 m/s, and 20 % and three of its errors, in two slots in a row",
		"inference/belief", (*check).flown},
	{"kept at restart", "the ledger's rows, beacons", "what flying costs within 10 %, and a half of the users that are " +
		"expected and one; until when the plan had each fly; 3 % and 0.1 s less of tasks that nobody reported",
		"docs/failures.md", (*check).keptAtRestart},
	{"told power", "statuses, true power", "a reason that says so, where flying costs half as much again",
		contract + "status", (*check).toldPower},
	{"measured cost", "true power, the ledger's rows", "10 % off, 3 % more without reports, what its sensor makes of it and 1 % a " +
		"second between two readings, in four slots in a row, from 11 slots after a change on",
		contract + "joules", (*check).measuredCost},
	{"measured flight", "what the leader recorded of its measurements, true power", "three of its errors, 4 %, 20 J and what its sensors " +
		"make of it, of what flying cost then", contract + "joules", (*check).measuredFlight},
	{"measured often", "the ledger's rows, true states", "7 s and two of its monitor's readings in steady flight, of which all is read",
		contract + "joules", (*check).measuredOften},
	{"far from home", "statuses, true joules of the least way home", "0.95 to 1.07 of it and 1 kJ, a wait for others besides, of what " +
		"flying costs one of the fleet; in wind 0.8 to 2.3; over its home in calm air 2 s of hover",
		contract + "status", (*check).farFromHome},
	{"leaves in time", "statuses, true charge of one that serves", "the reserve, 0.95 of the least way home and of the wait for those in " +
		"the air beside it, less 2 kJ, and in wind 0.8", "paper, C6", (*check).leavesInTime},
	{"kept up", "statuses, the budget", "no slot in which one leaves that the crew lets not land", contract + "budgets", (*check).keptUp},
	{"stalled loop", "HEARTBEATs that arrive at an ArduCopter in GUIDED in the air, beacons, statuses",
		"none of the leader's 14 s after the last decision, so that it comes home, while its way there is 13 m clear of all in the air",
		"docs/failures.md", (*check).stalledLoop},
	{"floor to touchdown", "statuses, true joules and power", "what was drawn, least_up to the end and all descents; and all ways home",
		contract + "budgets", (*check).floorToTouchdown},
}

// toldLanded: unknown is in the air, so that what is told for too long, or by one word alone, is dangerous.
func (c *check) toldLanded() {
	const latelyS, unknownS, lowM = 3, 6.5, 10
	c.toldOfAll(func(s *status, t *telemetry.StatusAircraft, a *aircraft) {
		if t.Landed == nil || c.excuses("wrong land detector", a.number, s.timeS) {
			return
		}
		if x, cut := c.fault(a.number, "link_loss").at(s.timeS); cut {
			c.atMost(s.timeS, s.timeS-x.fromS, unknownS, "the status has aircraft %d landed %v, of which nothing arrives for %.1f s",
				a.number, *t.Landed, s.timeS-x.fromS)
			return
		}
		ok := slices.ContainsFunc(a.lately(s.timeS, latelyS), func(x state) bool {
			return x.Landed == *t.Landed || *t.Landed && !x.Armed // PX4 says so, even while it falls
		})
		low := a.at(s.timeS).heightM() < lowM && c.excuses("wrong sample", a.number, s.timeS)
		if ok || !low && !c.excusesAny(a.number, s.timeS, "link cut", "leader away", "late datagrams") {
			c.holds(s.timeS, ok, "the status has aircraft %d landed %v, and it was not for %d s", a.number, *t.Landed, latelyS)
		}
	})
}

func (c *check) toldSource() {
	const measuresS, modelS, heldS = 10, 12, 6.5
	c.toldOfAll(func(s *status, t *telemetry.StatusAircraft, a *aircraft) {
		absent := c.fault(a.number, "battery_absent")
		if x, ok := absent.at(s.timeS); ok {
			flight, flies := a.inAir.at(s.timeS) // on the ground a last measurement that is repeated is right
			sinceS := s.timeS - max(x.fromS, flight.fromS)
			if flies && sinceS > modelS+a.MonitorS && !c.excusesAny(a.number, s.timeS, "link cut", "leader away") {
				c.holds(s.timeS, t.EnergySource == modelSource, "nothing of the battery of aircraft %d is measured for %.0f s, and the "+
					"status says %s", a.number, sinceS, t.EnergySource)
			}
			return
		}
		if c.readAfterAStall(a, s.timeS) {
			c.holds(s.timeS, t.EnergySource != modelSource, "what aircraft %d sent of its battery while its leader stood still is there, "+
				"and the status says %s", a.number, t.EnergySource)
			return
		}
		if a.LossShare > 0 || !(s.timeS > a.shownS(0, func(heartbeat) bool { return true })+
			measuresS+2*a.MonitorS) || c.unread(a).or(c.assumed("battery misread", a.number)).touches(s.timeS-measuresS-heldS, s.timeS) ||
			c.fault(0, "unsafe_failsafe", "battery_second").wider(0, 2*measuresS).contains(s.timeS) || // they are rebooted
			c.excusesAny(a.number, s.timeS, "leader away", "disk stands", "link cut") ||
			c.excusesFrom(s.timeS-measuresS-2*a.MonitorS, s.timeS, "late datagrams") {
			return
		}
		c.holds(s.timeS, t.EnergySource != modelSource, "the battery of aircraft %d is measured, and the status says %s", a.number,
			t.EnergySource)
	})
}

// readAfterAStall reports whether a leader has stood still, and has by now what was sent meanwhile, of a battery that nothing else hides.
func (c *check) readAfterAStall(a *aircraft, timeS float64) bool {
	const readS, laterS, quietS = 1.5, 12, 12
	harmless := []string{"process_stall", record.PilotActs, "pilot_position"}
	for _, x := range c.faults {
		if x.kind != record.LeaderDown || x.text != "stopped" || timeS < x.toS+readS || timeS > x.toS+laterS {
			continue
		}
		fromS := x.fromS - quietS - 2*a.MonitorS
		return a.LossShare == 0 && fromS > a.shownS(0, func(heartbeat) bool { return true }) &&
			!slices.ContainsFunc(c.faults, func(y faultSpan) bool {
				return y != x && y.fromS < timeS && y.toS > fromS && (y.aircraft == 0 || y.aircraft == a.number) &&
					!slices.Contains(bearable, y.kind) && !slices.Contains(harmless, y.kind)
			})
	}
	return false
}

func (c *check) toldReason() {
	const knownS, bootedS = 3, 4
	c.toldOfAll(func(s *status, t *telemetry.StatusAircraft, a *aircraft) {
		for _, x := range a.notLed {
			if x.cause == record.PilotActs && s.timeS > x.knownS+knownS && s.timeS < x.toS && a.inAir.contains(s.timeS) &&
				a.at(x.knownS).Armed && !c.excusesAny(a.number, s.timeS, "leader away", "link cut", "late datagrams", "wrong sample") {
				c.holds(s.timeS, t.Reason != "", "aircraft %d is its pilot's since %.1f s, and the status gives no reason", a.number,
					x.fromS)
			}
			if x.cause == "autopilot_reboot" && s.timeS > x.knownS+bootedS && s.timeS < x.toS && a.inAir.contains(s.timeS) &&
				!slices.ContainsFunc(c.faults, func(f faultSpan) bool { // one that stood still has all by then that was sent meanwhile
					const standsS, startsS = bootedS, 14
					laterS := map[bool]float64{true: standsS, false: startsS}[f.text == "stopped"]
					return f.kind == record.LeaderDown && s.timeS > f.fromS && s.timeS < f.toS+laterS
				}) && !c.excusesAny(a.number, s.timeS, "late datagrams", "wrong sample") {
				c.holds(s.timeS, strings.Contains(t.Reason, "reboot"), "aircraft %d rebooted at %.1f s, and its reason is %q", a.number,
					x.fromS, t.Reason)
			}
		}
	})
}

func (c *check) toldParameter() {
	const knownS = 3
	for _, x := range c.faults {
		if x.kind != record.ParameterChanged {
			continue
		}
		changed := c.aircraft[x.aircraft-1]
		flies := changed.offboard.and(changed.led).from(1).and(spans{{x.fromS + knownS, x.toS}})
		c.toldOfAll(func(s *status, t *telemetry.StatusAircraft, a *aircraft) {
			if a == changed && flies.contains(s.timeS) {
				c.holds(s.timeS, strings.Contains(t.Reason, x.text), "%s of aircraft %d was changed at %.1f s, and its reason is %q",
					x.text, a.number, x.fromS, t.Reason)
			}
		})
	}
}

// measuredJoules is of missions in which nothing hides a reading: there the ledger has each joule.
func (c *check) measuredJoules() {
	const slackJ, heldW, lagS = 75.0, 25, 1
	if c.bounded() || c.has("battery_wild", "battery_handover", "battery_reset", "battery_second", "autopilot_reboot") {
		return
	}
	const settlesS, restartJ = 5.0, 100.0
	down := map[*aircraft]spans{} // what was drawn while the leader was away is in its next readings
	for _, a := range c.aircraft {
		down[a] = c.fault(0, record.LeaderDown).wider(0.5+a.MonitorS, 2.5+2*a.MonitorS+settlesS)
	}
	c.booked(func(a *aircraft, endS float64) bool {
		return down[a].contains(endS) || len(c.unread(a).and(spans{{0, endS}}).without(down[a])) > 0
	},
		func(a *aircraft, endS float64) float64 {
			fellJ := 0.0 // counted on for one whose motors were stopped; no joule is taken back
			if c.fault(a.number, "pilot_disarm").touches(0, endS) {
				fellJ = c.Physics.Propulsion.PowerW(0) * a.MonitorS
			}
			countedJ := slackJ
			if a.isCopter() { // its counter says no more than that, at either end
				countedJ = counterStepJ
			}
			for _, x := range down[a] {
				if x.fromS < endS {
					countedJ += restartJ + heldErrorW*a.MonitorS
				}
			}
			return countedJ + fellJ + a.spreadW(endS, lagS)*lagS + (heldW+a.spreadW(endS, 3*a.MonitorS+lagS))*a.MonitorS +
				math.Abs(a.gain()-1)*a.spentJ(endS)
		})
}

// modelledJoules: where a battery measures nothing the model counts on by what flying was measured to cost, also after a restart.
func (c *check) modelledJoules() {
	const share, slackJ, forS = 0.15, 80.0, 4
	for _, a := range c.aircraft {
		for _, x := range c.unread(a) {
			known := c.modelled(a, x).from(1.5)
			var from *status
			fromJ := 0.0
			c.told(func(s *status, t *telemetry.StatusAircraft, o *aircraft, _ float64) {
				inSlots := s.State == telemetry.StateFlying || s.State == telemetry.StateHolding
				if o != a || t.EnergySource != modelSource || !inSlots || !known.contains(s.timeS) {
					if o == a {
						from = nil
					}
					return
				}
				if from == nil {
					from, fromJ = s, t.SpentJ
				}
				if s.timeS-from.timeS < forS {
					return
				}
				truth := a.spentJ(s.timeS) - a.spentJ(from.timeS)
				c.atMost(s.timeS, math.Abs(t.SpentJ-fromJ-truth), (share+math.Abs(a.gain()-1))*truth+slackJ,
					"the model has %.0f J of aircraft %d in %.1f s, it drew %.0f", t.SpentJ-fromJ, a.number, s.timeS-from.timeS, truth)
				from, fromJ = s, t.SpentJ
			})
		}
	}
}

const modelSource = "model"

// flown is of what the estimator of the wind is told: how an aircraft flew in the slot before, and what that took.
func (c *check) flown() {
	const offMPS, share, errors, slackJ = 2, 0.2, 3, 15
	if c.World == nil || !c.costsTheFormula() {
		return
	}
	const lasts = 2 // one alone is not believed either
	cheap, dear := make([]int, len(c.aircraft)), make([]int, len(c.aircraft))
	c.flownBefore(func(n int, toS float64, a *aircraft, x *slot.Flown) {
		if c.excusesAny(a.number, toS, "battery misread", "leader away", "disk stands", "late datagrams", "wrong sample", "link cut") ||
			c.excusesFrom(toS-2, toS, "broker away") { // a result of an offer may be lost
			return
		}
		from, to := a.at(toS-1), a.at(toS)
		way, turn := sub(to.PositionM, from.PositionM), sub(to.VelocityMPS, from.VelocityMPS)
		c.atMost(toS, math.Hypot(x.EastMPS-way[0], x.NorthMPS-way[1]), offMPS+horizontalM(turn)/2,
			"aircraft %d is told to have flown at %.1f, %.1f m/s before slot %d, it flew at %.1f, %.1f", a.number, x.EastMPS,
			x.NorthMPS, n, way[0], way[1])
		least, most := math.Inf(1), 0.0
		for t := toS - 1.5 - a.MonitorS; t <= toS; t += 0.1 {
			s := a.at(t)
			w := c.truth().FlightPowerW(int(math.Floor(c.slotAt(t))), a.number-1, physics.Position{EastM: s.VelocityMPS[0],
				NorthM: s.VelocityMPS[1]})
			least, most = min(least, w), max(most, w)
		}
		slack := errors*x.ErrorJ + slackJ
		c.lasting(&cheap[a.number-1], lasts, toS, least*(1-share)*min(a.gain(), 1)-slack, x.FlightJ,
			"%.0f J are told of the flight of aircraft %d before slot %d, it took %.0f at least", x.FlightJ, a.number, n, least)
		c.lasting(&dear[a.number-1], lasts, toS, x.FlightJ, most*(1+share)*max(a.gain(), 1)+slack,
			"%.0f J are told of the flight of aircraft %d before slot %d, it took %.0f at most", x.FlightJ, a.number, n, most)
	})
}

// flownBefore calls f with what the ledger has of how each aircraft flew before the start of each slot.
func (c *check) flownBefore(f func(slot int, startS float64, a *aircraft, x *slot.Flown)) {
	for _, r := range c.rows() {
		if r.Seen == nil {
			continue
		}
		for x := range pointers(r.Seen.Snapshot.Aircraft) {
			if x.Number <= len(c.aircraft) && x.Flown.FlightJ != 0 {
				f(r.Slot, c.epochS+float64(r.Slot), c.aircraft[x.Number-1], &x.Flown)
			}
		}
	}
}

// keptAtRestart: what was measured in flight stands in the ledger.
func (c *check) keptAtRestart() {
	const share, part, one, lastS = 0.1, 0.5, 1.0, 4
	c.planKept()
	c.takersKept()
	expected := func(b *beacon) (sum float64) {
		for _, a := range b.Offer.Aircraft {
			sum += a.ExpectedUsers
		}
		return sum
	}
	for _, x := range c.fault(0, record.LeaderDown) {
		var before, after *account.Row
		for r := range pointers(c.rows()) {
			switch endS := c.epochS + float64(r.Slot+1); {
			case r.Missed:
			case endS < x.fromS:
				before = r
			case endS > x.toS && after == nil:
				after = r
			}
		}
		if shock := c.shockSlot(); before != nil && after != nil &&
			!(shock >= float64(before.Slot)-c.settledSlots() && shock <= float64(after.Slot)) {
			c.atMost(x.toS, math.Abs(after.PropulsionMultiplier/before.PropulsionMultiplier-1), share,
				"flying cost %.2f of the formula before the leader was away, and %.2f after that", before.PropulsionMultiplier,
				after.PropulsionMultiplier)
		}
		was, is := 0.0, 0.0 // at most, of the last and the first beacons: in one of them nobody would take an offer
		for b := range pointers(c.beacons) {
			switch {
			case b.timeS > x.fromS-lastS && b.timeS < x.fromS:
				was = max(was, expected(b))
			case b.timeS > x.toS && b.timeS < c.firstStatusAfter(x.toS)+lastS:
				is = max(is, expected(b))
			}
		}
		if is > 0 {
			c.atMost(x.toS, was-is, part*was+one, "offers were made for %.1f users before the leader was away, and for %.1f then", was, is)
		}
	}
}

// takersKept: after a restart users without a report count as before, where nobody reports and no more of them come than once
// reported in a slot.
func (c *check) takersKept() {
	// A result of a longer task may come after its row, and in the first slots of a loss of reports some have a decision.
	const share, slackS, resultS, silentS, soonS = 0.03, 0.1, 4, 4, 0.5
	reported, came, tookS, most := map[int]int{}, map[int]int{}, map[int]float64{}, 0
	opened := c.opened()
	for key, r := range c.reports {
		if b := opened[key.slot]; b != nil && r.Task != nil && c.inTime(&r, b) {
			reported[key.slot]++
			most = max(most, reported[key.slot])
		}
	}
	for _, t := range c.tasks {
		if came[t.Slot]++; t.DelayS < soonS {
			tookS[t.Slot] += t.DelayS
		}
	}
	down, lost := c.fault(0, record.LeaderDown), c.fault(0, "report_loss")
	for _, r := range c.rows() {
		fromS := c.epochS + float64(r.Slot)
		restarted := slices.ContainsFunc(down, func(x span) bool { return c.firstStatusAfter(x.toS) < fromS })
		loss, ok := lost.at(fromS)
		if ok && restarted && loss.fromS < fromS-silentS && loss.toS > fromS && !r.Missed && came[r.Slot] <= most &&
			!down.touches(fromS, fromS+resultS) && !c.excusesFrom(fromS, fromS+resultS, "broker away", "disk stands", "strangers") {
			c.atMost(fromS, tookS[r.Slot]-r.DelayS, share*tookS[r.Slot]+slackS, "the ledger has %.2f s of delay in slot %d after a "+
				"restart, its tasks took %.2f s", r.DelayS, r.Slot, tookS[r.Slot])
		}
	}
}

// planKept: of those that were planned for the plan tells until when each was to fly, in what is decided after a restart.
func (c *check) planKept() {
	c.recordedSlots(func(part int, x *decided.Slot) {
		if part > 0 && len(x.Plans) > 0 && x.Plans[0].Begins != nil {
			b := x.Plans[0].Begins
			c.holds(c.epochS+float64(x.Snapshot.Slot), len(b.Until) == len(b.Leaving), "from a restart before slot %d on the plan "+
				"has %d aircraft, and until when %d fly", x.Snapshot.Slot, len(b.Leaving), len(b.Until))
		}
	})
}

// recordedSlots calls f with what each leader recorded of the slots that it decided, and which leader that was.
func (c *check) recordedSlots(f func(part int, x *decided.Slot)) {
	for k, part := range c.recorded {
		in, err := decided.NewReader(bytes.NewReader(part))
		for err == nil {
			var x decided.Slot
			if x, err = in.Next(); err == nil {
				f(k, &x)
			}
		}
	}
}

// measuredFlight: what moves the mean of what flying costs is of flights as they were, each to what it says of its own error.
func (c *check) measuredFlight() {
	const errors, share, slackJ, lateS = 3, 0.04, 20, 3
	if w := c.World; w == nil || w.Wind.MeanMaxMPS > 0 || w.Gust > 0 || w.SecondShock.Factor > 0 {
		return
	}
	cheap, dear := c.powerRange()
	leastGain, mostGain, monitorS := math.Inf(1), 0.0, 0.0
	for _, a := range c.aircraft {
		leastGain, mostGain, monitorS = min(leastGain, a.gain()), max(mostGain, a.gain()), max(monitorS, a.MonitorS)
	}
	c.recordedSlots(func(_ int, x *decided.Slot) {
		slot := float64(x.Snapshot.Slot)
		for _, e := range x.Events {
			if e.Settle == nil || e.Settle.Measured == nil || e.Settle.Measured.ModelFlightJ == 0 || slot < c.settledSlots() {
				continue
			}
			m := e.Settle.Measured
			fromSlot := slot - float64(m.Slots) - lateS - 2*monitorS
			if c.excusesFrom(c.epochS+fromSlot, c.epochS+slot+1, "wrong sample") { // where it flew is not known
				continue
			}
			from, to := c.powerFactor(fromSlot), c.powerFactor(slot+1)
			least := cheap * leastGain * min(from, to) * m.ModelFlightJ
			most := dear * mostGain * max(from, to) * m.ModelFlightJ
			flightJ := m.EnergyJ - m.EdgeJ
			c.atMost(c.epochS+slot+1, max(least-flightJ, flightJ-most, 0), errors*math.Hypot(m.ErrorJ, m.LateJ)+share*most+slackJ,
				"%.0f J of %d slots are measured as flight in slot %.0f, it took %.0f to %.0f", flightJ, m.Slots, slot, least, most)
		}
	})
}

// toldPower: a budget means something else where flying costs so much more.
func (c *check) toldPower() {
	const dear, leastSlots, leftSlots, word = 1.5, 12, 2, "flight"
	if !c.calm() || !c.costsTheFormula() {
		return
	}
	for _, s := range c.statuses {
		slot := float64(s.Slot)
		if s.State != telemetry.StateFlying || slot < max(leastSlots, c.shockSlot()+2*c.settledSlots()) || c.powerFactor(slot) < dear ||
			c.Slots-s.Slot <= leftSlots || c.shockUnread(s.timeS) ||
			c.excusesAny(0, s.timeS, "battery misread", "leader away", "link cut", "disk stands", "late datagrams") {
			continue
		}
		c.holds(s.timeS, strings.Contains(s.Reason, word), "the status after slot %d does not say that flying costs %.1f of the formula",
			s.Slot, c.powerFactor(slot))
	}
}

// measuredCost: joules that the model supplied never measure the model, so that no gap excuses it.
func (c *check) measuredCost() {
	const share, monitorShare, offersShare, knownSlots, lasts = 0.1, 0.01, 0.03, 11, 4
	if w := c.World; w == nil || w.Wind.MeanMaxMPS > 0 || w.Gust > 0 || w.SecondShock.Factor > 0 || !c.costsTheFormula() {
		return
	}
	least, most, monitorS := math.Inf(1), 0.0, 0.0
	for _, a := range c.aircraft {
		least, most, monitorS = min(least, a.gain()), max(most, a.gain()), max(monitorS, a.MonitorS)
	}
	wrong, offers := 0, c.fault(0, "report_loss", "forged_result") // which are not known to have been taken
	for _, r := range c.rows() {
		endS := c.epochS + float64(r.Slot+1)
		flies := slices.ContainsFunc(c.aircraft, func(a *aircraft) bool { return a.inAir.contains(endS) })
		sinceSlots := float64(r.Slot) - c.shockSlot()
		anew := sinceSlots >= -1 && sinceSlots < knownSlots+2*monitorS
		if float64(r.Slot) < c.settledSlots() || anew || r.Missed || !flies || c.shockUnread(endS) ||
			c.excusesFrom(endS-costKnownS, endS, "broker away", "late datagrams", "disk stands") {
			wrong = 0
			continue
		}
		truth := c.powerFactor(float64(r.Slot))
		x, bound := r.PropulsionMultiplier/truth, share+monitorShare*monitorS
		if offers.touches(endS-costKnownS, endS) {
			bound += offersShare
		}
		c.lasting(&wrong, lasts, endS, max(x-most, least-x), bound, "the ledger has a multiplier of %.2f in slot %d, flying costs %.2f of "+
			"the formula", r.PropulsionMultiplier, r.Slot, truth)
	}
}

// measuredOften: what its ends may not show of the computing keeps a measurement of what flying costs open for a few seconds, and what
// users of the offer take evens out. Each moves the mean, but one that is doubtful.
func (c *check) measuredOften() {
	const most, settlesS, readings = 7, 3, 2
	var since, before float64
	for _, r := range c.rows() {
		endS := c.epochS + float64(r.Slot+1)
		steady, monitorS := !r.Missed && !c.excusesFrom(endS-settlesS, endS, "leader away", "disk stands", "link cut", "battery misread",
			"late datagrams", "wrong sample", "lost heartbeats"), 0.0
		for _, a := range c.aircraft {
			x, ok := a.commanded().at(endS)
			steady = steady && ok && x.fromS < endS-settlesS && !c.homeward(a).contains(endS) && !c.unread(a).touches(endS-settlesS, endS)
			monitorS = max(monitorS, a.MonitorS)
		}
		if since++; !steady || r.PropulsionMultiplier != before {
			since, before = 0, r.PropulsionMultiplier
		} else {
			c.atMost(endS, since, most+readings*monitorS, "in slot %d the ledger has a multiplier of %.3f for the last %.0f slots", r.Slot,
				r.PropulsionMultiplier, since)
		}
	}
}

// shockUnread reports whether flying came to cost more while a battery could not be read, so recently that it is not measured yet.
func (c *check) shockUnread(timeS float64) bool {
	shockS := c.epochS + c.shockSlot()
	for _, a := range c.aircraft {
		for _, x := range c.unread(a).wider(0, c.settledSlots()) {
			if shockS < timeS && x.fromS-costKnownS < shockS && x.toS > timeS {
				c.finding.Assumed["not measured"]++
				return true
			}
		}
	}
	return false
}

// farFromHome is of one that flies in the slots: what it takes from there is what the crew decides by.
func (c *check) farFromHome() {
	const slackJ = 1000.0 // of an arrival, which is shorter near home
	const nearM, stillMPS, overHomeS = 3, 1, 2
	const soonS = 1.5 // it may be in its descent by then, of which "told way home" is
	if c.World == nil {
		return
	}
	least, most, wait := 0.95, 1.07, 1.1
	if len(c.end.WindMPS) > 0 { // a wait in it may be flown in calm air, and any likely wind may blow against the way
		least, most, wait = 0.8, 2.3, 1.375
	}
	cheap, dear := c.powerRange()
	c.toldOfPacks(func(s *status, t *telemetry.StatusAircraft, a *aircraft, _ *telemetry.Pack) {
		now := a.at(s.timeS)
		if t.HomeJ == nil || now.Mode != offboard || a.at(s.timeS+soonS).Mode != offboard ||
			!c.foresees(s, a.number) {
			return
		}
		p := c.flightOf(a, now)
		homeJ, off := p.leastHomeJ(now), math.Abs(a.gain()-1)+0.01*a.MonitorS
		hoverW := p.powerW(s.timeS, physics.Position{})
		waitJ := wait * dear * c.waitsS(a, s.timeS) * hoverW
		home, _ := a.homeAt(s.timeS)
		stands := horizontalM(sub(home, now.PositionM)) < nearM && now.speedMPS() < stillMPS
		if stands && waitJ == 0 && off == 0 && c.calm() && c.costsTheFormula() && c.powerFactor(c.slotAt(s.timeS)) == 1 && !a.isCopter() {
			c.atMost(s.timeS, *t.HomeJ, homeJ+overHomeS*hoverW,
				"the status has %.0f J of a landing for aircraft %d over its home, it takes %.0f", *t.HomeJ, a.number, homeJ)
		}
		c.atMost(s.timeS, (least*cheap-off)*homeJ-slackJ, *t.HomeJ,
			"the status has %.0f J of a way home for aircraft %d, it takes %.0f at least", *t.HomeJ, a.number, homeJ)
		c.atMost(s.timeS, *t.HomeJ, (most*dear+off)*homeJ+waitJ+slackJ,
			"the status has %.0f J of a way home for aircraft %d, it takes %.0f", *t.HomeJ, a.number, homeJ)
	})
}

// leavesInTime is of one that serves: its pack has its way home, and the reserve by joules. Those that fly beside it may land first.
func (c *check) leavesInTime() {
	const slackJ, knownS = 2000.0, 5
	if c.World == nil {
		return
	}
	share := 0.95
	if len(c.end.WindMPS) > 0 {
		share = 0.8
	}
	led, off := make([]spans, len(c.aircraft)), 0.0
	for i, a := range c.aircraft {
		off = max(off, math.Abs(a.gain()-1))
		led[i] = c.disturbed(a, c.surelyLed(a).and(a.inAir)).from(knownS)
	}
	c.told(func(s *status, t *telemetry.StatusAircraft, a *aircraft, _ float64) {
		now := a.at(s.timeS)
		if t.Duty != telemetry.DutyServing || now.Mode != offboard || now.PackJ == 0 || !led[a.number-1].contains(s.timeS) ||
			!c.foresees(s, a.number) {
			return
		}
		p := c.flightOf(a, now)
		beside := func(o *aircraft) bool { return led[o.number-1].contains(s.timeS) }
		homeJ := p.leastHomeJ(now) + c.waitsFor(a, s.timeS, beside)*p.powerW(s.timeS, physics.Position{})
		// What flying costs is measured by the sensors of all.
		sensorJ := math.Abs(a.gain()-1)*now.SpentJ + off*homeJ + 2*heldErrorW*a.MonitorS
		// What a used pack holds is known in whole per cent, as it is fitted and now.
		if first := &a.states[0]; first.LeftJ < 0.99*first.PackJ {
			sensorJ += 0.02 * now.PackJ
		}
		pack, _ := c.kept(a, s.timeS)
		least := keptJ(pack, now) + share*homeJ - slackJ - sensorJ
		if math.IsNaN(least) { // an attached autopilot's
			return
		}
		c.atMost(s.timeS, least, max(now.LeftJ, 1e-9), "aircraft %d serves with %.0f J left, its way home and its reserve take %.0f",
			a.number, now.LeftJ, least)
	})
}

// foresees reports whether a leader in flight knows what flying costs, and nothing hides it; 0: of any aircraft.
func (c *check) foresees(s *status, number int) bool {
	slot := int(c.slotAt(s.timeS))
	return (s.State == telemetry.StateFlying || s.State == telemetry.StateHolding) && c.slotAt(s.timeS) >= c.settledSlots() &&
		!c.costsAnew(slot) && !c.costsAnew(slot-1) &&
		!c.excusesAny(number, s.timeS, "leader away", "link cut", "wrong sample", "late datagrams", "disk stands", "battery misread")
}

func (c *check) floorToTouchdown() {
	const share, slackJ = 0.08, 1000.0 // of each
	if c.World == nil || !c.calm() {
		return
	}
	_, bestW := c.Physics.MinPower()
	for s := range pointers(c.statuses) {
		b, slot := c.packsFrom(s.timeS), c.slotAt(s.timeS)
		if b == nil || b.Scope != telemetry.ScopeLanded || !c.foresees(s, 0) {
			continue
		}
		if until := s.CoveredUntilSlot; until != nil && *until < c.Slots-1 {
			continue // the packs do not last: the floor is to where they end
		}
		drawn, descents, ways, off, up := 0.0, 0.0, 0.0, 0.0, 0
		for _, a := range c.aircraft {
			now := a.at(s.timeS)
			drawn += a.spentJ(s.timeS)
			off = max(off, math.Abs(a.gain()-1)+0.01*a.MonitorS)
			if now.OnGround {
				continue
			}
			p := c.flightOf(a, now)
			homeJ := p.leastHomeJ(now)
			ways += homeJ + c.waitsS(a, s.timeS)*p.powerW(s.timeS, physics.Position{})
			over := *now
			home, _ := a.homeAt(s.timeS)
			over.PositionM[0], over.PositionM[1] = home[0], home[1]
			descents += p.leastHomeJ(&over)
			if now.Mode == offboard && a.isLed(s.timeS) && !c.homeward(a).contains(s.timeS) {
				up++
			}
		}
		if up < leastUp(b) || up == 0 {
			continue
		}
		staysJ := float64(leastUp(b)) * c.powerFactor(slot) * bestW * float64(c.Slots-1-s.Slot)
		least := drawn + (1-share-off)*(staysJ+descents) - slackJ*float64(len(c.aircraft)) - off*drawn
		c.atMost(s.timeS, least, s.FloorJ, "the status after slot %d has a floor of %.0f J, of %.0f that will be drawn at least", s.Slot,
			s.FloorJ, least)
		most := drawn + (1+share+off)*(staysJ+ways) + c.unclearAirJ(ways, s.timeS) + slackJ*float64(len(c.aircraft)) + off*drawn
		c.atMost(s.timeS, s.FloorJ, most, "the status after slot %d has a floor of %.0f J, of %.0f that need be drawn at most", s.Slot,
			s.FloorJ, most)
	}
}

func (c *check) keptUp() {
	c.toldOfPacks(func(s *status, t *telemetry.StatusAircraft, a *aircraft, _ *telemetry.Pack) {
		if b := c.packsFrom(s.timeS); b.StandDown != telemetry.StandDownLand {
			c.holds(s.timeS, t.FliesUntilSlot == nil, "the status has aircraft %d fly until a slot, and the crew lets none land", a.number)
		}
	})
}

// stalledLoop: an ArduCopter hovers in GUIDED for as long as it has HEARTBEATs.
func (c *check) stalledLoop() {
	const endS, commitS, clearM = 12, 2, 13.0
	decidedS := c.decidedS()
	for _, a := range c.aircraft {
		if !a.isCopter() || c.SharedLink {
			continue
		}
		for g := range a.receives((*arrival).isHeartbeat) {
			last, _ := slices.BinarySearch(decidedS, g.timeS)
			if g.Mode == offboard && a.isLed(g.timeS) && a.inAir.contains(g.timeS) && last > 0 &&
				c.wayHomeM(a, g.timeS) >= clearM+2*a.toldM() && !c.excusesAny(a.number, g.timeS, "broker away", "leader away") {
				ageS := g.timeS - decidedS[last-1]
				c.atMost(g.timeS, ageS, endS+commitS+a.linkSlackS(), "aircraft %d has a HEARTBEAT of its leader, which decided nothing "+
					"for %.1f s", a.number, ageS)
			}
		}
	}
}

// wayHomeM is how near the straight way home of an aircraft leads to another in the air or, of those that come home likewise, its way.
func (c *check) wayHomeM(a *aircraft, timeS float64) float64 {
	const steps = 64
	home, ok := a.homeAt(timeS)
	nearestM, at := math.Inf(1), a.at(timeS).PositionM
	way := sub(home, at)
	for _, b := range c.aircraft {
		if b == a || !ok || !b.inAir.contains(timeS) {
			continue
		}
		from := b.at(timeS).PositionM
		to, ok := b.homeAt(timeS)
		if !ok || !b.isCopter() && b.at(timeS).Mode != rtl {
			to = from
		}
		for k := range steps + 1 {
			p := sub(from, at)
			for d := range p {
				p[d] += float64(k) / steps * (to[d] - from[d])
			}
			share := min(max((p[0]*way[0]+p[1]*way[1])/max(way[0]*way[0]+way[1]*way[1], 1e-9), 0), 1)
			nearestM = min(nearestM, math.Hypot(p[0]-share*way[0], p[1]-share*way[1]))
		}
	}
	return nearestM
}

func (c *check) toldHeight() {
	const knownS, leastM = 3, 12
	for _, x := range c.faults {
		metres, _ := strconv.ParseFloat(x.text, 64)
		if x.kind != record.HeightJump || math.Abs(metres) < leastM {
			continue
		}
		a := c.aircraft[x.aircraft-1]
		c.told(func(s *status, t *telemetry.StatusAircraft, b *aircraft, _ float64) {
			if now := a.at(s.timeS); b != a || s.timeS < x.fromS+knownS || now.Landed || !now.Armed || c.jumpedM(a, s.timeS) == 0 ||
				c.excusesAny(a.number, s.timeS, "leader away", "link cut", "late datagrams", "wrong sample", "wrong land detector") {
				return
			}
			c.holds(s.timeS, slices.ContainsFunc(s.Dangers, func(d telemetry.Danger) bool {
				return d.Aircraft == a.number && strings.Contains(d.Text, "jumped")
			}), "the height of aircraft %d jumped by %.0f m, and no danger says so", a.number, metres)
		})
	}
}
