package telemetry_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"prefdt/simbridge/broker"
	"prefdt/telemetry"
)

// A ground user reports its task when a beacon opens a slot, and receives a decision.
func ExampleClient() {
	b := &broker.Broker{Address: "127.0.0.1:0"}
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
	decided := make(chan telemetry.Decision, 1)

	user := &telemetry.Client{Broker: telemetry.Broker{URL: b.URL()}, Name: "u1"}
	user.Subscriptions = []telemetry.Subscription{{Filter: topics.Slot()}, {Filter: topics.Decision("u1"), QoS: 1}}
	user.Handle = func(m telemetry.Message) {
		switch kind, _, _ := topics.Parse(m.Topic); kind {
		case telemetry.KindSlot:
			slot, err := telemetry.DecodeSlot(m.Payload)
			if err != nil {
				return // invalid
			}
			report, err := telemetry.Encode(telemetry.Report{
				Slot: slot.Slot, PositionM: [2]float64{312, 844}, CPUHz: 1e9,
				Task: &telemetry.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.9},
			})
			if err != nil {
				log.Fatal(err)
			}
			user.Publish(telemetry.Publication{Topic: topics.Report("u1"), Payload: report})
		case telemetry.KindDecision:
			if d, err := telemetry.DecodeDecision(m.Payload); err == nil {
				decided <- d
			}
		}
	}
	if err := user.Initialize(ctx); err != nil {
		log.Fatal(err)
	}
	defer user.Close()

	// In place of the leader: open a slot, and decide on each report.
	leader := &telemetry.Client{Broker: telemetry.Broker{URL: b.URL()}, Name: "leader"}
	leader.Subscriptions = []telemetry.Subscription{{Filter: topics.AllReports()}}
	leader.Handle = func(m telemetry.Message) {
		_, id, _ := topics.Parse(m.Topic)
		report, err := telemetry.DecodeReport(m.Payload)
		if err != nil {
			return
		}
		decision, err := telemetry.Encode(telemetry.Decision{Slot: report.Slot, Aircraft: 1, Offload: 0.8, CPUHz: 1.3e10})
		if err != nil {
			log.Fatal(err)
		}
		leader.Publish(telemetry.Publication{Topic: topics.Decision(id), QoS: 1, Payload: decision})
	}
	if err := leader.Initialize(ctx); err != nil {
		log.Fatal(err)
	}
	defer leader.Close()
	beacon, err := telemetry.Encode(telemetry.Slot{Slot: 17, SlotMS: 1000, Speed: 1, ReportByMS: 300, DecideByMS: 450,
		Offer: telemetry.Offer{PriceSPerJ: 0.0067, Aircraft: []telemetry.OfferAircraft{}}})
	if err != nil {
		log.Fatal(err)
	}
	if err := leader.PublishWait(ctx, telemetry.Publication{Topic: topics.Slot(), Payload: beacon}); err != nil {
		log.Fatal(err)
	}

	select {
	case d := <-decided:
		fmt.Printf("slot %d: offload %.0f %% to aircraft %d\n", d.Slot, 100*d.Offload, d.Aircraft)
	case <-ctx.Done():
		fmt.Println("no decision")
	}
	// Output: slot 17: offload 80 % to aircraft 1
}
