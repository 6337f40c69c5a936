package judge

import (
	"math"
	"strings"

	"prefdt/simbridge/autopilot"
	"prefdt/telemetry"
)

// nextRules are of what the crew is told of packs, and allowed with them, on the ground.
var nextRules = []Rule{
	{"pack at rest", "statuses once a mission is over, true charge",
		"0.05 of the pack, what its sensor makes of it, and of an ArduCopter that has booted a fifth, as its voltage tells it",
		contract + "status", (*check).packAtRest},
	{"within packs", "accepted budgets, accepted starts and the budget told before, true packs", "1.01 of what the packs hold",
		contract + "budgets", (*check).withinPacks},
	{"enough for a flight", "accepted starts and launches, true charge",
		"the reserve, and 0.85 of a climb and a landing at the autopilot's rates",
		contract + "start and launch are refused", (*check).takesOff},
	{"next floor", "statuses of the next mission, true power", "a tenth of what its slots take at least, as was measured before, where " +
		"that is dear", contract + "budgets", (*check).nextFloor},
}

// readS is for how long after two readings of its monitor a leader may not know of a pack's charge.
const readS = 3

func (c *check) packAtRest() {
	const share, restShare, recoversShare = 0.05, 0.2, 0.1
	f := c.next
	if f == nil {
		return
	}
	f.toldOfAll(func(s *status, t *telemetry.StatusAircraft, a *aircraft) {
		if t.UsableJ == nil || len(a.states) == 0 || f.packsFrom(s.timeS) == nil {
			return
		}
		if len(c.fault(t.Number, "battery_reset", "low_battery")) > 0 { // its charge jumped, and its counters did not
			c.finding.Assumed["charge that jumped"]++
			return
		}
		now, before := a.at(s.timeS), a.at(s.timeS-2*a.MonitorS-readS)
		most := share*now.PackJ + counterStepJ + math.Abs(a.gain()-1)*(a.states[0].SpentJ+now.PackJ-now.LeftJ)
		if a.isCopter() && (strings.Contains(c.handled, "rebooted") || len(c.fault(t.Number, "autopilot_reboot")) > 0) {
			most += restShare * now.PackJ
			c.finding.Assumed["read by its voltage"]++
		}
		// A voltage at rest recovers by as much: nothing else shows that a pack is little fuller.
		if strings.Contains(c.handled, "swapped") {
			most = max(most, recoversShare*now.PackJ+counterStepJ)
		}
		off := max(min(now.LeftJ, before.LeftJ)-*t.UsableJ, *t.UsableJ-max(now.LeftJ, before.LeftJ, 0), 0)
		c.atMost(s.timeS, off, most, "the status has %.0f J that aircraft %d may use, on the ground it has %.0f", *t.UsableJ, t.Number,
			now.LeftJ)
	})
}

// grounds calls f with the mission, and with what followed it.
func (c *check) grounds(each func(*flight)) {
	for _, f := range []*flight{c.flight, c.next} {
		if f != nil && len(f.aircraft) > 0 && len(f.aircraft[0].states) > 0 {
			each(f)
		}
	}
}

func (c *check) withinPacks() {
	const most = 1.01
	c.grounds(func(f *flight) {
		for _, o := range f.orders {
			packsJ, budgetJ := 0.0, o.budget.EnergyJ
			for _, a := range f.aircraft {
				packsJ += a.at(o.answeredS).PackJ
			}
			for _, s := range f.statuses { // a start is with the one that was told last
				if o.kind != telemetry.KindMission || o.mission.Action != telemetry.ActionStart || s.timeS >= o.deliveredS {
					continue
				}
				if budgetJ = 0; s.BudgetJ != nil {
					budgetJ = *s.BudgetJ
				}
			}
			if o.accepted && budgetJ > 0 && packsJ > 0 {
				c.atMost(o.answeredS, budgetJ, most*packsJ, "%s is accepted with a budget of %.0f J, and the packs hold %.0f", o.id,
					budgetJ, packsJ)
			}
		}
	})
}

func (c *check) takesOff() {
	const share = 0.85
	c.grounds(func(f *flight) {
		for _, o := range f.missionOrders(telemetry.ActionStart, telemetry.ActionLaunch) {
			for _, a := range f.aircraft {
				now, up := a.at(o.deliveredS), f.Physics.AltitudeM
				if !o.names(a.number) || !now.OnGround || now.PackJ == 0 {
					continue
				}
				s := a.climbS(up) + a.descentS(up) + autopilot.LandDetectS
				if math.IsInf(s, 0) { // of an autopilot of somebody else's no rates are recorded
					continue
				}
				pack, _ := f.kept(a, o.deliveredS)
				least := keptJ(pack, now) + share*s*f.Physics.Propulsion.PowerW(0) - math.Abs(a.gain()-1)*(now.PackJ-now.LeftJ)
				leftJ := max(now.LeftJ, a.at(o.deliveredS-2*a.MonitorS-readS).LeftJ, 1e-9)
				c.atMost(o.answeredS, least, leftJ, "aircraft %d takes off with %.0f J, and the climb, the landing and its reserve "+
					"take %.0f", a.number, leftJ, least)
			}
		}
	})
}

// nextFloor is of a mission that begins with what the one before measured of flight, if it takes half as much again.
func (c *check) nextFloor() {
	const share, measuredSlots = 0.1, 12
	f, measured := c.next, 0
	for _, r := range c.rows() {
		if float64(r.Slot) >= c.shockSlot() && !r.Missed { // in one that was missed nothing is measured of it
			measured++
		}
	}
	if f == nil || !c.calm() || !c.costsTheFormula() || strings.Contains(c.handled, "fresh") || c.bounded() || measured < measuredSlots {
		return
	}
	_, bestW := c.Physics.MinPower()
	least := c.powerFactor(float64(c.Slots)) * bestW * float64(c.Slots) * float64(len(c.aircraft))
	for _, s := range f.statuses {
		if s.State == telemetry.StateIdle && s.Scope != telemetry.ScopeLanded {
			c.atMost(s.timeS, math.Abs(s.FloorJ-least), share*least, "the status has a floor of %.0f J before the slots, they take %.0f",
				s.FloorJ, least)
		}
	}
}

// climbS is the least that a climb takes.
func (a *aircraft) climbS(upM float64) float64 {
	if a.isCopter() {
		return upM / a.climbMPS
	}
	return upM / max(a.Parameters["MPC_Z_VEL_MAX_UP"], 1)
}
