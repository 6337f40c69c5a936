package judge

import (
	"fmt"
	"testing"

	"prefdt/inference/physics"
	"prefdt/simbridge/record"
	"prefdt/telemetry"
)

func TestLedgerRules(t *testing.T) {
	bookMissed := func(f *flight, share float64) { // slot 20, whose users computed locally
		x, localS := &f.end.Ledger.Rows[20], 0.0
		for u := range 3 {
			r := f.reports[reportKey{fmt.Sprintf("u%d", u+1), 20}]
			t := physics.Task{Bits: r.Task.Bits, CyclesPerBit: r.Task.CyclesPerBit, DeadlineS: r.Task.DeadlineS}
			localS += f.Physics.PenalizedDelayS(t, t.LocalTimeS(r.CPUHz))
		}
		f.end.Ledger.State.Account.Objective.DelayS += share*localS - x.DelayS
		x.DelayS, x.Missed = share*localS, true
	}
	missed := func(f *flight) {
		for k := range f.end.Ledger.Rows {
			f.end.Ledger.Rows[k].Reported = 3
		}
		bookMissed(f, 1)
	}
	testRules(t, ledgerRules, []ruleCase{
		{"record", "unreadable", nil, func(f *flight) { f.end.Error = "checksum" }},
		{"record", "a slot twice", nil, func(f *flight) { f.end.Ledger.Rows[5].Slot = 4 }},
		{"record", "a slot not written", nil, func(f *flight) { f.end.Ledger.Rows[5].Missed = true }},
		{"record", "a slot that was not", nil, func(f *flight) { f.beacons = append(f.beacons[:5:5], f.beacons[6:]...) }},
		{"energy", "a fifth nowhere", nil, func(f *flight) {
			for k := range f.statuses {
				f.statuses[k].TransitJ *= 0.8
			}
		}},
		{"energy", "also after a restart", func(f *flight) { f.fail(record.LeaderDown, 0, 110, 112) }, func(f *flight) {
			f.statuses[25].TransitJ -= 2000
		}},
		{"lost", "it hovers for ever", func(f *flight) {
			for k := 12; k < 28; k++ {
				f.statuses[k].Aircraft[0].AgeS, f.statuses[k].Aircraft[0].SpentJ = new(float64(k-11)), 1500
				f.statuses[k].FloorJ -= (f.statuses[k].FloorJ - f.statuses[k].SpentJ) / 2
			}
		}, func(f *flight) { f.statuses[26].Aircraft[0].SpentJ += 160 }},
		{"lost", "the slots take as much", func(f *flight) {
			for k := 12; k < 28; k++ {
				f.statuses[k].Aircraft[0].AgeS, f.statuses[k].Aircraft[0].SpentJ = new(float64(k-11)), 1500
				f.statuses[k].FloorJ -= (f.statuses[k].FloorJ - f.statuses[k].SpentJ) / 2
			}
		}, func(f *flight) { f.statuses[26].FloorJ += f.statuses[26].FloorJ - f.statuses[26].SpentJ }},
		{"energy by slot", "a slot for another", nil, func(f *flight) {
			f.end.Ledger.Rows[3].Aircraft[0].EnergyJ += 600
			f.end.Ledger.Rows[9].Aircraft[0].EnergyJ -= 600
		}},
		{"transit", "the climb in the slots", nil, func(f *flight) { f.end.Ledger.State.Account.Aircraft[0].TransitJ /= 2 }},
		{"sums", "an account of its own", nil, func(f *flight) { f.end.Ledger.State.Account.Objective.SpentJ *= 0.8 }},
		{"sums", "a row of its own", nil, func(f *flight) { f.end.Ledger.Rows[4].EnergyJ += 5 }},
		{"sums", "told otherwise", nil, func(f *flight) { f.statuses[len(f.statuses)-1].Aircraft[0].SpentJ += 5 }},
		{"told sums", "a row's joules", nil, func(f *flight) { f.statuses[9].SpentJ += 5 }},
		{"told sums", "the rest of a budget", nil, func(f *flight) {
			f.statuses[9].BudgetJ, f.statuses[9].RemainingJ = new(50e3), new(50e3)
		}},
		{"told sums", "a slot missed", nil, func(f *flight) { f.statuses[9].MissedSlots++ }},
		{"told sums", "users heard", nil, func(f *flight) { f.statuses[9].UsersHeard++ }},
		{"edge joules", "one more", nil, func(f *flight) { f.end.Ledger.Rows[9].Offloaded++ }},
		{"edge joules", "too few", nil, func(f *flight) { f.end.Ledger.Rows[9].EdgeJ *= 0.8 }},
		{"sums", "told otherwise", nil, func(f *flight) { f.statuses[len(f.statuses)-1].Aircraft[0].SpentJ += 5 }},
		{"sums", "more than a meter takes back of those that landed", func(f *flight) {
			last := &f.statuses[len(f.statuses)-1]
			last.State, last.Aircraft[0].SpentJ = telemetry.StateDone, last.Aircraft[0].SpentJ+6
			for k := range f.statuses[:len(f.statuses)-1] {
				if f.isOver(f.statuses[k].timeS) {
					f.statuses[k].State = telemetry.StateFlying
				}
			}
			for _, a := range f.aircraft {
				for k := range a.states {
					if a.states[k].timeS > last.timeS-3 {
						a.states[k].Mode = hold
					}
				}
			}
		}, func(f *flight) { f.statuses[len(f.statuses)-1].Aircraft[0].SpentJ += counterStepJ }},
		{"delay", "none in a slot", nil, func(f *flight) { f.end.Ledger.Rows[7].DelayS = 0 }},
		{"delay", "of a missed slot", missed, func(f *flight) { bookMissed(f, 1.5) }},
		{"delay", "twice in all", nil, func(f *flight) { f.end.Ledger.State.Account.Objective.DelayS *= 2 }},
		{"wind", "another", nil, func(f *flight) {
			for k := range f.end.WindMPS {
				f.end.WindMPS[k] = [2]float64{-9, 0}
			}
		}},
		{"exit", "by itself", nil, func(f *flight) { f.end.Exit = "panic" }},
		{"course", "not taken", nil, func(f *flight) { f.end.Failure = "the slots do not end" }},
		{"slots", "one left out", nil, func(f *flight) { f.beacons = append(f.beacons[:5:5], f.beacons[6:]...) }},
		{"slots", "over too soon", nil, func(f *flight) { f.statuses[20].State = telemetry.StateReturning }},
		{"decided", "no decision", nil, func(f *flight) { f.decisions = f.decisions[:60] }},
		{"decided", "late decisions", nil, func(f *flight) {
			for k := range f.decisions[:20] {
				f.decisions[k].timeS += 0.3
			}
		}},
		{"dispatch", "nobody is served", nil, func(f *flight) {
			for k := range f.decisions {
				f.decisions[k].Decision = telemetry.Decision{Slot: f.decisions[k].Slot}
			}
		}},
		{"dispatch", "aircraft swapped", nil, func(f *flight) {
			for k := range f.decisions {
				if d := &f.decisions[k]; d.Aircraft > 0 {
					d.Aircraft = 3 - d.Aircraft
				}
			}
		}},
		{"dispatch", "users swapped", nil, func(f *flight) {
			for k := 0; k+2 < len(f.decisions); k += 3 {
				f.decisions[k].user, f.decisions[k+2].user = f.decisions[k+2].user, f.decisions[k].user
			}
		}},
		{"dispatch", "another price", nil, func(f *flight) {
			for k := range f.beacons {
				f.beacons[k].Offer.PriceSPerJ = 0.3
			}
		}},
	})
}

// What flying was measured to cost counts while the battery measures nothing: a model that forgot it is seen, and not one that nobody
// could correct since the change.
func TestModelled(t *testing.T) {
	for _, x := range []struct {
		share  float64
		shock  int
		broken bool
	}{{0.9, 0, false}, {0.6, 0, true}, {0.6, 12, false}} {
		f := servingFlight()
		f.World.Wind.MeanMaxMPS, f.World.Gust, f.World.Groups.Count, f.World.SecondShock.Factor = 0, 0, 0, 0
		f.World.Shock.Factor, f.World.Shock.FromSlot = 1.5, x.shock
		f.fail("battery_absent", 1, 112, 131)
		for k := range f.statuses {
			s, a := &f.statuses[k], f.aircraft[0]
			if s.timeS > 112 {
				s.Aircraft[0].SpentJ -= (1 - x.share) * (a.spentJ(s.timeS) - a.spentJ(112))
			}
		}
		if got := judged(t, "energy", f); (got.Broken > 0) != x.broken || got.Active == 0 {
			t.Errorf("%+v: %+v", x, got)
		}
	}
}
