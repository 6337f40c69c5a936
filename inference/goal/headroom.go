package goal

import (
	"fmt"
	"math"
)

// CeilingMargin is what ceilings are held by: a margin calibrated so that at most a
// given rate of flights passes its ceiling where it could be kept. Like any
// conformal bound it holds for flights exchangeable with the calibration's, in
// each of its conditions.
type CeilingMargin struct {
	// StdDevs is kept back from a ceiling, in standard deviations of what flying
	// the slots to go may cost. It is 0 in a checkpoint that promises nothing.
	StdDevs       float64  `json:"margin"`
	ViolationRate float64  `json:"rate"`       // of violations, promised
	Flights       int      `json:"flights"`    // of the calibration, in each condition
	Violations    []int    `json:"violations"` // of those, at this margin or a larger one
	Conditions    []string `json:"conditions"`
}

func (p *CeilingMargin) check() error {
	if !(p.StdDevs >= 0 && p.StdDevs < 100) || !(p.ViolationRate >= 0 && p.ViolationRate <= 1) || p.Flights < 0 || len(p.Violations) != len(p.Conditions) {
		return fmt.Errorf("ceilings are promised a margin of %v deviations and a rate of %v from %d flights, %d counts in %d conditions; want 0 to 100, a share, and a count for each condition", p.StdDevs, p.ViolationRate, p.Flights, len(p.Violations), len(p.Conditions))
	}
	return nil
}

// EdgeCapacity is how much a slot could at most have spent on edge computing, per
// aircraft: mean and variance over the slots seen.
type EdgeCapacity struct {
	EdgeCapacityW        float64 `json:"most_w"`
	EdgeCapacityVariance float64 `json:"most_variance"`
	EdgeCapacitySlots    int     `json:"most_seen"`
}

const edgeCapacityMemory = 50 // slots that EdgeCapacityW looks back

// Observation is what a decision finds out about its slot that the rest of the
// mission goes by. The zero value says nothing.
type Observation struct {
	Known         bool    // EdgeCapacityJ was found
	EdgeCapacityJ float64 // most that the slot can spend on edge computing, whole fleet
}

// Observe takes in what a decision saw.
func (o *Objective) Observe(s Observation) {
	if !s.Known {
		return
	}
	x := &o.state.EdgeCapacity
	x.EdgeCapacitySlots++
	n := min(float64(x.EdgeCapacitySlots), edgeCapacityMemory)
	off := s.EdgeCapacityJ/max(float64(o.state.Flying), 1) - x.EdgeCapacityW
	x.EdgeCapacityW += off / n
	x.EdgeCapacityVariance += (off*off*(n-1)/n - x.EdgeCapacityVariance) / n
}

// HeadroomJ returns what the slots left may spend on edge computing: the joules
// still allowed above the flight floor and, under a ceiling, its margin.
func (o Objective) HeadroomJ() float64 { return max(o.headroomJ(o.SlotsLeft()), 0) }

// headroomJ keeps back the margin for a number of slots.
func (o Objective) headroomJ(slots int) float64 {
	room := o.state.EnergyToGoJ - o.FloorToGoJ()
	if o.state.Mode == Ceiling {
		room -= o.constants.CeilingMargin.StdDevs * o.stdDevJ(slots)
	}
	return room
}

// StdDevJ returns the standard deviation of what flying the slots left will cost.
func (o Objective) StdDevJ() float64 { return o.stdDevJ(o.SlotsLeft()) }

// stdDevJ is that of a number of slots: each one's own noise, and that the
// multiplier is a mean of so many measurements.
func (o Objective) stdDevJ(slots int) float64 {
	n := float64(slots)
	return o.state.RelativeStdDev * o.state.Multiplier * o.minFlightW * float64(o.state.Flying) * math.Sqrt(n+n*n/max(o.state.MultiplierWeight, 1))
}

// LeastSpendJ returns what this slot has to spend at least, if there is not to be more
// room in the end than the slots after it can spend: their mean less one
// standard deviation. The margin will then be that of the last slot.
func (o Objective) LeastSpendJ() float64 {
	after := max(float64(o.SlotsLeft()-1), 0)
	can := float64(o.state.Flying) * max(after*o.state.EdgeCapacityW-math.Sqrt(after*o.state.EdgeCapacityVariance), 0)
	return min(o.HeadroomJ(), o.headroomJ(min(o.SlotsLeft(), 1))-can)
}

// PredictedEndJ returns the total expected at the end: a budget's own, as far
// as it lies between the floor and what can be spent, and without one that of
// edge computing at its recent rate.
func (o Objective) PredictedEndJ() float64 {
	left := float64(o.SlotsLeft())
	if o.Budgeted() && o.state.EdgeCapacitySlots > 0 {
		return o.FloorJ() + min(o.HeadroomJ(), o.state.EdgeCapacityW*float64(o.state.Flying)*left)
	}
	return o.FloorJ() + o.state.EdgePowerW*left
}
