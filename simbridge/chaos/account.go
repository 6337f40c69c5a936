package chaos

import (
	"fmt"
	"math"
	"os"
	"path/filepath"

	"prefdt/telemetry"
)

// outcome is how a mission went.
type outcome struct {
	Result        // of this mission alone, as far as it has a part in a run's
	leaderJ       float64
	truthJ        float64
	allowedErrorJ float64
	resumed       bool
	state         string // by the last status
}

// compareAccounts compares the leader's energy account with the batteries', and collects
// what judge and crew found.
func (m *mission) compareAccounts() {
	o := &m.outcome
	s, _ := m.crew.lastStatus()
	unsafe, first := m.judge.verdict()
	lost, duplicates, slowest := m.crew.findings()
	o.state, o.allowedErrorJ = s.State, m.allowedErrorJ()
	o.leaderJ, o.truthJ = m.spentJ(s)
	o.Result = Result{
		UnsafeSetpoints: unsafe, LostCommands: len(lost), DuplicateCommands: len(duplicates), MissedSlots: s.MissedSlots,
		MaxLedgerErrorJ: math.Abs(o.leaderJ - o.truthJ), SlowestAnswerS: slowest.Seconds(), MinSeparationM: m.judge.minSeparationM,
		LeaderHostDelayS: m.leader.Load().threads.delays.total().Seconds(),
		ExcusedByHost:    m.judge.excused, MaxExcusedMS: 1000 * m.judge.maxExcusedS / m.Speed,
	}
	if len(m.counterResetGapsS) == 0 {
		o.MaxLedgerErrorNoResetJ = o.MaxLedgerErrorJ
	}
	if first != "" {
		m.findings = append(m.findings, "unsafe: "+first)
	}
	for _, text := range lost {
		m.findings = append(m.findings, "lost: "+text)
	}
	for _, text := range duplicates {
		m.findings = append(m.findings, "duplicate: "+text)
	}
}

// spentJ is the energy of all aircraft by a status of the leader, and the true one now.
func (m *mission) spentJ(s telemetry.Status) (leader, truth float64) {
	leader = s.TransitJ
	for _, a := range s.Aircraft {
		leader += a.SpentJ
	}
	for _, a := range m.autopilots {
		truth += a.State().Spent.J()
	}
	return leader, truth
}

// recordAccounts records the energy by the leader and the true one at each status. It
// is written beside the ledger of a mission whose accounts differ.
func (m *mission) recordAccounts(s telemetry.Status) {
	leader, truth := m.spentJ(s)
	air := ""
	for i, a := range m.autopilots {
		state := a.State()
		if i < len(s.Aircraft) {
			air += fmt.Sprintf(",%s,%s", s.Aircraft[i].EnergySource, s.Aircraft[i].Mode)
		}
		air += fmt.Sprintf(",%s,%v", state.Mode, state.Landed)
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	fmt.Fprintf(&m.accountRows, "%.1f,%s,%d,%.0f,%.0f,%+.0f%s\n", m.elapsedSlots(), s.State, s.Slot, leader, truth, leader-truth, air)
}

func (m *mission) writeAccounts() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	text := "s,state,slot,leader_j,truth_j,difference_j,and by aircraft: leader's source and mode, true mode and landed\n" + m.accountRows.String()
	os.WriteFile(filepath.Join(m.folder, "accounts.csv"), []byte(text), 0o644)
}

const (
	counterStepJ = 100 // a hectojoule, the resolution in BATTERY_STATUS
	modelErrorW  = 250 // error of the power model, which does not know the shock, at v* and above
)

// allowedErrorJ is the allowed error of the leader's account: a step of the counter for
// each aircraft; for each reset, the energy since the last reading and a step for the
// unknown fraction; and for a gap around a reset, the error of the model over the gap.
func (m *mission) allowedErrorJ() float64 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	allowed := counterStepJ * float64(m.Aircraft)
	for _, gap := range m.counterResetGapsS {
		gap += m.leaderAbsentS
		for _, f := range m.plan.Faults { // links and fields that were missing
			switch f.Kind {
			case LinkLoss, ProcessStall, BatteryAbsent, BatteryHandover:
				gap += float64(f.DurationSlots)
				if f.Kind == LinkLoss && f.Severe {
					gap += linkLossExtraSlots
				}
			}
		}
		allowed += 2*counterStepJ + modelErrorW*(0.5+gap)
	}
	return allowed
}
