//go:build real

package fleet

import (
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/firmware/clock"
	"prefdt/firmware/envelope"
	"prefdt/inference/physics"
)

// Aircraft 1 has a link. The address of aircraft 2's is not of this machine at this moment, and the port of aircraft 3's is another
// program's: the first is flown all the same, the others' reasons are named, and a link is opened as soon as it can be. The endpoint
// of aircraft 4 calls over IPv6.
func TestOneAddressMissing(t *testing.T) {
	listen := func(network, address string) net.PacketConn {
		c, err := net.ListenPacket(network, address)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	free, taken, called := listen("udp4", "127.0.0.1:0"), listen("udp4", "127.0.0.1:0"), listen("udp6", "[::1]:0")
	defer called.Close()
	free.Close()
	f := &Fleet{
		SystemID: 250, Origin: Origin{47, 8, 400}, Physics: physics.DefaultConstants(), Speed: 1,
		Limits: envelope.Limits{SpeedMaxMPS: 30, SeparationM: 10, AreaM: 1000, AltitudeM: 100, BandM: 20, FenceM: 15},
		Clock:  clock.New(), Log: slog.New(slog.DiscardHandler),
		VehicleLinks: []VehicleLink{{SystemID: 1, Endpoint: "udp-listen:" + free.LocalAddr().String()},
			{SystemID: 2, Endpoint: "udp-listen:192.0.2.1:14541"}, {SystemID: 3, Endpoint: "udp-listen:" + taken.LocalAddr().String()},
			{SystemID: 4, Endpoint: "udp:" + called.LocalAddr().String()}, {SystemID: 5, Endpoint: "udp-listen:board.local:14542"}},
	}
	if err := f.Initialize(); err != nil {
		t.Fatal(err)
	}
	if err := f.Start(); err != nil {
		t.Fatalf("no aircraft is flown: %v", err)
	}
	defer f.Close()
	f.StartStreaming()
	called.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, _, err := called.ReadFrom(make([]byte, 300)); err != nil {
		t.Errorf("the endpoint of IPv6 was not called: %v", err)
	}
	speak := func(system byte, address string) (received bool) {
		n := &gomavlib.Node{Endpoints: []gomavlib.EndpointConf{gomavlib.EndpointUDPClient{Address: address}}, Dialect: common.Dialect,
			OutVersion: gomavlib.V2, OutSystemID: system, HeartbeatPeriod: 20 * time.Millisecond,
			HeartbeatAutopilotType: int(common.MAV_AUTOPILOT_PX4), HeartbeatSystemType: int(common.MAV_TYPE_QUADROTOR)}
		if err := n.Initialize(); err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		go func() {
			for range n.Events() {
			}
		}()
		for late := time.Now().Add(5 * time.Second); !received && time.Now().Before(late); time.Sleep(10 * time.Millisecond) {
			received = f.Views()[system-1].Received
		}
		return received
	}
	if !speak(1, free.LocalAddr().String()) {
		t.Error("aircraft 1 is not received")
	}
	for number, want := range map[int]string{
		2: "cannot assign requested address; this machine does not have that address now: `ip address`",
		3: "address already in use; a leader, a ground station or a MAVLink router may have it",
		5: "names that end in .local are found by avahi",
	} {
		if v := f.Views()[number-1]; !strings.Contains(v.LinkTrouble, want) || v.Ready().Error() != v.LinkTrouble {
			t.Errorf("aircraft %d: %q, ready: %v", number, v.LinkTrouble, v.Ready())
		}
	}
	taken.Close()
	if !speak(3, taken.LocalAddr().String()) {
		t.Error("aircraft 3 is not received once its link can be opened")
	}
	if v := f.Views()[2]; v.LinkTrouble != "" {
		t.Errorf("it is open, and its trouble still %q", v.LinkTrouble)
	}
}
