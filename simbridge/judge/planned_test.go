package judge

import (
	"testing"

	"prefdt/firmware/account"
	"prefdt/firmware/ledger"
	"prefdt/inference/checkpoint"
	"prefdt/inference/duty"
	"prefdt/telemetry"
)

// What the same planner plans again is what is told; other slots of leaving, and another floor, are seen once they last.
func TestPlannedAgain(t *testing.T) {
	frozen, err := checkpoint.Load("../../configs/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		floorJ float64
		broken bool
	}{{0, false}, {4e3, true}} {
		f := packsFlight(false)
		f.frozen, f.end.Ledger = frozen, &ledger.Flight{}
		f.Slots = 60
		for _, a := range f.aircraft {
			a.takeOffs = nil
			a.derive(f)
		}
		c := &check{flight: f, finding: Finding{Assumed: map[string]float64{}}}
		planner := duty.New(&f.Physics, frozen.UserPrior(), frozen.PriceCurve.PriceSPerJ(1))
		for k := range f.statuses {
			s := &f.statuses[k]
			b := f.packsFrom(s.timeS)
			if s.Slot < 0 || s.Slot+1 >= f.Slots || b == nil || s.State != telemetry.StateFlying {
				continue
			}
			f.end.Ledger.Rows = append(f.end.Ledger.Rows, account.Row{Slot: s.Slot, PropulsionMultiplier: 1})
			in := c.planInput(s, b, 1)
			plan := planner.Plan(in)
			s.SpentJ = 10e3
			s.FloorJ = s.SpentJ + plan.FloorJ + x.floorJ
			s.PredictedEndJ = new(s.FloorJ + 1e3)
		}
		if got := judged(t, "planned again", f); (got.Broken > 0) != x.broken || got.Active == 0 {
			t.Errorf("%+v: %+v", x, got)
		}
	}
}
