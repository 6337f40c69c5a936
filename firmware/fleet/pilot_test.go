package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/inference/physics"
)

// situation is a phase, as the leader gets there.
type situation struct {
	name   string
	phase  Phase
	before Order // which a restart finds in the ledger
	reach  func(v *vehicle)
}

var situations = []situation{
	{"idle", PhaseIdle, OrderNone, func(v *vehicle) {}},
	{"arming", PhaseClimbing, OrderFly, func(v *vehicle) {
		v.Launch(1)
		v.run(time.Second, nil)
	}},
	{"armed on the ground", PhaseClimbing, OrderFly, func(v *vehicle) {
		v.Launch(1)
		v.run(2500*time.Millisecond, func(m message.Message) {
			v.obey(m)
			v.landed, v.upM = true, 0 // TAKEOFF, and not off the ground yet
		})
	}},
	{"in its climb", PhaseClimbing, OrderFly, climb},
	{"engaging", PhaseEngaging, OrderFly, func(v *vehicle) {
		climb(v)
		v.upM, v.mode = 100, ModeHold
		v.run(2*time.Second, nil)
	}},
	{"flying", PhaseFlying, OrderFly, fly},
	{"homing", PhaseFlying, OrderHome, func(v *vehicle) {
		fly(v)
		v.position.EastM += 100
		v.state()
		v.Command(1, OrderHome)
		v.run(time.Second, v.obey)
	}},
	{"landing", PhaseLanding, OrderHome, func(v *vehicle) {
		fly(v)
		v.Command(1, OrderHome)
		v.run(3*time.Second, v.obey)
		v.upM = 60
	}},
	{"stopping", PhaseStopping, OrderStop, func(v *vehicle) {
		fly(v)
		v.Command(1, OrderStop)
		v.run(500*time.Millisecond, nil) // asked, and not done yet
	}},
}

func climb(v *vehicle) {
	v.Launch(1)
	v.run(3*time.Second, v.obey)
}

func fly(v *vehicle) {
	climb(v)
	v.upM, v.mode = 100, ModeHold
	v.run(4*time.Second, v.obey)
	v.Hold(1)
}

var pilotActs = []struct {
	name string
	do   func(v *vehicle)
}{
	{"disarms", func(v *vehicle) { v.armed = false }},
	{"chooses POSCTL", func(v *vehicle) { v.mode = ModePosition }},
	{"chooses Hold", func(v *vehicle) { v.mode = ModeHold }},
	{"chooses RTL", func(v *vehicle) { v.mode = ModeReturn }},
	{"chooses LAND", func(v *vehicle) { v.mode = ModeLand }},
	{"reboots", func(v *vehicle) { v.bootMS, v.armed, v.mode = 5000, false, ModeHold }},
	{"reboots in the air", func(v *vehicle) {
		v.bootMS, v.mode = 5000, ModeHold
		v.armed = !v.landed
	}},
}

// notTheirs are the cells in which an aircraft is not left to its pilot, with
// the phase that follows. In all others nothing that moves it is sent any more.
var notTheirs = map[string]Phase{
	// It has no order, and gets none.
	"idle": PhaseIdle,
	// What the act leads to is what it was in already, or what we asked for.
	"arming, disarms":        PhaseClimbing, // its motors are off: the ten seconds run on
	"arming, chooses Hold":   PhaseClimbing,
	"landing, chooses LAND":  PhaseLanding,
	"engaging, chooses Hold": PhaseEngaging,
	"stopping, chooses Hold": PhaseTaken,
	// A stream had ended with the leader before: Hold at H is its failsafe's.
	"engaging, chooses Hold, restart": PhaseEngaging,
	"flying, chooses Hold, restart":   PhaseEngaging,
	"homing, chooses Hold, restart":   PhaseEngaging,
}

// Whatever its pilot does, in any phase, with or without a restart of the leader
// meanwhile: the leader neither arms it, nor changes its mode, nor steers it.
func TestPilotActsInEveryPhase(t *testing.T) {
	for _, s := range situations {
		for _, act := range pilotActs {
			for _, restart := range []bool{false, true} {
				name := s.name + ", " + act.name
				if restart {
					name += ", restart"
				}
				t.Run(name, func(t *testing.T) {
					v := newVehicle(newBench(t), 1, physics.Position{EastM: 300, NorthM: 300})
					v.run(time.Second, nil)
					s.reach(v)
					if got := v.view(); got.Phase != s.phase {
						t.Fatalf("the situation was not reached: %s, %+v", got.Phase, got)
					}
					act.do(v)
					if restart {
						v.restart(s.before)
					} else {
						v.run(1500*time.Millisecond, nil) // until its next HEARTBEAT
					}
					want, ours := notTheirs[name]
					if p, ok := notTheirs[s.name]; ok {
						want, ours = p, true
					}
					if !ours {
						want = PhaseTaken
					}
					if restart && s.before == OrderStop || restart && s.before == OrderNone {
						want = PhaseIdle // there is no order to go on with
					}
					got := v.view()
					if got.Phase != want {
						t.Fatalf("%s, want %s: %+v", got.Phase, want, got)
					}
					if want != PhaseTaken && want != PhaseIdle {
						return
					}
					if want == PhaseTaken && got.Reason == "" {
						t.Error("no reason is said")
					}
					v.leftAlone(30 * time.Second)
					v.mode = ModeOffboard // its pilot may choose what it likes
					v.leftAlone(5 * time.Second)
					v.Command(1, OrderHome)
					v.leftAlone(5 * time.Second)
					v.Command(1, OrderStop)
					v.leftAlone(5 * time.Second)
					if got := v.view(); got.Flying || got.Phase != want {
						t.Errorf("afterwards it is %s: %+v", got.Phase, got)
					}
				})
			}
		}
	}
}

// leftAlone is that nothing which moves the vehicle is sent to it for a while.
func (v *vehicle) leftAlone(d time.Duration) {
	v.t.Helper()
	v.run(d, func(m message.Message) {
		if what, _ := kindOf(m); what != kindPlain {
			v.t.Fatalf("sent %+v: %+v", m, v.view())
		}
	})
}

// saved is what a ledger has of the vehicle; whose it is, the test says.
func (v *vehicle) saved() []Saved {
	saved := v.State()
	saved[0].Pilot, saved[0].Way = false, nil
	return saved
}

// restart replaces the leader: a new fleet hears the vehicle, and gives it the
// order that it had.
func (v *vehicle) restart(o Order) {
	saved := v.saved()
	v.bench = newBench(v.t)
	v.Restore(saved)
	v.beat()
	v.say(beat(v.mode, v.armed))
	v.state()
	v.leftAlone(time.Second)
	if o == OrderFly || o == OrderHome {
		v.Rejoin(1, o)
	}
	v.run(500*time.Millisecond, nil)
}

// A restart in which nothing happened goes on where the leader was.
func TestRejoinGoesOn(t *testing.T) {
	for name, want := range map[string]Phase{
		"armed on the ground": PhaseClimbing, "in its climb": PhaseClimbing, "engaging": PhaseEngaging, "flying": PhaseFlying, "homing": PhaseFlying,
	} {
		for _, s := range situations {
			if s.name != name {
				continue
			}
			v := newVehicle(newBench(t), 1, physics.Position{EastM: 300, NorthM: 300})
			v.run(time.Second, nil)
			s.reach(v)
			v.restart(s.before)
			if got := v.view(); got.Phase != want || got.Order != s.before {
				t.Errorf("%s: %s, %+v", name, got.Phase, got)
			}
		}
	}
}

// Those of which nothing is known after a restart, and those that stand, are left.
func TestRejoinLeavesWhatIsNotClearlyOurs(t *testing.T) {
	for name, c := range map[string]struct {
		change func(v *vehicle)
		want   string
	}{
		"unheard":                   {func(v *vehicle) { v.mute = true }, "not heard"},
		"no HEARTBEAT":              {func(v *vehicle) { v.noBeats = true }, "not heard"},
		"on the ground, armed":      {func(v *vehicle) { v.landed, v.mode, v.upM = true, ModeHold, 0 }, "on the ground"},
		"on the ground":             {func(v *vehicle) { v.landed, v.armed, v.mode, v.upM = true, false, ModeHold, 0 }, "motors off"},
		"Hold far below H":          {func(v *vehicle) { v.upM, v.mode = 50, ModeHold }, "AUTO.LOITER"},
		"rebooted and flies on":     {func(v *vehicle) { v.bootMS, v.mode = 3000, ModeHold }, "rebooted"},
		"a failsafe brings it home": {func(v *vehicle) { v.mode = ModeReturn }, "AUTO.RTL"},
	} {
		for _, o := range []Order{OrderFly, OrderHome} {
			v := newVehicle(newBench(t), 1, physics.Position{EastM: 300, NorthM: 300})
			v.run(time.Second, nil)
			fly(v)
			saved := v.saved()
			c.change(v)
			v.bench = newBench(t)
			v.Restore(saved)
			v.beat()
			v.beat()
			v.state()
			v.run(time.Second, nil)
			err := v.Rejoin(1, o)
			if got := v.view(); err == nil || got.Phase != PhaseTaken || !strings.Contains(got.Reason, c.want) {
				t.Errorf("%s, order %d: %v, %s, reason %q", name, o, err, got.Phase, got.Reason)
			}
			v.leftAlone(20 * time.Second)
		}
	}
}

// A disarm after it was armed ends the order: it is not armed again, however
// long the mission waits.
func TestDisarmInTheClimbIsThePilots(t *testing.T) {
	v := newVehicle(newBench(t), 1, physics.Position{EastM: 300, NorthM: 300})
	climb(v)
	v.armed, v.landed, v.upM = false, true, 0
	v.run(1500*time.Millisecond, nil)
	if got := v.view(); got.Phase != PhaseTaken || !strings.Contains(got.Reason, "disarmed while climbing") {
		t.Fatalf("%s: %q", got.Phase, got.Reason)
	}
	v.leftAlone(200 * time.Second)
	if err := v.Resume(1, OrderFly); err == nil {
		t.Error("resumed on the ground")
	}
	v.leftAlone(20 * time.Second)
	if err := v.Launch(1); err != nil {
		t.Errorf("an order to leave the ground: %v", err)
	}
	if v.run(2*time.Second, v.obey); !v.armed {
		t.Error("it does not arm after it was launched again")
	}
}

// Arming is asked for ten seconds for each order, and no longer.
func TestArmingIsAskedForTenSeconds(t *testing.T) {
	for name, mode := range map[string]Mode{"in Hold": ModeHold, "in the mode it landed in": ModeOffboard} {
		v := newVehicle(newBench(t), 1, physics.Position{EastM: 300, NorthM: 300})
		v.mode = mode
		v.beat()
		for range 2 {
			if err := v.Launch(1); err != nil {
				t.Fatal(err)
			}
			asked, lastS, beganS := 0, 0.0, v.nowS()
			v.run(60*time.Second, func(m message.Message) {
				if what, _ := kindOf(m); what != kindPlain {
					asked, lastS = asked+1, v.nowS()
				}
			})
			if took := lastS - beganS; asked < 8 || asked > 11 || took < 8 || took > 10.2 {
				t.Errorf("%s: asked %d times in %.1f s", name, asked, took)
			}
			if got := v.view(); got.Phase != PhaseTaken || !strings.Contains(got.Reason, "not armed in 10 s") {
				t.Errorf("%s: %s, %q", name, got.Phase, got.Reason)
			}
		}
	}
}

// Whoever stops gets the aircraft in its autopilot's Hold; that is asked for
// until it is in Hold once, and nobody's landing or choice is overruled.
func TestStopHandsOver(t *testing.T) {
	for _, s := range situations {
		if s.phase == PhaseIdle || s.phase == PhaseStopping {
			continue
		}
		v := newVehicle(newBench(t), 1, physics.Position{EastM: 300, NorthM: 300})
		s.reach(v)
		v.Command(1, OrderStop)
		asked := 0
		v.run(10*time.Second, func(m message.Message) {
			if what, mode := kindOf(m); what == kindMode && mode == ModeHold {
				asked++
			}
			v.obey(m)
		})
		want := map[string]int{"arming": 0, "armed on the ground": 1, "in its climb": 1, "engaging": 1, "flying": 1, "homing": 1, "landing": 0}[s.name]
		phase := PhaseTaken
		if s.name == "arming" {
			phase = PhaseIdle
		}
		if got := v.view(); asked != want || got.Phase != phase {
			t.Errorf("%s: Hold was asked for %d times, want %d; it is %s in %s", s.name, asked, want, got.Phase, got.Mode)
		}
		v.mode = ModePosition
		v.leftAlone(10 * time.Second)
	}
}

// A stop overtakes a take-off that was asked for just before.
func TestStopOvertakesATakeOff(t *testing.T) {
	v := newVehicle(newBench(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.Launch(1)
	took := false
	for !took {
		v.run(100*time.Millisecond, func(m message.Message) {
			what, _ := kindOf(m)
			took = took || what == kindTakeOff
			if what == kindArm {
				v.obey(m)
			}
		})
	}
	v.Command(1, OrderStop) // its HEARTBEAT still says Hold
	v.run(100*time.Millisecond, nil)
	v.mode, v.landed, v.upM = ModeTakeoff, false, 5
	v.run(5*time.Second, v.obey)
	if got := v.view(); v.mode != ModeHold || got.Phase != PhaseTaken {
		t.Errorf("it climbs on after the stop: %s in %s", got.Phase, v.mode)
	}
}

// A pilot's choice counts from the moment on that it is made, not from the next
// HEARTBEAT: before anything is asked for, one is.
func TestStopAsksWhatThePilotDidFirst(t *testing.T) {
	v := newVehicle(newBench(t), 1, physics.Position{EastM: 300, NorthM: 300})
	fly(v)
	v.run(time.Second, nil)
	v.run(time.Duration(1000-v.bootMS%1000+400)*time.Millisecond, nil) // its HEARTBEAT was 0.4 s ago
	v.mode = ModePosition
	v.Command(1, OrderStop)
	v.run(10*time.Second, v.obey)
	if got := v.view(); v.mode != ModePosition || got.Phase != PhaseTaken || !strings.Contains(got.Reason, "POSCTL") {
		t.Errorf("in %s, %s: %q", v.mode, got.Phase, got.Reason)
	}
}

// One that leaves its climb is its pilot's, or flies a failsafe; at H the
// autopilot holds by itself.
func TestClimbEndsAtH(t *testing.T) {
	for _, c := range []struct {
		mode Mode
		upM  float64
		want Phase
	}{
		{ModeHold, 50, PhaseTaken}, {ModeReturn, 50, PhaseTaken}, {ModePosition, 50, PhaseTaken}, {ModePosition, 99, PhaseTaken},
		{ModeTakeoff, 50, PhaseClimbing}, {ModeTakeoff, 98, PhaseEngaging}, {ModeHold, 99, PhaseEngaging},
	} {
		v := newVehicle(newBench(t), 1, physics.Position{EastM: 300, NorthM: 300})
		climb(v)
		v.upM = c.upM
		v.state()
		v.mode = c.mode
		v.run(1500*time.Millisecond, nil)
		if got := v.view(); got.Phase != c.want {
			t.Errorf("%v at %v m: %s, want %s", c.mode, c.upM, got.Phase, c.want)
		}
	}
}

// The crew may give an aircraft back in any mode; what its pilot chooses after
// that counts again, while it engages too.
func TestResumeDoesNotExcuseWhatFollows(t *testing.T) {
	for _, given := range []Mode{ModeHold, ModePosition, ModeLand, ModeReturn} {
		v := newVehicle(newBench(t), 1, physics.Position{EastM: 300, NorthM: 300})
		fly(v)
		v.mode = given
		v.run(1500*time.Millisecond, nil)
		if got := v.view(); got.Phase != PhaseTaken {
			t.Fatalf("in %s it is %s", given, got.Phase)
		}
		if err := v.Resume(1, OrderFly); err != nil {
			t.Fatal(err)
		}
		v.run(2*time.Second, nil) // not obeyed: still in the mode it was given in
		if got := v.view(); got.Phase != PhaseEngaging {
			t.Errorf("given in %s it is %s", given, got.Phase)
		}
		v.run(2*time.Second, v.obey)
		if got := v.view(); !got.Flying || got.Reason != "" {
			t.Errorf("given in %s it does not fly: %s, %q", given, got.Phase, got.Reason)
		}
		v.mode = given // again
		v.run(1500*time.Millisecond, nil)
		if got := v.view(); got.Phase != PhaseTaken {
			t.Errorf("chosen again, %s is overruled", given)
		}
		v.leftAlone(10 * time.Second)
	}
}

// Launch is for the ground, Resume for the air, and neither for one that has an
// order, or is not heard.
func TestWhatOrdersWant(t *testing.T) {
	refused := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	v := newVehicle(newBench(t), 1, physics.Position{EastM: 300, NorthM: 300})
	refused(v.Resume(1, OrderFly), "resume aircraft 1: is not in the air")
	refused(v.Resume(1, OrderStop), "order 3")
	refused(v.Launch(2), "launch aircraft 2: no position and HEARTBEAT")
	fly(v)
	refused(v.Launch(1), "is flying already")
	refused(v.Resume(1, OrderHome), "is flying already")
	v.mode = ModePosition
	v.run(1500*time.Millisecond, nil)
	refused(v.Launch(1), "not on the ground")
	refused(v.Rejoin(1, OrderFly), "with its pilot")
	v.mute = true
	v.run(3*time.Second, nil)
	refused(v.Resume(1, OrderFly), "its position is 3")
}

// An aircraft in the air of which nothing is heard stays in the others' way until
// the crew clears it, and is there again once it is heard.
func TestClearedUntilHeard(t *testing.T) {
	v := newVehicle(newBench(t), 1, physics.Position{EastM: 300, NorthM: 300})
	if err := v.Clear(1); err == nil {
		t.Error("one that stands was cleared")
	}
	fly(v)
	if err := v.Clear(1); err == nil {
		t.Error("one that is heard was cleared")
	}
	v.mute = true
	v.run(9*time.Second, nil)
	if err := v.Clear(1); err == nil || !strings.Contains(err.Error(), "heard 9") {
		t.Errorf("before it is lost: %v", err)
	}
	v.run(2*time.Second, nil)
	if len(v.State()[0].Way) == 0 {
		t.Error("it is forgotten")
	}
	if err := v.Clear(1); err != nil || len(v.State()[0].Way) > 0 {
		t.Errorf("lost: %v, %v", err, v.State()[0].Way)
	}
	v.mute = false
	v.run(time.Second, nil)
	if len(v.State()[0].Way) == 0 {
		t.Error("heard again, it is in nobody's way")
	}
}

// One with its motors off, or with its pilot, is not Flying.
func TestDisarmedDoesNotFly(t *testing.T) {
	v := newVehicle(newBench(t), 1, physics.Position{EastM: 300, NorthM: 300})
	fly(v)
	if got := v.view(); !got.Flying || !got.InAir || got.OnGround {
		t.Fatalf("%+v", got)
	}
	v.armed = false
	v.beat()
	if got := v.view(); got.Flying || got.InAir {
		t.Errorf("%+v", got)
	}
}
