package judge

import (
	"math"
	"slices"
	"strings"

	"prefdt/simbridge/record"
	"prefdt/telemetry"
)

// controlRules are of who commands an aircraft: what the crew is told of that, and what it can change.
var controlRules = []Rule{
	{"told crew", "statuses, heartbeats delivered, the crew's silence", "no age of the crew before its first heartbeat; after 12 s of " +
		"heartbeats 4 s, and a quarter of a second over the last one's; no less than its silence but 2 s",
		contract + "crew's heartbeat", (*check).toldCrew},
	{"told duty", "statuses, true modes, orders",
		"one that its pilot has serves nobody and is not on its way; one in OFFBOARD has a duty, and one that its leader lands leaves, " +
			"until it is down",
		contract + "status", (*check).toldDuty},
	{"given back", "answers to resume, true modes", "none is refused for one that its pilot has had in the air for 5 s, nor accepted " +
		"where none had one in the last 15 s", contract + "resume; pilots and failsafes", (*check).givenBack},
	{"obeyed", "accepted resumes and returns, true modes and positions", "12 s until one in the air follows setpoints, climbs or " +
		"lands; 8 s until one that is called alone is nearer to its home, what an ArduCopter flies on before it turns besides; none is " +
		"resumed as it touches down", contract + "answers", (*check).obeyed},
	{"returns", "answers to return, true modes", "none is refused of a stopped fleet whose HEARTBEATs show it in Hold; one of named " +
		"aircraft is overtaken by the flight's end alone", contract + "return; commands", (*check).returns},
	{"acts", "answers to hold, return and stop, true modes", "none is refused while one has flown for the leader for 5 s",
		contract + "dangers and refusals", (*check).acts},
}

// obeyed: an accepted command is in force. A return waits for no disk, so that it counts from when it is delivered.
func (c *check) obeyed() {
	const withinS, soonS, touchesM = 12, 2.5, 5
	for _, o := range c.missionOrders(telemetry.ActionResume, telemetry.ActionReturn) {
		fromS, returns := o.answeredS, o.mission.Action == telemetry.ActionReturn
		if returns {
			fromS = o.deliveredS
		}
		for _, a := range c.aircraft {
			s := a.at(fromS)
			if returns && len(o.mission.Aircraft) > 0 && o.names(a.number) {
				c.comesNearer(a, o)
			}
			if !o.names(a.number) || !s.Armed || s.OnGround || s.Mode == offboard || s.Mode == takeoff ||
				c.fault(a.number, "link_loss").contains(o.deliveredS) ||
				returns && (s.Mode != hold || !a.led.contains(fromS-record.PeriodS)) { // one with its pilot is left alone
				continue
			}
			if s.Mode == land && !returns {
				c.atMost(fromS, touchesM, s.heightM(), "aircraft %d is resumed %.1f m above the ground as it lands", a.number, s.heightM())
			}
			boundS := min(withinS, c.nextOrderS(a.number, fromS, telemetry.ActionResume, telemetry.ActionReturn, telemetry.ActionStop,
				telemetry.ActionLaunch)-fromS)
			if s.PositionM[2] < c.Physics.AltitudeM-climbFirstM && c.near(a, aloneM).contains(fromS) {
				c.finding.Assumed["another is near"]++ // it waits to climb until that hovers
				continue
			}
			if boundS < soonS || a.led.not().touches(fromS+record.PeriodS, fromS+boundS) ||
				c.excusesFrom(fromS, fromS+boundS, "leader away", "lost heartbeats", "late datagrams", "station silent") ||
				c.fault(a.number, "link_loss", record.RefusesMode).touches(fromS, fromS+boundS) ||
				c.excuses("mode refused", a.number, fromS) {
				continue
			}
			follows := a.in(func(s *state) bool {
				return s.Armed && (s.Mode == offboard || s.Mode == takeoff || s.Mode == land && s.timeS > fromS+1)
			}).and(spans{{fromS, c.endS}})
			c.within(fromS, follows.firstS(), boundS, "aircraft %d stays in %s, and %s was accepted", a.number, s.Mode, o.body)
		}
	}
}

// comesNearer is of one that is called home alone, while it follows setpoints.
func (c *check) comesNearer(a *aircraft, o *order) {
	const soonS, backMPS, nearM, nearerM, besideM = 8, 5, 15, 2, 60
	withinS := soonS + 2*a.stopsInM/backMPS // it flies on before it turns
	whole := spans{{o.answeredS - 1, o.answeredS + withinS}}
	home, ok := a.homeAt(o.answeredS)
	before, after := a.at(o.answeredS), a.at(o.answeredS+withinS)
	fromM := horizontalM(sub(before.PositionM, home))
	if !ok || fromM < nearM || whole[0].toS > c.endS || after.Mode == land || after.OnGround ||
		len(whole.without(a.commanded())) > 0 ||
		len(whole.and(c.near(a, besideM))) > 0 || c.excusesFrom(whole[0].fromS, whole[0].toS, "leader away", "link cut", "lost heartbeats",
		"late datagrams", "station silent", "low pack", "comes home by itself") {
		return
	}
	c.finding.Active++
	if d := horizontalM(sub(after.PositionM, home)); d > fromM-nearerM {
		c.breakAt(o.answeredS, "aircraft %d is %.0f m from its home, %.0f s after it was called there from %.0f m", a.number, d, withinS,
			fromM)
	}
}

func (c *check) returns() {
	const quietS, highM = 5, 15
	for _, o := range c.genuine() {
		if overtaken := strings.HasPrefix(o.answer.Reason, "overtaken"); overtaken && o.mission.Action == telemetry.ActionReturn &&
			!c.excusesFrom(o.sentS, o.answeredS, "comes home by itself", "contact lost") {
			c.holds(o.answeredS, c.slotsEndS() < o.answeredS, "%s is refused, and the slots go on: %s", o.body, o.answer.Reason)
		}
		if o.mission.Action != telemetry.ActionReturn || len(o.mission.Aircraft) > 0 || math.IsInf(o.answeredS, 1) ||
			c.stateAt(o.deliveredS) != telemetry.StateStopped {
			continue
		}
		quiet, hovers := spans{{o.deliveredS - quietS, o.answeredS}}, false
		for _, a := range c.aircraft {
			if s := a.at(o.deliveredS); len(quiet.without(c.disturbed(a, quiet))) > 0 || len(quiet.without(a.led)) > 0 ||
				s.Armed && (s.Mode != hold || s.PositionM[2] < highM) {
				hovers = false
				break
			}
			shown := a.beatsThat(func(h *heartbeat) bool { return h.Armed && h.Mode == hold })
			hovers = hovers || shown.contains(o.deliveredS-a.LinkS)
		}
		if hovers {
			c.holds(o.answeredS, o.accepted, "%s is refused, and aircraft hover: %s", o.body, o.answer.Reason)
		}
	}
}

// acts: hold, return and stop are obeyed in every state while an aircraft flies for the leader.
func (c *check) acts() {
	const forS, highM = 5, 5
	for _, o := range c.genuine() {
		during := spans{{o.deliveredS - forS, o.answeredS}}
		if !slices.Contains([]string{telemetry.ActionHold, telemetry.ActionReturn, telemetry.ActionStop}, o.mission.Action) ||
			len(o.mission.Aircraft) > 0 || math.IsInf(o.answeredS, 1) || len(c.fault(0, record.LeaderDown).and(during)) > 0 {
			continue
		}
		flies := slices.ContainsFunc(c.aircraft, func(a *aircraft) bool {
			return len(during.without(a.offboard.and(c.surelyLed(a)))) == 0 && a.at(o.deliveredS).heightM() > highM &&
				len(during.without(c.disturbed(a, during))) == 0
		})
		if flies {
			c.holds(o.answeredS, o.accepted, "%s is refused, and an aircraft flies for the leader: %s", o.body, o.answer.Reason)
		}
	}
}

// heardFor is when heartbeats of the crew have been delivered to one running leader for some seconds, three apart at most.
func (f *flight) heardFor(forS float64) spans {
	const apartS = 3
	var all []span
	for _, t := range f.heartbeatsS {
		all = append(all, span{t, t + apartS*f.Speed})
	}
	away := f.fault(0, record.LeaderDown, record.BrokerDown, record.CrewSilent, "disk_stall", "disk_refuses")
	return newSpans(all...).without(away).from(forS)
}

// toldCrew: by its age the crew sees whether its heartbeats arrive, before the mission holds or returns.
func (c *check) toldCrew() {
	const lastsS, mostS, slackS = 12, 4, 2
	const soonS, readS, tickS = 0.5, 0.25, 2 // until one that was delivered is read, and told; a command counts from a tick on
	heard, silent := c.heardFor(lastsS*c.Speed), c.fault(0, record.CrewSilent)
	for _, s := range c.statuses {
		if s.timeS < c.heardS {
			c.holds(s.timeS, s.CrewAgeS == nil, "the status has heard the crew, of which nothing was delivered yet")
			continue
		}
		if heard.contains(s.timeS) {
			ok := s.CrewAgeS != nil && *s.CrewAgeS <= mostS
			c.holds(s.timeS, ok, "the status has not heard the crew for %v s, whose heartbeats arrive", valueOf(s.CrewAgeS))
			if k, _ := slices.BinarySearch(c.heartbeatsS, s.timeS-soonS*c.Speed); ok && k > 0 &&
				!c.commandedFrom(s.timeS-tickS*c.Speed, s.timeS) {
				c.atMost(s.timeS, *s.CrewAgeS, (s.timeS-c.heartbeatsS[k-1])/c.Speed+readS, "the status has not heard the crew for "+
					"%.1f s, whose last heartbeat came at %.1f s", *s.CrewAgeS, c.heartbeatsS[k-1])
			}
		}
		x, now := silent.at(s.timeS)
		commanded := slices.ContainsFunc(c.orders, func(o *order) bool { // which is contact
			return o.answeredS > x.fromS && o.sentS < s.timeS && o.sentS > x.fromS-slackS*c.Speed
		})
		if now && s.CrewAgeS != nil && !commanded {
			leastS := (s.timeS-x.fromS)/c.Speed - slackS
			c.holds(s.timeS, *s.CrewAgeS >= leastS, "the status has heard the crew %.1f s ago, which is silent since %.1f s", *s.CrewAgeS,
				x.fromS)
		}
	}
}

// commandedFrom reports whether commands came to the leader, which are contact as well.
func (c *check) commandedFrom(fromS, toS float64) bool {
	return c.fault(0, "command_storm").wider(0, toS-fromS).touches(fromS, toS) || slices.ContainsFunc(c.orders, func(o *order) bool {
		return o.sentS < toS && !(o.answeredS < fromS)
	})
}

// disturbed are when what the leader knows of an aircraft may be old, or it has just begun to know it.
func (c *check) disturbed(a *aircraft, in spans) spans {
	return c.assumeAll(a, in, "leader away", "link cut", "lost heartbeats", "late datagrams", "station silent", "disk stands",
		"late climb", "low pack", "comes home by itself")
}

// perhapsLost is from a link cut on that lasted so long that its leader may count the aircraft as lost or not, until it is given back.
func (c *check) perhapsLost(a *aircraft) (lost spans) {
	for _, x := range c.fault(a.number, "link_loss") {
		if lastedS := x.toS - x.fromS; lastedS > lostS-1 && lastedS <= lostS+1 {
			lost = append(lost, span{x.fromS, c.givenBackS(a, x.toS)})
		}
	}
	return newSpans(lost...)
}

// surelyLed is when an aircraft is its leader's, whatever that makes of a link that was cut.
func (c *check) surelyLed(a *aircraft) spans { return a.led.without(c.perhapsLost(a)) }

// certain is when an aircraft has been its leader's, and when its pilot's, for some seconds, as both know.
func (c *check) certain(a *aircraft) (led, piloted spans) {
	const knownS = 3
	led = c.surelyLed(a)
	for _, t := range a.notLed {
		piloted = append(piloted, span{t.knownS, t.toS})
	}
	piloted = newSpans(piloted...)
	for k := range a.states { // its autopilot acts by itself
		if s := &a.states[k]; s.Failsafe {
			led = led.without(spans{{s.timeS, s.timeS + 2*knownS}})
		}
	}
	// What is written of a command comes before its answer.
	for _, o := range c.missionOrders(telemetry.ActionResume, telemetry.ActionLaunch, telemetry.ActionStart, telemetry.ActionReturn,
		telemetry.ActionStop) {
		moment := spans{{o.sentS, o.answeredS + knownS}}
		led, piloted = led.without(moment), piloted.without(moment)
	}
	return led.from(knownS), piloted.from(knownS)
}

func (c *check) toldDuty() {
	const lastsS, downS = 3, 45 // also of one whose motors turn on
	tells := slices.ContainsFunc(c.statuses, func(s status) bool {
		return slices.ContainsFunc(s.Aircraft, func(t telemetry.StatusAircraft) bool { return t.Duty != "" })
	})
	if !tells && len(c.beacons) == 0 { // it never flew
		return
	}
	type who struct{ lands, flies, piloted, down spans }
	all := map[int]who{}
	for _, a := range c.aircraft {
		led, piloted := c.certain(a)
		led, piloted = c.disturbed(a, led), c.disturbed(a, piloted)
		lands := a.in(func(s *state) bool { return s.Mode == land && s.Armed && s.heightM() > 1 }).from(lastsS)
		stands := a.in(func(s *state) bool { return s.OnGround && s.Mode != offboard && s.Mode != takeoff })
		all[a.number] = who{lands.and(led), a.offboard.from(lastsS).and(led), piloted, c.disturbed(a, stands.from(downS))}
	}
	stoppedS := c.firstStopS()
	c.told(func(s *status, t *telemetry.StatusAircraft, a *aircraft, _ float64) {
		w := all[a.number]
		stopped := s.timeS >= stoppedS // one that lands then goes on, and is nobody's
		switch {
		case w.piloted.contains(s.timeS):
			ok := t.Duty != telemetry.DutyServing && t.Duty != telemetry.DutyLeaving
			c.holds(s.timeS, ok, "the status has aircraft %d %s, which is its pilot's", t.Number, t.Duty)
		case w.down.contains(s.timeS):
			c.holds(s.timeS, t.Duty != telemetry.DutyLeaving, "the status has aircraft %d leaving, which is on the ground for %d s",
				t.Number, downS)
		case stopped:
		case w.lands.contains(s.timeS):
			c.holds(s.timeS, t.Duty == telemetry.DutyLeaving, "the status has the duty %q of aircraft %d, which its leader lands (%s)",
				t.Duty, t.Number, t.Reason)
		case w.flies.contains(s.timeS) && s.State != telemetry.StateClimbing:
			c.holds(s.timeS, t.Duty == telemetry.DutyServing || t.Duty == telemetry.DutyLeaving,
				"the status has the duty %q of aircraft %d, which flies for its leader (%s)", t.Duty, t.Number, t.Reason)
		}
	})
}

// givenBack is of a resume that the crew gives while nothing else happens: all that it names must have been their pilots', or one of
// all where it names none.
func (c *check) givenBack() {
	const hadS, highM = 5, 15
	known := map[int]spans{}
	for _, a := range c.aircraft {
		_, piloted := c.certain(a)
		up := a.in(func(s *state) bool {
			return s.Armed && !s.OnGround && s.heightM() > highM && s.Mode != takeoff && !s.Failsafe
		}).from(hadS)
		known[a.number] = c.disturbed(a, piloted).and(up)
	}
	for _, o := range c.genuine() {
		if o.mission.Action != telemetry.ActionResume || math.IsInf(o.answeredS, 1) || o.answeredS > o.deliveredS+1 ||
			c.stateAt(o.deliveredS) == telemetry.StateStopped || c.stateAt(o.deliveredS) == telemetry.StateIdle {
			continue
		}
		held := c.stateAt(o.deliveredS) == telemetry.StateHolding ||
			c.stateAt(o.deliveredS) == telemetry.StateClimbing && c.crewHolds().touches(o.deliveredS-1, o.deliveredS)
		if !held && o.accepted {
			given := slices.ContainsFunc(c.aircraft, func(a *aircraft) bool { return o.names(a.number) && c.mayBePilots(a, o.answeredS) })
			c.holds(o.answeredS, given, "%s is accepted, and no pilot had what it gives back", o.body)
			continue
		}
		theirs := 0
		for _, a := range c.aircraft {
			if o.names(a.number) && known[a.number].contains(o.deliveredS) && known[a.number].contains(o.answeredS) {
				theirs++
			}
		}
		if theirs > 0 && theirs >= len(o.mission.Aircraft) {
			c.holds(o.answeredS, o.accepted, "%s is refused, and a pilot has what it gives back: %s", o.body, o.answer.Reason)
		}
	}
}

// mayBePilots is whether an aircraft was its pilot's lately, or its leader may take it for that. A gap in the setpoints is no reason: its
// autopilot's hold ends by the next ones.
func (c *check) mayBePilots(a *aircraft, timeS float64) bool {
	const latelyS, engagesS = 15, 2
	holds := a.at(timeS).Mode == hold && a.in(func(s *state) bool { return s.Mode == takeoff }).touches(timeS-engagesS, timeS)
	if holds || a.led.not().touches(timeS-latelyS, timeS) || c.excusesAny(a.number, timeS, "lost heartbeats", "late datagrams",
		"station silent", "late climb", "low pack", "arming refused", "stream over") {
		return true
	}
	return slices.ContainsFunc(c.fault(a.number, "link_loss"), func(x span) bool {
		return x.toS-x.fromS > lostS-1 && x.fromS <= timeS && x.toS >= timeS-latelyS
	})
}
