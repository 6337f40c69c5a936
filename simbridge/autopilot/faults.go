package autopilot

import (
	"math"
	"time"

	"prefdt/simbridge/battery"
	"prefdt/simbridge/geo"
)

// Faults and pilot actions that the simulator injects. Times are mission seconds.

// TimeS is the vehicle's mission time, as in [Received].
func (a *Autopilot) TimeS() (seconds float64) {
	a.withVehicle(func(v *vehicle) { seconds = v.timeS() })
	return seconds
}

func (v *vehicle) timeS() float64 { return float64(v.timeUS) / 1e6 }

// WallTime is the wall time at which the vehicle is due at a mission time.
func (a *Autopilot) WallTime(timeS float64) time.Time {
	return a.startedAt.Add(time.Duration(timeS / a.Speed * float64(time.Second)))
}

// CutLinks cuts the links for a while: nothing is sent and nothing received.
func (a *Autopilot) CutLinks(seconds float64) {
	a.withVehicle(func(v *vehicle) { v.cutLinks(seconds) })
}

// bootS is how long PX4 sends nothing while it boots.
const bootS = 5

// Reboot restarts the flight stack. On the ground, and in the air without inAir, the
// vehicle is disarmed afterwards: in the air it falls to the ground. With inAir it is
// armed in Hold afterwards, as PX4 is if it detects that it flies. Counters and time
// since boot restart at 0; no setpoint or mode is kept.
func (a *Autopilot) Reboot(inAir bool) {
	a.withVehicle(func(v *vehicle) { v.reboot(inAir) })
}

// RebootQuickly is Reboot in the air by a watchdog, in less than a second: the first HEARTBEAT comes sooner than a position.
func (a *Autopilot) RebootQuickly() {
	const silentUS, noPositionUS = 800_000, 1_800_000
	a.withVehicle(func(v *vehicle) {
		v.reboot(true)
		v.linksCutUntilUS, v.positionFromUS = v.timeUS+silentUS, v.timeUS+noPositionUS
	})
}

func (v *vehicle) reboot(inAir bool) {
	v.bootUS = v.timeUS
	v.setpoint, v.setpointUS, v.takeoffUpM = Setpoint{}, 0, math.NaN()
	v.intendedMode, v.mode, v.modeAfterDisarm, v.holdPosition, v.piloted, v.batteryFailsafe = ModeHold, ModeHold, ModeHold, v.body.Position,
		false, lowBatteryFailsafe{}
	if !inAir {
		v.armed = false
	}
	v.battery.ResetCounters()
	v.streams = defaultStreams(v.conf.Speed)
	if v.conf.Copter {
		v.battery.TakeForFull()
		v.intendedMode, v.mode, v.copterFailsafe, v.gcsHeartbeatUS = ModeStabilize, ModeStabilize, copterFailsafe{}, 0
		v.streams.onlyHeartbeat()
	}
	v.cutLinks(bootS)
}

// SetModeByRC sets a mode by remote control. In Position the aircraft then stays where
// it is, as with the sticks centred, until FlyByRC moves them.
func (a *Autopilot) SetModeByRC(m Mode) {
	a.withVehicle(func(v *vehicle) {
		v.setIntendedMode(m)
		v.piloted, v.pilotVelocity = true, geo.Local{}
	})
}

// FlyByRC has the pilot fly at a velocity in Position.
func (a *Autopilot) FlyByRC(velocity geo.Local) {
	a.withVehicle(func(v *vehicle) { v.pilotVelocity = velocity })
}

// SetParameter changes a parameter, as a ground station does, whose answer all hear, and reports whether there
// is one of that name that may have the value.
func (a *Autopilot) SetParameter(name string, x float64) (ok bool) {
	a.withVehicle(func(v *vehicle) {
		if ok = v.params.set(name, x); ok {
			v.answers = append(v.answers, v.namedParameter(v.params.index(name))...)
		}
	})
	return ok
}

// SayPlane has the vehicle say that it is a plane, as one with another airframe chosen, or that it is a copter again.
func (a *Autopilot) SayPlane(plane bool) { a.withVehicle(func(v *vehicle) { v.plane = plane }) }

// Carry carries the aircraft to a place on the ground, with its motors off.
func (a *Autopilot) Carry(to geo.Local) {
	a.withVehicle(func(v *vehicle) {
		if to.UpM = v.body.Position.UpM; v.groundContact && !v.armed {
			v.body.Position, v.holdPosition = to, to
		}
	})
}

// JumpHeight has the height that it measures, and flies by, jump to so much more than it was without a jump, as an estimator's does
// that takes another source. Its climb rate shows nothing of it.
func (a *Autopilot) JumpHeight(m float64) { a.withVehicle(func(v *vehicle) { v.jumpM = m }) }

// DisarmByRC is the pilot's kill switch: the motors stop, in the air too.
func (a *Autopilot) DisarmByRC() {
	a.withVehicle(func(v *vehicle) {
		if v.armed {
			v.disarm("Disarmed by RC")
		}
	})
}

// DenyArming makes the pre-arm checks fail with a reason; "" makes them pass again.
func (a *Autopilot) DenyArming(reason string) {
	a.withVehicle(func(v *vehicle) { v.armingDenial = reason })
}

// RefuseArming makes arming fail with a reason although the pre-arm checks pass; ""
// permits it again.
func (a *Autopilot) RefuseArming(reason string) {
	a.withVehicle(func(v *vehicle) { v.armingRefusal = reason })
}

// PauseHeartbeats suppresses the periodic HEARTBEATs for a while. A requested one is
// sent.
func (a *Autopilot) PauseHeartbeats(seconds float64) {
	a.withVehicle(func(v *vehicle) {
		v.heartbeatsPausedUntilUS = max(v.heartbeatsPausedUntilUS, v.timeUS+int64(seconds*1e6))
	})
}

// IgnoreStation has no HEARTBEAT of a ground station count for a while, as where one that keeps an
// ArduCopter from its failsafe is lost. All else passes.
func (a *Autopilot) IgnoreStation(seconds float64) {
	a.withVehicle(func(v *vehicle) { v.stationIgnoredUntilUS = v.timeUS + int64(seconds*1e6) })
}

// DelayParameters has no request of a parameter be answered for a while, as while another station has all of them sent.
func (a *Autopilot) DelayParameters(seconds float64) {
	a.withVehicle(func(v *vehicle) { v.parametersBusyUntilUS = v.timeUS + int64(seconds*1e6) })
}

// Oddities are what an autopilot does otherwise than others.
type Oddities struct {
	Refuses     []Mode // commands to these modes
	StaysArmed  bool   // after a landing
	TellsLanded bool   // its land detector says that it is on the ground
}

// SetOddities replaces those that it has.
func (a *Autopilot) SetOddities(o Oddities) { a.withVehicle(func(v *vehicle) { v.odd = o }) }

// GuideByStation has another station fly an ArduCopter in GUIDED at a velocity, over its failsafes, until it is called with none.
func (a *Autopilot) GuideByStation(velocity *geo.Local) {
	a.withVehicle(func(v *vehicle) {
		if v.guided = velocity; velocity != nil {
			v.setIntendedMode(ModeOffboard)
		}
	})
}

// followStation is the other station's setpoint, if it flies the vehicle.
func (v *vehicle) followStation() {
	if v.guided != nil {
		v.setpoint = Setpoint{Position: notGiven, Velocity: *v.guided}
		v.setpoint.Position.UpM, v.setpointUS = v.body.Position.UpM, v.timeUS
	}
}

// ChangeBattery calls change with the battery.
func (a *Autopilot) ChangeBattery(change func(*battery.Battery)) {
	a.withVehicle(func(v *vehicle) { change(&v.battery) })
}

func (v *vehicle) cutLinks(seconds float64) {
	v.linksCutUntilUS = max(v.linksCutUntilUS, v.timeUS+int64(seconds*1e6))
}

func (v *vehicle) linksCut() bool { return v.timeUS < v.linksCutUntilUS }

// Buffer has what the vehicle sends by UDP wait in its link, as in a modem's buffer, or
// sends what waited, in order.
func (a *Autopilot) Buffer(on bool) { a.link.buffer(on) }
