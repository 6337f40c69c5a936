// Package motion plans where the aircraft fly, and keeps their moves within limits.
//
// Inputs: the users and tasks reported in each slot, the aircraft's positions, and
// a price of energy. Outputs: a target for each aircraft and the speed to fly there
// (Planner), one slot's displacement towards a target (MoveToward), and the joint
// displacement that keeps speed, area and separation (Limiter). The teachers fly by
// all three; the policy reads the targets, takes the speed and limits its moves; the
// leader's flight envelope limits them again before the setpoints.
package motion

import (
	"math"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// MaxUsers is how many users a Planner remembers; beyond it a new one replaces the
// user whose first report is the oldest.
const MaxUsers = 4096

// Planner remembers the last reported position of each user and the mean task, and
// plans the aircraft's targets and speeds with them. Its zero value is ready.
type Planner struct {
	userIndex map[int]int // user's ID -> index into userIDs and positions
	userIDs   []int
	positions []physics.Position
	seen      []int // per user, reports when it last reported
	reports   int   // slots with a report so far
	oldest    int   // index to be reused once full

	observed taskSums // of the tasks reported so far

	channel          physics.Channel // that linkTable was computed for
	altitudeM, areaM float64
	linkTable        [129]linkPoint // at even distances up to tableRangeSides
	delayTable       [129]userView  // the same for the mean task
	tasks            taskSums       // observed or, before any task was, assumed
	penaltyS         float64
	edgeTimeS        float64            // of the mean task on an aircraft
	samplePositions  []physics.Position // of the users that delays are computed for
	mortonCodes      []mortonCode
	views            []userView // (user, aircraft)
	fleetSize        int
	searchOrder      []int
	savedDelayS      []float64 // per aircraft, per slot at its target instead of where it is
	bestSpeedMPS     float64   // v*
	minFlightW       float64   // P(v*)

	lastSlot  int                      // that lastMoves were decided for
	lastMoves map[int]physics.Position // by an aircraft's number
}

// Reset forgets every user and task, for another mission.
func (p *Planner) Reset() {
	clear(p.userIndex)
	p.userIDs, p.positions, p.seen, p.oldest, p.reports = p.userIDs[:0], p.positions[:0], p.seen[:0], 0, 0
	p.observed = taskSums{}
	clear(p.lastMoves)
}

// Observe adds the tasks and positions of users that reported in a slot. Positions
// that are not valid are ignored.
func (p *Planner) Observe(users []slot.User) {
	if p.userIndex == nil {
		p.userIndex = make(map[int]int)
	}
	if p.observed.slots >= memorySlots {
		p.observed.halve()
	}
	p.observed.slots++
	if len(users) > 0 {
		p.reports++
	}
	for i := range users {
		id, position, task := users[i].ID, users[i].Position, users[i].Task
		if localS := task.LocalTimeS(users[i].CPUHz); localS > 0 && localS < 1e6 && task.Bits < 1e12 && task.DeadlineS > 0 &&
			task.DeadlineS < 1e6 {
			p.observed.tasks++
			p.observed.bits += task.Bits
			p.observed.cycles += task.Cycles()
			p.observed.localS += localS
			p.observed.deadlineS += task.DeadlineS
		}
		if !position.Valid() {
			continue
		}
		if k, ok := p.userIndex[id]; ok {
			p.positions[k], p.seen[k] = position, p.reports
			continue
		}
		if len(p.positions) < MaxUsers {
			p.userIndex[id] = len(p.positions)
			p.userIDs, p.positions, p.seen = append(p.userIDs, id), append(p.positions, position), append(p.seen, p.reports)
			continue
		}
		delete(p.userIndex, p.userIDs[p.oldest])
		p.userIndex[id] = p.oldest
		p.userIDs[p.oldest], p.positions[p.oldest], p.seen[p.oldest] = id, position, p.reports
		p.oldest = (p.oldest + 1) % MaxUsers
	}
}

// memorySlots is after how many slots what is known of the tasks counts half.
const memorySlots = 256

// MoveToward returns one slot's displacement from a position towards a target. Far
// from the target it is transitM metres long, or stepM if that is more; near the
// target always stepM, because hovering costs more than flying at v*. There the
// aircraft circles the target to the left, at two and a half steps from it, a turn
// that an airframe can fly at that speed (a centripetal acceleration of 3.4 m/s2 at
// 8.4 m/s; flying to and fro through the target would need 17).
func MoveToward(from, target physics.Position, stepM, transitM float64) physics.Position {
	if !(stepM > 0) || !from.Valid() || !target.Valid() {
		return physics.Position{}
	}
	radiusM := circleRadiusSteps * stepM
	d := target.Sub(from)
	r := d.Norm()
	if r >= radiusM+stepM {
		return d.Scale(max(stepM, transitM) / r)
	}
	if r < 1e-6*stepM {
		return physics.Position{EastM: stepM}
	}
	ahead := d.Scale(1 / r)
	if r+stepM <= radiusM {
		return ahead.Scale(-stepM) // outwards, to the circle
	}
	// The move ends where the circle about the target meets the circle of one step
	// about the aircraft: along points at the target, across to the right of it,
	// which circles the target to the left.
	along := (r*r + stepM*stepM - radiusM*radiusM) / (2 * r)
	across := math.Sqrt(max(0, stepM*stepM-along*along))
	right := physics.Position{EastM: ahead.NorthM, NorthM: -ahead.EastM}
	return ahead.Scale(along).Add(right.Scale(across))
}

// circleRadiusSteps is the radius, in steps, at which an aircraft circles its target.
const circleRadiusSteps = 2.5
