package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"crypto/ed25519"

	"prefdt/configs"
	"prefdt/configs/cli"
	"prefdt/simbridge/broker"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

// testTimeout is how long a test waits for an event before it gives up: long enough for a
// machine with other load.
const testTimeout = time.Minute

// testSite is a broker and the programs about it.
type testSite struct {
	*simnet.Network        // nil: loopback
	url             string // of the broker
	stopBroker      func()
}

func newSite(t testing.TB) *testSite {
	t.Helper()
	x := &testSite{Network: simnet.New(1)}
	b := &broker.Broker{Address: "127.0.0.1:0", Listen: x.Program("broker").Listen}
	if err := b.Initialize(); err != nil {
		t.Fatal(err)
	}
	x.url, x.stopBroker = b.URL(), sync.OnceFunc(b.Close)
	t.Cleanup(x.stopBroker)
	return x
}

// brokerOf is how a program reaches the broker.
func (x *testSite) brokerOf(program string) telemetry.Broker {
	if x.Network == nil {
		return telemetry.Broker{URL: x.url}
	}
	return telemetry.Broker{URL: x.url, Dial: x.Program(program).Dial}
}

// ground is the tool as it runs at the crew's.
func (x *testSite) ground() *cli.Program {
	p := x.Program("ground")
	return program(host{dial: p.Dial, listen: p.Listen})
}

// run runs the tool and returns its exit status and what it wrote.
func (x *testSite) run(t testing.TB, args ...string) (code int, stdout, stderr string) {
	return run(t, x.ground(), args)
}

var topics = func() telemetry.Topics {
	topics, err := telemetry.NewTopics("f1")
	if err != nil {
		panic(err)
	}
	return topics
}()

// fakeLeader is a client that answers commands as a leader would: it applies each
// payload once, answers one that is sent again as before, and refuses what it cannot read.
type fakeLeader struct {
	*telemetry.Client
	applied chan string // topic and body

	keys             map[string]ed25519.PublicKey // nil: unsigned commands count
	challenge        string
	lastCounters     map[string]uint64 // by key and station
	alwaysStale      bool              // answers every command as stale
	mute             bool              // answers no preference
	receivedCommands chan []byte       // every command as received, once
	answers          map[string][]byte // by the digest of the command
}

func startFakeLeader(t testing.TB, site *testSite, keys map[string]ed25519.PublicKey, change ...func(l *fakeLeader)) *fakeLeader {
	l := &fakeLeader{
		Client:  &telemetry.Client{Broker: site.brokerOf("leader"), Name: "leader", Log: slog.New(slog.DiscardHandler)},
		applied: make(chan string, 100), keys: keys, challenge: telemetry.NewChallenge(), lastCounters: map[string]uint64{},
		receivedCommands: make(chan []byte, 100),
		answers:          map[string][]byte{},
	}
	for _, f := range change {
		f(l)
	}
	l.Subscriptions = []telemetry.Subscription{{Filter: topics.AllCommands(), QoS: 1}}
	l.Handle = func(m telemetry.Message) {
		of := telemetry.Digest(m.Payload)
		if answer, again := l.answers[of]; again { // a station that waited for an answer repeats itself
			if answer != nil {
				l.Publish(telemetry.Publication{Topic: topics.Ack(telemetry.ClaimedID(m.Payload)), QoS: 1, Payload: answer})
			}
			return
		}
		l.answers[of] = nil
		l.receivedCommands <- m.Payload
		body, key := m.Payload, ""
		stale := ""
		if keys != nil {
			e, err := telemetry.Verify(m.Topic, body, keys)
			if err != nil {
				return
			}
			body, key = []byte(e.Body), e.Key
			switch {
			case e.Challenge != l.challenge || l.alwaysStale:
				stale = "the challenge is stale"
			case e.Counter <= l.lastCounters[key+e.Station]:
				stale = "the counter is stale"
			default:
				l.lastCounters[key+e.Station] = e.Counter
			}
		}
		slot, no, floor := 31, false, 27113.5
		ack := telemetry.Ack{Accepted: true, EffectiveSlot: &slot, Key: key, Of: of}
		switch kind, _, _ := topics.Parse(m.Topic); kind {
		case telemetry.KindBudget:
			b, err := telemetry.DecodeBudget(body)
			if err != nil {
				return
			}
			no = b.EnergyJ < floor
			ack.ID, ack.EnergyJ, ack.Mode, ack.Saturated, ack.FloorJ = b.ID, &b.EnergyJ, b.Mode, &no, &floor
		case telemetry.KindPreference:
			if l.mute {
				return
			}
			p, err := telemetry.DecodePreference(body)
			if err != nil {
				return
			}
			ack.ID, ack.Setting = p.ID, &p.Setting
		case telemetry.KindMission:
			c, err := telemetry.DecodeMission(body)
			if err != nil {
				return
			}
			ack.ID, ack.Action = c.ID, c.Action
			if c.Action == telemetry.ActionResume {
				ack = telemetry.Ack{ID: c.ID, Key: key, Of: ack.Of, Reason: "resume needs a mission on hold; it is flying"}
			}
		}
		if stale != "" {
			last := uint64(0)
			ack = telemetry.Ack{ID: ack.ID, Key: key, Of: ack.Of, Reason: stale, Challenge: l.challenge, LastCounter: &last}
		} else {
			l.applied <- m.Topic + " " + string(body)
		}
		payload, err := telemetry.Encode(ack)
		if err != nil {
			t.Error(err)
		}
		l.answers[of] = payload
		l.Publish(telemetry.Publication{Topic: topics.Ack(ack.ID), QoS: 1, Payload: payload})
	}
	l.OnConnect = func() {
		l.Publish(telemetry.Publication{Topic: topics.Online(), QoS: 1, Retained: true, Payload: telemetry.EncodeOnline(true)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := l.Initialize(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func (l *fakeLeader) publishStatus(t testing.TB, s telemetry.Status) {
	t.Helper()
	payload, err := telemetry.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	l.publishRetained(t, topics.Status(), payload)
}

// fly publishes a status again and again, each a new one, until stop.
func (l *fakeLeader) fly(t testing.TB, s telemetry.Status) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	l.publishStatus(t, s)
	go func() {
		defer close(ended)
		for {
			select {
			case <-quit:
				return
			case <-time.After(100 * time.Millisecond):
			}
			s.Seq++
			payload, err := telemetry.Encode(s)
			if err != nil {
				t.Error(err)
			}
			l.Publish(telemetry.Publication{Topic: topics.Status(), Retained: true, Payload: payload})
		}
	}()
	stop = sync.OnceFunc(func() { close(quit); <-ended })
	t.Cleanup(stop)
	return stop
}

func (l *fakeLeader) publishRetained(t testing.TB, topic string, payload []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := l.PublishWait(ctx, telemetry.Publication{Topic: topic, QoS: 1, Retained: true, Payload: payload}); err != nil {
		t.Fatal(err)
	}
}

// runGround runs the tool on this machine.
func runGround(t testing.TB, args ...string) (code int, stdout, stderr string) {
	return run(t, program(host{}), args)
}

func run(t testing.TB, p *cli.Program, args []string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = p.Run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestCommands(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		site := newSite(t)
		l := startFakeLeader(t, site, nil)
		l.publishStatus(t, exampleStatus(17))
		at := []string{"-fleet", "f1", "-broker", site.url, "-timeout", "60s"}
		cases := []struct {
			args           []string
			code           int
			stdout, stderr string
			applied        string
		}{
			{[]string{"budget", "-energy", "36000", "-replaces", "42000", "-id", "b3"}, 0,
				"budget of 36 kJ (target) accepted from slot 31; the floor is 27.11 kJ\n", "",
				`prefdt/f1/command/budget {"id":"b3","energy_j":36000,"mode":"target","replaces_j":42000}`},
			{[]string{"mission", "launch", "-aircraft", "2", "-id", "m3"}, 0, "mission launch aircraft 2 accepted from slot 31\n", "",
				`prefdt/f1/command/mission {"id":"m3","action":"launch","aircraft":[2]}`},
			{[]string{"mission", "resume", "-aircraft", "2,3", "-id", "m4"}, 3, "",
				"ground mission: mission resume aircraft 2 and 3 refused: resume needs a mission on hold; it is flying\n",
				`prefdt/f1/command/mission {"id":"m4","action":"resume","aircraft":[2,3]}`},
			{[]string{"mission", "-aircraft", "3", "clear", "-id", "m5"}, 0, "mission clear aircraft 3 accepted from slot 31\n", "",
				`prefdt/f1/command/mission {"id":"m5","action":"clear","aircraft":[3]}`},
			{[]string{"mission", "new", "-mission", "m-2", "-id", "m6"}, 0,
				"mission new m-2 accepted from slot 31\nMission m-2 begins, idle, with nothing spent and the leader's " +
					"configured request; " +
					"what came before stays in the ledger.\n", "",
				`prefdt/f1/command/mission {"id":"m6","action":"new","mission":"m-2"}`},
			{[]string{"budget", "-energy", "42000", "-id", "b1"}, 0,
				"budget of 42 kJ (target) accepted from slot 31; the floor is 27.11 kJ\n", "",
				`prefdt/f1/command/budget {"id":"b1","energy_j":42000,"mode":"target"}`},
			{[]string{"budget", "-energy", "9000", "-mode", "ceiling", "-below-floor", "-id", "b2"}, 0,
				"budget of 9 kJ (ceiling) accepted from slot 31, SATURATED: below what flying needs; it ends at the " +
					"floor of 27.11 kJ\n", "",
				`prefdt/f1/command/budget {"id":"b2","energy_j":9000,"mode":"ceiling"}`},
			{[]string{"preference", "-setting", "0.35", "-id", "p1"}, 0, "preference 0.35 accepted from slot 31\n", "",
				`prefdt/f1/command/preference {"id":"p1","setting":0.35}`},
			{[]string{"mission", "start", "-id", "m1"}, 0, "mission start accepted from slot 31\n", "",
				`prefdt/f1/command/mission {"id":"m1","action":"start"}`},
			{[]string{"mission", "-id", "m2", "resume"}, 3, "",
				"ground mission: mission resume refused: resume needs a mission on hold; it is flying\n",
				`prefdt/f1/command/mission {"id":"m2","action":"resume"}`},
		}
		for _, c := range cases {
			code, stdout, stderr := site.run(t, append(c.args, at...)...)
			if code != c.code || stdout != c.stdout || stderr != c.stderr {
				t.Errorf("%v: %d %q %q", c.args, code, stdout, stderr)
			}
			select {
			case got := <-l.applied:
				if got != c.applied {
					t.Errorf("%v: the leader got %s", c.args, got)
				}
			default:
				t.Errorf("%v: the leader got nothing", c.args)
			}
		}
		if code, stdout, _ := site.run(t, append([]string{"budget", "-v", "-energy", "42000"}, at...)...); code != 0 ||
			!regexp.MustCompile(`\(id b-[a-z0-9]{12}, unsigned\)`).MatchString(stdout) {
			t.Errorf("random id: %d %q", code, stdout)
		}
		<-l.applied
		// For programs: the acknowledgement, a refusal's too.
		for action, accepted := range map[string]bool{"hold": true, "resume": false} {
			code, stdout, stderr := site.run(t, append([]string{"mission", action, "-json", "-id", "j-" + action}, at...)...)
			ack, err := telemetry.DecodeAck([]byte(stdout))
			if err != nil || ack.Accepted != accepted || (code == 0) != accepted || (stderr == "") != accepted {
				t.Errorf("mission %s -json: %d %q %q %v", action, code, stdout, stderr, err)
			}
			<-l.applied
		}
	})
}

func TestSignedCommands(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		site := newSite(t)
		path := filepath.Join(t.TempDir(), "crew-1.key")
		code, stdout, stderr := site.run(t, "keygen", "-out", path)
		if code != 0 {
			t.Fatal(stderr)
		}
		_, line, _ := strings.Cut(stdout, "commands.keys in leader.yaml gets\n  crew-1: ")
		line, leaders, _ := strings.Cut(line, "\n")
		if !strings.HasSuffix(leaders, "leader_keys in each ground.yaml gets, with the fleet's name,\n  FLEET: "+line+"\n") {
			t.Errorf("nothing of a leader's key: %s", stdout)
		}
		public, err := telemetry.ParsePublicKey(line)
		if err != nil {
			t.Fatalf("%s: %v", stdout, err)
		}
		l := startFakeLeader(t, site, map[string]ed25519.PublicKey{"crew-1": public})
		status := exampleStatus(17)
		status.Challenge = l.challenge
		l.publishStatus(t, status)
		for range 2 { // the counter rises from run to run
			code, stdout, stderr := site.run(t, "mission", "hold", "-v", "-id", "h", "-key", path, "-fleet", "f1", "-broker", site.url,
				"-timeout",
				"60s")
			if code != 0 || stdout != "mission hold accepted from slot 31 (id h, key crew-1)\n" {
				t.Fatal(stdout, stderr)
			}
			<-l.applied
			if n := len(l.receivedCommands); n != 1 {
				t.Errorf("%d payloads for one command", n)
			}
			<-l.receivedCommands
		}
	})
}

func TestNoAnswer(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		site := newSite(t)
		unreachable := "tcp://" + site.FreeAddress()
		cases := []struct{ broker, timeout, want string }{
			{site.url, "5s", "ground mission: no acknowledgement: no leader of fleet f1 was ever at this broker"},
			{unreachable, "500ms", "unreachable"},
		}
		for _, c := range cases {
			code, stdout, stderr := site.run(t, "mission", "stop", "-fleet", "f1", "-broker", c.broker, "-timeout", c.timeout)
			if code != 1 || stdout != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("%s: %d %q %q", c.broker, code, stdout, stderr)
			}
		}
		_, _, stderr := site.run(t, "mission", "stop", "-fleet", "f1", "-timeout", "500ms")
		if !strings.Contains(stderr, "set GROUND_BROKER") {
			t.Errorf("at the default broker: %q", stderr)
		}
	})
}

// A console's command while the broker is away was not sent, and the words say no more than that.
func TestNotSent(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		site := newSite(t)
		x := &command.Exchange{Request: command.Request{Mission: &telemetry.Mission{ID: "h1", Action: telemetry.ActionHold}},
			Topics: topics}
		if err := x.Initialize(); err != nil {
			t.Fatal(err)
		}
		d := command.NewDesk(site.brokerOf("ground"), x.Filters(), slog.New(slog.DiscardHandler))
		if err := d.Client.Initialize(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer d.Client.Close()
		site.stopBroker()
		for d.Client.Connected() {
			time.Sleep(time.Millisecond)
		}
		d.HandleMessage(telemetry.Message{Topic: topics.Online(), Payload: []byte("false")}) // the leader's will
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := d.Send(ctx, x); !errors.Is(err, command.ErrNotSent) {
			t.Error(err)
		}
	})
}

// Answers of another implementation of the leader, and the output for the crew.
func TestAnswers(t *testing.T) {
	status, err := telemetry.Encode(exampleStatus(17))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		ack, stdout, stderr string
		code                int
	}{
		"null for absent fields": {`{"id":"b1","of":"OF","accepted":true,"effective_slot":3,"saturated":null,"floor_j":null,` +
			`"reason":null,"more":1}`,
			"budget of 42 kJ (target) accepted from slot 3\n", "", 0},
		"it applied another budget": {`{"id":"b1","of":"OF","accepted":true,"effective_slot":3,"energy_j":41999,"mode":"ceiling"}`,
			"budget of 42 kJ (ceiling) accepted from slot 3\n", "", 0},
		"escape sequences": {`{"id":"b1","of":"OF","accepted":false,"reason":"\u001b[2Jno"}`, "", "refused: ?[2Jno", 3},
	} {
		t.Run(name, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				site := newSite(t)
				l := &telemetry.Client{Broker: site.brokerOf("leader"), Name: "other", Log: slog.New(slog.DiscardHandler)}
				l.Subscriptions = []telemetry.Subscription{{Filter: topics.AllCommands(), QoS: 1}}
				l.Handle = func(m telemetry.Message) {
					ack := strings.Replace(c.ack, "OF", telemetry.Digest(m.Payload), 1)
					l.Publish(telemetry.Publication{Topic: topics.Ack("b1"), QoS: 1, Payload: []byte(ack)})
				}
				l.OnConnect = func() {
					l.Publish(telemetry.Publication{Topic: topics.Online(), QoS: 1, Retained: true, Payload: telemetry.EncodeOnline(true)})
					l.Publish(telemetry.Publication{Topic: topics.Status(), Retained: true, Payload: status})
				}
				if err := l.Initialize(t.Context()); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(l.Close)
				code, stdout, stderr := site.run(t, "budget", "-energy", "42000", "-id", "b1", "-fleet", "f1", "-broker", site.url,
					"-timeout",
					"60s")
				if code != c.code || stdout != c.stdout || !strings.Contains(stderr, c.stderr) {
					t.Errorf("%d %q %q", code, stdout, stderr)
				}
			})
		})
	}
}

// A start is sent again, with a new id, while time cures what it is refused for.
func TestStartWaits(t *testing.T) {
	const early, unsafe = "cannot start: aircraft 2: was received for less than the 5 s that readiness takes; send it again",
		"cannot start: aircraft 1 has an unsafe failsafe: COM_OBL_RC_ACT is 0"
	status, err := telemetry.Encode(exampleStatus(17))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args     []string
		refusals []string
		code     int
		sent     int
		stdout   string
		stderr   string // its beginning
	}{
		"not ready twice": {nil, []string{early, strings.Replace(early, "5 s", "5.5 s", 1)}, 0, 3, "mission start accepted from slot 0\n",
			"waiting for autopilots (1 of 2 ready): aircraft 2: was received for less than the 5 s that readiness takes\n"},
		"once":          {[]string{"-wait", "0"}, []string{early, early}, 3, 1, "", "ground mission: mission start refused: " + early},
		"an id is once": {[]string{"-id", "m1"}, []string{early, early}, 3, 1, "", "ground mission: mission start refused: " + early},
		"it lasts":      {nil, []string{unsafe, unsafe}, 3, 1, "", "ground mission: mission start refused: " + unsafe},
	} {
		t.Run(name, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				site := newSite(t)
				l := &telemetry.Client{Broker: site.brokerOf("leader"), Name: "other", Log: slog.New(slog.DiscardHandler)}
				l.Subscriptions = []telemetry.Subscription{{Filter: topics.AllCommands(), QoS: 1}}
				ids := map[string]bool{} // of the client's goroutine, until it is closed
				l.Handle = func(m telemetry.Message) {
					id := telemetry.ClaimedID(m.Payload)
					ids[id] = true
					ack := telemetry.Ack{ID: id, Of: telemetry.Digest(m.Payload), Accepted: len(ids) > len(c.refusals),
						Action: telemetry.ActionStart}
					if ack.Accepted {
						ack.EffectiveSlot = new(0)
					} else {
						ack.Reason = c.refusals[len(ids)-1]
					}
					payload, err := telemetry.Encode(ack)
					if err != nil {
						t.Error(err)
					}
					l.Publish(telemetry.Publication{Topic: topics.Ack(id), QoS: 1, Payload: payload})
				}
				l.OnConnect = func() {
					l.Publish(telemetry.Publication{Topic: topics.Online(), QoS: 1, Retained: true, Payload: telemetry.EncodeOnline(true)})
					l.Publish(telemetry.Publication{Topic: topics.Status(), Retained: true, Payload: status})
				}
				if err := l.Initialize(t.Context()); err != nil {
					t.Fatal(err)
				}
				code, stdout, stderr := site.run(t, append([]string{"mission", "start", "-fleet", "f1", "-broker", site.url, "-timeout",
					"60s"},
					c.args...)...)
				l.Close()
				if code != c.code || stdout != c.stdout || !strings.HasPrefix(stderr, c.stderr) || strings.Count(stderr, "\n") != 1 ||
					len(ids) != c.sent {
					t.Errorf("%d %q %q, %d ids", code, stdout, stderr, len(ids))
				}
			})
		})
	}
}

// The broker and the configuration of the folder are found without flags.
func TestFindsBroker(t *testing.T) {
	t.Chdir(t.TempDir())
	simnet.Bubble(t, func(t *testing.T) {
		site := newSite(t)
		l := startFakeLeader(t, site, nil)
		l.publishStatus(t, exampleStatus(17))
		send := func() (code int, stderr string) {
			code, _, stderr = site.run(t, "mission", "hold", "-timeout", "60s")
			return code, stderr
		}
		if err := os.WriteFile("ground.yaml", []byte("fleet: f1\nbroker: {url: "+site.url+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, stderr := send(); code != 0 {
			t.Errorf("ground.yaml: %d %q", code, stderr)
		}
		if err := os.WriteFile("ground.yaml", []byte("fleet: f1\nbroker: {url: tcp://127.0.0.1:1}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("GROUND_BROKER", site.url)
		if code, stderr := send(); code != 0 {
			t.Errorf("GROUND_BROKER: %d %q", code, stderr)
		}
	})
}

// Mistakes are found before anything is sent: the broker here does not exist,
// and asking it would end with 1.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cases := []struct {
		args []string
		want string
	}{
		{[]string{"budget"}, "ground budget: -energy TOTAL is missing, as in -energy 42kJ"},
		{[]string{"budget", "-energy", "42", "-replaces", "41kJ"},
			"ground budget: -energy 42 is too few joules to be meant as such; write 42J, 42kJ or 42Wh"},
		{[]string{"budget", "-energy", "42kJ", "-replaces", "41"}, "ground budget: -replaces 41 is too few joules"},
		{[]string{"budget", "-energy", "42000", "-replaces", "45000", "kJ"},
			`ground budget: which total has the unit "kJ"? write it without a space, as in -energy 42kJ -replaces 45kJ`},
		{[]string{"budget", "-energy", "42", "-replaces", "45000", "kJ"}, `ground budget: which total has the unit "kJ"?`},
		{[]string{"budget", "-energy", "42kJ", "-replaces", "45", "kJ"}, `ground budget: which total has the unit "kJ"?`},
		{[]string{"budget", "-replaces", "42kJ", "-energy", "11.7", "W"}, `ground budget: -energy "11.7 W" has no unit of energy`},
		{[]string{"budget", "-energy", "lots"}, `ground budget: -energy "lots" is no energy`},
		{[]string{"budget", "-energy", "-5kJ"}, `ground budget: -energy "-5kJ" is not above 0`},
		{[]string{"budget", "-energy", "1e10kJ"}, "ground budget: budget.energy_j: 1e+13 is outside (0, 1e12]"},
		{[]string{"budget", "-energy", "42", "hp"}, `ground budget: -energy "42 hp" has no unit of energy; want J, kJ, MJ, Wh or kWh`},
		{[]string{"budget", "-energy", "1kJ", "-mode", "limit"}, `ground budget: budget.mode: "limit", want one of target, ceiling`},
		{[]string{"budget", "-energy", "1kJ", "-id", "a b"}, `ground budget: budget.id: "a b", want 1 to 64 of A-Z a-z 0-9 . _ -`},
		{[]string{"budget", "42000"}, "ground budget: -energy TOTAL is missing"},
		{[]string{"budget", "-joules", "1"}, "ground budget: flag provided but not defined: -joules"},
		{[]string{"preference", "-setting", "1.5"}, "ground preference: preference.setting: 1.5 is outside [0, 1]"},
		{[]string{"preference"}, "ground preference: -setting wants a number from 0 to 1"},
		{[]string{"preference", "0.3"}, `ground preference: unexpected "0.3"; did you mean -setting 0.3?`},
		{[]string{"mission", "launch", "2"}, `ground mission: unexpected "2"; did you mean -aircraft 2?`},
		{[]string{"mission", "new", "m-2"}, `ground mission: unexpected "m-2"; did you mean -mission m-2?`},
		{[]string{"watch", "-timeout", "0"}, "ground watch: timeout: 0 s is outside (0, 3600]"},
		{[]string{"mission", "stop", "-timeout", "5000"}, "ground mission: timeout: 5000 s is outside (0, 3600]"},
		{[]string{"mission"}, "ground mission: want one of start, hold, resume, return, stop, launch, clear, new"},
		{[]string{"mission", "launch"}, "ground mission: mission.aircraft: missing"},
		{[]string{"mission", "stop", "-wait", "5s"}, "ground mission: -wait is for start and launch"},
		{[]string{"mission", "start", "-wait", "2h"}, "ground mission: -wait 2h0m0s is outside [0, 1h]"},
		{[]string{"mission", "launch", "-aircraft", "two"},
			`ground mission: -aircraft "two": want numbers with commas between them, as in 2,3`},
		{[]string{"mission", "launch", "-aircraft", ""}, `ground mission: -aircraft "": want numbers`},
		{[]string{"mission", "clear", "-aircraft", "2,2"}, "ground mission: mission.aircraft: a number twice"},
		{[]string{"mission", "clear", "-aircraft", "65"}, "ground mission: mission.aircraft: 65 is outside [1, 64]"},
		{[]string{"mission", "stop", "-aircraft", "2"}, "ground mission: mission.aircraft: only with resume, return, launch and clear"},
		{[]string{"mission", "start", "-mission", "m-2"}, "ground mission: mission.mission: only with new"},
		{[]string{"budget", "-energy", "1kJ", "-replaces", "0"}, `ground budget: -replaces "0" is not above 0`},
		{[]string{"watch", "-key", filepath.Join(dir, "none.key")}, "no such file"},
		{[]string{"watch", "-name", "a b"}, `ground watch: name of the station: "a b", want 1 to 64`},
		{[]string{"mission", "land"}, `ground mission: mission.action: "land", want one of start, hold, resume, return, stop, launch,` +
			` clear, new`},
		{[]string{"mission", "stop", "-fleet", "a/b"}, `ground mission: fleet "a/b": want 1 to 64 of A-Z a-z 0-9 . _ -`},
		{[]string{"mission", "stop", "-broker", "localhost"},
			`ground mission: broker url "localhost": want tcp://host:port or tls://host:port`},
		{[]string{"mission", "stop", "-timeout", "-1s"}, "ground mission: timeout: -1 s is outside (0, 3600]"},
		{[]string{"mission", "stop", "-key", filepath.Join(dir, "none.key")}, "no such file"},
		{[]string{"mission", "stop", "-config", filepath.Join(dir, "none.yaml")}, "no such file"},
		{[]string{"mission", "stop", "-config", file("typo.yaml", "fleeet: x\n")}, `unknown field "fleeet"`},
		{[]string{"watch", "-stale", "0s"}, "ground watch: stale: 0 s is outside (0, 3600]"},
		{[]string{"keygen"}, "ground keygen: -out NAME.key is missing"},
		{[]string{"keygen", "-out", filepath.Join(dir, "crew")}, "want NAME.key"},
		{[]string{"fly"}, `ground: no command "fly"; want one of budget, `},
		{[]string{"stop"}, `ground: no command "stop"; did you mean mission stop? (ground -h)`},
		{[]string{"clear"}, `did you mean mission clear?`},
		{[]string{"preference", "-setting", "1", "-key", file("tls.key", "-----BEGIN PRIVATE KEY-----\nAA\n-----END PRIVATE KEY-----\n")},
			"this is a TLS key"},
	}
	for _, c := range cases {
		code, stdout, stderr := runGround(t, c.args...)
		if code != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: %d %q %q, want %s", c.args, code, stdout, stderr, c.want)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"budget", "-h"}, {"preference", "-h"}, {"mission", "-h"}, {"watch", "-h"}, {"keygen", "-h"}} {
		code, stdout, stderr := runGround(t, args...)
		if code != 0 || stderr != "" || !strings.Contains(stdout, "ground") || len(args) > 1 && !strings.Contains(stdout, "-config file") {
			t.Errorf("%v: %d %q %q", args, code, stdout, stderr)
		}
	}
	if code, _, stderr := runGround(t); code != 2 || !strings.Contains(stderr, "ground budget") {
		t.Errorf("no arguments: %d %q", code, stderr)
	}
}

// The commented file in configs has the defaults, and every key.
func TestConfigFileIsTheDefaults(t *testing.T) {
	var got Config
	if err := configs.Load("../../configs/ground.yaml", &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, defaults()) {
		t.Errorf("got %+v\nwant %+v", got, defaults())
	}
}

// lineWriter is a writer whose lines a test awaits.
type lineWriter chan string

func (l lineWriter) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		l <- strings.TrimSuffix(line, "\n")
	}
	return len(p), nil
}

func awaitLine(t testing.TB, l lineWriter, want string) {
	t.Helper()
	timeout := time.After(testTimeout)
	var seen []string
	for {
		select {
		case line := <-l:
			if strings.Contains(line, want) {
				return
			}
			seen = append(seen, line)
		case <-timeout:
			t.Fatalf("no line with %q in\n%s", want, strings.Join(seen, "\n"))
		}
	}
}

func TestWatch(t *testing.T) {
	for _, mode := range []string{"plain", "json"} {
		t.Run(mode, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				site := newSite(t)
				l := startFakeLeader(t, site, nil)
				l.publishStatus(t, exampleStatus(16))
				out, errs := make(lineWriter, 1000), make(lineWriter, 1000)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan int, 1)
				// Stale would be an alarm too, and in place of the others' end.
				args := []string{"watch", "-fleet", "f1", "-broker", site.url, "-stale", "10m"}
				if mode == "json" {
					args = append(args, "-json")
				}
				go func() { ended <- site.ground().Run(ctx, args, out, errs) }()
				want := map[string][]string{
					"plain": {"slot 16/100 flying  budget 42.0 kJ (target)", "slot 17/100", "LINK LOST: the leader is offline", "LINK BACK",
						"LINK LOST: the broker is unreachable"},
					"json": {`"retained":true,"status":{"seq":16,"slot":16,`, `{"retained":false,"status":{"seq":17,"slot":17,`,
						`{"online":false}`, `{"online":true}`, `{"broker":false}`},
				}[mode]
				awaitLine(t, out, want[0])
				l.publishRetained(t, topics.Status(), []byte(`{"seq":1}`))
				awaitLine(t, errs, "input refused")
				l.publishStatus(t, exampleStatus(17))
				awaitLine(t, out, want[1])
				l.publishRetained(t, topics.Online(), []byte("false"))
				awaitLine(t, out, want[2])
				l.publishRetained(t, topics.Online(), []byte("true"))
				awaitLine(t, out, want[3])
				site.stopBroker()
				awaitLine(t, out, want[4])
				cancel()
				select {
				case code := <-ended:
					if code != 0 {
						t.Errorf("ended with %d", code)
					}
				case <-time.After(testTimeout):
					t.Error("watch did not end")
				}
			})
		})
	}
}

func exampleStatus(slot int) telemetry.Status {
	budget, mode, remaining, end := 42000.0, telemetry.ModeTarget, 34899.5, 41990.0
	speed, battery, age, landed := 8.4, 0.93, 0.1, false
	return telemetry.Status{Seq: int64(slot), Slot: slot, Slots: 100, MissionS: float64(slot), State: telemetry.StateFlying, Setting: 0.4,
		Challenge: strings.Repeat("c", 22),
		BudgetJ:   &budget, Mode: &mode, SpentJ: 7100.5, RemainingJ: &remaining, PredictedEndJ: &end, FloorJ: 29000,
		UsersHeard: 6, DecisionMS: 0.7, EnergySource: telemetry.SourceModel,
		Aircraft: []telemetry.StatusAircraft{
			{Number: 1, SystemID: 1, PositionM: &[3]float64{410, 388, 100}, SpeedMPS: &speed, Mode: "OFFBOARD", Landed: &landed,
				Battery: &battery, EnergySource: telemetry.SourceEnergyConsumed, SpentJ: 3550, AgeS: &age},
			{Number: 2, SystemID: 2, EnergySource: telemetry.SourceModel},
		}}
}

func TestDisplay(t *testing.T) {
	now := time.Unix(1000, 0)
	yes, no := true, false
	fresh := func(change func(v *view)) *view {
		s := exampleStatus(17)
		v := &view{Link: command.Link{Online: &yes, Status: &s, Received: now.Add(-time.Second), StaleAfter: 3 * time.Second}, fleet: "f1",
			colour: true}
		v.SetBroker(true, now.Add(-time.Minute))
		change(v)
		return v
	}
	grey := "\x1b[90m"
	cases := []struct {
		name        string
		view        *view
		first       string
		greyFlight  bool // the status lines and aircraft 1
		wantSomehow string
	}{
		{"all well", fresh(func(v *view) {}), "fleet f1   flying   slot 17 of 100", false, "last message 1.1 s ago"},
		{"no message yet is grey", fresh(func(v *view) {}), "fleet f1", false,
			grey + "  aircraft 2 (system 2)   -   -   -   battery -   spent 0.0 kJ in slots   from model   NO MESSAGE YET"},
		{"dangers, as the leader orders them", fresh(func(v *view) {
			v.Status.Dangers = []telemetry.Danger{{Gravity: 9, Aircraft: 2, Text: "its failsafe: \x1b[2Jis active", Do: "return"},
				{Gravity: 4, Text: "too dear"}}
		}), "\x1b[31;1maircraft 2: its failsafe: ?[2Jis active: return\x1b[0m\n\x1b[33;1mtoo dear\x1b[0m\nfleet f1", false, ""},
		{"a pack, no duty", fresh(func(v *view) {
			a := &v.Status.Aircraft[0]
			a.UsableJ, a.ReserveJ, a.HomeJ, a.LeftAtTouchdownJ = new(148.6e3), new(30e3), new(0.0), new(75e3)
		}), "fleet f1", false, "from energy_consumed   pack 148.6 kJ to a reserve of 30.0 kJ, way home 0.0 kJ, lands with 75.0 kJ"},
		{"joules of the slots", fresh(func(v *view) { v.Status.TransitJ = 13.6e3 }), "fleet f1", false,
			"  energy     in slots: spent 7.1 kJ   remaining 34.9 kJ   predicted end 42.0 kJ   floor 29.0 kJ   " +
				"transit (outside slots) 13.6 kJ   from model\n"},
		{"joules to touchdown", fresh(func(v *view) { v.Status.Scope, v.Status.TransitJ = telemetry.ScopeLanded, 4e3 }), "fleet f1", false,
			"  energy     to touchdown: spent 7.1 kJ   remaining 34.9 kJ   predicted end 42.0 kJ   " +
				"floor 29.0 kJ   transit (included) 4.0 kJ"},
		{"an aircraft's, to touchdown", fresh(func(v *view) { v.Status.Scope = telemetry.ScopeLanded }), "fleet f1", false,
			"spent 3.5 kJ to touchdown   from energy_consumed"},
		{"not covered", fresh(func(v *view) { v.Status.CoveredUntilSlot = new(-1) }), "fleet f1   flying   slot 17 of 100", false,
			"NOT COVERED: too few in the air"},
		{"covered to the last slot", fresh(func(v *view) { v.Status.Slot, v.Status.CoveredUntilSlot = 99, new(99) }),
			"fleet f1   flying   slot 99 of 100", false, "covered until slot 99"},
		{"link lost above saturated", fresh(func(v *view) {
			v.Status.Dangers, v.Online = []telemetry.Danger{{Gravity: 9, Text: "SATURATED"}}, &no
		}),
			"\x1b[31;1mLINK LOST: the leader is offline", true, "STALE: status 1.0 s old"},
		{"broker unreachable above all", fresh(func(v *view) { v.SetBroker(false, now) }), "\x1b[31;1mLINK LOST: the broker is unreachable",
			true, "STALE"},
		{"no status", fresh(func(v *view) { v.Received = now.Add(-4 * time.Second) }), "\x1b[31;1mLINK LOST: no status for 4.0 s", true,
			"LINK LOST, last message 4.1 s ago"},
		{"retained", fresh(func(v *view) { v.Retained = true }), grey + "fleet f1", true, "STALE: retained by the broker, age unknown"},
		{"no status in a minute, on the ground", fresh(func(v *view) {
			v.Status.State = telemetry.StateDone
			v.Received = now.Add(-time.Minute)
		}), "\x1b[31;1mLINK LOST: no status for 60 s", true,
			grey + "fleet f1   done   slot 17 of 100   mission 17 s   STALE: status 60 s old"},
		{"between two statuses on the ground", fresh(func(v *view) {
			v.Status.State, v.Status.Aircraft, v.Received = telemetry.StateIdle, nil, now.Add(-7*time.Second)
		}), "fleet f1   idle", false, "status 7.0 s old"},
		{"preference", fresh(func(v *view) { v.Status.BudgetJ, v.Status.Mode, v.Status.RemainingJ = nil, nil, nil }), "fleet f1", false,
			"request    preference   setting 0.400"},
		{"no leader yet", fresh(func(v *view) { v.Status, v.Online = nil, nil }), "\x1b[31;1mNO LEADER was ever at this broker", false,
			"no status yet"},
		{"just connected", fresh(func(v *view) { v.Status, v.Online = nil, nil; v.SetBroker(true, now) }), "fleet f1   no status yet",
			false, ""},
		{"escape sequences", fresh(func(v *view) { v.Status.Aircraft[0].Mode = "\x1b[2J" }), "fleet f1", false, "?[2J"},
		{"no heartbeats", fresh(func(v *view) {}), "fleet f1", false,
			"\n  crew       no heartbeats sent   the leader receives no heartbeats\n"},
		{"heartbeats and the last command", fresh(func(v *view) {
			v.station, v.Status.CrewAgeS = "crew-2", new(0.2)
			v.Status.LastCommand = &telemetry.LastCommand{ID: "b1", Key: "crew-1", Slot: 12, What: "budget 42000 J"}
		}), "fleet f1", false, "\n  crew       heartbeats as crew-2   last one received by the leader 1.2 s ago   last command: budget " +
			"42000 J, from slot 12, 6 s ago, by crew-1, b1\n"},
		{"time left", fresh(func(v *view) {}), "fleet f1   flying   slot 17 of 100   mission 17 s, 82 s left   status", false, ""},
		{"a command, once slots have ended", fresh(func(v *view) {
			v.Status.State, v.Status.LastCommand = telemetry.StateReturning, &telemetry.LastCommand{ID: "r1", Slot: 12, What: "return"}
		}), "fleet f1   returning   slot 17 of 100   mission 17 s   status", false, "last command: return, from slot 12, unsigned, r1\n"},
		{"an unsigned command", fresh(func(v *view) {
			v.Status.LastCommand = &telemetry.LastCommand{ID: "b1", Slot: 18, What: "budget 42000 J"}
		}), "fleet f1", false, "no heartbeats sent   the leader receives no heartbeats   last command: budget 42000 J, from slot 18, " +
			"unsigned, b1\n"},
	}
	for _, c := range cases {
		got := c.view.render(now, 0, 0)
		text := strings.Join(got, "\n")
		if !strings.HasPrefix(text, c.first) || !strings.Contains(text, c.wantSomehow) {
			t.Errorf("%s: %q", c.name, text)
		}
		if c.view.Status == nil {
			continue
		}
		for _, line := range got {
			if strings.Contains(line, "spent 7100") && strings.HasPrefix(line, grey) != c.greyFlight {
				t.Errorf("%s: %q", c.name, line)
			}
		}
	}
}

// Into a pipe each slot is a line, with what its joules count. Why the fleet holds, and what each
// aircraft does, is a line when it changes.
func TestLines(t *testing.T) {
	now := time.Unix(1000, 0)
	online, s := true, exampleStatus(17)
	s.Aircraft[1].Landed, s.Aircraft[1].Mode, s.Aircraft[1].AgeS = new(true), "AUTO.LOITER", new(0.1)
	v := &view{Link: command.Link{Broker: true, Online: &online, Status: &s, Received: now, StaleAfter: 3 * time.Second}, fleet: "f1"}
	var out bytes.Buffer
	show := printLines(&out)
	next := func(change func()) (lines []string) {
		t.Helper()
		out.Reset()
		change()
		show(v, &event{message: &telemetry.Message{Topic: topics.Status()}}, true, now)
		lines = strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if !strings.HasPrefix(lines[0], fmt.Sprintf("slot %d/100 ", s.Slot)) || !strings.Contains(lines[0], "in slots: spent 7.1 kJ") {
			t.Errorf("first line %q", lines[0])
		}
		s.Slot++
		return lines[1:]
	}
	for _, c := range []struct {
		change func()
		want   []string
	}{
		{func() {}, []string{"aircraft 1: OFFBOARD, in the air", "aircraft 2: AUTO.LOITER, landed"}},
		{func() {}, nil},
		{func() {
			s.Aircraft[0].Mode, s.Aircraft[0].Reason = "POSCTL", "left OFFBOARD for POSCTL while \x1bflying"
		}, []string{"aircraft 1: POSCTL, in the air: left OFFBOARD for POSCTL while ?flying"}},
		{func() { s.State, s.CrewAgeS, s.Aircraft[1].Duty = telemetry.StateFlying, new(0.1), telemetry.DutyHome },
			[]string{"aircraft 2: AUTO.LOITER, landed, home"}},
		{func() { s.Aircraft[1].Duty = telemetry.DutyLeaving }, []string{"aircraft 2: AUTO.LOITER, landed"}},
	} {
		if got := next(c.change); strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("slot %d: %q, want %q", s.Slot-1, got, c.want)
		}
	}
}

// What a target cannot be spent on is said.
func TestSettingOfATargetOutOfReach(t *testing.T) {
	for endJ, want := range map[float64]string{44e3: "setting 0.000: even least delay takes only 44.0 kJ", 59.8e3: "setting 0.000"} {
		s := &telemetry.Status{BudgetJ: new(60e3), PredictedEndJ: &endJ, Mode: new(telemetry.ModeTarget)}
		if got := settingText(s); got != want {
			t.Errorf("%v J: %q, want %q", endJ, got, want)
		}
	}
}

// A status that comes again, as from a bridge that connects anew, is no newer for that.
func TestRepeatedStatus(t *testing.T) {
	payload, err := telemetry.Encode(exampleStatus(17))
	if err != nil {
		t.Fatal(err)
	}
	online := true
	v := &view{Link: command.Link{Broker: true, Online: &online, StaleAfter: 3 * time.Second}}
	receive := func(atS int64, retained bool, payload []byte) bool {
		return v.handleEvent(event{message: &telemetry.Message{Topic: topics.Status(), Payload: payload, Retained: retained,
			Received: time.Unix(atS, 0)}}, topics, nil)
	}
	if !receive(100, false, payload) || receive(103, false, bytes.Clone(payload)) || receive(104, true, bytes.Clone(payload)) {
		t.Error("a status again counts as another, or the first one does not")
	}
	if text := v.render(time.Unix(104, 0), 0, 0)[0]; text != "LINK LOST: no status for 4.0 s" {
		t.Errorf("first %q", text)
	}
	next, _ := telemetry.Encode(exampleStatus(18))
	if !receive(105, false, next) || v.alarm(time.Unix(106, 0)) != "" {
		t.Errorf("the next one: %s", v.alarm(time.Unix(106, 0)))
	}
}

// A frame begins at the terminal's home position and clears the frame before.
func TestScreen(t *testing.T) {
	var out bytes.Buffer
	draw, end := redraw(&out, func() (int, int) { return 80, 24 })
	v := &view{Link: command.Link{StaleAfter: time.Second}, fleet: "f1"}
	v.SetBroker(true, time.Unix(0, 0))
	draw(v, nil, false, time.Unix(0, 0))
	end()
	if want := fmt.Sprintf("\x1b[?25l\x1b[H%s\x1b[K\r\n\x1b[J\x1b[?25h", "fleet f1   no status yet"); out.String() != want {
		t.Errorf("got %q", out.String())
	}
}

// The display fits every width from 40 columns on and every height: no line is longer,
// nothing that it says is missing, and alarms come first.
func TestDisplayFits(t *testing.T) {
	now := time.Unix(1000, 0)
	online, s := true, exampleStatus(17)
	s.State, s.SpentJ, s.Aircraft[0].Mode = telemetry.StateStopped, 123456789, "AUTO.LOITER"
	s.Dangers = []telemetry.Danger{{Gravity: 9, Aircraft: 1, Text: "is LEFT IN THE AIR", Do: "return"},
		{Text: strings.Repeat("x", 130) + " end of it"}}
	s.Aircraft[1].Reason = "left OFFBOARD for POSCTL while flying: " + strings.Repeat("x", 130) + " end of it"
	s.LastCommand = &telemetry.LastCommand{ID: strings.Repeat("i", 64), Key: strings.Repeat("k", 64), Slot: 12,
		What: "budget 42000 J, target"}
	v := &view{Link: command.Link{Broker: true, Online: &online, Status: &s, Received: now.Add(-time.Second), StaleAfter: 3 * time.Second},
		fleet: strings.Repeat("f", 64), refusedMessages: 3}
	letters := func(lines []string) string { return strings.Join(strings.Fields(strings.Join(lines, "")), "") }
	for columns := 40; columns <= 250; columns++ {
		v.station = strings.Repeat("s", min(max(columns-18, 1), 64)) // as long as a line, but for the label before it
		whole := letters(v.render(now, 0, 0))
		lines := v.render(now, columns, 0)
		for _, line := range lines {
			if len(line) > columns {
				t.Fatalf("%d columns: %q has %d", columns, line, len(line))
			}
		}
		if got := letters(lines); got != whole {
			t.Fatalf("%d columns: %s\nwant %s", columns, got, whole)
		}
		if !strings.HasPrefix(lines[0], "aircraft 1: is LEFT IN THE AIR") {
			t.Errorf("%d columns: first %q", columns, lines[0])
		}
		for _, rows := range []int{2, 10, 24, 60} {
			if got := v.render(now, columns, rows); len(got) >= rows || len(lines) >= rows && !strings.HasSuffix(got[len(got)-1],
				"more lines") {
				t.Fatalf("%d columns, %d rows: %d lines, the last %q", columns, rows, len(got), got[len(got)-1])
			}
		}
	}
	v.colour = true
	for _, line := range v.render(now, 40, 0) {
		if plain := regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(line, ""); len(plain) > 40 || strings.Count(line, "\x1b") == 1 {
			t.Errorf("%q", line)
		}
	}
}

var record = flag.Bool("record", false, "write testdata/watch.txt anew")

// What watch shows on a narrow, a standard and a wide terminal, to look at: testdata/watch.txt. Each
// display is whole on a terminal of 24 rows, and on a narrow one begins with what matters first.
func TestDisplayAtWidths(t *testing.T) {
	now := time.Unix(1000, 0)
	online := true
	displays := []struct {
		name   string
		change func(s *telemetry.Status)
	}{
		{"in flight", func(s *telemetry.Status) {}},
		{"a pilot has one, and a pack runs low", func(s *telemetry.Status) {
			s.Aircraft[0].Reason, s.Aircraft[0].Mode, s.Saturated = "left OFFBOARD for POSCTL while flying", "POSCTL", true
			s.CoveredUntilSlot = new(57)
			s.Dangers = []telemetry.Danger{
				{Gravity: 6, Aircraft: 1, Text: "left OFFBOARD for POSCTL while flying, with its pilot", Do: "resume aircraft 1"},
				{Gravity: 5, Text: "SATURATED: the packs do not last to the last slot", Do: "ask for a larger budget"}}
		}},
		{"after a stop", func(s *telemetry.Status) {
			s.State, s.Aircraft[0].Mode = telemetry.StateStopped, "AUTO.LOITER"
			s.Dangers = []telemetry.Danger{
				{Gravity: 7, Aircraft: 1, Text: "is LEFT IN THE AIR, in its autopilot's AUTO.LOITER", Do: "return"}}
		}},
	}
	var got strings.Builder
	for _, columns := range []int{40, 80, 140} {
		for _, d := range displays {
			s := exampleStatus(17)
			second := s.Aircraft[0]
			second.Number, second.SystemID, second.PositionM, second.AgeS = 2, 2, &[3]float64{705, 512, 100}, new(0.3)
			s.Aircraft[1], s.CrewAgeS = second, new(0.4)
			s.LastCommand = &telemetry.LastCommand{ID: "b-7dmt2g4izek4", Key: "hut", Slot: 12, What: "budget 42 kJ, target"}
			d.change(&s)
			link := command.Link{Broker: true, Online: &online, Status: &s, Received: now.Add(-100 * time.Millisecond),
				StaleAfter: 3 * time.Second}
			v := &view{Link: link, fleet: "demo", station: "ground-k3x9"}
			lines := v.render(now, columns, 0)
			fmt.Fprintf(&got, "%d columns, %s\n%s\n%s\n\n", columns, d.name, strings.Repeat("-", columns), strings.Join(lines, "\n"))
			for _, want := range []string{"east", "north", "up", "predicted end", "floor"} {
				if !strings.Contains(strings.Join(lines, " "), want) {
					t.Errorf("%d columns, %s: no %q", columns, d.name, want)
				}
			}
			if most := map[int]int{40: 36, 80: 24, 140: 24}[columns]; len(lines) > most-1 {
				t.Errorf("%d columns, %s: %d lines, want %d rows to hold them", columns, d.name, len(lines), most)
			}
		}
	}
	if *record {
		if err := os.WriteFile("testdata/watch.txt", []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/watch.txt")
	if err != nil || got.String() != string(want) {
		t.Errorf("%v; watch shows\n%s\nand testdata/watch.txt has something else: -record writes it anew", err, got.String())
	}
}
