package motion

import (
	"cmp"
	"math"
	"slices"

	"prefdt/inference/physics"
	"prefdt/inference/reuse"
	"prefdt/inference/slot"
)

// Targets writes a target for each aircraft into dst and returns it: the joint
// positions at which the tasks of the known users are expected to take the least
// time in a slot. Before any user has reported, users are assumed on a grid over
// the area. It is a pattern search (Hooke and Jeeves 1961) from the present
// positions: steps in the four directions for one aircraft after the other, in the
// order of their numbers, then smaller ones.
func (p *Planner) Targets(c *physics.Constants, aircraft []slot.Aircraft, dst []physics.Position) []physics.Position {
	dst = dst[:0]
	p.bestSpeedMPS, p.minFlightW = c.MinPower()
	if len(aircraft) == 0 {
		return dst
	}
	p.prepare(c, aircraft)
	p.searchOrder = p.searchOrder[:0]
	for m := range aircraft {
		dst = append(dst, aircraft[m].Position)
		p.updateViews(m, dst[m])
		p.searchOrder = append(p.searchOrder, m)
	}
	slices.SortFunc(p.searchOrder, func(a, b int) int { return cmp.Compare(aircraft[a].Number, aircraft[b].Number) })
	present := p.expectedDelayS()
	least := present
	for stepM := c.AreaSideM / 8; stepM >= minStepM; stepM /= 2 {
		inVain := 0 // tries since the last that was better
		for round, improved := 0, true; improved && round < maxRounds; round++ {
			improved = false
			for _, m := range p.searchOrder {
				for _, direction := range directions {
					if inVain == len(directions)*p.fleetSize {
						break // each was tried from where all are now
					}
					to := dst[m].Add(direction.Scale(stepM))
					inVain++
					if s := p.delayWithS(m, to); s < least*(1-1e-7) {
						least, dst[m], improved, inVain = s, to, true, 0
					}
				}
				p.updateViews(m, dst[m])
			}
		}
	}
	p.savedDelayS = reuse.Slice(p.savedDelayS, len(aircraft))
	for m := range aircraft {
		p.updateViews(m, aircraft[m].Position)
		p.savedDelayS[m] = max(p.expectedDelayS()-least, 0)
		p.updateViews(m, dst[m])
	}
	p.shareJointSaving(present - least)
	return dst
}

// shareJointSaving adds to what each aircraft saves at its target with all others at theirs.
// Where these leave it little, because each could do without the other, all together still
// save what none does that stays where it is: then each has its part.
func (p *Planner) shareJointSaving(jointS float64) {
	apartS := 0.0
	for _, s := range p.savedDelayS {
		apartS += s
	}
	if lackS := jointS - apartS/leastApart; lackS > 0 {
		for m := range p.savedDelayS {
			p.savedDelayS[m] += lackS / float64(p.fleetSize)
		}
	}
}

// leastApart is the part of the joint saving that the savings of each alone add up to
// where aircraft have places of their own.
const leastApart = 0.25

var directions = [...]physics.Position{{EastM: 1}, {NorthM: 1}, {EastM: -1}, {NorthM: -1}}

const (
	minStepM  = 4.0 // last step of the search; an aircraft circles its target at 20 m
	maxRounds = 4   // over the aircraft, at each step
)

// SpendAboveFloorJ returns what a decision on the slot of the last call of Targets
// spends above the flight floor: its edge energy, and the power, times a measured
// multiplier, of flying to the targets at the decision's price above what staying takes.
func (p *Planner) SpendAboveFloorJ(c *physics.Constants, s *slot.Snapshot, targets []physics.Position, air *Air, multiplier float64,
	d *slot.Decision) float64 {
	sumJ, holdW := d.TotalEdgeJ(), p.HoldW(c, air)
	for m := range s.Aircraft {
		if len(air.Winds) == 0 {
			sumJ += multiplier * (c.Propulsion.PowerW(p.SpeedMPS(c, s, m, targets[m], d.PriceSPerJ)) - holdW)
			continue
		}
		move := p.MoveInAir(c, s, m, targets[m], air, d.PriceSPerJ)
		sumJ += multiplier * max(air.ModelW(c, move)-holdW, 0)
	}
	return sumJ
}

// SpeedMPS returns the speed at which aircraft m of the last call of Targets should
// fly to its target, at a price of energy: that of the least total cost of the way, in
// flight power above the least and in the delay that being there would save. It is v*,
// the speed of least power, near the target and where no delay is to be saved.
func (p *Planner) SpeedMPS(c *physics.Constants, s *slot.Snapshot, m int, target physics.Position, priceSPerJ float64) float64 {
	distanceM := target.Sub(s.Aircraft[m].Position).Norm()
	best := p.bestSpeedMPS
	fastest := min(max(best, maxSpeedShare*c.SpeedMaxMPS), best+max(distanceM-circleRadiusSteps*best, 0)/decelerationTimeS)
	if p.savedDelayS[m] <= 0 || fastest <= best {
		return best
	}
	const grid = 16
	speed, least := best, math.Inf(1)
	for k := range grid + 1 {
		v := best + (fastest-best)*float64(k)/grid
		perSlotS := priceSPerJ*(c.Propulsion.PowerW(v)-p.minFlightW) + p.savedDelayS[m]
		if costS := perSlotS * min(distanceM/v, float64(s.Slots-s.Slot)); costS < least {
			speed, least = v, costS
		}
	}
	return speed
}

const (
	maxSpeedShare     = 2.0 / 3 // of the speed limit; the rest is kept for avoidance and wind
	decelerationTimeS = 3.0     // in which an aircraft slows down from its transit speed
)

// prepare computes what the expected delay is computed from: the channel by
// distance, the mean task, and the users, or a sample of them if they are many.
func (p *Planner) prepare(c *physics.Constants, aircraft []slot.Aircraft) {
	if p.channel != c.Channel || p.altitudeM != c.AltitudeM || p.areaM != c.AreaSideM {
		p.channel, p.altitudeM, p.areaM = c.Channel, c.AltitudeM, c.AreaSideM
		for k := range p.linkTable {
			d := tableRangeSides * c.AreaSideM * float64(k) / float64(len(p.linkTable)-1)
			free := c.Channel.FreeSpaceGain(d, c.AltitudeM)
			bit := func(l physics.ChannelCondition) float64 {
				return 1 / c.Channel.RateBPS(free*l.TypicalGain(), c.Channel.BandwidthHz)
			}
			p.linkTable[k] = linkPoint{c.Channel.LoSProbability(d, c.AltitudeM), bit(c.Channel.LoS), bit(c.Channel.NLoS)}
		}
	}
	p.tasks = taskSums{slots: 1, tasks: 1, bits: 1e6, cycles: 1e9, localS: 1, deadlineS: 1}
	if p.observed.tasks > 0 {
		p.tasks = p.observed
	}
	p.penaltyS, p.fleetSize = c.PenaltyS, len(aircraft)
	cpuHz := 0.0
	for m := range aircraft {
		cpuHz += aircraft[m].CPUHz
	}
	// Each aircraft is shared by its part of a slot's users, at least one.
	p.edgeTimeS = p.tasks.cycles / p.tasks.tasks * max(p.tasks.tasks/p.tasks.slots, float64(p.fleetSize)) / max(cpuHz, 1)

	bits := p.tasks.bits / p.tasks.tasks
	for k, l := range p.linkTable {
		p.delayTable[k] = userView{losProbability: l.losProbability, losDelayS: p.meanTaskDelayS(bits * l.losBitTimeS),
			nlosDelayS: p.meanTaskDelayS(bits * l.nlosBitTimeS)}
	}
	p.samplePositions = p.samplePositions[:0]
	for k, position := range p.positions {
		if p.reports-p.seen[k] < silentSlots {
			p.samplePositions = append(p.samplePositions, position)
		}
	}
	p.thinOut()
	for k := 0; k < gridSide*gridSide && len(p.positions) == 0; k++ {
		cell := c.AreaSideM / gridSide
		p.samplePositions = append(p.samplePositions, physics.Position{EastM: cell * (0.5 + float64(k%gridSide)),
			NorthM: cell * (0.5 + float64(k/gridSide))})
	}
	p.views = reuse.Slice(p.views, len(p.samplePositions)*p.fleetSize)
}

// thinOut leaves as many of many users, at equal steps along a Morton curve through their
// places, so that each part of the area has its share of them.
func (p *Planner) thinOut() {
	n := len(p.samplePositions)
	if n <= maxSampleUsers {
		return
	}
	p.mortonCodes = p.mortonCodes[:0]
	for _, at := range p.samplePositions {
		cell := at.ClampToArea(p.areaM).Scale((1 << 16) / (p.areaM + 1))
		p.mortonCodes = append(p.mortonCodes, mortonCode{interleaved(uint32(cell.EastM))<<1 | interleaved(uint32(cell.NorthM)), at})
	}
	slices.SortStableFunc(p.mortonCodes, func(a, b mortonCode) int { return cmp.Compare(a.code, b.code) })
	p.samplePositions = p.samplePositions[:maxSampleUsers]
	for k := range p.samplePositions {
		p.samplePositions[k] = p.mortonCodes[(2*k+1)*n/(2*maxSampleUsers)].at
	}
}

// mortonCode is a place and where it is on the curve.
type mortonCode struct {
	code uint64
	at   physics.Position
}

// interleaved spreads the bits of x to every second place.
func interleaved(x uint32) (spread uint64) {
	for bit := range 16 {
		spread |= uint64(x>>bit&1) << (2 * bit)
	}
	return spread
}

const (
	tableRangeSides = 1.5 // range of the channel's table, in sides of the area
	maxSampleUsers  = 48
	gridSide        = 5 // users assumed along each side of the area
	// A user that is silent in so many slots in which others report counts no more.
	silentSlots = 120
)

// taskSums are sums over the latest reports: slots, tasks, and figures of the tasks.
type taskSums struct{ slots, tasks, bits, cycles, localS, deadlineS float64 }

func (t *taskSums) halve() {
	*t = taskSums{t.slots / 2, t.tasks / 2, t.bits / 2, t.cycles / 2, t.localS / 2, t.deadlineS / 2}
}

// linkPoint is the channel at a distance: the probability of line of sight, and the
// seconds that a bit takes with it and without.
type linkPoint struct{ losProbability, losBitTimeS, nlosBitTimeS float64 }

// userView is a user as viewed from an aircraft: its distance, the probability of
// line of sight, and the delay expected with it and without.
type userView struct{ distanceM, losProbability, losDelayS, nlosDelayS float64 }

func (p *Planner) updateViews(m int, from physics.Position) {
	last := float64(len(p.delayTable)-1) - 1e-9
	scale := last / (tableRangeSides * p.areaM)
	for u, position := range p.samplePositions {
		d := position.Sub(from)
		distanceM := math.Sqrt(d.Dot(d))
		at := last
		if x := distanceM * scale; x < at {
			at = x
		}
		k := int(at)
		a, b, f := &p.delayTable[k], &p.delayTable[k+1], at-float64(k)
		p.views[u*p.fleetSize+m] = userView{distanceM, a.losProbability + f*(b.losProbability-a.losProbability),
			a.losDelayS + f*(b.losDelayS-a.losDelayS), a.nlosDelayS + f*(b.nlosDelayS-a.nlosDelayS)}
	}
}

// delayWithS is expectedDelayS with aircraft m at another place. The search of targets is most of what a slot computes, and most
// fleets are pairs: of these nothing is sorted or stored. The view is updateViews' once more: shared, as a call for each user, it
// made the search 1.2 times as slow (BenchmarkTargets).
func (p *Planner) delayWithS(m int, place physics.Position) float64 {
	if p.fleetSize != 2 {
		p.updateViews(m, place)
		return p.expectedDelayS()
	}
	last := float64(len(p.delayTable)-1) - 1e-9
	scale := last / (tableRangeSides * p.areaM)
	sum := 0.0
	for u, position := range p.samplePositions {
		d := position.Sub(place)
		distanceM := math.Sqrt(d.Dot(d))
		at := last
		if x := distanceM * scale; x < at {
			at = x
		}
		k := int(at)
		a, b, f := &p.delayTable[k], &p.delayTable[k+1], at-float64(k)
		losProbability, losDelayS := a.losProbability+f*(b.losProbability-a.losProbability), a.losDelayS+f*(b.losDelayS-a.losDelayS)
		other := &p.views[2*u+1-m]
		if distanceM < other.distanceM {
			nlosDelayS, notInSight := a.nlosDelayS+f*(b.nlosDelayS-a.nlosDelayS), 1-losProbability
			sum += losProbability * losDelayS
			sum += notInSight * other.losProbability * other.losDelayS
			sum += notInSight * (1 - other.losProbability) * nlosDelayS
		} else {
			notInSight := 1 - other.losProbability
			sum += other.losProbability * other.losDelayS
			sum += notInSight * losProbability * losDelayS
			sum += notInSight * (1 - losProbability) * other.nlosDelayS
		}
	}
	return sum / float64(len(p.samplePositions)) * p.tasks.tasks / p.tasks.slots
}

// meanTaskDelayS is the delay of the mean task at the balanced offload ratio. Its
// penalty assumes deadlines spread evenly by half about their mean.
func (p *Planner) meanTaskDelayS(uplinkS float64) float64 {
	localS, offloadS := p.tasks.localS/p.tasks.tasks, uplinkS+p.edgeTimeS
	s := localS * offloadS / (localS + offloadS)
	return s + p.penaltyS*min(max(s*p.tasks.tasks/p.tasks.deadlineS-0.5, 0), 1)
}

// expectedDelayS is the delay expected in a slot if each user is served by the first
// of its three nearest aircraft in line of sight or, without any, by the nearest.
func (p *Planner) expectedDelayS() float64 {
	sum := 0.0
	for u := range p.samplePositions {
		var near [3]userView
		n := 0
		for _, v := range p.views[u*p.fleetSize : (u+1)*p.fleetSize] {
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
		noneInSight := 1.0
		for _, v := range near[:n] {
			sum += noneInSight * v.losProbability * v.losDelayS
			noneInSight *= 1 - v.losProbability
		}
		sum += noneInSight * near[0].nlosDelayS
	}
	return sum / float64(len(p.samplePositions)) * p.tasks.tasks / p.tasks.slots
}
