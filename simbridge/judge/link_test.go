package judge

import (
	"math"
	"slices"
	"testing"

	"prefdt/inference/physics"
	"prefdt/simbridge/record"
	"prefdt/telemetry"
)

// Times of the flight that [linkFlight] is.
const (
	startS, armedS, upS, offboardS, overS = 5.0, 8.0, 9.0, 40.0, 60.0
)

// linkFlight is of two aircraft that take off and fly east beside each other, and of a leader that keeps every rule.
func linkFlight(autopilot string) *flight {
	f := &flight{endS: overS, epochS: offboardS}
	f.Physics = physics.Constants{AltitudeM: 100, AreaSideM: 1000, SeparationM: 10}
	f.AMSLM = 488
	f.orders = []*order{{id: "s", kind: telemetry.KindMission, sentS: startS, deliveredS: startS, firstS: startS, answeredS: startS,
		accepted: true,
		mission:  telemetry.Mission{Action: telemetry.ActionStart}}}
	for k := range 2 {
		a := &aircraft{Aircraft: record.Aircraft{Autopilot: autopilot, StandM: point{500, 500 + 40*float64(k), 0}}, number: k + 1}
		a.speedMPS = 12
		f.aircraft = append(f.aircraft, a)
		interval := command("MAV_CMD_SET_MESSAGE_INTERVAL", 147, 500_000)
		interval.Harmless = true
		landed := command("MAV_CMD_SET_MESSAGE_INTERVAL", 245, 200_000)
		landed.Harmless = true
		arm := command(armDisarm, 1)
		arm.Mode = offboard
		a.got = append(a.got, sent(a, 2, interval), sent(a, 2, landed), sent(a, armedS, arm))
		for n := range int(overS * 10) {
			t := float64(n) / 10
			s := record.State{PositionM: a.StandM, Mode: hold, OnGround: t < upS, Landed: t < upS, Armed: t >= armedS}
			if t >= upS {
				s.Mode, s.PositionM[2] = takeoff, min(4*(t-upS), 100)
			}
			if t >= offboardS {
				s.Mode, s.VelocityMPS[0] = offboard, 5
				s.PositionM[0] += 5 * (t - offboardS)
			}
			a.states = append(a.states, state{timeS: t, State: s})
			if n%10 == 0 {
				a.beats = append(a.beats, heartbeat{t, &record.Heartbeat{Mode: s.Mode, Armed: s.Armed}})
				a.got = append(a.got, sent(a, t, record.Got{Other: "Heartbeat", Target: -1, Harmless: true}))
			}
			if t >= offboardS || t >= offboardS-0.6 && !a.isCopter() {
				a.got = append(a.got, sent(a, t, setpointOf(point{s.PositionM[0] + 0.5, s.PositionM[1], 100}, 5)))
			}
			if t == offboardS && !a.isCopter() {
				a.got = append(a.got, sent(a, t, record.Got{Command: setMode, Param: []record.Number{1, 6, 0, 0, 0, 0, 0}}))
			}
		}
	}
	for t := 1.0; t < overS; t++ {
		if t >= offboardS {
			f.beacons = append(f.beacons, beacon{t, telemetry.Slot{Slot: int(t - offboardS), SlotMS: 1000, DecideByMS: 100}})
			continue
		}
		f.statuses = append(f.statuses, status{t, telemetry.Status{State: telemetry.StateIdle}})
	}
	return f
}

func setpointOf(at point, eastMPS float64) record.Got {
	n := record.Number(at[0])
	return record.Got{Setpoint: &record.Setpoint{PositionM: [3]record.Number{n, record.Number(at[1]), record.Number(at[2])},
		VelocityMPS: [3]record.Number{record.Number(eastMPS), 0, 0}}}
}

// sent is a message that an aircraft receives at a moment, in the state that it has then.
func sent(a *aircraft, timeS float64, g record.Got) arrival {
	if g.Target == 0 {
		g.Target = a.number
	}
	return arrival{timeS: timeS, Got: &g}
}

// judged derives what a flight needs, and judges it by the rules of links.
func (f *flight) judged() map[string]Finding {
	all := map[string]Finding{}
	for _, a := range f.aircraft {
		slices.SortStableFunc(a.got, func(x, y arrival) int {
			switch {
			case x.timeS < y.timeS:
				return -1
			case x.timeS > y.timeS:
				return 1
			}
			return 0
		})
		for k := range a.got {
			g, s := a.got[k].Got, a.at(a.got[k].timeS)
			g.Position, g.Velocity, g.Armed, g.Landed = s.PositionM, s.VelocityMPS, s.Armed, s.Landed
			if g.Mode == "" {
				g.Mode = s.Mode
			}
		}
		a.derive(f)
	}
	for _, rule := range linkRules {
		c := &check{flight: f, finding: Finding{Rule: rule.Name, Assumed: map[string]float64{}}}
		rule.judge(c)
		all[rule.Name] = c.finding
	}
	return all
}

// receives has aircraft 1 receive a message, in addition.
func (f *flight) receives(timeS float64, g record.Got) {
	a := f.aircraft[0]
	a.got = append(a.got, sent(a, timeS, g))
}

func command(name string, params ...record.Number) record.Got {
	return record.Got{Command: name, Param: append(params, make([]record.Number, 7-len(params))...)}
}

// receivesNone has aircraft 1 not receive messages of a kind for a while.
func (f *flight) receivesNone(fromS, toS float64, is func(*arrival) bool) {
	a := f.aircraft[0]
	a.got = slices.DeleteFunc(a.got, func(g arrival) bool { return g.timeS > fromS && g.timeS < toS && is(&g) })
}

// steers changes each setpoint of aircraft 1 from a moment on.
func (f *flight) steers(fromS float64, change func(*record.Setpoint)) {
	for _, g := range f.aircraft[0].got {
		if g.isSetpoint() && g.timeS >= fromS {
			change(g.Setpoint)
		}
	}
}

// steersOnce changes the next setpoint.
func (f *flight) steersOnce(fromS float64, change func(*record.Setpoint)) {
	for _, g := range f.aircraft[0].got {
		if g.isSetpoint() && g.timeS >= fromS {
			change(g.Setpoint)
			return
		}
	}
}

func (f *flight) flies(fromS float64, change func(*state)) {
	for k := range f.aircraft[0].states {
		if s := &f.aircraft[0].states[k]; s.timeS >= fromS {
			change(s)
		}
	}
}

// lands has aircraft 1 land, and say so, and setpoints go on.
func (f *flight) lands(fromS float64) {
	f.flies(fromS, func(s *state) { s.Mode = land })
	for k := range f.aircraft[0].beats {
		if h := &f.aircraft[0].beats[k]; h.timeS >= fromS {
			h.Mode = land
		}
	}
}

func (f *flight) fails(number int, kind string, fromS, toS float64) {
	f.faults = append(f.faults, faultSpan{span: span{fromS, toS}, kind: kind, aircraft: number})
}

// silences has no HEARTBEAT of aircraft 1 be sent for a while.
func (f *flight) silences(fromS, toS float64) {
	a := f.aircraft[0]
	a.beats = slices.DeleteFunc(a.beats, func(h heartbeat) bool { return h.timeS > fromS && h.timeS < toS })
}

func TestLinkRules(t *testing.T) {
	nan := record.Number(math.NaN())
	asks := func(g *arrival) bool { return g.Command == "MAV_CMD_REQUEST_MESSAGE" }
	pilotActs := func(f *flight) {
		f.fails(1, record.PilotActs, 50, math.Inf(1))
		f.flies(50, func(s *state) { s.Mode = posctl })
		for k := range f.aircraft[0].beats {
			if h := &f.aircraft[0].beats[k]; h.timeS > 50 {
				h.Heartbeat = &record.Heartbeat{Mode: posctl, Armed: true}
			}
		}
	}
	cases := []struct {
		rule, autopilot string
		keeps, breaks   func(*flight) // what is changed of a flight that keeps every rule; nil: nothing
	}{
		{"pilot", "px4", func(f *flight) { pilotActs(f); f.receivesNone(51, overS, (*arrival).isSetpoint) }, pilotActs},
		{"whitelist", "px4", func(f *flight) { f.receives(50, command(setMode, 1, 4, 6)) },
			func(f *flight) { f.receives(50, command(setMode, 1, 4, 2)) }},
		{"whitelist", "px4", func(f *flight) { f.receives(armedS, command(commandTakeOff, 0, 0, 0, nan, nan, nan, 588)) },
			func(f *flight) { f.receives(armedS, command(commandTakeOff, 0, 0, 0, nan, nan, nan, 100)) }},
		{"whitelist", "ardupilot", func(f *flight) { f.receives(armedS, command(commandTakeOff, 0, 0, 0, nan, nan, nan, 100)) },
			func(f *flight) { f.receives(50, record.Got{Other: "SetMode"}) }},
		{"whitelist", "px4", func(f *flight) { pilotActs(f); f.receives(50.5, command(setMode, 1, 4, 6)) },
			func(f *flight) { pilotActs(f); f.receives(52, command(setMode, 1, 4, 6)) }}, // of what a pilot flies
		{"disarm", "px4", nil, func(f *flight) { f.receives(50, command(armDisarm, 0)) }},
		{"address", "px4", nil, func(f *flight) { f.receives(50, record.Got{Other: "CommandLong", Target: 2}) }},
		{"unordered", "px4", nil, func(f *flight) { f.receives(startS-1, command(setMode, 1, 4, 3)) }},
		{"arm", "px4", nil, func(f *flight) { f.orders[0].accepted = false }},
		{"arm", "px4", func(f *flight) { f.receives(armedS+9, command(armDisarm, 1)) },
			func(f *flight) { f.receives(armedS+11, command(armDisarm, 1)) }},
		{"arm", "ardupilot", func(f *flight) { f.flies(armedS+1, func(s *state) { s.Unready = true }) },
			func(f *flight) { f.flies(0, func(s *state) { s.Unready = true }) }},
		{"take-off", "px4", func(f *flight) { f.receives(50, command(armDisarm, 1)) },
			func(f *flight) {
				f.receives(50, command(armDisarm, 1))
				f.flies(0, func(s *state) { s.PositionM[1] = 530 })
			}},
		{"ground", "px4", nil, func(f *flight) { f.receives(startS, setpointOf(point{500, 500, 100}, 0)) }},
		{"no heartbeat", "px4", func(f *flight) { f.silences(42, 53); f.receivesNone(52, 53, (*arrival).isSetpoint) },
			func(f *flight) { f.silences(42, 53) }},
		{"no position", "px4", func(f *flight) { f.fails(1, "link_loss", 49, 52) }, func(f *flight) { f.fails(1, "link_loss", 49, 53) }},
		{"gap", "px4", func(f *flight) { f.fails(1, "link_loss", 49, 51); f.receivesNone(50, 51, (*arrival).isSetpoint) },
			func(f *flight) { f.receivesNone(50, 50.35, (*arrival).isSetpoint) }},
		{"one stream", "px4", nil, func(f *flight) {
			for n := range 5 {
				f.receives(50+float64(n)/10, setpointOf(point{550, 500, 100}, 5))
			}
		}},
		{"leader down", "px4", func(f *flight) {
			f.fails(0, record.LeaderDown, 50, 51)
			f.receivesNone(50, 51, (*arrival).isSetpoint)
			f.aircraft = f.aircraft[:1]
		}, func(f *flight) { f.fails(0, record.LeaderDown, 50, 51) }},
		{"stream end", "px4", func(f *flight) { f.beacons = f.beacons[:8] }, func(f *flight) { f.beacons = f.beacons[:3] }},
		{"take-off ended", "ardupilot", func(f *flight) { f.receives(37, setpointOf(point{500, 500, 100}, 0)) },
			func(f *flight) { f.receives(20, setpointOf(point{500, 500, 100}, 0)) }},
		{"take-off ended", "ardupilot", func(f *flight) { f.receives(37, setpointOf(point{500, 500, 100}, 0)) }, func(f *flight) {
			f.flies(36, func(s *state) { s.VelocityMPS[2] = 2 })
			f.receives(37, setpointOf(point{500, 500, 100}, 0))
		}},
		{"pilot", "px4", func(f *flight) { // its leader was stopped as its pilot took it, and reads that first
			pilotActs(f)
			f.faults = append(f.faults, faultSpan{span{49, 53}, record.LeaderDown, 0, "stopped"})
			f.receivesNone(50, overS, (*arrival).commands)
		}, func(f *flight) {
			pilotActs(f)
			f.faults = append(f.faults, faultSpan{span{49, 53}, record.LeaderDown, 0, "stopped"})
			f.receivesNone(50, overS, (*arrival).commands)
			f.receives(53.02, setpointOf(point{550, 500, 100}, 0))
		}},
		{"followed", "px4", func(f *flight) { f.lands(58.5) }, func(f *flight) { f.lands(55) }},
		{"engages", "px4", nil, func(f *flight) { f.receivesNone(30, offboardS+0.05, (*arrival).isSetpoint) }},
		{"engages", "px4", nil, func(f *flight) { f.receives(20, command(setMode, 1, 6)) }},
		{"engages", "px4", nil, func(f *flight) {
			f.faults = append(f.faults, faultSpan{span: span{25, offboardS + 5}, kind: "disk_stall"})
		}},
		{"mode commands", "px4", func(f *flight) { f.receives(50, command(setMode, 1, 4, 3)) }, func(f *flight) {
			for n := range 5 {
				f.receives(50+float64(n), command(setMode, 1, 4, 3))
			}
		}},
		{"landing place", "px4", func(f *flight) { f.receives(offboardS, command(setMode, 1, 4, 6)) },
			func(f *flight) { f.receives(50, command(setMode, 1, 4, 6)) }},
		{"station", "px4", nil, func(f *flight) { f.receivesNone(50, 52, func(g *arrival) bool { return g.Other == "Heartbeat" }) }},
		{"early heartbeats", "px4", func(f *flight) { f.fails(0, record.LeaderDown, 30, 50) },
			func(f *flight) { f.fails(0, record.LeaderDown, 30, 53) }},
		{"asked", "px4", nil, func(f *flight) { f.receivesNone(0, 5, func(g *arrival) bool { return g.Harmless }) }},
		{"asked", "px4", nil, func(f *flight) {
			f.receivesNone(0, 5, func(g *arrival) bool { return g.Harmless && g.param(0) == 245 })
		}},
		{"asks again", "px4", func(f *flight) { f.silences(45, 50); f.receives(47, command("MAV_CMD_REQUEST_MESSAGE", 0)) },
			func(f *flight) { f.silences(45, 50); f.receivesNone(45, 50, asks) }},
		{"incomplete", "px4", nil, func(f *flight) { f.steers(50, func(s *record.Setpoint) { s.VelocityMPS[1] = nan }) }},
		{"commanded speed", "px4", func(f *flight) { f.steers(50, func(s *record.Setpoint) { s.VelocityMPS[0] = 12 }) },
			func(f *flight) { f.steers(50, func(s *record.Setpoint) { s.VelocityMPS[0] = 12.1 }) }},
		{"commanded speed", "px4", nil, func(f *flight) { f.steers(50, func(s *record.Setpoint) { s.PositionM[1] -= 14 }) }},
		{"commanded fence", "px4", func(f *flight) {
			f.flies(50, func(s *state) { s.PositionM[1] = -5 })
			f.steers(50, func(s *record.Setpoint) { s.PositionM[1] = -5 })
		}, func(f *flight) { f.steers(50, func(s *record.Setpoint) { s.PositionM[1] = -1 }) }},
		{"commanded height", "px4", nil, func(f *flight) { f.steers(50, func(s *record.Setpoint) { s.PositionM[2] = 101 }) }},
		{"commanded height", "px4", nil, func(f *flight) { f.steers(50, func(s *record.Setpoint) { s.VelocityMPS[2] = 1 }) }},
		{"commanded height", "px4", func(f *flight) { // for a second no position showed the jump
			f.fails(1, record.HeightJump, 48.1, 48.1)
			f.faults = append(f.faults, faultSpan{span{48.5, 48.5}, record.WrongSample, 1, "no_fix"})
			f.steersOnce(50.2, func(s *record.Setpoint) { s.PositionM[2] = 101 })
		}, func(f *flight) {
			f.fails(1, record.HeightJump, 48.1, 48.1)
			f.steersOnce(50.2, func(s *record.Setpoint) { s.PositionM[2] = 101 })
		}},
		{"stale", "px4", func(f *flight) {
			f.beacons, f.aircraft = f.beacons[:15], f.aircraft[:1]
			f.steers(56, func(s *record.Setpoint) { s.VelocityMPS[0] = 0 })
		}, func(f *flight) { f.beacons = f.beacons[:15] }},
		{"commanded separation", "px4", func(f *flight) { f.steers(50, func(s *record.Setpoint) { s.PositionM[1] += 11 }) },
			func(f *flight) { f.flies(0, func(s *state) { s.PositionM[1] = 525 }); f.towardsOther(0.4) }},
		{"commanded separation", "px4", func(f *flight) { // they hover beside each other
			f.flies(50, func(s *state) { s.PositionM[1] = 529 })
			f.towardsOther(0.1)
		}, func(f *flight) {
			f.flies(50, func(s *state) { s.PositionM[1] = 531 })
			f.steers(50, func(s *record.Setpoint) { s.PositionM[1] = 531 })
		}},
		{"keeps off", "px4", func(f *flight) { f.besideLanding(523) }, func(f *flight) { f.besideLanding(526) }},
	}
	for _, x := range cases {
		t.Run(x.rule, func(t *testing.T) {
			for _, change := range []func(*flight){nil, x.keeps} {
				f := linkFlight(x.autopilot)
				if change != nil {
					change(f)
				}
				if found := f.judged()[x.rule]; found.Broken > 0 {
					t.Errorf("a flight that keeps it: %+v", found)
				}
			}
			f := linkFlight(x.autopilot)
			x.breaks(f)
			if found := f.judged()[x.rule]; found.Broken == 0 || found.Active == 0 {
				t.Errorf("a flight that breaks it: %+v", found)
			}
		})
	}
	tested := func(name string) bool {
		for _, x := range cases {
			if x.rule == name {
				return true
			}
		}
		return false
	}
	for _, r := range linkRules {
		if !tested(r.Name) {
			t.Errorf("no case of the rule %q", r.Name)
		}
	}
}

// towardsOther sends aircraft 1 north from 50 s on, for one tick or for longer.
func (f *flight) towardsOther(forS float64) {
	for _, g := range f.aircraft[0].got {
		if g.isSetpoint() && g.timeS >= 50 && g.timeS < 50+forS {
			g.Setpoint.PositionM[1], g.Setpoint.VelocityMPS[1] = 530, 5
		}
	}
}

// besideLanding has aircraft 1 be sent towards the other, which lands 18 m to the north of it.
func (f *flight) besideLanding(northM record.Number) {
	f.aircraft[0], f.aircraft[1] = f.aircraft[1], f.aircraft[0]
	f.flies(40, func(s *state) { s.Mode = land })
	f.aircraft[0], f.aircraft[1] = f.aircraft[1], f.aircraft[0]
	f.flies(50, func(s *state) { s.PositionM[1] = 522 })
	f.steers(50, func(s *record.Setpoint) { s.PositionM[1] = northM })
}

// TestGoodFlight has the flight that the cases change keep every rule of links.
func TestGoodFlight(t *testing.T) {
	for _, autopilot := range []string{"px4", "ardupilot"} {
		for name, found := range linkFlight(autopilot).judged() {
			if found.Broken > 0 {
				t.Errorf("%s, %s: %+v", autopilot, name, found)
			}
		}
	}
}

// TestConflictOfThree has two aircraft in conflict while a third one, clear of both, receives setpoints between theirs.
func TestConflictOfThree(t *testing.T) {
	f := linkFlight("px4")
	third := *linkFlight("px4").aircraft[0]
	third.number = 3
	for k := range third.states {
		third.states[k].PositionM[1] = 800
	}
	f.aircraft = append(f.aircraft, &third)
	f.flies(0, func(s *state) { s.PositionM[1] = 525 })
	f.towardsOther(0.5)
	if found := f.judged()["commanded separation"]; found.Broken == 0 {
		t.Errorf("%+v", found)
	}
}
