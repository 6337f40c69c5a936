package datagram

import (
	"encoding/hex"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
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
	for _, bytes := range []int{21, 100, 211, 1400, 8000, maxBytes} {
		stream, frames := whole, repeats*len(autopilotFrames)
		if bytes < maxBytes { // a tenth is enough of small ones
			stream, frames = whole[:len(whole)/10], frames/10
		}
		listening := listen(t)
		address := listening.Addr().String()
		listening.Close()
		for _, name := range []string{"listening", "calling"} {
			partner, err := net.ListenPacket("udp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer partner.Close()
			endpoint := Endpoint(nil, address)
			if name == "calling" {
				endpoint = Client(nil, partner.LocalAddr().String())
			}
			node := &gomavlib.Node{Endpoints: []gomavlib.EndpointConf{endpoint}, Dialect: common.Dialect, OutVersion: gomavlib.V2,
				OutSystemID: 250, HeartbeatPeriod: 20 * time.Millisecond}
			if err := node.Initialize(); err != nil {
				t.Fatal(err)
			}
			to, _ := net.ResolveUDPAddr("udp4", address)
			if name == "calling" { // the address of its HEARTBEAT
				_, from, err := partner.ReadFrom(make([]byte, 300))
				if err != nil {
					t.Fatal(err)
				}
				to = from.(*net.UDPAddr)
			}
			go func() {
				for datagram := range slices.Chunk(stream, bytes) {
					partner.WriteTo(datagram, to)
					time.Sleep(time.Millisecond) // no buffer overflows
				}
			}()
			received, malformed := 0, 0
			for timeout := time.After(20 * time.Second); received < frames && malformed == 0; {
				select {
				case event := <-node.Events():
					switch event.(type) {
					case *gomavlib.EventFrame:
						received++
					case *gomavlib.EventParseError:
						malformed++
					}
				case <-timeout:
					t.Fatalf("%s, %d bytes a datagram: %d frames of %d", name, bytes, received, frames)
				}
			}
			if malformed > 0 {
				t.Errorf("%s, %d bytes a datagram: a frame is malformed after %d", name, bytes, received)
			}
			node.Close()
		}
	}
}
