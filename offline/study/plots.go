package study

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"

	"prefdt/offline/plots"
	"prefdt/offline/rollout"
	"prefdt/simbridge/chart"
)

// picture is one image of the report, shown below a table.
type picture struct{ table, file, title string }

// drawPictures draws what the results allow.
func (s *study) drawPictures(dir string, results []*Result, tables map[string][]Metrics) ([]picture, error) {
	var done []picture
	for _, p := range []struct {
		picture
		panels func() []*plot.Plot // side by side; none: the results do not have it
	}{
		{picture{"headline", "fronts.png", "Fronts of the arms"}, func() []*plot.Plot { return frontPanels(results) }},
		{picture{"headline", "fidelity.png", "Requested and achieved"}, func() []*plot.Plot {
			return plots.Requested(uniformArms(results, "flagship", "base", "flagship-heads", "paper-form", "paper-form-dispatch", "omega-bc"))
		}},
		{picture{"headline", "propulsion.png", "Propulsion power against speed"}, func() []*plot.Plot { return plots.Propulsion(&s.world.Physics) }},
		{picture{"headline", "speed.png", "Mean speed flown at each setting"}, func() []*plot.Plot {
			return plots.Speeds(uniformArms(results, "flagship", "omega-bc", "paper-form", "paper-form-dispatch"), &s.world.Physics)
		}},
		{picture{"budgets", "budget.png", "Energy and delay under a shock and a revision, the mean over seeds"}, func() []*plot.Plot { return budgetPanels(results) }},
		{picture{"sizes", "sizes.png", "Hypervolume against size"}, func() []*plot.Plot { return s.sizePanels(tables["sizes"]) }},
		{picture{"sizes", "gusts.png", "End of budgets in gusts against size"}, func() []*plot.Plot { return s.gustPanels(tables["sizes"]) }},
	} {
		panels := p.panels()
		if len(panels) == 0 {
			continue
		}
		if err := plots.Save(filepath.Join(dir, p.file), p.title, panels); err != nil {
			return nil, fmt.Errorf("plot %s: %w", p.file, err)
		}
		done = append(done, p.picture)
	}
	return done, nil
}

// frontPanels overlays the mean fronts.
func frontPanels(results []*Result) []*plot.Plot {
	var arms []plots.Arm
	for _, name := range []string{"dispatch-teacher", "flagship", "base", "flagship-heads", "rules-101", "paper-form", "omega-bc", "unconditioned"} {
		if r := findResult(results, name); r != nil {
			arms = append(arms, plots.Arm{Label: name, Outcomes: r.Outcomes})
		}
	}
	return plots.Fronts(arms)
}

// uniformArms are what arms did at even settings; those without are left out.
func uniformArms(results []*Result, names ...string) (arms []plots.Arm) {
	for _, name := range names {
		if r := findResult(results, name); r != nil && len(r.Uniform.Points) > 0 {
			arms = append(arms, plots.Arm{Label: name, Outcomes: r.Uniform.Points, Settings: r.Uniform.Omegas, SpeedMPS: r.Uniform.SpeedMPS})
		}
	}
	return arms
}

// budgetPanels shows energy and delay under the shock.
func budgetPanels(results []*Result) []*plot.Plot {
	pacer := findResult(results, evenArm)
	if pacer == nil {
		return nil
	}
	var arms []plots.Arm
	for _, x := range []struct {
		arm, label string
		trace      int
	}{{"flagship", "flagship", 0}, {evenArm, "even pacer", 0}, {"flagship", "flagship", 1}, {"rules-50", "rule of nearest energy", 0}, {"paper-form", "paper form", 0}} {
		if r := findResult(results, x.arm); r != nil {
			arms = append(arms, plots.Arm{Label: x.label, Trace: &r.EnergyTraces[x.trace]})
		}
	}
	return Consumption(arms, &pacer.EnergyTraces[0])
}

// Consumption shows traces of FlyBudgets beside the even pacer's.
func Consumption(arms []plots.Arm, pacer *rollout.EnergyTrace) []*plot.Plot {
	return plots.Consumption(arms, pacer, []float64{traceRequests[0].BudgetJ, traceRequests[1].RevisedBudgetJ}, plots.Shock{Slot: Shock.FromSlot, Factor: Shock.Factor})
}

// sizePanels shows what a size gains or loses against the base.
func (s *study) sizePanels(rows []Metrics) []*plot.Plot {
	panels := s.bySize(rows, "hypervolume less the base's (1e6 s J), 95 %", func(r *Metrics) (y, low, high float64) {
		if r.Arm == "base" {
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
func (s *study) gustPanels(rows []Metrics) []*plot.Plot {
	panels := s.bySize(rows, "end in gusts of 15 % (% of the budget), 95 %", func(r *Metrics) (y, low, high float64) {
		mean, _ := r.meanBudget(PerturbationGusts)
		low, high = r.endInterval(PerturbationGusts)
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
func (s *study) bySize(rows []Metrics, what string, figure func(*Metrics) (y, low, high float64)) []*plot.Plot {
	p := plots.New("", what)
	var ticks plot.ConstantTicks
	for i, context := range []int{1, 5, 20} {
		points := struct {
			plotter.XYs
			plotter.YErrors
		}{}
		for _, a := range s.sizes() {
			row := slices.IndexFunc(rows, func(r Metrics) bool { return r.Arm == s.sizeArmName(a) })
			if row < 0 {
				continue
			}
			y, low, high := figure(&rows[row])
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
		marks := &plotter.Scatter{XYs: points.XYs, GlyphStyle: draw.GlyphStyle{Color: chart.Palette[i], Radius: 4, Shape: plots.FilledMarkers[i]}}
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
