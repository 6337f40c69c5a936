package dispatch

import "math"

// neighbours are the gains at an aircraft where it serves as many as now, one more or one fewer.
type neighbours struct {
	now, more, fewer []float64 // by member; now and fewer are nil where it serves nobody
	// What those that it serves, and its unreported load, gain together by one who joins them or leaves.
	joinS, leaveS float64
}

// polish improves the best assignment by the two moves of local search for generalised assignment (Osman, OR Spektrum 17, 1995): a
// shift of one user to another server, and an interchange of two users of different servers. The best move of all is made, until
// none improves the assignment. With one or two aircraft the counts nearby are valued instead; with many users single ones matter
// little.
func (v *valuer) polish() {
	if v.aircraft <= 2 || v.weight != 1 || len(v.members) > polishedUsers {
		return
	}
	f := &v.found
	for range 4 * len(v.members) { // rounding must not go on for ever
		v.valueNeighbours()
		gainS, user, to := v.bestShift(tolerance * (1 + math.Abs(f.gainS)))
		if interchangeS, a, b := v.bestInterchange(gainS); a >= 0 {
			f.gainS += interchangeS
			f.server[a], f.server[b] = f.server[b], f.server[a]
			continue
		}
		if user < 0 {
			return
		}
		f.gainS += gainS
		if from := f.server[user]; from > 0 {
			f.counts[from-1]--
		}
		if to > 0 {
			f.counts[to-1]++
		}
		f.server[user] = to
	}
}

// valueNeighbours fills in v.near for the best assignment. Server 0, each user's own CPU, has none.
func (v *valuer) valueNeighbours() {
	f := &v.found
	for m, n := range f.counts {
		now, more := v.column(m, n), v.column(m, n+1)
		x := neighbours{more: more.gainsS, joinS: now.costS - more.costS}
		if n > 0 {
			fewer := v.column(m, n-1)
			x.now, x.fewer, x.leaveS = now.gainsS, fewer.gainsS, now.costS-fewer.costS
			if n == 1 {
				x.fewer = v.nobodyS
			}
		}
		v.near[m+1] = x
	}
	for i, server := range f.server {
		if server > 0 {
			x := &v.near[server]
			x.joinS += x.more[i] - x.now[i]
			x.leaveS += x.fewer[i] - x.now[i]
		}
	}
}

// bestShift finds the user and the server to which it goes for the largest gain above a least one; no user, -1, if there is none.
func (v *valuer) bestShift(leastS float64) (bestS float64, user, to int) {
	bestS, user = leastS, -1
	for i, from := range v.found.server {
		goneS := 0.0 // what its leaving alone gains
		if from > 0 {
			x := &v.near[from]
			if goneS = x.leaveS - x.fewer[i]; goneS > bestS {
				bestS, user, to = goneS, i, 0
			}
		}
		for server := 1; server <= v.aircraft; server++ {
			if x := &v.near[server]; server != from && goneS+x.joinS+x.more[i] > bestS {
				bestS, user, to = goneS+x.joinS+x.more[i], i, server
			}
		}
	}
	return bestS, user, to
}

// bestInterchange finds the two users who change places for the largest gain above a least one; -1 if there are none. The counts
// stay, so that of each ordered pair of servers the one user whose way from the first to the second gains most is enough.
func (v *valuer) bestInterchange(leastS float64) (bestS float64, first, second int) {
	width := v.aircraft + 1
	for i := range v.exchangeS {
		v.exchangeS[i] = math.Inf(-1)
	}
	for i, from := range v.found.server {
		nowS := 0.0
		if from > 0 {
			nowS = v.near[from].now[i]
		}
		for to := range width {
			thereS, pair := 0.0, from*width+to
			if to > 0 {
				if to == from || v.near[to].now == nil { // nobody is there to come back
					continue
				}
				thereS = v.near[to].now[i]
			}
			if thereS-nowS > v.exchangeS[pair] {
				v.exchangeS[pair], v.exchangeOf[pair] = thereS-nowS, i
			}
		}
	}
	bestS, first, second = leastS, -1, -1
	for a := range width {
		for b := range a {
			if x := v.exchangeS[a*width+b] + v.exchangeS[b*width+a]; x > bestS {
				bestS, first, second = x, v.exchangeOf[a*width+b], v.exchangeOf[b*width+a]
			}
		}
	}
	return bestS, first, second
}
