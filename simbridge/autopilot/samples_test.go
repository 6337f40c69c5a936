package autopilot

import (
	"bufio"
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialect"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/frame"

	"prefdt/simbridge/simnet"
)

// Each wrong sample is sent as it says, and what follows is right again.
func TestWrongSamples(t *testing.T) {
	for kind, c := range map[WrongSample]struct {
		wrong    func(p *common.MessageGlobalPositionInt, s *common.MessageExtendedSysState) bool
		untilS   float64 // it is wrong at least so long
		messages int     // and so many messages at most
	}{
		NoFix: {func(p *common.MessageGlobalPositionInt, _ *common.MessageExtendedSysState) bool {
			return p.Lat == math.MaxInt32
		}, 1, 0},
		PositionGlitch: {func(p *common.MessageGlobalPositionInt, _ *common.MessageExtendedSysState) bool {
			return p.Lat > 474e6+0.04e7
		}, 0.5, 0},
		BootTimeZero: {func(p *common.MessageGlobalPositionInt, _ *common.MessageExtendedSysState) bool {
			return p.TimeBootMs == 0
		}, 0, 1},
		GroundSample: {func(_ *common.MessageGlobalPositionInt, s *common.MessageExtendedSysState) bool {
			return s.LandedState == common.MAV_LANDED_STATE_ON_GROUND
		}, 0, 1},
	} {
		a := hovering()
		v := a.vehicle
		sample := func() bool {
			fly(v, 0.1)
			p := v.distort(globalPosition(v)).(*common.MessageGlobalPositionInt)
			s := v.distort(extendedState(v)).(*common.MessageExtendedSysState)
			return c.wrong(p, s)
		}
		if sample() {
			t.Errorf("%s: before it was asked for", kind)
		}
		a.SendWrongSample(kind)
		wrong := 0
		for range 30 {
			if sample() {
				wrong++
			}
		}
		if least := max(1, int(10*c.untilS)); wrong < least || c.messages > 0 && wrong != c.messages || wrong > least+1 {
			t.Errorf("%s: %d wrong of 30 in 3 s", kind, wrong)
		}
		if s := a.state(v); s.Wrong != wrong {
			t.Errorf("%s: %d wrong are counted, %d were sent", kind, s.Wrong, wrong)
		}
	}
}

// listen starts an autopilot and returns what reads its datagrams. It is called in a [simnet.Test].
func listen(t *testing.T, conf Config) (a *Autopilot, next func() []byte) {
	t.Helper()
	n := simnet.New(1)
	socket, err := n.Program("companion").Socket("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conf.on(n)
	conf.Partner = socket.LocalAddr().String()
	a = &Autopilot{Config: conf}
	if err := a.Initialize(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.Close()
		socket.Close()
	})
	buffer := make([]byte, 2048)
	return a, func() []byte {
		n, _, err := socket.ReadFromUDPAddrPort(buffer)
		if err != nil {
			t.Fatal(err)
		}
		return buffer[:n]
	}
}

// A late position is a copy of the next one after it was asked for, 3.5 s later.
func TestLatePosition(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		a, next := listen(t, testConfig())
		received := map[string]time.Time{}
		for range 10_000 {
			datagram := next()
			if !isPosition(datagram) {
				continue
			}
			if first, again := received[string(datagram)]; again {
				const jitterS = 0.001
				if late := time.Since(first).Seconds(); math.Abs(late-3.5) > jitterS {
					t.Errorf("the copy is %.3f s late", late)
				}
				return
			}
			if len(received) == 0 {
				a.SendWrongSample(LatePosition)
			}
			received[string(datagram)] = time.Now()
		}
		t.Error("no position came again")
	})
}

// With two counters positions have numbers of their own. All frames are whole, and each
// counter skips no number.
func TestTwoCounters(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		conf := testConfig()
		conf.TwoCounters = true
		_, next := listen(t, conf)
		rw := &dialect.ReadWriter{Dialect: common.Dialect}
		if err := rw.Initialize(); err != nil {
			t.Fatal(err)
		}
		count, last := map[bool]int{}, map[bool]byte{}
		for count[true] < 40 || count[false] < 40 {
			datagram := next()
			reader := &frame.Reader{ByteReader: bufio.NewReader(bytes.NewReader(datagram)), DialectRW: rw}
			if err := reader.Initialize(); err != nil {
				t.Fatal(err)
			}
			f, err := reader.Read()
			if err != nil {
				t.Fatalf("a frame is not whole: %v", err)
			}
			_, position := f.GetMessage().(*common.MessageGlobalPositionInt)
			sequence := f.GetSequenceNumber()
			if count[position] > 0 && sequence != last[position]+1 {
				t.Fatalf("position %v: %d follows %d", position, sequence, last[position])
			}
			count[position], last[position] = count[position]+1, sequence
		}
	})
}
