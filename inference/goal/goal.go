// Package goal keeps the objective of a mission, the conditioning channel of the
// paper's Sec. IV-B: a preference or an energy budget, and from it the delay
// and the joules to go, which condition the policy.
//
// Inputs: a preference or a budget, at any slot; each slot's settlement, which is
// its measured delay and joules; and the observation that each decision
// returns. Outputs: the delay and energy to go, the floor below which no budget
// can be kept, the headroom above it, and the propulsion multiplier measured
// so far. The leader and the rollouts own an Objective and set it; the policy
// and package token are given a copy and read it.
//
// Under a budget the energy to go is the joules not yet spent, eq. (identity),
// so that a revision is one assignment. Equations and sections cited here and
// in the packages beside this one are the paper's.
package goal

import (
	"cmp"
	"fmt"
	"math"

	"prefdt/inference/physics"
)

// Mode is the kind of request in force.
type Mode string

const (
	Preference Mode = "preference" // a setting in [0, 1]
	Target     Mode = "target"     // a total in joules, to be met
	Ceiling    Mode = "ceiling"    // a total in joules, not to be passed
)

// Constants are the archived constants of the objective, one set for each checkpoint.
type Constants struct {
	EtaDelayS     float64       `json:"eta_delay_s"`  // eta_T, eq. (rtgnorm)
	EtaEnergyJ    float64       `json:"eta_energy_j"` // eta_E
	Slots         int           `json:"slots"`        // T, slots of a mission of the corpus that the conditioner was fitted on
	AircraftCount int           `json:"aircraft"`     // M, aircraft of that corpus
	Conditioner   Conditioner   `json:"conditioner"`
	SettingMap    SettingMap    `json:"remap"`
	CeilingMargin CeilingMargin `json:"ceiling"`
}

// Check returns an error that names the first constant that is not valid.
func (c *Constants) Check() error {
	if !(c.EtaDelayS > 0 && c.EtaDelayS < 1e12) || !(c.EtaEnergyJ > 0 && c.EtaEnergyJ < 1e12) {
		return fmt.Errorf("return scales are %v s and %v J, want positive numbers", c.EtaDelayS, c.EtaEnergyJ)
	}
	if c.Slots < 1 || c.Slots > 1e6 || c.AircraftCount < 1 || c.AircraftCount > 64 {
		return fmt.Errorf("conditioner was fitted on %d slots and %d aircraft, want 1 to 1e6 and 1 to 64", c.Slots, c.AircraftCount)
	}
	if err := c.Conditioner.Check(); err != nil {
		return err
	}
	last := len(c.Conditioner.Omegas) - 1
	if delayS, energyJ := c.Conditioner.DelayS, c.Conditioner.EnergyJ; delayS[0] == delayS[last] || energyJ[0] == energyJ[last] {
		return fmt.Errorf("conditioner has the delay %v s and the energy %v J at both ends, want a front", delayS[0], energyJ[0])
	}
	if err := c.CeilingMargin.check(); err != nil {
		return err
	}
	return c.SettingMap.check()
}

// FrontPosition returns the position on the delay-energy front at which the
// conditioner puts a delay share: 0 at the least delay, 1 at the least energy,
// the mean of the shares of the delay range and of the energy range passed.
func (c *Constants) FrontPosition(omega float64) float64 {
	last := len(c.Conditioner.Omegas) - 1
	delayS, energyJ := c.Conditioner.MissionReturn(omega)
	return (delayS-c.Conditioner.DelayS[0])/(2*(c.Conditioner.DelayS[last]-c.Conditioner.DelayS[0])) +
		(c.Conditioner.EnergyJ[0]-energyJ)/(2*(c.Conditioner.EnergyJ[0]-c.Conditioner.EnergyJ[last]))
}

// State is what a restart needs of an Objective; the ledger keeps it as one JSON value.
type State struct {
	Slot    int     `json:"slot"` // slots settled
	Slots   int     `json:"slots"`
	Mode    Mode    `json:"mode"`
	Omega   float64 `json:"omega"`    // delay share requested, under a preference
	BudgetJ float64 `json:"budget_j"` // total requested, under a budget
	// FirstBudgetJ is the total that BudgetJ revises, itself where it has not been revised in flight.
	FirstBudgetJ float64 `json:"first_budget_j,omitempty"`
	DelayToGoS   float64 `json:"delay_to_go_s"`
	// EnergyToGoJ is the energy still allowed.
	EnergyToGoJ        float64 `json:"energy_to_go_j"`
	DelayS             float64 `json:"delay_s"` // settled so far
	SpentJ             float64 `json:"spent_j"`
	EdgeJ              float64 `json:"edge_j"`      // the part of it spent on edge computing
	Flying             int     `json:"flying"`      // aircraft whose flight counts
	EdgePowerW         float64 `json:"edge_rate_w"` // filtered edge power, for the prediction
	PropulsionEstimate         // of the propulsion multiplier, from the settlements
	PendingEstimate            // slots gathered for its next measurement
	EdgeDemand                 // what a slot spends on edge computing at each price, as observed
	// SavedJ is what an even spender would have spent more than this mission since the
	// budget was set or raised, and what may be spent in advance.
	SavedJ float64 `json:"saved_j"`
	// Air is that of the slot in progress, as the last decision believed it to be.
	Air Air `json:"air,omitzero"`
	// WeighedDelayS bounds the delay of that slot which counts in DelayToGoS; 0: it is not bounded.
	WeighedDelayS float64 `json:"weighed_delay_s,omitempty"`
	Rows          Rows    `json:"rows,omitzero"`
}

// Objective is the request of one mission and what is left of it. Readers are given
// a copy by value, so that they cannot change the owner's.
type Objective struct {
	state             State
	outOfDistribution bool
	constants         *Constants
	minFlightW        float64 // P(v*) of one aircraft
}

// New returns the objective of a mission that begins, a preference for setting 0.5.
func New(c *Constants, p *physics.Constants, slots, aircraft int) Objective {
	o := Resume(c, p, State{Slots: slots, Flying: aircraft, PropulsionEstimate: initialEstimate(), Mode: Preference})
	o.SetOmega(c.SettingMap.Omega(0.5))
	return o
}

// Resume returns the objective as it was when its State was saved.
func Resume(c *Constants, p *physics.Constants, s State) Objective {
	_, minFlightW := p.MinPower()
	return Objective{state: s, constants: c, minFlightW: minFlightW}
}

// State returns all that Resume needs.
func (o Objective) State() State { return o.state }

// Restore sets the state to another of the same mission.
func (o *Objective) Restore(s State) { o.state = s }

// SetFlying sets the number of aircraft whose flight counts from now on.
func (o *Objective) SetFlying(aircraft int) { o.state.Flying = aircraft }

// SetOutOfDistribution marks a mission whose physics or users are not those that
// the conditioner was fitted on.
func (o *Objective) SetOutOfDistribution(outside bool) { o.outOfDistribution = outside }

// Slot returns the number of slots settled.
func (o Objective) Slot() int { return o.state.Slot }

// Mode returns the kind of the request in force.
func (o Objective) Mode() Mode { return o.state.Mode }

// Omega returns the delay share requested, 0 under a budget.
func (o Objective) Omega() float64 { return o.state.Omega }

// BudgetJ returns the total requested, 0 under a preference.
func (o Objective) BudgetJ() float64 { return o.state.BudgetJ }

// FirstBudgetJ returns the total that the one in force revises, itself where it has not been
// revised in flight or a state of before does not have it; 0 under a preference.
func (o Objective) FirstBudgetJ() float64 { return cmp.Or(o.state.FirstBudgetJ, o.state.BudgetJ) }

// DelayToGoS returns the delay still expected, 0 under a budget.
func (o Objective) DelayToGoS() float64 { return o.state.DelayToGoS }

// EnergyToGoJ returns the energy still allowed.
func (o Objective) EnergyToGoJ() float64 { return o.state.EnergyToGoJ }

// DelayS returns the delay settled so far.
func (o Objective) DelayS() float64 { return o.state.DelayS }

// SpentJ returns the energy settled so far.
func (o Objective) SpentJ() float64 { return o.state.SpentJ }

// EdgeJ returns the part of SpentJ that edge computing took.
func (o Objective) EdgeJ() float64 { return o.state.EdgeJ }

// ExpectMultiplier has flight power over the model's be that of an earlier mission, until this one's is measured.
func (o *Objective) ExpectMultiplier(x float64) { o.state.Multiplier = limitMultiplier(x) }

// PropulsionMultiplier returns flight power over the model's, as measured.
func (o Objective) PropulsionMultiplier() float64 { return o.state.Multiplier }

// Doubtful reports whether the multiplier rests on its last measurement alone, which may be a wrong reading.
func (o Objective) Doubtful() bool { return o.state.Before != (EstimateBefore{}) }

// Slots returns the slots of the mission.
func (o Objective) Slots() int { return o.state.Slots }

// Flying returns the number of aircraft whose flight counts.
func (o Objective) Flying() int { return o.state.Flying }

// SlotsLeft returns the slots still to settle.
func (o Objective) SlotsLeft() int { return max(o.state.Slots-o.state.Slot, 0) }

// SetPreference requests a setting on the calibrated axis, from 0, the least delay,
// to 1, the least energy. It clears a budget.
func (o *Objective) SetPreference(setting float64) error {
	if !(setting >= 0 && setting <= 1) {
		return fmt.Errorf("setting is %v, want 0 to 1", setting)
	}
	o.SetOmega(o.constants.SettingMap.Omega(setting))
	return nil
}

// SetOmega requests a delay share directly, without the setting map. The delay and
// the energy to go are the conditioner's, eq. (init), in proportion to the
// slots left and corrected for the propulsion multiplier measured so far.
func (o *Objective) SetOmega(omega float64) {
	delayS, energyJ := o.constants.Conditioner.MissionReturn(omega)
	left := float64(o.SlotsLeft()) / float64(o.constants.Slots)
	fleet := float64(o.state.Flying) / float64(o.constants.AircraftCount)
	o.SetReturns(omega, delayS*left, energyJ*left*fleet+(o.state.Multiplier-1)*o.minFlightW*float64(o.state.Flying*o.SlotsLeft()))
}

// SetBudget requests a total in joules from slot 0 to the end, as a Target or a
// Ceiling. Requesting the total in force again changes nothing.
func (o *Objective) SetBudget(totalJ float64, mode Mode) error {
	if !(totalJ > 0) || math.IsInf(totalJ, 0) {
		return fmt.Errorf("budget is %v J, want a positive number", totalJ)
	}
	if mode != Target && mode != Ceiling {
		return fmt.Errorf("budget mode is %q, want %q or %q", mode, Target, Ceiling)
	}
	if !o.Budgeted() || o.state.Slot == 0 {
		o.state.FirstBudgetJ = totalJ
	}
	raised := totalJ > o.state.BudgetJ // from none, too
	o.state.Mode, o.state.BudgetJ, o.state.EnergyToGoJ = mode, totalJ, totalJ-o.state.SpentJ
	if raised {
		o.state.SavedJ = max(o.state.SavedJ, o.advanceJ())
	}
	o.state.Omega, o.state.DelayToGoS = 0, 0
	return nil
}

// PriceOnly reports whether the preference in force can only be read as a price:
// in a mission of another length, with another fleet size or out of the training
// distribution, the delay and energy that the conditioner gives for it cannot be
// attained, while the price that it stands for is the same.
func (o Objective) PriceOnly() bool {
	return !o.Budgeted() && (o.outOfDistribution || o.state.Slots != o.constants.Slots || o.state.Flying != o.constants.AircraftCount)
}

// Budgeted reports whether a budget, rather than a preference, is in force.
func (o Objective) Budgeted() bool { return o.state.Mode != Preference }

// LeastFlightW returns the least power at which an aircraft flies: at v*, under the multiplier
// measured so far, and as the air allows.
func (o Objective) LeastFlightW() float64 {
	return o.minFlightW * o.state.Air.hold() * o.state.Multiplier
}

// FloorToGoJ returns the least energy of the slots left: every counted aircraft
// flies at v*, the speed of least power, under the multiplier measured so far, and as
// the air allows.
func (o Objective) FloorToGoJ() float64 {
	return o.minFlightW * o.state.Air.hold() * o.state.Multiplier * float64(o.state.Flying*o.SlotsLeft())
}

// FloorJ returns the least total at which the mission can still end.
func (o Objective) FloorJ() float64 { return o.state.SpentJ + o.FloorToGoJ() }

// Saturated reports whether the budget in force is below the floor: it cannot be kept.
func (o Objective) Saturated() bool { return o.Budgeted() && o.state.BudgetJ < o.FloorJ() }

// AllowanceJ returns the joules still allowed above the flight floor, per slot to go.
func (o Objective) AllowanceJ() float64 {
	if o.SlotsLeft() == 0 {
		return 0
	}
	return (o.state.EnergyToGoJ - o.FloorToGoJ()) / float64(o.SlotsLeft())
}

// CalmMissionJ returns what a whole mission of the whole fleet takes in calm air at the rate that
// the joules left allow in the slots to go: those above the flight floor as they are, and the
// floor as it is in calm air.
func (o Objective) CalmMissionJ() float64 {
	perSlot := o.AllowanceJ() + o.minFlightW*float64(o.state.Flying)
	return perSlot * float64(o.constants.Slots) * float64(o.constants.AircraftCount) / float64(o.state.Flying)
}

// Setting returns the setting in force or, under a budget, the one of equal energy.
func (o Objective) Setting() float64 {
	if !o.Budgeted() {
		return o.constants.SettingMap.Setting(o.state.Omega)
	}
	if o.SlotsLeft() == 0 || o.state.Flying == 0 {
		return 1
	}
	energyJ := o.CalmMissionJ()
	low, high := 0.0, 1.0 // energy falls along the axis
	for range 40 {
		mid := (low + high) / 2
		if _, e := o.constants.Conditioner.MissionReturn(o.constants.SettingMap.Omega(mid)); e > energyJ {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// Settlement is the measured cost of one slot, or of several measured together.
type Settlement struct {
	// Slots is the number of slots in the sums below; 0 stands for 1. However
	// many they are, they are one measurement of the multiplier, because their
	// joules were measured as one sum.
	Slots   int     `json:"slots,omitempty"`
	DelayS  float64 `json:"delay_s"`
	EnergyJ float64 `json:"energy_j"` // measured, whole fleet
	EdgeJ   float64 `json:"edge_j"`   // closed form of the decisions sent
	// MinEdgeJ and MaxEdgeJ bound EdgeJ where it is partly an estimate, of
	// users who decided by the standing offer; otherwise they are equal.
	MinEdgeJ float64 `json:"least_edge_j"`
	MaxEdgeJ float64 `json:"most_edge_j"`
	// ModelFlightJ is the flight energy of the model, at multiplier 1, for the
	// aircraft and the time that EnergyJ was measured over. It is 0 where there
	// is no such figure, because speeds were not observed or energy was not
	// measured; the joules are then spent, but do not measure the multiplier. The
	// speeds are those over the ground: Settle corrects it for the believed air.
	ModelFlightJ float64 `json:"model_flight_j"`
	Flying       int     `json:"flying"` // aircraft whose flight counts from now on

	// Measured is what measures the multiplier in place of the sums above, where that is
	// of another time; its ModelFlightJ is through the air.
	Measured *Measurement `json:"measured,omitempty"`
}

// Measurement is a flight that was measured; its fields are as in Settlement.
type Measurement struct {
	EnergyJ      float64 `json:"energy_j"`
	EdgeJ        float64 `json:"edge_j"`
	ErrorJ       float64 `json:"error_j"`          // standard deviation of EnergyJ less EdgeJ
	LateJ        float64 `json:"late_j,omitempty"` // likewise, of readings that came late
	ModelFlightJ float64 `json:"model_flight_j"`
	Slots        int     `json:"slots"` // as long as so many
	// Changed is whether flights before it show together with it that flying came to take more.
	Changed bool `json:"changed,omitempty"`
}

// mostErrors is by how many of its errors a measurement may be off what is believed.
const mostErrors = 3

// Contradicts reports whether a flight took more or less than is believed, by more than its error can be.
func (o *Objective) Contradicts(x *Measurement) bool {
	return o.state.contradicts(x)
}

func (s *State) contradicts(x *Measurement) bool { return math.Abs(s.offJ(x)) > mostErrors*x.ErrorJ }

// offJ is by how much more a flight took than is believed.
func (s *State) offJ(x *Measurement) float64 {
	return x.EnergyJ - x.EdgeJ - s.Multiplier*x.ModelFlightJ
}

// TakesMore reports whether a flight took so much more than by a multiplier that this alone is a change.
func (x *Measurement) TakesMore(multiplier float64) bool {
	return x.EnergyJ-x.EdgeJ > leastChange*multiplier*x.ModelFlightJ
}

// Exceeds reports whether it did by more than its error can be.
func (x *Measurement) Exceeds(multiplier float64) bool {
	return x.TakesMore(multiplier) && x.EnergyJ-x.EdgeJ-multiplier*x.ModelFlightJ > mostErrors*math.Hypot(x.ErrorJ, x.LateJ)
}

// Settle accounts for a settlement: it advances the mission by its slots, subtracts
// what was spent, eq. (decr), and updates the multiplier.
func (o *Objective) Settle(s Settlement) {
	state := &o.state
	n := max(s.Slots, 1)
	s.ModelFlightJ *= state.Air.flown()
	if o.Budgeted() {
		aboveFloorJ := s.EdgeJ + state.Multiplier*max(s.ModelFlightJ-o.minFlightW*state.Air.hold()*float64(state.Flying*n), 0)
		state.SavedJ = max(state.SavedJ+float64(n)*o.evenShareJ()-aboveFloorJ, 0)
	}
	if state.Slot == 0 {
		state.EdgePowerW = s.EdgeJ / float64(n)
	}
	state.Slot += n
	state.Flying = s.Flying
	state.DelayS += s.DelayS
	state.SpentJ += s.EnergyJ
	state.EdgeJ += s.EdgeJ
	state.EnergyToGoJ -= s.EnergyJ
	if o.Budgeted() {
		state.EnergyToGoJ = state.BudgetJ - state.SpentJ // exact, however many slots were summed
	} else {
		state.DelayToGoS -= min(s.DelayS, cmp.Or(state.WeighedDelayS, s.DelayS))
	}
	state.WeighedDelayS = 0
	if s.Measured != nil {
		state.addWindow(s.Measured)
	} else {
		state.updateMultiplier(&s)
	}
	for range n {
		state.EdgePowerW += 0.1 * (s.EdgeJ/float64(n) - state.EdgePowerW)
	}
}

// CorrectDelay adds to the delay of slots already settled, as a result arrives late. It
// changes the delay to go by no more than all tasks of a mean slot take on their users' own
// CPUs.
func (o *Objective) CorrectDelay(delayS float64) {
	o.state.DelayS += delayS
	if !o.Budgeted() {
		delays := o.constants.Conditioner.DelayS
		most := math.Abs(delays[len(delays)-1]) / float64(o.constants.Slots)
		o.state.DelayToGoS -= min(max(delayS, -most), most)
	}
}

// limitMultiplier bounds what is measured of the multiplier.
func limitMultiplier(measured float64) float64 { return min(max(measured, 0.1), 10) }

// leastChange is how much more than believed a flight takes that alone is a change: a few percent may be a
// reading that came late.
const leastChange = 1.2

// addWindow updates the multiplier with a flight that batteries measured. By one that took clearly more,
// and more than its error allows, flying has changed: what was measured before counts no longer. One that took
// less, and may not have by its error, is no change unless the next agrees: nobody is to count on it.
func (s *State) addWindow(x *Measurement) {
	if !(x.ModelFlightJ > 0 && x.EnergyJ > x.EdgeJ) {
		return
	}
	if s.RecentCount == 0 && s.MultiplierWeight == initialWeight {
		s.MultiplierWeight /= float64(x.Slots) // it weighs as many slots
	}
	measured := limitMultiplier((x.EnergyJ - x.EdgeJ) / x.ModelFlightJ)
	s.endDoubt(measured)
	// A little more may be a reading that came late, too.
	doubtful := measured < s.Multiplier || x.LateJ > x.ErrorJ && measured < leastChange*s.Multiplier
	if doubtful && math.Abs(s.offJ(x)) <= mostErrors*math.Hypot(x.ErrorJ, x.LateJ) && s.putOff(measured) {
		return
	}
	// The flight that alone was a change may have begun before it.
	if s.Outlier != 0 && s.Before != (EstimateBefore{}) && measured > s.Multiplier {
		s.MultiplierWeight, s.RecentCount = 0, 0
	}
	s.add(measured, x.Changed || s.contradicts(x) && measured > leastChange*s.Multiplier)
}

// updateMultiplier updates the multiplier with a slot's settlement, if it has a flight.
func (s *State) updateMultiplier(x *Settlement) {
	multiplier := func(edgeJ float64) float64 { return limitMultiplier((x.EnergyJ - edgeJ) / x.ModelFlightJ) }
	changed := false
	switch {
	case !(x.ModelFlightJ > 0): // no measurement
	case x.MaxEdgeJ > x.MinEdgeJ:
		if changed = s.addInterval(multiplier(x.EdgeJ), multiplier(x.MaxEdgeJ), multiplier(x.MinEdgeJ)); changed {
			break
		}
		if mean, enough := s.addPending(x.EnergyJ-x.EdgeJ, x.ModelFlightJ, max(x.Slots, 1)); enough {
			changed = s.addMeasurement(limitMultiplier(mean))
		}
	case x.EnergyJ > x.EdgeJ:
		changed = s.addMeasurement(multiplier(x.EdgeJ))
	}
	if changed {
		s.PendingEstimate = PendingEstimate{} // gathered before the change
	}
}
