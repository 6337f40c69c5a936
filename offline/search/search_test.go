package search

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"prefdt/offline/command"
	"prefdt/offline/offlinetest"
	"prefdt/offline/pareto"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// smallConfig is a search of well under a second: 12 members, 9 generations, 30 slots.
func smallConfig() Config {
	c := Default()
	c.Population, c.Generations, c.Seeds, c.Seed, c.World.Slots = 12, 9, "5:7", 3, 30
	return c
}

// statesOf runs a search and returns its state after every generation.
func statesOf(t *testing.T, c Config, workers int) []State {
	t.Helper()
	var states []State
	var state State
	offlinetest.NoError(t, Run(t.Context(), c, &state, workers, func(s *State) error { states = append(states, *s); return nil }))
	return states
}

// A search that ends after any generation, goes through its file and is
// resumed with more has the same state after every later generation, bit for bit, and
// the number of workers changes nothing. Another seed is another search.
func TestResumeEqualsUninterrupted(t *testing.T) {
	c := smallConfig()
	want := statesOf(t, c, 1)
	if len(want) != c.Generations {
		t.Fatalf("%d generations, want %d", len(want), c.Generations)
	}
	other := c
	other.Seed, other.Generations = c.Seed+1, 1
	if x := statesOf(t, other, 2)[0]; reflect.DeepEqual(x.Population, want[0].Population) || x.ConfigHash == want[0].ConfigHash {
		t.Error("another seed is the same search")
	}
	for stop := 1; stop < c.Generations; stop++ {
		path, short := filepath.Join(t.TempDir(), "state.json"), c
		short.Generations = stop
		offlinetest.NoError(t, command.ReplaceJSON(path, " ", statesOf(t, short, 3)[stop-1]))
		resumed, err := ReadState(path, c)
		if err != nil || !reflect.DeepEqual(resumed, want[stop-1]) {
			t.Fatalf("the state read after generation %d differs, %v", stop, err)
		}
		at := stop
		err = Run(t.Context(), c, &resumed, 2, func(s *State) error {
			if !reflect.DeepEqual(*s, want[at]) {
				t.Errorf("stopped at %d: generation %d differs", stop, s.Generation)
			}
			at++
			return nil
		})
		if err != nil || at != len(want) {
			t.Fatalf("resumed at %d: %v, at generation %d", stop, err, at)
		}
	}
}

// NSGA-II keeps its best: on the training seeds neither the corner nor the
// least energy ever gets worse, and the front grows.
func TestElitism(t *testing.T) {
	states := statesOf(t, smallConfig(), 2)
	best := func(s State) (corner, energy float64) {
		f := pareto.NonDominated(memberPoints(s.Population))
		return f[0].DelayS, f[len(f)-1].EnergyJ
	}
	for i := 1; i < len(states); i++ {
		c0, e0 := best(states[i-1])
		if c1, e1 := best(states[i]); c1 > c0 || e1 > e0 {
			t.Errorf("generation %d lost an end: %v s, %v J after %v s, %v J", i+1, c1, e1, c0, e0)
		}
	}
	reference := pareto.Point{DelayS: 300, EnergyJ: 42e3} // 30 of 100 slots
	first, last := pareto.Hypervolume(memberPoints(states[0].Population), reference),
		pareto.Hypervolume(memberPoints(states[8].Population), reference)
	if last < 1.02*first {
		t.Errorf("hypervolume %v after the last generation, %v after the first", last, first)
	}
}

func TestAnotherFleet(t *testing.T) {
	c := smallConfig()
	c.World.Aircraft, c.World.AircraftLosses = 3, []world.AircraftLoss{{Aircraft: 1, Slot: 10}}
	states := statesOf(t, c, 2)
	if a := states[8].Archive(c); len(a.Members) < 3 || len(a.Members[0].Genes) != 13 {
		t.Errorf("three aircraft, one lost: %d members of %d genes", len(a.Members), len(a.Members[0].Genes))
	}
}

// The world's check: the paper's search, and its archive on the 100 evaluation
// seeds, within bands around the paper's figures.
func TestPaperTeacher(t *testing.T) {
	if testing.Short() {
		t.Skip("flies 11,000 episodes")
	}
	c := Default()
	states := statesOf(t, c, 2)
	e := offlinetest.Must(Evaluate(t.Context(), states[len(states)-1].Archive(c), seeds.List(1000000, 30), 2, nil))(t)
	for _, x := range []struct {
		name           string
		got, low, high float64
	}{
		{"hypervolume", e.Hypervolume.Mean, 98.5e6, 100.8e6},
		{"corner", e.CornerS.Mean, 94, 104},
		{"reach", e.ReachS.Mean, 605, 625},
	} {
		if !(x.got >= x.low && x.got <= x.high) {
			t.Errorf("%s %v, want %v to %v", x.name, x.got, x.low, x.high)
		}
	}
	if e.Hypervolume.N != 30 || e.HypervolumeTight.Mean <= 0 || !(e.IGD.Mean > 0 && e.IGD.Mean < 0.1) {
		t.Errorf("evaluation %+v", e)
	}
}

// A search that is made once and interrupted has the archive of one that was not, and is not
// made again.
func TestEnsure(t *testing.T) {
	c := smallConfig()
	dir := t.TempDir()
	whole := offlinetest.Must(Ensure(t.Context(), filepath.Join(dir, "whole.json"), c, 2, nil))(t)
	path := filepath.Join(dir, "parts.json")
	ctx, stop := context.WithCancel(t.Context())
	if _, err := Ensure(ctx, path, c, 2, func(generations int) {
		if generations == 2 {
			stop()
		}
	}); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	first := 0
	parts, err := Ensure(t.Context(), path, c, 2, func(generations int) { first = cmp.Or(first, generations) })
	if err != nil || first != 3 || !reflect.DeepEqual(parts, whole) {
		t.Errorf("it went on with generation %d, %v: %+v, want %+v", first, err, parts, whole)
	}
	other := c
	other.Generations++
	if _, err := Ensure(t.Context(), path, other, 2, nil); err == nil || !strings.Contains(err.Error(), "another configuration") {
		t.Errorf("another search's archive is accepted: %v", err)
	}
	if _, err := Ensure(t.Context(), path, c, 2, func(int) { t.Error("it searched again") }); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("files stay: %v", left)
	}
}
