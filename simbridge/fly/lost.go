package fly

import (
	"fmt"
	"strings"
	"time"
)

// Attached autopilots may be lost in flight. The leader then flies on with the
// others, and so does this flight: it ends with an error, and its report.

// noteLost logs autopilots that were lost, and reports whether any is left.
func (f *flight) noteLost() bool {
	numbers, left := f.fleet.findLost(time.Now())
	for _, n := range numbers {
		status, _, slot, _ := f.observer.latest()
		text := fmt.Sprintf("aircraft %d, PX4 system %d: no HEARTBEAT for 10 s", n, f.Aircraft[n-1].SystemID)
		f.log.Error("autopilot lost", "aircraft", n, "system", f.Aircraft[n-1].SystemID, "slot", slot, "state", status.State)
		f.view.printLine(text)
	}
	return left
}

// lostAircraft returns the numbers of the aircraft whose autopilots are lost.
func (f *flight) lostAircraft() (numbers []int) {
	for i := range f.Aircraft {
		if f.fleet.isLost(i) {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// lostError is the error with which a flight ends that lost autopilots, nil without one.
func (f *flight) lostError() error {
	var names []string
	for _, n := range f.lostAircraft() {
		names = append(names, fmt.Sprintf("aircraft %d (PX4 system %d)", n, f.Aircraft[n-1].SystemID))
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("lost in flight, no HEARTBEAT for 10 s: %s", strings.Join(names, ", "))
}
