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
	PhaseTaken                 // its pilot's until Resume in the air, Launch on the ground
	PhaseStopping              // Hold asked for, once
)

func (p Phase) String() string {
	return [...]string{"idle", "climbing", "engaging", "flying", "landing", "with its pilot", "stopping"}[p]
}

const (
	liveS        = 2.0  // a setpoint's time to live, slots
	streamS      = 12.0 // after that and ten more slots of holding the stream ends
	retryS       = 1.0  // between repeats of a command
	recentS      = 0.35 // a command goes by a HEARTBEAT of so long ago, if there is one
	armS         = 10.0 // arming is asked for so long for each order (CONTRACT)
	armedLateS   = 2.0  // and it may say so much later that it is armed
	levelM       = 3.0  // a climb ends so close to H
	arrivedM     = 2.0
	lagM         = 3.0 // a leg or a transit makes up for no more: making up is flying faster
	settleS      = 0.5 // setpoints stream so long before OFFBOARD is asked for
	stillMPS     = 0.5
	columnsClear = 3.0  // D_min between a climb and one that moves at its start
	requestS     = 2.0  // between requests for missing streams
	barredS      = 60.0 // an aircraft held so long on its way home lands where it is
)

// control is the part of an aircraft's state that is ours.
type control struct {
	order     Order
	phase     Phase
	why       string // it is with its pilot
	aim       aim
	lead      physics.Position // a transit's reference at leadS
	leadS     float64
	launched  bool             // its order is to leave the ground
	arming    bool             // asked for, since armingS
	armingS   float64          //
	askedFor  map[Mode]float64 // when each mode was asked for last, since the order
	askedS    float64          // the last command
	wants     bool             // to ask for something, with a recent HEARTBEAT, since wantsS
	wantsS    float64          //
	engagedS  float64          // streaming since
	streamedS float64          // the last setpoint
	graceS    float64          // until then, Hold may be the failsafe's of a stream that ended before ours
	stalledS  float64          // a setpoint outlived its two slots last
	requestS  float64          // the last request for streams or parameters
	requests  int
	waits     bool              // to take off, for another that flies near its climb
	heldAt    *physics.Position // by the envelope, since heldS; nil: it is not
	heldS     float64
	alarm     string
}

// aim is where it is to fly.
type aim struct {
	kind  aimKind
	setS  float64
	from  physics.Position // leg: its start; hold: where
	moveM physics.Position // leg: metres in a slot
	to    physics.Position // point
	speed float64          // point
	ended bool             // the stream ended for want of a new aim
}

type aimKind uint8

const (
	aimHold aimKind = iota
	aimLeg
	aimPoint
)

// reference returns the setpoint: the position target of the slot's end, and a
// feed-forward that makes the autopilot's position loop and it together ask for
// the leg's speed. The loop alone would ask for gain x what is left of the leg,
// 8 m/s at its start and nothing at its end; the feed-forward is the rest.
func (a *aircraft) reference(now float64) (at, feed physics.Position) {
	switch a.aim.kind {
	case aimLeg:
		left := max(1-(now-a.aim.setS), 0) // of the slot
		return a.aim.from.Add(a.aim.moveM), a.aim.moveM.Scale(1 - a.params.gain()*left)
	case aimPoint:
		from := a.transit(now)
		d := a.aim.to.Sub(from)
		if r := d.Norm(); r > a.aim.speed {
			step := d.Scale(a.aim.speed / r)
			return from.Add(step), step.Scale(1 - a.params.gain())
		}
		return a.aim.to, physics.Position{}
	}
	return a.aim.from, physics.Position{}
}

// transit returns the point that moves to the aim at its speed and that the
// aircraft follows, never far from where it is. From the place measured last,
// the autopilot's position control would pull it back by what it flies while a
// setpoint is on its way and stands, and nothing would make up for the speed
// that it is short of: PX4 then flew 5 m/s at first and 7.4 at last, of 8.4.
func (a *aircraft) transit(now float64) physics.Position {
	at := a.at(now)
	lead := at
	if passedS := now - a.leadS; passedS >= 0 && passedS < 1 {
		d := a.aim.to.Sub(a.lead)
		lead = a.lead.Add(d.Scale(a.aim.speed * passedS / math.Max(d.Norm(), a.aim.speed)))
		ahead := lead.Sub(at)
		lead = at.Add(ahead.Scale(math.Min(1, lagM/math.Max(ahead.Norm(), lagM))))
	}
	a.lead, a.leadS = lead, now
	return lead
}

// expire turns an aim that outlived two slots into a position hold, and ends
// the stream ten slots later: it must not outlive a leader that stopped thinking.
// Stalls that follow on each other within that time are one event of the log.
func (a *aircraft) expire(f *Fleet, now float64) {
	age := now - a.aim.setS
	switch {
	case age > liveS && a.aim.kind != aimHold:
		f.counts.Stalled++
		if a.stalledS == 0 || now-a.stalledS > streamS {
			f.Log.Warn("setpoint outlived two slots; holding", "aircraft", a.number)
		}
		a.stalledS = now
		a.aim = aim{kind: aimHold, setS: a.aim.setS, from: a.position}
	case age > streamS && !a.aim.ended:
		f.Log.Error("no new setpoint for twelve slots; the stream ends", "aircraft", a.number)
		a.aim.ended = true
	}
}

// engage starts the stream with a hold where the aircraft is.
func (a *aircraft) engage(now float64) {
	a.phase, a.engagedS = PhaseEngaging, now
	a.aim = aim{kind: aimHold, setS: now, from: a.position}
}

// watch notices an aircraft that is lost, and asks for what does not come:
// HEARTBEAT, streams, parameters.
func (a *aircraft) watch(f *Fleet, now float64) {
	if a.heard && !a.lost && now-a.heardS > lostS {
		a.lost = true
		f.Log.Error("aircraft lost", "aircraft", a.number, "unheard_s", now-a.heardS)
		if a.order != OrderNone {
			a.take(f, "lost")
		}
	}
	if a.lost && now-a.heardS < staleS {
		a.lost = false
		f.Log.Warn("aircraft heard again", "aircraft", a.number)
	}
	if a.words.id != 0 && now-a.words.atS > retryS {
		a.endText(f, now) // its last chunk was lost, or is just full
	}
	if a.channel == nil {
		return
	}
	if !a.beatFresh(now) && now-a.heardS < staleS {
		f.request(a.link, a.channel, a, &common.MessageHeartbeat{})
	}
	if now-a.requestS < requestS {
		return
	}
	for _, name := range a.params.missing() {
		f.send(a.link, a.channel, a, &common.MessageParamRequestRead{ParamId: name, ParamIndex: -1})
		a.requestS = now
	}
	a.params.asked++
	for _, s := range []struct {
		m         message.Message
		periodUS  float32
		lastS     float64
		expectedS float64
	}{
		{&common.MessageBatteryStatus{}, 250e3, a.statusS, 1},
		{&common.MessageGlobalPositionInt{}, 100e3, a.positionS, 1},
	} {
		if now-s.lastS < s.expectedS && a.requests > 0 {
			continue
		}
		f.send(a.link, a.channel, a, &common.MessageCommandLong{Command: common.MAV_CMD_SET_MESSAGE_INTERVAL, Param1: float32(s.m.GetID()), Param2: s.periodUS})
		a.requestS = now
	}
	a.requests++
}

// request asks for messages now, and not again at once.
func (f *Fleet) request(l *link, c *gomavlib.Channel, a *aircraft, wanted ...message.Message) {
	const again = 0.25
	now := f.nowS()
	if a.greetedS > 0 && now-a.greetedS < again {
		return
	}
	a.greetedS = now
	for _, m := range wanted {
		f.send(l, c, a, &common.MessageCommandLong{Command: common.MAV_CMD_REQUEST_MESSAGE, Param1: float32(m.GetID())})
	}
}

// ask repeats a command no faster than retryS. Its effect is judged by what
// the autopilot then says of itself, not by its acknowledgement.
//
// What is asked for goes by what its pilot did until now, not until a HEARTBEAT
// of up to two seconds ago: a recent one is asked for first, and waited for a second.
func (a *aircraft) ask(f *Fleet, now float64, m message.Message) []message.Message {
	if now-a.askedS < retryS || !a.beatFresh(now) {
		return nil
	}
	if now-a.beatS > recentS {
		if !a.wants {
			a.wants, a.wantsS = true, now
		}
		f.request(a.link, a.channel, a, &common.MessageHeartbeat{})
		if now-a.wantsS < retryS {
			return nil
		}
	}
	a.askedS, a.wants = now, false
	return []message.Message{m}
}
