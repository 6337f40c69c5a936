package account

import (
	"math"

	"prefdt/firmware/fleet"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/telemetry"
)

// Bounds are what a budget asks beyond a total of the slots: to touchdown, of single packs,
// and whether aircraft may land for good (docs/wire.md, "Budgets"). A budget that asks none of
// these has no Bounds, and the objective alone keeps it.
type Bounds struct {
	BudgetJ   float64      `json:"budget_j"`          // as the status shows it
	TotalJ    float64      `json:"total_j,omitempty"` // of the fleet; 0: the packs alone bound it
	Mode      goal.Mode    `json:"mode"`
	Scope     string       `json:"scope"`
	StandDown string       `json:"stand_down"`
	LeastUp   int          `json:"least_up"`
	Packs     []PackBounds `json:"packs,omitempty"`
}

// PackBounds bound what one aircraft draws from its pack.
type PackBounds struct {
	Number   int     `json:"aircraft"`
	UsableJ  float64 `json:"usable_j,omitempty"` // the reserve included; 0: all that the pack holds
	ReserveJ float64 `json:"reserve_j,omitempty"`
	// ReserveShare, if above 0, is the reserve in place of ReserveJ, of a pack that may not be known yet.
	ReserveShare float64 `json:"reserve_share,omitempty"`
	Reserves     bool    `json:"reserves,omitempty"` // a reserve was asked for; else the configuration's holds
}

// KeptJ is the reserve of an aircraft's pack. Of one that its autopilot has not told of yet as
// much is known as the budget says that it holds.
func (p *PackBounds) KeptJ(v *fleet.View) float64 {
	switch {
	case p.ReserveShare == 0:
		return p.ReserveJ
	case !v.CapacityKnown && p.UsableJ > 0:
		return p.ReserveShare * p.UsableJ
	}
	return p.ReserveShare * v.CapacityJ
}

// Landed is whether the budget runs from take-off to touchdown.
func (b *Bounds) Landed() bool { return b.Scope == telemetry.ScopeLanded }

// MayLand is whether aircraft may come home for good.
func (b *Bounds) MayLand() bool { return b.StandDown == telemetry.StandDownLand }

// Pack returns the bounds of an aircraft's pack, and whether it has any.
func (b *Bounds) Pack(number int) (PackBounds, bool) {
	for _, p := range b.Packs {
		if p.Number == number {
			return p, true
		}
	}
	return PackBounds{Number: number}, false
}

// Bounds are those of the budget in force; nil: it has none.
func (a *Account) Bounds() *Bounds { return a.bounds }

// SetBounds has a budget's bounds be in force, with the objective that AllowSlots gives it.
func (a *Account) SetBounds(b *Bounds) { a.bounds = b }

// RequestedJ is the budget in force, as the crew asked for it; 0: a preference is in force.
func (a *Account) RequestedJ() float64 {
	if a.bounds != nil {
		return a.bounds.BudgetJ
	}
	return a.objective.BudgetJ()
}

// AllowSlots has the objective be a budget of so many joules in the slots: what the bounds leave
// for them.
func (a *Account) AllowSlots(totalJ float64) {
	totalJ = max(totalJ, 1) // a budget is above 0
	if o := &a.objective; o.Mode() != a.bounds.Mode || o.BudgetJ() != totalJ {
		a.SetBudget(totalJ, a.bounds.Mode) // cannot fail: it is finite and above 0
	}
}

// SetReturned enters that an aircraft left the slots to come home: from now on its joules
// are transit, until it flies for the mission again.
func (a *Account) SetReturned(number int) { a.aircraft[number-1].Returned = true }

// countsAsTransit is whether what an aircraft draws in a slot is drawn outside the slots'
// budget. One that a battery sends home under a plain budget is still in it.
func (a *Account) countsAsTransit(v *fleet.View) bool {
	return a.aircraft[v.Number-1].Returned || a.bounds != nil && (v.Homeward || !v.InAir && v.Landed != nil && *v.Landed)
}

// DrawnJ is what the fleet drew in the scope of the bounds.
func (a *Account) DrawnJ() float64 {
	if a.bounds != nil && a.bounds.Landed() {
		return max(a.objective.SpentJ()+a.TransitJ(), 0)
	}
	return a.objective.SpentJ()
}

// AircraftDrawnJ is the part of it that an aircraft drew.
func (a *Account) AircraftDrawnJ(number int) float64 {
	c := &a.aircraft[number-1]
	if a.bounds != nil && a.bounds.Landed() {
		return max(c.SpentJ+c.TransitJ, 0)
	}
	return c.SpentJ
}

// UsableJ is what is left in an aircraft's pack and may be used, its reserve included.
func (a *Account) UsableJ(v *fleet.View) float64 {
	usableJ := a.ResidualJ(v)
	if p := a.pack(v.Number); p.UsableJ > 0 {
		usableJ = min(usableJ, max(p.UsableJ-a.AircraftDrawnJ(v.Number), 0))
	}
	return usableJ
}

// KeptJ is what is to be left of UsableJ at touchdown. What is left beyond UsableJ counts for the
// configuration's reserve.
func (a *Account) KeptJ(v *fleet.View) float64 {
	keptJ := a.reserveJ(v)
	if p := a.pack(v.Number); !p.Reserves {
		keptJ = max(keptJ-(a.ResidualJ(v)-a.UsableJ(v)), 0)
	}
	return keptJ
}

// pack is the bounds of an aircraft's pack; those of a pack without any ask for nothing.
func (a *Account) pack(number int) (p PackBounds) {
	if a.bounds != nil {
		p, _ = a.bounds.Pack(number)
	}
	return p
}

// reserveJ is what an aircraft's pack keeps beyond its way home: as its budget says, or the
// configuration.
func (a *Account) reserveJ(v *fleet.View) float64 {
	if p := a.pack(v.Number); p.Reserves {
		return p.KeptJ(v)
	}
	return a.ReserveJ
}

// PackLeftJ is what an aircraft may still draw in the scope of the bounds before its reserve;
// +Inf where its pack is not bounded. With packs alone every pack is.
func (a *Account) PackLeftJ(v *fleet.View) float64 {
	if _, bounded := a.bounds.Pack(v.Number); !bounded && a.bounds.TotalJ > 0 {
		return math.Inf(1)
	}
	leftJ := a.UsableJ(v) - a.KeptJ(v)
	if !a.bounds.Landed() { // then the way home comes out of what the pack holds beside
		leftJ = min(leftJ, a.ResidualJ(v)-a.reserveJ(v)-a.WayHome(v).TotalJ())
	}
	return max(leftJ-v.UncertaintyJ, 0)
}

// PacksJ is what the packs that the bounds name hold above their reserves, and gave so far.
func (a *Account) PacksJ(views []fleet.View) (sumJ float64) {
	for i := range views {
		v := &views[i]
		if _, named := a.bounds.Pack(v.Number); named {
			sumJ += a.UsableJ(v) + a.AircraftDrawnJ(v.Number) - a.KeptJ(v)
		}
	}
	return sumJ
}

// FleetLeftJ is what the fleet may still draw in the scope of the bounds; +Inf: no total is
// asked for. What is on its way home already has its way in it.
func (a *Account) FleetLeftJ(views []fleet.View) float64 {
	b := a.bounds
	if b.TotalJ == 0 {
		return math.Inf(1)
	}
	leftJ := b.TotalJ - a.DrawnJ()
	if !b.Landed() {
		return leftJ
	}
	for i := range views {
		if v := &views[i]; v.InAir && !v.UnderCommand() {
			leftJ -= a.WayHome(v).TotalJ()
		}
	}
	return leftJ
}

// WayHome is what an aircraft's way home takes from where it is, at the measured multiplier and by
// what earlier ways took. The wait for others is a whole one: it may not come.
func (a *Account) WayHome(v *fleet.View) Leg {
	x, waitJ, scale := a.expectedWayHome(v), v.WaitS*hoverW(&a.Physics, &a.Air), a.objective.PropulsionMultiplier()
	if v.Phase == fleet.PhaseLanding { // which nothing holds up any more
		waitJ = 0
	}
	return Leg{x.CruiseJ * scale * a.ways.Home.ratio(), (x.HoverJ*a.ways.Home.ratio() + waitJ) * scale}
}

// arriveS is how long an aircraft slows down and settles over its home before it lands: 7 to 8 s
// were measured at an autopilot's defaults, from a way home at cruising speed, and 2 s of one that
// hovers over its home already. brakesM is the distance in which it slows down.
const arriveS, arriveAtHomeS, brakesM = 7, 2, 20

func arrivalS(v *fleet.View) float64 {
	if v.Home == nil {
		return arriveS
	}
	return arriveAtHomeS + (arriveS-arriveAtHomeS)*min(v.Home.Sub(v.Position).Norm()/brakesM, 1)
}

// WaysHomeJ is what the fleet is still to take of a budget to touchdown.
func (a *Account) WaysHomeJ(views []fleet.View) (sumJ float64) {
	for i := range views {
		if v := &views[i]; a.bounds != nil && a.bounds.Landed() && v.InAir && v.Located {
			sumJ += a.WayHome(v).TotalJ()
		}
	}
	return sumJ
}

// expectedWayHome is that at multiplier 1 by the closed form, without a wait.
func (a *Account) expectedWayHome(v *fleet.View) Leg {
	if v.Phase == fleet.PhaseLanding {
		return Leg{HoverJ: landingS(v, v.UpM.Over(v.GroundUpM)) * hoverW(&a.Physics, &a.Air)}
	}
	return wayHome(&a.Physics, v, v.TransitMPS, &a.Air, arrivalS(v), overHome(&a.Physics, v))
}

// ClimbJ is what an aircraft's way from the ground to a place takes, or what of it is left.
func (a *Account) ClimbJ(v *fleet.View, to physics.Position) float64 {
	left := 1.0
	if v.InAir {
		left = min(max(1-float64(v.UpM.Over(v.GroundUpM)/climbM(&a.Physics, v)), 0), 1)
	}
	x := climb(&a.Physics, v, to, v.TransitMPS, &a.Air)
	return (x.HoverJ*left + x.CruiseJ) * a.objective.PropulsionMultiplier() * a.ways.Climb.ratio()
}

// Ways are what climbs and ways home took, beside what was expected of them. They outlast
// a mission: the airframes are the same.
type Ways struct {
	Climb Taken `json:"climb,omitzero"`
	Home  Taken `json:"home,omitzero"`
}

// Taken is the mean of ratios of measured to expected joules.
type Taken struct {
	Ratio float64 `json:"ratio,omitempty"` // 0: none was measured
	Count int     `json:"count,omitempty"` // of what it is the mean, at most takenMax: older ones fade
}

const (
	takenPrior = 2  // ways as expected that the first measured one is weighed against, if it took less
	takenMax   = 16 // enough for a mean within a hundredth or so
)

// ratio is what a way takes by the mean, over what is expected of it.
func (t *Taken) ratio() float64 {
	if t.Count == 0 {
		return 1
	}
	return t.Ratio
}

// add enters a way. What is beyond twice or half of what was expected was another flight than that.
func (t *Taken) add(ratio float64) {
	if !(ratio >= 0.5 && ratio <= 2) {
		return
	}
	mean, prior := t.ratio(), takenPrior
	if ratio > mean { // a pack that is empty does not wait for a second one
		prior = 0
	}
	t.Count = min(t.Count+1, takenMax)
	t.Ratio = mean + (ratio-mean)/float64(t.Count+prior)
}

// Way is a climb or a way home that is being measured.
type Way struct {
	Home      bool    `json:"home,omitempty"`
	FromJ     float64 `json:"from_j"`     // of the meter
	ExpectedJ float64 `json:"expected_j"` // by the closed form at the measured multiplier, no wait in it
	// Multiplier is that one; 0: a state of an earlier version.
	Multiplier float64 `json:"multiplier,omitempty"`
}

// ends adds the way to those measured, up to a total of the meter. Where the multiplier changed on it, what it took more or less is of
// flight, which the multiplier has already.
func (w *Way) ends(of *Taken, accountedJ, multiplier float64) {
	const changed = 1.1
	if r := multiplier / w.Multiplier; w.Multiplier == 0 || r < changed && r > 1/changed {
		of.add((accountedJ - w.FromJ) / w.ExpectedJ)
	}
}

// followWays begins and ends the measurement of climbs and ways home. One of an aircraft that its
// pilot takes, or that is lost, measures nothing.
func (a *Account) followWays(views []fleet.View) {
	if a.bounds == nil {
		return
	}
	scale := a.objective.PropulsionMultiplier()
	for i := range views {
		c, v := &a.aircraft[i], &views[i]
		switch w := c.Way; {
		case v.WithPilot() || v.Lost || v.Foreign != "":
			c.Way = nil
		case w == nil && v.Homeward && v.InAir:
			c.Way = &Way{Home: true, FromJ: c.AccountedJ, ExpectedJ: a.expectedWayHome(v).TotalJ() * scale, Multiplier: scale}
		case w == nil && v.Phase == fleet.PhaseClimbing && !v.InAir:
			c.Way = &Way{FromJ: c.AccountedJ, ExpectedJ: v.Params.ClimbS(climbM(&a.Physics, v)) * hoverW(&a.Physics, &a.Air) * scale,
				Multiplier: scale}
		case w == nil:
		case w.Home && !v.InAir && v.Landed != nil && *v.Landed:
			w.ends(&a.ways.Home, c.AccountedJ, scale)
			c.Way = nil
		case w.Home && v.UnderCommand(), !w.Home && v.Homeward: // it is called back, or sent home as it climbs
			c.Way = nil
		case !w.Home && v.Phase != fleet.PhaseClimbing && v.InAir:
			w.ends(&a.ways.Climb, c.AccountedJ, scale)
			c.Way = nil
		}
	}
}

// Ways are those measured so far, RestoreWays continues them.
func (a *Account) Ways() Ways            { return a.ways }
func (a *Account) RestoreWays(ways Ways) { a.ways = ways }
