package duty

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/dispatch"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// prior is that of the standard world: 4 to 8 active users, nine in ten with a task.
var prior = dispatch.UserPrior{
	ActiveUsers: 5.4, CPUHz: 1e9, TaskMean: physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1},
	TaskStdDev: physics.Task{Bits: 2.9e5, DeadlineS: 0.29},
}

const maxPriceSPerJ = 1

// fleet is the state of a mission at its first slot.
func fleet(c *physics.Constants, aircraft, slots int) *Input {
	_, flightW := c.MinPower()
	in := &Input{Slots: slots, FleetJ: math.Inf(1), FlightW: flightW}
	for m := range aircraft {
		home := physics.Position{EastM: c.AreaSideM * float64(m+1) / float64(aircraft+1), NorthM: c.AreaSideM / 2}
		in.Aircraft = append(in.Aircraft, Aircraft{Number: m + 1, Position: home, Home: home, CPUHz: c.EdgeCPUHz, LeftJ: math.Inf(1)})
	}
	return in
}

// drawUsers draws a slot's users.
func drawUsers(c *physics.Constants, r *rand.Rand, n int) (users []slot.User) {
	for range n {
		users = append(users, prior.Sample(c.AreaSideM, r))
	}
	return users
}

// TestWhoStays plans the first slot of missions of two aircraft and 100 slots.
func TestWhoStays(t *testing.T) {
	c := physics.DefaultConstants()
	for _, tt := range []struct {
		name                   string
		fleetJ, firstJ, otherJ float64
		soonest, latest        int // FliesUntil of the first aircraft to leave
		price                  bool
	}{
		{"rich", 45e3, math.Inf(1), math.Inf(1), 100, 100, false},
		{"both some of the time", 27.5e3, math.Inf(1), math.Inf(1), 30, 80, true},
		{"one alone, but for the start", 17e3, math.Inf(1), math.Inf(1), 0, 12, true},
		{"a weak pack", math.Inf(1), 9e3, 21e3, 35, 65, true},
		{"packs unbounded", math.Inf(1), math.Inf(1), math.Inf(1), 100, 100, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := fleet(&c, 2, 100)
			in.FleetJ, in.Aircraft[0].LeftJ, in.Aircraft[1].LeftJ = tt.fleetJ, tt.firstJ, tt.otherJ
			plan := New(&c, prior, maxPriceSPerJ).Plan(in)
			first, last := min(plan.Aircraft[0].FliesUntil, plan.Aircraft[1].FliesUntil), max(plan.Aircraft[0].FliesUntil, plan.Aircraft[1].FliesUntil)
			if first < tt.soonest || first > tt.latest || last != 100 {
				t.Errorf("they fly until slots %d and %d, want %d to %d and 100", first, last, tt.soonest, tt.latest)
			}
			if (plan.ValueSPerJ > 0) != tt.price {
				t.Errorf("value of a joule is %v, want one: %v", plan.ValueSPerJ, tt.price)
			}
			for _, o := range plan.Aircraft {
				t.Logf("%+v", o)
			}
			t.Logf("delay %.1f s, floor %.0f J, covered until %d", plan.DelayS, plan.FloorJ, plan.CoveredUntil)
		})
	}
}
