package access

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"prefdt/telemetry"
)

// right is a topic, who publishes it and who receives it.
type right struct {
	topic   func(t telemetry.Topics, owner string) string
	owners  string   // role of the owners; empty: the topic has none
	writers []string // roles
	readers []string
}

// ofOwner stands for a topic's owner among the roles.
const ofOwner = "owner"

func noOwner(topic func(telemetry.Topics) string) func(telemetry.Topics, string) string {
	return func(t telemetry.Topics, _ string) string { return topic(t) }
}

// rights are those of docs/wire.md. What is not here is refused.
var rights = []right{
	{noOwner(telemetry.Topics.Slot), "", []string{RoleLeader}, []string{RoleLeader, RoleObserver, RoleCrew, RoleUser, RoleWorker}},
	{noOwner(telemetry.Topics.Status), "", []string{RoleLeader}, []string{RoleLeader, RoleObserver, RoleCrew, RoleUser, RoleWorker}},
	{noOwner(telemetry.Topics.Online), "", []string{RoleLeader}, []string{RoleLeader, RoleObserver, RoleCrew, RoleUser, RoleWorker}},
	{func(t telemetry.Topics, _ string) string { return t.Ack("certs-check") }, "", []string{RoleLeader},
		[]string{RoleLeader, RoleObserver, RoleCrew}},
	{noOwner(telemetry.Topics.Hello), "", []string{RoleLeader}, []string{RoleLeader, RoleObserver}},
	{noOwner(telemetry.Topics.Proof), "", []string{RoleLeader}, []string{RoleLeader, RoleObserver}},
	{noOwner(telemetry.Topics.Budget), "", []string{RoleCrew}, []string{RoleLeader, RoleObserver}},
	{noOwner(telemetry.Topics.Preference), "", []string{RoleCrew}, []string{RoleLeader, RoleObserver}},
	{noOwner(telemetry.Topics.Mission), "", []string{RoleCrew}, []string{RoleLeader, RoleObserver}},
	{telemetry.Topics.Heartbeat, RoleCrew, []string{ofOwner}, []string{RoleLeader, RoleObserver}},
	{telemetry.Topics.Report, RoleUser, []string{ofOwner}, []string{RoleLeader, RoleObserver, RoleCrew}},
	{telemetry.Topics.Result, RoleUser, []string{ofOwner}, []string{RoleLeader, RoleObserver, RoleCrew}},
	{workerTopic, RoleWorker, []string{ofOwner}, []string{RoleLeader, RoleObserver}},
	{telemetry.Topics.Decision, RoleUser, []string{RoleLeader}, []string{RoleObserver, RoleCrew, ofOwner}},
}

// workerTopic is the topic of the worker with a certificate's name.
func workerTopic(t telemetry.Topics, name string) string {
	aircraft, _ := strconv.Atoi(strings.TrimPrefix(name, "worker-"))
	return t.Worker(aircraft)
}

// topicRight is a right on one topic.
type topicRight struct {
	topic, owner     string
	writers, readers []string
	sampled          bool // also those try it that may not: topics without an owner, and of two owners of a role
}

func (r topicRight) allows(roles []string, c *Certificate) bool {
	return slices.Contains(roles, c.Role) || slices.Contains(roles, ofOwner) && c.Name == r.owner
}

// topicRights are the rights on every topic of some certificates. What users publish, the
// others may not publish under their own names either.
func topicRights(t telemetry.Topics, all []Certificate) (list []topicRight) {
	for _, r := range rights {
		if r.owners == "" {
			list = append(list, topicRight{r.topic(t, ""), "", r.writers, r.readers, true})
		}
		owners := 0
		for _, c := range all {
			switch {
			case c.Role == r.owners:
				owners++
				list = append(list, topicRight{r.topic(t, c.Name), c.Name, r.writers, r.readers, owners <= 2})
			case r.owners == RoleUser && slices.Contains(r.writers, ofOwner):
				list = append(list, topicRight{r.topic(t, c.Name), "", nil, r.readers, true})
			}
		}
	}
	return list
}

// exampleFleet and exampleCrew are the names in the ACL that ships.
const (
	exampleFleet = "demo"
	exampleCrew  = "crew-1"
)

// MosquittoACL is an ACL file for a fleet, its crew and workers, made of the one that ships,
// whose last block is that of one crew member. Users need no line: patterns hold for each.
func MosquittoACL(shipped, fleet string, crew, workers []string) string {
	shipped = strings.ReplaceAll(shipped, "/"+exampleFleet+"/", "/"+fleet+"/")
	head, block, _ := strings.Cut(shipped, "user "+exampleCrew+"\n")
	text := head
	for i, name := range crew {
		if i > 0 {
			text += "\n"
		}
		text += strings.ReplaceAll("user "+exampleCrew+"\n"+block, exampleCrew, name)
	}
	topics, err := telemetry.NewTopics(fleet)
	for _, name := range workers {
		if err == nil {
			text += "\nuser " + name + "\ntopic deny " + strings.TrimSuffix(topics.Report(name), "report") + "+" + "\ntopic write " +
				workerTopic(topics, name) + "\n"
		}
	}
	return text + written + digestOf(text) + "\n"
}

// written begins the last line of an ACL, which tells one that was edited since.
const written = "# Written by ground certs, SHA-256 of what is above: "

func digestOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// Edited is whether an ACL is not as [MosquittoACL] made it.
func Edited(acl string) bool {
	text, digest, _ := strings.Cut(acl, written)
	return strings.TrimSpace(digest) != digestOf(text)
}

// FleetOf is the fleet that an ACL of [MosquittoACL] is for; empty if it is none.
func FleetOf(acl string) string {
	_, after, _ := strings.Cut(acl, "user "+NameLeader+"\n")
	_, after, _ = strings.Cut(after, " prefdt/")
	fleet, _, _ := strings.Cut(after, "/")
	if !telemetry.ValidID(fleet) {
		return ""
	}
	return fleet
}
