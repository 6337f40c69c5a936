package corpus

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"prefdt/inference/goal"
)

// The knots are quantiles of the flights' shares, so that each has flights
// beside it.
const (
	maxKnots          = 25
	minKnots          = 5
	minFlightsPerKnot = 25 // at each knot, at least
)

const (
	minR2            = 0.98 // gate of fit: the part of the variance over the flights' means to be explained
	maxMonotoneShift = 0.02 // gate of order: how far, as a part of the span, noise may move the map
)

// fitConditioner solves eq. (reg) on a corpus's expert flights (see Episode.fitsConditioner) and holds
// it to both gates before anything is trained: the map omega -> E[G | omega]
// must be monotone, and the regression must explain the returns it is fitted to.
func fitConditioner(m *Manifest) (goal.Conditioner, error) {
	var omegas, delays, energies []float64
	for i := range m.Flights {
		if f := &m.Flights[i]; f.fitsConditioner() {
			omegas, delays, energies = append(omegas, f.Omega), append(delays, f.DelayS), append(energies, f.EnergyJ)
		}
	}
	if least := minKnots * minFlightsPerKnot; len(omegas) < least {
		return goal.Conditioner{}, fmt.Errorf("conditioner: %d undisturbed expert flights, want %d at least", len(omegas), least)
	}
	var knots []float64
	sorted := slices.Sorted(slices.Values(omegas))
	count := min(len(omegas)/minFlightsPerKnot, maxKnots)
	for k := range count {
		w := min(max(sorted[k*(len(sorted)-1)/(count-1)], 0), 1)
		if n := len(knots); n == 0 || w > knots[n-1] {
			knots = append(knots, w)
		}
	}
	if len(knots) < minKnots {
		return goal.Conditioner{}, fmt.Errorf("conditioner: the flights lie at %d distinct shares, want %d at least", len(knots), minKnots)
	}
	delayS, err := fitReturn(knots, omegas, delays)
	if err != nil {
		return goal.Conditioner{}, fmt.Errorf("conditioner of delay: %w", err)
	}
	energyJ, err := fitReturn(knots, omegas, energies)
	if err != nil {
		return goal.Conditioner{}, fmt.Errorf("conditioner of energy: %w", err)
	}
	return goal.Conditioner{Omegas: knots, DelayS: delayS, EnergyJ: energyJ}, nil
}

// fitReturn returns the coefficients of one return: least squares over the hat
// functions, then the nearest monotone sequence. What the projection moves is
// the first gate's reading.
func fitReturn(knots, omegas, ys []float64) ([]float64, error) {
	n := len(knots)
	normal := mat.NewSymDense(n, nil)
	right := mat.NewVecDense(n, nil)
	for k, w := range omegas {
		i, f := goal.HatBasis(knots, w)
		normal.SetSym(i, i, normal.At(i, i)+(1-f)*(1-f))
		normal.SetSym(i, i+1, normal.At(i, i+1)+(1-f)*f)
		normal.SetSym(i+1, i+1, normal.At(i+1, i+1)+f*f)
		right.SetVec(i, right.AtVec(i)+(1-f)*ys[k])
		right.SetVec(i+1, right.AtVec(i+1)+f*ys[k])
	}
	weights := make([]float64, n)
	for i := range weights {
		if weights[i] = normal.At(i, i); weights[i] == 0 {
			return nil, fmt.Errorf("no flight lies near omega %.6f", knots[i])
		}
	}
	var cholesky mat.Cholesky
	if !cholesky.Factorize(normal) {
		return nil, fmt.Errorf("the %d flights do not determine %d knots", len(omegas), n)
	}
	var solution mat.VecDense
	if err := cholesky.SolveVecTo(&solution, right); err != nil {
		return nil, err
	}
	raw := solution.RawVector().Data
	monotone := isotonic(raw, weights)
	span := math.Abs(monotone[n-1] - monotone[0])
	for i := range raw {
		if moved := math.Abs(monotone[i] - raw[i]); moved > maxMonotoneShift*span {
			return nil, fmt.Errorf("gate: the map is not monotone at omega %.6f, by %.3g of a span of %.4g", knots[i], moved, span)
		}
	}
	strict := strictlyMonotone(knots, monotone)
	if r2 := explainedVariance(knots, omegas, ys, strict); r2 < minR2 {
		return nil, fmt.Errorf("gate: the regression explains %.4f of the returns, want %.2f", r2, minR2)
	}
	return strict, nil
}

// FitPolynomials returns the coefficients of eq. (reg) with powers of omega up to a degree as features,
// for each of some returns: least squares.
func FitPolynomials(degree int, omegas []float64, returns ...[]float64) (coefficients [][]float64, err error) {
	if len(omegas) <= degree {
		return nil, fmt.Errorf("conditioner: %d expert flights, want %d at least", len(omegas), degree+1)
	}
	phi := mat.NewDense(len(omegas), degree+1, nil)
	for i, omega := range omegas {
		for k := range degree + 1 {
			phi.Set(i, k, math.Pow(omega, float64(k)))
		}
	}
	for _, y := range returns {
		var x mat.VecDense
		if err := x.SolveVec(phi, mat.NewVecDense(len(y), y)); err != nil {
			return nil, fmt.Errorf("conditioner: the %d expert flights do not determine it: %w", len(omegas), err)
		}
		coefficients = append(coefficients, x.RawVector().Data)
	}
	return coefficients, nil
}

// explainedVariance is the part of the variance between knots that the coefficients explain.
func explainedVariance(knots, omegas, ys, coefficients []float64) float64 {
	n := len(knots)
	sum, count := make([]float64, n), make([]float64, n)
	for k, w := range omegas {
		i, f := goal.HatBasis(knots, w)
		at := i + int(math.Round(f))
		fitted := coefficients[i] + f*(coefficients[i+1]-coefficients[i])
		sum[at] += ys[k] - fitted
		count[at]++
	}
	mean := 0.0
	for _, y := range ys {
		mean += y / float64(len(ys))
	}
	var residual, total float64
	for i := range n {
		if count[i] > 0 {
			residual += count[i] * math.Pow(sum[i]/count[i], 2)
			total += count[i] * math.Pow(coefficients[i]-mean, 2)
		}
	}
	return 1 - residual/total
}

// isotonic returns the monotone sequence nearest to y in weighted least
// squares, rising or falling as y does from end to end, by pooling adjacent
// violators (Barlow et al., Statistical Inference under Order Restrictions, 1972).
func isotonic(y, weights []float64) []float64 {
	sign := 1.0
	if y[len(y)-1] < y[0] {
		sign = -1
	}
	type pool struct {
		sum, weight float64
		count       int
	}
	var pools []pool
	for i := range y {
		pools = append(pools, pool{sign * y[i] * weights[i], weights[i], 1})
		for n := len(pools); n > 1 && pools[n-2].sum/pools[n-2].weight >= pools[n-1].sum/pools[n-1].weight; n = len(pools) {
			p, q := pools[n-2], pools[n-1]
			pools = append(pools[:n-2], pool{p.sum + q.sum, p.weight + q.weight, p.count + q.count})
		}
	}
	var out []float64
	for _, p := range pools {
		for range p.count {
			out = append(out, sign*p.sum/p.weight)
		}
	}
	return out
}

// strictlyMonotone tilts the level parts of a monotone sequence y at xs: each stands at
// its middle, one at an end at that end, and between them it is linear. The
// archive has gaps, and all settings in a gap would request the same.
func strictlyMonotone(xs, y []float64) []float64 {
	var at, level []float64
	for i := 0; i < len(y); {
		last := i
		for last+1 < len(y) && y[last+1] == y[i] {
			last++
		}
		middle := (xs[i] + xs[last]) / 2
		if i == 0 {
			middle = xs[0]
		} else if last == len(y)-1 {
			middle = xs[last]
		}
		at, level = append(at, middle), append(level, y[i])
		i = last + 1
	}
	if len(at) < 2 {
		return y
	}
	out := make([]float64, len(y))
	for i, x := range xs {
		out[i] = interpolate(at, level, x)
	}
	return out
}
