package leader

import (
	"math"
	"time"

	"prefdt/firmware/clock"
	"prefdt/firmware/users"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// pace is how long this board takes for a slot's users, from the close of the report window
// until the broker has their decisions, as measured in the slots before and, for the first,
// by a trial decision. It says for how many users a slot can be decided in time, before it is.
type pace struct {
	perUser time.Duration // 0: nothing was measured

	undecided int // users of the slot that the policy has no time for, or whose decisions are not sent in time

	// The slot that is being measured.
	users     int // that the policy decided for; those after them compute locally
	from      time.Duration
	delivered <-chan time.Duration // receives when the broker has the last decision; nil: none is measured
}

// fixedUsers is how many users more would take a slot as long as everything in it that
// does not depend on them. To decide for fewer than these saves less than half of it.
const fixedUsers = 64

// begin is called when a slot's window has closed. A slot before whose decisions the broker
// still has not got took as long as until now, at least.
func (p *pace) begin(now time.Duration) {
	if p.delivered != nil {
		at := now
		select {
		case at = <-p.delivered:
		default:
		}
		p.observe(p.users, at-p.from)
	}
	p.delivered, p.from = nil, now
}

// observe enters how long a slot took. A board that becomes slower is believed at once, one
// that becomes faster by halves.
func (p *pace) observe(users int, took time.Duration) {
	each := took / time.Duration(users+fixedUsers)
	p.perUser = max(each, (p.perUser+each)/2)
}

// observeLate enters a slot that has taken all its time before its last decision was sent.
// How much it lacked is not known: it counts as half as long again.
func (p *pace) observeLate(users int, now time.Duration) { p.observe(users, 3*(now-p.from)/2) }

// most is for how many users the open slot can be decided by a moment.
func (p *pace) most(until time.Duration) int {
	if p.perUser == 0 {
		return users.MaxPerSlot
	}
	return max(int((until-p.from)/p.perUser)-fixedUsers, fixedUsers)
}

const (
	// trialUsers is how many users the trial decision is for.
	trialUsers = 256
	// slotOverDecision is how many times as long as a decision a slot is expected to take, with
	// its reports, its publishing and the broker: 3.5 times at 1,000 users on a 2-core EPYC.
	slotOverDecision = 5
)

// measureBoard has the scheduler decide once, for users as the checkpoint expects them, under
// a budget, which takes longest. So the first slot too is decided for no more users than there
// is time for.
func (p *pace) measureBoard(policy *Policy, slots, aircraft int, now clock.Clock) {
	scheduler, ok := policy.Scheduler.(interface{ Reset() })
	if !ok {
		return
	}
	physics, prior := &policy.Physics, &policy.UserPrior
	s := slot.Snapshot{Slots: slots}
	for m := range aircraft {
		s.Aircraft = append(s.Aircraft, slot.Aircraft{
			Number: m + 1, Position: spread(m, aircraft, physics.AreaSideM), RemainingJ: physics.BatteryCapacityJ, CPUHz: physics.EdgeCPUHz,
		})
	}
	for i := range trialUsers {
		u := slot.User{ID: i, Position: spread(i, trialUsers, physics.AreaSideM), Task: prior.TaskMean, CPUHz: prior.CPUHz}
		for m := range s.Aircraft {
			u.Gain = append(u.Gain, physics.Channel.MeanGain(u.Position.Sub(s.Aircraft[m].Position).Norm(), physics.AltitudeM))
		}
		s.Users = append(s.Users, u)
	}
	const aboveFloor = 1.2
	objective := goal.New(policy.Scales, physics, s.Slots, len(s.Aircraft))
	_ = objective.SetBudget(aboveFloor*objective.FloorJ(), goal.Target) // of positive joules, which are never refused
	var d slot.Decision
	began := now.Now()
	policy.Decide(&s, objective, &d)
	p.observe(trialUsers, slotOverDecision*(now.Now()-began))
	scheduler.Reset()
}

// spread returns the i-th of n points that are evenly spread over an area.
func spread(i, n int, areaM float64) physics.Position {
	_, eastShare := math.Modf(float64(i) * math.Phi)
	return physics.Position{EastM: areaM * eastShare, NorthM: areaM * (float64(i) + 0.5) / float64(n)}
}

// limit takes those users out of the snapshot that the policy has no time to decide for until a
// moment, and returns the names of the others.
func (p *pace) limit(u *users.Users, s *slot.Snapshot, names []string, now, until time.Duration) []string {
	p.begin(now)
	most := p.most(until)
	if p.undecided = max(len(names)-most, 0); p.undecided > 0 {
		return u.Limit(s, most)
	}
	return names
}

// decideTheRest follows the policy's decision by one for the users that it had no time for: they
// keep the offer or, if that was made for less than half as many, compute locally. An offer that
// many more take than it was made for is worse for each of them. The next offers are made for
// these users. It returns the names of all that have a decision.
func (p *pace) decideTheRest(u *users.Users, s *slot.Snapshot, d *slot.Decision, names []string) []string {
	left, decided := p.undecided, len(names)
	if left == 0 {
		return names
	}
	if float64(left) > 2*u.WithoutDecision() {
		s.Users, names = s.Users[:decided+left], names[:decided+left]
		for i := decided; i < len(names); i++ {
			d.Users = append(d.Users, slot.UserDecision{CompletionS: s.Users[i].Task.LocalTimeS(s.Users[i].CPUHz)})
		}
	}
	u.ObserveSlot(decided+left, left)
	return names
}
