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
	noReset                                          bool // no counter began anew
	resumed                                          bool
	slowestAnswer                                    time.Duration
	state                                            string
	missedSlots                                      int
	minSeparationM                                   float64
}

// compareAccounts holds the leader's account against the batteries'.
func (m *mission) compareAccounts() {
	o := &m.outcome
	s, _ := m.crew.lastStatus()
	leader, truth := s.TransitJ, 0.0
	for i, a := range m.autopilots {
		if i < len(s.Aircraft) {
			leader += s.Aircraft[i].SpentJ
		}
		truth += a.State().Spent.J()
	}
	o.errorJ, o.leaderJ, o.truthJ = math.Abs(leader-truth), leader, truth
	o.allowedErrorJ, o.noReset = m.allowedErrorJ(), len(m.counterResets) == 0
	o.state, o.missedSlots = s.State, s.MissedSlots
	var first string
	o.unsafeSetpoints, first = m.judge.verdict()
	o.leaderHostDelay = m.leaderThreads.total()
	o.excused, o.excusedS = m.judge.excused, m.judge.maxExcusedS
	lost, doubled, slowest := m.crew.findings()
	o.lostCommands, o.duplicateCommands, o.slowestAnswer, o.minSeparationM = len(lost), len(doubled), slowest, m.judge.minSeparationM
	if first != "" {
		m.addFinding("unsafe: " + first)
	}
	for _, text := range lost {
		m.addFinding("lost: " + text)
	}
	for _, text := range doubled {
		m.addFinding("doubled: " + text)
	}
}

// recordAccounts notes what the leader says was drawn, and what was, at each status: to
// be kept beside the ledger of a mission whose accounts differ.
func (m *mission) recordAccounts(s telemetry.Status) {
	leader, truth, air := s.TransitJ, 0.0, ""
	for i, a := range m.autopilots {
		state := a.State()
		truth += state.Spent.J()
		if i < len(s.Aircraft) {
			leader += s.Aircraft[i].SpentJ
			air += fmt.Sprintf(",%s,%s", s.Aircraft[i].EnergySource, s.Aircraft[i].Mode)
		}
		air += fmt.Sprintf(",%s,%v", state.Mode, state.Landed)
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	fmt.Fprintf(&m.accountRows, "%.1f,%s,%d,%.0f,%.0f,%+.0f%s\n", float64(time.Since(m.began))/float64(m.slotWall()), s.State, s.Slot, leader, truth, leader-truth, air)
}

// writeAccounts writes them.
func (m *mission) writeAccounts() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	text := "s,state,slot,leader_j,truth_j,difference_j,and by aircraft: leader's source and mode, true mode and landed\n" + m.accountRows.String()
	os.WriteFile(filepath.Join(m.folder, "accounts.csv"), []byte(text), 0o644)
}

// addFinding keeps what was wrong.
func (m *mission) addFinding(text string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.findings = append(m.findings, text)
}

const (
	counterStepJ = 100 // BATTERY_STATUS's hectojoule
	modelErrorW  = 250 // what flying draws beyond a model that does not know the shock, at v* and after it
)

// allowedErrorJ is how far the leader's account may be off: a count of the counter
// for each aircraft; for each reset, what was drawn since
// it was read last, and a count for the fraction nobody knew; for a gap in which
// it was reset and nobody read it, what the model may be off.
func (m *mission) allowedErrorJ() float64 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	allowed := counterStepJ * float64(m.Aircraft)
	for _, r := range m.counterResets {
		gap := r.gapS + m.leaderAbsentS
		for _, f := range m.plan.Faults { // links and fields that were not there
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
