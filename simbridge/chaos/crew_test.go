package chaos

import (
	"crypto/ed25519"
	"math/rand/v2"
	"testing"
	"time"

	"prefdt/telemetry"
)

func newTestCrew(t *testing.T) *crew {
	t.Helper()
	topics, err := telemetry.NewTopics(fleetName)
	if err != nil {
		t.Fatal(err)
	}
	c := &crew{
		Observer: telemetry.Observer{Topics: topics}, requests: map[string]*request{},
		onBeacon: func(telemetry.Slot, time.Time) {}, onReport: func(string, telemetry.Report) {}, onAnswer: func(*request) {},
		client: &telemetry.Client{},
	}
	c.Decode = c.decode
	return c
}

// receiveAck delivers an acknowledgement to the crew.
func (c *crew) receiveAck(t *testing.T, ack telemetry.Ack) {
	t.Helper()
	payload, err := telemetry.Encode(ack)
	if err != nil {
		t.Fatal(err)
	}
	c.handleMessage(telemetry.Message{Topic: c.Topics.Ack(ack.ID), Payload: payload, Received: time.Now()})
}

// The crew accepts an answer to its own payloads only.
func TestAnswers(t *testing.T) {
	slot, last := 3, uint64(9)
	own, others := telemetry.Digest([]byte("own")), telemetry.Digest([]byte("others"))
	for name, c := range map[string]struct {
		acks     []telemetry.Ack
		accepted bool
		again    bool // the command is to be signed and sent again
	}{
		"accepted": {acks: []telemetry.Ack{{ID: "a", Accepted: true, EffectiveSlot: &slot, Of: own}}, accepted: true},
		"twice the same": {acks: []telemetry.Ack{{ID: "a", Accepted: true, EffectiveSlot: &slot, Of: own},
			{ID: "a", Accepted: true, EffectiveSlot: &slot, Of: own}}, accepted: true},
		"accepted, then refused": {acks: []telemetry.Ack{{ID: "a", Accepted: true, EffectiveSlot: &slot, Of: own},
			{ID: "a", Reason: "no", Of: own}}, accepted: true},
		"refused, then accepted": {acks: []telemetry.Ack{{ID: "a", Reason: "no", Of: own},
			{ID: "a", Accepted: true, EffectiveSlot: &slot, Of: own}}},
		"another's, refused":       {acks: []telemetry.Ack{{ID: "a", Reason: "used for another command", Of: others}}},
		"an unknown one, refused":  {acks: []telemetry.Ack{{ID: "b", Reason: "no", Of: others}}},
		"an unknown one, accepted": {acks: []telemetry.Ack{{ID: "b", Accepted: true, EffectiveSlot: &slot, Of: others}}},
		"a stale challenge": {acks: []telemetry.Ack{{ID: "a", Reason: "stale", Of: own, Challenge: telemetry.NewChallenge(),
			LastCounter: &last}}, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			crew := newTestCrew(t)
			a := crew.newRequest(rand.New(rand.NewPCG(1, 1)), telemetry.ActionStart)
			a.id, a.sent, a.digests = "a", time.Now(), map[string]bool{own: true}
			crew.requests["a"] = a
			for _, ack := range c.acks {
				crew.receiveAck(t, ack)
			}
			if a.accepted != c.accepted || a.interrupted != c.again {
				t.Errorf("accepted %v, again %v", a.accepted, a.interrupted)
			}
			if c.again && crew.signCounter < last {
				t.Errorf("continues from counter %d", crew.signCounter)
			}
			if c.accepted && crew.state != Climbing {
				t.Errorf("the mission is %q", crew.state)
			}
		})
	}
}

// The crew's signatures are valid, with the current challenge and each with a higher
// counter.
func TestCrewSigns(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := newTestCrew(t)
	topic, body := c.Topics.Budget(), []byte(`{"id":"a","energy_j":1,"mode":"target"}`)
	if got := c.sign(topic, body); string(got) != string(body) {
		t.Errorf("without a key: %s", got)
	}
	c.key, c.challenge = private, telemetry.NewChallenge()
	before := uint64(0)
	for range 2 {
		e, err := telemetry.Verify(topic, c.sign(topic, body), map[string]ed25519.PublicKey{crewKeyName: public})
		if err != nil || e.Body != string(body) || e.Challenge != c.challenge || e.Counter <= before {
			t.Errorf("%+v after counter %d: %v", e, before, err)
		}
		before = e.Counter
	}
}

// The forged messages of a run do not affect its own crew.
func TestForgeriesAreIgnored(t *testing.T) {
	c := newTestCrew(t)
	status, err := telemetry.Encode(telemetry.Status{Slots: forgedSlots, State: telemetry.StateStopped, EnergySource: telemetry.SourceModel,
		Challenge: telemetry.NewChallenge(), Aircraft: []telemetry.StatusAircraft{}})
	if err != nil {
		t.Fatal(err)
	}
	beacon, err := telemetry.Encode(telemetry.Slot{Slot: 7, SlotMS: 50, Speed: 20, ReportByMS: forgedReportByMS, DecideByMS: 30,
		Offer: telemetry.Offer{Aircraft: []telemetry.OfferAircraft{}}})
	if err != nil {
		t.Fatal(err)
	}
	c.handleMessage(telemetry.Message{Topic: c.Topics.Status(), Payload: status, Received: time.Now()})
	c.handleMessage(telemetry.Message{Topic: c.Topics.Slot(), Payload: beacon, Received: time.Now()})
	if c.LiveStatuses != 0 || c.Beacon != nil || c.state != "" {
		t.Errorf("%+v", c)
	}
}
