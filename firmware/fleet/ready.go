package fleet

import (
	"errors"
	"fmt"
	"math"
)

// Tolerances of an aircraft that takes off (docs/wire.md).
const (
	groundMaxUpM       = 20.0 // from the origin's altitude
	clockRateTolerance = 0.05 // of its clock from the mission's
)

// WithPilot is whether it is under pilot control.
func (v *View) WithPilot() bool { return v.Phase == PhasePilot }

// UnderCommand is whether it has the order to fly, is not under pilot control, and is
// not lost.
func (v *View) UnderCommand() bool { return v.Order == OrderFly && !v.WithPilot() && !v.Lost }

// Ready returns what keeps an aircraft from taking off, by its own reports.
func (v *View) Ready() error {
	switch {
	case !v.Received:
		return errors.New("nothing was received from it yet")
	case !v.Fresh:
		return fmt.Errorf("no position or HEARTBEAT for %.0f s", v.AgeS)
	case !v.Params.Complete():
		return errors.New(v.Params.UnsafeReason())
	case v.Armed || v.InAir:
		return fmt.Errorf("is armed, in %s; want it on the ground with its motors off", v.Mode)
	case !v.OnGround:
		return errors.New("does not report that it is on the ground (EXTENDED_SYS_STATE)")
	case math.Abs(v.UpM) > groundMaxUpM:
		return fmt.Errorf("is %.0f m above the origin's altitude, want within %v m: is the origin right?", v.UpM, groundMaxUpM)
	case math.IsNaN(v.ClockRate):
		return errors.New("was received for less than the 5 s that readiness takes")
	case math.Abs(v.ClockRate-1) > clockRateTolerance:
		return fmt.Errorf("its clock runs at %.3f of the mission's, want within %v %%", v.ClockRate, 100*clockRateTolerance)
	case len(v.UnmeteredBatteries()) > 0:
		return fmt.Errorf("reports batteries with the ids %v beside the one that is metered, id 0", v.UnmeteredBatteries())
	case v.PreArm.Known && !v.PreArm.OK:
		if v.Reason != "" {
			return fmt.Errorf("its pre-arm checks fail: %s", v.Reason)
		}
		return errors.New("its pre-arm checks fail")
	}
	return nil
}
