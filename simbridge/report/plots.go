package report

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"prefdt/simbridge/chart"
	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

// aircraftColours are the aircraft's colours, black and grey being for other things.
var aircraftColours = chart.Palette[:6]

// WritePictures makes the plots and the moving picture in a folder.
func WritePictures(folder string, f *Flight) error {
	energy := []*plot.Plot{energyPlot(f, len(f.Rows))}
	if f.boundsPacks() {
		energy = append(energy, packsPlot(f))
	}
	energy = append(energy, delayPlot(f, len(f.Rows)))
	return cmp.Or(
		SaveStacked(energy, 24*vg.Centimeter, vg.Length(11*len(energy))*vg.Centimeter, filepath.Join(folder, "energy.png")),
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
// line of one point has a marker there: it would not be seen.
func addLine(p *plot.Plot, label string, xy plotter.XYs, c color.Color, width vg.Length, dashes ...vg.Length) {
	l := &plotter.Line{XYs: xy, LineStyle: draw.LineStyle{Color: c, Width: width, Dashes: dashes}}
	p.Add(l)
	if len(xy) == 1 {
		p.Add(&plotter.Scatter{XYs: xy, GlyphStyle: draw.GlyphStyle{Color: c, Radius: width, Shape: draw.CircleGlyph{}}})
	}
	if label != "" {
		p.Legend.Add(label, l)
	}
}

// lastSlot is where the slots' axis has to reach to: to the end of a mission that was flown to it, of one that ended
// early to the last slot flown, and to the touchdowns where they are shown.
func (f *Flight) lastSlot() float64 {
	last := float64(f.Slots)
	if n := len(f.Rows); n > 0 && n < f.Slots {
		last = float64(n)
	}
	if f.landed() || f.boundsPacks() {
		for m := range f.Summary.Aircraft {
			last = max(last, f.touchdown(m))
		}
	}
	return max(last, 1)
}

// touchdown is when aircraft m, from 0, came down for good, in slots; the mission's end where that is not known.
func (f *Flight) touchdown(m int) float64 {
	if m < len(f.Touchdowns) && f.Touchdowns[m] > 0 {
		return f.Touchdowns[m]
	}
	return float64(max(f.Slots, 1))
}

// leaderMarks is every how many slots the leader's count is marked: on the line
// of the batteries, which a second line would hide.
const leaderMarks = 10

// scopeText is what joules count, in the words of the other displays.
func scopeText(landed bool) string {
	if landed {
		return command.ScopeText(telemetry.ScopeLanded)
	}
	return command.ScopeText(telemetry.ScopeSlots)
}

// landed is the scope of a flight's pictures, that of its last budget.
func (f *Flight) landed() bool { return f.Summary.Budget.Landed }

// spentJ is what the fleet had spent by a row's end in the scope of the pictures, by the batteries and by the
// leader's status.
func (f *Flight) spentJ(r *Row) (batteries, leader float64) {
	if !f.landed() {
		if leader = r.LeaderSpentJ; r.Landed {
			leader -= r.LeaderTransitJ
		}
		return r.SpentJ, leader
	}
	for _, j := range r.DrawnJ {
		batteries += j
	}
	if leader = r.LeaderSpentJ; !r.Landed {
		leader += r.LeaderTransitJ
	}
	return batteries, leader
}

// told is whether the leader told floor and budget of a row, in the scope of the pictures.
func (f *Flight) told(r *Row) bool { return !r.Missed && r.Landed == f.landed() }

// measuredAtEnd is whether the batteries' joules are known at the end of a row: without a beacon they are counted in
// the slot that was open, up to the next one.
func (f *Flight) measuredAtEnd(row int) bool { return row+1 >= len(f.Rows) || !f.Rows[row+1].Missed }

// shadeMissed shades those of the first rows that no beacon opened.
func shadeMissed(p *plot.Plot, f *Flight, rows int, label string) {
	for _, r := range f.Rows[:min(rows, len(f.Rows))] {
		if r.Missed {
			chart.Shade(p, label, float64(r.Slot), float64(r.Slot+1))
			label = ""
		}
	}
}

// energyPlot is the joules spent in the first rows of a flight, on axes for all
// of it, against the budget and the floor as the leader had them in each slot: a
// budget above the floor can be kept, one below it cannot. All are of one scope.
func energyPlot(f *Flight, rows int) *plot.Plot {
	p := newPlot("Energy of the fleet, and the delay that it bought", "", "spent "+scopeText(f.landed())+" (kJ)")
	var leader, spent plotter.XYs
	if !f.landed() {
		spent = plotter.XYs{{X: 0, Y: 0}}
	}
	e := &f.Summary.Budget
	top := 1.0
	if f.landed() {
		top = max(top, (e.SpentJ+e.TransitJ)/1000)
	}
	for i := range f.Rows {
		r := &f.Rows[i]
		batteriesJ, leaderJ := f.spentJ(r)
		if top = max(top, batteriesJ/1000); f.told(r) {
			top = max(top, r.FloorJ/1000, r.BudgetJ/1000)
		}
		if i >= rows {
			continue
		}
		to := float64(r.Slot + 1)
		if f.measuredAtEnd(i) {
			spent = append(spent, plotter.XY{X: to, Y: batteriesJ / 1000})
		}
		if (r.Slot+1)%max(1, min(leaderMarks, f.Slots/2)) == 0 && !r.Missed {
			leader = append(leader, plotter.XY{X: to, Y: leaderJ / 1000})
		}
	}
	early := len(f.Rows) < f.Slots
	high := top * 1.18
	if early {
		high = top * 1.7 // above is the legend
	}
	p.Y.Min, p.Y.Max = 0, high
	shadeMissed(p, f, rows, "missed slots: joules are known at their end alone")
	shown := f.Rows[:min(rows, len(f.Rows))]
	label := "budget"
	for _, budget := range f.lines(shown, 0, func(r *Row) float64 { return r.BudgetJ }) {
		addLine(p, label, budget, chart.Black, 2.2)
		label = ""
	}
	label = "floor: the least that the mission can end on"
	for _, floor := range f.lines(shown, 1, func(r *Row) float64 { return r.FloorJ }) {
		addLine(p, label, floor, chart.Purple, 1.6, 4, 3)
		label = ""
	}
	addLine(p, "spent, from the batteries", spent, chart.Blue, 2.2)
	addPoints(p, "spent, as the leader counts", leader, chart.Amber, draw.RingGlyph{}, 4)
	if f.landed() && f.Summary.Landed && rows >= len(f.Rows) {
		last := 0.0
		for m := range f.Summary.Aircraft {
			last = max(last, f.touchdown(m))
		}
		addTouchdown(p, "spent, at touchdown", spent, plotter.XY{X: last, Y: (e.SpentJ + e.TransitJ) / 1000}, chart.Blue)
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, f.lastSlot()*1.02, 0, high
	p.Add(&eventMarks{f.events(rows), top * 1.06})
	if p.Legend.XOffs, p.Legend.YOffs = -20, 14; early { // in the lower right, where a flight that spends its budget never is
		p.Legend.Top, p.Legend.YOffs = true, -6
	}
	return p
}

// lines are joules that the leader told, in kilojoules over the slots, with a line of its own for each time in
// which there are any: from each slot's beginning to its end, or from some part of it on.
func (f *Flight) lines(rows []Row, from float64, joules func(*Row) float64) (lines []plotter.XYs) {
	known := false
	for i := range rows {
		r := &rows[i]
		was, y := known, joules(r)/1000
		if known = y > 0 && f.told(r); !known {
			continue
		}
		if !was {
			lines = append(lines, nil)
		}
		n, x := len(lines)-1, float64(r.Slot)
		if from < 1 {
			lines[n] = append(lines[n], plotter.XY{X: x + from, Y: y})
		}
		lines[n] = append(lines[n], plotter.XY{X: x + 1, Y: y})
	}
	return lines
}

// boundsPacks is whether the budget at the end asks for what is left in packs whose charge is known.
func (f *Flight) boundsPacks() bool {
	return slices.ContainsFunc(f.Summary.Aircraft, func(a AircraftSummary) bool { return a.KeptJ > 0 && a.PackJ > 0 })
}

// packsPlot is what is left in each pack, to what the budget has it keep.
func packsPlot(f *Flight) *plot.Plot {
	p := newPlot("", "", "left in the pack, since take-off (kJ)")
	top := 1.0
	for _, a := range f.Summary.Aircraft {
		top = max(top, a.PackJ/1000)
	}
	last := f.lastSlot()
	p.Y.Min, p.Y.Max = 0, top*(1.05+0.08*float64(len(f.Summary.Aircraft)+2)) // above is the legend
	high := p.Y.Max
	shadeMissed(p, f, len(f.Rows), "")
	for m, a := range f.Summary.Aircraft {
		if a.PackJ == 0 {
			continue
		}
		c, left := aircraftColours[m%len(aircraftColours)], plotter.XYs{}
		for i, r := range f.Rows {
			if f.measuredAtEnd(i) {
				left = append(left, plotter.XY{X: float64(r.Slot + 1), Y: (a.PackJ - r.DrawnJ[m]) / 1000})
			}
		}
		addLine(p, fmt.Sprintf("aircraft %d", a.Number), left, c, 2.2)
		addLine(p, "", plotter.XYs{{X: 0, Y: a.KeptJ / 1000}, {X: last, Y: a.KeptJ / 1000}}, c, 1.6, 4, 3)
		if f.Summary.Landed {
			addTouchdown(p, "", left, plotter.XY{X: f.touchdown(m), Y: a.LeftJ / 1000}, c)
		}
	}
	reserve := &plotter.Line{LineStyle: draw.LineStyle{Color: chart.Black, Width: 1.6, Dashes: []vg.Length{4, 3}}}
	p.Legend.Add("the reserve that the budget has it keep", reserve)
	if f.Summary.Landed {
		addPoints(p, "left at touchdown", nil, chart.Black, draw.TriangleGlyph{}, 5)
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, last*1.02, 0, high
	p.Legend.Top, p.Legend.XOffs, p.Legend.YOffs = true, -20, -6
	return p
}

// addTouchdown marks what the joules were at a touchdown, and continues their line to it where that is after the slots.
func addTouchdown(p *plot.Plot, label string, line plotter.XYs, at plotter.XY, c color.Color) {
	if n := len(line); n > 0 && at.X > line[n-1].X {
		addLine(p, "", plotter.XYs{line[n-1], at}, c, 1, 2, 2)
	}
	addPoints(p, label, plotter.XYs{at}, c, draw.TriangleGlyph{}, 5)
}

// mapTitle is the map's, with why what it shows are circles.
func mapTitle(f *Flight) string {
	if f.Summary.World == nil {
		return "Where the aircraft flew"
	}
	speedMPS, _ := f.Summary.World.Physics.MinPower()
	return fmt.Sprintf("Where the aircraft flew: hovering costs more than circling at %.0f m/s", speedMPS)
}

// mapPlot is the area from above: where the aircraft flew, and the users.
func mapPlot(f *Flight) *plot.Plot {
	p := newPlot(mapTitle(f), "east (m)", "north (m)")
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
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, f.lastSlot()*1.02, 0, top*1.3
	shadeMissed(p, f, rows, "missed slots: no decision, all tasks locally")
	p.Add(&eventMarks{f.events(rows), top * 1.08})
	addLine(p, "each slot, penalties included", each, chart.Sky, 1)
	addLine(p, "mean of ten slots", mean, chart.Blue, 2.2)
	p.Legend.Left, p.Legend.Top = true, true
	p.Legend.XOffs, p.Legend.YOffs = 10, -6
	return p
}
