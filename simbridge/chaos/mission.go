package chaos

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	host   *hostMonitor
	ports  *ports

	url              string
	broker           *broker.Broker
	autopilots       []*autopilot.Autopilot
	users            *users.Simulator
	crew             *crew
	judge            *judge
	leaderConfigPath string
	publicKey        string   // of the crew's key
	closers          []func() // of what was started, in that order

	leader       atomic.Pointer[leaderProcess] // the one started last
	leaderStarts int
	leaderKilled atomic.Bool // on purpose, and not started again yet

	mutex             sync.Mutex
	epoch             time.Time      // start of slot 0; zero before
	counterResetGapsS []float64      // before each reset of a battery's counters, the time in which they could not be read
	leaderAbsentS     float64        // time without a leader
	begun             []coverageCell // the faults that began, with their states
	activeFaults      int
	lastFaultEnd      float64 // by elapsedSlots
	pendingFaults     []fault // not begun yet
	stateEnteredAt    map[State]time.Time
	activeFaultStates []State // in which the active faults began
	faultErrors       chan error

	findings    []string // failures of the mission
	outcome     outcome
	failure     string        // why the mission failed; empty: it did not
	took        time.Duration // wall time
	interrupted error         // the run was interrupted, or its folder cannot be used
	over        chan struct{} // closed once it was flown

	began               time.Time
	accountRows         strings.Builder
	lastRecoverAt       float64   // by elapsedSlots
	lastFaultEndInSlots float64   // likewise, of the last fault that began before the end of the slots
	slotsEndedAt        float64   // likewise
	resumedGrounded     bool      // the crew has sent a resume for aircraft on the ground
	heldSince           time.Time // an aircraft is in Hold without the leader's command
}

// leaderProcess is a leader, or none: the zero value.
type leaderProcess struct {
	*process.Process
	threads threadDelays
}

func (m *mission) slotWall() time.Duration { return time.Duration(float64(time.Second) / m.Speed) }

// slotsFrom is the time since a moment, in slots.
func (m *mission) slotsFrom(t time.Time) float64 {
	return float64(time.Since(t)) / float64(m.slotWall())
}

// slotNow is the mission's slot by the clock, -1 before it.
func (m *mission) slotNow() float64 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.epoch.IsZero() {
		return -1
	}
	return m.slotsFrom(m.epoch)
}

// px4Parameters make a climb and a descent shorter than the mission.
var px4Parameters = map[string]float64{
	"MPC_XY_VEL_MAX": 30, "MPC_XY_CRUISE": 12, "MPC_Z_VEL_MAX_UP": 12, "MPC_TKO_SPEED": 12, "MPC_Z_V_AUTO_DN": 10, "MPC_Z_VEL_MAX_DN": 10,
	"MPC_LAND_SPEED": 3, "COM_OF_LOSS_T": 10, "COM_LOW_BAT_ACT": 3,
}

var origin = geo.Point{LatDeg: 47.397742, LonDeg: 8.545594, AltM: 488}

// setUp starts the broker, the aircraft, the crew, the users and the leader.
func (m *mission) setUp(ctx context.Context) error {
	m.began, m.lastFaultEnd, m.lastRecoverAt = time.Now(), -10, -10
	m.leader.Store(&leaderProcess{})
	m.world = world.Standard()
	m.world.Aircraft, m.world.Slots, m.world.DenseStart = m.Aircraft, m.plan.Slots, m.plan.DenseStart
	m.world.Shock = world.Shock{FromSlot: m.plan.ShockSlot, Factor: 1.5}
	address, err := m.ports.allocate("tcp")
	if err != nil {
		return err
	}
	m.broker = &broker.Broker{Address: address}
	if err := m.broker.Initialize(); err != nil {
		return err
	}
	m.closers = append(m.closers, func() { m.broker.Close() })
	m.url = "tcp://" + address
	m.judge = newJudge(m.world.Physics, m.Aircraft, m.Speed)
	m.judge.hostDelayS = m.hostDelayS
	if err := m.makeKeys(); err != nil {
		return err
	}
	links, err := m.startAutopilots()
	if err != nil {
		return err
	}
	if m.crew, err = newCrew(ctx, m.url, m.handleBeacon); err != nil {
		return err
	}
	m.closers = append(m.closers, m.crew.client.Close)
	m.crew.leaderEnded, m.crew.onAnswer, m.crew.onStatus = m.leaderEnded, m.handleAnswer, m.recordAccounts
	if m.plan.Signed {
		if m.crew.key, err = telemetry.ReadKey(m.keyPath("crew")); err != nil {
			return err
		}
	}
	m.users = m.newUsers()
	if err := m.users.Initialize(ctx); err != nil {
		return err
	}
	m.closers = append(m.closers, m.users.Close)
	if m.leaderConfigPath, err = m.writeLeaderConfig("leader", links); err != nil {
		return err
	}
	if err := m.startLeader(); err != nil {
		return err
	}
	m.closers = append(m.closers, func() { m.leader.Load().Kill() })
	return nil
}

// startAutopilots starts the aircraft and returns the leader's address for each.
func (m *mission) startAutopilots() (links []string, err error) {
	truth := world.NewScenario(&m.world, m.plan.Seed)
	for i := range m.Aircraft {
		partner, err := m.ports.allocate("udp")
		if err != nil {
			return nil, err
		}
		links = append(links, partner)
		p := m.world.Start(i)
		a := &autopilot.Autopilot{Config: autopilot.Config{
			SystemID: uint8(i + 1), Listen: "127.0.0.1:0", Partner: partner, Origin: origin, Start: geo.Local{EastM: p.EastM, NorthM: p.NorthM},
			Speed: m.Speed, CapacityJ: m.world.Physics.BatteryCapacityJ, Battery: battery.AllFields,
			Parameters: px4Parameters, Log: slog.New(slog.DiscardHandler),
			PowerW: func(slot int, v geo.Local) float64 {
				return truth.FlightPowerW(slot, i, physics.Position{EastM: v.EastM, NorthM: v.NorthM})
			},
			OnMotion:        func(_ int, b autopilot.Body) { m.judge.handleMotion(i, b) },
			OnReceived:      func(r autopilot.Received) { m.judge.handleReceived(i, r) },
			OnHeartbeatSent: func(h autopilot.Heartbeat) { m.judge.handleHeartbeat(i, h) },
		}}
		if err := a.Initialize(); err != nil {
			return nil, err
		}
		m.autopilots, m.closers = append(m.autopilots, a), append(m.closers, a.Close)
	}
	return links, nil
}

// newUsers are the simulated users, which meet the aircraft where they really are.
func (m *mission) newUsers() *users.Simulator {
	return &users.Simulator{Config: users.Config{
		World: m.world, Seed: m.plan.Seed, ReportLoss: m.plan.ReportLossRate, Fleet: fleetName, Broker: telemetry.Broker{URL: m.url}, SharedConnection: true,
		ReconnectInterval: 100 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
		Position: func(i int) physics.Position {
			p := m.autopilots[i].State().Position
			return physics.Position{EastM: p.EastM, NorthM: p.NorthM}
		},
		AddEdgeJ: func(i, slot int, joules float64) { m.autopilots[i].AddEdgeJ(slot, joules) },
	}}
}

// handleBeacon sets the epoch. The times of all slots follow from the first beacon.
func (m *mission) handleBeacon(s telemetry.Slot, received time.Time) {
	if !m.epoch.IsZero() { // nothing else sets it
		return
	}
	m.mutex.Lock()
	m.epoch = received.Add(-time.Duration(s.Slot) * m.slotWall())
	m.mutex.Unlock()
	for n := range m.plan.Slots + 1 {
		for _, a := range m.autopilots {
			a.SetSlot(n, m.epoch.Add(time.Duration(n)*m.slotWall()))
		}
	}
}

// writeLeaderConfig writes a leader's configuration; each name has a state directory of
// its own.
func (m *mission) writeLeaderConfig(name string, links []string) (string, error) {
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
		"origin": map[string]any{"latitude_deg": origin.LatDeg, "longitude_deg": origin.LonDeg, "amsl_m": origin.AltM},
	}
	if m.plan.Signed {
		values["leader_key"] = m.keyPath("leader")
		values["commands"] = map[string]any{"keys": map[string]string{crewKeyName: m.publicKey}}
	}
	if m.plan.losesCrewRadio() {
		returnS := crewReturnS
		if !m.plan.hasFault(CrewRadioReturn) {
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

func (m *mission) startLeader() error {
	m.leaderStarts++
	program := m.Leader
	if m.plan.ClockJumps {
		program = m.JumpLeader
	}
	p, err := process.Start([]string{program, "-config", m.leaderConfigPath}, filepath.Join(m.folder, fmt.Sprintf("leader-%d.log", m.leaderStarts)))
	if err == nil {
		m.leader.Store(&leaderProcess{Process: p, threads: threadDelays{pid: p.PID()}})
	}
	return err
}

// makeKeys makes the crew's and the leaders' keys.
func (m *mission) makeKeys() (err error) {
	if m.publicKey, err = telemetry.NewKey(m.keyPath("crew")); err == nil {
		_, err = telemetry.NewKey(m.keyPath("leader"))
	}
	return err
}

func (m *mission) keyPath(owner string) string { return filepath.Join(m.folder, owner+".key") }

// hostDelayS is how long the machine delayed leader and simulator from a moment of an
// aircraft's time until now, in mission seconds.
func (m *mission) hostDelayS(i int, fromS float64) float64 {
	return m.host.delayBetween(&m.leader.Load().threads, m.autopilots[i].WallTime(fromS), time.Now()).Seconds() * m.Speed
}

// leaderEnded reports whether the leader has exited without being killed on purpose.
func (m *mission) leaderEnded() bool {
	if m.leaderKilled.Load() {
		return false
	}
	select {
	case <-m.leader.Load().Done:
		return true
	default:
		return false
	}
}

// close stops everything that setUp started, the last first.
func (m *mission) close() {
	for _, c := range slices.Backward(m.closers) {
		c()
	}
}
