package leader

import (
	"cmp"
	"fmt"

	"prefdt/firmware/account"
	"prefdt/firmware/fleet"
	"prefdt/inference/goal"
	"prefdt/telemetry"
)

// answer completes the acknowledgement of bounds with what the plan comes to.
func (d *dutyPlan) answer(b *account.Bounds, ack *telemetry.Ack) {
	ack.EnergyJ, ack.Mode, ack.CoveredUntilSlot = &b.BudgetJ, string(b.Mode), &d.covered
	ack.Saturated, ack.FloorJ = new(d.saturates(b)), &d.floorJ
	for i, leftJ := range d.leftJ {
		ack.Aircraft = append(ack.Aircraft, telemetry.AckAircraft{Number: i + 1, LeftAtTouchdownJ: leftJ})
	}
}

// saturates is whether bounds cannot be kept.
func (d *dutyPlan) saturates(b *account.Bounds) bool { return d.short || b.BudgetJ < d.floorJ }

// checkBudget returns why a budget cannot replace what is in force. most is what the fleet's packs
// hold.
func checkBudget(b *telemetry.Budget, a *account.Account, most float64) error {
	inForceJ := a.RequestedJ()
	switch {
	case len(b.Packs) == 0 && !(b.EnergyJ > 0) || !(b.EnergyJ <= most):
		return fmt.Errorf("energy_j is %v, want above 0 and at most %v, the fleet's capacity", b.EnergyJ, most)
	case b.StandDown == telemetry.StandDownShifts:
		return fmt.Errorf("stand_down is %s, and no aircraft is a standby; want %s or %s", b.StandDown, telemetry.StandDownNever,
			telemetry.StandDownLand)
	case b.ReplacesJ != nil && inForceJ == 0:
		return fmt.Errorf("no budget is in force that this could replace, of %v kJ or any other; send it without a total to replace",
			*b.ReplacesJ/1000)
	case b.ReplacesJ != nil && inForceJ != *b.ReplacesJ:
		return fmt.Errorf("the budget in force is of %v kJ, not of %v kJ; replace that one, if this is still meant", inForceJ/1000,
			*b.ReplacesJ/1000)
	}
	return nil
}

// bounds are what a budget asks of an account beyond a total of the slots, nil if nothing, or why that cannot be.
func (c *checks) bounds(b *telemetry.Budget, a *account.Account) (*account.Bounds, error) {
	if b == nil {
		return nil, nil
	}
	if err := checkBudget(b, a, packsJ(c.views)); err != nil {
		return nil, err
	}
	x := &account.Bounds{
		BudgetJ: b.EnergyJ, TotalJ: b.EnergyJ, LeastUp: 1, Mode: cmp.Or(goal.Mode(b.Mode), goal.Ceiling),
		Scope: cmp.Or(b.Scope, telemetry.ScopeSlots), StandDown: cmp.Or(b.StandDown, telemetry.StandDownNever),
	}
	if b.LeastUp != nil {
		x.LeastUp = *b.LeastUp
	}
	if x.LeastUp > len(c.views) {
		return nil, fmt.Errorf("least_up is %d, this fleet has %d", x.LeastUp, len(c.views))
	}
	if len(b.Packs) == 0 && !x.Landed() && !x.MayLand() {
		return nil, nil
	}
	for i := range b.Packs {
		p := &b.Packs[i]
		if p.Aircraft > len(c.views) {
			return nil, fmt.Errorf("packs.aircraft is %d, this fleet has %d", p.Aircraft, len(c.views))
		}
		pack, err := packBounds(p, &c.views[p.Aircraft-1])
		if err != nil {
			return nil, err
		}
		x.Packs = append(x.Packs, pack)
	}
	if x.TotalJ > 0 {
		return x, nil
	}
	with := *a
	with.SetBounds(x)
	for i := range c.views {
		v := &c.views[i]
		if _, named := x.Pack(v.Number); !named && (climbsYet(c.mission, v) || v.UnderCommand() && v.InAir) {
			return nil, fmt.Errorf("aircraft %d flies and is not in packs; name it, or give energy_j", v.Number)
		}
	}
	if x.BudgetJ = with.PacksJ(c.views); !(x.BudgetJ > 0) {
		return nil, fmt.Errorf("packs hold nothing above their reserves; change batteries, or ask for less")
	}
	return x, nil
}

// packBounds are the bounds of one aircraft's pack.
func packBounds(p *telemetry.Pack, v *fleet.View) (x account.PackBounds, err error) {
	x.Number = p.Aircraft
	usable, holdsJ := "its pack", v.CapacityJ
	if p.UsableJ != nil {
		x.UsableJ, usable, holdsJ = *p.UsableJ, "usable_j", *p.UsableJ
	}
	switch {
	case p.ReserveJ != nil:
		x.ReserveJ, x.Reserves = *p.ReserveJ, true
	case p.Reserve != nil:
		x.ReserveShare, x.Reserves = *p.Reserve, true
	}
	switch {
	case x.UsableJ > v.CapacityJ:
		return x, fmt.Errorf("packs.usable_j of aircraft %d is %v, want at most %v, its pack's capacity", x.Number, x.UsableJ, v.CapacityJ)
	case x.KeptJ(v) >= holdsJ:
		return x, fmt.Errorf("packs.reserve of aircraft %d is %.1f kJ (%.0f %% of all that its pack holds), want less than %.1f kJ, %s",
			x.Number, x.KeptJ(v)/1000, 100*x.KeptJ(v)/v.CapacityJ, holdsJ/1000, usable)
	}
	return x, nil
}
