package users

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/simbridge/simnet"
	"prefdt/simbridge/world"
	"prefdt/telemetry"
)

// In the world with the most elements users report, slot by slot, what a rollout of
// that seed meets, and with the same decisions their results and the joules of
// computing are the rollout's.
func TestFieldIsReportedAsRolledOut(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c, err := world.Named("field")
		if err != nil {
			t.Fatal(err)
		}
		c.EdgeFactor = 1.2
		w := world.New(c, seed)
		var mutex sync.Mutex
		at := make([]physics.Position, c.Aircraft)
		b := newFixtureAt(t, c, 0, true, func(m int) physics.Position {
			mutex.Lock()
			defer mutex.Unlock()
			return at[m]
		})
		var s slot.Snapshot
		var d slot.Decision
		var action world.Action
		const slots = 12
		uploads, throttled, idle := 0, 0, 0
		for n := range slots {
			w.Snapshot(&s)
			var h world.Hidden
			w.Hidden(&h)
			// Every other user of an aircraft's, which share it equally.
			d.Resize(&s)
			for i := range s.Users {
				d.Users[i] = slot.UserDecision{Server: i % 3, Offload: 0.4}
			}
			counts := [3]int{}
			for i := range d.Users {
				counts[d.Users[i].Server]++
			}
			decisions := map[string]telemetry.Decision{}
			for i, u := range s.Users {
				x := telemetry.Decision{Slot: n, Aircraft: d.Users[i].Server}
				if x.Aircraft > 0 {
					x.Offload, x.CPUHz = 0.4, c.Physics.EdgeCPUHz/float64(counts[x.Aircraft])
				}
				decisions[fmt.Sprintf("u%02d", u.ID+1)] = x
			}
			mutex.Lock()
			for m := range at {
				at[m] = w.Aircraft[m].Position
			}
			mutex.Unlock()
			b.mutex.Lock()
			clear(b.reports)
			b.decide = func(id string, _ telemetry.Report) *telemetry.Decision {
				if x, ok := decisions[id]; ok {
					return &x
				}
				return nil
			}
			b.mutex.Unlock()
			b.publishBeacon(n, standingOffer(0.01))
			b.waitFor("reports and results", func() bool {
				if len(b.reports) < len(s.Users)+len(s.IdleUsers) {
					return false
				}
				for id := range decisions {
					if _, ok := b.results[fmt.Sprint(id, "/", n)]; !ok {
						return false
					}
				}
				return true
			})
			for m := range d.Move {
				d.Move[m] = physics.Position{EastM: 12, NorthM: float64(5 - 10*m)}
			}
			w.FillAction(&s, &d, &action)
			o := w.Step(action)
			b.mutex.Lock()
			reported := func(u slot.User) {
				r := b.reports[fmt.Sprintf("u%02d", u.ID+1)]
				if r.PositionM != [2]float64{u.Position.EastM, u.Position.NorthM} || r.CPUHz != u.CPUHz || r.Gain[1] != u.Gain[0] ||
					r.Gain[2] != u.Gain[1] || (r.Task != nil) != (u.Task.Bits > 0) {
					t.Errorf("slot %d: reported %+v, in the rollout %+v", n, r, u)
				}
			}
			for _, u := range s.Users {
				reported(u)
				if h.Throttled[u.ID] {
					throttled++
				}
			}
			for _, u := range s.IdleUsers {
				reported(u)
				idle++
			}
			var after slot.Snapshot
			w.Snapshot(&after)
			for _, want := range after.Results {
				r := b.results[fmt.Sprintf("u%02d/%d", want.User+1, want.Slot)] // slow tasks are of the slot before
				if r.LocalS == nil || math.Abs(r.CompletionS-want.CompletionS) > 1e-9 || math.Abs(*r.LocalS-want.LocalS) > 1e-9 {
					t.Errorf("slot %d: result %+v, in the rollout %+v", n, r, want)
					continue
				}
				if r.UploadS == nil != (want.Upload.Bits == 0) || r.UploadS != nil && math.Abs(*r.UploadS-want.Upload.S) > 1e-9 {
					t.Errorf("slot %d: uploaded in %v s, in the rollout %+v", n, r.UploadS, want)
				}
				if r.UploadS != nil {
					uploads++
				}
			}
			for m, want := range o.EdgeJ {
				if got := b.edgeJ[[2]int{m, n}]; math.Abs(got-want) > 1e-9*max(want, 1) {
					t.Errorf("slot %d: computing on %d took %v J, in the rollout %v", n, m, got, want)
				}
			}
			b.mutex.Unlock()
		}
		if uploads == 0 || throttled == 0 || idle == 0 {
			t.Errorf("%d uploads, %d throttled and %d idle users", uploads, throttled, idle)
		}
	})
}

// Where nothing is hidden a result does not say how long the parts took.
func TestPlainResults(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		b := newFixture(t, 0, false)
		b.publishBeacon(3, standingOffer(0))
		b.waitFor("results", func() bool { return len(b.results) == len(tasksOf(3)) })
		for id, r := range b.results {
			if r.LocalS != nil || r.UploadS != nil {
				t.Errorf("%s: %+v", id, r)
			}
		}
	})
}
