package calibrate

import (
	"slices"
	"testing"

	"prefdt/offline/front"
)

func TestLongestFront(t *testing.T) {
	for _, c := range []struct {
		name   string
		points []front.Point
		want   []int
	}{
		{"a front", []front.Point{{DelayS: 1, EnergyJ: 9}, {DelayS: 2, EnergyJ: 8}, {DelayS: 3, EnergyJ: 7}}, []int{0, 1, 2}},
		{"a dominated setting", []front.Point{{DelayS: 1, EnergyJ: 9}, {DelayS: 5, EnergyJ: 8.5}, {DelayS: 2, EnergyJ: 8}, {DelayS: 3, EnergyJ: 7}}, []int{0, 2, 3}},
		{"equal settings", []front.Point{{DelayS: 1, EnergyJ: 9}, {DelayS: 1, EnergyJ: 9}, {DelayS: 3, EnergyJ: 7}}, []int{0, 2}},
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
	c := Calibration{
		Omegas: []float64{0, 0.1, 0.5, 1},
		Points: []front.Point{{DelayS: 100, EnergyJ: 40e3}, {DelayS: 150, EnergyJ: 30e3}, {DelayS: 400, EnergyJ: 28e3}, {DelayS: 700, EnergyJ: 27e3}},
		Kept:   []int{0, 1, 2, 3},
	}
	r := c.remap()
	// Member 1 lies at place 50/1200 + 10/26 = 0.4263, so that setting asks for its share.
	if got := r.Omega(50.0/1200 + 10.0/26); got < 0.09 || got > 0.11 {
		t.Errorf("setting 0.4263 asks for omega %v, want about 0.1", got)
	}
	if r.Omega(0) != 0 || r.Omega(1) != 1 {
		t.Errorf("the ends moved: %v, %v", r.Omega(0), r.Omega(1))
	}
}
