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

// judge looks at what the autopilots receive, and at nothing else of the
// leader's. Times are mission seconds of the vehicle that received it.
//
// What is late is late by the contract: latentS is a setpoint's period and 10 ms
// of wall time for the links and the leader's own work. A pilot's act counts
// from the first HEARTBEAT in time that showed it. Where that is passed, and
// only there, what the machine itself was measured to have held up is added.
type judge struct {
	physics physics.Constants
	altM    float64 // H
	latentS float64
	// hostDelayS returns how long the machine held programs up between two moments of
	// a vehicle's time, in mission seconds.
	hostDelayS func(aircraft int, fromS, toS float64) float64

	mutex          sync.Mutex
	aircraft       []observedAircraft
	unsafe         map[string]int // by what was wrong
	firstUnsafe    string         // the first of them, in full
	minSeparationM float64        // horizontal, in the air
	excused        int            // late, but not by more than was measured
	maxExcusedS    float64        // the longest of them
}

// observedAircraft is what an aircraft was told last.
type observedAircraft struct {
	body           autopilot.Body
	inAir          bool
	offboard       bool // flies by setpoints
	setpointS      float64
	requested      geo.Local // metres in the coming second
	velocity       geo.Local // of the setpoint
	target         geo.Local
	targetSinceS   float64 // it has been this one
	conflictSinceS float64 // asked for what would come too close since; +Inf not

	pilot           *pilotAct // a pilot's, or rebooted: nobody may touch it; nil: the leader's
	heartbeatS      float64   // the last HEARTBEAT in time; -1 before
	disarmedSinceS  float64   // the first of those in a row that said disarmed; -1: the last one did not
	leaderReturnedS float64   // the leader came back, knowing nothing
	streamRequiredS float64   // since then the stream must not stop, whatever HEARTBEATs do; +Inf: it may
	armOrder        armOrder
}

// pilotAct is what somebody other than the leader did to an aircraft.
type pilotAct struct {
	sinceS  float64
	shownBy func(autopilot.Heartbeat) bool // whether a HEARTBEAT tells of it
	knownS  float64                        // one did; +Inf: none yet
}

// armOrder is the crew's to take off.
type armOrder struct {
	open      bool
	firstArmS float64 // arming was asked for; +Inf: not yet
	armed     bool    // a HEARTBEAT said so
	disarmedS float64 // and a later one that it is not any more; +Inf: none
	endS      float64 // the crew ended it; +Inf: it did not
}

const (
	speedSlackMPS     = 0.05
	fenceSlackM       = 0.5
	altitudeBandM     = 20
	setpointTTLS      = 2   // time to live
	setpointPeriodS   = 0.1 // between setpoints
	armTimeoutS       = 10  // arming is asked for, for each order
	heartbeatTimeoutS = 10  // setpoints go on without a HEARTBEAT
	failsafeGraceS    = 4   // after a restart, in which a Hold may be the failsafe's of the stream before
	maxSetpointGapS   = 1   // between setpoints, at most, while positions go on
)

func newJudge(p physics.Constants, aircraft int, speed float64) *judge {
	j := &judge{
		physics: p, altM: p.AltitudeM, latentS: 0.1 + 0.01*speed, unsafe: map[string]int{}, minSeparationM: math.Inf(1),
		hostDelayS: func(int, float64, float64) float64 { return 0 },
	}
	j.aircraft = make([]observedAircraft, aircraft)
	for i := range j.aircraft {
		j.aircraft[i] = observedAircraft{conflictSinceS: math.Inf(1), heartbeatS: -1, disarmedSinceS: -1, streamRequiredS: math.Inf(1), setpointS: math.Inf(-1)}
	}
	return j
}

func (j *judge) reportUnsafe(what string, format string, args ...any) {
	if j.unsafe[what] == 0 && j.firstUnsafe == "" {
		j.firstUnsafe = what + ": " + fmt.Sprintf(format, args...)
	}
	j.unsafe[what]++
}

// isLate tells whether a moment is past what is allowed after another one, with
// what the machine held up in between.
func (j *judge) isLate(i int, fromS, allowedS, nowS float64) bool {
	by := nowS - fromS - allowedS - j.latentS
	if !(by > 0) {
		return false
	}
	if by > j.hostDelayS(i, fromS, nowS) {
		return true
	}
	j.excused++
	j.maxExcusedS = max(j.maxExcusedS, by)
	return false
}

// pilotTookOver says that from now on an aircraft is its pilot's. A HEARTBEAT that shows
// it tells the leader.
func (j *judge) pilotTookOver(i int, nowS float64, shows func(autopilot.Heartbeat) bool) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.aircraft[i].pilot = &pilotAct{sinceS: nowS, shownBy: shows, knownS: math.Inf(1)}
}

// isPilots tells whether an aircraft is its pilot's.
func (j *judge) isPilots(i int) bool {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.aircraft[i].pilot != nil
}

// streaming tells whether an aircraft receives setpoints, and of a leader that
// did not return just now.
func (j *judge) streaming(i int, nowS float64) bool {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	c := &j.aircraft[i]
	return nowS-c.setpointS < 3*setpointPeriodS && nowS-c.leaderReturnedS > failsafeGraceS
}

// knownArmed tells whether a HEARTBEAT said that an aircraft armed as ordered.
func (j *judge) knownArmed(i int) bool {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.aircraft[i].armOrder.armed
}

// handToLeader says that the crew gave aircraft to the leader: with arm, on the ground,
// to take off. What it returns takes that back, for an order that was refused.
func (j *judge) handToLeader(numbers []int, arm bool) (undo func()) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	before := slices.Clone(j.aircraft)
	for _, i := range numbers {
		c := &j.aircraft[i]
		if c.pilot = nil; arm {
			c.armOrder = armOrder{open: true, firstArmS: math.Inf(1), disarmedS: math.Inf(1), endS: math.Inf(1)}
		}
	}
	return func() {
		j.mutex.Lock()
		defer j.mutex.Unlock()
		for _, i := range numbers {
			if c := &j.aircraft[i]; c.pilot == nil {
				c.pilot = before[i].pilot
			}
			if arm {
				j.aircraft[i].armOrder = before[i].armOrder
			}
		}
	}
}

// endArmOrders says that the crew wants nobody to take off any more.
func (j *judge) endArmOrders(nowS []float64) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	for i := range j.aircraft {
		j.aircraft[i].armOrder.endS = min(j.aircraft[i].armOrder.endS, nowS[i])
	}
}

// noteLeaderReturned says that the leader runs again: what it missed it does not know.
func (j *judge) noteLeaderReturned(i int, nowS float64) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.aircraft[i].leaderReturnedS = nowS
}

// requireStream says that from a time on the stream to an aircraft must not stop.
func (j *judge) requireStream(i int, fromS float64) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.aircraft[i].streamRequiredS = fromS
}

// endStreamRequirement says that the stream may stop again. One that is still led must not
// have until then.
func (j *judge) endStreamRequirement(i int, led bool, nowS float64) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	c := &j.aircraft[i]
	if led && c.offboard && c.pilot == nil {
		j.checkGap(i, nowS)
	}
	c.streamRequiredS = math.Inf(1)
}

// checkGap judges the time since the last setpoint.
func (j *judge) checkGap(i int, nowS float64) {
	c := &j.aircraft[i]
	if !(c.setpointS >= max(c.streamRequiredS, c.leaderReturnedS)) {
		return
	}
	if j.isLate(i, c.setpointS, maxSetpointGapS, nowS) {
		j.reportUnsafe("gap", "aircraft %d got no setpoint from %.1f to %.1f s, while positions went on and HEARTBEATs were lost", i+1, c.setpointS, nowS)
	}
}

// String is where an aircraft is and what it was asked for.
func (c *observedAircraft) String() string {
	p, v := c.body.Position, c.body.Velocity
	return fmt.Sprintf("one at (%.1f, %.1f, %.1f) m flies (%.1f, %.1f, %.1f) m/s, by setpoints %v, asked for (%.1f, %.1f) m in a second at %.1f s, its pilot's %v",
		p.EastM, p.NorthM, p.UpM, v.EastM, v.NorthM, v.UpM, c.offboard, c.requested.EastM, c.requested.NorthM, c.setpointS, c.pilot != nil)
}

// handleHeartbeat takes a HEARTBEAT in that left in time.
func (j *judge) handleHeartbeat(i int, h autopilot.Heartbeat) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	c := &j.aircraft[i]
	c.heartbeatS = h.TimeS
	switch {
	case h.Armed:
		c.disarmedSinceS, c.armOrder.armed = -1, true
	case c.disarmedSinceS < 0:
		c.disarmedSinceS = h.TimeS
	}
	if c.armOrder.open && c.armOrder.armed && !h.Armed {
		c.armOrder.disarmedS = min(c.armOrder.disarmedS, h.TimeS)
	}
	if p := c.pilot; p != nil && h.TimeS >= p.sinceS && p.shownBy(h) {
		p.knownS = min(p.knownS, h.TimeS)
	}
}

// handleMotion takes an aircraft's true motion in.
func (j *judge) handleMotion(i int, b autopilot.Body) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	c := &j.aircraft[i]
	c.body, c.inAir = b, b.Position.UpM > 1
	if s := b.SpeedMPS(); s > j.physics.SpeedMaxMPS+0.5 {
		j.reportUnsafe("speed", "aircraft %d flies at %.1f m/s", i+1, s)
	}
	for k := range j.aircraft {
		o := &j.aircraft[k]
		if k == i || !c.inAir || !o.inAir || math.Abs(b.Position.UpM-o.body.Position.UpM) > j.physics.SeparationM {
			continue
		}
		d := b.Position.Sub(o.body.Position).HorizontalM()
		j.minSeparationM = min(j.minSeparationM, d)
		if d < j.physics.SeparationM-fenceSlackM && (c.offboard || o.offboard) {
			j.reportUnsafe("separation", "aircraft %d and %d are %.1f m apart: %s, %s", i+1, k+1, d, c, o)
		}
	}
}

// handleReceived takes a setpoint or command in, as the vehicle received it.
func (j *judge) handleReceived(i int, h autopilot.Received) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	c := &j.aircraft[i]
	taken := func() bool { return c.pilot != nil && j.isLate(i, max(c.pilot.knownS, c.leaderReturnedS), 0, h.TimeS) }
	if h.Setpoint == nil {
		if h.Command == common.MAV_CMD_COMPONENT_ARM_DISARM && h.Param[0] == 1 {
			j.checkArm(i, h.TimeS)
		}
		switch h.Command {
		case common.MAV_CMD_COMPONENT_ARM_DISARM, common.MAV_CMD_DO_SET_MODE, common.MAV_CMD_NAV_TAKEOFF,
			common.MAV_CMD_NAV_LAND, common.MAV_CMD_NAV_RETURN_TO_LAUNCH:
			if taken() {
				j.reportUnsafe("pilot", "aircraft %d is not ours since %.1f s, as was known at %.1f s, and gets command %d %v in %s at %.1f s",
					i+1, c.pilot.sinceS, c.pilot.knownS, h.Command, h.Param[:3], h.Mode, h.TimeS)
			}
		}
		return
	}
	if taken() {
		j.reportUnsafe("pilot", "aircraft %d is not ours since %.1f s, as was known at %.1f s, and gets a setpoint in %s at %.1f s",
			i+1, c.pilot.sinceS, c.pilot.knownS, h.Mode, h.TimeS)
	}
	if !h.Armed && h.Landed && c.disarmedSinceS >= 0 && j.isLate(i, max(c.disarmedSinceS, c.leaderReturnedS), 0, h.TimeS) {
		j.reportUnsafe("ground", "aircraft %d stands with its motors off, as was known at %.1f s, and gets a setpoint at %.1f s", i+1, c.disarmedSinceS, h.TimeS)
	}
	if c.heartbeatS >= 0 && j.isLate(i, max(c.heartbeatS, c.leaderReturnedS), heartbeatTimeoutS, h.TimeS) {
		j.reportUnsafe("deaf", "aircraft %d sent no HEARTBEAT since %.1f s, and gets a setpoint at %.1f s", i+1, c.heartbeatS, h.TimeS)
	}
	if c.offboard && h.Mode == autopilot.ModeOffboard && c.pilot == nil {
		j.checkGap(i, h.TimeS)
	}
	j.checkSetpoint(i, h)
}

// checkArm judges that arming is asked for: once the crew ordered it, for a while,
// and not after the motors ran and were stopped.
func (j *judge) checkArm(i int, nowS float64) {
	o := &j.aircraft[i].armOrder
	switch {
	case !o.open:
		j.reportUnsafe("arm", "aircraft %d is to arm at %.1f s, which nobody ordered", i+1, nowS)
	case j.isLate(i, max(o.endS, j.aircraft[i].leaderReturnedS), 0, nowS):
		j.reportUnsafe("arm", "aircraft %d is to arm at %.1f s, after the crew ended its order at %.1f s", i+1, nowS, o.endS)
	case j.isLate(i, max(o.disarmedS, j.aircraft[i].leaderReturnedS), 0, nowS):
		j.reportUnsafe("arm", "aircraft %d is to arm again at %.1f s, and was disarmed at %.1f s", i+1, nowS, o.disarmedS)
	case j.isLate(i, o.firstArmS, armTimeoutS, nowS):
		j.reportUnsafe("arm", "aircraft %d is to arm at %.1f s, first at %.1f s, and the order holds for %d s", i+1, nowS, o.firstArmS, armTimeoutS)
	}
	o.firstArmS = min(o.firstArmS, nowS)
}

func (j *judge) checkSetpoint(i int, h autopilot.Received) {
	c, p, v := &j.aircraft[i], h.Setpoint.Position, h.Setpoint.Velocity
	c.offboard = h.Mode == autopilot.ModeOffboard
	vmax := j.physics.SpeedMaxMPS
	for _, x := range []float64{p.EastM, p.NorthM, p.UpM, v.EastM, v.NorthM} {
		if math.IsNaN(x) {
			j.reportUnsafe("incomplete", "aircraft %d gets %+v", i+1, *h.Setpoint)
			return
		}
	}
	if s := v.HorizontalM(); s > vmax+speedSlackMPS {
		j.reportUnsafe("speed", "aircraft %d is asked for %.2f m/s", i+1, s)
	}
	if a := j.physics.AreaSideM; p.EastM < -fenceSlackM || p.EastM > a+fenceSlackM || p.NorthM < -fenceSlackM || p.NorthM > a+fenceSlackM {
		j.reportUnsafe("fence", "aircraft %d is sent to (%.1f, %.1f)", i+1, p.EastM, p.NorthM)
	}
	if math.Abs(p.UpM-j.altM) > altitudeBandM {
		j.reportUnsafe("altitude", "aircraft %d is sent to %.1f m", i+1, p.UpM)
	}
	// A leg is one slot's: the same target and feed-forward for longer than its
	// time to live is a leader that no longer decides. On the way to a point the
	// target moves with the aircraft.
	if v != c.velocity || p != c.target || h.TimeS-c.setpointS > 0.5 {
		c.targetSinceS = h.TimeS
	}
	if v.HorizontalM() > 0.01 && j.isLate(i, c.targetSinceS, setpointTTLS, h.TimeS) {
		j.reportUnsafe("stale", "aircraft %d is asked for the same velocity since %.1f s", i+1, h.TimeS-c.targetSinceS)
	}
	c.velocity, c.target, c.setpointS = v, p, h.TimeS
	c.requested = p.Sub(h.Position).Add(v)
	if s := c.requested.HorizontalM(); s > vmax*(1+j.latentS) && !j.excuseDelay(i, h.TimeS, s/vmax-1-j.latentS) {
		j.reportUnsafe("speed", "aircraft %d is to be %.1f m away in a second", i+1, s)
	}
	j.checkSeparation(i, h)
}

// excuseDelay tells whether the machine held up, in the last two seconds, what a
// setpoint would have to have been late by. That long a decision is followed.
func (j *judge) excuseDelay(i int, nowS, byS float64) bool {
	if byS > j.hostDelayS(i, nowS-setpointTTLS, nowS) {
		return false
	}
	j.excused++
	j.maxExcusedS = max(j.maxExcusedS, byS)
	return true
}

// checkSeparation looks where an aircraft and the others are asked to be in the coming
// second. The setpoints of one tick arrive one after the other, so that a new
// leg is seen beside another's old one for a moment: what counts is what lasts
// beyond the next tick.
func (j *judge) checkSeparation(i int, h autopilot.Received) {
	c := &j.aircraft[i]
	for k := range j.aircraft {
		o := &j.aircraft[k]
		if k == i || !o.inAir || math.Abs(h.Position.UpM-o.body.Position.UpM) > j.physics.SeparationM {
			continue
		}
		theirs := o.body.Velocity
		if h.TimeS-o.setpointS < 0.5 && o.offboard {
			theirs = o.requested
		}
		apart, closing := h.Position.Sub(o.body.Position), c.requested.Sub(theirs)
		d := closestApproachM(apart, closing)
		if d >= j.physics.SeparationM-fenceSlackM-j.latentS*closing.HorizontalM() {
			c.conflictSinceS = math.Inf(1)
			continue
		}
		c.conflictSinceS = min(c.conflictSinceS, h.TimeS)
		if lasts := h.TimeS - c.conflictSinceS - 1.5*setpointPeriodS; lasts > 0 && !j.excuseDelay(i, h.TimeS, min(lasts, (j.physics.SeparationM-fenceSlackM-d)/closing.HorizontalM()-j.latentS)) {
			j.reportUnsafe("separation", "aircraft %d and %d, %.1f m apart, are to close in at %.1f m/s and come within %.1f m (asked for %.1f and %.1f m/s, fly at %.1f and %.1f, in %s) at %.1f s",
				i+1, k+1, apart.HorizontalM(), closing.HorizontalM(), d, c.requested.HorizontalM(), theirs.HorizontalM(), h.SpeedMPS(), o.body.SpeedMPS(), h.Mode, h.TimeS)
		}
	}
}

// closestApproachM is the least horizontal distance in the coming second of two that are
// apart and close in at a velocity. Those that part are as far as they are.
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
	for _, n := range j.unsafe {
		count += n
	}
	return count, j.firstUnsafe
}
