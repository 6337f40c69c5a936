package judge

import (
	"bytes"
	"slices"
	"testing"

	"prefdt/inference/goal"
	decided "prefdt/inference/record"
	"prefdt/inference/slot"
	"prefdt/simbridge/record"
	"prefdt/telemetry"
)

// truePacks is packsFlight with the true ways home.
func truePacks() *flight {
	f := packsFlight(false)
	for _, a := range f.aircraft {
		a.takeOffs = nil
		a.derive(f)
	}
	for k := range f.statuses {
		for n := range f.statuses[k].Aircraft {
			a, s := f.aircraft[n], &f.statuses[k]
			p := packFlight{check: &check{flight: f}, a: a}
			*s.Aircraft[n].HomeJ = p.leastHomeJ(a.at(s.timeS))
		}
	}
	return f
}

// Each rule is kept by a flight that tells the truth, and broken by what differs from it by more than its bound.
func TestToldRules(t *testing.T) {
	serving := func() *flight {
		f := servingFlight()
		for k := range f.end.Ledger.Rows {
			r := &f.end.Ledger.Rows[k]
			r.PropulsionMultiplier = 1 + 1e-3*float64(r.Slot/2%2)
			r.Seen.Snapshot.Aircraft = []slot.Aircraft{{Number: 1, Flown: slot.Flown{FlightJ: f.aircraft[0].spentJ(110) -
				f.aircraft[0].spentJ(109)}}}
		}
		for k := range f.statuses {
			for n := range f.statuses[k].Aircraft {
				x := &f.statuses[k].Aircraft[n]
				x.Landed, x.EnergySource = new(f.aircraft[n].at(f.statuses[k].timeS).Landed), "energy_consumed"
			}
		}
		for n, a := range f.aircraft {
			for at := 50.5; at < f.endS; at++ {
				a.beats = append(a.beats, heartbeat{at, &record.Heartbeat{Mode: offboard, Armed: true}})
				if n == 0 {
					a.got = append(a.got, arrival{timeS: at, Got: &record.Got{Other: "Heartbeat", Mode: offboard}})
				}
			}
		}
		return f
	}
	for _, x := range []struct {
		rule   string
		from   func() *flight
		change func(*flight)
	}{
		{"told landed", serving, func(f *flight) { f.statuses[9].Aircraft[1].Landed = new(true) }},
		{"told landed", serving, func(f *flight) { f.fail("link_loss", 1, 105, 130) }},
		{"told source", serving, func(f *flight) { f.fail("battery_absent", 2, 105, 130) }},
		{"told source", serving, func(f *flight) { f.statuses[20].Aircraft[0].EnergySource = "model" }},
		{"told reason", serving, func(f *flight) {
			f.from(1, 110, 200, func(s *state) { s.Mode = posctl })
			f.aircraft[0].beats[62].Heartbeat = &record.Heartbeat{Mode: posctl, Armed: true}
			f.fail(record.PilotActs, 1, 110, 110.1)
		}},
		{"measured joules", serving, func(f *flight) { f.end.Ledger.Rows[7].Aircraft[0].EnergyJ += 200 }},
		{"measured cost", serving, func(f *flight) {
			for n := range 5 {
				f.end.Ledger.Rows[15+n].PropulsionMultiplier = 1.1
			}
		}},
		{"measured often", serving, func(f *flight) {
			for n := range 9 {
				f.end.Ledger.Rows[15+n].PropulsionMultiplier = 1
			}
		}},
		{"read power", serving, func(f *flight) {
			for n := range 3 {
				f.end.Ledger.Rows[15+n].Seen.Snapshot.Aircraft[0].Flown.FlightJ += 50
			}
		}},
		{"stalled loop", serving, func(f *flight) {
			f.aircraft[0].Autopilot = "ardupilot"
			f.beacons, f.statuses = f.beacons[:10], f.statuses[:10]
		}},
		{"kept up", func() *flight { return packsFlight(true) }, func(f *flight) {
			f.statuses[62].Aircraft[0].FliesUntilSlot = new(40)
		}},
		{"far from home", truePacks, func(f *flight) { *f.statuses[62].Aircraft[0].HomeJ = 9e3 }},
		{"floor to touchdown", truePacks, func(f *flight) {
			for k := range f.statuses {
				f.statuses[k].FloorJ -= 40e3
			}
		}},
	} {
		f := x.from()
		if got := judged(t, x.rule, f); got.Broken > 0 || got.Active == 0 && x.rule != "told reason" && x.rule != "stalled loop" {
			t.Errorf("%s: %+v", x.rule, got)
		}
		f = x.from()
		if x.change(f); judged(t, x.rule, f).Broken == 0 {
			t.Errorf("%s is kept: %+v", x.rule, judged(t, x.rule, f))
		}
	}
}

// What flying costs one of the fleet may be what is told of each.
func TestFarFromHomeOfDearFlight(t *testing.T) {
	for _, x := range []struct {
		told, least, most float64
		broken            bool
	}{{1.25, 0, 0, true}, {1.25, 0, 1.2, false}, {0.8, 0, 1.2, true}, {0.8, 0.8, 1.2, false}, {1.5, 0.8, 1.2, true}} {
		f := truePacks()
		for _, s := range f.statuses {
			for _, a := range s.Aircraft {
				if a.HomeJ != nil {
					*a.HomeJ *= x.told
				}
			}
		}
		last := f.aircraft[len(f.aircraft)-1]
		last.PowerLeast, last.PowerMost = x.least, x.most
		if got := judged(t, "far from home", f); (got.Broken > 0) != x.broken || got.Active == 0 {
			t.Errorf("%+v: %+v", x, got)
		}
	}
}

// A refusal names each parameter that is unsafe.
func TestRefusalNamesAll(t *testing.T) {
	for reason, broken := range map[string]int{"COM_OBL_RC_ACT is 0; COM_LOW_BAT_ACT is 0": 0, "COM_OBL_RC_ACT is 0": 1} {
		f := servingFlight()
		o := f.give(53, false, order{kind: telemetry.KindMission, mission: telemetry.Mission{Action: telemetry.ActionStart}})
		o.answer.Reason = reason
		f.faults = append(f.faults, faultSpan{span: span{52, 54}, kind: "unsafe_failsafe", text: "COM_OBL_RC_ACT COM_LOW_BAT_ACT"})
		if got := judged(t, "refusal", f); got.Broken != broken {
			t.Errorf("%s: %+v", reason, got)
		}
	}
}

// A measurement is of flight as it was, within what it says of its error; one across a change may be of either.
func TestMeasuredFlight(t *testing.T) {
	for _, x := range []struct {
		energyJ, errorJ float64
		slots, shock    int
		broken          bool
	}{{800, 0, 4, 99, false}, {1000, 0, 4, 99, true}, {1000, 60, 4, 99, false}, {700, 0, 4, 99, true}, {1000, 0, 4, 14, false},
		{1000, 0, 30, 14, false}, {1200, 0, 4, 5, false}, {800, 0, 4, 5, true}} {
		f := servingFlight()
		f.World.Wind.MeanMaxMPS, f.World.Gust, f.World.SecondShock.Factor = 0, 0, 0
		f.World.Shock.Factor, f.World.Shock.FromSlot = 1.5, x.shock
		var b bytes.Buffer
		w := decided.NewWriter(&b, decided.Header{})
		w.WriteDecision(&slot.Snapshot{Slot: 15}, goal.Objective{}, &slot.Decision{})
		w.WriteEvent(decided.Event{Settle: &goal.Settlement{Measured: &goal.Measurement{EnergyJ: x.energyJ + 50, EdgeJ: 50,
			ErrorJ: x.errorJ, ModelFlightJ: 800, Slots: x.slots}}})
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f.recorded = [][]byte{b.Bytes()}
		if got := judged(t, "measured flight", f); (got.Broken > 0) != x.broken || got.Active == 0 {
			t.Errorf("%+v: %+v", x, got)
		}
	}
}

// Once a leader that stood still goes on, it has what was sent meanwhile.
func TestSourceAfterAStall(t *testing.T) {
	for _, x := range []struct {
		text, also string
		atS        float64
		broken     bool
	}{{"stopped", "", 122, true}, {"stopped", "", 120.2, false}, {"killed", "", 122, false}, {"stopped", "out_of_order", 122, false}} {
		f := servingFlight()
		for k := range f.statuses {
			for n := range f.statuses[k].Aircraft {
				f.statuses[k].Aircraft[n].EnergySource = "energy_consumed"
			}
		}
		for _, a := range f.aircraft {
			a.beats = append(a.beats, heartbeat{50, &record.Heartbeat{}})
		}
		f.faults = append(f.faults, faultSpan{span: span{115, 119.9}, kind: record.LeaderDown, text: x.text})
		if x.also != "" {
			f.fail(x.also, 1, 116, 117)
		}
		k := slices.IndexFunc(f.statuses, func(s status) bool { return s.timeS > x.atS })
		f.statuses[k].Aircraft[0].EnergySource = "model"
		if got := judged(t, "told source", f); (got.Broken > 0) != x.broken {
			t.Errorf("%+v: %+v", x, got)
		}
	}
}

// Where packs do not last there is no floor to the last slot.
func TestFloorOfPacksThatDoNotLast(t *testing.T) {
	f := truePacks()
	for k := range f.statuses {
		f.statuses[k].FloorJ -= 40e3
		f.statuses[k].CoveredUntilSlot = new(f.statuses[k].Slot + 5)
	}
	if got := judged(t, "floor to touchdown", f); got.Broken > 0 {
		t.Errorf("%+v", got)
	}
}
