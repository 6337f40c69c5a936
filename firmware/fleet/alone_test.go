package fleet

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"prefdt/firmware/height"
	"prefdt/inference/physics"
)

// Where one may be that was left alone in flight, by what its autopilot does then: others keep clear of all of it.
func TestWhereOneMayBeThatIsLeftAlone(t *testing.T) {
	home, last := physics.Position{NorthM: -50}, physics.Position{EastM: 100}
	came := []physics.Position{{EastM: 10, NorthM: 300}, {EastM: 100, NorthM: 300}}
	copter := func(p ardupilotParameters) Parameters {
		return Parameters{autopilot: ardupilot{}, ardupilotParameters: p}
	}
	px := func(p px4Parameters) Parameters { return Parameters{autopilot: px4{}, px4Parameters: p} }
	holds := px(px4Parameters{OffboardLossAction: 5, LowBatteryAction: 3})
	direct, retraced := []physics.Position{last, last, home}, append(slices.Clone(came), last, last, home)
	for _, c := range []struct {
		name   string
		params Parameters
		mode   Mode
		charge float64
		ageS   float64
		want   []physics.Position
	}{
		{"a PX4 that holds, its pack good", holds, ModeOffboard, 0.6, 60,
			direct[:2]},
		{"its pack low by now: it returns", holds, ModeOffboard, 0.16, 3, direct},
		{"or of unknown charge", px(px4Parameters{OffboardLossAction: 5, LowBatteryAction: 1}), ModeOffboard, math.NaN(), 3, direct},
		{"not while setpoints are sent", px(px4Parameters{OffboardLossAction: 5, LowBatteryAction: 1}), ModeOffboard, math.NaN(), 1.2,
			direct[:2]},
		{"from its own hold", holds, ModeHold, 0.1, 60, direct},
		{"earlier, by its parameter", px(px4Parameters{OffboardLossAction: 5, LowBatteryAction: 3, CriticalCharge: 0.4}), ModeHold, 0.45,
			60, direct},
		{"it lands", px(px4Parameters{OffboardLossAction: 5, LowBatteryAction: 2}), ModeOffboard, 0.1, 60, direct[:2]},
		{"a pilot's", px(px4Parameters{OffboardLossAction: 3, LowBatteryAction: 2}), ModePosition, 0.1, 60, direct[:2]},
		{"an ArduCopter returns", copter(ardupilotParameters{GCSFailsafe: 1}), copterGuided, 0.6, 6, direct},
		{"from its BRAKE too", copter(ardupilotParameters{GCSFailsafe: 1}), copterBrake, 0.6, 6, direct},
		{"not yet", copter(ardupilotParameters{GCSFailsafe: 1}), copterBrake, 0.6, 4, direct[:2]},
		{"on its way", copter(ardupilotParameters{GCSFailsafe: 3}), copterGuided, 0.6, 6, retraced},
		{"or straight, where it has forgotten", copter(ardupilotParameters{GCSFailsafe: 4}), copterGuided, 0.6, 6, retraced},
		{"as its pilot chose", copter(ardupilotParameters{GCSFailsafe: 1}), copterSmartRTL, 0.6, 2, retraced},
		{"received on that way", copter(ardupilotParameters{GCSFailsafe: 1}), copterSmartRTL, 0.6, 0,
			[]physics.Position{{EastM: 100, NorthM: 18}, last}},
		{"and on the straight one", copter(ardupilotParameters{GCSFailsafe: 1}), copterRTL, 0.6, 0,
			[]physics.Position{last.Add(home.Sub(last).Scale(18 / home.Sub(last).Norm())), last}},
	} {
		a := &aircraft{located: true, armed: true, landed: new(false), position: last, positionS: 100, home: &home, mode: c.mode,
			params: c.params, charge: c.charge, cameBy: came, control: control{phase: PhaseFlying}}
		a.meter.CapacityJ = 150e3
		near := func(p, q physics.Position) bool { return p.Sub(q).Norm() < 1e-6 }
		if got := a.possiblePath(100 + c.ageS); !slices.EqualFunc(got, c.want, near) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The way on which an ArduCopter came is without its loops, and shorter again once it has returned on a part of it.
func TestWayOnWhichItCame(t *testing.T) {
	a := &aircraft{armed: true, landed: new(false), mode: copterGuided, params: Parameters{autopilot: ardupilot{}}, control: control{
		phase: PhaseFlying}}
	fly := func(toEastM, toNorthM float64) {
		way := physics.Position{EastM: toEastM, NorthM: toNorthM}.Sub(a.position)
		for range int(way.Norm()) {
			a.position = a.position.Add(way.Scale(1 / way.Norm()))
			a.rememberWay()
		}
	}
	lengthM := func() (m float64) {
		for i := 1; i < len(a.cameBy); i++ {
			m += a.cameBy[i].Sub(a.cameBy[i-1]).Norm()
		}
		return m
	}
	a.rememberWay()
	fly(100, 0)
	fly(100, 100)
	fly(50, 100)
	fly(50, 0) // where it was
	if m := lengthM(); m < 45 || m > 55 {
		t.Errorf("after a loop %.0f m", m)
	}
	fly(50, 200)
	if m := lengthM(); m < 245 || m > 255 {
		t.Errorf("after the way north %.0f m", m)
	}
	a.mode = copterSmartRTL
	fly(52, 100)
	if m := lengthM(); m < 145 || m > 160 {
		t.Errorf("half of it back %.0f m", m)
	}
	a.armed = false
	if a.rememberWay(); a.cameBy != nil {
		t.Error("it has landed, and its way is kept")
	}
}

// The reserve pays for the way home that an autopilot flies by itself.
func TestPathAlone(t *testing.T) {
	home := physics.Position{}
	p := Parameters{autopilot: px4{}, ReturnUpM: 130, ReturnMPS: 5, px4Parameters: px4Parameters{OffboardLossAction: 3, OffboardLossS: 1}}
	v := View{Position: physics.Position{EastM: 300}, UpM: 100, Home: &home, Params: p}
	want := []Waypoint{{0, v.Position, 100}, {1, v.Position, 100}, {11, v.Position, 130}, {71, home, 130}, {71, home, 130},
		{71 + p.DescentS(130), home, 0}}
	if got := v.PathAlone(LeftByLink); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	v.Params.OffboardLossAction = 5
	if got := v.PathAlone(LeftByLink); got[len(got)-1] != (Waypoint{1, v.Position, 100}) {
		t.Errorf("one that holds: %v", got)
	}
	v.Params.OffboardLossAction = 4
	if got := v.PathAlone(LeftByLink); got[len(got)-1] != (Waypoint{1 + p.DescentS(100), v.Position, 0}) {
		t.Errorf("one that lands: %v", got)
	}
}

// Return heights are apart, above the mission's, and the later that one climbs, the lower.
func TestReturnsApart(t *testing.T) {
	px := func(upM float64) Parameters {
		return Parameters{autopilot: px4{}, ReturnUpM: upM, px4Parameters: px4Parameters{OffboardLossAction: 3, OffboardLossS: 1}}
	}
	copter := func(upM, slope float64) Parameters {
		own := ardupilotParameters{GCSFailsafe: 1, ConeSlope: slope}
		return Parameters{autopilot: ardupilot{}, ReturnUpM: upM, ardupilotParameters: own}
	}
	lands := px(0)
	lands.OffboardLossAction = 4
	for _, c := range []struct {
		name string
		of   []Parameters
		upM  float64 // of the first home
		want string
	}{
		{"below H", []Parameters{px(60), px(70)}, 0, "[1 2] [RTL_RETURN_ALT 105 of 1 RTL_RETURN_ALT 110 of 2]"},
		{"not enough apart", []Parameters{px(105), px(108)}, 0, "[1 2] [RTL_RETURN_ALT 105 of 1 RTL_RETURN_ALT 110 of 2]"},
		{"apart", []Parameters{px(105), px(110)}, 0, "[] []"},
		{"homes at two heights", []Parameters{px(105), px(110)}, 7, "[1 2] [RTL_RETURN_ALT 98 of 1 RTL_RETURN_ALT 110 of 2]"},
		{"the other way round", []Parameters{px(110), px(105)}, 0, "[] []"},
		{"an ArduCopter climbs later", []Parameters{copter(110, 0), px(105)}, 0,
			"[1 2] [RTL_ALT 10500 (RTL_ALT_M 105), RTL_CONE_SLOPE 0 of 1 RTL_RETURN_ALT 110 of 2]"},
		{"and lower", []Parameters{copter(105, 0), px(110)}, 0, "[] []"},
		{"not near home", []Parameters{copter(105, 3), px(110)}, 0,
			"[1] [RTL_ALT 10500 (RTL_ALT_M 105), RTL_CONE_SLOPE 0 of 1 RTL_RETURN_ALT 110 of 2]"},
		{"one lands", []Parameters{px(0), lands}, 0, "[] []"},
	} {
		var views []View
		for i, p := range c.of {
			views = append(views, View{Number: i + 1, Received: true, Params: p, Position: physics.Position{EastM: 100 * float64(i)}})
		}
		views[0].UpM, views[0].GroundUpM = height.AboveOrigin(c.upM), height.AboveOrigin(c.upM)
		if meet, set := ReturnsApart(views, 100); fmt.Sprint(meet, set) != c.want {
			t.Errorf("%s: %v %v, want %s", c.name, meet, set, c.want)
		}
	}
}
