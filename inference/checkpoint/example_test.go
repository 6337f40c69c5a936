package checkpoint_test

import (
	"fmt"
	"log"

	"prefdt/inference/checkpoint"
)

// The shipped checkpoint: a network ready to step, and what it was trained with.
func ExampleLoad() {
	c, err := checkpoint.Load("../../configs/checkpoint")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("format %d, trained on %d slots of %d aircraft at %g m\n",
		c.Format, c.GoalConstants.Slots, c.GoalConstants.AircraftCount, c.Physics.AltitudeM)
	fmt.Printf("width %d, %d layers, a context of %d slot\n", c.Arch.Width, c.Arch.Layers, c.Arch.Context)

	_, err = checkpoint.Load("no/such/folder")
	fmt.Println("a folder without one is refused:", err != nil)
	// Output:
	// format 1, trained on 100 slots of 2 aircraft at 100 m
	// width 128, 3 layers, a context of 1 slot
	// a folder without one is refused: true
}
