package judge

import (
	"math"
)

// inTimeRules are of what comes too late to be of use.
var inTimeRules = []Rule{
	{"decision time", "decisions, beacons", "decide_by_ms after the beacon, and 60 ms", contract + "decision", (*check).decisionTime},
	{"comes in", "true position, led in the slots", "1.5 m outside the area for 15 s, unless a home is", contract + "fence",
		(*check).comesIn},
	{"climbs on", "true charge in a take-off, led", "8 s with less than 0.95 of the reserve and the landing", contract + "reserve",
		(*check).climbsOn},
}

// decisionTime: a user without one has taken the offer by then.
func (c *check) decisionTime() {
	const slackS = 0.06 // on its way, and of a slow disk
	opened := c.opened()
	for _, d := range c.decisions {
		if b := opened[d.Slot]; b != nil && c.Speed != 0 {
			byS := b.DecideByMS / b.SlotMS
			c.atMost(d.timeS, d.timeS-b.timeS, byS+slackS, "user %s has its decision of slot %d %.2f s after the beacon, and takes the "+
				"offer after %.2f", d.user, d.Slot, d.timeS-b.timeS, byS)
		}
	}
}

// climbsOn: one that has not even its reserve and its landing is to come down. Where a budget names other reserves, that is of the rules
// of packs.
func (c *check) climbsOn() {
	const lastsS, settlesS, share = 8, 18, 0.95
	if c.bounded() {
		return
	}
	hoverW := c.Physics.Propulsion.PowerW(0)
	for _, a := range c.aircraft {
		if a.Unheard { // how fast it lands is unknown
			continue
		}
		climbs := a.in(func(s *state) bool { return s.Mode == takeoff && s.heightM() > 1 }).and(a.led)
		climbs = c.assumeAll(a, climbs, "leader away", "link cut", "disk stands", "late datagrams")
		misread := c.fault(a.number, "battery_absent", "battery_handover", "battery_wild", "battery_second", "battery_reset")
		c.always(a, climbs.without(misread.wider(0, settlesS)), lastsS+2*a.MonitorS, func(s *state) (float64, float64) {
			return share * (reserveJ + hoverW*a.descentS(s.PositionM[2])), math.Max(s.LeftJ, 1e-9)
		}, "aircraft %[1]d climbs on at %.0[5]f m with %.0[3]f J, of %.0[2]f")
	}
}

// comesIn: one that its pilot left outside is led in, at several metres a second.
func (c *check) comesIn() {
	const outM, lastsS, nearM = 1.5, 15, 40
	if c.homesOutsideM() > 0 {
		c.finding.Assumed["a home is outside"]++
		return
	}
	for _, a := range c.aircraft {
		in := a.commanded().and(spans{{c.epochS, c.slotsEndS()}})
		in = c.assumeAll(a, in, "leader away", "link cut", "contact lost", "comes home by itself", "disk stands", "late datagrams")
		c.always(a, in.without(c.near(a, nearM)), lastsS, func(s *state) (float64, float64) {
			return c.outsideM(s.PositionM), outM + a.toldM() + a.GustMPS2
		}, "aircraft %[1]d is %.1[2]f m outside for long, and is not led in")
	}
}
