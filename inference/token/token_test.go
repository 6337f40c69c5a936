package token

import (
	"math"
	"testing"

	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// The edge scale is that of the latest slots: after 1,000 with twice the tasks it has
// doubled, however many there were before.
func TestEdgeScaleForgets(t *testing.T) {
	c := physics.DefaultConstants()
	b := NewBuilder(&c, &goal.Constants{}, new(IdentityStatistics()))
	s := slot.Snapshot{Aircraft: []slot.Aircraft{{Number: 1, CPUHz: 4e10}}}
	user := slot.User{CPUHz: 1e9, Task: physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1}, Gain: []float64{1e-9}}
	s.Users = []slot.User{user}
	observe := func(slots int) {
		for range slots {
			b.computeRates(&s)
			b.updateEdgeScale(&s)
		}
	}
	observe(10_000)
	before := b.carried.EdgeScaleJ
	s.Users = append(s.Users, user)
	observe(1000)
	if now := b.carried.EdgeScaleJ / before; math.Abs(now-2) > 0.05 {
		t.Errorf("the edge scale is %.2f times what it was, want 2", now)
	}
}
