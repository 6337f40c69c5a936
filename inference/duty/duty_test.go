package duty

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"prefdt/inference/dispatch"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// prior is that of the standard world: 4 to 8 active users, nine in ten with a task.
var prior = dispatch.UserPrior{
	ActiveUsers: 5.4, CPUHz: 1e9, TaskMean: physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1},
	TaskStdDev: physics.Task{Bits: 2.9e5, DeadlineS: 0.29},
}

const maxPriceSPerJ = 1

// fleet is the state of a mission at its first slot.
func fleet(c *physics.Constants, aircraft, slots int) *Input {
	_, flightW := c.MinPower()
	in := &Input{Slots: slots, FleetJ: math.Inf(1), FlightW: flightW}
	for m := range aircraft {
		home := physics.Position{EastM: c.AreaSideM * float64(m+1) / float64(aircraft+1), NorthM: c.AreaSideM / 2}
		in.Aircraft = append(in.Aircraft, Aircraft{Number: m + 1, Position: home, Home: home, CPUHz: c.EdgeCPUHz, LeftJ: math.Inf(1)})
	}
	return in
}

// drawUsers draws a slot's users.
func drawUsers(c *physics.Constants, r *rand.Rand, n int) (users []slot.User) {
	for range n {
		users = append(users, prior.Sample(c.AreaSideM, r))
	}
	return users
}

// TestWhoStays plans the first slot of missions of two aircraft and 100 slots.
func TestWhoStays(t *testing.T) {
	c := physics.DefaultConstants()
	for _, tt := range []struct {
		name                   string
		fleetJ, firstJ, otherJ float64
		soonest, latest        int // FliesUntil of the first aircraft to leave
		price                  bool
	}{
		{"rich", 45e3, math.Inf(1), math.Inf(1), 100, 100, false},
		{"both some of the time", 27.5e3, math.Inf(1), math.Inf(1), 30, 80, true},
		{"one alone, but for the start", 17e3, math.Inf(1), math.Inf(1), 0, 12, true},
		{"a weak pack", math.Inf(1), 9e3, 21e3, 35, 65, true},
		{"packs unbounded", math.Inf(1), math.Inf(1), math.Inf(1), 100, 100, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := fleet(&c, 2, 100)
			in.FleetJ, in.Aircraft[0].LeftJ, in.Aircraft[1].LeftJ = tt.fleetJ, tt.firstJ, tt.otherJ
			plan := New(&c, prior, maxPriceSPerJ).Plan(in)
			a, b := plan.Aircraft[0].FliesUntil, plan.Aircraft[1].FliesUntil
			first, last := min(a, b), max(a, b)
			if first < tt.soonest || first > tt.latest || last != 100 {
				t.Errorf("they fly until slots %d and %d, want %d to %d and 100", first, last, tt.soonest, tt.latest)
			}
			if (plan.ValueSPerJ > 0) != tt.price {
				t.Errorf("value of a joule is %v, want one: %v", plan.ValueSPerJ, tt.price)
			}
			for _, o := range plan.Aircraft {
				t.Logf("%+v", o)
			}
			t.Logf("delay %.1f s, floor %.0f J, covered until %d", plan.DelayS, plan.FloorJ, plan.CoveredUntil)
		})
	}
}

// TestOrderOfLeaving checks who leaves first, and that nobody leaves whom the crew keeps up.
func TestOrderOfLeaving(t *testing.T) {
	c := physics.DefaultConstants()
	for _, tt := range []struct {
		name   string
		change func(in *Input)
		first  int // number of the one that flies the shortest; 0: both fly to the end
	}{
		{"the weaker pack", func(in *Input) { in.Aircraft[0].LeftJ, in.Aircraft[1].LeftJ = 21e3, 10e3 }, 2},
		{"the weaker pack, the other way round", func(in *Input) { in.Aircraft[0].LeftJ, in.Aircraft[1].LeftJ = 10e3, 21e3 }, 1},
		{"the one farther from the users", func(in *Input) { in.FleetJ, in.Aircraft[1].Position.NorthM = 24e3, 950 }, 2},
		{"not the one that the crew keeps up", func(in *Input) {
			in.FleetJ, in.Aircraft[1].Position.NorthM, in.Aircraft[1].Stays = 24e3, 950, true
		}, 1},
		{"nobody, of two that are to stay", func(in *Input) { in.FleetJ, in.LeastUp = 31e3, 2 }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := fleet(&c, 2, 100)
			tt.change(in)
			plan := New(&c, prior, maxPriceSPerJ).Plan(in)
			first := 0
			for _, o := range plan.Aircraft {
				if o.FliesUntil < in.Slots {
					first = o.Number
				}
			}
			if first != tt.first {
				t.Errorf("%d leaves first, want %d: %+v", first, tt.first, plan.Aircraft)
			}
		})
	}
}

// TestFewerJoulesBuyMoreDelay checks that a joule has a value, everywhere: of less, the plan expects more delay and, unless
// somebody lands of the less, no lower price, whatever the crew wishes to have in the air, and all slots are flown where
// there is enough to compute with.
func TestFewerJoulesBuyMoreDelay(t *testing.T) {
	c := physics.DefaultConstants()
	for _, tt := range []struct{ aircraft, leastUp int }{{1, 1}, {2, 1}, {2, 2}, {3, 1}, {3, 2}, {4, 1}} {
		last, lastPrice, lastLands := 0.0, 0.0, false
		for kJ := 50.0; kJ >= 3; kJ-- {
			in := fleet(&c, tt.aircraft, 100)
			in.FleetJ, in.LeastUp = 1e3*kJ, tt.leastUp
			p := New(&c, prior, maxPriceSPerJ)
			plan := p.Plan(in)
			if mostS := (1 - 0.8*kJ/16) * 100 * p.curves.localS(1); tt.leastUp == 1 && tt.aircraft < 4 && kJ <= 16 && plan.DelayS > mostS {
				t.Errorf("%+v, %v kJ: %v s, want at most %v", tt, kJ, plan.DelayS, mostS)
			}
			lands := slices.ContainsFunc(plan.Aircraft, func(o Order) bool { return o.FliesUntil < in.Slots })
			if plan.DelayS < (1-leastGain)*last || lands == lastLands && plan.ValueSPerJ < lastPrice-1e-12 {
				t.Errorf("%+v, %v kJ: %v s at %v s/J, of more %v s at %v", tt, kJ, plan.DelayS, plan.ValueSPerJ, last, lastPrice)
			}
			last, lastPrice, lastLands = max(last, plan.DelayS), plan.ValueSPerJ, lands
			if plan.CoveredUntil != 99 && kJ >= 18*float64(tt.leastUp) {
				t.Errorf("%+v: %v kJ cover until slot %d, want 99", tt, kJ, plan.CoveredUntil)
			}
		}
	}
}

// TestCalledBack checks that one on its way home is called back where a revision has made that wrong, and not otherwise; its
// way home is the fleet's either way.
func TestCalledBack(t *testing.T) {
	c := physics.DefaultConstants()
	for _, tt := range []struct {
		kJ   float64
		slot int
		back bool
	}{{31.5, 10, true}, {15, 10, false}, {3, 90, false}} {
		in := fleet(&c, 2, 100)
		in.Slot, in.FleetJ, in.Aircraft[1].Homeward = tt.slot, 1e3*tt.kJ, true
		in.Aircraft[1].ReturnJ, in.Aircraft[1].DescentJ = 500, 700
		plan := New(&c, prior, maxPriceSPerJ).Plan(in)
		if o := plan.Aircraft[1]; o.Leaves == tt.back || plan.Aircraft[0].Leaves || o.FliesUntil > in.Slot != tt.back {
			t.Errorf("%v kJ in slot %d: %+v", tt.kJ, tt.slot, plan.Aircraft)
		}
		if tt.back {
			continue
		}
		if plan.SlotsJ > in.FleetJ-1200+1e-6 || plan.FloorJ < 1200+in.FlightW*float64(100-tt.slot)-1e-6 {
			t.Errorf("%v kJ: %.0f J for slots, floor %.0f", tt.kJ, plan.SlotsJ, plan.FloorJ)
		}
	}
}

// TestHomeLimit checks that an aircraft whose way home counts is held to it by the slots left, that the
// way home is paid for where they are too few, and that one that cannot wait any longer leaves.
func TestHomeLimit(t *testing.T) {
	c := physics.DefaultConstants()
	bestMPS, flightW := c.MinPower()
	in := fleet(&c, 2, 100)
	in.Slot = 90
	for m := range in.Aircraft {
		a := &in.Aircraft[m]
		a.Position.EastM += 300
		_, a.ReturnJ = Return(&c, a.Position, a.Home, physics.Position{}, 1)
		a.DescentJ, a.LeftJ = 76.3*168.5, 20e3
	}
	p := New(&c, prior, maxPriceSPerJ)
	plan := p.Plan(in)
	for _, o := range plan.Aircraft {
		if want := 9 * bestMPS; math.Abs(o.HomeLimitM-want) > 1e-9 || o.Leaves {
			t.Errorf("%+v, want it to stay within %v m", o, want)
		}
	}
	after := in.Aircraft[0].ReturnJ * (1 - 10*bestMPS/300)
	if got := p.afterJ(in, 0) - in.Aircraft[0].DescentJ; math.Abs(got-after) > 1e-6*after {
		t.Errorf("way home that is left after 10 slots takes %v J, want %v", got, after)
	}
	in.Aircraft[0].LeftJ = in.Aircraft[0].ReturnJ + in.Aircraft[0].DescentJ + flightW
	if plan := p.Plan(in); !plan.Aircraft[0].Leaves || plan.Aircraft[0].EdgeLimitJ > 0 || plan.Aircraft[1].Leaves {
		t.Errorf("one slot before it can fly no longer: %+v", plan.Aircraft)
	}
	in.Aircraft[0].Stays = true
	if plan := p.Plan(in); plan.Aircraft[0].Leaves {
		t.Errorf("the crew keeps it up: %+v", plan.Aircraft[0])
	}
}

// TestEdgeLimit checks that what a pack may compute leaves the flight to the end.
func TestEdgeLimit(t *testing.T) {
	c := physics.DefaultConstants()
	in := fleet(&c, 1, 100)
	in.Slot, in.Aircraft[0].LeftJ = 98, 2*in.FlightW+50
	if o := New(&c, prior, maxPriceSPerJ).Plan(in).Aircraft[0]; o.Leaves || !(o.EdgeLimitJ > 0 && o.EdgeLimitJ < 50) {
		t.Errorf("50 J above two slots of flight: %+v", o)
	}
}

// TestBelowTheFloor checks that of a total that does not last to the end some is computed with, and that the
// last one lands when it is spent; where the crew keeps it up all the same, nothing is computed.
func TestBelowTheFloor(t *testing.T) {
	c := physics.DefaultConstants()
	for _, tt := range []struct {
		name        string
		slot        int
		flightSlots float64 // that the total lasts for
		keeps       bool
		computes    bool
		leaves      bool
	}{
		{"at first", 0, 90, false, true, false},
		{"at first, to be kept up", 0, 90, true, false, false},
		{"with little left", 80, 5, false, true, false},
		{"with a slot left", 80, 1.05, false, false, true},
		{"with a slot left, to be kept up", 80, 1.05, true, false, false},
		{"with nothing left, to be kept up", 80, 0.1, true, false, false},
	} {
		in := fleet(&c, 1, 100)
		in.Slot, in.FleetJ, in.Aircraft[0].Stays = tt.slot, tt.flightSlots*in.FlightW, tt.keeps
		o := New(&c, prior, maxPriceSPerJ).Plan(in).Aircraft[0]
		if o.Leaves != tt.leaves || !tt.leaves && (o.EdgeLimitJ > 0) != tt.computes || (o.FliesUntil == in.Slots) != tt.keeps {
			t.Errorf("%s: %+v", tt.name, o)
		}
	}
}

// TestHeavyAirframe checks that what a pack has for computing is shared among its last slots only where they
// take about as much as a slot of flight: else what they save pays for no slot more.
func TestHeavyAirframe(t *testing.T) {
	for _, weight := range []float64{1, 2.6, 8} {
		c := physics.DefaultConstants()
		c.Propulsion.BladeW, c.Propulsion.InducedW, c.Propulsion.Parasite = 80*weight, 89*weight, 0.02*weight
		in := fleet(&c, 1, 100)
		in.Slot, in.Aircraft[0].LeftJ = 80, 5*in.FlightW
		o := New(&c, prior, maxPriceSPerJ).Plan(in).Aircraft[0]
		if shared := o.EdgeLimitJ < in.FlightW; shared != (weight == 1) || o.Leaves {
			t.Errorf("of %v times the weight: %+v", weight, o)
		}
	}
}

// TestRestartKeepsThePlan restores a planner from JSON in the middle of a mission.
func TestRestartKeepsThePlan(t *testing.T) {
	c := physics.DefaultConstants()
	r := rand.New(rand.NewPCG(1, 2))
	in := fleet(&c, 2, 100)
	in.Aircraft[0].LeftJ, in.Aircraft[1].LeftJ = 25e3, 36e3
	for m := range in.Aircraft {
		a := &in.Aircraft[m]
		a.Position.NorthM += 400
		_, a.ReturnJ = Return(&c, a.Position, a.Home, physics.Position{}, 1)
		a.DescentJ = 76.3 * 168.5
	}
	p := New(&c, prior, maxPriceSPerJ)
	for in.Slot = range 50 {
		in.Users = drawUsers(&c, r, 3+r.IntN(5))
		p.Plan(in)
		in.Aircraft[0].LeftJ -= 170
		in.Aircraft[1].LeftJ -= 180
	}
	in.Slot, in.Users = 50, nil
	text, err := json.Marshal(p.State())
	if err != nil {
		t.Fatal(err)
	}
	var state State
	if err := json.Unmarshal(text, &state); err != nil {
		t.Fatal(err)
	}
	restarted := New(&c, prior, maxPriceSPerJ)
	restarted.Restore(state)
	for _, n := range []int{1, 2} {
		if a, b := p.until(in, n), restarted.until(in, n); a != b {
			t.Errorf("aircraft %d flies until slot %d, after a restart %d", n, a, b)
		}
	}
	if a, b := p.Plan(in), restarted.Plan(in); !reflect.DeepEqual(a, b) {
		t.Errorf("plan %+v, after a restart %+v", a, b)
	}
	t.Logf("state: %d bytes", len(text))
}

// TestNoAllocationInASteadySlot plans slots of as many users and aircraft as before.
func TestNoAllocationInASteadySlot(t *testing.T) {
	c := physics.DefaultConstants()
	r := rand.New(rand.NewPCG(3, 4))
	in := fleet(&c, 2, 200)
	in.Aircraft[0].LeftJ, in.Aircraft[1].LeftJ = 24e3, 36e3
	in.Users = drawUsers(&c, r, 8)
	p := New(&c, prior, maxPriceSPerJ)
	for in.Slot = range 50 {
		p.Plan(in)
	}
	if n := testing.AllocsPerRun(40, func() {
		in.Slot++
		p.Plan(in)
	}); n > 0 {
		t.Errorf("%v allocations in a slot", n)
	}
}

// TestPlansAnything plans inputs that nobody should send: no plan may panic or hold what is no number.
func TestPlansAnything(t *testing.T) {
	c := physics.DefaultConstants()
	for _, tt := range []struct {
		name   string
		change func(in *Input)
	}{
		{"no aircraft", func(in *Input) { in.Aircraft = nil }},
		{"all left", func(in *Input) {
			for m := range in.Aircraft {
				in.Aircraft[m].Left = true
			}
		}},
		{"no slot left", func(in *Input) { in.Slot = in.Slots }},
		{"an empty pack", func(in *Input) { in.Aircraft[1].LeftJ = 0 }},
		{"a pack that is overdrawn", func(in *Input) { in.Aircraft[1].LeftJ = -500 }},
		{"no joules", func(in *Input) { in.FleetJ = 0 }},
		{"an aircraft without a CPU", func(in *Input) { in.Aircraft[0].CPUHz = 0; in.FleetJ = 24e3 }},
		{"more to stay than there are", func(in *Input) { in.LeastUp, in.FleetJ = 9, 50e3 }},
		{"a user without figures", func(in *Input) { in.Users = append(in.Users, slot.User{}); in.FleetJ = 24e3 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := fleet(&c, 3, 100)
			tt.change(in)
			p := New(&c, prior, maxPriceSPerJ)
			for range 3 {
				plan := p.Plan(in)
				for _, o := range plan.Aircraft {
					if math.IsNaN(o.PriceSPerJ) || math.IsInf(o.PriceSPerJ, 0) || math.IsNaN(o.EdgeLimitJ) || math.IsNaN(o.HomeLimitM) ||
						o.PriceSPerJ < 0 || o.EdgeLimitJ < 0 || o.FliesUntil < in.Slot || o.FliesUntil > in.Slots {
						t.Errorf("order %+v", o)
					}
				}
				if math.IsNaN(plan.DelayS) || math.IsNaN(plan.FloorJ) {
					t.Errorf("plan %+v", plan)
				}
			}
		})
	}
}

// TestOneUserMovesThePlanLittle checks that a report that claims what nobody needs sends nobody home.
func TestOneUserMovesThePlanLittle(t *testing.T) {
	c := physics.DefaultConstants()
	until := func(claim bool) int {
		r := rand.New(rand.NewPCG(7, 8))
		in := fleet(&c, 2, 100)
		in.FleetJ = 36e3
		p := New(&c, prior, maxPriceSPerJ)
		plan := &Plan{}
		for in.Slot = range 10 {
			in.Users = drawUsers(&c, r, 6)
			if claim {
				in.Users = append(in.Users, slot.User{ID: 99, CPUHz: 1, Task: physics.Task{Bits: 1e12, CyclesPerBit: 1e9, DeadlineS: 1e-3}})
			}
			plan = p.Plan(in)
			in.FleetJ -= 340
		}
		return min(plan.Aircraft[0].FliesUntil, plan.Aircraft[1].FliesUntil)
	}
	if honest, claimed := until(false), until(true); claimed < honest-15 {
		t.Errorf("the first leaves in slot %d, beside a user who claims without end in slot %d", honest, claimed)
	}
}

// TestReturn checks the way home against the closed form, and that a wind on the nose costs more.
func TestReturn(t *testing.T) {
	c := physics.DefaultConstants()
	home := physics.Position{EastM: 300}
	seconds, joules := Return(&c, physics.Position{}, home, physics.Position{}, 1.5)
	if speed := 300 / seconds; math.Abs(joules-1.5*seconds*c.Propulsion.PowerW(speed)) > 1e-9*joules {
		t.Errorf("%v s, %v J", seconds, joules)
	}
	_, against := Return(&c, physics.Position{}, home, physics.Position{EastM: -8}, 1.5)
	_, with := Return(&c, physics.Position{}, home, physics.Position{EastM: 8}, 1.5)
	if !(with < joules && joules < against) || math.IsInf(against, 0) {
		t.Errorf("with the wind %v J, calm %v, against it %v", with, joules, against)
	}
	if s, j := Return(&c, home, home, physics.Position{EastM: 60}, 1); s != 0 || j != 0 {
		t.Errorf("at home: %v s, %v J", s, j)
	}
	if _, j := Return(&c, physics.Position{}, home, physics.Position{EastM: -60}, 1); math.IsInf(j, 0) || math.IsNaN(j) {
		t.Errorf("against a storm: %v J", j)
	}
}

// TestBoundedWork counts what a plan replays: in its first slot and in each later one no more than is known
// before it starts, however many users and aircraft there are.
func TestBoundedWork(t *testing.T) {
	c := physics.DefaultConstants()
	for _, tt := range []struct{ aircraft, users, first, later int }{
		{2, 6, 900, 64}, {2, 100, 900, 64}, {3, 20, 1500, 48}, {8, 6, 1200, 64}, {8, 100, 1200, 16},
	} {
		r := rand.New(rand.NewPCG(5, 6))
		in := fleet(&c, tt.aircraft, 100)
		for m := range in.Aircraft {
			in.Aircraft[m].LeftJ = 12e3 + 1e3*float64(m)
		}
		p := New(&c, prior, maxPriceSPerJ)
		for in.Slot = range 20 {
			in.Users = drawUsers(&c, r, tt.users)
			p.Plan(in)
			most := tt.later
			if in.Slot == 0 {
				most += tt.first
			}
			if p.curves.solves > most {
				t.Errorf("%d aircraft, %d users: %d slots at prices replayed in slot %d, want at most %d", tt.aircraft, tt.users,
					p.curves.solves, in.Slot, most)
			}
		}
	}
}

// TestMargins checks what a pack keeps: with errors as measured it computes less and leaves sooner, but not
// in the slot in which one reading alone asks for it.
func TestMargins(t *testing.T) {
	c := physics.DefaultConstants()
	in := fleet(&c, 1, 100)
	a := &in.Aircraft[0]
	in.Slot, a.DescentJ = 90, 76.3*168.5
	a.LeftJ = a.DescentJ + 14*in.FlightW
	limit := func() float64 { return New(&c, prior, maxPriceSPerJ).Plan(in).Aircraft[0].EdgeLimitJ }
	exact := limit()
	a.HomeErrorJ, in.SlotErrorJ = 300, 0
	if kept := exact - limit(); !(kept > 0) {
		t.Errorf("with an error of 300 J on the way home it may compute %v J less", kept)
	}
	a.HomeErrorJ, in.SlotErrorJ = 0, 100
	if kept := exact - limit(); !(kept > 0) {
		t.Errorf("with an error of 100 J in a slot it may compute %v J less", kept)
	}
	in.SlotErrorJ, a.LeftJ = 0, a.DescentJ+1.3*in.FlightW
	p := New(&c, prior, maxPriceSPerJ)
	if p.Plan(in).Aircraft[0].Leaves {
		t.Error("it leaves with 1.3 slots of flight")
	}
	a.HomeErrorJ, in.Doubtful = 300, true
	if p.Plan(in).Aircraft[0].Leaves {
		t.Error("it leaves on one reading")
	}
	in.Slot++
	if !p.Plan(in).Aircraft[0].Leaves {
		t.Error("it stays, though its pack may not last")
	}
}

// TestDriftInWind checks that a way home against the wind is paid for in the slots before, and that a calm
// one is not.
func TestDriftInWind(t *testing.T) {
	c := physics.DefaultConstants()
	in := fleet(&c, 1, 100)
	a := &in.Aircraft[0]
	in.Multiplier, a.DescentJ, a.LeftJ, a.Position.EastM = 1, 76.3*168.5, 40e3, a.Home.EastM+300
	slots := func(wind physics.Position) float64 {
		in.WindMPS = wind
		_, a.ReturnJ = Return(&c, a.Position, a.Home, wind, 1)
		return New(&c, prior, maxPriceSPerJ).Plan(in).SlotsJ
	}
	calm, against := slots(physics.Position{}), slots(physics.Position{EastM: 8})
	if want := a.LeftJ - a.DescentJ; math.Abs(calm-want) > 1e-6 || !(against < calm-500) {
		t.Errorf("for the slots it has %v J in calm, want %v, and %v against 8 m/s", calm, want, against)
	}
}

func BenchmarkFirstPlan(b *testing.B) {
	c := physics.DefaultConstants()
	in := fleet(&c, 8, 100)
	in.FleetJ = 100e3
	for b.Loop() {
		New(&c, prior, maxPriceSPerJ).Plan(in)
	}
}

func BenchmarkPlan(b *testing.B) {
	c := physics.DefaultConstants()
	for _, tt := range []struct{ aircraft, users int }{{2, 6}, {8, 100}} {
		for _, packs := range []bool{false, true} {
			b.Run(fmt.Sprintf("M=%d,U=%d,packs=%v", tt.aircraft, tt.users, packs), func(b *testing.B) {
				r := rand.New(rand.NewPCG(5, 6))
				in := fleet(&c, tt.aircraft, 100)
				in.FleetJ = 13e3 * float64(tt.aircraft)
				if packs {
					in.FleetJ = math.Inf(1)
					for m := range in.Aircraft {
						in.Aircraft[m].LeftJ = 12e3 + 1e3*float64(m)
					}
				}
				in.Users = drawUsers(&c, r, tt.users)
				p := New(&c, prior, maxPriceSPerJ)
				p.Plan(in)
				for k := 0; b.Loop(); k++ {
					in.Slot = k % 50
					p.Plan(in)
				}
			})
		}
	}
}
