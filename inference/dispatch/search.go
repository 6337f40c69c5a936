package dispatch

import (
	"math"

	"prefdt/inference/reuse"
)

// searchMaxOptions bounds the options evaluated for one slot, 10 to 20 ns each,
// and with them the time of any slot, whatever its size.
const searchMaxOptions = 1.5e6

// localSearch is the memory of the local search. Rows are (user, aircraft).
type localSearch struct {
	costAtCountS  []float64 // cost at the present count
	costOneMoreS  []float64 // cost with one user more
	costOneFewerS []float64 // per user: its cost with one user less at its own aircraft

	count        []int
	sumAtCountS  []float64 // per aircraft, over its users: cost at the count
	sumOneMoreS  []float64 // the same with one user more
	sumOneFewerS []float64 // the same with one user less
	externalityS []float64
	plannedCount []int

	server           []int
	cheapestServer   []int
	cheapestExchange []exchange
	optionsEvaluated float64 // options evaluated
}

// exchange is the cheapest change of one user from one server to another.
type exchange struct {
	changeS float64
	user    int
}

// solveSearch descends by the best move or swap from several starts and keeps
// the best end. Best, not first, improvement: the result does not depend on
// the order of users or aircraft, but for exact ties.
func (s *Solver) solveSearch() {
	x := &s.search
	users, aircraft := len(s.users), len(s.snapshot.Aircraft)
	if aircraft == 0 || users == 0 {
		return
	}
	pairs := users * aircraft
	x.costAtCountS, x.costOneMoreS, x.costOneFewerS = reuse.Slice(x.costAtCountS, pairs), reuse.Slice(x.costOneMoreS, pairs), reuse.Slice(x.costOneFewerS, users)
	x.count, x.plannedCount = reuse.Slice(x.count, aircraft), reuse.Slice(x.plannedCount, aircraft)
	x.sumAtCountS, x.sumOneMoreS, x.sumOneFewerS = reuse.Slice(x.sumAtCountS, aircraft), reuse.Slice(x.sumOneMoreS, aircraft), reuse.Slice(x.sumOneFewerS, aircraft)
	x.externalityS = reuse.Slice(x.externalityS, aircraft)
	x.server = reuse.Slice(x.server, users)
	x.cheapestExchange = reuse.Slice(x.cheapestExchange, (aircraft+1)*(aircraft+1))
	x.optionsEvaluated = 0

	bestS := math.Inf(1)
	descend := func() {
		if costS := s.descend(); costS < bestS {
			bestS = costS
			copy(s.server, x.server)
		}
	}
	s.startFromExternalities()
	descend()
	clear(x.server)
	descend()
	// A high price rewards small shares, so that serving many can pay where
	// serving one does not, and single moves do not lead there. So also come
	// from the other side: everybody served, by one aircraft or by their
	// fastest links, then one user less at a time.
	for crowd := range aircraft + 1 {
		if x.optionsEvaluated+float64(users*(2*aircraft+users)) > searchMaxOptions {
			break
		}
		for i := range users {
			x.server[i] = 0
			for m, rate := range s.rateBPS[i*aircraft:][:aircraft] {
				if rate > 0 && (m == crowd || crowd == aircraft && (x.server[i] == 0 || rate > s.rateBPS[i*aircraft+x.server[i]-1])) {
					x.server[i] = m + 1
				}
			}
		}
		s.dropUsersGreedily()
		descend()
	}
}

// dropUsersGreedily sends users home one at a time, the one that costs least first, until
// nobody is served, and leaves x.server as it was cheapest on the way.
func (s *Solver) dropUsersGreedily() {
	x := &s.search
	s.fillTables()
	x.cheapestServer = append(x.cheapestServer[:0], x.server...)
	costS, leastS := 0.0, 0.0
	for {
		user, changeS := -1, math.Inf(1)
		for i, from := range x.server {
			if from > 0 {
				if change := x.sumOneFewerS[from-1] - x.costOneFewerS[i] - x.sumAtCountS[from-1] + s.users[i].localCostS; change < changeS {
					user, changeS = i, change
				}
			}
		}
		if user < 0 || x.optionsEvaluated > searchMaxOptions {
			break
		}
		from := x.server[user] - 1
		x.server[user] = 0
		s.changeCount(from, -1)
		if costS += changeS; costS < leastS {
			leastS = costS
			copy(x.cheapestServer, x.server)
		}
	}
	copy(x.server, x.cheapestServer)
}

// startFromExternalities assigns users as congestion tolls suggest: each takes its cheapest
// option at the planned shares plus the toll, which is what one user more
// costs those an aircraft already serves; plans and tolls follow, damped.
func (s *Solver) startFromExternalities() {
	x := &s.search
	users, aircraft := len(s.users), len(s.snapshot.Aircraft)
	for m := range aircraft {
		x.plannedCount[m] = max(1, users/(aircraft+1))
	}
	clear(x.externalityS)
	rounds := int(min(max(searchMaxOptions/8/float64(users*aircraft), 1), 10))
	for range rounds {
		clear(x.count)
		for i := range s.users {
			least, server := s.users[i].localCostS, 0
			for m := range aircraft {
				if _, costS := s.option(i, m, x.plannedCount[m]); costS+x.externalityS[m] < least {
					least, server = costS+x.externalityS[m], m+1
				}
			}
			x.server[i] = server
			if server > 0 {
				x.count[server-1]++
			}
		}
		clear(x.externalityS)
		for m := range aircraft {
			x.plannedCount[m] = max(1, (x.plannedCount[m]+x.count[m]+1)/2)
		}
		for i, server := range x.server {
			if server > 0 {
				m := server - 1
				_, nowS := s.option(i, m, x.plannedCount[m])
				_, moreS := s.option(i, m, x.plannedCount[m]+1)
				x.externalityS[m] += moreS - nowS
			}
		}
		x.optionsEvaluated += float64(users * (aircraft + 2))
	}
}

// fillTables fills the tables for the counts of x.server.
func (s *Solver) fillTables() {
	x := &s.search
	users, aircraft := len(s.users), len(s.snapshot.Aircraft)
	clear(x.count)
	for _, server := range x.server {
		if server > 0 {
			x.count[server-1]++
		}
	}
	for i := range users {
		for m := range aircraft {
			x.costAtCountS[i*aircraft+m] = math.Inf(1)
			if x.count[m] > 0 {
				_, x.costAtCountS[i*aircraft+m] = s.option(i, m, x.count[m])
			}
			_, x.costOneMoreS[i*aircraft+m] = s.option(i, m, x.count[m]+1)
		}
	}
	for m := range aircraft {
		s.updateSums(m)
	}
	x.optionsEvaluated += float64(2 * users * aircraft)
}

// descend improves x.server until no move and no swap helps, or the slot's
// options are spent, and returns its cost.
func (s *Solver) descend() float64 {
	x := &s.search
	users, aircraft := len(s.users), len(s.snapshot.Aircraft)
	s.fillTables()
	for x.optionsEvaluated < searchMaxOptions {
		user, server, moveS := s.bestMove()
		first, second, swapS := s.bestSwap()
		x.optionsEvaluated += float64(users*aircraft) / 8 // reading the tables takes time too
		if min(moveS, swapS) > -1e-12 {
			break
		}
		if swapS < moveS {
			x.server[first], x.server[second] = x.server[second], x.server[first]
			s.updateSums(x.server[first] - 1)
			s.updateSums(x.server[second] - 1)
		} else {
			from := x.server[user]
			x.server[user] = server
			s.changeCount(from-1, -1)
			s.changeCount(server-1, +1)
		}
	}
	costS := 0.0
	for i, server := range x.server {
		if server == 0 {
			costS += s.users[i].localCostS
		}
	}
	for m := range aircraft {
		costS += x.sumAtCountS[m]
	}
	return costS
}

// changeCount changes how many users aircraft m (from 0; -1 is local) serves.
func (s *Solver) changeCount(m, change int) {
	if m < 0 {
		return
	}
	x := &s.search
	aircraft := len(s.snapshot.Aircraft)
	x.count[m] += change
	n := x.count[m]
	for i := range s.users {
		at, join := &x.costAtCountS[i*aircraft+m], &x.costOneMoreS[i*aircraft+m]
		if change > 0 {
			*at = *join
			_, *join = s.option(i, m, n+1)
		} else {
			*join, *at = *at, math.Inf(1)
			if n > 0 {
				_, *at = s.option(i, m, n)
			}
		}
	}
	x.optionsEvaluated += float64(len(s.users))
	s.updateSums(m)
}

// updateSums adds up what an aircraft's users cost at its count, and one around it.
func (s *Solver) updateSums(m int) {
	if m < 0 {
		return
	}
	x := &s.search
	aircraft := len(s.snapshot.Aircraft)
	n := x.count[m]
	x.sumAtCountS[m], x.sumOneMoreS[m], x.sumOneFewerS[m] = s.unreportedCostS(m, n), s.unreportedCostS(m, n+1), s.unreportedCostS(m, max(n-1, 0))
	for i, server := range x.server {
		if server != m+1 {
			continue
		}
		x.costOneFewerS[i] = 0
		if n > 1 {
			_, x.costOneFewerS[i] = s.option(i, m, n-1)
		}
		x.sumAtCountS[m] += x.costAtCountS[i*aircraft+m]
		x.sumOneMoreS[m] += x.costOneMoreS[i*aircraft+m]
		x.sumOneFewerS[m] += x.costOneFewerS[i]
	}
	x.optionsEvaluated += float64(n)
}

// bestMove returns the user, its new server and the change of cost of the best
// single reassignment.
func (s *Solver) bestMove() (user, server int, changeS float64) {
	x := &s.search
	aircraft := len(s.snapshot.Aircraft)
	for i, from := range x.server {
		left := -s.users[i].localCostS
		if from > 0 {
			left = x.sumOneFewerS[from-1] - x.costOneFewerS[i] - x.sumAtCountS[from-1]
			if back := left + s.users[i].localCostS; back < changeS {
				user, server, changeS = i, 0, back
			}
		}
		for m := range aircraft {
			if m == from-1 {
				continue
			}
			if change := left + x.sumOneMoreS[m] + x.costOneMoreS[i*aircraft+m] - x.sumAtCountS[m]; change < changeS {
				user, server, changeS = i, m+1, change
			}
		}
	}
	return user, server, changeS
}

// bestSwap returns the two users whose exchange changes the cost most. It
// changes no count, so each half's change is its own and halves can be paired.
func (s *Solver) bestSwap() (first, second int, changeS float64) {
	x := &s.search
	aircraft := len(s.snapshot.Aircraft)
	width := aircraft + 1
	for i := range x.cheapestExchange {
		x.cheapestExchange[i].changeS = math.Inf(1)
	}
	for i, from := range x.server {
		now := s.users[i].localCostS
		if from > 0 {
			now = x.costAtCountS[i*aircraft+from-1]
			if e := &x.cheapestExchange[from*width]; s.users[i].localCostS-now < e.changeS {
				*e = exchange{s.users[i].localCostS - now, i}
			}
		}
		for m := range aircraft {
			if e := &x.cheapestExchange[from*width+m+1]; x.costAtCountS[i*aircraft+m]-now < e.changeS {
				*e = exchange{x.costAtCountS[i*aircraft+m] - now, i}
			}
		}
	}
	for a := range width {
		for b := range a {
			if change := x.cheapestExchange[a*width+b].changeS + x.cheapestExchange[b*width+a].changeS; change < changeS {
				first, second, changeS = x.cheapestExchange[a*width+b].user, x.cheapestExchange[b*width+a].user, change
			}
		}
	}
	return first, second, changeS
}
