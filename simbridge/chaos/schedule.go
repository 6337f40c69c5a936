package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/record"
)

// runFaults injects each fault when it is due by the plan. It also sends the crew's heartbeats.
func (m *mission) runFaults(ctx context.Context) {
	var faults sync.WaitGroup
	defer faults.Wait()
	heartbeatPeriod := time.Second
	if m.plan.losesCrewRadio() {
		heartbeatPeriod = time.Duration(heartbeatPeriodS * float64(time.Second))
	}
	m.apart()
	tick := time.NewTicker(max(2*time.Millisecond, m.slotWall()/10))
	defer tick.Stop()
	wrong := 0
	for lastHeartbeat := (time.Time{}); ; {
		if n := int(m.elapsedSlots() / wrongSampleEveryS); n > wrong && len(m.plan.WrongSamples) > 0 {
			wrong = n
			sample := m.plan.WrongSamples[n/m.Aircraft%len(m.plan.WrongSamples)]
			m.noteFault(record.WrongSample, n%m.Aircraft+1, false, string(sample))
			m.noteFault(record.WrongSample, n%m.Aircraft+1, true, "")
			m.autopilots[n%m.Aircraft].SendWrongSample(sample)
		}
		m.jumpHeight()
		if now := time.Now(); now.Sub(lastHeartbeat) >= heartbeatPeriod {
			lastHeartbeat = now
			m.crew.sendHeartbeat()
		}
		if s := m.state(); s != Idle && s != "" {
			m.noteState(s)
		}
		for f, ok := m.nextDueFault(); ok; f, ok = m.nextDueFault() {
			faults.Go(func() {
				m.apart()
				met, err := m.injectFault(ctx, f)
				m.noteFaultEnd(f, met)
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

// apart waits for a moment of its own, of microseconds: in virtual time what happens at one instant has no order.
func (m *mission) apart() {
	time.Sleep(time.Duration(1+m.apartCalls.Add(1)%97) * 1237 * time.Nanosecond)
}

// wrongSampleEveryS is the time between two wrong samples of a fleet.
const wrongSampleEveryS = 4

func (m *mission) noteState(s State) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if _, before := m.stateEnteredAt[s]; before {
		return
	}
	m.stateEnteredAt[s] = time.Now()
	if m.plan.ClockJumps {
		m.met = append(m.met, coverageCell{ClockJump, s})
	}
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
		return f, true
	}
	return fault{}, false
}

// isDue reports whether a fault begins now, and chooses its aircraft: the planned one or,
// if the fault is not possible there, another.
func (m *mission) isDue(f *fault) bool {
	if f.duringStop() && m.isDueDuringStop(f) {
		return true
	}
	state, due := m.state(), false
	switch f.State {
	case Engaging:
		due = state == Climbing
	case Landing:
		due = state == Returning || state == Done
	case Flying:
		due = state == Flying && m.slotNow() >= float64(f.StartSlot)
	default:
		const afterStop = 6 // slots: then it is too late to act during it
		begins := float64(f.StartSlot)
		if f.duringStop() {
			begins = afterStop
		}
		due = state == f.State && m.slotsSince(state) >= begins
	}
	if !due || f.State != Engaging && f.State != Landing && !needsAirborneAircraft(f.Kind) {
		return due
	}
	for k := range m.autopilots {
		if i := (f.Aircraft + k) % m.Aircraft; m.aircraftIsDue(f, i) {
			f.Aircraft = i
			return true
		}
	}
	return false
}

// duringStop reports whether a pilot is to act just as the leader stops the aircraft.
func (f *fault) duringStop() bool { return f.Kind == PilotPosition && f.State == Stopped && f.Severe }

// isDueDuringStop reports whether an aircraft in the air was commanded into Hold just now,
// and chooses it.
func (m *mission) isDueDuringStop(f *fault) bool {
	const justS = 0.5
	for i, a := range m.autopilots {
		if s := a.State(); !s.Landed && s.TimeS-m.watch.of(i).toldHoldS < justS {
			f.Aircraft = i
			return true
		}
	}
	return false
}

// needsAirborneAircraft reports whether a fault affects an aircraft and needs it in the air.
func needsAirborneAircraft(k FaultKind) bool {
	return slices.Contains([]FaultKind{PilotDisarm, PilotPosition, PilotHold, KillInGap, LinkLoss, Reboot, HeartbeatGap, HeartbeatLoss,
		HeartbeatSilence, OutOfOrder, LowBattery, StationSilence, PilotReturn, ModeRefused, StaysArmed, TellsLanded, StationFlies,
		ParameterChange, QuickReboot, PilotLands, NewWhileLost, ReturnAtOnce}, k)
}

// aircraftIsDue reports whether a fault can begin at an aircraft now.
func (m *mission) aircraftIsDue(f *fault, i int) bool {
	const farM, waitSlots, descendsM = 100, 8, 15
	if f.State == Idle {
		return true
	}
	s, seen, copter := m.autopilots[i].State(), m.watch.of(i), m.plan.isCopter(i)
	if slices.Contains([]FaultKind{StationSilence, PilotReturn, StationFlies}, f.Kind) && !copter {
		return false
	}
	if !s.Armed || s.Landed || seen.piloted {
		return false
	}
	switch f.State {
	case Engaging:
		if f.Kind == KillInGap || copter { // it has just reached OFFBOARD, before which nothing is streamed to an ArduCopter
			return s.Mode == autopilot.ModeOffboard && seen.offboardForS() < 0.4
		}
		return seen.streamed && s.Mode != autopilot.ModeOffboard
	case Climbing: // once the leader can know that it is armed; near H its take-off ends in Hold
		high := f.Kind != PilotPosition || !m.plan.LowPilot || s.HeightM > lowPilotM+descendsM
		if f.Kind == LowBattery { // high enough that it does not just touch down
			const lowM, highM = 25, 50
			return s.Mode == autopilot.ModeTakeoff && s.HeightM > lowM && s.HeightM < highM
		}
		return seen.shownArmed && high && (f.Kind != PilotHold || s.HeightM > 5 && s.Position.UpM < 0.8*m.world.Physics.AltitudeM)
	case Landing: // at a height by the plan, and a stall during the touchdown
		if f.Kind == ProcessStall {
			return s.Mode == autopilot.ModeLand && s.HeightM < touchdownM
		}
		return s.Mode == autopilot.ModeLand && s.Position.UpM < m.world.Physics.AltitudeM*(1-0.2*float64(f.StartSlot))
	}
	if away := s.Position.Sub(seen.home).HorizontalM(); f.Kind == LowBattery && away < farM &&
		m.slotNow() < float64(f.StartSlot+waitSlots) {
		return false // so that there is a way home
	}
	if f.Kind == PilotHold { // also in the failsafe's Hold; the ledger has OFFBOARD a slot later
		return m.autopilots[i].TimeS()-seen.followedS > 2
	}
	return true
}

// touchdownM is a height from which a landing takes less than the shortest stall.
const touchdownM = 3

// noteFaultEnd notes that a fault is over, and whether it had its effect.
func (m *mission) noteFaultEnd(f fault, met bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if met {
		m.met = append(m.met, f.coverageCell)
	}
	m.activeFaults--
	m.lastFaultEnd = m.elapsedSlots()
	if m.activeFaults == 0 {
		m.activeFaultStates = nil
	}
}

func (m *mission) faultActive() bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.activeFaults > 0
}

// awaitsFaultIn reports whether a fault in a state is pending or active.
func (m *mission) awaitsFaultIn(s State) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	// For a while also one that is not possible at any aircraft yet.
	waits := (s == Holding || s == Stopped || s == Idle) && time.Since(m.stateEnteredAt[s]) < 20*m.slotWall()
	pending := func(f fault) bool { return f.State == s && (waits || !needsAirborneAircraft(f.Kind)) }
	return s != Holding && m.activeFaults > 0 || slices.Contains(m.activeFaultStates, s) || slices.ContainsFunc(m.pendingFaults, pending)
}
