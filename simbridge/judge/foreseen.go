package judge

import (
	"maps"
	"math"
	"slices"

	"prefdt/inference/physics"
	"prefdt/simbridge/record"
	"prefdt/telemetry"
)

// foreseenRules are of what the crew is told of the packs that its budget bounds: it decides by that.
var foreseenRules = []Rule{
	{"told reserve", "statuses, true packs in the air, the budget", "0.01 of the reserve that the budget names", contract + "budgets",
		(*check).toldReserve},
	{"told usable", "statuses, true charge in the air", "0.005 of the pack, and what its sensor and its readings may make of it",
		contract + "status", (*check).toldUsable},
	{"told way home", "statuses, true joules of the descent", "0.1 and 400 J off, an ArduCopter 900, and half as much again in wind; " +
		"and what its sensor makes of it", contract + "status", (*check).toldWayHome},
	{"learned way", "the ledger, statuses, true joules of ways home", "0.05 off what they took over what was told", "docs/architecture.md",
		(*check).learnedWay},
	{"told floor", "statuses", "at most the end that is told, where the total is above it", contract + "budgets",
		(*check).toldFloor},
	{"told end", "statuses, true joules, as all come down", "0.08 of what is left, and 300 J an aircraft",
		contract + "budgets", (*check).toldEnd},
	{"told budget", "statuses, true packs", "0.03 of what the packs hold", contract + "budgets", (*check).toldBudget},
	{"stays up", "true mode and charge in the slots, the budget", "no descent of one that may not land or, without a total, with " +
		"fewer others up than the crew wants, with more than its reserve, 1.21 of its landing and 1.5 kJ, and what others take that " +
		"land beside it",
		contract + "budgets", (*check).staysUp},
	{"descent in slots", "the ledger's rows, true modes", "no joule of one that came home, in a slot of its descent or after it",
		contract + "joules", (*check).descentInSlots},
}

// packsFrom is the budget of packs that is the only one in force from a moment on; nil: there is none, or not for long enough.
func (f *flight) packsFrom(timeS float64) *telemetry.Budget {
	const settledS = 2
	var last *order
	for _, o := range f.requests() {
		switch {
		case o.deliveredS > timeS:
		case o.answeredS > timeS-settledS:
			return nil
		default:
			last = o
		}
	}
	if last == nil || len(last.budget.Packs) == 0 {
		return nil
	}
	return &last.budget
}

// packOf is what a budget says of an aircraft's pack; nil: nothing.
func packOf(b *telemetry.Budget, number int) *telemetry.Pack {
	k := slices.IndexFunc(b.Packs, func(p telemetry.Pack) bool { return p.Aircraft == number })
	if k < 0 {
		return nil
	}
	return &b.Packs[k]
}

// keptJ is what of an aircraft's pack is to be left, by a budget that says something of it, or nothing.
func keptJ(p *telemetry.Pack, s *state) float64 {
	switch {
	case p != nil && p.Reserve != nil:
		return *p.Reserve * s.PackJ
	case p != nil && p.ReserveJ != nil:
		return *p.ReserveJ
	}
	return reserveJ
}

// toldOfPacks calls f with what each status says of each aircraft in the air whose pack a budget bounds.
func (c *check) toldOfPacks(f func(s *status, t *telemetry.StatusAircraft, a *aircraft, p *telemetry.Pack)) {
	c.told(func(s *status, t *telemetry.StatusAircraft, a *aircraft, _ float64) {
		if b := c.packsFrom(s.timeS); b != nil && a.inAir.contains(s.timeS) && a.isLed(s.timeS) {
			if p := packOf(b, a.number); p != nil {
				f(s, t, a, p)
			}
		}
	})
}

func (c *check) toldReserve() {
	const share = 0.01
	c.toldOfPacks(func(s *status, t *telemetry.StatusAircraft, a *aircraft, p *telemetry.Pack) {
		if t.ReserveJ == nil || p.Reserve == nil && p.ReserveJ == nil || c.excusesAny(a.number, s.timeS, "battery misread", "leader away") {
			return
		}
		kept := keptJ(p, a.at(s.timeS))
		c.atMost(s.timeS, math.Abs(*t.ReserveJ-kept), share*kept, "the status has a reserve of %.0f J for aircraft %d, it is to keep %.0f",
			*t.ReserveJ, t.Number, kept)
	})
}

func (c *check) toldUsable() {
	const share, pointShare, lagS = 0.005, 0.01, 1
	c.toldOfPacks(func(s *status, t *telemetry.StatusAircraft, a *aircraft, p *telemetry.Pack) {
		if t.UsableJ == nil || c.excusesAny(a.number, s.timeS, "battery misread", "link cut", "leader away", "disk stands") {
			return
		}
		now := a.at(s.timeS)
		left := now.LeftJ
		if p.UsableJ != nil {
			left = min(left, *p.UsableJ-a.spentJ(s.timeS))
		}
		most := share*now.PackJ + c.allowedJ(a, s.timeS, lagS) + climbW*(a.MonitorS+lagS) + math.Abs(a.gain()-1)*(now.PackJ-now.LeftJ)
		if len(c.fault(0, record.LeaderDown).and(spans{{0, s.timeS}})) > 0 { // it was drawn meanwhile, and its charge tells a whole point
			c.finding.Assumed["read by its charge"]++
			most += pointShare * now.PackJ
		}
		c.atMost(s.timeS, math.Abs(*t.UsableJ-max(left, 0)), most, "the status has %.0f J that aircraft %d may use, it has %.0f",
			*t.UsableJ, t.Number, left)
	})
}

// toldWayHome is of a descent, which nothing but its end can prolong.
func (c *check) toldWayHome() {
	const share, copterJ = 0.1, 500.0 // an ArduCopter's land detector takes longer or shorter
	c.toldOfPacks(func(s *status, t *telemetry.StatusAircraft, a *aircraft, _ *telemetry.Pack) {
		slackJ := 400.0
		if a.isCopter() {
			slackJ += copterJ
		}
		offS := a.standsS(s.timeS)
		if t.HomeJ == nil || math.IsInf(offS, 1) || c.dearerUnknown(s.timeS, offS) || c.perhapsLost(a).contains(s.timeS) ||
			c.excusesAny(a.number, s.timeS, "battery misread", "link cut", "leader away", "disk stands", "wrong sample") {
			return
		}
		homeJ := a.spentJ(offS) - a.spentJ(s.timeS)
		c.atMost(s.timeS, c.offJ(*t.HomeJ, homeJ), (share+math.Abs(a.gain()-1))*homeJ+slackJ+c.windJ(homeJ, offS-s.timeS),
			"the status has %.0f J until aircraft %d stands, it took %.0f", *t.HomeJ, t.Number, homeJ)
	})
}

// learnedWay is of the mean of what ways home took over what was expected of them: each counts for a third at first if it took less.
func (c *check) learnedWay() {
	const off, leastRatio, mostRatio, prior, mostWays = 0.05, 0.5, 2, 2, 16
	if c.end.Ledger == nil || !c.complete {
		return
	}
	type way struct{ endS, ratio, before float64 }
	last := map[int]way{} // by aircraft
	known := true         // of all
	began := map[int]float64{}
	c.toldOfPacks(func(s *status, t *telemetry.StatusAircraft, a *aircraft, _ *telemetry.Pack) {
		const soonS = 0.9                    // after the first status it is on its way
		if t.Duty == telemetry.DutyServing { // it was called back, and its way measures nothing
			delete(began, t.Number)
			delete(last, t.Number)
		}
		if t.Duty != telemetry.DutyLeaving || t.HomeJ == nil {
			return
		} else if _, told := began[t.Number]; !told {
			began[t.Number] = s.timeS
		}
		if at := began[t.Number]; math.IsInf(at, 1) || s.timeS < at+soonS {
			return
		}
		began[t.Number] = math.Inf(1)
		k := slices.IndexFunc(a.states, func(x state) bool { return x.timeS > s.timeS && x.OnGround && !x.Armed })
		known = known && k >= 0 && c.waitsS(a, s.timeS) == 0 && c.surelyLed(a).contains(s.timeS) &&
			len(a.led.not().and(spans{{s.timeS, c.endS}})) == 0
		if known {
			last[t.Number] = way{a.states[k].timeS, (a.spentJ(a.states[k].timeS) - a.spentJ(s.timeS)) / *t.HomeJ, s.timeS}
		}
	})
	told := c.end.Ledger.State.Account.Ways.Home
	ways := slices.SortedFunc(maps.Values(last), func(x, y way) int { return compare(x.endS, y.endS) })
	if !known || len(ways) == 0 || told.Count != len(ways) || c.has("battery_absent", "battery_wild", "battery_reset", "battery_handover") {
		return
	}
	mean := make([]float64, len(ways)+1) // after so many ways
	mean[0] = 1
	for n, w := range ways {
		before := 0 // ways that were over as it was told
		for before < n && ways[before].endS < w.before {
			before++
		}
		ratio, weight := w.ratio*mean[before], float64(min(n+1, mostWays))
		if ratio < mean[n] {
			weight += prior
		}
		if mean[n+1] = mean[n]; ratio >= leastRatio && ratio <= mostRatio {
			mean[n+1] += (ratio - mean[n]) / weight
		}
	}
	gain := 0.0
	for _, a := range c.aircraft {
		gain = max(gain, math.Abs(a.gain()-1)+0.01*a.MonitorS)
	}
	c.atMost(c.endS, math.Abs(told.Ratio-mean[len(ways)]), off+gain,
		"the ledger has ways home take %.3f of what is expected, they took %.3f", told.Ratio, mean[len(ways)])
}

func (c *check) toldFloor() {
	const share = 1e-6
	for _, s := range c.statuses {
		if b := c.packsFrom(s.timeS); s.PredictedEndJ != nil && b != nil && !(b.EnergyJ > 0 && b.EnergyJ < s.FloorJ) {
			c.holds(s.timeS, s.FloorJ <= *s.PredictedEndJ*(1+share)+1,
				"the status after slot %d has a floor of %.0f J, above the end of %.0f", s.Slot, s.FloorJ, *s.PredictedEndJ)
		}
	}
}

// toldEnd is of a fleet that comes down, each over its home, or stands: nobody can shorten that.
func (c *check) toldEnd() {
	const share, slackJ, lagS = 0.08, 300.0, 1
	for _, s := range c.statuses {
		if s.State != telemetry.StateReturning && s.State != telemetry.StateDone || s.PredictedEndJ == nil ||
			s.Scope != telemetry.ScopeLanded ||
			c.excusesAny(0, s.timeS, "battery misread", "link cut", "leader away", "disk stands", "broker away", "wrong sample") {
			continue
		}
		truth, doneJ, allowed, all := 0.0, 0.0, 0.0, true
		for _, a := range c.aircraft {
			offS := a.standsS(s.timeS)
			led := c.surelyLed(a).contains(min(offS, c.endS-record.PeriodS))
			if all = all && led && !math.IsInf(offS, 1) && !c.dearerUnknown(s.timeS, offS); !all {
				break
			}
			homeJ := a.spentJ(offS) - a.spentJ(s.timeS)
			truth, doneJ = truth+a.spentJ(offS), doneJ+a.spentJ(s.timeS)
			allowed += c.allowedJ(a, s.timeS, lagS) + (share+math.Abs(a.gain()-1))*homeJ + slackJ + c.windJ(homeJ, offS-s.timeS)
		}
		if all {
			c.atMost(s.timeS, c.offJ(*s.PredictedEndJ-doneJ, truth-doneJ), allowed, "the status has %.0f J at the end, it came to %.0f",
				*s.PredictedEndJ, truth)
		}
	}
}

// dearerUnknown reports whether flying comes to cost more until a moment, as nobody could know before another one, or as one was on its
// way home: that way is learned from, at the costs of its beginning.
func (c *check) dearerUnknown(timeS, toS float64) bool {
	shockS := c.epochS + c.shockSlot()
	if !(shockS < toS) {
		return false
	}
	if slices.ContainsFunc(c.aircraft, func(a *aircraft) bool { return c.homeward(a).touches(shockS, shockS+c.settledSlots()) }) {
		c.finding.Assumed["flying came to cost more on a way home"]++
		return true
	}
	return timeS < shockS+c.settledSlots()
}

// offJ is how far off joules are that are told of ways home. In wind they are the most that it may take, in calm air at what was
// measured in wind or in any wind that is likely: half as much again is right.
func (f *flight) offJ(toldJ, tookJ float64) float64 {
	const share = 0.5
	if len(f.end.WindMPS) > 0 && toldJ > tookJ {
		return max(toldJ-(1+share)*tookJ, 0)
	}
	return math.Abs(toldJ - tookJ)
}

// windJ is what a descent takes less in wind than in calm air, on which nobody can count.
func (f *flight) windJ(tookJ, forS float64) float64 {
	if len(f.end.WindMPS) == 0 {
		return 0
	}
	return max(f.Physics.Propulsion.PowerW(0)*forS-tookJ, 0)
}

// standsS is when an aircraft that comes down in Land has its motors off; one that stands, now; +Inf: it does neither.
func (a *aircraft) standsS(timeS float64) float64 {
	s, down := a.at(timeS), a.touchdownAfter(timeS)
	switch {
	case s.OnGround && !s.Armed:
		return timeS
	case s.OnGround || s.Mode != land || math.IsInf(down, 1) || a.landsFromS(down) > timeS:
		return math.Inf(1)
	}
	for k := a.index(down); k < len(a.states); k++ {
		if s := &a.states[k]; s.OnGround && !s.Armed {
			return s.timeS
		}
	}
	return math.Inf(1)
}

// toldBudget is of a budget by packs alone, which is what they hold beyond their reserves.
func (c *check) toldBudget() {
	const share = 0.03
	for _, s := range c.statuses {
		b := c.packsFrom(s.timeS)
		if b == nil || b.EnergyJ > 0 || s.BudgetJ == nil || !(s.timeS >= c.epochS) || c.has("battery_reset", "low_battery") ||
			c.excusesAny(0, s.timeS, "battery misread", "leader away") {
			continue
		}
		truth, packsJ := 0.0, 0.0
		for _, p := range b.Packs {
			if p.Aircraft > len(c.aircraft) {
				continue
			}
			a := c.aircraft[p.Aircraft-1]
			began, now := &a.states[0], a.at(s.timeS)
			usableJ := began.LeftJ
			if p.UsableJ != nil {
				usableJ = min(usableJ, *p.UsableJ)
			}
			truth, packsJ = truth+usableJ-keptJ(&p, now), packsJ+now.PackJ
		}
		c.atMost(s.timeS, math.Abs(*s.BudgetJ-truth), share*packsJ,
			"the status has a budget of %.0f J, the packs have %.0f beyond their reserves", *s.BudgetJ, truth)
	}
}

// descentInSlots: under a budget to touchdown what one draws on its way home is of the way home.
func (c *check) descentInSlots() {
	for _, r := range c.rows() {
		fromS, toS := c.epochS+float64(r.Slot), c.epochS+float64(r.Slot+1)
		b := c.packsFrom(fromS)
		if b == nil || b.Scope != telemetry.ScopeLanded || r.Missed || c.excusesFrom(fromS, toS, "leader away", "disk stands") {
			continue
		}
		for i, x := range r.Aircraft {
			if i >= len(c.aircraft) {
				break
			}
			a := c.aircraft[i]
			const knownS = 2
			lands := a.in(func(s *state) bool { return s.Mode == land || s.OnGround }).from(knownS)
			led := c.surelyLed(a)
			if y, ok := lands.at(fromS); ok && y.toS > toS && led.contains(fromS-knownS) && led.contains(toS) &&
				a.takeOffs != nil && a.takeOffs[0].timeS < fromS {
				c.atMost(fromS, x.EnergyJ, counterStepJ, "the ledger has %.0f J of aircraft %d in slot %d, in which it had left them",
					x.EnergyJ, a.number, r.Slot)
			}
		}
	}
}

// Of a way home a leader keeps a tenth more, and may measure what flying costs a tenth too high.
const keptShare, measuredShare = 1.1, 1.1

// staysUp is of those that nothing but the pack may bring down: the crew lets none land or, as it asks for no total, fewer than it
// wants would stay.
func (c *check) staysUp() {
	const margin, slackJ = keptShare * measuredShare, 1.5e3
	if c.World == nil {
		return
	}
	for _, a := range c.aircraft {
		for k := 1; k < len(a.states); k++ {
			s, before := &a.states[k], &a.states[k-1]
			b := c.packsFrom(s.timeS)
			if s.Mode != land || before.Mode != offboard || b == nil || !(s.timeS > c.epochS && s.timeS < c.slotsEndS()-settleS) ||
				!a.isLed(s.timeS) || s.Failsafe || c.homewardByOrder(a).contains(s.timeS) ||
				a.led.not().touches(c.epochS, s.timeS) {
				continue
			}
			up := 0
			for _, o := range c.aircraft {
				x := o.at(s.timeS)
				serves := x.Mode == offboard || c.assumed("link cut", o.number).contains(s.timeS) // the leader cannot know otherwise
				if o != a && x.heightM() > 1 && serves && !c.homewardByOrder(o).contains(s.timeS) {
					up++
				}
			}
			pack := packOf(b, a.number)
			if pack == nil || b.StandDown == telemetry.StandDownLand && (up >= leastUp(b) || b.EnergyJ > 0) ||
				c.excusesAny(a.number, s.timeS, "low pack", "comes home by itself", "leader away", "late climb", "battery misread") {
				continue
			}
			p := c.flightOf(a, s)
			homeJ := p.leastHomeJ(s)
			homeJ += c.windJ(homeJ, a.descentS(s.PositionM[2]))
			homeJ = margin*homeJ + c.unclearAirJ(homeJ, s.timeS)
			most := keptJ(pack, s) + homeJ + slackJ + p.sensorJ() + c.waitsS(a, s.timeS)*p.powerW(s.timeS, physics.Position{})
			c.atMost(s.timeS, s.LeftJ, most, "aircraft %d lands in slot %.0f with %.0f J, and is to stay in the air down to %.0f", a.number,
				c.slotAt(s.timeS), s.LeftJ, most)
		}
	}
}
