package dispatch

import (
	"math"
	"slices"

	"prefdt/inference/reuse"
)

// What couples the users of a slot is how many each aircraft serves. With these counts
// fixed, the gain of each user at each aircraft, over computing locally, is a number, and
// the best assignment with exactly these counts is a transportation problem. Its
// Lagrangian dual has no gap: there are multipliers, one for each aircraft, such that
// users who each take their largest gain less multiplier are the best assignment.
//
// valuer finds it in three steps: some rounds in which each aircraft's multiplier is set
// so that it alone would have its count; the assignment by these multipliers, which is
// the best for its own counts; and moves along the best chains of users from where there
// is one too many to where there is one too few, each of which keeps it so.

const (
	// unusableS is the gain where nothing can be offloaded: no assignment of any value has it.
	unusableS = -1e12
	worstS    = -1e18 // less than any assignment gains
	// maxGainS bounds a gain, so that one report cannot use up the precision of all sums.
	maxGainS = 1e9
	// someColumns is how many counts of an aircraft have their gains remembered, where not
	// all counts are valued.
	someColumns = 4
)

// valuer finds the value of count vectors, for a part of the slot's users at a price.
type valuer struct {
	solver     *Solver
	members    []int   // the users, as indices into the solver's
	weight     float64 // users that each of them represents
	priceSPerJ float64
	aircraft   int
	loose      bool // counts near those wanted will do

	ways, uses    int       // columns of each aircraft, and how many were used
	columns       []column  // (aircraft, way)
	multiplierS   []float64 // by aircraft, of the last vector
	active        []int     // aircraft that serve anyone
	gains         [][]float64
	laterS        []float64 // (active, member): the best of the aircraft that come later
	bestS         []float64 // by member: the best so far, less multipliers
	marginS       []float64
	scratch       []float64
	server        []int // by member, 0: local
	count         []int // by server, of the present assignment
	wanted        []int // by server
	exchangeS     []float64
	exchangeOf    []int
	pathS         []float64
	pathFrom      []int
	trialCounts   []int
	startCounts   []int
	serves        []bool
	slopeS        []float64
	bestOfS, ownS []float64 // by subset of the members, see partition
	choice        []uint16  // (aircraft, subset)

	found, kept solution   // the best, and another
	met         []metPrice // by the last sweep
}

// column is the gains of all members at an aircraft that serves a number of them.
type column struct {
	count  int // -1: none
	used   int // when, in uses of any
	gainsS []float64
	costS  float64 // of the unreported load
}

// solution is an assignment and what it gains over all users computing locally.
type solution struct {
	gainS  float64
	counts []int // by aircraft
	server []int // by member, 0: local

	multiplierS []float64
}

// start prepares for another part of a slot.
func (v *valuer) start(s *Solver, members []int, weight float64) {
	v.solver, v.members, v.weight, v.aircraft = s, members, weight, len(s.fleet)
	n, m := len(members), v.aircraft
	v.ways = someColumns
	if v.enumerable() || v.partitions() {
		v.ways = n + 1
	}
	v.columns = slices.Grow(v.columns[:0], m*v.ways)[:m*v.ways]
	v.multiplierS = reuse.Slice(v.multiplierS, m)
	v.laterS = reuse.Slice(v.laterS, n*m)
	v.bestS, v.marginS, v.scratch = reuse.Slice(v.bestS, n), reuse.Slice(v.marginS, n), reuse.Slice(v.scratch, n)
	v.server = reuse.Slice(v.server, n)
	for _, x := range []*solution{&v.found, &v.kept} {
		x.server, x.counts, x.multiplierS = reuse.Slice(x.server, n), reuse.Slice(x.counts, m), reuse.Slice(x.multiplierS, m)
	}
	v.count, v.wanted = reuse.Slice(v.count, m+1), reuse.Slice(v.wanted, m+1)
	v.exchangeS, v.exchangeOf = reuse.Slice(v.exchangeS, (m+1)*(m+1)), reuse.Slice(v.exchangeOf, (m+1)*(m+1))
	v.pathS, v.pathFrom = reuse.Slice(v.pathS, m+1), reuse.Slice(v.pathFrom, m+1)
	v.at(0)
}

// at begins another price. Everybody computes locally then.
func (v *valuer) at(priceSPerJ float64) {
	v.priceSPerJ, v.loose = priceSPerJ, v.aircraft > 3
	for i := range v.columns {
		v.columns[i].count = -1
	}
	v.found.gainS = 0
	for m := range v.aircraft {
		v.found.gainS -= v.solver.unreportedCostS(m, 0, v.priceSPerJ)
	}
	v.found.gainS /= v.weight
	clear(v.found.counts)
	clear(v.found.server)
	clear(v.found.multiplierS)
}

// column returns the gains at aircraft m when it serves n members.
func (v *valuer) column(m, n int) *column {
	c := v.place(m, n)
	if c.count == n {
		return c
	}
	c.count = n
	users := int(math.Round(float64(n) * v.weight))
	c.costS = v.solver.unreportedCostS(m, users, v.priceSPerJ) / v.weight
	c.gainsS = slices.Grow(c.gainsS[:0], len(v.members))[:len(v.members)]
	if n > 0 {
		v.solver.fillGains(m, users, v.priceSPerJ, v.members, c.gainsS)
	}
	return c
}

// place is where a column is remembered: its own, where each has one, or that of the one
// that was not used for longest.
func (v *valuer) place(m, n int) *column {
	all := v.columns[m*v.ways:][:v.ways]
	if v.ways > len(v.members) {
		return &all[n]
	}
	v.uses++
	oldest := 0
	for i := range all {
		if all[i].count == n {
			all[i].used = v.uses
			return &all[i]
		}
		if all[i].used < all[oldest].used {
			oldest = i
		}
	}
	all[oldest].used = v.uses
	return &all[oldest]
}

// rounds bounds the rounds of multipliers for a count vector.
const rounds = 6

// value returns what the best assignment with these counts gains, and keeps it in
// v.found if it is the best so far. It returns -Inf where that cannot be.
func (v *valuer) value(counts []int) float64 {
	v.active, v.gains = v.active[:0], v.gains[:0]
	total, costS := 0, 0.0
	for m, n := range counts {
		c := v.column(m, n)
		costS += c.costS
		v.wanted[m+1] = n
		if n > 0 {
			v.active, v.gains = append(v.active, m), append(v.gains, c.gainsS)
		}
		total += n
	}
	if total > len(v.members) {
		return math.Inf(-1)
	}
	v.wanted[0] = len(v.members) - total
	for round := range rounds {
		boundS := v.round(counts) - costS
		if boundS <= v.found.gainS+tolerance*(1+math.Abs(v.found.gainS)) {
			return math.Inf(-1)
		}
		off := 0
		for k, n := range v.count {
			off += max(n-v.wanted[k], 0)
		}
		if v.loose && (off <= 2+len(v.members)/16 || round == looseRounds-1) {
			return v.keepOwnCounts()
		}
		if off <= 2+len(v.members)/64 || round == rounds-1 {
			for ; off > 0; off-- {
				if !v.moveAlongBestPath() {
					return math.Inf(-1)
				}
			}
			break
		}
	}
	gainS := -costS
	for k, a := range v.active {
		for i, server := range v.server {
			if server == a+1 {
				gainS += v.gains[k][i]
			}
		}
	}
	v.keepIfBetter(counts, gainS)
	return gainS
}

const (
	tolerance   = 1e-12
	looseRounds = 2
)

// keepIfBetter keeps the present assignment if it is the best so far.
func (v *valuer) keepIfBetter(counts []int, gainS float64) {
	if gainS > v.found.gainS+tolerance*(1+math.Abs(v.found.gainS)) {
		v.found.gainS = gainS
		copy(v.found.counts, counts)
		copy(v.found.server, v.server)
		copy(v.found.multiplierS, v.multiplierS)
	}
}

// keepOwnCounts values the present assignment at its own counts, near those wanted.
func (v *valuer) keepOwnCounts() (gainS float64) {
	counts := v.count[1:]
	for m, n := range counts {
		c := v.column(m, n)
		gainS -= c.costS
		for i, server := range v.server {
			if server == m+1 {
				gainS += c.gainsS[i]
			}
		}
	}
	v.keepIfBetter(counts, gainS)
	return gainS
}

// round sets each multiplier in turn so that its aircraft has its count, the others'
// as they are, assigns each member to its best, and returns the dual value: no
// assignment with these counts gains more.
func (v *valuer) round(counts []int) (boundS float64) {
	n := len(v.members)
	last := len(v.active) - 1
	for k := last - 1; k >= 0; k-- { // the best of the later ones
		later, next, muS := v.laterS[k*n:][:n], v.laterS[(k+1)*n:][:n], v.multiplierS[v.active[k+1]]
		for i, g := range v.gains[k+1][:n] {
			x := g - muS
			if k+1 < last && next[i] > x {
				x = next[i]
			}
			later[i] = x
		}
	}
	clear(v.bestS)
	clear(v.server)
	clear(v.count)
	for k, m := range v.active {
		gains, later := v.gains[k][:n], v.laterS[k*n:][:n]
		margin, best := v.marginS[:n], v.bestS[:n]
		if k == last {
			for i := range margin {
				margin[i] = gains[i] - best[i]
			}
		} else {
			for i := range margin {
				margin[i] = gains[i] - max(best[i], later[i])
			}
		}
		muS := v.threshold(margin, counts[m], v.multiplierS[m])
		v.multiplierS[m] = muS
		boundS += muS * float64(counts[m])
		for i, g := range gains {
			if x := g - muS; x > best[i] {
				best[i], v.server[i] = x, m+1
			}
		}
	}
	for i, x := range v.bestS {
		boundS += x
		v.count[v.server[i]]++
	}
	return boundS
}

// threshold returns a number that n of the margins exceed, by one that about as many did.
func (v *valuer) threshold(margins []float64, n int, aboutS float64) float64 {
	const nearby = 4
	above, leastS, nextS := 0, math.Inf(1), math.Inf(-1)
	for _, x := range margins {
		if x > aboutS {
			above++
			leastS = min(leastS, x)
		} else {
			nextS = max(nextS, x)
		}
	}
	switch {
	case above > n+nearby || above < n-nearby:
		copy(v.scratch, margins)
		x := v.scratch[:len(margins)]
		leastS, nextS = selectLargest(x, n-1), math.Inf(-1)
		for _, y := range x[n:] {
			nextS = max(nextS, y)
		}
	default:
		for ; above > n; above-- { // the least of them goes below, where others may equal it
			aboutS, nextS = leastS, leastS
			leastS = math.Inf(1)
			for _, x := range margins {
				if x > aboutS {
					leastS = min(leastS, x)
				}
			}
		}
		for ; above < n; above++ {
			aboutS, leastS = nextS, nextS
			nextS = math.Inf(-1)
			for _, x := range margins {
				if x < aboutS {
					nextS = max(nextS, x)
				}
			}
		}
	}
	const most = 0.5 // also below the last margin
	return leastS - min((leastS-nextS)/2, most)
}

// selectLargest orders x so that x[k] is where it would be if x was sorted downwards, with
// none smaller before it and none larger after it, and returns it.
func selectLargest(x []float64, k int) float64 {
	low, high := 0, len(x)-1
	for low < high {
		pivot := median(x[low], x[(low+high)/2], x[high])
		i, j := low, high
		for i <= j {
			for x[i] > pivot {
				i++
			}
			for x[j] < pivot {
				j--
			}
			if i <= j {
				x[i], x[j] = x[j], x[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			high = j
		case k >= i:
			low = i
		default:
			return x[k]
		}
	}
	return x[k]
}

func median(a, b, c float64) float64 { return max(min(a, b), min(max(a, b), c)) }

// moveAlongBestPath moves one member from a server with too many to one with too few, by
// way of others if that gains more, and reports whether it could.
func (v *valuer) moveAlongBestPath() bool {
	width := v.aircraft + 1
	for i := range v.exchangeS {
		v.exchangeS[i] = math.Inf(-1)
	}
	for i, from := range v.server {
		nowS := 0.0
		if from > 0 {
			nowS = v.columnOf(from)[i]
			if e := from * width; -nowS > v.exchangeS[e] {
				v.exchangeS[e], v.exchangeOf[e] = -nowS, i
			}
		}
		for k, m := range v.active {
			if e := from*width + m + 1; m+1 != from && v.gains[k][i]-nowS > v.exchangeS[e] {
				v.exchangeS[e], v.exchangeOf[e] = v.gains[k][i]-nowS, i
			}
		}
	}
	for k := range v.pathS {
		v.pathS[k], v.pathFrom[k] = math.Inf(-1), -1
		if v.count[k] > v.wanted[k] {
			v.pathS[k] = 0
		}
	}
	for range v.aircraft { // no path is longer
		changed := false
		for a := range width {
			for b := range width {
				if x := v.pathS[a] + v.exchangeS[a*width+b]; x > v.pathS[b]+1e-12*math.Abs(x) && !v.leadsThrough(b, a) {
					v.pathS[b], v.pathFrom[b], changed = x, a, true
				}
			}
		}
		if !changed {
			break
		}
	}
	to := -1
	for k := range v.pathS {
		if v.count[k] < v.wanted[k] && (to < 0 || v.pathS[k] > v.pathS[to]) {
			to = k
		}
	}
	if to < 0 || math.IsInf(v.pathS[to], -1) {
		return false
	}
	v.count[to]++
	for ; v.pathFrom[to] >= 0; to = v.pathFrom[to] {
		v.server[v.exchangeOf[v.pathFrom[to]*width+to]] = to
	}
	v.count[to]--
	return true
}

// leadsThrough reports whether the path to server a already passes server b.
func (v *valuer) leadsThrough(b, a int) bool {
	for ; a >= 0; a = v.pathFrom[a] {
		if a == b {
			return true
		}
	}
	return false
}

// columnOf returns the gains at a server's present count.
func (v *valuer) columnOf(server int) []float64 {
	k, _ := slices.BinarySearch(v.active, server-1)
	return v.gains[k]
}
