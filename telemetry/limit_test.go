package telemetry

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// bytesConn is a connection that delivers a recording in pieces of any size.
type bytesConn struct {
	net.Conn
	r      io.Reader
	random *rand.Rand
}

func (c bytesConn) Read(p []byte) (int, error) { return c.r.Read(p[:1+c.random.IntN(len(p))]) }

func TestLimitedConnFollowsTheFraming(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var wire bytes.Buffer
	sizes := []int{0, 1, 100, 127 - 3, 128 - 3, 16383 - 3, 16384 - 3, 70000, maxPacket - 3} // 3: the topic
	for range 3 {
		for _, size := range sizes {
			p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
			p.TopicName, p.Payload = "t", make([]byte, size)
			if err := p.Write(&wire); err != nil {
				t.Fatal(err)
			}
			if err := packets.NewControlPacket(packets.Pingresp).Write(&wire); err != nil {
				t.Fatal(err)
			}
		}
	}
	whole := bytes.Clone(wire.Bytes())
	got, err := io.ReadAll(&limitedConn{Conn: bytesConn{r: &wire, random: random}})
	if err != nil || !bytes.Equal(got, whole) {
		t.Fatalf("%d bytes of %d, %v", len(got), len(whole), err)
	}
	// One more byte than allowed, after all that.
	wire.Write(whole)
	wire.Write([]byte{0x30, 0x81, 0x80, 0x40})
	if _, err = io.ReadAll(&limitedConn{Conn: bytesConn{r: &wire, random: random}}); err == nil || !strings.Contains(err.Error(), "message_size_limit") {
		t.Fatalf("a packet of %d bytes: %v", maxPacket+1, err)
	}
}

// Go turns Nagle's algorithm off on every TCP connection; CONTRACT relies on it.
func TestDialHasNoDelay(t *testing.T) {
	listener := newCable(t, "").listener
	conn, err := dial(listener.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var noDelay int
	if err := raw.Control(func(fd uintptr) {
		noDelay, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_NODELAY)
	}); err != nil {
		t.Fatal(err)
	}
	if err != nil || noDelay == 0 {
		t.Fatalf("TCP_NODELAY is %d, %v", noDelay, err)
	}
}
