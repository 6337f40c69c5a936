package compare

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"prefdt/offline/plots"
	"prefdt/simbridge/chart"
	"prefdt/simbridge/report"
	"prefdt/simbridge/world"
)

const (
	windPicture, linksPicture, memoryPicture = "wind.png", "links.png", "memory.png"
	missedLabel                              = "missed slots"
)

// shown is what each picture shows.
var shown = map[string]string{
	windPicture: "the wind as the leader believed and as it was", linksPicture: "who sees whom, likewise",
	memoryPicture: "energy and delay beside both rollouts",
}

// draw draws the pictures for which the flight has beliefs, and returns their names.
func draw(folder string, f *Flight, c *Comparison) (names []string, err error) {
	truth := world.NewScenario(&f.World, f.Summary.Seed)
	wind, links := windPlots(f, truth), linkPlots(f, truth)
	if len(wind) > 0 {
		names = append(names, windPicture)
	}
	if len(links) > 0 {
		names = append(names, linksPicture)
	}
	return append(names, memoryPicture), cmp.Or(
		save(filepath.Join(folder, windPicture), 26, wind),
		save(filepath.Join(folder, linksPicture), 30, links),
		saveCosts(filepath.Join(folder, memoryPicture), "The flight, and the same policy without memory on the same seed",
			curve{"without memory", &c.Memoryless, chart.Red, 2},
			curve{"rollout of the flight", &c.Rollout, chart.Grey, 3}, curve{"the flight", &c.Flight, chart.Blue, 1.6}),
	)
}

// save writes a picture of some plots, one above the other; none of none.
func save(path string, heightCM vg.Length, panels []*plot.Plot) error {
	if len(panels) == 0 {
		return nil
	}
	return report.SaveStacked(panels, 24*vg.Centimeter, heightCM*vg.Centimeter, path)
}

// windPlots are the wind's components and the multiplier, believed and true; none where
// no slot has such beliefs.
func windPlots(f *Flight, truth *world.Scenario) (list []*plot.Plot) {
	var believed, actual [2]plotter.XYs // of the wind, to the east and to the north
	var power, truePower plotter.XYs
	var spread []float64
	for n, s := range f.Slots {
		at := func(y float64) plotter.XY { return plotter.XY{X: float64(n), Y: y} }
		w := truth.WindMPS(n)
		actual[0], actual[1] = append(actual[0], at(w.EastM)), append(actual[1], at(w.NorthM))
		truePower = append(truePower, at(truth.PowerFactor(n)))
		if b := s.Believed; b.WindMPS != nil {
			believed[0], believed[1] = append(believed[0], at(b.WindMPS[0])), append(believed[1], at(b.WindMPS[1]))
			spread = append(spread, b.WindSDMPS/math.Sqrt2) // of one axis
		}
		if s.Believed.PowerMultiplier > 0 {
			power = append(power, at(s.Believed.PowerMultiplier))
		}
	}
	if len(spread) > 0 {
		for k, label := range []string{"to the east (m/s)", "to the north (m/s)"} {
			q := newPlot("", "", label)
			plots.AddBand(q, chart.Sky, 0x60, believed[k], spread)
			plots.AddLine(q, "true", chart.Black, 1.4, actual[k])
			plots.AddLine(q, "believed, with its standard deviation", chart.Blue, 2, believed[k])
			q.Y.Max += 0.25 * (q.Y.Max - q.Y.Min) // for the legend
			list = append(list, q)
		}
		list[0].Title.Text = "The wind: as the leader believed, and as it was"
	}
	if len(power) > 0 {
		q := newPlot("", "slot (mission seconds)", "flight power over the model's")
		plots.AddLine(q, "true", chart.Black, 1.4, truePower)
		plots.AddLine(q, "believed", chart.Red, 2, power)
		q.Y.Min, q.Y.Max = math.Min(q.Y.Min, 0.8), math.Max(q.Y.Max, 1.3)
		list = append(list, q)
	}
	markMissed(f, list, missedLabel)
	return list
}

// markMissed shades the slots that were missed, with a label in each legend unless it is empty.
func markMissed(f *Flight, list []*plot.Plot, label string) {
	for n := range f.Slots {
		if !f.Slots[n].Missed {
			continue
		}
		for _, p := range list {
			chart.Shade(p, label, float64(n)-0.5, float64(n)+0.5)
		}
		label = ""
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
	var list []*plot.Plot
	for _, p := range []struct {
		title string
		gains
	}{
		{fmt.Sprintf("Who sees whom, as users reported it: one sample of fading, off by %.1f dB", math.Sqrt(squaredReported/count)),
			reported},
		{fmt.Sprintf("as the leader believed: off by %.1f dB", math.Sqrt(squared/count)), believed},
		{fmt.Sprintf("as it was (gain from %d dB, dark, to %d dB, bright; white: no task; grey: missed)", gainMinDB, gainMaxDB), actual},
	} {
		q := newPlot(p.title, "", "user, a row for each aircraft")
		heat := plotter.NewHeatMap(p.gains, moreland.Kindlmann().Palette(64))
		heat.NaN, heat.Min, heat.Max = color.White, gainMinDB, gainMaxDB
		q.Add(heat)
		var ticks plot.ConstantTicks // each user's name between its rows
		for u := 0; u < users; u += (users + 9) / 10 {
			ticks = append(ticks, plot.Tick{Value: float64((users-1-u)*aircraft) + float64(aircraft-1)/2, Label: fmt.Sprintf("u%02d", u+1)})
		}
		q.Y.Tick.Marker = ticks
		for u := range users - 1 {
			y := float64((u+1)*aircraft) - 0.5
			plots.AddLine(q, "", chart.Grey, 0.5, plotter.XYs{{X: -0.5, Y: y}, {X: float64(len(f.Slots)) - 0.5, Y: y}})
		}
		q.Y.Min, q.Y.Max, q.X.Min, q.X.Max = -0.5, float64(users*aircraft)-0.5, -0.5, float64(len(f.Slots))-0.5
		list = append(list, q)
	}
	list[len(list)-1].X.Label.Text = "slot (mission seconds)"
	markMissed(f, list, "") // the title says it
	return list
}

// curve is what a flight or a rollout cost, to be drawn.
type curve struct {
	name  string
	cost  *Cost
	c     color.Color
	width vg.Length
}

// saveCosts draws energy and delay since slot 0, beside rollouts'.
func saveCosts(path, title string, curves ...curve) error {
	energy := newPlot(title, "", "energy in slots (kJ)")
	delay := newPlot("", "slot (mission seconds)", "delay since slot 0 (s)")
	for _, x := range curves {
		joules, seconds := plotter.XYs{{}}, plotter.XYs{{}}
		for n, s := range x.cost.bySlot {
			joules = append(joules, plotter.XY{X: float64(n + 1), Y: joules[n].Y + s.EnergyJ/1000})
			seconds = append(seconds, plotter.XY{X: float64(n + 1), Y: seconds[n].Y + s.DelayS})
		}
		plots.AddLine(energy, fmt.Sprintf("%s: %.1f kJ", x.name, x.cost.EnergyJ/1000), x.c, x.width, joules)
		plots.AddLine(delay, fmt.Sprintf("%s: %.0f s", x.name, x.cost.DelayS), x.c, x.width, seconds)
	}
	return save(path, 16, []*plot.Plot{energy, delay})
}
