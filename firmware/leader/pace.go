package leader

import (
	"time"

	"prefdt/firmware/users"
)

// pace is how long this board takes for a slot's users, from the close of the report window
// until the broker has their decisions, as measured in the slots before. It says for how
// many users a slot can be decided in time, before it is.
type pace struct {
	perUser time.Duration // 0: no slot was measured

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

// limitUsers leaves those users to the offer that there is no time to decide for, and
// returns the names of the others.
func (l *Leader) limitUsers(names []string) []string {
	l.pace.begin(l.Clock.Now())
	l.current.undecided = 0
	if most := l.pace.most(l.current.decideBy); len(names) > most {
		l.current.undecided = len(names) - most
		names = l.users.Limit(&l.current.snapshot, most)
	}
	return names
}
