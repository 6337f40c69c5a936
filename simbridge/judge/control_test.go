package judge

import (
	"math"
	"testing"

	"prefdt/simbridge/record"
	"prefdt/telemetry"
)

// Before the first heartbeat there is no age of the crew, none grows while heartbeats arrive, and each does while none do.
func TestToldCrew(t *testing.T) {
	for _, x := range []struct {
		heardS, silentS, ageS float64
		ok                    bool
	}{
		{1, math.Inf(1), 0, true}, {math.Inf(1), math.Inf(1), 0, false}, {1, math.Inf(1), 9, false},
		{1, math.Inf(1), 1, true}, {1, math.Inf(1), 2, false}, // the last one came in the second before
		{1, 110, 4, true}, {1, 110, 0, false},
	} {
		f := servingFlight()
		f.heardS = x.heardS
		for s := x.heardS; s < min(x.silentS, 200); s++ {
			f.heartbeatsS = append(f.heartbeatsS, s)
		}
		for k := range f.statuses {
			f.statuses[k].CrewAgeS = new(0.0)
		}
		if at := &f.statuses[15]; !math.IsInf(x.silentS, 1) { // at 115 s
			f.fail(record.CrewSilent, 0, x.silentS, at.timeS+0.5)
			f.statuses = f.statuses[:16]
			for k := 11; k < 15; k++ {
				f.statuses[k].CrewAgeS = new(f.statuses[k].timeS - x.silentS)
			}
		}
		f.statuses[15].CrewAgeS = new(x.ageS)
		if got := judged(t, "told crew", f); (got.Broken == 0) != x.ok {
			t.Errorf("%+v: %+v", x, got)
		}
	}
}

// Who has an aircraft is told: its leader flies it or lands it, or its pilot has it.
func TestToldDuty(t *testing.T) {
	for _, x := range []struct {
		mode, duty string
		pilots     bool
		broken     bool
	}{
		{offboard, telemetry.DutyServing, false, false}, {offboard, "", false, true}, {offboard, telemetry.DutyLeaving, false, false},
		{land, telemetry.DutyLeaving, false, false}, {land, "", false, true}, {land, telemetry.DutyServing, false, true},
		{posctl, "", true, false}, {posctl, telemetry.DutyServing, true, true}, {posctl, telemetry.DutyLeaving, true, true},
	} {
		f := servingFlight()
		f.from(1, 110, 140, func(s *state) { s.Mode = x.mode })
		if x.pilots {
			f.fail(record.PilotActs, 1, 110, 110)
			f.faults[len(f.faults)-1].toS = 110.1
		}
		a := f.aircraft[0]
		for s := 60.0; s < 140; s++ {
			a.beats = append(a.beats, heartbeat{s, &record.Heartbeat{Mode: a.at(s).Mode, Armed: true}})
		}
		f.statuses[20].Aircraft[0].Duty = x.duty
		for k := range f.statuses {
			if s := &f.statuses[k]; k != 20 && s.timeS > 110 {
				s.Aircraft = nil
			}
		}
		if got := judged(t, "told duty", f); (got.Broken > 0) != x.broken || got.Active == 0 {
			t.Errorf("%+v: %+v", x, got)
		}
	}
}

// A resume of what a pilot has is not refused, and one of what nobody has may be.
func TestGivenBack(t *testing.T) {
	for _, x := range []struct {
		numbers  []int
		accepted bool
		broken   bool
	}{{[]int{1}, true, false}, {[]int{1}, false, true}, {[]int{2}, false, false}, {[]int{1, 2}, false, false}, {nil, false, true},
		{[]int{2}, true, true}, {nil, true, false}} {
		f := servingFlight()
		f.from(1, 110, 140, func(s *state) { s.Mode = posctl })
		f.fail(record.PilotActs, 1, 110, 110.1)
		a := f.aircraft[0]
		for s := 60.0; s < 140; s++ {
			a.beats = append(a.beats, heartbeat{s, &record.Heartbeat{Mode: a.at(s).Mode, Armed: true}})
		}
		f.give(122, x.accepted, mission(telemetry.ActionResume, x.numbers...))
		if got := judged(t, "given back", f); (got.Broken > 0) != x.broken {
			t.Errorf("%+v: %+v", x, got)
		}
	}
}

// A return gives back what is in Hold after a stop alone, and if it names no aircraft.
func TestReturnGivesBack(t *testing.T) {
	for _, x := range []struct {
		state   string
		mode    string
		numbers []int
		ok      bool
	}{
		{telemetry.StateStopped, hold, nil, true}, {telemetry.StateStopped, hold, []int{1}, false},
		{telemetry.StateStopped, posctl, nil, false},
		{telemetry.StateFlying, hold, nil, false},
	} {
		f := servingFlight()
		f.from(1, 110, 140, func(s *state) { s.Mode = x.mode })
		for k := range f.statuses {
			if f.statuses[k].timeS > 112 {
				f.statuses[k].State = x.state
			}
		}
		f.give(122, true, mission(telemetry.ActionReturn, x.numbers...))
		if got := f.givenBackS(f.aircraft[0], 110); math.IsInf(got, 1) == x.ok {
			t.Errorf("%+v: %.1f", x, got)
		}
	}
}

// A hold, return or stop is obeyed while an aircraft flies for the leader, whatever the mission's state; with its pilot it is not the
// leader's.
func TestActs(t *testing.T) {
	for _, x := range []struct {
		action   string
		piloted  bool
		accepted bool
		broken   bool
	}{
		{telemetry.ActionStop, false, false, true}, {telemetry.ActionHold, false, false, true},
		{telemetry.ActionReturn, false, true, false},
		{telemetry.ActionStop, true, false, false}, {telemetry.ActionLaunch, false, false, false},
	} {
		f := servingFlight()
		for k := range f.aircraft {
			if x.piloted {
				f.from(k+1, 100, 140, func(s *state) { s.Mode = posctl })
			}
		}
		f.give(122, x.accepted, mission(x.action))
		if got := judged(t, "acts", f); (got.Broken > 0) != x.broken {
			t.Errorf("%+v: %+v", x, got)
		}
	}
}

// One that is called home alone has turned after 8 s, an ArduCopter after what it flies on besides.
func TestCalledHomeAlone(t *testing.T) {
	const calledS = 70
	for _, x := range []struct {
		stopsInM, turnsS float64
		broken           bool
	}{{0, 2, false}, {0, 8, true}, {27, 8, false}, {27, 20, true}} {
		f := wholeFlight()
		f.orders = append(f.orders, &order{id: "alone", kind: telemetry.KindMission, sentS: calledS, deliveredS: calledS, firstS: calledS,
			answeredS: calledS, accepted: true,
			mission: telemetry.Mission{ID: "alone", Action: telemetry.ActionReturn, Aircraft: []int{1}}})
		f.aircraft[0].stopsInM = x.stopsInM
		f.from(2, 0, wholeS, func(s *state) { s.PositionM[0] += 200 })
		f.from(1, calledS, calledS+60, func(s *state) {
			s.Mode, s.PositionM[1] = offboard, 600+4*(x.turnsS-math.Abs(s.timeS-calledS-x.turnsS))
		})
		if got := judged(t, "obeyed", f); got.Active == 0 || (got.Broken > 0) != x.broken {
			t.Errorf("%+v: %+v", x, got)
		}
	}
}
