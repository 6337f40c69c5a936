package datagram_test

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/simbridge/simnet"
	"prefdt/telemetry/datagram"
)

// autopilotFrames are a position, a HEARTBEAT, EXTENDED_SYS_STATE, SYS_STATUS and BATTERY_STATUS.
var autopilotFrames = []string{
	"fd0f000001010121000060ea00007000411c60a01805407207823b",
	"fd09000002010100000000000403020c05030365f5",
	"fd020000030101f500000001113f",
	"fd1f00000401010100000000001000000010000000100000803e3200000000000000000000000000625c01",
	"fd240000050101930000ffffffffffffffffff7f803effffffffffffffffffffffffffffffffffff320000000062fea3"}

// However a bridge packs and cuts an autopilot's frames, at both kinds of endpoint each is
// received.
func TestFramesInDatagrams(t *testing.T) {
	var whole []byte
	const repeats = 400
	for range repeats {
		for _, text := range autopilotFrames {
			b, err := hex.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			whole = append(whole, b...)
		}
	}
	const most = 65_507 // bytes of a datagram
	for _, bytes := range []int{21, 100, 211, 1400, 8000, most} {
		for _, name := range []string{"listening", "calling"} {
			t.Run(fmt.Sprint(name, " ", bytes), func(t *testing.T) {
				simnet.Test(t, func(t *testing.T) { receiveFrames(t, name == "calling", whole, repeats*len(autopilotFrames), bytes) })
			})
		}
	}
}

// receiveFrames sends a stream in datagrams of so many bytes, and counts the frames that are received.
func receiveFrames(t *testing.T, calling bool, stream []byte, frames, bytes int) {
	network := simnet.New(1)
	partner, err := network.Program("bridge").Socket("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer partner.Close()
	leader := datagram.Open(network.Program("leader").Socket)
	at := network.FreeAddress()
	endpoint, to := datagram.Endpoint(leader, at), netip.MustParseAddrPort(at)
	if calling {
		endpoint = datagram.Client(leader, partner.LocalAddr().String())
	}
	node := &gomavlib.Node{Endpoints: []gomavlib.EndpointConf{endpoint}, Dialect: common.Dialect, OutVersion: gomavlib.V2,
		OutSystemID: 250, HeartbeatPeriod: 20 * time.Millisecond}
	if err := node.Initialize(); err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	if calling { // the address of its HEARTBEAT
		if _, to, err = partner.ReadFromUDPAddrPort(make([]byte, 300)); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		for part := range slices.Chunk(stream, bytes) {
			partner.WriteToUDPAddrPort(part, to)
			time.Sleep(time.Millisecond)
		}
	}()
	received := 0
	for timeout := time.After(time.Minute); received < frames; {
		select {
		case event := <-node.Events():
			switch event.(type) {
			case *gomavlib.EventFrame:
				received++
			case *gomavlib.EventParseError:
				t.Fatalf("a frame is malformed after %d", received)
			}
		case <-timeout:
			t.Fatalf("%d frames of %d", received, frames)
		}
	}
}
