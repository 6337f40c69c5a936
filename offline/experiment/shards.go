package experiment

import (
	"cmp"
	"fmt"
	"slices"

	"prefdt/offline/command"
)

// Part is what one process does of a set. The zero value is all of it.
type Part struct {
	Only  []string      // arms by name; none: all that are not optional
	Shard command.Shard // of these
	// NoTimes leaves out of the report what is timed: the figures in which no two runs agree.
	NoTimes bool
}

// Select returns the arms of a part, in the set's order. Arms of
// one training run are in one shard: two processes would train the same network in the
// same folder. The runs are dealt by cost, the dearest first, to the shard that has the
// least; every process deals alike.
func Select(arms []Arm, p Part) ([]Arm, error) {
	arms = slices.Clone(arms)
	for _, name := range p.Only {
		if !slices.ContainsFunc(arms, func(a Arm) bool { return a.Name == name }) {
			return nil, fmt.Errorf("no arm is called %q (-list shows them)", name)
		}
	}
	arms = slices.DeleteFunc(arms, func(a Arm) bool {
		if len(p.Only) > 0 {
			return !slices.Contains(p.Only, a.Name)
		}
		return a.Optional
	})
	shard := p.Shard
	if shard.Whole() {
		return arms, nil
	}
	type group struct {
		name  string
		costS int
	}
	var groups []group
	for k := range arms {
		a := &arms[k]
		name := a.group()
		i := slices.IndexFunc(groups, func(g group) bool { return g.name == name })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{name: name})
			for _, n := range a.Needs {
				groups[i].costS += n.CoreS
			}
		}
		groups[i].costS += a.CoreS
	}
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(b.costS, a.costS) })
	loads, own := make([]int, shard.N), map[string]bool{}
	for _, g := range groups {
		least := 0
		for i := range loads {
			if loads[i] < loads[least] {
				least = i
			}
		}
		loads[least] += g.costS
		own[g.name] = least == shard.I
	}
	return slices.DeleteFunc(arms, func(a Arm) bool { return !own[a.group()] }), nil
}

// group names the arms that one process measures: those of a training run, or an arm
// alone (no run's name begins with a blank).
func (a *Arm) group() string { return cmp.Or(a.TrainingRun, " "+a.Name) }
