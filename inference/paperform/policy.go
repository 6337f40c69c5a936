package paperform

import (
	"fmt"
	"math"

	"prefdt/inference/budget"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// Policy flies a network slot by slot, Algorithm 1; it remembers the last slots.
type Policy struct {
	net       *Net
	physics   *physics.Constants
	constants *goal.Constants
	builder   *Builder
	memory    *Memory

	in      Inputs
	out     Outputs
	servers []int
	budget  budgetRequest
}

// budgetRequest is what stands beside a budget in the published form: it overwrites the
// energy entry alone, and omega and the delay entry are those of the setting that costs as
// much as the first total. A revision overwrites the energy entry again.
type budgetRequest struct {
	inForce bool
	omega   float64
	delayS  float64 // of a whole mission
}

// NewPolicy returns a policy at the start of a mission.
func NewPolicy(n *Net, s *Statistics, constants *goal.Constants, c *physics.Constants) *Policy {
	p := &Policy{net: n, physics: c, constants: constants, builder: NewBuilder(&n.Form, c, s), memory: n.NewMemory()}
	p.in.Action = make([]float32, n.Form.Aircraft*ActionFeatures)
	p.Reset()
	return p
}

// Reset starts another mission.
func (p *Policy) Reset() {
	p.memory.Reset()
	p.in.Before, p.budget = -1, budgetRequest{}
}

// Decide writes the joint decision of a slot into d, as the heads give it. A fleet or a
// slot that the form is not bound to is a programmer's error and panics: those of a mission
// are compared before it begins (Form.Fits). When an aircraft is lost in flight, see Fallback.
func (p *Policy) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Observation {
	f := &p.net.Form
	d.Resize(s)
	if err := f.Fits(len(s.Aircraft), s.Slot+1); err != nil {
		panic(fmt.Sprintf("paperform: %v", err))
	}
	omega, delayToGoS := p.request(&o)
	p.in.Slot, p.in.NumUsers, p.in.Omega = s.Slot, len(s.Users), float32(omega)
	p.in.Aircraft = p.builder.AppendAircraft(p.in.Aircraft[:0], s)
	p.in.Users = p.builder.AppendUsers(p.in.Users[:0], s)
	p.in.Return = AppendReturn(p.in.Return[:0], omega, delayToGoS, o.EnergyToGoJ(), p.constants.EtaDelayS, p.constants.EtaEnergyJ)
	p.net.Step(&p.in, p.memory, &p.out)

	p.servers = p.servers[:0]
	for u := range s.Users {
		best, row := 0, p.out.Choice[u*(f.Aircraft+1):][:f.Aircraft+1]
		for i, v := range row {
			if v > row[best] {
				best = i
			}
		}
		if p.servers = append(p.servers, best); best > 0 {
			d.Users[u] = slot.UserDecision{Server: best, Offload: (1 + float64(p.out.Offload[u])) / 2}
		}
	}
	for m := range s.Aircraft {
		length := p.physics.SpeedMaxMPS * (1 + float64(p.out.Motion[2*m])) / 2
		north, east := math.Sincos(math.Pi * (1 + float64(p.out.Motion[2*m+1])))
		at := s.Aircraft[m].Position
		d.Move[m] = at.Add(physics.Position{EastM: length * east, NorthM: length * north}).ClampToArea(p.physics.AreaSideM).Sub(at)
	}
	d.PriceSPerJ = PriceSPerJ(&p.constants.Conditioner, omega)
	d.Evaluate(p.physics, s)
	p.in.Action = AppendAction(p.in.Action[:0], p.out.Motion, p.servers, func(u int) float64 { return d.Users[u].Offload })
	p.in.Before = s.Slot
	return goal.Observation{}
}

// request returns the preference and the delay to go of an objective.
func (p *Policy) request(o *goal.Objective) (omega, delayToGoS float64) {
	if !o.Budgeted() {
		p.budget = budgetRequest{}
		return o.Omega(), o.DelayToGoS()
	}
	if !p.budget.inForce {
		omega := omegaOfEnergy(&p.constants.Conditioner, o.BudgetJ())
		delayS, _ := p.constants.Conditioner.MissionReturn(omega)
		p.budget = budgetRequest{true, omega, delayS}
	}
	return p.budget.omega, p.budget.delayS - o.DelayS()
}

// omegaOfEnergy returns the preference at which the conditioner expects a total.
func omegaOfEnergy(c *goal.Conditioner, energyJ float64) float64 {
	low, high := c.Omegas[0], c.Omegas[len(c.Omegas)-1] // energy falls with omega
	for range 50 {
		mid := (low + high) / 2
		if _, e := c.MissionReturn(mid); e > energyJ {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// PriceSPerJ returns the price that a standing offer carries: the published form predicts
// none, so it is the slope of the front that its conditioner describes at the preference in
// force, the seconds of delay for which a joule less is bought there.
func PriceSPerJ(c *goal.Conditioner, omega float64) float64 {
	i, _ := goal.HatBasis(c.Omegas, omega)
	saved := c.EnergyJ[i] - c.EnergyJ[i+1]
	if !(saved > 0) {
		return budget.MaxPriceSPerJ
	}
	return min((c.DelayS[i+1]-c.DelayS[i])/saved, budget.MaxPriceSPerJ)
}
