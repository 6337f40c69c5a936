package logtool

import (
	"bytes"
	"encoding/csv"
	"io"
	"slices"
	"strings"
	"testing"

	"prefdt/firmware/account"
	"prefdt/firmware/ledger"
	"prefdt/inference/slot"
)

// fieldFlight is a flight in which two users' tasks were decided on beliefs.
func fieldFlight() ledger.Flight {
	f := testFlight("m1", 0, 4)
	for n := range f.Rows {
		f.Rows[n].Seen = &account.Seen{
			Snapshot: slot.Snapshot{
				Slot:     n,
				Aircraft: []slot.Aircraft{{Number: 2, Flown: slot.Flown{EastMPS: float64(n), NorthMPS: -3, FlightJ: 130 + float64(n)}}},
				Users:    []slot.User{{ID: 7, CPUHz: 1e9, Gain: []float64{1e-9}}, {ID: 9, CPUHz: 2e9, Gain: []float64{2e-9}}},
			},
			Names: []string{"u7", "u9", "idle"},
			Believed: account.Believed{
				WindMPS: &[2]float64{4.5, -1}, WindSDMPS: 0.75, PowerMultiplier: 1.07,
				Gain: [][]float64{{3e-9}, {4e-9}}, GainLogSD: [][]float64{{0.3}, {0.4}}, SlowChance: []float64{0.9, 0.1},
			},
		}
	}
	up := slot.Upload{Bits: 5e5, S: 0.25}
	f.Rows[1].Seen.Snapshot.Results = []slot.Result{{User: 7, Slot: 0, Aircraft: 2, CompletionS: 0.5, LocalS: 0.4, LocalCycles: 2e8,
		Upload: up}}
	f.Rows[1].Seen.UploadGain = []float64{5e-9}
	f.Rows[2].Seen.Snapshot.Results = []slot.Result{{User: 9, Slot: 1, CompletionS: 1.5, LocalS: 1.5, LocalCycles: 1e9},
		{User: 9, Slot: 0, CompletionS: 1.2}}
	f.Rows[2].Seen.UploadGain = []float64{0, 0}
	return f
}

func lines(t *testing.T, write func(io.Writer, []ledger.Flight) error, f ledger.Flight) (text []string) {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b, []ledger.Flight{f}); err != nil {
		t.Fatal(err)
	}
	all, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range all {
		text = append(text, strings.Join(line, ","))
	}
	return text
}

func TestExportOfBeliefs(t *testing.T) {
	got := lines(t, writeUsersCSV, fieldFlight())
	for n, want := range map[int]string{
		0: "mission,slot,user,cpu_hz,slow_probability,completion_s,local_s,local_cycles,computed_on,upload_s,upload_bits,upload_gain," +
			"aircraft1_reported_gain,aircraft1_gain,aircraft1_gain_log_sd,aircraft2_reported_gain,aircraft2_gain,aircraft2_gain_log_sd",
		1: "m1,0,u7,1e+09,0.9,0.5,0.4,2e+08,2,0.25,500000,5e-09,,,,1e-09,3e-09,0.3",
		2: "m1,0,u9,2e+09,0.1,1.2,,,local,,,,,,,2e-09,4e-09,0.4",
		4: "m1,1,u9,2e+09,0.1,1.5,1.5,1e+09,local,,,,,,,2e-09,4e-09,0.4",
		8: "m1,3,u9,2e+09,0.1,,,,,,,,,,,2e-09,4e-09,0.4", // its result never came
	} {
		if len(got) != 9 || got[n] != want {
			t.Errorf("line %d of %d: %s, want %s", n, len(got), got[n], want)
		}
	}

	f := fieldFlight()
	f.Rows = slices.Delete(f.Rows, 2, 3) // it was missed: how slot 1 was flown is not known
	got = lines(t, writeCSV, f)
	for n, want := range map[int]string{
		0: "wind_east_mps,wind_north_mps,wind_sd_mps,power_multiplier,aircraft1_flown_east_mps,aircraft1_flown_north_mps," +
			"aircraft1_flight_j,aircraft2_flown_east_mps,aircraft2_flown_north_mps,aircraft2_flight_j",
		1: "4.5,-1,0.75,1.07,,,,1,-3,131",
		2: "4.5,-1,0.75,1.07,,,,,,",
	} {
		if !strings.HasSuffix(got[n], ","+want) {
			t.Errorf("line %d: %s, want %s at its end", n, got[n], want)
		}
	}
	if got := lines(t, writeUsersCSV, testFlight("m1", 0, 4)); len(got) != 1 {
		t.Errorf("a flight without beliefs has %q", got)
	}
}
