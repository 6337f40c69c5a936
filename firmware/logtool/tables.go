package logtool

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"

	"prefdt/firmware/account"
	"prefdt/firmware/ledger"
	"prefdt/telemetry"
)

// There is no second log in flight (docs/decisions.md). Autopilots keep their own logs of
// attitude and motors; rows have the aircraft's positions, to align one with the other.

// audit is whether the rows of a flight are complete and add up.
type audit struct {
	Mission      string   `json:"mission"`
	Phase        string   `json:"phase"`
	SettledSlots int      `json:"slots"` // settled, by the state
	Rows         int      `json:"rows"`
	FirstSlot    int      `json:"first_slot"` // -1: no rows
	LastSlot     int      `json:"last_slot"`
	SpentJ       float64  `json:"spent_j"`
	DelayS       float64  `json:"delay_s"`
	Faults       []string `json:"faults"`
}

// auditFlight audits a flight. Missing first rows, deleted to keep the ledger small, are no
// fault; missing rows in between, values that are not finite and sums that disagree are.
func auditFlight(f ledger.Flight) audit {
	r := audit{Mission: f.State.Mission, Phase: f.State.Phase, SettledSlots: f.State.Account.Objective.Slot, Rows: len(f.Rows),
		FirstSlot: -1, LastSlot: -1, Faults: []string{}}
	fault := func(format string, args ...any) {
		if len(r.Faults) < 20 {
			r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
		}
	}
	if len(f.Rows) == 0 {
		return r
	}
	r.FirstSlot, r.LastSlot = f.Rows[0].Slot, f.Rows[len(f.Rows)-1].Slot
	spent := map[int]float64{} // by aircraft
	for i := range f.Rows {
		row := &f.Rows[i]
		if want := r.FirstSlot + i; row.Slot != want && (i == 0 || row.Slot != f.Rows[i-1].Slot+1) {
			fault("slots %d to %d are missing", f.Rows[i-1].Slot+1, row.Slot-1)
		}
		checkRow(row, spent, fault)
		r.DelayS += row.DelayS
	}
	for _, j := range spent {
		r.SpentJ += j
	}
	if accounted := f.State.Account.Objective.SpentJ; r.LastSlot == f.State.Account.Objective.Slot-1 &&
		math.Abs(accounted-r.SpentJ) > 1e-3*math.Max(accounted, 1) {
		fault("the aircraft spent %v J in all, the mission accounts %v J", r.SpentJ, accounted)
	}
	if r.LastSlot < f.State.Account.Objective.Slot-1 {
		fault("%d slots are settled, the last row is of slot %d", f.State.Account.Objective.Slot, r.LastSlot)
	}
	return r
}

// checkRow audits one row; spent has each aircraft's total before it, and is updated.
func checkRow(row *account.Row, spent map[int]float64, fault func(format string, args ...any)) {
	sum := 0.0
	for _, a := range row.Aircraft {
		if a.Number < 1 || a.Number > telemetry.MaxAircraft {
			fault("slot %d: aircraft %d, want 1 to %d", row.Slot, a.Number, telemetry.MaxAircraft)
		}
		sum += a.EnergyJ
		if notFinite(a.EnergyJ) || notFinite(a.SpentJ) || a.EnergyJ < 0 {
			fault("slot %d: aircraft %d has %v J, %v J in all", row.Slot, a.Number, a.EnergyJ, a.SpentJ)
		}
		if before, known := spent[a.Number]; known && a.SpentJ < before-0.001 {
			fault("slot %d: aircraft %d has %v J in all, fewer than before, %v", row.Slot, a.Number, a.SpentJ, before)
		}
		spent[a.Number] = a.SpentJ
	}
	if notFinite(row.EnergyJ) || notFinite(row.DelayS) || math.Abs(sum-row.EnergyJ) > 0.001*math.Max(1, math.Abs(sum)) {
		fault("slot %d: %v J and %v s, its aircraft add up to %v J", row.Slot, row.EnergyJ, row.DelayS, sum)
	}
}

func notFinite(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }

// aircraftHead are the columns that each aircraft has, by its number.
func aircraftHead(aircraft int, columns ...string) (head []string) {
	for n := range aircraft {
		for _, c := range columns {
			head = append(head, fmt.Sprintf("aircraft%d_%s", n+1, c))
		}
	}
	return head
}

// writeCSV writes one line a slot. Each aircraft has seven columns, by its number, and
// where decisions were made on beliefs, what was believed of the air follows.
func writeCSV(w io.Writer, flights []ledger.Flight) error {
	most, beliefs := mostAircraft(flights), hasBeliefs(flights)
	head := []string{"mission", "slot", "delay_s", "energy_j", "edge_j", "propulsion_factor", "price_s_per_j", "users_heard",
		"users_offloaded", "decision_ms", "unix_ms", "state", "setting", "budget_j"}
	fixed := len(head)
	head = append(head, aircraftHead(most, "energy_j", "spent_j", "energy_source", "east_m", "north_m", "up_m", "boot_ms")...)
	air := len(head)
	if beliefs {
		head = append(head, airHead(most)...)
	}
	out := csv.NewWriter(w)
	if err := out.Write(head); err != nil {
		return err
	}
	for _, f := range flights {
		for i, r := range f.Rows {
			line := make([]string, len(head))
			copy(line, []string{
				f.State.Mission, strconv.Itoa(r.Slot), formatFloat(r.DelayS), formatFloat(r.EnergyJ), formatFloat(r.EdgeJ),
				formatFloat(r.PropulsionMultiplier), formatFloat(r.PriceSPerJ),
				strconv.Itoa(r.Reported), strconv.Itoa(r.Offloaded), formatFloat(r.DecisionMS), strconv.FormatInt(r.UnixMS, 10),
			})
			if s := r.Status; s != nil {
				copy(line[fixed-3:], []string{s.State, formatFloat(s.Setting), ""})
				if s.BudgetJ != nil {
					line[fixed-1] = formatFloat(*s.BudgetJ)
				}
			}
			for _, a := range r.Aircraft {
				if a.Number >= 1 && a.Number <= telemetry.MaxAircraft {
					copy(line[fixed+7*(a.Number-1):], []string{
						formatFloat(a.EnergyJ), formatFloat(a.SpentJ), string(a.Source),
						formatFloat(a.EastM), formatFloat(a.NorthM), formatFloat(a.UpM), known(a.BootMS),
					})
				}
			}
			if beliefs {
				copy(line[air:], airLine(f.Rows, i, most))
			}
			if err := out.Write(line); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

func formatFloat(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// writeJSON writes all flights, states included, as one array.
func writeJSON(w io.Writer, flights []ledger.Flight) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(flights)
}
