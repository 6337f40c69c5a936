package goal

import (
	"fmt"
	"math"
)

// Promise is what ceilings are held by: a margin calibrated so that at most a
// given rate of flights passes its ceiling where it could be kept. Like any
// conformal bound it holds for flights exchangeable with the calibration's, in
// each of its conditions.
type Promise struct {
	// Margin is kept back from a ceiling, in standard deviations of what flying
	// the slots to go may cost. It is 0 in a checkpoint that promises nothing.
	Margin     float64  `json:"margin"`
	Rate       float64  `json:"rate"`       // of violations, promised
	Flights    int      `json:"flights"`    // of the calibration, in each condition
	Violations []int    `json:"violations"` // of those, at this margin or a larger one
	Conditions []string `json:"conditions"`
}

func (p *Promise) check() error {
	if !(p.Margin >= 0 && p.Margin < 100) || !(p.Rate >= 0 && p.Rate <= 1) || p.Flights < 0 || len(p.Violations) != len(p.Conditions) {
		return fmt.Errorf("ceilings are promised a margin of %v deviations and a rate of %v from %d flights, %d counts in %d conditions; want 0 to 100, a share, and a count for each condition", p.Margin, p.Rate, p.Flights, len(p.Violations), len(p.Conditions))
	}
	return nil
}

// Offered is how much a slot could at most have spent on edge computing, per
// aircraft: mean and variance over the slots seen.
type Offered struct {
	MostW    float64 `json:"most_w"`
	MostVar  float64 `json:"most_variance"`
	MostSeen int     `json:"most_seen"`
}

const offeredMemory = 50 // slots that MostW looks back

// Seen is what a decision finds out about its slot that the rest of the
// mission goes by. The zero value says nothing.
type Seen struct {
	Known     bool    // MostEdgeJ was found
	MostEdgeJ float64 // most that the slot can spend on edge computing, whole fleet
}

// Observe takes in what a decision saw.
func (o *Objective) Observe(s Seen) {
	if !s.Known {
		return
	}
	x := &o.state.Offered
	x.MostSeen++
	n := min(float64(x.MostSeen), offeredMemory)
	off := s.MostEdgeJ/max(float64(o.state.Flying), 1) - x.MostW
	x.MostW += off / n
	x.MostVar += (off*off*(n-1)/n - x.MostVar) / n
}

// RoomJ returns what the slots left may spend on edge computing: the joules
// still allowed above the flight floor and, under a ceiling, its margin.
func (o Objective) RoomJ() float64 { return max(o.roomJ(o.Left()), 0) }

// roomJ keeps back the margin for a number of slots.
func (o Objective) roomJ(slots int) float64 {
	room := o.state.EnergyToGoJ - o.FloorToGoJ()
	if o.state.Mode == Ceiling {
		room -= o.scales.Ceiling.Margin * o.doubtJ(slots)
	}
	return room
}

// DoubtJ returns the standard deviation of what flying the slots left will cost.
func (o Objective) DoubtJ() float64 { return o.doubtJ(o.Left()) }

// doubtJ is that of a number of slots: each one's own noise, and that the
// multiplier is a mean of so many measurements.
func (o Objective) doubtJ(slots int) float64 {
	n := float64(slots)
	return o.state.Noise * o.state.Factor * o.bestW * float64(o.state.Flying) * math.Sqrt(n+n*n/max(o.state.Weight, 1))
}

// DueJ returns what this slot has to spend at least, if there is not to be more
// room in the end than the slots after it can spend: their mean less one
// standard deviation. The margin will then be that of the last slot.
func (o Objective) DueJ() float64 {
	after := max(float64(o.Left()-1), 0)
	can := float64(o.state.Flying) * max(after*o.state.MostW-math.Sqrt(after*o.state.MostVar), 0)
	return min(o.RoomJ(), o.roomJ(min(o.Left(), 1))-can)
}

// PredictedEndJ returns the total expected at the end: a budget's own, as far
// as it lies between the floor and what can be spent, and without one that of
// edge computing at its recent rate.
func (o Objective) PredictedEndJ() float64 {
	left := float64(o.Left())
	if o.Budgeted() && o.state.MostSeen > 0 {
		return o.FloorJ() + min(o.RoomJ(), o.state.MostW*float64(o.state.Flying)*left)
	}
	return o.FloorJ() + o.state.EdgeRateW*left
}
