package dispatch_test

import (
	"fmt"

	"prefdt/inference/dispatch"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// One user is beneath the aircraft, another 900 m away. At no price both parts of
// a task end together; at a higher one as little is offloaded as meets the
// deadline; then nothing.
func ExampleSolver() {
	c := physics.DefaultConstants()
	task := physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.8}
	snapshot := slot.Snapshot{
		Slots:    100,
		Aircraft: []slot.Aircraft{{Number: 1, Position: physics.Position{EastM: 100, NorthM: 100}, CPUHz: 40e9, RemainingJ: 150e3}},
	}
	for i, distanceM := range []float64{0, 900} {
		snapshot.Users = append(snapshot.Users, slot.User{
			ID: i, Position: physics.Position{EastM: 100 + distanceM, NorthM: 100}, Task: task, CPUHz: 1e9,
			Gain: []float64{c.Channel.FreeSpaceGain(distanceM, c.AltitudeM)},
		})
	}
	var solver dispatch.Solver
	var decision slot.Decision
	for _, priceSPerJ := range []float64{0, 0.03, 1} {
		solver.Solve(&c, &snapshot, priceSPerJ, &decision)
		fmt.Printf("%g s/J: delay %.2f s, computing %.1f J, offloaded", priceSPerJ, decision.DelayS, decision.EdgeJ[0])
		for _, u := range decision.Users {
			fmt.Printf(" %.2f", u.Offload)
		}
		fmt.Println()
	}
	// Output:
	// 0 s/J: delay 0.22 s, computing 71.1 J, offloaded 0.90 0.87
	// 0.03 s/J: delay 1.60 s, computing 16.0 J, offloaded 0.20 0.20
	// 1 s/J: delay 3.30 s, computing 0.0 J, offloaded 0.00 0.00
}
