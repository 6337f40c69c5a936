package report

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"prefdt/simbridge/chart"
)

// aircraftColours are the aircraft's colours, black and grey being for other things.
var aircraftColours = chart.Palette[:6]

func writePlots(folder string, f *Flight) error {
	return cmp.Or(
		SaveStacked([]*plot.Plot{energyPlot(f, len(f.Rows)), delayPlot(f, len(f.Rows))}, 24*vg.Centimeter, 22*vg.Centimeter,
			filepath.Join(folder, "energy.png")),
		SaveStacked([]*plot.Plot{mapPlot(f)}, 18*vg.Centimeter, 20.5*vg.Centimeter, filepath.Join(folder, "map.png")),
		writeMovie(filepath.Join(folder, "flight.gif"), f),
	)
}

// SaveStacked writes plots as a picture, one above the other, their axes in line.
func SaveStacked(plots []*plot.Plot, width, height vg.Length, path string) error {
	image := vgimg.New(width, height)
	drawStacked(plots, draw.New(image))
	var png bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: image}).WriteTo(&png); err != nil {
		return fmt.Errorf("plot %s: %w", path, err)
	}
	return writeFile(path, png.Bytes())
}

func drawStacked(plots []*plot.Plot, canvas draw.Canvas) {
	rows := make([][]*plot.Plot, len(plots))
	for i, p := range plots {
		rows[i] = []*plot.Plot{p}
	}
	tiles := draw.Tiles{Rows: len(rows), Cols: 1, PadY: 12, PadRight: 6, PadTop: 4, PadBottom: 2}
	for i, row := range plot.Align(rows, tiles, canvas) {
		plots[i].Draw(row[0])
	}
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

// addLine adds a line to a plot, and to its legend unless the label is empty. A
// line of few points has a marker on each: one point alone would not be seen.
func addLine(p *plot.Plot, label string, xy plotter.XYs, c color.Color, width vg.Length, dashes ...vg.Length) {
	l := &plotter.Line{XYs: xy, LineStyle: draw.LineStyle{Color: c, Width: width, Dashes: dashes}}
	p.Add(l)
	if label == "" {
		return
	}
	if 0 < len(xy) && len(xy) < fewPoints {
		points := &plotter.Scatter{XYs: xy, GlyphStyle: draw.GlyphStyle{Color: c, Radius: 3, Shape: draw.CircleGlyph{}}}
		p.Add(points)
		p.Legend.Add(label, l, points)
		return
	}
	p.Legend.Add(label, l)
}

const (
	fewPoints = 16
	noteSize  = 10
)

// addEvents marks the shock, and the budgets' revisions, among the first rows.
func addEvents(p *plot.Plot, f *Flight, rows int, noteY float64) {
	mark := func(slot int, text string, c color.Color) {
		if slot <= 0 || slot >= rows {
			return
		}
		x := float64(slot)
		addLine(p, "", plotter.XYs{{X: x, Y: p.Y.Min}, {X: x, Y: p.Y.Max}}, c, 1, 6, 4)
		chart.Note(p, text, x, noteY, c, noteSize)
	}
	for _, b := range f.Summary.Budgets {
		text := "no budget"
		if b.EnergyJ > 0 {
			text = fmt.Sprintf("budget %.1f kJ", b.EnergyJ/1000)
		}
		mark(b.Slot, text, chart.Black)
	}
	if f.Shock != nil {
		mark(f.Shock.Slot, fmt.Sprintf("flight power x%.3g", f.Shock.Factor), chart.Red)
	}
}

// leaderMarks is every how many slots the leader's count is marked: on the line
// of the batteries, which a second line would hide.
const leaderMarks = 10

// energyPlot is the joules spent in the first rows of a flight, on axes for all
// of it, against the budget and the floor as the leader had them in each slot: a
// budget above the floor can be kept, one below it cannot.
func energyPlot(f *Flight, rows int) *plot.Plot {
	p := newPlot("Energy of the fleet, and the delay that it bought", "", "since slot 0 (kJ)")
	var floor, leader plotter.XYs
	spent := plotter.XYs{{X: 0, Y: 0}}
	top := 1.0
	for i, r := range f.Rows {
		top = max(top, r.SpentJ/1000, r.FloorJ/1000, r.BudgetJ/1000)
		if i >= rows {
			continue
		}
		to := float64(r.Slot + 1)
		spent = append(spent, plotter.XY{X: to, Y: r.SpentJ / 1000})
		if r.FloorJ > 0 {
			floor = append(floor, plotter.XY{X: to, Y: r.FloorJ / 1000})
		}
		if (r.Slot+1)%max(1, min(leaderMarks, f.Slots/2)) == 0 {
			leader = append(leader, plotter.XY{X: to, Y: r.LeaderSpentJ / 1000})
		}
	}
	label := "budget"
	for _, budget := range budgetLines(f.Rows[:min(rows, len(f.Rows))]) {
		addLine(p, label, budget, chart.Black, 2.2)
		label = ""
	}
	if len(floor) > 0 {
		addLine(p, "floor: the least that the mission can end on", floor, chart.Purple, 1.6, 4, 3)
	}
	addLine(p, "spent, from the batteries", spent, chart.Blue, 2.2)
	addPoints(p, "spent, as the leader counts", leader, chart.Amber, draw.RingGlyph{}, 4)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, max(float64(f.Slots), 1)*1.02, 0, top*1.18
	addEvents(p, f, rows, top*1.06)
	p.Legend.XOffs, p.Legend.YOffs = -20, 14 // in the lower right, where a flight that spends its budget never is
	return p
}

// budgetLines are the budget in kilojoules over the slots, with a line of its own
// for each time in which one was in force.
func budgetLines(rows []Row) (lines []plotter.XYs) {
	inForce := false
	for _, r := range rows {
		was := inForce
		if inForce = r.BudgetJ > 0; !inForce {
			continue
		}
		if !was {
			lines = append(lines, nil)
		}
		n, y := len(lines)-1, r.BudgetJ/1000
		lines[n] = append(lines[n], plotter.XY{X: float64(r.Slot), Y: y}, plotter.XY{X: float64(r.Slot + 1), Y: y})
	}
	return lines
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

// delayPlot is the delay of each of the first rows, and its mean over ten slots.
func delayPlot(f *Flight, rows int) *plot.Plot {
	p := newPlot("", "slot (mission seconds)", "delay (s per slot)")
	each, mean := plotter.XYs{}, plotter.XYs{}
	top := 1.0
	for i, r := range f.Rows {
		top = max(top, r.DelayS)
		if i >= rows {
			continue
		}
		each = append(each, plotter.XY{X: float64(r.Slot), Y: r.DelayS}, plotter.XY{X: float64(r.Slot + 1), Y: r.DelayS})
		sum, last := 0.0, f.Rows[max(0, i-9):i+1]
		for _, q := range last {
			sum += q.DelayS
		}
		mean = append(mean, plotter.XY{X: float64(r.Slot + 1), Y: sum / float64(len(last))})
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, max(float64(f.Slots), 1)*1.02, 0, top*1.3
	addEvents(p, f, rows, top*1.08)
	addLine(p, "each slot, penalties included", each, chart.Sky, 1)
	addLine(p, "mean of ten slots", mean, chart.Blue, 2.2)
	p.Legend.Left, p.Legend.Top = true, true
	p.Legend.XOffs, p.Legend.YOffs = 10, -6
	return p
}
