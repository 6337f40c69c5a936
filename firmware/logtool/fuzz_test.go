package logtool

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"testing"

	"prefdt/firmware/ledger"
	"prefdt/telemetry"
)

// FuzzFlights checks and exports any flights that a ledger with valid checksums may
// contain. A CSV has the lines and columns it should.
func FuzzFlights(f *testing.F) {
	for _, all := range [][]ledger.Flight{nil, {testFlight("m1", 0, 3), testFlight("m2", 1, 2)}, {testFlight("m", 90, 100)}} {
		raw, err := json.Marshal(all)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	for _, text := range []string{
		`[{"rows":[{"slot":3,"aircraft":[{"number":2}],"seen":{"snapshot":{"aircraft":[{"number":2},{"number":0}],"users":[{"id":1,` +
			`"gain":[1]},{"id":2}]},"names":["a"],"believed":{"wind_mps":[1,2],"gain":[[1,2,3]],"slow_probability":[0.5]}}},{"slot":4,` +
			`"seen":{"snapshot":{"aircraft":[{"number":2,"flown":{"flight_j":1}}],"results":[[1,3,2,0.4,0.1]]}}}]}]`,
		`[{"rows":[{"slot":0,"aircraft":[{"number":1000000000}]}]}]`,
		`[{"rows":[{"slot":5},{"slot":-9223372036854775808},{"slot":9223372036854775807}]}]`,
		`[{"state":{"mission":"\n,\"","account":{"goal":{"slot":9,"spent_j":1e300}}},"rows":[{"slot":8,"energy_j":1e308,` +
			`"aircraft":[{"number":-1,"spent_j":1e308},{"number":1,"spent_j":1e308}]}]}]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var all []ledger.Flight
		if json.Unmarshal(raw, &all) != nil {
			return
		}
		rows := 0
		for _, flight := range all {
			if r := auditFlight(flight); len(r.Faults) > 20 || r.Rows != len(flight.Rows) {
				t.Fatalf("%+v", r)
			}
			rows += len(flight.Rows)
		}
		var out bytes.Buffer
		if err := writeCSV(&out, all); err != nil {
			t.Fatal(err)
		}
		if lines, err := csv.NewReader(&out).ReadAll(); err != nil || len(lines) != rows+1 || len(lines[0]) > 14+8*telemetry.MaxAircraft {
			t.Fatalf("%d lines for %d rows, %v", len(lines), rows, err)
		}
		if err := writeUsersCSV(io.Discard, all); err != nil {
			t.Fatal(err)
		}
		if err := writeJSON(&out, all); err != nil {
			t.Fatal(err)
		}
	})
}
