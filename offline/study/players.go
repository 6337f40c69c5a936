package study

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/inference/tracking"
	"prefdt/offline/corpus"
	"prefdt/offline/rollout"
	"prefdt/offline/search"
	"prefdt/offline/study/paperform"
	"prefdt/offline/teacher"
)

// player is an arm ready to fly.
type player struct {
	policy     func() (rollout.Policy, error)
	scales     *goal.Scales
	band       [2]float64
	parameters int
	// members are the shares of an archive's members; it knows no others.
	members []float64
	// calibrated tells that the remap in scales is already this arm's.
	calibrated bool
}

// player makes an arm fly, training it first if need be.
func (s *study) player(ctx context.Context, a *Arm) (*player, error) {
	switch a.Kind {
	case kindFlagship:
		if !reflect.DeepEqual(s.flagship.Physics, s.world.Physics) {
			return nil, fmt.Errorf("%s was trained for other constants of physics than the study's world has", s.Checkpoint)
		}
		p := ours(s.flagship, a)
		p.calibrated = true
		return p, nil
	case kindTrained:
		t, err := s.train(ctx, a.Run, false)
		if err != nil {
			return nil, err
		}
		ck, err := t.manifest.Checkpoint(t.params, t.standard)
		if err != nil {
			return nil, err
		}
		return ours(ck, a), nil
	case kindPaper:
		t, err := s.train(ctx, a.Run, true)
		if err != nil {
			return nil, err
		}
		scales := t.manifest.Scales()
		low, high := t.manifest.Archive.Band()
		return &player{scales: &scales, band: [2]float64{low, high}, parameters: len(t.params.Data), policy: func() (rollout.Policy, error) {
			p, err := paperform.NewPolicy(t.params, &s.world.Physics, &scales, &t.standard)
			return &beside{policy: p, scales: &scales}, err
		}}, nil
	case kindRules, kindDispatch:
		return s.archivePlayer(ctx, a)
	case kindRandom:
		return &player{scales: &s.flagship.Scales, band: [2]float64{0, 1}, policy: func() (rollout.Policy, error) { return &random{physics: &s.world.Physics}, nil }}, nil
	}
	return nil, fmt.Errorf("arm of kind %q", a.Kind)
}

// ours is a checkpoint under an arm's decoder.
func ours(ck *checkpoint.Checkpoint, a *Arm) *player {
	return &player{scales: &ck.Scales, band: ck.Band, parameters: ck.Arch.Parameters(), policy: func() (rollout.Policy, error) {
		p, err := inference.New(ck, a.Decoder)
		if err != nil || !a.Beside {
			return p, err
		}
		return &beside{policy: p, scales: &ck.Scales}, nil
	}}
}

// beside lets a budget stand beside the delay entry and omega, which are those
// of the setting that spends as much: what the paper does, Algorithm 1. A
// revision overwrites the energy entry alone.
type beside struct {
	policy rollout.Policy
	scales *goal.Scales
	omega  float64
	delayS float64
}

func (b *beside) Reset() { b.policy.Reset() }

func (b *beside) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Seen {
	if g.Budgeted() {
		if g.Slot() == 0 {
			b.omega = omegaOf(b.scales, g.BudgetJ())
			b.delayS, _ = b.scales.Conditioner.Return(b.omega)
		}
		asked := g.State()
		asked.Mode, asked.Omega, asked.DelayToGoS = goal.Preference, b.omega, b.delayS-g.DelayS()
		g.Restore(asked)
	}
	return b.policy.Decide(s, g, d)
}

// omegaOf returns the share at which the conditioner spends a total.
func omegaOf(s *goal.Scales, energyJ float64) float64 {
	low, high := 0.0, 1.0 // energy falls with omega
	for range 50 {
		mid := (low + high) / 2
		if _, e := s.Conditioner.Return(mid); e > energyJ {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// archive answers every request by its member nearest to it, eq. (match): to a
// budget, by the one whose mean energy on training seeds is nearest. It reads
// nothing of what was spent.
type archive struct {
	members []float64 // shares
	energy  []float64
	decide  func(member int, s *slot.Snapshot, d *slot.Decision)
	reset   func()
}

func (a *archive) Reset() { a.reset() }

func (a *archive) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Seen {
	xs, x := a.members, g.Omega()
	if g.Budgeted() {
		xs, x = a.energy, g.BudgetJ()
	}
	best := 0
	for i := range xs {
		if math.Abs(xs[i]-x) < math.Abs(xs[best]-x) {
			best = i
		}
	}
	a.decide(best, s, d)
	return goal.Seen{}
}

// archivePlayer flies a teacher's archive.
func (s *study) archivePlayer(ctx context.Context, a *Arm) (*player, error) {
	var c corpus.Archive
	if a.Kind == kindRules {
		found, err := s.rules(ctx, a.Members)
		if err != nil {
			return nil, err
		}
		for _, m := range found.Members {
			c.Points, c.Genes = append(c.Points, m.Point), append(c.Genes, m.Genes)
		}
	} else {
		full, err := s.archive(ctx, false)
		if err != nil {
			return nil, err
		}
		axis := full.Axis()
		for _, price := range teacher.Prices(s.Prices) {
			i, f := goal.Hat(axis.Y, axis.Place(price))
			p, q := full.Points[i], full.Points[i+1]
			p.DelayS += f * (q.DelayS - p.DelayS)
			p.EnergyJ += f * (q.EnergyJ - p.EnergyJ)
			if n := len(c.Points); n == 0 || p.DelayS > c.Points[n-1].DelayS && p.EnergyJ < c.Points[n-1].EnergyJ {
				c.Points, c.Prices = append(c.Points, p), append(c.Prices, price)
			}
		}
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	var shares, energies []float64
	for _, p := range c.Points {
		shares, energies = append(shares, c.Share(p)), append(energies, p.EnergyJ)
	}
	best := s.world.Physics.Propulsion.BestSpeedMPS(s.world.Physics.SpeedMaxMPS)
	return &player{scales: &s.flagship.Scales, band: [2]float64{0, 1}, members: shares, policy: func() (rollout.Policy, error) {
		p := &archive{members: shares, energy: energies, reset: func() {}}
		switch {
		case a.Kind == kindRules:
			rule, err := search.NewRule(&s.world, c.Genes[0])
			p.decide = func(member int, snap *slot.Snapshot, d *slot.Decision) {
				if err := rule.Use(c.Genes[member]); err != nil {
					panic(err) // the archive was checked when it was read
				}
				rule.Decide(snap, d)
			}
			return p, err
		case a.Centroid:
			pilot := &centroid{physics: &s.world.Physics, speed: best}
			p.reset = pilot.reset
			p.decide = func(member int, snap *slot.Snapshot, d *slot.Decision) { pilot.decide(snap, c.Prices[member], d) }
		default:
			pilot := &teacher.Pilot{}
			p.reset = func() { *pilot = teacher.Pilot{} }
			p.decide = func(member int, snap *slot.Snapshot, d *slot.Decision) {
				pilot.Decide(&s.world.Physics, snap, c.Prices[member], best, d)
			}
		}
		return p, nil
	}}, nil
}

// centroid is the dispatch teacher with the paper's motion: each aircraft flies
// towards the centroid of the users it is nearest to.
type centroid struct {
	physics *physics.Constants
	speed   float64
	solver  dispatch.Solver
	known   map[int]physics.Position
	ids     []int // in the order they were heard of
}

func (c *centroid) reset() { c.known, c.ids = map[int]physics.Position{}, nil }

func (c *centroid) decide(s *slot.Snapshot, price float64, d *slot.Decision) {
	d.Size(s)
	c.solver.Solve(c.physics, s, price, d)
	for i := range s.Users {
		u := &s.Users[i]
		if _, old := c.known[u.ID]; !old {
			c.ids = append(c.ids, u.ID)
		}
		c.known[u.ID] = u.Position
	}
	sums, counts := make([]physics.Position, len(s.Aircraft)), make([]float64, len(s.Aircraft))
	for _, id := range c.ids {
		nearest := 0
		for m := range s.Aircraft {
			if c.known[id].Sub(s.Aircraft[m].Position).Norm() < c.known[id].Sub(s.Aircraft[nearest].Position).Norm() {
				nearest = m
			}
		}
		sums[nearest] = sums[nearest].Add(c.known[id])
		counts[nearest]++
	}
	for m := range s.Aircraft {
		target := s.Aircraft[m].Position
		if counts[m] > 0 {
			target = sums[m].Scale(1 / counts[m])
		}
		d.Move[m] = tracking.Move(s.Aircraft[m].Position, target, c.speed, c.speed)
	}
}

// random decides at random, the same for the same setting in the same slot.
type random struct{ physics *physics.Constants }

func (r *random) Reset() {}

func (r *random) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Seen {
	d.Size(s)
	rng := rand.New(rand.NewPCG(math.Float64bits(g.Omega()), uint64(s.Slot)))
	for u := range s.Users {
		d.Users[u].Server = rng.IntN(len(s.Aircraft) + 1)
		if d.Users[u].Server > 0 {
			d.Users[u].Offload = rng.Float64()
		}
	}
	for m := range s.Aircraft {
		north, east := math.Sincos(2 * math.Pi * rng.Float64())
		length := r.physics.SpeedMaxMPS * rng.Float64()
		d.Move[m] = physics.Position{EastM: length * east, NorthM: length * north}
	}
	d.Price(r.physics, s)
	return goal.Seen{}
}
