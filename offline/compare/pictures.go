package compare

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"prefdt/simbridge/chart"
	"prefdt/simbridge/report"
	"prefdt/simbridge/world"
)

func draw(folder string, f *Flight, c *Comparison) error {
	truth := world.NewScenario(&f.World, f.Summary.Seed)
	save := func(name string, width, height vg.Length, plots ...*plot.Plot) error {
		if len(plots) == 0 {
			return nil
		}
		return report.SaveStacked(plots, width*vg.Centimeter, height*vg.Centimeter, filepath.Join(folder, name))
	}
	return cmp.Or(
		save("wind.png", 24, 26, windPlots(f, truth)...),
		save("links.png", 24, 30, linkPlots(f, truth)...),
		save("memory.png", 24, 22, costPlots("The flight, and the same policy without memory on the same seed",
			curve{"without memory", &c.Memoryless, chart.Red, 2},
			curve{"rollout of the flight", &c.Rollout, chart.Grey, 3}, curve{"the flight", &c.Flight, chart.Blue, 1.6})...),
	)
}

// windPlots are the wind's components and the multiplier, believed and true; none where
// no slot has such beliefs.
func windPlots(f *Flight, truth *world.Scenario) (plots []*plot.Plot) {
	var east, north, power, trueEast, trueNorth, truePower plotter.XYs
	var spread []float64
	for n, s := range f.Slots {
		w := truth.WindMPS(n)
		x := float64(n)
		trueEast, trueNorth = append(trueEast, plotter.XY{X: x, Y: w.EastM}), append(trueNorth, plotter.XY{X: x, Y: w.NorthM})
		truePower = append(truePower, plotter.XY{X: x, Y: truth.PowerFactor(n)})
		if b := s.Believed; b.WindMPS != nil {
			east, north = append(east, plotter.XY{X: x, Y: b.WindMPS[0]}), append(north, plotter.XY{X: x, Y: b.WindMPS[1]})
			spread = append(spread, b.WindSDMPS/math.Sqrt2) // of one axis
		}
		if s.Believed.PowerMultiplier > 0 {
			power = append(power, plotter.XY{X: x, Y: s.Believed.PowerMultiplier})
		}
	}
	if len(east) > 0 {
		for k, p := range []struct {
			label            string
			believed, actual plotter.XYs
		}{{"to the east (m/s)", east, trueEast}, {"to the north (m/s)", north, trueNorth}} {
			title := ""
			if k == 0 {
				title = "The wind: as the leader believed, and as it was"
			}
			q := newPlot(title, "", p.label)
			band(q, p.believed, spread, chart.Sky)
			line(q, "true", p.actual, chart.Black, 1.4)
			line(q, "believed, with its standard deviation", p.believed, chart.Blue, 2)
			q.Y.Max += 0.25 * (q.Y.Max - q.Y.Min) // for the legend
			plots = append(plots, q)
		}
	}
	if len(power) > 0 {
		q := newPlot("", "slot (mission seconds)", "flight power over the model's")
		line(q, "true", truePower, chart.Black, 1.4)
		line(q, "believed", power, chart.Red, 2)
		q.Y.Min, q.Y.Max = math.Min(q.Y.Min, 0.8), math.Max(q.Y.Max, 1.3)
		plots = append(plots, q)
	}
	markMissed(f, plots)
	return plots
}

// markMissed shades the slots that were missed.
func markMissed(f *Flight, plots []*plot.Plot) {
	for n := range f.Slots {
		if !f.Slots[n].Missed {
			continue
		}
		for _, p := range plots {
			chart.Shade(p, "", float64(n)-0.5, float64(n)+0.5)
		}
	}
}

// band shades one standard deviation about a line.
func band(p *plot.Plot, xy plotter.XYs, spread []float64, c color.RGBA) {
	var outline plotter.XYs
	for i, at := range xy {
		outline = append(outline, plotter.XY{X: at.X, Y: at.Y + spread[i]})
	}
	for i, at := range slices.Backward(xy) {
		outline = append(outline, plotter.XY{X: at.X, Y: at.Y - spread[i]})
	}
	area, err := plotter.NewPolygon(outline)
	if err != nil {
		return
	}
	c.A = 0x60
	area.Color, area.LineStyle.Width = color.NRGBA(c), 0
	p.Add(area)
}

func line(p *plot.Plot, label string, xy plotter.XYs, c color.Color, width vg.Length) {
	l := &plotter.Line{XYs: xy}
	l.Color, l.Width = c, width
	p.Add(l)
	if label != "" {
		p.Legend.Add(label, l)
	}
}

func newPlot(title, x, y string) *plot.Plot {
	p := chart.New(title, x, y)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font.Size, axis.Tick.Label.Font.Size = 12, 11
	}
	p.Legend.TextStyle.Font.Size = 11
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs, p.Legend.YOffs = 10, -4
	return p
}

// gains is a grid of gains in decibels, a column for each slot and a row for each pair
// of user and aircraft; NaN where the user had no task.
type gains struct{ db [][]float64 } // by row, from below

func (g gains) Dims() (columns, rows int) { return len(g.db[0]), len(g.db) }
func (g gains) Z(column, row int) float64 { return g.db[row][column] }
func (g gains) X(column int) float64      { return float64(column) }
func (g gains) Y(row int) float64         { return float64(row) }
func (g gains) Min() float64              { return gainMinDB }
func (g gains) Max() float64              { return gainMaxDB }
func decibels(gain float64) (db float64)  { return min(max(10*math.Log10(gain), gainMinDB), gainMaxDB) }
func emptyGains(slots, rows int) (g gains) {
	for range rows {
		row := make([]float64, slots)
		for i := range row {
			row[i] = math.NaN()
		}
		g.db = append(g.db, row)
	}
	return g
}

// The range of colours: from a link out of sight at the area's other end to one in sight.
const gainMinDB, gainMaxDB = -150, -85

// linkPlots are who sees whom, as the leader believed and as it was; none where no slot
// has such beliefs.
func linkPlots(f *Flight, truth *world.Scenario) []*plot.Plot {
	users, aircraft := f.World.UserCount(), f.World.Aircraft
	reported, believed, actual := emptyGains(len(f.Slots), users*aircraft), emptyGains(len(f.Slots), users*aircraft),
		emptyGains(len(f.Slots), users*aircraft)
	count, squared, squaredReported := 0.0, 0.0, 0.0
	for n := range f.Slots {
		s := &f.Slots[n]
		for i, u := range s.Snapshot.Users {
			if i >= len(s.Believed.Gain) {
				break
			}
			for m, a := range s.Snapshot.Aircraft {
				if m >= len(s.Believed.Gain[i]) || a.Number > aircraft {
					break
				}
				user := s.Users[i]
				row := (users-1-user)*aircraft + aircraft - a.Number // the first user on top
				_, upload := truth.Gain(n, user, a.Number-1, a.Position.Sub(truth.UserPosition(n, user)))
				reported.db[row][n], believed.db[row][n], actual.db[row][n] = decibels(u.Gain[m]), decibels(s.Believed.Gain[i][m]),
					decibels(upload)
				squared += math.Pow(believed.db[row][n]-actual.db[row][n], 2)
				squaredReported += math.Pow(reported.db[row][n]-actual.db[row][n], 2)
				count++
			}
		}
	}
	if count == 0 {
		return nil
	}
	var plots []*plot.Plot
	for _, p := range []struct {
		title string
		gains
	}{
		{fmt.Sprintf("Who sees whom, as users reported it: one sample of fading, off by %.1f dB", math.Sqrt(squaredReported/count)),
			reported},
		{fmt.Sprintf("as the leader believed: off by %.1f dB", math.Sqrt(squared/count)), believed},
		{fmt.Sprintf("as it was (gain from %d dB, dark, to %d dB, bright; white: no task)", gainMinDB, gainMaxDB), actual},
	} {
		q := newPlot(p.title, "", "user, a row for each aircraft")
		heat := plotter.NewHeatMap(p.gains, viridis{})
		heat.NaN, heat.Min, heat.Max = color.White, gainMinDB, gainMaxDB
		q.Add(heat)
		for u := range users - 1 {
			y := float64((u+1)*aircraft) - 0.5
			line(q, "", plotter.XYs{{X: -0.5, Y: y}, {X: float64(len(f.Slots)) - 0.5, Y: y}}, chart.Grey, 0.5)
		}
		q.Y.Tick.Marker = userTicks{users, aircraft}
		q.Y.Min, q.Y.Max, q.X.Min, q.X.Max = -0.5, float64(users*aircraft)-0.5, -0.5, float64(len(f.Slots))-0.5
		plots = append(plots, q)
	}
	plots[len(plots)-1].X.Label.Text = "slot (mission seconds)"
	markMissed(f, plots)
	return plots
}

// userTicks names each user between its rows.
type userTicks struct{ users, aircraft int }

// Ticks implements plot.Ticker.
func (t userTicks) Ticks(_, _ float64) (out []plot.Tick) {
	every := (t.users + 9) / 10
	for u := 0; u < t.users; u += every {
		out = append(out, plot.Tick{Value: float64((t.users-1-u)*t.aircraft) + float64(t.aircraft-1)/2, Label: fmt.Sprintf("u%02d", u+1)})
	}
	return out
}

// viridis is a palette of even lightness, dark to bright (Smith and van der Walt 2015),
// between nine of its colours.
type viridis struct{}

var viridisPoints = []color.RGBA{
	{0x44, 0x01, 0x54, 0xff}, {0x47, 0x2d, 0x7b, 0xff}, {0x3b, 0x52, 0x8b, 0xff}, {0x2c, 0x72, 0x8e, 0xff}, {0x21, 0x91, 0x8c, 0xff},
	{0x28, 0xae, 0x80, 0xff}, {0x5e, 0xc9, 0x62, 0xff}, {0xad, 0xdc, 0x30, 0xff}, {0xfd, 0xe7, 0x25, 0xff},
}

// Colors implements palette.Palette.
func (viridis) Colors() (list []color.Color) {
	const steps = 8
	for i := range len(viridisPoints) - 1 {
		a, b := viridisPoints[i], viridisPoints[i+1]
		for k := range steps {
			mix := func(x, y uint8) uint8 { return uint8((int(x)*(steps-k) + int(y)*k) / steps) }
			list = append(list, color.RGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 0xff})
		}
	}
	return list
}

// curve is what a flight or a rollout cost, to be drawn.
type curve struct {
	name  string
	cost  *Cost
	c     color.Color
	width vg.Length
}

// costPlots are energy and delay since slot 0, beside rollouts'.
func costPlots(title string, curves ...curve) []*plot.Plot {
	energy := newPlot(title, "", "energy in slots (kJ)")
	delay := newPlot("", "slot (mission seconds)", "delay since slot 0 (s)")
	for _, x := range curves {
		joules, seconds := plotter.XYs{{}}, plotter.XYs{{}}
		for n, s := range x.cost.bySlot {
			joules = append(joules, plotter.XY{X: float64(n + 1), Y: joules[n].Y + s.EnergyJ/1000})
			seconds = append(seconds, plotter.XY{X: float64(n + 1), Y: seconds[n].Y + s.DelayS})
		}
		line(energy, fmt.Sprintf("%s: %.1f kJ", x.name, x.cost.EnergyJ/1000), joules, x.c, x.width)
		line(delay, fmt.Sprintf("%s: %.0f s", x.name, x.cost.DelayS), seconds, x.c, x.width)
	}
	return []*plot.Plot{energy, delay}
}
