package main

import (
	"cmp"
	"crypto/ed25519"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"prefdt/telemetry"
)

// newCrewKey makes a key file and says what the leader knows of it.
func newCrewKey(t testing.TB) (path string, keys map[string]ed25519.PublicKey) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "crew-1.key")
	line, err := telemetry.NewKey(path)
	if err != nil {
		t.Fatal(err)
	}
	public, err := telemetry.ParsePublicKey(line)
	if err != nil {
		t.Fatal(err)
	}
	return path, map[string]ed25519.PublicKey{"crew-1": public}
}

// A command that the leader finds stale, in its challenge or its counter, is
// signed once more, with the same id and body, and no more than once.
func TestStaleCommandIsSignedOnceMore(t *testing.T) {
	hour := uint64(time.Now().Add(time.Hour).UnixNano())
	for name, c := range map[string]struct {
		shown  string // challenge of the retained status; empty: the leader's
		leader func(l *fakeLeader)
		code   int
		stdout string
		stderr string
	}{
		"the leader restarted since the status": {strings.Repeat("o", 22), func(*fakeLeader) {}, 0,
			"mission stop accepted from slot 31 (id s1, key crew-1)\n", ""},
		"another laptop with the key has a clock an hour ahead": {"", func(l *fakeLeader) { l.lastCounters["crew-1"] = hour }, 0,
			"mission stop accepted from slot 31 (id s1, key crew-1)\n", ""},
		"stale whatever is signed": {"", func(l *fakeLeader) { l.alwaysStale = true }, exitRefused, "",
			"ground mission: mission stop refused, also when signed once more: the challenge is stale (id s1, key crew-1)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := startBroker(t)
			path, keys := newCrewKey(t)
			l := startFakeLeader(t, url, keys, c.leader)
			s := exampleStatus(17)
			s.Challenge = cmp.Or(c.shown, l.challenge)
			l.publishStatus(t, s)
			code, stdout, stderr := runGround(t, "mission", "stop", "-id", "s1", "-key", path, "-fleet", "f1", "-broker", url)
			if code != c.code || stdout != c.stdout || stderr != c.stderr {
				t.Errorf("%d %q %q", code, stdout, stderr)
			}
			var counters []uint64
			for len(l.receivedCommands) > 0 {
				e, err := telemetry.Verify(topics.Mission(), <-l.receivedCommands, keys)
				if err != nil || e.Body != `{"id":"s1","action":"stop"}` {
					t.Errorf("%s, %v", e.Body, err)
				}
				counters = append(counters, e.Counter)
			}
			if len(counters) != 2 || counters[1] <= counters[0] {
				t.Errorf("counters %d, want two that rise", counters)
			}
		})
	}
}

// newSignedExchange is an exchange that a test leads by hand, of a signed stop.
func newSignedExchange(t *testing.T) *exchange {
	path, _ := newCrewKey(t)
	private, err := telemetry.ReadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	return &exchange{topic: topics.Mission(), id: "s1", body: []byte(`{"id":"s1","action":"stop"}`), topics: topics, signer: &signer{"crew-1", path, private}}
}

func deliver[T telemetry.Status | telemetry.Ack](t *testing.T, x *exchange, topic string, v T) ([]byte, *telemetry.Ack) {
	t.Helper()
	payload, err := telemetry.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	publish, answer, err := x.handleMessage(telemetry.Message{Topic: topic, Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	return publish, answer
}

// Nothing is sent before a status says the challenge, later ones change nothing,
// and only answers to our own payloads count, an early one's included.
func TestExchange(t *testing.T) {
	x := newSignedExchange(t)
	if x.start() != nil {
		t.Error("sent without a challenge")
	}
	if got := x.noAnswerReason("f1"); !strings.HasSuffix(got, "nothing was sent") {
		t.Error(got)
	}
	s, slot, zero := exampleStatus(1), 3, uint64(0)
	first, _ := deliver(t, x, topics.Status(), s)
	if first == nil {
		t.Fatal("not sent with a challenge")
	}
	s.Challenge = telemetry.NewChallenge()
	if p, _ := deliver(t, x, topics.Status(), s); p != nil {
		t.Error("sent twice")
	}
	foreign := telemetry.Ack{ID: "s1", Accepted: true, EffectiveSlot: &slot, Of: telemetry.Digest([]byte("another station's"))}
	for _, of := range []string{foreign.Of, ""} {
		foreign.Of = of
		if _, answer := deliver(t, x, topics.Ack("s1"), foreign); answer != nil {
			t.Errorf("the answer to %q was believed", of)
		}
	}
	if got := x.noAnswerReason("f1"); !strings.Contains(got, "may still be applied") {
		t.Error(got)
	}
	stale := telemetry.Ack{ID: "s1", Reason: "stale", Of: telemetry.Digest(first), Challenge: s.Challenge, LastCounter: &zero}
	second, answer := deliver(t, x, topics.Ack("s1"), stale)
	if second == nil || answer != nil {
		t.Fatalf("a stale command: %s, %+v", second, answer)
	}
	// The first payload was sent twice, its refusal comes twice.
	if p, answer := deliver(t, x, topics.Ack("s1"), stale); p != nil || answer != nil {
		t.Errorf("the refusal of the first payload again: %s, %+v", p, answer)
	}
	s.LastCommand = &telemetry.LastCommand{ID: "s1", Key: "crew-2", Slot: 7, What: "mission stop"}
	deliver(t, x, topics.Status(), s)
	if got := x.noAnswerReason("f1"); strings.Contains(got, "slot 7") {
		t.Errorf("another key's command is taken for ours: %s", got)
	}
	s.LastCommand.Key = "crew-1"
	deliver(t, x, topics.Status(), s)
	if got := x.noAnswerReason("f1"); !strings.HasSuffix(got, "the status names command s1 as applied from slot 7") {
		t.Error(got)
	}
	// The first one had arrived after all, before the challenge changed.
	if _, answer := deliver(t, x, topics.Ack("s1"), telemetry.Ack{ID: "s1", Accepted: true, EffectiveSlot: &slot, Of: telemetry.Digest(first)}); answer == nil {
		t.Error("the answer to the first payload was ignored")
	}
}

// What the crew reads when no answer of use comes.
func TestKnown(t *testing.T) {
	digest := telemetry.Digest([]byte(`{"id":"s1","action":"stop"}`))
	status, err := telemetry.Encode(exampleStatus(3))
	if err != nil {
		t.Fatal(err)
	}
	yes, no := [2]string{topics.Online(), "true"}, [2]string{topics.Online(), "false"}
	ack := func(text string) [2]string {
		return [2]string{topics.Ack("s1"), strings.Replace(text, "OF", digest, 1)}
	}
	for name, c := range map[string]struct {
		signed bool
		said   [][2]string // topic, payload
		want   string
	}{
		"nobody there":           {false, nil, "no leader of fleet f1 was ever at this broker; command s1 may still be applied"},
		"offline":                {false, [][2]string{yes, no}, "the leader of fleet f1 is offline; command s1 may still be applied"},
		"silent":                 {false, [][2]string{yes}, "the leader says it is online, but may not accept commands signed like this one; command s1 may still be applied"},
		"no challenge":           {true, [][2]string{yes}, "the leader says it is online, but no status of it came, and without its challenge nothing can be signed; nothing was sent"},
		"an unreadable status":   {true, [][2]string{yes, {topics.Status(), "{}"}}, "what came as an answer cannot be read: status.seq: missing; nothing was sent"},
		"silent, though signed":  {true, [][2]string{yes, {topics.Status(), string(status)}}, "the leader says it is online, but may not accept commands signed like this one; command s1 may still be applied"},
		"an unreadable answer":   {false, [][2]string{yes, ack(`{"id":"s1","of":"OF","accepted":"yes"}`)}, `what came as an answer cannot be read: ack.accepted: "\"yes\"", want true or false; command s1 may still be applied`},
		"another id":             {false, [][2]string{yes, ack(`{"id":"b2","of":"OF","accepted":true,"effective_slot":3}`)}, `what came as an answer cannot be read: ack.id: "b2", on the topic of s1; command s1 may still be applied`},
		"another station's":      {false, [][2]string{yes, ack(`{"id":"s1","of":"` + telemetry.Digest(nil) + `","accepted":true,"effective_slot":3}`)}, "the leader answered another payload with this id, perhaps another station's; command s1 may still be applied"},
		"an answer to nothing":   {false, [][2]string{yes, ack(`{"id":"s1","accepted":true,"effective_slot":3}`)}, "the leader answered another payload with this id, perhaps another station's; command s1 may still be applied"},
		"escape sequences in it": {false, [][2]string{yes, ack("{\"id\":\"s1\",\"accepted\":\"\x1b\"}")}, "what came as an answer cannot be read: ack: not JSON; command s1 may still be applied"},
	} {
		x := newSignedExchange(t)
		if !c.signed {
			x.signer = nil
		}
		x.start()
		for _, m := range c.said {
			if _, answer, err := x.handleMessage(telemetry.Message{Topic: m[0], Payload: []byte(m[1])}); err != nil || answer != nil {
				t.Errorf("%s: %+v, %v", name, answer, err)
			}
		}
		if got := x.noAnswerReason("f1"); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}
