package fly

import (
	"io"
	"strings"
	"testing"

	"prefdt/simbridge/simnet"
)

// A flight for which nobody takes off is none: it fails, and says why.
func TestFlightOfNobodyFails(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c := flightInMemory(t, 30)
		c.Parameters["COM_DISARM_PRFLT"] = 0.1 // disarmed before it can leave the ground
		err := Run(t.Context(), c, io.Discard)
		if err == nil {
			t.Fatal("it ends without an error")
		}
		// Whether a HEARTBEAT falls into the tenth of a second in which one is armed is chance.
		reason := strings.Replace(err.Error(), "disarmed while climbing", "not armed in 10 s", 1)
		if !strings.Contains(reason, "none of 30 slots was flown") ||
			!strings.Contains(reason, "no aircraft took off: aircraft 1: not armed in 10 s") {
			t.Errorf("it ends with %v", err)
		}
	})
}
