package paper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"gonum.org/v1/plot"

	"prefdt/offline/command"
	"prefdt/offline/experiment"
	"prefdt/offline/pareto"
	"prefdt/offline/plots"
	"prefdt/simbridge/world"
)

// report writes all that follows from the results into the folder report: paper.md, a CSV of
// each table, the reference front, and pictures.
func (s *set) report(ctx context.Context, timed bool) error {
	results, err := s.Results()
	if err != nil {
		return err
	}
	t := s.newTables(results)
	if timed {
		s.Logf("timing what a setting costs")
		t.costs, err = s.timeCosts(ctx, results) // none where that ends early: the report is without them
		if command.Ended(ctx, err) {
			err = command.Interrupted(ctx, " while costs were timed, which the report is without; the same command with -resume continues")
		} else if err != nil {
			err = fmt.Errorf("time costs: %w", err)
		}
	}
	return cmp.Or(t.write(), err)
}

// write writes the report's files.
func (t *tables) write() error {
	list, err := t.all()
	if err != nil {
		return err
	}
	r := plots.Report{Name: "paper.md", Measured: fmt.Sprintf("%d of %d arms", len(t.results), len(t.Arms)), Tables: list,
		Reference: t.reference, Pictures: t.pictures()}
	r.Text = func(w io.Writer, drawn []plots.Picture) error { return t.writeMarkdown(w, list, drawn) }
	return r.Write(t.Set)
}

// readStudy reads our policy's and its controllers' results in a study's folder, of whatever configuration, if there are any.
func readStudy(dir string) (map[string]*experiment.Result, error) {
	results := map[string]*experiment.Result{}
	for _, a := range paperRows.Ours {
		r, err := experiment.ReadAny(dir, a.Arm)
		switch {
		case err == nil:
			results[a.Arm] = r
		case !errors.Is(err, os.ErrNotExist):
			return nil, err
		}
	}
	return results, nil
}

// writeMarkdown writes the report that people read.
func (t *tables) writeMarkdown(w io.Writer, list []*experiment.Table, pictures []plots.Picture) error {
	b := &strings.Builder{}
	arms, run := map[bool]int{}, map[bool]int{} // by whether they are optional
	for _, a := range t.Arms {
		if arms[a.Optional]++; t.results[a.Name] != nil {
			run[a.Optional]++
		}
	}
	learned, coreS := t.spent()
	fmt.Fprintf(b, "# The paper's tables, with our figures\n\nMade by `offline paper`. Two aircraft, ten users, 100 slots; %d seeds "+
		"from %d, "+
		"fewer where a row's n says so; %d settings. ", t.Seeds, t.FirstSeed, t.Settings)
	fmt.Fprintf(b, "%d of %d arms have been measured, and %d of %d optional ones; what has not is \"not run\". ",
		run[false], arms[false], run[true], arms[true])
	fmt.Fprintf(b, "A retrained arm of the published form has %.4g million tokens at width %d, the one trained for longest %.4g million. ",
		t.Tokens/1e6, t.Form.Form.Width, t.FullTokens/1e6)
	fmt.Fprintf(b, "What has been measured learned from %.0f million tokens, %.0f million environment steps and %.0f million stored "+
		"transitions, "+
		"each training run and each search counted once, and took about %.1f hours of a core by the rates of `offline paper -list -json`. ",
		float64(learned.Tokens)/1e6, float64(learned.EnvironmentSteps)/1e6, float64(learned.Transitions)/1e6, float64(coreS)/3600)
	fmt.Fprintf(b, "IGD is measured on %d seeds against the pooled front of %d arms (`%.12s`, reference.json). Terms: "+
		"[glossary](../../../docs/glossary.md); "+
		"the even pacer spends each slot's even share of a budget and then decides by exact search.\n",
		len(t.reference.BySeed), len(t.reference.Contributors), t.reference.Hash)
	for _, x := range list {
		x.WriteMarkdown(b)
		plots.WriteMarkdown(b, pictures, x.Name)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// either returns the arm trained for longest, or else that of the declared budget.
func (t *tables) either(m measurement) (name string, r *experiment.Result) {
	for _, name := range []string{t.longestArm(), declaredArm} {
		if r = t.results[armName(name, m)]; r != nil {
			return name, r
		}
	}
	return "", nil
}

// pictures are what the results allow.
func (t *tables) pictures() []plots.Picture {
	standard := world.Standard()
	shipped, _ := t.either(ownSettings)
	fronts := calmPoints(plots.Of(t.results, nominal, shipped, "prefdt", "iql-archive", "ppo-plain", "peda", "sca-mpc", teacherArm))
	return []plots.Picture{
		{Table: "methods", File: "fronts.png", Title: fmt.Sprintf("Fronts of the methods up to %.0f kJ", calmJ/1e3),
			Panels: plots.Fronts(fronts)},
		{Table: "methods", File: "requested.png", Title: "Requested and achieved",
			Panels: plots.Requested(plots.Of(t.results, nominal, shipped, "prefdt", "omega-bc", "peda", "sca-mpc"))},
		{Table: "ablations", File: "propulsion.png", Title: "Propulsion power against speed", Panels: plots.Propulsion(&standard.Physics)},
		{Table: "ablations", File: "speed.png", Title: "Mean speed flown at each setting",
			Panels: plots.Speeds(plots.Of(t.results, nominal, shipped, "iql-archive"), &standard.Physics)},
		{Table: "budgets", File: "consumption.png", Title: "Energy and delay under a shock and a revision, the mean over seeds",
			Panels: t.consumption()},
	}
}

// calmPoints leaves out settings above calmJ: one of PPO's, at 142 kJ, would hide what tells the others apart.
func calmPoints(arms []plots.Arm) []plots.Arm {
	for i := range arms {
		arms[i].Outcomes = slices.DeleteFunc(slices.Clone(arms[i].Outcomes), func(row []pareto.Point) bool { return energyJ(row) > calmJ })
	}
	return slices.DeleteFunc(arms, func(a plots.Arm) bool { return len(a.Outcomes) == 0 })
}

// consumption shows the published form, the rule of nearest energy and the pacer under the
// shock.
func (t *tables) consumption() []*plot.Plot {
	pacer := t.results["even-budgets"]
	name, own := t.either(budgets)
	return plots.Consumption(pacer, plots.Traced{Label: name, Result: own}, plots.Traced{Label: name, Result: own, Trace: 1},
		plots.Traced{Label: "even pacer", Result: pacer},
		plots.Traced{Label: "rule of nearest energy", Result: t.results[armName(teacherArm, budgets)]})
}
