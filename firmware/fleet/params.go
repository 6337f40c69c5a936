package fleet

import (
	"cmp"
	"fmt"
	"math"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
)

// Parameters are an autopilot's parameters that the leader reads before it arms.
type Parameters struct {
	OffboardLossS      float64 // COM_OF_LOSS_T: without setpoints for so long, OFFBOARD is lost
	OffboardLossAction int     // COM_OBL_RC_ACT: the failsafe's action then
	SpeedMaxMPS        float64 // MPC_XY_VEL_MAX
	LowBatteryAction   int     // COM_LOW_BAT_ACT: the autopilot's action at low battery
	GainPerS           float64 // MPC_XY_P, of the position loop
	CapacityMAh        float64 // BAT1_CAPACITY; 0: not read, below: not configured
	Cells              float64 // BAT1_N_CELLS, in series; 0: not configured
	CellFullV          float64 // BAT1_V_CHARGED
	CellEmptyV         float64 // BAT1_V_EMPTY
	DescentMPS         float64 // MPC_Z_V_AUTO_DN: of Land and Return
	LandMPS            float64 // MPC_LAND_SPEED: of the last metres
	LandSlowBelowM     float64 // MPC_LAND_ALT1: the height below which LandMPS applies
	ClimbMPS           float64 // MPC_Z_V_AUTO_UP
	DataLinkLossAction int     // NAV_DLL_ACT: the action when no ground station is received
	dataLinkRead       bool    // DataLinkLossAction was read
	readMask           uint16  // one bit a parameter
	optionalRequests   int     // of missing ones
}

// parameterTable has the parameters that are requested. Without the first
// requiredParameters no aircraft takes off; for the others PX4's defaults are assumed.
// The table of docs/hardware.md is this one.
var parameterTable = [...]struct {
	name, want, what string
	set              func(*Parameters, float64)
}{
	{"COM_OF_LOSS_T", "0.3 to 10, best 1 s", "OFFBOARD is lost after so long without setpoints", func(p *Parameters, x float64) { p.OffboardLossS = x }},
	{"COM_OBL_RC_ACT", "5 (Hold), 3 (Return) or 4 (Land)", "what the autopilot then does", func(p *Parameters, x float64) { p.OffboardLossAction = int(x) }},
	{"MPC_XY_VEL_MAX", "above 0, m/s", "the speed limit, unless the configuration's is lower", func(p *Parameters, x float64) { p.SpeedMaxMPS = x }},
	{"COM_LOW_BAT_ACT", "2 (Land) or 3 (Return); not 0 where COM_OBL_RC_ACT is 5", "what it does at low battery", func(p *Parameters, x float64) { p.LowBatteryAction = int(x) }},
	{"MPC_XY_P", "up to 2, else 0.95 is assumed", "gain of its position loop", func(p *Parameters, x float64) { p.GainPerS = x }},
	{"BAT1_CAPACITY", "the pack's, mAh", "how much a full pack holds", func(p *Parameters, x float64) { p.CapacityMAh = cmp.Or(x, -1) }},
	{"BAT1_N_CELLS", "the pack's", "cells in series", func(p *Parameters, x float64) { p.Cells = x }},
	{"BAT1_V_CHARGED", "the pack's, V", "of a full cell", func(p *Parameters, x float64) { p.CellFullV = x }},
	{"BAT1_V_EMPTY", "the pack's, V", "of an empty cell", func(p *Parameters, x float64) { p.CellEmptyV = x }},
	{"MPC_Z_V_AUTO_DN", "any, m/s", "descent of Land and Return", func(p *Parameters, x float64) { p.DescentMPS = x }},
	{"MPC_LAND_SPEED", "any, m/s", "of the last metres", func(p *Parameters, x float64) { p.LandMPS = x }},
	{"MPC_LAND_ALT1", "any, m", "the height of these", func(p *Parameters, x float64) { p.LandSlowBelowM = x }},
	{"MPC_Z_V_AUTO_UP", "any, m/s", "climb", func(p *Parameters, x float64) { p.ClimbMPS = x }},
	{"NAV_DLL_ACT", "0, or a ground station that it receives besides", "what it does without one", func(p *Parameters, x float64) { p.DataLinkLossAction, p.dataLinkRead = int(x), true }},
}

const requiredParameters = 4

// Values of COM_OBL_RC_ACT.
const (
	lossActionReturn = 3
	lossActionLand   = 4
	lossActionHold   = 5
)

// Complete reports whether all required parameters were read.
func (p *Parameters) Complete() bool {
	return p.readMask&(1<<requiredParameters-1) == 1<<requiredParameters-1
}

// optionalRequestsMax is how often optional parameters are requested: not every
// autopilot has them.
const optionalRequestsMax = 5

func (p *Parameters) missing() (names []string) {
	if p.Complete() && p.optionalRequests >= optionalRequestsMax {
		return nil
	}
	for i := range parameterTable {
		if p.readMask>>i&1 == 0 {
			names = append(names, parameterTable[i].name)
		}
	}
	return names
}

func (p *Parameters) gainPerS() float64 {
	if p.GainPerS > 0 && p.GainPerS <= 2 {
		return p.GainPerS
	}
	return 0.95 // PX4's default
}

// ClimbS is how long a take-off to a height takes, spooling up and slowing down
// included: 40 s were measured to 100 m on PX4's defaults.
func (p *Parameters) ClimbS(heightM float64) float64 {
	const rampS = 7
	return math.Max(heightM, 0)/positiveOr(p.ClimbMPS, 3) + rampS
}

// DescentS is how long Land takes from a height: at the speed of descent, and the last
// metres at that of landing. PX4 slows down between two heights; assuming the upper
// one is on the safe side, and closer to measurements.
func (p *Parameters) DescentS(heightM float64) float64 {
	down, land, slowM := positiveOr(p.DescentMPS, 1.5), positiveOr(p.LandMPS, 0.7), positiveOr(p.LandSlowBelowM, 10)
	heightM = math.Max(heightM, 0)
	return math.Max(heightM-slowM, 0)/down + math.Min(heightM, slowM)/math.Min(land, down)
}

// packJ is what a full pack holds, by its charge, its cells in series, and the mean
// voltage of one; 0: not known. Where the cells are not configured, they are the fewest
// that can have the pack's voltage.
func (p *Parameters) packJ(voltageV float64) float64 {
	const maxCellV, maxCells, maxMAh = 4.4, 20, 1e5
	cells := math.Round(p.Cells)
	if !(cells >= 1 && cells <= maxCells) {
		cells = math.Ceil(voltageV / maxCellV)
	}
	if !(cells >= 1 && cells <= maxCells && p.CapacityMAh > 0 && p.CapacityMAh <= maxMAh) {
		return 0
	}
	fullV, emptyV := positiveOr(p.CellFullV, 4.05), positiveOr(p.CellEmptyV, 3.6)
	return math.Round(3.6 * p.CapacityMAh * cells * math.Min((fullV+emptyV)/2, maxCellV))
}

func positiveOr(x, px4Default float64) float64 {
	if x > 0 {
		return x
	}
	return px4Default
}

// ignoresGCSLoss is whether an autopilot is known to do nothing when no ground station
// is received.
func (p *Parameters) ignoresGCSLoss() bool {
	return p.dataLinkRead && p.DataLinkLossAction == 0
}

func (p *Parameters) handleParamValue(m *common.MessageParamValue) {
	x := parameterValue(m)
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return
	}
	for i := range parameterTable {
		if m.ParamId == parameterTable[i].name {
			p.readMask |= 1 << i
			parameterTable[i].set(p, x)
		}
	}
}

// failsafes are the parameters that say what an autopilot does without its leader.
func (p *Parameters) failsafes() [4]float64 {
	return [4]float64{p.OffboardLossS, float64(p.OffboardLossAction), float64(p.LowBatteryAction), float64(p.DataLinkLossAction)}
}

// handleParamValue reads a parameter. A failsafe that changes after the launch is an alarm:
// the checks before it looked at another one.
func (a *aircraft) handleParamValue(f *Fleet, m *common.MessageParamValue) {
	was := a.params
	a.params.handleParamValue(m)
	p := &a.params
	changed := was.Complete() && was.dataLinkRead == p.dataLinkRead && was.failsafes() != p.failsafes()
	unsafe := p.UnsafeReason()
	if a.phase == PhaseIdle || !changed && (was.Complete() || !p.Complete() || unsafe == "") {
		return
	}
	a.failsafeAlarm = ""
	if p.failsafes() != a.launchFailsafes || unsafe != "" {
		a.failsafeAlarm = fmt.Sprintf("%s changed in flight to %v", m.ParamId, parameterValue(m))
	}
	if unsafe != "" {
		a.failsafeAlarm += ": " + unsafe
	}
	f.Log.Error("failsafe parameter", "aircraft", a.number, "reason", cmp.Or(a.failsafeAlarm, m.ParamId+" is as it was at the launch"))
}

// Warnings returns which parameters are doubtful, and why.
func (p *Parameters) Warnings(capacityJ float64) (reasons []string) {
	const minCellV, maxCells = 3.3, 14
	if p.CapacityMAh > 0 && p.CapacityMAh*3.6*minCellV*maxCells < capacityJ {
		reasons = append(reasons, fmt.Sprintf("BAT1_CAPACITY is %v mAh, which no pack of up to %d cells makes %v J: remaining charge will mislead", p.CapacityMAh, maxCells, capacityJ))
	}
	return reasons
}

// parameterValue undoes PX4's encoding: an integer's bits in the float field.
func parameterValue(m *common.MessageParamValue) float64 {
	switch m.ParamType {
	case common.MAV_PARAM_TYPE_INT8, common.MAV_PARAM_TYPE_INT16, common.MAV_PARAM_TYPE_INT32,
		common.MAV_PARAM_TYPE_UINT8, common.MAV_PARAM_TYPE_UINT16, common.MAV_PARAM_TYPE_UINT32:
		return float64(int32(math.Float32bits(m.ParamValue)))
	}
	return float64(m.ParamValue)
}

// UnsafeReason returns why an autopilot's failsafe is unsafe for an aircraft whose
// leader may fail at any time, or is empty.
func (p *Parameters) UnsafeReason() string {
	switch {
	case !p.Complete():
		return fmt.Sprintf("parameters %v were not read yet", p.missing())
	case p.OffboardLossAction != lossActionReturn && p.OffboardLossAction != lossActionLand && p.OffboardLossAction != lossActionHold:
		return fmt.Sprintf("COM_OBL_RC_ACT is %d, want 5 (Hold), 3 (Return) or 4 (Land)", p.OffboardLossAction)
	case p.OffboardLossAction == lossActionHold && p.LowBatteryAction == 0:
		return "COM_LOW_BAT_ACT is 0 and COM_OBL_RC_ACT is 5 (Hold): without its leader an aircraft hovers until its battery is empty; want COM_LOW_BAT_ACT 2 (Land) or 3 (Return), or COM_OBL_RC_ACT 3 (Return)"
	case !(p.OffboardLossS >= 0.3 && p.OffboardLossS <= 10):
		return fmt.Sprintf("COM_OF_LOSS_T is %v s, want 0.3 to 10", p.OffboardLossS)
	case !(p.SpeedMaxMPS > 0):
		return fmt.Sprintf("MPC_XY_VEL_MAX is %v m/s, want a positive number", p.SpeedMaxMPS)
	}
	return ""
}
