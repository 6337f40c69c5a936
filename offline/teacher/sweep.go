package teacher

import (
	"context"
	"fmt"

	"prefdt/offline/front"
	"prefdt/offline/jobs"
	"prefdt/simbridge/world"
)

// Sweep flies every seed at every price and returns the outcomes by price, then
// by seed. allowed is the check of package seeds for the use made of them; all
// are checked before the first flight. progress, if not nil, is told how many
// seeds are done, by one worker at a time. The result does not depend on the
// number of workers.
func Sweep(ctx context.Context, c *world.Config, allowed func(seed uint64) error, seeds []uint64, pricesSPerJ []float64, workers int, progress func(done int)) ([][]front.Point, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("sweep the teacher: %w", err)
	}
	for _, seed := range seeds {
		if err := allowed(seed); err != nil {
			return nil, fmt.Errorf("sweep the teacher: %w", err)
		}
	}
	outcomes := make([][]front.Point, len(pricesSPerJ))
	for k := range outcomes {
		outcomes[k] = make([]front.Point, len(seeds))
	}
	type cockpit struct {
		Pilot
		world *world.World
	}
	err := jobs.Do(ctx, len(seeds), workers, func() (*cockpit, error) {
		return &cockpit{world: &world.World{Config: *c}}, nil
	}, func(at *cockpit, i int) error {
		for k, price := range pricesSPerJ {
			if err := ctx.Err(); err != nil {
				return err
			}
			at.world.Reset(seeds[i])
			outcomes[k][i] = at.Fly(at.world, Constant(price), nil)
		}
		return nil
	}, progress)
	if err != nil {
		return nil, fmt.Errorf("sweep the teacher: %w", err)
	}
	return outcomes, nil
}

// Archive returns the mean outcome over seeds of each price of a sweep.
func Archive(outcomes [][]front.Point) []front.Point {
	archive := make([]front.Point, len(outcomes))
	for k, row := range outcomes {
		for _, p := range row {
			archive[k].DelayS += p.DelayS / float64(len(row))
			archive[k].EnergyJ += p.EnergyJ / float64(len(row))
		}
	}
	return archive
}

// Front returns one seed's outcomes at every price of a sweep.
func Front(outcomes [][]front.Point, seed int) []front.Point {
	points := make([]front.Point, len(outcomes))
	for k := range outcomes {
		points[k] = outcomes[k][seed]
	}
	return points
}
