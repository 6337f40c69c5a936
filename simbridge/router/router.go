// Package router passes datagrams between autopilots and the leader, as a telemetry radio does, until it is cut.
//
// Inputs: the leader's address, and one for each autopilot. Outputs: what each autopilot sends, to the leader from one
// address; what the leader sends, to all of them. Callers: simbridge/chaos, for a shared link; simbridge/sitl, for one that
// is cut.
package router

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"prefdt/telemetry/datagram"
)

// Router puts several autopilots on one link of the leader, as a telemetry radio or a
// MAVLink router does: each receives what is sent to any of them.
type Router struct {
	leader  netip.AddrPort
	out     datagram.Socket // to the leader
	inner   []datagram.Socket
	sources []atomic.Pointer[netip.AddrPort] // of the autopilots
	cut     atomic.Bool
}

// New binds an address for each autopilot, by open, which is the machine's where it is nil.
func New(open datagram.Open, leader string, inner ...string) (*Router, error) {
	r := &Router{sources: make([]atomic.Pointer[netip.AddrPort], len(inner))}
	var err error
	if r.leader, err = netip.ParseAddrPort(leader); err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	if r.out, err = open.Bind("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	for _, address := range inner {
		c, err := open.Bind(address)
		if err != nil {
			r.Close()
			return nil, fmt.Errorf("router: %w", err)
		}
		r.inner = append(r.inner, c)
	}
	for i, c := range r.inner {
		go forward(c, func(from netip.AddrPort, datagram []byte) {
			r.sources[i].Store(&from)
			if !r.cut.Load() {
				r.out.WriteToUDPAddrPort(datagram, r.leader)
			}
		})
	}
	go forward(r.out, func(_ netip.AddrPort, datagram []byte) {
		for i, c := range r.inner {
			if to := r.sources[i].Load(); to != nil && !r.cut.Load() {
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
func (r *Router) Addresses() (all []string) {
	for _, c := range r.inner {
		all = append(all, c.LocalAddr().String())
	}
	return all
}

// Cut has nothing pass, or all of it again.
func (r *Router) Cut(cut bool) { r.cut.Store(cut) }

// Close ends all links.
func (r *Router) Close() {
	for _, c := range append(r.inner, r.out) {
		c.Close()
	}
}
