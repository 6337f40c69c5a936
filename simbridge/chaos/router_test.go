package chaos

import (
	"net"
	"slices"
	"testing"
	"time"
)

// What each autopilot sends reaches the leader from one address, and each receives what
// the leader sends there.
func TestRouter(t *testing.T) {
	open := func() *net.UDPConn {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		return c
	}
	read := func(c *net.UDPConn) (string, *net.UDPAddr) {
		buffer := make([]byte, 100)
		n, from, err := c.ReadFromUDP(buffer)
		if err != nil {
			t.Fatal(err)
		}
		return string(buffer[:n]), from
	}
	leader := open()
	r, err := newRouter(nil, leader.LocalAddr().String(), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	autopilots := []*net.UDPConn{open(), open()}
	var received []string
	var link *net.UDPAddr
	for i, address := range r.Addresses() {
		to, err := net.ResolveUDPAddr("udp4", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := autopilots[i].WriteToUDP([]byte{'1' + byte(i)}, to); err != nil {
			t.Fatal(err)
		}
		text, from := read(leader)
		if link != nil && from.String() != link.String() {
			t.Errorf("from %v and %v", link, from)
		}
		received, link = append(received, text), from
	}
	if !slices.Equal(received, []string{"1", "2"}) {
		t.Errorf("the leader received %q", received)
	}
	if _, err := leader.WriteToUDP([]byte("to all"), link); err != nil {
		t.Fatal(err)
	}
	for i, a := range autopilots {
		if text, _ := read(a); text != "to all" {
			t.Errorf("autopilot %d received %q", i+1, text)
		}
	}
}
