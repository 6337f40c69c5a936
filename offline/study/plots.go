package study

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"

	"prefdt/offline/experiment"
	"prefdt/offline/plots"
	"prefdt/offline/rollout"
	"prefdt/simbridge/chart"
)

// drawPictures draws what the results allow.
func (r *report) drawPictures(dir string, tables map[string][]*figures) ([]plots.Picture, error) {
	constants := &r.world.Physics
	return plots.Draw(dir, []plots.Picture{
		{Table: "headline", File: "fronts.png", Title: "Fronts of the arms", Panels: plots.Fronts(plots.Of(r.results, experiment.Nominal,
			"dispatch-teacher", "flagship", "base", "flagship-heads", "rules-101", "paper-form", "omega-bc", "unconditioned"))},
		{Table: "headline", File: "fidelity.png", Title: "Requested and achieved", Panels: plots.Requested(plots.Of(r.results, EvenSettings,
			"flagship", "base", "flagship-heads", "paper-form", "paper-form-dispatch", "omega-bc"))},
		{Table: "headline", File: "propulsion.png", Title: "Propulsion power against speed", Panels: plots.Propulsion(constants)},
		{Table: "headline", File: "speed.png", Title: "Mean speed flown at each setting",
			Panels: plots.Speeds(plots.Of(r.results, EvenSettings, "flagship", "omega-bc", "paper-form", "paper-form-dispatch"),
				constants)},
		{Table: "budgets", File: "budget.png", Title: "Energy and delay under a shock and a revision, the mean over seeds",
			Panels: r.budgetPanels()},
		{Table: "sizes", File: "sizes.png", Title: "Hypervolume against size", Panels: r.sizePanels(tables["sizes"])},
		{Table: "sizes", File: "gusts.png", Title: "End of budgets in gusts against size", Panels: r.gustPanels(tables["sizes"])},
	})
}

// budgetPanels shows energy and delay under the shock.
func (r *report) budgetPanels() []*plot.Plot {
	pacer := r.results[evenArm]
	if pacer == nil {
		return nil
	}
	var arms []plots.Arm
	for _, x := range []struct {
		arm, label string
		trace      int
	}{{"flagship", "flagship", 0}, {evenArm, "even pacer", 0}, {"flagship", "flagship", 1}, {"rules-50", "rule of nearest energy", 0},
		{"paper-form", "paper form", 0}} {
		if own := r.results[x.arm]; own != nil {
			arms = append(arms, plots.Arm{Label: x.label, Trace: &own.Traces[x.trace]})
		}
	}
	return Consumption(arms, &pacer.Traces[0])
}

// Consumption shows traces of FlyBudgets beside the even pacer's.
func Consumption(arms []plots.Arm, pacer *rollout.EnergyTrace) []*plot.Plot {
	return plots.Consumption(arms, pacer, []float64{experiment.TraceRequests[0].BudgetJ, experiment.TraceRequests[1].RevisedBudgetJ},
		plots.Shock{Slot: experiment.Shock.FromSlot, Factor: experiment.Shock.Factor})
}

// sizePanels shows what a size gains or loses against the base.
func (r *report) sizePanels(rows []*figures) []*plot.Plot {
	panels := r.bySize(rows, "hypervolume less the base's (1e6 s J), 95 %", func(r *figures) (y, low, high float64) {
		if r.Name == "base" {
			return 0, 0, 0
		}
		return r.Paired.Mean / 1e6, r.Low / 1e6, r.High / 1e6
	})
	for _, p := range panels {
		plots.AddLine(p, "the base", chart.Grey, plotter.XYs{{X: p.X.Min, Y: 0}, {X: p.X.Max, Y: 0}}, 2, 3)
	}
	return panels
}

// gustPanels shows where a size ends on budgets in gusts.
func (r *report) gustPanels(rows []*figures) []*plot.Plot {
	panels := r.bySize(rows, "end in gusts of 15 % (% of the budget), 95 %", func(r *figures) (y, low, high float64) {
		mean := r.Budgets.Mean(experiment.PerturbationGusts)
		low, high = r.Budgets.EndInterval(experiment.PerturbationGusts)
		return 100 * mean.End, 100 * low, 100 * high
	})
	for _, p := range panels {
		plots.AddLine(p, "the budget", chart.Grey, plotter.XYs{{X: p.X.Min, Y: 0}, {X: p.X.Max, Y: 0}}, 2, 3)
		p.Y.Max += 0.25 * (p.Y.Max - p.Y.Min) // the legend stands above the line
	}
	return panels
}

// bySize draws a figure and its interval for every size, those of one width and
// depth side by side, each context with a marker of its own.
func (r *report) bySize(rows []*figures, what string, figure func(*figures) (y, low, high float64)) []*plot.Plot {
	p := plots.New("", what)
	var ticks plot.ConstantTicks
	for i, context := range []int{1, 5, 20} {
		points := struct {
			plotter.XYs
			plotter.YErrors
		}{}
		for _, a := range r.sizes() {
			row := slices.IndexFunc(rows, func(x *figures) bool { return x.Name == r.sizeArmName(a) })
			if row < 0 {
				continue
			}
			y, low, high := figure(rows[row])
			if math.IsNaN(y + low + high) {
				continue
			}
			label := fmt.Sprintf("%d wide, %d deep\n%s", a.Width, a.Layers, formatThousands(rows[row].Parameters))
			column := slices.IndexFunc(ticks, func(t plot.Tick) bool { return t.Label == label })
			if column < 0 {
				column = len(ticks)
				ticks = append(ticks, plot.Tick{Value: float64(column), Label: label})
			}
			if a.Context != context {
				continue
			}
			points.XYs = append(points.XYs, plotter.XY{X: float64(column) + 0.2*float64(i-1), Y: y})
			points.YErrors = append(points.YErrors, struct{ Low, High float64 }{y - low, high - y})
		}
		if len(points.XYs) == 0 {
			continue
		}
		bars, err := plotter.NewYErrorBars(points)
		if err != nil {
			return nil // of figures that are not finite, which were left out
		}
		bars.LineStyle = draw.LineStyle{Color: chart.Palette[i], Width: 1.4}
		marks := &plotter.Scatter{XYs: points.XYs, GlyphStyle: draw.GlyphStyle{Color: chart.Palette[i], Radius: 4,
			Shape: plots.FilledMarkers[i]}}
		p.Add(bars, marks)
		p.Legend.Add(fmt.Sprintf("context of %d", context), marks)
	}
	if len(ticks) == 0 {
		return nil
	}
	p.X.Tick.Marker, p.X.Min, p.X.Max = ticks, -0.5, float64(len(ticks))-0.5
	p.X.Label.Text = "width, depth and parameters of the network"
	p.Y.Max += 0.25 * (p.Y.Max - p.Y.Min)
	return []*plot.Plot{p}
}
