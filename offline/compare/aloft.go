package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"prefdt/inference/duty"
	"prefdt/inference/goal"
	"prefdt/offline/rollout"
	"prefdt/simbridge/report"
	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

// BesideAloft is a flight with a budget of packs beside the simplest way to keep them, on the same seed,
// with the same reports lost and slots missed: everybody stays in the air until the weakest pack has no
// slot left above its reserve, its climb and its way home as this flight measured them. As many times as
// there are aircraft, what the weakest has left is spent evenly. Then all come home, and every task is
// computed locally.
type BesideAloft struct {
	Packs      []PackLeft `json:"packs"`
	Flight     Cost       `json:"flight"` // in slots
	Aloft      Cost       `json:"aloft"`  // in slots
	AloftSlots int        `json:"aloft_slots"`
	Slots      int        `json:"slots"`
}

// PackLeft is what the flight left in a pack at touchdown, and what it was to keep.
type PackLeft struct {
	Aircraft int     `json:"aircraft"`
	LeftJ    float64 `json:"left_j"`
	KeptJ    float64 `json:"kept_j"`
	passed   bool
}

// readPacks has the request of a flight by its packs: what each has for the slots.
func (f *Flight) readPacks(b *report.Budget) error {
	packs := &rollout.Packs{}
	for _, a := range f.Summary.Aircraft {
		i := slices.IndexFunc(b.Packs, func(p telemetry.Pack) bool { return p.Aircraft == a.Number })
		if i < 0 || a.PackJ == 0 || a.KeptJ == 0 {
			return fmt.Errorf("read flight: the budget asks for no reserve of aircraft %d's pack, or the pack is not known: there is "+
				"nothing to compare", a.Number)
		}
		usableJ := a.PackJ
		if u := b.Packs[i].UsableJ; u != nil {
			usableJ = *u
		}
		slotsJ := usableJ - a.KeptJ - a.TransitJ
		if !b.Landed { // the way home comes out of what the pack holds beside
			slotsJ = min(usableJ, a.PackJ-a.TransitJ) - a.KeptJ
		}
		packs.EnergyJ = append(packs.EnergyJ, slotsJ)
	}
	weakestJ := slices.Min(packs.EnergyJ)
	if !(weakestJ > 0) {
		return fmt.Errorf("read flight: climb and way home take all that a pack may give: there is nothing to compare")
	}
	f.Request = rollout.Request{Mode: goal.Ceiling, BudgetJ: weakestJ * float64(len(packs.EnergyJ)), Packs: packs}
	return nil
}

// together has everybody stay in the air while each pack carries another slot, on as many times the weakest
// pack as there are aircraft, and then nobody.
func together(in *duty.Input, plan *duty.Plan) {
	weakestJ := slices.MinFunc(in.Aircraft, func(a, b duty.Aircraft) int { return cmp.Compare(a.LeftJ, b.LeftJ) }).LeftJ
	plan.SlotsJ = weakestJ * float64(len(in.Aircraft))
	for m := range plan.Aircraft {
		plan.Aircraft[m].Leaves = weakestJ < in.FlightW
	}
}

// CompareAloft flies the simplest way.
func CompareAloft(f *Flight) (c BesideAloft, err error) {
	r, err := f.evenRunner()
	if err != nil {
		return c, err
	}
	r.Planner = rollout.PlanFunc(together)
	r.OnSettled = func(_ int, delayS, energyJ float64) { c.Aloft.add(delayS, energyJ) }
	c.AloftSlots, c.Slots = r.Fly(f.Summary.Seed, f.Request).ServedSlots, len(f.Slots)
	c.Flight, _ = f.cost()
	for _, a := range f.Summary.Aircraft {
		c.Packs = append(c.Packs, PackLeft{a.Number, a.LeftJ, a.KeptJ, a.LeftJ < a.KeptJ-report.PassedMost*a.PackJ})
	}
	return c, nil
}

// String says what became of the packs.
func (c *BesideAloft) String() string {
	what, packs := "kept", []string{}
	for _, p := range c.Packs {
		if p.passed {
			what = "passed"
		}
		packs = append(packs, fmt.Sprintf("aircraft %d landed with %s, its reserve is %s", p.Aircraft, command.Kilojoules(p.LeftJ),
			command.Kilojoules(p.KeptJ)))
	}
	return fmt.Sprintf("%s the packs' reserves (%s); all in the air until the weakest pack is used: %.0f s of delay, %d of %d slots "+
		"served, you: %.0f s", what, strings.Join(packs, "; "), c.Aloft.DelayS, c.AloftSlots, c.Slots, c.Flight.DelayS)
}
