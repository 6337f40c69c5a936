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
			f.send(a.link, a.channel, a, m)
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
		if a := of[i]; f.send(a.link, a.channel, a, f.setpoint(a, v)) {
			f.counts.Setpoints++
		}
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
