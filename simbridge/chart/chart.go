// Package chart is what all plots of the repository have in common: colours, ticks,
// a plot without data, and notes on it.
//
// Inputs: titles, axes and values. Outputs: gonum plots. simbridge/report and
// offline/study draw with it.
package chart

import (
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// Colours that stay apart for colour-blind eyes (Okabe and Ito).
var (
	Black  = color.RGBA{0x22, 0x22, 0x22, 0xff}
	Grey   = color.RGBA{0x99, 0x99, 0x99, 0xff}
	Red    = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	Blue   = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	Green  = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	Purple = color.RGBA{0xcc, 0x79, 0xa7, 0xff}
	Amber  = color.RGBA{0xe6, 0x9f, 0x00, 0xff}
	Sky    = color.RGBA{0x56, 0xb4, 0xe9, 0xff}

	// Palette is the order in which curves of one kind take colours.
	Palette = []color.RGBA{Blue, Red, Green, Purple, Amber, Sky, Black, Grey}
)

// New returns a plot without data.
func New(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font.Size = 14
	p.Title.Padding = 8
	for _, style := range []*text.Style{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Font.Variant = "Sans"
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = Ticks{}, Ticks{}
	p.BackgroundColor = color.White
	p.Legend.ThumbnailWidth, p.Legend.Padding = 24, 2
	grid := plotter.NewGrid()
	faint := color.RGBA{0xe8, 0xe8, 0xe8, 0xff}
	grid.Vertical.Color, grid.Horizontal.Color = faint, faint
	p.Add(grid)
	return p
}

// Ticks labels two to eleven round values, none beyond Limit unless that is 0.
type Ticks struct{ Limit float64 }

// Ticks implements plot.Ticker.
func (t Ticks) Ticks(low, high float64) (out []plot.Tick) {
	if t.Limit > 0 {
		high = min(high, t.Limit)
	}
	if !(high > low) {
		return nil
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/2)))
	for _, times := range []float64{1, 2, 5, 10} {
		if (high-low)/(step*times) <= 10 {
			step *= times
			break
		}
	}
	for i := math.Ceil(low / step); i*step <= high+1e-9*step; i++ {
		out = append(out, plot.Tick{Value: i * step, Label: strconv.FormatFloat(i*step+0, 'g', 6, 64)}) // +0: no "-0"
	}
	return out
}

// Shade shades what lies between two values of x, up to the height of the plot as it is now, and adds that to
// the legend unless the label is empty.
func Shade(p *plot.Plot, label string, from, to float64) {
	box, err := plotter.NewPolygon(plotter.XYs{{X: from, Y: p.Y.Min}, {X: to, Y: p.Y.Min}, {X: to, Y: p.Y.Max}, {X: from, Y: p.Y.Max}})
	if err != nil {
		return // of too few points alone
	}
	box.Color, box.LineStyle.Width = color.NRGBA{0x60, 0x60, 0x60, 0x50}, 0
	p.Add(box)
	if label != "" {
		p.Legend.Add(label, box)
	}
}

// Note writes a text that begins at a point.
func Note(p *plot.Plot, note string, x, y float64, c color.Color, size vg.Length) {
	addNote(p, note, x, y, c, size, text.XLeft, 3)
}

// NoteBefore writes a text that ends at a point.
func NoteBefore(p *plot.Plot, note string, x, y float64, c color.Color, size vg.Length) {
	addNote(p, note, x, y, c, size, text.XRight, -3)
}

func addNote(p *plot.Plot, note string, x, y float64, c color.Color, size vg.Length, align text.XAlignment, offset vg.Length) {
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: x, Y: y}}, Labels: []string{note}})
	if err != nil {
		return // only of mismatched lengths
	}
	labels.TextStyle[0].Color, labels.TextStyle[0].Font.Size, labels.TextStyle[0].Font.Variant = c, size, "Sans"
	labels.TextStyle[0].XAlign, labels.Offset = align, vg.Point{X: offset, Y: 3}
	p.Add(labels)
}
