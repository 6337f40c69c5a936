// Package datagram has MAVLink's endpoints over UDP: one that listens, with a connection for
// each source address, and one that calls a peer.
//
// Input: an address. Output: an endpoint for gomavlib, whose connections return one frame
// with each Read, however many a datagram held: gomavlib itself (3.3.5) reads the first one
// alone. The listener of pion/transport, which gomavlib brings, panics if a first datagram
// comes while it is closed, and opens a connection for every source that a flood pretends.
package datagram

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bluenviron/gomavlib/v3"
)

const (
	maxPeers        = 256     // datagrams of more are dropped; a peer is forgotten when its connection is closed
	maxWaiting      = 128     // datagrams of a peer that nobody has read yet; more are dropped
	maxWaitingBytes = 1 << 18 // likewise
	maxBytes        = 65_507  // of a datagram over IPv4
)

// retryAfter is how long to wait after an error of the socket that did not close it.
const retryAfter = 10 * time.Millisecond

// Socket is the part of net.UDPConn that is used.
type Socket interface {
	ReadFromUDPAddrPort([]byte) (int, netip.AddrPort, error)
	WriteToUDPAddrPort([]byte, netip.AddrPort) (int, error)
	LocalAddr() net.Addr
	Close() error
}

// Open binds a socket to host:port. nil is the machine's UDP.
type Open func(address string) (Socket, error)

// Bind opens a socket.
func (open Open) Bind(address string) (Socket, error) {
	if open != nil {
		return open(address)
	}
	a, err := net.ResolveUDPAddr(network(address), address)
	if err != nil {
		return nil, err
	}
	c, err := net.ListenUDP(network(address), a)
	if err != nil || !a.IP.IsUnspecified() {
		return c, err
	}
	return newMultihomed(c), nil
}

// network is that of host:port: IPv4, but IPv6 for its literals, and for a name that has no other address. [::] is both.
func network(address string) string {
	host, _, _ := net.SplitHostPort(address)
	ip, err := netip.ParseAddr(host)
	if err != nil {
		if _, err := net.ResolveUDPAddr("udp4", address); err != nil {
			return "udp6"
		}
		return "udp4"
	}
	switch {
	case ip.Is4():
		return "udp4"
	case ip.IsUnspecified():
		return "udp"
	}
	return "udp6"
}

type listener struct {
	socket   Socket
	accepted chan *peer
	ended    chan struct{} // the socket is closed

	mutex sync.Mutex
	peers map[netip.AddrPort]*peer
}

// Endpoint is a MAVLink endpoint that listens for UDP at host:port.
func Endpoint(open Open, address string) gomavlib.EndpointConf {
	return gomavlib.EndpointCustomServer{Listen: func() (net.Listener, error) { return Listen(open, address) }, Label: "udp",
		IsDatagram: true}
}

// Client is a MAVLink endpoint that calls a peer by UDP at host:port.
func Client(open Open, address string) gomavlib.EndpointConf {
	return gomavlib.EndpointCustomClient{
		Label: "udp:" + address, IsDatagram: true,
		Connect: func(ctx context.Context) (net.Conn, error) {
			c, err := dial(ctx, open, address)
			return &client{Conn: c, buffer: make([]byte, maxBytes)}, err
		},
	}
}

func dial(ctx context.Context, open Open, address string) (net.Conn, error) {
	if open == nil {
		return (&net.Dialer{}).DialContext(ctx, network(address), address)
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	s, err := open("127.0.0.1:0")
	return &connected{Socket: s, to: to}, err
}

// connected is a socket that sends to one address, and receives from that alone.
type connected struct {
	Socket
	to netip.AddrPort
}

func (c *connected) Read(b []byte) (int, error) {
	for {
		n, from, err := c.ReadFromUDPAddrPort(b)
		if err != nil || from == c.to {
			return n, err
		}
	}
}

func (c *connected) Write(b []byte) (int, error)      { return c.WriteToUDPAddrPort(b, c.to) }
func (c *connected) RemoteAddr() net.Addr             { return net.UDPAddrFromAddrPort(c.to) }
func (c *connected) SetDeadline(time.Time) error      { return nil } // reads end when it is closed
func (c *connected) SetReadDeadline(time.Time) error  { return nil }
func (c *connected) SetWriteDeadline(time.Time) error { return nil }

// client is a connection with a called peer.
type client struct {
	net.Conn
	buffer []byte
	frames frames
}

// Read returns the next frame.
func (c *client) Read(b []byte) (int, error) {
	for {
		if piece := c.frames.next(); piece != nil {
			return copy(b, piece), nil
		}
		n, err := c.Conn.Read(c.buffer)
		if err != nil {
			return 0, err
		}
		c.frames.add(append([]byte(nil), c.buffer[:n]...))
	}
}

// Listen listens for UDP at host:port.
func Listen(open Open, address string) (net.Listener, error) {
	socket, err := open.Bind(address)
	if err != nil {
		return nil, err
	}
	l := &listener{socket: socket, accepted: make(chan *peer, maxPeers), ended: make(chan struct{}), peers: map[netip.AddrPort]*peer{}}
	go l.read()
	return l, nil
}

// Accept returns the connection of the next new peer, or net.ErrClosed.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case p := <-l.accepted:
		return p, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Close closes the socket, and with it every connection: their reads end, their writes
// fail.
func (l *listener) Close() error {
	err := l.socket.Close()
	<-l.ended
	return err
}

func (l *listener) Addr() net.Addr { return l.socket.LocalAddr() }

// read hands each datagram to its peer until the socket is closed.
func (l *listener) read() {
	defer close(l.ended)
	buffer := make([]byte, maxBytes)
	for {
		n, from, to, err := l.receive(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		} else if err != nil {
			time.Sleep(retryAfter)
			continue
		}
		if p := l.peer(from); p != nil {
			p.sentTo.Store(&to)
			p.offer(buffer[:n])
		}
	}
}

// receive waits for the next datagram, and says to which of this machine's addresses it came, if several are listened on.
func (l *listener) receive(b []byte) (n int, from netip.AddrPort, to local, err error) {
	if m, ok := l.socket.(*multihomed); ok {
		return m.readFrom(b)
	}
	n, from, err = l.socket.ReadFromUDPAddrPort(b)
	return n, from, to, err
}

// peer returns the connection of an address, a new one if need be, nil if there are too
// many.
func (l *listener) peer(from netip.AddrPort) *peer {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if p := l.peers[from]; p != nil {
		return p
	}
	if len(l.peers) >= maxPeers {
		return nil
	}
	p := &peer{listener: l, address: from, received: make(chan []byte, maxWaiting), closed: make(chan struct{})}
	p.sentTo.Store(&local{})
	select {
	case l.accepted <- p:
		l.peers[from] = p
		return p
	default: // closed again before they were accepted, and nobody accepts
		return nil
	}
}

// peer is the connection with one source address.
type peer struct {
	listener *listener
	address  netip.AddrPort
	received chan []byte
	waiting  atomic.Int64 // bytes of them
	frames   frames       // of what was read
	sentTo   atomic.Pointer[local]
	deadline atomic.Int64 // of reads that begin, Unix nanoseconds; 0: none

	closing sync.Once
	closed  chan struct{}
}

// offer keeps a copy of a datagram until it is read, unless too much waits already.
func (p *peer) offer(datagram []byte) {
	n := int64(len(datagram))
	if p.waiting.Add(n) <= maxWaitingBytes {
		select {
		case p.received <- append([]byte(nil), datagram...):
			return
		default:
		}
	}
	p.waiting.Add(-n)
}

// Read returns the next frame, or bytes that are none.
func (p *peer) Read(b []byte) (int, error) {
	for {
		if piece := p.frames.next(); piece != nil {
			return copy(b, piece), nil
		}
		datagram, err := p.receive()
		if err != nil {
			return 0, err
		}
		p.frames.add(datagram)
	}
}

// receive waits for the next datagram.
func (p *peer) receive() ([]byte, error) {
	var expired <-chan time.Time
	if at := p.deadline.Load(); at != 0 {
		timer := time.NewTimer(time.Until(time.Unix(0, at)))
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case datagram := <-p.received:
		p.waiting.Add(-int64(len(datagram)))
		return datagram, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-p.listener.ended:
		return nil, net.ErrClosed
	case <-expired:
		return nil, os.ErrDeadlineExceeded
	}
}

// Write sends b as one datagram.
func (p *peer) Write(b []byte) (int, error) {
	select {
	case <-p.closed:
		return 0, net.ErrClosed
	default:
	}
	if m, ok := p.listener.socket.(*multihomed); ok {
		return m.writeTo(b, p.address, *p.sentTo.Load())
	}
	return p.listener.socket.WriteToUDPAddrPort(b, p.address)
}

// Close ends the connection; a later datagram of the same address begins another.
func (p *peer) Close() error {
	p.closing.Do(func() {
		close(p.closed)
		p.listener.mutex.Lock()
		delete(p.listener.peers, p.address)
		p.listener.mutex.Unlock()
	})
	return nil
}

func (p *peer) LocalAddr() net.Addr  { return p.listener.Addr() }
func (p *peer) RemoteAddr() net.Addr { return net.UDPAddrFromAddrPort(p.address) }

// SetReadDeadline sets when reads that begin from now on fail.
func (p *peer) SetReadDeadline(t time.Time) error {
	if t.IsZero() {
		p.deadline.Store(0)
	} else {
		p.deadline.Store(t.UnixNano())
	}
	return nil
}

// SetWriteDeadline does nothing: sending a datagram does not wait for anyone.
func (p *peer) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline is SetReadDeadline.
func (p *peer) SetDeadline(t time.Time) error { return p.SetReadDeadline(t) }
