package prefdt

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
	archived  *Archived
	physics   *physics.Constants
	constants *goal.Constants
	builder   *Builder
	memory    *Memory

	in       Inputs
	out      Outputs
	servers  []int
	settings []float64 // in force in the slots of the context, from 0 to 1
	headings []float64 // of the last moves, by the form's aircraft; NaN before the first
	lengths  []float64 // of the last moves, in m; NaN before the first

	fleet  slot.Snapshot // see wholeFleet
	places []int         // of the form's aircraft: index in the snapshot, -1 where it is missing
	gains  []float64
}

// asked is what a slot is asked for.
type asked struct{ omega, delayToGoS, energyToGoJ float64 }

// contextSpan is how far apart the settings of a context may be, on their axis from 0 to 1.
const contextSpan = 0.1

// maxTurn is how far a move turns from the one before at most. The searched rules hold a place by
// moves at v* to and fro, which costs them nothing in a world without inertia. An airframe that
// is commanded to reverse in each slot hovers, at a quarter more power.
const maxTurn = math.Pi / 3

// NewPolicy returns a policy at the start of a mission.
func NewPolicy(n *Net, a *Archived, constants *goal.Constants, c *physics.Constants) *Policy {
	p := &Policy{net: n, archived: a, physics: c, constants: constants, builder: NewBuilder(&n.Form, c, &a.Statistics),
		memory: n.NewMemory(), headings: make([]float64, n.Form.Aircraft), lengths: make([]float64, n.Form.Aircraft)}
	p.in.Action = make([]float32, n.Form.Aircraft*ActionFeatures)
	p.Reset()
	return p
}

// Reset starts another mission.
func (p *Policy) Reset() {
	p.forget()
	for m := range p.headings {
		p.headings[m], p.lengths[m] = math.NaN(), math.NaN()
	}
	p.fleet.Aircraft = p.fleet.Aircraft[:0]
}

// forget empties the context.
func (p *Policy) forget() {
	p.in.Before, p.settings = -1, p.settings[:0]
}

// Decide writes the joint decision of a slot into d, as the heads give it. The fleet and the
// slots of a mission are compared with the form before it begins (Form.Fits). An aircraft
// that is lost in flight keeps its place in the state token, where it was last, is far from
// every user and serves nobody; in a slot beyond the embeddings, the last one's is used.
func (p *Policy) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) {
	f := &p.net.Form
	d.Resize(s)
	whole := p.wholeFleet(s)
	request := p.request(&o, whole)
	p.in.Slot, p.in.NumUsers, p.in.Omega = min(s.Slot, f.Slots-1), len(s.Users), float32(request.omega)
	p.in.Aircraft, p.in.Users = p.builder.AppendSlot(p.in.Aircraft[:0], p.in.Users[:0], whole)
	p.removeLost()
	p.in.Return = AppendReturn(p.in.Return[:0], request.omega, request.delayToGoS, request.energyToGoJ, p.constants.EtaDelayS,
		p.constants.EtaEnergyJ)
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
			p.headings[m], p.lengths[m] = math.NaN(), math.NaN()
			continue
		}
		length := p.physics.SpeedMaxMPS * (1 + float64(p.out.Motion[2*m])) / 2
		heading := math.Pi * (1 + float64(p.out.Motion[2*m+1]))
		if last := p.headings[m]; !p.archived.AsPublished && !math.IsNaN(last) {
			heading = last + min(max(math.Remainder(heading-last, 2*math.Pi), -maxTurn), maxTurn)
			p.out.Motion[2*m+1] = float32(math.Remainder(heading-math.Pi, 2*math.Pi) / math.Pi) // as the action token has it
		}
		north, east := math.Sincos(heading)
		at := s.Aircraft[place].Position
		d.Move[place] = at.Add(physics.Position{EastM: length * east, NorthM: length * north}).ClampToArea(p.physics.AreaSideM).Sub(at)
		p.lengths[m] = d.Move[place].Norm()
		if x := d.Move[place]; x.Norm() > 0 { // at the area's edge it may be another, or none
			p.headings[m] = math.Atan2(x.NorthM, x.EastM)
		}
	}
	d.PriceSPerJ = PriceSPerJ(&p.constants.Conditioner, request.omega)
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

// removeLost sets the distance of users to a lost aircraft to the greatest there is: its frame would
// else stand in for those of the aircraft that can serve them.
func (p *Policy) removeLost() {
	f := &p.net.Form
	features, column := len(f.UserFeatures), f.distanceColumn()
	for m, place := range p.places {
		if place >= 0 {
			continue
		}
		for i := m * features; i < len(p.in.Users); i += f.UserWidth() {
			p.in.Users[i+column] = featureLimit
		}
	}
}

// request returns what the network is asked for in a slot. It also replaces the fleet's batteries and
// speeds by those of a calm flight at the setting in force from its start, and drops a context of another
// setting, since the network infers from all of these what setting is flown: the real batteries reveal
// another one where the setting or flight power has changed or they were not full at first, and the
// speed of an airframe in a turn looks like a flight that hovers (aircraft of the corpus have no inertia).
func (p *Policy) request(o *goal.Objective, fleet *slot.Snapshot) asked {
	if p.archived.AsPublished {
		return p.requestAsPublished(o)
	}
	setting := o.Setting()
	if slices.ContainsFunc(p.settings, func(x float64) bool { return math.Abs(x-setting) > contextSpan }) {
		p.forget()
	}
	if len(p.settings) == p.net.Form.Context {
		p.settings = append(p.settings[:0], p.settings[1:]...)
	}
	p.settings = append(p.settings, setting)
	omega := p.saturated(o.Omega())
	if o.Budgeted() {
		omega = p.constants.SettingMap.Omega(setting)
	}
	delayS, energyJ := p.constants.Conditioner.MissionReturn(omega)
	flown := float64(o.Slot()) / float64(p.constants.Slots)
	for m := range fleet.Aircraft {
		fleet.Aircraft[m].RemainingJ = p.physics.BatteryCapacityJ - flown*energyJ/float64(len(fleet.Aircraft))
		if !math.IsNaN(p.lengths[m]) {
			fleet.Aircraft[m].SpeedMPS = p.lengths[m] // m in a slot of 1 s
		}
	}
	if !o.Budgeted() {
		return asked{omega, o.DelayToGoS(), o.EnergyToGoJ()}
	}
	// The setting that the joules left pay for, anew in each slot. Its returns stand in for the
	// budget's own, which no flight of the corpus has where it is far from its setting.
	return asked{omega, (1 - flown) * delayS, (1 - flown) * energyJ}
}

// requestAsPublished is Algorithm 1: a budget overwrites the energy entry of the setting that costs
// its first total, and a revision overwrites it again.
func (p *Policy) requestAsPublished(o *goal.Objective) asked {
	if !o.Budgeted() {
		return asked{p.saturated(o.Omega()), o.DelayToGoS(), o.EnergyToGoJ()}
	}
	omega := omegaOfEnergy(&p.constants.Conditioner, o.FirstBudgetJ())
	delayS, _ := p.constants.Conditioner.MissionReturn(omega)
	return asked{omega, delayS - o.DelayS(), o.EnergyToGoJ()}
}

// saturated returns the nearest preference that flights are stored under: past the ends of the front
// preferences saturate ("Multi-objective MDP reformulation"), and the network has not learned from any.
func (p *Policy) saturated(omega float64) float64 {
	stored := p.constants.Conditioner.Omegas
	return min(max(omega, stored[0]), stored[len(stored)-1])
}

// omegaOfEnergy returns the preference at which the conditioner expects a total.
func omegaOfEnergy(c *goal.Conditioner, energyJ float64) float64 {
	return c.OmegaOfEnergy(energyJ, c.Omegas[0], c.Omegas[len(c.Omegas)-1])
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
