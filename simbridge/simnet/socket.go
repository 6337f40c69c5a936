package simnet

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// socketBuffer is how many datagrams wait for a reader, as Linux keeps by default of so small ones; more are lost.
const socketBuffer = 256

type received struct {
	from  netip.AddrPort
	bytes []byte
}

// socket is a datagram socket.
type socket struct {
	program  *Program
	address  netip.AddrPort
	received chan received
	paths    map[netip.AddrPort]*path // by receiver; guarded by the network's mutex

	closing sync.Once
	ended   chan struct{}
}

func (s *socket) ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error) {
	s.program.wait()
	select {
	case d := <-s.received:
		s.program.wait()
		if !s.isClosed() {
			return copy(b, d.bytes), d.from, nil
		}
	case <-s.ended:
	}
	return 0, netip.AddrPort{}, net.ErrClosed
}

func (s *socket) isClosed() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// WriteToUDPAddrPort sends a datagram. One to an address that nobody has is lost.
func (s *socket) WriteToUDPAddrPort(b []byte, to netip.AddrPort) (int, error) {
	s.program.wait()
	if s.isClosed() {
		return 0, net.ErrClosed
	}
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	n := s.program.network
	n.mutex.Lock()
	defer n.mutex.Unlock()
	receiver := n.sockets[to]
	if receiver == nil {
		return len(b), nil
	}
	p := s.paths[to]
	if p == nil || p.to != receiver.program.name {
		p = n.newPath(s.program.name, receiver.program.name)
		s.paths[to] = p
	}
	c := n.between(p.from, p.to)
	if c.Cut || c.Loss > 0 && p.random.Float64() < c.Loss {
		return len(b), nil
	}
	copies := 1
	if c.Duplicate > 0 && p.random.Float64() < c.Duplicate {
		copies++
	}
	bytes := append([]byte(nil), b...)
	for range copies {
		late := time.Duration(0)
		if c.Late > 0 && p.random.Float64() < c.Late {
			late = 1 + time.Duration(p.random.Float64()*float64(c.LateBy))
		}
		time.AfterFunc(time.Until(p.arrival(&c, len(b), late)), func() { n.deliver(to, received{s.address, bytes}) })
	}
	return len(b), nil
}

// deliver gives a datagram to who has its address when it arrives.
func (n *Network) deliver(to netip.AddrPort, d received) {
	n.mutex.Lock()
	receiver := n.sockets[to]
	n.mutex.Unlock()
	if receiver == nil {
		return
	}
	select {
	case receiver.received <- d:
	default:
	}
}

func (s *socket) Close() error {
	s.program.forget(s)
	s.abort(true)
	return nil
}

func (s *socket) abort(bool) {
	s.closing.Do(func() {
		n := s.program.network
		n.mutex.Lock()
		delete(n.sockets, s.address)
		n.mutex.Unlock()
		close(s.ended)
	})
}

func (s *socket) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(s.address) }
