package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"
)

// Autopilots differ in their modes, parameters and manners. What is known of each kind is
// in a file of its own, px4.go and ardupilot.go, behind the interface autopilot. The rest of
// the package, and of the leader, speaks of roles.

// Role is what a mode is for (docs/wire.md).
type Role uint8

const (
	RoleOther     Role = iota // its pilot's
	RoleArmable               // on the ground with its motors off, in a mode in which it can be armed
	RoleTakeoff               // climbs by itself to the height of its take-off
	RoleCommanded             // flies by setpoints
	RoleHold                  // stays where it is, whatever its sticks say
	RoleReturn                // flies home by itself, and lands
	RoleLand                  // lands where it is
)

func (r Role) String() string {
	return [...]string{"other", "armable", "takeoff", "commanded", "hold", "return", "land"}[r]
}

// ComesDown is whether it is for a landing.
func (r Role) ComesDown() bool { return r == RoleLand || r == RoleReturn }

// Mode is an autopilot's custom mode as HEARTBEAT carries it.
type Mode uint32

// autopilot is one kind of autopilot. Aircraft are passed in as they were last received.
type autopilot interface {
	traits() *traits

	// role is what a mode is for, in the state that an aircraft is in.
	role(a *aircraft, m Mode) Role
	modeName(m Mode) string
	setMode(m Mode) *common.MessageCommandLong
	// commandedMode is the mode that a DO_SET_MODE or a NAV_TAKEOFF commands.
	commandedMode(m *common.MessageCommandLong) Mode
	// takeOffHeight is the height parameter of a take-off to H, m.
	takeOffHeight(f *Fleet, a *aircraft) float64

	// takeOffOver is whether a climb that is at its height may be followed by setpoints.
	takeOffOver(a *aircraft) bool
	// modeFollows is whether a change of mode that nobody commanded lately follows from
	// what the leader commanded before. The HEARTBEAT before it came at fromS.
	modeFollows(f *Fleet, a *aircraft, from Mode, fromS float64, wasFailsafe bool) bool
	// heldForSetpoints is whether its failsafe holds it for want of setpoints, and will let
	// it go once they come again.
	heldForSetpoints(a *aircraft, from Mode) bool
	// rejoins is whether one in the air, not in its take-off, is as the previous leader
	// process left it. high: it is in the altitude band; known: what was received so far tells.
	rejoins(f *Fleet, a *aircraft, now float64, high bool) (ours, known bool)

	// value undoes the encoding of PARAM_VALUE.
	value(m *common.MessageParamValue) float64
	// unsafeReasons are all that is unsafe about those that were read.
	unsafeReasons(p *Parameters) []string
	warnings(p *Parameters, capacityJ float64) []string
	// failsafes are the parameters that say what it does without its leader.
	failsafes(p *Parameters) [8]float64
	// summary is the parameters that a person wants to see before a flight.
	summary(p *Parameters) string
	// ignoresGCSLoss is whether it is known to do nothing when the HEARTBEAT of the leader
	// as a ground station ends.
	ignoresGCSLoss(p *Parameters) bool
	// motion is how late it follows a command, and how far it flies on from 8 m/s once setpoints hold it.
	motion(p *Parameters) (lagS, stopsInM float64)
	// fliesOnM is how far it flies on from a speed in its own hold and, lost, from the last setpoint on.
	fliesOnM(p *Parameters, speedMPS float64, lost bool) float64
}

// traits are the differences that need no code of their own.
type traits struct {
	name       string        // in status
	modes      map[Role]Mode // what is commanded for a role; that to be armed in for RoleArmable
	parameters []parameter

	capacityParameter string  // what a pack holds
	gainPerS          float64 // default gain of its position loop
	slowsBy           float64 // the share of its acceleration by which that slows down; 0: the loop is linear
	otherBatteries    string  // what to do about batteries that are not metered, beside unplugging them
	relayedBatteryID  int     // BATTERY_STATUS id of a battery measured outside the autopilot; -1: none can be

	endsHoldItself  bool    // its failsafe's hold ends by setpoints alone
	prestreams      bool    // setpoints must be sent before the commanded mode is
	climbsAgain     bool    // a take-off can be commanded in the air
	preArmByMode    bool    // its prearm check is of the mode that it is in, and changes with it
	takeoffRetryS   float64 // a take-off that has not left the ground is not commanded again for so long
	heartbeatsCount bool    // the leader's HEARTBEATs, not its setpoints, tell it that the leader lives
	// restCellV are the voltages of an empty and a full cell at rest, where it takes any pack for full once it has booted; 0: it does not.
	restCellV [2]float64

	failsafes      []failsafe                // what it does when it is left alone
	retraces       bool                      // some of that is to return on the way on which it came
	returnsAt      func(upM float64) string  // what to set for a return at a height above its home
	returnMPS      func(*Parameters) float64 // how fast it returns, where no parameter of that says so
	waitsOverHomeS float64                   // before it descends there
	climbMPS       float64                   // by default
	landMPS        float64                   // likewise, of the last metres
	// descentShare and landShare are the parts of the speeds of its parameters at which it descends, and lands.
	descentShare, landShare float64
}

// stream is a message that is asked for, and how often.
type stream struct {
	message   message.Message
	periodUS  float32
	receivedS func(*aircraft) float64 // the last one
}

// streams are asked for at the rates that the leader needs, of each kind: BATTERY_STATUS at least twice a second (docs/wire.md).
var streams = []stream{
	{&common.MessageBatteryStatus{}, 250e3, func(a *aircraft) float64 { return a.batteryStatusS }},
	{&common.MessageGlobalPositionInt{}, 100e3, func(a *aircraft) float64 { return a.positionS }},
	{&common.MessageExtendedSysState{}, 200e3, func(a *aircraft) float64 { return a.landedS }},
	{&common.MessageSysStatus{}, 200e3, func(a *aircraft) float64 { return a.preArmS }},
}

// parameter is one that is read before an aircraft is armed. Names and units differ by version.
type parameter struct {
	name, want, what string
	required         bool    // without it no aircraft takes off
	renamed          string  // its name in later versions, empty: the same
	rescaled         float64 // one unit of the later name in units of the first; 0: the same
	needs            string  // without which the autopilot has none of that name; empty: nothing
	set              func(*Parameters, float64)
}

// assumed is the kind before an aircraft's first HEARTBEAT, when nothing that moves it is sent.
var assumed autopilot = px4{}

// copters are the vehicles that hover where a setpoint holds them.
var copters = []common.MAV_TYPE{
	common.MAV_TYPE_QUADROTOR, common.MAV_TYPE_HEXAROTOR, common.MAV_TYPE_OCTOROTOR, common.MAV_TYPE_TRICOPTER,
	common.MAV_TYPE_COAXIAL, common.MAV_TYPE_DODECAROTOR, common.MAV_TYPE_DECAROTOR,
}

// autopilotOf returns the kind of autopilot that sends a HEARTBEAT or, if that is not flown, its name.
func autopilotOf(m *common.MessageHeartbeat) (kind autopilot, foreign string) {
	name := func(text, prefix string) string { return strings.TrimPrefix(text, prefix) }
	copter := slices.Contains(copters, m.Type)
	switch {
	case m.Autopilot == common.MAV_AUTOPILOT_PX4 && (copter || m.Type == common.MAV_TYPE_GENERIC): // it need not be configured
		return px4{}, ""
	case m.Autopilot == common.MAV_AUTOPILOT_ARDUPILOTMEGA && copter:
		return ardupilot{}, ""
	case m.Autopilot == common.MAV_AUTOPILOT_PX4:
		return nil, fmt.Sprintf("PX4 (12) of a %s", name(m.Type.String(), "MAV_TYPE_"))
	case m.Autopilot == common.MAV_AUTOPILOT_ARDUPILOTMEGA:
		return nil, fmt.Sprintf("ARDUPILOTMEGA (3) of a %s", name(m.Type.String(), "MAV_TYPE_"))
	}
	return nil, fmt.Sprintf("%s (%d)", name(m.Autopilot.String(), "MAV_AUTOPILOT_"), m.Autopilot)
}

func foreignError(autopilot string) error {
	return fmt.Errorf("its autopilot is %s, and only copters of PX4 (%d) and ArduCopter (%d) are flown; see to its firmware, or to the "+
		"system id", autopilot, common.MAV_AUTOPILOT_PX4, common.MAV_AUTOPILOT_ARDUPILOTMEGA)
}

// role is what its mode is for.
func (a *aircraft) role() Role { return a.params.kind().role(a, a.mode) }

func (a *aircraft) modeName() string { return a.params.kind().modeName(a.mode) }

// setMode commands the mode for a role.
func (a *aircraft) setMode(r Role) *common.MessageCommandLong {
	kind := a.params.kind()
	return kind.setMode(kind.traits().modes[r])
}

// armable is whether it can be armed in the mode that it is in.
func (a *aircraft) armable() bool {
	r := a.role()
	return r == RoleArmable || r == RoleTakeoff || r == RoleHold && a.mode == a.params.kind().traits().modes[RoleArmable]
}
