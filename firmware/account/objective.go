package account

import (
	"prefdt/inference/goal"
	"prefdt/inference/record"
)

// The objective is the account's own: others read a copy, and what changes it
// comes through here, so that a record of the flight has all of it.

// Objective is what is asked of the rest of the mission, as it is now.
func (a *Account) Objective() goal.Objective { return a.objective }

// Observe takes in what a decision saw.
func (a *Account) Observe(s goal.Observation) { a.objective.Observe(s) }

// SetPreference asks for a setting on the calibrated axis.
func (a *Account) SetPreference(setting float64) error {
	err := a.objective.SetPreference(setting)
	if err == nil {
		a.Recorder.WriteEvent(record.Event{Setting: &setting})
	}
	return err
}

// SetBudget asks for a total in joules.
func (a *Account) SetBudget(energyJ float64, mode goal.Mode) error {
	err := a.objective.SetBudget(energyJ, mode)
	if err == nil {
		a.Recorder.WriteEvent(record.Event{BudgetJ: &energyJ, Mode: mode})
	}
	return err
}

// RestoreObjective takes requests back to an earlier state.
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
