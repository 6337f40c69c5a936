package leader

import (
	"math"
	"time"

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

	// The slot that is being measured.
	users     int
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
func (l *Leader) measureBoard() {
	scheduler, ok := l.Policy.Scheduler.(interface{ Reset() })
	if !ok {
		return
	}
	p, prior := &l.Policy.Physics, &l.Policy.UserPrior
	s := slot.Snapshot{Slots: l.Config.Slots}
	for m := range l.Config.Aircraft {
		s.Aircraft = append(s.Aircraft, slot.Aircraft{
			Number: m + 1, Position: spread(m, len(l.Config.Aircraft), p.AreaSideM), RemainingJ: p.BatteryCapacityJ, CPUHz: p.EdgeCPUHz,
		})
	}
	for i := range trialUsers {
		u := slot.User{ID: i, Position: spread(i, trialUsers, p.AreaSideM), Task: prior.TaskMean, CPUHz: prior.CPUHz}
		for m := range s.Aircraft {
			u.Gain = append(u.Gain, p.Channel.MeanGain(u.Position.Sub(s.Aircraft[m].Position).Norm(), p.AltitudeM))
		}
		s.Users = append(s.Users, u)
	}
	const aboveFloor = 1.2
	objective := goal.New(l.Policy.Scales, p, s.Slots, len(s.Aircraft))
	_ = objective.SetBudget(aboveFloor*objective.FloorJ(), goal.Target) // of positive joules, which are never refused
	var d slot.Decision
	began := l.Clock.Now()
	l.Policy.Decide(&s, objective, &d)
	l.pace.observe(trialUsers, slotOverDecision*(l.Clock.Now()-began))
	scheduler.Reset()
}

// spread returns the i-th of n points that are evenly spread over an area.
func spread(i, n int, areaM float64) physics.Position {
	_, eastShare := math.Modf(float64(i) * math.Phi)
	return physics.Position{EastM: areaM * eastShare, NorthM: areaM * (float64(i) + 0.5) / float64(n)}
}

// limitUsers takes those users out of the snapshot that the policy has no time to decide for,
// and returns the names of the others.
func (l *Leader) limitUsers(names []string) []string {
	l.pace.begin(l.Clock.Now())
	l.current.undecided = 0
	if most := l.pace.most(l.current.decideBy); len(names) > most {
		l.current.undecided = len(names) - most
		names = l.users.Limit(&l.current.snapshot, most)
	}
	return names
}

// decideTheRest follows the policy's decision by one for the users that it had no time for: they
// keep the offer or, if that was made for less than half as many, compute locally. An offer that
// many more take than it was made for is worse for each of them. The next offers are made for
// these users. It returns the names of all that have a decision.
func (l *Leader) decideTheRest(names []string) []string {
	left := l.current.undecided
	if left == 0 {
		return names
	}
	s, d, decided := &l.current.snapshot, &l.current.decision, len(names)
	if float64(left) > 2*l.users.WithoutDecision() {
		s.Users, names = s.Users[:decided+left], names[:decided+left]
		for i := decided; i < len(names); i++ {
			d.Users = append(d.Users, slot.UserDecision{CompletionS: s.Users[i].Task.LocalTimeS(s.Users[i].CPUHz)})
		}
	}
	l.users.ObserveSlot(decided+left, left)
	return names
}
