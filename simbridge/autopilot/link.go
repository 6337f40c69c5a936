package autopilot

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialect"

	"prefdt/telemetry/datagram"
)

// udpLink is PX4's UDP link: it sends to a fixed partner from the start, if there is one,
// until the first datagram is received, and then to that one's source. It receives
// from any address. It is a net.Conn for gomavlib's custom endpoint.
type udpLink struct {
	datagram.Socket
	partner        atomic.Pointer[netip.AddrPort]
	partnerLearned atomic.Bool // the first datagram was received
	// impair decides for each datagram to be sent whether it is lost, and the wall time by
	// which it is delayed.
	impair func(datagram []byte) (lost bool, late time.Duration)
	// repeat returns the wall time after which a copy of a datagram arrives; 0: none does.
	repeat func(datagram []byte) time.Duration

	dialect  *dialect.ReadWriter // set where there are two sequence counters
	counters [2]byte             // the next numbers, of positions the second

	framing  Framing
	mutex    sync.Mutex // the rest
	waiting  []byte     // frames, and parts of them, of the next datagram
	frames   int        // in it
	buffers  bool       // nothing passes: datagrams wait in buffered
	buffered [][]byte
}

// Framing is how frames are put into datagrams.
type Framing string

const (
	OneFrame     Framing = ""       // each has its own
	PackedFrames Framing = "packed" // three to a datagram, as telemetry radios and routers send them
	CutFrames    Framing = "cut"    // a datagram ends within a frame, as a serial line's bytes are forwarded
)

// packedFrames is how many frames a datagram has where they are packed.
const packedFrames = 3

func newLink(open datagram.Open, listen, partner string, framing Framing, impair func([]byte) (bool, time.Duration),
	repeat func([]byte) time.Duration) (*udpLink, error) {
	l := &udpLink{impair: impair, repeat: repeat, framing: framing}
	if partner != "" {
		remote, err := net.ResolveUDPAddr("udp4", partner)
		if err != nil {
			return nil, fmt.Errorf("autopilot partner %q: %w", partner, err)
		}
		to := remote.AddrPort()
		l.partner.Store(&to)
	}
	var err error
	if l.Socket, err = open.Bind(listen); err != nil {
		return nil, fmt.Errorf("autopilot address %s: %w", listen, err)
	}
	return l, nil
}

func (l *udpLink) Read(p []byte) (int, error) {
	n, from, err := l.Socket.ReadFromUDPAddrPort(p)
	if err == nil && l.partnerLearned.CompareAndSwap(false, true) {
		l.partner.Store(&from)
	}
	return n, err
}

// Write sends to the partner. Without one, or if it is absent, the datagram is lost, as
// on any radio.
func (l *udpLink) Write(p []byte) (int, error) {
	if l.dialect != nil {
		p = slices.Clone(p)
		l.numberAnew(p)
	}
	if after := l.repeat(p); after > 0 {
		again := slices.Clone(p)
		time.AfterFunc(after, func() { l.transmit(again) })
	}
	switch lost, late := l.impair(p); {
	case lost:
	case late > 0:
		delayed := slices.Clone(p)
		time.AfterFunc(late, func() { l.transmit(delayed) }) // fails on a closed socket
	case l.wait(p):
	default:
		l.put(p)
	}
	return len(p), nil
}

// wait reports whether a frame waits in the link's buffer.
func (l *udpLink) wait(frame []byte) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.buffers {
		l.buffered = append(l.buffered, slices.Clone(frame))
	}
	return l.buffers
}

// put adds a frame to the bytes of the link. A HEARTBEAT is sent at once, with what waits:
// from then on a receiver can know the mode.
func (l *udpLink) put(frame []byte) {
	if l.framing == OneFrame {
		l.transmit(frame)
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.waiting = append(l.waiting, frame...)
	l.frames++
	end := len(l.waiting)
	switch _, heartbeat := readHeartbeat(frame); {
	case heartbeat:
	case l.framing == CutFrames:
		end -= len(frame) / 2
	case l.frames < packedFrames:
		return
	}
	l.transmit(l.waiting[:end])
	l.waiting, l.frames = append([]byte(nil), l.waiting[end:]...), 0
}

// buffer has datagrams wait in the link, as in a modem's buffer, or sends those that did.
func (l *udpLink) buffer(on bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, p := range l.buffered {
		l.transmit(p)
	}
	l.buffers, l.buffered = on, nil
}

func (l *udpLink) transmit(p []byte) {
	if to := l.partner.Load(); to != nil {
		l.Socket.WriteToUDPAddrPort(p, *to)
	}
}

// Its deadlines do nothing: an autopilot may wait for days.
func (l *udpLink) SetReadDeadline(time.Time) error  { return nil }
func (l *udpLink) SetWriteDeadline(time.Time) error { return nil }
func (l *udpLink) SetDeadline(time.Time) error      { return nil }
func (l *udpLink) RemoteAddr() net.Addr             { return l.LocalAddr() }
