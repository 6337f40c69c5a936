package fleet

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/firmware/envelope"
	"prefdt/firmware/height"
	"prefdt/inference/physics"
)

// flier is a simulated vehicle that flies, in virtual time: position and velocity loops,
// climb and descent as PX4's defaults have them (simbridge/autopilot has the figures).
type flier struct {
	*simVehicle
	home                    physics.Position
	hold                    physics.Position // of Hold, Land and Return
	holdUpM                 height.AboveOrigin
	groundUpM               height.AboveOrigin
	target                  physics.Position // of the last setpoint
	feed                    physics.Position
	targetUpM               height.AboveOrigin
	setpointS               float64 // when that took effect
	next                    *common.MessageSetPositionTargetGlobalInt
	climbMPS                float64
	integral, accel         physics.Position
	contactS, armedS        float64 // on the ground since, armed since
	takingOff               bool
	refusesOffboard         bool
	refusesReturn           bool
	neverDisarms            bool
	descentMPS, ascentMPS   float64
	gust                    *rand.Rand       // nil: the air is calm
	gustMPS2                physics.Position // an acceleration
	landedAt                *physics.Position
	fastest, sidewaysBelowM float64
	accelMPSS, jerkMPSSS    float64 // of an ArduCopter
}

// sky is fliers in one fixture, and what was seen of them.
type sky struct {
	*fixture
	fliers   []*flier
	nearestM float64 // least distance of two in flight that are within 10 m of height
	levelM   float64 // likewise whatever their heights
	stands   bool    // the leader does nothing
}

func newSky(t testing.TB, homes ...physics.Position) *sky {
	w := &sky{fixture: newFixtureOf(t, len(homes)), nearestM: math.Inf(1), levelM: math.Inf(1)}
	w.Limits.SeparationM = 12 // as the leader sets it: 10 m, and 2 m of margin
	for i, home := range homes {
		v := &flier{simVehicle: newSimVehicle(w.fixture, i+1, home), home: home, hold: home, descentMPS: 1.5, ascentMPS: 3}
		w.fliers = append(w.fliers, v)
	}
	return w
}

// newCopterSky is the same with ArduCopters which follow as late as the leader asks of them, or
// as late as they do by default.
func newCopterSky(t testing.TB, slow bool, homes ...physics.Position) *sky {
	w := &sky{fixture: newFixtureOf(t, len(homes)), nearestM: math.Inf(1), levelM: math.Inf(1)}
	w.Limits.SeparationM = 12
	for i, home := range homes {
		v := &flier{simVehicle: newSimCopter(w.fixture, i+1, home), home: home, hold: home, descentMPS: 1.5, ascentMPS: 2.5, accelMPSS: 5,
			jerkMPSSS: 20, setpointS: math.Inf(-1)}
		if slow {
			v.accelMPSS, v.jerkMPSSS = 2.5, 5
			for name, x := range map[string]float32{"WPNAV_ACCEL": 250, "PSC_JERK_XY": 5} {
				v.transmit(&common.MessageParamValue{ParamId: name, ParamType: common.MAV_PARAM_TYPE_REAL32, ParamValue: x})
			}
		}
		w.fliers = append(w.fliers, v)
	}
	return w
}

func newSkyOf(t testing.TB, copter bool, homes ...physics.Position) *sky {
	if copter {
		return newCopterSky(t, false, homes...)
	}
	return newSky(t, homes...)
}

func (v *flier) kind() autopilot {
	if v.copter {
		return ardupilot{}
	}
	return px4{}
}

// does is what its mode has it do.
func (v *flier) does() Role {
	for _, r := range []Role{RoleTakeoff, RoleCommanded, RoleHold, RoleReturn, RoleLand} {
		if v.kind().traits().modes[r] == v.mode && !(v.copter && r == RoleTakeoff && !v.climbs) {
			return r
		}
	}
	return RoleOther
}

// aloft puts a flier in the air, in Hold, at a position and height.
func (v *flier) aloft(at physics.Position, upM height.AboveOrigin) {
	v.position, v.upM, v.hold, v.holdUpM = at, upM, at, upM
	v.mode, v.armed, v.landed, v.takingOff = v.kind().traits().modes[RoleHold], true, false, false
	v.sendHeartbeat()
	v.sendState()
}

// fly lets time pass until done, or for a time, and reports whether it was done.
func (w *sky) fly(d time.Duration, done func() bool) bool {
	const step = 100 * time.Millisecond
	for ; d > 0; d -= step {
		if done != nil && done() {
			return true
		}
		w.sent.frames = nil
		if !w.stands {
			w.persist()
			w.tick()
		}
		for _, m := range w.sent.drain() {
			w.deliver(m)
		}
		w.clock.Advance(step)
		for _, v := range w.fliers {
			for range 10 {
				v.step(0.01)
			}
			v.bootMS += 100
			if v.bootMS%1000 == 0 {
				v.sendHeartbeat()
			}
			v.sendState()
		}
		w.measure()
	}
	return done != nil && done()
}

func (w *sky) measure() {
	for i, v := range w.fliers {
		v.fastest = max(v.fastest, v.velocity.Norm())
		for _, o := range w.fliers[:i] {
			d, flying := v.position.Sub(o.position).Norm(), v.upM > v.groundUpM+1 && o.upM > o.groundUpM+1
			if flying {
				w.levelM = min(w.levelM, d)
			}
			if (v.upM > v.groundUpM+1 || o.upM > o.groundUpM+1) && v.upM.Off(o.upM) < 10 {
				w.nearestM = min(w.nearestM, d)
			}
		}
	}
}

func (w *sky) deliver(m message.Message) {
	switch m := m.(type) {
	case *common.MessageSetPositionTargetGlobalInt:
		w.fliers[m.TargetSystem-1].next = m
	case *common.MessageCommandLong:
		if m.TargetSystem > 0 {
			w.fliers[m.TargetSystem-1].obey(m)
		}
	}
}

func (v *flier) obey(m *common.MessageCommandLong) {
	what, mode := classify(v.kind(), m)
	switch {
	case m.Command == common.MAV_CMD_REQUEST_MESSAGE && m.Param1 == 0:
		v.sendHeartbeat()
	case what == kindArm:
		v.armed, v.armedS = true, v.nowS()
	case what == kindTakeOff:
		v.enter(mode)
		v.takingOff, v.climbs, v.holdUpM = true, v.copter, v.Limits.AltitudeM
	case what == kindMode && mode == v.kind().traits().modes[RoleCommanded] && v.refusesOffboard,
		what == kindMode && mode == v.kind().traits().modes[RoleReturn] && v.refusesReturn:
	case what == kindMode && v.mode != mode:
		v.enter(mode)
	}
}

func (v *flier) enter(m Mode) {
	v.mode, v.hold, v.holdUpM, v.climbs = m, v.position, v.upM, false
	if m == v.kind().traits().modes[RoleReturn] {
		v.hold = v.home
	}
}

// step advances the flier.
func (v *flier) step(s float64) {
	if v.next != nil {
		m := v.next
		v.target, v.targetUpM = v.Origin.Local(float64(m.LatInt)/1e7, float64(m.LonInt)/1e7, height.AboveSea(m.Alt))
		v.feed = physics.Position{EastM: float64(m.Vy), NorthM: float64(m.Vx)}
		v.setpointS, v.next, v.climbs = v.nowS(), nil, false
	}
	does := v.does()
	if !v.armed || v.landed && (does != RoleTakeoff || v.nowS()-v.armedS < 2) {
		if v.landed && v.armed && v.contactS > 0 && v.nowS()-v.contactS > 7 && !v.neverDisarms {
			v.armed, v.landedAt = false, new(v.position)
		}
		return
	}
	v.landed = false
	loop := envelope.PositionLoop{GainPerS: 0.95}
	if v.copter { // as measured
		loop = envelope.PositionLoop{GainPerS: 1, SlowsMPSS: v.accelMPSS / 2}
	}
	to, up, cruise, feed := v.hold, v.holdUpM, 5.0, physics.Position{}
	switch {
	case does == RoleCommanded && v.copter && v.nowS()-v.setpointS > 1: // it stops
	case does == RoleCommanded:
		to, up, cruise, feed = v.target, v.targetUpM, 12, v.feed
		v.hold, v.holdUpM = v.position, v.upM
	case does == RoleReturn && v.position.Sub(v.hold).Norm() < 1, does == RoleLand:
		up = height.AboveOrigin(math.Inf(-1))
	}
	want := loop.Approach(to.Sub(v.position)).Add(feed)
	if r := want.Norm(); r > cruise {
		want = want.Scale(cruise / r)
	}
	climb := min(max(float64(up-v.upM), -v.descentMPS), v.ascentMPS)
	if math.IsInf(float64(up), -1) && v.upM < v.groundUpM+10 {
		climb = -0.7
	}
	err := want.Sub(v.velocity)
	v.integral = v.integral.Add(err.Scale(0.4 * s))
	a := err.Scale(1.1).Add(v.integral).Sub(v.velocity.Scale(0.9))
	if v.gust != nil { // of half a second's memory
		v.gustMPS2 = v.gustMPS2.Scale(1 - 2*s).Add(physics.Position{EastM: v.gust.NormFloat64(), NorthM: v.gust.NormFloat64()}.Scale(0.05))
		a = a.Add(v.gustMPS2)
	}
	if r := a.Norm(); r > 9 {
		a = a.Scale(9 / r)
	}
	if v.copter {
		v.accelerateAsCopter(want, s)
	} else {
		v.accel = v.accel.Add(a.Sub(v.accel).Scale(s / 0.1))
	}
	v.velocity = v.velocity.Add(v.accel.Scale(s))
	v.climbMPS += (climb - v.climbMPS) * 3 * s
	v.position = v.position.Add(v.velocity.Scale(s))
	v.upM += height.AboveOrigin(v.climbMPS * s)
	if v.upM < 80 {
		v.sidewaysBelowM = max(v.sidewaysBelowM, v.position.Sub(v.hold).Norm())
	}
	switch {
	case v.upM <= v.groundUpM && v.climbMPS < 0:
		v.upM, v.velocity, v.climbMPS, v.integral, v.accel = v.groundUpM, physics.Position{}, 0, physics.Position{}, physics.Position{}
		v.landed, v.contactS = true, v.nowS()
	case does == RoleTakeoff && v.upM > v.holdUpM-0.5:
		v.climbs = false
		if !v.copter {
			v.mode = ModeHold
		}
	}
}

// accelerateAsCopter is within its acceleration and jerk: no more than can be taken back by the
// time that the velocity is reached, after ArduPilot's sqrt_controller.
func (v *flier) accelerateAsCopter(want physics.Position, s float64) {
	missing := want.Sub(v.velocity)
	if off := missing.Norm(); off > 0 {
		missing = missing.Scale(min(2*off, math.Sqrt(2*v.jerkMPSSS*off), v.accelMPSS) / off)
	}
	change := missing.Sub(v.accel)
	v.accel = v.accel.Add(change.Scale(min(1, v.jerkMPSSS*s/max(change.Norm(), 1e-9))))
}

// allDown is whether every flier is on the ground with its motors off.
func (w *sky) allDown() bool {
	for _, v := range w.fliers {
		if v.armed || !v.landed {
			return false
		}
	}
	return true
}
