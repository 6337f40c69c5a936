package methods

import (
	"math"

	"prefdt/inference/goal"
	"prefdt/inference/physics"
)

// The first block of SCA: who computes where in one slot, and how much, at fixed
// uplink rates. The association x and the offloaded fractions rho of eq. (action) are
// relaxed to
//
//	0 <= rho[u][m] <= x[u][m],  sum over m of x[u][m] <= 1.
//
// What an aircraft gives each of n users is 1/n of its CPU, so that time has products
// rho n and energy products rho / n^2. Each product is a difference of two convex
// functions, a b = ((a+b)^2 - (a-b)^2) / 4, of which the second is replaced by its
// tangent at the iterate: the surrogate is convex, equal to the relaxed cost at the
// iterate with equal gradient, and nowhere below it (Razaviyayn, Hong and Luo, SIAM J.
// Optim. 23(2), 2013). It is minimised by conditional gradients (Frank and Wolfe 1956),
// whose steps go to corners of the set above and so need no projection.

// slotUser is one user's task in a slot.
type slotUser struct {
	weight  float64 // how many such users are expected; 1 for one that is there
	task    physics.Task
	localS  float64   // of the whole task on its own CPU
	uploadS []float64 // of the whole task to each aircraft
}

// slotProgram is the weighted cost of one slot, as a function of who computes where.
type slotProgram struct {
	constants   *physics.Constants
	users       []slotUser
	cpuHz       []float64 // of each aircraft
	delayWeight float64   // of a second
	priceWeight float64   // of a joule
}

// smoothS is the width, in seconds, over which the greater of two times and the onset of
// a missed deadline are smoothed. The smooth maximum is convex and exceeds the
// maximum by 0.7 of it at most.
const smoothS = 0.01

// smoothMax returns log(exp(a/w)+exp(b/w)) w, and its derivative by a; by b it is 1 less that.
func smoothMax(a, b float64) (y, da float64) {
	d := (a - b) / smoothS
	if d > 0 {
		e := math.Exp(-d)
		return a + smoothS*math.Log1p(e), 1 / (1 + e)
	}
	e := math.Exp(d)
	return b + smoothS*math.Log1p(e), e / (1 + e)
}

// product is the surrogate of a b at an iterate (a0, b0), where b is a convex function
// of n with value b, slope db, and tangent value and slope at the iterate. It returns
// the value and the derivatives by a and by n.
func product(a, b, db, bTangent, dbTangent, a0, b0 float64) (y, dya, dyn float64) {
	z0 := a0 - b0
	if z0 > 0 { // the tangent of -(a-b)^2 has +2 z0 b, which is convex as it stands
		bTangent, dbTangent = b, db
	}
	y = ((a+b)*(a+b) + z0*z0 - 2*z0*a + 2*z0*bTangent) / 4
	return y, ((a + b) - z0) / 2, ((a+b)*db + z0*dbTangent) / 2
}

// relaxed is a point of the relaxed set, by user and aircraft.
type relaxed struct{ x, rho []float64 }

func newRelaxed(n int) relaxed { return relaxed{make([]float64, n), make([]float64, n)} }

// dot is the derivative along a direction by a gradient.
func (p relaxed) dot(direction relaxed) (sum float64) {
	for i := range p.x {
		sum += p.x[i]*direction.x[i] + p.rho[i]*direction.rho[i]
	}
	return sum
}

// step sets p to a point and a part of the way in a direction.
func (p relaxed) step(from relaxed, part float64, direction relaxed) {
	for i := range p.x {
		p.x[i], p.rho[i] = from.x[i]+part*direction.x[i], from.rho[i]+part*direction.rho[i]
	}
}

// cost returns the surrogate of the relaxed cost at an iterate and, into grad, its
// gradient. With p for the iterate it is the relaxed cost itself.
func (s *slotProgram) cost(p, iterate, grad relaxed) float64 {
	aircraft := len(s.cpuHz)
	var load, load0, dload [64]float64 // sums of weight x; of the fleet, which has 64 at most
	for u := range s.users {
		for m := range aircraft {
			load[m] += s.users[u].weight * p.x[u*aircraft+m]
			load0[m] += s.users[u].weight * iterate.x[u*aircraft+m]
			grad.x[u*aircraft+m], grad.rho[u*aircraft+m] = 0, 0
		}
	}
	total := 0.0
	var dtime, denergy [64][2]float64 // derivatives of one user's time and energy at each aircraft, by rho and by n
	for u := range s.users {
		user := &s.users[u]
		cycles := user.task.Cycles()
		offloaded, offloadS, energyJ := 0.0, 0.0, 0.0
		for m := range aircraft {
			i := u*aircraft + m
			n, n0 := 1+load[m]-user.weight*p.x[i], 1+load0[m]-user.weight*iterate.x[i] // users served, this one included
			rho, rho0 := p.rho[i], iterate.rho[i]
			y, da, dn := product(rho, n, 1, n, 1, rho0, n0)
			k := cycles / s.cpuHz[m]
			offloadS += rho*user.uploadS[m] + k*y
			dtime[m] = [2]float64{user.uploadS[m] + k*da, k * dn}
			g0, dg0 := 1/(n0*n0), -2/(n0*n0*n0)
			y, da, dn = product(rho, 1/(n*n), -2/(n*n*n), g0+dg0*(n-n0), dg0, rho0, g0)
			k = s.constants.EdgeJ(user.task, physics.Share{CPUHz: s.cpuHz[m]}, 1)
			energyJ += k * y
			denergy[m] = [2]float64{k * da, k * dn}
			offloaded += rho
		}
		completionS, dlocal := smoothMax((1-offloaded)*user.localS, offloadS)
		cost, dcompletion := completionS, 1.0
		if late := user.localS - user.task.DeadlineS; late > 0 {
			// The convex envelope of the penalty on [0, T_loc]; next to the deadline its
			// slope is bounded.
			slope := s.constants.PenaltyS / max(late, 0.05)
			hinge, dhinge := smoothMax(completionS-user.task.DeadlineS, 0)
			cost += slope * hinge
			dcompletion += slope * dhinge
		}
		total += user.weight * (s.delayWeight*cost + s.priceWeight*energyJ)
		dcompletion *= user.weight * s.delayWeight
		for m := range aircraft {
			i := u*aircraft + m
			grad.rho[i] += dcompletion*((1-dlocal)*dtime[m][0]-dlocal*user.localS) + user.weight*s.priceWeight*denergy[m][0]
			dn := dcompletion*(1-dlocal)*dtime[m][1] + user.weight*s.priceWeight*denergy[m][1]
			// Every other user's x counts towards n.
			dload[m] += dn
			grad.x[i] -= user.weight * dn
		}
	}
	for u := range s.users {
		for m := range aircraft {
			grad.x[u*aircraft+m] += s.users[u].weight * dload[m]
		}
	}
	return total
}

// minimise takes p, in place, towards the least of the surrogate at an iterate.
func (s *slotProgram) minimise(p, iterate relaxed, steps int) {
	aircraft, n := len(s.cpuHz), len(p.x)
	grad, direction, trial := newRelaxed(n), newRelaxed(n), newRelaxed(n)
	for range steps {
		s.cost(p, iterate, grad)
		for u := range s.users {
			best, least, full := -1, 0.0, false
			for m := range aircraft {
				i := u*aircraft + m
				if g := grad.x[i]; g < least {
					best, least, full = i, g, false
				}
				if g := grad.x[i] + grad.rho[i]; g < least {
					best, least, full = i, g, true
				}
				direction.x[i], direction.rho[i] = -p.x[i], -p.rho[i]
			}
			if best >= 0 {
				direction.x[best]++
			}
			if full {
				direction.rho[best]++
			}
		}
		if grad.dot(direction) > -1e-12 {
			return
		}
		part, _ := goal.Bisect(0, 1, 8, func(part float64) bool { // the surrogate is convex along the step
			trial.step(p, part, direction)
			s.cost(trial, iterate, grad)
			return grad.dot(direction) <= 0
		})
		p.step(p, part, direction)
	}
}

// slotChoice is who computes where, and how much: for each user the aircraft counted
// from 1, or 0 for local, and rho.
type slotChoice struct {
	server  []int
	offload []float64
}

// starts returns where the approximation begins: evenly, and with everybody at one
// aircraft, since the energy of shared CPUs makes a minimum of each.
func (s *slotProgram) starts() (list []relaxed) {
	aircraft := len(s.cpuHz)
	for only := -1; only < aircraft; only++ {
		p := newRelaxed(len(s.users) * aircraft)
		for i := range p.x {
			if only < 0 {
				p.x[i] = 1 / float64(aircraft+1)
			} else if i%aircraft == only {
				p.x[i] = 1
			}
			p.rho[i] = p.x[i] / 2
		}
		list = append(list, p)
	}
	return list
}

// startAt returns the relaxed point of a choice.
func (s *slotProgram) startAt(c *slotChoice) relaxed {
	p := newRelaxed(len(s.users) * len(s.cpuHz))
	for u, server := range c.server {
		if server > 0 {
			i := u*len(s.cpuHz) + server - 1
			p.x[i], p.rho[i] = 1, c.offload[u]
		}
	}
	return p
}

// solve returns the slot's best choice over some starts, and its cost: successive convex
// approximation of the relaxed cost, rounding to the aircraft with most of a user's task,
// and then for each user the best fraction at the shares that result. Users keep to
// their CPU if less than roundBelow of their task is offloaded in the relaxed solution,
// or if that costs less.
func (s *slotProgram) solve(starts []relaxed, iterations, steps int, roundBelow float64) (best slotChoice, least float64) {
	aircraft := len(s.cpuHz)
	least = math.Inf(1)
	iterate := newRelaxed(len(s.users) * aircraft)
	for _, p := range starts {
		for range iterations {
			copy(iterate.x, p.x)
			copy(iterate.rho, p.rho)
			s.minimise(p, iterate, steps)
		}
		c := slotChoice{make([]int, len(s.users)), make([]float64, len(s.users))}
		for u := range s.users {
			most := roundBelow
			for m := range aircraft {
				if rho := p.rho[u*aircraft+m]; rho > most {
					most, c.server[u] = rho, m+1
				}
			}
		}
		if cost := s.improve(&c); cost < least {
			best, least = c, cost
		}
	}
	return best, least
}

// improve sets each served user's fraction to the best at the shares of the present
// association, in closed form, and makes those local that are better off so. It
// returns the cost.
func (s *slotProgram) improve(c *slotChoice) float64 {
	for {
		served := s.served(c)
		changed, total := false, 0.0
		for u := range s.users {
			user := &s.users[u]
			c.offload[u] = 0
			least := user.weight * s.delayWeight * s.constants.PenalizedDelayS(user.task, user.localS)
			if m := c.server[u] - 1; m >= 0 {
				share, offloadS := s.share(u, m, served[m])
				local := true
				try := func(rho float64) {
					if cost := s.userCost(user, share, offloadS, rho); cost < least {
						least, c.offload[u], local = cost, rho, false
					}
				}
				try(physics.BalancedOffload(user.localS, offloadS))
				if rho, ok := physics.LeastOffloadForDeadline(user.localS, offloadS, user.task.DeadlineS); ok {
					try(rho)
				}
				if local {
					c.server[u], changed = 0, true
				}
			}
			total += least
		}
		if !changed {
			return total
		}
	}
}

// served returns how many users each aircraft is expected to serve.
func (s *slotProgram) served(c *slotChoice) []float64 {
	n := make([]float64, len(s.cpuHz))
	for u, server := range c.server {
		if server > 0 {
			n[server-1] += s.users[u].weight
		}
	}
	return n
}

// share returns what aircraft m gives user u where it serves n users in all, and the
// time of the whole task there.
func (s *slotProgram) share(u, m int, n float64) (physics.Share, float64) {
	user := &s.users[u]
	share := physics.Share{CPUHz: s.cpuHz[m] / (1 + max(n-user.weight, 0))}
	return share, user.uploadS[m] + user.task.Cycles()/share.CPUHz
}

func (s *slotProgram) userCost(user *slotUser, share physics.Share, offloadS, rho float64) float64 {
	delayS := s.constants.PenalizedDelayS(user.task, physics.CompletionS(user.localS, offloadS, rho))
	return user.weight * (s.delayWeight*delayS + s.priceWeight*s.constants.EdgeJ(user.task, share, rho))
}
