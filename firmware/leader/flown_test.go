package leader_test

import (
	"math"
	"slices"
	"sync"
	"testing"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
)

// TestFlownInFlight: what a snapshot has of the flight, the joules and the timed results
// of the slot before is what autopilots and users did, over MAVLink and MQTT; after a
// restart the flight is unknown at first.
func TestFlownInFlight(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 1000)
		r.TimedResults = true
		move := physics.Position{EastM: 5, NorthM: 3}
		var mutex sync.Mutex
		var snapshots []slot.Snapshot
		r.OverrideDecision = func(s *slot.Snapshot, d *slot.Decision) {
			for m := range d.Move {
				d.Move[m] = move
			}
			mutex.Lock()
			defer mutex.Unlock()
			snapshots = append(snapshots, slot.Snapshot{Slot: s.Slot, Aircraft: slices.Clone(s.Aircraft), Results: slices.Clone(s.Results)})
		}
		taken := func() []slot.Snapshot {
			mutex.Lock()
			defer mutex.Unlock()
			x := snapshots
			snapshots = nil
			return x
		}
		f := r.FlyToSlot(30)
		r.SetUsers(4, 0)
		before := taken()
		var east, north, j []float64
		results, timed := 0, 0
		for _, s := range before {
			for i := range s.Aircraft {
				if x := &s.Aircraft[i].Flown; s.Slot >= 5 && x.FlightJ > 0 {
					east, north, j = append(east, x.EastMPS), append(north, x.NorthMPS), append(j, x.FlightJ)
				}
			}
			for i := range s.Results {
				x := &s.Results[i]
				results++
				if x.LocalCycles == 0 {
					continue // of a task that was offloaded whole
				}
				timed++
				if hz := x.LocalCycles / x.LocalS; math.Abs(hz-1e9/0.45) > 1 || x.Slot >= s.Slot ||
					(x.Aircraft > 0) != (x.Upload.S == 0.2) {
					t.Fatalf("slot %d: %+v", s.Slot, *x)
				}
			}
		}
		if before[0].Slot == 0 && before[0].Aircraft[0].Flown != (slot.Flown{}) {
			t.Errorf("the climb is the first slot's flight: %+v", before[0].Aircraft[0].Flown)
		}
		if len(east) < 20 || results < 20 || timed == 0 {
			t.Fatalf("%d flights and %d results are known in %d slots, %d timed", len(east), results, len(before), timed)
		}
		powerW := r.Physics.Propulsion.PowerW(move.Norm())
		for _, c := range []struct {
			what      string
			values    []float64
			want, off float64
		}{{"east", east, move.EastM, 0.3}, {"north", north, move.NorthM, 0.3}, {"joules", j, powerW, 0.1 * powerW}} {
			slices.Sort(c.values)
			if median := c.values[len(c.values)/2]; !(math.Abs(median-c.want) <= c.off) {
				t.Errorf("%s: %v, want %v within %v", c.what, median, c.want, c.off)
			}
			t.Logf("%s: want %.1f, a tenth below %.1f, a tenth above %.1f", c.what, c.want, c.values[len(c.values)/10],
				c.values[len(c.values)*9/10])
		}

		known := map[slot.Result]bool{} // to a decision before the restart, but for the slot in progress
		f.Restart(func() {
			all := append(before, taken()...)
			for _, s := range all[:len(all)-1] {
				for _, x := range s.Results {
					known[x] = true
				}
			}
		})
		r.Await("slots after the restart", rig.SlotSettled(before[len(before)-1].Slot+15))
		after := taken()
		for i := range after[0].Aircraft {
			if x := after[0].Aircraft[i].Flown; x != (slot.Flown{}) {
				t.Errorf("right after the restart aircraft %d flew %+v", i+1, x)
			}
		}
		// What had arrived for the decision in progress is kept, and nothing else is seen twice.
		for _, x := range after[0].Results {
			if known[x] || x.Slot >= after[0].Slot || !(x.LocalS > 0 || x.Upload.S > 0) {
				t.Errorf("slot %d, the first after the restart, has the result %+v, known %v", after[0].Slot, x, known[x])
			}
		}
	})
}
