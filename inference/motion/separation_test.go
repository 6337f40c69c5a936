package motion

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/physics"
)

var standardLimits = Limits{SpeedMaxMPS: 30, SeparationM: 10, AreaSideM: 1000}

// caseCount is how many cases a test draws: under emulation, with -short, a tenth.
func caseCount(cases int) int {
	if testing.Short() {
		return cases / 10
	}
	return cases
}

// randomCluster draws a fleet within a small part of the area, and its requested moves.
func randomCluster(r *rand.Rand, n int, sideM float64, legal bool) (at, moves []physics.Position) {
	corner := physics.Position{EastM: r.Float64() * (1000 - sideM), NorthM: r.Float64() * (1000 - sideM)}
	if r.IntN(3) == 0 {
		corner = physics.Position{} // in the corner, where there is the least space
	}
	for len(at) < n {
		p := corner.Add(physics.Position{EastM: r.Float64() * sideM, NorthM: r.Float64() * sideM})
		apart := true
		for _, q := range at {
			apart = apart && p.Sub(q).Norm() >= standardLimits.SeparationM
		}
		if legal && !apart {
			continue
		}
		at = append(at, p)
		angle, speed := 2*math.Pi*r.Float64(), 40*r.Float64()
		moves = append(moves, physics.Position{EastM: speed * math.Cos(angle), NorthM: speed * math.Sin(angle)})
	}
	return at, moves
}

// checkLimits returns the least distance of any pair that started apart, at a
// thousand instants, and fails on any broken limit.
func checkLimits(t *testing.T, at, moves []physics.Position, strict bool) {
	t.Helper()
	for i := range moves {
		to := at[i].Add(moves[i])
		if !to.Valid() || moves[i].Norm() > standardLimits.SpeedMaxMPS+1e-9 ||
			min(to.EastM, to.NorthM) < -1e-9 || max(to.EastM, to.NorthM) > standardLimits.AreaSideM+1e-9 {
			t.Fatalf("aircraft %d flies %v from %v", i, moves[i], at[i])
		}
		for j := range i {
			start := at[i].Sub(at[j]).Norm()
			bound := min(start, standardLimits.SeparationM) - 1e-6
			for k := range 51 {
				f := float64(k) / 50
				d := at[i].Add(moves[i].Scale(f)).Sub(at[j].Add(moves[j].Scale(f))).Norm()
				if d < bound {
					t.Fatalf("%d and %d of %d come to %.4f m from %.4f m", i, j, len(at), d, start)
				}
			}
			if end := to.Sub(at[j].Add(moves[j])).Norm(); strict && start < standardLimits.SeparationM && end <= start {
				t.Fatalf("%d and %d of %d start %.4f m apart and end %.4f m", i, j, len(at), start, end)
			}
		}
	}
}

func TestLimitKeepsSeparation(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var limiter Limiter
	for range caseCount(6000) {
		n := 1 + r.IntN(12)
		at, moves := randomCluster(r, n, 15*math.Sqrt(float64(n))+60*r.Float64(), true)
		limiter.Limit(at, moves, standardLimits)
		checkLimits(t, at, moves, false)
	}
	for range 20 {
		at, moves := randomCluster(r, 64, 180, true)
		limiter.Limit(at, moves, standardLimits)
		checkLimits(t, at, moves, false)
	}
}

func TestLimitPartsThoseTooClose(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	var limiter Limiter
	for range caseCount(6000) {
		at, moves := randomCluster(r, 2+r.IntN(8), 5+40*r.Float64(), false)
		limiter.Limit(at, moves, standardLimits)
		checkLimits(t, at, moves, true)
	}
	at := make([]physics.Position, 9) // all in one corner
	moves := make([]physics.Position, 9)
	for range 5 {
		limiter.Limit(at, moves, standardLimits)
		checkLimits(t, at, moves, false)
		for i := range at {
			at[i], moves[i] = at[i].Add(moves[i]), physics.Position{}
		}
	}
	for i := range at {
		for j := range i {
			if d := at[i].Sub(at[j]).Norm(); d < standardLimits.SeparationM {
				t.Errorf("after five slots %d and %d are %.2f m apart", i, j, d)
			}
		}
	}
}

func TestLimitLeavesTheRest(t *testing.T) {
	var limiter Limiter
	at := []physics.Position{{EastM: 100, NorthM: 100}, {EastM: 150, NorthM: 100}, {EastM: 500, NorthM: 500}}
	moves := []physics.Position{{EastM: 8}, {EastM: 8}, {EastM: -3, NorthM: 7}}
	want := append([]physics.Position{}, moves...)
	if limiter.Limit(at, moves, standardLimits) {
		t.Errorf("moves without a conflict were changed to %v", moves)
	}
	// Head on and too late to slow down, the two pass on the same side, so that both
	// give way alike; the third is not changed.
	at[1].EastM = 110.5
	moves[0].EastM, moves[1].EastM = 12, -12
	if !limiter.Limit(at, moves, standardLimits) || moves[2] != want[2] {
		t.Fatalf("got %v", moves)
	}
	checkLimits(t, at, moves, false)
	if moves[0].NorthM >= 0 || moves[1].NorthM <= 0 {
		t.Errorf("head on, the two did not pass on the same side: %v", moves)
	}
	moves[0] = physics.Position{EastM: math.NaN()}
	if limiter.Limit(at, moves, standardLimits); moves[0].Norm() > 30 {
		t.Errorf("NaN became %v", moves[0])
	}
}

// Limit changes little more than needed, compared with the least change that a fine
// search over both displacements of two aircraft finds.
func TestLimitChangesLittle(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	var limiter Limiter
	worst := 0.0
	for range caseCount(200) {
		at := []physics.Position{{EastM: 500, NorthM: 500}, {EastM: 500 + 11 + 10*r.Float64(), NorthM: 500}}
		requested := []physics.Position{{EastM: 15 * r.Float64(), NorthM: 10 * (r.Float64() - 0.5)},
			{EastM: -15 * r.Float64(), NorthM: 10 * (r.Float64() - 0.5)}}
		moves := append([]physics.Position{}, requested...)
		if !limiter.Limit(at, moves, standardLimits) {
			continue
		}
		got := math.Hypot(moves[0].Sub(requested[0]).Norm(), moves[1].Sub(requested[1]).Norm())
		// Splitting the relative change evenly is optimal; search it on a grid.
		least := math.Inf(1)
		p, v := at[0].Sub(at[1]), requested[0].Sub(requested[1])
		for a := range 180 {
			sin, cos := math.Sincos(float64(a) * math.Pi / 90)
			for s := 0.0; s < 45; s += 0.1 {
				if closestApproach(p, v.Add(physics.Position{EastM: s * cos, NorthM: s * sin})) >= standardLimits.SeparationM {
					least = min(least, s/math.Sqrt2)
					break
				}
			}
		}
		worst = max(worst, got-least)
	}
	t.Logf("at most %.3f m more than the least change", worst)
	if worst > 0.25 { // the margin of 1 % of 10 m, and the grid
		t.Errorf("changed %.3f m more than needed", worst)
	}
}

// Of a pair of which one is fixed, the other makes the whole change.
func TestLimitAroundTheFixed(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	var limiter Limiter
	conflicts := 0
	for range caseCount(5000) {
		at, moves := randomCluster(r, 2, 60, true)
		requested := append([]physics.Position(nil), moves...)
		l := standardLimits
		l.Fixed = []bool{true, false}
		if limiter.Limit(at, moves, l); moves[0] != requested[0] {
			t.Fatalf("the fixed one flies %v instead of %v", moves[0], requested[0])
		}
		if closestApproach(at[1].Sub(at[0]), requested[1].Sub(requested[0])) >= l.SeparationM || requested[0].Norm() > 10 {
			continue // no conflict, or one too fast to avoid
		}
		conflicts++
		to := at[1].Add(moves[1])
		if d := closestApproach(at[1].Sub(at[0]), moves[1].Sub(moves[0])); d < l.SeparationM && min(to.EastM, to.NorthM) > 1e-9 &&
			max(to.EastM, to.NorthM) < l.AreaSideM-1e-9 {
			t.Fatalf("%v m from one another where one flies %v and is fixed, the other flies %v, %v m past it", at[1].Sub(at[0]), moves[0],
				moves[1], d)
		}
	}
	if conflicts == 0 {
		t.Error("no pair was in conflict")
	}
}

func TestLimitDoesNotDependOnTheOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	var limiter Limiter
	for range 200 {
		n := 2 + r.IntN(6)
		at, moves := randomCluster(r, n, 60, true)
		order := r.Perm(n)
		var at2, moves2 []physics.Position
		for _, k := range order {
			at2, moves2 = append(at2, at[k]), append(moves2, moves[k])
		}
		limiter.Limit(at, moves, standardLimits)
		limiter.Limit(at2, moves2, standardLimits)
		for k, o := range order {
			if d := moves2[k].Sub(moves[o]).Norm(); d > 1e-6 {
				t.Fatalf("order changes a displacement by %v m", d)
			}
		}
	}
}

func BenchmarkLimit(b *testing.B) {
	for _, n := range []int{2, 8, 64} {
		b.Run(map[int]string{2: "M2", 8: "M8", 64: "M64"}[n], func(b *testing.B) {
			r := rand.New(rand.NewPCG(5, 1))
			at, requested := randomCluster(r, n, 25*math.Sqrt(float64(n)), true)
			moves := make([]physics.Position, n)
			var limiter Limiter
			b.ReportAllocs()
			for b.Loop() {
				copy(moves, requested)
				limiter.Limit(at, moves, standardLimits)
			}
		})
	}
}
