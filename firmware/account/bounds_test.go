package account

import (
	"math"
	"testing"

	"prefdt/firmware/fleet"
	"prefdt/firmware/height"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/telemetry"
)

// landing is an account of two aircraft with packs of 45 kJ, of which each keeps 9.
func landing() (a *Account, views []fleet.View) {
	p := physics.DefaultConstants()
	a = &Account{Physics: p, Scales: &scales, ReserveJ: 15e3, SpeedMaxMPS: 30}
	for i := range 2 {
		at := physics.Position{EastM: 300 * float64(i+1), NorthM: 500}
		views = append(views, fleet.View{
			Number: i + 1, Received: true, Located: true, Fresh: true, Placed: true, Flying: true, InAir: true, Phase: fleet.PhaseFlying,
			Position: at, Home: &at, UpM: height.AboveOrigin(p.AltitudeM),
			TransitMPS: p.Propulsion.BestSpeedMPS(30), CapacityJ: 45e3, CapacityKnown: true, Charge: math.NaN(),
		})
	}
	a.Begin(100, views)
	a.SetBounds(&Bounds{BudgetJ: 72e3, Mode: goal.Ceiling, Scope: telemetry.ScopeLanded, StandDown: telemetry.StandDownLand, LeastUp: 1,
		Packs: []PackBounds{
			{Number: 1, ReserveJ: 9e3, Reserves: true}, {Number: 2, ReserveJ: 9e3, Reserves: true},
		}})
	return a, views
}

// What is left of a pack, by its bounds.
func TestPackLeft(t *testing.T) {
	const drawnJ = 5e3
	for name, c := range map[string]struct {
		pack               PackBounds
		usable, kept, left float64
	}{
		"its reserve named": {PackBounds{Number: 1, ReserveJ: 9e3, Reserves: true}, 40e3, 9e3, 31e3},
		"no reserve named":  {PackBounds{Number: 1}, 40e3, 15e3, 25e3},
		"a part of it, with a reserve": {PackBounds{Number: 1, UsableJ: 30e3, ReserveJ: 8e3, Reserves: true}, 25e3, 8e3,
			17e3},
		"a part of it, and the rest is reserve enough": {PackBounds{Number: 1, UsableJ: 20e3}, 15e3, 0, 15e3},
		"a part of it, and the rest is not":            {PackBounds{Number: 1, UsableJ: 40e3}, 35e3, 10e3, 25e3},
	} {
		a, views := landing()
		a.bounds.Packs[0] = c.pack
		views[0].TotalJ = drawnJ
		a.SettleTransit(views)
		if u, k, l := a.UsableJ(&views[0]), a.KeptJ(&views[0]),
			a.PackLeftJ(&views[0]); math.Abs(u-c.usable)+math.Abs(k-c.kept)+math.Abs(l-c.left) > 1e-6 {
			t.Errorf("%s: usable %.0f, kept %.0f, left %.0f", name, u, k, l)
		}
	}
	a, views := landing()
	a.bounds.Packs, a.bounds.TotalJ = a.bounds.Packs[:1], 72e3
	if got := a.PackLeftJ(&views[1]); !math.IsInf(got, 1) {
		t.Errorf("a pack that no bound names has %v J left", got)
	}
}

// A way home takes its descent, and what earlier ones took beside what was expected; one of an
// aircraft that its pilot takes measures nothing.
func TestWayHomeIsLearned(t *testing.T) {
	a, views := landing()
	v := &views[0]
	before := a.WayHome(v).TotalJ()
	if hover := a.Physics.Propulsion.PowerW(0); before < hover*v.Params.DescentS(100) {
		t.Errorf("the way home takes %.0f J, its descent alone %.0f", before, hover*v.Params.DescentS(100))
	}
	comeHome := func(took float64, pilot bool) {
		v.Homeward, v.InAir, v.Landed, v.Phase = true, true, new(false), fleet.PhaseFlying
		a.SettleTransit(views)
		v.TotalJ += took
		if pilot {
			v.Phase, v.Homeward = fleet.PhasePilot, false
			a.SettleTransit(views)
		}
		v.InAir, *v.Landed = false, true
		a.SettleTransit(views)
		v.Homeward, v.InAir, *v.Landed = false, true, false
	}
	comeHome(1.3*before, true)
	if got := a.WayHome(v).TotalJ(); got != before {
		t.Errorf("after a pilot's way %.0f J, before it %.0f", got, before)
	}
	comeHome(1.2*before, false) // as of an autopilot that descends a sixth slower than its parameter says
	v.Phase = fleet.PhaseFlying
	if got := a.WayHome(v).TotalJ(); got < 1.18*before {
		t.Errorf("after one way of 1.2 times what was expected: %.2f of it", got/before)
	}
	for range 30 {
		comeHome(1.3*before, false)
	}
	v.Phase = fleet.PhaseFlying
	if got := a.WayHome(v).TotalJ(); got < 1.25*before || got > 1.31*before {
		t.Errorf("after ways of 1.3 times what was expected: %.2f of it", got/before)
	}
	var after Account
	after.Physics, after.Scales = a.Physics, a.Scales
	after.Restore(a.State())
	if after.Ways() != a.Ways() || after.Bounds().BudgetJ != a.Bounds().BudgetJ {
		t.Error("a restart forgets ways or bounds")
	}
}

// One that hovers over its home has nothing to slow down from: 5 s less of hover than one that
// arrives from afar.
func TestHoversOverItsHome(t *testing.T) {
	a, views := landing()
	v, hoverW := &views[0], a.Physics.Propulsion.PowerW(0)
	hoverS := func(fromHomeM float64) float64 {
		v.Position = *v.Home
		v.Position.EastM += fromHomeM
		return a.expectedWayHome(v).HoverJ / hoverW
	}
	for fromHomeM, want := range map[float64]float64{0: 0, 10: 2.5, 20: 5, 500: 5} {
		if got := hoverS(fromHomeM) - hoverS(0); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v m from home: %v s more than over it, want %v", fromHomeM, got, want)
		}
	}
}

// One that lands has no wait for others before it any more; one on its way home may have.
func TestLandingWaitsForNobody(t *testing.T) {
	const waitS = 25
	a, views := landing()
	for phase, waits := range map[fleet.Phase]bool{fleet.PhaseFlying: true, fleet.PhaseLanding: false} {
		v := views[0]
		v.Phase = phase
		without := a.WayHome(&v).TotalJ()
		v.WaitS = waitS
		if got := a.WayHome(&v).TotalJ() - without; got > 0 != waits {
			t.Errorf("%v: a wait takes %.0f J", phase, got)
		}
	}
}
