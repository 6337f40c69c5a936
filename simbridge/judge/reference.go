package judge

import (
	"cmp"
	"math"
	"slices"

	"prefdt/inference/budget"
	"prefdt/inference/dispatch"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// dispatched is one slot as its users reported it, and what was decided.
type dispatched struct {
	snapshot slot.Snapshot
	expected []float64 // users that the offer expects, by aircraft
	names    []string
	decided  []*telemetry.Decision // by user; nil: it has no decision
}

// slotOf is the slot that a beacon opened: users whose reports came in time, and the aircraft that served before and
// after it.
func (f *flight) slotOf(b, next *beacon, decisions map[reportKey]*decision) (x dispatched) {
	const cyclesPerUser = 0.75e9 // of a task of the corpus, as it is shared between aircraft and user
	serve, expected := map[int]physics.Position{}, map[int]float64{}
	for _, a := range b.Offer.Aircraft {
		if slices.ContainsFunc(next.Offer.Aircraft, func(o telemetry.OfferAircraft) bool { return o.Number == a.Number }) {
			serve[a.Number] = physics.Position{EastM: a.PositionM[0], NorthM: a.PositionM[1]}
		}
		expected[a.Number] = a.ExpectedUsers
	}
	for key, d := range decisions { // one whose offer nobody would take is not in it
		if key.slot == b.Slot.Slot && d.Aircraft > 0 && d.Aircraft <= len(f.aircraft) {
			if _, ok := serve[d.Aircraft]; !ok {
				p := f.aircraft[d.Aircraft-1].at(b.timeS).PositionM
				serve[d.Aircraft] = physics.Position{EastM: p[0], NorthM: p[1]}
			}
		}
	}
	for number, p := range serve {
		x.snapshot.Aircraft = append(x.snapshot.Aircraft, slot.Aircraft{Number: number, Position: p, CPUHz: f.cpuHz(number, next),
			Unreported: slot.UnreportedLoad{CyclesPerUser: cyclesPerUser}})
	}
	slices.SortFunc(x.snapshot.Aircraft, func(a, b slot.Aircraft) int { return cmp.Compare(a.Number, b.Number) })
	for _, a := range x.snapshot.Aircraft {
		x.expected = append(x.expected, expected[a.Number])
	}
	for key, r := range f.reports {
		if key.slot == b.Slot.Slot && r.Task != nil && f.inTime(&r, b) && f.listed(key.user) {
			x.names = append(x.names, key.user)
		}
	}
	slices.Sort(x.names)
	for _, name := range x.names {
		r := f.reports[reportKey{name, b.Slot.Slot}]
		u := userOf(&r)
		for _, a := range x.snapshot.Aircraft {
			gain, ok := r.Gain[a.Number]
			if !ok {
				gain = f.Physics.Channel.MeanGain(u.Position.Sub(a.Position).Norm(), f.Physics.AltitudeM)
			}
			u.Gain = append(u.Gain, gain)
		}
		x.snapshot.Users = append(x.snapshot.Users, u)
		var d *telemetry.Decision
		if y := decisions[reportKey{name, b.Slot.Slot}]; y != nil {
			d = &y.Decision
		}
		x.decided = append(x.decided, d)
	}
	return x
}

// taskOf is what a user reports of its task.
func taskOf(t *telemetry.Task) physics.Task {
	return physics.Task{Bits: t.Bits, CyclesPerBit: t.CyclesPerBit, DeadlineS: t.DeadlineS}
}

// userOf is a user by its report of a task.
func userOf(r *report) slot.User {
	return slot.User{Position: physics.Position{EastM: r.PositionM[0], NorthM: r.PositionM[1]}, CPUHz: r.CPUHz, Task: taskOf(r.Task)}
}

// shareOf is what a user has of an aircraft's CPU and of the channel to it.
func shareOf(c *physics.Constants, gain, cpuHz float64) physics.Share {
	bandwidthHz := c.Channel.BandwidthHz
	if c.Contention {
		bandwidthHz *= cpuHz / c.EdgeCPUHz
	}
	return physics.Share{CPUHz: cpuHz, RateBPS: c.Channel.RateBPS(gain, bandwidthHz)}
}

// cpuHz is the CPU of an aircraft. A worker measures what it can give, of which the next offer tells.
func (f *flight) cpuHz(number int, next *beacon) float64 {
	for _, a := range next.Offer.Aircraft {
		if a.Number == number && a.Worker != "" {
			return a.CPUHz
		}
	}
	return f.Physics.EdgeCPUHz
}

// costS is what was decided at a price: delays, penalties and priced edge energy, by what was reported, and what the users
// of the offer take beside those.
func (x *dispatched) costS(c *physics.Constants, priceSPerJ float64) (sumS float64) {
	served := make([]int, len(x.snapshot.Aircraft))
	defer func() {
		for m, a := range x.snapshot.Aircraft {
			squares, reciprocals := a.Unreported.ShareSums(served[m])
			sumS += a.Unreported.CyclesPerUser * (reciprocals/a.CPUHz + priceSPerJ*c.SwitchedCapacitance*a.CPUHz*a.CPUHz*squares)
		}
	}()
	for i := range x.snapshot.Users {
		u, d := &x.snapshot.Users[i], x.decided[i]
		localS := u.Task.LocalTimeS(u.CPUHz)
		m := -1
		if d != nil && d.Aircraft > 0 {
			m = slices.IndexFunc(x.snapshot.Aircraft, func(a slot.Aircraft) bool { return a.Number == d.Aircraft })
		}
		if m < 0 {
			sumS += c.PenalizedDelayS(u.Task, localS)
			continue
		}
		served[m]++
		share := shareOf(c, u.Gain[m], d.CPUHz)
		sumS += c.PenalizedDelayS(u.Task, physics.CompletionS(localS, u.Task.OffloadTimeS(share), d.Offload)) +
			priceSPerJ*c.EdgeJ(u.Task, share, d.Offload)
	}
	return sumS
}

// with is the slot with another decision.
func (x dispatched) with(d *slot.Decision) *dispatched {
	x.decided = nil
	for _, u := range d.Users {
		var y *telemetry.Decision
		if u.Server > 0 {
			y = &telemetry.Decision{Aircraft: x.snapshot.Aircraft[u.Server-1].Number, Offload: u.Offload, CPUHz: u.CPUHz}
		}
		x.decided = append(x.decided, y)
	}
	return &x
}

// serves reports whether a user is sent to an aircraft.
func (x *dispatched) serves() bool {
	return slices.ContainsFunc(x.decided, func(d *telemetry.Decision) bool { return d != nil && d.Aircraft > 0 })
}

// unreported is which share of the users had no decision in the slots before each, as results tell by then.
func (f *flight) unreported() map[int]float64 {
	const toldSlots, memory = 2, 20
	tasks, without := map[int]float64{}, map[int]float64{}
	for _, t := range f.tasks {
		tasks[t.Slot]++
		if r, ok := f.reports[reportKey{t.User, t.Slot}]; !ok || r.Task == nil {
			without[t.Slot]++
		}
	}
	before, share, n := map[int]float64{}, 0.0, 0.0
	for k := range f.Slots {
		if tasks[k] > 0 {
			n++
			share += (without[k]/tasks[k] - share) / min(n, memory)
		}
		before[k+toldSlots] = share
	}
	return before
}

// dispatch solves each slot again. The price of what was decided in a slot is that of the next one's offer.
func (c *check) dispatch() {
	const share, slackS, flightShare, flightSlackS, lasting = 0.1, 0.15, 0.03, 1.0, 3
	if c.bounded() {
		return // an aircraft's price is its own then, and no offer has it
	}
	if c.fades() {
		c.finding.Assumed["a sample of fading"] = float64(len(c.beacons))
		return
	}
	var solver dispatch.Solver
	var best slot.Decision
	decisions := map[reportKey]*decision{}
	for d := range pointers(c.decisions) {
		decisions[reportKey{d.user, d.Slot}] = d
	}
	unreported := c.unreported()
	allLeast, allCostS, dear := 0.0, 0.0, 0
	for k := range len(c.beacons) - 1 {
		b, next := &c.beacons[k], &c.beacons[k+1]
		if next.Slot.Slot != b.Slot.Slot+1 {
			continue
		}
		price, least, costS := next.Offer.PriceSPerJ, 0.0, math.Inf(1)
		x := c.slotOf(b, next, decisions)
		if len(x.names) == 0 || price >= budget.MaxPriceSPerJ && !x.serves() {
			continue // there is nobody to serve, or nothing to spend
		}
		if c.keepsTask(b, &x) {
			c.finding.Assumed["a function that not every worker has"]++
			continue
		}
		// How many come beside those that report is a belief, which the leader may not share.
		for _, part := range []float64{0, 0.5, 1} {
			for m := range x.snapshot.Aircraft {
				x.snapshot.Aircraft[m].Unreported.ExpectedUsers = part * unreported[b.Slot.Slot] * x.expected[m]
			}
			solver.Solve(&c.Physics, &x.snapshot, price, &best)
			if l, cost := x.with(&best).costS(&c.Physics, price), x.costS(&c.Physics, price); cost-l < costS-least {
				least, costS = l, cost
			}
		}
		bound := least*share + slackS
		if costS-least > bound && c.excusesFrom(b.timeS, b.timeS+1, "leader away", "broker away", "disk stands", "strangers", "low pack",
			"storm") || c.excusesFrom(b.timeS, b.timeS+1, "forged results") {
			continue
		}
		if costS-least > bound && slices.ContainsFunc(c.aircraft, func(a *aircraft) bool { return c.packSpent(a, b.timeS) }) {
			c.finding.Assumed["packs spent"]++
			continue
		}
		if w := c.World; w != nil && w.Wind.MeanMaxMPS > 0 && costS-least > bound { // an estimator believes in other gains
			c.finding.Assumed["beliefs"]++
			bound += least * beliefShare
		} else if price < dearSPerJ { // above it, joules of users who may come are most of the cost
			allLeast, allCostS = allLeast+least, allCostS+costS
		}
		// How many come is a belief: what it costs in one slot is no fault, and in one after the other it is.
		c.lasting(&dear, lasting, b.timeS, costS-least, bound, "what was decided in slot %d costs %.2f s at %.3g s/J, the exact dispatch "+
			"%.2f s (%d users)", b.Slot.Slot, costS, price, least, len(x.names))
	}
	if allLeast > 0 {
		c.atMost(c.endS, allCostS-allLeast, flightShare*allLeast+flightSlackS, "what was decided costs %.1f s, the exact dispatch %.1f s",
			allCostS, allLeast)
	}
}

// dearSPerJ is a price of energy above which joules are most of what a slot costs.
const dearSPerJ = 0.05

// beliefShare is what decisions on beliefs cost more than those on reports, by what was reported.
const beliefShare = 0.25

// packSpent reports whether a pack has hardly more than the reserve and the way home, so that it limits what its aircraft
// computes, and sends it home.
func (f *flight) packSpent(a *aircraft, timeS float64) bool {
	const hardlyJ, margin = 6e3, 1.25
	speedMPS, bestW := f.Physics.MinPower()
	s := a.at(timeS)
	if s.PackJ == 0 {
		return false // it is unknown
	}
	home, _ := a.homeAt(timeS)
	wayS := horizontalM(sub(s.PositionM, home)) / min(speedMPS, a.speedMPS)
	beside := func(o *aircraft) bool { // it may wait for the whole descent of these, and for the beginning of others'
		at, ok := o.homeAt(timeS)
		return ok && horizontalM(sub(at, home)) < 2*f.Physics.SeparationM
	}
	downS := a.descentS(s.PositionM[2]) + f.waitsFor(a, timeS, func(o *aircraft) bool { return !beside(o) })
	for _, o := range f.aircraft {
		if o != a && beside(o) {
			downS += a.descentS(s.PositionM[2])
		}
	}
	homeJ := f.powerFactor(f.slotAt(timeS)) * (wayS*bestW + downS*f.Physics.Propulsion.PowerW(0))
	return s.LeftJ < reserveJ+hardlyJ+margin*homeJ
}
