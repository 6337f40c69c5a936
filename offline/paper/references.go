package paper

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"prefdt/offline/experiment"
	"prefdt/offline/pareto"
)

// references are the reference points at which the methods are ranked: the paper's hypervolumes have one that its text
// does not state, and the wide one of ours is calibrated to them.
var references = func() (list []pareto.Point) {
	for _, delayS := range []float64{1000, 720} {
		for _, j := range []float64{141e3, 90e3, 60e3, 45e3} {
			list = append(list, pareto.Point{DelayS: delayS, EnergyJ: j})
		}
	}
	return append(list, pareto.TightReference)
}()

// referenceName heads the column of a reference point.
func referenceName(p pareto.Point) string {
	return fmt.Sprintf("%.0f s, %.0f kJ", p.DelayS, p.EnergyJ/1e3)
}

// at returns an arm's hypervolumes by seed in 1e6 s J to a reference point, none if it has not been flown.
func (t *tables) at(arm string, p pareto.Point) []float64 {
	x := t.results[arm].Sweep(nominal)
	if own := t.study[arm].Sweep(experiment.EvenSettings); own != nil {
		x = own
	}
	if x == nil {
		return nil
	}
	return millions(pareto.Hypervolumes(x.Outcomes, p))
}

// referenceTable is the methods' hypervolumes and ranks at each reference point, on the seeds that all flew, and the rank
// correlation with the paper's.
func (t *tables) referenceTable(x *experiment.Table) {
	type method struct {
		arm     string
		printed float64 // NaN: the paper has no such row
		learned bool
	}
	var list []method
	seeds := math.MaxInt
	for _, r := range t.rows(paperRows.Methods) {
		p := cmp.Or(r.Printed, &printed{})
		if n := len(t.at(r.Arm, pareto.Reference)); n == 0 {
			x.Add(experiment.Row{"arm": r.Arm, "paper's HV": figure(p.HV), referenceName(pareto.Reference): notRun})
		} else {
			list, seeds = append(list, method{r.Arm, figure(p.HV), strings.Contains(r.Class, "learned")}), min(seeds, n)
		}
	}
	for _, a := range paperRows.Ours {
		if n := len(t.at(a.Arm, pareto.Reference)); n > 0 {
			list, seeds = append(list, method{a.Arm, none, false}), min(seeds, n)
		}
	}
	correlations := []struct {
		name   string
		wanted func(method) bool
	}{
		{"rank correlation with the paper", func(m method) bool { return !math.IsNaN(m.printed) }},
		{"the same, of learned ones", func(m method) bool { return !math.IsNaN(m.printed) && m.learned }},
	}
	rows, bottom := make([]experiment.Row, len(list)), make([]experiment.Row, len(correlations)+2)
	ranks := make([][]int, len(list)) // by method, at each point
	for i, m := range list {
		rows[i] = experiment.Row{"arm": m.arm, "record": t.measuredBy(m.arm), "paper's HV": m.printed}
	}
	for _, p := range references {
		name := referenceName(p)
		means := make([]float64, len(list))
		var ranked []float64 // of those that the paper has
		for i, m := range list {
			means[i] = mean(t.at(m.arm, p)[:seeds])
			if !math.IsNaN(m.printed) {
				ranked = append(ranked, means[i])
			}
		}
		slices.SortFunc(ranked, func(a, b float64) int { return cmp.Compare(b, a) })
		for i, m := range list {
			text := number("%.3f", means[i])
			if !math.IsNaN(m.printed) {
				rank := 1 + slices.Index(ranked, means[i])
				ranks[i] = append(ranks[i], rank)
				text += fmt.Sprintf(" (%d)", rank)
			}
			rows[i][name] = text
		}
		set := func(i int, what string, ours, theirs []float64) {
			if bottom[i] == nil {
				bottom[i] = experiment.Row{"arm": fmt.Sprintf("%s, %d rows", what, len(ours))}
			}
			bottom[i][name] = number("%.2f", pareto.Spearman(ours, theirs))
		}
		for k, c := range correlations {
			var ours, theirs []float64
			for i, m := range list {
				if c.wanted(m) {
					ours, theirs = append(ours, means[i]), append(theirs, m.printed)
				}
			}
			set(k, c.name, ours, theirs)
		}
		strong, weak, theirs := t.weaker(p)
		set(len(correlations), "of `published`, PPO and three that learn from its flights", strong, theirs)
		set(len(correlations)+1, "the same with the weaker PPO", weak, theirs)
	}
	for i := range ranks {
		if len(ranks[i]) == 0 {
			continue
		}
		text, same := rankRange(ranks[i])
		if !same {
			text += ", depends on the point"
		}
		rows[i]["rank"] = text
	}
	for _, r := range append(rows, bottom...) {
		x.Add(r)
	}
}

// rankRange is from the first to the last of some ranks, and whether all are the same.
func rankRange(ranks []int) (text string, same bool) {
	first, last := slices.Min(ranks), slices.Max(ranks)
	if first == last {
		return fmt.Sprint(first), true
	}
	return fmt.Sprintf("%d to %d", first, last), false
}

// weaker returns the hypervolumes of the published form, of PPO and of what learns from its flights, with the good policies and
// with the weaker ones, beside the paper's; none unless all have been flown.
func (t *tables) weaker(p pareto.Point) (strong, weak, theirs []float64) {
	for _, x := range append(weakerRows, struct{ weak, strong string }{declaredArm, declaredArm}) {
		s, w := t.at(x.strong, p), t.at(x.weak, p)
		if s == nil || w == nil {
			return nil, nil, nil
		}
		strong, weak = append(strong, mean(s)), append(weak, mean(w))
		theirs = append(theirs, *printedOf(strings.Replace(x.strong, declaredArm, fullArm, 1)).HV)
	}
	return strong, weak, theirs
}

// conclusion is a difference of hypervolumes that the paper prints, or that follows from two that it prints: of arms added,
// less arms taken away.
type conclusion struct {
	Text        string
	Paper       float64
	Plus, Minus []string
}

// less is the difference of two arms; what it is about, if it is said, stands before it.
func less(about, arm, base string, paper float64) conclusion {
	return conclusion{fmt.Sprintf("%s`%s` less `%s`", about, arm, base), paper, []string{arm}, []string{base}}
}

// lessPrinted is the same of two that the paper's table of methods has.
func lessPrinted(arm, base string) conclusion {
	return less("", arm, base, *printedOf(arm).HV-*printedOf(base).HV)
}

// bySeed returns our difference at a reference point, on the seeds that all of its arms flew; none if one has not been flown.
func (c *conclusion) bySeed(t *tables, p pareto.Point) (sum []float64) {
	for i, arm := range slices.Concat(c.Plus, c.Minus) {
		own := t.at(arm, p)
		if i == 0 {
			sum = make([]float64, len(own))
		}
		sum = sum[:min(len(sum), len(own))]
		for s := range sum {
			if i < len(c.Plus) {
				sum[s] += own[s]
			} else {
				sum[s] -= own[s]
			}
		}
	}
	return sum
}

// conclusions are those of the paper's text that its figures decide.
func (t *tables) conclusions() (list []conclusion) {
	shipped := *printedOf(fullArm).HV
	for _, r := range t.rows(paperRows.Methods) {
		if r.Printed != nil && r.Arm != declaredArm && r.Arm != t.longestArm() {
			list = append(list, less("", r.Arm, t.longestArm(), *r.Printed.HV-shipped))
		}
	}
	for _, r := range paperRows.Removals {
		for _, c := range r.Comparisons {
			if c.Paper != nil {
				list = append(list, less(r.Module+": ", t.resolve(c.Arm), t.resolve(c.Base), *c.Paper))
			}
		}
	}
	for _, base := range []string{"omega-bc", "peda"} {
		list = append(list, less("", "prefdt-weaker", base+"-weaker", lessPrinted("prefdt", base).Paper))
	}
	return append(list, paperRows.Interactions...)
}

// conclusionTable is at how many reference points our difference has the paper's sign, with an interval that leaves 0 out.
func (t *tables) conclusionTable(x *experiment.Table) {
	for _, p := range references {
		x.Columns = append(x.Columns, experiment.Column{Key: referenceName(p), Head: referenceName(p), Format: "%+.2f"})
	}
	counts := map[string]int{}
	for _, c := range t.conclusions() {
		cells := experiment.Row{"difference": c.Text, "record": t.measuredBy(slices.Concat(c.Plus, c.Minus)...), "the paper": c.Paper}
		same := 0
		for _, p := range references {
			sum := c.bySeed(t, p)
			cells[referenceName(p)] = mean(sum)
			if low, high := interval(sum); low*c.Paper > 0 && high*c.Paper > 0 {
				same++
			}
			cells["n"] = count(len(sum))
		}
		switch {
		case cells["n"] == nil:
			cells["the paper's sign at"] = notRun
		case same == len(references):
			counts["all"]++
		case same == 0:
			counts["none"]++
		default:
			counts["some"]++
		}
		if cells["n"] != nil {
			cells["the paper's sign at"] = fmt.Sprintf("%d of %d", same, len(references))
		}
		x.Add(cells)
	}
	x.After = append(x.After, fmt.Sprintf("The paper's sign at all points: %d differences; at some: %d; at none: %d.", counts["all"],
		counts["some"], counts["none"]))
}
