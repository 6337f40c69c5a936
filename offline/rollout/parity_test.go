package rollout

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"math"
	"os"
	"testing"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/offlinetest"
	"prefdt/simbridge/world"
)

var updateParity = flag.Bool("record", false, "fly the slots of testdata/parity.bin again and write what is decided here")

const (
	parityFile      = "testdata/parity.bin"
	parityFlights   = 10
	parityFirstSeed = 90_000 // training seeds, not used for evaluation
	paritySlots     = 1000
)

// What the file holds, little-endian: the graph's hash, then flights, each
// followed by its slots, each followed by its users. World flights are recorded
// and not flown again, since the mathematical functions differ in the last
// bit between processors, and rounded to float32 before anything is decided.
type recordedFlight struct {
	Decoder        uint8 // of Decoders
	Omega, BudgetJ float32
	Users          [10][2]float32 // positions
}

type recordedSlot struct {
	Aircraft [2]struct {
		EastM, NorthM, SpeedMPS, ResidualJ float32
		Served                             uint8
	}
	Users                           uint8
	Move                            [2][2]float32 // decided
	DelayS, EnergyJ, EdgeJ, FlightJ float32       // settled
}

type recordedUser struct {
	ID              uint8
	Bits, DeadlineS float32
	Gain            [2]float32
	Server          uint8   // decided
	Offload         float32 // decided
}

// snapshot lays out a recorded slot as the policy sees it.
func (r *recordedSlot) snapshot(s *slot.Snapshot, number int, f *recordedFlight, users []recordedUser, c *physics.Constants) {
	s.Slot, s.Slots = number, world.Standard().Slots
	s.Aircraft, s.Users = s.Aircraft[:0], s.Users[:0]
	for m, a := range r.Aircraft {
		s.Aircraft = append(s.Aircraft, slot.Aircraft{Number: m + 1,
			Position: physics.Position{EastM: float64(a.EastM), NorthM: float64(a.NorthM)},
			SpeedMPS: float64(a.SpeedMPS), RemainingJ: float64(a.ResidualJ), CPUHz: c.EdgeCPUHz, ServedLastSlot: int(a.Served)})
	}
	for _, u := range users {
		at := f.Users[u.ID]
		s.Users = append(s.Users, slot.User{ID: int(u.ID), Position: physics.Position{EastM: float64(at[0]), NorthM: float64(at[1])},
			Task:  physics.Task{Bits: float64(u.Bits), CyclesPerBit: world.Standard().CyclesPerBit, DeadlineS: float64(u.DeadlineS)},
			CPUHz: world.Standard().UserCPUHz, Gain: []float64{float64(u.Gain[0]), float64(u.Gain[1])}})
	}
}

func (r *recordedSlot) settle(g *goal.Objective) {
	g.Settle(goal.Settlement{DelayS: float64(r.DelayS), EnergyJ: float64(r.EnergyJ), EdgeJ: float64(r.EdgeJ),
		ModelFlightJ: float64(r.FlightJ), Flying: 2})
}

// start starts a recorded flight's policy and goal.
func (f *recordedFlight) start(t *testing.T, ck *checkpoint.Checkpoint) (*inference.Policy, goal.Objective) {
	p := offlinetest.Must(inference.New(ck, inference.Decoders()[f.Decoder]))(t)
	g := goal.New(&ck.GoalConstants, &ck.Physics, world.Standard().Slots, 2)
	if f.BudgetJ == 0 {
		g.SetOmega(float64(f.Omega))
	} else if err := g.SetBudget(float64(f.BudgetJ), goal.Target); err != nil {
		t.Fatal(err)
	}
	return p, g
}

// TestParity holds the decisions of this processor to recorded ones: on 1,000
// slots of the world, under all decoders, preferences and budgets, the
// associations are the same in 999 and the offload ratios within 0.001.
func TestParity(t *testing.T) {
	ck := shippedCheckpoint(t)
	hash := offlinetest.Must(hex.DecodeString(ck.GraphSHA256))(t)
	if *updateParity {
		recordParity(t, ck, hash)
	}
	file := offlinetest.Must(os.ReadFile(parityFile))(t)
	if !bytes.HasPrefix(file, hash) {
		t.Fatalf("%s was recorded with another checkpoint; record it again on amd64: go test ./offline/rollout -run TestParity -record",
			parityFile)
	}
	in := bytes.NewReader(file[len(hash):])
	read := func(x any) {
		offlinetest.NoError(t, binary.Read(in, binary.LittleEndian, x))
	}
	slots, differ, served := 0, 0, 0
	var offload, move float64
	var s slot.Snapshot
	var d slot.Decision
	for range parityFlights {
		var f recordedFlight
		read(&f)
		p, g := f.start(t, ck)
		for number := range world.Standard().Slots {
			var r recordedSlot
			read(&r)
			users := make([]recordedUser, r.Users)
			read(users)
			r.snapshot(&s, number, &f, users, &ck.Physics)
			decideAndObserve(p, &s, &g, &d)
			same := true
			for i, u := range users {
				same = same && d.Users[i].Server == int(u.Server)
			}
			slots++
			for i, u := range users {
				if same && u.Server > 0 {
					served++
					offload = max(offload, math.Abs(d.Users[i].Offload-float64(u.Offload)))
				}
			}
			if !same {
				differ++
			}
			for m, v := range r.Move {
				move = max(move, d.Move[m].Sub(physics.Position{EastM: float64(v[0]), NorthM: float64(v[1])}).Norm())
			}
			r.settle(&g)
		}
	}
	t.Logf("%d slots, %d served users: %d slots differ in association, offload by at most %.2g, moves by %.2g m", slots, served, differ,
		offload, move)
	if slots != paritySlots || served < paritySlots || in.Len() != 0 {
		t.Fatalf("%d slots, %d served users and %d bytes left in the file", slots, served, in.Len())
	}
	if differ > 1 || !(offload < 1e-3) || !(move < 0.1) {
		t.Errorf("want the same associations in 999 slots, offload within 0.001 and moves within 0.1 m")
	}
}

// recordParity flies the world and writes the file.
func recordParity(t *testing.T, ck *checkpoint.Checkpoint, hash []byte) {
	out := bytes.NewBuffer(bytes.Clone(hash))
	write := func(x any) {
		offlinetest.NoError(t, binary.Write(out, binary.LittleEndian, x))
	}
	c := world.Standard()
	c.Physics = ck.Physics
	var s slot.Snapshot
	var d slot.Decision
	var action world.Action
	for i := range parityFlights {
		w := world.New(c, parityFirstSeed+uint64(i))
		f := recordedFlight{Decoder: uint8(i % len(inference.Decoders())), Omega: float32(i) / (parityFlights - 1)}
		if i%2 == 1 {
			f.BudgetJ = 28e3 + 1e3*float32(i)
		}
		for u, at := range w.Users {
			f.Users[u] = [2]float32{float32(at.EastM), float32(at.NorthM)}
		}
		write(&f)
		p, g := f.start(t, ck)
		for !w.Done() {
			number := w.Slot
			w.Snapshot(&s)
			var r recordedSlot
			var users []recordedUser
			for m, a := range s.Aircraft {
				x := &r.Aircraft[m]
				x.EastM, x.NorthM, x.SpeedMPS, x.ResidualJ, x.Served = float32(a.Position.EastM), float32(a.Position.NorthM),
					float32(a.SpeedMPS), float32(a.RemainingJ), uint8(a.ServedLastSlot)
			}
			for _, u := range s.Users {
				users = append(users, recordedUser{ID: uint8(u.ID), Bits: float32(u.Task.Bits), DeadlineS: float32(u.Task.DeadlineS),
					Gain: [2]float32{float32(u.Gain[0]), float32(u.Gain[1])}})
			}
			r.Users = uint8(len(users))
			r.snapshot(&s, number, &f, users, &ck.Physics)
			decideAndObserve(p, &s, &g, &d)
			w.FillAction(&s, &d, &action)
			o := w.Step(action)
			r.DelayS, r.EnergyJ = float32(o.DelayS), float32(o.EnergyJ())
			for m := range w.Aircraft {
				r.EdgeJ += float32(o.EdgeJ[m])
				r.FlightJ += float32(c.Physics.Propulsion.PowerW(w.Aircraft[m].SpeedMPS))
				r.Move[m] = [2]float32{float32(d.Move[m].EastM), float32(d.Move[m].NorthM)}
			}
			for i := range users {
				users[i].Server, users[i].Offload = uint8(d.Users[i].Server), float32(d.Users[i].Offload)
			}
			r.settle(&g)
			write(&r)
			write(users)
		}
	}
	offlinetest.NoError(t, os.MkdirAll("testdata", 0o755))
	offlinetest.NoError(t, os.WriteFile(parityFile, out.Bytes(), 0o644))
}
