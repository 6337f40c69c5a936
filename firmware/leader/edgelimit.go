package leader

import (
	"slices"

	"prefdt/firmware/users"
	"prefdt/firmware/workers"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// limitEdgeLoad bounds the cycles that a decision gives each aircraft to what its CPU
// computes in a slot, and to what its battery can spare: a few users with large
// tasks must not empty it in flight. Beyond the bound the largest tasks are cut first.
func limitEdgeLoad(s *slot.Snapshot, d *slot.Decision, p *physics.Constants, spareJ func(number int) float64) {
	cut := false
	for m := range s.Aircraft {
		a := &s.Aircraft[m]
		limit := a.CPUHz // cycles in a slot of one second
		if perCycleJ := p.SwitchedCapacitance * a.CPUHz * a.CPUHz; perCycleJ > 0 {
			limit = min(limit, max(spareJ(a.Number), 0)/perCycleJ)
		}
		var cycles []float64
		for i := range d.Users {
			if d.Users[i].Server == m+1 {
				cycles = append(cycles, d.Users[i].Offload*s.Users[i].Task.Cycles())
			}
		}
		level := waterLevel(cycles, limit)
		for i := range d.Users {
			u := &d.Users[i]
			if u.Server != m+1 || u.Offload*s.Users[i].Task.Cycles() <= level {
				continue
			}
			cut = true
			if u.Offload = level / s.Users[i].Task.Cycles(); u.Offload == 0 {
				u.Server = 0
			}
		}
	}
	if cut {
		d.Evaluate(p, s)
	}
}

// keepUncomputable leaves to its user each task whose aircraft has no worker that can be
// reached, or none with the task's function.
func keepUncomputable(s *slot.Snapshot, names []string, d *slot.Decision, p *physics.Constants, u *users.Users, w *workers.Workers) {
	kept := false
	for i := range d.Users {
		x := &d.Users[i]
		if x.Server == 0 {
			continue
		}
		function, digest := u.Function(names[i])
		if a := &s.Aircraft[x.Server-1]; a.CPUHz == 0 || !w.Computes(a.Number, function, digest) {
			x.Server, x.Offload, kept = 0, 0, true
		}
	}
	if kept {
		d.Evaluate(p, s)
	}
}

// waterLevel returns the level down to which amounts must be cut so that their sum
// is at most a limit, or the largest amount if the sum is within it. It sorts them.
func waterLevel(amounts []float64, limit float64) float64 {
	slices.Sort(amounts)
	left := limit
	for i, x := range amounts {
		if even := left / float64(len(amounts)-i); x > even {
			return even
		}
		left -= x
	}
	if len(amounts) == 0 {
		return 0
	}
	return amounts[len(amounts)-1]
}
