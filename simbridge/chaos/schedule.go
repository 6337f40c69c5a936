package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"prefdt/simbridge/autopilot"
)

// runFaults begins each fault when the mission is where the plan has it, and does
// what goes on all the time: the crew's heartbeat, the measure of the machine.
func (m *mission) runFaults(ctx context.Context) {
	var faults sync.WaitGroup
	defer faults.Wait()
	beat := time.Second
	if m.plan.losesCrewRadio() {
		beat = time.Duration(heartbeatPeriodS * float64(time.Second))
	}
	tick := time.NewTicker(max(2*time.Millisecond, m.slotWall()/10))
	defer tick.Stop()
	for lastBeat := (time.Time{}); ; {
		m.mutex.Lock()
		leader := m.leaderThreads
		m.mutex.Unlock()
		leader.sample()
		if now := time.Now(); now.Sub(lastBeat) >= beat {
			lastBeat = now
			m.crew.sendHeartbeat()
		}
		if s := m.state(); s != Idle && s != "" {
			m.noteState(s)
		}
		for {
			f, ok := m.nextDueFault()
			if !ok {
				break
			}
			faults.Go(func() {
				err := m.injectFault(ctx, f)
				m.noteFaultEnd()
				if err != nil && ctx.Err() == nil {
					m.faultErrors <- fmt.Errorf("%s in %s: %w", f.Kind, f.State, err)
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

// noteState notes that a state was entered.
func (m *mission) noteState(s State) {
	m.mutex.Lock()
	_, before := m.stateEnteredAt[s]
	if !before {
		m.stateEnteredAt[s] = time.Now()
	}
	m.mutex.Unlock()
	if !before && m.plan.ClockJumps {
		m.countFault(ClockJump, s)
	}
}

// countFault counts that a fault met a state.
func (m *mission) countFault(k FaultKind, s State) {
	m.coverageMutex.Lock()
	defer m.coverageMutex.Unlock()
	m.coverage.add(k, s)
}

// nextDueFault takes a fault out of those pending whose time has come.
func (m *mission) nextDueFault() (fault, bool) {
	m.mutex.Lock()
	pending := slices.Clone(m.pendingFaults)
	m.mutex.Unlock()
	for k, f := range pending {
		if !m.isDue(&f) {
			continue
		}
		m.mutex.Lock()
		m.pendingFaults = append(m.pendingFaults[:k:k], m.pendingFaults[k+1:]...)
		m.activeFaults++
		m.activeFaultStates = append(m.activeFaultStates, f.State)
		m.mutex.Unlock()
		m.countFault(f.Kind, f.State)
		return f, true
	}
	return fault{}, false
}

// isDue tells whether a fault begins now, and settles which aircraft it meets:
// the planned one or, if that one is not where it can, another.
func (m *mission) isDue(f *fault) bool {
	state := m.state()
	m.mutex.Lock()
	entered, was := m.stateEnteredAt[state]
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
		if state != Flying || m.slotNow() < float64(f.StartSlot) {
			return false
		}
	default:
		if state != f.State || !was || since < float64(f.StartSlot) {
			return false
		}
	}
	if f.State != Engaging && f.State != Landing && !needsAirborneAircraft(f.Kind) {
		return true
	}
	for k := range m.autopilots {
		if i := (f.Aircraft + k) % m.Aircraft; m.aircraftIsDue(f, i) {
			f.Aircraft = i
			return true
		}
	}
	return false
}

// needsAirborneAircraft tells whether a fault is an aircraft's and needs it in the air.
func needsAirborneAircraft(k FaultKind) bool {
	switch k {
	case PilotDisarm, PilotPosition, PilotHold, LinkLoss, Reboot, HeartbeatGap, HeartbeatLoss, OutOfOrder:
		return true
	}
	return false
}

// aircraftIsDue tells whether an aircraft is where a fault can begin.
func (m *mission) aircraftIsDue(f *fault, i int) bool {
	s := m.autopilots[i].State()
	if f.State == Idle {
		return true
	}
	if !s.Armed || s.Landed || m.judge.isPilots(i) {
		return false
	}
	m.mutex.Lock()
	streamed := m.setpointReceived[i]
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
		return s.Mode == autopilot.ModeLand && s.Position.UpM < m.world.Physics.AltitudeM*(1-0.2*float64(f.StartSlot))
	}
	if f.Kind == PilotHold { // soon after a stream has ended, it cannot be told from the failsafe's
		return !m.leaderKilled.Load() && s.Mode == autopilot.ModeOffboard && m.judge.streaming(i, m.autopilots[i].TimeS())
	}
	return true
}

// touchdownM is a height from which a landing takes less than the shortest stall.
const touchdownM = 3

// noteFaultEnd says that a fault has ended.
func (m *mission) noteFaultEnd() {
	now := m.elapsedSlots()
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.activeFaults--
	m.lastFaultEnd = now
	if m.activeFaults == 0 {
		m.activeFaultStates = nil
	}
}

// faultActive tells whether a fault goes on.
func (m *mission) faultActive() bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.activeFaults > 0
}

// awaitsFaultIn tells whether a fault in a state is still to begin, or goes on.
func (m *mission) awaitsFaultIn(s State) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, f := range m.pendingFaults {
		if f.State == s && !needsAirborneAircraft(f.Kind) {
			return true
		}
	}
	if slices.Contains(m.activeFaultStates, s) {
		return true
	}
	if s == Holding || s == Stopped || s == Idle { // aircraft wait there to be met, for a while
		for _, f := range m.pendingFaults {
			if f.State == s && time.Since(m.stateEnteredAt[s]) < 20*m.slotWall() {
				return true
			}
		}
	}
	return s != Holding && m.activeFaults > 0
}
