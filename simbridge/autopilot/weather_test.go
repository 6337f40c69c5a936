package autopilot

import (
	"math"
	"testing"

	"prefdt/simbridge/battery"
	"prefdt/simbridge/geo"
)

// Gusts move a hovering aircraft by decimetres; what its receiver errs is in what it tells, and not in where it is.
func TestGustsAndReceiver(t *testing.T) {
	for _, x := range []struct {
		gustMPS2 float64
		receiver Receiver
	}{{}, {gustMPS2: 1}, {receiver: Receiver{0.5, 0.8, 0.2}}} {
		c := Config{SystemID: 1, Speed: 1, CapacityJ: 1e6, Battery: battery.AllFields, GustMPS2: x.gustMPS2, Receiver: x.receiver, Seed: 3,
			PowerW: func(int, geo.Local) float64 { return 100 }}
		v := newVehicle(c)
		v.armed, v.groundContact, v.landed = true, false, false
		v.body.Position.UpM, v.holdPosition.UpM = 100, 100
		const steps = 60_000
		var away, east, up, velocity, n float64
		for range steps {
			v.step()
			told := v.told()
			away = max(away, v.body.Position.HorizontalM())
			east, up = east+square(told.Position.EastM-v.body.Position.EastM), up+square(told.Position.UpM-v.body.Position.UpM)
			velocity, n = velocity+square(told.Velocity.NorthM-v.body.Velocity.NorthM), n+1
		}
		if pushed := x.gustMPS2 > 0; pushed != (away > 0.3) || away > 6 {
			t.Errorf("gusts of %v m/s^2 move it %.2f m away", x.gustMPS2, away)
		}
		for _, e := range [][2]float64{{east, x.receiver.PositionM}, {up, x.receiver.HeightM}, {velocity, x.receiver.VelocityMPS}} {
			if deviation := math.Sqrt(e[0] / n); math.Abs(deviation-e[1]) > 0.15*e[1] {
				t.Errorf("an error has a standard deviation of %.3f, want %.3f", deviation, e[1])
			}
		}
	}
}

func square(x float64) float64 { return x * x }

// An ArduCopter of little acceleration and jerk lands where it is to, gusts or not: they bound the path that it computes, and not
// how it keeps to that.
func TestLandsInGusts(t *testing.T) {
	for seed := range uint64(20) {
		v := newVehicle(Config{SystemID: 1, Speed: 1, CapacityJ: 1e6, Battery: battery.AllFields, GustMPS2: 1, Seed: seed, Copter: true,
			Parameters: map[string]float64{"WPNAV_ACCEL": 250, "PSC_JERK_XY": 5}, PowerW: func(int, geo.Local) float64 { return 100 }})
		v.armed, v.groundContact, v.landed, v.intendedMode, v.mode = true, false, false, ModeLand, ModeLand
		v.body.Position.UpM, v.holdPosition.UpM = 100, 100
		for v.timeUS < 200e6 && !v.groundContact {
			v.step()
		}
		if m := v.body.Position.HorizontalM(); !v.groundContact || m > 2.5 {
			t.Errorf("seed %d: it lands %.1f m away, at %.1f m", seed, m, v.body.Position.UpM)
		}
	}
}
