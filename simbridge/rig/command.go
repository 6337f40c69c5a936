package rig

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"prefdt/telemetry"
)

type signer struct {
	name    string
	private ed25519.PrivateKey
	counter uint64
}

// UseKey makes the leader accept only commands signed with a new key, and signs the
// rig's commands with it. Call it before a leader is started.
func (r *Rig) UseKey(name string) ed25519.PrivateKey {
	r.test.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		r.test.Fatal(err)
	}
	r.Config.Commands.Keys = map[string]string{name: base64.StdEncoding.EncodeToString(public)}
	r.signer = &signer{name: name, private: private}
	return private
}

// Sign signs a message with the rig's key, the present challenge and the next counter.
func (r *Rig) Sign(topic, body string) string {
	r.test.Helper()
	return r.SignAs(r.signer.name, r.signer.private, r.nextCounter(0), r.Challenge(), topic, body)
}

// nextCounter is the next counter of the rig's key, above another one.
func (r *Rig) nextCounter(above uint64) uint64 {
	r.observer.Lock()
	defer r.observer.Unlock()
	r.signer.counter = max(r.signer.counter, above) + 1
	return r.signer.counter
}

// LastCounter is the last counter that Sign used.
func (r *Rig) LastCounter() uint64 {
	r.observer.Lock()
	defer r.observer.Unlock()
	return r.signer.counter
}

// Challenge is the challenge of the last status.
func (r *Rig) Challenge() string {
	r.test.Helper()
	return r.Await("a challenge", func(s telemetry.Status) bool { return s.Challenge != "" }).Challenge
}

// SignAs signs a message with any key, counter and challenge, as a client of version 2 of the
// wire, which names no station.
func (r *Rig) SignAs(name string, private ed25519.PrivateKey, counter uint64, challenge, topic, body string) string {
	r.test.Helper()
	payload, err := telemetry.Envelope{Key: name, Counter: counter, Challenge: challenge, Body: body}.Sign(private, topic)
	if err != nil {
		r.test.Fatal(err)
	}
	return string(payload)
}

// resendInterval is how often an unanswered command is sent again, unchanged: some
// refusals are answered at most once a second.
const resendInterval = 2 * time.Second

// SendCommand sends a command, signed if the rig has a key, until it is acknowledged,
// and returns the acknowledgement. After a stale challenge or counter it signs once
// more, as the crew's tool does.
func (r *Rig) SendCommand(topic, body, id string) telemetry.Ack {
	r.test.Helper()
	payload := body
	if r.signer != nil {
		payload = r.Sign(topic, body)
	}
	ack := r.SendPayload(topic, payload, id)
	if ack.Challenge != "" && r.signer != nil {
		signed := r.SignAs(r.signer.name, r.signer.private, r.nextCounter(*ack.LastCounter), ack.Challenge, topic, body)
		ack = r.SendPayload(topic, signed, id)
	}
	return ack
}

// SendPayload sends a payload unchanged until it is acknowledged, and returns the
// acknowledgement.
func (r *Rig) SendPayload(topic, payload, id string) (ack telemetry.Ack) {
	r.test.Helper()
	of, before := telemetry.Digest([]byte(payload)), len(r.Acks(id))
	r.PublishRaw(topic, payload)
	sent := time.Now()
	if !r.wait(func() bool {
		for _, raw := range r.Acks(id)[before:] {
			var err error
			if ack, err = telemetry.DecodeAck([]byte(raw)); err != nil {
				r.test.Fatalf("acknowledgement %s: %v", raw, err)
			}
			if ack.Of == of {
				return true
			}
		}
		if time.Since(sent) >= resendInterval {
			r.PublishRaw(topic, payload)
			sent = time.Now()
		}
		return false
	}) {
		r.test.Fatalf("command %s was not acknowledged", payload)
	}
	return ack
}

// SendAction sends a mission command, for all or for named aircraft.
func (r *Rig) SendAction(action string, aircraft ...int) telemetry.Ack {
	r.test.Helper()
	return r.SendMission(telemetry.Mission{Action: action, Aircraft: aircraft})
}

// SendMission sends a mission command under a new id.
func (r *Rig) SendMission(m telemetry.Mission) telemetry.Ack {
	r.test.Helper()
	m.ID = fmt.Sprintf("order%d", r.commandIDs.Add(1))
	body, err := json.Marshal(m)
	if err != nil {
		r.test.Fatal(err)
	}
	return r.SendCommand(r.Topics.Mission(), string(body), m.ID)
}

// MustSendAction is SendAction of a command that must be accepted.
func (r *Rig) MustSendAction(action string, aircraft ...int) {
	r.test.Helper()
	if ack := r.SendAction(action, aircraft...); !ack.Accepted {
		r.test.Fatalf("%s: %+v", action, ack)
	}
}

// TakeOff starts the mission as soon as the leader accepts it.
func (r *Rig) TakeOff() {
	r.test.Helper()
	r.Await("the leader", AnyStatus)
	r.RetryAction(telemetry.ActionStart)
}

// RetryAction repeats a mission command until it is accepted: the leader has to read
// its aircraft's parameters and readiness first.
func (r *Rig) RetryAction(action string, aircraft ...int) {
	r.test.Helper()
	var ack telemetry.Ack
	if !r.Eventually(func() bool {
		if ack = r.SendAction(action, aircraft...); !ack.Accepted {
			time.Sleep(100 * time.Millisecond)
		}
		return ack.Accepted
	}) {
		r.test.Fatalf("%s refused: %s", action, ack.Reason)
	}
}
