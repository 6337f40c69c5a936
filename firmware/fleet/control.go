package fleet

import (
	"math"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/inference/physics"
)

// Order is what the leader wants of an aircraft.
type Order uint8

const (
	OrderNone Order = iota // leave it alone
	OrderFly               // fly for us, after a take-off where Launch asked for one
	OrderHome              // fly to where it took off and land
	OrderStop              // hand it to its autopilot's Hold
)

// Phase is how far that has come.
type Phase uint8

const (
	PhaseIdle     Phase = iota // it has no order
	PhaseClimbing              // arming, taking off
	PhaseEngaging              // streaming, OFFBOARD asked for
	PhaseFlying                // in OFFBOARD, by us
	PhaseLanding               // Land, or Return, asked for
	PhasePilot                 // its pilot's until Resume in the air, Launch on the ground
	PhaseStopping              // Hold asked for, once
)

func (p Phase) String() string {
	return [...]string{"idle", "climbing", "engaging", "flying", "landing", "with its pilot", "stopping"}[p]
}

const (
	setpointLifeS             = 2.0  // a setpoint's time to live, slots
	streamEndS                = 12.0 // after that and ten more slots of holding the stream ends
	commandRetryS             = 1.0  // between repeats of a command
	recentHeartbeatS          = 0.35 // a command goes by a HEARTBEAT of so long ago, if there is one
	armingTimeoutS            = 10.0 // arming is asked for so long for each order (CONTRACT)
	armedReportDelayS         = 2.0  // and it may say so much later that it is armed
	climbToleranceM           = 3.0  // a climb ends so close to H
	arrivedM                  = 2.0
	lagMaxM                   = 3.0 // a leg or a transit makes up for no more: making up is flying faster
	offboardPrestreamS        = 0.5 // setpoints stream so long before OFFBOARD is asked for
	stillMPS                  = 0.5
	climbClearanceSeparations = 3.0  // D_min between a climb and one that moves at its start
	requestIntervalS          = 2.0  // between requests for missing streams
	homeBlockedS              = 60.0 // an aircraft held so long on its way home lands where it is
)

// control is the part of an aircraft's state that is ours.
type control struct {
	order               Order
	phase               Phase
	pilotReason         string // it is with its pilot
	trajectory          trajectory
	transitReference    physics.Position // a transit's reference at transitReferenceS
	transitReferenceS   float64
	launchOrdered       bool             // its order is to leave the ground
	armingRequested     bool             // asked for, since armingRequestedS
	armingRequestedS    float64          //
	modeRequestedS      map[Mode]float64 // when each mode was asked for last, since the order
	commandedS          float64          // the last command
	awaitsHeartbeat     bool             // to ask for something, with a recent HEARTBEAT, since awaitsHeartbeatS
	awaitsHeartbeatS    float64          //
	engagedS            float64          // streaming since
	setpointSentS       float64          // the last setpoint
	failsafeGraceUntilS float64          // until then, Hold may be the failsafe's of a stream that ended before ours
	setpointExpiredS    float64          // a setpoint outlived its two slots last
	requestedS          float64          // the last request for streams or parameters
	requestRounds       int
	takeoffWaits        bool              // to take off, for another that flies near its climb
	heldAt              *physics.Position // by the envelope, since heldS; nil: it is not
	heldS               float64
	alarm               string
}

// trajectory is where it is to fly.
type trajectory struct {
	kind          trajectoryKind
	setAtS        float64
	from          physics.Position // leg: its start; hold: where
	displacementM physics.Position // leg: metres in a slot
	target        physics.Position // point
	speedMPS      float64          // point
	ended         bool             // the stream ended for want of a new aim
}

type trajectoryKind uint8

const (
	trajectoryHold trajectoryKind = iota
	trajectoryLeg
	trajectoryTransit
)

// reference returns the setpoint: the position target of the slot's end, and a
// feed-forward that makes the autopilot's position loop and it together ask for
// the leg's speed. The loop alone would ask for gain x what is left of the leg,
// 8 m/s at its start and nothing at its end; the feed-forward is the rest.
func (a *aircraft) reference(now float64) (at, feed physics.Position) {
	switch a.trajectory.kind {
	case trajectoryLeg:
		left := max(1-(now-a.trajectory.setAtS), 0) // of the slot
		return a.trajectory.from.Add(a.trajectory.displacementM), a.trajectory.displacementM.Scale(1 - a.params.gainPerS()*left)
	case trajectoryTransit:
		from := a.advanceTransit(now)
		d := a.trajectory.target.Sub(from)
		if r := d.Norm(); r > a.trajectory.speedMPS {
			step := d.Scale(a.trajectory.speedMPS / r)
			return from.Add(step), step.Scale(1 - a.params.gainPerS())
		}
		return a.trajectory.target, physics.Position{}
	}
	return a.trajectory.from, physics.Position{}
}

// advanceTransit returns the point that moves to the aim at its speed and that the
// aircraft follows, never far from where it is. From the place measured last,
// the autopilot's position control would pull it back by what it flies while a
// setpoint is on its way and stands, and nothing would make up for the speed
// that it is short of: PX4 then flew 5 m/s at first and 7.4 at last, of 8.4.
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

// expireTrajectory turns an aim that outlived two slots into a position hold, and ends
// the stream ten slots later: it must not outlive a leader that stopped thinking.
// Stalls that follow on each other within that time are one event of the log.
func (a *aircraft) expireTrajectory(f *Fleet, now float64) {
	age := now - a.trajectory.setAtS
	switch {
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

// engage starts the stream with a hold where the aircraft is.
func (a *aircraft) engage(now float64) {
	a.phase, a.engagedS = PhaseEngaging, now
	a.trajectory = trajectory{kind: trajectoryHold, setAtS: now, from: a.position}
}

// checkReception notices an aircraft that is lost, and asks for what does not come:
// HEARTBEAT, streams, parameters.
func (a *aircraft) checkReception(f *Fleet, now float64) {
	if a.received && !a.lost && now-a.receivedS > lostAfterS {
		a.lost = true
		f.Log.Error("aircraft lost", "aircraft", a.number, "unheard_s", now-a.receivedS)
		if a.order != OrderNone {
			a.handToPilot(f, "lost")
		}
	}
	if a.lost && now-a.receivedS < staleAfterS {
		a.lost = false
		f.Log.Warn("aircraft heard again", "aircraft", a.number)
	}
	if a.textChunks.id != 0 && now-a.textChunks.receivedS > commandRetryS {
		a.finishStatusText(f, now) // its last chunk was lost, or is just full
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
	for _, s := range []struct {
		m         message.Message
		periodUS  float32
		lastS     float64
		expectedS float64
	}{
		{&common.MessageBatteryStatus{}, 250e3, a.batteryStatusS, 1},
		{&common.MessageGlobalPositionInt{}, 100e3, a.positionS, 1},
	} {
		if now-s.lastS < s.expectedS && a.requestRounds > 0 {
			continue
		}
		f.send(a.link, a.channel, a, &common.MessageCommandLong{Command: common.MAV_CMD_SET_MESSAGE_INTERVAL, Param1: float32(s.m.GetID()), Param2: s.periodUS})
		a.requestedS = now
	}
	a.requestRounds++
}

// requestMessages asks for messages now, and not again at once.
func (f *Fleet) requestMessages(l *endpointLink, c *gomavlib.Channel, a *aircraft, wanted ...message.Message) {
	const again = 0.25
	now := f.nowS()
	if a.messageRequestedS > 0 && now-a.messageRequestedS < again {
		return
	}
	a.messageRequestedS = now
	for _, m := range wanted {
		f.send(l, c, a, &common.MessageCommandLong{Command: common.MAV_CMD_REQUEST_MESSAGE, Param1: float32(m.GetID())})
	}
}

// retryCommand repeats a command no faster than commandRetryS. Its effect is judged by what
// the autopilot then says of itself, not by its acknowledgement.
//
// What is asked for goes by what its pilot did until now, not until a HEARTBEAT
// of up to two seconds ago: a recent one is asked for first, and waited for a second.
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
