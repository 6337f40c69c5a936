package duty

import (
	"math"
	"math/rand/v2"
	"slices"

	"prefdt/inference/dispatch"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// gridPrices is the number of prices at which a slot is replayed.
const gridPrices = 16

// splits are the prices of the first aircraft to leave over those of the others at which a slot is
// replayed: a pack that is short computes less, and the others more. The first is what a fleet's
// total alone needs.
var splits = [...]float64{1, 0.5, 2, 0.2, 5}

// Curve is what a slot with so many aircraft in the air saves and takes: means over the
// slots replayed.
type Curve struct {
	Slots  float64            `json:"slots"`   // replayed
	LocalS float64            `json:"local_s"` // delay if all compute locally
	Splits [len(splits)]Costs `json:"splits"`
}

// Costs are those of a slot by price: the mean of the prices of the aircraft.
type Costs struct {
	SavedS [gridPrices]float64 `json:"saved_s"` // of the delay if all compute locally
	FirstJ [gridPrices]float64 `json:"first_j"` // edge energy of the first aircraft to leave
	RestJ  [gridPrices]float64 `json:"rest_j"`  // of each of the others
}

const (
	memorySlots   = 40  // slots that the means extend over
	middleReports = 256 // reports that the middle of the users is a mean of
	priorSlots    = 12  // synthetic slots, of the prior over users, that are replayed first
	priorWeight   = 6   // slots that they weigh
	// Above so many users times aircraft squared, one number of aircraft is replayed in a slot, in turn.
	workBound = 100
	// mostReplayed is how many users times aircraft are replayed of a slot at most, or 8 users.
	mostReplayed = 64
	// With more aircraft than this a slot is replayed at every second price, and fewer slots of the prior:
	// what a plan takes is known before it starts.
	fewAircraft, priorSlotsOfMany = 3, 4
	// targetSlots is after how many slots the places of each number of aircraft are sought again.
	targetSlots = 10
)

// curves are those of one to all aircraft, and what makes them.
type curves struct {
	constants     *physics.Constants
	pricesSPerJ   [gridPrices]float64
	maxPriceSPerJ float64
	levels        []Curve

	planner  motion.Planner
	solver   dispatch.Solver
	replayed slot.Snapshot
	scaled   physics.Constants    // of the slot replayed
	targets  [][]physics.Position // by level
	soughtAt []int                // slot of the targets, by level; -1: before any user reported
	gains    []float64
	source   rand.PCG
	random   *rand.Rand
	reports  int // of tasks, received
	middle   physics.Position
	fleet    []slot.Aircraft
	weighed  slot.Weighed
	users    []slot.User // of the slot, that are replayed
	decision slot.Decision
	weights  []float64
	split    bool // the load is replayed unevenly as well
	solves   int  // of slots at prices, by the last plan: what takes its time
}

func (c *curves) start(constants *physics.Constants, maxPriceSPerJ float64) {
	c.constants, c.maxPriceSPerJ = constants, maxPriceSPerJ
	c.random = rand.New(&c.source)
	// Below the first a joule is kept rather than spent; above the last but four none
	// is worth flying for, unless it is the last aircraft's.
	const first, ratio = 4e-4, 1.35
	for k := range c.pricesSPerJ {
		c.pricesSPerJ[k] = maxPriceSPerJ * first * math.Pow(ratio, float64(k))
	}
	for k, x := range [...]float64{0.02, 0.05, 0.2, 1} {
		c.pricesSPerJ[gridPrices-4+k] = maxPriceSPerJ * x
	}
}

func (c *curves) reset() {
	c.levels = c.levels[:0]
	c.soughtAt = c.soughtAt[:0]
	c.planner.Reset()
	c.reports, c.middle = 0, physics.Position{}
}

func (c *curves) localS(up int) float64 { return c.levels[up-1].LocalS }

// splitsOf is how many splits of the load are replayed with so many in the air: where no pack bounds the
// plan, or so many users would take long, the even one.
func (c *curves) splitsOf(up int) int {
	if up == 1 || !c.split {
		return 1
	}
	return len(splits)
}

// step is the distance on the grid of the prices at which a slot is replayed.
func (c *curves) step(up, split int) int {
	if split > 0 || up > fewAircraft {
		return 2
	}
	return 1
}

// centre is the mean place of the last reports' users, the area's centre before any did.
func (c *curves) centre(*Input) physics.Position {
	if c.reports == 0 {
		return physics.Position{EastM: c.constants.AreaSideM / 2, NorthM: c.constants.AreaSideM / 2}
	}
	return c.middle
}

// observe replays the slot of an input, by each number of aircraft that may be in the air.
func (c *curves) observe(in *Input, prior dispatch.UserPrior) {
	c.fleet, c.solves = c.fleet[:0], 0
	for m := range in.Aircraft {
		if a := &in.Aircraft[m]; !a.Left {
			c.fleet = append(c.fleet, slot.Aircraft{Number: a.Number, Position: a.Position, CPUHz: a.CPUHz})
		}
	}
	up := len(c.fleet)
	c.split = slices.ContainsFunc(in.Aircraft, func(a Aircraft) bool { return !a.Left && !math.IsInf(a.LeftJ, 1) }) &&
		float64(up*up)*max(float64(len(in.Users)), prior.ActiveUsers) <= workBound
	for len(c.levels) < up {
		c.levels = append(c.levels, Curve{})
	}
	for len(c.soughtAt) < up {
		c.soughtAt = append(c.soughtAt, -targetSlots)
		c.targets = append(c.targets, nil)
	}
	for j := 1; j <= up; j++ {
		if c.levels[j-1].Slots == 0 {
			c.replayPrior(in, j, prior)
		}
	}
	users := c.usable(in.Users, prior)
	if len(users) == 0 || up == 0 {
		return
	}
	c.planner.Observe(users)
	for i := range users {
		c.reports++
		c.middle = c.middle.Add(users[i].Position.Sub(c.middle).Scale(1 / float64(min(c.reports, middleReports))))
	}
	if len(users)*up*up > workBound {
		c.replay(in, 1+in.Slot%up, users)
		return
	}
	for j := 1; j <= up; j++ {
		c.replay(in, j, users)
	}
}

// usable returns the users whose figures are usable, as they are weighed: no report may move the
// plan by more than a large task does.
func (c *curves) usable(users []slot.User, prior dispatch.UserPrior) []slot.User {
	s, _ := prior.Claims().Weigh(&slot.Snapshot{Users: users}, &c.weighed)
	c.users = c.users[:0]
	for _, u := range s.Users {
		localS := u.Task.LocalTimeS(u.CPUHz)
		if localS > 0 && localS <= math.MaxFloat64 && u.Task.DeadlineS > 0 && u.Position.Valid() {
			c.users = append(c.users, u)
		}
	}
	return c.users
}

// replayPrior replays synthetic slots by up aircraft.
func (c *curves) replayPrior(in *Input, up int, prior dispatch.UserPrior) {
	users := make([]slot.User, 0, int(math.Round(prior.ActiveUsers)))
	slots := priorSlots
	if up > fewAircraft {
		slots = priorSlotsOfMany
	}
	for k := range slots {
		c.source.Seed(uint64(k), 1)
		users = users[:0]
		for range int(math.Round(prior.ActiveUsers)) {
			users = append(users, prior.Sample(c.constants.AreaSideM, c.random))
		}
		c.replay(in, up, users)
	}
	c.levels[up-1].Slots = max(min(c.levels[up-1].Slots, priorWeight), 1)
}

// replay adds a slot with up aircraft to their curve.
func (c *curves) replay(in *Input, up int, users []slot.User) {
	s := &c.replayed
	s.Slot, s.Slots = in.Slot, in.Slots
	s.Aircraft = append(s.Aircraft[:0], c.fleet[:up]...)
	if in.Slot >= c.soughtAt[up-1]+targetSlots || len(c.targets[up-1]) != up {
		c.targets[up-1] = c.planner.Targets(c.constants, s.Aircraft, c.targets[up-1])
		c.soughtAt[up-1] = in.Slot
	}
	for m := range s.Aircraft {
		s.Aircraft[m].Position = c.targets[up-1][m]
	}
	c.source.Seed(uint64(in.Slot), 2)
	// Of many users some stand for all, on as small a part of each aircraft.
	scale, most := 1.0, max(mostReplayed/up, 8)
	s.Users, c.gains = s.Users[:0], c.gains[:0]
	if len(users) <= most {
		s.Users = append(s.Users, users...)
	} else {
		scale = float64(len(users)) / float64(most)
		for k := range most {
			s.Users = append(s.Users, users[(2*k+1)*len(users)/(2*most)])
		}
	}
	c.scaled = *c.constants
	if c.scaled.Contention {
		c.scaled.Channel.BandwidthHz /= scale
	}
	for m := range s.Aircraft {
		s.Aircraft[m].CPUHz /= scale
	}
	localS := 0.0
	for i := range s.Users {
		u := &s.Users[i]
		first := len(c.gains)
		for m := range s.Aircraft {
			c.gains = append(c.gains, dispatch.SampleGain(&c.constants.Channel, u.Position.Sub(s.Aircraft[m].Position).Norm(),
				c.constants.AltitudeM, c.random))
		}
		u.Gain, u.GainMissing = c.gains[first:len(c.gains):len(c.gains)], nil
		localS += c.constants.PenalizedDelayS(u.Task, u.Task.LocalTimeS(u.CPUHz))
	}
	x := &c.levels[up-1]
	x.Slots = min(x.Slots+1, memorySlots)
	x.LocalS += (scale*localS - x.LocalS) / x.Slots
	c.solver.Begin(&c.scaled, s)
	for k := range c.splitsOf(up) {
		c.weights = c.weights[:0]
		first, rest := splits[k], 1.0
		mean := (first + rest*float64(up-1)) / float64(up)
		for m := range s.Aircraft {
			if m == 0 {
				c.weights = append(c.weights, first/mean)
			} else {
				c.weights = append(c.weights, rest/mean)
			}
		}
		c.solver.Weigh(c.weights)
		costs, d := &x.Splits[k], &c.decision
		d.Resize(s)
		for g := 0; g < gridPrices; g += c.step(up, k) {
			c.solves++
			c.solver.At(c.pricesSPerJ[g], d)
			restJ := 0.0
			for _, j := range d.EdgeJ[1:] {
				restJ += j / float64(up-1)
			}
			costs.SavedS[g] += (scale*(localS-d.DelayS) - costs.SavedS[g]) / x.Slots
			costs.FirstJ[g] += (scale*d.EdgeJ[0] - costs.FirstJ[g]) / x.Slots
			costs.RestJ[g] += (scale*restJ - costs.RestJ[g]) / x.Slots
		}
	}
}
