package dispatch

import (
	"math"
	"math/rand/v2"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// Forecast makes the standing offer of a slot before anybody is heard in it.
//
// An aircraft's joules fall with the number of users that share it, so those
// who decide for themselves must come to the same aircraft in the same slot, or
// not at all. What they have in common is the beacon. So a slot is imagined, of
// as many users as really had a task in some slot before, with tasks and
// places as last reported; exact dispatch says who serves them at the price;
// and those loads are what the offer tells to expect.
//
// Whoever is heard is then dispatched knowing that of the offer's takers the
// fraction will come that went unheard before.
type Forecast struct {
	Prior UserPrior // stands in while nothing has been heard

	recentUsers     [64]slot.User // heard last, gains apart
	reportCount     int
	taskCounts      [32]int // of the last slots
	settledSlots    int
	unreportedShare float64 // filtered fraction of the tasks that went unheard

	solver            Solver
	syntheticSlot     slot.Snapshot
	usersPerSynthetic float64 // users that one imagined user stands for
	syntheticDecision slot.Decision
}

// InitialPriceSPerJ stands in the offer of a mission's first slot, before the
// policy said a price: about the middle of the front.
const InitialPriceSPerJ = 0.01

const (
	// unreportedMemory is the weight of the past in the fraction unheard: about twenty slots.
	unreportedMemory = 0.95
	// maxSyntheticUsers bounds the imagined slot; beyond it one user stands for several.
	maxSyntheticUsers = 128
	maxExpectedUsers  = 1e5 // as many as an offer may expect
)

// Reset forgets a mission.
func (f *Forecast) Reset() {
	*f = Forecast{Prior: f.Prior}
}

// Observe takes the users heard in a slot.
func (f *Forecast) Observe(users []slot.User) {
	for i := range users {
		u := users[i]
		u.Gain = nil
		f.recentUsers[f.reportCount%len(f.recentUsers)] = u
		f.reportCount++
	}
}

// Settle takes how many users had a task in a slot, as their results tell, and
// how many of them had no decision.
func (f *Forecast) Settle(tasks, unheard int) {
	f.taskCounts[f.settledSlots%len(f.taskCounts)] = tasks
	f.settledSlots++
	if tasks > 0 {
		f.unreportedShare = unreportedMemory*f.unreportedShare + (1-unreportedMemory)*float64(unheard)/float64(tasks)
	}
}

// Offer imagines the slot to come and returns its standing offer, for these
// aircraft at a price.
func (f *Forecast) Offer(c *physics.Constants, aircraft []slot.Aircraft, priceSPerJ float64, r *rand.Rand) Offer {
	s := &f.syntheticSlot
	s.Aircraft, s.Users = append(s.Aircraft[:0], aircraft...), s.Users[:0]
	n := f.Prior.ActiveUsers
	if f.settledSlots > 0 {
		n = float64(f.taskCounts[r.IntN(min(f.settledSlots, len(f.taskCounts)))])
	}
	if !(n > 0) {
		n = 0
	}
	n = min(n, maxExpectedUsers)
	f.usersPerSynthetic = max(1, n/maxSyntheticUsers)
	there := *c
	if c.Contention {
		there.Channel.BandwidthHz /= f.usersPerSynthetic // like the CPU
	}
	for m := range s.Aircraft {
		s.Aircraft[m].CPUHz /= f.usersPerSynthetic
		s.Aircraft[m].Unreported = slot.UnreportedLoad{}
	}
	for range int(math.Round(n / f.usersPerSynthetic)) {
		s.Users = append(s.Users, f.syntheticUser(c, r, s.Aircraft))
	}
	f.solver.Solve(&there, s, priceSPerJ, &f.syntheticDecision)
	offer := Offer{PriceSPerJ: f.syntheticDecision.PriceSPerJ}
	for m := range aircraft {
		a := &aircraft[m]
		offer.Aircraft = append(offer.Aircraft, OfferAircraft{
			Number: a.Number, Position: a.Position, CPUHz: a.CPUHz, ExpectedUsers: f.usersPerSynthetic * float64(f.syntheticDecision.ServedBy(m+1)),
		})
	}
	return offer
}

// syntheticUser imagines one: one of those last heard, over links as they may be.
func (f *Forecast) syntheticUser(c *physics.Constants, r *rand.Rand, aircraft []slot.Aircraft) slot.User {
	var u slot.User
	if f.reportCount > 0 {
		u = f.recentUsers[r.IntN(min(f.reportCount, len(f.recentUsers)))]
	} else {
		u = f.Prior.sample(c.AreaSideM, r)
	}
	u.Gain = make([]float64, len(aircraft))
	for m := range aircraft {
		u.Gain[m] = sampleGain(&c.Channel, u.Position.Sub(aircraft[m].Position).Norm(), c.AltitudeM, r)
	}
	return u
}

// UserPrior is what is usual of users: how many have a task in a slot, the mean and
// the standard deviation of what it asks for, and what they compute with.
type UserPrior struct {
	ActiveUsers          float64
	TaskMean, TaskStdDev physics.Task
	CPUHz                float64
}

// sample returns a user somewhere in the area. It has no number of its own.
func (c *UserPrior) sample(areaM float64, r *rand.Rand) slot.User {
	uniform := func(mean, deviation float64) float64 {
		return max(mean+math.Sqrt(3)*deviation*(2*r.Float64()-1), mean/100)
	}
	return slot.User{
		ID: -1, CPUHz: c.CPUHz, Position: physics.Position{EastM: areaM * r.Float64(), NorthM: areaM * r.Float64()},
		Task: physics.Task{
			Bits: uniform(c.TaskMean.Bits, c.TaskStdDev.Bits), CyclesPerBit: c.TaskMean.CyclesPerBit, DeadlineS: uniform(c.TaskMean.DeadlineS, c.TaskStdDev.DeadlineS),
		},
	}
}

// sampleGain draws a power gain: line of sight or not, log-normal shadowing, and
// Nakagami fading, whose power is a mean of exponentials.
func sampleGain(c *physics.Channel, horizontalM, altitudeM float64, r *rand.Rand) float64 {
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

// AnnotateSnapshot tells a slot's snapshot who is expected to take the offer last made,
// and whom the policy may imagine if nobody is heard. Aircraft that were not on
// offer expect nobody.
func (f *Forecast) AnnotateSnapshot(s *slot.Snapshot) {
	same := len(s.Aircraft) == len(f.syntheticSlot.Aircraft)
	for m := range s.Aircraft {
		a := &s.Aircraft[m]
		a.Unreported = slot.UnreportedLoad{}
		for k := range f.syntheticSlot.Aircraft {
			if f.syntheticSlot.Aircraft[k].Number == a.Number {
				a.Unreported = f.unreportedLoad(k)
			}
		}
		same = same && f.syntheticSlot.Aircraft[m].Number == a.Number
	}
	s.SyntheticUsers = s.SyntheticUsers[:0]
	if same {
		s.SyntheticUsers = append(s.SyntheticUsers, f.syntheticSlot.Users...)
	}
}

// unreportedLoad is the part of an imagined aircraft's load that will not be heard.
func (f *Forecast) unreportedLoad(m int) slot.UnreportedLoad {
	users, cycles := f.syntheticLoad(m)
	return slot.UnreportedLoad{ExpectedUsers: f.unreportedShare * users, CyclesPerUser: cycles}
}

// syntheticLoad is how many users an imagined aircraft serves, and what each offloads.
func (f *Forecast) syntheticLoad(m int) (users, cycles float64) {
	for i := range f.syntheticDecision.Users {
		if d := &f.syntheticDecision.Users[i]; d.Server == m+1 {
			users++
			cycles += d.Offload * f.syntheticSlot.Users[i].Task.Cycles()
		}
	}
	return f.usersPerSynthetic * users, cycles / max(users, 1)
}

// OfferUsersEdgeJ returns what edge computing took for those who took the offer, each
// at the share it told: as foreseen some came to each aircraft, and at most all
// came, with the largest task heard of, to the one that told the most.
func (f *Forecast) OfferUsersEdgeJ(c *physics.Constants, takers int) (sumJ, mostJ float64) {
	if takers == 0 {
		return 0, 0
	}
	largest := math.Inf(1)
	if f.reportCount > 0 {
		largest = 0
		for _, u := range f.recentUsers[:min(f.reportCount, len(f.recentUsers))] {
			largest = max(largest, u.Task.Cycles())
		}
	}
	foreseen := 0.0
	for k, a := range f.syntheticSlot.Aircraft {
		users, cycles := f.syntheticLoad(k)
		share := f.usersPerSynthetic * a.CPUHz / max(users, 1)
		perCycleJ := c.SwitchedCapacitance * share * share
		foreseen += users
		sumJ += users * cycles * perCycleJ
		mostJ = max(mostJ, largest*perCycleJ)
	}
	n := float64(takers)
	return n * sumJ / max(foreseen, 1e-9), n * mostJ
}

// SlotEdgeJ returns what edge computing took in a slot whose decision was d, in a
// world where those share an aircraft who come to it, once it is known how many
// took the offer: as it foresaw, some to each aircraft.
func (f *Forecast) SlotEdgeJ(c *physics.Constants, s *slot.Snapshot, d *slot.Decision, takers int) (sumJ float64) {
	foreseen := 0.0
	for k := range f.syntheticSlot.Aircraft {
		users, _ := f.syntheticLoad(k)
		foreseen += users
	}
	for m := range s.Aircraft {
		sharing, cycles := 0.0, 0.0
		for i := range d.Users {
			if d.Users[i].Server == m+1 {
				sharing++
				cycles += d.Users[i].Offload * s.Users[i].Task.Cycles()
			}
		}
		for k := range f.syntheticSlot.Aircraft {
			if users, each := f.syntheticLoad(k); users > 0 && f.syntheticSlot.Aircraft[k].Number == s.Aircraft[m].Number {
				sharing += float64(takers) * users / foreseen
				cycles += float64(takers) * users / foreseen * each
			}
		}
		share := s.Aircraft[m].CPUHz / max(sharing, 1)
		sumJ += c.SwitchedCapacitance * share * share * cycles
	}
	return sumJ
}
