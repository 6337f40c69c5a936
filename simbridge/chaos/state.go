package chaos

import (
	"slices"

	"prefdt/telemetry"
)

// State is where in a mission a fault begins: a state of the mission, by the leader's
// acknowledgements and status, or a phase of an aircraft within one.
type State string

// The mission's states, and two phases in which an aircraft changes its mode.
const (
	Idle      State = telemetry.StateIdle
	Climbing  State = telemetry.StateClimbing
	Engaging  State = "engaging" // in the climb: setpoints are received, OFFBOARD is not active yet
	Flying    State = telemetry.StateFlying
	Holding   State = telemetry.StateHolding
	Returning State = telemetry.StateReturning
	Landing   State = "landing" // on the return: in Land, in the air
	Done      State = telemetry.StateDone
	Stopped   State = telemetry.StateStopped
)

// states in their order in a mission.
var states = []State{Idle, Climbing, Engaging, Flying, Holding, Returning, Landing, Done, Stopped}

// faultTable has the states in which each kind of fault can begin; plans draw from its
// cells in this order, and a run of [fullRunMissions] begins every one. A cell that is
// absent is impossible or is no fault: no slot is open outside of flying and holding,
// an aircraft on the ground has no pilot's act to respect, and a pilot's Hold differs from
// the failsafe's in OFFBOARD and below H alone.
var faultTable = []faultStates{
	{ProcessKill, []State{Idle, Climbing, Engaging, Flying, Holding, Returning, Landing, Done, Stopped}},
	{LinkLoss, []State{Climbing, Engaging, Flying, Holding, Returning, Landing, Stopped}},
	{CommandStorm, []State{Idle, Climbing, Flying, Holding, Returning, Done, Stopped}},
	{BrokerRestart, []State{Idle, Climbing, Flying, Holding, Returning, Done, Stopped}},
	{PilotPosition, []State{Climbing, Engaging, Flying, Holding, Returning, Landing, Done, Stopped}},
	{PilotDisarm, []State{Climbing, Engaging, Flying, Holding, Returning, Landing, Done, Stopped}},
	{PilotHold, []State{Climbing, Flying, Holding, Returning}},
	{Reboot, []State{Idle, Climbing, Flying, Holding, Returning, Landing, Stopped}},
	{BatteryAbsent, []State{Climbing, Flying, Holding, Returning}},
	{BatterySwap, []State{Climbing, Flying, Holding, Returning}},
	{BatteryHandover, []State{Climbing, Flying, Holding, Returning}},
	{BatteryOutlier, []State{Climbing, Flying, Holding, Returning}},
	{SecondBattery, []State{Idle, Climbing, Flying, Holding, Returning}},
	{ReportLoss, []State{Flying, Holding}},
	{ForeignReports, []State{Climbing, Flying, Holding}},
	{ForgedResult, []State{Flying, Holding}},
	{HeartbeatGap, []State{Climbing, Engaging, Flying, Holding, Returning, Landing}},
	{HeartbeatLoss, []State{Climbing, Flying, Holding, Returning}},
	{OutOfOrder, []State{Climbing, Flying, Holding, Returning, Landing}},
	{ProcessStall, []State{Climbing, Flying, Holding, Returning, Landing}},
	{SecondLeader, []State{Idle, Climbing, Flying, Holding, Returning, Stopped}},
	{ForgedStatus, []State{Idle, Climbing, Flying, Holding, Returning, Stopped}},
	{ForgedBeacon, []State{Idle, Climbing, Flying, Holding, Returning, Stopped}},
	{ForgedAtRestart, []State{Climbing, Flying, Holding, Returning, Stopped}},
	{CrewRadioHold, []State{Idle, Climbing, Flying, Holding, Returning, Done, Stopped}},
	{CrewRadioReturn, []State{Climbing, Flying, Holding}},
	{BrokerGoneHold, []State{Flying}},
	{BrokerGoneReturn, []State{Flying}},
	{HeartbeatSilence, []State{Flying, Holding, Returning}},
	{ArmingDenied, []State{Idle}},
	{ArmingRefused, []State{Idle}},
	{UnsafeFailsafe, []State{Idle}},
	{LowBattery, []State{Flying, Holding}},
	{DiskStall, []State{Flying}},
	{PowerCut, []State{Idle, Flying, Holding, Returning, Stopped}},
	{DiskRefuses, []State{Flying}},
	{KillInGap, []State{Climbing, Engaging, Landing}},
}

// copterFaultTable has those of an ArduCopter alone. They are no part of the other runs' cells, so that what
// was drawn of those before stays as it is.
var copterFaultTable = []faultStates{
	{StationSilence, []State{Climbing, Flying, Holding, Landing}},
	{PilotReturn, []State{Climbing, Flying, Holding, Stopped}},
}

// faultStates are the states in which a kind of fault can begin.
type faultStates struct {
	kind   FaultKind
	states []State
}

// coverageCell is a kind of fault in a state.
type coverageCell struct {
	Kind  FaultKind
	State State
}

// cells are the possible ones of a run: the disk of a leader's process does not fail.
func (c *Config) cells() []coverageCell {
	all := coverageCells()
	if c.Kind == ArduPilot || c.Kind == Mixed {
		all = append(all, copterFaults...)
	}
	return slices.DeleteFunc(all, func(x coverageCell) bool {
		if c.Kind == Packs && !x.isOfPacks() {
			return true
		}
		return c.Processes && slices.Contains([]FaultKind{DiskStall, DiskRefuses, PowerCut}, x.Kind)
	})
}

// coverageCells returns the possible ones, in the order of kinds and states.
func coverageCells() []coverageCell { return cellsOf(faultTable) }

func cellsOf(table []faultStates) (all []coverageCell) {
	for _, f := range table {
		for _, s := range f.states {
			all = append(all, coverageCell{f.kind, s})
		}
	}
	return all
}
