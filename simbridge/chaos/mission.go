package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
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
	plan   plan
	folder string
	random *rand.Rand
	world  world.Config
	origin geo.Point

	url        string
	brokerMu   sync.Mutex
	broker     *broker.Broker
	autopilots []*autopilot.Autopilot
	crowd      *users.Crowd
	crew       *crew
	judge      *judge
	leader     *process.Process
	leaderPath string // its configuration
	starts     int    // of the leader
	killed     bool   // on purpose, and not started again yet

	mutex  sync.Mutex
	epoch  time.Time // of slot 0; zero before
	body   []autopilot.Body
	resets []reset
	awayS  float64  // the leader was gone
	notes  []string // what was wrong
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

func freePort(network string) (string, error) {
	if network == "udp" {
		l, err := net.ListenPacket("udp4", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		defer l.Close()
		return l.LocalAddr().String(), nil
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// parameters are PX4's, but for a climb and a descent that do not take longer
// than the mission.
var parameters = map[string]float64{
	"MPC_XY_VEL_MAX": 30, "MPC_XY_CRUISE": 12, "MPC_Z_VEL_MAX_UP": 12, "MPC_TKO_SPEED": 12, "MPC_Z_V_AUTO_DN": 10, "MPC_Z_VEL_MAX_DN": 10,
	"MPC_LAND_SPEED": 3, "COM_OF_LOSS_T": 10,
}

// start brings the world up, and the leader.
func (m *mission) start(ctx context.Context) error {
	m.world = world.Standard()
	m.world.Aircraft, m.world.Slots, m.world.Crowded = m.Aircraft, m.Slots, m.plan.Crowded
	m.world.Shock = world.Shock{FromSlot: m.plan.ShockSlot, Factor: 1.5}
	m.origin = geo.Point{LatDeg: 47.397742, LonDeg: 8.545594, AltM: 488}
	address, err := freePort("tcp")
	if err != nil {
		return err
	}
	m.broker = &broker.Broker{Address: address}
	if err := m.broker.Initialize(); err != nil {
		return err
	}
	m.url = "tcp://" + address
	m.judge = newJudge(m.world.Physics, m.Aircraft, m.Speed)
	m.body = make([]autopilot.Body, m.Aircraft)
	var links []string
	for i := range m.Aircraft {
		partner, err := freePort("udp")
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
			Heard: func(h autopilot.Heard) { m.judge.heard(i, h) },
		}}
		if err := a.Initialize(); err != nil {
			return err
		}
		m.autopilots = append(m.autopilots, a)
	}
	if m.crew, err = newCrew(ctx, fleetName, m.url, m.beacon); err != nil {
		return err
	}
	m.crew.leaderGone, m.crew.leaderEnded = m.leaderGone, m.ended
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
	for n := range m.Slots + 1 {
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
	raw, err := yaml.Marshal(map[string]any{
		"fleet": fleetName, "mission": "m1", "state_dir": filepath.Join(m.folder, name), "checkpoint": m.Checkpoint,
		"slots": m.Slots, "slot_ms": slotMS, "report_by_ms": 0.4 * slotMS, "decide_by_ms": 0.6 * slotMS,
		"broker": map[string]any{"url": m.url}, "aircraft": aircraft,
		"origin": map[string]any{"latitude_deg": m.origin.LatDeg, "longitude_deg": m.origin.LonDeg, "amsl_m": m.origin.AltM},
	})
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
	m.leader, err = process.Start([]string{program, "-config", m.leaderPath}, filepath.Join(m.folder, fmt.Sprintf("leader-%d.log", m.starts)))
	return err
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
	if m.leader != nil {
		m.leader.Kill()
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

// fly runs the mission to its end.
func (m *mission) fly(ctx context.Context) (o outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration((float64(m.Slots)+500)/m.Speed*float64(time.Second))+30*time.Second)
	defer cancel()
	if err := m.start(ctx); err != nil {
		return o, err
	}
	err = m.begin(ctx)
	if err == nil {
		err = m.slots(ctx)
	}
	if err == nil {
		o, err = m.end(ctx)
	}
	if err != nil && m.ended() {
		err = m.leader.Failure()
	}
	return o, err
}

// begin asks for a budget and for the start, as often as it takes until the
// leader knows its aircraft.
func (m *mission) begin(ctx context.Context) error {
	if !m.crew.wait(ctx, func() bool { return m.crew.online && m.crew.statuses > 0 }) {
		return errors.New("the leader does not come online")
	}
	if !m.crew.await(ctx, m.crew.newAsk(m.random, "budget")) {
		return errors.New("the first budget was refused")
	}
	for began := time.Now(); ; {
		a := m.crew.newAsk(m.random, telemetry.ActionStart)
		if m.crew.await(ctx, a) {
			break
		}
		if ctx.Err() != nil || time.Since(began) > waitAtMost {
			return fmt.Errorf("the leader does not start: %s", a.reason)
		}
		time.Sleep(5 * m.slotWall())
	}
	if !m.crew.wait(ctx, func() bool { return m.crew.slot >= 0 }) {
		return errors.New("no slot was opened")
	}
	return nil
}

// slots is the mission, with what happens in it.
func (m *mission) slots(ctx context.Context) error {
	var faults sync.WaitGroup
	defer faults.Wait()
	failed := make(chan error, 2*len(m.plan.Faults)+1)
	next, revise := 0, 3+m.random.IntN(8)
	tick := time.NewTicker(m.slotWall() / 2)
	defer tick.Stop()
	for lastTry := 0.0; ; {
		now := m.now()
		if now >= float64(m.Slots) {
			return nil
		}
		for ; next < len(m.plan.Faults) && float64(m.plan.Faults[next].Slot) <= now; next++ {
			f := m.plan.Faults[next]
			faults.Go(func() {
				if err := m.happen(ctx, f); err != nil {
					failed <- fmt.Errorf("%s: %w", f.Kind, err)
				}
			})
		}
		if int(now) >= revise && revise < m.Slots-5 {
			m.crew.send(m.crew.newAsk(m.random, []string{"budget", "preference"}[m.random.IntN(2)]))
			revise += 4 + m.random.IntN(8)
		}
		if now-lastTry >= 4 && m.wantsResume(now) {
			lastTry = now
			m.judge.resumed()
			m.crew.send(m.crew.newAsk(m.random, telemetry.ActionResume))
		}
		m.crew.tend()
		select {
		case <-tick.C:
		case <-m.leaderGone():
			if m.ended() {
				return errors.New("the leader ended")
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return errors.New("interrupted")
		}
	}
}

// wantsResume is whether an aircraft does not fly for us that the crew wants
// back, once its trouble is over.
func (m *mission) wantsResume(now float64) bool {
	if now > float64(m.Slots-4) {
		return false
	}
	for _, f := range m.plan.Faults {
		if f.Slot <= int(now) && now < float64(f.end()+3) {
			return false
		}
	}
	wants := false
	for _, a := range m.autopilots {
		s := a.State()
		if s.Landed && !m.plan.TakeGround {
			return false // resume would take that one off again
		}
		wants = wants || s.Mode != autopilot.ModeOffboard
	}
	return wants
}

// outcome is how a mission went.
type outcome struct {
	unsafe, lost, doubled int
	errorJ, allowedJ      float64
	leaderJ, truthJ       float64
	counted               bool // no counter began anew
	resumed               bool
	slowest               time.Duration
	state                 string
	missed                int
	separationM           float64
}

// end waits for every aircraft to stand, and draws the balance.
func (m *mission) end(ctx context.Context) (o outcome, err error) {
	flying := 0
	for _, a := range m.autopilots {
		if s := a.State(); s.Mode == autopilot.ModeOffboard && !s.Landed {
			flying++
		}
	}
	done := func() bool { return m.crew.status.State == telemetry.StateDone }
	if !m.crew.wait(ctx, done) {
		s, _ := m.crew.now()
		return o, fmt.Errorf("the mission is %s at slot %d, and not done", s.State, s.Slot)
	}
	for i, a := range m.autopilots {
		m.judge.mutex.Lock()
		theirs := m.judge.craft[i].handsOff
		m.judge.mutex.Unlock()
		if s := a.State(); !s.Landed && s.Armed && (theirs || s.Mode == autopilot.ModeHold && m.leftAlone(ctx, a)) {
			a.Pilot(autopilot.ModeLand) // its pilot brings it down
			m.judge.handsOff(i, math.Inf(1))
		}
	}
	home := func() bool {
		for _, a := range m.autopilots {
			if s := a.State(); !s.Landed || s.Armed {
				return false
			}
		}
		return true
	}
	if !m.crew.wait(ctx, home) {
		text := "not all aircraft came down:"
		for i, a := range m.autopilots {
			s := a.State()
			text += fmt.Sprintf(" %d %s at %.0f m, armed %v;", i+1, s.Mode, s.Position.UpM, s.Armed)
		}
		return o, errors.New(text)
	}
	_, n := m.crew.now()
	if !m.crew.wait(ctx, func() bool { return m.crew.statuses > n+3 && !m.crew.pending() }) {
		return o, errors.New("the leader stopped reporting")
	}
	m.balance(&o)
	o.resumed = flying == m.Aircraft
	if err := m.leader.End(); err != nil {
		return o, err
	}
	return o, nil
}

// leftAlone is whether an aircraft in Hold stays there: it is with its pilot,
// who was not heard of it. The leader needs a moment for what is its own.
func (m *mission) leftAlone(ctx context.Context, a *autopilot.Autopilot) bool {
	_, n := m.crew.now()
	m.crew.wait(ctx, func() bool { return m.crew.statuses > n+5 })
	return a.State().Mode == autopilot.ModeHold
}

// balance holds the leader's account against the batteries'.
func (m *mission) balance(o *outcome) {
	s, _ := m.crew.now()
	leader, truth := s.TransitJ, 0.0
	for i, a := range m.autopilots {
		if i < len(s.Aircraft) {
			leader += s.Aircraft[i].SpentJ
		}
		truth += a.State().Spent.J()
	}
	o.errorJ, o.leaderJ, o.truthJ = math.Abs(leader-truth), leader, truth
	o.allowedJ, o.counted = m.allowedJ(), len(m.resets) == 0
	o.state, o.missed = s.State, s.MissedSlots
	var first string
	o.unsafe, first = m.judge.verdict()
	lost, doubled, slowest := m.crew.failures()
	o.lost, o.doubled, o.slowest, o.separationM = len(lost), len(doubled), slowest, m.judge.leastM
	if first != "" {
		m.notes = append(m.notes, "unsafe: "+first)
	}
	for _, text := range lost {
		m.notes = append(m.notes, "lost: "+text)
	}
	for _, text := range doubled {
		m.notes = append(m.notes, "doubled: "+text)
	}
}
