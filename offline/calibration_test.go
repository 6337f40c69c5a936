package main

import (
	"testing"

	"prefdt/inference/goal"
)

// A margin that no flight has calibrated promises nothing.
func TestCeilingLine(t *testing.T) {
	m := goal.CeilingMargin{StdDevs: 3.5}
	if got := ceilingLine(&m); got != "a margin of 3.50 deviations, not calibrated: nothing is promised" {
		t.Error(got)
	}
	m.Flights, m.Violations, m.ViolationRate, m.Conditions = 399, []int{0, 1}, 0.005, []string{"calm air", "gusts"}
	if got := ceilingLine(&m); got != `a margin of 3.50 deviations; [0 1] of 399 flights passed theirs, at most 0.005 are promised to, `+
		`in each of ["calm air" "gusts"]` {
		t.Error(got)
	}
}
