package leader

import (
	"reflect"
	"testing"

	"prefdt/inference/dispatch"
	"prefdt/inference/duty"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// The ledger has all of the plan that its planner needs after a restart.
func TestDutyStateIsThePlanners(t *testing.T) {
	c := physics.DefaultConstants()
	p := duty.New(&c, dispatch.UserPrior{}, 1)
	user := slot.User{Position: physics.Position{EastM: 400, NorthM: 600}, CPUHz: 1e9, Gain: []float64{-1, -1},
		Task: physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1}}
	p.Plan(&duty.Input{
		Slot: 3, Slots: 100, FleetJ: 25e3, LeastUp: 1, FlightW: 140, Users: []slot.User{user},
		Aircraft: []duty.Aircraft{{Number: 1, CPUHz: 4e10, LeftJ: 12e3}, {Number: 2, CPUHz: 4e10, LeftJ: 18e3}},
	})
	l := &Leader{duty: dutyPlan{planner: p, inForce: true}}
	if got, want := *l.duty.state(), p.State(); !reflect.DeepEqual(got, want) || want.Reports == 0 || len(want.Until) != 2 {
		t.Errorf("kept %+v\nwant %+v", got, want)
	}
}
