// Package tracking says where the aircraft fly.
//
// What each slot's reports tell of the users' positions comes in; a target for
// every aircraft goes out, then the displacement that flies towards it at a
// given speed, and last the joint displacement that respects speed, area and
// separation (Limit). It stands beside dispatch: the teacher flies by it, the
// leader when the policy's flight head is not asked, and Limit is the last
// word before the setpoints.
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

	owner []int              // per known user: nearest aircraft
	users []physics.Position // of one aircraft
	count []int
}

// Reset forgets every user and keeps the memory.
func (t *Tracker) Reset() {
	clear(t.index)
	t.ids, t.known, t.next = t.ids[:0], t.known[:0], 0
}

// Known returns the number of users remembered.
func (t *Tracker) Known() int { return len(t.known) }

// Observe notes the positions of users heard in a slot. One that is not on
// this planet is left out.
func (t *Tracker) Observe(users []slot.User) {
	if t.index == nil {
		t.index = make(map[int]int)
	}
	for i := range users {
		id, p := users[i].ID, users[i].Position
		if !finite(p) {
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

// Targets fills dst with a target for each aircraft and returns it: the
// geometric median of the known users it is nearest to. Two rounds of Lloyd's
// iteration from the present positions let the fleet share the users out. The
// user farthest from its aircraft goes to the nearest idle one, unless it is
// the only one of its own; with fewer users than aircraft, those left over
// stay where they are.
func (t *Tracker) Targets(aircraft []slot.Aircraft, dst []physics.Position) []physics.Position {
	dst = dst[:0]
	for i := range aircraft {
		dst = append(dst, aircraft[i].Position)
	}
	if len(t.known) == 0 || len(aircraft) == 0 {
		return dst
	}
	t.owner = resize(t.owner, len(t.known))
	t.count = resize(t.count, len(aircraft))
	const rounds = 2
	for range rounds {
		t.share(dst)
		for m := range dst {
			t.users = t.users[:0]
			for k, p := range t.known {
				if t.owner[k] == m {
					t.users = append(t.users, p)
				}
			}
			dst[m] = Median(t.users, dst[m])
		}
	}
	return dst
}

// share gives every known user an owner among the aircraft at these places.
func (t *Tracker) share(at []physics.Position) {
	clear(t.count)
	for k, p := range t.known {
		nearest, least := 0, math.Inf(1)
		for m := range at {
			if d := p.Sub(at[m]); d.EastM*d.EastM+d.NorthM*d.NorthM < least {
				nearest, least = m, d.EastM*d.EastM+d.NorthM*d.NorthM
			}
		}
		t.owner[k] = nearest
		t.count[nearest]++
	}
	for range at {
		far, most := -1, -1.0
		for k, p := range t.known {
			if d := p.Sub(at[t.owner[k]]).Norm(); t.count[t.owner[k]] > 1 && d > most {
				far, most = k, d
			}
		}
		idle, least := -1, math.Inf(1)
		for m := range at {
			if far >= 0 && t.count[m] == 0 && t.known[far].Sub(at[m]).Norm() < least {
				idle, least = m, t.known[far].Sub(at[m]).Norm()
			}
		}
		if idle < 0 {
			return
		}
		t.count[t.owner[far]]--
		t.count[idle]++
		t.owner[far] = idle
	}
}

// Median returns the geometric median of points, the place with the least sum
// of distances (Weiszfeld's iteration in the form of Vardi and Zhang 2000,
// which does not stick to a point); with no points, from. Of collinear points
// in even number, whose medians are a segment, it returns one of them.
func Median(points []physics.Position, from physics.Position) physics.Position {
	if len(points) == 0 {
		return from
	}
	var at physics.Position
	for _, p := range points {
		at = at.Add(p.Scale(1 / float64(len(points))))
	}
	// A centimetre is far below what flight resolves; 100 rounds bound the time.
	const toleranceM, rounds = 0.01, 100
	for range rounds {
		var sum, pull physics.Position
		weight, here := 0.0, 0.0
		for _, p := range points {
			d := p.Sub(at)
			r2 := dot(d, d)
			if r2 < 1e-18 {
				here++
				continue
			}
			w := 1 / math.Sqrt(r2)
			weight += w
			sum.EastM += w * p.EastM
			sum.NorthM += w * p.NorthM
			pull.EastM += w * d.EastM
			pull.NorthM += w * d.NorthM
		}
		strength := pull.Norm()
		if weight == 0 || strength <= here {
			return at // all points are here, or this point is the median
		}
		step := sum.Scale(1 / weight).Sub(at).Scale(1 - here/strength)
		at = at.Add(step)
		if step.Norm() < toleranceM {
			break
		}
	}
	return at
}

// Move returns the displacement of a slot that flies stepM metres from a place
// towards a target. It always flies that far, because hovering costs more than
// flying at v*: near the target it circles, to the left, at two and a half
// steps from it, a turn that a real airframe can fly at that speed (a
// centripetal 3.4 m/s2 at 8.4 m/s; flying to and fro through the target would
// ask for 17).
func Move(from, target physics.Position, stepM float64) physics.Position {
	if !(stepM > 0) || !finite(from) || !finite(target) {
		return physics.Position{}
	}
	radiusM := 2.5 * stepM
	d := target.Sub(from)
	r := d.Norm()
	if r >= radiusM+stepM {
		return d.Scale(stepM / r)
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

// finite reports whether a position is one: a quarter of a meridian is 1e7 m.
func finite(p physics.Position) bool {
	return math.Abs(p.EastM) <= 1e7 && math.Abs(p.NorthM) <= 1e7
}

func resize[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	x = x[:n]
	clear(x)
	return x
}
