package budget

import (
	"math"
	"testing"

	"prefdt/inference/goal"
	"prefdt/inference/physics"
)

func testObjective(totalJ float64) goal.Objective {
	c := physics.DefaultConstants()
	o := goal.New(&goal.Constants{
		EtaDelayS: 600, EtaEnergyJ: 12e3, Slots: 100, AircraftCount: 2,
		Conditioner: goal.Conditioner{Omegas: []float64{0, 1}, DelayS: []float64{90, 700}, EnergyJ: []float64{39e3, 27e3}},
		SettingMap:  goal.SettingMap{Omegas: []float64{0, 1}},
	}, &c, 100, 2)
	o.SetBudget(totalJ, goal.Target)
	return o
}

// testCurve spends 75 W at price zero and less in proportion to the price's rank.
func testCurve() (c Curve) {
	c.PricesSPerJ = goal.PriceGrid(1)
	last := len(c.EdgeW) - 1
	for k := range c.EdgeW {
		c.EdgeW[k] = 75 * float64(last-k) / float64(last)
	}
	return c
}

// meanSpendJ is what a slot of two aircraft spends at a price, by a curve.
func meanSpendJ(c *Curve, price float64) float64 {
	for k := 1; k < len(c.EdgeW); k++ {
		if low, high := c.PricesSPerJ[k-1], c.PricesSPerJ[k]; price <= high {
			f := price / high
			if low > 0 {
				f = math.Log(price/low) / math.Log(high/low)
			}
			return 2 * (c.EdgeW[k-1] + f*(c.EdgeW[k]-c.EdgeW[k-1]))
		}
	}
	return 0
}

// The calm price is the one at which a mean slot spends its share, by the prior at first
// and by what was observed later.
func TestCalmPrice(t *testing.T) {
	c := testCurve()
	half := c
	for k := range half.EdgeW {
		half.EdgeW[k] /= 2
	}
	for _, shareJ := range []float64{1, 20, 60, 110} {
		o := testObjective(1)
		o.SetBudget(o.FloorJ()+100*shareJ, goal.Target)
		if got := meanSpendJ(&c, c.PriceSPerJ(&o, Reserve{})); math.Abs(got-shareJ) > 1e-6 {
			t.Errorf("at the price for %v J a mean slot spends %v J", shareJ, got)
		}
		observed := goal.Observation{Known: true}
		for k, price := range c.PricesSPerJ {
			observed.EdgeJ[k] = meanSpendJ(&half, price)
		}
		for range 1000 {
			o.Observe(observed)
		}
		if got := meanSpendJ(&half, c.PriceSPerJ(&o, Reserve{})); shareJ < 70 && math.Abs(got-shareJ) > 0.2*shareJ {
			t.Errorf("with half the demand, at the price for %v J a mean slot spends %v J", shareJ, got)
		}
	}
	if o := testObjective(60e3); c.PriceSPerJ(&o, Reserve{}) != goal.LeastPriceShare {
		t.Error("more than can be spent has not the least price")
	}
	if o := testObjective(20e3); c.PriceSPerJ(&o, Shipped) != c.PricesSPerJ[len(c.PricesSPerJ)-1] {
		t.Error("below the floor the price is not the largest")
	}
}

// A price with a reserve is no lower, the more so with more left to fly, and bounded.
func TestReserve(t *testing.T) {
	c := testCurve()
	for _, totalJ := range []float64{27e3, 28e3, 31e3, 34e3, 38e3, 44e3, 80e3} {
		o := testObjective(totalJ)
		shareJ, previous, some := o.HeadroomJ()/100, math.Inf(1), false
		for o.SlotsLeft() > 1 {
			premium := c.PriceSPerJ(&o, Shipped) - c.PriceSPerJ(&o, Reserve{})
			if !(premium >= 0) || premium > previous+1e-12 || premium > Shipped.Probability*Shipped.MaxPriceShare {
				t.Fatalf("%v J, slot %d: premium %v, before %v", totalJ, o.Slot(), premium, previous)
			}
			previous, some = premium, some || premium > 0
			o.Settle(goal.Settlement{EnergyJ: o.FloorToGoJ()/float64(o.SlotsLeft()) + shareJ, EdgeJ: shareJ, Flying: 2})
		}
		if reservable := totalJ > 33e3 && totalJ < 40e3; reservable && !some {
			t.Errorf("%v J: nothing is reserved", totalJ)
		}
	}
}

// Whatever the state, a price is a number.
func TestPriceIsANumber(t *testing.T) {
	var none Curve
	c := testCurve()
	for _, curve := range []*Curve{&none, &c} {
		for _, flying := range []int{0, 1, 2} {
			o := testObjective(34e3)
			for range 101 {
				if p := curve.PriceSPerJ(&o, Shipped); !(p >= 0 && p <= 1) {
					t.Fatalf("slot %d, %d in flight: price %v", o.Slot(), flying, p)
				}
				o.Settle(goal.Settlement{EnergyJ: 300, EdgeJ: 30, ModelFlightJ: 270, Flying: flying})
			}
		}
	}
}

// Within finds a price that keeps the limit, and nearly reaches it where it can.
func TestWithin(t *testing.T) {
	spend := func(price float64) float64 { return 100 / (1 + 50*price) }
	for _, limitJ := range []float64{0.2, 5, 50, 99} {
		if got := spend(Within(1e-9, limitJ, spend)); got > limitJ || got < 0.9*limitJ {
			t.Errorf("limit %v J: %v J are spent", limitJ, got)
		}
	}
	step := func(price float64) float64 {
		if price < 0.3 {
			return 100
		}
		return 10
	}
	if price := Within(0, 50, step); step(price) != 10 {
		t.Errorf("at price %v it spends more than the limit", price)
	}
}
