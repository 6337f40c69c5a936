// Package monitor publishes the state of the leader's loop.
//
// Inputs: a LoopReport after every iteration of the loop. Outputs: systemd's watchdog
// notification (package notify), Prometheus metrics and /healthz (package metrics).
// Called by package main, which passes OnIteration to the leader. Nothing else feeds
// the watchdog, so a loop that stalls is restarted.
package monitor

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"

	"prefdt/firmware/clock"
	"prefdt/firmware/config"
	"prefdt/firmware/leader"
	"prefdt/firmware/metrics"
	"prefdt/firmware/notify"
	"prefdt/telemetry"
)

// Monitor is the monitor of one leader.
type Monitor struct {
	config   *config.Config
	clock    clock.Clock // the leader's
	notifier *notify.Notifier
	server   *metrics.Server

	announced bool // READY=1 was sent

	mutex      sync.Mutex // the rest: the loop writes, a connection reads
	ready      bool
	last       leader.LoopReport
	reported   uint64
	undecided  uint64
	decisionMS metrics.Histogram
	lastSlot   int
}

// New opens what the environment and the configuration ask for. A port that cannot be had costs its page, and no flight.
func New(c *config.Config, now clock.Clock, getenv func(string) string, log *slog.Logger) (*Monitor, error) {
	n, err := notify.Open(getenv)
	if err != nil {
		return nil, err
	}
	m := &Monitor{config: c, clock: now, notifier: n, lastSlot: -1, last: leader.LoopReport{State: telemetry.StateIdle, Mission: c.Mission}}
	m.decisionMS.Bounds = []float64{0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256}
	if least := 3 * c.WallTime(1); n.Watchdog() > 0 && n.Watchdog() < least {
		return nil, fmt.Errorf("WatchdogSec is %v, want at least three slots, %v", n.Watchdog(), least)
	}
	if c.MetricsPort != 0 {
		m.server = &metrics.Server{Port: c.MetricsPort, Page: m.writePage, Alive: m.alive}
		if err := m.server.Initialize(); err != nil {
			log.Error("no metrics: set another metrics_port", "reason", err)
			m.server = nil
		}
	}
	n.Starting("looking for the broker and another leader")
	return m, nil
}

// Close reports that the leader stops, and ends the server.
func (m *Monitor) Close() {
	m.notifier.Stopping()
	if m.server != nil {
		m.server.Close()
	}
}

// OnIteration handles the loop's report after an iteration.
func (m *Monitor) OnIteration(r leader.LoopReport) {
	status := fmt.Sprintf("%s, slot %d of %d, %.0f J spent", r.State, r.Slot, m.config.Slots, r.Objective.SpentJ())
	m.mutex.Lock()
	m.last = r
	if row := r.LastRow; row.DecisionMS > 0 && row.Slot != m.lastSlot {
		m.lastSlot = row.Slot
		m.reported += uint64(row.Reported)
		m.undecided += uint64(row.Undecided)
		m.decisionMS.Observe(row.DecisionMS)
	}
	m.ready = true
	m.mutex.Unlock()
	m.announced = m.announced || m.notifier.Ready(status)
	m.notifier.Alive(status)
}

// alive is whether the loop's last iteration is recent: within three slots, or a second
// if those are shorter.
func (m *Monitor) alive() (bool, string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if !m.ready {
		return false, "starting"
	}
	age := m.clock.Now() - m.last.At
	return age <= max(3*m.config.WallTime(1), time.Second), fmt.Sprintf("%s, slot %d, last iteration %.1f s ago", m.last.State, m.last.Slot,
		age.Seconds())
}

func (m *Monitor) writePage(p *metrics.Page) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	c, s := m.config, &m.last
	p.Gauge("prefdt_up", "1 once the leader's loop runs.", boolean(m.ready), "fleet", c.Fleet, "mission", s.Mission)
	if !m.ready {
		return
	}
	for _, state := range []string{
		telemetry.StateIdle, telemetry.StateClimbing, telemetry.StateFlying, telemetry.StateHolding,
		telemetry.StateReturning, telemetry.StateDone, telemetry.StateStopped,
	} {
		p.Gauge("prefdt_state", "The mission's state: 1 for the one it is in.", boolean(s.State == state), "state", state)
	}
	o, budgetJ, endJ := s.Objective, math.NaN(), math.NaN()
	if o.Budgeted() {
		budgetJ = o.BudgetJ()
	}
	if o.Slot() > 0 {
		endJ = o.PredictedEndJ()
	}
	p.Gauge("prefdt_slot", "The slot open or to be opened next.", float64(s.Slot))
	p.Gauge("prefdt_slots", "Slots of the mission, T.", float64(c.Slots))
	p.Gauge("prefdt_missed_slots", "Slots of the mission that were skipped.", float64(s.MissedSlots))
	p.Gauge("prefdt_setting", "The preference, or what the budget amounts to: 0 least delay, 1 least energy.", o.Setting())
	p.Gauge("prefdt_spent_joules", "Spent in slots.", o.SpentJ())
	p.Gauge("prefdt_budget_joules", "The budget; NaN: none.", budgetJ)
	p.Gauge("prefdt_floor_joules", "The least the mission can end on.", o.FloorJ())
	p.Gauge("prefdt_predicted_end_joules", "What it is expected to end on.", endJ)
	p.Gauge("prefdt_transit_joules", "Spent outside the slots.", s.TransitJ)
	p.Gauge("prefdt_saturated", "1 if the floor is above the budget.", boolean(o.Saturated()))
	p.Gauge("prefdt_price_seconds_per_joule", "Of the last decision.", s.PriceSPerJ)
	p.Gauge("prefdt_users_heard", "Reports in time in the last slot.", float64(s.LastRow.Reported))
	p.Counter("prefdt_reports_heard_total", "Reports in time, since the leader's start.", float64(m.reported))
	p.Counter("prefdt_undecided_total", "Users left to the offer for want of time, since the leader's start.", float64(m.undecided))
	p.Histogram("prefdt_decision_ms", "Time of one decision in ms.", &m.decisionMS)
	p.Gauge("prefdt_ledger_ms", "Time of the last durable transaction in ms.", s.LedgerMS)
	p.Gauge("prefdt_broker_connected", "1 while the broker is connected.", boolean(s.Connected))
	p.Counters("prefdt_mqtt_rejects_total", "Messages refused, by kind.", "kind", s.RejectedMessages)
	p.Counters("prefdt_mqtt_dropped_total", "Messages dropped for a full queue or a lost connection, by queue.", "queue", s.DroppedMessages)
	p.Counters("prefdt_mavlink_rejects_total", "Frames refused, by reason.", "reason", s.RejectedFrames)
	for _, a := range s.Aircraft {
		ageS := math.NaN()
		if a.Received {
			ageS = max(a.AgeS, 0)
		}
		p.Gauge("prefdt_aircraft_age_seconds", "Mission seconds since it was last received; NaN: never.", ageS, "aircraft",
			strconv.Itoa(a.Number))
	}
	for _, a := range s.Aircraft {
		p.Gauge("prefdt_aircraft_flying", "1 while it flies by the leader's setpoints.", boolean(a.Flying), "aircraft",
			strconv.Itoa(a.Number))
	}
	for _, a := range s.Aircraft {
		p.Gauge("prefdt_aircraft_battery", "Charge left, 0 to 1; NaN: unknown.", a.Charge, "aircraft", strconv.Itoa(a.Number))
	}
	for _, a := range s.Aircraft {
		p.Gauge("prefdt_aircraft_spent_joules", "Spent in slots, with its source.", a.SpentJ, "aircraft", strconv.Itoa(a.Number), "source",
			string(a.Source))
	}
	f := s.FleetCounts
	p.Counter("prefdt_setpoints_total", "Setpoints sent.", float64(f.Setpoints))
	p.Counter("prefdt_envelope_interventions_total", "Setpoints the envelope changed, or turned into a hold.", float64(f.Corrected), "kind",
		"corrected")
	p.Counter("prefdt_envelope_interventions_total", "", float64(f.Held), "kind", "held")
	p.Counter("prefdt_setpoints_expired_total", "Times a setpoint outlived its two slots.", float64(f.ExpiredSetpoints))
	p.Counter("prefdt_flight_alarms_total", "Times an aircraft was measured outside a limit.", float64(f.Alarms))
	p.Gauge("prefdt_separation_min_metres", "The least distance measured in the air.", f.MinSeparationM)
	p.Gauge("prefdt_speed_max_metres_per_second", "The greatest speed measured.", f.MaxSpeedMPS)
}

func boolean(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
