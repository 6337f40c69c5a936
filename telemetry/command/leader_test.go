package command

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"prefdt/telemetry"
)

func answerKey(t *testing.T) (ed25519.PrivateKey, *Leader) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLeader(map[string]string{"f1": base64.StdEncoding.EncodeToString(public)}, "f1")
	if err != nil {
		t.Fatal(err)
	}
	return private, l
}

// Who has the broker can withhold a stop, and no longer say that it was accepted: an answer
// counts only if the leader signed it, on its topic.
func TestForgedAnswersAreIgnored(t *testing.T) {
	private, leader := answerKey(t)
	another, _ := answerKey(t)
	x := newSignedExchange(t)
	x.Leader = leader
	signed := func(by ed25519.PrivateKey, topic string, payload []byte, err error) telemetry.Message {
		if err != nil {
			t.Fatal(err)
		}
		if by != nil {
			payload = telemetry.SignAnswer(by, topic, payload)
		}
		return telemetry.Message{Topic: topic, Payload: payload}
	}
	status, err := telemetry.Encode(exampleStatus())
	for name, by := range map[string]ed25519.PrivateKey{"unsigned": nil, "another's": another} {
		if p, _, _ := x.HandleMessage(signed(by, topics.Status(), status, err)); p != nil {
			t.Fatalf("%s: signed over the challenge of a forged status", name)
		}
	}
	sent, _, _ := x.HandleMessage(signed(private, topics.Status(), status, err))
	if sent == nil {
		t.Fatal("not sent with the leader's status")
	}
	slot := 31
	accepted := func(key string) []byte {
		ack, err := telemetry.Encode(telemetry.Ack{ID: "s1", Accepted: true, EffectiveSlot: &slot, Key: key, Of: telemetry.Digest(sent),
			Action: telemetry.ActionStop})
		if err != nil {
			t.Fatal(err)
		}
		return ack
	}
	topic := topics.Ack("s1")
	good := signed(private, topic, accepted("crew-1"), nil)
	change := func(old, new string) telemetry.Message {
		return telemetry.Message{Topic: topic, Payload: []byte(strings.Replace(string(good.Payload), old, new, 1))}
	}
	elsewhere := signed(private, topics.Ack("s2"), accepted("crew-1"), nil)
	elsewhere.Topic = topic
	for name, m := range map[string]telemetry.Message{
		"unsigned":           signed(nil, topic, accepted("crew-1"), nil),
		"another key's":      signed(another, topic, accepted("crew-1"), nil),
		"of another topic":   elsewhere,
		"another slot":       change("31", "13"),
		"a field added":      change(`,"signature"`, `,"saturated":false,"signature"`),
		"a field behind it":  change(`"}`, `","action":"hold"}`),
		"a space in it":      change(`{"id"`, `{ "id"`),
		"cut short":          change(`=="}`, `"}`),
		"no base64":          change(`"signature":"`, `"signature":"*`),
		"an empty signature": signed(nil, topic, []byte(strings.Replace(string(accepted("crew-1")), `}`, `,"signature":""}`, 1)), nil),
	} {
		if _, answer, err := x.HandleMessage(m); answer != nil || err != nil {
			t.Errorf("%s: believed %+v, %v", name, answer, err)
		}
		if !strings.Contains(x.NoAnswerReason(), "the answer cannot be read: answer: ") {
			t.Errorf("%s: %s", name, x.NoAnswerReason())
		}
	}
	if _, answer, err := x.HandleMessage(good); answer == nil || !answer.Accepted || err != nil {
		t.Errorf("the leader's own: %+v, %v", answer, err)
	}
}

// A status that the leader signed counts once: none of a challenge that another has replaced,
// and none below the last of its challenge. The last one is repeated by brokers and bridges.
func TestOldStatusesAreIgnored(t *testing.T) {
	private, leader := answerKey(t)
	first, second := strings.Repeat("a", 22), strings.Repeat("b", 22)
	for i, c := range []struct {
		challenge string
		seq       int64
		spentJ    float64
		want      bool
	}{
		{first, 5, 100, true}, {first, 5, 100, true}, {first, 5, 101, false}, {first, 4, 90, false}, {first, 6, 110, true},
		{second, 1, 120, true}, // the leader restarted
		{first, 7, 130, false}, {first, 6, 110, false}, {second, 2, 140, true}, {second, 1, 120, false},
	} {
		s := exampleStatus()
		s.Challenge, s.Seq, s.SpentJ = c.challenge, c.seq, c.spentJ
		payload, err := telemetry.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		m := telemetry.Message{Topic: topics.Status(), Payload: telemetry.SignAnswer(private, topics.Status(), payload)}
		if got, err := leader.Status(m); (err == nil) != c.want || err == nil && got.SpentJ != c.spentJ {
			t.Errorf("%d: number %d of %.3s: %v, want read %v", i, c.seq, c.challenge, err, c.want)
		}
	}
	var anyone *Leader
	s := exampleStatus()
	for _, s.Seq = range []int64{5, 4} {
		payload, _ := telemetry.Encode(s)
		if _, err := anyone.Status(telemetry.Message{Topic: topics.Status(), Payload: payload}); err != nil {
			t.Errorf("without a key: %v", err)
		}
	}
}

func TestLeaderKeys(t *testing.T) {
	line := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for want, c := range map[string]struct {
		keys  map[string]string
		fleet string
	}{
		"true <nil>":                               {nil, "f1"},
		"false <nil>":                              {map[string]string{"f1": line, "f2": "bad"}, "f1"},
		"true leader_keys: none of fleet f1":       {map[string]string{"f2": line}, "f1"},
		`true leader_keys: f1: public key "bad": `: {map[string]string{"f1": "bad"}, "f1"},
	} {
		l, err := NewLeader(c.keys, c.fleet)
		if got := fmt.Sprint(l == nil, " ", err); !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
