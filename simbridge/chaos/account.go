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
	unsafe, lost, doubled int
	excused               int
	excusedS              float64
	leaderHeldUp          time.Duration
	errorJ, allowedJ      float64
	leaderJ, truthJ       float64
	counted               bool // no counter began anew
	resumed               bool
	slowest               time.Duration
	state                 string
	missed                int
	separationM           float64
}

// balance holds the leader's account against the batteries'.
func (m *mission) balance(o *outcome) {
	s, _ := m.crew.now()
	leader, truth := s.TransitJ, 0.0
	for i, a := range m.autopilots {
		if i < len(s.Aircraft) {
			leader += s.Aircraft[i].SpentJ
		}
		truth += a.State().Spent.J()
	}
	o.errorJ, o.leaderJ, o.truthJ = math.Abs(leader-truth), leader, truth
	o.allowedJ, o.counted = m.allowedJ(), len(m.resets) == 0
	o.state, o.missed = s.State, s.MissedSlots
	var first string
	o.unsafe, first = m.judge.verdict()
	o.leaderHeldUp = m.threads.total()
	o.excused, o.excusedS = m.judge.excused, m.judge.excusedS
	lost, doubled, slowest := m.crew.failures()
	o.lost, o.doubled, o.slowest, o.separationM = len(lost), len(doubled), slowest, m.judge.leastM
	if first != "" {
		m.note("unsafe: " + first)
	}
	for _, text := range lost {
		m.note("lost: " + text)
	}
	for _, text := range doubled {
		m.note("doubled: " + text)
	}
}

// compare notes what the leader says was drawn, and what was, at each status: to
// be kept beside the ledger of a mission whose accounts differ.
func (m *mission) compare(s telemetry.Status) {
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
	fmt.Fprintf(&m.accounts, "%.1f,%s,%d,%.0f,%.0f,%+.0f%s\n", float64(time.Since(m.began))/float64(m.slotWall()), s.State, s.Slot, leader, truth, leader-truth, air)
}

// keepAccounts writes them.
func (m *mission) keepAccounts() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	text := "s,state,slot,leader_j,truth_j,difference_j,and by aircraft: leader's source and mode, true mode and landed\n" + m.accounts.String()
	os.WriteFile(filepath.Join(m.folder, "accounts.csv"), []byte(text), 0o644)
}

// note keeps what was wrong.
func (m *mission) note(text string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.notes = append(m.notes, text)
}

const (
	countJ = 100 // BATTERY_STATUS's hectojoule
	mostW  = 250 // what flying draws beyond a model that does not know the shock, at v* and after it
)

// allowedJ is how far the leader's account may be off: a count of the counter
// for each aircraft; for each reset, what was drawn since
// it was read last, and a count for the fraction nobody knew; for a gap in which
// it was reset and nobody read it, what the model may be off.
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
