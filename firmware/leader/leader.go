// Package leader is the loop of a mission: slot by slot it collects users' tasks,
// decides with a frozen policy within a budget of joules, and commands users and
// autopilots. The slot itself is runSlot in slot.go; read that first.
//
// Inputs: a configuration, a frozen policy, a clock, and a ledger of an earlier
// run if there is one; in flight, checked messages from MQTT (link) and the
// aircraft's measured state from MAVLink (fleet). Outputs: beacons, decisions,
// acknowledgements and statuses on MQTT, setpoints and mode changes on MAVLink, a
// row per slot in the ledger, and a LoopReport after each iteration. Called by the
// program in package main, and by the tests' rig.
//
// Each concern has a package of its own, with its own state (docs/architecture.md). All
// of them but link and fleet are used by the loop's goroutine alone.
package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/firmware/account"
	"prefdt/firmware/clock"
	"prefdt/firmware/config"
	"prefdt/firmware/crew"
	"prefdt/firmware/envelope"
	"prefdt/firmware/fleet"
	"prefdt/firmware/height"
	"prefdt/firmware/ledger"
	"prefdt/firmware/link"
	"prefdt/firmware/mission"
	"prefdt/firmware/schedule"
	"prefdt/firmware/users"
	"prefdt/firmware/workers"
	"prefdt/inference/belief/learned"
	"prefdt/inference/physics"
	"prefdt/inference/record"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// Leader is one mission. Set the exported fields, then Run.
type Leader struct {
	Config      config.Config
	Policy      Policy
	Clock       clock.Clock
	Log         *slog.Logger
	WallClock   func() time.Time // stamps the record and decides nothing; nil: time.Now
	OnIteration func(LoopReport) // called after every iteration of the loop; nil: not called
	// Endpoint returns how an aircraft's endpoint is reached; nil: as it says
	Endpoint   func(string) (gomavlib.EndpointConf, error)
	Disk       func(write func() error) error // of the ledger, see [ledger.Ledger]; nil: the machine's
	OpenRecord func() *record.Writer          // begins a complete record of the slots of Run's first mission; nil: none
	Early      *Early                         // sends HEARTBEATs until Run opens the links; nil: none does

	fleet        *fleet.Fleet
	mqtt         *link.MQTT
	ledgerWriter ledgerWriter
	mission      mission.Mission
	schedule     schedule.Schedule
	account      account.Account
	air          *learned.MeasuredAir
	users        users.Users
	workers      workers.Workers
	crew         crew.Handler
	pace         pace
	duty         dutyPlan

	current loopState
}

// loopState is the state of the slot in progress and of the loop's iteration.
type loopState struct {
	decisions
	snapshot        slot.Snapshot
	decideBy        time.Duration // when the slot's users take the offer
	offeredAircraft bool          // the slot's beacon offered at least one aircraft
	decision        slot.Decision
	decided         bool // the slot is decided: a command takes effect in the next one
	lastRow         account.Row
	iterations      int                   // since Run began
	lastTickAt      time.Duration         // when tickInput was last read
	statusSeq       int64                 // sequence number of the last status
	setting         float64               // in force, or what the budget amounts to
	yieldReason     error                 // another leader already leads this fleet
	deferred        []link.ControlMessage // that arrived while the ledger was written
	lastBeacon      int                   // slot of the last beacon
	reachedBroker   bool                  // since Run began
	dangerSince     map[dangerKey]int     // the slot from which on each danger of the last status was one
	warnedOfFlight  bool                  // flight takes more, or less, than the checkpoint expects
}

// Run flies the mission until ctx ends or, if so configured, it is over.
func (l *Leader) Run(ctx context.Context) error {
	saved, found, err := l.initialize()
	if err != nil {
		return err
	}
	defer func() { l.ledgerWriter.close(&l.mission, l.fleet, l.Log) }()
	l.pace.measureBoard(&l.Policy, l.Config.Slots, len(l.Config.Aircraft), l.Clock)
	if err := l.beginOrContinue(saved, found); err != nil {
		return err
	}
	inFlight := l.mission.InFlight() || saved.InFlight()
	// Listen for another leader before the links are opened: it may be using them.
	defer l.mqtt.Close()
	if err := l.mqtt.Start(ctx, inFlight, l.fleet.StartStreaming); ctx.Err() != nil {
		return nil // asked to end while it waited for the broker
	} else if err != nil {
		return err
	}
	l.Early.Close() // it has the links
	early := newAllowance(l.Config.StateDir, l.Disk, l.Log)
	if inFlight {
		l.fleet.MayBeat = early.take
		early.fetch()
	}
	if err := l.fleet.Start(); err != nil {
		return err
	}
	defer l.fleet.Close()
	defer l.endRecord()
	l.crew.Publish = l.mqtt.PublishAck
	l.current.lastTickAt = l.Clock.Now()
	if inFlight {
		l.rejoinFleet(ctx, saved)
		if ctx.Err() == nil && l.current.yieldReason == nil {
			l.fleet.SetCommanding()
			early.renew()
		}
	}
	l.Log.Info("leader ready", "fleet", l.Config.Fleet, "mission", l.mission.ID(), "state", l.mission.Phase(), "slots", l.Config.Slots,
		"speed", l.Config.SpeedFactor())
	l.reportIteration()
	for ctx.Err() == nil && l.current.yieldReason == nil {
		if l.Config.ExitWhenDone && l.mission.Phase() == telemetry.StateDone && allLanded(l.fleet.Views()) {
			break
		}
		l.current.iterations++
		if l.mission.InSlots() {
			l.runSlot(ctx)
		} else {
			l.idleTick(ctx)
		}
		l.reportIteration()
	}
	if ctx.Err() == nil && l.current.yieldReason == nil {
		l.waitForCommit() // its status is the last, of a mission that is done
	}
	return l.current.yieldReason
}

// initialize opens everything Run needs before it can choose its mission.
func (l *Leader) initialize() (saved ledger.State, found bool, err error) {
	c := &l.Config
	if l.WallClock == nil {
		l.WallClock = time.Now
	}
	l.Log = slog.New(fleet.StatusTextHandler{Handler: l.Log.Handler(), Announce: func(severity common.MAV_SEVERITY, text string) {
		if l.fleet != nil {
			l.fleet.AnnounceText(severity, text)
		}
	}})
	if err := c.CheckStarts(l.Policy.Physics.AreaSideM); err != nil {
		return saved, false, err
	}
	f, err := NewFleet(c, l.Policy.Physics, l.Clock, l.Log)
	if err != nil {
		return saved, false, err
	}
	f.Endpoint = l.Endpoint
	l.fleet = f
	keys, err := c.PublicKeys()
	if err != nil {
		return saved, false, err
	}
	if why := c.NoCommands(); why != "" {
		l.Log.Warn(why)
	}
	l.mqtt = &link.MQTT{
		Broker: c.Broker, Fleet: c.Fleet, SlotDuration: c.WallTime(1), Keys: crew.Keys{Public: keys, AcceptUnsigned: c.AcceptsUnsigned()},
		Clock: l.Clock, Log: l.Log,
	}
	if c.LeaderKeyFile != "" {
		if l.mqtt.LeaderKey, err = telemetry.ReadKey(c.LeaderKeyFile); err != nil {
			return saved, false, fmt.Errorf("leader_key: %w", err)
		}
	}
	l.configure()
	if err := l.workers.Initialize(); err != nil {
		l.Log.Error("a worker is sent no grants", "reason", err)
	}
	l.mqtt.Workers = l.workers.Configured()
	if err := l.ledgerWriter.open(c, l.Disk, l.Log); err != nil {
		return saved, false, err
	}
	l.crew = crew.Handler{Ledger: l.ledgerWriter.ledger, Clock: l.Clock, Log: l.Log}
	saved, found, err = l.ledgerWriter.ledger.Load()
	if why := l.ledgerWriter.ledger.ReadOnlyReason; err == nil && why != "" {
		if l.Log.Error("the ledger cannot be written", "reason", why); !telemetry.UnderWay(saved.Phase) && !saved.InFlight() {
			err = errors.New(why) // with nothing in the air somebody can see to it
		}
	}
	if err != nil {
		l.ledgerWriter.ledger.Close()
	}
	l.crew.Initialize(saved.LastCommand)
	return saved, found, err
}

// separationMarginM covers the distance that two aircraft fly while a measured
// position is in transit: a tenth of a second at twice the speed of least power.
const separationMarginM = 2

// NewFleet returns the configuration's aircraft, of which nothing was received yet.
func NewFleet(c *config.Config, p physics.Constants, now clock.Clock, log *slog.Logger) (*fleet.Fleet, error) {
	f := &fleet.Fleet{
		SystemID: c.MAVLink.SystemID, Origin: c.Origin, Physics: p, Speed: c.SpeedFactor(), Clock: now, Log: log,
		Limits: envelope.Limits{
			SpeedMaxMPS: min(c.Flight.SpeedMaxMPS, p.SpeedMaxMPS), SeparationM: p.SeparationM + separationMarginM, AreaM: p.AreaSideM,
			AltitudeM: height.AboveOrigin(p.AltitudeM), BandM: 20, FenceM: 15,
		},
	}
	for _, a := range c.Aircraft {
		f.VehicleLinks = append(f.VehicleLinks, fleet.VehicleLink{SystemID: a.SystemID, Endpoint: a.Endpoint, PackJ: a.PackJ})
	}
	if c.MAVLink.KeyFile != "" {
		key, err := fleet.ReadKey(c.MAVLink.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("mavlink.key_file: %w", err)
		}
		f.Key = key
	}
	return f, f.Initialize()
}

// configure gives the packages of a mission their part of the configuration.
func (l *Leader) configure() {
	c := &l.Config
	l.mission.Limits = c.Flight.Limits
	l.schedule = schedule.Schedule{Slots: c.Slots, SlotDuration: c.WallTime(1), DecideBy: milliseconds(c.DecideByMS)}
	l.account = account.Account{Physics: l.Policy.Physics, Scales: l.Policy.Scales, OutOfDistribution: l.Policy.OutOfDistribution,
		ReserveJ: c.Flight.ReserveJ, SpeedMaxMPS: c.Flight.SpeedMaxMPS}
	l.air = learned.NewMeasuredAir(c.Surroundings.Expected(&l.Policy.Physics))
	l.users = users.Users{Max: c.Users.Max, Allow: c.Users.Allow, Physics: l.Policy.Physics, Prior: l.Policy.UserPrior,
		Claims: l.Policy.Claims}
	l.users.Initialize()
	l.workers = workers.Workers{Fleet: c.Fleet, MaxCPUHz: l.Policy.Physics.EdgeCPUHz, Workers: c.Workers()}
	l.users.CyclesPerBit = func(function, digest string) float64 { return l.workers.CyclesPerBit(function, digest, l.Clock.Now()) }
}

// idleTick is one mission second outside the slots.
func (l *Leader) idleTick(ctx context.Context) {
	l.receiveUntil(ctx, l.Clock.Now()+min(l.Config.WallTime(1), statusEvery))
	views := l.fleet.Views()
	l.account.SettleTransit(views)
	if l.mission.Phase() == telemetry.StateClimbing {
		l.climb(views)
	}
	setClockReferences(&l.schedule, l.Clock.Now(), views)
	l.endIteration(nil, views)
	if l.mission.InSlots() {
		l.waitForCommit() // slot 0 is opened once only: the ledger has it before users do
	}
}

// endIteration has the mission change its state, plans what follows, and begins to write both with these rows.
func (l *Leader) endIteration(rows []account.Row, views []fleet.View) {
	views = l.tick(views) // its change of state stands in the status of this settlement
	l.planDuty(views)
	l.startCommit(rows, views)
}

// statusEvery is the longest wall time between two statuses; docs/wire.md allows 5 s.
const statusEvery = 4 * time.Second

// climb directs the aircraft to their starts.
func (l *Leader) climb(views []fleet.View) {
	for _, v := range views {
		if !v.UnderCommand() {
			continue
		}
		if l.mission.Held() {
			l.fleet.Hold(v.Number)
		} else {
			l.fleet.Goto(v.Number, l.Config.StartPosition(v.Number, l.Policy.Physics.AreaSideM))
		}
		if v.InAir && l.account.SpareJ(&v) < 0 {
			sendHome(l.fleet, l.Log, v.Number, "battery low in the climb")
		}
	}
}

// progress is what mission.Tick needs to know of the aircraft.
func progress(c *config.Config, areaM float64, views []fleet.View) mission.TickInput {
	in := mission.TickInput{AllLanded: allLanded(views), Grounded: grounded(views)}
	for _, v := range views {
		if !v.UnderCommand() {
			continue
		}
		away := v.Position.Sub(c.StartPosition(v.Number, areaM)).Norm()
		if v.Flying && !v.Climbs && away < 3 && v.SpeedMPS < 3 {
			in.AtStart++
		} else {
			in.EnRoute++
		}
	}
	return in
}

// grounded is why no aircraft is on its way or in the air, empty if one is, or may be. A status carries no more of it.
func grounded(views []fleet.View) string {
	var reasons []string
	for i := range views {
		v := &views[i]
		if v.Phase != fleet.PhaseIdle && v.Phase != fleet.PhasePilot || v.Up() {
			return ""
		}
		reasons = append(reasons, fmt.Sprintf("aircraft %d: %s", v.Number, cmp.Or(v.Reason, "on the ground")))
	}
	text := strings.Join(reasons, "; ")
	return telemetry.Printable(text[:min(len(text), 400)])
}

// tick advances the mission's state by the time that passed, and performs the effect. It
// returns the aircraft afterwards.
func (l *Leader) tick(views []fleet.View) []fleet.View {
	views = l.rejoinAircraft(views)
	phase := l.mission.Phase()
	in, now := progress(&l.Config, l.Policy.Physics.AreaSideM, views), l.Clock.Now()
	in.Connected, in.WallS = l.mqtt.Connected(), (now - l.current.lastTickAt).Seconds()
	in.MissionS, l.current.lastTickAt = in.WallS*l.Config.SpeedFactor(), now
	c := l.mission.Tick(in)
	if c.Reason == "" {
		return views
	}
	level := slog.LevelWarn
	if c.Expected {
		level = slog.LevelInfo
	}
	l.Log.Log(context.Background(), level, c.Reason, "from", phase, "slot", l.schedule.Current())
	return l.performEffect(phase, c.Effect, views)
}

// performEffect performs the effect of a change of the mission's state, and logs it. It
// returns the aircraft afterwards.
func (l *Leader) performEffect(from string, e mission.Effect, views []fleet.View) []fleet.View {
	if e == mission.BeginSlots {
		l.beginSlots(views)
	}
	for i := range views {
		switch number := i + 1; e {
		case mission.HoldFleet:
			if from == telemetry.StateClimbing && !views[i].Armed { // it stays where it is, too: `launch` has it take off later
				l.fleet.Stop(number)
				continue
			}
			l.fleet.Hold(number)
		case mission.ReturnFleet:
			if !views[i].Homeward {
				l.fleet.SendHome(number)
			}
		case mission.StopFleet:
			l.fleet.Stop(number)
		}
	}
	if to := l.mission.Phase(); to != from {
		l.Log.Info("mission", "from", from, "to", to, "slot", l.schedule.Current())
	}
	return l.fleet.Views()
}

// beginSlots makes this moment the start of slot 0. Aircraft that are not flying
// yet are sent home.
func (l *Leader) beginSlots(views []fleet.View) {
	flying := 0
	for _, v := range views {
		switch {
		case !v.UnderCommand():
		case v.Flying:
			flying++
		default:
			sendHome(l.fleet, l.Log, v.Number, "did not reach its start; the mission begins without it")
		}
	}
	l.schedule.Begin(l.Clock.Now())
	l.account.BeginSlots(views, flying)
}

func sendHome(f *fleet.Fleet, log *slog.Logger, number int, why string) {
	log.Error("aircraft returns: "+why, "aircraft", number)
	f.SendHomeFor(number, why)
}

// allLanded is whether no aircraft under this leader's control is still on its way home.
func allLanded(views []fleet.View) bool {
	return !slices.ContainsFunc(views, func(v fleet.View) bool { return v.Homeward })
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
