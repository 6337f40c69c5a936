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

// An aircraft that moves holds its own lock and waits for the watch's. A fault that holds
// the watch's must not wait for the aircraft: both would wait for ever. In real
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
			m.watch = newWatch(1)
			m.world.Physics = physics.DefaultConstants()
			a := &autopilot.Autopilot{Config: autopilot.Config{
				SystemID: 1, Listen: "127.0.0.1:0", Speed: m.plan.Speed, CapacityJ: 1e5, Log: slog.New(slog.DiscardHandler),
				PowerW:   func(int, geo.Local) float64 { return 100 },
				OnMotion: func(_ int, s autopilot.State) { m.watch.handleMotion(0, s, false) },
			}}
			if err := a.Initialize(); err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			m.autopilots = []*autopilot.Autopilot{a}
			go func() {
				for t.Context().Err() == nil {
					m.watch.mutex.Lock()
					time.Sleep(2 * time.Millisecond) // both come to wait for it
					m.watch.mutex.Unlock()
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
