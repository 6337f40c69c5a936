package px4

import (
	"math"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/geo"
)

// What a flight asks of any aircraft, simulated or attached.

// Heard tells whether everything was heard that State needs.
func (v *Vehicle) Heard() bool {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.heard
}

// State returns the truth as far as it was heard.
func (v *Vehicle) State() autopilot.State {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	s := autopilot.State{Body: v.at(v.missionUS(time.Now())), Spent: v.battery.Total(), Landed: v.landed == common.MAV_LANDED_STATE_ON_GROUND}
	if v.beat != nil {
		s.Mode = autopilot.Mode(v.beat.CustomMode)
		s.Armed = v.beat.BaseMode&common.MAV_MODE_FLAG_SAFETY_ARMED != 0
	}
	return s
}

// SetSlot says in which slot of the mission power is drawn from a moment on.
func (v *Vehicle) SetSlot(slot int, at time.Time) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.battery.Begin(slot, v.missionUS(at))
}

// AddEdgeJ bills computing done for a slot's users to the battery.
func (v *Vehicle) AddEdgeJ(slot int, joules float64) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.battery.Add(slot, battery.Spent{EdgeJ: joules})
}

// BySlot returns the exact joules of every slot so far; -1 is before the mission.
func (v *Vehicle) BySlot() map[int]battery.Spent {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.battery.BySlot()
}

// The following are called with the mutex held.

func (v *Vehicle) missionUS(t time.Time) int64 { return int64(float64(t.Sub(v.began)) * v.Speed / 1e3) }

func (v *Vehicle) inAir() bool {
	return v.heard && v.beat.BaseMode&common.MAV_MODE_FLAG_SAFETY_ARMED != 0 && v.landed != common.MAV_LANDED_STATE_ON_GROUND
}

// at is where the vehicle is now: where it was, and its velocity since.
func (v *Vehicle) at(nowUS int64) autopilot.Body {
	b := v.body
	age := math.Min(float64(nowUS-v.bodyUS), staleUS) / 1e6
	if v.located && age > 0 {
		b.Position = geo.Local{
			EastM: b.Position.EastM + age*b.Velocity.EastM, NorthM: b.Position.NorthM + age*b.Velocity.NorthM, UpM: b.Position.UpM + age*b.Velocity.UpM,
		}
	}
	return b
}
