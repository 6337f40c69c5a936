package logtool

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"prefdt/firmware/account"
	"prefdt/firmware/energy"
	"prefdt/firmware/ledger"
	missions "prefdt/firmware/mission"
	"prefdt/inference/goal"
)

// testFlight is two aircraft that draw 135 J each a slot.
func testFlight(mission string, from, to int) ledger.Flight {
	f := ledger.Flight{State: ledger.State{State: missions.State{Mission: mission, Phase: "done"},
		Account: account.State{Objective: goal.State{Slot: to, Slots: to, SpentJ: 270 * float64(to)}}}}
	for i := from; i < to; i++ {
		r := account.Row{Slot: i, Mission: mission, DelayS: 2, EnergyJ: 270, PropulsionMultiplier: 1, Reported: 5}
		for n := 1; n <= 2; n++ {
			r.Aircraft = append(r.Aircraft, account.AircraftRow{Number: n, EnergyJ: 135, SpentJ: 135 * float64(i+1), Source: energy.Current,
				EastM: float64(i)})
		}
		f.Rows = append(f.Rows, r)
	}
	return f
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(f *ledger.Flight)
		fault  string
	}{
		{"whole", func(f *ledger.Flight) {}, ""},
		{"its first rows are deleted", func(f *ledger.Flight) { *f = testFlight("m1", 40, 100) }, ""},
		{"not flown", func(f *ledger.Flight) { *f = ledger.Flight{} }, ""},
		{"a hole", func(f *ledger.Flight) { f.Rows = append(f.Rows[:10], f.Rows[13:]...) }, "slots 10 to 12 are missing"},
		{"the end is missing", func(f *ledger.Flight) { f.Rows = f.Rows[:90] }, "the last row is of slot 89"},
		{"not a number", func(f *ledger.Flight) { f.Rows[3].Aircraft[0].EnergyJ = math.NaN() }, "slot 3"},
		{"a negative draw", func(f *ledger.Flight) { f.Rows[3].Aircraft[0].EnergyJ = -1 }, "slot 3"},
		{"joules credited", func(f *ledger.Flight) { f.Rows[50].Aircraft[1].SpentJ = 10 }, "fewer than before"},
		{"a sum that is off", func(f *ledger.Flight) { f.Rows[7].EnergyJ = 280 }, "slot 7: 280 J"},
		{"a total that is off", func(f *ledger.Flight) { f.State.Account.Objective.SpentJ += 500 }, "the mission accounts 27500 J"},
	} {
		f := testFlight("m1", 0, 100)
		c.change(&f)
		r := auditFlight(f)
		if got := strings.Join(r.Faults, "; "); (c.fault == "") != (got == "") || !strings.Contains(got, c.fault) {
			t.Errorf("%s: %q, want %q", c.name, got, c.fault)
		}
	}
	if r := auditFlight(testFlight("m1", 0, 100)); r.SpentJ != 27000 || r.DelayS != 200 || r.Rows != 100 || r.LastSlot != 99 {
		t.Errorf("%+v", r)
	}
}

func TestExport(t *testing.T) {
	all := []ledger.Flight{testFlight("m1", 0, 3), testFlight("m2", 0, 2)}
	all[0].Rows[1].Aircraft = all[0].Rows[1].Aircraft[:1] // one was lost
	var b bytes.Buffer
	if err := writeCSV(&b, all); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(lines) != 6 || len(lines[0]) != 28 {
		t.Fatalf("%v, %v", lines, err)
	}
	want := "m1,2,2,270,0,1,0,5,0,0,0,,,,135,405,current_voltage,2,0,0,,135,405,current_voltage,2,0,0,"
	if got := strings.Join(lines[3], ","); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if lines[0][21] != "aircraft2_energy_j" || lines[2][21] != "" || lines[5][0] != "m2" {
		t.Errorf("%v", lines)
	}
	b.Reset()
	if err := writeJSON(&b, all); err != nil {
		t.Fatal(err)
	}
	var back []ledger.Flight
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || !reflect.DeepEqual(back, all) {
		t.Errorf("%v, %+v", err, back)
	}
}
