package leader_test

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// TestMain has as many flights at once as there are cores, twice, unless -parallel says
// otherwise: a flight on a [rig.Clock] of its own takes a third of a core and waits for the rest.
func TestMain(m *testing.M) {
	flag.Parse()
	const perCore = 2
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", strconv.Itoa(perCore*runtime.GOMAXPROCS(0)))
	}
	os.Exit(m.Run())
}
