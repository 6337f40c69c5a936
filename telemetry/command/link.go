package command

import (
	"bytes"
	"time"

	"prefdt/telemetry"
)

// Link is what a station knows of its fleet, and how current that is: the one judge of it, for
// every display and for the heartbeats. Set StaleAfter.
type Link struct {
	StaleAfter time.Duration // age from which the status of a mission under way counts as lost

	Broker   bool  // connected
	Online   *bool // last published by the leader or its will; nil: nothing since the connection
	Status   *telemetry.Status
	Received time.Time // when Status was new
	Retained bool      // Status was published before the subscription, at an unknown time

	payload   []byte    // of Status
	changedAt time.Time // connected or lost since
}

// statusInterval is the longest time between statuses of a leader with no slot to settle,
// docs/wire.md.
const statusInterval = 5 * time.Second

// Reasons of Lost that displays word in their own way.
const (
	NoStatus = "no status"
	NoLeader = "NO LEADER was ever at this broker"
)

// SetBroker notes that the broker is connected, or was lost.
func (l *Link) SetBroker(connected bool, now time.Time) {
	l.Broker, l.changedAt = connected, now
	if !connected {
		l.Online = nil // unknown until the next connection
	}
}

// Take keeps a status, and reports whether it is new. One that a broker or a bridge repeats,
// byte for byte, makes nothing younger: a leader's next status has another seq.
func (l *Link) Take(s *telemetry.Status, m telemetry.Message) bool {
	if l.payload != nil && bytes.Equal(l.payload, m.Payload) {
		return false
	}
	l.Status, l.payload, l.Received, l.Retained = s, m.Payload, m.Received, m.Retained
	return true
}

// Age is how long ago the status was received. The monotonic clock stands still while the
// machine sleeps, and the wall clock can be set: the greater of the two ages counts.
func (l *Link) Age(now time.Time) time.Duration {
	return max(now.Sub(l.Received), now.Round(0).Sub(l.Received.Round(0)))
}

// Limit is the age from which a status is lost.
func (l *Link) Limit() time.Duration {
	if l.Status != nil && !telemetry.UnderWay(l.Status.State) {
		return l.StaleAfter + statusInterval
	}
	return l.StaleAfter
}

// Lost is why the status may not be the present one; empty while it is, or is only awaited.
func (l *Link) Lost(now time.Time) string {
	switch {
	case !l.Broker:
		return "the broker is unreachable"
	case l.Online != nil && !*l.Online:
		return "the leader is offline"
	case l.Status != nil && l.Age(now) >= l.Limit():
		return NoStatus
	case l.Status == nil && l.Online == nil && now.Sub(l.changedAt) > l.StaleAfter: // retained messages have arrived
		return NoLeader
	}
	return ""
}

// Blind is whether the station does not see its fleet: then it does not watch it either, and
// sends no heartbeat.
func (l *Link) Blind(now time.Time) bool { return l.Status == nil || l.Lost(now) != "" }
