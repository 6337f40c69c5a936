package fly

import (
	"errors"
	"path/filepath"
	"testing"

	"prefdt/configs"
	"prefdt/simbridge/simnet"
)

// The flight of make run, at its speed, keeps every rule where no busy machine can hide that, with both kinds of autopilots.
func TestShippedFlightKeepsRules(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c := Default()
		if err := configs.Load("../../configs/fly.yaml", &c); err != nil {
			t.Fatal(err)
		}
		c.inMemory()
		c.Fleet, c.Out = "test", t.TempDir()
		var err1, err2 error
		c.Leader.Config, err1 = filepath.Abs(filepath.Join("../..", c.Leader.Config))
		c.Leader.Checkpoint, err2 = filepath.Abs("../../configs/checkpoint")
		if err := errors.Join(err1, err2, c.FitAutopilots(Mixed)); err != nil {
			t.Fatal(err)
		}
		if s := flySummary(t, c); s.Slots != 100 || len(s.RulesBroken) > 0 {
			t.Errorf("%d slots, rules broken: %q", s.Slots, s.RulesBroken)
		}
	})
}
