package device_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"prefdt/firmware/user/device"
	"prefdt/inference/physics"
	"prefdt/simbridge/broker"
	"prefdt/telemetry"
	"prefdt/telemetry/access"
)

// An application of one's own. "upper" is a function that the aircraft's workers have, too: of
// units of 4 bytes, calibrated at 1000 cycles a bit.
func Example() {
	brokerURL, certificates := startFleet()
	defer os.RemoveAll(certificates)
	authorities, err := telemetry.LoadAuthorities("ca", filepath.Join(certificates, "ca.crt"))
	check(err)
	own, err := tls.LoadX509KeyPair(access.Files(certificates, "u01"))
	check(err)
	input, done := []byte("four units, here"), make(chan device.Outcome, 1)
	d := &device.Device{
		ID: "u01", Fleet: "demo", Broker: telemetry.Broker{URL: brokerURL}, Physics: physics.DefaultConstants(), Log: slog.Default(),
		TLS:      &tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{own}}, // nil: all is computed here
		Function: device.Function{ID: "upper", UnitBytes: 4, OutputBytes: 4, CyclesPerBit: 1000},
		CPUHz:    1e9,                                                             // of this device, for the function
		Position: func() [2]float64 { return [2]float64{312, 844} },               // m east and north of the fleet's origin
		Compute:  func(b []byte) ([]byte, error) { return bytes.ToUpper(b), nil }, // whole units, here
		Next: func(slot int) (t device.Task, ok bool) { // a slot opens: its task, if there is one
			t, ok = device.Task{Input: input, DeadlineS: 1}, input != nil
			input = nil
			return t, ok
		},
		Done: func(o device.Outcome) { done <- o }, // o.Err: it could not be computed at all
	}
	check(d.Initialize(context.Background()))
	defer d.Close()
	o := <-done
	fmt.Printf("by %s, on aircraft %d: %s\n", o.By, o.Aircraft, o.Output)
	// Output: by local, on aircraft 0: FOUR UNITS, HERE
}

// startFleet is what a field has: a broker, certificates in a folder, and a leader, of which
// there is only the beacon here, which offers no aircraft.
func startFleet() (brokerURL, certificates string) {
	folder, err := os.MkdirTemp("", "example")
	check(err)
	user := access.Certificate{Name: "u01", Role: access.RoleUser}
	_, err = access.Issue(folder, []access.Certificate{user}, access.Validity{Authority: time.Hour, Others: time.Hour}, time.Now())
	check(err)
	b := &broker.Broker{Address: "127.0.0.1:0"}
	check(b.Initialize())
	topics, err := telemetry.NewTopics("demo")
	check(err)
	leader := &telemetry.Client{Broker: telemetry.Broker{URL: b.URL()}, Name: "leader", Log: slog.Default()}
	check(leader.Initialize(context.Background()))
	go func() {
		offer := telemetry.Offer{Aircraft: []telemetry.OfferAircraft{}}
		for slot := 0; ; slot++ {
			beacon, err := telemetry.Encode(telemetry.Slot{Slot: slot, SlotMS: 1000, Speed: 1, ReportByMS: 10, DecideByMS: 20,
				Offer: offer})
			check(err)
			leader.Publish(telemetry.Publication{Topic: topics.Slot(), Payload: beacon})
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return b.URL(), folder
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
