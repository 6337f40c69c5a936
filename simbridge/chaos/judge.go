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
)

// judge decides whether setpoints and commands are safe, from the messages that the
// autopilots receive and from nothing else of the leader. Times are mission seconds of
// the vehicle that received the message.
//
// Limits of time allow latencyS in addition: a setpoint's period, and 10 ms of wall time
// for the links and the leader's work. A pilot's act counts from the first HEARTBEAT
// sent in time that showed it. Only if a limit is exceeded, the measured delay by the
// machine itself is added to it.
type judge struct {
	physics  physics.Constants
	latencyS float64
	// hostDelayS returns how long the machine delayed programs from a moment of a
	// vehicle's time until now, in mission seconds.
	hostDelayS func(aircraft int, fromS float64) float64

	mutex          sync.Mutex
	aircraft       []observedAircraft
	unsafe         int     // setpoints and commands
	firstUnsafe    string  // the first of them, in full
	minSeparationM float64 // horizontal, in the air
	excused        int     // late, but by no more than the measured delay of the machine
	maxExcusedS    float64 // the latest of them
}

// observedAircraft is the true state of an aircraft and the last messages it received.
type observedAircraft struct {
	body           autopilot.Body
	inAir          bool
	offboard       bool    // in OFFBOARD at the last setpoint
	offboardSinceS float64 // at all setpoints since then
	setpointS      float64
	requested      geo.Local // commanded displacement in the next second
	velocity       geo.Local // of the setpoint
	target         geo.Local
	targetSinceS   float64 // velocity and target unchanged since
	conflictSinceS float64 // commanded on a path that comes too close since; +Inf: it is not

	pilot           *pilotAct // under pilot control or rebooted: the leader must not command it; nil: it may
	heartbeatS      float64   // last HEARTBEAT sent in time; -1 before
	disarmedSinceS  float64   // first of the last HEARTBEATs that all report disarmed; -1: the last one does not
	leaderReturnedS float64   // the leader was restarted or continued, without the messages before
	streamRequiredS float64   // since then the stream must go on even without HEARTBEATs; +Inf: it may stop
	armOrder        armOrder
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
	altitudeBandM     = 20
	setpointTTLS      = 2   // time to live: a decision is followed for so long
	setpointPeriodS   = 0.1 // between setpoints
	armTimeoutS       = 10  // arming is commanded for so long, for each order
	heartbeatTimeoutS = 10  // setpoints go on without a HEARTBEAT
	maxSetpointGapS   = 1   // between setpoints, at most, while positions go on
)

func newJudge(p physics.Constants, aircraft int, speed float64) *judge {
	j := &judge{
		physics: p, latencyS: 0.1 + 0.01*speed, minSeparationM: math.Inf(1),
		hostDelayS: func(int, float64) float64 { return 0 },
	}
	j.aircraft = make([]observedAircraft, aircraft)
	for i := range j.aircraft {
		j.aircraft[i] = observedAircraft{conflictSinceS: math.Inf(1), heartbeatS: -1, disarmedSinceS: -1, streamRequiredS: math.Inf(1), setpointS: math.Inf(-1)}
	}
	return j
}

func (j *judge) reportUnsafe(what string, format string, args ...any) {
	if j.unsafe++; j.unsafe == 1 {
		j.firstUnsafe = what + ": " + fmt.Sprintf(format, args...)
	}
}

// isLate reports whether a moment is later after another one than is allowed, in spite
// of the delay by the machine in between.
func (j *judge) isLate(i int, fromS, allowedS, nowS float64) bool {
	by := nowS - fromS - allowedS - j.latencyS
	return by > 0 && !j.excuseDelay(i, fromS, by)
}

// excuseDelay reports whether the machine delayed programs since a moment by as much as
// a message was late.
func (j *judge) excuseDelay(i int, fromS, byS float64) bool {
	if byS > j.hostDelayS(i, fromS) {
		return false
	}
	j.excused++
	j.maxExcusedS = max(j.maxExcusedS, byS)
	return true
}

// pilotTookOver notes that from now on an aircraft is under pilot control. The leader
// can know it from the first HEARTBEAT that shows it.
func (j *judge) pilotTookOver(i int, nowS float64, shows func(autopilot.Heartbeat) bool) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.aircraft[i].pilot = &pilotAct{sinceS: nowS, shownBy: shows, knownS: math.Inf(1)}
}

// observed is an aircraft as the judge knows it now.
func (j *judge) observed(i int) observedAircraft {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.aircraft[i]
}

func (j *judge) isPiloted(i int) bool { return j.observed(i).pilot != nil }

// returnToLeader notes that the crew returned aircraft to the leader: with arm, on the
// ground, to take off. undo reverts it, for an order that was refused.
func (j *judge) returnToLeader(numbers []int, arm bool) (undo func()) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	before := slices.Clone(j.aircraft)
	for _, i := range numbers {
		a := &j.aircraft[i]
		if a.pilot = nil; arm {
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

// endArmOrders notes that the crew ended all orders to take off.
func (j *judge) endArmOrders(nowS []float64) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	for i := range j.aircraft {
		j.aircraft[i].armOrder.endS = min(j.aircraft[i].armOrder.endS, nowS[i])
	}
}

// noteLeaderReturned notes that the leader runs again, without the messages it missed.
func (j *judge) noteLeaderReturned(i int, nowS float64) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.aircraft[i].leaderReturnedS = nowS
}

// requireStream has the stream to an aircraft go on from a time on.
func (j *judge) requireStream(i int, fromS float64) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.aircraft[i].streamRequiredS = fromS
}

// endStreamRequirement allows the stream to stop again. To an aircraft still under
// command it must not have stopped until then.
func (j *judge) endStreamRequirement(i int, led bool, nowS float64) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	a := &j.aircraft[i]
	if led && a.offboard && a.pilot == nil {
		j.checkGap(i, nowS)
	}
	a.streamRequiredS = math.Inf(1)
}

// checkGap checks the time since the last setpoint.
func (j *judge) checkGap(i int, nowS float64) {
	a := &j.aircraft[i]
	if !(a.setpointS >= max(a.streamRequiredS, a.leaderReturnedS)) {
		return
	}
	if j.isLate(i, a.setpointS, maxSetpointGapS, nowS) {
		j.reportUnsafe("gap", "aircraft %d received no setpoint from %.1f to %.1f s, while only HEARTBEATs were lost", i+1, a.setpointS, nowS)
	}
}

// String is where an aircraft is and what it was commanded.
func (a *observedAircraft) String() string {
	p, v := a.body.Position, a.body.Velocity
	return fmt.Sprintf("one at (%.1f, %.1f, %.1f) m flies (%.1f, %.1f, %.1f) m/s, offboard %v, commanded by (%.1f, %.1f) m in a second at %.1f s, under pilot control %v",
		p.EastM, p.NorthM, p.UpM, v.EastM, v.NorthM, v.UpM, a.offboard, a.requested.EastM, a.requested.NorthM, a.setpointS, a.pilot != nil)
}

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
		p.knownS = min(p.knownS, h.TimeS)
	}
}

// handleMotion handles an aircraft's true motion.
func (j *judge) handleMotion(i int, b autopilot.Body) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	a := &j.aircraft[i]
	a.body, a.inAir = b, b.Position.UpM > 1
	if s := b.SpeedMPS(); s > j.physics.SpeedMaxMPS+0.5 {
		j.reportUnsafe("speed", "aircraft %d flies at %.1f m/s", i+1, s)
	}
	for k := range j.aircraft {
		o := &j.aircraft[k]
		if k == i || !a.inAir || !o.inAir || math.Abs(b.Position.UpM-o.body.Position.UpM) > j.physics.SeparationM {
			continue
		}
		d := b.Position.Sub(o.body.Position).HorizontalM()
		j.minSeparationM = min(j.minSeparationM, d)
		if d < j.physics.SeparationM-fenceSlackM && (a.offboard || o.offboard) {
			j.reportUnsafe("separation", "aircraft %d and %d are %.1f m apart: %s, %s", i+1, k+1, d, a, o)
		}
	}
}

// handleReceived checks a setpoint or command that a vehicle received.
func (j *judge) handleReceived(i int, r autopilot.Received) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	a := &j.aircraft[i]
	piloted := func() bool { return a.pilot != nil && j.isLate(i, max(a.pilot.knownS, a.leaderReturnedS), 0, r.TimeS) }
	if r.Setpoint == nil {
		if r.Command == common.MAV_CMD_COMPONENT_ARM_DISARM && r.Param[0] == 1 {
			j.checkArm(i, r.TimeS)
		}
		switch r.Command {
		case common.MAV_CMD_COMPONENT_ARM_DISARM, common.MAV_CMD_DO_SET_MODE, common.MAV_CMD_NAV_TAKEOFF,
			common.MAV_CMD_NAV_LAND, common.MAV_CMD_NAV_RETURN_TO_LAUNCH:
			if piloted() {
				j.reportUnsafe("pilot", "aircraft %d is under pilot control since %.1f s, known at %.1f s, and receives command %d %v in %s at %.1f s",
					i+1, a.pilot.sinceS, a.pilot.knownS, r.Command, r.Param[:3], r.Mode, r.TimeS)
			}
		}
		return
	}
	a.armOrder.streamed = true
	if piloted() {
		j.reportUnsafe("pilot", "aircraft %d is under pilot control since %.1f s, known at %.1f s, and receives a setpoint in %s at %.1f s",
			i+1, a.pilot.sinceS, a.pilot.knownS, r.Mode, r.TimeS)
	}
	if !r.Armed && r.Landed && a.disarmedSinceS >= 0 && j.isLate(i, max(a.disarmedSinceS, a.leaderReturnedS), 0, r.TimeS) {
		j.reportUnsafe("ground", "aircraft %d is on the ground with its motors off, known at %.1f s, and receives a setpoint at %.1f s", i+1, a.disarmedSinceS, r.TimeS)
	}
	if a.heartbeatS >= 0 && j.isLate(i, max(a.heartbeatS, a.leaderReturnedS), heartbeatTimeoutS, r.TimeS) {
		j.reportUnsafe("no heartbeat", "aircraft %d sent no HEARTBEAT since %.1f s, and receives a setpoint at %.1f s", i+1, a.heartbeatS, r.TimeS)
	}
	if a.offboard && r.Mode == autopilot.ModeOffboard && a.pilot == nil {
		j.checkGap(i, r.TimeS)
	}
	j.checkSetpoint(i, r)
}

// checkArm checks a command to arm: it is allowed once the crew ordered a take-off, for
// a while, and not after the motors ran and were stopped.
func (j *judge) checkArm(i int, nowS float64) {
	o := &j.aircraft[i].armOrder
	switch {
	case !o.open:
		j.reportUnsafe("arm", "aircraft %d is to arm at %.1f s, without an order", i+1, nowS)
	case j.isLate(i, max(o.endS, j.aircraft[i].leaderReturnedS), 0, nowS):
		j.reportUnsafe("arm", "aircraft %d is to arm at %.1f s, after the crew ended its order at %.1f s", i+1, nowS, o.endS)
	case j.isLate(i, max(o.disarmedS, j.aircraft[i].leaderReturnedS), 0, nowS):
		j.reportUnsafe("arm", "aircraft %d is to arm again at %.1f s, and was disarmed at %.1f s", i+1, nowS, o.disarmedS)
	case j.isLate(i, o.firstArmS, armTimeoutS, nowS):
		j.reportUnsafe("arm", "aircraft %d is to arm at %.1f s, first at %.1f s, and the order holds for %d s", i+1, nowS, o.firstArmS, armTimeoutS)
	}
	o.firstArmS = min(o.firstArmS, nowS)
}

func (j *judge) checkSetpoint(i int, r autopilot.Received) {
	a, p, v := &j.aircraft[i], r.Setpoint.Position, r.Setpoint.Velocity
	if !a.offboard {
		a.offboardSinceS = r.TimeS
	}
	a.offboard = r.Mode == autopilot.ModeOffboard
	vmax := j.physics.SpeedMaxMPS
	for _, x := range []float64{p.EastM, p.NorthM, p.UpM, v.EastM, v.NorthM} {
		if math.IsNaN(x) {
			j.reportUnsafe("incomplete", "aircraft %d receives %+v", i+1, *r.Setpoint)
			return
		}
	}
	if s := v.HorizontalM(); s > vmax+speedSlackMPS {
		j.reportUnsafe("speed", "aircraft %d is commanded to %.2f m/s", i+1, s)
	}
	if side := j.physics.AreaSideM; p.EastM < -fenceSlackM || p.EastM > side+fenceSlackM || p.NorthM < -fenceSlackM || p.NorthM > side+fenceSlackM {
		j.reportUnsafe("fence", "aircraft %d is sent to (%.1f, %.1f)", i+1, p.EastM, p.NorthM)
	}
	if math.Abs(p.UpM-j.physics.AltitudeM) > altitudeBandM {
		j.reportUnsafe("altitude", "aircraft %d is sent to %.1f m", i+1, p.UpM)
	}
	// A leg is for one slot: with the same target and feed-forward for longer than their
	// time to live the leader no longer decides. On the way to a point the target moves
	// with the aircraft.
	if v != a.velocity || p != a.target || r.TimeS-a.setpointS > 0.5 {
		a.targetSinceS = r.TimeS
	}
	if v.HorizontalM() > 0.01 && j.isLate(i, a.targetSinceS, setpointTTLS, r.TimeS) {
		j.reportUnsafe("stale", "aircraft %d is commanded to the same velocity for %.1f s", i+1, r.TimeS-a.targetSinceS)
	}
	a.velocity, a.target, a.setpointS = v, p, r.TimeS
	a.requested = p.Sub(r.Position).Add(v)
	if s := a.requested.HorizontalM(); s > vmax*(1+j.latencyS) && !j.excuseDelay(i, r.TimeS-setpointTTLS, s/vmax-1-j.latencyS) {
		j.reportUnsafe("speed", "aircraft %d is to be %.1f m away in a second", i+1, s)
	}
	j.checkSeparation(i, r)
}

// checkSeparation checks the separation of the commanded paths in the next second. The
// setpoints of one tick arrive one after the other, so that for a moment a new leg meets
// another aircraft's old one: only a conflict that lasts beyond the next tick counts.
func (j *judge) checkSeparation(i int, r autopilot.Received) {
	a := &j.aircraft[i]
	for k := range j.aircraft {
		o := &j.aircraft[k]
		if k == i || !o.inAir || math.Abs(r.Position.UpM-o.body.Position.UpM) > j.physics.SeparationM {
			continue
		}
		otherVelocity := o.body.Velocity
		if r.TimeS-o.setpointS < 0.5 && o.offboard {
			otherVelocity = o.requested
		}
		apart, closing := r.Position.Sub(o.body.Position), a.requested.Sub(otherVelocity)
		d := closestApproachM(apart, closing)
		if d >= j.physics.SeparationM-fenceSlackM-j.latencyS*closing.HorizontalM() {
			a.conflictSinceS = math.Inf(1)
			continue
		}
		a.conflictSinceS = min(a.conflictSinceS, r.TimeS)
		if lasts := r.TimeS - a.conflictSinceS - 1.5*setpointPeriodS; lasts > 0 && !j.excuseDelay(i, r.TimeS-setpointTTLS, min(lasts, (j.physics.SeparationM-fenceSlackM-d)/closing.HorizontalM()-j.latencyS)) {
			j.reportUnsafe("separation", "aircraft %d and %d, %.1f m apart, are commanded to close in at %.1f m/s and come within %.1f m (commanded to %.1f and %.1f m/s, fly at %.1f and %.1f, in %s) at %.1f s",
				i+1, k+1, apart.HorizontalM(), closing.HorizontalM(), d, a.requested.HorizontalM(), otherVelocity.HorizontalM(), r.SpeedMPS(), o.body.SpeedMPS(), r.Mode, r.TimeS)
		}
	}
}

// closestApproachM is the least horizontal distance in the next second of two aircraft
// that are apart and close in at a velocity; +Inf if they move apart.
func closestApproachM(apart, closing geo.Local) float64 {
	dot := apart.EastM*closing.EastM + apart.NorthM*closing.NorthM
	if dot >= 0 {
		return math.Inf(1)
	}
	vv := closing.EastM*closing.EastM + closing.NorthM*closing.NorthM
	return apart.Add(closing.Scale(min(-dot/vv, 1))).HorizontalM()
}

// verdict returns how many setpoints and commands were unsafe, and the first.
func (j *judge) verdict() (count int, first string) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.unsafe, j.firstUnsafe
}
