package chaos

import "prefdt/telemetry"

// State is where in a mission a fault begins: a state of the mission, as the
// leader's acknowledgements and status have it, or a phase of the aircraft
// within one.
type State string

// The mission's states, and two phases in which an aircraft changes hands.
const (
	Idle      State = telemetry.StateIdle
	Climbing  State = telemetry.StateClimbing
	Engaging  State = "engaging" // in the climb: setpoints come, OFFBOARD does not fly yet
	Flying    State = telemetry.StateFlying
	Holding   State = telemetry.StateHolding
	Returning State = telemetry.StateReturning
	Landing   State = "landing" // on the way home: in the mode that lands it, in the air
	Done      State = telemetry.StateDone
	Stopped   State = telemetry.StateStopped
)

// states in the order in which a mission meets them.
var states = []State{Idle, Climbing, Engaging, Flying, Holding, Returning, Landing, Done, Stopped}

// possibleStates says in which states each kind of fault can begin. A run long enough
// meets every cell of it, see uncovered. What is not here cannot be, or is no
// fault: no slot is open outside of flying and holding, an aircraft that stands
// has no pilot's act to be respected, and Hold is told from ours only in OFFBOARD.
var possibleStates = map[FaultKind][]State{
	ReportLoss:      {Flying, Holding},
	ForeignReports:  {Climbing, Flying, Holding},
	ForgedResult:    {Flying, Holding},
	BrokerRestart:   {Idle, Climbing, Flying, Holding, Returning, Done, Stopped},
	LinkLoss:        {Climbing, Engaging, Flying, Holding, Returning, Landing, Stopped},
	Reboot:          {Idle, Climbing, Flying, Holding, Returning, Landing, Stopped},
	BatteryAbsent:   {Climbing, Flying, Holding, Returning},
	BatteryHandover: {Climbing, Flying, Holding, Returning},
	BatterySwap:     {Climbing, Flying, Holding, Returning},
	BatteryOutlier:  {Climbing, Flying, Holding, Returning},
	SecondBattery:   {Idle, Climbing, Flying, Holding, Returning},
	HeartbeatGap:    {Climbing, Engaging, Flying, Holding, Returning, Landing},
	HeartbeatLoss:   {Climbing, Flying, Holding, Returning},
	OutOfOrder:      {Climbing, Flying, Holding, Returning, Landing},
	PilotDisarm:     {Climbing, Engaging, Flying, Holding, Returning, Landing, Done, Stopped},
	PilotPosition:   {Climbing, Engaging, Flying, Holding, Returning, Landing, Done, Stopped},
	PilotHold:       {Flying, Holding, Returning},
	CommandStorm:    {Idle, Climbing, Flying, Holding, Returning, Done, Stopped},
	ProcessKill:     {Idle, Climbing, Engaging, Flying, Holding, Returning, Landing, Done, Stopped},
	ProcessStall:    {Climbing, Flying, Holding, Returning, Landing},
	SecondLeader:    {Idle, Climbing, Flying, Holding, Returning, Stopped},
	ForgedStatus:    {Idle, Climbing, Flying, Holding, Returning, Stopped},
	ForgedBeacon:    {Idle, Climbing, Flying, Holding, Returning, Stopped},
	ForgedAtRestart: {Climbing, Flying, Holding, Returning, Stopped},
	CrewRadioHold:   {Idle, Climbing, Flying, Holding, Returning, Done, Stopped},
	CrewRadioReturn: {Climbing, Flying, Holding},
}

// coverageCell is a kind of fault in a state.
type coverageCell struct {
	Kind  FaultKind
	State State
}

// coverageCells returns the possible ones, in the order of kinds and states.
func coverageCells() (all []coverageCell) {
	for _, k := range faultKinds {
		for _, s := range possibleStates[k] {
			all = append(all, coverageCell{k, s})
		}
	}
	return all
}
