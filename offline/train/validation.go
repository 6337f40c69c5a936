package train

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"prefdt/inference"
	"prefdt/inference/goal"
	"prefdt/inference/model"
	"prefdt/offline/corpus"
	"prefdt/offline/nn"
	"prefdt/offline/pareto"
	"prefdt/offline/plots"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/chart"
)

// figures are how parameters did on training seeds.
type figures struct {
	Hypervolume      float64 // of a coarse front, 1e6 J s
	TightHypervolume float64 // with the tight reference point, 1e6 J s
	Fidelity         float64
	BudgetError      float64 // mean absolute, relative
}

// validation flies parameters in a corpus's world on ten training seeds, the last
// of the range, over a front of eleven settings and three budgets.
func validation(ctx context.Context, m *corpus.Manifest, a model.Arch, parameters []float32) (v figures, err error) {
	unfitted, err := m.UncalibratedCheckpoint(a, parameters, m.Statistics)
	if err != nil {
		return v, err
	}
	list := seeds.List(seeds.TrainingLast-9, 10)
	omegas := rollout.Linspace(unfitted.OmegaBand[0], unfitted.OmegaBand[1], 11)
	requests := rollout.PreferenceRequests(omegas)
	budgets := []float64{29e3, 32e3, 36e3} // of the standard world
	for i := range budgets {
		budgets[i] *= m.World.EnergyScale()
		requests = append(requests, rollout.Request{Mode: goal.Target, BudgetJ: budgets[i]})
	}
	results, err := rollout.Sweep(ctx, unfitted, inference.DecoderDispatch, m.World, rollout.ReportLink{}, list, requests,
		runtime.GOMAXPROCS(0), nil)
	if err != nil {
		return v, err
	}
	wide, tight := pareto.References(&m.World, m.Archive.Points)
	y := pareto.Measure(omegas, rollout.Outcomes(results[:len(omegas)]), wide, tight)
	v = figures{Hypervolume: pareto.Mean(y.Hypervolumes) / 1e6, TightHypervolume: pareto.Mean(y.Tight) / 1e6,
		Fidelity: pareto.Mean(y.Fidelities)}
	n := float64(len(list) * len(budgets))
	for i, j := range budgets {
		for _, flown := range results[len(omegas)+i] {
			v.BudgetError += math.Abs(flown.EnergyJ/j-1) / n
		}
	}
	return v, nil
}

// String is what training prints.
func (v figures) String() string {
	return fmt.Sprintf("hypervolume %.3fe6  tight %.4fe6  fidelity %.4f  budget error %.3f %%", v.Hypervolume, v.TightHypervolume,
		v.Fidelity, 100*v.BudgetError)
}

const validationHeader = "step,hypervolume_1e6,tight_1e6,fidelity,budget_error\n"

// score ranks parameters: a percent of budget error weighs as much as 1e6 of
// hypervolume, which is about a percent too.
func score(line []float64) float64 { return line[1] - 100*line[4] }

// record appends a line to validation.csv, and draws training.png anew.
func record(step int, dir string, log io.Writer, v figures) error {
	if _, err := fmt.Fprintf(log, "%d,%.5f,%.5f,%.5f,%.6f\n", step, v.Hypervolume, v.TightHypervolume, v.Fidelity,
		v.BudgetError); err != nil {
		return fmt.Errorf("validation log: %w", err)
	}
	return plotTraining(dir)
}

// plotTraining draws the loss, and what the validations found, over the steps.
func plotTraining(dir string) error {
	losses, err := nn.ReadLog(filepath.Join(dir, "log.csv"))
	if err != nil {
		return err
	}
	checks, err := nn.ReadLog(filepath.Join(dir, "validation.csv"))
	if err != nil {
		return err
	}
	const window = 50 // steps of a running mean
	var loss, hypervolume, budget plotter.XYs
	for i := window; i <= len(losses); i += window / 2 {
		sum := 0.0
		for _, r := range losses[i-window : i] {
			sum += r[3] / window
		}
		loss = append(loss, plotter.XY{X: losses[i-1][0], Y: sum})
	}
	for _, r := range checks {
		hypervolume = append(hypervolume, plotter.XY{X: r[0], Y: r[1]})
		budget = append(budget, plotter.XY{X: r[0], Y: 100 * r[4]})
	}
	var panels []*plot.Plot
	for _, c := range []struct {
		name   string
		points plotter.XYs
	}{{"loss, mean of 50 steps", loss}, {"hypervolume (1e6 J s)", hypervolume}, {"budget error (%)", budget}} {
		p := plots.New("step", c.name)
		plots.AddLine(p, "", chart.Blue, plots.LineWidth, c.points)
		panels = append(panels, p)
	}
	return plots.Save(filepath.Join(dir, "training.png"), "", panels)
}
