package search

import (
	"context"

	"prefdt/offline/pareto"
)

// SeedRange is a half-open range of seeds.
type SeedRange struct {
	First uint64 `json:"first"`
	End   uint64 `json:"end"` // excluded
}

// Evaluation is an archive flown on seeds it was not searched on. Each metric
// is computed per seed, on the front that the archive's members make there.
type Evaluation struct {
	Seeds   SeedRange `json:"seeds"`
	Members int       `json:"members"`
	pareto.Summaries
	// IGD is measured against the front pooled over all seeds flown: no single
	// seed reaches it, so it is not 0 even for a perfect method.
	IGD pareto.Summary `json:"igd"`
}

// Evaluate flies every member of an archive on consecutive seeds.
func Evaluate(ctx context.Context, a Archive, seeds []uint64, workers int, progress func(done int)) (Evaluation, error) {
	outcomes, err := Fly(ctx, &a.Config.World, a.Members, seeds, workers, progress)
	if err != nil {
		return Evaluation{}, err
	}
	pool := pareto.Pool(outcomes...)
	wide, tight := pareto.References(&a.Config.World, pool)
	igd := pareto.BySeed(outcomes, func(points []pareto.Point) float64 { return pareto.IGD(pareto.NonDominated(points), pool) })
	return Evaluation{
		Seeds: SeedRange{seeds[0], seeds[len(seeds)-1] + 1}, Members: len(a.Members),
		Summaries: pareto.Measure(nil, outcomes, wide, tight).Summarise(), IGD: pareto.Summarise(igd),
	}, nil
}
