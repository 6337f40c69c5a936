package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"prefdt/simbridge/autopilot"
)

// runFaults injects each fault when it is due by the plan. It also sends the crew's
// heartbeats and samples the delays by the machine.
func (m *mission) runFaults(ctx context.Context) {
	var faults sync.WaitGroup
	defer faults.Wait()
	heartbeatPeriod := time.Second
	if m.plan.losesCrewRadio() {
		heartbeatPeriod = time.Duration(heartbeatPeriodS * float64(time.Second))
	}
	tick := time.NewTicker(max(2*time.Millisecond, m.slotWall()/10))
	defer tick.Stop()
	for lastHeartbeat := (time.Time{}); ; {
		m.mutex.Lock()
		leader := m.leaderThreads
		m.mutex.Unlock()
		leader.sample()
		if now := time.Now(); now.Sub(lastHeartbeat) >= heartbeatPeriod {
			lastHeartbeat = now
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

// nextDueFault removes a fault that is due from the pending ones and returns it.
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

// isDue reports whether a fault begins now, and chooses its aircraft: the planned one or,
// if the fault is not possible there, another.
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

// needsAirborneAircraft reports whether a fault affects an aircraft and needs it in the air.
func needsAirborneAircraft(k FaultKind) bool {
	switch k {
	case PilotDisarm, PilotPosition, PilotHold, LinkLoss, Reboot, HeartbeatGap, HeartbeatLoss, OutOfOrder:
		return true
	}
	return false
}

// aircraftIsDue reports whether a fault can begin at an aircraft now.
func (m *mission) aircraftIsDue(f *fault, i int) bool {
	s := m.autopilots[i].State()
	if f.State == Idle {
		return true
	}
	if !s.Armed || s.Landed || m.judge.isPiloted(i) {
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
	case Landing: // at a height by the plan, and a stall during the touchdown
		if f.Kind == ProcessStall {
			return s.Mode == autopilot.ModeLand && s.Position.UpM < touchdownM
		}
		return s.Mode == autopilot.ModeLand && s.Position.UpM < m.world.Physics.AltitudeM*(1-0.2*float64(f.StartSlot))
	}
	if f.Kind == PilotHold { // soon after a stream has ended it cannot be distinguished from the failsafe's
		return !m.leaderKilled.Load() && s.Mode == autopilot.ModeOffboard && m.judge.streaming(i, m.autopilots[i].TimeS())
	}
	return true
}

// touchdownM is a height from which a landing takes less than the shortest stall.
const touchdownM = 3

// noteFaultEnd notes that a fault has ended.
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

// faultActive reports whether a fault is active.
func (m *mission) faultActive() bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.activeFaults > 0
}

// awaitsFaultIn reports whether a fault in a state is pending or active.
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
	if s == Holding || s == Stopped || s == Idle { // for a while, until a fault is possible at an aircraft
		for _, f := range m.pendingFaults {
			if f.State == s && time.Since(m.stateEnteredAt[s]) < 20*m.slotWall() {
				return true
			}
		}
	}
	return s != Holding && m.activeFaults > 0
}
