package teacher

import (
	"context"
	"fmt"

	"prefdt/offline/jobs"
	"prefdt/offline/pareto"
	"prefdt/simbridge/world"
)

// Sweep flies every seed at every price and returns the outcomes by price, then
// by seed. allowed is the check of package seeds for the use made of them; all
// are checked before the first flight. progress, if not nil, is called with the
// number of seeds done, by one worker at a time. The result does not depend on the
// number of workers.
func Sweep(ctx context.Context, c *world.Config, allowed func(seed uint64) error, seeds []uint64, pricesSPerJ []float64, workers int,
	progress func(done int)) ([][]pareto.Point, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("sweep the teacher: %w", err)
	}
	for _, seed := range seeds {
		if err := allowed(seed); err != nil {
			return nil, fmt.Errorf("sweep the teacher: %w", err)
		}
	}
	outcomes := make([][]pareto.Point, len(pricesSPerJ))
	for k := range outcomes {
		outcomes[k] = make([]pareto.Point, len(seeds))
	}
	type worker struct {
		Scheduler
		world *world.World
	}
	err := jobs.Do(ctx, len(seeds), workers, func() (*worker, error) {
		return &worker{world: &world.World{Config: *c}}, nil
	}, func(w *worker, i int) error {
		for k, price := range pricesSPerJ {
			if err := ctx.Err(); err != nil {
				return err
			}
			w.world.Reset(seeds[i])
			outcomes[k][i] = w.Fly(w.world, ConstantPrice(price), nil)
		}
		return nil
	}, progress)
	if err != nil {
		return nil, fmt.Errorf("sweep the teacher: %w", err)
	}
	return outcomes, nil
}
