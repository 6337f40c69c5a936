package fleet

import (
	"math"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/firmware/envelope"
	"prefdt/inference/physics"
)

// tick sends the commands that are due, and one setpoint to each aircraft under
// control; all setpoints are checked by the envelope together.
func (f *Fleet) tick() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.readsFirst() {
		return
	}
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
			a.expireTrajectory(f, now)
			stream = a.trajectory.kind != trajectoryNone && !a.trajectory.ended
		}
		if !a.isObstacle() {
			continue
		}
		path := a.possiblePath(now)
		v := envelope.Vehicle{
			Controlled: stream && !a.silent(now), Position: path[len(path)-1], PossiblePath: path, UpM: a.upM,
			Velocity: a.velocity, TargetUpM: f.Limits.AltitudeM, Loop: a.params.positionLoop(), HeldAt: a.heldAt,
		}
		v.LagS, v.StopsInM = a.params.kind().motion(&a.params)
		v.LagS += a.updateDelayS(now)
		if now-a.positionS > staleAfterS {
			v.Velocity = physics.Position{}
		}
		v.Target, v.FeedForwardMPS = a.reference(now)
		v.Stays = a.trajectory.kind == trajectoryHold
		if !stream || a.upM > f.bandFromM() {
			a.climbFrom = nil
		} else { // it climbs before it flies anywhere
			if a.climbFrom == nil {
				a.climbFrom = &path[len(path)-1]
			}
			v.Target, v.FeedForwardMPS = *a.climbFrom, physics.Position{}
		}
		if stream && a.params.SpeedMaxMPS > 0 {
			limits.SpeedMaxMPS = min(limits.SpeedMaxMPS, a.params.SpeedMaxMPS)
		}
		v.FenceExempt, v.Landing = a.homeward || a.climbFrom != nil, a.phase == PhaseLanding && a.role() == RoleLand
		vehicles, of, streamed = append(vehicles, v), append(of, a), append(streamed, stream)
	}
	verdicts := f.envelopeChecker.Check(vehicles, limits)
	for i := range of {
		v := &vehicles[i]
		if streamed[i] && !v.Controlled { // not received: the others give way, it holds
			v.Hold(limits)
			verdicts[i] = envelope.Held
		}
		if !streamed[i] {
			verdicts[i] = envelope.Kept
		}
		of[i].updateHeldAt(now, verdicts[i], v)
		if !streamed[i] {
			continue
		}
		switch verdicts[i] {
		case envelope.Corrected:
			f.counts.Corrected++
		case envelope.Held:
			f.counts.Held++
		}
		if a := of[i]; f.send(a.link, a.channel, a, f.setpointMessage(a, v)) {
			f.counts.Setpoints++
		}
	}
	f.checkMeasured(of)
}

// readsFirst is whether the leader stood still, stopped or swapped out, and has to read what was sent
// meanwhile: a pilot may have taken an aircraft. By then the autopilots have missed their setpoints in
// any case. It is through when the autopilots' clocks run no faster than time. What waited may have been
// dropped: each aircraft is commanded again after its next HEARTBEAT. Called with the mutex held.
func (f *Fleet) readsFirst() bool {
	const (
		readsFor   = 50 * time.Millisecond // by the host's clock, however fast the mission runs
		bufferedMS = 200
	)
	now := f.Clock.Now()
	mostMS := 2*1000*(now-f.tickedAt).Seconds()*f.Speed + bufferedMS
	behind := f.stoodStill(now)
	if behind {
		f.heartbeatsFromS = (now + readsFor).Seconds() * f.Speed
	}
	for _, a := range f.aircraft {
		behind = behind || now < f.readsUntil && a.bootMS-a.bootMSAtTick > mostMS
		a.bootMSAtTick = a.bootMS
	}
	if behind {
		f.readsUntil = now + readsFor
	}
	f.tickedAt = now
	return now < f.readsUntil
}

// stoodStill is whether the leader did nothing for so long that its autopilots may have acted: what it
// decided at the last tick is not sent any more.
func (f *Fleet) stoodStill(now time.Duration) bool {
	const stallS = 1.5
	return (now-f.tickedAt).Seconds()*f.Speed > stallS
}

// updateDelayS returns how much later than usual its positions came, or its setpoints were sent,
// lately: as much later it follows.
func (a *aircraft) updateDelayS(now float64) float64 {
	const tickS, remembered = 0.1, 0.95 // the share of it that is left a tick later
	late := now - a.positionS - tickS
	if gap := now - a.setpointSentS; a.setpointSentS > 0 && gap < silentAfterS { // else none was to be sent
		late = max(late, gap-tickS)
	}
	a.delayS = min(max(late, remembered*a.delayS, 0), silentAfterS)
	return a.delayS
}

// checkMeasured keeps the least separation measured and raises alarms, once for each
// time that a limit is left.
func (f *Fleet) checkMeasured(obstacles []*aircraft) {
	for i, a := range obstacles {
		if !a.inAir() || a.lost {
			continue // about to take off, or not measured
		}
		alarm := ""
		if a.phase == PhaseFlying && !a.homeward {
			alarm = f.Limits.Alarm(a.position, a.upM)
		}
		for _, b := range obstacles[:i] {
			if !b.inAir() || b.lost {
				continue
			}
			d := a.position.Sub(b.position).Norm()
			f.counts.MinSeparationM = min(f.counts.MinSeparationM, d)
			if d < f.Limits.SeparationM && a.upM.Off(b.upM) < f.Limits.SeparationM && a.phase == PhaseFlying &&
				b.phase == PhaseFlying {
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

// setpointMessage is a position with velocity feed-forward in the global frame: the
// local frame is relative to each vehicle's own origin.
func (f *Fleet) setpointMessage(a *aircraft, v *envelope.Vehicle) message.Message {
	lat, lon, alt := f.Origin.Geodetic(v.Target, a.reportedM(v.TargetUpM))
	return &common.MessageSetPositionTargetGlobalInt{
		TimeBootMs:      uint32(int64(a.bootMS)), // it wraps there, too
		CoordinateFrame: common.MAV_FRAME_GLOBAL_INT,
		TypeMask: common.POSITION_TARGET_TYPEMASK_AX_IGNORE | common.POSITION_TARGET_TYPEMASK_AY_IGNORE |
			common.POSITION_TARGET_TYPEMASK_AZ_IGNORE | common.POSITION_TARGET_TYPEMASK_YAW_IGNORE |
			common.POSITION_TARGET_TYPEMASK_YAW_RATE_IGNORE,
		LatInt: int32(math.Round(lat * 1e7)), LonInt: int32(math.Round(lon * 1e7)), Alt: float32(alt),
		Vx: float32(v.FeedForwardMPS.NorthM), Vy: float32(v.FeedForwardMPS.EastM),
	}
}
