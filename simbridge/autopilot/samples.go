package autopilot

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"
	"github.com/bluenviron/gomavlib/v3/pkg/x25"
)

// WrongSample is a message that is not true, or arrives when it no longer is, as links,
// sensors and routers in the field send them.
type WrongSample string

const (
	NoFix          WrongSample = "no_fix"          // for a second, positions have INT32_MAX for latitude and longitude
	PositionGlitch WrongSample = "position_glitch" // for half a second, positions are 5.5 km away
	LatePosition   WrongSample = "late_position"   // a copy of a position arrives 3.5 s later
	BootTimeZero   WrongSample = "boot_time_zero"  // one position has a time since boot of 0
	GroundSample   WrongSample = "ground_sample"   // one EXTENDED_SYS_STATE says that it is on the ground
	// A ground station sends a HEARTBEAT with the vehicle's ids, as some do that forward what they hear.
	StationHeartbeat WrongSample = "station_heartbeat"
)

// WrongSamples are all of them.
var WrongSamples = []WrongSample{NoFix, PositionGlitch, LatePosition, BootTimeZero, GroundSample, StationHeartbeat}

// wrongForUS is how long a sample that is wrong for a while is; the others are wrong once.
var wrongForUS = map[WrongSample]int64{NoFix: 1_000_000, PositionGlitch: 500_000}

const lateCopyS = 3.5

// SendWrongSample has the vehicle send a wrong sample with its next messages.
func (a *Autopilot) SendWrongSample(w WrongSample) {
	a.withVehicle(func(v *vehicle) { v.wrong, v.wrongUntilUS = w, v.timeUS+wrongForUS[w] })
}

// distort makes a message wrong if that is due.
func (v *vehicle) distort(m message.Message) message.Message {
	const glitchDeg = 0.05 // 5.5 km
	switch m := m.(type) {
	case *common.MessageGlobalPositionInt:
		switch v.wrong {
		case NoFix:
			m.Lat, m.Lon = math.MaxInt32, math.MaxInt32
		case PositionGlitch:
			m.Lat += glitchDeg * 1e7
		case BootTimeZero:
			m.TimeBootMs = 0
		default:
			return m
		}
	case *common.MessageExtendedSysState:
		if v.wrong != GroundSample {
			return m
		}
		m.LandedState = common.MAV_LANDED_STATE_ON_GROUND
	default:
		return m
	}
	v.wrongSent++
	if v.timeUS >= v.wrongUntilUS {
		v.wrong = ""
	}
	return m
}

// extraSample is a message that is no sample of the vehicle's and is due beside its own.
func (v *vehicle) extraSample() message.Message {
	if v.wrong != StationHeartbeat {
		return nil
	}
	v.wrong, v.wrongSent = "", v.wrongSent+1
	return &common.MessageHeartbeat{Type: common.MAV_TYPE_GCS, Autopilot: common.MAV_AUTOPILOT_INVALID, MavlinkVersion: 3}
}

// emptyBattery is what an autopilot tells of a monitor that is configured and measures nothing.
func emptyBattery() message.Message {
	m := &common.MessageBatteryStatus{Id: 1, CurrentBattery: -1, CurrentConsumed: -1, EnergyConsumed: -1, BatteryRemaining: -1,
		Temperature: math.MaxInt16}
	for i := range m.Voltages {
		m.Voltages[i] = math.MaxUint16
	}
	return m
}

// isPosition reports whether a MAVLink 2 frame is a GLOBAL_POSITION_INT.
func isPosition(frame []byte) bool {
	return len(frame) > headerBytes && frame[0] == magicV2 && frame[7] == globalPositionID && frame[8] == 0 && frame[9] == 0
}

// A MAVLink 2 frame: a header that begins with magicV2 and has the sequence number at
// sequenceAt, the payload, two bytes of checksum.
const (
	magicV2          = 0xfd
	headerBytes      = 10
	sequenceAt       = 4
	checksumBytes    = 2
	globalPositionID = 33
)

// repeatLate has a copy of a position arrive later if that is due.
func (a *Autopilot) repeatLate(frame []byte) (after time.Duration) {
	if !isPosition(frame) {
		return 0
	}
	a.withVehicle(func(v *vehicle) {
		if v.wrong == LatePosition {
			v.wrong, after = "", time.Duration(lateCopyS/a.Speed*float64(time.Second))
			v.wrongSent++
		}
	})
	return after
}

// numberAnew gives a frame the next number of its own counter: positions have one, all else
// another, as where a router merges two links of one autopilot.
func (l *udpLink) numberAnew(frame []byte) {
	counter := &l.counters[0]
	if isPosition(frame) {
		counter = &l.counters[1]
	}
	frame[sequenceAt] = *counter
	*counter++
	id := uint32(frame[7]) | uint32(frame[8])<<8 | uint32(frame[9])<<16
	crc := x25.New()
	body := len(frame) - checksumBytes
	crc.Write(frame[1:body])
	crc.Write([]byte{l.dialect.GetMessage(id).CRCExtra()})
	binary.LittleEndian.PutUint16(frame[body:], crc.Sum16())
}
