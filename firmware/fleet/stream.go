package fleet

import (
	"math"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/firmware/envelope"
	"prefdt/inference/physics"
)

// tick sends what is due: commands, and one setpoint to each aircraft that
// flies for us, all of them through the envelope together.
func (f *Fleet) tick() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	now := f.nowS()
	var vehicles []envelope.Vehicle
	var of []*aircraft
	var streamed []bool
	limits := f.Limits
	for _, a := range f.aircraft {
		commands, stream := a.steer(f, now)
		for _, m := range commands {
			f.send(a, m)
		}
		if stream {
			a.expire(f, now)
			stream = !a.aim.ended
		}
		if !a.inTheWay() {
			continue
		}
		way := a.whereabouts(now)
		v := envelope.Vehicle{
			Ours: stream && !a.silent(now), Position: way[len(way)-1], Way: way, UpM: a.upM,
			Velocity: a.velocity, TargetUp: f.Limits.AltitudeM, GainPerS: a.params.gain(), HeldAt: a.heldAt,
		}
		if now-a.positionS > staleS {
			v.Velocity = physics.Position{}
		}
		v.Target, v.FeedMPS = a.reference(now)
		if stream && a.params.SpeedMaxMPS > 0 {
			limits.SpeedMaxMPS = min(limits.SpeedMaxMPS, a.params.SpeedMaxMPS)
		}
		v.Free = a.order == OrderHome
		vehicles, of, streamed = append(vehicles, v), append(of, a), append(streamed, stream)
	}
	f.verdicts = f.checker.Check(vehicles, limits)
	for i := range of {
		v := &vehicles[i]
		if streamed[i] && !v.Ours { // unheard: the others make way, it holds
			l := limits
			if v.Free {
				l.AreaM = 0
			}
			v.Hold(l)
			f.verdicts[i] = envelope.Held
		}
		of[i].held(f, now, streamed[i] && f.verdicts[i] == envelope.Held, v.Target)
		if !streamed[i] {
			continue
		}
		switch f.verdicts[i] {
		case envelope.Corrected:
			f.counts.Corrected++
		case envelope.Held:
			f.counts.Held++
		}
		f.counts.Setpoints++
		f.send(of[i], f.setpoint(of[i], v))
	}
	f.observe(of)
}

// observe keeps the least separation measured and raises alarms, once for each
// time a limit is left.
func (f *Fleet) observe(up []*aircraft) {
	for i, a := range up {
		if !a.inAir() || a.lost {
			continue // about to take off, or nothing measured
		}
		alarm := ""
		if a.phase == PhaseFlying && a.order == OrderFly {
			alarm = f.Limits.Alarm(a.position, a.upM)
		}
		for _, b := range up[:i] {
			if !b.inAir() || b.lost {
				continue
			}
			d := a.position.Sub(b.position).Norm()
			f.counts.MinSeparationM = min(f.counts.MinSeparationM, d)
			if d < f.Limits.SeparationM && math.Abs(a.upM-b.upM) < f.Limits.SeparationM && a.phase == PhaseFlying && b.phase == PhaseFlying {
				alarm = "closer to another than the least separation"
			}
		}
		if alarm != a.alarm {
			if alarm != "" {
				f.counts.Alarms++
				f.Log.Error("flight alarm", "aircraft", a.number, "alarm", alarm,
					"east_m", a.position.EastM, "north_m", a.position.NorthM, "up_m", a.upM)
			}
			a.alarm = alarm
		}
	}
}

// setpoint is a position with velocity feed-forward in the global frame: a
// local one would be relative to each vehicle's own origin.
func (f *Fleet) setpoint(a *aircraft, v *envelope.Vehicle) message.Message {
	lat, lon, alt := f.Origin.Geodetic(v.Target, v.TargetUp)
	return &common.MessageSetPositionTargetGlobalInt{
		TimeBootMs:      uint32(a.bootMS),
		CoordinateFrame: common.MAV_FRAME_GLOBAL_INT,
		TypeMask: common.POSITION_TARGET_TYPEMASK_AX_IGNORE | common.POSITION_TARGET_TYPEMASK_AY_IGNORE |
			common.POSITION_TARGET_TYPEMASK_AZ_IGNORE | common.POSITION_TARGET_TYPEMASK_YAW_IGNORE |
			common.POSITION_TARGET_TYPEMASK_YAW_RATE_IGNORE,
		LatInt: int32(math.Round(lat * 1e7)), LonInt: int32(math.Round(lon * 1e7)), Alt: float32(alt),
		Vx: float32(v.FeedMPS.NorthM), Vy: float32(v.FeedMPS.EastM),
	}
}

// send addresses a message to an aircraft. The node drops it silently when the
// link cannot keep up; nothing here takes a sent message for a received one.
func (f *Fleet) send(a *aircraft, m message.Message) {
	if a.channel == nil {
		return
	}
	system := uint8(a.conf.SystemID)
	switch m := m.(type) {
	case *common.MessageCommandLong:
		m.TargetSystem, m.TargetComponent = system, autopilotComponent
	case *common.MessageSetPositionTargetGlobalInt:
		m.TargetSystem, m.TargetComponent = system, autopilotComponent
	case *common.MessageParamRequestRead:
		m.TargetSystem, m.TargetComponent = system, autopilotComponent
	}
	a.link.node.WriteMessageTo(a.channel, m) // cannot fail: every message is of the dialect
}

// cruise is the speed of transits: v*, or what the autopilots allow.
func (f *Fleet) cruise() float64 {
	limit := f.Limits.SpeedMaxMPS
	for _, a := range f.aircraft {
		if s := a.params.SpeedMaxMPS; s > 0 {
			limit = min(limit, s)
		}
	}
	return f.Physics.Propulsion.BestSpeedMPS(limit)
}

// Leg asks an aircraft to fly a displacement in the coming slot: from where the
// leg before has led to, so that a lag is made up for and not forgiven slot by
// slot, as far as that is near where it is.
func (f *Fleet) Leg(number int, moveM physics.Position) {
	f.with(number, func(a *aircraft, now float64) {
		age := min(max(now-a.positionS, 0), staleS)
		from := a.position.Add(a.velocity.Scale(age))
		if a.aim.kind == aimLeg {
			lag := a.aim.from.Add(a.aim.moveM.Scale(now - a.aim.setS)).Sub(from)
			from = from.Add(lag.Scale(math.Min(1, lagM/math.Max(lag.Norm(), 1e-9))))
		}
		a.aim = aim{kind: aimLeg, setS: now, from: from, moveM: moveM}
	})
}

// Goto asks an aircraft to fly to a point at the speed of least power.
func (f *Fleet) Goto(number int, to physics.Position) {
	f.with(number, func(a *aircraft, now float64) {
		a.aim = aim{kind: aimPoint, setS: now, to: to, speed: f.cruise()}
	})
}

// Hold asks an aircraft to stay where it is, and stays there when repeated.
func (f *Fleet) Hold(number int) {
	f.with(number, func(a *aircraft, now float64) {
		if a.aim.kind != aimHold || a.aim.ended {
			a.aim = aim{kind: aimHold, from: a.position}
		}
		a.aim.setS = now
	})
}

// Command gives an aircraft an order.
func (f *Fleet) Command(number int, o Order) {
	f.with(number, func(a *aircraft, now float64) { a.order = o })
}

// Resume takes an aircraft back from its pilot, where it is: in the air OFFBOARD
// is asked for; on the ground it takes off, if it is to fly.
func (f *Fleet) Resume(number int, o Order) {
	f.with(number, func(a *aircraft, now float64) {
		if a.phase != PhaseTaken && a.phase != PhaseIdle {
			return
		}
		a.order, a.why, a.grant = o, "", a.mode
		if a.mode == ModeOffboard { // a leader before us streamed until lately
			a.graceS = now + 2
		}
		switch {
		case a.inAir() && (o == OrderHome || a.upM > f.Limits.AltitudeM-f.Limits.BandM):
			a.engage(now)
		case o == OrderHome:
			a.phase, a.sinks = PhaseLanding, false
		default:
			a.phase, a.climbs = PhaseClimbing, false
		}
	})
}

// Clear says that whoever is silent is out of the others' way, until it is
// heard. It returns their numbers.
func (f *Fleet) Clear() (numbers []int) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, a := range f.aircraft {
		if a.inTheWay() && (a.lost || !a.heard) {
			a.cleared = true
			numbers = append(numbers, a.number)
		}
	}
	return numbers
}

// Leave says that an aircraft is with its pilot until resume.
func (f *Fleet) Leave(number int, why string) {
	f.with(number, func(a *aircraft, now float64) {
		a.order = OrderFly
		a.take(f, why)
	})
}

func (f *Fleet) with(number int, do func(a *aircraft, now float64)) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	do(f.aircraft[number-1], f.nowS())
}
