package fleet

import "prefdt/firmware/energy"

// Saved is what a restart needs of an aircraft.
type Saved struct {
	Number   int          `json:"number"`
	SystemID int          `json:"system_id"`
	Meter    energy.State `json:"meter"`
	Ours     bool         `json:"ours"`             // it flew for us
	Homing   bool         `json:"homing,omitempty"` // it was on its way home
	Pilot    bool         `json:"pilot,omitempty"`  // it was with its pilot, for this reason
	Reason   string       `json:"reason,omitempty"`
	Lost     bool         `json:"lost,omitempty"`
	Home     *[2]float64  `json:"home_m,omitempty"` // where it took off
	Way      [][2]float64 `json:"way_m,omitempty"`  // on which it may be, in the air
}
