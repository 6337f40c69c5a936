package evaluate

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

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
	name         string
	aircraft     int
	slots        int // the standard world's, unless the name has others
	perturbation string
	budgetJ      float64   // of the fleet, in slots; 0: packs
	packsJ       []float64 // usable, less reserve
	landed       bool      // packs are from take-off to touchdown
	revise       rollout.Request
	world        string // field world, by name
	change       func(*world.Config)
	link         rollout.ReportLink
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
	aloftArm     = "aloft"     // all fly to the end, as the paper has it
	weakestArm   = "weakest"   // the same, on as many times the weakest pack as there are aircraft
	priceArm     = "price"     // all fly to the end, at a price for each pack
	driftArm     = "drift"     // aloft, and never farther from home than the slots left allow
	ruleArm      = "rule"      // the lab's simple rule, for totals
	planArm      = "plan"      // the policy's planner without a network
	hindsightArm = "hindsight" // who knew everything
)

// packArms are all arms.
var packArms = []string{policyArm, aloftArm, weakestArm, priceArm, driftArm, ruleArm, planArm, hindsightArm}

func shockAt(factor, share float64) func(*world.Config) {
	return func(c *world.Config) {
		c.Shock = world.Shock{FromSlot: int(share * float64(c.Slots)), Factor: factor}
	}
}

// packCells returns the cells.
func packCells() (cells []packCell) {
	total := func(kJ float64, aircraft int, perturbation string, change func(*world.Config)) {
		name := fmt.Sprintf("%gkJ", kJ)
		if aircraft != 2 {
			name += fmt.Sprintf(" M=%d", aircraft)
		}
		if perturbation != calmAir {
			name += " " + perturbation
		}
		cells = append(cells, packCell{
			name: name, aircraft: aircraft, slots: 100, perturbation: perturbation, budgetJ: kJ * 1e3, change: change,
		})
	}
	packs := func(slots int, landed bool, kJ ...float64) *packCell {
		text := make([]string, len(kJ))
		x := packCell{aircraft: len(kJ), slots: slots, perturbation: calmAir, landed: landed}
		for m, k := range kJ {
			text[m] = fmt.Sprintf("%g", k)
			x.packsJ = append(x.packsJ, k*1e3)
		}
		if x.name = strings.Join(text, "+") + "kJ"; landed {
			x.name += " landed"
		}
		if slots != 100 {
			x.name += fmt.Sprintf(" T=%d", slots)
		}
		cells = append(cells, x)
		return &cells[len(cells)-1]
	}
	for _, kJ := range []float64{16, 20, 24, 27.5, 29.5, 31.5, 33} {
		total(kJ, 2, calmAir, nil)
	}
	total(34, 2, "x1.25 at half time", shockAt(1.25, 0.5))
	total(38, 2, "x1.5 at half time", shockAt(1.5, 0.5))
	total(42, 2, "x1.5 at half time", shockAt(1.5, 0.5))
	total(36, 2, "x1.3", shockAt(1.3, 0))
	for _, r := range [][2]float64{{27.5, 31.5}, {33, 26}} {
		total(r[1], 2, fmt.Sprintf("revised from %gkJ", r[0]), nil)
		cells[len(cells)-1].revise = rollout.Request{BudgetJ: r[0] * 1e3, ReviseSlot: 50, RevisedBudgetJ: r[1] * 1e3}
	}
	total(24, 2, "40% of reports lost", nil)
	cells[len(cells)-1].link = rollout.ReportLink{LossRate: 0.4, Fallback: rollout.FallbackOffer}
	total(16, 1, calmAir, nil)
	total(42, 3, calmAir, nil)
	total(50, 4, calmAir, nil)
	total(90, 8, calmAir, nil)
	packs(100, false, 15, 15)
	packs(100, false, 13.5, 16.5)
	packs(100, false, 12, 18)
	packs(100, false, 9, 21)
	packs(100, false, 11, 13, 18)
	packs(100, true, 37.6, 37.6)
	packs(100, true, 33.6, 41.6)
	packs(300, true, 60, 60)
	packs(300, true, 60, 90)
	packs(900, true, 120, 150)
	for _, name := range []string{"gusts", "field"} {
		x := packs(100, true, 42, 48)
		x.name, x.world, x.perturbation = x.name+" "+name, name, name
	}
	return cells
}

// selectPacks returns the cells and the arms of these names, or all where none is named.
func selectPacks(cellNames, armNames []string) (cells []packCell, arms []string, err error) {
	all := packCells()
	var known []string
	for _, c := range all {
		if known = append(known, c.name); len(cellNames) == 0 || slices.Contains(cellNames, c.name) {
			cells = append(cells, c)
		}
	}
	for _, name := range cellNames {
		if !slices.Contains(known, name) {
			return nil, nil, fmt.Errorf("-cells has %q, want of %q", name, known)
		}
	}
	for _, name := range armNames {
		if !slices.Contains(packArms, name) {
			return nil, nil, fmt.Errorf("-arms has %q, want of %q", name, packArms)
		}
	}
	if len(armNames) == 0 {
		armNames = packArms
	}
	return cells, armNames, nil
}

// arms are those that have a meaning in a cell.
func (c *packCell) arms() (arms []string) {
	for _, name := range packArms {
		switch {
		case c.packsJ == nil && (name == weakestArm || name == priceArm), c.packsJ != nil && name == ruleArm, !c.landed && name == driftArm:
		default:
			arms = append(arms, name)
		}
	}
	return arms
}

// request is what a flight of the cell is asked for.
func (c *packCell) request() rollout.Request {
	if c.packsJ != nil {
		sumJ := 0.0
		for _, j := range c.packsJ {
			sumJ += j
		}
		return rollout.Request{Mode: goal.Ceiling, BudgetJ: sumJ, Packs: &rollout.Packs{EnergyJ: c.packsJ, Landed: c.landed}}
	}
	r := rollout.Request{Mode: goal.Ceiling, BudgetJ: c.budgetJ}
	if c.revise.ReviseSlot > 0 {
		r = c.revise
		r.Mode = goal.Ceiling
	}
	return r
}

// unlimited is the same scope without a limit.
func (c *packCell) unlimited() rollout.Request {
	r := rollout.Request{Mode: goal.Ceiling, BudgetJ: rollout.UnlimitedJ}
	if c.packsJ != nil {
		r.Packs = &rollout.Packs{EnergyJ: slices.Repeat([]float64{rollout.UnlimitedJ}, len(c.packsJ)), Landed: c.landed}
	}
	return r
}

// overJ is what a flight spent beyond the worst pack, or the total.
func (c *packCell) overJ(r *rollout.Result) (over float64) {
	if c.packsJ == nil {
		return r.EnergyJ - c.budgetJ
	}
	over = math.Inf(-1)
	for m, j := range r.SpentJ {
		over = max(over, j-c.packsJ[m])
	}
	return over
}

// slotsJ is what aircraft m's pack leaves for slots, by a flight of all slots that is known.
func (c *packCell) slotsJ(probe *rollout.Result, m int, flightJ float64) float64 {
	return c.packsJ[m] - max(probe.SpentJ[m]-probe.EdgeJ[m]-flightJ*float64(c.slots), 0)
}

// in is the cell in a world: over that one's slots, unless the cell is named by its own, and with joules
// times the ratio of the least energies of flight. Of packs to touchdown climb and descent are those of
// the world's airframe.
func (c packCell) in(base *world.Config) packCell {
	standard, here := world.Standard(), *base
	here.Aircraft = standard.Aircraft
	if c.slots != standard.Slots {
		here.Slots = standard.Slots
	}
	c.slots = c.slots * here.Slots / standard.Slots
	scale, moreJ := here.EnergyScale(), 0.0
	if c.landed {
		const hoverS = world.ClimbS + world.DescentS
		moreJ = hoverS*here.Physics.Propulsion.PowerW(0) - hoverS*standard.Physics.Propulsion.PowerW(0)*scale
	}
	c.packsJ = slices.Clone(c.packsJ)
	for m := range c.packsJ {
		c.packsJ[m] = c.packsJ[m]*scale + moreJ
	}
	c.budgetJ *= scale
	c.revise.BudgetJ, c.revise.RevisedBudgetJ = c.revise.BudgetJ*scale, c.revise.RevisedBudgetJ*scale
	c.revise.ReviseSlot = c.revise.ReviseSlot * here.Slots / standard.Slots
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

// config is the cell's world.
func (c *packCell) config(base world.Config) (w world.Config, err error) {
	if w = base; c.world != "" {
		if err := w.Load(c.world); err != nil {
			return w, err
		}
	}
	if w.Aircraft, w.Slots = c.aircraft, c.slots; c.change != nil {
		c.change(&w)
	}
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
	r, err := rollout.New(f.ck, f.config.Decoder, f.world, f.cell.link)
	if err == nil && f.world.HidesState() {
		at := *f.config
		at.World = f.world
		if e := at.newLearned(f.config.Estimator); e != nil {
			r.Believe(e)
		}
	}
	return r, err
}

// fly flies an arm.
func (f *packFlights) fly(arm string) (rollout.Result, error) {
	r, err := f.policyRunner()
	if err != nil {
		return rollout.Result{}, err
	}
	bestMPS, _ := f.world.Physics.MinPower()
	request := f.cell.request()
	switch arm {
	case policyArm:
		kept := &recording{planner: f.planner()}
		r.Planner = kept
		defer func() { f.flown = append(f.flown, kept.until) }()
	case weakestArm:
		weakestJ := slices.Min(f.cell.packsJ)
		request.Packs = &rollout.Packs{EnergyJ: slices.Repeat([]float64{weakestJ}, len(f.cell.packsJ)), Landed: f.cell.landed}
		request.BudgetJ = weakestJ * float64(len(f.cell.packsJ))
	case priceArm:
		r.Planner = staying{f.planner()}
	case driftArm:
		r.Planner = &drifting{bestMPS: bestMPS}
	case ruleArm:
		r.Planner = &ruling{maxPriceSPerJ: ruleMaxPriceSPerJ * f.world.PriceScale()}
	case planArm:
		p := baseline.NewOrdered(&f.world.Physics, inference.EdgeCurve(f.ck))
		if r, err = rollout.NewWithPolicy(p, &f.ck.GoalConstants, f.world, f.cell.link); err != nil {
			return rollout.Result{}, err
		}
		kept := &recording{planner: f.planner()}
		r.Planner = kept
		defer func() { f.flown = append(f.flown, kept.until) }()
	case hindsightArm:
		h := hindsight{
			runner: r, seed: f.seed, cell: f.cell, slots: f.world.Slots, scale: f.world.PriceScale(), plan: &fixed{bestMPS: bestMPS},
		}
		r.Planner = h.plan
		for m := range f.world.Aircraft {
			h.order = append(h.order, m)
		}
		return h.run(f.flown...), nil
	}
	return r.Fly(f.seed, request), nil
}

// checkPackSeeds allows seeds of evaluation and, for tuning, those of calibration.
func checkPackSeeds(seed uint64) error {
	if seeds.CheckCalibration(seed) == nil {
		return nil
	}
	return seeds.CheckEvaluation(seed)
}

// measurePacks measures cells by arms.
func measurePacks(ctx context.Context, ck *checkpoint.Checkpoint, c Config, cells []packCell, arms []string) (*PacksReport, error) {
	report := &PacksReport{}
	for k := range cells {
		cell := cells[k].in(&c.World)
		w, err := cell.config(c.World)
		if err != nil {
			return nil, err
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
					return fmt.Errorf("cell %s, arm %s: %w", cell.name, arm, err)
				}
				flights[i] = append(flights[i], x)
			}
			return nil
		}, command.Progress(c.Progress, "seeds, "+cell.name, len(c.Seeds)))
		if err != nil {
			return report, err
		}
		report.add(&cell, wanted, flights)
	}
	return report, nil
}

// add adds a cell's rows.
func (p *PacksReport) add(cell *packCell, arms []string, flights [][]rollout.Result) {
	best := slices.Index(arms, hindsightArm)
	for k, arm := range arms {
		row := PackResult{
			Cell: cell.name, Arm: arm, Aircraft: cell.aircraft, Slots: cell.slots, Perturbation: cell.perturbation,
			BudgetJ: cell.budgetJ, PacksJ: cell.packsJ, Scope: "slots", Seeds: len(flights),
		}
		if cell.landed {
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
		row.DelayS, row.DelayErrorS = s.Mean, s.Std/math.Sqrt(float64(len(delays)))
		if best >= 0 && !slices.ContainsFunc(regrets, func(x float64) bool { return math.IsNaN(x) || x == -1 }) {
			row.Regret = new(pareto.Summarise(regrets).Mean)
		}
		if math.IsInf(row.DelayS, 0) || math.IsNaN(row.DelayS) {
			continue // hindsight found nothing within the limits
		}
		p.Packs = append(p.Packs, row)
	}
}

// RegretText is the regret in percent.
func (r *PackResult) RegretText() string {
	if r.Regret == nil {
		return "-"
	}
	return fmt.Sprintf("%+.1f %%", 100**r.Regret)
}

//go:embed packs.tmpl
var packsText string

func (p *PacksReport) print(w io.Writer) error { return command.PrintText(w, packsText, p) }
