package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
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
	case Reboot:
		m.judge.handsOff(f.Aircraft, m.timeOf(f.Aircraft)+5) // until it has booted nobody can know
		m.reset(f.Aircraft, 5)
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
	case ProcessKill:
		m.kill(true)
		m.leader.Kill()
		m.crew.down()
		m.sleep(ctx, slots)
		m.gone(slots)
		err := m.startLeader()
		m.kill(false)
		return err
	case ProcessStall:
		m.leader.Pause(true)
		m.sleep(ctx, slots)
		m.leader.Pause(false)
		m.crew.down() // it was as good as gone
	case CommandStorm:
		m.crew.storm(random, 2000)
	case SecondLeader:
		return m.secondLeader(ctx)
	case PilotTakeover:
		mode := autopilot.ModePosition
		if f.Hard {
			mode = autopilot.ModeHold
		}
		// Without a leader Hold cannot be told from the failsafe's.
		m.judge.handsOff(f.Aircraft, m.timeOf(f.Aircraft))
		a.Pilot(mode)
		m.sleep(ctx, slots)
	}
	return nil
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
		link, err := freePort("udp")
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

const (
	countJ = 100 // BATTERY_STATUS's hectojoule
	mostW  = 250 // what flying draws beyond a model that does not know the shock, at v* and after it
)

// allowedJ is how far the leader's account may be off: a count of the counter
// for each aircraft; for each reset, what was drawn since it was read last, and
// a count for the fraction nobody knew; for a gap in which it was reset and
// nobody read it, what the model may be off.
func (m *mission) allowedJ() float64 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	allowed := countJ * float64(m.Aircraft)
	for _, r := range m.resets {
		gap := r.gapS + m.awayS
		for _, f := range m.plan.Faults { // links and fields that were not there
			switch f.Kind {
			case LinkLoss, ProcessStall, BatteryAbsent, BatteryHand:
				gap += float64(f.Slots)
				if f.Kind == LinkLoss && f.Hard {
					gap += linkExtra
				}
			}
		}
		allowed += 2*countJ + mostW*(0.5+gap)
	}
	return allowed
}
