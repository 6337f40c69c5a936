package chaos

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"prefdt/telemetry"
)

// outcome is how a mission went.
type outcome struct {
	unsafeSetpoints, lostCommands, duplicateCommands int
	excused                                          int
	excusedS                                         float64
	leaderHostDelay                                  time.Duration
	errorJ, allowedErrorJ                            float64
	leaderJ, truthJ                                  float64
	noReset                                          bool // no counter was reset
	resumed                                          bool
	slowestAnswer                                    time.Duration
	state                                            string
	missedSlots                                      int
	minSeparationM                                   float64
}

// compareAccounts compares the leader's energy account with the batteries'.
func (m *mission) compareAccounts() {
	o := &m.outcome
	s, _ := m.crew.lastStatus()
	leader, truth := m.spentJ(s)
	o.errorJ, o.leaderJ, o.truthJ = math.Abs(leader-truth), leader, truth
	o.allowedErrorJ, o.noReset = m.allowedErrorJ(), len(m.counterResets) == 0
	o.state, o.missedSlots = s.State, s.MissedSlots
	var first string
	o.unsafeSetpoints, first = m.judge.verdict()
	o.leaderHostDelay = m.leaderThreads.delays.total()
	o.excused, o.excusedS = m.judge.excused, m.judge.maxExcusedS
	lost, duplicates, slowest := m.crew.findings()
	o.lostCommands, o.duplicateCommands, o.slowestAnswer, o.minSeparationM = len(lost), len(duplicates), slowest, m.judge.minSeparationM
	if first != "" {
		m.addFinding("unsafe: " + first)
	}
	for _, text := range lost {
		m.addFinding("lost: " + text)
	}
	for _, text := range duplicates {
		m.addFinding("duplicate: " + text)
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
	fmt.Fprintf(&m.accountRows, "%.1f,%s,%d,%.0f,%.0f,%+.0f%s\n", float64(time.Since(m.began))/float64(m.slotWall()), s.State, s.Slot, leader, truth, leader-truth, air)
}

// writeAccounts writes the recorded accounts.
func (m *mission) writeAccounts() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	text := "s,state,slot,leader_j,truth_j,difference_j,and by aircraft: leader's source and mode, true mode and landed\n" + m.accountRows.String()
	os.WriteFile(filepath.Join(m.folder, "accounts.csv"), []byte(text), 0o644)
}

// addFinding records a failure of the mission.
func (m *mission) addFinding(text string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.findings = append(m.findings, text)
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
	for _, r := range m.counterResets {
		gap := r.gapS + m.leaderAbsentS
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
