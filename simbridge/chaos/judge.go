package chaos

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/inference/physics"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/geo"
	"prefdt/telemetry"
)

// judge decides whether a mission was safe and did its work: by the simulators' true
// state, and by what arrives at the autopilots, at the users and at the crew. It reads
// nothing that the leader says of itself. Times are mission seconds of the vehicle that
// received the message. The rules are in the table [rules]; here is what they look at.
//
// Limits of time allow in addition what a message takes on its way, slackS or graceS.
type judge struct {
	physics physics.Constants
	limits  limits
	slackS  float64 // a setpoint's period, and 10 ms of wall time for links and the leader's work
	graceS  float64 // 5 ms of wall time: a command may be on its way that long
	// flightW is what an aircraft draws in a slot at a velocity over the ground.
	flightW func(slot, aircraft int, velocityMPS geo.Local) float64

	mutex          sync.Mutex
	aircraft       []observedAircraft
	users          observedUsers
	violations     []violation
	minSeparationM float64 // horizontal, in the air
	firstLateS     float64 // how late the first beacon was, in slots, below 0
	lastSlot       int     // of the beacons; -1: none
	slotsOpened    int
	slotsEnded     bool // the fleet was called back or stopped, or its last slot is over
	floorWrong     int  // statuses in a row whose floor is off
	disturbed      int  // faults that hold up what the leader does, now or just before
}

// limits are what configuration, autopilots and surroundings of a mission allow.
type limits struct {
	monitorSlots int  // two intervals of the slowest battery monitor
	sharedLink   bool // every aircraft receives what is addressed to the others
	list         []string
	slots        int          // T
	shockSlot    int          // flying costs powerFactor from there on
	lowPacks     bool         // an aircraft may go home at any time
	mayLeave     bool         // likewise, also for a climb that a fault delayed
	chases       bool         // aircraft turn and hurry after a group, of which the model at v* knows nothing
	returns      bool         // the crew calls it back: done is once all have landed
	exactPacks   bool         // what the packs' sensors read is the truth, and no pack is changed
	powerFactor  float64      // at most, of propulsion
	windMPS      float64      // at most
	keptJ        float64      // that the crew's budget leaves in each pack at touchdown; 0: it bounds none
	reserve      float64      // likewise as a share of it
	leastUp      int          // aircraft that stay in the air by that budget, while their packs allow it
	packs        []packLimits // of each aircraft, if so
	amslM        float64      // of the ground
}

// observedAircraft is the true state of an aircraft and what it received.
type observedAircraft struct {
	airframe
	state      autopilot.State
	inAir      bool
	home       geo.Local // where it took off last
	hasHome    bool
	outsideM   float64 // the area, by what its leader may know: it is told late that one comes in
	flownM     float64 // horizontally, in OFFBOARD under the leader's command in slots, unless held
	flownS     float64 // for so long, with no other in its way
	mayHold    bool    // it may hold or not, until the next order
	offboardS  float64 // in OFFBOARD without interruption since; +Inf: it is not
	offboardM  float64 // at this height then
	crowdedS   float64 // and for so long with another near, see isCrowded
	fastSinceS float64 // faster than fastMPS without interruption since; +Inf: it is not
	slowSinceS float64 // slower, likewise
	servedS    float64 // last in OFFBOARD and not its pilot's; -Inf: never
	cutFromS   float64 // its links are cut since; +Inf: they are not
	cutUntilS  float64 // they were cut last until then

	// Of the last setpoint.
	followed       bool      // it was in OFFBOARD
	toldHoldS      float64   // it was commanded into Hold, last; -Inf: never
	followedSinceS float64   // at all setpoints since then
	setpointS      float64   // when
	requested      geo.Local // commanded displacement in the next second
	velocity       geo.Local
	target         geo.Local
	targetSinceS   float64 // velocity and target unchanged since
	conflictSinceS float64 // commanded on a path that comes too close since; +Inf: it is not

	pilot           *pilotAct // under pilot control or rebooted: the leader must not command it; nil: it may
	resumed         bool      // the crew gave it back to the leader in the air
	rescued         string    // who landed it instead of its leader; empty: nobody
	linkDelayS      float64   // at most, of what it sends
	heartbeatS      float64   // last HEARTBEAT sent in time; -1 before
	disarmedSinceS  float64   // first of the last HEARTBEATs that all report disarmed; -1: the last one does not
	leaderReturnedS float64   // the leader was restarted or continued, without the messages before
	streamRequiredS float64   // since then the stream must go on even without HEARTBEATs; +Inf: it may stop
	stalledS        float64   // the leader's slot loop stands since; +Inf: it runs
	strayedS        float64   // the last time at which it returned by its own failsafe; -Inf: never
	armOrder        armOrder

	// What the crew's orders, or the loss of contact, require; +Inf: nothing.
	launchedS  float64 // to take off, since
	heldS      float64 // to stay, since
	movesS     float64 // to fly on, since
	movesFromM float64 // flownM then
	stoppedS   float64 // to be in Hold, since
	returnByS  float64 // to be on the ground, by
	homingS    float64 // it alone was to return, since
	rejoinsS   float64 // to be in OFFBOARD again, since the leader is back
	returnFrom float64 // joules spent when it was to return; NaN: it was not
	returningS float64 // since when
	returnJ    float64 // at most from then on
	blockedS   float64 // for so long another was in its way home

	// Of its pack.
	settlesS   float64 // then it can have been sent home again; +Inf: it always could
	reachableJ float64 // the most that could be left at touchdown since; +Inf: no less than was asked for
	costKnownS float64 // after a shock: what flying costs can be measured from then on; 0: there was none
	byPack     bool    // it began its descent in the slots, for its pack alone
	leftShare  float64 // of its pack, at its last touchdown
	stationS   float64 // last HEARTBEAT of its leader's
}

// observedUsers is what users reported and what they were answered, on the wire.
type observedUsers struct {
	reports  map[reportKey]telemetry.Report // the first valid one of each user and slot
	tasks    int                            // reported in open slots while the broker was up
	inTime   int                            // decided in time
	answered int                            // decided, in time or not
	slot     int                            // that shares are of
	seenFrom int                            // reports of slots before may not have been seen: the broker was gone
	shares   map[int]float64                // by aircraft
}

// reportKey is a user and the slot of its report.
type reportKey struct {
	user string
	slot int
}

// pilotAct is an act of a pilot or an autopilot that ends the leader's command of an aircraft.
type pilotAct struct {
	sinceS  float64
	shownBy func(autopilot.Heartbeat) bool // whether a HEARTBEAT shows it
	knownS  float64                        // time of the first that did; +Inf: none yet
}

// armOrder is the crew's order to take off.
type armOrder struct {
	open      bool
	streamed  bool    // a setpoint was received since
	firstArmS float64 // arming was first commanded; +Inf: not yet
	armed     bool    // shown by a HEARTBEAT
	disarmedS float64 // first later HEARTBEAT that shows it disarmed; +Inf: none
	endS      float64 // the crew ended the order; +Inf: it did not
}

const (
	speedSlackMPS     = 0.05
	fenceSlackM       = 0.5
	setpointTTLS      = 2   // time to live: a decision is followed for so long
	streamEndS        = 12  // after so long without a decision the stream ends
	setpointPeriodS   = 0.1 // between setpoints
	armTimeoutS       = 10  // arming is commanded for so long, for each order
	heartbeatTimeoutS = 10  // setpoints go on without a HEARTBEAT
	maxSetpointGapS   = 1   // between setpoints, at most, while positions go on
)

func newJudge(p physics.Constants, aircraft int, speed float64) *judge {
	j := &judge{
		physics: p, slackS: 0.1 + 0.01*speed, graceS: 0.005 * speed, minSeparationM: math.Inf(1), lastSlot: -1,
		limits:  limits{powerFactor: 1.5},
		flightW: func(_, _ int, v geo.Local) float64 { return p.Propulsion.PowerW(v.HorizontalM()) },
		users:   observedUsers{reports: map[reportKey]telemetry.Report{}, slot: -1},
	}
	inf := math.Inf(1)
	for range aircraft {
		a := observedAircraft{
			state: autopilot.State{OnGround: true, Landed: true}, offboardS: inf, servedS: -inf, cutFromS: inf, conflictSinceS: inf,
			airframe: airframe{speedMPS: p.SpeedMaxMPS, descentMPS: 1.5, landMPS: 0.7, slowBelowM: 10},
			settlesS: inf, reachableJ: inf,
			heartbeatS: -1, disarmedSinceS: -1, streamRequiredS: inf, stalledS: inf, setpointS: -inf, toldHoldS: -inf, strayedS: -inf,
			fastSinceS: inf, slowSinceS: inf,
		}
		a.requireNothing()
		j.aircraft = append(j.aircraft, a)
	}
	return j
}

// isLate reports whether a moment is later after another one than is allowed.
func isLate(fromS, allowedS, nowS float64) bool { return nowS-fromS > allowedS }

// requireNothing drops what orders, or the loss of contact, required of an aircraft.
func (a *observedAircraft) requireNothing() {
	inf := math.Inf(1)
	a.launchedS, a.heldS, a.movesS, a.stoppedS, a.returnByS, a.homingS, a.rejoinsS, a.returnFrom = inf, inf, inf, inf, inf, inf, inf,
		math.NaN()
}

// led reports whether an aircraft is the leader's to command.
func (a *observedAircraft) led() bool { return a.pilot == nil }

// withAll calls f for each aircraft under the mutex. f must not call an autopilot, which
// waits for the mutex with its own held.
func (j *judge) withAll(f func(i int, a *observedAircraft)) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	for i := range j.aircraft {
		f(i, &j.aircraft[i])
	}
}

// with calls f for one aircraft under the mutex, likewise.
func (j *judge) with(i int, f func(a *observedAircraft)) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	f(&j.aircraft[i])
}

// observed is an aircraft as the judge knows it now.
func (j *judge) observed(i int) (a observedAircraft) {
	j.with(i, func(x *observedAircraft) { a = *x })
	return a
}

func (j *judge) isPiloted(i int) bool { return j.observed(i).pilot != nil }

// What pilots, autopilots and the simulation do.

// pilotTookOver notes that from now on an aircraft is under pilot control. The leader can
// know it from the first HEARTBEAT that shows it, also if the pilot has to repeat the act.
func (j *judge) pilotTookOver(i int, nowS float64, shows func(autopilot.Heartbeat) bool) {
	j.with(i, func(a *observedAircraft) {
		if a.pilot == nil {
			a.pilot = &pilotAct{sinceS: nowS, shownBy: shows, knownS: math.Inf(1)}
		}
		a.requireNothing()
	})
}

// noteRescue notes that somebody else than the leader landed an aircraft.
func (j *judge) noteRescue(i int, by string) {
	j.with(i, func(a *observedAircraft) { a.rescued = by })
}

// noteLeaderReturned notes that the leader runs again, without the messages it missed.
func (j *judge) noteLeaderReturned(nowS []float64) {
	j.withAll(func(i int, a *observedAircraft) {
		a.leaderReturnedS = nowS[i]
		a.settle(nowS[i] + settleS)
	})
}

// disturb counts the faults that hold up what the leader does.
func (j *judge) disturb(by int) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.disturbed += by
}

// forgive suspends what must happen by some time, as a fault has begun or ended that
// delays it by so long; what must be reached by motion is not required any more.
func (j *judge) forgive(byS float64) {
	j.withAll(func(_ int, a *observedAircraft) {
		a.launchedS, a.movesS, a.stoppedS = math.Inf(1), math.Inf(1), math.Inf(1)
		a.returnByS += byS
	})
}

// requireStream has the stream to an aircraft go on from a time on.
func (j *judge) requireStream(i int, fromS float64) {
	j.with(i, func(a *observedAircraft) { a.streamRequiredS = fromS })
}

// endStreamRequirement allows the stream to stop again. To an aircraft still under
// command it must not have stopped until then.
func (j *judge) endStreamRequirement(i int, led bool, nowS float64) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	a := &j.aircraft[i]
	if led && a.followed && a.led() {
		if text := j.gapUntil(i, nowS); text != "" {
			j.violate("gap", text)
		}
	}
	a.streamRequiredS = math.Inf(1)
}

// What the crew orders.

// returnToLeader notes that the crew returned aircraft to the leader: with arm, on the
// ground, to take off. undo reverts it, for an order that was refused.
func (j *judge) returnToLeader(numbers []int, arm bool) (undo func()) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	before := slices.Clone(j.aircraft)
	for _, i := range numbers {
		a := &j.aircraft[i]
		if a.pilot != nil {
			a.settle(a.state.TimeS + settleS)
		}
		if a.pilot, a.resumed = nil, a.resumed || !arm; arm {
			a.armOrder = armOrder{open: true, firstArmS: math.Inf(1), disarmedS: math.Inf(1), endS: math.Inf(1)}
		}
	}
	return func() {
		j.mutex.Lock()
		defer j.mutex.Unlock()
		for _, i := range numbers {
			if a := &j.aircraft[i]; a.pilot == nil {
				a.pilot = before[i].pilot
			}
			if arm {
				j.aircraft[i].armOrder = before[i].armOrder
			}
		}
	}
}

// noteOrder notes what an accepted action for named aircraft, or for all, or the loss or
// return of contact, requires of those that the leader commands.
func (j *judge) noteOrder(action string, named []int, nowS []float64) {
	inf := math.Inf(1)
	j.withAll(func(i int, a *observedAircraft) {
		if len(named) > 0 && !slices.Contains(named, i) && action != telemetry.ActionResume {
			return // a resume of one ends the hold of all
		}
		if action == telemetry.ActionReturn || action == telemetry.ActionStop {
			a.armOrder.endS = min(a.armOrder.endS, nowS[i])
		}
		if len(named) == 0 && (action == telemetry.ActionReturn || action == telemetry.ActionStop) {
			j.slotsEnded = true
		}
		a.mayHold = false
		if !a.led() {
			return
		}
		switch action {
		case telemetry.ActionStart, telemetry.ActionLaunch:
			if a.state.OnGround && a.armOrder.open && math.IsInf(a.launchedS, 1) {
				a.launchedS = nowS[i]
			}
		case telemetry.ActionHold:
			a.heldS, a.movesS = nowS[i], inf
		case telemetry.ActionResume:
			a.heldS, a.movesS, a.movesFromM = inf, nowS[i], a.flownM
		case telemetry.ActionReturn:
			a.heldS, a.movesS, a.stoppedS, a.launchedS = inf, inf, inf, inf
			if j.requireReturn(a, nowS[i]); len(named) > 0 {
				a.homingS = nowS[i]
			}
		case telemetry.ActionStop:
			a.heldS, a.movesS, a.launchedS, a.returnByS, a.returnFrom = inf, inf, inf, inf, math.NaN()
			if a.inAir {
				a.stoppedS = nowS[i]
			}
		}
	})
}

// requireReturn has an aircraft be on the ground after the way home at v* and the descent
// at the autopilot's rates, with some time for its turn and for others on the way, and
// with what that may take. Called with the mutex held.
func (j *judge) requireReturn(a *observedAircraft, nowS float64) {
	if !a.inAir || !a.hasHome {
		return
	}
	const turnS = 20
	wayS, descentS, bestW := j.wayHome(a)
	a.returnByS = nowS + 1.33*(wayS+descentS) + turnS
	a.returnFrom, a.returningS, a.blockedS = a.state.Spent.J(), nowS, 0
	p := j.physics.Propulsion
	air := p.PowerW(p.BestSpeedMPS(a.speedMPS)+j.limits.windMPS)/bestW - 1 // at most more in wind, against it all the way
	a.returnJ = 1.25 * j.limits.powerFactor * (1 + max(air, 0)) * (wayS*bestW + (descentS+turnS)*p.PowerW(0))
}

// wayHome is what the way home at v* and the descent at the autopilot's rates take, and
// the power of the former. Called with the mutex held.
func (j *judge) wayHome(a *observedAircraft) (wayS, descentS, bestW float64) {
	p, up := j.physics.Propulsion, a.state.Position.UpM
	best := p.BestSpeedMPS(a.speedMPS)
	wayS = a.home.Sub(a.state.Position).HorizontalM() / best
	return wayS, a.descentS(up), p.PowerW(best)
}

// descentS is how long a descent from a height takes at the autopilot's rates.
func (f *airframe) descentS(upM float64) float64 {
	return max(upM-f.slowBelowM, 0)/f.descentMPS + min(upM, f.slowBelowM)/min(f.landMPS, f.descentMPS)
}

// What the simulators and the wire show.

// handleHeartbeat handles a HEARTBEAT that was sent without delay.
func (j *judge) handleHeartbeat(i int, h autopilot.Heartbeat) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	a := &j.aircraft[i]
	a.heartbeatS = h.TimeS
	switch {
	case h.Armed:
		a.disarmedSinceS, a.armOrder.armed = -1, true
	case a.disarmedSinceS < 0:
		a.disarmedSinceS = h.TimeS
	}
	if a.armOrder.open && a.armOrder.armed && !h.Armed {
		a.armOrder.disarmedS = min(a.armOrder.disarmedS, h.TimeS)
	}
	if p := a.pilot; p != nil && h.TimeS >= p.sinceS && p.shownBy(h) {
		p.knownS = min(p.knownS, h.TimeS+a.linkDelayS)
	}
}

// handleMotion handles a step of an aircraft's dynamics.
func (j *judge) handleMotion(i int, s autopilot.State) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	a := &j.aircraft[i]
	before := a.state
	a.state, a.inAir = s, s.Position.UpM > 1
	if s.Mode == autopilot.ModeReturn && (!a.led() || a.strayedS == before.TimeS) { // resumed, too, until it leaves the mode
		a.strayedS = s.TimeS
	}
	a.outsideM = max(outsideByM(s.Position.EastM, s.Position.NorthM, j.physics.AreaSideM),
		a.outsideM-inwardMPS*(s.TimeS-before.TimeS))
	if before.OnGround && !s.OnGround {
		a.home, a.hasHome = s.Position, true
		a.home.UpM = 0
		a.launchedS = math.Inf(1)
	}
	if s.SpeedMPS() > fastMPS {
		a.fastSinceS, a.slowSinceS = min(a.fastSinceS, s.TimeS), math.Inf(1)
	} else {
		a.fastSinceS, a.slowSinceS = math.Inf(1), min(a.slowSinceS, s.TimeS)
	}
	switch {
	case s.Mode != autopilot.ModeOffboard || !s.Armed || s.OnGround:
		a.offboardS = math.Inf(1)
	default:
		if math.IsInf(a.offboardS, 1) {
			a.offboardS, a.offboardM, a.crowdedS = s.TimeS, s.Position.UpM, 0
		}
		if j.isCrowded(i) {
			a.crowdedS += s.TimeS - before.TimeS
		}
		if a.led() {
			a.servedS = s.TimeS
		}
		if a.led() && j.lastSlot >= 0 && math.IsInf(a.heldS, 1) && !a.mayHold && math.IsNaN(a.returnFrom) {
			a.flownM += s.SpeedMPS() * (s.TimeS - before.TimeS)
			if !j.isBlocked(i) {
				a.flownS += s.TimeS - before.TimeS
			}
		}
	}
	if !math.IsNaN(a.returnFrom) && (j.isBlocked(i) || j.waitsForItsWay(i)) {
		a.blockedS += s.TimeS - before.TimeS
	}
	if j.limits.reserve > 0 {
		j.noteReachable(i)
		j.noteLands(i, before)
	}
	j.handle(&event{kind: moved, aircraft: i, before: before})
	if a.copter && s.Failsafe && !before.Failsafe && a.led() { // its failsafe is its pilot, until the crew resumes it
		a.pilot = &pilotAct{sinceS: s.TimeS, shownBy: func(h autopilot.Heartbeat) bool { return h.Mode == s.Mode }, knownS: math.Inf(1)}
		a.requireNothing()
	}
	if !before.OnGround && s.OnGround {
		a.leftShare = j.landedJ(i) / s.PackJ
		j.handle(&event{kind: touchedDown, aircraft: i, before: before})
		a.requireNothing()
	}
}

// isCrowded reports whether another aircraft is so near that the leader may have one move for it, or
// come nearer to its place slowly. Called with the mutex held.
func (j *judge) isCrowded(i int) bool {
	const nearM = 40
	a := &j.aircraft[i]
	for k := range j.aircraft {
		if o := &j.aircraft[k]; k != i && o.state.Position.Sub(a.state.Position).HorizontalM() < nearM+max(a.stopsInM, o.stopsInM) {
			return true
		}
	}
	return false
}

// isBlocked reports whether another aircraft in the air, or in its descent, is so near
// that one in OFFBOARD may have to wait for it. Called with the mutex held.
func (j *judge) isBlocked(i int) bool {
	const nearSeparations = 3
	a := &j.aircraft[i]
	return a.state.Mode == autopilot.ModeOffboard && slices.ContainsFunc(j.aircraft, func(o observedAircraft) bool {
		nearM := nearSeparations*j.physics.SeparationM + max(a.stopsInM, o.stopsInM)
		return o.state != a.state && !o.state.OnGround && o.state.Position.Sub(a.state.Position).HorizontalM() < nearM
	})
}

// waitsForItsWay is whether an aircraft hovers while another one in the air is in its way home, however far from it:
// of a whole fleet those with the longest ways wait for the others. Called with the mutex held.
func (j *judge) waitsForItsWay(i int) bool {
	const stillMPS, nearSeparations = 1, 3
	a := &j.aircraft[i]
	way := a.home.Sub(a.state.Position)
	return a.state.Mode == autopilot.ModeOffboard && a.state.SpeedMPS() < stillMPS &&
		slices.ContainsFunc(j.aircraft, func(o observedAircraft) bool {
			return o.state != a.state && !o.state.OnGround &&
				closestApproachM(a.state.Position.Sub(o.state.Position), way) < nearSeparations*j.physics.SeparationM
		})
}

// handleReceived handles a message that a vehicle received.
func (j *judge) handleReceived(i int, r autopilot.Received) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	a := &j.aircraft[i]
	if h, ok := r.Other.(*common.MessageHeartbeat); ok && h.Type != common.MAV_TYPE_QUADROTOR {
		a.stationS = r.TimeS
	}
	if s := r.Setpoint; s != nil {
		a.armOrder.streamed = true
		// A leg is for one slot: with the same target and feed-forward for longer than
		// their time to live the leader no longer decides. On the way to a point the
		// target moves with the aircraft.
		if s.Velocity != a.velocity || s.Position != a.target || r.TimeS-a.setpointS > 0.5 {
			a.targetSinceS = r.TimeS
		}
		a.requested = s.Position.Sub(r.Position).Add(s.Velocity)
	}
	j.handle(&event{kind: arrived, aircraft: i, received: r})
	if s := r.Setpoint; s != nil {
		if !a.followed {
			a.followedSinceS = r.TimeS
		}
		a.velocity, a.target, a.setpointS, a.followed = s.Velocity, s.Position, r.TimeS, r.Mode == autopilot.ModeOffboard
	}
	if r.Command == common.MAV_CMD_DO_SET_MODE && a.commandedMode(r) == autopilot.ModeHold {
		a.toldHoldS = r.TimeS
	}
	if isArm(r) {
		a.armOrder.firstArmS = min(a.armOrder.firstArmS, r.TimeS)
	}
}

// handleBeacon handles a beacon that arrived at a time in slots since the start of slot 0.
func (j *judge) handleBeacon(s telemetry.Slot, slotNow float64) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.handle(&event{kind: opened, beacon: s, slotNow: slotNow})
	if s.Slot > j.lastSlot {
		j.lastSlot = s.Slot
		j.slotsOpened++
	}
}

// earlyCPUHz marks this run's reports of slots that are not open yet.
const earlyCPUHz = 1.234e9

// handleReport handles a valid report on the wire.
func (j *judge) handleReport(user string, r telemetry.Report) {
	if r.CPUHz == earlyCPUHz {
		return
	}
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if _, before := j.users.reports[reportKey{user, r.Slot}]; !before {
		j.users.reports[reportKey{user, r.Slot}] = r
	}
}

// reportOf is the first report of a user in a slot.
func (j *judge) reportOf(user string, slot int) (r telemetry.Report, ok bool) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	r, ok = j.users.reports[reportKey{user, slot}]
	return r, ok
}

// noteBrokerReturned notes that reports are seen from a slot on.
func (j *judge) noteBrokerReturned(slot int) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.users.seenFrom = slot
}

// handleDecision handles a decision on the wire.
func (j *judge) handleDecision(user string, d telemetry.Decision) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	u := &j.users
	if u.slot != d.Slot {
		u.slot, u.shares = d.Slot, map[int]float64{}
	}
	u.shares[d.Aircraft] += d.CPUHz
	u.answered++
	j.handle(&event{kind: decided, user: user, decision: d})
}

// endHold allows the aircraft to move again, to where it is known later.
func (j *judge) endHold() {
	j.withAll(func(_ int, a *observedAircraft) { a.heldS, a.mayHold = math.Inf(1), true })
}

// handleStatus handles a fresh status.
func (j *judge) handleStatus(s telemetry.Status, slotsJ float64) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.handle(&event{kind: told, status: s, slotsJ: slotsJ})
}

// handleLaunch handles the answer to a launch that was accepted.
func (j *judge) handleLaunch(named []int) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	for _, i := range named {
		if left := j.aircraft[i].state.LeftJ; left < reserveJ {
			why := fmt.Sprintf("the pack of aircraft %d, which has %.0f J of a reserve of %.0f", i+1, left, reserveJ)
			j.handle(&event{kind: answered, refusal: refusal{why: why, accepted: true}})
		}
	}
}

// requireRejoin requires of the aircraft that flew for the leader when it was killed that
// they do so again, now that it is back.
func (j *judge) requireRejoin(flew []bool, nowS []float64) {
	j.withAll(func(i int, a *observedAircraft) {
		if flew[i] {
			a.rejoinsS = nowS[i]
		}
	})
}

// handleAnswer handles the answer to a start that must be refused.
func (j *judge) handleAnswer(r refusal) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.handle(&event{kind: answered, refusal: r})
}

// String is where an aircraft is and what it was commanded.
func (a *observedAircraft) String() string {
	p, v := a.state.Position, a.state.Velocity
	return fmt.Sprintf("one at (%.1f, %.1f, %.1f) m flies (%.1f, %.1f, %.1f) m/s in %v, commanded by (%.1f, %.1f) m in a second at %.1f "+
		"s, under pilot control %v",
		p.EastM, p.NorthM, p.UpM, v.EastM, v.NorthM, v.UpM, a.state.Mode, a.requested.EastM, a.requested.NorthM, a.setpointS,
		a.pilot != nil)
}
