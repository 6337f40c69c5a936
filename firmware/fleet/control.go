package fleet

import (
	"math"

	"github.com/bluenviron/gomavlib/v3"
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
	phase             Phase
	homeward          bool   // it is to fly home and land, rather than follow the setpoints; as in every PhaseLanding
	pilotReason       string // why it is under pilot control
	sentHome          string // why the leader sent it home by itself; empty: it did not, since the last order
	trajectory        trajectory
	transitReference  physics.Position // a transit's reference at transitReferenceS
	transitReferenceS float64
	launchOrdered     bool             // its order includes leaving the ground, since launchedS
	launchedS         float64          //
	armingRequested   bool             // commanded, since armingRequestedS
	armingRequestedS  float64          //
	checksSinceS      float64          // the checks of the mode in which it is armed are waited for since; 0: they are not
	modeRequestedS    map[Mode]float64 // when each mode was last commanded, since the order
	commandedS        float64          // the last command
	awaitsHeartbeat   bool             // a command waits for a recent HEARTBEAT, since awaitsHeartbeatS
	awaitsHeartbeatS  float64          //
	stopOrderedS      float64          // in PhaseStopping since
	engagedS          float64          // streaming since; 0: never in this order
	setpointSentS     float64          // the last setpoint
	takeoffSentS      float64          // the last take-off command of this order; 0: none
	mayEngage         bool             // it may be engaged: see SetDurable
	holdIsOurs        bool             // the hold that it is in, failsafe or not, follows from its order
	setpointExpiredS  float64          // when a setpoint last was older than two slots
	requestedS        float64          // the last request for streams or parameters
	requestRounds     int
	slowSinceS        float64           // it has had a way to go and has not been faster than slowMPS
	takeoffWaits      bool              // its take-off waits for another aircraft near its climb
	heldAt            *physics.Position // by the envelope; nil: it is not
	climbFrom         *physics.Position // where it climbs by setpoints before it flies on; nil: it does not
	nearestHomeM      float64           // on its way home, since nearerHomeS
	nearerHomeS       float64
	leastWayM         float64 // the shortest way home that was left, since leastWayS
	leastWayS         float64
	landsBeside       *physics.Position // near its home, where another lies; nil: it lands at home
	waitsAt           *physics.Position // on its way, beside another that goes first; nil: it does not
	transit           transit           // that does not lead home
	queue             int               // others that land, or are on their way home too
	queueS            float64           // one less of them since
	arrivedS          float64           // within arrivedM of its home since, and not held
	landsBy           Role              // rather than as usual, since a mode was refused; 0: as usual
	landingAskedS     float64           // the mode in which it lands was first asked for
	groundS           float64           // on the ground after a landing, at groundUpM, since; 0: it is not
	groundUpM         height.AboveOrigin
	alarm             string
	failsafeAlarm     string     // its autopilot's failsafe is not the one that was checked
	launchFailsafes   [8]float64 // when it was launched
}

// trajectory is the motion that its setpoints command.
type trajectory struct {
	kind          trajectoryKind
	setAtS        float64
	from          physics.Position // leg: its start; hold: where
	displacementM physics.Position // leg: metres in a slot
	target        physics.Position // transit
	speedMPS      float64          // transit
	ended         bool             // the stream ended for lack of a new trajectory
}

type trajectoryKind uint8

const (
	trajectoryNone trajectoryKind = iota // none was ordered: no setpoint is sent
	trajectoryHold
	trajectoryLeg
	trajectoryTransit
)

// reference returns the setpoint: the position target of the slot's end, and a
// feed-forward with which the autopilot's position loop commands the leg's speed. The
// loop alone would command gain x the rest of the leg, 8 m/s at its start and nothing
// at its end; the feed-forward is the difference.
func (a *aircraft) reference(now float64) (at, feed physics.Position) {
	switch loop := a.params.positionLoop(); a.trajectory.kind {
	case trajectoryLeg:
		left := max(1-(now-a.trajectory.setAtS), 0) // of the slot
		step := a.trajectory.displacementM
		return a.trajectory.from.Add(step), step.Sub(loop.Approach(step.Scale(left)))
	case trajectoryTransit:
		if a.waitsAt != nil {
			return *a.waitsAt, physics.Position{}
		}
		from := a.advanceTransit(now)
		d := a.trajectory.target.Sub(from)
		if r := d.Norm(); r > a.trajectory.speedMPS {
			step := d.Scale(a.trajectory.speedMPS / r)
			return from.Add(step), step.Sub(loop.Approach(step))
		}
		return a.trajectory.target, physics.Position{}
	case trajectoryHold: // where it comes to rest, or turns: one that follows late would be flown back a long way
		off := a.position.Sub(a.trajectory.from)
		if r := off.Norm(); r > heldWithinM && a.velocity.Dot(off)/r < stillMPS {
			a.trajectory.from = a.position
		}
	}
	return a.trajectory.from, physics.Position{}
}

// advanceTransit returns a point that moves to the target at the transit's speed and
// that the aircraft follows, never far from its position. If setpoints began at the
// measured position, the autopilot's position control would pull the aircraft back
// by the distance flown during a setpoint's delay and life, and nothing would make up
// for missing speed: one was then flown at 5 m/s at first and 7.4 at last, of 8.4.
func (a *aircraft) advanceTransit(now float64) physics.Position {
	at := a.positionAt(now)
	lead := at
	if passedS := now - a.transitReferenceS; passedS >= 0 && passedS < 1 {
		d := a.trajectory.target.Sub(a.transitReference)
		lead = a.transitReference.Add(d.Scale(a.trajectory.speedMPS * passedS / math.Max(d.Norm(), a.trajectory.speedMPS)))
		ahead := lead.Sub(at)
		lead = at.Add(ahead.Scale(math.Min(1, lagMaxM/math.Max(ahead.Norm(), lagMaxM))))
	}
	a.transitReference, a.transitReferenceS = lead, now
	return lead
}

// expireTrajectory replaces a trajectory older than two slots by a position hold, and
// ends the stream ten slots later: it must not continue after the loop has stalled.
// Repeated stalls within that time are one event of the log.
func (a *aircraft) expireTrajectory(f *Fleet, now float64) {
	age := now - a.trajectory.setAtS
	switch {
	case a.trajectory.kind == trajectoryNone:
	case age > setpointLifeS && a.trajectory.kind != trajectoryHold:
		f.counts.ExpiredSetpoints++
		if a.setpointExpiredS == 0 || now-a.setpointExpiredS > streamEndS {
			f.Log.Warn("setpoint outlived two slots; holding", "aircraft", a.number)
		}
		a.setpointExpiredS = now
		a.trajectory = trajectory{kind: trajectoryHold, setAtS: a.trajectory.setAtS, from: a.position}
	case age > streamEndS && !a.trajectory.ended:
		f.Log.Error("no new setpoint for twelve slots; the stream ends", "aircraft", a.number)
		a.trajectory.ended = true
	}
}

// hold has it stay at its position. Repeated, the position stays the same.
func (a *aircraft) hold(now float64) {
	if a.trajectory.kind != trajectoryHold || a.trajectory.ended {
		a.trajectory = trajectory{kind: trajectoryHold, from: a.position}
	}
	a.trajectory.setAtS = now
}

// engage starts the stream with a hold where the aircraft is.
func (a *aircraft) engage(now float64) {
	a.phase, a.engagedS = PhaseEngaging, now
	a.trajectory = trajectory{kind: trajectoryHold, setAtS: now, from: a.position}
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
		if now-a.lastReceivedS(s.message) < 1 && a.requestRounds > 0 {
			continue
		}
		f.send(a.link, a.channel, a, &common.MessageCommandLong{Command: common.MAV_CMD_SET_MESSAGE_INTERVAL,
			Param1: float32(s.message.GetID()), Param2: s.periodUS})
		a.requestedS = now
	}
	a.requestRounds++
}

// lastReceivedS is when the last message of a stream was received.
func (a *aircraft) lastReceivedS(m message.Message) float64 {
	switch m.(type) {
	case *common.MessageBatteryStatus:
		return a.batteryStatusS
	case *common.MessageGlobalPositionInt:
		return a.positionS
	case *common.MessageExtendedSysState:
		return a.landedS
	}
	return a.preArmS
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

// retryCommand repeats a command at most every commandRetryS. Its effect is judged by
// the autopilot's state messages, not by its acknowledgement.
//
// A command must respect what the pilot did until now, not until a HEARTBEAT of up to
// two seconds ago: a recent one is requested first, and waited for at most a second.
func (a *aircraft) retryCommand(f *Fleet, now float64, m message.Message) []message.Message {
	if now-a.commandedS < commandRetryS || !a.heartbeatFresh(now) {
		return nil
	}
	if now-a.heartbeatS > recentHeartbeatS {
		if !a.awaitsHeartbeat {
			a.awaitsHeartbeat, a.awaitsHeartbeatS = true, now
		}
		f.requestMessages(a.link, a.channel, a, &common.MessageHeartbeat{})
		if now-a.awaitsHeartbeatS < commandRetryS {
			return nil
		}
	}
	a.commandedS, a.awaitsHeartbeat = now, false
	return []message.Message{m}
}
