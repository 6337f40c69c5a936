package simnet

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// window is how much of a stream may be on its way or unread before a write waits: as Linux lets its
// buffers grow. A broker waits with a lock held, and who waits for that lock stops a bubble's time.
const window = 4 << 20

// serialBuffer is that of a serial line, as Linux has it: before a write waits, and for what
// arrives, of which more is lost.
const serialBuffer = 1 << 12

// stream is one end of a connection, or of a serial line.
type stream struct {
	program       *Program
	local, remote net.Addr
	peer          *stream
	out           *path // to the peer; used with the network's mutex held
	pieces        bool  // it is a serial line: bytes arrive in pieces of any size, whoever listens

	writing  chan struct{} // holds a value while a Write runs: each is whole
	finished bool          // its end was sent; guarded by the network's mutex
	readBy   *deadline
	writeBy  *deadline

	mutex    sync.Mutex
	data     []byte // received and not read
	onTheWay int    // bytes from here
	eof      bool   // nothing more comes
	failure  error  // of every further operation of this end
	gone     bool   // without power: it answers nothing, and sends nothing again
	changed  chan struct{}

	halfClosed bool // nothing more is written to here
}

// newStream is one end, which needs a peer. It is called with the network's mutex held.
func newStream(p *Program, local, remote net.Addr, out *path) *stream {
	return &stream{program: p, local: local, remote: remote, out: out, writing: make(chan struct{}, 1), changed: make(chan struct{}),
		readBy: newDeadline(), writeBy: newDeadline()}
}

func (n *Network) newStreams(a, b *Program, addressA, addressB net.Addr) (near, far *stream) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	near = newStream(a, addressA, addressB, n.newPath(a.name, b.name))
	far = newStream(b, addressB, addressA, n.newPath(b.name, a.name))
	near.peer, far.peer = far, near
	return near, far
}

// signal wakes who waits for a change. Called with the mutex held.
func (s *stream) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *stream) Read(p []byte) (int, error) {
	if s.readBy.hasExpired() {
		return 0, os.ErrDeadlineExceeded
	}
	for {
		s.program.wait()
		s.mutex.Lock()
		changed, failure, eof := s.changed, s.failure, s.eof
		n := copy(p, s.data)
		if failure == nil && n > 0 {
			s.data = s.data[n:]
			s.signal()
			s.mutex.Unlock()
			return n, nil
		}
		s.mutex.Unlock()
		switch {
		case failure != nil:
			return 0, failure
		case eof:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		select {
		case <-changed:
		case <-s.readBy.wait():
			return 0, os.ErrDeadlineExceeded
		}
	}
}

func (s *stream) Write(p []byte) (written int, err error) {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	if s.writeBy.hasExpired() {
		return 0, os.ErrDeadlineExceeded
	}
	for len(p) > 0 {
		s.program.wait()
		o := s.other()
		o.mutex.Lock()
		unread, read, closed := len(o.data), o.changed, o.failure != nil
		o.mutex.Unlock()
		s.mutex.Lock()
		failure, reset, arrived := s.failure, s.eof && closed || s.halfClosed, s.changed
		room := window - s.onTheWay - unread
		if s.pieces {
			room = serialBuffer - s.onTheWay
		}
		n := min(max(room, 0), len(p))
		if failure == nil && !reset {
			s.onTheWay += n
		}
		s.mutex.Unlock()
		switch {
		case failure != nil:
			return written, failure
		case reset:
			return written, &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}
		case n > 0:
			s.transmit(append([]byte(nil), p[:n]...))
			written, p = written+n, p[n:]
			continue
		}
		select {
		case <-read:
		case <-arrived:
		case <-s.writeBy.wait():
			return written, os.ErrDeadlineExceeded
		}
	}
	return written, nil
}

// other is the other end, which is another one once its program opened it again.
func (s *stream) other() *stream {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.peer
}

// transmit sends bytes, or the end of the stream if there are none.
func (s *stream) transmit(segment []byte) {
	network := s.out.network
	network.mutex.Lock()
	defer network.mutex.Unlock()
	if !s.finished {
		s.finished = len(segment) == 0
		s.send(segment)
	}
}

// send is called with the network's mutex held.
func (s *stream) send(segment []byte) {
	network := s.out.network
	c := network.between(s.out.from, s.out.to)
	if c.Cut && !s.pieces {
		network.held = append(network.held, func() { // sent again after the cut
			if !s.isGone() {
				s.send(segment)
			}
		})
		return
	}
	lost := s.pieces && (c.Cut || c.Loss > 0 && s.out.random.Float64() < c.Loss)
	for rest := segment; ; {
		n, with := len(rest), c
		switch {
		case s.pieces:
			n = 1 + s.out.random.IntN(n)
		case c.Loss > 0:
			n = min(n, segmentBytes)
			with.Latency += s.out.retransmissions(c.Loss)
		}
		s.arriveAt(s.out.arrival(&with, n, 0), rest[:n], lost)
		if rest = rest[n:]; len(rest) == 0 {
			return
		}
	}
}

const segmentBytes = 1448 // of TCP, in an Ethernet frame

// retransmissions is how much later a segment of a stream comes that may be lost: it is sent again
// after 200 ms, and each time after twice as long.
func (p *path) retransmissions(loss float64) (later time.Duration) {
	const first, most = 200 * time.Millisecond, 10
	for wait := first; wait < first<<most && p.random.Float64() < loss; wait *= 2 {
		later += wait
	}
	return later
}

func (s *stream) isGone() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.gone
}

// arriveAt has bytes arrive at the other end, or the end of the stream if there are none.
func (s *stream) arriveAt(at time.Time, bytes []byte, lost bool) {
	time.AfterFunc(time.Until(at), func() {
		if !s.other().take(bytes, lost) {
			return
		}
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.onTheWay -= len(bytes)
		s.signal()
	})
}

// take takes what arrives at this end, and reports whether it answers.
func (s *stream) take(bytes []byte, lost bool) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch {
	case s.gone:
		return false
	case len(bytes) == 0:
		s.eof = true
	case !lost && s.failure == nil && !(s.pieces && len(s.data)+len(bytes) > serialBuffer):
		s.data = append(s.data, bytes...)
	}
	s.signal()
	return true
}

func (s *stream) fail(err error) (first bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.failure != nil {
		return false
	}
	s.failure = err
	s.signal()
	return true
}

func (s *stream) Close() error {
	if s.fail(net.ErrClosed) {
		s.program.forget(s)
		if !s.pieces {
			s.transmit(nil)
		}
	}
	return nil
}

// CloseWrite ends what is written to here, as that of net.TCPConn.
func (s *stream) CloseWrite() error {
	s.mutex.Lock()
	s.halfClosed = true
	s.signal()
	s.mutex.Unlock()
	if !s.pieces {
		s.transmit(nil)
	}
	return nil
}

func (s *stream) abort(announced bool) {
	switch first := s.fail(net.ErrClosed); {
	case s.pieces:
	case !announced:
		s.mutex.Lock()
		s.gone = true
		s.mutex.Unlock()
	case first:
		s.transmit(nil)
	}
}

func (s *stream) LocalAddr() net.Addr  { return s.local }
func (s *stream) RemoteAddr() net.Addr { return s.remote }
func (s *stream) SetDeadline(t time.Time) error {
	s.readBy.set(t)
	s.writeBy.set(t)
	return nil
}
func (s *stream) SetReadDeadline(t time.Time) error  { s.readBy.set(t); return nil }
func (s *stream) SetWriteDeadline(t time.Time) error { s.writeBy.set(t); return nil }

// listener accepts streams.
type listener struct {
	program  *Program
	address  netip.AddrPort
	accepted chan *stream

	mutex  sync.Mutex
	closed bool
	ended  chan struct{}
}

// offer hands over a stream, and reports whether somebody may accept it.
func (l *listener) offer(s *stream) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed {
		return false
	}
	select {
	case l.accepted <- s:
		return true
	default:
		return false
	}
}

func (l *listener) Accept() (net.Conn, error) {
	l.program.wait()
	select {
	case s := <-l.accepted:
		l.program.wait()
		if !l.program.keep(s) {
			s.abort(false)
			return nil, net.ErrClosed
		}
		return s, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.program.forget(l)
	l.abort(true)
	return nil
}

func (l *listener) abort(announced bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	close(l.ended)
	n := l.program.network
	n.mutex.Lock()
	delete(n.listeners, l.address)
	n.mutex.Unlock()
	for {
		select {
		case s := <-l.accepted: // nobody will
			s.abort(announced)
		default:
			return
		}
	}
}

func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.address) }
