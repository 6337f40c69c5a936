package evaluate

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/simbridge/world"
)

// TestPacks measures two cells on one calibration seed: what is flown beats all aloft by far, nothing
// is passed, and hindsight is the least.
func TestPacks(t *testing.T) {
	ck, err := checkpoint.Load("../../configs/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	cells, arms, err := selectPacks([]string{"24kJ", "12+18kJ"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{World: world.Standard(), Seeds: []uint64{100_901}, Decoder: inference.DecoderDispatch, Workers: 1,
		Progress: &bytes.Buffer{}}
	report, err := measurePacks(t.Context(), ck, c, cells, arms)
	if err != nil {
		t.Fatal(err)
	}
	delayS := map[string]float64{}
	for _, r := range report.Packs {
		delayS[r.Cell+" "+r.Arm] = r.DelayS
		if r.Arm == policyArm && (r.OverJ != 0 || r.ServedSlots != 100 || r.Regret == nil || *r.Regret > 0.1) {
			t.Errorf("%+v", r)
		}
	}
	for _, cell := range []string{"24kJ", "12+18kJ"} {
		flown, best := delayS[cell+" policy"], delayS[cell+" hindsight"]
		if !(flown < 0.95*delayS[cell+" aloft"]) || !(best > 50 && best <= 1.01*flown) {
			t.Errorf("%s: %v", cell, delayS)
		}
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"cell", "arm", "aircraft", "slots", "perturbation", "budget_j", "packs_j", "scope", "delay_s", "regret",
		"over_j", "served_slots"} {
		if !strings.Contains(string(text), `"`+field+`":`) {
			t.Errorf("the report has no %s: %s", field, text)
		}
	}
	var table bytes.Buffer
	if err := report.print(&table); err != nil || strings.Count(table.String(), "\n") != 1+len(report.Packs) {
		t.Errorf("%v: %s", err, table.String())
	}
}

// TestPackCells checks that no name is in use twice, or cannot be given with -cells.
func TestPackCells(t *testing.T) {
	var names []string
	for _, c := range packCells() {
		if slices.Contains(names, c.name) || strings.Contains(c.name, ",") {
			t.Errorf("cell %q", c.name)
		}
		names = append(names, c.name)
		if _, err := c.config(world.Standard()); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range [][2][]string{{{"20J"}, nil}, {nil, {"best"}}} {
		if _, _, err := selectPacks(bad[0], bad[1]); err == nil {
			t.Errorf("cells %v and arms %v are accepted", bad[0], bad[1])
		}
	}
}
