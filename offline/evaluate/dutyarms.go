package evaluate

import (
	"slices"

	"prefdt/inference/duty"
	"prefdt/offline/rollout"
)

// Planners of the arms that packs are measured by, beside the one that ships.

// staying has everybody stay to the end, at a price for each pack.
type staying struct{ *duty.Planner }

func (p staying) Plan(in *duty.Input) *duty.Plan {
	for m := range in.Aircraft {
		in.Aircraft[m].Stays = true
	}
	return p.Planner.Plan(in)
}

// Edge power of an aircraft at the rule's largest price, and that price in the standard world.
const (
	ruleEdgeW         = 38.0
	ruleMaxPriceSPerJ = 0.0025
)

// ruling is the simple rule of the lab: no price is above a largest one; all fly while the joules
// left allow it at that price; then the one farthest from the users lands.
func ruling(maxPriceSPerJ float64) rollout.PlanFunc {
	return func(in *duty.Input, plan *duty.Plan) {
		up := 0
		for _, a := range in.Aircraft {
			if !a.Left {
				up++
			}
		}
		left, eachW := float64(in.Slots-in.Slot), in.FlightW+ruleEdgeW
		if up < 2 || in.FleetJ >= float64(up)*eachW*left {
			return
		}
		if slots := (in.FleetJ - left*float64(up-1)*eachW) / eachW; slots < 1 {
			plan.Aircraft[farthest(in)].Leaves = true
			if up == 2 {
				return // the last one flies the price at which its joules last
			}
		}
		for m := range plan.Aircraft {
			plan.Aircraft[m].PriceSPerJ = maxPriceSPerJ
		}
	}
}

// alone has one aircraft fly at a price until the total is spent: the others land in the first slot, and it does when the
// joules left carry no further slot.
func alone(priceSPerJ float64) rollout.PlanFunc {
	return func(in *duty.Input, plan *duty.Plan) {
		up := 0
		for _, a := range in.Aircraft {
			if !a.Left {
				up++
			}
		}
		for ; up > 1 || up == 1 && in.FleetJ < in.FlightW; up-- {
			m := farthest(in)
			plan.Aircraft[m].Leaves, in.Aircraft[m].Left = true, true
		}
		for m := range plan.Aircraft {
			o := &plan.Aircraft[m]
			o.PriceSPerJ, o.EdgeLimitJ = priceSPerJ, max(in.FleetJ-in.FlightW, 0)
		}
	}
}

// farthest returns the index of the aircraft in the air that is farthest from the users.
func farthest(in *duty.Input) (far int) {
	mostM := -1.0
	for m, a := range in.Aircraft {
		if a.Left {
			continue
		}
		sumM := 0.0
		for i := range in.Users {
			sumM += in.Users[i].Position.Sub(a.Position).Norm()
		}
		if sumM > mostM {
			far, mostM = m, sumM
		}
	}
	return far
}

// fixed is a plan that is known in advance: until when each flies, and at which price. Who lands is home by then at v*.
func fixed(until []int, pricesSPerJ []float64, bestMPS float64) rollout.PlanFunc {
	return func(in *duty.Input, plan *duty.Plan) {
		for m := range plan.Aircraft {
			o := &plan.Aircraft[m]
			o.FliesUntil, o.PriceSPerJ, o.Leaves = until[m], pricesSPerJ[m], in.Slot >= until[m]
			if in.Aircraft[m].DescentJ > 0 {
				o.HomeLimitM = bestMPS * float64(max(until[m]-in.Slot-1, 1))
			}
		}
	}
}

// recording keeps until when each aircraft of a planner's one flight flew.
type recording struct {
	rollout.DutyPlanner
	until []int
}

func (p *recording) Plan(in *duty.Input) *duty.Plan {
	plan := p.DutyPlanner.Plan(in)
	if p.until == nil {
		p.until = slices.Repeat([]int{in.Slots}, len(in.Aircraft))
	}
	for m := range plan.Aircraft {
		switch leaves := plan.Aircraft[m].Leaves; {
		case leaves && p.until[m] == in.Slots:
			p.until[m] = in.Slot
		case !leaves && in.Aircraft[m].Homeward: // it is called back
			p.until[m] = in.Slots
		}
	}
	return plan
}
