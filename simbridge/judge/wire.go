package judge

import (
	"math"
	"regexp"
	"slices"
	"strings"

	"prefdt/inference/physics"
	"prefdt/simbridge/record"
	"prefdt/telemetry"
)

// wireRules are of what users and crew are told.
var wireRules = []Rule{
	{"slot number", "beacons", "each higher than the last", contract + "time", (*check).slotNumber},
	{"slot time", "beacons", "a tenth of a slot early or late by the first one's clock", contract + "time", (*check).slotTime},
	{"serves", "decisions, true modes, orders",
		"2.5 s after the aircraft was last in OFFBOARD for its leader, not called home, not told to leave and not cut off",
		contract + "users are not sent", (*check).serves},
	{"shares", "decisions of a slot", "sum of an aircraft's shares at most its CPU", "paper, C5", (*check).shares},
	{"reported", "reports, decisions", "only to users on the list that reported that task, before", contract + "reports",
		(*check).reported},
	{"decided once", "decisions", "one for each user and slot", contract + "the first valid report counts", (*check).decidedOnce},
	{"pays", "reports, decisions", "no later than local by the reported gain, penalty included", "exact dispatch, docs/glossary.md",
		(*check).pays},
	{"told position", "statuses, true positions", "3 m and what it flies in the age and a quarter of a second", contract + "status",
		(*check).toldPosition},
	{"told speed", "statuses, true speeds", "0.75 m/s from those of the last 1.5 s", contract + "status", (*check).toldSpeed},
	{"told charge", "statuses, true charge", "0.02 of the pack, and what it draws between two readings", contract + "status",
		(*check).toldCharge},
	{"told mode", "statuses, true modes", "the role of a mode of the last 3 s", contract + "status", (*check).toldMode},
	{"told state", "statuses, true modes, orders", "idle and done with nothing led in the air, stopped by an order alone",
		contract + "mission",
		(*check).toldState},
	{"floor", "statuses, true joules and power", "a tenth of the least that the slots left take, and 500 J",
		"paper, Sec. V; " + contract + "budget",
		(*check).floor},
	{"refusal", "answers to start, launch and new, faults", "refused, with the autopilot's or the parameter's reason; a new " +
		"mission while one is in the air", contract + "start and launch are refused", (*check).refusal},
	{"acknowledged", "commands delivered, answers", "2 s", contract + "commands", (*check).acknowledged},
	{"in force", "answers, statuses", "what was last accepted, until the next is delivered", contract + "answers", (*check).inForce},
	{"duplicate", "answers, statuses", "no forged command, nor a replay, is accepted; answers of one id agree; statuses count up",
		contract + "command ids", (*check).duplicate},
	{"durable", "answers, the disk", "none to a command delivered while the disk finishes no write", contract + "commands",
		(*check).durable},
	{"holding", "statuses, orders", "from a hold to the next order, and not without one", contract + "hold", (*check).holding},
	{"contact", "statuses, the crew's silence", "holding and returning 3 s after its time, flying again 8 s after it is back",
		contract + "crew's heartbeat",
		(*check).contact},
	{"ceiling", "answers, true joules of the slots", "half a percent above, where no shock came after it", contract + "budget",
		(*check).ceiling},
}

// slotNumber: users tell slots by their numbers.
func (c *check) slotNumber() {
	last := -1
	for _, b := range c.beacons {
		n := b.Slot.Slot
		c.holds(b.timeS, n > last, "slot %d was opened again after slot %d", n, last)
		last = max(last, n)
	}
}

func (c *check) slotTime() {
	const bound = 0.1
	for k, b := range c.beacons {
		if k == 0 { // it begins the clock
			continue
		}
		most, off := bound, c.slotAt(b.timeS)-float64(b.Slot.Slot)
		if off > bound && c.excusesAny(0, b.timeS, "leader away", "disk stands") { // in the rest of the window
			most = b.ReportByMS / b.SlotMS
		}
		c.atMost(b.timeS, math.Abs(off), most, "the beacon of slot %d came at %.2f slots", b.Slot.Slot, c.slotAt(b.timeS))
	}
}

func (c *check) decidedOnce() {
	decided := map[reportKey]bool{}
	for _, d := range c.decisions {
		key := reportKey{d.user, d.Slot}
		c.holds(d.timeS, !decided[key], "user %s has two decisions of slot %d", d.user, d.Slot)
		decided[key] = true
	}
}

// decisionsOf calls f with each decision that sends a user to an aircraft of the fleet.
func (c *check) decisionsOf(f func(d *decision, a *aircraft)) {
	for d := range pointers(c.decisions) {
		if d.Aircraft > 0 && d.Aircraft <= len(c.aircraft) {
			f(d, c.aircraft[d.Aircraft-1])
		}
	}
}

func (c *check) serves() {
	const knownS = 2.5 // a HEARTBEAT old, and a decision
	leaves := map[int]spans{}
	for _, a := range c.aircraft {
		leaves[a.number] = spansOf(c.statuses, func(s *status) float64 { return s.timeS }, func(s *status) bool {
			return slices.ContainsFunc(s.Aircraft, func(t telemetry.StatusAircraft) bool {
				return t.Number == a.number && t.Duty == telemetry.DutyLeaving
			})
		}).from(knownS)
	}
	for _, d := range c.decisions {
		c.holds(d.timeS, d.Aircraft <= len(c.aircraft), "user %s is sent to aircraft %d", d.user, d.Aircraft)
	}
	c.decisionsOf(func(d *decision, a *aircraft) {
		agoS := d.timeS - a.commanded().lastBefore(d.timeS)
		if agoS > knownS && c.excusesAny(a.number, d.timeS, "lost heartbeats", "late datagrams", "leader away") {
			return
		}
		c.atMost(d.timeS, agoS, knownS, "user %s is sent in slot %d to aircraft %d, which is in %s, last in OFFBOARD for its leader "+
			"%.1f s ago", d.user, d.Slot, a.number, a.at(d.timeS).Mode, agoS)
		if !slices.ContainsFunc(c.orders, func(o *order) bool { return o.accepted && o.names(a.number) && o.sentS > d.timeS-knownS }) {
			c.holds(d.timeS, !leaves[a.number].contains(d.timeS), "user %s is sent in slot %d to aircraft %d, which leaves", d.user, d.Slot,
				a.number)
		}
		if x, cut := c.fault(a.number, "link_loss").at(d.timeS); cut {
			c.atMost(d.timeS, d.timeS-x.fromS, knownS+1.5, "user %s is sent in slot %d to aircraft %d, of which nothing arrives for "+
				"%.1f s", d.user, d.Slot, a.number, d.timeS-x.fromS)
		}
		if homeS := c.calledHomeS(a, d.timeS); !math.IsNaN(homeS) {
			c.atMost(d.timeS, d.timeS-homeS, knownS, "user %s is sent in slot %d to aircraft %d, which was called home %.1f s ago",
				d.user, d.Slot, a.number, d.timeS-homeS)
		}
	})
}

// calledHomeS is when the crew called an aircraft home, if no order since has it fly on; NaN: it did not.
func (f *flight) calledHomeS(a *aircraft, timeS float64) float64 {
	sinceS := math.NaN()
	for _, o := range f.missionOrders(telemetry.ActionReturn, telemetry.ActionLaunch, telemetry.ActionStart, telemetry.ActionResume) {
		if o.mission.Action == telemetry.ActionResume && a.at(o.answeredS).Mode == offboard { // it takes from its pilot alone
			continue
		}
		if o.answeredS < timeS && o.names(a.number) {
			if sinceS = math.NaN(); o.mission.Action == telemetry.ActionReturn && a.inAir.contains(o.answeredS) {
				sinceS = o.answeredS
			}
		}
	}
	return sinceS
}

func (c *check) shares() {
	type key struct{ slot, aircraft int }
	sums := map[key]float64{}
	c.decisionsOf(func(d *decision, a *aircraft) {
		k := key{d.Slot, a.number}
		sums[k] += d.CPUHz
		c.atMost(d.timeS, sums[k], c.Physics.EdgeCPUHz*(1+1e-6), "aircraft %d is to give %.3g cycles a second to the users of slot %d",
			a.number, sums[k], d.Slot)
	})
}

func (c *check) reported() {
	for _, d := range c.decisions {
		if len(c.Users) > 0 {
			c.holds(d.timeS, slices.Contains(c.Users, d.user), "user %s, who is not on the list, has a decision in slot %d", d.user, d.Slot)
		}
		of := d.Slot
		if d.ReportSlot != nil {
			of = *d.ReportSlot
		}
		r, ok := c.reports[reportKey{d.user, of}]
		for _, x := range c.faults { // what was sent to a leader that was killed is of the past, also where the broker retains it
			ok = ok && !(x.kind == record.LeaderDown && x.text == "killed" && r.timeS < x.fromS && x.toS < d.timeS)
		}
		c.holds(d.timeS, ok && r.Task != nil && r.timeS <= d.timeS, "user %s has a decision in slot %d, and reported no task in slot %d",
			d.user, d.Slot, of)
	}
}

// servedS is the delay of a decision by what its user reported, and what it would be computed locally, penalties
// included.
func (f *flight) servedS(d *telemetry.Decision, r *telemetry.Report) (servedS, localS float64) {
	p := &f.Physics
	task := taskOf(r.Task)
	ownS := task.LocalTimeS(r.CPUHz)
	localS = p.PenalizedDelayS(task, ownS)
	if d.Aircraft == 0 {
		return localS, localS
	}
	share := shareOf(p, r.Gain[d.Aircraft], d.CPUHz)
	return p.PenalizedDelayS(task, physics.CompletionS(ownS, task.OffloadTimeS(share), d.Offload)), localS
}

func (c *check) pays() {
	if c.fades() {
		c.finding.Assumed["a sample of fading"] = float64(len(c.decisions))
		return
	}
	c.decisionsOf(func(d *decision, a *aircraft) {
		r := c.reports[reportKey{d.user, d.Slot}]
		if _, known := r.Gain[d.Aircraft]; !known || r.Task == nil || d.ReportSlot != nil {
			return
		}
		servedS, localS := c.servedS(&d.Decision, &r.Report)
		c.atMost(d.timeS, servedS, localS*(1+1e-6)+1e-9, "user %s is served in %.3f s by aircraft %d in slot %d, and would serve itself "+
			"in %.3f s", d.user, servedS, d.Aircraft, d.Slot, localS)
	})
}

// toldOfAll calls call with what each status says of each aircraft.
func (f *flight) toldOfAll(call func(s *status, t *telemetry.StatusAircraft, a *aircraft)) {
	for s := range pointers(f.statuses) {
		for t := range pointers(s.Aircraft) {
			if t.Number <= len(f.aircraft) {
				call(s, t, f.aircraft[t.Number-1])
			}
		}
	}
}

// told calls f with what each status says of each aircraft that was received in the last two seconds.
func (c *check) told(f func(s *status, t *telemetry.StatusAircraft, a *aircraft, ageS float64)) {
	const freshS = 2
	c.toldOfAll(func(s *status, t *telemetry.StatusAircraft, a *aircraft) {
		if t.AgeS != nil && *t.AgeS <= freshS && len(a.states) > 0 {
			f(s, t, a, *t.AgeS)
		}
	})
}

func (c *check) toldPosition() {
	const nearM, extraS = 3, 0.25
	c.told(func(s *status, t *telemetry.StatusAircraft, a *aircraft, ageS float64) {
		if t.PositionM == nil {
			return
		}
		now := a.at(s.timeS)
		apart := sub(*t.PositionM, now.PositionM)
		offM, most := math.Hypot(horizontalM(apart), apart[2]), nearM+a.toldM()+a.DriftM+
			(ageS+extraS)*math.Hypot(now.speedMPS(), now.VelocityMPS[2])
		if offM <= most || !c.jumpIsNew(a, s.timeS) &&
			!c.excusesAny(a.number, s.timeS, "late datagrams", "link cut", "wrong sample", "leader away") {
			c.atMost(s.timeS, offM, most, "the status has aircraft %d at %.0f m, it is at %.0f", t.Number, *t.PositionM, now.PositionM)
		}
	})
}

// lately are the states of an aircraft in the last seconds, the one before them included.
func (a *aircraft) lately(timeS, forS float64) []state {
	from, _ := slices.BinarySearchFunc(a.states, timeS-forS, func(s state, t float64) int { return compare(s.timeS, t) })
	to, _ := slices.BinarySearchFunc(a.states, timeS, func(s state, t float64) int { return compare(s.timeS, t) })
	return a.states[max(from-1, 0):min(to+1, len(a.states))]
}

// compare puts equal numbers in no order.
func compare(a, b float64) int {
	if a < b {
		return -1
	}
	return 1
}

func (c *check) toldSpeed() {
	const errMPS, latelyS = 0.75, 1.5
	c.told(func(s *status, t *telemetry.StatusAircraft, a *aircraft, ageS float64) {
		if t.SpeedMPS == nil {
			return
		}
		nearMPS := errMPS + 4*math.Sqrt2*a.ReceiverMPS
		least, most := math.Inf(1), 0.0
		for _, x := range a.lately(s.timeS, latelyS+ageS) {
			least, most = min(least, x.speedMPS()), max(most, x.speedMPS())
		}
		off := max(least-*t.SpeedMPS, *t.SpeedMPS-most, 0)
		if off <= nearMPS || !c.excusesAny(a.number, s.timeS, "late datagrams", "link cut", "leader away") {
			c.atMost(s.timeS, off, nearMPS, "the status has aircraft %d at %.1f m/s, it flies at %.1f to %.1f", t.Number, *t.SpeedMPS,
				least, most)
		}
	})
}

func (c *check) toldCharge() {
	const near, lagS = 0.02, 1
	c.told(func(s *status, t *telemetry.StatusAircraft, a *aircraft, ageS float64) {
		if now := a.at(s.timeS); t.Battery != nil {
			left := max(now.LeftJ, 0) / now.PackJ
			off, most := math.Abs(*t.Battery-left), near+math.Abs(a.gain()-1)*(1-left)+climbW*(a.MonitorS+lagS)/now.PackJ
			if off > most && c.excusesAny(a.number, s.timeS, "battery misread", "link cut", "leader away") {
				return
			}
			// What the crew puts right before a start takes a reboot, too.
			rebooted := len(c.fault(a.number, "autopilot_reboot", "battery_second", "unsafe_failsafe").and(spans{{0, s.timeS}})) > 0
			if rebooted && a.isCopter() {
				c.finding.Assumed["ArduCopter takes any pack for full once it has booted"]++
				return
			}
			c.atMost(s.timeS, off, most, "the status has %.2f of the charge of aircraft %d, it has %.0f of %.0f J",
				*t.Battery, t.Number, now.LeftJ, now.PackJ)
		}
	})
}

// gain is what its sensor reads of a current of 1.
func (a *aircraft) gain() float64 {
	if a.SensorGain == 0 {
		return 1
	}
	return a.SensorGain
}

// roles are what the crew is told of modes.
var roles = map[string]string{offboard: "commanded", takeoff: "takeoff", hold: "hold", rtl: "return", land: "land"}

func (c *check) toldMode() {
	const latelyS = 3
	c.told(func(s *status, t *telemetry.StatusAircraft, a *aircraft, ageS float64) {
		if t.Role == "" {
			return
		}
		ok := slices.ContainsFunc(a.lately(s.timeS, latelyS), func(x state) bool {
			role := roles[x.Mode]
			guided := a.isCopter() && (x.Mode == offboard || x.Mode == takeoff) // it takes off in GUIDED
			return t.Role == role || role == "" && t.Role == "other" || t.Role == "armable" && !x.Armed ||
				guided && (t.Role == roles[takeoff] || t.Role == roles[offboard])
		})
		if ok || !c.excusesAny(a.number, s.timeS, "lost heartbeats", "late datagrams", "link cut", "leader away") {
			c.holds(s.timeS, ok, "the status has aircraft %d in %s (%s), it is in %s", t.Number, t.Mode, t.Role, a.at(s.timeS).Mode)
		}
	})
}

func (c *check) toldState() {
	const endsS, climbsS = 45, 90             // also of one whose motors turn on
	stopped, returns := c.firstStopS(), false // one that lands then goes on, and is nobody's
	for _, o := range c.missionOrders(telemetry.ActionReturn) {
		returns = returns || len(o.mission.Aircraft) == 0 && c.slotAt(o.deliveredS) < float64(c.Slots)
	}
	for k, s := range c.statuses {
		switch s.State {
		case telemetry.StateClimbing:
			upS := 0.0 // somebody's motors turned, or was ordered to take off
			for _, a := range c.aircraft {
				upS = max(upS, a.in(func(s *state) bool { return s.Armed }).lastBefore(s.timeS))
			}
			for _, o := range c.missionOrders(telemetry.ActionStart, telemetry.ActionLaunch, telemetry.ActionResume) {
				if o.deliveredS < s.timeS {
					upS = max(upS, o.deliveredS)
				}
			}
			c.atMost(s.timeS, s.timeS-upS, climbsS, "the mission is climbing, and nobody took off for %.0f s", s.timeS-upS)
		case telemetry.StateReturning:
			downS := 0.0 // all are on the ground since
			for _, a := range c.aircraft {
				if x, ok := a.aground.at(s.timeS); ok {
					downS = max(downS, x.fromS)
				} else {
					downS = math.Inf(1)
				}
			}
			if downS > c.epochS && !c.excuses("leader away", 0, s.timeS) {
				c.atMost(s.timeS, s.timeS-downS, endsS, "the mission is returning, and all are on the ground for %.0f s", s.timeS-downS)
			}
		case telemetry.StateStopped:
			c.holds(s.timeS, s.timeS >= stopped, "the mission is stopped, and nobody asked for that")
		case telemetry.StateIdle, telemetry.StateDone:
			if s.State == telemetry.StateDone && (c.statuses[max(k-1, 0)].State == s.State || s.timeS > stopped || !returns &&
				c.slotAt(s.timeS) >= float64(c.Slots)-0.1) {
				continue // since its last settlement, whoever is in the air, or comes home after it
			}
			for _, a := range c.aircraft {
				now := a.at(s.timeS)
				flies := now.Mode == offboard || now.Mode == land || now.Mode == takeoff
				ok := !(now.heightM() > 1 && flies && !now.Failsafe && a.isLed(s.timeS))
				if ok || !c.excusesAny(a.number, s.timeS, "link cut", "leader away") {
					c.holds(s.timeS, ok, "the mission is %s, and aircraft %d is at %.0f m in %s", s.State, a.number, now.PositionM[2],
						now.Mode)
				}
			}
		}
	}
}

// shockSlot is from when on flying costs more than the model says, by the world; +Inf: never.
func (f *flight) shockSlot() float64 {
	if w := f.World; w != nil && w.Shock.Factor > 0 && w.Shock.Factor != 1 {
		return float64(w.Shock.FromSlot)
	}
	return math.Inf(1)
}

// powerFactor is what flying costs in a slot over the model.
func (f *flight) powerFactor(slot float64) float64 {
	if slot >= f.shockSlot() {
		return f.World.Shock.Factor
	}
	return 1
}

// settledSlots is how long it takes until what flying costs is measured.
func (f *flight) settledSlots() float64 {
	slowestS := 0.0
	for _, a := range f.aircraft {
		slowestS = max(slowestS, a.MonitorS)
	}
	return costKnownS + 2*slowestS
}

// costsAnew reports whether a shock of what flying costs is so recent that it is not measured yet.
func (f *flight) costsAnew(slot int) bool {
	since := float64(slot) - f.shockSlot()
	return since >= -1 && since < f.settledSlots()
}

// calm reports whether flying at the speed of least power costs what the model says.
func (f *flight) calm() bool {
	w := f.World
	return w != nil && w.Wind.MeanMaxMPS == 0 && w.Gust == 0 && w.Groups.Count == 0 && w.SecondShock.Factor == 0
}

// floor compares the floor that the crew is told with what was spent and the least that the slots left take at the true power.
func (c *check) floor() {
	const share, slackJ, lasts = 0.1, 500.0, 8
	if !c.calm() || c.bounded() {
		return
	}
	_, bestW := c.Physics.MinPower()
	wrong := 0
	for _, s := range c.statuses {
		left := float64(c.Slots - 1 - s.Slot)
		exact := !slices.ContainsFunc(c.aircraft, func(a *aircraft) bool { return a.gain() != 1 })
		changed := float64(s.Slot) < c.settledSlots() || c.costsAnew(s.Slot)
		if changed || !exact || left <= 0 || s.State != telemetry.StateFlying && s.State != telemetry.StateHolding {
			wrong = 0
			continue
		}
		spentJ, all := 0.0, true
		for _, a := range c.aircraft {
			all = all && a.commanded().contains(s.timeS) && !c.homeward(a).contains(s.timeS)
			spentJ += a.spentJ(c.epochS+float64(s.Slot+1)) - a.spentJ(c.epochS)
		}
		// The leader may count one that does not fly for it, or not.
		if !all || c.excusesAny(0, s.timeS, "battery misread", "link cut", "leader away", "disk stands") {
			wrong = 0
			continue
		}
		least := c.powerFactor(float64(s.Slot)) * bestW * left * float64(len(c.aircraft))
		// A reading that came late is taken for a change of power for some slots.
		c.lasting(&wrong, lasts+1, s.timeS, math.Abs(s.FloorJ-spentJ-least), share*least+slackJ, "the status after slot %d has a floor "+
			"of %.0f J; %.0f were spent, and the %.0f slots left take %.0f", s.Slot, s.FloorJ, spentJ, left, least)
	}
}

// bounded reports whether a budget bounded packs, so that aircraft may come home early.
func (f *flight) bounded() bool {
	return slices.ContainsFunc(f.orders, func(o *order) bool { return o.accepted && len(o.budget.Packs) > 0 })
}

// parameterName is how the reason of a refusal names one.
var parameterName = regexp.MustCompile(`[A-Z]+_[A-Z_0-9]+`)

// reserveJ is flight.reserve_j, by default.
const reserveJ = 15e3

// RefusalNames reports whether a refusal has all of some words: parameters that are unsafe, not such as the leader does not know yet.
func RefusalNames(reason string, words []string) bool {
	return !strings.Contains(reason, "not read") &&
		!slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(reason, word) })
}

func (c *check) refusal() {
	reasons := map[string]func(string) bool{
		"arming_denied":   func(s string) bool { return strings.Contains(s, "pre-arm") },
		"unsafe_failsafe": parameterName.MatchString,
		"battery_second":  func(s string) bool { return strings.Contains(s, "batter") },
		"other_vehicle":   func(s string) bool { return strings.Contains(s, "HEARTBEAT") || strings.Contains(s, "FIXED_WING") },
	}
	for _, x := range c.faults {
		names := reasons[x.kind]
		if names != nil && x.text != "" { // parameters, which it has read
			names = func(reason string) bool { return RefusalNames(reason, strings.Fields(x.text)) }
		}
		if names == nil || len(c.beacons) > 0 && x.fromS > c.epochS {
			continue
		}
		asked, named := 0, false
		for _, o := range c.orders {
			if !o.takesOff() || !o.names(x.aircraft) || !(o.deliveredS > x.fromS && o.answeredS < x.toS) {
				continue
			}
			c.holds(o.answeredS, !o.accepted, "%s is accepted in spite of %s of aircraft %d", o.id, x.kind, x.aircraft)
			asked, named = asked+1, named || names(o.answer.Reason)
		}
		if asked > 0 {
			c.holds(x.toS, named, "no refusal names the reason, %s of aircraft %d", x.kind, x.aircraft)
		}
	}
	for _, o := range c.missionOrders(telemetry.ActionLaunch) {
		c.besideHomes(o)
	}
	for _, o := range c.missionOrders(telemetry.ActionNew) {
		for _, a := range c.aircraft {
			c.holds(o.answeredS, !a.inAir.contains(o.deliveredS), "%s is accepted, and aircraft %d is in the air", o.body, a.number)
		}
	}
}

// besideHomes: two must not come to land at one place.
func (c *check) besideHomes(o *order) {
	const nearM = 2.5 // nearer than the separation, by what receivers err
	for _, a := range c.aircraft {
		for _, other := range c.aircraft {
			home, ok := other.homeAt(o.deliveredS)
			if s := a.at(o.deliveredS); ok && other != a && o.names(a.number) && s.OnGround && other.inAir.contains(o.deliveredS) {
				d := horizontalM(sub(s.PositionM, home))
				c.atMost(o.answeredS, c.Physics.SeparationM-nearM, d, "%s is accepted, and aircraft %d stands %.1f m from the home of "+
					"aircraft %d", o.body, a.number, d, other.number)
			}
		}
	}
}

// genuine are the commands that the crew gave, and that can be answered.
func (f *flight) genuine() []*order {
	return slices.DeleteFunc(slices.Clone(f.orders), func(o *order) bool {
		return !telemetry.ValidID(o.id) || strings.HasPrefix(o.id, record.Forged)
	})
}

func (c *check) acknowledged() {
	const withinS = 2
	for _, o := range c.genuine() {
		if !math.IsInf(o.deliveredS, 1) && (o.answeredS-o.deliveredS <= withinS ||
			!c.excusesFrom(o.deliveredS, o.deliveredS+withinS, "leader away", "broker away", "disk stands")) {
			c.within(o.deliveredS, o.answeredS, withinS, "%s was not answered within %d s", o.body, withinS)
		}
	}
}

// excusesFrom reports whether one of some assumptions holds at any moment from one time to another, and counts it.
func (c *check) excusesFrom(fromS, toS float64, names ...string) bool {
	for _, name := range names {
		if c.assumed(name, 0).touches(fromS, toS) {
			c.finding.Assumed[name]++
			return true
		}
	}
	return false
}

// isRequest reports whether an order asks for a budget or a preference, or ends them.
func (o *order) isRequest() bool {
	return o.kind == telemetry.KindBudget || o.kind == telemetry.KindPreference || o.mission.Action == telemetry.ActionNew
}

// requests are those that were accepted.
func (f *flight) requests() []*order {
	return slices.DeleteFunc(slices.Clone(f.orders), func(o *order) bool { return !o.accepted || !o.isRequest() })
}

// shows reports whether a status shows what an order asked for.
func (o *order) shows(s *status) bool {
	switch {
	case o.kind == telemetry.KindPreference:
		return s.BudgetJ == nil && math.Abs(s.Setting-o.preference.Setting) < 1e-9
	case o.kind == telemetry.KindBudget && len(o.budget.Packs) > 0 && o.budget.EnergyJ == 0:
		return s.BudgetJ != nil
	case o.kind == telemetry.KindBudget:
		return s.BudgetJ != nil && *s.BudgetJ == o.budget.EnergyJ && s.Mode != nil && (o.budget.Mode == "" || *s.Mode == o.budget.Mode)
	}
	return true
}

func (c *check) inForce() {
	accepted := c.requests()
	const sameS = 0.01 // a status that waited for the disk is published as the answer is
	for s := range pointers(c.statuses) {
		var last *order
		pending := false
		for _, o := range accepted {
			switch {
			case o.answeredS <= s.timeS-sameS:
				if last == nil || o.answeredS >= last.answeredS {
					last = o
				}
			case o.sentS <= s.timeS: // it may be in force before it is answered
				pending = true
			}
		}
		if last == nil || pending {
			continue
		}
		// Answers of one transaction come at once, and not in the order of what they answer.
		ok := slices.ContainsFunc(accepted, func(o *order) bool {
			return o.answeredS <= s.timeS && o.answeredS > last.answeredS-0.01 && o.shows(s)
		})
		c.holds(s.timeS, ok, "%s was accepted, and the status after slot %d has budget %v, setting %v", last.body, s.Slot,
			valueOf(s.BudgetJ), s.Setting)
	}
}

func valueOf(x *float64) any {
	if x == nil {
		return "none"
	}
	return *x
}

func (c *check) duplicate() {
	for _, o := range c.orders {
		if strings.HasPrefix(o.id, record.Forged) {
			c.holds(o.sentS, !o.accepted, "%s was accepted, which nobody gave who may", o.body)
		}
		for _, a := range o.strange {
			c.holds(o.answeredS, !a.Accepted, "another command with the id %s was accepted", o.id)
		}
		for _, a := range o.others {
			c.holds(o.answeredS, a.Accepted == o.accepted && a.Reason == o.answer.Reason && !telemetryDiffers(&a, &o.answer),
				"%s was answered by %+v and by %+v", o.id, o.answer, a)
		}
	}
	var last int64
	for _, s := range c.statuses {
		c.holds(s.timeS, s.Seq > last, "a status has the number %d after %d", s.Seq, last)
		last = max(last, s.Seq)
	}
}

// telemetryDiffers reports whether two answers say that something else was applied.
func telemetryDiffers(a, b *telemetry.Ack) bool {
	same := func(x, y *float64) bool { return (x == nil) == (y == nil) && (x == nil || *x == *y) }
	return a.Action != b.Action || a.Mode != b.Mode || !same(a.EnergyJ, b.EnergyJ) || !same(a.Setting, b.Setting)
}

func (c *check) durable() {
	const beganBeforeS = 0.3 // a write that began before is finished then
	for _, x := range c.fault(0, "disk_stall", "disk_refuses") {
		for _, o := range c.orders {
			if o.deliveredS > x.fromS+beganBeforeS && o.deliveredS < x.toS {
				c.holds(o.answeredS, o.answeredS >= x.toS, "%s was answered while the disk finished no write", o.id)
			}
		}
	}
}

// holding: only the crew ends its own hold, and nothing holds without it but a lost contact.
func (c *check) holding() {
	orders := c.missionOrders(telemetry.ActionHold, telemetry.ActionResume, telemetry.ActionReturn, telemetry.ActionStop)
	slices.SortStableFunc(orders, func(a, b *order) int { return compare(a.answeredS, b.answeredS) })
	for _, s := range c.statuses {
		if s.State != telemetry.StateFlying && s.State != telemetry.StateHolding {
			continue
		}
		holds, pending := false, false
		for _, o := range orders {
			if o.answeredS > s.timeS {
				pending = pending || o.sentS <= s.timeS
				continue
			}
			holds = o.mission.Action == telemetry.ActionHold || holds && o.mission.Action == telemetry.ActionReturn &&
				len(o.mission.Aircraft) > 0
		}
		held := s.State == telemetry.StateHolding
		if pending || held && !holds && c.excuses("contact lost", 0, s.timeS) {
			continue
		}
		c.holds(s.timeS, held == holds, "the mission is %s after slot %d, and the crew's hold is in force: %v", s.State, s.Slot, holds)
	}
}

// stateAt is what the crew is told last at a moment.
func (f *flight) stateAt(timeS float64) string {
	told := ""
	for _, s := range f.statuses {
		if s.timeS <= timeS {
			told = s.State
		}
	}
	return told
}

// overStates are those of a mission that flies no slot any more.
var overStates = []string{telemetry.StateReturning, telemetry.StateDone, telemetry.StateStopped}

// isOver is whether the crew was told, at a moment, that no slot is flown any more.
func (f *flight) isOver(timeS float64) bool { return slices.Contains(overStates, f.stateAt(timeS)) }

// reaches is when the crew is first told of one of some states, from a moment on; +Inf: never.
func (f *flight) reaches(fromS float64, states ...string) float64 {
	for _, s := range f.statuses {
		if s.timeS >= fromS && slices.Contains(states, s.State) {
			return s.timeS
		}
	}
	return math.Inf(1)
}

func (c *check) contact() {
	const withinS, backS = 3, 8 // contact counts again when it has lasted 5 s
	if c.Absence == nil {
		return
	}
	away, holdS, returnS := slices.Clip(overStates), c.Absence.CrewHoldS, c.Absence.CrewReturnS
	for _, x := range c.fault(0, record.CrewSilent) {
		if c.stateAt(x.fromS) != telemetry.StateFlying || slices.ContainsFunc(c.orders, func(o *order) bool {
			return o.accepted && o.deliveredS > x.fromS && o.deliveredS < x.toS // a command is contact, and its order counts
		}) {
			continue
		}
		if at := x.fromS + holdS*c.Speed; holdS > 0 && x.toS > at+withinS {
			c.within(at, c.reaches(x.fromS, append(away, telemetry.StateHolding)...), withinS, "the mission flies on without the crew")
		}
		if at := x.fromS + returnS*c.Speed; returnS > 0 && x.toS > at+withinS {
			c.within(at, c.reaches(x.fromS, away...), withinS, "the mission does not return without the crew")
		} else if c.stateAt(x.toS) == telemetry.StateHolding && c.slotAt(x.toS)+backS < float64(c.Slots) {
			c.within(x.toS, c.reaches(x.toS, append(away, telemetry.StateFlying)...), backS, "the crew is back, and the mission holds on")
		}
	}
	const lastsS = 5                                                           // a contact that counts
	for _, x := range c.fault(0, record.BrokerDown).wider(0, lastsS*c.Speed) { // nobody is told: it shows in how they fly
		x.toS -= lastsS * c.Speed
		const stillMPS, homeM = 3, 10
		for _, a := range c.aircraft {
			fly := a.commanded().and(spans{{x.fromS + c.Absence.BrokerHoldS*c.Speed + withinS, x.toS}})
			returnsS := x.fromS + c.Absence.BrokerReturnS*c.Speed
			c.always(a, fly.and(spans{{0, returnsS - 1}}), 0, func(s *state) (value, bound float64) { return s.speedMPS(), stillMPS },
				"without the broker aircraft %[1]d flies on")
			c.always(a, fly.and(spans{{returnsS + withinS, x.toS}}), 0, func(s *state) (value, bound float64) {
				if home, ok := a.homeAt(s.timeS); ok && s.speedMPS() < stillMPS {
					return horizontalM(sub(s.PositionM, home)), homeM
				}
				return 0, homeM
			}, "without the broker aircraft %[1]d does not come home")
		}
	}
}

// ceiling is judged where it could be kept for certain: no shock came after it, and it is not below what a calm flight takes.
func (c *check) ceiling() {
	const margin, above, slackJ = 1.03, 0.005, 200.0
	var last *order
	for _, o := range c.requests() {
		if last == nil || o.answeredS > last.answeredS {
			last = o
		}
	}
	if len(c.beacons) == 0 || !c.calm() || c.bounded() || last == nil || last.budget.Mode != telemetry.ModeCeiling ||
		last.answer.EffectiveSlot == nil {
		return
	}
	from, end := float64(*last.answer.EffectiveSlot), float64(c.beacons[len(c.beacons)-1].Slot.Slot+1)
	shock := c.shockSlot()
	if shock < end && shock > from-4 {
		return
	}
	_, bestW := c.Physics.MinPower()
	least := c.powerFactor(end-1) * bestW * float64(len(c.aircraft)) * max(end-from, 0)
	spentJ, misreadJ := 0.0, 0.0
	for _, a := range c.aircraft {
		ofJ := a.spentJ(c.epochS+end) - a.spentJ(c.epochS)
		least += a.spentJ(c.epochS+min(from, end)) - a.spentJ(c.epochS)
		spentJ, misreadJ = spentJ+ofJ, misreadJ+ofJ*math.Abs(a.gain()-1)+60*a.MonitorS
	}
	if last.budget.EnergyJ >= margin*least {
		most := last.budget.EnergyJ*(1+above) + slackJ*float64(len(c.aircraft)) + misreadJ
		c.atMost(c.endS, spentJ, most, "the slots took %.0f J, under a ceiling of %.0f that could be kept", spentJ, last.budget.EnergyJ)
	}
}
