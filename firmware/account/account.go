// Package account keeps what a mission costs: the joules that each aircraft drew, the
// delay of each slot's tasks, and the objective that both count towards.
//
// Inputs: each slot's decision, with its expected delay; the aircraft's meters; users'
// results, which correct the expected delay until they expire; the crew's requests.
// Outputs: one Row per settled slot, the objective of the next decision, and what
// each battery can still spare (C6); for the next snapshot, the results that arrived
// and how each aircraft flew. Called by the leader's loop alone.
package account

import (
	"fmt"
	"math"

	"prefdt/firmware/fleet"
	"prefdt/firmware/height"
	"prefdt/inference/goal"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/record"
	"prefdt/inference/slot"
)

// Account is the account of one mission. Set the exported fields, then Begin or Restore.
type Account struct {
	Physics     physics.Constants
	Scales      *goal.Constants
	ReserveJ    float64 // that an aircraft keeps beyond its way home
	SpeedMaxMPS float64
	// OutOfDistribution is of the surroundings, see goal.Objective.SetOutOfDistribution.
	OutOfDistribution bool
	// Air is what the policy believes in: the way home is flown through it.
	Air motion.Air
	// LikelyAirs are what measured flights leave likely, also where the policy takes the air to be calm: the reserve is kept in each.
	LikelyAirs []motion.Air

	Recorder *record.Writer // of complete slots; nil: none

	objective             goal.Objective
	aircraft              []AircraftAccount
	results               map[int]*slotResults // by slot, until they expire
	lateOfferUsers        map[string]bool      // whose results by the standing offer came after the last slot had expired
	mostOfferUsers        int                  // how many users may have accepted the offer of that slot: the limit of lateOfferUsers
	edges                 []*slotEdge          // of the last slots that were decided
	trail                 []trailEnd           // before the present windows, the earliest first
	observed              []slot.Result        // of tasks that were decided on, since TakeResults
	flownSlot             int                  // the slot between the aircraft's marks, -1: none
	allLocal              LocalDelay           // what a missed slot is taken to have cost
	doubtfulSettlements   int                  // settlements since what flying costs came to rest on one measurement
	unmeasuredSettlements int                  // settlements after a restart that do not yet measure the multiplier
	bounds                *Bounds              // of the budget in force; nil: it has none
	ways                  Ways                 // as they were measured
	earlierMultiplier     float64              // of the mission before; 0: none flew
}

// AircraftAccount is one aircraft's account.
type AircraftAccount struct {
	AccountedJ  float64 `json:"booked_j"`      // what its meter showed at the last settlement
	SpentJ      float64 `json:"spent_j"`       // the part of AccountedJ that was settled in slots
	TransitJ    float64 `json:"transit_j"`     // the other part; it falls where the meter corrects what slots had too much
	StartErrorJ float64 `json:"start_error_j"` // how far off the meter may have been when slot 0 began

	modelJ      float64 // closed form of its flight up to the last settlement
	window      window  // that the multiplier is measured over
	committedJ  float64 // edge energy of the last decision, which the battery may not show yet
	servedUsers int     // users in it

	Returned bool `json:"returned,omitempty"` // it left the slots to come home
	Way      *Way `json:"way,omitempty"`      // that is being measured; nil: none

	marks [2]flightMark // at the last two settlements, the earlier one first
}

// State is what a restart needs.
type State struct {
	Objective goal.State `json:"goal"`
	LocalDelay
	Aircraft []AircraftAccount `json:"aircraft"`
	Observed []slot.Result     `json:"observed,omitempty"` // that show something, for the next snapshot
	Bounds   *Bounds           `json:"bounds,omitempty"`   // of the budget in force
	Ways     Ways              `json:"ways,omitzero"`      // as they were measured
	// Airs are those that are likely: the wind that each is, m/s to the east and to the north, and its multiplier.
	Airs [][3]float64 `json:"likely_airs,omitempty"`
}

// LocalDelay is the mean delay of a slot whose tasks are all computed locally.
type LocalDelay struct {
	MeanS float64 `json:"local_s"`
	Slots int     `json:"local_slots"` // that it is the mean of, at most localDelaySlots: older ones fade
}

// localDelaySlots are enough for a mean within a tenth or so, few enough to follow users
// that come and go.
const localDelaySlots = 32

func (d *LocalDelay) add(delayS float64) {
	d.Slots = min(d.Slots+1, localDelaySlots)
	d.MeanS += (delayS - d.MeanS) / float64(d.Slots)
}

// Begin starts a mission's account. Joules counted by the meters before are excluded.
func (a *Account) Begin(slots int, views []fleet.View) {
	a.KeepMultiplier(a.objective.State())
	a.objective = goal.New(a.Scales, &a.Physics, slots, len(views))
	if a.FlightDiffers(a.earlierMultiplier) { // the floor of the next budget is one of these aircraft
		a.objective.ExpectMultiplier(a.earlierMultiplier)
	}
	a.objective.SetOutOfDistribution(a.OutOfDistribution)
	a.edges, a.trail = nil, nil
	a.aircraft, a.results, a.observed, a.allLocal = make([]AircraftAccount, len(views)), map[int]*slotResults{}, nil, LocalDelay{}
	a.lateOfferUsers, a.mostOfferUsers = map[string]bool{}, 0
	a.flownSlot, a.Air, a.LikelyAirs, a.bounds = -1, motion.Air{}, nil, nil
	for i := range views {
		a.aircraft[i].AccountedJ, a.aircraft[i].modelJ = views[i].TotalJ, views[i].ModelJ
	}
}

// KeepMultiplier has the next mission begin with what an earlier one measured of flight power, or expected if it flew no
// slot.
func (a *Account) KeepMultiplier(s goal.State) {
	if s.Slot > 0 || s.Multiplier > 0 && s.Multiplier != 1 {
		a.earlierMultiplier = s.Multiplier
	}
}

// FlightDiffers is whether flight takes so much more or less than the checkpoint expects that a budget means something
// else: what wind and load do is less.
func (a *Account) FlightDiffers(multiplier float64) bool {
	return multiplier > 0 && (multiplier > 1.4 || multiplier < 0.7)
}

// FlightWarning is what the crew has to know of flight power once ten slots were flown; empty: nothing.
func (a *Account) FlightWarning() string {
	const measuredSlots = 10
	o := a.objective
	if o.Slot() < measuredSlots || o.SlotsLeft() == 0 || !a.FlightDiffers(o.PropulsionMultiplier()) {
		return ""
	}
	return fmt.Sprintf("flight takes %.1f times what the checkpoint expects; the floor is by that", o.PropulsionMultiplier())
}

// BeginSlots is called when slot 0 begins, with the number of aircraft in flight: a
// preference is scaled by it.
func (a *Account) BeginSlots(views []fleet.View, flying int) {
	a.objective.SetFlying(flying)
	if o := a.objective; !o.Budgeted() {
		a.objective.SetPreference(o.Setting()) // cannot fail: it is in force
	}
	for i := range views {
		a.aircraft[i].StartErrorJ = views[i].UncertaintyJ
	}
	a.advanceWindows(views)
}

// State returns what a restart needs.
func (a *Account) State() State {
	s := State{a.objective.State(), a.allLocal, append([]AircraftAccount(nil), a.aircraft...), a.pending(), a.bounds, a.ways, nil}
	for i := range a.LikelyAirs {
		air := &a.LikelyAirs[i]
		wind := air.MeanMPS()
		s.Airs = append(s.Airs, [3]float64{fourDigits(wind.EastM), fourDigits(wind.NorthM), fourDigits(air.Multiplier)})
	}
	return s
}

// Restore continues a mission.
func (a *Account) Restore(s State) {
	a.objective = goal.Resume(a.Scales, &a.Physics, s.Objective)
	a.objective.SetOutOfDistribution(a.OutOfDistribution)
	a.aircraft, a.allLocal, a.results, a.unmeasuredSettlements = s.Aircraft, s.LocalDelay, map[int]*slotResults{}, restartSettlements
	a.lateOfferUsers, a.mostOfferUsers = map[string]bool{}, 0
	a.observed, a.flownSlot, a.bounds, a.ways = s.Observed, -1, s.Bounds, s.Ways
	a.LikelyAirs = nil
	for _, x := range s.Airs {
		a.LikelyAirs = append(a.LikelyAirs, motion.Air{Multiplier: x[2],
			Winds: []motion.Wind{{MPS: physics.Position{EastM: x[0], NorthM: x[1]}, Probability: 1}}})
	}
}

// SpentJ is what aircraft i, counted from 0, drew in slots.
func (a *Account) SpentJ(i int) float64 { return a.aircraft[i].SpentJ }

// TransitJ is what the fleet drew outside the slots.
func (a *Account) TransitJ() (sum float64) {
	for i := range a.aircraft {
		sum += a.aircraft[i].TransitJ
	}
	return math.Max(sum, 0)
}

// restartSettlements is how many settlements after a restart contain joules of the
// leader's downtime: they arrive with the first readings, and a coarse counter
// corrects them at its next step.
const restartSettlements = 2

// meterDelta is what an aircraft drew since the last settlement.
type meterDelta struct {
	energyJ float64
	modelJ  float64 // closed form of the flight at the measured speeds, at multiplier 1
}

// advanceMeters returns what every aircraft drew since the last call, and at least
// leastJ: with 0, a total that its meter corrected downwards counts nothing until the
// meter has caught up.
func (a *Account) advanceMeters(views []fleet.View, leastJ float64) (by []meterDelta, flying int) {
	by = make([]meterDelta, len(a.aircraft))
	for i := range a.aircraft {
		c, v := &a.aircraft[i], &views[i]
		by[i] = meterDelta{math.Max(v.TotalJ-c.AccountedJ, leastJ), math.Max(v.ModelJ-c.modelJ, 0)}
		c.Returned = c.Returned && (!v.Flying || v.Homeward)
		c.AccountedJ, c.modelJ = c.AccountedJ+by[i].energyJ, v.ModelJ
		if v.InAir && !a.countsAsTransit(v) {
			flying++
		}
	}
	a.unmeasuredSettlements = max(a.unmeasuredSettlements-1, 0)
	return by, flying
}

// SettleTransit enters joules drawn outside the slots, also negative ones where a
// meter corrected downwards: while nothing was received an aircraft counted as
// hovering, and if it landed meanwhile, its meter never catches up. That includes an
// excess counted in slots, whose rows are already written.
func (a *Account) SettleTransit(views []fleet.View) {
	by, _ := a.advanceMeters(views, math.Inf(-1))
	for i := range by {
		a.aircraft[i].TransitJ += by[i].energyJ
	}
	a.restartWindows()
	a.flownSlot = -1
	a.markFlights(views)
	a.followWays(views)
}

// SettleAfterEnd enters a part, 0 to 1, of what was drawn since the last settlement as
// drawn outside the slots: the mission's last slot ended before the leader settled it.
func (a *Account) SettleAfterEnd(views []fleet.View, part float64) {
	for i := range a.aircraft {
		c, v := &a.aircraft[i], &views[i]
		drawnJ := part * math.Max(v.TotalJ-c.AccountedJ, 0)
		c.AccountedJ, c.TransitJ = c.AccountedJ+drawnJ, c.TransitJ+drawnJ
		c.modelJ += part * math.Max(v.ModelJ-c.modelJ, 0)
	}
}

// ResidualJ is the energy left in an aircraft's pack, by what was accounted of its meter.
func (a *Account) ResidualJ(v *fleet.View) float64 {
	return LeftJ(v, a.aircraft[v.Number-1].AccountedJ)
}

// mostJ is the most that a way may take, of what it takes at multiplier 1 in an air: in the one that the policy believes in at the
// measured multiplier, and in each that is likely.
func (a *Account) mostJ(inAir func(*motion.Air) float64) float64 {
	most := inAir(&a.Air) * a.objective.PropulsionMultiplier()
	for i := range a.LikelyAirs {
		most = max(most, inAir(&a.LikelyAirs[i])*a.LikelyAirs[i].Multiplier)
	}
	return most
}

// HomeJ is the energy that an aircraft's way home may take.
func (a *Account) HomeJ(v *fleet.View) float64 {
	return a.mostJ(func(air *motion.Air) float64 { return HomeJ(&a.Physics, v, v.TransitMPS, air, v.WaitS) })
}

// TakeOffJ is what a pack must hold for a take-off: to fly to a place and home, with the
// reserve left, or by itself.
func (a *Account) TakeOffJ(v *fleet.View, to physics.Position) float64 {
	there := *v
	there.Position, there.UpM, there.Home = to, height.AboveOrigin(a.Physics.AltitudeM), &v.Position
	return max(
		a.mostJ(func(air *motion.Air) float64 { return TakeOffJ(&a.Physics, v, to, v.TransitMPS, air, v.WaitS) })+a.reserveJ(v),
		a.mostJ(func(air *motion.Air) float64 { return climb(&a.Physics, v, to, v.TransitMPS, air).TotalJ() })+a.aloneJ(&there))
}

// SetCommitted enters the edge energy that a decision commits an aircraft to, and for
// how many users.
func (a *Account) SetCommitted(number int, edgeJ float64, served int) {
	c := &a.aircraft[number-1]
	c.committedJ, c.servedUsers = edgeJ, served
}

// ServedUsers is how many users an aircraft served in the slot before.
func (a *Account) ServedUsers(number int) int { return a.aircraft[number-1].servedUsers }

// SpareJ is the energy that an aircraft may still spend (C6): its residual less the
// committed edge energy, the way home and the reserve. Below 0 it must return. Should its leader fail,
// the reserve is for the way on which its autopilot then comes home by itself, which may take more.
func (a *Account) SpareJ(v *fleet.View) float64 {
	leftJ := a.ResidualJ(v) - a.aircraft[v.Number-1].committedJ
	ledJ := leftJ - a.HomeJ(v) - a.reserveJ(v)
	return min(ledJ, leftJ-a.aloneJ(v))
}

// MustReturn is whether an aircraft must return: its spare energy is below 0. What flying costs may rest on one measurement that the
// next does not confirm, and an aircraft that was sent home does not come back: for two slots the estimate before it decides then.
func (a *Account) MustReturn(v *fleet.View) bool {
	const doubtSlots = 2
	if a.SpareJ(v) >= 0 {
		return false
	}
	if !a.objective.Doubtful() || a.doubtfulSettlements > doubtSlots {
		return true
	}
	believed := a.objective
	a.objective.ExpectMultiplier(believed.State().Before.Multiplier)
	defer func() { a.objective = believed }()
	return a.SpareJ(v) < 0
}

// aloneJ is the energy that the way home may take that an aircraft would fly by itself.
func (a *Account) aloneJ(v *fleet.View) float64 {
	path := v.PathAlone(fleet.LeftByLink)
	return a.mostJ(func(air *motion.Air) float64 { return aloneJ(&a.Physics, path, air) })
}

// The objective belongs to the account: others read a copy, and every change is made
// here, so that a record of the flight has all of them.

// Objective returns a copy of the objective of the rest of the mission.
func (a *Account) Objective() goal.Objective { return a.objective }

// Observe updates the objective with what a decision observed.
func (a *Account) Observe(s goal.Observation) { a.objective.Observe(s) }

// SetPreference requests a setting on the calibrated axis, 0 to 1, in place of a budget.
func (a *Account) SetPreference(setting float64) error {
	err := a.objective.SetPreference(setting)
	if err == nil {
		a.bounds = nil
		a.Recorder.WriteEvent(record.Event{Setting: &setting})
	}
	return err
}

// SetBudget requests a total in joules.
func (a *Account) SetBudget(energyJ float64, mode goal.Mode) error {
	err := a.objective.SetBudget(energyJ, mode)
	if err == nil {
		a.Recorder.WriteEvent(record.Event{BudgetJ: &energyJ, Mode: mode})
	}
	return err
}

func (a *Account) correctDelay(delayS float64) {
	a.objective.CorrectDelay(delayS)
	a.Recorder.WriteEvent(record.Event{CorrectS: &delayS})
}

func (a *Account) settleObjective(s goal.Settlement) {
	a.objective.Settle(s)
	a.Recorder.WriteEvent(record.Event{Settle: &s})
}
