package dispatch

import (
	"math"

	"prefdt/inference/reuse"
)

const (
	exactMaxAircraft = 3 // the dynamic program has one axis per aircraft
	// exactMaxSteps bounds the steps of one slot's dynamic programs, about a
	// nanosecond each, if none of them were pruned.
	exactMaxSteps = 4e6
)

// dynamicProgram is the working memory of exact dispatch.
type dynamicProgram struct {
	costS       []float64 // (user, aircraft, count) -> seconds
	candidates  []countVector
	leastCostS  []float64 // by state
	choice      []uint8   // (user, state) -> server
	boundServer []int     // the assignment of the bound
}

// countVector is one choice of how many users each aircraft serves.
type countVector struct {
	counts [exactMaxAircraft]int
	boundS float64 // no assignment with these counts costs less
}

// exactSteps estimates the steps of exact dispatch: one for each user and option
// and each state of each count vector's table. The tables of all vectors with at
// most that many users in total have C(users+2M, 2M) states together.
func exactSteps(aircraft, users int) float64 {
	if aircraft > exactMaxAircraft {
		return math.Inf(1)
	}
	states := 1.0
	for i := 1; i <= 2*aircraft; i++ {
		states *= float64(users+i) / float64(i)
	}
	return states * float64(users) * float64(aircraft+1)
}

// solveExact finds the optimum over all count vectors. A lower bound for each is
// the cost of every user's cheapest option at its shares, whether or not those
// options add up to the counts. The vectors are solved in order of their bounds,
// until a bound exceeds the least cost found.
func (s *Solver) solveExact() {
	e := &s.exact
	users, aircraft := len(s.users), len(s.snapshot.Aircraft)
	if aircraft == 0 || users == 0 {
		return // all local, as prepare left it
	}
	e.costS = reuse.Slice(e.costS, users*aircraft*(users+1))
	for i := range users {
		for m := range aircraft {
			row := e.costS[(i*aircraft+m)*(users+1):][:users+1]
			row[0] = math.Inf(1)
			for n := 1; n <= users; n++ {
				_, row[n] = s.option(i, m, n)
			}
		}
	}
	e.boundServer = reuse.Slice(e.boundServer, users)
	bestS := math.Inf(1)
	e.candidates = e.candidates[:0]
	var n [exactMaxAircraft]int
	for {
		boundS, fits := e.bound(s.users, n, aircraft)
		for m := range aircraft {
			boundS += s.unreported(m, n[m]).costS
		}
		if fits && boundS < bestS { // the bound's own assignment has these counts: it is optimal for them
			bestS = boundS
			copy(s.server, e.boundServer)
		} else if !fits && boundS < bestS {
			e.candidates = append(e.candidates, countVector{n, boundS})
		}
		if !nextCounts(&n, aircraft, users) {
			break
		}
	}
	for len(e.candidates) > 0 {
		least := 0
		for i := range e.candidates {
			if e.candidates[i].boundS < e.candidates[least].boundS {
				least = i
			}
		}
		v := e.candidates[least]
		if v.boundS >= bestS {
			return
		}
		last := len(e.candidates) - 1
		e.candidates[least] = e.candidates[last]
		e.candidates = e.candidates[:last]
		costS := e.solveCounts(s.users, v.counts, aircraft)
		for m := range aircraft {
			costS += s.unreported(m, v.counts[m]).costS
		}
		if costS < bestS {
			bestS = costS
			e.traceback(v.counts, aircraft, s.server)
		}
	}
}

// nextCounts advances n to the next count vector with a sum of at most users.
func nextCounts(n *[exactMaxAircraft]int, aircraft, users int) bool {
	sum := n[0] + n[1] + n[2]
	for m := range aircraft {
		if sum < users {
			n[m]++
			return true
		}
		sum -= n[m]
		n[m] = 0
	}
	return false
}

// bound sums each user's least cost at the shares of a count vector, leaves that
// assignment in boundServer, and reports whether it has these counts.
func (e *dynamicProgram) bound(users []userTerms, n [exactMaxAircraft]int, aircraft int) (boundS float64, fits bool) {
	var served [exactMaxAircraft]int
	width := len(users) + 1
	for i := range users {
		least, server := users[i].localCostS, 0
		for m := range aircraft {
			if costS := e.costS[(i*aircraft+m)*width+n[m]]; costS < least {
				least, server = costS, m+1
			}
		}
		boundS += least
		e.boundServer[i] = server
		if server > 0 {
			served[server-1]++
		}
	}
	return boundS, served == n
}

// solveCounts returns the least cost with exactly n[m] users on each aircraft: after
// user i, leastCostS at state a is the least cost with a[m] of the first i+1 users
// on m. Absent aircraft have a count of zero and an axis of one state.
func (e *dynamicProgram) solveCounts(users []userTerms, n [exactMaxAircraft]int, aircraft int) float64 {
	width := len(users) + 1
	step1 := n[2] + 1
	step0 := step1 * (n[1] + 1)
	states := step0 * (n[0] + 1)
	e.leastCostS = reuse.Slice(e.leastCostS, states)
	e.choice = reuse.Slice(e.choice, states*len(users))
	for i := range e.leastCostS {
		e.leastCostS[i] = math.Inf(1)
	}
	e.leastCostS[0] = 0
	total := n[0] + n[1] + n[2]
	for i := range users {
		var costS [exactMaxAircraft]float64
		for m := range aircraft {
			costS[m] = e.costS[(i*aircraft+m)*width+n[m]]
		}
		local := users[i].localCostS
		choice := e.choice[i*states:][:states]
		assignedMin := total - (len(users) - 1 - i) // the users left must make up the rest
		// From the last state down, so that a state still reads the previous user's costs.
		for a0 := min(n[0], i+1); a0 >= 0; a0-- {
			for a1 := min(n[1], i+1-a0); a1 >= 0; a1-- {
				high, low := min(n[2], i+1-a0-a1), max(0, assignedMin-a0-a1)
				for a2 := high; a2 >= low; a2-- {
					state := a0*step0 + a1*step1 + a2
					least, server := e.leastCostS[state]+local, uint8(0)
					if a0 > 0 {
						if x := e.leastCostS[state-step0] + costS[0]; x < least {
							least, server = x, 1
						}
					}
					if a1 > 0 {
						if x := e.leastCostS[state-step1] + costS[1]; x < least {
							least, server = x, 2
						}
					}
					if a2 > 0 {
						if x := e.leastCostS[state-1] + costS[2]; x < least {
							least, server = x, 3
						}
					}
					e.leastCostS[state] = least
					choice[state] = server
				}
			}
		}
	}
	return e.leastCostS[states-1]
}

// traceback writes the assignment of the last solveCounts into server.
func (e *dynamicProgram) traceback(n [exactMaxAircraft]int, aircraft int, server []int) {
	step := [exactMaxAircraft]int{(n[2] + 1) * (n[1] + 1), n[2] + 1, 1}
	states := step[0] * (n[0] + 1)
	state := states - 1
	for i := len(server) - 1; i >= 0; i-- {
		server[i] = int(e.choice[i*states+state])
		if server[i] > 0 {
			state -= step[server[i]-1]
		}
	}
}
