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
	c     *physics.Constants
	snap  *slot.Snapshot
	price float64

	users []terms
	rate  []float64 // (user, aircraft): uplink rate in bit/s at the whole bandwidth, 0 if unusable
	// (aircraft, count from 0 to users+1), empty if nobody is expected unheard:
	sharing []float64 // Unheard.Sharing
	toll    []float64 // what the unheard are expected to cost, seconds

	server []int // the solution: 0 local, else aircraft counted from 1

	exact  exact
	search search
}

// terms are what a user brings to every option.
type terms struct {
	localS    float64 // T_loc of the whole task
	cycles    float64
	localCost float64 // cost of computing locally, seconds
}

// Solve fills d.Users with the association and ratios of least cost, calls
// d.Price and sets d.PriceSPerJ; d.Move is left alone. A price that is not
// positive counts as zero. Users and links whose figures are unusable (no
// gain, not finite) compute locally.
func (s *Solver) Solve(c *physics.Constants, snap *slot.Snapshot, priceSPerJ float64, d *slot.Decision) {
	s.load(c, snap, priceSPerJ)
	if exactWork(len(snap.Aircraft), len(snap.Users)) <= exactWorkMax {
		s.solveExact()
	} else {
		s.solveSearch()
	}
	s.fill(d)
}

// load computes what does not depend on the counts.
func (s *Solver) load(c *physics.Constants, snap *slot.Snapshot, priceSPerJ float64) {
	s.c, s.snap = c, snap
	s.price = usablePrice(priceSPerJ)
	users, aircraft := len(snap.Users), len(snap.Aircraft)
	s.users = reuse.Slice(s.users, users)
	s.server = reuse.Slice(s.server, users)
	s.rate = reuse.Slice(s.rate, users*aircraft)
	for i := range snap.Users {
		u := &snap.Users[i]
		t := terms{localS: u.Task.LocalS(u.CPUHz), cycles: u.Task.Cycles()}
		usable := t.localS > 0 && t.localS <= math.MaxFloat64
		if usable {
			t.localCost = c.DelayS(u.Task, t.localS)
		}
		s.users[i] = t
		for m := range snap.Aircraft {
			rate := 0.0
			if hz := snap.Aircraft[m].CPUHz; usable && m < len(u.Gain) && hz > 0 && hz <= math.MaxFloat64 {
				if r := c.Channel.RateBPS(u.Gain[m], c.Channel.BandwidthHz); r > 0 {
					rate = r
				}
			}
			s.rate[i*aircraft+m] = rate
		}
	}
	s.expect()
}

// expect tabulates what the unheard change.
func (s *Solver) expect() {
	s.sharing, s.toll = s.sharing[:0], s.toll[:0]
	if !slices.ContainsFunc(s.snap.Aircraft, func(a slot.Aircraft) bool { return a.Unheard.Users > 0 }) {
		return
	}
	for m := range s.snap.Aircraft {
		a := &s.snap.Aircraft[m]
		for n := range len(s.users) + 2 {
			squares, reciprocals := a.Unheard.Edge(n)
			s.sharing = append(s.sharing, a.Unheard.Sharing(n))
			s.toll = append(s.toll, a.Unheard.Cycles*(s.price*s.c.Kappa*a.CPUHz*a.CPUHz*squares+reciprocals/a.CPUHz))
		}
	}
}

// tollS is what the unheard of aircraft m are expected to cost when it serves n.
func (s *Solver) tollS(m, n int) float64 {
	if len(s.toll) == 0 {
		return 0
	}
	return s.toll[m*(len(s.users)+2)+n]
}

// shared is what the number of users amounts to that share aircraft m when it
// serves n.
func (s *Solver) shared(m, n int) float64 {
	if len(s.sharing) == 0 {
		return float64(n)
	}
	return s.sharing[m*(len(s.users)+2)+n]
}

// usablePrice maps a price that is not a number, or negative, to zero and
// bounds it, so that price times zero joules is never NaN.
func usablePrice(priceSPerJ float64) float64 {
	if !(priceSPerJ > 0) {
		return 0
	}
	return min(priceSPerJ, 1e15)
}

// option returns the best ratio of user i at aircraft m when it serves n, and
// its cost in seconds; the cost is +Inf where nothing can be offloaded.
func (s *Solver) option(i, m, n int) (rho, costS float64) {
	rate := s.rate[i*len(s.snap.Aircraft)+m]
	if rate == 0 {
		return 0, math.Inf(1)
	}
	served := s.shared(m, n)
	share := physics.Share{CPUHz: s.snap.Aircraft[m].CPUHz / served, RateBPS: rate}
	if s.c.Contention {
		share = s.c.ShareOf(s.snap.Users[i].Gain[m], s.snap.Aircraft[m].CPUHz, served)
	}
	return best(s.c, s.snap.Users[i].Task, s.users[i].localS, share, s.price)
}

// best returns the ratio of least cost for one task at a share, and the cost.
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
func best(c *physics.Constants, t physics.Task, localS float64, share physics.Share, priceSPerJ float64) (rho, costS float64) {
	offloadS := t.OffloadS(share)
	rho = physics.Balance(localS, offloadS)
	if !(rho > 0) {
		return 0, math.Inf(1)
	}
	all := priceSPerJ * c.EdgeJ(t, share, 1)
	completionS := physics.CompletionS(localS, offloadS, rho)
	if all > localS && completionS <= t.DeadlineS {
		if least, ok := physics.LeastMeeting(localS, offloadS, t.DeadlineS); ok && least > 0 && least < rho {
			rho, completionS = least, physics.CompletionS(localS, offloadS, least)
		}
	}
	costS = c.DelayS(t, completionS) + all*rho
	if !(costS <= math.MaxFloat64) {
		return 0, math.Inf(1)
	}
	return rho, costS
}

// fill writes the solution into a decision.
func (s *Solver) fill(d *slot.Decision) {
	d.Users = reuse.Slice(d.Users, len(s.users))
	d.PriceSPerJ = s.price
	counts := s.search.count // reused: both solvers are done with it
	counts = reuse.Slice(counts, len(s.snap.Aircraft))
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
	d.Price(s.c, s.snap)
}
