package chaos

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// outcome is how a mission went.
type outcome struct {
	unsafe, lost, doubled int
	excused               int
	excusedS              float64
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

// keepTruth writes what the batteries really gave, by aircraft and slot, beside
// the leader's ledger: for a mission whose accounts differ.
func (m *mission) keepTruth() {
	var b strings.Builder
	b.WriteString("aircraft,slot,flight_j,edge_j\n")
	for i, a := range m.autopilots {
		by := a.BySlot()
		for _, slot := range slices.Sorted(maps.Keys(by)) {
			fmt.Fprintf(&b, "%d,%d,%.1f,%.1f\n", i+1, slot, by[slot].FlightJ, by[slot].EdgeJ)
		}
	}
	os.WriteFile(filepath.Join(m.folder, "truth.csv"), []byte(b.String()), 0o644)
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
