package telemetry

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestTopics(t *testing.T) {
	topics, err := NewTopics("f-1")
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		topic string
		kind  Kind
		id    string
	}{
		{"prefdt/f-1/slot", KindSlot, ""},
		{"prefdt/f-1/status", KindStatus, ""},
		{"prefdt/f-1/online", KindOnline, ""},
		{"prefdt/f-1/users/u.7/report", KindReport, "u.7"},
		{"prefdt/f-1/users/u.7/decision", KindDecision, "u.7"},
		{"prefdt/f-1/users/u.7/result", KindResult, "u.7"},
		{"prefdt/f-1/command/budget", KindBudget, ""},
		{"prefdt/f-1/command/preference", KindPreference, ""},
		{"prefdt/f-1/command/mission", KindMission, ""},
		{"prefdt/f-1/ack/b1", KindAck, "b1"},
		{"prefdt/f-1/crew/crew-1/heartbeat", KindHeartbeat, "crew-1"},
		{"prefdt/f-1/aircraft/12/worker", KindWorker, "12"},
		{"prefdt/f-1/aircraft/65/worker", "", ""},
		{"prefdt/f-1/aircraft/012/worker", "", ""},
		{"prefdt/f-1/aircraft/u1/worker", "", ""},
		{"prefdt/f-1/hello", KindHello, ""},
		{"prefdt/f-1/proof", KindProof, ""},
		{"prefdt/f-1/crew//heartbeat", "", ""},
		{"prefdt/f-1/crew/a/b/heartbeat", "", ""},
		{"prefdt/f-1/crew/heartbeat", "", ""},
		{"prefdt/f-1/crew/crew-1/beat", "", ""},
		{"prefdt/f-2/slot", "", ""},
		{"prefdt/f-1/users/u/7/report", "", ""},
		{"prefdt/f-1/users//report", "", ""},
		{"prefdt/f-1/users/u", "", ""},
		{"prefdt/f-1/users/" + strings.Repeat("u", 65) + "/report", "", ""},
		{"prefdt/f-1/command/", "", ""},
		{"prefdt/f-1/command/reboot", "", ""},
		{"prefdt/f-1/ack/", "", ""},
		{"prefdt/f-1/ack/a b", "", ""},
		{"prefdt/f-1/slot/", "", ""},
		{"prefdt/f-1", "", ""},
		{"", "", ""},
	}
	for _, c := range cases {
		kind, id, ok := topics.Parse(c.topic)
		if kind != c.kind || id != c.id || ok != (c.kind != "") {
			t.Errorf("%s: %s %q %v", c.topic, kind, id, ok)
		}
	}
	for _, fleet := range []string{"", "a/b", "+", "#", "fleet one", "ä", strings.Repeat("f", 65)} {
		if _, err := NewTopics(fleet); err == nil {
			t.Errorf("fleet %q was accepted", fleet)
		}
	}
}

func TestRejectsKeepABoundedNumberOfKinds(t *testing.T) {
	log, lines := logLines()
	r := &RejectCounter{Log: log}
	for i := range 2 * maxRejectKinds {
		r.Add("t", errors.New(fmt.Sprint("kind ", i)))
		r.Add("t", &InvalidError{"same", fmt.Sprint("text ", i)})
	}
	counts := r.Counts()
	if len(counts) != maxRejectKinds+1 || counts["same"] != 2*maxRejectKinds || r.Total() != 4*maxRejectKinds || len(lines) != len(counts) {
		t.Errorf("%d kinds, %d the same, %d in all, %d lines", len(counts), counts["same"], r.Total(), len(lines))
	}
}

// A configuration for several clients has each one's name in its place.
func TestBrokerFor(t *testing.T) {
	b := Broker{URL: "tls://h/{user}", Username: "{user}", PasswordFile: "p/{user}", CA: "{user}", Cert: "tls/{user}.crt",
		Key: "tls/{user}.key"}
	want := Broker{URL: "tls://h/{user}", Username: "u01", PasswordFile: "p/u01", CA: "{user}", Cert: "tls/u01.crt", Key: "tls/u01.key"}
	if got := b.For("u01"); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}
