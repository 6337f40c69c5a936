package chaos

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"prefdt/inference/physics"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/geo"
)

// An aircraft that moves holds its own lock and waits for the judge's. A fault that holds
// the judge's must not wait for the aircraft: both would wait for ever. In real
// time: who waits for a lock stops that of a bubble.
func TestFaultsWhileAircraftMove(t *testing.T) {
	kinds := []FaultKind{LinkLoss, HeartbeatGap, OutOfOrder, Reboot, PilotPosition, PilotHold, PilotDisarm, LowBattery, BatterySwap,
		SecondBattery, ArmingRefused}
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			const rounds = 60
			m := &mission{Config: Config{Aircraft: 1}, plan: plan{Speed: 1000, Slots: 40}, crew: &crew{}}
			m.starts, m.stands = make([]physics.Position, 1), make([]physics.Position, 1)
			m.judge = newJudge(physics.DefaultConstants(), 1, m.plan.Speed)
			a := &autopilot.Autopilot{Config: autopilot.Config{
				SystemID: 1, Listen: "127.0.0.1:0", Speed: m.plan.Speed, CapacityJ: 1e5, Log: slog.New(slog.DiscardHandler),
				PowerW:   func(int, geo.Local) float64 { return 100 },
				OnMotion: func(_ int, s autopilot.State) { m.judge.handleMotion(0, s) },
			}}
			if err := a.Initialize(); err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			m.autopilots = []*autopilot.Autopilot{a}
			go func() {
				for t.Context().Err() == nil {
					m.judge.with(0, func(*observedAircraft) { time.Sleep(2 * time.Millisecond) }) // both come to wait for it
				}
			}()
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // no fault lasts
			for range rounds {
				time.Sleep(time.Millisecond) // the aircraft moves on
				if _, err := m.injectFault(ctx, fault{coverageCell: coverageCell{kind, Flying}, DurationSlots: 1}); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
