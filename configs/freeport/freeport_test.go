package freeport

import (
	"net"
	"strconv"
	"testing"
)

// Ports are free for both protocols, each is given once, and what listens is not given.
func TestPorts(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		port, err := Port()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] || port < first || port > last {
			t.Errorf("port %d", port)
		}
		seen[port] = true
	}
	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	for _, a := range []string{udp.LocalAddr().String(), tcp.Addr().String()} {
		_, text, _ := net.SplitHostPort(a)
		if port, _ := strconv.Atoi(text); free(port) {
			t.Errorf("%s is taken for free", a)
		}
	}
}
