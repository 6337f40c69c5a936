package inference

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/belief/learned"
	"prefdt/inference/checkpoint"
	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// wireUser is one user as a report may have it.
type wireUser struct {
	bits, cyclesPerBit, deadlineS, cpuHz, gain, eastM, northM, queueBits float64
}

// valid is whether the wire allows it (telemetry.Report).
func (w *wireUser) valid() bool {
	within := func(x, low, high float64) bool { return x >= low && x <= high }
	cycles := w.bits * w.cyclesPerBit
	return within(w.bits, 1, 1e12) && within(w.cyclesPerBit, 1e-3, 1e9) && w.deadlineS > 0 && w.deadlineS <= 3600 &&
		within(w.cpuHz, 1, 1e15) && w.gain > 0 && w.gain <= 1 && within(w.eastM, -1e5, 1e5) && within(w.northM, -1e5, 1e5) &&
		within(w.queueBits, 0, 1e15) && cycles <= 1e12 && cycles <= 86400*w.cpuHz
}

func (w *wireUser) user(id, aircraft int) slot.User {
	u := slot.User{
		ID: id, Position: physics.Position{EastM: w.eastM, NorthM: w.northM}, CPUHz: w.cpuHz, QueueBits: w.queueBits,
		Task: physics.Task{Bits: w.bits, CyclesPerBit: w.cyclesPerBit, DeadlineS: w.deadlineS},
	}
	for range aircraft {
		u.Gain = append(u.Gain, w.gain)
	}
	return u
}

// checkWire flies some slots with one user of this kind among ordinary ones, under a
// preference and under a budget: what leaves the policy can be written and obeyed.
func checkWire(t *testing.T, ck *checkpoint.Checkpoint, w wireUser, decoder Decoder, seed uint64) {
	for _, budgeted := range []bool{false, true} {
		for _, believing := range []bool{false, true} {
			r := rand.New(rand.NewPCG(seed, 21))
			p, err := New(ck, decoder)
			if err != nil {
				t.Fatal(err)
			}
			c := ck.Physics
			c.Contention = believing
			if believing {
				p.Estimator = ck.NewEstimator(learned.Surroundings{Physics: &c, Sounding: true, Wind: true, Payload: true, Slow: 0.45})
			}
			forecast := dispatch.Forecast{Prior: ck.UserPrior()}
			const slots = 6
			o := goal.New(&ck.GoalConstants, &ck.Physics, slots, 2)
			if budgeted {
				if err := o.SetBudget(o.FloorJ()+100*slots, goal.Ceiling); err != nil {
					t.Fatal(err)
				}
			}
			var d slot.Decision
			for i := range slots {
				s := randomSnapshot(r, i, 2, 5)
				s.Slots = slots
				s.Users = append(s.Users, w.user(5, 2))
				s.Aircraft[0].Flown = slot.Flown{EastMPS: 5, FlightJ: 150}
				offer := forecast.Offer(&ck.Physics, s.Aircraft, d.PriceSPerJ, r)
				forecast.AnnotateSnapshot(s)
				if i == slots-1 {
					s.Users = nil
				}
				o.Observe(p.Decide(s, o, &d))
				forecast.Observe(s.Users)
				forecast.Settle(len(s.Users), i%2)
				settled := goal.Settlement{DelayS: d.DelayS, EnergyJ: 280 + d.TotalEdgeJ(), EdgeJ: d.TotalEdgeJ(), MinEdgeJ: d.TotalEdgeJ(), MaxEdgeJ: d.TotalEdgeJ(), ModelFlightJ: 270, Flying: 2}
				o.Settle(settled)
				for _, x := range []any{&d, o.State(), settled, offer, p.Belief()} {
					if _, err := json.Marshal(x); err != nil {
						t.Fatalf("%s, slot %d, budgeted %v, believing %v, %+v: %T %+v cannot be written: %v", decoder, i, budgeted, believing, w, x, x, err)
					}
				}
				for u, x := range d.Users {
					if x.Server < 0 || x.Server > 2 || !(x.Offload >= 0 && x.Offload <= 1) || !(x.CompletionS >= 0) || (x.Server == 0) != (x.CPUHz == 0) {
						t.Fatalf("%s, slot %d, %+v: user %d gets %+v", decoder, i, w, u, x)
					}
				}
				for _, v := range d.Move {
					if !(v.Norm() <= ck.Physics.SpeedMaxMPS*(1+1e-9)) {
						t.Fatalf("%s, slot %d, %+v: an aircraft moves %v", decoder, i, w, v)
					}
				}
				if x := o.SlotLimitJ() + o.HeadroomJ() + o.FloorJ() + o.PredictedEndJ() + o.Setting(); math.IsNaN(x) || math.IsInf(x, 0) {
					t.Fatalf("%s, slot %d, %+v: limits are no numbers: %+v", decoder, i, w, o.State())
				}
			}
		}
	}
}

var wireLimits = []wireUser{
	{1e6, 1000, 1, 1e9, 1e-30, 500, 500, 0}, // a rate that rounds to zero
	{1e6, 1000, 1, 1e9, math.SmallestNonzeroFloat64, 500, 500, 0},
	{1e6, 1000, 1, 1e9, 1, 500, 500, 0},
	{1e9, 1000, 3600, 1e9, 1e-9, 500, 500, 0},    // 1e12 cycles
	{1e12, 1, 3600, 1.2e7, 1e-9, 500, 500, 1e15}, // and as many bits
	{1000, 1e9, math.SmallestNonzeroFloat64, 1e15, 1e-9, 1e5, -1e5, 0},
	{1, 1e-3, 3600, 1e15, 1, -1e5, 1e5, 0}, // next to nothing
	{1, 1e-3, 1, 1, 1e-20, 0, 0, 0},
}

// Each limit of the wire, by each decoder.
func TestWireLimits(t *testing.T) {
	ck := shippedCheckpoint(t)
	for _, decoder := range Decoders() {
		for i, w := range wireLimits {
			if !w.valid() {
				t.Fatalf("limit %d is not valid on the wire: %+v", i, w)
			}
			checkWire(t, ck, w, decoder, uint64(i))
		}
	}
}

func FuzzWire(f *testing.F) {
	ck := shippedCheckpoint(f)
	for i, w := range wireLimits {
		f.Add(uint8(i), uint64(i), w.bits, w.cyclesPerBit, w.deadlineS, w.cpuHz, w.gain, w.eastM, w.northM, w.queueBits)
	}
	f.Fuzz(func(t *testing.T, decoder uint8, seed uint64, bits, cyclesPerBit, deadlineS, cpuHz, gain, eastM, northM, queueBits float64) {
		w := wireUser{bits, cyclesPerBit, deadlineS, cpuHz, gain, eastM, northM, queueBits}
		if !w.valid() {
			return
		}
		checkWire(t, ck, w, Decoders()[int(decoder)%len(Decoders())], seed)
	})
}
