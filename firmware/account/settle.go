package account

import (
	"math"

	"prefdt/firmware/energy"
	"prefdt/firmware/fleet"
	"prefdt/inference/goal"
	"prefdt/telemetry"
)

// Row is one settled slot, as the ledger keeps it.
type Row struct {
	Slot                 int           `json:"slot"`
	Mission              string        `json:"mission"` // the ledger sets it
	UnixMS               int64         `json:"unix_ms"` // when it was settled, by the computer's clock; the leader sets it
	DelayS               float64       `json:"delay_s"`
	EnergyJ              float64       `json:"energy_j"`
	EdgeJ                float64       `json:"edge_j"`
	PropulsionMultiplier float64       `json:"factor"`
	PriceSPerJ           float64       `json:"price_s_per_j"`
	Reported             int           `json:"heard"`
	Offloaded            int           `json:"offloaded"`
	DecisionMS           float64       `json:"decision_ms"`
	Undecided            int           `json:"undecided,omitempty"` // users left to the offer for want of time; the leader sets it
	Missed               bool          `json:"missed,omitempty"`    // no decision was made in it
	Aircraft             []AircraftRow `json:"aircraft"`
	Seen                 *Seen         `json:"seen,omitempty"` // where an estimator remembers the slot
	// Status is the one that was published after the settlement, without its sequence
	// number and challenge; nil in the slots before it that were missed.
	Status *telemetry.Status `json:"status,omitempty"`
}

// AircraftRow is one aircraft's part of a row.
type AircraftRow struct {
	Number  int           `json:"number"`
	EnergyJ float64       `json:"energy_j"`
	SpentJ  float64       `json:"spent_j"`
	Source  energy.Source `json:"source"`
	ErrorJ  float64       `json:"error_j"` // how far off SpentJ may be
	EastM   float64       `json:"east_m"`
	NorthM  float64       `json:"north_m"`
	UpM     float64       `json:"up_m"`
	BootMS  float64       `json:"boot_ms"` // autopilot's time since boot, to align its own log; 0: unknown
}

// Settle settles slot n, and the missed slots before it, from the meters and the
// delays as far as they are known. offerEdgeJ returns the edge energy of a number of
// users that accepted the standing offer: expected, and at most. It returns a row for
// each slot.
func (a *Account) Settle(n int, views []fleet.View, offerEdgeJ func(users int) (expectedJ, mostJ float64)) (rows []Row) {
	restarted := a.unmeasuredSettlements > 0
	by, flying := a.advanceMeters(views, 0)
	first := a.objective.Slot()
	slots := n - first + 1
	sum := goal.Settlement{Slots: slots, Flying: flying, Measured: &goal.Measurement{}}
	// The joules of missed slots are counted at once, at speeds that may not have been
	// received, and those of a downtime with them.
	alone := slots == 1 && !restarted
	for i := range by {
		if a.countsAsTransit(&views[i]) {
			a.aircraft[i].TransitJ += by[i].energyJ
			by[i] = meterDelta{}
			continue
		}
		a.aircraft[i].SpentJ += by[i].energyJ
		sum.EnergyJ += by[i].energyJ
		if alone && (views[i].InAir || by[i].energyJ > 0) {
			sum.ModelFlightJ += by[i].modelJ
		}
	}
	share := 1 / float64(slots)
	// What the fleet's CPUs compute in a slot bounds what users of the offer took,
	// whatever tasks they reported.
	p := &a.Physics
	mostEdgeJ := p.SwitchedCapacitance * p.EdgeCPUHz * p.EdgeCPUHz * p.EdgeCPUHz * float64(len(by))
	for k := first; k <= n; k++ {
		row := Row{Slot: k, DelayS: a.allLocal.MeanS, Missed: true}
		if r := a.results[k]; r != nil { // otherwise no decision was possible, and all was computed locally
			r.settled = true
			r.endS, r.limitJ = views[0].AtS, mostEdgeJ
			r.expectedJ, r.mostJ = offerEdgeJ(1) // it is proportional to the users
			a.edges = append(a.edges[max(len(a.edges)-edgeSlots, 0):], r.slotEdge)
			row = r.Row
			row.EdgeJ += r.offerEdgeJ()
		}
		row.EnergyJ, row.PropulsionMultiplier = sum.EnergyJ*share, a.objective.PropulsionMultiplier()
		sum.DelayS += row.DelayS
		sum.EdgeJ += row.EdgeJ
		for i := range by {
			v, c := &views[i], &a.aircraft[i]
			row.Aircraft = append(row.Aircraft, AircraftRow{
				Number: v.Number, EnergyJ: by[i].energyJ * share, SpentJ: c.SpentJ, Source: v.Source,
				ErrorJ: v.UncertaintyJ + c.StartErrorJ + math.Max(c.AccountedJ-v.TotalJ, 0),
				EastM:  v.Position.EastM, NorthM: v.Position.NorthM, UpM: float64(v.UpM), BootMS: bootMS(v),
			})
		}
		rows = append(rows, row)
	}
	a.flownSlot = -1
	if alone {
		a.flownSlot = n
		*sum.Measured = a.measure(views)
	} else {
		a.restartWindows()
	}
	a.advanceWindows(views)
	a.markFlights(views)
	before := a.objective.State().Before
	a.settleObjective(sum)
	if a.doubtfulSettlements++; a.objective.State().Before != before {
		a.doubtfulSettlements = 0 // another measurement is doubtful, or none
	}
	a.followWays(views)
	return rows
}

func bootMS(v *fleet.View) float64 {
	if !v.Located {
		return 0
	}
	return math.Round(v.BootMS)
}
