package leader

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"prefdt/telemetry"
)

// An aircraft that has left for home is not offered to users any more.
func TestHomingAircraftServesNobody(t *testing.T) {
	frozen := loadCheckpoint(t)
	l := newInPhase(t, telemetry.StateFlying, nil, frozen.Physics, &frozen.GoalConstants)
	l.views[0].Homeward = true
	if serving := l.appendServing(nil, 0, l.views); len(serving) != 1 || serving[0].Number != 2 {
		t.Errorf("%+v serve", serving)
	}
}

// A battery that is low is noticed in the climb, too, once the aircraft has left the ground.
func TestLowBatteryInTheClimb(t *testing.T) {
	frozen := loadCheckpoint(t)
	for spareJ, returns := range map[float64]bool{-1: true, 1: false} {
		l := newInPhase(t, telemetry.StateClimbing, nil, frozen.Physics, &frozen.GoalConstants)
		var log bytes.Buffer
		l.Log = slog.New(slog.NewTextHandler(&log, nil))
		v := &l.views[0]
		v.Charge = (l.account.HomeJ(v) + l.Config.Flight.ReserveJ + spareJ) / frozen.Physics.BatteryCapacityJ
		l.climb(l.views)
		if got := strings.Contains(log.String(), "battery low in the climb"); got != returns {
			t.Errorf("%v J to spare: %s", spareJ, &log)
		}
	}
}
