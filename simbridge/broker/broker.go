// Package broker is an MQTT broker in the simulator's own process, so that a
// flight needs nothing installed. It takes anyone on its address, which is
// meant to be loopback.
package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"syscall"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"

	"prefdt/telemetry"
)

// Broker is a running MQTT broker. Its TCP connections send without delay, as
// all of Go's do.
type Broker struct {
	Address string // to listen on; port 0 takes a free one

	server   *mqtt.Server
	listener *listeners.TCP
}

// Initialize starts listening.
func (b *Broker) Initialize() error {
	capabilities := mqtt.NewDefaultServerCapabilities()
	capabilities.MaximumPacketSize = 2 * telemetry.MaxPayload
	capabilities.MaximumSessionExpiryInterval = 0 // no session outlives its connection
	b.server = mqtt.New(&mqtt.Options{Capabilities: capabilities, Logger: slog.New(slog.DiscardHandler), SysTopicResendInterval: math.MaxInt32})
	if err := b.server.AddHook(&allowAll{}, nil); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	b.listener = listeners.NewTCP(listeners.Config{ID: "tcp", Address: b.Address})
	if err := b.server.AddListener(b.listener); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) || strings.Contains(err.Error(), "address already in use") {
			return fmt.Errorf("broker address %s is in use by another program: stop it, or choose another address", b.Address)
		}
		return fmt.Errorf("broker address %s: %w", b.Address, err)
	}
	if err := b.server.Serve(); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	return nil
}

// Addr is the bound address.
func (b *Broker) Addr() string { return b.listener.Address() }

// URL is what clients connect to.
func (b *Broker) URL() string { return "tcp://" + b.Addr() }

// Close ends all connections.
func (b *Broker) Close() { b.server.Close() }

// allowAll lets anyone connect and use any topic.
type allowAll struct{ mqtt.HookBase }

func (*allowAll) ID() string { return "allow-all" }

func (*allowAll) Provides(b byte) bool {
	return b == mqtt.OnConnectAuthenticate || b == mqtt.OnACLCheck
}

func (*allowAll) OnConnectAuthenticate(*mqtt.Client, packets.Packet) bool { return true }

func (*allowAll) OnACLCheck(*mqtt.Client, string, bool) bool { return true }
