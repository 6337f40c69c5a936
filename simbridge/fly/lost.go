package fly

import (
	"fmt"
	"strings"
	"time"
)

// Attached autopilots may be lost in flight. The leader then flies on with the
// others, and so does this flight: it ends with an error, and its report.

// logLost logs autopilots that were lost since the last call.
func (f *flight) logLost() {
	for _, n := range f.fleet.findLost(time.Now()) {
		f.log.Error("autopilot lost", "aircraft", n, "system", f.Aircraft[n-1].SystemID, "slot", f.observer.lastSlot(),
			"state", f.observer.status().State)
		f.view.printLine(fmt.Sprintf("aircraft %d, %s: no HEARTBEAT for 10 s", n, f.fleet.nameOf(n-1)))
	}
}

// lostError is the error with which a flight ends that lost autopilots, nil without one.
func (f *flight) lostError() error {
	var names []string
	for i := range f.Aircraft {
		if f.fleet.isLost(i) {
			names = append(names, fmt.Sprintf("aircraft %d (%s)", i+1, f.fleet.nameOf(i)))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("lost in flight, no HEARTBEAT for 10 s: %s", strings.Join(names, ", "))
}
