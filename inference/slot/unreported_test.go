package slot

import (
	"math"
	"testing"
)

// Without an unreported load the shares are the exact ones.
func TestNoUnreportedLoad(t *testing.T) {
	for _, users := range []float64{0, -1, math.NaN()} {
		x := UnreportedLoad{ExpectedUsers: users, CyclesPerUser: 1e9}
		if squares, reciprocals := x.ShareSums(3); x.EffectiveUsers(3) != 3 || squares != 0 || reciprocals != 0 {
			t.Errorf("%v unreported: %v effective users, share sums %v %v", users, x.EffectiveUsers(3), squares, reciprocals)
		}
	}
}

// Compared with sums written out: of one user expected, 0, 1, 2, ... come with
// probability 1/e, 1/e, 1/2e, ...
func TestOneUnreportedUser(t *testing.T) {
	x := UnreportedLoad{ExpectedUsers: 1}
	square, squares := 0.0, 0.0
	for k, p := 0.0, math.Exp(-1); k < 40; k++ {
		square += p / ((1 + k) * (1 + k))
		squares += p * k / ((1 + k) * (1 + k))
		p /= k + 1
	}
	if got := x.EffectiveUsers(1); math.Abs(got-1/math.Sqrt(square)) > 1e-8 || got < 1.4 || got > 1.5 {
		t.Errorf("one user and one unreported count as %v", got)
	}
	got, reciprocals := x.ShareSums(1)
	if math.Abs(got-squares) > 1e-8 || math.Abs(reciprocals-3) > 1e-12 { // E[K(1+K)] = 1 + 2
		t.Errorf("share sums %v and %v, want %v and 3", got, reciprocals, squares)
	}
}

// The sum and the two points that replace it for many users agree; the shares fall
// with every user more.
func TestManyUnreportedUsers(t *testing.T) {
	for _, n := range []int{1, 5, 50} {
		a, b := UnreportedLoad{ExpectedUsers: 24}, UnreportedLoad{ExpectedUsers: 24.001}
		squaresA, _ := a.ShareSums(n)
		squaresB, _ := b.ShareSums(n)
		if math.Abs(a.EffectiveUsers(n)/b.EffectiveUsers(n)-1) > 0.01 || math.Abs(squaresA/squaresB-1) > 0.02 {
			t.Errorf("%d with 24 unreported: %v and %v effective users, sums of squares %v and %v", n, a.EffectiveUsers(n),
				b.EffectiveUsers(n), squaresA, squaresB)
		}
	}
	for _, users := range []float64{0.1, 3, 30, 1e5} {
		for n := 1; n < 20; n++ {
			x := UnreportedLoad{ExpectedUsers: users}
			now, _ := x.ShareSums(n)
			next, _ := x.ShareSums(n + 1)
			if s := x.EffectiveUsers(n); !(x.EffectiveUsers(n+1) > s && s >= float64(n) && s <= float64(n)+users && next < now) {
				t.Errorf("%v unreported: %d count as %v, one more as %v; sums of squares %v, %v", users, n, s, x.EffectiveUsers(n+1), now,
					next)
			}
		}
	}
}
