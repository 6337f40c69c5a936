package main

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"testing"
	"time"

	"prefdt/telemetry"
)

// listenHeartbeats hears what stations say of themselves.
func listenHeartbeats(t *testing.T, url string) <-chan telemetry.Message {
	t.Helper()
	heard := make(chan telemetry.Message, 1000)
	c := &telemetry.Client{Broker: telemetry.Broker{URL: url}, Name: "listener", Log: slog.New(slog.DiscardHandler),
		Subscriptions: []telemetry.Subscription{{Filter: topics.AllHeartbeats()}}, Handle: func(m telemetry.Message) { heard <- m }}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := c.Initialize(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return heard
}

// startWatch runs ground watch until end, which returns its exit status.
func startWatch(t *testing.T, url string, args ...string) (out lineWriter, end func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out = make(lineWriter, 1000)
	ended := make(chan int, 1)
	go func() {
		ended <- program.Run(ctx, append([]string{"watch", "-fleet", "f1", "-broker", url}, args...), out, out)
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
func nextHeartbeat(t *testing.T, heard <-chan telemetry.Message, keys map[string]ed25519.PublicKey) (h telemetry.Heartbeat, station string, e telemetry.Envelope) {
	t.Helper()
	select {
	case m := <-heard:
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

// A station that watches says so from the start on, in order, under its name,
// signed where it has a key, and says at its end that it leaves.
func TestWatchSendsHeartbeats(t *testing.T) {
	for _, mode := range []string{"signed", "unsigned", "named"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			url, _ := startBroker(t)
			path, keys := newCrewKey(t)
			heard := listenHeartbeats(t, url)
			l := startFakeLeader(t, url, nil)
			args, want := []string{"-name", "tent"}, "tent"
			switch mode {
			case "signed":
				args, want = []string{"-key", path}, "crew-1"
			case "unsigned":
				args, want, keys = nil, "", nil
			case "named":
				keys = nil
			}
			_, end := startWatch(t, url, args...)
			s := exampleStatus(3)
			if mode == "signed" {
				select {
				case m := <-heard:
					t.Errorf("a heartbeat before there was a challenge: %s", m.Payload)
				case <-time.After(10 * time.Millisecond):
				}
			}
			l.publishStatus(t, s)
			counter := uint64(0)
			for i := range int64(3) {
				h, station, e := nextHeartbeat(t, heard, keys)
				if want == "" {
					want = station
				}
				if h != (telemetry.Heartbeat{Seq: i + 1}) || station != want || keys != nil && (e.Counter <= counter || e.Challenge != s.Challenge) {
					t.Errorf("heartbeat %+v of %s, %+v", h, station, e)
				}
				counter = e.Counter
			}
			s.Challenge = telemetry.NewChallenge() // the leader's next one
			l.publishStatus(t, s)
			for {
				if h, _, e := nextHeartbeat(t, heard, keys); keys == nil || e.Challenge == s.Challenge {
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
				h, station, e := nextHeartbeat(t, heard, keys)
				if h.Leaving && station == want && (keys == nil || e.Challenge == s.Challenge) {
					break
				}
			}
			if len(heard) > 0 {
				t.Error("a heartbeat after the one that leaves")
			}
		})
	}
}

// Two stations without a name do not speak for each other, and a silent one does
// not speak.
func TestStationsAreApart(t *testing.T) {
	url, _ := startBroker(t)
	heard := listenHeartbeats(t, url)
	l := startFakeLeader(t, url, nil)
	l.publishStatus(t, exampleStatus(3))
	silent, endSilent := startWatch(t, url, "-silent", "-name", "quiet")
	awaitLine(t, silent, "slot 3/100")
	_, endA := startWatch(t, url)
	_, a, _ := nextHeartbeat(t, heard, nil)
	_, endB := startWatch(t, url)
	b := a
	for b == a {
		_, b, _ = nextHeartbeat(t, heard, nil)
	}
	for _, end := range []func() int{endSilent, endA, endB} {
		if code := end(); code != 0 {
			t.Errorf("ended with %d", code)
		}
	}
	for len(heard) > 0 {
		if _, station, _ := nextHeartbeat(t, heard, nil); station == "quiet" {
			t.Error("a silent station spoke")
		}
	}
}

// Heartbeats do not wait for a display that does: a terminal that was stopped
// must not land the fleet.
func TestHeartbeatsDoNotWaitForTheDisplay(t *testing.T) {
	url, _ := startBroker(t)
	path, keys := newCrewKey(t)
	heard := listenHeartbeats(t, url)
	l := startFakeLeader(t, url, nil)
	ctx, cancel := context.WithCancel(t.Context())
	held := make(blockedWriter)
	ended := make(chan int, 1)
	go func() {
		ended <- program.Run(ctx, []string{"watch", "-fleet", "f1", "-broker", url, "-key", path}, held, held)
	}()
	s := exampleStatus(3)
	for range 300 { // more than once stood between the broker and the display
		s.Seq++
		s.Challenge = telemetry.NewChallenge()
		l.publishStatus(t, s)
	}
	for {
		if _, _, e := nextHeartbeat(t, heard, keys); e.Challenge == s.Challenge {
			break
		}
	}
	cancel()
	for {
		if h, _, _ := nextHeartbeat(t, heard, keys); h.Leaving {
			break
		}
	}
	close(held)
	if code := <-ended; code != 0 {
		t.Errorf("ended with %d", code)
	}
}

// blockedWriter is a terminal that takes nothing until it is closed.
type blockedWriter chan bool

func (s blockedWriter) Write(p []byte) (int, error) {
	<-s
	return len(p), nil
}
