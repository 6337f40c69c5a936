package chaos

import (
	"fmt"
	"slices"
	"strings"

	"prefdt/simbridge/autopilot"
	"prefdt/telemetry"
)

// event is one thing that the judge learns from the simulators or from the wire.
type event struct {
	kind     eventKind
	aircraft int                // from 0
	before   autopilot.State    // of moved and touchedDown: a step of the dynamics earlier
	received autopilot.Received // of arrived
	beacon   telemetry.Slot     // of opened
	slotNow  float64            // of opened: when it was received, in slots since the start of slot 0
	user     string             // of decided
	decision telemetry.Decision // of decided
	status   telemetry.Status   // of told
	slotsJ   float64            // of told: true joules of the slots up to the status's
	refusal  refusal            // of answered
	ended    *ended             // of over
}

// eventKind says which fields of an event are set.
type eventKind int

const (
	moved       eventKind = iota // an aircraft, by a step of its dynamics
	touchedDown                  // an aircraft, in this step
	arrived                      // a message, at an aircraft
	opened                       // a slot, by its beacon
	decided                      // a task of a user
	told                         // the crew, by a status
	answered                     // a start that is to be refused
	over                         // the mission
)

// rule is something that must never happen, whatever the faults.
type rule struct {
	name   string
	reads  string // of the simulators and the wire
	bound  string
	source string // of the bound
	on     eventKind
	check  func(*judge, *event) string // how it was broken, empty: it was not; called with the mutex held
}

const contract = "docs/wire.md, "

// rules is everything that the judge checks. None of it reads what the leader says of
// itself: its beacons, decisions and answers are judged, and the status only shows what
// the crew is told.
var rules = []rule{
	// Where aircraft fly and land.
	{"separation", "true positions, landed aircraft too", "8 m, within 10 m of height, unless both have pilots",
		"paper, D_min, less what a gust or a late setpoint takes", moved, (*judge).checkSeparation},
	{"least separation", "the same", "9.5 m, likewise", "paper, D_min; " + contract + "MAVLink", moved, (*judge).checkLeastSeparation},
	{"fence", "true position", "5 m outside, 8 s after OFFBOARD began, and as long as an ArduCopter comes in beside another",
		contract + "fence", moved, (*judge).checkFence},
	{"height", "true height", "8 m off H in slots, 10 s after OFFBOARD began, and what an ArduCopter takes to climb from where that was",
		"the simulated aircraft overshoots to 106.7 m", moved, (*judge).checkHeight},
	{"speed", "true speed", "the lesser limit of configuration and autopilot, and 1 m/s and a tenth", contract + "V_max", moved,
		(*judge).checkSpeed},
	{"hold", "true speed", "3 m/s, 8 s after a hold, unless another is within 40 m and what an ArduCopter stops in",
		contract + "hold, crew's and broker's contact", moved, (*judge).checkHold},
	{"moves on", "true motion", "8 m in 12 s after a resume", contract + "resume, contact returns", moved, (*judge).checkMovesOn},
	{"stop", "true mode", "Hold, Land or Return 6 s after a stop", contract + "stop", moved, (*judge).checkStop},
	{"return", "true touchdown", "the way at v*, the descent at the autopilot's rates, 20 s and a third", contract + "return", moved,
		(*judge).checkReturn},
	{"pack", "true mode, charge in the pack", "no failsafe for a low battery, never empty", "paper, C6", moved, (*judge).checkPack},
	{"failsafe", "true mode", "OFFBOARD is not lost for want of setpoints, nor GUIDED for want of HEARTBEATs, unless a fault explains it",
		contract + "setpoints stream", moved, (*judge).checkFailsafe},
	{"climb", "true height", "off the ground 25 s after a start that was accepted", contract + "start", moved, (*judge).checkClimb},
	{"rejoin", "true mode", "in OFFBOARD again 10 s after a killed or stopped leader, or the link, is back, if it was for 3 s before",
		contract + "pilots and failsafes", moved, (*judge).checkRejoin},
	{"touchdown", "true speed of descent", "1.3 of MPC_LAND_SPEED, or LAND_SPEED, and 0.3 m/s", "PX4, ArduCopter", touchedDown,
		(*judge).checkTouchdown},
	{"reserve", "true charge in the pack at touchdown", "the reserve that the crew's budget names, less a fiftieth", contract + "budgets",
		touchedDown, (*judge).checkReserve},
	{"lands at reserve", "true charge in the pack at touchdown",
		"the share that the crew's budget names, unless a kill, a lost link, a pilot or a dearer flight left less", contract + "budgets",
		touchedDown, (*judge).checkLandsAtReserve},
	{"uses pack", "the same, where the pack alone ended the flight",
		"23 % of the pack, or 1.4 kJ above its reserve, and what a wait for others takes that did not come, and what wind saves in a hover",
		contract + "budgets", touchedDown, (*judge).checkUsesPack},
	{"home", "true place of touchdown", "5 m from where it took off, unless it has a pilot", "paper, Sec. III; " + contract + "return",
		touchedDown, (*judge).checkHome},
	{"home, blocked", "the same, where another was in its way for 45 s", "5 m likewise", contract + "return", touchedDown,
		(*judge).checkHomeBlocked},
	{"taken place", "true places of touchdown", "10 m from another's home or from another on the ground", "paper, D_min", touchedDown,
		(*judge).checkTakenPlace},
	{"leaves", "true touchdown", "none in the slots without an order, a low pack or a fault of the climb", contract + "return", touchedDown,
		(*judge).checkLeaves},
	{"return charge", "true joules from the return to touchdown", "way at v*, descent, 20 s of hover, and a quarter", "eq. (prop)",
		touchedDown, (*judge).checkReturnCharge},

	// What arrives at them.
	{"pilot", "HEARTBEATs sent, messages that arrive", "5 ms of wall time after a HEARTBEAT showed the pilot's act, once for each act",
		contract + "an aircraft that leaves OFFBOARD", arrived, (*judge).checkPilot},
	{"whitelist", "every message that arrives", "requests, arm (an ArduCopter in GUIDED), take-off to H, Hold unless it lands, " +
		"OFFBOARD, Land, Return, setpoints in frame 5", contract + "MAVLink", arrived, (*judge).checkWhitelist},
	{"disarm", "commands that arrive", "none to disarm in the air", contract + "MAVLink", arrived, (*judge).checkDisarm},
	{"address", "target system of each message", "the aircraft's own", "MAVLink 2, target_system", arrived, (*judge).checkAddress},
	{"arm", "commands that arrive", "as ordered by the crew, for 10 s, not again after a disarm", contract + "arming", arrived,
		(*judge).checkArm},
	{"take-off", "commands to arm, true positions", "no other in flight within 9 m, or 20 m if it moves, unless it climbs",
		contract + "a take-off waits", arrived, (*judge).checkTakeOff},
	{"ground", "setpoints that arrive, HEARTBEATs", "none to an aircraft known to be on the ground with its motors off",
		contract + "MAVLink", arrived, (*judge).checkGround},
	{"no heartbeat", "setpoints that arrive, HEARTBEATs", "10 s after the last HEARTBEAT", contract + "setpoints stream", arrived,
		(*judge).checkHeartbeat},
	{"gap", "setpoints that arrive", "1 s between two while only HEARTBEATs are lost", contract + "setpoints stream", arrived,
		(*judge).checkStreamGap},
	{"stream end", "setpoints that arrive, beacons", "the time to live, ten slots more and one", contract + "setpoints", arrived,
		(*judge).checkStreamEnd},
	{"take-off ended", "setpoints that arrive at an ArduCopter", "none in its take-off, 3 m below H: one would end it",
		"docs/hardware.md, ArduCopter", arrived, (*judge).checkTakeOffEnded},
	{"incomplete", "setpoints that arrive", "every component is a number", "MAVLink 2, type_mask", arrived, (*judge).checkComplete},
	{"commanded speed", "setpoints that arrive", "the lesser limit of configuration and autopilot", contract + "V_max", arrived,
		(*judge).checkCommandedSpeed},
	{"commanded fence", "setpoints that arrive", "0.5 m outside the area, unless it returns home", contract + "fence", arrived,
		(*judge).checkCommandedFence},
	{"commanded height", "setpoints that arrive", "3 m off H", "paper, H; " + contract + "altitude", arrived,
		(*judge).checkCommandedHeight},
	{"stale", "setpoints that arrive", "the same leg for two slots", contract + "time to live", arrived, (*judge).checkStale},
	{"commanded separation", "setpoints that arrive, true positions", "paths of the next second within 9.5 m for longer than a tick",
		"paper, D_min", arrived, (*judge).checkCommandedSeparation},

	// What users and crew are told.
	{"slot number", "beacons", "each higher than the last", contract + "time", opened, (*judge).checkSlotNumber},
	{"slot time", "beacons", "0.6 of a slot early, two thirds and 100 ms of wall time late, by the clock of the earliest",
		contract + "time", opened, (*judge).checkSlotTime},
	{"serves", "decisions, true modes", "in OFFBOARD within the last 4 s, neither its pilot's nor sent home",
		contract + "users are not sent", decided, (*judge).checkServes},
	{"shares", "decisions of a slot", "sum of an aircraft's shares at most its CPU", "paper, C5", decided, (*judge).checkShares},
	{"reported", "reports, decisions", "only to users on the list that reported a task in that slot", contract + "reports", decided,
		(*judge).checkReported},
	{"pays", "reports, decisions", "no later than local by the reported gain, penalty included", "exact dispatch, docs/glossary.md",
		decided, (*judge).checkPays},
	{"status", "statuses, true positions, speeds and charge",
		"40 m, half of the speed of the last 3 s and a twentieth, of an aircraft received in the last 2 s", contract + "status", told,
		(*judge).checkStatus},
	{"floor", "statuses, true joules and power", "a sixth of the least that the slots left take, and 500 J, 10 slots and two intervals " +
		"of a slow monitor after a change of power, in 9 slots", "paper, Sec. V; " + contract + "budget", told, (*judge).checkFloor},
	{"refusal", "answers to start and launch, true charge",
		"refused, with the autopilot's or the parameter's reason, or for a pack below its reserve",
		contract + "start and launch are refused", answered, (*judge).checkRefusal},
	{"acknowledged", "answers, statuses", "each command answered in 6 s, and in force afterwards, a restart between", contract + "commands",
		over, (*judge).checkAcknowledged},
	{"duplicate", "answers, statuses", "no command or replay takes effect twice", contract + "command ids", over, (*judge).checkDuplicate},
	{"durable", "answers, the disk", "none to a command given while the disk finishes no write", contract + "commands", over,
		(*judge).checkDurable},
	{"holding", "statuses, orders, outages", "holding from a hold to the next order, and not without one or an outage", contract + "hold",
		over, (*judge).checkHolding},
	{"contact", "states, wall time without the crew",
		"holding or returning 6 and 12 slots after its time, flying again 12 after the crew is back", contract + "crew's heartbeat", over,
		(*judge).checkContact},
	{"ceiling", "answers, true joules of the slots", "half a percent above, where no shock came after it", contract + "budget", over,
		(*judge).checkCeiling},

	// What is written.
	{"record", "the ledger's file", "opens whole, one row for each slot", contract + "ledger", over, (*judge).checkRecord},
	{"energy", "true joules, statuses", "the resolution of the messages and the gaps that the model bridges", contract + "joules", over,
		(*judge).checkEnergy},
	{"energy by slot", "true joules, the ledger's rows", "likewise, up to each slot", contract + "joules", over,
		(*judge).checkEnergyBySlot},
	{"delay", "true delays of the users' tasks, the ledger's total", "half as much again and 20 s", contract + "results", over,
		(*judge).checkDelay},
	{"wind", "true wind, the ledger's rows", "what is believed of it, in the mean of the later slots, within 8 m/s or three of its " +
		"standard deviations, without a shock, a hold or a low limit of speed", "inference/belief", over, (*judge).checkWind},
	{"transit", "true joules, the ledger", "likewise, outside the slots", contract + "transit_j", over, (*judge).checkTransit},

	// Whether it did anything.
	{"exit", "the leader's process", "it ends when it is told to", "docs/failures.md", over, (*judge).checkExit},
	{"course", "answers, states, landings", "each order is answered and each state left in time", contract + "mission", over,
		(*judge).checkCourse},
	{"rescue", "who landed each aircraft", "its leader, unless a fault explains another", "no aircraft is left in the air", over,
		(*judge).checkRescue},
	{"flew", "true motion in OFFBOARD", "2 m/s in the mean while it flies", "paper, v*", over, (*judge).checkFlew},
	{"slots", "beacons", "missed: a twentieth and two, beside those that faults explain; the last one is not left out", contract + "time",
		over, (*judge).checkSlots},
	{"answered", "reports, decisions", "three of ten tasks that were reported while the broker was up, late or not", contract + "decision",
		over, (*judge).checkAnswered},
	{"decided", "reports, decisions in time", "seven of ten tasks that were reported while the broker was up", contract + "decision", over,
		(*judge).checkDecided},
	{"fleet", "true modes in the last slot", "all under the leader's command, as these faults allow", contract + "resume", over,
		(*judge).checkFleet},
}

// timed are the rules that depend on when something happens. In real time, with processes, a slow
// machine may hide, or seem to show, that they are broken.
var timed = []string{
	"separation", "least separation", "speed", "hold", "moves on", "stop", "return", "pack", "failsafe", "climb", "rejoin", "home, blocked",
	"return charge",
	"leaves", "reserve", "lands at reserve", "uses pack", "take-off", "holding", "wind", "pilot", "ground", "no heartbeat", "gap",
	"stream end", "commanded speed", "stale", "commanded separation",
	"slot time", "serves", "status", "floor", "acknowledged", "energy by slot", "transit", "rescue", "course", "flew", "slots",
	"answered", "decided", "fleet",
}

// IsTimed reports whether a rule is one of these.
func IsTimed(rule string) bool { return slices.Contains(timed, rule) }

// violation is a rule that was broken.
type violation struct {
	rule  string
	count int
	first string // how, the first time
}

// handle has every rule of an event's kind check it. Called with the mutex held.
func (j *judge) handle(e *event) {
	for k := range rules {
		if r := &rules[k]; r.on == e.kind {
			if text := r.check(j, e); text != "" {
				j.violate(r.name, text)
			}
		}
	}
}

func (j *judge) violate(name, text string) {
	k := slices.IndexFunc(j.violations, func(v violation) bool { return v.rule == name })
	if k < 0 {
		k = len(j.violations)
		j.violations = append(j.violations, violation{rule: name, first: text})
	}
	j.violations[k].count++
}

// broken returns the rules that were broken, in the order of their first time.
func (j *judge) broken() []violation {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return slices.Clone(j.violations)
}

// RuleTable is the table of rules in Markdown.
func RuleTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| rule | reads | bound | source |\n|---|---|---|---|\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.name, r.reads, r.bound, r.source)
	}
	return b.String()
}
