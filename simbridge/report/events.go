package report

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"prefdt/simbridge/chart"
)

// Event is what happened to a flight from a slot on, in a few words.
type Event struct {
	Slot int
	Text string
}

// eventMark is an event as it is drawn.
type eventMark struct {
	Event
	colour color.Color
}

// events are the departures, the budgets' revisions, the shock, and what the mission's state became, of the first rows,
// by slot. One at the end of all rows ended them.
func (f *Flight) events(rows int) (list []eventMark) {
	add := func(slot int, text string, c color.Color) {
		if slot > 0 && (slot < rows || slot == rows && rows == len(f.Rows) && rows < f.Slots) {
			list = append(list, eventMark{Event{slot, text}, c})
		}
	}
	for m, a := range f.Summary.Aircraft {
		add(a.LeftSlot, fmt.Sprintf("aircraft %d %s", a.Number, LeftForHome), aircraftColours[m%len(aircraftColours)])
	}
	for i, b := range f.Summary.Budgets {
		if i+1 < len(f.Summary.Budgets) && f.Summary.Budgets[i+1].Slot == b.Slot {
			continue // it was replaced before it was in force
		}
		text := "no budget"
		if b.EnergyJ > 0 {
			text = fmt.Sprintf("budget %.1f kJ", b.EnergyJ/1000)
			if b.Landed != f.Summary.Budget.Landed {
				text += " " + scopeText(b.Landed)
			}
		}
		add(b.Slot, text, chart.Black)
	}
	if f.Shock != nil {
		add(f.Shock.Slot, fmt.Sprintf("flight power x%.3g", f.Shock.Factor), chart.Red)
	}
	for _, e := range f.States {
		add(e.Slot, e.Text, chart.Green)
	}
	slices.SortStableFunc(list, func(a, b eventMark) int { return cmp.Compare(a.Slot, b.Slot) })
	return list
}

// eventMarks draws events as upright lines with their words, none through the legend and no words over others.
type eventMarks struct {
	list  []eventMark
	noteY float64 // where the words of an event are that has none near it
}

const (
	noteSize   = 10
	noteMargin = 3 // between the words of an event and its line
)

// Plot implements plot.Plotter. Widths and the legend's place are known here alone.
func (e *eventMarks) Plot(c draw.Canvas, p *plot.Plot) {
	legend := legendBox(&c, p)
	toX, toY := p.Transforms(&c)
	style := p.Title.TextStyle
	style.Font.Size, style.Font.Variant, style.XAlign, style.YAlign = noteSize, "Sans", text.XLeft, text.YBottom
	for i, words := range e.place(&c, p, &style, legend) {
		x, mark := toX(float64(e.list[i].Slot)), e.list[i]
		line := draw.LineStyle{Color: mark.colour, Width: 1, Dashes: []vg.Length{6, 4}}
		parts := [][2]vg.Length{{toY(p.Y.Min), c.Max.Y}}
		if legend.Min.X < x && x < legend.Max.X {
			parts = [][2]vg.Length{{toY(p.Y.Min), legend.Min.Y}, {legend.Max.Y, c.Max.Y}}
		}
		for _, part := range parts {
			if part[1]-part[0] > 2*noteSize { // less is no line
				c.StrokeLine2(line, x, part[0], x, part[1])
			}
		}
		style.Color = mark.colour
		c.FillText(style, words.Min, mark.Text)
	}
}

// legendBox is where a plot's legend is drawn; without an entry it is empty.
func legendBox(c *draw.Canvas, p *plot.Plot) vg.Rectangle {
	box := p.Legend.Rectangle(*c)
	if box.Size().Y <= 0 {
		return vg.Rectangle{}
	}
	if width := box.Size().X; p.Legend.Left {
		box.Min.X, box.Max.X = c.Min.X, c.Min.X+width
	} else {
		box.Min.X, box.Max.X = c.Max.X-width, c.Max.X
	}
	const around = 8 // the legend's canvas is that much wider than the data's
	at := vg.Point{X: p.Legend.XOffs, Y: p.Legend.YOffs}
	box.Min, box.Max = box.Min.Add(at), box.Max.Add(at)
	return vg.Rectangle{Min: box.Min.Sub(vg.Point{X: around, Y: around}), Max: box.Max.Add(vg.Point{X: around, Y: around})}
}

// place finds for each event where its words are: at noteY, or the nearest line above or beneath that is free of other
// words, of the legend and, if there is such a one, of other events' lines.
func (e *eventMarks) place(c *draw.Canvas, p *plot.Plot, style *text.Style, legend vg.Rectangle) (boxes []vg.Rectangle) {
	toX, toY := p.Transforms(c)
	for _, mark := range e.list {
		size, x, y := style.Rectangle(mark.Text).Size(), toX(float64(mark.Slot)), toY(e.noteY)+noteMargin
		after, before := x+noteMargin, x-noteMargin-size.X
		sides := []vg.Length{after, before}
		if float64(mark.Slot) > 0.7*p.X.Max { // there is no room behind
			sides = []vg.Length{before, after}
		}
		best, leastCost := vg.Rectangle{}, -1
		for level := range 2 * int((c.Max.Y-c.Min.Y)/size.Y) {
			at := y + vg.Length((level+1)/2)*size.Y // up first
			if level%2 == 0 {
				at = y - vg.Length(level/2)*size.Y
			}
			for side, left := range sides {
				box := vg.Rectangle{Min: vg.Point{X: left, Y: at}, Max: vg.Point{X: left + size.X, Y: at + size.Y}}
				cost := level + side
				if box.Min.X < c.Min.X || box.Max.X > c.Max.X || box.Min.Y < c.Min.Y || box.Max.Y > c.Max.Y || overlap(box, legend) {
					cost += 10000
				}
				for _, other := range boxes {
					if overlap(box, other) {
						cost += 10000
					}
				}
				for _, other := range e.list {
					if at := toX(float64(other.Slot)); other.Slot != mark.Slot && box.Min.X < at && at < box.Max.X {
						cost += 8
					}
				}
				if leastCost < 0 || cost < leastCost {
					best, leastCost = box, cost
				}
			}
		}
		boxes = append(boxes, best)
	}
	return boxes
}

func overlap(a, b vg.Rectangle) bool {
	return a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y
}
