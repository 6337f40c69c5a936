package autopilot

import (
	"math"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/simbridge/geo"
)

// Setpoint is what OFFBOARD follows, in the fleet's frame. A component that was not
// given is NaN.
type Setpoint struct {
	Position geo.Local
	Velocity geo.Local // m/s
}

var notGiven = geo.Local{EastM: math.NaN(), NorthM: math.NaN(), UpM: math.NaN()}

// acceptSetpoint follows a setpoint, and reports whether it is valid: one without any
// finite component is not, so the stream times out and the failsafe follows.
func (v *vehicle) acceptSetpoint(s Setpoint, yaw float64) bool {
	finite := false
	for _, x := range []*float64{
		&s.Position.EastM, &s.Position.NorthM, &s.Position.UpM,
		&s.Velocity.EastM, &s.Velocity.NorthM, &s.Velocity.UpM,
	} {
		if math.IsInf(*x, 0) {
			*x = math.NaN()
		}
		finite = finite || !math.IsNaN(*x)
	}
	if !finite {
		return false
	}
	v.noteReceived(Received{Setpoint: &s})
	if v.conf.Copter && v.mode == ModeTakeoff && !v.landed {
		v.setIntendedMode(ModeOffboard) // a setpoint ends a take-off
	}
	v.setpoint, v.setpointUS = s, v.timeUS
	if !math.IsNaN(yaw) && !math.IsInf(yaw, 0) {
		v.yaw = yaw
	}
	return true
}

// handleSetpointLocalNED handles SET_POSITION_TARGET_LOCAL_NED: frame 1 is relative to the
// vehicle's own origin, frame 8 has velocity only, turned by the heading.
func (v *vehicle) handleSetpointLocalNED(m *common.MessageSetPositionTargetLocalNed) bool {
	s := Setpoint{Position: notGiven, Velocity: fromNED(m.Vx, m.Vy, m.Vz, m.TypeMask>>3)}
	switch m.CoordinateFrame {
	case common.MAV_FRAME_LOCAL_NED:
		s.Position = v.conf.Start.Add(fromNED(m.X, m.Y, m.Z, m.TypeMask))
	case common.MAV_FRAME_BODY_NED:
		sin, cos := math.Sincos(v.yaw)
		u := s.Velocity
		s.Velocity.NorthM, s.Velocity.EastM = cos*u.NorthM-sin*u.EastM, sin*u.NorthM+cos*u.EastM
	default:
		return false
	}
	return v.acceptSetpoint(s, fieldOrNaN(m.Yaw, m.TypeMask, common.POSITION_TARGET_TYPEMASK_YAW_IGNORE))
}

// handleSetpointGlobalInt handles SET_POSITION_TARGET_GLOBAL_INT, frames 5, 6 and 11. A
// position is used only if it is complete, and only then is the frame checked.
func (v *vehicle) handleSetpointGlobalInt(m *common.MessageSetPositionTargetGlobalInt) bool {
	const noPosition = common.POSITION_TARGET_TYPEMASK_X_IGNORE | common.POSITION_TARGET_TYPEMASK_Y_IGNORE |
		common.POSITION_TARGET_TYPEMASK_Z_IGNORE
	s := Setpoint{Position: notGiven, Velocity: fromNED(m.Vx, m.Vy, m.Vz, m.TypeMask>>3)}
	if m.TypeMask&noPosition == 0 {
		up := float64(m.Alt)
		switch m.CoordinateFrame {
		case common.MAV_FRAME_GLOBAL_INT:
			up -= v.conf.Origin.AltM + v.driftM()
		case common.MAV_FRAME_GLOBAL_RELATIVE_ALT_INT, common.MAV_FRAME_GLOBAL_TERRAIN_ALT_INT: // it has no map of the terrain
			up += v.home.UpM
		default:
			return false
		}
		s.Position = v.conf.Origin.ToLocal(geo.Point{
			LatDeg: float64(m.LatInt) / 1e7, LonDeg: float64(m.LonInt) / 1e7, AltM: v.conf.Origin.AltM + orZero(up),
		})
		s.Position.UpM = up
	}
	return v.acceptSetpoint(s, fieldOrNaN(m.Yaw, m.TypeMask, common.POSITION_TARGET_TYPEMASK_YAW_IGNORE))
}

// fromNED is a vector of a setpoint; a component that the mask ignores is NaN. The mask has
// the bits of a position, or those of a velocity shifted by three to where these are.
func fromNED(north, east, down float32, mask common.POSITION_TARGET_TYPEMASK) geo.Local {
	return geo.Local{
		EastM:  fieldOrNaN(east, mask, common.POSITION_TARGET_TYPEMASK_Y_IGNORE),
		NorthM: fieldOrNaN(north, mask, common.POSITION_TARGET_TYPEMASK_X_IGNORE),
		UpM:    -fieldOrNaN(down, mask, common.POSITION_TARGET_TYPEMASK_Z_IGNORE),
	}
}

// fieldOrNaN returns a field, or NaN if the mask has the bit that ignores it.
func fieldOrNaN(x float32, mask, bit common.POSITION_TARGET_TYPEMASK) float64 {
	if mask&bit != 0 {
		return math.NaN()
	}
	return float64(x)
}

// noteReceived calls OnReceived with a message and the state of the vehicle.
func (v *vehicle) noteReceived(r Received) {
	r.Target, r.From = v.receivedTarget, v.receivedFrom
	r.TimeS, r.Body, r.Mode, r.Armed, r.Landed = v.timeS(), v.body, v.mode, v.armed, v.landed
	if v.conf.OnReceived != nil {
		v.conf.OnReceived(r)
	}
}
