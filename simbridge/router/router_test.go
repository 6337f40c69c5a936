package router

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"prefdt/simbridge/simnet"
	"prefdt/telemetry/datagram"
)

// What each autopilot sends reaches the leader from one address, and each receives what
// the leader sends there, unless the links are cut.
func TestRouter(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		open := func(program string) datagram.Socket {
			s, err := n.Program(program).Socket("127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		}
		read := func(s datagram.Socket) (string, netip.AddrPort) {
			buffer := make([]byte, 100)
			n, from, err := s.ReadFromUDPAddrPort(buffer)
			if err != nil {
				t.Fatal(err)
			}
			return string(buffer[:n]), from
		}
		leader := open("leader")
		r, err := New(n.Program("router").Socket, leader.LocalAddr().String(), "127.0.0.1:0", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		autopilots := []datagram.Socket{open("autopilot-1"), open("autopilot-2")}
		var received []string
		var link netip.AddrPort
		for i, address := range r.Addresses() {
			if _, err := autopilots[i].WriteToUDPAddrPort([]byte{'1' + byte(i)}, netip.MustParseAddrPort(address)); err != nil {
				t.Fatal(err)
			}
			text, from := read(leader)
			if link.IsValid() && from != link {
				t.Errorf("from %v and %v", link, from)
			}
			received, link = append(received, text), from
		}
		if !slices.Equal(received, []string{"1", "2"}) {
			t.Errorf("the leader received %q", received)
		}
		if _, err := leader.WriteToUDPAddrPort([]byte("to all"), link); err != nil {
			t.Fatal(err)
		}
		for i, a := range autopilots {
			if text, _ := read(a); text != "to all" {
				t.Errorf("autopilot %d received %q", i+1, text)
			}
		}
		for _, cut := range []bool{true, false} { // what is sent while it is cut never arrives
			r.Cut(cut)
			text := map[bool]string{true: "lost", false: "passes"}[cut]
			autopilots[0].WriteToUDPAddrPort([]byte(text), netip.MustParseAddrPort(r.Addresses()[0]))
			leader.WriteToUDPAddrPort([]byte(text), link)
			time.Sleep(time.Second)
		}
		for _, end := range []datagram.Socket{leader, autopilots[0]} {
			if text, _ := read(end); text != "passes" {
				t.Errorf("received %q after a cut", text)
			}
		}
	})
}
