package autopilot

import (
	"math"
	"slices"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/simbridge/geo"
)

// stream is one message that is sent at intervals.
type stream struct {
	id         uint32
	build      func(*vehicle) message.Message
	defaultUS  int64
	intervalUS int64 // 0: off
	leastUS    int64 // it comes no sooner, whatever is asked
	nextUS     int64
	pending    bool // of an external battery: a new message to relay
}

type streams []stream

var (
	batteryID   = (&common.MessageBatteryStatus{}).GetID()
	heartbeatID = (&common.MessageHeartbeat{}).GetID()
)

// defaultStreams are PX4's rates on an onboard link. Faster than real time the position
// is sent less often, and the local one, which no leader reads, less often still: no link
// carries 50 Hz at many times its speed.
func defaultStreams(speed float64) streams {
	s := streams{
		{id: heartbeatID, build: heartbeat, defaultUS: 1_000_000},
		{id: (&common.MessageGlobalPositionInt{}).GetID(), build: globalPosition, defaultUS: 20_000},
		{id: (&common.MessageLocalPositionNed{}).GetID(), build: localPosition, defaultUS: 33_333},
		{id: (&common.MessageExtendedSysState{}).GetID(), build: extendedState, defaultUS: 200_000},
		{id: (&common.MessageSysStatus{}).GetID(), build: systemStatus, defaultUS: 200_000, leastUS: 147_000},
		{id: batteryID, build: batteryStatus, defaultUS: 2_000_000},
		{id: (&common.MessageGpsGlobalOrigin{}).GetID(), build: globalOrigin},
		{id: (&common.MessageHomePosition{}).GetID(), build: homePosition, defaultUS: 2_000_000},
		{id: (&common.MessageAutopilotVersion{}).GetID(), build: autopilotVersion},
	}
	for i := range s {
		if speed > 1 && s[i].defaultUS > 0 {
			s[i].defaultUS = max(s[i].defaultUS, 50_000)
			if s[i].id == (&common.MessageLocalPositionNed{}).GetID() {
				s[i].defaultUS = 200_000
			}
		}
		s[i].intervalUS = s[i].defaultUS
	}
	return s
}

// onlyHeartbeat is what an ArduCopter sends on a fresh link.
func (s streams) onlyHeartbeat() {
	for i := range s {
		if s[i].id != heartbeatID {
			s[i].intervalUS, s[i].defaultUS, s[i].leastUS = 0, 0, 0
		}
	}
}

func (s streams) find(id float32) *stream {
	if i := slices.IndexFunc(s, func(x stream) bool { return float32(x.id) == id }); i >= 0 {
		return &s[i]
	}
	return nil
}

// setInterval sets a stream's interval, -1 off and 0 the default.
func (s *stream) setInterval(us float32, now int64) {
	switch {
	case us < 0:
		s.intervalUS = 0
	case us == 0:
		s.intervalUS = s.defaultUS
	default:
		s.intervalUS = int64(clamp(float64(us), max(1, float64(s.leastUS)), 3600e6)) // PX4 accepts any interval; the link has its limits
	}
	s.nextUS = now
}

func (v *vehicle) dueMessages() (out []message.Message) {
	for i := range v.streams {
		s := &v.streams[i]
		if s.intervalUS == 0 || v.timeUS < s.nextUS || s.id == batteryID &&
			(v.externalBattery != nil && !s.pending || v.externalBattery == nil && !v.battery.Measures(v.timeUS)) {
			continue
		}
		s.pending = false
		if s.nextUS += s.intervalUS; s.nextUS <= v.timeUS { // fell behind
			s.nextUS = v.timeUS + s.intervalUS
		}
		if s.id == heartbeatID && v.timeUS < v.heartbeatsPausedUntilUS || s.id == globalPositionID && v.timeUS < v.positionFromUS {
			continue
		}
		out = append(out, v.distort(s.build(v)))
		if second := v.battery.SecondPackStatus(v.timeUS); s.id == batteryID && second != nil {
			out = append(out, second)
		} else if s.id == batteryID && v.conf.EmptyBattery {
			out = append(out, emptyBattery())
		}
	}
	if m := v.extraSample(); m != nil {
		out = append(out, m)
	}
	for _, m := range v.statusTexts {
		out = append(out, &m)
	}
	out, v.answers = append(out, v.answers...), nil
	v.statusTexts = v.statusTexts[:0]
	return out
}

// batteryStatus is the pack's, or the last one received from another component of this
// system, which PX4 relays with SIM_BAT_ENABLE 0.
func batteryStatus(v *vehicle) message.Message {
	if v.externalBattery != nil {
		m := *v.externalBattery
		m.EnergyConsumed = -1 // PX4 does not relay it
		m.Id = math.MaxUint8  // PX4's own batteries have ids from 1, an external one has none
		return &m
	}
	return v.battery.Status(v.timeUS)
}

func systemStatus(v *vehicle) message.Message {
	m := v.battery.SysStatus()
	if v.healthy() { // PX4 sets the health bit alone, neither present nor enabled
		m.OnboardControlSensorsHealth |= common.MAV_SYS_STATUS_PREARM_CHECK
	}
	if f := v.externalBattery; f != nil {
		m.VoltageBattery, m.CurrentBattery, m.BatteryRemaining = f.Voltages[0], f.CurrentBattery, f.BatteryRemaining
	}
	return m
}

func heartbeat(v *vehicle) message.Message {
	m := &common.MessageHeartbeat{
		Type: common.MAV_TYPE_QUADROTOR, Autopilot: common.MAV_AUTOPILOT_PX4, MavlinkVersion: 3,
		BaseMode: common.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED | common.MAV_MODE_FLAG_STABILIZE_ENABLED, CustomMode: uint32(v.mode),
	}
	if v.conf.Copter {
		m.Autopilot, m.CustomMode = common.MAV_AUTOPILOT_ARDUPILOTMEGA, copterModes[v.mode].custom
	}
	if v.plane {
		m.Type = common.MAV_TYPE_FIXED_WING
	}
	switch v.mode {
	case ModeOffboard:
	case ModePosition:
		m.BaseMode |= common.MAV_MODE_FLAG_MANUAL_INPUT_ENABLED
	default:
		m.BaseMode |= common.MAV_MODE_FLAG_AUTO_ENABLED | common.MAV_MODE_FLAG_GUIDED_ENABLED
	}
	switch {
	case !v.armed && v.canArm():
		m.SystemStatus = common.MAV_STATE_STANDBY
	case !v.armed: // PX4 has no other value for it
		m.SystemStatus = common.MAV_STATE_UNINIT
	case v.inFailsafe():
		m.SystemStatus = common.MAV_STATE_CRITICAL
	default:
		m.SystemStatus = common.MAV_STATE_ACTIVE
	}
	if v.armed {
		m.BaseMode |= common.MAV_MODE_FLAG_SAFETY_ARMED
	}
	return m
}

func (v *vehicle) bootMS() uint32 { return uint32((v.timeUS - v.bootUS) / 1000) }

func globalPosition(v *vehicle) message.Message {
	told := v.told()
	lat, lon, alt := wirePosition(v.conf.Origin.FromLocal(told.Position))
	return &common.MessageGlobalPositionInt{
		TimeBootMs: v.bootMS(), Lat: lat, Lon: lon, Alt: alt,
		RelativeAlt: int32(math.Round(1000 * (told.Position.UpM - v.home.UpM))),
		Vx:          centimetresPerS(told.Velocity.NorthM), Vy: centimetresPerS(told.Velocity.EastM),
		Vz:  centimetresPerS(-told.Velocity.UpM),
		Hdg: uint16(math.Mod(math.Mod(v.yaw*180/math.Pi, 360)+360, 360) * 100),
	}
}

func localPosition(v *vehicle) message.Message {
	p, s, u := v.body.Position, v.conf.Start, v.body.Velocity
	return &common.MessageLocalPositionNed{
		TimeBootMs: v.bootMS(),
		X:          float32(p.NorthM - s.NorthM), Y: float32(p.EastM - s.EastM), Z: float32(s.UpM - p.UpM),
		Vx: float32(u.NorthM), Vy: float32(u.EastM), Vz: float32(-u.UpM),
	}
}

func extendedState(v *vehicle) message.Message {
	m := &common.MessageExtendedSysState{LandedState: common.MAV_LANDED_STATE_IN_AIR}
	switch {
	case v.landed, !v.armed, v.odd.TellsLanded: // even while it falls
		m.LandedState = common.MAV_LANDED_STATE_ON_GROUND
	case v.mode == ModeTakeoff:
		m.LandedState = common.MAV_LANDED_STATE_TAKEOFF
	case v.mode == ModeLand, v.mode == ModeReturn && v.returnDescending:
		m.LandedState = common.MAV_LANDED_STATE_LANDING
	}
	return m
}

func globalOrigin(v *vehicle) message.Message {
	lat, lon, alt := wirePosition(v.conf.Origin.FromLocal(v.conf.Start))
	return &common.MessageGpsGlobalOrigin{Latitude: lat, Longitude: lon, Altitude: alt, TimeUsec: uint64(v.timeUS - v.bootUS)}
}

func homePosition(v *vehicle) message.Message {
	lat, lon, alt := wirePosition(v.conf.Origin.FromLocal(v.home))
	return &common.MessageHomePosition{Latitude: lat, Longitude: lon, Altitude: alt, Q: [4]float32{1},
		TimeUsec: uint64(v.timeUS - v.bootUS)}
}

func autopilotVersion(*vehicle) message.Message {
	return &common.MessageAutopilotVersion{
		Capabilities: common.MAV_PROTOCOL_CAPABILITY_MAVLINK2 | common.MAV_PROTOCOL_CAPABILITY_COMMAND_INT |
			common.MAV_PROTOCOL_CAPABILITY_PARAM_ENCODE_BYTEWISE |
			common.MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_LOCAL_NED | common.MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_GLOBAL_INT,
		FlightSwVersion: 1<<24 | 16<<16, // the version that is simulated
	}
}

// wirePosition is a position in 1e-7 degrees and millimetres.
func wirePosition(p geo.Point) (lat, lon, alt int32) {
	return int32(math.Round(1e7 * p.LatDeg)), int32(math.Round(1e7 * p.LonDeg)), int32(math.Round(1000 * p.AltM))
}

func centimetresPerS(mps float64) int16 { return int16(math.Round(100 * clamp(mps, -320, 320))) }
