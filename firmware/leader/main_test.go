package leader_test

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

// TestMain has more tests beside each other than there are processors: those in real time wait for most of theirs, and the
// flights in virtual time compute meanwhile. A flight's goroutines take turns: a second processor has little to run, and to wake it
// takes a third of a flight's time. `make race` sets GOMAXPROCS, and looks at them side by side.
func TestMain(m *testing.M) {
	flag.Parse()
	if at := flag.Lookup("test.parallel"); at.Value.String() == at.DefValue {
		flag.Set("test.parallel", "4")
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	debug.SetGCPercent(400) // flights allocate much and keep little
	os.Exit(m.Run())
}
