package leader

import (
	"cmp"
	"log/slog"
	"math"
	"slices"

	"prefdt/firmware/account"
	"prefdt/firmware/fleet"
	"prefdt/firmware/mission"
	"prefdt/inference/duty"
	"prefdt/inference/record"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// dutyPlan is who is in the air until when, where a budget has bounds. It is planned at each
// settlement, for the slot that follows.
type dutyPlan struct {
	planner *duty.Planner // nil before the first budget with bounds
	weighed slot.Weighed
	input   duty.Input

	climbJ []float64 // of climbs yet to come, by aircraft

	inForce bool         // the fields below are of the budget in force
	orders  []duty.Order // by aircraft
	covered int          // the last slot with the least number in the air
	ends    bool         // the total does not carry those that the crew wants in the air any further
	leftJ   []float64    // in each pack at touchdown
	endJ    float64      // total at the end, as expected
	floorJ  float64      // the least that it can be
	short   bool         // a pack does not last, and its aircraft may not land
	leaves  []string     // why aircraft are sent home once the ledger has that; empty: they are not
}

// planDuty plans who is in the air from the next slot on. Who leaves is on the disk with the
// settlement that follows, and is sent home then.
func (l *Leader) planDuty(views []fleet.View) {
	d, bounds := &l.duty, l.account.Bounds()
	d.inForce = bounds != nil && !l.mission.Ending()
	if !d.inForce {
		d.leaves = nil
		return
	}
	if l.mission.Phase() == telemetry.StateIdle && bounds.TotalJ == 0 { // packs may become known, or be changed
		now := *bounds
		now.BudgetJ = l.account.PacksJ(views)
		l.account.SetBounds(&now)
	}
	l.planFor(d, &l.account, views)
	if d.leaves = make([]string, len(views)); l.mission.InSlots() && bounds.MayLand() {
		d.choose(bounds.LeastUp, d.ends)
		l.callBack(views)
	}
}

// Why an aircraft leaves.
const (
	forReserve = "reserve" // for what its pack must keep
	byPlan     = "plan"    // the fleet's joules last longer with fewer in the air
)

// whyLeaves is that for the crew.
var whyLeaves = map[string]string{forReserve: "for its reserve", byPlan: "by the plan of the budget"}

// choose sets who leaves in the next slot: for what its pack must keep, in a hold too, or by the plan, the weaker packs
// first, unless the crew keeps it up; the last leastUp do where the total ends. One that soon has to leave for its pack
// flies no farther from home.
func (d *dutyPlan) choose(leastUp int, ends bool) {
	var planned []int
	up := 0
	for i := range d.input.Aircraft {
		a, o := &d.input.Aircraft[i], &d.orders[i]
		keptJ := a.ReturnJ + a.DescentJ + landErrors*a.HomeErrorJ + landMargin*d.input.FlightW
		switch {
		case a.Left || a.Homeward && o.Leaves:
		case a.LeftJ < keptJ && !a.Homeward:
			d.leaves[i] = forReserve
		default:
			up++
			if a.ReturnJ > 0 && a.LeftJ < keptJ+awaySlots*d.input.FlightW {
				o.HomeLimitM = min(o.HomeLimitM, a.Position.Sub(a.Home).Norm())
			}
			if o.Leaves && !a.Stays {
				planned = append(planned, i)
			}
		}
	}
	slices.SortStableFunc(planned, func(i, j int) int { return cmp.Compare(d.input.Aircraft[i].LeftJ, d.input.Aircraft[j].LeftJ) })
	for k, i := range planned {
		if k < up-leastUp || ends {
			d.leaves[i] = byPlan
		} else {
			d.orders[i].FliesUntil = d.input.Slots
		}
	}
	d.cover(leastUp)
}

// callBack has those fly for the mission again whom the plan no longer has on their way home, as the views then say.
func (l *Leader) callBack(views []fleet.View) {
	for i := range views {
		if l.duty.input.Aircraft[i].Homeward && !l.duty.orders[i].Leaves && l.fleet.CallBack(i+1) {
			views[i].Homeward, views[i].SentHome = false, ""
			l.Log.Info("aircraft is called back on its way home", "aircraft", i+1, "slot", l.schedule.Current())
		}
	}
}

// inAir is how many aircraft serve.
func (d *dutyPlan) inAir() (n int) {
	for i := range d.input.Aircraft {
		if a := &d.input.Aircraft[i]; !a.Left && !a.Homeward {
			n++
		}
	}
	return n
}

// cover sets the last slot in which leastUp aircraft are in the air.
func (d *dutyPlan) cover(leastUp int) {
	var until []int
	for i := range d.orders {
		if a := &d.input.Aircraft[i]; !a.Left && !(a.Homeward && d.orders[i].Leaves) {
			until = append(until, d.orders[i].FliesUntil)
		}
	}
	if d.covered = d.input.Slot - 1; len(until) >= leastUp {
		slices.Sort(until)
		d.covered = until[len(until)-leastUp] - 1
	}
}

// landMargin is how many slots of flight a pack keeps beyond its way home, and the error of that, when it
// leaves: the slot in which that becomes durable, and what the turn home takes.
const landMargin = 2.5

// landErrors is how much of the error of a way home a pack keeps: that of one measurement, where flying has just
// come to cost more.
const landErrors = 0.4

// awaySlots is how many slots of flight more a slot may take from what is left at touchdown, where it is
// flown away from home: for the turn, the way back and, near home, a whole arrival in place of none.
const awaySlots = 2.0

// planFor plans by an account, which may be one that has not been adopted, and has its objective
// keep what the plan leaves for the slots.
func (l *Leader) planFor(d *dutyPlan, a *account.Account, views []fleet.View) {
	if d.planner == nil {
		d.planner = l.Policy.newPlanner(duty.State{}, l.recorder())
	}
	in, bounds := &d.input, a.Bounds()
	objective := a.Objective()
	weighed, _ := l.Policy.Claims.Weigh(&l.current.snapshot, &d.weighed)
	*in = duty.Input{
		Slot: min(l.schedule.Current(), l.Config.Slots), Slots: l.Config.Slots, Aircraft: in.Aircraft[:0],
		FleetJ: a.FleetLeftJ(views), LeastUp: bounds.LeastUp, FlightW: objective.LeastFlightW(),
		Users: weighed.LikelyUsers(), WindMPS: a.Air.MeanMPS(), Multiplier: objective.PropulsionMultiplier(),
		Doubtful: objective.Doubtful(), KeptSlots: landMargin - 1,
	}
	// What a slot took about what was expected is in the measured flight power.
	in.SlotErrorJ = objective.State().RelativeStdDev * in.FlightW
	d.climbJ = d.climbJ[:0]
	for i := range views {
		x, climbJ := l.dutyAircraft(a, &views[i]), l.climbJ(a, &views[i])
		x.LeftJ, in.FleetJ = max(x.LeftJ-climbJ, 0), in.FleetJ-climbJ
		if x.Homeward {
			in.FleetJ += x.ReturnJ + x.DescentJ // the plan has them
		}
		in.Aircraft, d.climbJ = append(in.Aircraft, x), append(d.climbJ, climbJ)
	}
	plan := d.planner.Plan(in)
	l.recorder().WritePlan(in, plan)
	d.orders, d.ends = append(d.orders[:0], plan.Aircraft...), plan.Ends
	edgeW := objective.State().EdgePowerW / float64(max(d.inAir(), 1))
	d.floorJ = a.DrawnJ() + plan.FloorJ + sum(d.climbJ) + d.homewardJ(a, views)
	d.cover(bounds.LeastUp)
	d.foresee(a, views, edgeW)
	a.AllowSlots(objective.SpentJ() + plan.SlotsJ)
}

// climbsYet is whether an aircraft has its climb before it: the mission has not begun its slots.
func climbsYet(m *mission.Mission, v *fleet.View) bool {
	return !m.InSlots() && (m.Phase() == telemetry.StateIdle || v.UnderCommand())
}

// climbJ is what its climb and its way to its start take of the bounds; 0 where they are behind it.
func (l *Leader) climbJ(a *account.Account, v *fleet.View) float64 {
	if !climbsYet(&l.mission, v) || !a.Bounds().Landed() {
		return 0
	}
	there, start := *v, l.Config.StartPosition(v.Number, l.Policy.Physics.AreaSideM)
	if !v.Located {
		there.Position = start
	}
	return a.ClimbJ(&there, start)
}

// dutyAircraft is an aircraft as the plan needs it: of one that climbs, as it will be at its start.
func (l *Leader) dutyAircraft(a *account.Account, v *fleet.View) duty.Aircraft {
	there, bounds, start := *v, a.Bounds(), l.Config.StartPosition(v.Number, l.Policy.Physics.AreaSideM)
	switch {
	case !v.Located: // it is taken to stand at its start until it says where
		there.Home = &start
	case there.Home == nil:
		there.Home = &v.Position
	}
	climbs := climbsYet(&l.mission, v)
	if climbs {
		there.Position = start
	}
	x := duty.Aircraft{
		Number: v.Number, Position: there.Position, Home: *there.Home, CPUHz: l.workers.CPUHz(v.Number, l.Clock.Now()),
		LeftJ: a.PackLeftJ(v),
		// In a hold, and while nobody could object, an aircraft leaves for its reserve alone.
		Stays: !bounds.MayLand() || l.mission.Phase() == telemetry.StateHolding || !l.mqtt.Connected(),
	}
	x.Homeward = v.Flying && v.Homeward && v.SentHome == whyLeaves[byPlan] && !x.Stays && l.mission.InSlots()
	x.Left = !climbs && (!v.Flying || v.Homeward) && !x.Homeward
	if bounds.Landed() && !x.Left {
		way := a.WayHome(&there)
		x.ReturnJ, x.DescentJ = way.CruiseJ, way.HoverJ
		x.HomeErrorJ = a.Objective().State().RelativeStdDev * way.TotalJ()
	}
	return x
}

// homewardJ is what those take in the budget's scope that left and are still in the air.
func (d *dutyPlan) homewardJ(a *account.Account, views []fleet.View) (sumJ float64) {
	for i := range views {
		if v := &views[i]; d.input.Aircraft[i].Left && v.InAir && a.Bounds().Landed() {
			sumJ += a.WayHome(v).TotalJ()
		}
	}
	return sumJ
}

// foresee keeps what the plan comes to: the joules left in each pack at touchdown, and the total.
// edgeW is the power of computing of an aircraft in the air.
func (d *dutyPlan) foresee(a *account.Account, views []fleet.View, edgeW float64) {
	in, bounds := &d.input, a.Bounds()
	d.leftJ, d.endJ, d.short = d.leftJ[:0], a.DrawnJ()+sum(d.climbJ)+d.homewardJ(a, views), false
	for i := range views {
		v, x := &views[i], &in.Aircraft[i]
		homeJ := x.ReturnJ + x.DescentJ
		switch {
		case !x.Left:
			slotsJ := float64(max(d.orders[i].FliesUntil-in.Slot, 0)) * (in.FlightW + edgeW)
			d.short = d.short || !bounds.MayLand() && x.LeftJ < homeJ+in.FlightW*float64(in.Slots-in.Slot)
			if bounds.MayLand() {
				slotsJ = min(slotsJ, max(x.LeftJ-homeJ, 0)) // it leaves by then
			}
			d.endJ += slotsJ + homeJ
			if !bounds.Landed() {
				homeJ = a.WayHome(v).TotalJ() // of the pack, if not of the budget
			}
			d.leftJ = append(d.leftJ, max(a.UsableJ(v)-d.climbJ[i]-slotsJ-homeJ, 0))
			continue
		case v.InAir:
			homeJ = a.WayHome(v).TotalJ()
		}
		d.leftJ = append(d.leftJ, max(a.UsableJ(v)-homeJ, 0))
	}
	belowFloor := bounds.TotalJ > 0 && bounds.TotalJ < d.floorJ
	if d.endJ < d.floorJ && !belowFloor { // packs have all land before the last slot, and the least is what they take until then
		d.short = d.short || bounds.BudgetJ < d.floorJ
		d.floorJ = d.endJ
	}
}

func sum(list []float64) (sum float64) {
	for _, x := range list {
		sum += x
	}
	return sum
}

// leaving is whether the plan has an aircraft leave, and it is not on its way yet.
func (d *dutyPlan) leaving(number int) bool {
	return d.inForce && d.leaves != nil && d.leaves[number-1] != ""
}

// order is what the plan asks of an aircraft in the slot.
func (d *dutyPlan) order(v *fleet.View) (x slot.Order) {
	if !d.inForce {
		return x
	}
	home := v.Position
	if v.Home != nil {
		home = *v.Home
	}
	return d.orders[v.Number-1].Slot(home)
}

// sendLeaving sends home the aircraft that leave by a settlement that is durable.
func (d *dutyPlan) sendLeaving(durable []fleet.SavedAircraft, f *fleet.Fleet, log *slog.Logger) {
	for i, reason := range d.leaves {
		if reason != "" && durable[i].Homing {
			log.Info("aircraft comes home", "aircraft", i+1, "reason", reason, "slot", d.input.Slot,
				"left_at_touchdown_j", math.Round(d.leftJ[i]))
			f.SendHomeFor(i+1, whyLeaves[reason])
			d.leaves[i] = ""
		}
	}
}

// state is what a restart needs of the plan; nil where there is none.
func (d *dutyPlan) state() *duty.State {
	if !d.inForce {
		return nil
	}
	s := d.planner.State()
	return &s
}

// newPlanner is one that continues a state.
func (p *Policy) newPlanner(s duty.State, r *record.Writer) *duty.Planner {
	planner := duty.New(&p.Physics, p.UserPrior, p.MaxPriceSPerJ)
	planner.Restore(s)
	r.BeginPlanner(s)
	return planner
}

// part is an aircraft's in the mission, by its name on the wire.
func (d *dutyPlan) part(v *fleet.View, inSlots bool) string {
	switch {
	case v.WithPilot() || v.Lost || !v.Received:
	case v.Homeward || d.leaving(v.Number):
		return telemetry.DutyLeaving
	case v.Flying && inSlots:
		return telemetry.DutyServing
	case v.Landed != nil && *v.Landed && !v.Armed:
		return telemetry.DutyHome
	}
	return ""
}
