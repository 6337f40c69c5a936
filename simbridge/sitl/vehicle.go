package sitl

import (
	"fmt"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
)

// Methods that simbridge/fly calls on any aircraft, simulated or attached.

// Ready returns what is still missing before the instance can fly, nil for nothing. err
// is a problem that does not end by waiting.
func (v *Vehicle) Ready(now time.Time) (missing, err error) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	switch {
	case !v.hasState():
		return fmt.Errorf("nothing received from %s: want its heartbeat, GLOBAL_POSITION_INT and EXTENDED_SYS_STATE", v.name()), nil
	case v.keyed() && v.px4():
		return nil, fmt.Errorf("%s does not sign: want no mavlink_key", v.name())
	case v.keyed() && !v.signed:
		return fmt.Errorf("%s does not sign yet", v.name()), nil
	case v.copter():
		return v.readyWithOwnBattery()
	case !v.px4():
		return nil, fmt.Errorf("system %d is a %s, want PX4 or ArduCopter", v.SystemID, v.heartbeat.Autopilot)
	}
	sentForS := v.missionS(now.Sub(v.batterySentAt))
	switch {
	case v.batterySentAt.IsZero() || sentForS < relaySettleS:
		return fmt.Errorf("%s does not relay the battery yet", v.name()), nil
	case v.missionS(v.ownBatteryAt.Sub(v.batterySentAt)) > relaySettleS/2:
		return nil, fmt.Errorf("%s has a battery simulation of its own: want SIM_BAT_ENABLE 0 in it before it boots", v.name())
	case v.relayedAt.IsZero():
		return fmt.Errorf("%s does not relay the battery", v.name()), nil
	}
	return nil, nil
}

func (v *Vehicle) readyWithOwnBattery() (missing, err error) {
	switch {
	case !v.own.received:
		return fmt.Errorf("no BATTERY_STATUS received from %s", v.name()), nil
	case !v.own.counts:
		return nil, fmt.Errorf("%s does not count its joules: want BATT_MONITOR 4 in it before it boots", v.name())
	}
	return nil, nil
}

// Name says which instance it is, as in "PX4 system 1".
func (v *Vehicle) Name() string {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.name()
}

// OwnBattery is whether the joules are its own battery's, and how many of computing that one
// does not feed.
func (v *Vehicle) OwnBattery() (own bool, undrawnEdgeJ float64) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.copter(), v.undrawnEdgeJ
}

// Lost reports whether the instance has sent a HEARTBEAT before, and none for lostAfterS.
func (v *Vehicle) Lost(now time.Time) bool {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.heartbeat != nil && v.missionS(now.Sub(v.heartbeatAt)) > lostAfterS
}

// ClockRate is the rate of the autopilot's clock to the wall clock, 0 while unknown.
func (v *Vehicle) ClockRate() float64 {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.clock.rate() / v.Speed
}

// State returns the state by the messages received.
func (v *Vehicle) State() autopilot.State {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	s := v.state()
	s.Body = v.extrapolated(time.Now())
	return s
}

// SetSlot sets the slot in which energy is counted from a moment on, which may be in
// the future.
func (v *Vehicle) SetSlot(slot int, at time.Time) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.slotStarts = append(v.slotStarts, slotStart{slot, at})
}

// AddEdgeJ adds the joules of computing for a slot's users, which are drawn over a part
// of the slot: drawn at once they would depend on a single message, which may be lost. An
// ArduCopter's own battery does not feed it.
func (v *Vehicle) AddEdgeJ(slot int, joules float64) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if v.copter() {
		v.undrawnEdgeJ += joules
		return
	}
	v.edgeLoads = append(v.edgeLoads, edgeLoad{slot, joules, joules / edgeComputeS})
}

// BySlot returns the exact joules of every slot so far; -1 is before the mission.
func (v *Vehicle) BySlot() map[int]battery.Spent {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.battery.BySlot()
}

// The following are called with the mutex held.

// state is what is known by the last position. When it touches the ground, only its land detector tells.
func (v *Vehicle) state() autopilot.State {
	s := autopilot.State{Body: v.body, Spent: v.battery.Total(), Landed: v.landed == common.MAV_LANDED_STATE_ON_GROUND}
	if !v.copter() || v.PackKnown { // else it is its own battery's, which is not known here
		s.PackJ, s.LeftJ = v.CapacityJ, v.CapacityJ-v.battery.Total().J()
	}
	if v.heartbeat != nil {
		s.Mode, s.ModeName = autopilot.ModeOf(v.heartbeat)
		s.Armed = v.heartbeat.BaseMode&common.MAV_MODE_FLAG_SAFETY_ARMED != 0
		s.Failsafe = v.heartbeat.SystemStatus == common.MAV_STATE_CRITICAL
	}
	return s
}

// hasState reports whether the messages were received that State needs.
func (v *Vehicle) hasState() bool {
	return v.located && v.heartbeat != nil && v.landed != common.MAV_LANDED_STATE_UNDEFINED
}

func (v *Vehicle) copter() bool {
	return v.heartbeat != nil && v.heartbeat.Autopilot == common.MAV_AUTOPILOT_ARDUPILOTMEGA
}

func (v *Vehicle) px4() bool {
	return v.heartbeat != nil && v.heartbeat.Autopilot == common.MAV_AUTOPILOT_PX4
}

func (v *Vehicle) name() string {
	kind := ""
	switch {
	case v.px4():
		kind = "PX4 "
	case v.copter():
		kind = "ArduCopter "
	}
	return fmt.Sprintf("%ssystem %d", kind, v.SystemID)
}

// draws is whether it draws energy: on the ground an ArduCopter's own battery says so itself.
func (v *Vehicle) draws() bool { return v.copter() || v.inAir() }

func (v *Vehicle) inAir() bool {
	return v.heartbeat != nil && v.heartbeat.BaseMode&common.MAV_MODE_FLAG_SAFETY_ARMED != 0 &&
		v.landed != common.MAV_LANDED_STATE_UNDEFINED && v.landed != common.MAV_LANDED_STATE_ON_GROUND
}

// extrapolated is where the vehicle is now: where it was, and its velocity since.
func (v *Vehicle) extrapolated(now time.Time) autopilot.Body {
	b := v.body
	if ageS := min(v.missionS(now.Sub(v.clock.receivedAt)), extrapolateMaxS); v.located && ageS > 0 {
		b.Position = b.Position.Add(b.Velocity.Scale(ageS))
	}
	return b
}
