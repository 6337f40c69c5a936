package report

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"prefdt/inference/physics"
	"prefdt/simbridge/chart"
)

// The moving picture: at most movieFrames slots of the flight, drawn at 72 dots
// an inch, so that a point of vg is a pixel.
const (
	movieFrames = 40
	movieWidth  = 960
	movieHeight = 480
	mapWidth    = 456
	frameCS     = 30  // hundredths of a second that a frame is shown
	lastFrameCS = 300 // and the last
)

// writeMovie draws the map beside what the crew sees, slot by slot, as an
// animated GIF. Each frame holds only the rectangle that changed.
func writeMovie(path string, f *Flight) error {
	movie := &gif.GIF{Config: image.Config{ColorModel: moviePalette(), Width: movieWidth, Height: movieHeight}}
	var before *image.Paletted
	for _, slot := range movieSlots(len(f.Rows)) {
		frame := drawFrame(f, slot)
		changed := frame.Bounds()
		if before != nil {
			changed = changedRectangle(before, frame)
		}
		movie.Image = append(movie.Image, frame.SubImage(changed).(*image.Paletted))
		movie.Delay = append(movie.Delay, frameCS)
		before = frame
	}
	movie.Delay[len(movie.Delay)-1] = lastFrameCS
	var encoded bytes.Buffer
	if err := gif.EncodeAll(&encoded, movie); err != nil {
		return fmt.Errorf("movie %s: %w", path, err)
	}
	return writeFile(path, encoded.Bytes())
}

// movieSlots are the rows to draw, the last one among them; -1 without a row.
func movieSlots(rows int) (slots []int) {
	step := max(1, (rows+movieFrames-1)/movieFrames)
	for slot := (rows - 1) % step; slot < rows; slot += step {
		slots = append(slots, slot)
	}
	if len(slots) == 0 {
		return []int{-1}
	}
	return slots
}

// changedRectangle bounds the pixels in which two frames differ; it is never empty.
func changedRectangle(a, b *image.Paletted) image.Rectangle {
	changed := image.Rectangle{}
	for y := range movieHeight {
		row := func(p *image.Paletted) []uint8 { return p.Pix[y*p.Stride : y*p.Stride+movieWidth] }
		if bytes.Equal(row(a), row(b)) {
			continue
		}
		for x, index := range row(a) {
			if index != row(b)[x] {
				changed = changed.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	if changed.Empty() {
		return image.Rect(0, 0, 1, 1)
	}
	return changed
}

// moviePalette is each colour of the charts in steps towards white, for smooth edges.
func moviePalette() (colours color.Palette) {
	const steps = 6
	colours = color.Palette{color.RGBA{0xff, 0xff, 0xff, 0xff}, color.RGBA{0xe8, 0xe8, 0xe8, 0xff}}
	for _, c := range chart.Palette {
		for i := range steps {
			blend := func(v uint8) uint8 { return uint8((int(v)*(steps-i) + 0xff*i) / steps) }
			colours = append(colours, color.RGBA{blend(c.R), blend(c.G), blend(c.B), 0xff})
		}
	}
	return colours
}

// drawFrame draws the flight as it was at the end of a row.
func drawFrame(f *Flight, row int) *image.Paletted {
	picture := vgimg.NewWith(vgimg.UseWH(movieWidth, movieHeight), vgimg.UseDPI(72))
	canvas := vgdraw.New(picture)
	past := *f
	past.Rows = f.Rows[:row+1]
	past.Trails = make([][]physics.Position, len(f.Trails))
	for m := range past.Trails {
		for _, r := range past.Rows {
			past.Trails[m] = append(past.Trails[m], r.Position[m])
		}
	}
	left := mapPlot(&past)
	left.Title.Text = "Where the aircraft are, and whom they serve"
	addLinks(left, &past)
	left.Legend = plot.NewLegend()
	left.Y.Max = f.AreaM * 1.03
	left.Draw(vgdraw.Crop(canvas, 4, mapWidth-movieWidth, 4, -4))
	right := vgdraw.Crop(canvas, mapWidth+16, -8, 4, -8)
	drawCrewView(&past, right)
	curves := []*plot.Plot{energyPlot(f, row+1), delayPlot(f, row+1)}
	curves[0].Title.Text = ""
	for _, p := range curves {
		p.Legend = plot.NewLegend() // there is no room for one
		p.Y.Tick.Marker, p.X.Label.Padding = fewTicks{}, 0
	}
	drawStacked(curves, vgdraw.Crop(right, 0, 0, 0, -crewViewHeight))

	paletted := image.NewPaletted(image.Rect(0, 0, movieWidth, movieHeight), moviePalette())
	quantize(paletted, picture.Image().(*image.RGBA)) // as vgimg makes it, white all over
	return paletted
}

// quantize takes for each pixel the nearest colour of the palette, which it looks up once for each
// colour, and not at all where the pixel before it has the same.
func quantize(to *image.Paletted, from *image.RGBA) {
	nearest := map[color.RGBA]uint8{}
	var before color.RGBA // no pixel's: a picture has no transparent one
	var index uint8
	for y := range movieHeight {
		for x := range movieWidth {
			if c := from.RGBAAt(x, y); c != before {
				known := false
				if index, known = nearest[c]; !known {
					index = uint8(to.Palette.Index(c))
					nearest[c] = index
				}
				before = c
			}
			to.Pix[y*to.Stride+x] = index
		}
	}
}

const crewViewHeight = 170

// drawCrewView writes the lines of `ground watch`, from what the leader counted,
// and beneath them the last thing that happened to the flight.
func drawCrewView(f *Flight, canvas vgdraw.Canvas) {
	var style text.Style
	style.Handler = plot.DefaultTextHandler
	style.Font.Typeface, style.Font.Size = "Liberation", 13
	style.YAlign = text.YTop
	write := func(y vg.Length, line string, variant font.Variant, c color.Color) {
		style.Font.Variant, style.Color = variant, c
		canvas.FillText(style, vg.Point{X: canvas.Min.X, Y: canvas.Max.Y - y}, line)
	}
	write(0, "What the crew sees (ground watch)", "Sans", chart.Black)
	y := vg.Length(24)
	for _, line := range crewView(f) {
		write(y, line, "Mono", chart.Black)
		y += 18
	}
	if text, c := lastEvent(f); text != "" {
		write(y+6, text, "Mono", c)
	}
}

// addLinks draws a line from each aircraft to the users that it serves in the last row.
func addLinks(p *plot.Plot, f *Flight) {
	if len(f.Rows) == 0 {
		return
	}
	r := f.Rows[len(f.Rows)-1]
	for _, l := range r.Served {
		if l.Aircraft >= len(r.Position) || l.User >= len(f.Users) {
			continue
		}
		from, to := r.Position[l.Aircraft], f.Users[l.User]
		addLine(p, "", plotter.XYs{{X: from.EastM, Y: from.NorthM}, {X: to.EastM, Y: to.NorthM}},
			aircraftColours[l.Aircraft%len(aircraftColours)], 1, 3, 2)
	}
}

func crewView(f *Flight) []string {
	if len(f.Rows) == 0 {
		return []string{"no slot was opened"}
	}
	r := f.Rows[len(f.Rows)-1]
	budget, remaining := "preference", "-"
	if r.BudgetJ > 0 {
		budget, remaining = fmt.Sprintf("budget %.1f kJ", r.BudgetJ/1000), fmt.Sprintf("%.1f kJ", (r.BudgetJ-r.LeaderSpentJ)/1000)
	}
	lines := []string{
		fmt.Sprintf("slot %d of %d   %s", r.Slot, f.Slots, budget),
		fmt.Sprintf("energy     %s: spent %4.1f kJ   remaining %s", scopeText(r.Landed), r.LeaderSpentJ/1000, remaining),
		fmt.Sprintf("   predicted end %4.1f kJ   floor %.1f kJ", r.LeaderPredictedEndJ/1000, r.FloorJ/1000),
		fmt.Sprintf("slot       users %d   decision %.2f ms", r.ReportsReceived, r.DecisionMS),
	}
	spentJ := make([]float64, len(f.Trails))
	for _, r := range f.Rows {
		for m := range spentJ {
			spentJ[m] += r.FlightJ[m] + r.EdgeJ[m]
		}
	}
	if r.Landed {
		copy(spentJ, r.DrawnJ)
	}
	for m, at := range r.Position {
		if m == 4 {
			return append(lines, fmt.Sprintf("and %d aircraft more", len(r.Position)-m))
		}
		lines = append(lines, fmt.Sprintf("aircraft %d %4.0f m east %4.0f m north  %4.1f m/s  spent %.1f kJ", m+1, at.EastM, at.NorthM,
			r.SpeedMPS[m], spentJ[m]/1000))
	}
	return lines
}

// PassedMost is the share of a budget above which it counts as passed.
const PassedMost = 0.005

// lastEvent is the latest command or shock of the slots so far, and after the last one
// what became of the budget.
func lastEvent(f *Flight) (text string, c color.Color) {
	now := len(f.Rows) - 1
	latest := -2
	if e := &f.Summary.Budget; now == f.Slots-1 && e.RevisedJ > 0 {
		if e.Error > PassedMost {
			return fmt.Sprintf("budget of %.1f kJ passed by %.1f %%", e.RevisedJ/1000, 100*e.Error), chart.Red
		}
		spentJ := e.SpentJ
		if e.Landed {
			spentJ += e.TransitJ
		}
		return fmt.Sprintf("budget of %.1f kJ kept: %.2f kJ %s", e.RevisedJ/1000, spentJ/1000, scopeText(e.Landed)), chart.Green
	}
	for _, command := range f.Summary.Commands {
		if command.Slot <= now && command.Slot >= latest {
			latest, c = command.Slot, chart.Blue
			text = "$ ground " + strings.Join(command.Args, " ")
		}
	}
	if f.Shock != nil && f.Shock.Slot <= now && f.Shock.Slot >= latest {
		return fmt.Sprintf("from slot %d flying costs x%.3g, unannounced", f.Shock.Slot, f.Shock.Factor), chart.Red
	}
	return text, c
}

// fewTicks labels only every other value, for a low plot.
type fewTicks struct{}

// Ticks implements plot.Ticker.
func (fewTicks) Ticks(low, high float64) (out []plot.Tick) {
	for i, tick := range (chart.Ticks{}).Ticks(low, high) {
		if i%2 == 0 {
			out = append(out, tick)
		}
	}
	return out
}
