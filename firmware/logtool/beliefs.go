package logtool

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"

	"prefdt/firmware/account"
	"prefdt/firmware/ledger"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// A decision with an estimator is made on beliefs. What turned out stands in the rows
// that follow: how the aircraft flew in the next one, what users timed in the next three.

// hasBeliefs reports whether any slot was decided on beliefs.
func hasBeliefs(flights []ledger.Flight) bool {
	return slices.ContainsFunc(flights, func(f ledger.Flight) bool {
		return slices.ContainsFunc(f.Rows, func(r account.Row) bool { return r.Seen != nil })
	})
}

// airHead are the columns of what a slot's decision believed of the air, and then of how
// each aircraft flew in the slot.
func airHead(aircraft int) []string {
	head := []string{"wind_east_mps", "wind_north_mps", "wind_sd_mps", "power_multiplier"}
	return append(head, aircraftHead(aircraft, "flown_east_mps", "flown_north_mps", "flight_j")...)
}

// airLine returns the fields of row i, empty where nothing is known.
func airLine(rows []account.Row, i, aircraft int) []string {
	line := make([]string, 4+3*aircraft)
	if x := rows[i].Seen; x != nil {
		if w := x.Believed.WindMPS; w != nil {
			copy(line, []string{formatFloat(w[0]), formatFloat(w[1]), formatFloat(x.Believed.WindSDMPS)})
		}
		line[3] = known(x.Believed.PowerMultiplier)
	}
	if next := seenAfter(rows, i, 1); next != nil {
		for _, a := range next.Snapshot.Aircraft {
			if a.Flown.FlightJ > 0 && a.Number >= 1 && a.Number <= aircraft {
				copy(line[4+3*(a.Number-1):], []string{formatFloat(a.Flown.EastMPS), formatFloat(a.Flown.NorthMPS),
					formatFloat(a.Flown.FlightJ)})
			}
		}
	}
	return line
}

// seenAfter returns what was seen some slots after that of row i, if its row is there.
func seenAfter(rows []account.Row, i, slots int) *account.Seen {
	if i+slots >= len(rows) || rows[i+slots].Slot != rows[i].Slot+slots {
		return nil
	}
	return rows[i+slots].Seen
}

// known is a figure of which 0 says that there is none.
func known(x float64) string {
	if x == 0 {
		return ""
	}
	return formatFloat(x)
}

// resultSlots is how many slots after its task's a result may come.
const resultSlots = 3

// outcome returns the result of a user's task in row i, and the gain that a timed upload
// ran at.
func outcome(rows []account.Row, i, user int) (slot.Result, float64) {
	for k := 1; k <= resultSlots; k++ {
		x := seenAfter(rows, i, k)
		if x == nil {
			continue
		}
		for j, r := range x.Snapshot.Results {
			if r.User == user && r.Slot == rows[i].Slot {
				return r, at(x.UploadGain, j)
			}
		}
	}
	return slot.Result{}, 0
}

// writeUsersCSV writes one line for each user with a task in a slot that was decided on
// beliefs: what was believed of it, and what its result showed. Each aircraft has three
// columns.
func writeUsersCSV(w io.Writer, flights []ledger.Flight) error {
	most := mostAircraft(flights)
	head := []string{"mission", "slot", "user", "cpu_hz", "slow_probability", "completion_s", "local_s", "local_cycles", "computed_on",
		"upload_s", "upload_bits", "upload_gain"}
	fixed := len(head)
	head = append(head, aircraftHead(most, "reported_gain", "gain", "gain_log_sd")...)
	out := csv.NewWriter(w)
	if err := out.Write(head); err != nil {
		return err
	}
	for _, f := range flights {
		for i := range f.Rows {
			x := f.Rows[i].Seen
			if x == nil {
				continue
			}
			for k, u := range x.Snapshot.Users {
				line := make([]string, len(head))
				copy(line, []string{f.State.Mission, strconv.Itoa(f.Rows[i].Slot), at(x.Names, k), formatFloat(u.CPUHz)})
				if k < len(x.Believed.SlowChance) {
					line[4] = formatFloat(x.Believed.SlowChance[k])
				}
				if r, gain := outcome(f.Rows, i, u.ID); r.CompletionS > 0 {
					computedOn := "local"
					if r.Aircraft > 0 {
						computedOn = strconv.Itoa(r.Aircraft)
					}
					copy(line[5:], []string{
						formatFloat(r.CompletionS), known(r.LocalS), known(r.LocalCycles), computedOn, known(r.Upload.S),
						known(r.Upload.Bits), known(gain),
					})
				}
				for m, a := range x.Snapshot.Aircraft {
					if a.Number < 1 || a.Number > most {
						continue
					}
					copy(line[fixed+3*(a.Number-1):], []string{known(at(u.Gain, m)), known(at(at(x.Believed.Gain, k), m)),
						known(at(at(x.Believed.GainLogSD, k), m))})
				}
				if err := out.Write(line); err != nil {
					return err
				}
			}
		}
	}
	out.Flush()
	return out.Error()
}

// at returns the element of a list, zero beyond its end.
func at[T any](list []T, i int) (x T) {
	if i < len(list) {
		x = list[i]
	}
	return x
}

// mostAircraft returns the greatest number of an aircraft in any row.
func mostAircraft(flights []ledger.Flight) (most int) {
	for _, f := range flights {
		for _, r := range f.Rows {
			for _, a := range r.Aircraft {
				most = min(max(most, a.Number), telemetry.MaxAircraft)
			}
		}
	}
	return most
}
