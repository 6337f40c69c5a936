package fleet

import (
	"cmp"
	"fmt"
	"math"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/firmware/height"
)

// ArduCopter's modes that the leader commands, or has to know.
const (
	copterGuided      Mode = 4
	copterRTL         Mode = 6
	copterLand        Mode = 9
	copterBrake       Mode = 17
	copterGuidedNoGPS Mode = 20
	copterSmartRTL    Mode = 21
	copterAutoRTL     Mode = 27
)

// ardupilot is ArduCopter 4.5 and later. What it does was measured on 4.7-dev.
//
// It is armed in GUIDED, takes off in GUIDED, and then flies in it by setpoints: nothing but
// the landed state tells these apart. A setpoint ends a take-off, at whatever height. Without
// setpoints it stays in GUIDED, hovering; only the loss of the leader's HEARTBEATs sends it
// home. It abandons any failsafe when GUIDED is commanded, and is silent about some, as the
// fence's. So GUIDED is commanded over no mode that the leader did not leave it in.
type ardupilot struct{}

var ardupilotTraits = traits{
	name: "ardupilot", parameters: ardupilotTable,
	modes: map[Role]Mode{RoleArmable: copterGuided, RoleTakeoff: copterGuided, RoleCommanded: copterGuided, RoleHold: copterBrake,
		RoleReturn: copterRTL, RoleLand: copterLand},
	capacityParameter: "BATT_CAPACITY", gainPerS: 1, slowsBy: 0.5, relayedBatteryID: -1,
	otherBatteries: "of one that feeds no motor set BATT2_MONITOR (BATT3_MONITOR, ...) 0; of packs that all do, have id 0 be the sum: " +
		"BATT_MONITOR 10, with each pack on a monitor of its own",
	takeoffRetryS: 4, preArmByMode: true, heartbeatsCount: true, restCellV: [2]float64{standardEmptyV, standardFullV},
	retraces: true, failsafes: []failsafe{
		{why: LeftByStream, value: func(*Parameters) int { return 0 }, does: map[int]Alone{0: {Role: RoleHold}},
			after: "GUID_TIMEOUT", afterS: func(p *Parameters) float64 { return positiveOr(p.GuidedTimeoutS, 3) },
			in: []Role{RoleCommanded}},
		// FS_GCS_ENABLE is of use once a HEARTBEAT was seen, as it was before arming.
		{why: LeftByLink, parameter: "FS_GCS_ENABLE", value: func(p *Parameters) int { return p.GCSFailsafe },
			does: map[int]Alone{1: {Role: RoleReturn}, 3: {Role: RoleReturn, Retraces: true}, 4: {Role: RoleReturn, Retraces: true},
				5: {Role: RoleLand}, 7: {Role: RoleLand}},
			after: "FS_GCS_TIMEOUT", afterS: func(p *Parameters) float64 { return positiveOr(p.GCSTimeoutS, 5) }, in: ledRoles},
		{why: LeftByBattery, parameter: "BATT_FS_LOW_ACT", value: func(p *Parameters) int { return p.LowAction }, does: copterBattery,
			in: ledRoles},
		{why: LeftByBattery, parameter: "BATT_FS_CRT_ACT", value: func(p *Parameters) int { return p.CriticalAction },
			does: copterBattery, in: ledRoles},
		{why: LeftByFence, parameter: "FENCE_ACTION", value: func(p *Parameters) int { return p.FenceAction * min(p.FenceEnabled, 1) },
			does: map[int]Alone{1: {Role: RoleReturn}, 2: {Role: RoleLand}, 3: {Role: RoleReturn, Retraces: true}, 4: {Role: RoleLand},
				5: {Role: RoleReturn, Retraces: true}}, in: ledRoles},
	},
	descentShare: 1, landShare: 1, landMPS: 0.5, climbMPS: 2.5, waitsOverHomeS: 10,
	returnMPS: func(p *Parameters) float64 { return positiveOr(p.SpeedMaxMPS, 10) },
	returnsAt: func(upM float64) string {
		return fmt.Sprintf("RTL_ALT %g (RTL_ALT_M %g), RTL_CONE_SLOPE 0", 100*upM, upM)
	},
}

// copterBattery are the actions of BATT_FS_LOW_ACT and BATT_FS_CRT_ACT: Land, RTL, SmartRTL or RTL, SmartRTL or Land, DO_LAND_START
// or RTL, Brake or Land.
var copterBattery = map[int]Alone{1: {Role: RoleLand}, 2: {Role: RoleReturn}, 3: {Role: RoleReturn, Retraces: true},
	4: {Role: RoleReturn, Retraces: true}, 6: {Role: RoleReturn}, 7: {Role: RoleLand}}

func (ardupilot) traits() *traits { return &ardupilotTraits }

var copterModeNames = map[Mode]string{
	0: "STABILIZE", 1: "ACRO", 2: "ALT_HOLD", 3: "AUTO", copterGuided: "GUIDED", 5: "LOITER", copterRTL: "RTL", 7: "CIRCLE",
	copterLand: "LAND", 11: "DRIFT", 13: "SPORT", 14: "FLIP",
	15: "AUTOTUNE", 16: "POSHOLD", copterBrake: "BRAKE", 18: "THROW", 19: "AVOID_ADSB", copterGuidedNoGPS: "GUIDED_NOGPS",
	copterSmartRTL: "SMART_RTL", 22: "FLOWHOLD", 23: "FOLLOW",
	24: "ZIGZAG", 25: "SYSTEMID", 26: "AUTOROTATE", copterAutoRTL: "AUTO_RTL", 28: "TURTLE",
}

func (ardupilot) modeName(m Mode) string {
	return cmp.Or(copterModeNames[m], fmt.Sprintf("mode %d", m))
}

// role has no other hold than BRAKE: LOITER and POSHOLD obey the throttle, and sink where it is low.
func (ardupilot) role(a *aircraft, m Mode) Role {
	switch m {
	case copterGuided:
		switch {
		case !a.armed:
			return RoleArmable
		case a.climbsInGuided():
			return RoleTakeoff
		}
		return RoleCommanded
	case copterBrake:
		return RoleHold
	case copterRTL, copterSmartRTL, copterAutoRTL:
		return RoleReturn
	case copterLand:
		return RoleLand
	}
	return RoleOther
}

// climbsInGuided is whether setpoints would end its take-off, or it has not begun: until it
// reports that it flies. An aircraft that the leader flies already is never in one again.
func (a *aircraft) climbsInGuided() bool {
	switch a.phase {
	case PhaseEngaging, PhaseFlying, PhaseLanding, PhaseStopping:
		return false
	}
	unknown := a.landed == nil && (a.phase == PhaseClimbing || a.phase == PhaseRejoining && !a.restoredEngaged)
	return unknown || a.landed != nil && *a.landed || a.reportsTakeoff
}

func (ardupilot) setMode(m Mode) *common.MessageCommandLong {
	return &common.MessageCommandLong{Command: common.MAV_CMD_DO_SET_MODE, Param1: float32(common.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED),
		Param2: float32(m)}
}

func (ardupilot) commandedMode(m *common.MessageCommandLong) Mode {
	if m.Command == common.MAV_CMD_NAV_TAKEOFF {
		return copterGuided
	}
	return Mode(m.Param2)
}

// takeOffHeight is above its home, where it arms, whatever the message says.
func (ardupilot) takeOffHeight(f *Fleet, a *aircraft) float64 {
	return float64(a.reportedM(f.Limits.AltitudeM).Over(a.homeUpM))
}

// takeOffOver: where the landed state does not come, its motion shows the end.
func (ardupilot) takeOffOver(a *aircraft) bool {
	return !a.climbsInGuided() || math.Abs(a.climbMPS) < stillMPS
}

func (ardupilot) modeFollows(*Fleet, *aircraft, Mode, float64, bool) bool { return false }

func (ardupilot) heldForSetpoints(*aircraft, Mode) bool { return false }

// rejoins: GUIDED is the leader's only where the leader can have left it. A pilot, or another
// station, may have taken over and commanded GUIDED since.
func (ardupilot) rejoins(_ *Fleet, a *aircraft, now float64, high bool) (ours, known bool) {
	if a.mode != copterGuided || a.role() != RoleCommanded {
		return false, true
	}
	if !a.restoredEngaged { // where its take-off ended
		return high && a.home != nil && a.overHome(), true
	}
	p := &a.params
	stopsS := 2 + positiveOr(p.GuidedTimeoutS, 3) // from the ledger's last position to the stream's end, and the velocity's
	reachM := positionErrorM + a.leftMPS*stopsS + copterStreamEndM
	if len(a.leftAt) == 0 || distanceToPath(a.position, a.leftAt) > reachM {
		return false, true
	}
	switch bootS := a.bootS(now); {
	case bootS == 0:
		return false, false
	case bootS-a.restoredBootS <= stopsS+copterStopsS:
		return true, true
	}
	hovers := a.velocity.Norm() < hoversMPS
	return hovers, !hovers || now-a.hoversSinceS >= copterHoversS
}

const fenceHeight = 1 // the bit of FENCE_TYPE

const (
	copterStreamEndM = 56.0 // how far it flies on once its setpoints end, at most
	copterStopsS     = 8.0  // and for how long
	copterHoversS    = 4.0  // and stays so for longer than one that turns back, at an acceleration of 1 m/s/s
)

// ardupilotParameters are those that have a meaning for ArduCopter alone.
type ardupilotParameters struct {
	GuidedTimeoutS  float64            // GUID_TIMEOUT: without setpoints for so long it stops
	GCSFailsafe     int                // FS_GCS_ENABLE: what it does without its ground station's HEARTBEATs
	GCSSystemID     int                // MAV_GCS_SYSID
	GCSSystemIDTo   int                // MAV_GCS_SYSID_HI; 0: that one alone
	GCSTimeoutS     float64            // FS_GCS_TIMEOUT; 0: not read
	LowAction       int                // BATT_FS_LOW_ACT
	CriticalAction  int                // BATT_FS_CRT_ACT
	LowV, CriticalV float64            // BATT_LOW_VOLT, BATT_CRT_VOLT; 0: no threshold
	LowMAh          float64            // BATT_LOW_MAH; 0: no threshold
	CriticalMAh     float64            // BATT_CRT_MAH
	Options         int                // MAV_OPTIONS
	AccelMPSS       float64            // WPNAV_ACCEL
	JerkMPSSS       float64            // PSC_JERK_XY
	LandHighMPS     float64            // LAND_SPEED_HIGH; 0: DescentMPS
	FenceEnabled    int                // FENCE_ENABLE
	FenceTypes      int                // FENCE_TYPE
	FenceHeightM    height.AboveGround // FENCE_ALT_MAX
	ConeSlope       float64            // RTL_CONE_SLOPE: it returns no higher than this times its way
	FailsafeOptions int                // FS_OPTIONS
}

// battMonitor is what an ArduCopter has no other BATT_ parameter without (AP_PARAM_FLAG_ENABLE).
const battMonitor = "BATT_MONITOR above 0 and a reboot"

// ardupilotTable: without those that are required no aircraft takes off; for the others
// ArduCopter's defaults are assumed.
var ardupilotTable = []parameter{
	{name: "GUID_TIMEOUT", want: "above 0, at most 1 s", what: "it stops after so long without setpoints", required: true,
		set: func(p *Parameters, x float64) { p.GuidedTimeoutS = x }},
	{name: "FS_GCS_ENABLE", want: "1, 3, 4, 5 or 7", what: "what it does without the leader's HEARTBEAT", required: true,
		set: func(p *Parameters, x float64) { p.GCSFailsafe = int(x) }},
	{name: "SYSID_MYGCS", renamed: "MAV_GCS_SYSID", want: "the leader's system id", what: "whose HEARTBEAT that is", required: true,
		set: func(p *Parameters, x float64) { p.GCSSystemID = int(x) }},
	{name: "BATT_FS_LOW_ACT", want: "1 (Land), 2, 3, 4 or 7 (Return, Land), or the same of BATT_FS_CRT_ACT",
		what: "what it does at low battery", required: true, needs: battMonitor,
		set: func(p *Parameters, x float64) { p.LowAction = int(x) }},
	{name: "BATT_FS_CRT_ACT", want: "as BATT_FS_LOW_ACT", what: "and at a critical one", required: true, needs: battMonitor,
		set: func(p *Parameters, x float64) { p.CriticalAction = int(x) }},
	{name: "BATT_LOW_VOLT", want: "the pack's, V, for its action", what: "what is low", required: true, needs: battMonitor,
		set: func(p *Parameters, x float64) { p.LowV = x }},
	{name: "BATT_CRT_VOLT", want: "the pack's, V, for its action", what: "what is critical", required: true, needs: battMonitor,
		set: func(p *Parameters, x float64) { p.CriticalV = x }},
	{name: "WPNAV_SPEED", renamed: "WP_SPD", rescaled: 100, want: "above 0, cm/s (`WP_SPD`: m/s)",
		what: "the speed limit, unless the configuration's is lower", required: true,
		set: func(p *Parameters, x float64) { p.SpeedMaxMPS = x / 100 }},
	{name: "SYSID_ENFORCE", renamed: "MAV_OPTIONS", want: "bit 0, set last, unless messages are signed",
		what: "it obeys the leader alone", required: true,
		set: func(p *Parameters, x float64) { p.Options = int(x) }},
	{name: "MAV_GCS_SYSID_HI", want: "0", what: "another id whose HEARTBEAT would do",
		set: func(p *Parameters, x float64) { p.GCSSystemIDTo = int(x) }},
	{name: "FS_GCS_TIMEOUT", want: "at most 10, best 5 s", what: "how long the HEARTBEAT is waited for",
		set: func(p *Parameters, x float64) { p.GCSTimeoutS = x }},
	{name: "WPNAV_ACCEL", renamed: "WP_ACC", rescaled: 100, want: "500, cm/s/s (`WP_ACC`: 5 m/s/s)",
		what: "how soon it follows: below, others keep more distance",
		set:  func(p *Parameters, x float64) { p.AccelMPSS = x / 100 }},
	{name: "PSC_JERK_XY", renamed: "PSC_JERK_NE", want: "20, m/s/s/s", what: "likewise",
		set: func(p *Parameters, x float64) { p.JerkMPSSS = x }},
	{name: "PSC_POSXY_P", renamed: "PSC_NE_POS_P", want: "up to 2, else 1 is assumed", what: "gain of its position loop",
		set: func(p *Parameters, x float64) { p.GainPerS = x }},
	{name: "BATT_CAPACITY", want: "the pack's, mAh", what: "how much a full pack holds",
		set: func(p *Parameters, x float64) { p.CapacityMAh = cmp.Or(x, -1) }},
	{name: "BATT_LOW_MAH", want: "any, mAh", what: "in place of BATT_LOW_VOLT", set: func(p *Parameters, x float64) { p.LowMAh = x }},
	{name: "BATT_CRT_MAH", want: "any, mAh", what: "in place of BATT_CRT_VOLT", set: func(p *Parameters, x float64) { p.CriticalMAh = x }},
	{name: "WPNAV_SPEED_UP", renamed: "WP_SPD_UP", rescaled: 100, want: "any, cm/s (m/s)", what: "climb",
		set: func(p *Parameters, x float64) { p.ClimbMPS = x / 100 }},
	{name: "WPNAV_SPEED_DN", renamed: "WP_SPD_DN", rescaled: 100, want: "any, cm/s (m/s)", what: "descent",
		set: func(p *Parameters, x float64) { p.DescentMPS = x / 100 }},
	{name: "LAND_SPEED", renamed: "LAND_SPD_MS", rescaled: 100, want: "any, cm/s (m/s)", what: "of the last metres",
		set: func(p *Parameters, x float64) { p.LandMPS = x / 100 }},
	{name: "LAND_SPEED_HIGH", renamed: "LAND_SPD_HIGH_MS", rescaled: 100, want: "any, cm/s (m/s)", what: "of those before; 0: descent",
		set: func(p *Parameters, x float64) { p.LandHighMPS = x / 100 }},
	{name: "LAND_ALT_LOW", renamed: "LAND_ALT_LOW_M", rescaled: 100, want: "any, cm (m)", what: "the height of the last metres",
		set: func(p *Parameters, x float64) { p.LandSlowBelowM = x / 100 }},
	{name: "FENCE_ENABLE", want: "any", what: "its own fence", set: func(p *Parameters, x float64) { p.FenceEnabled = int(x) }},
	{name: "FENCE_TYPE", want: "any", what: "of which kinds", set: func(p *Parameters, x float64) { p.FenceTypes = int(x) }},
	{name: "FENCE_ALT_MAX", want: "above the mission's height and its band, m", what: "setpoints beyond it are dropped without a word",
		set: func(p *Parameters, x float64) { p.FenceHeightM = height.AboveGround(x) }},
	{name: "FS_OPTIONS", want: "bit 4", what: "a pilot who flies is not sent home for want of a leader",
		set: func(p *Parameters, x float64) { p.FailsafeOptions = int(x) }},
	{name: "RTL_ALT", renamed: "RTL_ALT_M", rescaled: 100, want: "as `leader check` says, cm (m)",
		what: "how high above home it returns, if it is not higher", set: func(p *Parameters, x float64) { p.ReturnUpM = x / 100 }},
	{name: "RTL_CONE_SLOPE", want: "0", what: "near home it does not climb so high",
		set: func(p *Parameters, x float64) { p.ConeSlope = x }},
	{name: "RTL_SPEED", renamed: "RTL_SPEED_MS", rescaled: 100, want: "any, cm/s (m/s)", what: "how fast it returns; 0: WPNAV_SPEED",
		set: func(p *Parameters, x float64) { p.ReturnMPS = x / 100 }},
	{name: "FENCE_ACTION", want: "any", what: "what it does outside it", set: func(p *Parameters, x float64) { p.FenceAction = int(x) }},
}

// value is a plain number, also of integers.
func (ardupilot) value(m *common.MessageParamValue) float64 { return decimal(m.ParamValue) }

func (ardupilot) unsafeReasons(p *Parameters) []string {
	_, low := copterBattery[p.LowAction]
	_, critical := copterBattery[p.CriticalAction]
	low, critical = low && (p.LowV > 0 || p.LowMAh > 0), critical && (p.CriticalV > 0 || p.CriticalMAh > 0)
	return p.failed([]check{
		{!(p.GuidedTimeoutS > 0 && p.GuidedTimeoutS <= 1), []string{"GUID_TIMEOUT"},
			fmt.Sprintf("GUID_TIMEOUT is %v s, want above 0 and at most 1: it flies on for so long without setpoints", p.GuidedTimeoutS)},
		{p.Alone(LeftByLink, RoleHold).Role == RoleHold, []string{"FS_GCS_ENABLE"},
			fmt.Sprintf("FS_GCS_ENABLE is %d, want 1, 3, 4, 5 or 7: without its leader it hovers until its battery is empty",
				p.GCSFailsafe)},
		{p.GCSSystemID != p.leader.systemID, []string{"SYSID_MYGCS"},
			fmt.Sprintf("MAV_GCS_SYSID (SYSID_MYGCS) is %d, want the leader's %d: it would not notice that its leader is gone",
				p.GCSSystemID, p.leader.systemID)},
		{p.GCSSystemIDTo > p.GCSSystemID, nil,
			fmt.Sprintf("MAV_GCS_SYSID_HI is %d, want 0: another station's HEARTBEAT would do for the leader's", p.GCSSystemIDTo)},
		{p.GCSTimeoutS > 10, nil, fmt.Sprintf("FS_GCS_TIMEOUT is %v s, want at most 10", p.GCSTimeoutS)},
		{!low && !critical, []string{"BATT_FS_LOW_ACT", "BATT_LOW_VOLT", "BATT_FS_CRT_ACT", "BATT_CRT_VOLT"},
			fmt.Sprintf("no battery failsafe: BATT_FS_LOW_ACT is %d at BATT_LOW_VOLT %v V, BATT_FS_CRT_ACT %d at BATT_CRT_VOLT %v V; want "+
				"1 (Land) or 2 (RTL) of one, with a voltage (or charge, BATT_LOW_MAH, BATT_CRT_MAH) above 0", p.LowAction, p.LowV,
				p.CriticalAction, p.CriticalV)},
		{p.Options&1 == 0 && !p.leader.signs, []string{"SYSID_ENFORCE"},
			fmt.Sprintf("MAV_OPTIONS (SYSID_ENFORCE) is %d and messages are not signed: it obeys anybody; want bit 0, set last, or a "+
				"MAVLink key", p.Options)},
		{!(p.SpeedMaxMPS > 0), []string{"WPNAV_SPEED"},
			fmt.Sprintf("WPNAV_SPEED (WP_SPD) is %v m/s, want a positive number", p.SpeedMaxMPS)},
	})
}

func (ardupilot) warnings(p *Parameters, _ float64) (reasons []string) {
	const continuesWithPilot = 1 << 4
	if !p.agile() {
		lagS, stopsInM := ardupilot{}.motion(p)
		reasons = append(reasons, fmt.Sprintf("WPNAV_ACCEL (WP_ACC) is %v m/s/s and PSC_JERK_XY (PSC_JERK_NE) %v m/s/s/s, want %v and "+
			"%v: it follows %v s late, and others keep up to %v m more distance",
			p.AccelMPSS, p.JerkMPSSS, agileAccelMPSS, agileJerkMPSSS, lagS, stopsInM))
	}
	if p.FenceEnabled != 0 && p.FenceTypes&fenceHeight != 0 && p.FenceHeightM > 0 && p.FenceHeightM < p.leader.heightM {
		reasons = append(reasons, fmt.Sprintf("FENCE_ALT_MAX is %v m, and it flies up to %v m: beyond it setpoints are dropped without "+
			"a word, and it returns", p.FenceHeightM, p.leader.heightM))
	}
	if p.FailsafeOptions&continuesWithPilot == 0 {
		reasons = append(reasons, fmt.Sprintf("FS_OPTIONS is %d, without bit 4: it returns when its leader is gone, while a pilot "+
			"flies it too", p.FailsafeOptions))
	}
	return reasons
}

// failsafes are of parameters that are required: others may be read late.
func (ardupilot) failsafes(p *Parameters) [8]float64 {
	return [8]float64{p.GuidedTimeoutS, float64(p.GCSFailsafe), float64(p.GCSSystemID), float64(p.LowAction), float64(p.CriticalAction),
		p.LowV, p.CriticalV, float64(p.Options)}
}

func (ardupilot) summary(p *Parameters) string {
	return fmt.Sprintf("GUID_TIMEOUT %g s, FS_GCS_ENABLE %d, speed limit %g m/s", p.GuidedTimeoutS, p.GCSFailsafe, p.SpeedMaxMPS)
}

// ignoresGCSLoss: the leader is its ground station as a companion computer already.
func (ardupilot) ignoresGCSLoss(*Parameters) bool { return true }

// motion: held at 8 m/s it flew on for 12.7 m with the acceleration and the jerk below, and for
// 21.5 m with those that it has by default; up to 27 m where a hold followed its stream's end.
func (ardupilot) motion(p *Parameters) (lagS, stopsInM float64) {
	if p.agile() {
		return 1.6, 13
	}
	return 2.7, 27
}

// fliesOnM: what BRAKE and the end of a stream have in common is how it slows down.
func (ardupilot) fliesOnM(p *Parameters, speedMPS float64, lost bool) float64 {
	const measuredMPS = 8
	_, stopsInM := ardupilot{}.motion(p)
	onM := stopsInM * speedMPS / measuredMPS * math.Max(1, speedMPS/measuredMPS)
	if lost {
		onM += speedMPS * positiveOr(p.GuidedTimeoutS, 3)
	}
	return onM
}

const (
	agileAccelMPSS = 5.0
	agileJerkMPSSS = 20.0
)

func (p *Parameters) agile() bool {
	return p.AccelMPSS >= agileAccelMPSS && p.JerkMPSSS >= agileJerkMPSSS
}
