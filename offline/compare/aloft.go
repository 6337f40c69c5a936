package compare

import (
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

// BesideAloft compares a flight whose budget is given by its packs with the simplest way to keep them, on
// the same seed, with the same reports lost and slots missed. The simplest way has each aircraft serve until its own
// pack can carry no further slot above its reserve and its transit (climb and way home, as this flight measured
// them), and spends what the packs have left evenly over the slots. With nobody in the air every task is computed locally.
type BesideAloft struct {
	Packs      []PackLeft `json:"packs"`
	Flight     Cost       `json:"flight"`      // in slots
	Aloft      Cost       `json:"aloft"`       // in slots
	AloftSlots int        `json:"aloft_slots"` // with an aircraft in the air
	Slots      int        `json:"slots"`       // of the flight
}

// PackLeft is what the flight left in a pack at touchdown, and what it was to keep.
type PackLeft struct {
	Aircraft int     `json:"aircraft"`
	LeftJ    float64 `json:"left_j"`
	KeptJ    float64 `json:"kept_j"`
	passed   bool    // LeftJ is below KeptJ by more than report.PassedMost of the pack
}

// readPacks sets the request of a flight by its packs: what each may spend in the slots, and their sum for the fleet.
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
		var slotsJ float64
		if b.Landed { // from take-off to touchdown: the transit is part of what is usable
			slotsJ = usableJ - a.KeptJ - a.TransitJ
		} else { // in the slots alone, but the pack must hold the transit, too
			slotsJ = min(usableJ, a.PackJ-a.TransitJ) - a.KeptJ
		}
		packs.EnergyJ = append(packs.EnergyJ, slotsJ)
	}
	sumJ := 0.0
	for _, j := range packs.EnergyJ {
		sumJ += j
	}
	if !(slices.Min(packs.EnergyJ) > 0) {
		return fmt.Errorf("read flight: climb and way home take all that a pack may give: there is nothing to compare")
	}
	f.Request = rollout.Request{Mode: goal.Ceiling, BudgetJ: sumJ, Packs: packs}
	return nil
}

// planAllAloft keeps each aircraft in the air while its pack carries another slot, and sends it home then. A slot lasts
// one second, so watts of flight are the joules of a slot.
func planAllAloft(in *duty.Input, plan *duty.Plan) {
	for m := range in.Aircraft {
		plan.Aircraft[m].Leaves = in.Aircraft[m].LeftJ < in.FlightW
	}
}

// CompareAloft flies the simplest way of BesideAloft and returns it beside the flight.
func CompareAloft(f *Flight) (c BesideAloft, err error) {
	r, err := f.evenRunner()
	if err != nil {
		return c, err
	}
	r.Planner = rollout.PlanFunc(planAllAloft)
	r.OnSettled = func(_ int, delayS, energyJ float64) { c.Aloft.add(delayS, energyJ) }
	c.AloftSlots, c.Slots = r.Fly(f.Summary.Seed, f.Request).ServedSlots, len(f.Slots)
	c.Flight, _ = f.cost()
	for _, a := range f.Summary.Aircraft {
		c.Packs = append(c.Packs, PackLeft{
			Aircraft: a.Number, LeftJ: a.LeftJ, KeptJ: a.KeptJ, passed: a.LeftJ < a.KeptJ-report.PassedMost*a.PackJ,
		})
	}
	return c, nil
}

// String says whether the reserves were kept, what each pack had left, and what both ways cost.
func (c *BesideAloft) String() string {
	verdict, packs := "kept", []string{}
	for _, p := range c.Packs {
		if p.passed {
			verdict = "passed"
		}
		packs = append(packs, fmt.Sprintf("aircraft %d landed with %s, its reserve is %s", p.Aircraft, command.Kilojoules(p.LeftJ),
			command.Kilojoules(p.KeptJ)))
	}
	return fmt.Sprintf("%s the packs' reserves (%s); each in the air until its pack is used: %.0f s of delay and %.1f kJ in slots, "+
		"%d of %d slots served, you: %.0f s and %.1f kJ", verdict, strings.Join(packs, "; "), c.Aloft.DelayS, c.Aloft.EnergyJ/1000,
		c.AloftSlots, c.Slots, c.Flight.DelayS, c.Flight.EnergyJ/1000)
}
