package telemetry

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is a kind of topic, a row of the table in docs/wire.md.
type Kind string

// The kinds of topic below prefdt/{fleet}/.
const (
	KindSlot       Kind = "slot"
	KindReport     Kind = "report"
	KindDecision   Kind = "decision"
	KindResult     Kind = "result"
	KindBudget     Kind = "budget"
	KindPreference Kind = "preference"
	KindMission    Kind = "mission"
	KindAck        Kind = "ack"
	KindStatus     Kind = "status"
	KindOnline     Kind = "online"
	KindHeartbeat  Kind = "heartbeat"
	KindWorker     Kind = "worker"
	KindHello      Kind = "hello"
	KindProof      Kind = "proof"
)

// ValidID reports whether a fleet, user, station or command id is 1 to 64 characters of
// A-Z a-z 0-9 . _ -
func ValidID(id string) bool { return textForms["id"].matches(id) }

// Topics builds and reads the topic names of one fleet.
type Topics struct{ root string }

// NewTopics returns the topics of a fleet.
func NewTopics(fleet string) (Topics, error) {
	if !ValidID(fleet) {
		return Topics{}, fmt.Errorf("fleet %s: want 1 to 64 of A-Z a-z 0-9 . _ -", quote(fleet))
	}
	return Topics{"prefdt/" + fleet + "/"}, nil
}

// Fleet is the fleet's name.
func (t Topics) Fleet() string { return strings.TrimSuffix(strings.TrimPrefix(t.root, "prefdt/"), "/") }

func (t Topics) Slot() string                 { return t.root + "slot" }
func (t Topics) Report(user string) string    { return t.root + "users/" + user + "/report" }
func (t Topics) Decision(user string) string  { return t.root + "users/" + user + "/decision" }
func (t Topics) Result(user string) string    { return t.root + "users/" + user + "/result" }
func (t Topics) Budget() string               { return t.root + "command/budget" }
func (t Topics) Preference() string           { return t.root + "command/preference" }
func (t Topics) Mission() string              { return t.root + "command/mission" }
func (t Topics) Ack(command string) string    { return t.root + "ack/" + command }
func (t Topics) Status() string               { return t.root + "status" }
func (t Topics) Online() string               { return t.root + "online" }
func (t Topics) Heartbeat(name string) string { return t.root + "crew/" + name + "/heartbeat" }
func (t Topics) Worker(aircraft int) string {
	return t.root + "aircraft/" + strconv.Itoa(aircraft) + "/worker"
}
func (t Topics) Hello() string { return t.root + "hello" }
func (t Topics) Proof() string { return t.root + "proof" }

// Filters to subscribe with. They do not overlap.

// All receives everything of the fleet; it overlaps with the others.
func (t Topics) All() string { return t.root + "#" }

func (t Topics) AllReports() string    { return t.root + "users/+/report" }
func (t Topics) AllDecisions() string  { return t.root + "users/+/decision" }
func (t Topics) AllResults() string    { return t.root + "users/+/result" }
func (t Topics) AllCommands() string   { return t.root + "command/+" }
func (t Topics) AllAcks() string       { return t.root + "ack/+" }
func (t Topics) AllHeartbeats() string { return t.root + "crew/+/heartbeat" }
func (t Topics) AllWorkers() string    { return t.root + "aircraft/+/worker" }

// Parse returns a topic's kind and the user, station, command id or aircraft number in it. ok is false
// for a topic of another fleet, of an unknown kind or with an invalid id.
func (t Topics) Parse(topic string) (kind Kind, id string, ok bool) {
	rest, ok := strings.CutPrefix(topic, t.root)
	if !ok || t.root == "" {
		return "", "", false
	}
	switch rest {
	case "slot", "status", "online", "hello", "proof":
		return Kind(rest), "", true
	case "command/budget", "command/preference", "command/mission":
		return Kind(rest[len("command/"):]), "", true
	}
	if id, ok := strings.CutPrefix(rest, "ack/"); ok && ValidID(id) {
		return KindAck, id, true
	}
	if levels := strings.SplitN(rest, "/", 4); len(levels) == 3 && ValidID(levels[1]) {
		switch levels[0] + "/" + levels[2] {
		case "crew/heartbeat", "users/report", "users/decision", "users/result":
			return Kind(levels[2]), levels[1], true
		case "aircraft/worker":
			if n, err := strconv.Atoi(levels[1]); err == nil && n >= 1 && n <= MaxAircraft && strconv.Itoa(n) == levels[1] {
				return KindWorker, levels[1], true
			}
		}
	}
	return "", "", false
}
