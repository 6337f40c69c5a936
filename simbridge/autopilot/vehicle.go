package autopilot

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/simbridge/battery"
	"prefdt/simbridge/geo"
)

// stepUS is the fixed step of the dynamics and of the energy integral: 100 Hz
// of mission time.
const (
	stepUS = 10_000
	stepS  = stepUS / 1e6
)

// Mode is PX4's custom mode, main<<16 | sub<<24 as in HEARTBEAT.
type Mode uint32

// The modes the vehicle knows, by PX4's numbers.
const (
	ModePosition Mode = 3 << 16
	ModeTakeoff  Mode = 4<<16 | 2<<24
	ModeHold     Mode = 4<<16 | 3<<24
	ModeReturn   Mode = 4<<16 | 5<<24
	ModeLand     Mode = 4<<16 | 6<<24
	ModeOffboard Mode = 6 << 16
)

var modeNames = map[Mode]string{
	ModePosition: "POSCTL", ModeTakeoff: "AUTO.TAKEOFF", ModeHold: "AUTO.LOITER",
	ModeReturn: "AUTO.RTL", ModeLand: "AUTO.LAND", ModeOffboard: "OFFBOARD",
}

func (m Mode) String() string {
	if m == ModeStabilize {
		return "STABILIZE"
	}
	return cmp.Or(modeNames[m], "UNKNOWN")
}

// Body is the true motion of the aircraft in the fleet's frame.
type Body struct {
	Position geo.Local
	Velocity geo.Local // m/s
}

// SpeedMPS is the horizontal speed.
func (b Body) SpeedMPS() float64 { return b.Velocity.HorizontalM() }

// vehicle is one aircraft and its flight stack, without a clock or a socket: step
// advances it by 10 ms, handleMessage handles a message. Not safe for concurrent use.
type vehicle struct {
	conf    Config
	params  params
	battery battery.Battery
	streams streams
	body    Body
	home    geo.Local // where it armed last
	timeUS  int64     // mission time
	bootUS  int64     // when it booted last
	yaw     float64
	disturbed

	intendedMode     Mode // commanded
	mode             Mode // active, which a failsafe may change
	modeAfterDisarm  Mode // the last commanded one that is not Land or Return
	armed            bool
	groundContact    bool  // on the ground
	landed           bool  // reported by the land detector, later than the contact
	armedUS          int64 // when it was armed
	liftStartUS      int64 // when the motors began to lift it; 0: they do not
	groundContactUS  int64 // when it touched down
	landedUS         int64 // when the land detector reported it
	flownSinceArmed  bool
	overHomeUS       int64 // when it came over home in Return; 0: not yet
	returnDescending bool  // in Return, over home
	batteryFailsafe  lowBatteryFailsafe
	copterFailsafe   copterFailsafe

	setpoint                Setpoint
	setpointUS              int64                        // when the last one was received; 0: none since boot
	holdPosition            geo.Local                    // where Hold stays, and Return and Land descend
	brake                   brake                        // in Hold, until it is still
	takeoffUpM              float64                      // height that Takeoff climbs to, as it measures it; NaN: stays on the ground
	velocityIntegral        geo.Local                    // of the velocity error, for the controller
	accel                   geo.Local                    // m/s^2, lags behind the command
	statusTexts             []common.MessageStatustext   // not sent yet
	statusTextID            uint16                       // of the last one sent in chunks
	receivedFrom            int                          // system that sent the message being handled
	receivedTarget          int                          // system that the message being handled is addressed to
	pilotVelocity           geo.Local                    // that the pilot's sticks ask for in Position
	piloted                 bool                         // flown by remote control, until a command sets another mode
	linksCutUntilUS         int64                        // until then nothing is sent or received
	externalBattery         *common.MessageBatteryStatus // the last external one, for a pack that measures nothing itself
	gcsHeartbeatUS          int64                        // when a ground station's HEARTBEAT was last received; 0: never
	parametersBusyUntilUS   int64                        // until then no request of one is answered
	stationIgnoredUntilUS   int64                        // until then no HEARTBEAT of a ground station counts
	armingDenial            string                       // why arming is denied; empty: it is not
	armingRefusal           string                       // why arming fails in spite of good checks; empty: it does not
	heartbeatsPausedUntilUS int64                        // until then no periodic HEARTBEAT is sent
	wrong                   WrongSample                  // to be sent; empty: none
	wrongUntilUS            int64                        // it is wrong until then, and once at least
	wrongSent               int                          // samples that were wrong
	odd                     Oddities
	guided                  *geo.Local        // at which another station flies it; nil: none does
	positionFromUS          int64             // until then it sends no position
	plane                   bool              // it says that it is one
	answers                 []message.Message // to another station, not sent yet
}

func newVehicle(conf Config) *vehicle {
	v := &vehicle{
		conf: conf, params: paramsOf(&conf), groundContact: true, landed: true,
		intendedMode: ModeHold, mode: ModeHold, modeAfterDisarm: ModeHold, takeoffUpM: math.NaN(),
		body: Body{Position: conf.Start}, home: conf.Start,
	}
	v.params.setAll(conf.Parameters)
	v.random = rand.New(rand.NewPCG(conf.Seed, uint64(conf.SystemID)))
	v.battery = battery.New(conf.CapacityJ, conf.Battery)
	v.streams = defaultStreams(v.conf.Speed)
	v.holdPosition = conf.Start
	if conf.Copter {
		v.intendedMode, v.mode, v.modeAfterDisarm = ModeStabilize, ModeStabilize, ModeStabilize
		v.streams.onlyHeartbeat()
	}
	return v
}

func (v *vehicle) step() {
	v.battery.OpenSlots(v.timeUS)
	v.timeUS += stepUS
	v.followStation()
	v.decideMode()
	v.disturb()
	v.integrate()
	powerW := 0.0
	if v.armed && !v.landed {
		powerW = v.conf.PowerW(v.battery.Slot(), v.body.Velocity)
	}
	v.battery.DrawPower(powerW, stepS)
}

// streaming reports whether setpoints are fresh enough for OFFBOARD.
func (v *vehicle) streaming() bool {
	return v.setpointUS != 0 && float64(v.timeUS-v.setpointUS) < v.params.get("COM_OF_LOSS_T")*1e6
}

// decideMode applies failsafe, automatic transitions and disarming.
func (v *vehicle) decideMode() {
	if v.conf.Copter {
		v.applyCopterFailsafes()
	}
	want := v.intendedMode
	if want == ModeOffboard && v.armed && !v.streaming() && !v.conf.Copter {
		want = v.offboardLossMode()
	}
	if m := v.lowBatteryMode(); m != 0 && !v.conf.Copter {
		want = m
	}
	if want != v.mode {
		v.enterMode(want)
	}
	if !v.armed {
		return
	}
	switch {
	case v.landed && !v.flownSinceArmed && v.elapsedS(v.armedUS) > v.params.get("COM_DISARM_PRFLT"):
		v.disarm("Disarmed by auto preflight disarming")
	case v.landed && v.flownSinceArmed && !v.odd.StaysArmed && v.elapsedS(v.landedUS) > v.params.get("COM_DISARM_LAND"):
		v.disarm("Disarmed by landing")
	}
}

func (v *vehicle) inFailsafe() bool {
	return v.armed && (v.mode != v.intendedMode || v.copterFailsafe.gcs || v.copterFailsafe.battery)
}

// lowBattery reports whether its mode is that of a failsafe for a low battery.
func (v *vehicle) lowBattery() bool {
	return v.armed && (v.batteryFailsafe.mode != 0 && !v.conf.Copter || v.copterFailsafe.battery)
}

func (v *vehicle) elapsedS(sinceUS int64) float64 { return float64(v.timeUS-sinceUS) / 1e6 }

// offboardLossMode is the mode after the loss of the setpoint stream, by COM_OBL_RC_ACT.
// Without a remote control Position, Altitude and Manual only descend.
func (v *vehicle) offboardLossMode() Mode {
	switch v.params.get("COM_OBL_RC_ACT") {
	case 3:
		return ModeReturn
	case 4:
		return ModeLand
	case 5:
		return ModeHold
	}
	return ModePosition
}

func (v *vehicle) enterMode(m Mode) {
	if v.armed && m != v.intendedMode {
		v.queueStatusText(common.MAV_SEVERITY_CRITICAL, "Failsafe activated")
	}
	v.mode = m
	v.holdPosition, v.returnDescending, v.overHomeUS, v.brake = v.body.Position, false, 0, brake{}
	if m == ModeHold && !v.conf.Copter {
		v.brake = brake{on: true}
	}
	if m == ModeReturn {
		v.holdPosition = v.home
		v.holdPosition.UpM = v.returnUpM()
	}
}

// requestMode is a mode change by command; false means refused. While disarmed PX4
// accepts every mode, and refuses to arm in some. In the air it accepts Position
// only where there is a remote control.
func (v *vehicle) requestMode(m Mode) bool {
	if slices.Contains(v.odd.Refuses, m) {
		return false
	}
	if v.conf.Copter {
		if m != ModeOffboard || v.mode != ModeTakeoff { // which is GUIDED already
			v.setIntendedMode(m)
		}
		if why := v.unready(); why != "" && !v.armed {
			v.queueStatusText(common.MAV_SEVERITY_CRITICAL, "PreArm: "+why)
		}
		return true
	}
	if v.armed && (m == ModeOffboard && !v.streaming() || m == ModePosition) {
		return false
	}
	v.setIntendedMode(m)
	return true
}

func (v *vehicle) setIntendedMode(m Mode) {
	v.intendedMode, v.piloted, v.batteryFailsafe.mode = m, false, 0 // a chosen mode overrides a failsafe
	if m != ModeLand && m != ModeReturn {
		v.modeAfterDisarm = m
	}
	if m != v.mode {
		v.enterMode(m)
	}
}

// healthy is what the health bit tells: a PX4's also, whether it could arm in the commanded mode.
func (v *vehicle) healthy() bool { return v.unready() == "" && (v.conf.Copter || v.modeArms()) }

// canArm reports whether arming is possible in the commanded mode.
func (v *vehicle) canArm() bool { return v.unready() == "" && v.modeArms() }

func (v *vehicle) modeArms() bool {
	switch v.intendedMode {
	case ModeHold:
		return !v.conf.Copter
	case ModeOffboard:
		return v.conf.Copter || v.streaming()
	case ModePosition:
		return v.conf.Copter // PX4 needs a remote control
	case ModeLand, ModeReturn:
		return false
	}
	return true
}

func (v *vehicle) arm() bool {
	if v.armed {
		return true
	}
	if !v.canArm() || v.armingRefusal != "" {
		why := "Resolve system health failures first"
		if v.conf.Copter {
			why = v.modeName() + " mode not armable"
		}
		why = cmp.Or(v.unready(), v.armingRefusal, why)
		v.queueStatusText(common.MAV_SEVERITY_CRITICAL, map[bool]string{true: "Arm: ", false: "Arming denied: "}[v.conf.Copter]+why)
		return false
	}
	v.armed, v.flownSinceArmed, v.armedUS = true, false, v.timeUS
	v.home = v.body.Position
	v.batteryFailsafe = lowBatteryFailsafe{warning: v.batteryWarning()}
	v.queueStatusText(common.MAV_SEVERITY_INFO, map[bool]string{true: "Arming motors", false: "Armed by external command"}[v.conf.Copter])
	return true
}

// disarm stops the motors. The mode commanded before the landing is restored, even
// OFFBOARD, in which arming needs a stream.
func (v *vehicle) disarm(why string) {
	v.armed = false
	v.takeoffUpM = math.NaN()
	if v.conf.Copter {
		why = "Disarming motors"
		if v.mode == ModeTakeoff { // a part of GUIDED, from which the next take-off is commanded
			v.setIntendedMode(ModeOffboard)
		}
	} else {
		v.intendedMode = v.modeAfterDisarm
	}
	v.queueStatusText(common.MAV_SEVERITY_INFO, why)
}

// gcsTimeoutS is how long a ground station counts as connected after its HEARTBEAT.
const gcsTimeoutS = 2.5

// queueStatusText queues a STATUSTEXT, in chunks as PX4 does; nobody receives it where no
// link has a ground station. PX4 appends a tab when there is an event message as well.
func (v *vehicle) queueStatusText(severity common.MAV_SEVERITY, text string) {
	const chunk = 50
	if !v.conf.Copter {
		text += "\t"
	} else if v.timeUS > 0 {
		v.statusTexts = append(v.statusTexts, common.MessageStatustext{Severity: severity, Text: text[:min(len(text), chunk)]})
		return
	}
	if v.gcsHeartbeatUS == 0 || v.elapsedS(v.gcsHeartbeatUS) > gcsTimeoutS || len(v.statusTexts) > 16 {
		return
	}
	if len(text) <= chunk {
		v.statusTexts = append(v.statusTexts, common.MessageStatustext{Severity: severity, Text: text})
		return
	}
	v.statusTextID++
	for i := 0; len(text) > 0; i++ {
		n := min(len(text), chunk)
		v.statusTexts = append(v.statusTexts, common.MessageStatustext{Severity: severity, Text: text[:n], Id: v.statusTextID,
			ChunkSeq: uint8(i)})
		text = text[n:]
	}
}
