package chaos

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"prefdt/simbridge/autopilot"
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
	BatteryAbsent   FaultKind = "battery_absent"   // no field of BATTERY_STATUS is measured or, if severe, the last measurement is repeated
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

	BrokerGoneHold   FaultKind = "broker_hold"       // no broker for longer than broker_hold_s, which is the default here
	BrokerGoneReturn FaultKind = "broker_return"     // for longer than broker_return_s, likewise
	HeartbeatSilence FaultKind = "heartbeat_silence" // no HEARTBEAT for 13 s, positions go on
	ArmingDenied     FaultKind = "arming_denied"     // the pre-arm checks fail before the start
	ArmingRefused    FaultKind = "arming_refused"    // they are good, and the autopilot does not arm all the same
	UnsafeFailsafe   FaultKind = "unsafe_failsafe"   // two parameters of each autopilot are unsafe before the start
	LowBattery       FaultKind = "low_battery"       // a pack loses most of its charge
	DiskStall        FaultKind = "disk_stall"        // fsync takes 20 s: the slot loop stands, the stream goes on
	PowerCut         FaultKind = "power_cut"         // the leader is killed, and so are its connections; its disk has what was written
	DiskRefuses      FaultKind = "disk_refuses"      // no write succeeds: the disk is full or, if severe, read-only
	KillInGap        FaultKind = "kill_in_gap"       // killed as an aircraft has just changed its mode, and its pilot chooses another

	// no HEARTBEAT of the leader's reaches an ArduCopter, setpoints do: its failsafe returns it
	StationSilence FaultKind = "station_silence"
	PilotReturn    FaultKind = "pilot_return" // RTL without CRITICAL, as a pilot or an ArduCopter's own fence chooses it

	// see odd.go
	ModeRefused  FaultKind = "mode_refused"  // OFFBOARD, or GUIDED, is refused until it has landed; if severe, Return as well
	StaysArmed   FaultKind = "stays_armed"   // its motors turn on after the landing, until its pilot stops them
	TellsLanded  FaultKind = "tells_landed"  // its land detector says in its landing that it is on the ground
	StationFlies FaultKind = "station_flies" // another station flies an ArduCopter in GUIDED while its leader is dead
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
	Aircraft           int     // in the fleet
	Slots              int     // T
	Faults             []fault // in the order in which they are to begin
	DenseStart         bool    // starts at 1.5 times the least separation
	ShockSlot          int     // propulsion power is 1.5 times as high from there on
	ReportLossRate     float64 // of reports, throughout
	RelaunchesGrounded bool    // the crew launches aircraft on the ground again
	ResumesGrounded    bool    // the crew also resumes aircraft on the ground, which must not arm them
	Signed             bool    // crew and leader have keys
	ClockJumps         bool    // the wall clock jumps

	Speed           float64   // mission seconds per second
	StockRates      bool      // PX4's own rates of climb and descent, and COM_OF_LOSS_T 1
	OneLink         bool      // all aircraft are on one link
	Wind            bool      // it blows, and the leader is told that it may
	Crowd           bool      // the users are a group that walks fast, and the aircraft start beside each other near it
	Listed          bool      // users.allow has the users alone; a stranger reports as well
	SpeedMaxMPS     float64   // flight.speed_max_mps; 0: the default
	AutopilotMaxMPS float64   // MPC_XY_VEL_MAX; 0: as it is
	SensorGain      []float64 // of each aircraft's current sensor
	BoundedPacks    bool      // the packs have charge for about half of the slots
	PackJ           []float64 // of each aircraft, full; but as much as the mission takes
	SmallPacks      bool      // bounded ones are full, and hold no more
	LandsAtReserve  bool      // bounded ones are to be at their reserve at touchdown, by the crew's budget

	HoldSlot, HoldSlots int    // the crew holds; 0 slots: never
	Ending              ending // how it ends
	EndSlot             int    // of endReturn and endStop
	ReturnAfterStop     bool   // the crew returns the aircraft; else their pilots land them
	HoldsClimb          bool   // the crew holds the climb for a while
	KeepsUp             string // by which action the crew keeps up a fleet on its way home; empty: it does not
	StopsLanding        bool   // the crew stops a returning fleet once an aircraft lands

	Framing      autopilot.Framing       // of the aircraft's datagrams
	TwoCounters  bool                    // positions have a sequence counter of their own
	WrongSamples []autopilot.WrongSample // of each in turn an aircraft sends one, again and again
	TightHomes   bool                    // the aircraft stand in rows, 12 m apart
	OutsideM     float64                 // they stand so far outside the area; 0: at their starts
	DriftM       float64                 // how far their heights drift
	GroundM      float64                 // of the area's middle, over the origin
	Slope        [2]float64              // metres that the ground rises for each metre east and north
	Packs        *packPlan               // the crew has them land with a share of their packs; nil: it does not
	Copters      []bool                  // which aircraft are ArduCopters; none: all are PX4
	SlowCopters  bool                    // with ArduCopter's default acceleration and jerk
	DecisionS    float64                 // what a decision takes on this board, beside what is computed
	DiskS        float64                 // what a write takes on its disk
	Site         *site                   // of kind [Field]; nil: of another
	Next         *nextMission            // what follows on the ground; nil: nothing
	NoCharge     bool                    // the battery monitors measure no charge
	MonitorS     float64                 // their battery monitors measure so seldom; 0: as often as they are asked

	LowPilot        bool       // a pilot flies an aircraft down and aside
	LoadS           float64    // a leader that is started again reads its checkpoint for so long
	Loops           int        // and ends so often before it commands
	LaterNames      bool       // of ArduCopters' parameters
	ApartM          float64    // of tight homes
	Beside          bool       // one comes home by itself as another does whose home is beside its own
	NoneLed         bool       // all are their pilots' as the leader is killed
	Nobody          bool       // the only aircraft never arms, and is not launched again
	EmptyBattery    bool       // each autopilot also tells of one that nothing is measured of
	RetainedReports bool       // the broker is asked to retain each user's report
	GroundWork      groundWork // before a launch again; empty: none
	OtherStation    bool       // with the crew's key sends a heartbeat, too
	FlownOut        bool       // a pilot flies one just out of the area while its fleet holds, in which it comes in again
	WrongFirst      bool       // the first positions that a leader receives again are wrong
	HeightJump      heightJump // of an aircraft in the slots
	Ill             []illness  // of the workers, of kind [Tasks]; none: no aircraft has one
}

// ending is how a mission ends.
type ending string

const (
	endSlots  ending = "end"    // its last slot is settled
	endReturn ending = "return" // the crew calls it back
	endStop   ending = "stop"   // the crew stops it
)

// hasFault reports whether a mission has a fault of one of some kinds.
func (p *plan) hasFault(kinds ...FaultKind) bool {
	return slices.ContainsFunc(p.Faults, func(f fault) bool { return slices.Contains(kinds, f.Kind) })
}

// hasFaultIn reports whether a mission has a fault in one of some states.
func (p *plan) hasFaultIn(s ...State) bool {
	return slices.ContainsFunc(p.Faults, func(f fault) bool { return slices.Contains(s, f.State) })
}

// delays reports whether a kind of fault holds up what the leader does for its aircraft, which takes joules.
func delays(k FaultKind) bool {
	return slices.Contains([]FaultKind{
		BrokerRestart, BrokerGoneHold, BrokerGoneReturn, LinkLoss, Reboot, HeartbeatGap, HeartbeatLoss, HeartbeatSilence, OutOfOrder,
		ProcessKill, KillInGap, ProcessStall, PowerCut, DiskStall, DiskRefuses, ForgedAtRestart, CommandStorm, ArmingRefused,
		StationSilence,
	}, k)
}

func (p *plan) losesCrewRadio() bool { return p.hasFault(CrewRadioHold, CrewRadioReturn) }

// crewReturnS is the leader's crew_return_s in such a mission.
func (p *plan) crewReturnS() float64 {
	if p.hasFault(CrewRadioReturn) {
		return crewReturnS
	}
	return 600
}

// brokerRetryS is the longest wall time between two attempts of the leader's client to
// reconnect. Until then the crew cannot return an aircraft to it.
const brokerRetryS = 2.5

// The leader's defaults, and how long a fault of them lasts beyond.
const (
	brokerHoldS, brokerReturnS = 30, 120
	brokerExtraSlots           = 14
	silenceS                   = 13 // of HEARTBEATs
	diskStallS                 = 20
)

// pilotSpeed is how fast missions with a pilot fly at most: 5 ms of wall time, in which
// a command may be on its way, are then little.
const pilotSpeed = 5

// stockSpeed is how fast missions at the stock rates fly at most: without setpoints for a
// second of the mission their aircraft leave OFFBOARD.
const stockSpeed = 10

// absentExtraSlots makes the model's joules of a battery that measures nothing add up to
// more than the resolution of its messages.
const absentExtraSlots = 22

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
	all := c.cells()
	order := rand.New(rand.NewPCG(seed, 1<<40)).Perm(len(all))
	first := all[order[k%len(all)]]
	r := rand.New(rand.NewPCG(seed, uint64(k)))
	if first.Kind == CrewRadioHold || first.Kind == CrewRadioReturn { // wall times: slots enough for them
		slots = max(slots, int(crewReturnS*c.Speed)+3*quietSlots)
	}
	reconnectSlots := int(brokerRetryS*c.Speed) + 2*quietSlots
	switch first.Kind {
	case BrokerGoneHold:
		slots = max(slots, brokerHoldS+brokerExtraSlots+reconnectSlots)
	case BrokerGoneReturn:
		slots = max(slots, brokerReturnS+brokerExtraSlots+reconnectSlots)
	case DiskStall:
		slots = max(slots, diskStallS+3*quietSlots)
	case PilotDisarm, PilotPosition, PilotHold, KillInGap: // they fly slowly
		slots = max(minSlots, min(slots, 30))
	}
	p := plan{
		Slots: slots, Seed: 2_000_000 + seed*1000 + uint64(k), DenseStart: r.IntN(2) == 0, ShockSlot: r.IntN(slots),
		ReportLossRate:     0.2 * r.Float64(),
		RelaunchesGrounded: r.IntN(2) == 0, ResumesGrounded: r.IntN(2) == 0, Signed: r.IntN(2) == 0, ClockJumps: !c.Processes &&
			k%3 == 1, ReturnAfterStop: r.IntN(2) == 0,
	}
	p.ApartM = tightM
	last := slots - quietSlots // slot in which a fault in flight begins
	p.drawCourse(first, last, r)
	add := func(c coverageCell) {
		f := fault{coverageCell: c, DurationSlots: 1 + r.IntN(8), Aircraft: r.IntN(aircraft), Severe: r.IntN(2) == 0}
		f.StartSlot = p.drawStartSlot(c, last, r)
		p.Faults = append(p.Faults, f)
	}
	add(first)
	if (k+k/len(all))%2 == 0 { // of each cell every other mission, also where the cells are even in number
		p.addCompanion(first)
	}
	most := 1 + r.IntN(3)
	// they wait for a refusal, which other faults delay or change
	if first.Kind == ArmingDenied || first.Kind == UnsafeFailsafe || first == (coverageCell{SecondBattery, Idle}) {
		most = 0
	}
	for i := range most {
		c := all[r.IntN(len(all))]
		if i == 0 { // each cell has a second mission in which it can be met
			c = all[order[(k+len(all)/2)%len(all)]]
		}
		if !p.visits(c.State) || slices.Contains(onlyFirst, c.Kind) ||
			slices.ContainsFunc(p.Faults, func(f fault) bool { return mutuallyExclusive(c, f.coverageCell) }) ||
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
	p.drawSituation(c, k)
	p.drawBudget(c, k)
	p.drawKind(c, k)
	p.drawBoard(c, k)
	p.drawOdd(c, k)
	p.drawNext(c, k)
	p.drawGround(c, k)
	p.drawAdded(c, k)
	p.drawAgain(c, k)
	p.drawReturn(c, k)
	p.drawHeightJump(c, k)
	return p
}

// drawGround has a third of the missions fly from a hill, from a valley or from a slope: nowhere is an aircraft more than 17 m over or
// below the origin, for at 20 none takes off.
func (p *plan) drawGround(c *Config, k int) {
	const mostM, farM, mostDriftM = 17, 800, 6
	r := rand.New(rand.NewPCG(c.Seed, 1<<58|uint64(k)))
	if r.IntN(3) > 0 {
		return
	}
	if !p.lands() && !p.LandsAtReserve { // what a descent takes is not known to metres then
		p.DriftM = mostDriftM * (2*r.Float64() - 1)
	}
	level, towards := max(-1, min(1, 3*r.Float64()-1.5)), 2*math.Pi*r.Float64() // a third of them level
	steep := mostM * (1 - math.Abs(level)) / farM
	if p.lands() { // packs are drawn for climbs from the origin's height
		level = math.Abs(level)
	}
	p.GroundM, p.Slope = mostM*level, [2]float64{steep * math.Cos(towards), steep * math.Sin(towards)}
}

// addCompanion has something else befall the leader, or an aircraft, in the middle of a first fault.
func (p *plan) addCompanion(first coverageCell) {
	f, inSlots := &p.Faults[0], first.State == Flying || first.State == Holding
	add := func(kind FaultKind, afterSlots, slots, aircraft int) {
		p.Faults = append(p.Faults, fault{coverageCell: coverageCell{kind, first.State}, StartSlot: f.StartSlot + afterSlots,
			DurationSlots: slots, Aircraft: aircraft})
	}
	switch first.Kind {
	case ProcessKill, PowerCut: // the battery measures nothing while the leader restarts
		if inSlots || first.State == Returning {
			const longestAbsence = 8
			f.DurationSlots = max(f.DurationSlots, 3)
			add(BatteryAbsent, 1, longestAbsence, f.Aircraft)
		}
	case PilotPosition, PilotHold: // the leader restarts while a pilot has an aircraft
		called := first.Kind == PilotPosition && p.Ending == endReturn && p.HoldSlots == 0 // home, meanwhile
		if inSlots && !called {
			f.DurationSlots = max(f.DurationSlots, 5)
			add(ProcessKill, 2, 1, 0)
		}
	case LinkLoss: // it restarts just as an aircraft is back that was lost: its autopilot's failsafe holds it, and it is its pilot's
		const lossSlots = 8 // beside the others of a loss that is severe
		const afterSlots = lossSlots + linkLossExtraSlots + 1
		if first.State != Holding && (first.State != Flying || p.HoldSlots > 0) {
			return
		}
		if f.Severe, f.DurationSlots = true, lossSlots; first.State == Flying {
			f.StartSlot = min(f.StartSlot, p.Slots-quietSlots-afterSlots)
		}
		add(ProcessKill, afterSlots, 1, 0)
	case ReportLoss: // it restarts while nobody reports, so that everybody takes the offer
		if first.State == Flying {
			const beforeSlots, afterSlots = 5, 4
			f.DurationSlots, f.StartSlot = beforeSlots+afterSlots, min(f.StartSlot, p.Slots-quietSlots-beforeSlots)
			add(ProcessKill, beforeSlots, 1, 0)
		}
	case ProcessStall: // a pilot takes an aircraft while the leader stands still; of a long one nothing is read that shows it
		if inSlots && f.Severe {
			f.DurationSlots = 8
			add(PilotPosition, 6, 6, f.Aircraft)
		} else if inSlots {
			f.DurationSlots = max(f.DurationSlots, 4)
			add(PilotPosition, 1, 6, f.Aircraft)
		}
	}
}

// never is a slot that no mission reaches.
const never = 1_000_000

// onlyFirst are kinds that a mission has as its first fault alone: its length and its
// course are drawn for them.
var onlyFirst = []FaultKind{CrewRadioHold, CrewRadioReturn, BrokerGoneHold, BrokerGoneReturn, DiskStall, DiskRefuses, ArmingDenied,
	ArmingRefused, UnsafeFailsafe}

// drawSituation draws in what surroundings, with what aircraft and links a mission flies.
func (p *plan) drawSituation(c *Config, k int) {
	r := rand.New(rand.NewPCG(c.Seed, 1<<50|uint64(k)))
	one := func(in int) bool { return r.IntN(in) == 0 }
	p.Speed = c.Speed
	switch p.StockRates = r.IntN(2) == 0 || p.hasFault(BrokerGoneHold); {
	case p.flaps(): // slowly, and so no longer than it must
		p.Speed, p.StockRates = flapSpeed, false
		p.Slots = min(p.Slots, p.Faults[0].StartSlot+brokerHoldS+brokerExtraSlots+2*quietSlots)
		p.Faults = slices.DeleteFunc(p.Faults, func(f fault) bool { return f.State == Flying && f.StartSlot >= p.Slots-quietSlots })
	case p.hasFault(PilotDisarm, PilotPosition, PilotHold, KillInGap):
		p.Speed, p.StockRates = min(p.Speed, pilotSpeed), r.IntN(8) == 0
	case p.StockRates:
		p.Speed = min(p.Speed, stockSpeed)
	}
	p.OneLink, p.Wind, p.Crowd, p.Listed = one(5) && c.Aircraft > 1, one(5), one(4), one(4)
	p.BoundedPacks = p.Ending == endSlots && !p.losesCrewRadio() && !p.hasFault(PilotDisarm, PilotPosition, PilotHold, KillInGap,
		DiskRefuses, BatterySwap, LowBattery) &&
		!slices.ContainsFunc(p.Faults, func(f fault) bool { return delays(f.Kind) })
	if one(6) {
		p.SpeedMaxMPS = 5 + 5*r.Float64()
	} else if one(6) && !p.StockRates {
		p.AutopilotMaxMPS = 5 + 5*r.Float64()
	}
	for gained := one(3); len(p.SensorGain) < c.Aircraft; {
		gain := 0.95 + 0.12*r.Float64()
		if !gained {
			gain = 1
		}
		p.SensorGain = append(p.SensorGain, gain)
	}
	if f := p.Faults[0]; f.coverageCell == (coverageCell{PilotPosition, Flying}) && p.Ending != endSlots && p.HoldSlots == 0 {
		p.EndSlot = f.StartSlot + 2 // the crew calls the fleet back, or stops it, while a pilot has one
	}
	if p.BoundedPacks || p.hasFault(LowBattery) { // what nobody can foresee must not come after a pack has just enough left
		p.ShockSlot = []int{3, never}[r.IntN(2)]
	}
	if p.Faults[0].Kind == PilotPosition && one(2) { // near the edge, and the others
		p.Crowd = true
	}
	if p.Wind && one(2) { // a shock looks like wind
		p.ShockSlot = never
	}
	p.StopsLanding = p.Ending == endReturn && !p.hasFaultIn(Returning, Landing) && one(3)
	if p.Crowd {
		p.DenseStart = false // it has starts of its own
	}
	if !p.hasFault(OutOfOrder) { // a late frame is a datagram of its own
		p.Framing = []autopilot.Framing{autopilot.PackedFrames, autopilot.CutFrames, autopilot.OneFrame, autopilot.OneFrame,
			autopilot.OneFrame}[r.IntN(5)]
	}
	for range c.Aircraft {
		p.PackJ = append(p.PackJ, 60e3+90e3*r.Float64())
	}
	p.SmallPacks = p.BoundedPacks && one(2)
	if p.OneLink && p.Framing == autopilot.CutFrames { // parts of two aircraft's frames must not mix
		p.Framing = autopilot.PackedFrames
	}
	p.drawField(c, k)
}

// fleetOfTwo is the usual size of a fleet; otherFleets are the others that missions have.
const fleetOfTwo = 2

var otherFleets = []int{1, 4, 8}

// flaps reports whether the broker that is away comes back for moments, which count as no
// contact. Such a mission flies so slowly that the leader's client can reconnect in one.
func (p *plan) flaps() bool { return p.Faults[0].Kind == BrokerGoneHold && p.Faults[0].Severe }

const (
	flapSpeed  = 1
	flapEveryS = 16
	flapForS   = 4 // of them the broker is there
)

// losesAircraft reports whether nothing is received of an aircraft for so long that it is lost.
func (f fault) losesAircraft() bool {
	return f.Kind == LinkLoss && f.Severe && f.DurationSlots+linkLossExtraSlots > lostS+1
}

// setFleet changes the size of the fleet. A large one flies slowly, for the machine.
func (p *plan) setFleet(size int, r *rand.Rand) {
	const aircraftTimesSpeed = 40
	p.Aircraft, p.Speed = size, min(p.Speed, aircraftTimesSpeed/float64(size))
	for i := range p.Faults {
		p.Faults[i].Aircraft = min(p.Faults[i].Aircraft, size-1)
	}
	for len(p.SensorGain) < size {
		p.SensorGain = append(p.SensorGain, p.SensorGain[r.IntN(fleetOfTwo)])
		p.PackJ = append(p.PackJ, p.PackJ[r.IntN(fleetOfTwo)])
	}
}

// drawField draws what else links and sensors do in the field. It has a stream of its own,
// so that what was drawn before stays as it is.
func (p *plan) drawField(c *Config, k int) {
	r := rand.New(rand.NewPCG(c.Seed, 1<<51|uint64(k)))
	p.Aircraft = c.Aircraft
	if c.Aircraft == fleetOfTwo && !p.OneLink && !p.Crowd { // one of any size but the usual
		if i := r.IntN(16); i < len(otherFleets) {
			p.setFleet(otherFleets[i], r)
		}
	}
	p.TightHomes = !p.Crowd && (p.Aircraft > 2 || r.IntN(5) == 0)
	if !p.RelaunchesGrounded && r.IntN(4) == 0 { // launch takes off inside the area alone
		p.OutsideM = 10 + 36*r.Float64()
	}
	p.TwoCounters = r.IntN(5) == 0
	if r.IntN(4) == 0 && !p.hasFault(LowBattery) {
		p.MonitorS = 0.5 + 5.5*r.Float64()
	}
	if r.IntN(4) == 0 {
		p.WrongSamples = slices.Clone(autopilot.WrongSamples)
		if p.Framing == autopilot.CutFrames { // a late copy would be within another frame
			p.WrongSamples = slices.DeleteFunc(p.WrongSamples, func(w autopilot.WrongSample) bool { return w == autopilot.LatePosition })
		}
		r.Shuffle(len(p.WrongSamples), func(i, j int) {
			p.WrongSamples[i], p.WrongSamples[j] = p.WrongSamples[j], p.WrongSamples[i]
		})
	}
}

// drawBoard draws how slow the leader's board and its disk are, from a stream of its own. Users are to
// have their decisions 0.2 slots after the last report.
func (p *plan) drawBoard(c *Config, k int) {
	r := rand.New(rand.NewPCG(c.Seed, 1<<54|uint64(k)))
	const mostS, mostDiskS = 0.12, 0.05
	if !c.Processes && r.IntN(2) == 0 {
		p.DecisionS, p.DiskS = mostS*r.Float64(), mostDiskS*r.Float64()
	}
}

// drawBudget draws whether the crew's budget lets aircraft land, each with its reserve. Where a
// sensor reads too much of a current, or others land first, what is left is not known so well.
func (p *plan) drawBudget(c *Config, k int) {
	r := rand.New(rand.NewPCG(c.Seed, 1<<52|uint64(k)))
	p.LandsAtReserve = p.BoundedPacks && r.IntN(2) == 0 && !p.Wind && !p.Crowd && !p.TightHomes && p.MonitorS == 0 &&
		!p.hasFault(BatteryAbsent, BatteryHandover, BatteryOutlier, SecondBattery) &&
		!slices.ContainsFunc(p.SensorGain, func(g float64) bool { return g != 1 })
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
		p.HoldSlots = min(9+3*r.IntN(4), last-3)
		p.HoldSlot = 2 + r.IntN(max(last-p.HoldSlots-2, 1))
	}
	p.EndSlot = last + r.IntN(quietSlots-4)
	switch first {
	case coverageCell{CrewRadioHold, Flying}, coverageCell{CrewRadioReturn, Climbing}, coverageCell{CrewRadioReturn, Flying},
		coverageCell{BrokerGoneHold, Flying}, coverageCell{BrokerGoneReturn, Flying}, coverageCell{DiskStall, Flying},
		coverageCell{DiskRefuses, Flying}:
		p.HoldSlots = 0
	case coverageCell{CrewRadioHold, Holding}, coverageCell{CrewRadioReturn, Holding}:
		p.HoldSlot = 2 + r.IntN(3)
	}
	switch first.Kind {
	case CrewRadioReturn, BrokerGoneHold, BrokerGoneReturn, DiskStall, DiskRefuses:
		p.Ending = endSlots
	}
	if first == (coverageCell{PilotPosition, Flying}) && p.Ending == endSlots && p.EndSlot%2 == 0 {
		p.Ending, p.HoldSlots = endReturn, 0 // while the pilot has it, see drawSituation
	}
}

// drawStartSlot draws the slot of a fault.
func (p *plan) drawStartSlot(c coverageCell, last int, r *rand.Rand) int {
	switch {
	case c.Kind == BrokerGoneHold, c.Kind == BrokerGoneReturn, c.Kind == DiskStall, c.Kind == DiskRefuses:
		return 1 + r.IntN(4)
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
	{ProcessKill, KillInGap, ProcessStall, PowerCut, DiskStall, DiskRefuses, BrokerRestart, BrokerGoneHold, BrokerGoneReturn, SecondLeader,
		ForgedAtRestart, ForgedStatus, ForgedBeacon},
	{ProcessKill, KillInGap, ProcessStall, PowerCut, DiskStall, DiskRefuses, BrokerRestart, BrokerGoneHold, BrokerGoneReturn, CrewRadioHold,
		CrewRadioReturn, ForgedAtRestart},
	{CommandStorm, CrewRadioHold, CrewRadioReturn, BrokerGoneHold, BrokerGoneReturn, DiskStall, DiskRefuses},
	{ReportLoss, BrokerGoneHold, BrokerGoneReturn, DiskStall, DiskRefuses},
	{LinkLoss, BrokerGoneHold, BrokerGoneReturn, DiskStall, DiskRefuses}, {ForeignReports, BrokerGoneHold, BrokerGoneReturn, DiskStall,
		DiskRefuses},
	{ForgedResult, BrokerGoneHold, BrokerGoneReturn, DiskStall, DiskRefuses},
	{BatteryAbsent, BatteryHandover, BatterySwap, BatteryOutlier, SecondBattery, LowBattery, Reboot},
	{PilotDisarm, PilotPosition, PilotHold, KillInGap, Reboot, BrokerGoneHold, BrokerGoneReturn, DiskStall, DiskRefuses, LowBattery},
	{HeartbeatGap, HeartbeatLoss, HeartbeatSilence, OutOfOrder, LinkLoss, KillInGap},
	{HeartbeatGap, HeartbeatSilence, Reboot}, // which sends none anyway
}

// mutuallyExclusive reports whether two faults must not share a mission: two of a kind,
// whose ends would be mistaken for one another, and two of a group. A kill and a restart
// of the broker may, as both happen together in the field.
func mutuallyExclusive(a, b coverageCell) bool {
	if a.Kind == b.Kind {
		return true
	}
	if a.isOfCopters() && slices.Contains(exclusiveWithCopterFaults, b.Kind) ||
		b.isOfCopters() && slices.Contains(exclusiveWithCopterFaults, a.Kind) {
		return true
	}
	if a.Kind == ProcessKill && b.Kind == BrokerRestart || a.Kind == BrokerRestart && b.Kind == ProcessKill {
		return false
	}
	return slices.ContainsFunc(exclusiveGroups, func(g []FaultKind) bool {
		return slices.Contains(g, a.Kind) && slices.Contains(g, b.Kind)
	})
}

func (p plan) String() string {
	var words []string
	for _, f := range p.Faults {
		words = append(words, fmt.Sprintf("%s@%s+%d", f.Kind, f.State, f.StartSlot))
	}
	words = append(words, namesOf([]named{{fmt.Sprintf("hold@%d", p.HoldSlot), p.HoldSlots > 0},
		{fmt.Sprintf("%s@%d", p.Ending, p.EndSlot), p.Ending != endSlots}, {"stops_landing", p.StopsLanding}, {"signed", p.Signed}})...)
	return strings.Join(append(words, p.situation()...), " ")
}

// named is what a mission has, or not.
type named struct {
	name string
	on   bool
}

func namesOf(all []named) (names []string) {
	for _, x := range all {
		if x.on {
			names = append(names, x.name)
		}
	}
	return names
}

// situation has the names of what a mission flies in, beside its faults: as in the
// planted faults' data.
func (p *plan) situation() []string {
	return namesOf([]named{
		{string(ClockJump), p.ClockJumps}, {"slow_board", p.DecisionS > 0}, {"stock", p.StockRates}, {"one_link", p.OneLink}, {"wind",
			p.Wind}, {"crowd", p.Crowd},
		{"allow", p.Listed},
		{"fleet_" + strconv.Itoa(p.Aircraft), p.Aircraft != fleetOfTwo}, {"tight_homes", p.TightHomes}, {"outside", p.OutsideM > 0},
		{"hill", p.GroundM > 6}, {"valley", p.GroundM < -6}, {"slope", math.Hypot(p.Slope[0], p.Slope[1]) > 0.007},
		{"two_counters", p.TwoCounters}, {"wrong_samples", len(p.WrongSamples) > 0}, {"slow_monitor", p.MonitorS > 0},
		{"flaps", p.flaps()},
		{"slow", p.SpeedMaxMPS > 0 || p.AutopilotMaxMPS > 0}, {"packs", p.BoundedPacks}, {"small_packs", p.SmallPacks},
		{"lands_at_reserve", p.LandsAtReserve}, {"pack_share", p.lands()},
		{"pack_total", p.lands() && p.Packs.TotalShare > 0 && !p.Packs.Stays}, {"pack_stays", p.lands() && p.Packs.Stays},
		{"pack_lasts", p.lands() && p.Packs.Stays && slices.Min(p.Packs.SlotsOf) > float64(p.Slots)},
		{"pack_named", p.lands() && p.Packs.NamesUsedJ},
		{"ardupilot", p.fliesCopters() && !slices.Contains(p.Copters, false)},
		{"mixed", p.fliesCopters() && slices.Contains(p.Copters, false)}, {"slow_copters", p.SlowCopters},
		{"next", p.Next != nil}, {"no_charge", p.NoCharge},
		{"frozen", slices.ContainsFunc(p.Faults, func(f fault) bool { return f.Kind == BatteryAbsent && f.Severe })},
		{"lost", slices.ContainsFunc(p.Faults, fault.losesAircraft)}, {"field", p.Site != nil}, {"many_slots", p.Slots > 150},
		{"packed_frames", p.Framing == autopilot.PackedFrames}, {"cut_frames", p.Framing == autopilot.CutFrames},
		{"low_pilot", p.LowPilot}, {"slow_load", p.LoadS > 0}, {"crash_loop", p.Loops > 0}, {"later_names", p.LaterNames},
		{"nobody", p.Nobody}, {"none_led", p.NoneLed}, {"beside", p.Beside},
		{"holds_climb", p.HoldsClimb}, {p.KeepsUp + "_homeward", p.KeepsUp != ""},
		{"retained_reports", p.RetainedReports}, {"empty_battery", p.EmptyBattery}, {string(p.GroundWork), p.GroundWork != ""},
		{"wrong_first", p.WrongFirst}, {"flown_out", p.FlownOut}, {"height_jump", p.HeightJump.Metres != 0},
		{"other_station", p.OtherStation},
		{"sensor", slices.ContainsFunc(p.SensorGain, func(g float64) bool { return g != 1 })},
	})
}

// is reports whether a mission has a fault, by its kind, kind@state or kind@state:aircraft,
// from 1, or flies in a situation: one of [plan.situation], hold, signed, relaunch, shock, calm,
// plain, without what makes joules or motion vague, undisturbed, slow_autopilot, return_of_one, one_way, stops_landing, ends_in_hold,
// after_shock, which its first fault follows once that is known, how it ends, or any. Words joined by + must all hold.
func (p *plan) is(words string) bool {
	for word := range strings.SplitSeq(words, "+") {
		kind, state, _ := strings.Cut(word, "@")
		state, aircraft, _ := strings.Cut(state, ":")
		fault := slices.ContainsFunc(p.Faults, func(f fault) bool {
			return string(f.Kind) == kind && (state == "" || string(f.State) == state) &&
				(aircraft == "" || aircraft == strconv.Itoa(f.Aircraft+1))
		})
		if !fault && !slices.Contains(p.situation(), word) && !slices.Contains(p.unprinted(), word) {
			return false
		}
	}
	return true
}

// unprinted has the other words that [plan.is] knows.
func (p *plan) unprinted() []string {
	first, next, site := &p.Faults[0], p.Next, p.Site
	if next == nil {
		next = &nextMission{}
	}
	return namesOf([]named{
		{"any", true}, {string(p.Ending), true}, {"hold", p.HoldSlots > 0}, {"signed", p.Signed}, {"stops_landing", p.StopsLanding},
		{"plain", p.isPlain()}, {"relaunch", p.RelaunchesGrounded}, {"loss_1s", p.StockRates}, {"shock", p.ShockSlot < p.Slots/2},
		{"undisturbed", p.isUndisturbed()}, {"calm", !p.Wind && !p.Crowd && site == nil}, {"slow_autopilot", p.AutopilotMaxMPS > 0},
		{"return_of_one", site != nil && site.ReturnSlot > 0}, {"one_way", site != nil && site.OneWay},
		{"ends_in_hold", p.packEndsInHold()}, {"next_" + next.By, p.Next != nil}, {next.Pack, p.Next != nil},
		{"after_shock", first.State == Flying && first.StartSlot > p.ShockSlot+quietSlots && first.StartSlot < p.Slots-4},
	})
}

// packEndsInHold reports whether a pack is about at its reserve in the crew's hold.
func (p *plan) packEndsInHold() bool {
	const slackSlots = 10
	return p.lands() && !p.Packs.Stays && slices.ContainsFunc(p.Packs.SlotsOf, func(slots float64) bool {
		return slots > float64(p.HoldSlot) && slots < float64(p.HoldSlot+p.HoldSlots-slackSlots)
	})
}

// isUndisturbed reports whether nothing takes an aircraft from its leader or delays what that does for it.
func (p *plan) isUndisturbed() bool {
	return !p.hasFault(PilotDisarm, PilotPosition, PilotHold, PilotReturn, LowBattery) &&
		!slices.ContainsFunc(p.Faults, func(f fault) bool { return delays(f.Kind) })
}

// isPlain reports whether batteries read the truth, and neither wind nor a crowd moves the
// aircraft.
func (p *plan) isPlain() bool {
	vague := func(name string) bool {
		return slices.Contains([]string{"wind", "crowd", "sensor", "packs", "slow"}, name)
	}
	return !slices.ContainsFunc(p.situation(), vague) &&
		!p.hasFault(BatteryAbsent, BatteryHandover, BatterySwap, BatteryOutlier, SecondBattery, LowBattery)
}

// wallS is about how long the mission takes.
func (p *plan) wallS() float64 {
	mission := float64(p.Slots) + 40
	if p.StockRates {
		mission += 100
	}
	return 3 + mission/p.Speed
}

// Plans are the missions of a run.
type Plans []plan

// NewPlans draws them.
func NewPlans(c *Config) (all Plans) {
	for k := range c.Missions {
		all = append(all, drawPlan(c, k))
	}
	return all
}

// Fitting returns missions in which one of the situations comes, in the order of the
// situations and of how short they are, at most so many: see [plan.is].
func (all Plans) Fitting(situations []string, most int) (missions []int) {
	type candidate struct {
		mission int
		wallS   float64
	}
	add := func(situation string, count int) {
		if len(missions) == most {
			return
		}
		var fit []candidate
		for k := range all {
			if p := &all[k]; p.is(situation) && !slices.Contains(missions, k) {
				fit = append(fit, candidate{k, p.wallS()})
			}
		}
		slices.SortStableFunc(fit, func(a, b candidate) int { return cmp.Compare(a.wallS, b.wallS) })
		for _, x := range fit[:min(count, len(fit), most-len(missions))] {
			missions = append(missions, x.mission)
		}
	}
	for _, s := range situations { // an equal part of each first
		add(s, (most+len(situations)-1)/len(situations))
	}
	for _, s := range situations {
		add(s, most)
	}
	return missions
}
