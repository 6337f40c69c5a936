// Package px4 gives real PX4 instances the battery that their simulation lacks.
//
// In come the true positions, speeds and states that a running instance sends;
// out goes BATTERY_STATUS with what the propulsion model says of that flight
// plus the computing done on board, under the vehicle's system id and another
// component's, which PX4 takes for its own with SIM_BAT_ENABLE 0. In a slot it
// stands beside the autopilot: it commands nothing.
package px4

import (
	"fmt"
	"log/slog"
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
	Speed     float64 // mission seconds per second: 1, but for tests
	CapacityJ float64
	PowerW    func(slot int, speedMPS float64) float64
	Moved     func(slot int, b autopilot.Body) // nil, or called at every step
	Log       *slog.Logger
}

// Vehicle is a running instance, as far as it is heard.
type Vehicle struct {
	Config

	link  *Link
	began time.Time

	mutex    sync.Mutex
	battery  battery.Battery
	body     autopilot.Body
	bodyUS   int64 // when it was there
	heard    bool  // position, heartbeat and landed state
	located  bool
	beat     *common.MessageHeartbeat
	landed   common.MAV_LANDED_STATE
	channel  *gomavlib.Channel
	sequence byte
	stepUS   int64 // the last step
	sendUS   int64 // the next message
	warned   bool
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
	stepMS = 20 // of mission time
	// sendMS is between two messages. PX4 passes each on, and the leader asks
	// it for more of them than that: so none is passed over, and the charge
	// that current x time says is all that was drawn.
	sendMS    = 400
	component = byte(common.MAV_COMP_ID_BATTERY)
	staleUS   = 2_000_000  // a position this old is not extrapolated
	goneUS    = 10_000_000 // an instance unheard for so long draws nothing
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
		v.link, v.began, v.battery = l, time.Now(), battery.New(v.CapacityJ, battery.Fields{Current: true, Energy: true, Remaining: true})
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
				v.receive(e.Channel, e.Message())
			}
		}
	}
}

func (l *Link) run() {
	defer l.done.Done()
	ticker := time.NewTicker(time.Duration(stepMS / l.Vehicles[0].Speed * float64(time.Millisecond)))
	defer ticker.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
			for _, v := range l.Vehicles {
				v.step()
			}
		}
	}
}

func (v *Vehicle) receive(c *gomavlib.Channel, m message.Message) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.channel = c
	switch m := m.(type) {
	case *common.MessageHeartbeat:
		v.beat = m
	case *common.MessageExtendedSysState:
		v.landed = m.LandedState
	case *common.MessageGlobalPositionInt:
		if m.Lat == 0 && m.Lon == 0 {
			return // no fix
		}
		v.body = autopilot.Body{
			Position: v.Origin.ToLocal(geo.Point{LatDeg: float64(m.Lat) / 1e7, LonDeg: float64(m.Lon) / 1e7, AltM: float64(m.Alt) / 1000}),
			Velocity: geo.Local{EastM: float64(m.Vy) / 100, NorthM: float64(m.Vx) / 100, UpM: -float64(m.Vz) / 100},
		}
		v.bodyUS, v.located = v.missionUS(time.Now()), true
	case *common.MessageBatteryStatus:
		if v.beat != nil && m.CurrentBattery < 0 && v.battery.Total().J() > 1000 && !v.warned {
			v.warned = true
			v.Log.Error("the autopilot does not pass the injected battery on: is SIM_BAT_ENABLE 0?", "system", v.SystemID)
		}
	}
	v.heard = v.located && v.beat != nil && v.landed != common.MAV_LANDED_STATE_UNDEFINED
}

// step integrates what the flight draws and says so when it is due.
func (v *Vehicle) step() {
	v.mutex.Lock()
	now := v.missionUS(time.Now())
	b := &v.battery
	seconds := float64(now-v.stepUS) / 1e6
	b.Reach(now)
	powerW := 0.0
	if v.inAir() && now-v.bodyUS < goneUS {
		powerW = v.PowerW(b.Slot(), v.body.SpeedMPS())
	}
	v.stepUS = now
	b.Fly(powerW, seconds)
	slot, body, heard := b.Slot(), v.at(now), v.heard
	var m *common.MessageBatteryStatus
	if heard && now >= v.sendUS {
		v.sendUS = now + sendMS*1000
		m = b.Status(now)
	}
	channel := v.channel
	v.mutex.Unlock()
	if heard && v.Moved != nil {
		v.Moved(slot, body)
	}
	if m != nil {
		v.send(channel, m)
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
