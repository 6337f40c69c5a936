package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Kind is a kind of fault.
type Kind string

const (
	ReportLoss      Kind = "report_loss"     // no report arrives
	ForeignReports  Kind = "foreign_reports" // early, late, twice, of strangers, malformed
	ForgedResult    Kind = "forged_result"   // of 300 strangers and of users that did not report in that slot
	BrokerRestart   Kind = "broker_restart"
	LinkLoss        Kind = "link_loss"
	Reboot          Kind = "autopilot_reboot"
	BatteryAbsent   Kind = "battery_absent"   // no field of BATTERY_STATUS is measured
	BatteryHand     Kind = "battery_handover" // another one is
	BatterySwap     Kind = "battery_reset"    // counters begin anew, the charge jumps
	BatteryWild     Kind = "battery_wild"     // one message says 4 kJ too much, another one 0
	BatterySecond   Kind = "battery_second"   // one with id 1 reports, too
	HeartbeatGap    Kind = "heartbeat_gap"    // four HEARTBEATs in a row are lost, positions go on
	HeartbeatLoss   Kind = "heartbeat_loss"   // 10 % of them are
	OutOfOrder      Kind = "out_of_order"     // 30 % of the datagrams come up to 0.7 s late
	PilotDisarm     Kind = "pilot_disarm"
	PilotPosition   Kind = "pilot_position" // the pilot chooses POSCTL
	PilotHold       Kind = "pilot_hold"     // the pilot chooses Hold
	CommandStorm    Kind = "command_storm"
	ProcessKill     Kind = "process_kill"
	ProcessStall    Kind = "process_stall"
	SecondLeader    Kind = "second_leader"
	ForgedStatus    Kind = "forged_status"
	ForgedBeacon    Kind = "forged_beacon"
	ForgedAtRestart Kind = "forged_at_restart" // both, while the leader restarts
	CrewRadioHold   Kind = "crew_radio_hold"   // the crew is not heard for longer than crew_hold_s
	CrewRadioReturn Kind = "crew_radio_return" // for longer than crew_return_s
	ClockJump       Kind = "clock_jump"        // the leader's wall clock jumps a day, again and again
)

// kinds are those that a plan draws from.
var kinds = []Kind{
	ProcessKill, LinkLoss, CommandStorm, BrokerRestart, PilotPosition, PilotDisarm, PilotHold, Reboot,
	BatteryAbsent, BatterySwap, BatteryHand, BatteryWild, BatterySecond, ReportLoss, ForeignReports, ForgedResult,
	HeartbeatGap, HeartbeatLoss, OutOfOrder, ProcessStall, SecondLeader,
	ForgedStatus, ForgedBeacon, ForgedAtRestart, CrewRadioHold, CrewRadioReturn,
}

// fault is one that begins in a state and lasts for some slots.
type fault struct {
	Kind     Kind
	State    State
	Slot     int // it begins: of the mission in Flying, else counted from when the state was entered
	Slots    int // it lasts
	Aircraft int // from 0
	Hard     bool
}

// plan is one mission.
type plan struct {
	Seed      uint64
	Slots     int     // T
	Faults    []fault // in the order in which they are to begin
	Crowded   bool    // starts at 1.5 times the least separation
	ShockSlot int     // propulsion costs half as much again from there on
	Loss      float64 // of reports, throughout
	Launch    bool    // the crew launches again an aircraft that stands
	Wrong     bool    // the crew also resumes what stands, which must not arm
	Signed    bool    // crew and leader have keys
	Jump      bool    // the wall clock jumps

	HoldSlot, HoldSlots int    // the crew holds; 0 slots: never
	End                 ending // how it ends
	EndSlot             int    // of endReturn and endStop
	ReturnAfterStop     bool   // the crew brings the aircraft home; or else their pilots do
}

// ending is how a mission ends.
type ending string

const (
	endSlots  ending = "end"    // its last slot is settled
	endReturn ending = "return" // the crew calls it back
	endStop   ending = "stop"   // the crew stops it
)

// mustResume tells whether, by the leader's table, every aircraft flies for it
// again at the end. Not so one that was rebooted or disarmed, or that a leader
// restarted in the climb finds on the ground, which stands until the crew
// launches it; nor one in a mission that ended early.
func (p *plan) mustResume() bool {
	if p.End != endSlots {
		return false
	}
	return !slices.ContainsFunc(p.Faults, func(f fault) bool {
		return f.Kind == Reboot || f.Kind == PilotDisarm || f.Kind == CrewRadioReturn ||
			f.State == Climbing && (f.Kind == ProcessKill || f.Kind == ForgedAtRestart)
	})
}

func (p *plan) has(k Kind) bool {
	return slices.ContainsFunc(p.Faults, func(f fault) bool { return f.Kind == k })
}

func (p *plan) radioLost() bool { return p.has(CrewRadioHold) || p.has(CrewRadioReturn) }

// retryS is wall time after which the leader's client tries a broker again that
// did not answer at once. Until then nobody can give an aircraft back.
const retryS = 2.5

// linkExtra makes a loss of the link outlast COM_OF_LOSS_T.
const linkExtra = 8

// quiet is how many slots at a mission's end begin no fault of Flying.
const quiet = 12

// least is the least length of a mission, in slots.
const least = 24

// draw makes mission k of a run. Its first fault is the run's k-th possible
// cell, in an order of the seed's, so that a run with as many missions as there
// are cells meets each; the others come after it in the same mission, so that
// they cannot keep it from happening.
func draw(c *Config, k int) plan {
	seed, slots, aircraft := c.Seed, c.Slots, c.Aircraft
	all := cells()
	order := rand.New(rand.NewPCG(seed, 1<<40)).Perm(len(all))
	first := all[order[k%len(all)]]
	r := rand.New(rand.NewPCG(seed, uint64(k)))
	if first.Kind == CrewRadioHold || first.Kind == CrewRadioReturn { // wall times: slots enough for them
		slots = max(slots, int(crewReturnS*c.Speed)+3*quiet)
	}
	p := plan{
		Slots: slots, Seed: 2_000_000 + seed*1000 + uint64(k), Crowded: r.IntN(2) == 0, ShockSlot: r.IntN(slots), Loss: 0.2 * r.Float64(),
		Launch: r.IntN(2) == 0, Wrong: r.IntN(2) == 0, Signed: r.IntN(2) == 0, Jump: c.JumpLeader != "" && k%3 == 1, ReturnAfterStop: r.IntN(2) == 0,
	}
	p.End = []ending{endSlots, endSlots, endReturn, endStop}[r.IntN(4)]
	switch first.State {
	case Returning:
		p.End = endReturn
	case Done:
		p.End = endSlots
	case Stopped:
		p.End = endStop
	case Landing:
		if p.End == endStop {
			p.End = endReturn
		}
	}
	last := slots - quiet // of those that begin a fault in flight
	hold := first.State == Holding || r.IntN(4) == 0
	if hold {
		p.HoldSlots = 9 + r.IntN(4)
		p.HoldSlot = 2 + r.IntN(max(last-p.HoldSlots-2, 1))
	}
	p.EndSlot = last + r.IntN(quiet-4)
	switch first { // nothing else may change the state that is to change, or not
	case cell{CrewRadioHold, Flying}, cell{CrewRadioReturn, Climbing}, cell{CrewRadioReturn, Flying}:
		p.HoldSlots = 0
	case cell{CrewRadioHold, Holding}, cell{CrewRadioReturn, Holding}:
		p.HoldSlot = 2 + r.IntN(3)
	}
	if first.Kind == CrewRadioReturn {
		p.End = endSlots
	}
	add := func(c cell) {
		f := fault{Kind: c.Kind, State: c.State, Slots: 1 + r.IntN(8), Aircraft: r.IntN(aircraft), Hard: r.IntN(2) == 0}
		f.Slot = p.begins(c, last, slots, r)
		p.Faults = append(p.Faults, f)
	}
	add(first)
	most := 1 + r.IntN(3)
	if first == (cell{BatterySecond, Idle}) { // it waits for a refusal, which others delay or change
		most = 0
	}
	for i := range most {
		c := all[r.IntN(len(all))]
		if i == 0 { // each cell has another mission to be met in
			c = all[order[(k+len(all)/2)%len(all)]]
		}
		if !p.visits(c.State) || c.Kind == CrewRadioHold || c.Kind == CrewRadioReturn || slices.ContainsFunc(p.Faults, func(f fault) bool { return apart(c, cell{f.Kind, f.State}) }) ||
			slices.Index(states, c.State) < slices.Index(states, first.State) {
			continue
		}
		add(c)
	}
	at := func(f fault) int { return slices.Index(states, f.State)*slots + f.Slot }
	for i := range p.Faults[1:] { // none before the first
		if f := &p.Faults[i+1]; f.State == first.State {
			f.Slot = max(f.Slot, p.Faults[0].Slot+1)
		}
	}
	slices.SortStableFunc(p.Faults[1:], func(a, b fault) int { return at(a) - at(b) })
	if slices.ContainsFunc(p.Faults, needsKeys) {
		p.Signed = true
	}
	return p
}

// begins draws the slot of a fault.
func (p *plan) begins(c cell, last, slots int, r *rand.Rand) int {
	switch {
	case c.Kind == CrewRadioReturn: // it must outlast crew_return_s before the end
		return 1 + r.IntN(2)
	case c.Kind == CrewRadioHold && c.State == Flying:
		return 2 + r.IntN(4)
	case c.State == Flying && p.HoldSlots > 0: // not in the hold
		if p.HoldSlot > 3 && r.IntN(2) == 0 {
			return r.IntN(p.HoldSlot - 2)
		}
		return min(p.HoldSlot+p.HoldSlots+1+r.IntN(4), slots-quiet+2)
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

// visits tells whether a mission comes through a state.
func (p *plan) visits(s State) bool {
	switch s {
	case Holding:
		return p.HoldSlots > 0
	case Returning:
		return p.End == endReturn
	case Landing, Done:
		return p.End == endSlots || p.End == endReturn && s == Landing
	case Stopped:
		return p.End == endStop
	}
	return true
}

// needsKeys is what a leader is safe from only with keys; and a newcomer is told
// of an incumbent that sends no beacons only by its proof.
func needsKeys(f fault) bool {
	switch f.Kind {
	case ForgedStatus, ForgedBeacon, ForgedAtRestart:
		return true
	case SecondLeader:
		return f.State != Flying && f.State != Holding
	}
	return false
}

// groups of kinds that do not share a mission: what would be mistaken for one
// another, and what keeps another one from meaning anything.
var groups = [][]Kind{
	{ProcessKill, ProcessStall, BrokerRestart, SecondLeader, ForgedAtRestart, ForgedStatus, ForgedBeacon},
	{ProcessKill, ProcessStall, BrokerRestart, CrewRadioHold, CrewRadioReturn, ForgedAtRestart},
	{CommandStorm, CrewRadioHold, CrewRadioReturn},
	{BatteryAbsent, BatteryHand, BatterySwap, BatteryWild, BatterySecond, Reboot},
	{PilotDisarm, PilotPosition, PilotHold, Reboot},
	{HeartbeatGap, HeartbeatLoss, OutOfOrder, LinkLoss},
}

// apart tells which faults do not share a mission: two of a kind, whose ends
// would be mistaken for one another, and two of a group. A kill may meet a
// broker that restarts, as both do in the field.
func apart(a, b cell) bool {
	if a.Kind == b.Kind {
		return true
	}
	if a.Kind == ProcessKill && b.Kind == BrokerRestart || a.Kind == BrokerRestart && b.Kind == ProcessKill {
		return false
	}
	return slices.ContainsFunc(groups, func(g []Kind) bool { return slices.Contains(g, a.Kind) && slices.Contains(g, b.Kind) })
}

func (p plan) String() string {
	var words []string
	for _, f := range p.Faults {
		words = append(words, fmt.Sprintf("%s@%s+%d", f.Kind, f.State, f.Slot))
	}
	if p.HoldSlots > 0 {
		words = append(words, fmt.Sprintf("hold@%d", p.HoldSlot))
	}
	if p.End != endSlots {
		words = append(words, fmt.Sprintf("%s@%d", p.End, p.EndSlot))
	}
	if p.Signed {
		words = append(words, "signed")
	}
	if p.Jump {
		words = append(words, string(ClockJump))
	}
	return strings.Join(words, " ")
}
