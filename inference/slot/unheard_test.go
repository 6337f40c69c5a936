package slot

import (
	"math"
	"testing"
)

// Without anyone unheard the shares are the exact ones.
func TestNobodyUnheard(t *testing.T) {
	for _, users := range []float64{0, -1, math.NaN()} {
		x := Unheard{Users: users, Cycles: 1e9}
		if squares, reciprocals := x.Edge(3); x.Sharing(3) != 3 || squares != 0 || reciprocals != 0 {
			t.Errorf("%v unheard: %v share, edge %v %v", users, x.Sharing(3), squares, reciprocals)
		}
	}
}

// Against sums worked out by hand: with one expected, 0, 1, 2, ... come with
// probability 1/e, 1/e, 1/2e, ...
func TestOneUnheard(t *testing.T) {
	x := Unheard{Users: 1}
	square, squares := 0.0, 0.0
	for k, p := 0.0, math.Exp(-1); k < 40; k++ {
		square += p / ((1 + k) * (1 + k))
		squares += p * k / ((1 + k) * (1 + k))
		p /= k + 1
	}
	if got := x.Sharing(1); math.Abs(got-1/math.Sqrt(square)) > 1e-8 || got < 1.4 || got > 1.5 {
		t.Errorf("one and one unheard share like %v", got)
	}
	got, reciprocals := x.Edge(1)
	if math.Abs(got-squares) > 1e-8 || math.Abs(reciprocals-3) > 1e-12 { // E[K(1+K)] = 1 + 2
		t.Errorf("edge %v and %v, want %v and 3", got, reciprocals, squares)
	}
}

// The sum and the two points that stand for it among many agree, and both fall
// with every user that joins.
func TestManyUnheard(t *testing.T) {
	for _, n := range []int{1, 5, 50} {
		a, b := Unheard{Users: 24}, Unheard{Users: 24.001}
		squaresA, _ := a.Edge(n)
		squaresB, _ := b.Edge(n)
		if math.Abs(a.Sharing(n)/b.Sharing(n)-1) > 0.01 || math.Abs(squaresA/squaresB-1) > 0.02 {
			t.Errorf("%d with 24 unheard: %v and %v share, edge %v and %v", n, a.Sharing(n), b.Sharing(n), squaresA, squaresB)
		}
	}
	for _, users := range []float64{0.1, 3, 30, 1e5} {
		for n := 1; n < 20; n++ {
			x := Unheard{Users: users}
			now, _ := x.Edge(n)
			next, _ := x.Edge(n + 1)
			if s := x.Sharing(n); !(x.Sharing(n+1) > s && s >= float64(n) && s <= float64(n)+users && next < now) {
				t.Errorf("%v unheard: %d share like %v, one more like %v; edge %v, %v", users, n, s, x.Sharing(n+1), now, next)
			}
		}
	}
}
