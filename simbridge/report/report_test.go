package report

import (
	"encoding/json"
	"image/gif"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"gonum.org/v1/plot/plotter"

	"prefdt/inference/physics"
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

// No line is drawn over slots in which no budget was in force.
func TestBudgetLines(t *testing.T) {
	var rows []Row
	for i, j := range []float64{0, 5000, 5000, 0, 0, 4000, 0} {
		rows = append(rows, Row{Slot: i, BudgetJ: j})
	}
	want := []plotter.XYs{{{X: 1, Y: 5}, {X: 2, Y: 5}, {X: 2, Y: 5}, {X: 3, Y: 5}}, {{X: 5, Y: 4}, {X: 6, Y: 4}}}
	if got := budgetLines(rows); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Reports are written whatever the flight was, without a slot too.
func TestWrite(t *testing.T) {
	bare := &Flight{AreaM: 1000}
	early := exampleFlight(100)
	early.Rows, early.Summary.Budgets = early.Rows[:40], append(early.Summary.Budgets, Budget{Slot: 35})
	long := exampleFlight(1200)
	for name, f := range map[string]*Flight{"usual": exampleFlight(100), "nothing": bare, "one slot": exampleFlight(1), "long": long,
		"ended early": early} {
		folder := filepath.Join(t.TempDir(), "new", "folder")
		if err := Write(folder, f); err != nil {
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
			if err != nil || image.Bounds().Dx() < 500 {
				t.Errorf("%s, %s: %v", name, plot, err)
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
