// Package autopilot simulates aircraft with PX4 or ArduCopter on board, each a MAVLink
// endpoint on UDP or a serial port, which a leader cannot tell from real ones.
//
// Inputs: MAVLink setpoints, commands and parameter requests; from the simulator, the
// computing done on board and the faults to simulate.
// Outputs: PX4's telemetry: position, mode, landed state, battery, status texts.
// Callers: simbridge/fly and simbridge/chaos, and the leader's tests.
//
// In a slot it has the place of the real aircraft: it follows the setpoints, draws
// the power of its true speed, and adds the joules of the computing to its energy.
// Time is mission time, Speed times as fast as wall time.
//
// The behaviour of modes, arming, lost streams, parameters and unknown battery values
// was measured on PX4 1.16. What differs on ArduCopter, measured on 4.7-dev, is in copter.go.
package autopilot

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialect"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/simbridge/battery"
	"prefdt/simbridge/geo"
	"prefdt/telemetry/datagram"
)

// Config is one aircraft.
type Config struct {
	SystemID   uint8
	Copter     bool          // an ArduCopter, in place of PX4
	Listen     string        // UDP address to bind
	Partner    string        // UDP address to send to until the first datagram is received; empty: none
	Serial     string        // device:baud, in place of Listen and Partner
	SecondLink string        // UDP address that a second link sends to, from any port; empty: no second link
	Framing    Framing       // of the first link's datagrams
	Open       datagram.Open // opens the sockets; nil: the machine's
	// OpenSerial opens the serial port; nil: the machine's.
	OpenSerial func(device string, baud int) (net.Conn, error)
	// TwoCounters: on the first link positions have one sequence counter, all else another.
	TwoCounters bool
	Origin      geo.Point
	Start       geo.Local  // on the ground
	Slope       [2]float64 // metres that the ground rises for each metre east and north
	Speed       float64    // mission seconds per second
	Receiver    Receiver   // of its position
	DriftM      float64    // how far the height that it measures, and flies by, is off after a while
	GustMPS2    float64    // standard deviation of the acceleration by gusts, horizontally; 0: the air is still
	Seed        uint64     // of gusts and of the receiver's errors
	LaterNames  bool       // an ArduCopter's parameters are those of a later version, some in m/s
	BootedS     float64    // mission seconds for which an ArduCopter was switched on before: its checks pass late
	CapacityJ   float64
	Battery     battery.Fields
	// EmptyBattery: it also tells of a second battery, of which nothing is measured.
	EmptyBattery bool
	Parameters   map[string]float64 // beside the defaults; PX4's names stand for an ArduCopter's counterparts too
	// PowerW is the flight power in a slot of the mission, -1 before it, at a horizontal
	// velocity over the ground; wind is for it to know.
	PowerW func(slot int, velocityMPS geo.Local) float64
	// OnMotion, if set, is called after each step with the slot and the true state.
	OnMotion func(slot int, s State)
	// OnReceived, if set, is called with each message that reaches the vehicle, before it
	// is executed. It must not call the autopilot.
	OnReceived func(Received)
	// OnHeartbeatSent, if set, is called with each HEARTBEAT that was sent by UDP
	// without loss or delay: from then on a receiver can know the mode.
	OnHeartbeatSent func(Heartbeat)
	Log             *slog.Logger
}

// Receiver is how wrong the positions are that an aircraft tells, though it flies by better ones: standard deviations of
// errors that last for about a second. The zero value is exact.
type Receiver struct {
	PositionM   float64 // east and north, each
	HeightM     float64
	VelocityMPS float64 // east and north, each
}

// Heartbeat is the content of a HEARTBEAT.
type Heartbeat struct {
	TimeS    float64 // mission time since the vehicle was started
	Mode     Mode
	Armed    bool
	Failsafe bool // the mode is a failsafe's
}

// Received is one message, and the state of the vehicle when it arrived.
type Received struct {
	Setpoint *Setpoint       // one that the vehicle follows, or
	Command  common.MAV_CMD  // not 0: a command to this vehicle, or
	Other    message.Message // any other message, also a command or setpoint that is addressed to another vehicle
	Param    [7]float64      // of the command, Param[0] is the specification's param 1
	// Target is the system that the message is addressed to: 0 is all of them, -1 a
	// message without an address.
	Target int
	From   int     // system that sent it
	TimeS  float64 // mission time since the vehicle was started
	Body
	Mode   Mode
	Armed  bool
	Landed bool
}

// Check returns what is wrong with a configuration.
func (c *Config) Check() error {
	p := paramsOf(c)
	if name := p.setAll(c.Parameters); name != "" {
		return fmt.Errorf("autopilot parameter %s = %v: want 0 or more for one of those that are simulated, %s", name, c.Parameters[name],
			strings.Join(p.names(), ", "))
	}
	if c.Serial != "" {
		if _, _, err := parseSerial(c.Serial); err != nil {
			return err
		}
	}
	switch {
	case c.SystemID == 0:
		return fmt.Errorf("autopilot system id is 0, want 1 to 255")
	case !(c.Speed > 0 && c.Speed <= 1000):
		return fmt.Errorf("autopilot speed is %v, want above 0, at most 1000", c.Speed)
	case !(c.CapacityJ > 0):
		return fmt.Errorf("autopilot battery capacity is %v J, want above 0", c.CapacityJ)
	}
	return nil
}

// ParameterValues are all parameters of the autopilot, by its own names and in its own units.
func (c *Config) ParameterValues() map[string]float64 {
	p, values := paramsOf(c), map[string]float64{}
	p.setAll(c.Parameters)
	for _, q := range p {
		values[q.name] = q.value
	}
	return values
}

// parseSerial reads device:baud.
func parseSerial(port string) (device string, baud int, err error) {
	i := strings.LastIndexByte(port, ':')
	if baud, err = strconv.Atoi(port[i+1:]); i < 1 || err != nil || baud < 1200 {
		return "", 0, fmt.Errorf("autopilot serial port is %q, want device:baud", port)
	}
	return port[:i], baud, nil
}

// Autopilot is a running simulated aircraft.
type Autopilot struct {
	Config

	mutex    sync.Mutex
	vehicle  *vehicle
	traffic  Traffic
	radio    radio
	stations map[*gomavlib.Channel]float64 // links with a ground station, and when it was last received

	link      *udpLink // nil: serial
	node      *gomavlib.Node
	startedAt time.Time
	stop      chan struct{}
	done      sync.WaitGroup
}

// Initialize binds the address and starts the aircraft.
func (a *Autopilot) Initialize() error {
	if err := a.Check(); err != nil {
		return err
	}
	if a.Log == nil {
		a.Log = slog.Default()
	}
	endpoints, err := a.endpoints()
	if err != nil {
		return err
	}
	a.vehicle, a.stations = newVehicle(a.Config), map[*gomavlib.Channel]float64{}
	a.node = &gomavlib.Node{
		Endpoints: endpoints,
		Dialect:   spoken, OutVersion: gomavlib.V2, OutSystemID: a.SystemID,
		HeartbeatDisable: true, // the vehicle sends its own, in mission time
	}
	if err := a.node.Initialize(); err != nil {
		if a.link != nil {
			a.link.Close()
		}
		return fmt.Errorf("autopilot %d: %w", a.SystemID, err)
	}
	a.startedAt = time.Now()
	a.stop = make(chan struct{})
	a.done.Go(a.run)
	a.done.Go(a.read)
	return nil
}

// spoken is the part of the common dialect that an autopilot sends or reads. To prepare the whole of it, 240 types, takes
// a test longer than a short flight; other messages arrive as raw frames.
var spoken = &dialect.Dialect{
	Version: common.Dialect.Version,
	Messages: []message.Message{
		&common.MessageHeartbeat{},
		&common.MessageSysStatus{},
		&common.MessageSetMode{},
		&common.MessageParamRequestRead{},
		&common.MessageParamRequestList{},
		&common.MessageParamValue{},
		&common.MessageParamSet{},
		&common.MessageLocalPositionNed{},
		&common.MessageGlobalPositionInt{},
		&common.MessageCommandInt{},
		&common.MessageCommandLong{},
		&common.MessageCommandAck{},
		&common.MessageSetPositionTargetLocalNed{},
		&common.MessageSetPositionTargetGlobalInt{},
		&common.MessageGpsGlobalOrigin{},
		&common.MessageHomePosition{},
		&common.MessageBatteryStatus{},
		&common.MessageAutopilotVersion{},
		&common.MessageExtendedSysState{},
		&common.MessageMessageInterval{},
		&common.MessageStatustext{},
		&common.MessageNamedValueFloat{},
	},
}

func (a *Autopilot) endpoints() (e []gomavlib.EndpointConf, err error) {
	if a.Serial != "" {
		device, baud, err := parseSerial(a.Serial)
		if err != nil {
			return nil, err
		}
		if a.OpenSerial != nil {
			return append(e, gomavlib.EndpointCustomClient{Label: "serial", Connect: func(context.Context) (net.Conn, error) {
				return a.OpenSerial(device, baud)
			}}), nil
		}
		if _, err := os.Stat(device); err != nil { // else it would be tried again without a word
			return nil, fmt.Errorf("autopilot %d: serial port: %w", a.SystemID, err)
		}
		e = append(e, gomavlib.EndpointSerial{Device: device, Baud: baud})
	} else {
		if a.link, err = newLink(a.Open, a.Listen, a.Partner, a.Framing, a.impair, a.repeatLate); err != nil {
			return nil, err
		}
		if a.TwoCounters {
			a.link.dialect = &dialect.ReadWriter{Dialect: spoken}
			if err := a.link.dialect.Initialize(); err != nil {
				return nil, err
			}
		}
		e = append(e, gomavlib.EndpointCustomClient{
			Connect: func(context.Context) (net.Conn, error) { return a.link, nil },
			Label:   "autopilot", IsDatagram: true,
		})
	}
	if a.SecondLink != "" {
		e = append(e, datagram.Client(a.Open, a.SecondLink))
	}
	return e, nil
}

// Close stops the aircraft where it is.
func (a *Autopilot) Close() {
	close(a.stop)
	a.node.Close()
	a.done.Wait()
}

// Addr is the bound UDP address.
func (a *Autopilot) Addr() string { return a.link.LocalAddr().String() }

// withVehicle calls f under the mutex, which guards vehicle, traffic, radio and stations.
func (a *Autopilot) withVehicle(f func(v *vehicle)) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	f(a.vehicle)
}

// State is the true state of an aircraft at a moment.
type State struct {
	Body
	TimeS    float64 // mission time since the vehicle was started
	Mode     Mode
	ModeName string // the autopilot's own word for it
	Armed    bool
	OnGround bool          // it touches the ground
	HeightM  float64       // over the ground
	Landed   bool          // its land detector has noticed that
	Failsafe bool          // the mode is a failsafe's
	Spent    battery.Spent // since boot
	LeftJ    float64       // in its first pack
	Traffic  Traffic
	Wrong    int     // samples that were sent wrong, see WrongSample
	PackJ    float64 // what that holds when full
	LowPack  bool    // the mode is that of a failsafe for a low battery
	Unready  bool    // its checks fail
}

// State returns the true state now.
func (a *Autopilot) State() (s State) {
	a.withVehicle(func(v *vehicle) { s = a.state(v) })
	return s
}

// state is State with the mutex held.
func (a *Autopilot) state(v *vehicle) State {
	return State{v.body, v.timeS(), v.mode, v.modeName(), v.armed, v.groundContact, v.body.Position.UpM - v.groundUpM(),
		v.landed, v.inFailsafe(),
		v.battery.Total(), v.battery.LeftJ(), a.traffic, v.wrongSent, v.battery.CapacityJ, v.lowBattery(), v.unready() != ""}
}

// SetSlot sets the slot in which energy is counted from a moment on, which may be in
// the future. The vehicle may be a little behind the wall clock; its joules are counted
// by its own time.
func (a *Autopilot) SetSlot(slot int, at time.Time) {
	us := int64(float64(at.Sub(a.startedAt)) * a.Speed / 1e3)
	a.withVehicle(func(v *vehicle) { v.battery.ScheduleSlot(slot, us) })
}

// AddEdgeJ adds the joules of computing for a slot's users to the energy drawn.
func (a *Autopilot) AddEdgeJ(slot int, joules float64) {
	a.withVehicle(func(v *vehicle) { v.battery.Add(slot, battery.Spent{EdgeJ: joules}) })
}

// BySlot returns the exact joules of every slot so far; -1 is before the mission.
func (a *Autopilot) BySlot() (spent map[int]battery.Spent) {
	a.withVehicle(func(v *vehicle) { spent = v.battery.BySlot() })
	return spent
}

// run keeps the vehicle at mission time. After a stall it catches up in pieces, so that
// messages received meanwhile are handled before the timeouts that they prevent.
func (a *Autopilot) run() {
	const pieceUS = 50_000
	time.Sleep(time.Duration(a.SystemID) * 1013) // in virtual time, what happens at one instant has no order
	ticker := time.NewTicker(max(2*time.Millisecond, time.Duration(20e6/a.Speed)))
	defer ticker.Stop()
	for {
		select {
		case <-a.stop:
			return
		case <-ticker.C:
		}
		now := int64(float64(time.Since(a.startedAt)) * a.Speed / 1e3)
		for behind := true; behind; {
			var out []message.Message
			out, behind = a.advance(now, pieceUS)
			a.send(out)
			if behind {
				select {
				case <-a.stop: // one that cannot keep up would go on for ever
					return
				case <-time.After(100 * time.Microsecond):
				}
			}
		}
	}
}

func (a *Autopilot) advance(toUS, atMostUS int64) (out []message.Message, behind bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	v := a.vehicle
	was := v.linksCut()
	for end := min(toUS, v.timeUS+atMostUS); v.timeUS+stepUS <= end; {
		v.step()
		if a.OnMotion != nil {
			a.OnMotion(v.battery.Slot(), a.state(v))
		}
	}
	out = v.dueMessages()
	if was || v.linksCut() {
		a.traffic.Cut += len(out)
		out = nil
	}
	return out, v.timeUS+stepUS <= toUS
}

// send sends messages on all links, texts only where a ground station is, as PX4 does.
func (a *Autopilot) send(out []message.Message) {
	for _, m := range out { // cannot fail: every message is of the dialect
		if _, text := m.(*common.MessageStatustext); !text || a.Copter {
			a.node.WriteMessageAll(m)
			continue
		}
		var to []*gomavlib.Channel
		a.withVehicle(func(v *vehicle) {
			for c, receivedS := range a.stations {
				if v.timeS()-receivedS <= gcsTimeoutS {
					to = append(to, c)
				}
			}
		})
		for _, c := range to {
			a.node.WriteMessageTo(c, m)
		}
	}
}

func (a *Autopilot) read() {
	for event := range a.node.Events() {
		switch e := event.(type) {
		case *gomavlib.EventFrame:
			var out []message.Message
			m, cut := e.Message(), false
			a.withVehicle(func(v *vehicle) {
				if cut = v.linksCut(); cut {
					a.traffic.Cut++
					return
				}
				if h, ok := m.(*common.MessageHeartbeat); ok && h.Type == common.MAV_TYPE_GCS {
					a.stations[e.Channel] = v.timeS()
				}
				out = v.handleMessage(sender{e.SystemID(), e.ComponentID()}, m, &a.traffic)
			})
			a.send(out)
			// PX4 forwards what is for everyone to its other links, with its sender's ids. What is
			// for another system goes where that was received: here it never was.
			if system, _ := target(m); system <= 0 && !cut {
				a.node.WriteFrameExcept(e.Channel, e.Frame) // cannot fail: it was read with the dialect
			}
		case *gomavlib.EventChannelClose:
			a.withVehicle(func(*vehicle) { delete(a.stations, e.Channel) })
		case *gomavlib.EventParseError:
			a.withVehicle(func(*vehicle) { a.traffic.Malformed++ })
		}
	}
}
