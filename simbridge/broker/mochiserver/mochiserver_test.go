package mochiserver

import (
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

type allowAll struct{ mqtt.HookBase }

func (*allowAll) Provides(hook byte) bool {
	return hook == mqtt.OnConnectAuthenticate || hook == mqtt.OnACLCheck
}
func (*allowAll) OnConnectAuthenticate(*mqtt.Client, packets.Packet) bool { return true }
func (*allowAll) OnACLCheck(*mqtt.Client, string, bool) bool              { return true }

// The broker closes while clients disconnect, each time. Mochi's own Close waited for
// ever after some hundred rounds.
func TestCloseWhileClientsLeave(t *testing.T) {
	for round := range 200 {
		server := mqtt.New(&mqtt.Options{Logger: slog.New(slog.DiscardHandler)})
		if err := server.AddHook(&allowAll{}, nil); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s, err := Serve(server, l)
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		clients := make([]net.Conn, 64)
		for i := range clients {
			group.Go(func() { clients[i] = dial(t, l.Addr().String(), i) })
		}
		group.Wait()
		for _, c := range clients {
			go c.Close()
		}
		time.Sleep(time.Duration(round%30) * 20 * time.Microsecond)
		s.Close()
		if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
			t.Fatal("it still accepts connections")
		}
	}
}

// The broker closes while clients connect. Under the race detector mochi's own listener
// counted a connection while Close already waited for all that were counted.
func TestCloseWhileClientsArrive(t *testing.T) {
	for range 200 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s, err := Serve(mqtt.New(&mqtt.Options{Logger: slog.New(slog.DiscardHandler)}), l)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Fatalf("a connection outlives the server: %d bytes, %v", n, err)
		}
		conn.Close()
	}
}

// dial connects as an MQTT 3.1.1 client with a clean session.
func dial(t *testing.T, address string, i int) net.Conn {
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return nil
	}
	id := fmt.Sprintf("c%02d", i)
	body := append([]byte("\x00\x04MQTT\x04\x02\x00\x3c\x00"), byte(len(id)))
	body = append(body, id...)
	if _, err := c.Write(append([]byte{0x10, byte(len(body))}, body...)); err != nil {
		t.Error(err)
	}
	if _, err := c.Read(make([]byte, 4)); err != nil { // CONNACK
		t.Error(err)
	}
	return c
}
