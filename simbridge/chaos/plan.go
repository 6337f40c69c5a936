package chaos

import (
	"math/rand/v2"
	"slices"
)

// Kind is a kind of fault.
type Kind string

const (
	ReportLoss     Kind = "report_loss"     // no report arrives
	ForeignReports Kind = "foreign_reports" // early, late, twice, of strangers, malformed
	BrokerRestart  Kind = "broker_restart"
	LinkLoss       Kind = "link_loss"
	Reboot         Kind = "autopilot_reboot"
	BatteryAbsent  Kind = "battery_absent"   // no field of BATTERY_STATUS is measured
	BatteryHand    Kind = "battery_handover" // another one is
	BatterySwap    Kind = "battery_reset"    // counters begin anew, the charge jumps
	ProcessKill    Kind = "process_kill"
	ProcessStall   Kind = "process_stall"
	CommandStorm   Kind = "command_storm"
	SecondLeader   Kind = "second_leader"
	PilotTakeover  Kind = "pilot_takeover"
	ClockJump      Kind = "clock_jump" // the leader's wall clock jumps a day, again and again
)

// kinds in the order in which the missions of a run take turns.
var kinds = []Kind{
	ProcessKill, LinkLoss, CommandStorm, BrokerRestart, PilotTakeover, Reboot, BatteryAbsent, BatterySwap,
	ReportLoss, ProcessStall, SecondLeader, BatteryHand, ForeignReports,
}

// fault is one that begins in a slot and lasts for some.
type fault struct {
	Kind     Kind
	Slot     int
	Slots    int // it lasts
	Aircraft int // from 0
	Hard     bool
}

func (f fault) end() int { return f.Slot + f.Slots }

// plan is one mission.
type plan struct {
	Seed       uint64
	Faults     []fault
	Crowded    bool    // starts at 1.5 times the least separation
	ShockSlot  int     // propulsion costs half as much again from there on
	Loss       float64 // of reports, throughout
	TakeGround bool    // the crew resumes an aircraft that stands on the ground too
	Jump       bool    // the wall clock jumps
}

// mustResume tells whether, by the leader's table, every aircraft flies for it
// again at the end. Not so a rebooted one, which stays where it is until the
// crew resumes, on the ground perhaps; nor one whose trouble the crew had no
// time to answer.
func (p plan) mustResume(slots int, speed float64) bool {
	for _, f := range p.Faults {
		end := f.end()
		if f.Kind == LinkLoss && f.Hard {
			end += linkExtra
		}
		if f.Kind == BrokerRestart && f.Hard {
			end += int(retryS * speed)
		}
		if f.Kind == Reboot || end > slots-quiet {
			return false
		}
	}
	return true
}

// retryS is wall time after which the leader's client tries a broker again that
// did not answer at once. Until then nobody can give an aircraft back.
const retryS = 2.5

// linkExtra makes a loss of the link outlast COM_OF_LOSS_T.
const linkExtra = 8

// quiet is how many slots at a mission's end begin no fault.
const quiet = 12

// draw makes mission k of a run.
func draw(seed uint64, k, slots, aircraft int, jump bool) plan {
	r := rand.New(rand.NewPCG(seed, uint64(k)))
	p := plan{
		Seed: 2_000_000 + seed*1000 + uint64(k), Crowded: r.IntN(2) == 0, ShockSlot: r.IntN(slots),
		Loss: 0.2 * r.Float64(), TakeGround: r.IntN(2) == 0, Jump: jump && k%3 == 1,
	}
	for i := range 1 + r.IntN(3) {
		f := fault{
			Kind: kinds[r.IntN(len(kinds))], Slot: r.IntN(slots - quiet), Slots: 1 + r.IntN(8),
			Aircraft: r.IntN(aircraft), Hard: r.IntN(2) == 0,
		}
		if i == 0 {
			f.Kind = kinds[k%len(kinds)]
		}
		// A newcomer must find the incumbent at its place.
		if slices.ContainsFunc(p.Faults, func(g fault) bool { return apart(f.Kind, g.Kind) }) {
			continue
		}
		p.Faults = append(p.Faults, f)
	}
	slices.SortFunc(p.Faults, func(a, b fault) int { return a.Slot - b.Slot })
	return p
}

// apart tells which faults do not share a mission: two of a kind, whose ends
// would be mistaken for one another, and a second leader with what silences
// the first.
func apart(a, b Kind) bool {
	silent := func(k Kind) bool { return k == ProcessKill || k == ProcessStall || k == BrokerRestart }
	return a == b || a == SecondLeader && silent(b) || b == SecondLeader && silent(a) ||
		a == ProcessKill && b == ProcessStall || a == ProcessStall && b == ProcessKill ||
		a == BatteryAbsent && b == BatteryHand || a == BatteryHand && b == BatteryAbsent ||
		a == Reboot && b == PilotTakeover || a == PilotTakeover && b == Reboot
}
