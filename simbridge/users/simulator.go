// Package users simulates the ground users: MQTT clients that live off what the
// leader sends, and know the world's truth about themselves.
//
// In a slot each hears the beacon and draws from the world whether it is active
// and has a task, and its gains to the aircraft where they truly are. It
// reports that, unless the report is lost; obeys the decision that comes in
// time, or else takes the standing offer; pays with the time it really took,
// and bills the aircraft for the joules it really used. Which users are active,
// their tasks and which reports are lost are functions of the seed.
package users

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"prefdt/inference/physics"
	"prefdt/simbridge/world"
	"prefdt/telemetry"
)

// Config is a crowd of users.
type Config struct {
	World             world.Config
	Seed              uint64
	ReportLoss        float64 // fraction of the reports that is lost
	Fleet             string
	Broker            telemetry.Broker
	SharedConnection  bool          // one connection for all, instead of one each
	ReconnectInterval time.Duration // between attempts to connect again; 0: the client's

	// Position is where aircraft m, from 0, truly is.
	Position func(m int) physics.Position
	// AddEdgeJ bills aircraft m for computing in a slot.
	AddEdgeJ func(m, slot int, joules float64)
	Log      *slog.Logger
}

// ReportCounts counts what users had to report.
type ReportCounts struct {
	Expected int `json:"expected"` // by active users
	Tasks    int `json:"tasks"`    // of those, with a task
	Lost     int `json:"lost"`     // not sent, on purpose
}

// Simulator is all users of a fleet.
type Simulator struct {
	Config

	topics  telemetry.Topics
	users   []*user
	clients []*telemetry.Client
	rejects telemetry.RejectCounter

	mutex            sync.Mutex
	current          arrivals
	reportCounts     map[int]ReportCounts // by slot
	outcomes         []Outcome
	ignoredDecisions int
	timers           map[*time.Timer]bool // nil once closed
}

// Initialize connects everyone.
func (c *Simulator) Initialize(ctx context.Context) error {
	if !(c.ReportLoss >= 0 && c.ReportLoss <= 1) {
		return fmt.Errorf("fraction of reports lost is %v, want 0 to 1", c.ReportLoss)
	}
	var err error
	if c.topics, err = telemetry.NewTopics(c.Fleet); err != nil {
		return err
	}
	c.rejects.Log = c.Log
	c.current.slot, c.reportCounts, c.timers = -1, map[int]ReportCounts{}, map[*time.Timer]bool{}
	for i := range c.World.UserCount() {
		c.users = append(c.users, &user{simulator: c, index: i, id: fmt.Sprintf("u%02d", i+1), position: c.World.UserPosition(c.Seed, 0, i), lastSlot: -1})
	}
	if c.SharedConnection {
		return c.connect(ctx, c.users, c.topics.AllDecisions())
	}
	for i, u := range c.users {
		if err := c.connect(ctx, c.users[i:i+1], c.topics.Decision(u.id)); err != nil {
			c.Close()
			return err
		}
	}
	return nil
}

func (c *Simulator) connect(ctx context.Context, served []*user, decisions string) error {
	client := &telemetry.Client{
		Broker: c.Broker, Name: "user", Log: c.Log, Retry: c.ReconnectInterval,
		Subscriptions: []telemetry.Subscription{{Filter: c.topics.Slot()}, {Filter: decisions, QoS: 1}},
		Handle:        func(m telemetry.Message) { c.handle(served, m) },
	}
	for _, u := range served {
		// What cannot be sent is lost, as any report may be.
		u.publish = func(p telemetry.Publication) { client.Publish(p) }
	}
	if err := client.Initialize(ctx); err != nil {
		return fmt.Errorf("connect users: %w", err)
	}
	c.clients = append(c.clients, client)
	return nil
}

func (c *Simulator) handle(served []*user, m telemetry.Message) {
	kind, id, ok := c.topics.Parse(m.Topic)
	if !ok || m.Retained {
		return
	}
	switch kind {
	case telemetry.KindSlot:
		beacon, err := telemetry.DecodeSlot(m.Payload)
		if err != nil {
			c.rejects.Add(m.Topic, err)
			return
		}
		for _, u := range served {
			u.handleBeacon(beacon, m.Received)
		}
	case telemetry.KindDecision:
		d, err := telemetry.DecodeDecision(m.Payload)
		if err != nil {
			c.rejects.Add(m.Topic, err)
			return
		}
		for _, u := range served {
			if u.id == id {
				u.handleDecision(d, m.Received)
			}
		}
	}
}

// Close lets everyone go; results that are due later are not sent.
func (c *Simulator) Close() {
	for _, u := range c.users {
		u.mutex.Lock()
		if u.pending != nil {
			u.pending.timer.Stop()
			u.pending = nil
		}
		u.mutex.Unlock()
	}
	c.mutex.Lock()
	for t := range c.timers {
		t.Stop()
	}
	c.timers = nil
	c.mutex.Unlock()
	for _, client := range c.clients {
		client.Close()
	}
}

// SetReportLoss changes the fraction of the reports that is lost.
func (c *Simulator) SetReportLoss(fraction float64) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.ReportLoss = fraction
}

func (c *Simulator) reportLoss() float64 {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.ReportLoss
}

// Positions are the users' places, in order.
func (c *Simulator) Positions() []physics.Position {
	out := make([]physics.Position, len(c.users))
	for i, u := range c.users {
		u.mutex.Lock()
		out[i] = u.position
		u.mutex.Unlock()
	}
	return out
}

// ReportCounts returns what was due in a slot.
func (c *Simulator) ReportCounts(slot int) ReportCounts {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.reportCounts[slot]
}

// Outcomes returns how every task so far ended.
func (c *Simulator) Outcomes() []Outcome {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Clone(c.outcomes)
}

// arrival tells whether a user is active in a slot, and its task or nil.
func (c *Simulator) arrival(slot, user int) (active bool, task *physics.Task) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.current.slot != slot {
		c.current = arrivalsOf(&c.World, c.Seed, slot)
	}
	if t, ok := c.current.tasks[user]; ok {
		return true, &t
	}
	return slices.Contains(c.current.active, user), nil
}

func (c *Simulator) countReport(slot int, task, lost bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	r := c.reportCounts[slot]
	r.Expected++
	if task {
		r.Tasks++
	}
	if lost {
		r.Lost++
	}
	c.reportCounts[slot] = r
}

func (c *Simulator) countIgnored() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.ignoredDecisions++
}

func (c *Simulator) recordOutcome(o Outcome) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.outcomes = append(c.outcomes, o)
}

// afterDelay calls f after a while, unless the crowd is closed by then.
func (c *Simulator) afterDelay(d time.Duration, f func()) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.timers == nil {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(max(d, 0), func() {
		c.mutex.Lock()
		open := c.timers != nil
		delete(c.timers, t)
		c.mutex.Unlock()
		if open {
			f()
		}
	})
	c.timers[t] = true
}
