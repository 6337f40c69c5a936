package prefdttrain

import (
	"fmt"
	"math"

	"prefdt/inference/goal"
	"prefdt/offline/corpus"
)

// Fit is the regression of eq. (reg) with quadratic features, phi = (1, omega, omega²), of
// the delay and of the energy, and the readings of the two gates before training.
type Fit struct {
	DelayS  [3]float64 `json:"delay_s"`
	EnergyJ [3]float64 `json:"energy_j"`
	// R2 is the part of the variance of the bins' means that the regression explains.
	R2DelayS  float64 `json:"r2_delay"`
	R2EnergyJ float64 `json:"r2_energy"`
	// Reversal is the largest step against the order between bins, as a part of the span.
	Reversal float64 `json:"reversal"`
}

// The paper names the gates, and not their thresholds.
const (
	gateBins     = 20
	gateR2       = 0.9
	gateReversal = 0.02
)

// at evaluates a quadratic.
func at(c *[3]float64, omega float64) float64 { return c[0] + omega*(c[1]+omega*c[2]) }

// fitConditioner fits the preferences of the corpus's clean expert flights to what they
// cost, and holds the corpus to both gates: the binned map omega -> E[G | omega] must be
// monotone, and the regression must fit it.
func (m *Corpus) fitConditioner() (f Fit, err error) {
	var omegas, delays, energies []float64
	type bin struct{ n, omega, delayS, energyJ float64 }
	bins := make([]bin, gateBins)
	low, high := m.band()
	for i := range m.Flights {
		x := &m.Flights[i]
		if x.Heuristic {
			continue
		}
		omegas, delays, energies = append(omegas, x.Omega), append(delays, x.DelayS), append(energies, x.EnergyJ)
		b := &bins[min(max(int(gateBins*(x.Omega-low)/(high-low)), 0), gateBins-1)]
		b.n, b.omega, b.delayS, b.energyJ = b.n+1, b.omega+x.Omega, b.delayS+x.DelayS, b.energyJ+x.EnergyJ
	}
	fitted, err := corpus.FitPolynomials(2, omegas, delays, energies)
	if err != nil {
		return f, err
	}
	f.DelayS, f.EnergyJ = [3]float64(fitted[0]), [3]float64(fitted[1])

	var kept []bin
	for _, b := range bins {
		if b.n > 0 {
			kept = append(kept, bin{b.n, b.omega / b.n, b.delayS / b.n, b.energyJ / b.n})
		}
	}
	spanS, spanJ := kept[len(kept)-1].delayS-kept[0].delayS, kept[0].energyJ-kept[len(kept)-1].energyJ
	for i := 1; i < len(kept); i++ {
		f.Reversal = max(f.Reversal, (kept[i-1].delayS-kept[i].delayS)/spanS, (kept[i].energyJ-kept[i-1].energyJ)/spanJ)
	}
	explained := func(c *[3]float64, of func(bin) float64) float64 {
		n, mean, residual, total := 0.0, 0.0, 0.0, 0.0
		for _, b := range kept {
			n += b.n
			mean += b.n * of(b)
		}
		for _, b := range kept {
			residual += b.n * math.Pow(of(b)-at(c, b.omega), 2)
			total += b.n * math.Pow(of(b)-mean/n, 2)
		}
		return 1 - residual/total
	}
	f.R2DelayS = explained(&f.DelayS, func(b bin) float64 { return b.delayS })
	f.R2EnergyJ = explained(&f.EnergyJ, func(b bin) float64 { return b.energyJ })
	switch {
	case !(spanS > 0 && spanJ > 0) || f.Reversal > gateReversal:
		return f, fmt.Errorf("conditioner's first gate: the map from preferences to returns is not monotone, by %.3f of its span, want "+
			"%g at most", f.Reversal, gateReversal)
	case !(min(f.R2DelayS, f.R2EnergyJ) >= gateR2):
		return f, fmt.Errorf("conditioner's second gate: the quadratic explains %.4f of the delays and %.4f of the energies, want %g",
			f.R2DelayS, f.R2EnergyJ, gateR2)
	}
	return f, nil
}

// conditionerKnots is fine enough that between knots the quadratic differs from the chord by
// less than a joule.
const conditionerKnots = 201

// Conditioner tabulates the regression over a band of preferences. Delay must not fall, nor
// energy rise, with omega: beyond a vertex the value there is held. No delay is below zero.
func (f *Fit) Conditioner(low, high float64) (c goal.Conditioner) {
	for k := range conditionerKnots {
		omega := low + (high-low)*float64(k)/(conditionerKnots-1)
		delayS, energyJ := max(at(&f.DelayS, omega), 0), at(&f.EnergyJ, omega)
		if k > 0 {
			delayS, energyJ = max(delayS, c.DelayS[k-1]), min(energyJ, c.EnergyJ[k-1])
		}
		c.Omegas, c.DelayS, c.EnergyJ = append(c.Omegas, omega), append(c.DelayS, delayS), append(c.EnergyJ, energyJ)
	}
	return c
}
