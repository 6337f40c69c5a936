package methods

import (
	"slices"

	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/rollout"
)

// SCA-MPC, Table "classes" of the paper, class 2: the same two blocks over a receding
// horizon of five slots. It knows the present slot, as every scheduler does; of the others it
// expects, at each user received so far, the mean task received so far with the user's
// relative frequency (certainty equivalence). Each slot is solved afresh from the last
// plan, a slot further, and from flight to the demand's centroids and a jittered variant
// of it, with fewer iterations than the oracle has. It takes preferences alone.
type scaMPC struct {
	scaFlight
	plan  path
	users map[int]*userRecord
	ids   []int // in the order of their first report
	tasks taskMean
	slots int
}

var scaMPCMethod = scaMethod("sca-mpc", "the same over a receding window, of expected arrivals",
	func(c *Config) *SCASettings { return &c.SCAMPC }, func(f scaFlight) rollout.Policy { return &scaMPC{scaFlight: f} })

// userRecord is what was received of a user.
type userRecord struct {
	position physics.Position
	cpuHz    float64
	tasks    float64
}

// taskMean sums the tasks received.
type taskMean struct{ count, bits, cycles, deadlineS float64 }

// Reset implements rollout.Policy.
func (p *scaMPC) Reset() {
	p.plan, p.users, p.ids, p.tasks, p.slots = nil, map[int]*userRecord{}, nil, taskMean{}, 0
}

// Decide implements rollout.Policy.
func (p *scaMPC) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Observation {
	if !p.begin(s, g.Omega(), d) {
		return goal.Observation{}
	}
	p.observe(s)
	demand := make([][]demandUser, min(p.planner.Window, s.Slots-s.Slot))
	for t := 1; t < len(demand); t++ { // what is decided in the present slot no path changes
		demand[t] = p.expected()
	}
	p.solveWindow(demand, uint64(s.Slot))
	p.decide(s, p.plan[1], d)
	return goal.Observation{}
}

// observe counts the slot's users and tasks.
func (p *scaMPC) observe(s *slot.Snapshot) {
	p.slots++
	for i := range s.Users {
		u := &s.Users[i]
		r := p.users[u.ID]
		if r == nil {
			r = &userRecord{}
			p.users[u.ID], p.ids = r, append(p.ids, u.ID)
		}
		r.position, r.cpuHz = u.Position, u.CPUHz
		r.tasks++
		p.tasks.count++
		p.tasks.bits += u.Task.Bits
		p.tasks.cycles += u.Task.Cycles()
		p.tasks.deadlineS += u.Task.DeadlineS
	}
}

// expected returns the demand of a slot to come.
func (p *scaMPC) expected() (users []demandUser) {
	n := p.tasks.count
	for _, id := range p.ids {
		r := p.users[id]
		task := physics.Task{Bits: p.tasks.bits / n, CyclesPerBit: p.tasks.cycles / p.tasks.bits, DeadlineS: p.tasks.deadlineS / n}
		users = append(users, demandUser{position: r.position, task: task, localS: task.LocalTimeS(r.cpuHz),
			weight: r.tasks / float64(p.slots)})
	}
	return users
}

// solveWindow plans the window anew.
func (p *scaMPC) solveWindow(demand [][]demandUser, slot uint64) {
	from := slices.Clone(p.from)
	starts := p.planner.starts(from, centroids(demand, from), len(demand), slot, 0)
	if len(p.plan) > 1 && len(p.plan[0]) == len(from) {
		shifted := path{from}
		for t := range demand { // the last plan, a slot further, and then as it ended
			known := min(t+2, len(p.plan)-1)
			row := slices.Clone(p.plan[known])
			if t+2 > known {
				for m := range row {
					row[m] = shifted[t][m].Add(p.plan[known][m].Sub(p.plan[known-1][m])).ClampToArea(p.planner.constants.AreaSideM)
				}
			}
			shifted = append(shifted, row)
		}
		starts = append(starts, shifted)
	}
	p.plan = p.planner.cheapest(demand, starts)
}
