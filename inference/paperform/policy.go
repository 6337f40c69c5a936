package paperform

import (
	"math"
	"slices"

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

	fleet  slot.Snapshot // see wholeFleet
	places []int         // of the form's aircraft: index in the snapshot, -1 where it is missing
	gains  []float64
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
	p.fleet.Aircraft = p.fleet.Aircraft[:0]
}

// Decide writes the joint decision of a slot into d, as the heads give it. The fleet and the
// slots of a mission are compared with the form before it begins (Form.Fits). An aircraft
// that is lost in flight keeps its place in the state token, where it was last, and serves
// nobody; in a slot beyond the embeddings, the last one's is used.
func (p *Policy) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) {
	f := &p.net.Form
	d.Resize(s)
	whole := p.wholeFleet(s)
	omega, delayToGoS := p.request(&o)
	p.in.Slot, p.in.NumUsers, p.in.Omega = min(s.Slot, f.Slots-1), len(s.Users), float32(omega)
	p.in.Aircraft = p.builder.AppendAircraft(p.in.Aircraft[:0], whole)
	p.in.Users = p.builder.AppendUsers(p.in.Users[:0], whole)
	p.in.Return = AppendReturn(p.in.Return[:0], omega, delayToGoS, o.EnergyToGoJ(), p.constants.EtaDelayS, p.constants.EtaEnergyJ)
	p.net.Step(&p.in, p.memory, &p.out)

	p.servers = p.servers[:0]
	for u := range s.Users {
		best, row := 0, p.out.Choice[u*(f.Aircraft+1):][:f.Aircraft+1]
		for m, v := range row[1:] {
			if v > row[best] && p.places[m] >= 0 {
				best = m + 1
			}
		}
		if p.servers = append(p.servers, best); best > 0 {
			d.Users[u] = slot.UserDecision{Server: p.places[best-1] + 1, Offload: (1 + float64(p.out.Offload[u])) / 2}
		}
	}
	for m, place := range p.places {
		if place < 0 {
			continue
		}
		length := p.physics.SpeedMaxMPS * (1 + float64(p.out.Motion[2*m])) / 2
		north, east := math.Sincos(math.Pi * (1 + float64(p.out.Motion[2*m+1])))
		at := s.Aircraft[place].Position
		d.Move[place] = at.Add(physics.Position{EastM: length * east, NorthM: length * north}).ClampToArea(p.physics.AreaSideM).Sub(at)
	}
	d.PriceSPerJ = PriceSPerJ(&p.constants.Conditioner, omega)
	d.Evaluate(p.physics, s)
	p.in.Action = AppendAction(p.in.Action[:0], p.out.Motion, p.servers, func(u int) float64 { return d.Users[u].Offload })
	p.in.Before = p.in.Slot
}

// wholeFleet returns the snapshot with an aircraft in each of the form's places, by number.
func (p *Policy) wholeFleet(s *slot.Snapshot) *slot.Snapshot {
	p.places = p.places[:0]
	for m := range p.net.Form.Aircraft {
		place := slices.IndexFunc(s.Aircraft, func(a slot.Aircraft) bool { return a.Number == m+1 })
		p.places = append(p.places, place)
		if m == len(p.fleet.Aircraft) { // the first slot
			p.fleet.Aircraft = append(p.fleet.Aircraft, slot.Aircraft{Number: m + 1})
		}
		if place >= 0 {
			p.fleet.Aircraft[m] = s.Aircraft[place]
		} else {
			p.fleet.Aircraft[m].ServedLastSlot, p.fleet.Aircraft[m].SpeedMPS = 0, 0
		}
	}
	p.fleet.Slot, p.fleet.Slots = s.Slot, s.Slots
	p.fleet.Users = append(p.fleet.Users[:0], s.Users...)
	p.gains = p.gains[:0]
	for u := range s.Users {
		for _, place := range p.places {
			gain := 0.0
			if place >= 0 {
				gain = s.Users[u].Gain[place]
			}
			p.gains = append(p.gains, gain)
		}
	}
	for u := range p.fleet.Users {
		p.fleet.Users[u].Gain = p.gains[u*len(p.places) : (u+1)*len(p.places)]
	}
	return &p.fleet
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
