package leader

import (
	"io"
	"log/slog"
	"math"
	"sync"
	"testing"
	"time"

	"prefdt/firmware/clock"
	"prefdt/firmware/config"
	"prefdt/firmware/crew"
	"prefdt/firmware/energy"
	"prefdt/firmware/fleet"
	"prefdt/firmware/ledger"
	"prefdt/firmware/link"
	"prefdt/firmware/mission"
	"prefdt/inference/checkpoint"
	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/telemetry"
)

// frozenClock is a clock that is stopped.
type frozenClock struct{ clock.Clock }

func (frozenClock) Now() time.Duration                   { return time.Second }
func (frozenClock) After(time.Duration) <-chan time.Time { return nil }

// inPhase is a leader without links, and two aircraft in flight as far as views say.
type inPhase struct {
	*Leader
	views []fleet.View
}

// newInPhase is one in a state of its mission: what it does in a slot, without waiting for
// anything.
func newInPhase(t testing.TB, phase string, s Scheduler, p physics.Constants, scales *goal.Constants) *inPhase {
	t.Helper()
	c := config.Defaults()
	for i := range 2 {
		c.Aircraft = append(c.Aircraft, config.Aircraft{SystemID: i + 1, Endpoint: "udp:127.0.0.1:14540"})
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	l := &inPhase{Leader: &Leader{
		Config: c, Clock: frozenClock{}, Log: log, Policy: Policy{Scheduler: s, Physics: p, Scales: scales,
			UserPrior: dispatch.UserPrior{ActiveUsers: 4, CPUHz: 1e9,
				TaskMean: physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.9}}},
	}}
	l.configure()
	l.mission.Restore(mission.State{Mission: c.Mission, Phase: phase})
	for i := range 2 {
		l.views = append(l.views, fleet.View{
			Number: i + 1, SystemID: i + 1, Received: true, Located: true, Fresh: true, Flying: true, InAir: true, Phase: fleet.PhaseFlying,
			TransitMPS: p.Propulsion.BestSpeedMPS(p.SpeedMaxMPS), CapacityJ: p.BatteryCapacityJ, CapacityKnown: true,
			Position: physics.Position{EastM: 300 * float64(i+1), NorthM: 500}, UpM: 100, Charge: math.NaN(), Source: energy.Current,
		})
	}
	l.account.Begin(c.Slots, l.views)
	var err error
	if l.fleet, err = NewFleet(&c, p, l.Clock, log); err != nil {
		t.Fatal(err)
	}
	l.mqtt = &link.MQTT{Fleet: "f1", Clock: l.Clock, Log: log}
	if l.mqtt.Topics, err = telemetry.NewTopics("f1"); err != nil {
		t.Fatal(err)
	}
	l.mqtt.Rejects.Log = log
	l.crew = crew.Handler{Clock: l.Clock, Log: log, Publish: func(telemetry.Ack) {}}
	return l
}

// openLedger gives it a ledger in a directory.
func (l *Leader) openLedger(t testing.TB, dir string) {
	t.Helper()
	var err error
	if l.ledgerWriter.ledger, err = ledger.Open(dir); err != nil {
		t.Fatal(err)
	}
	l.crew.Ledger = l.ledgerWriter.ledger
	l.crew.Initialize(nil)
}

var shipped = sync.OnceValues(func() (*checkpoint.Checkpoint, error) { return checkpoint.Load("../../configs/checkpoint") })

// loadCheckpoint is the shipped checkpoint, which nobody changes.
func loadCheckpoint(t testing.TB) *checkpoint.Checkpoint {
	t.Helper()
	c, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	return c
}
