package chaos

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"prefdt/telemetry/datagram"
)

// router puts several autopilots on one link of the leader, as a telemetry radio or a
// MAVLink router does: each receives what is sent to any of them.
type router struct {
	leader  netip.AddrPort
	out     datagram.Socket // to the leader
	inner   []datagram.Socket
	sources []atomic.Pointer[netip.AddrPort] // of the autopilots
}

func newRouter(open datagram.Open, leader string, autopilots int) (*router, error) {
	r := &router{sources: make([]atomic.Pointer[netip.AddrPort], autopilots)}
	var err error
	if r.leader, err = netip.ParseAddrPort(leader); err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	const loopback = "127.0.0.1:0"
	if r.out, err = open.Bind(loopback); err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	for range autopilots {
		c, err := open.Bind(loopback)
		if err != nil {
			r.Close()
			return nil, fmt.Errorf("router: %w", err)
		}
		r.inner = append(r.inner, c)
	}
	for i, c := range r.inner {
		go forward(c, func(from netip.AddrPort, datagram []byte) {
			r.sources[i].Store(&from)
			r.out.WriteToUDPAddrPort(datagram, r.leader)
		})
	}
	go forward(r.out, func(_ netip.AddrPort, datagram []byte) {
		for i, c := range r.inner {
			if to := r.sources[i].Load(); to != nil {
				c.WriteToUDPAddrPort(datagram, *to)
			}
		}
	})
	return r, nil
}

// forward handles each datagram until the socket is closed. One that cannot be sent on is
// lost, as on any radio.
func forward(from datagram.Socket, handle func(netip.AddrPort, []byte)) {
	buffer := make([]byte, 2048)
	for {
		n, source, err := from.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return
		}
		handle(source, buffer[:n])
	}
}

// Addresses are the autopilots' partners.
func (r *router) Addresses() (all []string) {
	for _, c := range r.inner {
		all = append(all, c.LocalAddr().String())
	}
	return all
}

// Close ends all links.
func (r *router) Close() {
	for _, c := range append(r.inner, r.out) {
		c.Close()
	}
}
