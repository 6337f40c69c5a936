package main

import (
	"fmt"
	"math"
	"sync"
	"time"

	"prefdt/firmware/metrics"
	"prefdt/firmware/notify"
	"prefdt/telemetry"
)

// monitor shows the outside how the loop is: systemd's watchdog, metrics and
// health. The loop feeds it once a slot, and nothing else does. A nil monitor
// shows nothing.
type monitor struct {
	leader   *Leader
	notifier *notify.Notifier
	server   *metrics.Server

	mutex    sync.Mutex // the rest: the loop writes, a connection reads
	ready    bool
	fedAt    time.Duration // on the leader's clock
	last     sample
	heard    uint64
	decision metrics.Histogram
	lastSlot int
}

// sample is what the loop left behind.
type sample struct {
	state                                  string
	slot, missed, heard                    int
	setting, spentJ, budgetJ, floorJ, endJ float64
	transitJ, priceSPerJ, ledgerMS         float64
	saturated                              bool
	craft                                  []craftSample
}

type craftSample struct {
	number       string
	ageS, charge float64
	spentJ       float64
	flying       bool
	source       string
}

// newMonitor returns what the environment and the configuration ask for.
func newMonitor(l *Leader, getenv func(string) string) (*monitor, error) {
	n, err := notify.Open(getenv)
	if err != nil {
		return nil, err
	}
	m := &monitor{leader: l, notifier: n, lastSlot: -1}
	m.decision.Bounds = []float64{0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256}
	m.last.state = telemetry.StateIdle
	if least := 3 * l.slotWall(); n.Watchdog() > 0 && n.Watchdog() < least {
		return nil, fmt.Errorf("WatchdogSec is %v, want at least three slots, %v", n.Watchdog(), least)
	}
	if port := l.Config.MetricsPort; port != 0 {
		m.server = &metrics.Server{Port: port, Page: m.page, Alive: m.alive}
		if err := m.server.Initialize(); err != nil {
			return nil, err
		}
	}
	n.Starting("looking for the broker and another leader")
	return m, nil
}

func (m *monitor) close() {
	m.notifier.Stopping()
	if m.server != nil {
		m.server.Close()
	}
}

// feed is called by the loop at its start and after every turn.
func (m *monitor) feed() {
	if m == nil {
		return
	}
	l := m.leader
	s := sample{
		state: l.state, slot: l.open, missed: l.missed, heard: l.lastRow.Heard,
		setting: l.goal.Setting(), spentJ: l.goal.SpentJ(), budgetJ: math.NaN(), floorJ: l.goal.FloorJ(), endJ: math.NaN(),
		priceSPerJ: l.price, ledgerMS: l.ledgerMS, saturated: l.goal.Saturated(),
	}
	if l.goal.Budgeted() {
		s.budgetJ = l.goal.BudgetJ()
	}
	if l.goal.Slot() > 0 {
		s.endJ = l.goal.PredictedEndJ()
	}
	for i := range l.views {
		v := &l.views[i]
		c := craftSample{number: fmt.Sprint(v.Number), ageS: math.NaN(), charge: v.Charge, spentJ: l.craft[i].spentJ, flying: v.Flying, source: string(v.Source)}
		if v.Heard {
			c.ageS = math.Max(v.AgeS, 0)
		}
		s.transitJ += l.craft[i].transitJ
		s.craft = append(s.craft, c)
	}
	status := fmt.Sprintf("%s, slot %d of %d, %.0f J spent", s.state, s.slot, l.Config.Slots, s.spentJ)
	m.mutex.Lock()
	m.last, m.fedAt = s, l.Clock.Now()
	if row := l.lastRow; row.DecisionMS > 0 && row.Slot != m.lastSlot {
		m.lastSlot = row.Slot
		m.heard += uint64(row.Heard)
		m.decision.Observe(row.DecisionMS)
	}
	ready := m.ready
	m.ready = true
	m.mutex.Unlock()
	if !ready {
		m.notifier.Ready(status)
	}
	m.notifier.Alive(status)
}

// alive is whether the loop made a turn lately: within three slots, or a
// second if those are shorter.
func (m *monitor) alive() (bool, string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if !m.ready {
		return false, "starting"
	}
	age := m.leader.Clock.Now() - m.fedAt
	return age <= max(3*m.leader.slotWall(), time.Second), fmt.Sprintf("%s, slot %d, loop turned %.1f s ago", m.last.state, m.last.slot, age.Seconds())
}

// page is what /metrics shows.
func (m *monitor) page(p *metrics.Page) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	l, s := m.leader, &m.last
	p.Gauge("prefdt_up", "1 once the leader's loop runs.", boolean(m.ready), "fleet", l.Config.Fleet, "mission", l.Config.Mission)
	if !m.ready {
		return
	}
	for _, state := range []string{
		telemetry.StateIdle, telemetry.StateClimbing, telemetry.StateFlying, telemetry.StateHolding,
		telemetry.StateReturning, telemetry.StateDone, telemetry.StateStopped,
	} {
		p.Gauge("prefdt_state", "The mission's state: 1 for the one it is in.", boolean(s.state == state), "state", state)
	}
	p.Gauge("prefdt_slot", "The slot open or to be opened next.", float64(s.slot))
	p.Gauge("prefdt_slots", "Slots of the mission, T.", float64(l.Config.Slots))
	p.Gauge("prefdt_missed_slots", "Slots of the mission that were skipped.", float64(s.missed))
	p.Gauge("prefdt_setting", "The preference, or what the budget amounts to: 0 least delay, 1 least energy.", s.setting)
	p.Gauge("prefdt_spent_joules", "Spent in slots.", s.spentJ)
	p.Gauge("prefdt_budget_joules", "The budget; NaN: none.", s.budgetJ)
	p.Gauge("prefdt_floor_joules", "The least the mission can end on.", s.floorJ)
	p.Gauge("prefdt_predicted_end_joules", "What it is expected to end on.", s.endJ)
	p.Gauge("prefdt_transit_joules", "Spent outside the slots.", s.transitJ)
	p.Gauge("prefdt_saturated", "1 if the floor is above the budget.", boolean(s.saturated))
	p.Gauge("prefdt_price_seconds_per_joule", "Of the last decision.", s.priceSPerJ)
	p.Gauge("prefdt_users_heard", "Reports in time in the last slot.", float64(s.heard))
	p.Counter("prefdt_reports_heard_total", "Reports in time, since the leader's start.", float64(m.heard))
	p.Histogram("prefdt_decision_ms", "Time of one decision in ms.", m.decision.Clone())
	p.Gauge("prefdt_ledger_ms", "Time of the last durable transaction in ms.", s.ledgerMS)
	p.Gauge("prefdt_broker_connected", "1 while the broker is there.", boolean(l.broker.connected()))
	p.Counters("prefdt_mqtt_rejects_total", "Messages refused, by kind.", "kind", l.broker.rejects.Counts())
	p.Counters("prefdt_mavlink_rejects_total", "Frames refused, by reason.", "reason", l.fleet.Rejects())
	for _, c := range s.craft {
		p.Gauge("prefdt_aircraft_age_seconds", "Mission seconds since it was last heard; NaN: never.", c.ageS, "aircraft", c.number)
	}
	for _, c := range s.craft {
		p.Gauge("prefdt_aircraft_flying", "1 while it flies for us.", boolean(c.flying), "aircraft", c.number)
	}
	for _, c := range s.craft {
		p.Gauge("prefdt_aircraft_battery", "Charge left, 0 to 1; NaN: unknown.", c.charge, "aircraft", c.number)
	}
	for _, c := range s.craft {
		p.Gauge("prefdt_aircraft_spent_joules", "Spent in slots, with its source.", c.spentJ, "aircraft", c.number, "source", c.source)
	}
	f := l.fleet.Counts()
	p.Counter("prefdt_setpoints_total", "Setpoints sent.", float64(f.Setpoints))
	p.Counter("prefdt_envelope_interventions_total", "Setpoints the envelope changed, or turned into a hold.", float64(f.Corrected), "kind", "corrected")
	p.Counter("prefdt_envelope_interventions_total", "", float64(f.Held), "kind", "held")
	p.Counter("prefdt_setpoints_expired_total", "Times a setpoint outlived its two slots.", float64(f.Stalled))
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
