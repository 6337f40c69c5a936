package paper

import (
	"fmt"

	"prefdt/offline/experiment"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// measurement is what a policy is flown for.
type measurement string

const (
	ownSettings  measurement = ""         // its settings, even over what may be asked for
	recalibrated measurement = "axis"     // settings recalibrated on calibration seeds
	fullRange    measurement = "whole"    // preferences even from 0 to 1, most of which no flight is stored under
	dense        measurement = "dense"    // many of them
	budgets      measurement = "budgets"  // totals in joules, taken as published
	replanned    measurement = "replan"   // the same, as in the leader: each slot flown at the setting that the joules left pay for
	energyEntry  measurement = "entry"    // totals over the energy entry alone: the preference and the delay entry stay
	link         measurement = "link"     // lost reports, substituted ones, snapshots of other slots
	shifts       measurement = "shifts"   // fifteen operating points
	arrivals     measurement = "arrivals" // another arrival process from half time on
)

func (t measurement) ofBudgets() bool { return t == budgets || t == replanned }

// descriptions of measurements end those of policies.
var descriptions = map[measurement]string{
	ownSettings: "", recalibrated: ": recalibrated settings", fullRange: ": preferences even from 0 to 1",
	dense:   ": many recalibrated settings",
	budgets: ": budgets in joules", energyEntry: ": the energy entry at one preference",
	replanned: ": budgets in joules, replanned in each slot",
	link:      ": the link", shifts: ": fifteen operating points", arrivals: ": another arrival process in flight",
}

// nominal names the sweep without any disturbance, of every measurement.
const nominal = experiment.Nominal

// lossRates are the paper's, of Sec. VI on the link.
var lossRates = []float64{0.05, 0.1, 0.2, 0.4}

// displacements are in slots, into the past and, below zero, into the future.
var displacements = []int{1, 2, 3, 4, 5, -1, -2, -3, -4, -5}

func lossName(rate float64, substituted bool) string {
	if substituted {
		return fmt.Sprintf("%g %% lost, last report stands in", 100*rate)
	}
	return fmt.Sprintf("%g %% lost", 100*rate)
}

func displacementName(slots int) string { return fmt.Sprintf("snapshot of slot t%+d", -slots) }

// arrivalFactors multiply the number of active users from half time on. More than there are
// users the sequence models of package methods cannot name.
var arrivalFactors = []float64{0.75, 0.5}

func arrivalName(factor float64) string {
	return fmt.Sprintf("active users x%g from half time", factor)
}

// loadName is of a whole flight at that load.
func loadName(factor float64) string { return fmt.Sprintf("active users x%g throughout", factor) }

// conditions are the worlds and links that a measurement of fronts is flown under.
func conditions(t measurement) []experiment.Protocol {
	list := []experiment.Protocol{{Name: nominal}}
	switch t {
	case link:
		for _, rate := range lossRates {
			list = append(list,
				experiment.Protocol{Name: lossName(rate, false), Link: rollout.ReportLink{LossRate: rate}},
				experiment.Protocol{Name: lossName(rate, true), Link: rollout.ReportLink{LossRate: rate,
					Fallback: rollout.FallbackLastReport}})
		}
		for _, slots := range displacements {
			list = append(list, experiment.Protocol{Name: displacementName(slots), Link: rollout.ReportLink{LateSlots: slots}})
		}
	case shifts:
		for _, x := range experiment.Shifts {
			list = append(list, experiment.Protocol{Name: x.Name, Change: x.Apply})
		}
	case arrivals:
		for _, factor := range arrivalFactors {
			fromHalfTime := func(c *world.Config) { c.Demand = world.Shock{FromSlot: c.Slots / 2, Factor: factor} }
			throughout := func(c *world.Config) { c.Demand = world.Shock{Factor: factor} }
			list = append(list, experiment.Protocol{Name: arrivalName(factor), Change: fromHalfTime},
				experiment.Protocol{Name: loadName(factor), Change: throughout})
		}
	}
	return list
}

// entryOmega is the preference at which totals are written over the energy entry alone, and
// entryTotalsJ are these: what the corpus spends, and the paper's.
const entryOmega = 0.5

var entryTotalsJ = []float64{27e3, 30e3, 33e3, 36e3, 39e3, 70e3, 80e3, 90e3}

// paperTotalsJ are the paper's budgets; whether a policy spends as much is what they show.
var paperTotalsJ = []float64{70e3, 80e3, 90e3}

// revisedSlot is when a total is issued again.
const revisedSlot = 60

// shockTotalsJ are flown under the study's shock, beside its own totals there: those are above
// what any setting spends in calm air, so that by Algorithm 1 all of them ask for the same.
var shockTotalsJ = []float64{36e3, 39e3}

// Sweeps of budgets beside the study's.
const (
	trainedBudgets = "budgets that the CMDP is trained for"
	issuedOnce     = "issued once"
	issuedTwice    = "issued twice"
	belowFloor     = "below the floor"
	shockTotals    = "x1.5, totals of calm settings"
	paperBudgets   = "the paper's budgets" // of policies of package methods
)

// seedsOf returns the episodes that a policy's measurement is flown on.
func (c *Config) seedsOf(p *policy, t measurement) []uint64 {
	n := c.Seeds
	switch {
	case t.ofBudgets(), t == energyEntry, t == arrivals:
		n = c.BudgetSeeds
	case p.Few:
		n = c.FewSeeds
	}
	return seeds.List(c.FirstSeed, n)
}

// protocols returns what a policy is flown through: its settings under every condition or, beside the study's
// totals in joules, those that the CMDP is trained for, one that is issued again, one that no flight can keep, and
// some under the shock.
func (c *Config) protocols(p *policy, t measurement, f *experiment.Policy) (list []experiment.Protocol) {
	if !t.ofBudgets() {
		list = conditions(t)
		for i := range list {
			x := &list[i]
			x.Settings, x.Request, x.Seeds = f.Settings, f.Request, c.seedsOf(p, t)
			switch t {
			case fullRange:
				x.Settings = rollout.Linspace(0, 1, c.Settings)
			case energyEntry:
				x.Settings, x.Request = entryTotalsJ, experiment.Target
			}
		}
		return list
	}
	const onceJ, floorJ = 33e3, 20e3
	again := func(j float64) rollout.Request { return experiment.Revised(j, revisedSlot, j) }
	list = []experiment.Protocol{
		{Name: trainedBudgets, Settings: c.Methods.CMDP.BudgetsJ},
		{Name: issuedOnce, Settings: []float64{onceJ}},
		{Name: issuedTwice, Settings: []float64{onceJ}, Request: again},
		{Name: belowFloor, Settings: []float64{floorJ}},
		{Name: shockTotals, Settings: shockTotalsJ, Change: func(c *world.Config) { c.Shock = experiment.Shock }},
	}
	if p.Method != "" {
		list = append(list, experiment.Protocol{Name: paperBudgets, Settings: paperTotalsJ})
	}
	for i := range list {
		if list[i].Seeds = c.seedsOf(p, t); list[i].Request == nil {
			list[i].Request = experiment.Target
		}
	}
	return list
}
