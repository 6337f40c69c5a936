// Package slot names what crosses one slot of a mission: the snapshot the
// scheduler sees after the report window, and the decision it returns.
//
// The leader builds snapshots from MQTT reports and MAVLink telemetry, the
// simulated world from its own state; the policy, the teachers and the rule
// decide on nothing else.
package slot

import (
	"slices"

	"prefdt/inference/physics"
	"prefdt/inference/reuse"
)

// Snapshot is the fleet and its users as known when the report window closes.
type Snapshot struct {
	Slot     int        `json:"slot"`  // 0 to Slots-1
	Slots    int        `json:"slots"` // T
	Aircraft []Aircraft `json:"aircraft"`
	Users    []User     `json:"users"` // heard this slot, with a task
	// SyntheticUsers is who might have been heard: what the policy goes by when nobody was.
	SyntheticUsers []User `json:"imagined,omitempty"`
}

// Aircraft is one aircraft that serves, as measured at the start of the slot.
type Aircraft struct {
	Number         int              `json:"number"` // from 1, its place in the configuration
	Position       physics.Position `json:"position"`
	SpeedMPS       float64          `json:"speed_mps"`
	RemainingJ     float64          `json:"residual_j"` // left of its capacity
	CPUHz          float64          `json:"cpu_hz"`     // f_max
	ServedLastSlot int              `json:"served"`     // users served in the slot before
	Unreported     UnreportedLoad   `json:"unheard"`    // who will come without having been heard
}

// User is one user with a task.
type User struct {
	ID        int              `json:"id"` // stable within a mission
	Position  physics.Position `json:"position"`
	Task      physics.Task     `json:"task"`
	QueueBits float64          `json:"queue_bits"`
	CPUHz     float64          `json:"cpu_hz"` // f_loc
	Gain      []float64        `json:"gain"`   // power gain to each aircraft, in the snapshot's order
}

// Decision is the joint action of a slot, eq. (action), with what it should
// cost by the closed forms.
type Decision struct {
	Users []UserDecision `json:"users"` // in the snapshot's order
	// Move is each aircraft's displacement during the slot, in the snapshot's order.
	Move []physics.Position `json:"move"`
	// PriceSPerJ is the price the decision works at, the standing offer's too.
	PriceSPerJ float64   `json:"price_s_per_j"`
	DelayS     float64   `json:"delay_s"` // expected of the users, penalties included
	EdgeJ      []float64 `json:"edge_j"`  // expected, per aircraft, the unheard included

	servedCounts []int // per aircraft, while Price runs
}

// UserDecision is where and how one user's task is computed.
type UserDecision struct {
	Server      int     `json:"server"`       // index into the snapshot's aircraft counted from 1; 0 is local
	Offload     float64 `json:"offload"`      // rho
	CPUHz       float64 `json:"cpu_hz"`       // this user's share of the aircraft's CPU; 0 when local
	CompletionS float64 `json:"completion_s"` // expected
}

// Equal reports whether two decisions are the same to the last bit.
func (d *Decision) Equal(e *Decision) bool {
	return d.PriceSPerJ == e.PriceSPerJ && d.DelayS == e.DelayS &&
		slices.Equal(d.Users, e.Users) && slices.Equal(d.Move, e.Move) && slices.Equal(d.EdgeJ, e.EdgeJ)
}

// Evaluate fills in, from Server and Offload alone, what follows from them: each
// user's CPU share and completion, the slot's delay and edge energy.
func (d *Decision) Evaluate(c *physics.Constants, s *Snapshot) {
	d.DelayS = 0
	d.EdgeJ = reuse.Slice(d.EdgeJ, len(s.Aircraft))
	d.servedCounts = reuse.Slice(d.servedCounts, len(s.Aircraft)+1)
	for i := range d.Users {
		d.servedCounts[d.Users[i].Server]++
	}
	for m := range s.Aircraft {
		a := &s.Aircraft[m]
		squares, _ := a.Unreported.ShareSums(d.servedCounts[m+1])
		d.EdgeJ[m] = c.SwitchedCapacitance * a.CPUHz * a.CPUHz * squares * a.Unreported.CyclesPerUser
	}
	for i := range d.Users {
		u, task := &d.Users[i], s.Users[i].Task
		local := task.LocalTimeS(s.Users[i].CPUHz)
		u.CPUHz, u.CompletionS = 0, local
		if m := u.Server - 1; m >= 0 {
			share := c.EqualShare(s.Users[i].Gain[m], s.Aircraft[m].CPUHz, s.Aircraft[m].Unreported.EffectiveUsers(d.servedCounts[u.Server]))
			u.CPUHz = share.CPUHz
			u.CompletionS = physics.CompletionS(local, task.OffloadTimeS(share), u.Offload)
			d.EdgeJ[m] += c.EdgeJ(task, share, u.Offload)
		}
		d.DelayS += c.PenalizedDelayS(task, u.CompletionS)
	}
}

// ServedBy counts the users of an aircraft, given as in UserDecision.Server.
func (d *Decision) ServedBy(server int) int {
	n := 0
	for i := range d.Users {
		if d.Users[i].Server == server {
			n++
		}
	}
	return n
}

// Resize sets the decision's lengths for a snapshot, all local and at rest,
// reusing its memory.
func (d *Decision) Resize(s *Snapshot) {
	d.Users = reuse.Slice(d.Users, len(s.Users))
	d.Move = reuse.Slice(d.Move, len(s.Aircraft))
	d.EdgeJ = reuse.Slice(d.EdgeJ, len(s.Aircraft))
	d.PriceSPerJ, d.DelayS = 0, 0
}
