package calibrate

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"prefdt/offline/offlinetest"
	"prefdt/offline/pareto"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

func TestLongestFront(t *testing.T) {
	for _, c := range []struct {
		name   string
		points []pareto.Point
		want   []int
	}{
		{"a front", []pareto.Point{{DelayS: 1, EnergyJ: 9}, {DelayS: 2, EnergyJ: 8}, {DelayS: 3, EnergyJ: 7}}, []int{0, 1, 2}},
		{"a dominated setting", []pareto.Point{{DelayS: 1, EnergyJ: 9}, {DelayS: 5, EnergyJ: 8.5}, {DelayS: 2, EnergyJ: 8},
			{DelayS: 3, EnergyJ: 7}}, []int{0, 2, 3}},
		{"equal settings", []pareto.Point{{DelayS: 1, EnergyJ: 9}, {DelayS: 1, EnergyJ: 9}, {DelayS: 3, EnergyJ: 7}}, []int{0, 2}},
	} {
		if got := longestFront(c.points); !slices.Equal(got, c.want) {
			// Of two equal settings either may stay.
			if c.name != "equal settings" || len(got) != 2 {
				t.Errorf("%s: kept %v, want %v", c.name, got, c.want)
			}
		}
	}
}

func TestRemapIsEvenInPlace(t *testing.T) {
	c, err := FitSettingMap([]float64{0, 0.1, 0.5, 1}, [][]pareto.Point{{{DelayS: 100, EnergyJ: 40e3}}, {{DelayS: 150, EnergyJ: 30e3}},
		{{DelayS: 400, EnergyJ: 28e3}}, {{DelayS: 700, EnergyJ: 27e3}}})
	if err != nil {
		t.Fatal(err)
	}
	// Member 1 lies at place 50/1200 + 10/26 = 0.4263, so that setting asks for its share.
	if got := c.SettingMap.Omega(50.0/1200 + 10.0/26); got < 0.09 || got > 0.11 {
		t.Errorf("setting 0.4263 asks for omega %v, want about 0.1", got)
	}
	if c.SettingMap.Omega(0) != 0 || c.SettingMap.Omega(1) != 1 {
		t.Errorf("the ends moved: %v, %v", c.SettingMap.Omega(0), c.SettingMap.Omega(1))
	}
}

// Where delay differs by less than chance from one setting to the next, the
// axis moves on faster: each of 21 settings is later than the one before it.
func TestSettingsAreToldApart(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var omegas []float64
	var outcomes [][]pareto.Point
	for i := range 101 {
		x := float64(i) / 100
		mean := 100 + 600*max(x-0.3, 0) + 0.5*min(x, 0.3) // the first third buys nothing
		row := make([]pareto.Point, 60)
		for s := range row {
			row[s] = pareto.Point{DelayS: mean + 0.2*r.NormFloat64(), EnergyJ: 40e3 - 13e3*x}
		}
		omegas, outcomes = append(omegas, x), append(outcomes, row)
	}
	c := offlinetest.Must(FitSettingMap(omegas, outcomes))(t)
	if second := c.SettingMap.Omega(0.05); second < 0.25 {
		t.Errorf("the second setting asks for omega %v, where delay is still that of the first", second)
	}
	if c.SettingMap.Omega(0) > 0.02 || c.SettingMap.Omega(1) != 1 {
		t.Errorf("the ends moved: %v, %v", c.SettingMap.Omega(0), c.SettingMap.Omega(1))
	}
}

// The axis ends where the network's predictions end, and a second calibration
// finds the same.
func TestStretch(t *testing.T) {
	ck, list := shippedCheckpoint(t), []uint64{100_000, 100_001, 100_002}
	offlinetest.NoError(t, fitPriceCurve(t.Context(), ck, world.Standard(), list))
	once := ck.PriceCurve.FrontPositions
	if end := once[len(once)-1]; end < 0.95 || end >= 1 || once[0] != 0 {
		t.Errorf("the axis reaches from %v to %v", once[0], end)
	}
	offlinetest.NoError(t, fitPriceCurve(t.Context(), ck, world.Standard(), list))
	for i, y := range ck.PriceCurve.FrontPositions {
		if math.Abs(y-once[i]) > 1e-6 {
			t.Fatalf("knot %d is %v, and %v when stretched again", i, once[i], y)
		}
	}
}

var shippedCheckpoint = offlinetest.Shipped

func TestTrialsAreExchangeableAndReproducible(t *testing.T) {
	ck := shippedCheckpoint(t)
	for k := range disturbances {
		a, b, other := newTrial(&ck.GoalConstants, world.Standard(), 100_000, k), newTrial(&ck.GoalConstants, world.Standard(), 100_000, k),
			newTrial(&ck.GoalConstants, world.Standard(), 100_001, k)
		if a.ceilingJ != b.ceilingJ || a.world.Shock != b.world.Shock || a.ceilingJ == other.ceilingJ {
			t.Errorf("%s: ceilings of %v J, again %v J, of another seed %v J", disturbances[k].name, a.ceilingJ, b.ceilingJ, other.ceilingJ)
		}
	}
}

// A guarantee takes enough flights, on calibration seeds, and rests
// on margins that few of them need more than.
func TestCeilings(t *testing.T) {
	ck, c := shippedCheckpoint(t), world.Standard()
	if _, err := fitCeilingMargin(t.Context(), ck, c, seeds.List(100_000, 198), 2, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "199") {
		t.Errorf("198 flights: %v", err)
	}
	if _, err := fitCeilingMargin(t.Context(), ck, c, seeds.List(1_000_000, 199), 2, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "calibration") {
		t.Errorf("evaluation seeds: %v", err)
	}
	// Short flights of few users and few margins, for a fast test; no shock, which is not distinguishable from noise in
	// the first slots.
	c.Slots, c.Users, c.ActiveMin, c.ActiveMax = 4, 4, 2, 4
	defer func(all []disturbance, m []float64) { disturbances, candidateMargins = all, m }(disturbances, candidateMargins)
	candidateMargins = []float64{5, 1, 0}
	disturbances = []disturbance{disturbances[0], disturbances[2]}
	var last float64
	var tried [][]int
	keep := func(margin float64, _, violated []int) error {
		last, tried = margin, append(tried, violated)
		return nil
	}
	p := offlinetest.Must(fitCeilingMargin(t.Context(), ck, c, seeds.List(100_000, 199), 2, nil, keep))(t)
	if p.StdDevs > 4 || last >= p.StdDevs || p.ViolationRate != ViolationRate || p.Flights != 199 || slices.Max(p.Violations) != 0 ||
		len(p.Conditions) != len(disturbances) {
		t.Errorf("%+v, tried down to %v", p, last)
	}
	// Continued before the last two margins, it comes to the same.
	n := len(tried)
	tried = tried[:n-2]
	again, err := fitCeilingMargin(t.Context(), ck, c, seeds.List(100_000, 199), 2, tried, keep)
	if err != nil || !reflect.DeepEqual(again, p) || len(tried) != n {
		t.Errorf("continued: %+v after %d margins, want %+v after %d: %v", again, len(tried), p, n, err)
	}
}

func TestFloors(t *testing.T) {
	calibration := []uint64{100_000, 100_001}
	figures := offlinetest.Must(measureFloors(t.Context(), shippedCheckpoint(t), world.Standard(), calibration, 2))(t)
	for name, most := range map[string]float64{"floor_error_calm": 1e-9, "floor_error_shock": 1e-9, "floor_error_gust_5": 0.02,
		"floor_error_gust_15": 0.05, "floor_over_closed_form": 1.001} {
		if x := figures[name]; !(x <= most) {
			t.Errorf("%s is %v, want %v at most", name, x, most)
		}
	}
	if f, m := figures["floor_j"], figures["most_j"]; f < 26e3 || f > 28e3 || m < 38e3 || m > 44e3 {
		t.Errorf("budgets from %v J to %v J", f, m)
	}
}
