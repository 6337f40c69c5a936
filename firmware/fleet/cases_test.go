package fleet

import (
	"bytes"
	"encoding/hex"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/frame"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/inference/physics"
	"prefdt/telemetry/datagram"
)

// playCase plays a report from the field to a fleet that asks for nothing: datagrams, with
// the milliseconds at which they came. change returns the frames in place of one.
func playCase(t *testing.T, name string, untilMS float64, change func(ms float64, fr *frame.V2Frame) []*frame.V2Frame) *fixture {
	t.Helper()
	text, err := os.ReadFile("testdata/cases/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	b := newFixture(t)
	b.Origin = Origin{47.3977, 8.5456, 488}
	began, pieces := b.nowS(), endpoint(t)
	for line := range strings.Lines(string(text)) {
		at, data, ok := strings.Cut(strings.TrimSpace(line), " ")
		ms, err := strconv.ParseFloat(at, 64)
		if !ok || strings.HasPrefix(line, "#") || ms > untilMS {
			continue
		}
		raw, err2 := hex.DecodeString(data)
		if err != nil || err2 != nil {
			t.Fatalf("%s: %v, %v", line, err, err2)
		}
		for b.nowS()-began < ms/1000-1e-9 {
			b.persist()
			b.tick()
			b.clock.Advance(100 * time.Millisecond)
		}
		for _, piece := range pieces(raw) {
			r := &frame.Reader{ByteReader: bytes.NewReader(piece), DialectRW: b.rw}
			if err := r.Initialize(); err != nil {
				t.Fatal(err)
			}
			fr, err := r.Read()
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			frames := []*frame.V2Frame{fr.(*frame.V2Frame)}
			if change != nil {
				frames = change(ms, frames[0])
			}
			for _, fr := range frames {
				b.mutex.Lock()
				b.links[0].route(&gomavlib.EventFrame{Channel: channels[0], Frame: fr})
				b.mutex.Unlock()
			}
		}
	}
	return b
}

// endpoint opens one that listens, and returns what passes a datagram through it: the frames
// that a link reads.
func endpoint(t *testing.T) (pass func(datagram []byte) (pieces [][]byte)) {
	t.Helper()
	l, err := datagram.Listen(nil, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	autopilot, err := net.Dial("udp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { autopilot.Close() })
	var channel net.Conn
	return func(sent []byte) (pieces [][]byte) {
		if _, err := autopilot.Write(sent); err != nil {
			t.Fatal(err)
		}
		if channel == nil {
			if channel, err = l.Accept(); err != nil {
				t.Fatal(err)
			}
		}
		for left := len(sent); left > 0; {
			piece := make([]byte, 512)
			channel.SetReadDeadline(time.Now().Add(time.Minute))
			n, err := channel.Read(piece)
			if err != nil {
				t.Fatal(err)
			}
			pieces, left = append(pieces, piece[:n]), left-n
		}
		return pieces
	}
}

// startsOr checks that a case's aircraft may start, or why not.
func (b *fixture) startsOr(t *testing.T, name, want string) {
	t.Helper()
	v := b.Views()[0]
	err := v.Ready()
	if unsafe := v.Params.UnsafeReason(); unsafe != "" {
		t.Errorf("%s: %s", name, unsafe)
	}
	switch {
	case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: start: %v, want %q", name, err, want)
	case want == "":
		if err := b.Launch(ordered(1)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// positions calls change with a frame's position, if it is one.
func positions(change func(ms float64, m *common.MessageGlobalPositionInt)) func(float64, *frame.V2Frame) []*frame.V2Frame {
	return func(ms float64, fr *frame.V2Frame) []*frame.V2Frame {
		if m, ok := fr.Message.(*common.MessageGlobalPositionInt); ok {
			change(ms, m)
		}
		return []*frame.V2Frame{fr}
	}
}

// What the field reported: each case is played as it was sent, on the ground.
func TestCasesOfTheField(t *testing.T) {
	sequence := byte(0)
	for _, c := range []struct {
		name, file string
		change     func(float64, *frame.V2Frame) []*frame.V2Frame
		want       string            // why it may not start
		refused    map[string]uint64 // frames, and no others
	}{
		{"control", "control", nil, "", nil},
		{"01 a late position", "01-late-position", nil, "", map[string]uint64{"position out of order": 1}},
		{"02 five frames in a datagram", "02-frames-in-one-datagram", nil, "", nil},
		{"03 an empty second battery", "03-empty-second-battery", nil, "", nil},
		{"06 a second of INT32_MAX", "control", positions(func(ms float64, m *common.MessageGlobalPositionInt) {
			if ms >= 7000 && ms < 8000 {
				m.Lat, m.Lon = math.MaxInt32, math.MaxInt32
			}
		}), "", map[string]uint64{"position without a fix": 10}},
		{"06 5.5 km for a second", "control", positions(func(ms float64, m *common.MessageGlobalPositionInt) {
			if ms >= 7000 && ms < 8000 {
				m.Lat += 500000
			}
		}), "", map[string]uint64{"position too far from the last": 10}},
		{"one time of 0", "control", positions(func(ms float64, m *common.MessageGlobalPositionInt) {
			if ms == 7000 {
				m.TimeBootMs = 0
			}
		}), "", map[string]uint64{"position without a time": 1}},
		{"08 no landed state", "08-no-landed-state", nil, "no EXTENDED_SYS_STATE says so for 5 s", nil},
		{"14 two sequence counters", "control", func(_ float64, fr *frame.V2Frame) []*frame.V2Frame {
			if _, ok := fr.Message.(*common.MessageGlobalPositionInt); !ok {
				fr.SequenceNumber = sequence
				sequence++
			}
			return []*frame.V2Frame{fr}
		}, "", nil},
		{"15 another program's HEARTBEAT", "control", func(_ float64, fr *frame.V2Frame) []*frame.V2Frame {
			if _, ok := fr.Message.(*common.MessageHeartbeat); !ok {
				return []*frame.V2Frame{fr}
			}
			g := *fr
			g.Message = &common.MessageHeartbeat{Type: common.MAV_TYPE_GCS, Autopilot: common.MAV_AUTOPILOT_INVALID,
				SystemStatus: common.MAV_STATE_ACTIVE, MavlinkVersion: 3}
			return []*frame.V2Frame{fr, &g}
		}, "", map[string]uint64{"HEARTBEAT of no autopilot": 9}},
	} {
		b := playCase(t, c.file, 8500, c.change)
		for reason, n := range b.RejectedFrames() {
			if c.refused[reason] != n {
				t.Errorf("%s: %d frames refused: %s", c.name, n, reason)
			}
		}
		for reason, n := range c.refused {
			if b.RejectedFrames()[reason] != n {
				t.Errorf("%s: %d frames refused, want %d: %s", c.name, b.RejectedFrames()[reason], n, reason)
			}
		}
		asked := false
		for _, m := range b.sent.drain() {
			cmd, ok := m.(*common.MessageCommandLong)
			asked = asked || ok && cmd.Command == common.MAV_CMD_SET_MESSAGE_INTERVAL &&
				uint32(cmd.Param1) == (&common.MessageExtendedSysState{}).GetID()
		}
		if !asked {
			t.Errorf("%s: EXTENDED_SYS_STATE is not asked for as a stream", c.name)
		}
		b.startsOr(t, c.name, c.want)
	}
}

// A flight on merged links, as in case 14: positions, and what the leader does not read, have
// a count of their own. Nothing is dropped, at any rate, and a pilot's act counts as soon as
// with one counter.
func TestTwoSequenceCounters(t *testing.T) {
	for _, others := range []int{0, 3, 16} { // frames that the leader does not read, with each position
		v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
		v.positionSequence = new(byte)
		v.simulate(time.Second, nil)
		fly(v)
		for range 3000 {
			*v.positionSequence += byte(others)
			v.Hold(1)
			v.simulate(100*time.Millisecond, nil)
		}
		if got := v.view(); !got.Flying || len(v.RejectedFrames()) > 0 {
			t.Errorf("%d others: %s, %v", others, got.Phase, v.RejectedFrames())
		}
		v.mode = ModePosition
		v.sendHeartbeat()
		if got := v.view(); got.Phase != PhasePilot {
			t.Errorf("%d others: its pilot's act does not count", others)
		}
	}
}

// On a link of 640 frames a second the number wraps between two HEARTBEATs, and between two
// messages of any kind that the leader reads: none is dropped, nor when many frames are lost.
func TestFastLink(t *testing.T) {
	for _, counts := range []int{60, 63, 100, 250} { // frames with each position
		v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
		fly(v)
		for i := range 600 {
			for range counts {
				v.transmit(&message.MessageRaw{ID: 30})
			}
			if i%100 == 99 {
				v.sequence += 130 // lost
				v.clock.Advance(100 * time.Millisecond)
				v.bootMS += 100
				v.transmit(v.positionMessage())
			}
			v.Hold(1)
			v.simulate(100*time.Millisecond, nil)
		}
		if got := v.view(); !got.Flying || len(v.RejectedFrames()) > 0 {
			t.Errorf("%d frames a position: %s, %v", counts, got.Phase, v.RejectedFrames())
		}
	}
}
