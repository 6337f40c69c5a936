package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/geo"
	"prefdt/simbridge/judge"
	"prefdt/simbridge/onboard"
	"prefdt/simbridge/record"
	"prefdt/telemetry"
)

func (m *mission) sleepSlots(ctx context.Context, slots float64) {
	select {
	case <-time.After(time.Duration(slots * float64(m.slotWall()))):
	case <-ctx.Done():
	}
}

// aircraftFaults are those of one aircraft; all others concern the fleet.
var aircraftFaults = []FaultKind{
	LinkLoss, Reboot, BatteryAbsent, BatteryHandover, BatterySwap, BatteryOutlier, SecondBattery, HeartbeatGap, HeartbeatLoss,
	HeartbeatSilence,
	OutOfOrder, PilotDisarm, PilotPosition, PilotHold, PilotReturn, ArmingDenied, ArmingRefused, LowBattery, KillInGap, StationSilence,
	StaysArmed, TellsLanded, StationFlies,
	OtherVehicle, ParameterChange, PilotLands,
}

// lostS is how long nothing is received from an aircraft before it is lost.
const lostS = 10

// injectFault injects a fault, and returns when it is over and whether the simulators
// have seen its effect.
func (m *mission) injectFault(ctx context.Context, f fault) (met bool, err error) {
	a := m.autopilots[f.Aircraft]
	random := rand.New(rand.NewPCG(m.plan.Seed, uint64(f.StartSlot)))
	slots := float64(f.DurationSlots)
	concerns := 0
	if slices.Contains(aircraftFaults, f.Kind) {
		concerns = f.Aircraft + 1
	}
	text := ""
	if f.Kind == UnsafeFailsafe {
		text = strings.Join(m.unsafeNames(), " ")
	}
	m.noteFault(string(f.Kind), concerns, false, text)
	defer m.noteFault(string(f.Kind), concerns, true, "")
	before := a.State().Traffic
	switch f.Kind {
	case ReportLoss:
		lost := m.reportsLost()
		m.users.SetReportLoss(1)
		m.sleepSlots(ctx, slots)
		m.users.SetReportLoss(m.plan.ReportLossRate)
		return m.reportsLost() > lost, nil
	case ForeignReports:
		return true, m.injectForeignReports(ctx, f, random)
	case BrokerRestart:
		if !f.Severe {
			slots = 0 // available again before any client retries
		}
		m.closeBroker()
		m.sleepSlots(ctx, slots)
		return true, m.openBroker(ctx, m.broker.Address)
	case BrokerGoneHold, BrokerGoneReturn:
		return true, m.injectBrokerLoss(ctx, f)
	case LinkLoss:
		if f.Severe {
			slots += linkLossExtraSlots
		}
		if m.plan.isCopter(f.Aircraft) && math.Abs(slots-lostS) <= 1 { // lost or not, it would hover in GUIDED: nothing tells which
			slots = lostS + 2
		}
		began, oneWay := m.elapsedSlots(), m.plan.Site != nil && m.plan.Site.OneWay
		if oneWay {
			m.setLinks(f.Aircraft)
		} else {
			a.CutLinks(slots)
		}
		const soonSlots = 0.1
		m.sleepSlots(ctx, slots-soonSlots)
		if m.plan.WrongFirst {
			m.beginWrong(f.Aircraft)
		}
		m.sleepSlots(ctx, soonSlots)
		if oneWay {
			m.setLinks()
		}
		// It is its pilot's until resume, unless the leader was started again too lately to miss it.
		m.mutex.Lock()
		up := m.elapsedSlots() - max(began, m.leaderReturnedAt)
		m.mutex.Unlock()
		if up > lostS+1 && !m.leaderKilled.Load() {
			m.watch.take(f.Aircraft)
		}
		return oneWay || a.State().Traffic.Cut > before.Cut, nil
	case StationSilence:
		quietS := m.plan.airframe(f.Aircraft, m.world.Physics.SpeedMaxMPS).silentS + slots
		a.IgnoreStation(quietS)
		for began := a.TimeS(); a.TimeS() < began+quietS && ctx.Err() == nil; m.sleepSlots(ctx, 0.5) {
			s := a.State()
			met = met || s.Failsafe && s.Mode == autopilot.ModeReturn
		}
		return met, nil
	case HeartbeatGap: // four, which come once a second
		m.loseHeartbeats(ctx, f.Aircraft, 4.5, 1)
		return a.State().Traffic.Silent >= before.Silent+4, nil
	case HeartbeatLoss:
		m.loseHeartbeats(ctx, f.Aircraft, slots+8, 0.1)
		return true, nil // of twenty one is lost or none
	case HeartbeatSilence:
		forS := float64(silenceS)
		if f.State == Landing { // all of one at the stock rates
			forS = oddLandingS
		}
		m.loseHeartbeats(ctx, f.Aircraft, forS, 1)
		return a.State().Traffic.Silent >= before.Silent+lostS, nil
	case OutOfOrder:
		const maxDelayS = 0.7
		a.Reorder(slots+8, 0.3, maxDelayS, m.plan.Seed)
		m.sleepSlots(ctx, slots+8+1)
		return a.State().Traffic.Delayed > before.Delayed, nil
	case Reboot:
		m.watch.take(f.Aircraft)
		if f.State == Idle && f.Severe { // before, by its watchdog: its clock then shows no time that goes back
			a.RebootQuickly()
			m.sleepSlots(ctx, againAfterS)
		}
		a.Reboot(!f.Severe)
		m.sleepSlots(ctx, max(slots, bootS))
		return a.State().Traffic.Cut > before.Cut, nil
	case BatteryAbsent, BatteryHandover, BatterySwap, BatteryOutlier, SecondBattery, LowBattery:
		return true, m.injectBatteryFault(ctx, f)
	case ArmingDenied, UnsafeFailsafe:
		return true, m.injectUnready(ctx, f)
	case ModeRefused, StaysArmed, TellsLanded, StationFlies:
		return true, m.injectOdd(ctx, f)
	case ArmingRefused:
		return m.injectArmingRefused(ctx, f)
	case ProcessKill:
		if m.plan.NoneLed {
			m.pilotsTakeAll(ctx)
		}
		switch {
		case f.Severe && slices.Contains([]State{Flying, Holding, Returning}, f.State):
			return true, m.restartLeader(ctx, slots, func() error { return m.startElsewhere(ctx, f.DurationSlots%3) })
		case f.Severe && slices.Contains([]State{Landing, Stopped}, f.State) && !m.plan.Crowd:
			return true, m.restartLeader(ctx, min(slots, 2), m.configureAnother)
		}
		return true, m.restartLeader(ctx, slots, nil)
	case PowerCut:
		return true, m.restartAfter(ctx, slots, m.leader.Load().leaderProgram.(*onboard.Leader).LosePower, nil)
	case ProcessStall:
		m.noteFault(record.LeaderDown, 0, false, "stopped")
		m.leader.Load().Pause()
		m.sleepSlots(ctx, slots)
		m.leader.Load().Continue()
		m.noteFault(record.LeaderDown, 0, true, "continued")
		m.noteLeaderReturned() // as after an absence
		return true, nil
	case DiskStall:
		return m.injectDiskStall(ctx, f)
	case DiskRefuses:
		return true, m.injectDiskRefusal(ctx, f)
	case KillInGap:
		mode := autopilot.ModeHold
		if f.Severe {
			mode = autopilot.ModePosition
		}
		return true, m.restartLeader(ctx, min(slots, 3), func() error {
			m.sleepSlots(ctx, 0.3)
			m.watch.take(f.Aircraft)
			m.noteFault(record.PilotActs, f.Aircraft+1, false, mode.String())
			a.SetModeByRC(mode)
			return nil
		})
	case CommandStorm:
		m.crew.sendStorm(random, 2000)
		return true, nil
	case SecondLeader:
		return true, m.injectSecondLeader(ctx)
	case ForgedResult:
		m.injectForgedResults(ctx, f)
		return true, nil
	case ForgedStatus, ForgedBeacon, ForgedAtRestart:
		return true, m.injectForgery(ctx, f)
	case CrewRadioHold, CrewRadioReturn:
		return true, m.injectCrewRadioLoss(ctx, f)
	case PilotDisarm:
		return m.injectPilotAct(ctx, f, a.DisarmByRC, func(h autopilot.Heartbeat) bool { return !h.Armed }), nil
	case PilotReturn:
		act := func() { a.SetModeByRC(autopilot.ModeReturn) }
		return m.injectPilotAct(ctx, f, act, func(h autopilot.Heartbeat) bool { return h.Mode == autopilot.ModeReturn }), nil
	case PilotPosition, PilotHold:
		mode := autopilot.ModePosition
		if f.Kind == PilotHold {
			mode = autopilot.ModeHold
		}
		return m.injectPilotAct(ctx, f, func() {
			switch a.SetModeByRC(mode); {
			case mode == autopilot.ModeHold:
			case m.plan.FlownOut:
				a.FlyByRC(m.towardsEdge(a.State().Position))
			case m.plan.LowPilot && (f.State == Climbing || m.plan.TightHomes): // then it climbs over its start, or others are beside
				a.FlyByRC(geo.Local{UpM: downAndAside.UpM})
			case m.plan.LowPilot:
				a.FlyByRC(downAndAside)
			case !m.plan.Crowd:
			case f.Severe:
				a.FlyByRC(m.towardsAnother(f.Aircraft))
			default:
				a.FlyByRC(m.towardsEdge(a.State().Position))
			}
		}, func(h autopilot.Heartbeat) bool { return h.Mode == mode && !h.Failsafe }), nil
	}
	return m.injectAdded(ctx, f)
}

func (m *mission) reportsLost() (lost int) {
	for n := range m.plan.Slots {
		lost += m.users.ReportCounts(n).Lost
	}
	return lost
}

// injectBatteryFault is a fault of an aircraft's battery or of what it measures.
func (m *mission) injectBatteryFault(ctx context.Context, f fault) error {
	slots, change := float64(f.DurationSlots), m.autopilots[f.Aircraft].ChangeBattery
	measure := func(fields battery.Fields) {
		fields.EveryS = m.plan.MonitorS
		change(func(b *battery.Battery) { b.Fields = fields })
	}
	switch f.Kind {
	case BatteryAbsent:
		if f.Severe {
			change(func(b *battery.Battery) { b.Freeze(true) })
		} else {
			measure(battery.Fields{})
		}
		m.sleepSlots(ctx, slots+absentExtraSlots)
		change(func(b *battery.Battery) { b.Freeze(false) })
		measure(battery.AllFields)
	case BatteryHandover:
		for _, fields := range []battery.Fields{{Current: true}, {Remaining: true}, {Current: true, Remaining: true}} {
			measure(fields)
			m.sleepSlots(ctx, slots/3)
		}
		measure(battery.AllFields)
	case BatterySwap:
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
	case LowBattery:
		left := m.lowPackJ(f.Aircraft)
		change(func(b *battery.Battery) { b.SetReadsJ(left) })
	}
	return nil
}

const (
	bootS       = 5   // an autopilot sends nothing while it boots
	againAfterS = 2.4 // it is rebooted again: less than half of that
)

// checkSecondBatteryRefused starts a fleet of which an aircraft has a second battery. The
// leader counts one battery only, and must refuse with that reason until the other is
// disconnected and the autopilot is rebooted.
func (m *mission) checkSecondBatteryRefused(ctx context.Context, i int) error {
	m.autopilots[i].ChangeBattery(func(b *battery.Battery) { b.SetSecondPack(true, 0.3) })
	err := m.requireRefusal(ctx, "a second battery, which it does not count", "batter")
	m.autopilots[i].ChangeBattery(func(b *battery.Battery) { b.SetSecondPack(false, 0) })
	if m.plan.DenseStart { // else it is no longer sent
		m.autopilots[i].Reboot(false)
	}
	m.sleepSlots(ctx, bootS+2)
	return err
}

// requireRefusal has the crew order the start until the leader, which may not have
// received its aircraft yet, refuses it for a reason that has some words.
func (m *mission) requireRefusal(ctx context.Context, why string, words ...string) error {
	reason := ""
	for began := time.Now(); ctx.Err() == nil; m.sleepSlots(ctx, 1) {
		a := m.newMissionRequest(telemetry.ActionStart, m.allAircraft()...)
		if m.crew.sendAndWait(ctx, a) {
			return errors.New("the leader starts in spite of " + why)
		}
		if reason = a.reason; judge.RefusalNames(reason, words) || m.slotsFrom(began) > refusedWithinSlots {
			break
		}
	}
	if !judge.RefusalNames(reason, words) {
		return fmt.Errorf("the leader refuses to start for another reason than %s: %s", why, reason)
	}
	return nil
}

// refusedWithinSlots is how long a leader may have other reasons not to start: it has not
// received its aircraft, its clocks, or all parameters yet.
const refusedWithinSlots = 60

// injectUnready is an aircraft that must not take off, until it is ready.
func (m *mission) injectUnready(ctx context.Context, f fault) error {
	a := m.autopilots[f.Aircraft]
	if f.Kind == ArmingDenied {
		const reason = "Compass needs calibration"
		a.DenyArming(reason)
		err := m.requireRefusal(ctx, "pre-arm checks that fail", "pre-arm")
		a.DenyArming("")
		m.sleepSlots(ctx, 2)
		return err
	}
	names := m.unsafeNames()
	err := m.requireRefusal(ctx, "unsafe "+strings.Join(names, " and "), names...)
	for i, a := range m.autopilots {
		for _, u := range m.plan.unsafeParameters(i) {
			a.SetParameter(u.name, u.safe)
		}
		a.Reboot(false) // so that the leader reads it again
	}
	m.sleepSlots(ctx, bootS+2)
	return err
}

// unsafeNames are the parameters of the first aircraft that are unsafe.
func (m *mission) unsafeNames() (names []string) {
	for _, u := range m.plan.unsafeParameters(0) {
		names = append(names, u.name)
	}
	return names
}

// injectArmingRefused has an autopilot refuse to arm although its checks are good, for
// longer than a leader may try.
func (m *mission) injectArmingRefused(ctx context.Context, f fault) (met bool, err error) {
	a := m.autopilots[f.Aircraft]
	a.RefuseArming("Throttle is not zero")
	m.noteFault(record.StaysDown, f.Aircraft+1, false, "")
	go func() {
		for began := m.elapsedSlots(); ctx.Err() == nil && (m.isIn(Idle) || m.elapsedSlots() < began+1); m.sleepSlots(ctx, 1) {
		}
		forS := armTimeoutS + 6.0
		if m.plan.Nobody {
			forS = 120
		}
		m.sleepSlots(ctx, forS)
		a.RefuseArming("")
		m.noteFault(record.StaysDown, f.Aircraft+1, true, "")
	}()
	return true, nil
}

// injectBrokerLoss is a loss of the broker for longer than the leader waits for it.
func (m *mission) injectBrokerLoss(ctx context.Context, f fault) error {
	afterS := float64(brokerHoldS)
	if f.Kind == BrokerGoneReturn {
		afterS = brokerReturnS
	}
	began, address := m.elapsedSlots(), m.broker.Address
	m.closeBroker()
	if m.plan.flaps() { // it comes back for a moment
		m.sleepSlots(ctx, flapEveryS-flapForS)
		if err := m.openBroker(ctx, address); err != nil {
			return err
		}
		m.sleepSlots(ctx, flapForS)
		m.closeBroker()
	}
	m.sleepSlots(ctx, afterS+brokerExtraSlots-(m.elapsedSlots()-began))
	if err := m.openBroker(ctx, address); err != nil {
		return err
	}
	n := m.crew.Latest().LiveStatuses
	if !m.crew.waitFor(ctx, func() bool { return m.crew.LiveStatuses > n+1 }) {
		return errors.New("the broker is back, and no status comes")
	}
	return nil
}

// injectDiskStall has the leader's disk not finish a write for longer than its stream of
// setpoints may go on.
func (m *mission) injectDiskStall(ctx context.Context, f fault) (met bool, err error) {
	const beganBeforeS, perSlot = 0.3, 4 // a write that began before is finished then; commands a slot
	stallS := diskStallS
	if f.Severe { // setpoints have ended for over ten seconds then
		stallS += 8
	}
	release := m.hangDisk()
	var times []float64
	for _, a := range m.autopilots {
		times = append(times, a.TimeS())
	}
	m.sleepSlots(ctx, beganBeforeS)
	random := rand.New(rand.NewPCG(m.plan.Seed, 2))
	for range 2 * perSlot { // one of them comes while a settlement is being written
		if !f.Severe { // else that is all that waits
			m.crew.send(m.crew.newRequest(random, "budget"))
		}
		m.sleepSlots(ctx, 1.0/perSlot)
	}
	m.sleepSlots(ctx, float64(stallS)-2-beganBeforeS)
	for i, s := range times {
		met = met || m.watch.of(i).setpointS > s
	}
	release()
	m.noteLeaderReturned()
	return met, nil
}

// hangDisk has the leader's disk finish no write until release is called. No answer is expected meanwhile.
func (m *mission) hangDisk() (release func()) {
	answers := make(chan struct{})
	m.board.SetDisk(onboard.Disk{HangUntil: answers})
	m.crew.diskStalled.Store(true)
	return func() {
		m.crew.diskStalled.Store(false)
		m.board.SetDisk(m.disk())
		close(answers)
	}
}

// injectDiskRefusal has no write of the leader's succeed for a while. Nothing that it could
// not write is answered, and the fleet returns without the ledger.
func (m *mission) injectDiskRefusal(ctx context.Context, f fault) error {
	const noticedS, perSlot = 4, 4 // the settlement of the next slot fails
	refuses := syscall.ENOSPC
	if f.Severe {
		refuses = syscall.EROFS
	}
	m.board.SetDisk(onboard.Disk{Error: refuses})
	m.sleepSlots(ctx, 0.3)
	m.crew.diskStalled.Store(true)
	random := rand.New(rand.NewPCG(m.plan.Seed, 2))
	for range perSlot {
		m.crew.send(m.crew.newRequest(random, "budget"))
		m.sleepSlots(ctx, 1.0/perSlot)
	}
	m.sleepSlots(ctx, noticedS+float64(f.DurationSlots))
	m.crew.diskStalled.Store(false)
	m.board.SetDisk(m.disk())
	m.crew.noteOutage() // what was sent meanwhile was not written, and is sent again
	return nil
}

// pilotOutsideM is how far outside the area a pilot flies.
const pilotOutsideM = 10

// towardsEdge is how a pilot flies an aircraft towards the nearest edge of the area; out of it just over one that is drawn, slowly at last,
// where it is to come in again.
func (m *mission) towardsEdge(at geo.Local) geo.Local {
	const speedMPS, besideM, slowMPS, outM, perS = 12, 5, 1, 2.5, 0.3
	side := m.world.Physics.AreaSideM
	edges := []struct {
		distance float64
		towards  geo.Local
	}{
		{at.EastM, geo.Local{EastM: -1}}, {side - at.EastM, geo.Local{EastM: 1}}, {at.NorthM, geo.Local{NorthM: -1}},
		{side - at.NorthM, geo.Local{NorthM: 1}},
	}
	if x := edges[m.plan.Seed/2%4]; m.plan.FlownOut && x.distance < -outM {
		return geo.Local{}
	} else if m.plan.FlownOut {
		return x.towards.Scale(min(speedMPS, max(slowMPS, perS*(x.distance-besideM))))
	}
	nearest := edges[0]
	for _, x := range edges[1:] {
		if x.distance < nearest.distance {
			nearest = x
		}
	}
	return nearest.towards.Scale(speedMPS)
}

// pilotNearM is how near to another aircraft a pilot flies.
const pilotNearM = 25

// towardsAnother is how a pilot flies an aircraft towards the nearest other one in the
// air; it stays where that is near.
func (m *mission) towardsAnother(i int) (velocity geo.Local) {
	const speedMPS = 6
	at, nearest := m.autopilots[i].State().Position, math.Inf(1)
	for k, a := range m.autopilots {
		way := a.State().Position.Sub(at)
		if d := way.HorizontalM(); k != i && !a.State().OnGround && d < nearest {
			if nearest, velocity = d, (geo.Local{}); d > pilotNearM {
				velocity = geo.Local{EastM: way.EastM, NorthM: way.NorthM}.Scale(speedMPS / d)
			}
		}
	}
	return velocity
}

// injectPilotAct is an act of a pilot. Until a HEARTBEAT shows it the leader may override
// it, and the pilot repeats it.
func (m *mission) injectPilotAct(ctx context.Context, f fault, act func(), shows func(autopilot.Heartbeat) bool) (met bool) {
	i, a := f.Aircraft, m.autopilots[f.Aircraft]
	acts := func(s autopilot.State) bool {
		return shows(autopilot.Heartbeat{Mode: s.Mode, Armed: s.Armed, Failsafe: s.Failsafe})
	}
	for range 2 * f.DurationSlots {
		if s := a.State(); !acts(s) && (s.Armed || !s.Landed) {
			m.watch.take(i)
			m.noteFault(record.PilotActs, i+1, false, string(f.Kind))
			act()
			met = met || acts(a.State())
		}
		m.sleepSlots(ctx, 0.5)
		if !m.watch.isPiloted(i) {
			break // the crew returned it to the leader
		}
		if p := a.State().Position; m.plan.LowPilot && p.UpM < lowPilotM ||
			outsideByM(p.EastM, p.NorthM, m.world.Physics.AreaSideM) > pilotOutsideM {
			a.FlyByRC(geo.Local{})
		}
		switch {
		case m.plan.Crowd && f.Severe && f.Kind == PilotPosition:
			a.FlyByRC(m.towardsAnother(i))
		case m.plan.FlownOut && f.Kind == PilotPosition:
			a.FlyByRC(m.towardsEdge(a.State().Position))
		}
	}
	a.FlyByRC(geo.Local{})
	return met
}

// loseHeartbeats loses a fraction of an aircraft's HEARTBEATs for a while.
func (m *mission) loseHeartbeats(ctx context.Context, i int, seconds, fraction float64) {
	m.autopilots[i].LoseHeartbeats(seconds, fraction, m.plan.Seed)
	m.sleepSlots(ctx, seconds)
}

// restartLeader kills the leader and starts it again. lose, if any, is called between.
func (m *mission) restartLeader(ctx context.Context, slots float64, lose func() error) error {
	return m.restartAfter(ctx, slots, m.leader.Load().Kill, lose)
}

// restartAfter starts the leader again that an act ends. A command that was signed for it before, and
// withheld, must not count after it.
func (m *mission) restartAfter(ctx context.Context, slots float64, act, lose func() error) error {
	const aheadBy = 1_000_000
	withheld := m.crew.withhold(rand.New(rand.NewPCG(m.plan.Seed, 1)), aheadBy)
	m.leaderKilled.Store(true)
	m.noteFault(record.LeaderDown, 0, false, "killed")
	if err := act(); err != nil {
		return err
	}
	m.crew.noteOutage()
	if err := m.failToStart(ctx); err != nil {
		return err
	}
	if lose != nil {
		if err := lose(); err != nil {
			return err
		}
	}
	m.sleepSlots(ctx, slots)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	const busyS = 6
	for i, a := range m.autopilots {
		if m.plan.AutopilotMaxMPS > 0 { // the limit is in the ledger
			a.DelayParameters(busyS)
		}
		if m.plan.WrongFirst {
			m.beginWrong(i)
		}
	}
	err := m.startAgain(ctx, m.plan.LoadS)
	m.noteFault(record.LeaderDown, 0, true, "")
	m.noteLeaderReturned()
	m.leaderKilled.Store(false)
	// A process takes wall time to start, which is many slots of a fast mission: it is
	// there with its first status.
	n := m.crew.Latest().LiveStatuses
	if err == nil && m.crew.waitFor(ctx, func() bool { return m.crew.LiveStatuses > n }) {
		m.noteLeaderReturned()
		if withheld != nil {
			m.crew.publish(m.crew.Topics.Budget(), withheld)
		}
	}
	return err
}

// configureAnother has the leader configured with another mission, which must not begin while an aircraft is high in the air.
func (m *mission) configureAnother() (err error) {
	const highM = 60
	if slices.ContainsFunc(m.autopilots, func(a *autopilot.Autopilot) bool { return a.State().Position.UpM > highM }) {
		m.leaderConfigPath, err = m.writeLeaderConfig("leader", m.links, func(values map[string]any) { values["mission"] = "m2" })
	}
	return err
}

// startElsewhere starts the leader by a configuration of another place, speed or fleet. It
// must not continue the mission.
func (m *mission) startElsewhere(ctx context.Context, which int) error {
	const withinS = 5
	what := ""
	path, err := m.writeLeaderConfig("elsewhere", m.links, func(values map[string]any) {
		values["state_dir"] = filepath.Join(m.folder, "leader")
		switch which {
		case 0:
			what = "another origin"
			values["origin"].(map[string]any)["latitude_deg"] = origin.LatDeg + 0.001
		case 1:
			what = "slots of another length"
			for _, key := range []string{"slot_ms", "report_by_ms", "decide_by_ms"} {
				values[key] = 2 * values[key].(float64)
			}
		case 2:
			what, values["fleet"] = "another fleet", "another"
		}
	})
	if err != nil {
		return err
	}
	switch p, ended, err := m.tryProgram(ctx, path, "elsewhere", withinS*time.Second); {
	case p == nil, ended && p.ExitCode() != 0:
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("a leader with %s continues the mission", what)
}

// noteLeaderReturned notes that the leader runs again, without the messages of its absence.
func (m *mission) noteLeaderReturned() {
	m.crew.noteOutage()
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.leaderReturnedAt = m.elapsedSlots()
}

// injectCrewRadioLoss is a loss of contact with the crew while the broker is reachable. Heartbeats that were recorded
// before must not count as contact.
func (m *mission) injectCrewRadioLoss(ctx context.Context, f fault) error {
	const marginSlots = 12
	m.noteFault(record.CrewSilent, 0, false, "")
	m.crew.radioOff.Store(true)
	defer func() {
		m.crew.radioOff.Store(false)
		m.noteFault(record.CrewSilent, 0, true, "")
	}()
	replaying, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for replaying.Err() == nil {
			m.crew.replayContact()
			m.sleepWall(replaying, heartbeatPeriodS)
		}
	}()
	m.sleepWall(ctx, map[FaultKind]float64{CrewRadioReturn: crewReturnS, CrewRadioHold: crewHoldS}[f.Kind])
	m.sleepSlots(ctx, marginSlots)
	return nil
}

// injectForgery publishes forged messages of a leader.
func (m *mission) injectForgery(ctx context.Context, f fault) error {
	forger := &telemetry.Client{Broker: m.brokerOf("forger"), Name: "forger", Log: slog.New(slog.DiscardHandler)}
	if err := forger.Initialize(ctx); err != nil {
		return err
	}
	defer forger.Close()
	forge := func() {
		n := max(int(m.slotNow()), 0)
		slotMS := 1000 / m.plan.Speed
		beacon, err := telemetry.Encode(telemetry.Slot{
			Slot: n, SlotMS: slotMS, Speed: m.plan.Speed, ReportByMS: forgedReportByMS, DecideByMS: 0.6 * slotMS,
			Offer: telemetry.Offer{Aircraft: []telemetry.OfferAircraft{}},
		})
		if err == nil && f.Kind != ForgedStatus {
			forger.Publish(telemetry.Publication{Topic: m.crew.Topics.Slot(), Payload: beacon})
		}
		status, err := telemetry.Encode(telemetry.Status{
			Seq: 1 << 40, Slot: n, Slots: forgedSlots, State: telemetry.StateFlying, EnergySource: telemetry.SourceModel,
			Challenge: telemetry.NewChallenge(), Aircraft: []telemetry.StatusAircraft{},
		})
		if err == nil && f.Kind != ForgedBeacon {
			forger.Publish(telemetry.Publication{Topic: m.crew.Topics.Status(), Payload: status})
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
	return m.restartLeader(ctx, float64(f.DurationSlots), nil)
}

// injectForgedResults sends results that must not count: of unknown users, and of users
// in a slot in which they have not reported yet.
func (m *mission) injectForgedResults(ctx context.Context, f fault) {
	const believableS = 50
	for range f.DurationSlots {
		slot := max(int(m.slotNow()), 0)
		for n := range 300 {
			user, of := fmt.Sprintf("stranger-%d", n), slot
			if n < 20 {
				user, of = fmt.Sprintf("u%02d", n+1), slot+2
			}
			r := telemetry.Result{Slot: of, CompletionS: 86_000,
				By: []string{telemetry.ByOffer, telemetry.ByDecision, telemetry.ByLocal}[n%3]}
			if of == slot && r.By == telemetry.ByLocal { // one that could be true, of a slot that is decided
				r.Slot, r.CompletionS = max(slot-1, 0), believableS
			}
			if payload, err := telemetry.Encode(r); err == nil {
				m.crew.publish(m.crew.Topics.Result(user), payload)
			}
		}
		m.sleepSlots(ctx, 1)
	}
}

func (m *mission) closeBroker() {
	m.noteFault(record.BrokerDown, 0, false, "")
	m.broker.Close()
	m.crew.noteOutage()
}

func (m *mission) openBroker(ctx context.Context, address string) error {
	m.broker = m.newBroker(address)
	err := m.broker.Initialize()
	for ; err != nil && ctx.Err() == nil; err = m.broker.Initialize() {
		m.sleepWall(ctx, 0.01)
	}
	m.noteFault(record.BrokerDown, 0, true, "")
	m.crew.noteOutage()
	return err
}

// injectSecondLeader starts a second leader by mistake: the same fleet, another state
// directory. It must exit with the status for that.
func (m *mission) injectSecondLeader(ctx context.Context) error {
	var links []string
	for range m.autopilots {
		link, err := m.freeAddress()
		if err != nil {
			return err
		}
		links = append(links, link)
	}
	path, err := m.writeLeaderConfig("second", links, nil)
	if err != nil {
		return err
	}
	p, ended, err := m.tryProgram(ctx, path, "second", 10*time.Second)
	switch {
	case err != nil:
		return err
	case !ended:
		return errors.New("the second leader does not exit")
	case p.ExitCode() != 3:
		return fmt.Errorf("the second leader exited with status %d, want 3: %w", p.ExitCode(), p.Failure())
	}
	return nil
}

// tryProgram starts another leader, and waits until it ends, or for so long; nil: it does not start.
func (m *mission) tryProgram(ctx context.Context, config, name string, most time.Duration) (p leaderProgram, ended bool, err error) {
	if p, err = m.startProgram(config, name+".log", name); err != nil {
		return nil, false, err
	}
	defer p.Kill()
	select {
	case <-p.Over():
		return p, true, nil
	case <-time.After(most):
		return p, false, nil
	case <-ctx.Done():
		return p, false, ctx.Err()
	}
}

// injectForeignReports sends reports that must change nothing: of other slots, second ones
// with another gain, of unknown users, and malformed ones.
func (m *mission) injectForeignReports(ctx context.Context, f fault, random *rand.Rand) error {
	topics := m.crew.Topics
	send := func(topic string, payload []byte, err error) {
		if err == nil {
			m.crew.client.Publish(telemetry.Publication{Topic: topic, Payload: payload})
		}
	}
	report := func(user string, r telemetry.Report) {
		payload, err := telemetry.Encode(r)
		send(topics.Report(user), payload, err)
	}
	const secondAt, sooner = 0.2, 12 // of a slot, while the window is open; slots
	for range f.DurationSlots {
		slot := int(m.slotNow())
		m.sleepSlots(ctx, max(float64(slot)+secondAt-m.slotNow(), 0))
		for _, user := range m.userIDs() {
			if first, ok := m.watch.reportOf(user, slot); ok && first.Task != nil {
				claims := first // of a stranger beside, who claims more than any task weighs
				claims.Task = &telemetry.Task{Bits: 6e6, CyclesPerBit: 1000, DeadlineS: 1}
				report("u99", claims)
				first.Gain, first.CPUHz = map[int]float64{1: first.Gain[2], 2: first.Gain[1]}, first.CPUHz/10
				maps.DeleteFunc(first.Gain, func(_ int, gain float64) bool { return gain == 0 })
				report(user, first)
			}
			report(user, telemetry.Report{Slot: slot + 1 + random.IntN(sooner), CPUHz: earlyCPUHz})
		}
		for range 60 {
			r := telemetry.Report{
				Slot: max(slot+random.IntN(7)-4, 0), PositionM: [2]float64{1000 * random.Float64(), 1000 * random.Float64()}, CPUHz: 1e9,
				Task: &telemetry.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1},
			}
			user := []string{"u01", "u02", "stranger", "u99"}[random.IntN(4)]
			if r.Slot == slot && user[0] == 'u' && user != "u99" {
				r.Slot = slot + 3 // never in place of a real report
			}
			report(user, r)
			report(user, r)
			send(topics.Report("u03"), malformedPayload(random), nil)
			payload, err := telemetry.Encode(telemetry.Result{Slot: max(slot-random.IntN(9), 0), CompletionS: 59 * random.Float64(),
				By: telemetry.ByLocal})
			send(topics.Result("stranger"), payload, err)
		}
		m.sleepSlots(ctx, max(float64(slot)+1-m.slotNow(), 0.1))
	}
	return nil
}
