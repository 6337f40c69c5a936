// Package mission is the state machine of a mission: idle, climbing, flying, holding,
// returning, done, stopped, and every change between them.
//
// Inputs: the crew's commands and heartbeats, and once a mission second the time
// passed, the connection to the broker and the aircraft's progress. Output: an Effect
// on the fleet, which the caller performs; nothing is sent or waited for here.
// Called by the leader's loop when a command arrives and after each slot or idle tick.
package mission

import (
	"fmt"
	"slices"
	"strings"

	"prefdt/telemetry"
)

// Effect is what the fleet must do after a change of state.
type Effect uint8

const (
	None        Effect = iota
	LaunchFleet        // every aircraft leaves the ground for its start, by the orders of the command
	BeginSlots         // slot 0 begins now
	HoldFleet          // every aircraft stays where it is
	ReturnFleet        // every aircraft under control flies home and lands
	StopFleet          // every aircraft under control is handed to its autopilot's Hold
	Reset              // a mission with a new id, from idle
)

// Causes of a hold. One by the crew's command ends by its resume alone.
const (
	HeldByCrew       = "crew"   // the crew's command
	HeldByBrokerLost = "broker" // no connection to the broker
	HeldByCrewLost   = "radio"  // no contact with the crew
)

// event is what may change the state. A crew's command is the event of its action's name.
type event string

const (
	climbDone       event = "climbed"
	climbFailed     event = "climb failed"
	brokerHold      event = "broker gone, hold"
	brokerReturn    event = "broker gone, return"
	crewHold        event = "crew gone, hold"
	crewReturn      event = "crew gone, return"
	contactRestored event = "contact is back"
	slotsOver       event = "last slot settled"
	landed          event = "all landed"
	diskFailed      event = "disk failed"
)

// transition is one row of the table: what happens on an event in a state.
type transition struct {
	event  event
	from   []string
	to     string
	effect Effect
}

var (
	inSlots  = []string{telemetry.StateFlying, telemetry.StateHolding}
	airborne = []string{telemetry.StateClimbing, telemetry.StateFlying, telemetry.StateHolding}
	over     = []string{telemetry.StateReturning, telemetry.StateDone, telemetry.StateStopped}
)

// transitions has every change of state; an event without a row for the present state
// changes nothing.
var transitions = []transition{
	{telemetry.ActionStart, []string{telemetry.StateIdle}, telemetry.StateClimbing, LaunchFleet},
	{telemetry.ActionHold, []string{telemetry.StateClimbing}, telemetry.StateClimbing, HoldFleet},
	{telemetry.ActionHold, inSlots, telemetry.StateHolding, HoldFleet},
	{telemetry.ActionHold, over, telemetry.StateStopped, StopFleet},                            // no slot will end a hold: autopilots do
	{telemetry.ActionResume, []string{telemetry.StateClimbing}, telemetry.StateClimbing, None}, // of a held climb
	{telemetry.ActionResume, []string{telemetry.StateHolding}, telemetry.StateFlying, None},
	{telemetry.ActionReturn, slices.Concat(airborne, over), telemetry.StateReturning, ReturnFleet},
	{telemetry.ActionStop, slices.Concat(airborne, over), telemetry.StateStopped, StopFleet},
	{telemetry.ActionNew, []string{telemetry.StateIdle, telemetry.StateDone, telemetry.StateStopped}, telemetry.StateIdle, Reset},

	{climbDone, []string{telemetry.StateClimbing}, telemetry.StateFlying, BeginSlots},
	{climbFailed, []string{telemetry.StateClimbing}, telemetry.StateReturning, ReturnFleet},
	{brokerHold, []string{telemetry.StateFlying}, telemetry.StateHolding, HoldFleet},
	{brokerReturn, airborne, telemetry.StateReturning, ReturnFleet},
	{crewHold, []string{telemetry.StateFlying}, telemetry.StateHolding, HoldFleet},
	{crewReturn, airborne, telemetry.StateReturning, ReturnFleet},
	{contactRestored, []string{telemetry.StateHolding}, telemetry.StateFlying, None},
	{slotsOver, inSlots, telemetry.StateDone, ReturnFleet},
	{landed, []string{telemetry.StateReturning}, telemetry.StateDone, None},
	{diskFailed, airborne, telemetry.StateReturning, ReturnFleet},
}

// holdCauses has the cause of the hold that an event begins.
var holdCauses = map[event]string{telemetry.ActionHold: HeldByCrew, brokerHold: HeldByBrokerLost, crewHold: HeldByCrewLost}

// actions are all that the crew may order, in the order in which a refusal lists them.
var actions = []string{
	telemetry.ActionStart, telemetry.ActionHold, telemetry.ActionResume, telemetry.ActionReturn,
	telemetry.ActionStop, telemetry.ActionLaunch, telemetry.ActionClear, telemetry.ActionNew,
}

// aircraftActions has the states in which an action changes single aircraft, and not
// the mission's state.
var aircraftActions = map[string][]string{
	telemetry.ActionResume: append([]string{telemetry.StateReturning, telemetry.StateDone}, airborne...),
	telemetry.ActionReturn: airborne,
	telemetry.ActionLaunch: airborne,
	telemetry.ActionClear: append([]string{
		telemetry.StateIdle, telemetry.StateReturning, telemetry.StateDone, telemetry.StateStopped,
	}, airborne...),
}

// State is what a restart needs.
type State struct {
	Mission string  `json:"mission"`
	Phase   string  `json:"phase"` // the state of docs/wire.md
	HeldBy  string  `json:"held_by,omitempty"`
	Reason  string  `json:"reason,omitempty"`  // why it holds or returns without the crew's order; empty: it does not
	ClimbS  float64 `json:"climb_s,omitempty"` // mission time since start
	Contact Contact `json:"contact,omitzero"`
	// GroundedS is for how long no aircraft was left in the climb, mission time.
	GroundedS float64 `json:"grounded_s,omitempty"`
}

// Limits are the times that the configuration sets.
type Limits struct {
	ClimbS        float64 `yaml:"climb_s"`       // mission time
	BrokerHoldS   float64 `yaml:"broker_hold_s"` // mission time without the broker
	BrokerReturnS float64 `yaml:"broker_return_s"`
	CrewHoldS     float64 `yaml:"crew_hold_s"` // wall time without contact with the crew
	CrewReturnS   float64 `yaml:"crew_return_s"`
}

// Mission is one mission's state. Set Limits; the rest is Begin's or Restore's.
type Mission struct {
	Limits     Limits
	state      State
	uptimeS    float64 // wall time since the leader's start
	connectedS float64 // wall time since the broker was last connected

	// Contact in the last seconds, which a restart begins anew.
	missionS     float64 // mission time since the leader's start
	wasConnected bool    // to the broker, at the last tick
	brokerSpans  []span  // in missionS
	crewReceived bool
	heartbeatS   float64 // the last heartbeat, in uptimeS
	crewSpans    []span  // likewise
}

// Begin begins a new, idle mission.
func (m *Mission) Begin(id string) { m.state = State{Mission: id, Phase: telemetry.StateIdle} }

// State returns what a restart needs.
func (m *Mission) State() State {
	s := m.state
	s.Contact.Stations = slices.Clone(s.Contact.Stations)
	return s
}

// Restore continues a mission after a restart.
func (m *Mission) Restore(s State) { m.state = s }

// AddDowntime counts the time for which the leader itself was down. For the broker it
// counts only if the connection was already lost.
func (m *Mission) AddDowntime(missionS, wallS float64) {
	m.state.ClimbS += missionS
	m.state.Contact.CrewLostS += wallS
	if m.state.Contact.BrokerLostS > 0 {
		m.state.Contact.BrokerLostS += missionS
	}
}

// ID is the mission's id.
func (m *Mission) ID() string { return m.state.Mission }

// Phase is the mission's state, by its name on the wire (docs/wire.md).
func (m *Mission) Phase() string { return m.state.Phase }

// Held is whether slots, or a climb, are held until `resume` or contact ends that.
func (m *Mission) Held() bool { return m.state.HeldBy != "" || m.state.Phase == telemetry.StateHolding }

// HeldBy is the cause of the present hold, of slots or of a climb; empty: there is none.
func (m *Mission) HeldBy() string { return m.state.HeldBy }

// Reason is why the mission holds, returns or has returned without the crew's order, for the crew; empty: it does not.
func (m *Mission) Reason() string { return m.state.Reason }

// InSlots is whether slots are opened.
func (m *Mission) InSlots() bool { return slices.Contains(inSlots, m.state.Phase) }

// InFlight is whether aircraft may be in the air for this mission.
func (m *Mission) InFlight() bool {
	return slices.Contains(airborne, m.state.Phase) || m.state.Phase == telemetry.StateReturning
}

// Ending is whether no slot will be flown any more.
func (m *Mission) Ending() bool { return slices.Contains(over, m.state.Phase) }

// Command changes the state by a command's action, or returns why it may not.
// Conditions beyond the state (readiness, aircraft) are the caller's to check before.
func (m *Mission) Command(action string) (Effect, error) {
	if m.transition(event(action)) == nil {
		return None, fmt.Errorf("cannot %s: %w", action, m.Refusal())
	}
	return m.apply(event(action)), nil
}

// Refusal names the present state and every action that is accepted in it.
func (m *Mission) Refusal() error {
	var accepted []string
	for _, a := range actions {
		if m.Accepts(a) {
			accepted = append(accepted, a)
		}
	}
	return fmt.Errorf("the mission is %s, which accepts %s", m.state.Phase, strings.Join(accepted, ", "))
}

// Accepts is whether an action changes the mission or single aircraft in the present
// state, their own conditions permitting.
func (m *Mission) Accepts(action string) bool {
	return m.transition(event(action)) != nil || m.AcceptsAircraft(action)
}

// AcceptsAircraft is whether an action changes single aircraft in the present state.
func (m *Mission) AcceptsAircraft(action string) bool {
	return slices.Contains(aircraftActions[action], m.state.Phase)
}

func (m *Mission) transition(e event) *transition {
	if e == telemetry.ActionResume && m.state.Phase == telemetry.StateClimbing && !m.Held() {
		return nil
	}
	for i := range transitions {
		if transitions[i].event == e && slices.Contains(transitions[i].from, m.state.Phase) {
			return &transitions[i]
		}
	}
	return nil
}

// apply makes the change that the table has for an event, if it has one.
func (m *Mission) apply(e event) Effect {
	t := m.transition(e)
	if t == nil {
		return None
	}
	if t.to != m.state.Phase || e == telemetry.ActionHold || e == telemetry.ActionResume {
		m.state.HeldBy = ""
		if e != landed { // the end of a way home begun for that reason
			m.state.Reason = ""
		}
	}
	if t.effect == HoldFleet {
		m.state.HeldBy = holdCauses[e] // the crew's own does not end when contact returns
	}
	if m.state.Phase = t.to; t.effect == LaunchFleet {
		m.state.ClimbS, m.state.GroundedS = 0, 0
	}
	return t.effect
}

// SlotsOver is called once the last slot is settled.
func (m *Mission) SlotsOver() Effect { return m.apply(slotsOver) }

// DiskFailed is called when a settlement could not be stored.
func (m *Mission) DiskFailed() Effect {
	effect := m.apply(diskFailed)
	if effect != None {
		m.state.Reason = "the disk failed"
	}
	return effect
}
