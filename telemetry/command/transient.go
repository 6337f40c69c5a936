package command

import (
	"fmt"
	"slices"
	"strings"
)

// Transient reports whether a start or launch that was refused for a reason may be accepted
// later by itself. What is not known yet of an aircraft arrives with time; the reasons listed
// here last until a person removes them. They are parts of the leader's refusals.
func Transient(reason string) bool {
	if strings.Contains(reason, "not read") { // and names the parameters, which are listed below too
		return true
	}
	return !slices.ContainsFunc([]string{
		"the mission is", // in another state
		"unsafe", "COM_", // failsafe parameters
		"apart", "from its start", "altitude", "in the air", "is armed", "outside the area", "hovers", // places
		"this fleet has", "only PX4", "batteries", "change its battery", "the budget is", "unsigned", "signature", "key \"",
	}, func(lasting string) bool { return strings.Contains(reason, lasting) })
}

// Waiting is a transient refusal as progress of a fleet of so many aircraft: the leader checks
// them in their order, so that those before the one it names are ready.
func Waiting(reason string, aircraft int) string {
	_, cause, found := strings.Cut(reason, ": ")
	if !found {
		cause = reason
	}
	cause, _, _ = strings.Cut(cause, ";") // what a person would do next
	number := 1
	fmt.Sscanf(cause, "aircraft %d", &number)
	return fmt.Sprintf("waiting for autopilots (%d of %d ready): %s", min(max(number-1, 0), aircraft), aircraft, cause)
}
