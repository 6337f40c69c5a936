// Package dispatch finds who computes where in one slot, for a price of energy.
//
// A snapshot and a price lambda in seconds per joule come in; the association
// and offload ratios that minimise
//
//	delay + penalties + lambda * edge energy
//
// of the slot go out, with what it costs those who will come unheard, by the
// standing offer (Offer, Forecast). It stands after the policy step, which predicts the
// price, and before the envelope; the exact-dispatch teacher is the same call
// with the price given. Motion is not its concern.
//
// What couples the users is only how many each aircraft serves: the equal
// split of Sec. III turns that count into everyone's share. So fix the counts,
// give each user its best option at each aircraft, solve the assignment, and
// search over counts. Exact does so by dynamic programming for small slots,
// local search by moves and swaps for the others.
package dispatch

import (
	"math"
	"slices"

	"prefdt/inference/physics"
	"prefdt/inference/reuse"
	"prefdt/inference/slot"
)

// Solver holds the working memory. Its zero value is ready; after the first
// slot of a size it allocates nothing. It keeps no state from slot to slot:
// a decision is a function of snapshot and price alone.
type Solver struct {
	constants  *physics.Constants
	snapshot   *slot.Snapshot
	priceSPerJ float64

	users   []userTerms
	rateBPS []float64 // (user, aircraft): uplink rate in bit/s at the whole bandwidth, 0 if unusable
	// (aircraft, count from 0 to users+1), empty if nobody is expected unheard:
	effectiveUserTable   []float64 // Unheard.Sharing
	unreportedCostTableS []float64 // what the unheard are expected to cost, seconds

	server []int // the solution: 0 local, else aircraft counted from 1

	exact  dynamicProgram
	search localSearch
}

// userTerms are what a user brings to every option.
type userTerms struct {
	localS     float64 // T_loc of the whole task
	cycles     float64
	localCostS float64 // cost of computing locally, seconds
}

// Solve fills d.Users with the association and ratios of least cost, calls
// d.Price and sets d.PriceSPerJ; d.Move is left alone. A price that is not
// positive counts as zero. Users and links whose figures are unusable (no
// gain, not finite) compute locally.
func (s *Solver) Solve(c *physics.Constants, snap *slot.Snapshot, priceSPerJ float64, d *slot.Decision) {
	s.prepare(c, snap, priceSPerJ)
	if exactSteps(len(snap.Aircraft), len(snap.Users)) <= exactMaxSteps {
		s.solveExact()
	} else {
		s.solveSearch()
	}
	s.writeDecision(d)
}

// prepare computes what does not depend on the counts.
func (s *Solver) prepare(c *physics.Constants, snap *slot.Snapshot, priceSPerJ float64) {
	s.constants, s.snapshot = c, snap
	s.priceSPerJ = clampPrice(priceSPerJ)
	users, aircraft := len(snap.Users), len(snap.Aircraft)
	s.users = reuse.Slice(s.users, users)
	s.server = reuse.Slice(s.server, users)
	s.rateBPS = reuse.Slice(s.rateBPS, users*aircraft)
	for i := range snap.Users {
		u := &snap.Users[i]
		t := userTerms{localS: u.Task.LocalTimeS(u.CPUHz), cycles: u.Task.Cycles()}
		usable := t.localS > 0 && t.localS <= math.MaxFloat64
		if usable {
			t.localCostS = c.PenalizedDelayS(u.Task, t.localS)
		}
		s.users[i] = t
		for m := range snap.Aircraft {
			rate := 0.0
			if hz := snap.Aircraft[m].CPUHz; usable && m < len(u.Gain) && hz > 0 && hz <= math.MaxFloat64 {
				if r := c.Channel.RateBPS(u.Gain[m], c.Channel.BandwidthHz); r > 0 {
					rate = r
				}
			}
			s.rateBPS[i*aircraft+m] = rate
		}
	}
	s.tabulateUnreported()
}

// tabulateUnreported tabulates what the unheard change.
func (s *Solver) tabulateUnreported() {
	s.effectiveUserTable, s.unreportedCostTableS = s.effectiveUserTable[:0], s.unreportedCostTableS[:0]
	if !slices.ContainsFunc(s.snapshot.Aircraft, func(a slot.Aircraft) bool { return a.Unreported.ExpectedUsers > 0 }) {
		return
	}
	for m := range s.snapshot.Aircraft {
		a := &s.snapshot.Aircraft[m]
		for n := range len(s.users) + 2 {
			squares, reciprocals := a.Unreported.ShareSums(n)
			s.effectiveUserTable = append(s.effectiveUserTable, a.Unreported.EffectiveUsers(n))
			s.unreportedCostTableS = append(s.unreportedCostTableS, a.Unreported.CyclesPerUser*(s.priceSPerJ*s.constants.SwitchedCapacitance*a.CPUHz*a.CPUHz*squares+reciprocals/a.CPUHz))
		}
	}
}

// unreportedCostS is what the unheard of aircraft m are expected to cost when it serves n.
func (s *Solver) unreportedCostS(m, n int) float64 {
	if len(s.unreportedCostTableS) == 0 {
		return 0
	}
	return s.unreportedCostTableS[m*(len(s.users)+2)+n]
}

// effectiveUsers is what the number of users amounts to that share aircraft m when it
// serves n.
func (s *Solver) effectiveUsers(m, n int) float64 {
	if len(s.effectiveUserTable) == 0 {
		return float64(n)
	}
	return s.effectiveUserTable[m*(len(s.users)+2)+n]
}

// clampPrice maps a price that is not a number, or negative, to zero and
// bounds it, so that price times zero joules is never NaN.
func clampPrice(priceSPerJ float64) float64 {
	if !(priceSPerJ > 0) {
		return 0
	}
	return min(priceSPerJ, 1e15)
}

// option returns the best ratio of user i at aircraft m when it serves n, and
// its cost in seconds; the cost is +Inf where nothing can be offloaded.
func (s *Solver) option(i, m, n int) (rho, costS float64) {
	rate := s.rateBPS[i*len(s.snapshot.Aircraft)+m]
	if rate == 0 {
		return 0, math.Inf(1)
	}
	served := s.effectiveUsers(m, n)
	share := physics.Share{CPUHz: s.snapshot.Aircraft[m].CPUHz / served, RateBPS: rate}
	if s.constants.Contention {
		share = s.constants.EqualShare(s.snapshot.Users[i].Gain[m], s.snapshot.Aircraft[m].CPUHz, served)
	}
	return bestOffload(s.constants, s.snapshot.Users[i].Task, s.users[i].localS, share, s.priceSPerJ)
}

// bestOffload returns the ratio of least cost for one task at a share, and the cost.
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
// Counting a user that offloads next to nothing would slow an aircraft's CPU
// for the others and so save energy; such ballast serves nobody and is left
// out. Over the standard sweep it would gain 0.05 % of hypervolume.
func bestOffload(c *physics.Constants, t physics.Task, localS float64, share physics.Share, priceSPerJ float64) (rho, costS float64) {
	offloadS := t.OffloadTimeS(share)
	rho = physics.BalancedOffload(localS, offloadS)
	if !(rho > 0) {
		return 0, math.Inf(1)
	}
	all := priceSPerJ * c.EdgeJ(t, share, 1)
	completionS := physics.CompletionS(localS, offloadS, rho)
	if all > localS && completionS <= t.DeadlineS {
		if least, ok := physics.LeastOffloadForDeadline(localS, offloadS, t.DeadlineS); ok && least > 0 && least < rho {
			rho, completionS = least, physics.CompletionS(localS, offloadS, least)
		}
	}
	costS = c.PenalizedDelayS(t, completionS) + all*rho
	if !(costS <= math.MaxFloat64) {
		return 0, math.Inf(1)
	}
	return rho, costS
}

// writeDecision writes the solution into a decision.
func (s *Solver) writeDecision(d *slot.Decision) {
	d.Users = reuse.Slice(d.Users, len(s.users))
	d.PriceSPerJ = s.priceSPerJ
	counts := s.search.count // reused: both solvers are done with it
	counts = reuse.Slice(counts, len(s.snapshot.Aircraft))
	s.search.count = counts
	for _, m := range s.server {
		if m > 0 {
			counts[m-1]++
		}
	}
	for i, m := range s.server {
		d.Users[i] = slot.UserDecision{Server: m}
		if m > 0 {
			d.Users[i].Offload, _ = s.option(i, m-1, counts[m-1])
		}
	}
	d.Evaluate(s.constants, s.snapshot)
}
