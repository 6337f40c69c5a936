// Package users keeps the users of a mission: who reported in the open slot, the last
// report of each, and the forecast of users whose reports are not received.
//
// Inputs: reports, and after a slot's results how many users had a task. Outputs: the
// standing offer of the beacon, before the reports of a slot, and the users of the
// snapshot for the policy, after them. Called by the leader's loop alone.
package users

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"

	"prefdt/inference/dispatch"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// MaxPerSlot is the most users that may report in a slot (docs/wire.md).
const MaxPerSlot = 4096

// claimSlots is for how many slots after a report of a task a user's results count though
// its reports are lost. Ids that report no tasks have no results, however many they send.
const claimSlots = 30

// Users is the users of one mission. Set the exported fields, then Initialize.
type Users struct {
	Max     int      // reports a slot
	Allow   []string // ids; empty: any user
	Physics physics.Constants
	// CyclesPerBit is what aircraft measured of a function; 0: none has it. Nil: what users report counts.
	CyclesPerBit func(function, digest string) float64
	Prior        dispatch.UserPrior // users as the checkpoint expects them before any report
	Claims       slot.Claims        // the most that a report weighs in later offers

	PriceSPerJ float64 // s/J, of the last decision, for the next offer; Initialize sets the first

	allowed     map[string]bool // nil: any user
	slot        int             // the open one
	current     []*user         // with a report in the open slot
	late        []user          // with a task whose report was too late for its slot, since the last window closed
	byName      map[string]*user
	nextID      int
	taskSlot    int // of the last report with a task
	evictedSlot int // in which users without a recent report were last removed

	forecast dispatch.Forecast
	maxTasks int // most tasks reported in any one slot
	names    []string
	idle     []string
	bounded  []slot.User
	turn     int // of the users, counted from the first, whose turn in Limit it is

	leftUsers []slot.User // working memory of Limit
	leftNames []string
}

// user is one user's last report.
type user struct {
	name     string
	id       int // stable within a mission
	slot     int // of the report
	taskSlot int // of the last report with a task
	report   telemetry.Report
}

// State is what a restart needs.
type State struct {
	PriceSPerJ float64 `json:"price_s_per_j"`     // of the last decision
	NextID     int     `json:"next_id,omitempty"` // of a user that reports for the first time
	MaxTasks   int     `json:"max_tasks,omitempty"`
	// Counts is how many come to the offer: without it a hundred users whose reports are lost all took
	// an offer that expected a handful.
	Counts dispatch.ForecastCounts `json:"counts,omitzero"`
}

// Initialize prepares for a new mission.
func (u *Users) Initialize() {
	u.allowed, u.slot, u.current, u.late, u.byName, u.nextID, u.evictedSlot = nil, -1, nil, nil, map[string]*user{}, 0, -1
	u.taskSlot = -1 - claimSlots
	if len(u.Allow) > 0 {
		u.allowed = map[string]bool{}
	}
	for _, name := range u.Allow {
		u.allowed[name] = true
	}
	u.forecast = dispatch.Forecast{Prior: u.Prior, Claims: u.Claims}
	u.PriceSPerJ, u.maxTasks = dispatch.InitialPriceSPerJ, 0
}

// State returns what a restart needs.
func (u *Users) State() State { return State{u.PriceSPerJ, u.nextID, u.maxTasks, u.forecast.Counts()} }

// Restore continues from the state before a restart.
func (u *Users) Restore(s State) {
	u.PriceSPerJ, u.nextID, u.maxTasks = s.PriceSPerJ, s.NextID, s.MaxTasks
	u.forecast.Resume(s.Counts)
}

// Recall admits a user that reported in a slot before a restart, by the ID that it had.
func (u *Users) Recall(name string, id, slot int) {
	if u.byName[name] != nil || len(u.byName) < 2*MaxPerSlot {
		u.byName[name], u.nextID = &user{name: name, id: id, slot: slot, taskSlot: slot}, max(u.nextID, id+1)
	}
}

// OpenSlot begins a slot's report window.
func (u *Users) OpenSlot(n int) { u.slot, u.current = n, u.current[:0] }

// Allowed is whether a user may report at all.
func (u *Users) Allowed(name string) bool { return u.allowed == nil || u.allowed[name] }

// MayHaveTask is whether a result of a slot may be a user's: it reported a task in that
// slot, or not long before. If nobody did, all reports may be lost, and anyone may be one.
func (u *Users) MayHaveTask(name string, slot int) bool {
	x, since := u.byName[name], slot-claimSlots
	return x != nil && x.taskSlot >= since || u.taskSlot < since
}

// Reported is how many reports counted in the open slot.
func (u *Users) Reported() int { return len(u.current) }

// AddReport enters a report and reports whether it counts for the open slot; inTime
// is whether the report window is still open.
func (u *Users) AddReport(name string, r telemetry.Report, inTime bool) bool {
	if !u.Allowed(name) {
		return false
	}
	x := u.byName[name]
	current := inTime && r.Slot == u.slot
	switch {
	case r.Slot > u.slot, x != nil && r.Slot <= x.slot:
		return false // of a slot not opened yet, or a second report
	case current && len(u.current) >= u.Max:
		return false // the slot is full
	}
	if x == nil {
		if x = u.admit(name); x == nil {
			return false
		}
	}
	x.slot, x.report = r.Slot, r
	if r.Task != nil {
		x.taskSlot, u.taskSlot = r.Slot, max(u.taskSlot, r.Slot)
	}
	if !current && r.Task != nil && len(u.late) < MaxPerSlot {
		u.late = append(u.late, *x)
	}
	if current {
		u.current = append(u.current, x)
	}
	return current
}

// admit adds a user. Where there are too many, users without a recent report are
// removed first; nil if that frees no space.
func (u *Users) admit(name string) *user {
	if len(u.byName) >= 2*MaxPerSlot && u.evictedSlot < u.slot { // once a slot: no report grows old within it
		u.evictedSlot = u.slot
		maps.DeleteFunc(u.byName, func(_ string, x *user) bool { return x.slot < u.slot-2 })
	}
	if len(u.byName) >= 2*MaxPerSlot {
		return nil
	}
	x := &user{name: name, id: u.nextID, slot: -1, taskSlot: -1 - claimSlots}
	u.nextID++
	u.byName[name] = x
	return x
}

// Offer is slot n's standing offer, with these aircraft.
func (u *Users) Offer(n int, aircraft []slot.Aircraft) telemetry.Offer {
	o := u.forecast.Offer(&u.Physics, aircraft, u.PriceSPerJ, rand.New(rand.NewPCG(uint64(n), 0)))
	out := telemetry.Offer{PriceSPerJ: o.PriceSPerJ, Aircraft: []telemetry.OfferAircraft{}}
	for _, a := range o.Aircraft {
		if a.CPUHz == 0 {
			continue
		}
		out.Aircraft = append(out.Aircraft, telemetry.OfferAircraft{
			Number: a.Number, PositionM: [2]float64{a.Position.EastM, a.Position.NorthM}, CPUHz: a.CPUHz, ExpectedUsers: a.ExpectedUsers,
		})
	}
	return out
}

// Snapshot fills in the users of the slot: those that reported a task in time, those
// that reported a gain and no task, the expected users of the offer, and synthetic
// users if none reported. The aircraft must be in s already. It returns the names of
// the users with a task, in order.
func (u *Users) Snapshot(s *slot.Snapshot) (names []string) {
	s.Users = s.Users[:0]
	for i := range u.late {
		s.Users = append(s.Users, u.slotUser(&u.late[i], s.Aircraft))
	}
	u.observeTasks(s.Users) // too late to be served, but the forecast learns from them
	s.Users, s.IdleUsers, u.late, u.names, u.idle = s.Users[:0], s.IdleUsers[:0], u.late[:0], u.names[:0], u.idle[:0]
	slices.SortFunc(u.current, func(a, b *user) int { return cmp.Compare(a.id, b.id) })
	for _, x := range u.current {
		if x.report.Task == nil {
			if len(x.report.Gain) > 0 { // without one it shows nothing of its links
				s.IdleUsers = append(s.IdleUsers, u.slotUser(x, s.Aircraft))
				u.idle = append(u.idle, x.name)
			}
			continue
		}
		s.Users = append(s.Users, u.slotUser(x, s.Aircraft))
		u.names = append(u.names, x.name)
	}
	u.observeTasks(s.Users)
	u.forecast.AnnotateSnapshot(s)
	u.maxTasks = max(u.maxTasks, len(s.Users))
	return u.names
}

// Limit keeps so many of a snapshot's users, others in each slot, in turn, and returns the
// names of these. The others follow them, in both slices, beyond their lengths.
func (u *Users) Limit(s *slot.Snapshot, most int) (names []string) {
	n, kept := len(s.Users), 0
	u.leftUsers, u.leftNames = u.leftUsers[:0], u.leftNames[:0]
	for i := range s.Users {
		if (i+n-u.turn%n)%n < most {
			s.Users[kept], u.names[kept] = s.Users[i], u.names[i]
			kept++
			continue
		}
		u.leftUsers, u.leftNames = append(u.leftUsers, s.Users[i]), append(u.leftNames, u.names[i])
	}
	u.turn += most
	copy(s.Users[kept:], u.leftUsers)
	copy(u.names[kept:], u.leftNames)
	s.Users, u.names = s.Users[:kept], u.names[:kept]
	return u.names
}

// Function is the function that a user's last report names, and its digest, if the report has one.
func (u *Users) Function(name string) (function, digest string) {
	if x := u.byName[name]; x != nil && x.report.Task != nil {
		return x.report.Task.Function, x.report.Task.Digest
	}
	return "", ""
}

// IdleNames returns the names of the last snapshot's idle users, in order.
func (u *Users) IdleNames() []string { return u.idle }

// observeTasks updates the forecast with these users' tasks, each bounded by what an
// aircraft computes in a slot: otherwise more would be expected of users of the offer
// than they can be given.
func (u *Users) observeTasks(reported []slot.User) {
	u.bounded = append(u.bounded[:0], reported...)
	for i := range u.bounded {
		t := &u.bounded[i].Task
		if most := u.Physics.EdgeCPUHz; t.Cycles() > most { // a slot is a second
			t.Bits = most / t.CyclesPerBit
		}
	}
	u.forecast.Observe(u.bounded)
}

// WithoutDecision is how many users without a decision are expected beside those that report.
func (u *Users) WithoutDecision() float64 { return u.forecast.WithoutDecision() }

// MaxOfferUsers is how many users without a report of a slot may have accepted its
// offer: as many as ever had a task at once, or as the checkpoint expects, however
// many ids send results.
func (u *Users) MaxOfferUsers() int { return max(u.maxTasks, int(u.Prior.ActiveUsers+0.5)) }

// ObserveSlot updates the forecast with how many users had a task in a slot, and how
// many of them did not report.
func (u *Users) ObserveSlot(tasks, unreported int) { u.forecast.Settle(tasks, unreported) }

// OfferUsersEdgeJ is the edge energy of n users that accepted the offer: expected, and
// at most.
func (u *Users) OfferUsersEdgeJ(n int) (expectedJ, mostJ float64) {
	return u.forecast.OfferUsersEdgeJ(&u.Physics, n)
}

// slotUser is a report in the form of the snapshot: the task of an idle user is zero, a
// gain that was not reported the closed-form mean at that distance, and marked as such.
func (u *Users) slotUser(x *user, aircraft []slot.Aircraft) slot.User {
	r := &x.report
	out := slot.User{
		ID: x.id, Position: physics.Position{EastM: r.PositionM[0], NorthM: r.PositionM[1]},
		QueueBits: r.QueueBits, CPUHz: r.CPUHz, Gain: make([]float64, 0, len(aircraft)),
	}
	if r.Task != nil {
		out.Task = physics.Task{Bits: r.Task.Bits, CyclesPerBit: r.Task.CyclesPerBit, DeadlineS: r.Task.DeadlineS}
		// A user counts its CPU in cycles of the bits that it reports: what it computes in a second stays.
		if u.CyclesPerBit != nil {
			if measured := u.CyclesPerBit(r.Task.Function, r.Task.Digest); measured > 0 {
				out.CPUHz *= measured / r.Task.CyclesPerBit
				out.Task.CyclesPerBit = measured
			}
		}
	}
	for i := range aircraft {
		a := &aircraft[i]
		gain, ok := r.Gain[a.Number]
		if !ok {
			gain = u.Physics.Channel.MeanGain(out.Position.Sub(a.Position).Norm(), u.Physics.AltitudeM)
			if out.GainMissing == nil {
				out.GainMissing = make([]bool, len(aircraft))
			}
			out.GainMissing[i] = true
		}
		out.Gain = append(out.Gain, gain)
	}
	return out
}
