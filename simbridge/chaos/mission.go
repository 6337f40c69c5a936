package chaos

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-yaml"

	"prefdt/inference/physics"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/broker"
	"prefdt/simbridge/geo"
	"prefdt/simbridge/process"
	"prefdt/simbridge/users"
	"prefdt/simbridge/world"
	"prefdt/telemetry"
)

const fleetName = "chaos"

// mission is one flight under faults.
type mission struct {
	Config
	number int // of the run
	plan   plan
	folder string
	random *rand.Rand
	world  world.Config
	origin geo.Point
	host   *host
	ports  *ports
	met    coverage // shared with other missions, under metMutex
	metMu  *sync.Mutex

	url        string
	brokerMu   sync.Mutex
	broker     *broker.Broker
	autopilots []*autopilot.Autopilot
	crowd      *users.Crowd
	crew       *crew
	judge      *judge
	leaderPath string   // its configuration
	keys       []string // paths: the crew's and the leaders'
	publicKey  string   // of the crew's

	mutex    sync.Mutex
	leader   *process.Process
	threads  *threads  // of the leader
	starts   int       // of the leader
	killed   bool      // on purpose, and not started again yet
	epoch    time.Time // of slot 0; zero before
	body     []autopilot.Body
	resets   []reset
	awayS    float64  // the leader was gone
	notes    []string // what was wrong
	active   int      // faults that go on
	lastEnd  float64  // slot in which the last fault ended
	pending  []fault  // have not begun
	entered  map[State]time.Time
	activeIn []State // in which those began
	streamed []bool  // has received a setpoint since it was ordered to start, by aircraft
	failed   chan error

	began       time.Time
	accounts    strings.Builder
	lastRecover float64   // on clock
	lastInSlots float64   // likewise, the end of the last fault that began before the end of the slots
	endedAt     float64   // likewise, the end of the slots
	erred       bool      // the crew resumed what stands
	heldSince   time.Time // an aircraft in Hold is not led
}

// reset is a battery's counters beginning anew.
type reset struct {
	aircraft int
	gapS     float64 // nobody could have read the counter for so long before
}

func (m *mission) slotWall() time.Duration { return time.Duration(float64(time.Second) / m.Speed) }

// now is the mission's slot by the clock, -1 before it.
func (m *mission) now() float64 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.epoch.IsZero() {
		return -1
	}
	return float64(time.Since(m.epoch)) / float64(m.slotWall())
}

// parameters are PX4's, but for a climb and a descent that do not take longer
// than the mission.
var parameters = map[string]float64{
	"MPC_XY_VEL_MAX": 30, "MPC_XY_CRUISE": 12, "MPC_Z_VEL_MAX_UP": 12, "MPC_TKO_SPEED": 12, "MPC_Z_V_AUTO_DN": 10, "MPC_Z_VEL_MAX_DN": 10,
	"MPC_LAND_SPEED": 3, "COM_OF_LOSS_T": 10, "COM_LOW_BAT_ACT": 3,
}

// start brings the world up, and the leader.
func (m *mission) start(ctx context.Context) error {
	m.began, m.lastEnd, m.lastRecover = time.Now(), -10, -10
	m.world = world.Standard()
	m.world.Aircraft, m.world.Slots, m.world.Crowded = m.Aircraft, m.plan.Slots, m.plan.Crowded
	m.world.Shock = world.Shock{FromSlot: m.plan.ShockSlot, Factor: 1.5}
	m.origin = geo.Point{LatDeg: 47.397742, LonDeg: 8.545594, AltM: 488}
	address, err := m.ports.free("tcp")
	if err != nil {
		return err
	}
	m.broker = &broker.Broker{Address: address}
	if err := m.broker.Initialize(); err != nil {
		return err
	}
	m.url = "tcp://" + address
	m.judge = newJudge(m.world.Physics, m.Aircraft, m.Speed)
	m.judge.host = m.heldUp
	m.body, m.streamed = make([]autopilot.Body, m.Aircraft), make([]bool, m.Aircraft)
	if err := m.makeKeys(); err != nil {
		return err
	}
	var links []string
	for i := range m.Aircraft {
		partner, err := m.ports.free("udp")
		if err != nil {
			return err
		}
		links = append(links, partner)
		p := m.world.Start(i)
		m.body[i].Position = geo.Local{EastM: p.EastM, NorthM: p.NorthM}
		a := &autopilot.Autopilot{Config: autopilot.Config{
			SystemID: uint8(i + 1), Listen: "127.0.0.1:0", Partner: partner, Origin: m.origin, Start: m.body[i].Position,
			Speed: m.Speed, CapacityJ: m.world.Physics.CapacityJ, Battery: battery.Fields{Current: true, Energy: true, Remaining: true},
			Parameters: parameters, Log: slog.New(slog.DiscardHandler),
			PowerW: func(slot int, speedMPS float64) float64 {
				return m.world.FlightPowerW(m.plan.Seed, slot, i, speedMPS)
			},
			Moved: func(_ int, b autopilot.Body) { m.moved(i, b) },
			Heard: func(h autopilot.Heard) {
				if h.Setpoint != nil {
					m.mutex.Lock()
					m.streamed[i] = true
					m.mutex.Unlock()
				}
				m.judge.heard(i, h)
			},
			HeartbeatSent: func(h autopilot.Heartbeat) { m.judge.beat(i, h) },
		}}
		if err := a.Initialize(); err != nil {
			return err
		}
		m.autopilots = append(m.autopilots, a)
	}
	if m.crew, err = newCrew(ctx, fleetName, m.url, m.beacon); err != nil {
		return err
	}
	m.crew.leaderGone, m.crew.leaderEnded, m.crew.answered = m.leaderGone, m.ended, m.answered
	m.crew.said = m.compare
	if m.plan.Signed {
		if m.crew.key, err = telemetry.ReadKey(m.keys[0]); err != nil {
			return err
		}
	}
	m.crowd = &users.Crowd{Config: users.Config{
		World: m.world, Seed: m.plan.Seed, Loss: m.plan.Loss, Fleet: fleetName, Broker: telemetry.Broker{URL: m.url}, Shared: true,
		Retry: 100 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
		Position: func(i int) physics.Position {
			m.mutex.Lock()
			defer m.mutex.Unlock()
			return physics.Position{EastM: m.body[i].Position.EastM, NorthM: m.body[i].Position.NorthM}
		},
		AddEdgeJ: func(i, slot int, joules float64) { m.autopilots[i].AddEdgeJ(slot, joules) },
	}}
	if err := m.crowd.Initialize(ctx); err != nil {
		return err
	}
	if m.leaderPath, err = m.configure("leader", links); err != nil {
		return err
	}
	return m.startLeader()
}

func (m *mission) moved(i int, b autopilot.Body) {
	m.mutex.Lock()
	m.body[i] = b
	m.mutex.Unlock()
	m.judge.moved(i, b)
}

// beacon starts the clock. All slots follow from the first one's.
func (m *mission) beacon(s telemetry.Slot, received time.Time) {
	m.mutex.Lock()
	first := m.epoch.IsZero()
	if first {
		m.epoch = received.Add(-time.Duration(s.Slot) * m.slotWall())
	}
	m.mutex.Unlock()
	if !first {
		return
	}
	for n := range m.plan.Slots + 1 {
		for _, a := range m.autopilots {
			a.SetSlot(n, m.epoch.Add(time.Duration(n)*m.slotWall()))
		}
	}
}

// configure writes a leader's configuration; each name has a state of its own.
func (m *mission) configure(name string, links []string) (string, error) {
	var aircraft []map[string]any
	for i, link := range links {
		p := m.world.Start(i)
		aircraft = append(aircraft, map[string]any{"system_id": i + 1, "endpoint": "udp-listen:" + link, "start_m": []float64{p.EastM, p.NorthM}})
	}
	slotMS := 1000 / m.Speed
	values := map[string]any{
		"fleet": fleetName, "mission": "m1", "state_dir": filepath.Join(m.folder, name), "checkpoint": m.Checkpoint,
		"slots": m.plan.Slots, "slot_ms": slotMS, "report_by_ms": 0.4 * slotMS, "decide_by_ms": 0.6 * slotMS,
		"broker": map[string]any{"url": m.url}, "aircraft": aircraft,
		"origin": map[string]any{"latitude_deg": m.origin.LatDeg, "longitude_deg": m.origin.LonDeg, "amsl_m": m.origin.AltM},
	}
	if m.plan.Signed {
		values["leader_key"] = m.keys[1]
		values["commands"] = map[string]any{"keys": map[string]string{crewKey: m.publicKey}}
	}
	if m.plan.radioLost() {
		returnS := crewReturnS
		if !m.plan.has(CrewRadioReturn) {
			returnS = 600
		}
		values["flight"] = map[string]any{"crew_hold_s": crewHoldS, "crew_return_s": returnS}
	}
	raw, err := yaml.Marshal(values)
	if err != nil {
		return "", fmt.Errorf("leader's configuration: %w", err)
	}
	path := filepath.Join(m.folder, name+".yaml")
	return path, os.WriteFile(path, raw, 0o644)
}

func (m *mission) startLeader() (err error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.starts++
	program := m.Leader
	if m.plan.Jump {
		program = m.JumpLeader
	}
	if m.leader, err = process.Start([]string{program, "-config", m.leaderPath}, filepath.Join(m.folder, fmt.Sprintf("leader-%d.log", m.starts))); err == nil {
		m.threads = &threads{pid: m.leader.PID()}
	}
	return err
}

// makeKeys makes the crew's and the leaders' keys.
func (m *mission) makeKeys() (err error) {
	for _, name := range []string{"crew.key", "leader.key"} {
		path := filepath.Join(m.folder, name)
		public, err := telemetry.NewKey(path)
		if err != nil {
			return err
		}
		if m.keys = append(m.keys, path); len(m.keys) == 1 {
			m.publicKey = public
		}
	}
	return nil
}

// heldUp is how long the machine held leader and simulator up between two
// moments of an aircraft's time, in mission seconds. What came late may have
// been held up until now.
func (m *mission) heldUp(i int, fromS, toS float64) float64 {
	m.mutex.Lock()
	leader := m.threads
	m.mutex.Unlock()
	from, to := m.autopilots[i].At(fromS), time.Now()
	return m.host.delayed(leader, from, to).Seconds() * m.Speed
}

// leaderGone returns what is closed when the leader has ended; nil while it is
// killed on purpose.
func (m *mission) leaderGone() <-chan struct{} {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.killed || m.leader == nil {
		return nil
	}
	return m.leader.Ended
}

// process is the leader's.
func (m *mission) process() *process.Process {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.leader
}

// ended tells whether the leader has ended without being killed on purpose.
func (m *mission) ended() bool {
	select {
	case <-m.leaderGone():
		return true
	default:
		return false
	}
}

// close ends what is left.
func (m *mission) close() {
	m.mutex.Lock()
	leader := m.leader
	m.mutex.Unlock()
	if leader != nil {
		leader.Kill()
	}
	if m.crowd != nil {
		m.crowd.Close()
	}
	if m.crew != nil {
		m.crew.client.Close()
	}
	for _, a := range m.autopilots {
		a.Close()
	}
	m.brokerMu.Lock()
	defer m.brokerMu.Unlock()
	if m.broker != nil {
		m.broker.Close()
	}
}
