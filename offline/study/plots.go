package study

import (
	"prefdt/offline/experiment"
	"prefdt/offline/plots"
)

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
			Panels: plots.Consumption(r.results[evenArm], plots.Traced{Label: "flagship", Result: r.results["flagship"]},
				plots.Traced{Label: "even pacer", Result: r.results[evenArm]},
				plots.Traced{Label: "flagship", Result: r.results["flagship"], Trace: 1},
				plots.Traced{Label: "rule of nearest energy", Result: r.results["rules-50"]},
				plots.Traced{Label: "paper form", Result: r.results["paper-form"]})},
	})
}
