package leader

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/firmware/clock"
	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/inference/tracking"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	mqttbroker "prefdt/simbridge/broker"
	"prefdt/simbridge/geo"
	"prefdt/telemetry"
)

// rig is what the leader flies against in a test: a broker, aircraft on UDP,
// users and a crew on MQTT, all on loopback and for real.
type rig struct {
	t           *testing.T
	config      Config
	physics     physics.Constants
	broker      *mqttbroker.Broker
	craft       []*autopilot.Autopilot
	lose        []func() // ends an aircraft
	closeBroker func()
	topics      telemetry.Topics

	crew    *telemetry.Client
	mutex   sync.Mutex
	status  []telemetry.Status
	acks    map[string][]string // payloads by id
	online  bool
	onlines int // how often somebody said so
	orders  int // given by mission
	slots   []int
	offered []int                                // aircraft in the last beacon
	told    map[int]int                          // decisions by slot
	takers  int                                  // users who take the offer of each slot
	slow    atomic.Int64                         // how long the next decision takes, ns
	policy  scheduler                            // nil: atAllowance
	steer   func(*slot.Snapshot, *slot.Decision) // changes what it decided
	truthJ  map[int]float64                      // what the batteries had lost when a slot's beacon came
	mute    bool                                 // its users report nothing
	legs    [8]atomic.Int64                      // when an aircraft last got a setpoint to move, ns; no lock: its own is held then
	obeyed  [8]atomic.Int64                      // setpoints, and commands to arm, take off or change mode, that it got
	news    chan struct{}
}

// Slots of 40 ms make a test of thirty slots a second and a bit long.
func newRig(t *testing.T, aircraft, slots int) *rig { return newRigAt(t, aircraft, slots, 40) }

func newRigAt(t *testing.T, aircraft, slots int, slotMS float64) *rig {
	t.Helper()
	r := &rig{t: t, config: Defaults(), physics: physics.Standard(), acks: map[string][]string{}, told: map[int]int{}, truthJ: map[int]float64{}, news: make(chan struct{}, 1)}
	r.physics.AltitudeM = 30 // a shorter climb
	r.broker = &mqttbroker.Broker{Address: "127.0.0.1:0"}
	if err := r.broker.Initialize(); err != nil {
		t.Fatal(err)
	}
	r.closeBroker = sync.OnceFunc(r.broker.Close)
	t.Cleanup(r.closeBroker)
	c := &r.config
	c.Fleet, c.StateDir, c.Slots, c.SlotMS, c.ReportByMS, c.DecideByMS = "test", t.TempDir(), slots, slotMS, 0.35*slotMS, 0.6*slotMS
	c.Broker.URL = r.broker.URL()
	r.topics, _ = telemetry.NewTopics("test")
	origin := geo.Point{LatDeg: c.Origin.LatitudeDeg, LonDeg: c.Origin.LongitudeDeg, AltM: c.Origin.AltitudeM}
	for i := range aircraft {
		partner := freeUDP(t)
		a := &autopilot.Autopilot{Config: autopilot.Config{
			SystemID: uint8(i + 1), Listen: "127.0.0.1:0", Partner: partner, Origin: origin,
			Start: geo.Local{EastM: 1000 * float64(i+1) / float64(aircraft+1), NorthM: 500}, Speed: 1000 / c.SlotMS,
			CapacityJ: r.physics.CapacityJ, Battery: battery.Fields{Current: true, Energy: true, Remaining: true},
			Parameters: map[string]float64{"MPC_XY_VEL_MAX": 30, "COM_OF_LOSS_T": 5, "MPC_Z_VEL_MAX_UP": 20, "MPC_TKO_SPEED": 20, "MPC_Z_V_AUTO_DN": 20, "MPC_LAND_SPEED": 5},
			PowerW:     func(_ int, mps float64) float64 { return r.physics.Propulsion.PowerW(mps) },
			Log:        slog.New(slog.DiscardHandler),
			Heard: func(h autopilot.Heard) {
				switch h.Command {
				case 0, common.MAV_CMD_COMPONENT_ARM_DISARM, common.MAV_CMD_NAV_TAKEOFF, common.MAV_CMD_DO_SET_MODE:
					r.obeyed[i].Add(1)
				}
				if s := h.Setpoint; s != nil && math.Hypot(s.Velocity.EastM, s.Velocity.NorthM) > 0.1 {
					r.legs[i].Store(time.Now().UnixNano())
				}
			},
		}}
		if err := a.Initialize(); err != nil {
			t.Fatal(err)
		}
		end := sync.OnceFunc(a.Close)
		t.Cleanup(end)
		r.lose = append(r.lose, end)
		r.craft = append(r.craft, a)
		c.Aircraft = append(c.Aircraft, Aircraft{SystemID: i + 1, Endpoint: "udp-listen:" + partner})
	}
	r.crew = &telemetry.Client{
		Broker: c.Broker, Name: "crew", Log: slog.New(slog.DiscardHandler),
		Subscriptions: []telemetry.Subscription{
			{Filter: r.topics.Status()}, {Filter: r.topics.AllAcks(), QoS: 1}, {Filter: r.topics.Slot()}, {Filter: r.topics.AllDecisions(), QoS: 1}, {Filter: r.topics.Online(), QoS: 1},
		},
		Handle: r.hear,
	}
	if err := r.crew.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.crew.Close)
	return r
}

// replace puts an aircraft with other parameters in one's place.
func (r *rig) replace(i int, parameters map[string]float64) {
	r.t.Helper()
	r.lose[i]()
	c := r.craft[i].Config
	c.Parameters = maps.Clone(c.Parameters)
	maps.Copy(c.Parameters, parameters)
	a := &autopilot.Autopilot{Config: c}
	if err := a.Initialize(); err != nil {
		r.t.Fatal(err)
	}
	r.craft[i], r.lose[i] = a, sync.OnceFunc(a.Close)
	r.t.Cleanup(r.lose[i])
}

// freeUDP is an address that nobody listens on. The leader binds it, as PX4
// wants: a partner that came back on another port would not be heard.
func freeUDP(t *testing.T) string {
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().String()
}

// hear is the crew and four users in one: each user reports in every slot and
// says that its task ended as its decision foresaw.
func (r *rig) hear(m telemetry.Message) {
	kind, id, _ := r.topics.Parse(m.Topic)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	switch kind {
	case telemetry.KindStatus:
		s, err := telemetry.DecodeStatus(m.Payload)
		if err != nil {
			r.t.Errorf("status: %v", err)
		}
		r.status = append(r.status, s)
	case telemetry.KindOnline:
		if r.online = string(m.Payload) == string(telemetry.EncodeOnline(true)); r.online {
			r.onlines++
		}
	case telemetry.KindAck:
		r.acks[id] = append(r.acks[id], string(m.Payload))
	case telemetry.KindDecision:
		d, err := telemetry.DecodeDecision(m.Payload)
		if err != nil {
			r.t.Errorf("decision: %v", err)
			break
		}
		r.told[d.Slot]++
		if d.Aircraft > 0 { // the computing is billed to the aircraft that does it
			r.craft[d.Aircraft-1].AddEdgeJ(d.Slot, r.physics.Kappa*d.CPUHz*d.CPUHz*d.Offload*1e9)
		}
		r.publish(r.topics.Result(id), telemetry.Result{Slot: d.Slot, CompletionS: 0.5, By: telemetry.ByDecision})
	case telemetry.KindSlot:
		s, err := telemetry.DecodeSlot(m.Payload)
		if err != nil {
			r.t.Errorf("beacon: %v", err)
			break
		}
		r.truthJ[s.Slot] = r.trueJ()
		r.slots, r.offered = append(r.slots, s.Slot), r.offered[:0]
		for _, a := range s.Offer.Aircraft {
			r.offered = append(r.offered, a.Number)
		}
		for u := range r.takers {
			r.publish(r.topics.Result(fmt.Sprintf("taker%d", u)), telemetry.Result{Slot: max(s.Slot-1, 0), CompletionS: 0.5, By: telemetry.ByOffer})
		}
		for u := 0; u < 4 && !r.mute; u++ {
			r.publish(r.topics.Report(fmt.Sprintf("u%d", u)), report(s.Slot, u))
		}
	}
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// testCrowd is who is imagined before anybody is heard.
var testCrowd = dispatch.Crowd{Users: 4, CPUHz: 1e9, Task: physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.9}}

func report(slot, u int) telemetry.Report {
	return telemetry.Report{
		Slot: slot, PositionM: [2]float64{200 * float64(u+1), 450}, CPUHz: 1e9,
		Task: &telemetry.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.9}, Gain: map[int]float64{1: 1e-9},
	}
}

func (r *rig) publish(topic string, v any) {
	payload, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	r.crew.Publish(telemetry.Publication{Topic: topic, QoS: 1, Payload: payload})
}

// flight is a running leader.
type flight struct {
	*Leader
	cancel context.CancelFunc
	done   chan error
}

func (r *rig) launch() *flight {
	policy := r.policy
	if policy == nil {
		policy = &atAllowance{c: r.physics}
	}
	l := &Leader{
		Config: r.config, Physics: r.physics, Scales: testScales(), Usual: testCrowd, Scheduler: slowly{policy, r},
		Clock: clock.New(), Log: slog.New(slog.NewTextHandler(testWriter{r.t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &flight{l, cancel, make(chan error, 1)}
	go func() { f.done <- l.Run(ctx) }()
	r.t.Cleanup(cancel)
	return f
}

// testWriter logs only what a verbose test wants to see.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	if testing.Verbose() {
		os.Stderr.Write(b)
	}
	return len(b), nil
}

// kill ends the leader as a crash would: nothing is settled or said.
func (f *flight) kill(t *testing.T) {
	t.Helper()
	f.cancel()
	if err := <-f.done; err != nil {
		t.Fatal(err)
	}
}

// await waits until the last status satisfies a condition.
func (r *rig) await(what string, ok func(telemetry.Status) bool) telemetry.Status {
	r.t.Helper()
	late := time.After(20 * time.Second)
	for {
		r.mutex.Lock()
		var s telemetry.Status
		if n := len(r.status); n > 0 {
			s = r.status[n-1]
		}
		found := len(r.status) > 0 && ok(s)
		r.mutex.Unlock()
		if found {
			return s
		}
		select {
		case <-r.news:
		case <-late:
			r.t.Fatalf("no status with %s; the last is %+v", what, s)
		}
	}
}

// command sends a command until it is acknowledged, and returns the answer.
func (r *rig) command(topic, payload, id string) (ack telemetry.Ack) {
	r.t.Helper()
	r.mutex.Lock()
	before := len(r.acks[id])
	r.mutex.Unlock()
	r.crew.Publish(telemetry.Publication{Topic: topic, QoS: 1, Payload: []byte(payload)})
	late := time.After(20 * time.Second)
	for {
		r.mutex.Lock()
		acks := r.acks[id]
		r.mutex.Unlock()
		if len(acks) > before {
			ack, err := telemetry.DecodeAck([]byte(acks[len(acks)-1]))
			if err != nil {
				r.t.Fatal(err)
			}
			return ack
		}
		select {
		case <-r.news:
		case <-late:
			r.t.Fatalf("command %s was not acknowledged", payload)
		}
	}
}

// mission gives an order.
func (r *rig) mission(action string) telemetry.Ack {
	r.t.Helper()
	r.orders++
	id := fmt.Sprintf("order%d", r.orders)
	return r.command(r.topics.Mission(), fmt.Sprintf(`{"id":%q,"action":%q}`, id, action), id)
}

// takeOff starts the mission as soon as the leader finds itself ready.
func (r *rig) takeOff() {
	r.t.Helper()
	r.await("aircraft heard", func(s telemetry.Status) bool { return true })
	for i := 0; ; i++ {
		ack := r.mission(telemetry.ActionStart)
		if ack.Accepted {
			return
		}
		if i > 100 {
			r.t.Fatalf("start refused: %s", ack.Reason)
		}
		r.await("another second", func(telemetry.Status) bool { return true })
		time.Sleep(20 * time.Millisecond) // the leader itself waits for parameters
	}
}

func testScales() *goal.Scales {
	return &goal.Scales{
		EtaDelayS: 633, EtaEnergyJ: 11.6e3, Slots: 100, Aircraft: 2,
		Conditioner: goal.Conditioner{Omegas: []float64{0, 0.5, 1}, DelayS: []float64{90, 200, 700}, EnergyJ: []float64{39e3, 29e3, 27e3}},
		Remap:       goal.Remap{Omegas: []float64{0, 0.1, 0.4, 1}},
	}
}

// atAllowance dispatches exactly at the price that spends the slot's
// allowance, and tracks the users: a scheduler without a network.
type atAllowance struct {
	c        physics.Constants
	solver   dispatch.Solver
	tracker  tracking.Tracker
	targets  []physics.Position
	envelope tracking.Envelope
}

func (p *atAllowance) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Seen {
	d.Size(s)
	p.tracker.Observe(s.Users)
	low, high := 0.0, 3.0
	for range 20 {
		price := (low + high) / 2
		p.solver.Solve(&p.c, s, price, d)
		sum := 0.0
		for _, j := range d.EdgeJ {
			sum += j
		}
		if sum > g.AllowanceJ() {
			low = price
		} else {
			high = price
		}
	}
	p.targets = p.tracker.Targets(&p.c, s.Aircraft, p.targets)
	var positions []physics.Position
	for m := range s.Aircraft {
		positions = append(positions, s.Aircraft[m].Position)
		d.Move[m] = tracking.Move(s.Aircraft[m].Position, p.targets[m], 8.4, 8.4)
	}
	p.envelope.Limit(positions, d.Move, tracking.Limits{SpeedMaxMPS: p.c.SpeedMaxMPS, SeparationM: p.c.SeparationM, AreaM: p.c.AreaM})
	return goal.Seen{}
}

// eventually waits for what no message tells.
func (r *rig) eventually(ok func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(20 * time.Second)
	for {
		select {
		case <-tick.C:
			if ok() {
				return true
			}
		case <-late:
			return false
		}
	}
}
