package fleet

import (
	"errors"
	"fmt"
	"math"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/firmware/height"
	"prefdt/inference/physics"
	"prefdt/telemetry"
)

// Phase is how far the leader's control of an aircraft has come.
type Phase uint8

const (
	PhaseIdle      Phase = iota // nothing is commanded
	PhaseClimbing               // arming, taking off
	PhaseEngaging               // the mode that follows setpoints is commanded
	PhaseFlying                 // in that, by the leader's setpoints
	PhaseLanding                // at the end of its way home: to land, or return, is commanded
	PhasePilot                  // under pilot control until Resume in the air, Launch on the ground
	PhaseStopping               // to hold is commanded
	PhaseRejoining              // after a restart, its state is not known yet: nothing is commanded
)

func (p Phase) String() string {
	return [...]string{"idle", "climbing", "engaging", "flying", "landing", "with its pilot", "stopping",
		"not received since the restart"}[p]
}

// ordered is whether it is to fly, or to fly home.
func (p Phase) ordered() bool { return p != PhaseIdle && p != PhasePilot && p != PhaseStopping }

const (
	setpointLifeS             = 2.0  // a setpoint's time to live, slots
	streamEndS                = 12.0 // slots after which the stream ends: the two of a setpoint, and ten of holding
	commandRetryS             = 1.0  // between repeats of a command
	recentHeartbeatS          = 0.35 // a command is based on a HEARTBEAT no older than this, if one comes
	armingTimeoutS            = 10.0 // arming is commanded for so long for each order (docs/wire.md)
	checksTimeoutS            = 45.0 // and the checks of the mode in which it is armed are waited for so long, where modes have their own
	launchTimeoutS            = 60.0 // from the order until arming is first asked for
	checksSettleS             = 1.5  // its autopilot may still send the check of the mode before
	armedReportDelayS         = 2.0  // and may be reported so much later
	climbToleranceM           = 3.0  // a climb ends so close to H
	arrivedM                  = 2.0
	heldWithinM               = 5.0  // one that has come to rest farther from where it is to hold stays there
	landsWithinM              = 0.7  // of its home
	arrivalS                  = 20.0 // or arrivedM of it for so long
	homeWithinM               = 5.0  // an aircraft that lands drifts by this at most
	lagMaxM                   = 3.0  // a leg or a transit makes up for no more lag: making up is flying faster
	prestreamS                = 0.5  // setpoints are sent for so long before the mode that follows them is commanded, where they must be
	stillMPS                  = 0.5
	slowMPS                   = 2.0  // its own hold stops it in two metres then
	brakeMaxS                 = 4.0  // a stop is by setpoints for so long
	touchdownNearM            = 10.0 // lower than this one that lands is not resumed
	climbClearanceSeparations = 3.0  // separations between a climb and an aircraft that moves, at the climb's start
	requestIntervalS          = 2.0  // between requests for missing streams
	climbMarginM              = 3.0  // of the separation: delays in flight, of which a climb has none, and position errors
	passS                     = 10.0 // time ahead in which one that gives way to nobody must not pass a climb
	homeBlockedS              = 60.0 // an aircraft that comes no nearer to its home for so long, and a landing before it, lands where it is
	batteryWaitS              = 10.0 // or for so long, with a battery that just suffices to land
	landingReserve            = 1.5  // of the joules of a descent
	engageTimeoutS            = 30.0 // the commanded mode is asked for so long on the way home, then to return as long, then to land
	disarmTimeoutS            = 30.0 // from the landing
)

// control is the leader's side of an aircraft's state: what it is to do, and what was sent.
type control struct {
	phase Phase
	order
	wayHome
	transit           transit // a way that does not lead home
	trajectory        trajectory
	transitReference  physics.Position // a transit's reference at transitReferenceS
	transitReferenceS float64
	commandedS        float64 // the last command
	stopOrderedS      float64 // in PhaseStopping since
	mayEngage         bool    // it may be engaged: see SetDurable
	requestedS        float64 // the last request for streams or parameters
	requestRounds     int
	slowSinceS        float64           // it has had a way to go and has not been faster than slowMPS
	heldAt            *physics.Position // by the envelope; nil: it is not
	climbFrom         *physics.Position // where it climbs by setpoints before it flies on; nil: it does not
	arrivedS          float64           // within arrivedM of its home since, and not held
	alarm             string
	failsafeAlarm     string     // its autopilot's failsafe is not the one that was checked
	launchFailsafes   [8]float64 // when it was launched
}

// order is what came of an order until now; its zero value is one of which nothing was sent. Times that are 0: not yet.
type order struct {
	homeward         bool              // it is to fly home and land, rather than follow the setpoints; as in every PhaseLanding
	pilotReason      string            // why it is under pilot control
	sentHome         string            // why the leader sent it home by itself; empty: it did not, since the last order
	launchedS        float64           // the order, if that includes leaving the ground
	armingRequestedS float64           // commanded since
	checksSinceS     float64           // the checks of the mode in which it is armed are waited for since
	modeRequestedS   map[Mode]float64  // when each mode was last commanded
	awaitsHeartbeatS float64           // a command waits for a recent HEARTBEAT since
	engagedS         float64           // streaming since
	setpointSentS    float64           // the last setpoint
	takeoffSentS     float64           // the last take-off command
	holdIsOurs       bool              // the hold that it is in, failsafe or not, follows from the order
	setpointExpiredS float64           // when a setpoint last was older than two slots
	takeoffWaits     bool              // its take-off waits for another aircraft near its climb
	landsBeside      *physics.Position // near its home, where another lies; nil: it lands at home
	landsBy          Role              // rather than as usual, since a mode was refused; 0: as usual
	landingAskedS    float64           // the mode in which it lands was first asked for
	groundS          float64           // on the ground after a landing, at groundUpM, since
	groundUpM        height.AboveOrigin
}

// wayHome is how an aircraft comes along on its way home, since it was sent there.
type wayHome struct {
	nearestHomeM float64 // since nearerHomeS
	nearerHomeS  float64
	leastWayM    float64 // the shortest way home that was left, since leastWayS
	leastWayS    float64
	queue        int               // others that land, or are on their way home too
	queueS       float64           // one less of them since
	waitsAt      *physics.Position // on this or another way, beside another that goes first; nil: it does not
}

func newWayHome() wayHome { return wayHome{nearestHomeM: math.Inf(1), leastWayM: math.Inf(1)} }

// Orders. Launch, Resume and Rejoin put an aircraft under the leader's control, each
// under its own conditions; SendHome and Stop change what one under control does.

// startOrder begins an order, to fly or home, from the aircraft's present state.
func (a *aircraft) startOrder(homeward bool) {
	sentHome := a.sentHome
	if !homeward {
		sentHome = ""
	}
	a.order, a.wayHome = order{homeward: homeward, sentHome: sentHome, modeRequestedS: map[Mode]float64{}}, newWayHome()
}

// Ordered is an aircraft and what it is ordered: unless otherwise said, to follow the
// setpoints, after a take-off if Launch orders it.
type Ordered struct {
	Number   int
	Homeward bool               // to fly home and land
	Clear    bool               // nothing, but it is no obstacle any more
	Engages  bool               // it is engaged at once
	Home     *physics.Position  // where one that takes off stands
	HomeUpM  height.AboveOrigin // likewise
}

// Action is what the crew orders aircraft.
type Action struct {
	name    string
	refusal func(a *aircraft, now float64) error
	begin   func(f *Fleet, a *aircraft, o *Ordered)
	each    bool // each decides for itself
}

var (
	// Launch has aircraft on the ground take off and fly. Arming is commanded for ten seconds
	// from the first time on; a disarm after that is the pilot's.
	Launch = Action{"launch", (*aircraft).launchRefusal, (*Fleet).launch, false}
	// Resume ends pilots' control of aircraft in the air: they fly on, or home. It never
	// arms, nor takes off from the ground.
	Resume = Action{"resume", (*aircraft).resumeRefusal, (*Fleet).resume, true}
	// Return sends home aircraft that fly for the leader; the mission goes on with the others.
	Return = Action{"return", (*aircraft).returnRefusal, func(_ *Fleet, a *aircraft, _ *Ordered) { a.sendHome() }, true}
	// Clear has aircraft in the air that are not received be no obstacles, until they are.
	Clear = Action{"clear", (*aircraft).clearRefusal, func(_ *Fleet, a *aircraft, _ *Ordered) { a.cleared = true }, false}
)

// Check returns why an action would be ordered of none.
func (f *Fleet) Check(x Action, all []Ordered) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	able, err := f.able(x, all)
	if len(able) > 0 {
		return nil
	}
	return err
}

// Order orders aircraft an action: all of them or, if one refuses, none; where each decides
// for itself, those that do not refuse.
func (f *Fleet) Order(x Action, all []Ordered) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	able, err := f.able(x, all)
	for i := range able {
		x.begin(f, f.aircraft[able[i].Number-1], &able[i])
	}
	return err
}

// able returns which aircraft do not refuse an action, and why others do.
func (f *Fleet) able(x Action, all []Ordered) (able []Ordered, err error) {
	now := f.nowS()
	for _, o := range all {
		if why := x.refusal(f.aircraft[o.Number-1], now); why == nil {
			able = append(able, o)
		} else if err = fmt.Errorf("%s aircraft %d: %w", x.name, o.Number, why); !x.each {
			return nil, err
		}
	}
	return able, err
}

func (f *Fleet) resume(a *aircraft, o *Ordered) {
	a.startOrder(o.Homeward)
	a.holdIsOurs = a.role() == RoleHold
	if !o.Homeward && a.upM < f.bandFromM() && a.params.kind().traits().climbsAgain {
		a.phase = PhaseClimbing
	} else {
		a.engage(f.nowS())
	}
}

func (a *aircraft) resumeRefusal(now float64) error {
	switch {
	case a.foreign != "":
		return foreignError(a.foreign)
	case a.phase != PhaseIdle && a.phase != PhasePilot && !(a.phase == PhaseStopping && a.role() == RoleHold):
		return fmt.Errorf("is %s already", a.phase)
	case !a.commandable(now):
		return a.staleError(now)
	case !a.placedInMode():
		return errors.New("sent no position since its mode changed; send it again")
	case !a.inAir():
		return errors.New("is not in the air")
	case (a.role() == RoleLand || a.role() == RoleReturn) && a.upM.Over(a.ground.high) < touchdownNearM: // it may be down first
		return errors.New("is about to touch down; launch it once it is down")
	case a.standsAtHome(): // setpoints would have it take off
		return errors.New("stands where it was launched, by its height and its speed; its pilot lifts it, or switches its motors off")
	case a.params.kind().traits().endsHoldItself: // a command to fly ends its other failsafes, too, by the crew's order
	case a.failsafe:
		return errors.New("its autopilot reports a failsafe, which a command to fly would end; cure that, or its pilot flies it")
	case a.role() == RoleTakeoff:
		return errors.New("takes off, which a setpoint would end; send it again once it hovers")
	}
	return nil
}

// standsAtHome is whether it has not left the ground where it was launched, whatever its land detector says, as where a pilot took it
// while its motors came up. One in its hold was stopped in its climb, and comes down by a return.
func (a *aircraft) standsAtHome() bool {
	return a.role() != RoleHold && a.home != nil && a.overHome() &&
		a.upM.Off(a.homeUpM) < climbToleranceM && math.Hypot(a.velocity.Norm(), a.climbMPS) <= landedMPS
}

// placedInMode is whether a position came since its mode changed by itself: until then its autopilot may have rebooted.
func (a *aircraft) placedInMode() bool { return a.positionS >= a.modeUnexplainedS }

// failsafeEndS is how long a failsafe that ends by setpoints may hold an aircraft once these come again.
const failsafeEndS = 10.0

// Rejoin continues the order that an aircraft had from the previous leader process, if
// its state is as that left it: its pilot may have acted while no leader was running.
// Otherwise it is left to its pilot; until that is known, nothing changes. Everything but the aircraft's messages is what the
// ledger has, and that has each command before it was sent.
func (f *Fleet) Rejoin(number int) (err error) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		if a.phase != PhaseRejoining {
			err = fmt.Errorf("rejoin aircraft %d: is %s", number, a.phase)
			return
		}
		a.startOrder(a.homeward)
		a.mayEngage = a.restoredEngaged
		why := ""
		switch high := a.upM > f.bandFromM(); {
		case !a.commandable(now):
			why = "not received since the restart"
		case a.bootS(now) > 0 && a.bootS(now) < a.restoredBootS:
			why = "rebooted while the leader was down"
		case a.homeward && a.onGround() && (!a.armed || a.role() == a.landingRole()): // its landing has ended
			a.phase = PhaseLanding
		case !a.armed:
			why = "found with its motors off after the restart"
		case a.role() == RoleTakeoff && !a.restoredEngaged: // perhaps still on the ground
			a.phase = PhaseClimbing
		case !a.inAir():
			why = "found on the ground after the restart"
		case a.homeward && a.role() == a.landingRole() && a.overHome(): // nothing is commanded in it
			a.phase = PhaseLanding
		default:
			switch ours, known := a.params.kind().rejoins(f, a, now, high); {
			case !known: // until the next call
			case ours:
				a.engage(now)
			default:
				why = "found in " + a.modeName() + " after the restart"
			}
		}
		if why != "" {
			a.handToPilot(f, why)
			err = fmt.Errorf("rejoin aircraft %d: %s", number, why)
		}
	})
	return err
}

// RejoinStopped is Rejoin in a mission that is stopped: one that the leader before had not yet handed to its autopilot's hold is.
func (f *Fleet) RejoinStopped(number int) {
	f.withAircraft(number, func(a *aircraft, _ float64) {
		if a.phase == PhaseRejoining && a.role() == RoleHold {
			a.handToPilot(f, reasonStopped)
		}
	})
	if f.Rejoin(number) == nil {
		f.Stop(number)
	}
}

// ForgetSentHome is called as a new mission begins.
func (f *Fleet) ForgetSentHome(number int) {
	f.withAircraft(number, func(a *aircraft, _ float64) { a.sentHome = "" })
}

// HandToPilot leaves an aircraft to its pilot.
func (f *Fleet) HandToPilot(number int, why string) {
	f.withAircraft(number, func(a *aircraft, _ float64) { a.handToPilot(f, why) })
}

func (a *aircraft) clearRefusal(now float64) error {
	switch {
	case !a.isObstacle():
		return errors.New("is not an obstacle")
	case a.received && now-a.receivedS <= LostAfterS:
		return fmt.Errorf("was received %.1f s ago; it is lost after %v s", now-a.receivedS, LostAfterS)
	}
	return nil
}

func (a *aircraft) staleError(now float64) error {
	if !a.received || !a.located {
		return errors.New("no position and HEARTBEAT received from it yet")
	}
	return fmt.Errorf("its position is %.1f s old, its HEARTBEAT %.1f s", now-a.positionS, now-a.heartbeatS)
}

func (f *Fleet) withAircraft(number int, do func(a *aircraft, now float64)) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	do(f.aircraft[number-1], f.nowS())
}

// Control of an aircraft. An order puts it under the leader's control; a pilot's action
// ends that at once, in every phase, and only the crew resumes it. A failsafe of the
// autopilot counts as its pilot: it is abandoned when another mode is commanded, so none is.

// modeReportDelayS is how long after its command a mode may be reported, beyond the
// interval of HEARTBEATs.
const modeReportDelayS = 3.0

// controlled is whether the leader controls it.
func (a *aircraft) controlled() bool {
	return a.phase != PhaseIdle && a.phase != PhasePilot && a.phase != PhaseRejoining
}

// handleHeartbeat handles the autopilot's mode and arming state.
func (a *aircraft) handleHeartbeat(f *Fleet, now float64, m *common.MessageHeartbeat) {
	kind, foreign := autopilotOf(m)
	if a.foreign = foreign; foreign == "" && kind != a.params.autopilot { // the first
		a.params.autopilot, a.params.leader = kind, f.leaderFacts()
	}
	wasMode, wasRole, wasArmed, wasFailsafe, wasS := a.mode, a.role(), a.armed, a.failsafe, a.heartbeatS
	a.heartbeatS, a.mode = now, Mode(m.CustomMode)
	a.armed = m.BaseMode&common.MAV_MODE_FLAG_SAFETY_ARMED != 0
	a.failsafe = m.SystemStatus == common.MAV_STATE_CRITICAL
	if a.mode != wasMode {
		a.modeSinceS = now
		if a.params.kind().traits().preArmByMode {
			a.preArm = PreArmUnknown
		}
	}
	expected := a.mode == wasMode || a.modeChangeExpected(f, wasMode, wasS, wasFailsafe)
	if !expected {
		a.modeUnexplainedS = now
	}
	if !a.controlled() {
		return
	}
	switch inHold := a.role() == RoleHold && wasMode == a.mode && !a.holdIsOurs; {
	case wasArmed && !a.armed:
		if a.phase != PhaseLanding || !a.onGround() { // otherwise the commanded landing is over
			a.handToPilot(f, "disarmed while "+a.phase.String())
		}
	case !wasArmed && a.armed && a.phase == PhaseClimbing && a.launchedS > 0 && a.armingRequestedS == 0:
		a.handToPilot(f, "armed by another than the leader")
	case a.mode != wasMode && a.streamHasGap(wasMode): // setpoints end it
		f.Log.Warn("setpoints did not arrive for a while: its failsafe holds it", "aircraft", a.number)
		a.phase, a.engagedS = PhaseEngaging, now
	case !expected:
		a.handToPilot(f, telemetry.ReasonLeft+a.params.kind().modeName(wasMode)+" for "+a.modeName()+" while "+a.phase.String())
	case a.mode != wasMode: // a failsafe that was there before its take-off ended is not what ended it
		a.holdIsOurs = a.role() == RoleHold && wasRole == RoleTakeoff && wasFailsafe
	case inHold && wasFailsafe && !a.failsafe: // with a stream it would have ended
		a.handToPilot(f, "the failsafe's "+a.modeName()+" became its pilot's while "+a.phase.String())
	case inHold && !wasFailsafe && a.failsafe:
		a.handToPilot(f, "a failsafe's "+a.modeName()+" began while "+a.phase.String())
	}
}

// streamHasGap is whether its autopilot's failsafe holds it for want of setpoints, of this
// leader process or of the one before.
func (a *aircraft) streamHasGap(from Mode) bool {
	switch a.phase {
	case PhaseEngaging, PhaseFlying, PhaseLanding:
		return a.params.kind().heldForSetpoints(a, from)
	}
	return false
}

// modeChangeExpected is whether a change of mode was commanded by the leader, or follows
// from its commands.
func (a *aircraft) modeChangeExpected(f *Fleet, from Mode, fromS float64, wasFailsafe bool) bool {
	if requestedS, ok := a.modeRequestedS[a.mode]; ok && requestedS > fromS-modeReportDelayS {
		return true
	}
	return a.params.kind().modeFollows(f, a, from, fromS, wasFailsafe)
}

// reasonStopped is why an aircraft that a command stopped is with its pilot.
const reasonStopped = "stopped"

func (a *aircraft) handToPilot(f *Fleet, why string) {
	a.leave(f, why, "aircraft is with its pilot until resume")
}

// stayDown ends the order of an aircraft that did not take off. No pilot has taken it; but nobody else commands it until
// it is launched again, so its phase is that of one with its pilot.
func (a *aircraft) stayDown(f *Fleet, why string) {
	a.leave(f, why, "aircraft stays on the ground until launch")
}

// leave ends the leader's control.
func (a *aircraft) leave(f *Fleet, why, message string) {
	if a.phase == PhasePilot {
		return
	}
	now := f.nowS()
	a.phase, a.homeward, a.sentHome, a.pilotReason = PhasePilot, false, "", why
	if a.autopilotText != "" && now-a.autopilotTextS > textRelevantS {
		a.autopilotText = "" // about something else
	}
	f.Log.Warn(message, "aircraft", a.number, "reason", a.reason())
}

// Stop hands an aircraft under control to its autopilot's hold.
func (f *Fleet) Stop(number int) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		if a.controlled() { // else nothing is commanded, or not before its state is known
			a.phase, a.homeward, a.sentHome, a.awaitsHeartbeatS, a.stopOrderedS = PhaseStopping, false, "", 0, now
		}
	})
}

// stop hands the aircraft to its autopilot's hold: once that is reported, it is under
// pilot control. An aircraft that lands or returns continues so.
func (a *aircraft) stop(f *Fleet, now float64) (out []message.Message, stream bool) {
	switch {
	case !a.armed:
		a.phase = PhaseIdle
	case a.role() == RoleLand || a.role() == RoleReturn:
		a.handToPilot(f, "stopped in "+a.modeName())
	case a.stopsSooner() && now-a.stopOrderedS < brakeMaxS: // by setpoints, which keep it clear of others
		return nil, true
	case a.role() == RoleHold && a.heartbeatS > a.commandedS &&
		(a.modeRequestedS[a.mode] >= a.commandedS || a.heartbeatS-a.commandedS > commandRetryS):
		a.handToPilot(f, reasonStopped) // and no command sent before the hold is still in transit
	default:
		return a.retryCommand(f, now, a.setMode(RoleHold)), a.followsSetpoints()
	}
	return nil, false
}

// stopsSooner is whether setpoints stop it on a shorter way than its own hold would.
func (a *aircraft) stopsSooner() bool {
	const measuredMPS = 8
	kind, speed := a.params.kind(), a.velocity.Norm()
	_, stopsInM := kind.motion(&a.params)
	return a.followsSetpoints() && speed > slowMPS && kind.fliesOnM(&a.params, speed, false) > stopsInM*max(1, speed/measuredMPS)*
		speed/measuredMPS
}

// followsSetpoints is whether it flies by the leader's setpoints, rather than climbs to where it will. They
// go on until another mode that is commanded is reported: without them a failsafe would act first.
func (a *aircraft) followsSetpoints() bool { return a.engagedS > 0 && a.role() == RoleCommanded }
