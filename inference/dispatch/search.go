package dispatch

import (
	"math"

	"prefdt/inference/reuse"
)

// searchMaxOptions bounds the options evaluated for one slot, 10 to 20 ns each, and
// with them the time that a slot of any size takes.
const searchMaxOptions = 1.5e6

// localSearch is the working memory of the local search. Costs are (user, aircraft).
type localSearch struct {
	costAtCountS  []float64 // at the present count
	costOneMoreS  []float64 // with one user more
	costOneFewerS []float64 // per user: with one user fewer at its own aircraft

	count        []int     // per aircraft, users served
	sumAtCountS  []float64 // per aircraft, cost of its users and its unreported load
	sumOneMoreS  []float64 // the same with one user more
	sumOneFewerS []float64 // the same with one user fewer
	externalityS []float64 // per aircraft, what one user more costs those it serves
	plannedCount []int

	server           []int      // the assignment being improved
	cheapestServer   []int      // the cheapest that dropUsersGreedily passed
	cheapestExchange []exchange // (from, to)
	optionsEvaluated float64
}

// exchange is the cheapest change of one user from one server to another.
type exchange struct {
	changeS float64
	user    int
}

// solveSearch descends by the best move or swap from several starts and keeps the
// best result. Because it takes the best, not the first, improvement, the result
// does not depend on the order of users or aircraft, except in exact ties.
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
	// A high price rewards small shares, so that serving many can cost less where
	// serving one does not, and single moves do not lead there. So the search also
	// starts from everybody served, by one aircraft or each over its fastest link,
	// and then drops one user at a time.
	for only := range aircraft + 1 {
		if x.optionsEvaluated+float64(users*(2*aircraft+users)) > searchMaxOptions {
			break
		}
		for i := range users {
			x.server[i] = 0
			for m, rate := range s.rateBPS[i*aircraft:][:aircraft] {
				if rate > 0 && (m == only || only == aircraft && (x.server[i] == 0 || rate > s.rateBPS[i*aircraft+x.server[i]-1])) {
					x.server[i] = m + 1
				}
			}
		}
		s.dropUsersGreedily()
		descend()
	}
}

// dropUsersGreedily drops served users one at a time, the one whose change costs least
// first, and leaves in x.server the cheapest assignment on the way.
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

// startFromExternalities assigns users as congestion prices would: each takes its
// cheapest option at the planned shares, where an aircraft's externality, what one
// user more costs those it already serves, is added to its options. Plans and
// externalities follow the assignment, damped, for some rounds.
func (s *Solver) startFromExternalities() {
	x := &s.search
	users, aircraft := len(s.users), len(s.snapshot.Aircraft)
	for m := range aircraft {
		x.plannedCount[m] = max(1, users/(aircraft+1))
	}
	clear(x.externalityS)
	rounds := int(min(max(searchMaxOptions/8/float64(users*aircraft), 1), 10))
	for range rounds {
		for i := range s.users {
			least, server := s.users[i].localCostS, 0
			for m := range aircraft {
				if _, costS := s.option(i, m, x.plannedCount[m]); costS+x.externalityS[m] < least {
					least, server = costS+x.externalityS[m], m+1
				}
			}
			x.server[i] = server
		}
		countServed(x.count, x.server)
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

func (s *Solver) fillTables() {
	x := &s.search
	users, aircraft := len(s.users), len(s.snapshot.Aircraft)
	countServed(x.count, x.server)
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

// descend improves x.server until no move and no swap reduces the cost, or the
// slot's options are used up, and returns the cost.
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

// changeCount adjusts the tables to one user more or fewer at aircraft m, counted
// from 0; at -1, local, there are none.
func (s *Solver) changeCount(m, change int) {
	if m < 0 {
		return
	}
	x := &s.search
	aircraft := len(s.snapshot.Aircraft)
	x.count[m] += change
	n := x.count[m]
	for i := range s.users {
		atCount, oneMore := &x.costAtCountS[i*aircraft+m], &x.costOneMoreS[i*aircraft+m]
		if change > 0 {
			*atCount = *oneMore
			_, *oneMore = s.option(i, m, n+1)
		} else {
			*oneMore, *atCount = *atCount, math.Inf(1)
			if n > 0 {
				_, *atCount = s.option(i, m, n)
			}
		}
	}
	x.optionsEvaluated += float64(len(s.users))
	s.updateSums(m)
}

// updateSums adds up the cost of an aircraft's users and unreported load, at its
// count and at one more and one fewer.
func (s *Solver) updateSums(m int) {
	if m < 0 {
		return
	}
	x := &s.search
	aircraft := len(s.snapshot.Aircraft)
	n := x.count[m]
	x.sumAtCountS[m], x.sumOneMoreS[m], x.sumOneFewerS[m] = s.unreported(m, n).costS, s.unreported(m, n+1).costS, s.unreported(m, max(n-1, 0)).costS
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

// bestMove returns the best single reassignment: user, new server, change of cost.
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

// bestSwap returns the two users whose exchange reduces the cost most. An exchange
// changes no count, so the changes of its two users do not depend on each other,
// and the cheapest user for each pair of servers suffices.
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
