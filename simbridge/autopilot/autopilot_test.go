package autopilot

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/simbridge/battery"
	"prefdt/simbridge/geo"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry/datagram"
)

// The rules of OFFBOARD as measured on PX4 1.16.

const (
	accepted = common.MAV_RESULT_ACCEPTED
	rejected = common.MAV_RESULT_TEMPORARILY_REJECTED
	denied   = common.MAV_RESULT_DENIED
)

func TestOffboardRules(t *testing.T) {
	for name, run := range map[string]func(*peer){
		"disarmed without a stream: accepted, then arming is rejected": func(p *peer) {
			if r := p.setMode(6, 0); r != accepted {
				p.Errorf("mode: %v", r)
			}
			if r := p.arm(); r != rejected {
				p.Errorf("arm: %v", r)
			}
			if p.autopilot.State().Armed {
				p.Error("armed")
			}
		},
		"armed without a stream: rejected": func(p *peer) {
			p.takeOff(5)
			if r := p.setMode(6, 0); r != rejected {
				p.Errorf("mode: %v", r)
			}
			if m := p.autopilot.State().Mode; m != ModeHold {
				p.Errorf("mode is %v", m)
			}
		},
		"with a stream it flies": func(p *peer) {
			p.offboard(localSetpoint(positionOnly, 0, 0, 10, 0, 0))
			if r := p.arm(); r != accepted {
				p.Errorf("arm: %v", r)
			}
			p.until("height", func() bool { return p.autopilot.State().Position.UpM > 9 })
		},
		"a lost stream holds, and a resumed one flies on by itself": func(p *peer) {
			p.takeOff(20)
			p.offboard(localSetpoint(velocityOnly, 0, 0, 0, 0, 2))
			p.until("offboard", func() bool { return p.mode() == ModeOffboard })
			p.setStream(nil)
			p.until("failsafe", func() bool { return p.mode() == ModeHold })
			if h := p.get(&common.MessageHeartbeat{}).(*common.MessageHeartbeat); h.SystemStatus != common.MAV_STATE_CRITICAL {
				p.Errorf("status is %v", h.SystemStatus)
			}
			p.waitMissionS(3)
			if v := p.autopilot.State().SpeedMPS(); v > 0.3 {
				p.Errorf("holds at %.2f m/s", v)
			}
			p.setStream(localSetpoint(velocityOnly, 0, 0, 0, 0, 2))
			p.until("offboard again", func() bool { return p.mode() == ModeOffboard })
		},
		"COM_OBL_RC_ACT 0 sinks": func(p *peer) {
			p.write(&common.MessageParamSet{TargetSystem: 3, TargetComponent: 1, ParamId: "COM_OBL_RC_ACT",
				ParamType: common.MAV_PARAM_TYPE_INT32})
			p.takeOff(10)
			p.offboard(localSetpoint(positionOnly, 0, 0, 10, 0, 0))
			p.setStream(nil)
			p.until("position mode", func() bool { return p.mode() == ModePosition })
			p.until("the ground", func() bool { return p.autopilot.State().Landed })
		},
		"COM_OBL_RC_ACT 3 returns": func(p *peer) {
			p.write(&common.MessageParamSet{TargetSystem: 3, TargetComponent: 1, ParamId: "COM_OBL_RC_ACT",
				ParamType: common.MAV_PARAM_TYPE_INT32, ParamValue: math.Float32frombits(3)})
			p.takeOff(10)
			p.offboard(localSetpoint(positionOnly, 15, 0, 10, 0, 0))
			p.until("the way out", func() bool { return p.autopilot.State().Position.NorthM > 510 })
			p.setStream(nil)
			p.until("return", func() bool { return p.mode() == ModeReturn })
			p.until("the ground at home", func() bool {
				s := p.autopilot.State()
				return s.Landed && !s.Armed && math.Hypot(s.Position.EastM-333, s.Position.NorthM-500) < 2
			})
		},
		"frame 7 does not count and triggers the failsafe": func(p *peer) {
			p.takeOff(10)
			p.offboard(localSetpoint(velocityOnly, 0, 0, 0, 1, 0))
			p.until("offboard", func() bool { return p.mode() == ModeOffboard })
			p.setStream(func() message.Message {
				m := localSetpoint(velocityOnly, 0, 0, 0, 1, 0)().(*common.MessageSetPositionTargetLocalNed)
				m.CoordinateFrame = common.MAV_FRAME_LOCAL_OFFSET_NED
				return m
			})
			p.until("failsafe", func() bool { return p.mode() == ModeHold })
		},
	} {
		t.Run(name, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) { run(startPeer(t, testConfig())) })
		})
	}
}

// 2 Hz is enough to stay in OFFBOARD, and less than COM_OF_LOSS_T is not.
func TestStreamRate(t *testing.T) {
	for everyS, want := range map[float64]Mode{0.1: ModeOffboard, 0.5: ModeOffboard, 1.2: ModeHold} {
		v := hovering().vehicle
		set := localSetpoint(positionOnly, 0, 0, 100, 0, 0)().(*common.MessageSetPositionTargetLocalNed)
		v.handleSetpointLocalNED(set)
		v.requestMode(ModeOffboard)
		lost := false
		for range 10 {
			fly(v, everyS)
			lost = lost || v.mode == ModeHold
			v.handleSetpointLocalNED(set)
		}
		if lost != (want == ModeHold) {
			t.Errorf("a setpoint every %v s: lost %v, want %v", everyS, lost, want)
		}
	}
}

func TestArming(t *testing.T) {
	for name, run := range map[string]func(*peer){
		"disarms after arming without take-off": func(p *peer) {
			p.arm()
			p.until("armed", p.armed)
			p.until("disarmed", func() bool { return !p.armed() })
		},
		"take-off towards latitude and longitude 0 stays on the ground": func(p *peer) {
			if r := p.command(common.MAV_CMD_NAV_TAKEOFF, 0, 0, 0, nan, 0, 0, origin.AltM+10); r != accepted {
				p.Errorf("take-off: %v", r)
			}
			p.arm()
			p.until("disarmed", func() bool { s := p.autopilot.State(); return s.Landed && !s.Armed })
			if e := p.autopilot.State().Spent.J(); e != 0 {
				p.Errorf("spent %v J on the ground", e)
			}
		},
		"no disarming in the air, unless forced": func(p *peer) {
			p.takeOff(5)
			if r := p.command(common.MAV_CMD_COMPONENT_ARM_DISARM, 0); r != rejected {
				p.Errorf("disarm: %v", r)
			}
			if r := p.command(common.MAV_CMD_COMPONENT_ARM_DISARM, 0, 21196); r != accepted {
				p.Errorf("forced disarm: %v", r)
			}
			p.until("the ground, as reported while it falls", func() bool {
				m, _ := p.get(&common.MessageExtendedSysState{}).(*common.MessageExtendedSysState)
				return m.LandedState == common.MAV_LANDED_STATE_ON_GROUND
			})
			p.until("the ground", func() bool { return p.autopilot.State().Landed })
		},
		"lands, disarms and flies again": func(p *peer) {
			p.takeOff(5)
			p.command(common.MAV_CMD_NAV_LAND)
			p.until("landed state", func() bool {
				m, _ := p.get(&common.MessageExtendedSysState{}).(*common.MessageExtendedSysState)
				return m != nil && m.LandedState == common.MAV_LANDED_STATE_ON_GROUND && !p.armed()
			})
			p.takeOff(5)
		},
		"after a flight OFFBOARD is the mode again, and it does not arm without a stream": func(p *peer) {
			p.takeOff(3)
			p.offboard(localSetpoint(positionOnly, 0, 0, 3, 0, 0))
			p.until("offboard", func() bool { return p.mode() == ModeOffboard })
			p.command(common.MAV_CMD_NAV_LAND)
			p.setStream(nil)
			p.until("disarmed in OFFBOARD", func() bool { return !p.armed() && p.mode() == ModeOffboard })
			if h := p.get(&common.MessageHeartbeat{}).(*common.MessageHeartbeat); h.SystemStatus != common.MAV_STATE_UNINIT {
				p.Errorf("status is %v", h.SystemStatus)
			}
			if r := p.arm(); r != rejected {
				p.Errorf("arm: %v", r)
			}
			if r := p.setMode(4, 3); r != accepted {
				p.Errorf("hold: %v", r)
			}
			p.takeOff(3)
		},
		"Position is refused in the air without a remote control": func(p *peer) {
			p.takeOff(3)
			if r := p.setMode(3, 0); r != rejected {
				p.Errorf("position: %v", r)
			}
			p.write(&common.MessageSetMode{TargetSystem: 3, BaseMode: common.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED,
				CustomMode: uint32(ModeLand)})
			p.until("landing by SET_MODE, and its acknowledgement", func() bool {
				a, _ := p.get(&common.MessageCommandAck{}).(*common.MessageCommandAck)
				return p.mode() == ModeLand && a != nil && a.Command == common.MAV_CMD_DO_SET_MODE && a.Result == accepted
			})
		},
		"a command it does not know": func(p *peer) {
			if r := p.command(common.MAV_CMD_DO_JUMP); r != common.MAV_RESULT_UNSUPPORTED {
				p.Errorf("jump: %v", r)
			}
			if r := p.setMode(4, 9); r != rejected {
				p.Errorf("an auto mode that is not simulated: %v", r)
			}
			if r := p.setMode(9, 9); r != accepted || p.autopilot.State().Mode != ModeHold {
				p.Errorf("mode 9/9, which PX4 accepts and ignores: %v", r)
			}
			if r := p.command(common.MAV_CMD_PREFLIGHT_REBOOT_SHUTDOWN, 1); r != denied {
				p.Errorf("reboot: %v", r)
			}
		},
		"a command for another system is not answered": func(p *peer) {
			p.write(&common.MessageCommandLong{TargetSystem: 4, TargetComponent: 1, Command: common.MAV_CMD_COMPONENT_ARM_DISARM,
				Param1: 1})
			p.setMode(4, 3) // answered, so the message before it was handled
			if p.autopilot.State().Armed {
				p.Error("armed")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) { run(startPeer(t, testConfig())) })
		})
	}
}

// A vehicle that does not take off disarms 10 s after it was armed.
func TestDisarmsOnTheGround(t *testing.T) {
	v := newVehicle(testConfig())
	v.arm()
	for v.armed && v.elapsedS(v.armedUS) < 20 {
		v.step()
	}
	if s := v.elapsedS(v.armedUS); math.Abs(s-10) > 0.1 {
		t.Errorf("disarmed after %.2f s", s)
	}
}

// The dynamics alone, without wall time: setpoints at 10 Hz.
func TestTracking(t *testing.T) {
	v := newVehicle(testConfig())
	v.body.Position.UpM, v.groundContact, v.landed, v.armed, v.flownSinceArmed = 30, false, false, true, true
	fly := func(seconds float64, set func() message.Message) {
		for i := range int(seconds / stepS) {
			if i%10 == 0 {
				v.handleSetpointLocalNED(set().(*common.MessageSetPositionTargetLocalNed))
			}
			v.intendedMode = ModeOffboard
			v.step()
		}
	}
	fly(4, localSetpoint(velocityOnly, 0, 0, 0, 2, 0))
	if north := v.body.Velocity.NorthM; north < 1.4 || north > 1.7 {
		t.Errorf("bare velocity of 2 m/s gives %.2f m/s after 4 s, PX4 1.4-1.7", north)
	}

	// A position that moves at 8.4 m/s, with its velocity.
	t0, north0 := v.timeUS, v.body.Position.NorthM-500
	target := func() float64 { return north0 + 8.4*float64(v.timeUS-t0)/1e6 }
	fly(10, func() message.Message { return localSetpoint(positionAndVelocity, target(), 0, 30, 8.4, 0)() })
	if lag := target() - (v.body.Position.NorthM - 500); math.Abs(lag) > 2 || math.Abs(v.body.Velocity.NorthM-8.4) > 0.2 {
		t.Errorf("lags %.2f m at %.2f m/s", lag, v.body.Velocity.NorthM)
	}

	// No setpoint makes it exceed MPC_XY_VEL_MAX.
	fly(8, localSetpoint(positionAndVelocity, 1e30, -1e30, 30, 1e30, math.Inf(1)))
	if speed := v.body.SpeedMPS(); speed > 30.5 || speed < 25 {
		t.Errorf("flies at %.1f m/s, limit 30", speed)
	}
	if up := v.body.Position.UpM; math.Abs(up-30) > 0.5 {
		t.Errorf("height %.1f m, want 30", up)
	}
}

// A take-off and a landing without wall time, compared with PX4: from the command on,
// armed a second before.
func TestTakeOffAndLanding(t *testing.T) {
	v := newVehicle(testConfig())
	v.arm()
	fly(v, 1.2)
	v.takeoffUpM = 100
	v.requestMode(ModeTakeoff)
	for _, c := range []struct{ seconds, upM, withinM float64 }{
		{2, 0, 0.1}, {4, 0.5, 0.5}, {6, 3.1, 0.7}, {8, 6.1, 0.7}, {10, 9.1, 0.7}, {12, 13.2, 1},
	} {
		for v.elapsedS(v.armedUS) < 1.2+c.seconds {
			v.step()
		}
		if up := v.body.Position.UpM; math.Abs(up-c.upM) > c.withinM {
			t.Errorf("%.2f m after %v s, PX4 %v", up, c.seconds, c.upM)
		}
	}
	v.takeoffUpM = 15
	for v.mode != ModeHold {
		v.step()
	}
	v.requestMode(ModeLand)
	for !v.groundContact {
		v.step()
	}
	if m := extendedState(v).(*common.MessageExtendedSysState); m.LandedState != common.MAV_LANDED_STATE_LANDING {
		t.Errorf("touches down in %v", m.LandedState)
	}
	at := v.timeUS
	for v.armed {
		v.step()
	}
	if s := v.elapsedS(at); s < 6.5 || s > 8 { // 5 s until landing is detected, COM_DISARM_LAND 2
		t.Errorf("disarmed %.1f s after it touched down", s)
	}
}

// At PX4's own rates a descent from 100 m takes 87 s and 14.5 kJ, as measured.
func TestDescentTakesAsLongAsPX4s(t *testing.T) {
	v := hovering().vehicle
	from, drawnJ := v.timeUS, v.battery.Total().J()
	for v.requestMode(ModeLand); !v.groundContact; {
		v.step()
	}
	if s, j := v.elapsedS(from), v.battery.Total().J()-drawnJ; math.Abs(s-87) > 1.5 || math.Abs(j-14.5e3) > 350 {
		t.Errorf("it took %.1f s and %.0f J, PX4 87 s and 14500 J", s, j)
	}
}

// It descends with 1.25 m/s of 1.5, and 2.49 of 3, as PX4 1.16's own simulation.
func TestSlowDescent(t *testing.T) {
	for parameter, want := range map[float64]float64{1.5: 1.245, 3: 2.49} {
		v := hovering().vehicle
		v.params.set("MPC_Z_V_AUTO_DN", parameter)
		v.params.set("MPC_Z_VEL_MAX_DN", parameter)
		v.requestMode(ModeLand)
		for v.heightM() > 60 {
			v.step()
		}
		if got := -v.body.Velocity.UpM; math.Abs(got-want) > 0.02 {
			t.Errorf("MPC_Z_V_AUTO_DN %v: it descends with %.2f m/s, want %v", parameter, got, want)
		}
	}
}

// A HEARTBEAT is CRITICAL in the modes that a failsafe chose, and in no others: it tells
// whether a Hold is the autopilot's or its pilot's.
func TestFailsafeIsCritical(t *testing.T) {
	a := hovering()
	v := a.vehicle
	expect := func(what string, mode Mode, status common.MAV_STATE) {
		t.Helper()
		if m := heartbeat(v).(*common.MessageHeartbeat); Mode(m.CustomMode) != mode || m.SystemStatus != status {
			t.Errorf("%s: %v, %v; want %v, %v", what, Mode(m.CustomMode), m.SystemStatus, mode, status)
		}
	}
	stream := func(seconds float64) {
		for range int(seconds * 1e6 / stepUS) {
			v.setpointUS = v.timeUS
			v.step()
		}
	}
	expect("in Hold by command", ModeHold, common.MAV_STATE_ACTIVE)
	stream(1)
	v.requestMode(ModeOffboard)
	stream(1)
	expect("with setpoints", ModeOffboard, common.MAV_STATE_ACTIVE)
	fly(v, 2)
	expect("without them", ModeHold, common.MAV_STATE_CRITICAL)
	stream(1)
	expect("with setpoints again", ModeOffboard, common.MAV_STATE_ACTIVE)
	fly(v, 2)
	a.SetModeByRC(ModeHold)
	expect("its pilot chooses Hold", ModeHold, common.MAV_STATE_ACTIVE)
	stream(2)
	expect("with setpoints in its pilot's Hold", ModeHold, common.MAV_STATE_ACTIVE)
	v.requestMode(ModeOffboard)
	v.externalBattery = &common.MessageBatteryStatus{BatteryRemaining: 4}
	stream(1)
	expect("with a low battery", ModeHold, common.MAV_STATE_CRITICAL)
	stream(5)
	expect("and 5 s later", ModeLand, common.MAV_STATE_CRITICAL)
}

// Return climbs first, unless it is near home, and reports landing when it descends.
func TestReturn(t *testing.T) {
	v := hovering().vehicle
	v.body.Position = geo.Local{EastM: v.conf.Start.EastM + 25, NorthM: v.conf.Start.NorthM, UpM: 10}
	v.requestMode(ModeReturn)
	for v.homeDistanceM() > 24 {
		v.step()
	}
	if up := v.body.Position.UpM; up < 28 || up > 31 {
		t.Errorf("turned home at %.1f m, want 30", up)
	}
	for !v.returnDescending {
		if m := extendedState(v).(*common.MessageExtendedSysState); m.LandedState != common.MAV_LANDED_STATE_IN_AIR {
			t.Fatalf("is %v on the way", m.LandedState)
		}
		v.step()
	}
	if m := extendedState(v).(*common.MessageExtendedSysState); m.LandedState != common.MAV_LANDED_STATE_LANDING {
		t.Errorf("is %v over home", m.LandedState)
	}
}

// PX4 tells in SYS_STATUS whether it would arm by the health bit alone, as measured.
func TestPreArmIsTheHealthBitAlone(t *testing.T) {
	const bit = common.MAV_SYS_STATUS_PREARM_CHECK
	v := newVehicle(testConfig())
	for reason, want := range map[string]common.MAV_SYS_STATUS_SENSOR{"": bit, "Compass 0 missing": 0} {
		v.armingDenial = reason
		m := systemStatus(v).(*common.MessageSysStatus)
		if m.OnboardControlSensorsHealth&bit != want || (m.OnboardControlSensorsPresent|m.OnboardControlSensorsEnabled)&bit != 0 {
			t.Errorf("%q: %+v", reason, m)
		}
	}
}

func TestHeartbeat(t *testing.T) {
	for name, c := range map[string]struct {
		mode      Mode
		armed     bool
		streaming bool
		base      common.MAV_MODE_FLAG
		status    common.MAV_STATE
	}{
		"hold":                      {ModeHold, false, false, 0x1d, common.MAV_STATE_STANDBY},
		"hold, armed":               {ModeHold, true, false, 0x9d, common.MAV_STATE_ACTIVE},
		"land":                      {ModeLand, false, false, 0x1d, common.MAV_STATE_UNINIT},
		"return":                    {ModeReturn, false, false, 0x1d, common.MAV_STATE_UNINIT},
		"take-off":                  {ModeTakeoff, false, false, 0x1d, common.MAV_STATE_STANDBY},
		"position":                  {ModePosition, false, false, 0x51, common.MAV_STATE_UNINIT},
		"offboard without a stream": {ModeOffboard, false, false, 0x11, common.MAV_STATE_UNINIT},
		"offboard with a stream":    {ModeOffboard, false, true, 0x11, common.MAV_STATE_STANDBY},
		"offboard, armed":           {ModeOffboard, true, true, 0x91, common.MAV_STATE_ACTIVE},
	} {
		v := newVehicle(testConfig())
		v.step()
		if c.streaming {
			v.setpointUS = v.timeUS
		}
		v.setIntendedMode(c.mode)
		v.armed = c.armed
		if m := heartbeat(v).(*common.MessageHeartbeat); m.BaseMode != c.base || m.SystemStatus != c.status {
			t.Errorf("%s: base mode %#x, %v; want %#x, %v", name, uint(m.BaseMode), m.SystemStatus, uint(c.base), c.status)
		}
	}
}

// The intervals that PX4 sets, and the order of its answers: the message, then the
// acknowledgement.
func TestMessageIntervals(t *testing.T) {
	conf := testConfig()
	conf.Speed = 1
	v := newVehicle(conf)
	ask := func(id common.MAV_CMD, params ...float64) (interval int32, result common.MAV_RESULT) {
		c := command{id: id}
		copy(c.param[:], params)
		for _, m := range v.handleCommand(sender{245, 191}, c) {
			switch m := m.(type) {
			case *common.MessageMessageInterval:
				interval = m.IntervalUs
			case *common.MessageCommandAck:
				return interval, m.Result
			}
		}
		t.Fatal("no acknowledgement")
		return 0, 0
	}
	const set, get = common.MAV_CMD_SET_MESSAGE_INTERVAL, common.MAV_CMD_GET_MESSAGE_INTERVAL
	for m, want := range map[message.Message]int32{&common.MessageGlobalPositionInt{}: 20_000, &common.MessageSysStatus{}: 200_000,
		&common.MessageBatteryStatus{}: 2_000_000} {
		if us, r := ask(get, float64(m.GetID())); us != want || r != accepted {
			t.Errorf("%T is sent every %d us by default, %v; PX4 %d", m, us, r, want)
		}
	}
	for requested, granted := range map[float64]int32{250_000: 250_000, 1000: 1000, 0: 20_000, -1: 0} {
		if _, r := ask(set, 33, requested); r != accepted {
			t.Errorf("%v us: %v", requested, r)
		}
		if us, _ := ask(get, 33); us != granted {
			t.Errorf("requested %v us, set to %d, PX4 %d", requested, us, granted)
		}
	}
	if _, r := ask(set, 9999, 1000); r != common.MAV_RESULT_FAILED {
		t.Errorf("an unknown message: %v", r)
	}
	if us, r := ask(get, 9999); us != 0 || r != accepted {
		t.Errorf("an unknown message is sent every %d us, %v", us, r)
	}
}

// A position in the global frame is used completely or not at all.
func TestGlobalMasks(t *testing.T) {
	for name, c := range map[string]struct {
		frame    common.MAV_FRAME
		mask     common.POSITION_TARGET_TYPEMASK
		position bool
		counts   bool
	}{
		"position":                        {common.MAV_FRAME_GLOBAL_INT, positionOnly, true, true},
		"above the ground":                {common.MAV_FRAME_GLOBAL_TERRAIN_ALT_INT, positionOnly, true, true},
		"height alone":                    {common.MAV_FRAME_GLOBAL_INT, positionOnly | 3, false, false},
		"height and velocity":             {common.MAV_FRAME_GLOBAL_INT, positionAndVelocity | 3, false, true},
		"velocity, in a frame it has not": {common.MAV_FRAME_GLOBAL, velocityOnly, false, true},
		"position, in a frame it has not": {common.MAV_FRAME_GLOBAL, positionAndVelocity, false, false},
		"nothing":                         {common.MAV_FRAME_GLOBAL_INT, positionOnly | 7, false, false},
	} {
		v := newVehicle(testConfig())
		v.step()
		m := &common.MessageSetPositionTargetGlobalInt{TargetSystem: 3, CoordinateFrame: c.frame, TypeMask: c.mask, LatInt: 474e6,
			LonInt: 85e6, Alt: 500}
		if got := v.handleSetpointGlobalInt(m); got != c.counts || got && math.IsNaN(v.setpoint.Position.UpM) == c.position {
			t.Errorf("%s: used %v, %+v", name, got, v.setpoint)
		}
	}
}

func TestGlobalSetpointsAndPositions(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		p := startPeer(t, testConfig())
		p.takeOff(10)
		to := origin.FromLocal(p.autopilot.State().Position)
		to.LatDeg += 0.0002 // 22 m north
		for _, frame := range []common.MAV_FRAME{common.MAV_FRAME_GLOBAL_INT, common.MAV_FRAME_GLOBAL_RELATIVE_ALT_INT} {
			alt := float32(15)
			if frame == common.MAV_FRAME_GLOBAL_INT {
				alt += float32(origin.AltM)
			}
			p.offboard(func() message.Message {
				return &common.MessageSetPositionTargetGlobalInt{
					TargetSystem: 3, TargetComponent: 1, CoordinateFrame: frame, TypeMask: positionOnly,
					LatInt: int32(math.Round(to.LatDeg * 1e7)), LonInt: int32(math.Round(to.LonDeg * 1e7)), Alt: alt,
				}
			})
			p.until("arrival", func() bool {
				g, _ := p.get(&common.MessageGlobalPositionInt{}).(*common.MessageGlobalPositionInt)
				return g != nil && math.Abs(float64(g.Lat)-1e7*to.LatDeg) < 50 && math.Abs(float64(g.Alt)/1000-origin.AltM-15) < 0.5
			})
			p.setStream(localSetpoint(positionOnly, 0, 0, 15, 0, 0)) // back
		}
		// LOCAL_POSITION_NED is relative to the vehicle's own origin.
		p.until("the origin", func() bool {
			m := p.get(&common.MessageLocalPositionNed{}).(*common.MessageLocalPositionNed)
			return math.Hypot(float64(m.X), float64(m.Y)) < 1 && math.Abs(float64(m.Z)+15) < 1
		})
		p.command(common.MAV_CMD_REQUEST_MESSAGE, float64((&common.MessageGpsGlobalOrigin{}).GetID()))
		p.until("global origin", func() bool {
			o, _ := p.get(&common.MessageGpsGlobalOrigin{}).(*common.MessageGpsGlobalOrigin)
			lat, lon, alt := wirePosition(origin.FromLocal(p.autopilot.Start))
			return o != nil && o.Latitude == lat && o.Longitude == lon && o.Altitude == alt
		})
	})
}

// Frame 8 is relative to the heading.
func TestBodyFrame(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		p := startPeer(t, testConfig())
		p.takeOff(10)
		p.offboard(func() message.Message {
			return &common.MessageSetPositionTargetLocalNed{
				TargetSystem: 3, TargetComponent: 1, CoordinateFrame: common.MAV_FRAME_BODY_NED,
				TypeMask: 0b100111000111, Vx: 3, Yaw: math.Pi / 2, // forward, facing east
			}
		})
		p.until("flight to the east", func() bool {
			v := p.autopilot.State().Velocity
			return v.EastM >= 2 && math.Abs(v.NorthM) <= 0.3
		})
	})
}

func TestParameters(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		p := startPeer(t, testConfig())
		read := func(name string) *common.MessageParamValue {
			p.write(&common.MessageParamRequestRead{TargetSystem: 3, TargetComponent: 1, ParamId: name, ParamIndex: -1})
			var m *common.MessageParamValue
			p.until(name, func() bool {
				m, _ = p.get(&common.MessageParamValue{}).(*common.MessageParamValue)
				return m != nil && m.ParamId == name
			})
			return m
		}
		if m := read("MPC_XY_VEL_MAX"); m.ParamValue != 30 || m.ParamType != common.MAV_PARAM_TYPE_REAL32 {
			t.Errorf("MPC_XY_VEL_MAX %+v", m)
		}
		if m := read("COM_OBL_RC_ACT"); math.Float32bits(m.ParamValue) != 5 || m.ParamType != common.MAV_PARAM_TYPE_INT32 {
			t.Errorf("COM_OBL_RC_ACT %+v", m)
		}
		if m := read("COM_DISARM_LAND"); m.ParamValue != 2 {
			t.Errorf("COM_DISARM_LAND %+v", m)
		}
		if m := read("COM_OF_LOSS_T"); m.ParamValue != 1 {
			t.Errorf("COM_OF_LOSS_T %+v", m)
		}
		p.write(&common.MessageParamSet{TargetSystem: 3, TargetComponent: 1, ParamId: "COM_OF_LOSS_T", ParamValue: 2,
			ParamType: common.MAV_PARAM_TYPE_REAL32})
		p.until("change", func() bool {
			m := p.get(&common.MessageParamValue{}).(*common.MessageParamValue)
			return m.ParamId == "COM_OF_LOSS_T" && m.ParamValue == 2
		})
		// A wrong type, an invalid value or an unknown name changes nothing.
		p.write(&common.MessageParamSet{TargetSystem: 3, TargetComponent: 1, ParamId: "COM_OBL_RC_ACT", ParamValue: 0,
			ParamType: common.MAV_PARAM_TYPE_REAL32})
		p.write(&common.MessageParamSet{TargetSystem: 3, TargetComponent: 1, ParamId: "MPC_XY_VEL_MAX", ParamValue: float32(math.NaN()),
			ParamType: common.MAV_PARAM_TYPE_REAL32})
		p.write(&common.MessageParamSet{TargetSystem: 3, TargetComponent: 1, ParamId: "NO_SUCH", ParamValue: 1,
			ParamType: common.MAV_PARAM_TYPE_REAL32})
		if m := read("COM_OBL_RC_ACT"); math.Float32bits(m.ParamValue) != 5 {
			t.Errorf("COM_OBL_RC_ACT %+v after a set of the wrong type", m)
		}
		if m := read("MPC_XY_VEL_MAX"); m.ParamValue != 30 {
			t.Errorf("MPC_XY_VEL_MAX %+v after NaN", m)
		}
	})
}

func TestBatteryStatusConservesJoules(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		conf := testConfig()
		p := startPeer(t, conf)
		id := float64((&common.MessageBatteryStatus{}).GetID())
		if r := p.command(common.MAV_CMD_SET_MESSAGE_INTERVAL, id, 250_000); r != accepted {
			t.Fatalf("interval: %v", r)
		}
		p.takeOff(30)
		p.offboard(localSetpoint(velocityOnly, 0, 0, 0, 12, 3))
		edge := 0.0
		for slot := range 8 {
			p.autopilot.SetSlot(slot, time.Now())
			p.waitMissionS(1)
			joules := 3 + 1.7*float64(slot)
			p.autopilot.AddEdgeJ(slot, joules)
			edge += joules
		}
		p.waitMissionS(1)

		// The messages cannot be compared with a true value that changes: read both under
		// the lock.
		p.autopilot.mutex.Lock()
		b := &p.autopilot.vehicle.battery
		m := b.Status(p.autopilot.vehicle.timeUS)
		total, reported, volt := b.Total(), b.ReportedJ(), float64(m.Voltages[0])/1000
		slots := b.BySlot()
		p.autopilot.mutex.Unlock()
		if math.Abs(total.EdgeJ-edge) > 1e-9 {
			t.Errorf("edge %v J, added %v", total.EdgeJ, edge)
		}
		if total.FlightJ < 2000 {
			t.Errorf("only %v J flown", total.FlightJ)
		}
		if got := float64(m.EnergyConsumed) * 100; total.J()-got < 0 || total.J()-got >= 100 {
			t.Errorf("energy_consumed is %v J of %v", got, total.J())
		}
		// The rounding is carried, so the whole flight is off by at most one last message's 5 mA.
		if resolution := 0.005 * volt * 0.25 * 1.01; math.Abs(reported-total.J()) > resolution {
			t.Errorf("current x voltage sums to %v J of %v, resolution %v", reported, total.J(), resolution)
		}
		sum := 0.0
		for slot, s := range slots {
			sum += s.J()
			if slot >= 0 && slot < 8 && math.Abs(s.EdgeJ-(3+1.7*float64(slot))) > 1e-12 {
				t.Errorf("slot %d has %v J of edge energy", slot, s.EdgeJ)
			}
		}
		if math.Abs(sum-total.J()) > 1e-6 {
			t.Errorf("slots sum to %v J of %v", sum, total.J())
		}

		// The partner, which integrates the messages that it received, gets the difference of
		// energy_consumed between them.
		p.until("current", func() bool { p.mutex.Lock(); defer p.mutex.Unlock(); return len(p.battery) > 40 })
		p.mutex.Lock()
		defer p.mutex.Unlock()
		from, to := p.battery[10], p.battery[len(p.battery)-1]
		joules := 0.0
		for _, b := range p.battery[11:] {
			joules += float64(b.CurrentBattery) / 100 * float64(b.Voltages[0]) / 1000 * 0.25
		}
		if counted := 100 * float64(to.EnergyConsumed-from.EnergyConsumed); math.Abs(joules-counted) > 100 { // its resolution
			t.Errorf("the partner integrates %.0f J, the counter %.0f", joules, counted)
		}
	})
}

func TestAbsentBatteryFields(t *testing.T) {
	for name, c := range map[string]struct {
		fields                          battery.Fields
		current, system, energy, remain int
	}{
		"nothing measured": {battery.Fields{}, -100, -100, -1, -1},
		"energy only":      {battery.Fields{Energy: true}, -100, -100, 0, -1},
		"current only":     {battery.Fields{Current: true}, 0, 0, -1, -1},
		"charge only":      {battery.Fields{Remaining: true}, -100, -100, -1, 100},
	} {
		t.Run(name, func(t *testing.T) {
			conf := testConfig()
			conf.Battery = c.fields
			v := newVehicle(conf)
			m, s := v.battery.Status(1_000_000), v.battery.SysStatus()
			if int(m.CurrentBattery) != c.current || int(s.CurrentBattery) != c.system ||
				int(m.EnergyConsumed) != c.energy || int(m.BatteryRemaining) != c.remain {
				t.Errorf("%+v, %+v", m, s)
			}
			if m.Voltages[0] != 16200 || m.Voltages[1] != math.MaxUint16 {
				t.Errorf("voltages %v, want a full pack's 16200 mV in the first", m.Voltages)
			}
		})
	}
}

// STATUSTEXT reaches only links that send heartbeats of a ground station.
func TestStatustext(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		p := startPeer(t, testConfig())
		p.arm()
		p.until("armed", p.armed)
		p.waitMissionS(1)
		if m := p.get(&common.MessageStatustext{}); m != nil {
			t.Errorf("got %+v", m)
		}
		p.until("text", func() bool {
			p.write(&common.MessageHeartbeat{Type: common.MAV_TYPE_GCS, Autopilot: common.MAV_AUTOPILOT_INVALID})
			m, _ := p.get(&common.MessageStatustext{}).(*common.MessageStatustext)
			return m != nil && strings.Contains(m.Text, "Disarmed")
		})
	})
}

// Mission time is the clock's at the speed, less a step of the simulation and a tick of it.
func TestMissionTime(t *testing.T) {
	for _, speed := range []float64{1, 20} {
		t.Run(fmt.Sprint(speed), func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				conf := testConfig()
				conf.Speed = speed
				began := time.Now()
				p := startPeer(t, conf)
				for range 100 {
					time.Sleep(time.Second / 3)
					passedS, flownS := time.Since(began).Seconds()*speed, p.autopilot.TimeS()
					if behindS := passedS - flownS; behindS < -1e-6 || behindS > stepS+max(0.002*speed, 0.02) {
						t.Errorf("%.3f s of mission time in %.3f", flownS, passedS)
					}
				}
				m := p.get(&common.MessageGlobalPositionInt{}).(*common.MessageGlobalPositionInt)
				time.Sleep(10 * time.Second)
				next := p.get(&common.MessageGlobalPositionInt{}).(*common.MessageGlobalPositionInt)
				if s := float64(next.TimeBootMs-m.TimeBootMs) / 1000; math.Abs(s-10*speed) > 0.003*speed+0.02 {
					t.Errorf("in messages %v s have passed, want %v", s, 10*speed)
				}
			})
		})
	}
}

// It flies on the sockets of this machine too, which nothing here times.
func TestOnRealSockets(t *testing.T) {
	conf := testConfig()
	conf.Speed = 20
	p := startPeerOn(t, nil, conf, func(at string) (gomavlib.EndpointConf, error) {
		return gomavlib.EndpointUDPClient{Address: strings.TrimPrefix(at, "udp:")}, nil
	})
	p.takeOff(5)
	if s := p.autopilot.State().Traffic; s.Malformed > 0 || s.Commands < 2 {
		t.Errorf("%+v", s)
	}
}

// Over a serial line, whose bytes come in pieces that are cut anywhere, it flies as over UDP.
func TestSerialLine(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		n, conf := simnet.New(1), testConfig()
		conf.on(n)
		conf.Listen, conf.Serial = "", "line:921600"
		n.Cable("line", "autopilot", "companion")
		p := startPeerOn(t, n, conf, n.Program("companion").Endpoint)
		p.takeOff(10)
		p.offboard(localSetpoint(positionAndVelocity, 30, 0, 10, 0, 0))
		p.until("arrival", func() bool {
			m, _ := p.get(&common.MessageLocalPositionNed{}).(*common.MessageLocalPositionNed)
			return m != nil && math.Abs(float64(m.X)-30) < 1 && math.Abs(float64(m.Y)) < 1
		})
		p.command(common.MAV_CMD_NAV_LAND)
		p.setStream(nil)
		p.until("the ground", func() bool { return !p.armed() })
		s, malformed := p.autopilot.State(), int(p.malformedFrames.Load())
		if !s.Landed || s.Traffic.Malformed+s.Traffic.Refused+malformed > 0 {
			t.Errorf("%+v, and %d malformed frames on the way back", s, malformed)
		}
	})
}

// The link sends to its configured partner first, then to the first sender it received from.
func TestPartner(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		n, conf := simnet.New(1), testConfig()
		conf.on(n)
		open := func(name string) (s datagram.Socket, received func() int) {
			s, err := n.Program(name).Socket("127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var count atomic.Int64
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for buffer := make([]byte, 300); ; count.Add(1) {
					if _, _, err := s.ReadFromUDPAddrPort(buffer); err != nil {
						return
					}
				}
			}()
			t.Cleanup(func() { s.Close(); <-ended })
			return s, func() int {
				time.Sleep(time.Second)
				return int(count.Swap(0))
			}
		}
		first, toFirst := open("first")
		conf.Partner = first.LocalAddr().String()
		a := &Autopilot{Config: conf}
		if err := a.Initialize(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Close)
		if toFirst() == 0 {
			t.Fatal("the configured partner receives nothing")
		}
		at := netip.MustParseAddrPort(a.Addr())
		second, toSecond := open("second")
		third, toThird := open("third")
		second.WriteToUDPAddrPort([]byte("not MAVLink"), at)
		if toSecond() == 0 {
			t.Fatal("the first sender receives nothing")
		}
		toFirst() // what was on its way
		third.WriteToUDPAddrPort([]byte("not MAVLink"), at)
		if a, b, c := toFirst(), toSecond(), toThird(); a > 0 || b == 0 || c > 0 {
			t.Errorf("the partners receive %d, %d and %d datagrams, want the second alone", a, b, c)
		}
	})
}

func TestAddressInUse(t *testing.T) {
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	conf := testConfig()
	conf.Listen = socket.LocalAddr().String()
	err = (&Autopilot{Config: conf}).Initialize()
	if err == nil || !strings.Contains(err.Error(), "address already in use") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
}

// The aircraft flies on after any input, and hostile setpoints leave its state finite.
func TestHostileInput(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		p := startPeer(t, testConfig())
		p.takeOff(10)
		c, err := p.network.Program("attacker").Socket("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		at := netip.MustParseAddrPort(p.autopilot.Addr())
		r := rand.New(rand.NewPCG(1, 2))
		for range 2000 {
			b := make([]byte, r.IntN(300))
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			if len(b) > 0 && r.IntN(2) == 0 {
				b[0] = 0xfd
			}
			c.WriteToUDPAddrPort(b, at)
		}
		anyFloat := func() float32 { return math.Float32frombits(r.Uint32()) }
		for range 200 {
			p.write(&common.MessageSetPositionTargetLocalNed{TargetSystem: 3, CoordinateFrame: common.MAV_FRAME(r.IntN(12)),
				TypeMask: common.POSITION_TARGET_TYPEMASK(r.IntN(1 << 16)),
				X:        anyFloat(), Y: anyFloat(), Z: anyFloat(), Vx: anyFloat(), Vy: anyFloat(), Vz: anyFloat(), Yaw: anyFloat()})
			p.write(&common.MessageSetPositionTargetGlobalInt{TargetSystem: 3, CoordinateFrame: common.MAV_FRAME(r.IntN(12)),
				TypeMask: common.POSITION_TARGET_TYPEMASK(r.IntN(1 << 16)),
				LatInt:   int32(r.Uint32()), LonInt: int32(r.Uint32()), Alt: anyFloat(), Vx: anyFloat(), Vy: anyFloat(), Vz: anyFloat(),
				Yaw: anyFloat()})
			p.write(&common.MessageCommandLong{TargetSystem: 3, Command: common.MAV_CMD(r.IntN(600)), Param1: anyFloat(),
				Param2: anyFloat(),
				Param3: anyFloat(), Param4: anyFloat(), Param5: anyFloat(), Param6: anyFloat(), Param7: anyFloat()})
			p.write(&common.MessageParamSet{TargetSystem: 3, ParamId: "MPC_XY_VEL_MAX", ParamValue: anyFloat(),
				ParamType: common.MAV_PARAM_TYPE_REAL32})
			p.write(&common.MessageParamRequestRead{TargetSystem: 3, ParamIndex: int16(r.Uint32())})
			p.write(&common.MessageSetMode{TargetSystem: 3, CustomMode: r.Uint32()})
			time.Sleep(5 * time.Millisecond) // in which they are sent
		}
		if r := p.command(common.MAV_CMD_NAV_LAND); r != accepted {
			t.Errorf("land: %v", r)
		}
		s := p.autopilot.State()
		for _, x := range []float64{s.Position.EastM, s.Position.NorthM, s.Position.UpM, s.Velocity.EastM, s.Velocity.NorthM,
			s.Velocity.UpM,
			s.Spent.J()} {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				t.Errorf("state %+v", s)
			}
		}
		if s.Traffic.Malformed == 0 || s.Traffic.Commands < 200 || s.Traffic.Setpoints+s.Traffic.Refused < 400 {
			t.Errorf("not all of it was handled: %+v", s.Traffic)
		}
	})
}

// The aircraft follows changes of its leg as fast as PX4 1.16 with its own SIH: a start
// to 8 m/s, a turn by half a circle, a stop. Speeds by seconds since the first leg.
func TestTurnsAsSlowlyAsPX4(t *testing.T) {
	px4 := []struct{ atS, mps float64 }{
		{0.5, 1.8}, {1.1, 5.1}, {1.5, 6.5}, {2, 7.5}, {3, 7.8}, {8.5, 5.8}, {8.8, 2.3}, {9.1, -0.7}, {9.5, -3.7}, {10, -5.6},
		{11, -6.5}, {16.5, -6.1}, {16.8, -3.1}, {17.2, -0.8}, {17.6, 0.4}, {18, 0.7},
	}
	v := newVehicle(Config{CapacityJ: 1e5, PowerW: func(int, geo.Local) float64 { return 0 },
		Parameters: map[string]float64{"MPC_XY_VEL_MAX": 12}})
	v.body.Position.UpM, v.groundContact, v.landed, v.armed, v.flownSinceArmed = 30, false, false, true, true
	v.intendedMode, v.mode = ModeOffboard, ModeOffboard
	worst, next, fromM := 0.0, 0, 0.0
	for tick := range 200 {
		legMPS, left := 8.0, 1-float64(tick%10)/10
		switch {
		case tick >= 160:
			legMPS = 0
		case tick >= 80:
			legMPS = -8
		}
		if at := v.body.Position.EastM; tick%10 == 0 && tick > 0 {
			fromM = at + clamp(fromM-at, -3, 3) // from the end of the last leg, within the deviation that the leader keeps
		}
		v.setpoint = Setpoint{Position: geo.Local{EastM: fromM + legMPS, UpM: 30},
			Velocity: geo.Local{EastM: legMPS * (1 - positionGain*left)}}
		v.setpointUS = v.timeUS
		for range 10 {
			v.step()
		}
		if left < 0.15 {
			fromM += legMPS
		}
		if next < len(px4) && float64(tick+1)/10 >= px4[next].atS-1e-9 {
			worst = max(worst, math.Abs(v.body.Velocity.EastM-px4[next].mps))
			t.Logf("%4.1f s: %5.1f m/s, PX4 %5.1f", px4[next].atS, v.body.Velocity.EastM, px4[next].mps)
			next++
		}
	}
	if next < len(px4) || worst > 2 {
		t.Errorf("up to %.1f m/s from PX4", worst)
	}
}

// An aircraft that cannot keep up with its clock is closed all the same, and does not catch up for ever. In real time: it
// is held up with its lock held.
func TestCloseWhileBehind(t *testing.T) {
	t.Parallel()
	moved := make(chan struct{}, 1)
	a := &Autopilot{Config: Config{
		SystemID: 1, Listen: "127.0.0.1:0", Speed: 1000, CapacityJ: 1e5, Log: slog.New(slog.DiscardHandler),
		PowerW: func(int, geo.Local) float64 { return 100 },
		OnMotion: func(int, State) {
			time.Sleep(5 * time.Millisecond) // in which the clock advances by five seconds
			select {
			case moved <- struct{}{}:
			default:
			}
		},
	}}
	if err := a.Initialize(); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		<-moved
	}
	a.Close()
}

// A parameter that cannot be set is refused with the names of those that can.
func TestCheckNamesTheSimulatedParameters(t *testing.T) {
	for _, c := range []struct {
		copter     bool
		name, want string
		x          float64
	}{
		{false, "MPC_XY_TRAJ_P", ", BAT1_CAPACITY, BAT1_N_CELLS, ", 5},
		{false, "MPC_XY_VEL_MAX", ", MPC_XY_VEL_MAX, ", -1},
		{true, "WPNAV_P", ", WPNAV_SPEED, ", 5},
	} {
		conf := Config{SystemID: 1, Speed: 1, CapacityJ: 1e5, Copter: c.copter, Parameters: map[string]float64{c.name: c.x}}
		start := fmt.Sprintf("autopilot parameter %s = %v: want 0 or more for one of those that are simulated", c.name, c.x)
		if err := conf.Check(); err == nil || !strings.HasPrefix(err.Error(), start) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// An adapter that is not plugged in is an error, and not an autopilot that is silent for ever.
func TestSerialPortThatIsNotThere(t *testing.T) {
	a := &Autopilot{Config: Config{SystemID: 1, Serial: t.TempDir() + "/ttyUSB0:921600", Speed: 1, CapacityJ: 1e5,
		PowerW: func(int, geo.Local) float64 { return 100 }}}
	if err := a.Initialize(); err == nil || !strings.Contains(err.Error(), "autopilot 1: serial port") {
		t.Errorf("%v", err)
	}
}

// In Hold it comes to rest where it is by then, as the real one does, and does not fly back: 21 to 23 m on when it is
// commanded at 8.9 to 9.5 m/s, 19 to 34 m on after its last setpoint at 7 to 9.2 m/s.
func TestStopsWhereItComesToRest(t *testing.T) {
	for _, c := range []struct{ mps, leastM, mostM float64 }{{9.5, 20, 25}, {8.9, 18, 23}} {
		v := cruising(c.mps)
		from := v.body.Position
		v.requestMode(ModeHold)
		stillS, onM := comesToRest(v, from)
		if onM < c.leastM || onM > c.mostM || stillS < 3.5 || stillS > 6 {
			t.Errorf("in Hold from %v m/s: still after %.1f s, %.1f m on", c.mps, stillS, onM)
		}
		t.Logf("%.1f s, %.1f m", stillS, onM)
	}
	for _, c := range []struct{ mps, leastM, mostM float64 }{{9.2, 26, 38}, {7, 17, 27}} {
		v := cruising(c.mps)
		stillS, onM := comesToRest(v, v.body.Position)
		if onM < c.leastM || onM > c.mostM || v.mode != ModeHold {
			t.Errorf("without setpoints from %v m/s: still after %.1f s, %.1f m on", c.mps, stillS, onM)
		}
		t.Logf("%.1f s, %.1f m", stillS, onM)
	}
}

// cruising is one that follows setpoints east at a speed.
func cruising(mps float64) *vehicle {
	v := newVehicle(Config{SystemID: 1, Speed: 1, CapacityJ: 1e6, PowerW: func(int, geo.Local) float64 { return 150 }})
	v.body.Position.UpM, v.groundContact, v.landed, v.armed, v.flownSinceArmed = 100, false, false, true, true
	for range 100 {
		p := v.body.Position
		v.acceptSetpoint(Setpoint{Position: geo.Local{EastM: p.EastM + mps, NorthM: p.NorthM, UpM: 100},
			Velocity: geo.Local{EastM: mps * (1 - positionGain)}}, 0)
		v.setIntendedMode(ModeOffboard)
		for range int(0.1 / stepS) {
			v.step()
		}
	}
	v.body.Velocity.EastM, v.velocityIntegral.EastM = mps, dragPerS*mps
	return v
}

// comesToRest is how long and how far on it is still, and fails to be where it comes back.
func comesToRest(v *vehicle, from geo.Local) (stillS, onM float64) {
	began := v.timeS()
	for v.timeS()-began < 60 {
		v.step()
		if d := v.body.Position.Sub(from).HorizontalM(); v.body.SpeedMPS() > 0.3 {
			stillS, onM = v.timeS()-began, d
		}
	}
	return stillS, onM
}
