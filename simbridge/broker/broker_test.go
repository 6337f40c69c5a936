package broker

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func TestAddressInUse(t *testing.T) {
	b := &Broker{Address: "127.0.0.1:0"}
	if err := b.Initialize(); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	err := (&Broker{Address: b.Address}).Initialize()
	if err == nil || !strings.Contains(err.Error(), b.Address+" is in use") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
	nowhere := &Broker{Address: "nowhere.invalid:1"}
	if err := nowhere.Initialize(); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
	nowhere.Close()
}

// Bytes that are not MQTT end their own connection only.
func TestHostileBytes(t *testing.T) {
	b := &Broker{Address: "127.0.0.1:0"}
	if err := b.Initialize(); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, bytes := range []string{"GET / HTTP/1.1\r\n\r\n", "\x10\xff\xff\xff\x7f", "\x10\x00", strings.Repeat("\x00", 4096), "\x30\x05ab"} {
		c, err := net.Dial("tcp", b.Address)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, bytes)
		c.(*net.TCPConn).CloseWrite()
		c.SetReadDeadline(time.Now().Add(20 * time.Second))
		io.Copy(io.Discard, c)
		c.Close()
	}
	// A valid client is still accepted: CONNECT, client id "x", answered by CONNACK 0.
	c, err := net.Dial("tcp", b.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01x")
	answer := make([]byte, 4)
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "\x20\x02\x00\x00" {
		t.Errorf("answer %x, %v", answer, err)
	}
}
