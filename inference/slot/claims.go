package slot

import (
	"slices"

	"prefdt/inference/reuse"
)

// Claims is the most that one user's report weighs in a slot and in what is remembered of
// it, whatever it claims. What a task has beyond that is left to its user, so that it takes
// no more from the others than a large honest one. Its zero value bounds nothing.
type Claims struct {
	Bits   float64 `json:"bits"`    // of a task
	Cycles float64 `json:"cycles"`  // likewise
	LocalS float64 `json:"local_s"` // that it takes on its user's own CPU
}

// Times returns limits that are so many times as large.
func (c Claims) Times(factor float64) Claims {
	return Claims{factor * c.Bits, factor * c.Cycles, factor * c.LocalS}
}

// commonShare and commonFactor let a limit rise with what is common in a slot: to so many
// times what that share of its users claims at most.
const (
	commonShare  = 0.5
	commonFactor = 1.5
)

// Weighed is a snapshot in which every claim is bounded. Its memory is reused.
type Weighed struct {
	Snapshot
	shares []float64 // of each user's task, that the snapshot has
	list   []float64
}

// Weigh returns s itself if no claim in it is beyond the limits, else w, of s, and that it is bounded.
func (c Claims) Weigh(s *Snapshot, w *Weighed) (weighed *Snapshot, bounded bool) {
	beyond := func(u *User) bool {
		return u.Task.Bits > c.Bits || u.Task.Cycles() > c.Cycles || u.Task.LocalTimeS(u.CPUHz) > c.LocalS
	}
	if c == (Claims{}) || !slices.ContainsFunc(s.Users, func(u User) bool { return beyond(&u) }) {
		return s, false
	}
	c.Bits = w.raised(c.Bits, s.Users, func(u *User) float64 { return u.Task.Bits })
	c.Cycles = w.raised(c.Cycles, s.Users, func(u *User) float64 { return u.Task.Cycles() })
	c.LocalS = w.raised(c.LocalS, s.Users, func(u *User) float64 { return u.Task.LocalTimeS(u.CPUHz) })
	users := append(w.Users[:0], s.Users...)
	w.Snapshot = *s
	w.Users, w.shares = users, reuse.Slice(w.shares, len(users))
	for i := range users {
		w.shares[i] = c.Bound(&users[i])
	}
	return &w.Snapshot, true
}

// raised returns a limit as what is common raises it. The limit has a voice itself, so that
// a user alone raises nothing.
func (w *Weighed) raised(limit float64, users []User, of func(*User) float64) float64 {
	w.list = append(w.list[:0], limit/commonFactor)
	for i := range users {
		w.list = append(w.list, of(&users[i]))
	}
	slices.Sort(w.list)
	return max(limit, commonFactor*w.list[int(commonShare*float64(len(w.list)-1))])
}

// Bound reduces a user's task, and its time on the user's own CPU, to the limits, and
// returns the share of the task that is left.
func (c Claims) Bound(u *User) (share float64) {
	share = 1
	if x := u.Task.Bits; x > c.Bits {
		share = c.Bits / x
	}
	if x := u.Task.Cycles(); x*share > c.Cycles {
		share = c.Cycles / x
	}
	u.Task.Bits *= share
	if localS := u.Task.LocalTimeS(u.CPUHz); localS > c.LocalS {
		faster := localS / c.LocalS
		u.CPUHz, u.Uncertainty.SlowCPUHz = u.CPUHz*faster, u.Uncertainty.SlowCPUHz*faster
	}
	return share
}

// Restore makes a decision on the weighed snapshot one on the tasks as they are: what was
// decided to be computed elsewhere is a smaller share of them.
func (w *Weighed) Restore(d *Decision) {
	for i := range d.Users {
		d.Users[i].Offload *= w.shares[i]
	}
}
