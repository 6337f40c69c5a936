package account

import (
	"prefdt/inference/goal"
	"prefdt/inference/record"
)

// The objective belongs to the account: others read a copy, and every change is made
// here, so that a record of the flight has all of them.

// Objective returns a copy of the objective of the rest of the mission.
func (a *Account) Objective() goal.Objective { return a.objective }

// Observe updates the objective with what a decision observed.
func (a *Account) Observe(s goal.Observation) { a.objective.Observe(s) }

// SetPreference requests a setting on the calibrated axis, 0 to 1.
func (a *Account) SetPreference(setting float64) error {
	err := a.objective.SetPreference(setting)
	if err == nil {
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

// RestoreObjective returns the objective to an earlier state.
func (a *Account) RestoreObjective(s goal.State) {
	a.objective.Restore(s)
	a.Recorder.WriteEvent(record.Event{Restore: &s})
}

func (a *Account) correctDelay(delayS float64) {
	a.objective.CorrectDelay(delayS)
	a.Recorder.WriteEvent(record.Event{CorrectS: &delayS})
}

func (a *Account) settleObjective(s goal.Settlement) {
	a.objective.Settle(s)
	a.Recorder.WriteEvent(record.Event{Settle: &s})
}
