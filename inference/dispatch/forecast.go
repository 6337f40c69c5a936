package dispatch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"prefdt/inference/physics"
	"prefdt/inference/reuse"
	"prefdt/inference/slot"
)

// Forecast makes a slot's standing offer before any user has reported, and predicts
// the unreported load that the offer leads to.
//
// An aircraft's edge energy falls with the number of users that share it, so users
// who decide for themselves should choose the same aircraft in the same slot, or
// none. All that they have in common is the beacon. So Forecast draws a synthetic
// slot, with as many users as had a task in one of the last slots and with tasks
// and positions from past reports; the dispatch of that slot at the price gives
// each aircraft's load; and the offer publishes those loads as expected users, or, where
// reports are lost, what they become when the users without one choose by the offer: who
// expects n sharers finds n.
//
// When users have reported, they are dispatched with an unreported load: of the
// users that the offer expects, the share that did not report in the past.
type Forecast struct {
	Prior  UserPrior   // of the users, while none has reported
	Claims slot.Claims // the most that a report weighs in later offers

	recentUsers  [64]slot.User // from the latest reports, without gains, as they are weighed
	recentCycles [64]float64   // of their tasks as they are
	reportCount  int
	counts       ForecastCounts

	weighed           slot.Weighed
	solver            Solver
	syntheticSlot     slot.Snapshot
	syntheticDecision slot.Decision
	offered           []offeredLoad // of the last offer
	expectedTasks     float64       // likewise, the users with a task that it was made for
	dispatched, came  []float64     // working memory of balance
	rateBPS           []float64     // likewise, of (synthetic user, aircraft) at the whole bandwidth; empty under contention
}

// ForecastCounts is how many users come, and how many of them without a report. A restart needs it:
// the users themselves are known again by their next reports.
type ForecastCounts struct {
	Tasks           [32]int `json:"tasks"` // in each of the last slots
	SettledSlots    int     `json:"settled_slots"`
	UnreportedShare float64 `json:"unreported_share"` // of the tasks, mean of the latest slots
	ShareSlots      float64 `json:"share_slots"`      // of which it is a mean
}

// offeredLoad is the load that an offer leads to at one aircraft if no user reports.
type offeredLoad struct {
	number        int // of the aircraft
	users         float64
	cyclesPerUser float64
	shareHz       float64 // of each
}

// InitialPriceSPerJ is the price of the offer of a mission's first slot, before any
// decision has set one: about the middle of the delay-energy front.
const InitialPriceSPerJ = 0.01

const (
	unreportedMemory = 20 // slots that UnreportedShare is a mean of at most
	// maxSyntheticUsers bounds the synthetic slot; beyond it one user represents several.
	maxSyntheticUsers = 128
	maxExpectedUsers  = 1e5 // the most that an offer may expect
)

// Reset prepares for another mission.
func (f *Forecast) Reset() { *f = Forecast{Prior: f.Prior, Claims: f.Claims} }

// Counts is what a restart needs, for Resume.
func (f *Forecast) Counts() ForecastCounts { return f.counts }

// Resume continues from what an earlier Forecast counted.
func (f *Forecast) Resume(c ForecastCounts) {
	f.counts = c
	f.counts.SettledSlots = max(c.SettledSlots, 0) // a file may hold anything
}

// Observe adds the users that reported in a slot.
func (f *Forecast) Observe(users []slot.User) {
	weighed, _ := f.Claims.Weigh(&slot.Snapshot{Users: users}, &f.weighed)
	for i, u := range weighed.Users {
		u.Gain = nil
		f.recentUsers[f.reportCount%len(f.recentUsers)] = u
		f.recentCycles[f.reportCount%len(f.recentUsers)] = users[i].Task.Cycles()
		f.reportCount++
	}
}

// Settle adds a slot's number of tasks, known from results, and how many had no decision.
func (f *Forecast) Settle(tasks, unreported int) {
	c := &f.counts
	c.Tasks[c.SettledSlots%len(c.Tasks)] = tasks
	c.SettledSlots++
	if tasks > 0 {
		c.ShareSlots++
		c.UnreportedShare += (float64(unreported)/float64(tasks) - c.UnreportedShare) / min(c.ShareSlots, unreportedMemory)
	}
}

// Offer returns the next slot's standing offer, for these aircraft at a price.
func (f *Forecast) Offer(c *physics.Constants, aircraft []slot.Aircraft, priceSPerJ float64, r *rand.Rand) Offer {
	s := &f.syntheticSlot
	s.Aircraft, s.Users = append(s.Aircraft[:0], aircraft...), s.Users[:0]
	n := f.Prior.ActiveUsers
	if x := &f.counts; x.SettledSlots > 0 {
		n = float64(x.Tasks[r.IntN(min(x.SettledSlots, len(x.Tasks)))])
	}
	if !(n > 0) { // also if it is not a number
		n = 0
	}
	n = min(n, maxExpectedUsers)
	f.expectedTasks = n
	usersPerSynthetic := max(1, n/maxSyntheticUsers)
	scaled := *c
	if c.Contention {
		scaled.Channel.BandwidthHz /= usersPerSynthetic // like the CPU
	}
	for m := range s.Aircraft {
		s.Aircraft[m].CPUHz /= usersPerSynthetic
		s.Aircraft[m].Unreported = slot.UnreportedLoad{}
	}
	for range int(math.Round(n / usersPerSynthetic)) {
		s.Users = append(s.Users, f.syntheticUser(c, r, s.Aircraft))
	}
	f.solver.Solve(&scaled, s, priceSPerJ, &f.syntheticDecision)
	offer := Offer{PriceSPerJ: f.syntheticDecision.PriceSPerJ}
	f.offered = f.offered[:0]
	for m, a := range s.Aircraft {
		users, cycles := servedLoad(s, &f.syntheticDecision, m)
		offer.Aircraft = append(offer.Aircraft, OfferAircraft{Number: a.Number, Position: a.Position, CPUHz: a.CPUHz, ExpectedUsers: users})
		f.offered = append(f.offered, offeredLoad{number: a.Number, users: users, cyclesPerUser: cycles / max(users, 1)})
	}
	f.balance(&scaled, &offer)
	for m := range offer.Aircraft {
		x, o := &offer.Aircraft[m], &f.offered[m]
		o.shareHz = x.CPUHz * usersPerSynthetic / max(usersPerSynthetic*x.ExpectedUsers, 1)
		x.CPUHz, x.ExpectedUsers, o.users = usersPerSynthetic*x.CPUHz, usersPerSynthetic*x.ExpectedUsers, usersPerSynthetic*o.users
	}
	return offer
}

const (
	balanceSteps = 40 // responses of the users that an offer is made from
	// crowding is how many times the users expected may come, as synthetic users are not
	// the ones that will: an offer that is worse than local then is none.
	crowding = 1.4
	// So many more or fewer users than expected, or such a share of all, are as expected.
	balancedUsers, balancedShare = 2, 0.05
)

// choosingShare is the part of the users that an offer is made for: those without a decision. Where hardly
// any lacks one it is made for all, who take it when the leader is late for a slot: an offer made for few
// has 100 users wait longer than if each computed locally. To a single user either is worth the same.
func (f *Forecast) choosingShare() float64 {
	const hardlyAny = 0.01
	if f.counts.UnreportedShare < hardlyAny {
		return 1
	}
	return min(f.counts.UnreportedShare, 1)
}

// balance changes the users that an offer expects, which are those of a dispatch, until as
// many come: of the part that reports those that are dispatched beside the others, and of the
// others those that choose an aircraft by the offer itself. It is the mean of their responses to the means before (fictitious play,
// Brown 1951), and leaves in f.offered the mean load of the later responses. Aircraft that
// would be no better than local are taken off the offer, one after another.
func (f *Forecast) balance(c *physics.Constants, offer *Offer) {
	f.dispatched = f.dispatched[:0]
	for m := range f.offered {
		f.dispatched = append(f.dispatched, (1-f.choosingShare())*f.offered[m].users)
	}
	f.rateBPS = f.rateBPS[:0]
	if !c.Contention { // these do not depend on who else came
		for i := range f.syntheticSlot.Users {
			for m := range offer.Aircraft {
				f.rateBPS = append(f.rateBPS, c.Channel.RateBPS(offer.gain(c, &f.syntheticSlot.Users[i], m), c.Channel.BandwidthHz))
			}
		}
	}
	if f.isBalanced(c, offer) {
		return
	}
	for range offer.Aircraft {
		f.respond(c, offer)
		worst, at := 1.0, -1
		for m := range offer.Aircraft {
			if x := f.overLocal(c, offer, m); offer.Aircraft[m].CPUHz > 0 && x >= worst {
				worst, at = x, m
			}
		}
		if at < 0 {
			return
		}
		offer.Aircraft[at].CPUHz, offer.Aircraft[at].ExpectedUsers = 0, 0
	}
	f.respond(c, offer)
}

// choice is what a synthetic user chooses of an offer.
func (f *Forecast) choice(c *physics.Constants, offer *Offer, i int) slot.UserDecision {
	var rateBPS []float64
	if aircraft := len(offer.Aircraft); len(f.rateBPS) > 0 {
		rateBPS = f.rateBPS[i*aircraft:][:aircraft]
	}
	return offer.choose(c, &f.syntheticSlot.Users[i], rateBPS)
}

// isBalanced reports whether about as many come as an offer expects. Of few users the
// dispatch is as good as that, and cheaper for all.
func (f *Forecast) isBalanced(c *physics.Constants, offer *Offer) bool {
	f.came = reuse.Slice(f.came, len(offer.Aircraft))
	for i := range f.syntheticSlot.Users {
		if choice := f.choice(c, offer, i); choice.Server > 0 {
			f.came[choice.Server-1]++
		}
	}
	most := max(balancedUsers, balancedShare*float64(len(f.syntheticSlot.Users)))
	for m := range f.came {
		if math.Abs(f.came[m]-offer.Aircraft[m].ExpectedUsers) > most {
			return false
		}
	}
	return true
}

// respond is balance with the aircraft that are on offer.
func (f *Forecast) respond(c *physics.Constants, offer *Offer) {
	f.choose(c, offer)
	for range dispatchRounds {
		f.dispatch(c, offer)
		f.choose(c, offer)
	}
}

// dispatchRounds is how often those that report are dispatched beside the others.
const dispatchRounds = 2

// dispatch finds how many of those that report are dispatched to each aircraft, beside the
// load of those that chose it.
func (f *Forecast) dispatch(c *physics.Constants, offer *Offer) {
	s, share := f.syntheticSlot, f.choosingShare() // a copy: its users are drawn in any order
	s.Users = s.Users[:int(math.Round((1-share)*float64(len(s.Users))))]
	for m := range s.Aircraft {
		s.Aircraft[m].Unreported = slot.UnreportedLoad{ExpectedUsers: share * f.offered[m].users, CyclesPerUser: f.offered[m].cyclesPerUser}
	}
	f.solver.Solve(c, &s, offer.PriceSPerJ, &f.syntheticDecision)
	for m := range s.Aircraft {
		f.dispatched[m], _ = servedLoad(&s, &f.syntheticDecision, m)
		s.Aircraft[m].Unreported = slot.UnreportedLoad{}
	}
}

// choose has all users choose by the offer, time and again.
func (f *Forecast) choose(c *physics.Constants, offer *Offer) {
	share := f.choosingShare()
	for m := range f.offered {
		f.offered[m].users, f.offered[m].cyclesPerUser = 0, 0
	}
	f.came = reuse.Slice(f.came, len(offer.Aircraft))
	for k := range balanceSteps {
		clear(f.came)
		for i := range f.syntheticSlot.Users {
			u := &f.syntheticSlot.Users[i]
			choice := f.choice(c, offer, i)
			if choice.Server == 0 {
				continue
			}
			f.came[choice.Server-1]++
			if k >= balanceSteps/2 {
				o := &f.offered[choice.Server-1]
				o.users++
				o.cyclesPerUser += (choice.Offload*u.Task.Cycles() - o.cyclesPerUser) / o.users
			}
		}
		for m := range offer.Aircraft {
			if x := &offer.Aircraft[m]; x.CPUHz > 0 {
				x.ExpectedUsers += (f.dispatched[m] + share*f.came[m] - x.ExpectedUsers) / float64(k+2)
			}
		}
	}
	for m := range f.offered {
		f.offered[m].users /= balanceSteps - balanceSteps/2
	}
}

// overLocal returns the delay of those that choose an aircraft, if more come than it
// expects, over what it is when they compute locally; 1 if nobody does.
func (f *Forecast) overLocal(c *physics.Constants, offer *Offer, m int) float64 {
	x := &offer.Aircraft[m]
	crowd := min(crowding*max(x.ExpectedUsers, 1), max(float64(len(f.syntheticSlot.Users)), x.ExpectedUsers))
	delayS, allLocalS := 0.0, 0.0
	for i := range f.syntheticSlot.Users {
		u := &f.syntheticSlot.Users[i]
		if choice := f.choice(c, offer, i); choice.Server == m+1 {
			localS := u.Task.LocalTimeS(u.CPUHz)
			delayS += c.PenalizedDelayS(u.Task, physics.CompletionS(localS, u.Task.OffloadTimeS(c.EqualShare(u.Gain[m], x.CPUHz, crowd)),
				choice.Offload))
			allLocalS += c.PenalizedDelayS(u.Task, localS)
		}
	}
	if allLocalS == 0 {
		return 1
	}
	return delayS / allLocalS
}

// servedLoad returns how many users a decision gives aircraft m, and their cycles there.
func servedLoad(s *slot.Snapshot, d *slot.Decision, m int) (users, cycles float64) {
	for i := range d.Users {
		if d.Users[i].Server == m+1 {
			users++
			cycles += d.Users[i].Offload * s.Users[i].Task.Cycles()
		}
	}
	return users, cycles
}

// syntheticUser draws a user: one of the latest that reported or, before any has, one
// of the prior, with randomly drawn gains.
func (f *Forecast) syntheticUser(c *physics.Constants, r *rand.Rand, aircraft []slot.Aircraft) slot.User {
	var u slot.User
	if f.reportCount > 0 {
		u = f.recentUsers[r.IntN(min(f.reportCount, len(f.recentUsers)))]
	} else {
		u = f.Prior.Sample(c.AreaSideM, r)
	}
	u.Gain = make([]float64, len(aircraft))
	for m := range aircraft {
		u.Gain[m] = SampleGain(&c.Channel, u.Position.Sub(aircraft[m].Position).Norm(), c.AltitudeM, r)
	}
	return u
}

// UserPrior is the prior over users, from the statistics of the corpus: the mean
// number with a task in a slot, the mean and the standard deviation of a task, and
// the CPU of a user's device.
type UserPrior struct {
	ActiveUsers          float64 // with a task in a slot, mean
	TaskMean, TaskStdDev physics.Task
	CPUHz                float64
}

// Check returns an error unless the means are positive and the deviations are not negative.
func (p *UserPrior) Check() error {
	for _, x := range []float64{p.TaskMean.Bits, p.TaskMean.CyclesPerBit, p.TaskMean.DeadlineS, p.CPUHz, p.ActiveUsers} {
		if !(x > 0 && x < 1e15) {
			return fmt.Errorf("prior over users is %+v, want positive means", *p)
		}
	}
	for _, x := range []float64{p.TaskStdDev.Bits, p.TaskStdDev.CyclesPerBit, p.TaskStdDev.DeadlineS} {
		if !(x >= 0 && x < 1e15) { // nor NaN
			return fmt.Errorf("prior over users is %+v, want no negative deviation", *p)
		}
	}
	return nil
}

// Claims returns the most that a report weighs: a little more than the largest task of the
// corpus, whose bits spread evenly by half about their mean, and than it takes on the
// slowest of its users' CPUs.
func (p *UserPrior) Claims() slot.Claims {
	const largestTask, longestTask = 1.6, 2.2 // over the mean
	if !(p.CPUHz > 0) {
		return slot.Claims{}
	}
	return slot.Claims{Bits: largestTask * p.TaskMean.Bits, Cycles: largestTask * p.TaskMean.Cycles(),
		LocalS: longestTask * p.TaskMean.LocalTimeS(p.CPUHz)}
}

// Sample draws a user with a uniform position. Its ID is -1, which no reported one has.
func (p *UserPrior) Sample(areaM float64, r *rand.Rand) slot.User {
	uniform := func(mean, stdDev float64) float64 {
		return max(mean+math.Sqrt(3)*stdDev*(2*r.Float64()-1), mean/100)
	}
	return slot.User{
		ID: slot.PriorID, CPUHz: p.CPUHz, Position: physics.Position{EastM: areaM * r.Float64(), NorthM: areaM * r.Float64()},
		Task: physics.Task{
			Bits: uniform(p.TaskMean.Bits, p.TaskStdDev.Bits), CyclesPerBit: p.TaskMean.CyclesPerBit,
			DeadlineS: uniform(p.TaskMean.DeadlineS, p.TaskStdDev.DeadlineS),
		},
	}
}

// SampleGain draws a link's power gain: line of sight or not, log-normal shadowing,
// and Nakagami fading, whose power is a mean of exponentials.
func SampleGain(c *physics.Channel, horizontalM, altitudeM float64, r *rand.Rand) float64 {
	link := c.NLoS
	if r.Float64() < c.LoSProbability(horizontalM, altitudeM) {
		link = c.LoS
	}
	db := link.ShadowDB*r.NormFloat64() - link.ExcessDB
	fading, m := 0.0, math.Max(math.Round(link.NakagamiM), 1)
	for range int(min(m, 64)) {
		fading += r.ExpFloat64() / min(m, 64)
	}
	return c.FreeSpaceGain(horizontalM, altitudeM) * math.Exp(db*math.Ln10/10) * fading
}

// AnnotateSnapshot adds to a slot's snapshot the unreported load that the last offer
// leads to, and the synthetic users, if the aircraft are those of that offer.
// Aircraft that it did not include expect no load.
func (f *Forecast) AnnotateSnapshot(s *slot.Snapshot) {
	same := len(s.Aircraft) == len(f.offered)
	for m := range s.Aircraft {
		a := &s.Aircraft[m]
		a.Unreported = slot.UnreportedLoad{}
		for _, x := range f.offered {
			if x.number == a.Number {
				a.Unreported = slot.UnreportedLoad{ExpectedUsers: f.counts.UnreportedShare * x.users, CyclesPerUser: x.cyclesPerUser}
			}
		}
		same = same && f.offered[m].number == a.Number
	}
	s.SyntheticUsers = s.SyntheticUsers[:0]
	if same {
		s.SyntheticUsers = append(s.SyntheticUsers, f.syntheticSlot.Users...)
	}
}

// OfferUsersEdgeJ returns the edge energy of users who decided by the offer, each at
// the share that it published: expectedJ if they chose aircraft as the offer
// expects, and at most maxJ, if all of them had the largest task reported and
// chose the aircraft of the largest share.
func (f *Forecast) OfferUsersEdgeJ(c *physics.Constants, offerUsers int) (expectedJ, maxJ float64) {
	if offerUsers == 0 {
		return 0, 0
	}
	largest := math.Inf(1)
	if f.reportCount > 0 {
		largest = slices.Max(f.recentCycles[:min(f.reportCount, len(f.recentCycles))])
	}
	for _, x := range f.offered {
		perCycleJ := c.SwitchedCapacitance * x.shareHz * x.shareHz
		expectedJ += x.users * x.cyclesPerUser * perCycleJ
		maxJ = max(maxJ, largest*perCycleJ)
	}
	n := float64(offerUsers)
	return n * expectedJ / max(f.expectedUsers(), 1e-9), n * maxJ
}

// WithoutDecision is how many users without a decision are expected beside those that report.
func (f *Forecast) WithoutDecision() float64 {
	return min(f.counts.UnreportedShare, 1) * f.expectedTasks
}

// expectedUsers is the number of users that the last offer leads to some aircraft.
func (f *Forecast) expectedUsers() (sum float64) {
	for _, x := range f.offered {
		sum += x.users
	}
	return sum
}

// SlotEdgeJ returns the expected edge energy of a slot whose decision was d, once it
// is known how many users decided by the offer: they chose aircraft as the offer
// expects, and an aircraft's CPU is shared by all users that came to it.
func (f *Forecast) SlotEdgeJ(c *physics.Constants, s *slot.Snapshot, d *slot.Decision, offerUsers int) (sumJ float64) {
	expected := f.expectedUsers()
	for m, a := range s.Aircraft {
		sharing, cycles := servedLoad(s, d, m)
		for _, x := range f.offered {
			if x.users > 0 && x.number == a.Number {
				users := float64(offerUsers) * x.users / expected
				sharing += users
				cycles += users * x.cyclesPerUser
			}
		}
		shareHz := a.CPUHz / max(sharing, 1)
		sumJ += c.SwitchedCapacitance * shareHz * shareHz * cycles
	}
	return sumJ
}
