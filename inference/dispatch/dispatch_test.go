package dispatch

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// draw makes a slot as the standard world would: tasks, positions and gains
// that span line of sight and deep fades.
func draw(r *rand.Rand, c *physics.Constants, aircraft, users int) *slot.Snapshot {
	s := &slot.Snapshot{Slots: 100}
	point := func() physics.Position {
		return physics.Position{EastM: r.Float64() * c.AreaM, NorthM: r.Float64() * c.AreaM}
	}
	for m := range aircraft {
		s.Aircraft = append(s.Aircraft, slot.Aircraft{
			Number: m + 1, Position: point(), CPUHz: c.EdgeCPUHz * (0.5 + r.Float64()), ResidualJ: c.CapacityJ,
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

// drawPrice spans the sweep: 0, then 2e-5 to 3.
func drawPrice(r *rand.Rand) float64 {
	if r.IntN(10) == 0 {
		return 0
	}
	return 2e-5 * math.Pow(1.5e5, r.Float64())
}

// bruteForce tries every association; for each, every user's ratio runs over a
// grid from the least useful ratio (the lesser of balance and deadline point)
// to 1, and those two points.
func bruteForce(c *physics.Constants, s *slot.Snapshot, price float64, grid int) float64 {
	server := make([]int, len(s.Users))
	least := math.Inf(1)
	for {
		counts := make([]int, len(s.Aircraft)+1)
		for _, m := range server {
			counts[m]++
		}
		total := 0.0
		for i, m := range server {
			u := &s.Users[i]
			local := u.Task.LocalS(u.CPUHz)
			if m == 0 {
				total += c.DelayS(u.Task, local)
				continue
			}
			share := c.ShareOf(u.Gain[m-1], s.Aircraft[m-1].CPUHz, counts[m])
			off := u.Task.OffloadS(share)
			cost := func(rho float64) float64 {
				return c.DelayS(u.Task, physics.CompletionS(local, off, rho)) + price*c.EdgeJ(u.Task, share, rho)
			}
			low := physics.Balance(local, off)
			best := cost(low)
			if r, ok := physics.LeastMeeting(local, off, u.Task.DeadlineS); ok {
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
		c := physics.Standard()
		c.Contention = trial%3 == 0
		s := draw(r, &c, 1+r.IntN(3), r.IntN(5))
		price := drawPrice(r)
		solver.Solve(&c, s, price, &d)
		got, want := CostS(&d, price), bruteForce(&c, s, price, 40)
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

func TestSearchGap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var exact, local Solver
	var a, b slot.Decision
	c := physics.Standard()
	worst, sum, n, hit := 0.0, 0.0, 0, 0
	for range 1500 {
		s := draw(r, &c, 1+r.IntN(3), 1+r.IntN(9))
		price := drawPrice(r)
		exact.Solve(&c, s, price, &a)
		local.load(&c, s, price)
		local.solveSearch()
		local.fill(&b)
		gap := CostS(&b, price)/CostS(&a, price) - 1
		if gap < -1e-9 {
			t.Fatalf("local search beats exact by %v", -gap)
		}
		if gap < 1e-9 {
			hit++
		}
		worst, sum, n = max(worst, gap), sum+gap, n+1
	}
	t.Logf("local search above exact: mean %.3g, worst %.3g, optimal in %.1f %%", sum/float64(n), worst, 100*float64(hit)/float64(n))
}

func BenchmarkSolve(b *testing.B) {
	for _, size := range []struct {
		name            string
		aircraft, users int
	}{{"M2U6", 2, 6}, {"M2U8", 2, 8}, {"M3U8", 3, 8}, {"M2U20", 2, 20}, {"M3U13", 3, 13}, {"M4U12", 4, 12}, {"M8U100", 8, 100}, {"M2U4096", 2, 4096}, {"M64U4096", 64, 4096}} {
		b.Run(size.name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(5, 6))
			c := physics.Standard()
			var slots []*slot.Snapshot
			var prices []float64
			for range 32 {
				slots = append(slots, draw(r, &c, size.aircraft, size.users))
				prices = append(prices, drawPrice(r))
			}
			var solver Solver
			var d slot.Decision
			b.ReportAllocs()
			for i := range b.N {
				solver.Solve(&c, slots[i%32], prices[i%32], &d)
			}
		})
	}
}
