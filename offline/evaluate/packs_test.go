package evaluate

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"prefdt/inference"
	"prefdt/offline/command"
	"prefdt/offline/offlinetest"
	"prefdt/simbridge/world"
)

// TestPacks measures two cells on one calibration seed: what is flown beats all aloft by far, nothing
// is passed, and hindsight is the least.
func TestPacks(t *testing.T) {
	ck := offlinetest.Shipped(t)
	cells, arms, err := selectPacks([]string{"24kJ", "12+18kJ"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{World: world.Standard(), Seeds: []uint64{100_901}, Decoder: inference.DecoderDispatch, Workers: 1,
		Progress: &bytes.Buffer{}}
	c.World.Slots = 60 // hindsight tries hundreds of flights; joules follow the slots
	report := offlinetest.Must(measurePacks(t.Context(), ck, c, cells, arms))(t)
	delayS := map[string]float64{}
	for _, r := range report.Packs {
		delayS[r.Cell+" "+r.Arm] = r.DelayS
		if r.Arm == hindsightArm && !(r.ServedSlots > 54 && r.ServedSlots <= 60 && r.OverJ == 0) {
			t.Errorf("%+v", r)
		}
		if r.Arm == policyArm && (r.OverJ != 0 || r.ServedSlots != 60 || r.Regret == nil || *r.Regret > 0.1) {
			t.Errorf("%+v", r)
		}
	}
	for _, cell := range []string{"24kJ", "12+18kJ"} {
		flown, best := delayS[cell+" policy"], delayS[cell+" hindsight"]
		if !(flown < 0.95*delayS[cell+" aloft"]) || !(best > 30 && best <= 1.01*flown) {
			t.Errorf("%s: %v", cell, delayS)
		}
	}
	text := offlinetest.Must(json.Marshal(report))(t)
	for _, field := range []string{"cell", "arm", "aircraft", "slots", "perturbation", "budget_j", "packs_j", "scope", "delay_s", "regret",
		"over_j", "served_slots"} {
		if !strings.Contains(string(text), `"`+field+`":`) {
			t.Errorf("the report has no %s: %s", field, text)
		}
	}
	var table bytes.Buffer
	if err := command.PrintText(&table, packsText, report); err != nil || strings.Count(table.String(), "\n") != 1+len(report.Packs) {
		t.Errorf("%v: %s", err, table.String())
	}
}

// TestPacksWithoutTheLostAircraft checks that a world is refused that loses an aircraft which a cell does not have.
func TestPacksWithoutTheLostAircraft(t *testing.T) {
	w := world.Standard()
	w.Aircraft, w.AircraftLosses = 4, []world.AircraftLoss{{Aircraft: 3, Slot: 50}}
	cells, arms, err := selectPacks([]string{"24kJ"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{World: w, Seeds: []uint64{100_901}, Decoder: inference.DecoderDispatch, Workers: 1}
	if report, err := measurePacks(t.Context(), offlinetest.Shipped(t), c, cells, arms); err == nil || len(report.Packs) > 0 {
		t.Errorf("%+v", report)
	}
}

// TestPackCells checks that each cell has a name of its own that -cells can be given, that cells are over a world's own slots, and that
// their joules are as scarce there as in the standard world, where they are what their names say.
func TestPackCells(t *testing.T) {
	standard := world.Standard()
	var names []string
	for _, c := range packCells() {
		if _, err := c.config(standard); err != nil || slices.Contains(names, c.Name) || strings.Contains(c.Name, ",") {
			t.Errorf("cell %q: %v", c.Name, err)
		}
		names = append(names, c.Name)
		x := c.in(&standard)
		if x.Slots != c.Slots || x.BudgetJ != c.BudgetJ || !slices.Equal(x.PacksJ, c.PacksJ) || x.RevisedFromJ != c.RevisedFromJ {
			t.Errorf("%s becomes %+v", c.Name, x)
		}
	}
	heavy := world.Standard()
	heavy.Aircraft, heavy.Slots = 3, 60
	heavy.Physics.Propulsion.BladeW *= 3
	heavy.Physics.Propulsion.InducedW *= 3
	_, standardW := standard.Physics.MinPower()
	_, heavyW := heavy.Physics.MinPower()
	ratio := heavyW / standardW
	groundJ := func(w *world.Config) float64 { return (world.ClimbS + world.DescentS) * w.Physics.Propulsion.PowerW(0) }
	for name, want := range map[string]struct {
		slots, revise int
		joules        float64 // total, or of the first pack
	}{
		"24kJ":                       {60, 0, 24e3 * ratio * 0.6},
		"31.5kJ revised from 27.5kJ": {60, 30, 31.5e3 * ratio * 0.6},
		"12+18kJ":                    {60, 0, 12e3 * ratio * 0.6},
		"37.6+37.6kJ landed":         {60, 0, (37.6e3-groundJ(&standard))*ratio*0.6 + groundJ(&heavy)},
		"60+60kJ landed T=300":       {300, 0, (60e3-groundJ(&standard))*ratio + groundJ(&heavy)},
		"42+48kJ landed gusts":       {60, 0, (42e3-groundJ(&standard))*ratio*0.6 + groundJ(&heavy)},
	} {
		cells, _, err := selectPacks([]string{name}, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := cells[0].in(&heavy)
		joules := c.BudgetJ
		if c.PacksJ != nil {
			joules = c.PacksJ[0]
		}
		w, err := c.config(heavy)
		if err != nil || w.Slots != want.slots || w.Physics != heavy.Physics || w.Aircraft != 2 || c.request().ReviseSlot != want.revise ||
			math.Abs(joules-want.joules) > 1e-6*joules {
			t.Errorf("%s: %v, %d slots, %v J, revised in slot %d; want %+v", name, err, w.Slots, joules, c.request().ReviseSlot, want)
		}
	}
	if note := packNotes(&heavy); !strings.Contains(note, "over 60 slots") || packNotes(&standard) != "" {
		t.Errorf("%q, in the standard world %q", note, packNotes(&standard))
	}
}
