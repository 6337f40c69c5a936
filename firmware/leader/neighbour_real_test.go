//go:build real

package leader_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"prefdt/configs/mosquitto/mosquittotest"
	"prefdt/simbridge/rig"
	"prefdt/telemetry"
)

// neighbourSlots is how many slots of a second must be complete beside each bad neighbour of
// TestBadNeighbour: `go test ./firmware/leader -run BadNeighbour -v -neighbour-slots 60`.
var neighbourSlots = flag.Int("neighbour-slots", 0,
	"complete slots of a second beside each bad neighbour; 0: three shorter ones, beside two")

const honestUsers = 100

// neighbours are what one client may do to a broker with the shipped configuration. Each runs
// in a process of its own until it is killed.
var neighbours = []struct {
	name  string
	run   func(address string)
	short bool // also without -neighbour-slots
}{
	{"nobody", func(string) { select {} }, false},
	{"8 KiB reports at 50 MB/s", func(address string) { flood(address, numbers(8100), 50e6) }, false},
	{"8 KiB reports at 110 MB/s", func(address string) { flood(address, numbers(8100), 110e6) }, true},
	{"60 kB reports at 110 MB/s", func(address string) { flood(address, numbers(60000), 110e6) }, false},
	{"50,000 small reports a second", func(address string) { flood(address, smallReport, 50000*float64(len(smallReport))) }, true},
	{"a slow subscriber, 8 KiB reports at 50 MB/s", func(address string) {
		slow := connectRaw(address, "slow")
		p := packets.NewControlPacket(packets.Subscribe).(*packets.SubscribePacket)
		p.MessageID, p.Topics, p.Qoss = 1, []string{"#"}, []byte{1}
		p.Write(slow) // and reads nothing
		flood(address, numbers(8100), 50e6)
	}, false},
	{"2,000 idle connections", func(address string) {
		var idle []net.Conn
		for len(idle) < 2000 {
			if c, err := net.Dial("tcp", address); err == nil {
				idle = append(idle, c)
			}
		}
		select {}
	}, false},
	{"retained lies", func(address string) {
		c := connectRaw(address, "liar")
		for n := range 4000 { // of slots to come; they are there when the leader subscribes
			report := fmt.Sprintf(`{"slot":%d,"position_m":[1,1],"queue_bits":0,"cpu_hz":1e9}`, n/100)
			publishRaw(c, fmt.Sprintf("prefdt/test/users/lie%d/report", n), []byte(report), true)
		}
		select {}
	}, false},
}

const smallReport = `{"slot":999999999,"position_m":[1,1],"queue_bits":0,"cpu_hz":1e9}`

// numbers is a report whose ignored field makes it so long: the dearest to decode.
func numbers(length int) string {
	head := strings.TrimSuffix(smallReport, "}") + `,"x":[1`
	return head + strings.Repeat(",1", (length-len(head)-2)/2) + "]}"
}

func connectRaw(address, id string) net.Conn {
	for {
		c, err := net.Dial("tcp", address)
		if err == nil {
			p := packets.NewControlPacket(packets.Connect).(*packets.ConnectPacket)
			p.ProtocolName, p.ProtocolVersion, p.CleanSession, p.ClientIdentifier = "MQTT", 4, true, id
			p.Write(c)
			if _, err = io.ReadFull(c, make([]byte, 4)); err == nil { // CONNACK
				return c
			}
			c.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func publishRaw(c net.Conn, topic string, payload []byte, retained bool) error {
	p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	p.TopicName, p.Payload, p.Retain = topic, payload, retained
	return p.Write(c)
}

// flood publishes one user's reports at so many bytes a second, and connects again when the
// broker ends the connection.
func flood(address, report string, bytesPerSecond float64) {
	var batch bytes.Buffer
	p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	p.TopicName, p.Payload = "prefdt/test/users/flood/report", []byte(report)
	for n := 0; n == 0 || batch.Len() < 60000; n++ {
		p.Write(&batch)
	}
	c := connectRaw(address, "flood")
	began, sent := time.Now(), 0.0
	for {
		if ahead := sent/bytesPerSecond - time.Since(began).Seconds(); ahead > 0.002 {
			time.Sleep(time.Duration(ahead * 1e9))
		} else if ahead < -0.1 { // the broker is slower: no burst later
			began, sent = time.Now(), 0
		}
		if _, err := c.Write(batch.Bytes()); err != nil {
			c.Close()
			c = connectRaw(address, "flood")
		}
		sent += float64(batch.Len())
	}
}

const neighbourEnv = "PREFDT_NEIGHBOUR"

// TestNeighbour is a bad neighbour, when it is started as one.
func TestNeighbour(t *testing.T) {
	if i, address, ok := strings.Cut(os.Getenv(neighbourEnv), " "); ok {
		n, err := strconv.Atoi(i)
		if err != nil {
			t.Fatal(err)
		}
		neighbours[n].run(address)
	}
}

// startShippedBroker runs mosquitto with the file that ships, on a port of its own.
func startShippedBroker(t *testing.T) (address string, broker *mosquittotest.Broker) {
	t.Helper()
	text, err := os.ReadFile("../../configs/mosquitto.conf")
	if err != nil {
		t.Fatal(err)
	}
	broker = mosquittotest.Start(t, mosquittotest.Dir(t), func(port func() string) string {
		number := port()
		address = "127.0.0.1:" + number
		return strings.Replace(string(text), "listener 18830 ", "listener "+number+" ", 1)
	})
	return address, broker
}

// peakMB is the most memory that a process had.
func peakMB(t *testing.T, pid int) (mb float64) {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(raw), "VmHWM:")
	fmt.Sscan(after, &mb)
	return mb / 1024
}

// One bad neighbour beside a hundred honest users, at mosquitto as it is shipped: a command is
// acknowledged, and the reports of the honest count. How many are in time depends on the machine,
// so the neighbour is stopped in every other slot: with it, slots in which they all are in time
// are at least a tenth as frequent as without it.
func TestBadNeighbour(t *testing.T) {
	t.Parallel()
	slotMS := 500.0
	if *neighbourSlots > 0 {
		slotMS = 1000
	}
	const (
		complete = honestUsers * 99 / 100
		tenth    = 10
	)
	for i, x := range neighbours {
		if *neighbourSlots == 0 && !x.short {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			address, broker := startShippedBroker(t)
			r := rig.NewRealTime(t, 1, 100000, slotMS)
			r.UseBroker("tcp://" + address)
			r.SetUsers(honestUsers, 0)
			f := r.FlyToSlot(1)
			// It begins in flight: until then its flood would only take a core.
			neighbour := exec.Command(os.Args[0], "-test.run=^TestNeighbour$")
			neighbour.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", neighbourEnv, i, address))
			if err := neighbour.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { neighbour.Process.Kill(); neighbour.Wait() })
			wanted := max(*neighbourSlots, 3)
			var waits []time.Duration
			command := func(send func() telemetry.Ack) {
				began := time.Now()
				if ack := send(); !ack.Accepted {
					t.Errorf("%+v", ack)
				}
				waits = append(waits, time.Since(began))
			}
			heard := map[bool][]int{}   // in each slot, by whether the neighbour ran
			completed := map[bool]int{} // slots
			for beside := true; completed[true] < wanted; beside = !beside {
				signal := syscall.SIGCONT
				if !beside {
					signal = syscall.SIGSTOP
				}
				if err := neighbour.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				seen := r.Beacons()
				n := seen[len(seen)-1] + 1
				s := r.Await("the next slot", rig.SlotSettled(n))
				if heard[beside] = append(heard[beside], s.UsersHeard); s.UsersHeard >= complete {
					completed[beside]++
				}
				if completed[false] >= tenth*(completed[true]+wanted) {
					break
				}
				if beside {
					id := fmt.Sprintf("p%d", n)
					command(func() telemetry.Ack {
						return r.SendCommand(r.Topics.Preference(), fmt.Sprintf(`{"id":%q,"setting":0.5}`, id), id)
					})
				}
			}
			neighbour.Process.Signal(syscall.SIGCONT)
			command(func() telemetry.Ack { return r.SendAction(telemetry.ActionStop) })
			stop := waits[len(waits)-1]
			slices.Sort(waits)
			t.Logf("%s: %v honest reports of %d in time in the slots beside it, %v without; %d commands acknowledged after %v in "+
				"the median, "+
				"%v at most, stop after %v; broker %.0f MB; dropped %v",
				x.name, heard[true], honestUsers, heard[false], len(waits), waits[len(waits)/2].Round(time.Millisecond),
				waits[len(waits)-1].Round(time.Millisecond), stop.Round(time.Millisecond), peakMB(t, broker.Process.Pid),
				f.Report().DroppedMessages)
			if completed[true] < wanted {
				t.Errorf("of %d slots beside it %d were complete, of %d without it %d", len(heard[true]), completed[true],
					len(heard[false]),
					completed[false])
			}
			if x.name == "retained lies" && slices.Max(heard[true]) > honestUsers {
				t.Errorf("%d users counted in a slot", slices.Max(heard[true]))
			}
			if mb := peakMB(t, broker.Process.Pid); mb > 256 {
				t.Errorf("the broker took %.0f MB", mb)
			}
		})
	}
}
