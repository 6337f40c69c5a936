package probe

import (
	"math"
	"strings"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/simbridge/geo"
)

const (
	cruiseMPS = 8.0
	almostMPS = 0.9 * cruiseMPS
	stillMPS  = 0.5
	halfwayS  = 8.5 // in the middle of a second: where the last target is depends on that
)

func takeOffProbe(s *station) {
	n := len(s.texts)
	armed, answer := s.takeOff()
	s.set("arming", armed)
	s.set("answer", answer)
	began := s.nowS
	s.set("leaves the ground", s.timeUntil(func() bool { return s.at.Position.UpM > 0.5 }, 20))
	if !s.await("15 m", func() bool { return s.at.Position.UpM > 15 }, 40) {
		return
	}
	s.set("mode in the climb", s.mode())
	s.set("landed state in the climb", s.landedState())
	s.set("climb", s.rate(15, 30, 1))
	if s.await("39 m", func() bool { return s.at.Position.UpM > hoverM-1 }, 40) {
		s.set("at 39 m", s.nowS-began)
	}
	s.until(nil, 5)
	s.set("mode at the end", s.mode())
	s.set("height at the end", s.at.Position.UpM)
	s.set("text of arming", s.said(n, "rm"))
	s.set("text of take-off", s.said(n, "akeoff detected"))
}

func (s *station) landedState() string {
	return strings.TrimPrefix(s.landed.String(), "MAV_LANDED_STATE_")
}

// rate is the vertical speed between two heights on the way up (1) or down (-1).
func (s *station) rate(fromM, toM, sign float64) float64 {
	passed := func(m float64) func() bool { return func() bool { return sign*(s.at.Position.UpM-m) > 0 } }
	s.await("the first height", passed(fromM), 120)
	atM, beganS := s.at.Position.UpM, s.nowS
	s.await("the second height", passed(toM), 120)
	return sign * (s.at.Position.UpM - atM) / (s.nowS - beganS)
}

func airModes(s *station) {
	s.set("position", s.setMode(position))
	s.until(nil, 0.3)
	s.setMode(commanded)
	s.set("unknown", s.setMode(unknown))
	s.set("disarm", s.command(common.MAV_CMD_COMPONENT_ARM_DISARM, 0))
	s.set("reboot", s.command(common.MAV_CMD_PREFLIGHT_REBOOT_SHUTDOWN, 1))
	if s.kind == ArduPilot {
		s.set("take-off", s.command(common.MAV_CMD_NAV_TAKEOFF, 0, 0, 0, math.NaN(), 0, 0, hoverM))
	}
	s.set("hold", s.setMode(hold))
	s.set("hold is reported", s.timeUntil(s.is(hold), 3))
	at := s.setpoint
	s.setpoint = nil
	s.until(nil, 3)
	s.set("commanded without setpoints", s.setMode(commanded))
	s.until(nil, 2)
	s.setMode(hold)
	s.setpoint = at
	s.until(nil, 1.5)
	s.set("commanded with setpoints", s.setMode(commanded))
	s.set("commanded is reported", s.timeUntil(s.is(commanded), 3))
}

// way is a flight along a line, east or west: towards home.
type way struct {
	sign   float64
	from   geo.Local
	beganS float64
	turnM  float64 // where it turns back; 0: it does not
}

// gains are those of the position loops, 1/s.
var gains = map[Kind]float64{PX4: 0.95, ArduPilot: 1}

// fly begins a flight at cruise speed, as the leader steers: the target is where it is to be at the end of each second; the
// velocity beside it is less by what the position loop adds for the rest of the way.
func (s *station) fly() *way {
	w := &way{sign: 1, from: s.at.Position, beganS: s.nowS}
	if w.from.UpM = hoverM; w.from.EastM > 0 {
		w.sign = -1
	}
	s.setpoint = func() (geo.Local, geo.Local) {
		second := math.Floor(s.nowS - w.beganS)
		to, mps := cruiseMPS*(second+1), w.sign*cruiseMPS
		if w.turnM > 0 && to > w.turnM {
			to, mps = 2*w.turnM-to, -mps
		}
		left := second + 1 - (s.nowS - w.beganS)
		return w.from.Add(geo.Local{EastM: w.sign * to}), geo.Local{EastM: mps * (1 - gains[s.kind]*left)}
	}
	return w
}

func (s *station) along(w *way) float64      { return w.sign * (s.at.Position.EastM - w.from.EastM) }
func (s *station) speedAlong(w *way) float64 { return w.sign * s.at.Velocity.EastM }

func cruise(s *station) {
	w := s.fly()
	s.set("at 7.2 m/s", s.timeUntil(func() bool { return s.speedAlong(w) > almostMPS }, 20))
	fastest, lost := 0.0, 0.0
	s.until(func() bool {
		fastest, lost = max(fastest, s.speedAlong(w)), max(lost, hoverM-s.at.Position.UpM)
		return s.nowS-w.beganS > 8
	}, 10)
	sum, n := 0.0, 0
	last := 0.0
	s.until(func() bool {
		fastest = max(fastest, s.speedAlong(w))
		if s.bootS != last {
			last = s.bootS
			sum, n = sum+s.along(w)-cruiseMPS*(s.nowS-w.beganS), n+1
		}
		return s.nowS-w.beganS > 12
	}, 10)
	s.set("fastest", fastest)
	s.set("ahead of its way", sum/float64(max(n, 1)))
	s.set("height lost", lost)
	s.hover(s.stopping(w))
}

// stopping is a place a little further, at which to hover after a flight.
func (s *station) stopping(w *way) geo.Local {
	return geo.Local{EastM: s.at.Position.EastM + w.sign*15, NorthM: s.at.Position.NorthM, UpM: hoverM}
}

func reversal(s *station) {
	const turnS = 8
	w := s.fly()
	w.turnM = turnS * cruiseMPS
	s.await("the turn", func() bool { return s.nowS-w.beganS >= turnS }, 20)
	furthest, change := 0.0, 0.0
	s.set("at 7.2 m/s back", s.timeUntil(func() bool {
		furthest, change = max(furthest, s.along(w)), max(change, math.Abs(s.at.Position.UpM-hoverM))
		return s.speedAlong(w) < -almostMPS
	}, 15))
	s.set("too far", furthest-w.turnM)
	s.set("height changes", change)
	w.sign = -w.sign
	s.hover(s.stopping(w))
}

func step(s *station) {
	const far = 20
	w := s.fly()
	s.setpoint = func() (geo.Local, geo.Local) { return w.from.Add(geo.Local{EastM: w.sign * far}), geo.Local{} }
	fastest := 0.0
	s.set("at 18 m", s.timeUntil(func() bool {
		fastest = max(fastest, s.speedAlong(w))
		return s.along(w) > 0.9*far
	}, 20))
	furthest := 0.0
	s.until(func() bool { furthest = max(furthest, s.along(w)); return false }, 6)
	s.set("fastest", fastest)
	s.set("too far", furthest-far)
}

// comesToRest watches an aircraft that was at cruise speed come to rest, and notes how.
func (s *station) comesToRest(w *way, fromM, beganS float64) {
	furthest, lost, still := 0.0, 0.0, math.NaN()
	s.until(func() bool {
		furthest, lost = max(furthest, s.along(w)), max(lost, hoverM-s.at.Position.UpM)
		if math.IsNaN(still) && s.at.SpeedMPS() < stillMPS {
			still = s.nowS - beganS
		}
		return s.nowS-beganS > 15
	}, 20)
	s.set("further", furthest-fromM)
	s.set("below 0.5 m/s", still)
	s.set("back", furthest-s.along(w))
	if s.probe == "stop" {
		s.set("height lost", lost)
	}
}

func stop(s *station) {
	w := s.fly()
	s.await("cruise speed", func() bool { return s.nowS-w.beganS >= halfwayS }, 20)
	fromM, beganS := s.along(w), s.nowS
	s.set("answer", s.setMode(hold))
	s.setpoint = nil
	s.comesToRest(w, fromM, beganS)
}

func lostStream(s *station) {
	w := s.fly()
	s.await("cruise speed", func() bool { return s.nowS-w.beganS >= halfwayS }, 20)
	fromM, beganS := s.along(w), s.nowS
	s.setpoint = nil
	if s.kind == PX4 {
		s.set("mode after", s.timeUntil(func() bool { return !s.is(commanded)() }, 10))
		s.until(nil, 0.2)
	}
	failsafe := s.failsafe()
	s.comesToRest(w, fromM, beganS)
	s.set("mode", s.mode())
	s.set("failsafe", failsafe)
	at := s.at.Position
	at.UpM = hoverM
	s.setpoint = func() (geo.Local, geo.Local) { return at, geo.Local{} }
	comes := s.timeUntil(s.is(commanded), 5)
	s.set("mode with setpoints", s.mode())
	if s.kind == PX4 {
		s.set("it comes by itself", comes)
	}
}

func lostStation(s *station) {
	s.mute = true
	beganS := s.nowS
	after := s.timeUntil(func() bool { return !s.is(commanded)() }, 12)
	s.until(nil, 0.3)
	if s.kind == ArduPilot {
		s.set("mode after", after)
	}
	s.set("mode", s.mode())
	s.set("failsafe", s.failsafe())
	s.until(nil, max(0, 12-(s.nowS-beganS)))
	s.mute = false
	s.until(nil, 4)
	s.set("mode with HEARTBEATs", s.mode())
	s.set("failsafe with HEARTBEATs", s.failsafe())
	s.set("commanded", s.setMode(commanded))
	s.until(nil, 1)
	s.set("mode then", s.mode())
}

// copterLowV is above the voltage of any pack; copterV is the threshold of configs/ardupilot/sitl.parm.
const copterLowV, copterV = 30, 10.5

// supplyUnchecked is CBRK_SUPPLY_CHK as PX4's simulation has it.
const supplyUnchecked = 894281

func lowBattery(s *station) {
	if s.kind == PX4 { // its simulation has this failsafe switched off, and a battery that it is given has no time left
		s.writeInteger("COM_FLTT_LOW_ACT", 1)
		s.writeInteger("CBRK_SUPPLY_CHK", 0)
		s.until(nil, 2)
		s.set("mode before", s.mode())
	}
	s.charge = 0.055 // below BAT_CRIT_THR, 7 %
	if s.kind == ArduPilot {
		s.write("BATT_LOW_VOLT", copterLowV, common.MAV_PARAM_TYPE_REAL32)
	}
	after := s.timeUntil(func() bool { return !s.is(commanded)() }, 25)
	s.until(nil, 0.3)
	s.set("first mode", s.mode())
	s.set("first mode after", after)
	s.set("failsafe", s.failsafe())
	if s.kind == PX4 {
		s.set("second mode after", s.timeUntil(func() bool { return !s.is(hold)() }, 15))
		s.until(nil, 0.3)
		s.set("second mode", s.mode())
	}
	s.set("commanded", s.setMode(commanded))
	s.until(nil, 1)
	s.set("mode then", s.mode())
	s.until(nil, 9)
	s.set("mode 10 s later", s.mode())
	if s.kind == ArduPilot {
		s.write("BATT_LOW_VOLT", copterV, common.MAV_PARAM_TYPE_REAL32)
	}
	s.charge = 0.8
	if s.kind == PX4 {
		s.writeInteger("CBRK_SUPPLY_CHK", supplyUnchecked)
	}
	s.until(nil, 2)
	s.toStand()
	n := len(s.texts)
	s.set("arming after it", s.arm())
	s.until(nil, 0.5)
	s.set("text of that", s.denial(n))
	s.disarm()
}

// down watches the end of a descent.
func (s *station) down(beganS float64) {
	s.set("last descent", s.rate(6, 1.5, -1))
	s.await("touching the ground", func() bool {
		return s.isLanded() || s.at.Position.UpM < 0.25 && math.Abs(s.at.Velocity.UpM) < 0.2
	}, 60)
	touchedS := s.nowS
	s.await("landing", s.isLanded, 60)
	s.set("landed after", s.nowS-beganS)
	if s.kind == ArduPilot { // a PX4's height is not that exact
		s.set("landed after touching", s.nowS-touchedS)
	}
	landedS := s.nowS
	s.await("disarming", func() bool { return !s.armed() }, 30)
	s.set("disarmed after that", s.nowS-landedS)
	s.until(nil, 1)
	s.set("mode at the end", s.mode())
}

func comeHome(s *station) {
	s.hover(geo.Local{EastM: 60, UpM: 12})
	beganS := s.nowS
	s.set("answer", s.setMode(returning))
	s.setpoint = nil
	highest, fastest := 0.0, 0.0
	s.await("home", func() bool {
		highest, fastest = max(highest, s.at.Position.UpM), max(fastest, s.at.SpeedMPS())
		return s.at.Position.HorizontalM() < 2 && s.at.Velocity.UpM < -0.5
	}, 90)
	s.set("highest", highest)
	s.set("fastest", fastest)
	if s.problem == nil {
		s.down(beganS)
		s.set("from home", s.at.Position.HorizontalM())
	}
}

func landing(s *station) {
	n, beganS := len(s.texts), s.nowS
	s.set("answer", s.setMode(land))
	s.setpoint = nil
	s.until(nil, 5)
	s.set("landed state", s.landedState())
	s.set("descent", s.rate(26, 14, -1))
	s.down(beganS)
	s.set("text of landing", s.said(n, "anding detected"))
}
