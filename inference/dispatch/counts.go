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
// is one too many to where there is one too few, each of which keeps it so. Any
// multipliers bound what counts can gain, and the last ones already rule most counts out.
//
// With more than a few aircraft, where not all counts are valued, the assignment is valued
// at its own counts once these are near those wanted.

const (
	// unusableS is the gain where nothing can be offloaded: no assignment of any value has it.
	unusableS = -1e12
	worstS    = -1e18 // less than any assignment gains
	// leastGainS is what being served must gain: who gains nothing by it computes locally.
	leastGainS = 1e-300
	// maxGainS bounds a gain, so that one report cannot use up the precision of all sums.
	maxGainS = 1e9
	// someColumns is how many counts of an aircraft have their gains remembered, where many
	// are valued more than once.
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

	ways, uses    int         // columns of each aircraft, and how many were used
	columns       []column    // (aircraft, way)
	columnsS      []float64   // (aircraft, way, member): their gains
	multiplierS   []float64   // by aircraft, of the last vector
	active        []int       // aircraft that serve anyone
	gains         [][]float64 // by active
	gainsOf       [][]float64 // by server, of local ones too
	laterS        []float64   // (active, member): the best of the aircraft that come later
	bestS         []float64   // by member: the best so far, less multipliers
	marginS       []float64
	server        []int // by member, 0: local
	count         []int // by server, of the present assignment
	wanted        []int // by server
	served        []int // the users of each server, one server after another
	servedEnd     []int // by server
	exchangeS     []float64
	exchangeOf    []int
	pathS         []float64
	pathFrom      []int
	trialCounts   []int
	startCounts   []int
	serves        []bool
	slopeS        []float64
	near          []neighbours // by server, see polish
	nobodyS       []float64    // what members gain where nobody is served
	bestOfS, ownS []float64    // by subset of the members, see partition
	choice        []uint16     // (aircraft, subset)

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
	v.ways, v.loose = someColumns, m > fewAircraft
	if few := v.enumerable() || v.partitions(); few || m <= 2 && n <= maxUnsampled {
		v.ways, v.loose = n+2, v.loose && !few // a count of one more than all is asked for
	}
	v.columns = slices.Grow(v.columns[:0], m*v.ways)[:m*v.ways]
	v.columnsS = slices.Grow(v.columnsS[:0], m*v.ways*n)[:m*v.ways*n]
	for k := range v.columns { // at once, so that a count that no slot had before allocates nothing
		v.columns[k].gainsS = v.columnsS[k*n:][:n]
	}
	v.multiplierS = reuse.Slice(v.multiplierS, m)
	v.laterS = reuse.Slice(v.laterS, n*m)
	v.bestS, v.marginS = reuse.Slice(v.bestS, n), reuse.Slice(v.marginS, n)
	v.server, v.served, v.nobodyS = reuse.Slice(v.server, n), reuse.Slice(v.served, n), reuse.Slice(v.nobodyS, n)
	for _, x := range []*solution{&v.found, &v.kept} {
		x.server, x.counts, x.multiplierS = reuse.Slice(x.server, n), reuse.Slice(x.counts, m), reuse.Slice(x.multiplierS, m)
	}
	v.count, v.wanted, v.servedEnd = reuse.Slice(v.count, m+1), reuse.Slice(v.wanted, m+1), reuse.Slice(v.servedEnd, m+1)
	v.near, v.gainsOf = reuse.Slice(v.near, m+1), reuse.Slice(v.gainsOf, m+1)
	v.exchangeS, v.exchangeOf = reuse.Slice(v.exchangeS, (m+1)*(m+1)), reuse.Slice(v.exchangeOf, (m+1)*(m+1))
	v.pathS, v.pathFrom = reuse.Slice(v.pathS, m+1), reuse.Slice(v.pathFrom, m+1)
	v.at(0)
}

// at begins another price. Everybody computes locally then.
func (v *valuer) at(priceSPerJ float64) {
	v.priceSPerJ = priceSPerJ
	for i := range v.columns {
		v.columns[i].count = -1
	}
	v.found.gainS = 0
	for m := range v.aircraft {
		v.found.gainS -= v.unreportedCostS(m, 0)
	}
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
	c.costS = v.unreportedCostS(m, n)
	if n > 0 {
		v.solver.fillGains(m, v.usersOf(n), v.priceSPerJ, v.members, c.gainsS)
	}
	return c
}

// usersOf returns how many users so many members stand for.
func (v *valuer) usersOf(members int) int { return int(math.Round(float64(members) * v.weight)) }

// unreportedCostS is the expected cost of aircraft m's unreported load, in members' seconds,
// when it serves n members.
func (v *valuer) unreportedCostS(m, n int) float64 {
	delayS, edgeJ := v.solver.unreported(m, v.usersOf(n))
	return (delayS + v.priceSPerJ*v.solver.weights[m]*edgeJ) / v.weight
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

const (
	tolerance = 1e-12
	// Rounds of multipliers for a count vector, and the share of the members that may be
	// elsewhere after a round. They are moved one by one, for which the share is small and
	// grows with the rounds; or they are left there.
	rounds, offShare           = 6, 1.0 / 256
	looseRounds, looseOffShare = 2, 1.0 / 16
	// looseCountShare is the share of a count by which a multiplier may miss it.
	looseCountShare = 1.0 / 12
)

// value finds what the best assignment with these counts gains, or with counts near them,
// and keeps it in v.found if it is the best so far.
func (v *valuer) value(counts []int) {
	total, costS := 0, 0.0
	for _, n := range counts {
		total += n
	}
	if total > len(v.members) {
		return
	}
	v.active, v.gains = v.active[:0], v.gains[:0]
	for m, n := range counts {
		c := v.column(m, n)
		costS += c.costS
		v.wanted[m+1] = n
		if n > 0 {
			v.active, v.gains, v.gainsOf[m+1] = append(v.active, m), append(v.gains, c.gainsS), c.gainsS
		}
	}
	v.wanted[0], v.gainsOf[0] = len(v.members)-total, v.nobodyS
	off, enoughS := 0, v.enoughS()
	boundS := v.bound(counts)
	for round := 0; ; round++ {
		if boundS-costS <= enoughS {
			return
		}
		v.assign()
		off = 0
		for k, n := range v.count {
			off += max(n-v.wanted[k], 0)
		}
		most, share := rounds, offShare*float64(round)
		if v.loose {
			most, share = looseRounds, looseOffShare
		}
		if round == most || off <= 2+int(share*float64(len(v.members))) {
			break
		}
		boundS = v.round(counts)
	}
	if v.loose {
		v.keepOwnCounts()
		return
	}
	for ; off > 0; off-- {
		if !v.moveAlongBestPath() {
			return
		}
	}
	gainS := -costS
	for i, server := range v.server {
		if server > 0 {
			gainS += v.gainsOf[server][i]
		}
	}
	v.keepIfBetter(counts, gainS)
}

// enoughS is what more than is a gain better than the best so far.
func (v *valuer) enoughS() float64 { return v.found.gainS + tolerance*(1+math.Abs(v.found.gainS)) }

// keepIfBetter keeps the present assignment if it is the best so far.
func (v *valuer) keepIfBetter(counts []int, gainS float64) {
	if gainS > v.enoughS() {
		v.found.gainS = gainS
		copy(v.found.counts, counts)
		copy(v.found.server, v.server)
		copy(v.found.multiplierS, v.multiplierS)
	}
}

// keepOwnCounts values the present assignment at its own counts.
func (v *valuer) keepOwnCounts() {
	end := 0
	for k, n := range v.count {
		v.servedEnd[k] = end
		end += n
	}
	for i, server := range v.server {
		v.served[v.servedEnd[server]] = v.members[i]
		v.servedEnd[server]++
	}
	gainS, counts := 0.0, v.count[1:]
	for m, n := range counts {
		gainS -= v.unreportedCostS(m, n)
		if n == 0 {
			continue
		}
		gains, end := v.marginS[:n], v.servedEnd[m+1]
		v.solver.fillGains(m, v.usersOf(n), v.priceSPerJ, v.served[end-n:end], gains)
		for _, g := range gains {
			gainS += g
		}
	}
	v.keepIfBetter(counts, gainS)
}

// bound returns the dual value of the present multipliers: no assignment with these counts
// gains more, whatever the multipliers. It leaves what each member gains in v.bestS.
func (v *valuer) bound(counts []int) (boundS float64) {
	best := v.bestS
	for i := range best {
		best[i] = leastGainS
	}
	for k, m := range v.active {
		muS := v.multiplierS[m]
		boundS += muS * float64(counts[m])
		for i, g := range v.gains[k][:len(best)] {
			best[i] = max(best[i], g-muS)
		}
	}
	return boundS + sum(best)
}

// round sets each multiplier in turn so that its aircraft has its count, the others'
// as they are, and returns the bound.
func (v *valuer) round(counts []int) (boundS float64) {
	n := len(v.members)
	last := len(v.active) - 1
	for k := last - 1; k >= 0; k-- { // the best of the later ones
		later, muS := v.laterS[k*n:][:n], v.multiplierS[v.active[k+1]]
		if k+1 == last {
			for i, g := range v.gains[k+1][:n] {
				later[i] = g - muS
			}
			continue
		}
		next := v.laterS[(k+1)*n:][:n]
		for i, g := range v.gains[k+1][:n] {
			later[i] = max(g-muS, next[i])
		}
	}
	best, margin := v.bestS[:n], v.marginS[:n]
	for i := range best {
		best[i] = leastGainS
	}
	for k, m := range v.active {
		gains, later := v.gains[k][:n], v.laterS[k*n:][:n]
		if k == last {
			for i, g := range gains {
				margin[i] = g - best[i]
			}
		} else {
			for i, g := range gains {
				margin[i] = g - max(best[i], later[i])
			}
		}
		muS := v.threshold(margin, counts[m], v.multiplierS[m])
		v.multiplierS[m] = muS
		boundS += muS * float64(counts[m])
		for i, g := range gains {
			best[i] = max(best[i], g-muS)
		}
	}
	return boundS + sum(best)
}

// sum adds in four parts, since each addition waits for the last one.
func sum(x []float64) float64 {
	var a, b, c, d float64
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d = a+x[0], b+x[1], c+x[2], d+x[3]
	}
	for _, y := range x {
		a += y
	}
	return a + b + c + d
}

// assign gives each member what it gains most by, which bound or round left in v.bestS.
func (v *valuer) assign() {
	server := v.server[:len(v.bestS)]
	clear(server)
	for k := len(v.active) - 1; k >= 0; k-- {
		m, gains := v.active[k], v.gains[k][:len(server)]
		muS := v.multiplierS[m]
		for i, x := range v.bestS {
			now := server[i]
			if gains[i]-muS >= x { // it is no more
				now = m + 1
			}
			server[i] = now
		}
	}
	count := v.count
	clear(count)
	for _, k := range server {
		count[k]++
	}
}

// threshold returns a number that n of the margins exceed, or about n where that will do,
// beginning with one that about as many did. It changes the margins.
func (v *valuer) threshold(margins []float64, n int, aboutS float64) float64 {
	const (
		passes  = 6
		few     = 8   // margins between two numbers that are sorted
		spreadS = 2.0 // of the margins, about
	)
	slack := 0
	if v.loose {
		slack = int(looseCountShare * float64(n))
	}
	all := float64(len(margins))
	low, high := math.Inf(-1), math.Inf(1) // between which what is left of the margins is
	for range passes {
		above := 0
		for _, x := range margins {
			above += oneIf(x > aboutS)
		}
		extra := above - n
		switch {
		case extra >= -slack && extra <= slack:
			return aboutS
		case extra > 0:
			low = aboutS
		default:
			high = aboutS
			n -= above
		}
		margins = between(margins, low, high)
		if len(margins) <= few {
			break
		}
		if math.IsInf(low, -1) || math.IsInf(high, 1) {
			aboutS += spreadS * float64(extra) / all
		} else {
			share := float64(len(margins)-n) / float64(len(margins))
			aboutS = low + (high-low)*min(max(share, 0.1), 0.9)
		}
	}
	leastS, nextS := selectLargest(margins, n-1), math.Inf(-1)
	for _, x := range margins[n:] {
		nextS = max(nextS, x)
	}
	const most = 0.5 // also below the last margin
	return leastS - min((leastS-nextS)/2, most)
}

// between leaves those above low and not above high, in their order.
func between(x []float64, low, high float64) []float64 {
	n := 0
	for _, y := range x { // each is written, and counted if it stays: see oneIf
		x[n] = y
		n += oneIf(y > low) & oneIf(y <= high)
	}
	return x[:n]
}

// oneIf is 1 or 0, without a branch: which margins would have mispredicted half the time.
func oneIf(b bool) (n int) {
	if b {
		n = 1
	}
	return n
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
	for k := range width {
		v.exchangeS[k*width+k] = math.Inf(1) // nobody moves to where it is
	}
	server := v.server
	now, exchangeS, exchangeOf := v.marginS[:len(server)], v.exchangeS, v.exchangeOf
	gainsOf := v.gainsOf
	for i, from := range server {
		now[i] = gainsOf[from][i]
		if k := from * width; -now[i] > exchangeS[k] {
			exchangeS[k], exchangeOf[k] = -now[i], i
		}
	}
	for k, m := range v.active {
		gains := v.gains[k][:len(server)]
		for i, from := range server {
			if x, k := gains[i]-now[i], from*width+m+1; x > exchangeS[k] {
				exchangeS[k], exchangeOf[k] = x, i
			}
		}
	}
	for k := range width {
		v.exchangeS[k*width+k] = math.Inf(-1)
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
