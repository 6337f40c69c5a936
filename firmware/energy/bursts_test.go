package energy

import (
	"math"
	"testing"

	"prefdt/inference/physics"
)

// A counter that makes up for bursts of computing between two currents corrects no gap: windows of flight go on.
func TestBurstsAreNoGap(t *testing.T) {
	const burstFromS, burstToS, burstW, flightW, bootS = 0.72, 0.95, 330, 200, 40
	c := physics.DefaultConstants()
	m := Meter{CapacityJ: c.BatteryCapacityJ, PowerW: c.Propulsion.PowerW, MaxPowerW: 10 * c.Propulsion.PowerW(c.SpeedMaxMPS)}
	gaps, drawnJ := 0, 30e3
	for i := range 100 * 100 {
		now, ofSlotS := float64(i)/100, float64(i%100)/100
		powerW := float64(flightW)
		if ofSlotS > burstFromS && ofSlotS < burstToS {
			powerW += burstW
		}
		drawnJ += powerW / 100
		if i%10 == 0 {
			m.SetSpeed(now, 8, true)
		}
		if k := i % 100; k == 18 || k == 34 || k == 67 || k == 98 {
			r := Absent()
			r.ConsumedHJ, r.VoltageV, r.CurrentA, r.BootS = math.Floor(drawnJ/100), 16, powerW/16, now+bootS
			r.VoltageV += float64(i%7) / 1000 // no two are the same
			m.AddReading(now, r)
		}
		if i == 1000 {
			gaps = m.LastReading().Gaps
		}
	}
	if got := m.LastReading(); got.Gaps > gaps || math.Abs(got.ReadJ-(drawnJ-30e3)) > 150 {
		t.Errorf("%d gaps, %.0f J of %.0f", got.Gaps-gaps, got.ReadJ, drawnJ-30e3)
	}
}
