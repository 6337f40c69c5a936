// Package sitl attaches to running instances of PX4 or ArduCopter, and knows what they draw.
//
// Inputs: the positions, speeds, states and batteries that an instance sends, and the joules
// of the computing done on board.
// Outputs, for PX4: BATTERY_STATUS with the energy of that flight by the propulsion model
// plus the computing, from the vehicle's system id and the battery's component id; PX4 relays
// it as its own battery with SIM_BAT_ENABLE 0. ArduCopter takes no battery from outside: its
// joules are those of its own battery (ownbattery.go), which no computing is drawn from, and
// the messages are asked for that it does not send by itself.
// Power is integrated over the autopilot's own time. The package moves nothing.
// Caller: simbridge/fly, for aircraft with `attach`.
package sitl

import (
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/frame"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/geo"
	"prefdt/simbridge/router"
	"prefdt/telemetry/datagram"
)

// Vehicle is a running instance, as known from its messages.
type Vehicle struct {
	autopilot.Config // SystemID, Origin, Speed, CapacityJ, PowerW, and OnMotion, called with each position
	// Relay is where the instance sends to its leader, and where the leader listens; empty: the same.
	Relay [2]string
	// PackKnown is whether CapacityJ is that of an ArduCopter's own battery too.
	PackKnown bool
	Radio     string // where an ArduCopter's simulation receives its pilot's radio; empty: he has none

	endpoint *Endpoint
	relay    *router.Router
	radio    net.Conn // nil: not used yet

	mutex         sync.Mutex
	battery       battery.Battery // in the autopilot's time
	clock         autopilotClock
	body          autopilot.Body
	located       bool
	heartbeat     *common.MessageHeartbeat // nil: none yet
	heartbeatAt   time.Time                // when it was received
	landed        common.MAV_LANDED_STATE
	channel       *gomavlib.Channel
	sequence      byte
	slotStarts    []slotStart          // slots that begin after the last position
	edgeLoads     []edgeLoad           // computing not drawn yet
	undrawnEdgeJ  float64              // computing that its own battery does not feed
	own           ownBattery           // an ArduCopter's
	receivedAt    map[uint32]time.Time // by message, when it was last received
	nextSendUS    int64                // the next battery message
	timedOut      bool                 // nothing received for lostAfterS: what it drew meanwhile is in the battery
	batterySentAt time.Time            // when the battery was first sent to PX4
	relayedAt     time.Time            // when PX4 last relayed it
	ownBatteryAt  time.Time            // when PX4 last reported a battery of its own
	switchUS      uint16               // of the pilot's radio, 0 while that is off
	signed        bool                 // its last frame was
	keySharedAt   time.Time
}

// slotStart is when a slot begins, in wall time.
type slotStart struct {
	slot int
	at   time.Time
}

// edgeLoad is computing for a slot's users.
type edgeLoad struct {
	slot       int
	remainingJ float64
	powerW     float64
}

// Endpoint is one UDP address to which instances send, such as the ground station's
// 14550.
type Endpoint struct {
	Address  string
	Open     datagram.Open // opens the socket; nil: the machine's
	Vehicles []*Vehicle
	Key      *frame.V2Key // signs what is sent, and is given to the instances; nil: nothing is signed

	node     *gomavlib.Node
	stop     chan struct{}
	done     sync.WaitGroup
	signedAt atomic.Uint64 // the last signature's time
}

const (
	// sendIntervalMS is between two messages. PX4 relays the latest at the rate that the
	// leader requests, which is higher: so none is skipped, and the sum of current x time
	// is the whole charge drawn.
	sendIntervalMS   = 400
	batteryComponent = byte(common.MAV_COMP_ID_BATTERY)
	edgeComputeS     = 0.5 // of computing: it ends with its slot
	extrapolateMaxS  = 2   // a position this old is not extrapolated
	// without a HEARTBEAT for so long an instance is lost; the leader counts a lost aircraft's hover for as long
	lostAfterS       = 10
	relaySettleS     = 5             // PX4, which reports batteries every 2 s, relays the external one by then, and no longer its own
	relayedBatteryID = math.MaxUint8 // of a relayed battery; PX4's own ids count from 0
)

// Initialize binds the address and starts receiving.
func (e *Endpoint) Initialize() error {
	e.node = &gomavlib.Node{
		Endpoints: []gomavlib.EndpointConf{datagram.Endpoint(e.Open, e.Address)},
		Dialect:   common.Dialect, OutVersion: gomavlib.V2, OutSystemID: 1, OutComponentID: batteryComponent,
		HeartbeatDisable: true, OutKey: e.Key,
	}
	if err := e.node.Initialize(); err != nil {
		return fmt.Errorf("attach at %s: %w", e.Address, err)
	}
	e.stop = make(chan struct{})
	for _, v := range e.Vehicles {
		v.endpoint, v.battery, v.receivedAt = e, battery.New(v.CapacityJ, battery.AllFields), map[uint32]time.Time{}
		if err := v.openRelay(); err != nil {
			e.node.Close()
			return err
		}
	}
	e.done.Go(e.read)
	e.done.Go(e.checkTimeouts)
	return nil
}

// Close detaches from the instances.
func (e *Endpoint) Close() {
	close(e.stop)
	e.node.Close()
	e.done.Wait()
	for _, v := range e.Vehicles {
		v.closeActs()
	}
}

func (e *Endpoint) read() {
	for event := range e.node.Events() {
		f, ok := event.(*gomavlib.EventFrame)
		if !ok {
			continue
		}
		for _, v := range e.Vehicles {
			if v.SystemID == f.SystemID() && f.ComponentID() == 1 {
				v.noteSignature(f.Frame)
				v.handleMessage(f.Channel, f.Message(), time.Now())
			}
		}
	}
}

// checkTimeouts finds instances that have stopped sending.
func (e *Endpoint) checkTimeouts() {
	ticker := time.NewTicker(time.Duration(float64(time.Second) / 10 / e.Vehicles[0].Speed))
	defer ticker.Stop()
	for {
		select {
		case <-e.stop:
			return
		case now := <-ticker.C:
			for _, v := range e.Vehicles {
				v.checkTimeout(now)
				v.sendRadio()
			}
		}
	}
}

func (v *Vehicle) handleMessage(c *gomavlib.Channel, m message.Message, now time.Time) {
	v.mutex.Lock()
	v.channel = c
	moved := false
	var out []message.Message
	switch m := m.(type) {
	case *common.MessageHeartbeat:
		v.heartbeat, v.heartbeatAt = m, now
		if v.copter() {
			out = v.missingStreams(now)
		}
		if setup := v.shareKey(now); setup != nil {
			out = append(out, setup)
		}
	case *common.MessageExtendedSysState:
		v.landed = m.LandedState
	case *common.MessageGlobalPositionInt:
		moved = v.handlePosition(m, now)
	case *common.MessageBatteryStatus:
		switch {
		case v.copter():
			if m.Id == 0 { // the others are of packs that the leader does not fly with
				v.handleOwnBattery(m)
			}
		case m.Id == relayedBatteryID:
			v.relayedAt = now
		default:
			v.ownBatteryAt = now
		}
	}
	v.receivedAt[m.GetID()] = now
	slot, state := v.battery.Slot(), v.state()
	if moved && v.px4() && v.clock.elapsedUS >= v.nextSendUS {
		v.nextSendUS = v.clock.elapsedUS + sendIntervalMS*1000
		out = append(out, v.battery.Status(v.clock.elapsedUS))
		if v.batterySentAt.IsZero() {
			v.batterySentAt = now
		}
	}
	v.mutex.Unlock()
	if moved && v.OnMotion != nil {
		v.OnMotion(slot, state)
	}
	for _, m := range out {
		v.send(c, m)
	}
}

// send writes a message from the vehicle's system id and the battery's component id.
func (v *Vehicle) send(c *gomavlib.Channel, m message.Message) {
	v.sendFrom(v.SystemID, batteryComponent, c, m)
}

func (v *Vehicle) sendFrom(system, component byte, c *gomavlib.Channel, m message.Message) {
	f := &frame.V2Frame{SequenceNumber: v.nextSequence(), SystemID: system, ComponentID: component, Message: m}
	v.endpoint.sign(f)
	if err := v.endpoint.node.FixFrame(f); err == nil { // every message is of the dialect
		v.endpoint.node.WriteFrameTo(c, f)
	}
}

func (v *Vehicle) nextSequence() byte {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.sequence++
	return v.sequence
}

// The following are called with the mutex held.

// handlePosition handles a position, and draws the energy of the flight to it.
func (v *Vehicle) handlePosition(m *common.MessageGlobalPositionInt, now time.Time) bool {
	if m.Lat == 0 && m.Lon == 0 {
		return false // no fix
	}
	from := v.clock.receivedAt
	passedUS, ok := v.clock.update(m.TimeBootMs, now)
	if !ok {
		return false
	}
	v.body = autopilot.Body{
		Position: v.Origin.ToLocal(geo.Point{LatDeg: float64(m.Lat) / 1e7, LonDeg: float64(m.Lon) / 1e7, AltM: float64(m.Alt) / 1000}),
		Velocity: geo.Local{EastM: float64(m.Vy) / 100, NorthM: float64(m.Vx) / 100, UpM: -float64(m.Vz) / 100},
	}
	v.drawEnergy(passedUS, from, now, v.draws() && !v.timedOut, v.body.Velocity)
	v.located, v.timedOut = true, false
	return true
}

// drawEnergy draws the energy of an interval of the autopilot's time that ends now, and
// opens the slots that began in it.
func (v *Vehicle) drawEnergy(passedUS int64, from, now time.Time, draws bool, velocityMPS geo.Local) {
	us := v.clock.elapsedUS - passedUS
	drawUntil := func(toUS int64) {
		powerW := 0.0
		switch {
		case draws && v.copter():
			powerW = v.own.powerW
		case draws:
			powerW = v.PowerW(v.battery.Slot(), velocityMPS)
		}
		v.battery.DrawPower(powerW, float64(toUS-us)/1e6)
		us = toUS
	}
	for len(v.slotStarts) > 0 && !v.slotStarts[0].at.After(now) {
		s := v.slotStarts[0]
		v.slotStarts = v.slotStarts[1:]
		if share := float64(s.at.Sub(from)) / float64(now.Sub(from)); share > 0 {
			drawUntil(v.clock.elapsedUS - passedUS + int64(min(share, 1)*float64(passedUS)))
		}
		v.battery.ScheduleSlot(s.slot, us)
		v.battery.OpenSlots(us)
	}
	drawUntil(v.clock.elapsedUS)
	v.drawEdge(float64(passedUS) / 1e6)
}

func (v *Vehicle) drawEdge(seconds float64) {
	rest := v.edgeLoads[:0]
	for _, l := range v.edgeLoads {
		j := min(l.remainingJ, l.powerW*seconds)
		v.battery.Add(l.slot, battery.Spent{EdgeJ: j})
		if l.remainingJ -= j; l.remainingJ > 0 {
			rest = append(rest, l)
		}
	}
	v.edgeLoads = rest
}

// checkTimeout draws for an aircraft that stopped sending what the leader counts for it:
// its hover, for lostAfterS. Its true motion is unknown. An ArduCopter's counter corrects it,
// should it be received again.
func (v *Vehicle) checkTimeout(now time.Time) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if v.timedOut || !v.located || v.missionS(now.Sub(v.clock.receivedAt)) < lostAfterS {
		return
	}
	from := v.clock.receivedAt
	v.clock.elapsedUS += lostAfterS * 1e6
	v.clock.receivedAt = now
	v.drawEnergy(lostAfterS*1e6, from, now, v.draws(), geo.Local{})
	v.clock.rateStart = clockSample{v.clock.elapsedUS, now}
	v.timedOut = true
}

func (v *Vehicle) missionS(wall time.Duration) float64 { return wall.Seconds() * v.Speed }
