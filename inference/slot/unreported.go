package slot

import "math"

// UnreportedLoad is the load expected on an aircraft from users who decide by the
// standing offer and whose reports did not arrive. Their number is Poisson.
type UnreportedLoad struct {
	ExpectedUsers float64 `json:"users"`  // mean of their number
	CyclesPerUser float64 `json:"cycles"` // that each of them offloads
}

// EffectiveUsers returns the number of equal sharers of an aircraft's CPU that gives
// the same expected edge energy, when it serves n users that reported, at least
// one, and the unreported load. Edge energy is proportional to the square of a
// share, so the mean is taken over the squares.
func (l UnreportedLoad) EffectiveUsers(n int) float64 {
	if !(l.ExpectedUsers > 0) {
		return float64(n)
	}
	return 1 / math.Sqrt(l.expectation(func(k float64) float64 { return 1 / ((float64(n) + k) * (float64(n) + k)) }))
}

// ShareSums returns two expected sums over the unreported users of an aircraft that
// serves n users that reported: of the squares of their CPU shares, and of the
// reciprocals of those shares. The first, times kappa f^2 and CyclesPerUser, is
// their edge energy; the second, times CyclesPerUser over f, is their edge time.
func (l UnreportedLoad) ShareSums(n int) (squares, reciprocals float64) {
	if !(l.ExpectedUsers > 0) {
		return 0, 0
	}
	squares = l.expectation(func(k float64) float64 {
		if k == 0 {
			return 0
		}
		return k / ((float64(n) + k) * (float64(n) + k))
	})
	return squares, l.ExpectedUsers * (float64(n) + 1 + l.ExpectedUsers)
}

// expectation returns the expectation of f over the number of unreported users. Beyond
// manyUsers two points of the same mean and variance replace the distribution.
func (l UnreportedLoad) expectation(f func(users float64) float64) float64 {
	const manyUsers = 24
	if l.ExpectedUsers > manyUsers {
		stdDev := math.Sqrt(l.ExpectedUsers)
		return (f(l.ExpectedUsers-stdDev) + f(l.ExpectedUsers+stdDev)) / 2
	}
	p, sum := math.Exp(-l.ExpectedUsers), 0.0
	for k := 0.0; k < l.ExpectedUsers || p > 1e-9; k++ {
		sum += p * f(k)
		p *= l.ExpectedUsers / (k + 1)
	}
	return sum
}
