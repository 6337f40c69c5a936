package tracking

import (
	"math"

	"prefdt/inference/physics"
	"prefdt/inference/reuse"
	"prefdt/inference/slot"
)

// Targets fills dst with a target for each aircraft and returns it: the joint
// places at which a slot's tasks are expected to take least time, over the
// users known. Before any user was heard, one may be anywhere in the area. It
// is a pattern search (Hooke and Jeeves 1961) from the present positions: a
// compass of steps for one aircraft after the other, in the order of their
// numbers, then finer ones.
func (t *Tracker) Targets(c *physics.Constants, aircraft []slot.Aircraft, dst []physics.Position) []physics.Position {
	dst = dst[:0]
	if len(aircraft) == 0 {
		return dst
	}
	t.survey(c, aircraft)
	t.order = t.order[:0]
	for m := range aircraft {
		dst = append(dst, aircraft[m].Position)
		t.look(m, dst[m])
		k := len(t.order)
		for t.order = append(t.order, m); k > 0 && aircraft[t.order[k-1]].Number > aircraft[m].Number; k-- {
			t.order[k] = t.order[k-1]
		}
		t.order[k] = m
	}
	least := t.expectS()
	for stepM := c.AreaM / 8; stepM >= finestM; stepM /= 2 {
		for round, better := 0, true; better && round < roundsMax; round++ {
			better = false
			for _, m := range t.order {
				for _, way := range compass {
					to := dst[m].Add(way.Scale(stepM))
					t.look(m, to)
					if s := t.expectS(); s < least*(1-1e-7) {
						least, dst[m], better = s, to, true
					}
				}
				t.look(m, dst[m])
			}
		}
	}
	t.gainS = reuse.Slice(t.gainS, len(aircraft))
	for m := range aircraft {
		t.look(m, aircraft[m].Position)
		t.gainS[m] = max(t.expectS()-least, 0)
		t.look(m, dst[m])
	}
	return dst
}

var compass = [...]physics.Position{{EastM: 1}, {NorthM: 1}, {EastM: -1}, {NorthM: -1}}

const (
	finestM   = 4.0 // last step of the search; an aircraft circles its target at 20 m
	roundsMax = 4   // of the compass, at each step
)

// SpeedMPS returns how fast aircraft m of the last call of Targets should fly
// to its target, so far away, with so many slots left and a joule at a price:
// the speed at which the way costs least, in flight power above the least and
// in the delay that being there would save. It is v*, the speed of least power,
// near the target and where nothing is to be saved.
func (t *Tracker) SpeedMPS(c *physics.Constants, m, left int, distanceM, priceSPerJ float64) float64 {
	best := c.Propulsion.BestSpeedMPS(c.SpeedMaxMPS)
	most := min(max(best, dash*c.SpeedMaxMPS), best+max(distanceM-circle*best, 0)/slowS)
	if t.gainS[m] <= 0 || most <= best {
		return best
	}
	const grid = 16
	floorW := c.Propulsion.PowerW(best)
	speed, least := best, math.Inf(1)
	for k := range grid + 1 {
		v := best + (most-best)*float64(k)/grid
		perSlotS := priceSPerJ*(c.Propulsion.PowerW(v)-floorW) + t.gainS[m]
		if costS := perSlotS * min(distanceM/v, float64(left)); costS < least {
			speed, least = v, costS
		}
	}
	return speed
}

const (
	dash  = 2.0 / 3 // of the speed limit; the rest is left to avoidance and wind
	slowS = 3.0     // the time a dash takes to slow down in
)

// survey prepares what the expectation rests on: the channel by distance, the
// mean task, and the users, thinned out where they are many.
func (t *Tracker) survey(c *physics.Constants, aircraft []slot.Aircraft) {
	if t.channel != c.Channel || t.altitudeM != c.AltitudeM || t.areaM != c.AreaM {
		t.channel, t.altitudeM, t.areaM = c.Channel, c.AltitudeM, c.AreaM
		for k := range t.links {
			d := reach * c.AreaM * float64(k) / float64(len(t.links)-1)
			free := c.Channel.FreeSpaceGain(d, c.AltitudeM)
			bit := func(l physics.Link) float64 { return 1 / c.Channel.RateBPS(free*l.Typical(), c.Channel.BandwidthHz) }
			t.links[k] = link{c.Channel.LoSProbability(d, c.AltitudeM), bit(c.Channel.LoS), bit(c.Channel.NLoS)}
		}
	}
	t.mean = mean{slots: 1, tasks: 1, bits: 1e6, cycles: 1e9, localS: 1, deadlineS: 1}
	if t.heard.tasks > 0 {
		t.mean = t.heard
	}
	t.penaltyS, t.crew = c.PenaltyS, len(aircraft)
	cpuHz := 0.0
	for m := range aircraft {
		cpuHz += aircraft[m].CPUHz
	}
	// Each aircraft is shared by its part of a slot's users, one at least.
	t.edgeS = t.mean.cycles / t.mean.tasks * max(t.mean.tasks/t.mean.slots, float64(t.crew)) / max(cpuHz, 1)

	bits := t.mean.bits / t.mean.tasks
	for k, l := range t.links {
		t.rings[k] = view{sight: l.sight, losS: t.delayS(bits * l.losS), nlosS: t.delayS(bits * l.nlosS)}
	}
	t.looked = t.looked[:0]
	stride := (len(t.known) + usersLooked - 1) / usersLooked
	for k := 0; k < len(t.known); k += max(stride, 1) {
		t.looked = append(t.looked, t.known[k])
	}
	for k := 0; k < grid*grid && len(t.known) == 0; k++ {
		cell := c.AreaM / grid
		t.looked = append(t.looked, physics.Position{EastM: cell * (0.5 + float64(k%grid)), NorthM: cell * (0.5 + float64(k/grid))})
	}
	t.seen = reuse.Slice(t.seen, len(t.looked)*t.crew)
}

const (
	reach       = 1.5 // times the area's side, how far the table of the channel goes
	usersLooked = 48
	grid        = 5 // of users assumed
)

// mean sums what was heard: slots, tasks, and what these ask for.
type mean struct{ slots, tasks, bits, cycles, localS, deadlineS float64 }

// link is the channel at a distance: the probability of line of sight, and the
// seconds a bit takes with it and without.
type link struct{ sight, losS, nlosS float64 }

// view is a user seen from an aircraft: its distance, the probability of line
// of sight, and the delay expected with it and without.
type view struct{ distanceM, sight, losS, nlosS float64 }

// look notes how every user is seen from a place of aircraft m.
func (t *Tracker) look(m int, from physics.Position) {
	last := float64(len(t.rings)-1) - 1e-9
	scale := last / (reach * t.areaM)
	for u, p := range t.looked {
		d := p.Sub(from)
		distanceM := math.Sqrt(d.Dot(d))
		at := last
		if x := distanceM * scale; x < at {
			at = x
		}
		k := int(at)
		a, b, f := &t.rings[k], &t.rings[k+1], at-float64(k)
		t.seen[u*t.crew+m] = view{distanceM, a.sight + f*(b.sight-a.sight), a.losS + f*(b.losS-a.losS), a.nlosS + f*(b.nlosS-a.nlosS)}
	}
}

// delayS is the delay of the mean task at the balance of user and aircraft,
// with the penalty as if deadlines were spread by half about their mean.
func (t *Tracker) delayS(uplinkS float64) float64 {
	localS, offloadS := t.mean.localS/t.mean.tasks, uplinkS+t.edgeS
	s := localS * offloadS / (localS + offloadS)
	return s + t.penaltyS*min(max(s*t.mean.tasks/t.mean.deadlineS-0.5, 0), 1)
}

// expectS is the delay expected of a slot: each user is served by the nearest
// aircraft in its line of sight, of the nearest three, and if none is by the
// nearest.
func (t *Tracker) expectS() float64 {
	sum := 0.0
	for u := range t.looked {
		var near [3]view
		n := 0
		for _, v := range t.seen[u*t.crew : (u+1)*t.crew] {
			k := n
			if n < len(near) {
				n++
			} else if k--; v.distanceM >= near[k].distanceM {
				continue
			}
			for ; k > 0 && near[k-1].distanceM > v.distanceM; k-- {
				near[k] = near[k-1]
			}
			near[k] = v
		}
		hidden := 1.0
		for _, v := range near[:n] {
			sum += hidden * v.sight * v.losS
			hidden *= 1 - v.sight
		}
		sum += hidden * near[0].nlosS
	}
	return sum / float64(len(t.looked)) * t.mean.tasks / t.mean.slots
}
