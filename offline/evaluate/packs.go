package evaluate

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"math"
	"slices"

	"prefdt/configs"
	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/duty"
	"prefdt/inference/goal"
	"prefdt/offline/baseline"
	"prefdt/offline/command"
	"prefdt/offline/experiment"
	"prefdt/offline/jobs"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// What the joules of a fleet, or of its packs, buy where aircraft may come home early. Each
// cell is a total or packs in a world; each arm is a way to decide who is in the air, at which
// price. The regret of an arm on a seed is its delay over all slots, those with nobody in the air
// included, over the least that was possible in hindsight, less one.

// packCell is a cell. Joules are of the standard world, as the name says, until in.
type packCell struct {
	Name         string
	Aircraft     int
	Slots        int // the standard world's, unless the name has others
	Perturbation string
	BudgetJ      float64   `yaml:"budget_j"` // of the fleet, in slots; 0: packs
	PacksJ       []float64 `yaml:"packs_j"`  // usable, less reserve
	Landed       bool      // packs are from take-off to touchdown
	RevisedFromJ float64   `yaml:"revised_from_j"` // the budget until half time; 0: it is not revised
	MistypedJ    float64   `yaml:"mistyped_j"`     // the budget in one slot, after a tenth of them; 0: in none
	World        string    // field world, by name
	Shock        step      // of flight power
	LossRate     float64   `yaml:"loss_rate"` // of reports
}

// PackResult is an arm in a cell.
type PackResult struct {
	Cell         string    `json:"cell"`
	Arm          string    `json:"arm"`
	Aircraft     int       `json:"aircraft"`
	Slots        int       `json:"slots"`
	Perturbation string    `json:"perturbation"`
	BudgetJ      float64   `json:"budget_j,omitempty"` // as last revised
	PacksJ       []float64 `json:"packs_j,omitempty"`
	Scope        string    `json:"scope"` // "slots" or "landed"
	Seeds        int       `json:"seeds"`

	DelayS      float64 `json:"delay_s"`       // mean
	DelayErrorS float64 `json:"delay_error_s"` // standard error of it
	// Regret is the mean over seeds; nil where hindsight is not measured, or finds nothing within the limits.
	Regret      *float64 `json:"regret"`
	OverJ       float64  `json:"over_j"`       // the largest over seeds, of the worst pack or the total
	Overrun     int      `json:"overrun"`      // seeds on which it is above 0
	ServedSlots float64  `json:"served_slots"` // with an aircraft in the air, mean
}

// PacksReport is "offline evaluate -packs".
type PacksReport struct {
	Packs  []PackResult       `json:"packs"`
	Record *experiment.Record `json:"record"`
}

// Names of the arms of packs. The policy's is policyArm.
const (
	aloftArm     = "aloft"        // all fly to the end, as the paper has it
	priceArm     = "price"        // all fly to the end, at a price for each pack
	ruleArm      = "rule"         // the lab's simple rule, for totals
	aloneArm     = "one aircraft" // for totals: at the rule's price until the total is spent, then it lands
	planArm      = "plan"         // the policy's planner without a network
	hindsightArm = "hindsight"    // who knew everything
)

var packArms = []string{policyArm, aloftArm, priceArm, ruleArm, aloneArm, planArm, hindsightArm}

//go:embed packs.yaml
var packsYAML []byte

func packCells() (cells []packCell) {
	configs.MustDecode(packsYAML, &cells)
	for i := range cells {
		c := &cells[i]
		c.Aircraft, c.Slots = cmp.Or(c.Aircraft, len(c.PacksJ), 2), cmp.Or(c.Slots, 100)
		c.Perturbation = cmp.Or(c.Perturbation, calmAir)
	}
	return cells
}

// selectPacks returns the cells and the arms of these names, or all where none is named.
func selectPacks(cellNames, armNames []string) (cells []packCell, arms []string, err error) {
	var known []string
	for _, c := range packCells() {
		if known = append(known, c.Name); len(cellNames) == 0 || slices.Contains(cellNames, c.Name) {
			cells = append(cells, c)
		}
	}
	if len(armNames) == 0 {
		armNames = packArms
	}
	return cells, armNames, cmp.Or(command.CheckNames("-cells", cellNames, known), command.CheckNames("-arms", armNames, packArms))
}

// arms are those that have a meaning in a cell.
func (c *packCell) arms() []string {
	return slices.DeleteFunc(slices.Clone(packArms), func(name string) bool {
		return c.PacksJ == nil && name == priceArm || c.PacksJ != nil && (name == ruleArm || name == aloneArm)
	})
}

// request is what a flight of the cell is asked for.
func (c *packCell) request() rollout.Request {
	if c.PacksJ != nil {
		sumJ := 0.0
		for _, j := range c.PacksJ {
			sumJ += j
		}
		return rollout.Request{Mode: goal.Ceiling, BudgetJ: sumJ, Packs: &rollout.Packs{EnergyJ: c.PacksJ, Landed: c.Landed}}
	}
	r := rollout.Request{Mode: goal.Ceiling, BudgetJ: c.BudgetJ}
	if c.RevisedFromJ > 0 {
		r.BudgetJ, r.ReviseSlot, r.RevisedBudgetJ = c.RevisedFromJ, c.Slots/2, c.BudgetJ
	}
	if c.MistypedJ > 0 {
		r.ReviseSlot, r.RevertSlot, r.RevisedBudgetJ = c.Slots/10, c.Slots/10+1, c.MistypedJ
	}
	return r
}

// unlimited is the same scope without a limit.
func (c *packCell) unlimited() rollout.Request {
	r := rollout.Request{Mode: goal.Ceiling, BudgetJ: rollout.UnlimitedJ}
	if c.PacksJ != nil {
		r.Packs = &rollout.Packs{EnergyJ: slices.Repeat([]float64{rollout.UnlimitedJ}, len(c.PacksJ)), Landed: c.Landed}
	}
	return r
}

// link is that of the cell's reports; without a loss the fallback has no effect.
func (c *packCell) link() rollout.ReportLink {
	return rollout.ReportLink{LossRate: c.LossRate, Fallback: rollout.FallbackOffer}
}

// overJ is what a flight spent beyond the worst pack, or the total.
func (c *packCell) overJ(r *rollout.Result) (over float64) {
	if c.PacksJ == nil {
		return r.EnergyJ - c.BudgetJ
	}
	over = math.Inf(-1)
	for m, j := range r.SpentJ {
		over = max(over, j-c.PacksJ[m])
	}
	return over
}

// slotsJ is what aircraft m's pack leaves for slots, by a flight of all slots that is known.
func (c *packCell) slotsJ(probe *rollout.Result, m int, flightJ float64) float64 {
	return c.PacksJ[m] - max(probe.SpentJ[m]-probe.EdgeJ[m]-flightJ*float64(c.Slots), 0)
}

// in is the cell in a world: over that one's slots, unless the cell is named by its own, and with joules
// times the ratio of the least energies of flight. Of packs to touchdown climb and descent are those of
// the world's airframe.
func (c packCell) in(base *world.Config) packCell {
	standard, here := world.Standard(), *base
	here.Aircraft = standard.Aircraft
	if c.Slots != standard.Slots {
		here.Slots = standard.Slots
	}
	c.Slots = c.Slots * here.Slots / standard.Slots
	scale, moreJ := here.EnergyScale(), 0.0
	if c.Landed {
		const hoverS = world.ClimbS + world.DescentS
		moreJ = hoverS*here.Physics.Propulsion.PowerW(0) - hoverS*standard.Physics.Propulsion.PowerW(0)*scale
	}
	c.PacksJ = slices.Clone(c.PacksJ)
	for m := range c.PacksJ {
		c.PacksJ[m] = c.PacksJ[m]*scale + moreJ
	}
	c.BudgetJ, c.RevisedFromJ, c.MistypedJ = c.BudgetJ*scale, c.RevisedFromJ*scale, c.MistypedJ*scale
	return c
}

// packNotes is a line on what the cells of packs are in a world.
func packNotes(w *world.Config) string {
	standard := world.Standard()
	at := *w
	if at.Aircraft = standard.Aircraft; at.Slots == standard.Slots && math.Abs(at.EnergyScale()-1) <= 1e-3 {
		return ""
	}
	return fmt.Sprintf("packs: cells are named by joules of the standard world; here they have %.3g times as many (landed: with this "+
		"airframe's climb and descent), over %d slots where no T is named\n", at.EnergyScale(), w.Slots)
}

func (c *packCell) config(base world.Config) (w world.Config, err error) {
	if w = base; c.World != "" {
		if err := w.Load(c.World); err != nil {
			return w, err
		}
	}
	w.Aircraft, w.Slots = c.Aircraft, c.Slots
	c.Shock.set(&w.Shock, w.Slots)
	return w, w.Check()
}

// packFlights flies one cell on one seed.
type packFlights struct {
	cell   *packCell
	ck     *checkpoint.Checkpoint
	config *Config
	world  world.Config
	seed   uint64
	flown  [][]int // windows of arms that landed somebody
}

func (f *packFlights) planner() *duty.Planner {
	return duty.New(&f.world.Physics, f.ck.UserPrior(), inference.EdgeCurve(f.ck).PricesSPerJ[goal.CurvePoints-1])
}

// policyRunner returns a runner of the checkpoint as it flies in the cell's world.
func (f *packFlights) policyRunner() (*rollout.Runner, error) {
	r, err := rollout.New(f.ck, f.config.Decoder, f.world, f.cell.link())
	if err == nil && f.world.HidesState() {
		at := *f.config
		at.World = f.world
		if e := at.newLearned(f.config.Estimator); e != nil {
			r.Believe(e)
		}
	}
	return r, err
}

func (f *packFlights) fly(arm string) (rollout.Result, error) {
	r, err := f.policyRunner()
	if err != nil {
		return rollout.Result{}, err
	}
	kept := &recording{DutyPlanner: f.planner()}
	switch arm {
	case policyArm:
		r.Planner = kept
	case priceArm:
		r.Planner = staying{f.planner()}
	case ruleArm:
		r.Planner = ruling(ruleMaxPriceSPerJ * f.world.PriceScale())
	case aloneArm:
		r.Planner = alone(ruleMaxPriceSPerJ * f.world.PriceScale())
	case planArm:
		p := baseline.NewOrdered(&f.world.Physics, inference.EdgeCurve(f.ck))
		if r, err = rollout.NewWithPolicy(p, &f.ck.GoalConstants, f.world, f.cell.link()); err != nil {
			return rollout.Result{}, err
		}
		r.Planner = kept
	case hindsightArm:
		bestMPS, _ := f.world.Physics.MinPower()
		h := hindsight{runner: r, seed: f.seed, cell: f.cell, slots: f.world.Slots, scale: f.world.PriceScale(), bestMPS: bestMPS}
		return h.run(f.flown...), nil
	}
	result := r.Fly(f.seed, f.cell.request())
	if kept.until != nil {
		f.flown = append(f.flown, kept.until)
	}
	return result, nil
}

// checkPackSeeds allows seeds of evaluation and, for tuning, those of calibration.
func checkPackSeeds(seed uint64) error {
	if seeds.CheckCalibration(seed) == nil {
		return nil
	}
	return seeds.CheckEvaluation(seed)
}

func measurePacks(ctx context.Context, ck *checkpoint.Checkpoint, c Config, cells []packCell, arms []string) (*PacksReport, error) {
	report := &PacksReport{}
	for k := range cells {
		cell := cells[k].in(&c.World)
		w, err := cell.config(c.World)
		if err != nil {
			return report, err
		}
		wanted := slices.DeleteFunc(cell.arms(), func(name string) bool { return !slices.Contains(arms, name) })
		flights := make([][]rollout.Result, len(c.Seeds)) // by seed and arm
		err = jobs.Do(ctx, len(c.Seeds), c.Workers, jobs.Stateless, func(_ struct{}, i int) error {
			if err := checkPackSeeds(c.Seeds[i]); err != nil {
				return err
			}
			f := packFlights{cell: &cell, ck: ck, config: &c, world: w, seed: c.Seeds[i]}
			for _, arm := range wanted {
				if err := ctx.Err(); err != nil {
					return err
				}
				x, err := f.fly(arm)
				if err != nil {
					return fmt.Errorf("cell %s, arm %s: %w", cell.Name, arm, err)
				}
				flights[i] = append(flights[i], x)
			}
			return nil
		}, command.Progress(c.Progress, "seeds, "+cell.Name, len(c.Seeds)))
		if err != nil {
			return report, err
		}
		report.add(&cell, wanted, flights)
	}
	return report, nil
}

func (p *PacksReport) add(cell *packCell, arms []string, flights [][]rollout.Result) {
	best := slices.Index(arms, hindsightArm)
	for k, arm := range arms {
		row := PackResult{
			Cell: cell.Name, Arm: arm, Aircraft: cell.Aircraft, Slots: cell.Slots, Perturbation: cell.Perturbation,
			BudgetJ: cell.BudgetJ, PacksJ: cell.PacksJ, Scope: "slots", Seeds: len(flights),
		}
		if cell.Landed {
			row.Scope = "landed"
		}
		var delays, regrets []float64
		for _, results := range flights {
			r := &results[k]
			delays = append(delays, r.DelayS)
			row.ServedSlots += float64(r.ServedSlots) / float64(len(flights))
			over := cell.overJ(r)
			if row.OverJ = max(row.OverJ, over); over > 0 {
				row.Overrun++
			}
			if best >= 0 {
				regrets = append(regrets, r.DelayS/results[best].DelayS-1)
			}
		}
		s := pareto.Summarise(delays)
		row.DelayS, row.DelayErrorS = s.Mean, s.StdError()
		if best >= 0 && !slices.ContainsFunc(regrets, func(x float64) bool { return math.IsNaN(x) || x == -1 }) {
			row.Regret = new(pareto.Summarise(regrets).Mean)
		}
		if math.IsInf(row.DelayS, 0) || math.IsNaN(row.DelayS) {
			continue // hindsight found nothing within the limits
		}
		p.Packs = append(p.Packs, row)
	}
}

//go:embed packs.tmpl
var packsText string
