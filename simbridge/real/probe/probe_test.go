package probe

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The simulated autopilots do what the real ones were measured to do.
func TestSimulatedAsReal(t *testing.T) {
	real, err := Measured()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range Kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			values, err := FlySimulated(t, kind, Table, t.Output(), io.Discard)
			if err != nil {
				t.Error(err)
			}
			if rows := Compare(kind, Table, real[kind], values); Print(t.Output(), rows) > 0 {
				t.Error("what the simulated autopilot does differs from what the real one did, see the lines with !")
			}
		})
	}
}

// docs/hardware.md says which probe holds which statement: each that it names is in the table, and each of the table is named.
func TestNamedInDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/hardware.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(string(page), "| statement | held by the probe |")
	rows, _, _ = strings.Cut(rows, "\n\n")
	var named, all []string
	for _, row := range strings.Split(rows, "\n") {
		if cells := strings.Split(row, " | "); len(cells) == 2 {
			named = append(named, regexp.MustCompile("`([^`]+)`").FindAllString(cells[1], -1)...)
		}
	}
	for _, p := range Table {
		all = append(all, "`"+p.Name+"`")
	}
	slices.Sort(named)
	slices.Sort(all)
	if !slices.Equal(named, all) {
		t.Errorf("named are %s, the table has %s", named, all)
	}
}
