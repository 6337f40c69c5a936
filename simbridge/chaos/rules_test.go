package chaos

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/firmware/account"
	"prefdt/firmware/ledger"
	"prefdt/inference/physics"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/geo"
	"prefdt/telemetry"
)

var (
	middle = geo.Local{EastM: 500, NorthM: 500, UpM: 100}
	near   = geo.Local{EastM: 515, NorthM: 500, UpM: 100}
)

// offboardSetpoint is a setpoint that commands a velocity at the aircraft's position.
func offboardSetpoint(at geo.Local, east, north, timeS float64) autopilot.Received {
	return autopilot.Received{
		Setpoint: &autopilot.Setpoint{Position: at, Velocity: geo.Local{EastM: east, NorthM: north}},
		Body:     autopilot.Body{Position: at}, Mode: autopilot.ModeOffboard, Armed: true, TimeS: timeS, Target: 1,
	}
}

// state is the true state of an aircraft in flight in a mode.
func state(at geo.Local, east float64, mode autopilot.Mode, timeS float64) autopilot.State {
	return autopilot.State{Body: autopilot.Body{Position: at, Velocity: geo.Local{EastM: east}}, TimeS: timeS, Mode: mode, Armed: true,
		LeftJ: 1e5, PackJ: 150e3}
}

func onGround(at geo.Local, timeS float64) autopilot.State {
	at.UpM = 0
	return autopilot.State{Body: autopilot.Body{Position: at}, TimeS: timeS, OnGround: true, Landed: true, Mode: autopilot.ModeHold,
		LeftJ: 1e5, PackJ: 150e3}
}

// fly flies an aircraft in OFFBOARD for a while.
func fly(j *judge, at geo.Local, east, fromS, toS float64) {
	for s := fromS; s <= toS; s += 0.5 {
		j.handleMotion(0, state(at, east, autopilot.ModeOffboard, s))
	}
}

// takeOff takes an aircraft off from below a place.
func takeOff(j *judge, i int, at geo.Local, timeS float64) {
	j.handleMotion(i, onGround(at, timeS))
	j.handleMotion(i, state(geo.Local{EastM: at.EastM, NorthM: at.NorthM, UpM: 0.1}, 0, autopilot.ModeTakeoff, timeS+0.1))
	j.handleMotion(i, state(at, 0, autopilot.ModeTakeoff, timeS+20))
}

// land lets an aircraft touch down at a speed.
func land(j *judge, i int, at geo.Local, downMPS, timeS float64) {
	above := state(geo.Local{EastM: at.EastM, NorthM: at.NorthM, UpM: 0.1}, 0, autopilot.ModeLand, timeS)
	above.Velocity.UpM = -downMPS
	j.handleMotion(i, above)
	s := onGround(at, timeS+0.1)
	s.Spent = battery.Spent{FlightJ: j.aircraft[i].state.Spent.J()}
	j.handleMotion(i, s)
}

func commanded(id common.MAV_CMD, timeS float64, param ...float64) autopilot.Received {
	r := autopilot.Received{Command: id, TimeS: timeS, Target: 1}
	copy(r.Param[:], param)
	return r
}

func armCommand(timeS float64) autopilot.Received {
	return commanded(common.MAV_CMD_COMPONENT_ARM_DISARM, timeS, 1)
}

// pilotTakesPosition is a pilot's choice of Position, and the HEARTBEATs that show it.
func pilotTakesPosition(j *judge, atS float64, heartbeatsS ...float64) {
	j.pilotTookOver(0, atS, func(h autopilot.Heartbeat) bool { return h.Mode == autopilot.ModePosition })
	for _, s := range heartbeatsS {
		j.handleHeartbeat(0, autopilot.Heartbeat{TimeS: s, Mode: autopilot.ModePosition, Armed: true})
	}
}

// armThenDisarm is an aircraft that armed as ordered and was disarmed, known at 13 s.
func armThenDisarm(j *judge) {
	j.returnToLeader([]int{0}, true)
	j.handleReceived(0, armCommand(10))
	j.handleHeartbeat(0, autopilot.Heartbeat{TimeS: 11, Armed: true})
	j.handleHeartbeat(0, autopilot.Heartbeat{TimeS: 13})
}

// returnLonger has an aircraft hover on its return for so many seconds more than its charge allows.
func returnLonger(j *judge, seconds float64) {
	takeOff(j, 0, middle, 1)
	j.noteOrder(telemetry.ActionReturn, nil, []float64{30, 30})
	spent := j.aircraft[0].returnJ + seconds*j.limits.powerFactor*j.physics.Propulsion.PowerW(0)
	s := state(geo.Local{EastM: 500, NorthM: 500, UpM: 0.1}, 0, autopilot.ModeLand, 90)
	s.Spent.FlightJ = spent
	j.handleMotion(0, s)
	g := onGround(middle, 90.1)
	g.Spent.FlightJ = spent
	j.handleMotion(0, g)
}

// report is a user's report in slot 5, with a good link to aircraft 1 and none to 2.
var report = telemetry.Report{Slot: 5, CPUHz: 1e9, Gain: map[int]float64{1: 1e-9, 2: 1e-15},
	Task: &telemetry.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1}}

func decide(j *judge, user string, d telemetry.Decision) {
	j.aircraft[0].servedS, j.aircraft[1].servedS = j.aircraft[0].state.TimeS, j.aircraft[1].state.TimeS
	j.handleReport("u01", report)
	j.handleReport("u02", report)
	j.handleDecision(user, d)
}

// quietEnd is the end of a mission in which nothing was wrong.
func quietEnd() *ended {
	e := &ended{lastSlot: 1, wroteLedger: true, allowedJ: 200, leaderJ: 1100, truthJ: 1000, bySlot: []float64{300, 300, 0}, inSlotsJ: 600,
		slotsDue: 2, reachesSlots: true, resumed: true}
	e.flight.Rows = []account.Row{{Slot: 0, EnergyJ: 320}, {Slot: 1, EnergyJ: 290}}
	e.flight.State = ledger.State{Account: account.State{Aircraft: []account.AircraftAccount{{TransitJ: 250}, {TransitJ: 200}}}}
	return e
}

// end finishes a mission of two slots with a change.
func end(change func(*judge, *ended)) func(*judge) {
	return func(j *judge) {
		e := quietEnd()
		j.slotsOpened = 2
		change(j, e)
		j.finish(e, j.users.tasks, j.users.inTime)
	}
}

// believeWind has the ledger believe in a wind from the west in 30 slots, where 5 m/s blow.
func believeWind(eastMPS, sdMPS float64) func(*judge, *ended) {
	return func(_ *judge, e *ended) {
		e.flight.Rows, e.lastSlot, e.bySlot = nil, 29, make([]float64, 31)
		for n := range 30 {
			e.windMPS = append(e.windMPS, physics.Position{EastM: 5})
			e.flight.Rows = append(e.flight.Rows, account.Row{Slot: n,
				Seen: &account.Seen{Believed: account.Believed{WindMPS: &[2]float64{eastMPS, 0}, WindSDMPS: sdMPS}}})
		}
	}
}

// tellFloor tells the crew a floor after slot 39 of 100, with a shock at 20 and 10 kJ spent.
func tellFloor(floorJ float64) func(*judge) {
	return func(j *judge) {
		j.limits.slots, j.limits.shockSlot, j.limits.exactPacks = 100, 20, true
		for i, at := range []geo.Local{middle, near} {
			j.handleMotion(i, state(at, 8, autopilot.ModeOffboard, 50))
		}
		for range 9 {
			j.handleStatus(telemetry.Status{Slot: 39, State: telemetry.StateFlying, FloorJ: floorJ}, 10000)
		}
	}
}

// withCharge is an aircraft that flies with a share of its pack left.
func withCharge(at geo.Local, charge, timeS float64) autopilot.State {
	s := state(at, 8, autopilot.ModeOffboard, timeS)
	s.LeftJ, s.PackJ = charge*60e3, 60e3
	return s
}

// flyPacks is a mission of packs in which aircraft 1 flies.
func flyPacks(j *judge) {
	j.limits.reserve, j.limits.leastUp, j.limits.packs, j.limits.slots, j.limits.shockSlot = 0.2, 1, make([]packLimits, 2), 100, never
	takeOff(j, 0, middle, 1)
	j.lastSlot = 50
	j.handleMotion(0, withCharge(middle, 0.6, 30))
}

// landLeft lets it touch down at 90 s with a share of its pack left once its motors stand still.
func landLeft(j *judge, charge float64) {
	s := withCharge(geo.Local{EastM: 500, NorthM: 500, UpM: 0.1}, charge, 90)
	s.LeftJ += autopilot.LandDetectS * j.flightW(50, 0, geo.Local{})
	s.Mode, s.Spent = autopilot.ModeLand, j.aircraft[0].state.Spent
	j.handleMotion(0, s)
	s.Position.UpM, s.TimeS, s.OnGround, s.Landed = 0, 90.1, true, true
	j.handleMotion(0, s)
}

// leaderIsBack has its leader be back, 5 s before it has a share of its pack left, at 100 m over home.
func leaderIsBack(j *judge, charge float64) {
	j.noteLeaderReturned([]float64{30, 30})
	j.handleMotion(0, withCharge(middle, charge, 36))
}

// tellCharge has a status tell its charge at 40 s, where it has 0.6 of its pack, and its links were cut until then.
func tellCharge(charge, cutUntilS float64) func(j *judge) {
	return func(j *judge) {
		flyPacks(j)
		j.limits.exactPacks, j.aircraft[0].cutUntilS = true, cutUntilS
		j.handleMotion(0, withCharge(middle, 0.6, 40))
		j.handleStatus(telemetry.Status{Aircraft: []telemetry.StatusAircraft{{Number: 1, AgeS: new(0.1), Battery: &charge}}}, 0)
	}
}

// leaveForPack has it begin its descent.
func leaveForPack(j *judge) {
	s := withCharge(middle, 0.4, 50)
	s.Mode = autopilot.ModeLand
	j.handleMotion(0, s)
}

// leaveAfterShock has it land with much left, once flying has come to cost more at a time.
func leaveAfterShock(shockS float64) func(*judge) {
	return func(j *judge) {
		flyPacks(j)
		j.lastSlot, j.limits.shockSlot = 20, 20
		j.handleMotion(0, withCharge(middle, 0.5, shockS))
		leaveForPack(j)
		landLeft(j, 0.28)
	}
}

// copterClimbsByItself climbs from 40 m for 45 s, by the leader's setpoints, at a speed.
func copterClimbsByItself(j *judge, climbMPS float64) {
	j.aircraft[0].copter, j.aircraft[0].climbMPS = true, 2.5
	for s := 0.0; s < 45; s += 0.5 {
		fly(j, geo.Local{EastM: 500, NorthM: 500, UpM: min(40+climbMPS*s, 100)}, 0, 1+s, 1+s)
	}
}

// holdsBeside flies on after a hold, with another so far to the north that stops in so many metres.
func holdsBeside(j *judge, stopsInM, northM float64) {
	j.aircraft[1].stopsInM = stopsInM
	j.handleMotion(1, state(geo.Local{EastM: 500, NorthM: 500 + northM, UpM: 100}, 0, autopilot.ModeOffboard, 1))
	fly(j, middle, 8, 1, 10)
	j.noteOrder(telemetry.ActionHold, nil, []float64{10, 10})
	fly(j, middle, 8, 10.5, 20)
}

// copterComesIn is 20 s on its way into the area, with another so far beside it.
func copterComesIn(j *judge, eastM float64) {
	j.aircraft[0].copter, j.aircraft[0].stopsInM = true, 13
	j.handleMotion(1, state(geo.Local{EastM: 500 + eastM, NorthM: -20, UpM: 100}, 0, autopilot.ModeOffboard, 1))
	takeOff(j, 0, geo.Local{EastM: 500, NorthM: -20, UpM: 100}, 1)
	fly(j, geo.Local{EastM: 500, NorthM: -10, UpM: 100}, 0, 22, 42)
}

// setpointInClimb is a setpoint at a height of a take-off.
func setpointInClimb(j *judge, upM float64) {
	r := offboardSetpoint(geo.Local{EastM: 500, NorthM: 500, UpM: upM}, 0, 0, 5)
	r.Mode = autopilot.ModeTakeoff
	j.handleReceived(0, r)
}

func copterClimbs(j *judge, upM float64) {
	j.aircraft[0].copter = true
	setpointInClimb(j, upM)
}

// copterReturns is an ArduCopter whose failsafe returns it, at 10.5 s, with so many faults active.
func copterReturns(j *judge, disturbed int) {
	j.aircraft[0].copter, j.disturbed = true, disturbed
	fly(j, middle, 8, 1, 10)
	s := state(middle, 8, autopilot.ModeReturn, 10.5)
	s.Failsafe = true
	j.handleMotion(0, s)
}

// returnsPast is an ArduCopter that its failsafe returns past another at 18 s, whose last setpoint came at some time.
func returnsPast(j *judge, setpointS float64) {
	j.aircraft[0].copter, j.aircraft[0].leaderReturnedS = true, -100
	j.aircraft[1].setpointS, j.aircraft[1].leaderReturnedS = setpointS, -100
	j.handleMotion(1, state(geo.Local{EastM: 507, NorthM: 500, UpM: 100}, 0, autopilot.ModeHold, 18))
	s := state(middle, 8, autopilot.ModeReturn, 18)
	s.Failsafe = true
	j.pilotTookOver(0, 10, nil)
	j.handleMotion(0, s)
}

// resumedPast is an ArduCopter that its failsafe returned until 18 s and that, resumed, is near another at a time. A
// leader steers both again since two seconds before.
func resumedPast(j *judge, nowS float64) {
	returnsPast(j, 10)
	j.aircraft[0].pilot, j.aircraft[1].setpointS, j.aircraft[1].leaderReturnedS = nil, nowS, nowS-2
	j.handleMotion(1, state(geo.Local{EastM: 507, NorthM: 500, UpM: 100}, 0, autopilot.ModeOffboard, nowS))
	j.handleMotion(0, state(middle, 5, autopilot.ModeOffboard, nowS))
}

// waitsFarFromHome hovers 200 m from its home after a return, with another so far beside the middle of its way.
func waitsFarFromHome(j *judge, northM float64) {
	takeOff(j, 0, middle, 1)
	far := geo.Local{EastM: 700, NorthM: 500, UpM: 100}
	fly(j, far, 0, 22, 30)
	j.handleMotion(1, state(geo.Local{EastM: 600, NorthM: 500 + northM, UpM: 100}, 0, autopilot.ModeOffboard, 30))
	j.noteOrder(telemetry.ActionReturn, nil, []float64{30, 30})
	fly(j, far, 0, 31, 200)
}

// takesOffBeside has an aircraft in a mode in the air, 7 m from one that its pilot flies at a speed.
func takesOffBeside(j *judge, east float64, mode autopilot.Mode) {
	j.pilotTookOver(1, 0, nil)
	j.handleMotion(1, state(geo.Local{EastM: 507, NorthM: 500, UpM: 3}, east, autopilot.ModePosition, 1))
	j.handleMotion(0, state(geo.Local{EastM: 500, NorthM: 500, UpM: 3}, 0, mode, 1))
}

// ruleCases has cases of each rule that break it, and cases that are just inside it.
var ruleCases = []struct {
	rule  string
	name  string
	do    func(*judge)
	keeps bool
}{
	{"separation", "7 m apart", func(j *judge) {
		j.handleMotion(1, state(geo.Local{EastM: 507, NorthM: 500, UpM: 100}, 0, autopilot.ModeOffboard, 1))
		j.handleMotion(0, state(middle, 0, autopilot.ModeOffboard, 1))
	}, false},
	{"separation", "over a landed one, 8 m high", func(j *judge) {
		j.handleMotion(1, onGround(middle, 1))
		j.handleMotion(0, state(geo.Local{EastM: 502, NorthM: 500, UpM: 8}, 0, autopilot.ModeLand, 1))
	}, false},
	{"separation", "both with their pilots", func(j *judge) {
		j.pilotTookOver(0, 0, nil)
		j.pilotTookOver(1, 0, nil)
		j.handleMotion(1, state(geo.Local{EastM: 507, NorthM: 500, UpM: 100}, 0, autopilot.ModePosition, 1))
		j.handleMotion(0, state(middle, 0, autopilot.ModePosition, 1))
	}, true},
	{"separation", "one returns past another whose leader is away", func(j *judge) { returnsPast(j, 10) }, true},
	{"separation", "past another that is steered", func(j *judge) { returnsPast(j, 17.5) }, false},
	{"separation", "resumed, it comes to rest", func(j *judge) { resumedPast(j, 21) }, true},
	{"separation", "at rest for long", func(j *judge) { resumedPast(j, 23) }, false},
	{"separation", "a pilot flies up to one that takes off", func(j *judge) { takesOffBeside(j, -9.5, autopilot.ModeTakeoff) }, true},
	{"separation", "its take-off ended", func(j *judge) { takesOffBeside(j, -9.5, autopilot.ModeOffboard) }, false},
	{"separation", "it takes off beside one that hovers", func(j *judge) { takesOffBeside(j, 0, autopilot.ModeTakeoff) }, false},
	{"least separation", "9 m apart", func(j *judge) {
		j.handleMotion(1, state(geo.Local{EastM: 509, NorthM: 500, UpM: 100}, 0, autopilot.ModeOffboard, 1))
		j.handleMotion(0, state(middle, 0, autopilot.ModeOffboard, 1))
	}, false},
	{"fence", "outside", func(j *judge) { fly(j, geo.Local{EastM: 1006, NorthM: 500, UpM: 100}, 0, 1, 12) }, false},
	{"fence", "on its way in", func(j *judge) { fly(j, geo.Local{EastM: 1006, NorthM: 500, UpM: 100}, 0, 1, 8) }, true},
	{"fence", "late ones side by side on their way in", func(j *judge) { copterComesIn(j, 30) }, true},
	{"fence", "a late one that is alone", func(j *judge) { copterComesIn(j, 300) }, false},
	{"height", "too high", func(j *judge) { fly(j, geo.Local{EastM: 500, NorthM: 500, UpM: 109}, 0, 1, 13) }, false},
	{"height", "an ArduCopter that was resumed at 40 m", func(j *judge) { copterClimbsByItself(j, 2.5) }, true},
	{"height", "and stays there", func(j *judge) { copterClimbsByItself(j, 0) }, false},
	{"height", "as it overshoots", func(j *judge) { fly(j, geo.Local{EastM: 500, NorthM: 500, UpM: 106.7}, 0, 1, 13) }, true},
	{"speed", "too fast", func(j *judge) { j.aircraft[0].speedMPS = 6; fly(j, middle, 8, 1, 5) }, false},
	{"speed", "at the limit", func(j *judge) { j.aircraft[0].speedMPS = 6; fly(j, middle, 6.5, 1, 5) }, true},
	{"hold", "flies on", func(j *judge) {
		fly(j, middle, 8, 1, 10)
		j.noteOrder(telemetry.ActionHold, nil, []float64{10, 10})
		fly(j, middle, 8, 10.5, 20)
	}, false},
	{"hold", "flies on beside another", func(j *judge) { holdsBeside(j, 0, 35) }, true},
	{"hold", "flies on, and the other is far", func(j *judge) { holdsBeside(j, 0, 60) }, false},
	{"hold", "which follows late", func(j *judge) { holdsBeside(j, 27, 60) }, true},
	{"hold", "and resumed", func(j *judge) {
		j.noteOrder(telemetry.ActionHold, nil, []float64{1, 1})
		j.noteOrder(telemetry.ActionResume, nil, []float64{2, 2})
		fly(j, middle, 8, 3, 20)
	}, true},
	{"moves on", "stays", func(j *judge) {
		fly(j, middle, 0, 1, 10)
		j.noteOrder(telemetry.ActionResume, nil, []float64{10, 10})
		fly(j, middle, 0, 10.5, 30)
	}, false},
	{"stop", "stays in OFFBOARD", func(j *judge) {
		fly(j, middle, 8, 1, 5)
		j.noteOrder(telemetry.ActionStop, nil, []float64{5, 5})
		fly(j, middle, 0, 5.5, 12)
	}, false},
	{"return", "hovers over home", func(j *judge) {
		takeOff(j, 0, middle, 1)
		fly(j, middle, 0, 22, 30)
		j.noteOrder(telemetry.ActionReturn, nil, []float64{30, 30})
		fly(j, middle, 0, 31, 200)
	}, false},
	{"return", "waits for one in its way", func(j *judge) { waitsFarFromHome(j, 10) }, true},
	{"return", "waits for one beside it", func(j *judge) { waitsFarFromHome(j, 60) }, false},
	{"return", "lands in time", func(j *judge) {
		takeOff(j, 0, middle, 1)
		j.noteOrder(telemetry.ActionReturn, nil, []float64{30, 30})
		land(j, 0, middle, 0.7, 104)
	}, true},
	{"pack", "an empty one", func(j *judge) {
		s := state(middle, 8, autopilot.ModeOffboard, 5)
		s.LeftJ = -1
		j.handleMotion(0, s)
	}, false},
	{"pack", "brought down by its failsafe", func(j *judge) {
		s := state(middle, 0, autopilot.ModeReturn, 5)
		s.Failsafe = true
		j.handleMotion(0, s)
	}, false},
	{"failsafe", "no setpoints", func(j *judge) {
		fly(j, middle, 8, 1, 5)
		s := state(middle, 0, autopilot.ModeHold, 6)
		s.Failsafe = true
		j.handleMotion(0, s)
	}, false},
	{"failsafe", "no setpoints during a fault", func(j *judge) {
		j.disturb(1)
		fly(j, middle, 8, 1, 5)
		s := state(middle, 0, autopilot.ModeHold, 6)
		s.Failsafe = true
		j.handleMotion(0, s)
	}, true},
	{"climb", "stays on the ground", func(j *judge) {
		j.handleMotion(0, onGround(middle, 1))
		j.returnToLeader([]int{0}, true)
		j.noteOrder(telemetry.ActionStart, nil, []float64{1, 1})
		j.handleMotion(0, onGround(middle, 27))
	}, false},
	{"rejoin", "stays in Hold", func(j *judge) {
		fly(j, middle, 8, 1, 5)
		j.requireRejoin([]bool{true, false}, []float64{10, 10})
		j.handleMotion(0, state(middle, 0, autopilot.ModeHold, 20.5))
	}, false},
	{"rejoin", "is commanded again", func(j *judge) {
		j.requireRejoin([]bool{true, false}, []float64{10, 10})
		j.handleMotion(0, state(middle, 0, autopilot.ModeHold, 12))
		j.handleReceived(0, offboardSetpoint(middle, 0, 0, 13))
		fly(j, middle, 0, 13.5, 15)
		j.handleMotion(0, state(middle, 0, autopilot.ModeHold, 21))
	}, true},
	{"touchdown", "hard", func(j *judge) { takeOff(j, 0, middle, 1); land(j, 0, middle, 3, 90) }, false},
	{"touchdown", "soft", func(j *judge) { takeOff(j, 0, middle, 1); land(j, 0, middle, 0.9, 90) }, true},
	{"lands at reserve", "just below it", func(j *judge) { flyPacks(j); landLeft(j, 0.199) }, false},
	{"lands at reserve", "just above it", func(j *judge) { flyPacks(j); landLeft(j, 0.201) }, true},
	{"lands at reserve", "by as much as its sensor is off", func(j *judge) {
		flyPacks(j)
		j.limits.packs[0].sensorError, j.aircraft[0].state.Spent.FlightJ = 0.03, 20e3
		landLeft(j, 0.199)
	}, true},
	{"lands at reserve", "its leader came back too late", func(j *judge) {
		flyPacks(j)
		leaderIsBack(j, 0.25)
		landLeft(j, 0.199)
	}, true},
	{"lands at reserve", "its leader came back in time", func(j *judge) {
		flyPacks(j)
		leaderIsBack(j, 0.5)
		landLeft(j, 0.199)
	}, false},
	{"lands at reserve", "flying came to cost more, too late", func(j *judge) {
		flyPacks(j)
		j.lastSlot, j.limits.shockSlot = 20, 20
		j.handleMotion(0, withCharge(middle, 0.25, 40))
		j.handleMotion(0, withCharge(middle, 0.25, 51))
		landLeft(j, 0.199)
	}, true},
	{"lands at reserve", "after a pilot gave it back too late", func(j *judge) {
		flyPacks(j)
		pilotTakesPosition(j, 30, 30)
		j.handleMotion(0, withCharge(middle, 0.25, 60))
		j.returnToLeader([]int{0}, false)
		j.handleMotion(0, withCharge(middle, 0.25, 66))
		landLeft(j, 0.199)
	}, true},
	{"uses pack", "a quarter is left", func(j *judge) { flyPacks(j); leaveForPack(j); landLeft(j, 0.235) }, false},
	{"uses pack", "as little as is asked for", func(j *judge) { flyPacks(j); leaveForPack(j); landLeft(j, 0.225) }, true},
	{"uses pack", "a quarter, as wind made the hover cheaper", func(j *judge) {
		flyPacks(j)
		j.flightW = func(int, int, geo.Local) float64 { return j.physics.Propulsion.PowerW(0) - 40 }
		leaveForPack(j)
		landLeft(j, 0.235)
	}, true},
	{"uses pack", "another stays in its place", func(j *judge) {
		flyPacks(j)
		j.handleMotion(1, state(near, 8, autopilot.ModeOffboard, 40))
		leaveForPack(j)
		landLeft(j, 0.5)
	}, true},
	{"uses pack", "it was called back", func(j *judge) {
		flyPacks(j)
		j.noteOrder(telemetry.ActionReturn, []int{0}, []float64{40, 40})
		leaveForPack(j)
		landLeft(j, 0.5)
	}, true},
	{"uses pack", "flying came to cost more a moment before", leaveAfterShock(45), true},
	{"uses pack", "flying came to cost more long before", leaveAfterShock(35), false},
	{"uses pack", "after the last slot", func(j *judge) { flyPacks(j); j.lastSlot = 99; leaveForPack(j); landLeft(j, 0.5) }, true},
	{"take-off ended", "at half its height", func(j *judge) { copterClimbs(j, 50) }, false},
	{"take-off ended", "at its height", func(j *judge) { copterClimbs(j, 99) }, true},
	{"take-off ended", "PX4 needs them", func(j *judge) { j.aircraft[0].copter = false; setpointInClimb(j, 50) }, true},
	{"failsafe", "an ArduCopter's, for want of HEARTBEATs", func(j *judge) { copterReturns(j, 0) }, false},
	{"failsafe", "an ArduCopter's, which a fault explains", func(j *judge) { copterReturns(j, 1) }, true},
	{"pack", "an ArduCopter returns for want of HEARTBEATs", func(j *judge) { copterReturns(j, 0) }, true},
	{"pilot", "GUIDED over an ArduCopter's failsafe", func(j *judge) {
		copterReturns(j, 1)
		j.handleHeartbeat(0, autopilot.Heartbeat{TimeS: 11, Mode: autopilot.ModeReturn, Armed: true})
		j.handleReceived(0, commanded(common.MAV_CMD_DO_SET_MODE, 15, 1, 4))
	}, false},
	{"whitelist", "an ArduCopter in LOITER", func(j *judge) {
		j.aircraft[0].copter = true
		j.handleReceived(0, commanded(common.MAV_CMD_DO_SET_MODE, 15, 1, 5))
	}, false},
	{"whitelist", "an ArduCopter in BRAKE", func(j *judge) {
		j.aircraft[0].copter = true
		j.handleReceived(0, commanded(common.MAV_CMD_DO_SET_MODE, 15, 1, 17))
	}, true},
	{"whitelist", "an ArduCopter armed in STABILIZE", func(j *judge) {
		j.aircraft[0].copter = true
		r := armCommand(5)
		r.Mode = autopilot.ModeStabilize
		j.handleReceived(0, r)
	}, false},
	{"whitelist", "an ArduCopter armed in GUIDED", func(j *judge) {
		j.aircraft[0].copter = true
		r := armCommand(5)
		r.Mode = autopilot.ModeOffboard
		j.handleReceived(0, r)
	}, true},
	{"whitelist", "an ArduCopter takes off to H above the sea", func(j *judge) {
		j.aircraft[0].copter, j.limits.amslM = true, 488
		j.handleReceived(0, commanded(common.MAV_CMD_NAV_TAKEOFF, 5, 0, 0, 0, 0, math.NaN(), math.NaN(), 588))
	}, false},
	{"whitelist", "an ArduCopter takes off to H above its home", func(j *judge) {
		j.aircraft[0].copter, j.limits.amslM = true, 488
		j.handleReceived(0, commanded(common.MAV_CMD_NAV_TAKEOFF, 5, 0, 0, 0, 0, math.NaN(), math.NaN(), 100))
	}, true},
	{"touchdown", "an ArduCopter at its own rate", func(j *judge) {
		takeOff(j, 0, middle, 1)
		j.aircraft[0].landMPS = 0.5
		land(j, 0, middle, 1, 90)
	}, false},
	{"reserve", "below it", func(j *judge) { j.limits.keptJ = 1.1e5; takeOff(j, 0, middle, 1); land(j, 0, middle, 0.7, 90) }, false},
	{"reserve", "within a fiftieth", func(j *judge) { j.limits.keptJ = 1.01e5; takeOff(j, 0, middle, 1); land(j, 0, middle, 0.7, 90) },
		true},
	{"reserve", "by its pilot", func(j *judge) {
		j.limits.keptJ = 1.1e5
		takeOff(j, 0, middle, 1)
		j.pilotTookOver(0, 30, nil)
		land(j, 0, middle, 0.7, 90)
	}, true},
	{"home", "elsewhere", func(j *judge) { takeOff(j, 0, middle, 1); land(j, 0, near, 0.7, 90) }, false},
	{"home", "elsewhere, by its pilot", func(j *judge) {
		takeOff(j, 0, middle, 1)
		j.pilotTookOver(0, 30, nil)
		land(j, 0, near, 0.7, 90)
	}, true},
	{"home, blocked", "held up for a minute", func(j *judge) {
		takeOff(j, 0, middle, 1)
		j.aircraft[0].blockedS = 60
		land(j, 0, near, 0.7, 90)
	}, false},
	{"taken place", "on another's home", func(j *judge) {
		takeOff(j, 1, near, 1)
		takeOff(j, 0, middle, 1)
		land(j, 0, geo.Local{EastM: 512, NorthM: 500}, 0.7, 90)
	}, false},
	{"leaves", "in slot 3", func(j *judge) {
		j.handleBeacon(telemetry.Slot{Slot: 3, Speed: 20}, 3)
		takeOff(j, 0, middle, 1)
		land(j, 0, middle, 0.7, 90)
	}, false},
	{"leaves", "called back", func(j *judge) {
		j.handleBeacon(telemetry.Slot{Slot: 3, Speed: 20}, 3)
		takeOff(j, 0, middle, 1)
		j.noteOrder(telemetry.ActionReturn, []int{0}, []float64{30, 30})
		land(j, 0, middle, 0.7, 90)
	}, true},
	{"return charge", "goes round", func(j *judge) { returnLonger(j, 5) }, false},

	{"pilot", "before a HEARTBEAT shows it", func(j *judge) {
		pilotTakesPosition(j, 10)
		j.handleReceived(0, offboardSetpoint(middle, 8, 0, 13))
	}, true},
	{"pilot", "after a HEARTBEAT from before the act", func(j *judge) {
		pilotTakesPosition(j, 10)
		j.handleHeartbeat(0, autopilot.Heartbeat{TimeS: 9.9, Mode: autopilot.ModePosition})
		j.handleReceived(0, offboardSetpoint(middle, 8, 0, 13))
	}, true},
	{"pilot", "its HEARTBEAT may be late", func(j *judge) {
		j.aircraft[0].linkDelayS = 0.7
		pilotTakesPosition(j, 10, 10.5)
		j.handleReceived(0, offboardSetpoint(middle, 8, 0, 11.1))
	}, true},
	{"pilot", "on its way", func(j *judge) {
		pilotTakesPosition(j, 10, 10.9)
		j.handleReceived(0, offboardSetpoint(middle, 8, 0, 10.99))
	}, true},
	{"pilot", "a setpoint after it was known", func(j *judge) {
		pilotTakesPosition(j, 10, 10.9)
		j.handleReceived(0, offboardSetpoint(middle, 8, 0, 11.01))
	}, false},
	{"pilot", "again and again: each HEARTBEAT is no new act", func(j *judge) {
		pilotTakesPosition(j, 10, 10.9)
		pilotTakesPosition(j, 11.5, 11.9)
		j.handleReceived(0, commanded(common.MAV_CMD_DO_SET_MODE, 11.96, 1, 4, 6))
	}, false},
	{"pilot", "a leader that was just restarted", func(j *judge) {
		pilotTakesPosition(j, 10, 10.9)
		j.noteLeaderReturned([]float64{13, 13})
		j.handleReceived(0, offboardSetpoint(middle, 8, 0, 13.05))
	}, true},
	{"pilot", "OFFBOARD", func(j *judge) {
		pilotTakesPosition(j, 10, 10.9)
		j.handleReceived(0, commanded(common.MAV_CMD_DO_SET_MODE, 13, 1, 6))
	}, false},
	{"pilot", "a request", func(j *judge) {
		pilotTakesPosition(j, 10, 10.9)
		j.handleReceived(0, commanded(common.MAV_CMD_SET_MESSAGE_INTERVAL, 13))
	}, true},
	{"pilot", "returned to the leader", func(j *judge) {
		pilotTakesPosition(j, 10, 10.9)
		j.returnToLeader([]int{0}, false)
		j.handleReceived(0, offboardSetpoint(middle, 8, 0, 13))
	}, true},
	{"pilot", "another one returned", func(j *judge) {
		pilotTakesPosition(j, 10, 10.9)
		j.returnToLeader([]int{1}, false)
		j.handleReceived(0, offboardSetpoint(middle, 8, 0, 13))
	}, false},
	{"pilot", "an order that was refused", func(j *judge) {
		pilotTakesPosition(j, 10, 10.9)
		j.returnToLeader([]int{0}, false)()
		j.handleReceived(0, offboardSetpoint(middle, 8, 0, 13))
	}, false},
	{"whitelist", "a parameter", func(j *judge) {
		j.handleReceived(0, autopilot.Received{Other: &common.MessageParamSet{ParamId: "COM_OBL_RC_ACT"}, Target: 1})
	}, false},
	{"whitelist", "Position", func(j *judge) { j.handleReceived(0, commanded(common.MAV_CMD_DO_SET_MODE, 1, 1, 3)) }, false},
	{"whitelist", "Hold, as it lands", func(j *judge) {
		r := commanded(common.MAV_CMD_DO_SET_MODE, 1, 1, 4, 3)
		r.Mode = autopilot.ModeLand
		j.handleReceived(0, r)
	}, false},
	{"whitelist", "Land", func(j *judge) { j.handleReceived(0, commanded(common.MAV_CMD_DO_SET_MODE, 1, 1, 4, 6)) }, true},
	{"whitelist", "a take-off to another height", func(j *judge) {
		nan := math.NaN()
		j.handleReceived(0, commanded(common.MAV_CMD_NAV_TAKEOFF, 1, 0, 0, 0, nan, nan, nan, 110))
	}, false},
	{"disarm", "by force in the air", func(j *judge) {
		j.handleReceived(0, commanded(common.MAV_CMD_COMPONENT_ARM_DISARM, 1, 0, 21196))
	}, false},
	{"address", "to all", func(j *judge) { r := armCommand(1); r.Target = 0; j.handleReceived(0, r) }, false},
	{"address", "to another on the link", func(j *judge) {
		j.limits.sharedLink = true
		j.handleReceived(0, autopilot.Received{Other: &common.MessageCommandLong{}, Target: 2})
	}, true},
	{"arm", "without an order", func(j *judge) { j.handleReceived(0, armCommand(10)) }, false},
	{"arm", "as ordered, for ten seconds", func(j *judge) {
		j.returnToLeader([]int{0}, true)
		for s := 10.0; s <= 20; s++ {
			j.handleReceived(0, armCommand(s))
		}
	}, true},
	{"arm", "for longer", func(j *judge) {
		j.returnToLeader([]int{0}, true)
		j.handleReceived(0, armCommand(10))
		j.handleReceived(0, armCommand(21))
	}, false},
	{"arm", "by an order for another", func(j *judge) { j.returnToLeader([]int{1}, true); j.handleReceived(0, armCommand(10)) }, false},
	{"arm", "by a resume", func(j *judge) { j.returnToLeader([]int{0}, false); j.handleReceived(0, armCommand(10)) }, false},
	{"arm", "by an order refused", func(j *judge) { j.returnToLeader([]int{0}, true)(); j.handleReceived(0, armCommand(10)) }, false},
	{"arm", "after the crew's return", func(j *judge) {
		j.returnToLeader([]int{0}, true)
		j.noteOrder(telemetry.ActionReturn, nil, []float64{10, 10})
		j.handleReceived(0, armCommand(10.5))
	}, false},
	{"arm", "again after a disarm", func(j *judge) { armThenDisarm(j); j.handleReceived(0, armCommand(13.5)) }, false},
	{"arm", "again after a new order", func(j *judge) {
		armThenDisarm(j)
		j.returnToLeader([]int{0}, true)
		j.handleReceived(0, armCommand(13.5))
	}, true},
	{"take-off", "under another", func(j *judge) {
		j.handleMotion(1, state(geo.Local{EastM: 506, NorthM: 500, UpM: 100}, 0, autopilot.ModeHold, 9))
		r := armCommand(10)
		r.Position = geo.Local{EastM: 500, NorthM: 500}
		j.handleReceived(0, r)
	}, false},
	{"take-off", "near one that moves", func(j *judge) {
		j.handleMotion(1, state(near, 8, autopilot.ModeOffboard, 9))
		r := armCommand(10)
		r.Position = geo.Local{EastM: 500, NorthM: 500}
		j.handleReceived(0, r)
	}, false},
	{"take-off", "beside one that hovers", func(j *judge) {
		j.handleMotion(1, state(near, 0, autopilot.ModeOffboard, 9))
		r := armCommand(10)
		r.Position = geo.Local{EastM: 500, NorthM: 500}
		j.handleReceived(0, r)
	}, true},
	{"ground", "known", func(j *judge) {
		j.handleHeartbeat(0, autopilot.Heartbeat{TimeS: 10})
		r := offboardSetpoint(middle, 0, 0, 10.5)
		r.Armed, r.Landed = false, true
		j.handleReceived(0, r)
	}, false},
	{"ground", "before a HEARTBEAT shows it", func(j *judge) {
		j.handleHeartbeat(0, autopilot.Heartbeat{TimeS: 10, Armed: true})
		r := offboardSetpoint(middle, 0, 0, 12)
		r.Armed, r.Landed = false, true
		j.handleReceived(0, r)
	}, true},
	{"no heartbeat", "for more than ten seconds", func(j *judge) {
		j.handleHeartbeat(0, autopilot.Heartbeat{TimeS: 10, Armed: true})
		j.handleReceived(0, offboardSetpoint(middle, 0, 0, 20.4))
	}, false},
	{"no heartbeat", "for ten", func(j *judge) {
		j.handleHeartbeat(0, autopilot.Heartbeat{TimeS: 10, Armed: true})
		j.handleReceived(0, offboardSetpoint(middle, 0, 0, 20.2))
	}, true},
	{"gap", "with HEARTBEATs", func(j *judge) {
		j.handleReceived(0, offboardSetpoint(middle, 0, 0, 10))
		j.handleReceived(0, offboardSetpoint(middle, 0, 0, 13))
	}, true},
	{"gap", "while HEARTBEATs are lost", func(j *judge) {
		j.requireStream(0, 9)
		j.handleReceived(0, offboardSetpoint(middle, 0, 0, 10))
		j.handleReceived(0, offboardSetpoint(middle, 0, 0, 13))
	}, false},
	{"gap", "a stream that ends", func(j *judge) {
		j.requireStream(0, 9)
		j.handleReceived(0, offboardSetpoint(middle, 0, 0, 10))
		j.endStreamRequirement(0, true, 13)
	}, false},
	{"stream end", "never", func(j *judge) {
		j.aircraft[0].stalledS = 10
		j.handleReceived(0, offboardSetpoint(middle, 0, 0, 25))
	}, false},
	{"stream end", "in time", func(j *judge) {
		j.aircraft[0].stalledS = 10
		j.handleReceived(0, offboardSetpoint(middle, 0, 0, 24))
	}, true},
	{"incomplete", "no number", func(j *judge) { j.handleReceived(0, offboardSetpoint(middle, math.NaN(), 0, 10)) }, false},
	{"commanded speed", "a fast leg", func(j *judge) { j.handleReceived(0, offboardSetpoint(middle, 30.2, 0, 10)) }, false},
	{"commanded speed", "a far target", func(j *judge) {
		r := offboardSetpoint(middle, 8, 0, 10)
		r.Setpoint.Position.NorthM += 60
		j.handleReceived(0, r)
	}, false},
	{"commanded fence", "outside", func(j *judge) {
		r := offboardSetpoint(geo.Local{EastM: 1, NorthM: 5, UpM: 100}, 0, 0, 10)
		r.Setpoint.Position.EastM = -1
		j.handleReceived(0, r)
	}, false},
	{"commanded fence", "on its way in", func(j *judge) {
		r := offboardSetpoint(geo.Local{EastM: -30, NorthM: 5, UpM: 100}, 0, 0, 10)
		r.Setpoint.Position.EastM = -22
		j.handleReceived(0, r)
	}, true},
	{"commanded fence", "as far as it was outside a moment before", func(j *judge) {
		fly(j, geo.Local{EastM: -3.5, NorthM: 5, UpM: 100}, 0, 8, 9.5)
		r := offboardSetpoint(geo.Local{EastM: -1, NorthM: 5, UpM: 100}, 0, 0, 10)
		r.Setpoint.Position.EastM = -2.7
		j.handleMotion(0, state(geo.Local{EastM: -1, NorthM: 5, UpM: 100}, 0, autopilot.ModeOffboard, 10))
		j.handleReceived(0, r)
	}, true},
	{"commanded height", "too low", func(j *judge) {
		j.handleReceived(0, offboardSetpoint(geo.Local{EastM: 5, NorthM: 5, UpM: 79}, 0, 0, 10))
	}, false},
	{"stale", "each second slot another leg", func(j *judge) {
		for i := range 80 {
			j.handleReceived(0, offboardSetpoint(middle, 8, float64(i/20), 10+float64(i)/10))
		}
	}, true},
	{"stale", "the same leg for four slots", func(j *judge) {
		for i := range 40 {
			j.handleReceived(0, offboardSetpoint(middle, 8, 0, 10+float64(i)/10))
		}
	}, false},
	{"stale", "a long hold", func(j *judge) {
		for i := range 80 {
			j.handleReceived(0, offboardSetpoint(middle, 0, 0, 10+float64(i)/10))
		}
	}, true},
	{"commanded separation", "side by side", func(j *judge) {
		j.handleMotion(1, state(near, 0, autopilot.ModeOffboard, 9))
		j.handleReceived(0, offboardSetpoint(middle, 0, 8, 10))
	}, true},
	{"commanded separation", "towards another", func(j *judge) {
		j.handleMotion(1, state(near, 0, autopilot.ModeOffboard, 9))
		for _, s := range []float64{10, 10.1, 10.2} {
			j.handleReceived(0, offboardSetpoint(middle, 12, 0, s))
		}
	}, false},
	{"commanded separation", "behind one that was slower a tick ago", func(j *judge) {
		j.handleMotion(0, state(middle, 8, autopilot.ModeOffboard, 9))
		j.handleMotion(1, state(near, 8, autopilot.ModeOffboard, 9))
		for _, r := range []struct{ i, s, v float64 }{{1, 9.9, 2}, {0, 10, 14}, {1, 10, 14}} {
			at := []geo.Local{middle, near}[int(r.i)]
			set := offboardSetpoint(at, r.v, 0, r.s)
			set.Target = int(r.i) + 1
			j.handleReceived(int(r.i), set)
		}
	}, true},

	{"slot number", "again", func(j *judge) {
		j.handleBeacon(telemetry.Slot{Slot: 3, Speed: 20}, 3)
		j.handleBeacon(telemetry.Slot{Slot: 3, Speed: 20}, 3.1)
	}, false},
	{"slot time", "behind the clock", func(j *judge) {
		j.handleBeacon(telemetry.Slot{Slot: 3, Speed: 20}, 3)
		j.handleBeacon(telemetry.Slot{Slot: 4, Speed: 20}, 8)
	}, false},
	{"slot time", "ahead of the clock", func(j *judge) {
		j.handleBeacon(telemetry.Slot{Slot: 3, Speed: 20}, 3)
		j.handleBeacon(telemetry.Slot{Slot: 5, Speed: 20}, 4)
	}, false},
	{"slot time", "after a late first one", func(j *judge) {
		j.handleBeacon(telemetry.Slot{Slot: 0, Speed: 20}, 0)
		j.handleBeacon(telemetry.Slot{Slot: 1, Speed: 20}, 0.6)
		j.handleBeacon(telemetry.Slot{Slot: 2, Speed: 20}, 1.7)
	}, true},
	{"slot time", "after a first one that was too late", func(j *judge) {
		j.handleBeacon(telemetry.Slot{Slot: 0, Speed: 20}, 0)
		j.handleBeacon(telemetry.Slot{Slot: 1, Speed: 20}, 0.3)
	}, false},
	{"serves", "one on the ground", func(j *judge) {
		j.handleMotion(0, onGround(middle, 10))
		j.handleReport("u01", report)
		j.handleDecision("u01", telemetry.Decision{Slot: 5, Aircraft: 1, Offload: 0.5, CPUHz: 1e10})
	}, false},
	{"serves", "one on the ground, of which no HEARTBEAT says so", func(j *judge) {
		j.handleHeartbeat(0, autopilot.Heartbeat{TimeS: 2, Armed: true})
		j.handleMotion(0, onGround(middle, 10))
		j.handleReport("u01", report)
		j.handleDecision("u01", telemetry.Decision{Slot: 5, Aircraft: 1, Offload: 0.5, CPUHz: 1e10})
	}, true},
	{"serves", "one that cannot be received", func(j *judge) {
		j.handleMotion(0, state(middle, 8, autopilot.ModeOffboard, 20))
		j.aircraft[0].cutFromS = 12
		decide(j, "u01", telemetry.Decision{Slot: 5, Aircraft: 1, Offload: 0.5, CPUHz: 1e10})
	}, false},
	{"serves", "one that was sent home", func(j *judge) {
		j.handleMotion(0, state(middle, 8, autopilot.ModeOffboard, 20))
		j.noteOrder(telemetry.ActionReturn, []int{0}, []float64{15, 15})
		decide(j, "u01", telemetry.Decision{Slot: 5, Aircraft: 1, Offload: 0.5, CPUHz: 1e10})
	}, false},
	{"shares", "more than there is", func(j *judge) {
		decide(j, "u01", telemetry.Decision{Slot: 5, Aircraft: 1, Offload: 0.5, CPUHz: 3e10})
		decide(j, "u02", telemetry.Decision{Slot: 5, Aircraft: 1, Offload: 0.5, CPUHz: 2e10})
	}, false},
	{"shares", "all there is", func(j *judge) {
		decide(j, "u01", telemetry.Decision{Slot: 5, Aircraft: 1, Offload: 0.5, CPUHz: 2e10})
		decide(j, "u02", telemetry.Decision{Slot: 5, Aircraft: 1, Offload: 0.5, CPUHz: 2e10})
	}, true},
	{"reported", "nothing", func(j *judge) { decide(j, "u03", telemetry.Decision{Slot: 5}) }, false},
	{"reported", "nothing that was seen, as the broker was gone",
		func(j *judge) { j.noteBrokerReturned(6); decide(j, "u03", telemetry.Decision{Slot: 5}) }, true},
	{"reported", "not on the list", func(j *judge) { j.limits.list = []string{"u02"}; decide(j, "u01", telemetry.Decision{Slot: 5}) },
		false},
	{"pays", "the aircraft it cannot reach", func(j *judge) {
		decide(j, "u01", telemetry.Decision{Slot: 5, Aircraft: 2, Offload: 0.5, CPUHz: 2e10})
	}, false},
	{"pays", "the one it can", func(j *judge) { decide(j, "u01", telemetry.Decision{Slot: 5, Aircraft: 1, Offload: 0.5, CPUHz: 2e10}) },
		true},
	{"status", "another place", func(j *judge) {
		j.handleMotion(0, state(middle, 8, autopilot.ModeOffboard, 5))
		j.handleStatus(telemetry.Status{Aircraft: []telemetry.StatusAircraft{{Number: 1, AgeS: new(0.1),
			PositionM: &[3]float64{400, 500, 100}}}}, 0)
	}, false},
	{"status", "a place of a moment before", func(j *judge) {
		j.handleMotion(0, state(middle, 8, autopilot.ModeOffboard, 5))
		j.handleStatus(telemetry.Status{Aircraft: []telemetry.StatusAircraft{{Number: 1, AgeS: new(0.1),
			PositionM: &[3]float64{490, 500, 100}}}}, 0)
	}, true},
	{"status", "a tenth of its speed", func(j *judge) {
		fly(j, middle, 8, 1, 5)
		j.handleStatus(telemetry.Status{Aircraft: []telemetry.StatusAircraft{{Number: 1, AgeS: new(0.1), SpeedMPS: new(0.8)}}}, 0)
	}, false},
	{"status", "the speed before it turned", func(j *judge) {
		fly(j, middle, 8, 1, 3)
		j.handleStatus(telemetry.Status{Aircraft: []telemetry.StatusAircraft{{Number: 1, AgeS: new(0.1), SpeedMPS: new(0.8)}}}, 0)
	}, true},
	{"status", "a charge of before", tellCharge(0.83, 0), false},
	{"status", "a charge of before its links were cut, not measured since", tellCharge(0.83, 39.5), true},
	{"status", "the charge that it has", tellCharge(0.6, 0), true},
	{"status", "done in the air", func(j *judge) {
		j.limits.returns = true
		j.handleMotion(0, state(middle, 8, autopilot.ModeOffboard, 5))
		j.handleStatus(telemetry.Status{State: telemetry.StateDone}, 0)
	}, false},
	{"floor", "of a power before the shock", tellFloor(10000 + 2*134.4*60), false},
	{"floor", "of the power in force", tellFloor(10000 + 2*134.4*60*1.5), true},
	{"refusal", "starts", func(j *judge) { j.handleAnswer(refusal{why: "bad checks", word: "pre-arm", accepted: true}) }, false},
	{"refusal", "for another reason", func(j *judge) { j.handleAnswer(refusal{why: "bad checks", word: "pre-arm", reason: "it rains"}) },
		false},
	{"refusal", "as it should be", func(j *judge) {
		j.handleAnswer(refusal{why: "bad checks", word: "pre-arm", reason: "its pre-arm checks fail"})
	}, true},
	{"refusal", "launches with an empty pack", func(j *judge) {
		s := onGround(middle, 10)
		s.LeftJ = 9000
		j.handleMotion(1, s)
		j.handleLaunch([]int{1})
	}, false},
	{"refusal", "launches with a full pack", func(j *judge) { j.handleMotion(1, onGround(middle, 10)); j.handleLaunch([]int{1}) }, true},
	{"durable", "answered meanwhile", end(func(_ *judge, e *ended) { e.undurable = []string{"b1 was answered"} }), false},
	{"holding", "flies on", end(func(_ *judge, e *ended) { e.holding = []string{"the mission is flying"} }), false},
	{"acknowledged", "a lost command", end(func(_ *judge, e *ended) { e.lost = []string{"b1 was not answered"} }), false},
	{"duplicate", "a replay", end(func(_ *judge, e *ended) { e.duplicates = []string{"a replay took effect"} }), false},
	{"contact", "flies on", end(func(_ *judge, e *ended) { e.contact = "the crew was absent, and the mission is flying" }), false},
	{"ceiling", "passed", end(func(_ *judge, e *ended) { e.ceilingJ = 300 }), false},

	{"record", "a slot twice", end(func(_ *judge, e *ended) { e.flight.Rows[1].Slot = 0 }), false},
	{"record", "the last slot missing", end(func(_ *judge, e *ended) { e.flight.Rows = e.flight.Rows[:1] }), false},
	{"record", "ends in an outage", end(func(_ *judge, e *ended) {
		e.flight.Rows = append(e.flight.Rows, account.Row{Slot: len(e.flight.Rows), Missed: true})
	}), true},
	{"record", "a slot that no beacon opened", end(func(_ *judge, e *ended) {
		e.flight.Rows = append(e.flight.Rows, account.Row{Slot: len(e.flight.Rows)})
	}), false},
	{"record", "unreadable", end(func(_ *judge, e *ended) { e.ledgerError = errors.New("page 3") }), false},
	{"energy", "too little", end(func(_ *judge, e *ended) { e.leaderJ = 700 }), false},
	{"energy by slot", "booked later", end(func(_ *judge, e *ended) { e.bySlot[0] = 2000 }), false},
	{"delay", "of a stranger", end(func(_ *judge, e *ended) { e.delayS, e.flight.State.Account.Objective.DelayS = 10, 500 }), false},
	{"delay", "as it was", end(func(_ *judge, e *ended) { e.delayS, e.flight.State.Account.Objective.DelayS = 100, 140 }), true},
	{"wind", "from the other side", end(believeWind(-4, 2)), false},
	{"wind", "from the other side, hardly known", end(believeWind(-4, 4)), true},
	{"wind", "as it blows", end(believeWind(4, 0.1)), true},
	{"transit", "booked in slots", end(func(_ *judge, e *ended) { e.flight.State.Account.Aircraft[0].TransitJ = 2000 }), false},

	{"rescue", "by its pilot", end(func(j *judge, _ *ended) { j.aircraft[1].rescued = "its pilot" }), false},
	{"exit", "by itself", end(func(_ *judge, e *ended) { e.exit = "exit status 3" }), false},
	{"course", "no start", end(func(_ *judge, e *ended) { e.courseError = errors.New("does not start") }), false},
	{"flew", "on the spot", end(func(j *judge, _ *ended) { j.aircraft[0].flownS, j.aircraft[0].flownM = 30, 12 }), false},
	{"slots", "half of them", end(func(_ *judge, e *ended) { e.slotsDue = 8 }), false},
	{"slots", "the last one left out", end(func(_ *judge, e *ended) { e.leftOutSlots = 1 }), false},
	{"slots", "as a fault explains", end(func(_ *judge, e *ended) { e.slotsDue, e.explained = 8, 5 }), true},
	{"slots", "none", end(func(j *judge, e *ended) { j.slotsOpened, e.slotsDue = 0, 0 }), false},
	{"answered", "a fifth of the tasks", end(func(j *judge, _ *ended) { j.users.tasks, j.users.inTime, j.users.answered = 100, 20, 20 }),
		false},
	{"decided", "half of the tasks", end(func(j *judge, _ *ended) { j.users.tasks, j.users.inTime, j.users.answered = 100, 50, 100 }),
		false},
	{"fleet", "one is missing", end(func(_ *judge, e *ended) { e.mustResume, e.resumed = true, false }), false},
}

// Every rule is broken by the cases that break it, and by no other.
func TestRules(t *testing.T) {
	for _, c := range ruleCases {
		t.Run(c.rule+", "+c.name, func(t *testing.T) {
			j := newJudge(physics.DefaultConstants(), 2, 20)
			j.limits.amslM = 0
			c.do(j)
			if broken := slices.ContainsFunc(j.broken(), func(v violation) bool { return v.rule == c.rule }); broken == c.keeps {
				t.Errorf("broken: %+v", j.broken())
			}
		})
	}
	for _, r := range rules {
		if !slices.ContainsFunc(ruleCases, func(c struct {
			rule  string
			name  string
			do    func(*judge)
			keeps bool
		}) bool {
			return c.rule == r.name && !c.keeps
		}) {
			t.Errorf("no case breaks the rule %q", r.name)
		}
	}
}

// What is said of rules is said of rules that exist.
func TestRuleNames(t *testing.T) {
	known := func(name string) bool { return slices.ContainsFunc(rules, func(r rule) bool { return r.name == name }) }
	for _, name := range timed {
		if !known(name) {
			t.Errorf("there is no rule %q", name)
		}
	}
	for _, f := range knownFindings {
		if !known(f.rule) || f.issue == "" {
			t.Errorf("a known finding of %+v", f)
		}
	}
}

// A mission in which nothing is wrong breaks no rule.
func TestQuietEnd(t *testing.T) {
	j := newJudge(physics.DefaultConstants(), 2, 20)
	end(func(*judge, *ended) {})(j)
	if v := j.broken(); len(v) > 0 {
		t.Errorf("%+v", v)
	}
}
