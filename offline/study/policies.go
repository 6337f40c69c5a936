package study

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"reflect"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/baseline"
	"prefdt/offline/corpus"
	"prefdt/offline/experiment"
	"prefdt/offline/prefdttrain"
	"prefdt/offline/rollout"
	"prefdt/offline/search"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// policy makes an arm's policy ready to fly, and trains it first if it has to be. wrap, if not nil, goes around
// each that is made.
func (s *study) policy(ctx context.Context, a *row, wrap func(rollout.Policy) rollout.Policy) (*experiment.Policy, error) {
	ready := &experiment.Policy{World: s.world, Constants: &s.flagship.GoalConstants, Band: [2]float64{0, 1},
		Request: experiment.Preference}
	if a.Kind == kindFlagship || a.Kind == kindPacer { // a pacer has the flagship's archived spending
		ready.Files = []string{filepath.Join(s.Checkpoint, checkpoint.ManifestFile)}
	}
	newPolicy, err := s.newPolicy(ctx, a, ready)
	if err != nil {
		return nil, err
	}
	if a.Unconditioned {
		ready.Settings = []float64{0.5}
	}
	ready.Runner = func(c world.Config, l rollout.ReportLink) (*rollout.Runner, error) {
		p, err := newPolicy()
		if err != nil {
			return nil, err
		}
		if wrap != nil {
			p = wrap(p)
		}
		return rollout.NewWithPolicy(p, ready.Constants, c, l)
	}
	return ready, nil
}

// newPolicy returns what makes an arm's policies, and fills in what requests they take.
func (s *study) newPolicy(ctx context.Context, a *row, ready *experiment.Policy) (func() (rollout.Policy, error), error) {
	switch a.Kind {
	case kindFlagship:
		if !reflect.DeepEqual(s.flagship.Physics, s.world.Physics) {
			return nil, fmt.Errorf("%s was trained for other constants of physics than the study's world has", s.Checkpoint)
		}
		ready.Settings = rollout.CalibratedOmegas(&s.flagship.GoalConstants.SettingMap, s.Settings)
		return checkpointPolicy(s.flagship, a, ready), nil
	case kindTrained:
		t, err := s.trainRun(ctx, a.TrainingRun)
		if err != nil {
			return nil, err
		}
		ck, err := t.manifest.UncalibratedCheckpoint(t.arch, t.params, t.standard)
		if err != nil {
			return nil, err
		}
		return checkpointPolicy(ck, a, ready), nil
	case kindPaper:
		c, tokens := s.published(a.TrainingRun)
		ck, err := prefdttrain.Trained(ctx, c, filepath.Join(s.Dir, trainingPath(a.TrainingRun)), tokens, s.Log)
		if err != nil {
			return nil, err
		}
		newPolicy := checkpointPolicy(ck, a, ready)
		ready.Parameters = c.Form.Parameters()
		return newPolicy, nil
	case kindRules, kindDispatch:
		return s.archivePolicy(ctx, a, ready)
	case kindPacer:
		curve := inference.EdgeCurve(s.flagship)
		return func() (rollout.Policy, error) { return baseline.NewPacer(a.Scheduler, &s.world.Physics, curve) }, nil
	case kindRandom:
		ready.Settings = rollout.Linspace(0, 1, s.Settings)
		return func() (rollout.Policy, error) { return baseline.NewRandom(&s.world.Physics), nil }, nil
	}
	return nil, fmt.Errorf("arm of kind %q", a.Kind)
}

// checkpointPolicy is a checkpoint under an arm's decoder.
func checkpointPolicy(ck *checkpoint.Checkpoint, a *row, ready *experiment.Policy) func() (rollout.Policy, error) {
	ready.Constants, ready.Band, ready.Parameters = &ck.GoalConstants, ck.OmegaBand, ck.Arch.Parameters()
	return func() (rollout.Policy, error) {
		p, err := inference.New(ck, a.Decoder)
		if err != nil || !a.PreferenceWithBudget {
			return p, err
		}
		return &preferenceWithBudget{policy: p, scales: &ck.GoalConstants}, nil
	}
}

// preferenceWithBudget conditions on a budget together with the delay entry and omega of
// the setting that spends as much: what the paper does, Algorithm 1. A revision
// overwrites the energy entry alone.
type preferenceWithBudget struct {
	policy rollout.Policy
	scales *goal.Constants
	omega  float64
	delayS float64
}

func (b *preferenceWithBudget) Reset() { b.policy.Reset() }

func (b *preferenceWithBudget) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Observation {
	if g.Budgeted() {
		if g.Slot() == 0 {
			b.omega = b.scales.Conditioner.OmegaOfEnergy(g.BudgetJ(), 0, 1)
			b.delayS, _ = b.scales.Conditioner.MissionReturn(b.omega)
		}
		state := g.State()
		state.Mode, state.Omega, state.DelayToGoS = goal.Preference, b.omega, b.delayS-g.DelayS()
		g.Restore(state)
	}
	return b.policy.Decide(s, g, d)
}

func (s *study) archivePolicy(ctx context.Context, a *row, ready *experiment.Policy) (func() (rollout.Policy, error), error) {
	if a.Kind == kindRules {
		c := search.Default()
		c.Population, c.Generations = a.Population, 2000/a.Population // the paper's budget of evaluations
		rules, err := experiment.Rules(ctx, filepath.Join(s.Dir, ruleArchivePath(a.Population)), c, s.Set)
		if err != nil {
			return nil, err
		}
		ready.Settings = rules.Omegas
		return func() (rollout.Policy, error) { return rules.New(&s.world, false) }, nil
	}
	full, err := s.teacherArchive(ctx)
	if err != nil {
		return nil, err
	}
	var c corpus.Archive
	curve := full.PriceCurve()
	for _, price := range teacher.Prices(cmp.Or(a.Prices, s.Prices)) {
		i, f := goal.HatBasis(curve.FrontPositions, curve.FrontPosition(price))
		p, q := full.Points[i], full.Points[i+1]
		p.DelayS += f * (q.DelayS - p.DelayS)
		p.EnergyJ += f * (q.EnergyJ - p.EnergyJ)
		c.Append(p, price, nil)
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	members := experiment.NewMembers(&c)
	ready.Settings = members.Omegas
	return func() (rollout.Policy, error) {
		p := experiment.Dispatch(&s.world.Physics, c.Prices)
		p.Omegas, p.EnergiesJ = members.Omegas, members.EnergiesJ
		if a.CentroidMotion {
			best, _ := s.world.Physics.MinPower()
			scheduler := &centroidScheduler{physics: &s.world.Physics, speedMPS: best}
			p.OnReset = scheduler.reset
			p.DecideAs = func(member int, snap *slot.Snapshot, d *slot.Decision) { scheduler.decide(snap, c.Prices[member], d) }
		}
		return p, nil
	}, nil
}

// centroidScheduler is the dispatch teacher with the paper's motion: each aircraft flies
// towards the centroid of the users it is nearest to.
type centroidScheduler struct {
	physics       *physics.Constants
	speedMPS      float64
	solver        dispatch.Solver
	lastPositions map[int]physics.Position
	userIDs       []int // in the order they first reported
}

func (c *centroidScheduler) reset() { c.lastPositions, c.userIDs = map[int]physics.Position{}, nil }

func (c *centroidScheduler) decide(s *slot.Snapshot, price float64, d *slot.Decision) {
	d.Resize(s)
	c.solver.Solve(c.physics, s, price, d)
	for i := range s.Users {
		u := &s.Users[i]
		if _, old := c.lastPositions[u.ID]; !old {
			c.userIDs = append(c.userIDs, u.ID)
		}
		c.lastPositions[u.ID] = u.Position
	}
	sums, counts := make([]physics.Position, len(s.Aircraft)), make([]float64, len(s.Aircraft))
	for _, id := range c.userIDs {
		nearest := 0
		for m := range s.Aircraft {
			if c.lastPositions[id].Sub(s.Aircraft[m].Position).Norm() < c.lastPositions[id].Sub(s.Aircraft[nearest].Position).Norm() {
				nearest = m
			}
		}
		sums[nearest] = sums[nearest].Add(c.lastPositions[id])
		counts[nearest]++
	}
	for m := range s.Aircraft {
		target := s.Aircraft[m].Position
		if counts[m] > 0 {
			target = sums[m].Scale(1 / counts[m])
		}
		d.Move[m] = motion.MoveToward(s.Aircraft[m].Position, target, c.speedMPS, c.speedMPS)
	}
}
