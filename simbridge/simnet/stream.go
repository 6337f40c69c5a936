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

// window is how much of a stream may be on its way or unread before a write waits.
const window = 1 << 18

// stream is one end of a connection, or of a serial line.
type stream struct {
	program       *Program
	local, remote net.Addr
	peer          *stream
	out           *path // to the peer; used with the network's mutex held
	pieces        bool  // bytes arrive in pieces of any size, as a serial line's do

	mutex   sync.Mutex
	data    []byte // received and not read
	pending int    // bytes on their way to here, or unread
	eof     bool   // nothing more comes
	failure error  // of every further operation of this end
	changed chan struct{}
	readBy  *deadline
	writeBy *deadline
}

func (n *Network) newStreams(a, b *Program, addressA, addressB net.Addr) (near, far *stream) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	end := func(from, to *Program, local, remote net.Addr) *stream {
		return &stream{program: from, local: local, remote: remote, out: n.newPath(from.name, to.name), changed: make(chan struct{}),
			readBy: newDeadline(), writeBy: newDeadline()}
	}
	near, far = end(a, b, addressA, addressB), end(b, a, addressB, addressA)
	near.peer, far.peer = far, near
	return near, far
}

// signal wakes who waits for a change. Called with the mutex held.
func (s *stream) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *stream) Read(p []byte) (int, error) {
	for {
		s.program.wait()
		s.mutex.Lock()
		changed, failure, eof := s.changed, s.failure, s.eof
		n := copy(p, s.data)
		if failure == nil && n > 0 {
			s.data = s.data[n:]
			s.pending -= n
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
		case <-s.readBy.wait():
			return 0, os.ErrDeadlineExceeded
		default:
		}
		select {
		case <-changed:
		case <-s.readBy.wait():
			return 0, os.ErrDeadlineExceeded
		}
	}
}

func (s *stream) Write(p []byte) (written int, err error) {
	for len(p) > 0 {
		s.program.wait()
		s.mutex.Lock()
		failure, reset := s.failure, s.eof
		mine := s.changed
		s.mutex.Unlock()
		switch {
		case failure != nil:
			return written, failure
		case reset && !s.pieces:
			return written, &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}
		}
		o := s.other()
		o.mutex.Lock()
		room, changed := window-o.pending, o.changed
		n := min(room, len(p))
		if n > 0 {
			o.pending += n
		}
		o.mutex.Unlock()
		if n <= 0 {
			select {
			case <-changed:
				continue
			case <-mine:
				continue
			case <-s.writeBy.wait():
				return written, os.ErrDeadlineExceeded
			}
		}
		s.transmit(append([]byte(nil), p[:n]...))
		written, p = written+n, p[n:]
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
	c := network.between(s.out.from, s.out.to)
	if c.Cut && !s.pieces {
		network.held = append(network.held, func() { s.transmit(segment) }) // sent again after the cut
		network.mutex.Unlock()
		return
	}
	lost := s.pieces && (c.Cut || c.Loss > 0 && s.out.random.Float64() < c.Loss)
	type piece struct {
		at    time.Time
		bytes []byte
	}
	var all []piece
	for rest := segment; len(rest) > 0 || len(segment) == 0; {
		n := len(rest)
		if s.pieces && n > 1 {
			n = 1 + s.out.random.IntN(n)
		}
		all = append(all, piece{s.out.arrival(&c, n, 0), rest[:n]})
		if rest = rest[n:]; len(rest) == 0 {
			break
		}
	}
	network.mutex.Unlock()
	for _, p := range all {
		time.AfterFunc(time.Until(p.at), func() { s.other().deliver(p.bytes, lost) })
	}
}

// deliver is called when bytes arrive, or the end of the stream if there are none.
func (s *stream) deliver(segment []byte, lost bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch {
	case len(segment) == 0:
		s.eof = true
	case lost:
		s.pending -= len(segment)
	default:
		s.data = append(s.data, segment...)
	}
	s.signal()
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

func (s *stream) abort(announced bool) {
	if s.fail(net.ErrClosed) && announced && !s.pieces {
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
	for {
		l.program.wait()
		select {
		case s := <-l.accepted:
			if !l.program.keep(s) {
				s.abort(false)
				return nil, net.ErrClosed
			}
			return s, nil
		case <-l.ended:
			return nil, net.ErrClosed
		}
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
