package leader

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"prefdt/firmware/link"
	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/simbridge/world"
	"prefdt/telemetry"
)

// fixedPrice is a scheduler that dispatches exactly at one price and flies in circles.
type fixedPrice struct {
	physics physics.Constants
	solver  dispatch.Solver
}

func (p *fixedPrice) Decide(s *slot.Snapshot, _ goal.Objective, d *slot.Decision) (observation goal.Observation) {
	d.Resize(s)
	p.solver.Solve(&p.physics, s, 0.003, d)
	for m := range d.Move {
		east, north := math.Sincos(0.4*float64(s.Slot) + float64(m))
		d.Move[m] = physics.Position{EastM: 9 * east, NorthM: 9 * north}
	}
	return observation
}

// overTheWire is a message as its receiver decodes it.
func overTheWire[T any](t *testing.T, payload []byte, err error, decode func([]byte) (T, error)) *T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	v, err := decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	return &v
}

func reportOf(n int, u *slot.User) telemetry.Report {
	r := telemetry.Report{Slot: n, PositionM: [2]float64{u.Position.EastM, u.Position.NorthM}, CPUHz: u.CPUHz, Gain: map[int]float64{}}
	for m, gain := range u.Gain {
		r.Gain[m+1] = gain
	}
	if u.Task.Bits > 0 {
		r.Task = &telemetry.Task{Bits: u.Task.Bits, CyclesPerBit: u.Task.CyclesPerBit, DeadlineS: u.Task.DeadlineS}
	}
	return r
}

// resultOf is the message in which a user says what the world has of its task.
func resultOf(r *slot.Result) telemetry.Result {
	out := telemetry.Result{Slot: r.Slot, CompletionS: r.CompletionS, By: telemetry.ByDecision}
	if r.LocalCycles > 0 {
		out.LocalS = &r.LocalS
	}
	if r.Upload != (slot.Upload{}) {
		out.UploadS = &r.Upload.S
	}
	return out
}

// differ is whether two numbers differ by more than rounding.
func differ(a, b float64) bool { return !(math.Abs(a-b) <= 1e-9*max(1e-9, math.Abs(a), math.Abs(b))) }

func usersDiffer(a, b *slot.User) bool {
	return a.ID != b.ID || a.Position != b.Position || a.Task != b.Task || a.CPUHz != b.CPUHz || !slices.Equal(a.Gain, b.Gain)
}

func resultsDiffer(a, b *slot.Result) bool {
	return a.User != b.User || a.Slot != b.Slot || a.Aircraft != b.Aircraft || differ(a.CompletionS, b.CompletionS) ||
		differ(a.LocalS, b.LocalS) || differ(a.LocalCycles, b.LocalCycles) ||
		differ(a.Upload.Bits, b.Upload.Bits) || differ(a.Upload.S, b.Upload.S) ||
		differ(a.Upload.BandwidthShare, b.Upload.BandwidthShare) ||
		a.Upload.User != b.Upload.User || a.Upload.Aircraft != b.Upload.Aircraft
}

// TestSnapshotsEqualTheWorlds flies simulated worlds in injected time, with their users'
// messages and their aircraft's state as the leader's only inputs: its snapshots have
// what the world's own have for the same slot.
func TestSnapshotsEqualTheWorlds(t *testing.T) {
	for _, name := range []string{"standard", "field", "crowd"} {
		t.Run(name, func(t *testing.T) {
			c, err := world.Named(name)
			if err != nil {
				t.Fatal(err)
			}
			w := world.New(c, 41)
			l := newInPhase(t, telemetry.StateFlying, &fixedPrice{physics: c.Physics}, c.Physics, &loadCheckpoint(t).GoalConstants)
			for i := range l.views {
				v := &l.views[i]
				v.Position, v.Measured = w.Aircraft[i].Position, true
			}
			l.account.SettleTransit(l.views)
			ids := map[int]int{} // the leader's, by the world's
			send := func(user int, m link.UserMessage) {
				m.User = fmt.Sprintf("u%d", user)
				l.handleUserMessage(m, true)
			}
			sendResults := func(results []slot.Result) {
				for i := range results {
					payload, err := telemetry.Encode(resultOf(&results[i]))
					send(results[i].User, link.UserMessage{Result: overTheWire(t, payload, err, telemetry.DecodeResult)})
				}
			}
			var truth slot.Snapshot
			results, uploads, slow, idle, flown := 0, 0, 0, 0, 0
			for !w.Done() {
				n := w.Slot
				w.Snapshot(&truth)
				sendResults(truth.Results)
				l.users.OpenSlot(n)
				l.current.decided = false
				for _, list := range [][]slot.User{truth.Users, truth.IdleUsers} {
					for i := range list {
						u := &list[i]
						if _, known := ids[u.ID]; !known {
							ids[u.ID] = len(ids)
						}
						payload, err := telemetry.Encode(reportOf(n, u))
						send(u.ID, link.UserMessage{Report: overTheWire(t, payload, err, telemetry.DecodeReport)})
					}
				}
				expireResults(n, &l.account, &l.users)
				names := l.buildSnapshot(n, l.views)

				s := &l.current.snapshot
				for what, lists := range map[string][2][]slot.User{"users": {s.Users, truth.Users},
					"idle users": {s.IdleUsers, truth.IdleUsers}} {
					want := slices.Clone(lists[1])
					for i := range want {
						want[i].ID = ids[want[i].ID]
					}
					slices.SortFunc(want, func(a, b slot.User) int { return cmp.Compare(a.ID, b.ID) })
					if !slices.EqualFunc(lists[0], want, func(a, b slot.User) bool { return !usersDiffer(&a, &b) }) {
						t.Fatalf("slot %d: %s %+v, in the world %+v", n, what, lists[0], want)
					}
				}
				expected := slices.Clone(truth.Results)
				for i := range expected {
					expected[i].User = ids[expected[i].User]
					if expected[i].Slot < n-1 {
						slow++
					}
				}
				slices.SortFunc(expected, func(a, b slot.Result) int {
					return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.User, b.User))
				})
				if !slices.EqualFunc(s.Results, expected, func(a, b slot.Result) bool { return !resultsDiffer(&a, &b) }) {
					t.Fatalf("slot %d: results %+v, in the world %+v", n, s.Results, expected)
				}
				for i := range truth.Aircraft {
					got, want := s.Aircraft[i].Flown, truth.Aircraft[i].Flown
					if differ(got.EastMPS, want.EastMPS) || differ(got.NorthMPS, want.NorthMPS) || differ(got.FlightJ, want.FlightJ) {
						t.Fatalf("slot %d: aircraft %d flew %+v, in the world %+v", n, i+1, got, want)
					}
					if got.FlightJ > 0 {
						flown++
					}
				}
				results, idle = results+len(s.Results), idle+len(s.IdleUsers)
				for i := range s.Results {
					if s.Results[i].Upload.S > 0 {
						uploads++
					}
				}

				l.decide(n, names, l.views)
				l.commandFleet(l.views)
				a := world.Action{Server: make([]int, len(truth.Users)), Offload: make([]float64, len(truth.Users)),
					Move: l.current.decision.Move}
				for i := range truth.Users {
					d := &l.current.decision.Users[slices.Index(names, fmt.Sprintf("u%d", truth.Users[i].ID))]
					a.Server[i], a.Offload[i] = d.Server, d.Offload
				}
				o := w.Step(a)
				for i := range l.views {
					v := &l.views[i]
					v.AtS, v.Position, v.SpeedMPS = v.AtS+1, w.Aircraft[i].Position, w.Aircraft[i].SpeedMPS
					v.TotalJ, v.ModelJ = v.TotalJ+o.FlightJ[i]+o.EdgeJ[i], v.ModelJ+o.FlightJ[i]
					v.ReadS, v.ReceivedS, v.ReadJ = v.AtS, v.AtS, v.TotalJ
				}
				l.account.Settle(n, l.views, l.users.OfferUsersEdgeJ)
				l.schedule.Advance(n, l.schedule.StartOf(n+1))
			}
			t.Logf("%d results, %d of them with an upload, %d of them a slot later; %d idle users, %d flights", results, uploads, slow,
				idle, flown)
			if results < 100 || (slow > 0) != (name != "standard") || (uploads > 100) != c.HidesState() || idle == 0 ||
				flown != 2*(c.Slots-1) {
				t.Error("too little was compared")
			}
			if n := l.mqtt.Rejects.Total(); n > 0 {
				t.Errorf("refused: %v", l.mqtt.Rejects.Counts())
			}
		})
	}
}

// Times that cannot be are refused by name, counted, and in no snapshot.
func TestRefusedTimesAreCounted(t *testing.T) {
	p := physics.DefaultConstants()
	l := newInPhase(t, telemetry.StateFlying, &fixedPrice{physics: p}, p, &loadCheckpoint(t).GoalConstants)
	l.users.OpenSlot(0)
	for _, user := range []string{"honest", "liar"} {
		r := telemetry.Report{PositionM: [2]float64{300, 500}, CPUHz: 1e9,
			Task: &telemetry.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.9}, Gain: map[int]float64{1: 1e-13}}
		l.handleUserMessage(link.UserMessage{User: user, Report: &r}, true)
	}
	l.decide(0, l.buildSnapshot(0, l.views), l.views)
	for user, localS := range map[string]float64{"honest": 0.9, "liar": 1e-6} {
		l.handleUserMessage(link.UserMessage{User: user, Result: &telemetry.Result{CompletionS: 0.9, By: telemetry.ByLocal,
			LocalS: &localS}}, true)
	}
	l.users.OpenSlot(1)
	l.buildSnapshot(1, l.views)
	want := []slot.Result{{CompletionS: 0.9, LocalS: 0.9, LocalCycles: 1e9}}
	if got := l.current.snapshot.Results; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if counts := l.mqtt.Rejects.Counts(); len(counts) != 1 || counts["result: local_s too short"] != 1 {
		t.Errorf("refused: %v", counts)
	}
}
