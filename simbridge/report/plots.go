package report

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"prefdt/simbridge/chart"
)

// aircraftColours are the aircraft's colours, black and grey being for other things.
var aircraftColours = chart.Palette[:6]

func writePlots(folder string, f *Flight) error {
	return cmp.Or(
		savePlot(energyPlot(f), 24*vg.Centimeter, 14*vg.Centimeter, filepath.Join(folder, "energy.png")),
		savePlot(mapPlot(f), 18*vg.Centimeter, 20.5*vg.Centimeter, filepath.Join(folder, "map.png")),
		savePlot(delayPlot(f), 24*vg.Centimeter, 12*vg.Centimeter, filepath.Join(folder, "delay.png")),
	)
}

func savePlot(p *plot.Plot, width, height vg.Length, path string) error {
	if err := p.Save(width, height, path); err != nil {
		return fmt.Errorf("plot %s: %w", path, err)
	}
	return nil
}

func newPlot(title, x, y string) *plot.Plot {
	p := chart.New(title, x, y)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font.Size = 12
		axis.Tick.Label.Font.Size = 11
	}
	p.Legend.TextStyle.Font.Size = 11
	return p
}

// addLine adds a line to a plot, and to its legend unless the label is empty.
func addLine(p *plot.Plot, label string, xy plotter.XYs, c color.Color, width vg.Length, dashes ...vg.Length) {
	l := &plotter.Line{XYs: xy, LineStyle: draw.LineStyle{Color: c, Width: width, Dashes: dashes}}
	p.Add(l)
	if label != "" {
		p.Legend.Add(label, l)
	}
}

const noteSize = 10

// energyPlot is the joules spent against the budget as it stood in each slot.
func energyPlot(f *Flight) *plot.Plot {
	p := newPlot("Energy of the fleet against its budget", "slot (mission seconds)", "energy since slot 0 (kJ)")
	spent, leader := plotter.XYs{{X: 0, Y: 0}}, plotter.XYs{{X: 0, Y: 0}}
	for _, r := range f.Rows {
		spent = append(spent, plotter.XY{X: float64(r.Slot + 1), Y: r.SpentJ / 1000})
		leader = append(leader, plotter.XY{X: float64(r.Slot + 1), Y: r.LeaderSpentJ / 1000})
	}
	end := float64(f.Slots)
	top := spent[len(spent)-1].Y
	budget := plotter.XYs{}
	for i, b := range f.Budgets {
		from, to := float64(max(b.Slot, 0)), end
		if i+1 < len(f.Budgets) {
			to = float64(max(f.Budgets[i+1].Slot, 0))
		}
		y := b.EnergyJ / 1000
		top = max(top, y)
		budget = append(budget, plotter.XY{X: from, Y: y}, plotter.XY{X: to, Y: y})
	}
	addLine(p, "spent, from the batteries", spent, chart.Blue, 2.2)
	addLine(p, "spent, as the leader counts", leader, chart.Amber, 1.4, 5, 4)
	if len(budget) > 0 {
		addLine(p, "budget", budget, chart.Black, 1.6)
		// Spending the last budget evenly from when it was set.
		last := f.Budgets[len(f.Budgets)-1]
		from := float64(max(last.Slot, 0))
		at := 0.0
		for _, xy := range spent {
			if xy.X <= from {
				at = xy.Y
			}
		}
		addLine(p, "even pace to the budget", plotter.XYs{{X: from, Y: at}, {X: end, Y: last.EnergyJ / 1000}}, chart.Grey, 1.4, 2, 3)
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, end*1.02, 0, top*1.12
	for _, b := range f.Budgets {
		if b.Slot > 0 {
			chart.Note(p, fmt.Sprintf("revised to %.1f kJ", b.EnergyJ/1000), float64(b.Slot), b.EnergyJ/1000+0.012*top, chart.Black, noteSize)
		}
	}
	if f.Shock != nil {
		x := float64(f.Shock.Slot)
		addLine(p, "", plotter.XYs{{X: x, Y: 0}, {X: x, Y: top * 1.12}}, chart.Red, 1.2, 6, 4)
		chart.Note(p, fmt.Sprintf("flight power x%.3g", f.Shock.Factor), x, 0.03*top, chart.Red, noteSize)
	}
	p.Legend.XOffs, p.Legend.YOffs = -20, 14 // in the lower right, where a flight that spends its budget never is
	return p
}

// mapPlot is the area from above: where the aircraft flew, and the users.
func mapPlot(f *Flight) *plot.Plot {
	p := newPlot("Where the aircraft flew", "east (m)", "north (m)")
	a := f.AreaM
	addLine(p, "", plotter.XYs{{X: 0, Y: 0}, {X: a, Y: 0}, {X: a, Y: a}, {X: 0, Y: a}, {X: 0, Y: 0}}, chart.Black, 1)
	for m, trail := range f.Trails {
		if len(trail) == 0 {
			continue
		}
		c := aircraftColours[m%len(aircraftColours)]
		xy := make(plotter.XYs, len(trail))
		for i, at := range trail {
			xy[i] = plotter.XY{X: at.EastM, Y: at.NorthM}
		}
		addLine(p, fmt.Sprintf("aircraft %d", m+1), xy, c, 1.6)
		addPoints(p, "", xy[:1], c, draw.RingGlyph{}, 5)
		addPoints(p, "", xy[len(xy)-1:], c, draw.TriangleGlyph{}, 6)
	}
	users := make(plotter.XYs, len(f.Users))
	for i, at := range f.Users {
		users[i] = plotter.XY{X: at.EastM, Y: at.NorthM}
	}
	if len(users) > 0 {
		addPoints(p, "ground users", users, chart.Black, draw.CrossGlyph{}, 4)
	}
	addPoints(p, "first slot", nil, chart.Black, draw.RingGlyph{}, 5)
	addPoints(p, "last slot", nil, chart.Black, draw.TriangleGlyph{}, 6)
	p.X.Tick.Marker, p.Y.Tick.Marker = chart.Ticks{Limit: a}, chart.Ticks{Limit: a}
	margin := 0.03 * a
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -margin, a+margin, -margin, a+margin+0.035*a*float64(len(f.Trails)+3)
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs = 16
	return p
}

func addPoints(p *plot.Plot, label string, xy plotter.XYs, c color.Color, shape draw.GlyphDrawer, radius vg.Length) {
	s := &plotter.Scatter{XYs: xy, GlyphStyle: draw.GlyphStyle{Color: c, Radius: radius, Shape: shape}}
	if len(xy) > 0 {
		p.Add(s)
	}
	if label != "" {
		p.Legend.Add(label, s)
	}
}

// delayPlot is each slot's delay and its mean over ten slots.
func delayPlot(f *Flight) *plot.Plot {
	p := newPlot("Delay of the users' tasks", "slot (mission seconds)", "delay with penalties (s per slot)")
	each, mean := plotter.XYs{}, plotter.XYs{}
	top := 0.0
	for i, r := range f.Rows {
		each = append(each, plotter.XY{X: float64(r.Slot), Y: r.DelayS}, plotter.XY{X: float64(r.Slot + 1), Y: r.DelayS})
		sum, n := 0.0, 0
		for _, q := range f.Rows[max(0, i-9) : i+1] {
			sum += q.DelayS
			n++
		}
		mean = append(mean, plotter.XY{X: float64(r.Slot + 1), Y: sum / float64(n)})
		top = max(top, r.DelayS)
	}
	if len(each) == 0 {
		return p
	}
	addLine(p, "each slot", each, chart.Sky, 1)
	addLine(p, "mean of ten slots", mean, chart.Blue, 2.2)
	top = math.Max(top*1.2, 1)
	if f.Shock != nil {
		x := float64(f.Shock.Slot)
		addLine(p, "", plotter.XYs{{X: x, Y: 0}, {X: x, Y: top}}, chart.Red, 1.2, 6, 4)
		chart.Note(p, fmt.Sprintf("flight power x%.3g", f.Shock.Factor), x, top*0.9, chart.Red, noteSize)
	}
	for _, b := range f.Budgets {
		if x := float64(b.Slot); b.Slot > 0 {
			addLine(p, "", plotter.XYs{{X: x, Y: 0}, {X: x, Y: top}}, chart.Black, 1.2, 6, 4)
			chart.Note(p, fmt.Sprintf("budget %.1f kJ", b.EnergyJ/1000), x, top*0.9, chart.Black, noteSize)
		}
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, float64(f.Slots)*1.02, 0, top
	p.Legend.Left, p.Legend.Top = true, true
	p.Legend.XOffs, p.Legend.YOffs = 10, -6
	return p
}
