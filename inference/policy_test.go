package inference

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"prefdt/inference/belief/learned"
	"prefdt/inference/budget"
	"prefdt/inference/checkpoint"
	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// loadOnce loads the shipped checkpoint, which every test flies by and none changes.
var loadOnce = sync.OnceValues(func() (*checkpoint.Checkpoint, error) { return checkpoint.Load("../configs/checkpoint") })

// shippedCheckpoint returns a copy whose fields may be set to others; what they point to is shared.
func shippedCheckpoint(t testing.TB) *checkpoint.Checkpoint {
	t.Helper()
	ck, err := loadOnce()
	if err != nil {
		t.Fatal(err)
	}
	own := *ck
	return &own
}

func randomSnapshot(r *rand.Rand, slotNumber, aircraft, users int) *slot.Snapshot {
	s := &slot.Snapshot{Slot: slotNumber, Slots: 100}
	at := func() physics.Position {
		return physics.Position{EastM: 1000 * r.Float64(), NorthM: 1000 * r.Float64()}
	}
	for m := range aircraft {
		s.Aircraft = append(s.Aircraft, slot.Aircraft{Number: m + 1, Position: at(), SpeedMPS: 8, RemainingJ: 1e5, CPUHz: 40e9,
			ServedLastSlot: r.IntN(4)})
	}
	c := physics.DefaultConstants()
	for u := range users {
		user := slot.User{ID: u, Position: at(), CPUHz: 1e9, Task: physics.Task{Bits: 5e5 + 1e6*r.Float64(), CyclesPerBit: 1000,
			DeadlineS: 0.5 + r.Float64()}}
		for m := range s.Aircraft {
			user.Gain = append(user.Gain, c.Channel.MeanGain(user.Position.Sub(s.Aircraft[m].Position).Norm(), 100)*r.ExpFloat64())
		}
		s.Users = append(s.Users, user)
	}
	return s
}

// Any number of users and of aircraft, none included, gets a decision within the
// constraints, from one checkpoint and in any order of sizes.
func TestAnyFleetAnyUsers(t *testing.T) {
	ck := shippedCheckpoint(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, decoder := range Decoders() {
		p, err := New(ck, decoder)
		if err != nil {
			t.Fatal(err)
		}
		o := goal.New(&ck.GoalConstants, &ck.Physics, 100, 2)
		var d slot.Decision
		for i, size := range [][2]int{{2, 6}, {0, 3}, {1, 0}, {0, 0}, {3, 8}, {8, 100}, {1, 1}, {2, 0}, {5, 12}} {
			s := randomSnapshot(r, i, size[0], size[1])
			o.Observe(p.Decide(s, o, &d))
			if len(d.Users) != size[1] || len(d.Move) != size[0] || len(d.EdgeJ) != size[0] {
				t.Fatalf("%s, %v: sizes %d, %d, %d", decoder, size, len(d.Users), len(d.Move), len(d.EdgeJ))
			}
			for u, x := range d.Users {
				if x.Server < 0 || x.Server > size[0] || !(x.Offload >= 0 && x.Offload <= 1) || !(x.CompletionS > 0) ||
					(x.Server == 0) != (x.CPUHz == 0) {
					t.Errorf("%s, %v: user %d gets %+v", decoder, size, u, x)
				}
			}
			for m, v := range d.Move {
				if n := v.Norm(); !(n <= ck.Physics.SpeedMaxMPS) {
					t.Errorf("%s, %v: aircraft %d moves %v m", decoder, size, m, n)
				}
			}
			o.Settle(goal.Settlement{DelayS: d.DelayS, EnergyJ: 300, EdgeJ: 30, ModelFlightJ: 270, Flying: max(size[0], 1)})
		}
	}
}

// Permuting users or aircraft permutes the decision alike, slot after slot.
func TestPermutation(t *testing.T) {
	ck := shippedCheckpoint(t)
	const aircraft, users, slots = 3, 9, 30
	r := rand.New(rand.NewPCG(3, 4))
	for _, decoder := range Decoders() {
		straight, _ := New(ck, decoder)
		permuted, _ := New(ck, decoder)
		o := goal.New(&ck.GoalConstants, &ck.Physics, slots, aircraft)
		h := goal.New(&ck.GoalConstants, &ck.Physics, slots, aircraft)
		var d, e slot.Decision
		for i := range slots {
			s := randomSnapshot(r, i, aircraft, users)
			fleet, order := r.Perm(aircraft), r.Perm(users)
			q := &slot.Snapshot{Slot: s.Slot, Slots: s.Slots}
			for _, m := range fleet {
				q.Aircraft = append(q.Aircraft, s.Aircraft[m])
			}
			for _, u := range order {
				user := s.Users[u]
				user.Gain = nil
				for _, m := range fleet {
					user.Gain = append(user.Gain, s.Users[u].Gain[m])
				}
				q.Users = append(q.Users, user)
			}
			o.Observe(straight.Decide(s, o, &d))
			h.Observe(permuted.Decide(q, h, &e))
			for k, m := range fleet {
				if diff := d.Move[m].Sub(e.Move[k]).Norm(); diff > 0.05 {
					t.Fatalf("%s, slot %d: aircraft %d moves %v, permuted %v", decoder, i, m, d.Move[m], e.Move[k])
				}
			}
			for k, u := range order {
				server := e.Users[k].Server
				if server > 0 {
					server = fleet[server-1] + 1
				}
				if server != d.Users[u].Server || math.Abs(d.Users[u].Offload-e.Users[k].Offload) > 1e-4 {
					t.Fatalf("%s, slot %d: user %d gets %+v, permuted %+v", decoder, i, u, d.Users[u], e.Users[k])
				}
			}
			settled := goal.Settlement{DelayS: d.DelayS, EnergyJ: 400 + 20*r.Float64(), EdgeJ: 20, ModelFlightJ: 400, Flying: aircraft}
			o.Settle(settled)
			h.Settle(settled)
		}
	}
}

// A decision on a new slot of a known size allocates nothing, with an estimator neither.
func TestSteadySlotDoesNotAllocate(t *testing.T) {
	ck := shippedCheckpoint(t)
	for _, decoder := range Decoders() {
		for _, size := range [][2]int{{2, 8}, {2, 120}, {8, 40}} {
			if testing.Short() && size[1] > 8 { // an emulator takes a minute
				continue
			}
			if size[1] > 8 && decoder != DecoderDispatch {
				continue // which takes longest and remembers most
			}
			for _, believing := range []bool{false, true} {
				decide := decideInTurn(t, ck, decoder, size[0], size[1], believing)
				for range 17 { // each slot twice
					decide()
				}
				if n := testing.AllocsPerRun(8, decide); n != 0 {
					t.Errorf("%s, M=%d U=%d, believing %v: %v allocations a slot", decoder, size[0], size[1], believing, n)
				}
			}
		}
	}
}

func TestUnknownDecoder(t *testing.T) {
	if _, err := New(shippedCheckpoint(t), "magic"); err == nil {
		t.Error("an unknown decoder was accepted")
	}
}

// decideInTurn returns a function that decides under a budget, each time on another slot.
func decideInTurn(t testing.TB, ck *checkpoint.Checkpoint, decoder Decoder, aircraft, users int, believing bool) func() {
	r := rand.New(rand.NewPCG(7, 8))
	var slots []*slot.Snapshot
	for range 8 {
		slots = append(slots, randomSnapshot(r, 30, aircraft, users))
	}
	p, err := New(ck, decoder)
	if err != nil {
		t.Fatal(err)
	}
	if believing {
		p.Estimator = ck.NewEstimator(learned.Surroundings{Physics: &ck.Physics, Sounding: true, Wind: true, Slow: 0.45})
	}
	o := goal.New(&ck.GoalConstants, &ck.Physics, 100, aircraft)
	if err := o.SetBudget(1.2*o.FloorJ(), goal.Target); err != nil {
		t.Fatal(err)
	}
	var d slot.Decision
	next := 0
	return func() {
		o.Observe(p.Decide(slots[next%len(slots)], o, &d))
		next++
	}
}

func BenchmarkDecide(b *testing.B) {
	ck := shippedCheckpoint(b)
	for _, decoder := range Decoders() {
		for _, aircraft := range []int{2, 8} {
			for _, users := range []int{10, 50, 100, 300, 1000, 4000} {
				if decoder != DecoderDispatch && users > 10 {
					break
				}
				b.Run(fmt.Sprintf("%s/M=%d/U=%d", decoder, aircraft, users), func(b *testing.B) {
					decide := decideInTurn(b, ck, decoder, aircraft, users, false)
					for b.Loop() {
						decide()
					}
				})
			}
		}
	}
}

// Under a budget a slot spends no more than its limit, and nothing where there is none.
func TestSpendingIsLimited(t *testing.T) {
	ck := shippedCheckpoint(t)
	r := rand.New(rand.NewPCG(9, 10))
	for _, decoder := range Decoders() {
		for _, mode := range []goal.Mode{goal.Target, goal.Ceiling} {
			for _, aboveFloorJ := range []float64{-500, 0, 3, 20, 60, 90} {
				if testing.Short() && (aboveFloorJ == 0 || aboveFloorJ == 20 || aboveFloorJ == 60) {
					continue // an emulator takes a minute
				}
				p, _ := New(ck, decoder)
				o := goal.New(&ck.GoalConstants, &ck.Physics, 10, 2)
				var d slot.Decision
				for i := range 10 {
					s := randomSnapshot(r, i, 2, 8)
					s.Slots = 10
					if err := o.SetBudget(o.FloorJ()+aboveFloorJ, mode); err != nil {
						t.Fatal(err)
					}
					o.Observe(p.Decide(s, o, &d))
					spent, limit := d.TotalEdgeJ(), o.SlotLimitJ()
					if spent > limit*(1+1e-9) {
						t.Errorf("%s, %s, slot %d: %v J spent of a limit of %v J", decoder, mode, i, spent, limit)
					}
					if limit == 0 && (spent != 0 || d.PriceSPerJ != budget.MaxPriceSPerJ || d.ServedBy(0) != len(s.Users)) {
						t.Errorf("%s, %s, slot %d: below the floor %v J are spent, the offer's price is %v", decoder, mode, i, spent,
							d.PriceSPerJ)
					}
					_, flightW := ck.Physics.MinPower()
					o.Settle(goal.Settlement{EnergyJ: 2*flightW + spent, EdgeJ: spent, ModelFlightJ: 2 * flightW, Flying: 2})
				}
			}
		}
	}
}

// At the edge of the area an aircraft keeps its speed.
func TestTurnInside(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	const area, step = 1000.0, 8.4
	for _, from := range []physics.Position{{EastM: 0, NorthM: 500}, {EastM: 1000, NorthM: 0}, {EastM: 3, NorthM: 997},
		{EastM: 500, NorthM: 1000}, {EastM: 500, NorthM: 500}} {
		for range 200 {
			sin, cos := math.Sincos(2 * math.Pi * r.Float64())
			requested := physics.Position{EastM: step * cos, NorthM: step * sin}
			move := turnInside(from, requested, area)
			to := from.Add(move)
			if math.Abs(move.Norm()-step) > 1e-9 || min(to.EastM, to.NorthM) < 0 || max(to.EastM, to.NorthM) > area {
				t.Fatalf("from %v, %v became %v", from, requested, move)
			}
			if to := from.Add(requested); min(to.EastM, to.NorthM) >= 0 && max(to.EastM, to.NorthM) <= area && move != requested {
				t.Fatalf("from %v, %v was turned to %v though it stays inside", from, requested, move)
			}
		}
	}
}

// Decide does not change the objective that it is given, and what it returns is all
// that Observe needs: after 25 slots under a budget it is known what a slot spends at
// the grid's prices.
func TestDecideReturnsItsObservation(t *testing.T) {
	ck := shippedCheckpoint(t)
	for _, mode := range []goal.Mode{goal.Target, goal.Ceiling, goal.Preference} {
		r := rand.New(rand.NewPCG(13, 14))
		p, err := New(ck, DecoderDispatch)
		if err != nil {
			t.Fatal(err)
		}
		o := goal.New(&ck.GoalConstants, &ck.Physics, 100, 2)
		if mode != goal.Preference {
			if err := o.SetBudget(34e3, mode); err != nil {
				t.Fatal(err)
			}
		}
		var d, atPriceZero slot.Decision
		var solver dispatch.Solver
		capacityJ := 0.0
		const slots = 25
		for i := range slots {
			s := randomSnapshot(r, i, 2, 8)
			before := o
			observed := p.Decide(s, o, &d)
			if o != before {
				t.Fatalf("%s, slot %d: Decide changed the objective from %+v to %+v", mode, i, before.State(), o.State())
			}
			o.Observe(observed)
			atPriceZero.Resize(s)
			solver.Solve(&ck.Physics, s, 0, &atPriceZero)
			capacityJ += atPriceZero.TotalEdgeJ() / slots
			o.Settle(goal.Settlement{DelayS: d.DelayS, EnergyJ: 270 + d.TotalEdgeJ(), EdgeJ: d.TotalEdgeJ(), ModelFlightJ: 270, Flying: 2})
		}
		got := o.State()
		if mode == goal.Preference {
			if got.EdgeDemand != (goal.EdgeDemand{}) {
				t.Errorf("%s: %+v, though without a budget there is nothing to observe", mode, got.EdgeDemand)
			}
		} else if got.EdgeDemandSlots != slots || math.Abs(2*got.EdgeDemandW[0]-capacityJ) > 1e-9*capacityJ {
			t.Errorf("%s: %v J a slot over %d slots at price zero, want %v J over %d", mode, 2*got.EdgeDemandW[0], got.EdgeDemandSlots,
				capacityJ, slots)
		}
	}
}

// A slot in which no aircraft serves does not change what is believed of the air, nor what
// the slots left must take.
func TestNoServingAircraftKeepsTheWind(t *testing.T) {
	ck := shippedCheckpoint(t)
	p, err := New(ck, DecoderDispatch)
	if err != nil {
		t.Fatal(err)
	}
	p.Estimator = ck.NewEstimator(learned.Surroundings{Physics: &ck.Physics, Wind: true})
	o := goal.New(&ck.GoalConstants, &ck.Physics, 100, 2)
	var d slot.Decision
	r := rand.New(rand.NewPCG(1, 9))
	wind := physics.Position{EastM: 12}
	for i := range 30 {
		s := randomSnapshot(r, i, 2, 4)
		for m := range s.Aircraft {
			sin, cos := math.Sincos(2 * math.Pi * r.Float64())
			ground := physics.Position{EastM: 8 * cos, NorthM: 8 * sin}
			s.Aircraft[m].Flown = slot.Flown{EastMPS: ground.EastM, NorthMPS: ground.NorthM,
				FlightJ: ck.Physics.Propulsion.PowerW(ground.Sub(wind).Norm())}
		}
		o.Observe(p.Decide(s, o, &d))
	}
	before := o.FloorToGoJ()
	_, calmW := ck.Physics.MinPower()
	if before < 1.02*calmW*200 {
		t.Fatalf("in a wind the floor is %v J, in calm air %v", before, calmW*200)
	}
	s := randomSnapshot(r, 30, 0, 4)
	o.Observe(p.Decide(s, o, &d))
	if after := o.FloorToGoJ(); math.Abs(after/before-1) > 0.01 {
		t.Errorf("after a slot without a serving aircraft the floor is %v J, before it %v", after, before)
	}
}

// A decoder goes by its name, and by that of a version before.
func TestDecoderOf(t *testing.T) {
	for _, d := range Decoders() {
		if DecoderOf(string(d)) != d {
			t.Errorf("%q is %q", d, DecoderOf(string(d)))
		}
	}
	if d := DecoderOf("snapped"); !slices.Contains(Decoders(), d) {
		t.Errorf("what was called snapped is %q", d)
	}
}
