package evaluate

import (
	"math"
	"slices"

	"prefdt/offline/rollout"
)

// hindsight finds the least delay of a cell on one seed that could have been had by one who knew
// everything: over until when each aircraft flies, and a constant price for each, flown
// by the policy's own beliefs and decoder, within the total or the packs.
type hindsight struct {
	runner  *rollout.Runner
	seed    uint64
	cell    *packCell
	slots   int
	scale   float64 // of prices
	bestMPS float64 // v*

	best      rollout.Result // of an infinite delay until one is within the limits
	bestUntil []int
	prices    []float64 // that the last search ended with
}

// Searched prices, in the standard world. Below the first, a joule more buys nothing.
const leastSearchedSPerJ, mostSearchedSPerJ = 2e-4, 3.0

// fly flies windows at prices, and keeps what is within the limits.
func (h *hindsight) fly(until []int, prices []float64) rollout.Result {
	h.runner.Planner = fixed(until, prices, h.bestMPS)
	r := h.runner.Fly(h.seed, h.cell.unlimited())
	if h.cell.overJ(&r) <= 0 && r.DelayS < h.best.DelayS {
		h.best, h.bestUntil = r, slices.Clone(until)
	}
	return r
}

// search finds the prices for given windows, beginning with those of the last search: each is
// moved by what is spent on computing over what may be, as edge power falls about with the power
// -0.6 of the price.
func (h *hindsight) search(until []int) (leastS float64) {
	const steps, power, enough = 6, 0.6, 0.004
	leastS = math.Inf(1)
	prices := slices.Clone(h.prices)
	low, high := slices.Repeat([]float64{math.Log(leastSearchedSPerJ * h.scale)}, len(prices)),
		slices.Repeat([]float64{math.Log(mostSearchedSPerJ * h.scale)}, len(prices))
	for range steps {
		r := h.fly(until, prices)
		over := h.cell.overJ(&r)
		if over <= 0 {
			leastS = min(leastS, r.DelayS)
		}
		done := over <= 0
		for m := range prices {
			edgeJ, spareJ := r.EdgeJ[m], 0.0
			if h.cell.PacksJ == nil {
				edgeJ, spareJ = 0, h.cell.BudgetJ
				for k := range r.EdgeJ {
					edgeJ += r.EdgeJ[k]
					spareJ -= r.SpentJ[k]
				}
			} else {
				spareJ = h.cell.PacksJ[m] - r.SpentJ[m]
			}
			at := math.Log(prices[m])
			if spareJ < 0 {
				low[m] = max(low[m], at)
			} else {
				high[m] = min(high[m], at)
			}
			if spareJ > enough*edgeJ && prices[m] > leastSearchedSPerJ*h.scale*1.01 {
				done = false
			}
			allowedJ := max(edgeJ+0.998*spareJ-0.001*edgeJ, 0.02*edgeJ, 1)
			to := at + math.Log(max(edgeJ, 1)/allowedJ)/power
			if !(to > low[m] && to < high[m]) {
				if to = (low[m] + high[m]) / 2; spareJ > 0 && at <= math.Log(leastSearchedSPerJ*h.scale)+1e-6 {
					to = at
				}
			}
			prices[m] = math.Exp(to)
		}
		if done {
			break
		}
	}
	h.prices = prices
	return leastS
}

// run searches, with windows to begin with that others flew.
func (h *hindsight) run(flown ...[]int) rollout.Result {
	h.best.DelayS = math.Inf(1)
	aircraft := h.cell.Aircraft
	h.prices = slices.Repeat([]float64{0.002 * h.scale}, aircraft)
	for _, until := range flown {
		h.search(until)
	}
	probe := h.fly(slices.Repeat([]int{h.slots}, aircraft), slices.Repeat([]float64{mostSearchedSPerJ * h.scale}, aircraft))
	flightJ := 0.0 // of one aircraft in a slot
	for m := range probe.SpentJ {
		flightJ += (probe.SpentJ[m] - probe.EdgeJ[m]) / float64(aircraft*h.slots)
	}
	// One parameter spans the windows: what an aircraft computes with in a slot that it flies.
	at := func(edgeW float64) (until []int) {
		until = make([]int, aircraft)
		if h.cell.PacksJ == nil {
			left := h.cell.BudgetJ / (flightJ + edgeW)
			for m := range slices.Backward(until) {
				until[m] = int(min(math.Round(left), float64(h.slots)))
				left -= float64(until[m])
			}
			return until
		}
		for m := range until {
			until[m] = int(min(math.Round(h.cell.slotsJ(&probe, m, flightJ)/(flightJ+edgeW)), float64(h.slots)))
		}
		return until
	}
	tried := map[[8]int]bool{}
	try := func(edgeW float64) float64 {
		until := at(edgeW)
		key := [8]int{}
		copy(key[:], until)
		if tried[key] || slices.Max(until) <= 0 {
			return math.Inf(1)
		}
		tried[key] = true
		return h.search(until)
	}
	bestW, leastS := 0.0, math.Inf(1)
	grid := []float64{3, 8, 14, 20, 27, 35, 45, 60, 90}
	for _, w := range grid {
		if s := try(w); s < leastS {
			bestW, leastS = w, s
		}
	}
	for _, f := range []float64{0.88, 1.12, 0.95, 1.05} {
		if s := try(bestW * f); s < leastS {
			bestW, leastS = bestW*f, s
		}
	}
	if h.cell.PacksJ == nil && h.bestUntil != nil { // the others leave
		best := slices.Clone(h.bestUntil)
		slices.Reverse(best)
		h.search(best)
	}
	return h.best
}
