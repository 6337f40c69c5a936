package account

import "prefdt/firmware/energy"

// Row is one settled slot, as the ledger keeps it.
type Row struct {
	Slot                 int           `json:"slot"`
	Mission              string        `json:"mission"` // the ledger sets it
	DelayS               float64       `json:"delay_s"`
	EnergyJ              float64       `json:"energy_j"`
	EdgeJ                float64       `json:"edge_j"`
	PropulsionMultiplier float64       `json:"factor"`
	PriceSPerJ           float64       `json:"price_s_per_j"`
	Reported             int           `json:"heard"`
	Offloaded            int           `json:"offloaded"`
	DecisionMS           float64       `json:"decision_ms"`
	Missed               bool          `json:"missed,omitempty"` // no decision was made in it
	Aircraft             []AircraftRow `json:"aircraft"`
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
}
