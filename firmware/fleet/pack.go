package fleet

import (
	"math"

	"prefdt/firmware/energy"
	"prefdt/firmware/envelope"
	"prefdt/inference/physics"
)

// Pack is the battery that an aircraft has fitted. What was drawn from it counts since it
// was fitted, over missions and restarts, until another one is seen in its place.
type Pack struct {
	CapacityJ float64 `json:"capacity_j,omitempty"` // by its autopilot's parameters; 0: not known
	FittedJ   float64 `json:"fitted_j,omitempty"`   // the meter's total when it was fitted
	Missing   float64 `json:"missing,omitempty"`    // the part that it lacked by then, by its voltage at rest

	// As it was last seen: a fuller one whose counter, or autopilot, began again is another.
	Charge     *float64 `json:"charge,omitempty"`    // the least, since it was last in flight; never changed in place
	Flown      *float64 `json:"flown,omitempty"`     // the last charge in flight; likewise
	VoltageV   float64  `json:"voltage_v,omitempty"` // at rest; 0: not known
	ConsumedHJ float64  `json:"consumed_hj,omitempty"`
	BootS      float64  `json:"boot_s,omitempty"`

	seen int // readings in a row that show another: at most shownBy
}

const (
	fullerCharge  = 0.1  // by so much a charge is another pack's: at rest a voltage recovers, and a charge with it
	fullerVoltage = 1.05 // likewise at rest, where no charge is measured
	shownBy       = 3    // readings: one or two may be wrong, and a pack that is taken for full is not filled by the next ones

	restChargeError = 0.2 // of a charge by a cell's voltage at rest, between kinds of cells
)

// mostCharge is the greatest charge that a pack's voltage at rest leaves possible, by those of an empty and a full cell; NaN: it is
// not known.
func mostCharge(voltageV float64, cellV [2]float64) float64 {
	cells := cellCount(0, voltageV)
	if cells == 0 || !(cellV[1] > cellV[0]) {
		return math.NaN()
	}
	return (voltageV/cells-cellV[0])/(cellV[1]-cellV[0]) + restChargeError
}

// show enters a battery reading and the charge, of which a jump counts from the second
// reading on. It returns whether the third reading in a row shows another pack. What was drawn is a
// part of the pack, since it was fitted.
func (p *Pack) show(r energy.Reading, charge, most, drawn float64, atRest bool) bool {
	seen, first, restarted := p.seen, p.VoltageV == 0, p.restarted(r)
	p.seen = 0
	if atRest && restarted && p.isFuller(charge, r.VoltageV, most) {
		if p.seen = seen + 1; p.seen < shownBy {
			return false
		}
		*p = Pack{CapacityJ: p.CapacityJ}
		p.follow(r, charge, true)
		p.bound(charge, most, 0)
		return true
	}
	if !atRest || !restarted {
		p.follow(r, charge, atRest)
	}
	if was := p.Missing; atRest {
		p.bound(charge, most, drawn)
		if !first && !restarted { // the reading that said more was wrong by so much, at least
			p.Missing = min(p.Missing, was)
		}
	}
	return false
}

// bound has no more be left of the pack than its voltage at rest leaves possible, where no charge says less.
func (p *Pack) bound(charge, most, drawn float64) {
	if p.Missing = 0; !(charge <= most) && !math.IsNaN(most) {
		p.Missing = max(1-drawn-most, 0)
	}
}

// fittedJ is what the meter's total was when the pack was full, whether that was drawn here or before it was fitted.
func (p *Pack) fittedJ(capacityJ float64) float64 { return p.FittedJ - p.Missing*capacityJ }

// restarted is whether a reading's counter, or its autopilot, began again since the pack was last seen.
func (p *Pack) restarted(r energy.Reading) bool {
	return r.ConsumedHJ < p.ConsumedHJ || r.BootS > 0 && r.BootS < p.BootS-1 // a time is extrapolated
}

// isFuller is whether a reading after a restart shows more than the pack held. A charge above the most that the
// voltage at rest leaves possible shows nothing, for its autopilot takes any pack for full: the voltage does.
func (p *Pack) isFuller(charge, voltageV, most float64) bool {
	switch {
	case charge > most:
		return p.VoltageV > 0 && voltageV >= fullerVoltage*p.VoltageV
	case p.Charge != nil && !math.IsNaN(charge):
		return charge >= *p.Charge+fullerCharge
	case p.VoltageV > 0:
		return voltageV >= fullerVoltage*p.VoltageV
	}
	return p.Charge == nil && math.IsNaN(charge) && !(voltageV > 0) // nothing is measured: a reboot is all that can be seen
}

// follow keeps what is known of the pack by a reading. A charge that rises on the ground
// is one that a voltage recovers to, or another pack's.
func (p *Pack) follow(r energy.Reading, charge float64, atRest bool) {
	if !math.IsNaN(charge) && !(atRest && p.Charge != nil && charge > *p.Charge) {
		p.Charge = &charge
	}
	if atRest && r.VoltageV > 0 {
		p.VoltageV = r.VoltageV
	}
	if r.ConsumedHJ >= 0 {
		p.ConsumedHJ = r.ConsumedHJ
	}
	if r.BootS > 0 {
		p.BootS = r.BootS
	}
}

// updateCapacity enters what the autopilot's parameters say of the pack. In flight no other
// one is fitted, and a voltage falls.
func (a *aircraft) updateCapacity(f *Fleet) {
	if j := a.params.packJ(a.batteryReading.VoltageV); j > 0 && (!a.armed || a.pack.CapacityJ == 0) {
		a.pack.CapacityJ = j
	}
	a.meter.CapacityJ = a.capacityJ(&f.Physics)
}

// updatePack enters the last battery reading: whether the pack is still the same one.
// Nothing is concluded while it is not known whether the aircraft flies.
func (a *aircraft) updatePack(f *Fleet, now float64) {
	a.updateCapacity(f)
	p, r := &a.pack, a.batteryReading
	atRest := !a.armed && a.onGround()
	if !a.heartbeatFresh(now) || !a.armed && !atRest {
		return
	}
	most := math.NaN()
	if atRest {
		most = mostCharge(r.VoltageV, a.params.kind().traits().restCellV)
	}
	if drawnJ := a.meter.DrawnJ(now) - p.FittedJ; p.show(r, a.meter.Charge(), most, drawnJ/a.meter.CapacityJ, atRest) {
		p.FittedJ = a.meter.DrawnJ(now)
		f.Log.Info("another battery is fitted", "aircraft", a.number, "drawn_from_the_last_j", drawnJ)
	}
	switch {
	case a.inAir():
		p.Flown = p.Charge
	case atRest && p.Flown != nil && !p.restarted(r) && a.meter.Charge() >= *p.Flown+fullerCharge:
		// Some monitors say full as it disarms, and their counters go on: the charge in flight is all that is known.
		p.FittedJ = math.Min(p.FittedJ, a.meter.DrawnJ(now)-(1-*p.Flown)*a.meter.CapacityJ)
		p.Charge = p.Flown // so that a swap shows
	}
	if p.Charge != nil && atRest && p.restarted(r) && a.meter.Charge() > most { // the charge before its boot is the last that was measured
		p.FittedJ = math.Min(p.FittedJ, a.meter.DrawnJ(now)-(1-*p.Charge)*a.meter.CapacityJ)
	}
}

// capacityJ is what its pack holds when full: as configured, by its autopilot or, where
// neither is known, the airframe's.
func (a *aircraft) capacityJ(airframe *physics.Constants) float64 {
	for _, j := range []float64{a.conf.PackJ, a.pack.CapacityJ} {
		if j > 0 {
			return j
		}
	}
	return airframe.BatteryCapacityJ
}

// RestorePacks restores the aircraft's packs alone, for another mission than the saved
// one: the meters begin anew, and what was drawn from the packs stays drawn.
func (f *Fleet) RestorePacks(saved []SavedAircraft) {
	for i := range saved {
		s := &saved[i]
		if s.Number < 1 || s.Number > len(f.aircraft) || s.SystemID != f.aircraft[s.Number-1].conf.SystemID {
			continue // of another fleet
		}
		f.withAircraft(s.Number, func(a *aircraft, _ float64) {
			a.restorePack(f, s.Pack)
			a.pack.FittedJ -= s.Meter.SpentJ
		})
	}
}

func (a *aircraft) restorePack(f *Fleet, p Pack) {
	a.pack = p
	a.meter.CapacityJ = a.capacityJ(&f.Physics)
}

// landingWaitS is how long an aircraft may wait near its home for those that land before
// it: for all others in the air with homes side by side, of which each has to be lower by
// envelope.LandingBelowM before the next comes in. One on the ground waits for those that
// may take off as well.
func (f *Fleet) landingWaitS(a *aircraft) (seconds float64) {
	const nearSeparations, comesInS = 4, 5
	for _, b := range f.aircraft {
		if b != a && !b.lost && b.located && (b.inAir() || !a.inAir()) &&
			a.homeOrHere().Sub(b.homeOrHere()).Norm() <= nearSeparations*f.Limits.SeparationM {
			heightM := f.Limits.AltitudeM.Over(b.landsAtM())
			seconds += comesInS + b.params.DescentS(heightM) - b.params.DescentS(heightM-envelope.LandingBelowM)
		}
	}
	return seconds
}

func (a *aircraft) homeOrHere() physics.Position {
	if a.home == nil || !a.inAir() {
		return a.position
	}
	return *a.home
}
