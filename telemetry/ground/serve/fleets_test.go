package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

// startFleets serves the fleets f1 and f2, whose operators note what they are given.
func startFleets(t *testing.T, start func(testing.TB, ...func(*console)) *console) (c *console, sent func() []string) {
	t.Helper()
	var mutex sync.Mutex
	var all []string
	note := func(text string) {
		mutex.Lock()
		defer mutex.Unlock()
		all = append(all, text)
	}
	c = start(t, func(c *console) {
		c.Fleet, c.Operators = "", []*Operator{{Name: "crew-1"}}
		for _, fleet := range []string{"f1", "f2"} {
			c.Fleets = append(c.Fleets, &Server{Fleet: fleet, AreaM: c.AreaM, StaleAfter: c.StaleAfter, Log: c.Log, Operators: []*Operator{{
				Name: "crew-1",
				Send: func(_ context.Context, r command.Request, _ bool) (telemetry.Ack, error) {
					note(fleet + " " + r.String())
					slot := 31
					return telemetry.Ack{ID: r.ID(), Key: "crew-1", Accepted: true, EffectiveSlot: &slot}, nil
				},
				Heartbeat: func(leaving bool) { note(fmt.Sprintf("%s heartbeat, leaving %v", fleet, leaving)) },
			}}})
		}
	})
	for _, f := range c.Fleets {
		f.Connected(true)
	}
	return c, func() []string {
		mutex.Lock()
		defer mutex.Unlock()
		return slices.Clone(all)
	}
}

// publishTo hands one fleet's page a status.
func publishTo(t *testing.T, c *console, fleet int, s telemetry.Status) {
	t.Helper()
	payload, err := telemetry.Encode(s)
	if err == nil {
		f := c.Fleets[fleet]
		err = f.Handle(telemetry.Message{Topic: "prefdt/" + f.Fleet + "/status", Payload: payload, Received: c.Clock()})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// One link opens every fleet's page; each has its own data, commands and heartbeat.
func TestFleets(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c, sent := startFleets(t, startInMemory)
		publishTo(t, c, 0, exampleStatus(17))
		b, watcher := c.newBrowser("command as crew-1"), c.newBrowser("watch")
		headers := map[string]string{"Content-Type": "application/json"}
		lines := func() (x []summary) {
			t.Helper()
			r := watcher.do("GET", "/fleets", nil, "")
			if err := json.Unmarshal([]byte(r.body), &x); err != nil || len(x) != 2 {
				t.Fatalf("%d %s", r.status, r.body)
			}
			return x
		}
		c.advance(500 * time.Millisecond)
		want := []summary{
			{"f1", "flying", "0.5 s old; slot 17 of 100, spent 7.1 kJ of 45.0 kJ in slots", false, false},
			{"f2", "-", "no status yet", true, false},
		}
		if got := lines(); !slices.Equal(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		c.advance(2500 * time.Millisecond)
		lost := exampleStatus(3)
		lost.Dangers = []telemetry.Danger{{Aircraft: 2, Text: "left OFFBOARD for POSCTL while flying"}, {Text: "SATURATED"}}
		publishTo(t, c, 1, lost)
		want = []summary{
			{"f1", "flying", "LINK LOST, last status 3 s ago; slot 17 of 100, spent 7.1 kJ of 45.0 kJ in slots", true, true},
			{"f2", "flying",
				"0.0 s old; slot 3 of 100, spent 7.1 kJ of 45.0 kJ in slots; aircraft 2: left OFFBOARD for POSCTL while flying; " +
					"SATURATED",
				false, true},
		}
		if got := lines(); !slices.Equal(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}

		order := fmt.Sprintf(`{"id":"h1","kind":"mission","action":"hold","at":%d}`, c.Fleets[1].state.ms(c.Clock()))
		if r := b.do("POST", "/f2/command", headers, order); r.status != http.StatusAccepted {
			t.Errorf("command: %d %s", r.status, r.body)
		}
		for len(sent()) == 0 {
			time.Sleep(time.Millisecond)
		}
		for _, q := range []struct {
			b            *browser
			method, path string
			want         int
		}{
			{watcher, "POST", "/f2/command", http.StatusForbidden}, {b, "POST", "/command", http.StatusNotFound},
			{b, "POST", "/f3/command", http.StatusNotFound},
			{c.newBrowser(""), "GET", "/fleets", http.StatusUnauthorized}, {c.newBrowser(""), "GET", "/f1/session",
				http.StatusUnauthorized},
			{b, "GET", "/", http.StatusOK}, {b, "GET", "/f1/", http.StatusOK}, {b, "GET", "/f2/app.js", http.StatusOK},
			{b, "GET", "/events", http.StatusNotFound},
			{b, "POST", "/f1/alive", http.StatusConflict},
		} {
			if r := q.b.do(q.method, q.path, headers, order); r.status != q.want {
				t.Errorf("%s %s: %d %s", q.method, q.path, r.status, r.body)
			}
		}
		// The stream of one fleet's page is no sign of life for another's.
		session := c.access.session(&http.Request{Header: http.Header{"Cookie": {b.cookie}}}, c.Clock())
		if !c.access.openStream(session, &eventStream{"f2", func() {}}) {
			t.Fatal("no place")
		}
		if r := b.do("POST", "/f1/alive", headers, "{}"); r.status != http.StatusConflict {
			t.Errorf("alive without the page's stream: %d", r.status)
		}
		if r := b.do("POST", "/f2/alive", headers, "{}"); r.status != http.StatusNoContent {
			t.Errorf("alive: %d %s", r.status, r.body)
		}
		if got, want := sent(), []string{"f2 mission hold", "f2 heartbeat, leaving false"}; !slices.Equal(got, want) {
			t.Errorf("sent %q, want %q", got, want)
		}
	})
}

func TestFleetsRefused(t *testing.T) {
	for names, want := range map[string]string{"f1 f1": "named twice", "f1 ..": "part of an address", "f1 a/b": "want 1 to 64 of"} {
		s := &Server{Listen: "127.0.0.1:0", AreaM: [2]float64{1000, 1000}}
		for name := range strings.SplitSeq(names, " ") {
			s.Fleets = append(s.Fleets, &Server{Fleet: name})
		}
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", names, err)
		}
	}
}
