// Package rig is the environment of a leader in a test: a real broker, simulated
// autopilots, users and a crew on MQTT, on a network in memory and in virtual time, or, for
// programs of their own, on loopback and in real time.
//
// Inputs: a configuration that the test may change, and the faults it injects.
// Outputs: what the leader sent (statuses, beacons, acknowledgements), and the
// autopilots' true state. A test makes a Rig, changes its Config, starts a LeaderRun
// and waits for conditions on slots and sequence numbers; no wait depends on the speed
// of the machine. Imported by tests only.
package rig

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/configs/freeport"
	"prefdt/firmware/config"
	"prefdt/firmware/fleet"
	"prefdt/firmware/leader"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/record"
	"prefdt/inference/slot"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/broker"
	"prefdt/simbridge/geo"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// Timeout is how long a test waits for something that must happen: in virtual time longer than
// any flight, in real time long enough for a machine with other load.
const (
	virtualTimeout = 20 * time.Minute
	realTimeout    = 3 * time.Minute
)

// MaxAircraft bounds a rig's fleet.
const MaxAircraft = 8

// Rig is one fleet's environment. The exported fields may be changed until a leader is
// started.
type Rig struct {
	Config           config.Config
	Physics          physics.Constants
	Policy           leader.Scheduler                     // nil: AllowanceScheduler
	Scales           *goal.Constants                      // the calibrated axis
	OverrideDecision func(*slot.Snapshot, *slot.Decision) // changes the policy's decision; nil: it does not
	OnIteration      func(leader.LoopReport)              // called after each iteration of the loop; nil: not called
	Network          *simnet.Network                      // nil: in real time, on loopback
	Leader           *simnet.Program                      // the one started last, on that network
	OpenRecord       func() *record.Writer                // begins a record of the slots; nil: none
	TimedResults     bool                                 // users say how long the parts of their tasks took
	Topics           telemetry.Topics
	Autopilots       []*autopilot.Autopilot
	CloseBroker      func()

	test           *testing.T
	closeAutopilot []func() // ends an aircraft
	timeout        time.Duration
	broker         *broker.Broker
	crew           *telemetry.Client
	signer         *signer
	commandIDs     atomic.Int64 // ids used by SendMission
	delayNS        atomic.Int64 // how long the next decision waits, ns
	// when an aircraft last received a setpoint to move, ns; atomic, as its callback holds the autopilot's lock
	lastMoveNS    [MaxAircraft]atomic.Int64
	commandCounts [MaxAircraft]atomic.Int64 // setpoints, and commands to arm, take off or change mode, that it received

	observer       telemetry.Observer // its lock guards the rest
	reportingUsers int                // users that report in each slot
	offerUsers     int                // further users, who take the offer of each slot
	received       received
}

// New returns a rig in virtual time, with slots of a second. It is called in a [simnet.Test].
func New(t *testing.T, aircraft, slots int) *Rig {
	t.Helper()
	return newRig(t, simnet.New(1), aircraft, slots, 1000)
}

// NewRealTime returns a rig in real time, for a leader or a load in a process of its own.
func NewRealTime(t *testing.T, aircraft, slots int, slotMS float64) *Rig {
	t.Helper()
	return newRig(t, nil, aircraft, slots, slotMS)
}

func newRig(t *testing.T, n *simnet.Network, aircraft, slots int, slotMS float64) *Rig {
	t.Helper()
	r := &Rig{
		Config: config.Defaults(), Physics: physics.DefaultConstants(), Scales: Scales(), Network: n, test: t, reportingUsers: 4,
		timeout:  realTimeout,
		received: received{acks: map[string][]string{}, decisions: map[int]int{}, batteryLossJ: map[int]float64{}},
	}
	if n != nil {
		r.timeout = virtualTimeout
	}
	r.Physics.AltitudeM = 30 // a shorter climb
	r.broker = r.NewBroker("127.0.0.1:0")
	if err := r.broker.Initialize(); err != nil {
		t.Fatal(err)
	}
	r.CloseBroker = sync.OnceFunc(r.broker.Close)
	t.Cleanup(r.CloseBroker)
	c := &r.Config
	c.Fleet, c.StateDir, c.Slots, c.SlotMS, c.ReportByMS, c.DecideByMS = "test", r.stateDir(), slots, slotMS, 0.35*slotMS, 0.6*slotMS
	c.Broker.URL = r.broker.URL()
	r.Topics, _ = telemetry.NewTopics("test")
	r.observer.Topics = r.Topics
	r.Autopilots, r.closeAutopilot = make([]*autopilot.Autopilot, aircraft), make([]func(), aircraft)
	for i := range aircraft {
		r.addAutopilot(i)
	}
	r.connectCrew()
	return r
}

// stateDir is the leader's own folder. In virtual time it is in the machine's memory where that has a file system: a leader that is
// killed there loses nothing that it has written, and to wait for a disk would only cost time. A leader in a process of its own
// syncs to the disk.
func (r *Rig) stateDir() string {
	if r.Network != nil {
		if dir, err := os.MkdirTemp("/dev/shm", "prefdt-rig"); err == nil {
			r.test.Cleanup(func() { os.RemoveAll(dir) })
			return dir
		}
	}
	return r.test.TempDir()
}

// UseBroker makes leader, users and crew use another broker. Call it before a leader is
// started.
func (r *Rig) UseBroker(url string) {
	r.test.Helper()
	r.Config.Broker.URL = url
	r.crew.Close()
	r.connectCrew()
}

func (r *Rig) connectCrew() {
	r.test.Helper()
	r.crew = &telemetry.Client{
		Broker: r.BrokerOf("crew"), Name: "crew", Log: slog.New(slog.DiscardHandler),
		Subscriptions: []telemetry.Subscription{
			{Filter: r.Topics.Status()}, {Filter: r.Topics.AllAcks(), QoS: 1}, {Filter: r.Topics.Slot()},
			{Filter: r.Topics.AllDecisions(), QoS: 1}, {Filter: r.Topics.Online(), QoS: 1},
		},
		Handle: r.receive,
	}
	if err := r.crew.Initialize(r.test.Context()); err != nil {
		r.test.Fatal(err)
	}
	r.test.Cleanup(r.crew.Close)
}

// addAutopilot makes one aircraft of the fleet, at its start.
func (r *Rig) addAutopilot(i int) {
	r.test.Helper()
	c := &r.Config
	partner := r.FreeAddress()
	c.Aircraft = append(c.Aircraft, config.Aircraft{SystemID: i + 1, Endpoint: "udp-listen:" + partner})
	a := autopilot.Config{
		SystemID: uint8(i + 1), Listen: "127.0.0.1:0", Partner: partner,
		Origin: geo.Point{LatDeg: c.Origin.LatitudeDeg, LonDeg: c.Origin.LongitudeDeg, AltM: float64(c.Origin.AltitudeM)},
		Start:  geo.Local{EastM: 1000 * float64(i+1) / float64(len(r.Autopilots)+1), NorthM: 500}, Speed: 1000 / c.SlotMS,
		CapacityJ: r.Physics.BatteryCapacityJ, Battery: battery.AllFields,
		// It climbs and sinks fast, so that tests are short, and waits as long for a
		// stream as the leader's checks permit: the machine may have other load.
		Parameters: map[string]float64{"MPC_XY_VEL_MAX": 30, "COM_OF_LOSS_T": 10, "MPC_Z_VEL_MAX_UP": 20, "MPC_TKO_SPEED": 20,
			"MPC_Z_V_AUTO_DN": 20, "MPC_LAND_SPEED": 5},
		PowerW: func(_ int, v geo.Local) float64 { return r.Physics.Propulsion.PowerW(v.HorizontalM()) },
		Log:    slog.New(slog.DiscardHandler),
		OnReceived: func(h autopilot.Received) {
			switch h.Command {
			case 0:
				if h.Setpoint != nil {
					r.commandCounts[i].Add(1)
				}
			case common.MAV_CMD_COMPONENT_ARM_DISARM, common.MAV_CMD_NAV_TAKEOFF, common.MAV_CMD_DO_SET_MODE:
				r.commandCounts[i].Add(1)
			}
			if s := h.Setpoint; s != nil && s.Velocity.HorizontalM() > 0.1 {
				r.lastMoveNS[i].Store(time.Now().UnixNano())
			}
		},
	}
	if r.Network != nil {
		a.Open = r.Network.Program(fmt.Sprintf("autopilot-%d", i+1)).Socket
	}
	r.startAutopilot(i, a)
}

// NewBroker is a broker, to be initialized, at an address of the rig's network.
func (r *Rig) NewBroker(address string) *broker.Broker {
	b := &broker.Broker{Address: address}
	if r.Network != nil {
		b.Listen = r.Network.Program("broker").Listen
	}
	return b
}

// BrokerOf is how a program reaches the broker.
func (r *Rig) BrokerOf(program string) telemetry.Broker {
	b := r.Config.Broker
	if r.Network != nil {
		b.Dial = r.Network.Program(program).Dial
	}
	return b
}

// Endpoint is a MAVLink endpoint of a program.
func (r *Rig) Endpoint(program, text string) gomavlib.EndpointConf {
	r.test.Helper()
	parse := fleet.ParseEndpoint
	if r.Network != nil {
		parse = r.Network.Program(program).Endpoint
	}
	conf, err := parse(text)
	if err != nil {
		r.test.Fatal(err)
	}
	return conf
}

// FreeAddress returns a free address. The leader binds it, as PX4 needs: a partner that
// came back on another port would not be received.
func (r *Rig) FreeAddress() string {
	r.test.Helper()
	if r.Network != nil {
		return r.Network.FreeAddress()
	}
	return FreeAddress(r.test)
}

// FreeAddress returns a free address of this machine.
func FreeAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// BrokerAddress is the broker's, for one that replaces it.
func (r *Rig) BrokerAddress() string { return r.broker.Address }

// Client connects another client to the broker.
func (r *Rig) Client(name string) *telemetry.Client {
	r.test.Helper()
	c := &telemetry.Client{Broker: r.BrokerOf(name), Name: name, Log: slog.New(slog.DiscardHandler)}
	if err := c.Initialize(r.test.Context()); err != nil {
		r.test.Fatal(err)
	}
	r.test.Cleanup(c.Close)
	return c
}
