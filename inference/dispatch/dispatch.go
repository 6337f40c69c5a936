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
// user has its best option at each aircraft, and the assignment is a transportation
// problem, which multipliers solve exactly (counts.go). The counts are searched: all
// of them in small slots, which are exact; from several starts in larger ones, with a
// sample of the users where there are many (search.go).
package dispatch

import (
	"cmp"
	"math"
	"slices"

	"prefdt/inference/physics"
	"prefdt/inference/reuse"
	"prefdt/inference/slot"
)

// Solver dispatches one slot after another: Begin enters a slot, Sweep and At dispatch it
// at prices. It holds the working memory only: its zero value is ready, and
// after the first slot of a size it allocates nothing. A decision is a function of the
// snapshot and of the calls since Begin.
type Solver struct {
	constants *physics.Constants
	snapshot  *slot.Snapshot

	// Users and aircraft are in an order that depends on their figures alone, so that
	// another order of the same slot gets the same decision.
	order, fleet   []int
	weights        []float64 // of the price at each aircraft of the fleet, in its order
	users          []userTerms
	links          []linkTerms     // (aircraft, user)
	uncertainUsers []uncertainUser // of the users whose figures are not exact
	uncertainLinks []uncertainLink // (aircraft, user), likewise

	outcomes slot.Outcomes // working memory

	all, sample             valuer
	allMembers, someMembers []int
}

// userTerms are the figures of a user that do not depend on the option.
type userTerms struct {
	localS     float64 // T_loc of the whole task; 0: it cannot be computed elsewhere
	localCostS float64 // cost of computing locally, expected
	deadlineS  float64
	leastRho   float64 // the least that meets the deadline, if computing locally does not; else 0
	uncertain  bool
}

// linkTerms are the figures of a user at an aircraft: the whole task takes
// fixedS + sharers * perSharerS there, and fullJ / sharers^2.
type linkTerms struct {
	fixedS, perSharerS, fullJ float64 // perSharerS 0: nothing can be offloaded
}

// Begin enters a slot. Users whose figures, or whose links' figures, are unusable (no
// gain, not finite) compute locally.
func (s *Solver) Begin(c *physics.Constants, snapshot *slot.Snapshot) {
	s.constants, s.snapshot = c, snapshot
	s.sort()
	s.Weigh(nil)
	users, aircraft := len(snapshot.Users), len(snapshot.Aircraft)
	s.users, s.links = reuse.Slice(s.users, users), reuse.Slice(s.links, users*aircraft)
	uncertain := false
	for k, i := range s.order {
		u := &snapshot.Users[i]
		t := userTerms{localS: u.Task.LocalTimeS(u.CPUHz), deadlineS: u.Task.DeadlineS}
		if !(t.localS > 0 && t.localS <= math.MaxFloat64) {
			s.users[k] = userTerms{}
			continue
		}
		t.localCostS = c.PenalizedDelayS(u.Task, t.localS)
		if t.localS > t.deadlineS {
			t.leastRho = 1 - t.deadlineS/t.localS
		}
		if t.uncertain = !u.Uncertainty.None(); t.uncertain {
			uncertain = true
			u.Outcomes(physics.Share{}, nil, &s.outcomes)
			_, t.localCostS = s.outcomes.Expect(c, u.Task, 0)
		}
		s.users[k] = t
		for m, a := range s.fleet {
			hz := snapshot.Aircraft[a].CPUHz
			if a >= len(u.Gain) || !(hz > 0 && hz <= math.MaxFloat64) {
				continue
			}
			rate := c.Channel.RateBPS(u.Gain[a], c.Channel.BandwidthHz)
			if !(rate > 0) {
				continue
			}
			link := linkTerms{u.Task.Bits / rate, u.Task.Cycles() / hz, c.EdgeJ(u.Task, physics.Share{CPUHz: hz}, 1)}
			if c.Contention {
				link.fixedS, link.perSharerS = 0, link.fixedS+link.perSharerS
			}
			if link.perSharerS > 0 && link.fixedS+link.perSharerS+link.fullJ <= math.MaxFloat64 {
				s.links[m*users+k] = link
			}
		}
	}
	if uncertain {
		s.expandUncertain()
	}
	s.allMembers, s.someMembers = s.allMembers[:0], s.someMembers[:0]
	for i := range users {
		s.allMembers = append(s.allMembers, i)
	}
	s.all.start(s, s.allMembers, 1)
	s.all.met, s.sample.met = s.all.met[:0], s.sample.met[:0]
	if users > maxUnsampled {
		for k := range sampledUsers {
			s.someMembers = append(s.someMembers, (2*k+1)*users/(2*sampledUsers))
		}
		s.sample.start(s, s.someMembers, float64(users)/sampledUsers)
	}
}

// sort finds the order of users and aircraft.
func (s *Solver) sort() {
	snapshot := s.snapshot
	s.order, s.fleet = s.order[:0], s.fleet[:0]
	for i := range snapshot.Users {
		s.order = append(s.order, i)
	}
	for m := range snapshot.Aircraft {
		s.fleet = append(s.fleet, m)
	}
	slices.SortStableFunc(s.order, func(i, j int) int {
		a, b := &snapshot.Users[i], &snapshot.Users[j]
		if c := cmp.Compare(a.Task.LocalTimeS(a.CPUHz), b.Task.LocalTimeS(b.CPUHz)); c != 0 {
			return c
		}
		return cmp.Or(
			cmp.Compare(a.Task.Bits, b.Task.Bits), cmp.Compare(a.Task.DeadlineS, b.Task.DeadlineS),
			cmp.Compare(a.Position.EastM, b.Position.EastM), cmp.Compare(a.Position.NorthM, b.Position.NorthM),
		)
	})
	slices.SortStableFunc(s.fleet, func(i, j int) int {
		a, b := &snapshot.Aircraft[i], &snapshot.Aircraft[j]
		if c := cmp.Or(
			cmp.Compare(a.CPUHz, b.CPUHz), cmp.Compare(a.Unreported.ExpectedUsers, b.Unreported.ExpectedUsers),
			cmp.Compare(a.Unreported.CyclesPerUser, b.Unreported.CyclesPerUser),
		); c != 0 {
			return c
		}
		for _, k := range s.order {
			if u := &snapshot.Users[k]; i < len(u.Gain) && j < len(u.Gain) && u.Gain[i] != u.Gain[j] {
				return cmp.Compare(u.Gain[i], u.Gain[j])
			}
		}
		return 0
	})
}

// Solve is Begin and At, for a slot that is dispatched at one price.
func (s *Solver) Solve(c *physics.Constants, snapshot *slot.Snapshot, priceSPerJ float64, d *slot.Decision) {
	s.Begin(c, snapshot)
	s.At(priceSPerJ, d)
}

// Weigh has a joule of each aircraft, in the snapshot's order, cost so many times the price
// from now on, until the next Begin; nil: once. Sweep is for weights of 1.
func (s *Solver) Weigh(weights []float64) {
	s.weights = reuse.Slice(s.weights, len(s.fleet))
	for m, a := range s.fleet {
		s.weights[m] = 1
		if weights != nil {
			s.weights[m] = weights[a]
		}
	}
}

// At writes the association and ratios of least cost into d.Users, sets d.PriceSPerJ and
// calls d.Evaluate; it does not change d.Move. A price that is not positive counts as zero.
func (s *Solver) At(priceSPerJ float64, d *slot.Decision) {
	priceSPerJ = clampPrice(priceSPerJ)
	s.solve(priceSPerJ)
	s.writeDecision(priceSPerJ, d)
}

// Of an aircraft whose order limits what it computes, a joule becomes so many times dearer, so
// often at most, until it spends within the limit.
const dearer, dearerSteps = 2.5, 5

// Ordered is At with the weights of Weigh, which it changes, within the limits of the snapshot's orders:
// users of an aircraft that would pass its limit go to the others or compute locally. What is
// above the limit still is cut.
func (s *Solver) Ordered(c *physics.Constants, snapshot *slot.Snapshot, priceSPerJ float64, weights []float64, d *slot.Decision) {
	for range dearerSteps {
		s.Weigh(weights)
		s.At(priceSPerJ, d)
		within := true
		for m := range snapshot.Aircraft {
			if o := &snapshot.Aircraft[m].Order; o.LimitsEdge && d.EdgeJ[m] > o.EdgeLimitJ {
				weights[m] *= dearer
				within = false
			}
		}
		if within {
			return
		}
	}
	d.LimitEdge(c, snapshot)
}

// solve leaves the solution at a price in s.all.found.
func (s *Solver) solve(priceSPerJ float64) {
	v := &s.all
	if len(v.met) > 0 { // from what was found at the nearest prices
		k := 0
		for k < len(v.met)-1 && v.met[k].priceSPerJ < priceSPerJ {
			k++
		}
		above, below := v.met[k].counts, v.met[max(k-1, 0)].counts
		if len(s.someMembers) == 0 {
			v.search(priceSPerJ, above, below)
			return
		}
		v.at(priceSPerJ)
		v.value(above)
		v.value(below)
		v.finishSampled()
		return
	}
	if len(s.someMembers) == 0 {
		v.search(priceSPerJ)
		return
	}
	s.sample.search(priceSPerJ)
	v.at(priceSPerJ)
	v.value(s.scaled(s.sample.found.counts))
	v.finishSampled()
}

// scaled returns the counts of all users that those of the sample stand for.
func (s *Solver) scaled(counts []int) []int {
	n, left := s.all.trial(), len(s.users)
	for m, c := range counts {
		n[m] = min(int(math.Round(float64(c)*s.sample.weight)), left)
		left -= n[m]
	}
	return n
}

// Sweep writes the edge energy of the slot at prices, which rise, into edgeJ. By
// construction it does not rise with the price: of all solutions met, each price gets
// the one of least cost there.
func (s *Solver) Sweep(pricesSPerJ, edgeJ []float64) {
	v := &s.all
	if len(s.someMembers) > 0 {
		s.sample.sweep(pricesSPerJ)
		v.met = slices.Grow(v.met[:0], len(pricesSPerJ))[:len(pricesSPerJ)]
		for k := len(pricesSPerJ) - 1; k >= 0; k-- {
			v.at(pricesSPerJ[k])
			v.value(s.scaled(s.sample.met[k].counts))
			if k+1 < len(v.met) {
				v.value(v.met[k+1].counts)
			}
			v.finishSampled()
			v.keep(k)
		}
	} else {
		v.sweep(pricesSPerJ)
	}
	for k, price := range pricesSPerJ {
		least := &v.met[k]
		for i := range v.met {
			if x := &v.met[i]; x.delayS+price*x.edgeJ < least.delayS+price*least.edgeJ {
				least = x
			}
		}
		edgeJ[k] = least.edgeJ
	}
}

// anchorEvery is how many prices on a sweep searches without a start.
const anchorEvery = 8

// sweep searches at each price, first at some without a start, from there at the others.
func (v *valuer) sweep(prices []float64) {
	last := len(prices) - 1
	v.met = slices.Grow(v.met[:0], len(prices))[:len(prices)]
	for k := last; k >= 0; k -= anchorEvery {
		v.search(prices[k])
		v.keep(k)
	}
	for k := last - 1; k >= 0; k-- {
		switch below := k - anchorEvery + (last-k)%anchorEvery; {
		case (last-k)%anchorEvery == 0:
			continue
		case below >= 0:
			v.search(prices[k], v.met[k+1].counts, v.met[below].counts)
		default:
			v.search(prices[k], v.met[k+1].counts)
		}
		v.keep(k)
	}
}

// keep remembers what was found at the k-th price of a sweep.
func (v *valuer) keep(k int) {
	x := &v.met[k]
	x.priceSPerJ, x.counts = v.priceSPerJ, append(x.counts[:0], v.found.counts...)
	x.edgeJ = 0
	for i, server := range v.found.server {
		if server > 0 {
			x.edgeJ += v.weight * v.solver.edgeJ(v.members[i], server-1, v.usersOf(v.found.counts[server-1]), v.priceSPerJ)
		}
	}
	for m, n := range v.found.counts {
		_, edgeJ := v.solver.unreported(m, v.usersOf(n))
		x.edgeJ += edgeJ
	}
	x.delayS = -v.weight*v.found.gainS - v.priceSPerJ*x.edgeJ
}

func (s *Solver) unreportedLoad(m int) (load *slot.UnreportedLoad, cpuHz float64) {
	a := &s.snapshot.Aircraft[s.fleet[m]]
	return &a.Unreported, a.CPUHz
}

// unreported returns the expected delay and edge energy of aircraft m's unreported load when
// it serves n users.
func (s *Solver) unreported(m, n int) (delayS, edgeJ float64) {
	load, hz := s.unreportedLoad(m)
	if !(load.ExpectedUsers > 0 && hz > 0) {
		return 0, 0
	}
	squares, reciprocals := load.ShareSums(n)
	return load.CyclesPerUser * reciprocals / hz, load.CyclesPerUser * s.constants.SwitchedCapacitance * hz * hz * squares
}

// fillGains writes what members gain at aircraft m, when it serves n users, over
// computing locally.
func (s *Solver) fillGains(m, n int, priceSPerJ float64, members []int, gainsS []float64) {
	load, _ := s.unreportedLoad(m)
	sharers := max(load.EffectiveUsers(n), 1)
	links := s.links[m*len(s.users):][:len(s.users)]
	priceSPerJ *= s.weights[m]
	perSharers, penaltyS := priceSPerJ/(sharers*sharers), s.constants.PenaltyS
	for k, i := range members {
		u, l := &s.users[i], &links[i]
		if l.perSharerS == 0 {
			gainsS[k] = unusableS
			continue
		}
		if u.uncertain {
			_, costS := s.expectedOffload(i, m, sharers, priceSPerJ)
			gainsS[k] = boundGainS(u.localCostS - costS)
			continue
		}
		// See bestOffload.
		offloadS := l.fixedS + l.perSharerS*sharers
		rho := u.localS / (u.localS + offloadS)
		completionS, fullPriceS := offloadS*rho, perSharers*l.fullJ
		switch {
		case completionS > u.deadlineS:
			completionS += penaltyS
		case fullPriceS > u.localS && u.leastRho > 0 && u.leastRho < rho:
			completionS, rho = u.deadlineS, u.leastRho
		}
		gainsS[k] = boundGainS(u.localCostS - completionS - fullPriceS*rho)
	}
}

// boundGainS bounds a gain, of figures that may overflow: one that is no number is unusable.
func boundGainS(gainS float64) float64 {
	if !(gainS > unusableS) {
		return unusableS
	}
	return min(gainS, maxGainS)
}

// edgeJ is the edge energy of user i at aircraft m when that serves n users.
func (s *Solver) edgeJ(i, m, n int, priceSPerJ float64) float64 {
	rho, _ := s.option(i, m, n, priceSPerJ)
	load, _ := s.unreportedLoad(m)
	sharers := max(load.EffectiveUsers(n), 1)
	return rho * s.links[m*len(s.users)+i].fullJ / (sharers * sharers)
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
func (s *Solver) option(i, m, n int, priceSPerJ float64) (rho, costS float64) {
	if s.links[m*len(s.users)+i].perSharerS == 0 {
		return 0, math.Inf(1)
	}
	priceSPerJ *= s.weights[m]
	a, u := &s.snapshot.Aircraft[s.fleet[m]], &s.snapshot.Users[s.order[i]]
	if s.users[i].uncertain {
		return s.expectedOffload(i, m, max(a.Unreported.EffectiveUsers(n), 1), priceSPerJ)
	}
	share := s.constants.EqualShare(u.Gain[s.fleet[m]], a.CPUHz, a.Unreported.EffectiveUsers(n))
	return bestOffload(s.constants, u.Task, s.users[i].localS, share, priceSPerJ)
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

func (s *Solver) writeDecision(priceSPerJ float64, d *slot.Decision) {
	d.Users = reuse.Slice(d.Users, len(s.users))
	d.PriceSPerJ = priceSPerJ
	for k, server := range s.all.found.server {
		if server == 0 {
			continue
		}
		rho, _ := s.option(k, server-1, s.all.found.counts[server-1], priceSPerJ)
		if rho > 0 {
			d.Users[s.order[k]] = slot.UserDecision{Server: s.fleet[server-1] + 1, Offload: rho}
		}
	}
	d.Evaluate(s.constants, s.snapshot)
}
