package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/broker"
	"prefdt/simbridge/process"
	"prefdt/telemetry"
)

func (m *mission) sleepSlots(ctx context.Context, slots float64) {
	select {
	case <-time.After(time.Duration(slots * float64(m.slotWall()))):
	case <-ctx.Done():
	}
}

// injectFault injects a fault, and returns when it is over.
func (m *mission) injectFault(ctx context.Context, f fault) error {
	a := m.autopilots[f.Aircraft]
	random := rand.New(rand.NewPCG(m.plan.Seed, uint64(f.StartSlot)))
	slots := float64(f.DurationSlots)
	switch f.Kind {
	case ReportLoss:
		m.users.SetReportLoss(1)
		m.sleepSlots(ctx, slots)
		m.users.SetReportLoss(m.plan.ReportLossRate)
	case ForeignReports:
		m.injectForeignReports(ctx, f, random)
	case BrokerRestart:
		if !f.Severe {
			slots = 0 // available again before any client retries
		}
		return m.restartBroker(ctx, slots)
	case LinkLoss:
		if f.Severe {
			slots += linkLossExtraSlots
		}
		a.CutLinks(slots)
		m.sleepSlots(ctx, slots)
	case HeartbeatGap: // four, which come once a second
		m.loseHeartbeats(ctx, f.Aircraft, 4.5, 1)
	case HeartbeatLoss:
		m.loseHeartbeats(ctx, f.Aircraft, slots+8, 0.1)
	case OutOfOrder:
		a.Reorder(slots+8, 0.3, 0.7, m.plan.Seed)
		m.sleepSlots(ctx, slots+8)
	case Reboot: // no HEARTBEAT shows it before the boot is complete
		m.judge.pilotTookOver(f.Aircraft, a.TimeS()+bootS, func(autopilot.Heartbeat) bool { return true })
		m.noteCounterReset(bootS)
		a.Reboot(!f.Severe)
		m.sleepSlots(ctx, slots)
	case BatteryAbsent, BatteryHandover, BatterySwap, BatteryOutlier, SecondBattery:
		return m.injectBatteryFault(ctx, f)
	case ProcessKill:
		return m.restartLeader(ctx, slots)
	case ProcessStall:
		m.leader.Load().Signal(syscall.SIGSTOP)
		m.sleepSlots(ctx, slots)
		m.leader.Load().Signal(syscall.SIGCONT)
		m.noteLeaderReturned() // as after an absence
	case CommandStorm:
		m.crew.sendStorm(random, 2000)
	case SecondLeader:
		return m.injectSecondLeader(ctx)
	case ForgedResult:
		m.injectForgedResults(ctx, f)
	case ForgedStatus, ForgedBeacon, ForgedAtRestart:
		return m.injectForgery(ctx, f)
	case CrewRadioHold, CrewRadioReturn:
		return m.injectCrewRadioLoss(ctx, f)
	case PilotDisarm:
		m.injectPilotAct(ctx, f, a.DisarmByRC, func(h autopilot.Heartbeat) bool { return !h.Armed })
	case PilotPosition, PilotHold:
		mode := autopilot.ModePosition
		if f.Kind == PilotHold {
			mode = autopilot.ModeHold
		}
		m.injectPilotAct(ctx, f, func() { a.SetModeByRC(mode) }, func(h autopilot.Heartbeat) bool { return h.Mode == mode && !h.Failsafe })
	}
	return nil
}

// injectBatteryFault is a fault of an aircraft's battery or of what it measures.
func (m *mission) injectBatteryFault(ctx context.Context, f fault) error {
	slots, change := float64(f.DurationSlots), m.autopilots[f.Aircraft].ChangeBattery
	measure := func(fields battery.Fields) { change(func(b *battery.Battery) { b.Fields = fields }) }
	switch f.Kind {
	case BatteryAbsent:
		measure(battery.Fields{})
		m.sleepSlots(ctx, slots)
		measure(battery.AllFields)
	case BatteryHandover:
		for _, fields := range []battery.Fields{{Current: true}, {Remaining: true}, {Current: true, Remaining: true}} {
			measure(fields)
			m.sleepSlots(ctx, slots/3)
		}
		measure(battery.AllFields)
	case BatterySwap:
		m.noteCounterReset(0)
		change((*battery.Battery).SwapPack)
	case BatteryOutlier:
		change(func(b *battery.Battery) { b.CorruptNextCounter(4000, false) })
		m.sleepSlots(ctx, slots)
		change(func(b *battery.Battery) { b.CorruptNextCounter(0, true) })
		m.sleepSlots(ctx, 1)
	case SecondBattery:
		if f.State == Idle {
			return m.checkSecondBatteryRefused(ctx, f.Aircraft)
		}
		change(func(b *battery.Battery) { b.SetSecondPack(true, 0) })
		m.sleepSlots(ctx, slots)
		change(func(b *battery.Battery) { b.SetSecondPack(false, 0) })
	}
	return nil
}

const bootS = 5 // an autopilot sends nothing while it boots

// checkSecondBatteryRefused starts a fleet of which an aircraft has a second battery. The
// leader counts one battery only, and must refuse with that reason until the other is
// disconnected and the autopilot is rebooted.
func (m *mission) checkSecondBatteryRefused(ctx context.Context, i int) error {
	m.autopilots[i].ChangeBattery(func(b *battery.Battery) { b.SetSecondPack(true, 0.3) })
	for ready := false; !ready && ctx.Err() == nil; m.sleepSlots(ctx, 1) {
		a := m.newMissionRequest(telemetry.ActionStart, m.allAircraft()...)
		if m.crew.sendAndWait(ctx, a) {
			return errors.New("the leader starts with a second battery, which it does not count")
		}
		ready = strings.Contains(a.reason, "batter") // or it has not received its aircraft yet
	}
	m.autopilots[i].ChangeBattery(func(b *battery.Battery) { b.SetSecondPack(false, 0) })
	m.autopilots[i].Reboot(false)
	m.sleepSlots(ctx, bootS+2)
	return nil
}

// injectPilotAct is an act of a pilot. Until a HEARTBEAT shows it the leader may override
// it, and the pilot repeats it.
func (m *mission) injectPilotAct(ctx context.Context, f fault, act func(), shows func(autopilot.Heartbeat) bool) {
	i, a := f.Aircraft, m.autopilots[f.Aircraft]
	for range 2 * f.DurationSlots {
		s := a.State()
		if !shows(autopilot.Heartbeat{Mode: s.Mode, Armed: s.Armed, Failsafe: s.Failsafe}) && (s.Armed || !s.Landed) {
			m.judge.pilotTookOver(i, a.TimeS(), shows)
			act()
		}
		m.sleepSlots(ctx, 0.5)
		if !m.judge.isPiloted(i) {
			return // the crew returned it to the leader
		}
	}
}

// loseHeartbeats loses a fraction of an aircraft's HEARTBEATs, during which its stream
// of setpoints must go on.
func (m *mission) loseHeartbeats(ctx context.Context, i int, seconds, fraction float64) {
	a := m.autopilots[i]
	a.LoseHeartbeats(seconds, fraction, m.plan.Seed)
	m.judge.requireStream(i, a.TimeS())
	m.sleepSlots(ctx, seconds)
	s := a.State()
	m.judge.endStreamRequirement(i, !m.leaderKilled.Load() && s.Mode == autopilot.ModeOffboard && !s.Landed, a.TimeS())
}

func (m *mission) restartLeader(ctx context.Context, slots float64) error {
	m.leaderKilled.Store(true)
	m.leader.Load().Kill()
	m.crew.noteOutage()
	m.sleepSlots(ctx, slots)
	m.mutex.Lock()
	m.leaderAbsentS += slots
	m.mutex.Unlock()
	err := m.startLeader()
	m.noteLeaderReturned()
	m.leaderKilled.Store(false)
	return err
}

// noteLeaderReturned notes that the leader runs again, without the messages of its absence.
func (m *mission) noteLeaderReturned() {
	m.crew.noteOutage()
	for i, s := range m.vehicleTimesS() {
		m.judge.noteLeaderReturned(i, s)
	}
}

func (m *mission) vehicleTimesS() (s []float64) {
	for _, a := range m.autopilots {
		s = append(s, a.TimeS())
	}
	return s
}

// injectCrewRadioLoss is a loss of contact with the crew while the broker is reachable.
func (m *mission) injectCrewRadioLoss(ctx context.Context, f fault) error {
	const marginSlots = 6
	becomes := func(within float64, what string, states ...State) error {
		for end := m.elapsedSlots() + within; m.elapsedSlots() < end; m.sleepSlots(ctx, 0.5) {
			if m.isIn(states...) || ctx.Err() != nil {
				return nil
			}
		}
		return fmt.Errorf("%s, and the mission is %s", what, m.state())
	}
	m.crew.radioOff.Store(true)
	defer m.crew.radioOff.Store(false)
	if f.Kind == CrewRadioReturn {
		m.sleepWall(ctx, crewReturnS)
		return becomes(2*marginSlots, "the crew was absent for longer than crew_return_s", Returning, Done)
	}
	m.sleepWall(ctx, crewHoldS)
	if f.State == Flying {
		if err := becomes(marginSlots, "the crew was absent for longer than crew_hold_s", Holding); err != nil {
			return err
		}
		m.crew.radioOff.Store(false)
		return becomes(2*marginSlots, "the crew is back", Flying, Returning, Done)
	}
	m.sleepSlots(ctx, marginSlots)
	m.crew.radioOff.Store(false)
	m.sleepSlots(ctx, 2*marginSlots)
	stays := map[State][]State{Idle: {Idle}, Holding: {Holding}, Returning: {Returning, Done}, Done: {Done}, Stopped: {Stopped}}
	if want := stays[f.State]; want != nil && !m.isIn(want...) {
		return fmt.Errorf("the crew was absent and returned, and the mission, which was %s, is %s", f.State, m.state())
	}
	return nil
}

// injectForgery publishes forged messages of a leader.
func (m *mission) injectForgery(ctx context.Context, f fault) error {
	forger := &telemetry.Client{Broker: telemetry.Broker{URL: m.url}, Name: "forger", Log: slog.New(slog.DiscardHandler)}
	if err := forger.Initialize(ctx); err != nil {
		return err
	}
	defer forger.Close()
	forge := func() {
		n := max(int(m.slotNow()), 0)
		slotMS := 1000 / m.Speed
		beacon, err := telemetry.Encode(telemetry.Slot{
			Slot: n, SlotMS: slotMS, Speed: m.Speed, ReportByMS: forgedReportByMS, DecideByMS: 0.6 * slotMS, Offer: telemetry.Offer{Aircraft: []telemetry.OfferAircraft{}},
		})
		if err == nil && f.Kind != ForgedStatus {
			forger.Publish(telemetry.Publication{Topic: m.crew.topics.Slot(), Payload: beacon})
		}
		status, err := telemetry.Encode(telemetry.Status{
			Seq: 1 << 40, Slot: n, Slots: forgedSlots, State: telemetry.StateFlying, EnergySource: telemetry.SourceModel,
			Challenge: telemetry.NewChallenge(), Aircraft: []telemetry.StatusAircraft{},
		})
		if err == nil && f.Kind != ForgedBeacon {
			forger.Publish(telemetry.Publication{Topic: m.crew.topics.Status(), Payload: status})
		}
	}
	if f.Kind != ForgedAtRestart {
		for range 4 * f.DurationSlots {
			forge()
			m.sleepSlots(ctx, 0.25)
		}
		return nil
	}
	forging, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for forging.Err() == nil {
			forge()
			m.sleepSlots(forging, 0.25)
		}
	}()
	if err := m.restartLeader(ctx, float64(f.DurationSlots)); err != nil {
		return err
	}
	_, n := m.crew.lastStatus()
	m.crew.waitFor(ctx, func() bool { return m.crew.statuses > n+2 })
	return nil
}

// injectForgedResults sends results that must not count: of unknown users, and of users
// in a slot in which they have not reported yet.
func (m *mission) injectForgedResults(ctx context.Context, f fault) {
	for range f.DurationSlots {
		slot := max(int(m.slotNow()), 0)
		for n := range 300 {
			user, of := fmt.Sprintf("stranger-%d", n), slot
			if n < 20 {
				user, of = fmt.Sprintf("u%02d", n+1), slot+2
			}
			r := telemetry.Result{Slot: of, CompletionS: 86_000, By: []string{telemetry.ByOffer, telemetry.ByDecision, telemetry.ByLocal}[n%3]}
			if payload, err := telemetry.Encode(r); err == nil {
				m.crew.publish(m.crew.topics.Result(user), payload)
			}
		}
		m.sleepSlots(ctx, 1)
	}
}

func (m *mission) noteCounterReset(gapS float64) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.counterResetGapsS = append(m.counterResetGapsS, gapS)
}

func (m *mission) restartBroker(ctx context.Context, slots float64) error {
	address := m.broker.Address
	m.broker.Close()
	m.crew.noteOutage()
	m.sleepSlots(ctx, slots)
	m.broker = &broker.Broker{Address: address}
	err := m.broker.Initialize()
	for ; err != nil && ctx.Err() == nil; err = m.broker.Initialize() {
		m.sleepWall(ctx, 0.01)
	}
	m.crew.noteOutage()
	return err
}

// injectSecondLeader starts a second leader by mistake: the same fleet, another state
// directory. It must exit with the status for that.
func (m *mission) injectSecondLeader(ctx context.Context) error {
	var links []string
	for range m.autopilots {
		link, err := m.ports.allocate("udp")
		if err != nil {
			return err
		}
		links = append(links, link)
	}
	path, err := m.writeLeaderConfig("second", links)
	if err != nil {
		return err
	}
	p, err := process.Start([]string{m.Leader, "-config", path}, filepath.Join(m.folder, "second.log"))
	if err != nil {
		return err
	}
	defer p.Kill()
	select {
	case <-p.Done:
	case <-time.After(10 * time.Second):
		return errors.New("the second leader does not exit")
	case <-ctx.Done():
		return ctx.Err()
	}
	if code := p.ExitCode(); code != 3 {
		return fmt.Errorf("the second leader exited with status %d, want 3: %w", code, p.Failure())
	}
	return nil
}

// injectForeignReports sends reports that must change nothing: of other slots, duplicates,
// of unknown users, and malformed ones.
func (m *mission) injectForeignReports(ctx context.Context, f fault, random *rand.Rand) {
	topics := m.crew.topics
	send := func(topic string, payload []byte) {
		m.crew.client.Publish(telemetry.Publication{Topic: topic, Payload: payload})
	}
	for range f.DurationSlots {
		slot := int(m.slotNow())
		for range 60 {
			r := telemetry.Report{
				Slot: max(slot+random.IntN(7)-4, 0), PositionM: [2]float64{1000 * random.Float64(), 1000 * random.Float64()}, CPUHz: 1e9,
				Task: &telemetry.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1},
			}
			user := []string{"u01", "u02", "stranger", "u99"}[random.IntN(4)]
			if r.Slot == slot && user[0] == 'u' && user != "u99" {
				r.Slot = slot + 3 // never in place of a real report
			}
			if payload, err := telemetry.Encode(r); err == nil {
				send(topics.Report(user), payload)
				send(topics.Report(user), payload)
			}
			send(topics.Report("u03"), malformedPayload(random))
			if payload, err := telemetry.Encode(telemetry.Result{Slot: max(slot-random.IntN(9), 0), CompletionS: 59 * random.Float64(), By: telemetry.ByLocal}); err == nil {
				send(topics.Result("stranger"), payload)
			}
		}
		m.sleepSlots(ctx, 1)
	}
}
