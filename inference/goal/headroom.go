package goal

import (
	"cmp"
	"fmt"
	"math"
)

// CeilingMargin is the safety margin below a ceiling, calibrated so that at most
// a given rate of flights exceeds a ceiling that could have been kept. As any
// conformal bound does, it holds for flights exchangeable with those of the
// calibration, in each of its conditions.
type CeilingMargin struct {
	// StdDevs is the margin in standard deviations of the flight energy of one
	// slot. It is 0 in a checkpoint that was not calibrated for ceilings.
	StdDevs       float64  `json:"margin"`
	ViolationRate float64  `json:"rate"`       // share of flights above their ceiling that it was calibrated to
	Flights       int      `json:"flights"`    // of the calibration, in each condition
	Violations    []int    `json:"violations"` // of those flights, by condition, at this margin or a larger one
	Conditions    []string `json:"conditions"`
}

func (m *CeilingMargin) check() error {
	if !(m.StdDevs >= 0 && m.StdDevs < 100) || !(m.ViolationRate >= 0 && m.ViolationRate <= 1) || m.Flights < 0 ||
		len(m.Violations) != len(m.Conditions) {
		return fmt.Errorf("ceiling margin is %v standard deviations at a rate of %v from %d flights, %d counts in %d conditions; want 0 "+
			"to 100, a share, and a count for each condition", m.StdDevs, m.ViolationRate, m.Flights, len(m.Violations), len(m.Conditions))
	}
	return nil
}

// CurvePoints is the number of prices at which a slot's edge energy is observed.
const CurvePoints = 16

// The grid is zero, and prices in geometric progression over so many decades up to that at
// which nothing is offloaded any more.
const gridDecades = 4.0

// PriceGrid returns the grid up to a price.
func PriceGrid(maxSPerJ float64) (grid [CurvePoints]float64) {
	last := len(grid) - 1
	for k := 1; k <= last; k++ {
		grid[k] = maxSPerJ * math.Pow(1e-4, float64(last-k)/float64(last-1))
	}
	return grid
}

// LeastPriceShare is the least price at which joules of a budget are spent, as a share of
// the grid's largest: 0.0005 s/J in the standard world.
const LeastPriceShare = 0.0005

// EdgeDemand is what past slots would have spent on edge computing at each price of a
// grid, the first of which is zero: per aircraft, the mean over the slots observed.
type EdgeDemand struct {
	EdgeDemandW     [CurvePoints]float64 `json:"edge_demand_w"`
	EdgeDemandSlots int                  `json:"edge_demand_slots"`
}

const edgeDemandMemory = 30 // slots that the mean extends over

// Observation is what a decision learns about its slot and later slots need. The
// zero value holds no information.
type Observation struct {
	Known bool                 // EdgeJ is
	EdgeJ [CurvePoints]float64 // what the slot spends on edge computing at each price, whole fleet
	Air   Air
	// WeighedDelayS is the slot's expected delay where a claim was beyond what it may weigh,
	// with what it weighs; 0: none was.
	WeighedDelayS float64
	Rows          Rows
}

// Rows is what the policy's rows carry from slot to slot, for a restart: the mean edge
// energy of a slot's tasks at a third of a CPU each, and the summary of the last action.
type Rows struct {
	EdgeScaleJ     float64     `json:"edge_scale_j"`
	EdgeScaleSlots float64     `json:"edge_scale_slots"`
	LastAction     [10]float64 `json:"last_action"`
}

// Air is what a decision believes of the air, as factors of flight power. Its zero value
// is calm air.
type Air struct {
	// Flown is the power of the moves decided, at their speeds through the air, over the
	// model's at their speeds over the ground.
	Flown float64 `json:"flown"`
	// Hold is the least power at which an aircraft stays where it is, over that at v*.
	Hold float64 `json:"hold"`
}

// flown returns the factor Flown.
func (a *Air) flown() float64 { return cmp.Or(a.Flown, 1) }

// hold returns the factor Hold.
func (a *Air) hold() float64 { return cmp.Or(a.Hold, 1) }

// Observe keeps what a decision observed: the air, and in the edge demand what the slot
// would spend.
func (o *Objective) Observe(s Observation) {
	o.state.WeighedDelayS, o.state.Rows = s.WeighedDelayS, s.Rows
	if o.state.Air = s.Air; !s.Known {
		return
	}
	x := &o.state.EdgeDemand
	x.EdgeDemandSlots++
	n := min(float64(x.EdgeDemandSlots), edgeDemandMemory)
	for k, j := range s.EdgeJ {
		x.EdgeDemandW[k] += (j/max(float64(o.state.Flying), 1) - x.EdgeDemandW[k]) / n
	}
}

// MeanEdgeDemandW returns the mean edge power per aircraft at each price, and the
// number of slots that it is a mean of.
func (o *Objective) MeanEdgeDemandW() (edgeW [CurvePoints]float64, slots float64) {
	return o.state.EdgeDemandW, min(float64(o.state.EdgeDemandSlots), edgeDemandMemory)
}

// HeadroomJ returns what the slots left may spend above the flight floor: the joules
// still allowed above it and, under a ceiling, above the margin for the noise of one
// slot. That of the others needs none, because what they take more the next ones spend
// less.
func (o Objective) HeadroomJ() float64 {
	headroom := o.state.EnergyToGoJ - o.FloorToGoJ()
	if o.state.Mode == Ceiling {
		headroom -= o.constants.CeilingMargin.StdDevs * o.stdDevJ(min(1, o.SlotsLeft()))
	}
	return max(headroom, 0)
}

// StdDevJ returns the standard deviation of the flight energy of the slots left.
func (o Objective) StdDevJ() float64 { return o.stdDevJ(o.SlotsLeft()) }

// stdDevJ is that of a number of slots: the noise of each, and the error of the
// multiplier, which is a mean of finitely many measurements.
func (o Objective) stdDevJ(slots int) float64 {
	n := float64(slots)
	return o.state.RelativeStdDev * o.state.Multiplier * o.minFlightW * float64(o.state.Flying) * math.Sqrt(
		n+n*n/max(o.state.MultiplierWeight, 1))
}

// What may be spent in advance of an even spender, so that slots with much to do can take
// what slots with little leave: the even shares of some slots, and at most as much as
// a part of one slot's flight takes. More gains little.
const (
	advanceSlots       = 5
	advanceFlightSlots = 0.5
)

// advanceJ is what may be spent in advance.
func (o Objective) advanceJ() float64 {
	n := float64(max(o.SlotsLeft(), 1))
	return min(o.HeadroomJ()*min(advanceSlots/n, 1), advanceFlightSlots*o.FloorToGoJ()/n)
}

// evenShareJ is what an even spender, who has saved nothing, spends in this slot.
func (o Objective) evenShareJ() float64 {
	return max(o.HeadroomJ()-o.state.SavedJ, 0) / float64(max(o.SlotsLeft(), 1))
}

// maxEdgeFactor is the most that edge computing is expected to take, in multiples of its
// closed form. A later slot makes up for what a slot took more, but for the last ones
// there is none: under a ceiling their limit leaves room for it.
const maxEdgeFactor = 1.3

// SlotLimitJ returns the most that this slot may spend above the flight floor, in closed
// form, for what an even spender can keep to be kept: its share, and what was saved of
// earlier ones.
func (o Objective) SlotLimitJ() float64 {
	mostJ := o.HeadroomJ()
	if o.state.Mode == Ceiling {
		mostJ /= maxEdgeFactor
	}
	return min(mostJ, o.evenShareJ()+o.state.SavedJ)
}

// PredictedEndJ returns the total expected at the end: under a budget that budget,
// held to between the floor and what is spent at the least price; under a preference the
// floor and edge computing at its recent power.
func (o Objective) PredictedEndJ() float64 {
	left := float64(o.SlotsLeft())
	if o.Budgeted() && o.state.EdgeDemandSlots > 0 {
		const last = CurvePoints - 1
		at := last + (last-1)/gridDecades*math.Log10(LeastPriceShare)
		k, f := int(at), at-math.Floor(at)
		w := &o.state.EdgeDemandW
		return o.FloorJ() + min(o.HeadroomJ(), (w[k]+f*(w[k+1]-w[k]))*float64(o.state.Flying)*left)
	}
	return o.FloorJ() + o.state.EdgePowerW*left
}
