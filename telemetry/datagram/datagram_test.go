package datagram

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := Listen(nil, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func call(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("udp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func read(t *testing.T, c net.Conn) string {
	t.Helper()
	b := make([]byte, maxBytes)
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func accept(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Two peers have a connection each, datagrams stay whole, and each is answered at its own
// address.
func TestPeers(t *testing.T) {
	l := listen(t)
	a, b := call(t, l), call(t, l)
	send(t, a, "one")
	atA := accept(t, l)
	send(t, b, "two")
	atB := accept(t, l)
	send(t, a, "three")
	if x, y, z := read(t, atA), read(t, atA), read(t, atB); x != "one" || y != "three" || z != "two" {
		t.Errorf("%q %q %q", x, y, z)
	}
	send(t, atB, "answer")
	if x := read(t, b); x != "answer" {
		t.Errorf("%q", x)
	}
	if atA.RemoteAddr().String() != a.LocalAddr().String() || atA.LocalAddr().String() != l.Addr().String() {
		t.Errorf("from %v to %v", atA.RemoteAddr(), atA.LocalAddr())
	}
	atA.SetReadDeadline(time.Now().Add(-time.Second))
	if _, err := atA.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after its deadline a read returns %v", err)
	}
}

// A peer whose connection was closed gets another with its next datagram.
func TestPeerComesBack(t *testing.T) {
	l := listen(t)
	a := call(t, l)
	send(t, a, "one")
	first := accept(t, l)
	first.Close()
	if _, err := first.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write after Close returns %v", err)
	}
	send(t, a, "two")
	if x := read(t, accept(t, l)); x != "two" {
		t.Errorf("%q", x)
	}
}

// A flood of source addresses opens no more than maxPeers connections.
func TestFlood(t *testing.T) {
	l := listen(t)
	for range maxPeers {
		send(t, call(t, l), "flood")
		accept(t, l)
	}
	one := call(t, l)
	send(t, one, "too many")
	if p := l.(*listener).peer(one.LocalAddr().(*net.UDPAddr).AddrPort()); p != nil {
		t.Errorf("%v has a connection", p.address)
	}
}

// Closed at any moment, also while a peer's first datagram comes, a listener ends every
// Accept and Read, and nothing panics.
func TestCloseAtAnyMoment(t *testing.T) {
	for range 300 {
		l := listen(t)
		peer := call(t, l)
		var all sync.WaitGroup
		all.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					if !errors.Is(err, net.ErrClosed) {
						t.Error(err)
					}
					return
				}
				all.Go(func() {
					for err := error(nil); err == nil; {
						_, err = c.Read(make([]byte, 10))
					}
					c.Close()
				})
			}
		})
		all.Go(func() { fmt.Fprint(peer, "first") })
		all.Go(func() { l.Close() })
		all.Wait()
	}
}
