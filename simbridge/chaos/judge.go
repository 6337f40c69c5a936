package chaos

import (
	"fmt"
	"math"
	"sync"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/inference/physics"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/geo"
)

// judge looks at what the autopilots receive, and at nothing else of the
// leader's. Times are mission seconds.
type judge struct {
	physics physics.Constants
	altM    float64 // H
	latentS float64 // how old what the leader knows may be: links, scheduling

	mutex  sync.Mutex
	craft  []seen
	unsafe map[string]int // by what was wrong
	first  string         // the first of them, in full
	leastM float64        // horizontal, in the air
}

// seen is what an aircraft was told last.
type seen struct {
	body     autopilot.Body
	inAir    bool
	offboard bool // flies by setpoints
	setAtS   float64
	wish     geo.Local // metres in the coming second
	velocity geo.Local // of the setpoint
	sinceS   float64   // it has been this one
	handsOff bool      // a pilot's, or rebooted: nobody may touch it
	offS     float64   // since when
	meetS    float64   // asked for what would come too close since; +Inf not
	groundS  float64   // standing with motors off since; -1 not
}

const (
	speedSlackMPS = 0.05
	fenceSlackM   = 0.5
	bandM         = 20
	staleS        = 2   // time to live
	tickS         = 0.1 // between setpoints
)

func newJudge(p physics.Constants, aircraft int, speed float64) *judge {
	j := &judge{physics: p, altM: p.AltitudeM, latentS: 0.1 + 0.01*speed, unsafe: map[string]int{}, leastM: math.Inf(1)}
	j.craft = make([]seen, aircraft)
	for i := range j.craft {
		j.craft[i].meetS = math.Inf(1)
	}
	return j
}

func (j *judge) bad(what string, format string, args ...any) {
	if j.unsafe[what] == 0 && j.first == "" {
		j.first = what + ": " + fmt.Sprintf(format, args...)
	}
	j.unsafe[what]++
}

// handsOff says that from now on, until the crew resumes, an aircraft is nobody's.
func (j *judge) handsOff(i int, nowS float64) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.craft[i].handsOff, j.craft[i].offS = true, nowS
}

// resumed says that the crew asked for every aircraft back.
func (j *judge) resumed() {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	for i := range j.craft {
		j.craft[i].handsOff = false
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
			j.bad("separation", "aircraft %d and %d are %.1f m apart", i+1, k+1, d)
		}
	}
}

// heard takes a setpoint or command in, as the vehicle received it.
func (j *judge) heard(i int, h autopilot.Heard) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	c := &j.craft[i]
	late := c.handsOff && h.TimeS > c.offS+1+j.latentS // a mode is known by the heartbeat, once a second
	if h.Setpoint == nil {
		if late {
			switch h.Command {
			case common.MAV_CMD_COMPONENT_ARM_DISARM, common.MAV_CMD_DO_SET_MODE, common.MAV_CMD_NAV_TAKEOFF,
				common.MAV_CMD_NAV_LAND, common.MAV_CMD_NAV_RETURN_TO_LAUNCH:
				j.bad("pilot", "aircraft %d is not ours since %.1f s, and gets command %d %v at %.1f s", i+1, c.offS, h.Command, h.Param[:3], h.TimeS)
			}
		}
		return
	}
	if late {
		j.bad("pilot", "aircraft %d is not ours since %.1f s, and gets a setpoint at %.1f s", i+1, c.offS, h.TimeS)
	}
	// A pilot's aircraft gets none, and neither does one that stands.
	if h.Armed || !h.Landed {
		c.groundS = -1
	} else if c.groundS < 0 {
		c.groundS = h.TimeS
	} else if h.TimeS > c.groundS+1+j.latentS {
		j.bad("ground", "aircraft %d stands with its motors off since %.1f s, and gets a setpoint at %.1f s", i+1, c.groundS, h.TimeS)
	}
	j.setpoint(i, h)
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
	// A leg's feed-forward is one slot's: the same one for longer than its time
	// to live is a leader that no longer decides.
	if v != c.velocity || h.TimeS-c.setAtS > 0.5 {
		c.sinceS = h.TimeS
	}
	if horizontal(v) > 0.01 && h.TimeS-c.sinceS > staleS+j.latentS {
		j.bad("stale", "aircraft %d is asked for the same velocity since %.1f s", i+1, h.TimeS-c.sinceS)
	}
	c.velocity, c.setAtS = v, h.TimeS
	c.wish = add(sub(p, h.Position), v)
	if s := horizontal(c.wish); s > vmax+vmax*j.latentS {
		j.bad("speed", "aircraft %d is to be %.1f m away in a second", i+1, s)
	}
	j.meet(i, h)
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
		if h.TimeS-c.meetS > 1.5*tickS {
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
