package chaos

import (
	"math"
	"strings"
	"testing"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/inference/physics"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/geo"
)

// offboardSetpoint is a setpoint that commands a velocity at the aircraft's position.
func offboardSetpoint(at geo.Local, east, north, timeS float64) autopilot.Received {
	return autopilot.Received{
		Setpoint: &autopilot.Setpoint{Position: at, Velocity: geo.Local{EastM: east, NorthM: north}},
		Body:     autopilot.Body{Position: at}, Mode: autopilot.ModeOffboard, Armed: true, TimeS: timeS,
	}
}

// Every rule is broken once, and kept once.
func TestJudge(t *testing.T) {
	middle, near := geo.Local{EastM: 500, NorthM: 500, UpM: 100}, geo.Local{EastM: 515, NorthM: 500, UpM: 100}
	for name, c := range map[string]struct {
		do   func(*judge)
		want string
	}{
		"a good leg": {func(j *judge) { j.handleReceived(0, offboardSetpoint(middle, 8, 0, 10)) }, ""},
		"a fast leg": {func(j *judge) { j.handleReceived(0, offboardSetpoint(middle, 30.2, 0, 10)) }, "speed"},
		"a far target": {func(j *judge) {
			h := offboardSetpoint(middle, 8, 0, 10)
			h.Setpoint.Position.NorthM += 60
			j.handleReceived(0, h)
		}, "speed"},
		"a fast flight": {func(j *judge) { j.handleMotion(0, autopilot.Body{Position: middle, Velocity: geo.Local{EastM: 31}}) }, "speed"},
		"outside": {func(j *judge) {
			j.handleReceived(0, offboardSetpoint(geo.Local{EastM: -1, NorthM: 5, UpM: 100}, 0, 0, 10))
		}, "fence"},
		"too low": {func(j *judge) {
			j.handleReceived(0, offboardSetpoint(geo.Local{EastM: 5, NorthM: 5, UpM: 79}, 0, 0, 10))
		}, "altitude"},
		"not a number": {func(j *judge) { j.handleReceived(0, offboardSetpoint(middle, math.NaN(), 0, 10)) }, "incomplete"},
		"each second slot another leg": {func(j *judge) {
			for i := range 80 {
				j.handleReceived(0, offboardSetpoint(middle, 8, float64(i/20), 10+float64(i)/10))
			}
		}, ""},
		"the same leg for four slots": {func(j *judge) {
			for i := range 40 {
				j.handleReceived(0, offboardSetpoint(middle, 8, 0, 10+float64(i)/10))
			}
		}, "stale"},
		"a long hold": {func(j *judge) {
			for i := range 80 {
				j.handleReceived(0, offboardSetpoint(middle, 0, 0, 10+float64(i)/10))
			}
		}, ""},
		"side by side": {func(j *judge) {
			j.handleMotion(1, autopilot.Body{Position: near})
			j.handleReceived(0, offboardSetpoint(middle, 0, 8, 10))
		}, ""},
		"towards another": {func(j *judge) {
			j.handleMotion(1, autopilot.Body{Position: near})
			j.handleReceived(0, offboardSetpoint(middle, 12, 0, 10))
			j.handleReceived(0, offboardSetpoint(middle, 12, 0, 10.1))
			j.handleReceived(0, offboardSetpoint(middle, 12, 0, 10.2))
		}, "separation"},
		"towards one another": {func(j *judge) {
			j.handleMotion(1, autopilot.Body{Position: near})
			for _, s := range []float64{10, 10.1, 10.2} {
				j.handleReceived(1, offboardSetpoint(near, -6, 0, s))
				j.handleReceived(0, offboardSetpoint(middle, 6, 0, s+0.01))
			}
		}, "separation"},
		"behind one that was slower a tick ago": {func(j *judge) {
			j.handleMotion(0, autopilot.Body{Position: middle, Velocity: geo.Local{EastM: 8}})
			j.handleMotion(1, autopilot.Body{Position: near, Velocity: geo.Local{EastM: 8}})
			j.handleReceived(1, offboardSetpoint(near, 2, 0, 9.9))
			j.handleReceived(0, offboardSetpoint(middle, 14, 0, 10))
			j.handleReceived(1, offboardSetpoint(near, 14, 0, 10))
		}, ""},
		"too close": {func(j *judge) {
			j.handleReceived(0, offboardSetpoint(middle, 0, 1, 10))
			j.handleMotion(1, autopilot.Body{Position: geo.Local{EastM: 509, NorthM: 500, UpM: 100}})
			j.handleMotion(0, autopilot.Body{Position: middle})
		}, "separation"},
		"after the pilot, before a HEARTBEAT shows it": {func(j *judge) { pilotTakesPosition(j, 10); j.handleReceived(0, offboardSetpoint(middle, 8, 0, 13)) }, ""},
		"after a HEARTBEAT from before the pilot": {func(j *judge) {
			pilotTakesPosition(j, 10)
			j.handleHeartbeat(0, autopilot.Heartbeat{TimeS: 9.9, Mode: autopilot.ModePosition})
			j.handleReceived(0, offboardSetpoint(middle, 8, 0, 13))
		}, ""},
		"a moment after the pilot was known": {func(j *judge) {
			pilotTakesPosition(j, 10, 10.9)
			j.handleReceived(0, offboardSetpoint(middle, 8, 0, 11.1))
		}, ""},
		"long after the pilot was known": {func(j *judge) {
			pilotTakesPosition(j, 10, 10.9)
			j.handleReceived(0, offboardSetpoint(middle, 8, 0, 11.3))
		}, "pilot"},
		"so, and the machine was held up": {func(j *judge) {
			setHostDelay(j, 0.2)
			pilotTakesPosition(j, 10, 10.9)
			j.handleReceived(0, offboardSetpoint(middle, 8, 0, 11.3))
		}, ""},
		"so, and was held up for less than that": {func(j *judge) {
			setHostDelay(j, 0.05)
			pilotTakesPosition(j, 10, 10.9)
			j.handleReceived(0, offboardSetpoint(middle, 8, 0, 11.3))
		}, "pilot"},
		"a leader that was just restarted": {func(j *judge) {
			pilotTakesPosition(j, 10, 10.9)
			j.noteLeaderReturned(0, 13)
			j.handleReceived(0, offboardSetpoint(middle, 8, 0, 13.1))
		}, ""},
		"OFFBOARD under pilot control": {func(j *judge) {
			pilotTakesPosition(j, 10, 10.9)
			j.handleReceived(0, receivedCommand(common.MAV_CMD_DO_SET_MODE, 13))
		}, "pilot"},
		"a stream under pilot control": {func(j *judge) {
			pilotTakesPosition(j, 10, 10.9)
			j.handleReceived(0, receivedCommand(common.MAV_CMD_SET_MESSAGE_INTERVAL, 13))
		}, ""},
		"returned to the leader": {func(j *judge) {
			pilotTakesPosition(j, 10, 10.9)
			j.returnToLeader([]int{0}, false)
			j.handleReceived(0, offboardSetpoint(middle, 8, 0, 13))
		}, ""},
		"another one returned to the leader": {func(j *judge) {
			pilotTakesPosition(j, 10, 10.9)
			j.returnToLeader([]int{1}, false)
			j.handleReceived(0, offboardSetpoint(middle, 8, 0, 13))
		}, "pilot"},
		"given back, and refused": {func(j *judge) {
			pilotTakesPosition(j, 10, 10.9)
			j.returnToLeader([]int{0}, false)()
			j.handleReceived(0, offboardSetpoint(middle, 8, 0, 13))
		}, "pilot"},
		"on the ground": {func(j *judge) {
			j.handleHeartbeat(0, autopilot.Heartbeat{TimeS: 10})
			h := offboardSetpoint(middle, 0, 0, 10.5)
			h.Armed, h.Landed = false, true
			j.handleReceived(0, h)
		}, "ground"},
		"on the ground, before a HEARTBEAT shows it": {func(j *judge) {
			j.handleHeartbeat(0, autopilot.Heartbeat{TimeS: 10, Armed: true})
			h := offboardSetpoint(middle, 0, 0, 12)
			h.Armed, h.Landed = false, true
			j.handleReceived(0, h)
		}, ""},
		"ten seconds without a HEARTBEAT": {func(j *judge) {
			j.handleHeartbeat(0, autopilot.Heartbeat{TimeS: 10, Armed: true})
			j.handleReceived(0, offboardSetpoint(middle, 0, 0, 20.2))
		}, ""},
		"more than ten": {func(j *judge) {
			j.handleHeartbeat(0, autopilot.Heartbeat{TimeS: 10, Armed: true})
			j.handleReceived(0, offboardSetpoint(middle, 0, 0, 20.4))
		}, "no heartbeat"},
		"a gap in the stream": {func(j *judge) {
			j.handleReceived(0, offboardSetpoint(middle, 0, 0, 10))
			j.handleReceived(0, offboardSetpoint(middle, 0, 0, 13))
		}, ""},
		"a gap while HEARTBEATs are lost": {func(j *judge) {
			j.requireStream(0, 9)
			j.handleReceived(0, offboardSetpoint(middle, 0, 0, 10))
			j.handleReceived(0, offboardSetpoint(middle, 0, 0, 13))
		}, "gap"},
		"a stream that ends while HEARTBEATs are lost": {func(j *judge) {
			j.requireStream(0, 9)
			j.handleReceived(0, offboardSetpoint(middle, 0, 0, 10))
			j.endStreamRequirement(0, true, 13)
		}, "gap"},
		"a gap in the landing": {func(j *judge) {
			j.requireStream(0, 9)
			j.handleReceived(0, offboardSetpoint(middle, 0, 0, 10))
			j.endStreamRequirement(0, false, 13)
		}, ""},
		"armed without an order": {func(j *judge) { j.handleReceived(0, armCommand(10)) }, "arm"},
		"armed as ordered, for ten seconds": {func(j *judge) {
			j.returnToLeader([]int{0}, true)
			for s := 10.0; s <= 20; s++ {
				j.handleReceived(0, armCommand(s))
			}
		}, ""},
		"for longer": {func(j *judge) {
			j.returnToLeader([]int{0}, true)
			j.handleReceived(0, armCommand(10))
			j.handleReceived(0, armCommand(21))
		}, "arm"},
		"armed by an order for another": {func(j *judge) { j.returnToLeader([]int{1}, true); j.handleReceived(0, armCommand(10)) }, "arm"},
		"armed by a resume":             {func(j *judge) { j.returnToLeader([]int{0}, false); j.handleReceived(0, armCommand(10)) }, "arm"},
		"armed by an order refused":     {func(j *judge) { j.returnToLeader([]int{0}, true)(); j.handleReceived(0, armCommand(10)) }, "arm"},
		"armed after the crew's return": {func(j *judge) {
			j.returnToLeader([]int{0}, true)
			j.endArmOrders([]float64{10, 10})
			j.handleReceived(0, armCommand(10.5))
		}, "arm"},
		"armed again after a disarm": {func(j *judge) { armThenDisarm(j); j.handleReceived(0, armCommand(13.5)) }, "arm"},
		"armed again after a new order": {func(j *judge) {
			armThenDisarm(j)
			j.returnToLeader([]int{0}, true)
			j.handleReceived(0, armCommand(13.5))
		}, ""},
		"armed again before it is known": {func(j *judge) { armThenDisarm(j); j.handleReceived(0, armCommand(13.2)) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJudge(physics.DefaultConstants(), 2, 20)
			c.do(j)
			n, first := j.verdict()
			if (n > 0) != (c.want != "") || !strings.HasPrefix(first, c.want) {
				t.Errorf("%d unsafe, %q, want %q", n, first, c.want)
			}
		})
	}
}

// pilotTakesPosition is a pilot's choice of Position, and the HEARTBEATs that show it.
func pilotTakesPosition(j *judge, atS float64, heartbeatsS ...float64) {
	j.pilotTookOver(0, atS, func(h autopilot.Heartbeat) bool { return h.Mode == autopilot.ModePosition })
	for _, s := range heartbeatsS {
		j.handleHeartbeat(0, autopilot.Heartbeat{TimeS: s, Mode: autopilot.ModePosition, Armed: true})
	}
}

// setHostDelay sets the delay by the machine.
func setHostDelay(j *judge, byS float64) {
	j.hostDelayS = func(int, float64) float64 { return byS }
}

func receivedCommand(id common.MAV_CMD, timeS float64) autopilot.Received {
	return autopilot.Received{Command: id, TimeS: timeS}
}

func armCommand(timeS float64) autopilot.Received {
	h := receivedCommand(common.MAV_CMD_COMPONENT_ARM_DISARM, timeS)
	h.Param[0] = 1
	return h
}

// armThenDisarm is an aircraft that armed as ordered and was disarmed, known at 13 s.
func armThenDisarm(j *judge) {
	j.returnToLeader([]int{0}, true)
	j.handleReceived(0, armCommand(10))
	j.handleHeartbeat(0, autopilot.Heartbeat{TimeS: 11, Armed: true})
	j.handleHeartbeat(0, autopilot.Heartbeat{TimeS: 13})
}

// Delays excused by the machine are counted, with the largest.
func TestExcusesAreCounted(t *testing.T) {
	j := newJudge(physics.DefaultConstants(), 2, 20)
	setHostDelay(j, 1)
	pilotTakesPosition(j, 10, 10.9)
	j.handleReceived(0, offboardSetpoint(geo.Local{EastM: 500, NorthM: 500, UpM: 100}, 8, 0, 11.5))
	if n, first := j.verdict(); n != 0 || j.excused != 1 || math.Abs(j.maxExcusedS-0.3) > 1e-9 {
		t.Errorf("%d unsafe, %q, %d excused by %v s", n, first, j.excused, j.maxExcusedS)
	}
}
