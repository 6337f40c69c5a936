package autopilot

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
)

// radio is the impairment of the datagrams that an autopilot sends. Times are mission
// seconds of the vehicle.
type radio struct {
	random        *rand.Rand
	heartbeatLoss impairment // lost
	delay         impairment // late
	maxDelayS     float64
}

// impairment affects a fraction of the datagrams until some time.
type impairment struct{ untilS, fraction float64 }

func (i impairment) applies(nowS float64, r *rand.Rand) bool {
	return nowS < i.untilS && r.Float64() < i.fraction
}

// LoseHeartbeats loses a fraction of the HEARTBEATs for a while, also of those that are
// requested, and nothing else.
func (a *Autopilot) LoseHeartbeats(seconds, fraction float64, seed uint64) {
	a.withVehicle(func(v *vehicle) {
		a.radio.random = rand.New(rand.NewPCG(seed, 1))
		a.radio.heartbeatLoss = impairment{v.timeS() + seconds, fraction}
	})
}

// Reorder delays a fraction of the datagrams for a while, each by up to maxDelayS, so
// that they arrive out of order.
func (a *Autopilot) Reorder(seconds, fraction, maxDelayS float64, seed uint64) {
	a.withVehicle(func(v *vehicle) {
		a.radio.random = rand.New(rand.NewPCG(seed, 2))
		a.radio.delay, a.radio.maxDelayS = impairment{v.timeS() + seconds, fraction}, maxDelayS
	})
}

// impair decides whether a datagram, which is one MAVLink 2 frame, is lost or late.
func (a *Autopilot) impair(frame []byte) (lost bool, late time.Duration) {
	heartbeat, ok := readHeartbeat(frame)
	a.withVehicle(func(v *vehicle) {
		r := &a.radio
		heartbeat.TimeS = v.timeS()
		if m, _ := CopterMode(uint32(heartbeat.Mode)); ok && a.Copter {
			heartbeat.Mode = m
			if v.mode == ModeTakeoff && m == ModeOffboard {
				heartbeat.Mode = ModeTakeoff
			}
		}
		switch {
		case ok && r.heartbeatLoss.applies(heartbeat.TimeS, r.random):
			lost = true
			a.traffic.Silent++
		case r.delay.applies(heartbeat.TimeS, r.random):
			a.traffic.Delayed++
			late = time.Duration(r.random.Float64() * r.maxDelayS / a.Speed * float64(time.Second))
		}
	})
	if ok && !lost && late == 0 && a.OnHeartbeatSent != nil {
		a.OnHeartbeatSent(heartbeat)
	}
	return lost, late
}

// readHeartbeat reads mode, arming and failsafe from a MAVLink 2 frame, if it is a
// HEARTBEAT: 10 bytes of header, of which 7 to 9 are the message, then
// custom_mode, type, autopilot, base_mode and system_status.
func readHeartbeat(frame []byte) (h Heartbeat, ok bool) {
	const magic, header, autopilot, baseMode, systemStatus = 0xfd, 10, 5, 6, 7
	if len(frame) <= header+systemStatus || frame[0] != magic || frame[7] != 0 || frame[8] != 0 || frame[9] != 0 ||
		frame[header+autopilot] == byte(common.MAV_AUTOPILOT_INVALID) { // another's, see StationHeartbeat
		return h, false
	}
	h.Mode = Mode(binary.LittleEndian.Uint32(frame[header:]))
	h.Armed = frame[header+baseMode]&byte(common.MAV_MODE_FLAG_SAFETY_ARMED) != 0
	h.Failsafe = frame[header+systemStatus] == byte(common.MAV_STATE_CRITICAL)
	return h, true
}
