package chaos

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"prefdt/firmware/ledger"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/world"
	"prefdt/telemetry"
)

// outcome is how a mission went.
type outcome struct {
	Result        // of this mission alone, as far as it has a part in a run's
	allowedErrorJ float64
	resumed       bool
	state         string // by the last status; empty: the mission did not come to its end
}

// judgeEnd judges the mission as a whole. A courseError is why it did not take its course
// to the end, where accounts cannot be compared.
func (m *mission) judgeEnd(courseError error) {
	o := &m.outcome
	s := m.crew.Latest().LastStatus()
	e := ended{allowedJ: m.allowedErrorJ(), lastSlot: -1, courseError: courseError}
	slowest := m.crew.addFindings(&e)
	o.Result = Result{
		LostCommands: len(e.lost), DuplicateCommands: len(e.duplicates), MissedSlots: s.MissedSlots, SlowestAnswerS: slowest.Seconds(),
	}
	if m.leaderEnded() {
		e.exit = m.leader.Load().Failure().Error()
	}
	tasks, inTime := m.tasksDecided()
	m.users.ComputeUnopened(int(m.dueSlots))
	e.contact = m.contact
	e.strangers = m.plan.hasFault(ForeignReports)
	for _, x := range m.users.Outcomes() {
		e.delayS += x.DelayS
	}
	if courseError == nil {
		o.state, o.allowedErrorJ = s.State, e.allowedJ
		e.leaderJ, e.truthJ = m.spentJ(s)
		if o.MaxLedgerErrorJ = math.Abs(e.leaderJ - e.truthJ); len(m.counterResetGapsS) == 0 {
			o.MaxLedgerErrorNoResetJ = o.MaxLedgerErrorJ
		}
		m.addRecord(&e)
		e.slotsDue, e.explained = int(m.dueSlots), int(math.Ceil(m.explainedSlots))
		e.reachesSlots = !m.plan.hasFault(ArmingRefused) && !m.plan.hasFaultIn(Climbing, Engaging)
		// it shows itself to those that move
		if p := &m.plan; p.Wind && p.ShockSlot == never && p.HoldSlots == 0 && p.SpeedMaxMPS == 0 && p.AutopilotMaxMPS == 0 {
			truth := world.NewScenario(&m.world, m.plan.Seed)
			for n := range m.plan.Slots {
				e.windMPS = append(e.windMPS, truth.WindMPS(n))
			}
		}
		if m.plan.Ending == endSlots && m.isIn(Done) && !m.plan.endsByPacks() &&
			!m.plan.hasFault(CrewRadioReturn, BrokerGoneReturn, DiskRefuses, LowBattery) {
			e.leftOutSlots = float64(m.plan.Slots) - m.dueSlots
		}
		e.mustResume = m.plan.mustResume() && m.hadTimeToRecover()
		e.resumed = o.resumed
		m.forgiveRescues()
	}
	m.judge.finish(&e, tasks, inTime)
	o.MinSeparationM = min(m.judge.minSeparationM, 1e9) // without two in the air there is none
	o.LeftForPacks = m.judge.leftForPacks()
	for _, v := range m.judge.broken() {
		if m.plan.knownIssue(v.rule) != "" {
			continue
		}
		if k := slices.IndexFunc(rules, func(r rule) bool { return r.name == v.rule }); rules[k].on == moved ||
			rules[k].on == touchedDown || rules[k].on == arrived {
			o.UnsafeSetpoints += v.count
		}
	}
}

// addRecord stops the leader and reads its ledger, and what it is compared with.
func (m *mission) addRecord(e *ended) {
	if err := m.leader.Load().Shutdown(); err != nil {
		e.courseError = err
		return
	}
	e.wroteLedger = true
	if m.plan.hasFault(ProcessKill, PowerCut, ForgedAtRestart) {
		e.mayLose = 1
	}
	l, err := ledger.OpenReadOnly(m.ledgerPath())
	if err == nil {
		var flights []ledger.Flight
		if flights, err = l.Flights(); err == nil && len(flights) > 0 {
			e.flight = flights[len(flights)-1]
		}
		l.Close()
	}
	e.ledgerError = err
	for _, f := range m.plan.Faults {
		switch {
		case f.Kind == BatteryAbsent && m.leaderAbsentS > 0: // a shock before a restart is not known after it
			e.modelledJ += modelErrorW * (m.leaderAbsentS + float64(f.DurationSlots+absentExtraSlots))
		case m.plan.Wind && (f.Kind == BatteryAbsent || f.Kind == BatteryHandover): // of wind the model knows what is believed
			e.modelledJ += modelErrorW * float64(f.DurationSlots+absentExtraSlots)
		case m.plan.Wind && f.Kind == LinkLoss:
			e.modelledJ += modelErrorW * float64(f.DurationSlots+linkLossExtraSlots)
		case f.Kind == ProcessStall || f.Kind == DiskStall: // the slot in progress is settled late
			e.modelledJ += modelErrorW * float64(m.Aircraft*max(f.DurationSlots, diskStallS))
		}
	}
	e.modelledJ += heldErrorW * m.plan.MonitorS * float64(m.Aircraft)
	e.bySlot, e.leavesEarly = m.bySlot(), m.plan.LandsAtReserve || m.plan.lands()
	if m.lastSlotKnown {
		e.lastSlot = m.judge.lastSlot
		if m.plan.Ending == endSlots && m.isIn(Done) && !m.plan.hasFault(CrewRadioReturn) && m.dueSlots >= float64(m.plan.Slots) {
			e.lastSlot = m.plan.Slots - 1 // also if it was missed
		}
	}
	for n := range e.lastSlot + 1 {
		e.inSlotsJ += e.bySlot[n]
	}
	e.ceilingJ = m.crew.keptCeilingJ(&m.plan, m.judge, e)
}

// bySlot are the true joules of all aircraft in each slot so far, and in the second after
// the last.
func (m *mission) bySlot() []float64 {
	sum := make([]float64, m.plan.Slots+1)
	for _, a := range m.autopilots {
		for n, s := range a.BySlot() {
			if n >= 0 && n < len(sum) {
				sum[n] += s.J()
			}
		}
	}
	return sum
}

// forgiveRescues leaves aside the rescues that faults explain: a lost link or a leader
// that stood still leave an aircraft in its autopilot's Hold, and a stop leaves it to its
// pilot. A leader that is back from a kill goes on with what it commanded, unless the
// autopilot's own failsafe was first.
func (m *mission) forgiveRescues() {
	p := &m.plan
	stopped := p.Ending == endStop || p.StopsLanding
	killed := p.StockRates && p.hasFault(ProcessKill, PowerCut, ForgedAtRestart) || p.hasFaultIn(Climbing, Engaging)
	unreached := p.hasFault(LinkLoss, HeartbeatSilence, HeartbeatGap, HeartbeatLoss, OutOfOrder, ProcessStall, DiskStall)
	if stopped || killed || unreached || p.hasFault(Reboot, PilotDisarm, PilotPosition, PilotHold) {
		m.judge.withAll(func(_ int, a *observedAircraft) { a.rescued = "" })
	}
}

// tasksDecided is how many tasks were reported, and how many of them were decided in time.
func (m *mission) tasksDecided() (tasks, inTime int) {
	expected, lost := 0, 0
	for n := range m.plan.Slots {
		r := m.users.ReportCounts(n)
		tasks, expected, lost = tasks+r.Tasks, expected+r.Expected, lost+r.Lost
	}
	for _, o := range m.users.Outcomes() {
		if o.By == telemetry.ByDecision {
			inTime++
		}
	}
	if m.plan.hasFault(BrokerRestart, BrokerGoneHold, BrokerGoneReturn, ForgedBeacon, ForgedAtRestart) {
		return 0, inTime // a slot may open without its leader, or its answers not arrive
	}
	if expected > 0 {
		tasks -= tasks * lost / expected
	}
	return tasks, inTime
}

// spentJ is the energy of all aircraft by a status of the leader, and the true one now.
func (m *mission) spentJ(s telemetry.Status) (leader, truth float64) {
	if s.Scope != telemetry.ScopeLanded { // else it is in each aircraft's
		leader = s.TransitJ
	}
	for _, a := range s.Aircraft {
		leader += a.SpentJ
	}
	for _, a := range m.autopilots {
		truth += a.State().Spent.J()
	}
	return leader, truth
}

// recordAccounts records the energy by the leader and the true one at each status, and both
// themselves. They are written beside the ledger of a mission that failed.
func (m *mission) recordAccounts(s telemetry.Status) {
	m.judgeStatus(s)
	leader, truth := m.spentJ(s)
	air, truths := "", []autopilot.State(nil)
	for i, a := range m.autopilots {
		state := a.State()
		if i < len(s.Aircraft) {
			air += fmt.Sprintf(",%s,%s", s.Aircraft[i].EnergySource, s.Aircraft[i].Mode)
		}
		air += fmt.Sprintf(",%s,%v", state.Mode, state.Landed)
		truths = append(truths, state)
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	fmt.Fprintf(&m.accountRows, "%.1f,%s,%d,%.0f,%.0f,%+.0f%s\n", m.elapsedSlots(), s.State, s.Slot, leader, truth, leader-truth, air)
	json.NewEncoder(&m.statusRows).Encode(struct { // cannot fail: a buffer
		Status telemetry.Status
		Truth  []autopilot.State
	}{s, truths})
}

// judgeStatus judges a status of the slots, unless it was long on its way.
func (m *mission) judgeStatus(s telemetry.Status) {
	const onTimeSlots = 1.5
	late := m.slotNow() - float64(s.Slot+1)
	if inSlots := s.State == telemetry.StateFlying || s.State == telemetry.StateHolding; s.State != telemetry.StateDone &&
		(!inSlots || late > onTimeSlots) {
		return
	}
	slotsJ, all := 0.0, m.bySlot()
	for _, joules := range all[:min(s.Slot+1, len(all))] {
		slotsJ += joules
	}
	m.judge.handleStatus(s, slotsJ)
}

func (m *mission) writeAccounts() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	text := "s,state,slot,leader_j,truth_j,difference_j,and by aircraft: leader's source and mode, true mode and landed\n" +
		m.accountRows.String()
	os.WriteFile(filepath.Join(m.folder, "accounts.csv"), []byte(text), 0o644)
	os.WriteFile(filepath.Join(m.folder, "statuses.jsonl"), m.statusRows.Bytes(), 0o644)
}

const (
	counterStepJ = 100 // a hectojoule, the resolution in BATTERY_STATUS
	heldErrorW   = 60  // of the current that holds between two measurements
	modelErrorW  = 250 // error of the power model, which does not know the shock, at v* and above
)

// allowedErrorJ is the allowed error of the leader's account: a step of the counter for
// each aircraft; for each reset, the energy since the last reading and a step for the
// unknown fraction; and for a gap around a reset, the error of the model over the gap. A
// sensor that reads too much or too little adds its share of all joules.
func (m *mission) allowedErrorJ() float64 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	allowed := (counterStepJ + heldErrorW*m.plan.MonitorS) * float64(m.Aircraft)
	for i, a := range m.autopilots { // what a sensor reads wrongly nobody can know
		allowed += math.Abs(m.plan.SensorGain[i]-1) * a.State().Spent.J()
	}
	for _, gap := range m.counterResetGapsS {
		gap += m.leaderAbsentS
		for _, f := range m.plan.Faults { // links and fields that were missing
			switch f.Kind {
			case LinkLoss, ProcessStall, BatteryAbsent, BatteryHandover:
				gap += float64(f.DurationSlots)
				if f.Kind == LinkLoss && f.Severe {
					gap += linkLossExtraSlots
				}
				if f.Kind == BatteryAbsent {
					gap += absentExtraSlots
				}
			}
		}
		allowed += 2*counterStepJ + modelErrorW*(0.5+gap)
	}
	return allowed
}
