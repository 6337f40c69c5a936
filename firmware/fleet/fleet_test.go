package fleet

import (
	"log/slog"
	"math"
	"net"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/firmware/clock"
	"prefdt/firmware/envelope"
	"prefdt/inference/physics"
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
	if p.Unsafe() == "" {
		t.Error("parameters that were not read are taken for safe")
	}
	p.set(&common.MessageParamValue{ParamId: "COM_OBL_RC_ACT", ParamType: common.MAV_PARAM_TYPE_INT32, ParamValue: math.Float32frombits(5)})
	p.set(&common.MessageParamValue{ParamId: "COM_OF_LOSS_T", ParamType: common.MAV_PARAM_TYPE_REAL32, ParamValue: 1})
	p.set(&common.MessageParamValue{ParamId: "MPC_XY_VEL_MAX", ParamType: common.MAV_PARAM_TYPE_REAL32, ParamValue: float32(math.NaN())})
	if p.Read() {
		t.Error("a parameter that is no number was taken")
	}
	p.set(&common.MessageParamValue{ParamId: "MPC_XY_VEL_MAX", ParamType: common.MAV_PARAM_TYPE_REAL32, ParamValue: 12})
	if reason := p.Unsafe(); reason != "" || p.SpeedMaxMPS != 12 || p.LossAction != 5 {
		t.Errorf("%+v: %s", p, reason)
	}
	p.LossAction = 0 // the stock value sinks
	if p.Unsafe() == "" {
		t.Error("the stock failsafe is taken for safe")
	}
}

// peer is somebody on the other side of a UDP link.
type peer struct {
	t    *testing.T
	node *gomavlib.Node
}

func newPeer(t *testing.T, address string, system, component byte) *peer {
	n := &gomavlib.Node{
		Endpoints: []gomavlib.EndpointConf{gomavlib.EndpointUDPClient{Address: address}},
		Dialect:   common.Dialect, OutVersion: gomavlib.V2, OutSystemID: system, OutComponentID: component, HeartbeatDisable: true,
	}
	if err := n.Initialize(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	go func() {
		for range n.Events() {
		}
	}()
	return &peer{t, n}
}

// until sends messages until something is so.
func (p *peer) until(what string, ok func() bool, messages ...message.Message) {
	p.t.Helper()
	late := time.Now().Add(10 * time.Second)
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

func newFleet(t *testing.T) (*Fleet, string) {
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := c.LocalAddr().String()
	c.Close()
	f := &Fleet{
		SystemID: 250, Origin: Origin{47, 8, 400}, Physics: physics.Standard(), Speed: 10,
		Limits:   envelope.Limits{SpeedMaxMPS: 30, SeparationM: 10, AreaM: 1000, AltitudeM: 100, BandM: 20, FenceM: 15},
		Aircraft: []Aircraft{{SystemID: 7, Endpoint: "udp-listen:" + address}},
		Clock:    clock.New(), Log: slog.New(slog.DiscardHandler),
	}
	if err := f.Initialize(); err != nil {
		t.Fatal(err)
	}
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f, address
}

func beat(mode Mode, armed bool) *common.MessageHeartbeat {
	m := &common.MessageHeartbeat{Type: common.MAV_TYPE_QUADROTOR, Autopilot: common.MAV_AUTOPILOT_PX4, CustomMode: uint32(mode)}
	if armed {
		m.BaseMode = common.MAV_MODE_FLAG_SAFETY_ARMED
	}
	return m
}

// Frames count by channel, system and component; all others are counted out.
func TestWhoIsHeard(t *testing.T) {
	f, address := newFleet(t)
	view := func() View { return f.Views(nil)[0] }
	rejected := func(reason string) func() bool { return func() bool { return f.Rejects()[reason] > 0 } }

	newPeer(t, address, 8, 1).until("a stranger is counted", rejected("system id of no aircraft here"), beat(ModeHold, true))
	newPeer(t, address, 7, 191).until("another component is counted", rejected("component 191 of a system of ours"), beat(ModeHold, true))
	newPeer(t, address, 250, 191).until("our echo is counted", rejected("our own echo"), beat(ModeHold, true))
	if view().Heard {
		t.Fatal("heard before it spoke")
	}
	real := newPeer(t, address, 7, 1)
	real.until("it is heard", func() bool { return view().Mode == ModeOffboard }, beat(ModeOffboard, true))
	twin := newPeer(t, address, 7, 1)
	both := 0
	real.until("a twin is counted", func() bool {
		twin.node.WriteMessageAll(beat(ModeReturn, false))
		if view().Mode == ModeReturn {
			both++
		}
		return f.Rejects()["system id 7 from two places"] > 0
	}, beat(ModeOffboard, true))
	if both > 0 || !view().Armed {
		t.Error("the twin was believed")
	}
}

func TestWhatIsMeasured(t *testing.T) {
	f, address := newFleet(t)
	p := newPeer(t, address, 7, 1)
	lat, lon, amsl := f.Origin.Geodetic(physics.Position{EastM: 320, NorthM: 610}, 97)
	position := func(bootMS uint32) *common.MessageGlobalPositionInt {
		return &common.MessageGlobalPositionInt{
			TimeBootMs: bootMS, Lat: int32(math.Round(lat * 1e7)), Lon: int32(math.Round(lon * 1e7)), Alt: int32(math.Round(amsl * 1000)),
			Vx: 300, Vy: -400, RelativeAlt: 12345, // relative to the vehicle's home, of no use here
		}
	}
	view := func() View { return f.Views(nil)[0] }
	p.until("it is located", func() bool { v := view(); return v.Fresh && v.Landed != nil && v.Charge == 0.5 }, beat(ModeHold, true), position(500000),
		&common.MessageExtendedSysState{LandedState: common.MAV_LANDED_STATE_IN_AIR},
		&common.MessageBatteryStatus{CurrentBattery: -100, EnergyConsumed: -1, BatteryRemaining: 50})
	v := view()
	if v.UpM != 97 || math.Abs(v.SpeedMPS-5) > 1e-9 || v.Position.Sub(physics.Position{EastM: 320, NorthM: 610}).Norm() > 10 || !v.InAir {
		t.Errorf("%+v", v)
	}
	f.Command(1, OrderFly)
	p.until("a reboot is noticed", func() bool { return view().Why == "rebooted" }, position(1000))
	if v := view(); v.Phase != PhaseTaken || v.Params.Read() {
		t.Errorf("after a reboot: %+v", v)
	}
}

// PX4 relays a battery measured outside it as 255, beside which its own counts.
func TestWhichBattery(t *testing.T) {
	f := &Fleet{Log: slog.New(slog.DiscardHandler)}
	a := &aircraft{number: 1, charge: math.NaN()}
	for _, c := range []struct {
		now     float64
		id      uint8
		percent int8
		want    float64
	}{{100, 1, 10, math.NaN()}, {101, relayedBattery, 80, 0.8}, {102, 0, 70, 0.7}, {103, relayedBattery, 79, 0.7}, {104, 1, 10, 0.7}, {108, relayedBattery, 78, 0.78}} {
		a.receive(f, c.now, &common.MessageBatteryStatus{Id: c.id, CurrentBattery: -1, EnergyConsumed: -1, BatteryRemaining: c.percent})
		if a.charge != c.want && !(math.IsNaN(a.charge) && math.IsNaN(c.want)) {
			t.Errorf("battery %d at %v s: charge %v, want %v", c.id, c.now, a.charge, c.want)
		}
	}
}

// One that stands does not climb into another's way, and waits only so long.
func TestTakeOffWaitsForWhoeverFliesNear(t *testing.T) {
	up, down := false, true
	for _, c := range []struct {
		apartM, speed float64
		phase         Phase
		landed        *bool
		wait          bool
	}{
		{25, 5, PhaseFlying, &up, true}, {35, 5, PhaseFlying, &up, false}, {25, 5, PhaseFlying, &down, false},
		{25, 5, PhaseTaken, &up, true}, {25, 0, PhaseTaken, &up, false}, {8, 0, PhaseTaken, &up, true},
		{10, 0, PhaseEngaging, &up, false}, {10, 0, PhaseClimbing, &up, false},
	} {
		f := &Fleet{Log: slog.New(slog.DiscardHandler), Limits: envelope.Limits{SeparationM: 10, AltitudeM: 100, BandM: 20}}
		a := &aircraft{number: 1, located: true, landed: &down, control: control{order: OrderFly, phase: PhaseClimbing}}
		b := &aircraft{number: 2, located: true, armed: true, landed: c.landed, positionS: 100,
			position: physics.Position{EastM: c.apartM}, velocity: physics.Position{NorthM: c.speed},
			control: control{order: OrderFly, phase: c.phase, aim: aim{kind: aimHold}}}
		f.aircraft = []*aircraft{a, b}
		if out, _ := a.fly(f, 100); (len(out) == 0) != c.wait || a.waits != c.wait {
			t.Errorf("%+v: sent %v", c, out)
		}
		a.armed = true
		if out, _ := a.fly(f, 102); (len(out) == 0) != c.wait {
			t.Errorf("armed, %+v: sent %v", c, out)
		}
	}
}

// A setpoint lives two slots, then the aircraft holds; after ten more the
// stream ends.
func TestSetpointsExpire(t *testing.T) {
	f := &Fleet{Log: slog.New(slog.DiscardHandler)}
	a := &aircraft{number: 1, position: physics.Position{EastM: 70}}
	a.aim = aim{kind: aimLeg, setS: 100, from: physics.Position{EastM: 50}, moveM: physics.Position{EastM: 8}}
	for _, c := range []struct {
		now   float64
		at    float64
		feed  float64
		ended bool
	}{{100, 58, 0.4, false}, {100.5, 58, 4.2, false}, {101, 58, 8, false}, {101.9, 58, 8, false}, {102.1, 70, 0, false}, {111.9, 70, 0, false}, {112.1, 70, 0, true}} {
		a.expire(f, c.now)
		at, feed := a.reference(c.now)
		if math.Abs(at.EastM-c.at) > 1e-9 || math.Abs(feed.EastM-c.feed) > 1e-9 || a.aim.ended != c.ended {
			t.Errorf("at %v s: %v, %v, ended %v; want %+v", c.now, at, feed, a.aim.ended, c)
		}
	}
	if f.counts.Stalled != 1 {
		t.Errorf("stalled %d times", f.counts.Stalled)
	}
}
