package dispatch

import (
	"math"
	"math/bits"

	"prefdt/inference/reuse"
)

const (
	// enumerableVectors is how many count vectors a slot may have at which all of them are
	// valued. Most are ruled out by their first bound.
	enumerableVectors = 300
	// sampledUsers is how many users, evenly spaced in a sorted order, a search for counts
	// uses in place of more than twice as many. It ends with all of them.
	sampledUsers = 160
	maxUnsampled = 200
	// partitionUsers is how many users are assigned by their subsets, where there are more
	// aircraft than count vectors can be enumerated for.
	partitionUsers = 8
	// fewAircraft is how many there may be so that any counts are valued exactly; and for so
	// many, more starts are tried.
	fewAircraft = 3
	// polishedUsers is up to how many users single ones are moved at the end, where there are
	// more than two aircraft.
	polishedUsers = 400
	// Steps of counts: the first, the first from the counts of a sample, and the last.
	firstStep, fineStep, leastStep = 0.12, 0.04, 0.01
)

// metPrice is what was found at a price.
type metPrice struct {
	priceSPerJ float64
	counts     []int
	delayS     float64 // all but the edge energy
	edgeJ      float64
}

// search finds the best counts at a price, out of starts and, if there are few enough
// users, all others. It leaves the solution in v.found.
func (v *valuer) search(priceSPerJ float64, starts ...[]int) {
	if v.partitions() {
		v.partition(priceSPerJ)
		return
	}
	v.at(priceSPerJ)
	if v.enumerable() {
		for _, counts := range starts {
			v.value(counts)
		}
		v.enumerate()
		return
	}
	if len(starts) == 0 {
		v.scan()
	}
	for _, counts := range starts {
		if v.aircraft > 2 {
			v.climbFrom(counts, firstStep, firstStep/2)
		} else {
			v.value(counts)
		}
	}
	if len(starts) > 0 && v.aircraft > 2 {
		v.tryAllAtOne()
	}
	v.finish(firstStep)
}

// tryAllAtOne tries to have everybody served by one aircraft, as at a high price.
func (v *valuer) tryAllAtOne() {
	const nearShare = 0.5 // of the best so far, below which few moves do not lead to a better one
	for m := range v.aircraft {
		v.beginApart()
		n := v.trial()
		n[m] = len(v.members)
		v.value(n)
		v.endApart(v.aircraft <= fewAircraft && v.found.gainS > v.kept.gainS-nearShare*math.Abs(v.kept.gainS))
	}
}

// finish climbs from the best counts by steps, and looks around where that leads.
func (v *valuer) finish(step float64) {
	v.climb(step, leastStep)
	if v.aircraft == fewAircraft && len(v.members) <= maxUnsampled {
		v.trySwaps()
	}
	if v.looksNearby() {
		v.tryNearby()
	}
	v.polish()
}

// finishSampled is finish from the counts of a sample. Of many aircraft each has few of its
// users, which say little about the counts; where polish does not follow either, each count
// is tried by a coarser step before.
func (v *valuer) finishSampled() {
	if v.aircraft > fewAircraft && len(v.members) > polishedUsers {
		v.tryEach(2 * fineStep)
	}
	v.finish(fineStep)
}

// enumerable is whether all count vectors are few.
func (v *valuer) enumerable() bool {
	vectors := 1.0
	for m := 1; m <= v.aircraft; m++ {
		vectors *= float64(len(v.members)+m) / float64(m)
	}
	return vectors <= enumerableVectors
}

// partitions is whether few users are assigned by their subsets.
func (v *valuer) partitions() bool {
	return len(v.members) <= partitionUsers && v.aircraft > 3
}

// enumerate values all count vectors.
func (v *valuer) enumerate() {
	n := v.trial()
	for sum := 0; ; {
		v.value(n)
		m := 0
		for ; m < len(n); m++ {
			if sum < len(v.members) {
				n[m]++
				sum++
				break
			}
			sum -= n[m]
			n[m] = 0
		}
		if m == len(n) {
			return
		}
	}
}

// trial returns counts of zero to change and value.
func (v *valuer) trial() []int {
	v.trialCounts = reuse.Slice(v.trialCounts, v.aircraft)
	return v.trialCounts
}

// scan finds a first solution. The value of counts has several basins: one aircraft may be a
// fast lane and another a slow one, and at a high price few serve many. For up to two
// aircraft a lattice of counts is valued. For more, all aircraft serve at first, then one
// fewer at a time; and each such set is climbed from.
func (v *valuer) scan() {
	if v.aircraft <= 2 {
		v.scanPairs()
		v.trySwaps()
		return
	}
	v.serves, v.startCounts = reuse.Slice(v.serves, v.aircraft), reuse.Slice(v.startCounts, v.aircraft)
	for m := range v.serves {
		v.serves[m] = true
	}
	for size := v.aircraft; size > 0; size-- {
		v.serveAll(size)
		copy(v.startCounts, v.trialCounts)
		v.climbFrom(v.startCounts, 0.5, 0.1)
		drop, mostS := 0, math.Inf(-1)
		for m := range v.serves {
			if !v.serves[m] || size == 1 {
				continue
			}
			v.serves[m] = false
			if x := v.serveAll(size - 1); x > mostS {
				drop, mostS = m, x
			}
			v.serves[m] = true
		}
		v.serves[drop] = false
	}
	if v.aircraft == fewAircraft {
		v.trySwaps()
	}
}

// scanPairs values a lattice of the counts of two aircraft, in three parts: one has more
// than twice as many as the other, or neither. From the best of each it climbs. A sample
// has a lattice of a geometric series: it cannot tell its counts apart more finely.
func (v *valuer) scanPairs() {
	next := func(c int) int { return c + 2 + len(v.members)/50 }
	if v.weight != 1 {
		next = func(c int) int { return max(c+1, c*3/2) }
	}
	for part := range 3 {
		v.beginApart()
		n, users := v.trial(), len(v.members)
		for a := 0; a <= users; a = next(a) {
			if n[0] = a; v.aircraft == 1 {
				if part == 0 {
					v.value(n)
				}
				continue
			}
			for b := 0; a+b <= users; b = next(b) {
				if n[1] = b; part == 0 && a > 2*b || part == 1 && b > 2*a || part == 2 && a <= 2*b && b <= 2*a {
					v.value(n)
				}
			}
		}
		v.climbApart(firstStep, firstStep/4)
	}
}

// serveAll has everybody served by one of the serving aircraft, each by its best at equal
// counts, leaves the counts in v.trialCounts and returns what that gains at these.
func (v *valuer) serveAll(serving int) (gainS float64) {
	n := v.trial()
	equal := max(len(v.members)/serving, 1)
	for i := range v.members {
		best, bestS := -1, unusableS/2
		for m, serves := range v.serves {
			if serves {
				if g := v.column(m, equal).gainsS[i]; g > bestS {
					best, bestS = m, g
				}
			}
		}
		if v.server[i] = best + 1; best >= 0 {
			n[best]++
		}
	}
	for m := range n {
		gainS -= v.column(m, n[m]).costS
	}
	for i, server := range v.server {
		if server > 0 {
			gainS += v.column(server-1, n[server-1]).gainsS[i]
		}
	}
	return gainS
}

// climbFrom climbs from counts, however much less they gain than the best so far.
func (v *valuer) climbFrom(counts []int, step, least float64) {
	v.beginApart()
	v.value(counts)
	v.climbApart(step, least)
}

// beginApart sets the best so far aside, so that what gains less is kept too.
func (v *valuer) beginApart() {
	v.found, v.kept = v.kept, v.found
	v.found.gainS = worstS
}

// climbApart climbs from what was found since beginApart, if anything was, and ends that.
func (v *valuer) climbApart(step, least float64) {
	if v.found.gainS > worstS {
		v.climb(step, least)
	}
	v.endApart(v.found.gainS > worstS)
}

// endApart polishes what was found since beginApart, if it is worth it, and keeps the better
// of that and the best before.
func (v *valuer) endApart(worthPolishing bool) {
	if worthPolishing {
		v.polish()
	}
	if v.found.gainS <= v.kept.gainS {
		v.found, v.kept = v.kept, v.found
	}
}

// climb improves the best counts by changes of all of them, or of one or two of two, by a
// share of a count that is halved when none improves, down to least or to one user.
func (v *valuer) climb(step, least float64) {
	if v.aircraft > 2 {
		v.tryToggling()
	}
	for {
		switch fine := v.isFine(step); {
		case v.tryTogether(step) || v.aircraft <= 2 && v.tryAll(step):
		case fine || step <= least:
			return
		default:
			step /= 2
		}
	}
}

// tryToggling tries to have each aircraft that serves serve nobody, the others as many
// more, and each that does not serve as many as another, or a few.
func (v *valuer) tryToggling() {
	for m := range v.aircraft {
		total, serving := 0, 0
		for _, n := range v.found.counts {
			if total += n; n > 0 {
				serving++
			}
		}
		if own := v.found.counts[m]; own > 0 {
			v.tryAt(m, 0, total)
			continue
		}
		v.tryAt(m, total/(serving+1), total)
		if v.aircraft <= fewAircraft {
			v.tryAt(m, total/6, total)
		}
	}
}

// tryAt tries to have an aircraft serve n, and the others the rest of a total, in
// proportion.
func (v *valuer) tryAt(m, n, total int) {
	others := total - v.found.counts[m]
	if others == 0 || n == v.found.counts[m] {
		return
	}
	counts := v.trial()
	for q, c := range v.found.counts {
		counts[q] = c * (total - n) / others
	}
	counts[m] = n
	v.value(counts)
}

// change is a step of an aircraft's count.
func (v *valuer) change(m int, step float64) int { return max(int(step*float64(v.found.counts[m])), 1) }

// isFine is whether no change of a step is of more than one user, or of those that are
// tried in any case.
func (v *valuer) isFine(step float64) bool {
	most := 1
	if v.looksNearby() {
		most = nearby
	}
	for m := range v.aircraft {
		if v.change(m, step) > most {
			return false
		}
	}
	return true
}

// try values the best counts with one changed by so many, and another by so many.
func (v *valuer) try(m, change, q, otherChange int) (improved bool) {
	n := v.trial()
	copy(n, v.found.counts)
	n[m] += change
	n[q] += otherChange
	if n[m] < 0 || n[q] < 0 || m == q && otherChange != 0 {
		return false
	}
	return v.improves(n)
}

// tryTogether tries to change all counts of those who serve, each in proportion to what one
// user more there gains: its multiplier, less what the others there lose.
func (v *valuer) tryTogether(step float64) (improved bool) {
	v.slopeS = reuse.Slice(v.slopeS, v.aircraft)
	total, meanS := 0, 0.0
	for m, n := range v.found.counts {
		if n == 0 {
			continue
		}
		d := max(min(v.change(m, step), len(v.members)-n), 1)
		now, more := v.column(m, n), v.column(m, n+d)
		gainS := now.costS - more.costS
		for i, server := range v.found.server {
			if server == m+1 {
				gainS += more.gainsS[i] - now.gainsS[i]
			}
		}
		v.slopeS[m] = v.found.multiplierS[m] + gainS/float64(d)
		total, meanS = total+n, meanS+float64(n)*v.slopeS[m]
	}
	if total < len(v.members) { // more can be served
		meanS = 0
	}
	meanS /= max(float64(total), 1)
	largestS := 0.0
	for m, n := range v.found.counts {
		if n > 0 {
			largestS = max(largestS, math.Abs(v.slopeS[m]-meanS))
		}
	}
	if largestS == 0 {
		return false
	}
	n, left := v.trial(), len(v.members)
	most := 0
	for m, c := range v.found.counts {
		if c > 0 {
			n[m] = max(c+int(math.Round(step*float64(c)*(v.slopeS[m]-meanS)/largestS)), 0)
		}
		left -= n[m]
		if n[m] > n[most] {
			most = m
		}
	}
	n[most] += min(left, 0)
	return n[most] >= 0 && v.improves(n)
}

// improves values counts and reports whether that improved the best.
func (v *valuer) improves(counts []int) bool {
	before := v.found.gainS
	v.value(counts)
	return v.found.gainS > before
}

// trySwaps climbs from the best counts with those of two aircraft swapped.
func (v *valuer) trySwaps() {
	v.startCounts = append(v.startCounts[:0], v.found.counts...)
	n := v.startCounts
	for m := range n {
		for q := range m {
			if n[m] != n[q] {
				n[m], n[q] = n[q], n[m]
				v.climbFrom(n, firstStep, firstStep/4)
				n[m], n[q] = n[q], n[m]
			}
		}
	}
}

// nearby is how far from the best counts of two aircraft all others are tried.
const nearby = 3

func (v *valuer) looksNearby() bool {
	return v.aircraft == 2 && v.weight == 1 && len(v.members) <= maxUnsampled
}

// tryNearby tries all counts of two aircraft near the best.
func (v *valuer) tryNearby() {
	a, b := v.found.counts[0], v.found.counts[1]
	for x := max(a-nearby, 0); x <= a+nearby; x++ {
		for y := max(b-nearby, 0); y <= b+nearby; y++ {
			n := v.trial()
			n[0], n[1] = x, y
			v.value(n)
		}
	}
}

// tryEach tries to change each count by a step, from whatever is the best by then.
func (v *valuer) tryEach(step float64) (improved bool) {
	for m := range v.aircraft {
		d := v.change(m, step)
		improved = v.try(m, d, m, 0) || improved
		improved = v.try(m, -d, m, 0) || improved
	}
	return improved
}

// tryAll tries that, and to move as many users from each aircraft to each other.
func (v *valuer) tryAll(step float64) (improved bool) {
	improved = v.tryEach(step)
	for m := range v.aircraft {
		for q := range v.aircraft {
			if d := min(v.change(m, step), v.found.counts[m]); q != m && d > 0 {
				improved = v.try(m, -d, q, d) || improved
			}
		}
	}
	return improved
}

// partition finds the best assignment of a few users, whatever the counts, by dynamic
// programming over their subsets: for each aircraft in turn, which it serves of those that
// the ones before it left.
func (v *valuer) partition(priceSPerJ float64) {
	v.at(priceSPerJ)
	users := len(v.members)
	subsets := 1 << users
	v.bestOfS, v.ownS = reuse.Slice(v.bestOfS, subsets), reuse.Slice(v.ownS, subsets)
	v.choice = reuse.Slice(v.choice, subsets*v.aircraft)
	for m := range v.aircraft {
		for n := range users + 1 { // one count after another, so that each column is filled once
			c := v.column(m, n)
			for set := range subsets {
				if bits.OnesCount(uint(set)) != n {
					continue
				}
				gainS := -c.costS
				for rest := uint(set); rest != 0; rest &= rest - 1 {
					gainS += c.gainsS[bits.TrailingZeros(rest)]
				}
				v.ownS[set] = gainS
			}
		}
		choice := v.choice[m*subsets:][:subsets]
		for set := subsets - 1; set >= 0; set-- { // from the largest, so that smaller ones are still of the aircraft before
			bestS, own := math.Inf(-1), 0
			for part := set; ; part = (part - 1) & set {
				if x := v.bestOfS[set&^part] + v.ownS[part]; x > bestS {
					bestS, own = x, part
				}
				if part == 0 {
					break
				}
			}
			v.bestOfS[set], choice[set] = bestS, uint16(own)
		}
	}
	set := subsets - 1
	v.found.gainS = v.bestOfS[set]
	for m := v.aircraft - 1; m >= 0; m-- {
		own := int(v.choice[m*subsets+set])
		for rest := uint(own); rest != 0; rest &= rest - 1 {
			v.found.server[bits.TrailingZeros(rest)] = m + 1
		}
		v.found.counts[m] = bits.OnesCount(uint(own))
		set &^= own
	}
}
