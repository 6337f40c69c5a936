package paper

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"prefdt/offline/pareto"
)

// orderLines compare the order of the methods with the paper's, by the row at the declared
// budget.
func (t *tables) orderLines() (lines []string) {
	add := func(format string, a ...any) { lines = append(lines, fmt.Sprintf(format, a...)) }
	o := t.order()
	if rho := pareto.Spearman(o.ours, o.theirs); !math.IsNaN(rho) {
		learned := cmp.Or(number("%.2f", pareto.Spearman(o.learned, o.theirLearned)), "none")
		add("By hypervolume the rank correlation of our order with the paper's is %.2f over %d rows, and %s over the %d learned ones.",
			rho, len(o.ours), learned, len(o.learned))
	}
	if len(o.above) > 0 {
		add("Above `%s`, in 1e6: %s. In the paper no learned method is, and the solvers' lead, 0.64 and 0.67, is on 7 of 10 seeds (p = 0.16).",
			declaredArm, strings.Join(o.above, ", "))
	}
	if n := len(o.ourJudged); n > 0 {
		add("The criterion, fidelity of 0.9 and 0.8 of the teacher's reach of %.0f s (the paper's %.0f s), gives the paper's verdict "+
			"in %d of %d rows.",
			t.span(), *printedOf(teacherArm).ReachS, n-len(o.disagree), n)
	}
	var literal []string
	for _, r := range paperRows.Methods {
		arm := t.resolve(r.Arm)
		if f := t.figures[armName(arm, whole)]; f != nil && r.Printed != nil {
			literal = append(literal, fmt.Sprintf("%s %v (the paper %v)", arm, f, r.Printed))
		}
	}
	if len(literal) > 0 {
		add("Asked for preferences even from 0 to 1, most of which no flight of their corpus is stored under, HV, fidelity, reach "+
			"and verdict are: %s.",
			strings.Join(literal, "; "))
	}
	lines = append(lines, t.weakerLines()...)
	if len(o.ourJudged) > 1 {
		add("Operable ones first, then by hypervolume. Ours: %s. The paper's: %s.", inOrder(o.ourJudged), inOrder(o.paperJudged))
	}
	for _, d := range o.disagree {
		add("Not the paper's: %s.", d)
	}
	if len(o.missing) > 0 {
		add("Not run, and so not in the order: %s.", strings.Join(o.missing, ", "))
	}
	return lines
}

// order is the rows of paperRows.Methods that both the paper and we have.
type order struct {
	ours, theirs           []float64 // hypervolumes
	learned, theirLearned  []float64 // those of learned methods
	ourJudged, paperJudged []placed  // rows with a verdict
	disagree               []string  // verdicts that are not the paper's
	above                  []string  // methods above the published form at the declared budget
	missing                []string  // arms that have not been flown
}

func (t *tables) order() (o order) {
	declared := t.figures[declaredArm]
	for _, r := range paperRows.Methods {
		if r.Printed == nil {
			continue
		}
		arm := r.Arm
		if arm == fullArm {
			arm = declaredArm // by the row at the budget of all
		}
		f := t.figures[arm]
		if f == nil {
			o.missing = append(o.missing, arm)
			continue
		}
		hv := mean(f.Hypervolumes)
		o.ours, o.theirs = append(o.ours, hv), append(o.theirs, *r.Printed.HV)
		if strings.Contains(r.Class, "learned") {
			o.learned, o.theirLearned = append(o.learned, hv), append(o.theirLearned, *r.Printed.HV)
		}
		if declared != nil && arm != declaredArm && r.Class != "floors" {
			if c := pareto.Compare(f.Hypervolumes, declared.Hypervolumes); c.Low > 0 {
				o.above = append(o.above, fmt.Sprintf("%s by %.2f (p = %.1e on %d seeds)", arm, c.Mean, c.P, c.N))
			}
		}
		if f.verdict == "—" || r.Printed.Verdict == "—" {
			continue
		}
		o.ourJudged = append(o.ourJudged, placed{arm, f.verdict, hv})
		o.paperJudged = append(o.paperJudged, placed{arm, r.Printed.Verdict, *r.Printed.HV})
		if f.verdict != r.Printed.Verdict {
			o.disagree = append(o.disagree, fmt.Sprintf("%s is %q here and %q in the paper (fidelity %.3f, reach %.0f s)",
				arm, f.verdict, r.Printed.Verdict, mean(f.Fidelities), mean(f.Reaches)))
		}
	}
	return o
}

// weakerLines compare the order of what learns from the flights of weaker PPO policies, once all of it
// has been flown.
func (t *tables) weakerLines() (lines []string) {
	declared := t.figures[declaredArm]
	if declared == nil {
		return nil
	}
	theirs, strong := []float64{*printedOf(fullArm).HV}, []float64{mean(declared.Hypervolumes)}
	weak := slices.Clone(strong)
	var each []string
	for _, x := range weakerRows {
		f, s := t.figures[x.weak], t.figures[x.strong]
		if f == nil || s == nil {
			return nil
		}
		theirs = append(theirs, *printedOf(x.strong).HV)
		strong, weak = append(strong, mean(s.Hypervolumes)), append(weak, mean(f.Hypervolumes))
		each = append(each, fmt.Sprintf("`%s` %v (the paper's `%s` %v)", x.weak, f, x.strong, printedOf(x.strong)))
	}
	lines = append(lines,
		"On the flights of weaker PPO policies, nearer to the paper's in hypervolume, not in fidelity or reach, these are: "+strings.Join(each, "; ")+".",
		fmt.Sprintf("The rank correlation with the paper's over `%s`, PPO and these three is %.2f with the weaker policies, and %.2f with the good ones.",
			declaredArm, pareto.Spearman(weak, theirs), pareto.Spearman(strong, theirs)))
	for _, x := range []struct{ base, differs string }{{"omega-bc", "the returns"}, {"peda",
		"pooling, a path of each user's own, and the quadratic conditioner"}} {
		good := pareto.Compare(t.of("prefdt").Hypervolumes, t.of(x.base).Hypervolumes)
		poor := pareto.Compare(t.of("prefdt-weaker").Hypervolumes, t.of(x.base+"-weaker").Hypervolumes)
		lines = append(lines, fmt.Sprintf("`prefdt` less `%s`, 1e6: %+.2f [%+.2f, %+.2f] on the flights of the good policies, "+
			"%+.2f [%+.2f, %+.2f] (p = %.1e, n = %d) on those of the weaker; the paper %+.2f; what differs is %s.",
			x.base, good.Mean, good.Low, good.High, poor.Mean, poor.Low, poor.High, poor.P, poor.N,
			*printedOf("prefdt").HV-*printedOf(x.base).HV, x.differs))
	}
	return lines
}

// placed is a method with what it is ordered by.
type placed struct {
	arm, verdict string
	hypervolume  float64
}

// inOrder lists methods, the operable ones first, then by hypervolume.
func inOrder(list []placed) string {
	rank := func(x placed) int {
		if x.verdict == "yes" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b placed) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.hypervolume, a.hypervolume))
	})
	parts := [2][]string{}
	for _, x := range list {
		parts[rank(x)] = append(parts[rank(x)], x.arm)
	}
	return cmp.Or(strings.Join(parts[0], ", "), "none") + "; not operable: " + cmp.Or(strings.Join(parts[1], ", "), "none")
}
