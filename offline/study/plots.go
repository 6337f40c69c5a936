package study

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"prefdt/offline/pareto"
	"prefdt/simbridge/chart"
)

// picture is one plot of the report, shown below a table.
type picture struct{ table, file, title string }

// drawPlots draws what the results allow.
func (s *study) drawPlots(dir string, results []*Result, rows []Metrics) ([]picture, error) {
	var done []picture
	for _, p := range []struct {
		picture
		draw func() *plot.Plot
	}{
		{picture{"headline", "fronts.png", "Fronts of the arms"}, func() *plot.Plot { return frontsPlot(results) }},
		{picture{"headline", "fidelity.png", "What is asked and what is got"}, func() *plot.Plot { return fidelityPlot(results) }},
		{picture{"headline", "propulsion.png", "Propulsion power against speed"}, s.propulsionPlot},
		{picture{"headline", "speed.png", "Mean speed flown at each setting"}, func() *plot.Plot { return s.speedPlot(results) }},
		{picture{"budgets", "budget.png", "Energy under a shock and a revision"}, func() *plot.Plot { return budgetPlot(results) }},
		{picture{"sizes", "sizes.png", "Hypervolume ratio against parameters"}, func() *plot.Plot {
			return s.sizePlot(rows, "tight hypervolume over the teacher's", func(r *Metrics) float64 { return r.TightRatio })
		}},
		{picture{"sizes", "gusts.png", "Budget error in gusts against parameters"}, func() *plot.Plot {
			return s.sizePlot(rows, "budget error in gusts of 15 % (%)", func(r *Metrics) float64 { return 100 * cmp.Or(r.BudgetAbsError[perturbationGusts], math.NaN()) })
		}},
	} {
		picture := p.draw()
		if picture == nil {
			continue
		}
		picture.Title.Text = p.title
		if err := picture.Save(22*vg.Centimeter, 13*vg.Centimeter, filepath.Join(dir, p.file)); err != nil {
			return nil, fmt.Errorf("plot %s: %w", p.file, err)
		}
		done = append(done, p.picture)
	}
	return done, nil
}

func newPlot(x, y string) *plot.Plot {
	p := chart.New("", x, y)
	p.Legend.Top, p.Legend.XOffs = true, -8
	return p
}

const noteFontSize = 9

// addCurve adds a line, with its points marked if marked is set.
func addCurve(p *plot.Plot, label string, xy plotter.XYs, c color.Color, marked bool, dashes ...vg.Length) {
	l := &plotter.Line{XYs: xy, LineStyle: draw.LineStyle{Color: c, Width: 1.6, Dashes: dashes}}
	dots := &plotter.Scatter{XYs: xy, GlyphStyle: draw.GlyphStyle{Color: c, Radius: 2.5, Shape: draw.CircleGlyph{}}}
	shown := []plot.Thumbnailer{}
	if len(xy) > 1 {
		p.Add(l)
		shown = append(shown, l)
	}
	if marked {
		p.Add(dots)
		shown = append(shown, dots)
	}
	if label != "" {
		p.Legend.Add(label, shown...)
	}
}

// frontsPlot overlays the mean fronts.
func frontsPlot(results []*Result) *plot.Plot {
	p := newPlot("delay with penalties (s), logarithmic", "energy (kJ)")
	p.X.Scale = plot.LogScale{}
	var marks plot.ConstantTicks
	for _, delay := range []float64{80, 90, 100, 120, 150, 200, 300, 400, 500, 700} {
		marks = append(marks, plot.Tick{Value: delay, Label: strconv.FormatFloat(delay, 'g', 4, 64)})
	}
	p.X.Tick.Marker = marks
	n := 0
	for _, name := range []string{"dispatch-teacher", "flagship", "flagship-heads", "base", "rules-101", "paper-form", "omega-bc", "unconditioned"} {
		r := findResult(results, name)
		if r == nil {
			continue
		}
		var means []pareto.Point
		for _, row := range r.Outcomes {
			means = append(means, meanPoint(row))
		}
		var xy plotter.XYs
		for _, q := range pareto.NonDominated(means) {
			xy = append(xy, plotter.XY{X: q.DelayS, Y: q.EnergyJ / 1e3})
		}
		addCurve(p, name, xy, chart.Palette[n%len(chart.Palette)], true)
		n++
	}
	if n == 0 {
		return nil
	}
	return p
}

// fidelityPlot shows where on the front each asked share arrived.
func fidelityPlot(results []*Result) *plot.Plot {
	p := newPlot("delay share asked for", "delay (s)")
	n := 0
	for _, name := range []string{"flagship", "flagship-heads", "base", "paper-form", "paper-form-dispatch", "omega-bc"} {
		r := findResult(results, name)
		if r == nil || len(r.Uniform.Points) == 0 {
			continue
		}
		var xy plotter.XYs
		for i, row := range r.Uniform.Points {
			xy = append(xy, plotter.XY{X: r.Uniform.Omegas[i], Y: meanPoint(row).DelayS})
		}
		addCurve(p, name, xy, chart.Palette[n%len(chart.Palette)], true)
		n++
	}
	if n == 0 {
		return nil
	}
	p.Legend.Left, p.Legend.XOffs = true, 8
	return p
}

// propulsionPlot is eq. (prop) with hover and the interior minimum.
func (s *study) propulsionPlot() *plot.Plot {
	p := newPlot("speed (m/s)", "power of one aircraft (W)")
	c := &s.world.Physics
	var xy plotter.XYs
	for v := 0.0; v <= c.SpeedMaxMPS; v += 0.25 {
		xy = append(xy, plotter.XY{X: v, Y: c.Propulsion.PowerW(v)})
	}
	addCurve(p, "", xy, chart.Blue, false)
	best := c.Propulsion.BestSpeedMPS(c.SpeedMaxMPS)
	for _, at := range []struct {
		v    float64
		name string
	}{{0, "hover"}, {best, "v*"}} {
		power := c.Propulsion.PowerW(at.v)
		addCurve(p, "", plotter.XYs{{X: at.v, Y: power}}, chart.Red, true)
		chart.Note(p, fmt.Sprintf("%s: %.1f W at %.1f m/s", at.name, power, at.v), at.v, power+8, chart.Red, noteFontSize)
	}
	p.Y.Min = 0
	return p
}

// speedPlot is the mean speed flown against the setting.
func (s *study) speedPlot(results []*Result) *plot.Plot {
	p := newPlot("delay share asked for", "mean speed (m/s)")
	n := 0
	for _, name := range []string{"flagship", "paper-form", "paper-form-dispatch", "omega-bc"} {
		r := findResult(results, name)
		if r == nil || len(r.Uniform.SpeedMPS) == 0 {
			continue
		}
		var xy plotter.XYs
		for i, v := range r.Uniform.SpeedMPS {
			xy = append(xy, plotter.XY{X: r.Uniform.Omegas[i], Y: v})
		}
		addCurve(p, name, xy, chart.Palette[n%len(chart.Palette)], true)
		n++
	}
	if n == 0 {
		return nil
	}
	best := s.world.Physics.Propulsion.BestSpeedMPS(s.world.Physics.SpeedMaxMPS)
	addCurve(p, "v*", plotter.XYs{{X: 0, Y: best}, {X: 1, Y: best}}, chart.Black, false, 5, 4)
	p.Y.Min = 0
	p.Y.Max *= 1.25
	return p
}

// budgetPlot shows, relative to an even pace so that a percent is seen, how the
// energy under the shock approaches its budget.
func budgetPlot(results []*Result) *plot.Plot {
	p := newPlot("slot", "energy spent less an even pace to 40.5 kJ (kJ)")
	n := 0
	add := func(r *Result, k int, label string) {
		if r == nil || len(r.EnergyTraces) <= k {
			return
		}
		t := r.EnergyTraces[k]
		c := chart.Palette[n%len(chart.Palette)]
		last := float64(len(t.MeanJ) - 1)
		var xy, up, down plotter.XYs
		for i, j := range t.MeanJ {
			x, even := float64(i), t.BudgetJ*float64(i)/last
			xy = append(xy, plotter.XY{X: x, Y: (j - even) / 1e3})
			up = append(up, plotter.XY{X: x, Y: (j - even + t.StdDevJ[i]) / 1e3})
			down = append(down, plotter.XY{X: x, Y: (j - even - t.StdDevJ[i]) / 1e3})
		}
		band := append(plotter.XYs{}, up...)
		for i := len(down) - 1; i >= 0; i-- {
			band = append(band, down[i])
		}
		if area, err := plotter.NewPolygon(band); err == nil {
			faint := color.NRGBA{c.R, c.G, c.B, 0x30}
			area.Color, area.LineStyle.Width = faint, 0
			p.Add(area)
		}
		addCurve(p, label, xy, c, false)
		n++
	}
	add(findResult(results, "flagship"), 0, "flagship, 40.5 kJ")
	add(findResult(results, "flagship"), 1, fmt.Sprintf("flagship, revised to 36 kJ at slot %d, below its floor", reviseSlot))
	add(findResult(results, "rules-50"), 0, "rule of matching appetite")
	add(findResult(results, "paper-form"), 0, "paper form, 40.5 kJ")
	if n == 0 {
		return nil
	}
	addCurve(p, "the budget's even pace", plotter.XYs{{X: 0, Y: 0}, {X: 100, Y: 0}}, chart.Black, false, 2, 3)
	low, high := p.Y.Min, p.Y.Max
	addCurve(p, fmt.Sprintf("flight power x%.1f", shockFactor), plotter.XYs{{X: shockSlot, Y: low}, {X: shockSlot, Y: high}}, chart.Red, false, 6, 4)
	p.Legend.Left, p.Legend.XOffs = true, 8
	p.Y.Max = high + 0.5*(high-low)
	return p
}

// sizePlot draws a figure against parameters, a line for each context.
func (s *study) sizePlot(rows []Metrics, what string, figure func(*Metrics) float64) *plot.Plot {
	p := newPlot("parameters (thousands)", what)
	n := 0
	for _, context := range []int{20, 5, 1} {
		var xy plotter.XYs
		var names []string
		for _, a := range s.sizes() {
			if a.Context != context {
				continue
			}
			for i := range rows {
				if y := figure(&rows[i]); rows[i].Arm == s.sizeArmName(a) && !math.IsNaN(y) {
					xy = append(xy, plotter.XY{X: float64(rows[i].Parameters) / 1e3, Y: y})
					names = append(names, fmt.Sprintf("%d wide, %d deep", a.Width, a.Layers))
				}
			}
		}
		if len(xy) == 0 {
			continue
		}
		dots := &plotter.Scatter{XYs: xy, GlyphStyle: draw.GlyphStyle{Color: chart.Palette[n], Radius: 4, Shape: draw.CircleGlyph{}}}
		p.Add(dots)
		p.Legend.Add(fmt.Sprintf("context of %d", context), dots)
		for i := range xy {
			chart.Note(p, names[i], xy[i].X, xy[i].Y, chart.Palette[n], noteFontSize)
		}
		n++
	}
	if n == 0 {
		return nil
	}
	p.X.Min = 0
	p.X.Max *= 1.2
	p.Y.Max += 0.25 * (p.Y.Max - p.Y.Min)
	return p
}
