package search

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

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
	Seeds            SeedRange      `json:"seeds"`
	Members          int            `json:"members"`
	Hypervolume      pareto.Summary `json:"hypervolume"`       // reference 1000 s, 141 kJ
	HypervolumeTight pareto.Summary `json:"hypervolume_tight"` // reference 720 s, 39 kJ
	CornerS          pareto.Summary `json:"corner_s"`
	ReachS           pareto.Summary `json:"reach_s"`
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
	wideReference, tightReference := pareto.References(&a.Config.World, pool)
	var hypervolume, tight, corner, reach, igd []float64
	for _, points := range outcomes {
		hypervolume, tight = append(hypervolume, pareto.Hypervolume(points, wideReference)), append(tight, pareto.Hypervolume(points, tightReference))
		corner, reach, igd = append(corner, pareto.CornerS(points)), append(reach, pareto.ReachS(points)), append(igd, pareto.IGD(pareto.NonDominated(points), pool))
	}
	return Evaluation{
		Seeds: SeedRange{seeds[0], seeds[len(seeds)-1] + 1}, Members: len(a.Members),
		Hypervolume: pareto.Summarise(hypervolume), HypervolumeTight: pareto.Summarise(tight),
		CornerS: pareto.Summarise(corner), ReachS: pareto.Summarise(reach), IGD: pareto.Summarise(igd),
	}, nil
}

func (e Evaluation) print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%d members on %d seeds from %d, per seed\n", e.Members, e.Seeds.End-e.Seeds.First, e.Seeds.First)
	fmt.Fprint(table, "\tmean\tstd\t\n")
	for _, row := range []struct {
		name  string
		scale float64
		s     pareto.Summary
	}{
		{"hypervolume, 1e6 s J", 1e-6, e.Hypervolume},
		{"tight, 1e6 s J", 1e-6, e.HypervolumeTight},
		{"corner, s", 1, e.CornerS},
		{"reach, s", 1, e.ReachS},
		{"IGD, of the pooled span", 1, e.IGD},
	} {
		fmt.Fprintf(table, "%s\t%.5g\t%.3g\t\n", row.name, row.s.Mean*row.scale, row.s.Std*row.scale)
	}
	return table.Flush()
}
