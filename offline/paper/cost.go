package paper

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"prefdt/offline/papertrain"
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

// timeCosts times each route to a new setting on one core, one after another in each round, and
// returns the median by costRows: NaN where there is nothing to time yet.
func (s *set) timeCosts(ctx context.Context, results map[string]*Result) ([]float64, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	scratch, err := os.MkdirTemp(s.Dir, ".times-") // an image may have no other folder to write
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)

	flight := func(name string) (func() (float64, error), error) {
		f, err := s.makeFlyer(ctx, s.findMaker(name), front)
		if err != nil {
			return nil, err
		}
		runner, err := f.runner(f.world, rollout.ReportLink{})
		seed := uint64(seeds.CalibrationFirst)
		return func() (float64, error) {
			seed++
			runner.Fly(seed, f.request(f.settings[len(f.settings)/2]))
			return 1, nil
		}, err
	}
	routes := make([]func() (times float64, err error), len(costRows))
	for _, name := range []string{s.longestArm(), declaredArm} {
		made := s.full != nil && name == s.longestArm()
		if !made {
			c, tokens := s.published(s.findMaker(name))
			if made, err = papertrain.IsTrained(c, filepath.Join(s.Dir, trainingPath(name)), tokens); err != nil {
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
		r, method := s.run(s.findMaker("ppo-plain"))
		slots := r.World.Slots
		whole := max(r.PPO.Steps/(r.PPO.Episodes*slots), 1) // updates of one policy
		r.PPO.Preferences, r.PPO.Steps = 2, timedUpdates*r.PPO.Episodes*slots
		r.Workers, r.Log = 1, io.Discard
		if r.Dir, err = os.MkdirTemp(scratch, "ppo-"); err != nil {
			return 0, err
		}
		_, err := method.New(ctx, r)
		return float64(whole) / (2 * timedUpdates), err
	}
	routes[4] = func() (float64, error) {
		c := s.search(s.findMaker(teacherArm).Rules)
		whole := float64(c.Generations)
		c.Generations = min(timedGenerated, c.Generations)
		var state search.State
		err := search.Run(ctx, c, &state, 1, func(*search.State) error { return nil })
		return whole / float64(c.Generations), err
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
			begin := time.Now()
			times, err := route()
			if err != nil {
				return nil, err
			}
			took[k] = append(took[k], times*time.Since(begin).Seconds())
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

func (s *set) findMaker(name string) *maker {
	i := slices.IndexFunc(s.makers, func(m maker) bool { return m.Name == name })
	return &s.makers[i]
}

// costTable is what one new setting costs.
func (t *tables) costTable() table {
	x := table{file: "cost", title: "What one new setting costs, by route",
		intro: "Seconds of one core, the routes one after another; ratios are to the rollout. Training and search are timed in part, and multiplied: their steps cost the same.",
		head:  []string{"route", "interaction", "core-s", "ratio", "paper's core-s", "paper's ratio", "paper's n"}}
	for k, r := range costRows {
		s, ratio := none, none
		if t.costs != nil {
			s, ratio = t.costs[k], t.costs[k]/t.costs[0]
		}
		cell := number("%.3g", s)
		if cell == "" {
			cell = "not timed"
		}
		x.add(r.name, r.interaction, cell, number("%.3g", ratio), number("%.4g", r.coreS), number("%.3g", r.coreS/costRows[0].coreS), fmt.Sprint(r.n))
	}
	if t.costs != nil {
		x.after = append(x.after, "The paper's ratios are 620 to 2,400: there a solver compiles its convex program anew in each slot; here the solvers, PPO and the search are compiled programs, beside which a rollout of a network saves less. What does not depend on the implementation: a rollout needs nothing beyond its own 100 slots, and no search.")
	}
	return x
}

// artifactTable is what the scheduling node spends in a slot.
func (t *tables) artifactTable() table {
	x := table{file: "artifact", title: "The scheduling node's cost in a slot", intro: "Of the published form, on one core of this machine; the paper's is an Apple M1.", head: []string{"quantity", "ours", "the paper's"}}
	name, r := t.either(front)
	parameters, decisionS := none, none
	if r != nil {
		parameters = float64(r.Parameters)
	}
	if t.costs != nil {
		decisionS = t.costs[0] / float64(world.Standard().Slots)
	}
	cell := func(missing, format string, x float64) string { return cmp.Or(number(format, x), missing) }
	x.add("arm", cmp.Or(name, notRun), "PrefDT (shipped)")
	x.add("parameters, M", cell(notRun, "%.2f", parameters/1e6), "3.23")
	x.add("size in half precision, MB", cell(notRun, "%.2f", 2*parameters/1e6), "6.5")
	x.add("decision, ms (ours the mean with the world's slot, the paper's the 95th percentile)", cell("not timed", "%.2f", 1e3*decisionS), "3.7")
	x.add("as a share of a 1 s slot, %", cell("not timed", "%.3f", 100*decisionS), "0.37")
	x.add("control channel over offloaded traffic", "see docs/paper.md", "1.2e-3")
	return x
}
