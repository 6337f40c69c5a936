//go:build real

package datagram

import (
	"net"
	"strconv"
	"testing"
	"time"
)

// A board has two addresses (Wi-Fi and VPN, or an alias), and the leader listens on all of them. A bridge that sends to either from a
// connected socket receives the answers: they come from the address that it sends to.
func TestAnswersFromTheAddressSentTo(t *testing.T) {
	for _, listens := range []string{"0.0.0.0:0", "[::]:0"} {
		l, err := Listen(nil, listens)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		port := strconv.Itoa(l.Addr().(*net.UDPAddr).Port)
		for _, address := range []string{"127.0.0.1", "127.0.0.2", "::1"} { // all of 127/8 is this machine's
			if address == "::1" && listens == "0.0.0.0:0" {
				continue
			}
			bridge, err := net.Dial("udp", net.JoinHostPort(address, port))
			if err != nil {
				t.Fatal(err)
			}
			defer bridge.Close()
			bridge.Write([]byte{magicV2, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0})
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write([]byte("setpoint")); err != nil {
				t.Fatal(err)
			}
			bridge.SetReadDeadline(time.Now().Add(time.Second))
			b := make([]byte, 100)
			if n, err := bridge.Read(b); err != nil || string(b[:n]) != "setpoint" {
				t.Errorf("%s: a bridge that sends to %s receives nothing: %v", listens, address, err)
			}
		}
	}
}
