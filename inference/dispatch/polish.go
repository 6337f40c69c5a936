package dispatch

import "math"

// neighbours are the gains at an aircraft with its present count, one more and one fewer, and
// what those it serves and its unreported load gain by one who comes or leaves.
type neighbours struct {
	now, more, fewer []float64 // by member; now and fewer are nil where it serves nobody
	joinS, leaveS    float64
}

// polish improves the best assignment by single users who change their server, and by pairs
// who swap, the best first, until none improves it. With one or two aircraft the counts
// nearby are valued instead; with many users single ones matter little.
func (v *valuer) polish() {
	if v.aircraft <= 2 || v.weight != 1 || len(v.members) > polishedUsers {
		return
	}
	f, width := &v.found, v.aircraft+1
	for range 4 * len(v.members) { // rounding must not go on for ever
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
		for i := range v.exchangeS {
			v.exchangeS[i] = math.Inf(-1)
		}
		bestS, user, to := tolerance*(1+math.Abs(f.gainS)), -1, 0
		for i, from := range f.server {
			nowS, goneS := 0.0, 0.0
			if from > 0 {
				x := &v.near[from]
				nowS = x.now[i]
				goneS = x.leaveS - x.fewer[i]
				if goneS > bestS {
					bestS, user, to = goneS, i, 0
				}
			}
			exchangeS, exchangeOf := v.exchangeS[from*width:][:width], v.exchangeOf[from*width:][:width]
			if -nowS > exchangeS[0] {
				exchangeS[0], exchangeOf[0] = -nowS, i
			}
			for k := 1; k < width; k++ {
				if k == from {
					continue
				}
				x := &v.near[k]
				if y := goneS + x.joinS + x.more[i]; y > bestS {
					bestS, user, to = y, i, k
				}
				if x.now != nil && x.now[i]-nowS > exchangeS[k] {
					exchangeS[k], exchangeOf[k] = x.now[i]-nowS, i
				}
			}
		}
		other := -1
		for a := range width {
			for b := range a {
				if x := v.exchangeS[a*width+b] + v.exchangeS[b*width+a]; x > bestS {
					bestS, user, other = x, v.exchangeOf[a*width+b], v.exchangeOf[b*width+a]
				}
			}
		}
		if user < 0 {
			return
		}
		f.gainS += bestS
		if other >= 0 {
			f.server[user], f.server[other] = f.server[other], f.server[user]
			continue
		}
		if from := f.server[user]; from > 0 {
			f.counts[from-1]--
		}
		if to > 0 {
			f.counts[to-1]++
		}
		f.server[user] = to
	}
}
