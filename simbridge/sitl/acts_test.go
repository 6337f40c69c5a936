package sitl

import (
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/frame"

	"prefdt/simbridge/autopilot"
)

// An ArduCopter's pilot has a radio, which is silent until he uses it: sixteen channels, of which one is the mode switch.
func TestPilotsRadio(t *testing.T) {
	air, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer air.Close()
	v := flyingVehicle(noon, 100)
	v.Radio = air.LocalAddr().String()
	v.heartbeat = &common.MessageHeartbeat{Autopilot: common.MAV_AUTOPILOT_ARDUPILOTMEGA}
	v.sendRadio()
	if v.radio != nil {
		t.Error("the radio is on before its pilot acts")
	}
	v.SetModeByRC(autopilot.ModePosition)
	v.sendRadio()
	defer v.closeActs()
	packet := make([]byte, 100)
	n, _, err := air.ReadFrom(packet)
	if err != nil || n != 2*radioChannels {
		t.Fatalf("%d bytes, %v", n, err)
	}
	for i := range radioChannels {
		want := uint16(radioMiddleUS)
		if i == modeChannel {
			want = 1685 // LOITER
		}
		if us := binary.LittleEndian.Uint16(packet[2*i:]); us != want {
			t.Errorf("channel %d is %d, want %d", i+1, us, want)
		}
	}
}

// An instance is given the key until it signs, once a second, and is not ready before. One that cannot sign is refused.
func TestKeyIsShared(t *testing.T) {
	key := frame.NewV2Key([]byte(strings.Repeat("k", 32)))
	v := flyingVehicle(noon, 100)
	v.endpoint = &Endpoint{Key: key}
	if _, err := v.Ready(noon); err == nil {
		t.Error("a PX4 is asked to sign")
	}
	v.heartbeat = &common.MessageHeartbeat{Autopilot: common.MAV_AUTOPILOT_ARDUPILOTMEGA}
	v.keySharedAt = time.Time{}
	for _, c := range []struct {
		afterS float64
		signed bool
		given  bool
	}{{0, false, true}, {0.5, false, false}, {1.5, false, true}, {3, true, false}} {
		f := &frame.V2Frame{}
		if c.signed {
			f.IncompatibilityFlag = frame.V2FlagSigned
		}
		v.noteSignature(f)
		setup := v.shareKey(noon.Add(time.Duration(c.afterS * float64(time.Second))))
		if (setup != nil) != c.given || setup != nil && (setup.SecretKey != *key || setup.TargetSystem != v.SystemID) {
			t.Errorf("%+v: it was given %v", c, setup)
		}
		missing, err := v.Ready(noon)
		if waits := missing != nil && strings.Contains(missing.Error(), "does not sign yet"); err != nil || waits == c.signed {
			t.Errorf("%+v: %v, %v", c, missing, err)
		}
	}
	first, second := &frame.V2Frame{}, &frame.V2Frame{}
	v.endpoint.sign(first)
	v.endpoint.sign(second)
	if !first.IsSigned() || second.SignatureTimestamp <= first.SignatureTimestamp {
		t.Errorf("signed at %d and %d: a receiver takes no time twice", first.SignatureTimestamp, second.SignatureTimestamp)
	}
}
