package judge

import (
	"math"

	"prefdt/inference/physics"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/record"
	"prefdt/telemetry"
)

// packRules are of the charge left at touchdown, where the crew's budget names it.
var packRules = []Rule{
	{"reserve", "true charge at touchdown, led", "the joules that the crew's budget names, less a fiftieth", contract + "budgets",
		(*check).reserve},
	{"lands at reserve", "the same",
		"the share that the crew's budget names, or what the way home left once the leader could know its cost",
		contract + "budgets", (*check).landsAtReserve},
	{"uses pack", "the same, where the pack alone ended the flight",
		"23 % of the pack, or 21 % of its landing and 2.5 s above its reserve, and what its sensor, " +
			"a wait that did not come and wind may make of it", contract + "budgets", (*check).usesPack},
	{"near its reserve", "statuses, true positions", "no more than 5 m farther from home in two slots in a row, with 4 slots of flight " +
		"or less until it leaves", "docs/architecture.md", (*check).nearItsReserve},
}

// kept is what the last budget until a moment says of an aircraft's pack, and how many stay up while their packs last: none of them
// if it has a total; nil: nothing.
func (f *flight) kept(a *aircraft, timeS float64) (p *telemetry.Pack, up int) {
	for _, o := range f.requests() {
		if o.deliveredS <= timeS {
			if p, up = packOf(&o.budget, a.number), leastUp(&o.budget); o.budget.EnergyJ > 0 {
				up = 0
			}
		}
	}
	return p, up
}

// leastUp is how many a budget wants to stay up.
func leastUp(b *telemetry.Budget) int {
	if b.LeastUp == nil {
		return 1
	}
	return *b.LeastUp
}

func (c *check) reserve() {
	const share = 0.02
	for _, a := range c.aircraft {
		for _, l := range a.landings() {
			p, _ := c.kept(a, l.at.timeS)
			if p != nil && p.ReserveJ != nil && *p.ReserveJ > 0 && !c.excuses("low pack", a.number, l.at.timeS) {
				c.atMost(l.at.timeS, (1-share)**p.ReserveJ, l.at.LeftJ, "aircraft %d touches down with %.0f J, and is to keep %.0f",
					a.number, l.at.LeftJ, *p.ReserveJ)
			}
		}
	}
}

// packFlight is what is known of one landing with a share of a pack, or of an aircraft in flight at a moment.
type packFlight struct {
	*check
	a       *aircraft
	landing landing
	share   float64
	leastUp int
}

// flightOf is what is known of an aircraft in a state.
func (c *check) flightOf(a *aircraft, s *state) *packFlight {
	return &packFlight{check: c, a: a, landing: landing{at: s}}
}

// packFlights calls f for each landing of an aircraft that was to land with a share of its pack.
func (c *check) packFlights(f func(*packFlight)) {
	for _, a := range c.aircraft {
		for _, l := range a.landings() {
			p, up := c.kept(a, l.at.timeS)
			if c.World != nil && p != nil && p.ReserveJ == nil && p.Reserve != nil && *p.Reserve > 0 && !l.before.Failsafe {
				f(&packFlight{c, a, l, *p.Reserve, up})
			}
		}
	}
}

// powerW is what the aircraft truly draws at a velocity over the ground.
func (p *packFlight) powerW(timeS float64, v physics.Position) float64 {
	slot := int(math.Floor(p.slotAt(timeS)))
	return p.truth().FlightPowerW(min(max(slot, -1), p.Slots), p.a.number-1, v)
}

// leftJ is what the pack holds once the motors stand still.
func (p *packFlight) leftJ() float64 {
	return p.landing.at.LeftJ - autopilot.LandDetectS*p.powerW(p.landing.at.timeS, physics.Position{})
}

// sensorJ is by how much what is known of the pack is off, by its own sensor.
func (p *packFlight) sensorJ() float64 {
	return math.Abs(p.a.gain()-1) * p.landing.at.SpentJ
}

const (
	counterStepJ = 100 // a hectojoule, the resolution in BATTERY_STATUS
	heldErrorW   = 60  // of the current that holds between two measurements
	settleS      = 5   // a leader that can command an aircraft again takes so long to have it fly home
	costKnownS   = 10  // after a change of its power until what flying costs is measured
)

// knownAtS are the moments from which on the leader could have had it fly home by what it knew.
func (p *packFlight) knownAtS() (all []float64) {
	if shock := p.World.Shock.FromSlot; shock >= 0 && shock < p.Slots && p.World.Shock.Factor > 1 {
		all = append(all, p.epochS+float64(shock)+costKnownS+math.Ceil(2*p.a.MonitorS))
	}
	for _, x := range p.fault(p.a.number, "link_loss", "autopilot_reboot", "heartbeat_silence", "heartbeat_gap", "disk_stall",
		record.LeaderDown) {
		p.finding.Assumed["could not be commanded"]++
		all = append(all, max(x.toS, p.firstStatusAfter(x.toS))+settleS)
	}
	for _, t := range p.a.notLed {
		p.finding.Assumed["its pilot had it"]++
		all = append(all, t.toS+settleS)
	}
	return all
}

// leastHomeJ is the least that the way home and the descent take from a state, at the true power in this wind. An aircraft
// slows down and settles over its home for 7 to 8 s, as measured at the autopilots' defaults.
func (p *packFlight) leastHomeJ(s *state) float64 {
	const slowestMPS, fastestMPS, settlesS = 3, 15, 8
	home, _ := p.a.homeAt(s.timeS)
	way := sub(home, s.PositionM)
	landJ := (p.a.descentS(s.PositionM[2]) + autopilot.LandDetectS) * p.powerW(s.timeS, physics.Position{})
	if s.Mode == land {
		return landJ
	}
	cruiseJ, distanceM := math.Inf(1), horizontalM(way)
	for mps := float64(slowestMPS); mps <= min(fastestMPS, p.a.speedMPS); mps++ {
		v := physics.Position{EastM: way[0], NorthM: way[1]}.Scale(mps / max(distanceM, 1e-3))
		cruiseJ = min(cruiseJ, p.powerW(s.timeS, v)*distanceM/mps)
	}
	return cruiseJ + landJ + settlesS*p.powerW(s.timeS, physics.Position{})
}

// waitedS is how long it hovered above its home, or on its way, for others.
func (p *packFlight) waitedS(fromS float64) float64 {
	const stillMPS, nearSeparations = 1, 3
	still := p.a.in(func(s *state) bool { return s.Mode == offboard && s.speedMPS() < stillMPS }).and(spans{{fromS, p.landing.at.timeS}})
	return still.and(p.near(p.a, nearSeparations*p.Physics.SeparationM)).lengthS()
}

func (c *check) landsAtReserve() {
	// Of the least way home, the greater: seconds of hover, and the error of the power that is measured in flight. The last
	// seconds of its flight, in which it waits.
	const errorS, errorShare, homeS = 2.5, 0.03, 120
	c.packFlights(func(p *packFlight) {
		hoverW := p.powerW(p.landing.at.timeS, physics.Position{})
		least := p.share * p.landing.at.PackJ
		for _, t := range p.knownAtS() {
			if s := p.a.at(t); t < p.landing.at.timeS && !s.OnGround {
				homeJ := p.leastHomeJ(s)
				least = min(least, s.LeftJ-homeJ-max(errorS*hoverW, errorShare*homeJ))
			}
		}
		if math.Min(c.endS, c.lastKnown(p)) > p.landing.at.timeS {
			return // it could not be commanded until it landed
		}
		waited := p.waitedS(p.landing.at.timeS - homeS)
		if waited > 0 {
			c.finding.Assumed["waits for others"] += waited
		}
		least -= p.sensorJ() + counterStepJ + (1+1.25*waited)*hoverW // it decides once a second
		c.atMost(p.landing.at.timeS, least, max(p.leftJ(), 1e-9),
			"aircraft %d lands with %.2f %% of its pack, %.0f J, of %.0f that it could keep",
			p.a.number, 100*p.leftJ()/p.landing.at.PackJ, p.leftJ(), least)
	})
}

// lastKnown is the last moment before which the leader could not know what its way home takes; -Inf: it always could.
func (c *check) lastKnown(p *packFlight) float64 {
	last := math.Inf(-1)
	for _, t := range p.knownAtS() {
		if !math.IsInf(t, 1) && t-costKnownS-math.Ceil(2*p.a.MonitorS) < p.landing.at.timeS {
			last = max(last, t)
		}
	}
	return last
}

// usesPack is of those that nothing but the pack can have sent home: with fewer others in the air than the crew wants to
// stay, and not before what flying costs was measured.
func (c *check) usesPack() {
	const most, nearEndSlots = 0.23, 3
	const landingShare, errorS = keptShare*measuredShare - 1, 2.5 // of its landing, by which its leader may count too much
	c.packFlights(func(p *packFlight) {
		a, l := p.a, p.landing
		from := a.landsFromS(l.at.timeS)
		slot, others := p.slotAt(from), 0
		for _, o := range c.aircraft {
			if s := o.at(from); o != a && s.heightM() > 1 && s.Mode == offboard {
				others++
			}
		}
		ordered := len(c.homewardByOrder(a).and(spans{{0, from}})) > 0
		resumed := len(a.notLed) > 0
		early, late := !(slot > costKnownS+settleS), from > c.slotsEndS() || slot > float64(c.Slots-nearEndSlots)
		if early || late || others >= p.leastUp || ordered || resumed || from < c.lastKnown(p) ||
			c.excusesAny(a.number, from, "low pack", "comes home by itself", "late climb") {
			return
		}
		hoverW, calmW := p.powerW(from, physics.Position{}), c.Physics.Propulsion.PowerW(0)
		waitS := c.waitsS(a, from)
		marginJ := (landingShare*(a.descentS(c.Physics.AltitudeM)+autopilot.LandDetectS) + errorS) * hoverW
		windJ := max(calmW-hoverW, 0) * a.descentS(c.Physics.AltitudeM) // a hover in wind takes less, on which nobody can count
		bound := max(most*l.at.PackJ, p.share*l.at.PackJ+marginJ) + p.sensorJ() + counterStepJ + 2*heldErrorW*a.MonitorS + waitS*hoverW +
			windJ + c.unclearAirJ(hoverW*a.descentS(c.Physics.AltitudeM), from)
		c.leftShares = append(c.leftShares, p.leftJ()/l.at.PackJ)
		c.atMost(l.at.timeS, p.leftJ(), bound, "aircraft %d lands with %.2f %% of its pack of %.0f J, and left the slots for it", a.number,
			100*p.leftJ()/l.at.PackJ, l.at.PackJ)
	})
}

// unclearAirJ is what a way home may be counted dearer once the crew had the fleet hover: that shows nothing of the wind, and the reserve
// is kept in any that is likely.
func (c *check) unclearAirJ(homeJ, timeS float64) float64 {
	const share = 0.2
	if !c.ordered(0, timeS, telemetry.ActionHold) {
		return 0
	}
	c.finding.Assumed["the wind is not known in a hold"]++
	return share * homeJ
}

// waitsS is how long an aircraft may have to wait until others that land beside it are lower.
func (f *flight) waitsS(a *aircraft, timeS float64) (waitS float64) {
	return f.waitsFor(a, timeS, func(*aircraft) bool { return true })
}

// waitsFor is that for some of them.
func (f *flight) waitsFor(a *aircraft, timeS float64, waits func(*aircraft) bool) (waitS float64) {
	const nearHomesM, comesInS, belowM = 40, 5, 30
	home, _ := a.homeAt(timeS)
	for _, o := range f.aircraft {
		if o != a && waits(o) && math.Hypot(o.StandM[0]-home[0], o.StandM[1]-home[1]) <= nearHomesM {
			waitS += comesInS + o.descentS(f.Physics.AltitudeM) - o.descentS(f.Physics.AltitudeM-belowM)
		}
	}
	return waitS
}

// landsFromS is when an aircraft began the descent that ends at a moment.
func (a *aircraft) landsFromS(toS float64) float64 {
	for _, x := range a.in(func(s *state) bool { return s.Mode == land }) {
		if x.fromS < toS && x.toS >= toS {
			return x.fromS
		}
	}
	return toS
}

// nearItsReserve is of one that soon has to leave for its pack: what it flies away from home it has to fly back.
func (c *check) nearItsReserve() {
	const soonSlots, decidedS, mostM, lasts = 5.5, 0.7, 5, 1
	_, bestW := c.Physics.MinPower()
	away := make([]int, len(c.aircraft)) // slots in a row
	c.toldOfPacks(func(s *status, t *telemetry.StatusAircraft, a *aircraft, _ *telemetry.Pack) {
		b := c.packsFrom(s.timeS)
		if t.UsableJ == nil || t.ReserveJ == nil || t.HomeJ == nil || t.Duty != telemetry.DutyServing ||
			b.Scope != telemetry.ScopeLanded || b.StandDown != telemetry.StandDownLand || s.State != telemetry.StateFlying ||
			*t.UsableJ-*t.ReserveJ-*t.HomeJ > soonSlots*bestW ||
			c.excusesAny(a.number, s.timeS, "leader away", "broker away", "link cut", "late datagrams", "wrong sample", "disk stands") {
			away[a.number-1] = 0
			return
		}
		home, _ := a.homeAt(s.timeS)
		awayM := func(timeS float64) float64 { return horizontalM(sub(a.at(timeS).PositionM, home)) }
		fartherM := awayM(s.timeS+1+decidedS) - awayM(s.timeS+decidedS)
		c.lasting(&away[a.number-1], lasts, s.timeS, fartherM, mostM, "aircraft %d has %.0f J until it leaves for its reserve, and flies "+
			"%.1f m farther from home", a.number, *t.UsableJ-*t.ReserveJ-*t.HomeJ, fartherM)
	})
}
