// Package slot defines the data of one slot, the scheduling period of one second:
// the Snapshot that a scheduler decides on and the Decision that it returns.
//
// Inputs: what is known of the fleet and its users when the report window closes;
// the leader fills a Snapshot from MQTT reports and MAVLink telemetry, the
// simulated world from its own state. Outputs: a Decision, with its expected
// delay and edge energy by the closed forms (Evaluate). The policy, the exact
// dispatch, and the teachers and rules of training decide on a Snapshot alone.
package slot

import (
	"slices"

	"prefdt/inference/physics"
	"prefdt/inference/reuse"
)

// Snapshot is the state of the fleet and its users when the report window closes.
type Snapshot struct {
	Slot     int        `json:"slot"`  // 0 to Slots-1
	Slots    int        `json:"slots"` // T
	Aircraft []Aircraft `json:"aircraft"`
	Users    []User     `json:"users"` // that reported a task for this slot
	// SyntheticUsers are drawn from past reports or the user prior. Where no user
	// reported, the policy finds the slot's price with them.
	SyntheticUsers []User `json:"imagined,omitempty"`
	// IdleUsers reported where they are and their gains, and have no task in this slot.
	IdleUsers []User `json:"idle,omitempty"`
	// Results are of tasks of earlier slots, and arrived since the last decision.
	Results []Result `json:"results,omitempty"`
}

// OrderedPrices returns the mean of the prices that the plan of who is in the air has set, and
// appends each aircraft's over that mean to weights; 0: it has set none.
func (s *Snapshot) OrderedPrices(weights []float64) (meanSPerJ float64, _ []float64) {
	for m := range s.Aircraft {
		meanSPerJ += s.Aircraft[m].Order.PriceSPerJ / float64(len(s.Aircraft))
	}
	if meanSPerJ > 0 {
		for m := range s.Aircraft {
			weights = append(weights, s.Aircraft[m].Order.PriceSPerJ/meanSPerJ)
		}
	}
	return meanSPerJ, weights
}

// PriorID is the ID of a synthetic user that is drawn from the prior: of nobody.
const PriorID = -1

// LikelyUsers returns the users that motion goes by: those that reported a task or, where
// none did, synthetic ones that are drawn from past reports. Those of the prior are nowhere.
func (s *Snapshot) LikelyUsers() []User {
	if len(s.Users) == 0 && len(s.SyntheticUsers) > 0 && s.SyntheticUsers[0].ID != PriorID {
		return s.SyntheticUsers
	}
	return s.Users
}

// Aircraft is an aircraft that can serve users, as measured at the slot's start.
type Aircraft struct {
	Number         int              `json:"number"` // from 1, in the order of the configuration
	Position       physics.Position `json:"position"`
	SpeedMPS       float64          `json:"speed_mps"`
	RemainingJ     float64          `json:"residual_j"` // energy left of its capacity
	CPUHz          float64          `json:"cpu_hz"`     // f_max, shared by the users served
	ServedLastSlot int              `json:"served"`     // users served in the slot before
	Unreported     UnreportedLoad   `json:"unheard"`    // expected from users without a report
	Flown          Flown            `json:"flown,omitzero"`
	Order          Order            `json:"order,omitzero"`
}

// Order is what the plan of who is in the air (package duty) asks of an aircraft that it keeps
// there. The zero value asks nothing.
type Order struct {
	// PriceSPerJ is the price of the aircraft's joules under a budget; 0: that of the objective.
	PriceSPerJ float64 `json:"price_s_per_j,omitzero"`
	// LimitsEdge says that the aircraft may spend at most EdgeLimitJ on computing in the slot.
	LimitsEdge bool    `json:"limits_edge,omitzero"`
	EdgeLimitJ float64 `json:"edge_limit_j,omitzero"`
	// LimitsHome says that the aircraft may be at most HomeLimitM from Home after its move.
	LimitsHome bool             `json:"limits_home,omitzero"`
	Home       physics.Position `json:"home,omitzero"`
	HomeLimitM float64          `json:"home_limit_m,omitzero"`
}

// Flown is how an aircraft flew in the slot before; zero: unknown.
type Flown struct {
	EastMPS  float64 `json:"east_mps"` // velocity over the ground
	NorthMPS float64 `json:"north_mps"`
	FlightJ  float64 `json:"flight_j"`         // of flight alone, as measured
	ErrorJ   float64 `json:"error_j,omitzero"` // its standard deviation, beyond that of a sensor
}

// User is one user with a task.
type User struct {
	ID        int              `json:"id"` // stable within a mission
	Position  physics.Position `json:"position"`
	Task      physics.Task     `json:"task,omitzero"`
	QueueBits float64          `json:"queue_bits,omitzero"`
	CPUHz     float64          `json:"cpu_hz"` // f_loc, of the user's own device
	Gain      []float64        `json:"gain"`   // power gain to each aircraft, in the snapshot's order
	// GainMissing says for each aircraft that the user did not report the gain to it: the
	// closed-form mean at that distance stands in. nil: it reported all.
	GainMissing []bool      `json:"gain_missing,omitempty"`
	Uncertainty Uncertainty `json:"doubt,omitzero"`
}

// ReportedGain is whether the gain to an aircraft, by its index, is a sounding.
func (u *User) ReportedGain(m int) bool { return m >= len(u.GainMissing) || !u.GainMissing[m] }

// Reaches reports whether a user's whole task can be uploaded to aircraft m, and computed there, each
// within a day, the longest that a task may take by any means: over a gain that the wire allows the
// rate may round to zero, and an aircraft whose worker is silent computes nothing. u and m are
// indices into the snapshot's users and aircraft.
func (s *Snapshot) Reaches(c *physics.Channel, u, m int) bool {
	const dayS = 86400
	user := &s.Users[u]
	return user.Task.Bits <= dayS*c.RateBPS(user.Gain[m], c.BandwidthHz) && user.Task.Cycles() <= dayS*s.Aircraft[m].CPUHz
}

// Result is how a task ended, as its user reports it.
type Result struct {
	User        int // its ID
	Slot        int // of the task
	Aircraft    int // number of the one that served it; 0: computed locally
	CompletionS float64
	LocalS      float64 // that the user's own part took; 0: unknown
	LocalCycles float64 // of that part
	Upload      Upload  // zero: unknown, or there was none
}

// Upload is a timed upload.
type Upload struct {
	Bits           float64
	S              float64
	BandwidthShare float64          // of the channel's bandwidth; 1 without contention
	User           physics.Position // where it was then
	Aircraft       physics.Position // where it was then
}

// Gain returns the power gain at which the upload ran.
func (u *Upload) Gain(c *physics.Channel) float64 {
	return c.GainOf(u.Bits/u.S, u.BandwidthShare*c.BandwidthHz)
}

// Decision is the joint action of a slot, eq. (action), and its expected delay and
// energy by the closed forms.
type Decision struct {
	Users []UserDecision `json:"users"` // in the snapshot's order
	// Move is each aircraft's displacement during the slot, in the snapshot's order.
	Move []physics.Position `json:"move"`
	// PriceSPerJ is the price of edge energy at which the decision was made, in
	// seconds of delay for a joule; the next standing offer publishes it.
	PriceSPerJ float64   `json:"price_s_per_j"`
	DelayS     float64   `json:"delay_s"` // expected, summed over the users, penalties for missed deadlines included
	EdgeJ      []float64 `json:"edge_j"`  // expected, per aircraft, the unreported load included

	servedCounts []int // by server, working memory of Evaluate
}

// UserDecision is where and how one user's task is computed.
type UserDecision struct {
	Server      int     `json:"server"`       // aircraft, as index into the snapshot's counted from 1; 0 is local
	Offload     float64 `json:"offload"`      // rho, share of the task computed on the aircraft
	CPUHz       float64 `json:"cpu_hz"`       // this user's share of the aircraft's CPU; 0 when local
	CompletionS float64 `json:"completion_s"` // expected, from the start of the slot
}

// Equal reports whether two decisions are the same to the last bit.
func (d *Decision) Equal(e *Decision) bool {
	return d.PriceSPerJ == e.PriceSPerJ && d.DelayS == e.DelayS &&
		slices.Equal(d.Users, e.Users) && slices.Equal(d.Move, e.Move) && slices.Equal(d.EdgeJ, e.EdgeJ)
}

// Evaluate computes, from the users' Server and Offload, each user's CPU share and
// completion time and the slot's delay and edge energy. A user that does not reach its
// server computes locally instead.
func (d *Decision) Evaluate(c *physics.Constants, s *Snapshot) {
	d.DelayS = 0
	d.EdgeJ = reuse.Slice(d.EdgeJ, len(s.Aircraft))
	d.servedCounts = reuse.Slice(d.servedCounts, len(s.Aircraft)+1)
	for i := range d.Users {
		if u := &d.Users[i]; u.Server > 0 && !s.Reaches(&c.Channel, i, u.Server-1) {
			u.Server, u.Offload = 0, 0
		}
		d.servedCounts[d.Users[i].Server]++
	}
	for m := range s.Aircraft {
		a := &s.Aircraft[m]
		squares, _ := a.Unreported.ShareSums(d.servedCounts[m+1])
		d.EdgeJ[m] = c.SwitchedCapacitance * a.CPUHz * a.CPUHz * squares * a.Unreported.CyclesPerUser
	}
	for i := range d.Users {
		u, task, user := &d.Users[i], s.Users[i].Task, &s.Users[i]
		local := task.LocalTimeS(user.CPUHz)
		u.CPUHz, u.CompletionS = 0, local
		m, share := u.Server-1, physics.Share{}
		if m >= 0 {
			share = c.EqualShare(user.Gain[m], s.Aircraft[m].CPUHz, s.Aircraft[m].Unreported.EffectiveUsers(d.servedCounts[u.Server]))
			u.CPUHz = share.CPUHz
			u.CompletionS = physics.CompletionS(local, task.OffloadTimeS(share), u.Offload)
			d.EdgeJ[m] += c.EdgeJ(task, share, u.Offload)
		}
		if user.Uncertainty.None() {
			d.DelayS += c.PenalizedDelayS(task, u.CompletionS)
			continue
		}
		var outcomes Outcomes
		var factors RateFactors
		if m >= 0 {
			factors = user.RateFactors(&c.Channel, m)
		}
		user.Outcomes(share, &factors, &outcomes)
		completionS, delayS := outcomes.Expect(c, task, u.Offload)
		u.CompletionS = completionS
		d.DelayS += delayS
	}
}

// LimitEdge keeps what each aircraft spends on computing within the limit of its order: what is
// above it is cut from the offload ratios of its users, in which edge energy is linear.
func (d *Decision) LimitEdge(c *physics.Constants, s *Snapshot) {
	changed := false
	for m := range s.Aircraft {
		order := &s.Aircraft[m].Order
		if !order.LimitsEdge || d.EdgeJ[m] <= order.EdgeLimitJ {
			continue
		}
		usersJ := 0.0 // the rest is of the unreported load, which nothing decided here reduces
		for u := range d.Users {
			if x := &d.Users[u]; x.Server == m+1 {
				usersJ += c.EdgeJ(s.Users[u].Task, physics.Share{CPUHz: x.CPUHz}, x.Offload)
			}
		}
		if !(usersJ > 0) {
			continue
		}
		keep := max(1-(d.EdgeJ[m]-order.EdgeLimitJ)/usersJ, 0)
		for u := range d.Users {
			if x := &d.Users[u]; x.Server == m+1 {
				x.Offload *= keep
			}
		}
		changed = true
	}
	if changed {
		d.Evaluate(c, s)
	}
}

// ServedBy returns the number of users of a server, numbered as UserDecision.Server.
func (d *Decision) ServedBy(server int) int {
	n := 0
	for i := range d.Users {
		if d.Users[i].Server == server {
			n++
		}
	}
	return n
}

// TotalEdgeJ returns the edge energy expected of the whole fleet.
func (d *Decision) TotalEdgeJ() (sumJ float64) {
	for _, j := range d.EdgeJ {
		sumJ += j
	}
	return sumJ
}

// Resize makes the decision one for a snapshot's users and aircraft in which every
// user computes locally and no aircraft moves. It reuses the decision's memory.
func (d *Decision) Resize(s *Snapshot) {
	d.Users = reuse.Slice(d.Users, len(s.Users))
	d.Move = reuse.Slice(d.Move, len(s.Aircraft))
	d.EdgeJ = reuse.Slice(d.EdgeJ, len(s.Aircraft))
	d.PriceSPerJ, d.DelayS = 0, 0
}
