package probe

import (
	"encoding/csv"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/frame"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/geo"
)

// Home is where a subject stands when it is powered.
var Home = geo.Point{LatDeg: 47.401699, LonDeg: 8.550010, AltM: 488}

const (
	hoverM           = 40.0
	stationID        = 250 // which an ArduCopter obeys, by configs/ardupilot/leader.parm
	stationComponent = 191
	batteryComponent = 180
	tick             = 100 * time.Millisecond // of setpoints
	packJ            = 150e3
	heardS           = 0.15 // after which a HEARTBEAT is asked for
	beatTicks        = 10   // between two HEARTBEATs
	feedTicks        = 2    // between two messages of the battery that a PX4 is given
)

// station is a ground station with one autopilot: it sends its HEARTBEATs, setpoints and a battery by itself, and waits for
// what a probe asks it to. One goroutine does it all.
type station struct {
	kind    Kind
	subject Subject
	node    *gomavlib.Node
	ticker  *time.Ticker
	values  Values
	probe   string
	problem error
	trace   *csv.Writer

	// What it sends.
	mute          bool // no HEARTBEAT
	setpoint      func() (at, velocityMPS geo.Local)
	sent, sentMPS geo.Local // the last setpoint
	charge        float64   // of the battery that a PX4 is given
	ticks         int
	sequence      uint8

	// What it received.
	nowS      float64 // by the autopilot's clock, going on over its boots
	bootS     float64 // since its boot
	clockAt   time.Time
	heardS    float64
	watching  bool
	heartbeat *common.MessageHeartbeat
	healthy   bool // its checks are
	landed    common.MAV_LANDED_STATE
	at        autopilot.Body
	battery   *common.MessageBatteryStatus
	acks      map[common.MAV_CMD]string
	params    map[string]*common.MessageParamValue
	counts    map[uint32]int // of messages
	interval  *common.MessageMessageInterval
	texts     []string
}

func (s *station) initialize(endpoint gomavlib.EndpointConf) error {
	s.charge, s.acks, s.params, s.counts = 0.8, map[common.MAV_CMD]string{}, map[string]*common.MessageParamValue{}, map[uint32]int{}
	s.node = &gomavlib.Node{Endpoints: []gomavlib.EndpointConf{endpoint}, Dialect: common.Dialect, OutVersion: gomavlib.V2,
		OutSystemID: stationID, OutComponentID: stationComponent, HeartbeatDisable: true}
	s.ticker = time.NewTicker(tick)
	if err := s.node.Initialize(); err != nil {
		return fmt.Errorf("station: %w", err)
	}
	return nil
}

func (s *station) close() {
	s.ticker.Stop()
	s.node.Close()
}

// fail notes the first problem of a probe.
func (s *station) fail(format string, args ...any) {
	if s.problem == nil {
		s.problem = fmt.Errorf(format, args...)
	}
}

// set notes a figure: a number, or a word.
func (s *station) set(figure string, value any) {
	if x, ok := value.(float64); ok {
		if math.IsNaN(x) {
			s.fail("%s was not found", figure)
			return
		}
		value = number(x)
	}
	s.values[key(s.probe, figure)] = fmt.Sprint(value)
}

// until waits for something for a while of the autopilot's time, and says whether it came. nil waits for the whole while.
func (s *station) until(done func() bool, withinS float64) bool {
	for endS := s.nowS + withinS; ; {
		if done != nil && done() {
			return true
		}
		if s.nowS >= endS {
			return false
		}
		select {
		case e := <-s.node.Events():
			if f, ok := e.(*gomavlib.EventFrame); ok && f.SystemID() == 1 && f.ComponentID() == 1 {
				s.receive(f.Message())
			}
		case now := <-s.ticker.C:
			if silent := now.Sub(s.clockAt); silent > time.Second { // it says no time
				s.nowS += tick.Seconds()
			}
			s.send()
		}
	}
}

// await is until something that the probe cannot do without.
func (s *station) await(what string, done func() bool, withinS float64) bool {
	ok := s.until(done, withinS)
	if !ok {
		s.fail("no %s within %v s: %s, armed %v, landed %d, %+v, %q", what, withinS, s.mode(), s.armed(), s.landed, s.at,
			s.texts[max(0, len(s.texts)-5):])
	}
	return ok
}

// timeUntil is how long something takes, NaN if it does not come.
func (s *station) timeUntil(done func() bool, withinS float64) float64 {
	began := s.nowS
	if !s.until(done, withinS) {
		return math.NaN()
	}
	return s.nowS - began
}

func (s *station) clock(ms uint32) {
	bootS := float64(ms) / 1000
	if step := bootS - s.bootS; step > 0 && step < 10 && s.bootS > 0 {
		s.nowS += step
	}
	s.bootS, s.clockAt = bootS, time.Now()
}

func (s *station) receive(m message.Message) {
	s.counts[m.GetID()]++
	switch m := m.(type) {
	case *common.MessageHeartbeat:
		s.heartbeat, s.heardS = m, s.nowS
	case *common.MessageSystemTime:
		s.clock(m.TimeBootMs)
	case *common.MessageGlobalPositionInt:
		s.clock(m.TimeBootMs)
		at := geo.Point{LatDeg: float64(m.Lat) / 1e7, LonDeg: float64(m.Lon) / 1e7, AltM: Home.AltM}
		s.at = autopilot.Body{Position: Home.ToLocal(at),
			Velocity: geo.Local{EastM: float64(m.Vy) / 100, NorthM: float64(m.Vx) / 100, UpM: -float64(m.Vz) / 100}}
		s.at.Position.UpM = float64(m.RelativeAlt) / 1000
		s.traceRow()
	case *common.MessageExtendedSysState:
		s.landed = m.LandedState
	case *common.MessageSysStatus:
		s.healthy = m.OnboardControlSensorsHealth&common.MAV_SYS_STATUS_PREARM_CHECK != 0
	case *common.MessageBatteryStatus:
		s.battery = m
	case *common.MessageCommandAck:
		s.acks[m.Command] = strings.TrimPrefix(m.Result.String(), resultPrefix)
	case *common.MessageParamValue:
		s.params[m.ParamId] = m
	case *common.MessageMessageInterval:
		s.interval = m
	case *common.MessageStatustext:
		s.texts = append(s.texts, strings.TrimSpace(m.Text))
	}
}

var traceHead = []string{"probe", "time_s", "mode", "east_m", "north_m", "up_m", "east_mps", "north_mps", "up_mps", "target_east_m",
	"target_up_m", "target_east_mps"}

func (s *station) traceRow() {
	p, v := s.at.Position, s.at.Velocity
	row := []string{s.probe, number(s.nowS), s.mode()}
	for _, x := range []float64{p.EastM, p.NorthM, p.UpM, v.EastM, v.NorthM, v.UpM, s.sent.EastM, s.sent.UpM, s.sentMPS.EastM} {
		row = append(row, number(x))
	}
	s.trace.Write(row)
}

// send sends what is due.
func (s *station) send() {
	s.ticks++
	if s.ticks%beatTicks == 0 && !s.mute {
		s.node.WriteMessageAll(&common.MessageHeartbeat{Type: common.MAV_TYPE_GCS, Autopilot: common.MAV_AUTOPILOT_INVALID,
			SystemStatus: common.MAV_STATE_ACTIVE, MavlinkVersion: 3})
	}
	if s.ticks%feedTicks == 0 && s.kind == PX4 && s.heartbeat != nil {
		b := battery.New(packJ, battery.AllFields)
		b.SetReadsJ(packJ * s.charge)
		s.sequence++
		f := &frame.V2Frame{SequenceNumber: s.sequence, SystemID: 1, ComponentID: batteryComponent, Message: b.Status(int64(1e6 * s.nowS))}
		if s.node.FixFrame(f) == nil {
			s.node.WriteFrameAll(f)
		}
	}
	if s.watching && s.nowS-s.heardS >= heardS { // which PX4 sends once a second, whatever it is asked
		s.node.WriteMessageAll(&common.MessageCommandLong{TargetSystem: 1, TargetComponent: 1, Command: common.MAV_CMD_REQUEST_MESSAGE,
			Param1: float32((&common.MessageHeartbeat{}).GetID())})
	}
	if s.setpoint != nil {
		at, v := s.setpoint()
		p := Home.FromLocal(at)
		s.sent, s.sentMPS = at, v
		s.node.WriteMessageAll(&common.MessageSetPositionTargetGlobalInt{TargetSystem: 1, TargetComponent: 1,
			CoordinateFrame: common.MAV_FRAME_GLOBAL_INT,
			TypeMask: common.POSITION_TARGET_TYPEMASK_AX_IGNORE | common.POSITION_TARGET_TYPEMASK_AY_IGNORE |
				common.POSITION_TARGET_TYPEMASK_AZ_IGNORE | common.POSITION_TARGET_TYPEMASK_YAW_IGNORE |
				common.POSITION_TARGET_TYPEMASK_YAW_RATE_IGNORE,
			LatInt: int32(math.Round(1e7 * p.LatDeg)), LonInt: int32(math.Round(1e7 * p.LonDeg)), Alt: float32(Home.AltM + at.UpM),
			Vx: float32(v.NorthM), Vy: float32(v.EastM)})
	}
}

const (
	resultPrefix = "MAV_RESULT_"
	accepted     = "ACCEPTED"
)

// command sends a command, and returns the answer; NONE within two seconds.
func (s *station) command(id common.MAV_CMD, param ...float64) string {
	delete(s.acks, id)
	p := [7]float32{}
	for i, x := range param {
		p[i] = float32(x)
	}
	s.node.WriteMessageAll(&common.MessageCommandLong{TargetSystem: 1, TargetComponent: 1, Command: id, Param1: p[0], Param2: p[1],
		Param3: p[2], Param4: p[3], Param5: p[4], Param6: p[5], Param7: p[6]})
	s.until(func() bool { return s.acks[id] != "" && s.acks[id] != "IN_PROGRESS" }, 2)
	if s.acks[id] == "" {
		return "NONE"
	}
	return s.acks[id]
}

// role is a mode by what it does.
type role string

const (
	position  role = "position" // obeys sticks
	hold      role = "hold"
	returning role = "return"
	land      role = "land"
	commanded role = "commanded" // obeys setpoints
	unknown   role = "unknown"   // no autopilot has it
)

// modes are custom modes by kind; PX4's are main and sub mode.
var modes = map[Kind]map[role][2]float64{
	PX4:       {position: {3, 0}, hold: {4, 3}, returning: {4, 5}, land: {4, 6}, commanded: {6, 0}, unknown: {99, 0}},
	ArduPilot: {position: {5}, hold: {17}, returning: {6}, land: {9}, commanded: {4}, unknown: {99}},
}

// setMode commands a mode, and returns the answer.
func (s *station) setMode(r role) string {
	m := modes[s.kind][r]
	return s.command(common.MAV_CMD_DO_SET_MODE, float64(common.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED), m[0], m[1])
}

// is tells whether the autopilot reports a mode.
func (s *station) is(r role) func() bool {
	m := modes[s.kind][r]
	custom := uint32(m[0])
	if s.kind == PX4 {
		custom = uint32(m[0])<<16 | uint32(m[1])<<24
	}
	return func() bool { return s.heartbeat != nil && s.heartbeat.CustomMode == custom }
}

func (s *station) mode() string {
	if s.heartbeat == nil {
		return "silent"
	}
	_, name := autopilot.ModeOf(s.heartbeat)
	return name
}

func (s *station) armed() bool {
	return s.heartbeat != nil && s.heartbeat.BaseMode&common.MAV_MODE_FLAG_SAFETY_ARMED != 0
}

func (s *station) failsafe() bool {
	return s.heartbeat != nil && s.heartbeat.SystemStatus == common.MAV_STATE_CRITICAL
}

func (s *station) isLanded() bool { return s.landed == common.MAV_LANDED_STATE_ON_GROUND }

// arm asks for arming, and waits until it is reported.
func (s *station) arm() string {
	answer := s.command(common.MAV_CMD_COMPONENT_ARM_DISARM, 1)
	if answer == accepted {
		s.await("report of its arming", s.armed, 3)
	}
	return answer
}

// disarm is by force.
func (s *station) disarm() {
	if s.armed() {
		s.command(common.MAV_CMD_COMPONENT_ARM_DISARM, 0, 21196)
		s.await("disarming", func() bool { return !s.armed() }, 5)
	}
}

// said is whether a text was received since there were n.
func (s *station) said(n int, text string) string {
	if slices.ContainsFunc(s.texts[n:], func(t string) bool { return strings.Contains(t, text) }) {
		return "yes"
	}
	return "no"
}

// watched are the streams that probes need, and their rates.
var watched = map[message.Message]float64{
	&common.MessageHeartbeat{}: 1, &common.MessageGlobalPositionInt{}: 20, &common.MessageExtendedSysState{}: 10,
	&common.MessageSysStatus{}: 5, &common.MessageBatteryStatus{}: 4, &common.MessageSystemTime{}: 10,
}

// watch asks for the streams.
func (s *station) watch() {
	s.watching = true
	for _, m := range slices.SortedFunc(maps.Keys(watched), func(a, b message.Message) int { return int(a.GetID()) - int(b.GetID()) }) {
		s.command(common.MAV_CMD_SET_MESSAGE_INTERVAL, float64(m.GetID()), 1e6/watched[m])
	}
}

// power starts the subject, and waits until it is heard.
func (s *station) power(fresh bool) {
	s.setpoint, s.mute, s.heartbeat, s.healthy, s.landed, s.charge = nil, false, nil, false, 0, 0.8
	s.bootS, s.watching = 0, false
	if err := s.subject.PowerCycle(fresh); err != nil {
		s.fail("power: %w", err)
		return
	}
	s.await("HEARTBEAT", func() bool { return s.heartbeat != nil }, 60)
}

// prepare brings the subject into the state in which a probe begins.
func (s *station) prepare(from start) {
	switch {
	case from == freshBoot:
		s.power(true)
		return
	case s.heartbeat == nil:
		s.power(true)
		s.watch()
	}
	map[start]func(){stands: s.toStand, onGround: s.toGround, inAir: s.toAir}[from]()
}

// armable is the mode in which it is armed.
var armable = map[Kind]role{PX4: hold, ArduPilot: commanded}

// toGround lands, and waits until it could fly again. While an ArduCopter boots, its pilot's switch takes the mode back once.
func (s *station) toGround() {
	s.toStand()
	for range 30 {
		if s.until(func() bool { return s.healthy && s.is(armable[s.kind])() }, 3) {
			return
		}
		if !s.is(armable[s.kind])() {
			s.setMode(armable[s.kind])
		}
	}
	s.fail("its checks do not pass: %s, %q", s.mode(), s.texts[max(0, len(s.texts)-5):])
}

// toStand lands, disarms, and commands the mode in which it is armed.
func (s *station) toStand() {
	s.setpoint = nil
	if s.armed() && !s.isLanded() {
		s.setMode(land)
		s.await("landing", s.isLanded, 120)
	}
	s.disarm()
	s.setMode(armable[s.kind])
}

// toAir takes off where it has to, and hovers. An aircraft that is far away comes back.
func (s *station) toAir() {
	if !s.armed() || s.isLanded() {
		s.toGround()
		s.takeOff()
		s.await("the end of its take-off", func() bool { return s.at.Position.UpM > hoverM-1 && s.at.Velocity.UpM < 0.3 }, 90)
	}
	to := s.at.Position
	to.UpM = hoverM
	if to.HorizontalM() > 150 {
		to = geo.Local{UpM: hoverM}
	}
	s.hover(to)
}

// takeOff arms and takes off to hoverM, and returns both answers.
func (s *station) takeOff() (armed, takesOff string) {
	armed = s.arm()
	height := map[Kind]float64{PX4: Home.AltM + hoverM, ArduPilot: hoverM}[s.kind]
	return armed, s.command(common.MAV_CMD_NAV_TAKEOFF, 0, 0, 0, math.NaN(), Home.LatDeg, Home.LonDeg, height)
}

// hover flies to a place in the commanded mode, and waits until it is still there.
func (s *station) hover(at geo.Local) {
	s.setpoint = func() (geo.Local, geo.Local) { return at, geo.Local{} }
	s.until(nil, 1)
	if !s.is(commanded)() {
		s.setMode(commanded)
		s.await("its commanded mode", s.is(commanded), 5)
	}
	stillAt := math.Inf(1)
	s.await("hover", func() bool {
		off := s.at.Position.Sub(at)
		if math.Abs(off.UpM) > 1 || off.HorizontalM() > 1 || s.at.SpeedMPS() > 0.4 {
			stillAt = s.nowS
		}
		stillAt = min(stillAt, s.nowS)
		return s.nowS-stillAt > 2
	}, 90)
}

// settle ends what a probe may have left: it sends HEARTBEATs and a full battery again.
func (s *station) settle() { s.mute, s.charge = false, 0.8 }
