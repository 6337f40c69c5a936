package prefdt

import (
	"math"
	"slices"
	"testing"

	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// The heads read each user in the frame of its nearest aircraft, in that aircraft's columns;
// of several as near, in all of theirs, as the graph's Equal does.
func TestNearestFrames(t *testing.T) {
	f := Form{Aircraft: 3, UserFeatures: []string{"bits", distance}}
	users := []float32{
		7, 2, 7, -1, 7, 3,
		8, 4, 8, 5, 8, 4,
	}
	got := slices.Repeat([]float32{9}, len(users)) // what a buffer held before
	NearestFrames(&f, got, users)
	want := []float32{
		0, 0, 7, -1, 0, 0,
		8, 4, 0, 0, 8, 4,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCheckWantsDistance(t *testing.T) {
	f := Published(8)
	f.UserFeatures = slices.DeleteFunc(f.UserFeatures, func(name string) bool { return name == distance })
	if err := f.Check(); err == nil {
		t.Error("a form whose bypass has no distance to choose a frame by is accepted")
	}
}

// T_off is at the load of its own slot: the users nearest to an aircraft share its processor, however
// many it served before. With the other aircraft lost they all do.
func TestOffloadTimeIsAtTheSlotsLoad(t *testing.T) {
	c := physics.DefaultConstants()
	s := slot.Snapshot{Slots: 100, Aircraft: []slot.Aircraft{
		{Number: 1, Position: physics.Position{EastM: 100, NorthM: 100}, CPUHz: 1e9, ServedLastSlot: 7},
		{Number: 2, Position: physics.Position{EastM: 900, NorthM: 900}, CPUHz: 1e9, ServedLastSlot: 7},
	}}
	for _, eastM := range []float64{150, 200, 250, 850} {
		s.Users = append(s.Users, slot.User{
			Position: physics.Position{EastM: eastM, NorthM: eastM}, Task: physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1},
			CPUHz: 1e9, Gain: []float64{1e-10, 1e-10},
		})
	}
	f := Form{Aircraft: 2, UserFeatures: []string{distance, offloadAtLoad}}
	b := NewBuilder(&f, &c, nil)
	for _, x := range []struct {
		lost bool
		load [2]float64
	}{{false, [2]float64{3, 1}}, {true, [2]float64{4, 1}}} {
		for u := range s.Users {
			if x.lost {
				s.Users[u].Gain[1] = 0
			}
		}
		_, rows := b.AppendSlot(nil, nil, &s)
		for u := range s.Users {
			for m, load := range x.load {
				if x.lost && m == 1 {
					continue
				}
				want := min(s.Users[u].Task.OffloadTimeS(c.EqualShare(s.Users[u].Gain[m], 1e9, load)), 10)
				if got := float64(rows[(u*2+m)*2+1]); math.Abs(got-want) > 1e-6*want {
					t.Errorf("lost %v, user %d, aircraft %d: T_off %v s, want %v s", x.lost, u, m, got, want)
				}
			}
		}
	}
}

// A leader that is restarted after a revision asks for the setting of the first total, as before.
func TestRevisedBudgetOverARestart(t *testing.T) {
	constants := goal.Constants{EtaDelayS: 600, EtaEnergyJ: 12e3, Slots: 100, AircraftCount: 2,
		Conditioner: goal.Conditioner{Omegas: []float64{0, 0.5, 1}, DelayS: []float64{90, 200, 700}, EnergyJ: []float64{39e3, 29e3, 27e3}},
		SettingMap:  goal.SettingMap{Omegas: []float64{0, 1}}}
	c := physics.DefaultConstants()
	o := goal.New(&constants, &c, 100, 2)
	policy := func() *Policy { return &Policy{archived: &Archived{AsPublished: true}, constants: &constants} }
	flying := policy()
	var before asked
	for _, totalJ := range []float64{34e3, 30e3} {
		if err := o.SetBudget(totalJ, goal.Target); err != nil {
			t.Fatal(err)
		}
		before = flying.request(&o, nil)
		o.Settle(goal.Settlement{DelayS: 1, EnergyJ: 340, Flying: 2})
	}
	o = goal.Resume(&constants, &c, o.State())
	before.delayToGoS--
	before.energyToGoJ -= 340
	if after := policy().request(&o, nil); after != before || math.Abs(after.omega-0.25) > 1e-9 {
		t.Errorf("after a restart it asks for %+v, before for %+v", after, before)
	}
}
