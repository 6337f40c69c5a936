package study

import (
	"gonum.org/v1/plot"

	"prefdt/offline/experiment"
	"prefdt/offline/plots"
	"prefdt/offline/rollout"
)

// drawPictures draws what the results allow.
func (r *report) drawPictures(dir string) ([]plots.Picture, error) {
	constants := &r.world.Physics
	return plots.Draw(dir, []plots.Picture{
		{Table: "headline", File: "fronts.png", Title: "Fronts of the arms", Panels: plots.Fronts(plots.Of(r.results, experiment.Nominal,
			"dispatch-teacher", "flagship", "base", "flagship-heads", "rules-101", "paper-form", "omega-bc", "unconditioned"))},
		{Table: "headline", File: "fidelity.png", Title: "Requested and achieved", Panels: plots.Requested(plots.Of(r.results, EvenSettings,
			"flagship", "base", "flagship-heads", "paper-form", "paper-form-dispatch", "omega-bc"))},
		{Table: "headline", File: "propulsion.png", Title: "Propulsion power against speed", Panels: plots.Propulsion(constants)},
		{Table: "headline", File: "speed.png", Title: "Mean speed flown at each setting",
			Panels: plots.Speeds(plots.Of(r.results, EvenSettings, "flagship", "omega-bc", "paper-form", "paper-form-dispatch"),
				constants)},
		{Table: "budgets", File: "budget.png", Title: "Energy and delay under a shock and a revision, the mean over seeds",
			Panels: r.budgetPanels()},
	})
}

// budgetPanels shows energy and delay under the shock.
func (r *report) budgetPanels() []*plot.Plot {
	pacer := r.results[evenArm]
	if pacer == nil {
		return nil
	}
	var arms []plots.Arm
	for _, x := range []struct {
		arm, label string
		trace      int
	}{{"flagship", "flagship", 0}, {evenArm, "even pacer", 0}, {"flagship", "flagship", 1}, {"rules-50", "rule of nearest energy", 0},
		{"paper-form", "paper form", 0}} {
		if own := r.results[x.arm]; own != nil {
			arms = append(arms, plots.Arm{Label: x.label, Trace: &own.Traces[x.trace]})
		}
	}
	return Consumption(arms, &pacer.Traces[0])
}

// Consumption shows traces of FlyBudgets beside the even pacer's.
func Consumption(arms []plots.Arm, pacer *rollout.EnergyTrace) []*plot.Plot {
	return plots.Consumption(arms, pacer, []float64{experiment.TraceRequests[0].BudgetJ, experiment.TraceRequests[1].RevisedBudgetJ},
		plots.Shock{Slot: experiment.Shock.FromSlot, Factor: experiment.Shock.Factor})
}
