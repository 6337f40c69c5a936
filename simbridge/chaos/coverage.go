package chaos

import (
	"fmt"
	"slices"
	"strings"
)

// fullRunMissions is how many missions must meet every possible cell.
const fullRunMissions = 200

// coverage counts how often each kind of fault began in each state.
type coverage map[FaultKind]map[State]int

func (c coverage) add(k FaultKind, s State) {
	if c[k] == nil {
		c[k] = map[State]int{}
	}
	c[k][s]++
}

// uncovered are the possible cells that were never met, as kind@state. A clock that
// jumps does so in every state of its missions; those of packs neither return early nor stop.
func (c coverage) uncovered(conf *Config) []string {
	all := conf.cells()
	if !conf.Processes {
		for _, s := range states {
			if s != Engaging && s != Landing && !(conf.Kind == Packs && (s == Returning || s == Stopped)) {
				all = append(all, coverageCell{ClockJump, s})
			}
		}
	}
	return c.without(all)
}

// missingIn are the cells of which there are none in another coverage.
func (c coverage) missingIn(met coverage) []string {
	return met.without(slices.DeleteFunc(coverageCells(), func(x coverageCell) bool { return c[x.Kind][x.State] == 0 }))
}

// without are those of some cells that were never met.
func (c coverage) without(cells []coverageCell) (missing []string) {
	for _, x := range cells {
		if c[x.Kind][x.State] == 0 {
			missing = append(missing, fmt.Sprintf("%s@%s", x.Kind, x.State))
		}
	}
	return missing
}

// String is the table, with a dash for an impossible cell.
func (c coverage) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-18s", "fault began in")
	for _, s := range states {
		fmt.Fprintf(&b, " %9s", s)
	}
	row := func(k FaultKind, possible []State) {
		fmt.Fprintf(&b, "\n%-18s", k)
		for _, s := range states {
			if n := c[k][s]; n > 0 || slices.Contains(possible, s) {
				fmt.Fprintf(&b, " %9d", n)
			} else {
				fmt.Fprintf(&b, " %9s", "-")
			}
		}
	}
	for _, f := range slices.Concat(faultTable, copterFaultTable, []faultStates{{ClockJump, nil}}) {
		row(f.kind, f.states)
	}
	return b.String() + "\n"
}
