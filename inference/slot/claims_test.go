package slot

import (
	"testing"

	"prefdt/inference/physics"
)

func claim(cycles, cpuHz float64) User {
	return User{CPUHz: cpuHz, Task: physics.Task{Bits: cycles / 1000, CyclesPerBit: 1000, DeadlineS: 1}}
}

var limits = Claims{Bits: 1.6e6, Cycles: 1.6e9, LocalS: 2.2}

// A claim beyond the limits is bounded, others are as they are; where large tasks are
// common, they are no strangers.
func TestClaims(t *testing.T) {
	honest := []User{claim(0.5e9, 1e9), claim(1e9, 1e9), claim(1.2e9, 1e9), claim(1.5e9, 1e9)}
	var w Weighed
	for _, x := range []struct {
		Claims
		users []User
	}{{limits, honest}, {Claims{}, []User{claim(1e12, 1)}}} {
		s := &Snapshot{Users: x.users}
		if got, bounded := x.Weigh(s, &w); got != s || bounded {
			t.Error("claims within the limits, or without limits, were bounded")
		}
	}
	for _, c := range []struct {
		name       string
		user       User
		mostCycles float64
		offload    float64 // what half of the bounded task is of the one claimed
	}{
		{"1e12 cycles", claim(1e12, 1e9), 1.6e9, 0.8e-3},
		{"1e10 cycles", claim(1e10, 1e9), 1.6e9, 0.08},
		{"a slow CPU", claim(1e9, 1e6), 1e9, 0.5},
		{"1e12 bits", User{CPUHz: 1e9, Task: physics.Task{Bits: 1e12, CyclesPerBit: 1e-3, DeadlineS: 1}}, 1600, 0.8e-6},
	} {
		s := &Snapshot{Users: append([]User{c.user}, honest...)}
		got, bounded := limits.Weigh(s, &w)
		u := &got.Users[0]
		if !bounded || u.Task.Cycles() > c.mostCycles*(1+1e-12) || u.Task.LocalTimeS(u.CPUHz) > limits.LocalS*(1+1e-12) ||
			u.Task.Bits > limits.Bits {
			t.Errorf("%s weighs %+v", c.name, u)
		}
		for i := range honest {
			if got.Users[i+1].Task != honest[i].Task || got.Users[i+1].CPUHz != honest[i].CPUHz || s.Users[0].Task != c.user.Task {
				t.Errorf("%s: beside it %+v", c.name, got.Users[i+1])
			}
		}
		d := Decision{Users: []UserDecision{{Server: 1, Offload: 0.5}, {}, {}, {}, {Server: 1, Offload: 0.5}}}
		if w.Restore(&d); d.Users[0].Offload < c.offload*0.999 || d.Users[0].Offload > c.offload*1.001 || d.Users[4].Offload != 0.5 {
			t.Errorf("%s: half of what it weighs is decided as %v of it, half of an honest one as %v", c.name, d.Users[0].Offload,
				d.Users[4].Offload)
		}
	}
	large := &Snapshot{Users: []User{claim(1e10, 1e9), claim(0.9e10, 1e9), claim(1.1e10, 1e9), claim(1e10, 1e9), claim(1e12, 1e9)}}
	if got, _ := limits.Weigh(large, &w); got.Users[2].Task != large.Users[2].Task || got.Users[4].Task.Cycles() > 1.6e10 {
		t.Errorf("among tasks of 10 s each: %+v", got.Users)
	}
	if n := testing.AllocsPerRun(20, func() { limits.Weigh(large, &w) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
