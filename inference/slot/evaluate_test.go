package slot

import (
	"encoding/json"
	"math"
	"testing"

	"prefdt/inference/physics"
)

// Whatever is valid on the wire, and whatever a decoder makes of it, the delay and the
// energy are finite: a state and a row can be written.
func TestEvaluateIsFinite(t *testing.T) {
	tasks := []physics.Task{
		{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1}, {Bits: 1e12, CyclesPerBit: 1, DeadlineS: 3600},
		{Bits: 1e3, CyclesPerBit: 1e9, DeadlineS: 5e-324}, {Bits: 1, CyclesPerBit: 1e-3, DeadlineS: 1},
	}
	doubts := []Uncertainty{{}, {GainStdDev: []float64{4}}, {GainStdDev: []float64{40}, SlowCPUHz: 1e8, SlowProbability: 0.5}}
	for _, contention := range []bool{false, true} {
		c := physics.DefaultConstants()
		c.Contention = contention
		for _, gain := range []float64{5e-324, 1e-300, 1e-30, 1e-17, 3e-14, 1, math.Inf(1), math.NaN()} {
			for _, task := range tasks {
				for _, doubt := range doubts {
					for _, load := range []UnreportedLoad{{}, {ExpectedUsers: 3, CyclesPerUser: 1e12}} {
						for _, hz := range []float64{0, math.SmallestNonzeroFloat64, 1, 4e10, 1e15} {
							for _, rho := range []float64{0, 1e-9, 0.4, 1} {
								u := User{CPUHz: task.Cycles() / 86400, Task: task, Gain: []float64{gain}, Uncertainty: doubt}
								s := Snapshot{Aircraft: []Aircraft{{Number: 1, CPUHz: hz, Unreported: load}}, Users: []User{u, u}}
								d := Decision{Users: []UserDecision{{Server: 1, Offload: rho}, {}}}
								d.Evaluate(&c, &s)
								if _, err := json.Marshal(&d); err != nil || d.DelayS < 0 || d.TotalEdgeJ() < 0 {
									t.Fatalf("gain %v, %v Hz, task %+v, doubt %+v, load %+v, offload %v: %+v, %v", gain, hz, task, doubt,
										load, rho, d, err)
								}
							}
						}
					}
				}
			}
		}
	}
}

// A user that does not reach its server computes locally, and takes nothing of the share
// of one that does.
func TestUnreachedServer(t *testing.T) {
	c := physics.DefaultConstants()
	task := physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1}
	s := Snapshot{Aircraft: []Aircraft{{Number: 1, CPUHz: 4e10}}, Users: []User{
		{CPUHz: 1e9, Task: task, Gain: []float64{1e-30}}, {CPUHz: 1e9, Task: task, Gain: []float64{1e-9}},
	}}
	d := Decision{Users: []UserDecision{{Server: 1, Offload: 0.5}, {Server: 1, Offload: 0.5}}}
	d.Evaluate(&c, &s)
	if d.Users[0] != (UserDecision{CompletionS: 1}) || d.Users[1].CPUHz != 4e10 {
		t.Errorf("%+v", d.Users)
	}
	s.Aircraft[0].CPUHz = 0 // its worker is silent
	d = Decision{Users: []UserDecision{{Server: 1, Offload: 0.5}, {Server: 1, Offload: 0.5}}}
	if d.Evaluate(&c, &s); d.Users[0] != (UserDecision{CompletionS: 1}) || d.Users[1] != d.Users[0] {
		t.Errorf("without a CPU %+v", d.Users)
	}
}
