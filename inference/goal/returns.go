package goal

// SetReturns requests a delay share by the returns that it stands for: both
// entries, the delay and the joules still to come, as given. It clears a budget. A
// corpus requests so what a flight is known to cost.
func (o *Objective) SetReturns(omega, delayS, energyJ float64) {
	o.state.Mode, o.state.Omega, o.state.BudgetJ, o.state.FirstBudgetJ = Preference, omega, 0, 0
	o.state.SavedJ = 0
	o.state.DelayToGoS, o.state.EnergyToGoJ = delayS, energyJ
}
