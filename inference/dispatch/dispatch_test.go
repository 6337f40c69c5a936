package dispatch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// randomSnapshot draws a slot such as the standard world has: tasks, positions and
// gains that range from line of sight to deep fades.
func randomSnapshot(r *rand.Rand, c *physics.Constants, aircraft, users int) *slot.Snapshot {
	s := &slot.Snapshot{Slots: 100}
	point := func() physics.Position {
		return physics.Position{EastM: r.Float64() * c.AreaSideM, NorthM: r.Float64() * c.AreaSideM}
	}
	for m := range aircraft {
		s.Aircraft = append(s.Aircraft, slot.Aircraft{
			Number: m + 1, Position: point(), CPUHz: c.EdgeCPUHz * (0.5 + r.Float64()), RemainingJ: c.BatteryCapacityJ,
		})
	}
	for i := range users {
		u := slot.User{
			ID: i, Position: point(), CPUHz: 0.5e9 + 1e9*r.Float64(),
			Task: physics.Task{Bits: 0.5e6 + 1e6*r.Float64(), CyclesPerBit: 1000, DeadlineS: 0.5 + r.Float64()},
		}
		for m := range aircraft {
			horizontalM := u.Position.Sub(s.Aircraft[m].Position).Norm()
			lossDB := 20 * r.Float64()
			u.Gain = append(u.Gain, c.Channel.FreeSpaceGain(horizontalM, c.AltitudeM)*math.Pow(10, -lossDB/10)*r.ExpFloat64())
		}
		s.Users = append(s.Users, u)
	}
	return s
}

// addUnreported adds an unreported load to some aircraft.
func addUnreported(r *rand.Rand, s *slot.Snapshot) {
	for m := range s.Aircraft {
		if r.IntN(3) > 0 {
			s.Aircraft[m].Unreported = slot.UnreportedLoad{ExpectedUsers: 4 * r.Float64() * r.Float64(), CyclesPerUser: 2e9 * r.Float64()}
		}
	}
}

// decisionCostS is the cost of a decision, the unreported load included.
func decisionCostS(c *physics.Constants, s *slot.Snapshot, d *slot.Decision, price float64) float64 {
	sum := d.DelayS
	for _, j := range d.EdgeJ { // includes the energy of the unreported load
		sum += price * j
	}
	for m := range s.Aircraft {
		sum += unreportedCostOf(c, &s.Aircraft[m], d.ServedBy(m+1), 0)
	}
	return sum
}

// unreportedCostOf is the cost of an aircraft's unreported load when it serves n users.
func unreportedCostOf(c *physics.Constants, a *slot.Aircraft, n int, price float64) float64 {
	squares, reciprocals := a.Unreported.ShareSums(n)
	return a.Unreported.CyclesPerUser * (price*c.SwitchedCapacitance*a.CPUHz*a.CPUHz*squares + reciprocals/a.CPUHz)
}

// randomPrice spans the sweep: 0, then 2e-5 to 3.
func randomPrice(r *rand.Rand) float64 {
	if r.IntN(10) == 0 {
		return 0
	}
	return 2e-5 * math.Pow(1.5e5, r.Float64())
}

// bruteForce tries every association and, for each user, a grid of ratios from the
// least useful one (the lesser of balance and deadline point) to 1 and those two
// points.
func bruteForce(c *physics.Constants, s *slot.Snapshot, price float64, grid int) float64 {
	server := make([]int, len(s.Users))
	least := math.Inf(1)
	for {
		counts := make([]int, len(s.Aircraft)+1)
		for _, m := range server {
			counts[m]++
		}
		total := 0.0
		for m := range s.Aircraft {
			total += unreportedCostOf(c, &s.Aircraft[m], counts[m+1], price)
		}
		for i, m := range server {
			u := &s.Users[i]
			local := u.Task.LocalTimeS(u.CPUHz)
			if m == 0 {
				total += c.PenalizedDelayS(u.Task, local)
				continue
			}
			share := c.EqualShare(u.Gain[m-1], s.Aircraft[m-1].CPUHz, s.Aircraft[m-1].Unreported.EffectiveUsers(counts[m]))
			offload := u.Task.OffloadTimeS(share)
			cost := func(rho float64) float64 {
				return c.PenalizedDelayS(u.Task, physics.CompletionS(local, offload, rho)) + price*c.EdgeJ(u.Task, share, rho)
			}
			low := physics.BalancedOffload(local, offload)
			best := cost(low)
			if r, ok := physics.LeastOffloadForDeadline(local, offload, u.Task.DeadlineS); ok {
				best = min(best, cost(r))
				low = min(low, r)
			}
			for g := range grid + 1 {
				best = min(best, cost(low+(1-low)*float64(g)/float64(grid)))
			}
			total += best
		}
		least = min(least, total)
		i := 0
		for ; i < len(server); i++ {
			if server[i]++; server[i] <= len(s.Aircraft) {
				break
			}
			server[i] = 0
		}
		if i == len(server) {
			return least
		}
	}
}

func TestExactAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var solver Solver
	var d slot.Decision
	for trial := range 600 {
		c := physics.DefaultConstants()
		c.Contention = trial%3 == 0
		s := randomSnapshot(r, &c, 1+r.IntN(3), r.IntN(5))
		price := randomPrice(r)
		if trial%2 == 0 {
			addUnreported(r, s)
		}
		solver.Solve(&c, s, price, &d)
		got, want := decisionCostS(&c, s, &d, price), bruteForce(&c, s, price, 40)
		if math.Abs(got-want) > 1e-9 {
			t.Fatalf("trial %d, M=%d U=%d price %v: %.12f, brute force %.12f", trial, len(s.Aircraft), len(s.Users), price, got, want)
		}
		for i, u := range d.Users {
			if (u.Server > 0) != (u.Offload > 0) || u.Offload > 1 || (u.CPUHz > 0) != (u.Server > 0) {
				t.Fatalf("trial %d user %d: %+v", trial, i, u)
			}
		}
	}
}

// gapCase is a size at which the cost above a reference is bounded.
type gapCase struct {
	aircraft, users int
	slots           int
	mean, worst     float64 // bounds of the gap
}

// eachSlot draws the slots of a case, half of them with an unreported load.
func eachSlot(seed uint64, x gapCase, f func(c *physics.Constants, s *slot.Snapshot)) {
	r := rand.New(rand.NewPCG(seed, uint64(1000*x.users+x.aircraft)))
	c := physics.DefaultConstants()
	for k := range x.slots {
		s := randomSnapshot(r, &c, x.aircraft, x.users)
		if k%2 == 0 {
			addUnreported(r, s)
		}
		f(&c, s)
	}
}

// gap measures the cost above a reference's, over slots and prices, and how far the joules
// of the spending curve are from the reference's in the mean.
func gap(seed uint64, x gapCase, prices []float64, reference func(c *physics.Constants, s *slot.Snapshot, price float64,
	d *slot.Decision)) (mean, worst, curve float64) {
	var solver Solver
	var a, b slot.Decision
	edgeJ := make([]float64, len(prices))
	eachSlot(seed, x, func(c *physics.Constants, s *slot.Snapshot) {
		solver.Begin(c, s)
		solver.Sweep(prices, edgeJ)
		for k, price := range prices {
			solver.At(price, &a)
			reference(c, s, price, &b)
			g := decisionCostS(c, s, &a, price)/decisionCostS(c, s, &b, price) - 1
			n := float64(x.slots * len(prices))
			worst, mean = max(worst, g), mean+g/n
			if j := b.TotalEdgeJ(); j > 0 {
				curve += math.Abs(edgeJ[k]/j-1) / n
			}
		}
	})
	return mean, worst, curve
}

// gridPrices are those of a budget's spending curve.
func gridPrices() (prices []float64) {
	prices = append(prices, 0)
	for k := range 15 {
		prices = append(prices, math.Pow(1e-4, float64(14-k)/14))
	}
	return prices
}

// Small slots are solved exactly, by another method than the reference's.
func TestSmallSlotsAreExact(t *testing.T) {
	var exact peerSolver
	for _, x := range []gapCase{{1, 30, 20, 1e-9, 1e-9}, {2, 6, 60, 1e-9, 1e-9}, {2, 10, 40, 1e-9, 1e-9}, {2, 20, 6, 1e-9, 1e-9},
		{3, 6, 30, 1e-9, 1e-9}, {3, 10, 6, 1e-9, 1e-9}} {
		mean, worst, _ := gap(3, x, gridPrices(), func(c *physics.Constants, s *slot.Snapshot, price float64, d *slot.Decision) {
			exact.prepare(c, s, price)
			exact.solveExact()
			exact.writeDecision(d)
		})
		if math.Abs(mean) > x.mean || worst > x.worst {
			t.Errorf("M=%d U=%d: above exact by %.3g in the mean, %.3g at worst", x.aircraft, x.users, mean, worst)
		}
	}
}

// Larger slots cost no more than by a local search, given ten times its bound. Which of two such searches ends in the better optimum
// of one slot depends on the last bit of a sum, which processors round differently: of 30 seeds the worst slot was 3.9 % above.
func TestGapToLocalSearch(t *testing.T) {
	defer func(before float64) { searchMaxOptions = before }(searchMaxOptions)
	searchMaxOptions *= 10
	var peer peerSolver
	prices := []float64{0}
	for k := 2; k < len(gridPrices()); k += 3 {
		prices = append(prices, gridPrices()[k])
	}
	for _, x := range []gapCase{
		{2, 50, 3, 0, .05}, {2, 100, 2, 0, .05}, {2, 300, 1, 0, .05}, {2, 1000, 1, 0, .05}, {3, 24, 3, 0, .05}, {3, 50, 2, 0, .05},
		{4, 6, 6, 0, 1e-9}, {4, 8, 6, 0, 1e-9}, {8, 8, 4, 0, 1e-9}, {8, 50, 2, 0, .06}, {8, 100, 1, .001, .05}, {8, 300, 1, 0, .05},
	} {
		if testing.Short() && (x.users > 50 || x.aircraft == 8 && x.users > 8) { // an emulator takes minutes
			continue
		}
		mean, worst, _ := gap(4, x, prices, func(c *physics.Constants, s *slot.Snapshot, price float64, d *slot.Decision) {
			peer.prepare(c, s, price)
			peer.solveSearch()
			peer.writeDecision(d)
		})
		t.Logf("M=%d U=%d: %+.3f %% in the mean, %+.3f %% at worst", x.aircraft, x.users, 100*mean, 100*worst)
		if mean > x.mean || worst > x.worst {
			t.Errorf("M=%d U=%d: above the local search by %.3g in the mean, %.3g at worst", x.aircraft, x.users, mean, worst)
		}
	}
}

// Permuting users or aircraft permutes the decision and changes nothing else,
// whichever solver runs (five aircraft: local search).
func TestPermutation(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var solver Solver
	var a, b slot.Decision
	c := physics.DefaultConstants()
	for trial := range 400 {
		aircraft := []int{1, 2, 3, 5}[trial%4]
		s := randomSnapshot(r, &c, aircraft, 1+r.IntN(9))
		if trial%40 < 4 { // is searched
			s = randomSnapshot(r, &c, aircraft, 30+r.IntN(40))
		}
		price := randomPrice(r)
		users, fleet := r.Perm(len(s.Users)), r.Perm(aircraft)
		p := &slot.Snapshot{}
		for _, m := range fleet {
			p.Aircraft = append(p.Aircraft, s.Aircraft[m])
		}
		for _, i := range users {
			u := s.Users[i]
			u.Gain = nil
			for _, m := range fleet {
				u.Gain = append(u.Gain, s.Users[i].Gain[m])
			}
			p.Users = append(p.Users, u)
		}
		solver.Solve(&c, s, price, &a)
		solver.Solve(&c, p, price, &b)
		for k, i := range users {
			want, got := a.Users[i], b.Users[k]
			if got.Server > 0 {
				got.Server = fleet[got.Server-1] + 1
			}
			if got.Server != want.Server || math.Abs(got.Offload-want.Offload) > 1e-12 {
				t.Fatalf("trial %d, M=%d: user %d gets %+v, permuted %+v", trial, aircraft, i, want, got)
			}
		}
	}
}

// For an exact solver, energy cannot rise nor delay fall with the price.
func TestMonotoneInPrice(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	var solver Solver
	var d slot.Decision
	c := physics.DefaultConstants()
	for range 100 {
		s := randomSnapshot(r, &c, 1+r.IntN(3), 1+r.IntN(8))
		energy, delay := math.Inf(1), 0.0
		for price := 1e-5; price < 5; price *= 1.5 {
			solver.Solve(&c, s, price, &d)
			sum := d.TotalEdgeJ()
			if sum > energy+1e-9 || d.DelayS < delay-1e-9 {
				t.Fatalf("at %v: %v J after %v, %v s after %v", price, sum, energy, d.DelayS, delay)
			}
			energy, delay = sum, d.DelayS
		}
	}
}

// boundaryValues are no plausible figure of any report.
var boundaryValues = []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e308, 5e-324, 1e-300}

func boundaryValue(r *rand.Rand) float64 { return boundaryValues[r.IntN(len(boundaryValues))] }

// corruptUser replaces some of a user's figures by boundary values.
func corruptUser(r *rand.Rand, u *slot.User) {
	for m := range u.Gain {
		if r.IntN(3) == 0 {
			u.Gain[m] = boundaryValue(r)
		}
	}
	if r.IntN(4) == 0 {
		u.Task.DeadlineS = boundaryValue(r)
	}
	if r.IntN(6) == 0 { // unusable, but no NaN from physics
		u.CPUHz = []float64{1e-300, 5e-324, 1e308}[r.IntN(3)]
	}
	if r.IntN(6) == 0 {
		u.Gain = u.Gain[:r.IntN(len(u.Gain)+1)]
	}
	if r.IntN(6) == 0 {
		u.Task.Bits = 0
	}
}

// valid reports whether a user's decision is possible with that many aircraft.
func valid(u slot.UserDecision, aircraft int) bool {
	return u.Server >= 0 && u.Server <= aircraft && (u.Server > 0) == (u.Offload > 0) && !(u.Offload > 1) && !math.IsNaN(u.CompletionS)
}

// Whatever a report contains, the decision is finite and valid.
func TestHostileValues(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	var solver Solver
	var d slot.Decision
	for trial := range 4000 {
		c := physics.DefaultConstants()
		c.Contention = trial%2 == 0
		s := randomSnapshot(r, &c, r.IntN(6), r.IntN(8))
		if trial%40 == 0 { // is searched
			s = randomSnapshot(r, &c, 1+r.IntN(9), 24+r.IntN(80))
		}
		for i := range s.Users {
			corruptUser(r, &s.Users[i])
		}
		price := randomPrice(r)
		if r.IntN(3) == 0 {
			price = boundaryValue(r)
		}
		solver.Solve(&c, s, price, &d)
		if math.IsNaN(d.DelayS) || math.IsNaN(d.PriceSPerJ) || d.PriceSPerJ < 0 || math.IsInf(d.PriceSPerJ, 0) {
			t.Fatalf("trial %d: delay %v, price %v", trial, d.DelayS, d.PriceSPerJ)
		}
		for i, u := range d.Users {
			if !valid(u, len(s.Aircraft)) {
				t.Fatalf("trial %d: user %+v decided %+v", trial, s.Users[i], u)
			}
			if u.Server > 0 && !(s.Users[i].Gain[u.Server-1] > 0) {
				t.Fatalf("trial %d: offloads over a gain of %v", trial, s.Users[i].Gain[u.Server-1])
			}
		}
		for _, j := range d.EdgeJ {
			if !(j >= 0) || math.IsInf(j, 0) {
				t.Fatalf("trial %d: %v J", trial, j)
			}
		}
		offer := Offer{PriceSPerJ: price}
		for _, a := range s.Aircraft {
			offer.Aircraft = append(offer.Aircraft, OfferAircraft{Position: a.Position, CPUHz: boundaryValue(r),
				ExpectedUsers: boundaryValue(r)})
		}
		for i := range s.Users {
			if u := offer.Choose(&c, &s.Users[i]); !valid(u, len(s.Aircraft)) {
				t.Fatalf("trial %d: the offer to %+v gives %+v", trial, s.Users[i], u)
			}
		}
	}
}

// A lone user's offer is the dispatch of a slot with that user alone, and an
// unknown gain is the closed-form mean.
func TestOffer(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	var solver Solver
	var d slot.Decision
	for trial := range 500 {
		c := physics.DefaultConstants()
		c.Contention = trial%2 == 0
		s := randomSnapshot(r, &c, r.IntN(4), 1)
		offer := Offer{PriceSPerJ: randomPrice(r)}
		for m, a := range s.Aircraft {
			offer.Aircraft = append(offer.Aircraft, OfferAircraft{Number: a.Number, Position: a.Position, CPUHz: a.CPUHz,
				ExpectedUsers: r.Float64()})
			if trial%3 == 0 {
				s.Users[0].Gain[m] = c.Channel.MeanGain(s.Users[0].Position.Sub(a.Position).Norm(), c.AltitudeM)
			}
		}
		solver.Solve(&c, s, offer.PriceSPerJ, &d)
		user := s.Users[0]
		if trial%3 == 0 {
			user.Gain = nil
		}
		if got := offer.Choose(&c, &user); got != d.Users[0] {
			t.Fatalf("trial %d: offer %+v, dispatch %+v", trial, got, d.Users[0])
		}
	}
}

// What a solver dispatched before leaves no trace, also with more aircraft than users.
func TestEachSlotAnew(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 28))
	c := physics.DefaultConstants()
	var used Solver
	var a, b slot.Decision
	for trial := range 40 {
		s, price := randomSnapshot(r, &c, 2+r.IntN(20), 9+r.IntN(12)), randomPrice(r)
		var fresh Solver
		fresh.Solve(&c, s, price, &a)
		used.Solve(&c, s, price, &b)
		if !slices.Equal(a.Users, b.Users) {
			t.Fatalf("trial %d, M=%d U=%d: %+v, after other slots %+v", trial, len(s.Aircraft), len(s.Users), a.Users, b.Users)
		}
	}
}

// An aircraft that computes nothing, though users without a decision are expected there,
// changes nothing for the others.
func TestUnreportedLoadWithoutCPU(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 30))
	c := physics.DefaultConstants()
	var solver Solver
	var without, with slot.Decision
	for _, users := range []int{6, 40} {
		s := randomSnapshot(r, &c, 2, users)
		s.Aircraft[1].CPUHz = 0
		solver.Solve(&c, s, 0.01, &without)
		s.Aircraft[1].Unreported = slot.UnreportedLoad{ExpectedUsers: 1, CyclesPerUser: 1e9}
		solver.Solve(&c, s, 0.01, &with)
		if without.ServedBy(1) == 0 || !slices.Equal(without.Users, with.Users) {
			t.Errorf("%d users: %d served, %d with an unreported load elsewhere", users, without.ServedBy(1), with.ServedBy(1))
		}
	}
}

func TestNoAllocation(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	c := physics.DefaultConstants()
	for _, size := range [][2]int{{2, 6}, {3, 8}, {5, 20}, {2, 60}, {3, 60}, {8, 60}, {2, 250}, {8, 250}} {
		var solver Solver
		var d slot.Decision
		var slots []*slot.Snapshot // each is another one, also the one measured
		for range 3 {
			slots = append(slots, randomSnapshot(r, &c, size[0], size[1]))
		}
		prices, edgeJ := gridPrices(), make([]float64, len(gridPrices()))
		next := 0
		solve := func() {
			solver.Begin(&c, slots[next])
			solver.At(0.003, &d)
			solver.Sweep(prices, edgeJ)
			solver.At(0.003, &d)
			next++
		}
		solve()
		if n := testing.AllocsPerRun(1, solve); n != 0 {
			t.Errorf("M=%d U=%d: %v allocations", size[0], size[1], n)
		}
	}
}

func BenchmarkSweep(b *testing.B) {
	for _, aircraft := range []int{2, 8} {
		for _, users := range []int{10, 50, 100, 300, 1000, 4000} {
			b.Run(fmt.Sprintf("M=%d/U=%d", aircraft, users), func(b *testing.B) {
				r := rand.New(rand.NewPCG(5, 6))
				c := physics.DefaultConstants()
				var slots []*slot.Snapshot
				for range 8 {
					slots = append(slots, randomSnapshot(r, &c, aircraft, users))
				}
				var solver Solver
				prices := gridPrices()
				edgeJ := make([]float64, len(prices))
				for _, s := range slots {
					solver.Begin(&c, s)
					solver.Sweep(prices, edgeJ)
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					solver.Begin(&c, slots[i%8])
					solver.Sweep(prices, edgeJ)
				}
			})
		}
	}
}

func BenchmarkSolve(b *testing.B) {
	for _, size := range []struct {
		name            string
		aircraft, users int
	}{{"M2U6", 2, 6}, {"M2U8", 2, 8}, {"M3U8", 3, 8}, {"M2U20", 2, 20}, {"M3U13", 3, 13}, {"M4U12", 4, 12}, {"M8U100", 8, 100},
		{"M2U4096", 2, 4096}, {"M64U4096", 64, 4096}} {
		b.Run(size.name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(5, 6))
			c := physics.DefaultConstants()
			var slots []*slot.Snapshot
			var prices []float64
			for range 32 {
				slots = append(slots, randomSnapshot(r, &c, size.aircraft, size.users))
				prices = append(prices, randomPrice(r))
			}
			var solver Solver
			var d slot.Decision
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				solver.Solve(&c, slots[i%32], prices[i%32], &d)
			}
		})
	}
}
