package main

import (
	"cmp"
	"crypto/ed25519"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// newCrewKey makes a key file and returns the leader's entry for it.
func newCrewKey(t testing.TB) (path string, keys map[string]ed25519.PublicKey) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "crew-1.key")
	line, err := telemetry.NewKey(path)
	if err != nil {
		t.Fatal(err)
	}
	public, err := telemetry.ParsePublicKey(line)
	if err != nil {
		t.Fatal(err)
	}
	return path, map[string]ed25519.PublicKey{"crew-1": public}
}

// A command that the leader finds stale, in its challenge or its counter, is
// signed once more, with the same id and body, and no more than once.
func TestStaleCommandIsSignedAgain(t *testing.T) {
	const stopped = "mission stop accepted from slot 31\nAircraft 1 stays in the air where it is, in its autopilot's Hold, until " +
		"`return` or a pilot. The mission is over.\n"
	for name, c := range map[string]struct {
		shown  string // challenge of the retained status; empty: the leader's
		leader func(l *fakeLeader)
		sent   int
		code   int
		stdout string
		stderr string
	}{
		"the leader restarted since the status": {strings.Repeat("o", 22), func(*fakeLeader) {}, 2, 0,
			stopped, ""},
		"another laptop with the key has a clock an hour ahead": {"", func(l *fakeLeader) { l.lastCounters["crew-1"+"laptop-2"] = 1 << 62 },
			1, 0,
			stopped, ""},
		"always stale": {"", func(l *fakeLeader) { l.alwaysStale = true }, 2, exitRefused, "",
			"ground mission: mission stop refused, also when signed again: the challenge is stale\n"},
	} {
		t.Run(name, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				site := newSite(t)
				path, keys := newCrewKey(t)
				l := startFakeLeader(t, site, keys, c.leader)
				s := exampleStatus(17)
				s.Challenge = cmp.Or(c.shown, l.challenge)
				l.publishStatus(t, s)
				code, stdout, stderr := site.run(t, "mission", "stop", "-id", "s1", "-key", path, "-fleet", "f1", "-broker", site.url,
					"-timeout",
					"60s")
				if code != c.code || stdout != c.stdout || stderr != c.stderr {
					t.Errorf("%d %q %q", code, stdout, stderr)
				}
				var counters []uint64
				for len(l.receivedCommands) > 0 {
					e, err := telemetry.Verify(topics.Mission(), <-l.receivedCommands, keys)
					if err != nil || e.Body != `{"id":"s1","action":"stop"}` {
						t.Errorf("%s, %v", e.Body, err)
					}
					counters = append(counters, e.Counter)
				}
				if len(counters) != c.sent || c.sent == 2 && counters[1] <= counters[0] {
					t.Errorf("counters %d, want %d that rise", counters, c.sent)
				}
			})
		})
	}
}
