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
		l.ends[i] = newStream(&Program{name: pair[0], network: n}, device(name), device(name), n.newPath(pair[0], pair[1]))
		l.ends[i].pieces, l.ends[i].failure = true, net.ErrClosed // until it is opened
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
		end.out.lineRate = float64(baud) / bitsPerByte
		opened := newStream(p, end.local, end.remote, end.out)
		opened.pieces, opened.peer = true, o
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
