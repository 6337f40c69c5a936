package fly

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/telemetry"
)

// A start is sent again, each time with a new id, while time cures what it is
// refused for; what time does not cure ends the flight with the leader's reason.
func TestStartWaitsForTheLeader(t *testing.T) {
	tool := ground(t)
	const unread = "cannot start: aircraft 1: parameters [COM_OF_LOSS_T] were not read yet"
	for name, c := range map[string]struct {
		refusals []string
		startS   float64
		state    string
		want     string // in the error; empty: it flies
		starts   int    // at least
		most     int    // one a second
	}{
		"not read yet":    {[]string{"cannot start: aircraft 2 was not heard yet", unread}, 30, telemetry.StateIdle, "", 3, 3},
		"never read":      {[]string{unread, unread, unread, unread, unread, unread}, 4.5, telemetry.StateIdle, "were not read yet", 2, 5},
		"unsafe failsafe": {[]string{"cannot start: aircraft 1 has an unsafe failsafe: COM_OBL_RC_ACT is 0"}, 30, telemetry.StateIdle, "COM_OBL_RC_ACT is 0", 1, 1},
		"too near":        {[]string{"cannot start: aircraft 1 and 2 are 3.0 m apart, want at least 10"}, 30, telemetry.StateIdle, "3.0 m apart", 1, 1},
		"not idle":        {nil, 30, telemetry.StateDone, "is done, want idle", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf, links := testConfig(t)
			conf.Ground, conf.StartRetryS = []string{tool}, c.startS
			conf.Commands = []Command{{-1, []string{"mission", "start"}}}
			if c.state != telemetry.StateIdle {
				conf.TimeoutS = 6 // no longer than the others take
			}
			leader := &standInLeader{T: t, url: "tcp://" + conf.Broker.Listen, linkAddresses: links, slots: 6, slotMS: 50, refusals: c.refusals, state: c.state}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() { leader.run(ctx); close(done) }()
			var out bytes.Buffer
			err := Run(context.Background(), conf, &out)
			cancel()
			<-done
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q\n%s", err, c.want, out.String())
			}
			if n := len(leader.starts); n < c.starts || n > c.most {
				t.Errorf("%d starts with ids of their own, want %d to %d", n, c.starts, c.most)
			}
			if _, err := os.Stat(filepath.Join(conf.Out, "summary.json")); (err == nil) != (c.want == "") {
				t.Errorf("summary: %v", err)
			}
		})
	}
}

// What a leader says that its time mends, and what a person must.
func TestTimeCures(t *testing.T) {
	for reason, want := range map[string]bool{
		"cannot start: aircraft 1 was not heard yet":                                                    true,
		"cannot start: aircraft 1: no position or heartbeat for 3 s":                                    true,
		"cannot start: aircraft 2: parameters [COM_OF_LOSS_T MPC_XY_VEL_MAX] were not read yet":         true,
		"cannot start: aircraft 2: its pre-arm checks fail: heading estimate not stable":                true,
		"cannot start: aircraft 2: its clock runs at 0.900 of the mission's, want within 5 %":           true, // measured over a second at first
		"cannot start: aircraft 2: is armed, in POSCTL; want it on the ground with its motors off":      false,
		"cannot start: aircraft 1 has an unsafe failsafe: COM_OBL_RC_ACT is 0, want 5 (Hold)":           false,
		"cannot start: aircraft 1 and 2 are 3.0 m apart, want at least 10":                              false,
		"cannot start: aircraft 1 is 400 m from its start, want at most 200":                            false,
		"cannot start: the mission is done, which accepts resume, clear, new":                           false,
		"a command without a signature, which commands.unsigned does not allow; unsigned is not obeyed": false,
	} {
		if isTransient(reason) != want {
			t.Errorf("%q: %v", reason, !want)
		}
	}
}
