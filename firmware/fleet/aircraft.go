package fleet

import (
	"math"
	"slices"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/firmware/energy"
	"prefdt/firmware/height"
	"prefdt/inference/physics"
	"prefdt/telemetry"
)

// LostAfterS is how long an aircraft is silent before it is lost (docs/wire.md).
const LostAfterS = 10.0

const (
	silentAfterS      = 1.0  // a position older than this is uncertain: others keep clear of the possible path
	staleAfterS       = 2.0  // with a position older than this nothing is sent, with such a HEARTBEAT no command
	heartbeatTimeoutS = 10.0 // setpoints are sent for so long without a HEARTBEAT (docs/wire.md)
	forgottenAfterS   = 5.0  // what is older is unknown: whether it has landed, its prearm check (docs/wire.md)

	hoversMPS  = 2.0               // one that hovers, in wind too, is slower
	landedMPS  = 1.0               // an aircraft that stands measures less speed
	landedMaxM = groundMaxUpM + 10 // and no more height over the ground: altitudes drift in a flight
	fallsMaxS  = 2.0               // one that has its motors off falls, or stands: after so long it is known which

	batteryAbsentS = 7.0 // a battery that is not received for so long is no longer sent: it may come every 6 s (docs/wire.md)
)

// aircraft is one aircraft's measured state and its control. All of it is guarded by
// the fleet's mutex. Times are mission seconds of receipt.
type aircraft struct {
	number  int
	conf    VehicleLink
	link    *endpointLink
	channel *gomavlib.Channel // on which its heartbeats arrive; nil: none

	messageRequestedS  float64 // last request of a message
	received           bool
	receivedS          float64 // any message
	heartbeatS         float64 // HEARTBEAT
	mode               Mode
	modeSinceS         float64 // when its HEARTBEAT first showed that
	modeUnexplainedS   float64 // when its HEARTBEAT last showed another mode, which did not follow from the leader's commands
	armed              bool
	failsafe           bool   // its autopilot reports one (MAV_STATE_CRITICAL)
	foreign            string // its autopilot, if that is not one of those that are flown: nothing that moves it is sent
	landed             *bool  // by its last message; nil: unknown
	landedOnce         bool   // that one alone says so
	landedS            float64
	reportsTakeoff     bool // by the message at landedS
	located            bool
	positionS          float64
	position           physics.Position
	upM                height.AboveOrigin
	heights            heightWitness // upM follows from it
	ground             ground        // below it, at positionS
	fallsS             float64       // when it last flew, or fell, at positionS
	velocity           physics.Position
	climbMPS           float64
	hoversSinceS       float64            // all positions since were of one that hovers
	unconfirmed        unconfirmed        // positions received since, which are not believed
	tracks             [2]track           // of all positions
	stood              stood              // those of it that stands
	twinS              float64            // when they last showed two autopilots; 0: never
	bootMS             float64            // autopilot's time since boot, at positionS
	bootMSAtTick       float64            // the same at the last tick
	delayS             float64            // see updateDelayS
	clockRate          clockRate          // of that clock
	lateness           lateness           // of its positions
	restoredBootS      float64            // autopilot's time since boot, as of the previous leader process; 0: unknown
	restoredEngaged    bool               // it was engaged, as of the previous leader process
	leftAt             []physics.Position // where that may have left it, at the speed leftMPS
	leftMPS            float64
	sequence           sequenceFilter
	signedS            float64 // when a frame of it was last signed, where there is no key; 0: never
	batteryStatusS     float64 // BATTERY_STATUS, rather than SYS_STATUS
	batteryStatusBootS float64 // its time since boot then; 0: not known
	ownBatteryS        float64 // BATTERY_STATUS with id 0
	charge             float64 // remaining, 0 to 1, NaN unknown
	chargeFromJ        float64 // the meter's total when it came to be that; NaN: never
	batteryReading     energy.Reading
	batteryIDs         []uint8 // ids of BATTERY_STATUS, sorted; never changed in place
	batteries          map[uint8]*batteryTrace
	batteriesSinceS    float64 // when the ids last grew
	meteredBattery     uint8
	sumS               float64 // when id 0 was last seen to be the sum of the others; 0: never
	warnedOfBatteries  bool    // of those that are not metered
	preArm             PreArm
	preArmS            float64
	textChunks         textAssembler
	autopilotText      string // the autopilot's last text on why it does not follow its order, at autopilotTextS
	autopilotTextS     float64
	textLoggedS        float64 // a text was last logged
	params             Parameters
	meter              energy.Meter
	pack               Pack
	lost               bool
	home               *physics.Position  // where it took off
	cameBy             []physics.Position // corners of the way on which it came since, see rememberWay
	homeUpM            height.AboveOrigin // the ground's there
	lastKnownTrack     []physics.Position // possible path saved by the previous leader process, until a position is received
	cleared            bool               // the crew cleared it as an obstacle, until it is received again

	control
}

func (a *aircraft) handleMessage(f *Fleet, now float64, m message.Message) {
	a.received, a.receivedS, a.cleared = true, now, false
	switch m := m.(type) {
	case *common.MessageHeartbeat:
		a.handleHeartbeat(f, now, m)
	case *common.MessageGlobalPositionInt:
		a.handlePosition(f, now, m)
	case *common.MessageExtendedSysState:
		a.reportsTakeoff = m.LandedState == common.MAV_LANDED_STATE_TAKEOFF
		switch m.LandedState {
		case common.MAV_LANDED_STATE_ON_GROUND:
			a.landedOnce = a.landed == nil || !*a.landed
			a.landed, a.landedS = new(true), now
		case common.MAV_LANDED_STATE_IN_AIR, common.MAV_LANDED_STATE_TAKEOFF, common.MAV_LANDED_STATE_LANDING:
			a.landed, a.landedS = new(false), now
		}
	case *common.MessageBatteryStatus:
		a.handleBattery(f, now, m)
	case *common.MessageSysStatus:
		a.preArm, a.preArmS = preArmOf(m), now
		// Only of an autopilot that sends no BATTERY_STATUS: two unsynchronised
		// measurements of one current would count twice.
		if r := energy.FromBatteryStatus([]uint16{m.VoltageBattery}, m.CurrentBattery, -1,
			m.BatteryRemaining); a.batteryStatusAbsent(now) && !noBattery(&r) {
			a.updateBattery(f, now, r, -1)
		}
	case *common.MessageParamValue:
		a.handleParamValue(f, m)
		a.updateCapacity(f)
	case *common.MessageStatustext:
		a.handleStatusText(f, now, m)
	case *common.MessageCommandAck:
		a.handleCommandAck(f, now, m)
	}
}

func (a *aircraft) handlePosition(f *Fleet, now float64, m *common.MessageGlobalPositionInt) {
	a.lateness.add(now-a.clockRate.sentS(a.bootMS+float64(int32(m.TimeBootMs-uint32(int64(a.bootMS)))), now), now)
	s, ok := a.believedPosition(f, now, m)
	if !ok {
		return
	}
	a.clockRate.add(a.bootMS, now)
	a.lastKnownTrack = nil
	if !a.located || a.silent(now) || s.velocity.Norm() >= hoversMPS {
		a.hoversSinceS = now
	}
	a.position, a.upM, a.velocity, a.climbMPS = s.position, s.upM, s.velocity, s.climbMPS
	a.located, a.positionS = true, now
	a.rememberWay()
	a.ground = f.groundAt(a.position)
	a.params.leader.heightM = f.highestM().Over(a.landsAtM())
	if a.inAir() || !a.armed && math.Abs(a.climbMPS) > landedMPS {
		a.fallsS = now
	}
	a.meter.SetSpeed(now, a.velocity.Norm(), a.inAir())
	if a.inAir() {
		f.counts.MaxSpeedMPS = max(f.counts.MaxSpeedMPS, a.velocity.Norm())
	}
}

// inAir is whether it flies, by its last messages. Where it is not known to be on the
// ground it is in the air.
func (a *aircraft) inAir() bool { return a.armed && !a.onGround() }

// onGround is whether it has landed. With its motors on, its own word needs a second one, for one message may be wrong, and that it
// stands still at the height of the ground.
func (a *aircraft) onGround() bool {
	stands := a.upM >= a.ground.low-landedMaxM && a.upM <= a.ground.high+landedMaxM &&
		math.Hypot(a.velocity.Norm(), a.climbMPS) <= landedMPS
	return a.landed != nil && *a.landed && (!a.armed || !a.landedOnce && a.located && stands)
}

// hasLanded is for views: unknown, too, where its own word is contradicted.
func (a *aircraft) hasLanded() *bool {
	if a.landed != nil && *a.landed && !a.onGround() {
		return nil
	}
	return a.landed
}

// forgetOld forgets what its messages said too long ago.
func (a *aircraft) forgetOld(now float64) {
	if now-a.landedS > forgottenAfterS {
		a.landed = nil
	}
	if now-a.preArmS > forgottenAfterS {
		a.preArm = PreArmUnknown
	}
	if gone := func(id uint8) bool { return now-a.batteries[id].receivedS > batteryAbsentS }; slices.ContainsFunc(a.batteryIDs, gone) {
		a.batteryIDs, a.batteriesSinceS = slices.DeleteFunc(slices.Clone(a.batteryIDs), gone), now // views have the old slice
	}
}

// positionFresh is whether its position is recent enough for setpoints.
func (a *aircraft) positionFresh(now float64) bool {
	return a.channel != nil && a.located && now-a.positionS < staleAfterS && !a.mayHaveRebooted()
}

// heartbeatFresh is whether its mode and arming state are recent enough for commands.
func (a *aircraft) heartbeatFresh(now float64) bool {
	return a.channel != nil && now-a.heartbeatS <= staleAfterS
}

// commandable is whether a command can be given: its position and its mode are recent.
func (a *aircraft) commandable(now float64) bool {
	return a.positionFresh(now) && a.heartbeatFresh(now)
}

// fresh is whether setpoints can be sent: the position is recent, and the HEARTBEAT no
// older than heartbeatTimeoutS.
func (a *aircraft) fresh(now float64) bool {
	return a.positionFresh(now) && now-a.heartbeatS <= heartbeatTimeoutS
}

// takingOff is whether it is armed for a take-off: its climb is a column that others
// keep clear of.
func (a *aircraft) takingOff() bool { return a.phase == PhaseClimbing && a.armed }

// positionAt is its position extrapolated to this moment.
func (a *aircraft) positionAt(now float64) physics.Position {
	return a.position.Add(a.velocity.Scale(min(max(now-a.positionS, 0), staleAfterS)))
}

// silent is whether its position is uncertain.
func (a *aircraft) silent(now float64) bool { return now-a.positionS > silentAfterS }

// isObstacle is whether others keep clear of it: it flies, or is about to, by its last
// messages, however old they are, until it reports otherwise or the crew clears it.
func (a *aircraft) isObstacle() bool {
	return !a.cleared && (a.lastKnownTrack != nil || a.located && (a.inAir() || a.takingOff() || a.falling()))
}

// falling is whether it is disarmed and high up: it is an obstacle until it is down. What stands still without its motors is down.
func (a *aircraft) falling() bool {
	return !a.armed && a.upM.Over(a.ground.low) > groundMaxUpM && a.positionS-a.fallsS < fallsMaxS
}

// ground is between which heights the ground at a place is.
type ground struct{ low, high height.AboveOrigin }

// groundAt is the ground at a place: that of the nearest home, if it is near. Elsewhere it is taken to be no lower than the lowest home
// and no higher than the highest, which `leader check` says.
func (f *Fleet) groundAt(p physics.Position) ground {
	nearM, near := 30.0, (*aircraft)(nil)
	var all []height.AboveOrigin
	for _, a := range f.aircraft {
		if a.home == nil {
			continue
		}
		all = append(all, a.homeUpM)
		if d := a.home.Sub(p).Norm(); d < nearM {
			nearM, near = d, a
		}
	}
	switch {
	case near != nil:
		return ground{near.homeUpM, near.homeUpM}
	case len(all) > 0:
		return ground{slices.Min(all), slices.Max(all)}
	}
	return ground{}
}

// landsAtM is how high the ground is where it is to land, or stands.
func (a *aircraft) landsAtM() height.AboveOrigin {
	switch {
	case !a.inAir():
		return a.upM
	case a.home != nil && a.phase != PhaseLanding:
		return a.homeUpM
	}
	return a.ground.low
}

// bootS is the autopilot's time since boot, 0 if its position is not recent.
func (a *aircraft) bootS(now float64) float64 {
	if !a.located || a.silent(now) {
		return 0
	}
	return (a.bootMS + (now-a.positionS)*a.clockRate.msPerS()) / 1000
}

// checkReception detects a lost aircraft, and requests messages that do not arrive:
// HEARTBEAT, streams, parameters.
func (a *aircraft) checkReception(f *Fleet, now float64) {
	a.forgetOld(now)
	if a.received && !a.lost && now-a.receivedS > LostAfterS {
		a.lost = true
		f.Log.Error("aircraft lost", "aircraft", a.number, "unheard_s", now-a.receivedS)
		if a.phase != PhaseIdle {
			a.handToPilot(f, telemetry.ReasonLost)
		}
	}
	if a.lost && now-a.receivedS < staleAfterS {
		a.lost = false
		f.Log.Warn("aircraft received again", "aircraft", a.number)
	}
	if a.textChunks.id != 0 && now-a.textChunks.receivedS > commandRetryS {
		a.finishStatusText(f, now) // its last chunk was lost, or is exactly full
	}
	if a.channel == nil {
		return
	}
	if !a.heartbeatFresh(now) && now-a.receivedS < staleAfterS {
		f.requestMessages(a.link, a.channel, a, &common.MessageHeartbeat{})
	}
	if now-a.requestedS < requestIntervalS {
		return
	}
	for _, name := range a.params.missing() {
		f.send(a.link, a.channel, a, &common.MessageParamRequestRead{ParamId: name, ParamIndex: -1})
		a.requestedS = now
	}
	a.params.optionalRequests++
	for _, s := range streams {
		if now-s.receivedS(a) < 1 && a.requestRounds > 0 {
			continue
		}
		f.send(a.link, a.channel, a, &common.MessageCommandLong{Command: common.MAV_CMD_SET_MESSAGE_INTERVAL,
			Param1: float32(s.message.GetID()), Param2: s.periodUS})
		a.requestedS = now
	}
	a.requestRounds++
}

func (f *Fleet) requestMessages(l *endpointLink, c *gomavlib.Channel, a *aircraft, wanted ...message.Message) {
	const intervalS = 0.25
	now := f.nowS()
	if a.messageRequestedS > 0 && now-a.messageRequestedS < intervalS {
		return
	}
	a.messageRequestedS = now
	for _, m := range wanted {
		f.send(l, c, a, &common.MessageCommandLong{Command: common.MAV_CMD_REQUEST_MESSAGE, Param1: float32(m.GetID())})
	}
}

// handleReboot resets what was received from an autopilot before its reboot. An order of the crew since then goes on: its positions show
// the reboot later than its HEARTBEATs did.
func (a *aircraft) handleReboot(f *Fleet, bootedS float64) {
	f.Log.Error("autopilot rebooted", "aircraft", a.number)
	a.params, a.clockRate, a.batteryIDs = Parameters{autopilot: a.params.autopilot, leader: a.params.leader}, clockRate{}, nil
	a.requestRounds = 0
	if a.phase != PhaseIdle && a.engagedS <= bootedS {
		a.handToPilot(f, "rebooted")
		a.pilotReason = "rebooted" // which also disarmed it, or changed its mode
	}
}
