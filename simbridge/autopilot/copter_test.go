package autopilot

import (
	"math"
	"testing"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/simbridge/battery"
	"prefdt/simbridge/geo"
)

// newCopter is an ArduCopter on the ground in GUIDED, armed.
func newCopter(t *testing.T) *vehicle {
	t.Helper()
	v := newVehicle(Config{SystemID: 1, Copter: true, Speed: 1, CapacityJ: 150e3, Battery: battery.AllFields, BootedS: 60,
		PowerW: func(int, geo.Local) float64 { return 150 }})
	if m := heartbeat(v).(*common.MessageHeartbeat); m.CustomMode != 0 || m.Autopilot != common.MAV_AUTOPILOT_ARDUPILOTMEGA {
		t.Fatalf("booted: %+v", m)
	}
	v.setMode(t, 4)
	if !v.arm() {
		t.Fatal("not armed in GUIDED")
	}
	return v
}

func (v *vehicle) setMode(t *testing.T, custom float64) {
	t.Helper()
	if got, _ := v.execute(command{common.MAV_CMD_DO_SET_MODE, [7]float64{1, custom}}); got != common.MAV_RESULT_ACCEPTED {
		t.Fatalf("mode %v: %v", custom, got)
	}
}

func (v *vehicle) fly(seconds float64, each func()) {
	for range int(seconds / stepS) {
		v.step()
		if each != nil {
			each()
		}
	}
}

// beat is the leader's HEARTBEAT.
func (v *vehicle) beat() { v.handleMessage(sender{250, 191}, &common.MessageHeartbeat{}, &Traffic{}) }

// Its checks pass in STABILIZE 23.6 s after its boot, in GUIDED 18 s later, and again so late after another boot.
func TestCopterChecksPassLate(t *testing.T) {
	v := newVehicle(Config{SystemID: 1, Copter: true, Speed: 1, CapacityJ: 150e3, Battery: battery.AllFields,
		PowerW: func(int, geo.Local) float64 { return 150 }})
	healthy := func() bool {
		return systemStatus(v).(*common.MessageSysStatus).OnboardControlSensorsHealth&common.MAV_SYS_STATUS_PREARM_CHECK != 0
	}
	for range 2 {
		beganS := v.timeS()
		for _, at := range []struct {
			s      float64
			mode   float64 // custom
			passes bool
		}{{23, 0, false}, {24, 0, true}, {25, 4, false}, {41, 4, false}, {41.2, 0, true}, {42, 4, true}} {
			v.fly(beganS+at.s-v.timeS(), nil)
			v.setMode(t, at.mode)
			if healthy() != at.passes || v.canArm() != at.passes {
				t.Errorf("%v s after its boot, in mode %v: healthy %v", at.s, at.mode, healthy())
			}
		}
		v.reboot(false)
	}
}

// airborne is a copter that hovers at 100 m in GUIDED.
func airborne(t *testing.T) *vehicle {
	t.Helper()
	v := newCopter(t)
	if got := v.copterTakeOff(100); got != common.MAV_RESULT_ACCEPTED {
		t.Fatal(got)
	}
	if got := v.copterTakeOff(100); got == common.MAV_RESULT_ACCEPTED {
		t.Error("it takes off twice")
	}
	v.fly(20, v.beat)
	if s := extendedState(v).(*common.MessageExtendedSysState).LandedState; s != common.MAV_LANDED_STATE_TAKEOFF {
		t.Errorf("in its climb it is %v", s)
	}
	v.fly(50, v.beat)
	s, m := extendedState(v).(*common.MessageExtendedSysState).LandedState, heartbeat(v).(*common.MessageHeartbeat)
	if math.Abs(v.body.Position.UpM-100) > 1 || s != common.MAV_LANDED_STATE_IN_AIR || m.CustomMode != 4 {
		t.Fatalf("at %.1f m, %v, mode %d", v.body.Position.UpM, s, m.CustomMode)
	}
	return v
}

// steer is a setpoint at a velocity.
func (v *vehicle) steer(eastMPS float64) {
	p := v.body.Position
	v.acceptSetpoint(Setpoint{Position: geo.Local{EastM: p.EastM, NorthM: p.NorthM, UpM: 100}, Velocity: geo.Local{EastM: eastMPS}}, 0)
}

// One setpoint ends a take-off.
func TestCopterTakeOff(t *testing.T) {
	v := airborne(t)
	v.fly(10, func() { v.beat(); v.steer(8) })
	if got := v.body.Velocity.EastM; math.Abs(got-8) > 1 {
		t.Errorf("it flies at %.1f m/s, asked 8", got)
	}
	v = newCopter(t)
	v.copterTakeOff(100)
	v.fly(8, v.beat)
	low := v.body.Position.UpM
	v.acceptSetpoint(Setpoint{Position: v.body.Position, Velocity: geo.Local{}}, 0)
	v.fly(20, v.beat)
	if up := v.body.Position.UpM; v.landed || up > low+8 {
		t.Errorf("after a setpoint at %.1f m it is at %.1f m", low, up)
	}
}

// One that was disarmed as it took off, by a pilot, takes off again.
func TestCopterTakesOffAgain(t *testing.T) {
	v := newCopter(t)
	v.copterTakeOff(100)
	v.disarm("by its pilot")
	v.fly(1, v.beat)
	if armed, got := v.arm(), v.copterTakeOff(100); !armed || got != common.MAV_RESULT_ACCEPTED {
		t.Errorf("armed %v, and its take-off is answered by %v", armed, got)
	}
}

// Without setpoints it stays in GUIDED, stops by GUID_TIMEOUT and flies back to its last target, as was measured;
// BRAKE stops it sooner. Only the loss of HEARTBEATs sends it home, in spite of setpoints, and
// their return does not call it back.
func TestCopterWithoutItsLeader(t *testing.T) {
	v := airborne(t)
	v.fly(10, func() { v.beat(); v.steer(8) })
	from, furthest := v.body.Position, 0.0
	v.fly(20, func() { v.beat(); furthest = max(furthest, v.body.Position.Sub(from).HorizontalM()) })
	if m, d := heartbeat(v).(*common.MessageHeartbeat), v.body.Position.Sub(from).HorizontalM(); m.CustomMode != 4 ||
		m.SystemStatus != common.MAV_STATE_ACTIVE || furthest < 8 || furthest > 25 || d > 2 || v.body.SpeedMPS() > 0.3 {
		t.Errorf("without setpoints: mode %d, %v, flew on %.1f m, is %.1f m from its last target, at %.1f m/s", m.CustomMode,
			m.SystemStatus, furthest, d, v.body.SpeedMPS())
	}
	v.fly(10, func() { v.beat(); v.steer(8) })
	from = v.body.Position
	v.setMode(t, 17)
	v.fly(10, v.beat)
	if d := v.body.Position.Sub(from).HorizontalM(); d < 4 || d > 15 || v.body.SpeedMPS() > 0.6 {
		t.Errorf("BRAKE stops it after %.1f m, at %.1f m/s", d, v.body.SpeedMPS())
	}
	v.setMode(t, 4)
	v.fly(4, func() { v.steer(8) })
	if v.mode != ModeOffboard {
		t.Errorf("after 4 s of silence it is in %v", v.mode)
	}
	v.fly(2, func() { v.steer(8) })
	if m := heartbeat(v).(*common.MessageHeartbeat); m.CustomMode != 6 || m.SystemStatus != common.MAV_STATE_CRITICAL {
		t.Errorf("after 6 s of silence: mode %d, %v", m.CustomMode, m.SystemStatus)
	}
	v.fly(5, v.beat)
	if m := heartbeat(v).(*common.MessageHeartbeat); m.CustomMode != 6 || m.SystemStatus != common.MAV_STATE_ACTIVE {
		t.Errorf("with HEARTBEATs again: mode %d, %v", m.CustomMode, m.SystemStatus)
	}
	v.setMode(t, 9)
	v.fly(120, v.beat)
	if v.armed || v.mode != ModeLand || v.canArm() {
		t.Errorf("landed: armed %v, in %v", v.armed, v.mode)
	}
}

// LOITER obeys the throttle, which is at zero; parameters are plain numbers.
func TestCopterLoiterAndParameters(t *testing.T) {
	v := airborne(t)
	v.setMode(t, 5)
	v.fly(10, v.beat)
	if up := v.body.Position.UpM; up > 90 {
		t.Errorf("in LOITER it is at %.1f m", up)
	}
	m := v.paramValues(0, len(v.params))
	for _, p := range m {
		if p := p.(*common.MessageParamValue); p.ParamId == "SYSID_MYGCS" && p.ParamValue != 250 {
			t.Errorf("%s is %v", p.ParamId, p.ParamValue)
		}
	}
	if due := newVehicle(Config{SystemID: 1, Copter: true, Speed: 1, CapacityJ: 1}).streams; due.find(float32(batteryID)).intervalUS != 0 {
		t.Error("a fresh link has more than HEARTBEAT")
	}
}

// Where two of PX4's parameters have one counterpart, it is always the same of them that an ArduCopter is set to.
func TestParametersOfOneCounterpart(t *testing.T) {
	c := Config{Copter: true, Parameters: map[string]float64{"MPC_XY_VEL_MAX": 30, "MPC_XY_CRUISE": 10}}
	for range 50 { // a map's order is another one each time
		if x := newVehicle(c).params.get("WPNAV_SPEED"); x != 3000 || c.ParameterValues()["WPNAV_SPEED"] != x {
			t.Fatalf("WPNAV_SPEED is %v, want 3000", x)
		}
	}
}
