package fleet

import (
	"log/slog"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/frame"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/firmware/clock"
	"prefdt/firmware/energy"
	"prefdt/firmware/envelope"
	"prefdt/firmware/height"
	"prefdt/inference/physics"
	"prefdt/simbridge/simnet"
)

func TestParseEndpoint(t *testing.T) {
	for text, ok := range map[string]bool{
		"udp-listen:0.0.0.0:14540": true, "udp:10.0.0.2:14550": true, "serial:/dev/ttyACM0:921600": true, "serial:COM3:57600": true,
		"udp:10.0.0.2": false, "udp::14550": false, "udp:h:0": false, "udp:h:70000": false, "tcp:h:1": false, "": false,
		"serial:/dev/ttyACM0": false, "serial::57600": false, "serial:x:fast": false, "udp": false,
	} {
		if _, err := ParseEndpoint(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestParameters(t *testing.T) {
	var p Parameters
	if p.UnsafeReason() == "" {
		t.Error("parameters that were not read are taken for safe")
	}
	p.handleParamValue(&common.MessageParamValue{ParamId: "COM_OBL_RC_ACT", ParamType: common.MAV_PARAM_TYPE_INT32,
		ParamValue: int32Bits(5)})
	p.handleParamValue(&common.MessageParamValue{ParamId: "COM_LOW_BAT_ACT", ParamType: common.MAV_PARAM_TYPE_INT32,
		ParamValue: int32Bits(3)})
	p.handleParamValue(&common.MessageParamValue{ParamId: "COM_OF_LOSS_T", ParamType: common.MAV_PARAM_TYPE_REAL32, ParamValue: 1})
	p.handleParamValue(&common.MessageParamValue{ParamId: "MPC_XY_VEL_MAX", ParamType: common.MAV_PARAM_TYPE_REAL32,
		ParamValue: float32(math.NaN())})
	if p.Complete() {
		t.Error("a parameter that is no number was taken")
	}
	p.handleParamValue(&common.MessageParamValue{ParamId: "MPC_XY_VEL_MAX", ParamType: common.MAV_PARAM_TYPE_REAL32, ParamValue: 12})
	if reason := p.UnsafeReason(); reason != "" || p.SpeedMaxMPS != 12 || p.OffboardLossAction != 5 {
		t.Errorf("%+v: %s", p, reason)
	}
	p.OffboardLossAction = 0 // the stock value
	if p.UnsafeReason() == "" {
		t.Error("the stock failsafe is taken for safe")
	}
}

// An aircraft that holds without its leader, and does nothing when its battery is
// low, hovers until it falls. That is named beside any other unsafe parameter.
func TestHoldWithoutALowBatteryActionIsUnsafe(t *testing.T) {
	for _, c := range []struct {
		loss, low int32
		reasons   []string
	}{
		{5, 0, []string{"COM_LOW_BAT_ACT is 0"}}, {5, 1, nil}, {5, 2, nil}, {5, 3, nil}, {5, 4, []string{"COM_LOW_BAT_ACT is 4"}},
		{3, 0, nil}, {4, 0, nil}, {3, 1, nil}, {0, 3, []string{"COM_OBL_RC_ACT is 0"}},
		{1, 0, []string{"COM_OBL_RC_ACT is 1", "COM_LOW_BAT_ACT is 0"}},
	} {
		p := Parameters{px4Parameters: px4Parameters{OffboardLossS: 1}, SpeedMaxMPS: 12, readMask: 1<<0 | 1<<2}
		p.handleParamValue(&common.MessageParamValue{ParamId: "COM_OBL_RC_ACT", ParamType: common.MAV_PARAM_TYPE_INT32,
			ParamValue: int32Bits(c.loss)})
		if p.UnsafeReason() == "" {
			t.Error("COM_LOW_BAT_ACT was not read, and that is taken for safe")
		}
		p.handleParamValue(&common.MessageParamValue{ParamId: "COM_LOW_BAT_ACT", ParamType: common.MAV_PARAM_TYPE_INT32,
			ParamValue: int32Bits(c.low)})
		got := p.UnsafeReasons()
		if !slices.EqualFunc(got, c.reasons, func(reason, start string) bool { return strings.HasPrefix(reason, start+", want") }) {
			t.Errorf("COM_OBL_RC_ACT %d with COM_LOW_BAT_ACT %d: %q", c.loss, c.low, got)
		}
	}
}

// A parameter is said as it was set, not as a float32 that is widened, and what brings an aircraft
// down at low battery as the table has it.
func TestWordsOfParameters(t *testing.T) {
	for _, c := range []struct {
		parameter string
		kind      common.MAV_PARAM_TYPE
		value     float32
		want      string
	}{
		{"COM_OF_LOSS_T", common.MAV_PARAM_TYPE_REAL32, 0.2, "COM_OF_LOSS_T is 0.2 s, want 0.3 to 10"},
		{"COM_OF_LOSS_T", common.MAV_PARAM_TYPE_REAL32, 10.1, "COM_OF_LOSS_T is 10.1 s, want 0.3 to 10"},
		{"COM_LOW_BAT_ACT", common.MAV_PARAM_TYPE_INT32, 0, "COM_LOW_BAT_ACT is 0, want 1 or 3 (Return) or 2 (Land), or COM_OBL_RC_ACT 3 " +
			"(Return) or 4 (Land): an aircraft that holds without its leader hovers until its battery is empty"},
		{"NAV_DLL_ACT", common.MAV_PARAM_TYPE_INT32, int32Bits(2), "NAV_DLL_ACT is 2: it acts when it receives no ground station, " +
			"and the leader is none; want 0, or a ground station besides"},
		{"NAV_DLL_ACT", common.MAV_PARAM_TYPE_INT32, 0, ""},
	} {
		p := Parameters{SpeedMaxMPS: 12, px4Parameters: px4Parameters{OffboardLossS: 1, OffboardLossAction: 5, LowBatteryAction: 3},
			readMask: 1<<4 - 1}
		p.handleParamValue(&common.MessageParamValue{ParamId: c.parameter, ParamType: c.kind, ParamValue: c.value})
		if got := strings.Join(append(p.UnsafeReasons(), p.Warnings(1)...), "\n"); got != c.want {
			t.Errorf("%s %v: %q", c.parameter, c.value, got)
		}
	}
}

func int32Bits(x int32) float32 { return math.Float32frombits(uint32(x)) }

// A descent from 100 m was measured on PX4: 87 s at its default rates.
func TestDescentTakesAsLongAsPX4s(t *testing.T) {
	var p Parameters
	if got := p.DescentS(100); got < 87 || got > 92 {
		t.Errorf("from 100 m in %.1f s, PX4 took 87", got)
	}
	p = Parameters{DescentMPS: 3 / 0.83, LandMPS: 1 / 0.85, LandSlowBelowM: 20}
	for height, want := range map[height.AboveGround]float64{80: 40, 20: 20, 5: 5, 0: 0, -3: 0} {
		if got := p.DescentS(height); math.Abs(got-want) > 1e-9 {
			t.Errorf("from %v m in %v s, want %v", height, got, want)
		}
	}
}

// peer is the other side of a UDP link.
type peer struct {
	t    *testing.T
	node *gomavlib.Node

	mutex       sync.Mutex
	received    []message.Message
	parseErrors int // frames
}

func newPeer(t *testing.T, network *simnet.Network, system, component byte) *peer {
	return newSignedPeer(t, network, system, component, nil)
}

// newSignedPeer is a peer that signs its frames, and accepts frames signed with the
// same key.
func newSignedPeer(t *testing.T, network *simnet.Network, system, component byte, key *frame.V2Key) *peer {
	endpoint, err := network.Program("peer").Endpoint("udp:" + linkAddress)
	if err != nil {
		t.Fatal(err)
	}
	n := &gomavlib.Node{
		Endpoints: []gomavlib.EndpointConf{endpoint},
		Dialect:   common.Dialect, OutVersion: gomavlib.V2, OutSystemID: system, OutComponentID: component, HeartbeatDisable: true,
		InKey: key, OutKey: key,
	}
	if err := n.Initialize(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	p := &peer{t: t, node: n}
	go func() {
		for event := range n.Events() {
			p.mutex.Lock()
			switch e := event.(type) {
			case *gomavlib.EventFrame:
				p.received = append(p.received, e.Message())
			case *gomavlib.EventParseError:
				p.parseErrors++
			}
			p.mutex.Unlock()
		}
	}()
	return p
}

// hasReceived is whether it received a message.
func (p *peer) hasReceived(is func(message.Message) bool) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.ContainsFunc(p.received, is)
}

func isHeartbeat(m message.Message) bool { _, ok := m.(*common.MessageHeartbeat); return ok }

// until sends messages until a condition holds.
func (p *peer) until(what string, ok func() bool, messages ...message.Message) {
	p.t.Helper()
	late := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(late) {
			p.t.Fatalf("never: %s", what)
		}
		for _, m := range messages {
			p.node.WriteMessageAll(m)
		}
		time.Sleep(2 * time.Millisecond) // paces the sender
	}
}

// linkAddress is where a fleet's only link listens.
const linkAddress = "127.0.0.1:14540"

func newFleet(t *testing.T) (*Fleet, *simnet.Network) { return newSignedFleet(t, nil) }

// newSignedFleet is a fleet of one aircraft on a network in memory, in a [simnet.Test].
func newSignedFleet(t *testing.T, key *frame.V2Key) (*Fleet, *simnet.Network) {
	f, n := unstartedFleet(t, key)
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	f.StartStreaming()
	t.Cleanup(f.Close)
	return f, n
}

func unstartedFleet(t *testing.T, key *frame.V2Key, more ...VehicleLink) (*Fleet, *simnet.Network) {
	n := simnet.New(1)
	program := n.Program("leader")
	f := &Fleet{
		SystemID: 250, Origin: Origin{47, 8, 400}, Physics: physics.DefaultConstants(), Speed: 10,
		Limits:       envelope.Limits{SpeedMaxMPS: 30, SeparationM: 10, AreaM: 1000, AltitudeM: 100, BandM: 20, FenceM: 15},
		VehicleLinks: append([]VehicleLink{{SystemID: 7, Endpoint: "udp-listen:" + linkAddress}}, more...),
		Clock:        program, Endpoint: program.Endpoint, Log: slog.New(slog.DiscardHandler), Key: key,
	}
	if err := f.Initialize(); err != nil {
		t.Fatal(err)
	}
	return f, n
}

func heartbeatMessage(mode Mode, armed bool) *common.MessageHeartbeat {
	m := &common.MessageHeartbeat{Type: common.MAV_TYPE_QUADROTOR, Autopilot: common.MAV_AUTOPILOT_PX4, CustomMode: uint32(mode)}
	if armed {
		m.BaseMode = common.MAV_MODE_FLAG_SAFETY_ARMED
	}
	return m
}

// Frames are accepted by channel, system and component; all others are counted.
func TestAcceptedFrames(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		f, n := newFleet(t)
		view := func() View { return f.Views()[0] }
		rejected := func(reason string) func() bool { return func() bool { return f.RejectedFrames()[reason] > 0 } }

		newPeer(t, n, 8, 1).until("an unknown system is counted", rejected("system id 8 of no aircraft here"),
			heartbeatMessage(ModeHold, true))
		newPeer(t, n, 7, 191).until("another component is counted", rejected(OtherComponentReason+" 191"),
			heartbeatMessage(ModeHold, true))
		newPeer(t, n, 250, 191).until("our echo is counted", rejected("our own echo"), heartbeatMessage(ModeHold, true))
		if view().Received {
			t.Fatal("received before it sent anything")
		}
		real := newPeer(t, n, 7, 1)
		real.until("it is received", func() bool { return view().Mode == ModeOffboard }, heartbeatMessage(ModeOffboard, true))
		twin := newPeer(t, n, 7, 1)
		both := 0
		real.until("a twin is counted", func() bool {
			twin.node.WriteMessageAll(heartbeatMessage(ModeReturn, false))
			if view().Mode == ModeReturn {
				both++
			}
			return f.RejectedFrames()["system id 7 from two places"] > 0
		}, heartbeatMessage(ModeOffboard, true))
		if both > 0 || !view().Armed {
			t.Error("the second sender was accepted")
		}
	})
}

func TestMeasuredState(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		f, n := newFleet(t)
		p := newPeer(t, n, 7, 1)
		lat, lon, amsl := f.Origin.Geodetic(physics.Position{EastM: 320, NorthM: 610}, 97)
		position := func(bootMS uint32) *common.MessageGlobalPositionInt {
			return &common.MessageGlobalPositionInt{
				TimeBootMs: bootMS, Lat: int32(math.Round(lat * 1e7)),
				Lon: int32(math.Round(lon * 1e7)), Alt: int32(math.Round(float64(amsl) * 1000)),
				Vx: 300, Vy: -400, RelativeAlt: 12345, // relative to the vehicle's home, of no use here
			}
		}
		view := func() View { return f.Views()[0] }
		var v View
		p.until("it is located", func() bool { v = view(); return v.Fresh && v.Landed != nil && v.Charge == 0.5 },
			heartbeatMessage(ModeHold, true), position(500000),
			&common.MessageExtendedSysState{LandedState: common.MAV_LANDED_STATE_IN_AIR},
			&common.MessageBatteryStatus{CurrentBattery: -100, EnergyConsumed: -1, BatteryRemaining: 50})
		if v.Measured {
			t.Error("its flight is measured without a current")
		}
		if v.UpM != 97 || math.Abs(v.SpeedMPS-5) > 1e-9 || v.Position.Sub(physics.Position{EastM: 320, NorthM: 610}).Norm() > 10 ||
			!v.InAir {
			t.Errorf("%+v", v)
		}
		before := v.AtS
		p.until("its current is received", func() bool { v := view(); return v.Measured && v.AtS > before }, position(500050),
			&common.MessageBatteryStatus{Voltages: [10]uint16{15000}, CurrentBattery: 1000, EnergyConsumed: -1, BatteryRemaining: 50})
		p.until("it is given to us", func() bool { return f.Order(Resume, []Ordered{resume(1, false)}) == nil },
			heartbeatMessage(ModeHold, true), position(500100))
		p.until("a reboot is noticed", func() bool { return view().Reason == "rebooted" }, position(10))
		if v := view(); v.Phase != PhasePilot || v.Params.Complete() {
			t.Errorf("after a reboot: %+v", v)
		}
	})
}

// PX4 relays a battery of another component as 255; beside its own it does not count.
func TestMeteredBattery(t *testing.T) {
	f := &Fleet{Log: slog.New(slog.DiscardHandler), Physics: physics.DefaultConstants()}
	a := &aircraft{number: 1, charge: math.NaN(), meter: energy.Meter{CapacityJ: 150e3,
		PowerW: physics.DefaultConstants().Propulsion.PowerW, MaxPowerW: 6500}}
	for _, c := range []struct {
		now     float64
		id      uint8
		percent int8
		want    float64
	}{{100, 1, 10, math.NaN()}, {101, uint8(px4Traits.relayedBatteryID), 80, 0.8}, {102, 0, 70, 0.7},
		{103, uint8(px4Traits.relayedBatteryID), 79, 0.7}, {104, 1, 10, 0.7}, {108, uint8(px4Traits.relayedBatteryID), 78, 0.7},
		{110, uint8(px4Traits.relayedBatteryID), 78, 0.78}} {
		for _, later := range []float64{0, 0.25} { // a jump counts from the second reading on
			a.handleMessage(f, c.now+later, &common.MessageBatteryStatus{Id: c.id, CurrentBattery: -1, EnergyConsumed: -1,
				BatteryRemaining: c.percent})
		}
		if a.charge != c.want && !(math.IsNaN(a.charge) && math.IsNaN(c.want)) {
			t.Errorf("battery %d at %v s: charge %v, want %v", c.id, c.now, a.charge, c.want)
		}
	}
}

// What is drawn counts from the moment at which a charge is first seen: then the pack holds at most what it
// says. The first second's is what the model has of a current that was not measured before.
func TestDrawnSinceTheChargeFell(t *testing.T) {
	f := &Fleet{Log: slog.New(slog.DiscardHandler), Physics: physics.DefaultConstants()}
	a := &aircraft{number: 1, charge: math.NaN(), meter: energy.Meter{CapacityJ: 150e3,
		PowerW: physics.DefaultConstants().Propulsion.PowerW, MaxPowerW: 6500}}
	for _, c := range []struct {
		now     float64
		percent int8
		want    float64 // 160 W
	}{{100, 50, 0}, {101, 50, 50}, {102, 49, 0}, {104, 49, 320}, {106, 48, 0}, {107, 48, 160}, {108, 40, 320}, {109, 40, 0}, {110, 40, 160},
		{112, 39, 0}, {114, 39, 320}} {
		a.handleMessage(f, c.now, &common.MessageBatteryStatus{Voltages: [10]uint16{16000}, CurrentBattery: 1000, EnergyConsumed: -1,
			BatteryRemaining: c.percent})
		if got := a.chargeDrawnJ(c.now); math.Abs(got-c.want) > 1 {
			t.Errorf("at %v s, %d %%: %v J drawn since it fell, want %v", c.now, c.percent, got, c.want)
		}
	}
}

// An aircraft on the ground does not climb near another in flight, and waits for a
// limited time.
func TestTakeOffWaitsForAircraftNear(t *testing.T) {
	up, down := false, true
	for _, c := range []struct {
		apartM, speed float64
		phase         Phase
		landed        *bool
		trajectory    trajectory
		wait          bool
		stillS        float64
	}{
		{25, 5, PhaseFlying, &up, trajectory{}, true, 0}, {35, 5, PhaseFlying, &up, trajectory{}, false, 0},
		{25, 0.5, PhaseFlying, &down, trajectory{}, false, 0},
		{25, 5, PhasePilot, &up, trajectory{}, true, 0}, {25, 0, PhasePilot, &up, trajectory{}, false, 0},
		{8, 0, PhasePilot, &up, trajectory{}, true, 0},
		{10, 0, PhaseEngaging, &up, trajectory{}, false, 0}, {10, 0, PhaseClimbing, &up, trajectory{}, false, 0},
		{15, 0, PhaseFlying, &up, trajectory{kind: trajectoryTransit, target: physics.Position{EastM: 16}}, false, 0}, // it has arrived
		{15, 0, PhaseFlying, &up, trajectory{kind: trajectoryTransit, target: physics.Position{EastM: -90}}, true, 0},
		{15, 5, PhaseFlying, &up, trajectory{kind: trajectoryTransit, target: physics.Position{EastM: 20}}, true, 0},
		{11, 0.8, PhaseFlying, &up, trajectory{kind: trajectoryTransit, target: physics.Position{EastM: 14}}, false, 0}, // others push it
		{15, 0, PhaseFlying, &up, trajectory{kind: trajectoryLeg, displacementM: physics.Position{EastM: 5}}, true, 0},
		{15, 0, PhaseFlying, &up, trajectory{kind: trajectoryLeg}, false, 0},
		{15, 0, PhaseFlying, &up, trajectory{kind: trajectoryTransit, target: physics.Position{EastM: -90}}, false, 4}, // it waits itself
		{15, 0, PhaseFlying, &up, trajectory{kind: trajectoryLeg, displacementM: physics.Position{EastM: 5}}, false, 10},
	} {
		f := &Fleet{Log: slog.New(slog.DiscardHandler), Limits: envelope.Limits{SeparationM: 10, AltitudeM: 100, BandM: 20}}
		a := &aircraft{number: 1, located: true, landed: &down, channel: channels[0], heartbeatS: 100,
			control: control{phase: PhaseClimbing, order: order{launchedS: 100}}}
		b := &aircraft{number: 2, located: true, armed: true, landed: c.landed, positionS: 100,
			position: physics.Position{EastM: c.apartM}, velocity: physics.Position{NorthM: c.speed},
			control: control{phase: c.phase, trajectory: c.trajectory, slowSinceS: 99 - c.stillS}}
		f.aircraft = []*aircraft{a, b}
		if out, _ := a.fly(f, 100); (len(out) == 0) != c.wait || a.takeoffWaits != c.wait {
			t.Errorf("%+v: sent %v", c, out)
		}
		a.armed, a.heartbeatS = true, 102
		if out, _ := a.fly(f, 102); (len(out) == 0) != c.wait {
			t.Errorf("armed, %+v: sent %v", c, out)
		}
	}
}

// One whose leg leads through another that waits to climb is held, and the other does not
// wait for it: else both would wait for good.
func TestTakeOffDoesNotWaitForOneHeld(t *testing.T) {
	w := newSky(t, physics.Position{EastM: 500, NorthM: 500}, physics.Position{EastM: 530, NorthM: 500})
	low, other := w.fliers[0], w.fliers[1]
	low.aloft(low.home, 5)
	other.aloft(other.home, 100)
	w.fly(time.Second, nil)
	if err := w.Resume(resume(2, false)); err != nil {
		t.Fatal(err)
	}
	west := func() bool {
		if other.bootMS%1000 == 0 {
			w.Leg(2, physics.Position{EastM: -25})
		}
		return false
	}
	w.fly(5*time.Second, west)
	if err := w.Resume(resume(1, false)); err != nil {
		t.Fatal(err)
	}
	w.fly(30*time.Second, west)
	if low.upM < 90 {
		t.Errorf("it waits at %.0f m for another that is held %.0f m away", low.upM, other.position.Sub(low.position).Norm())
	}
}

// An autopilot that has landed is in the mode it flew in before, where PX4 does not
// arm; Hold is commanded first.
func TestArmsInHold(t *testing.T) {
	for mode, want := range map[Mode]common.MAV_CMD{
		ModeHold: common.MAV_CMD_COMPONENT_ARM_DISARM, ModeTakeoff: common.MAV_CMD_COMPONENT_ARM_DISARM,
		ModeOffboard: common.MAV_CMD_DO_SET_MODE, ModeLand: common.MAV_CMD_DO_SET_MODE, ModePosition: common.MAV_CMD_DO_SET_MODE,
	} {
		f := &Fleet{Log: slog.New(slog.DiscardHandler)}
		down := true
		a := &aircraft{number: 1, located: true, landed: &down, channel: channels[0], heartbeatS: 100, mode: mode,
			control: control{phase: PhaseClimbing, order: order{launchedS: 100}}}
		out, stream := a.fly(f, 100)
		if len(out) != 1 || stream {
			t.Fatalf("%v: sent %v", mode, out)
		}
		c := out[0].(*common.MessageCommandLong)
		if c.Command != want || want == common.MAV_CMD_DO_SET_MODE && (c.Param2 != 4 || c.Param3 != 3) {
			t.Errorf("%v: sent %+v, want %v", mode, c, want)
		}
	}
}

// A setpoint is valid for two slots, then the aircraft holds; after ten more the
// stream ends.
func TestSetpointsExpire(t *testing.T) {
	f := &Fleet{Log: slog.New(slog.DiscardHandler)}
	a := &aircraft{number: 1, position: physics.Position{EastM: 70}}
	a.trajectory = trajectory{kind: trajectoryLeg, setAtS: 100, from: physics.Position{EastM: 50},
		displacementM: physics.Position{EastM: 8}}
	for _, c := range []struct {
		now   float64
		at    float64
		feed  float64
		ended bool
	}{{100, 58, 0.4, false}, {100.5, 58, 4.2, false}, {101, 58, 8, false}, {101.9, 58, 8, false}, {102.1, 70, 0, false},
		{111.9, 70, 0, false}, {112.1, 70, 0, true}} {
		a.expireTrajectory(f, c.now)
		at, feed := a.reference(c.now)
		if math.Abs(at.EastM-c.at) > 1e-9 || math.Abs(feed.EastM-c.feed) > 1e-9 || a.trajectory.ended != c.ended {
			t.Errorf("at %v s: %v, %v, ended %v; want %+v", c.now, at, feed, a.trajectory.ended, c)
		}
	}
	if f.counts.ExpiredSetpoints != 1 {
		t.Errorf("stalled %d times", f.counts.ExpiredSetpoints)
	}
}

// A transit is flown at the speed of least power by an autopilot that controls position
// as PX4 does, receives a setpoint late, and keeps it until the next.
func TestTransitFliesBestSpeed(t *testing.T) {
	const (
		speed, gain = 8.4, 0.95 // v*, MPC_XY_P
		stepS       = 0.01
		periodS     = 0.1  // between setpoints
		delayS      = 0.05 // of a setpoint in transit
		lagS        = 0.4  // of the velocity
	)
	to := physics.Position{EastM: 300, NorthM: 400}
	a := &aircraft{number: 1}
	type setpoint struct {
		at, feed physics.Position
		fromS    float64
	}
	var queue []setpoint
	fastest, arrivedS, cruised, cruiseS := 0.0, math.Inf(1), 0.0, 0.0
	var flown setpoint
	for i := range int(120 / stepS) {
		now := 100 + float64(i)*stepS
		a.positionS = now
		if i%int(periodS/stepS) == 0 {
			a.trajectory = trajectory{kind: trajectoryTransit, setAtS: now, target: to, speedMPS: speed}
			at, feed := a.reference(now)
			queue = append(queue, setpoint{at, feed, now + delayS})
		}
		for len(queue) > 0 && queue[0].fromS <= now {
			flown, queue = queue[0], queue[1:]
		}
		if flown.fromS > 0 {
			asked := flown.at.Sub(a.position).Scale(gain).Add(flown.feed)
			a.velocity = a.velocity.Add(asked.Sub(a.velocity).Scale(stepS / lagS))
		}
		a.position = a.position.Add(a.velocity.Scale(stepS))
		fastest = math.Max(fastest, a.velocity.Norm())
		switch left := to.Sub(a.position).Norm(); {
		case left > 50 && left < 400:
			cruised, cruiseS = cruised+a.velocity.Norm()*stepS, cruiseS+stepS
		case left < arrivedM && a.velocity.Norm() < 2:
			arrivedS = math.Min(arrivedS, now-100)
		}
	}
	if mean := cruised / cruiseS; math.Abs(mean-speed) > 0.01*speed {
		t.Errorf("cruises at %.2f m/s, want %v", mean, speed)
	}
	if fastest > 1.25*speed || to.Sub(a.position).Norm() > 0.1 || arrivedS > 500/speed+6 {
		t.Errorf("up to %.2f m/s, %.2f m off at the end, arrived after %.1f s", fastest, to.Sub(a.position).Norm(), arrivedS)
	}
}

// With a key, only frames signed with it are accepted, and the leader's are signed.
func TestSignedPartner(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		key := func(b byte) *frame.V2Key { return frame.NewV2Key([]byte(strings.Repeat(string(rune(b)), 32))) }
		f, n := newSignedFleet(t, key('k'))
		view := func() View { return f.Views()[0] }
		refused := func() uint64 { return f.RejectedFrames()["wrong signature"] + f.RejectedFrames()["not signed"] }
		for name, p := range map[string]*peer{"unsigned": newPeer(t, n, 7, 1), "another key": newSignedPeer(t, n, 7, 1, key('x'))} {
			before := refused()
			p.until("frames are refused: "+name, func() bool { return refused() > before+5 }, heartbeatMessage(ModeOffboard, true))
			if view().Received {
				t.Fatalf("%s: received", name)
			}
		}
		partner := newSignedPeer(t, n, 7, 1, key('k'))
		partner.until("it is received", func() bool { return view().Received }, heartbeatMessage(ModeHold, false))
		partner.until("it hears us", func() bool { return partner.hasReceived(isHeartbeat) }, heartbeatMessage(ModeHold, false))
		partner.mutex.Lock()
		defer partner.mutex.Unlock()
		if partner.parseErrors > 0 {
			t.Errorf("%d of our frames were not signed with the key", partner.parseErrors)
		}
	})
}

// A link whose port is another program's does not keep the leader from starting: the reason is named, and it is opened once it can be.
func TestLinkThatOpensLater(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		f, n := unstartedFleet(t, nil)
		taken, err := n.Program("leader").Socket(linkAddress)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Close)
		p := newPeer(t, n, 7, 1)
		p.node.WriteMessageAll(heartbeatMessage(ModeHold, false))
		time.Sleep(3 * time.Second)
		if v := f.Views()[0]; v.Received || !strings.Contains(v.Ready().Error(), "a MAVLink router may have it") {
			t.Fatalf("received %v, %v", v.Received, v.Ready())
		}
		taken.Close()
		p.until("it is received", func() bool { return f.Views()[0].Received }, heartbeatMessage(ModeHold, false))
		if v := f.Views()[0]; v.LinkTrouble != "" {
			t.Errorf("it is open: %s", v.LinkTrouble)
		}
	})
}

// A link that takes an hour to open, for a name that nobody resolves, delays no other.
func TestSlowLinkDelaysNoOther(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		f, n := unstartedFleet(t, nil, VehicleLink{SystemID: 8, Endpoint: "slow"}, VehicleLink{SystemID: 9, Endpoint: "slower"})
		endpoint := f.Endpoint
		f.Endpoint = func(text string) (gomavlib.EndpointConf, error) {
			if strings.HasPrefix(text, "slow") {
				return gomavlib.EndpointCustomServer{Listen: func() (net.Listener, error) {
					time.Sleep(time.Hour)
					return nil, net.ErrClosed
				}}, nil
			}
			return endpoint(text)
		}
		began := time.Now()
		if err := f.Start(); err != nil || time.Since(began) > 2*time.Second {
			t.Fatalf("%v, after %v", err, time.Since(began))
		}
		t.Cleanup(f.Close)
		newPeer(t, n, 7, 1).until("it is received", func() bool { return f.Views()[0].Received }, heartbeatMessage(ModeHold, false))
	})
}

// Where the keys of leader and autopilot differ, or one of the two has none, the counter and the refusal of a start say so: a crew that
// is sent to its cables finds nothing there.
func TestKeysThatDiffer(t *testing.T) {
	one, other := frame.NewV2Key([]byte(strings.Repeat("1", 32))), frame.NewV2Key([]byte(strings.Repeat("2", 32)))
	for _, c := range []struct {
		leader, autopilot *frame.V2Key
		counted, says     string
	}{
		{one, other, "wrong signature", "wrong signature: its link"},
		{one, nil, "not signed", "not signed: its link"},
		{nil, other, "", "signed, and this leader has no key; set mavlink.key_file"},
	} {
		t.Run(c.says, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				f, n := newSignedFleet(t, c.leader)
				p := newSignedPeer(t, n, 7, 1, c.autopilot)
				p.until(c.says, func() bool {
					v := f.Views()[0]
					return strings.HasPrefix(v.Ready().Error(), c.says)
				}, heartbeatMessage(ModeHold, false))
				if counts := f.RejectedFrames(); c.counted != "" && counts[c.counted] == 0 || counts["malformed frame"] > 0 {
					t.Errorf("%v", counts)
				}
				time.Sleep(time.Second) // ten mission seconds
				if v := f.Views()[0]; v.LinkTrouble != "" {
					t.Errorf("long after the last frame: %s", v.LinkTrouble)
				}
			})
		})
	}
}

// A ground station on the links receives events and values.
func TestGroundStationReceives(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		f, n := newFleet(t)
		log := slog.New(StatusTextHandler{Handler: slog.DiscardHandler, Announce: f.AnnounceText})
		station := newPeer(t, n, 255, 190)
		station.until("it is on the link", func() bool { return station.hasReceived(isHeartbeat) },
			&common.MessageHeartbeat{Type: common.MAV_TYPE_GCS})
		log.Error("unsafe failsafe", "aircraft", 2, "reason", "COM_OBL_RC_ACT is 0, want 5 (Hold), 3 (Return) or 4 (Land)")
		log.Info("mission", "from", "idle", "to", "climbing", "slot", 0)
		log.Info("not for ground stations")
		f.AnnounceValue("budget_j", 42000)
		f.AnnounceValue("a_name_that_is_long", 1)
		for what, is := range map[string]func(message.Message) bool{
			"an alarm": func(m message.Message) bool {
				s, ok := m.(*common.MessageStatustext)
				return ok && s.Severity == common.MAV_SEVERITY_ERROR && s.Text == "2: unsafe failsafe: COM_OBL_RC_ACT is 0, want 5 (H" &&
					s.Id > 0 && s.ChunkSeq == 0
			},
			"the end of its reason": func(m message.Message) bool {
				s, ok := m.(*common.MessageStatustext)
				return ok && s.Text == "old), 3 (Return) or 4 (Land)" && s.Id > 0 && s.ChunkSeq == 1
			},
			"a step of the mission": func(m message.Message) bool {
				s, ok := m.(*common.MessageStatustext)
				return ok && s.Severity == common.MAV_SEVERITY_NOTICE && s.Text == "mission climbing"
			},
			"a figure": func(m message.Message) bool {
				v, ok := m.(*common.MessageNamedValueFloat)
				return ok && v.Name == "budget_j" && v.Value == 42000
			},
			"a name cut to ten characters": func(m message.Message) bool {
				v, ok := m.(*common.MessageNamedValueFloat)
				return ok && v.Name == "a_name_tha"
			},
		} {
			station.until(what, func() bool { return station.hasReceived(is) })
		}
		if station.hasReceived(func(m message.Message) bool {
			s, ok := m.(*common.MessageStatustext)
			return ok && strings.Contains(s.Text, "not for")
		}) {
			t.Error("the log's every line is announced")
		}
	})
}

// The possible path of an aircraft that is not received, and how long it is an obstacle.
func TestPossiblePath(t *testing.T) {
	f := &Fleet{Log: slog.New(slog.DiscardHandler), Speed: 1, Clock: clock.New()}
	home := physics.Position{NorthM: -50}
	up, down := false, true
	last, on := physics.Position{EastM: 100}, physics.Position{EastM: 116}
	// as far as it flies on after a last setpoint at 8 m/s, and in a hold
	lost, held := physics.Position{EastM: 100 + 8*(0.84+8.0/6+1.7)}, physics.Position{EastM: 100 + 8*(0.84+8.0/6)}
	for _, c := range []struct {
		name   string
		mode   Mode
		action int
		ageS   float64
		want   []physics.Position
	}{
		{"received", ModeOffboard, 3, 0.5, []physics.Position{{EastM: 104}}},
		{"silent", ModeOffboard, 3, 1.5, []physics.Position{last, {EastM: 112}}},
		{"its failsafe has not come yet", ModeOffboard, 3, 4, []physics.Position{last, lost}},
		{"its failsafe returns", ModeOffboard, 3, 6, []physics.Position{last, lost, home}},
		{"its failsafe holds", ModeOffboard, 5, 600, []physics.Position{last, lost}},
		{"brakes in its hold", ModeHold, 5, 0, []physics.Position{held, last}},
		{"silent in its hold", ModeHold, 5, 1.5, []physics.Position{last, {EastM: 112}}},
		{"long silent in its hold", ModeHold, 5, 600, []physics.Position{last, held}},
		{"received in its return", ModeReturn, 5, 0,
			[]physics.Position{last.Add(physics.Position{EastM: -2, NorthM: -1}.Scale(54 / math.Sqrt(5))), last}},
		{"returns already", ModeReturn, 5, 2, []physics.Position{last, on, home}},
		{"a pilot's", ModePosition, 3, 600, []physics.Position{last, on}},
	} {
		a := &aircraft{located: true, armed: true, landed: &up, position: last, velocity: physics.Position{EastM: 8}, positionS: 100,
			home: &home,
			mode: c.mode, params: Parameters{px4Parameters: px4Parameters{OffboardLossAction: c.action, OffboardLossS: 5}}}
		near := func(p, q physics.Position) bool { return p.Sub(q).Norm() < 1e-6 }
		if got := a.possiblePath(100 + c.ageS); !slices.EqualFunc(got, c.want, near) || !a.isObstacle() {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	a := &aircraft{number: 1, lastKnownTrack: []physics.Position{last}}
	f.aircraft = []*aircraft{a, {number: 2, located: true, armed: true, received: true, receivedS: f.nowS(), landed: &up}}
	if !a.isObstacle() || !slices.Equal(a.possiblePath(3), []physics.Position{last}) {
		t.Error("the leader before us left it in the air, and it is forgotten")
	}
	if err := f.Order(Clear, ordered(2)); err == nil {
		t.Error("an aircraft that is received was cleared")
	}
	if err := f.Order(Clear, ordered(1, 2)); err == nil || !a.isObstacle() {
		t.Errorf("an order that was refused for another aircraft cleared this one: %v", err)
	}
	if err := f.Order(Clear, ordered(1)); err != nil || a.isObstacle() {
		t.Errorf("the crew cleared it: %v", err)
	}
	if err := f.Order(Clear, ordered(1)); err == nil {
		t.Error("cleared twice")
	}
	a.located, a.armed, a.landed, a.lastKnownTrack, a.received, a.receivedS = true, true, &up, nil, true, 50
	if a.handleMessage(f, 50, &common.MessageSysStatus{}); !a.isObstacle() {
		t.Error("received in the air, it is still no obstacle")
	}
	if a.landed, a.velocity = &down, (physics.Position{}); a.isObstacle() {
		t.Error("on the ground it is in the way")
	}
}

// An aircraft makes up for its lag behind the leg, at a bounded excess over the
// commanded speed: energy rises with its cube.
func TestLagIsMadeUpFor(t *testing.T) {
	for _, c := range []struct{ lagM, madeUpM float64 }{{0, 0}, {2, 2}, {-2, -2}, {8, lagMaxM}, {-8, -lagMaxM}} {
		b := newFixture(t)
		a := b.aircraft[0]
		at := func(eastM float64) { a.position.EastM, a.positionS = eastM, a.positionS+1 }
		a.positionS = b.nowS() - 1
		at(0)
		b.Leg(1, physics.Position{EastM: 20})
		b.clock.Advance(time.Second)
		at(20 - c.lagM)
		b.Leg(1, physics.Position{EastM: 20})
		target, feed := a.reference(b.nowS())
		asked := feed.EastM + a.params.positionLoop().GainPerS*(target.EastM-a.position.EastM)
		if want := 20 + a.params.positionLoop().GainPerS*c.madeUpM; math.Abs(asked-want) > 1e-9 {
			t.Errorf("%v m behind its leg it is asked for %v m/s, want %v", c.lagM, asked, want)
		}
	}
}

// An autopilot's clock wraps after 49.7 days; a clock that falls otherwise was reset by
// a reboot.
func TestClockWraps(t *testing.T) {
	b := newFixture(t)
	a := b.aircraft[0]
	a.phase = PhaseFlying
	send := func(ms uint32) {
		b.clock.Advance(time.Second)
		a.handlePosition(b.Fleet, b.nowS(), &common.MessageGlobalPositionInt{TimeBootMs: ms, Lat: 470000000, Lon: 80000000})
	}
	send(math.MaxUint32 - 1499)
	send(math.MaxUint32 - 499)
	send(500)
	if a.phase != PhaseFlying || a.bootMS != 1<<32+500 {
		t.Errorf("after the clock ran over: phase %v, %v ms since boot", a.phase, a.bootMS)
	}
	a.bootMS, a.clockRate = 30*24*3600*1000, clockRate{} // after thirty days a small time is a reboot's
	a.clockRate.add(a.bootMS, b.nowS())
	b.clock.Advance(3 * time.Second) // then it is known for long enough
	for _, ms := range []uint32{1000, 2000, 3000} {
		send(ms)
	}
	if a.phase != PhasePilot || a.bootMS != 3000 {
		t.Errorf("after a reboot: phase %v, %v ms since boot", a.phase, a.bootMS)
	}
}

// An autopilot's time since boot begins anew after 49.7 days, for a leader that was started again meanwhile, too.
func TestUnwrapped(t *testing.T) {
	const wrap = 1 << 32
	for _, c := range []struct {
		ms           uint32
		before, want float64
	}{
		{5000, 0, 5000}, {90000, 80000, 90000},
		{2000, wrap - 3000, wrap + 2000},              // within a restart
		{7000, wrap + 3000, wrap + 7000},              // and a while after
		{2000, 80000, 2000},                           // it has rebooted
		{2000, wrap * 0.6, 2000},                      // after a month
		{2000, wrap - 2*3600e3, 2000},                 // two hours before
		{wrap - 1000, wrap - 5000, wrap - 1000},       // not yet
		{wrap - 1000, 2*wrap - 5000, 2*wrap - 1000}} { // for the second time
		if got := unwrapped(c.ms, c.before); got != c.want {
			t.Errorf("%d ms after %v: %v, want %v", c.ms, c.before, got, c.want)
		}
	}
}
