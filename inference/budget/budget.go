// Package budget turns an energy budget into the price of energy of a slot.
//
// Inputs: the objective, which has the joules left above the flight floor and what
// past slots would have spent at a grid of prices. Outputs: the slot's price, and
// the slot's own spending at the grid, for the objective to keep. The policy and
// the controllers of package baseline, each in rollouts and in flight, call it.
//
// The rule, for R joules left above the floor and n slots to go:
//
//  1. The calm price is the one at which a mean slot spends R/n.
//  2. A joule is worth more if flying becomes dearer. For each of some factors of
//     flight power, the price at which a mean slot would spend what that factor
//     would leave of R/n, up to a largest price: there is no reserve for what cannot be kept.
//  3. The price is the mean of both, the second weighted with the probability
//     that flight power changes in the slots to go. It falls as they pass, so what
//     was kept is spent by the end.
//  4. Joules that would buy less than a least price are not spent: they are the
//     reserve that costs nothing.
//  5. No slot spends more than keeps up with an even spender (Objective.SlotLimitJ),
//     so that what an even spender can keep is kept.
package budget

import (
	"math"

	"prefdt/inference/goal"
)

// Reserve is how much is kept for a change of flight power. The zero value keeps
// nothing.
type Reserve struct {
	Probability float64 `json:"probability"` // of a change within a whole mission
	// MaxPriceShare bounds the price after a change, as a share of the price at which
	// nothing is offloaded any more.
	MaxPriceShare float64 `json:"max_price_share"`
}

// Shipped is the reserve that flies, chosen by "offline calibrate -reserve": of sizes
// on calibration seeds none has a lower mean ratio of delay to the even pacer's beyond
// its standard error at less cost in calm air (docs/results.md).
var Shipped = Reserve{Probability: 0.5, MaxPriceShare: 0.01}

// changes are the changes of flight power that are reserved for. Smaller ones cost
// little; larger ones nothing that is kept would cover.
var changes = [...]struct{ factor, probability float64 }{{1.2, 0.5}, {1.3, 0.3}, {1.4, 0.15}, {1.5, 0.05}}

// Curve is the prior of what a slot spends on edge computing at a grid of prices.
type Curve struct {
	PricesSPerJ [goal.CurvePoints]float64 // of goal.PriceGrid
	EdgeW       [goal.CurvePoints]float64 // per aircraft, falling to 0
}

// priorSlots is the weight of the prior curve, in slots.
const priorSlots = 5

// meanJ returns what a slot of the fleet spends at each price of the grid, in the mean
// of the prior and of the slots observed.
func (c *Curve) meanJ(o *goal.Objective) (meanJ [goal.CurvePoints]float64) {
	observedW, n := o.MeanEdgeDemandW()
	for k := range meanJ {
		meanJ[k] = float64(o.Flying()) * (priorSlots*c.EdgeW[k] + n*observedW[k]) / (priorSlots + n)
	}
	return meanJ
}

// priceOf returns the price at which a mean slot spends so much.
func (c *Curve) priceOf(meanJ *[goal.CurvePoints]float64, spentJ float64) float64 {
	if spentJ >= meanJ[0] {
		return 0
	}
	for k := 1; k < len(meanJ); k++ {
		if spentJ < meanJ[k] {
			continue
		}
		f := (meanJ[k-1] - spentJ) / max(meanJ[k-1]-meanJ[k], 1e-9)
		low, high := c.PricesSPerJ[k-1], c.PricesSPerJ[k]
		if low == 0 {
			return f * high
		}
		return low * math.Pow(high/low, f)
	}
	return c.PricesSPerJ[len(meanJ)-1]
}

// PriorPriceSPerJ returns the price at which a slot of a fleet spends so much by the
// prior alone.
func (c *Curve) PriorPriceSPerJ(aircraft int, spentJ float64) float64 {
	meanJ := c.EdgeW
	for k := range meanJ {
		meanJ[k] *= float64(aircraft)
	}
	return c.priceOf(&meanJ, spentJ)
}

// PriceSPerJ returns the price of energy of the slot, by rules 1 to 4.
func (c *Curve) PriceSPerJ(o *goal.Objective, x Reserve) float64 {
	n, maxSPerJ := float64(max(o.SlotsLeft(), 1)), c.PricesSPerJ[len(c.PricesSPerJ)-1]
	meanJ := c.meanJ(o)
	shareJ, floorJ := o.HeadroomJ()/n, o.FloorToGoJ()/n
	calm := c.priceOf(&meanJ, shareJ)
	changed := 0.0
	for _, k := range changes {
		changed += k.probability * min(c.priceOf(&meanJ, shareJ-(k.factor-1)*floorJ), max(x.MaxPriceShare*maxSPerJ, calm))
	}
	probability := x.Probability * n / float64(max(o.Slots(), 1))
	return max(goal.LeastPriceShare*maxSPerJ, calm, calm+probability*(changed-calm))
}

// Within returns a price above least at which spend is at most limitJ and, unless
// spending jumps there, within a fiftieth of it. At least it spends more.
func Within(least, limitJ float64, spend func(priceSPerJ float64) (spentJ float64)) float64 {
	low, high := max(least, MaxPriceSPerJ*1e-6), MaxPriceSPerJ
	for range 12 {
		mid := math.Sqrt(low * high)
		spentJ := spend(mid)
		if spentJ > limitJ {
			low = mid
			continue
		}
		if high = mid; spentJ > 0.98*limitJ {
			break
		}
	}
	return high
}

// MaxPriceSPerJ is a price at which offloading has all but ended.
const MaxPriceSPerJ = 20.0
