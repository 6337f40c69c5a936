package fleet

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialect"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/frame"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/firmware/clock"
	"prefdt/firmware/envelope"
	"prefdt/firmware/height"
	"prefdt/inference/physics"
)

// fixture is a fleet of three on two links without a network: frames are injected
// where the links would deliver them, sent frames are recorded, and time passes by
// advance alone.
type fixture struct {
	*Fleet
	t     testing.TB
	clock *clock.Manual
	links []*endpointLink
	rw    *dialect.ReadWriter
	sent  *recorder
	disk  string // "" has each state at once, "hangs" has none of now
}

// channels are one of each link.
var channels = [2]*gomavlib.Channel{{}, {}}

func newFixture(t testing.TB) *fixture { return newFixtureOf(t, 3) }

// newFixtureOf is a fleet of n: the first two on one link, the others on the other.
func newFixtureOf(t testing.TB, n int) *fixture {
	b := &fixture{t: t, clock: &clock.Manual{}}
	b.clock.Advance(time.Second)
	b.Fleet = &Fleet{
		SystemID: 250, Origin: Origin{47, 8, 400}, Physics: physics.DefaultConstants(), Speed: 1,
		Limits: envelope.Limits{SpeedMaxMPS: 30, SeparationM: 10, AreaM: 1000, AltitudeM: 100, BandM: 20, FenceM: 15},
		Clock:  b.clock, Log: slog.New(slog.DiscardHandler),
	}
	for i := range n {
		b.VehicleLinks = append(b.VehicleLinks, VehicleLink{SystemID: i + 1})
	}
	if err := b.Fleet.Initialize(); err != nil {
		t.Fatal(err)
	}
	b.rw = &b.codec
	b.sent = &recorder{rw: b.rw}
	for i := range channels {
		b.links = append(b.links, &endpointLink{fleet: b.Fleet, node: b.sent,
			channels: map[*gomavlib.Channel]*byte{channels[i]: new(byte)}})
	}
	b.Fleet.links = b.links
	for i, a := range b.Fleet.aircraft {
		a.link = b.links[min(i/2, 1)]
		a.link.aircraft = append(a.link.aircraft, a)
	}
	return b
}

// advance advances the clock, with the ticks in that time.
func (b *fixture) advance(d time.Duration) {
	const step = 100 * time.Millisecond
	for ; d > 0; d -= step {
		b.persist()
		b.tick()
		b.clock.Advance(step)
	}
}

// persist is the ledger's transaction, and checks that phases agree with the way home.
func (b *fixture) persist() {
	never := []Phase{PhaseIdle, PhasePilot, PhaseStopping}
	for _, a := range b.aircraft {
		if a.homeward && slices.Contains(never, a.phase) || !a.homeward && a.phase == PhaseLanding {
			b.t.Errorf("aircraft %d is %s, on its way home %v", a.number, a.phase, a.homeward)
		}
	}
	if b.disk == "" {
		b.SetDurable(b.SavedState())
	}
}

// ordered is one order for aircraft.
func ordered(numbers ...int) (all []Ordered) {
	for _, n := range numbers {
		all = append(all, Ordered{Number: n})
	}
	return all
}

// resume is an order to resume an aircraft.
func (b *fixture) Launch(all []Ordered) error { return b.Order(Launch, all) }
func (b *fixture) Resume(o Ordered) error     { return b.Order(Resume, []Ordered{o}) }
func (b *fixture) Clear(all []Ordered) error  { return b.Order(Clear, all) }

func resume(number int, homeward bool) Ordered { return Ordered{Number: number, Homeward: homeward} }

// recorder is a link's node: it keeps the frames written.
type recorder struct {
	rw     *dialect.ReadWriter
	frames []writtenFrame
}

type writtenFrame struct {
	channel *gomavlib.Channel
	frame   *frame.V2Frame
}

func (r *recorder) Events() chan gomavlib.Event { return nil }
func (r *recorder) Close()                      {}

func (r *recorder) WriteFrameTo(c *gomavlib.Channel, fr frame.Frame) error {
	if len(r.frames) < 1e5 {
		r.frames = append(r.frames, writtenFrame{c, fr.(*frame.V2Frame)})
	}
	return nil
}

// message decodes a frame's message.
func (r *recorder) message(fr *frame.V2Frame) message.Message {
	raw := fr.Message.(*message.MessageRaw)
	m, err := r.rw.GetMessage(raw.ID).Read(&message.MessageRaw{ID: raw.ID, Payload: append([]byte(nil), raw.Payload...)}, true)
	if err != nil {
		panic(err)
	}
	return m
}

// drain returns the messages sent since the last call.
func (r *recorder) drain() (out []message.Message) {
	for _, w := range r.frames {
		out = append(out, r.message(w.frame))
	}
	r.frames = nil
	return out
}

// movingMessages returns the messages that move an aircraft.
func movingMessages(sent []message.Message) (out []message.Message) {
	for _, m := range sent {
		if what, _ := classify(px4{}, m); what != kindHarmless {
			out = append(out, m)
		}
	}
	return out
}

// simVehicle is an aircraft of the fixture: it sends an autopilot's messages, in frames
// that are numbered as an autopilot's are.
type simVehicle struct {
	*fixture
	number             int
	sequence           byte
	positionSequence   *byte // of positions, if they have their own
	bootMS             uint32
	mode               Mode
	armed              bool
	failsafe           bool
	landed             bool
	position           physics.Position
	upM                height.AboveOrigin
	velocity           physics.Position
	accelMPSS          float64 // of its velocity to the east, in a test of it
	climbMPS           float64
	battery            int8 // percent
	silent             bool // sends nothing
	copter             bool // an ArduCopter
	climbs             bool // it reports a take-off
	noLandedState      bool // no EXTENDED_SYS_STATE
	noHeartbeats       bool // no HEARTBEAT
	signatureTimestamp uint64
}

// newSimVehicle is a vehicle on the ground, in Hold, with its motors off, whose
// parameters were read.
func newSimVehicle(b *fixture, number int, at physics.Position) *simVehicle {
	v := &simVehicle{fixture: b, number: number, bootMS: 60_000, mode: ModeHold, landed: true, position: at, battery: 90}
	v.sendHeartbeat()
	v.sendParameters()
	v.sendState()
	v.sendState() // its first position is believed with the second
	return v
}

// sendParameters sends those of a PX4 that may fly.
func (v *simVehicle) sendParameters() {
	for name, x := range map[string]float32{"COM_OF_LOSS_T": 1, "MPC_XY_VEL_MAX": 12} {
		v.transmit(&common.MessageParamValue{ParamId: name, ParamType: common.MAV_PARAM_TYPE_REAL32, ParamValue: x})
	}
	for name, x := range map[string]int32{"COM_OBL_RC_ACT": 5, "COM_LOW_BAT_ACT": 3, "NAV_DLL_ACT": 0} {
		v.transmit(&common.MessageParamValue{ParamId: name, ParamType: common.MAV_PARAM_TYPE_INT32, ParamValue: int32Bits(x)})
	}
}

// transmit puts a message on the vehicle's link.
func (v *simVehicle) transmit(m message.Message) {
	if _, ok := m.(*common.MessageGlobalPositionInt); ok && v.positionSequence != nil {
		*v.positionSequence++
		v.transmitAs(*v.positionSequence, m)
		return
	}
	v.transmitAs(v.sequence, m)
	v.sequence++
}

func (v *simVehicle) transmitAs(sequence byte, m message.Message) {
	if v.silent {
		return
	}
	at := min((v.number-1)/2, 1)
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.fixture.links[at].route(&gomavlib.EventFrame{Channel: channels[at], Frame: &frame.V2Frame{
		SystemID: byte(v.number), ComponentID: autopilotComponent, SequenceNumber: sequence, Message: m,
		SignatureTimestamp: v.signatureTimestamp,
	}})
}

func (v *simVehicle) sendHeartbeat() {
	if !v.noHeartbeats {
		m := heartbeatMessage(v.mode, v.armed)
		if v.copter {
			m.Autopilot = common.MAV_AUTOPILOT_ARDUPILOTMEGA
		}
		if v.failsafe {
			m.SystemStatus = common.MAV_STATE_CRITICAL
		}
		v.transmit(m)
	}
}

// sendState sends the vehicle's position, and whether it has landed. Where a test has moved
// it at once, it is as if the leader had seen the way there.
func (v *simVehicle) sendState() {
	v.mutex.Lock()
	if a := v.Fleet.aircraft[v.number-1]; a.located && !v.silent {
		a.position = v.position
		if moved := v.upM - a.reportedM(a.upM); moved.Off(0) > positionErrorM {
			a.upM, a.heights.last.upM = a.upM+moved, a.heights.last.upM+moved
		}
	}
	v.mutex.Unlock()
	landed := common.MAV_LANDED_STATE_IN_AIR
	switch {
	case v.landed:
		landed = common.MAV_LANDED_STATE_ON_GROUND
	case v.climbs:
		landed = common.MAV_LANDED_STATE_TAKEOFF
	}
	if !v.noLandedState {
		v.transmit(&common.MessageExtendedSysState{LandedState: landed})
	}
	v.transmit(&common.MessageBatteryStatus{Voltages: [10]uint16{16000}, CurrentBattery: 1000, EnergyConsumed: 3,
		BatteryRemaining: v.battery})
	v.transmit(v.positionMessage())
}

func (v *simVehicle) positionMessage() *common.MessageGlobalPositionInt {
	lat, lon, amsl := v.Origin.Geodetic(v.position, v.upM)
	return &common.MessageGlobalPositionInt{
		TimeBootMs: v.bootMS, Lat: int32(lat * 1e7), Lon: int32(lon * 1e7), Alt: int32(amsl * 1000),
		Vx: int16(v.velocity.NorthM * 100), Vy: int16(v.velocity.EastM * 100), Vz: int16(-v.climbMPS * 100),
	}
}

// simulate advances the clock, with the leader's ticks and the vehicle's messages:
// positions at 10 Hz, HEARTBEAT once a second and on request. In each tick react is
// called with what was sent.
func (v *simVehicle) simulate(d time.Duration, react func(message.Message)) {
	const step = 100 * time.Millisecond
	for ; d > 0; d -= step {
		v.sent.frames = nil
		v.persist()
		v.tick()
		for _, m := range v.sent.drain() {
			if c, ok := m.(*common.MessageCommandLong); ok && c.Command == common.MAV_CMD_REQUEST_MESSAGE && c.Param1 == 0 {
				v.sendHeartbeat()
			}
			if react != nil {
				react(m)
			}
		}
		v.clock.Advance(step)
		v.bootMS += 100
		if v.bootMS%1000 == 0 {
			v.sendHeartbeat()
		}
		v.sendState()
	}
}

// handleCommand follows a command as PX4 does, at once.
func (v *simVehicle) handleCommand(m message.Message) {
	what, mode := classify(px4{}, m)
	switch what {
	case kindArm:
		v.armed = true
	case kindTakeOff:
		v.mode, v.landed, v.upM = ModeTakeoff, false, v.Limits.AltitudeM/2
	case kindMode:
		v.mode = mode
	}
}

func (v *simVehicle) view() View { return v.Views()[v.number-1] }
