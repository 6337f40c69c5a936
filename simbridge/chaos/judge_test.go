package chaos

import (
	"math"
	"strings"
	"testing"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/inference/physics"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/geo"
)

// flying is a setpoint that asks an aircraft, where it is, for a velocity.
func flying(at geo.Local, east, north, timeS float64) autopilot.Heard {
	return autopilot.Heard{
		Setpoint: &autopilot.Setpoint{Position: at, Velocity: geo.Local{EastM: east, NorthM: north}},
		Body:     autopilot.Body{Position: at}, Mode: autopilot.ModeOffboard, Armed: true, TimeS: timeS,
	}
}

// Every rule is broken once, and is not broken by what is right.
func TestJudge(t *testing.T) {
	middle, near := geo.Local{EastM: 500, NorthM: 500, UpM: 100}, geo.Local{EastM: 515, NorthM: 500, UpM: 100}
	for name, c := range map[string]struct {
		do   func(*judge)
		want string
	}{
		"a good leg":    {func(j *judge) { j.heard(0, flying(middle, 8, 0, 10)) }, ""},
		"a fast leg":    {func(j *judge) { j.heard(0, flying(middle, 30.2, 0, 10)) }, "speed"},
		"a far target":  {func(j *judge) { h := flying(middle, 8, 0, 10); h.Setpoint.Position.NorthM += 60; j.heard(0, h) }, "speed"},
		"a fast flight": {func(j *judge) { j.moved(0, autopilot.Body{Position: middle, Velocity: geo.Local{EastM: 31}}) }, "speed"},
		"outside":       {func(j *judge) { j.heard(0, flying(geo.Local{EastM: -1, NorthM: 5, UpM: 100}, 0, 0, 10)) }, "fence"},
		"too low":       {func(j *judge) { j.heard(0, flying(geo.Local{EastM: 5, NorthM: 5, UpM: 79}, 0, 0, 10)) }, "altitude"},
		"not a number":  {func(j *judge) { j.heard(0, flying(middle, math.NaN(), 0, 10)) }, "incomplete"},
		"each second slot another leg": {func(j *judge) {
			for i := range 80 {
				j.heard(0, flying(middle, 8, float64(i/20), 10+float64(i)/10))
			}
		}, ""},
		"the same leg for four slots": {func(j *judge) {
			for i := range 40 {
				j.heard(0, flying(middle, 8, 0, 10+float64(i)/10))
			}
		}, "stale"},
		"a long hold": {func(j *judge) {
			for i := range 80 {
				j.heard(0, flying(middle, 0, 0, 10+float64(i)/10))
			}
		}, ""},
		"side by side": {func(j *judge) { j.moved(1, autopilot.Body{Position: near}); j.heard(0, flying(middle, 0, 8, 10)) }, ""},
		"towards another": {func(j *judge) {
			j.moved(1, autopilot.Body{Position: near})
			j.heard(0, flying(middle, 12, 0, 10))
			j.heard(0, flying(middle, 12, 0, 10.1))
			j.heard(0, flying(middle, 12, 0, 10.2))
		}, "separation"},
		"towards one another": {func(j *judge) {
			j.moved(1, autopilot.Body{Position: near})
			for _, s := range []float64{10, 10.1, 10.2} {
				j.heard(1, flying(near, -6, 0, s))
				j.heard(0, flying(middle, 6, 0, s+0.01))
			}
		}, "separation"},
		"behind one that was slower a tick ago": {func(j *judge) {
			j.moved(0, autopilot.Body{Position: middle, Velocity: geo.Local{EastM: 8}})
			j.moved(1, autopilot.Body{Position: near, Velocity: geo.Local{EastM: 8}})
			j.heard(1, flying(near, 2, 0, 9.9))
			j.heard(0, flying(middle, 14, 0, 10))
			j.heard(1, flying(near, 14, 0, 10))
		}, ""},
		"too close": {func(j *judge) {
			j.heard(0, flying(middle, 0, 1, 10))
			j.moved(1, autopilot.Body{Position: geo.Local{EastM: 509, NorthM: 500, UpM: 100}})
			j.moved(0, autopilot.Body{Position: middle})
		}, "separation"},
		"a moment after the pilot": {func(j *judge) { j.handsOff(0, 10); j.heard(0, flying(middle, 8, 0, 10.9)) }, ""},
		"long after the pilot":     {func(j *judge) { j.handsOff(0, 10); j.heard(0, flying(middle, 8, 0, 13)) }, "pilot"},
		"OFFBOARD asked of a pilot": {func(j *judge) {
			j.handsOff(0, 10)
			j.heard(0, autopilot.Heard{Command: common.MAV_CMD_DO_SET_MODE, TimeS: 13})
		}, "pilot"},
		"a stream asked of a pilot": {func(j *judge) {
			j.handsOff(0, 10)
			j.heard(0, autopilot.Heard{Command: common.MAV_CMD_SET_MESSAGE_INTERVAL, TimeS: 13})
		}, ""},
		"given back": {func(j *judge) { j.handsOff(0, 10); j.resumed(); j.heard(0, flying(middle, 8, 0, 13)) }, ""},
		"standing": {func(j *judge) {
			for i := range 40 {
				h := flying(middle, 0, 0, 10+float64(i)/10)
				h.Armed, h.Landed = false, true
				j.heard(0, h)
			}
		}, "ground"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJudge(physics.Standard(), 2, 20)
			j.craft[0].groundS, j.craft[1].groundS = -1, -1
			c.do(j)
			n, first := j.verdict()
			if (n > 0) != (c.want != "") || !strings.HasPrefix(first, c.want) {
				t.Errorf("%d unsafe, %q, want %q", n, first, c.want)
			}
		})
	}
}

// The same seed draws the same missions, and a run of thirteen has every kind.
func TestDraw(t *testing.T) {
	seen := map[Kind]bool{}
	for k := range kinds {
		a, b := draw(7, k, 40, 2, true), draw(7, k, 40, 2, true)
		if a.String() != b.String() || a.Seed != b.Seed {
			t.Fatalf("%v and %v", a, b)
		}
		for _, f := range a.Faults {
			seen[f.Kind] = true
			if f.Slot < 0 || f.Slot >= 40-quiet || f.Aircraft > 1 {
				t.Errorf("%+v", f)
			}
		}
	}
	if len(seen) != len(kinds) {
		t.Errorf("only %v", seen)
	}
}
