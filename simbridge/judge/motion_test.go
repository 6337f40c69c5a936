package judge

import (
	"math"
	"slices"
	"testing"

	"prefdt/simbridge/record"
	"prefdt/simbridge/world"
	"prefdt/telemetry"
)

// Times of the flight that [wholeFlight] is.
const (
	tookOffS, slotsBeginS, holdsS, resumesS, returnsS, landsS, homeS, wholeS = 10.0, 40.0, 70.0, 90.0, 110.0, 130.0, 200.0, 220.0
)

// wholeFlight is of two aircraft from take-off to touchdown, which keeps every rule. They fly north at 8 m/s, 60 m apart.
func wholeFlight() *flight {
	w := world.Standard()
	w.Slots, w.Aircraft = 100, 2
	f := &flight{endS: wholeS, epochS: slotsBeginS, complete: true}
	f.Physics, f.World, f.Seed, f.Slots = w.Physics, &w, 1_000_000, w.Slots
	for id, o := range map[string]struct {
		atS    float64
		action string
	}{"s": {5, telemetry.ActionStart}, "h": {holdsS, telemetry.ActionHold}, "r": {resumesS, telemetry.ActionResume}, "b": {returnsS,
		telemetry.ActionReturn}} {
		f.orders = append(f.orders, &order{id: id, kind: telemetry.KindMission, sentS: o.atS, deliveredS: o.atS, firstS: o.atS,
			answeredS: o.atS,
			accepted:  true,
			mission:   telemetry.Mission{ID: id, Action: o.action}})
	}
	f.statuses = []status{{timeS: 1}}
	for k := range 2 {
		a := &aircraft{number: k + 1, airframe: airframe{speedMPS: 12, descentMPS: 1.5, landMPS: 0.7, slowBelowM: 10},
			Aircraft: record.Aircraft{Autopilot: "px4", StandM: point{500 + 60*float64(k), 500, 0}, CapacityJ: 45e3}}
		for n := range int(wholeS * 10) {
			a.states = append(a.states, state{timeS: float64(n) / 10, State: wholeState(a, float64(n)/10)})
		}
		f.aircraft = append(f.aircraft, a)
	}
	return f
}

// wholeState is where an aircraft of wholeFlight is at a moment.
func wholeState(a *aircraft, t float64) record.State {
	s := record.State{PositionM: a.StandM, Mode: hold, OnGround: true, Landed: true, PackJ: 45e3, SpentJ: 150 * max(0, min(t,
		homeS)-tookOffS)}
	s.LeftJ = s.PackJ - s.SpentJ
	const cruiseMPS = 8
	north := cruiseMPS * (max(0, min(t, holdsS+2)-slotsBeginS) + max(0, min(t, returnsS)-resumesS))
	if t > returnsS {
		north *= max(0, 1-(t-returnsS)/(landsS-returnsS))
	}
	if s.PositionM[1] += north; t < tookOffS || t >= homeS {
		return s
	}
	s.OnGround, s.Landed, s.Armed = false, false, true
	switch {
	case t < slotsBeginS-5:
		s.Mode, s.PositionM[2], s.VelocityMPS[2] = takeoff, min(4*(t-tookOffS), 100), 4
	case t < landsS:
		s.Mode, s.PositionM[2] = offboard, 100
		if t > slotsBeginS && !(t > holdsS+2 && t < resumesS) {
			s.VelocityMPS[1] = cruiseMPS
		}
	default:
		s.Mode, s.PositionM[2], s.VelocityMPS[2] = land, max(100*(homeS-t)/(homeS-landsS), 0), -0.7
	}
	return s
}

// judgedWhole judges a flight by the rules of motion and of packs.
func judgedWhole(f *flight) map[string]Finding {
	all := map[string]Finding{}
	for _, a := range f.aircraft {
		a.derive(f)
	}
	for _, rule := range slices.Concat(motionRules, packRules) {
		c := &check{flight: f, finding: Finding{Rule: rule.Name, Assumed: map[string]float64{}}}
		rule.judge(c)
		all[rule.Name] = c.finding
	}
	return all
}

// budget adds the order of a budget that bounds the packs.
func (f *flight) bound(p telemetry.Pack) {
	for k := range f.aircraft {
		p.Aircraft = k + 1
		f.orders = append(f.orders, &order{id: "packs", kind: telemetry.KindBudget, deliveredS: 2, firstS: 2, answeredS: 2, accepted: true,
			budget: telemetry.Budget{ID: "packs", Packs: []telemetry.Pack{p}}})
	}
}

// One whose link was cut for some seconds follows setpoints again without the crew; its autopilot's hold ends by them.
func TestRejoinsAfterGap(t *testing.T) {
	for _, x := range []struct {
		cutS, heldS float64
		broken      int
	}{{4, 4, 0}, {4, 18, 1}, {14, 24, 0}} {
		f := wholeFlight()
		f.from(1, slotsBeginS+10, slotsBeginS+10+x.heldS, func(s *state) { s.Mode = hold })
		f.simulate("link_loss", 1, slotsBeginS+9, slotsBeginS+9+x.cutS)
		if got := judgedWhole(f)["rejoin"]; got.Broken != x.broken {
			t.Errorf("%+v: %+v", x, got)
		}
	}
}

// One that its autopilot returns is passed only once it is down, which another with a near home waits for.
func TestWaitsForReturned(t *testing.T) {
	for mode, broken := range map[string]int{rtl: 0, land: 1} {
		const downS = 360
		f := wholeFlight()
		a := f.aircraft[1]
		a.stopsInM = 27
		f.from(1, landsS, homeS, func(s *state) { s.Mode = mode })
		f.from(2, landsS, wholeS, func(s *state) { s.State = wholeState(a, landsS-1) })
		for n := range 10 * int(downS-wholeS+10) {
			at := wholeS + float64(n)/10
			a.states = append(a.states, state{timeS: at, State: wholeState(a, landsS-1)})
			if at >= downS {
				a.states[len(a.states)-1].State = wholeState(a, wholeS)
			}
		}
		f.endS = downS + 10
		if got := judgedWhole(f)["return"]; got.Broken != broken {
			t.Errorf("%s: %+v", mode, got)
		}
	}
}

// After a stop setpoints slow a PX4 down before its own Hold does, and once a disk is back they end its failsafe's Hold at once.
func TestSlowsAndRejoins(t *testing.T) {
	for _, x := range []struct {
		stopped  bool
		speedMPS float64 // as it is left to its Hold, a second after the stop
		holdsS   float64 // after the disk
		rule     string
		broken   int
	}{{true, 2, 0, "stop", 0}, {true, 9, 0, "stop", 1}, {false, 0, 1, "rejoin", 0}, {false, 0, 4, "rejoin", 1}} {
		const atS, diskS = slotsBeginS + 5, 20
		f := wholeFlight()
		if x.stopped {
			f.orders[0].mission.Action, f.orders[0].deliveredS, f.orders[0].firstS = telemetry.ActionStop, atS, atS
			f.from(1, atS+1, wholeS, func(s *state) { s.Mode, s.VelocityMPS = hold, point{x.speedMPS} })
			f.from(2, atS+1, wholeS, func(s *state) { s.Mode, s.VelocityMPS = hold, point{} })
		} else {
			f.simulate("disk_stall", 0, atS, atS+diskS)
			f.from(1, atS+14, atS+diskS+x.holdsS, func(s *state) { s.Mode, s.Failsafe = hold, true })
		}
		if got := judgedWhole(f)[x.rule]; got.Broken != x.broken {
			t.Errorf("%+v: %+v", x, got)
		}
	}
}

// from changes the states of an aircraft from a moment to another.
func (f *flight) from(number int, fromS, toS float64, change func(*state)) {
	for k := range f.aircraft[number-1].states {
		if s := &f.aircraft[number-1].states[k]; s.timeS >= fromS && s.timeS < toS {
			change(s)
		}
	}
}

// fault adds something that was simulated.
func (f *flight) simulate(kind string, number int, fromS, toS float64) {
	f.faults = append(f.faults, faultSpan{span{fromS, toS}, kind, number, ""})
}

// A flight that keeps every rule breaks none, and each of these breaks the rule that it names.
func TestMotionRules(t *testing.T) {
	for name, f := range map[string]*flight{"px4": wholeFlight()} {
		for rule, x := range judgedWhole(f) {
			if x.Broken > 0 {
				t.Errorf("%s: %s is broken: %s", name, rule, x.First)
			}
		}
	}
	to := func(number int) func(*state) { // over the other one
		return func(s *state) { s.PositionM[0] = 500 + 60*float64(2-number) + 3 }
	}
	for rule, change := range map[string]func(*flight){
		"separation": func(f *flight) { f.from(1, 60, 61, to(1)) },
		"least separation": func(f *flight) {
			f.from(1, 60, 61, func(s *state) { s.PositionM[0] = 551 })
		},
		"fence": func(f *flight) {
			f.from(1, 60, 61, func(s *state) { s.PositionM[0] = -6 })
		},
		"height": func(f *flight) {
			f.from(2, 72, 73, func(s *state) { s.PositionM[2], s.Mode = 300, hold })
		},
		"speed": func(f *flight) { f.from(1, 60, 61, func(s *state) { s.VelocityMPS[0] = 20 }) },
		"hold": func(f *flight) {
			f.from(1, 0, wholeS, func(s *state) { s.LeftJ += 20e3 }) // with a pack that nothing ends
			f.from(1, 80, 85, func(s *state) { s.VelocityMPS[0] = 2 })
		},
		"hold drifts": func(f *flight) {
			f.from(1, 0, wholeS, func(s *state) { s.LeftJ += 20e3 })
			f.from(1, 80, 90, func(s *state) { s.PositionM[1] += s.timeS - 80 })
		},
		"moves on": func(f *flight) {
			for k := 1; k < 3; k++ {
				f.from(k, resumesS, returnsS, func(s *state) { s.PositionM[1] = 756 })
			}
		},
		"stop": func(f *flight) { f.orders[0].mission.Action, f.orders[0].deliveredS = telemetry.ActionStop, 92 },
		"return": func(f *flight) {
			f.from(1, returnsS, wholeS, func(s *state) { *s = state{timeS: s.timeS, State: wholeState(f.aircraft[0], 80)} })
			f.from(2, returnsS, wholeS, func(s *state) { *s = state{timeS: s.timeS, State: wholeState(f.aircraft[1], 80)} })
			f.endS = 500
		},
		"pack": func(f *flight) { f.from(1, 100, 101, func(s *state) { s.LeftJ = -1 }) },
		"failsafe": func(f *flight) {
			f.from(1, 100, 101, func(s *state) { s.Mode, s.Failsafe = hold, true })
		},
		"climb": func(f *flight) {
			f.from(1, 0, 45, func(s *state) { *s = state{timeS: s.timeS, State: wholeState(f.aircraft[0], 1)} })
		},
		"rejoin": func(f *flight) {
			f.simulate(record.LeaderDown, 0, 60, 62)
			f.statuses = append(f.statuses, status{timeS: 63})
			f.from(1, 62, 80, func(s *state) { s.Mode = hold })
		},
		"touchdown":   func(f *flight) { f.from(1, 199, homeS, func(s *state) { s.VelocityMPS[2] = -2 }) },
		"home":        func(f *flight) { f.from(1, 190, wholeS, func(s *state) { s.PositionM[1] += 6 }) },
		"taken place": func(f *flight) { f.from(1, 190, wholeS, func(s *state) { s.PositionM[0] = 551 }) },
		"leaves": func(f *flight) {
			f.from(1, 0, wholeS, func(s *state) { s.LeftJ += 60e3 })
			f.from(1, 60, 65, func(s *state) { s.Mode = land })
		},
		"left up": func(f *flight) { f.from(1, 100, 115, func(s *state) { s.Mode = hold }) },
		"flew": func(f *flight) {
			for k := 1; k < 3; k++ {
				f.from(k, slotsBeginS, returnsS, func(s *state) { s.PositionM[1] = 500 })
			}
		},
		"reserve": func(f *flight) { f.bound(telemetry.Pack{ReserveJ: new(18e3)}) },
		"lands at reserve": func(f *flight) {
			f.bound(telemetry.Pack{Reserve: new(0.2)})
			for k := 1; k < 3; k++ {
				f.from(k, 0, wholeS, func(s *state) { s.LeftJ -= 9e3 })
			}
		},
		"uses pack": func(f *flight) {
			f.bound(telemetry.Pack{Reserve: new(0.2)})
			f.orders = slices.DeleteFunc(f.orders, func(o *order) bool { return o.mission.Action == telemetry.ActionReturn })
			for k := 1; k < 3; k++ {
				f.from(k, 0, wholeS, func(s *state) { s.LeftJ += 6e3 })
			}
		},
	} {
		t.Run(rule, func(t *testing.T) {
			f := wholeFlight()
			slices.SortFunc(f.orders, func(a, b *order) int { return int(b.deliveredS - a.deliveredS) })
			change(f)
			if x := judgedWhole(f)[rule]; x.Broken == 0 {
				t.Errorf("it is kept: active %.1f, %.2f of its bound used, assumed %v", x.Active, x.Used, x.Assumed)
			}
		})
	}
}

// An aircraft follows a jump of its reported height until its leader knows it: a second, and another where positions had no fix.
func TestFollowsAJumpOfItsHeight(t *testing.T) {
	for _, x := range []struct {
		belowM float64
		noFix  bool
		toS    float64
		keeps  bool
	}{{13, false, 74, true}, {15, false, 74, false}, {13, false, 76, false}, {26, true, 77, true}, {28, true, 77, false}} {
		f := wholeFlight()
		f.faults = append(f.faults, faultSpan{span{70, 70}, record.HeightJump, 1, "85"})
		if x.noFix {
			f.faults = append(f.faults, faultSpan{span{70.9, 70.9}, record.WrongSample, 1, "no_fix"})
		}
		f.from(1, 71, x.toS, func(s *state) { s.PositionM[2] -= x.belowM })
		if got := judgedWhole(f)["height"]; got.Broken == 0 != x.keeps {
			t.Errorf("%+v: %+v", x, got)
		}
	}
}

// One that comes to rest in a hold stays there, one that is low climbs before it flies anywhere and before the slots begin, an
// ArduCopter has HEARTBEATs while its leader reads the checkpoint, and what a pilot does once it is late excuses no way home.
func TestMoreOfMotion(t *testing.T) {
	for name, x := range map[string]struct {
		rule   string
		change func(*flight)
	}{
		"flown back": {"hold drifts", func(f *flight) {
			f.from(1, 0, wholeS, func(s *state) { s.LeftJ += 20e3 })
			f.from(1, holdsS, holdsS+3, func(s *state) { s.PositionM[1] += 15 })
		}},
		"low and fast": {"height", func(f *flight) { f.from(2, 60, 70, func(s *state) { s.PositionM[2] = 60 }) }},
		"slots begin":  {"height", func(f *flight) { f.from(2, slotsBeginS, slotsBeginS+2, func(s *state) { s.PositionM[2] = 60 }) }},
		"reads long": {"failsafe", func(f *flight) {
			f.aircraft[0].Autopilot = "ardupilot"
			f.simulate(record.LeaderDown, 0, 60, 80)
			f.simulate(record.LeaderLoads, 0, 62, 80)
			f.from(1, 70, wholeS, func(s *state) { s.Mode, s.Failsafe = rtl, true })
		}},
		"a pilot ends it": {"return", func(f *flight) {
			f.from(1, returnsS, wholeS, func(s *state) { *s = state{timeS: s.timeS, State: wholeState(f.aircraft[0], 80)} })
			for k := range 4000 {
				s := state{timeS: wholeS + float64(k)/10, State: wholeState(f.aircraft[0], 80)}
				f.aircraft[0].states = append(f.aircraft[0].states, s)
			}
			f.simulate(record.PilotActs, 1, 600, 601)
			f.endS = 620
		}},
	} {
		f := wholeFlight()
		x.change(f)
		if got := judgedWhole(f)[x.rule]; got.Broken == 0 {
			t.Errorf("%s: %s is kept: %+v", name, x.rule, got)
		}
	}
}

// What an assumption suspends is counted, and it suspends nothing else.
func TestAssumptions(t *testing.T) {
	f := wholeFlight()
	f.from(1, 100, 101, func(s *state) { s.Mode, s.Failsafe = hold, true })
	f.simulate("link_loss", 1, 95, 101)
	if x := judgedWhole(f)["failsafe"]; x.Broken > 0 || x.Assumed["link cut"] != 1 {
		t.Errorf("%+v", x)
	}
	f = wholeFlight()
	f.from(2, 100, 101, func(s *state) { s.Mode, s.Failsafe = hold, true })
	f.simulate("link_loss", 1, 95, 101)
	if x := judgedWhole(f)["failsafe"]; x.Broken != 1 {
		t.Errorf("a link that is cut excuses another aircraft: %+v", x)
	}
}

// A rule of two aircraft does not forget one pair for another.
func TestThreeAircraft(t *testing.T) {
	f := wholeFlight()
	third := *f.aircraft[1]
	third.number, third.states = 3, slices.Clone(third.states)
	for k := range third.states {
		third.states[k].PositionM[0] += 300
	}
	f.aircraft = append(f.aircraft, &third)
	f.from(1, 60, 61, func(s *state) { s.PositionM[0] = 563 })
	if x := judgedWhole(f)["separation"]; x.Broken != 1 {
		t.Errorf("%+v", x)
	}
}

func TestSpans(t *testing.T) {
	inf := math.Inf(1)
	s := newSpans(span{3, 4}, span{1, 2}, span{2, 2.5}, span{5, 5})
	for name, c := range map[string]struct{ got, want spans }{
		"joined":  {s, spans{{1, 2.5}, {3, 4}}},
		"and":     {s.and(spans{{2, 3.5}}), spans{{2, 2.5}, {3, 3.5}}},
		"or":      {s.or(spans{{2.4, 3.1}}), spans{{1, 4}}},
		"not":     {s.not(), spans{{-inf, 1}, {2.5, 3}, {4, inf}}},
		"without": {s.without(spans{{0, 2}}), spans{{2, 2.5}, {3, 4}}},
		"wider":   {s.wider(0, 0.5), spans{{1, 4.5}}},
		"later":   {s.from(1), spans{{2, 2.5}}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	if s.contains(2.5) || !s.contains(1) || s.lastBefore(2.7) != 2.5 || s.lengthS() != 2.5 || !s.touches(2.6, 3) {
		t.Errorf("%v", s)
	}
}

// One that another kept from its home may land beside it: also one that refuses its mode, which the crew had given back, gives way to
// nobody.
func TestHomeIsTaken(t *testing.T) {
	broken := func(refuses bool) int {
		f := wholeFlight()
		f.from(1, 190, wholeS, func(s *state) { s.PositionM[1] += 6 })
		if refuses {
			f.simulate(record.RefusesMode, 2, 90, 500)
		}
		home := f.aircraft[0].states[0].PositionM
		f.from(2, 100, 200, func(s *state) { s.Mode, s.PositionM[0], s.PositionM[1] = "POSCTL", home[0]+14, home[1] })
		return judgedWhole(f)["home"].Broken
	}
	if with, without := broken(true), broken(false); with > 0 || without == 0 {
		t.Errorf("6 m beside its home, broken %d times, %d without another that refuses its mode", with, without)
	}
}

// One whose pack lost most of its charge lands beside its home where that holds too little to wait, and only there.
func TestHomeOfALowPack(t *testing.T) {
	for _, x := range []struct {
		lost     bool
		leftJ    float64 // as it begins to land
		breaches bool
	}{{true, 15e3, false}, {true, 25e3, true}, {false, 15e3, true}} {
		f := wholeFlight()
		f.from(1, returnsS, wholeS, func(s *state) { s.PositionM[1], s.LeftJ = 545, x.leftJ })
		if x.lost {
			f.simulate("low_battery", 1, 90, 90)
		}
		if got := judged(t, "home", f); (got.Broken > 0) != x.breaches {
			t.Errorf("%+v: %+v", x, got)
		}
	}
}
