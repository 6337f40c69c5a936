// Package leader flies a mission: it receives users' tasks over MQTT, decides
// with a frozen policy, and commands users and autopilots, slot by slot, within
// a budget of joules. The slot itself is in slot.go; read that first.
//
// Each concern has a package of its own, and its own state: mission (what state
// the mission is in), schedule (which slot is open), users (snapshot and offer),
// account (joules and delays), crew (commands), link (MQTT), fleet (MAVLink).
// The leader is the loop that carries a slot from one to the next; whatever
// arrives is checked where it arrives and handed to it, so nothing here is
// shared between goroutines.
package leader

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/firmware/account"
	"prefdt/firmware/clock"
	"prefdt/firmware/config"
	"prefdt/firmware/crew"
	"prefdt/firmware/fleet"
	"prefdt/firmware/ledger"
	"prefdt/firmware/link"
	"prefdt/firmware/mission"
	"prefdt/firmware/schedule"
	"prefdt/firmware/users"
	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/record"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// Scheduler is the frozen policy, or what stands in for it in a test.
type Scheduler interface {
	Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Seen
}

// Policy is the frozen policy and what its checkpoint says of the world.
type Policy struct {
	Scheduler
	Physics physics.Constants
	Scales  *goal.Scales
	Prior   dispatch.Crowd // of users, before any was received
}

// Leader is one mission. Set the exported fields, then Run.
type Leader struct {
	Config config.Config
	Policy Policy
	Clock  clock.Clock
	Log    *slog.Logger
	Turned func(Report)                    // called after every turn of the loop; nil: nobody asks
	Record func(goal.State) *record.Writer // begins a record of Run's first mission, slot by slot and whole; nil: none

	fleet    *fleet.Fleet
	link     *link.Link
	journal  journal
	mission  mission.Mission
	schedule schedule.Schedule
	account  account.Account
	users    users.Users
	crew     crew.Crew

	views []fleet.View // of the aircraft, as of the last refresh
	now   present
}

// present is what the loop knows of the slot in progress, and of the turn.
type present struct {
	snapshot  slot.Snapshot
	offered   bool // an aircraft was on offer
	decision  slot.Decision
	decided   bool // a command takes effect in the next slot
	lastRow   account.Row
	turns     int           // of the loop since Run
	tickedAt  time.Duration // the last tick
	seq       int64         // of the last status
	setting   float64       // in force, or what the budget amounts to
	rejoining []fleet.Saved // aircraft that flew for us before a restart and were not received since
	yield     error         // another leader was there first
}

// Run flies the mission until ctx ends or, if so configured, it is over.
func (l *Leader) Run(ctx context.Context) error {
	saved, found, err := l.open()
	if err != nil {
		return err
	}
	defer l.journal.close()
	if err := l.begin(saved, found); err != nil {
		return err
	}
	inFlight := l.mission.InFlight() || slices.ContainsFunc(saved.Fleet, func(a fleet.Saved) bool { return a.Ours || a.Homing })
	// Another leader is listened for before the links are opened: they may be its.
	if err := l.link.Start(ctx, inFlight, l.fleet.Stream); err != nil {
		return err
	}
	defer l.link.Close()
	if err := l.fleet.Start(); err != nil {
		return err
	}
	defer l.fleet.Close()
	defer l.endRecord()
	l.crew.Publish = l.link.Ack
	l.now.tickedAt = l.Clock.Now()
	if inFlight {
		l.rejoin(ctx, saved)
	}
	l.Log.Info("leader ready", "fleet", l.Config.Fleet, "mission", l.mission.ID(), "state", l.mission.Phase(), "slots", l.Config.Slots, "speed", l.Config.Speed())
	l.turned()
	for ctx.Err() == nil && !l.over() && l.now.yield == nil {
		l.now.turns++
		if l.mission.InSlots() {
			l.slot(ctx)
		} else {
			l.idle(ctx)
		}
		l.turned()
	}
	return l.now.yield
}

// open opens what Run needs before it can know its mission.
func (l *Leader) open() (saved ledger.State, found bool, err error) {
	c := &l.Config
	l.Log = slog.New(fleet.Announcer{Handler: l.Log.Handler(), Say: func(severity common.MAV_SEVERITY, text string) {
		if l.fleet != nil {
			l.fleet.Say(severity, text)
		}
	}})
	f, err := NewFleet(c, l.Policy.Physics, l.Clock, l.Log)
	if err != nil {
		return saved, false, err
	}
	l.fleet = f
	keys, err := c.PublicKeys()
	if err != nil {
		return saved, false, err
	}
	if len(keys) == 0 && !c.Unsigned() {
		l.Log.Warn("no commands will be obeyed: commands.keys is empty and unsigned ones are not accepted")
	}
	l.link = &link.Link{
		Broker: c.Broker, Fleet: c.Fleet, Slot: c.Wall(1), Keys: crew.Keys{Public: keys, Unsigned: c.Unsigned()}, Clock: l.Clock, Log: l.Log,
	}
	if c.LeaderKey != "" {
		if l.link.Identity, err = telemetry.ReadKey(c.LeaderKey); err != nil {
			return saved, false, fmt.Errorf("leader_key: %w", err)
		}
	}
	l.mission.Limits = mission.Limits{
		ClimbS: c.Flight.ClimbS, BrokerHoldS: c.Flight.BrokerHoldS, BrokerReturnS: c.Flight.BrokerReturnS,
		CrewHoldS: c.Flight.CrewHoldS, CrewReturnS: c.Flight.CrewReturnS,
	}
	l.schedule = schedule.Schedule{Slots: c.Slots, Slot: c.Wall(1), DecideBy: l.wallMS(c.DecideByMS)}
	l.account = account.Account{Physics: l.Policy.Physics, Scales: l.Policy.Scales, ReserveJ: c.Flight.ReserveJ, SpeedMaxMPS: c.Flight.SpeedMaxMPS}
	l.users = users.Users{Max: c.Users.Max, Allow: c.Users.Allow, Physics: l.Policy.Physics, Prior: l.Policy.Prior}
	l.users.Initialize()
	if err := l.journal.open(c, l.Clock, l.Log); err != nil {
		return saved, false, err
	}
	l.crew = crew.Crew{Mission: orders{l}, Ledger: l.journal.ledger, Clock: l.Clock, Log: l.Log}
	if saved, found, err = l.journal.ledger.Load(); err == nil {
		err = l.crew.Initialize(saved.LastCommand)
	}
	if err != nil {
		l.journal.close()
	}
	return saved, found, err
}

// idle is one mission second outside the slots.
func (l *Leader) idle(ctx context.Context) {
	l.collect(ctx, l.Clock.Now()+min(l.Config.Wall(1), statusEvery))
	l.refresh()
	l.account.Transit(l.views)
	if l.mission.Phase() == telemetry.StateClimbing {
		l.climb()
	}
	l.tick()
	l.refer(l.Clock.Now())
	l.record(nil)
	if l.mission.InSlots() {
		l.committed() // slot 0 is opened once only: the ledger has it before users do
	}
}

// statusEvery is how often a status goes out, at least (CONTRACT: 5 s).
const statusEvery = 4 * time.Second

// climb directs the aircraft to their starts.
func (l *Leader) climb() {
	for i := range l.views {
		v := &l.views[i]
		if !v.Ours() {
			continue
		}
		l.fleet.Goto(v.Number, l.Config.Start(v.Number, l.Policy.Physics.AreaM))
		if v.InAir && l.account.SpareJ(v) < 0 {
			l.sendHome(v, "battery low in the climb")
		}
	}
}

// facts are what a mission second brought.
func (l *Leader) facts() mission.Facts {
	now := l.Clock.Now()
	wall := (now - l.now.tickedAt).Seconds()
	l.now.tickedAt = now
	f := mission.Facts{MissionS: wall * l.Config.Speed(), WallS: wall, Connected: l.link.Connected(), Landed: l.landed()}
	for i := range l.views {
		v := &l.views[i]
		if !v.Ours() {
			continue
		}
		if v.Flying && v.Position.Sub(l.Config.Start(v.Number, l.Policy.Physics.AreaM)).Norm() < 3 && v.SpeedMPS < 3 {
			f.Ready++
		} else {
			f.Waiting++
		}
	}
	return f
}

// tick lets the mission take in that time has passed, and does what follows.
func (l *Leader) tick() {
	l.rejoinLate()
	phase := l.mission.Phase()
	c := l.mission.Tick(l.facts())
	if c.Reason == "" {
		return
	}
	level := slog.LevelWarn
	if c.Expected {
		level = slog.LevelInfo
	}
	l.Log.Log(context.Background(), level, c.Reason, "from", phase, "slot", l.schedule.Open())
	l.perform(phase, c.Effect)
}

// perform carries out the effect of a change of the mission's state, and logs it.
func (l *Leader) perform(from string, e mission.Effect) {
	l.refresh()
	switch e {
	case mission.Launch:
		for i := range l.views {
			if err := l.fleet.Launch(i + 1); err != nil { // it was ready a moment ago
				l.Log.Error("aircraft stays on the ground", "aircraft", i+1, "reason", err)
			}
		}
	case mission.BeginSlots:
		l.beginSlots()
	case mission.HoldFleet:
		for i := range l.views {
			l.fleet.Hold(i + 1)
		}
	case mission.Home:
		for i := range l.views {
			if l.views[i].Order != fleet.OrderNone {
				l.fleet.Command(i+1, fleet.OrderHome)
			}
		}
	case mission.Stop:
		for i := range l.views {
			l.fleet.Command(i+1, fleet.OrderStop)
		}
	}
	l.refresh()
	if to := l.mission.Phase(); to != from {
		l.Log.Info("mission", "from", from, "to", to, "slot", l.schedule.Open())
	}
}

// beginSlots makes this moment the start of slot 0. Whoever is not at its start
// stays behind.
func (l *Leader) beginSlots() {
	flying := 0
	for i := range l.views {
		v := &l.views[i]
		switch {
		case !v.Ours():
		case v.Flying:
			flying++
		default:
			l.sendHome(v, "did not reach its start; the mission begins without it")
		}
	}
	l.schedule.Begin(l.Clock.Now())
	l.account.BeginSlots(l.views, flying)
	l.refer(l.Clock.Now())
}

func (l *Leader) sendHome(v *fleet.View, why string) {
	l.Log.Error("aircraft returns: "+why, "aircraft", v.Number)
	l.fleet.Command(v.Number, fleet.OrderHome)
}

// silentTurns is how long a restarted leader waits for an aircraft's first word.
const silentTurns = 30

// landed is whether no aircraft of ours is still on its way home.
func (l *Leader) landed() bool {
	for i := range l.views {
		v := &l.views[i]
		if v.Order == fleet.OrderHome && !v.Pilot() && !v.Lost && (v.Heard || l.now.turns < silentTurns) {
			return false
		}
	}
	return true
}

func (l *Leader) over() bool {
	return l.Config.ExitWhenDone && l.mission.Phase() == telemetry.StateDone && l.landed()
}

// refresh reads the fleet's present state.
func (l *Leader) refresh() { l.views = l.fleet.Views(l.views[:0]) }

func (l *Leader) wallMS(ms float64) time.Duration {
	return time.Duration(ms * float64(time.Millisecond))
}
