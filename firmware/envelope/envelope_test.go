package envelope

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"prefdt/firmware/height"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
)

var testLimits = Limits{SpeedMaxMPS: 12, SeparationM: 10, AreaM: 300, AltitudeM: 100, BandM: 20, FenceM: 15}

// Whatever is commanded, the checked setpoints keep speed, fence, altitude and
// separation for the next second.
func TestResultIsInsideLimits(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	l := testLimits
	var checker Checker
	somewhere := func(scale float64) physics.Position {
		return physics.Position{EastM: scale * (rng.Float64()*2 - 1), NorthM: scale * (rng.Float64()*2 - 1)}
	}
	held, corrected := 0, 0
	for k := range 6000 {
		outside := k%2 > 0 // of the area, some of them
		vehicles := make([]Vehicle, 1+rng.IntN(6))
		spreadM := 20 + rng.Float64()*280 // some fleets are dense
		for i := range vehicles {
			v := &vehicles[i]
			v.Controlled = rng.IntN(6) > 0
			v.Position = physics.Position{EastM: rng.Float64() * spreadM, NorthM: rng.Float64() * spreadM}
			if outside {
				v.Position.NorthM -= 60 * rng.Float64()
			}
			v.UpM, v.TargetUpM = 100, 100+20*height.AboveOrigin(rng.IntN(3))
			v.Velocity, v.Loop.GainPerS = somewhere(10), 0.5+rng.Float64()
			v.Target, v.FeedForwardMPS = v.Position.Add(somewhere(30)), somewhere(20)
			if v.Stays = rng.IntN(4) == 0; v.Stays {
				v.FeedForwardMPS = physics.Position{}
			}
			switch rng.IntN(20) {
			case 0:
				v.Target.EastM = math.NaN()
			case 1:
				v.FeedForwardMPS.NorthM = math.Inf(1)
			case 2:
				v.Target = somewhere(1e6)
			}
		}
		for i, verdict := range checker.Check(vehicles, l) {
			v := &vehicles[i]
			if !v.Controlled {
				continue
			}
			switch verdict {
			case Held:
				held++
			case Corrected:
				corrected++
			}
			move := v.commandedVelocity()
			if !move.Valid() || move.Norm() > l.SpeedMaxMPS+2*tolerance || v.FeedForwardMPS.Norm() > l.SpeedMaxMPS+2*tolerance {
				t.Fatalf("vehicle %d is asked to move %v at %v", i, move, v.FeedForwardMPS)
			}
			if out := l.outsideM(v.Target); out > 2*tolerance && l.outsideM(v.Position) == 0 {
				t.Fatalf("vehicle %d is sent %v m outside", i, out)
			}
			if v.TargetUpM.Off(l.AltitudeM) > 2*tolerance {
				t.Fatalf("vehicle %d is sent to %v m", i, v.TargetUpM)
			}
			for j := range i {
				o := &vehicles[j]
				if !o.Controlled {
					continue
				}
				other := o.commandedVelocity()
				p, rel := v.Position.Sub(o.Position), move.Sub(other)
				if !motion.StaysApart(p, rel, l.SeparationM-4*tolerance) &&
					!motion.StaysApart(p, rel, math.Min(p.Norm(), l.SeparationM)-4*tolerance) {
					t.Fatalf("vehicles %d and %d: from %v apart, moving %v", i, j, p, rel)
				}
			}
		}
	}
	if held == 0 || corrected == 0 {
		t.Errorf("nothing was held (%d) or corrected (%d): the test tries nothing", held, corrected)
	}
}

func TestSetpointsInsideLimitsAreKept(t *testing.T) {
	var checker Checker
	vehicles := []Vehicle{
		{Controlled: true, Loop: PositionLoop{GainPerS: 0.95}, Position: physics.Position{EastM: 100, NorthM: 100}, TargetUpM: 100,
			Target: physics.Position{EastM: 100.5, NorthM: 100}, FeedForwardMPS: physics.Position{EastM: 8.4}},
		{Controlled: true, Loop: PositionLoop{GainPerS: 0.95}, Position: physics.Position{EastM: 130, NorthM: 100}, TargetUpM: 100,
			Target: physics.Position{EastM: 130, NorthM: 100}, FeedForwardMPS: physics.Position{NorthM: -8.4}},
	}
	want := append([]Vehicle(nil), vehicles...)
	for i, verdict := range checker.Check(vehicles, testLimits) {
		if verdict != Kept || !reflect.DeepEqual(vehicles[i], want[i]) {
			t.Errorf("vehicle %d: verdict %d, %+v", i, verdict, vehicles[i])
		}
	}
}

func TestPilotsAircraftIsAnObstacle(t *testing.T) {
	var checker Checker
	vehicles := []Vehicle{
		{Controlled: true, Loop: PositionLoop{GainPerS: 0.95}, Position: physics.Position{EastM: 100, NorthM: 100}, TargetUpM: 100,
			Target: physics.Position{EastM: 100, NorthM: 100}, FeedForwardMPS: physics.Position{EastM: 8.4}},
		{Position: physics.Position{EastM: 114, NorthM: 100}, TargetUpM: 100},
	}
	if verdict := checker.Check(vehicles, testLimits)[0]; verdict == Kept {
		t.Error("flew on towards an aircraft that is with its pilot")
	}
	if f := vehicles[0].commandedVelocity(); !motion.StaysApart(physics.Position{EastM: -14}, f, testLimits.SeparationM) {
		t.Errorf("is asked for %v", f)
	}
}

// A hold takes a while to stop an aircraft: it comes before the separation is used up.
func TestHeldInTimeToStop(t *testing.T) {
	var checker Checker
	for eastM, want := range map[float64]Verdict{122: Held, 125: Kept, 92: Kept} {
		vehicles := []Vehicle{
			{Controlled: true, Loop: PositionLoop{GainPerS: 0.95}, Position: physics.Position{EastM: 100, NorthM: 100}, TargetUpM: 100,
				Target: physics.Position{EastM: 100, NorthM: 100}, FeedForwardMPS: physics.Position{EastM: 8.4}},
			{Position: physics.Position{EastM: eastM, NorthM: 100}, TargetUpM: 100},
		}
		if verdict := checker.Check(vehicles, testLimits)[0]; verdict != want {
			t.Errorf("at 8.4 m/s, a pilot's aircraft %v m ahead: verdict %d, want %d", eastM-100, verdict, want)
		}
	}
}

// A hold stays where it began: one that followed the aircraft would drift on
// with it, into what it keeps clear of.
func TestHoldStaysWhereItBegan(t *testing.T) {
	var checker Checker
	began := physics.Position{EastM: 100, NorthM: 100}
	for driftM, want := range map[float64]physics.Position{0: began, 4: began, 9: began, 11: {EastM: 111, NorthM: 100}} {
		at := began.Add(physics.Position{EastM: driftM})
		vehicles := []Vehicle{
			{Controlled: true, Loop: PositionLoop{GainPerS: 0.95}, Position: at, HeldAt: &began, TargetUpM: 100, Target: at,
				FeedForwardMPS: physics.Position{EastM: 8.4}},
			{Position: at.Add(physics.Position{EastM: 14}), TargetUpM: 100},
		}
		if verdict := checker.Check(vehicles, testLimits)[0]; verdict != Held || vehicles[0].Target != want {
			t.Errorf("%v m from where it was held: verdict %d, sent to %v, want %v", driftM, verdict, vehicles[0].Target, want)
		}
	}
}

// An aircraft that is not received may have stopped anywhere since.
func TestSilentAircraftMayHaveStopped(t *testing.T) {
	var checker Checker
	for _, c := range []struct {
		eastM, feed float64
		want        Verdict
	}{{98, 8.4, Held}, {100, 8.4, Corrected}, {85, 8.4, Kept}, {100, -8.4, Kept}, {100, 0, Kept}} {
		vehicles := []Vehicle{
			{Controlled: true, Loop: PositionLoop{GainPerS: 0.95}, Position: physics.Position{EastM: c.eastM, NorthM: 100}, TargetUpM: 100,
				Target: physics.Position{EastM: c.eastM, NorthM: 100}, FeedForwardMPS: physics.Position{EastM: c.feed}},
			{Position: physics.Position{EastM: 131, NorthM: 100}, Velocity: physics.Position{EastM: 8.5}, TargetUpM: 100,
				PossiblePath: []physics.Position{{EastM: 114, NorthM: 100}, {EastM: 131, NorthM: 100}}},
		}
		if verdict := checker.Check(vehicles, testLimits)[0]; verdict != c.want {
			t.Errorf("at %v m with %v m/s, towards one last received at 114 m: verdict %d, want %d", c.eastM, c.feed, verdict, c.want)
		}
		vehicles[0].Target, vehicles[0].FeedForwardMPS, vehicles[1].PossiblePath = vehicles[0].Position, physics.Position{EastM: c.feed},
			nil
		if verdict := checker.Check(vehicles, testLimits)[0]; verdict != Kept {
			t.Errorf("at %v m with %v m/s, towards one received at 131 m: verdict %d", c.eastM, c.feed, verdict)
		}
	}
}

// An aircraft that flies to a home outside the area does not exempt the others.
func TestOnlyFlightsHomeLeaveTheArea(t *testing.T) {
	var checker Checker
	vehicles := []Vehicle{
		{Controlled: true, FenceExempt: true, Loop: PositionLoop{GainPerS: 0.95}, Position: physics.Position{EastM: 1, NorthM: 50},
			TargetUpM: 100, Target: physics.Position{EastM: -8, NorthM: 50}},
		{Controlled: true, Loop: PositionLoop{GainPerS: 0.95}, Position: physics.Position{EastM: 1, NorthM: 200}, TargetUpM: 100,
			Target: physics.Position{EastM: -8, NorthM: 200}},
	}
	verdicts := checker.Check(vehicles, testLimits)
	if verdicts[0] != Kept || vehicles[0].Target.EastM != -8 {
		t.Errorf("on its way home: verdict %d, sent to %v", verdicts[0], vehicles[0].Target)
	}
	if verdicts[1] != Corrected || vehicles[1].Target.EastM < -2*tolerance {
		t.Errorf("the other: verdict %d, sent to %v", verdicts[1], vehicles[1].Target)
	}
}

// The way in from outside is a leg, at any distance and whatever is asked for: it leads
// nearer to the area, within the speed limit, and ends at the fence.
func TestWayInIsALeg(t *testing.T) {
	var checker Checker
	for _, gain := range []float64{0.5, 0.95, 1.5} {
		for _, outM := range []float64{0.5, 1, 8, 14, 20, 45, 60, 100} {
			for name, asked := range map[string]physics.Position{"hold": {}, "on": {EastM: 9}, "along": {NorthM: 9}, "in": {EastM: -9},
				"fast": {EastM: -60}} {
				at := physics.Position{EastM: testLimits.AreaM + outM, NorthM: 100}
				v := Vehicle{Controlled: true, Loop: PositionLoop{GainPerS: gain}, Position: at, TargetUpM: 100, Target: at,
					FeedForwardMPS: asked}
				checker.Check([]Vehicle{v}, testLimits)
				vehicles := []Vehicle{v}
				checker.Check(vehicles, testLimits)
				v = vehicles[0]
				move := v.commandedVelocity()
				if left := testLimits.outsideM(at.Add(move)); left > max(0, outM-8)+tolerance {
					t.Errorf("%v m outside, asked to %s: in a second %v m outside", outM, name, left)
				}
				if r := max(move.Norm(), v.FeedForwardMPS.Norm()); r > testLimits.SpeedMaxMPS+tolerance ||
					testLimits.outsideM(v.Target) > outM {
					t.Errorf("%v m outside, asked to %s: sent to %v, at %v m/s", outM, name, v.Target, r)
				}
			}
		}
	}
}

// Outside the fence separation comes first: nothing leads one back in past another.
func TestSeparationOutsideTheFence(t *testing.T) {
	var checker Checker
	for _, outM := range []float64{3, 20, 45} {
		at := physics.Position{EastM: testLimits.AreaM + outM, NorthM: 100}
		for name, o := range map[string]Vehicle{
			"its pilot's": {Position: at.Add(physics.Position{EastM: -14})},
			"one of ours": {Controlled: true, Position: at.Add(physics.Position{EastM: -11})},
		} {
			o.Loop.GainPerS, o.TargetUpM, o.Target = 0.95, 100, o.Position
			vehicles := []Vehicle{{Controlled: true, Loop: PositionLoop{GainPerS: 0.95}, Position: at, TargetUpM: 100,
				Target: at.Add(physics.Position{EastM: -8}), FeedForwardMPS: physics.Position{EastM: -1}}, o}
			verdicts := checker.Check(vehicles, testLimits)
			first, second := vehicles[0].commandedVelocity(), physics.Position{}
			if o.Controlled {
				second = vehicles[1].commandedVelocity()
			}
			if !motion.StaysApart(at.Sub(o.Position), first.Sub(second), testLimits.SeparationM) {
				t.Errorf("%v m outside, %s %v m ahead: asked for %v and %v", outM, name, at.Sub(o.Position).Norm(), first, second)
			}
			if verdicts[0] == Held && vehicles[0].Target != at {
				t.Errorf("%v m outside, %s ahead: held at %v, it is at %v", outM, name, vehicles[0].Target, at)
			}
		}
	}
}

// An aircraft outside does not exempt the others, and is not pushed by them into a third.
func TestOneOutsideExemptsNoOther(t *testing.T) {
	var checker Checker
	vehicles := []Vehicle{
		{Controlled: true, Loop: PositionLoop{GainPerS: 0.95}, Position: physics.Position{EastM: -30, NorthM: 50}, TargetUpM: 100,
			Target: physics.Position{EastM: -21, NorthM: 50}},
		{Controlled: true, Loop: PositionLoop{GainPerS: 0.95}, Position: physics.Position{EastM: 1, NorthM: 200}, TargetUpM: 100,
			Target: physics.Position{EastM: -8, NorthM: 200}},
		{Controlled: true, Loop: PositionLoop{GainPerS: 0.95}, Position: physics.Position{EastM: 1, NorthM: 211}, TargetUpM: 100,
			Target: physics.Position{EastM: -8, NorthM: 211}},
	}
	verdicts := checker.Check(vehicles, testLimits)
	if verdicts[0] != Kept {
		t.Errorf("on its way in: verdict %d, sent to %v", verdicts[0], vehicles[0].Target)
	}
	for _, v := range vehicles[1:] {
		if testLimits.outsideM(v.Target) > 2*tolerance {
			t.Errorf("at %v: sent to %v", v.Position, v.Target)
		}
	}
	if !motion.StaysApart(vehicles[1].Position.Sub(vehicles[2].Position),
		vehicles[1].commandedVelocity().Sub(vehicles[2].commandedVelocity()), testLimits.SeparationM) {
		t.Error("two at the fence come too near each other")
	}
}

// A hold within a small speed limit returns to its place no faster than that.
func TestHoldWithinTheSpeedLimit(t *testing.T) {
	l := testLimits
	l.SpeedMaxMPS = 3
	v := Vehicle{Loop: PositionLoop{GainPerS: 0.95}, Position: physics.Position{EastM: 100, NorthM: 100},
		HeldAt: &physics.Position{EastM: 108, NorthM: 100}}
	if v.Hold(l); v.commandedVelocity().Norm() > 3+tolerance || v.commandedVelocity().EastM < 1 {
		t.Errorf("asked for %v", v.commandedVelocity())
	}
}

// One that is to hold gives way to another with the velocity of one that is not, but by a target alone: it stays there if no
// setpoint comes any more. Where that target is outside the fence, none is sent to it.
func TestHoldGivesWayByPosition(t *testing.T) {
	var checker Checker
	for eastM, byTarget := range map[float64]bool{100: true, 299.9: false} {
		at := physics.Position{EastM: eastM, NorthM: 100}
		var velocity [2]physics.Position
		for k, stays := range []bool{false, true} {
			vehicles := []Vehicle{
				{Controlled: true, Stays: stays, Loop: PositionLoop{GainPerS: 0.5}, Position: at, Target: at, TargetUpM: 100},
				{Controlled: true, Loop: PositionLoop{GainPerS: 0.5}, Position: at.Sub(physics.Position{EastM: 10.2}), TargetUpM: 100,
					Velocity: physics.Position{EastM: 1}, Target: at.Sub(physics.Position{EastM: 10.2})},
			}
			if verdict := checker.Check(vehicles, testLimits)[0]; verdict != Corrected {
				t.Fatalf("at %v m, stays %v: verdict %d", eastM, stays, verdict)
			}
			velocity[k] = vehicles[0].commandedVelocity()
			if v := &vehicles[0]; stays && (v.FeedForwardMPS == physics.Position{}) != byTarget || testLimits.outsideM(v.Target) > 1e-9 {
				t.Errorf("at %v m: sent to %v with %v m/s", eastM, v.Target, v.FeedForwardMPS)
			}
		}
		if velocity[0].Sub(velocity[1]).Norm() > 1e-9 {
			t.Errorf("at %v m: %v m/s, and %v m/s of one that is to hold", eastM, velocity[0], velocity[1])
		}
	}
}

// One that lands far below keeps its place: another passes it by the separation. Above
// and beside it, the hold begins earlier.
func TestPassesOneThatLandsBelow(t *testing.T) {
	var checker Checker
	for upM, want := range map[float64]Verdict{95: Held, 71: Held, 69: Kept, 5: Kept} {
		vehicles := []Vehicle{
			{Controlled: true, Loop: PositionLoop{GainPerS: 0.95}, Position: physics.Position{EastM: 100, NorthM: 100}, UpM: 100,
				TargetUpM: 100, Target: physics.Position{EastM: 104, NorthM: 100}},
			{Landing: true, Position: physics.Position{EastM: 116.5, NorthM: 100}, UpM: height.AboveOrigin(upM)},
		}
		if verdict := checker.Check(vehicles, testLimits)[0]; verdict != want {
			t.Errorf("lands at %v m: verdict %d, want %d", upM, verdict, want)
		}
		vehicles[0].Target, vehicles[1].Landing = physics.Position{EastM: 104, NorthM: 100}, false
		if verdict := checker.Check(vehicles, testLimits)[0]; verdict != Held {
			t.Errorf("its pilot's at %v m: verdict %d", upM, verdict)
		}
	}
}

// Held before one aircraft, it does not return to a place that is nearer to a third.
func TestHeldClearOfAllOthers(t *testing.T) {
	var checker Checker
	for heldM, want := range map[float64]float64{114: 110, 110.8: 110.8} {
		vehicles := []Vehicle{
			{Controlled: true, Position: physics.Position{EastM: 110, NorthM: 100}, UpM: 100, Loop: PositionLoop{GainPerS: 0.95},
				HeldAt: &physics.Position{EastM: heldM, NorthM: 100}, Target: physics.Position{EastM: 90, NorthM: 100}, TargetUpM: 100},
			{Position: physics.Position{EastM: 100, NorthM: 100}, UpM: 100},
			{Position: physics.Position{EastM: 122, NorthM: 100}, UpM: 100},
		}
		if checker.Check(vehicles, testLimits); vehicles[0].Target.EastM != want {
			t.Errorf("held at %v m with others at 100 and 122 m: sent to %v, want %v", heldM, vehicles[0].Target.EastM, want)
		}
	}
}

// The possible path home of an aircraft that is not received has corners.
func TestPossiblePathWithCorners(t *testing.T) {
	var checker Checker
	way := []physics.Position{{EastM: 100, NorthM: 100}, {EastM: 117, NorthM: 100}, {EastM: 117, NorthM: 250}}
	for _, c := range []struct {
		at   physics.Position
		want Verdict
	}{{physics.Position{EastM: 97, NorthM: 200}, Held}, {physics.Position{EastM: 85, NorthM: 100}, Held},
		{physics.Position{EastM: 85, NorthM: 130}, Kept}, {physics.Position{EastM: 140, NorthM: 200}, Kept}} {
		vehicles := []Vehicle{
			{Controlled: true, Loop: PositionLoop{GainPerS: 0.95}, Position: c.at, TargetUpM: 100, Target: c.at,
				FeedForwardMPS: physics.Position{EastM: 8.4}},
			{Position: way[2], TargetUpM: 100, PossiblePath: way},
		}
		if verdict := checker.Check(vehicles, testLimits)[0]; verdict != c.want {
			t.Errorf("eastwards from %v: verdict %d, want %d", c.at, verdict, c.want)
		}
	}
}

// One that is not received comes home by a straight way, as fast as its autopilot flies. Another, bound for the place beside that
// home, leaves the way sideways, though it is to fly along it, and stays inside the area: it does not wait on the way.
func TestLeavesThePathOfAnother(t *testing.T) {
	var checker Checker
	for _, c := range []struct {
		name         string
		from, to, at [2]float64 // east and north, of the one that comes and of the other
	}{
		{"on it", [2]float64{150, 20}, [2]float64{150, 280}, [2]float64{150, 90}},
		{"beside it", [2]float64{20, 20}, [2]float64{280, 280}, [2]float64{100, 94}},
		{"near the fence", [2]float64{1, 20}, [2]float64{1, 280}, [2]float64{1, 90}},
	} {
		place := func(p [2]float64) physics.Position { return physics.Position{EastM: p[0], NorthM: p[1]} }
		beside := place(c.to).Add(physics.Position{EastM: 3})
		vehicles := []Vehicle{
			{Controlled: true, Loop: PositionLoop{GainPerS: 0.95}, Position: place(c.at), TargetUpM: 100},
			{Position: place(c.to), TargetUpM: 100, PossiblePath: []physics.Position{place(c.from), place(c.to)}},
		}
		v := &vehicles[0]
		for range 80 { // tenths of a second
			way := beside.Sub(v.Position)
			v.Target, v.FeedForwardMPS = v.Position, way.Scale(8/way.Norm())
			checker.Check(vehicles, testLimits)
			v.Velocity = v.commandedVelocity()
			v.Position = v.Position.Add(v.Velocity.Scale(0.1))
			if testLimits.outsideM(v.Position) > 0.5 {
				t.Fatalf("%s: it leaves the area at %v", c.name, v.Position)
			}
		}
		nearest, _ := NearestOnPath(v.Position, vehicles[1].PossiblePath)
		if d := v.Position.Sub(nearest).Norm(); d < 14.5 {
			t.Errorf("%s: after eight seconds it is %.1f m from the way of the other, at %v", c.name, d, v.Position)
		}
	}
}

// One that waits on the way of another which is already too near to be kept clear of leaves that way all the same.
func TestLeavesThePathTooLate(t *testing.T) {
	var checker Checker
	from, home := physics.Position{EastM: 150, NorthM: 260}, physics.Position{EastM: 150, NorthM: 20}
	vehicles := []Vehicle{
		{Controlled: true, Loop: PositionLoop{GainPerS: 0.95}, StopsInM: 5, Position: physics.Position{EastM: 149.4, NorthM: 243},
			TargetUpM: 100},
		{Position: from, TargetUpM: 100, PossiblePath: []physics.Position{home, from}, Velocity: physics.Position{NorthM: -6}},
	}
	vehicles[0].Target = vehicles[0].Position
	checker.Check(vehicles, testLimits)
	if v := vehicles[0].commandedVelocity(); v.EastM > -4 || math.Abs(v.NorthM) > 1 {
		t.Errorf("it is to fly at %v m/s", v)
	}
}

func TestAlarm(t *testing.T) {
	for _, c := range []struct {
		p    physics.Position
		up   float64
		want bool
	}{
		{physics.Position{EastM: 150, NorthM: 150}, 100, false},
		{physics.Position{EastM: -14, NorthM: 150}, 119, false},
		{physics.Position{EastM: -16, NorthM: 150}, 100, true},
		{physics.Position{EastM: 150, NorthM: 316}, 100, true},
		{physics.Position{EastM: 150, NorthM: 150}, 79, true},
	} {
		if got := testLimits.Alarm(c.p, height.AboveOrigin(c.up)); (got != "") != c.want {
			t.Errorf("%v at %v m: %q", c.p, c.up, got)
		}
	}
}

// An aircraft that passes another must keep more than the separation, for neither
// turns at once; two that hover side by side are not moved.
func TestTurnMargin(t *testing.T) {
	var checker Checker
	// One flies west ahead of one that flies north: 10.2 m apart at the closest, if
	// both followed their commands from now on.
	pass := []Vehicle{
		{Controlled: true, Position: physics.Position{EastM: 514, NorthM: 500}, UpM: 100, Loop: PositionLoop{GainPerS: 0.95},
			Target: physics.Position{EastM: 501, NorthM: 507}, TargetUpM: 100},
		{Controlled: true, Position: physics.Position{EastM: 500, NorthM: 500}, UpM: 100, Loop: PositionLoop{GainPerS: 0.95},
			Target: physics.Position{EastM: 500, NorthM: 514}, TargetUpM: 100},
	}
	standard := Limits{SpeedMaxMPS: 30, SeparationM: 10, AreaM: 1000, AltitudeM: 100, BandM: 10, FenceM: 20}
	checker.Check(pass, standard)
	if !motion.StaysApart(pass[0].Position.Sub(pass[1].Position), pass[0].commandedVelocity().Sub(pass[1].commandedVelocity()), 11) {
		t.Errorf("they are asked to fly at %v and %v, which brings them closer than 11 m", pass[0].commandedVelocity(),
			pass[1].commandedVelocity())
	}
	beside := []Vehicle{pass[0], pass[1]}
	for i := range beside {
		v := &beside[i]
		v.Position.EastM = 500 + 10.2*float64(i)
		v.Target, v.FeedForwardMPS = v.Position, physics.Position{}
	}
	if verdicts := checker.Check(beside, standard); verdicts[0] != Kept || verdicts[1] != Kept {
		t.Errorf("two that hover 10.2 m apart: %v", verdicts)
	}
}

// An autopilot may take seconds to follow a command. An aircraft that follows another
// which does not move yet does not come too close to it, nor does one that flew
// towards it and is commanded to turn.
func TestOthersMayNotFollowCommands(t *testing.T) {
	var checker Checker
	for _, c := range []struct{ apartM, flies, most float64 }{{13, 5, 0}, {17, 5, 8}, {40, 20, 20}} {
		vehicles := []Vehicle{
			{Controlled: true, Position: physics.Position{EastM: 500 - c.apartM, NorthM: 500}, Velocity: physics.Position{EastM: c.flies},
				UpM: 100},
			{Controlled: true, Position: physics.Position{EastM: 500, NorthM: 500}, Velocity: physics.Position{EastM: -0.5}, UpM: 100},
		}
		for i := range vehicles {
			v := &vehicles[i]
			v.Loop.GainPerS, v.Target, v.TargetUpM = 1, v.Position.Add(physics.Position{EastM: 20}), 100
		}
		checker.Check(vehicles, Limits{SpeedMaxMPS: 30, SeparationM: 10, AreaM: 1000, AltitudeM: 100})
		first, second := &vehicles[0], &vehicles[1]
		p := first.Position.Sub(second.Position).Add(first.Velocity.Sub(second.Velocity).Scale(responseLagS))
		if v := first.commandedVelocity().Sub(second.Velocity).Scale(1 - responseLagS); !motion.StaysApart(p, v, 10) {
			t.Errorf("%v m behind one that does not fly on, at %v m/s: is asked for %v", c.apartM, c.flies, first.commandedVelocity())
		}
		if asked := first.commandedVelocity().EastM; asked > c.most+tolerance || c.most == 20 && asked < c.most-tolerance {
			t.Errorf("%v m behind, at %v m/s: is asked for %v, want %v at most", c.apartM, c.flies, first.commandedVelocity(), c.most)
		}
		if second.commandedVelocity().EastM < 20-tolerance {
			t.Errorf("the one in front is asked for %v", second.commandedVelocity())
		}
	}
}

// A held aircraft does not return to a place that another has come near meanwhile.
func TestHeldWhereNoOtherIs(t *testing.T) {
	var checker Checker
	held := physics.Position{EastM: 108, NorthM: 100}
	vehicles := []Vehicle{
		{Controlled: true, Position: physics.Position{EastM: 112, NorthM: 100}, UpM: 100, Loop: PositionLoop{GainPerS: 0.95}, HeldAt: &held,
			Target: physics.Position{EastM: 90, NorthM: 100}, TargetUpM: 100},
		{Position: physics.Position{EastM: 100, NorthM: 100}, UpM: 100},
	}
	verdicts := checker.Check(vehicles, testLimits)
	if verdicts[0] != Held || vehicles[0].Target != vehicles[0].Position || vehicles[0].FeedForwardMPS != (physics.Position{}) {
		t.Errorf("verdict %v, held at %v with another at %v", verdicts[0], vehicles[0].Target, vehicles[1].Position)
	}
	vehicles[0].HeldAt, vehicles[0].Target = &physics.Position{EastM: 116, NorthM: 100}, physics.Position{EastM: 90, NorthM: 100}
	if checker.Check(vehicles, testLimits); vehicles[0].Target.EastM != 116 {
		t.Errorf("pushed towards another, it is held at %v", vehicles[0].Target)
	}
}

// At every tick of the stream, whatever has to be corrected or held.
func TestCheckDoesNotAllocate(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	var checker Checker
	l := testLimits
	asked := make([]Vehicle, 8)
	for i := range asked {
		v := &asked[i]
		v.Controlled, v.FenceExempt = i%4 > 0, i%5 == 1
		v.Position = physics.Position{EastM: 60 * rng.Float64(), NorthM: 60 * rng.Float64()}
		v.Velocity = physics.Position{EastM: 10 * rng.NormFloat64(), NorthM: 10 * rng.NormFloat64()}
		v.TargetUpM, v.Loop.GainPerS = 100, 0.95
		v.Target, v.FeedForwardMPS = v.Position, physics.Position{EastM: 12 * rng.NormFloat64()}
		v.PossiblePath = []physics.Position{{EastM: 200, NorthM: 200}, v.Position}
	}
	vehicles := make([]Vehicle, len(asked))
	seen := map[Verdict]bool{}
	allocations := testing.AllocsPerRun(100, func() { // which runs it once before it counts
		copy(vehicles, asked)
		for _, verdict := range checker.Check(vehicles, l) {
			seen[verdict] = true
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations a check", allocations)
	}
	if !seen[Corrected] && !seen[Held] {
		t.Error("nothing was corrected or held: the test tries nothing")
	}
}
