package calibrate

import (
	"fmt"

	"prefdt/inference/goal"
	"prefdt/offline/front"
)

// Even returns n delay shares over a band that are even in the conditioner's
// place, a grid to fit a remap on.
func Even(s *goal.Scales, band [2]float64, n int) []float64 { return evenOmegas(s, band, n) }

// Spread fits a remap to the mean outcomes of any policy at some delay shares,
// and returns how many of them make one front.
func Spread(omegas []float64, points []front.Point) (remap goal.Remap, kept int, err error) {
	c := Calibration{Omegas: omegas, Points: points, Kept: longestFront(points)}
	if len(c.Kept) < 3 {
		return remap, len(c.Kept), fmt.Errorf("calibrate: only %d of %d settings lie on one front", len(c.Kept), len(points))
	}
	return c.remap(), len(c.Kept), nil
}
