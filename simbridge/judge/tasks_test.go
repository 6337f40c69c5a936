package judge

import (
	"testing"

	"prefdt/simbridge/record"
	"prefdt/telemetry"
)

func TestTaskRules(t *testing.T) {
	computing := func(f *flight) {
		f.workerBeats = map[int][]workerBeat{}
		for number := range 2 {
			for at := 60.0; at < f.endS; at++ {
				f.workerBeats[number+1] = append(f.workerBeats[number+1], workerBeat{at, telemetry.Worker{CPUHz: f.Physics.EdgeCPUHz,
					Functions: []telemetry.WorkerFunction{{ID: "sums"}}}})
			}
		}
		for _, r := range f.reports {
			r.Task.Function = "sums"
		}
		f.computed = []computed{
			{105.5, 1, record.Computed{User: "u1", Slot: 5, By: telemetry.ByDecision, Bytes: 1e5, CPUHz: 1e10, EdgeS: 0.08, TookS: 0.6,
				WholeS: 0.8}},
			{106.5, 1, record.Computed{User: "u1", Slot: 6, By: telemetry.ByDecision, Bytes: 1e5, CPUHz: 1e10, Wrong: "used",
				Problem: "no"}},
		}
		f.fail(record.ExecutorLies, 1, 110, 111)
		f.fail("worker_lies", 1, 108, 120)
	}
	testRules(t, taskRules, []ruleCase{
		{"worker on offer", "silent", computing, func(f *flight) { delete(f.workerBeats, 2) }},
		{"worker on offer", "more than there is", computing, func(f *flight) { f.beacons[9].Offer.Aircraft[0].CPUHz *= 2 }},
		{"function there", "another", computing, func(f *flight) {
			for k := range f.workerBeats[1] {
				f.workerBeats[1][k].Functions = nil
			}
		}},
		{"granted", "computed", computing, func(f *flight) { f.computed[1].Problem = "" }},
		{"computed there", "refused", computing, func(f *flight) { f.computed[0].Problem = "the grant or offer was used" }},
		{"no faster", "by all cores", func(f *flight) { computing(f); f.faults = nil }, func(f *flight) { f.computed[0].EdgeS = 0.02 }},
		{"task output", "garbled", computing, func(f *flight) { f.computed[0].Garbled = true }},
		{"task output", "late", computing, func(f *flight) { f.computed[0].TookS = 3 }},
		{"hidden time", "lives", computing, func(f *flight) { f.faults[0].toS = 130 }},
	})
}
