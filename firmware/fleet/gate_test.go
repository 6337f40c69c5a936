package fleet

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/inference/physics"
)

// One place in the package writes to a channel, and it asks the gate.
func TestNothingIsSentPastTheGate(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	asks := false
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if ok && (strings.HasPrefix(s.Sel.Name, "WriteMessage") || strings.HasPrefix(s.Sel.Name, "WriteFrame")) {
					found = append(found, name+": "+f.Name.Name)
				}
				if ok && f.Name.Name == "send" && s.Sel.Name == "refusal" {
					asks = true
				}
				return true
			})
		}
	}
	if len(found) != 1 || found[0] != "gate.go: send" || !asks {
		t.Errorf("messages are written in %v, want gate.go: send alone, which asks the gate: %v", found, asks)
	}
}

var (
	armCommand      = &common.MessageCommandLong{Command: common.MAV_CMD_COMPONENT_ARM_DISARM, Param1: 1}
	takeoffCommand  = &common.MessageCommandLong{Command: common.MAV_CMD_NAV_TAKEOFF}
	anySetpoint     = &common.MessageSetPositionTargetGlobalInt{}
	holdCommand     = px4{}.setMode(ModeHold)
	offboardCommand = px4{}.setMode(ModeOffboard)
	landCommand     = px4{}.setMode(ModeLand)
)

func TestGate(t *testing.T) {
	const now = 1000.0
	up, down := false, true
	flies := func(phase Phase, mode Mode) aircraft {
		return aircraft{
			number: 1, channel: channels[0], received: true, receivedS: now, heartbeatS: now, located: true, positionS: now, armed: true,
			landed: &up, mode: mode,
			control: control{phase: phase},
		}
	}
	grounded := func() aircraft {
		a := flies(PhaseClimbing, ModeHold)
		a.armed, a.landed, a.launchedS = false, &down, now
		return a
	}
	with := func(a aircraft, change func(*aircraft)) aircraft { change(&a); return a }
	for _, c := range []struct {
		name string
		a    aircraft
		m    message.Message
		want string // part of the reason; empty: it passes
	}{
		{"arms one that is to leave the ground", grounded(), armCommand, ""},
		{"arms only in Hold", with(grounded(), func(a *aircraft) { a.mode = ModeOffboard }), armCommand, "cannot be armed in OFFBOARD"},
		{"Hold, to be armed in", with(grounded(), func(a *aircraft) { a.mode = ModeOffboard }), holdCommand, ""},
		{"arms in the tenth second", with(grounded(), func(a *aircraft) { a.armingRequestedS = now - 10 }),
			armCommand, ""},
		{"no longer", with(grounded(), func(a *aircraft) { a.armingRequestedS = now - 10.1 }), armCommand,
			"for 10 s"},
		{"nor Hold", with(grounded(), func(a *aircraft) { a.mode, a.armingRequestedS = ModeLand, now-10.1 }),
			holdCommand, "for 10 s"},
		{"does not begin to arm by an old order", with(grounded(), func(a *aircraft) { a.launchedS = now - 61 }), armCommand, "60 s old"},
		{"nor asks for the mode", with(grounded(), func(a *aircraft) { a.mode, a.launchedS = ModeOffboard, now-61 }), holdCommand,
			"60 s old"},
		{"does not arm without an order to leave the ground", with(grounded(), func(a *aircraft) { a.launchedS = 0 }), armCommand,
			"no order to leave the ground"},
		{"does not arm in the air", with(grounded(), func(a *aircraft) { a.landed = &up }), armCommand, "not on the ground"},
		{"does not arm without a report that it is on the ground", with(grounded(), func(a *aircraft) { a.landed = nil }), armCommand,
			"not on the ground"},
		{"does not arm on the way home", with(grounded(), func(a *aircraft) { a.homeward = true }), armCommand,
			"no order to leave the ground"},
		{"never by force", grounded(), &common.MessageCommandLong{Command: common.MAV_CMD_COMPONENT_ARM_DISARM, Param1: 1, Param2: 21196},
			"no use"},
		{"never disarms", flies(PhaseFlying, ModeOffboard), &common.MessageCommandLong{Command: common.MAV_CMD_COMPONENT_ARM_DISARM},
			"no use"},
		{"takes off once armed", with(grounded(), func(a *aircraft) { a.armed = true }), takeoffCommand, ""},
		{"not before", grounded(), takeoffCommand, "not armed"},
		{"climbs on in the air after resume", flies(PhaseClimbing, ModeHold), takeoffCommand, ""},
		{"does not leave the ground after resume", with(flies(PhaseClimbing, ModeHold), func(a *aircraft) { a.landed = &down }),
			takeoffCommand, "no order to leave the ground"},
		{"does not take off in flight", flies(PhaseFlying, ModeOffboard), takeoffCommand, "not to climb"},
		{"OFFBOARD while engaging", flies(PhaseEngaging, ModeHold), offboardCommand, ""},
		{"not while flying", flies(PhaseFlying, ModeOffboard), offboardCommand, "no use for OFFBOARD"},
		{"Land on landing", with(flies(PhaseLanding, ModeOffboard), func(a *aircraft) { a.homeward = true }), landCommand, ""},
		{"not while flying", flies(PhaseFlying, ModeOffboard), landCommand, "no use for AUTO.LAND"},
		{"Hold on stopping", flies(PhaseStopping, ModeOffboard), holdCommand, ""},
		{"no Hold in the climb", with(flies(PhaseClimbing, ModeTakeoff), func(a *aircraft) { a.launchedS = now }), holdCommand,
			"to be armed"},
		{"no mode for one whose motors are off", with(flies(PhaseEngaging, ModeHold), func(a *aircraft) { a.armed = false }),
			offboardCommand, "not armed"},
		{"a setpoint while engaging", flies(PhaseEngaging, ModeHold), anySetpoint, ""},
		{"a setpoint while flying", flies(PhaseFlying, ModeOffboard), anySetpoint, ""},
		{"none in another mode", flies(PhaseFlying, ModeHold), anySetpoint, "AUTO.LOITER"},
		{"none while it lands", flies(PhaseLanding, ModeLand), anySetpoint, "AUTO.LAND"},
		{"none in the climb", flies(PhaseClimbing, ModeTakeoff), anySetpoint, "climbs by itself"},
		{"none without motors", with(flies(PhaseFlying, ModeOffboard), func(a *aircraft) { a.armed = false }), anySetpoint, "not armed"},
		{"none for its pilot's", with(flies(PhasePilot, ModeOffboard), func(a *aircraft) { a.pilotReason = "chose so" }), anySetpoint,
			"with its pilot: chose so"},
		{"no command for its pilot's", flies(PhasePilot, ModeHold), offboardCommand, "with its pilot"},
		{"none without an order", flies(PhaseIdle, ModeOffboard), anySetpoint, "no order"},
		{"none for an idle one", flies(PhaseIdle, ModeOffboard), anySetpoint, "no order"},
		{"none by an old position", with(flies(PhaseFlying, ModeOffboard), func(a *aircraft) { a.positionS = now - 2 }), anySetpoint,
			"position is 2.0 s old"},
		{"setpoints outlive HEARTBEATs", with(flies(PhaseFlying, ModeOffboard), func(a *aircraft) { a.heartbeatS = now - 10 }), anySetpoint,
			""},
		{"for ten seconds", with(flies(PhaseFlying, ModeOffboard), func(a *aircraft) { a.heartbeatS = now - 10.1 }), anySetpoint,
			"HEARTBEAT is 10.1 s old"},
		{"commands do not", with(flies(PhaseEngaging, ModeHold), func(a *aircraft) { a.heartbeatS = now - 2.1 }), offboardCommand,
			"HEARTBEAT is 2.1 s old"},
		{"nor does arming", with(grounded(), func(a *aircraft) { a.heartbeatS = now - 2.1 }), armCommand, "HEARTBEAT is 2.1 s old"},
		{"requests always pass", flies(PhasePilot, ModePosition), &common.MessageCommandLong{Command: common.MAV_CMD_REQUEST_MESSAGE}, ""},
		{"intervals too", aircraft{}, &common.MessageCommandLong{Command: common.MAV_CMD_SET_MESSAGE_INTERVAL}, ""},
		{"parameter reads too", aircraft{}, &common.MessageParamRequestRead{}, ""},
		{"nothing else does", flies(PhaseFlying, ModeOffboard),
			&common.MessageCommandLong{Command: common.MAV_CMD_PREFLIGHT_REBOOT_SHUTDOWN}, "no use"},
		{"nor what the leader only reads", flies(PhaseFlying, ModeOffboard), &common.MessageBatteryStatus{}, "no use"},
	} {
		got := c.a.refusal(now, c.m)
		if c.want == "" && got != "" || c.want != "" && !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A message that moves an aircraft is sent to it alone, on the channel on which it is
// received.
func TestGateOnAddresses(t *testing.T) {
	b := newFixture(t)
	a := b.aircraft[0]
	a.channel, a.phase, a.armed, a.mode = channels[0], PhaseFlying, true, ModeOffboard
	a.located, a.positionS, a.heartbeatS = true, b.nowS(), b.nowS()
	for _, c := range []struct {
		name string
		sent bool
	}{
		{"to it", b.send(a.link, channels[0], a, anySetpoint)},
		{"elsewhere", !b.send(a.link, channels[1], a, anySetpoint)},
		{"to no aircraft", !b.send(a.link, channels[0], nil, anySetpoint)},
		{"on no channel", !b.send(a.link, nil, a, anySetpoint)},
		{"a heartbeat to no aircraft", b.send(a.link, channels[0], nil, &common.MessageHeartbeat{})},
	} {
		if !c.sent {
			t.Errorf("a setpoint %s", c.name)
		}
	}
	if n := len(movingMessages(b.sent.drain())); n != 1 || b.Counts().GateRefused != 2 {
		t.Errorf("%d setpoints written, %d messages refused", n, b.Counts().GateRefused)
	}
}

// In a flight from take-off to landing the gate refuses nothing: the leader commands
// only what it may send.
func TestNominalFlightIsNeverRefused(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	if err := v.Launch(ordered(1)); err != nil {
		t.Fatal(err)
	}
	v.simulate(3*time.Second, v.handleCommand)
	if v.upM != 50 || v.mode != ModeTakeoff {
		t.Fatalf("it does not climb: %+v", v.view())
	}
	v.upM, v.mode = 100, ModeHold
	v.simulate(5*time.Second, v.handleCommand)
	if got := v.view(); !got.Flying || got.Reason != "" {
		t.Fatalf("it does not fly: %+v", got)
	}
	v.SendHome(1)
	v.simulate(5*time.Second, v.handleCommand)
	if v.mode != ModeLand {
		t.Fatalf("it does not land: %+v", v.view())
	}
	v.landed, v.upM = true, 0
	v.simulate(time.Second, v.handleCommand)
	v.armed = false
	v.simulate(2*time.Second, v.handleCommand)
	if got := v.view(); got.Phase != PhaseIdle || got.Homeward || got.Reason != "" {
		t.Errorf("after the landing: %+v", got)
	}
	if n := v.Counts().GateRefused; n > 0 {
		t.Errorf("%d messages were refused", n)
	}
}

// Every frame is numbered by its channel, without a gap, and none has a message
// that the dialect lacks.
func TestFramesAreNumberedByChannel(t *testing.T) {
	b := newFixture(t)
	for i := range 300 {
		b.send(b.links[i%2], channels[i%2], nil, &common.MessageHeartbeat{})
	}
	next := map[*gomavlib.Channel]byte{}
	for _, w := range b.sent.frames {
		if w.frame.SequenceNumber != next[w.channel] {
			t.Fatalf("number %d, want %d", w.frame.SequenceNumber, next[w.channel])
		}
		next[w.channel]++
	}
	if len(b.sent.frames) != 300 {
		t.Errorf("%d frames, want 300", len(b.sent.frames))
	}
}
