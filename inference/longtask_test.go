package inference

import (
	"math/rand/v2"
	"testing"

	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// A device whose tasks take it ten seconds is served among ordinary ones, though it weighs no
// more than a large one of those: a part of its task is computed for it, and it is sooner done.
func TestLongTasksAreServed(t *testing.T) {
	ck := shippedCheckpoint(t)
	for _, decoder := range Decoders() {
		r := rand.New(rand.NewPCG(12, 3))
		p, err := New(ck, decoder)
		if err != nil {
			t.Fatal(err)
		}
		o := goal.New(&ck.GoalConstants, &ck.Physics, 100, 2)
		o.SetOmega(0.01)
		var d slot.Decision
		const slots = 40
		served := 0
		for i := range slots {
			s := randomSnapshot(r, i, 2, 6)
			long := slot.User{ID: 9, Position: s.Aircraft[0].Position, CPUHz: 1e9,
				Task: physics.Task{Bits: 1e7, CyclesPerBit: 1000, DeadlineS: 1}}
			for m := range s.Aircraft {
				long.Gain = append(long.Gain, ck.Physics.Channel.MeanGain(long.Position.Sub(s.Aircraft[m].Position).Norm(), 100))
			}
			s.Users = append(s.Users, long)
			o.Observe(p.Decide(s, o, &d))
			if u := d.Users[6]; u.Server > 0 && u.Offload > 0.05 && u.CompletionS < 9.5 {
				served++
			}
			o.Settle(goal.Settlement{DelayS: d.DelayS, EnergyJ: 275 + d.TotalEdgeJ(), EdgeJ: d.TotalEdgeJ(), ModelFlightJ: 275, Flying: 2})
		}
		if t.Logf("%s: served in %d of %d slots, the last %+v", decoder, served, slots, d.Users[6]); served < slots*3/4 {
			t.Errorf("%s: it is served in %d of %d slots", decoder, served, slots)
		}
	}
}
