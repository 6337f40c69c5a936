package dispatch

import (
	"cmp"
	"flag"
	"math"
	"slices"
	"testing"

	"prefdt/inference/physics"
	"prefdt/inference/reuse"
	"prefdt/inference/slot"
)

// exactPeer finds the optimum of a slot of up to three aircraft, for the tests. It goes
// through all counts. A Lagrangian bound rules out most, whatever the multipliers: no
// assignment with counts n costs less than
//
//	sum_i min(local_i, min_m cost_im(n_m) + mu_m) - sum_m mu_m n_m.
//
// The dynamic program of peerSolver solves what is left, in the order of the bounds.
type exactPeer struct {
	peerSolver
	margins    []float64
	candidates []candidate
}

// candidate is a count vector that the first bound did not rule out.
type candidate struct {
	countVector
	multiplierS [exactMaxAircraft]float64
}

// Solve is peerSolver.Solve, exactly.
func (p *exactPeer) Solve(c *physics.Constants, s *slot.Snapshot, priceSPerJ float64, d *slot.Decision) {
	p.prepare(c, s, priceSPerJ)
	p.solveSearch() // a cost not to exceed
	users, aircraft := len(p.users), len(s.Aircraft)
	width := users + 1
	p.exact.costS = reuse.Slice(p.exact.costS, users*aircraft*width)
	for i := range users {
		for m := range aircraft {
			for n := 1; n <= users; n++ {
				_, p.exact.costS[(i*aircraft+m)*width+n] = p.option(i, m, n)
			}
		}
	}
	bestS := p.assignmentCostS()
	p.candidates = p.candidates[:0]
	for x := (candidate{}); ; {
		p.bound(&x, bestS, 3)
		if x.boundS < bestS {
			p.candidates = append(p.candidates, x)
		}
		if !nextCounts(&x.counts, aircraft, users) {
			break
		}
	}
	slices.SortFunc(p.candidates, func(a, b candidate) int { return cmp.Compare(a.boundS, b.boundS) })
	for _, x := range p.candidates {
		if p.bound(&x, bestS, 20); x.boundS >= bestS {
			continue
		}
		costS := p.exact.solveCounts(p.users, x.counts, aircraft) + p.unreportedS(x.counts)
		if costS < bestS {
			bestS = costS
			p.exact.traceback(x.counts, aircraft, p.server)
		}
	}
	p.writeDecision(d)
}

func (p *exactPeer) unreportedS(counts [exactMaxAircraft]int) (sumS float64) {
	for m := range p.snapshot.Aircraft {
		sumS += p.peerSolver.unreported(m, counts[m]).costS
	}
	return sumS
}

// assignmentCostS is the cost of p.server.
func (p *exactPeer) assignmentCostS() (sumS float64) {
	var counts [exactMaxAircraft]int
	countServed(counts[:], p.server)
	for i, m := range p.server {
		if m == 0 {
			sumS += p.users[i].localCostS
		} else {
			sumS += p.costS(i, m-1, counts[m-1])
		}
	}
	return sumS + p.unreportedS(counts)
}

func (p *exactPeer) costS(i, m, n int) float64 {
	return p.exact.costS[(i*len(p.snapshot.Aircraft)+m)*(len(p.users)+1)+n]
}

// bound raises x's bound, by setting one multiplier after another so that its aircraft
// alone would have its count, until it rules x out against bestS or for some rounds.
func (p *exactPeer) bound(x *candidate, bestS float64, rounds int) {
	aircraft := len(p.snapshot.Aircraft)
	for round := 0; ; round++ {
		x.boundS = p.unreportedS(x.counts)
		for i := range p.users {
			x.boundS += p.leastS(x, i, -1)
		}
		for m := range aircraft {
			x.boundS -= x.multiplierS[m] * float64(x.counts[m])
		}
		if x.boundS >= bestS || round == rounds {
			return
		}
		for m := range aircraft {
			n := x.counts[m]
			if n == 0 {
				continue
			}
			p.margins = p.margins[:0]
			for i := range p.users {
				p.margins = append(p.margins, p.leastS(x, i, m)-p.costS(i, m, n))
			}
			slices.Sort(p.margins)
			least, next := p.margins[len(p.margins)-n], math.Inf(-1) // of those served, and of the others
			if n < len(p.margins) {
				next = p.margins[len(p.margins)-n-1]
			}
			x.multiplierS[m] = (least + max(next, least-1)) / 2
			if math.IsInf(least, -1) { // fewer can be served
				x.boundS = math.Inf(1)
				return
			}
		}
	}
}

// leastS is the least that user i costs at any server but one.
func (p *exactPeer) leastS(x *candidate, i, but int) float64 {
	leastS := p.users[i].localCostS
	for m := range p.snapshot.Aircraft {
		if n := x.counts[m]; n > 0 && m != but {
			leastS = min(leastS, p.costS(i, m, n)+x.multiplierS[m])
		}
	}
	return leastS
}

// moreSlots makes the measured gap a figure of its own: 16 are a minute.
var moreSlots = flag.Int("gap-slots", 1, "times as many slots of TestGapToExact")

// Slots too large to be solved exactly cost little more than the optimum, and their
// spending curve is near that of the optima.
func TestGapToExact(t *testing.T) {
	var exact exactPeer
	for _, x := range []gapCase{
		{2, 50, 2, .0002, .005}, {2, 100, 1, .0002, .005}, {3, 24, 4, .0005, .03}, {3, 50, 1, .0005, .03},
	} {
		if testing.Short() && x.users > 50 { // an emulator takes a minute
			continue
		}
		x.slots *= *moreSlots
		mean, worst, curve := gap(6, x, gridPrices(), exact.Solve)
		t.Logf("M=%d U=%d: %+.4f %% in the mean, %+.3f %% at worst; joules %.2f %% off", x.aircraft, x.users, 100*mean, 100*worst,
			100*curve)
		if mean > x.mean || worst > x.worst {
			t.Errorf("M=%d U=%d: above exact by %.3g in the mean, %.3g at worst", x.aircraft, x.users, mean, worst)
		}
		if curve > .01 && x.users >= 50 {
			t.Errorf("M=%d U=%d: the joules of the spending curve are off by %.3g in the mean", x.aircraft, x.users, curve)
		}
	}
}

// The two exact methods agree.
func TestExactPeer(t *testing.T) {
	var bounded exactPeer
	var plain peerSolver
	for _, x := range []gapCase{{aircraft: 1, users: 9, slots: 4}, {aircraft: 2, users: 12, slots: 4}, {aircraft: 3, users: 7, slots: 4}} {
		var d slot.Decision
		eachSlot(5, x, func(c *physics.Constants, s *slot.Snapshot) {
			for _, price := range gridPrices() {
				bounded.Solve(c, s, price, &d)
				got := decisionCostS(c, s, &d, price)
				plain.prepare(c, s, price)
				plain.solveExact()
				plain.writeDecision(&d)
				if want := decisionCostS(c, s, &d, price); math.Abs(got-want) > 1e-9 {
					t.Errorf("M=%d U=%d at %v: %v, by the dynamic program alone %v", x.aircraft, x.users, price, got, want)
				}
			}
		})
	}
}
