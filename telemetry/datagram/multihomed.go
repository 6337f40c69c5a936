package datagram

import (
	"net"
	"net/netip"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// local is one of this machine's addresses, and the interface on which it was reached; the zero value: routing chooses.
type local struct {
	address netip.Addr
	link    int
}

// multihomed is a socket that listens on all addresses of a machine that may have several. A peer is answered from the one that it
// sent to: a connected socket, a firewall that keeps state and a NAT drop what comes from another.
type multihomed struct {
	*net.UDPConn
	six bool
}

func newMultihomed(c *net.UDPConn) *multihomed {
	a, _ := c.LocalAddr().(*net.UDPAddr)
	m := &multihomed{UDPConn: c, six: a != nil && a.IP.To4() == nil}
	// Where a system cannot say it, routing chooses, as for any other program.
	if m.six {
		ipv6.NewPacketConn(c).SetControlMessage(ipv6.FlagDst|ipv6.FlagInterface, true)
	} else {
		ipv4.NewPacketConn(c).SetControlMessage(ipv4.FlagDst|ipv4.FlagInterface, true)
	}
	return m
}

// readFrom waits for the next datagram, and says from where and to which address it came.
func (m *multihomed) readFrom(b []byte) (n int, from netip.AddrPort, to local, err error) {
	control := make([]byte, 128)
	n, controlBytes, _, from, err := m.ReadMsgUDPAddrPort(b, control)
	if err != nil {
		return n, from, to, err
	}
	if m.six {
		var x ipv6.ControlMessage
		if x.Parse(control[:controlBytes]) == nil {
			to.address, _ = netip.AddrFromSlice(x.Dst)
			to.link = x.IfIndex
		}
		return n, from, to, nil
	}
	var x ipv4.ControlMessage
	if x.Parse(control[:controlBytes]) == nil {
		to.address, _ = netip.AddrFromSlice(x.Dst.To4())
		to.link = x.IfIndex
	}
	return n, from, to, nil
}

// writeTo sends a datagram from one of this machine's addresses. One that cannot be sent from, as that of a broadcast, leaves the
// choice to routing.
func (m *multihomed) writeTo(b []byte, to netip.AddrPort, from local) (int, error) {
	if control := m.control(from); control != nil {
		if n, _, err := m.WriteMsgUDPAddrPort(b, control, to); err == nil {
			return n, nil
		}
	}
	return m.WriteToUDPAddrPort(b, to)
}

func (m *multihomed) control(from local) []byte {
	switch a := from.address.Unmap(); {
	case !a.IsValid() || a.IsMulticast():
		return nil
	case a.Is4(): // on a socket of both, too
		return (&ipv4.ControlMessage{Src: a.AsSlice()}).Marshal()
	case from.address.IsLinkLocalUnicast(): // which is of one interface
		return (&ipv6.ControlMessage{Src: from.address.AsSlice(), IfIndex: from.link}).Marshal()
	}
	return (&ipv6.ControlMessage{Src: from.address.AsSlice()}).Marshal()
}
