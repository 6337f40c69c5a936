// Package duty plans who is in the air, until when: where aircraft may come home early, the
// joules of a flight buy less delay than the joules of computing once the price of energy
// is above what flying an aircraft is worth.
//
// Inputs, once a slot before the decision (Planner.Plan): the fleet's packs and budget, what
// flying costs as it was measured, and the users that reported. Outputs: who leaves
// now, until when each flies, how far from home it may be, and the price of energy of each
// aircraft. The caller puts the prices and limits into the slot's snapshot
// (slot.Aircraft.Order), by which the policy decides; the leader and the rollouts both do.
//
// The plan is a linear program, solved anew in each slot. Its variables are how many of the slots
// left the last j aircraft of an order of leaving fly, each at one of a grid of prices; its
// limits are the slots, the fleet's joules and each pack's. What a slot with j aircraft
// saves of delay and takes of edge energy at each price is the mean over replayed slots: the
// users of each slot that passed, with the channel drawn anew at the places where j
// aircraft would be. The prices are the dual variables: what a joule of that pack is worth.
package duty

import (
	"math"
	"slices"

	"prefdt/inference/dispatch"
	"prefdt/inference/physics"
	"prefdt/inference/reuse"
	"prefdt/inference/slot"
)

// Aircraft is one aircraft of the fleet as the plan needs it.
type Aircraft struct {
	Number   int // as slot.Aircraft.Number
	Position physics.Position
	Home     physics.Position // where it lands
	CPUHz    float64          // 0: it computes nothing
	// LeftJ is what its pack may still spend: under the scope "slots" until it leaves for
	// home, under "landed" until touchdown. +Inf: its pack is not bounded.
	LeftJ float64
	// ReturnJ is what the way home from Position takes, and DescentJ what waiting and
	// descent take then. Both are 0 under the scope "slots". See Return.
	ReturnJ, DescentJ float64
	// HomeErrorJ is the standard deviation of what ReturnJ and DescentJ come to, as measured.
	HomeErrorJ float64
	Stays      bool // the crew keeps it up
	// Homeward says that it left by a plan and is on its way home: if the plan has it fly all the same, it is called back.
	Homeward bool
	Left     bool // it has left for home, is lost or never took off: it is not planned for
}

// Input is the state of the mission before the decision of a slot.
type Input struct {
	Slot, Slots int // the slot to be decided, and T
	Aircraft    []Aircraft
	// FleetJ is what the fleet may still spend, in the scope of LeftJ. +Inf: no total is asked for.
	FleetJ float64
	// LeastUp is how many the crew wants in the air, at a price: see coverShare. 0 counts as 1.
	LeastUp int
	// FlightW is what flying an aircraft takes at least: P(v*) by the measured multiplier and the
	// believed air (goal.Objective.LeastFlightW).
	FlightW float64
	// WindMPS is the believed wind, against which an aircraft drifts home, and Multiplier that of flight power.
	WindMPS    physics.Position
	Multiplier float64
	// Doubtful says that it rests on one reading, which may be wrong: nobody leaves in the first such slot.
	Doubtful bool
	// SlotErrorJ is the standard deviation of what a slot takes about what its decision was expected to
	// take, as measured: of the fleet.
	SlotErrorJ float64
	// KeptSlots is how many slots of flight a total, or a landed pack, keeps beyond the way home, for the time from
	// a plan to the turn home.
	KeptSlots float64
	// Users are those with a task in this slot or, where reports are lost, synthetic ones
	// in place of all (slot.Snapshot.SyntheticUsers). Their gains are not used.
	Users []slot.User
}

// SpareJ is what the packs hold beyond the ways home from where the aircraft are. +Inf: one is not bounded.
func (in *Input) SpareJ() (sumJ float64) {
	for i := range in.Aircraft {
		if a := &in.Aircraft[i]; !a.Left && !a.Homeward {
			sumJ += max(a.LeftJ-a.ReturnJ-a.DescentJ, 0)
		}
	}
	return sumJ
}

// Order is the plan for one aircraft.
type Order struct {
	Number int
	Leaves bool // for home, now, or is on its way there: it serves nobody in this slot
	// FliesUntil is the slot in which it leaves for home: T if it stays to the end.
	FliesUntil int
	// HomeLimitM is the most that it may be away from home after this slot's move. +Inf: no limit.
	HomeLimitM float64
	// PriceSPerJ is the price of its joules. 0: that of the objective, as all stay and only the
	// fleet's total bounds them.
	PriceSPerJ float64
	// EdgeLimitJ is the most that it may spend on computing in this slot. +Inf: no limit.
	EdgeLimitJ float64
}

// Plan is who is in the air, from the slot of its input on.
type Plan struct {
	Aircraft []Order // in the input's order
	// Ends says that the total does not carry those that the crew wants in the air any further: they leave, too.
	Ends bool
	// CoveredUntil is the last slot in which LeastUp aircraft are in the air; Slot-1: none.
	CoveredUntil int
	// FloorJ is the least that the fleet takes from here on: LeastUp aircraft to the end, or while their packs last, and all
	// that are in the air home, in the input's scope.
	FloorJ float64
	// ValueSPerJ is the greatest of the aircraft's prices; 0 if all are the objective's.
	ValueSPerJ float64
	// DelayS is the delay expected of the slots left.
	DelayS float64
	// SlotsJ is what the bounds leave for the slots to come: of the fleet's total and the packs' sum the
	// lesser, less descents and what the ways home take beyond the slots flown. +Inf: nothing is bounded.
	SlotsJ float64
}

// Slot returns the order as the decision takes it; home is where the aircraft lands.
func (o *Order) Slot(home physics.Position) (x slot.Order) {
	x.PriceSPerJ = o.PriceSPerJ
	if x.LimitsEdge = !math.IsInf(o.EdgeLimitJ, 1); x.LimitsEdge {
		x.EdgeLimitJ = o.EdgeLimitJ
	}
	if x.LimitsHome = !math.IsInf(o.HomeLimitM, 1); x.LimitsHome {
		x.Home, x.HomeLimitM = home, o.HomeLimitM
	}
	return x
}

// Leaving rules, from the lab (issue "Who is in the air").
const (
	leastGain = 0.02 // of the delay left, for which an aircraft leaves that need not
	backGain  = 0.3  // of what a slot's tasks take locally, for which one on its way home is called back,
	backSlots = 5    // and it flies so many slots at least: what a few cost more or less must not turn it twice
	packTie   = 0.05 // packs within this share of each other are alike
	// Kept of a pack, in slots of flight: see marginJ.
	lastSlots   = 0.1
	landedSlots = 0.5
	distanceTie = 50.0 // m: distances from the users within this are alike
	// Kept for what a slot, and the way home, may take beyond what is expected, in standard deviations.
	slotDeviations = 3.0
	homeDeviations = 1.0 // beside the wind, which the descent is taken to have none of
	// A price is moved by this share of the way to that of the new program, in logarithms: its solutions
	// are vertices, whose prices jump.
	newPrice = 0.2
	// In so many last slots a pack's slot takes at most so many times its share. Where these slots compute less
	// than such a part of what one takes of flight, as with a heavy airframe, sharing cannot pay for a slot more.
	sharedSlots, slotShare, sharedFlight = 8, 1.5, 0.7
	// Above this price, as a share of the highest, a fleet's total is spent at the program's price even
	// while all stay: what a budget has a reserve for, landing pays for.
	ownPrice = 1e-3
)

// Planner plans one mission, slot by slot. It allocates nothing once it has seen a fleet.
type Planner struct {
	constants  *physics.Constants
	bestMPS    float64 // v*
	minFlightW float64 // P(v*) of the model
	prior      dispatch.UserPrior
	curves     curves
	order      []int // indices of those that the plan is for, the first to leave first
	numbers    []int // the same, as numbers, of the last plan
	program    program
	homewardJ  float64 // what the ways home take of those that are not called back
	plan       Plan
	doubtful   int            // slot since which the multiplier is; -1: it is not
	before     map[int]before // by number, of the last plan
}

// before is what the last plan said of an aircraft.
type before struct {
	until int
	price float64
}

// New returns the planner of a mission that begins. Of the users it knows the prior until
// slots have passed. maxPriceSPerJ is the price at which nothing is offloaded any more.
func New(c *physics.Constants, prior dispatch.UserPrior, maxPriceSPerJ float64) *Planner {
	p := &Planner{constants: c, prior: prior, before: map[int]before{}, doubtful: -1}
	p.bestMPS, p.minFlightW = c.MinPower()
	p.curves.start(c, maxPriceSPerJ)
	return p
}

// State is what a restart needs of a Planner, as one JSON value: 5 kB for each number of aircraft that
// may be in the air. Where aircraft have their places is sought again from the users that report.
type State struct {
	Curves  []Curve          `json:"curves"`  // by aircraft in the air, from one
	Leaving []int            `json:"leaving"` // numbers, the first to leave first
	Until   []int            `json:"until"`   // the slots until which the last plan had them fly
	Prices  []float64        `json:"prices"`  // of their joules, by the last plan; 0: the objective's
	Reports int              `json:"reports"` // of tasks, received
	Middle  physics.Position `json:"middle"`  // their mean place
}

// State returns all that Restore needs.
func (p *Planner) State() State {
	s := State{
		Curves: slices.Clone(p.curves.levels), Leaving: slices.Clone(p.numbers), Reports: p.curves.reports, Middle: p.curves.middle,
	}
	for _, n := range p.numbers {
		s.Until = append(s.Until, p.before[n].until)
		s.Prices = append(s.Prices, p.before[n].price)
	}
	return s
}

// Restore continues a mission that was planned before.
func (p *Planner) Restore(s State) {
	p.Reset()
	p.curves.levels = append(p.curves.levels, s.Curves...)
	p.curves.reports, p.curves.middle = s.Reports, s.Middle
	p.numbers = append(p.numbers, s.Leaving...)
	for k, n := range s.Leaving[:min(len(s.Leaving), len(s.Until))] {
		b := before{until: s.Until[k]}
		if k < len(s.Prices) { // a state of an earlier version has none
			b.price = s.Prices[k]
		}
		p.before[n] = b
	}
}

// Reset begins another mission in the same memory.
func (p *Planner) Reset() {
	p.curves.reset()
	p.numbers = p.numbers[:0]
	clear(p.before)
	p.doubtful = -1
}

// Plan plans the slots left. The plan is valid until the next call.
func (p *Planner) Plan(in *Input) *Plan {
	p.curves.observe(in, p.prior)
	p.sort(in)
	plan := &p.plan
	plan.Aircraft = reuse.Slice(plan.Aircraft, len(in.Aircraft))
	*plan = Plan{Aircraft: plan.Aircraft, CoveredUntil: in.Slot - 1}
	for m := range in.Aircraft {
		plan.Aircraft[m] = Order{Number: in.Aircraft[m].Number, FliesUntil: in.Slot, HomeLimitM: math.Inf(1), EdgeLimitJ: math.Inf(1)}
	}
	if !in.Doubtful || p.doubtful < 0 {
		p.doubtful = -1
		if in.Doubtful {
			p.doubtful = in.Slot
		}
	}
	if len(p.order) == 0 || in.Slot >= in.Slots {
		return plan
	}
	x := &p.program
	leaving, stays := p.recall(in)
	up, kept := len(p.order), p.kept(in)
	plan.Ends = leaving > up-p.wanted(in)
	own := slices.ContainsFunc(in.Aircraft, func(a Aircraft) bool {
		return a.Left || a.Homeward || !math.IsInf(a.LeftJ, 1)
	})
	// Where landing keeps what dearer flight would take, nothing is kept against that.
	own = own || kept < up && x.fleet > 0 && x.duals[x.fleet] > ownPrice*p.curves.maxPriceSPerJ
	for k, i := range p.order {
		o := &plan.Aircraft[i]
		a := &in.Aircraft[i]
		o.FliesUntil = min(in.Slot+int(math.Round(p.slotsUp(k, up))), in.Slots)
		if a.Stays { // of a total below the floor, too
			o.FliesUntil = max(o.FliesUntil, in.Slot+int(p.lasts(in, i)))
		}
		if !stays || own {
			o.PriceSPerJ = max(x.priceSPerJ(i), p.curves.pricesSPerJ[0])
			if before := p.before[o.Number].price; before > 0 {
				o.PriceSPerJ = before * math.Pow(o.PriceSPerJ/before, newPrice)
			}
			plan.ValueSPerJ = max(plan.ValueSPerJ, o.PriceSPerJ)
		}
		o.Leaves = (a.Homeward || in.Slot != p.doubtful) && (k < leaving || !a.Stays && p.mustLeave(in, a))
		switch {
		case o.Leaves:
			o.FliesUntil = in.Slot
		case a.ReturnJ+a.DescentJ > 0:
			o.HomeLimitM = p.bestMPS * float64(max(o.FliesUntil-in.Slot-1, 0))
		}
		p.limit(in, i, o)
		if !math.IsInf(in.FleetJ, 1) {
			o.EdgeLimitJ = min(o.EdgeLimitJ, p.fleetSpareJ(in, kept)/float64(up))
		}
	}
	p.cover(in, up, p.wanted(in), plan)
	for _, o := range plan.Aircraft {
		p.before[o.Number] = before{o.FliesUntil, o.PriceSPerJ}
	}
	plan.SlotsJ = p.slotsJ(in)
	return plan
}

// recall plans for those that serve and, where that clearly pays, for those on their way home, who are called back; else p.order
// has none of these. It returns how many of the order leave, and whether all stay to the end.
func (p *Planner) recall(in *Input) (leaving int, stays bool) {
	all, home, delayS := p.order, 0, 0.0
	for home < len(all) && in.Aircraft[all[home]].Homeward {
		home++
	}
	leaving, stays, p.plan.DelayS = p.choose(in)
	if home == 0 {
		return leaving, stays
	}
	for _, i := range all[:home] {
		p.homewardJ += in.Aircraft[i].ReturnJ + in.Aircraft[i].DescentJ
		p.plan.Aircraft[i].Leaves = true
	}
	withS, none := p.plan.DelayS, p.slotsUp(home-1, len(all)) < backSlots
	p.order = all[home:]
	if leaving, stays, delayS = p.choose(in); none || withS > delayS-backGain*p.curves.localS(len(all)) {
		p.plan.DelayS = delayS
		return leaving, stays
	}
	p.order, p.homewardJ = all, 0
	leaving, stays, p.plan.DelayS = p.choose(in)
	return leaving, stays
}

// choose solves the program of those in the order: how many of it leave, whether all stay to the end, and the delay that is expected.
func (p *Planner) choose(in *Input) (leaving int, stays bool, delayS float64) {
	x, up, kept := &p.program, len(p.order), p.kept(in)
	localS := float64(in.Slots-in.Slot) * p.curves.localS(len(p.numbers))
	if up == 0 {
		return 0, false, localS
	}
	stays = x.solve(p, in, up, up)
	if delayS = localS - x.savedS; stays && kept == up {
		return 0, true, delayS
	}
	stayS := delayS
	x.solve(p, in, up, kept)
	if delayS = localS - x.savedS; stays && delayS > (1-leastGain)*stayS {
		x.solve(p, in, up, up)
		return 0, true, stayS
	}
	// The last that are wanted leave for the total alone: with their packs nothing else is flown.
	most := up - max(kept, p.wanted(in))
	if x.fleet > 0 && x.duals[x.fleet] > 0 {
		most = up - kept
	}
	for leaving < most && p.slotsUp(leaving, up) < 0.5 || leaving < up-kept && !p.totalLasts(in, leaving) {
		leaving++
	}
	return leaving, false, delayS
}

// slotsJ is what the bounds leave for the slots to come.
func (p *Planner) slotsJ(in *Input) float64 {
	packsJ := 0.0
	for _, i := range p.order {
		packsJ += max(in.Aircraft[i].LeftJ-p.afterJ(in, i), 0)
	}
	return max(min(p.fleetJ(in), packsJ), 0)
}

// slotsUp returns how many of the slots left the k-th of the order flies.
func (p *Planner) slotsUp(k, up int) (slots float64) {
	for j := up - k; j <= up; j++ {
		slots += p.program.slots[j-1]
	}
	return slots
}

// kept is how many the crew keeps up.
func (p *Planner) kept(in *Input) (n int) {
	for _, i := range p.order {
		if in.Aircraft[i].Stays {
			n++
		}
	}
	return n
}

// wanted is how many are to be in the air.
func (p *Planner) wanted(in *Input) int { return min(max(in.LeastUp, p.kept(in), 1), len(p.order)) }

// fleetJ is what the total leaves for slots.
func (p *Planner) fleetJ(in *Input) float64 {
	leftJ := in.FleetJ - p.homewardJ
	for _, i := range p.order {
		leftJ -= p.afterJ(in, i)
	}
	return leftJ
}

// afterJ is what an aircraft takes beyond its slots at FlightW: the descent, what drifting home in these
// slots takes more in a wind, and what is left of the way home when it leaves.
func (p *Planner) afterJ(in *Input, i int) float64 {
	a := &in.Aircraft[i]
	if a.ReturnJ == 0 {
		return a.DescentJ
	}
	driftM := p.bestMPS * float64(p.until(in, a.Number)-in.Slot)
	distanceM := a.Position.Sub(a.Home).Norm()
	share := min(driftM/max(distanceM, 1), 1)
	return a.DescentJ + share*p.driftJ(in, a) + (1-share)*a.ReturnJ
}

// driftJ is what drifting home at v* over the ground takes beyond as many slots of flight.
func (p *Planner) driftJ(in *Input, a *Aircraft) float64 {
	way := a.Home.Sub(a.Position)
	distanceM := way.Norm()
	if in.WindMPS == (physics.Position{}) || distanceM == 0 {
		return 0
	}
	airMPS := way.Scale(p.bestMPS / distanceM).Sub(in.WindMPS).Norm()
	return max(p.constants.Propulsion.PowerW(airMPS)*in.Multiplier-in.FlightW, 0) * distanceM / p.bestMPS
}

// until is until when the last plan had an aircraft fly: to the end if there was none.
func (p *Planner) until(in *Input, number int) int {
	if b, ok := p.before[number]; ok {
		return max(b.until, in.Slot)
	}
	return in.Slots
}

// limit sets what an aircraft may compute: what its pack keeps above flying until it leaves.
func (p *Planner) limit(in *Input, i int, o *Order) {
	a := &in.Aircraft[i]
	if math.IsInf(a.LeftJ, 1) {
		return
	}
	flightJ := in.FlightW + a.ReturnJ
	if o.FliesUntil == in.Slots { // it drifts home on the way
		flightJ = max(flightJ, in.FlightW*float64(in.Slots-in.Slot)+p.driftJ(in, a))
	}
	o.EdgeLimitJ = max(a.LeftJ-a.DescentJ-flightJ-p.marginJ(in, a), 0)
	mostEdgeW := p.curves.levels[0].Splits[0].FirstJ[0] // of one aircraft
	if n := float64(o.FliesUntil - in.Slot); n > 1 && n <= sharedSlots && sharedSlots*mostEdgeW >= sharedFlight*in.FlightW {
		spareJ := max(a.LeftJ-p.afterJ(in, i)-in.FlightW*n-p.marginJ(in, a), 0)
		o.EdgeLimitJ = min(o.EdgeLimitJ, slotShare*spareJ/n)
	}
}

// fleetSpareJ is what the fleet's total leaves for computing, above the flights planned, at least this slot's and those to the end of
// whom the crew keeps up, and everybody's way home.
func (p *Planner) fleetSpareJ(in *Input, kept int) float64 {
	up, flown := len(p.order), 0.0
	for j, slots := range p.program.slots {
		flown += float64(j+1) * slots
	}
	flown = max(flown, float64(up+kept*(in.Slots-in.Slot-1)))
	return max(p.fleetJ(in)-in.FlightW*flown-slotDeviations*in.SlotErrorJ, 0)
}

// totalLasts is whether the fleet's total lasts for another slot of all but the first to leave.
func (p *Planner) totalLasts(in *Input, leaving int) bool {
	return p.fleetJ(in) >= in.FlightW*(1+lastSlots+in.KeptSlots)*float64(len(p.order)-leaving)
}

// marginJ is kept of a pack: for flight above v*, for the last metres of the way home, and for what
// the last slot and the way home may take beyond what is expected.
func (p *Planner) marginJ(in *Input, a *Aircraft) float64 {
	if a.DescentJ > 0 {
		return (landedSlots+in.KeptSlots)*in.FlightW + math.Hypot(slotDeviations*in.SlotErrorJ, homeDeviations*a.HomeErrorJ)
	}
	return lastSlots*in.FlightW + slotDeviations*in.SlotErrorJ
}

// lasts is how many of the slots left an aircraft's pack lasts for.
func (p *Planner) lasts(in *Input, i int) float64 {
	leftJ := in.Aircraft[i].LeftJ - p.afterJ(in, i) - p.marginJ(in, &in.Aircraft[i])
	return min(max(leftJ/in.FlightW, 0), float64(in.Slots-in.Slot))
}

// mustLeave is whether an aircraft's pack does not last for another slot.
func (p *Planner) mustLeave(in *Input, a *Aircraft) bool {
	return a.LeftJ < a.ReturnJ+a.DescentJ+in.FlightW*(1+lastSlots)+homeDeviations*a.HomeErrorJ
}

// cover sets the plan's last covered slot and floor.
func (p *Planner) cover(in *Input, up, must int, plan *Plan) {
	plan.FloorJ = p.homewardJ
	for k, i := range p.order {
		o := &plan.Aircraft[i]
		plan.FloorJ += p.afterJ(in, i)
		if up-k == must {
			plan.CoveredUntil = o.FliesUntil - 1
		}
		if up-k <= must {
			plan.FloorJ += in.FlightW * p.lasts(in, i)
		}
	}
}

// sort orders those in the air by who leaves first: those on their way, those that the crew does not keep up, then
// the weaker pack and, of like packs, the one farther from the users. The order of the last
// plan stays while that is not clearly wrong.
func (p *Planner) sort(in *Input) {
	p.order, p.homewardJ = p.order[:0], 0
	for _, n := range p.numbers {
		if i := slices.IndexFunc(in.Aircraft, func(a Aircraft) bool { return a.Number == n && !a.Left }); i >= 0 {
			p.order = append(p.order, i)
		}
	}
	for i := range in.Aircraft {
		if !in.Aircraft[i].Left && !slices.Contains(p.order, i) {
			p.order = append(p.order, i)
		}
	}
	centre := p.curves.centre(in)
	for range p.order {
		for k := 1; k < len(p.order); k++ {
			if a, b := &in.Aircraft[p.order[k-1]], &in.Aircraft[p.order[k]]; leavesBefore(b, a, centre) {
				p.order[k-1], p.order[k] = p.order[k], p.order[k-1]
			}
		}
	}
	p.numbers = p.numbers[:0]
	for _, i := range p.order {
		p.numbers = append(p.numbers, in.Aircraft[i].Number)
	}
}

// leavesBefore is whether a clearly leaves before b.
func leavesBefore(a, b *Aircraft, centre physics.Position) bool {
	if a.Homeward != b.Homeward || a.Stays != b.Stays {
		return a.Homeward || b.Stays && !b.Homeward
	}
	aJ, bJ := a.LeftJ-a.ReturnJ-a.DescentJ, b.LeftJ-b.ReturnJ-b.DescentJ
	if aJ < (1-packTie)*bJ || bJ < (1-packTie)*aJ {
		return aJ < bJ
	}
	return a.Position.Sub(centre).Norm() > b.Position.Sub(centre).Norm()+distanceTie
}
