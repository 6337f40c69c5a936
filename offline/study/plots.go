package study

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"prefdt/offline/pareto"
	"prefdt/offline/teacher"
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
		{picture{"headline", "fidelity.png", "Requested and achieved"}, func() []*plot.Plot { return fidelityPanels(results) }},
		{picture{"headline", "propulsion.png", "Propulsion power against speed"}, s.propulsionPanels},
		{picture{"headline", "speed.png", "Mean speed flown at each setting"}, func() []*plot.Plot { return s.speedPanels(results) }},
		{picture{"budgets", "budget.png", "Energy and delay under a shock and a revision, the mean over seeds"}, func() []*plot.Plot { return budgetPanels(results) }},
		{picture{"sizes", "sizes.png", "Hypervolume against size"}, func() []*plot.Plot { return s.sizePanels(tables["sizes"]) }},
		{picture{"sizes", "gusts.png", "End of budgets in gusts against size"}, func() []*plot.Plot { return s.gustPanels(tables["sizes"]) }},
	} {
		panels := p.panels()
		if len(panels) == 0 {
			continue
		}
		if len(panels) == 1 {
			panels[0].Title.Text = p.title
		}
		if err := savePanels(filepath.Join(dir, p.file), panels); err != nil {
			return nil, fmt.Errorf("plot %s: %w", p.file, err)
		}
		done = append(done, p.picture)
	}
	return done, nil
}

// savePanels writes plots side by side as one PNG, their axes on one line.
func savePanels(path string, panels []*plot.Plot) error {
	size := vg.Point{X: 22 * vg.Centimeter, Y: 13 * vg.Centimeter}
	if len(panels) > 1 {
		size.X = 30 * vg.Centimeter
	}
	image := vgimg.PngCanvas{Canvas: vgimg.New(size.X, size.Y)}
	tiles := draw.Tiles{Rows: 1, Cols: len(panels), PadX: vg.Centimeter}
	for i, canvas := range plot.Align([][]*plot.Plot{panels}, tiles, draw.New(image))[0] {
		panels[i].Draw(canvas)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err = image.WriteTo(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func newPlot(x, y string) *plot.Plot {
	p := chart.New("", x, y)
	p.Legend.Top, p.Legend.XOffs = true, -8
	return p
}

const noteFontSize = 9

// markers tell curves apart without their colours; all are open, so that one
// shows through another.
var markers = []draw.GlyphDrawer{draw.RingGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{}}

// filledMarkers are for points that lie apart.
var filledMarkers = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}}

// curve is one line of a plot.
type curve struct {
	label  string
	points plotter.XYs
	dashes []vg.Length
	marked bool // a marker at every point, for curves of few points
}

// addCurves adds curves in the palette's colours. Each is wider than those after
// it, so that where several coincide every one of them still shows.
func addCurves(p *plot.Plot, curves ...curve) {
	for i, c := range curves {
		hue := chart.Palette[i%len(chart.Palette)]
		width := vg.Length(1.4 + 0.7*float64(len(curves)-1-i))
		shown := []plot.Thumbnailer{}
		if len(c.points) > 1 {
			l := &plotter.Line{XYs: c.points, LineStyle: draw.LineStyle{Color: hue, Width: width, Dashes: c.dashes}}
			p.Add(l)
			shown = append(shown, l)
		}
		if c.marked {
			m := &plotter.Scatter{XYs: c.points, GlyphStyle: draw.GlyphStyle{Color: hue, Radius: 2 + width, Shape: markers[i%len(markers)]}}
			p.Add(m)
			shown = append(shown, m)
		}
		p.Legend.Add(c.label, shown...)
	}
}

// addLine adds a reference line without markers.
func addLine(p *plot.Plot, label string, c color.Color, points plotter.XYs, dashes ...vg.Length) {
	l := &plotter.Line{XYs: points, LineStyle: draw.LineStyle{Color: c, Width: 1.4, Dashes: dashes}}
	p.Add(l)
	if label != "" {
		p.Legend.Add(label, l)
	}
}

// delayTicks labels a logarithmic axis of delays.
func delayTicks() (ticks plot.ConstantTicks) {
	for _, delay := range []float64{80, 90, 100, 120, 150, 200, 300, 400, 500, 700} {
		ticks = append(ticks, plot.Tick{Value: delay, Label: strconv.FormatFloat(delay, 'g', 4, 64)})
	}
	return ticks
}

// frontPanels overlays the mean fronts.
func frontPanels(results []*Result) []*plot.Plot {
	var curves []curve
	for _, name := range []string{"dispatch-teacher", "flagship", "base", "flagship-heads", "rules-101", "paper-form", "omega-bc", "unconditioned"} {
		r := findResult(results, name)
		if r == nil {
			continue
		}
		var xy plotter.XYs
		for _, q := range pareto.NonDominated(teacher.MeanPoints(r.Outcomes)) {
			xy = append(xy, plotter.XY{X: q.DelayS, Y: q.EnergyJ / 1e3})
		}
		curves = append(curves, curve{label: name, points: xy, marked: true})
	}
	if len(curves) == 0 {
		return nil
	}
	p := newPlot("delay with penalties (s), logarithmic", "energy (kJ)")
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, delayTicks()
	addCurves(p, curves...)
	return []*plot.Plot{p}
}

// fidelityPanels shows what each requested share achieved, delay and energy.
func fidelityPanels(results []*Result) []*plot.Plot {
	var delays, energies []curve
	for _, name := range []string{"flagship", "base", "flagship-heads", "paper-form", "paper-form-dispatch", "omega-bc"} {
		r := findResult(results, name)
		if r == nil || len(r.Uniform.Points) == 0 {
			continue
		}
		var delay, energy plotter.XYs
		for i, mean := range teacher.MeanPoints(r.Uniform.Points) {
			delay = append(delay, plotter.XY{X: r.Uniform.Omegas[i], Y: mean.DelayS})
			energy = append(energy, plotter.XY{X: r.Uniform.Omegas[i], Y: mean.EnergyJ / 1e3})
		}
		delays = append(delays, curve{label: name, points: delay, marked: true})
		energies = append(energies, curve{label: name, points: energy, marked: true})
	}
	if len(delays) == 0 {
		return nil
	}
	left, right := newPlot("delay share requested", "delay with penalties (s), logarithmic"), newPlot("delay share requested", "energy (kJ)")
	left.Title.Text, right.Title.Text = "Delay at each requested share", "Energy at each requested share"
	left.Y.Scale, left.Y.Tick.Marker = plot.LogScale{}, delayTicks()
	addCurves(left, delays...)
	addCurves(right, energies...)
	left.Legend.Left, left.Legend.XOffs = true, 8
	right.Legend = plot.NewLegend() // the left one serves both
	return []*plot.Plot{left, right}
}

// propulsionPanels is eq. (prop) with hover and the interior minimum.
func (s *study) propulsionPanels() []*plot.Plot {
	p := newPlot("speed (m/s)", "power of one aircraft (W)")
	c := &s.world.Physics
	var xy plotter.XYs
	for speedMPS := 0.0; speedMPS <= c.SpeedMaxMPS; speedMPS += 0.25 {
		xy = append(xy, plotter.XY{X: speedMPS, Y: c.Propulsion.PowerW(speedMPS)})
	}
	addLine(p, "", chart.Blue, xy)
	for _, at := range []struct {
		speedMPS, noteW float64 // the note is this much above the point, clear of the curve
		name            string
	}{{0, 8, "hover"}, {c.Propulsion.BestSpeedMPS(c.SpeedMaxMPS), -35, "v*"}} {
		power := c.Propulsion.PowerW(at.speedMPS)
		p.Add(&plotter.Scatter{XYs: plotter.XYs{{X: at.speedMPS, Y: power}}, GlyphStyle: draw.GlyphStyle{Color: chart.Red, Radius: 3.5, Shape: draw.CircleGlyph{}}})
		chart.Note(p, fmt.Sprintf("%s: %.1f W at %.1f m/s", at.name, power, at.speedMPS), at.speedMPS, power+at.noteW, chart.Red, noteFontSize)
	}
	p.Y.Min = 0
	return []*plot.Plot{p}
}

// speedPanels is the mean speed flown against the setting.
func (s *study) speedPanels(results []*Result) []*plot.Plot {
	var curves []curve
	for _, name := range []string{"flagship", "omega-bc", "paper-form", "paper-form-dispatch"} {
		r := findResult(results, name)
		if r == nil || len(r.Uniform.SpeedMPS) == 0 {
			continue
		}
		var xy plotter.XYs
		for i, v := range r.Uniform.SpeedMPS {
			xy = append(xy, plotter.XY{X: r.Uniform.Omegas[i], Y: v})
		}
		curves = append(curves, curve{label: name, points: xy, marked: true})
	}
	if len(curves) == 0 {
		return nil
	}
	p := newPlot("delay share requested", "mean speed (m/s)")
	addCurves(p, curves...)
	best := s.world.Physics.Propulsion.BestSpeedMPS(s.world.Physics.SpeedMaxMPS)
	addLine(p, "v*, the speed of least power", chart.Black, plotter.XYs{{X: 0, Y: best}, {X: 1, Y: best}}, 5, 4)
	p.Y.Min = 0
	p.Y.Max *= 1.25
	return []*plot.Plot{p}
}

// budgetPanels shows how the energy under the shock approaches its budget,
// relative to an even pace so that a percent is visible, and what that costs in
// delay, relative to the even pacer's.
func budgetPanels(results []*Result) []*plot.Plot {
	first := traceRequests[0].BudgetJ
	energy, delay := newPlot("slot", fmt.Sprintf("energy spent less an even pace to %.4g kJ (kJ)", first/1e3)), newPlot("slot", "delay so far less the even pacer's (s)")
	energy.Title.Text, delay.Title.Text = "Energy under a shock and a revision", "The same flights' delay"
	var energies, delays []curve
	slots := 0.0
	pacer := findResult(results, evenArm)
	if pacer == nil {
		return nil
	}
	for _, x := range []struct {
		arm, label string
		trace      int
	}{{"flagship", "flagship", 0}, {evenArm, "even pacer", 0}, {"flagship", "flagship", 1}, {"rules-50", "rule of nearest energy", 0}, {"paper-form", "paper form", 0}} {
		r := findResult(results, x.arm)
		if r == nil {
			continue
		}
		t := r.EnergyTraces[x.trace]
		c := curve{label: fmt.Sprintf("%s, %.4g kJ", x.label, t.BudgetJ/1e3)}
		if t.ReviseSlot > 0 {
			c.label += fmt.Sprintf(", revised to %.4g kJ at slot %d", t.RevisedBudgetJ/1e3, t.ReviseSlot)
		}
		slots = float64(len(t.MeanJ) - 1)
		pace := make([]float64, len(t.MeanJ))
		var behind plotter.XYs
		for i := range pace {
			pace[i] = (t.MeanJ[i] - first*float64(i)/slots) / 1e3
			behind = append(behind, plotter.XY{X: float64(i), Y: t.MeanDelayS[i] - pacer.EnergyTraces[0].MeanDelayS[i]})
		}
		faint := chart.Palette[len(energies)%len(chart.Palette)]
		c.points = addBand(energy, faint, pace, t.StdDevJ, 1e-3)
		energies = append(energies, c)
		c.points = behind
		delays = append(delays, c)
	}
	addCurves(energy, energies...)
	addCurves(delay, delays...)
	addLine(energy, "", chart.Black, plotter.XYs{{X: 0, Y: 0}, {X: slots, Y: 0}}, 2, 3)
	for _, budgetJ := range []float64{first, traceRequests[1].RevisedBudgetJ} {
		y := (budgetJ - first) / 1e3
		energy.Add(&plotter.Scatter{XYs: plotter.XYs{{X: slots, Y: y}}, GlyphStyle: draw.GlyphStyle{Color: chart.Black, Radius: 5, Shape: draw.CrossGlyph{}}})
		chart.Note(energy, fmt.Sprintf("%.4g kJ", budgetJ/1e3), slots, y, chart.Black, noteFontSize)
	}
	// One arm far from all others would press these into one line.
	delay.Y.Min, delay.Y.Max = max(delay.Y.Min, -delayRangeS), min(delay.Y.Max, delayRangeS)
	noteS := delay.Y.Max
	for _, c := range delays {
		if i := slices.IndexFunc(c.points, func(at plotter.XY) bool { return math.Abs(at.Y) > delayRangeS }); i >= 0 {
			noteS -= 0.06 * delayRangeS
			chart.Note(delay, fmt.Sprintf("%s: %+.0f s at the end", c.label, c.points[len(c.points)-1].Y), min(c.points[i].X, slots/2), noteS, chart.Black, noteFontSize)
		}
	}
	for _, p := range []*plot.Plot{energy, delay} {
		low, high := p.Y.Min-0.08*(p.Y.Max-p.Y.Min), p.Y.Max // room for the note beneath the curves
		addLine(p, "", chart.Red, plotter.XYs{{X: shockSlot, Y: low}, {X: shockSlot, Y: high}}, 6, 4)
		chart.Note(p, fmt.Sprintf("flight power x%.1f", shockFactor), shockSlot, low, chart.Red, noteFontSize)
		p.X.Max = slots * 1.1
	}
	energy.Legend.Left, energy.Legend.XOffs = true, 8
	energy.Y.Max += 0.45 * (energy.Y.Max - energy.Y.Min)
	delay.Legend = plot.NewLegend() // the left one serves both
	return []*plot.Plot{energy, delay}
}

// delayRangeS is the most that the panel of delays shows on either side of the even
// pacer's.
const delayRangeS = 40

// addBand shades a standard deviation about a curve, times a scale, and returns
// the curve.
func addBand(p *plot.Plot, c color.RGBA, mean, stdDev []float64, scale float64) (xy plotter.XYs) {
	var up, down plotter.XYs
	for i, y := range mean {
		xy = append(xy, plotter.XY{X: float64(i), Y: y})
		up = append(up, plotter.XY{X: float64(i), Y: y + scale*stdDev[i]})
		down = append(down, plotter.XY{X: float64(i), Y: y - scale*stdDev[i]})
	}
	slices.Reverse(down)
	if area, err := plotter.NewPolygon(append(up, down...)); err == nil { // an error is of too few points
		area.Color, area.LineStyle.Width = color.NRGBA{c.R, c.G, c.B, 0x30}, 0
		p.Add(area)
	}
	return xy
}

// sizePanels shows what a size gains or loses against the base.
func (s *study) sizePanels(rows []Metrics) []*plot.Plot {
	panels := s.bySize(rows, "hypervolume less the base's (1e6 s J), 95 %", func(r *Metrics) (y, low, high float64) {
		if r.Arm == "base" {
			return 0, 0, 0
		}
		return r.HypervolumeDiff / 1e6, r.HypervolumeDiffLow / 1e6, r.HypervolumeDiffHigh / 1e6
	})
	for _, p := range panels {
		addLine(p, "the base", chart.Grey, plotter.XYs{{X: p.X.Min, Y: 0}, {X: p.X.Max, Y: 0}}, 2, 3)
	}
	return panels
}

// gustPanels shows where a size ends on budgets in gusts.
func (s *study) gustPanels(rows []Metrics) []*plot.Plot {
	panels := s.bySize(rows, "end in gusts of 15 % (% of the budget), 95 %", func(r *Metrics) (y, low, high float64) {
		mean, _ := r.meanBudget(perturbationGusts)
		low, high = r.endInterval(perturbationGusts)
		return 100 * mean.End, 100 * low, 100 * high
	})
	for _, p := range panels {
		addLine(p, "the budget", chart.Grey, plotter.XYs{{X: p.X.Min, Y: 0}, {X: p.X.Max, Y: 0}}, 2, 3)
		p.Y.Max += 0.25 * (p.Y.Max - p.Y.Min) // the legend stands above the line
	}
	return panels
}

// bySize draws a figure and its interval for every size, those of one width and
// depth side by side, each context with a marker of its own.
func (s *study) bySize(rows []Metrics, what string, figure func(*Metrics) (y, low, high float64)) []*plot.Plot {
	p := newPlot("", what)
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
		marks := &plotter.Scatter{XYs: points.XYs, GlyphStyle: draw.GlyphStyle{Color: chart.Palette[i], Radius: 4, Shape: filledMarkers[i]}}
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
