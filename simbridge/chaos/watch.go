package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"

	"prefdt/simbridge/autopilot"
)

// watch begins each fault when the mission is where the plan has it, and does
// what goes on all the time: the crew's heartbeat, the measure of the machine.
func (m *mission) watch(ctx context.Context) {
	var faults sync.WaitGroup
	defer faults.Wait()
	beat := time.Second
	if m.plan.radioLost() {
		beat = time.Duration(crewBeatS * float64(time.Second))
	}
	tick := time.NewTicker(max(2*time.Millisecond, m.slotWall()/10))
	defer tick.Stop()
	for lastBeat := (time.Time{}); ; {
		m.mutex.Lock()
		leader := m.threads
		m.mutex.Unlock()
		leader.sample()
		if now := time.Now(); now.Sub(lastBeat) >= beat {
			lastBeat = now
			m.crew.heartbeat()
		}
		if s := m.state(); s != Idle && s != "" {
			m.enter(s)
		}
		for {
			f, ok := m.next()
			if !ok {
				break
			}
			faults.Go(func() {
				err := m.happen(ctx, f)
				m.over()
				if err != nil && ctx.Err() == nil {
					m.failed <- fmt.Errorf("%s in %s: %w", f.Kind, f.State, err)
				}
			})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// enter notes that a state was entered.
func (m *mission) enter(s State) {
	m.mutex.Lock()
	_, before := m.entered[s]
	if !before {
		m.entered[s] = time.Now()
	}
	m.mutex.Unlock()
	if !before && m.plan.Jump {
		m.meet(ClockJump, s)
	}
}

// meet counts that a fault met a state.
func (m *mission) meet(k Kind, s State) {
	m.metMu.Lock()
	defer m.metMu.Unlock()
	m.met.add(k, s)
}

// next takes a fault out of those pending whose time has come.
func (m *mission) next() (fault, bool) {
	m.mutex.Lock()
	pending := append([]fault(nil), m.pending...)
	m.mutex.Unlock()
	for k, f := range pending {
		if !m.isTime(&f) {
			continue
		}
		m.mutex.Lock()
		m.pending = append(m.pending[:k:k], m.pending[k+1:]...)
		m.active++
		m.activeIn = append(m.activeIn, f.State)
		m.mutex.Unlock()
		m.meet(f.Kind, f.State)
		return f, true
	}
	return fault{}, false
}

// isTime tells whether a fault begins now, and settles which aircraft it meets:
// the planned one or, if that one is not where it can, another.
func (m *mission) isTime(f *fault) bool {
	state := m.state()
	m.mutex.Lock()
	entered, was := m.entered[state]
	since := float64(time.Since(entered)) / float64(m.slotWall())
	m.mutex.Unlock()
	switch f.State {
	case Engaging:
		if state != Climbing {
			return false
		}
	case Landing:
		if state != Returning && state != Done {
			return false
		}
	case Flying:
		if state != Flying || m.now() < float64(f.Slot) {
			return false
		}
	default:
		if state != f.State || !was || since < float64(f.Slot) {
			return false
		}
	}
	if f.State != Engaging && f.State != Landing && !meetsAircraft(f.Kind) {
		return true
	}
	for k := range m.autopilots {
		if i := (f.Aircraft + k) % m.Aircraft; m.aircraftAt(f, i) {
			f.Aircraft = i
			return true
		}
	}
	return false
}

// meetsAircraft tells whether a fault is an aircraft's and needs it in the air.
func meetsAircraft(k Kind) bool {
	switch k {
	case PilotDisarm, PilotPosition, PilotHold, LinkLoss, Reboot, HeartbeatGap, HeartbeatLoss, OutOfOrder:
		return true
	}
	return false
}

// aircraftAt tells whether an aircraft is where a fault can begin.
func (m *mission) aircraftAt(f *fault, i int) bool {
	s := m.autopilots[i].State()
	if f.State == Idle {
		return true
	}
	if !s.Armed || s.Landed || m.judge.theirs(i) {
		return false
	}
	m.mutex.Lock()
	streamed := m.streamed[i]
	m.mutex.Unlock()
	switch f.State {
	case Engaging:
		return streamed && s.Mode != autopilot.ModeOffboard
	case Climbing: // once the leader can know that it is armed
		return m.judge.knownArmed(i)
	case Landing: // at one height or another, and a stall over the touchdown
		if f.Kind == ProcessStall {
			return s.Mode == autopilot.ModeLand && s.Position.UpM < touchdownM
		}
		return s.Mode == autopilot.ModeLand && s.Position.UpM < m.world.Physics.AltitudeM*(1-0.2*float64(f.Slot))
	}
	if f.Kind == PilotHold {
		return s.Mode == autopilot.ModeOffboard
	}
	return true
}

// touchdownM is a height from which a landing takes less than the shortest stall.
const touchdownM = 3

// over says that a fault has ended.
func (m *mission) over() {
	now := m.clock()
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.active--
	m.lastEnd = now
	if m.active == 0 {
		m.activeIn = nil
	}
}

// busy tells whether a fault goes on.
func (m *mission) busy() bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.active > 0
}

// awaits tells whether a fault in a state is still to begin, or goes on.
func (m *mission) awaits(s State) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, f := range m.pending {
		if f.State == s && !meetsAircraft(f.Kind) {
			return true
		}
	}
	for _, a := range m.activeIn {
		if a == s {
			return true
		}
	}
	if s == Holding || s == Stopped || s == Idle { // aircraft wait there to be met, for a while
		for _, f := range m.pending {
			if f.State == s && time.Since(m.entered[s]) < 20*m.slotWall() {
				return true
			}
		}
	}
	return s != Holding && m.active > 0
}
