package judge

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/record"
	"prefdt/telemetry"
)

// linkRules are of what arrives at the aircraft.
var linkRules = []Rule{
	{"pilot", "HEARTBEATs sent, messages that arrive", "none that commands, 5 ms after a HEARTBEAT showed that it is its pilot's",
		contract + "an aircraft that leaves OFFBOARD", (*check).pilot},
	{"whitelist", "every message that arrives", "requests, arm (an ArduCopter in GUIDED), take-off to H from below it, " +
		"Hold unless it lands, OFFBOARD, Land, Return, setpoints in frame 5", contract + "MAVLink", (*check).whitelist},
	{"disarm", "commands that arrive, true states", "none to disarm in the air", contract + "MAVLink", (*check).disarm},
	{"address", "target system of each message", "the aircraft's own", "MAVLink 2, target_system", (*check).address},
	{"unordered", "messages that arrive on the ground, orders", "none that commands before the crew's start or launch, or after it ended",
		contract + "start, launch", (*check).unordered},
	{"arm", "commands to arm, orders, true checks", "10 s from the first one of an order, not after its end nor once it was disarmed, " +
		"nor while an ArduCopter's checks fail",
		contract + "arming", (*check).arm},
	{"take-off", "commands to arm, true positions", "no other in flight within 9 m, or 20 m if it moves, unless it climbs",
		contract + "a take-off waits", (*check).takeOff},
	{"ground", "setpoints that arrive, HEARTBEATs", "none to an aircraft known to be on the ground with its motors off",
		contract + "MAVLink", (*check).ground},
	{"no heartbeat", "setpoints that arrive, HEARTBEATs", "none from 10 s after the last HEARTBEAT on", contract + "setpoints stream",
		(*check).noHeartbeat},
	{"no position", "setpoints that arrive, its silence", "none 3 s after the last message was received of it",
		contract + "setpoints stream", (*check).noPosition},
	{"gap", "setpoints that arrive in OFFBOARD", "0.2 s between two: 10 Hz", contract + "setpoints stream", (*check).gap},
	{"one stream", "setpoints that arrive", "12 in a second: 10 Hz of one leader", contract + "two leaders", (*check).oneStream},
	{"leader down", "messages that arrive while the leader does not run", "none that commands", contract + "two leaders",
		(*check).leaderDown},
	{"stream end", "setpoints that arrive, beacons, statuses", "none 14 s after the last decision: the time to live, ten slots more " +
		"and two", contract + "setpoints", (*check).streamEnd},
	{"take-off ended", "setpoints that arrive at an ArduCopter", "none in its take-off, 3 m below H or as it climbs at 1.5 m/s: one " +
		"would end it",
		"docs/hardware.md, ArduCopter", (*check).takeOffEnded},
	{"followed", "setpoints that arrive in other modes than OFFBOARD", "for 11 s; in Land and Return 1 s after a HEARTBEAT shows it",
		contract + "one that lasts 10 s with setpoints is the pilot's", (*check).followed},
	{"engages", "commands of OFFBOARD that arrive at PX4", "3 setpoints in the second before, 21 m below H; none while the disk finishes " +
		"no write, of a take-off that was lower as that began",
		"PX4, Offboard mode; " + contract + "an aircraft below that climbs first", (*check).engages},
	{"mode commands", "commands that arrive", "4 to change the mode in 10 s", contract + "MAVLink", (*check).modeCommands},
	{"landing place", "commands to land that arrive, true positions", "4 m from where it took off, unless the crew stopped it",
		contract + "return", (*check).landingPlace},
	{"station", "HEARTBEATs that arrive", "1.5 s between two of the leader's", "MAVLink 2, HEARTBEAT; FS_GCS_TIMEOUT", (*check).station},
	{"early heartbeats", "HEARTBEATs that arrive", "20 of the leader's while none commands, however often one is started",
		contract + "heartbeats", (*check).earlyHeartbeats},
	{"asked", "requests that arrive before take-off", "BATTERY_STATUS at 2 Hz, EXTENDED_SYS_STATE at 1 Hz", contract + "joules; MAVLink",
		(*check).asked},
	{"asks again", "requests that arrive, HEARTBEATs", "2.6 s after the last HEARTBEAT of one that is armed",
		contract + "an old one is asked for", (*check).asksAgain},
	{"incomplete", "setpoints that arrive", "every component is a number", "MAVLink 2, type_mask", (*check).incomplete},
	{"commanded speed", "setpoints that arrive, true positions",
		"the lesser limit of configuration and autopilot, and 0.5 m of lag; an ArduCopter's 3 to 7 m more",
		contract + "V_max", (*check).commandedSpeed},
	{"commanded fence", "setpoints that arrive, true positions", "0.5 m outside the area, unless it comes in or returns home",
		contract + "fence", (*check).commandedFence},
	{"commanded height", "setpoints that arrive", "0.5 m off H, and no climb", "paper, H; " + contract + "altitude",
		(*check).commandedHeight},
	{"stale", "setpoints that arrive, beacons, statuses", "none with a velocity 2 s after the last decision", contract + "time to live",
		(*check).stale},
	{"commanded separation", "setpoints that arrive, true positions", "paths of the next second at least 9.5 m apart, but for a tick",
		"paper, D_min", (*check).commandedSeparation},
	{"keeps off", "setpoints that arrive, true positions", "none leads a metre nearer, within 14.5 m, to one that has " +
		"descended by less than 25 m in its landing", "paper, D_min, and a half, in which it stops", (*check).keepsOff},
}

const (
	periodS        = 0.1   // between setpoints
	linkSlackS     = 0.11  // that one more setpoint is on its way, on a link without delay
	graceS         = 0.005 // that a message is on its way
	latestS        = 0.7   // of a late datagram
	shownS         = 1.3   // until the next HEARTBEAT shows something
	ttlS           = 2     // a decision is followed for so long
	armS           = 10    // arming is asked for so long, for each order
	silentS        = 10    // setpoints go on without a HEARTBEAT
	commandSlackM  = 0.5   // that targets are off a bound
	waitsBesideM   = 25    // an aircraft from its home outside the area, for those that land next to it
	setMode        = "MAV_CMD_DO_SET_MODE"
	armDisarm      = "MAV_CMD_COMPONENT_ARM_DISARM"
	commandTakeOff = "MAV_CMD_NAV_TAKEOFF"
)

// commands reports whether a message is for the aircraft and changes something of its flight.
func (g *arrival) commands() bool { return g.Setpoint != nil || g.Command != "" && !g.Harmless }

func (g *arrival) isSetpoint() bool { return g.Setpoint != nil }

func (g *arrival) isHeartbeat() bool { return strings.HasSuffix(g.Other, "Heartbeat") }

func (g *arrival) isArm() bool { return g.Command == armDisarm && g.param(0) == 1 }

// param is a parameter of a command, from 0.
func (g *arrival) param(k int) float64 {
	if k < len(g.Param) {
		return float64(g.Param[k])
	}
	return math.NaN()
}

func (g *arrival) String() string {
	switch {
	case g.Setpoint != nil:
		return "a setpoint"
	case g.Command != "":
		return fmt.Sprintf("%s %v", g.Command, g.Param)
	}
	return g.Other
}

// systemID is the aircraft's in MAVLink.
func (a *aircraft) systemID() int { return cmp.Or(a.SystemID, a.number) }

// modeAsked is the mode of a command to change it; empty: it is none.
func (a *aircraft) modeAsked(g *arrival) string {
	switch {
	case g.Command != setMode:
		return ""
	case a.isCopter():
		m, _ := autopilot.CopterMode(uint32(g.param(1)))
		return m.String()
	}
	return autopilot.Mode(uint32(g.param(1))<<16 | uint32(g.param(2))<<24).String()
}

// none checks that no message of a kind arrives at an aircraft in some times.
func (c *check) none(a *aircraft, in spans, is func(*arrival) bool, text string) {
	if in = in.and(spans{{0, c.endS}}); len(in) == 0 {
		return
	}
	c.finding.Active += in.lengthS()
	for g := range a.receives(is) {
		if in.contains(g.timeS) {
			c.breakAt(g.timeS, "aircraft %d %s, and receives %v in %s", a.number, text, g, g.Mode)
		}
	}
}

// receives are the messages of a kind that an aircraft receives.
func (a *aircraft) receives(is func(*arrival) bool) iter.Seq[*arrival] {
	return func(yield func(*arrival) bool) {
		for k := range a.got {
			if g := &a.got[k]; is(g) && !yield(g) {
				return
			}
		}
	}
}

// receivesS is when an aircraft first receives a message of a kind, from a moment on; +Inf: never.
func (a *aircraft) receivesS(fromS float64, is func(*arrival) bool) float64 {
	for g := range a.receives(is) {
		if g.timeS >= fromS {
			return g.timeS
		}
	}
	return math.Inf(1)
}

// each calls of for each message of a kind that an aircraft receives.
func (c *check) each(is func(*arrival) bool, of func(*aircraft, *arrival)) {
	for _, a := range c.aircraft {
		for g := range a.receives(is) {
			of(a, g)
		}
	}
}

// beatsThat are the times from each HEARTBEAT of an aircraft that shows something until the next one.
func (a *aircraft) beatsThat(show func(*heartbeat) bool) spans {
	return spansOf(a.beats, func(h *heartbeat) float64 { return h.timeS }, show)
}

// deaf is when the leader has not heard an aircraft since it was started. One that was stopped reads what was sent meanwhile before it
// sends anything.
func (c *check) deaf(a *aircraft) (all spans) {
	for _, x := range c.faults {
		if x.kind != record.LeaderDown {
			continue
		}
		if x.text != "stopped" {
			x.toS = a.shownS(x.toS, func(heartbeat) bool { return true }) + a.graceS()
		}
		all = append(all, x.span)
	}
	return newSpans(all...)
}

// assumeAll leaves out of some times those in which one of several assumptions holds.
func (c *check) assumeAll(a *aircraft, in spans, names ...string) spans {
	for _, name := range names {
		in = c.assume(name, a.number, in)
	}
	return in
}

// linkSlackS is for one more setpoint that is on its way, or is lost.
func (a *aircraft) linkSlackS() float64 { return linkSlackS + a.LinkS + a.lostS(periodS) }

// lostS is how long messages that are sent so far apart may all be lost, but once in a million times.
func (a *aircraft) lostS(betweenS float64) float64 {
	if !(a.LossShare > 0 && a.LossShare < 1) {
		return 0
	}
	return betweenS * math.Ceil(math.Log(1e-6)/math.Log(a.LossShare))
}

// graceS is for a message that is on its way.
func (a *aircraft) graceS() float64 { return graceS + a.LinkS }

func (c *check) pilot() {
	for _, a := range c.aircraft {
		for _, t := range a.notLed {
			if math.IsInf(t.knownS, 1) {
				continue
			}
			fromS := t.knownS + a.LinkS + a.graceS() // HEARTBEAT and setpoint are on their way
			if c.excuses("late datagrams", a.number, t.knownS) {
				fromS += latestS // a HEARTBEAT from before may come later
			}
			c.none(a, newSpans(span{fromS, t.toS}).without(c.deaf(a)), (*arrival).commands,
				fmt.Sprintf("is its pilot's by %s since %.2f s, known at %.2f s", t.cause, t.fromS, t.knownS))
		}
	}
}

func (c *check) whitelist() {
	all := func(g *arrival) bool { return !g.isSetpoint() && !g.Harmless }
	c.each(all, func(a *aircraft, g *arrival) {
		c.holds(g.timeS, c.isAllowed(a, g), "aircraft %d receives %v at %.1f m in %s", a.number, g, g.Position[2], g.Mode)
	})
}

// isAllowed reports whether the contract has a message that is neither a setpoint nor harmless.
func (c *check) isAllowed(a *aircraft, g *arrival) bool {
	const offM, climbsM = 1, 19 // one that is lower below H takes off again, and one that is not flies there
	switch asked := a.modeAsked(g); {
	case g.Other != "":
		return c.SharedLink && g.Target > 0 && g.Target != a.systemID() && (g.Other == "CommandLong" ||
			g.Other == "SetPositionTargetGlobalInt")
	case g.Command == armDisarm:
		return g.param(0) == 1 && g.param(1) == 0 && (!a.isCopter() || g.Armed || g.Mode == offboard)
	case g.Command == commandTakeOff:
		groundM := c.AMSLM
		if a.isCopter() { // it counts from its home
			groundM = -c.groundM(a, g.Position)
		}
		off := math.Abs(g.param(6) - groundM - c.Physics.AltitudeM)
		return math.IsNaN(g.param(4)) && math.IsNaN(g.param(5)) && off <= offM+4*a.ReceiverUpM+a.DriftM &&
			g.Position[2] < c.Physics.AltitudeM-climbsM
	case asked == hold:
		return g.param(0) == 1 && (g.Mode != land || g.Landed || c.justChosen(a, g))
	case asked != offboard && g.Mode == posctl && g.Armed: // the pilot's mode, which an order of the crew's may end by OFFBOARD alone
		return c.justChosen(a, g) || c.excusesAny(a.number, g.timeS, "lost heartbeats", "late datagrams", "link cut")
	default:
		return g.param(0) == 1 && slices.Contains([]string{offboard, land, rtl}, asked)
	}
}

// justChosen reports whether a message arrives in a mode that no HEARTBEAT has shown yet.
func (c *check) justChosen(a *aircraft, g *arrival) bool {
	x, ok := a.in(func(s *state) bool { return s.Mode == g.Mode }).at(g.timeS)
	return !ok || g.timeS < x.fromS+shownS+a.linkSlackS() // true states are 0.1 s apart
}

func (c *check) disarm() {
	c.each(func(g *arrival) bool { return g.Command == armDisarm }, func(a *aircraft, g *arrival) {
		c.holds(g.timeS, g.isArm() || g.Landed, "aircraft %d is to be disarmed at %.1f m", a.number, g.Position[2])
	})
}

func (c *check) address() {
	c.each(func(g *arrival) bool { return g.Target >= 0 }, func(a *aircraft, g *arrival) {
		ok := g.Target == a.systemID() || c.SharedLink && slices.ContainsFunc(c.aircraft, func(o *aircraft) bool {
			return g.Target == o.systemID()
		})
		c.holds(g.timeS, ok, "aircraft %d receives %v, to system %d", a.number, g, g.Target)
	})
}

// armOrder is an order of the crew's to take off.
type armOrder struct {
	span            // from when it was given until it is over, by another order or as it was disarmed
	firstS  float64 // arming was first commanded; +Inf: never
	overWhy string
}

// armOrders are those of an aircraft. One that was refused is none.
func (c *check) armOrders(a *aircraft) (all []armOrder) {
	for _, o := range c.orders {
		if !o.takesOff() || !o.names(a.number) || !math.IsInf(o.answeredS, 1) && !o.accepted {
			continue
		}
		endS := c.nextOrderS(a.number, o.sentS, telemetry.ActionReturn, telemetry.ActionStop)
		x := armOrder{span{o.sentS, endS}, a.receivesS(o.sentS, (*arrival).isArm), "the crew ended its order"}
		armedS := a.shownS(o.sentS, func(h heartbeat) bool { return h.Armed })
		if offS := a.shownS(armedS, func(h heartbeat) bool { return !h.Armed }); offS < x.toS {
			x.toS, x.overWhy = offS, "it was disarmed"
		}
		all = append(all, x)
	}
	return all
}

func (c *check) unordered() {
	for _, a := range c.aircraft {
		var ordered []span
		for _, o := range c.armOrders(a) {
			ordered = append(ordered, span{o.fromS, o.toS + a.linkSlackS()})
		}
		c.none(a, a.off().without(newSpans(ordered...)).without(c.deaf(a)), (*arrival).commands, "is on the ground without an order")
	}
}

// off is when an aircraft is on the ground with its motors off.
func (a *aircraft) off() spans { return a.in(func(s *state) bool { return s.Landed && !s.Armed }) }

func (c *check) arm() {
	const toldS = 4 // of its checks
	for _, a := range c.aircraft {
		orders, deaf, unready := c.armOrders(a), c.deaf(a), a.in(func(s *state) bool { return s.Unready }).from(toldS)
		for g := range a.receives((*arrival).isArm) {
			var o *armOrder // the last one
			for k := range orders {
				if orders[k].fromS <= g.timeS {
					o = &orders[k]
				}
			}
			if o == nil {
				c.holds(g.timeS, false, "aircraft %d is to arm, without an order", a.number)
				continue
			}
			c.holds(g.timeS, !a.isCopter() || !unready.contains(g.timeS), "aircraft %d is to arm, and its checks fail", a.number)
			c.holds(g.timeS, g.timeS <= o.toS+a.linkSlackS() || deaf.contains(g.timeS-a.linkSlackS()),
				"aircraft %d is to arm, and %s at %.1f s",
				a.number, o.overWhy, o.toS)
			c.atMost(g.timeS, g.timeS-o.firstS, armS+a.linkSlackS(), "aircraft %d is to arm, first at %.1f s, and the order holds for %d s",
				a.number, o.firstS, armS)
		}
	}
}

func (c *check) takeOff() {
	const stillM, movingM, movesMPS = 9, 20, 3
	c.each((*arrival).isArm, func(a *aircraft, g *arrival) {
		for _, o := range c.aircraft {
			s := o.at(g.timeS)
			if o == a || !o.inAir.contains(g.timeS) || s.Mode == takeoff {
				continue
			}
			least := float64(stillM)
			if s.speedMPS() > movesMPS {
				least = movingM
			}
			d := horizontalM(sub(g.Position, s.PositionM))
			c.atMost(g.timeS, least, d, "aircraft %d is to arm, %.1f m from aircraft %d in flight", a.number, d, o.number)
		}
	})
}

func (c *check) ground() {
	for _, a := range c.aircraft {
		shown := a.beatsThat(func(h *heartbeat) bool { return !h.Armed }).from(a.LinkS + a.linkSlackS())
		c.none(a, a.off().and(shown).without(c.deaf(a)), (*arrival).isSetpoint, "is known to be on the ground with its motors off")
	}
}

// silent is when an aircraft has sent no HEARTBEAT for some time.
func (a *aircraft) silent(forS float64) (all spans) {
	for k, h := range a.beats {
		all = append(all, span{h.timeS + forS, math.Inf(1)})
		if k > 0 {
			all[k-1].toS = h.timeS
		}
	}
	return newSpans(all...)
}

func (c *check) noHeartbeat() {
	for _, a := range c.aircraft {
		c.none(a, a.silent(silentS+a.linkSlackS()), (*arrival).isSetpoint, "sent no HEARTBEAT for 10 s")
	}
}

// noPosition: where its messages are lost and those to it are not, nothing is sent to where it was.
func (c *check) noPosition() {
	const staleS = 3
	for _, a := range c.aircraft {
		c.none(a, c.fault(a.number, "link_loss").from(staleS+a.linkSlackS()+a.LinkS), (*arrival).isSetpoint, "is not received for 3 s")
	}
}

func (c *check) gap() {
	const most, soonS, againS = 2 * periodS, 1, 2
	for _, a := range c.aircraft {
		in := a.commanded()
		if a.isCopter() { // it is in GUIDED at the end of its take-off, before a HEARTBEAT shows it
			in = in.from(shownS)
		}
		in = in.without(a.silent(silentS-soonS).wider(0, againS)) // it may have ended
		in = c.assumeAll(a, in, "leader away", "link cut", "stream over")
		c.noGaps(a, in, (*arrival).isSetpoint, most+a.graceS()+a.lostS(periodS), "setpoint")
	}
}

// noGaps checks the time between two messages of a kind in some times.
func (c *check) noGaps(a *aircraft, in spans, is func(*arrival) bool, mostS float64, name string) {
	if a.Unheard {
		return
	}
	for _, x := range in {
		lastS := x.fromS
		next := func(timeS float64) {
			c.atMost(lastS, timeS-lastS, mostS, "aircraft %d receives no %s for %.2f s", a.number, name, timeS-lastS)
			lastS = timeS
		}
		for g := range a.receives(is) {
			if g.timeS >= x.fromS && g.timeS < x.toS {
				next(g.timeS)
			}
		}
		next(x.toS)
	}
}

// rate checks how many messages of a kind come in some seconds.
func (c *check) rate(is func(*arrival) bool, most int, inS float64) {
	for _, a := range c.aircraft {
		var timesS []float64
		for g := range a.receives(is) {
			if g.isSetpoint() || !c.excuses("mode refused", a.number, g.timeS) {
				timesS = append(timesS, g.timeS)
				timesS = slices.DeleteFunc(timesS, func(t float64) bool { return t <= g.timeS-inS+a.LinkS })
				c.atMost(g.timeS, float64(len(timesS)), float64(most), "aircraft %d receives %v, the %dth in %.0f s", a.number, g,
					len(timesS), inS)
			}
		}
	}
}

func (c *check) oneStream() { c.rate((*arrival).isSetpoint, 12, 1) }

func (c *check) modeCommands() { c.rate(func(g *arrival) bool { return g.Command == setMode }, 4, 10) }

func (c *check) leaderDown() {
	for _, a := range c.aircraft {
		c.none(a, c.fault(0, record.LeaderDown).from(a.graceS()), (*arrival).commands, "has no leader that runs")
	}
}

// decidedS are the times at which the slot loop showed that it runs: by a beacon, an order, and outside the slots a status.
func (f *flight) decidedS() (all []float64) {
	for _, b := range f.beacons {
		all = append(all, b.timeS)
	}
	for _, s := range f.statuses {
		if s.State != telemetry.StateFlying && s.State != telemetry.StateHolding {
			all = append(all, s.timeS)
		}
	}
	for _, o := range f.missionOrders(telemetry.ActionHold, telemetry.ActionReturn, telemetry.ActionStop) { // they wait for no disk
		all = append(all, o.deliveredS)
	}
	slices.Sort(all)
	return all
}

// sinceDecided checks how long after the last decision some setpoints still come.
func (c *check) sinceDecided(is func(*aircraft, *arrival) bool, boundS float64) {
	const soonS = 0.3 // what is decided is sent before it shows
	decidedS := c.decidedS()
	for _, a := range c.aircraft {
		in := c.assumeAll(a, spans{{0, c.endS}}, "leader away", "broker away")
		for g := range a.receives((*arrival).isSetpoint) {
			if last, _ := slices.BinarySearch(decidedS, g.timeS+soonS); is(a, g) && in.contains(g.timeS) && last > 0 {
				ageS := g.timeS - decidedS[last-1]
				c.atMost(g.timeS, ageS, boundS+a.linkSlackS(), "aircraft %d receives %v, and nothing was decided for %.1f s", a.number, g,
					ageS)
			}
		}
	}
}

func (c *check) streamEnd() {
	const endS, commitS = 12, 2 // a slot that is decided when the loop stops
	c.sinceDecided(func(*aircraft, *arrival) bool { return true }, endS+commitS)
}

func (c *check) stale() {
	const stillMPS, asideMPS, marginM = 0.01, 0.1, 5 // one that holds is led aside from another as near as the separation
	near := map[*aircraft]spans{}
	for _, a := range c.aircraft {
		near[a] = c.near(a, c.Physics.SeparationM+marginM)
	}
	moves := func(a *aircraft, g *arrival) bool {
		speed := horizontalM(vectorOf(g.Setpoint.VelocityMPS))
		return speed > asideMPS || speed > stillMPS && !near[a].contains(g.timeS)
	}
	decidesS := 0.0 // after a beacon
	for _, b := range c.beacons {
		if b.SlotMS > 0 {
			decidesS = max(decidesS, b.DecideByMS/b.SlotMS)
		}
	}
	c.sinceDecided(moves, decidesS+ttlS)
}

func (c *check) takeOffEnded() {
	const nearM, climbsMPS = 3, 1.5
	for _, a := range c.aircraft {
		climbs := a.in(func(s *state) bool {
			return s.Mode == takeoff && !s.Landed && (s.PositionM[2] < c.Physics.AltitudeM-nearM || s.VelocityMPS[2] > climbsMPS)
		})
		if a.isCopter() {
			c.none(a, climbs.and(a.led), (*arrival).isSetpoint, "takes off")
		}
	}
}

func (c *check) followed() {
	const takenS, followedS, runS = 11, 1, 0.5
	for _, a := range c.aircraft {
		mode, sinceS, lastS := "", 0.0, math.Inf(-1)
		for g := range a.receives((*arrival).isSetpoint) {
			if g.Mode != mode || g.timeS-lastS > runS {
				mode, sinceS = g.Mode, g.timeS
			}
			if lastS = g.timeS; mode == offboard || c.excuses("mode refused", a.number, g.timeS) {
				continue
			}
			fromS, most := sinceS, float64(takenS)
			if mode == land || mode == rtl {
				s := a.shownS(sinceS, func(h heartbeat) bool { return h.Mode == mode })
				if s < g.timeS && !(g.timeS-s > followedS && c.excuses("link cut", a.number, g.timeS)) {
					fromS, most = s, followedS
				}
			}
			c.atMost(g.timeS, g.timeS-fromS, most, "aircraft %d receives setpoints since %.1f s, in %s", a.number, sinceS, mode)
		}
	}
}

func (c *check) engages() {
	const needs, belowM, beganS = 3, 21, 0.5 // a write that had begun before is finished then
	for _, a := range c.aircraft {
		var timesS []float64
		for k := range a.got {
			g := &a.got[k]
			if g.isSetpoint() {
				timesS = append(timesS, g.timeS)
			}
			if a.isCopter() || a.modeAsked(g) != offboard {
				continue
			}
			timesS = slices.DeleteFunc(timesS, func(t float64) bool { return t < g.timeS-1 })
			if len(timesS) < needs && c.excuses("link cut", a.number, g.timeS) {
				continue
			}
			c.atMost(g.timeS, needs, float64(len(timesS)), "aircraft %d is to follow setpoints, and received %d in a second", a.number,
				len(timesS))
			if g.timeS < c.slotsEndS() && !c.homeward(a).contains(g.timeS) { // one that comes home need not climb
				c.atMost(g.timeS, c.Physics.AltitudeM-g.Position[2], belowM+a.DriftM, "aircraft %d is to follow setpoints at %.1f m",
					a.number, g.Position[2])
			}
			if x, stands := c.fault(0, "disk_stall").at(g.timeS); stands { // what it is ordered then is not durable yet
				s := a.at(x.fromS + beganS)
				c.holds(g.timeS, s.Mode != takeoff || s.PositionM[2] > c.Physics.AltitudeM-belowM, "aircraft %d is to follow setpoints, "+
					"and the ledger cannot have it", a.number)
			}
		}
	}
}

func (c *check) landingPlace() {
	const nearM = 4
	c.each(func(g *arrival) bool { return g.Command == setMode }, func(a *aircraft, g *arrival) {
		home, ok := a.homeAt(g.timeS)
		stopped := slices.ContainsFunc(c.missionOrders(telemetry.ActionStop), func(o *order) bool { return o.deliveredS <= g.timeS })
		if !ok || a.modeAsked(g) != land || stopped || c.isTaken(a, home, g.timeS) {
			return
		}
		d := horizontalM(sub(g.Position, home))
		c.atMost(g.timeS, d, nearM+a.toldM(), "aircraft %d is to land %.1f m from where it took off", a.number, d)
	})
}

func (c *check) station() {
	const most, betweenS = 1.5, 1
	if c.SharedLink { // it receives those of other aircraft as well
		return
	}
	for _, a := range c.aircraft {
		in := c.assumeAll(a, a.in(func(s *state) bool { return s.Armed }), "leader away", "link cut", "stream over")
		c.noGaps(a, in, (*arrival).isHeartbeat, most+a.lostS(betweenS), "HEARTBEAT")
	}
}

func (c *check) earlyHeartbeats() {
	const most, togetherS = 20, 0.5 // of one moment there are two
	if c.SharedLink {               // it receives those of other aircraft as well
		return
	}
	for _, a := range c.aircraft {
		for _, x := range c.fault(0, record.LeaderDown) {
			n, lastS := 0, 0.0
			for g := range a.receives((*arrival).isHeartbeat) {
				if (spans{x}).contains(g.timeS) && g.timeS > lastS+togetherS {
					n, lastS = n+1, g.timeS
				}
			}
			c.atMost(x.fromS, float64(n), most+1, "aircraft %d has %d HEARTBEATs of a leader that does not command", a.number, n)
		}
	}
}

func (c *check) asked() {
	most := []struct {
		message, everyUS float64
		name             string
	}{{147, 500e3, "BATTERY_STATUS"}, {245, 1e6, "EXTENDED_SYS_STATE"}}
	for _, a := range c.aircraft {
		if len(a.takeOffs) == 0 || a.Unheard {
			continue
		}
		firstS := a.takeOffs[0].timeS
		for _, m := range most {
			everyUS := math.Inf(1)
			for g := range a.receives(func(g *arrival) bool { return g.Command == "MAV_CMD_SET_MESSAGE_INTERVAL" && g.timeS <= firstS }) {
				if g.param(0) == m.message {
					everyUS = g.param(1)
				}
			}
			switch never := math.IsInf(everyUS, 1); { // it sends that by itself, too, and is asked again only where it does not
			case never && len(c.fault(a.number, "autopilot_reboot").and(spans{{0, firstS}})) > 0:
				c.finding.Assumed["it sends that by itself once it has booted"]++
			case never && a.LossShare > 0:
				c.finding.Assumed["a request is lost"]++
			default:
				c.atMost(firstS, everyUS, m.everyUS, "aircraft %d takes off, and is to send %s every %.0f µs", a.number, m.name, everyUS)
			}
		}
	}
}

func (c *check) asksAgain() {
	const withinS = 2.6
	for _, a := range c.aircraft {
		in := c.assumeAll(a, a.in(func(s *state) bool { return s.Armed }), "leader away", "link cut", "late datagrams")
		for k := 1; k < len(a.beats); k++ {
			fromS, toS := a.beats[k-1].timeS, a.beats[k].timeS
			if toS-fromS < withinS || len(spans{{fromS, toS}}.without(in)) > 0 {
				continue
			}
			happensS := a.receivesS(fromS, func(g *arrival) bool {
				return g.Command == "MAV_CMD_REQUEST_MESSAGE" && g.param(0) == 0 && g.timeS > fromS
			})
			c.within(fromS, happensS, withinS, "aircraft %d sent no HEARTBEAT for %.1f s, and was not asked for one", a.number, toS-fromS)
		}
	}
}

func (c *check) incomplete() {
	c.each((*arrival).isSetpoint, func(a *aircraft, g *arrival) {
		s, ok := g.Setpoint, true
		for _, x := range []record.Number{s.PositionM[0], s.PositionM[1], s.PositionM[2], s.VelocityMPS[0], s.VelocityMPS[1]} {
			ok = ok && !math.IsNaN(float64(x))
		}
		c.holds(g.timeS, ok, "aircraft %d receives %+v", a.number, *s)
	})
}

func vectorOf(n [3]record.Number) point { return point{float64(n[0]), float64(n[1]), float64(n[2])} }

// requestedM is how far it is to be away in a second: the target is where the slot ends, so that what the aircraft
// lags behind is in it.
func (g *arrival) requestedM() point {
	p, v := sub(vectorOf(g.Setpoint.PositionM), g.Position), vectorOf(g.Setpoint.VelocityMPS)
	if d := horizontalM(p); g.slowsMPSS > 0 && d > g.slowsMPSS { // after ArduPilot's sqrt_controller
		for k := range p {
			p[k] *= math.Sqrt(2*g.slowsMPSS*(d-g.slowsMPSS/2)) / d
		}
	}
	return point{p[0] + v[0], p[1] + v[1], 0}
}

func (c *check) commandedSpeed() {
	const slackMPS, lagM, copterLags = 0.05, 0.5, 0.25 // of the way in which it stops: an ArduCopter's target is further ahead
	c.each((*arrival).isSetpoint, func(a *aircraft, g *arrival) {
		v, away := horizontalM(vectorOf(g.Setpoint.VelocityMPS)), horizontalM(g.requestedM())
		c.atMost(g.timeS, v, a.speedMPS+slackMPS, "aircraft %d is commanded to %.2f m/s, the limit is %.1f", a.number, v, a.speedMPS)
		most := a.speedMPS*(1+a.linkSlackS()) + lagM + copterLags*a.stopsInM + a.toldM()
		if away > most && c.excusesAny(a.number, g.timeS, "wrong sample",
			"link cut") { // of a receiver without a fix it is known where it was
			most += max(a.at(g.timeS).speedMPS(), a.at(g.timeS-1).speedMPS())
		}
		c.atMost(g.timeS, away, most,
			"aircraft %d is to be %.1f m away in a second, the limit is %.1f m/s",
			a.number, away, a.speedMPS)
	})
}

func (c *check) commandedFence() {
	homesM := c.homesOutsideM()
	if homesM > 0 { // with room to wait beside it
		homesM += waitsBesideM
	}
	for _, a := range c.aircraft {
		homeward := c.homeward(a).or(newSpans(span{c.slotsEndS(), c.endS}))
		if spent := c.spentSince(a); homesM > 0 && len(spent) > 0 {
			c.finding.Assumed["its pack is spent"] += spent.lengthS()
			homeward = homeward.or(spent)
		}
		// How far outside it was last, and when: a setpoint follows one that comes in by itself, from a slot later on.
		k, lastM, lastS := 0, 0.0, 0.0
		knownM := func(timeS float64) float64 { return lastM - 2*max(0, timeS-lastS-1) }
		for g := range a.receives((*arrival).isSetpoint) {
			for ; k < len(a.states) && a.states[k].timeS <= g.timeS; k++ {
				if s := &a.states[k]; c.outsideM(s.PositionM) >= knownM(s.timeS) {
					lastM, lastS = c.outsideM(s.PositionM), s.timeS
				}
			}
			p, fromMiddleM := vectorOf(g.Setpoint.PositionM), c.Physics.AreaSideM/2
			allowed := max(0, knownM(g.timeS))
			// From a home outside it comes in, beside others that do.
			if homesM > 0 && (homeward.contains(g.timeS) || g.timeS < c.epochS ||
				c.excusesAny(a.number, g.timeS, "comes home by itself", "low pack")) {
				allowed = max(allowed, homesM)
			}
			c.atMost(g.timeS, fromMiddleM+c.outsideM(p), fromMiddleM+allowed+commandSlackM, "aircraft %d is sent to (%.1f, %.1f)", a.number,
				p[0], p[1])
		}
	}
}

func (c *check) commandedHeight() {
	const offM, climbMPS = 0.5, 0.5
	c.each((*arrival).isSetpoint, func(a *aircraft, g *arrival) {
		up, climb := float64(g.Setpoint.PositionM[2]), float64(g.Setpoint.VelocityMPS[2])
		aboveM := math.Abs(up - c.Physics.AltitudeM)
		if aboveM > offM+a.DriftM && c.jumpIsNew(a, g.timeS) {
			return
		}
		c.atMost(g.timeS, aboveM, offM+a.DriftM, "aircraft %d is sent to %.1f m", a.number, up)
		c.holds(g.timeS, !(math.Abs(climb) > climbMPS), "aircraft %d is commanded to climb at %.1f m/s", a.number, climb)
	})
}

// told is a setpoint and who received it.
type told struct {
	*arrival
	by *aircraft
}

// commandedSeparation checks the paths of each two aircraft in the next second. The setpoints of one tick arrive one
// after the other, so that for a moment a new leg meets another aircraft's old one.
func (c *check) commandedSeparation() {
	var all []told
	c.each((*arrival).isSetpoint, func(a *aircraft, g *arrival) { all = append(all, told{g, a}) })
	slices.SortStableFunc(all, func(x, y told) int { return cmp.Compare(x.timeS, y.timeS) })
	latest := map[int]*arrival{}   // the last setpoint of each
	sinceS := map[[2]int]float64{} // two are in conflict since
	for _, x := range all {
		latest[x.by.number] = x.arrival
		for _, o := range c.aircraft {
			if o == x.by || !o.inAir.contains(x.timeS) || c.cameByItself(o, x.timeS) {
				continue
			}
			pair := [2]int{min(o.number, x.by.number), max(o.number, x.by.number)}
			leastM, boundM, closingMPS := c.leastM(x.arrival, o, latest[o.number])
			if !(leastM < boundM) {
				if delete(sinceS, pair); !math.IsInf(leastM, 1) {
					c.finding.Active++
					c.use(boundM, leastM)
				}
				continue
			}
			if _, before := sinceS[pair]; !before {
				sinceS[pair] = x.timeS
			}
			c.holds(x.timeS, x.timeS-sinceS[pair] <= 1.5*periodS, "aircraft %d and %d are commanded to close in at %.1f m/s and come "+
				"within %.1f m, since %.1f s", x.by.number, o.number, closingMPS, leastM, sinceS[pair])
		}
	}
}

// keepsOff: one that lands gives way to nobody, and is kept clear of by half a separation more, which it may take to stop.
func (c *check) keepsOff() {
	const nearM, nearerM, levelM, knownS = 14.5, 1, 25, 4
	h := c.Physics.AltitudeM
	for _, o := range c.aircraft {
		lands := o.in(func(s *state) bool { return s.Mode == land && s.Armed && s.PositionM[2] > h-levelM }).and(o.led).from(knownS)
		lands = c.assumeAll(o, lands, "leader away", "link cut", "late datagrams", "lost heartbeats", "station silent")
		c.each((*arrival).isSetpoint, func(a *aircraft, g *arrival) {
			if a == o || g.Mode != offboard || !a.isLed(g.timeS) || !lands.contains(g.timeS) ||
				c.excusesAny(a.number, g.timeS, "link cut", "late datagrams", "leader away", "wrong sample") {
				return
			}
			s, move := o.at(g.timeS), g.requestedM()
			if math.Abs(s.PositionM[2]-g.Position[2]) > levelM {
				return
			}
			there := point{s.PositionM[0] + s.VelocityMPS[0], s.PositionM[1] + s.VelocityMPS[1], s.PositionM[2]}
			to := point{g.Position[0] + move[0], g.Position[1] + move[1], g.Position[2]}
			leftM, nowM := horizontalM(sub(there, to)), horizontalM(sub(there, g.Position))
			most := nearerM + a.linkSlackS()*horizontalM(move) + a.toldM()
			c.finding.Active++
			if nowM-leftM > most {
				c.atMost(g.timeS, nearM, leftM, "aircraft %d is sent %.1f m nearer to aircraft %d, to %.1f m", a.number, nowM-leftM,
					o.number, leftM)
			}
		})
	}
}

// leastM is the least horizontal distance in the next second of an aircraft that receives a setpoint and another one,
// and what it must be at least. +Inf: one is far above the other, or they move apart, or it does not follow setpoints.
func (c *check) leastM(g *arrival, o *aircraft, other *arrival) (leastM, boundM, closingMPS float64) {
	const apartMPS, recentS, unheardS = 0.3, 0.5, 1.1
	knownS := g.timeS
	if x, cut := c.fault(o.number, "link_loss", "autopilot_reboot").at(g.timeS); cut && g.timeS-x.fromS < unheardS {
		c.finding.Assumed["link cut"]++
		knownS = x.fromS // until it is silent for a second it is to fly on as it did
	}
	s := o.at(knownS)
	at, way := s.PositionM, s.VelocityMPS
	for k := range at { // the state is of a moment before
		at[k] += way[k] * (g.timeS - s.timeS)
	}
	if other != nil && g.timeS-other.timeS < recentS && other.Mode == offboard {
		way = other.requestedM()
	}
	apart, closing := sub(g.Position, at), sub(g.requestedM(), way)
	if g.Mode != offboard || math.Abs(apart[2]) > c.Physics.SeparationM {
		return math.Inf(1), 0, 0
	}
	distanceM, closingMPS := horizontalM(apart), horizontalM(closing)
	rate := (apart[0]*closing[0] + apart[1]*closing[1]) / distanceM // above 0: they move apart
	if rate > apartMPS {
		return math.Inf(1), 0, 0
	}
	share := 0.0
	if closingMPS > 0 {
		share = min(max(-rate*distanceM/(closingMPS*closingMPS), 0), 1)
	}
	leastM = math.Hypot(apart[0]+share*closing[0], apart[1]+share*closing[1])
	return leastM, c.Physics.SeparationM - commandSlackM - o.linkSlackS()*closingMPS, closingMPS
}
