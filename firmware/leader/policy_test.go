package leader

import (
	"slices"
	"testing"

	"prefdt/firmware/config"
	"prefdt/inference"
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
	c.Checkpoint, c.Estimator = "../../configs/checkpoint", "../../configs/estimator/estimator.bin"
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
	conf, _ := fieldConfig(t, "field")
	conf.Estimator = "../../configs/leader.yaml"
	if _, _, err := LoadPolicy(&conf); err == nil {
		t.Error("a configuration is no estimator")
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
