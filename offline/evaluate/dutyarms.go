package evaluate

import (
	"math"
	"slices"

	"prefdt/inference/duty"
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

// ordering is what planners share that order without a forecast.
type ordering struct{ plan duty.Plan }

// keepAll orders everybody to stay, at the objective's price.
func (p *ordering) keepAll(in *duty.Input) {
	p.plan.Aircraft, p.plan.SlotsJ = p.plan.Aircraft[:0], in.SpareJ()
	for _, a := range in.Aircraft {
		p.plan.Aircraft = append(p.plan.Aircraft, duty.Order{
			Number: a.Number, FliesUntil: in.Slots, HomeLimitM: math.Inf(1), EdgeLimitJ: math.Inf(1),
		})
	}
}

// drifting has everybody stay to the end, and no aircraft ever farther from home than it flies
// at v* in the slots left.
type drifting struct {
	ordering
	bestMPS float64 // v*
}

func (p *drifting) Reset() {}

func (p *drifting) Plan(in *duty.Input) *duty.Plan {
	p.keepAll(in)
	for m := range p.plan.Aircraft {
		p.plan.Aircraft[m].HomeLimitM = p.bestMPS * float64(max(in.Slots-in.Slot-1, 1))
	}
	return &p.plan
}

// ruling is the simple rule of the lab: no price is above a largest one; all fly while the joules
// left allow it at that price; then the one farthest from the users lands.
type ruling struct {
	ordering
	maxPriceSPerJ float64
}

// Edge power of an aircraft at the rule's largest price, and that price in the standard world.
const (
	ruleEdgeW         = 38.0
	ruleMaxPriceSPerJ = 0.0025
)

func (p *ruling) Reset() {}

func (p *ruling) Plan(in *duty.Input) *duty.Plan {
	p.keepAll(in)
	up := 0
	for _, a := range in.Aircraft {
		if !a.Left {
			up++
		}
	}
	left, eachW := float64(in.Slots-in.Slot), in.FlightW+ruleEdgeW
	if up < 2 || in.FleetJ >= float64(up)*eachW*left {
		return &p.plan
	}
	if slots := (in.FleetJ - left*float64(up-1)*eachW) / eachW; slots < 1 {
		p.plan.Aircraft[farthest(in)].Leaves = true
		if up == 2 {
			return &p.plan // the last one flies the price at which its joules last
		}
	}
	for m := range p.plan.Aircraft {
		p.plan.Aircraft[m].PriceSPerJ = p.maxPriceSPerJ
	}
	return &p.plan
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

// fixed is a plan that is known in advance: until when each flies, and at which price.
type fixed struct {
	ordering
	until      []int
	priceSPerJ []float64
	bestMPS    float64 // v*
}

func (p *fixed) Reset() {}

func (p *fixed) Plan(in *duty.Input) *duty.Plan {
	p.keepAll(in)
	for m := range p.plan.Aircraft {
		o := &p.plan.Aircraft[m]
		o.FliesUntil, o.PriceSPerJ, o.Leaves = p.until[m], p.priceSPerJ[m], in.Slot >= p.until[m]
		if in.Aircraft[m].DescentJ > 0 {
			o.HomeLimitM = p.bestMPS * float64(max(p.until[m]-in.Slot-1, 1))
		}
	}
	return &p.plan
}

// recording keeps until when each aircraft of a planner's flight flew.
type recording struct {
	planner interface {
		Reset()
		Plan(*duty.Input) *duty.Plan
	}
	until []int
}

func (p *recording) Reset() {
	p.planner.Reset()
	p.until = nil
}

func (p *recording) Plan(in *duty.Input) *duty.Plan {
	plan := p.planner.Plan(in)
	if p.until == nil {
		p.until = slices.Repeat([]int{in.Slots}, len(in.Aircraft))
	}
	for m := range plan.Aircraft {
		if plan.Aircraft[m].Leaves && p.until[m] == in.Slots {
			p.until[m] = in.Slot
		}
	}
	return plan
}
