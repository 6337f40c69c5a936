// Package goal is the policy's conditioning channel, Sec. IV-B: what is asked
// of the rest of the mission, as delay and joules to go. A preference or a
// budget comes in at any slot; the policy reads what is left before it decides,
// and returns what its decision has seen; that and each slot's measured delay
// and joules, eq. (decr), are taken in by whoever has the Objective.
//
// By eq. (identity) the energy entry of a budgeted mission is the joules not
// yet spent, so a revision is one assignment.
package goal

import (
	"fmt"
	"math"

	"prefdt/inference/physics"
)

// Mode tells how a mission is asked for.
type Mode string

const (
	Preference Mode = "preference" // a setting in [0, 1]
	Target     Mode = "target"     // a total in joules, to be met
	Ceiling    Mode = "ceiling"    // a total in joules, not to be passed
)

// Constants are the archived constants of the channel, one set for each checkpoint.
type Constants struct {
	EtaDelayS     float64       `json:"eta_delay_s"`  // eta_T, eq. (rtgnorm)
	EtaEnergyJ    float64       `json:"eta_energy_j"` // eta_E
	Slots         int           `json:"slots"`        // T of the corpus the conditioner was fitted on
	AircraftCount int           `json:"aircraft"`     // M of that corpus
	Conditioner   Conditioner   `json:"conditioner"`
	SettingMap    SettingMap    `json:"remap"`
	CeilingMargin CeilingMargin `json:"ceiling"`
}

// Check says what is wrong with archived scales.
func (s *Constants) Check() error {
	if !(s.EtaDelayS > 0 && s.EtaDelayS < 1e12) || !(s.EtaEnergyJ > 0 && s.EtaEnergyJ < 1e12) {
		return fmt.Errorf("return scales are %v s and %v J, want positive numbers", s.EtaDelayS, s.EtaEnergyJ)
	}
	if s.Slots < 1 || s.Slots > 1e6 || s.AircraftCount < 1 || s.AircraftCount > 64 {
		return fmt.Errorf("conditioner was fitted on %d slots and %d aircraft, want 1 to 1e6 and 1 to 64", s.Slots, s.AircraftCount)
	}
	if err := s.Conditioner.Check(); err != nil {
		return err
	}
	if err := s.CeilingMargin.check(); err != nil {
		return err
	}
	return s.SettingMap.check()
}

// FrontPosition returns where on the front, from 0 at the least delay to 1 at the least
// energy and even in both, the conditioner puts a delay share.
func (s *Constants) FrontPosition(omega float64) float64 {
	last := len(s.Conditioner.Omegas) - 1
	delayS, energyJ := s.Conditioner.MissionReturn(omega)
	return (delayS-s.Conditioner.DelayS[0])/(2*(s.Conditioner.DelayS[last]-s.Conditioner.DelayS[0])) +
		(s.Conditioner.EnergyJ[0]-energyJ)/(2*(s.Conditioner.EnergyJ[0]-s.Conditioner.EnergyJ[last]))
}

// State is all that a restart needs; it is one JSON value in the ledger.
type State struct {
	Slot       int     `json:"slot"` // slots settled
	Slots      int     `json:"slots"`
	Mode       Mode    `json:"mode"`
	Omega      float64 `json:"omega"`    // delay share asked for, under a preference
	BudgetJ    float64 `json:"budget_j"` // total asked for, under a budget
	DelayToGoS float64 `json:"delay_to_go_s"`
	// EnergyToGoJ is the energy entry: joules still allowed.
	EnergyToGoJ        float64 `json:"energy_to_go_j"`
	DelayS             float64 `json:"delay_s"` // settled so far
	SpentJ             float64 `json:"spent_j"`
	EdgeJ              float64 `json:"edge_j"`      // the part of it spent on edge computing
	Flying             int     `json:"flying"`      // aircraft whose flight counts
	EdgePowerW         float64 `json:"edge_rate_w"` // filtered edge power, for the prediction
	PropulsionEstimate         // of the propulsion power, as measured
	PendingEstimate            // measurements of it that are not yet one
	EdgeCapacity               // what can be spent on edge computing, as seen so far
}

// Objective is the channel of one mission. What reads it has it by value, so
// that a copy is all that a reader can change; what sets it has a pointer.
type Objective struct {
	state             State
	outOfDistribution bool
	constants         *Constants
	minFlightW        float64 // P(v*) of one aircraft
}

// New returns the channel at the start of a mission, asked for the setting 0.5.
func New(scales *Constants, c *physics.Constants, slots, aircraft int) Objective {
	o := Resume(scales, c, State{Slots: slots, Flying: aircraft, PropulsionEstimate: initialEstimate(), Mode: Preference})
	o.SetOmega(scales.SettingMap.Omega(0.5))
	return o
}

// Resume returns the channel as it was when its State was saved.
func Resume(scales *Constants, c *physics.Constants, s State) Objective {
	p := c.Propulsion
	return Objective{state: s, constants: scales, minFlightW: p.PowerW(p.BestSpeedMPS(c.SpeedMaxMPS))}
}

// State returns all that Resume needs.
func (o Objective) State() State { return o.state }

// Restore sets the state to another of the same mission.
func (o *Objective) Restore(s State) { o.state = s }

// SetFlying sets the number of aircraft whose flight counts from now on.
func (o *Objective) SetFlying(aircraft int) { o.state.Flying = aircraft }

// SetOutOfDistribution marks a world whose physics or users are not the conditioner's.
func (o *Objective) SetOutOfDistribution(elsewhere bool) { o.outOfDistribution = elsewhere }

func (o Objective) Slot() int                     { return o.state.Slot }        // slots settled
func (o Objective) Slots() int                    { return o.state.Slots }       // of the mission
func (o Objective) Flying() int                   { return o.state.Flying }      // aircraft whose flight counts
func (o Objective) Mode() Mode                    { return o.state.Mode }        // of the request in force
func (o Objective) Omega() float64                { return o.state.Omega }       // delay share asked for, 0 under a budget
func (o Objective) BudgetJ() float64              { return o.state.BudgetJ }     // total asked for, 0 under a preference
func (o Objective) DelayToGoS() float64           { return o.state.DelayToGoS }  // delay entry
func (o Objective) EnergyToGoJ() float64          { return o.state.EnergyToGoJ } // energy entry: joules still allowed
func (o Objective) DelayS() float64               { return o.state.DelayS }      // settled so far
func (o Objective) SpentJ() float64               { return o.state.SpentJ }      // settled so far
func (o Objective) EdgeJ() float64                { return o.state.EdgeJ }       // the part of it spent on edge computing
func (o Objective) PropulsionMultiplier() float64 { return o.state.Multiplier }  // propulsion multiplier as measured
func (o Objective) OutOfDistribution() bool       { return o.outOfDistribution }

// SlotsLeft returns the slots still to settle.
func (o Objective) SlotsLeft() int { return max(o.state.Slots-o.state.Slot, 0) }

// SetPreference asks for a setting on the calibrated axis, 0 being the least delay.
// It clears a budget.
func (o *Objective) SetPreference(setting float64) error {
	if !(setting >= 0 && setting <= 1) {
		return fmt.Errorf("setting is %v, want 0 to 1", setting)
	}
	o.SetOmega(o.constants.SettingMap.Omega(setting))
	return nil
}

// SetOmega asks for a delay share directly, past the remap: both entries
// from the conditioner, eq. (init), in proportion to the slots left and
// corrected for the propulsion multiplier measured so far.
func (o *Objective) SetOmega(omega float64) {
	delayS, energyJ := o.constants.Conditioner.MissionReturn(omega)
	left := float64(o.SlotsLeft()) / float64(o.constants.Slots)
	fleet := float64(o.state.Flying) / float64(o.constants.AircraftCount)
	o.SetReturns(omega, delayS*left, energyJ*left*fleet+(o.state.Multiplier-1)*o.minFlightW*float64(o.state.Flying*o.SlotsLeft()))
}

// SetBudget asks for a total in joules from slot 0 to the end, as a Target or a
// Ceiling. Re-issuing the same total changes nothing.
func (o *Objective) SetBudget(totalJ float64, mode Mode) error {
	if !(totalJ > 0) || math.IsInf(totalJ, 0) {
		return fmt.Errorf("budget is %v J, want a positive number", totalJ)
	}
	if mode != Target && mode != Ceiling {
		return fmt.Errorf("budget mode is %q, want %q or %q", mode, Target, Ceiling)
	}
	o.state.Mode, o.state.BudgetJ, o.state.EnergyToGoJ = mode, totalJ, totalJ-o.state.SpentJ
	o.state.Omega, o.state.DelayToGoS = 0, 0
	return nil
}

// SetReturns asks for a delay share by the returns that it stands for: both
// entries, delay and joules still to come, as given. A corpus asks so for what
// a flight did cost.
func (o *Objective) SetReturns(omega, delayS, energyJ float64) {
	o.state.Mode, o.state.Omega, o.state.BudgetJ = Preference, omega, 0
	o.state.DelayToGoS, o.state.EnergyToGoJ = delayS, energyJ
}

// PriceOnly reports whether a preference stands for a price alone: in a mission
// that is not the conditioner's, of another length or with another fleet, the
// returns it would name are not attainable, and the price is the same.
func (o Objective) PriceOnly() bool {
	return !o.Budgeted() && (o.outOfDistribution || o.state.Slots != o.constants.Slots || o.state.Flying != o.constants.AircraftCount)
}

// Budgeted reports whether a budget, rather than a preference, is in force.
func (o Objective) Budgeted() bool { return o.state.Mode != Preference }

// FloorToGoJ returns the least energy of the slots left: the aircraft in
// flight at v* under the multiplier measured so far.
func (o Objective) FloorToGoJ() float64 {
	return o.minFlightW * o.state.Multiplier * float64(o.state.Flying*o.SlotsLeft())
}

// FloorJ returns the least total the mission can still end on.
func (o Objective) FloorJ() float64 { return o.state.SpentJ + o.FloorToGoJ() }

// Saturated reports whether the budget in force is below the floor.
func (o Objective) Saturated() bool { return o.Budgeted() && o.state.BudgetJ < o.FloorJ() }

// AllowanceJ returns a: the joules still allowed per slot to go, above the
// flight floor.
func (o Objective) AllowanceJ() float64 {
	if o.SlotsLeft() == 0 {
		return 0
	}
	return (o.state.EnergyToGoJ - o.FloorToGoJ()) / float64(o.SlotsLeft())
}

// Setting returns the setting in force or, under a budget, the one it amounts to.
func (o Objective) Setting() float64 {
	if !o.Budgeted() {
		return o.constants.SettingMap.Setting(o.state.Omega)
	}
	if o.SlotsLeft() == 0 || o.state.Flying == 0 {
		return 1
	}
	perSlot := o.AllowanceJ() + o.minFlightW*float64(o.state.Flying)
	energyJ := perSlot * float64(o.constants.Slots) * float64(o.constants.AircraftCount) / float64(o.state.Flying)
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

// Settlement is what one slot, or several measured together, really cost.
type Settlement struct {
	// Slots is how many slots the sums below are of; 0 stands for 1. However
	// many they are, they are one measurement of the multiplier: slots whose
	// joules were read off once were measured once.
	Slots   int     `json:"slots,omitempty"`
	DelayS  float64 `json:"delay_s"`
	EnergyJ float64 `json:"energy_j"` // measured, whole fleet
	EdgeJ   float64 `json:"edge_j"`   // closed form of the decisions sent
	// Where EdgeJ is in part a guess, of users who took the offer, it lies
	// between these; elsewhere they are equal.
	MinEdgeJ float64 `json:"least_edge_j"`
	MaxEdgeJ float64 `json:"most_edge_j"`
	// ModelFlightJ is the closed form, at multiplier 1, of the flight that
	// EnergyJ was measured on: same aircraft, same time. Where it is not of the
	// same flight, as over a time that nobody observed the speeds, or where
	// energy was not measured, it is 0: the joules are spent, and say nothing of
	// the multiplier.
	ModelFlightJ float64 `json:"model_flight_j"`
	Flying       int     `json:"flying"` // aircraft whose flight counts from now on
}

// Settle subtracts what was spent, eq. (decr).
func (o *Objective) Settle(s Settlement) {
	g := &o.state
	n := max(s.Slots, 1)
	if g.Slot == 0 {
		g.EdgePowerW = s.EdgeJ / float64(n)
	}
	g.Slot += n
	g.Flying = s.Flying
	g.DelayS += s.DelayS
	g.SpentJ += s.EnergyJ
	g.EdgeJ += s.EdgeJ
	g.EnergyToGoJ -= s.EnergyJ
	if o.Budgeted() {
		g.EnergyToGoJ = g.BudgetJ - g.SpentJ // exact, however many slots were summed
	} else {
		g.DelayToGoS -= s.DelayS
	}
	g.updateMultiplier(&s)
	for range n {
		g.EdgePowerW += 0.1 * (s.EdgeJ/float64(n) - g.EdgePowerW)
	}
}

// CorrectDelay adds to the delay of slots already settled.
func (o *Objective) CorrectDelay(delayS float64) {
	o.state.DelayS += delayS
	if !o.Budgeted() {
		o.state.DelayToGoS -= delayS
	}
}

// updateMultiplier updates the multiplier with a settlement's measurement, if it has one.
func (s *State) updateMultiplier(x *Settlement) {
	factor := func(edgeJ float64) float64 {
		return min(max((x.EnergyJ-edgeJ)/x.ModelFlightJ, 0.1), 10)
	}
	changed := false
	switch {
	case !(x.ModelFlightJ > 0): // no measurement
	case x.MaxEdgeJ > x.MinEdgeJ:
		if changed = s.addInterval(factor(x.EdgeJ), factor(x.MaxEdgeJ), factor(x.MinEdgeJ)); changed {
			break
		}
		if mean, enough := s.addPending(x.EnergyJ-x.EdgeJ, x.ModelFlightJ); enough {
			changed = s.addMeasurement(min(max(mean, 0.1), 10))
		}
	case x.EnergyJ > x.EdgeJ:
		changed = s.addMeasurement(factor(x.EdgeJ))
	}
	if changed {
		s.PendingEstimate = PendingEstimate{} // was gathered before
	}
}
