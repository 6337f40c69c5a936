package telemetry_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"prefdt/simbridge/broker"
	"prefdt/telemetry"
)

// A ground user waits for the slot's beacon and reports its task.
func ExampleClient() {
	b := broker.Broker{Address: "127.0.0.1:0"} // your own broker, in real life
	if err := b.Initialize(); err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	topics, err := telemetry.NewTopics("demo")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	beacons := make(chan telemetry.Slot, 1)
	user := telemetry.Client{
		Broker: telemetry.Broker{URL: b.URL()}, Name: "user-1", Log: slog.New(slog.DiscardHandler),
		Subscriptions: []telemetry.Subscription{{Filter: topics.Slot()}},
		Handle: func(m telemetry.Message) {
			if s, err := telemetry.DecodeSlot(m.Payload); err == nil { // each payload is checked
				beacons <- s
			}
		},
	}
	if err := user.Initialize(ctx); err != nil {
		log.Fatal(err)
	}
	defer user.Close()

	// What the leader publishes at the slot's start.
	beacon, err := telemetry.Encode(telemetry.Slot{Slot: 17, SlotMS: 1000, Speed: 1, ReportByMS: 300, DecideByMS: 450,
		Offer: telemetry.Offer{PriceSPerJ: 0.01, Aircraft: []telemetry.OfferAircraft{{Number: 1, PositionM: [2]float64{410, 388}, CPUHz: 4e10, ExpectedUsers: 2.6}}}})
	if err != nil {
		log.Fatal(err)
	}
	user.PublishWait(ctx, telemetry.Publication{Topic: topics.Slot(), QoS: 1, Payload: beacon})

	s := <-beacons
	report, err := telemetry.Encode(telemetry.Report{
		Slot: s.Slot, PositionM: [2]float64{312, 844.5}, CPUHz: 1e9,
		Task: &telemetry.Task{Bits: 1.1e6, CyclesPerBit: 1000, DeadlineS: 0.9},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := user.PublishWait(ctx, telemetry.Publication{Topic: topics.Report("user-1"), QoS: 1, Payload: report}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("reported in slot", s.Slot)
	// Output: reported in slot 17
}
