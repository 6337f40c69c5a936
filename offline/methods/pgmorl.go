package methods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/optimize"

	"prefdt/inference/goal"
	"prefdt/offline/command"
	"prefdt/offline/jobs"
	"prefdt/offline/nn"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/simbridge/world"
)

// PGMORL, Table "classes" of the paper, class 1: prediction-guided multi-objective
// reinforcement learning (Xu, Tian, Ma, Rus, Sueda and Matusik, ICML 2020). A population of
// policies evolves. In each generation a model of past improvements predicts, for each
// policy and each weight, where PPO would take it; the policies and weights are chosen
// whose predictions improve the front most in hypervolume and sparsity; PPO runs on these
// tasks; and what it makes joins the population, whose size buffers of performance bound.

// PGMORLSettings of a run.
type PGMORLSettings struct {
	Tasks       int         `json:"tasks" yaml:"tasks" range:"2,1000"`    // policies trained in a generation
	WarmUp      int         `json:"warm_up" yaml:"warm_up" range:"1,1e9"` // updates before the first one
	Generations int         `json:"generations" yaml:"generations" range:"0,1e6"`
	Updates     int         `json:"updates" yaml:"updates" range:"1,1e9"`    // of PPO, for each task of a generation
	Stored      int         `json:"stored" yaml:"stored" range:"1,1e9"`      // updates between two offers to the archive
	Weights     int         `json:"weights" yaml:"weights" range:"2,1001"`   // candidates for each policy, even from 0 to 1
	Sparsity    float64     `json:"sparsity" yaml:"sparsity" range:"0,1e6"`  // weight of it, beside the hypervolume in units of both scales
	Buffers     int         `json:"buffers" yaml:"buffers" range:"1,1000"`   // of performance, by direction
	Keep        int         `json:"keep" yaml:"keep" range:"1,1000"`         // policies in each
	Episodes    int         `json:"episodes" yaml:"episodes" range:"1,1000"` // training episodes that an outcome is a mean over
	PPO         PPOSettings `json:"ppo" yaml:"ppo"`                          // its preferences and steps are not used
}

var pgmorlMethod = Method{
	Name: "pgmorl", Description: "prediction-guided evolution of a population of PPO policies",
	Settings: func(c *Config) any { return c.PGMORL },
	Spending: func(c *Config) []*int { return []*int{&c.PGMORL.WarmUp, &c.PGMORL.Updates} },
	Budget: func(r *Run) Budget {
		s := &r.PGMORL
		updates := s.Tasks * (s.WarmUp + s.Generations*s.Updates)
		return Budget{Policies: s.Tasks, EnvironmentSteps: updates * s.PPO.Episodes * r.World.Slots}
	},
	New:   makePGMORL,
	Paper: &Paper{Few: true, Ours: true},
}

// Check returns what is wrong with the settings.
func (s *PGMORLSettings) Check() error { return cmp.Or(command.CheckRanges(s), s.PPO.Check()) }

// pgmorlMember is a policy of the population.
type pgmorlMember struct {
	File         string  `json:"file"`
	Omega        float64 `json:"omega"` // that it was trained at last
	pareto.Point         // its mean outcome
}

// improvement is what a task's updates changed, in units of the scales: a sample of the
// prediction model.
type improvement struct {
	From     [objectives]float64 `json:"from"` // the parent's outcome
	Omega    float64             `json:"omega"`
	Decrease [objectives]float64 `json:"decrease"` // of each cost
}

// pgmorlState is a run between two generations.
type pgmorlState struct {
	Generation int            `json:"generation"` // complete ones, the warm-up not counted
	Trained    int            `json:"trained"`    // tasks so far, which number the files
	Population []pgmorlMember `json:"population"`
	Archive    []pgmorlMember `json:"archive"` // not dominated by any so far
	History    []improvement  `json:"history"`
}

// pgmorl is a run in progress.
type pgmorl struct {
	PGMORLSettings
	run *Run
	pgmorlState
}

func (p *pgmorl) scaled(x pareto.Point) [objectives]float64 {
	return [objectives]float64{x.DelayS / p.run.Scales.DelayS, x.EnergyJ / p.run.Scales.EnergyJ}
}

// predicted is a policy's outcome if it is trained at a weight.
func (p *pgmorl) predicted(m *pgmorlMember, models *[objectives]hyperbola, omega float64) pareto.Point {
	weights := utilityWeights(omega)
	return pareto.Point{
		DelayS:  max(m.DelayS-p.run.Scales.DelayS*models[0].at(weights[0]), 0),
		EnergyJ: max(m.EnergyJ-p.run.Scales.EnergyJ*models[1].at(weights[1]), 0),
	}
}

// hyperbola is the model of an objective's improvement by its weight x, eq. (5) of Xu et
// al.: A (e^(a(x-b)) - 1) / (e^(a(x-b)) + 1) + c.
type hyperbola struct{ height, slope, shift, level float64 }

func (h *hyperbola) at(x float64) float64 {
	return h.height*math.Tanh(h.slope*(x-h.shift)/2) + h.level
}

// fitHyperbola fits the model to improvements ys at weights xs by least squares, weighed
// by ws, from several starts; height and slope are not negative, since more weight on an
// objective does not improve it less.
func fitHyperbola(xs, ys, ws []float64) hyperbola {
	low, high := slices.Min(ys), slices.Max(ys)
	read := func(p []float64) hyperbola {
		return hyperbola{math.Abs(p[0]), min(math.Abs(p[1]), 20), min(max(p[2], -1), 2), p[3]}
	}
	loss := func(p []float64) float64 {
		h, sum := read(p), 1e-4*(p[0]*p[0]+p[1]*p[1]*1e-2)
		for i, x := range xs {
			e := h.at(x) - ys[i]
			sum += ws[i] * e * e
		}
		return sum
	}
	best, least := hyperbola{level: (low + high) / 2}, math.Inf(1)
	for _, slope := range []float64{1, 8} {
		result, err := optimize.Minimize(optimize.Problem{Func: loss}, []float64{(high - low) / 2, slope, 0.5, (low + high) / 2},
			&optimize.Settings{MajorIterations: 400}, &optimize.NelderMead{})
		if result != nil && (err == nil || result.F < math.Inf(1)) && result.F < least {
			best, least = read(result.X), result.F
		}
	}
	return best
}

// leastSamples of a member's model; its neighbourhood grows until it has as many.
const leastSamples = 8

// models fits a member's prediction models, one for each objective, to the improvements of
// parents near it in outcomes.
func (p *pgmorl) models(m *pgmorlMember) (models [objectives]hyperbola) {
	at := p.scaled(m.Point)
	distance := func(h *improvement) float64 { return math.Hypot(h.From[0]-at[0], h.From[1]-at[1]) }
	near := slices.Clone(p.History)
	slices.SortStableFunc(near, func(a, b improvement) int { return cmp.Compare(distance(&a), distance(&b)) })
	const radius = 0.1 // in units of the scales
	n := 0
	for n < len(near) && (n < leastSamples || distance(&near[n]) < radius) {
		n++
	}
	for j := range models {
		var xs, ys, ws []float64
		for i := range near[:n] {
			h := &near[i]
			xs, ys = append(xs, utilityWeights(h.Omega)[j]), append(ys, h.Decrease[j])
			ws = append(ws, math.Exp(-distance(h)*distance(h)/(2*radius*radius))+1e-3)
		}
		models[j] = fitHyperbola(xs, ys, ws)
	}
	return models
}

// references returns the points that the hypervolume and the buffers are from, fixed ones as the
// authors' is: with the worst of the population in their place, a policy for which energy has no
// weight would set the direction and the distance of all others. Directions are from one near the
// front, a fifth beyond the tight reference: from the far one of the hypervolume the whole front
// lies within seven degrees, in three of twenty buffers.
func (p *pgmorl) references() (hypervolume, buffers pareto.Point) {
	wide, tight := pareto.References(&p.run.World, pareto.NonDominated(memberPoints(p.Archive)))
	return wide, pareto.Point{DelayS: 1.2 * tight.DelayS, EnergyJ: 1.2 * tight.EnergyJ}
}

// quality of a front within the reference point: hypervolume less weighed sparsity (eq. (3) of Xu
// et al.), both in units of the scales.
func (p *pgmorl) quality(points []pareto.Point, reference pareto.Point) float64 {
	front := slices.DeleteFunc(pareto.NonDominated(points), func(x pareto.Point) bool { return beyond(x, reference) })
	area := pareto.Hypervolume(front, reference) / (p.run.Scales.DelayS * p.run.Scales.EnergyJ)
	if len(front) < 2 {
		return area
	}
	sparsity := 0.0
	for i := 1; i < len(front); i++ {
		a, b := p.scaled(front[i-1]), p.scaled(front[i])
		sparsity += (a[0]-b[0])*(a[0]-b[0]) + (a[1]-b[1])*(a[1]-b[1])
	}
	return area - p.Sparsity*sparsity/float64(len(front)-1)
}

// pgmorlTask is a policy and the weight it is trained at.
type pgmorlTask struct {
	parent pgmorlMember // the zero value: none, it starts anew
	omega  float64
}

// selectTasks chooses, one after the other, the tasks whose predictions improve the
// archive's front most. No policy is trained at a weight twice, unless too few others are left.
func (p *pgmorl) selectTasks() (tasks []pgmorlTask) {
	type candidate struct {
		pgmorlTask
		point pareto.Point
	}
	var candidates, again []candidate
	for i := range p.Population {
		m := &p.Population[i]
		models := p.models(m)
		for _, omega := range rollout.Linspace(0, 1, p.Weights) {
			x := candidate{pgmorlTask{*m, omega}, p.predicted(m, &models, omega)}
			if p.trained(m, omega) {
				again = append(again, x)
			} else {
				candidates = append(candidates, x)
			}
		}
	}
	if len(candidates) < p.Tasks {
		candidates = append(candidates, again...)
	}
	front := memberPoints(p.Archive)
	reference, _ := p.references()
	for len(tasks) < p.Tasks && len(candidates) > 0 {
		best, most := 0, math.Inf(-1)
		for i := range candidates {
			if q := p.quality(append(slices.Clip(front), candidates[i].point), reference); q > most {
				best, most = i, q
			}
		}
		front = append(front, candidates[best].point)
		tasks = append(tasks, candidates[best].pgmorlTask)
		candidates = slices.Delete(candidates, best, best+1)
	}
	return tasks
}

// trained tells whether a policy has been trained at a weight already.
func (p *pgmorl) trained(m *pgmorlMember, omega float64) bool {
	return slices.ContainsFunc(p.History, func(h improvement) bool { return h.From == p.scaled(m.Point) && h.Omega == omega })
}

func memberPoints(members []pgmorlMember) (points []pareto.Point) {
	for _, m := range members {
		points = append(points, m.Point)
	}
	return points
}

func beyond(x, reference pareto.Point) bool {
	return x.DelayS > reference.DelayS || x.EnergyJ > reference.EnergyJ
}

// bound keeps, of a population, the best in each direction from the reference point: the farthest
// from it. Who is beyond it is kept only where all are.
func (p *pgmorl) bound(population []pgmorlMember) (kept []pgmorlMember) {
	_, at := p.references()
	within := slices.DeleteFunc(slices.Clone(population), func(m pgmorlMember) bool { return beyond(m.Point, at) })
	if len(within) == 0 {
		return population[:min(p.Buffers*p.Keep, len(population))]
	}
	population = within
	reference := p.scaled(at)
	buffers := make([][]pgmorlMember, p.Buffers)
	distance := func(m *pgmorlMember) float64 {
		x := p.scaled(m.Point)
		return math.Hypot(reference[0]-x[0], reference[1]-x[1])
	}
	for _, m := range population {
		x := p.scaled(m.Point)
		angle := math.Atan2(reference[1]-x[1], reference[0]-x[0]) / (math.Pi / 2)
		k := min(int(angle*float64(p.Buffers)), p.Buffers-1)
		buffers[k] = append(buffers[k], m)
	}
	for _, b := range buffers {
		slices.SortStableFunc(b, func(m, n pgmorlMember) int { return cmp.Compare(distance(&n), distance(&m)) })
		kept = append(kept, b[:min(p.Keep, len(b))]...)
	}
	return kept
}

// train runs PPO for so many updates on each task, and returns the policies that result, and those
// that it went through.
func (p *pgmorl) train(ctx context.Context, tasks []pgmorlTask, updates int, progress func(done int)) (children, between []pgmorlMember,
	err error) {
	children = make([]pgmorlMember, len(tasks))
	through := make([][]pgmorlMember, len(tasks))
	err = jobs.Do(ctx, len(tasks), p.run.Workers, jobs.Stateless, func(_ struct{}, i int) error {
		number := p.Trained + i
		run, err := p.policy()
		if err != nil {
			return err
		}
		if parent := tasks[i].parent.File; parent == "" {
			run.trainer.Params.Init(p.PPO.Seed + uint64(i))
		} else if err := run.trainer.Load(filepath.Join(p.run.Dir, parent)); err != nil {
			return err
		}
		run.seed = p.PPO.Seed + 1000*uint64(number+1) // its own episodes and draws
		omega := tasks[i].omega
		keep := func(file string) (pgmorlMember, error) {
			return pgmorlMember{File: file, Omega: omega, Point: p.outcome(run)}, run.trainer.Save(filepath.Join(p.run.Dir, file))
		}
		for k := range updates {
			if err := ctx.Err(); err != nil {
				return err
			}
			if k > 0 && k%p.Stored == 0 {
				m, err := keep(fmt.Sprintf("policy%05d-%d.bin", number, k))
				if err != nil {
					return err
				}
				through[i] = append(through[i], m)
			}
			run.collect()
			if err := run.learn(utilityWeights(omega)); err != nil {
				return err
			}
		}
		children[i], err = keep(fmt.Sprintf("policy%05d.bin", number))
		return err
	}, func(done int) { progress(p.Trained + done) })
	return children, slices.Concat(through...), err
}

// policy returns a policy to train, at a constant learning rate: how long its line will
// be is not known.
func (p *pgmorl) policy() (*ppo, error) {
	s := p.PPO
	s.Steps = math.MaxInt32
	run, err := newPPO(s, p.run.World, p.run.Scales, p.PPO.Seed)
	if err == nil {
		run.trainer.Config.Schedule.FinalFraction = 1
	}
	return run, err
}

// outcome flies a policy on the first training episodes.
func (p *pgmorl) outcome(run *ppo) pareto.Point {
	a := newActorFlight(run.trainer.Params, &p.run.World.Physics, p.PPO.Plain, p.PPO.Pooled)
	f := simulator{world: &world.World{Config: p.run.World}}
	return f.mean(a.decide, run.seeds[:min(p.Episodes, len(run.seeds))])
}

// accept adds a generation's policies to population, archive and history; those that its tasks went
// through are for the archive alone.
func (p *pgmorl) accept(tasks []pgmorlTask, children, between []pgmorlMember) {
	for i, c := range children {
		if m := tasks[i].parent; m.File != "" {
			from, to := p.scaled(m.Point), p.scaled(c.Point)
			p.History = append(p.History, improvement{from, tasks[i].omega, [objectives]float64{from[0] - to[0], from[1] - to[1]}})
		}
	}
	p.Trained += len(children)
	all := slices.Concat(p.Archive, children, between)
	points := memberPoints(all)
	p.Archive = nil
	for _, x := range pareto.NonDominated(points) {
		p.Archive = append(p.Archive, all[slices.Index(points, x)])
	}
	p.Population = p.bound(append(p.Population, children...)) // by the archive's reference point
}

// evolve takes a run from its state to its end. save is called after the warm-up and each generation.
func (p *pgmorl) evolve(ctx context.Context, save func() error, progress func(done int)) error {
	improve := func(tasks []pgmorlTask, updates, generation int) error {
		children, between, err := p.train(ctx, tasks, updates, progress)
		if err != nil {
			return err
		}
		p.accept(tasks, children, between)
		p.Generation = generation
		return save()
	}
	if p.Trained == 0 {
		var tasks []pgmorlTask
		for _, omega := range rollout.Linspace(0, 1, p.Tasks) {
			tasks = append(tasks, pgmorlTask{omega: omega})
		}
		// The last updates of the warm-up are the history's first samples.
		last := min(p.Updates, p.WarmUp/2)
		parents, _, err := p.train(ctx, tasks, p.WarmUp-last, progress)
		if err != nil {
			return err
		}
		for i := range tasks {
			tasks[i].parent = parents[i]
		}
		p.Trained = len(parents)
		if err := improve(tasks, last, 0); err != nil {
			return err
		}
	}
	for p.Generation < p.Generations {
		if err := improve(p.selectTasks(), p.Updates, p.Generation+1); err != nil {
			return err
		}
	}
	return nil
}

// removeUnused removes the files of policies that no one refers to any more.
func (p *pgmorl) removeUnused() {
	used := map[string]bool{}
	for _, m := range slices.Concat(p.Population, p.Archive) {
		used[m.File] = true
	}
	files, _ := filepath.Glob(filepath.Join(p.run.Dir, "policy*.bin"))
	for _, f := range files {
		if !used[filepath.Base(f)] {
			os.Remove(f)
		}
	}
}

// makePGMORL evolves a population, and flies, of its archive, the policy of the best utility
// under a preference.
func makePGMORL(ctx context.Context, r *Run) (NewPolicy, error) {
	p := &pgmorl{PGMORLSettings: r.PGMORL, run: r}
	path := filepath.Join(r.Dir, "state.json")
	err := command.ReadJSON(path, &p.pgmorlState)
	if err == nil && (p.Trained < p.Tasks || len(p.Archive) == 0 || len(p.Population) == 0) {
		err = fmt.Errorf("it is damaged (%d tasks, %d policies, %d in the archive): remove its folder, and it begins anew", p.Trained,
			len(p.Population), len(p.Archive))
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("state %s: %w", path, err)
	}
	save := func() error {
		if err := command.ReplaceJSON(path, "", &p.pgmorlState); err != nil {
			return err
		}
		p.removeUnused()
		return nil
	}
	if err := p.evolve(ctx, save, command.Progress(r.Log, "tasks of PGMORL", p.Tasks*(p.Generations+2))); err != nil {
		return nil, err
	}
	var params []*nn.Params[float32]
	for _, m := range p.Archive {
		run, err := p.policy()
		if err == nil {
			err = run.trainer.Load(filepath.Join(r.Dir, m.File))
		}
		if err != nil {
			return nil, err
		}
		params = append(params, run.trainer.Params)
	}
	best := func(g goal.Objective) (member int) { // the utility is linear
		least := math.Inf(1)
		for i := range p.Archive {
			x := p.scaled(p.Archive[i].Point)
			if u := (1-g.Omega())*x[0] + g.Omega()*x[1]; u < least {
				member, least = i, u
			}
		}
		return member
	}
	return newMembers(&r.World.Physics, r.PGMORL.PPO, params, best), nil
}
