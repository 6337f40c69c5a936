package teacher

import (
	"cmp"
	"context"
	"fmt"

	"prefdt/offline/jobs"
	"prefdt/offline/pareto"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// Episodes flies every seed by each of n members of a front and returns the outcomes by member,
// then by seed. newFly returns, for each worker, what flies its world by a member: an episode must be a
// function of its seed and its member alone. progress, if not nil, is called with the number of
// seeds done, from one goroutine at a time.
func Episodes(ctx context.Context, c *world.Config, n int, list []uint64, workers int,
	newFly func(w *world.World) (func(member int) pareto.Point, error), progress func(done int)) ([][]pareto.Point, error) {
	outcomes := make([][]pareto.Point, n)
	for k := range outcomes {
		outcomes[k] = make([]pareto.Point, len(list))
	}
	type worker struct {
		world *world.World
		fly   func(member int) pareto.Point
	}
	return outcomes, jobs.Do(ctx, n*len(list), workers, func() (w worker, err error) {
		w.world = world.New(*c, 0)
		w.fly, err = newFly(w.world)
		return w, err
	}, func(w worker, job int) error {
		i, k := job/n, job%n
		w.world.Reset(list[i])
		outcomes[k][i] = w.fly(k)
		return nil
	}, func(done int) {
		if progress != nil && done%n == 0 {
			progress(done / n)
		}
	})
}

// Sweep flies every seed at every price and returns the outcomes by price, then
// by seed. allowed is the check of package seeds for the use made of them; all
// are checked before the first flight. For progress see Episodes.
func Sweep(ctx context.Context, c *world.Config, allowed func(seed uint64) error, list []uint64, pricesSPerJ []float64, workers int,
	progress func(done int)) (outcomes [][]pareto.Point, err error) {
	if err = cmp.Or(c.Check(), seeds.CheckAll(list, allowed)); err == nil {
		outcomes, err = Episodes(ctx, c, len(pricesSPerJ), list, workers, func(w *world.World) (func(int) pareto.Point, error) {
			var t Scheduler
			return func(k int) pareto.Point { return t.Fly(w, ConstantPrice(pricesSPerJ[k]), nil) }, nil
		}, progress)
	}
	if err != nil {
		return nil, fmt.Errorf("sweep the teacher: %w", err)
	}
	return outcomes, nil
}
