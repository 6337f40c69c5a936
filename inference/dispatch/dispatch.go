// Package dispatch assigns the users of one slot to aircraft, for a price of edge
// energy, and makes the standing offer by which users without a decision choose
// for themselves.
//
// Inputs: a snapshot and a price lambda in seconds per joule. Outputs: the
// association and the offload ratios that minimise
//
//	delay + penalties + lambda * edge energy
//
// of the slot, including the expected cost of the unreported load (Solver); the
// next slot's standing offer and the unreported load it leads to (Forecast); and
// one user's choice by an offer (Offer). The policy calls Solver with the price
// that the network predicts, the exact-dispatch teacher with a given price; the
// leader and the rollouts keep a Forecast; simulated users call Offer.Choose.
//
// The users are coupled only by how many each aircraft serves: the equal split of
// Sec. III turns that count into each user's share. So the counts are fixed, each
// user has its best option at each aircraft, the assignment is solved, and the
// counts are searched: by dynamic programming for small slots (exact), by local
// search with moves and swaps for the others.
package dispatch

import (
	"math"
	"slices"

	"prefdt/inference/physics"
	"prefdt/inference/reuse"
	"prefdt/inference/slot"
)

// Solver solves one slot after another. It holds the working memory only: its zero
// value is ready, after the first slot of a size it allocates nothing, and a
// decision is a function of snapshot and price alone.
type Solver struct {
	constants  *physics.Constants
	snapshot   *slot.Snapshot
	priceSPerJ float64

	users           []userTerms
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

// userTerms are the figures of a user that do not depend on the option.
type userTerms struct {
	localS     float64 // T_loc of the whole task
	localCostS float64 // cost of computing locally, expected
}

// Solve writes the association and ratios of least cost into d.Users, sets
// d.PriceSPerJ and calls d.Evaluate; it does not change d.Move. A price that is
// not positive counts as zero. Users whose figures, or whose links' figures, are
// unusable (no gain, not finite) compute locally.
func (s *Solver) Solve(c *physics.Constants, snapshot *slot.Snapshot, priceSPerJ float64, d *slot.Decision) {
	s.prepare(c, snapshot, priceSPerJ)
	if exactSteps(len(snapshot.Aircraft), len(snapshot.Users)) <= exactMaxSteps {
		s.solveExact()
	} else {
		s.solveSearch()
	}
	s.writeDecision(d)
}

// prepare computes what does not depend on the counts.
func (s *Solver) prepare(c *physics.Constants, snapshot *slot.Snapshot, priceSPerJ float64) {
	s.constants, s.snapshot = c, snapshot
	s.priceSPerJ = clampPrice(priceSPerJ)
	users, aircraft := len(snapshot.Users), len(snapshot.Aircraft)
	s.users = reuse.Slice(s.users, users)
	s.server = reuse.Slice(s.server, users)
	s.rateBPS = reuse.Slice(s.rateBPS, users*aircraft)
	for i := range snapshot.Users {
		u := &snapshot.Users[i]
		t := userTerms{localS: u.Task.LocalTimeS(u.CPUHz)}
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
	s.expandDoubt()
	s.tabulateUnreported()
}

// expandDoubt computes what users whose figures are not exact add to prepare's.
func (s *Solver) expandDoubt() {
	s.factors = s.factors[:0]
	if !slices.ContainsFunc(s.snapshot.Users, func(u slot.User) bool { return !u.Doubt.None() }) {
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
		if t := &s.users[i]; t.localCostS > 0 && !u.Doubt.None() {
			u.Outcomes(physics.Share{}, nil, &s.outcomes)
			_, t.localCostS = s.outcomes.Expect(s.constants, u.Task, 0)
		}
	}
}

func (s *Solver) tabulateUnreported() {
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
				costS:          a.Unreported.CyclesPerUser * (s.priceSPerJ*s.constants.SwitchedCapacitance*a.CPUHz*a.CPUHz*squares + reciprocals/a.CPUHz),
			})
		}
	}
}

// unreported returns the effect of aircraft m's unreported load when it serves n.
func (s *Solver) unreported(m, n int) unreportedEffect {
	if len(s.unreportedTable) == 0 {
		return unreportedEffect{effectiveUsers: float64(n)}
	}
	return s.unreportedTable[m*(len(s.users)+2)+n]
}

// clampPrice maps a price that is not a number, or negative, to zero and
// bounds it, so that price times zero joules is never NaN.
func clampPrice(priceSPerJ float64) float64 {
	if !(priceSPerJ > 0) {
		return 0
	}
	return min(priceSPerJ, 1e15)
}

// option returns the best offload ratio of user i at aircraft m when that serves n
// users, and its cost in seconds, which is +Inf where nothing can be offloaded.
func (s *Solver) option(i, m, n int) (rho, costS float64) {
	rate := s.rateBPS[i*len(s.snapshot.Aircraft)+m]
	if rate == 0 {
		return 0, math.Inf(1)
	}
	served := s.unreported(m, n).effectiveUsers
	share := physics.Share{CPUHz: s.snapshot.Aircraft[m].CPUHz / served, RateBPS: rate}
	if s.constants.Contention {
		share = s.constants.EqualShare(s.snapshot.Users[i].Gain[m], s.snapshot.Aircraft[m].CPUHz, served)
	}
	if u := &s.snapshot.Users[i]; !u.Doubt.None() {
		u.Outcomes(share, &s.factors[i*len(s.snapshot.Aircraft)+m], &s.outcomes)
		return bestExpectedOffload(s.constants, u.Task, &s.outcomes, s.priceSPerJ*s.constants.EdgeJ(u.Task, share, 1))
	}
	return bestOffload(s.constants, s.snapshot.Users[i].Task, s.users[i].localS, share, s.priceSPerJ)
}

// bestExpectedOffload is bestOffload in the mean over a user's possible outcomes, by the
// price of offloading all of a task. Between the balances and the ratios at which an
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

// bestOffload returns the offload ratio of least cost for a task at a share, and the cost.
//
// Let L and O be the times of the whole task on the user and at the share, k
// the price of offloading all of it. The cost is
//
//	max((1-rho)L, rho O) + k rho + chi [max((1-rho)L, rho O) > deadline].
//
// The balance b = L/(L+O) is where both parts finish together. Beyond it the
// first two terms rise with slope O+k > 0 and the penalty can only appear, so
// no rho above b is better than b, rho = 1 included. Below b they are linear
// with slope k-L. The ratios that meet the deadline, if any, are an interval
// that contains b and begins at r = 1 - deadline/L, or at 0 when L meets it.
// So on the side that meets the deadline the minimum is at b (k <= L) or at r
// (k > L); on the side that misses it, at b, or at rho -> 0, which is what
// computing locally costs. Hence b, r and local are all the candidates.
//
// A user that offloads next to nothing would reduce the others' shares of a CPU and
// so save energy. Such users gain nothing themselves and are left out; over the
// standard sweep of prices they would add 0.05 % of hypervolume.
func bestOffload(c *physics.Constants, t physics.Task, localS float64, share physics.Share, priceSPerJ float64) (rho, costS float64) {
	offloadS := t.OffloadTimeS(share)
	rho = physics.BalancedOffload(localS, offloadS)
	if !(rho > 0) {
		return 0, math.Inf(1)
	}
	fullPriceS := priceSPerJ * c.EdgeJ(t, share, 1)
	completionS := physics.CompletionS(localS, offloadS, rho)
	if fullPriceS > localS && completionS <= t.DeadlineS {
		if least, ok := physics.LeastOffloadForDeadline(localS, offloadS, t.DeadlineS); ok && least > 0 && least < rho {
			rho, completionS = least, physics.CompletionS(localS, offloadS, least)
		}
	}
	costS = c.PenalizedDelayS(t, completionS) + fullPriceS*rho
	if !(costS <= math.MaxFloat64) {
		return 0, math.Inf(1)
	}
	return rho, costS
}

func countServed(counts, server []int) {
	clear(counts)
	for _, m := range server {
		if m > 0 {
			counts[m-1]++
		}
	}
}

func (s *Solver) writeDecision(d *slot.Decision) {
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
