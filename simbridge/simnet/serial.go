package simnet

import "net"

// line is a serial line: what one program writes into its device another reads from its own.
// Each open of a device by a program replaces the one before.
type line struct{ ends [2]*stream }

type device string

func (device) Network() string  { return "serial" }
func (d device) String() string { return string(d) }

const bitsPerByte = 10 // on a serial line, with start and stop bit

// Cable joins two programs by a serial line with a name, which both open by [Program.Serial].
func (n *Network) Cable(name string, a, b string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	l := &line{}
	for i, pair := range [2][2]string{{a, b}, {b, a}} {
		l.ends[i] = &stream{program: &Program{name: pair[0], network: n}, local: device(name), remote: device(name),
			out: n.newPath(pair[0], pair[1]), pieces: true, changed: make(chan struct{}), readBy: newDeadline(), writeBy: newDeadline()}
	}
	l.ends[0].peer, l.ends[1].peer = l.ends[1], l.ends[0]
	n.lines[name] = l
}

// Serial opens the program's end of a cable. Its bytes arrive in pieces of any size, at its baud rate.
func (p *Program) Serial(name string, baud int) (net.Conn, error) {
	n := p.network
	n.mutex.Lock()
	defer n.mutex.Unlock()
	l := n.lines[name]
	if l == nil {
		return nil, &net.OpError{Op: "open", Net: "serial", Err: net.UnknownNetworkError(name)}
	}
	for i, end := range l.ends {
		if end.program.name != p.name {
			continue
		}
		o := l.ends[1-i]
		opened := &stream{program: p, local: end.local, remote: end.remote, out: end.out, pieces: true, changed: make(chan struct{}),
			readBy: newDeadline(), writeBy: newDeadline(), peer: o}
		c := n.between(p.name, o.program.name)
		c.BytesPerS = float64(baud) / bitsPerByte
		n.conditions[[2]string{p.name, o.program.name}] = c
		end.abort(false) // of a program that is gone
		o.mutex.Lock()
		o.peer = opened
		o.mutex.Unlock()
		l.ends[i] = opened
		if !p.keep(opened) {
			return nil, net.ErrClosed
		}
		return opened, nil
	}
	return nil, &net.OpError{Op: "open", Net: "serial", Err: net.UnknownNetworkError(name + " of " + p.name)}
}
