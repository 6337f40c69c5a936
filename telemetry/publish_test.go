package telemetry

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"testing"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// acknowledge is a broker that accepts everything, and sends an answer to each publication.
func acknowledge(b *testing.B, answer []byte) (url string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		reader, writer := bufio.NewReader(conn), bufio.NewWriter(conn)
		for {
			packet, err := packets.ReadPacket(reader)
			if err != nil {
				return
			}
			switch p := packet.(type) {
			case *packets.ConnectPacket:
				packets.NewControlPacket(packets.Connack).Write(writer)
			case *packets.PublishPacket:
				ack := packets.NewControlPacket(packets.Puback).(*packets.PubackPacket)
				ack.MessageID = p.MessageID
				ack.Write(writer)
				writer.Write(answer)
			case *packets.SubscribePacket:
				ack := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
				ack.MessageID, ack.ReturnCodes = p.MessageID, p.Qoss
				ack.Write(writer)
			}
			if reader.Buffered() == 0 {
				writer.Flush()
			}
		}
	}()
	return "tcp://" + listener.Addr().String()
}

// BenchmarkPublish times a slot's decisions from the first one queued until the broker has
// the last one.
func BenchmarkPublish(b *testing.B) {
	for _, users := range []int{10, 100, 1000, 4096} {
		b.Run(fmt.Sprintf("users=%d", users), func(b *testing.B) {
			c := &Client{Broker: Broker{URL: acknowledge(b, nil)}, Name: "test"}
			if err := c.Initialize(b.Context()); err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			topics, _ := NewTopics("demo")
			payload := []byte(`{"slot":17,"aircraft":1,"offload":0.7312345678901234,"cpu_hz":8000000000}`)
			var decisions []Publication
			for i := range users {
				decisions = append(decisions, Publication{Topic: topics.Decision(fmt.Sprintf("u%04d", i)), QoS: 1, Payload: payload})
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, d := range decisions[:users-1] {
					if err := c.Publish(d); err != nil {
						b.Fatal(err)
					}
				}
				if err := c.PublishWait(b.Context(), decisions[users-1]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReceive times a slot's reports from the broker until the last is handled, undecoded.
func BenchmarkReceive(b *testing.B) {
	for _, users := range []int{10, 100, 1000, 4096} {
		b.Run(fmt.Sprintf("users=%d", users), func(b *testing.B) {
			topics, _ := NewTopics("demo")
			var reports bytes.Buffer
			for i := range users {
				p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
				p.TopicName, p.Payload = topics.Report(fmt.Sprintf("u%04d", i)), []byte(reportExample)
				p.Write(&reports)
			}
			handled := make(chan bool, users)
			c := &Client{
				Broker: Broker{URL: acknowledge(b, reports.Bytes())}, Name: "test",
				Subscriptions: []Subscription{{Filter: topics.AllReports()}}, Handle: func(Message) { handled <- true },
			}
			if err := c.Initialize(b.Context()); err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Publish(Publication{Topic: topics.Slot(), QoS: 1, Payload: []byte("{}")}); err != nil {
					b.Fatal(err)
				}
				for range users {
					<-handled
				}
			}
		})
	}
}
