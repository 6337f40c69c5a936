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
	"prefdt/inference/physics"
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
		Radio: map[string]float64{"urban_a": r.UrbanA, "urban_b": r.UrbanB, "los_excess_db": r.LoS.ExcessDB,
			"nlos_excess_db": r.NLoS.ExcessDB},
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

// users.largest_claim is how much of a task that is larger than the corpus knows counts.
func TestLargestClaim(t *testing.T) {
	const cycles = 5e9
	for _, c := range []struct{ factor, offloadedCycles float64 }{{1, 1.6e9}, {2, 3.2e9}, {8, cycles}} {
		conf := config.Defaults()
		conf.Checkpoint, conf.Users.LargestClaim = "../../configs/checkpoint", c.factor
		p, _, err := LoadPolicy(&conf)
		if err != nil {
			t.Fatal(err)
		}
		s := slot.Snapshot{
			Slots: 100, Aircraft: []slot.Aircraft{{Number: 1, Position: physics.Position{EastM: 500, NorthM: 500},
				CPUHz: p.Physics.EdgeCPUHz}},
			Users: []slot.User{{Position: physics.Position{EastM: 500, NorthM: 500}, CPUHz: 1e9, Gain: []float64{1e-7},
				Task: physics.Task{Bits: 1e6, CyclesPerBit: cycles / 1e6, DeadlineS: 1}}},
		}
		o := goal.New(p.Scales, &p.Physics, 100, 1)
		if err := o.SetPreference(0); err != nil { // of the least delay, whatever it takes
			t.Fatal(err)
		}
		var d slot.Decision
		p.Decide(&s, o, &d)
		if got := d.Users[0].Offload * cycles; got > c.offloadedCycles*(1+1e-3) || got < 0.8*c.offloadedCycles {
			t.Errorf("users.largest_claim %v: %.3g cycles are offloaded, want %.3g or a little less", c.factor, got, c.offloadedCycles)
		}
		l := Leader{Config: conf, Policy: p}
		if l.configure(); l.users.Claims != p.Claims || p.Claims.Cycles < 1.59e9*c.factor {
			t.Errorf("users.largest_claim %v: offers are made of claims up to %+v", c.factor, l.users.Claims)
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
