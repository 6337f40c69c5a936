// Package users simulates the ground users of a flight as MQTT clients.
//
// Inputs: the leader's beacons and decisions, the world, and the aircraft's true
// positions. Outputs: reports and results to the leader, edge joules added to
// the aircraft's energy, and the true outcome of every task for the report of
// the flight. simbridge/fly and simbridge/chaos run it.
//
// On a beacon each user takes from the world whether it is active in that slot,
// where it is, its task, and its gains to the aircraft where they truly are. It
// reports that, unless the report is lost; follows a decision that arrives in
// time, and else takes the beacon's standing offer; and publishes as its result
// the time that the true gain gave. A task of a slot without a beacon is computed
// locally. Active users, tasks and lost reports are
// functions of the seed, or of the world's trace.
package users

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/simbridge/world"
	"prefdt/telemetry"
)

// Config configures the users of a fleet.
type Config struct {
	World             world.Config
	Seed              uint64
	ReportLoss        float64 // fraction of the reports that is lost
	Retained          bool    // the broker is asked to retain reports, as by a client of another's making
	Fleet             string
	Broker            telemetry.Broker
	External          bool          // the users are processes of their own
	SharedConnection  bool          // one connection for all, instead of one each
	Function          string        // that their tasks name; empty: none
	ReconnectInterval time.Duration // between attempts to connect again; 0: the client's

	// Position is where aircraft m, from 0, truly is.
	Position func(m int) physics.Position
	// AddEdgeJ adds joules of computing in a slot to the energy of aircraft m.
	AddEdgeJ func(m, slot int, joules float64)
	Log      *slog.Logger
}

// ReportCounts counts what users had to report.
type ReportCounts struct {
	Expected int `json:"expected"` // by active users
	Tasks    int `json:"tasks"`    // with a beacon or without one
	Lost     int `json:"lost"`     // dropped, as configured
}

// Simulator is all users of a fleet.
type Simulator struct {
	Config

	topics  telemetry.Topics
	users   []*user
	clients []*telemetry.Client
	truth   *world.Scenario
	rejects telemetry.RejectCounter

	mutex        sync.Mutex
	current      map[int]physics.Task // of the active users of currentSlot
	arrivals     []world.Arrival      // working memory
	currentSlot  int                  // -1 before the first
	reportCounts map[int]ReportCounts // by slot
	outcomes     []Outcome
	sharesHz     map[int]map[int]float64 // of the CPU that users took, by slot and aircraft from 0

	ignoredDecisions atomic.Int64
	closed           atomic.Bool
}

// Initialize connects all users.
func (s *Simulator) Initialize(ctx context.Context) error {
	if !(s.ReportLoss >= 0 && s.ReportLoss <= 1) {
		return fmt.Errorf("fraction of reports lost is %v, want 0 to 1", s.ReportLoss)
	}
	var err error
	if s.topics, err = telemetry.NewTopics(s.Fleet); err != nil {
		return err
	}
	s.rejects.Log = s.Log
	s.currentSlot, s.reportCounts, s.sharesHz = -1, map[int]ReportCounts{}, map[int]map[int]float64{}
	s.truth = world.NewScenario(&s.World, s.Seed)
	for i := range s.World.UserCount() {
		s.users = append(s.users, &user{simulator: s, index: i, id: fmt.Sprintf("u%02d", i+1), position: s.truth.UserPosition(0, i),
			lastSlot: -1, opened: map[int]bool{}})
	}
	if s.External {
		return nil
	}
	if s.SharedConnection {
		return s.connect(ctx, s.users, s.topics.AllDecisions())
	}
	for i, u := range s.users {
		if err := s.connect(ctx, s.users[i:i+1], s.topics.Decision(u.id)); err != nil {
			s.Close()
			return err
		}
	}
	return nil
}

func (s *Simulator) connect(ctx context.Context, served []*user, decisions string) error {
	client := &telemetry.Client{
		Broker: s.Broker.For(served[0].id), Name: "user", Log: s.Log, Retry: s.ReconnectInterval,
		Subscriptions: []telemetry.Subscription{{Filter: s.topics.Slot()}, {Filter: decisions, QoS: 1}},
		Handle:        func(m telemetry.Message) { s.handle(served, m) },
	}
	for _, u := range served {
		u.client = client
	}
	if err := client.Initialize(ctx); err != nil {
		return fmt.Errorf("connect users: %w", err)
	}
	s.clients = append(s.clients, client)
	return nil
}

func (s *Simulator) handle(served []*user, m telemetry.Message) {
	kind, id, ok := s.topics.Parse(m.Topic)
	if !ok || m.Retained {
		return
	}
	switch kind {
	case telemetry.KindSlot:
		beacon, err := telemetry.DecodeSlot(m.Payload)
		if err != nil {
			s.rejects.Add(m.Topic, err)
			return
		}
		for _, u := range served {
			u.handleBeacon(beacon, m.Received)
		}
	case telemetry.KindDecision:
		d, err := telemetry.DecodeDecision(m.Payload)
		if err != nil {
			s.rejects.Add(m.Topic, err)
			return
		}
		for _, u := range served {
			if u.id == id {
				u.handleDecision(d, m.Received)
			}
		}
	}
}

// Close disconnects all users; results that are due later are not sent.
func (s *Simulator) Close() {
	for _, u := range s.users {
		u.mutex.Lock()
		if u.pending != nil {
			u.pending.timer.Stop()
			u.pending = nil
		}
		u.mutex.Unlock()
	}
	s.closed.Store(true)
	for _, client := range s.clients {
		client.Close()
	}
}

// SetReportLoss changes the fraction of the reports that is lost.
func (s *Simulator) SetReportLoss(fraction float64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.ReportLoss = fraction
}

// Positions returns the users' positions, in order.
func (s *Simulator) Positions() []physics.Position {
	out := make([]physics.Position, len(s.users))
	for i, u := range s.users {
		u.mutex.Lock()
		out[i] = u.position
		u.mutex.Unlock()
	}
	return out
}

// ReportCounts returns how many reports were due in a slot.
func (s *Simulator) ReportCounts(slot int) ReportCounts {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.reportCounts[slot]
}

// ComputeUnopened computes the tasks that users have in the slots 0 to slots-1 without
// having received a beacon: locally, as the contract wants it where no decision was
// possible. Without them a mission would have less delay for every slot that its
// leader misses. It is called after the last slot.
func (s *Simulator) ComputeUnopened(slots int) {
	for _, u := range s.users {
		u.computeUnopened(slots)
	}
}

// Outcomes returns how every task so far ended, in that order.
func (s *Simulator) Outcomes() []Outcome {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.outcomes)
}

// task returns whether a user is active in a slot, and its task, which has no bits if it is idle.
func (s *Simulator) task(slot, user int) (task physics.Task, active bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.currentSlot != slot {
		s.arrivals, s.current, s.currentSlot = s.truth.Active(slot, s.arrivals[:0]), map[int]physics.Task{}, slot
		for _, a := range s.arrivals {
			s.current[a.User] = a.Task
		}
	}
	task, active = s.current[user]
	return task, active
}

// countReport counts a report that is due in a slot, and decides whether it is lost.
func (s *Simulator) countReport(slot, user int, task bool) (lost bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	lost = world.ReportIsLost(s.Seed, slot, user, s.ReportLoss)
	r := s.reportCounts[slot]
	r.Expected++
	if task {
		r.Tasks++
	}
	if lost {
		r.Lost++
	}
	s.reportCounts[slot] = r
	return lost
}

func (s *Simulator) countTask(slot int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	r := s.reportCounts[slot]
	r.Tasks++
	s.reportCounts[slot] = r
}

// takeShare counts what a user takes of an aircraft's CPU in a slot.
func (s *Simulator) takeShare(n int, c slot.UserDecision) {
	if c.Server == 0 {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.sharesHz[n] == nil {
		delete(s.sharesHz, n-2)
		s.sharesHz[n] = map[int]float64{}
	}
	s.sharesHz[n][c.Server-1] += c.CPUHz
}

// overcommitted is how many times its CPU the users of aircraft m, from 0, took in a slot, 1 at least.
func (s *Simulator) overcommitted(slot, m int) float64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return max(1, s.sharesHz[slot][m]/s.World.Physics.EdgeCPUHz)
}

func (s *Simulator) recordOutcome(o Outcome) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.outcomes = append(s.outcomes, o)
}
