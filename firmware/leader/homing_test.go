package leader

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"prefdt/firmware/fleet"
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

// An aircraft that climbs on by setpoints is not at its start yet: slots begin once it is up.
func TestSlotsBeginAtHeight(t *testing.T) {
	frozen := loadCheckpoint(t)
	l := newInPhase(t, telemetry.StateClimbing, nil, frozen.Physics, &frozen.GoalConstants)
	for i := range l.views {
		v := &l.views[i]
		v.Phase, v.Flying, v.Position = fleet.PhaseFlying, true, l.Config.StartPosition(v.Number, frozen.Physics.AreaSideM)
	}
	l.views[1].Climbs = true
	if in := progress(&l.Config, l.Policy.Physics.AreaSideM, l.views); in.AtStart != 1 || in.EnRoute != 1 {
		t.Errorf("at their starts %d, on their way %d", in.AtStart, in.EnRoute)
	}
}
