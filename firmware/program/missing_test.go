package program_test

import (
	"path/filepath"
	"strings"
	"testing"

	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// One link's port that another program has, a record that cannot be written, and a worker's key that is not there keep no other aircraft
// on the ground: the leader runs, and its status names the link.
func TestWhatIsMissingKeepsNoOthersDown(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		f := newFlight(t)
		f.rig.Config.RecordFile = filepath.Join(t.TempDir(), "missing", "record")
		f.rig.Config.Aircraft[1].Worker, f.rig.Config.Aircraft[1].GrantKey = "127.0.0.1:7300", filepath.Join(t.TempDir(), "missing")
		taken, err := f.rig.Network.Program("leader").Socket(strings.TrimPrefix(f.rig.Config.Aircraft[1].Endpoint, "udp-listen:"))
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		f.start(0)
		f.rig.Await("one is received, and the other's link named", func(s telemetry.Status) bool {
			return s.Aircraft[0].AgeS != nil && *s.Aircraft[0].AgeS < 1 && strings.Contains(s.Aircraft[1].Reason, "address already in use")
		})
	})
}
