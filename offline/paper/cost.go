package paper

import (
	"cmp"
	"context"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"prefdt/offline/experiment"
	"prefdt/offline/methods"
	"prefdt/offline/prefdttrain"
	"prefdt/offline/rollout"
	"prefdt/offline/search"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// Parts of the routes that are timed, of which the rest are multiples.
const (
	costRounds     = 3
	timedUpdates   = 2 // of PPO, for each of two policies
	timedGenerated = 2 // generations of a search
)

// timeCosts takes the processor time of each route to a new setting on one core, one after another in each round, and
// returns the median by route: NaN where there is nothing to time yet.
func (s *set) timeCosts(ctx context.Context, results map[string]*experiment.Result) ([]float64, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	scratch, err := os.MkdirTemp(s.Dir, ".times-") // an image may have no other folder to write
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)

	flight := func(name string) (func() (float64, error), error) {
		f, err := s.ready(ctx, s.findPolicy(name), ownSettings)
		if err != nil {
			return nil, err
		}
		runner, err := f.Runner(f.World, rollout.ReportLink{})
		seed := uint64(seeds.CalibrationFirst)
		return func() (float64, error) {
			seed++
			runner.Fly(seed, f.Request(f.Settings[len(f.Settings)/2]))
			return 1, nil
		}, err
	}
	routes := make([]func() (times float64, err error), len(paperRows.Cost))
	for _, name := range []string{s.longestArm(), declaredArm} {
		made := s.full != nil && name == s.longestArm()
		if !made {
			c, tokens := s.published(s.findPolicy(name))
			if made, err = prefdttrain.IsTrained(c, filepath.Join(s.Dir, trainingPath(name)), tokens); err != nil {
				return nil, err
			}
		}
		if results[name] != nil && made && routes[0] == nil { // hours are not spent for a time
			if routes[0], err = flight(name); err != nil {
				return nil, err
			}
		}
	}
	for k, name := range map[int]string{1: "sca-oracle", 2: "sca-mpc"} {
		if routes[k], err = flight(name); err != nil {
			return nil, err
		}
	}
	routes[3] = func() (float64, error) {
		r := &methods.Run{Config: s.Methods, World: world.Standard(), Workers: 1, Log: io.Discard}
		slots := r.World.Slots
		updates := max(r.PPO.Steps/(r.PPO.Episodes*slots), 1) // of one policy
		r.PPO.Preferences, r.PPO.Steps = 2, timedUpdates*r.PPO.Episodes*slots
		if r.Dir, err = os.MkdirTemp(scratch, "ppo-"); err != nil {
			return 0, err
		}
		_, err := methods.Find(&r.Config, "ppo-plain").New(ctx, r)
		return float64(updates) / (2 * timedUpdates), err
	}
	routes[4] = func() (float64, error) {
		c := s.search(s.findPolicy(teacherArm).Rules)
		generations := float64(c.Generations)
		c.Generations = min(timedGenerated, c.Generations)
		var state search.State
		err := search.Run(ctx, c, &state, 1, func(*search.State) error { return nil })
		return generations / float64(c.Generations), err
	}
	took := make([][]float64, len(routes))
	for range costRounds {
		for k, route := range routes {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if route == nil {
				continue
			}
			begin := experiment.Now()
			times, err := route()
			if err != nil {
				return nil, err
			}
			took[k] = append(took[k], times*begin.SpentS())
		}
	}
	costs := make([]float64, len(routes))
	for k, x := range took {
		if costs[k] = math.NaN(); len(x) > 0 {
			slices.Sort(x)
			costs[k] = x[len(x)/2]
		}
	}
	return costs, nil
}

func (s *set) findPolicy(name string) *policy {
	return s.policies[slices.IndexFunc(s.policies, func(p *policy) bool { return p.Name == name })]
}

// costTable is what one new setting costs.
func (t *tables) costTable(x *experiment.Table) {
	for k, r := range paperRows.Cost {
		cells := experiment.Row{"route": r.Name, "interaction": r.Interaction, "core-s": "not timed",
			"paper's core-s": r.CoreS, "paper's ratio": r.CoreS / paperRows.Cost[0].CoreS, "paper's n": r.N}
		if t.costs != nil && !math.IsNaN(t.costs[k]) {
			cells["core-s"], cells["ratio"] = t.costs[k], t.costs[k]/t.costs[0]
		}
		x.Add(cells)
	}
	if t.costs != nil {
		x.After = append(x.After, "The paper's ratios are 620 to 2,400: there a solver compiles its convex program anew in each "+
			"slot; here the solvers, PPO "+
			"and the search are compiled programs, beside which a rollout of a network saves less. What does not depend on the "+
			"implementation: "+
			"a rollout needs nothing beyond its own 100 slots, and no search.")
	}
}

// artifactTable is what the scheduling node spends in a slot.
func (t *tables) artifactTable(x *experiment.Table) {
	name, r := t.either(ownSettings)
	parameters, decisionS := none, none
	if r != nil {
		parameters = float64(r.Parameters)
	}
	if t.costs != nil {
		decisionS = t.costs[0] / float64(world.Standard().Slots)
	}
	for _, q := range []struct{ quantity, ours, paper string }{
		{"arm", cmp.Or(name, notRun), "PrefDT (shipped)"},
		{"parameters, M", number("%.2f", parameters/1e6), "3.23"},
		{"size in half precision, MB", number("%.2f", 2*parameters/1e6), "6.5"},
		{"decision, ms (ours the mean with the world's slot, the paper's the 95th percentile)", number("%.2f",
			1e3*decisionS), "3.7"},
		{"as a share of a 1 s slot, %", number("%.3f", 100*decisionS), "0.37"},
		{"control channel over offloaded traffic", "not measured", "1.2e-3"},
	} {
		x.Add(experiment.Row{"quantity": q.quantity, "ours": q.ours, "the paper's": q.paper})
	}
}
