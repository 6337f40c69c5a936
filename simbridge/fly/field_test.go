package fly_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"prefdt/offline/compare"
	"prefdt/simbridge/fly"
	"prefdt/simbridge/simnet"
)

// A flight of the real leader in the field, over MQTT and MAVLink, through lost reports
// and a leader killed at half time, costs about what a rollout does with the same
// request, seed, lost reports, late decisions and missed slots, and less than one without
// memory. docs/field.md has what several such flights gave.
func TestFieldFlightEqualsItsRollout(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		const slots = 100 // in fewer, flying to better places pays less, and the wind stays unknown
		c := fly.FlightInMemory(t, slots)
		c.Leader.Command[0] = fly.Program(t, "firmware") // exports the log
		c.World.Slots = slots
		if err := c.LoadWorld("field"); err != nil {
			t.Fatal(err)
		}
		c.Leader.KillSlots = []int{slots / 2}
		c.Commands[0].Args = []string{"budget", "-energy", "34000"}
		var out bytes.Buffer
		if err := fly.Run(t.Context(), c, &out); err != nil {
			log, _ := os.ReadFile(filepath.Join(c.Out, "leader-2.log"))
			t.Fatalf("%v\n%s\n%s", err, out.String(), log)
		}
		f, err := compare.ReadFlight(c.Out)
		if err != nil {
			t.Fatal(err)
		}
		x, err := compare.Compare(f)
		if err != nil {
			t.Fatal(err)
		}
		reports, latency := f.Summary.Reports, f.Summary.Latency
		t.Logf("%d slots missed, %d of %d reports received, %d of %d decisions late; flight %.1f s, %.0f J; rollout %+.2f %%, %+.2f %%; "+
			"without memory %.1f s, %.0f J",
			x.MissedSlots, reports.Received, reports.Expected, latency.LateDecisions, f.Summary.Decisions,
			x.Flight.DelayS, x.Flight.EnergyJ, 100*x.DelayError, 100*x.EnergyError, x.Memoryless.DelayS, x.Memoryless.EnergyJ)
		if x.MissedSlots == 0 || x.MissedSlots > 4 || reports.Lost == 0 {
			t.Errorf("%d slots were missed, %d reports were lost", x.MissedSlots, reports.Lost)
		}
		if math.Abs(x.EnergyError) > 0.005 {
			t.Errorf("the flight took %.0f J, its rollout %.0f J", x.Flight.EnergyJ, x.Rollout.EnergyJ)
		}
		if math.Abs(x.DelayError) > 0.04 {
			t.Errorf("the flight took %.1f s of delay, its rollout %.1f s", x.Flight.DelayS, x.Rollout.DelayS)
		}
		if x.Flight.DelayS > x.Memoryless.DelayS {
			t.Errorf("the flight took %.1f s of delay, without memory it is %.1f s", x.Flight.DelayS, x.Memoryless.DelayS)
		}
	})
}
