package slot

import (
	"encoding/json"
	"fmt"

	"prefdt/inference/physics"
)

// MarshalJSON writes a result as the list of its numbers, in the order of the fields
// and without zeros at the end: a record of a flight has several results in every slot,
// which as objects would be half of it.
func (r Result) MarshalJSON() ([]byte, error) {
	up := &r.Upload
	numbers := []float64{
		float64(r.User), float64(r.Slot), float64(r.Aircraft), r.CompletionS, r.LocalS, r.LocalCycles,
		up.Bits, up.S, up.BandwidthShare, up.User.EastM, up.User.NorthM, up.Aircraft.EastM, up.Aircraft.NorthM,
	}
	for len(numbers) > 0 && numbers[len(numbers)-1] == 0 {
		numbers = numbers[:len(numbers)-1]
	}
	return json.Marshal(numbers)
}

// UnmarshalJSON reads a result as MarshalJSON writes it.
func (r *Result) UnmarshalJSON(raw []byte) error {
	var read []float64
	var x [13]float64
	if err := json.Unmarshal(raw, &read); err != nil {
		return err
	}
	if len(read) > len(x) {
		return fmt.Errorf("result of %d numbers, want %d at most", len(read), len(x))
	}
	copy(x[:], read)
	*r = Result{
		User: int(x[0]), Slot: int(x[1]), Aircraft: int(x[2]), CompletionS: x[3], LocalS: x[4], LocalCycles: x[5],
		Upload: Upload{
			Bits: x[6], S: x[7], BandwidthShare: x[8],
			User: physics.Position{EastM: x[9], NorthM: x[10]}, Aircraft: physics.Position{EastM: x[11], NorthM: x[12]},
		},
	}
	return nil
}
