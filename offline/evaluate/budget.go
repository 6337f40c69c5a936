package evaluate

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"prefdt/configs"
	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/offline/baseline"
	"prefdt/offline/command"
	"prefdt/offline/experiment"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
	energy "prefdt/telemetry/command"
)

// What a budget is for is delay. So each cell, a budget under a perturbation in a
// mode, has the delay that the joules bought beside the joules, for the policy and
// for every simpler arm on the same seeds.
//
// A budget is keepable on a seed if the reference even pacer ends within
// baseline.KeepableWithin of it there. All figures of a cell are means over its
// keepable seeds, since on the others no causal scheduler is known to keep it.

// minKeepable is the number of keepable seeds from which on a cell counts as measured.
const minKeepable = 50

// maxSlack is how far below a budget the even pacer ends in the mean, relative to it, where the budget still binds:
// where it leaves more, the budget is above what can be spent, and no arm has to choose what to spend it on.
const maxSlack = 0.01

// budgetNotes are lines on what is going to be measured in a world on so many seeds, of its own budgets or not.
func budgetNotes(w *world.Config, n int, own bool) (lines string) {
	if n < minKeepable {
		lines = fmt.Sprintf("budgets: with %d seeds the means of so few are printed, and no arm is ranked; "+
			"it takes %d seeds whose budget the even pacer keeps, so -seeds 1000000:10000%d or more. The front can do with fewer. "+
			"One perturbation quickly: -perturbation \"x1.5 at half time\" -arms \"controller with reserve\".\n",
			n, minKeepable, minKeepable+10)
	}
	if w.Slots != 100 {
		lines += fmt.Sprintf("budgets: slots in names of perturbations are of 100; here they are in proportion of %d\n", w.Slots)
	}
	if scale := w.EnergyScale(); !own && math.Abs(scale-1) > 1e-3 {
		lines += fmt.Sprintf("budgets: those of the standard world times %.3g, the ratio of the least energies of flight; the most "+
			"that can be spent here may be less, in cells that say \"does not bind\"; -cells has joules of your own\n", scale)
	}
	return lines
}

// Limits of overrunning keepable budgets, within which an arm counts as one that keeps
// them.
const (
	maxMeanOverrun = 0.0005 // of a target, relative
	maxOverrunRate = 0.005  // of ceilings, in flights
)

// BudgetCell is a cell.
type BudgetCell struct {
	Perturbation string    `json:"perturbation"`
	Mode         goal.Mode `json:"mode"`
	BudgetJ      float64   `json:"budget_j"` // in force at the end
	RevisedFromJ float64   `json:"revised_from_j,omitempty"`
	HeldOut      bool      `json:"held_out"` // nothing was tuned on its kind of perturbation
	Seeds        int       `json:"seeds"`
	Keepable     int       `json:"keepable"` // of these seeds
	Measured     bool      `json:"measured"` // enough are keepable
	Binds        bool      `json:"binds"`    // the even pacer spends it, but for maxSlack

	experiment.BudgetMeans // of the policy, as all figures the mean over keepable seeds
	// Standard errors of two of these means, over the keepable seeds.
	DelayErrorS float64 `json:"delay_error_s"`
	EndError    float64 `json:"end_error"`
	// RegretS is its delay above that of the one price which, known in advance, spends
	// min(budget, the most there is to spend); nil where ceilings alone are measured.
	RegretS       *float64 `json:"regret_s"`
	EvenDelayS    float64  `json:"even_delay_s"` // of the even pacer
	BestArm       string   `json:"best_arm"`     // of the least delay among those that do not fly and keep the limits
	BestArmDelayS float64  `json:"best_arm_delay_s"`

	Arms map[string]experiment.BudgetMeans `json:"arms"` // by name
}

// keepsLimits reports whether an arm keeps a cell's limits of overrunning.
func keepsLimits(a experiment.BudgetMeans, mode goal.Mode) bool {
	if mode == goal.Ceiling {
		return a.OverrunRate <= maxOverrunRate
	}
	return a.MeanOverrun <= maxMeanOverrun
}

// Ranked reports whether the arms are compared by their delay in this cell.
func (b *BudgetCell) Ranked() bool { return b.Measured && b.Binds }

// ArmSummary is one arm over all ranked cells.
type ArmSummary struct {
	Name        string  `json:"name"`
	MeanDelayS  float64 `json:"mean_delay_s"`
	EvenRatio   float64 `json:"even_ratio"`   // mean ratio of its delay to the even pacer's
	CellsKept   int     `json:"cells_kept"`   // in which it keeps the limits
	CellsBest   int     `json:"cells_best"`   // in which its delay is the least of those that do
	CellsBehind int     `json:"cells_behind"` // in which the best arm's is less by more than 1 % and 1 s
	Cells       int     `json:"cells"`
}

// Names of the arms. The first flies; the others, and those of package baseline, are what it is judged against.
const (
	policyArm       = "policy"
	evenArm         = baseline.Even
	networkPriceArm = "network's price"
)

// budgetArms names all.
var budgetArms = slices.Concat([]string{policyArm}, baseline.Pacers, []string{networkPriceArm})

// newRunner returns a runner of an arm in a world.
type newRunner func(arm string, ck *checkpoint.Checkpoint, w world.Config) (*rollout.Runner, error)

// runnerOf is of these.
func (c *Config) runnerOf(arm string, ck *checkpoint.Checkpoint, w world.Config) (*rollout.Runner, error) {
	var p rollout.Policy
	var err error
	switch arm {
	case policyArm:
		return rollout.New(ck, c.Decoder, w, rollout.ReportLink{})
	case networkPriceArm:
		p, err = inference.New(ck, inference.DecoderPrice)
	default:
		p, err = baseline.NewPacer(arm, &w.Physics, inference.EdgeCurve(ck))
	}
	if err != nil {
		return nil, err
	}
	return rollout.NewWithPolicy(p, &ck.GoalConstants, w, rollout.ReportLink{})
}

// perturbation is a change of the world, or of the budget in flight, and the budgets
// requested under it, in joules of the standard world.
type perturbation struct {
	Name        string
	Tuned       bool // the size of the reserve may be chosen on it
	HeldOut     bool `yaml:"held_out"` // nothing was tuned on its kind
	Shock       step // of flight power
	SecondShock step `yaml:"second_shock"`
	RandomShock bool `yaml:"random_shock"`
	Demand      step
	Gust        float64
	EdgeFactor  float64   `yaml:"edge_factor"`
	BudgetsJ    []float64 `yaml:"budgets_j"`
	ReviseSlot  int       `yaml:"revise_slot"` // of 100
	RevisedJ    []float64 `yaml:"revised_j"`   // what each budget is then; none: they stay
}

// step is a factor that holds after a part of the slots. The zero value is none.
type step struct {
	Factor float64
	After  [2]int // numerator and denominator
}

// set sets a shock of the world, unless the step is none.
func (s step) set(shock *world.Shock, slots int) {
	if s.Factor > 0 {
		*shock = world.Shock{FromSlot: slots * s.After[0] / max(s.After[1], 1), Factor: s.Factor}
	}
}

// change changes the world; what is random follows from r.
func (p *perturbation) change(c *world.Config, r *rand.Rand) {
	p.Shock.set(&c.Shock, c.Slots)
	p.SecondShock.set(&c.SecondShock, c.Slots)
	p.Demand.set(&c.Demand, c.Slots)
	if p.RandomShock {
		c.Shock = world.Shock{FromSlot: 1 + r.IntN(c.Slots-1), Factor: 0.8 + 1.2*r.Float64()}
	}
	c.Gust, c.EdgeFactor = cmp.Or(p.Gust, c.Gust), cmp.Or(p.EdgeFactor, c.EdgeFactor)
}

// calmAir names the perturbation that is none.
const calmAir = "calm"

//go:embed perturbations.yaml
var perturbationsYAML []byte

func perturbations() (list []perturbation) {
	configs.MustDecode(perturbationsYAML, &list)
	return list
}

// regretPrices is the number of prices of the teacher's front, interpolated, that
// regret is measured against.
const regretPrices = 64

// measureBudgets measures the configuration's perturbations by these arms.
func measureBudgets(ctx context.Context, ck *checkpoint.Checkpoint, c Config, arms []string) (rows []BudgetCell, summary []ArmSummary,
	err error) {
	if ck.Published != nil { // it predicts no price
		arms = slices.DeleteFunc(slices.Clone(arms), func(name string) bool { return name == networkPriceArm })
	}
	list := slices.DeleteFunc(perturbations(), func(p perturbation) bool {
		return !strings.Contains(p.Name, c.Perturbation) || len(c.BudgetsJ) > 0 && p.revises() // their cells are of two budgets
	})
	for i, p := range list {
		c.perturbationOf = fmt.Sprintf(" %d of %d", i+1, len(list))
		more, err := p.measure(ctx, ck, c, arms)
		if err != nil {
			return rows, summarizeArms(arms, rows), err // those before are complete
		}
		rows = append(rows, more...)
	}
	return rows, summarizeArms(arms, rows), nil
}

// revises reports whether its budgets are revised in flight.
func (p *perturbation) revises() bool { return p.RevisedJ != nil }

// checkPerturbation refuses a text that no perturbation's name contains, of those that may have budgets of one's own.
func checkPerturbation(text string, own bool) error {
	var names []string
	for _, p := range perturbations() {
		if !own || !p.revises() {
			names = append(names, p.Name)
		}
	}
	if !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, text) }) {
		return fmt.Errorf("no perturbation's name contains %q; there are %q", text, names)
	}
	return nil
}

// selectArms returns the named arms, or all if none is named. The policy and the even
// pacer are always among them.
func selectArms(names []string) (arms []string, err error) {
	for _, name := range budgetArms {
		if len(names) == 0 || name == policyArm || name == evenArm || slices.Contains(names, name) {
			arms = append(arms, name)
		}
	}
	return arms, command.CheckNames("-arms", names, budgetArms)
}

func (c *Config) budgetModes() []goal.Mode {
	if c.CeilingsOnly {
		return []goal.Mode{goal.Ceiling}
	}
	return []goal.Mode{goal.Target, goal.Ceiling}
}

// parseBudgets reads a list as "109kJ,117kJ".
func parseBudgets(list string) (budgetsJ []float64, err error) {
	for _, text := range command.Words(list) {
		j, err := energy.ParseEnergy(text)
		if err != nil {
			return nil, fmt.Errorf("-cells of -budget: %w", err)
		}
		budgetsJ = append(budgetsJ, j)
	}
	return budgetsJ, nil
}

// requestsIn returns the perturbation's requests in a configuration's world: budgets of one's own as they are, or else
// the standard world's, scaled.
func (p *perturbation) requestsIn(c *Config) (list []rollout.Request) {
	for _, j := range c.BudgetsJ {
		list = append(list, rollout.Request{BudgetJ: j})
	}
	if len(list) > 0 {
		return list
	}
	scale := c.World.EnergyScale()
	for i, j := range p.BudgetsJ {
		r := rollout.Request{BudgetJ: j * scale}
		if p.revises() {
			r.ReviseSlot, r.RevisedBudgetJ = p.ReviseSlot*c.World.Slots/100, p.RevisedJ[i]*scale
		}
		list = append(list, r)
	}
	return list
}

// budgetFlights are the flights of one budget in one mode.
type budgetFlights struct {
	request   rollout.Request
	byArm     map[string][]pareto.Point // by seed
	kept      []int                     // the seeds on which their judge keeps the budget
	constantS []float64                 // by seed, delay of the one price known in advance; 0 where ceilings alone are measured
}

// newBudgetFlights are those of each request, out of all flights by seed.
func newBudgetFlights(requests []rollout.Request, flown []map[string][]rollout.Result, judge string) []budgetFlights {
	cells := make([]budgetFlights, len(requests))
	for k, r := range requests {
		x := budgetFlights{request: r, byArm: map[string][]pareto.Point{}}
		for _, arms := range flown {
			for name, results := range arms {
				x.byArm[name] = append(x.byArm[name], results[k].Point)
			}
		}
		x.kept = experiment.Keepable(x.byArm[judge], r.EndBudgetJ())
		cells[k] = x
	}
	return cells
}

// means are each arm's over the seeds that are kept.
func (x *budgetFlights) means() map[string]experiment.BudgetMeans {
	means := map[string]experiment.BudgetMeans{}
	for name, points := range x.byArm {
		if len(x.kept) > 0 {
			means[name] = experiment.MeansOf(points, x.kept, x.request.EndBudgetJ())
		}
	}
	return means
}

// fly flies a perturbation's cells, in both modes, by all arms, the even pacer among them, on seeds that allowed, a
// function of package seeds, does not refuse.
func (p *perturbation) fly(ctx context.Context, ck *checkpoint.Checkpoint, c Config, arms []string, allowed func(uint64) error,
	runnerOf newRunner) ([]budgetFlights, error) {
	var requests []rollout.Request
	for _, mode := range c.budgetModes() {
		for _, r := range p.requestsIn(&c) {
			r.Mode = mode
			requests = append(requests, r)
		}
	}
	prices, constantS := teacher.PricesIn(&c.World, regretPrices), make([][]float64, len(requests)) // by request and seed
	for k := range constantS {
		constantS[k] = make([]float64, len(c.Seeds))
	}
	flown, err := c.flyArms(ctx, "budgets"+c.perturbationOf+", "+p.Name, allowed, func(i int) (map[string][]flight, error) {
		w, flights := c.World, map[string][]flight{}
		p.change(&w, rand.New(rand.NewPCG(c.Seeds[i], 1)))
		for _, arm := range arms {
			runner, err := runnerOf(arm, ck, w)
			if err != nil {
				return nil, err
			}
			for _, r := range requests {
				flights[arm] = append(flights[arm], flight{runner, r})
			}
		}
		if c.CeilingsOnly {
			return flights, nil
		}
		front, err := teacher.Sweep(ctx, &w, allowed, c.Seeds[i:i+1], prices, 1, nil)
		if err != nil {
			return nil, err
		}
		for k := range requests {
			constantS[k][i] = leastDelayS(pareto.SeedPoints(front, 0), requests[k].EndBudgetJ())
		}
		return flights, nil
	})
	if err != nil {
		return nil, err
	}
	cells := newBudgetFlights(requests, flown, evenArm)
	for k := range cells {
		cells[k].constantS = constantS[k]
	}
	return cells, nil
}

// measure flies a perturbation's cells and takes the means of each.
func (p *perturbation) measure(ctx context.Context, ck *checkpoint.Checkpoint, c Config, arms []string) (rows []BudgetCell, err error) {
	cells, err := p.fly(ctx, ck, c, arms, seeds.CheckEvaluation, c.runnerOf)
	for _, x := range cells {
		r := &x.request
		row := BudgetCell{Perturbation: p.Name, Mode: r.Mode, BudgetJ: r.EndBudgetJ(), HeldOut: p.HeldOut, Seeds: len(c.Seeds),
			Keepable: len(x.kept), Measured: len(x.kept) >= minKeepable, Arms: x.means()}
		if r.ReviseSlot > 0 {
			row.RevisedFromJ = r.BudgetJ
		}
		constantS := 0.0
		var delaysS, ends []float64 // of the policy
		for _, s := range x.kept {
			own := x.byArm[policyArm][s]
			delaysS, ends = append(delaysS, own.DelayS), append(ends, own.EnergyJ/row.BudgetJ-1)
			constantS += x.constantS[s] / float64(len(x.kept))
		}
		row.finish(arms)
		row.DelayErrorS, row.EndError = pareto.Summarise(delaysS).StdError(), pareto.Summarise(ends).StdError()
		if !c.CeilingsOnly {
			row.RegretS = new(row.DelayS - constantS)
		}
		rows = append(rows, row)
	}
	return rows, err
}

// leastDelayS returns the delay of the front at a total energy, between the points of
// a sweep whose energies fall.
func leastDelayS(front []pareto.Point, energyJ float64) float64 {
	for k := 1; k < len(front); k++ {
		if a, b := front[k-1], front[k]; b.EnergyJ <= energyJ {
			f := min(max((a.EnergyJ-energyJ)/max(a.EnergyJ-b.EnergyJ, 1e-9), 0), 1)
			return a.DelayS + f*(b.DelayS-a.DelayS)
		}
	}
	return front[len(front)-1].DelayS
}

// finish completes a cell from its arms' results.
func (b *BudgetCell) finish(arms []string) {
	b.BudgetMeans, b.EvenDelayS, b.Binds = b.Arms[policyArm], b.Arms[evenArm].DelayS, b.Arms[evenArm].End >= -maxSlack
	best := math.Inf(1)
	for _, name := range arms {
		if x := b.Arms[name]; name != policyArm && keepsLimits(x, b.Mode) && x.DelayS < best {
			best, b.BestArm, b.BestArmDelayS = x.DelayS, name, x.DelayS
		}
	}
}

// summarizeArms takes the means over the ranked cells.
func summarizeArms(arms []string, rows []BudgetCell) (list []ArmSummary) {
	for _, name := range arms {
		s := ArmSummary{Name: name}
		for i := range rows {
			b := &rows[i]
			if !b.Ranked() {
				continue
			}
			x := b.Arms[name]
			s.Cells++
			s.MeanDelayS += x.DelayS
			s.EvenRatio += x.DelayS / b.EvenDelayS
			if keepsLimits(x, b.Mode) {
				s.CellsKept++
				if x.DelayS <= b.BestArmDelayS {
					s.CellsBest++
				}
			}
			if x.DelayS > 1.01*b.BestArmDelayS+1 {
				s.CellsBehind++
			}
		}
		s.MeanDelayS /= float64(max(s.Cells, 1))
		s.EvenRatio /= float64(max(s.Cells, 1))
		list = append(list, s)
	}
	return list
}
