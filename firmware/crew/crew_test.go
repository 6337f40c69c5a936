package crew

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"prefdt/firmware/clock"
	"prefdt/firmware/ledger"
	"prefdt/firmware/mission"
	"prefdt/simbridge/rig/fulldisk"
	"prefdt/telemetry"
)

// manualClock is a clock that is stopped until it is set.
type manualClock struct {
	clock.Clock
	now time.Duration
}

func (m *manualClock) Now() time.Duration { return m.now }

// harness is a Handler with a ledger of its own, and a mission that only counts.
type harness struct {
	*Handler
	t       *testing.T
	dir     string
	clock   *manualClock
	log     bytes.Buffer
	acks    []telemetry.Ack
	keys    Keys
	private map[string]ed25519.PrivateKey
	station string // that signs; empty: a client of version 2

	applied []string // ids that the mission executed, in order
	setting float64  // of the last preference
	refusal string   // why the mission refuses every command
}

// HandleCommand has the mission decide a command, as the leader does. It reports whether
// the command shows that the crew is there.
func (d *harness) HandleCommand(c *Command) (alive bool) {
	if !d.Admit(c) {
		return false
	}
	ack := telemetry.Ack{Accepted: true, EffectiveSlot: new(7)}
	reason := c.InvalidReason
	if reason == "" {
		reason = d.refusal
	}
	switch {
	case reason != "":
		ack = telemetry.Ack{Reason: reason}
	case c.Preference != nil:
		d.applied = append(d.applied, c.ID)
		d.setting, ack.Setting = c.Preference.Setting, &c.Preference.Setting
	case c.Mission != nil:
		d.applied = append(d.applied, c.ID)
		ack.Action = c.Mission.Action
	}
	d.Answer(c, ack)
	return c.KeyName != ""
}

// Commit writes what was decided, and acknowledges it.
func (d *harness) Commit() {
	entries, last := d.TakeDecided()
	var err error
	if len(entries) > 0 {
		err = d.Ledger.WriteCommands(ledger.State{State: mission.State{Mission: "m1", Phase: "idle"}, LastCommand: last}, entries)
	}
	d.Written(err)
}

func newHarness(t *testing.T, names ...string) *harness {
	d := &harness{t: t, dir: t.TempDir(), clock: &manualClock{now: time.Hour},
		keys: Keys{AcceptUnsigned: len(names) == 0, Public: map[string]ed25519.PublicKey{}}, private: map[string]ed25519.PrivateKey{}}
	for _, name := range names {
		d.keys.Public[name], d.private[name], _ = ed25519.GenerateKey(nil)
	}
	d.start()
	t.Cleanup(func() { d.Ledger.Close() })
	return d
}

// start begins a new Handler on the same ledger, as a restart does.
func (d *harness) start() {
	d.t.Helper()
	l, err := ledger.Open(d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	s, _, err := l.Load()
	if err != nil {
		d.t.Fatal(err)
	}
	d.Handler = &Handler{
		Ledger: l, Clock: d.clock, Log: slog.New(slog.NewTextHandler(&d.log, nil)),
		Publish: func(a telemetry.Ack) { d.acks = append(d.acks, a) },
	}
	d.Initialize(s.LastCommand)
}

func (d *harness) restart() {
	d.t.Helper()
	if err := d.Ledger.Close(); err != nil {
		d.t.Fatal(err)
	}
	d.start()
}

const preferenceTopic, missionTopic = "prefdt/test/command/preference", "prefdt/test/command/mission"

// sign returns a payload signed with a key.
func (d *harness) sign(name string, counter uint64, challenge, topic, body string) string {
	d.t.Helper()
	raw, err := telemetry.Envelope{Key: name, Station: d.station, Counter: counter, Challenge: challenge, Body: body}.Sign(d.private[name],
		topic)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(raw)
}

// decode decodes a payload as package link does.
func (d *harness) decode(topic, payload string) *Command {
	d.t.Helper()
	kind := telemetry.KindPreference
	if topic == missionTopic {
		kind = telemetry.KindMission
	}
	c, _ := d.keys.DecodeCommand(kind, telemetry.Message{Topic: topic, Payload: []byte(payload)})
	return c
}

// send handles a payload, and returns its acknowledgement, if there was one.
func (d *harness) send(topic, payload string) *telemetry.Ack {
	d.t.Helper()
	c := d.decode(topic, payload)
	if c == nil {
		return nil
	}
	before := len(d.acks)
	d.HandleCommand(c)
	d.Commit()
	if len(d.acks) == before {
		return nil
	}
	ack := d.acks[len(d.acks)-1]
	if len(d.acks) != before+1 {
		d.t.Errorf("%s got %d answers", payload, len(d.acks)-before)
	}
	if ack.Of != telemetry.Digest([]byte(payload)) {
		d.t.Errorf("the answer to %s is of another payload: %+v", payload, ack)
	}
	return &ack
}

func (d *harness) mustAccept(topic, payload string) telemetry.Ack {
	d.t.Helper()
	ack := d.send(topic, payload)
	if ack == nil || !ack.Accepted {
		d.t.Fatalf("%s: %+v, want accepted", payload, ack)
	}
	return *ack
}

func (d *harness) mustRefuse(topic, payload, reason string) telemetry.Ack {
	d.t.Helper()
	ack := d.send(topic, payload)
	if ack == nil || ack.Accepted || !strings.Contains(ack.Reason, reason) {
		d.t.Fatalf("%s: %+v, want refused for %q", payload, ack, reason)
	}
	return *ack
}

// sameAnswer compares two acknowledgements except for the payload's digest.
func sameAnswer(a, b telemetry.Ack) bool {
	a.Of, b.Of = "", ""
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// TestRepeat: a repeated command gets its first answer, with the digest of the new
// payload, and is not applied again, whether signed again, over a restart or in the
// same transaction.
func TestRepeat(t *testing.T) {
	d := newHarness(t, "crew-1", "crew-2")
	body := `{"id":"p","setting":0.3}`
	once := d.sign("crew-1", 5, d.Challenge(), preferenceTopic, body)
	first := d.mustAccept(preferenceTopic, once)
	if first.Key != "crew-1" || *first.Setting != 0.3 {
		t.Errorf("%+v", first)
	}
	if log := strings.ReplaceAll(d.log.String(), `\"`, `"`); !strings.Contains(log, `"key":"crew-1"`) ||
		!strings.Contains(log, `"setting":0.3`) {
		t.Errorf("the log names not both, value and signer: %s", log)
	}
	for name, payload := range map[string]string{
		"the same payload":   once,
		"signed once more":   d.sign("crew-1", 6, d.Challenge(), preferenceTopic, body),
		"signed by another":  d.sign("crew-2", 1, d.Challenge(), preferenceTopic, body),
		"an old challenge":   d.sign("crew-1", 7, telemetry.NewChallenge(), preferenceTopic, body),
		"an old counter too": d.sign("crew-1", 1, telemetry.NewChallenge(), preferenceTopic, body),
	} {
		if again := d.mustAccept(preferenceTopic, payload); !sameAnswer(again, first) {
			t.Errorf("%s: %+v, the first was %+v", name, again, first)
		}
	}
	d.restart()
	if again := d.mustAccept(preferenceTopic, once); !sameAnswer(again, first) {
		t.Errorf("after a restart: %+v", again)
	}
	if len(d.applied) != 1 {
		t.Errorf("applied: %v", d.applied)
	}
	// Twice within one transaction.
	d.acks = nil
	twice := d.decode(missionTopic, d.sign("crew-1", 8, d.Challenge(), missionTopic, `{"id":"m","action":"hold"}`))
	d.HandleCommand(twice)
	d.HandleCommand(twice)
	d.Commit()
	if len(d.acks) != 2 || !sameAnswer(d.acks[0], d.acks[1]) || len(d.applied) != 2 {
		t.Errorf("twice in a transaction: %+v, applied %v", d.acks, d.applied)
	}
}

// TestAnotherBodyOfAnID is refused, and the id keeps its first answer.
func TestAnotherBodyOfAnID(t *testing.T) {
	d := newHarness(t)
	first := d.mustAccept(preferenceTopic, `{"id":"p","setting":0.3}`)
	d.mustRefuse(preferenceTopic, `{"id":"p","setting":0.4}`, "id p belongs to another command")
	d.clock.now += 2 * time.Second // refusals come once a second
	d.mustRefuse(missionTopic, `{"id":"p","action":"stop"}`, "id p belongs to another command")
	if again := d.mustAccept(preferenceTopic, `{"id":"p","setting":0.3}`); !sameAnswer(again, first) {
		t.Errorf("%+v, the first was %+v", again, first)
	}
	if len(d.applied) != 1 || d.setting != 0.3 {
		t.Errorf("applied %v, setting %v", d.applied, d.setting)
	}
}

// TestRefusedStaysRefused: a refused command gets the same answer when it is delivered
// again, in any state and after a restart, and is never executed.
func TestRefusedStaysRefused(t *testing.T) {
	d := newHarness(t)
	start := `{"id":"s","action":"start"}`
	d.refusal = "aircraft 2 is not ready"
	first := d.mustRefuse(missionTopic, start, "aircraft 2 is not ready")
	d.refusal = ""
	if again := d.mustRefuse(missionTopic, start, ""); !sameAnswer(again, first) {
		t.Errorf("delivered again: %+v", again)
	}
	d.restart()
	if again := d.mustRefuse(missionTopic, start, ""); !sameAnswer(again, first) {
		t.Errorf("delivered to the next leader: %+v", again)
	}
	invalid := `{"id":"x","setting":2}`
	d.mustRefuse(preferenceTopic, invalid, "setting")
	d.restart()
	d.mustRefuse(preferenceTopic, invalid, "setting")
	if len(d.applied) != 0 || d.LastCommand() != nil {
		t.Errorf("applied: %v, last %+v", d.applied, d.LastCommand())
	}
}

// TestStaleSignature: a used counter or an expired challenge is answered with the
// present ones; signed once more, the same id is executed.
func TestStaleSignature(t *testing.T) {
	d := newHarness(t, "crew-1", "crew-2")
	old := d.Challenge()
	d.mustAccept(preferenceTopic, d.sign("crew-1", 100, old, preferenceTopic, `{"id":"a","setting":0.1}`))
	for _, c := range []struct {
		name      string
		waitS     float64
		counter   uint64
		challenge string
		valid     bool
	}{
		{"the same counter", 2, 100, old, false},
		{"a lower one", 2, 99, old, false},
		{"a challenge never issued", 2, 1001, telemetry.NewChallenge(), false},
		{"the one before, within a minute", 30, 1002, old, true},
		{"one of more than a minute ago", 31, 1003, old, false},
	} {
		d.clock.now += time.Duration(c.waitS * 1e9)
		d.Challenge() // as each status asks
		id := strings.ReplaceAll(c.name, " ", "-")
		id = strings.ReplaceAll(id, ",", "")
		body := fmt.Sprintf(`{"id":%q,"setting":0.2}`, id)
		payload := d.sign("crew-1", c.counter, c.challenge, preferenceTopic, body)
		if c.valid {
			d.mustAccept(preferenceTopic, payload)
			continue
		}
		last, n := d.commands.last(d.decode(preferenceTopic, payload).Signer, d.clock.now), len(d.applied)
		ack := d.mustRefuse(preferenceTopic, payload, "sign again")
		if ack.Challenge != d.Challenge() || ack.LastCounter == nil || *ack.LastCounter != last || ack.Key != "crew-1" ||
			len(d.applied) != n {
			t.Errorf("%s: %+v, want challenge %s and counter %d", c.name, ack, d.Challenge(), last)
		}
		d.mustAccept(preferenceTopic, d.sign("crew-1", last+1, ack.Challenge, preferenceTopic, body))
	}
	// Each key has its own counter.
	d.mustAccept(preferenceTopic, d.sign("crew-2", 1, d.Challenge(), preferenceTopic, `{"id":"other","setting":0.2}`))
}

// TestWithheldCommandExpires: a command that an attacker withholds expires, by the
// leader's own clock alone.
func TestWithheldCommandExpires(t *testing.T) {
	d := newHarness(t, "crew-1")
	first := d.Challenge()
	withheld := d.sign("crew-1", 1, first, missionTopic, `{"id":"s","action":"start"}`)
	for s := 1; s <= 61; s++ {
		d.clock.now += time.Second
		if present := d.Challenge() == first; present != (s < 30) { // new every 30 s
			t.Errorf("after %d s the challenge is the first one: %v", s, present)
		}
	}
	d.mustRefuse(missionTopic, withheld, "sign again")
	if len(d.applied) != 0 {
		t.Errorf("applied: %v", d.applied)
	}
	// The leader was stopped for long: the challenge then is not even the previous one.
	present := d.sign("crew-1", 1, d.Challenge(), missionTopic, `{"id":"s","action":"start"}`)
	d.clock.now += time.Hour
	d.mustRefuse(missionTopic, present, "sign again")
}

// TestRecordedInAnotherLeader: a new state directory, or a restart, has another
// challenge.
func TestRecordedInAnotherLeader(t *testing.T) {
	d := newHarness(t, "crew-1")
	start := d.sign("crew-1", 1, d.Challenge(), missionTopic, `{"id":"s","action":"start"}`)
	d.mustAccept(missionTopic, start)
	other := newHarness(t)
	other.keys = d.keys
	other.mustRefuse(missionTopic, start, "sign again")
	d.restart()
	hold := d.sign("crew-1", 2, d.checkedChallenge(t), missionTopic, `{"id":"h","action":"hold"}`)
	d.mustAccept(missionTopic, hold)
	if len(other.applied) != 0 {
		t.Errorf("applied: %v", other.applied)
	}
}

// checkedChallenge returns the challenge after a restart, and checks that it differs.
func (d *harness) checkedChallenge(t *testing.T) string {
	t.Helper()
	c := d.Challenge()
	if len(c) != 22 {
		t.Errorf("the challenge is %q", c)
	}
	return c
}

// TestRenamedKey: the key's name is part of what is signed, and a counter belongs
// to the key itself, so that neither a name in the envelope nor one in the
// configuration lets anything count twice.
func TestRenamedKey(t *testing.T) {
	d := newHarness(t, "crew-1", "crew-2")
	payload := d.sign("crew-1", 50, d.Challenge(), preferenceTopic, `{"id":"a","setting":0.1}`)
	d.mustAccept(preferenceTopic, payload)
	d.mustRefuse(preferenceTopic, strings.Replace(strings.Replace(payload, "crew-1", "crew-2", 1), `\"a\"`, `\"b\"`, 1), "signature")
	// The configuration gives the same key another name: its counter stays.
	d.clock.now += 2 * time.Second
	d.keys.Public["renamed"], d.private["renamed"] = d.keys.Public["crew-1"], d.private["crew-1"]
	delete(d.keys.Public, "crew-1")
	ack := d.mustRefuse(preferenceTopic, d.sign("renamed", 50, d.Challenge(), preferenceTopic, `{"id":"c","setting":0.1}`), "sign again")
	if *ack.LastCounter != 50 {
		t.Errorf("the last counter is %d", *ack.LastCounter)
	}
	d.mustAccept(preferenceTopic, d.sign("renamed", 51, d.Challenge(), preferenceTopic, `{"id":"c","setting":0.1}`))
	// A new key under the old name has a new counter.
	d.keys.Public["crew-1"], d.private["crew-1"], _ = ed25519.GenerateKey(nil)
	d.mustAccept(preferenceTopic, d.sign("crew-1", 1, d.Challenge(), preferenceTopic, `{"id":"d","setting":0.1}`))
}

// Counters belong to a station, to the challenges under which they counted and to this
// process. Before, two laptops with one key shared a durable counter: with one clock ahead
// nothing of the other's counted, and one counter of 2^62 made the key useless elsewhere.
func TestCountersBelongToAStation(t *testing.T) {
	d := newHarness(t, "crew-1")
	n := 0
	send := func(station string, counter uint64) *telemetry.Ack {
		d.station, n = station, n+1
		d.clock.now += refusalInterval
		return d.send(preferenceTopic, d.sign("crew-1", counter, d.Challenge(), preferenceTopic,
			fmt.Sprintf(`{"id":"c%d","setting":0.1}`, n)))
	}
	for _, c := range []struct {
		name, station string
		waitS         int
		counter       uint64
		accepted      bool
		last          uint64 // that a refusal names
	}{
		{"a laptop whose clock is ahead", "laptop-1", 0, 1 << 62, true, 0},
		{"another with the same key", "laptop-2", 0, 1, true, 0},
		{"a client of version 2", "", 0, 1, true, 0},
		{"that client's counter again", "", 0, 1, false, 1},
		{"the other's counter again", "laptop-2", 0, 1, false, 1},
		{"the other's next", "laptop-2", 20, 2, true, 0},
		{"a lower one, under the next challenge", "laptop-2", 25, 1, false, 2},
		{"when the challenges it counted under have ended", "laptop-2", 60, 1, true, 0},
		{"so has the one that was ahead", "laptop-1", 0, 1, true, 0},
	} {
		for range c.waitS {
			d.clock.now += time.Second
			d.Challenge() // as each status asks
		}
		ack := send(c.station, c.counter)
		if ack == nil || ack.Accepted != c.accepted || !c.accepted && *ack.LastCounter != c.last {
			t.Errorf("%s: %+v, want accepted %v, last counter %d", c.name, ack, c.accepted, c.last)
		}
	}
	d.refusal = "not now"
	if ack := send("laptop-1", 40); ack == nil || ack.Reason != "not now" {
		t.Errorf("a refused command: %+v", ack)
	}
	if ack := send("laptop-1", 40); ack == nil || ack.LastCounter == nil || *ack.LastCounter != 40 {
		t.Errorf("a refused command's counter again: %+v", ack)
	}
	d.restart()
	d.refusal = ""
	if ack := send("laptop-1", 1); ack == nil || !ack.Accepted {
		t.Errorf("after a restart: %+v", ack)
	}
}

// Of more than 64 stations of a key the longest silent is forgotten, and of no other key; and
// what it was is not applied again, though more commands came than the ledger keeps.
func TestManyStations(t *testing.T) {
	d := newHarness(t, "crew-1", "crew-2")
	heartbeat := func(key, station string, counter uint64) bool {
		const topic = "prefdt/test/crew/ops/heartbeat"
		d.station = station
		h, err := d.keys.DecodeHeartbeat("ops", telemetry.Message{Topic: topic,
			Payload: []byte(d.sign(key, counter, d.Challenge(), topic, `{"seq":1}`))})
		if err != nil {
			t.Fatal(err)
		}
		d.clock.now += time.Millisecond
		return d.AcceptHeartbeat(h)
	}
	name := func(i int) string { return fmt.Sprintf("station-%d", i) }
	heartbeat("crew-2", name(0), 9)
	for i := range maxStations {
		if !heartbeat("crew-1", name(i), 9) {
			t.Fatalf("the first of station %d", i)
		}
	}
	heartbeat("crew-1", name(0), 10) // is not the longest silent any more
	heartbeat("crew-1", name(maxStations), 9)
	for station, want := range map[string]bool{name(0): false, name(1): true, name(3): false, name(maxStations): false} {
		if got := heartbeat("crew-1", station, 9); got != want {
			t.Errorf("%s again: counts %v, want %v", station, got, want)
		}
	}
	if heartbeat("crew-2", name(0), 9) {
		t.Error("another key's station was forgotten")
	}

	d.station = "early-one"
	first := d.sign("crew-1", 1, d.Challenge(), missionTopic, `{"id":"first","action":"hold"}`)
	d.mustAccept(missionTopic, first)
	for i := range ledger.MaxCommands {
		d.station = name(i)
		d.HandleCommand(d.decode(preferenceTopic, d.sign("crew-1", 1, d.Challenge(), preferenceTopic,
			fmt.Sprintf(`{"id":"c%d","setting":0.1}`, i))))
	}
	d.Commit()
	d.mustRefuse(missionTopic, first, "id first was used")
	for range 2 * challengeLifetimeS {
		d.clock.now += time.Second
		d.Challenge()
	}
	d.mustRefuse(missionTopic, first, "sign again")
}

// TestUnverifiedAreAnsweredOnceASecond in all, and each key's stale commands once a
// second; none of them enters the ledger, so that an attacker cannot use up ids.
func TestUnverifiedAreAnsweredOnceASecond(t *testing.T) {
	d := newHarness(t, "crew-1", "crew-2")
	_, stolen, _ := ed25519.GenerateKey(nil)
	d.private["thief"] = stolen
	unverified := func(i int) string {
		body := fmt.Sprintf(`{"id":"x%d","setting":0.1}`, i)
		if i%2 == 0 {
			return body
		}
		return d.sign("thief", uint64(i+1), d.Challenge(), preferenceTopic, body)
	}
	for i := range 50 {
		d.send(preferenceTopic, unverified(i))
	}
	if len(d.acks) != 1 || d.acks[0].Accepted || d.acks[0].ID != "x0" || d.acks[0].Key != "" {
		t.Fatalf("fifty unverified ones got %+v", d.acks)
	}
	// The crew's own refusals do not wait for those of attackers, nor for each other.
	stale := telemetry.NewChallenge()
	d.mustRefuse(preferenceTopic, d.sign("crew-1", 1, stale, preferenceTopic, `{"id":"a","setting":0.1}`), "sign again")
	d.mustRefuse(preferenceTopic, d.sign("crew-2", 1, stale, preferenceTopic, `{"id":"b","setting":0.1}`), "sign again")
	if ack := d.send(preferenceTopic, d.sign("crew-1", 2, stale, preferenceTopic, `{"id":"c","setting":0.1}`)); ack != nil {
		t.Errorf("a second refusal within a second: %+v", ack)
	}
	d.clock.now += 900 * time.Millisecond
	if ack := d.send(preferenceTopic, unverified(51)); ack != nil {
		t.Errorf("answered after 0.9 s: %+v", ack)
	}
	d.clock.now += 200 * time.Millisecond
	if ack := d.send(preferenceTopic, unverified(53)); ack == nil {
		t.Error("after a second nothing was answered")
	}
	// Refused unverified, its id is free for the crew's.
	d.mustAccept(preferenceTopic, d.sign("crew-1", 3, d.Challenge(), preferenceTopic, `{"id":"x0","setting":0.6}`))
	if len(d.applied) != 1 || d.setting != 0.6 {
		t.Errorf("applied %v", d.applied)
	}
}

// TestNotACommand: a payload without a usable id, or retained by the broker, is no
// command, and is not answered.
func TestNotACommand(t *testing.T) {
	d := newHarness(t, "crew-1")
	for _, payload := range []string{
		"", "[]", "nonsense", `{"setting":0.3}`, `{"id":"a b","setting":0.3}`, strings.Repeat("[", 60000),
		d.sign("crew-1", 1, d.Challenge(), preferenceTopic, `{"setting":0.3}`),
	} {
		c, err := d.keys.DecodeCommand(telemetry.KindPreference, telemetry.Message{Topic: preferenceTopic, Payload: []byte(payload)})
		if c != nil || err == nil {
			t.Errorf("%.40s: %+v, %v", payload, c, err)
		}
	}
	good := d.sign("crew-1", 2, d.Challenge(), preferenceTopic, `{"id":"a","setting":0.3}`)
	if c, err := d.keys.DecodeCommand(telemetry.KindPreference, telemetry.Message{Topic: preferenceTopic, Payload: []byte(good),
		Retained: true}); c != nil || err == nil {
		t.Errorf("retained: %+v, %v", c, err)
	}
}

// TestContact has the messages that count as contact with the crew: verified commands
// that are no repeats, and fresh heartbeats.
func TestContact(t *testing.T) {
	d := newHarness(t, "crew-1")
	payload := d.sign("crew-1", 1, d.Challenge(), preferenceTopic, `{"id":"a","setting":0.3}`)
	if !d.HandleCommand(d.decode(preferenceTopic, payload)) {
		t.Error("a verified command does not count")
	}
	d.Commit()
	if d.HandleCommand(d.decode(preferenceTopic, payload)) {
		t.Error("a repeat counts")
	}
	if d.HandleCommand(d.decode(preferenceTopic, `{"id":"b","setting":0.3}`)) {
		t.Error("an unverified one counts")
	}
	if d.HandleCommand(d.decode(preferenceTopic, d.sign("crew-1", 1, d.Challenge(), preferenceTopic, `{"id":"c","setting":0.3}`))) {
		t.Error("one with a used counter counts")
	}
	d.refusal = "not now"
	if !d.HandleCommand(d.decode(preferenceTopic, d.sign("crew-1", 2, d.Challenge(), preferenceTopic, `{"id":"d","setting":0.3}`))) {
		t.Error("a refused one shows no crew")
	}
}

// TestHeartbeat: a heartbeat counts if it is signed where keys are configured, over a
// valid challenge, with a rising counter; never twice.
func TestHeartbeat(t *testing.T) {
	const topic = "prefdt/test/crew/ops/heartbeat"
	d := newHarness(t, "crew-1", "crew-2")
	read := func(payload string) *Heartbeat {
		h, err := d.keys.DecodeHeartbeat("ops", telemetry.Message{Topic: topic, Payload: []byte(payload)})
		if (h == nil) == (err == nil) {
			t.Fatal(h, err)
		}
		return h
	}
	if h := read(`{"seq":1}`); h != nil {
		t.Error("an unsigned one counts where keys are configured")
	}
	if h, err := d.keys.DecodeHeartbeat("ops", telemetry.Message{Topic: topic,
		Payload: []byte(d.sign("crew-1", 1, d.Challenge(), topic, `{"seq":1}`)), Retained: true}); h != nil || err == nil {
		t.Error("a retained one counts")
	}
	old := d.Challenge()
	first := d.sign("crew-1", 10, old, topic, `{"seq":1}`)
	for _, c := range []struct {
		name, payload string
		counts        bool
	}{
		{"the first", first, true},
		{"recorded", first, false},
		{"a counter that does not rise", d.sign("crew-1", 10, old, topic, `{"seq":2}`), false},
		{"the next", d.sign("crew-1", 11, old, topic, `{"seq":2}`), true},
		{"another key's", d.sign("crew-2", 1, old, topic, `{"seq":1}`), true},
		{"a challenge never issued", d.sign("crew-1", 12, telemetry.NewChallenge(), topic, `{"seq":3}`), false},
		{"leaving", d.sign("crew-1", 13, old, topic, `{"seq":4,"leaving":true}`), true},
	} {
		h := read(c.payload)
		if h == nil || d.AcceptHeartbeat(h) != c.counts || h.Station != "ops" || h.Leaving != (c.name == "leaving") {
			t.Errorf("%s: %+v, want counted %v", c.name, h, c.counts)
		}
	}
	if read(d.sign("crew-1", 14, old, "prefdt/test/crew/other/heartbeat", `{"seq":5}`)) != nil {
		t.Error("one signed for another station counts")
	}
	for range 61 {
		d.clock.now += time.Second
		d.Challenge()
	}
	if d.AcceptHeartbeat(read(d.sign("crew-1", 15, old, topic, `{"seq":6}`))) {
		t.Error("one over an old challenge counts")
	}
	// Heartbeats do not use up command counters.
	d.mustAccept(preferenceTopic, d.sign("crew-1", 1, d.Challenge(), preferenceTopic, `{"id":"a","setting":0.1}`))

	open := newHarness(t)
	h, err := open.keys.DecodeHeartbeat("ops", telemetry.Message{Topic: topic, Payload: []byte(`{"seq":1}`)})
	if err != nil || !open.AcceptHeartbeat(h) || !open.AcceptHeartbeat(h) {
		t.Errorf("where unsigned ones are permitted: %+v, %v", h, err)
	}
}

// TestDiskFailure: where the ledger cannot be written nothing is acknowledged, no command
// is shown as the last one, and what is sent again is decided again. In a process of its
// own: the limit applies to the whole process.
func TestDiskFailure(t *testing.T) {
	if os.Getenv("PREFDT_DISK_FULL") == "" {
		c := exec.Command(os.Args[0], "-test.run=^TestDiskFailure$", "-test.v")
		c.Env = append(os.Environ(), "PREFDT_DISK_FULL=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	d := newHarness(t)
	d.mustAccept(preferenceTopic, `{"id":"before","setting":0.3}`)
	freeSpace := fulldisk.Fill(t)
	for range 2 {
		if ack := d.send(preferenceTopic, `{"id":"p","setting":0.9}`); ack != nil {
			t.Errorf("acknowledged, and not durable: %+v", ack)
		}
	}
	if last := d.LastCommand(); last.ID != "before" {
		t.Errorf("the last command is %+v, which is not durable", last)
	}
	freeSpace()
	d.mustAccept(preferenceTopic, `{"id":"p","setting":0.9}`)
	if last := d.LastCommand(); last.ID != "p" || fmt.Sprint(d.applied) != "[before p p p]" {
		t.Errorf("the last command is %+v, decided: %v", last, d.applied)
	}
	if !strings.Contains(d.log.String(), "could not be written") {
		t.Error("the log does not report it")
	}
}

// What was requested, as displays and records have it.
func TestSummary(t *testing.T) {
	for want, c := range map[string]Command{
		"budget 239.94 kJ, ceiling, to touchdown": {Budget: &telemetry.Budget{EnergyJ: 239935.92883120084, Mode: telemetry.ModeCeiling,
			Scope: telemetry.ScopeLanded}},
		"budget 42 kJ, target": {Budget: &telemetry.Budget{EnergyJ: 42e3, Mode: telemetry.ModeTarget}},
		"budget of 2 packs, to touchdown, aircraft may land": {Budget: &telemetry.Budget{Packs: make([]telemetry.Pack, 2),
			Scope: telemetry.ScopeLanded, StandDown: telemetry.StandDownLand}},
		"return aircraft 2":    {Mission: &telemetry.Mission{Action: telemetry.ActionReturn, Aircraft: []int{2}}},
		"resume aircraft 1, 3": {Mission: &telemetry.Mission{Action: telemetry.ActionResume, Aircraft: []int{1, 3}}},
		"new m-2":              {Mission: &telemetry.Mission{Action: telemetry.ActionNew, Mission: "m-2"}},
		"hold":                 {Mission: &telemetry.Mission{Action: telemetry.ActionHold}},
	} {
		if got := c.summary(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
