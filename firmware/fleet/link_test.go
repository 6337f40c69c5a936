package fleet

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/frame"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/inference/physics"
)

// Setpoints are sent while positions arrive, although HEARTBEATs are lost; the next one
// is requested. Without any HEARTBEAT setpoints end after ten seconds.
func TestStreamsOnFreshPositions(t *testing.T) {
	for name, answers := range map[string]bool{"one that is asked for comes": true, "none comes": false} {
		v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
		fly(v)
		v.noHeartbeats = true
		lostS, lastS, setpoints, requests := v.nowS(), 0.0, 0, 0
		for range 300 {
			v.Hold(1)
			v.simulate(100*time.Millisecond, func(m message.Message) {
				switch m := m.(type) {
				case *common.MessageSetPositionTargetGlobalInt:
					setpoints, lastS = setpoints+1, v.nowS()
				case *common.MessageCommandLong:
					if m.Command == common.MAV_CMD_REQUEST_MESSAGE && uint32(m.Param1) == (&common.MessageHeartbeat{}).GetID() {
						if requests++; answers && requests%3 == 0 { // the others are lost
							v.transmit(heartbeatMessage(v.mode, v.armed))
						}
					}
				}
			})
		}
		if requests == 0 {
			t.Errorf("%s: HEARTBEAT is not asked for", name)
		}
		if answers && setpoints != 300 {
			t.Errorf("%s: %d setpoints in 30 s", name, setpoints)
		}
		if after := lastS - lostS; !answers && (after < 8 || after > 10.1) {
			t.Errorf("%s: setpoints end after %.1f s", name, after)
		}
	}
}

// HEARTBEATs lost for five seconds of every six, and requests without an answer, cost
// no setpoint.
func TestLostHeartbeatsCostNoSetpoint(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	fly(v)
	before, ticks := v.Counts().Setpoints, 0
	for i := range 1200 {
		v.noHeartbeats = i%60 < 50 // five of six in a row
		v.Hold(1)
		v.simulate(100*time.Millisecond, nil) // requests have no effect
		ticks++
	}
	if got := v.Counts().Setpoints - before; got != ticks {
		t.Errorf("%d setpoints in %d ticks", got, ticks)
	}
}

// A frame that arrives after a later one changes nothing; a sender whose count was
// reset is accepted.
func TestFramesOutOfOrderAreDropped(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	fly(v)
	v.sendHeartbeat()
	v.sendState()
	was, dropped := v.view(), func() uint64 { return v.RejectedFrames()["out of order"] }
	for back := byte(4); back < 120; back += 7 {
		v.transmitAs(v.sequence-1-back, &common.MessageBatteryStatus{Voltages: [10]uint16{16000}, CurrentBattery: 30000,
			EnergyConsumed: 500, BatteryRemaining: 1})
		v.transmitAs(v.sequence-1-back, heartbeatMessage(ModePosition, false))
	}
	if got := v.view(); got.Phase != PhaseFlying || got.Charge != was.Charge || got.TotalJ != was.TotalJ || dropped() != 2*17 {
		t.Errorf("after %d frames out of order: %+v", dropped(), got)
	}
	// The sender's count wraps, and skips what was lost.
	before := dropped()
	for range 600 {
		v.sequence += 3
		v.sendState()
	}
	if dropped() != before {
		t.Errorf("%d frames that skip were dropped", dropped()-before)
	}
	// It is reset: accepted again within two seconds.
	v.sequence -= 100
	for range 25 {
		v.clock.Advance(100 * time.Millisecond)
		v.bootMS += 100
		v.sendState()
	}
	if got := v.view(); got.AgeS > 0.1 {
		t.Errorf("two seconds after its count was reset it is %.1f s old", got.AgeS)
	}
}

func TestSequence(t *testing.T) {
	var s sequenceFilter
	for i, c := range []struct {
		number byte
		atS    float64
		want   bool
	}{
		{250, 10, true}, {251, 10.1, true}, {250, 10.2, false}, {3, 10.3, true}, {255, 10.4, false}, {3, 10.4, true},
		{100, 10.5, true}, {90, 12.4, false}, {90, 12.5, true}, {91, 12.6, true},
	} {
		if got := s.accepts(c.number, c.atS, &common.MessageHeartbeat{}, false); got != c.want {
			t.Errorf("frame %d, number %d at %v s: %v", i, c.number, c.atS, got)
		}
	}
}

// The autopilot's clock is compared for five seconds; delayed messages do not make it
// appear slow.
func TestClockRate(t *testing.T) {
	for want, name := range map[float64]string{1: "right", 0.1: "a tenth", 0.987: "slow", 1.06: "fast"} {
		var r clockRate
		for i := range 300 {
			now := 100 + float64(i)/10
			if held := (i + 6) % 7; held > 2 { // the first one too
				now += 0.1 * float64(held)
			}
			r.add(1e6+want*100*float64(i), now)
			if i < 50 && r.measuredMSPerS != 0 {
				t.Fatalf("%s: known after %.1f s", name, float64(i)/10)
			}
		}
		if got := r.ratio(); !(got > want-0.005 && got < want+0.005) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	if got := v.view().ClockRate; got == got {
		t.Errorf("known at once: %v", got)
	}
	v.simulate(8*time.Second, nil)
	if got := v.view().ClockRate; !(got > 0.99 && got < 1.01) {
		t.Errorf("the rate is %v, want 1", got)
	}
}

// Batteries that the meter does not count are shown.
func TestSecondBatteryIsShown(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{})
	v.transmit(&common.MessageBatteryStatus{Id: uint8(px4Traits.relayedBatteryID), CurrentBattery: -1, EnergyConsumed: -1,
		BatteryRemaining: 50})
	if got := v.view(); len(got.UnmeteredBatteries) > 0 {
		t.Errorf("batteries %v, not counted %v", got.BatteryIDs, got.UnmeteredBatteries)
	}
	v.transmit(&common.MessageBatteryStatus{Id: 1, CurrentBattery: -1, EnergyConsumed: -1, BatteryRemaining: 50})
	if got := v.view(); len(got.UnmeteredBatteries) != 1 || got.UnmeteredBatteries[0] != 1 {
		t.Errorf("batteries %v, not counted %v", got.BatteryIDs, got.UnmeteredBatteries)
	}
}

// The loop runs by the clock: a HEARTBEAT is sent once a second, whether or not
// anything else is.
func TestHeartbeatFollowsTheClock(t *testing.T) { synctest.Test(t, heartbeatFollowsTheClock) }

func heartbeatFollowsTheClock(t *testing.T) {
	b := newFixture(t)
	b.done.Go(b.run)
	defer func() {
		close(b.stop)
		b.done.Wait()
	}()
	beats := func() (n int) {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		return len(b.sent.frames) / 2 // two links
	}
	for began, n := b.nowS(), 1; n <= 50; n++ {
		b.clock.Advance(100 * time.Millisecond)
		synctest.Wait() // the loop handles each tick in its own goroutine
		if now := b.nowS() - began; beats() > int(now)+1 || beats() < int(now) {
			t.Fatalf("%d HEARTBEATs in %.1f s", beats(), now)
		}
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, w := range b.sent.frames {
		h, ok := b.sent.message(w.frame).(*common.MessageHeartbeat)
		if !ok || h.Type != common.MAV_TYPE_ONBOARD_CONTROLLER || w.frame.ComponentID != companionComponent || w.frame.SystemID != 250 {
			t.Fatalf("%+v", w.frame)
		}
	}
}

// PX4 sends the reason why it does not arm to ground stations only; the leader's
// HEARTBEAT as one is sent only to autopilots that ignore the loss of a ground station.
func TestStationHeartbeatHidesNoLoss(t *testing.T) {
	for action, want := range map[int32]bool{0: true, 2: false} {
		b := newFixture(t)
		v := newSimVehicle(b, 1, physics.Position{})
		w := newSimVehicle(b, 2, physics.Position{NorthM: 100})
		v.transmit(&common.MessageParamValue{ParamId: "NAV_DLL_ACT", ParamType: common.MAV_PARAM_TYPE_INT32, ParamValue: int32Bits(action)})
		w.sendState()
		b.sent.frames = nil
		b.sendHeartbeats()
		got := false
		for _, f := range b.sent.frames {
			if h, ok := b.sent.message(f.frame).(*common.MessageHeartbeat); ok && h.Type == common.MAV_TYPE_GCS {
				got = true
				if f.channel != channels[0] || f.frame.ComponentID != gcsComponent {
					t.Errorf("sent to %p as component %d", f.channel, f.frame.ComponentID)
				}
			}
		}
		if got != want {
			t.Errorf("NAV_DLL_ACT %d: a ground station's HEARTBEAT is sent: %v", action, got)
		}
	}
	b := newFixture(t) // NAV_DLL_ACT was not read
	b.aircraft[0].channel = channels[0]
	b.sendHeartbeats()
	for _, m := range b.sent.drain() {
		if m.(*common.MessageHeartbeat).Type == common.MAV_TYPE_GCS {
			t.Error("sent to an autopilot whose NAV_DLL_ACT was not read")
		}
	}
}

// A signature's timestamp always rises: on a clock stepped back, within one tick of it,
// and after a start with a clock that is years behind.
func TestSignedSetpointsSurviveTheWallClock(t *testing.T) {
	key := frame.NewV2Key(bytes.Repeat([]byte{7}, 32))
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	b := newFixture(t)
	b.Key, b.signatureClock.wall = key, func() time.Time { return at }
	var wire bytes.Buffer
	reader := &frame.Reader{ByteReader: &wire, DialectRW: b.rw, InKey: key} // refuses what is ten seconds behind
	if err := reader.Initialize(); err != nil {
		t.Fatal(err)
	}
	writer := &frame.Writer{ByteWriter: &wire, DialectRW: b.rw}
	if err := writer.Initialize(); err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	send := func(what string) uint64 {
		t.Helper()
		b.sent.frames = nil
		for range 100 { // at one moment
			b.send(b.links[0], channels[0], nil, &common.MessageHeartbeat{})
		}
		for _, w := range b.sent.frames {
			writer.Write(w.frame)
			got, err := reader.Read()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			stamp := got.(*frame.V2Frame).SignatureTimestamp
			if stamp <= last {
				t.Fatalf("%s: stamp %d after %d", what, stamp, last)
			}
			last = stamp
		}
		return last
	}
	begins := send("at first")
	if want := uint64(at.Sub(signatureEpoch) / signatureUnit); begins < want || begins > want+1000 {
		t.Errorf("it begins with %d, by the wall clock %d", begins, want)
	}
	for range 300 {
		b.clock.Advance(100 * time.Millisecond)
		at = at.Add(100 * time.Millisecond)
		send("in time")
	}
	at = at.Add(-time.Hour)
	for range 300 {
		b.clock.Advance(100 * time.Millisecond)
		send("stepped back")
	}
	if ran := last - begins; ran < 60*1e5 || ran > 60*1e5+1000 {
		t.Errorf("stamps ran %d in 60 s", ran)
	}
	at = at.Add(48 * time.Hour)
	if after := send("stepped forward"); after-begins < 46*3600*1e5 {
		t.Error("a clock that was set is not followed")
	}
	// A leader that starts years behind is right from the first frame it receives.
	at = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	b.signatureClock = signatureClock{clock: b.clock, wall: func() time.Time { return at }}
	b.signatureClock.observe(last)
	send("after a restart in 1970")
}

// Verified frames advance the timestamp; without a key nothing does.
func TestTimestampsAreObserved(t *testing.T) {
	for _, key := range []*frame.V2Key{nil, frame.NewV2Key(bytes.Repeat([]byte{7}, 32))} {
		b := newFixture(t)
		b.Key, b.signatureClock.wall = key, func() time.Time { return signatureEpoch }
		v := newSimVehicle(b, 1, physics.Position{})
		v.signatureTimestamp = 5e12
		v.sendHeartbeat()
		if got := b.signatureClock.next(); (got > 5e12) != (key != nil) {
			t.Errorf("key %v: the next stamp is %d", key != nil, got)
		}
	}
}

// A text longer than a STATUSTEXT is sent in chunks, and assembled again.
func TestTextsInChunks(t *testing.T) {
	for _, n := range []int{0, 1, 49, 50, 51, 99, 100, 101, 250, 400} {
		text := strings.Repeat("reason ", 60)[:n]
		var w textAssembler
		got, whole := "", false
		chunks := statusTextMessages(common.MAV_SEVERITY_ERROR, text, 7)
		for i, m := range chunks {
			s := m.(*common.MessageStatustext)
			if len(s.Text) > statusTextChars || len(chunks) > 1 && (s.Id != 7 || int(s.ChunkSeq) != i) {
				t.Fatalf("%d characters: chunk %+v", n, s)
			}
			if got, whole = w.add(float64(i), s); whole != (i == len(chunks)-1) {
				t.Errorf("%d characters: whole after chunk %d of %d", n, i, len(chunks))
			}
		}
		if want := strings.TrimSpace(text[:min(n, maxTextChars)]); got != want {
			t.Errorf("%d characters: %q", n, got)
		}
	}
}

// Pieces that are all numbered 0 are put together, too.
func TestTextsInChunksWithoutAnID(t *testing.T) {
	var w textAssembler
	for _, c := range []struct {
		seq        uint8
		text, want string
	}{{0, "Preflight Fail: Compass", "Preflight Fail: Compass"}, {1, " needs calibration", "Preflight Fail: Compass needs calibration"},
		{0, "Takeoff", "Takeoff"}} {
		if got, _ := w.add(0, &common.MessageStatustext{ChunkSeq: c.seq, Text: c.text}); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A text is sent once as long as it is repeated, and again later.
func TestAnnouncedOncePerEvent(t *testing.T) {
	b := newFixture(t)
	sentTexts := func() (n int) {
		b.sendAnnouncements()
		for _, m := range b.sent.drain() {
			if _, ok := m.(*common.MessageStatustext); ok {
				n++
			}
		}
		return n / 2 // two links
	}
	for range 30 { // every two seconds, for a minute
		b.AnnounceText(common.MAV_SEVERITY_WARNING, "broker unreachable")
		b.clock.Advance(2 * time.Second)
	}
	b.AnnounceText(common.MAV_SEVERITY_WARNING, "something else")
	if n := sentTexts(); n != 2 {
		t.Errorf("sent %d times, want 2", n)
	}
	b.clock.Advance(11 * time.Second)
	b.AnnounceText(common.MAV_SEVERITY_WARNING, "broker unreachable")
	if n := sentTexts(); n != 1 {
		t.Errorf("a new event is sent %d times", n)
	}
}

// Where more frames were lost than their eight-bit number tells apart, a position's time
// since boot shows that it is newer, and the order of the rest follows it.
func TestManyFramesLost(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.simulate(time.Second, nil)
	v.sequence += 150
	v.bootMS += 1000
	v.transmit(v.positionMessage())
	if got := v.Fleet.aircraft[0].bootMS; got != float64(v.bootMS) {
		t.Errorf("the last position is of %v ms, want %v", got, v.bootMS)
	}
	v.mode = ModePosition
	v.sendHeartbeat()
	if got := v.view().Mode; got != ModePosition {
		t.Errorf("what follows it is dropped: the mode is %s", px4{}.modeName(got))
	}
	before := v.RejectedFrames()["out of order"]
	v.transmitAs(v.sequence-3, heartbeatMessage(ModeHold, false))
	if v.RejectedFrames()["out of order"] != before+1 {
		t.Error("a late HEARTBEAT counts")
	}
}

// How late positions come is known from their time since boot, of those out of order too, and forgotten.
func TestLateness(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	fly(v)
	for range 20 {
		v.simulate(100*time.Millisecond, nil)
	}
	if got := v.view().LateS; got > 0.01 {
		t.Errorf("positions in time are %v s late", got)
	}
	late := v.positionMessage()
	late.TimeBootMs -= 400
	v.transmit(late)
	if got := v.view().LateS; math.Abs(got-0.4) > 0.02 {
		t.Errorf("a position that is 0.4 s old is %v s late", got)
	}
	late.TimeBootMs += 1 << 31 // of another clock
	v.transmit(late)
	for range 120 {
		v.simulate(100*time.Millisecond, nil)
	}
	if got := v.view().LateS; got > 0.03 {
		t.Errorf("12 s later it is still %v s", got)
	}
}

// An autopilot that is rebooted three seconds after its boot never shows a time that goes back. Its
// clock is measured anew, and not taken for one that is slow.
func TestClockRateOverAnEarlyReboot(t *testing.T) {
	var r clockRate
	for s := 1.0; s < 3; s += 0.1 {
		r.add(1000*s, s)
	}
	for s := 8.0; s < 20; s += 0.1 { // rebooted at 3, silent for 5
		r.add(1000*(s-3), s)
	}
	if got := r.ratio(); math.Abs(got-1) > 0.01 {
		t.Errorf("the rate is %.3f", got)
	}
}
