package dispatch

import (
	"math"

	"prefdt/inference/slot"
)

// uncertainUser is what an uncertain user's own CPU may do: the slow one, and the one reported.
type uncertainUser struct {
	probability, localS [2]float64
	leastRho            [2]float64 // the least that meets the deadline; 0: computing locally does
}

// uncertainLink is what an uncertain user's whole task takes at an aircraft: its upload alone, at
// each possible rate, the lowest first, and its computing alone.
type uncertainLink struct {
	uploadS  [len(slot.RateWeights)]float64
	computeS float64
}

// expandUncertain computes these figures of the users whose figures are not exact.
func (s *Solver) expandUncertain() {
	users := len(s.order)
	s.uncertainUsers, s.uncertainLinks = reuseUncertain(s.uncertainUsers, users), reuseUncertain(s.uncertainLinks, users*len(s.fleet))
	for k, i := range s.order {
		t := &s.users[k]
		if !t.uncertain {
			continue
		}
		u, d := &s.snapshot.Users[i], &s.uncertainUsers[k]
		*d = uncertainUser{probability: [2]float64{0, 1}, localS: [2]float64{t.localS, t.localS}}
		if x := u.Uncertainty.SlowProbability; x > 0 && u.Uncertainty.SlowCPUHz > 0 {
			d.probability = [2]float64{min(x, 1), 1 - min(x, 1)}
			d.localS[0] = u.Task.LocalTimeS(u.Uncertainty.SlowCPUHz)
		}
		for c, localS := range d.localS {
			d.leastRho[c] = max(1-t.deadlineS/localS, 0)
		}
		for m, a := range s.fleet {
			if s.links[m*users+k].perSharerS == 0 {
				continue
			}
			link := &s.uncertainLinks[m*users+k]
			link.computeS = u.Task.Cycles() / s.snapshot.Aircraft[a].CPUHz
			uploadS := u.Task.Bits / s.constants.Channel.RateBPS(u.Gain[a], s.constants.Channel.BandwidthHz)
			for n, factor := range u.RateFactors(&s.constants.Channel, a) {
				link.uploadS[n] = uploadS / factor
			}
		}
	}
}

// reuseUncertain is reuse.Slice for figures that expandUncertain writes before they are read.
func reuseUncertain[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	return x[:n]
}

// uncertainTimes are the possible times of one user at its share of an aircraft.
type uncertainTimes struct {
	*uncertainUser
	offloadS                        [len(slot.RateWeights)]float64 // of the whole task, falling
	deadlineS, penaltyS, fullPriceS float64                        // the last: the price of offloading all of it
}

// expectedOffload is bestOffload in the mean over what user i's figures leave possible, at
// aircraft m with so many sharers.
//
// The expected completion time and the price are convex and piecewise linear in the ratio,
// with a corner where both parts finish together, for each pair of times. The expected penalty is
// constant between the ratios at which an outcome begins to meet its deadline, or ends to.
// So the least cost is at the least of the convex part or at one of those ratios.
func (s *Solver) expectedOffload(i, m int, sharers, priceSPerJ float64) (rho, costS float64) {
	link := &s.uncertainLinks[m*len(s.users)+i]
	t := uncertainTimes{
		uncertainUser: &s.uncertainUsers[i], deadlineS: s.users[i].deadlineS, penaltyS: s.constants.PenaltyS,
		fullPriceS: priceSPerJ * s.links[m*len(s.users)+i].fullJ / (sharers * sharers),
	}
	sharing := 1.0 // the bandwidth
	if s.constants.Contention {
		sharing = sharers
	}
	for k, uploadS := range link.uploadS {
		t.offloadS[k] = uploadS*sharing + link.computeS*sharers
	}
	rho, least := t.corner()
	costS, missed := t.cost(rho)
	if !least || missed > t.leastMissed() {
		const rounding = 1e-15 // must not miss the deadline
		corner := rho
		try := func(x float64) {
			// Where the convex part is no less, only the penalty can be.
			if !(x > 0 && x <= 1) || (least || x >= corner) && t.missed(x) >= missed {
				return
			}
			if at, _ := t.cost(x); at < costS {
				rho, costS = x, at
			}
		}
		for _, x := range t.leastRho {
			if x > 0 {
				try(x + rounding)
			}
		}
		for _, offloadS := range t.offloadS {
			if most := t.deadlineS / offloadS; most < 1 {
				try(most * (1 - 1e-12))
			}
		}
	}
	if !(rho > 0 && costS <= math.MaxFloat64) {
		return 0, math.Inf(1)
	}
	return rho, costS
}

// corner returns the first corner from which on the convex part rises, and whether that is
// its least: it falls before.
func (t *uncertainTimes) corner() (rho float64, least bool) {
	slope := t.fullPriceS - t.probability[0]*t.localS[0] - t.probability[1]*t.localS[1]
	least = slope < 0
	const last = len(t.offloadS)
	i, k := 0, 0 // next corner of either CPU
	if t.probability[0] == 0 {
		i = last
	}
	for {
		c, of := 0, i
		// L/(L + O) of the reported CPU is the less, if there are both.
		if i == last || k < last && t.localS[1]*t.offloadS[i] < t.localS[0]*t.offloadS[k] {
			c, of = 1, k
			k++
		} else {
			i++
		}
		slope += t.probability[c] * slot.RateWeights[of] * (t.localS[c] + t.offloadS[of])
		if !(slope < 0) || i == last && k == last {
			return t.localS[c] / (t.localS[c] + t.offloadS[of]), least
		}
	}
}

// cost returns the expected cost of a ratio, and the probability that it misses the deadline.
func (t *uncertainTimes) cost(rho float64) (costS, missed float64) {
	for c, p := range t.probability {
		if p == 0 {
			continue
		}
		own, meanS := (1-rho)*t.localS[c], 0.0
		for k, s := range t.offloadS {
			meanS += slot.RateWeights[k] * max(own, rho*s)
		}
		costS += p * meanS
	}
	missed = t.missed(rho)
	return costS + t.fullPriceS*rho + t.penaltyS*missed, missed
}

// missed returns the probability that a ratio misses the deadline.
func (t *uncertainTimes) missed(rho float64) (missed float64) {
	late := 0.0
	for k, s := range t.offloadS {
		if rho*s > t.deadlineS {
			late += slot.RateWeights[k]
		}
	}
	for c, p := range t.probability {
		if (1-rho)*t.localS[c] > t.deadlineS {
			missed += p
		} else {
			missed += p * late
		}
	}
	return missed
}

// leastMissed is the probability of the outcomes that miss the deadline at any ratio.
func (t *uncertainTimes) leastMissed() (missed float64) {
	for c, p := range t.probability {
		for k, s := range t.offloadS {
			if t.leastRho[c]*s > t.deadlineS {
				missed += p * slot.RateWeights[k]
			}
		}
	}
	return missed
}
