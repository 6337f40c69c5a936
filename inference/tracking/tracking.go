// Package tracking says where the aircraft fly.
//
// What each slot's reports tell of users and tasks comes in; a target for every
// aircraft goes out, and how fast to fly there at a price of energy, then the
// displacement, and last the joint displacement that respects speed, area and
// separation (Limit). It stands beside dispatch: the teacher flies by it, the
// policy reads the targets and takes the speed, and Limit is the last word
// before the setpoints.
package tracking

import (
	"math"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// UsersMax is how many users a tracker remembers; beyond it the one that was
// first heard of longest ago makes room.
const UsersMax = 4096

// Tracker remembers where each user was last heard. Its zero value is ready.
type Tracker struct {
	index map[int]int // user's ID -> place in known
	ids   []int
	known []physics.Position
	next  int // place to be reused once full

	heard mean // what tasks asked for so far

	channel          physics.Channel // that links was made for
	altitudeM, areaM float64
	links            [129]link // at even distances up to reach
	rings            [129]view // the same for the mean task
	mean             mean
	penaltyS         float64
	edgeS            float64 // of the mean task on an aircraft
	looked           []physics.Position
	seen             []view // (user, aircraft)
	crew             int
	order            []int
	gainS            []float64 // per aircraft, what a slot at its target saves
}

// Reset forgets every user and keeps the memory.
func (t *Tracker) Reset() {
	clear(t.index)
	t.ids, t.known, t.next = t.ids[:0], t.known[:0], 0
	t.heard = mean{}
}

// Known returns the number of users remembered.
func (t *Tracker) Known() int { return len(t.known) }

// Observe notes the positions of users heard in a slot. One that is not on
// this planet is left out.
func (t *Tracker) Observe(users []slot.User) {
	if t.index == nil {
		t.index = make(map[int]int)
	}
	t.heard.slots++
	for i := range users {
		id, p, task := users[i].ID, users[i].Position, users[i].Task
		if localS := task.LocalS(users[i].CPUHz); localS > 0 && localS < 1e6 && task.Bits < 1e12 && task.DeadlineS > 0 && task.DeadlineS < 1e6 {
			t.heard.tasks++
			t.heard.bits += task.Bits
			t.heard.cycles += task.Cycles()
			t.heard.localS += localS
			t.heard.deadlineS += task.DeadlineS
		}
		if !p.Finite() {
			continue
		}
		if k, ok := t.index[id]; ok {
			t.known[k] = p
			continue
		}
		if len(t.known) < UsersMax {
			t.index[id] = len(t.known)
			t.ids, t.known = append(t.ids, id), append(t.known, p)
			continue
		}
		delete(t.index, t.ids[t.next])
		t.index[id] = t.next
		t.ids[t.next], t.known[t.next] = id, p
		t.next = (t.next + 1) % UsersMax
	}
}

// Move returns the displacement of a slot that flies from a place towards a
// target: dashM metres, if that is more than stepM, while it is far. It always
// flies stepM, because hovering costs more than flying at v*: near the target
// it circles, to the left, at two and a half steps from it, a turn that a real
// airframe can fly at that speed (a centripetal 3.4 m/s2 at 8.4 m/s; flying to
// and fro through the target would ask for 17).
func Move(from, target physics.Position, stepM, dashM float64) physics.Position {
	if !(stepM > 0) || !from.Finite() || !target.Finite() {
		return physics.Position{}
	}
	radiusM := circle * stepM
	d := target.Sub(from)
	r := d.Norm()
	if r >= radiusM+stepM {
		return d.Scale(max(stepM, dashM) / r)
	}
	if r < 1e-6*stepM {
		return physics.Position{EastM: stepM}
	}
	ahead := d.Scale(1 / r)
	if r+stepM <= radiusM {
		return ahead.Scale(-stepM) // outwards, to the circle
	}
	// Where the circle about the target meets the circle of one step about us:
	// along of the step points at the target, the rest to the right of it,
	// which circles the target to the left.
	along := (r*r + stepM*stepM - radiusM*radiusM) / (2 * r)
	across := math.Sqrt(max(0, stepM*stepM-along*along))
	right := physics.Position{EastM: ahead.NorthM, NorthM: -ahead.EastM}
	return ahead.Scale(along).Add(right.Scale(across))
}

// circle is the radius, in steps, at which an aircraft circles its target.
const circle = 2.5
