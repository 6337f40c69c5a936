package probe

import (
	"io"
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
