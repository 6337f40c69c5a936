// Package broker is an MQTT broker in the simulator's own process, so that a flight
// needs nothing installed.
//
// Inputs and outputs: the MQTT connections of the leader, the users and the crew. It
// accepts every client on its address, which is meant to be loopback.
// Callers: simbridge/fly, simbridge/chaos, and tests.
package broker

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"prefdt/simbridge/broker/mochiserver"
	"prefdt/telemetry"
)

// Broker is a running MQTT broker. Its TCP connections have TCP_NODELAY set, as all of
// Go's have.
type Broker struct {
	Address string                                              // to listen on; port 0 chooses a free one, which Initialize sets here
	Listen  func(network, address string) (net.Listener, error) // nil: net.Listen
	// OnMessage, if set, is called with each message that a client published and the broker accepted, to being
	// empty, and with each that it sent to a client.
	OnMessage func(from, to, topic string, payload []byte)

	server *mochiserver.Server
}

// Initialize starts listening.
func (b *Broker) Initialize() error {
	capabilities := mqtt.NewDefaultServerCapabilities()
	capabilities.MaximumPacketSize = telemetry.MaxStatus + 1024 // with the longest topic of a fleet
	capabilities.MaximumInflight = 4096                         // for a client that reads slowly; a slot may have as many results
	capabilities.MaximumSessionExpiryInterval = 0               // no session outlives its connection
	server := mqtt.New(&mqtt.Options{Capabilities: capabilities, Logger: slog.New(slog.DiscardHandler),
		SysTopicResendInterval: math.MaxInt32})
	if err := server.AddHook(&hook{onMessage: b.OnMessage}, nil); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	listen := b.Listen
	if listen == nil {
		listen = net.Listen
	}
	l, err := listen("tcp", b.Address)
	if err != nil {
		return fmt.Errorf("broker address %s: %w", b.Address, err)
	}
	if b.server, err = mochiserver.Serve(server, l); err != nil {
		l.Close()
		return fmt.Errorf("broker: %w", err)
	}
	b.Address = l.Addr().String()
	return nil
}

// URL is what clients connect to.
func (b *Broker) URL() string { return "tcp://" + b.Address }

// Close ends all connections. A broker that is not running has none.
func (b *Broker) Close() {
	if b.server != nil {
		b.server.Close()
	}
}

// hook lets every client connect and use any topic, and keeps nothing for those that are
// away: neither a session, whatever the client asks for, nor what a user wants retained.
type hook struct {
	mqtt.HookBase
	onMessage func(from, to, topic string, payload []byte) // nil: nobody asks
}

func (*hook) ID() string { return "hook" }

func (h *hook) Provides(b byte) bool {
	return b == mqtt.OnConnectAuthenticate || b == mqtt.OnACLCheck || b == mqtt.OnConnect || b == mqtt.OnPublish ||
		b == mqtt.OnPacketSent && h.onMessage != nil
}

func (h *hook) OnPacketSent(c *mqtt.Client, p packets.Packet, _ []byte) {
	if p.FixedHeader.Type == packets.Publish {
		h.onMessage(p.Origin, c.ID, p.TopicName, p.Payload)
	}
}

func (*hook) OnConnectAuthenticate(*mqtt.Client, packets.Packet) bool { return true }

func (*hook) OnACLCheck(*mqtt.Client, string, bool) bool { return true }

func (*hook) OnConnect(c *mqtt.Client, _ packets.Packet) error {
	c.Properties.Clean = true
	return nil
}

func (h *hook) OnPublish(c *mqtt.Client, p packets.Packet) (packets.Packet, error) {
	if h.onMessage != nil {
		h.onMessage(c.ID, "", p.TopicName, p.Payload)
	}
	p.FixedHeader.Retain = p.FixedHeader.Retain && !strings.Contains(p.TopicName, "/users/")
	return p, nil
}
