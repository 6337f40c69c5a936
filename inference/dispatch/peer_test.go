package dispatch

import (
	"math"
	"slices"

	"prefdt/inference/physics"
	"prefdt/inference/reuse"
	"prefdt/inference/slot"
)

// The dispatch before counts were valued by multipliers: a dynamic program for small
// slots, which is exact, and a local search by single users for larger ones. Tests compare
// with it.

// peerSolver solves one slot after another. It holds the working memory only: its zero
// value is ready, after the first slot of a size it allocates nothing, and a
// decision is a function of snapshot and price alone.
type peerSolver struct {
	constants  *physics.Constants
	snapshot   *slot.Snapshot
	priceSPerJ float64

	users           []peerTerms
	rateBPS         []float64          // (user, aircraft): uplink rate in bit/s at the whole bandwidth, 0 if unusable
	factors         []slot.RateFactors // (user, aircraft), empty where all figures are exact
	unreportedTable []unreportedEffect // (aircraft, count from 0 to users+1), empty without an unreported load

	outcomes slot.Outcomes // working memory

	server []int // the solution, numbered as UserDecision.Server

	exact  dynamicProgram
	search localSearch
}

// unreportedEffect is what an unreported load comes to beside a number of users served:
// UnreportedLoad.EffectiveUsers, and its expected cost.
type unreportedEffect struct{ effectiveUsers, costS float64 }

// peerTerms are the figures of a user that do not depend on the option.
type peerTerms struct {
	localS     float64 // T_loc of the whole task
	localCostS float64 // cost of computing locally, expected
}

// Solve writes the association and ratios of least cost into d.Users, sets
// d.PriceSPerJ and calls d.Evaluate; it does not change d.Move. A price that is
// not positive counts as zero. Users whose figures, or whose links' figures, are
// unusable (no gain, not finite) compute locally.
func (s *peerSolver) Solve(c *physics.Constants, snapshot *slot.Snapshot, priceSPerJ float64, d *slot.Decision) {
	s.prepare(c, snapshot, priceSPerJ)
	if exactSteps(len(snapshot.Aircraft), len(snapshot.Users)) <= exactMaxSteps {
		s.solveExact()
	} else {
		s.solveSearch()
	}
	s.writeDecision(d)
}

// prepare computes what does not depend on the counts.
func (s *peerSolver) prepare(c *physics.Constants, snapshot *slot.Snapshot, priceSPerJ float64) {
	s.constants, s.snapshot = c, snapshot
	s.priceSPerJ = clampPrice(priceSPerJ)
	users, aircraft := len(snapshot.Users), len(snapshot.Aircraft)
	s.users = reuse.Slice(s.users, users)
	s.server = reuse.Slice(s.server, users)
	s.rateBPS = reuse.Slice(s.rateBPS, users*aircraft)
	for i := range snapshot.Users {
		u := &snapshot.Users[i]
		t := peerTerms{localS: u.Task.LocalTimeS(u.CPUHz)}
		usable := t.localS > 0 && t.localS <= math.MaxFloat64
		if usable {
			t.localCostS = c.PenalizedDelayS(u.Task, t.localS)
		}
		s.users[i] = t
		for m := range snapshot.Aircraft {
			if hz := snapshot.Aircraft[m].CPUHz; usable && m < len(u.Gain) && hz > 0 && hz <= math.MaxFloat64 {
				if rate := c.Channel.RateBPS(u.Gain[m], c.Channel.BandwidthHz); rate > 0 {
					s.rateBPS[i*aircraft+m] = rate
				}
			}
		}
	}
	s.expandUncertain()
	s.tabulateUnreported()
}

// expandUncertain computes what users whose figures are not exact add to prepare's.
func (s *peerSolver) expandUncertain() {
	s.factors = s.factors[:0]
	if !slices.ContainsFunc(s.snapshot.Users, func(u slot.User) bool { return !u.Uncertainty.None() }) {
		return
	}
	aircraft := len(s.snapshot.Aircraft)
	for i := range s.snapshot.Users {
		u := &s.snapshot.Users[i]
		for m := range aircraft {
			f := slot.RateFactors{1, 1, 1}
			if s.rateBPS[i*aircraft+m] > 0 {
				f = u.RateFactors(&s.constants.Channel, m)
			}
			s.factors = append(s.factors, f)
		}
		if t := &s.users[i]; t.localCostS > 0 && !u.Uncertainty.None() {
			u.Outcomes(physics.Share{}, nil, &s.outcomes)
			_, t.localCostS = s.outcomes.Expect(s.constants, u.Task, 0)
		}
	}
}

func (s *peerSolver) tabulateUnreported() {
	s.unreportedTable = s.unreportedTable[:0]
	if !slices.ContainsFunc(s.snapshot.Aircraft, func(a slot.Aircraft) bool { return a.Unreported.ExpectedUsers > 0 }) {
		return
	}
	for m := range s.snapshot.Aircraft {
		a := &s.snapshot.Aircraft[m]
		for n := range len(s.users) + 2 {
			squares, reciprocals := a.Unreported.ShareSums(n)
			s.unreportedTable = append(s.unreportedTable, unreportedEffect{
				effectiveUsers: a.Unreported.EffectiveUsers(n),
				costS: a.Unreported.CyclesPerUser * (s.priceSPerJ*s.constants.SwitchedCapacitance*a.CPUHz*a.CPUHz*squares +
					reciprocals/a.CPUHz),
			})
		}
	}
}

// unreported returns the effect of aircraft m's unreported load when it serves n.
func (s *peerSolver) unreported(m, n int) unreportedEffect {
	if len(s.unreportedTable) == 0 {
		return unreportedEffect{effectiveUsers: float64(n)}
	}
	return s.unreportedTable[m*(len(s.users)+2)+n]
}

// option returns the best offload ratio of user i at aircraft m when that serves n
// users, and its cost in seconds, which is +Inf where nothing can be offloaded.
func (s *peerSolver) option(i, m, n int) (rho, costS float64) {
	rate := s.rateBPS[i*len(s.snapshot.Aircraft)+m]
	if rate == 0 {
		return 0, math.Inf(1)
	}
	served := s.unreported(m, n).effectiveUsers
	share := physics.Share{CPUHz: s.snapshot.Aircraft[m].CPUHz / served, RateBPS: rate}
	if s.constants.Contention {
		share = s.constants.EqualShare(s.snapshot.Users[i].Gain[m], s.snapshot.Aircraft[m].CPUHz, served)
	}
	if u := &s.snapshot.Users[i]; !u.Uncertainty.None() {
		u.Outcomes(share, &s.factors[i*len(s.snapshot.Aircraft)+m], &s.outcomes)
		return bestExpectedOffload(s.constants, u.Task, &s.outcomes, s.priceSPerJ*s.constants.EdgeJ(u.Task, share, 1))
	}
	return bestOffload(s.constants, s.snapshot.Users[i].Task, s.users[i].localS, share, s.priceSPerJ)
}

func countServed(counts, server []int) {
	clear(counts)
	for _, m := range server {
		if m > 0 {
			counts[m-1]++
		}
	}
}

func (s *peerSolver) writeDecision(d *slot.Decision) {
	d.Users = reuse.Slice(d.Users, len(s.users))
	d.PriceSPerJ = s.priceSPerJ
	s.search.count = reuse.Slice(s.search.count, len(s.snapshot.Aircraft)) // no solver needs it any more
	counts := s.search.count
	countServed(counts, s.server)
	for i, m := range s.server {
		d.Users[i] = slot.UserDecision{Server: m}
		if m > 0 {
			d.Users[i].Offload, _ = s.option(i, m-1, counts[m-1])
		}
	}
	d.Evaluate(s.constants, s.snapshot)
}

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
func (s *peerSolver) solveExact() {
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
func (e *dynamicProgram) bound(users []peerTerms, n [exactMaxAircraft]int, aircraft int) (boundS float64, fits bool) {
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
func (e *dynamicProgram) solveCounts(users []peerTerms, n [exactMaxAircraft]int, aircraft int) float64 {
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

// searchMaxOptions bounds the options evaluated for one slot, 10 to 20 ns each, and
// with them the time that a slot of any size takes.
var searchMaxOptions = 1.5e6

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

	server           []int          // the assignment being improved
	cheapestServer   []int          // the cheapest that dropUsersGreedily passed
	cheapestExchange []peerExchange // (from, to)
	optionsEvaluated float64
}

// peerExchange is the cheapest change of one user from one server to another.
type peerExchange struct {
	changeS float64
	user    int
}

// solveSearch descends by the best move or swap from several starts and keeps the
// best result. Because it takes the best, not the first, improvement, the result
// does not depend on the order of users or aircraft, except in exact ties.
func (s *peerSolver) solveSearch() {
	x := &s.search
	users, aircraft := len(s.users), len(s.snapshot.Aircraft)
	if aircraft == 0 || users == 0 {
		return
	}
	pairs := users * aircraft
	x.costAtCountS, x.costOneMoreS, x.costOneFewerS = reuse.Slice(x.costAtCountS, pairs), reuse.Slice(x.costOneMoreS, pairs),
		reuse.Slice(x.costOneFewerS, users)
	x.count, x.plannedCount = reuse.Slice(x.count, aircraft), reuse.Slice(x.plannedCount, aircraft)
	x.sumAtCountS, x.sumOneMoreS, x.sumOneFewerS = reuse.Slice(x.sumAtCountS, aircraft), reuse.Slice(x.sumOneMoreS, aircraft),
		reuse.Slice(x.sumOneFewerS, aircraft)
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
func (s *peerSolver) dropUsersGreedily() {
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
func (s *peerSolver) startFromExternalities() {
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

func (s *peerSolver) fillTables() {
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
func (s *peerSolver) descend() float64 {
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
func (s *peerSolver) changeCount(m, change int) {
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
func (s *peerSolver) updateSums(m int) {
	if m < 0 {
		return
	}
	x := &s.search
	aircraft := len(s.snapshot.Aircraft)
	n := x.count[m]
	x.sumAtCountS[m], x.sumOneMoreS[m], x.sumOneFewerS[m] = s.unreported(m, n).costS, s.unreported(m, n+1).costS,
		s.unreported(m, max(n-1, 0)).costS
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
func (s *peerSolver) bestMove() (user, server int, changeS float64) {
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
func (s *peerSolver) bestSwap() (first, second int, changeS float64) {
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
				*e = peerExchange{s.users[i].localCostS - now, i}
			}
		}
		for m := range aircraft {
			if e := &x.cheapestExchange[from*width+m+1]; x.costAtCountS[i*aircraft+m]-now < e.changeS {
				*e = peerExchange{x.costAtCountS[i*aircraft+m] - now, i}
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

// bestExpectedOffload is Solver.expectedOffload by the price of offloading all of a task,
// as it was at first. Between the balances and the ratios at which an
// outcome begins to meet its deadline, or ends to, the expected cost is linear: these
// are the candidates.
func bestExpectedOffload(c *physics.Constants, t physics.Task, outcomes *slot.Outcomes, fullPriceS float64) (rho, costS float64) {
	costS = math.Inf(1)
	try := func(x float64) {
		if !(x > 0 && x <= 1) {
			return
		}
		if _, delayS := outcomes.Expect(c, t, x); delayS+fullPriceS*x < costS {
			rho, costS = x, delayS+fullPriceS*x
		}
	}
	for _, o := range outcomes.All() {
		try(physics.BalancedOffload(o.LocalS, o.OffloadS))
		if least, ok := physics.LeastOffloadForDeadline(o.LocalS, o.OffloadS, t.DeadlineS); ok {
			try(least)
		}
		if most := t.DeadlineS / o.OffloadS; most < 1 {
			try(most * (1 - 1e-12)) // rounding must not miss the deadline
		}
	}
	return rho, costS
}
