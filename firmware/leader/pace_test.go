package leader

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"prefdt/firmware/clock"
	"prefdt/firmware/link"
	"prefdt/firmware/users"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

func TestPace(t *testing.T) {
	const window = 500 * time.Millisecond
	type took struct {
		users int
		took  time.Duration
	}
	for _, c := range []struct {
		name string
		seen []took
		want int
	}{
		{"nothing is known", nil, users.MaxPerSlot},
		{"a millisecond a user", []took{{436, 500 * time.Millisecond}}, 436},
		{"few users say what many take", []took{{0, 6400 * time.Microsecond}}, 4936},
		{"slower is believed at once", []took{{136, 20 * time.Millisecond}, {136, 400 * time.Millisecond}}, 186},
		{"faster by halves", []took{{136, 400 * time.Millisecond}, {136, 0}}, 436},
		{"no fewer than cutting helps", []took{{10, 10 * time.Second}}, fixedUsers},
	} {
		var p pace
		for _, s := range c.seen {
			p.observe(s.users, s.took)
		}
		p.begin(7 * time.Second)
		if got := p.most(7*time.Second + window); got != c.want {
			t.Errorf("%s: %d users, want %d", c.name, got, c.want)
		}
	}
}

// A slot is measured until the broker has its last decision or, where it has not got it by the
// close of the next window, until then.
func TestPaceIsMeasuredToTheBroker(t *testing.T) {
	for _, c := range []struct {
		name      string
		delivered time.Duration // 0: not
		want      time.Duration
	}{{"delivered", 1100 * time.Millisecond, time.Millisecond}, {"not yet", 0, 10 * time.Millisecond}} {
		var p pace
		p.begin(time.Second)
		done := make(chan time.Duration, 1)
		p.users, p.delivered = 100-fixedUsers, done
		if c.delivered > 0 {
			done <- c.delivered
		}
		p.begin(2 * time.Second)
		if p.perUser != c.want || p.delivered != nil {
			t.Errorf("%s: %v a user, want %v", c.name, p.perUser, c.want)
		}
	}
}

// manualClock goes on only when it is set.
type manualClock struct {
	clock.Clock
	now time.Duration
}

func (c *manualClock) Now() time.Duration { return c.now }

// slowBoard is a scheduler that takes so long for each user.
type slowBoard struct {
	offloadAll
	clock   *manualClock
	perUser time.Duration
}

func (b *slowBoard) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Observation {
	b.clock.now += b.perUser * time.Duration(len(s.Users))
	return b.offloadAll.Decide(s, o, d)
}

func (b *slowBoard) Reset() {}

// On a board that cannot decide for all users in time, every slot is decided in time, the
// first too: for as many users as fit, each in its turn; the others are counted in the slot's
// row. They compute locally in the first slot, whose offer was made for few, and keep the
// offers after it, which are made for them. None has a decision too late.
func TestSlowBoardKeepsTheDeadline(t *testing.T) {
	const crowd, slots, fit, cautious = 1000, 16, 400, 4 // the first slots are decided for fewer than fit
	p := physics.DefaultConstants()
	board := &slowBoard{offloadAll: offloadAll{p}, clock: &manualClock{}, perUser: 500 * time.Millisecond / (fit + fixedUsers)}
	l := newInPhase(t, telemetry.StateFlying, board, p, &loadCheckpoint(t).GoalConstants)
	l.Clock, l.Config.ReportByMS, l.Config.DecideByMS = board.clock, 300, 800
	l.pace.measureBoard(&l.Policy, l.Config.Slots, len(l.Config.Aircraft), l.Clock)
	decided := map[string]int{} // slots in which a user was
	for n := range slots {
		board.clock.now = time.Duration(n+1) * time.Second
		l.current.decided, l.current.decideBy = false, board.clock.now+milliseconds(l.Config.DecideByMS)
		l.users.OpenSlot(n)
		l.users.Offer(n, l.appendServing(nil, n, l.views))
		for u := range crowd {
			r := telemetry.Report{
				Slot: n, PositionM: [2]float64{float64(u), 500}, CPUHz: 1e9, Gain: map[int]float64{1: 1e-9, 2: 1e-9},
				Task: &telemetry.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.9},
			}
			l.handleUserMessage(link.UserMessage{User: fmt.Sprintf("u%04d", u), Report: &r}, true)
		}
		board.clock.now += milliseconds(l.Config.ReportByMS)
		expireResults(n, &l.account, &l.users)
		names := l.pace.limit(&l.users, &l.current.snapshot, l.buildSnapshot(n, l.views), l.Clock.Now(), l.current.decideBy)
		names = l.decide(n, names, l.views)
		told := l.publishDecisions(n, names)
		sent := l.pace.users
		if want := map[bool]int{true: crowd, false: sent}[n == 0]; told != want {
			t.Errorf("slot %d: %d users were sent decisions, want %d", n, told, want)
		}
		for _, u := range l.current.decision.Users[sent:] {
			if u.Server != 0 || u.Offload != 0 || u.CompletionS != 1 {
				t.Fatalf("slot %d: a user that there was no time for: %+v", n, u)
			}
		}
		delivered := make(chan time.Duration, 1) // the broker has them at once
		delivered <- board.clock.now
		l.pace.users, l.pace.delivered = sent, delivered
		for i := range sent {
			decided[names[i]]++
		}
		rows, _ := l.settle(n)
		row := rows[0]
		if sent == 0 || n >= cautious && sent < fit/2 || board.clock.now >= l.current.decideBy {
			t.Errorf("slot %d: %d decisions, want %d or so, %v before the deadline", n, sent, fit, l.current.decideBy-board.clock.now)
		}
		if row.Undecided != crowd-sent || row.Reported != crowd {
			t.Errorf("slot %d: %d of %d users are undecided in the row, want %d", n, row.Undecided, row.Reported, crowd-sent)
		}
	}
	least, most := slots, 0
	for u := range crowd {
		k := decided[fmt.Sprintf("u%04d", u)]
		least, most = min(least, k), max(most, k)
	}
	if least < 1 || most-least > 1 {
		t.Errorf("a user was decided for in %d to %d slots", least, most)
	}
}

// The warning of undecided users tells a crowd from a slot that was late, by how much, whatever its users.
func TestWhyUsersAreUndecided(t *testing.T) {
	p := physics.DefaultConstants()
	for _, c := range []struct {
		name          string
		users         int
		stall         time.Duration // of the decision
		want, notWant string
	}{
		{"four users, in time", 4, 499 * time.Millisecond, "", "level=WARN"},
		{"four users, the board stalled", 4, 512 * time.Millisecond, `msg="the decision was not finished by decide_by_ms: the board was ` +
			`busy, or is too slow for its users; some compute locally or keep the offer" slot=7 undecided=4 users=4 late=12ms`, "too many"},
		{"a crowd, in time", 1000, 499 * time.Millisecond, `msg="too many users for this board; some compute locally or keep the ` +
			`offer" slot=7 undecided=564 users=1000` + "\n", "late"},
	} {
		var out strings.Builder
		clock := &manualClock{now: 7 * time.Second}
		board := &slowBoard{offloadAll: offloadAll{p}, clock: clock}
		l := newInPhase(t, telemetry.StateFlying, board, p, &loadCheckpoint(t).GoalConstants)
		l.Clock, l.Log, l.Config.ReportByMS = clock, slog.New(slog.NewTextHandler(&out, nil)), 300
		l.pace.observe(436, 500*time.Millisecond)
		l.current.decideBy = clock.now + 800*time.Millisecond
		l.users.OpenSlot(7)
		l.users.Offer(7, l.appendServing(nil, 7, l.views))
		for u := range c.users {
			l.handleUserMessage(link.UserMessage{User: fmt.Sprintf("u%04d", u), Report: &telemetry.Report{
				Slot: 7, PositionM: [2]float64{500, 500}, CPUHz: 1e9, Gain: map[int]float64{1: 1e-9, 2: 1e-9},
				Task: &telemetry.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.9},
			}}, true)
		}
		clock.now += milliseconds(l.Config.ReportByMS)
		names := l.pace.limit(&l.users, &l.current.snapshot, l.buildSnapshot(7, l.views), l.Clock.Now(), l.current.decideBy)
		board.perUser = c.stall / time.Duration(len(names))
		l.publishDecisions(7, l.decide(7, names, l.views))
		if got := out.String(); !strings.Contains(got, c.want) || strings.Contains(got, c.notWant) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
