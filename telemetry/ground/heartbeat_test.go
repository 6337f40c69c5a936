package main

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"testing"
	"time"

	"prefdt/telemetry"
)

// crewListener hears what stations say of themselves.
func crewListener(t *testing.T, url string) <-chan telemetry.Message {
	t.Helper()
	heard := make(chan telemetry.Message, 1000)
	c := &telemetry.Client{Broker: telemetry.Broker{URL: url}, Name: "listener", Log: slog.New(slog.DiscardHandler),
		Subscriptions: []telemetry.Subscription{{Filter: topics.AllHeartbeats()}}, Handle: func(m telemetry.Message) { heard <- m }}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.Initialize(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return heard
}

// watching runs ground watch until end, which returns its exit status.
func watching(t *testing.T, url string, args ...string) (out lines, end func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out = make(lines, 1000)
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"watch", "-fleet", "f1", "-broker", url}, args...), out, out)
	}()
	return out, func() int {
		cancel()
		select {
		case code := <-ended:
			return code
		case <-time.After(patience):
			t.Fatal("watch did not end")
			return -1
		}
	}
}

// heartbeat reads the next one, verified where keys are given.
func heartbeat(t *testing.T, heard <-chan telemetry.Message, keys map[string]ed25519.PublicKey) (h telemetry.Heartbeat, station string, e telemetry.Envelope) {
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
	case <-time.After(patience):
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
			path, keys := crewKey(t)
			heard := crewListener(t, url)
			l := startLeader(t, url, nil)
			args, want := []string{"-name", "tent"}, "tent"
			switch mode {
			case "signed":
				args, want = []string{"-key", path}, "crew-1"
			case "unsigned":
				args, want, keys = nil, "", nil
			case "named":
				keys = nil
			}
			_, end := watching(t, url, args...)
			s := example(3)
			if mode == "signed" {
				select {
				case m := <-heard:
					t.Errorf("a heartbeat before there was a challenge: %s", m.Payload)
				case <-time.After(10 * time.Millisecond):
				}
			}
			l.publish(t, s)
			counter := uint64(0)
			for i := range int64(3) {
				h, station, e := heartbeat(t, heard, keys)
				if want == "" {
					want = station
				}
				if h != (telemetry.Heartbeat{Seq: i + 1}) || station != want || keys != nil && (e.Counter <= counter || e.Challenge != s.Challenge) {
					t.Errorf("heartbeat %+v of %s, %+v", h, station, e)
				}
				counter = e.Counter
			}
			s.Challenge = telemetry.NewChallenge() // the leader's next one
			l.publish(t, s)
			for {
				if h, _, e := heartbeat(t, heard, keys); keys == nil || e.Challenge == s.Challenge {
					if h.Leaving {
						t.Error("leaving, and watching still")
					}
					break
				}
			}
			if code := end(); code != exitOK {
				t.Errorf("ended with %d", code)
			}
			for {
				h, station, e := heartbeat(t, heard, keys)
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
	heard := crewListener(t, url)
	l := startLeader(t, url, nil)
	l.publish(t, example(3))
	silent, endSilent := watching(t, url, "-silent", "-name", "quiet")
	await(t, silent, "slot 3/100")
	_, endA := watching(t, url)
	_, a, _ := heartbeat(t, heard, nil)
	_, endB := watching(t, url)
	b := a
	for b == a {
		_, b, _ = heartbeat(t, heard, nil)
	}
	for _, end := range []func() int{endSilent, endA, endB} {
		if code := end(); code != exitOK {
			t.Errorf("ended with %d", code)
		}
	}
	for len(heard) > 0 {
		if _, station, _ := heartbeat(t, heard, nil); station == "quiet" {
			t.Error("a silent station spoke")
		}
	}
}

// Heartbeats do not wait for a display that does: a terminal that was stopped
// must not land the fleet.
func TestHeartbeatsDoNotWaitForTheDisplay(t *testing.T) {
	url, _ := startBroker(t)
	path, keys := crewKey(t)
	heard := crewListener(t, url)
	l := startLeader(t, url, nil)
	ctx, cancel := context.WithCancel(t.Context())
	held := make(stopped)
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"watch", "-fleet", "f1", "-broker", url, "-key", path}, held, held)
	}()
	s := example(3)
	for range 300 { // more than once stood between the broker and the display
		s.Seq++
		s.Challenge = telemetry.NewChallenge()
		l.publish(t, s)
	}
	for {
		if _, _, e := heartbeat(t, heard, keys); e.Challenge == s.Challenge {
			break
		}
	}
	cancel()
	for {
		if h, _, _ := heartbeat(t, heard, keys); h.Leaving {
			break
		}
	}
	close(held)
	if code := <-ended; code != exitOK {
		t.Errorf("ended with %d", code)
	}
}

// stopped is a terminal that takes nothing until it is closed.
type stopped chan bool

func (s stopped) Write(p []byte) (int, error) {
	<-s
	return len(p), nil
}
