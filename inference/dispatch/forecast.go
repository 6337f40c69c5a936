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
	Usual Crowd // stands in while nothing has been heard

	recent  [64]slot.User // heard last, gains apart
	heard   int
	tasks   [32]int // of the last slots
	settled int
	lost    float64 // filtered fraction of the tasks that went unheard

	solver   Solver
	imagined slot.Snapshot
	scale    float64 // users that one imagined user stands for
	decision slot.Decision
}

// OpeningPriceSPerJ stands in the offer of a mission's first slot, before the
// policy said a price: about the middle of the front.
const OpeningPriceSPerJ = 0.01

const (
	// lostMemory is the weight of the past in the fraction unheard: about twenty slots.
	lostMemory = 0.95
	// imaginedMax bounds the imagined slot; beyond it one user stands for several.
	imaginedMax = 128
	usersMax    = 1e5 // as many as an offer may expect
)

// Reset forgets a mission.
func (f *Forecast) Reset() {
	*f = Forecast{Usual: f.Usual}
}

// Hear takes the users heard in a slot.
func (f *Forecast) Hear(users []slot.User) {
	for i := range users {
		u := users[i]
		u.Gain = nil
		f.recent[f.heard%len(f.recent)] = u
		f.heard++
	}
}

// Settle takes how many users had a task in a slot, as their results tell, and
// how many of them had no decision.
func (f *Forecast) Settle(tasks, unheard int) {
	f.tasks[f.settled%len(f.tasks)] = tasks
	f.settled++
	if tasks > 0 {
		f.lost = lostMemory*f.lost + (1-lostMemory)*float64(unheard)/float64(tasks)
	}
}

// Offer imagines the slot to come and returns its standing offer, for these
// aircraft at a price.
func (f *Forecast) Offer(c *physics.Constants, aircraft []slot.Aircraft, priceSPerJ float64, r *rand.Rand) Offer {
	s := &f.imagined
	s.Aircraft, s.Users = append(s.Aircraft[:0], aircraft...), s.Users[:0]
	n := f.Usual.Users
	if f.settled > 0 {
		n = float64(f.tasks[r.IntN(min(f.settled, len(f.tasks)))])
	}
	if !(n > 0) {
		n = 0
	}
	n = min(n, usersMax)
	f.scale = max(1, n/imaginedMax)
	there := *c
	if c.Contention {
		there.Channel.BandwidthHz /= f.scale // like the CPU
	}
	for m := range s.Aircraft {
		s.Aircraft[m].CPUHz /= f.scale
		s.Aircraft[m].Unheard = slot.Unheard{}
	}
	for range int(math.Round(n / f.scale)) {
		s.Users = append(s.Users, f.user(c, r, s.Aircraft))
	}
	f.solver.Solve(&there, s, priceSPerJ, &f.decision)
	offer := Offer{PriceSPerJ: f.decision.PriceSPerJ}
	for m := range aircraft {
		a := &aircraft[m]
		offer.Aircraft = append(offer.Aircraft, OfferAircraft{
			Number: a.Number, Position: a.Position, CPUHz: a.CPUHz, ExpectedUsers: f.scale * float64(f.decision.Served(m+1)),
		})
	}
	return offer
}

// user imagines one: one of those last heard, over links as they may be.
func (f *Forecast) user(c *physics.Constants, r *rand.Rand, aircraft []slot.Aircraft) slot.User {
	var u slot.User
	if f.heard > 0 {
		u = f.recent[r.IntN(min(f.heard, len(f.recent)))]
	} else {
		u = f.Usual.draw(c.AreaM, r)
	}
	u.Gain = make([]float64, len(aircraft))
	for m := range aircraft {
		u.Gain[m] = drawGain(&c.Channel, u.Position.Sub(aircraft[m].Position).Norm(), c.AltitudeM, r)
	}
	return u
}

// Crowd is what is usual of users: how many have a task in a slot, the mean and
// the standard deviation of what it asks for, and what they compute with.
type Crowd struct {
	Users        float64
	Task, Spread physics.Task
	CPUHz        float64
}

// draw returns a user somewhere in the area. It has no number of its own.
func (c *Crowd) draw(areaM float64, r *rand.Rand) slot.User {
	uniform := func(mean, deviation float64) float64 {
		return max(mean+math.Sqrt(3)*deviation*(2*r.Float64()-1), mean/100)
	}
	return slot.User{
		ID: -1, CPUHz: c.CPUHz, Position: physics.Position{EastM: areaM * r.Float64(), NorthM: areaM * r.Float64()},
		Task: physics.Task{
			Bits: uniform(c.Task.Bits, c.Spread.Bits), CyclesPerBit: c.Task.CyclesPerBit, DeadlineS: uniform(c.Task.DeadlineS, c.Spread.DeadlineS),
		},
	}
}

// drawGain draws a power gain: line of sight or not, log-normal shadowing, and
// Nakagami fading, whose power is a mean of exponentials.
func drawGain(c *physics.Channel, horizontalM, altitudeM float64, r *rand.Rand) float64 {
	link := c.NLoS
	if r.Float64() < c.LoSProbability(horizontalM, altitudeM) {
		link = c.LoS
	}
	db := link.ShadowDB*r.NormFloat64() - link.ExcessDB
	fading, m := 0.0, math.Max(math.Round(link.Nakagami), 1)
	for range int(min(m, 64)) {
		fading += r.ExpFloat64() / min(m, 64)
	}
	return c.FreeSpaceGain(horizontalM, altitudeM) * math.Exp(db*math.Ln10/10) * fading
}

// Expect tells a slot's snapshot who is expected to take the offer last made,
// and whom the policy may imagine if nobody is heard. Aircraft that were not on
// offer expect nobody.
func (f *Forecast) Expect(s *slot.Snapshot) {
	same := len(s.Aircraft) == len(f.imagined.Aircraft)
	for m := range s.Aircraft {
		a := &s.Aircraft[m]
		a.Unheard = slot.Unheard{}
		for k := range f.imagined.Aircraft {
			if f.imagined.Aircraft[k].Number == a.Number {
				a.Unheard = f.unheard(k)
			}
		}
		same = same && f.imagined.Aircraft[m].Number == a.Number
	}
	s.Imagined = s.Imagined[:0]
	if same {
		s.Imagined = append(s.Imagined, f.imagined.Users...)
	}
}

// unheard is the part of an imagined aircraft's load that will not be heard.
func (f *Forecast) unheard(m int) slot.Unheard {
	users, cycles := f.load(m)
	return slot.Unheard{Users: f.lost * users, Cycles: cycles}
}

// load is how many users an imagined aircraft serves, and what each offloads.
func (f *Forecast) load(m int) (users, cycles float64) {
	for i := range f.decision.Users {
		if d := &f.decision.Users[i]; d.Server == m+1 {
			users++
			cycles += d.Offload * f.imagined.Users[i].Task.Cycles()
		}
	}
	return f.scale * users, cycles / max(users, 1)
}

// TakersJ returns what edge computing took for those who took the offer, each
// at the share it told: as foreseen some came to each aircraft, and at most all
// came, with the largest task heard of, to the one that told the most.
func (f *Forecast) TakersJ(c *physics.Constants, takers int) (sumJ, mostJ float64) {
	if takers == 0 {
		return 0, 0
	}
	largest := math.Inf(1)
	if f.heard > 0 {
		largest = 0
		for _, u := range f.recent[:min(f.heard, len(f.recent))] {
			largest = max(largest, u.Task.Cycles())
		}
	}
	foreseen := 0.0
	for k, a := range f.imagined.Aircraft {
		users, cycles := f.load(k)
		share := f.scale * a.CPUHz / max(users, 1)
		perCycleJ := c.Kappa * share * share
		foreseen += users
		sumJ += users * cycles * perCycleJ
		mostJ = max(mostJ, largest*perCycleJ)
	}
	n := float64(takers)
	return n * sumJ / max(foreseen, 1e-9), n * mostJ
}

// EdgeJ returns what edge computing took in a slot whose decision was d, in a
// world where those share an aircraft who come to it, once it is known how many
// took the offer: as it foresaw, some to each aircraft.
func (f *Forecast) EdgeJ(c *physics.Constants, s *slot.Snapshot, d *slot.Decision, takers int) (sumJ float64) {
	foreseen := 0.0
	for k := range f.imagined.Aircraft {
		users, _ := f.load(k)
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
		for k := range f.imagined.Aircraft {
			if users, each := f.load(k); users > 0 && f.imagined.Aircraft[k].Number == s.Aircraft[m].Number {
				sharing += float64(takers) * users / foreseen
				cycles += float64(takers) * users / foreseen * each
			}
		}
		share := s.Aircraft[m].CPUHz / max(sharing, 1)
		sumJ += c.Kappa * share * share * cycles
	}
	return sumJ
}
