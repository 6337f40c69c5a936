package goal

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Estimates of the edge energy that are wrong by up to 100 J a slot move the
// multiplier little; a change among them is found.
func TestEstimatedEdgeEnergy(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	o := newObjective()
	fly := func(slots int, multiplier float64) {
		for range slots {
			errorJ := 100 * (2*r.Float64() - 1) // of the estimated edge energy
			o.Settle(Settlement{EnergyJ: 268.8*multiplier + 110 + errorJ, EdgeJ: 110, MinEdgeJ: 10, MaxEdgeJ: 210, ModelFlightJ: 268.8,
				Flying: 2})
		}
	}
	fly(48, 1)
	if math.Abs(o.PropulsionMultiplier()-1) > 0.06 {
		t.Errorf("multiplier %v in calm air", o.PropulsionMultiplier())
	}
	fly(16, 1.5)
	if math.Abs(o.PropulsionMultiplier()-1.5) > 0.12 {
		t.Errorf("multiplier %v 16 slots after it rose to 1.5", o.PropulsionMultiplier())
	}
	o.Settle(Settlement{EnergyJ: 268.8 * 0.9, ModelFlightJ: 268.8, Flying: 2})
	if o.state.PendingSlots != 0 {
		t.Errorf("%d slots are pending after 64, which make whole measurements", o.state.PendingSlots)
	}
}

// One slot is enough to detect a shock that no edge energy within the bounds
// explains; the next measurement determines its size.
func TestIntervalDoesNotHideAShock(t *testing.T) {
	o := newObjective()
	settle := func(multiplier, edgeJ, minJ, maxJ float64) {
		o.Settle(Settlement{EnergyJ: 268.8*multiplier + 200, EdgeJ: edgeJ, MinEdgeJ: minJ, MaxEdgeJ: maxJ, ModelFlightJ: 268.8, Flying: 2})
	}
	for range 20 {
		settle(1, 200, 0, 0)
	}
	settle(1, 120, 60, 220)
	if math.Abs(o.PropulsionMultiplier()-1) > 1e-9 || o.state.PendingSlots != 1 {
		t.Errorf("an interval around it moved the multiplier to %v", o.PropulsionMultiplier())
	}
	settle(1.5, 120, 60, 220)
	if want := 1.5 + 80/268.8; math.Abs(o.PropulsionMultiplier()-want) > 1e-9 || o.state.PendingSlots != 0 {
		t.Errorf("multiplier %v, want the estimate %v", o.PropulsionMultiplier(), want)
	}
	settle(1.5, 200, 0, 0)
	if math.Abs(o.PropulsionMultiplier()-1.5) > 0.01 {
		t.Errorf("multiplier %v after a measurement of 1.5", o.PropulsionMultiplier())
	}
	settle(1, 220, 150, 300)
	if want := 1 - 20/268.8; math.Abs(o.PropulsionMultiplier()-want) > 1e-9 {
		t.Errorf("multiplier %v, want the estimate %v", o.PropulsionMultiplier(), want)
	}
}
