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
func (a *Account) Observe(s goal.Seen) { a.objective.Observe(s) }

// Prefer asks for a setting on the calibrated axis.
func (a *Account) Prefer(setting float64) error {
	err := a.objective.Prefer(setting)
	if err == nil {
		a.Record.Then(record.Event{Setting: &setting})
	}
	return err
}

// Budget asks for a total in joules.
func (a *Account) Budget(energyJ float64, mode goal.Mode) error {
	err := a.objective.Budget(energyJ, mode)
	if err == nil {
		a.Record.Then(record.Event{BudgetJ: &energyJ, Mode: mode})
	}
	return err
}

// Undo takes requests back to an earlier state.
func (a *Account) Undo(s goal.State) {
	a.objective.Restore(s)
	a.Record.Then(record.Event{Restore: &s})
}

func (a *Account) correct(delayS float64) {
	a.objective.Correct(delayS)
	a.Record.Then(record.Event{CorrectS: &delayS})
}

func (a *Account) settle(s goal.Settlement) {
	a.objective.Settle(s)
	a.Record.Then(record.Event{Settle: &s})
}
