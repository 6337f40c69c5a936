package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"prefdt/firmware/ledger"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
	"prefdt/telemetry/flightlog"
)

// flown is a mission flown against simulated autopilots.
type flown struct {
	messages []telemetry.Message        // that the console received, in order
	live     map[int][]telemetry.Status // that pages received, by the slot settled last
	acks     []telemetry.Ack            // that the crew received, in order
	flight   *flightlog.Flight          // the leader's file
}

// figures is what a page shows as numbers, without ages. The delay is left out: live it is of
// the users' results, in a record of the leader's account.
const figures = `[...document.querySelectorAll('#values div')].filter(d => !d.firstChild.textContent.startsWith('delay')).map(d => ` +
	`d.firstChild.textContent + ' ' + d.lastChild.firstChild.data).join('; ')`

// flyMission flies slots with commands of the crew, in a bubble: budgets, one that is refused, a
// preference, a hold and its end.
func flyMission(t *testing.T, slots int) *flown {
	t.Helper()
	r := rig.New(t, 2, slots)
	x := &flown{live: map[int][]telemetry.Status{}}
	c := startInMemory(t, live, func(c *console) { c.Fleet = "test" })
	var mutex sync.Mutex
	var at cursor
	client := &telemetry.Client{Broker: r.BrokerOf("console"), Name: "console", Log: c.Log, Handle: func(m telemetry.Message) {
		mutex.Lock()
		defer mutex.Unlock()
		x.messages = append(x.messages, m)
		if err := c.Handle(m); err != nil {
			t.Error(err)
		}
		if e, _, _ := c.state.next(&at, c.Clock()); e.State != nil && e.State.Status != nil && m.Topic == r.Topics.Status() {
			s := *e.State.Status
			s.Seq = 0
			if s.Slot >= 0 {
				x.live[s.Slot] = append(x.live[s.Slot], s)
			}
		}
	}}
	leader, users, _ := c.Subscriptions()
	client.Subscriptions = append(leader, users...)
	if err := client.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	f := r.StartLeader()
	r.Await("the leader", rig.AnyStatus)
	command := func(topic, body, id string) {
		x.acks = append(x.acks, r.SendCommand(topic, body, id))
	}
	command(r.Topics.Budget(), `{"id":"b1","energy_j":19500,"mode":"target"}`, "b1")
	r.TakeOff()
	r.Await("slot 4", rig.SlotSettled(4))
	command(r.Topics.Budget(), `{"id":"b2","energy_j":20000,"mode":"ceiling","replaces_j":3}`, "b2")
	command(r.Topics.Budget(), `{"id":"b3","energy_j":20000,"mode":"ceiling"}`, "b3")
	r.Await("slot 12", rig.SlotSettled(12))
	command(r.Topics.Mission(), `{"id":"hold","action":"hold"}`, "hold")
	r.Await("slot 16", rig.SlotSettled(16))
	command(r.Topics.Mission(), `{"id":"resume","action":"resume"}`, "resume")
	command(r.Topics.Preference(), `{"id":"p1","setting":0.25}`, "p1")
	r.Await("landed", func(s telemetry.Status) bool {
		return rig.Done(s) && !slices.ContainsFunc(s.Aircraft, func(a telemetry.StatusAircraft) bool {
			return a.Landed == nil || !*a.Landed
		})
	})
	var paths []string
	if !r.Eventually(func() bool {
		paths, _ = filepath.Glob(filepath.Join(ledger.FilesPath(r.Config.StateDir), "*.json.gz"))
		return len(paths) == 1
	}) {
		t.Fatalf("files %q", paths)
	}
	f.Kill()
	flights, err := flightlog.ReadFile(paths[0])
	if err != nil || len(flights) != 1 {
		t.Fatalf("%d missions, %v", len(flights), err)
	}
	x.flight = &flights[0]
	return x
}

const replayedSlots = 40

// A replay of the leader's file is what was shown live: each settled status in order, and each
// answer in order. It receives and sends nothing.
func TestReplay(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		x := flyMission(t, replayedSlots)
		c := startInMemory(t, func(c *console) { c.Operators, c.Replay = nil, x.flight })
		var r replay
		if err := json.Unmarshal(c.replay, &r); err != nil {
			t.Fatal(err)
		}
		var ids, want []string
		for i, e := range r.Events {
			s := *e.State.Status
			s.Seq = 0
			if s.Slot != i || !slices.ContainsFunc(x.live[i], func(live telemetry.Status) bool {
				live.Refuses = nil // of the moment at which it was published
				return reflect.DeepEqual(s, live)
			}) {
				t.Fatalf("status %d: %s, live in that slot %s", i, encode(s), encode(x.live[i]))
			}
			for _, a := range e.Answers {
				ids = append(ids, fmt.Sprint(a.ID, a.Accepted))
			}
			if i > 0 && e.T <= r.Events[i-1].T || e.Link.AgeMS != 0 || e.Link.Lost != "" || len(e.Samples) == 0 {
				t.Errorf("event %d: at %d, link %+v, %d samples", i, e.T, e.Link, len(e.Samples))
			}
		}
		if len(r.Events) != replayedSlots || len(x.live) != replayedSlots {
			t.Errorf("%d settled statuses, live of %d slots", len(r.Events), len(x.live))
		}
		for _, a := range x.acks {
			want = append(want, fmt.Sprint(a.ID, a.Accepted))
		}
		ids = slices.DeleteFunc(ids, func(id string) bool { return strings.HasPrefix(id, "order") }) // those of TakeOff
		if !slices.Equal(ids, want) {
			t.Errorf("answers %q, live %q", ids, want)
		}

		w := c.newBrowser("watch")
		headers := map[string]string{"Content-Type": "application/json"}
		for _, q := range []struct {
			method, path string
			want         int
		}{{"GET", "/events", http.StatusNotFound}, {"POST", "/command", http.StatusForbidden}, {"POST", "/alive", http.StatusForbidden},
			{"POST", "/preview", http.StatusForbidden}, {"GET", "/replay", http.StatusOK}} {
			if r := w.do(q.method, q.path, headers, "{}"); r.status != q.want {
				t.Errorf("%s %s: %d %s", q.method, q.path, r.status, r.body)
			}
		}
		if r := c.newBrowser("").do("GET", "/replay", nil, ""); r.status != http.StatusUnauthorized {
			t.Errorf("without a cookie: %d", r.status)
		}
	})
}

// A record ends with its last slot, and says what became of the mission.
func TestReplayEnd(t *testing.T) {
	for _, c := range []struct{ last, after, reason, want string }{
		{telemetry.StateDone, telemetry.StateDone, "", "slot 7, done. What followed, as ways home, is not in it."},
		{telemetry.StateStopped, telemetry.StateDone, "", "slot 7, stopped. After it the aircraft returned and landed."},
		{telemetry.StateHolding, telemetry.StateDone, "the broker was gone for 120 s of the mission",
			"slot 7, holding. After it the aircraft returned and landed. Why: the broker was gone for 120 s of the mission."},
		{telemetry.StateFlying, telemetry.StateStopped, "", "slot 7, flying. After it: stopped."},
	} {
		f := &flightlog.Flight{State: c.after, Reason: c.reason,
			Slots: []flightlog.Slot{{Slot: 7, State: c.last, Status: &telemetry.Status{}}}}
		if got := endText(f); got != "The record ends with "+c.want {
			t.Errorf("%s, then %s: %q", c.last, c.after, got)
		}
	}
}

// A record without statuses is refused before anything listens, and operators beside a replay too.
func TestReplayRefused(t *testing.T) {
	s := &Server{Listen: "127.0.0.1:0", Fleet: "f1", AreaM: [2]float64{1000, 1000},
		Replay: &flightlog.Flight{Mission: "m-1", Slots: []flightlog.Slot{{}}}}
	if err := s.Initialize(); err == nil || !strings.Contains(err.Error(), "m-1: its slots have no status") {
		t.Error(err)
	}
	s.Operators = []*Operator{{}}
	if err := s.Check(); err == nil {
		t.Error("a replay with operators")
	}
}
