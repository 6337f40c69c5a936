package fleet

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/firmware/height"
	"prefdt/inference/physics"
)

// Two come home to places 12 m apart: the second lands there no later on a hill than in the plain, and the first, with its motors
// off, is in the air for nobody.
func TestComesHomeToAHill(t *testing.T) {
	down := func(groundUpM height.AboveOrigin) float64 {
		w := newSky(t, grid(2, 2, physics.Position{EastM: 500, NorthM: 500}, 12)...)
		for _, v := range w.fliers {
			v.groundUpM = groundUpM
		}
		w.comeHome(physics.Position{EastM: 500, NorthM: 480}, physics.Position{EastM: 500, NorthM: 600})
		if !w.fly(5*time.Minute, w.allDown) {
			t.Fatal("not all are down")
		}
		s := w.nowS()
		w.fly(5*time.Second, nil)
		for i, v := range w.Views() {
			if off := w.fliers[i].position.Sub(w.fliers[i].home).Norm(); v.Obstacle || v.InAir || off > 1 {
				t.Errorf("at %v m: aircraft %d, %.1f m from home: in the air %v, an obstacle %v", groundUpM, i+1, off, v.InAir, v.Obstacle)
			}
		}
		return s
	}
	if plain, hill := down(0), down(21); hill > plain {
		t.Errorf("down after %.0f s in the plain, %.0f on a hill", plain, hill)
	}
}

// One that lies where nobody had a home is no obstacle, however high that is; one that falls is, whatever its autopilot says of the
// ground, until it has come to rest.
func TestLiesOnAHill(t *testing.T) {
	v := newSimVehicle(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.upM = 45
	v.simulate(3*time.Second, nil)
	if v.view().Obstacle {
		t.Error("an obstacle on the ground")
	}
	v.armed, v.landed, v.upM = true, false, 100
	v.simulate(time.Second, nil)
	v.armed, v.landed = false, true // PX4's word, once its motors are off
	v.sendHeartbeat()
	for v.climbMPS = -10; v.upM > 45; v.upM-- {
		if v.simulate(100*time.Millisecond, nil); !v.view().Obstacle {
			t.Fatalf("no obstacle as it falls, at %v m", v.upM)
		}
	}
	v.climbMPS = 0
	if v.simulate(3*time.Second, nil); v.view().Obstacle {
		t.Error("an obstacle where it lies")
	}
}

// Height over the ground decides whether one that lands may still be resumed: over its home, and elsewhere over the highest of them.
func TestNoResumeAboveAHill(t *testing.T) {
	for _, c := range []struct {
		upM     height.AboveOrigin
		at      float64 // from its home
		refused bool
	}{{20, 0, true}, {33, 0, false}, {2, 300, true}, {20, 300, true}, {33, 300, false}} {
		v := flyingVehicle(t)
		a := v.Fleet.aircraft[0]
		a.homeUpM = 18
		v.position.EastM += c.at
		v.mode, v.upM = ModeLand, c.upM
		v.sendHeartbeat()
		v.clock.Advance(100 * time.Millisecond)
		v.bootMS += 100
		v.sendState()
		err := v.Resume(resume(1, false))
		if refused := err != nil && strings.Contains(err.Error(), "about to touch down"); refused != c.refused {
			t.Errorf("%v m over the origin, %v m from its home at 18 m: %v", c.upM, c.at, err)
		}
	}
}

// Its motors run and it reports the ground, on which it is if it stands near the height of its home, or of some other elsewhere.
func TestOnGroundOnAHill(t *testing.T) {
	for _, c := range []struct {
		homeUpM, upM height.AboveOrigin
		awayM        float64
		on           bool
	}{{18, 45, 0, true}, {18, 52, 0, false}, {-18, 20, 0, false}, {-18, -35, 0, true}, {-18, 20, 500, true}, {-18, 34, 500, false}} {
		v := flying(t)
		v.Fleet.aircraft[0].homeUpM, v.Fleet.aircraft[1].home, v.Fleet.aircraft[1].homeUpM = c.homeUpM, &physics.Position{}, 0
		v.position.EastM += c.awayM
		v.upM, v.velocity, v.landed = c.upM, physics.Position{}, true
		v.clock.Advance(100 * time.Millisecond)
		v.bootMS += 100
		v.sendState()
		if v.sendState(); v.view().InAir == c.on {
			t.Errorf("%+v: in the air %v", c, v.view().InAir)
		}
	}
}

// Heights go to the autopilot over what it measures from: an ArduCopter climbs over its home, and its fence is over that.
func TestCopterOnAHill(t *testing.T) {
	v := newSimCopter(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.upM = 18
	v.simulate(2*time.Second, nil)
	for name, x := range map[string]float32{"FENCE_ENABLE": 1, "FENCE_TYPE": 1, "FENCE_ALT_MAX": 110} {
		v.transmit(&common.MessageParamValue{ParamId: name, ParamType: common.MAV_PARAM_TYPE_REAL32, ParamValue: x})
	}
	fenced := func() bool {
		view := v.view()
		return strings.Contains(strings.Join(view.Params.Warnings(150e3), ""), "FENCE_ALT_MAX")
	}
	if fenced() {
		t.Error("a fence 110 m over a hill of 18 m is too low for 120 m over the origin")
	}
	v.upM = -18
	if v.simulate(time.Second, nil); !fenced() {
		t.Error("a fence 110 m over a valley of 18 m is high enough for 120 m over the origin")
	}
}

// The ledger has a home with its height; that of an earlier leader is at the origin's.
func TestSavedHomes(t *testing.T) {
	w := newSky(t, physics.Position{EastM: 300, NorthM: 300})
	w.fliers[0].upM, w.fliers[0].groundUpM = 18, 18
	w.fly(6*time.Second, nil)
	if err := w.Launch(ordered(1)); err != nil {
		t.Fatal(err)
	}
	saved := w.SavedState()
	s := SavedAircraft{}
	if s.Order(Ordered{Number: 1, Home: &physics.Position{EastM: 1, NorthM: 2}, HomeUpM: 18}); *s.Home != [3]float64{1, 2, 18} {
		t.Errorf("ordered: %v", *s.Home)
	}
	if up := saved[0].Home[2]; math.Abs(up-18) > 0.1 {
		t.Errorf("saved at %v m", up)
	}
	for text, want := range map[string]height.AboveOrigin{`{"number":1,"home_m":[1,2]}`: 0, `{"number":1,"home_m":[1,2,18]}`: 18} {
		var s SavedAircraft
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		if w.Restore([]SavedAircraft{s}); w.aircraft[0].homeUpM != want || *w.aircraft[0].home != (physics.Position{EastM: 1, NorthM: 2}) {
			t.Errorf("%s: %v, %v m", text, *w.aircraft[0].home, w.aircraft[0].homeUpM)
		}
	}
}
