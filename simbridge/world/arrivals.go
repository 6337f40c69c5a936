package world

import (
	"math"
	"slices"

	"prefdt/inference/physics"
)

// UserCount returns the number of users, the trace's if there is one.
func (c *Config) UserCount() int {
	if c.Trace != nil {
		return len(c.Trace.Users)
	}
	return int(math.Ceil(float64(c.Users) * max(c.Demand.Factor, 1)))
}

// UserPosition returns where a user is in a slot. Drawn users stay where they
// are; those of a trace may move.
func (c *Config) UserPosition(seed uint64, slot, user int) physics.Position {
	if c.Trace != nil {
		return c.Trace.Position(user, slot)
	}
	d := newStream(seed, purposePositions, 0, user, 0)
	return physics.Position{EastM: d.between(0, c.Physics.AreaSideM), NorthM: d.between(0, c.Physics.AreaSideM)}
}

// ActiveUsers returns the users that report in a slot, with a task or without,
// in order. The memory is that of scratch, which is reused between calls.
func (c *Config) ActiveUsers(seed uint64, slot int, scratch *[]int) []int {
	members := (*scratch)[:0]
	if c.Trace != nil {
		for _, r := range c.Trace.Rows(slot) {
			members = append(members, r.User)
		}
		*scratch = members
		return members
	}
	d := newStream(seed, purposeActive, slot, 0, 0)
	high := min(c.ActiveMax, c.Users)
	low := min(c.ActiveMin, high)
	n, users := low+d.intn(high-low+1), c.Users
	if f := c.Demand.at(slot); f != 1 {
		n, users = int(math.Round(f*float64(n))), c.UserCount()
	}
	for u := range users {
		members = append(members, u)
	}
	for i := range n { // the first n of a Fisher-Yates shuffle
		j := i + d.intn(len(members)-i)
		members[i], members[j] = members[j], members[i]
	}
	*scratch = members
	members = members[:n]
	slices.Sort(members)
	return members
}

// Tasks appends a slot's arrivals, without gains, to dst in order of user.
// scratch is reused between calls.
func (c *Config) Tasks(seed uint64, slot int, scratch *[]int, dst []Arrival) []Arrival {
	if c.Trace != nil {
		for _, r := range c.Trace.Rows(slot) {
			if r.HasTask() {
				dst = append(dst, Arrival{User: r.User, Task: r.Task})
			}
		}
		return dst
	}
	for _, u := range c.ActiveUsers(seed, slot, scratch) {
		t := newStream(seed, purposeTask, slot, u, 0)
		if t.uniform() >= c.TaskProbability {
			continue
		}
		dst = append(dst, Arrival{User: u, Task: physics.Task{
			Bits:         t.between(c.BitsMin, c.BitsMax),
			CyclesPerBit: c.CyclesPerBit,
			DeadlineS:    t.between(c.DeadlineMinS, c.DeadlineMaxS),
		}})
	}
	return dst
}
