package fly

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// A start is sent again, each time with a new id, while time cures what it is
// refused for; what time does not cure ends the flight with the leader's reason.
func TestStartWaitsForTheLeader(t *testing.T) {
	t.Parallel()
	const unread = "cannot start: aircraft 1: parameters [COM_OF_LOSS_T] were not read yet"
	for name, c := range map[string]struct {
		refusals []string
		startS   float64
		state    string
		want     string // in the error; empty: it flies
		starts   int    // at least
		most     int    // one a second
	}{
		"not read yet": {[]string{"cannot start: aircraft 2 was not received yet", unread}, 30, telemetry.StateIdle, "", 3, 3},
		"never read":   {[]string{unread, unread, unread, unread, unread, unread}, 4.5, telemetry.StateIdle, "were not read yet", 2, 5},
		"unsafe failsafe": {[]string{"cannot start: aircraft 1 has an unsafe failsafe: COM_OBL_RC_ACT is 0"}, 30, telemetry.StateIdle,
			"COM_OBL_RC_ACT is 0", 1, 1},
		"too near": {[]string{"cannot start: aircraft 1 and 2 are 3.0 m apart, want at least 10"}, 30, telemetry.StateIdle, "3.0 m apart",
			1, 1},
		"not idle": {nil, 30, telemetry.StateDone, "is done, want idle", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				conf, links := testConfig(t)
				conf.StartRetryS = c.startS
				conf.Commands = []Command{{Slot: -1, Args: []string{"mission", "start"}}}
				leader := &standInLeader{T: t, linkAddresses: links, slots: 6, refusals: c.refusals, state: c.state}
				out, err := runStandIn(conf, leader)
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("error %v, want %q\n%s", err, c.want, out)
				}
				if n := len(leader.starts); n < c.starts || n > c.most {
					t.Errorf("%d starts with ids of their own, want %d to %d", n, c.starts, c.most)
				}
				if _, err := os.Stat(filepath.Join(conf.Out, "summary.json")); (err == nil) != (c.want == "") {
					t.Errorf("summary: %v", err)
				}
			})
		})
	}
}
