package account

import (
	"math"
	"testing"

	"prefdt/firmware/fleet"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
)

// An aircraft that leaves for home when nothing is spare lands with its reserve: at the
// fleet's speed, through the wind that is believed in, after those that land before it,
// with the pack that it has. Flown in steps, in the same wind.
func TestWayHomeIsEnough(t *testing.T) {
	p := physics.DefaultConstants()
	best := p.Propulsion.BestSpeedMPS(30)
	north := physics.Position{NorthM: 12}
	for _, c := range []struct {
		name         string
		from, wind   physics.Position // home is at (0, 0)
		fleetMPS     float64
		waitS        float64
		capacityJ    float64
		beforeShortJ float64 // what the aircraft's own speed, calm air and no wait leave out
	}{
		{"nothing special", physics.Position{EastM: 600, NorthM: 600}, physics.Position{}, best, 0, 150e3, 0},
		{"275 m from home, the fleet's slowest flies at 1 m/s", physics.Position{EastM: 275}, physics.Position{}, 1, 0, 150e3, 20e3},
		{"far corner, 12 m/s against it", physics.Position{EastM: 333, NorthM: 500}, north, best, 0, 150e3, 6e3},
		{"far corner, 12 m/s behind it", physics.Position{EastM: -333, NorthM: -500}, north, best, 0, 150e3, 0},
		{"two land before it", physics.Position{EastM: 12}, physics.Position{}, best, 148, 150e3, 24e3},
		{"a pack of 99 kJ", physics.Position{EastM: 600, NorthM: 600}, physics.Position{}, best, 0, 99e3, 0},
		{"all at once", physics.Position{EastM: 333, NorthM: 500}, north, 4, 74, 80e3, 20e3},
	} {
		f := newTestFlight(100)
		v := &f.views[0]
		v.Position, v.Home, v.TransitMPS, v.WaitS, v.CapacityJ = c.from, &physics.Position{}, c.fleetMPS, c.waitS, c.capacityJ
		v.Params.SpeedMaxMPS = 30 // its own
		f.Air = motion.Air{Winds: []motion.Wind{{MPS: c.wind, Probability: 1}}}
		v.Charge = (f.HomeJ(v) + f.ReserveJ) / c.capacityJ
		if got := f.SpareJ(v); math.Abs(got) > 1e-6 {
			t.Fatalf("%s: %v J are spare", c.name, got)
		}
		const step = 0.1
		leftJ, at := v.Charge*c.capacityJ, c.from
		draw := func(seconds, watt float64) { leftJ -= seconds * watt }
		for at.Norm() > 0.1 {
			velocity := at.Scale(-min(c.fleetMPS, at.Norm()/step) / at.Norm())
			at = at.Add(velocity.Scale(step))
			draw(step, p.Propulsion.PowerW(velocity.Sub(c.wind).Norm()))
		}
		draw(c.waitS, p.Propulsion.PowerW(c.wind.Norm()))
		draw(v.Params.DescentS(100)+groundS, max(p.Propulsion.PowerW(c.wind.Norm()), p.Propulsion.PowerW(0)))
		if leftJ < f.ReserveJ || leftJ > f.ReserveJ+5e3 {
			t.Errorf("%s: down with %.0f J, the reserve is %.0f", c.name, leftJ, f.ReserveJ)
		}
		asBefore := c.from.Norm()/best*p.Propulsion.PowerW(best) + (2+v.Params.DescentS(100))*p.Propulsion.PowerW(0)
		if short := f.HomeJ(v) - asBefore; short < c.beforeShortJ {
			t.Errorf("%s: %.0f J more than without, want %.0f", c.name, short, c.beforeShortJ)
		}
	}
}

// A take-off needs its climb, the way out and back, and the reserve, of the pack that is
// fitted.
func TestTakeOffNeedsTheWholeWay(t *testing.T) {
	f := newTestFlight(100)
	v := &f.views[0]
	v.UpM, v.Home = 0, nil
	p, best := f.Physics.Propulsion, v.TransitMPS
	to := v.Position.Add(physics.Position{NorthM: 200})
	hoverS := v.Params.ClimbS(100) + 2 + v.Params.DescentS(100) + groundS
	if got, want := f.TakeOffJ(v, to), f.ReserveJ+hoverS*p.PowerW(0)+400/best*p.PowerW(best); math.Abs(got-want) > 1e-6 {
		t.Errorf("a take-off needs %v J, want %v", got, want)
	}
	if v.Home != nil {
		t.Error("the view was changed")
	}
}

// What was drawn from a pack stays so over `new` and over a restart, until another one is
// fitted; a charge that says less counts all the same.
func TestPackOutlivesItsMission(t *testing.T) {
	f := newTestFlight(100)
	v := &f.views[0]
	v.CapacityJ = 99e3
	for range 60 {
		f.fly(1)
	}
	drawn := 60 * slotJ
	left := func(of *testFlight) float64 { return of.ResidualJ(&of.views[0]) }
	check := func(when string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("%s %v J are left, want %v", when, got, want)
		}
	}
	check("after 60 slots", left(f), 99e3-drawn)
	check("of the other's", f.ResidualJ(&f.views[1]), 150e3-drawn)
	check("after a restart", left(f.restarted(t)), 99e3-drawn)
	f.Begin(100, f.views) // `new`
	check("after `new`", left(f), 99e3-drawn)
	for i := range f.views {
		f.views[i].TotalJ += 500 // on the ground
	}
	f.SettleTransit(f.views)
	check("before the swap", left(f), 99e3-drawn-500)
	v.FittedJ = v.TotalJ
	check("after the swap", left(f), 99e3)
	v.Charge = 0.8 // it is not full
	check("of a pack that is not full", left(f), 0.8*99e3)
}

// What is drawn since the charge fell by a point counts, up to the next one, and up to a total.
func TestLeftByCharge(t *testing.T) {
	v := fleet.View{CapacityJ: 150e3, Charge: 0.25, TotalJ: 20e3, FittedJ: 10e3}
	for _, c := range []struct{ drawnJ, upToJ, want float64 }{
		{0, 20e3, 37500}, {900, 20e3, 36600}, {900, 19.5e3, 37100}, {900, 19e3, 37500}, {5000, 20e3, 36000},
	} {
		v.ChargeDrawnJ = c.drawnJ
		if got := LeftJ(&v, c.upToJ); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v J drawn since the charge fell, up to %v: %v J left, want %v", c.drawnJ, c.upToJ, got, c.want)
		}
	}
	v.Charge = math.NaN() // after a restart
	for last, want := range map[float64]float64{0.25: 37500, 1: 140e3} {
		v.LastCharge = &last
		if got := LeftJ(&v, 20e3); math.Abs(got-want) > 1e-9 {
			t.Errorf("nothing is received yet, the last charge was %v: %v J left, want %v", last, got, want)
		}
	}
}

// Should its leader fail, an aircraft comes home by itself, slowly and high: the pack must do for that way without a reserve.
func TestReserveIsForTheWayAlone(t *testing.T) {
	p := physics.DefaultConstants()
	home := physics.Position{}
	from := physics.Position{EastM: 900}
	path := []fleet.Waypoint{{Position: from, UpM: 100}, {AfterS: 10, Position: from, UpM: 130}, {AfterS: 190, Position: home, UpM: 130},
		{AfterS: 290, Position: home}}
	want := 180*p.Propulsion.PowerW(5) + (10+100+groundS)*p.Propulsion.PowerW(0)
	if got := aloneJ(&p, path, &motion.Air{}); math.Abs(got-want) > 1e-6 {
		t.Errorf("%.0f J, want %.0f", got, want)
	}
	f := newTestFlight(100)
	v := &f.views[0]
	v.Position, v.Home, f.ReserveJ = path[0].Position, &home, 5e3
	for _, action := range []int{5, 3} { // it holds, or it returns at 5 m/s
		v.Params.OffboardLossAction = action
		want := f.HomeJ(v) + f.ReserveJ
		if action == 3 {
			want = f.aloneJ(v)
		}
		if got := f.ResidualJ(v) - f.SpareJ(v); math.Abs(got-want) > 1e-6 || action == 3 && want < f.HomeJ(v)+10e3 {
			t.Errorf("COM_OBL_RC_ACT %d: %.0f J are kept, want %.0f", action, got, want)
		}
	}
}

// Climb and descent are from and to the ground of a home, which may be a hill or a valley.
func TestHomesAtOtherHeights(t *testing.T) {
	f := newTestFlight(100)
	v := &f.views[0]
	hoverW := f.Physics.Propulsion.PowerW(0)
	flat, takeOffJ := f.HomeJ(v), f.TakeOffJ(v, v.Position)
	v.GroundUpM = -18
	deeperJ := (v.Params.DescentS(118) - v.Params.DescentS(100)) * hoverW
	if got := f.HomeJ(v) - flat; math.Abs(got-deeperJ) > 1 {
		t.Errorf("18 m below the origin the way home takes %.0f J more, want %.0f", got, deeperJ)
	}
	if got, want := f.TakeOffJ(v, v.Position)-takeOffJ, deeperJ+(v.Params.ClimbS(118)-v.Params.ClimbS(100))*hoverW; math.Abs(got-want) > 1 {
		t.Errorf("18 m below the origin a take-off needs %.0f J more, want %.0f", got, want)
	}
	v.Phase, v.Homeward, v.UpM = fleet.PhaseLanding, true, 42
	if got, want := f.WayHome(v).TotalJ(), (v.Params.DescentS(60)+groundS)*hoverW; math.Abs(got-want) > 1 {
		t.Errorf("a landing from 60 m above its home takes %.0f J, want %.0f", got, want)
	}
	v.Phase, v.Homeward, v.GroundUpM, v.UpM, v.InAir = fleet.PhaseClimbing, false, 20, 60, true
	if got, want := f.ClimbJ(v, v.Position), 0.5*v.Params.ClimbS(80)*hoverW; math.Abs(got-want) > 1 {
		t.Errorf("40 m up, of 80, a climb has %.0f J before it, want %.0f", got, want)
	}
}
