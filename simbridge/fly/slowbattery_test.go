package fly

import (
	"fmt"
	"testing"

	"prefdt/simbridge/report"
	"prefdt/simbridge/simnet"
	"prefdt/simbridge/world"
)

// However seldom a battery monitor measures, a budget that binds once flying costs half as much again is kept. What the
// last slots drew is extrapolated from the reading before them: at 6 s that is 0.3 % of this budget.
func TestBudgetWithSlowBatteries(t *testing.T) {
	for _, kind := range []string{"px4", "ardupilot"} {
		for _, everyS := range []float64{1, 2.25, 3, 6} {
			t.Run(fmt.Sprintf("%s, each %g s", kind, everyS), func(t *testing.T) {
				simnet.Test(t, func(t *testing.T) {
					c := flightInMemory(t, 100)
					c.World.Shock, c.Battery.EveryS = world.Shock{FromSlot: 50, Factor: 1.5}, everyS
					for i := range c.Aircraft {
						c.Aircraft[i].Autopilot = kind
					}
					c.Commands[0].Args = []string{"budget", "-energy", "42kJ"}
					s := flySummary(t, c)
					t.Logf("%+.2f %% at %.1f s of delay; the leader counts %.0f of %.0f J", 100*s.Budget.Error, s.DelayS,
						s.Budget.LeaderSpentJ, s.Budget.SpentJ)
					if s.Budget.Error > report.PassedMost || s.Budget.Error < -report.PassedMost {
						t.Errorf("the budget is off by %+.2f %%", 100*s.Budget.Error)
					}
				})
			})
		}
	}
}
