package fleet

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/inference/physics"
	"prefdt/telemetry"
)

// captureLog keeps the lines of a log.
func captureLog() (*strings.Builder, *slog.Logger) {
	var text strings.Builder
	return &text, slog.New(slog.NewTextHandler(&text, nil))
}

// The autopilot's text when it does not arm is in the view and, once, in the log, within
// seconds; it is removed when the aircraft flies.
func TestReasonIsTheAutopilotsText(t *testing.T) {
	denied := "Arming denied: Resolve system health failures first"
	for name, c := range map[string]struct {
		answer func(v *simVehicle, m message.Message)
		want   string
	}{
		"in chunks": {func(v *simVehicle, m message.Message) {
			v.transmit(&common.MessageStatustext{Severity: common.MAV_SEVERITY_CRITICAL, Text: denied[:50], Id: 9})
			v.transmit(&common.MessageStatustext{Severity: common.MAV_SEVERITY_CRITICAL, Text: denied[50:] + "\t", Id: 9, ChunkSeq: 1})
		}, denied},
		"the last chunk lost": {func(v *simVehicle, m message.Message) {
			v.transmit(&common.MessageStatustext{Severity: common.MAV_SEVERITY_CRITICAL, Text: denied[:50], Id: 9})
		}, strings.TrimSpace(denied[:50])},
		"in one": {func(v *simVehicle, m message.Message) {
			v.transmit(&common.MessageStatustext{Severity: common.MAV_SEVERITY_CRITICAL, Text: "Arming denied: no GPS"})
		}, "Arming denied: no GPS"},
		"an acknowledgement": {func(v *simVehicle, m message.Message) {
			v.transmit(&common.MessageCommandAck{Command: common.MAV_CMD_COMPONENT_ARM_DISARM,
				Result: common.MAV_RESULT_TEMPORARILY_REJECTED, TargetSystem: 250})
		}, "arming refused: temporarily_rejected"},
		"both": {func(v *simVehicle, m message.Message) {
			v.transmit(&common.MessageStatustext{Severity: common.MAV_SEVERITY_CRITICAL, Text: "Arming denied: no GPS"})
			v.transmit(&common.MessageCommandAck{Command: common.MAV_CMD_COMPONENT_ARM_DISARM,
				Result: common.MAV_RESULT_TEMPORARILY_REJECTED})
		}, "Arming denied: no GPS"},
		"the end of a failsafe": {func(v *simVehicle, m message.Message) {
			v.transmit(&common.MessageStatustext{Severity: common.MAV_SEVERITY_WARNING, Text: "GCS Failsafe Cleared"})
		}, ""},
		"what does not warn": {func(v *simVehicle, m message.Message) {
			v.transmit(&common.MessageStatustext{Severity: common.MAV_SEVERITY_INFO, Text: "Takeoff detected"})
			v.transmit(&common.MessageCommandAck{Command: common.MAV_CMD_COMPONENT_ARM_DISARM,
				Result: common.MAV_RESULT_TEMPORARILY_REJECTED, TargetSystem: 3})
		}, ""},
	} {
		b := newFixture(t)
		var text *strings.Builder
		text, b.Log = captureLog()
		v := newSimVehicle(b, 1, physics.Position{EastM: 300, NorthM: 300})
		if err := v.Launch(ordered(1)); err != nil {
			t.Fatal(err)
		}
		v.simulate(4*time.Second, func(m message.Message) {
			if what, _ := classify(px4{}, m); what == kindArm {
				c.answer(v, m)
			}
		})
		if got := v.view().Reason; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if n := strings.Count(text.String(), c.want); c.want != "" && n != 1 {
			t.Errorf("%s: %d times in the log:\n%s", name, n, text)
		}
		v.simulate(10*time.Second, func(m message.Message) {
			if what, _ := classify(px4{}, m); what == kindArm {
				c.answer(v, m)
			}
		})
		want := "not armed in 10 s"
		if c.want != "" {
			want += ": " + c.want
		}
		if got := v.view(); got.Reason != want || got.Phase != PhasePilot {
			t.Errorf("%s, after ten seconds: %q, want %q", name, got.Reason, want)
		}
		v.simulate(time.Minute, nil)
		fly(v)
		if got := v.view(); got.Reason != "" || !got.Flying {
			t.Errorf("%s: it flies, and the reason is %q", name, got.Reason)
		}
	}
}

// Whatever an autopilot sends as its text, it can be sent on.
func TestReasonCanBeSent(t *testing.T) {
	slot, long := 0, strings.Repeat("x", statusTextChars)
	for name, chunks := range map[string][]common.MessageStatustext{
		"not UTF-8": {{Text: strings.Repeat("\xff", statusTextChars), Id: 9},
			{Text: strings.Repeat("\xff", statusTextChars), Id: 9, ChunkSeq: 1}, {Text: strings.Repeat("\xff", statusTextChars), Id: 9,
				ChunkSeq: 2},
			{Text: strings.Repeat("\xff", statusTextChars), Id: 9, ChunkSeq: 3}, {Text: "\xff", Id: 9, ChunkSeq: 4}},
		"every other chunk lost": func() (list []common.MessageStatustext) {
			for n := range uint8(120) {
				list = append(list, common.MessageStatustext{Text: long, Id: 9, ChunkSeq: 2 * n})
			}
			return append(list, common.MessageStatustext{Text: "end", Id: 9, ChunkSeq: 240})
		}(),
	} {
		v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
		for _, m := range chunks {
			m.Severity = common.MAV_SEVERITY_CRITICAL
			v.transmit(&m)
		}
		v.simulate(time.Second, nil)
		reason := v.view().Reason
		if _, err := telemetry.Encode(telemetry.Ack{ID: "m", Reason: "cannot start: aircraft 1: its pre-arm checks fail: " + reason,
			EffectiveSlot: &slot}); reason == "" || err != nil {
			t.Errorf("%s: %d bytes, %v", name, len(reason), err)
		}
	}
}

// The prearm check counts where it is made, and in a mode that permits arming: an
// aircraft that has landed is in the mode it flew in, in which PX4 does not arm.
func TestPreArm(t *testing.T) {
	const bit = common.MAV_SYS_STATUS_PREARM_CHECK
	for _, c := range []struct {
		name                     string
		present, enabled, health common.MAV_SYS_STATUS_SENSOR
		mode                     Mode
		want                     PreArm
	}{
		{"good", bit, bit, bit, ModeHold, PreArmGood},
		{"bad", bit, bit, 0, ModeHold, PreArmFails},
		{"PX4's, good", 0, 0, bit, ModeHold, PreArmGood},
		{"PX4's, bad", 0, 0, 0, ModeHold, PreArmFails},
		{"in OFFBOARD after a landing", bit, bit, 0, ModeOffboard, PreArmOtherMode},
	} {
		v := newSimVehicle(newFixture(t), 1, physics.Position{})
		v.mode = c.mode
		v.sendHeartbeat()
		v.transmit(&common.MessageSysStatus{OnboardControlSensorsPresent: c.present, OnboardControlSensorsEnabled: c.enabled,
			OnboardControlSensorsHealth: c.health})
		if got := v.view().PreArm; got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if v.Launch(ordered(1)); c.want == PreArmFails && v.view().Reason != "the autopilot's prearm check fails" {
			t.Errorf("%s: reason %q", c.name, v.view().Reason)
		}
	}
}

// A repeated stall is one line of the log, as are a loss and a return.
func TestEventsAreLoggedOnce(t *testing.T) {
	b := newFixture(t)
	var text *strings.Builder
	text, b.Log = captureLog()
	v := newSimVehicle(b, 1, physics.Position{EastM: 300, NorthM: 300})
	fly(v)
	for range 10 {
		v.Leg(1, physics.Position{EastM: 1})
		v.simulate(3*time.Second, nil) // a decision every three slots
	}
	v.simulate(20*time.Second, nil)
	v.silent = true
	v.simulate(60*time.Second, nil)
	v.silent = false
	v.simulate(5*time.Second, nil)
	for _, line := range []string{"outlived two slots", "the stream ends", "aircraft lost", "received again"} {
		if n := strings.Count(text.String(), line); n != 1 {
			t.Errorf("%q is %d times in the log", line, n)
		}
	}
	if n := v.Counts().ExpiredSetpoints; n != 10 {
		t.Errorf("%d stalls, want 10", n)
	}
}
