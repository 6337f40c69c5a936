// Package plots draws the pictures of comparisons: fronts, the speed flown at each
// setting, energy and delay under a shock, flight power. Inputs: outcomes by arm. Outputs:
// plots, PNG files of them side by side, and the folder of a report. The study and the paper's tables call it.
package plots

import (
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"prefdt/offline/command"
	"prefdt/offline/experiment"
	"prefdt/offline/pareto"
	"prefdt/simbridge/chart"
)

// Save writes plots side by side as one PNG, their axes on one line. The title is that of
// one plot alone.
func Save(path, title string, panels []*plot.Plot) error {
	if len(panels) == 1 {
		panels[0].Title.Text = title
	}
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

func New(x, y string) *plot.Plot {
	p := chart.New("", x, y)
	p.Legend.Top, p.Legend.XOffs = true, -8
	return p
}

const NoteFontSize = 9

// markers tell curves apart without their colours; all are open, so that one
// shows through another.
var markers = []draw.GlyphDrawer{draw.RingGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{}}

// Curve is one line of a plot.
type Curve struct {
	Label  string
	Points plotter.XYs
	Marked bool // a marker at every point, for curves of few points
}

// AddCurves adds curves in the palette's colours. Each is wider than those after
// it, so that where several coincide every one of them still shows.
func AddCurves(p *plot.Plot, curves ...Curve) {
	for i, c := range curves {
		hue := chart.Palette[i%len(chart.Palette)]
		width := vg.Length(1.4 + 0.7*float64(len(curves)-1-i))
		shown := []plot.Thumbnailer{}
		if len(c.Points) > 1 {
			l := &plotter.Line{XYs: c.Points, LineStyle: draw.LineStyle{Color: hue, Width: width}}
			p.Add(l)
			shown = append(shown, l)
		}
		if c.Marked {
			m := &plotter.Scatter{XYs: c.Points, GlyphStyle: draw.GlyphStyle{Color: hue, Radius: 2 + width, Shape: markers[i%len(markers)]}}
			p.Add(m)
			shown = append(shown, m)
		}
		p.Legend.Add(c.Label, shown...)
	}
}

// LineWidth is that of a reference line.
const LineWidth = 1.4

// AddLine adds a line without markers.
func AddLine(p *plot.Plot, label string, c color.Color, width vg.Length, points plotter.XYs, dashes ...vg.Length) {
	l := &plotter.Line{XYs: points, LineStyle: draw.LineStyle{Color: c, Width: width, Dashes: dashes}}
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

// AddBand shades a standard deviation about a line.
func AddBand(p *plot.Plot, c color.RGBA, alpha uint8, points plotter.XYs, stdDev []float64) {
	var up, down plotter.XYs
	for i, at := range points {
		up, down = append(up, plotter.XY{X: at.X, Y: at.Y + stdDev[i]}), append(down, plotter.XY{X: at.X, Y: at.Y - stdDev[i]})
	}
	slices.Reverse(down)
	if area, err := plotter.NewPolygon(append(up, down...)); err == nil { // an error is of too few points
		area.Color, area.LineStyle.Width = color.NRGBA{c.R, c.G, c.B, alpha}, 0
		p.Add(area)
	}
}

// Picture is one image of a report, shown below a table.
type Picture struct {
	Table, File, Title string
	Panels             []*plot.Plot // side by side; none: the results do not have it
}

// Report is what is written from a set's results.
type Report struct {
	Name      string // of the text
	Measured  string // how many arms, in words
	Tables    []*experiment.Table
	Reference pareto.ReferenceFronts
	Pictures  []Picture
	Text      func(w io.Writer, drawn []Picture) error
}

// Write writes the folder report of a set: the text, a CSV of each table, the reference front, and those pictures that have
// something to show.
func (r *Report) Write(s *experiment.Set) error {
	dir := filepath.Join(s.Dir, "report")
	for _, t := range r.Tables {
		if err := command.ReplaceFile(filepath.Join(dir, t.Name+".csv"), t.WriteCSV); err != nil {
			return err
		}
	}
	if err := command.ReplaceJSON(filepath.Join(dir, "reference.json"), "", r.Reference); err != nil {
		return err
	}
	drawn := slices.DeleteFunc(r.Pictures, func(p Picture) bool { return len(p.Panels) == 0 })
	for _, p := range drawn {
		if err := Save(filepath.Join(dir, p.File), p.Title, p.Panels); err != nil {
			return fmt.Errorf("plot %s: %w", p.File, err)
		}
	}
	path := filepath.Join(dir, r.Name)
	if err := command.ReplaceFile(path, func(w io.Writer) error { return r.Text(w, drawn) }); err != nil {
		return err
	}
	s.Logf("%s in %s, with CSV tables, reference.json and %d pictures", r.Measured, path, len(drawn))
	return nil
}

// WriteMarkdown shows the pictures that belong below a table.
func WriteMarkdown(w io.Writer, pictures []Picture, table string) {
	for _, p := range pictures {
		if p.Table == table {
			fmt.Fprintf(w, "\n![%s](%s)\n", p.Title, p.File)
		}
	}
}
