package users

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"prefdt/inference/dispatch"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/simbridge/broker"
	"prefdt/simbridge/simnet"
	"prefdt/simbridge/world"
	"prefdt/simbridge/world/trace"
	"prefdt/telemetry"
)

const seed = 1_000_003

// fixture is the users on a broker, and a client in the leader's place.
type fixture struct {
	*testing.T
	users  *Simulator
	leader *telemetry.Client
	topics telemetry.Topics

	mutex   sync.Mutex
	changed chan struct{}
	reports map[string]telemetry.Report // by user, of the last slot
	results map[string]telemetry.Result
	arrived map[string]time.Time // results
	edgeJ   map[[2]int]float64   // by aircraft and slot
	decide  func(user string, r telemetry.Report) *telemetry.Decision
}

var positions = []physics.Position{{EastM: 300, NorthM: 450}, {EastM: 700, NorthM: 520}}

func newFixture(t *testing.T, loss float64, shared bool) *fixture {
	t.Helper()
	return newFixtureIn(t, world.Standard(), loss, shared)
}

func newFixtureIn(t *testing.T, w world.Config, loss float64, shared bool) *fixture {
	t.Helper()
	return newFixtureAt(t, w, loss, shared, func(m int) physics.Position { return positions[m] })
}

func newFixtureAt(t *testing.T, w world.Config, loss float64, shared bool, position func(m int) physics.Position) *fixture {
	t.Helper()
	network := simnet.New(1)
	server := &broker.Broker{Address: "127.0.0.1:0", Listen: network.Program("broker").Listen}
	if err := server.Initialize(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	b := &fixture{T: t, changed: make(chan struct{}), reports: map[string]telemetry.Report{}, results: map[string]telemetry.Result{},
		arrived: map[string]time.Time{}, edgeJ: map[[2]int]float64{}}
	quiet := slog.New(slog.DiscardHandler)
	b.topics, _ = telemetry.NewTopics("test")
	b.users = &Simulator{Config: Config{
		World: w, Seed: seed, ReportLoss: loss, Fleet: "test", SharedConnection: shared, Log: quiet,
		Broker:   telemetry.Broker{URL: server.URL(), Dial: network.Program("users").Dial},
		Position: position,
		AddEdgeJ: func(m, slot int, joules float64) {
			b.mutex.Lock()
			defer b.mutex.Unlock()
			b.edgeJ[[2]int{m, slot}] += joules
		},
	}}
	if err := b.users.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.users.Close)
	b.leader = &telemetry.Client{
		Broker: telemetry.Broker{URL: server.URL(), Dial: network.Program("leader").Dial}, Name: "leader", Log: quiet, Handle: b.handle,
		Subscriptions: []telemetry.Subscription{{Filter: b.topics.AllReports()}, {Filter: b.topics.AllResults(), QoS: 1}},
	}
	if err := b.leader.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.leader.Close)
	return b
}

func (b *fixture) handle(m telemetry.Message) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	kind, id, _ := b.topics.Parse(m.Topic)
	switch kind {
	case telemetry.KindReport:
		r, err := telemetry.DecodeReport(m.Payload)
		if err != nil {
			b.Error(err)
		}
		b.reports[id] = r
		if b.decide != nil {
			if d := b.decide(id, r); d != nil {
				payload, err := telemetry.Encode(*d)
				if err != nil {
					b.Error(err)
				}
				b.leader.Publish(telemetry.Publication{Topic: b.topics.Decision(id), QoS: 1, Payload: payload})
			}
		}
	case telemetry.KindResult:
		r, err := telemetry.DecodeResult(m.Payload)
		if err != nil {
			b.Error(err)
		}
		result := fmt.Sprint(id, "/", r.Slot)
		b.results[result], b.arrived[result] = r, m.Received
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *fixture) waitFor(what string, ok func() bool) {
	b.Helper()
	timeout := time.After(30 * time.Second)
	for {
		b.mutex.Lock()
		changed, met := b.changed, ok()
		b.mutex.Unlock()
		if met {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			b.Fatalf("no %s in 30 s", what)
		}
	}
}

// publishBeacon opens a slot of a second in which decisions count for half of it.
func (b *fixture) publishBeacon(n int, offer telemetry.Offer) {
	b.Helper()
	payload, err := telemetry.Encode(telemetry.Slot{Slot: n, SlotMS: 1000, Speed: 1, ReportByMS: 300, DecideByMS: 500, Offer: offer})
	if err != nil {
		b.Fatal(err)
	}
	b.leader.Publish(telemetry.Publication{Topic: b.topics.Slot(), Payload: payload})
}

func standingOffer(priceSPerJ float64) telemetry.Offer {
	o := telemetry.Offer{PriceSPerJ: priceSPerJ}
	for m, p := range positions {
		o.Aircraft = append(o.Aircraft, telemetry.OfferAircraft{Number: m + 1, PositionM: [2]float64{p.EastM, p.NorthM}, CPUHz: 40e9,
			ExpectedUsers: 2.5})
	}
	return o
}

// tasksOf returns what the world has in a slot, with gains.
func tasksOf(n int) map[string]world.Arrival {
	c := world.Standard()
	truth := world.NewScenario(&c, seed)
	out := map[string]world.Arrival{}
	for _, a := range truth.Active(n, nil) {
		if a.Task.Bits == 0 {
			continue
		}
		for m, p := range positions {
			gain, _ := truth.Gain(n, a.User, m, p.Sub(truth.UserPosition(n, a.User)))
			a.Gain = append(a.Gain, gain)
		}
		out[fmt.Sprintf("u%02d", a.User+1)] = a
	}
	return out
}

// With a trace the users report, slot by slot, what a rollout in that world
// meets: the same users with the same tasks, where they are by then.
func TestTraceIsReportedAsRolledOut(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tasks.csv")
		text := strings.Join(trace.Header, ",") + "\n" +
			"0,b,100,100,1e6,1000,1\n0.5,a,300,300,5e5,800,0.7\n1,a,310,300,0,0,0\n3,a,320,310,6e5,800,0.8\n3.5,c,900,50.5,7.5e5,1200," +
			"1.25\n3.9,b,99,98,1,1,0.001\n"
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		c := world.Standard()
		c.Slots = 6
		var err error
		if c.Trace, err = trace.Read(path); err != nil {
			t.Fatal(err)
		}
		b := newFixtureIn(t, c, 0, false)
		total := 0
		for w := world.New(c, seed); !w.Done(); {
			n := w.Slot
			b.mutex.Lock()
			clear(b.reports)
			b.mutex.Unlock()
			b.publishBeacon(n, telemetry.Offer{Aircraft: []telemetry.OfferAircraft{}})
			due := len(c.Trace.Rows(n))
			b.waitFor("reports", func() bool { return len(b.reports) == due && b.users.ReportCounts(n).Expected == due })
			b.mutex.Lock()
			tasks := 0
			for id, r := range b.reports {
				var u int
				fmt.Sscanf(id, "u%d", &u)
				if at := w.Users[u-1]; r.PositionM != [2]float64{at.EastM, at.NorthM} {
					t.Errorf("slot %d, %s: reports from %v, is at %v in the rollout", n, id, r.PositionM, at)
				}
				if r.Task != nil {
					tasks++
				}
			}
			if tasks != len(w.Arrivals) {
				t.Errorf("slot %d: %d tasks reported, %d in the rollout", n, tasks, len(w.Arrivals))
			}
			for _, a := range w.Arrivals {
				r := b.reports[fmt.Sprintf("u%02d", a.User+1)]
				if r.Task == nil || *r.Task != (telemetry.Task{Bits: a.Task.Bits, CyclesPerBit: a.Task.CyclesPerBit,
					DeadlineS: a.Task.DeadlineS}) {
					t.Errorf("slot %d, user %d: reports %+v, the rollout has %+v", n, a.User, r.Task, a.Task)
				}
			}
			b.mutex.Unlock()
			total += tasks
			w.Step(world.Action{Server: make([]int, len(w.Arrivals)), Offload: make([]float64, len(w.Arrivals)),
				Move: make([]physics.Position, c.Aircraft)})
		}
		if total != 5 {
			t.Errorf("%d tasks in all, the trace has 5", total)
		}
	})
}

// The users report exactly what the world has in that slot, and the idle report too.
func TestReportsAreTheWorld(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		for _, shared := range []bool{false, true} {
			b := newFixture(t, 0, shared)
			idle := 0
			for n := range 6 {
				b.mutex.Lock()
				clear(b.reports)
				b.mutex.Unlock()
				b.publishBeacon(n, telemetry.Offer{Aircraft: []telemetry.OfferAircraft{}})
				want := tasksOf(n)
				standard := world.Standard()
				due := len(world.NewScenario(&standard, seed).Active(n, nil))
				if due < 4 || due > 8 {
					t.Fatalf("%d active users in slot %d, the world has 4 to 8", due, n)
				}
				b.waitFor("reports", func() bool { return len(b.reports) == due })
				if r := b.users.ReportCounts(n); r.Expected != due || r.Tasks != len(want) {
					t.Errorf("slot %d counts %+v, want %d reports and %d tasks", n, r, due, len(want))
				}
				b.mutex.Lock()
				for id, r := range b.reports {
					a, busy := want[id]
					if r.Slot != n || busy != (r.Task != nil) {
						t.Errorf("slot %d, %s: %+v, in the world %+v", n, id, r, a)
					}
					if !busy {
						idle++
						continue
					}
					if r.Task.Bits != a.Task.Bits || r.Task.DeadlineS != a.Task.DeadlineS || r.Gain[1] != a.Gain[0] ||
						r.Gain[2] != a.Gain[1] {
						t.Errorf("slot %d, %s: %+v, in the world %+v", n, id, r, a)
					}
				}
				if len(b.reports) < len(want) {
					t.Errorf("slot %d: %d reports of %d tasks", n, len(b.reports), len(want))
				}
				b.mutex.Unlock()
			}
			if idle == 0 {
				t.Error("no user was active without a task in six slots")
			}
		}
	})
}

// A decision that is followed is settled by the true gain and the decided share;
// its joules are added to the aircraft it names.
func TestDecisionIsObeyed(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		b := newFixture(t, 0, false)
		b.decide = func(_ string, r telemetry.Report) *telemetry.Decision {
			if r.Task == nil {
				return nil
			}
			return &telemetry.Decision{Slot: r.Slot, Aircraft: 2, Offload: 0.25, CPUHz: 8e9}
		}
		began := time.Now()
		b.publishBeacon(7, standingOffer(0))
		want := tasksOf(7)
		b.waitFor("results", func() bool { return len(b.results) == len(want) })
		c := world.Standard().Physics
		edge := 0.0
		for id, a := range want {
			r := b.results[id+"/7"]
			share := physics.Share{CPUHz: 8e9, RateBPS: c.Channel.RateBPS(a.Gain[1], 1e6)}
			completion := physics.CompletionS(a.Task.LocalTimeS(1e9), a.Task.OffloadTimeS(share), 0.25)
			edge += c.EdgeJ(a.Task, share, 0.25)
			if r.By != telemetry.ByDecision || math.Abs(r.CompletionS-completion) > 1e-9 {
				t.Errorf("%s: %+v, want %.6f s by decision", id, r, completion)
			}
			const onTheWayS = 0.005 // beacon, report, decision and result, at 0.3 ms at most each way to the broker and from it
			if s := b.arrived[id+"/7"].Sub(began).Seconds() - completion; s < 0 || s > onTheWayS {
				t.Errorf("%s: a result of %.6f s arrives %.6f s after that", id, completion, s)
			}
		}
		if got := b.edgeJ[[2]int{1, 7}]; math.Abs(got-edge) > 1e-9 || len(b.edgeJ) != 1 {
			t.Errorf("edge energy %v, want %v J at the second aircraft", b.edgeJ, edge)
		}
	})
}

// Without a decision in time the users take the standing offer, and what comes
// later, or for another slot, changes nothing.
func TestOfferWithoutDecision(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		b := newFixture(t, 0, false)
		const price = 0.01
		b.decide = func(id string, r telemetry.Report) *telemetry.Decision {
			if before := r.Slot - 1; id < "u06" { // made from an older report
				return &telemetry.Decision{Slot: r.Slot, Aircraft: 1, Offload: 0.5, CPUHz: 1e9, ReportSlot: &before}
			}
			return &telemetry.Decision{Slot: r.Slot + 1} // of another slot
		}
		few := standingOffer(price)
		for m := range few.Aircraft {
			few.Aircraft[m].ExpectedUsers = 1.2
		}
		b.publishBeacon(3, few)
		want := tasksOf(3)
		b.waitFor("results", func() bool { return len(b.results) == len(want) })
		for id := range want { // too late
			payload, _ := telemetry.Encode(telemetry.Decision{Slot: 3, Aircraft: 1, Offload: 1, CPUHz: 40e9})
			b.leader.Publish(telemetry.Publication{Topic: b.topics.Decision(id), QoS: 1, Payload: payload})
		}
		time.Sleep(time.Second)
		if n, all := b.users.ignoredCount(), b.users.ReportCounts(3).Expected+len(want); n != all {
			t.Errorf("%d decisions ignored, want %d", n, all)
		}

		w := world.New(world.Standard(), seed)
		c := &w.Config.Physics
		offer := dispatch.Offer{PriceSPerJ: price}
		for m, p := range positions {
			offer.Aircraft = append(offer.Aircraft, dispatch.OfferAircraft{Number: m + 1, Position: p, CPUHz: 40e9, ExpectedUsers: 1.2})
		}
		choices, came := map[string]slot.UserDecision{}, map[int]float64{}
		for id, a := range want {
			choices[id] = offer.Choose(c, &slot.User{Position: w.Users[a.User], Task: a.Task, CPUHz: 1e9, Gain: a.Gain})
			came[choices[id].Server]++
		}
		crowded, wantJ := false, map[int]float64{}
		for id, a := range want {
			choice, by := choices[id], telemetry.ByLocal
			if m := choice.Server; m > 0 {
				by = telemetry.ByOffer
				if came[m] > 1.2 { // more than expected: they share one CPU
					crowded = true
					choice.CPUHz = 40e9 / came[m]
				}
				share := physics.Share{CPUHz: choice.CPUHz, RateBPS: c.Channel.RateBPS(a.Gain[m-1], c.Channel.BandwidthHz)}
				choice.CompletionS = physics.CompletionS(a.Task.LocalTimeS(1e9), a.Task.OffloadTimeS(share), choice.Offload)
				wantJ[m-1] += c.EdgeJ(a.Task, share, choice.Offload)
			}
			if r := b.results[id+"/3"]; r.By != by || math.Abs(r.CompletionS-choice.CompletionS) > 1e-9 {
				t.Errorf("%s: %+v, want %.6f s by %s", id, r, choice.CompletionS, by)
			}
		}
		for m, j := range wantJ {
			if got := b.edgeJ[[2]int{m, 3}]; math.Abs(got-j) > 1e-9 {
				t.Errorf("aircraft %d computes for %v J, want %v", m+1, got, j)
			}
		}
		if !crowded {
			t.Error("no aircraft had more users than it expected")
		}
		if n := len(b.users.Outcomes()); n != len(want) {
			t.Errorf("%d outcomes of %d tasks", n, len(want))
		}
	})
}

// A deadline that a decision misses is told from one that computing locally would have missed too.
func TestDeadlineMissedByOffloading(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		b := newFixture(t, 0, false)
		b.decide = func(id string, r telemetry.Report) *telemetry.Decision {
			if id < "u04" {
				return &telemetry.Decision{Slot: r.Slot}
			}
			return &telemetry.Decision{Slot: r.Slot, Aircraft: 1, Offload: 1, CPUHz: 1e8} // ten times as slow
		}
		b.publishBeacon(7, standingOffer(0.01))
		want := tasksOf(7)
		b.waitFor("results", func() bool { return len(b.results) == len(want) })
		lost := 0 // deadlines, by offloading
		for _, o := range b.users.Outcomes() {
			id := fmt.Sprintf("u%02d", o.User+1)
			completionS, localS, deadlineS := b.results[id+"/7"].CompletionS, want[id].Task.LocalTimeS(1e9), want[id].Task.DeadlineS
			if o.DeadlineMissed != (completionS > deadlineS) || o.LocalInTime != (localS <= deadlineS) {
				t.Errorf("%s took %.3f s, locally %.3f s, its deadline is %.3f s: %+v", id, completionS, localS, deadlineS, o)
			}
			if o.DeadlineMissed && o.LocalInTime {
				lost++
			}
		}
		if lost == 0 {
			t.Error("no user missed a deadline that computing locally would have met")
		}
	})
}

// A slot that no beacon opens, between others or after the last, costs what its tasks
// take locally: missing slots must not make a mission faster.
func TestSlotsWithoutBeacon(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		b := newFixture(t, 0, false)
		const slots, opened = 5, 2
		b.publishBeacon(opened, telemetry.Offer{Aircraft: []telemetry.OfferAircraft{}})
		b.waitFor("results", func() bool { return len(b.results) == len(tasksOf(opened)) })
		b.users.ComputeUnopened(slots)
		b.users.ComputeUnopened(slots) // counts nothing twice
		c := world.Standard().Physics
		want, got := map[int]float64{}, map[int]float64{}
		missed := 0
		for n := range slots {
			for _, a := range tasksOf(n) {
				localS := a.Task.LocalTimeS(1e9)
				if want[n] += c.PenalizedDelayS(a.Task, localS); localS > a.Task.DeadlineS {
					missed++
				}
			}
			if r := b.users.ReportCounts(n); r.Tasks != len(tasksOf(n)) || (r.Expected > 0) != (n == opened) {
				t.Errorf("slot %d counts %+v, its tasks are %d", n, r, len(tasksOf(n)))
			}
		}
		for _, o := range b.users.Outcomes() {
			if got[o.Slot] += o.DelayS; o.By != telemetry.ByLocal {
				t.Errorf("%+v", o)
			}
			if o.DeadlineMissed {
				missed--
			}
		}
		if missed != 0 {
			t.Errorf("%d deadlines missed fewer than locally", missed)
		}
		for n := range slots {
			if math.Abs(got[n]-want[n]) > 1e-9 {
				t.Errorf("slot %d took %v s, locally it takes %v s", n, got[n], want[n])
			}
		}
		if edge := len(b.edgeJ); edge != 0 {
			t.Errorf("%d slots have edge energy", edge)
		}
	})
}

// Without any aircraft on offer every user computes locally.
func TestNothingOnOffer(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		b := newFixture(t, 0, true)
		b.publishBeacon(0, telemetry.Offer{Aircraft: []telemetry.OfferAircraft{}})
		want := tasksOf(0)
		b.waitFor("results", func() bool { return len(b.results) == len(want) })
		for id, a := range want {
			if r := b.results[id+"/0"]; r.By != telemetry.ByLocal || math.Abs(r.CompletionS-a.Task.LocalTimeS(1e9)) > 1e-9 {
				t.Errorf("%s: %+v", id, r)
			}
		}
	})
}

// The lost reports are a function of the seed, and as many as was asked for.
func TestLoss(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		for _, fraction := range []float64{0, 0.1, 0.4, 1} {
			lost, n := 0, 0
			for slot := range 200 {
				for user := range 10 {
					n++
					if world.ReportIsLost(seed, slot, user, fraction) {
						lost++
					}
				}
			}
			// Five standard deviations of a binomial count.
			if d := math.Abs(float64(lost) - fraction*float64(n)); d > 5*math.Sqrt(fraction*(1-fraction)*float64(n)) {
				t.Errorf("%d of %d lost, want a fraction of %v", lost, n, fraction)
			}
		}

		b := newFixture(t, 0.4, true)
		b.publishBeacon(5, standingOffer(0.01))
		want := tasksOf(5)
		received := 0
		for _, a := range want {
			if !world.ReportIsLost(seed, 5, a.User, 0.4) {
				received++
			}
		}
		b.waitFor("results", func() bool { return len(b.results) == len(want) }) // users whose report was lost compute too
		b.mutex.Lock()
		defer b.mutex.Unlock()
		busy := 0
		for _, r := range b.reports {
			if r.Task != nil {
				busy++
			}
		}
		r := b.users.ReportCounts(5)
		if busy != received || len(b.reports) != r.Expected-r.Lost || r.Tasks != len(want) {
			t.Errorf("%d reports with a task and %d in all were received, want %d and %d", busy, len(b.reports), received,
				r.Expected-r.Lost)
		}
	})
}

// Whatever is published, users go on.
func TestHostilePayloads(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		b := newFixture(t, 0, false)
		for _, payload := range []string{
			"", "{", "[]", "null", `{"slot":-1}`, strings.Repeat("[", 50_000), `{"slot":1e300}`, "\xff\xfe",
			`{"slot":0,"slot_ms":200,"speed":5,"report_by_ms":60,"decide_by_ms":100,"offer":{"price_s_per_j":-1,"aircraft":[]}}`,
			`{"slot":0,"aircraft":1,"offload":2,"cpu_hz":1}`,
		} {
			b.leader.Publish(telemetry.Publication{Topic: b.topics.Slot(), Payload: []byte(payload)})
			for _, u := range b.users.users {
				b.leader.Publish(telemetry.Publication{Topic: b.topics.Decision(u.id), Payload: []byte(payload)})
			}
		}
		// Valid, but for aircraft that the world lacks.
		offer := standingOffer(0)
		offer.Aircraft[0].Number, offer.Aircraft[1].Number = 63, 64
		b.decide = func(_ string, r telemetry.Report) *telemetry.Decision {
			return &telemetry.Decision{Slot: r.Slot, Aircraft: 9, Offload: 1, CPUHz: 1e15}
		}
		b.publishBeacon(0, offer)
		want := tasksOf(0)
		b.waitFor("results", func() bool { return len(b.results) == len(want) })
		counts, _ := json.Marshal(b.users.rejects.Counts())
		if b.users.rejects.Total() == 0 {
			t.Errorf("nothing was refused: %s", counts)
		}
		if len(b.edgeJ) != 0 {
			t.Errorf("edge energy %v", b.edgeJ)
		}
	})
}

// ignoredCount counts decisions that came too late, twice, or for another slot.
func (s *Simulator) ignoredCount() int { return int(s.ignoredDecisions.Load()) }
