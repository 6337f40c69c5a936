package fleet

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// docs/hardware.md tells an integrator the parameters that the leader reads, as they are here.
func TestParameterTableInDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/hardware.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i, p := range parameterTable {
		needed := ""
		if i < requiredParameters {
			needed = "yes"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", p.name, p.want, p.what, needed)
	}
	if !strings.Contains(string(page), want.String()) {
		t.Errorf("the table should be\n%s", want.String())
	}
}
