package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/broker"
	"prefdt/simbridge/process"
	"prefdt/telemetry"
)

// sleep waits for some slots.
func (m *mission) sleep(ctx context.Context, slots float64) {
	select {
	case <-time.After(time.Duration(slots * float64(m.slotWall()))):
	case <-ctx.Done():
	}
}

// happen makes a fault, and returns when it is over.
func (m *mission) happen(ctx context.Context, f fault) error {
	a := m.autopilots[f.Aircraft]
	random := rand.New(rand.NewPCG(m.plan.Seed, uint64(f.Slot)))
	all := battery.Fields{Current: true, Energy: true, Remaining: true}
	slots := float64(f.Slots)
	switch f.Kind {
	case ReportLoss:
		m.crowd.SetLoss(1)
		m.sleep(ctx, slots)
		m.crowd.SetLoss(m.plan.Loss)
	case ForeignReports:
		m.foreign(ctx, f, random)
	case BrokerRestart:
		if !f.Hard {
			slots = 0 // back before anyone tries again
		}
		return m.restartBroker(ctx, slots)
	case LinkLoss:
		if f.Hard {
			slots += linkExtra
		}
		a.Silence(slots)
		m.sleep(ctx, slots)
	case HeartbeatGap, HeartbeatLoss, OutOfOrder:
		m.badRadio(ctx, f)
	case Reboot: // until it has booted nobody can know
		m.judge.taken(f.Aircraft, m.timeOf(f.Aircraft)+bootS, func(autopilot.Heartbeat) bool { return true })
		m.reset(f.Aircraft, bootS)
		a.Reboot(!f.Hard)
		m.sleep(ctx, slots)
	case BatteryAbsent:
		a.SetBattery(battery.Fields{})
		m.sleep(ctx, slots)
		a.SetBattery(all)
	case BatteryHand:
		for _, fields := range []battery.Fields{{Current: true}, {Remaining: true}, {Current: true, Remaining: true}} {
			a.SetBattery(fields)
			m.sleep(ctx, slots/3)
		}
		a.SetBattery(all)
	case BatterySwap:
		m.reset(f.Aircraft, 0)
		a.SwapBattery()
	case BatteryWild:
		a.MiscountBattery(4000, false)
		m.sleep(ctx, slots)
		a.MiscountBattery(0, true)
		m.sleep(ctx, 1)
	case BatterySecond:
		if f.State == Idle {
			return m.refusesSecondBattery(ctx, f.Aircraft)
		}
		a.SecondBattery(true, 0)
		m.sleep(ctx, slots)
		a.SecondBattery(false, 0)
	case ProcessKill:
		return m.restartLeader(ctx, slots)
	case ProcessStall:
		m.process().Pause(true)
		m.sleep(ctx, slots)
		m.process().Pause(false)
		m.leaderBack() // it was as good as gone
	case CommandStorm:
		m.crew.storm(random, 2000)
	case SecondLeader:
		return m.secondLeader(ctx)
	case ForgedResult:
		m.forgeResults(ctx, f)
	case ForgedStatus, ForgedBeacon, ForgedAtRestart:
		return m.forge(ctx, f)
	case CrewRadioHold, CrewRadioReturn:
		return m.crewRadio(ctx, f)
	case PilotDisarm:
		m.pilot(ctx, f, a.Disarm, func(_ autopilot.Mode, armed bool) bool { return !armed })
	case PilotPosition, PilotHold: // without a leader Hold cannot be told from the failsafe's
		mode := autopilot.ModePosition
		if f.Kind == PilotHold {
			mode = autopilot.ModeHold
		}
		m.pilot(ctx, f, func() { a.Pilot(mode) }, func(m autopilot.Mode, _ bool) bool { return m == mode })
	}
	return nil
}

const bootS = 5 // an autopilot says nothing while it boots

// refusesSecondBattery starts a fleet of which an aircraft has a second battery.
// The leader counts one, and must say so and refuse, until the other is gone and
// the autopilot began anew.
func (m *mission) refusesSecondBattery(ctx context.Context, i int) error {
	m.autopilots[i].SecondBattery(true, 0.3)
	for ready := false; !ready && ctx.Err() == nil; m.sleep(ctx, 1) {
		a := m.order(telemetry.ActionStart, m.all(), true)
		if m.crew.await(ctx, a) {
			return errors.New("the leader starts with a second battery, which it does not count")
		}
		ready = strings.Contains(a.reason, "batter") // or it knows nothing of its aircraft yet
	}
	m.autopilots[i].SecondBattery(false, 0)
	m.autopilots[i].Reboot(false)
	m.sleep(ctx, bootS+2)
	return nil
}

// pilot is a pilot's act. Until a HEARTBEAT told of it the leader may overrule
// it, and the pilot acts again.
func (m *mission) pilot(ctx context.Context, f fault, act func(), shows func(autopilot.Mode, bool) bool) {
	i := f.Aircraft
	for range 2 * f.Slots {
		if s := m.autopilots[i].State(); !shows(s.Mode, s.Armed) && (s.Armed || !s.Landed) {
			m.judge.taken(i, m.timeOf(i), func(h autopilot.Heartbeat) bool { return shows(h.Mode, h.Armed) })
			act()
		}
		m.sleep(ctx, 0.5)
		if !m.judge.theirs(i) {
			return // the crew gave it away
		}
	}
}

// badRadio is an aircraft's link that loses HEARTBEATs or delays datagrams.
func (m *mission) badRadio(ctx context.Context, f fault) {
	i := f.Aircraft
	a := m.autopilots[i]
	seconds := float64(f.Slots + 8)
	switch f.Kind {
	case HeartbeatGap: // four, which come once a second
		seconds = 4.5
		a.LoseHeartbeats(seconds, 1, m.plan.Seed)
	case HeartbeatLoss:
		a.LoseHeartbeats(seconds, 0.1, m.plan.Seed)
	case OutOfOrder:
		a.Reorder(seconds, 0.3, 0.7, m.plan.Seed)
		m.sleep(ctx, seconds)
		return
	}
	m.judge.mustStream(i, m.timeOf(i))
	m.sleep(ctx, seconds)
	m.mutex.Lock()
	led := !m.killed
	m.mutex.Unlock()
	s := a.State()
	m.judge.mayEnd(i, led && s.Mode == autopilot.ModeOffboard && !s.Landed, m.timeOf(i))
}

// restartLeader kills the leader and starts it again.
func (m *mission) restartLeader(ctx context.Context, slots float64) error {
	m.kill(true)
	m.process().Kill()
	m.crew.down()
	m.sleep(ctx, slots)
	m.gone(slots)
	err := m.startLeader()
	m.leaderBack()
	m.kill(false)
	return err
}

// leaderBack says that the leader runs again and knows nothing of what happened.
func (m *mission) leaderBack() {
	m.crew.down()
	for i, s := range m.times() {
		m.judge.leaderBack(i, s)
	}
}

// times are the mission times of the aircraft's vehicles.
func (m *mission) times() (s []float64) {
	for i := range m.autopilots {
		s = append(s, m.timeOf(i))
	}
	return s
}

// crewRadio is the crew out of the leader's reach, while the broker is there.
func (m *mission) crewRadio(ctx context.Context, f fault) error {
	const marginSlots = 6
	is := func(states ...State) func() bool {
		return func() bool { return slices.Contains(states, m.state()) }
	}
	becomes := func(within float64, what string, ok func() bool) error {
		for end := m.clock() + within; m.clock() < end; m.sleep(ctx, 0.5) {
			if ok() || ctx.Err() != nil {
				return nil
			}
		}
		return fmt.Errorf("%s, and the mission is %s", what, m.state())
	}
	m.crew.radio(false)
	defer m.crew.radio(true)
	if f.Kind == CrewRadioReturn {
		m.wall(ctx, crewReturnS)
		return becomes(2*marginSlots, "the crew was gone for longer than crew_return_s", is(Returning, Done))
	}
	m.wall(ctx, crewHoldS)
	if f.State == Flying {
		if err := becomes(marginSlots, "the crew was gone for longer than crew_hold_s", is(Holding)); err != nil {
			return err
		}
		m.crew.radio(true)
		return becomes(2*marginSlots, "the crew is back", is(Flying, Returning, Done))
	}
	m.sleep(ctx, marginSlots)
	m.crew.radio(true)
	m.sleep(ctx, 2*marginSlots)
	stays := map[State][]State{Idle: {Idle}, Holding: {Holding}, Returning: {Returning, Done}, Done: {Done}, Stopped: {Stopped}}
	if want := stays[f.State]; want != nil && !is(want...)() {
		return fmt.Errorf("the crew was gone and came back, and the mission, which was %s, is %s", f.State, m.state())
	}
	return nil
}

// forge speaks as a leader that is not there.
func (m *mission) forge(ctx context.Context, f fault) error {
	forger := &telemetry.Client{Broker: telemetry.Broker{URL: m.url}, Name: "forger", Log: slog.New(slog.DiscardHandler)}
	if err := forger.Initialize(ctx); err != nil {
		return err
	}
	defer forger.Close()
	say := func() {
		n := max(int(m.now()), 0)
		slotMS := 1000 / m.Speed
		beacon, err := telemetry.Encode(telemetry.Slot{
			Slot: n, SlotMS: slotMS, Speed: m.Speed, ReportByMS: forgedMS, DecideByMS: 0.6 * slotMS, Offer: telemetry.Offer{Aircraft: []telemetry.OfferAircraft{}},
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
		for range 4 * f.Slots {
			say()
			m.sleep(ctx, 0.25)
		}
		return nil
	}
	forging, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for forging.Err() == nil {
			say()
			m.sleep(forging, 0.25)
		}
	}()
	if err := m.restartLeader(ctx, float64(f.Slots)); err != nil {
		return err
	}
	_, n := m.crew.now()
	m.crew.wait(ctx, func() bool { return m.crew.statuses > n+2 })
	return nil
}

// forgeResults sends results that must not count: of strangers, and of users in
// a slot in which they did not report yet.
func (m *mission) forgeResults(ctx context.Context, f fault) {
	for range f.Slots {
		slot := max(int(m.now()), 0)
		for n := range 300 {
			user, of := fmt.Sprintf("stranger-%d", n), slot
			if n < 20 {
				user, of = fmt.Sprintf("u%02d", n+1), slot+2
			}
			r := telemetry.Result{Slot: of, CompletionS: 86_000, By: []string{telemetry.ByOffer, telemetry.ByDecision, telemetry.ByLocal}[n%3]}
			if payload, err := telemetry.Encode(r); err == nil {
				m.crew.client.Publish(telemetry.Publication{Topic: m.crew.topics.Result(user), QoS: 1, Payload: payload})
			}
		}
		m.sleep(ctx, 1)
	}
}

// kill says whether the leader is gone on purpose.
func (m *mission) kill(on bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.killed = on
}

// timeOf is the mission time of an aircraft's vehicle.
func (m *mission) timeOf(i int) float64 { return m.autopilots[i].TimeS() }

// reset notes that an aircraft's counters begin anew.
func (m *mission) reset(i int, gapS float64) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.resets = append(m.resets, reset{i, gapS})
}

// gone notes that there was no leader for some slots.
func (m *mission) gone(slots float64) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.awayS += slots
}

func (m *mission) restartBroker(ctx context.Context, slots float64) error {
	m.brokerMu.Lock()
	defer m.brokerMu.Unlock()
	address := m.broker.Address
	m.broker.Close()
	m.crew.down()
	m.sleep(ctx, slots)
	m.broker = &broker.Broker{Address: address}
	for {
		err := m.broker.Initialize()
		if err == nil {
			m.crew.down()
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// secondLeader is one that was started by mistake: the same fleet, another
// state directory. It must yield with its own exit status.
func (m *mission) secondLeader(ctx context.Context) error {
	var links []string
	for range m.autopilots {
		link, err := m.ports.free("udp")
		if err != nil {
			return err
		}
		links = append(links, link)
	}
	path, err := m.configure("second", links)
	if err != nil {
		return err
	}
	p, err := process.Start([]string{m.Leader, "-config", path}, filepath.Join(m.folder, "second.log"))
	if err != nil {
		return err
	}
	select {
	case <-p.Ended:
	case <-time.After(10 * time.Second):
		p.Kill()
		return errors.New("the newcomer flies on beside the incumbent")
	case <-ctx.Done():
		p.Kill()
		return ctx.Err()
	}
	if code := p.ExitCode(); code != 3 {
		return fmt.Errorf("the newcomer ended with status %d, want 3: %w", code, p.Failure())
	}
	return nil
}

// foreign sends reports that must change nothing: of other slots, twice, of
// strangers, and what is no report.
func (m *mission) foreign(ctx context.Context, f fault, random *rand.Rand) {
	topics := m.crew.topics
	send := func(topic string, payload []byte) {
		m.crew.client.Publish(telemetry.Publication{Topic: topic, Payload: payload})
	}
	for range f.Slots {
		slot := int(m.now())
		for range 60 {
			r := telemetry.Report{
				Slot: max(slot+random.IntN(7)-4, 0), PositionM: [2]float64{1000 * random.Float64(), 1000 * random.Float64()}, CPUHz: 1e9,
				Task: &telemetry.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1},
			}
			user := []string{"u01", "u02", "stranger", "u99"}[random.IntN(4)]
			if r.Slot == slot && user[0] == 'u' && user != "u99" {
				r.Slot = slot + 3 // never in a true user's place
			}
			if payload, err := telemetry.Encode(r); err == nil {
				send(topics.Report(user), payload)
				send(topics.Report(user), payload)
			}
			send(topics.Report("u03"), malformed(random))
			if payload, err := telemetry.Encode(telemetry.Result{Slot: max(slot-random.IntN(9), 0), CompletionS: 59 * random.Float64(), By: telemetry.ByLocal}); err == nil {
				send(topics.Result("stranger"), payload)
			}
		}
		m.sleep(ctx, 1)
	}
}
