package slot

import (
	"encoding/json"
	"testing"

	"prefdt/inference/physics"
)

func TestResultAsJSON(t *testing.T) {
	upload := Upload{Bits: 1.0 / 3, S: 0.2, BandwidthShare: 0.5, User: physics.Position{EastM: 1, NorthM: 2},
		Aircraft: physics.Position{EastM: 3, NorthM: 4}}
	for _, c := range []struct {
		result Result
		want   string
	}{
		{Result{}, "[]"},
		{Result{User: 7, Slot: 16, CompletionS: 1.5}, "[7,16,0,1.5]"},
		{Result{User: 7, Slot: 16, Aircraft: 2, CompletionS: 0.3, LocalS: 0.25, LocalCycles: 2e8}, "[7,16,2,0.3,0.25,200000000]"},
		{Result{User: 7, Slot: 16, Aircraft: 2, CompletionS: 0.3, Upload: upload}, "[7,16,2,0.3,0,0,0.3333333333333333,0.2,0.5,1,2,3,4]"},
	} {
		raw, err := json.Marshal(c.result)
		var again Result
		if string(raw) != c.want || err != nil || json.Unmarshal(raw, &again) != nil || again != c.result {
			t.Errorf("%+v is written as %s, %v, and read as %+v", c.result, raw, err, again)
		}
	}
	for _, raw := range []string{`{"user":1}`, `[1,"2"]`, `[1,2,3,4,5,6,7,8,9,10,11,12,13,14]`} {
		if err := json.Unmarshal([]byte(raw), new(Result)); err == nil {
			t.Errorf("%s was read", raw)
		}
	}
}
