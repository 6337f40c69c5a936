package real

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A real PX4 is asked how it boots, in real time, and does as was measured.
func TestRealProbe(t *testing.T) {
	if testing.Short() {
		t.Skip("it flies in real time")
	}
	t.Chdir("../..")
	builds := cmp.Or(os.Getenv("PREFDT_SITL"), "../shared/sitl")
	for name, how := range map[string]string{filepath.Join(builds, "px4/bin/px4"): "PREFDT_SITL names the folder of SITL builds",
		"bin/simbridge": "make build", "bin/leader": "make build", "bin/ground": "make build"} {
		if _, err := os.Stat(name); err != nil {
			t.Skipf("%v: %s", err, how)
		}
	}
	if out, err := exec.Command("unshare", "-rn", "true").CombinedOutput(); err != nil {
		t.Skipf("no network of its own here: %v: %s", err, out)
	}
	command := exec.CommandContext(t.Context(), "bin/simbridge", "real", "-probes", "-autopilot", "px4", "-only", "boot", "-out",
		t.TempDir())
	command.Env = append(os.Environ(), "PREFDT_SITL="+builds)
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
