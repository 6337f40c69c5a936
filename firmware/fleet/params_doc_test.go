package fleet

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// docs/hardware.md tells an integrator the parameters that the leader reads, as they are here.
func TestParameterTablesInDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/hardware.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []autopilot{px4{}, ardupilot{}} {
		var want strings.Builder
		for _, p := range kind.parameterTable() {
			name, needed := "`"+p.name+"`", ""
			if p.renamed != "" {
				name += " or `" + p.renamed + "`"
			}
			if p.required {
				needed = "yes"
			}
			fmt.Fprintf(&want, "| %s | %s | %s | %s |\n", name, p.want, p.what, needed)
		}
		if !strings.Contains(string(page), want.String()) {
			t.Errorf("the table of %s should be\n%s", kind.traits().name, want.String())
		}
	}
}
