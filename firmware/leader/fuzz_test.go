package leader

import (
	"crypto/ed25519"
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"prefdt/configs"
	"prefdt/firmware/energy"
	"prefdt/firmware/fleet"
	"prefdt/firmware/ledger"
	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/telemetry"
)

// FuzzConfig reads any text as the leader's configuration. A mistake is one
// line; what passes is what the leader can work with.
func FuzzConfig(f *testing.F) {
	whole, err := os.ReadFile("../configs/leader.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(regexp.MustCompile(`(?m)^#.*\n| *# .*`).ReplaceAll(whole, nil))
	for _, text := range []string{
		"", "slots: 1e9\n", "slot_ms: .nan\n", "slots: 0x10\naircraft: [{system_id: 1, endpoint: 'serial:/dev/x:57600'}]\n",
		"a: &a [*a]\n", "users: {allow: [a, b, 'c d']}\n", "commands: {keys: {crew-1: AAAA}}\n", "aircraft:\n- {system_id: 1, start_m: [1]}\n",
		"fleet: !!binary aGk=\n", "? {}\n: 1\n", "broker: {url: tls://[::1]:70000}\n", "---\n---\nslots: 1\n", "<<: {slots: 1}\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := Defaults()
		err := configs.Decode(raw, &c)
		if err == nil {
			err = c.Check()
		}
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%q is more than a line", err)
			}
			return
		}
		if w := c.Wall(1); w < time.Millisecond || len(c.Aircraft) < 1 {
			t.Fatalf("a slot of %v with %d aircraft was accepted", w, len(c.Aircraft))
		}
		for i := range c.Aircraft {
			if p := c.Start(i+1, 1000); math.IsNaN(p.EastM+p.NorthM) || math.Abs(p.EastM)+math.Abs(p.NorthM) > 1e9 {
				t.Fatalf("aircraft %d starts at %v", i+1, p)
			}
		}
	})
}

// still is a clock that stands.
type still struct{}

func (still) Now() time.Duration                              { return time.Second }
func (still) After(time.Duration) <-chan time.Time            { return nil }
func (still) Ticker(time.Duration) (<-chan time.Time, func()) { return nil, func() {} }

// grounded is a leader in flight without links: what it does in a slot, without
// waiting for anything.
func grounded(t testing.TB, s scheduler, p physics.Constants, scales *goal.Scales) *Leader {
	c := Defaults()
	c.Slots = 100
	l := &Leader{Config: c, Physics: p, Scales: scales, Scheduler: s, Clock: still{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	l.state, l.books, l.price = telemetry.StateFlying, map[int]*book{}, dispatch.OpeningPriceSPerJ
	for i := range 2 {
		l.Config.Aircraft = append(l.Config.Aircraft, Aircraft{SystemID: i + 1, Endpoint: "udp:127.0.0.1:14540"})
		l.craft = append(l.craft, craft{})
		l.views = append(l.views, fleet.View{Number: i + 1, SystemID: i + 1, Flying: true, InAir: true, Order: fleet.OrderFly,
			Position: physics.Position{EastM: 300 * float64(i+1), NorthM: 500}, UpM: 100, Charge: math.NaN(), Source: energy.Current})
	}
	l.users.init(l.Config.Users)
	l.goal = goal.New(scales, &p, c.Slots, 2)
	l.fleet = l.newFleet()
	if err := l.fleet.Initialize(); err != nil {
		t.Fatal(err)
	}
	topics, err := telemetry.NewTopics("f1")
	if err != nil {
		t.Fatal(err)
	}
	l.broker = &broker{topics: topics, client: &telemetry.Client{}}
	l.broker.rejects.Log = l.Log
	return l
}

// FuzzSlot lets one user say anything that its topics take, among honest ones,
// for three slots. The slots go on: what goes out is valid, what goes to the
// disk can be written, the accounts stay numbers that the mission can use.
func FuzzSlot(f *testing.F) {
	frozen, err := checkpoint.Load("../configs/checkpoint")
	if err != nil {
		f.Fatal(err)
	}
	for _, odd := range []float64{1, 0, 1e-300, 1e300, math.MaxFloat64, 5e-324} {
		f.Add(uint8(0), 312.0, 844.5, 1.1e6, 1000.0, 0.9, 0.0, 1e9, 3.2e-9, odd, odd, uint8(0))
		f.Add(uint8(2), 1e5, -1e5, 1e9*min(odd, 1), 1000.0, odd, odd, 1e9, odd, 8.8e-11, 86400.0, uint8(1))
		f.Add(uint8(1), 300.0, 500.0, odd, odd, odd, odd, odd, odd, odd, odd, uint8(2))
	}
	f.Fuzz(func(t *testing.T, slot uint8, east, north, bits, cycles, deadlineS, queue, hz, gain1, gain2, completionS float64, by uint8) {
		report := telemetry.Report{Slot: int(slot % 4), PositionM: [2]float64{east, north}, QueueBits: queue, CPUHz: hz,
			Task: &telemetry.Task{Bits: bits, CyclesPerBit: cycles, DeadlineS: deadlineS}, Gain: map[int]float64{1: gain1, 2: gain2}}
		for m, gain := range report.Gain {
			if !(gain > 0) {
				delete(report.Gain, m)
			}
		}
		if _, err := telemetry.Encode(report); err != nil {
			return // refused where it arrives
		}
		result := telemetry.Result{Slot: int(slot % 3), CompletionS: completionS, By: []string{telemetry.ByDecision, telemetry.ByOffer, telemetry.ByLocal}[by%3]}
		_, noResult := telemetry.Encode(result)
		defer time.AfterFunc(time.Minute, func() { panic("a slot without end") }).Stop()
		policy, err := inference.New(frozen, inference.Dispatch)
		if err != nil {
			t.Fatal(err)
		}
		l := grounded(t, policy, frozen.Physics, &frozen.Scales)
		for n := range 3 {
			l.users.openSlot(n)
			offer := l.offer(n)
			for u := range 3 {
				honest := telemetry.Report{Slot: n, PositionM: [2]float64{200 * float64(u+1), 450}, CPUHz: 1e9,
					Task: &telemetry.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.9}, Gain: map[int]float64{1: 1e-9}}
				l.users.take([]string{"a", "b", "c"}[u], honest, true)
			}
			l.users.take("x", report, true)
			l.closeBooks(n)
			l.see(n)
			l.decide(n)
			l.tell(n)
			if noResult == nil {
				l.correct("x", &result)
			}
			for i := range l.views {
				l.views[i].TotalJ += 140
				l.views[i].ModelJ += 135
			}
			rows := l.settle(n)
			l.open = n + 1
			l.publishStatus()
			if _, err := telemetry.Encode(telemetry.Slot{SlotMS: 1000, Speed: 1, ReportByMS: 300, DecideByMS: 450,
				Offer: offer}); err != nil {
				t.Fatal(err)
			}
			if _, err := json.Marshal(rows); err != nil {
				t.Fatal(err)
			}
			if _, err := json.Marshal(l.ledgerState()); err != nil {
				t.Fatal(err)
			}
			for _, m := range l.decision.Move {
				if d := m.Norm(); !(d <= frozen.Physics.SpeedMaxMPS+1e-9) {
					t.Fatalf("a move of %v m", d)
				}
			}
			if g := l.goal; !(math.Abs(g.DelayToGoS()) < 1e9 && g.DelayS() < 1e9 && g.EnergyToGoJ() < 1e9 && g.EdgeJ() < 1e6) {
				t.Fatalf("the goal became %+v", g.State())
			}
		}
		if counts := l.broker.rejects.Counts(); len(counts) > 0 && !(len(counts) == 1 && counts["result: too long"] > 0) {
			t.Fatalf("not sent: %v", counts)
		}
	})
}

// FuzzInbox lets anyone say anything on any topic of the leader's, in every
// state of the mission. Who is answered is answered once, what is accepted is
// within bounds, and what goes to the disk comes back.
func FuzzInbox(f *testing.F) {
	frozen, err := checkpoint.Load("../configs/checkpoint")
	if err != nil {
		f.Fatal(err)
	}
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	keys := map[string]ed25519.PublicKey{"crew-1": private.Public().(ed25519.PublicKey)}
	signed, err := telemetry.Sign("crew-1", private, 7, telemetry.NewChallenge(), "prefdt/f1/command/budget", []byte(`{"id":"s1","energy_j":36000,"mode":"target"}`))
	if err != nil {
		f.Fatal(err)
	}
	start, hold, resume, stop := `command/mission {"id":"m1","action":"start"}`, `command/mission {"id":"m2","action":"hold"}`, `command/mission {"id":"m3","action":"resume"}`, `command/mission {"id":"m4","action":"stop"}`
	budget, preference := `command/budget {"id":"b1","energy_j":36000,"mode":"ceiling"}`, `command/preference {"id":"b1","setting":0.35}`
	for state := range uint8(7) {
		f.Add(state, strings.Join([]string{start, hold, hold, resume, budget, preference, stop, "command/budget " + string(signed), "command/budget " + string(signed)}, "\n"))
	}
	f.Add(uint8(2), "online false\nslot {\"slot\":1e9}\nstatus {}\nusers/u/result {\"slot\":0,\"completion_s\":9,\"by\":\"offer\"}\nack/b1 {}\nnope x\n"+
		`users/u/report {"slot":0,"position_m":[1,2],"queue_bits":0,"cpu_hz":1e9}`+"\n"+`command/budget {"id":"x","energy_j":1e300,"mode":"target"}`+"\n"+`command/budget {"energy_j":1}`)
	f.Add(uint8(0), `status {"seq":99,"slot":17,"slots":100,"mission_s":18,"state":"flying","setting":0.4,"budget_j":null,"mode":null,"spent_j":1,"remaining_j":null,"predicted_end_j":null,"floor_j":1,"saturated":false,"transit_j":0,"users_heard":6,"missed_slots":0,"decision_ms":0.7,"energy_source":"model","challenge":"AAAAAAAAAAAAAAAAAAAAAA","last_command":null,"aircraft":[]}`)
	states := []string{telemetry.StateIdle, telemetry.StateClimbing, telemetry.StateFlying, telemetry.StateHolding, telemetry.StateReturning, telemetry.StateDone, telemetry.StateStopped}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, state uint8, said string) {
		l := grounded(t, nil, frozen.Physics, &frozen.Scales)
		home, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(home)
		if l.ledger, err = ledger.Open(home); err != nil {
			t.Fatal(err)
		}
		defer func() { l.ledger.Close() }()
		l.state, l.unsaved = states[int(state)%len(states)], map[string][]byte{}
		l.users.openSlot(0)
		b := l.broker
		b.inbox, b.clock, b.ctx = make(chan event, 1), l.Clock, t.Context()
		k := commandKeys{keys: keys, unsigned: state < 128, counters: &counters{last: map[string]uint64{}}}
		answers := map[string]string{}
		for line := range strings.SplitSeq(said, "\n") {
			topic, payload, _ := strings.Cut(line, " ")
			b.handle(telemetry.Message{Topic: "prefdt/f1/" + topic, Payload: []byte(payload), Received: time.Now()}, k)
			select {
			case e := <-b.inbox:
				b.inbox <- event{} // more is to come: what is applied waits for it
				l.take(e, true)
				<-b.inbox
			default:
			}
			for i := range l.batch {
				a := &l.batch[i]
				if a.id == "" {
					continue
				}
				ack, err := telemetry.DecodeAck(a.ack)
				if err != nil || ack.ID != a.id || !telemetry.ValidID(a.id) {
					t.Fatalf("%s is answered with %s, %v", line, a.ack, err)
				}
				if before, again := answers[a.id]; again && ack.Accepted && before != string(a.ack) {
					t.Fatalf("%s was answered with %s and %s", a.id, before, a.ack)
				}
				if ack.Accepted {
					answers[a.id] = string(a.ack)
				}
			}
			l.acknowledge()
			if s := l.goal.Setting(); !(s >= 0 && s <= 1) || l.goal.Budgeted() && !(l.goal.BudgetJ() > 0 && l.goal.BudgetJ() <= 2*frozen.Physics.CapacityJ) {
				t.Fatalf("%s led to setting %v, %+v", line, s, l.goal.State())
			}
		}
		total := b.rejects.Total()
		if l.publishStatus(); b.rejects.Total() != total {
			t.Fatalf("no status: %v", b.rejects.Counts())
		}
		if err := l.ledger.Close(); err != nil {
			t.Fatal(err)
		}
		if l.ledger, err = ledger.Open(home); err != nil {
			t.Fatal(err)
		}
		for id, answer := range answers {
			if ack, found, err := l.ledger.Ack(id); !found || err != nil || string(ack) != answer {
				t.Fatalf("%s: %s, %v, %v on the disk, want %s", id, ack, found, err, answer)
			}
		}
	})
}
