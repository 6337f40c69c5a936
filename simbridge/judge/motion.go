package judge

import (
	"fmt"
	"math"
	"slices"

	"prefdt/inference/physics"
	"prefdt/simbridge/record"
	"prefdt/telemetry"
)

const contract = "docs/wire.md, "

// motionRules are of where aircraft fly and land, by their true motion.
var motionRules = []Rule{
	{"separation", "true positions of two, one of them led and in the air", "8 m horizontally, within 20 m of height",
		"paper, D_min, less what a gust or a late setpoint takes", func(c *check) { c.separation(8) }},
	{"least separation", "the same", "9.5 m likewise", "paper, D_min; " + contract + "MAVLink",
		func(c *check) { c.separation(c.Physics.SeparationM - 0.5) }},
	{"fence", "true position, led and in the air", "5 m outside; 30 m beyond a home outside", contract + "fence", (*check).fence},
	{"height", "true height, led", "8 m above H in any mode; 8 m off H in OFFBOARD, 10 s and a climb after it began; 6 m more after " +
		"a reported height that jumped, 19 m if positions had no fix then; 25 m below H as the slots begin, and in OFFBOARD at over 3 m/s",
		"the simulated aircraft overshoots to 106.7 m", (*check).height},
	{"speed", "true speed, in OFFBOARD for 3 s", "the lesser limit of configuration and autopilot, a tenth and 1 m/s", contract + "V_max",
		(*check).speed},
	{"hold", "true speed, 10 s after a hold", "0.75 m/s", contract + "hold", (*check).still},
	{"hold drifts", "true position in a hold", "7.5 m from where it came to rest, or back from where it came " +
		"farthest, 1.5 m from where it was 10 s after the hold",
		contract + "hold", (*check).drift},
	{"moves on", "true motion of the fleet after a resume", "4 m in 12 s", contract + "resume", (*check).movesOn},
	{"stop", "true mode, answers", "neither OFFBOARD nor a take-off 6 s after a stop, which no fleet that is started refuses; no PX4 " +
		"is left to Hold at over 4 m/s in its first 3 s", contract + "stop; docs/failures.md", (*check).stop},
	{"return", "true touchdown", "the way at v*, the descent at the autopilot's rates, what others with near homes take, 20 s and a third",
		contract + "return", (*check).comesHome},
	{"pack", "true charge and failsafe, led in the air", "never empty, and no failsafe for a low battery", "paper, C6", (*check).pack},
	{"failsafe", "true mode", "OFFBOARD is not lost for want of setpoints, nor GUIDED for want of HEARTBEATs", contract +
		"setpoints stream",
		(*check).failsafe},
	{"climb", "true take-off", "25 s after an accepted start or launch", contract + "start", (*check).climb},
	{"rejoin", "true mode", "OFFBOARD again 10 s after the leader shows itself, or the link is back, if it was before; " +
		"3.2 s after a leader is started, 2.5 s after the disk is back",
		contract + "pilots and failsafes", (*check).rejoin},
	{"touchdown", "true speed of descent", "1.3 of MPC_LAND_SPEED, or LAND_SPEED, and 0.3 m/s", "PX4, ArduCopter", (*check).touchdown},
	{"home", "true place of touchdown, led", "5 m from where it took off", "paper, Sec. III; " + contract + "return", (*check).home},
	{"taken place", "the same", "9.5 m from another's home, or from another on the ground", "paper, D_min", (*check).takenPlace},
	{"leaves", "true mode in the slots, led", "no descent without an order, a low pack or a lost contact", contract + "return",
		(*check).leaves},
	{"left up", "true mode, led", "12 s in the autopilot's own Hold in the air, unless the crew stopped it",
		contract + "return; pilots and failsafes", (*check).leftUp},
	{"flew", "true motion, in OFFBOARD in the slots", "3 m/s in the mean of 20 s and more; in wind 0.3", "paper, v*", (*check).flew},
}

// between is a position between two states of an aircraft.
func (a *aircraft) between(k int, timeS float64) point {
	p := a.states[k].PositionM
	if k+1 >= len(a.states) || a.states[k+1].timeS <= a.states[k].timeS {
		return p
	}
	q, share := a.states[k+1].PositionM, (timeS-a.states[k].timeS)/(a.states[k+1].timeS-a.states[k].timeS)
	for d := range p {
		p[d] += share * (q[d] - p[d])
	}
	return p
}

// eachPair calls f with every state of one aircraft and that of another at the same time.
func (f *flight) eachPair(call func(a, b *aircraft, s, o *state, apart point)) {
	for i, a := range f.aircraft {
		for _, b := range f.aircraft[i+1:] {
			k := 0
			for n := range a.states {
				s := &a.states[n]
				for k+1 < len(b.states) && b.states[k+1].timeS <= s.timeS {
					k++
				}
				if b.states[k].timeS <= s.timeS {
					call(a, b, s, &b.states[k], sub(b.between(k, s.timeS), s.PositionM))
				}
			}
		}
	}
}

// heightBandM is how far above or below another an aircraft is clear of it: what its own descent or climb takes in
// the time in which a leader notices it.
const heightBandM = 20

// separation: two that both have no leader are nobody's fault here. One that climbs by its autopilot cannot
// be steered, while a pilot flies another one up to it.
func (c *check) separation(leastM float64) {
	var near struct {
		a, b *aircraft
		toS  float64
	}
	const again = 5 // seconds, in which it is the same event
	c.eachPair(func(a, b *aircraft, s, o *state, apart point) {
		ledA, ledB := a.isLed(s.timeS), b.isLed(s.timeS)
		airA, airB := s.heightM() > 1, o.heightM() > 1
		if math.Abs(apart[2]) > heightBandM || !(airA && ledA || airB && ledB) {
			return
		}
		if c.unsteered(a, b, s, ledB) || c.unsteered(b, a, o, ledA) {
			return
		}
		c.finding.Active += record.PeriodS
		d := horizontalM(apart)
		if d >= leastM {
			c.use(leastM, d)
			return
		}
		if near.a == a && near.b == b && s.timeS < near.toS {
			near.toS = s.timeS + again
			return
		}
		near.a, near.b, near.toS = a, b, s.timeS+again
		c.use(leastM, d)
		c.breakAt(s.timeS, "aircraft %d in %s at (%.0f, %.0f, %.0f) m and aircraft %d in %s are %.1f m apart, and %.1f m in height",
			a.number,
			s.Mode, s.PositionM[0], s.PositionM[1], s.PositionM[2], b.number, o.Mode, d, math.Abs(apart[2]))
	})
}

// unsteered is whether an aircraft cannot be kept clear of another one that its leader does not command: it climbs by its
// autopilot, the crew stopped it, or its leader is not there.
func (c *check) unsteered(a, other *aircraft, s *state, otherLed bool) bool {
	const clearS = 2 // until one that was given back has flown clear
	if otherLed && (s.Mode != takeoff || other.led.from(clearS).contains(s.timeS)) {
		return c.cameByItself(a, s.timeS)
	}
	if s.Mode == takeoff {
		c.finding.Assumed["climbs by its autopilot"] += record.PeriodS
		return true
	}
	if c.isStopped(a, s.timeS) {
		c.finding.Assumed["stopped by the crew"] += record.PeriodS
		return true
	}
	return c.excusesAny(a.number, s.timeS, "leader away", "link cut")
}

// cameByItself is whether an aircraft is where it is by its autopilot's return, without a leader, but for some seconds.
func (c *check) cameByItself(a *aircraft, timeS float64) bool {
	const recoversS = 5
	return slices.ContainsFunc(a.lately(timeS, recoversS), func(x state) bool { return x.Mode == rtl }) &&
		c.excuses("leader away", a.number, timeS)
}

// isStopped reports whether the crew stopped an aircraft, and has not given it back for long enough to fly clear.
func (f *flight) isStopped(a *aircraft, timeS float64) bool {
	const clearS = 2
	return slices.ContainsFunc(f.missionOrders(telemetry.ActionStop), func(o *order) bool {
		return o.names(a.number) && o.deliveredS <= timeS && timeS < f.givenBackAfter(a, o.deliveredS)+clearS
	})
}

// outsideM is how far a position is outside the area; below 0 inside.
func (f *flight) outsideM(p point) float64 {
	return max(-p[0], -p[1], p[0]-f.Physics.AreaSideM, p[1]-f.Physics.AreaSideM)
}

// homesOutsideM is how far outside the area the farthest home is; 0: none is.
func (f *flight) homesOutsideM() (mostM float64) {
	for _, a := range f.aircraft {
		mostM = max(mostM, f.outsideM(a.StandM))
	}
	return mostM
}

func (c *check) fence() {
	const slackM, besideM = 5, 30 // one waits beside the home of another, outside the area
	most := float64(slackM)
	if m := c.homesOutsideM(); m > 0 {
		most = m + besideM
	}
	for _, a := range c.aircraft {
		c.always(a, a.led.and(a.inAir), 0, func(s *state) (float64, float64) { return c.outsideM(s.PositionM), most },
			"aircraft %[1]d is %.1[2]f m outside in %[4]s, of %.0[3]f")
	}
}

// climbFirstM is how far below H an aircraft climbs before it flies anywhere.
const climbFirstM = 25

func (c *check) height() {
	const brakesS, climbsMPS, nearM = 5, 3.5, 40
	h := c.Physics.AltitudeM
	for _, a := range c.aircraft {
		bandM := 8 + a.GustMPS2 + a.DriftM // with a second squared of gusts
		c.always(a, a.led.and(a.inAir), 0, func(s *state) (float64, float64) {
			return s.PositionM[2] - h, bandM + c.followsJumpM(a, s.timeS)
		}, "aircraft %[1]d is %.1[2]f m above H in %[4]s")
		if s := a.at(c.epochS); a.commanded().contains(c.epochS) {
			c.atMost(c.epochS, h-s.PositionM[2], climbFirstM+a.DriftM, "aircraft %d is at %.1f m as the slots begin", a.number,
				s.PositionM[2])
		}
		low := a.in(func(s *state) bool { return s.PositionM[2] < h-climbFirstM-a.DriftM }).and(a.offboard).and(a.led).from(brakesS)
		c.always(a, low.without(c.near(a, nearM)), 0, func(s *state) (float64, float64) { return s.speedMPS(), climbsMPS + a.GustMPS2 },
			"aircraft %[1]d flies at %.1[2]f m/s at a height of %.0[5]f m")
		var level []span
		for _, x := range a.commanded() {
			climbS := 10.0
			if below := h - a.at(x.fromS).PositionM[2]; a.climbMPS > 0 && below > bandM {
				climbS += 1.2 * below / a.climbMPS
			}
			level = append(level, span{x.fromS + climbS, x.toS})
		}
		c.always(a, newSpans(level...), 0, func(s *state) (float64, float64) {
			return math.Abs(s.PositionM[2] - h), bandM + c.followsJumpM(a, s.timeS)
		}, "aircraft %[1]d is at %.1[5]f m in OFFBOARD")
	}
}

func (c *check) speed() {
	for _, a := range c.aircraft {
		c.always(a, a.commanded().from(3), 0, func(s *state) (float64, float64) { return s.speedMPS(), 1.1*a.speedMPS + 1 },
			"aircraft %[1]d flies at %.1[2]f m/s, the limit is "+fmt.Sprintf("%.1f", a.speedMPS))
	}
}

// crewHolds are when the crew's hold is in force.
func (f *flight) crewHolds() (all spans) {
	for _, o := range f.missionOrders(telemetry.ActionHold) {
		next := f.nextOrderS(0, o.deliveredS, telemetry.ActionResume, telemetry.ActionReturn, telemetry.ActionStop, telemetry.ActionStart)
		all = append(all, span{o.answeredS, min(f.endS, next, f.slotsEndS())})
	}
	return newSpans(all...)
}

// slotsEndS is when the slots end, by the crew's order or by their number; +Inf: there was none.
func (f *flight) slotsEndS() float64 {
	end := math.Inf(1)
	if !math.IsNaN(f.epochS) {
		end = f.epochS + float64(f.Slots)
	}
	for _, o := range f.missionOrders(telemetry.ActionReturn, telemetry.ActionStop) {
		if len(o.mission.Aircraft) == 0 {
			end = min(end, o.deliveredS)
		}
	}
	return end
}

// nearS are when another aircraft is so near that an aircraft may have to keep clear of it.
func (f *flight) near(a *aircraft, withinM float64) spans {
	var all []span
	f.eachPair(func(x, y *aircraft, s, o *state, apart point) {
		if (x == a || y == a) && horizontalM(apart) < withinM+max(x.stopsInM, y.stopsInM) && (s.heightM() > 1 || o.heightM() > 1) {
			all = append(all, span{s.timeS - 1, s.timeS + 1})
		}
	})
	return newSpans(all...)
}

// stopS is how long an aircraft takes to stand still, once it is to hold.
const stopS = 10

// heldStill is when an aircraft is to stand still: a hold is in force, and nothing keeps its leader from it.
func (c *check) heldStill(a *aircraft) spans { return c.heldFrom(a, stopS, aloneM) }

// aloneM is how far from others one is to be held where it is.
const aloneM = 40

// heldFrom is that from so long after the hold, or its flight by setpoints, began, and so far from others.
func (c *check) heldFrom(a *aircraft, afterS, nearM float64) spans {
	in := c.alone(a, a.commanded().from(afterS).and(c.crewHolds().from(afterS)), nearM, stopS)
	in = c.assumeAll(a, in, "link cut", "leader away", "low pack", "comes home by itself")
	spent := c.spentSince(a)
	if s := in.and(spent).lengthS(); s > 0 {
		c.finding.Assumed["its pack is spent"] += s
	}
	return in.without(spent).without(c.homeward(a))
}

// alone leaves out of some times those in which another aircraft is near, and so long after them.
func (c *check) alone(a *aircraft, in spans, nearM, laterS float64) spans {
	near := c.near(a, nearM).and(in)
	if len(near) > 0 {
		c.finding.Assumed["another is near"] += near.lengthS()
	}
	return in.without(near.wider(0, laterS))
}

// spentSince is when an aircraft may leave since its pack is spent.
func (f *flight) spentSince(a *aircraft) spans {
	k := slices.IndexFunc(a.states, func(s state) bool { return f.packSpent(a, s.timeS) })
	if k < 0 {
		return nil
	}
	return spans{{a.states[k].timeS, f.endS}}
}

// homeward is when one aircraft was ordered home, alone, or is on its way since its pack is used up.
func (f *flight) homeward(a *aircraft) (all spans) {
	const arrivesS = 30
	for _, l := range a.landings() {
		if s := a.at(l.at.timeS - a.descentS(f.Physics.AltitudeM) - arrivesS); f.boundsPacks() {
			home, _ := a.homeAt(l.at.timeS)
			wayS := horizontalM(sub(home, s.PositionM)) / f.Physics.Propulsion.BestSpeedMPS(a.speedMPS)
			all = append(all, span{s.timeS - wayS, f.endS})
		}
	}
	return newSpans(append(all, f.homewardByOrder(a)...)...)
}

// homewardByOrder is when an aircraft was ordered home.
func (f *flight) homewardByOrder(a *aircraft) (all spans) {
	for _, o := range f.missionOrders(telemetry.ActionReturn) {
		if o.names(a.number) {
			all = append(all, span{o.deliveredS, f.endS})
		}
	}
	return newSpans(all...)
}

func (c *check) still() {
	const stillMPS = 0.75
	const gustS = 1.0 // for which a gust pushes before the autopilot answers
	for _, a := range c.aircraft {
		c.always(a, c.heldStill(a), 0, func(s *state) (float64, float64) { return s.speedMPS(), stillMPS + gustS*a.GustMPS2 },
			"aircraft %[1]d flies at %.1[2]f m/s in a hold")
	}
}

func (c *check) drift() {
	const mostM, gustS2, restsMPS, backM = 1.5, 3.0, 0.75, 7.5
	for _, a := range c.aircraft {
		stays := func(x span, withinM float64, where string) {
			from := a.at(x.fromS).PositionM
			c.always(a, spans{x}, 0, func(s *state) (float64, float64) {
				return horizontalM(sub(s.PositionM, from)), withinM + gustS2*a.GustMPS2
			}, "aircraft %[1]d is %.1[2]f m from where it "+where+fmt.Sprintf(" at %.1f s", x.fromS))
		}
		var rested []span // one that comes to rest beyond its place stays there
		for _, x := range c.heldFrom(a, 0, aloneM) {
			if k := slices.IndexFunc(a.states, func(s state) bool { return s.timeS > x.fromS+1 && s.speedMPS() < restsMPS }); k >= 0 {
				rested = append(rested, span{a.states[k].timeS, x.toS})
			}
		}
		for _, x := range c.heldFrom(a, 0, aloneM-a.stopsInM) { // nor does one that turns without a rest
			from, farM := a.at(x.fromS).PositionM, 0.0
			c.always(a, spans{x}, 0, func(s *state) (float64, float64) {
				offM := horizontalM(sub(s.PositionM, from))
				farM = max(farM, offM)
				return farM - offM, backM + gustS2*a.GustMPS2
			}, "aircraft %[1]d flies %.1[2]f m back in a hold")
		}
		for _, x := range newSpans(rested...) {
			stays(x, backM, "came to rest")
		}
		for _, x := range c.heldStill(a) {
			stays(x, mostM, "held")
		}
	}
}

// movesOn requires motion of one aircraft at least: the others may be in its way.
func (c *check) movesOn() {
	const withinS, farM = 12, 4
	for _, o := range c.missionOrders(telemetry.ActionResume) {
		from, to := o.answeredS, o.answeredS+withinS
		if to > min(c.slotsEndS(), c.endS) || from < c.epochS {
			continue
		}
		flying, most := false, 0.0
		for _, a := range c.aircraft {
			if in := a.commanded().and(spans{{from, to}}); in.lengthS() < withinS-1 ||
				c.excusesAny(a.number, to, "link cut", "leader away", "low pack") || c.homeward(a).contains(to) {
				continue
			}
			flying = true
			way, last := 0.0, a.at(from).PositionM
			for _, s := range a.states {
				if s.timeS > from && s.timeS <= to {
					way, last = way+horizontalM(sub(s.PositionM, last)), s.PositionM
				}
			}
			most = max(most, way)
		}
		if flying && !c.crewHolds().touches(from+record.PeriodS, to) {
			c.holds(from, most >= farM, "no aircraft flew more than %.1f m within %d s of a resume", most, withinS)
		}
	}
}

func (c *check) stop() {
	const withinS = 6
	for _, o := range c.genuine() { // it follows the start that is being written
		for _, s := range c.missionOrders(telemetry.ActionStart) {
			if o.mission.Action == telemetry.ActionStop && s.deliveredS < o.sentS && s.answeredS > o.sentS && !math.IsInf(o.answeredS, 1) {
				c.holds(o.answeredS, o.accepted, "%s is refused, and %s accepted: %s", o.body, s.body, o.answer.Reason)
			}
		}
	}
	for _, o := range c.missionOrders(telemetry.ActionStop) {
		for _, a := range c.aircraft {
			s := a.at(o.firstS)
			if !o.names(a.number) || !a.isLed(o.firstS) || s.heightM() <= 1 {
				continue
			}
			moves := a.in(func(s *state) bool { return s.Armed && (s.Mode == offboard || s.Mode == takeoff) }).and(a.led)
			late := moves.and(spans{{o.firstS + withinS, c.givenBackAfter(a, o.deliveredS)}})
			late = c.assumeAll(a, late, "link cut", "leader away", "lost heartbeats")
			c.finding.Active++
			c.use(min(moves.and(spans{{o.firstS, o.firstS + withinS}}).lengthS(), withinS), withinS)
			c.brakes(a, o.firstS)
			if len(late) > 0 {
				c.breakAt(late[0].fromS, "aircraft %d is in %s, %.1f s after a stop", a.number, a.at(late[0].fromS).Mode,
					late[0].fromS-o.firstS)
			}
		}
	}
}

// brakes: setpoints stop a PX4 on a shorter way than its own Hold does, which they leave it to once it is slow.
func (c *check) brakes(a *aircraft, stoppedS float64) {
	const brakesS, slowMPS = 3, 4
	whole := spans{{stoppedS - periodS, stoppedS + brakesS}}
	k := slices.IndexFunc(a.states, func(s state) bool { return s.timeS > stoppedS && s.Mode != offboard })
	if a.isCopter() || !a.offboard.contains(stoppedS) || k < 0 || a.states[k].Mode != hold || a.states[k].Failsafe ||
		!(a.states[k].timeS < stoppedS+brakesS) || len(whole.without(a.led)) > 0 ||
		c.excusesFrom(whole[0].fromS, whole[0].toS, "leader away", "link cut", "lost heartbeats", "late datagrams", "disk stands") {
		return
	}
	s := &a.states[k]
	c.atMost(s.timeS, s.speedMPS(), slowMPS+a.GustMPS2, "aircraft %d is left to its Hold at %.1f m/s, %.1f s after a stop", a.number,
		s.speedMPS(), s.timeS-stoppedS)
}

// givenBackAfter is when an order after a stop lets an aircraft move again.
func (f *flight) givenBackAfter(a *aircraft, fromS float64) float64 {
	return min(f.endS, f.nextOrderS(a.number, fromS, telemetry.ActionResume, telemetry.ActionReturn, telemetry.ActionLaunch,
		telemetry.ActionStart))
}

// descentS is how long a descent to where it stood takes at the autopilot's rates, from a height over the origin.
func (a *aircraft) descentS(upM float64) float64 {
	if a.descentMPS == 0 {
		return math.Inf(1)
	}
	upM -= a.StandM[2]
	return max(upM-a.slowBelowM, 0)/a.descentMPS + min(upM, a.slowBelowM)/min(a.landMPS, a.descentMPS)
}

// touchdownAfter is when an aircraft first touches the ground after a moment; +Inf: never.
func (a *aircraft) touchdownAfter(timeS float64) float64 {
	for _, x := range a.aground {
		if x.toS > timeS {
			return max(x.fromS, timeS)
		}
	}
	return math.Inf(1)
}

// comesHome: from the order, or the end of the slots, on. Each of a fleet may wait until all others whose homes are near
// are down, and until those are out of its way.
func (c *check) comesHome() {
	const turnS, copterTurnS, nearHomesM, more, settleS, queueShare = 20, 3, 40, 1.33, 10, 1.25
	const asksS, passesM = 30, 40 // for a mode that is refused; of height
	for _, a := range c.aircraft {
		fromS := c.nextOrderS(a.number, math.Inf(-1), telemetry.ActionReturn)
		if !math.IsNaN(c.epochS) && c.epochS+float64(c.Slots) < c.endS {
			fromS = min(fromS, c.epochS+float64(c.Slots))
		}
		home, ok := a.homeAt(fromS)
		s := a.at(fromS)
		if math.IsInf(fromS, 1) || !ok || s.OnGround {
			continue
		}
		down := a.touchdownAfter(fromS)
		best := c.Physics.Propulsion.BestSpeedMPS(a.speedMPS)
		ownS := horizontalM(sub(home, s.PositionM))/best + a.descentS(s.PositionM[2])
		if below := c.Physics.AltitudeM - s.PositionM[2]; below > climbFirstM && a.climbMPS > 0 { // it climbs before it flies anywhere
			ownS += below/a.climbMPS + a.descentS(c.Physics.AltitudeM) - a.descentS(s.PositionM[2])
		}
		waitS := 0.0
		for _, o := range c.aircraft {
			other, flies := o.homeAt(fromS)
			if o == a || !flies || o.at(fromS).OnGround {
				continue
			}
			waitS += settleS
			if horizontalM(sub(other, home)) < nearHomesM+max(a.stopsInM, o.stopsInM) {
				downS := min(o.touchdownAfter(fromS), c.endS)
				returned := o.in(func(s *state) bool { return s.Mode == rtl && !s.OnGround }) // it may fly anywhere until it is down
				if waitS += o.descentS(s.PositionM[2]); (spans{{fromS, fromS + turnS}}).without(o.led).lengthS() == 0 &&
					!returned.or(c.fault(o.number, "link_loss")).touches(fromS, downS) { // else nothing shows it
					waitS -= o.descentS(s.PositionM[2] - passesM) // it comes down once the other is so much lower
				}
			}
		}
		bound := more*ownS + queueShare*waitS + turnS
		if a.isCopter() {
			bound += copterTurnS
		}
		if c.excuses("mode refused", a.number, fromS+turnS) {
			bound += 2*asksS + turnS
		}
		watch := spans{{fromS, min(down, c.endS)}}
		bound = c.prolonged(bound, a, watch, "link cut", "leader away", "disk stands", "lost heartbeats", "station silent",
			"late datagrams")
		for _, o := range c.aircraft { // an ArduCopter that is left alone while it lands climbs and comes home by itself
			if o.isCopter() && (c.assumed("link cut", o.number).or(c.assumed("station silent", o.number))).and(watch).lengthS() > 0 {
				bound += o.descentS(c.Physics.AltitudeM)
			}
		}
		if (spans{{fromS, min(down, fromS+bound, c.endS)}}).without(a.led).lengthS() > 0 ||
			c.ordered(fromS, math.Inf(1), telemetry.ActionStop, telemetry.ActionResume, telemetry.ActionLaunch) { // its pilot's, or stopped
			continue
		}
		c.within(fromS, down, bound, "aircraft %d took %.0f s to its touchdown, of %.0f for %.0f m", a.number, down-fromS, bound,
			horizontalM(sub(home, s.PositionM)))
	}
}

// firstStopS is when the fleet is stopped first: by a stop, or by a hold once no slot is flown any more; +Inf: never.
func (f *flight) firstStopS() float64 {
	first := math.Inf(1)
	for _, o := range f.missionOrders(telemetry.ActionStop, telemetry.ActionHold) {
		if o.mission.Action == telemetry.ActionStop || f.isOver(o.deliveredS) {
			first = min(first, o.deliveredS)
		}
	}
	return first
}

// nextOrderS is when the first command of some actions for an aircraft, or with 0 for any, was delivered after a moment; +Inf: none was.
func (f *flight) nextOrderS(number int, afterS float64, actions ...string) float64 {
	next := math.Inf(1)
	for _, o := range f.missionOrders(actions...) {
		if o.deliveredS > afterS && (number == 0 || o.names(number)) {
			next = min(next, o.deliveredS)
		}
	}
	return next
}

// ordered reports whether a command of some actions was delivered, and accepted, between two moments.
func (f *flight) ordered(fromS, toS float64, actions ...string) bool {
	return f.nextOrderS(0, fromS, actions...) < toS
}

func (c *check) pack() {
	for _, a := range c.aircraft {
		for k := range a.states {
			s := &a.states[k]
			if s.OnGround || !a.isLed(s.timeS-0.1) || c.excuses("mode refused", a.number, s.timeS) {
				continue
			}
			c.finding.Active += record.PeriodS
			if before := &a.states[max(k-1, 0)]; s.LeftJ < 0 && before.LeftJ >= 0 {
				c.breakAt(s.timeS, "aircraft %d flies with an empty pack", a.number)
			} else if s.LowPack && s.Failsafe && !before.Failsafe && (s.Mode == rtl || s.Mode == land) {
				c.breakAt(s.timeS, "aircraft %d is brought down by its own failsafe, %s, with %.0f J left", a.number, s.Mode, s.LeftJ)
			}
		}
	}
}

func (c *check) failsafe() {
	const startsS = 2
	loads := c.fault(0, record.LeaderLoads).from(startsS)
	for _, a := range c.aircraft {
		for k := 1; k < len(a.states); k++ {
			s, before := &a.states[k], &a.states[k-1]
			if before.Mode == offboard && a.isLed(before.timeS) {
				c.finding.Active += s.timeS - before.timeS
			}
			lost, excuses := before.Mode == offboard && s.Mode == hold && s.Failsafe, []string{"link cut", "leader away", "lost heartbeats",
				"late datagrams", "disk stands", "station silent"}
			if a.isCopter() { // it has HEARTBEATs as soon as its leader is started, and whatever that receives
				lost = s.Failsafe && !before.Failsafe && !s.LowPack
				excuses = slices.DeleteFunc(excuses, func(name string) bool {
					return name == "lost heartbeats" || name == "leader away" && loads.contains(s.timeS)
				})
			}
			if !lost || !a.isLed(before.timeS) || c.excusesAny(a.number, s.timeS, excuses...) {
				continue
			}
			c.breakAt(s.timeS, "aircraft %d leaves %s by its failsafe for %s", a.number, before.Mode, s.Mode)
		}
	}
}

// excusesAny reports whether one of some assumptions holds.
func (c *check) excusesAny(number int, timeS float64, names ...string) bool {
	for _, name := range names {
		if c.excuses(name, number, timeS) {
			return true
		}
	}
	return false
}

func (c *check) climb() {
	const withinS = 25
	for _, o := range c.missionOrders(telemetry.ActionStart, telemetry.ActionLaunch) {
		for _, a := range c.aircraft {
			if s := a.at(o.deliveredS); !o.names(a.number) || !s.OnGround {
				continue
			}
			off := math.Inf(1)
			for _, t := range a.takeOffs {
				if t.timeS > o.deliveredS {
					off = min(off, t.timeS)
				}
			}
			watch := spans{{o.deliveredS, min(off, c.endS, o.deliveredS+3*withinS)}}
			if watch.without(a.led).lengthS() > 0 || c.stopsClimb(o.deliveredS, min(off, c.endS)) {
				continue
			}
			if slices.ContainsFunc(c.faults, func(x faultSpan) bool {
				return x.kind == record.LeaderDown && x.text == "killed" && watch.contains(x.fromS)
			}) {
				c.finding.Assumed["its leader was started again, and finds it on the ground"]++
				continue
			}
			if len(c.assumed("comes home by itself", a.number).and(watch)) > 0 {
				c.finding.Assumed["comes home by itself"]++
				continue
			}
			bound := c.prolonged(withinS, a, watch, "link cut", "leader away", "broker away", "arming refused", "lost heartbeats",
				"late datagrams", "storm")
			if c.excuses("arming refused", a.number, o.deliveredS+1) || c.slotsEndS() < min(off, o.deliveredS+bound) {
				continue // after the last slot nothing takes off
			}
			c.within(o.deliveredS, off, bound, "aircraft %d is on the ground %.0f s after %s", a.number, min(off, c.endS)-o.deliveredS,
				o.mission.Action)
		}
	}
}

// stopsClimb reports whether an order calls the fleet back before an aircraft has left the ground.
func (f *flight) stopsClimb(fromS, toS float64) bool {
	return f.ordered(fromS, toS, telemetry.ActionReturn, telemetry.ActionStop)
}

// rejoin: of those that flew by setpoints for three seconds before the leader was away, or the link for less than loses an aircraft.
func (c *check) rejoin() {
	const withinS, startsS, diskS, streamS = 10, 3.2, 2.5, 5
	loads := c.fault(0, record.LeaderLoads)
	for _, x := range c.fault(0, record.LeaderDown) {
		for _, a := range c.aircraft {
			if !loads.touches(x.toS, x.toS+withinS) {
				c.rejoins(a, x, x.toS, startsS, "its leader", "link cut", "lost heartbeats", "station silent", "late datagrams",
					"broker away")
			}
			c.rejoins(a, x, c.firstStatusAfter(x.toS), withinS, "its leader", "link cut", "lost heartbeats", "station silent",
				"late datagrams")
		}
	}
	for _, a := range c.aircraft {
		for _, x := range c.fault(a.number, "link_loss") {
			if x.toS-x.fromS < lostS-1 {
				c.rejoins(a, x, x.toS, withinS, "its link", "leader away", "broker away", "lost heartbeats", "late datagrams",
					"contact lost", "comes home by itself", "disk stands", "low pack")
			}
		}
		// Setpoints go on, and then end, while the disk stands; they end the failsafe's Hold as soon as they come again.
		for _, x := range c.fault(0, "disk_stall") {
			if x.toS-x.fromS > streamS && !a.isCopter() {
				c.rejoins(a, span{x.fromS + streamS, x.toS}, x.toS, diskS, "its leader's disk", "link cut", "lost heartbeats",
					"late datagrams", "leader away", "broker away", "low pack", "mode refused")
			}
		}
	}
}

// rejoins checks that an aircraft follows setpoints again, soon after what it lacked is back.
func (c *check) rejoins(a *aircraft, x span, backS, withinS float64, what string, excuses ...string) {
	const flewS, brakesS = 3, 5 // a stop brakes by setpoints before it holds
	flew := a.commanded().and(spans{{x.fromS - flewS, x.fromS}}).lengthS() > flewS-0.2
	if math.IsInf(x.toS, 1) || !flew || math.IsInf(backS, 1) || c.excusesAny(a.number, backS, excuses...) ||
		a.led.not().touches(x.fromS, backS+withinS) || c.stopsClimb(x.fromS-flewS-brakesS, backS+withinS) {
		return
	}
	if s := a.at(backS); s.OnGround || s.Mode == land {
		return
	}
	again := a.offboard.and(spans{{backS, math.Inf(1)}}).firstS()
	if s := a.at(backS + withinS); math.IsInf(again, 1) && (s.Mode == land || s.OnGround) {
		return
	}
	c.within(backS, again, withinS, "aircraft %d is in %s, and %s is back", a.number, a.at(min(backS+withinS, c.endS)).Mode, what)
}

// firstStatusAfter is when the leader first showed itself after a moment; +Inf: never.
func (f *flight) firstStatusAfter(timeS float64) float64 {
	for _, s := range f.statuses {
		if s.timeS > timeS {
			return s.timeS
		}
	}
	return math.Inf(1)
}

// landing is a touchdown of an aircraft that its leader commands.
type landing struct{ before, at *state }

func (a *aircraft) landings() (all []landing) {
	for k := 1; k < len(a.states); k++ {
		if s, before := &a.states[k], &a.states[k-1]; s.OnGround && !before.OnGround && a.isLed(before.timeS) {
			all = append(all, landing{before, s})
		}
	}
	return all
}

func (c *check) touchdown() {
	for _, a := range c.aircraft {
		for _, l := range a.landings() {
			down := -l.before.VelocityMPS[2]
			c.atMost(l.at.timeS, down, 1.3*a.landMPS+0.3, "aircraft %d touches down at %.1f m/s", a.number, down)
		}
	}
}

// home: one whose home is taken by another lands elsewhere, and so does one that can wait for others no longer.
func (c *check) home() {
	const nearM = 5
	for _, a := range c.aircraft {
		for _, l := range a.landings() {
			home, ok := a.homeAt(l.before.timeS)
			if !ok || l.before.Failsafe || c.isTaken(a, home, l.at.timeS) || c.excuses("mode refused", a.number, l.before.timeS) ||
				c.waitsNoLonger(a, l) {
				continue
			}
			d := horizontalM(sub(l.at.PositionM, home))
			c.atMost(l.at.timeS, d, nearM+a.toldM(), "aircraft %d lands %.0f m from where it took off", a.number, d)
		}
	}
}

// waitsNoLonger is whether a pack that lost most of its charge had less than half as much again as the descent takes when that began.
func (c *check) waitsNoLonger(a *aircraft, l landing) bool {
	const reserve = 1.5
	if s := a.at(a.landsFromS(l.at.timeS)); c.World != nil && c.excuses("low pack", a.number, s.timeS) {
		p := c.flightOf(a, s)
		return s.LeftJ < reserve*measuredShare*a.powerMost()*a.descentS(s.PositionM[2])*p.powerW(s.timeS, physics.Position{})
	}
	return false
}

// isTaken reports whether another aircraft lies at a place, or was over it for long; it is counted.
func (c *check) isTaken(a *aircraft, place point, timeS float64) bool {
	const overS, upM = 45, 1 // before its leader may give the place up
	for _, o := range c.aircraft {
		if o == a {
			continue
		}
		s, there, refuses := o.at(timeS), 0, c.assumed("mode refused", o.number)
		lies := s.heightM() < upM && horizontalM(sub(s.PositionM, place)) < c.Physics.SeparationM
		for _, s := range o.states {
			nearM := c.Physics.SeparationM
			if !o.isLed(s.timeS) || s.Mode != offboard && refuses.contains(s.timeS) { // it gives way to nobody
				nearM += max(nearM/2, a.stopsInM)
			}
			if s.timeS > timeS-2*overS && s.timeS < timeS && s.PositionM[2] > upM && horizontalM(sub(s.PositionM, place)) < nearM {
				there++
			}
		}
		if lies || float64(there)*record.PeriodS > overS {
			c.finding.Assumed["its home is taken"]++
			return true
		}
	}
	return false
}

func (c *check) takenPlace() {
	const offHomeM = 2 // that one lands, to the side of another that lies beside its home
	least := c.Physics.SeparationM - 0.5
	for _, a := range c.aircraft {
		for _, l := range a.landings() {
			for _, o := range c.aircraft {
				home, ok := o.homeAt(l.at.timeS)
				if o == a || !ok || l.before.Failsafe {
					continue
				}
				d := horizontalM(sub(l.at.PositionM, home))
				if s := o.at(l.at.timeS); s.OnGround {
					liesM := horizontalM(sub(l.at.PositionM, s.PositionM))
					if liesM < least && !o.isLed(l.at.timeS) {
						c.finding.Assumed["it fell, or its pilot set it down"]++
						liesM += offHomeM
					}
					d = min(d, liesM)
				}
				c.atMost(l.at.timeS, least, d, "aircraft %d lands %.1f m from aircraft %d or its home", a.number, d, o.number)
			}
		}
	}
}

// leaves: packs that the crew bounds may end a flight.
func (c *check) leaves() {
	if c.boundsPacks() {
		return
	}
	to := c.slotsEndS()
	for _, a := range c.aircraft {
		for k := 1; k < len(a.states); k++ {
			s, before := &a.states[k], &a.states[k-1]
			if !(s.timeS > c.epochS && s.timeS < to) {
				continue
			}
			if a.isLed(s.timeS) {
				c.finding.Active += s.timeS - before.timeS
			}
			if s.Mode != land || before.Mode == land || !a.isLed(s.timeS) || c.homeward(a).contains(s.timeS) || s.Failsafe ||
				c.excusesAny(a.number, s.timeS, "low pack", "comes home by itself", "leader away", "late climb") {
				continue
			}
			if c.packSpent(a, s.timeS-record.PeriodS) {
				c.finding.Assumed["its pack is spent"]++
				continue
			}
			c.breakAt(s.timeS, "aircraft %d lands in slot %.0f, and nobody called it back", a.number, c.slotAt(s.timeS))
		}
	}
}

// boundsPacks reports whether an accepted budget bounds packs, or what the packs hold is little.
func (f *flight) boundsPacks() bool {
	const least = 0.7 // of a full pack at the start
	return f.bounded() || slices.ContainsFunc(f.aircraft, func(a *aircraft) bool {
		return len(a.states) > 0 && a.states[0].LeftJ < least*a.states[0].PackJ
	})
}

// leftUp: one that is its leader's follows setpoints or comes down.
func (c *check) leftUp() {
	const mostS, lowM = 12, 5
	for _, a := range c.aircraft {
		in := a.in(func(s *state) bool { return s.Mode == hold && s.Armed && s.heightM() > lowM }).and(a.led)
		for _, o := range c.missionOrders(telemetry.ActionStop) {
			in = in.without(spans{{o.sentS, c.givenBackAfter(a, o.deliveredS)}})
		}
		for _, x := range c.fault(a.number, "link_loss") { // one that was lost is given back by an order since
			if x.toS-x.fromS > lostS-1 {
				in = in.without(spans{{x.fromS, c.givenBackAfter(a, x.toS)}})
			}
		}
		in = c.assumeAll(a, in, "link cut", "leader away", "lost heartbeats", "late datagrams", "station silent", "disk stands",
			"stream over", "mode refused")
		for _, x := range in {
			c.atMost(x.fromS, x.toS-x.fromS, mostS, "aircraft %d is left in its Hold at %.0f m for %.0f s", a.number,
				a.at(x.fromS).PositionM[2], x.toS-x.fromS)
		}
	}
}

func (c *check) flew() {
	const meanMPS, leastS, windShare, nearM = 3, 20, 0.1, 40
	for _, a := range c.aircraft {
		in := a.commanded().and(spans{{c.epochS + 2, c.slotsEndS()}}).without(c.crewHolds().wider(0, 2)).without(c.homeward(a))
		in = c.assumeAll(a, c.alone(a, in, nearM, 0), "contact lost", "comes home by itself", "broker away", "leader away", "link cut",
			"low pack", "disk stands")
		flownM, flownS := 0.0, in.lengthS()
		for k := 1; k < len(a.states); k++ {
			if in.contains(a.states[k].timeS) {
				flownM += horizontalM(sub(a.states[k].PositionM, a.states[k-1].PositionM))
			}
		}
		if math.IsNaN(c.epochS) || flownS < leastS || c.boundsPacks() {
			continue
		}
		least := meanMPS * flownS
		if len(c.end.WindMPS) > 0 { // it flies through the air, and may stay over a place
			least *= windShare
		}
		c.atMost(c.epochS, least, flownM, "aircraft %d flew %.0f m in %.0f s", a.number, flownM, flownS)
	}
}
