package fleet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"prefdt/firmware/height"
	"prefdt/inference/physics"
)

// start launches all fliers and sends each to its start, in virtual time, until all are
// there.
func (w *sky) start(d time.Duration, starts ...physics.Position) bool {
	w.t.Helper()
	w.launchAll()
	return w.fly(d, func() bool {
		arrived := 0
		for i, v := range w.fliers {
			w.Goto(i+1, starts[i])
			if w.aircraft[i].phase == PhaseFlying && v.position.Sub(starts[i]).Norm() < 3 {
				arrived++
			}
		}
		return arrived == len(w.fliers)
	})
}

// A start from up to 60 m outside the area, through and around each other: all come in,
// and none too near another or too fast.
func TestStartFromOutside(t *testing.T) {
	for _, outM := range []float64{5, 30, 45, 60} {
		if testing.Short() && outM < 60 {
			continue
		}
		for name, p := range map[string]struct{ homes, starts []physics.Position }{
			"side by side, crossing": {
				grid(4, 4, physics.Position{EastM: -outM, NorthM: 400}, 12),
				[]physics.Position{{EastM: 60, NorthM: 450}, {EastM: 60, NorthM: 430}, {EastM: 60, NorthM: 410}, {EastM: 60, NorthM: 390}},
			},
			"one behind the other": {
				grid(4, 1, physics.Position{EastM: 1000 + outM, NorthM: 400}, 12),
				[]physics.Position{{EastM: 940, NorthM: 400}, {EastM: 920, NorthM: 400}, {EastM: 900, NorthM: 400},
					{EastM: 880, NorthM: 400}},
			},
			"at a corner": {
				grid(4, 2, physics.Position{EastM: -outM, NorthM: 1000 + outM}, 12),
				[]physics.Position{{EastM: 60, NorthM: 940}, {EastM: 20, NorthM: 940}, {EastM: 60, NorthM: 980}, {EastM: 20, NorthM: 980}},
			},
		} {
			t.Run(fmt.Sprintf("%s, %v m", name, outM), func(t *testing.T) {
				w := newSky(t, p.homes...)
				if !w.start(5*time.Minute, p.starts...) {
					t.Error("not all reach their starts")
				}
				t.Logf("%.0f s, nearest %.1f m", w.nowS(), w.levelM)
				if w.levelM < 10 {
					t.Errorf("two came %.1f m near each other", w.levelM)
				}
				for i, v := range w.fliers {
					if v.fastest > 12.5 {
						t.Errorf("aircraft %d flew %.1f m/s", i+1, v.fastest)
					}
				}
			})
		}
	}
}

// One that hovers outside, as its pilot's, is passed at a distance by one that comes in.
func TestHeldOutsideStaysClear(t *testing.T) {
	w := newSky(t, physics.Position{EastM: -40, NorthM: 400}, physics.Position{EastM: -12, NorthM: 400})
	w.fliers[1].aloft(w.fliers[1].home, 100)
	w.fliers[0].aloft(w.fliers[0].home, 100)
	w.fly(time.Second, nil)
	if err := w.Resume(resume(1, false)); err != nil {
		t.Fatal(err)
	}
	w.fly(time.Minute, func() bool { w.Goto(1, physics.Position{EastM: 100, NorthM: 400}); return false })
	if w.levelM < 10 {
		t.Errorf("it came %.1f m near the other", w.levelM)
	}
}

// Two that meet head on along the fence, one at its start in the way of another, and one whose start in a corner five others
// keep it from: all reach their starts, and none comes too near another.
func TestMakesWay(t *testing.T) {
	at := func(eastM, northM float64) physics.Position { return physics.Position{EastM: eastM, NorthM: northM} }
	corner := func(apartM float64) []physics.Position {
		return []physics.Position{at(apartM, 0), at(0, apartM), at(apartM, apartM), at(2*apartM, 0), at(0, 2*apartM)}
	}
	for name, c := range map[string]struct{ from, starts []physics.Position }{
		"head on":     {[]physics.Position{at(460, 0), at(540, 0)}, []physics.Position{at(540, 0), at(460, 0)}},
		"in the way":  {[]physics.Position{at(460, 1000), at(500, 1000)}, []physics.Position{at(540, 1000), at(500, 1000)}},
		"corner":      {append(corner(15), at(80, 80)), append(corner(15), at(0, 0))},
		"wide corner": {append(corner(20), at(80, 80)), append(corner(20), at(0, 0))},
	} {
		for _, copter := range []bool{false, true} {
			w := newSkyOf(t, copter, c.from...)
			for i, v := range w.fliers {
				v.aloft(c.from[i], w.Limits.AltitudeM)
				if err := w.Resume(resume(i+1, false)); err != nil {
					t.Fatal(err)
				}
			}
			arrived := w.fly(3*time.Minute, func() bool {
				arrived := 0
				for i, v := range w.fliers {
					if w.Goto(i+1, c.starts[i]); v.position.Sub(c.starts[i]).Norm() < 3 {
						arrived++
					}
				}
				return arrived == len(w.fliers)
			})
			t.Logf("%s, ArduCopters %v: %.0f s, nearest %.1f m", name, copter, w.nowS(), w.levelM)
			if !arrived || w.levelM < 12 {
				t.Errorf("%s, ArduCopters %v: arrived %v, two came %.1f m near each other", name, copter, arrived, w.levelM)
			}
		}
	}
}

// Eight that take off in a row 12 m apart, and cross each other's ways, keep apart though the leader misses a slot or stands still
// for two: on their ways to their starts, and in the legs of the slots.
func TestRowWithAMissedSlot(t *testing.T) {
	const n = 8
	homes := grid(n, 1, physics.Position{EastM: 450, NorthM: 500}, 12)
	to := map[string]func(i int) physics.Position{
		"the other way round": func(i int) physics.Position { return homes[n-1-i].Add(physics.Position{NorthM: 60}) },
		"through the row":     func(i int) physics.Position { return homes[(i+n/2)%n].Add(physics.Position{NorthM: 3}) },
	}
	for _, copter := range []bool{false, true} {
		for name, at := range to {
			for _, missedS := range []int{0, 3} {
				if testing.Short() && missedS > 0 {
					continue
				}
				for _, legs := range []bool{false, true} {
					for _, stands := range []bool{false, true} {
						w := newSkyOf(t, copter, homes...)
						w.launchAll()
						w.fly(2*time.Minute, func() bool {
							for i := range w.fliers {
								w.Goto(i+1, homes[i])
							}
							return !slices.ContainsFunc(w.aircraft, func(a *aircraft) bool { return a.phase != PhaseFlying })
						})
						for second := range 60 {
							missed := second%6 == missedS || stands && second%6 == missedS+1
							w.stands = missed && stands
							for i, v := range w.fliers {
								switch {
								case missed:
								case legs:
									w.Leg(i+1, clampedTo(at(i).Sub(v.position), 8.4))
								default:
									w.Goto(i+1, at(i))
								}
							}
							w.fly(time.Second, nil)
						}
						t.Logf("%s, ArduCopters %v, second %d missed, legs %v, stands still %v: nearest %.1f m", name, copter,
							missedS, legs, stands, w.levelM)
						if w.levelM < 10 {
							t.Errorf("%s, ArduCopters %v, second %d missed, legs %v, stands still %v: two came %.1f m near each other",
								name, copter, missedS, legs, stands, w.levelM)
						}
					}
				}
			}
		}
	}
}

func clampedTo(p physics.Position, mostM float64) physics.Position {
	return p.Scale(min(1, mostM/max(p.Norm(), 1e-9)))
}

// Two that gusts push as the leader stalls are held after two slots: they still give way, but by targets alone.
func TestExpiredSetpointsHaveNoVelocity(t *testing.T) {
	places := grid(2, 1, physics.Position{EastM: 500, NorthM: 400}, 12.3)
	w := newSky(t, places...)
	for i, v := range w.fliers {
		v.gust = rand.New(rand.NewPCG(1, uint64(i)))
		v.aloft(places[i], w.Limits.AltitudeM)
		if err := w.Resume(resume(i+1, false)); err != nil {
			t.Fatal(err)
		}
	}
	w.fly(5*time.Second, func() bool {
		w.Goto(1, places[0])
		w.Goto(2, places[1])
		return false
	})
	w.fly(2200*time.Millisecond, nil)
	before := w.counts.Corrected
	w.fly(8*time.Second, func() bool {
		for i, v := range w.fliers {
			if v.feed != (physics.Position{}) {
				t.Errorf("aircraft %d is sent %v m/s, and holds", i+1, v.feed)
			}
		}
		return t.Failed()
	})
	if w.counts.Corrected == before || w.levelM < 10 {
		t.Errorf("%d setpoints were corrected, %.1f m near each other", w.counts.Corrected-before, w.levelM)
	}
}

// A transit is flown at the speed of least power by an ArduCopter too, whose position loop slows down long before its target.
func TestCopterTransitsFlyBestSpeed(t *testing.T) {
	for _, slow := range []bool{false, true} {
		from := physics.Position{EastM: 100, NorthM: 400}
		w := newCopterSky(t, slow, from)
		w.fliers[0].aloft(from, 100)
		w.fly(time.Second, nil)
		if err := w.Resume(resume(1, false)); err != nil {
			t.Fatal(err)
		}
		fly := func(d time.Duration) {
			w.fly(d, func() bool { w.Goto(1, from.Add(physics.Position{EastM: 800})); return false })
		}
		fly(20 * time.Second)
		at := w.fliers[0].position.EastM
		fly(20 * time.Second)
		if mps, best := (w.fliers[0].position.EastM-at)/20, w.transitSpeedMPS(); math.Abs(mps-best) > 0.3 {
			t.Errorf("slow %v: flown at %.1f m/s, want %.1f", slow, mps, best)
		}
	}
}

// Aircraft 10 m apart climb together; of two that stand nearer than the separation one
// waits until the other has left.
func TestTwoClimbApart(t *testing.T) {
	for _, c := range []struct {
		apartM   float64
		together bool
	}{{12, true}, {10, true}, {8.5, false}, {3, false}} {
		homes := grid(2, 2, physics.Position{EastM: 500, NorthM: 500}, c.apartM)
		w := newSky(t, homes...)
		together := false
		starts := []physics.Position{{EastM: 400, NorthM: 500}, {EastM: 600, NorthM: 500}}
		w.launchAll()
		arrived := w.fly(4*time.Minute, func() bool {
			w.Goto(1, starts[0])
			w.Goto(2, starts[1])
			together = together || w.fliers[0].mode == ModeTakeoff && w.fliers[1].mode == ModeTakeoff
			return w.fliers[0].position.Sub(starts[0]).Norm() < 3 && w.fliers[1].position.Sub(starts[1]).Norm() < 3
		})
		if !arrived || together != c.together || w.levelM < 9.9 {
			t.Errorf("%v m apart: arrived %v, together %v, %.1f m near each other", c.apartM, arrived, together, w.levelM)
		}
	}
}

// Eight whose homes are 12 m apart start together, without waiting for each other.
func TestEightStartTogether(t *testing.T) {
	homes := grid(8, 4, physics.Position{EastM: 500, NorthM: 500}, 12)
	w := newSky(t, homes...)
	w.launchAll()
	w.fly(10*time.Second, nil)
	for i, v := range w.fliers {
		if v.mode != ModeTakeoff || v.upM < 1 {
			t.Errorf("aircraft %d is %v in %v at %.1f m", i+1, w.aircraft[i].phase, px4{}.modeName(v.mode), v.upM)
		}
	}
}

// ArduCopters with homes 12 m apart, also such as follow so late that a hold flies on for 27 m, all
// reach their starts: over their homes, side by side, or where their ways cross.
func TestLateOnesReachTheirStarts(t *testing.T) {
	const withinS, leastM = 270, 10
	for _, slow := range []bool{false, true} {
		for _, n := range []int{2, 4, 8} {
			if testing.Short() && n > 2 {
				continue
			}
			homes := grid(n, 2, physics.Position{EastM: 500, NorthM: 100}, 12)
			for name, start := range map[string]func(i int) physics.Position{
				"over their homes": func(i int) physics.Position { return homes[i] },
				"side by side":     func(i int) physics.Position { return homes[i].Add(physics.Position{NorthM: 80}) },
				"apart": func(i int) physics.Position {
					return physics.Position{EastM: 1000 * float64(i+1) / float64(n+1), NorthM: 500}
				},
				"crossing": func(i int) physics.Position {
					return physics.Position{EastM: 1000 * float64(n-i) / float64(n+1), NorthM: 500}
				},
			} {
				var starts []physics.Position
				for i := range n {
					starts = append(starts, start(i))
				}
				w := newCopterSky(t, slow, homes...)
				if arrived := w.start(withinS*time.Second, starts...); !arrived || w.nearestM < leastM {
					t.Errorf("%d %s, slow %v: all arrived %v, two came %.1f m near each other", n, name, slow, arrived, w.nearestM)
				}
				t.Logf("%d %s, slow %v: %.0f s, nearest %.1f m", n, name, slow, w.nowS(), w.nearestM)
			}
		}
	}
}

func (w *sky) launchAll() {
	w.t.Helper()
	var all []Ordered
	for i := range w.fliers {
		all = append(all, Ordered{Number: i + 1})
	}
	w.fly(time.Second, nil)
	if err := w.Launch(all); err != nil {
		w.t.Fatal(err)
	}
}

// One does not climb while a pilot's is about to pass over it; then it does.
func TestTakeOffWaitsForOneAboutToPass(t *testing.T) {
	w := newSky(t, physics.Position{EastM: 500, NorthM: 500}, physics.Position{EastM: 500, NorthM: 430})
	other := w.fliers[1]
	other.aloft(other.position, 4)
	other.mode = ModePosition // its pilot's
	on := func() bool { other.hold.NorthM += 0.5; return false }
	w.fly(4*time.Second, on)
	if err := w.Launch(ordered(1)); err != nil {
		t.Fatal(err)
	}
	w.fly(15*time.Second, on)
	if w.fliers[0].armed || !w.aircraft[0].takeoffWaits {
		t.Error("it was armed while another was about to pass over it")
	}
	w.fly(30*time.Second, on)
	if w.fliers[0].upM < 10 {
		t.Errorf("the other is %.0f m away, and it is at %.1f m", other.position.Sub(w.fliers[0].position).Norm(), w.fliers[0].upM)
	}
}

// An order to take off ends after a minute without arming: whatever kept an aircraft from it may have passed by then, and people may
// stand beside it. So it does where the board was suspended meanwhile.
func TestOrderToTakeOffEnds(t *testing.T) {
	w := newSky(t, physics.Position{EastM: 500, NorthM: 500}, physics.Position{EastM: 506, NorthM: 500})
	other, a := w.fliers[1], w.aircraft[0]
	other.aloft(other.position, 100)
	other.mode = ModePosition // its pilot's, which hovers over the launch
	w.fly(4*time.Second, nil)
	if err := w.Launch(ordered(1)); err != nil {
		t.Fatal(err)
	}
	w.fly(59*time.Second, nil)
	if a.phase != PhaseClimbing || !a.takeoffWaits {
		t.Fatalf("after 59 s it is %v", a.phase)
	}
	w.fly(2*time.Second, nil)
	other.position.NorthM += 300
	w.fly(15*time.Second, nil)
	if a.phase != PhasePilot || w.fliers[0].armed || !strings.Contains(a.reason(), "another aircraft flew near") {
		t.Errorf("once the other has left it is %v, armed %v: %q", a.phase, w.fliers[0].armed, a.reason())
	}

	w = newSky(t, physics.Position{EastM: 500, NorthM: 500})
	w.fly(4*time.Second, nil)
	if err := w.Launch(ordered(1)); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(10 * time.Minute)
	w.fly(15*time.Second, nil)
	if w.fliers[0].armed || w.aircraft[0].phase != PhasePilot {
		t.Errorf("ten minutes after the order it is armed %v, %v", w.fliers[0].armed, w.aircraft[0].phase)
	}
}

// One that is resumed more than 20 m below its height climbs there first.
func TestResumedLowClimbsFirst(t *testing.T) {
	for upM, want := range map[float64]Phase{78: PhaseClimbing, 82: PhaseEngaging} {
		w := newSky(t, physics.Position{EastM: 500, NorthM: 500})
		w.fliers[0].aloft(w.fliers[0].home, height.AboveOrigin(upM))
		w.fly(time.Second, nil)
		if err := w.Resume(resume(1, false)); err != nil || w.aircraft[0].phase != want {
			t.Errorf("resumed at %v m: %v, %v, want %v", upM, w.aircraft[0].phase, err, want)
		}
	}
}

// Resumed low in the air, it does not take off below another: it waits in its Hold.
func TestResumedLowWaitsBelowAnother(t *testing.T) {
	w := newSky(t, physics.Position{EastM: 500, NorthM: 500}, physics.Position{EastM: 503, NorthM: 500})
	w.fliers[0].aloft(w.fliers[0].home, 8)
	w.fliers[1].aloft(w.fliers[1].home, 100)
	w.fly(time.Second, nil)
	if err := w.Resume(resume(1, false)); err != nil {
		t.Fatal(err)
	}
	w.fly(20*time.Second, nil)
	if v := w.fliers[0]; v.mode != ModeHold || v.upM > 9 {
		t.Errorf("it is in %v at %.0f m, 3 m from another", px4{}.modeName(v.mode), v.upM)
	}
	w.fliers[1].hold.EastM += 30
	w.fly(time.Minute, nil)
	if v := w.fliers[0]; v.upM < 95 || !slices.Contains([]Phase{PhaseEngaging, PhaseFlying}, w.aircraft[0].phase) {
		t.Errorf("the other has left, and it is %v at %.0f m", w.aircraft[0].phase, v.upM)
	}
}
