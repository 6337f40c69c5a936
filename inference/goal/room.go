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

// Offer takes in the most that a slot could spend on edge computing.
func (g *Goal) Offer(mostJ float64) {
	g.MostSeen++
	n := min(float64(g.MostSeen), offeredMemory)
	off := mostJ/max(float64(g.Flying), 1) - g.MostW
	g.MostW += off / n
	g.MostVar += (off*off*(n-1)/n - g.MostVar) / n
}

// RoomJ returns what the slots left may spend on edge computing: the joules
// still allowed above the flight floor and, under a ceiling, its margin.
func (g *Goal) RoomJ() float64 { return max(g.roomJ(g.Left()), 0) }

// roomJ keeps back the margin for a number of slots.
func (g *Goal) roomJ(slots int) float64 {
	room := g.EnergyToGoJ - g.FloorToGoJ()
	if g.Mode == Ceiling {
		room -= g.scales.Ceiling.Margin * g.doubtJ(slots)
	}
	return room
}

// DoubtJ returns the standard deviation of what flying the slots left will cost.
func (g *Goal) DoubtJ() float64 { return g.doubtJ(g.Left()) }

// doubtJ is that of a number of slots: each one's own noise, and that the
// multiplier is a mean of so many measurements.
func (g *Goal) doubtJ(slots int) float64 {
	n := float64(slots)
	return g.Noise * g.Factor * g.bestW * float64(g.Flying) * math.Sqrt(n+n*n/max(g.Weight, 1))
}

// DueJ returns what this slot has to spend at least, if there is not to be more
// room in the end than the slots after it can spend: their mean less one
// standard deviation. The margin will then be that of the last slot.
func (g *Goal) DueJ() float64 {
	after := max(float64(g.Left()-1), 0)
	can := float64(g.Flying) * max(after*g.MostW-math.Sqrt(after*g.MostVar), 0)
	return min(g.RoomJ(), g.roomJ(min(g.Left(), 1))-can)
}

// PredictedEndJ returns the total expected at the end: a budget's own, as far
// as it lies between the floor and what can be spent, and without one that of
// edge computing at its recent rate.
func (g *Goal) PredictedEndJ() float64 {
	left := float64(g.Left())
	if g.Budgeted() && g.MostSeen > 0 {
		return g.FloorJ() + min(g.RoomJ(), g.MostW*float64(g.Flying)*left)
	}
	return g.FloorJ() + g.EdgeRateW*left
}
