package leader

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prefdt/firmware/config"
	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/simbridge/world"
)

// fieldConfig is the configuration of a leader in a named world.
func fieldConfig(t testing.TB, name string) (config.Config, world.Config) {
	t.Helper()
	w, err := world.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	c := config.Defaults()
	c.Checkpoint = "../../configs/checkpoint"
	r := &w.Physics.Channel
	c.Surroundings = config.Surroundings{
		Wind: w.Wind.MeanMaxMPS > 0, Payload: w.Payload.FactorMax > 0, Sounding: w.Sounding,
		SlowCPU: w.Throttling.Factor, Contention: w.Physics.Contention,
		Radio: map[string]float64{"urban_a": r.UrbanA, "urban_b": r.UrbanB, "los_excess_db": r.LoS.ExcessDB, "nlos_excess_db": r.NLoS.ExcessDB},
	}
	return c, w
}

// snapshotsOf are a world's snapshots under a scheduler.
func snapshotsOf(w *world.World, p Scheduler, o goal.Objective) (list []slot.Snapshot) {
	var d slot.Decision
	var a world.Action
	for !w.Done() {
		var s slot.Snapshot
		w.Snapshot(&s)
		for i := range s.Users {
			s.Users[i].Gain = slices.Clone(s.Users[i].Gain)
		}
		for i := range s.IdleUsers {
			s.IdleUsers[i].Gain = slices.Clone(s.IdleUsers[i].Gain)
		}
		list = append(list, s)
		p.Decide(&s, o, &d)
		w.FillAction(&s, &d, &a)
		w.Step(a)
	}
	return list
}

func TestPolicyInItsSurroundings(t *testing.T) {
	for _, c := range []struct {
		world                        string
		estimator, outOfDistribution bool
	}{{"standard", false, false}, {"gusts", true, false}, {"phones", true, true}, {"field", true, true}} {
		conf, w := fieldConfig(t, c.world)
		p, _, err := LoadPolicy(&conf)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Scheduler.(*inference.Policy).Estimator != nil; got != c.estimator || p.OutOfDistribution != c.outOfDistribution {
			t.Errorf("%s: estimator %v, out of distribution %v", c.world, got, p.OutOfDistribution)
		}
		if p.Physics != w.Physics {
			t.Errorf("%s: the policy has %+v, the world %+v", c.world, p.Physics, w.Physics)
		}
	}
}

// A checkpoint without an estimator is refused where one is needed, and only there.
func TestPolicyWithoutAnEstimator(t *testing.T) {
	conf, _ := fieldConfig(t, "field")
	conf.Checkpoint = t.TempDir()
	for _, name := range []string{checkpoint.GraphFile, checkpoint.ManifestFile} {
		raw, err := os.ReadFile("../../configs/checkpoint/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if name == checkpoint.ManifestFile {
			var m map[string]json.RawMessage
			if err := json.Unmarshal(raw, &m); err != nil {
				t.Fatal(err)
			}
			delete(m, "estimator")
			if raw, err = json.Marshal(m); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(conf.Checkpoint, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := LoadPolicy(&conf); err == nil || !strings.Contains(err.Error(), "has no estimator") {
		t.Errorf("in the field: %v", err)
	}
	conf.Surroundings = config.Surroundings{}
	if _, _, err := LoadPolicy(&conf); err != nil {
		t.Errorf("where nothing is hidden: %v", err)
	}
}

// Once it has met its users, a slot with the estimator allocates nothing.
func TestFieldDecisionAllocatesNothing(t *testing.T) {
	conf, c := fieldConfig(t, "field")
	p, _, err := LoadPolicy(&conf)
	if err != nil {
		t.Fatal(err)
	}
	policy, o := p.Scheduler.(*inference.Policy), goal.New(p.Scales, &p.Physics, c.Slots, c.Aircraft)
	o.SetOutOfDistribution(p.OutOfDistribution)
	list := snapshotsOf(world.New(c, 7), policy, o)
	var d slot.Decision
	fly := func() {
		policy.Reset()
		for i := range list {
			policy.Decide(&list[i], o, &d)
		}
	}
	fly()
	if n := testing.AllocsPerRun(2, fly); n > 0 {
		t.Errorf("%v allocations in %d slots", n, len(list))
	}
}
