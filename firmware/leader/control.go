package leader

import (
	"fmt"

	"prefdt/firmware/link"
	"prefdt/telemetry"
)

// handleControl handles one message that is not a user's: of the crew, the broker, or
// another leader.
func (l *Leader) handleControl(c link.ControlMessage) {
	switch {
	case c.Command != nil:
		l.receiveCommand(c.Command)
	case c.Heartbeat != nil:
		if l.crew.AcceptHeartbeat(c.Heartbeat) {
			l.mission.Heartbeat(c.Heartbeat.Station, c.Heartbeat.Leaving, (l.Clock.Now() - l.current.lastTickAt).Seconds())
		}
	case c.Worker != nil:
		l.workers.Receive(c.Worker.Aircraft, &c.Worker.Worker, c.Worker.Received)
	case c.BrokerConnected:
		l.publish(l.status(l.fleet.Views()))
	case c.DeclaredOffline: // a newcomer's will
		l.mqtt.RepublishOnline()
	case c.Beacon != nil:
		s := c.Beacon // this leader's own is received by its own subscription
		own := s.Slot == l.current.lastBeacon || l.mission.InSlots() && s.Slot <= l.schedule.Current()
		if !own || s.SlotMS != l.Config.SlotMS {
			l.mqtt.CountReject(l.mqtt.Topics.Slot(), "slot: foreign beacon", "another leader is at slot %d", s.Slot)
			l.mqtt.RepublishOnline()
		}
	case c.Status != nil && c.Status.Seq > l.current.statusSeq: // its own has a number no higher than the last that it sent
		s := c.Status
		l.mqtt.CountReject(l.mqtt.Topics.Status(), "status: foreign", "another leader is %s, slot %d", s.State, s.Slot)
		if l.mqtt.LeaderKey != nil { // where leaders have one a status proves nothing
			l.mqtt.RequestProof()
		} else {
			l.yieldIfYounger(s.Seq, s.Slot, s.State)
		}
	case c.RivalProof != nil:
		l.yieldIfYounger(c.RivalProof.Seq, c.RivalProof.Slot, l.mission.Phase())
	case c.YieldReason != nil:
		l.current.yieldReason = c.YieldReason
	}
}

// yieldIfYounger makes the younger of two idle leaders yield: the one that has
// published fewer statuses.
func (l *Leader) yieldIfYounger(seq int64, slot int, state string) {
	if seq > l.current.statusSeq && l.mission.Phase() == telemetry.StateIdle {
		l.current.yieldReason = fmt.Errorf("%w: fleet %s is %s, slot %d", link.ErrIncumbent, l.Config.Fleet, state, slot)
	}
}
