package fleet

import (
	"math"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/inference/physics"
)

// steer advances what is asked of the aircraft by one tick. It returns the
// commands to send and whether a setpoint is due.
func (a *aircraft) steer(f *Fleet, now float64) (out []message.Message, stream bool) {
	a.watch(f, now)
	if !a.fresh(now) {
		return nil, false
	}
	switch a.order {
	case OrderFly:
		return a.fly(f, now)
	case OrderHome:
		return a.goHome(f, now)
	case OrderStop:
		switch {
		case a.phase == PhaseClimbing, a.phase == PhaseEngaging, a.phase == PhaseFlying, a.phase == PhaseLanding && a.mode == ModeOffboard:
			if a.mode == ModeHold {
				a.take(f, "stopped")
				return nil, false
			}
			return a.ask(now, setMode(ModeHold)), a.phase != PhaseClimbing
		}
	}
	return nil, false
}

func (a *aircraft) fly(f *Fleet, now float64) (out []message.Message, stream bool) {
	switch a.phase {
	case PhaseIdle, PhaseLanding:
		a.phase, a.climbs = PhaseClimbing, false
	case PhaseClimbing:
		switch {
		case a.inAir() && math.Abs(a.upM-f.Limits.AltitudeM) < levelM:
			a.engage(now)
		case a.inAir() && (a.theirs() || a.climbs && a.mode != ModeTakeoff):
			// Its pilot's choice, or a failsafe of its own: to ask for the
			// take-off again would overrule either.
			a.take(f, "left its climb for "+a.mode.String())
		case a.inAir() && a.mode == ModeTakeoff:
			a.climbs = true
		case (!a.armed || a.onGround()) && f.overhead(a, now):
		case !a.armed && a.mode != ModeHold && a.mode != ModeTakeoff:
			// PX4 has gone back to the mode it flew in before it landed, and does
			// not arm in OFFBOARD without a stream.
			return a.ask(now, setMode(ModeHold)), false
		case !a.armed:
			p := a.position
			a.home = &p
			return a.ask(now, &common.MessageCommandLong{Command: common.MAV_CMD_COMPONENT_ARM_DISARM, Param1: 1}), false
		default:
			nan := float32(math.NaN())
			return a.ask(now, &common.MessageCommandLong{
				Command: common.MAV_CMD_NAV_TAKEOFF, Param4: nan, Param5: nan, Param6: nan,
				Param7: float32(f.Origin.AltitudeM + f.Limits.AltitudeM),
			}), false
		}
	case PhaseEngaging:
		if a.mode == ModeOffboard {
			a.phase, a.engagedS = PhaseFlying, now
			f.Log.Info("flying for us", "aircraft", a.number)
			return nil, true
		}
		if a.theirs() {
			a.take(f, "pilot chose "+a.mode.String())
			return nil, false
		}
		if now-a.engagedS > settleS {
			out = a.ask(now, setMode(ModeOffboard))
		}
		for _, m := range a.request(now, &common.MessageHeartbeat{}) {
			out = append(out, m) // that says so, sooner than in a second
		}
		return out, true
	case PhaseFlying:
		if a.mode == ModeHold && now < a.graceS {
			a.phase = PhaseEngaging
			return nil, true
		}
		if a.mode != ModeOffboard && a.beatS > a.engagedS {
			a.take(f, "left OFFBOARD for "+a.mode.String())
			return nil, false
		}
		return nil, true
	}
	return nil, false
}

// overhead is whether another flies so near that an aircraft must not climb
// yet. Those that climb beside it stand still, and so may one that waits at H.
func (f *Fleet) overhead(a *aircraft, now float64) bool {
	for _, b := range f.aircraft {
		if b == a || !b.inTheWay() || b.phase == PhaseClimbing {
			continue
		}
		near := f.Limits.SeparationM - 1 // their positions may be off
		if b.velocity.Norm() > stillMPS || b.phase == PhaseFlying && b.aim.kind != aimHold {
			near = columnsClear * f.Limits.SeparationM
		}
		if d := distance(a.position, b.whereabouts(now)); d < near {
			if !a.waits {
				f.Log.Warn("take-off waits: another aircraft flies near", "aircraft", a.number, "other", b.number, "apart_m", d)
			}
			a.waits = true
			return true
		}
	}
	a.waits = false
	return false
}

// distance is that from a place to the nearest point of a way.
func distance(p physics.Position, way []physics.Position) float64 {
	least := p.Sub(way[0]).Norm()
	for i := 1; i < len(way); i++ {
		leg, q := way[i].Sub(way[i-1]), p.Sub(way[i-1])
		if ll := leg.EastM*leg.EastM + leg.NorthM*leg.NorthM; ll > 0 {
			along := min(max((q.EastM*leg.EastM+q.NorthM*leg.NorthM)/ll, 0), 1)
			least = min(least, q.Sub(leg.Scale(along)).Norm())
		}
	}
	return least
}

func (a *aircraft) goHome(f *Fleet, now float64) (out []message.Message, stream bool) {
	switch a.phase {
	case PhaseIdle: // after a restart
		switch {
		case a.onGround() && !a.armed:
			a.order = OrderNone
		case a.inAir() && (a.mode == ModeHold || a.mode == ModeOffboard || a.mode == ModeTakeoff):
			a.engage(now)
		case a.mode == ModeLand || a.mode == ModeReturn:
			a.phase, a.sinks = PhaseLanding, false
		case a.inAir():
			a.take(f, "pilot chose "+a.mode.String())
		}
	case PhaseClimbing:
		a.phase, a.sinks = PhaseLanding, false
	case PhaseEngaging, PhaseFlying:
		if a.home == nil {
			a.phase, a.sinks = PhaseLanding, false
			break
		}
		a.aim = aim{kind: aimPoint, setS: now, to: *a.home, speed: f.cruise()}
		out, stream = a.fly(f, now)
		if a.phase == PhaseFlying && a.position.Sub(*a.home).Norm() < arrivedM && a.velocity.Norm() < 2 {
			a.phase, a.sinks = PhaseLanding, false
		}
		return out, stream
	case PhaseLanding:
		if !a.armed && !a.inAir() {
			a.phase, a.order = PhaseIdle, OrderNone
			f.Log.Info("landed", "aircraft", a.number)
			return nil, false
		}
		if a.onGround() {
			return nil, false // it disarms by itself
		}
		want := ModeLand
		if a.home == nil {
			want = ModeReturn
		}
		switch {
		case a.mode == want:
			a.sinks = true
		case a.sinks || a.theirs():
			a.take(f, "pilot chose "+a.mode.String())
		default:
			// The stream goes on until the mode has changed, or its loss would
			// be the failsafe's to answer.
			return a.ask(now, setMode(want)), a.mode == ModeOffboard
		}
	}
	return nil, false
}

// held keeps the place where the envelope holds an aircraft. One that is kept
// from its home for too long lands: it must not hover until its battery is empty.
func (a *aircraft) held(f *Fleet, now float64, held bool, at physics.Position) {
	if !held {
		a.heldAt = nil
		return
	}
	if a.heldAt == nil {
		a.heldAt, a.heldS = &at, now
	}
	if a.order == OrderHome && a.phase == PhaseFlying && now-a.heldS > barredS {
		f.Log.Error("way home barred; lands where it is", "aircraft", a.number, "held_s", now-a.heldS)
		a.phase, a.sinks = PhaseLanding, false
	}
}
