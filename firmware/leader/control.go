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
		l.handleForeignBeacon(c.Beacon)
	case c.Status != nil:
		l.handleForeignStatus(c.Status)
	case c.RivalProof != nil:
		l.yieldIfYounger(c.RivalProof.Seq, c.RivalProof.Slot, l.mission.Phase())
	case c.YieldReason != nil:
		l.current.yieldReason = c.YieldReason
	}
}

// handleForeignBeacon counts a beacon of another leader and publishes `online` again.
func (l *Leader) handleForeignBeacon(s *telemetry.Slot) {
	own := s.Slot == l.current.lastBeacon || l.mission.InSlots() && s.Slot <= l.schedule.Current()
	if own && s.SlotMS == l.Config.SlotMS {
		return // this leader's own beacon, received by its own subscription
	}
	l.mqtt.CountReject(l.mqtt.Topics.Slot(), "slot: foreign beacon", "another leader is at slot %d", s.Slot)
	l.mqtt.RepublishOnline()
}

// handleForeignStatus recognises another leader's status by its sequence number: this
// leader receives its own with none above the last it sent. Where leaders have a key
// a status proves nothing, and a proof is requested.
func (l *Leader) handleForeignStatus(s *telemetry.Status) {
	if s.Seq <= l.current.statusSeq {
		return
	}
	l.mqtt.CountReject(l.mqtt.Topics.Status(), "status: foreign", "another leader is %s, slot %d", s.State, s.Slot)
	if l.mqtt.LeaderKey != nil {
		l.mqtt.RequestProof()
		return
	}
	l.yieldIfYounger(s.Seq, s.Slot, s.State)
}

// yieldIfYounger makes the younger of two idle leaders yield: the one that has
// published fewer statuses.
func (l *Leader) yieldIfYounger(seq int64, slot int, state string) {
	if seq > l.current.statusSeq && l.mission.Phase() == telemetry.StateIdle {
		l.current.yieldReason = fmt.Errorf("%w: fleet %s is %s, slot %d", link.ErrIncumbent, l.Config.Fleet, state, slot)
	}
}
