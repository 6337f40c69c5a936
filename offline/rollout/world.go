package rollout

import (
	"fmt"

	"prefdt/inference/checkpoint"
	"prefdt/simbridge/world"
)

// WorldOf returns the world that a checkpoint was trained in, in which its
// conditioner's returns are attainable.
func WorldOf(m *checkpoint.Manifest) (world.Config, error) {
	c, err := world.FromRecord(m.World)
	if err != nil {
		return c, fmt.Errorf("checkpoint: %w", err)
	}
	c.Physics, c.Slots, c.Aircraft = m.Physics, m.GoalConstants.Slots, m.GoalConstants.AircraftCount
	return c, nil
}
