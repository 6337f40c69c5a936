package slot

import "math"

// UnreportedLoad is who is expected to take the standing offer at an aircraft in a
// slot without having been heard. How many come is taken for Poisson's.
type UnreportedLoad struct {
	ExpectedUsers float64 `json:"users"`  // expected
	CyclesPerUser float64 `json:"cycles"` // each offloads
}

// EffectiveUsers returns what the number of users amounts to that share an aircraft's
// CPU when it serves n, one at least, that were heard. Edge energy goes with
// the square of a share, so it is the mean of the squares that counts.
func (x UnreportedLoad) EffectiveUsers(n int) float64 {
	if !(x.ExpectedUsers > 0) {
		return float64(n)
	}
	return 1 / math.Sqrt(x.expectation(func(k float64) float64 { return 1 / ((float64(n) + k) * (float64(n) + k)) }))
}

// ShareSums returns what those unheard are expected to take of an aircraft that
// serves n users that were heard: the sum over them of the square of their
// share of its CPU, and of the reciprocal of that share. The first times kappa
// f^2 and their cycles is energy, the second times cycles over f is time.
func (x UnreportedLoad) ShareSums(n int) (squares, reciprocals float64) {
	if !(x.ExpectedUsers > 0) {
		return 0, 0
	}
	squares = x.expectation(func(k float64) float64 {
		if k == 0 {
			return 0
		}
		return k / ((float64(n) + k) * (float64(n) + k))
	})
	return squares, x.ExpectedUsers * (float64(n) + 1 + x.ExpectedUsers)
}

// expectation returns the expectation of f over the number of users. Beyond manyUsers
// two points that have the distribution's mean and variance stand for it.
func (x UnreportedLoad) expectation(f func(users float64) float64) float64 {
	const manyUsers = 24
	if x.ExpectedUsers > manyUsers {
		spread := math.Sqrt(x.ExpectedUsers)
		return (f(x.ExpectedUsers-spread) + f(x.ExpectedUsers+spread)) / 2
	}
	p, sum := math.Exp(-x.ExpectedUsers), 0.0
	for k := 0.0; k < x.ExpectedUsers || p > 1e-9; k++ {
		sum += p * f(k)
		p *= x.ExpectedUsers / (k + 1)
	}
	return sum
}
