package goal

import "testing"

// Returns asked for are counted down by what is settled, and clear a budget.
func TestReturnsAreCountedDown(t *testing.T) {
	o := newObjective()
	if err := o.SetBudget(30e3, Ceiling); err != nil {
		t.Fatal(err)
	}
	o.SetReturns(0.25, 200, 31e3)
	if o.Budgeted() || o.BudgetJ() != 0 || o.Omega() != 0.25 || o.DelayToGoS() != 200 || o.EnergyToGoJ() != 31e3 {
		t.Errorf("asked for 0.25, 200 s and 31 kJ, it is %+v", o.State())
	}
	o.Settle(Settlement{DelayS: 3, EnergyJ: 300, Flying: 2})
	o.Settle(Settlement{DelayS: 2, EnergyJ: 310, Flying: 2})
	if o.DelayToGoS() != 195 || o.EnergyToGoJ() != 30390 || o.Omega() != 0.25 {
		t.Errorf("after 5 s and 610 J of 200 s and 31 kJ it is %+v", o.State())
	}
}
