package motion

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
func (t *Planner) Targets(c *physics.Constants, aircraft []slot.Aircraft, dst []physics.Position) []physics.Position {
	dst = dst[:0]
	if len(aircraft) == 0 {
		return dst
	}
	t.prepare(c, aircraft)
	t.searchOrder = t.searchOrder[:0]
	for m := range aircraft {
		dst = append(dst, aircraft[m].Position)
		t.updateViews(m, dst[m])
		k := len(t.searchOrder)
		for t.searchOrder = append(t.searchOrder, m); k > 0 && aircraft[t.searchOrder[k-1]].Number > aircraft[m].Number; k-- {
			t.searchOrder[k] = t.searchOrder[k-1]
		}
		t.searchOrder[k] = m
	}
	least := t.expectedDelayS()
	for stepM := c.AreaSideM / 8; stepM >= minStepM; stepM /= 2 {
		for round, better := 0, true; better && round < maxRounds; round++ {
			better = false
			for _, m := range t.searchOrder {
				for _, way := range directions {
					to := dst[m].Add(way.Scale(stepM))
					t.updateViews(m, to)
					if s := t.expectedDelayS(); s < least*(1-1e-7) {
						least, dst[m], better = s, to, true
					}
				}
				t.updateViews(m, dst[m])
			}
		}
	}
	t.savedDelayS = reuse.Slice(t.savedDelayS, len(aircraft))
	for m := range aircraft {
		t.updateViews(m, aircraft[m].Position)
		t.savedDelayS[m] = max(t.expectedDelayS()-least, 0)
		t.updateViews(m, dst[m])
	}
	return dst
}

var directions = [...]physics.Position{{EastM: 1}, {NorthM: 1}, {EastM: -1}, {NorthM: -1}}

const (
	minStepM  = 4.0 // last step of the search; an aircraft circles its target at 20 m
	maxRounds = 4   // of the compass, at each step
)

// SpeedMPS returns how fast aircraft m of the last call of Targets should fly
// to its target, so far away, with so many slots left and a joule at a price:
// the speed at which the way costs least, in flight power above the least and
// in the delay that being there would save. It is v*, the speed of least power,
// near the target and where nothing is to be saved.
func (t *Planner) SpeedMPS(c *physics.Constants, m, left int, distanceM, priceSPerJ float64) float64 {
	best := c.Propulsion.BestSpeedMPS(c.SpeedMaxMPS)
	most := min(max(best, maxSpeedShare*c.SpeedMaxMPS), best+max(distanceM-circleRadiusSteps*best, 0)/decelerationTimeS)
	if t.savedDelayS[m] <= 0 || most <= best {
		return best
	}
	const grid = 16
	floorW := c.Propulsion.PowerW(best)
	speed, least := best, math.Inf(1)
	for k := range grid + 1 {
		v := best + (most-best)*float64(k)/grid
		perSlotS := priceSPerJ*(c.Propulsion.PowerW(v)-floorW) + t.savedDelayS[m]
		if costS := perSlotS * min(distanceM/v, float64(left)); costS < least {
			speed, least = v, costS
		}
	}
	return speed
}

const (
	maxSpeedShare     = 2.0 / 3 // of the speed limit; the rest is left to avoidance and wind
	decelerationTimeS = 3.0     // the time a dash takes to slow down in
)

// prepare prepares what the expectation rests on: the channel by distance, the
// mean task, and the users, thinned out where they are many.
func (t *Planner) prepare(c *physics.Constants, aircraft []slot.Aircraft) {
	if t.channel != c.Channel || t.altitudeM != c.AltitudeM || t.areaM != c.AreaSideM {
		t.channel, t.altitudeM, t.areaM = c.Channel, c.AltitudeM, c.AreaSideM
		for k := range t.linkTable {
			d := tableRangeSides * c.AreaSideM * float64(k) / float64(len(t.linkTable)-1)
			free := c.Channel.FreeSpaceGain(d, c.AltitudeM)
			bit := func(l physics.ChannelCondition) float64 {
				return 1 / c.Channel.RateBPS(free*l.TypicalGain(), c.Channel.BandwidthHz)
			}
			t.linkTable[k] = linkPoint{c.Channel.LoSProbability(d, c.AltitudeM), bit(c.Channel.LoS), bit(c.Channel.NLoS)}
		}
	}
	t.tasks = taskSums{slots: 1, tasks: 1, bits: 1e6, cycles: 1e9, localS: 1, deadlineS: 1}
	if t.observed.tasks > 0 {
		t.tasks = t.observed
	}
	t.penaltyS, t.fleetSize = c.PenaltyS, len(aircraft)
	cpuHz := 0.0
	for m := range aircraft {
		cpuHz += aircraft[m].CPUHz
	}
	// Each aircraft is shared by its part of a slot's users, one at least.
	t.edgeTimeS = t.tasks.cycles / t.tasks.tasks * max(t.tasks.tasks/t.tasks.slots, float64(t.fleetSize)) / max(cpuHz, 1)

	bits := t.tasks.bits / t.tasks.tasks
	for k, l := range t.linkTable {
		t.delayTable[k] = userView{losProbability: l.losProbability, losDelayS: t.meanTaskDelayS(bits * l.losBitTimeS), nlosDelayS: t.meanTaskDelayS(bits * l.nlosBitTimeS)}
	}
	t.samplePositions = t.samplePositions[:0]
	stride := (len(t.positions) + maxSampleUsers - 1) / maxSampleUsers
	for k := 0; k < len(t.positions); k += max(stride, 1) {
		t.samplePositions = append(t.samplePositions, t.positions[k])
	}
	for k := 0; k < gridSide*gridSide && len(t.positions) == 0; k++ {
		cell := c.AreaSideM / gridSide
		t.samplePositions = append(t.samplePositions, physics.Position{EastM: cell * (0.5 + float64(k%gridSide)), NorthM: cell * (0.5 + float64(k/gridSide))})
	}
	t.views = reuse.Slice(t.views, len(t.samplePositions)*t.fleetSize)
}

const (
	tableRangeSides = 1.5 // times the area's side, how far the table of the channel goes
	maxSampleUsers  = 48
	gridSide        = 5 // of users assumed
)

// taskSums sums what was heard: slots, tasks, and what these ask for.
type taskSums struct{ slots, tasks, bits, cycles, localS, deadlineS float64 }

// linkPoint is the channel at a distance: the probability of line of sight, and the
// seconds a bit takes with it and without.
type linkPoint struct{ losProbability, losBitTimeS, nlosBitTimeS float64 }

// userView is a user seen from an aircraft: its distance, the probability of line
// of sight, and the delay expected with it and without.
type userView struct{ distanceM, losProbability, losDelayS, nlosDelayS float64 }

// updateViews notes how every user is seen from a place of aircraft m.
func (t *Planner) updateViews(m int, from physics.Position) {
	last := float64(len(t.delayTable)-1) - 1e-9
	scale := last / (tableRangeSides * t.areaM)
	for u, p := range t.samplePositions {
		d := p.Sub(from)
		distanceM := math.Sqrt(d.Dot(d))
		at := last
		if x := distanceM * scale; x < at {
			at = x
		}
		k := int(at)
		a, b, f := &t.delayTable[k], &t.delayTable[k+1], at-float64(k)
		t.views[u*t.fleetSize+m] = userView{distanceM, a.losProbability + f*(b.losProbability-a.losProbability), a.losDelayS + f*(b.losDelayS-a.losDelayS), a.nlosDelayS + f*(b.nlosDelayS-a.nlosDelayS)}
	}
}

// meanTaskDelayS is the delay of the mean task at the balance of user and aircraft,
// with the penalty as if deadlines were spread by half about their mean.
func (t *Planner) meanTaskDelayS(uplinkS float64) float64 {
	localS, offloadS := t.tasks.localS/t.tasks.tasks, uplinkS+t.edgeTimeS
	s := localS * offloadS / (localS + offloadS)
	return s + t.penaltyS*min(max(s*t.tasks.tasks/t.tasks.deadlineS-0.5, 0), 1)
}

// expectedDelayS is the delay expected of a slot: each user is served by the nearest
// aircraft in its line of sight, of the nearest three, and if none is by the
// nearest.
func (t *Planner) expectedDelayS() float64 {
	sum := 0.0
	for u := range t.samplePositions {
		var near [3]userView
		n := 0
		for _, v := range t.views[u*t.fleetSize : (u+1)*t.fleetSize] {
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
			sum += hidden * v.losProbability * v.losDelayS
			hidden *= 1 - v.losProbability
		}
		sum += hidden * near[0].nlosDelayS
	}
	return sum / float64(len(t.samplePositions)) * t.tasks.tasks / t.tasks.slots
}
