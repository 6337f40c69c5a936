package fleet

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

// TestMain has flights in virtual time take turns on one processor, as firmware/leader does, and the collector run less often.
func TestMain(m *testing.M) {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
