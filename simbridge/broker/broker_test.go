package broker

import (
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"prefdt/simbridge/simnet"
)

func TestAddressInUse(t *testing.T) {
	b := &Broker{Address: "127.0.0.1:0"}
	if err := b.Initialize(); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	err := (&Broker{Address: b.Address}).Initialize()
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), b.Address) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
	nowhere := &Broker{Address: "nowhere.invalid:1"}
	if err := nowhere.Initialize(); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
	nowhere.Close()
}

// Nothing is kept for those who are away: a client that asks for a session does not receive
// what was published meanwhile, a decision of a slot long over, and a user's report is not
// retained; a status is.
func TestKeepsNothing(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		b := &Broker{Address: "127.0.0.1:0", Listen: n.Program("broker").Listen}
		if err := b.Initialize(); err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		received := make(chan string, 10)
		connect := func(id string) paho.Client {
			t.Helper()
			o := paho.NewClientOptions().AddBroker(b.URL()).SetClientID(id).SetCleanSession(false).SetAutoReconnect(false)
			o.SetCustomOpenConnectionFn(func(u *url.URL, _ paho.ClientOptions) (net.Conn, error) {
				return n.Program(id).Dial(t.Context(), "tcp", u.Host)
			})
			o.SetDefaultPublishHandler(func(_ paho.Client, m paho.Message) { received <- m.Topic() })
			c := paho.NewClient(o)
			wait(t, c.Connect())
			t.Cleanup(func() { c.Disconnect(0) })
			return c
		}
		user := connect("user")
		wait(t, user.Subscribe("prefdt/f/users/u1/decision", 1, nil))
		user.Disconnect(0)
		time.Sleep(time.Second) // until the broker has noticed
		leader, passed := connect("leader"), make(chan struct{}, 1)
		wait(t, leader.Subscribe("prefdt/f/status", 1, func(paho.Client, paho.Message) { passed <- struct{}{} }))
		wait(t, leader.Publish("prefdt/f/users/u1/decision", 1, false, "late"))
		wait(t, leader.Publish("prefdt/f/users/u1/report", 1, true, "lie"))
		wait(t, leader.Publish("prefdt/f/status", 1, true, "status"))
		<-passed // the broker acknowledges a message before it has kept it and passed it on
		again := connect("user")
		wait(t, again.Subscribe("prefdt/f/#", 1, nil))
		wait(t, again.Publish("prefdt/f/end", 1, false, "end")) // which the broker reads once it has sent what it kept
		var got []string
		for len(got) == 0 || got[len(got)-1] != "prefdt/f/end" {
			select {
			case topic := <-received:
				got = append(got, topic)
			case <-time.After(time.Minute):
				t.Fatalf("received %v, and no end", got)
			}
		}
		if strings.Join(got, " ") != "prefdt/f/status prefdt/f/end" {
			t.Errorf("received %v", got)
		}
	})
}

func wait(t *testing.T, token paho.Token) {
	t.Helper()
	if !token.WaitTimeout(time.Minute) || token.Error() != nil {
		t.Fatal(token.Error())
	}
}

// Bytes that are not MQTT end their own connection only.
func TestHostileBytes(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		b := &Broker{Address: "127.0.0.1:0", Listen: n.Program("broker").Listen}
		if err := b.Initialize(); err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		for _, bytes := range []string{"GET / HTTP/1.1\r\n\r\n", "\x10\xff\xff\xff\x7f", "\x10\x00", strings.Repeat("\x00", 4096),
			"\x30\x05ab"} {
			c, err := n.Program("stranger").Dial(t.Context(), "tcp", b.Address)
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(c, bytes)
			c.(interface{ CloseWrite() error }).CloseWrite()
			c.SetReadDeadline(time.Now().Add(20 * time.Second))
			io.Copy(io.Discard, c)
			c.Close()
		}
		// A valid client is still accepted: CONNECT, client id "x", answered by CONNACK 0.
		c, err := n.Program("stranger").Dial(t.Context(), "tcp", b.Address)
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
	})
}
