package leader_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/geo"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// Where no wind is configured an aircraft that is far out lands with its reserve all the same, against a wind that its flight shows.
func TestReserveInAWindThatIsNotConfigured(t *testing.T) {
	for _, windMPS := range []float64{0, 4, 7, 10, 14} {
		t.Run(fmt.Sprint(windMPS), func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) { landAgainst(t, windMPS, math.Pi/4, false) })
		})
	}
}

// Likewise where its leader is killed while it holds, in which nothing is measured.
func TestReserveInAWindAfterARestart(t *testing.T) {
	for _, windMPS := range []float64{0, 10, 14} {
		t.Run(fmt.Sprint(windMPS), func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) { landAgainst(t, windMPS, math.Pi/4-0.35, true) })
		})
	}
}

// landAgainst has one fly out, north-east of its home, in a wind to an angle from the east.
func landAgainst(t *testing.T, windMPS, angle float64, restarts bool) {
	r := rig.New(t, 1, 100000)
	home, start := geo.Local{EastM: 10, NorthM: 10}, [2]float64{990, 990}
	wind := geo.Local{EastM: windMPS * math.Cos(angle), NorthM: windMPS * math.Sin(angle)}
	r.Config.Flight.StartWithinM, r.Config.Flight.ClimbS, r.Config.Aircraft[0].StartM = 2000, 600, &start
	r.ReplaceAutopilot(0, func(c *autopilot.Config) {
		c.Start, c.CapacityJ = home, 110e3
		c.Parameters = map[string]float64{"MPC_Z_V_AUTO_DN": 3}
		c.PowerW = func(_ int, v geo.Local) float64 { return r.Physics.Propulsion.PowerW(v.Sub(wind).HorizontalM()) }
	})
	r.OverrideDecision = func(s *slot.Snapshot, d *slot.Decision) { // it circles, as in calm air
		for m := range s.Aircraft {
			sin, cos := math.Sincos(2 * math.Pi * float64(s.Slot) / 20)
			d.Move[m] = physics.Position{EastM: 10 * cos, NorthM: 10 * sin}
		}
	}
	if f := r.FlyToSlot(5); restarts {
		r.Await("a measured wind", rig.SlotSettled(12))
		r.MustSendAction(telemetry.ActionHold)
		r.Await("the hold", func(s telemetry.Status) bool { return s.State == telemetry.StateHolding })
		f.Restart(nil)
	}
	at := r.Await("the way home", func(s telemetry.Status) bool {
		return s.State != telemetry.StateFlying && s.State != telemetry.StateHolding || s.Aircraft[0].Reason != ""
	})
	away, leftJ := r.HomeDistanceM(0), r.Autopilots[0].State().LeftJ
	for !r.Landed(0) {
		time.Sleep(time.Second)
	}
	downJ := r.Autopilots[0].State().LeftJ
	t.Logf("against %v m/s it turned home in slot %d, %.0f m away, with %.0f J, and landed with %.0f", windMPS, at.Slot, away, leftJ, downJ)
	if downJ < r.Config.Flight.ReserveJ || downJ > r.Config.Flight.ReserveJ+20e3 || away < 1100 || r.HomeDistanceM(0) > 3 {
		t.Errorf("it landed with %.0f J, %.0f m from home, want %.0f", downJ, r.HomeDistanceM(0), r.Config.Flight.ReserveJ)
	}
}
