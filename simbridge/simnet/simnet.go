// Package simnet is a network in memory, for programs that run in one testing/synctest bubble,
// where time is virtual: TCP-like streams, UDP-like datagrams and serial lines between programs.
//
// Inputs: what the programs write, and the [Conditions] between two programs: latency, jitter,
// bandwidth, loss, duplicates, late messages, a cut in one direction or in both.
// Outputs: connections for the standard library's interfaces, and an endpoint for gomavlib.
// Callers: tests, and simbridge/chaos.
//
// What is random is drawn from the seed. Each direction of a link has a nanosecond of its own
// within the microsecond, so that no two messages arrive at the same moment: their order does
// not depend on which goroutine is scheduled first.
//
// A [Program] owns its connections: it can crash, lose its power, and be stopped for a while.
// A link outlives the program that used it, with what is on its way.
package simnet

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bluenviron/gomavlib/v3"

	"prefdt/telemetry/datagram"
)

// Conditions are those of messages from one program to another.
type Conditions struct {
	Latency       time.Duration // of each message
	Jitter        time.Duration // uniform up to this, on top
	BytesPerS     float64       // bandwidth; 0: unlimited
	Loss          float64       // share of the datagrams that are lost; streams send theirs again, and all behind waits
	Duplicate     float64       // share that arrives twice
	Late          float64       // share that is late by up to LateBy, and so out of order
	LateBy        time.Duration
	Cut           bool // datagrams are lost; streams wait until it ends
	RefuseConnect bool // no new stream is opened, as by a firewall that rejects
}

// defaultConditions are those of a good local network.
var defaultConditions = Conditions{Latency: 200 * time.Microsecond, Jitter: 100 * time.Microsecond}

// Any is any program, in [Network.Set].
const Any = "*"

// firstPort is the first that is given to who asks for a free one.
const firstPort = 30_000

// Network is a network without a program. Make it with [New], in the bubble.
type Network struct {
	seed uint64

	mutex      sync.Mutex
	conditions map[[2]string]Conditions // by sender and receiver
	listeners  map[netip.AddrPort]*listener
	sockets    map[netip.AddrPort]*socket
	lines      map[string]*line
	held       []func() // streams' segments that wait for the end of a cut, each tries again with the mutex held
	nextPort   uint16
	programs   map[string]*Program
	ordinals   map[string]int    // of programs, in the order of their first start
	paths      map[[2]string]int // how many there were from one program to another
}

// New returns a network without a program.
func New(seed uint64) *Network {
	return &Network{seed: seed, conditions: map[[2]string]Conditions{}, listeners: map[netip.AddrPort]*listener{},
		sockets: map[netip.AddrPort]*socket{}, lines: map[string]*line{}, nextPort: firstPort, programs: map[string]*Program{},
		ordinals: map[string]int{}, paths: map[[2]string]int{}}
}

// Set sets the conditions of what one program sends to another, by their names or [Any]. The
// most particular pair counts. nil resets them.
func (n *Network) Set(from, to string, c *Conditions) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if c == nil {
		delete(n.conditions, [2]string{from, to})
	} else {
		n.conditions[[2]string{from, to}] = *c
	}
	held := n.held
	n.held = nil
	for _, again := range held { // before what is written from now on
		again()
	}
}

// Between are the conditions of what one program sends to another.
func (n *Network) Between(from, to string) Conditions {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.between(from, to)
}

func (n *Network) between(from, to string) Conditions {
	for _, pair := range [][2]string{{from, to}, {from, Any}, {Any, to}, {Any, Any}} {
		if c, ok := n.conditions[pair]; ok {
			return c
		}
	}
	return defaultConditions
}

// path is one direction of a link.
type path struct {
	network  *Network
	from, to string
	residue  time.Duration // its nanosecond within the microsecond
	random   *rand.Rand
	lineRate float64   // bytes/s of a serial line; 0: it is none
	last     time.Time // when its last message in order arrives
	sentAll  time.Time // when the bandwidth is free again
}

// mostPrograms is how many there may be for the residues of their paths all to differ.
const mostPrograms = 31

// residue is the k-th nanosecond within a microsecond.
func residue(k int) time.Duration { return time.Duration(1 + k%999) }

// moment is the next one with a residue: what happens at one instant has no order in virtual time.
func moment(at time.Time, residue time.Duration) time.Time {
	return at.Truncate(time.Microsecond).Add(time.Microsecond + residue)
}

// newPath is called with the network's mutex held. What is drawn for a path, and its moment within the
// microsecond, come from who sends to whom and how many paths these two had before: paths are made in
// whatever order the programs' goroutines run.
func (n *Network) newPath(from, to string) *path {
	pair := [2]string{from, to}
	n.paths[pair]++
	const again = 101
	sender, receiver := n.ordinal(from), n.ordinal(to)
	return &path{network: n, from: from, to: to, residue: residue(mostPrograms*sender + receiver + again*(n.paths[pair]-1)),
		random: rand.New(rand.NewPCG(n.seed, uint64(sender)<<40|uint64(receiver)<<20|uint64(n.paths[pair])))}
}

// ordinal is called with the network's mutex held.
func (n *Network) ordinal(name string) int {
	k, ok := n.ordinals[name]
	if !ok {
		k = len(n.ordinals)
		n.ordinals[name] = k
	}
	return k
}

// arrival is when a message that is sent now arrives, in order or, late by a while, out of it.
// Called with the network's mutex held.
func (p *path) arrival(c *Conditions, bytes int, late time.Duration) time.Time {
	at := time.Now().Add(c.Latency)
	if c.Jitter > 0 {
		at = at.Add(time.Duration(p.random.Int64N(int64(c.Jitter))))
	}
	if rate := cmp.Or(p.lineRate, c.BytesPerS); rate > 0 {
		if p.sentAll.Before(time.Now()) {
			p.sentAll = time.Now()
		}
		p.sentAll = p.sentAll.Add(time.Duration(float64(bytes) / rate * float64(time.Second)))
		at = at.Add(time.Until(p.sentAll))
	}
	if late > 0 {
		return at.Add(late).Truncate(time.Microsecond).Add(p.residue)
	}
	if at.Before(p.last) {
		at = p.last
	}
	at = moment(at, p.residue)
	p.last = at
	return at
}

// Program is who opens connections. A name may be used again once its program has crashed.
type Program struct {
	name    string
	network *Network
	ordinal int
	timers  atomic.Int64 // that it began

	mutex   sync.Mutex
	open    []interface{ abort(announced bool) }
	dead    bool
	stopped chan struct{} // not nil while it is stopped; closed when it goes on
}

// Program returns a new program, or the one that already runs by that name.
func (n *Network) Program(name string) *Program {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	ordinal := n.ordinal(name)
	p := n.programs[name]
	if p == nil || p.isDead() {
		p = &Program{name: name, network: n, ordinal: ordinal}
		n.programs[name] = p
	}
	return p
}

func (p *Program) isDead() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.dead
}

// keep notes what the program opened. It reports whether the program lives.
func (p *Program) keep(c interface{ abort(announced bool) }) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !p.dead {
		p.open = append(p.open, c)
	}
	return !p.dead
}

func (p *Program) forget(c interface{ abort(announced bool) }) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.open = slices.DeleteFunc(p.open, func(x interface{ abort(bool) }) bool { return x == c })
}

// Crash ends the program's connections, as its system does when it is killed: the other ends
// are told. What its goroutines write from now on is lost.
func (p *Program) Crash() { p.end(true) }

// LosePower is Crash without a word to anyone: the other ends wait.
func (p *Program) LosePower() { p.end(false) }

func (p *Program) end(announced bool) {
	p.mutex.Lock()
	p.dead = true
	open := p.open
	p.open = nil
	p.mutex.Unlock()
	for _, c := range open {
		c.abort(announced)
	}
	p.Continue() // so that its goroutines end
}

// Stop stops the program, as SIGSTOP does: its reads, writes and the timers of its [Program.After]
// wait until Continue. What arrives meanwhile is kept for it, as far as buffers reach.
func (p *Program) Stop() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.stopped == nil && !p.dead {
		p.stopped = make(chan struct{})
	}
}

// Continue ends Stop.
func (p *Program) Continue() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.stopped != nil {
		close(p.stopped)
		p.stopped = nil
	}
}

// wait returns once the program is not stopped.
func (p *Program) wait() {
	for {
		p.mutex.Lock()
		stopped := p.stopped
		p.mutex.Unlock()
		if stopped == nil {
			return
		}
		<-stopped
	}
}

// Now and After are a clock.Clock of the program: After waits while it is stopped.
func (p *Program) Now() time.Duration { return time.Since(clockStart) }

// clockStart is before any bubble's time.
var clockStart = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)

func (p *Program) After(d time.Duration) <-chan time.Time {
	fires, now := make(chan time.Time, 1), time.Now()
	at := moment(now.Add(d), residue(p.ordinal+mostPrograms*int(p.timers.Add(1))))
	time.AfterFunc(at.Sub(now), func() {
		p.wait()
		fires <- time.Now()
	})
	return fires
}

// Dial opens a stream, as net.Dialer.DialContext. Only tcp is known.
func (p *Program) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	to, err := parse(address)
	if err == nil && !strings.HasPrefix(network, "tcp") {
		err = fmt.Errorf("network %q", network)
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	p.wait()
	n := p.network
	refused := &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(to),
		Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for {
		n.mutex.Lock()
		l := n.listeners[to]
		there, back := Conditions{}, Conditions{}
		if l != nil {
			there, back = n.between(p.name, l.program.name), n.between(l.program.name, p.name)
		}
		n.mutex.Unlock()
		if l != nil && (there.Cut || back.Cut) || l == nil && n.Between(p.name, Any).Cut {
			select { // SYN is sent again
			case <-time.After(time.Second):
				continue
			case <-ctx.Done():
				return nil, &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(to), Err: ctx.Err()}
			}
		}
		select {
		case <-time.After(there.Latency + back.Latency + time.Microsecond):
		case <-ctx.Done():
			return nil, &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(to), Err: ctx.Err()}
		}
		if l == nil || there.RefuseConnect {
			return nil, refused
		}
		near, far := n.newStreams(p, l.program, net.TCPAddrFromAddrPort(netip.AddrPortFrom(to.Addr(), n.freePort())),
			net.TCPAddrFromAddrPort(to))
		if !p.keep(near) || !l.offer(far) {
			near.abort(false)
			return nil, refused
		}
		p.wait()
		return near, nil
	}
}

// Listen accepts streams at host:port, or at a free port if that is 0.
func (p *Program) Listen(_, address string) (net.Listener, error) {
	at, err := p.network.bind(address, func(at netip.AddrPort) bool { return p.network.listeners[at] == nil }, func(at netip.AddrPort) {
		p.network.listeners[at] = &listener{program: p, address: at, accepted: make(chan *stream, 1024), ended: make(chan struct{})}
	})
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Err: err}
	}
	p.network.mutex.Lock()
	l := p.network.listeners[at]
	p.network.mutex.Unlock()
	if !p.keep(l) {
		l.abort(false)
		return nil, net.ErrClosed
	}
	return l, nil
}

// Socket binds a datagram socket to host:port, or to a free port if that is 0.
func (p *Program) Socket(address string) (datagram.Socket, error) {
	var s *socket
	_, err := p.network.bind(address, func(at netip.AddrPort) bool { return p.network.sockets[at] == nil }, func(at netip.AddrPort) {
		s = &socket{program: p, address: at, received: make(chan received, socketBuffer), ended: make(chan struct{}),
			paths: map[netip.AddrPort]*path{}}
		p.network.sockets[at] = s
	})
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "udp", Err: err}
	}
	if !p.keep(s) {
		s.abort(false)
		return nil, net.ErrClosed
	}
	return s, nil
}

// Endpoint is an endpoint of the leader's configuration on this network.
func (p *Program) Endpoint(text string) (gomavlib.EndpointConf, error) {
	scheme, rest, _ := strings.Cut(text, ":")
	switch scheme {
	case "udp":
		return datagram.Client(p.Socket, rest), nil
	case "udp-listen":
		return datagram.Endpoint(p.Socket, rest), nil
	case "serial":
		at := max(strings.LastIndexByte(rest, ':'), 0)
		baud, err := strconv.Atoi(strings.TrimPrefix(rest[at:], ":"))
		return gomavlib.EndpointCustomClient{Label: "serial", Connect: func(context.Context) (net.Conn, error) {
			return p.Serial(rest[:at], baud)
		}}, err
	}
	return nil, fmt.Errorf("endpoint %q", text)
}

// bind reserves an address that is free.
func (n *Network) bind(address string, free func(netip.AddrPort) bool, reserve func(netip.AddrPort)) (at netip.AddrPort, err error) {
	if at, err = parse(address); err != nil {
		return at, err
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for at.Port() == 0 {
		if candidate := netip.AddrPortFrom(at.Addr(), n.port()); free(candidate) {
			at = candidate
		}
	}
	if !free(at) {
		return at, os.NewSyscallError("bind", syscall.EADDRINUSE)
	}
	reserve(at)
	return at, nil
}

// FreeAddress is an address that nobody has used yet.
func (n *Network) FreeAddress() string {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), n.freePort()).String()
}

func (n *Network) freePort() uint16 {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.port()
}

func (n *Network) port() uint16 {
	if n.nextPort++; n.nextPort < firstPort {
		n.nextPort = firstPort
	}
	return n.nextPort
}

func parse(address string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	at, err := netip.ParseAddrPort(net.JoinHostPort(host, port))
	if err != nil {
		return at, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return at, nil
}
