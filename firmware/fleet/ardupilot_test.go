package fleet

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/firmware/height"
	"prefdt/inference/physics"
)

const copterLoiter Mode = 5

// safeCopter are parameters with which an ArduCopter may fly for system 250, by their older names.
func safeCopter() map[string]float32 {
	return map[string]float32{
		"GUID_TIMEOUT": 1, "FS_GCS_ENABLE": 1, "SYSID_MYGCS": 250, "BATT_FS_LOW_ACT": 2, "BATT_FS_CRT_ACT": 1, "BATT_LOW_VOLT": 14,
		"BATT_CRT_VOLT": 0,
		"WPNAV_SPEED":   1200, "SYSID_ENFORCE": 1, "WPNAV_ACCEL": 500, "PSC_JERK_XY": 20,
	}
}

// newSimCopter is an ArduCopter on the ground, in STABILIZE, with its motors off.
func newSimCopter(b *fixture, number int, at physics.Position) *simVehicle {
	v := &simVehicle{fixture: b, number: number, bootMS: 60_000, copter: true, landed: true, position: at, battery: 90}
	v.sendHeartbeat()
	for name, x := range safeCopter() {
		v.transmit(&common.MessageParamValue{ParamId: name, ParamType: common.MAV_PARAM_TYPE_INT32, ParamValue: x})
	}
	v.sendState()
	v.sendState()
	return v
}

// follow does what a command says, as ArduCopter does, at once. A take-off lasts until the
// test ends it.
func (v *simVehicle) follow(m message.Message) {
	switch what, mode := classify(ardupilot{}, m); what {
	case kindArm:
		v.armed = true
	case kindTakeOff:
		v.landed, v.climbs, v.upM = false, true, v.Limits.AltitudeM/2
	case kindMode:
		v.mode = mode
	}
}

// copterFlying is an ArduCopter that flies for the leader at H.
func copterFlying(t *testing.T) *simVehicle {
	t.Helper()
	v := newSimCopter(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.simulate(time.Second, nil)
	if err := v.Launch(ordered(1)); err != nil {
		t.Fatal(err)
	}
	v.simulate(5*time.Second, v.follow)
	v.upM, v.climbs = 100, false
	v.simulate(2*time.Second, v.follow)
	v.Hold(1)
	v.simulate(time.Second, v.follow)
	if got := v.view(); !got.Flying || got.Role != RoleCommanded || got.Autopilot() != "ardupilot" || got.ModeName != "GUIDED" {
		t.Fatalf("it does not fly: %s in %s, %s: %s", got.Phase, got.ModeName, got.Role, got.Reason)
	}
	return v
}

// moving simulates a while, and returns what was sent that moves the aircraft.
func (v *simVehicle) moving(d time.Duration, follows bool) (modes []Mode, arms, takeoffs []*common.MessageCommandLong, setpoints int) {
	v.simulate(d, func(m message.Message) {
		what, mode := classify(ardupilot{}, m)
		switch what {
		case kindMode:
			modes = append(modes, mode)
		case kindArm:
			arms = append(arms, m.(*common.MessageCommandLong))
		case kindTakeOff:
			takeoffs = append(takeoffs, m.(*common.MessageCommandLong))
		case kindSetpoint:
			setpoints++
		}
		if follows {
			v.follow(m)
		}
	})
	return modes, arms, takeoffs, setpoints
}

// It is put into GUIDED, then armed, then takes off once to H above its home, without a
// setpoint until that is over, and flies without another command of a mode.
func TestCopterTakesOffOnceWithoutSetpoints(t *testing.T) {
	v := newSimCopter(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.upM = 4 // its home lies above the origin
	v.simulate(time.Second, nil)
	if got := v.view(); got.Role != RoleOther {
		t.Errorf("STABILIZE is %s", got.Role)
	}
	if err := v.Launch(ordered(1)); err != nil {
		t.Fatal(err)
	}
	modes, arms, takeoffs, setpoints := v.moving(8*time.Second, true)
	if len(modes) != 1 || modes[0] != copterGuided || len(arms) != 1 || len(takeoffs) != 1 || setpoints != 0 {
		t.Fatalf("modes %v, armed %d times, took off %d times, %d setpoints in the climb", modes, len(arms), len(takeoffs), setpoints)
	}
	if got := takeoffs[0].Param7; got != 96 {
		t.Errorf("it is to climb %v m above its home, want 96", got)
	}
	if got := v.view(); got.Role != RoleTakeoff || got.Phase != PhaseClimbing {
		t.Errorf("in its climb it is %s, %s", got.Role, got.Phase)
	}
	for name, change := range map[string]func(){ // a setpoint would end it
		"the landed state does not come": func() { v.noLandedState = true },
		"it nears H":                     func() { v.upM = 98 },
		"likewise, and no landed state":  func() { v.noLandedState, v.upM = true, 98 },
	} {
		v.upM, v.noLandedState, v.climbMPS = 60, false, 2
		change()
		if modes, _, takeoffs, setpoints := v.moving(7*time.Second, true); len(modes)+len(takeoffs)+setpoints > 0 {
			t.Errorf("%s: modes %v, %d take-offs, %d setpoints", name, modes, len(takeoffs), setpoints)
		}
	}
	v.upM, v.climbs, v.noLandedState, v.climbMPS = 100, false, false, 0
	modes, arms, takeoffs, setpoints = v.moving(2*time.Second, true)
	if got := v.view(); len(modes)+len(arms)+len(takeoffs) > 0 || setpoints < 10 || !got.Flying {
		t.Errorf("at H: modes %v, %d take-offs, %d setpoints, %s", modes, len(takeoffs), setpoints, got.Phase)
	}
}

// A take-off that ended too low is not commanded again: it climbs by setpoints.
func TestCopterClimbsOnBySetpoints(t *testing.T) {
	v := newSimCopter(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.simulate(time.Second, nil)
	v.Launch(ordered(1))
	v.simulate(5*time.Second, v.follow)
	v.upM, v.climbs = 12, false
	var up []float32
	v.simulate(3*time.Second, func(m message.Message) {
		if what, _ := classify(ardupilot{}, m); what == kindTakeOff {
			t.Error("a take-off is commanded in the air")
		}
		if s, ok := m.(*common.MessageSetPositionTargetGlobalInt); ok {
			up = append(up, s.Alt)
		}
	})
	if len(up) < 20 || math.Abs(float64(up[0])-500) > 0.1 {
		t.Errorf("%d setpoints, to %v m", len(up), up)
	}
	if !v.view().Climbs {
		t.Error("far below H it does not climb")
	}
	v.upM = 99
	if v.simulate(time.Second, nil); v.view().Climbs {
		t.Error("at H it climbs")
	}
}

// An order to land or to stop in its climb ends that by its mode alone: a setpoint would end it sooner.
func TestCopterClimbIsEndedByNoSetpoint(t *testing.T) {
	for name, order := range map[string]func(*simVehicle){
		"home": func(v *simVehicle) { v.SendHome(1) }, "stop": func(v *simVehicle) { v.Stop(1) },
	} {
		v := copterFlying(t) // with the trajectory of a flight before this one
		v.landed, v.armed, v.upM = true, false, 0
		v.simulate(2*time.Second, nil)
		if err := v.Launch(ordered(1)); err != nil {
			t.Fatal(err)
		}
		v.simulate(5*time.Second, v.follow)
		v.upM = 40
		order(v)
		modes, _, _, setpoints := v.moving(3*time.Second, false)
		if len(modes) == 0 || setpoints > 0 {
			t.Errorf("%s: modes %v, and %d setpoints in the climb", name, modes, setpoints)
		}
	}
}

// While no HEARTBEAT shows that it lands, or holds, as commanded, the leader's own go on: without them it
// would break that off and return.
func TestCopterLandsUnknown(t *testing.T) {
	for name, order := range map[string]func(*simVehicle){
		"home": func(v *simVehicle) { v.SendHome(1) }, "stop": func(v *simVehicle) { v.Stop(1) },
	} {
		v := copterFlying(t)
		order(v)
		v.simulate(4*time.Second, nil)
		v.noHeartbeats = true
		v.simulate(10*time.Second, nil)
		if a := v.Fleet.aircraft[0]; !a.controlled() || a.leaderStalled() {
			t.Errorf("%s: %s, the HEARTBEATs end %v", name, a.phase, a.leaderStalled())
		}
	}
}

// Prearm is read in GUIDED: a good check of STABILIZE says nothing, one that fails would fail in GUIDED, too. After a landing,
// LAND and RTL cannot be armed in.
func TestCopterPreArmIsOfItsMode(t *testing.T) {
	v := newSimCopter(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.simulate(time.Second, nil)
	good := &common.MessageSysStatus{OnboardControlSensorsHealth: common.MAV_SYS_STATUS_PREARM_CHECK}
	v.transmit(good)
	if got := v.view().PreArm; got != PreArmOtherMode {
		t.Errorf("in STABILIZE: %s", got)
	}
	v.transmit(&common.MessageSysStatus{})
	if got := v.view().PreArm; got != PreArmFails {
		t.Errorf("in STABILIZE, failing: %s", got)
	}
	v.mode = copterLand
	v.sendHeartbeat()
	v.transmit(&common.MessageSysStatus{})
	if got := v.view().PreArm; got != PreArmOtherMode {
		t.Errorf("in LAND: %s", got)
	}
	v.mode = copterGuided
	v.sendHeartbeat()
	if got := v.view(); got.PreArm != PreArmUnknown || got.Role != RoleArmable {
		t.Errorf("in GUIDED, before another check: %s, %s", got.PreArm, got.Role)
	}
	v.transmit(&common.MessageSysStatus{})
	if got := v.view().PreArm; got != PreArmFails {
		t.Errorf("in GUIDED: %s", got)
	}
	v.transmit(good)
	if got := v.view().PreArm; got != PreArmGood {
		t.Errorf("in GUIDED: %s", got)
	}
}

// Hold is BRAKE: LOITER would sink where the throttle is low. Return is RTL, to land LAND.
func TestCopterHoldIsBrake(t *testing.T) {
	v := copterFlying(t)
	v.Stop(1)
	if modes, _, _, _ := v.moving(3*time.Second, true); len(modes) != 1 || modes[0] != copterBrake {
		t.Errorf("stopped by %v, want BRAKE", modes)
	}
	if got := v.view(); got.Role != RoleHold || got.Phase != PhasePilot || got.Reason != "stopped" {
		t.Errorf("stopped it is %s in %s, %s: %s", got.Phase, got.ModeName, got.Role, got.Reason)
	}
	if err := v.Resume(resume(1, true)); err != nil {
		t.Fatal(err)
	}
	modes, _, _, _ := v.moving(8*time.Second, true)
	if len(modes) < 1 || modes[len(modes)-1] != copterLand {
		t.Errorf("sent home over its home: %v, want LAND at last", modes)
	}
	v = copterFlying(t)
	v.Stop(1)
	v.mode = copterLoiter // its pilot's, before the command arrives
	if modes, _, _, _ := v.moving(4*time.Second, false); len(modes) > 2 || v.view().Phase != PhasePilot {
		t.Errorf("LOITER is overruled: %v, %s", modes, v.view().Phase)
	}
	v = copterFlying(t)
	v.Fleet.aircraft[0].home = nil
	v.SendHome(1)
	if modes, _, _, _ := v.moving(2*time.Second, true); len(modes) != 1 || modes[0] != copterRTL {
		t.Errorf("without a home: %v, want RTL", modes)
	}
}

// GUIDED is commanded over no mode that the leader did not leave it in: its pilot's, another
// station's, or a failsafe's, whether or not that is reported as one.
func TestCopterGuidedOverrulesNobody(t *testing.T) {
	for _, mode := range []Mode{0, 2, 3, copterLoiter, copterRTL, copterLand, 16, copterBrake, copterSmartRTL} {
		for _, critical := range []bool{false, true} {
			for _, homeward := range []bool{false, true} {
				v := copterFlying(t)
				if homeward {
					v.position.EastM += 100
					v.sendState()
					v.SendHome(1)
					v.simulate(500*time.Millisecond, v.follow)
				}
				v.mode, v.failsafe = mode, critical
				v.simulate(1200*time.Millisecond, nil) // until its HEARTBEAT
				modes, arms, takeoffs, setpoints := v.moving(40*time.Second, false)
				if got := v.view(); len(modes)+len(arms)+len(takeoffs)+setpoints > 0 || got.Phase != PhasePilot {
					t.Errorf("%s, critical %v, homeward %v: modes %v, %d setpoints, %s", got.ModeName, critical, homeward, modes, setpoints,
						got.Phase)
				}
				v.mode = copterGuided // by another: it is not the leader's again
				if modes, _, _, setpoints := v.moving(5*time.Second, false); len(modes)+setpoints > 0 {
					t.Errorf("its pilot's GUIDED is taken: modes %v, %d setpoints", modes, setpoints)
				}
			}
		}
	}
}

// A resume is refused while a failsafe is reported, which it would end, and in a take-off.
func TestCopterResume(t *testing.T) {
	for want, change := range map[string]func(v *simVehicle){
		"":                         func(v *simVehicle) { v.mode = copterLoiter },
		"its autopilot reports":    func(v *simVehicle) { v.mode, v.failsafe = copterRTL, true },
		"takes off, which a setpo": func(v *simVehicle) { v.mode, v.climbs = copterGuided, true },
	} {
		v := copterFlying(t)
		v.mode = copterLoiter
		v.simulate(1200*time.Millisecond, nil)
		change(v)
		v.simulate(1200*time.Millisecond, nil)
		err := v.Resume(resume(1, false))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("resume: %v, want %q", err, want)
		}
		if want != "" {
			continue
		}
		v.simulate(3*time.Second, v.follow)
		if got := v.view(); !got.Flying {
			t.Errorf("resumed it is %s in %s", got.Phase, got.ModeName)
		}
	}
	v := copterFlying(t) // a failsafe that comes with the order
	v.mode = copterLoiter
	v.simulate(1200*time.Millisecond, nil)
	if err := v.Resume(resume(1, false)); err != nil {
		t.Fatal(err)
	}
	v.failsafe = true
	v.sendHeartbeat()
	if modes, _, _, _ := v.moving(5*time.Second, false); len(modes) > 0 {
		t.Errorf("commanded over a failsafe: %v", modes)
	}
}

// After a restart GUIDED is the leader's only where the leader can have left the aircraft.
func TestCopterRejoin(t *testing.T) {
	for name, c := range map[string]struct {
		downS  float64
		change func(v *simVehicle, saved *SavedAircraft)
		flies  bool
	}{
		"2.5 s":                {2.5, func(*simVehicle, *SavedAircraft) {}, true},
		"it flew on to a stop": {2.5, func(v *simVehicle, _ *SavedAircraft) { v.position.EastM += 50 }, true},
		"the take-off ended":   {2.5, func(_ *simVehicle, s *SavedAircraft) { s.Engaged = false }, true},
		"sent away":            {2.5, func(v *simVehicle, _ *SavedAircraft) { v.position.EastM += 150 }, false},
		"sent away after take-off": {2.5, func(v *simVehicle, s *SavedAircraft) {
			v.position.EastM, s.Engaged = v.position.EastM+30, false
		}, false},
		"15 s, another flies it":     {15, func(v *simVehicle, _ *SavedAircraft) { v.velocity.EastM = 5 }, false},
		"15 s, another turns it":     {15, func(v *simVehicle, _ *SavedAircraft) { v.velocity.EastM, v.accelMPSS = 1, -1 }, false},
		"15 s, it has no failsafe":   {15, func(*simVehicle, *SavedAircraft) {}, true},
		"15 s, returns":              {15, func(v *simVehicle, _ *SavedAircraft) { v.mode, v.failsafe = copterRTL, true }, false},
		"15 s, returns by its fence": {15, func(v *simVehicle, _ *SavedAircraft) { v.mode = copterRTL }, false},
		"LOITER":                     {2.5, func(v *simVehicle, _ *SavedAircraft) { v.mode = copterLoiter }, false},
		"BRAKE":                      {2.5, func(v *simVehicle, _ *SavedAircraft) { v.mode = copterBrake }, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := copterFlying(t)
			saved := v.SavedState()
			v.bootMS += uint32(1000 * c.downS)
			c.change(v, &saved[0])
			v.replaceLeader(saved)
			v.simulate(500*time.Millisecond, nil)
			err := v.Rejoin(1)
			for range 10 {
				if err != nil || v.view().Phase != PhaseRejoining {
					break
				}
				v.velocity.EastM += v.accelMPSS / 2
				v.simulate(500*time.Millisecond, nil)
				err = v.Rejoin(1)
			}
			modes, _, takeoffs, setpoints := v.moving(10*time.Second, false)
			got := v.view()
			if len(modes)+len(takeoffs) > 0 || c.flies != (err == nil) || c.flies != got.Flying ||
				!c.flies && (setpoints > 0 || got.Phase != PhasePilot) {
				t.Errorf("%v: modes %v, %d take-offs, %d setpoints, %s: %s", err, modes, len(takeoffs), setpoints, got.Phase, got.Reason)
			}
		})
	}
	v := newSimCopter(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300}) // in its climb
	v.simulate(time.Second, nil)
	v.Launch(ordered(1))
	v.simulate(5*time.Second, v.follow)
	v.replaceLeader(v.SavedState())
	v.simulate(500*time.Millisecond, nil)
	err := v.Rejoin(1)
	if modes, _, takeoffs, setpoints := v.moving(5*time.Second, false); err != nil || len(modes)+len(takeoffs)+setpoints > 0 ||
		v.view().Phase != PhaseClimbing {
		t.Errorf("in its climb: %v, modes %v, %d setpoints, %s", err, modes, setpoints, v.view().Phase)
	}
	v.upM, v.climbs = 100, false
	if v.moving(2*time.Second, true); !v.view().Flying {
		t.Errorf("after its climb it is %s", v.view().Phase)
	}
}

// Where the loop stalls the leader's HEARTBEATs end with its setpoints, for they are what an
// ArduCopter takes for its leader's life; PX4 counts setpoints.
func TestCopterNoticesAStalledLoop(t *testing.T) {
	for name, v := range map[string]*simVehicle{"ArduCopter": copterFlying(t), "PX4": flyingVehicle(t)} {
		heartbeats := func() (n int) { // on its link, of those that run sends once a second
			v.sent.frames = nil
			v.mutex.Lock()
			defer v.mutex.Unlock()
			v.sendHeartbeats()
			for _, w := range v.sent.frames {
				if w.channel == channels[0] {
					n++
				}
			}
			return n
		}
		v.simulate(11*time.Second, nil)
		if heartbeats() == 0 {
			t.Errorf("%s: no HEARTBEAT within the time that a loop may stall", name)
		}
		v.simulate(4*time.Second, nil)
		if n := heartbeats(); (n == 0) != v.copter {
			t.Errorf("%s: %d HEARTBEATs after 15 s without the loop", name, n)
		}
		v.Hold(1)
		if heartbeats() == 0 {
			t.Errorf("%s: no HEARTBEAT when the loop is back", name)
		}
	}
}

// Nobody steers one that returns from a stalled loop: none does through another, nor two through each other.
func TestStalledLoopReturnsNoneThroughAnother(t *testing.T) {
	for name, c := range map[string]struct {
		at, home physics.Position
		role     Role
		want     bool
	}{
		"it hovers beside its home":  {physics.Position{EastM: 6}, physics.Position{EastM: 6}, RoleHold, false},
		"it hovers beside its way":   {physics.Position{EastM: 8, NorthM: 50}, physics.Position{EastM: 90}, RoleHold, false},
		"it hovers at the next home": {physics.Position{EastM: 12}, physics.Position{EastM: 12}, RoleHold, true},
		"it comes home by itself": {physics.Position{EastM: 40, NorthM: 50}, physics.Position{EastM: -40, NorthM: 50}, RoleReturn,
			false},
		"it hovers beyond":            {physics.Position{EastM: 40, NorthM: 50}, physics.Position{EastM: -40, NorthM: 50}, RoleHold, true},
		"the same way, side by side":  {physics.Position{EastM: 12, NorthM: 99}, physics.Position{EastM: 12}, RoleReturn, true},
		"it was returned to its home": {physics.Position{EastM: 12}, physics.Position{EastM: 12}, RoleReturn, true},
	} {
		v := copterFlying(t)
		f, a := v.Fleet, v.Fleet.aircraft[0]
		a.position, a.home = physics.Position{NorthM: 100}, &physics.Position{}
		b := f.aircraft[1]
		b.located, b.armed, b.landed, b.position, b.home, b.params = true, true, new(false), c.at, &c.home, a.params
		b.mode = a.params.kind().traits().modes[c.role]
		if got := f.returnsClear(a); got != c.want {
			t.Errorf("%s: its way is clear: %v", name, got)
		}
	}
}

func flyingVehicle(t *testing.T) *simVehicle {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.simulate(time.Second, nil)
	fly(v)
	return v
}

// Without its leader an ArduCopter hovers until its pack is empty, unless its parameters say
// otherwise. Names and units are those of either version.
func TestCopterParameters(t *testing.T) {
	for _, c := range []struct {
		name  string
		value float32
		want  string
	}{
		{"GUID_TIMEOUT", 1, ""}, {"GUID_TIMEOUT", 3, "GUID_TIMEOUT is 3 s"}, {"GUID_TIMEOUT", 0, "GUID_TIMEOUT is 0 s"},
		{"FS_GCS_ENABLE", 0, "FS_GCS_ENABLE is 0"}, {"FS_GCS_ENABLE", 2, "FS_GCS_ENABLE is 2"}, {"FS_GCS_ENABLE", 6, "FS_GCS_ENABLE is 6"},
		{"FS_GCS_ENABLE", 3, ""}, {"FS_GCS_ENABLE", 4, ""},
		{"FS_GCS_ENABLE", 5, ""}, {"FS_GCS_ENABLE", 7, ""}, {"SYSID_MYGCS", 255, "is 255, want the leader's 250"},
		{"MAV_GCS_SYSID", 255, "is 255, want the leader's 250"},
		{"MAV_GCS_SYSID_HI", 255, "MAV_GCS_SYSID_HI is 255"}, {"FS_GCS_TIMEOUT", 60, "FS_GCS_TIMEOUT is 60"},
		{"BATT_FS_LOW_ACT", 0, "no battery failsafe"}, {"BATT_LOW_VOLT", 0, "no battery failsafe"},
		{"MAV_OPTIONS", 0, "obeys anybody"}, {"WPNAV_SPEED", 0, "WPNAV_SPEED (WP_SPD) is 0"},
	} {
		v := newSimCopter(newFixture(t), 1, physics.Position{})
		v.transmit(&common.MessageParamValue{ParamId: c.name, ParamType: common.MAV_PARAM_TYPE_INT8, ParamValue: c.value})
		p := v.view().Params
		if got := p.UnsafeReason(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s %v: %q, want %q", c.name, c.value, got, c.want)
		}
	}
	v := newSimCopter(newFixture(t), 1, physics.Position{})
	for name, x := range map[string]float32{"WP_SPD": 8, "WP_SPD_UP": 3, "WP_SPD_DN": 2, "WP_ACC": 4, "LAND_SPD_MS": 1,
		"LAND_ALT_LOW_M": 20, "BATT_LOW_VOLT": 0, "BATT_LOW_MAH": 500} {
		v.transmit(&common.MessageParamValue{ParamId: name, ParamType: common.MAV_PARAM_TYPE_REAL32, ParamValue: x})
	}
	p := v.view().Params
	if p.SpeedMaxMPS != 8 || p.ClimbMPS != 3 || p.DescentMPS != 2 || p.AccelMPSS != 4 || p.DescentS(100) != 80/2+20 ||
		p.UnsafeReason() != "" {
		t.Errorf("by the later names: %+v, down in %v s, %q", p, p.DescentS(100), p.UnsafeReason())
	}
	w := &simVehicle{fixture: newFixture(t), number: 1, copter: true, landed: true}
	w.sendHeartbeat()
	p = w.view().Params
	if why := p.UnsafeReason(); p.Complete() || !strings.Contains(why, "MAV_GCS_SYSID") || !strings.Contains(why, "SYSID_MYGCS") {
		t.Errorf("before any was read: %q", why)
	}
}

// All that is unsafe of what was read is named at once, and what was not read, with what it needs.
func TestUnsafeReasons(t *testing.T) {
	v := &simVehicle{fixture: newFixture(t), number: 1, copter: true, landed: true}
	v.sendHeartbeat()
	for name, x := range map[string]float32{"GUID_TIMEOUT": 3, "FS_GCS_ENABLE": 0, "SYSID_MYGCS": 255, "WPNAV_SPEED": 1000,
		"SYSID_ENFORCE": 0} {
		v.transmit(&common.MessageParamValue{ParamId: name, ParamType: common.MAV_PARAM_TYPE_REAL32, ParamValue: x})
	}
	p := v.view().Params
	got := p.UnsafeReasons()
	want := []string{
		"BATT_FS_LOW_ACT, BATT_FS_CRT_ACT, BATT_LOW_VOLT, BATT_CRT_VOLT were not read yet; those of the battery need BATT_MONITOR",
		"GUID_TIMEOUT is 3 s", "FS_GCS_ENABLE is 0", "(SYSID_MYGCS) is 255", "(SYSID_ENFORCE) is 0",
	}
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i, text := range want {
		if !strings.Contains(got[i], text) {
			t.Errorf("%q, want %q", got[i], text)
		}
	}
}

// ArduPilot flies other vehicles too, whose modes have other numbers.
func TestOtherVehiclesOfArduPilot(t *testing.T) {
	v := &simVehicle{fixture: newFixture(t), number: 1}
	m := heartbeatMessage(copterGuided, false)
	m.Type, m.Autopilot = common.MAV_TYPE_FIXED_WING, common.MAV_AUTOPILOT_ARDUPILOTMEGA
	v.transmit(m)
	v.sendState()
	if got := v.view(); got.Ready() == nil || !strings.Contains(got.Ready().Error(), "ARDUPILOTMEGA (3) of a FIXED_WING") {
		t.Errorf("a plane: %v", got.Ready())
	}
}

// Modes are told apart by what they are for.
func TestCopterRoles(t *testing.T) {
	for mode, want := range map[Mode]Role{copterBrake: RoleHold, copterLoiter: RoleOther, 16: RoleOther, copterRTL: RoleReturn,
		copterSmartRTL: RoleReturn, copterLand: RoleLand, 0: RoleOther, 99: RoleOther} {
		a := aircraft{armed: true, landed: new(false)}
		if got := (ardupilot{}).role(&a, mode); got != want {
			t.Errorf("%s is %s, want %s", ardupilot{}.modeName(mode), got, want)
		}
	}
}

// The envelope knows how late an aircraft follows: by its autopilot, its parameters, and the
// delays of its positions and setpoints.
func TestLagOfEachAircraft(t *testing.T) {
	px4Lag, _ := px4{}.motion(&Parameters{})
	agile, agileStopsM := ardupilot{}.motion(&Parameters{ardupilotParameters: ardupilotParameters{AccelMPSS: 5, JerkMPSSS: 20}})
	stock, stockStopsM := ardupilot{}.motion(&Parameters{ardupilotParameters: ardupilotParameters{AccelMPSS: 2.5, JerkMPSSS: 5}})
	if !(px4Lag < agile && agile < stock && agileStopsM >= 12.7 && stockStopsM >= 21.5) {
		t.Errorf("lags %v, %v, %v s; %v, %v m to stop", px4Lag, agile, stock, agileStopsM, stockStopsM)
	}
	v := copterFlying(t)
	if p := v.view().Params; len(p.Warnings(1)) != 1 { // FS_OPTIONS
		t.Errorf("agile: %v", p.Warnings(1))
	}
	v.transmit(&common.MessageParamValue{ParamId: "WPNAV_ACCEL", ParamValue: 250})
	if p := v.view().Params; len(p.Warnings(1)) != 2 || !strings.Contains(p.Warnings(1)[0], "up to 27 m more distance") {
		t.Errorf("by default: %v", p.Warnings(1))
	}
	v = flyingVehicle(t)
	a := v.Fleet.aircraft[0]
	v.Hold(1)
	v.simulate(8*time.Second, nil)
	if a.delayS > 0.02 {
		t.Errorf("in time: %.2f s", a.delayS)
	}
	v.silent = true
	v.simulate(500*time.Millisecond, nil)
	v.silent = false
	if math.Abs(a.delayS-0.3) > 0.11 {
		t.Errorf("positions 0.4 s late: %.2f s", a.delayS)
	}
	v.Hold(1)
	v.simulate(8*time.Second, nil)
	v.clock.Advance(400 * time.Millisecond) // the loop of setpoints stalls
	v.sendState()
	v.Hold(1)
	v.simulate(200*time.Millisecond, nil)
	if math.Abs(a.delayS-0.3) > 0.11 {
		t.Errorf("setpoints 0.4 s late: %.2f s", a.delayS)
	}
	v.Hold(1)
	v.simulate(8*time.Second, nil)
	if a.delayS > 0.02 {
		t.Errorf("in time again: %.2f s", a.delayS)
	}
}

// The moment at which it rests may be missed: it stays where it turns, and is not flown back from there.
func TestHoldsWhereItTurns(t *testing.T) {
	at, from := physics.Position{EastM: 312, NorthM: 300}, physics.Position{EastM: 300, NorthM: 300}
	for name, c := range map[string]struct{ eastMPS, wantM float64 }{"on its way": {3, 300}, "already back": {-2.7, 312}} {
		a := &aircraft{position: at, velocity: physics.Position{EastM: c.eastMPS, NorthM: 1}}
		a.trajectory = trajectory{kind: trajectoryHold, from: from}
		if got, _ := a.reference(1); got.EastM != c.wantM {
			t.Errorf("%s: it is to stay at %.0f m, want %.0f", name, got.EastM, c.wantM)
		}
	}
}

// A hold is where an aircraft comes to rest, however late it follows: it is not flown back to where
// it was ordered. So it is after a stall of the loop, in which an ArduCopter stops by itself.
func TestHoldsWhereItComesToRest(t *testing.T) {
	const stallS = 9
	at := physics.Position{EastM: 300, NorthM: 300}
	for name, c := range map[string]struct{ slow, stalls bool }{"agile": {}, "slow": {slow: true}, "the loop stalls": {stalls: true}} {
		w := newCopterSky(t, c.slow, at)
		v := w.fliers[0]
		if !w.start(3*time.Minute, at) {
			t.Fatalf("%s: not at its start", name)
		}
		for range 8 {
			w.Leg(1, physics.Position{EastM: 8})
			w.fly(time.Second, nil)
		}
		ordered, rested := v.position, false
		w.Hold(1)
		for i := 0; c.stalls && i < 10*stallS; i++ {
			w.clock.Advance(100 * time.Millisecond)
			for range 10 {
				v.step(0.01)
			}
		}
		for range 20 {
			w.Hold(1)
			w.fly(time.Second, func() bool {
				if speed := v.velocity.Norm(); speed < stillMPS && !rested {
					rested, v.fastest = true, 0
				}
				return false
			})
		}
		t.Logf("%s: it rests %.1f m farther, after up to %.1f m/s", name, v.position.Sub(ordered).Norm(), v.fastest)
		if !rested || v.fastest > 1 || v.velocity.Norm() > stillMPS {
			t.Errorf("%s: it came to rest %v, and flew at %.1f m/s afterwards", name, rested, v.fastest)
		}
	}
}

// A pilot who takes one as its motors come up leaves it on the ground, and its land detector may say that it flies: a resume would have
// it take off by setpoints. Once it is up there it climbs where it is, also outside the area.
func TestCopterResumedLow(t *testing.T) {
	v := newSimCopter(newFixture(t), 1, physics.Position{EastM: 300, NorthM: -36})
	v.simulate(time.Second, nil)
	v.Launch(ordered(1))
	v.simulate(5*time.Second, v.follow)
	v.upM, v.climbs, v.mode = 0, false, copterLoiter
	v.simulate(3*time.Second, nil)
	if err := v.Resume(resume(1, false)); err == nil || !strings.Contains(err.Error(), "stands where it was launched") {
		t.Errorf("resumed on the ground: %v", err)
	}
	v.upM = 12
	v.simulate(time.Second, nil)
	if err := v.Resume(resume(1, false)); err != nil {
		t.Fatal(err)
	}
	v.Goto(1, physics.Position{EastM: 300, NorthM: 60})
	setpoints, aside := 0, 0.0
	v.simulate(1500*time.Millisecond, func(m message.Message) {
		v.follow(m)
		if s, ok := m.(*common.MessageSetPositionTargetGlobalInt); ok {
			at, _ := v.Origin.Local(float64(s.LatInt)/1e7, float64(s.LonInt)/1e7, height.AboveSea(s.Alt))
			setpoints, aside = setpoints+1, max(aside, at.Sub(v.position).Norm(), math.Hypot(float64(s.Vx), float64(s.Vy)))
		}
	})
	if setpoints == 0 || aside > 0.1 {
		t.Errorf("%d setpoints, up to %.1f m aside or m/s", setpoints, aside)
	}
}
