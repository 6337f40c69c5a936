package inference

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
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

// wireCase is what else a slot may have.
type wireCase struct {
	budgetJ  float64                // 0: the least above the floor
	aircraft func(a *slot.Aircraft) // what batteries and workers may say of one; nil: nothing special
}

// checkDecide flies some slots with one user of this kind among ordinary ones, under a
// preference and under a budget: what leaves the policy can be written and obeyed.
func checkDecide(t *testing.T, ck *checkpoint.Checkpoint, w wireUser, decoder Decoder, seed uint64) {
	checkCase(t, ck, w, wireCase{}, decoder, seed)
}

func checkCase(t *testing.T, ck *checkpoint.Checkpoint, w wireUser, x wireCase, decoder Decoder, seed uint64) {
	for _, budgeted := range []bool{false, true} {
		for _, believing := range []bool{false, true} {
			r := rand.New(rand.NewPCG(seed, 21))
			p, err := New(ck, decoder)
			if err != nil {
				t.Fatal(err)
			}
			c := ck.Physics
			c.Contention = c.Contention || believing
			if believing {
				p.Estimator = ck.NewEstimator(learned.Surroundings{Physics: &c, Sounding: true, Wind: true, Payload: true, Slow: 0.45})
			}
			forecast := dispatch.Forecast{Prior: ck.UserPrior(), Claims: ck.Claims()}
			slots := 6
			if testing.Short() { // an emulator takes minutes
				slots = 2
			}
			o := goal.New(&ck.GoalConstants, &ck.Physics, slots, 2)
			if budgeted {
				if err := o.SetBudget(cmp.Or(x.budgetJ, o.FloorJ()+100*float64(slots)), goal.Ceiling); err != nil {
					t.Fatal(err)
				}
			}
			var d slot.Decision
			var results []slot.Result
			for i := range slots {
				s := randomSnapshot(r, i, 2, 5)
				s.Slots, s.Results = slots, results
				s.Users, s.IdleUsers = append(s.Users, w.user(5, 2)), []slot.User{w.user(6, 2)}
				s.IdleUsers[0].Task = physics.Task{}
				flightJ := 0.0 // of the model
				for m := range s.Aircraft {
					a := &s.Aircraft[m]
					a.CPUHz, a.RemainingJ, a.SpeedMPS = c.EdgeCPUHz, c.BatteryCapacityJ, min(8, c.SpeedMaxMPS)
					flightJ += c.Propulsion.PowerW(a.SpeedMPS)
				}
				s.Aircraft[0].Flown = slot.Flown{EastMPS: s.Aircraft[0].SpeedMPS, FlightJ: flightJ / 2}
				if x.aircraft != nil {
					x.aircraft(&s.Aircraft[0])
				}
				offer := forecast.Offer(&ck.Physics, s.Aircraft, d.PriceSPerJ, r)
				forecast.AnnotateSnapshot(s)
				if i == slots-1 {
					s.Users = nil
				}
				observed := p.Decide(s, o, &d)
				o.Observe(observed)
				results = extremeResults(&c, s, &d, i%2 > 0)
				forecast.Observe(s.Users)
				forecast.Settle(len(s.Users), i%2)
				edgeJ, mostJ := forecast.OfferUsersEdgeJ(&c, i%2)
				settled := goal.Settlement{
					DelayS: d.DelayS, EnergyJ: 1.03*flightJ + d.TotalEdgeJ(), EdgeJ: d.TotalEdgeJ() + edgeJ,
					MinEdgeJ: d.TotalEdgeJ(), MaxEdgeJ: d.TotalEdgeJ() + mostJ, ModelFlightJ: flightJ, Flying: 2,
				}
				o.Settle(settled)
				name := fmt.Sprintf("%s, slot %d, budgeted %v, believing %v, %+v", decoder, i, budgeted, believing, w)
				for _, x := range []any{&d, o.State(), observed, settled, offer, p.Belief()} {
					if _, err := json.Marshal(x); err != nil {
						t.Fatalf("%s: %T %+v cannot be written: %v", name, x, x, err)
					}
				}
				for u, x := range d.Users {
					if x.Server < 0 || x.Server > 2 || !(x.Offload >= 0 && x.Offload <= 1) || !(x.CompletionS >= 0) ||
						(x.Server == 0) != (x.CPUHz == 0) {
						t.Fatalf("%s: user %d gets %+v", name, u, x)
					}
				}
				for _, v := range d.Move {
					if !(v.Norm() <= c.SpeedMaxMPS*(1+1e-9)) {
						t.Fatalf("%s: an aircraft moves %v", name, v)
					}
				}
				if x := o.SlotLimitJ() + o.HeadroomJ() + o.FloorJ() + o.PredictedEndJ() + o.Setting(); math.IsNaN(x) || math.IsInf(x, 0) {
					t.Fatalf("%s: limits are no numbers: %+v", name, o.State())
				}
			}
		}
	}
}

// extremeResults are results of a slot's users: as early as any counts, or as late (firmware/account).
func extremeResults(c *physics.Constants, s *slot.Snapshot, d *slot.Decision, late bool) (list []slot.Result) {
	const latestS, speedup, bestGain = 3, 10, 1
	for i := range d.Users {
		u, x := &s.Users[i], &d.Users[i]
		r := slot.Result{User: u.ID, Slot: s.Slot, CompletionS: latestS, LocalCycles: (1 - x.Offload) * u.Task.Cycles()}
		r.LocalS = r.LocalCycles / (speedup * u.CPUHz)
		if bits := x.Offload * u.Task.Bits; x.Server > 0 && bits >= 1 {
			a := &s.Aircraft[x.Server-1]
			r.Aircraft, r.Upload = a.Number, slot.Upload{Bits: bits, BandwidthShare: 1, User: u.Position, Aircraft: a.Position}
			if c.Contention {
				r.Upload.BandwidthShare = x.CPUHz / a.CPUHz
			}
			r.Upload.S = bits / c.Channel.RateBPS(bestGain, r.Upload.BandwidthShare*c.Channel.BandwidthHz)
		}
		if late {
			r.LocalS, r.Upload.S = latestS, min(latestS, latestS*r.Upload.Bits)
		}
		list = append(list, r)
	}
	return list
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
	for k, decoder := range Decoders() {
		for i, w := range wireLimits {
			if !w.valid() {
				t.Fatalf("limit %d is not valid on the wire: %+v", i, w)
			}
			if testing.Short() && decoder != DecoderDispatch && i%2 != k%2 { // an emulator takes a minute
				continue
			}
			checkDecide(t, ck, w, decoder, uint64(i))
		}
	}
}

// Whatever a worker says of its CPU, a battery of a flight, or the crew requests, within what is
// accepted of each, by each decoder.
func TestAircraftAndRequestLimits(t *testing.T) {
	ck := shippedCheckpoint(t)
	cpu := func(hz float64) wireCase { return wireCase{aircraft: func(a *slot.Aircraft) { a.CPUHz = hz }} }
	flown := func(j, mps float64) wireCase {
		return wireCase{aircraft: func(a *slot.Aircraft) { a.Flown = slot.Flown{EastMPS: mps, NorthMPS: -mps, FlightJ: j} }}
	}
	for name, x := range map[string]wireCase{
		"no CPU": cpu(0), "next to no CPU": cpu(math.SmallestNonzeroFloat64), "a CPU of 1 Hz": cpu(1), "the largest CPU": cpu(1e15),
		"flown for nothing": flown(math.SmallestNonzeroFloat64, 42), "flown for all": flown(1e12, 42), "an empty battery": {
			aircraft: func(a *slot.Aircraft) { a.RemainingJ = 0 }},
		"the least budget": {budgetJ: math.SmallestNonzeroFloat64}, "the largest budget": {budgetJ: 1e12},
	} {
		t.Run(name, func(t *testing.T) {
			for k, decoder := range Decoders() {
				checkCase(t, ck, wireLimits[k], x, decoder, uint64(k))
			}
		})
	}
}

// figures returns what a manifest says in numbers, apart from the network.
func figures(m *checkpoint.Manifest) (all []reflect.Value) {
	var add func(v reflect.Value)
	add = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				add(v.Field(i))
			}
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				add(v.Index(i))
			}
		case reflect.Float64, reflect.Int:
			all = append(all, v)
		}
	}
	for _, part := range []any{&m.Physics, &m.GoalConstants, &m.PriceCurve, &m.OmegaBand, &m.Statistics} {
		add(reflect.ValueOf(part).Elem())
	}
	return all
}

// edit is a change of one figure of a manifest: times a factor or, where it is 0, to it.
type edit struct {
	figure int
	factor float64
}

// edited returns a checkpoint whose manifest is changed, if it would be accepted.
func edited(ck *checkpoint.Checkpoint, edits ...edit) (*checkpoint.Checkpoint, bool) {
	raw, err := json.Marshal(&ck.Manifest)
	if err != nil {
		panic(err)
	}
	e := &checkpoint.Checkpoint{Net: ck.Net, Beliefs: ck.Beliefs}
	if err := json.Unmarshal(raw, &e.Manifest); err != nil {
		panic(err)
	}
	all := figures(&e.Manifest)
	for _, x := range edits {
		scale(all[x.figure%len(all)], x.factor)
	}
	return e, e.Manifest.Check() == nil
}

// scale changes a figure by a factor or, where it is 0, to it.
func scale(v reflect.Value, factor float64) {
	switch {
	case v.Kind() == reflect.Int:
		v.SetInt(int64(float64(v.Int()) * min(max(factor, -1e9), 1e9)))
	case v.Float() == 0:
		v.SetFloat(factor)
	default:
		v.SetFloat(v.Float() * factor)
	}
}

// Each figure of a manifest far off, of those that it is accepted with.
func TestManifestLimits(t *testing.T) {
	ck := shippedCheckpoint(t)
	base, _ := edited(ck)
	all := figures(&base.Manifest)
	n := len(all)
	factors := []float64{0, 1e-300, 1e-20, 1e-9, 1e-3, 0.1, 0.5, 0.9, 1.1, 2, 10, 1e3, 1e9, 1e20, 1e300, -1}
	accepted := 0
	for i := range n {
		for j := range factors {
			if testing.Short() && (i+j)%len(factors) > 0 { // an emulator takes minutes
				continue
			}
			factor := factors[len(factors)-1-j]
			was := reflect.ValueOf(all[i].Interface())
			scale(all[i], factor)
			ok := base.Manifest.Check() == nil
			if all[i].Set(was); ok {
				accepted++
				if accepted%32 > 0 { // FuzzDecide flies the others
					continue
				}
				e, _ := edited(ck, edit{i, factor})
				t.Run(fmt.Sprintf("figure %d times %g", i, factor), func(t *testing.T) {
					checkDecide(t, e, wireLimits[i%len(wireLimits)], Decoders()[(i+j)%len(Decoders())], uint64(i))
				})
			}
		}
	}
	t.Logf("%d figures, %d edits are accepted", n, accepted)
}

// FuzzDecide flies all that the wire and a manifest allow.
func FuzzDecide(f *testing.F) {
	ck := shippedCheckpoint(f)
	for i, w := range wireLimits {
		f.Add(uint8(i), uint64(i), w.bits, w.cyclesPerBit, w.deadlineS, w.cpuHz, w.gain, w.eastM, w.northM, w.queueBits, uint16(i), 1.0,
			uint16(3*i+7), 2.0)
	}
	f.Fuzz(func(t *testing.T, decoder uint8, seed uint64, bits, cyclesPerBit, deadlineS, cpuHz, gain, eastM, northM, queueBits float64,
		i uint16, x float64, j uint16, y float64) {
		w := wireUser{bits, cyclesPerBit, deadlineS, cpuHz, gain, eastM, northM, queueBits}
		if !w.valid() {
			return
		}
		if e, ok := edited(ck, edit{int(i), x}, edit{int(j), y}); ok {
			checkDecide(t, e, w, Decoders()[int(decoder)%len(Decoders())], seed)
		}
	})
}
