package main

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"testing"
	"time"

	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// listenHeartbeats receives the heartbeats of all stations.
func listenHeartbeats(t *testing.T, site *testSite) <-chan telemetry.Message {
	t.Helper()
	heartbeats := make(chan telemetry.Message, 1000)
	c := &telemetry.Client{Broker: site.brokerOf("listener"), Name: "listener", Log: slog.New(slog.DiscardHandler),
		Subscriptions: []telemetry.Subscription{{Filter: topics.AllHeartbeats()}}, Handle: func(m telemetry.Message) { heartbeats <- m }}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := c.Initialize(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return heartbeats
}

// startWatch runs ground watch until end, which returns its exit status.
func startWatch(t *testing.T, site *testSite, args ...string) (out lineWriter, end func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out = make(lineWriter, 1000)
	ended := make(chan int, 1)
	go func() {
		ended <- site.ground().Run(ctx, append([]string{"watch", "-fleet", "f1", "-broker", site.url}, args...), out, out)
	}()
	return out, func() int {
		cancel()
		select {
		case code := <-ended:
			return code
		case <-time.After(testTimeout):
			t.Fatal("watch did not end")
			return -1
		}
	}
}

// nextHeartbeat reads the next one, verified where keys are given.
func nextHeartbeat(t *testing.T, heartbeats <-chan telemetry.Message, keys map[string]ed25519.PublicKey) (h telemetry.Heartbeat,
	station string, e telemetry.Envelope) {
	t.Helper()
	select {
	case m := <-heartbeats:
		_, station, _ = topics.Parse(m.Topic)
		body := m.Payload
		if keys != nil {
			var err error
			if e, err = telemetry.Verify(m.Topic, body, keys); err != nil {
				t.Fatal(err)
			}
			body = []byte(e.Body)
		}
		h, err := telemetry.DecodeHeartbeat(body)
		if err != nil {
			t.Fatal(err)
		}
		return h, station, e
	case <-time.After(testTimeout):
		t.Fatal("no heartbeat")
	}
	return h, station, e
}

// A station that watches sends heartbeats from its start, in order, under its name,
// signed if it has a key, and at its end one that says that it leaves.
func TestWatchSendsHeartbeats(t *testing.T) {
	for _, mode := range []string{"signed", "unsigned", "named"} {
		t.Run(mode, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				site := newSite(t)
				path, keys := newCrewKey(t)
				heartbeats := listenHeartbeats(t, site)
				l := startFakeLeader(t, site, nil)
				args, want := []string{"-name", "tent"}, "tent"
				switch mode {
				case "signed":
					args, want = []string{"-key", path}, "crew-1"
				case "unsigned":
					args, want, keys = nil, "", nil
				case "named":
					keys = nil
				}
				_, end := startWatch(t, site, args...)
				s := exampleStatus(3)
				if mode == "signed" {
					select {
					case m := <-heartbeats:
						t.Errorf("a heartbeat before there was a challenge: %s", m.Payload)
					case <-time.After(10 * time.Second):
					}
				}
				stop := l.fly(t, s)
				counter := uint64(0)
				for i := range int64(3) {
					h, station, e := nextHeartbeat(t, heartbeats, keys)
					if want == "" {
						want = station
					}
					if h != (telemetry.Heartbeat{Seq: i + 1}) || station != want ||
						keys != nil && (e.Counter <= counter || e.Challenge != s.Challenge) {
						t.Errorf("heartbeat %+v of %s, %+v", h, station, e)
					}
					counter = e.Counter
				}
				stop()
				s.Seq, s.Challenge = s.Seq+1e6, telemetry.NewChallenge() // the leader's next one
				l.fly(t, s)
				for {
					if h, _, e := nextHeartbeat(t, heartbeats, keys); keys == nil || e.Challenge == s.Challenge {
						if h.Leaving {
							t.Error("leaving, and watching still")
						}
						break
					}
				}
				if code := end(); code != 0 {
					t.Errorf("ended with %d", code)
				}
				for {
					h, station, e := nextHeartbeat(t, heartbeats, keys)
					if h.Leaving && station == want && (keys == nil || e.Challenge == s.Challenge) {
						break
					}
				}
				if len(heartbeats) > 0 {
					t.Error("a heartbeat after the one that leaves")
				}
			})
		})
	}
}

// A station that does not see the fleet does not watch it: its heartbeats end with the statuses, and
// come again with them. It withdraws all the same when it is ended.
func TestHeartbeatsOfTheBlind(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		site := newSite(t)
		heartbeats := listenHeartbeats(t, site)
		l := startFakeLeader(t, site, nil)
		s := exampleStatus(3)
		stop := l.fly(t, s)
		out, end := startWatch(t, site, "-stale", "1")
		nextHeartbeat(t, heartbeats, nil)
		stop()
		awaitLine(t, out, "LINK LOST: no status for")
		for len(heartbeats) > 0 {
			<-heartbeats
		}
		select { // three of its intervals
		case m := <-heartbeats:
			t.Errorf("blind, and a heartbeat: %s", m.Payload)
		case <-time.After(3500 * time.Millisecond):
		}
		s.Seq += 1e6
		l.fly(t, s)
		nextHeartbeat(t, heartbeats, nil)
		if code := end(); code != 0 {
			t.Errorf("ended with %d", code)
		}
		for leaving := false; !leaving; {
			h, _, _ := nextHeartbeat(t, heartbeats, nil)
			leaving = h.Leaving
		}
	})
}

// Two stations without a name have different ones, and a silent one sends no heartbeat.
func TestStationsAreApart(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		site := newSite(t)
		heartbeats := listenHeartbeats(t, site)
		l := startFakeLeader(t, site, nil)
		l.fly(t, exampleStatus(3))
		silent, endSilent := startWatch(t, site, "-silent", "-name", "quiet")
		awaitLine(t, silent, "slot 3/100")
		_, endA := startWatch(t, site)
		_, a, _ := nextHeartbeat(t, heartbeats, nil)
		_, endB := startWatch(t, site)
		b := a
		for b == a {
			_, b, _ = nextHeartbeat(t, heartbeats, nil)
		}
		for _, end := range []func() int{endSilent, endA, endB} {
			if code := end(); code != 0 {
				t.Errorf("ended with %d", code)
			}
		}
		for len(heartbeats) > 0 {
			if _, station, _ := nextHeartbeat(t, heartbeats, nil); station == "quiet" {
				t.Error("a silent station spoke")
			}
		}
	})
}

// Heartbeats do not wait for a display that does: a terminal that was stopped
// must not land the fleet.
func TestHeartbeatsDoNotWaitForTheDisplay(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		site := newSite(t)
		path, keys := newCrewKey(t)
		heartbeats := listenHeartbeats(t, site)
		l := startFakeLeader(t, site, nil)
		ctx, cancel := context.WithCancel(t.Context())
		held := make(blockedWriter)
		ended := make(chan int, 1)
		go func() {
			ended <- site.ground().Run(ctx, []string{"watch", "-fleet", "f1", "-broker", site.url, "-key", path}, held, held)
		}()
		s := exampleStatus(3)
		for range 300 { // more than once stood between the broker and the display
			s.Seq++
			s.Challenge = telemetry.NewChallenge()
			l.publishStatus(t, s)
		}
		for {
			if _, _, e := nextHeartbeat(t, heartbeats, keys); e.Challenge == s.Challenge {
				break
			}
		}
		cancel()
		for {
			if h, _, _ := nextHeartbeat(t, heartbeats, keys); h.Leaving {
				break
			}
		}
		close(held)
		if code := <-ended; code != 0 {
			t.Errorf("ended with %d", code)
		}
	})
}

// blockedWriter is a terminal that takes nothing until it is closed.
type blockedWriter chan bool

func (s blockedWriter) Write(p []byte) (int, error) {
	<-s
	return len(p), nil
}
