package dispatch

import (
	"math"

	"prefdt/inference/reuse"
)

// searchOptions bounds the options evaluated for one slot, 10 to 20 ns each,
// and with them the time of any slot, whatever its size.
const searchOptions = 1.5e6

// search is the memory of the local search. Rows are (user, aircraft).
type search struct {
	at   []float64 // cost at the present count
	join []float64 // cost with one user more
	quit []float64 // per user: its cost with one user less at its own aircraft

	count   []int
	sum     []float64 // per aircraft, over its users: cost at the count
	more    []float64 // the same with one user more
	fewer   []float64 // the same with one user less
	toll    []float64
	planned []int

	server []int
	kept   []int
	swap   []exchange
	spent  float64 // options evaluated
}

// exchange is the cheapest change of one user from one server to another.
type exchange struct {
	costS float64
	user  int
}

// solveSearch descends by the best move or swap from several starts and keeps
// the best end. Best, not first, improvement: the result does not depend on
// the order of users or aircraft, but for exact ties.
func (s *Solver) solveSearch() {
	x := &s.search
	users, aircraft := len(s.users), len(s.snap.Aircraft)
	if aircraft == 0 || users == 0 {
		return
	}
	pairs := users * aircraft
	x.at, x.join, x.quit = reuse.Slice(x.at, pairs), reuse.Slice(x.join, pairs), reuse.Slice(x.quit, users)
	x.count, x.planned = reuse.Slice(x.count, aircraft), reuse.Slice(x.planned, aircraft)
	x.sum, x.more, x.fewer = reuse.Slice(x.sum, aircraft), reuse.Slice(x.more, aircraft), reuse.Slice(x.fewer, aircraft)
	x.toll = reuse.Slice(x.toll, aircraft)
	x.server = reuse.Slice(x.server, users)
	x.swap = reuse.Slice(x.swap, (aircraft+1)*(aircraft+1))
	x.spent = 0

	bestS := math.Inf(1)
	descend := func() {
		if costS := s.descend(); costS < bestS {
			bestS = costS
			copy(s.server, x.server)
		}
	}
	s.startTolls()
	descend()
	clear(x.server)
	descend()
	// A high price rewards small shares, so that serving many can pay where
	// serving one does not, and single moves do not lead there. So also come
	// from the other side: everybody served, by one aircraft or by their
	// fastest links, then one user less at a time.
	for crowd := range aircraft + 1 {
		if x.spent+float64(users*(2*aircraft+users)) > searchOptions {
			break
		}
		for i := range users {
			x.server[i] = 0
			for m, rate := range s.rate[i*aircraft:][:aircraft] {
				if rate > 0 && (m == crowd || crowd == aircraft && (x.server[i] == 0 || rate > s.rate[i*aircraft+x.server[i]-1])) {
					x.server[i] = m + 1
				}
			}
		}
		s.peel()
		descend()
	}
}

// peel sends users home one at a time, the one that costs least first, until
// nobody is served, and leaves x.server as it was cheapest on the way.
func (s *Solver) peel() {
	x := &s.search
	s.tabulate()
	x.kept = append(x.kept[:0], x.server...)
	costS, leastS := 0.0, 0.0
	for {
		user, changeS := -1, math.Inf(1)
		for i, from := range x.server {
			if from > 0 {
				if change := x.fewer[from-1] - x.quit[i] - x.sum[from-1] + s.users[i].localCost; change < changeS {
					user, changeS = i, change
				}
			}
		}
		if user < 0 || x.spent > searchOptions {
			break
		}
		from := x.server[user] - 1
		x.server[user] = 0
		s.recount(from, -1)
		if costS += changeS; costS < leastS {
			leastS = costS
			copy(x.kept, x.server)
		}
	}
	copy(x.server, x.kept)
}

// startTolls assigns users as congestion tolls suggest: each takes its cheapest
// option at the planned shares plus the toll, which is what one user more
// costs those an aircraft already serves; plans and tolls follow, damped.
func (s *Solver) startTolls() {
	x := &s.search
	users, aircraft := len(s.users), len(s.snap.Aircraft)
	for m := range aircraft {
		x.planned[m] = max(1, users/(aircraft+1))
	}
	clear(x.toll)
	rounds := int(min(max(searchOptions/8/float64(users*aircraft), 1), 10))
	for range rounds {
		clear(x.count)
		for i := range s.users {
			least, server := s.users[i].localCost, 0
			for m := range aircraft {
				if _, costS := s.option(i, m, x.planned[m]); costS+x.toll[m] < least {
					least, server = costS+x.toll[m], m+1
				}
			}
			x.server[i] = server
			if server > 0 {
				x.count[server-1]++
			}
		}
		clear(x.toll)
		for m := range aircraft {
			x.planned[m] = max(1, (x.planned[m]+x.count[m]+1)/2)
		}
		for i, server := range x.server {
			if server > 0 {
				m := server - 1
				_, nowS := s.option(i, m, x.planned[m])
				_, moreS := s.option(i, m, x.planned[m]+1)
				x.toll[m] += moreS - nowS
			}
		}
		x.spent += float64(users * (aircraft + 2))
	}
}

// tabulate fills the tables for the counts of x.server.
func (s *Solver) tabulate() {
	x := &s.search
	users, aircraft := len(s.users), len(s.snap.Aircraft)
	clear(x.count)
	for _, server := range x.server {
		if server > 0 {
			x.count[server-1]++
		}
	}
	for i := range users {
		for m := range aircraft {
			x.at[i*aircraft+m] = math.Inf(1)
			if x.count[m] > 0 {
				_, x.at[i*aircraft+m] = s.option(i, m, x.count[m])
			}
			_, x.join[i*aircraft+m] = s.option(i, m, x.count[m]+1)
		}
	}
	for m := range aircraft {
		s.sums(m)
	}
	x.spent += float64(2 * users * aircraft)
}

// descend improves x.server until no move and no swap helps, or the slot's
// options are spent, and returns its cost.
func (s *Solver) descend() float64 {
	x := &s.search
	users, aircraft := len(s.users), len(s.snap.Aircraft)
	s.tabulate()
	for x.spent < searchOptions {
		user, server, moveS := s.bestMove()
		first, second, swapS := s.bestSwap()
		x.spent += float64(users*aircraft) / 8 // reading the tables takes time too
		if min(moveS, swapS) > -1e-12 {
			break
		}
		if swapS < moveS {
			x.server[first], x.server[second] = x.server[second], x.server[first]
			s.sums(x.server[first] - 1)
			s.sums(x.server[second] - 1)
		} else {
			from := x.server[user]
			x.server[user] = server
			s.recount(from-1, -1)
			s.recount(server-1, +1)
		}
	}
	costS := 0.0
	for i, server := range x.server {
		if server == 0 {
			costS += s.users[i].localCost
		}
	}
	for m := range aircraft {
		costS += x.sum[m]
	}
	return costS
}

// recount changes how many users aircraft m (from 0; -1 is local) serves.
func (s *Solver) recount(m, change int) {
	if m < 0 {
		return
	}
	x := &s.search
	aircraft := len(s.snap.Aircraft)
	x.count[m] += change
	n := x.count[m]
	for i := range s.users {
		at, join := &x.at[i*aircraft+m], &x.join[i*aircraft+m]
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
	x.spent += float64(len(s.users))
	s.sums(m)
}

// sums adds up what an aircraft's users cost at its count, and one around it.
func (s *Solver) sums(m int) {
	if m < 0 {
		return
	}
	x := &s.search
	aircraft := len(s.snap.Aircraft)
	n := x.count[m]
	x.sum[m], x.more[m], x.fewer[m] = s.tollS(m, n), s.tollS(m, n+1), s.tollS(m, max(n-1, 0))
	for i, server := range x.server {
		if server != m+1 {
			continue
		}
		x.quit[i] = 0
		if n > 1 {
			_, x.quit[i] = s.option(i, m, n-1)
		}
		x.sum[m] += x.at[i*aircraft+m]
		x.more[m] += x.join[i*aircraft+m]
		x.fewer[m] += x.quit[i]
	}
	x.spent += float64(n)
}

// bestMove returns the user, its new server and the change of cost of the best
// single reassignment.
func (s *Solver) bestMove() (user, server int, changeS float64) {
	x := &s.search
	aircraft := len(s.snap.Aircraft)
	for i, from := range x.server {
		left := -s.users[i].localCost
		if from > 0 {
			left = x.fewer[from-1] - x.quit[i] - x.sum[from-1]
			if back := left + s.users[i].localCost; back < changeS {
				user, server, changeS = i, 0, back
			}
		}
		for m := range aircraft {
			if m == from-1 {
				continue
			}
			if change := left + x.more[m] + x.join[i*aircraft+m] - x.sum[m]; change < changeS {
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
	aircraft := len(s.snap.Aircraft)
	width := aircraft + 1
	for i := range x.swap {
		x.swap[i].costS = math.Inf(1)
	}
	for i, from := range x.server {
		now := s.users[i].localCost
		if from > 0 {
			now = x.at[i*aircraft+from-1]
			if e := &x.swap[from*width]; s.users[i].localCost-now < e.costS {
				*e = exchange{s.users[i].localCost - now, i}
			}
		}
		for m := range aircraft {
			if e := &x.swap[from*width+m+1]; x.at[i*aircraft+m]-now < e.costS {
				*e = exchange{x.at[i*aircraft+m] - now, i}
			}
		}
	}
	for a := range width {
		for b := range a {
			if change := x.swap[a*width+b].costS + x.swap[b*width+a].costS; change < changeS {
				first, second, changeS = x.swap[a*width+b].user, x.swap[b*width+a].user, change
			}
		}
	}
	return first, second, changeS
}
