// Package px4 gives real PX4 instances the battery that their simulation lacks.
//
// In come the true positions, speeds and states that a running instance sends;
// out goes BATTERY_STATUS with what the propulsion model says of that flight
// plus the computing done on board, under the vehicle's system id and another
// component's, which PX4 takes for its own with SIM_BAT_ENABLE 0. Power is
// integrated over the autopilot's own time. In a slot it stands beside the
// autopilot: it commands nothing.
package px4

import (
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/frame"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/geo"
)

// Config is one instance.
type Config struct {
	SystemID  uint8
	Origin    geo.Point
	Speed     float64 // mission seconds per second of the wall: 1, but for tests
	CapacityJ float64
	PowerW    func(slot int, speedMPS float64) float64
	Moved     func(slot int, b autopilot.Body) // nil, or called with each position
	Log       *slog.Logger
}

// Vehicle is a running instance, as far as it is heard.
type Vehicle struct {
	Config

	link *Link

	mutex     sync.Mutex
	battery   battery.Battery // in the autopilot's time
	clock     clock
	body      autopilot.Body
	located   bool
	heartbeat *common.MessageHeartbeat // nil: none yet
	beatAt    time.Time                // when it came
	landed    common.MAV_LANDED_STATE
	channel   *gomavlib.Channel
	sequence  byte
	starts    []start   // slots that begin later than was heard
	loads     []load    // computing not drawn yet
	sendUS    int64     // the next battery message
	gone      bool      // unheard for goneS: what it drew meanwhile is in the battery
	fedAt     time.Time // when the battery was first sent
	passedAt  time.Time // when PX4 last passed it on
	ownAt     time.Time // when PX4 last told of a battery of its own
}

// start is when a slot begins, by the wall's clock.
type start struct {
	slot int
	at   time.Time
}

// load is computing for a slot's users.
type load struct {
	slot   int
	leftJ  float64
	powerW float64
}

// Link is one UDP address to which instances speak, such as the ground
// station's 14550.
type Link struct {
	Address  string
	Vehicles []*Vehicle

	node *gomavlib.Node
	stop chan struct{}
	done sync.WaitGroup
}

const (
	// sendMS is between two messages. PX4 passes each on, and the leader asks
	// it for more of them than that: so none is passed over, and the charge
	// that current x time says is all that was drawn.
	sendMS    = 400
	component = byte(common.MAV_COMP_ID_BATTERY)
	computeS  = 0.5           // of computing: it ends with its slot
	staleS    = 2             // a position this old is not extrapolated
	goneS     = 10            // without a HEARTBEAT for so long an instance is dead; CONTRACT counts a lost aircraft's joules for as long
	passingS  = 5             // PX4, which tells of batteries every 2 s, has passed ours on by then, and its own no more
	relayedID = math.MaxUint8 // of a battery that PX4 passes on; its own ids count from 0
)

// Initialize binds the address and starts to listen.
func (l *Link) Initialize() error {
	l.node = &gomavlib.Node{
		Endpoints: []gomavlib.EndpointConf{gomavlib.EndpointUDPServer{Address: l.Address}},
		Dialect:   common.Dialect, OutVersion: gomavlib.V2, OutSystemID: 1, OutComponentID: component,
		HeartbeatDisable: true,
	}
	if err := l.node.Initialize(); err != nil {
		return fmt.Errorf("attach at %s: %w", l.Address, err)
	}
	l.stop = make(chan struct{})
	for _, v := range l.Vehicles {
		v.link, v.battery = l, battery.New(v.CapacityJ, battery.Fields{Current: true, Energy: true, Remaining: true})
	}
	l.done.Add(2)
	go l.read()
	go l.run()
	return nil
}

// Close lets the instances go.
func (l *Link) Close() {
	close(l.stop)
	l.node.Close()
	l.done.Wait()
}

func (l *Link) read() {
	defer l.done.Done()
	for event := range l.node.Events() {
		e, ok := event.(*gomavlib.EventFrame)
		if !ok {
			continue
		}
		for _, v := range l.Vehicles {
			if v.SystemID == e.SystemID() && e.ComponentID() == 1 {
				v.receive(e.Channel, e.Message(), time.Now())
			}
		}
	}
}

// run finds instances that say nothing any more.
func (l *Link) run() {
	defer l.done.Done()
	ticker := time.NewTicker(time.Duration(float64(time.Second) / 10 / l.Vehicles[0].Speed))
	defer ticker.Stop()
	for {
		select {
		case <-l.stop:
			return
		case now := <-ticker.C:
			for _, v := range l.Vehicles {
				v.miss(now)
			}
		}
	}
}

func (v *Vehicle) receive(c *gomavlib.Channel, m message.Message, now time.Time) {
	v.mutex.Lock()
	v.channel = c
	moved := false
	switch m := m.(type) {
	case *common.MessageHeartbeat:
		v.heartbeat, v.beatAt = m, now
	case *common.MessageExtendedSysState:
		v.landed = m.LandedState
	case *common.MessageGlobalPositionInt:
		moved = v.locate(m, now)
	case *common.MessageBatteryStatus:
		if m.Id == relayedID {
			v.passedAt = now
		} else {
			v.ownAt = now
		}
	}
	slot, body := v.battery.Slot(), v.body
	var out *common.MessageBatteryStatus
	if moved && v.clock.us >= v.sendUS {
		v.sendUS = v.clock.us + sendMS*1000
		out = v.battery.Status(v.clock.us)
		if v.fedAt.IsZero() {
			v.fedAt = now
		}
	}
	v.mutex.Unlock()
	if moved && v.Moved != nil {
		v.Moved(slot, body)
	}
	if out != nil {
		v.send(c, out)
	}
}

// send writes a message in the vehicle's name, from a component that it does not have.
func (v *Vehicle) send(c *gomavlib.Channel, m message.Message) {
	f := &frame.V2Frame{SequenceNumber: v.sequence, SystemID: v.SystemID, ComponentID: component, Message: m}
	v.sequence++
	if err := v.link.node.FixFrame(f); err == nil { // every message is of the dialect
		v.link.node.WriteFrameTo(c, f)
	}
}

// The following are called with the mutex held.

// locate takes a position in, and draws what the flight to it took.
func (v *Vehicle) locate(m *common.MessageGlobalPositionInt, now time.Time) bool {
	if m.Lat == 0 && m.Lon == 0 {
		return false // no fix
	}
	from := v.clock.at
	passedUS, ok := v.clock.read(m.TimeBootMs, now)
	if !ok {
		return false
	}
	v.body = autopilot.Body{
		Position: v.Origin.ToLocal(geo.Point{LatDeg: float64(m.Lat) / 1e7, LonDeg: float64(m.Lon) / 1e7, AltM: float64(m.Alt) / 1000}),
		Velocity: geo.Local{EastM: float64(m.Vy) / 100, NorthM: float64(m.Vx) / 100, UpM: -float64(m.Vz) / 100},
	}
	v.draw(passedUS, from, now, v.inAir() && !v.gone, v.body.SpeedMPS())
	v.located, v.gone = true, false
	return true
}

// draw takes joules out of the battery for a stretch of the autopilot's time
// that ends now, and opens the slots that began in it.
func (v *Vehicle) draw(passedUS int64, from, now time.Time, flies bool, speedMPS float64) {
	us := v.clock.us - passedUS
	fly := func(toUS int64) {
		powerW := 0.0
		if flies {
			powerW = v.PowerW(v.battery.Slot(), speedMPS)
		}
		v.battery.Fly(powerW, float64(toUS-us)/1e6)
		us = toUS
	}
	for len(v.starts) > 0 && !v.starts[0].at.After(now) {
		s := v.starts[0]
		v.starts = v.starts[1:]
		if share := float64(s.at.Sub(from)) / float64(now.Sub(from)); share > 0 {
			fly(v.clock.us - passedUS + int64(min(share, 1)*float64(passedUS)))
		}
		v.battery.Begin(s.slot, us)
		v.battery.Reach(us)
	}
	fly(v.clock.us)
	v.compute(float64(passedUS) / 1e6)
}

// compute draws what computing takes in a stretch of time.
func (v *Vehicle) compute(seconds float64) {
	rest := v.loads[:0]
	for _, l := range v.loads {
		j := min(l.leftJ, l.powerW*seconds)
		v.battery.Add(l.slot, battery.Spent{EdgeJ: j})
		if l.leftJ -= j; l.leftJ > 0 {
			rest = append(rest, l)
		}
	}
	v.loads = rest
}

// miss draws what CONTRACT counts for an aircraft that fell silent: its hover, for
// goneS. Where it really is nobody knows.
func (v *Vehicle) miss(now time.Time) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if v.gone || !v.located || v.missionS(now.Sub(v.clock.at)) < goneS {
		return
	}
	from := v.clock.at
	v.clock.us += goneS * 1e6
	v.clock.at = now
	v.draw(goneS*1e6, from, now, v.inAir(), 0)
	v.clock.first = mark{v.clock.us, now}
	v.gone = true
}

func (v *Vehicle) missionS(wall time.Duration) float64 { return wall.Seconds() * v.Speed }
