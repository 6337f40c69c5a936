package rollout

import (
	"math"

	"prefdt/inference/belief"
	"prefdt/inference/duty"
	"prefdt/inference/goal"
	"prefdt/inference/motion"
	"prefdt/inference/record"
	"prefdt/inference/slot"
	"prefdt/simbridge/world"
)

// Packs is what each aircraft of a flight may spend.
type Packs struct {
	EnergyJ []float64 // per aircraft
	// Landed says that it is from take-off to touchdown, with climb, way home and descent.
	Landed bool
}

// DutyPlanner plans who is in the air, before the decision of each slot.
type DutyPlanner interface {
	Reset()
	Plan(*duty.Input) *duty.Plan
}

// PlanFunc is a planner without a forecast: it changes a plan by which everybody stays in the air to the end, at
// the objective's price, and nobody is called back.
type PlanFunc func(*duty.Input, *duty.Plan)

// Reset implements DutyPlanner.
func (f PlanFunc) Reset() {}

// Plan implements DutyPlanner.
func (f PlanFunc) Plan(in *duty.Input) *duty.Plan {
	plan := &duty.Plan{}
	for m := range in.Aircraft {
		a := &in.Aircraft[m]
		plan.Aircraft = append(plan.Aircraft, duty.Order{
			Number: a.Number, Leaves: a.Homeward, FliesUntil: in.Slots, HomeLimitM: math.Inf(1), EdgeLimitJ: math.Inf(1),
		})
		a.Left = a.Left || a.Homeward
	}
	plan.SlotsJ = in.SpareJ()
	f(in, plan)
	return plan
}

// dutyState is the planning of one flight.
type dutyState struct {
	input    duty.Input
	plan     *duty.Plan
	users    []slot.User // with a task, of the last slot
	climbJ   []float64
	landingJ []float64 // of those that left, from then to touchdown
	bestMPS  float64   // v*
	// edgeVariance is the mean square of what slots took of edge energy less what their decisions expected.
	edgeVariance, settled float64
}

func (f *Runner) startDuty(r *Request) {
	w, d := f.world, &f.duty
	d.plan, d.users, d.climbJ, d.landingJ = nil, d.users[:0], d.climbJ[:0], d.landingJ[:0]
	d.edgeVariance, d.settled = 0, 0
	d.bestMPS, _ = w.Config.Physics.MinPower()
	for m := range w.Aircraft {
		d.climbJ, d.landingJ = append(d.climbJ, 0), append(d.landingJ, 0)
		if r.Packs != nil && r.Packs.Landed {
			d.climbJ[m] = w.ClimbJ(m)
		}
	}
	if f.Planner != nil {
		f.Planner.Reset()
	}
}

// planDuty plans the slots left, and lets those leave that the plan sends home.
func (f *Runner) planDuty(o *goal.Objective, r *Request) {
	if f.Planner == nil && r.Packs == nil || !o.Budgeted() {
		return
	}
	w, d := f.world, &f.duty
	f.fillInput(o, r)
	slotsJ := d.input.SpareJ() // what the packs allow in slots; what those kept that left is lost to the others
	if f.Planner != nil {
		d.plan = f.Planner.Plan(&d.input)
		slotsJ = d.plan.SlotsJ
	}
	if allowedJ := o.SpentJ() + slotsJ; r.Packs != nil && math.Abs(allowedJ-o.BudgetJ()) > 1e-6*allowedJ {
		f.applyEvent(o, record.Event{BudgetJ: &allowedJ, Mode: r.Mode})
	}
	if f.Planner == nil {
		return
	}
	flying := 0
	for m := range w.Aircraft {
		switch leaves := d.plan.Aircraft[m].Leaves; {
		case leaves && !w.Aircraft[m].Lost:
			f.leave(m, r)
		case !leaves && d.input.Aircraft[m].Homeward:
			f.callBack(m, r)
		}
		if !w.Aircraft[m].Lost {
			flying++
		}
	}
	if state := o.State(); state.Flying != flying {
		state.Flying = flying
		f.applyEvent(o, record.Event{Restore: &state})
	}
}

// fillInput makes the planner's input of the present slot.
func (f *Runner) fillInput(o *goal.Objective, r *Request) {
	w, in := f.world, &f.duty.input
	*in = duty.Input{
		Slot: w.Slot, Slots: w.Config.Slots, Aircraft: in.Aircraft[:0], FleetJ: math.Inf(1), FlightW: o.LeastFlightW(), Users: f.duty.users,
	}
	if r.Packs == nil {
		in.FleetJ = o.EnergyToGoJ()
	}
	c := &w.Config.Physics
	in.WindMPS, in.Multiplier = f.believedAir().MeanMPS(), o.PropulsionMultiplier()
	in.Doubtful = o.Doubtful()
	in.SlotErrorJ = math.Sqrt(f.duty.edgeVariance)
	for m := range w.Aircraft {
		at, home := w.Aircraft[m].Position, w.Config.Start(m)
		a := duty.Aircraft{Number: m + 1, Position: at, Home: home, CPUHz: c.EdgeCPUHz, LeftJ: math.Inf(1)}
		a.Homeward = w.OnItsWay(m)
		a.Left = w.Aircraft[m].Lost && !a.Homeward
		if p := r.Packs; p != nil {
			a.LeftJ = p.EnergyJ[m] - f.duty.climbJ[m] - w.Aircraft[m].SpentJ
			if p.Landed {
				if a.Homeward {
					a.LeftJ -= w.Aircraft[m].WayJ
				}
				_, a.ReturnJ = duty.Return(c, at, home, in.WindMPS, in.Multiplier)
				// Near the ground there is less wind, and none takes the most.
				hoverW := max(c.Propulsion.PowerW(in.WindMPS.Norm()), c.Propulsion.PowerW(0))
				a.DescentJ = world.DescentS * hoverW * in.Multiplier
				a.HomeErrorJ = o.State().RelativeStdDev * (a.ReturnJ + a.DescentJ)
			}
		}
		in.Aircraft = append(in.Aircraft, a)
	}
}

// believedAir is what the last decision believed of the air.
func (f *Runner) believedAir() *motion.Air {
	if p, ok := f.policy.(interface{ Belief() *belief.Belief }); ok && p.Belief() != nil {
		return &p.Belief().Air
	}
	return &motion.Air{}
}

// leave sends an aircraft home.
func (f *Runner) leave(m int, r *Request) {
	if r.Packs != nil && r.Packs.Landed {
		f.duty.landingJ[m] = f.touchdownJ(m)
	}
	f.world.Leave(m)
}

// callBack has one on its way home serve again. To touchdown, what its way took is its pack's.
func (f *Runner) callBack(m int, r *Request) {
	f.world.CallBack(m)
	if f.duty.landingJ[m] = 0; r.Packs != nil && r.Packs.Landed {
		f.world.Aircraft[m].SpentJ += f.world.Aircraft[m].WayJ
	}
}

// touchdownJ is what the aircraft takes from here to touchdown, at the speed over ground that
// the believed wind asks for.
func (f *Runner) touchdownJ(m int) float64 {
	w := f.world
	at, home, speedMPS := w.Aircraft[m].Position, w.Config.Start(m), f.duty.bestMPS
	if seconds, _ := duty.Return(&w.Config.Physics, at, home, f.believedAir().MeanMPS(), 1); seconds > 0 {
		speedMPS = home.Sub(at).Norm() / seconds
	}
	return w.TouchdownJ(m, speedMPS)
}

// order writes the plan's orders into a snapshot, and keeps its users for the next plan.
func (f *Runner) order(s *slot.Snapshot) {
	d := &f.duty
	if f.Planner == nil {
		return
	}
	users := s.Users
	if len(s.SyntheticUsers) > 0 && s.SyntheticUsers[0].ID != slot.PriorID {
		users = s.SyntheticUsers // reports are lost: those that arrived are not all
	}
	d.users = append(d.users[:0], users...)
	if d.plan == nil {
		return
	}
	for m := range s.Aircraft {
		n := s.Aircraft[m].Number - 1
		s.Aircraft[m].Order = d.plan.Aircraft[n].Slot(f.world.Config.Start(n))
	}
}

// settleDuty compares what a slot took with what its decision expected.
func (f *Runner) settleDuty(edgeJ []float64) {
	d, errorJ := &f.duty, -f.decision.TotalEdgeJ()
	for _, j := range edgeJ {
		errorJ += j
	}
	d.settled = min(d.settled+1, 40)
	d.edgeVariance += (errorJ*errorJ - d.edgeVariance) / d.settled
}

// endDuty lands the aircraft and returns what each spent, and of that on computing.
func (f *Runner) endDuty(r *Request) (spentJ, edgeJ []float64) {
	for m := range f.world.Aircraft {
		a, landingJ := &f.world.Aircraft[m], f.duty.landingJ[m]
		if r.Packs != nil && r.Packs.Landed && !a.Lost {
			landingJ = f.touchdownJ(m)
		}
		spentJ = append(spentJ, f.duty.climbJ[m]+a.SpentJ+landingJ)
		edgeJ = append(edgeJ, a.EdgeJ)
	}
	return spentJ, edgeJ
}

var _ DutyPlanner = (*duty.Planner)(nil)
