package calibrate

import (
	"context"
	"math"
	"sort"

	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/offline/jobs"
	"prefdt/offline/rollout"
	"prefdt/simbridge/world"
)

// measureFloors flies the limits of budgets: in each condition the least energy
// against the floor that the objective reported, given the physics measured so far,
// at the quarters of that flight, and in calm air the most that is spent when
// energy is no matter. The figures are for the manifest.
func measureFloors(ctx context.Context, frozen *checkpoint.Checkpoint, c world.Config, list []uint64, workers int) (map[string]float64,
	error) {
	type flight struct{ leastJ, mostJ, floorJ, off float64 }
	flights := make([]flight, len(disturbances)*len(list))
	err := jobs.Do(ctx, len(flights), workers, jobs.Stateless, func(_ struct{}, j int) error {
		t := newTrial(&frozen.GoalConstants, c, list[j%len(list)], j/len(list))
		firstSlot := 0 // whose physics has been measured
		if t.world.PropulsionFactor(t.world.Slots-1) != 1 {
			firstSlot = t.world.Shock.FromSlot + 1
		}
		var floorsJ []float64 // that the objective reports at the quarters of the flight
		f, err := newRunner(frozen, t.world)
		if err != nil {
			return err
		}
		f.OnDecided = func(s *slot.Snapshot, g goal.Objective, _ *slot.Decision) {
			if quarter := s.Slots / 4; quarter > 0 && g.Slot() > 0 && g.Slot()%quarter == 0 && g.Slot() >= firstSlot {
				floorsJ = append(floorsJ, g.FloorJ())
			}
		}
		x := f.Fly(t.seed, rollout.Request{Mode: goal.Target, BudgetJ: 1})
		at := &flights[j]
		at.leastJ, at.floorJ = x.EnergyJ, x.FloorJ
		for _, floorJ := range floorsJ {
			at.off = max(at.off, math.Abs(floorJ/x.EnergyJ-1))
		}
		if j < len(list) {
			at.mostJ = f.Fly(t.seed, rollout.Request{Mode: goal.Target, BudgetJ: rollout.UnlimitedJ}).EnergyJ
		}
		return nil
	}, nil)
	if err != nil {
		return nil, err
	}
	figures := map[string]float64{"most_least_j": math.Inf(1)}
	n := float64(len(list))
	for k, name := range []string{"calm", "gust_5", "gust_15", "shock", "edge"}[:len(disturbances)] {
		var off []float64
		for _, x := range flights[k*len(list) : (k+1)*len(list)] {
			off = append(off, x.off)
			figures["floor_error_"+name] += x.off / n
			if k == 0 {
				figures["floor_j"] += x.leastJ / n
				figures["floor_over_closed_form"] = max(figures["floor_over_closed_form"], x.leastJ/x.floorJ)
				figures["most_j"] += x.mostJ / n
				figures["most_least_j"] = min(figures["most_least_j"], x.mostJ)
			}
		}
		sort.Float64s(off)
		figures["floor_error_95_"+name] = off[len(off)*95/100]
	}
	return figures, nil
}
