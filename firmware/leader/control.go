package leader

import (
	"fmt"

	"prefdt/firmware/link"
	"prefdt/telemetry"
)

// control lets one message that is no user's change the mission.
func (l *Leader) control(c link.Control) {
	switch {
	case c.Command != nil:
		l.committed() // a settlement on its way is older than this command
		if l.crew.Command(c.Command) {
			l.mission.Received()
		}
	case c.Heartbeat != nil:
		if l.crew.Heartbeat(c.Heartbeat) {
			l.mission.Heartbeat(c.Heartbeat.Station, c.Heartbeat.Leaving)
		}
	case c.Connected:
		l.refresh()
		l.publishStatus()
	case c.Offline: // a newcomer's will
		l.link.Reassert()
	case c.Beacon != nil:
		l.foreignBeacon(c.Beacon)
	case c.Status != nil:
		l.foreignStatus(c.Status)
	case c.Rival != nil:
		l.rival(c.Rival.Seq, c.Rival.Slot, l.mission.Phase())
	case c.Yield != nil:
		l.now.yield = c.Yield
	}
}

// foreignBeacon answers a beacon that is not ours with our place on the broker.
func (l *Leader) foreignBeacon(s *telemetry.Slot) {
	if l.mission.InSlots() && s.Slot <= l.schedule.Open() && s.SlotMS == l.Config.SlotMS {
		return // our own, as it comes back
	}
	l.link.Reject(l.link.Topics.Slot(), "slot: foreign beacon", "another leader is at slot %d", s.Slot)
	l.link.Reassert()
}

// foreignStatus notices another leader's status: ours comes back with a number
// no higher than the last we sent. Where leaders have a key it proves nothing,
// and the other is asked.
func (l *Leader) foreignStatus(s *telemetry.Status) {
	if s.Seq <= l.now.seq {
		return
	}
	l.link.Reject(l.link.Topics.Status(), "status: foreign", "another leader says %s, slot %d", s.State, s.Slot)
	if l.link.Identity != nil {
		l.link.Ask()
		return
	}
	l.rival(s.Seq, s.Slot, s.State)
}

// rival lets the younger of two idle leaders yield: the one that has said less.
func (l *Leader) rival(seq int64, slot int, state string) {
	if seq > l.now.seq && l.mission.Phase() == telemetry.StateIdle {
		l.now.yield = fmt.Errorf("%w: fleet %s is %s, slot %d", link.ErrIncumbent, l.Config.Fleet, state, slot)
	}
}
