package judge

import (
	"math"
	"testing"

	"prefdt/inference/belief"
	"prefdt/inference/belief/learned"
	"prefdt/inference/checkpoint"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// What the same estimator believes again is what the ledger has; another wind, and another cost, are seen.
func TestBelievedAgain(t *testing.T) {
	frozen, err := checkpoint.Load("../../configs/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	wind := physics.Position{EastM: 5}
	for _, off := range []float64{0, 0.5} {
		f := servingFlight()
		f.frozen = frozen
		estimator := frozen.NewEstimator(learned.Surroundings{Physics: &f.Physics, Wind: true, SensorSD: sensorSD})
		var b belief.Belief
		for k := range f.end.Ledger.Rows {
			r := &f.end.Ledger.Rows[k]
			v := physics.Position{EastM: 8 * math.Sin(float64(k)), NorthM: 8 * math.Cos(float64(k))}
			r.Seen.Snapshot = slot.Snapshot{Slot: r.Slot, Slots: f.Slots, Aircraft: []slot.Aircraft{{Number: 1, Flown: slot.Flown{
				EastMPS: v.EastM, NorthMPS: v.NorthM, FlightJ: f.Physics.Propulsion.PowerW(v.Sub(wind).Norm())}}}}
			b.Resize(&r.Seen.Snapshot)
			estimator.Estimate(&r.Seen.Snapshot, &b)
			mean := b.Air.MeanMPS()
			r.Seen.Believed.WindMPS, r.Seen.Believed.PowerMultiplier = &[2]float64{mean.EastM + off, mean.NorthM}, b.Air.Multiplier
		}
		if got := judged(t, "believed again", f); (got.Broken > 0) != (off > 0) || got.Active == 0 {
			t.Errorf("%.1f m/s off: %+v", off, got)
		}
	}
}
