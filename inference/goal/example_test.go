package goal_test

import (
	"fmt"

	"prefdt/inference/goal"
	"prefdt/inference/physics"
)

// A mission is asked for a total of joules, a slot is settled, and the crew asks
// for less: what is left to spend is the new total less what is spent.
func ExampleObjective() {
	constants := &goal.Constants{ // a checkpoint's manifest has them
		EtaDelayS: 600, EtaEnergyJ: 12e3, Slots: 100, AircraftCount: 2,
		Conditioner: goal.Conditioner{Omegas: []float64{0, 0.5, 1}, DelayS: []float64{90, 200, 700}, EnergyJ: []float64{39e3, 29e3, 27e3}},
		SettingMap:  goal.SettingMap{Omegas: []float64{0, 0.1, 0.4, 1}},
	}
	world := physics.DefaultConstants()
	objective := goal.New(constants, &world, 100, 2)

	objective.SetBudget(45e3, goal.Target)
	objective.Settle(goal.Settlement{DelayS: 2.1, EnergyJ: 400, EdgeJ: 130, ModelFlightJ: 270, Flying: 2})
	fmt.Printf("%.0f J to go in %d slots, floor %.0f J\n", objective.EnergyToGoJ(), objective.SlotsLeft(), objective.FloorJ())

	objective.SetBudget(42e3, goal.Target)
	fmt.Printf("%.0f J to go\n", objective.EnergyToGoJ())

	objective.SetBudget(20e3, goal.Ceiling)
	fmt.Println("below the floor:", objective.Saturated())
	// Output:
	// 44600 J to go in 99 slots, floor 27012 J
	// 41600 J to go
	// below the floor: true
}
