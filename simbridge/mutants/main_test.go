package mutants

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain has the collector run less often: hundreds of packages are parsed and checked, and little of them is kept.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
