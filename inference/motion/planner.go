// Package motion says where the aircraft fly.
//
// What each slot's reports tell of users and tasks comes in; a target for every
// aircraft goes out, and how fast to fly there at a price of energy, then the
// displacement, and last the joint displacement that respects speed, area and
// separation (Limit). It stands beside dispatch: the teacher flies by it, the
// policy reads the targets and takes the speed, and Limit is the last word
// before the setpoints.
package motion

import (
	"math"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// MaxUsers is how many users a tracker remembers; beyond it the one that was
// first heard of longest ago makes room.
const MaxUsers = 4096

// Planner remembers where each user was last heard. Its zero value is ready.
type Planner struct {
	userIndex map[int]int // user's ID -> place in known
	userIDs   []int
	positions []physics.Position
	oldest    int // place to be reused once full

	observed taskSums // what tasks asked for so far

	channel          physics.Channel // that links was made for
	altitudeM, areaM float64
	linkTable        [129]linkPoint // at even distances up to reach
	delayTable       [129]userView  // the same for the mean task
	tasks            taskSums
	penaltyS         float64
	edgeTimeS        float64 // of the mean task on an aircraft
	samplePositions  []physics.Position
	views            []userView // (user, aircraft)
	fleetSize        int
	searchOrder      []int
	savedDelayS      []float64 // per aircraft, what a slot at its target saves
}

// Reset forgets every user and keeps the memory.
func (t *Planner) Reset() {
	clear(t.userIndex)
	t.userIDs, t.positions, t.oldest = t.userIDs[:0], t.positions[:0], 0
	t.observed = taskSums{}
}

// KnownUsers returns the number of users remembered.
func (t *Planner) KnownUsers() int { return len(t.positions) }

// Observe notes the positions of users heard in a slot. One that is not on
// this planet is left out.
func (t *Planner) Observe(users []slot.User) {
	if t.userIndex == nil {
		t.userIndex = make(map[int]int)
	}
	t.observed.slots++
	for i := range users {
		id, p, task := users[i].ID, users[i].Position, users[i].Task
		if localS := task.LocalTimeS(users[i].CPUHz); localS > 0 && localS < 1e6 && task.Bits < 1e12 && task.DeadlineS > 0 && task.DeadlineS < 1e6 {
			t.observed.tasks++
			t.observed.bits += task.Bits
			t.observed.cycles += task.Cycles()
			t.observed.localS += localS
			t.observed.deadlineS += task.DeadlineS
		}
		if !p.Valid() {
			continue
		}
		if k, ok := t.userIndex[id]; ok {
			t.positions[k] = p
			continue
		}
		if len(t.positions) < MaxUsers {
			t.userIndex[id] = len(t.positions)
			t.userIDs, t.positions = append(t.userIDs, id), append(t.positions, p)
			continue
		}
		delete(t.userIndex, t.userIDs[t.oldest])
		t.userIndex[id] = t.oldest
		t.userIDs[t.oldest], t.positions[t.oldest] = id, p
		t.oldest = (t.oldest + 1) % MaxUsers
	}
}

// MoveToward returns the displacement of a slot that flies from a place towards a
// target: dashM metres, if that is more than stepM, while it is far. It always
// flies stepM, because hovering costs more than flying at v*: near the target
// it circles, to the left, at two and a half steps from it, a turn that a real
// airframe can fly at that speed (a centripetal 3.4 m/s2 at 8.4 m/s; flying to
// and fro through the target would ask for 17).
func MoveToward(from, target physics.Position, stepM, dashM float64) physics.Position {
	if !(stepM > 0) || !from.Valid() || !target.Valid() {
		return physics.Position{}
	}
	radiusM := circleRadiusSteps * stepM
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

// circleRadiusSteps is the radius, in steps, at which an aircraft circles its target.
const circleRadiusSteps = 2.5
