package leader

import (
	"crypto/ed25519"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"prefdt/firmware/crew"
	"prefdt/firmware/ledger"
	"prefdt/firmware/link"
	"prefdt/inference"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// FuzzSlot has one user send anything that its topics accept, among valid reports,
// for three slots. The slots continue: what is published is valid, what goes to the
// ledger can be written, the accounts stay finite, the snapshots have no time that cannot
// be, and of the other users what they would have without it.
func FuzzSlot(f *testing.F) {
	frozen := loadCheckpoint(f)
	for _, odd := range []float64{1, 0, 1e-300, 1e300, math.MaxFloat64, 5e-324} {
		f.Add(uint8(0), 312.0, 844.5, 1.1e6, 1000.0, 0.9, 0.0, 1e9, 3.2e-9, odd, odd, uint8(0), odd, odd)
		f.Add(uint8(2), 1e5, -1e5, 1e9*min(odd, 1), 1000.0, odd, odd, 1e9, odd, 8.8e-11, 86400.0, uint8(1), odd, 0.1)
		f.Add(uint8(1), 300.0, 500.0, odd, odd, odd, odd, odd, odd, odd, odd, uint8(2), 0.1, odd)
	}
	f.Fuzz(func(t *testing.T, slotOf uint8, east, north, bits, cycles, deadlineS, queue, hz, gain1, gain2, completionS float64, by uint8,
		localS, uploadS float64) {
		report := telemetry.Report{Slot: int(slotOf % 4), PositionM: [2]float64{east, north}, QueueBits: queue, CPUHz: hz,
			Task: &telemetry.Task{Bits: bits, CyclesPerBit: cycles, DeadlineS: deadlineS}, Gain: map[int]float64{1: gain1, 2: gain2}}
		for m, gain := range report.Gain {
			if !(gain > 0) {
				delete(report.Gain, m)
			}
		}
		if _, err := telemetry.Encode(report); err != nil {
			return // refused before it reaches the loop
		}
		result := telemetry.Result{Slot: int(slotOf % 3), CompletionS: completionS,
			By: []string{telemetry.ByDecision, telemetry.ByOffer, telemetry.ByLocal}[by%3], LocalS: &localS, UploadS: &uploadS}
		if by >= 128 {
			result.UploadS = nil
		}
		_, noResult := telemetry.Encode(result)
		defer time.AfterFunc(time.Minute, func() { panic("a slot without end") }).Stop()
		policy, err := inference.New(frozen, inference.DecoderDispatch)
		if err != nil {
			t.Fatal(err)
		}
		l := newInPhase(t, telemetry.StateFlying, policy, frozen.Physics, &frozen.GoalConstants)
		for n := range 3 {
			l.users.OpenSlot(n)
			l.current.decided, l.current.offeredAircraft, l.current.decideBy = false, true, l.Clock.Now()+time.Second
			s := &l.current.snapshot
			s.Aircraft = l.appendServing(s.Aircraft[:0], n, l.views)
			offer := l.users.Offer(n, s.Aircraft)
			for u := range 3 {
				honest := telemetry.Report{Slot: n, PositionM: [2]float64{200 * float64(u+1), 450}, CPUHz: 1e9,
					Task: &telemetry.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.9}, Gain: map[int]float64{1: 1e-9}}
				l.handleUserMessage(link.UserMessage{User: []string{"a", "b", "c"}[u], Report: &honest}, true)
			}
			l.handleUserMessage(link.UserMessage{User: "x", Report: &report}, true)
			expireResults(n, &l.account, &l.users)
			names := l.buildSnapshot(n, l.views)
			honest, others := 0, l.current.snapshot.Results
			for i := range others {
				r := &others[i]
				if c := &frozen.Physics.Channel; (r.LocalS > 0) != (r.LocalCycles > 0) ||
					r.Upload != (slot.Upload{}) && !(r.Upload.Gain(c) > 0 && r.Upload.Gain(c) <= 1+1e-9) || r.LocalS > 3 || r.Upload.S > 3 {
					t.Fatalf("slot %d has %+v", n, *r)
				}
				if r.User < 3 && *r == (slot.Result{User: r.User, Slot: n - 1, CompletionS: 0.8, LocalS: 0.8, LocalCycles: 1e9}) {
					honest++
				}
			}
			if want := min(n, 1) * 3; honest != want || len(others)-honest > 1 {
				t.Fatalf("slot %d has %+v, want %d of honest users", n, others, want)
			}
			l.decide(n, names, l.views)
			for m, number := range []int{1, 2} {
				l.account.SetCommitted(number, l.current.decision.EdgeJ[m], l.current.decision.ServedBy(m+1))
				if asked, limit := cyclesOf(l, m+1), l.Policy.Physics.EdgeCPUHz; asked > limit*(1+1e-9) {
					t.Fatalf("aircraft %d is given %v cycles in a slot, its CPU does %v", number, asked, limit)
				}
			}
			l.publishDecisions(n, names)
			if noResult == nil {
				l.handleUserMessage(link.UserMessage{User: "x", Result: &result}, true)
			}
			for _, user := range []string{"a", "b", "c"} {
				l.handleUserMessage(link.UserMessage{User: user, Result: &telemetry.Result{Slot: n, CompletionS: 0.8, By: telemetry.ByLocal,
					LocalS: new(0.8)}}, true)
			}
			for i := range l.views {
				l.views[i].TotalJ += 140
				l.views[i].ModelJ += 135
			}
			rows := l.account.Settle(n, l.views, l.users.OfferUsersEdgeJ)
			l.schedule.Advance(n, l.schedule.StartOf(n+1))
			l.publish(l.status(l.views))
			if _, err := telemetry.Encode(telemetry.Slot{SlotMS: 1000, Speed: 1, ReportByMS: 300, DecideByMS: 450, Offer: offer}); err !=
				nil {
				t.Fatal(err)
			}
			if _, err := json.Marshal(rows); err != nil {
				t.Fatal(err)
			}
			if _, err := json.Marshal(l.ledgerState()); err != nil {
				t.Fatal(err)
			}
			for _, m := range l.current.decision.Move {
				if d := m.Norm(); !(d <= frozen.Physics.SpeedMaxMPS+1e-9) {
					t.Fatalf("a move of %v m", d)
				}
			}
			if o := l.account.Objective(); !(math.Abs(o.DelayToGoS()) < 1e9 && o.DelayS() < 1e9 && o.EnergyToGoJ() < 1e9 &&
				o.EdgeJ() < 1e6) {
				t.Fatalf("the objective became %+v", o.State())
			}
		}
		for kind := range l.mqtt.Rejects.Counts() {
			if !strings.HasPrefix(kind, "result: ") {
				t.Fatalf("not sent: %v", l.mqtt.Rejects.Counts())
			}
		}
	})
}

// cyclesOf is what a decision gives an aircraft, counted from 1 in the snapshot.
func cyclesOf(l *inPhase, server int) (sum float64) {
	for i, u := range l.current.decision.Users {
		if u.Server == server {
			sum += u.Offload * l.current.snapshot.Users[i].Task.Cycles()
		}
	}
	return sum
}

// FuzzInbox publishes anything on any topic of the crew's, in every state of the
// mission. A command is answered once, what is accepted is within bounds, and what
// is written to the ledger can be read back.
func FuzzInbox(f *testing.F) {
	frozen := loadCheckpoint(f)
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	keys := map[string]ed25519.PublicKey{"crew-1": private.Public().(ed25519.PublicKey)}
	signed, err := telemetry.Envelope{Key: "crew-1", Counter: 7, Challenge: "AAAAAAAAAAAAAAAAAAAAAA",
		Body: `{"id":"s1","energy_j":36000,"mode":"target"}`}.Sign(private, "prefdt/f1/command/budget")
	if err != nil {
		f.Fatal(err)
	}
	start, hold, resume, stop := `command/mission {"id":"m1","action":"start"}`, `command/mission {"id":"m2","action":"hold"}`,
		`command/mission {"id":"m3","action":"resume"}`, `command/mission {"id":"m4","action":"stop"}`
	budget, preference := `command/budget {"id":"b1","energy_j":36000,"mode":"ceiling"}`, `command/preference {"id":"b1","setting":0.35}`
	others := `command/mission {"id":"m5","action":"launch","aircraft":[1,2]}` + "\n" +
		`command/mission {"id":"m6","action":"clear","aircraft":[2]}` + "\n" +
		`command/mission {"id":"m7","action":"new","mission":"m-2"}` + "\n" + `command/mission {"id":"m8","action":"return"}`
	for state := range uint8(7) {
		f.Add(state, strings.Join([]string{start, hold, hold, resume, budget, preference, others, stop, "command/budget " + string(signed),
			"command/budget " + string(signed)}, "\n"))
	}
	f.Add(uint8(2), "online false\nslot {\"slot\":1e9}\nstatus {}\nusers/u/result "+
		"{\"slot\":0,\"completion_s\":9,\"by\":\"offer\"}\nack/b1 {}\nnope x\n"+
		`users/u/report {"slot":0,"position_m":[1,2],"queue_bits":0,"cpu_hz":1e9}`+"\n"+
		`command/budget {"id":"x","energy_j":1e300,"mode":"target"}`+"\n"+`command/budget {"energy_j":1}`)
	f.Add(uint8(2), "crew/ops/heartbeat {\"seq\":1}\ncrew/ops/heartbeat {\"seq\":2,\"leaving\":true}\nhello {\"instance\":\"x\"}\nproof {}")
	f.Add(uint8(0), `status {"seq":99,"slot":17,"slots":100,"mission_s":18,"state":"flying","setting":0.4,"budget_j":null,"mode":null,`+
		`"spent_j":1,"remaining_j":null,"predicted_end_j":null,"floor_j":1,"saturated":false,"transit_j":0,"users_heard":6,`+
		`"missed_slots":0,"decision_ms":0.7,"energy_source":"model","aircraft":[]}`)
	states := []string{telemetry.StateIdle, telemetry.StateClimbing, telemetry.StateFlying, telemetry.StateHolding,
		telemetry.StateReturning, telemetry.StateDone, telemetry.StateStopped}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, state uint8, messages string) {
		l := newInPhase(t, states[int(state)%len(states)], nil, frozen.Physics, &frozen.GoalConstants)
		home, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(home)
		l.openLedger(t, home)
		defer func() { l.ledgerWriter.ledger.Close() }()
		l.users.OpenSlot(0)
		k := crew.Keys{Public: keys, AcceptUnsigned: state < 128}
		line, answers := "", map[string]string{}
		l.crew.Publish = func(ack telemetry.Ack) {
			_, err := telemetry.Encode(ack)
			if err != nil || !telemetry.ValidID(ack.ID) || !strings.Contains(line, ack.ID) {
				t.Fatalf("%s is answered with %+v, %v", line, ack, err)
			}
			if !ack.Accepted {
				return
			}
			of := ack.Of
			ack.Of = ""
			raw, err := telemetry.Encode(ack)
			if err != nil || of == "" {
				t.Fatal(err, of)
			}
			if before, again := answers[ack.ID]; again && before != string(raw) {
				t.Fatalf("%s was answered with %s and %s", ack.ID, before, raw)
			}
			answers[ack.ID] = string(raw)
		}
		for line = range strings.SplitSeq(messages, "\n") {
			topic, payload, _ := strings.Cut(line, " ")
			m := telemetry.Message{Topic: "prefdt/f1/" + topic, Payload: []byte(payload), Received: time.Now()}
			kind, id, known := l.mqtt.Topics.Parse(m.Topic)
			var c link.ControlMessage
			var err error
			switch {
			case !known:
				continue
			case kind == telemetry.KindBudget || kind == telemetry.KindPreference || kind == telemetry.KindMission:
				c.Command, _ = k.DecodeCommand(kind, m)
			case kind == telemetry.KindHeartbeat:
				c.Heartbeat, err = k.DecodeHeartbeat(id, m)
			case kind == telemetry.KindStatus:
				var s telemetry.Status
				s, err = telemetry.DecodeStatus(m.Payload)
				c.Status = &s
			case kind == telemetry.KindSlot:
				var s telemetry.Slot
				s, err = telemetry.DecodeSlot(m.Payload)
				c.Beacon = &s
			}
			if err == nil && c != (link.ControlMessage{}) {
				l.handleControl(c)
			}
			l.commitCommands()
			if o := l.account.Objective(); !(o.Setting() >= 0 && o.Setting() <= 1) ||
				o.Budgeted() && !(o.BudgetJ() > 0 && o.BudgetJ() <= 2*frozen.Physics.BatteryCapacityJ) {
				t.Fatalf("%s led to setting %v, %+v", line, o.Setting(), o.State())
			}
		}
		counts := l.mqtt.Rejects.Total()
		if l.publish(l.status(l.views)); l.mqtt.Rejects.Total() != counts {
			t.Fatalf("no status: %v", l.mqtt.Rejects.Counts())
		}
		if err := l.ledgerWriter.ledger.Close(); err != nil {
			t.Fatal(err)
		}
		if l.ledgerWriter.ledger, err = ledger.Open(home); err != nil {
			t.Fatal(err)
		}
		for id, answer := range answers {
			if c, found, err := l.ledgerWriter.ledger.Command(id); !found || err != nil || string(c.Ack) != answer {
				t.Fatalf("%s: %s, %v, %v on the disk, want %s", id, c.Ack, found, err, answer)
			}
		}
	})
}
