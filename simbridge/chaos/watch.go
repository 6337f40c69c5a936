package chaos

import (
	"math"
	"slices"
	"sync"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/geo"
	"prefdt/telemetry"
)

// watch is what a mission's course depends on beside the crew's messages: when a fault can begin, and
// which aircraft are their pilots'. It judges nothing. Times are mission seconds of the vehicle.
type watch struct {
	mutex    sync.Mutex
	aircraft []watched
	reports  map[reportKey]telemetry.Report // the first valid one of each user and slot
}

// watched is one aircraft.
type watched struct {
	state      autopilot.State
	home       geo.Local // where it took off last
	piloted    bool      // its pilot's, or its autopilot's alone, until the crew gives it back
	offboardS  float64   // in OFFBOARD since; +Inf: it is not
	toldHoldS  float64   // it was last commanded into Hold; -Inf: never
	setpointS  float64   // its last setpoint; -Inf: none
	followedS  float64   // it has followed all setpoints since; +Inf: it does not
	streamed   bool      // a setpoint was received since the order to take off
	shownArmed bool      // by a HEARTBEAT since then
	shownMode  autopilot.Mode
}

// reportKey is a user and the slot of its report.
type reportKey struct {
	user string
	slot int
}

func newWatch(aircraft int) *watch {
	w := &watch{reports: map[reportKey]telemetry.Report{}}
	for range aircraft {
		w.aircraft = append(w.aircraft, watched{offboardS: math.Inf(1), toldHoldS: math.Inf(-1), setpointS: math.Inf(-1),
			followedS: math.Inf(1)})
	}
	return w
}

// of is an aircraft now.
func (w *watch) of(i int) watched {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.aircraft[i]
}

func (w *watch) isPiloted(i int) bool { return w.of(i).piloted }

// take notes that an aircraft is not its leader's from now on.
func (w *watch) take(i int) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.aircraft[i].piloted = true
}

// giveBack notes that the crew gives aircraft back to their leader: with start, on the ground, to take off.
// undo reverts it, for an order that was refused.
func (w *watch) giveBack(numbers []int, start bool) (undo func()) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	before := slices.Clone(w.aircraft)
	for _, i := range numbers {
		a := &w.aircraft[i]
		if a.piloted = false; start {
			a.streamed, a.shownArmed = false, false
		}
	}
	return func() {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		for _, i := range numbers {
			w.aircraft[i].piloted = w.aircraft[i].piloted || before[i].piloted
		}
	}
}

func (w *watch) handleMotion(i int, s autopilot.State, copter bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	a := &w.aircraft[i]
	before := a.state
	a.state = s
	if before.OnGround && !s.OnGround {
		a.home = s.Position
	}
	if s.Mode != autopilot.ModeOffboard || !s.Armed || s.OnGround {
		a.offboardS = math.Inf(1)
	} else {
		a.offboardS = min(a.offboardS, s.TimeS)
	}
	if copter && s.Failsafe && !before.Failsafe { // its failsafe is its pilot, until the crew resumes it
		a.piloted = true
	}
}

// offboardForS is how long an aircraft has been in OFFBOARD for its leader; 0: it is not.
func (a *watched) offboardForS() float64 {
	if a.piloted || math.IsInf(a.offboardS, 1) {
		return 0
	}
	return a.state.TimeS - a.offboardS
}

func (w *watch) handleReceived(i int, r autopilot.Received, copter bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	a := &w.aircraft[i]
	switch {
	case r.Setpoint != nil:
		a.streamed, a.setpointS = true, r.TimeS
		if a.followedS = min(a.followedS, r.TimeS); r.Mode != autopilot.ModeOffboard {
			a.followedS = math.Inf(1)
		}
	case r.Command == common.MAV_CMD_DO_SET_MODE:
		mode := autopilot.Mode(uint32(r.Param[1])<<16 | uint32(r.Param[2])<<24)
		if copter {
			mode, _ = autopilot.CopterMode(uint32(r.Param[1]))
		}
		if mode == autopilot.ModeHold {
			a.toldHoldS = r.TimeS
		}
	}
}

func (w *watch) handleHeartbeat(i int, h autopilot.Heartbeat) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	a := &w.aircraft[i]
	a.shownArmed, a.shownMode = a.shownArmed || h.Armed, h.Mode
}

// outsideByM is how far a position is outside the area; below 0 inside.
func outsideByM(eastM, northM, sideM float64) float64 {
	return max(-eastM, -northM, eastM-sideM, northM-sideM)
}

// descentS is how long a descent from a height takes at the autopilot's rates.
func (f *airframe) descentS(upM float64) float64 {
	return max(upM-f.slowBelowM, 0)/f.descentMPS + min(upM, f.slowBelowM)/min(f.landMPS, f.descentMPS)
}

// armTimeoutS is how long arming is commanded, for each order.
const armTimeoutS = 10

// earlyCPUHz marks this run's reports of slots that are not open yet.
const earlyCPUHz = 1.234e9

func (w *watch) handleReport(user string, r telemetry.Report) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if _, before := w.reports[reportKey{user, r.Slot}]; !before && r.CPUHz != earlyCPUHz {
		w.reports[reportKey{user, r.Slot}] = r
	}
}

// reportOf is the first report of a user in a slot.
func (w *watch) reportOf(user string, slot int) (r telemetry.Report, ok bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	r, ok = w.reports[reportKey{user, slot}]
	return r, ok
}
