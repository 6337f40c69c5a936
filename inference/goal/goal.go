// Package goal is the policy's conditioning channel, Sec. IV-B: what is asked
// of the rest of the mission, as delay and joules to go. A preference or a
// budget comes in at any slot; each slot's measured delay and joules are
// subtracted, eq. (decr); the policy reads what is left before it decides.
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

// Scales are the archived constants of the channel, one set for each checkpoint.
type Scales struct {
	EtaDelayS   float64     `json:"eta_delay_s"`  // eta_T, eq. (rtgnorm)
	EtaEnergyJ  float64     `json:"eta_energy_j"` // eta_E
	Slots       int         `json:"slots"`        // T of the corpus the conditioner was fitted on
	Aircraft    int         `json:"aircraft"`     // M of that corpus
	Conditioner Conditioner `json:"conditioner"`
	Remap       Remap       `json:"remap"`
	Ceiling     Promise     `json:"ceiling"`
}

// Check says what is wrong with archived scales.
func (s *Scales) Check() error {
	if !(s.EtaDelayS > 0 && s.EtaDelayS < 1e12) || !(s.EtaEnergyJ > 0 && s.EtaEnergyJ < 1e12) {
		return fmt.Errorf("return scales are %v s and %v J, want positive numbers", s.EtaDelayS, s.EtaEnergyJ)
	}
	if s.Slots < 1 || s.Slots > 1e6 || s.Aircraft < 1 || s.Aircraft > 64 {
		return fmt.Errorf("conditioner was fitted on %d slots and %d aircraft, want 1 to 1e6 and 1 to 64", s.Slots, s.Aircraft)
	}
	if err := s.Conditioner.Check(); err != nil {
		return err
	}
	if err := s.Ceiling.check(); err != nil {
		return err
	}
	return s.Remap.check()
}

// Place returns where on the front, from 0 at the least delay to 1 at the least
// energy and even in both, the conditioner puts a delay share.
func (s *Scales) Place(omega float64) float64 {
	last := len(s.Conditioner.Omegas) - 1
	delayS, energyJ := s.Conditioner.Return(omega)
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
	EnergyToGoJ float64 `json:"energy_to_go_j"`
	DelayS      float64 `json:"delay_s"` // settled so far
	SpentJ      float64 `json:"spent_j"`
	EdgeJ       float64 `json:"edge_j"`      // the part of it spent on edge computing
	Flying      int     `json:"flying"`      // aircraft whose flight counts
	EdgeRateW   float64 `json:"edge_rate_w"` // filtered edge power, for the prediction
	Multiplier          // of the propulsion power, as measured
	Vague               // measurements of it that are not yet one
	Offered             // what can be spent on edge computing, as seen so far
}

// Goal is the channel of one mission.
type Goal struct {
	State
	// Elsewhere marks a world whose physics or users are not the conditioner's.
	Elsewhere bool

	scales *Scales
	bestW  float64 // P(v*) of one aircraft
}

// New returns the channel at the start of a mission, asked for the setting 0.5.
func New(scales *Scales, c *physics.Constants, slots, aircraft int) *Goal {
	return Resume(scales, c, State{Slots: slots, Flying: aircraft, Multiplier: unmeasured(), Mode: Preference}).prefer(scales.Remap.Omega(0.5))
}

// Resume returns the channel as it was when its State was saved.
func Resume(scales *Scales, c *physics.Constants, s State) *Goal {
	p := c.Propulsion
	return &Goal{State: s, scales: scales, bestW: p.PowerW(p.BestSpeedMPS(c.SpeedMaxMPS))}
}

// Left returns the slots still to settle.
func (g *Goal) Left() int { return max(g.Slots-g.Slot, 0) }

// Prefer asks for a setting on the calibrated axis, 0 being the least delay.
// It clears a budget.
func (g *Goal) Prefer(setting float64) error {
	if !(setting >= 0 && setting <= 1) {
		return fmt.Errorf("setting is %v, want 0 to 1", setting)
	}
	g.prefer(g.scales.Remap.Omega(setting))
	return nil
}

// PreferOmega asks for a delay share directly, past the remap.
func (g *Goal) PreferOmega(omega float64) { g.prefer(omega) }

// prefer sets both entries from the conditioner, eq. (init), in proportion to
// the slots left and corrected for the propulsion multiplier measured so far.
func (g *Goal) prefer(omega float64) *Goal {
	delayS, energyJ := g.scales.Conditioner.Return(omega)
	left := float64(g.Left()) / float64(g.scales.Slots)
	fleet := float64(g.Flying) / float64(g.scales.Aircraft)
	g.Mode, g.Omega, g.BudgetJ = Preference, omega, 0
	g.DelayToGoS = delayS * left
	g.EnergyToGoJ = energyJ*left*fleet + (g.Factor-1)*g.bestW*float64(g.Flying*g.Left())
	return g
}

// Budget asks for a total in joules from slot 0 to the end, as a Target or a
// Ceiling. Re-issuing the same total changes nothing.
func (g *Goal) Budget(totalJ float64, mode Mode) error {
	if !(totalJ > 0) || math.IsInf(totalJ, 0) {
		return fmt.Errorf("budget is %v J, want a positive number", totalJ)
	}
	if mode != Target && mode != Ceiling {
		return fmt.Errorf("budget mode is %q, want %q or %q", mode, Target, Ceiling)
	}
	g.Mode, g.BudgetJ, g.EnergyToGoJ = mode, totalJ, totalJ-g.SpentJ
	g.Omega, g.DelayToGoS = 0, 0
	return nil
}

// Priced reports whether a preference stands for a price alone: in a mission
// that is not the conditioner's, of another length or with another fleet, the
// returns it would name are not attainable, and the price is the same.
func (g *Goal) Priced() bool {
	return !g.Budgeted() && (g.Elsewhere || g.Slots != g.scales.Slots || g.Flying != g.scales.Aircraft)
}

// Budgeted reports whether a budget, rather than a preference, is in force.
func (g *Goal) Budgeted() bool { return g.Mode != Preference }

// FloorToGoJ returns the least energy of the slots left: the aircraft in
// flight at v* under the multiplier measured so far.
func (g *Goal) FloorToGoJ() float64 {
	return g.bestW * g.Factor * float64(g.Flying*g.Left())
}

// FloorJ returns the least total the mission can still end on.
func (g *Goal) FloorJ() float64 { return g.SpentJ + g.FloorToGoJ() }

// Saturated reports whether the budget in force is below the floor.
func (g *Goal) Saturated() bool { return g.Budgeted() && g.BudgetJ < g.FloorJ() }

// AllowanceJ returns a: the joules still allowed per slot to go, above the
// flight floor.
func (g *Goal) AllowanceJ() float64 {
	if g.Left() == 0 {
		return 0
	}
	return (g.EnergyToGoJ - g.FloorToGoJ()) / float64(g.Left())
}

// Setting returns the setting in force or, under a budget, the one it amounts to.
func (g *Goal) Setting() float64 {
	if !g.Budgeted() {
		return g.scales.Remap.Setting(g.Omega)
	}
	if g.Left() == 0 || g.Flying == 0 {
		return 1
	}
	perSlot := g.AllowanceJ() + g.bestW*float64(g.Flying)
	energyJ := perSlot * float64(g.scales.Slots) * float64(g.scales.Aircraft) / float64(g.Flying)
	low, high := 0.0, 1.0 // energy falls along the axis
	for range 40 {
		mid := (low + high) / 2
		if _, e := g.scales.Conditioner.Return(g.scales.Remap.Omega(mid)); e > energyJ {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// Settlement is what one slot really cost.
type Settlement struct {
	DelayS  float64
	EnergyJ float64 // measured, whole fleet
	EdgeJ   float64 // closed form of the decisions sent
	// Where EdgeJ is in part a guess, of users who took the offer, it lies
	// between these; elsewhere they are equal.
	LeastEdgeJ, MostEdgeJ float64
	// ModelFlightJ is the closed form of the flight at the measured speeds, at
	// multiplier 1, of the aircraft whose energy was measured; 0 if none was.
	ModelFlightJ float64
	Flying       int // aircraft whose flight counts from now on
}

// Settle books a slot, eq. (decr).
func (g *Goal) Settle(s Settlement) {
	g.Slot++
	g.Flying = s.Flying
	g.DelayS += s.DelayS
	g.SpentJ += s.EnergyJ
	g.EdgeJ += s.EdgeJ
	g.EnergyToGoJ -= s.EnergyJ
	if g.Budgeted() {
		g.EnergyToGoJ = g.BudgetJ - g.SpentJ // exact, however many slots were summed
	} else {
		g.DelayToGoS -= s.DelayS
	}
	g.learn(&s)
	if g.Slot == 1 {
		g.EdgeRateW = s.EdgeJ
	}
	g.EdgeRateW += 0.1 * (s.EdgeJ - g.EdgeRateW)
}

// learn takes in what a slot tells of the multiplier.
func (g *Goal) learn(s *Settlement) {
	factor := func(edgeJ float64) float64 {
		return min(max((s.EnergyJ-edgeJ)/s.ModelFlightJ, 0.1), 10)
	}
	changed := false
	switch {
	case !(s.ModelFlightJ > 0): // nothing flew
	case s.MostEdgeJ > s.LeastEdgeJ:
		if changed = g.guess(factor(s.EdgeJ), factor(s.MostEdgeJ), factor(s.LeastEdgeJ)); changed {
			break
		}
		if mean, enough := g.gather(s.EnergyJ-s.EdgeJ, s.ModelFlightJ); enough {
			changed = g.measure(min(max(mean, 0.1), 10))
		}
	case s.EnergyJ > s.EdgeJ:
		changed = g.measure(factor(s.EdgeJ))
	}
	if changed {
		g.Vague = Vague{} // was gathered before
	}
}
