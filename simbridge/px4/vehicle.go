package px4

import (
	"fmt"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
)

// The methods that simbridge/fly calls on any aircraft, simulated or attached.

// Ready returns what is still missing before the instance can fly, nil for nothing. err
// is a problem that does not end by waiting.
func (v *Vehicle) Ready(now time.Time) (missing, err error) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	sentForS := v.missionS(now.Sub(v.batterySentAt))
	switch {
	case !v.hasState():
		return fmt.Errorf("nothing received from PX4 system %d: want its heartbeat, GLOBAL_POSITION_INT and EXTENDED_SYS_STATE", v.SystemID), nil
	case v.batterySentAt.IsZero() || sentForS < relaySettleS:
		return fmt.Errorf("PX4 system %d does not relay the battery yet", v.SystemID), nil
	case v.missionS(v.ownBatteryAt.Sub(v.batterySentAt)) > relaySettleS/2:
		return nil, fmt.Errorf("PX4 system %d has a battery simulation of its own: want SIM_BAT_ENABLE 0 in it before it boots", v.SystemID)
	case v.relayedAt.IsZero():
		return fmt.Errorf("PX4 system %d does not relay the battery", v.SystemID), nil
	}
	return nil, nil
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
	s := autopilot.State{Body: v.extrapolated(time.Now()), Spent: v.battery.Total(), Landed: v.landed == common.MAV_LANDED_STATE_ON_GROUND}
	if v.heartbeat != nil {
		s.Mode = autopilot.Mode(v.heartbeat.CustomMode)
		s.Armed = v.heartbeat.BaseMode&common.MAV_MODE_FLAG_SAFETY_ARMED != 0
	}
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
// of the slot: drawn at once they would depend on a single message, which may be lost.
func (v *Vehicle) AddEdgeJ(slot int, joules float64) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.edgeLoads = append(v.edgeLoads, edgeLoad{slot, joules, joules / edgeComputeS})
}

// BySlot returns the exact joules of every slot so far; -1 is before the mission.
func (v *Vehicle) BySlot() map[int]battery.Spent {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.battery.BySlot()
}

// The following are called with the mutex held.

// hasState reports whether the messages were received that State needs.
func (v *Vehicle) hasState() bool {
	return v.located && v.heartbeat != nil && v.landed != common.MAV_LANDED_STATE_UNDEFINED
}

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
