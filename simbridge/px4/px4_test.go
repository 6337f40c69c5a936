package px4

import (
	"math"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/simbridge/battery"
)

// What an instance draws: nothing on the ground, disarmed, or unheard for long.
func TestWhatItDraws(t *testing.T) {
	for name, c := range map[string]struct {
		armed    common.MAV_MODE_FLAG
		landed   common.MAV_LANDED_STATE
		unheardS float64
		draws    bool
	}{
		"flies":            {common.MAV_MODE_FLAG_SAFETY_ARMED, common.MAV_LANDED_STATE_IN_AIR, 0.1, true},
		"comes down":       {common.MAV_MODE_FLAG_SAFETY_ARMED, common.MAV_LANDED_STATE_LANDING, 0.1, true},
		"stands":           {common.MAV_MODE_FLAG_SAFETY_ARMED, common.MAV_LANDED_STATE_ON_GROUND, 0.1, false},
		"disarmed":         {0, common.MAV_LANDED_STATE_IN_AIR, 0.1, false},
		"unheard for 9 s":  {common.MAV_MODE_FLAG_SAFETY_ARMED, common.MAV_LANDED_STATE_IN_AIR, 9, true},
		"unheard for 11 s": {common.MAV_MODE_FLAG_SAFETY_ARMED, common.MAV_LANDED_STATE_IN_AIR, 11, false},
	} {
		const nowS, stepS = 60.0, 2.0
		v := &Vehicle{
			Config: Config{Speed: 1, PowerW: func(int, float64) float64 { return 100 }},
			began:  time.Now().Add(-nowS * time.Second), battery: battery.New(150e3, battery.Fields{}),
			heard: true, located: true, beat: &common.MessageHeartbeat{BaseMode: c.armed}, landed: c.landed,
			bodyUS: int64((nowS - c.unheardS) * 1e6), stepUS: int64((nowS - stepS) * 1e6), sendUS: math.MaxInt64,
		}
		v.step()
		want := 0.0
		if c.draws {
			want = 100 * stepS
		}
		if got := v.State().Spent.J(); math.Abs(got-want) > 50 { // half a second of a busy machine
			t.Errorf("%s: drew %.0f J in %v s, want %v", name, got, stepS, want)
		}
	}
}
