package serve

import (
	"strings"
	"testing"

	"prefdt/telemetry"
)

// What keeps all aircraft up is the budget in force, of which none may land; where no budget lets any
// land there is nothing to keep.
func TestKeepUp(t *testing.T) {
	s := &telemetry.Status{
		State: telemetry.StateFlying, BudgetJ: new(84e3), Mode: new(telemetry.ModeCeiling), Scope: telemetry.ScopeLanded,
		CoveredUntilSlot: new(99),
		Aircraft:         []telemetry.StatusAircraft{{Number: 1, ReserveJ: new(9e3)}, {Number: 2}},
	}
	q := request{ID: "b1", Kind: telemetry.KindBudget, Action: keepUp, ReplacesJ: new(84e3)}
	r, err := q.command(s)
	if err != nil {
		t.Fatal(err)
	}
	b := r.Budget
	if b.StandDown != telemetry.StandDownNever || b.EnergyJ != 84e3 || b.Scope != telemetry.ScopeLanded || *b.ReplacesJ != 84e3 ||
		len(b.Packs) != 1 || *b.Packs[0].ReserveJ != 9e3 {
		t.Errorf("%+v", b)
	}
	if text := consequences(s)[keepUp]; !strings.HasPrefix(text, "No aircraft comes home before the last slot") ||
		!strings.Contains(text, "battery low still sends it home") {
		t.Error(text)
	}
	s.FloorJ = 90e3 // the button says what that takes
	if _, err := q.command(s); err != nil || !strings.Contains(consequences(s)[keepUp], "below the floor of 90 kJ") {
		t.Errorf("below the floor: %v, %s", err, consequences(s)[keepUp])
	}
	s.CoveredUntilSlot = nil
	if _, err := q.command(s); err == nil {
		t.Error("a budget that lets none land was replaced")
	}
	if text := consequences(s)[keepUp]; text != "No budget in force lets aircraft land." {
		t.Error(text)
	}
}
