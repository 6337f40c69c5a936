package methods

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"prefdt/offline/offlinetest"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/simbridge/world"
)

// The model finds the function that its samples are of.
func TestFitHyperbola(t *testing.T) {
	want := hyperbola{height: 0.4, slope: 6, shift: 0.3, level: 0.1}
	var xs, ys, ws []float64
	for _, x := range rollout.Linspace(0, 1, 15) {
		xs, ys, ws = append(xs, x), append(ys, want.at(x)), append(ws, 1)
	}
	got := fitHyperbola(xs, ys, ws)
	for _, x := range rollout.Linspace(0, 1, 7) {
		if math.Abs(got.at(x)-want.at(x)) > 0.02 {
			t.Errorf("at %v: %v, want %v (%+v)", x, got.at(x), want.at(x), got)
		}
	}
	if got := fitHyperbola([]float64{0.5}, []float64{0.2}, []float64{1}); math.Abs(got.at(0.5)-0.2) > 0.02 {
		t.Errorf("of one sample: %v", got.at(0.5))
	}
}

func toyPGMORL(t *testing.T) *pgmorl {
	r := toyRun(t, 1)
	r.Scales = Scales{DelayS: 10, EnergyJ: 10}
	return &pgmorl{PGMORLSettings: PGMORLSettings{Tasks: 2, Weights: 3, Sparsity: 0.5, Buffers: 2, Keep: 1}, run: r}
}

// By hand, in units of 10 s and 10 J below the reference (40, 40): points (10, 30) and
// (30, 10) dominate 3 x 1 + 1 x 3 - 1 x 1 = 5; their gap is 2 in both, its square 8.
func TestQuality(t *testing.T) {
	p := toyPGMORL(t)
	if got := p.quality([]pareto.Point{{DelayS: 10, EnergyJ: 30}, {DelayS: 30, EnergyJ: 10}, {DelayS: 35, EnergyJ: 35}},
		pareto.Point{DelayS: 40, EnergyJ: 40}); math.Abs(got-(5-0.5*8)) > 1e-12 {
		t.Errorf("quality %v, want 1", got)
	}
}

// In each direction from the reference point, a fifth beyond the front, the farthest is kept; who is beyond
// that point neither counts nor moves it.
func TestBoundPopulation(t *testing.T) {
	p := toyPGMORL(t)
	p.Archive = []pgmorlMember{{Point: pareto.Point{DelayS: 20, EnergyJ: 90}}, {Point: pareto.Point{DelayS: 90, EnergyJ: 20}}}
	population := []pgmorlMember{
		{File: "slow", Point: pareto.Point{DelayS: 90, EnergyJ: 20}}, {File: "slower", Point: pareto.Point{DelayS: 95, EnergyJ: 22}},
		{File: "fast", Point: pareto.Point{DelayS: 20, EnergyJ: 90}}, {File: "worst", Point: pareto.Point{DelayS: 100, EnergyJ: 100}},
		{File: "beyond", Point: pareto.Point{DelayS: 15, EnergyJ: 1000}},
	}
	var names []string
	for _, m := range p.bound(population) {
		names = append(names, m.File)
	}
	if !reflect.DeepEqual(names, []string{"fast", "slow"}) {
		t.Errorf("kept %v", names)
	}

	// Fronts as the paper's world has them, of 100 to 700 s and 27 to 40 kJ, lie in most directions.
	p.run.World = world.Standard()
	p.run.Scales, p.Buffers = Default().Scales, 20
	population = nil
	for _, x := range rollout.Linspace(0, 1, 60) {
		population = append(population, pgmorlMember{Point: pareto.Point{DelayS: 100 + 600*x*x, EnergyJ: 40e3 - 13e3*math.Sqrt(x)}})
	}
	if kept := p.bound(population); len(kept) < 12 {
		t.Errorf("%d of a front are kept, in %d directions", len(kept), p.Buffers)
	}
}

// With a history in which the weight of an objective is what it improves by, the policies at the ends are
// trained towards where the front is open, and no task is chosen twice.
func TestSelectTasks(t *testing.T) {
	p := toyPGMORL(t)
	p.Sparsity = 0
	p.Population = []pgmorlMember{{File: "a", Point: pareto.Point{DelayS: 50, EnergyJ: 100}},
		{File: "b", Point: pareto.Point{DelayS: 100, EnergyJ: 50}}}
	p.Archive = p.Population
	for _, m := range p.Population {
		for _, omega := range rollout.Linspace(0, 1, 9) {
			p.History = append(p.History, improvement{p.scaled(pareto.Point{DelayS: m.DelayS + 0.01, EnergyJ: m.EnergyJ}), omega,
				[objectives]float64{2 * (1 - omega), 2 * omega}})
		}
	}
	models := p.models(&p.Population[0])
	for _, x := range []float64{0, 0.5, 1} {
		if got := models[0].at(x); math.Abs(got-2*x) > 0.2 {
			t.Errorf("improvement %v at weight %v, want %v", got, x, 2*x)
		}
	}
	tasks := p.selectTasks()
	if len(tasks) != 2 || tasks[0] == tasks[1] {
		t.Fatalf("tasks %+v", tasks)
	}
	for _, task := range tasks {
		// a (50 s, 100 J) gains more area below 110 J by 10 J, over 60 s, than by 10 s; b the reverse.
		if want := map[string]float64{"a": 1, "b": 0}[task.parent.File]; task.omega != want && task.omega != 0.5 {
			t.Errorf("%s is trained at %v, want %v", task.parent.File, task.omega, want)
		}
	}
	done := tasks[0]
	p.History = append(p.History, improvement{From: p.scaled(done.parent.Point), Omega: done.omega})
	if slices.Contains(p.selectTasks(), done) {
		t.Errorf("%s is trained at %v again", done.parent.File, done.omega)
	}
	for i := range p.Population {
		for _, omega := range rollout.Linspace(0, 1, p.Weights) {
			p.History = append(p.History, improvement{From: p.scaled(p.Population[i].Point), Omega: omega})
		}
	}
	if tasks := p.selectTasks(); len(tasks) != p.Tasks {
		t.Errorf("%d tasks where all have been trained once, want %d", len(tasks), p.Tasks)
	}
	p.Archive = append(p.Archive, pgmorlMember{Point: pareto.Point{DelayS: 1, EnergyJ: 1e6}})
	if got := p.quality(memberPoints(p.Archive), pareto.Point{DelayS: 110, EnergyJ: 110}); got != p.quality(memberPoints(p.Archive[:2]),
		pareto.Point{DelayS: 110, EnergyJ: 110}) {
		t.Errorf("a point beyond the reference changes the quality to %v", got)
	}
}

// The population's front grows, and an interrupted run ends as an uninterrupted one.
func TestPGMORLLearns(t *testing.T) {
	var states []pgmorlState
	for _, interrupted := range []bool{false, true} {
		r := toyRun(t, 1)
		r.PGMORL.Tasks, r.PGMORL.WarmUp, r.PGMORL.Generations, r.PGMORL.Updates, r.PGMORL.Weights, r.PGMORL.Episodes = 3, 10, 2, 10, 5, 3
		r.PGMORL.Stored = 4
		newRun := func() *pgmorl {
			return &pgmorl{PGMORLSettings: r.PGMORL, run: r}
		}
		p := newRun()
		var first []pareto.Point
		for {
			ctx, cancel := context.WithCancel(context.Background())
			err := p.evolve(ctx, func() error {
				if p.Generation == 0 {
					first = memberPoints(p.Archive)
				}
				if interrupted {
					cancel()
				}
				return nil
			}, func(int) {})
			cancel()
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			state := p.pgmorlState
			p = newRun()
			p.pgmorlState = state
		}
		states = append(states, p.pgmorlState)
		reference := pareto.Point{DelayS: 120, EnergyJ: 16e3}
		before, after := pareto.Hypervolume(first, reference), pareto.Hypervolume(memberPoints(p.Archive), reference)
		t.Logf("hypervolume %.0f after the warm-up, %.0f at the end, %d policies", before, after, len(p.Archive))
		if want := r.PGMORL.Tasks * (r.PGMORL.Generations + 2); p.Trained != want {
			t.Errorf("%d tasks were trained, want %d", p.Trained, want)
		}
		if !slices.ContainsFunc(p.Archive, func(m pgmorlMember) bool { return strings.Contains(m.File, "-") }) {
			t.Error("the archive has none of the policies within a task")
		}
		if after < 1.02*before {
			t.Errorf("hypervolume %v after the warm-up, %v at the end", before, after)
		}
	}
	if !reflect.DeepEqual(states[0], states[1]) {
		t.Error("the interrupted run ends otherwise")
	}
}

// A preference is answered by the policy of the best utility.
func TestPGMORLFlies(t *testing.T) {
	r := toyRun(t, 1)
	r.PGMORL.WarmUp, r.PGMORL.Updates, r.PGMORL.Episodes = 40, 5, 3
	newPolicy := offlinetest.Must(makePGMORL(t.Context(), r))(t)
	fast, frugal := flyToy(t, r, newPolicy, preferenceFor(0)), flyToy(t, r, newPolicy, preferenceFor(1))
	if fast.DelayS >= frugal.DelayS || fast.EnergyJ <= frugal.EnergyJ {
		t.Errorf("fast %+v, frugal %+v", fast, frugal)
	}
}
