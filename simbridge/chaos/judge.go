package chaos

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/inference/physics"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/geo"
)

// judge looks at what the autopilots receive, and at nothing else of the
// leader's. Times are mission seconds of the vehicle that received it.
//
// What is late is late by the contract: latentS is a setpoint's period and 10 ms
// of wall time for the links and the leader's own work. A pilot's act counts
// from the first HEARTBEAT in time that showed it. Where that is passed, and
// only there, what the machine itself was measured to have held up is added.
type judge struct {
	physics physics.Constants
	altM    float64 // H
	latentS float64
	// host returns how long the machine held programs up between two moments of
	// a vehicle's time, in mission seconds.
	host func(aircraft int, fromS, toS float64) float64

	mutex    sync.Mutex
	craft    []seen
	unsafe   map[string]int // by what was wrong
	first    string         // the first of them, in full
	leastM   float64        // horizontal, in the air
	excused  int            // late, but not by more than was measured
	excusedS float64        // the longest of them
}

// seen is what an aircraft was told last.
type seen struct {
	body     autopilot.Body
	inAir    bool
	offboard bool // flies by setpoints
	setAtS   float64
	wish     geo.Local // metres in the coming second
	velocity geo.Local // of the setpoint
	target   geo.Local
	sinceS   float64 // it has been this one
	meetS    float64 // asked for what would come too close since; +Inf not

	pilot     *act    // a pilot's, or rebooted: nobody may touch it; nil: the leader's
	beatS     float64 // the last HEARTBEAT in time; -1 before
	disarmedS float64 // the first of those in a row that said disarmed; -1: the last one did not
	backS     float64 // the leader came back, knowing nothing
	streamS   float64 // since then the stream must not stop, whatever HEARTBEATs do; +Inf: it may
	order     order
}

// act is what somebody other than the leader did to an aircraft.
type act struct {
	sinceS float64
	shows  func(autopilot.Heartbeat) bool // whether a HEARTBEAT tells of it
	knownS float64                        // one did; +Inf: none yet
}

// order is the crew's to take off.
type order struct {
	open      bool
	firstS    float64 // arming was asked for; +Inf: not yet
	armed     bool    // a HEARTBEAT said so
	disarmedS float64 // and a later one that it is not any more; +Inf: none
	endS      float64 // the crew ended it; +Inf: it did not
}

const (
	speedSlackMPS = 0.05
	fenceSlackM   = 0.5
	bandM         = 20
	staleS        = 2   // time to live
	tickS         = 0.1 // between setpoints
	armS          = 10  // arming is asked for, for each order
	deafS         = 10  // setpoints go on without a HEARTBEAT
	gapS          = 1   // between setpoints, at most, while positions go on
)

func newJudge(p physics.Constants, aircraft int, speed float64) *judge {
	j := &judge{
		physics: p, altM: p.AltitudeM, latentS: 0.1 + 0.01*speed, unsafe: map[string]int{}, leastM: math.Inf(1),
		host: func(int, float64, float64) float64 { return 0 },
	}
	j.craft = make([]seen, aircraft)
	for i := range j.craft {
		j.craft[i] = seen{meetS: math.Inf(1), beatS: -1, disarmedS: -1, streamS: math.Inf(1), setAtS: math.Inf(-1)}
	}
	return j
}

func (j *judge) bad(what string, format string, args ...any) {
	if j.unsafe[what] == 0 && j.first == "" {
		j.first = what + ": " + fmt.Sprintf(format, args...)
	}
	j.unsafe[what]++
}

// late tells whether a moment is past what is allowed after another one, with
// what the machine held up in between.
func (j *judge) late(i int, fromS, allowedS, nowS float64) bool {
	by := nowS - fromS - allowedS - j.latentS
	if !(by > 0) {
		return false
	}
	if by > j.host(i, fromS, nowS) {
		return true
	}
	j.excused++
	j.excusedS = max(j.excusedS, by)
	return false
}

// taken says that from now on an aircraft is its pilot's. A HEARTBEAT that shows
// it tells the leader.
func (j *judge) taken(i int, nowS float64, shows func(autopilot.Heartbeat) bool) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.craft[i].pilot = &act{sinceS: nowS, shows: shows, knownS: math.Inf(1)}
}

// theirs tells whether an aircraft is its pilot's.
func (j *judge) theirs(i int) bool {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.craft[i].pilot != nil
}

// knownArmed tells whether a HEARTBEAT said that an aircraft armed as ordered.
func (j *judge) knownArmed(i int) bool {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.craft[i].order.armed
}

// given says that the crew gave aircraft to the leader: with arm, on the ground,
// to take off. What it returns takes that back, for an order that was refused.
func (j *judge) given(numbers []int, arm bool) (undo func()) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	before := slices.Clone(j.craft)
	for _, i := range numbers {
		c := &j.craft[i]
		if c.pilot = nil; arm {
			c.order = order{open: true, firstS: math.Inf(1), disarmedS: math.Inf(1), endS: math.Inf(1)}
		}
	}
	return func() {
		j.mutex.Lock()
		defer j.mutex.Unlock()
		for _, i := range numbers {
			if c := &j.craft[i]; c.pilot == nil {
				c.pilot = before[i].pilot
			}
			if arm {
				j.craft[i].order = before[i].order
			}
		}
	}
}

// ordersEnd says that the crew wants nobody to take off any more.
func (j *judge) ordersEnd(nowS []float64) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	for i := range j.craft {
		j.craft[i].order.endS = min(j.craft[i].order.endS, nowS[i])
	}
}

// leaderBack says that the leader runs again: what it missed it does not know.
func (j *judge) leaderBack(i int, nowS float64) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.craft[i].backS = nowS
}

// mustStream says that from a time on the stream to an aircraft must not stop.
func (j *judge) mustStream(i int, fromS float64) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.craft[i].streamS = fromS
}

// mayEnd says that the stream may stop again. One that is still led must not
// have until then.
func (j *judge) mayEnd(i int, led bool, nowS float64) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	c := &j.craft[i]
	if led && c.offboard && c.pilot == nil {
		j.gap(i, nowS)
	}
	c.streamS = math.Inf(1)
}

// gap judges the time since the last setpoint.
func (j *judge) gap(i int, nowS float64) {
	c := &j.craft[i]
	if !(c.setAtS >= max(c.streamS, c.backS)) {
		return
	}
	if j.late(i, c.setAtS, gapS, nowS) {
		j.bad("gap", "aircraft %d got no setpoint from %.1f to %.1f s, while positions went on and HEARTBEATs were lost", i+1, c.setAtS, nowS)
	}
}

// String is where an aircraft is and what it was asked for.
func (c *seen) String() string {
	p, v := c.body.Position, c.body.Velocity
	return fmt.Sprintf("one at (%.1f, %.1f, %.1f) m flies (%.1f, %.1f, %.1f) m/s, by setpoints %v, asked for (%.1f, %.1f) m in a second at %.1f s, its pilot's %v",
		p.EastM, p.NorthM, p.UpM, v.EastM, v.NorthM, v.UpM, c.offboard, c.wish.EastM, c.wish.NorthM, c.setAtS, c.pilot != nil)
}

// beat takes a HEARTBEAT in that left in time.
func (j *judge) beat(i int, h autopilot.Heartbeat) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	c := &j.craft[i]
	c.beatS = h.TimeS
	switch {
	case h.Armed:
		c.disarmedS, c.order.armed = -1, true
	case c.disarmedS < 0:
		c.disarmedS = h.TimeS
	}
	if c.order.open && c.order.armed && !h.Armed {
		c.order.disarmedS = min(c.order.disarmedS, h.TimeS)
	}
	if p := c.pilot; p != nil && h.TimeS >= p.sinceS && p.shows(h) {
		p.knownS = min(p.knownS, h.TimeS)
	}
}

// moved takes an aircraft's true motion in.
func (j *judge) moved(i int, b autopilot.Body) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	c := &j.craft[i]
	c.body, c.inAir = b, b.Position.UpM > 1
	if s := b.SpeedMPS(); s > j.physics.SpeedMaxMPS+0.5 {
		j.bad("speed", "aircraft %d flies at %.1f m/s", i+1, s)
	}
	for k := range j.craft {
		o := &j.craft[k]
		if k == i || !c.inAir || !o.inAir || math.Abs(b.Position.UpM-o.body.Position.UpM) > j.physics.SeparationM {
			continue
		}
		d := horizontal(sub(b.Position, o.body.Position))
		j.leastM = min(j.leastM, d)
		if d < j.physics.SeparationM-fenceSlackM && (c.offboard || o.offboard) {
			j.bad("separation", "aircraft %d and %d are %.1f m apart: %s, %s", i+1, k+1, d, c, o)
		}
	}
}

// heard takes a setpoint or command in, as the vehicle received it.
func (j *judge) heard(i int, h autopilot.Heard) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	c := &j.craft[i]
	taken := func() bool { return c.pilot != nil && j.late(i, max(c.pilot.knownS, c.backS), 0, h.TimeS) }
	if h.Setpoint == nil {
		if h.Command == common.MAV_CMD_COMPONENT_ARM_DISARM && h.Param[0] == 1 {
			j.arm(i, h.TimeS)
		}
		switch h.Command {
		case common.MAV_CMD_COMPONENT_ARM_DISARM, common.MAV_CMD_DO_SET_MODE, common.MAV_CMD_NAV_TAKEOFF,
			common.MAV_CMD_NAV_LAND, common.MAV_CMD_NAV_RETURN_TO_LAUNCH:
			if taken() {
				j.bad("pilot", "aircraft %d is not ours since %.1f s, as was known at %.1f s, and gets command %d %v in %s at %.1f s",
					i+1, c.pilot.sinceS, c.pilot.knownS, h.Command, h.Param[:3], h.Mode, h.TimeS)
			}
		}
		return
	}
	if taken() {
		j.bad("pilot", "aircraft %d is not ours since %.1f s, as was known at %.1f s, and gets a setpoint in %s at %.1f s",
			i+1, c.pilot.sinceS, c.pilot.knownS, h.Mode, h.TimeS)
	}
	if !h.Armed && h.Landed && c.disarmedS >= 0 && j.late(i, max(c.disarmedS, c.backS), 0, h.TimeS) {
		j.bad("ground", "aircraft %d stands with its motors off, as was known at %.1f s, and gets a setpoint at %.1f s", i+1, c.disarmedS, h.TimeS)
	}
	if c.beatS >= 0 && j.late(i, max(c.beatS, c.backS), deafS, h.TimeS) {
		j.bad("deaf", "aircraft %d sent no HEARTBEAT since %.1f s, and gets a setpoint at %.1f s", i+1, c.beatS, h.TimeS)
	}
	if c.offboard && h.Mode == autopilot.ModeOffboard && c.pilot == nil {
		j.gap(i, h.TimeS)
	}
	j.setpoint(i, h)
}

// arm judges that arming is asked for: once the crew ordered it, for a while,
// and not after the motors ran and were stopped.
func (j *judge) arm(i int, nowS float64) {
	o := &j.craft[i].order
	switch {
	case !o.open:
		j.bad("arm", "aircraft %d is to arm at %.1f s, which nobody ordered", i+1, nowS)
	case j.late(i, max(o.endS, j.craft[i].backS), 0, nowS):
		j.bad("arm", "aircraft %d is to arm at %.1f s, after the crew ended its order at %.1f s", i+1, nowS, o.endS)
	case j.late(i, max(o.disarmedS, j.craft[i].backS), 0, nowS):
		j.bad("arm", "aircraft %d is to arm again at %.1f s, and was disarmed at %.1f s", i+1, nowS, o.disarmedS)
	case j.late(i, o.firstS, armS, nowS):
		j.bad("arm", "aircraft %d is to arm at %.1f s, first at %.1f s, and the order holds for %d s", i+1, nowS, o.firstS, armS)
	}
	o.firstS = min(o.firstS, nowS)
}

func (j *judge) setpoint(i int, h autopilot.Heard) {
	c, p, v := &j.craft[i], h.Setpoint.Position, h.Setpoint.Velocity
	c.offboard = h.Mode == autopilot.ModeOffboard
	vmax := j.physics.SpeedMaxMPS
	for _, x := range []float64{p.EastM, p.NorthM, p.UpM, v.EastM, v.NorthM} {
		if math.IsNaN(x) {
			j.bad("incomplete", "aircraft %d gets %+v", i+1, *h.Setpoint)
			return
		}
	}
	if s := horizontal(v); s > vmax+speedSlackMPS {
		j.bad("speed", "aircraft %d is asked for %.2f m/s", i+1, s)
	}
	if a := j.physics.AreaM; p.EastM < -fenceSlackM || p.EastM > a+fenceSlackM || p.NorthM < -fenceSlackM || p.NorthM > a+fenceSlackM {
		j.bad("fence", "aircraft %d is sent to (%.1f, %.1f)", i+1, p.EastM, p.NorthM)
	}
	if math.Abs(p.UpM-j.altM) > bandM {
		j.bad("altitude", "aircraft %d is sent to %.1f m", i+1, p.UpM)
	}
	// A leg is one slot's: the same target and feed-forward for longer than its
	// time to live is a leader that no longer decides. On the way to a point the
	// target moves with the aircraft.
	if v != c.velocity || p != c.target || h.TimeS-c.setAtS > 0.5 {
		c.sinceS = h.TimeS
	}
	if horizontal(v) > 0.01 && j.late(i, c.sinceS, staleS, h.TimeS) {
		j.bad("stale", "aircraft %d is asked for the same velocity since %.1f s", i+1, h.TimeS-c.sinceS)
	}
	c.velocity, c.target, c.setAtS = v, p, h.TimeS
	c.wish = add(sub(p, h.Position), v)
	if s := horizontal(c.wish); s > vmax*(1+j.latentS) && !j.held(i, h.TimeS, s/vmax-1-j.latentS) {
		j.bad("speed", "aircraft %d is to be %.1f m away in a second", i+1, s)
	}
	j.meet(i, h)
}

// held tells whether the machine held up, in the last two seconds, what a
// setpoint would have to have been late by. That long a decision is followed.
func (j *judge) held(i int, nowS, byS float64) bool {
	if byS > j.host(i, nowS-staleS, nowS) {
		return false
	}
	j.excused++
	j.excusedS = max(j.excusedS, byS)
	return true
}

// meet looks where an aircraft and the others are asked to be in the coming
// second. The setpoints of one tick arrive one after the other, so that a new
// leg is seen beside another's old one for a moment: what counts is what lasts
// beyond the next tick.
func (j *judge) meet(i int, h autopilot.Heard) {
	c := &j.craft[i]
	for k := range j.craft {
		o := &j.craft[k]
		if k == i || !o.inAir || math.Abs(h.Position.UpM-o.body.Position.UpM) > j.physics.SeparationM {
			continue
		}
		theirs := o.body.Velocity
		if h.TimeS-o.setAtS < 0.5 && o.offboard {
			theirs = o.wish
		}
		apart, closing := sub(h.Position, o.body.Position), sub(c.wish, theirs)
		d := closest(apart, closing)
		if d >= j.physics.SeparationM-fenceSlackM-j.latentS*horizontal(closing) {
			c.meetS = math.Inf(1)
			continue
		}
		c.meetS = min(c.meetS, h.TimeS)
		if lasts := h.TimeS - c.meetS - 1.5*tickS; lasts > 0 && !j.held(i, h.TimeS, min(lasts, (j.physics.SeparationM-fenceSlackM-d)/horizontal(closing)-j.latentS)) {
			j.bad("separation", "aircraft %d and %d, %.1f m apart, are to close in at %.1f m/s and come within %.1f m (asked for %.1f and %.1f m/s, fly at %.1f and %.1f, in %s) at %.1f s",
				i+1, k+1, horizontal(apart), horizontal(closing), d, horizontal(c.wish), horizontal(theirs), h.SpeedMPS(), o.body.SpeedMPS(), h.Mode, h.TimeS)
		}
	}
}

// closest is the least horizontal distance in the coming second of two that are
// apart and close in at a velocity. Those that part are as far as they are.
func closest(apart, closing geo.Local) float64 {
	dot := apart.EastM*closing.EastM + apart.NorthM*closing.NorthM
	vv := closing.EastM*closing.EastM + closing.NorthM*closing.NorthM
	if dot >= 0 {
		return math.Inf(1)
	}
	t := min(-dot/vv, 1)
	return math.Hypot(apart.EastM+t*closing.EastM, apart.NorthM+t*closing.NorthM)
}

func sub(a, b geo.Local) geo.Local {
	return geo.Local{EastM: a.EastM - b.EastM, NorthM: a.NorthM - b.NorthM, UpM: a.UpM - b.UpM}
}

func add(a, b geo.Local) geo.Local {
	return geo.Local{EastM: a.EastM + b.EastM, NorthM: a.NorthM + b.NorthM, UpM: a.UpM + b.UpM}
}

func horizontal(a geo.Local) float64 { return math.Hypot(a.EastM, a.NorthM) }

// verdict returns how many setpoints and commands were unsafe, and the first.
func (j *judge) verdict() (count int, first string) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	for _, n := range j.unsafe {
		count += n
	}
	return count, j.first
}
