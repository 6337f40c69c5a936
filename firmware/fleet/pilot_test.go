package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/firmware/height"
	"prefdt/inference/physics"
)

// situation is a phase, and how the leader reaches it.
type situation struct {
	name      string
	phase     Phase
	continues bool // by a restart
	homeward  bool
	reach     func(v *simVehicle)
}

var situations = []situation{
	{"idle", PhaseIdle, false, false, func(v *simVehicle) {}},
	{"arming", PhaseClimbing, true, false, func(v *simVehicle) {
		v.Launch(ordered(1))
		v.simulate(time.Second, nil)
	}},
	{"armed on the ground", PhaseClimbing, true, false, func(v *simVehicle) {
		v.Launch(ordered(1))
		v.simulate(2500*time.Millisecond, func(m message.Message) {
			v.handleCommand(m)
			v.landed, v.upM = true, 0 // TAKEOFF, and not off the ground yet
		})
	}},
	{"in its climb", PhaseClimbing, true, false, climb},
	{"engaging", PhaseEngaging, true, false, func(v *simVehicle) {
		climb(v)
		v.upM, v.mode = 100, ModeHold
		v.simulate(2*time.Second, nil)
	}},
	{"flying", PhaseFlying, true, false, fly},
	{"homing", PhaseFlying, true, true, func(v *simVehicle) {
		fly(v)
		v.position.EastM += 100
		v.sendState()
		v.SendHome(1)
		v.simulate(time.Second, v.handleCommand)
	}},
	{"landing", PhaseLanding, true, true, func(v *simVehicle) {
		fly(v)
		v.SendHome(1)
		v.simulate(3*time.Second, v.handleCommand)
		v.upM = 60
	}},
	{"stopping", PhaseStopping, true, false, func(v *simVehicle) {
		fly(v)
		v.Stop(1)
		v.simulate(500*time.Millisecond, nil) // commanded, and not done yet
	}},
}

func climb(v *simVehicle) {
	v.Launch(ordered(1))
	v.simulate(3*time.Second, v.handleCommand)
}

func fly(v *simVehicle) {
	climb(v)
	v.upM, v.mode = 100, ModeHold
	v.simulate(4*time.Second, v.handleCommand)
	v.Hold(1)
}

var pilotActions = []struct {
	name string
	do   func(v *simVehicle)
}{
	{"disarms", func(v *simVehicle) { v.armed = false }},
	{"chooses POSCTL", func(v *simVehicle) { v.mode = ModePosition }},
	{"chooses Hold", func(v *simVehicle) { v.mode = ModeHold }},
	{"chooses RTL", func(v *simVehicle) { v.mode = ModeReturn }},
	{"chooses LAND", func(v *simVehicle) { v.mode = ModeLand }},
	{"reboots", func(v *simVehicle) { v.bootMS, v.armed, v.mode = 500, false, ModeHold }},
	{"reboots in the air", func(v *simVehicle) {
		v.bootMS, v.mode = 500, ModeHold
		v.armed = !v.landed
	}},
}

// nonPilotPhases are the cases in which an aircraft is not left to its pilot, with the
// phase that follows. In all others nothing that moves it is sent any more.
var nonPilotPhases = map[string]Phase{
	// It has no order, and gets none.
	"idle": PhaseIdle,
	// The act leads to the present mode, or to the commanded one.
	"arming, disarms":                PhaseClimbing, // its motors are off: the ten seconds run on
	"arming, chooses Hold":           PhaseClimbing,
	"landing, chooses LAND":          PhaseLanding,
	"engaging, chooses Hold":         PhaseEngaging,
	"stopping, chooses Hold":         PhasePilot,
	"landing, chooses LAND, restart": PhaseLanding,
}

// Whatever the pilot does, in any phase, with or without a restart of the leader
// meanwhile: the leader neither arms, nor changes the mode, nor sends setpoints.
func TestPilotActsInEveryPhase(t *testing.T) {
	for _, s := range situations {
		for _, act := range pilotActions {
			for _, restart := range []bool{false, true} {
				name := s.name + ", " + act.name
				if restart {
					name += ", restart"
				}
				t.Run(name, func(t *testing.T) {
					v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
					v.simulate(time.Second, nil)
					s.reach(v)
					if got := v.view(); got.Phase != s.phase {
						t.Fatalf("the situation was not reached: %s, %+v", got.Phase, got)
					}
					act.do(v)
					if restart {
						v.restart(s.continues)
					} else {
						v.simulate(1500*time.Millisecond, nil) // until its next HEARTBEAT
					}
					want, controlled := nonPilotPhases[name]
					if p, ok := nonPilotPhases[s.name]; ok {
						want, controlled = p, true
					}
					if !controlled {
						want = PhasePilot
					}
					if restart && !s.continues {
						want = PhaseIdle // there is no order to continue
					}
					got := v.view()
					if got.Phase != want {
						t.Fatalf("%s, want %s: %+v", got.Phase, want, got)
					}
					if want != PhasePilot && want != PhaseIdle {
						return
					}
					if want == PhasePilot && got.Reason == "" {
						t.Error("no reason is reported")
					}
					v.expectNoCommands(30 * time.Second)
					v.mode = ModeOffboard // its pilot may choose any mode
					v.expectNoCommands(5 * time.Second)
					v.SendHome(1)
					v.expectNoCommands(5 * time.Second)
					v.Stop(1)
					v.expectNoCommands(5 * time.Second)
					if got := v.view(); got.Flying || got.Phase != want {
						t.Errorf("afterwards it is %s: %+v", got.Phase, got)
					}
				})
			}
		}
	}
}

// expectNoCommands checks that nothing which moves the vehicle is sent to it for a while.
func (v *simVehicle) expectNoCommands(d time.Duration) {
	v.t.Helper()
	v.simulate(d, func(m message.Message) {
		if what, _ := classify(px4{}, m); what != kindHarmless {
			v.t.Fatalf("sent %+v: %+v", m, v.view())
		}
	})
}

// savedUnderCommand is the vehicle's state in a ledger; the test sets its control.
func (v *simVehicle) savedUnderCommand() []SavedAircraft {
	saved := v.SavedState()
	saved[0].WithPilot, saved[0].PossiblePath = false, nil
	return saved
}

// replaceLeader has a new fleet, with the state that was saved, receive the vehicle.
func (v *simVehicle) replaceLeader(saved []SavedAircraft) {
	v.fixture = newFixture(v.t)
	v.Restore(saved)
	v.sendHeartbeat()
	v.sendHeartbeat()
	v.sendState()
	v.sendState()
}

// restart replaces the leader, and continues the order that the vehicle had.
func (v *simVehicle) restart(continues bool) {
	rejoin := func() { v.Rejoin(1) }
	if v.view().Phase == PhaseStopping {
		rejoin = func() { v.RejoinStopped(1) }
	}
	v.replaceLeader(v.savedUnderCommand())
	v.expectNoCommands(time.Second)
	if continues {
		rejoin()
	}
	v.simulate(500*time.Millisecond, nil)
}

// The time since boot has 32 bits, which begin anew after 49.7 days: that is no reboot, for a leader that was started again either.
func TestRejoinAfterTheClockBeganAnew(t *testing.T) {
	for _, s := range situations {
		if s.name != "flying" {
			continue
		}
		v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
		v.simulate(time.Second, nil)
		s.reach(v)
		saved := v.savedUnderCommand()
		saved[0].Meter.BootS, v.bootMS = (1<<32-500)/1e3, 300
		v.replaceLeader(saved)
		if err := v.Rejoin(1); err != nil || v.view().Phase == PhasePilot {
			t.Errorf("%v, and it is %v", err, v.view().Phase)
		}
	}
}

// A restart in which nothing happened continues where the leader was.
func TestRejoinContinues(t *testing.T) {
	for name, want := range map[string]Phase{
		"armed on the ground": PhaseClimbing, "in its climb": PhaseClimbing, "flying": PhaseFlying, "homing": PhaseFlying,
		"landing": PhaseLanding,
	} {
		for _, s := range situations {
			if s.name != name {
				continue
			}
			v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
			v.simulate(time.Second, nil)
			s.reach(v)
			v.restart(s.continues)
			if got := v.view(); got.Phase != want || got.Homeward != s.homeward {
				t.Errorf("%s: %s, %+v", name, got.Phase, got)
			}
		}
	}
}

// Aircraft that are not received after a restart, that are on the ground, or whose state
// changed, are left to their pilots.
func TestRejoinLeavesChangedAircraft(t *testing.T) {
	for name, c := range map[string]struct {
		change func(v *simVehicle)
		want   string
	}{
		"not received":              {func(v *simVehicle) { v.silent = true }, "not received"},
		"no HEARTBEAT":              {func(v *simVehicle) { v.noHeartbeats = true }, "not received"},
		"on the ground, armed":      {func(v *simVehicle) { v.landed, v.mode, v.upM = true, ModeHold, 0 }, "on the ground"},
		"on the ground":             {func(v *simVehicle) { v.landed, v.armed, v.mode, v.upM = true, false, ModeHold, 0 }, "motors off"},
		"Hold far below H":          {func(v *simVehicle) { v.upM, v.mode = 50, ModeHold }, "AUTO.LOITER"},
		"rebooted and flies on":     {func(v *simVehicle) { v.bootMS, v.mode = 3000, ModeHold }, "rebooted"},
		"a failsafe brings it home": {func(v *simVehicle) { v.mode = ModeReturn }, "AUTO.RTL"},
	} {
		for _, homeward := range []bool{false, true} {
			v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
			v.simulate(time.Second, nil)
			fly(v)
			saved := v.savedUnderCommand()
			saved[0].UnderCommand, saved[0].Homing = !homeward, homeward
			c.change(v)
			v.replaceLeader(saved)
			v.simulate(time.Second, nil)
			err := v.Rejoin(1)
			if name == "on the ground" && homeward { // its way home has ended
				if got := v.view(); err != nil || got.Phase != PhaseLanding {
					t.Errorf("landed: %v, %s", err, got.Phase)
				}
				continue
			}
			if got := v.view(); err == nil || got.Phase != PhasePilot || !strings.Contains(got.Reason, c.want) {
				t.Errorf("%s, homeward %v: %v, %s, reason %q", name, homeward, err, got.Phase, got.Reason)
			}
			v.expectNoCommands(20 * time.Second)
		}
	}
}

// After a restart PX4's failsafe, which holds for want of setpoints, ends by itself with the
// new stream. No mode is commanded: the pilot may have chosen Hold since the last HEARTBEAT,
// or the failsafe may be another one.
func TestRejoinInTheFailsafesHold(t *testing.T) {
	for name, c := range map[string]struct {
		mode Mode // at the restart; the failsafe follows within a second
		then func(v *simVehicle)
		want Phase
		why  string
	}{
		"it ends with setpoints":      {ModeHold, func(v *simVehicle) { v.mode, v.failsafe = ModeOffboard, false }, PhaseFlying, ""},
		"the pilot chooses Hold":      {ModeHold, func(v *simVehicle) { v.failsafe = false }, PhasePilot, "pilot's"},
		"it is another failsafe":      {ModeHold, func(v *simVehicle) {}, PhasePilot, "did not end"},
		"the stream ended lately":     {ModeOffboard, func(v *simVehicle) { v.mode, v.failsafe = ModeOffboard, false }, PhaseFlying, ""},
		"late, the pilot chooses it":  {ModeOffboard, func(v *simVehicle) { v.failsafe = false }, PhasePilot, "pilot's"},
		"another failsafe comes late": {ModeOffboard, func(v *simVehicle) {}, PhasePilot, "did not end"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
			v.simulate(time.Second, nil)
			fly(v)
			saved := v.savedUnderCommand()
			v.mode, v.failsafe = c.mode, c.mode == ModeHold
			v.replaceLeader(saved)
			if err := v.Rejoin(1); err != nil {
				t.Fatal(err)
			}
			setpoints := 0
			countSetpoints := v.onlySetpoints(&setpoints)
			v.simulate(500*time.Millisecond, countSetpoints)
			v.mode, v.failsafe = ModeHold, true
			v.simulate(9*time.Second, countSetpoints)
			if v.view().Phase != PhaseEngaging || setpoints < 80 {
				t.Fatalf("%s after %d setpoints", v.view().Phase, setpoints)
			}
			c.then(v)
			v.simulate(2*time.Second, countSetpoints) // ten seconds are over
			if got := v.view(); got.Phase != c.want || !strings.Contains(got.Reason, c.why) {
				t.Errorf("%s: %q", got.Phase, got.Reason)
			}
			if c.want == PhasePilot {
				v.expectNoCommands(20 * time.Second)
			}
		})
	}
}

// A failsafe that holds an aircraft before it is in OFFBOARD counts as its pilot: a command
// would end it.
func TestFailsafeHoldsBeforeOffboard(t *testing.T) {
	for name, reach := range map[string]func(v *simVehicle){
		"at the end of its climb": func(v *simVehicle) {
			climb(v)
			v.upM = 99.5
		},
		"engaging": func(v *simVehicle) {
			climb(v)
			v.upM, v.mode = 100, ModeHold
			v.simulate(500*time.Millisecond, nil)
		},
	} {
		v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
		v.simulate(time.Second, nil)
		reach(v)
		if got := v.view().Phase; got != PhaseClimbing && got != PhaseEngaging {
			t.Fatalf("%s: %s", name, got)
		}
		v.mode, v.failsafe = ModeHold, true
		v.sendHeartbeat()
		if got := v.view(); got.Phase != PhasePilot || !strings.Contains(got.Reason, "AUTO.LOITER") {
			t.Errorf("%s: %s, %q", name, got.Phase, got.Reason)
		}
		v.expectNoCommands(20 * time.Second)
	}
}

// A disarm after it was armed ends the order: it is not armed again, however
// long the mission waits.
func TestDisarmInTheClimbIsThePilots(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	climb(v)
	v.armed, v.landed, v.upM = false, true, 0
	v.simulate(1500*time.Millisecond, nil)
	if got := v.view(); got.Phase != PhasePilot || !strings.Contains(got.Reason, "disarmed while climbing") {
		t.Fatalf("%s: %q", got.Phase, got.Reason)
	}
	v.expectNoCommands(200 * time.Second)
	if err := v.Resume(resume(1, false)); err == nil {
		t.Error("resumed on the ground")
	}
	v.expectNoCommands(20 * time.Second)
	if err := v.Launch(ordered(1)); err != nil {
		t.Errorf("an order to leave the ground: %v", err)
	}
	if v.simulate(2*time.Second, v.handleCommand); !v.armed {
		t.Error("it does not arm after it was launched again")
	}
}

// Arming is commanded for ten seconds for each order, and no longer.
func TestArmingIsCommandedForTenSeconds(t *testing.T) {
	for name, mode := range map[string]Mode{"in Hold": ModeHold, "in the mode it landed in": ModeOffboard} {
		v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
		v.mode = mode
		v.sendHeartbeat()
		for range 2 {
			if err := v.Launch(ordered(1)); err != nil {
				t.Fatal(err)
			}
			asked, lastS, beganS := 0, 0.0, v.nowS()
			v.simulate(60*time.Second, func(m message.Message) {
				if what, _ := classify(px4{}, m); what != kindHarmless {
					asked, lastS = asked+1, v.nowS()
				}
			})
			if took := lastS - beganS; asked < 8 || asked > 11 || took < 8 || took > 10.2 {
				t.Errorf("%s: asked %d times in %.1f s", name, asked, took)
			}
			if got := v.view(); got.Phase != PhasePilot || !strings.Contains(got.Reason, "not armed in 10 s") {
				t.Errorf("%s: %s, %q", name, got.Phase, got.Reason)
			}
		}
	}
}

// A stop leaves the aircraft in its autopilot's Hold; that is commanded until it is in
// Hold once, and no landing or pilot's choice is overruled.
func TestStopHandsOver(t *testing.T) {
	for _, s := range situations {
		if s.phase == PhaseIdle || s.phase == PhaseStopping {
			continue
		}
		v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
		s.reach(v)
		v.Stop(1)
		asked := 0
		v.simulate(10*time.Second, func(m message.Message) {
			if what, mode := classify(px4{}, m); what == kindMode && mode == ModeHold {
				asked++
			}
			v.handleCommand(m)
		})
		want := map[string]int{"arming": 0, "armed on the ground": 1, "in its climb": 1, "engaging": 1, "flying": 1, "homing": 1,
			"landing": 0}[s.name]
		phase := PhasePilot
		if s.name == "arming" {
			phase = PhaseIdle
		}
		if got := v.view(); asked != want || got.Phase != phase {
			t.Errorf("%s: Hold was asked for %d times, want %d; it is %s in %s", s.name, asked, want, got.Phase, got.ModeName)
		}
		v.mode = ModePosition
		v.expectNoCommands(10 * time.Second)
	}
}

// A stop follows a take-off that was commanded just before.
func TestStopAfterATakeOff(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.Launch(ordered(1))
	took := false
	for !took {
		v.simulate(100*time.Millisecond, func(m message.Message) {
			what, _ := classify(px4{}, m)
			took = took || what == kindTakeOff
			if what == kindArm {
				v.handleCommand(m)
			}
		})
	}
	v.Stop(1) // its last HEARTBEAT still has Hold
	v.simulate(100*time.Millisecond, nil)
	v.mode, v.landed, v.upM = ModeTakeoff, false, 5
	v.simulate(5*time.Second, v.handleCommand)
	if got := v.view(); v.mode != ModeHold || got.Phase != PhasePilot {
		t.Errorf("it climbs on after the stop: %s in %s", got.Phase, px4{}.modeName(v.mode))
	}
}

// A pilot's choice counts from the moment that it is made, not from the next HEARTBEAT:
// one is requested before any command.
func TestStopRequestsAHeartbeatFirst(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	fly(v)
	v.simulate(time.Second, nil)
	v.simulate(time.Duration(1000-v.bootMS%1000+400)*time.Millisecond, nil) // its HEARTBEAT was 0.4 s ago
	v.mode = ModePosition
	v.Stop(1)
	v.simulate(10*time.Second, v.handleCommand)
	if got := v.view(); v.mode != ModePosition || got.Phase != PhasePilot || !strings.Contains(got.Reason, "POSCTL") {
		t.Errorf("in %s, %s: %q", px4{}.modeName(v.mode), got.Phase, got.Reason)
	}
}

// An aircraft that leaves its climb is under pilot control, or flies a failsafe; at H
// the autopilot holds by itself.
func TestClimbEndsAtH(t *testing.T) {
	for _, c := range []struct {
		mode Mode
		upM  float64
		want Phase
	}{
		{ModeHold, 50, PhasePilot}, {ModeReturn, 50, PhasePilot}, {ModePosition, 50, PhasePilot}, {ModePosition, 99, PhasePilot},
		{ModeTakeoff, 50, PhaseClimbing}, {ModeTakeoff, 98, PhaseEngaging}, {ModeHold, 99, PhaseEngaging},
	} {
		v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
		climb(v)
		v.upM = height.AboveOrigin(c.upM)
		v.sendState()
		v.mode = c.mode
		v.simulate(1500*time.Millisecond, nil)
		if got := v.view(); got.Phase != c.want {
			t.Errorf("%v at %v m: %s, want %s", px4{}.modeName(c.mode), c.upM, got.Phase, c.want)
		}
	}
}

// The crew may resume control in any mode; a pilot's choice after that counts again,
// also while the aircraft engages.
func TestResumeDoesNotExcuseWhatFollows(t *testing.T) {
	for _, given := range []Mode{ModeHold, ModePosition, ModeLand, ModeReturn} {
		v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
		fly(v)
		v.mode = given
		v.simulate(1500*time.Millisecond, nil)
		if got := v.view(); got.Phase != PhasePilot {
			t.Fatalf("in %s it is %s", px4{}.modeName(given), got.Phase)
		}
		if err := v.Resume(resume(1, false)); err != nil {
			t.Fatal(err)
		}
		v.simulate(2*time.Second, nil) // not followed: still in the mode at resume
		if got := v.view(); got.Phase != PhaseEngaging {
			t.Errorf("given in %s it is %s", px4{}.modeName(given), got.Phase)
		}
		v.simulate(2*time.Second, v.handleCommand)
		if got := v.view(); !got.Flying || got.Reason != "" {
			t.Errorf("given in %s it does not fly: %s, %q", px4{}.modeName(given), got.Phase, got.Reason)
		}
		v.mode = given // again
		v.simulate(1500*time.Millisecond, nil)
		if got := v.view(); got.Phase != PhasePilot {
			t.Errorf("chosen again, %s is overruled", px4{}.modeName(given))
		}
		v.expectNoCommands(10 * time.Second)
	}
}

// Launch is for aircraft on the ground, Resume for those in the air, and neither for one
// that has an order, or is not received.
func TestOrderConditions(t *testing.T) {
	refused := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	refused(v.Resume(resume(1, false)), "resume aircraft 1: is not in the air")
	refused(v.Launch(ordered(2)), "launch aircraft 2: no position and HEARTBEAT")
	refused(v.Launch(ordered(1, 2)), "launch aircraft 2: no position and HEARTBEAT")
	if got := v.view(); got.Phase != PhaseIdle {
		t.Errorf("an order that was refused for another aircraft launched this one: %v", got.Phase)
	}
	fly(v)
	refused(v.Launch(ordered(1)), "is flying already")
	refused(v.Resume(resume(1, true)), "is flying already")
	v.mode = ModePosition
	v.simulate(1500*time.Millisecond, nil)
	refused(v.Launch(ordered(1)), "not on the ground")
	refused(v.Rejoin(1), "with its pilot")
	v.silent = true
	v.simulate(3*time.Second, nil)
	refused(v.Resume(resume(1, false)), "its position is 3")
}

// An aircraft in the air that is not received stays an obstacle until the crew clears
// it, and is one again once it is received.
func TestClearedUntilReceived(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	if err := v.Clear(ordered(1)); err == nil {
		t.Error("one on the ground was cleared")
	}
	fly(v)
	if err := v.Clear(ordered(1)); err == nil {
		t.Error("an aircraft that is received was cleared")
	}
	v.silent = true
	v.simulate(9*time.Second, nil)
	if err := v.Clear(ordered(1)); err == nil || !strings.Contains(err.Error(), "received 9") {
		t.Errorf("before it is lost: %v", err)
	}
	v.simulate(2*time.Second, nil)
	if len(v.SavedState()[0].PossiblePath) == 0 {
		t.Error("it is forgotten")
	}
	if err := v.Clear(ordered(1)); err != nil || len(v.SavedState()[0].PossiblePath) > 0 {
		t.Errorf("lost: %v, %v", err, v.SavedState()[0].PossiblePath)
	}
	v.silent = false
	v.simulate(time.Second, nil)
	if len(v.SavedState()[0].PossiblePath) == 0 {
		t.Error("received again, it is no obstacle")
	}
}

// An aircraft with its motors off, or under pilot control, is not Flying.
func TestDisarmedDoesNotFly(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	fly(v)
	if got := v.view(); !got.Flying || !got.InAir {
		t.Fatalf("%+v", got)
	}
	v.armed = false
	v.sendHeartbeat()
	if got := v.view(); got.Flying || got.InAir {
		t.Errorf("%+v", got)
	}
}

// An aircraft that was lost is its pilot's once it is received again, whatever its mode.
func TestLostIsThePilots(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.simulate(time.Second, nil)
	fly(v)
	v.silent = true
	v.simulate(12*time.Second, nil)
	v.silent = false
	v.simulate(1500*time.Millisecond, func(m message.Message) {
		if _, ok := m.(*common.MessageSetPositionTargetGlobalInt); ok {
			t.Error("a setpoint is sent to an aircraft that was lost")
		}
	})
	if got := v.view(); got.Phase != PhasePilot || got.Lost {
		t.Errorf("%s, lost %v", got.Phase, got.Lost)
	}
}

// A leg that leads out of the area ends at its edge.
func TestLegsEndAtTheFence(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 995, NorthM: 500})
	v.simulate(time.Second, nil)
	fly(v)
	v.Leg(1, physics.Position{EastM: 20})
	setpoints := 0
	v.simulate(500*time.Millisecond, func(m message.Message) {
		s, ok := m.(*common.MessageSetPositionTargetGlobalInt)
		if !ok {
			return
		}
		setpoints++
		if at, _ := v.Origin.Local(float64(s.LatInt)/1e7, float64(s.LonInt)/1e7, height.AboveSea(s.Alt)); at.EastM > v.Limits.AreaM+0.1 {
			t.Errorf("a setpoint at %v m east", at.EastM)
		}
	})
	if setpoints == 0 {
		t.Error("no setpoint was sent")
	}
}

// commandsModes are the modes commanded while time passes.
func (v *simVehicle) commandedModes(d time.Duration, react func(message.Message)) (modes []Mode) {
	v.simulate(d, func(m message.Message) {
		if what, mode := classify(px4{}, m); what == kindMode {
			modes = append(modes, mode)
		}
		if react != nil {
			react(m)
		}
	})
	return modes
}

// OFFBOARD is commanded once the ledger has that it will be. Before, a leader that was
// killed would take a Hold that its pilot chose for the end of the take-off.
func TestOffboardIsDurableFirst(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.simulate(time.Second, nil)
	climb(v)
	v.disk = "hangs"
	v.upM, v.mode = 100, ModeHold
	if modes := v.commandedModes(10*time.Second, nil); len(modes) > 0 {
		t.Fatalf("%v was commanded, and the ledger does not have it", modes)
	}
	if got := v.view(); got.Phase != PhaseEngaging {
		t.Fatalf("it is %s", got.Phase)
	}
	v.disk = ""
	v.simulate(3*time.Second, v.handleCommand)
	if got := v.view(); !got.Flying {
		t.Errorf("it is %s in %s", got.Phase, got.ModeName)
	}
	// One that is sent home at the end of its climb needs no OFFBOARD to be there.
	home := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	home.simulate(time.Second, nil)
	climb(home)
	home.disk = "hangs"
	home.upM, home.mode = 100, ModeHold
	home.simulate(time.Second, nil)
	home.SendHome(1)
	if modes := home.commandedModes(3*time.Second, home.handleCommand); len(modes) == 0 || modes[0] != ModeLand {
		t.Errorf("sent home: %v commanded, want %v", modes, ModeLand)
	}
}

// One that was stopped is sent home though the disk finishes no write: what the ledger has
// of it leaves it to its pilot after a restart, so that no Hold is overruled.
func TestHomeWhileTheDiskHangs(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.simulate(time.Second, nil)
	fly(v)
	v.position.EastM += 100
	v.Stop(1)
	v.simulate(5*time.Second, v.handleCommand)
	if got := v.view(); got.Phase != PhasePilot {
		t.Fatalf("stopped: %s in %s", got.Phase, got.ModeName)
	}
	v.disk = "hangs"
	if err := v.Resume(resume(1, true)); err != nil {
		t.Fatal(err)
	}
	v.simulate(5*time.Second, v.handleCommand)
	if got := v.view(); !got.Flying || got.Mode != ModeOffboard {
		t.Errorf("sent home: %s in %s", got.Phase, got.ModeName)
	}
}

// Home is where an aircraft took off last, and that is where it lands.
func TestHomeIsOfTheLastTakeOff(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.simulate(time.Second, nil)
	fly(v)
	v.mode, v.position = ModePosition, physics.Position{EastM: 380, NorthM: 300}
	v.simulate(2*time.Second, nil)
	v.armed, v.landed, v.upM = false, true, 0
	v.simulate(2*time.Second, nil)
	climb(v)
	v.mode, v.upM = ModeHold, 100
	v.simulate(3*time.Second, v.handleCommand)
	if got := v.view(); !got.Flying || got.Home == nil || got.Home.Sub(v.position).Norm() > 1 {
		t.Fatalf("%s, home %v", got.Phase, got.Home)
	}
	v.SendHome(1)
	v.simulate(3*time.Second, v.handleCommand)
	if got := v.view(); got.Phase != PhaseLanding {
		t.Errorf("sent home where it took off last: %s", got.Phase)
	}
}

// A gap in the setpoints of a living leader ends as one over a restart does: by setpoints
// alone, where PX4's failsafe holds for want of them, and by its pilot where it is another.
func TestGapInTheStream(t *testing.T) {
	for name, c := range map[string]struct {
		home bool
		then func(v *simVehicle) // five seconds later
		want Phase
		why  string
	}{
		"it ends with setpoints":             {false, func(v *simVehicle) { v.mode, v.failsafe = ModeOffboard, false }, PhaseFlying, ""},
		"it ends with setpoints, on its way": {true, func(v *simVehicle) { v.mode, v.failsafe = ModeOffboard, false }, PhaseFlying, ""},
		"it does not end":                    {false, func(v *simVehicle) {}, PhasePilot, "did not end"},
		"its pilot chooses Hold":             {false, func(v *simVehicle) { v.failsafe = false }, PhasePilot, "pilot's"},
		"its pilot chooses POSCTL": {false, func(v *simVehicle) { v.mode, v.failsafe = ModePosition, false }, PhasePilot,
			"POSCTL"},
		"a worse failsafe follows, on its way": {true, func(v *simVehicle) { v.mode = ModeReturn }, PhasePilot, "AUTO.RTL"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
			v.simulate(time.Second, nil)
			fly(v)
			v.position.EastM += 100
			v.simulate(200*time.Millisecond, nil)
			if c.home {
				v.SendHome(1)
			}
			v.mode, v.failsafe = ModeHold, true
			setpoints := 0
			watch := v.onlySetpoints(&setpoints)
			for range 6 {
				v.Hold(1)
				v.simulate(time.Second, watch)
			}
			if setpoints < 40 || v.view().Phase != PhaseEngaging {
				t.Fatalf("%s after %d setpoints", v.view().Phase, setpoints)
			}
			c.then(v)
			for range 6 {
				v.Hold(1)
				v.simulate(time.Second, watch)
			}
			if got := v.view(); got.Phase != c.want || !strings.Contains(got.Reason, c.why) {
				t.Errorf("%s: %q", got.Phase, got.Reason)
			}
			if c.want == PhasePilot {
				v.expectNoCommands(20 * time.Second)
			}
		})
	}
}

// A loop that stalls sends no setpoints in the failsafe's Hold either: the stream goes on
// when the loop does.
func TestGapOfAStalledLoop(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.simulate(time.Second, nil)
	fly(v)
	v.simulate(15*time.Second, nil) // the stream has ended
	v.mode, v.failsafe = ModeHold, true
	v.simulate(time.Second, nil)
	v.expectNoCommands(30 * time.Second)
	if got := v.view(); got.Phase != PhaseEngaging {
		t.Fatalf("it is %s: %q", got.Phase, got.Reason)
	}
	v.Hold(1)
	setpoints := 0
	v.simulate(time.Second, func(m message.Message) {
		if what, _ := classify(px4{}, m); what == kindSetpoint {
			setpoints++
		}
	})
	if setpoints == 0 {
		t.Error("no setpoints once the loop goes on")
	}
}

// A leader that stood still for seconds reads what was sent meanwhile before it sends anything.
func TestReadsBeforeItSendsAfterAStall(t *testing.T) {
	v := flyingVehicle(t)
	v.Hold(1)
	v.clock.Advance(7 * time.Second)
	v.bootMS += 7000
	v.Hold(1)
	v.sent.frames = nil
	v.tick()
	if got := v.sent.drain(); len(got) > 0 {
		t.Fatalf("sent %+v before anything is read", got)
	}
	v.mode = ModeReturn
	v.sendHeartbeat()
	v.sendState()
	v.clock.Advance(100 * time.Millisecond)
	v.expectNoCommands(2 * time.Second)
	if got := v.view(); got.Phase != PhasePilot {
		t.Errorf("it is %s: %q", got.Phase, got.Reason)
	}
}

// It reads what was sent meanwhile first, also if that takes it long.
func TestReadsAllBeforeItSendsAfterAStall(t *testing.T) {
	const stallS = 8
	v := flyingVehicle(t)
	v.Hold(1)
	v.clock.Advance(stallS * time.Second)
	v.sent.frames = nil
	for range stallS { // a second of messages in each ten milliseconds
		v.tick()
		v.bootMS += 1000
		v.sendState()
		v.clock.Advance(10 * time.Millisecond)
	}
	v.Hold(1)
	v.tick()
	if got := v.sent.drain(); len(got) > 0 {
		t.Fatalf("sent %+v before all is read", got)
	}
	v.sendHeartbeat()
	for range 6 {
		v.clock.Advance(10 * time.Millisecond)
		v.tick()
	}
	if got := v.sent.drain(); len(got) == 0 {
		t.Error("sent nothing once all was read")
	}
}

// What it decided before a stall is not sent after it, whatever was read meanwhile, and nothing until a HEARTBEAT that was sent after
// the stall: of those that waited to be read a part may have been dropped, with the one that shows a pilot.
func TestSendsNothingDecidedBeforeAStall(t *testing.T) {
	v := flyingVehicle(t)
	v.Hold(1)
	v.tick()
	v.clock.Advance(3 * time.Second)
	v.bootMS += 3000
	v.sendHeartbeat()
	v.sendState()
	send := func() bool {
		v.mutex.Lock()
		defer v.mutex.Unlock()
		a := v.Fleet.aircraft[0]
		return v.Fleet.send(a.link, a.channel, a, &common.MessageSetPositionTargetGlobalInt{})
	}
	if send() {
		t.Error("sent a setpoint of before the stall")
	}
	v.tick()
	if send() {
		t.Error("sent a setpoint before a HEARTBEAT of after the stall")
	}
	v.clock.Advance(time.Second)
	v.bootMS += 1000
	v.sendHeartbeat()
	v.sendState()
	v.tick()
	if !send() {
		t.Error("sent no setpoint after a HEARTBEAT")
	}
}

// An autopilot that reboots shows its mode before its positions. One that is resumed between the two would
// have a pilot again at its next position, and fly on in the mode that the leader has just commanded.
func TestResumeNeedsAPositionSince(t *testing.T) {
	v := flyingVehicle(t)
	v.mode = ModeHold
	v.clock.Advance(100 * time.Millisecond)
	v.sendHeartbeat()
	if got := v.view(); got.Phase != PhasePilot {
		t.Fatalf("it is %s", got.Phase)
	}
	if err := v.Resume(resume(1, false)); err == nil || !strings.Contains(err.Error(), "no position since") {
		t.Errorf("resumed before a position: %v", err)
	}
	v.sendState()
	if err := v.Resume(resume(1, false)); err != nil {
		t.Errorf("not resumed after a position: %v", err)
	}
}

// A position may still come between a reboot's HEARTBEAT and those that show it. One that is resumed by then flies on: nobody would
// command it, in the mode that the leader has just chosen.
func TestResumedBeforeItsRebootShows(t *testing.T) {
	v := flyingVehicle(t)
	v.mode = ModeHold
	v.clock.Advance(100 * time.Millisecond)
	v.sendHeartbeat()
	v.sendState()
	v.clock.Advance(200 * time.Millisecond)
	if err := v.Resume(resume(1, false)); err != nil {
		t.Fatal(err)
	}
	v.bootMS = 200 // since the HEARTBEAT
	v.simulate(4*time.Second, nil)
	if got := v.view(); got.Phase == PhasePilot {
		t.Errorf("it is %s, %s", got.Phase, got.Reason)
	}
}

// After a stop it is resumed at once: its autopilot's hold is what the leader commanded.
func TestResumeAtOnceAfterAStop(t *testing.T) {
	v := flyingVehicle(t)
	v.Stop(1)
	v.clock.Advance(100 * time.Millisecond)
	v.tick()
	v.mode = ModeHold
	v.clock.Advance(100 * time.Millisecond)
	v.sendHeartbeat()
	v.tick()
	if got := v.view(); got.Phase != PhasePilot {
		t.Fatalf("it is %s", got.Phase)
	}
	if err := v.Resume(resume(1, true)); err != nil {
		t.Error(err)
	}
}

// One that lands may be on the ground before it follows a resume: it would stand there with its motors on.
func TestNoResumeAboveTheGround(t *testing.T) {
	for _, mode := range []Mode{ModeReturn, ModeLand} {
		v := flyingVehicle(t)
		v.mode, v.upM = mode, 9
		v.sendHeartbeat()
		v.clock.Advance(100 * time.Millisecond)
		v.sendState()
		if err := v.Resume(resume(1, false)); err == nil || !strings.Contains(err.Error(), "about to touch down") {
			t.Errorf("%v: resumed at 9 m: %v", mode, err)
		}
		v.upM = 15
		v.sendState()
		if err := v.Resume(resume(1, false)); err != nil {
			t.Errorf("%v: not resumed at 15 m: %v", mode, err)
		}
	}
}

// One `resume` is enough after a failsafe has ended the take-off, whether the failsafe
// lasts until H or ends in Hold.
func TestResumeAfterAFailsafeInTheClimb(t *testing.T) {
	for name, lasts := range map[string]bool{"it ends in Hold": false, "it lasts": true} {
		v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
		v.simulate(time.Second, nil)
		climb(v)
		v.mode, v.failsafe = ModeHold, true
		v.simulate(1500*time.Millisecond, nil)
		if got := v.view(); got.Phase != PhasePilot {
			t.Fatalf("%s: a failsafe in the climb left it %s", name, got.Phase)
		}
		if err := v.Resume(resume(1, false)); err != nil {
			t.Fatal(err)
		}
		v.failsafe = lasts
		v.sendHeartbeat() // before the take-off is commanded
		v.simulate(3*time.Second, v.handleCommand)
		v.upM, v.mode = 100, ModeHold
		v.simulate(1500*time.Millisecond, nil)
		v.simulate(4*time.Second, v.handleCommand)
		if got := v.view(); !got.Flying {
			t.Errorf("%s: it is %s in %s: %q", name, got.Phase, got.ModeName, got.Reason)
		}
	}
}

// Nothing is commanded before Rejoin has decided; a stop meanwhile neither.
func TestNothingIsCommandedBeforeRejoin(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
		v.simulate(time.Second, nil)
		fly(v)
		v.replaceLeader(v.savedUnderCommand())
		v.expectNoCommands(5 * time.Second)
		if got := v.view(); got.Phase != PhaseRejoining || !got.UnderCommand() {
			t.Fatalf("it is %s, under command %v", got.Phase, got.UnderCommand())
		}
		if stopped {
			v.Stop(1)
		} else {
			v.SendHome(1)
		}
		v.expectNoCommands(5 * time.Second)
		if stopped {
			v.RejoinStopped(1)
		} else if err := v.Rejoin(1); err != nil {
			t.Error(err)
		}
		if got := v.view(); got.Homeward == stopped || (got.Phase == PhaseStopping) != stopped {
			t.Errorf("stopped %v: %s, on its way home %v", stopped, got.Phase, got.Homeward)
		}
	}
}

// An aircraft that no trajectory was ordered is sent no setpoint, least of all one to the
// area's south-west corner.
func TestNoTrajectoryIsNoSetpoint(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.simulate(time.Second, nil)
	fly(v)
	v.mutex.Lock()
	v.Fleet.aircraft[0].trajectory = trajectory{}
	v.mutex.Unlock()
	v.simulate(time.Second, func(m message.Message) {
		if what, _ := classify(px4{}, m); what == kindSetpoint {
			t.Fatalf("sent %+v", m)
		}
	})
}

// After a restart the autopilot's speed limit holds before it is read again.
func TestSpeedLimitOverARestart(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.simulate(time.Second, nil)
	fly(v)
	before := v.transitSpeedMPS()
	v.Fleet.aircraft[0].params.SpeedMaxMPS = 5
	v.replaceLeader(v.savedUnderCommand())
	if got := v.transitSpeedMPS(); got > 5 || before <= 5 {
		t.Errorf("transits at %v m/s, before at %v, and the limit is 5", got, before)
	}
}

// onlySetpoints counts setpoints, and fails the test for anything else that moves it.
func (v *simVehicle) onlySetpoints(count *int) func(message.Message) {
	return func(m message.Message) {
		switch what, mode := classify(px4{}, m); what {
		case kindHarmless:
		case kindSetpoint:
			*count++
		default:
			v.t.Fatalf("sent %v %v: %+v", what, mode, v.view())
		}
	}
}

// A leader that dies while a stopped aircraft still brakes leaves it to the next one, which commands the hold unless it is in one, or
// in a mode of its pilot: one that hovers on without setpoints would be passed over by a return.
func TestStoppedBeforeARestart(t *testing.T) {
	for _, c := range []struct {
		mode   Mode
		holds  int // commanded
		reason string
	}{{ModeOffboard, 1, "stopped"}, {ModeHold, 0, "stopped"}, {ModePosition, 0, "found in POSCTL"}} {
		v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
		fly(v)
		v.Stop(1)
		saved := v.SavedState()
		v.mode = c.mode
		v.replaceLeader(saved)
		v.Stop(1) // nothing is known yet
		v.simulate(500*time.Millisecond, nil)
		v.RejoinStopped(1)
		holds := 0
		v.simulate(5*time.Second, func(m message.Message) {
			if what, mode := classify(px4{}, m); what == kindMode && mode == ModeHold {
				holds++
				v.mode = mode
			}
		})
		if got := v.view(); holds != c.holds || got.Phase != PhasePilot || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("found in mode %v: %d holds commanded, %s: %s", c.mode, holds, got.Phase, got.Reason)
		}
	}
}
