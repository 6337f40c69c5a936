package telemetry

import (
	"bytes"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

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
	var wire bytes.Buffer
	const most = 20000
	sizes := []int{0, 1, 127 - 3, 128 - 3, 16383 - 3, 16384 - 3, most - 1, most, most + 1, most + 2, 1 << 20, 3 << 20} // 3: the topic
	for _, size := range sizes {
		p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
		p.TopicName, p.Payload, p.Qos = "t", bytes.Repeat([]byte{byte(size)}, size), byte(size%2)
		if err := p.Write(&wire); err != nil {
			t.Fatal(err)
		}
		if err := packets.NewControlPacket(packets.Pingresp).Write(&wire); err != nil {
			t.Fatal(err)
		}
	}
	wire.Write([]byte{packets.Suback << 4, 0x81, 0x80, 0x80, 0x01}) // 2 MB of it
	conn := newLimitedConn(bytesConn{r: &wire, random: rand.New(rand.NewPCG(3, 4))}, most, 0, nil)
	for _, size := range sizes {
		got, err := packets.ReadPacket(conn)
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		p, ok := got.(*packets.PublishPacket)
		if want := bytes.Repeat([]byte{byte(size)}, min(size, most+1)); !ok || p.TopicName != "t" || !bytes.Equal(p.Payload, want) {
			t.Fatalf("%d bytes: got %v", size, got)
		}
		if got, err = packets.ReadPacket(conn); err != nil {
			t.Fatalf("after %d bytes: %v", size, err)
		} else if _, ok := got.(*packets.PingrespPacket); !ok {
			t.Fatalf("after %d bytes: %v", size, got)
		}
	}
	if _, err := packets.ReadPacket(conn); err == nil || !strings.Contains(err.Error(), "packet of type 9 with 2097153 bytes") {
		t.Fatalf("a large packet of another type: %v", err)
	}
	endless := newLimitedConn(bytesConn{r: bytes.NewReader([]byte{0x30, 0xff, 0xff, 0xff, 0xff, 1}), random: rand.New(rand.NewPCG(3, 4))},
		most, 0, nil)
	if _, err := endless.Read(make([]byte, 9)); err == nil || err == io.EOF {
		t.Fatalf("endless length: %v", err)
	}
}

// Of a flood on one topic a burst is passed on, of publications that want an acknowledgement the
// others without a payload; other topics, other packets and the next window are not touched.
func TestLimitedConnDropsAFlood(t *testing.T) {
	var wire bytes.Buffer
	write := func(topic string, qos byte, n int) {
		for range n {
			p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
			p.TopicName, p.Qos, p.MessageID, p.Payload = topic, qos, 7, []byte("text")
			p.Write(&wire)
			packets.NewControlPacket(packets.Pingresp).Write(&wire)
		}
	}
	write("flood", 0, 100)
	write("honest", 0, 1)
	write("acknowledged", 1, 10)
	var flooded atomic.Uint64
	conn := newLimitedConn(bytesConn{r: &wire, random: rand.New(rand.NewPCG(3, 4))}, 100, time.Hour, &flooded)
	read := func() map[string]int {
		got := map[string]int{}
		for {
			p, err := packets.ReadPacket(conn)
			if err != nil {
				return got
			}
			if x, ok := p.(*packets.PublishPacket); ok {
				got[x.TopicName+" "+string(x.Payload)]++
			} else {
				got["other"]++
			}
		}
	}
	want := map[string]int{"flood text": maxBurst, "honest text": 1, "acknowledged text": maxBurst, "acknowledged ": 10 - maxBurst,
		"other": 111}
	if got := read(); !maps.Equal(got, want) || flooded.Load() != 100-maxBurst+10-maxBurst {
		t.Errorf("passed %v, want %v; %d flooded", got, want, flooded.Load())
	}
	conn.windowBegan = conn.windowBegan.Add(-2 * time.Hour)
	write("flood", 0, 1)
	if got := read(); got["flood text"] != 1 {
		t.Errorf("in the next window: %v", got)
	}
}

// Whatever a broker sends: what passes is whole packets of bounded length.
func FuzzPackets(f *testing.F) {
	f.Add([]byte{0x30, 5, 0, 1, 't', 'h', 'i', 0xd0, 0})
	f.Add([]byte{0x32, 0x80, 0x80, 0x04, 0, 1, 't'})
	f.Add([]byte{0x90, 0xff, 0xff, 0xff, 0x7f})
	f.Add([]byte{0x30, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, wire []byte) {
		conn := newLimitedConn(bytesConn{r: bytes.NewReader(wire), random: rand.New(rand.NewPCG(1, 2))}, MaxPayload, time.Hour,
			new(atomic.Uint64))
		for left := len(wire); ; left-- { // a packet has two bytes or more
			if left < 0 {
				t.Fatal("packets without end")
			}
			p, err := packets.ReadPacket(conn)
			if err != nil {
				return
			}
			if p, ok := p.(*packets.PublishPacket); ok && len(p.Payload) > MaxPayload+1 {
				t.Fatalf("a payload of %d bytes", len(p.Payload))
			}
		}
	})
}

// A publication beyond every limit is rejected like any other invalid payload.
func TestHugePublication(t *testing.T) {
	eachBroker(t, func(t *testing.T, p *place) {
		address, _ := p.start(t, brokerSetup{})
		messages := connectClient(t, &Client{Broker: p.broker(address), Name: "leader"}, "x")
		untrusted := &Client{Broker: p.broker(address), Name: "untrusted"}
		connectClient(t, untrusted)
		publish(t, untrusted, Publication{Topic: "x", QoS: 1, Payload: bytes.Repeat([]byte(" "), 2<<20)})
		publish(t, untrusted, Publication{Topic: "x", QoS: 1, Payload: []byte(reportExample)})
		if _, err := DecodeReport(nextEvent(t, "cut message", messages).Payload); err == nil ||
			!strings.Contains(err.Error(), "at most 8192 are read") {
			t.Errorf("huge: %v", err)
		}
		if _, err := DecodeReport(nextEvent(t, "message after it", messages).Payload); err != nil {
			t.Error(err)
		}
	})
}

// Go turns Nagle's algorithm off on every TCP connection; the slot's deadlines depend on it.
func TestDialHasNoDelay(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, _, err := Broker{}.dial(listener.Addr().String(), nil)
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
