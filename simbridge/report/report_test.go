package report

import (
	"encoding/json"
	"errors"
	"image/gif"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"prefdt/inference/physics"
	"prefdt/simbridge/chart"
	"prefdt/simbridge/world"
)

func TestQuantiles(t *testing.T) {
	for _, c := range []struct {
		x             []float64
		p50, p95, p99 float64
	}{
		{nil, 0, 0, 0},
		{[]float64{3}, 3, 3, 3},
		{[]float64{4, 1, 3, 2}, 2, 4, 4},
		{hundredToOne(), 50, 95, 99},
	} {
		if s := QuantilesOf(c.x); s.P50 != c.p50 || s.P95 != c.p95 || s.P99 != c.p99 {
			t.Errorf("%v: %+v, want %v, %v and %v", c.x, s, c.p50, c.p95, c.p99)
		}
	}
}

func hundredToOne() (x []float64) {
	for i := 100; i > 0; i-- {
		x = append(x, float64(i))
	}
	return x
}

// exampleFlight is a flight of n slots in a circle at an even pace.
func exampleFlight(n int) *Flight {
	f := &Flight{
		Slots: n, AreaM: 1000, Trails: make([][]physics.Position, 2), Shock: &Shock{n / 2, 1.5},
		Users:   []physics.Position{{EastM: 100, NorthM: 200}, {EastM: 800, NorthM: 700}},
		Summary: Summary{Budgets: []Budget{{EnergyJ: 45000}, {Slot: n * 3 / 10, EnergyJ: 42000}}},
	}
	for i := range n {
		spent := 420 * float64(i+1)
		r := Row{Slot: i, DelayS: 2 + math.Sin(float64(i)), SpentJ: spent, LeaderSpentJ: spent + 20}
		for m := range f.Trails {
			p := physics.Position{EastM: 300 + 400*float64(m) + 80*math.Cos(float64(i)/8), NorthM: 500 + 80*math.Sin(float64(i)/8)}
			f.Trails[m] = append(f.Trails[m], p)
			r.FlightJ, r.EdgeJ = append(r.FlightJ, 200), append(r.EdgeJ, 10)
			r.Position, r.SpeedMPS = append(r.Position, p), append(r.SpeedMPS, 8)
		}
		f.Rows = append(f.Rows, r)
	}
	return f
}

// No line is drawn over slots in which no budget was in force, nor where the leader told none: in a slot that was
// missed, and by a budget of another scope than the picture's.
func TestLines(t *testing.T) {
	var rows []Row
	for i, j := range []float64{0, 5000, 5000, 0, 0, 4000, 4000, 4000, 3000} {
		rows = append(rows, Row{Slot: i, BudgetJ: j, Missed: i == 6, Landed: i == 8})
	}
	want := []plotter.XYs{{{X: 1, Y: 5}, {X: 2, Y: 5}, {X: 2, Y: 5}, {X: 3, Y: 5}}, {{X: 5, Y: 4}, {X: 6, Y: 4}},
		{{X: 7, Y: 4}, {X: 8, Y: 4}}}
	budget := func(r *Row) float64 { return r.BudgetJ }
	if got := new(Flight).lines(rows, 0, budget); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := new(Flight).lines(rows, 1, budget); !reflect.DeepEqual(got[1:], []plotter.XYs{{{X: 6, Y: 4}}, {{X: 8, Y: 4}}}) {
		t.Errorf("at the slots' ends: %v", got)
	}
}

// A line is drawn alike with a label and without one, however short, and one of a single point is seen.
func TestShortLines(t *testing.T) {
	for _, points := range []int{1, 2, 3, 4, 5, 9, 19} {
		var line plotter.XYs
		for i := range points {
			line = append(line, plotter.XY{X: 3 + float64(i)/2, Y: 5})
		}
		drawn := map[string]int{}
		for _, label := range []string{"", "floor"} {
			p, picture := newPlot("", "", ""), vgimg.New(600, 300)
			addLine(p, label, line, chart.Purple, 2)
			p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 20, 0, 10
			p.Legend = plot.NewLegend()
			p.Draw(draw.New(picture))
			bounds := picture.Image().Bounds()
			for y := range bounds.Dy() {
				for x := range bounds.Dx() {
					if r, g, _, _ := picture.Image().At(x, y).RGBA(); r > g+20<<8 {
						drawn[label]++
					}
				}
			}
		}
		if drawn["floor"] != drawn[""] || drawn[""] == 0 {
			t.Errorf("%d points: %d pixels with a label, %d without", points, drawn["floor"], drawn[""])
		}
	}
}

// A picture has joules of one scope, that of the last budget, whatever was in force in a slot.
func TestSpentInScope(t *testing.T) {
	slots, landed := Row{SpentJ: 50, DrawnJ: []float64{40, 30}, LeaderSpentJ: 51, LeaderTransitJ: 21}, Row{}
	landed = slots
	landed.Landed, landed.LeaderSpentJ = true, 72
	for _, c := range []struct {
		landed            bool
		row               Row
		batteries, leader float64
	}{{false, slots, 50, 51}, {false, landed, 50, 51}, {true, slots, 70, 72}, {true, landed, 70, 72}} {
		f := &Flight{Summary: Summary{Budget: Energy{Landed: c.landed}}}
		if batteries, leader := f.spentJ(&c.row); batteries != c.batteries || leader != c.leader {
			t.Errorf("%+v: %v and %v", c, batteries, leader)
		}
	}
}

// packsFlight is a flight that is to keep a part of each pack, from take-off to touchdown.
func packsFlight(n int) *Flight {
	f := exampleFlight(n)
	f.Summary.Landed, f.Summary.Budget = true, Energy{SpentJ: 420 * float64(n), TransitJ: 40e3, RevisedJ: 90e3, Landed: true}
	f.Summary.Budgets = []Budget{{EnergyJ: 90e3, Landed: true, OfPacks: true}}
	for m := range 2 {
		f.Summary.Aircraft = append(f.Summary.Aircraft, AircraftSummary{Number: m + 1, PackJ: 60e3, KeptJ: 12e3, LeftJ: 13e3})
	}
	for i := range f.Rows {
		r := &f.Rows[i]
		r.Landed, r.BudgetJ, r.FloorJ, r.LeaderTransitJ = true, 90e3, 80e3, 14e3
		r.DrawnJ = []float64{7e3 + r.SpentJ/2, 7e3 + r.SpentJ/2}
	}
	return f
}

// Slots that were missed are seen, in both pictures; others are not.
func TestMissedSlotsAreSeen(t *testing.T) {
	for _, missed := range []bool{true, false} {
		f := exampleFlight(100)
		for n := 40; n < 45; n++ {
			f.Rows[n].Missed = missed
		}
		path := filepath.Join(t.TempDir(), "energy.png")
		if err := SaveStacked([]*plot.Plot{energyPlot(f, 100), delayPlot(f, 100)}, 600, 600, path); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		picture, err := png.Decode(file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		half, shaded := picture.Bounds().Dy()/2, [2]int{}
		for y := range picture.Bounds().Dy() {
			for x := range picture.Bounds().Dx() {
				r, g, b, _ := picture.At(x, y).RGBA()
				if r == g && g == b && r>>8 > 195 && r>>8 < 215 {
					shaded[min(y/half, 1)]++
				}
			}
		}
		for i, n := range shaded { // five slots of a hundred, and the legend
			if missed != (n > 5000) {
				t.Errorf("missed %v: picture %d has %d shaded pixels", missed, i, n)
			}
		}
	}
}

// Who left for home is seen from then on, in its colour, which nothing else has in these pictures.
func TestDeparturesAreSeen(t *testing.T) {
	for _, slot := range []int{0, 80} {
		f := packsFlight(100)
		f.Shock, f.Summary.Aircraft[1].LeftSlot = nil, slot
		for _, rows := range []int{80, 100} {
			for i, p := range []*plot.Plot{energyPlot(f, rows), delayPlot(f, rows)} {
				n, picture := 0, vgimg.New(600, 300)
				p.Draw(draw.New(picture))
				bounds := picture.Image().Bounds()
				for y := range bounds.Dy() {
					for x := range bounds.Dx() {
						r, g, b, _ := picture.Image().At(x, y).RGBA()
						if r > b+60<<8 && g > b && 11*r+9*b > 20*g { // red, mixed with white too; amber is less so
							n++
						}
					}
				}
				if want := slot > 0 && rows > slot; want != (n > 50) {
					t.Errorf("left at slot %d, %d rows: picture %d has %d of its pixels", slot, rows, i, n)
				}
			}
		}
	}
}

// Reports are written whatever the flight was, without a slot too.
func TestWrite(t *testing.T) {
	bare := &Flight{AreaM: 1000}
	early := exampleFlight(12)
	early.Rows, early.Summary.Budgets = early.Rows[:5], append(early.Summary.Budgets, Budget{Slot: 4})
	long := exampleFlight(movieFrames + 5) // of which a moving picture shows half
	for name, f := range map[string]*Flight{"usual": exampleFlight(6), "packs": packsFlight(6), "nothing": bare,
		"one slot": exampleFlight(1), "long": long,
		"ended early": early} {
		folder := filepath.Join(t.TempDir(), "new", "folder")
		if err := errors.Join(Write(folder, f), WritePictures(folder, f)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, plot := range []string{"energy.png", "map.png"} {
			file, err := os.Open(filepath.Join(folder, plot))
			if err != nil {
				t.Fatal(err)
			}
			image, err := png.Decode(file)
			file.Close()
			if err != nil || image.Bounds().Dx() < 500 || plot == "energy.png" && (image.Bounds().Dy() > 1000) != (name == "packs") {
				t.Errorf("%s, %s: %v", name, plot, err) // packs have a picture of their own in it
			}
		}
		film, err := os.Open(filepath.Join(folder, "flight.gif"))
		if err != nil {
			t.Fatal(err)
		}
		frames, err := gif.DecodeAll(film)
		film.Close()
		if want := len(movieSlots(len(f.Rows))); err != nil || len(frames.Image) != want || want > movieFrames {
			t.Errorf("%s, moving picture: %v; want %d frames", name, err, want)
		}
		raw, err := os.ReadFile(filepath.Join(folder, "summary.json"))
		if err != nil || !json.Valid(raw) {
			t.Errorf("%s: summary %q, %v", name, raw, err)
		}
	}
	if err := Write(filepath.Join(os.DevNull, "x"), bare); err == nil {
		t.Error("written into a file that is no folder")
	}
}

// The keys that other programs read.
func TestSummaryKeys(t *testing.T) {
	raw, err := json.Marshal(Summary{})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	for key, inner := range map[string][]string{
		"slots": nil, "missed_slots": nil, "reports": {"expected", "heard"}, "decisions": nil,
		"budget": {"requested_j", "revised_j", "spent_j", "error"}, "delay_s": nil, "energy_source": nil,
		"decision_ms": {"p50", "p95", "p99"}, "min_separation_m": nil, "max_speed_mps": nil, "setpoints": nil,
		"commands": nil, "traffic": {"control_bytes", "offloaded_bits", "ratio"},
	} {
		value, ok := got[key]
		if !ok {
			t.Errorf("no %s", key)
		}
		for _, name := range inner {
			if _, ok := value.(map[string]any)[name]; !ok {
				t.Errorf("no %s.%s", key, name)
			}
		}
	}
}

// practiceFlight is one that ended after 63 of 400 slots, with events near each other.
func practiceFlight() *Flight {
	f := exampleFlight(400)
	f.Shock, f.Rows = nil, f.Rows[:63]
	f.Summary.Budgets = []Budget{{EnergyJ: 150e3}, {Slot: 22, EnergyJ: 140e3}, {Slot: 25, EnergyJ: 130e3}, {Slot: 25}}
	f.States = []Event{{30, "holding"}, {36, "flying on"}, {63, "returning"}}
	return f
}

// Words of events lie neither over each other's, nor in the legend, nor outside; the axis ends a little after the last
// slot flown.
func TestEventsApart(t *testing.T) {
	crowd := practiceFlight()
	for slot := 40; slot < 48; slot++ {
		crowd.States = append(crowd.States, Event{slot, "holding"})
	}
	long := exampleFlight(100)
	for name, f := range map[string]*Flight{"practice": practiceFlight(), "crowd": crowd, "whole": long, "packs": packsFlight(100)} {
		for i, p := range []*plot.Plot{energyPlot(f, len(f.Rows)), delayPlot(f, len(f.Rows))} {
			marks := &eventMarks{f.events(len(f.Rows)), p.Y.Max * 0.9}
			c := draw.New(vgimg.New(680, 312))
			style := p.Title.TextStyle
			style.Font.Size = noteSize
			legend := legendBox(&c, p)
			boxes := marks.place(&c, p, &style, legend)
			if name == "practice" && len(boxes) != 5 {
				t.Errorf("%d events, want 5: %v", len(boxes), marks.list)
			}
			for k, box := range boxes {
				if overlap(box, legend) || box.Min.X < c.Min.X || box.Max.X > c.Max.X || box.Max.Y > c.Max.Y {
					t.Errorf("%s, picture %d: %q is at %v, the legend at %v", name, i, marks.list[k].Text, box, legend)
				}
				for j := range k {
					if overlap(box, boxes[j]) {
						t.Errorf("%s, picture %d: %q lies over %q", name, i, marks.list[k].Text, marks.list[j].Text)
					}
				}
			}
			if last := float64(len(f.Rows)); p.X.Max < last || p.X.Max > 1.1*last {
				t.Errorf("%s, picture %d: the axis ends at %v, the slots at %v", name, i, p.X.Max, last)
			}
		}
	}
}

// Touchdowns are marked where they were, within the axis.
func TestTouchdownsAreMarked(t *testing.T) {
	f := packsFlight(100)
	f.Touchdowns = []float64{91.5, 131}
	for m, want := range f.Touchdowns {
		if got := f.touchdown(m); got != want {
			t.Errorf("aircraft %d: %v", m+1, got)
		}
	}
	for i, p := range []*plot.Plot{energyPlot(f, 100), packsPlot(f), delayPlot(f, 100)} {
		if p.X.Max < 131 {
			t.Errorf("picture %d ends at %v", i, p.X.Max)
		}
	}
	if f.Touchdowns = nil; f.touchdown(1) != 100 {
		t.Errorf("one that is not known: %v", f.touchdown(1))
	}
}

// The map says why the aircraft circle, by the airframe of its world.
func TestMapTitle(t *testing.T) {
	f, w := exampleFlight(3), world.Standard()
	if got := mapPlot(f).Title.Text; got != "Where the aircraft flew" {
		t.Errorf("without a world: %s", got)
	}
	f.Summary.World = &w
	if got := mapPlot(f).Title.Text; got != "Where the aircraft flew: hovering costs more than circling at 8 m/s" {
		t.Error(got)
	}
}

// What more than one in a hundred of is late or missed is named; a flight that nothing disturbed says nothing.
func TestDisturbed(t *testing.T) {
	for _, c := range []struct {
		missed, received, late int
		want                   string
	}{
		{0, 540, 0, ""},
		{1, 535, 4, ""},
		{2, 535, 4, "2 of 100 slots missed"},
		{0, 533, 5, "7 of 600 reports not received in time, 5 of 480 decisions late"},
	} {
		s := &Summary{Slots: 100 - c.missed, MissedSlots: c.missed, Reports: Reports{Expected: 600, Lost: 60, Received: c.received},
			Decisions: 480, Latency: Latency{LateDecisions: c.late}}
		if got := s.Disturbed(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
