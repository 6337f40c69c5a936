package leader

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"prefdt/firmware/account"
	"prefdt/firmware/ledger"
	"prefdt/firmware/link"
	"prefdt/inference/belief"
	"prefdt/inference/belief/learned"
	"prefdt/inference/dispatch"
	"prefdt/inference/model"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/inference/token"
	"prefdt/telemetry"
)

// crowd is a leader all of whose users have a task in every slot.
type crowd struct {
	*inPhase
	n        int // the open slot
	payloads [][]byte
	messages []link.UserMessage // reports
	results  []link.UserMessage
	names    []string
	solver   dispatch.Solver
}

func newCrowd(b *testing.B, users int) *crowd {
	frozen := loadCheckpoint(b)
	c := &crowd{inPhase: newInPhase(b, telemetry.StateFlying, nil, frozen.Physics, &frozen.GoalConstants)}
	c.mqtt.UserMessages = make(chan link.UserMessage, users)
	c.current.decideBy = c.Clock.Now() + time.Second
	c.Config.Slots = 1e9 // more than a benchmark needs
	c.account.Begin(c.Config.Slots, c.views)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range users {
		payload, err := telemetry.Encode(telemetry.Report{
			PositionM: [2]float64{1000 * r.Float64(), 1000 * r.Float64()}, CPUHz: 1e9,
			Gain: map[int]float64{1: 1e-11 * r.ExpFloat64(), 2: 1e-11 * r.ExpFloat64()},
			Task: &telemetry.Task{Bits: 5e5 + 1e6*r.Float64(), CyclesPerBit: 1000, DeadlineS: 0.5 + r.Float64()},
		})
		if err != nil {
			b.Fatal(err)
		}
		c.payloads = append(c.payloads, payload)
		name := fmt.Sprintf("u%04d", i)
		c.messages = append(c.messages, link.UserMessage{User: name, Report: decodedReport(b, payload)})
		result := &telemetry.Result{CompletionS: 0.4, By: telemetry.ByDecision, LocalS: new(0.2), UploadS: new(0.3)}
		c.results = append(c.results, link.UserMessage{User: name, Result: result})
	}
	for range 4 { // results expire
		c.slot()
	}
	return c
}

func decodedReport(b *testing.B, payload []byte) *telemetry.Report {
	r, err := telemetry.DecodeReport(payload)
	if err != nil {
		b.Fatal(err)
	}
	return &r
}

// report has all reports of the next slot received as the window closes, and its snapshot built.
func (c *crowd) report() {
	c.n++
	c.current.decided = false
	c.users.OpenSlot(c.n)
	for i := range c.messages {
		c.messages[i].Report.Slot = c.n
		c.mqtt.UserMessages <- c.messages[i]
	}
	c.drain(c.Clock.Now(), c.mqtt.Waiting)
	c.names = c.buildSnapshot(c.n, c.views)
}

// decideOn decides on the snapshot, at a price.
func (c *crowd) decideOn() {
	c.current.decision.Resize(&c.current.snapshot)
	c.solver.Solve(&c.Policy.Physics, &c.current.snapshot, 0.003, &c.current.decision)
}

// settleResults enters the decision and all its results, and settles the slot.
func (c *crowd) settleResults() []account.Row {
	expireResults(c.n, &c.account, &c.users)
	c.account.AddDecision(account.SlotDecision{
		Slot: c.n, Users: c.names, Snapshot: &c.current.snapshot, Decision: &c.current.decision, Reported: c.users.Reported(),
		MaxOfferUsers: c.users.MaxOfferUsers(), OfferedAircraft: true,
	})
	for i := range c.results {
		c.results[i].Result.Slot = c.n
		c.handleUserMessage(c.results[i], true)
	}
	return c.account.Settle(c.n, c.views, c.users.OfferUsersEdgeJ)
}

// slot is a whole one.
func (c *crowd) slot() {
	c.users.Offer(c.n, c.appendServing(nil, c.n, c.views))
	c.report()
	c.decideOn()
	c.settleResults()
}

// cpuTime is what this process has computed for: on a machine that has other work, a better
// measure than the time that passed.
func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSlot times each stage of a slot but the dispatch, for all its users together.
func BenchmarkSlot(b *testing.B) {
	frozen := loadCheckpoint(b)
	for _, stage := range []struct {
		name  string
		begin func(b *testing.B, c *crowd) (run func())
	}{
		{"decode", func(b *testing.B, c *crowd) func() {
			return func() {
				for _, payload := range c.payloads {
					decodedReport(b, payload)
				}
			}
		}},
		{"receive", func(b *testing.B, c *crowd) func() { return c.report }},
		{"estimate", func(b *testing.B, c *crowd) func() {
			estimator := frozen.NewEstimator(learned.Surroundings{Physics: &c.Policy.Physics, Wind: true, Payload: true, Sounding: true,
				Slow: 0.3})
			var believed belief.Belief
			estimate := func() {
				believed.Resize(&c.current.snapshot)
				estimator.Estimate(&c.current.snapshot, &believed)
			}
			for range frozen.Beliefs.Window { // its memory is full
				c.slot()
				estimate()
			}
			return func() {
				c.current.snapshot.Slot++
				estimate()
			}
		}},
		{"rows", func(b *testing.B, c *crowd) func() {
			builder := token.NewBuilder(&c.Policy.Physics, c.Policy.Scales, &frozen.Statistics)
			var rows token.Rows
			targets := make([]physics.Position, len(c.views))
			return func() { builder.Fill(&rows, &c.current.snapshot, c.account.Objective(), targets) }
		}},
		{"step", func(b *testing.B, c *crowd) func() {
			builder := token.NewBuilder(&c.Policy.Physics, c.Policy.Scales, &frozen.Statistics)
			var rows token.Rows
			outputs := model.Outputs{SkipChoice: true} // as the dispatch decoder does
			builder.Fill(&rows, &c.current.snapshot, c.account.Objective(), make([]physics.Position, len(c.views)))
			cache := frozen.Net.NewCache()
			return func() { frozen.Net.Step(&rows, cache, &outputs) }
		}},
		{"limit", func(b *testing.B, c *crowd) func() {
			spareJ := func(int) float64 { return 1e5 }
			var uncut slot.Decision
			uncut.Users = append(uncut.Users, c.current.decision.Users...)
			return func() {
				copy(c.current.decision.Users, uncut.Users)
				limitEdgeLoad(&c.current.snapshot, &c.current.decision, &c.Policy.Physics, spareJ)
			}
		}},
		{"decisions", func(b *testing.B, c *crowd) func() {
			return func() { c.publishDecisions(c.n, c.names) }
		}},
		{"account", func(b *testing.B, c *crowd) func() {
			return func() {
				c.n++
				c.settleResults()
				c.current.snapshot.Results = c.account.TakeResults(c.current.snapshot.Results[:0])
			}
		}},
		{"seen", func(b *testing.B, c *crowd) func() {
			var believed belief.Belief
			believed.Resize(&c.current.snapshot)
			for i := range believed.Users {
				for m := range c.views {
					believed.Users[i].SetLink(m, -25, 0.5)
				}
			}
			return func() { account.NewSeen(&c.current.snapshot, c.names, nil, &believed, &c.Policy.Physics.Channel) }
		}},
		{"ledger", func(b *testing.B, c *crowd) func() { return writeRows(b, c, false) }},
		{"ledger-seen", func(b *testing.B, c *crowd) func() { return writeRows(b, c, true) }},
		{"offer", func(b *testing.B, c *crowd) func() {
			aircraft := c.appendServing(nil, c.n, c.views)
			return func() {
				c.n++
				c.users.Offer(c.n, aircraft)
			}
		}},
		{"status", func(b *testing.B, c *crowd) func() {
			return func() {
				if _, err := telemetry.Encode(c.statusWithChallenge()); err != nil {
					b.Fatal(err)
				}
			}
		}},
	} {
		for _, users := range []int{10, 100, 1000, 4096} {
			b.Run(fmt.Sprintf("stage=%s/users=%d", stage.name, users), func(b *testing.B) {
				run := stage.begin(b, newCrowd(b, users))
				run()
				b.ReportAllocs()
				began := cpuTime()
				for b.Loop() {
					run()
				}
				b.ReportMetric(float64(cpuTime()-began)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

func (c *crowd) statusWithChallenge() telemetry.Status {
	s := c.status(c.views)
	s.Challenge = telemetry.NewChallenge()
	return s
}

// writeRows writes a slot to a ledger, with what the estimator is restored from or without.
func writeRows(b *testing.B, c *crowd, seen bool) func() {
	l, err := ledger.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	c.report()
	c.decideOn()
	rows, state := c.settleResults(), c.ledgerState()
	if seen {
		var believed belief.Belief
		believed.Resize(&c.current.snapshot)
		for i := range believed.Users {
			for m := range c.views {
				believed.Users[i].SetLink(m, -25, 0.5)
			}
		}
		rows[0].Seen = account.NewSeen(&c.current.snapshot, c.names, nil, &believed, &c.Policy.Physics.Channel)
	}
	return func() {
		rows[0].Slot++
		if err := l.WriteRows(state, rows); err != nil {
			b.Fatal(err)
		}
	}
}
