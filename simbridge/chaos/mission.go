package chaos

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccy/go-yaml"

	"prefdt/configs/freeport"
	"prefdt/inference/physics"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/broker"
	"prefdt/simbridge/geo"
	"prefdt/simbridge/onboard"
	"prefdt/simbridge/process"
	"prefdt/simbridge/record"
	"prefdt/simbridge/router"
	"prefdt/simbridge/simnet"
	"prefdt/simbridge/users"
	"prefdt/simbridge/world"
	"prefdt/telemetry"
	"prefdt/telemetry/command"
	"prefdt/telemetry/datagram"
)

const fleetName = "chaos"

// mission is one flight under faults.
type mission struct {
	Config
	number     int // of the run
	plan       plan
	folder     string
	random     *rand.Rand
	apartCalls atomic.Int64 // of apart
	world      world.Config
	starts     []physics.Position // of the configuration
	stands     []physics.Position // where the aircraft stand
	network    *simnet.Network    // nil: programs and sockets in real time
	board      *onboard.Board     // on the network

	url              string
	broker           *broker.Broker
	autopilots       []*autopilot.Autopilot
	workers          []*worker
	users            *users.Simulator
	crew             *crew
	watch            *watch
	record           *record.Writer
	leaderConfigPath string
	links            []string // the leader's address for each aircraft
	publicKey        string   // of the crew's key
	closers          []func() // of what was started, in that order

	leader       atomic.Pointer[leaderProcess] // the one started last
	leaderStarts int
	leaderKilled atomic.Bool // on purpose, and not started again yet

	mutex             sync.Mutex
	epoch             time.Time      // start of slot 0; zero before
	leaderReturnedAt  float64        // by elapsedSlots: the leader was last started or continued
	met               []coverageCell // the faults that had their effect, with the states they began in
	dueSlots          float64        // since the start of slot 0 until no slot was to be opened any more; 0: not known yet
	activeFaults      int
	lastFaultEnd      float64 // by elapsedSlots
	pendingFaults     []fault // not begun yet
	stateEnteredAt    map[State]time.Time
	activeFaultStates []State // in which the active faults began
	faultErrors       chan error

	resumed bool    // every aircraft was under the leader's command in the last slot
	failure string  // why it could not be flown to its end; empty: it was
	tookS   float64 // of its own time

	began           time.Time
	lastRecoverAt   float64   // by elapsedSlots
	groundUntil     float64   // likewise: the crew works on an aircraft on the ground
	resumedGrounded bool      // the crew has sent a resume for aircraft on the ground
	heldSince       time.Time // an aircraft is in Hold without the leader's command
	heightJumped    bool      // of the plan's aircraft
	heightSettled   bool      // likewise, after that
}

// leaderProgram is a leader's program, in this process or in one of its own.
type leaderProgram interface {
	Ended() bool
	Failure() error
	Shutdown() error
	ExitCode() int
	Kill() error
	Over() <-chan struct{} // closed when it has ended
	Pause()                // as SIGSTOP does
	Continue()
}

// leaderProcess is a leader, or none: the zero value.
type leaderProcess struct{ leaderProgram }

func (m *mission) slotWall() time.Duration {
	return time.Duration(float64(time.Second) / m.plan.Speed)
}

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

// quickParameters make a climb and a descent shorter than the mission. Missions at the
// stock rates have stockParameters instead.
var (
	quickParameters = map[string]float64{
		"MPC_XY_VEL_MAX": 30, "MPC_XY_CRUISE": 12, "MPC_Z_VEL_MAX_UP": 12, "MPC_Z_V_AUTO_UP": 12, "MPC_TKO_SPEED": 12,
		"MPC_Z_V_AUTO_DN": 10, "MPC_Z_VEL_MAX_DN": 10,
		"MPC_LAND_SPEED": 3, "MPC_LAND_ALT1": 20, "COM_OF_LOSS_T": 10, "COM_LOW_BAT_ACT": 3,
	}
	stockParameters = map[string]float64{
		"MPC_XY_VEL_MAX": 12, "MPC_XY_CRUISE": 5, "MPC_Z_VEL_MAX_UP": 3, "MPC_TKO_SPEED": 1.5, "MPC_Z_V_AUTO_DN": 1.5,
		"MPC_Z_VEL_MAX_DN": 1.5,
		"MPC_LAND_SPEED":   0.7, "MPC_LAND_ALT1": 10, "COM_OF_LOSS_T": 1, "COM_LOW_BAT_ACT": 3,
	}
)

// parameters are an autopilot's in this mission, by its own names.
func (p *plan) parameters(i int) map[string]float64 {
	x := maps.Clone(quickParameters)
	switch {
	case p.isCopter(i):
		x = p.copterParameters()
	case p.StockRates:
		x = maps.Clone(stockParameters)
	}
	if p.AutopilotMaxMPS > 0 && !p.isCopter(i) {
		x["MPC_XY_VEL_MAX"] = p.AutopilotMaxMPS
	}
	if s := p.Site; s != nil && !p.isCopter(i) {
		x["COM_LOW_BAT_ACT"] = s.BatteryAction
	}
	if p.hasFault(UnsafeFailsafe) {
		for _, u := range p.unsafeParameters(i) {
			x[u.name] = u.unsafe
		}
	}
	return x
}

// surroundings are the world of this mission, and where the aircraft start.
func (m *mission) surroundings() {
	m.world = world.Standard()
	w, p := &m.world, &m.plan
	w.Aircraft, w.Slots, w.DenseStart = m.Aircraft, p.Slots, p.DenseStart
	w.Shock = world.Shock{FromSlot: p.ShockSlot, Factor: 1.5}
	if p.Wind {
		w.Wind = world.Wind{MeanMinMPS: 4, MeanMaxMPS: 7, TurnRad: 0.05, TurbulenceMPS: 1, TurbulenceMemory: 0.9}
	}
	if p.Crowd {
		w.Groups = world.Groups{Count: 1, SpreadM: 25, SpeedMPS: 10, HotTaskProbability: 0.6, OtherTaskProbability: 0.6}
	}
	for i := range m.Aircraft {
		m.starts = append(m.starts, w.Start(i))
	}
	if p.TightHomes { // in rows of four
		const inARow = 4
		apartM, first := p.ApartM, m.starts[0]
		for i := range m.starts {
			m.starts[i] = first.Add(physics.Position{EastM: apartM * float64(i%inARow), NorthM: apartM * float64(i/inARow)})
		}
	}
	if p.Crowd { // side by side, 120 m from the group and inside the area
		const aheadM, apartM, insideM = 120, 30, 40
		crowd := world.NewScenario(w, p.Seed).UserPosition(0, 0)
		centre := physics.Position{EastM: w.Physics.AreaSideM / 2, NorthM: w.Physics.AreaSideM / 2}
		towards := centre.Sub(crowd)
		at := crowd.Add(towards.Scale(min(1, aheadM/max(towards.Norm(), 1))))
		for i := range m.starts {
			at.EastM = min(max(at.EastM, insideM), w.Physics.AreaSideM-insideM-apartM*float64(m.Aircraft))
			m.starts[i] = physics.Position{EastM: at.EastM + apartM*float64(i),
				NorthM: min(max(at.NorthM, insideM), w.Physics.AreaSideM-insideM)}
		}
	}
}

// standOutside has the aircraft stand outside the area, to the south, as they stand to
// each other; their starts are as far inside.
func (m *mission) standOutside() {
	m.stands = slices.Clone(m.starts)
	if m.plan.OutsideM == 0 {
		return
	}
	most := slices.MaxFunc(m.starts, func(a, b physics.Position) int { return cmp.Compare(a.NorthM, b.NorthM) }).NorthM
	for i := range m.starts {
		m.stands[i].NorthM += -m.plan.OutsideM - most
		m.starts[i].NorthM += m.plan.OutsideM + 12 - most
	}
}

// standM is where an aircraft stands, which is as high as the plan's slope is there.
func (m *mission) standM(i int) geo.Local {
	p, middleM := m.stands[i], m.world.Physics.AreaSideM/2
	return geo.Local{EastM: p.EastM, NorthM: p.NorthM,
		UpM: m.plan.GroundM + m.plan.Slope[0]*(p.EastM-middleM) + m.plan.Slope[1]*(p.NorthM-middleM)}
}

func (m *mission) userIDs() (ids []string) {
	for i := range m.world.UserCount() {
		ids = append(ids, fmt.Sprintf("u%02d", i+1))
	}
	return ids
}

var origin = geo.Point{LatDeg: 47.397742, LonDeg: 8.545594, AltM: 488}

// setUp starts the broker, the aircraft, the crew, the users and the leader.
func (m *mission) setUp(ctx context.Context) (err error) {
	m.began, m.lastFaultEnd, m.lastRecoverAt = time.Now(), -10, -10
	m.leader.Store(&leaderProcess{})
	m.surroundings()
	m.standOutside()
	if err := m.beginRecord(); err != nil {
		return err
	}
	m.broker = m.newBroker("127.0.0.1:0")
	if err := m.broker.Initialize(); err != nil {
		return err
	}
	m.closers = append(m.closers, func() { m.broker.Close() })
	m.url = m.broker.URL()
	m.watch = newWatch(m.Aircraft)
	if m.publicKey, err = telemetry.NewKey(m.keyPath("crew")); err != nil {
		return err
	}
	if _, err := telemetry.NewKey(m.keyPath("leader")); err != nil {
		return err
	}
	if m.links, err = m.startAutopilots(); err != nil {
		return err
	}
	if m.crew, err = newCrew(ctx, m); err != nil {
		return err
	}
	m.closers = append(m.closers, m.crew.users.Close, m.crew.client.Close)
	m.crew.leaderEnded, m.crew.onAnswer = m.leaderEnded, m.handleAnswer
	if m.plan.Signed {
		if m.crew.key, err = telemetry.ReadKey(m.keyPath("crew")); err != nil {
			return err
		}
		leaderKey, err := telemetry.ReadKey(m.keyPath("leader"))
		if err != nil {
			return err
		}
		m.crew.leader = &command.Leader{Key: leaderKey.Public().(ed25519.PublicKey)}
	}
	m.users = m.newUsers()
	if err := m.users.Initialize(ctx); err != nil {
		return err
	}
	m.closers = append(m.closers, m.users.Close)
	if len(m.plan.Ill) > 0 {
		if err := m.startTasks(ctx); err != nil {
			return err
		}
	}
	if m.leaderConfigPath, err = m.writeLeaderConfig("leader", m.links, nil); err != nil {
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
	for range m.Aircraft {
		link, err := m.freeAddress()
		if err != nil {
			return nil, err
		}
		links = append(links, link)
	}
	partners := links
	if m.plan.OneLink {
		for i := range links {
			links[i] = links[0]
		}
		shared, err := router.New(m.socketsOf("router"), links[0], slices.Repeat([]string{"127.0.0.1:0"}, m.Aircraft)...)
		if err != nil {
			return nil, err
		}
		m.closers, partners = append(m.closers, shared.Close), shared.Addresses()
	}
	for i := range m.Aircraft {
		partner := partners[i]
		a := &autopilot.Autopilot{Config: autopilot.Config{
			Open: m.socketsOf(autopilotProgram(i)), SystemID: uint8(i + 1), Copter: m.plan.isCopter(i), Listen: "127.0.0.1:0",
			Partner: partner, Origin: origin, Start: m.standM(i), Slope: m.plan.Slope, DriftM: m.plan.DriftM,
			Speed: m.plan.Speed, CapacityJ: m.capacityJ(i), Battery: battery.AllFields, EmptyBattery: m.plan.EmptyBattery,
			LaterNames: m.plan.LaterNames && m.plan.isCopter(i), Parameters: m.plan.parameters(i),
			Framing: m.plan.Framing, TwoCounters: m.plan.TwoCounters, Log: slog.New(slog.DiscardHandler),
			Seed: m.plan.Seed,
			PowerW: func(slot int, v geo.Local) float64 {
				powerW := truth.FlightPowerW(slot, i, physics.Position{EastM: v.EastM, NorthM: v.NorthM})
				if x := m.plan.Site; x != nil {
					powerW *= x.powerFactor(i, v.HorizontalM())
				}
				return powerW
			},
			OnMotion: func(_ int, s autopilot.State) {
				m.record.State(i+1, record.StateOf(&s))
				m.watch.handleMotion(i, s, m.plan.isCopter(i))
			},
			OnReceived: func(r autopilot.Received) {
				m.record.Write(record.Line{Aircraft: i + 1, Got: record.GotOf(&r)})
				m.watch.handleReceived(i, r, m.plan.isCopter(i))
			},
			OnHeartbeatSent: func(h autopilot.Heartbeat) {
				m.record.Write(record.Line{Aircraft: i + 1, Heartbeat: record.HeartbeatOf(h)})
				m.watch.handleHeartbeat(i, h)
			},
		}}
		if x := m.plan.Site; x != nil {
			a.Receiver, a.GustMPS2 = x.Receiver, x.GustMPS2
		}
		if err := a.Initialize(); err != nil {
			return nil, err
		}
		m.autopilots, m.closers = append(m.autopilots, a), append(m.closers, a.Close)
		a.ChangeBattery(func(b *battery.Battery) {
			b.SensorGain, b.Fields.EveryS, b.Fields.Remaining = m.plan.SensorGain[i], m.plan.MonitorS, !m.plan.NoCharge
			switch p := m.plan.Packs; {
			case m.plan.BoundedPacks:
				b.SetReadsJ(m.packForJ(i, float64(m.plan.Slots/2)))
			case p != nil:
				b.SetReadsJ(p.FullShare * m.capacityJ(i))
			}
		})
	}
	return links, nil
}

// newUsers are the simulated users, which meet the aircraft where they really are.
func (m *mission) newUsers() *users.Simulator {
	return &users.Simulator{Config: users.Config{
		World: m.world, Seed: m.plan.Seed, ReportLoss: m.plan.ReportLossRate, Retained: m.plan.RetainedReports, Fleet: fleetName,
		Broker: m.brokerOf("users"), Function: map[bool]string{true: sums}[len(m.plan.Ill) > 0],
		SharedConnection:  true,
		ReconnectInterval: 100 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
		Position: func(i int) physics.Position {
			p := m.autopilots[i].State().Position
			return physics.Position{EastM: p.EastM, NorthM: p.NorthM}
		},
		AddEdgeJ: func(i, slot int, joules float64) { m.autopilots[i].AddEdgeJ(slot, joules) },
	}}
}

// reserveJ is the leader's, by default, and that of a budget of the packs.
const reserveJ = 15e3

// capacityJ is what the pack of aircraft i holds: as drawn, but enough for the mission, whose
// course takes longer than its slots.
func (m *mission) capacityJ(i int) float64 {
	if m.plan.SmallPacks {
		return m.packForJ(i, float64(m.plan.Slots/2))
	}
	if p := m.plan.Packs; p != nil {
		return m.boundPackJ(i) / (p.FullShare - packReserve)
	}
	return max(m.plan.PackJ[i], m.packForJ(i, 1.5*float64(m.plan.Slots)+60))
}

// stockClimbS and stockLandingS are how long PX4 takes to H and down at its own rates, as measured.
const stockClimbS, stockLandingS = 45, 100

// packForJ is about what a pack needs for some slots beyond the leader's reserve, the climb
// and the way home after the neighbours' landings, also if flying comes to cost more.
func (m *mission) packForJ(i int, slots float64) float64 {
	const watt, neighbourM, slowMPS = 170, 17, 5
	climbS, homeS, waitS, factor := 12.0, m.landingS(i), 0.0, m.powerFactor(1.2)
	if m.plan.StockRates {
		climbS = stockClimbS
	}
	for k, at := range m.stands {
		if k != i && at.Sub(m.stands[i]).Norm() <= neighbourM {
			waitS += homeS
		}
	}
	waitS = max(waitS, m.landingWaitS(i))
	outS := m.starts[i].Sub(m.stands[i]).Norm() / slowMPS
	return reserveJ + watt*(climbS+outS+factor*(slots+outS+homeS+waitS))
}

// powerFactor is what flying may cost over the formula: so much in wind, and what it comes to cost.
func (m *mission) powerFactor(inWind float64) (factor float64) {
	if factor = 1; m.plan.Wind {
		factor = inWind
	}
	if m.plan.ShockSlot < m.plan.Slots {
		factor *= m.world.Shock.Factor
	}
	return factor
}

// boundPackJ is about what aircraft i takes to touchdown at the stock rates, if it flies for as many
// slots as its pack is to have charge for: at v*, and a little for computing.
func (m *mission) boundPackJ(i int) float64 {
	const slotW, hoverW = 142, 169
	return hoverW*stockClimbS + m.powerFactor(1.15)*(slotW*m.plan.Packs.SlotsOf[i]+hoverW*(m.landingS(i)+m.landingWaitS(i)))
}

// landingS is how long aircraft i takes down.
func (m *mission) landingS(i int) float64 {
	const fastS, slowlyS = 20, 50 // and what an ArduCopter takes longer that sinks at 0.3 m/s from 20 m on
	landingS := float64(fastS)
	if m.plan.StockRates {
		landingS = stockLandingS
	}
	if m.plan.isCopter(i) && m.plan.hasFault(TellsLanded) {
		landingS += slowlyS
	}
	return landingS
}

// landingWaitS is how long aircraft i may have to wait for others whose homes are near.
func (m *mission) landingWaitS(i int) (waitS float64) {
	const nearM, eachS = 40, 27 // four separations; what one takes to be low enough for the next
	for k, at := range m.stands {
		if k != i && at.Sub(m.stands[i]).Norm() <= nearM {
			waitS += eachS
		}
	}
	return waitS
}

// lowPackJ is less than an aircraft needs beyond the leader's reserve to be home now, and
// enough to be there before its own failsafe brings it down, at 7 % of the pack.
func (m *mission) lowPackJ(i int) float64 {
	const left = 0.9 // of the reserve
	factor := 1.0
	if m.slotNow() > float64(m.plan.ShockSlot-quietSlots) {
		factor = m.world.Shock.Factor
	}
	seen, frame, p := m.watch.of(i), m.plan.airframe(i, m.world.Physics.SpeedMaxMPS), m.world.Physics.Propulsion
	best := p.BestSpeedMPS(frame.speedMPS)
	wayS := seen.home.Sub(seen.state.Position).HorizontalM() / best
	return left*reserveJ + factor*(wayS*p.PowerW(best)+frame.descentS(seen.state.HeightM)*p.PowerW(0))
}

// handleBeacon sets the epoch, from which the times of all slots follow, with the first
// beacon. In a mission with a list of users a stranger answers it.
func (m *mission) handleBeacon(s telemetry.Slot, received time.Time) {
	if m.plan.Listed {
		m.sendStranger(s)
	}
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

// sendStranger sends a report and a result of a user who is not on the list.
func (m *mission) sendStranger(s telemetry.Slot) {
	const user = "stranger"
	report, err := telemetry.Encode(telemetry.Report{Slot: s.Slot, PositionM: [2]float64{500, 500}, CPUHz: 1e9,
		Task: &telemetry.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1}})
	if err == nil {
		m.crew.publish(m.crew.Topics.Report(user), report)
	}
	result, err := telemetry.Encode(telemetry.Result{Slot: max(s.Slot-1, 0), CompletionS: strangerS, By: telemetry.ByOffer})
	if err == nil {
		m.crew.publish(m.crew.Topics.Result(user), result)
	}
}

// strangerS is the completion time of a stranger, which must not count.
const strangerS = 50

// writeLeaderConfig writes a leader's configuration, as changed by change, if any; each
// name has a state directory of its own.
func (m *mission) writeLeaderConfig(name string, links []string, change func(values map[string]any)) (string, error) {
	var aircraft []map[string]any
	for i, link := range links {
		p := m.starts[i]
		x := map[string]any{"system_id": i + 1, "endpoint": "udp-listen:" + link, "start_m": []float64{p.EastM, p.NorthM}}
		if len(m.workers) > 0 {
			x["worker"], x["grant_key"] = m.workers[i].address, m.workers[i].keyFile
		}
		aircraft = append(aircraft, x)
	}
	slotMS := 1000 / m.plan.Speed
	flight := map[string]any{"broker_hold_s": brokerHoldS, "broker_return_s": brokerReturnS}
	if s := m.plan.SpeedMaxMPS; s > 0 {
		flight["speed_max_mps"] = s
	}
	users := map[string]any{}
	if m.plan.Listed {
		users["allow"] = m.userIDs()
	}
	values := map[string]any{
		"fleet": fleetName, "mission": "m1", "state_dir": filepath.Join(m.folder, name), "checkpoint": m.Checkpoint,
		"record": m.decidedPath(name), "slots": m.plan.Slots, "slot_ms": slotMS, "report_by_ms": 0.4 * slotMS, "decide_by_ms": 0.6 * slotMS,
		"broker": map[string]any{"url": m.url}, "aircraft": aircraft, "flight": flight, "users": users,
		"surroundings": map[string]any{"wind": m.plan.Wind},
		"origin":       map[string]any{"latitude_deg": origin.LatDeg, "longitude_deg": origin.LonDeg, "amsl_m": origin.AltM},
	}
	if m.plan.Signed {
		values["leader_key"] = m.keyPath("leader")
		values["commands"] = map[string]any{"keys": map[string]string{crewKeyName: m.publicKey}}
	}
	if m.plan.losesCrewRadio() {
		flight["crew_hold_s"], flight["crew_return_s"] = crewHoldS, m.plan.crewReturnS()
	}
	if change != nil {
		change(values)
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
	m.recordDecided()
	p, err := m.startProgram(m.leaderConfigPath, fmt.Sprintf("leader-%d.log", m.leaderStarts), "leader")
	if err == nil {
		m.leader.Store(&leaderProcess{p})
	}
	return err
}

// startProgram starts a leader's program by a configuration, on a board by a name on the network.
func (m *mission) startProgram(config, log, board string) (leaderProgram, error) {
	path := filepath.Join(m.folder, log)
	if m.network == nil {
		return process.Start([]string{m.Leader, "-config", config}, path)
	}
	b := m.board
	if board != b.Name {
		b = &onboard.Board{Network: m.network, Name: board}
	}
	return onboard.Start(config, b, path)
}

// newBroker is a broker at an address, to be initialized.
func (m *mission) newBroker(address string) *broker.Broker {
	b := &broker.Broker{Address: address, OnMessage: m.recordMessage}
	if m.network != nil {
		b.Listen = m.network.Program("broker").Listen
	}
	return b
}

// brokerOf is how a program reaches the broker.
func (m *mission) brokerOf(name string) telemetry.Broker {
	b := telemetry.Broker{URL: m.url}
	if m.network != nil {
		b.Dial = m.network.Program(name).Dial
	}
	return b
}

// socketsOf opens a program's sockets.
func (m *mission) socketsOf(name string) datagram.Open {
	if m.network == nil {
		return nil
	}
	return m.network.Program(name).Socket
}

func (m *mission) freeAddress() (string, error) {
	if m.network != nil {
		return m.network.FreeAddress(), nil
	}
	return freeport.Address()
}

func (m *mission) keyPath(owner string) string { return filepath.Join(m.folder, owner+".key") }

// leaderEnded reports whether the leader has exited without being killed on purpose.
func (m *mission) leaderEnded() bool {
	l := m.leader.Load().leaderProgram
	return !m.leaderKilled.Load() && l != nil && l.Ended()
}

// close stops everything that setUp started, the last first.
func (m *mission) close() {
	for _, c := range slices.Backward(m.closers) {
		c()
	}
}
