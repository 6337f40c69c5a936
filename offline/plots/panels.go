package plots

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"

	"prefdt/inference/physics"
	"prefdt/offline/experiment"
	"prefdt/offline/pareto"
	"prefdt/simbridge/chart"
)

// Arm is what panels show of one.
type Arm struct {
	Label    string
	Outcomes [][]pareto.Point // [setting][seed]
	Settings []float64
	SpeedMPS []float64 // by setting
}

// Of returns what named arms did in a sweep; those without it are left out.
func Of(results map[string]*experiment.Result, sweep string, names ...string) (arms []Arm) {
	for _, name := range names {
		if x := results[name].Sweep(sweep); x != nil {
			arms = append(arms, Arm{Label: name, Outcomes: x.Outcomes, Settings: x.Settings, SpeedMPS: x.SpeedMPS})
		}
	}
	return arms
}

// curves returns one of each arm, marked at the points.
func curves(arms []Arm, points func(a *Arm) plotter.XYs) (list []Curve) {
	for i := range arms {
		list = append(list, Curve{Label: arms[i].Label, Points: points(&arms[i]), Marked: true})
	}
	return list
}

// Fronts overlays the mean fronts.
func Fronts(arms []Arm) []*plot.Plot {
	if len(arms) == 0 {
		return nil
	}
	p := New("delay with penalties (s), logarithmic", "energy (kJ)")
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, delayTicks()
	AddCurves(p, curves(arms, func(a *Arm) (xy plotter.XYs) {
		for _, q := range pareto.NonDominated(pareto.MeanPoints(a.Outcomes)) {
			xy = append(xy, plotter.XY{X: q.DelayS, Y: q.EnergyJ / 1e3})
		}
		return xy
	})...)
	return []*plot.Plot{p}
}

// Requested shows what each requested share achieved, delay and energy.
func Requested(arms []Arm) []*plot.Plot {
	if len(arms) == 0 {
		return nil
	}
	achieved := func(of func(mean pareto.Point) float64) []Curve {
		return curves(arms, func(a *Arm) (xy plotter.XYs) {
			for i, mean := range pareto.MeanPoints(a.Outcomes) {
				xy = append(xy, plotter.XY{X: a.Settings[i], Y: of(mean)})
			}
			return xy
		})
	}
	left, right := New("delay share requested", "delay with penalties (s), logarithmic"), New("delay share requested", "energy (kJ)")
	left.Title.Text, right.Title.Text = "Delay at each requested share", "Energy at each requested share"
	left.Y.Scale, left.Y.Tick.Marker = plot.LogScale{}, delayTicks()
	AddCurves(left, achieved(func(mean pareto.Point) float64 { return mean.DelayS })...)
	AddCurves(right, achieved(func(mean pareto.Point) float64 { return mean.EnergyJ / 1e3 })...)
	left.Legend.Left, left.Legend.XOffs = true, 8
	right.Legend = plot.NewLegend() // the left one serves both
	return []*plot.Plot{left, right}
}

// Speeds is the mean speed flown against the setting, with v*.
func Speeds(arms []Arm, c *physics.Constants) []*plot.Plot {
	arms = slices.DeleteFunc(slices.Clone(arms), func(a Arm) bool { return len(a.SpeedMPS) == 0 })
	if len(arms) == 0 {
		return nil
	}
	p := New("delay share requested", "mean speed (m/s)")
	AddCurves(p, curves(arms, func(a *Arm) (xy plotter.XYs) {
		for i, v := range a.SpeedMPS {
			xy = append(xy, plotter.XY{X: a.Settings[i], Y: v})
		}
		return xy
	})...)
	best := c.Propulsion.BestSpeedMPS(c.SpeedMaxMPS)
	AddLine(p, "v*, the speed of least power", chart.Black, LineWidth, plotter.XYs{{X: 0, Y: best}, {X: 1, Y: best}}, 5, 4)
	p.Y.Min = 0
	p.Y.Max *= 1.25
	return []*plot.Plot{p}
}

// Traced is a labelled trace of an arm that flies budgets.
type Traced struct {
	Label  string
	Result *experiment.Result // nil: it has not been measured
	Trace  int                // the request, of experiment.TraceRequests
}

// Consumption shows how the energy under experiment.Shock approaches its budget, relative to an
// even pace to the first budget so that a percent is visible, and what that costs in
// delay, relative to the even pacer's. Budgets are marked at the end.
func Consumption(even *experiment.Result, list ...Traced) []*plot.Plot {
	if even == nil {
		return nil
	}
	pacer, requests := &even.Traces[0], experiment.TraceRequests
	first := requests[0].BudgetJ
	energy, delay := New("slot", fmt.Sprintf("energy spent less an even pace to %.4g kJ (kJ)", first/1e3)), New("slot",
		"delay so far less the even pacer's (s)")
	energy.Title.Text, delay.Title.Text = "Energy under a shock and a revision", "The same flights' delay"
	var energies, delays []Curve
	slots := float64(len(pacer.MeanJ) - 1)
	for _, x := range list {
		if x.Result == nil {
			continue
		}
		t := &x.Result.Traces[x.Trace]
		c := Curve{Label: fmt.Sprintf("%s, %.4g kJ", x.Label, t.BudgetJ/1e3)}
		if t.ReviseSlot > 0 {
			c.Label += fmt.Sprintf(", revised to %.4g kJ at slot %d", t.RevisedBudgetJ/1e3, t.ReviseSlot)
		}
		var pace, behind plotter.XYs
		var spread []float64
		for i, j := range t.MeanJ {
			pace = append(pace, plotter.XY{X: float64(i), Y: (j - first*float64(i)/slots) / 1e3})
			behind = append(behind, plotter.XY{X: float64(i), Y: t.MeanDelayS[i] - pacer.MeanDelayS[i]})
			spread = append(spread, 1e-3*t.StdDevJ[i])
		}
		AddBand(energy, chart.Palette[len(energies)%len(chart.Palette)], 0x30, pace, spread)
		c.Points = pace
		energies = append(energies, c)
		c.Points = behind
		delays = append(delays, c)
	}
	AddCurves(energy, energies...)
	AddCurves(delay, delays...)
	AddLine(energy, "", chart.Black, LineWidth, plotter.XYs{{X: 0, Y: 0}, {X: slots, Y: 0}}, 2, 3)
	for i := range requests {
		budgetJ := requests[i].EndBudgetJ()
		y := (budgetJ - first) / 1e3
		energy.Add(&plotter.Scatter{XYs: plotter.XYs{{X: slots, Y: y}}, GlyphStyle: draw.GlyphStyle{Color: chart.Black, Radius: 5,
			Shape: draw.CrossGlyph{}}})
		chart.Note(energy, fmt.Sprintf("%.4g kJ", budgetJ/1e3), slots, y, chart.Black, NoteFontSize)
	}
	// One arm far from all others would press these into one line.
	delay.Y.Min, delay.Y.Max = max(delay.Y.Min, -delayRangeS), min(delay.Y.Max, delayRangeS)
	noteS := delay.Y.Max
	for _, c := range delays {
		if i := slices.IndexFunc(c.Points, func(at plotter.XY) bool { return math.Abs(at.Y) > delayRangeS }); i >= 0 {
			noteS -= 0.06 * delayRangeS
			chart.Note(delay, fmt.Sprintf("%s: %+.0f s at the end", c.Label, c.Points[len(c.Points)-1].Y), min(c.Points[i].X, slots/2),
				noteS, chart.Black, NoteFontSize)
		}
	}
	for _, p := range []*plot.Plot{energy, delay} {
		low, high := p.Y.Min-0.08*(p.Y.Max-p.Y.Min), p.Y.Max // room for the note beneath the curves
		at := float64(experiment.Shock.FromSlot)
		AddLine(p, "", chart.Red, LineWidth, plotter.XYs{{X: at, Y: low}, {X: at, Y: high}}, 6, 4)
		chart.Note(p, fmt.Sprintf("flight power x%.1f", experiment.Shock.Factor), at, low, chart.Red, NoteFontSize)
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

// Propulsion is eq. (prop) with hover and the interior minimum.
func Propulsion(c *physics.Constants) []*plot.Plot {
	p := New("speed (m/s)", "power of one aircraft (W)")
	var xy plotter.XYs
	for speedMPS := 0.0; speedMPS <= c.SpeedMaxMPS; speedMPS += 0.25 {
		xy = append(xy, plotter.XY{X: speedMPS, Y: c.Propulsion.PowerW(speedMPS)})
	}
	AddLine(p, "", chart.Blue, LineWidth, xy)
	for _, at := range []struct {
		speedMPS, noteW float64 // the note is this much above the point, clear of the curve
		name            string
	}{{0, 8, "hover"}, {c.Propulsion.BestSpeedMPS(c.SpeedMaxMPS), -35, "v*"}} {
		power := c.Propulsion.PowerW(at.speedMPS)
		p.Add(&plotter.Scatter{XYs: plotter.XYs{{X: at.speedMPS, Y: power}}, GlyphStyle: draw.GlyphStyle{Color: chart.Red, Radius: 3.5,
			Shape: draw.CircleGlyph{}}})
		chart.Note(p, fmt.Sprintf("%s: %.1f W at %.1f m/s", at.name, power, at.speedMPS), at.speedMPS, power+at.noteW, chart.Red,
			NoteFontSize)
	}
	p.Y.Min = 0
	return []*plot.Plot{p}
}
