package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/frame"

	"prefdt/firmware/clock"
	"prefdt/firmware/energy"
	"prefdt/firmware/fleet"
	"prefdt/firmware/ledger"
	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// scheduler is the frozen policy, or what stands in for it in a test.
type scheduler interface {
	Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Seen
}

// Leader is one mission. Set the exported fields, then Run.
type Leader struct {
	Config    Config
	Physics   physics.Constants
	Scales    *goal.Scales
	Usual     dispatch.Crowd // what the checkpoint knows of users
	Scheduler scheduler
	Clock     clock.Clock
	Log       *slog.Logger

	monitor *monitor // systemd's watchdog, metrics and health; nil: none

	key    *frame.V2Key
	fleet  *fleet.Fleet
	broker *broker
	ledger *ledger.Ledger
	users  roster
	goal   goal.Objective

	state    string
	autoHold bool          // held because the broker was gone, not by the crew
	epoch    time.Duration // on Clock, when slot 0 began
	open     int           // the slot open or to be opened next
	decided  bool          // its decision was made: a command takes effect in the next
	missed   int
	climbS   float64 // mission time spent climbing
	awayS    float64 // mission time without the broker
	seq      int64
	craft    []craft
	views    []fleet.View

	forecast dispatch.Forecast
	onOffer  []slot.Aircraft
	snapshot slot.Snapshot
	decision slot.Decision
	books    map[int]*book // by slot, while results may still correct it
	price    float64       // of the last decision
	localS   float64       // the last slot's delay, had all been computed locally
	lastRow  ledger.Row
	setting  float64 // in force, or what the budget amounts to

	yield       error             // another leader was there first
	unsaved     map[string][]byte // acknowledgements that did not reach the disk
	batch       []applied         // commands that wait for the disk
	beforeBatch goal.State        // the request before them
	awake       int               // beats and slots since Run

	decisionMS float64    // of the open slot
	pending    chan error // a transaction on its way to the disk, or nil
	ledgerMS   float64    // the last one took, to tell a slow disk from a slow machine
	pendingAt  time.Duration
}

// craft is one aircraft's account.
type craft struct {
	bookedJ     float64 // of its meter's total
	modelJ      float64 // of its closed form, likewise
	spentJ      float64 // in slots
	startErrorJ float64 // how far off the meter may have been when they began
	transitJ    float64 // before, after and between missions' slots
	source      energy.Source
	served      int
	bootMS      float64 // autopilot's time when slot `open` began
	msPerS      float64
}

// Run flies the mission until ctx ends or, if so configured, it is over.
func (l *Leader) Run(ctx context.Context) (err error) {
	l.books = map[int]*book{}
	l.users.init(l.Config.Users)
	if l.Config.MAVLink.KeyFile != "" {
		if l.key, err = fleet.ReadKey(l.Config.MAVLink.KeyFile); err != nil {
			return fmt.Errorf("mavlink.key_file: %w", err)
		}
	}
	l.Log = slog.New(fleet.Announcer{Handler: l.Log.Handler(), Say: func(severity common.MAV_SEVERITY, text string) {
		if l.fleet != nil {
			l.fleet.Say(severity, text)
		}
	}})
	l.unsaved = map[string][]byte{}
	l.craft = make([]craft, len(l.Config.Aircraft))
	l.forecast.Usual = l.Usual
	l.price = dispatch.OpeningPriceSPerJ
	if l.ledger, err = ledger.Open(l.Config.StateDir); err != nil {
		return err
	}
	if l.ledger.Torn != "" {
		l.Log.Error("the ledger's last transaction was torn; going on from the one before", "reason", l.ledger.Torn)
	}
	l.ledger.Keep(l.Config.LedgerMB * 1e6)
	defer l.ledger.Close()
	defer l.durable()
	saved, found, err := l.ledger.Load()
	if err != nil {
		return err
	}
	f := l.newFleet()
	if err := f.Initialize(); err != nil {
		return err
	}
	l.fleet = f
	if err := l.restore(saved, found); err != nil {
		return err
	}
	if err := l.connect(ctx); err != nil {
		return err
	}
	defer l.broker.close()
	if err := l.fleet.Start(); err != nil {
		return err
	}
	defer l.fleet.Close()
	if l.state == telemetry.StateIdle {
		l.fleet.Stream()
	} else {
		l.rejoin(ctx, saved)
	}
	l.Log.Info("leader ready", "fleet", l.Config.Fleet, "mission", l.Config.Mission, "state", l.state, "slots", l.Config.Slots, "speed", l.Config.Speed())
	l.monitor.feed()
	for ctx.Err() == nil && !l.over() && l.yield == nil {
		l.awake++
		switch l.state {
		case telemetry.StateFlying, telemetry.StateHolding:
			err = l.slot(ctx)
		default:
			err = l.beat(ctx)
		}
		if err != nil {
			return err
		}
		l.monitor.feed()
	}
	return l.yield
}

// beat is one mission second outside the slots.
func (l *Leader) beat(ctx context.Context) error {
	l.collect(ctx, l.Clock.Now()+l.slotWall())
	l.look()
	l.bookTransit()
	switch l.state {
	case telemetry.StateClimbing:
		if err := l.climb(); err != nil {
			return err
		}
	case telemetry.StateReturning:
		if l.landed() {
			l.enter(telemetry.StateDone)
		}
	}
	l.guardBroker(1)
	l.anchorAt(l.Clock.Now())
	l.record(nil)
	return nil
}

// climb waits for the aircraft at their starts, then opens slot 0.
func (l *Leader) climb() error {
	l.climbS++
	ready, waiting := 0, 0
	for i := range l.views {
		v := &l.views[i]
		if v.Order != fleet.OrderFly || v.Phase == fleet.PhaseTaken || v.Lost {
			continue
		}
		start := l.Config.Start(v.Number, l.Physics.AreaM)
		l.fleet.Goto(v.Number, start)
		if v.Flying && v.Position.Sub(start).Norm() < 3 && v.SpeedMPS < 3 {
			ready++
		} else {
			waiting++
		}
	}
	switch {
	case (waiting > 0 || ready == 0) && l.climbS < l.Config.Flight.ClimbS: // with none left, resume may bring one back
		return nil
	case ready == 0:
		l.Log.Error("no aircraft reached its start; returning", "climb_s", l.climbS)
		l.goHome(telemetry.StateReturning)
		return nil
	case waiting > 0:
		for i := range l.views {
			if v := &l.views[i]; v.Order == fleet.OrderFly && !v.Flying {
				l.Log.Error("aircraft did not reach its start; the mission begins without it", "aircraft", v.Number)
				l.fleet.Command(v.Number, fleet.OrderHome)
			}
		}
	}
	return l.beginSlots(ready)
}

// beginSlots makes this moment the start of slot 0.
func (l *Leader) beginSlots(flying int) error {
	l.goal.SetFlying(flying)
	if !l.goal.Budgeted() {
		if err := l.goal.Prefer(l.goal.Setting()); err != nil {
			return err
		}
	}
	l.epoch, l.open = l.Clock.Now(), 0
	l.anchor()
	for i := range l.views {
		l.craft[i].startErrorJ = l.views[i].ErrorJ
	}
	l.enter(telemetry.StateFlying)
	return nil
}

// guardBroker holds, and then returns, a fleet whose broker is gone.
func (l *Leader) guardBroker(elapsedS float64) {
	if l.broker.connected() {
		if l.awayS > 0 {
			l.Log.Warn("broker back", "away_s", l.awayS)
		}
		l.awayS = 0
		if l.autoHold && l.state == telemetry.StateHolding {
			l.enter(telemetry.StateFlying)
		}
		l.autoHold = false
		return
	}
	l.awayS += elapsedS
	switch {
	case l.state == telemetry.StateFlying && l.awayS >= l.Config.Flight.BrokerHoldS:
		l.Log.Error("broker gone; holding", "away_s", l.awayS)
		l.autoHold = true
		l.enter(telemetry.StateHolding)
	case (l.state == telemetry.StateHolding || l.state == telemetry.StateClimbing) && l.awayS >= l.Config.Flight.BrokerReturnS:
		l.Log.Error("broker gone; returning", "away_s", l.awayS)
		l.goHome(telemetry.StateReturning)
	}
}

// goHome sends every aircraft that is ours home.
func (l *Leader) goHome(state string) {
	l.look()
	for i := range l.views {
		if l.views[i].Order != fleet.OrderNone {
			l.fleet.Command(i+1, fleet.OrderHome)
		}
	}
	l.enter(state)
	l.look()
}

// unheardBeats is how long a restarted leader waits for an aircraft's first word.
const unheardBeats = 30

// landed is whether no aircraft of ours is still on its way home.
func (l *Leader) landed() bool {
	for i := range l.views {
		v := &l.views[i]
		if v.Order == fleet.OrderHome && v.Phase != fleet.PhaseTaken && !v.Lost && (v.Heard || l.awake < unheardBeats) {
			return false
		}
	}
	return true
}

func (l *Leader) over() bool {
	return l.Config.ExitWhenDone && l.state == telemetry.StateDone && l.landed()
}

func (l *Leader) enter(state string) {
	if l.state == state {
		return
	}
	l.Log.Info("mission", "from", l.state, "to", state, "slot", l.open)
	l.state = state
}

// look takes the fleet's present state.
func (l *Leader) look() { l.views = l.fleet.Views(l.views[:0]) }

func (l *Leader) slotWall() time.Duration { return l.Config.Wall(1) }

// startOf is when a slot begins, on the clock.
func (l *Leader) startOf(n int) time.Duration { return l.epoch + time.Duration(n)*l.slotWall() }

func (l *Leader) newFleet() *fleet.Fleet {
	c := &l.Config
	f := &fleet.Fleet{
		SystemID: c.MAVLink.SystemID, Origin: c.Origin, Physics: l.Physics, Speed: c.Speed(),
		Limits: limits(c, &l.Physics), Clock: l.Clock, Log: l.Log, Key: l.key,
	}
	for _, a := range c.Aircraft {
		f.Aircraft = append(f.Aircraft, fleet.Aircraft{SystemID: a.SystemID, Endpoint: a.Endpoint})
	}
	return f
}

// checkMission says why a ledger's mission is not this one.
func (l *Leader) checkMission(s ledger.State) error {
	switch {
	case s.Goal.Slots != l.Config.Slots:
		return fmt.Errorf("mission %s was begun with %d slots, the configuration says %d", s.Mission, s.Goal.Slots, l.Config.Slots)
	case len(s.Aircraft) != len(l.Config.Aircraft):
		return fmt.Errorf("mission %s was begun with %d aircraft, the configuration says %d", s.Mission, len(s.Aircraft), len(l.Config.Aircraft))
	}
	for i, a := range s.Aircraft {
		if a.SystemID != l.Config.Aircraft[i].SystemID {
			return fmt.Errorf("mission %s was begun with system %d as aircraft %d, the configuration says %d", s.Mission, a.SystemID, i+1, l.Config.Aircraft[i].SystemID)
		}
	}
	return nil
}
