package link

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"prefdt/firmware/clock"
	"prefdt/firmware/crew"
	"prefdt/simbridge/broker"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

const patience = 60 * time.Second

var topics, _ = telemetry.NewTopics("test")

func newBroker(t *testing.T) telemetry.Broker {
	t.Helper()
	n := simnet.New(1)
	b := &broker.Broker{Address: "127.0.0.1:0", Listen: n.Program("broker").Listen}
	if err := b.Initialize(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return telemetry.Broker{URL: b.URL(), Dial: n.Program("client").Dial}
}

func newClient(t *testing.T, b telemetry.Broker, c *telemetry.Client) *telemetry.Client {
	t.Helper()
	c.Broker, c.Log = b, slog.New(slog.DiscardHandler)
	if c.Name == "" {
		c.Name = "test"
	}
	if err := c.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newLink(b telemetry.Broker, key ed25519.PrivateKey) *MQTT {
	return &MQTT{
		Broker: b, Fleet: "test", SlotDuration: 50 * time.Millisecond, LeaderKey: key, Keys: crew.Keys{AcceptUnsigned: true},
		Clock: clock.New(), Log: slog.New(slog.DiscardHandler),
	}
}

// startLink is a link that is connected to the broker.
func startLink(t *testing.T, b telemetry.Broker, key ed25519.PrivateKey) *MQTT {
	t.Helper()
	l := newLink(b, key)
	if err := l.Start(t.Context(), false, func() {}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func newKey() ed25519.PrivateKey {
	_, key, _ := ed25519.GenerateKey(nil)
	return key
}

func payload(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

func beacon(n int) []byte {
	return payload(telemetry.Slot{Slot: n, SlotMS: 50, Speed: 20, ReportByMS: 15, DecideByMS: 25,
		Offer: telemetry.Offer{PriceSPerJ: 0.01, Aircraft: []telemetry.OfferAircraft{}}})
}

func status(seq int64) []byte {
	return payload(telemetry.Status{Seq: seq, Slot: 17, Slots: 100, State: "flying", EnergySource: "model",
		Challenge: telemetry.NewChallenge(), Aircraft: []telemetry.StatusAircraft{}})
}

// startForgedLeader publishes what another leader would, without the leaders' key, until
// the test ends. It returns once the first message is sent.
func startForgedLeader(t *testing.T, b telemetry.Broker, extra ...func(n int) telemetry.Publication) {
	t.Helper()
	c := newClient(t, b, &telemetry.Client{Name: "forger"})
	stop, stopped, began := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for n := 1; ; n++ {
			c.Publish(telemetry.Publication{Topic: topics.Slot(), Payload: beacon(n)})
			c.Publish(telemetry.Publication{Topic: topics.Status(), Payload: status(int64(1e9 + n))})
			for _, e := range extra {
				c.Publish(e(n))
			}
			if n == 1 {
				close(began)
			}
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
	<-began
}

// TestForgeriesEndNoLeader: with a leader key neither beacons, statuses, nor proofs
// of another key or to another hello end a newcomer, or a leader that restarts in
// flight.
func TestForgeriesEndNoLeader(t *testing.T) {
	key := newKey()
	// A proof signed with the genuine key, recorded when it answered another hello.
	body := payload(telemetry.Proof{Instance: telemetry.NewChallenge(), Challenge: telemetry.NewChallenge(), Seq: 7, Slot: 3})
	recorded, err := telemetry.Envelope{Key: leaderKeyName, Counter: 9, Challenge: telemetry.NewChallenge(), Body: string(body)}.Sign(key,
		topics.Proof())
	if err != nil {
		t.Fatal(err)
	}
	for name, inFlight := range map[string]bool{"newcomer": false, "restarted in flight": true} {
		t.Run(name, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				b := newBroker(t)
				var asked atomic.Int64
				// Any client that receives the hello can echo it, but not sign.
				forged := newKey()
				echo := newClient(t, b, &telemetry.Client{Name: "echo"})
				listener := newClient(t, b, &telemetry.Client{
					Name: "listener", Subscriptions: []telemetry.Subscription{{Filter: topics.Hello(), QoS: 1}},
					Handle: func(m telemetry.Message) {
						h, err := telemetry.DecodeHello(m.Payload)
						if err != nil {
							t.Errorf("hello: %v", err)
							return
						}
						asked.Add(1)
						body := payload(telemetry.Proof{Instance: h.Instance, Challenge: telemetry.NewChallenge(), Seq: 7, Slot: 3})
						raw, _ := telemetry.Envelope{Key: leaderKeyName, Counter: 1, Challenge: telemetry.NewChallenge(),
							Body: string(body)}.Sign(forged, topics.Proof())
						echo.Publish(telemetry.Publication{Topic: topics.Proof(), QoS: 1, Payload: raw})
						echo.Publish(telemetry.Publication{Topic: topics.Proof(), QoS: 1, Payload: body})
					},
				})
				_ = listener
				startForgedLeader(t, b, func(int) telemetry.Publication {
					return telemetry.Publication{Topic: topics.Proof(), QoS: 1, Payload: recorded}
				})
				l := newLink(b, key)
				cleared := make(chan struct{})
				if err := l.Start(t.Context(), inFlight, func() { close(cleared) }); err != nil {
					t.Fatalf("it ended: %v", err)
				}
				defer l.Close()
				for {
					select {
					case c := <-l.ControlMessages:
						if c.YieldReason != nil || c.RivalProof != nil {
							t.Fatalf("it found a rival: %+v", c)
						}
						if c.BrokerConnected {
							if asked.Load() == 0 {
								t.Fatal("it did not ask whether another leader is there")
							}
							<-cleared
							return
						}
					case <-time.After(patience):
						t.Fatal("it never took its place on the broker")
					}
				}
			})
		})
	}
}

// TestIncumbentsProofEndsANewcomer, and a leader that restarts in flight: the proof
// is signed and echoes its hello.
func TestIncumbentsProofEndsANewcomer(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		key := newKey()
		b := newBroker(t)
		incumbent := startLink(t, b, key)
		incumbent.lastStatus.Store(&telemetry.Proof{Challenge: telemetry.NewChallenge(), Seq: 42, Slot: 17})
		newcomer := newLink(b, key)
		err := newcomer.Start(t.Context(), false, func() { t.Error("a newcomer may fly") })
		if !errors.Is(err, ErrIncumbent) {
			t.Errorf("a newcomer ended with %v", err)
		}
		restarted := newLink(b, key)
		if err := restarted.Start(t.Context(), true, func() { t.Error("a restarted leader may fly") }); err != nil {
			t.Fatal(err)
		}
		defer restarted.Close()
		select {
		case c := <-restarted.ControlMessages:
			if !errors.Is(c.YieldReason, ErrIncumbent) {
				t.Errorf("%+v", c)
			}
		case <-time.After(patience):
			t.Error("a restarted leader did not find the other")
		}
	})
}

// TestHelloAnswersAreLimited: of a flood of hellos ten a second are signed and answered,
// the others counted.
func TestHelloAnswersAreLimited(t *testing.T) {
	var now clock.Manual
	l := newLink(telemetry.Broker{}, newKey())
	l.Clock, l.Topics, l.Rejects.Log = &now, topics, l.Log
	l.lastStatus.Store(&telemetry.Proof{Challenge: telemetry.NewChallenge(), Seq: 42, Slot: 17})
	flood := func(after time.Duration, want uint64) {
		t.Helper()
		now.Advance(after)
		before := l.proofCounter.Load()
		for range 100 {
			l.answerHello(&telemetry.Hello{Instance: telemetry.NewChallenge()})
		}
		if got := l.proofCounter.Load() - before; got != want {
			t.Errorf("%d of 100 hellos were answered, want %d", got, want)
		}
	}
	flood(0, maxHelloAnswers)
	flood(999*time.Millisecond, 0)
	flood(time.Millisecond, maxHelloAnswers)
	if n := l.Rejects.Counts()["hello: too many"]; n != 280 {
		t.Errorf("%d were counted, want 280", n)
	}
}

// TestIdleLeaderRequestsProof: a forged status makes it request a proof, and nothing
// else; a genuine leader's proof reaches it, a forged one does not.
func TestIdleLeaderRequestsProof(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		key := newKey()
		b := newBroker(t)
		l := startLink(t, b, key)
		hellos := make(chan telemetry.Hello, 100)
		newClient(t, b, &telemetry.Client{
			Subscriptions: []telemetry.Subscription{{Filter: topics.Hello(), QoS: 1}},
			Handle: func(m telemetry.Message) {
				if h, err := telemetry.DecodeHello(m.Payload); err == nil {
					hellos <- h
				}
			},
		})
		l.RequestProof()
		asked := <-hellos
		c := newClient(t, b, &telemetry.Client{Name: "other"})
		prove := func(signer ed25519.PrivateKey, name, instance string, slot int) {
			t.Helper()
			body := payload(telemetry.Proof{Instance: instance, Challenge: telemetry.NewChallenge(), Seq: 99, Slot: slot})
			raw, err := telemetry.Envelope{Key: name, Counter: 5, Challenge: telemetry.NewChallenge(), Body: string(body)}.Sign(signer,
				topics.Proof())
			if err != nil {
				t.Fatal(err)
			}
			c.Publish(telemetry.Publication{Topic: topics.Proof(), QoS: 1, Payload: raw})
		}
		prove(newKey(), leaderKeyName, asked.Instance, 1)
		prove(key, "crew-1", asked.Instance, 2)
		prove(key, leaderKeyName, telemetry.NewChallenge(), 3)
		prove(key, leaderKeyName, asked.Instance, 4)
		for {
			select {
			case got := <-l.ControlMessages:
				if got.RivalProof == nil {
					continue
				}
				if got.RivalProof.Slot != 4 || got.RivalProof.Seq != 99 {
					t.Errorf("%+v", got.RivalProof)
				}
				return
			case <-time.After(patience):
				t.Fatal("the genuine proof did not arrive")
			}
		}
	})
}

// TestWithoutAKeyBeaconsEndANewcomer if they are fresh; a retained one does not.
func TestWithoutAKeyBeaconsEndANewcomer(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		b := newBroker(t)
		came := make(chan struct{}, 16)
		c := newClient(t, b, &telemetry.Client{
			Subscriptions: []telemetry.Subscription{{Filter: topics.Status()}, {Filter: topics.Slot()}},
			Handle:        func(telemetry.Message) { came <- struct{}{} },
		})
		for topic, p := range map[string][]byte{topics.Status(): status(1e9), topics.Slot(): beacon(5)} {
			if err := c.PublishWait(t.Context(), telemetry.Publication{Topic: topic, QoS: 1, Retained: true, Payload: p}); err != nil {
				t.Fatal(err)
			}
			<-came // it was delivered; later subscribers get the retained message
		}
		l := newLink(b, nil)
		if err := l.Start(t.Context(), false, func() {}); err != nil {
			t.Fatalf("the past ended it: %v", err)
		}
		l.Close()
		startForgedLeader(t, b)
		if err := newLink(b, nil).Start(t.Context(), false, func() { t.Error("it may fly") }); !errors.Is(err, ErrIncumbent) {
			t.Errorf("beside another leader it ended with %v", err)
		}
	})
}

// TestInFlightWithoutABroker: aircraft are commanded whether or not a broker is
// connected.
func TestInFlightWithoutABroker(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		l := newLink(telemetry.Broker{URL: "tcp://127.0.0.1:1", Dial: simnet.New(1).Program("leader").Dial}, newKey())
		cleared := make(chan struct{})
		if err := l.Start(t.Context(), true, func() { close(cleared) }); err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		select {
		case <-cleared:
		case <-time.After(patience):
			t.Error("it does not fly")
		}
		if l.Connected() || l.Dropped() != nil {
			t.Error("it reports that it is connected")
		}
		// must not block or panic
		l.PublishBeacon(telemetry.Slot{Slot: 1, SlotMS: 50, Speed: 20, ReportByMS: 15, DecideByMS: 25,
			Offer: telemetry.Offer{Aircraft: []telemetry.OfferAircraft{}}})
	})
}

// TestHowLongItListens, in slots by the leader's clock: three for a newcomer, one and
// a half for a leader that restarts in flight with its ledger.
func TestHowLongItListens(t *testing.T) {
	for name, c := range map[string]struct {
		inFlight bool
		key      ed25519.PrivateKey
		slots    float64
	}{
		"newcomer": {false, newKey(), 3}, "newcomer without a key": {false, nil, 3},
		"restarted in flight": {true, newKey(), 1.5}, "restarted in flight without a key": {true, nil, 1.5},
	} {
		t.Run(name, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				b := newBroker(t)
				l := newLink(b, c.key)
				l.SlotDuration = time.Minute
				began := time.Now()
				cleared := make(chan time.Duration, 2)
				if err := l.Start(t.Context(), c.inFlight, func() { cleared <- time.Since(began) }); err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				want := time.Duration(c.slots * float64(l.SlotDuration))
				if took := <-cleared; took < want || took > want+time.Second {
					t.Errorf("it listened for %v, want %v", took, want)
				}
			})
		})
	}
}

// TestEndsWhileItListens: a leader whose context ends stops listening.
func TestEndsWhileItListens(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		b := newBroker(t)
		l := newLink(b, newKey())
		l.SlotDuration = time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Start(ctx, false, func() { t.Error("it may fly") }) }()
		cancel()
		select {
		case err := <-ended:
			if err == nil {
				t.Error("it began")
			}
		case <-time.After(patience):
			t.Error("it does not end")
		}
	})
}

// TestCommandsDoNotWaitForReports: with more reports than the queues hold, and no
// reader, the crew's stop arrives; dropped reports are counted, and no command is
// dropped.
func TestCommandsDoNotWaitForReports(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		b := newBroker(t)
		l := startLink(t, b, nil)
		users := newClient(t, b, &telemetry.Client{Name: "users"})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		report := payload(telemetry.Report{Slot: 1, PositionM: [2]float64{1, 1}, CPUHz: 1e9})
		const most = 3 * userMessagesCapacity
		for i := range most {
			p := telemetry.Publication{Topic: topics.Report(fmt.Sprintf("u%d", i)), Payload: report}
			if i%200 == 0 { // in step with the broker
				if err := users.PublishWait(ctx, p); err != nil {
					t.Fatal(err)
				}
				continue
			}
			users.Publish(p)
		}
		for late := time.Now().Add(patience); len(l.UserMessages) < userMessagesCapacity; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("%d reports wait, want %d: this test overfills the queue", len(l.UserMessages), userMessagesCapacity)
			}
		}
		station := newClient(t, b, &telemetry.Client{Name: "crew"})
		if err := station.PublishWait(ctx, telemetry.Publication{Topic: topics.Mission(), QoS: 1,
			Payload: []byte(`{"id":"s","action":"stop"}`)}); err != nil {
			t.Fatal(err)
		}
		for {
			select {
			case c := <-l.ControlMessages:
				if c.Command == nil {
					continue
				}
				if c.Command.ID != "s" || c.Command.Mission == nil || c.Command.Mission.Action != "stop" {
					t.Errorf("%+v", c.Command)
				}
				if n := len(l.UserMessages); n < userMessagesCapacity {
					t.Errorf("%d reports wait: some were taken", n)
				}
				if n := l.Dropped()["messages"]; n != 0 {
					t.Errorf("%d messages that are no reports were dropped", n)
				}
				return
			case <-ctx.Done():
				t.Fatalf("stop did not arrive; %d reports wait, dropped: %v", len(l.UserMessages), l.Dropped())
			}
		}
	})
}

// What users send comes over a connection of its own, so that the broker, too, queues no command
// and no hello behind it.
func TestUsersHaveAConnectionOfTheirOwn(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		b := newBroker(t)
		l := startLink(t, b, nil)
		filters := map[*telemetry.Client][]string{}
		for _, c := range l.clients() {
			for _, s := range c.Subscriptions {
				filters[c] = append(filters[c], s.Filter)
			}
		}
		if got := fmt.Sprint(filters[l.users]); got != fmt.Sprint([]string{topics.AllReports(), topics.AllResults()}) ||
			l.users.FloodWindow == 0 || l.users.MaxPayload != telemetry.MaxPayload {
			t.Errorf("users: %v", got)
		}
		if got := fmt.Sprint(filters[l.client]); got != fmt.Sprint([]string{topics.AllCommands(), topics.AllHeartbeats(),
			topics.Online()}) ||
			l.client.FloodWindow != 0 {
			t.Errorf("the crew: %v", got)
		}
	})
}

// TestWhatArrivesIsChecked: an invalid message is counted by kind, answered if it is a
// command with an id, and never queued otherwise.
func TestWhatArrivesIsChecked(t *testing.T) {
	l := newLink(telemetry.Broker{}, nil)
	l.Topics, l.ctx = topics, t.Context()
	l.Rejects.Log = l.Log
	l.UserMessages, l.ControlMessages = make(chan UserMessage, 10), make(chan ControlMessage, 10)
	for _, c := range []struct {
		name, topic, payload string
		retained             bool
		reports, controls    int
		rejected             bool
	}{
		{"a report", topics.Report("u"), `{"slot":1,"position_m":[1,1],"queue_bits":0,"cpu_hz":1e9}`, false, 1, 0, false},
		{"a report that is not one", topics.Report("u"), `{"slot":1}`, false, 0, 0, true},
		{"a retained report", topics.Report("u"), `{"slot":1,"position_m":[1,1],"queue_bits":0,"cpu_hz":1e9}`, true, 0, 0, true},
		{"a long report", topics.Report("u"), `{"slot":1,"position_m":[1,1],"queue_bits":0,"cpu_hz":1e9}` +
			strings.Repeat(" ", telemetry.MaxPayload), false, 0, 0, true},
		{"a report of many values", topics.Report("u"), `{"slot":1,"position_m":[1,1],"queue_bits":0,"cpu_hz":1e9,"x":[0` +
			strings.Repeat(",0", 600) + `]}`, false, 0, 0, true},
		{"a retained result", topics.Result("u"), `{"slot":1,"completion_s":0.5,"by":"local"}`, true, 0, 0, true},
		{"a result", topics.Result("u"), `{"slot":1,"completion_s":0.5,"by":"local"}`, false, 1, 0, false},
		{"a result of nothing", topics.Result("u"), `{"slot":1,"completion_s":0.5,"by":"magic"}`, false, 0, 0, true},
		{"a command", topics.Mission(), `{"id":"m","action":"stop"}`, false, 0, 1, false},
		{"an invalid command", topics.Mission(), `{"id":"m","action":"dance"}`, false, 0, 1, true},
		{"a command without an id", topics.Mission(), `{"action":"stop"}`, false, 0, 0, true},
		{"a retained command", topics.Mission(), `{"id":"m","action":"stop"}`, true, 0, 0, true},
		{"a heartbeat", topics.Heartbeat("ops"), `{"seq":1}`, false, 0, 1, false},
		{"a retained heartbeat", topics.Heartbeat("ops"), `{"seq":1}`, true, 0, 0, true},
		{"offline", topics.Online(), `false`, false, 0, 1, false},
		{"online", topics.Online(), `true`, false, 0, 0, false},
		{"a beacon", topics.Slot(), string(beacon(3)), false, 0, 1, false},
		{"a retained beacon", topics.Slot(), string(beacon(3)), true, 0, 0, false},
		{"a status", topics.Status(), string(status(3)), false, 0, 1, false},
		{"hello", topics.Hello(), `{"instance":"other"}`, false, 0, 0, false},
		{"a proof where there is no key", topics.Proof(), `{}`, false, 0, 0, false},
		{"not a topic of this fleet", "prefdt/test/users/a b/report", `{}`, false, 0, 0, true},
	} {
		before := l.Rejects.Total()
		l.handle(telemetry.Message{Topic: c.topic, Payload: []byte(c.payload), Retained: c.retained, Received: time.Now()})
		if len(l.UserMessages) != c.reports || len(l.ControlMessages) != c.controls || (l.Rejects.Total() > before) != c.rejected {
			t.Errorf("%s: %d reports, %d controls, %d rejected", c.name, len(l.UserMessages), len(l.ControlMessages),
				l.Rejects.Total()-before)
		}
		for len(l.UserMessages) > 0 {
			<-l.UserMessages
		}
		for len(l.ControlMessages) > 0 {
			<-l.ControlMessages
		}
	}
}

// Where there is a leader key, acknowledgements and statuses end in a signature over their
// topic and every byte before it; a beacon does not, and without a key nothing does.
func TestAnswersAreSigned(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		key := newKey()
		for name, key := range map[string]ed25519.PrivateKey{"with a key": key, "without": nil} {
			b := newBroker(t)
			received := make(chan telemetry.Message, 10)
			newClient(t, b, &telemetry.Client{Subscriptions: []telemetry.Subscription{{Filter: topics.AllAcks(), QoS: 1},
				{Filter: topics.Status()}, {Filter: topics.Slot()}}, Handle: func(m telemetry.Message) {
				received <- m
			}})
			l := startLink(t, b, key)
			slot := 3
			l.PublishAck(telemetry.Ack{ID: "a", Accepted: true, EffectiveSlot: &slot, Of: telemetry.Digest(nil)})
			l.PublishStatus(telemetry.Status{State: telemetry.StateIdle, EnergySource: telemetry.SourceModel,
				Challenge: telemetry.NewChallenge(), Aircraft: []telemetry.StatusAircraft{}})
			l.PublishBeacon(telemetry.Slot{SlotMS: 1000, Speed: 1, ReportByMS: 300, DecideByMS: 450,
				Offer: telemetry.Offer{Aircraft: []telemetry.OfferAircraft{}}})
			for _, topic := range []string{topics.Ack("a"), topics.Status(), topics.Slot()} {
				m := <-received
				text, signature, signed := strings.Cut(string(m.Payload), `,"signature":"`)
				if m.Topic != topic || signed != (key != nil && topic != topics.Slot()) {
					t.Errorf("%s, %s: %s on %s", name, topic, m.Payload, m.Topic)
				}
				if !signed {
					continue
				}
				raw, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(signature, `"}`))
				if err != nil || !ed25519.Verify(key.Public().(ed25519.PublicKey), []byte("prefdt-answer-3\n"+topic+"\n"+text), raw) {
					t.Errorf("%s, %s: %s: %v", name, topic, m.Payload, err)
				}
			}
		}
	})
}

// The time of the last decision is that at which the broker has it; without a broker there is none.
func TestPublishLastDecision(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		b := newBroker(t)
		decisions := make(chan telemetry.Message, 1)
		newClient(t, b, &telemetry.Client{
			Subscriptions: []telemetry.Subscription{{Filter: topics.AllDecisions(), QoS: 1}},
			Handle:        func(m telemetry.Message) { decisions <- m },
		})
		l := newLink(b, nil)
		if err := l.Start(t.Context(), false, func() {}); err != nil {
			t.Fatal(err)
		}
		began := l.Clock.Now()
		select {
		case at := <-l.PublishLastDecision("u1", telemetry.Decision{Slot: 3}):
			if now := l.Clock.Now(); at < began || at > now {
				t.Errorf("the broker had it at %v, between %v and %v", at, began, now)
			}
		case <-time.After(patience):
			t.Fatal("it was not delivered")
		}
		if m := <-decisions; m.Topic != topics.Decision("u1") {
			t.Errorf("it came on %s", m.Topic)
		}
		l.Close()
		for name, d := range map[string]telemetry.Decision{"closed": {Slot: 4}, "invalid": {Slot: -1}} {
			if l.PublishLastDecision("u1", d) != nil {
				t.Errorf("%s: it is waited for", name)
			}
		}
	})
}
