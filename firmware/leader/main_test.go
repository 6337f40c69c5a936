package leader_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain has more tests beside each other than there are processors: those in real time wait for most of theirs, and the
// flights in virtual time compute meanwhile.
func TestMain(m *testing.M) {
	flag.Parse()
	if at := flag.Lookup("test.parallel"); at.Value.String() == at.DefValue {
		flag.Set("test.parallel", "8")
	}
	os.Exit(m.Run())
}
