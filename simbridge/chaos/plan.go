package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// FaultKind is a kind of fault.
type FaultKind string

const (
	ReportLoss      FaultKind = "report_loss"     // no report arrives
	ForeignReports  FaultKind = "foreign_reports" // early, late, duplicate, of unknown users, malformed
	ForgedResult    FaultKind = "forged_result"   // of 300 unknown users and of users that did not report in that slot
	BrokerRestart   FaultKind = "broker_restart"
	LinkLoss        FaultKind = "link_loss"
	Reboot          FaultKind = "autopilot_reboot"
	BatteryAbsent   FaultKind = "battery_absent"   // no field of BATTERY_STATUS is measured
	BatteryHandover FaultKind = "battery_handover" // other fields are measured
	BatterySwap     FaultKind = "battery_reset"    // counters are reset, the charge jumps
	BatteryOutlier  FaultKind = "battery_wild"     // one message reports 4 kJ too much, another one 0
	SecondBattery   FaultKind = "battery_second"   // one with id 1 reports as well
	HeartbeatGap    FaultKind = "heartbeat_gap"    // four HEARTBEATs in a row are lost, positions go on
	HeartbeatLoss   FaultKind = "heartbeat_loss"   // 10 % of them are
	OutOfOrder      FaultKind = "out_of_order"     // 30 % of the datagrams are up to 0.7 s late
	PilotDisarm     FaultKind = "pilot_disarm"
	PilotPosition   FaultKind = "pilot_position" // the pilot chooses POSCTL
	PilotHold       FaultKind = "pilot_hold"     // the pilot chooses Hold
	CommandStorm    FaultKind = "command_storm"
	ProcessKill     FaultKind = "process_kill"
	ProcessStall    FaultKind = "process_stall"
	SecondLeader    FaultKind = "second_leader"
	ForgedStatus    FaultKind = "forged_status"
	ForgedBeacon    FaultKind = "forged_beacon"
	ForgedAtRestart FaultKind = "forged_at_restart" // both, while the leader restarts
	CrewRadioHold   FaultKind = "crew_radio_hold"   // no heartbeat of the crew for longer than crew_hold_s
	CrewRadioReturn FaultKind = "crew_radio_return" // for longer than crew_return_s
	ClockJump       FaultKind = "clock_jump"        // the leader's wall clock jumps a day, again and again
)

// fault is a fault that begins in a state and lasts for some slots.
type fault struct {
	coverageCell
	StartSlot     int // of the mission in Flying, else since the state was entered
	DurationSlots int
	Aircraft      int // from 0
	Severe        bool
}

// plan is one mission.
type plan struct {
	Seed               uint64
	Slots              int     // T
	Faults             []fault // in the order in which they are to begin
	DenseStart         bool    // starts at 1.5 times the least separation
	ShockSlot          int     // propulsion power is 1.5 times as high from there on
	ReportLossRate     float64 // of reports, throughout
	RelaunchesGrounded bool    // the crew launches aircraft on the ground again
	ResumesGrounded    bool    // the crew also resumes aircraft on the ground, which must not arm them
	Signed             bool    // crew and leader have keys
	ClockJumps         bool    // the wall clock jumps

	HoldSlot, HoldSlots int    // the crew holds; 0 slots: never
	Ending              ending // how it ends
	EndSlot             int    // of endReturn and endStop
	ReturnAfterStop     bool   // the crew returns the aircraft; else their pilots land them
}

// ending is how a mission ends.
type ending string

const (
	endSlots  ending = "end"    // its last slot is settled
	endReturn ending = "return" // the crew calls it back
	endStop   ending = "stop"   // the crew stops it
)

// mustResume reports whether every aircraft has to be under the leader's command again at
// the end. One need not be that was rebooted or disarmed, or that was on the ground when
// the leader restarted in the climb, since it stays there until the crew launches it; nor
// any in a mission that ended early.
func (p *plan) mustResume() bool {
	if p.Ending != endSlots {
		return false
	}
	return !slices.ContainsFunc(p.Faults, func(f fault) bool {
		return f.Kind == Reboot || f.Kind == PilotDisarm || f.Kind == CrewRadioReturn ||
			f.State == Climbing && (f.Kind == ProcessKill || f.Kind == ForgedAtRestart)
	})
}

// hasFault reports whether a mission has a fault of one of some kinds.
func (p *plan) hasFault(kinds ...FaultKind) bool {
	return slices.ContainsFunc(p.Faults, func(f fault) bool { return slices.Contains(kinds, f.Kind) })
}

func (p *plan) losesCrewRadio() bool { return p.hasFault(CrewRadioHold, CrewRadioReturn) }

// brokerRetryS is the longest wall time between two attempts of the leader's client to
// reconnect. Until then the crew cannot return an aircraft to it.
const brokerRetryS = 2.5

// linkLossExtraSlots makes a loss of the link outlast COM_OF_LOSS_T.
const linkLossExtraSlots = 8

// quietSlots is the number of slots at a mission's end in which no fault of Flying begins.
const quietSlots = 12

// minSlots is the least length of a mission, in slots.
const minSlots = 24

// drawPlan draws mission k of a run. Its first fault is the run's k-th possible cell, in
// an order drawn from the seed, so that a run with as many missions as there are cells
// meets each; the other faults begin after it, so that they cannot prevent it.
func drawPlan(c *Config, k int) plan {
	seed, slots, aircraft := c.Seed, c.Slots, c.Aircraft
	all := coverageCells()
	order := rand.New(rand.NewPCG(seed, 1<<40)).Perm(len(all))
	first := all[order[k%len(all)]]
	r := rand.New(rand.NewPCG(seed, uint64(k)))
	if first.Kind == CrewRadioHold || first.Kind == CrewRadioReturn { // wall times: slots enough for them
		slots = max(slots, int(crewReturnS*c.Speed)+3*quietSlots)
	}
	p := plan{
		Slots: slots, Seed: 2_000_000 + seed*1000 + uint64(k), DenseStart: r.IntN(2) == 0, ShockSlot: r.IntN(slots), ReportLossRate: 0.2 * r.Float64(),
		RelaunchesGrounded: r.IntN(2) == 0, ResumesGrounded: r.IntN(2) == 0, Signed: r.IntN(2) == 0, ClockJumps: c.JumpLeader != "" && k%3 == 1, ReturnAfterStop: r.IntN(2) == 0,
	}
	last := slots - quietSlots // slot in which a fault in flight begins
	p.drawCourse(first, last, r)
	add := func(c coverageCell) {
		f := fault{coverageCell: c, DurationSlots: 1 + r.IntN(8), Aircraft: r.IntN(aircraft), Severe: r.IntN(2) == 0}
		f.StartSlot = p.drawStartSlot(c, last, r)
		p.Faults = append(p.Faults, f)
	}
	add(first)
	most := 1 + r.IntN(3)
	if first == (coverageCell{SecondBattery, Idle}) { // it waits for a refusal, which other faults delay or change
		most = 0
	}
	for i := range most {
		c := all[r.IntN(len(all))]
		if i == 0 { // each cell has a second mission in which it can be met
			c = all[order[(k+len(all)/2)%len(all)]]
		}
		if !p.visits(c.State) || c.Kind == CrewRadioHold || c.Kind == CrewRadioReturn || slices.ContainsFunc(p.Faults, func(f fault) bool { return mutuallyExclusive(c, f.coverageCell) }) ||
			slices.Index(states, c.State) < slices.Index(states, first.State) {
			continue
		}
		add(c)
	}
	at := func(f fault) int { return slices.Index(states, f.State)*slots + f.StartSlot }
	for i := range p.Faults[1:] { // none begins before the first
		if f := &p.Faults[i+1]; f.State == first.State {
			f.StartSlot = max(f.StartSlot, p.Faults[0].StartSlot+1)
		}
	}
	slices.SortStableFunc(p.Faults[1:], func(a, b fault) int { return at(a) - at(b) })
	if slices.ContainsFunc(p.Faults, needsKeys) {
		p.Signed = true
	}
	return p
}

// drawCourse draws the hold and the end of a mission that meets its first fault, and
// in which nothing but that fault changes the state that it is to change or keep.
func (p *plan) drawCourse(first coverageCell, last int, r *rand.Rand) {
	p.Ending = []ending{endSlots, endSlots, endReturn, endStop}[r.IntN(4)]
	switch {
	case first.State == Returning, first.State == Landing && p.Ending == endStop:
		p.Ending = endReturn
	case first.State == Done:
		p.Ending = endSlots
	case first.State == Stopped:
		p.Ending = endStop
	}
	if first.State == Holding || r.IntN(4) == 0 {
		p.HoldSlots = 9 + r.IntN(4)
		p.HoldSlot = 2 + r.IntN(max(last-p.HoldSlots-2, 1))
	}
	p.EndSlot = last + r.IntN(quietSlots-4)
	switch first {
	case coverageCell{CrewRadioHold, Flying}, coverageCell{CrewRadioReturn, Climbing}, coverageCell{CrewRadioReturn, Flying}:
		p.HoldSlots = 0
	case coverageCell{CrewRadioHold, Holding}, coverageCell{CrewRadioReturn, Holding}:
		p.HoldSlot = 2 + r.IntN(3)
	}
	if first.Kind == CrewRadioReturn {
		p.Ending = endSlots
	}
}

// drawStartSlot draws the slot of a fault.
func (p *plan) drawStartSlot(c coverageCell, last int, r *rand.Rand) int {
	switch {
	case c.Kind == CrewRadioReturn: // it must outlast crew_return_s before the end
		return 1 + r.IntN(2)
	case c.Kind == CrewRadioHold && c.State == Flying:
		return 2 + r.IntN(4)
	case c.State == Flying && p.HoldSlots > 0: // not during the hold
		if p.HoldSlot > 3 && r.IntN(2) == 0 {
			return r.IntN(p.HoldSlot - 2)
		}
		return min(p.HoldSlot+p.HoldSlots+1+r.IntN(4), last+2)
	case c.State == Flying:
		return r.IntN(last)
	case c.State == Climbing:
		return r.IntN(8)
	case c.State == Holding:
		return 1 + r.IntN(3)
	case c.State == Engaging, c.State == Idle:
		return 0
	}
	return r.IntN(4)
}

// visits reports whether a mission passes through a state.
func (p *plan) visits(s State) bool {
	switch s {
	case Holding:
		return p.HoldSlots > 0
	case Returning:
		return p.Ending == endReturn
	case Landing, Done:
		return p.Ending == endSlots || p.Ending == endReturn && s == Landing
	case Stopped:
		return p.Ending == endStop
	}
	return true
}

// needsKeys reports whether a leader withstands a fault only with keys. A second leader
// detects the first by its signed proof alone while that sends no beacons.
func needsKeys(f fault) bool {
	forged := slices.Contains([]FaultKind{ForgedStatus, ForgedBeacon, ForgedAtRestart}, f.Kind)
	return forged || f.Kind == SecondLeader && f.State != Flying && f.State != Holding
}

// exclusiveGroups are kinds that do not share a mission, because one would be mistaken for
// another or would hide its effect.
var exclusiveGroups = [][]FaultKind{
	{ProcessKill, ProcessStall, BrokerRestart, SecondLeader, ForgedAtRestart, ForgedStatus, ForgedBeacon},
	{ProcessKill, ProcessStall, BrokerRestart, CrewRadioHold, CrewRadioReturn, ForgedAtRestart},
	{CommandStorm, CrewRadioHold, CrewRadioReturn},
	{BatteryAbsent, BatteryHandover, BatterySwap, BatteryOutlier, SecondBattery, Reboot},
	{PilotDisarm, PilotPosition, PilotHold, Reboot},
	{HeartbeatGap, HeartbeatLoss, OutOfOrder, LinkLoss},
}

// mutuallyExclusive reports whether two faults must not share a mission: two of a kind,
// whose ends would be mistaken for one another, and two of a group. A kill and a restart
// of the broker may, as both happen together in the field.
func mutuallyExclusive(a, b coverageCell) bool {
	if a.Kind == b.Kind {
		return true
	}
	if a.Kind == ProcessKill && b.Kind == BrokerRestart || a.Kind == BrokerRestart && b.Kind == ProcessKill {
		return false
	}
	return slices.ContainsFunc(exclusiveGroups, func(g []FaultKind) bool { return slices.Contains(g, a.Kind) && slices.Contains(g, b.Kind) })
}

func (p plan) String() string {
	var words []string
	for _, f := range p.Faults {
		words = append(words, fmt.Sprintf("%s@%s+%d", f.Kind, f.State, f.StartSlot))
	}
	if p.HoldSlots > 0 {
		words = append(words, fmt.Sprintf("hold@%d", p.HoldSlot))
	}
	if p.Ending != endSlots {
		words = append(words, fmt.Sprintf("%s@%d", p.Ending, p.EndSlot))
	}
	if p.Signed {
		words = append(words, "signed")
	}
	if p.ClockJumps {
		words = append(words, string(ClockJump))
	}
	return strings.Join(words, " ")
}
