package telemetry

import (
	"net"
	"slices"
)

// The payloads, which docs/wire.md describes. The tags define each field's name and
// range; decoding, encoding and the test of asyncapi.yaml all read them.
//
//	json     the name on the wire; omitempty: may be absent, or null
//	range    interval of allowed numbers, of each element for arrays and maps
//	enum     the allowed strings
//	match    a form of text: id (see [ValidID]), challenge, station, digest or grant
//	max      most elements of a list, or bytes of a string (default 200)
//	shown    to people: what cannot be seen in the text is read as "?"
//	keys     interval of a map's keys
//
// A pointer without omitempty is always present and null while unknown.

// MaxAircraft is the largest aircraft number a message may carry.
const MaxAircraft = 64

// Slot is the beacon that opens a slot, from the leader to all users.
type Slot struct {
	Slot       int     `json:"slot" range:"[0, 1e9]"`
	SlotMS     float64 `json:"slot_ms" range:"[1, 60000]"` // wall time
	Speed      float64 `json:"speed" range:"(0, 1000]"`    // 1000 / SlotMS
	ReportByMS float64 `json:"report_by_ms" range:"(0, 60000]"`
	DecideByMS float64 `json:"decide_by_ms" range:"(0, 60000]"`
	Offer      Offer   `json:"offer"`
}

// Offer is the standing offer: the price and the aircraft positions with which a user
// decides for itself when it receives no decision.
type Offer struct {
	PriceSPerJ float64         `json:"price_s_per_j" range:"[0, 1e6]"`
	Aircraft   []OfferAircraft `json:"aircraft" max:"64"` // those under the leader's command, possibly none
}

// OfferAircraft is one aircraft of the standing offer.
type OfferAircraft struct {
	Number        int        `json:"number" range:"[1, 64]"`
	PositionM     [2]float64 `json:"position_m" range:"[-1e5, 1e5]"` // east, north
	CPUHz         float64    `json:"cpu_hz" range:"(0, 1e15]"`
	ExpectedUsers float64    `json:"expected_users" range:"[0, 1e5]"`
	Worker        string     `json:"worker,omitempty" max:"100"` // host:port of its worker; absent: nothing computes there
}

// Report is a user's report of one slot.
type Report struct {
	Slot      int             `json:"slot" range:"[0, 1e9]"`
	PositionM [2]float64      `json:"position_m" range:"[-1e5, 1e5]"` // east, north
	Task      *Task           `json:"task,omitempty"`                 // nil: idle
	QueueBits float64         `json:"queue_bits" range:"[0, 1e15]"`
	CPUHz     float64         `json:"cpu_hz" range:"[1, 1e15]"`
	Gain      map[int]float64 `json:"gain,omitempty" range:"(0, 1]" keys:"[1, 64]"` // by aircraft number; may lack any
}

// Task is the computing a user needs in the slot: up to maxCycles, and no more than
// a day on its own CPU, the longest time that a result may report.
type Task struct {
	Bits         float64 `json:"bits" range:"[1, 1e12]"`
	CyclesPerBit float64 `json:"cycles_per_bit" range:"[1e-3, 1e9]"`
	DeadlineS    float64 `json:"deadline_s" range:"(0, 3600]"`
	Function     string  `json:"function,omitempty" match:"id"`   // that a worker computes it with; absent: its user alone computes it
	Digest       string  `json:"digest,omitempty" match:"digest"` // that the worker's must have too; absent: any
}

// Decision is where a user computes its task. Local is aircraft 0 with offload 0.
type Decision struct {
	Slot       int     `json:"slot" range:"[0, 1e9]"`
	Aircraft   int     `json:"aircraft" range:"[0, 64]"`
	Offload    float64 `json:"offload" range:"[0, 1]"`
	CPUHz      float64 `json:"cpu_hz" range:"[0, 1e15]"`               // this user's share; 0 when local
	ReportSlot *int    `json:"report_slot,omitempty" range:"[0, 1e9]"` // decided from this older report
	Grant      string  `json:"grant,omitempty" match:"grant"`          // for the aircraft's worker, see telemetry/task
	Refused    string  `json:"refused,omitempty" enum:"function,digest"`
}

// Values of a decision's Refused: no worker that was received lately has the task's function, or with the digest that its user named.
const (
	RefusedFunction = "function"
	RefusedDigest   = "digest"
)

// Result is how a user's task ended.
type Result struct {
	Slot        int     `json:"slot" range:"[0, 1e9]"`
	CompletionS float64 `json:"completion_s" range:"[0, 86400]"` // from receipt of the decision
	By          string  `json:"by" enum:"decision,offer,local"`

	LocalS  *float64 `json:"local_s,omitempty" range:"[0, 86400]"`  // time of the part computed by the user, at most CompletionS
	UploadS *float64 `json:"upload_s,omitempty" range:"[0, 86400]"` // time of the upload, at most CompletionS
}

// Budget requests a total of joules of the fleet, bounds for single aircraft, or both.
type Budget struct {
	ID      string  `json:"id" match:"id"`
	EnergyJ float64 `json:"energy_j,omitempty" range:"(0, 1e12]"` // of the fleet; absent: the packs alone bound it
	Mode    string  `json:"mode,omitempty" enum:"target,ceiling"` // absent only beside packs: a ceiling
	Scope   string  `json:"scope,omitempty" enum:"slots,landed"`  // what counts; absent: slots
	Packs   []Pack  `json:"packs,omitempty" max:"64"`             // aircraft that are not named are unbounded
	// StandDown is whether aircraft may come home for good; absent: never.
	StandDown string `json:"stand_down,omitempty" enum:"never,land,shifts"`
	LeastUp   *int   `json:"least_up,omitempty" range:"[1, 64]"` // how many stay in the air; absent: 1

	ReplacesJ *float64 `json:"replaces_j,omitempty" range:"(0, 1e12]"` // refused unless this total is in force
}

// Pack bounds what one aircraft draws from its pack: usable less reserve.
type Pack struct {
	Aircraft int      `json:"aircraft" range:"[1, 64]"`
	UsableJ  *float64 `json:"usable_j,omitempty" range:"(0, 1e12]"` // absent: all that the pack holds
	// At most one of these is what is left at the end; neither: nothing.
	ReserveJ *float64 `json:"reserve_j,omitempty" range:"[0, 1e12]"`
	Reserve  *float64 `json:"reserve,omitempty" range:"[0, 1)"` // share of the whole pack
}

// Preference requests a point of the calibrated energy-delay axis.
type Preference struct {
	ID      string  `json:"id" match:"id"`
	Setting float64 `json:"setting" range:"[0, 1]"` // 0 is least delay
}

// Mission requests a change of the mission's state, or of what some aircraft do in it.
type Mission struct {
	ID     string `json:"id" match:"id"`
	Action string `json:"action" enum:"start,hold,resume,return,stop,launch,clear,new"`
	// launch and clear: which; resume and return: which, absent: all in the air
	Aircraft []int  `json:"aircraft,omitempty" range:"[1, 64]" max:"64"`
	Mission  string `json:"mission,omitempty" match:"id"` // new: its id, never used before
}

// Ack answers one command.
type Ack struct {
	ID            string `json:"id" match:"id"`
	Accepted      bool   `json:"accepted"`
	EffectiveSlot *int   `json:"effective_slot,omitempty" range:"[0, 1e9]"` // always when accepted
	Reason        string `json:"reason,omitempty" max:"500" shown:"yes"`    // always when refused

	// The command that is answered. Two stations may use the same id.
	Key string `json:"key,omitempty" match:"id"`    // that signed the command; absent: unsigned
	Of  string `json:"of,omitempty" match:"digest"` // [Digest] of its payload

	// What was applied.
	EnergyJ   *float64 `json:"energy_j,omitempty" range:"(0, 1e12]"`
	Mode      string   `json:"mode,omitempty" enum:"target,ceiling"`
	Setting   *float64 `json:"setting,omitempty" range:"[0, 1]"`
	Action    string   `json:"action,omitempty" enum:"start,hold,resume,return,stop,launch,clear,new"`
	Saturated *bool    `json:"saturated,omitempty"`                 // always for an accepted budget
	FloorJ    *float64 `json:"floor_j,omitempty" range:"[0, 1e12]"` // always for an accepted budget

	// The plan of a budget that bounds packs or lets aircraft land.
	CoveredUntilSlot *int          `json:"covered_until_slot,omitempty" range:"[-1, 1e9]"` // as in Status
	Aircraft         []AckAircraft `json:"aircraft,omitempty" max:"64"`

	// With a refusal for a stale challenge or counter, and only then: the values to
	// sign the command with again.
	Challenge   string  `json:"challenge,omitempty" match:"challenge"`
	LastCounter *uint64 `json:"last_counter,omitempty" range:"[0, 9223372036854775807]"` // last accepted from that key and station; 0: none

	Signature string `json:"signature,omitempty" max:"100"` // see [SignAnswer]; the last field
}

// AckAircraft is what the plan leaves in one aircraft's pack.
type AckAircraft struct {
	Number           int     `json:"number" range:"[1, 64]"`
	LeftAtTouchdownJ float64 `json:"left_at_touchdown_j" range:"[0, 1e12]"`
}

// Heartbeat shows that a crew station watches, once a second of wall time.
type Heartbeat struct {
	Seq     int64 `json:"seq" range:"[0, 9007199254740992]"`
	Leaving bool  `json:"leaving,omitempty"` // the station stops watching, on purpose
}

// Worker shows once a second of wall time what the worker of an aircraft can compute. Its
// will is empty: without capacity, users are not sent there.
type Worker struct {
	CPUHz       float64          `json:"cpu_hz,omitempty" range:"[0, 1e15]"`       // what it can compute now, as measured
	QueueCycles float64          `json:"queue_cycles,omitempty" range:"[0, 1e18]"` // accepted and not computed
	CPUS        float64          `json:"cpu_s,omitempty" range:"[0, 1e12]"`        // CPU time of all tasks since it began
	ComputeJ    *float64         `json:"compute_j,omitempty" range:"[0, 1e12]"`    // measured joules of them; null: not measured
	Functions   []WorkerFunction `json:"functions,omitempty" max:"64"`
	Costs       []WorkerCost     `json:"costs,omitempty" max:"64"`
	Refused     int64            `json:"refused,omitempty" range:"[0, 9007199254740992]"` // requests since it began
}

// WorkerFunction is one function of a worker.
type WorkerFunction struct {
	ID           string  `json:"id" match:"id"`
	Digest       string  `json:"digest" match:"digest"` // SHA-256 of its program
	CyclesPerBit float64 `json:"cycles_per_bit" range:"[1e-3, 1e9]"`
}

// WorkerCost is what a function takes on a worker, as measured there. Where a function is not among the costs, what [WorkerFunction] says
// counts.
type WorkerCost struct {
	Function     string  `json:"function" match:"id"`
	Digest       string  `json:"digest" match:"digest"`
	CyclesPerBit float64 `json:"cycles_per_bit" range:"[1e-3, 1e9]"`
}

// Hello asks for another leader that flies the fleet already.
type Hello struct {
	Instance string `json:"instance" match:"id"` // random, of the leader that asks
}

// Proof answers a [Hello]: a leader flies the fleet. It is sent in an [Envelope]
// signed with the leaders' key, since a beacon or status can be forged.
type Proof struct {
	Instance  string `json:"instance" match:"id"` // of the leader that asked
	Challenge string `json:"challenge" match:"challenge"`
	Seq       int64  `json:"seq" range:"[0, 9007199254740992]"` // as in status
	Slot      int    `json:"slot" range:"[-1, 1e9]"`            // as in status
}

// Status is the state of the fleet after a settlement, a retained message.
type Status struct {
	Seq      int64   `json:"seq" range:"[0, 9007199254740992]"`
	Slot     int     `json:"slot" range:"[-1, 1e9]"` // last settled, -1 before the first
	Slots    int     `json:"slots" range:"[0, 1e9]"`
	MissionS float64 `json:"mission_s" range:"[0, 1e9]"`
	Mission  string  `json:"mission,omitempty" match:"id"`
	State    string  `json:"state" enum:"idle,climbing,flying,holding,returning,done,stopped"`
	// why it holds, returns or has returned without the crew's order; absent: it does not
	Reason        string   `json:"reason,omitempty" max:"500" shown:"yes"`
	Setting       float64  `json:"setting" range:"[0, 1]"`
	BudgetJ       *float64 `json:"budget_j" range:"(0, 1e12]"`          // null under a preference
	Mode          *string  `json:"mode" enum:"target,ceiling"`          // null under a preference
	Scope         string   `json:"scope,omitempty" enum:"slots,landed"` // of the budget; absent under a preference
	SpentJ        float64  `json:"spent_j" range:"[0, 1e12]"`
	RemainingJ    *float64 `json:"remaining_j" range:"[-1e12, 1e12]"` // of the budget; null under a preference
	PredictedEndJ *float64 `json:"predicted_end_j" range:"[0, 1e12]"` // null before the first prediction
	FloorJ        float64  `json:"floor_j" range:"[0, 1e12]"`
	Saturated     bool     `json:"saturated"`
	// CoveredUntilSlot is the last slot with least_up aircraft in the air, by the plan; -1: none. Absent without a plan.
	CoveredUntilSlot *int     `json:"covered_until_slot,omitempty" range:"[-1, 1e9]"`
	ValueSPerJ       *float64 `json:"value_s_per_j,omitempty" range:"[0, 1e6]"` // price in force; absent before the first slot
	// climb, transit and return; of the budget where its scope is landed
	TransitJ    float64 `json:"transit_j" range:"[0, 1e12]"`
	UsersHeard  int     `json:"users_heard" range:"[0, 1e6]"` // users that reported in time for the slot
	MissedSlots int     `json:"missed_slots" range:"[0, 1e9]"`
	DecisionMS  float64 `json:"decision_ms" range:"[0, 1e6]"`
	// the least accurate of the aircraft
	EnergySource string       `json:"energy_source" enum:"energy_consumed,current_voltage,remaining_charge,model"`
	Challenge    string       `json:"challenge" match:"challenge"` // to sign commands with, see [Envelope]
	LastCommand  *LastCommand `json:"last_command"`                // null before the first
	// wall time since contact with the crew counted; absent: no station sends heartbeats
	CrewAgeS  *float64         `json:"crew_age_s,omitempty" range:"[0, 1e9]"`
	Aircraft  []StatusAircraft `json:"aircraft" max:"64"`
	Dangers   []Danger         `json:"dangers,omitempty" max:"64"` // the gravest first
	Refuses   *Refuses         `json:"refuses,omitempty"`
	Signature string           `json:"signature,omitempty" max:"100"` // see [SignAnswer]; the last field
}

// MustAct is the gravity of a danger from which on somebody must act.
const MustAct = 7

// Danger is what the crew must not miss. In the air comes before on the ground, and of those with the same gravity the one with
// the least joules left.
type Danger struct {
	Gravity   int    `json:"gravity" range:"[0, 9]"` // above 3: something is in the air; from 7 on somebody must act
	Aircraft  int    `json:"aircraft,omitempty" range:"[1, 64]"`
	SinceSlot int    `json:"since_slot" range:"[-1, 1e9]"`
	Text      string `json:"text" max:"600" shown:"yes"`
	Do        string `json:"do" max:"200" shown:"yes"` // what the crew can do about it; empty: nothing
}

// Refuses has why each action would be refused now; absent: it would be accepted. Of launch and clear it names the aircraft.
type Refuses struct {
	Start  string `json:"start,omitempty" max:"500" shown:"yes"`
	Stop   string `json:"stop,omitempty" max:"500" shown:"yes"`
	Hold   string `json:"hold,omitempty" max:"500" shown:"yes"`
	Return string `json:"return,omitempty" max:"500" shown:"yes"`
	Resume string `json:"resume,omitempty" max:"500" shown:"yes"`
	Launch string `json:"launch,omitempty" max:"500" shown:"yes"`
	Clear  string `json:"clear,omitempty" max:"500" shown:"yes"`
	New    string `json:"new,omitempty" max:"500" shown:"yes"`
	Budget string `json:"budget,omitempty" max:"500" shown:"yes"` // and a preference
}

// Of is where the reason of an action stands; nil: it is none of a status.
func (r *Refuses) Of(action string) *string {
	return map[string]*string{ActionStart: &r.Start, ActionStop: &r.Stop, ActionHold: &r.Hold, ActionReturn: &r.Return,
		ActionResume: &r.Resume, ActionLaunch: &r.Launch, ActionClear: &r.Clear, ActionNew: &r.New, "budget": &r.Budget}[action]
}

// LastCommand is the last command that was applied.
type LastCommand struct {
	ID   string `json:"id" match:"id"`
	Key  string `json:"key" max:"64"` // that signed it; empty: unsigned
	Slot int    `json:"slot" range:"[0, 1e9]"`
	What string `json:"what" shown:"yes"`
}

// StatusAircraft is one aircraft of the status. Measured values are null until the
// first message of the aircraft.
type StatusAircraft struct {
	Number int `json:"number" range:"[1, 64]"`
	// why it does not fly as commanded, with the autopilot's status text; empty: it does
	Reason    string      `json:"reason" max:"500" shown:"yes"`
	SystemID  int         `json:"system_id" range:"[1, 255]"`
	PositionM *[3]float64 `json:"position_m" range:"[-1e5, 1e5]"` // east, north, up
	SpeedMPS  *float64    `json:"speed_mps" range:"[0, 1000]"`
	// absent until its first HEARTBEAT
	Autopilot string `json:"autopilot,omitempty" enum:"px4,ardupilot"`
	// the autopilot's own word, empty until its first HEARTBEAT
	Mode         string   `json:"mode" max:"40" shown:"yes"`
	Role         string   `json:"role,omitempty" enum:"armable,takeoff,commanded,hold,return,land,other"` // of that mode
	Landed       *bool    `json:"landed"`
	Battery      *float64 `json:"battery" range:"[0, 1]"` // remaining charge, a fraction
	EnergySource string   `json:"energy_source" enum:"energy_consumed,current_voltage,remaining_charge,model"`
	SpentJ       float64  `json:"spent_j" range:"[0, 1e12]"`
	AgeS         *float64 `json:"age_s" range:"[0, 1e9]"` // of the last message received

	Worker *StatusWorker `json:"worker,omitempty"` // absent: no aircraft of the fleet is configured with one

	// Who is in the air until when. Slots are absent where the aircraft has no plan.
	Duty string `json:"duty,omitempty" enum:"serving,leaving,home,standby,relieving"` // absent: none of these
	// left in its pack and usable, the reserve included
	UsableJ          *float64 `json:"usable_j,omitempty" range:"[0, 1e12]"`
	ReserveJ         *float64 `json:"reserve_j,omitempty" range:"[0, 1e12]"`           // that is to be left at touchdown
	HomeJ            *float64 `json:"home_j,omitempty" range:"[0, 1e12]"`              // of its way home from here, to touchdown
	LeftAtTouchdownJ *float64 `json:"left_at_touchdown_j,omitempty" range:"[0, 1e12]"` // in its pack, by the plan
	FliesUntilSlot   *int     `json:"flies_until_slot,omitempty" range:"[-1, 1e9]"`    // its last slot, by the plan
	TakesOffSlot     *int     `json:"takes_off_slot,omitempty" range:"[0, 1e9]"`       // of a standby that will relieve another
}

// StatusWorker is the state of an aircraft's worker.
type StatusWorker struct {
	State string   `json:"state" enum:"ok,silent,none"` // none: not configured
	CPUHz *float64 `json:"cpu_hz,omitempty" range:"[0, 1e15]"`
}

// Values of the enumerated fields.
const (
	ByDecision = "decision"
	ByOffer    = "offer"
	ByLocal    = "local"

	ModeTarget  = "target"
	ModeCeiling = "ceiling"

	ScopeSlots  = "slots"  // from slot 0 to the settlement of the last
	ScopeLanded = "landed" // of each aircraft from take-off to touchdown

	StandDownNever  = "never"
	StandDownLand   = "land"   // aircraft may come home for good
	StandDownShifts = "shifts" // standbys relieve them

	DutyServing   = "serving"
	DutyLeaving   = "leaving" // on its way home
	DutyHome      = "home"    // on the ground
	DutyStandby   = "standby"
	DutyRelieving = "relieving"

	ActionStart  = "start"
	ActionHold   = "hold"
	ActionResume = "resume"
	ActionReturn = "return"
	ActionStop   = "stop"
	ActionLaunch = "launch"
	ActionClear  = "clear"
	ActionNew    = "new"

	StateIdle      = "idle"
	StateClimbing  = "climbing"
	StateFlying    = "flying"
	StateHolding   = "holding"
	StateReturning = "returning"
	StateDone      = "done"    // the last slot was settled
	StateStopped   = "stopped" // by a stop command

	WorkerOK     = "ok"
	WorkerSilent = "silent"
	WorkerNone   = "none"

	SourceEnergyConsumed  = "energy_consumed"
	SourceCurrentVoltage  = "current_voltage"
	SourceRemainingCharge = "remaining_charge"
	SourceModel           = "model"
)

// ReasonLost begins the reason of an aircraft that became its pilot's because nothing was received of it.
const ReasonLost = "lost"

// ReasonNoCrew begins the reason of a mission that holds, or returns, because nothing was received from the crew.
const ReasonNoCrew = "no contact with the crew"

// ReasonLeft begins the reason of an aircraft whose pilot, or another station, chose a mode: it is its pilot's.
const ReasonLeft = "left "

// UnderWay is whether a mission in a state was started and is not over.
func UnderWay(state string) bool {
	return state != StateIdle && state != StateDone && state != StateStopped
}

// Conditions on several fields.

func (s *Slot) check() (field, problem string) {
	switch {
	case s.ReportByMS >= s.DecideByMS:
		return "report_by_ms", "not before decide_by_ms"
	case s.DecideByMS > s.SlotMS:
		return "decide_by_ms", "after the slot's end, slot_ms"
	case s.Speed*s.SlotMS < 990 || s.Speed*s.SlotMS > 1010:
		return "speed", "not 1000 / slot_ms"
	}
	for i, a := range s.Offer.Aircraft {
		if slices.ContainsFunc(s.Offer.Aircraft[:i], func(b OfferAircraft) bool { return a.Number == b.Number }) {
			return "offer.aircraft", "a number twice"
		}
		if !validAddress(a.Worker) {
			return "offer.aircraft.worker", "not host:port"
		}
	}
	return "", ""
}

// validAddress is whether a worker's address is host:port, or there is none.
func validAddress(address string) bool {
	host, port, err := net.SplitHostPort(address)
	return address == "" || err == nil && host != "" && port != ""
}

// Limits of one user's task. More would take the fleet from all other users.
const (
	maxCycles = 1e12
	maxLocalS = 86400
)

func (r *Report) check() (field, problem string) {
	if r.Task == nil {
		return "", ""
	}
	switch cycles := r.Task.Bits * r.Task.CyclesPerBit; {
	case cycles > maxCycles:
		return "task", "more than 1e12 cycles, bits x cycles_per_bit"
	case cycles > maxLocalS*r.CPUHz:
		return "task", "more than 86400 s on the user's own CPU"
	}
	return "", ""
}

func (r *Result) check() (field, problem string) {
	switch {
	case r.LocalS != nil && *r.LocalS > r.CompletionS:
		return "local_s", "more than completion_s"
	case r.UploadS != nil && *r.UploadS > r.CompletionS:
		return "upload_s", "more than completion_s"
	}
	return "", ""
}

func (d *Decision) check() (field, problem string) {
	switch {
	case d.Aircraft == 0 && d.Offload != 0:
		return "offload", "not 0 with aircraft 0"
	case d.Aircraft != 0 && d.Offload == 0:
		return "offload", "0 with an aircraft; local is aircraft 0"
	case d.Aircraft != 0 && d.CPUHz == 0:
		return "cpu_hz", "0 with an aircraft"
	case d.ReportSlot != nil && *d.ReportSlot >= d.Slot:
		return "report_slot", "not before slot"
	}
	return "", ""
}

func (b *Budget) check() (field, problem string) {
	switch {
	case b.EnergyJ == 0 && len(b.Packs) == 0:
		return "energy_j", "missing"
	case b.Mode == "" && len(b.Packs) == 0:
		return "mode", "missing"
	case b.EnergyJ == 0 && b.Mode == ModeTarget:
		return "mode", "mode is target, but energy_j is missing; packs alone make a ceiling"
	}
	for i := range b.Packs {
		p := &b.Packs[i]
		switch {
		case slices.ContainsFunc(b.Packs[:i], func(other Pack) bool { return other.Aircraft == p.Aircraft }):
			return "packs.aircraft", "a number twice"
		case p.ReserveJ != nil && p.Reserve != nil:
			return "packs.reserve", "beside reserve_j; want one of them"
		case p.UsableJ != nil && p.ReserveJ != nil && *p.ReserveJ >= *p.UsableJ:
			return "packs.reserve_j", "not below usable_j"
		}
	}
	return "", ""
}

func (m *Mission) check() (field, problem string) {
	named, isNew := m.Aircraft != nil, m.Action == ActionNew
	switch mustName := m.Action == ActionLaunch || m.Action == ActionClear; {
	case mustName && !named:
		return "aircraft", "missing"
	case named && !mustName && m.Action != ActionResume && m.Action != ActionReturn:
		return "aircraft", "only with resume, return, launch and clear"
	case isNew && m.Mission == "":
		return "mission", "missing"
	case !isNew && m.Mission != "":
		return "mission", "only with new"
	case named && len(m.Aircraft) == 0:
		return "aircraft", "empty"
	}
	for i, number := range m.Aircraft {
		if slices.Contains(m.Aircraft[:i], number) {
			return "aircraft", "a number twice"
		}
	}
	return "", ""
}

func (a *Ack) check() (field, problem string) {
	switch {
	case a.Accepted && a.EffectiveSlot == nil:
		return "effective_slot", "missing"
	case !a.Accepted && a.Reason == "":
		return "reason", "missing"
	case a.Challenge != "" && a.LastCounter == nil:
		return "last_counter", "missing beside challenge"
	case a.Challenge == "" && a.LastCounter != nil:
		return "challenge", "missing beside last_counter"
	case a.Accepted && a.Challenge != "":
		return "challenge", "with an accepted command"
	}
	return "", ""
}
