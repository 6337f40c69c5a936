package goal

import (
	"fmt"
	"math"
)

// CeilingMargin is the safety margin below a ceiling, calibrated so that at most
// a given rate of flights exceeds a ceiling that could have been kept. As any
// conformal bound does, it holds for flights exchangeable with those of the
// calibration, in each of its conditions.
type CeilingMargin struct {
	// StdDevs is the margin in standard deviations of the flight energy of the
	// slots to go. It is 0 in a checkpoint that was not calibrated for ceilings.
	StdDevs       float64  `json:"margin"`
	ViolationRate float64  `json:"rate"`       // share of flights above their ceiling that it was calibrated to
	Flights       int      `json:"flights"`    // of the calibration, in each condition
	Violations    []int    `json:"violations"` // of those flights, by condition, at this margin or a larger one
	Conditions    []string `json:"conditions"`
}

func (m *CeilingMargin) check() error {
	if !(m.StdDevs >= 0 && m.StdDevs < 100) || !(m.ViolationRate >= 0 && m.ViolationRate <= 1) || m.Flights < 0 || len(m.Violations) != len(m.Conditions) {
		return fmt.Errorf("ceiling margin is %v standard deviations at a rate of %v from %d flights, %d counts in %d conditions; want 0 to 100, a share, and a count for each condition", m.StdDevs, m.ViolationRate, m.Flights, len(m.Violations), len(m.Conditions))
	}
	return nil
}

// EdgeCapacity is the most that a slot could have spent on edge computing, at a
// price of zero, per aircraft: mean and variance over the slots observed.
type EdgeCapacity struct {
	EdgeCapacityW        float64 `json:"most_w"`
	EdgeCapacityVariance float64 `json:"most_variance"`
	EdgeCapacitySlots    int     `json:"most_seen"`
}

const edgeCapacityMemory = 50 // slots that mean and variance extend over

// Observation is what a decision learns about its slot and later slots need. The
// zero value holds no information.
type Observation struct {
	Known         bool    // EdgeCapacityJ was determined
	EdgeCapacityJ float64 // the most that the slot can spend on edge computing, whole fleet
}

// Observe updates the edge capacity with what a decision observed.
func (o *Objective) Observe(s Observation) {
	if !s.Known {
		return
	}
	capacity := &o.state.EdgeCapacity
	capacity.EdgeCapacitySlots++
	n := min(float64(capacity.EdgeCapacitySlots), edgeCapacityMemory)
	deviation := s.EdgeCapacityJ/max(float64(o.state.Flying), 1) - capacity.EdgeCapacityW
	capacity.EdgeCapacityW += deviation / n
	capacity.EdgeCapacityVariance += (deviation*deviation*(n-1)/n - capacity.EdgeCapacityVariance) / n
}

// HeadroomJ returns what the slots left may spend on edge computing: the joules
// still allowed above the flight floor and, under a ceiling, above its margin.
func (o Objective) HeadroomJ() float64 { return max(o.headroomJ(o.SlotsLeft()), 0) }

// headroomJ is the headroom, or negative, with the ceiling margin of a number of slots.
func (o Objective) headroomJ(slots int) float64 {
	headroom := o.state.EnergyToGoJ - o.FloorToGoJ()
	if o.state.Mode == Ceiling {
		headroom -= o.constants.CeilingMargin.StdDevs * o.stdDevJ(slots)
	}
	return headroom
}

// StdDevJ returns the standard deviation of the flight energy of the slots left.
func (o Objective) StdDevJ() float64 { return o.stdDevJ(o.SlotsLeft()) }

// stdDevJ is that of a number of slots: the noise of each, and the error of the
// multiplier, which is a mean of finitely many measurements.
func (o Objective) stdDevJ(slots int) float64 {
	n := float64(slots)
	return o.state.RelativeStdDev * o.state.Multiplier * o.minFlightW * float64(o.state.Flying) * math.Sqrt(n+n*n/max(o.state.MultiplierWeight, 1))
}

// LeastSpendJ returns the least that this slot must spend on edge computing for the
// later slots to be able to use up the headroom. What they can spend is taken
// one standard deviation below its mean; the ceiling margin is that of the last
// slot, which will be in force by then.
func (o Objective) LeastSpendJ() float64 {
	after := max(float64(o.SlotsLeft()-1), 0)
	later := float64(o.state.Flying) * max(after*o.state.EdgeCapacityW-math.Sqrt(after*o.state.EdgeCapacityVariance), 0)
	return min(o.HeadroomJ(), o.headroomJ(min(o.SlotsLeft(), 1))-later)
}

// PredictedEndJ returns the total expected at the end: under a budget that budget,
// held to between the floor and what can be spent; under a preference the floor
// and edge computing at its recent power.
func (o Objective) PredictedEndJ() float64 {
	left := float64(o.SlotsLeft())
	if o.Budgeted() && o.state.EdgeCapacitySlots > 0 {
		return o.FloorJ() + min(o.HeadroomJ(), o.state.EdgeCapacityW*float64(o.state.Flying)*left)
	}
	return o.FloorJ() + o.state.EdgePowerW*left
}
