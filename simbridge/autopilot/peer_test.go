package autopilot

import (
	"log/slog"
	"math"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/inference/physics"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/geo"
	"prefdt/simbridge/simnet"
)

var origin = geo.Point{LatDeg: 47.397742, LonDeg: 8.545594, AltM: 488}

func testConfig() Config {
	p := physics.DefaultConstants().Propulsion
	return Config{
		SystemID: 3, Listen: "127.0.0.1:0", Origin: origin, Start: geo.Local{EastM: 333, NorthM: 500},
		Speed: 1, CapacityJ: 150e3, Battery: battery.Fields{Current: true, Energy: true, Remaining: true}, BootedS: 60,
		Parameters: map[string]float64{"MPC_XY_VEL_MAX": 30},
		PowerW:     func(_ int, velocityMPS geo.Local) float64 { return p.PowerW(velocityMPS.HorizontalM()) },
		Log:        slog.New(slog.DiscardHandler),
	}
}

// peer is a companion computer: a gomavlib node that keeps the last message of each type and
// streams setpoints.
type peer struct {
	*testing.T
	network   *simnet.Network
	autopilot *Autopilot
	node      *gomavlib.Node

	malformedFrames atomic.Int64

	mutex   sync.Mutex
	changed chan struct{} // closed and replaced on each message
	last    map[reflect.Type]message.Message
	battery []*common.MessageBatteryStatus
	stream  func() message.Message // nil: none
	stop    chan struct{}
}

// on has an autopilot use a network in memory.
func (c *Config) on(n *simnet.Network) {
	program := n.Program("autopilot")
	c.Open, c.OpenSerial = program.Socket, program.Serial
}

// startPeer starts an autopilot and its companion on a network in memory. It is called in a [simnet.Test].
func startPeer(t *testing.T, conf Config) *peer {
	t.Helper()
	n := simnet.New(1)
	conf.on(n)
	return startPeerOn(t, n, conf, n.Program("companion").Endpoint)
}

// startPeerOn joins the companion to the autopilot's link: UDP, or the cable by the name of its serial port.
func startPeerOn(t *testing.T, n *simnet.Network, conf Config, endpoint func(string) (gomavlib.EndpointConf, error)) *peer {
	t.Helper()
	a := &Autopilot{Config: conf}
	if err := a.Initialize(); err != nil {
		t.Fatal(err)
	}
	at := "serial:" + conf.Serial
	if conf.Serial == "" {
		at = "udp:" + a.Addr()
	}
	e, err := endpoint(at)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{T: t, network: n, autopilot: a, changed: make(chan struct{}), last: map[reflect.Type]message.Message{},
		stop: make(chan struct{})}
	p.node = &gomavlib.Node{
		Endpoints: []gomavlib.EndpointConf{e},
		Dialect:   common.Dialect, OutVersion: gomavlib.V2, OutSystemID: 245, OutComponentID: 191, HeartbeatDisable: true,
	}
	if err := p.node.Initialize(); err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(p.read)
	done.Go(p.send)
	t.Cleanup(func() {
		close(p.stop)
		p.node.Close()
		a.Close()
		done.Wait()
	})
	// The first datagram makes the peer the partner. The channel may not be open yet.
	for p.get(&common.MessageHeartbeat{}) == nil {
		p.write(&common.MessageHeartbeat{Type: common.MAV_TYPE_ONBOARD_CONTROLLER, Autopilot: common.MAV_AUTOPILOT_INVALID})
		time.Sleep(5 * time.Millisecond)
	}
	return p
}

func (p *peer) read() {
	for e := range p.node.Events() {
		if _, malformed := e.(*gomavlib.EventParseError); malformed {
			p.malformedFrames.Add(1)
		}
		f, ok := e.(*gomavlib.EventFrame)
		if !ok || f.SystemID() != 3 {
			continue
		}
		p.mutex.Lock()
		p.last[reflect.TypeOf(f.Message())] = f.Message()
		if b, ok := f.Message().(*common.MessageBatteryStatus); ok {
			p.battery = append(p.battery, b)
		}
		close(p.changed)
		p.changed = make(chan struct{})
		p.mutex.Unlock()
	}
}

// send streams setpoints at 10 Hz.
func (p *peer) send() {
	ticker := time.NewTicker(time.Second / 10)
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
			p.mutex.Lock()
			stream := p.stream
			p.mutex.Unlock()
			if stream != nil {
				p.write(stream())
			}
		}
	}
}

func (p *peer) setStream(f func() message.Message) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.stream = f
}

// offboard streams setpoints and, once the aircraft receives them, commands OFFBOARD.
func (p *peer) offboard(set func() message.Message) {
	p.Helper()
	p.setStream(set)
	p.until("stream", func() (received bool) {
		p.autopilot.withVehicle(func(v *vehicle) { received = v.streaming() })
		return received
	})
	if r := p.setMode(6, 0); r != accepted {
		p.Errorf("OFFBOARD with a stream: %v", r)
	}
}

func (p *peer) write(m message.Message) {
	if err := p.node.WriteMessageAll(m); err != nil {
		p.Error(err)
	}
}

func (p *peer) get(like message.Message) message.Message {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.last[reflect.TypeOf(like)]
}

// until waits for a condition, checked on every message.
func (p *peer) until(what string, ok func() bool) {
	p.Helper()
	const longest = 5 * time.Minute
	timeout := time.After(longest)
	for {
		p.mutex.Lock()
		changed := p.changed
		p.mutex.Unlock()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			p.Fatalf("no %s in %v: %+v", what, longest, p.autopilot.State())
		}
	}
}

// waitMissionS waits for mission time to pass, by the autopilot's own clock.
func (p *peer) waitMissionS(s float64) {
	p.Helper()
	p.autopilot.mutex.Lock()
	end := p.autopilot.vehicle.timeUS + int64(s*1e6)
	p.autopilot.mutex.Unlock()
	p.until("time", func() bool {
		p.autopilot.mutex.Lock()
		defer p.autopilot.mutex.Unlock()
		return p.autopilot.vehicle.timeUS >= end
	})
}

func (p *peer) mode() Mode {
	return Mode(p.get(&common.MessageHeartbeat{}).(*common.MessageHeartbeat).CustomMode)
}

func (p *peer) armed() bool {
	return p.get(&common.MessageHeartbeat{}).(*common.MessageHeartbeat).BaseMode&common.MAV_MODE_FLAG_SAFETY_ARMED != 0
}

// command sends COMMAND_LONG and returns the result in its COMMAND_ACK.
func (p *peer) command(id common.MAV_CMD, params ...float64) common.MAV_RESULT {
	p.Helper()
	p.mutex.Lock()
	delete(p.last, reflect.TypeFor[*common.MessageCommandAck]())
	p.mutex.Unlock()
	m := &common.MessageCommandLong{TargetSystem: 3, TargetComponent: 1, Command: id}
	for i, f := range []*float32{&m.Param1, &m.Param2, &m.Param3, &m.Param4, &m.Param5, &m.Param6, &m.Param7} {
		if i < len(params) {
			*f = float32(params[i])
		}
	}
	p.write(m)
	var ack *common.MessageCommandAck
	p.until("acknowledgement", func() bool {
		ack, _ = p.get(&common.MessageCommandAck{}).(*common.MessageCommandAck)
		return ack != nil && ack.Command == id
	})
	if ack.TargetSystem != 245 || ack.TargetComponent != 191 {
		p.Errorf("acknowledgement to %d/%d, want 245/191", ack.TargetSystem, ack.TargetComponent)
	}
	return ack.Result
}

func (p *peer) setMode(main, sub float64) common.MAV_RESULT {
	p.Helper()
	return p.command(common.MAV_CMD_DO_SET_MODE, 1, main, sub)
}

func (p *peer) arm() common.MAV_RESULT {
	p.Helper()
	return p.command(common.MAV_CMD_COMPONENT_ARM_DISARM, 1)
}

var nan = math.NaN()

// takeOff brings the aircraft to a height and waits for Hold.
func (p *peer) takeOff(heightM float64) {
	p.Helper()
	p.command(common.MAV_CMD_NAV_TAKEOFF, 0, 0, 0, nan, nan, nan, origin.AltM+heightM)
	p.arm()
	p.until("take-off", func() bool { return p.armed() && p.mode() == ModeHold && p.autopilot.State().Position.UpM > heightM-1 })
}

const (
	positionOnly        = 0b110111111000
	velocityOnly        = 0b110111000111
	positionAndVelocity = 0b110111000000
)

// localSetpoint is a setpoint in frame 1: metres from where the aircraft started.
func localSetpoint(mask, north, east, up, velocityNorth, velocityEast float64) func() message.Message {
	return func() message.Message {
		return &common.MessageSetPositionTargetLocalNed{
			TargetSystem: 3, TargetComponent: 1, CoordinateFrame: common.MAV_FRAME_LOCAL_NED,
			TypeMask: common.POSITION_TARGET_TYPEMASK(mask), X: float32(north), Y: float32(east), Z: float32(-up),
			Vx: float32(velocityNorth), Vy: float32(velocityEast),
		}
	}
}
