package fleet

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"prefdt/firmware/clock"
	"prefdt/firmware/envelope"
	"prefdt/firmware/height"
	"prefdt/inference/physics"
)

// grid are n places apartM apart, in columns of so many rows.
func grid(n, rows int, at physics.Position, apartM float64) (all []physics.Position) {
	for i := range n {
		all = append(all, at.Add(physics.Position{EastM: apartM * float64(i/rows), NorthM: apartM * float64(i%rows)}))
	}
	return all
}

// comeHome puts the fliers into the air and sends them home.
func (w *sky) comeHome(from ...physics.Position) {
	w.t.Helper()
	for i, v := range w.fliers {
		w.aircraft[i].home, w.aircraft[i].homeUpM = &v.home, v.groundUpM
		v.aloft(from[i], w.Limits.AltitudeM)
		if err := w.Resume(resume(i+1, true)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// Eight with homes 12 m apart come home from all over the area, at PX4's own descent of
// 74 s: each lands at its home, and no two come too near in the air, or one in the air
// and one on the ground. Wind pushes them around.
func TestEightComeHome(t *testing.T) {
	arrangements, seeds := []int{8, 4, 3}, uint64(3)
	if testing.Short() { // an emulator takes a minute, and so does the race detector
		arrangements, seeds = arrangements[:1], 1
	}
	for _, rows := range arrangements {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%d rows, seed %d", rows, seed), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				w := newSky(t, grid(8, rows, physics.Position{EastM: 500, NorthM: 300}, 12)...)
				var from []physics.Position
				for len(from) < 8 {
					p := physics.Position{EastM: 1000 * r.Float64(), NorthM: 1000 * r.Float64()}
					near := false
					for _, q := range from {
						near = near || p.Sub(q).Norm() < 20
					}
					if !near {
						from = append(from, p)
					}
				}
				for _, v := range w.fliers {
					v.gust = rand.New(rand.NewPCG(seed, uint64(v.number)))
				}
				w.comeHome(from...)
				if !w.fly(15*time.Minute, w.allDown) {
					t.Error("not all are down")
				}
				t.Logf("%.0f s, nearest %.1f m, %.1f m whatever the height", w.nowS(), w.nearestM, w.levelM)
				if min(w.levelM, w.nearestM) < 10 {
					t.Errorf("two came %.1f m near each other, %.1f m in the air", w.nearestM, w.levelM)
				}
				for i, v := range w.fliers {
					if off := v.position.Sub(v.home).Norm(); off > homeWithinM {
						t.Errorf("aircraft %d is %.1f m from home", i+1, off)
					}
				}
			})
		}
	}
}

// Where another lies near its home, an aircraft lands clear of that one and of all others' homes: the middle one of a row of
// three, of which the last flies still.
func TestLandsBeside(t *testing.T) {
	for _, c := range []struct{ fellM, offM float64 }{ // from its home towards the last one's
		{fellM: 0, offM: 10}, {fellM: -4, offM: 6}, {fellM: -7.2, offM: 2}, {fellM: -9}, {fellM: -12}, {fellM: 9, offM: 2},
	} {
		w := newSky(t, grid(3, 1, physics.Position{EastM: 500, NorthM: 300}, 12)...)
		for i, v := range w.fliers {
			w.aircraft[i].home, w.aircraft[i].located, w.aircraft[i].position = &v.home, true, v.home
		}
		a, others := w.aircraft[1], []*aircraft{w.aircraft[0], w.aircraft[2]}
		others[1].position.NorthM += 300
		others[0].position = a.home.Add(others[1].home.Sub(*a.home).Scale(c.fellM / 12))
		at := w.landingPlace(a)
		if off := at.Sub(*a.home).Norm(); (off > 0) != (c.offM > 0) || off < c.offM {
			t.Errorf("one lies %.1f m away: it lands %.1f m from home", c.fellM, off)
		}
		for _, b := range others {
			if m := at.Sub(b.position).Norm(); m < 8 || a.landsBeside != nil && (m < 10 || at.Sub(*b.home).Norm() < 10) {
				t.Errorf("one lies %.1f m away: it lands %.1f m from aircraft %d", c.fellM, m, b.number)
			}
		}
		others[0].position = *others[0].home
		if at := w.landingPlace(a); at != *a.home {
			t.Errorf("its home is clear again, and it lands %.1f m away", at.Sub(*a.home).Norm())
		}
	}
}

// The wait on the way home follows from what lands before it, by the leader's order or
// not: a slow descent beside its home takes longer than an aircraft waits for one that
// only hovers there.
func TestWaitsForALanding(t *testing.T) {
	for name, stopped := range map[string]bool{"by our order": false, "stopped in its landing": true} {
		w := newSky(t, grid(2, 2, physics.Position{EastM: 500, NorthM: 300}, 10)...)
		w.comeHome(physics.Position{EastM: 500, NorthM: 300}, physics.Position{EastM: 500, NorthM: 400})
		w.fliers[0].descentMPS = 0.3
		w.aircraft[0].params.DescentMPS = 0.3
		w.fly(20*time.Second, nil)
		if stopped {
			w.fliers[0].descentMPS = 0.8
			w.Stop(1)
		}
		if !w.fly(10*time.Minute, w.allDown) {
			t.Fatalf("%s: not all are down", name)
		}
		if off := w.fliers[1].position.Sub(w.fliers[1].home).Norm(); off > homeWithinM || w.nowS() < 150 {
			t.Errorf("%s: after %.0f s it landed %.1f m from home", name, w.nowS(), off)
		}
	}
}

// An aircraft whose home another bars lands where it is, after 60 s or before its battery
// is empty, and not on a third that stands there.
func TestWayHomeBarred(t *testing.T) {
	for name, c := range map[string]struct {
		battery      int8
		least, mostS float64
		parked       bool
		cost         float64 // of flight, over the formula's
	}{
		"a minute": {90, 60, 72, false, 1}, "its battery": {12, 15, 50, false, 1}, "above another": {90, 60, 72, true, 1},
		"its battery, and dear flight": {18, 15, 50, false, 1.5},
	} {
		homes := []physics.Position{{EastM: 500, NorthM: 300}, {EastM: 500, NorthM: 305}, {EastM: 500, NorthM: 325}}
		w := newSky(t, homes...)
		w.fliers[1].aloft(homes[1], 100) // its pilot's
		v := w.fliers[0]
		v.battery = c.battery
		if !c.parked {
			w.fliers[2].position = physics.Position{}
		}
		w.aircraft[0].home = &homes[0]
		v.aloft(physics.Position{EastM: 500, NorthM: 360}, 100)
		w.fly(2*time.Second, nil)
		if err := w.Resume(resume(1, true)); err != nil {
			t.Fatal(err)
		}
		w.UpdateMeter(1, 0, c.cost)
		began := w.nowS()
		if !w.fly(5*time.Minute, func() bool { return w.aircraft[0].phase == PhaseLanding }) {
			t.Fatalf("%s: it hovers still", name)
		}
		waited := w.nowS() - began
		w.fly(2*time.Minute, nil)
		if waited < c.least || waited > c.mostS || v.armed || w.nearestM < 10 || w.levelM < 10 {
			t.Errorf("%s: after %.0f s, armed %v, %.1f and %.1f m from another", name, waited, v.armed, w.nearestM, w.levelM)
		}
	}
}

// An aircraft that is sent home from low in the air, or whose climb somewhere else is
// broken off, climbs to 20 m below its height before it flies there; one over its home lands.
func TestClimbsBeforeItFliesHome(t *testing.T) {
	for name, c := range map[string]struct {
		homeward bool
		offM     float64
	}{"home": {true, 80}, "home in its climb": {false, 80}, "over home": {true, 1}} {
		home := physics.Position{EastM: 500, NorthM: 300}
		w := newSky(t, home)
		w.aircraft[0].home = &home
		v := w.fliers[0]
		v.aloft(home.Add(physics.Position{EastM: c.offM}), 8)
		w.fly(time.Second, nil)
		if err := w.Resume(resume(1, c.homeward)); err != nil {
			t.Fatal(err)
		}
		w.fly(5*time.Second, nil)
		w.SendHome(1)
		from, leftAtM, highest := v.position, 0.0, 0.0
		w.fly(5*time.Minute, func() bool {
			highest = max(highest, float64(v.upM))
			if leftAtM == 0 && v.position.Sub(from).Norm() > 0.5 {
				leftAtM = float64(v.upM)
			}
			return w.allDown()
		})
		if off := v.position.Sub(home).Norm(); !w.allDown() || off > homeWithinM || (leftAtM > 80 && leftAtM < 83) != (c.offM > 5) ||
			(highest > 80) != (c.offM > 5) {
			t.Errorf("%s: down %v, %.1f m from home, up to %.0f m high, it left where it was at %.1f m", name, w.allDown(), off, highest,
				leftAtM)
		}
	}
}

// One that the leader itself sent home is called back while it flies there: not on the crew's order, and not once it lands.
func TestCallBack(t *testing.T) {
	for name, c := range map[string]struct {
		why    string
		flownS time.Duration
		back   bool
	}{"on its way": {"by the plan", 4, true}, "the crew's order": {"", 4, false}, "it lands": {"by the plan", 40, false}} {
		home := physics.Position{EastM: 500, NorthM: 300}
		w := newSky(t, home)
		w.aircraft[0].home = &home
		w.fliers[0].aloft(home.Add(physics.Position{EastM: 80}), 100)
		w.fly(time.Second, nil)
		if err := w.Resume(resume(1, false)); err != nil {
			t.Fatal(err)
		}
		w.fly(5*time.Second, nil)
		w.SendHomeFor(1, c.why)
		w.fly(c.flownS*time.Second, nil)
		if back := w.CallBack(1); back != c.back {
			t.Errorf("%s: called back: %v", name, back)
		}
		w.fly(2*time.Second, nil)
		if v := w.Views()[0]; v.Homeward == c.back || c.back && (!v.Flying || v.SentHome != "") {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// One that was stopped at its height beside its home flies there before it lands, for another's home is as near.
func TestStoppedBesideItsHome(t *testing.T) {
	home := physics.Position{EastM: 500, NorthM: 300}
	w := newSky(t, home)
	w.aircraft[0].home = &home
	v := w.fliers[0]
	v.aloft(home.Add(physics.Position{EastM: 3}), 100)
	w.fly(time.Second, nil)
	if err := w.Resume(resume(1, true)); err != nil {
		t.Fatal(err)
	}
	if w.fly(5*time.Minute, w.allDown); v.position.Sub(home).Norm() > arrivedM {
		t.Errorf("it landed %.1f m from home", v.position.Sub(home).Norm())
	}
}

// One that climbs slowly climbs all the way; one that cannot climb lands where it is.
func TestSlowClimbOnTheWayHome(t *testing.T) {
	for ascentMPS, wantOffM := range map[float64]float64{0.5: 0, 0: 80} {
		home := physics.Position{EastM: 500, NorthM: 300}
		w := newSky(t, home)
		w.aircraft[0].home = &home
		v := w.fliers[0]
		v.ascentMPS = ascentMPS
		v.aloft(home.Add(physics.Position{EastM: 80}), 8)
		w.fly(time.Second, nil)
		if err := w.Resume(resume(1, true)); err != nil {
			t.Fatal(err)
		}
		if !w.fly(10*time.Minute, w.allDown) {
			t.Fatalf("at %v m/s upwards it hovers still", ascentMPS)
		}
		if off := v.position.Sub(home).Norm(); off < wantOffM-homeWithinM || off > wantOffM+homeWithinM {
			t.Errorf("at %v m/s upwards it landed %.1f m from home, want %v", ascentMPS, off, wantOffM)
		}
	}
}

// An autopilot that refuses OFFBOARD on the way home is asked for half a minute; then it
// returns by itself or, if it refuses that for as long, lands. Over its home it lands at once, and
// beside it where it is.
func TestOffboardRefusedOnTheWayHome(t *testing.T) {
	for name, c := range map[string]struct {
		refusesReturn, unknownHome bool
		atM, offM                  float64 // how far from home it began and ended
	}{
		"it returns": {false, false, 200, 1}, "it refuses Return too": {true, false, 200, 200}, "over its home": {false, false, 0.5, 4},
		"beside its home":       {false, false, 3, 4},
		"its home is not known": {false, true, 200, 1}, "nor does it return": {true, true, 200, 200},
	} {
		for _, copter := range []bool{false, true} {
			home := physics.Position{EastM: 500, NorthM: 300}
			w := newSkyOf(t, copter, home)
			w.aircraft[0].home = &home
			v := w.fliers[0]
			v.refusesOffboard, v.refusesReturn = true, c.refusesReturn
			if c.unknownHome {
				w.aircraft[0].home = nil
			}
			v.aloft(home.Add(physics.Position{EastM: c.atM}), 100)
			w.fly(time.Second, nil)
			if err := w.Resume(resume(1, true)); err != nil {
				t.Fatal(err)
			}
			waits, began := 0.0, w.nowS()
			if c.refusesReturn {
				waits = 30
			}
			if !c.unknownHome && c.atM > landsWithinM {
				waits += 30
			}
			lands := RoleReturn
			if c.refusesReturn || c.atM < 5 {
				lands = RoleLand
			}
			a := w.aircraft[0]
			w.fly(5*time.Minute, func() bool { return a.phase == PhaseLanding && a.landingRole() == lands })
			if waited := w.nowS() - began; math.Abs(waited-waits) > 1 {
				t.Errorf("%s, an ArduCopter %v: it waited %.1f s, want %v", name, copter, waited, waits)
			}
			if !w.fly(5*time.Minute, w.allDown) {
				t.Fatalf("%s, an ArduCopter %v: it is %v in %v", name, copter, w.aircraft[0].phase, v.kind().modeName(v.mode))
			}
			w.fly(2*time.Second, nil)
			if off := v.position.Sub(home).Norm(); off > c.offM+1 || off < c.offM-5 || w.aircraft[0].phase != PhaseIdle {
				t.Errorf("%s, an ArduCopter %v: it landed %.1f m from home, and is %v", name, copter, off, w.aircraft[0].phase)
			}
		}
	}
}

// What its pilot flies is not returned: neither one in a mode of theirs that does not
// obey OFFBOARD, nor one that they take over while it is asked.
func TestRefusedOffboardLeavesItToItsPilot(t *testing.T) {
	for name, take := range map[string]func(v *flier){
		"resumed in Position": func(v *flier) { v.mode = ModePosition },
		"taken over":          func(v *flier) {},
	} {
		home := physics.Position{EastM: 500, NorthM: 300}
		w := newSky(t, home)
		w.aircraft[0].home = &home
		v := w.fliers[0]
		v.refusesOffboard = true
		v.aloft(physics.Position{EastM: 500, NorthM: 500}, 100)
		take(v)
		w.fly(2*time.Second, nil)
		if err := w.Resume(resume(1, true)); err != nil {
			t.Fatal(err)
		}
		w.fly(20*time.Second, nil)
		v.mode = ModePosition
		w.fly(20*time.Second, nil)
		if got := v.view(); got.Phase != PhasePilot {
			t.Errorf("%s: it is %v", name, got.Phase)
		}
		w.fly(time.Minute, func() bool { return v.mode != ModePosition })
		if v.mode != ModePosition {
			t.Errorf("%s: it was commanded %v", name, px4{}.modeName(v.mode))
		}
	}
}

// An aircraft that has landed and does not disarm counts as landed after half a minute,
// with a reason for the crew, and is sent nothing: its motors are not the leader's to stop.
// While it only says that it has landed, at a height that changes, it has not.
func TestLandedButNotDisarmed(t *testing.T) {
	home := physics.Position{EastM: 500, NorthM: 300}
	for _, copter := range []bool{false, true} {
		w := newSkyOf(t, copter, home)
		v := w.fliers[0]
		v.neverDisarms = true
		w.comeHome(home)
		touched := w.fly(5*time.Minute, func() bool { return v.landed })
		w.fly(28*time.Second, nil)
		if got := v.view(); !touched || got.Phase != PhaseLanding {
			t.Fatalf("on the ground %v, it is %v", touched, got.Phase)
		}
		w.fly(4*time.Second, nil)
		got := v.view()
		if got.Phase != PhasePilot || got.Reason != "landed, but its motors still run" || got.InAir || got.Obstacle || !v.armed {
			t.Errorf("it is %v: %q", got.Phase, got.Reason)
		}
	}

	w := newSky(t, home)
	v := w.fliers[0]
	w.comeHome(home)
	w.fly(time.Minute, func() bool { return v.upM < 90 })
	for range 40 { // in its descent
		v.landed = true
		v.sendState()
		w.advance(time.Second)
		v.bootMS += 1000
		v.upM -= 1.5
		v.sendHeartbeat()
		v.sendState()
	}
	if got := v.view(); got.Phase != PhaseLanding {
		t.Errorf("in its descent it is %v: %q", got.Phase, got.Reason)
	}
}

// A hold stays where it began; where the envelope gave that place up, it stays at the next
// one. An aircraft that is held away from its home has not arrived.
func TestHeldPlace(t *testing.T) {
	a := &aircraft{}
	at := func(now, eastM float64, verdict envelope.Verdict, gaveUp bool) *physics.Position {
		v := &envelope.Vehicle{Target: physics.Position{EastM: eastM}, HeldAt: a.heldAt}
		if gaveUp {
			v.HeldAt = nil
		}
		a.updateHeldAt(now, verdict, v)
		return a.heldAt
	}
	for i, c := range []struct {
		eastM   float64
		verdict envelope.Verdict
		gaveUp  bool
		want    float64 // 0: nowhere
		arrived float64
	}{
		{100, envelope.Held, false, 100, 1}, {103, envelope.Held, false, 100, 2}, {104, envelope.Held, true, 104, 3},
		{106, envelope.Held, false, 104, 4},
		{107, envelope.Corrected, false, 0, 4}, {108, envelope.Kept, false, 0, 4},
	} {
		got := at(float64(i+1), c.eastM, c.verdict, c.gaveUp)
		if (got == nil) != (c.want == 0) || got != nil && got.EastM != c.want || a.arrivedS != c.arrived {
			t.Errorf("%+v: held at %v, arrived since %v", c, got, a.arrivedS)
		}
	}
}

// An aircraft that reports that it is on the ground, and moves or changes its height, is
// not taken for one that has landed and keeps its motors running: its order goes on.
func TestLandedStandsStill(t *testing.T) {
	for name, c := range map[string]struct {
		sinkMPS, mps, offM float64
		handed             bool
	}{"stands": {handed: true}, "stands, by an inexact receiver": {mps: 0.7, offM: 1.5, handed: true}, "sinks": {sinkMPS: 0.5},
		"moves": {mps: 2}} {
		f := &Fleet{Log: slog.New(slog.DiscardHandler), Clock: clock.New()}
		a := &aircraft{number: 1, upM: 60, velocity: physics.Position{EastM: c.mps},
			control: control{order: order{homeward: true}, phase: PhaseLanding}}
		for now := 100.0; now < 132; now++ {
			a.awaitDisarm(f, now)
			a.upM -= height.AboveOrigin(c.sinkMPS)
			a.upM += height.AboveOrigin(c.offM)
			c.offM = -c.offM
		}
		if handed := a.phase == PhasePilot; handed != c.handed {
			t.Errorf("one that %s: with its pilot %v", name, handed)
		}
	}
}

// Aircraft that follow late, as ArduCopters do, keep more from each other the faster they pass. On their
// ways to homes 12 m apart, from opposite sides, each comes to its own all the same.
func TestThoseThatFollowLateComeHome(t *testing.T) {
	const lateS = 1.0 // beside PX4's lag
	for _, n := range []int{2, 4} {
		w := newSky(t, grid(n, 1, physics.Position{EastM: 490, NorthM: 500}, 12)...)
		var from []physics.Position
		for i := range n {
			from = append(from, physics.Position{EastM: 300 + 400*float64(i%2), NorthM: 500 + 60*float64(i/2)})
		}
		w.comeHome(from...)
		down := func() bool {
			for _, a := range w.aircraft {
				a.delayS = lateS
			}
			return w.allDown()
		}
		if !w.fly(time.Duration(4+2*n)*time.Minute, down) {
			t.Errorf("%d: not all are down", n)
		}
		for i, v := range w.fliers {
			if off := v.position.Sub(v.home).Norm(); off > homeWithinM {
				t.Errorf("%d: aircraft %d is %.1f m from home", n, i+1, off)
			}
		}
		if min(w.levelM, w.nearestM) < 10 {
			t.Errorf("%d: two came %.1f m near each other, %.1f m in the air", n, w.nearestM, w.levelM)
		}
		t.Logf("%d: %.0f s, nearest %.1f m", n, w.nowS(), w.levelM)
	}
}

// One whose neighbour lands 12 m beside its home waits for the time that its battery is planned for,
// also where positions come late now and then: each time the neighbour may be nearer than it is known to
// be, so that it is kept a metre off its home. It lands there then.
func TestLatePositionsProlongNoWait(t *testing.T) {
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 5))
		w := newSky(t, grid(2, 1, physics.Position{EastM: 500, NorthM: 500}, 11.4)...)
		w.comeHome(physics.Position{EastM: 440, NorthM: 470}, physics.Position{EastM: 700, NorthM: 560})
		first, plannedS := math.Inf(1), 0.0
		w.fly(5*time.Minute, func() bool {
			for _, a := range w.aircraft {
				if a.delayS *= 0.98; r.IntN(40) == 0 {
					a.delayS = 0.9
				}
			}
			if w.aircraft[0].phase == PhaseLanding && math.IsInf(first, 1) {
				first, plannedS = w.nowS(), w.landingWaitS(w.aircraft[1])
			}
			return w.aircraft[1].phase == PhaseLanding
		})
		waitedS := w.nowS() - first
		t.Logf("waited for %.0f s, planned %.0f s", waitedS, plannedS)
		if waitedS > plannedS+arrivalS {
			t.Errorf("waited for %.0f s, planned %.0f s", waitedS, plannedS)
		}
		w.fly(5*time.Minute, w.allDown)
		if off := w.fliers[1].position.Sub(w.fliers[1].home).Norm(); off > arrivedM || min(w.levelM, w.nearestM) < 10 {
			t.Errorf("landed %.1f m from home, least distance %.1f m, %.1f m in the air", off, w.nearestM, w.levelM)
		}
	}
}

// ArduCopters with homes 12 m apart come home from both sides, from their starts, and from where a
// stop left them: however late they follow.
func TestLateOnesComeHome(t *testing.T) {
	for _, slow := range []bool{false, true} {
		for _, n := range []int{2, 4, 8} {
			if testing.Short() && n > 2 {
				continue
			}
			homes := grid(n, 2, physics.Position{EastM: 500, NorthM: 500}, 12)
			for name, from := range map[string]func(i int) physics.Position{
				"from both sides": func(i int) physics.Position {
					return physics.Position{EastM: 300 + 400*float64(i%2), NorthM: 500 + 60*float64(i/2)}
				},
				"from their starts": func(i int) physics.Position { return homes[i].Add(physics.Position{NorthM: 80}) },
				"from all around": func(i int) physics.Position {
					sin, cos := math.Sincos(2 * math.Pi * float64(i) / float64(n))
					return physics.Position{EastM: 510 + 50*cos, NorthM: 510 + 50*sin}
				},
			} {
				t.Run(fmt.Sprintf("%d %s, slow %v", n, name, slow), func(t *testing.T) {
					w := newCopterSky(t, slow, homes...)
					var at []physics.Position
					for i := range n {
						at = append(at, from(i))
					}
					w.comeHome(at...)
					began := w.nowS()
					down := w.fly(15*time.Minute, w.allDown)
					t.Logf("%.0f s, nearest %.1f m, %.1f m whatever the height", w.nowS()-began, w.nearestM, w.levelM)
					if !down || w.nearestM < 10 {
						t.Errorf("all down %v, nearest %.1f m", down, w.nearestM)
					}
					for i, v := range w.fliers {
						if off := v.position.Sub(v.home).Norm(); off > homeWithinM {
							t.Errorf("aircraft %d is %.1f m from home, %s", i+1, off, w.aircraft[i].phase)
						}
					}
				})
			}
		}
	}
}

// Of homes outside the area none has an aircraft give way farther outside than where it is.
func TestGivesWayInsideTheFence(t *testing.T) {
	const outsideM = 60
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		w := newSky(t, grid(8, 2, physics.Position{EastM: 500, NorthM: -outsideM}, 12)...)
		r := rand.New(rand.NewPCG(seed, 3))
		var from []physics.Position
		for i := range w.fliers {
			from = append(from, physics.Position{EastM: 440 + 20*float64(i), NorthM: 40 * r.Float64()})
		}
		for _, v := range w.fliers {
			v.gust = rand.New(rand.NewPCG(seed, uint64(v.number)))
		}
		w.comeHome(from...)
		farthestM := 0.0
		if !w.fly(15*time.Minute, func() bool {
			for i := range w.aircraft {
				if at := w.aircraft[i].waitsAt; at != nil {
					farthestM = max(farthestM, -at.NorthM)
				}
			}
			return w.allDown()
		}) {
			t.Errorf("seed %d: not all are down", seed)
		}
		if farthestM > outsideM+2 {
			t.Errorf("seed %d: one is to wait %.1f m outside the area, the homes are %d m outside", seed, farthestM, outsideM)
		}
	}
}
