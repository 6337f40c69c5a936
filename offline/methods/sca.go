package methods

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"prefdt/inference/goal"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/command"
	"prefdt/offline/rollout"
	"prefdt/simbridge/world"
)

// SCA oracle, Table "classes" of the paper, class 2: block-coordinate descent with
// successive convex approximation over the whole flight, given every arrival in advance
// (Wu, Zeng and Zhang, IEEE Trans. Wireless Commun. 17(3), 2018, for the alternation and
// the bounds). Its cost is linear in the two totals, so that a preference is another
// solve:
//
//	(1-omega) T_tot / eta_T + omega E_tot / eta_E
//
// Within an iteration the first block (slotProgram) decides each slot at expected rates,
// the second (trajectoryProgram) moves the path. In flight it keeps to the path, and
// decides each slot again at the gains that it then knows: future arrivals are an
// oracle's, the channel of a slot is known to everyone only when it is drawn.

// SCASettings of the oracle and of the receding horizon.
type SCASettings struct {
	Iterations     int     `json:"iterations" yaml:"iterations" range:"1,1000"`             // of both blocks, at most
	Tolerance      float64 `json:"tolerance" yaml:"tolerance" range:"0,1"`                  // ends them: relative decrease of the cost
	Jittered       int     `json:"jittered" yaml:"jittered" range:"0,100"`                  // variants of each initial path
	JitterMPS      float64 `json:"jitter_mps" yaml:"jitter_mps" range:"0,30"`               // deviation of their velocity, per axis
	SlotIterations int     `json:"slot_iterations" yaml:"slot_iterations" range:"1,100"`    // convex programs of one slot
	SlotSteps      int     `json:"slot_steps" yaml:"slot_steps" range:"1,10000"`            // conditional-gradient steps of each
	RoundBelow     float64 `json:"round_below" yaml:"round_below" range:"0,1"`              // relaxed fraction that is rounded to local
	PathSteps      int     `json:"path_steps" yaml:"path_steps" range:"1,10000"`            // L-BFGS iterations of one path's program
	TrustM         float64 `json:"trust_m" yaml:"trust_m" range:"1e-3,1e4"`                 // trust region: the most that a position moves
	Window         int     `json:"window,omitempty" yaml:"window,omitempty" range:"0,1000"` // slots, of the receding horizon
}

var scaOracleMethod = scaMethod("sca-oracle", "block-coordinate descent with successive convex approximation, given all arrivals",
	func(c *Config) *SCASettings { return &c.SCAOracle }, func(f scaFlight) rollout.Policy { return &scaOracle{scaFlight: f} })

// scaMethod is a method that solves in flight and learns nothing before. It refuses a channel that users share: their rates
// then depend on the association, which the convex programs do not have.
func scaMethod(name, description string, settings func(*Config) *SCASettings, newPolicy func(scaFlight) rollout.Policy) Method {
	return Method{
		Name: name, Description: description,
		Settings: func(c *Config) any { return *settings(c) },
		Spending: func(c *Config) []*int { return []*int{&settings(c).Iterations} },
		Spends:   func(c *Config) string { return fmt.Sprintf("%d iterations of a plan", settings(c).Iterations) },
		New: func(_ context.Context, r *Run) (NewPolicy, error) {
			c := &r.World.Physics
			if c.Contention {
				return nil, errors.New("a world with contention: SCA is for users with a channel each, as the paper's")
			}
			return func() rollout.Policy {
				planner := scaPlanner{SCASettings: *settings(&r.Config), constants: c, link: newLink(c)}
				return newPolicy(scaFlight{planner: planner, scales: r.Scales})
			}, nil
		},
		Paper: &Paper{Few: true, Ours: true},
	}
}

// Check returns what is wrong with the settings.
func (s *SCASettings) Check() error { return command.CheckRanges(s) }

// demandUser is a user's task as it is expected in a slot to come.
type demandUser struct {
	position physics.Position
	task     physics.Task
	localS   float64
	weight   float64 // probability that it is there
}

// scaPlanner alternates the two blocks for one preference.
type scaPlanner struct {
	SCASettings
	constants    *physics.Constants
	link         *link
	cpuHz        []float64
	delayWeight  float64 // of a second
	energyWeight float64 // of a joule
}

// setPreference sets the weights of the cost.
func (p *scaPlanner) setPreference(omega float64, scales Scales) {
	p.delayWeight, p.energyWeight = (1-omega)/scales.DelayS, omega/scales.EnergyJ
}

// program returns the first block of a slot, with the aircraft at a row of the path.
func (p *scaPlanner) program(users []demandUser, at []physics.Position) slotProgram {
	s := slotProgram{constants: p.constants, cpuHz: p.cpuHz, delayWeight: p.delayWeight, priceWeight: p.energyWeight}
	for _, u := range users {
		x := slotUser{weight: u.weight, task: u.task, localS: u.localS}
		for _, q := range at {
			bitS, _ := p.link.at(q.Sub(u.position).Norm())
			x.uploadS = append(x.uploadS, u.task.Bits*bitS)
		}
		s.users = append(s.users, x)
	}
	return s
}

// associate decides every slot of a path, from an earlier choice if there is one, which
// it keeps where that costs less. It returns what the whole path costs.
func (p *scaPlanner) associate(demand [][]demandUser, at path, earlier []slotChoice) ([]slotChoice, float64) {
	choices := make([]slotChoice, len(demand))
	total := 0.0
	for t, users := range demand {
		s := p.program(users, at[t])
		var c slotChoice
		var cost float64
		if earlier == nil {
			c, cost = s.solve(s.starts(), p.SlotIterations, p.SlotSteps, p.RoundBelow)
		} else {
			c, cost = s.solve([]relaxed{s.startAt(&earlier[t])}, 1, p.SlotSteps, p.RoundBelow)
			kept := slotChoice{slices.Clone(earlier[t].server), make([]float64, len(users))}
			if keptCost := s.improve(&kept); keptCost <= cost {
				c, cost = kept, keptCost
			}
		}
		choices[t] = c
		total += cost
		for m := range at[t] {
			total += p.energyWeight * p.constants.Propulsion.PowerW(at[t+1][m].Sub(at[t][m]).Norm())
		}
	}
	return choices, total
}

// trajectory returns the second block at a path and its choices.
func (p *scaPlanner) trajectory(demand [][]demandUser, at path, choices []slotChoice) *trajectoryProgram {
	program := &trajectoryProgram{constants: p.constants, link: p.link, energyWeight: p.energyWeight}
	for t, users := range demand {
		s := p.program(users, at[t])
		n := s.served(&choices[t])
		for u, server := range choices[t].server {
			if server == 0 {
				continue
			}
			share, offloadS := s.share(u, server-1, n[server-1])
			user := &s.users[u]
			if balance := physics.BalancedOffload(user.localS, offloadS); choices[t].offload[u] < balance-1e-9 {
				continue // it offloads what its deadline asks for, wherever the aircraft is
			}
			program.users = append(program.users, served{
				slot: t, aircraft: server - 1, position: users[u].position, localS: user.localS,
				bits: user.task.Bits, edgeS: user.task.Cycles() / share.CPUHz,
				delayWeight: user.weight * p.delayWeight, energyWeight: user.weight * p.energyWeight * p.constants.EdgeJ(user.task, share,
					1),
			})
		}
	}
	return program
}

// solve improves a path until an iteration gains too little. The cost never rises.
func (p *scaPlanner) solve(demand [][]demandUser, at path) (path, float64) {
	choices, total := p.associate(demand, at, nil)
	for range p.Iterations {
		program, before := p.trajectory(demand, at, choices), total
		for part := p.TrustM; part > p.TrustM/16; part /= 2 { // shorter, where a deadline is missed on the way
			next := program.step(at, p.PathSteps, part)
			if c, cost := p.associate(demand, next, choices); cost < total {
				at, choices, total = next, c, cost
				break
			}
		}
		if before-total <= p.Tolerance*math.Abs(before) {
			break
		}
	}
	return at, total
}

// cheapest solves from several paths and returns the path of least cost.
func (p *scaPlanner) cheapest(demand [][]demandUser, starts []path) (best path) {
	least := math.Inf(1)
	for _, start := range starts {
		if found, cost := p.solve(demand, start); cost < least {
			best, least = found, cost
		}
	}
	return best
}

// starts returns the flight to targets at v*, and jittered variants of it, drawn from generators of a seed.
func (p *scaPlanner) starts(from, to []physics.Position, slots int, seed, firstDraw uint64) []path {
	speedMPS, _ := p.constants.MinPower()
	list := []path{flyTo(from, to, speedMPS, slots)}
	for k := range p.Jittered {
		list = append(list, jitter(list[0], p.JitterMPS, p.constants.AreaSideM, rand.New(rand.NewPCG(seed, firstDraw+uint64(k)))))
	}
	return list
}

// flyTo returns the path of so many slots from positions to targets, at a speed, and
// hovering there.
func flyTo(from, to []physics.Position, speedMPS float64, slots int) path {
	p := path{from}
	for range slots {
		row := make([]physics.Position, len(from))
		for m, at := range p[len(p)-1] {
			way := to[m].Sub(at)
			if d := way.Norm(); d > speedMPS {
				way = way.Scale(speedMPS / d)
			}
			row[m] = at.Add(way)
		}
		p = append(p, row)
	}
	return p
}

// jitter returns a path with a first-order autoregressive velocity added, from a
// generator: hovering is a stationary point of flight power, which no descent leaves by
// itself.
func jitter(p path, deviationMPS, areaM float64, rng *rand.Rand) path {
	q := p.clone()
	for m := range q[0] {
		var velocity, offset physics.Position
		const memory = 0.9
		draw := func() physics.Position {
			return physics.Position{EastM: deviationMPS * rng.NormFloat64(), NorthM: deviationMPS * rng.NormFloat64()}
		}
		velocity = draw()
		for t := 1; t < len(q); t++ {
			offset = offset.Add(velocity)
			q[t][m] = q[t][m].Add(offset).ClampToArea(areaM)
			velocity = velocity.Scale(memory).Add(draw().Scale(math.Sqrt(1 - memory*memory)))
		}
	}
	return q
}

// centroids returns, for each aircraft, the centroid of the expected demand of the users
// that it is nearest to; its own position if there are none.
func centroids(demand [][]demandUser, from []physics.Position) []physics.Position {
	sums, weights := make([]physics.Position, len(from)), make([]float64, len(from))
	for _, users := range demand {
		for _, u := range users {
			nearest := 0
			for m := range from {
				if u.position.Sub(from[m]).Norm() < u.position.Sub(from[nearest]).Norm() {
					nearest = m
				}
			}
			sums[nearest] = sums[nearest].Add(u.position.Scale(u.weight))
			weights[nearest] += u.weight
		}
	}
	for m := range sums {
		if weights[m] > 0 {
			sums[m] = sums[m].Scale(1 / weights[m])
		} else {
			sums[m] = from[m]
		}
	}
	return sums
}

// scaFlight is what the oracle and the receding horizon share in flight.
type scaFlight struct {
	planner scaPlanner
	scales  Scales
	limiter motion.Limiter
	from    []physics.Position
}

// begin reads the fleet of a slot, if any of it is left.
func (f *scaFlight) begin(s *slot.Snapshot, omega float64, d *slot.Decision) bool {
	d.Resize(s)
	f.planner.setPreference(omega, f.scales)
	f.planner.cpuHz, f.from = f.planner.cpuHz[:0], f.from[:0]
	for m := range s.Aircraft {
		f.planner.cpuHz = append(f.planner.cpuHz, s.Aircraft[m].CPUHz)
		f.from = append(f.from, s.Aircraft[m].Position)
	}
	return len(f.from) > 0
}

// decide fills the decision of a slot, at its gains, and flies to the targets.
func (f *scaFlight) decide(s *slot.Snapshot, targets []physics.Position, d *slot.Decision) {
	p, c := &f.planner, f.planner.constants
	program := p.program(nil, nil)
	for i := range s.Users {
		u := &s.Users[i]
		x := slotUser{weight: 1, task: u.Task, localS: u.Task.LocalTimeS(u.CPUHz)}
		for m := range s.Aircraft {
			x.uploadS = append(x.uploadS, u.Task.Bits/c.Channel.RateBPS(u.Gain[m], c.Channel.BandwidthHz))
		}
		program.users = append(program.users, x)
	}
	choice, _ := program.solve(program.starts(), p.SlotIterations, p.SlotSteps, p.RoundBelow)
	for u := range d.Users {
		d.Users[u] = slot.UserDecision{Server: choice.server[u], Offload: choice.offload[u]}
	}
	for m := range d.Move {
		d.Move[m] = targets[m].Sub(f.from[m])
	}
	f.limiter.Limit(f.from, d.Move, motion.LimitsOf(c))
	d.Evaluate(c, s)
}

// scaOracle flies the best of the paths that its restarts find. It takes preferences alone.
type scaOracle struct {
	scaFlight
	world *world.World
	path  path
}

// Watch implements rollout.Privileged: the oracle knows the world's arrivals.
func (o *scaOracle) Watch(w *world.World) { o.world = w }

// Reset implements rollout.Policy.
func (o *scaOracle) Reset() { o.path = nil }

// Decide implements rollout.Policy.
func (o *scaOracle) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Observation {
	if !o.begin(s, g.Omega(), d) {
		return goal.Observation{}
	}
	if o.path == nil {
		o.path = o.plan(o.arrivals())
	}
	targets := make([]physics.Position, len(s.Aircraft))
	for m := range s.Aircraft {
		targets[m] = o.path[s.Slot+1][s.Aircraft[m].Number-1]
	}
	o.decide(s, targets, d)
	return goal.Observation{}
}

// arrivals returns every task of the flight, in advance.
func (o *scaOracle) arrivals() [][]demandUser {
	c := &o.world.Config
	scenario := world.NewScenario(c, o.world.Seed)
	demand := make([][]demandUser, c.Slots)
	for t := range demand {
		for _, a := range scenario.Active(t, nil) {
			if a.Task.Bits > 0 {
				demand[t] = append(demand[t], demandUser{
					position: scenario.UserPosition(t, a.User), task: a.Task, localS: a.Task.LocalTimeS(scenario.ReportedCPUHz(a.User)),
					weight: 1,
				})
			}
		}
	}
	return demand
}

// plan restarts from hover, from flight to the demand's centroids, and from jittered variants
// of each, and returns the best path.
func (o *scaOracle) plan(demand [][]demandUser) path {
	from := slices.Clone(o.from)
	var starts []path
	for _, targets := range [][]physics.Position{from, centroids(demand, from)} {
		starts = append(starts, o.planner.starts(from, targets, len(demand), o.world.Seed, 1)...)
	}
	return o.planner.cheapest(demand, starts)
}
