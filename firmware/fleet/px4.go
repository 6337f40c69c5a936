package fleet

import (
	"cmp"
	"fmt"
	"math"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
)

// PX4's modes: main mode << 16 | sub mode << 24.
const (
	ModePosition Mode = 3 << 16
	ModeTakeoff  Mode = 4<<16 | 2<<24
	ModeHold     Mode = 4<<16 | 3<<24
	ModeReturn   Mode = 4<<16 | 5<<24
	ModeLand     Mode = 4<<16 | 6<<24
	ModeOffboard Mode = 6 << 16
)

// px4 is PX4 1.13 and later. What it does was measured on 1.16, but where it says otherwise.
//
// A take-off is a mode, AUTO.TAKEOFF, which ends in Hold. OFFBOARD is commanded once
// setpoints are sent; without them for COM_OF_LOSS_T it ends in what COM_OBL_RC_ACT says.
// That failsafe's Hold, reported as MAV_STATE_CRITICAL, ends by itself once setpoints come
// again. Any other failsafe is abandoned when another mode is commanded, so none is.
type px4 struct{}

var px4Traits = traits{
	name: "px4", parameters: px4Table,
	// After a landing PX4 returns to the mode it flew in, and does not arm in OFFBOARD without setpoints.
	modes: map[Role]Mode{RoleArmable: ModeHold, RoleTakeoff: ModeTakeoff, RoleCommanded: ModeOffboard, RoleHold: ModeHold,
		RoleReturn: ModeReturn, RoleLand: ModeLand},
	// PX4 relays a battery of another component with that id
	capacityParameter: "BAT1_CAPACITY", gainPerS: 0.95, relayedBatteryID: 255,
	otherBatteries: "of one that feeds no motor set BAT2_SOURCE (BAT3_SOURCE) -1; PX4 meters no sum of two",
	endsHoldItself: true, prestreams: true, climbsAgain: true,
	failsafes: []failsafe{
		{why: LeftByStream, parameter: "COM_OBL_RC_ACT", value: lossAction, does: px4Loss, after: "COM_OF_LOSS_T", afterS: lossS,
			in: []Role{RoleCommanded}},
		{why: LeftByLink, parameter: "COM_OBL_RC_ACT", value: lossAction, does: px4Loss, after: "COM_OF_LOSS_T", afterS: lossS,
			in: []Role{RoleCommanded}},
		{why: LeftByBattery, parameter: "COM_LOW_BAT_ACT", value: func(p *Parameters) int { return p.LowBatteryAction },
			does: map[int]Alone{1: {Role: RoleReturn}, 2: {Role: RoleLand}, 3: {Role: RoleReturn}}, in: ledRoles},
		{why: LeftByFence, parameter: "GF_ACTION", value: func(p *Parameters) int { return p.FenceAction },
			does: map[int]Alone{2: {Role: RoleHold}, 3: {Role: RoleReturn}, 5: {Role: RoleLand}}, in: ledRoles},
	},
	// PX4 slows down between two heights; assuming the upper one is on the safe side, and closer to measurements. Its simulation
	// descends with 1.25 m/s of 1.5 and 2.49 of 3, and lands with 0.55 to 0.66 of 0.7: the first way home must be enough too. One
	// that takes less is measured, and believed from then on (package account).
	descentShare: 0.83, landShare: 0.85, landMPS: 0.7,
	climbMPS: 3, returnMPS: func(*Parameters) float64 { return 5 },
	returnsAt: func(upM float64) string { return fmt.Sprintf("RTL_RETURN_ALT %g", upM) },
}

// px4Loss are the values of COM_OBL_RC_ACT that are safe.
var px4Loss = map[int]Alone{3: {Role: RoleReturn}, 4: {Role: RoleLand}, 5: {Role: RoleHold}}

func lossAction(p *Parameters) int { return p.OffboardLossAction }
func lossS(p *Parameters) float64  { return p.OffboardLossS }

func (px4) traits() *traits { return &px4Traits }

var px4ModeNames = map[Mode]string{
	ModePosition: "POSCTL", ModeTakeoff: "AUTO.TAKEOFF", ModeHold: "AUTO.LOITER", ModeReturn: "AUTO.RTL", ModeLand: "AUTO.LAND",
	ModeOffboard: "OFFBOARD",
}

var px4Roles = map[Mode]Role{
	ModeTakeoff: RoleTakeoff, ModeOffboard: RoleCommanded, ModeHold: RoleHold, ModeReturn: RoleReturn, ModeLand: RoleLand,
}

func (px4) modeName(m Mode) string {
	return cmp.Or(px4ModeNames[m], fmt.Sprintf("%d.%d", m>>16&0xff, m>>24))
}

func (px4) role(_ *aircraft, m Mode) Role { return px4Roles[m] }

func (px4) setMode(m Mode) *common.MessageCommandLong {
	return &common.MessageCommandLong{
		Command: common.MAV_CMD_DO_SET_MODE,
		Param1:  float32(common.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED),
		Param2:  float32(m >> 16 & 0xff), Param3: float32(m >> 24),
	}
}

func (px4) commandedMode(m *common.MessageCommandLong) Mode {
	if m.Command == common.MAV_CMD_NAV_TAKEOFF {
		return ModeTakeoff
	}
	return Mode(uint32(m.Param2)<<16 | uint32(m.Param3)<<24)
}

// takeOffHeight is above mean sea level.
func (px4) takeOffHeight(f *Fleet, a *aircraft) float64 {
	return float64(f.Origin.aboveSea(a.reportedM(f.Limits.AltitudeM)))
}

func (px4) takeOffOver(*aircraft) bool { return true }

// modeFollows: it ends its take-off in Hold at H, and returns to OFFBOARD by itself once
// setpoints come again.
func (px4) modeFollows(f *Fleet, a *aircraft, from Mode, fromS float64, wasFailsafe bool) bool {
	if a.mode == ModeOffboard && a.setpointSentS > 0 && a.setpointSentS > fromS-modeReportDelayS {
		return true
	}
	return a.mode == ModeHold && from == ModeTakeoff && a.upM.Off(f.Limits.AltitudeM) < climbToleranceM && (!a.failsafe || wasFailsafe)
}

// heldForSetpoints: MAV_STATE_CRITICAL is reported with the mode.
func (px4) heldForSetpoints(a *aircraft, from Mode) bool {
	return from == ModeOffboard && a.mode == ModeHold && a.failsafe
}

func (px4) rejoins(_ *Fleet, a *aircraft, _ float64, high bool) (ours, known bool) {
	switch {
	case a.mode == ModeOffboard: // without setpoints since the previous process
	case a.mode == ModeHold && high && a.failsafe && a.restoredEngaged: // likewise
	case a.mode == ModeHold && high && !a.failsafe && !a.restoredEngaged: // where its take-off ended
	default:
		return false, true
	}
	return true, true
}

// px4Parameters are those that have a meaning for PX4 alone.
type px4Parameters struct {
	OffboardLossS      float64 // COM_OF_LOSS_T: without setpoints for so long, OFFBOARD is lost
	OffboardLossAction int     // COM_OBL_RC_ACT: the failsafe's action then
	LowBatteryAction   int     // COM_LOW_BAT_ACT: the autopilot's action at low battery
	Cells              float64 // BAT1_N_CELLS, in series; 0: not configured
	CellFullV          float64 // BAT1_V_CHARGED
	CellEmptyV         float64 // BAT1_V_EMPTY
	CriticalCharge     float64 // BAT_CRIT_THR, 0 to 1: below it acts by LowBatteryAction
	DataLinkLossAction int     // NAV_DLL_ACT: the action when no ground station is received
	dataLinkRead       bool    // DataLinkLossAction was read
}

// lowBatteryActions are the values of COM_LOW_BAT_ACT that end on the ground.
const lowBatteryActions = "1 or 3 (Return) or 2 (Land)"

// px4Table has the parameters that are requested. Without those that are
// required no aircraft takes off; for the others PX4's defaults are assumed.
var px4Table = []parameter{
	{name: "COM_OF_LOSS_T", want: "0.3 to 10, best 1 s", what: "OFFBOARD is lost after so long without setpoints", required: true,
		set: func(p *Parameters, x float64) { p.OffboardLossS = x }},
	{name: "COM_OBL_RC_ACT", want: "5 (Hold), 3 (Return) or 4 (Land)", what: "what the autopilot then does", required: true,
		set: func(p *Parameters, x float64) { p.OffboardLossAction = int(x) }},
	{name: "MPC_XY_VEL_MAX", want: "above 0, m/s", what: "the speed limit, unless the configuration's is lower", required: true,
		set: func(p *Parameters, x float64) { p.SpeedMaxMPS = x }},
	{name: "COM_LOW_BAT_ACT", want: lowBatteryActions + "; any where COM_OBL_RC_ACT is 3 or 4",
		what: "what it does at low battery", required: true,
		set: func(p *Parameters, x float64) { p.LowBatteryAction = int(x) }},
	{name: "MPC_XY_P", want: "up to 2, else 0.95 is assumed", what: "gain of its position loop",
		set: func(p *Parameters, x float64) { p.GainPerS = x }},
	{name: "BAT1_CAPACITY", want: "the pack's, mAh", what: "how much a full pack holds",
		set: func(p *Parameters, x float64) { p.CapacityMAh = cmp.Or(x, -1) }},
	{name: "BAT1_N_CELLS", want: "the pack's", what: "cells in series", set: func(p *Parameters, x float64) { p.Cells = x }},
	{name: "BAT1_V_CHARGED", want: "the pack's, V", what: "of a full cell", set: func(p *Parameters, x float64) { p.CellFullV = x }},
	{name: "BAT1_V_EMPTY", want: "the pack's, V", what: "of an empty cell", set: func(p *Parameters, x float64) { p.CellEmptyV = x }},
	{name: "MPC_Z_V_AUTO_DN", want: "any, m/s", what: "descent of Land and Return",
		set: func(p *Parameters, x float64) { p.DescentMPS = x }},
	{name: "MPC_LAND_SPEED", want: "any, m/s", what: "of the last metres", set: func(p *Parameters, x float64) { p.LandMPS = x }},
	{name: "MPC_LAND_ALT1", want: "any, m", what: "the height of these", set: func(p *Parameters, x float64) { p.LandSlowBelowM = x }},
	{name: "MPC_Z_V_AUTO_UP", want: "any, m/s", what: "climb", set: func(p *Parameters, x float64) { p.ClimbMPS = x }},
	{name: "NAV_DLL_ACT", want: "0, or a ground station that it receives besides", what: "what it does without one",
		set: func(p *Parameters, x float64) { p.DataLinkLossAction, p.dataLinkRead = int(x), true }},
	{name: "RTL_RETURN_ALT", want: "as `leader check` says, m", what: "how high above home it returns, if it is not higher",
		set: func(p *Parameters, x float64) { p.ReturnUpM = x }},
	{name: "MPC_XY_CRUISE", want: "any, m/s", what: "how fast it returns", set: func(p *Parameters, x float64) { p.ReturnMPS = x }},
	{name: "BAT_CRIT_THR", want: "any", what: "the charge that is low", set: func(p *Parameters, x float64) { p.CriticalCharge = x }},
	{name: "GF_ACTION", want: "2 (Hold) or 3 (Return)", what: "what it does outside its own fence",
		set: func(p *Parameters, x float64) { p.FenceAction = int(x) }},
}

// value is an integer's bits in the float field.
func (px4) value(m *common.MessageParamValue) float64 {
	switch m.ParamType {
	case common.MAV_PARAM_TYPE_INT8, common.MAV_PARAM_TYPE_INT16, common.MAV_PARAM_TYPE_INT32,
		common.MAV_PARAM_TYPE_UINT8, common.MAV_PARAM_TYPE_UINT16, common.MAV_PARAM_TYPE_UINT32:
		return float64(int32(math.Float32bits(m.ParamValue)))
	}
	return decimal(m.ParamValue)
}

func (px4) unsafeReasons(p *Parameters) []string {
	lost, low := p.OffboardLossAction, p.LowBatteryAction
	does, safe := px4Loss[lost]
	staysUp := does.Role != RoleReturn && does.Role != RoleLand
	return p.failed([]check{
		{!safe, []string{"COM_OBL_RC_ACT"},
			fmt.Sprintf("COM_OBL_RC_ACT is %d, want 5 (Hold), 3 (Return) or 4 (Land)", lost)},
		{staysUp && p.Alone(LeftByBattery, RoleHold).Role == RoleHold, []string{"COM_OBL_RC_ACT", "COM_LOW_BAT_ACT"},
			fmt.Sprintf("COM_LOW_BAT_ACT is %d, want %s, or COM_OBL_RC_ACT 3 (Return) or 4 (Land): an aircraft that "+
				"holds without its leader hovers until its battery is empty", low, lowBatteryActions)},
		{!(p.OffboardLossS >= 0.3 && p.OffboardLossS <= 10), []string{"COM_OF_LOSS_T"},
			fmt.Sprintf("COM_OF_LOSS_T is %v s, want 0.3 to 10", p.OffboardLossS)},
		{!(p.SpeedMaxMPS > 0), []string{"MPC_XY_VEL_MAX"},
			fmt.Sprintf("MPC_XY_VEL_MAX is %v m/s, want a positive number", p.SpeedMaxMPS)},
	})
}

func (px4) warnings(p *Parameters, capacityJ float64) (reasons []string) {
	const minCellV, maxCells = 3.3, 14
	if p.CapacityMAh > 0 && p.CapacityMAh*3.6*minCellV*maxCells < capacityJ {
		reasons = append(reasons, fmt.Sprintf("BAT1_CAPACITY is %v mAh, which no pack of up to %d cells makes %v J: remaining charge "+
			"will mislead", p.CapacityMAh, maxCells, capacityJ))
	}
	if p.DataLinkLossAction != 0 {
		reasons = append(reasons, fmt.Sprintf("NAV_DLL_ACT is %d: it acts when it receives no ground station, and the leader is none; "+
			"want 0, or a ground station besides", p.DataLinkLossAction))
	}
	return reasons
}

func (px4) failsafes(p *Parameters) [8]float64 {
	return [8]float64{p.OffboardLossS, float64(p.OffboardLossAction), float64(p.LowBatteryAction), float64(p.DataLinkLossAction)}
}

func (px4) summary(p *Parameters) string {
	return fmt.Sprintf("COM_OF_LOSS_T %g s, COM_OBL_RC_ACT %d, MPC_XY_VEL_MAX %g m/s", p.OffboardLossS, p.OffboardLossAction, p.SpeedMaxMPS)
}

// ignoresGCSLoss: PX4 sends STATUSTEXT, with the reason why it does not arm, only on links
// with a ground station's HEARTBEAT, but then counts the ground station as connected. Where
// its loss has an effect (NAV_DLL_ACT), the leader's HEARTBEAT would hide the loss.
func (px4) ignoresGCSLoss(p *Parameters) bool { return p.dataLinkRead && p.DataLinkLossAction == 0 }

// motion: 0.54 to 0.70 s were measured, at which 8 m/s last for 5 m.
func (px4) motion(*Parameters) (lagS, stopsInM float64) { return 0.65, 5 }

// fliesOnM: it brakes by MPC_ACC_HOR 3 m/s2 and MPC_JERK_AUTO 4 m/s3, and stays where it stops: 23 m on from 9.5 m/s,
// 21 m from 8.9; 34 m after a last setpoint at 9.2 m/s, where its Hold came 1.7 s later.
func (px4) fliesOnM(_ *Parameters, speedMPS float64, lost bool) float64 {
	const lateS, holdsAfterS = 0.84, 1.7
	onM := speedMPS * (lateS + speedMPS/6)
	if lost {
		onM += speedMPS * holdsAfterS
	}
	return onM
}
