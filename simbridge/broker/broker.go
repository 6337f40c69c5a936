// Package broker is an MQTT broker in the simulator's own process, so that a flight
// needs nothing installed.
//
// Inputs and outputs: the MQTT connections of the leader, the users and the crew. It
// accepts every client on its address, which is meant to be loopback.
// Callers: simbridge/fly, simbridge/chaos, and tests.
package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"syscall"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"prefdt/simbridge/broker/mochiserver"
	"prefdt/telemetry"
)

// Broker is a running MQTT broker. Its TCP connections have TCP_NODELAY set, as all of
// Go's have.
type Broker struct {
	Address string // to listen on; port 0 chooses a free one, which Initialize sets here

	server *mochiserver.Server
}

// Initialize starts listening.
func (b *Broker) Initialize() error {
	capabilities := mqtt.NewDefaultServerCapabilities()
	capabilities.MaximumPacketSize = 2 * telemetry.MaxPayload
	capabilities.MaximumSessionExpiryInterval = 0 // no session outlives its connection
	server := mqtt.New(&mqtt.Options{Capabilities: capabilities, Logger: slog.New(slog.DiscardHandler), SysTopicResendInterval: math.MaxInt32})
	if err := server.AddHook(&allowAll{}, nil); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	l, err := net.Listen("tcp", b.Address)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("broker address %s is in use by another program: stop it, or choose another address", b.Address)
		}
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

// allowAll lets every client connect and use any topic.
type allowAll struct{ mqtt.HookBase }

func (*allowAll) ID() string { return "allow-all" }

func (*allowAll) Provides(b byte) bool {
	return b == mqtt.OnConnectAuthenticate || b == mqtt.OnACLCheck
}

func (*allowAll) OnConnectAuthenticate(*mqtt.Client, packets.Packet) bool { return true }

func (*allowAll) OnACLCheck(*mqtt.Client, string, bool) bool { return true }
