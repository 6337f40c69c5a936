package serve

import (
	"encoding/json"
	"testing"

	"prefdt/telemetry/command"
)

// Whatever a page sends, what is made of it is a command that a leader can read, or an error.
func FuzzRequest(f *testing.F) {
	for _, text := range []string{
		`{"id":"b1","kind":"budget","energy":"42 kJ","mode":"target","replaces_j":45000}`,
		`{"id":"p1","kind":"preference","setting":0.35}`,
		`{"id":"m1","kind":"mission","action":"launch","aircraft":[2]}`,
		`{"id":"m2","kind":"mission","action":"new","mission":"m-2"}`,
		`{"id":"x","kind":"online","at":-9223372036854775808}`,
	} {
		f.Add([]byte(text))
	}
	status := exampleStatus(17)
	f.Fuzz(func(t *testing.T, text []byte) {
		var q request
		if json.Unmarshal(text, &q) != nil {
			return
		}
		r, err := q.command(&status)
		if err != nil {
			return
		}
		if _, err := r.Encode(); err != nil || r.ID() != q.ID || r.String() == "" || r.Consequence(&status) == "" {
			t.Errorf("%s: %v, %q", text, err, r)
		}
		if r.Budget != nil && r.Budget.EnergyJ < status.FloorJ && !q.BelowFloor {
			t.Errorf("%s: %s, below the floor of %s", text, r, command.Kilojoules(status.FloorJ))
		}
	})
}
