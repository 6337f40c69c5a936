package fleet

import (
	"fmt"
	"math"
	"slices"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/firmware/energy"
	"prefdt/inference/physics"
)

// Which BATTERY_STATUS the meter counts is decided here: that with id 0, which may be the sum of all others; where there is
// none, what is relayed or the only one there is.

const (
	sumWithin   = 0.1  // the currents of the parts add up to the sum's, to within this share of it
	sumVoltage  = 0.05 // and each part has the sum's voltage, likewise
	sumLeastA   = 0.1  // below it currents say nothing
	sumSmoothsS = 2.0  // the messages of batteries are not of one moment
)

// batteryTrace has what one battery's messages said in the last seconds.
type batteryTrace struct{ receivedS, currentA, voltageV float64 }

func (x *batteryTrace) add(now float64, r *energy.Reading) {
	share := min(1, max(now-x.receivedS, 0)/sumSmoothsS)
	if math.IsNaN(x.currentA) || math.IsNaN(x.voltageV) || now-x.receivedS > batteryAbsentS {
		share = 1
	}
	if share == 1 {
		x.currentA, x.voltageV = r.CurrentA, r.VoltageV
	}
	x.currentA, x.voltageV = x.currentA+share*(r.CurrentA-x.currentA), x.voltageV+share*(r.VoltageV-x.voltageV)
	x.receivedS = now
}

// handleBattery reads one battery's message.
func (a *aircraft) handleBattery(f *Fleet, now float64, m *common.MessageBatteryStatus) {
	cells := append(m.Voltages[:], slices.DeleteFunc(m.VoltagesExt[:], func(mv uint16) bool { return mv == 0 })...)
	r := energy.FromBatteryStatus(cells, m.CurrentBattery, m.EnergyConsumed, m.BatteryRemaining)
	if noBattery(&r) {
		return // some send one for a power port with nothing in it
	}
	a.addBatteryID(now, m.Id, &r)
	metered := a.metersBattery(now, m.Id)
	a.warnOfUnmetered(f, now)
	if !metered {
		return // the same current would count twice
	}
	a.batteryStatusS, a.batteryStatusBootS = now, a.bootS(now)
	a.updateBattery(f, now, r, m.CurrentConsumed)
}

// metersBattery is whether the meter counts this battery.
func (a *aircraft) metersBattery(now float64, id uint8) bool {
	own := a.ownBatteryS > 0 && now-a.ownBatteryS < batteryAbsentS
	switch relayed := int(id) == a.params.kind().traits().relayedBatteryID; {
	case id == 0:
		a.meteredBattery, a.ownBatteryS = 0, now
		if a.othersAddUp() {
			a.sumS = now
		}
	case own, relayed:
		return relayed && !own && (a.meteredBattery == 0 || !slices.Contains(a.batteryIDs, a.meteredBattery))
	case len(a.batteryIDs) == 1 && now-a.batteriesSinceS > batteryAbsentS:
		a.meteredBattery = id // the only one there is
	}
	return id == a.meteredBattery
}

// addBatteryID keeps the ids of BATTERY_STATUS, and what each said last.
func (a *aircraft) addBatteryID(now float64, id uint8, r *energy.Reading) {
	if a.batteries == nil {
		a.batteries = map[uint8]*batteryTrace{}
	}
	if a.batteries[id] == nil {
		a.batteries[id] = &batteryTrace{currentA: math.NaN()}
	}
	a.batteries[id].add(now, r)
	i, found := slices.BinarySearch(a.batteryIDs, id)
	if found {
		return
	}
	a.batteryIDs = slices.Insert(slices.Clone(a.batteryIDs), i, id) // views have the old slice
	a.batteriesSinceS, a.sumS, a.warnedOfBatteries = now, 0, false
}

// othersAddUp is whether id 0 is the sum of all others, as some autopilots meter packs in parallel. Two that share a load equally
// would look like a sum of one.
func (a *aircraft) othersAddUp() bool {
	sum, currentA := a.batteries[0], 0.0
	for _, id := range a.batteryIDs {
		if id == 0 {
			continue
		}
		part := a.batteries[id]
		if !(math.Abs(part.voltageV-sum.voltageV) <= sumVoltage*sum.voltageV) {
			return false
		}
		currentA += part.currentA
	}
	return len(a.batteryIDs) > 2 && sum.currentA >= sumLeastA && math.Abs(currentA-sum.currentA) <= sumWithin*sum.currentA
}

// unmeteredBatteries are the ids of batteries that its meter does not count.
func (a *aircraft) unmeteredBatteries(now float64) []uint8 {
	if len(a.batteryIDs) < 2 || a.sumS > 0 && now-a.sumS < batteryAbsentS { // one that is alone is metered, if not yet
		return nil
	}
	return slices.DeleteFunc(slices.Clone(a.batteryIDs), func(id uint8) bool {
		return id == a.meteredBattery || int(id) == a.params.kind().traits().relayedBatteryID
	})
}

// warnOfUnmetered warns once of batteries that are not metered, as soon as it would be known that they are parts of a sum.
func (a *aircraft) warnOfUnmetered(f *Fleet, now float64) {
	if a.warnedOfBatteries || now-a.batteriesSinceS <= batteryAbsentS {
		return
	}
	if ids := a.unmeteredBatteries(now); len(ids) > 0 {
		a.warnedOfBatteries = true
		f.Log.Warn("a battery is not metered: joules are of one battery", "aircraft", a.number, "reason",
			fmt.Sprintf("BATTERY_STATUS has the ids %v", ids))
	}
}

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

// batteryStatusAbsent is whether no BATTERY_STATUS comes any more, by its own clock too: after a stall of the leader those are
// received late that were sent meanwhile.
func (a *aircraft) batteryStatusAbsent(now float64) bool {
	if now-a.batteryStatusS <= batteryAbsentS {
		return false
	}
	elapsedS := a.bootS(now) - a.batteryStatusBootS
	return !(a.batteryStatusBootS > 0 && elapsedS >= 0 && elapsedS <= batteryAbsentS)
}

func (a *aircraft) updateBattery(f *Fleet, now float64, r energy.Reading, consumedMAh int32) {
	r.BootS = a.bootS(now)
	a.batteryReading = r
	a.meter.AddReading(now, a.meter.WithCharge(r, consumedMAh))
	if c := a.meter.Charge(); !math.IsNaN(c) { // a jump counts from the second message: one outlier sends no aircraft home
		if points := math.Round(100 * (a.charge - c)); points != 0 { // also of one that was not known
			a.chargeFromJ = a.meter.DrawnJ(now)
		}
		a.charge = c
	}
	a.updatePack(f, now)
}

// chargeDrawnJ is what was drawn since the charge came to be what it is.
func (a *aircraft) chargeDrawnJ(now float64) float64 {
	if drawnJ := a.meter.DrawnJ(now) - a.chargeFromJ; drawnJ > 0 {
		return drawnJ
	}
	return 0
}

// noBattery is whether a message is about no battery: nothing of one was measured.
func noBattery(r *energy.Reading) bool {
	return math.IsNaN(r.VoltageV) && math.IsNaN(r.Charge) && !(r.CurrentA > 0) && !(r.ConsumedHJ > 0)
}

// BatteryReading returns an aircraft's last battery reading.
func (f *Fleet) BatteryReading(number int) (r energy.Reading) {
	f.withAircraft(number, func(a *aircraft, _ float64) { r = a.batteryReading })
	return r
}

// UpdateMeter enters the edge energy just decided and the measured propulsion
// multiplier into an aircraft's meter.
func (f *Fleet) UpdateMeter(number int, edgeJ, factor float64) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		a.meter.SetFactor(now, factor)
		a.meter.AddEdge(now, edgeJ)
	})
}

// RestoreMeter restores an aircraft's meter from a state of gapS ago, NaN: unknown. The
// autopilot's own clock is more exact, unless it was rebooted.
func (f *Fleet) RestoreMeter(number int, s energy.State, gapS float64) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		switch boot := a.bootS(now); {
		case boot == 0 || s.BootS == 0:
		case boot >= s.BootS:
			gapS = boot - s.BootS
		case math.IsNaN(gapS):
			gapS = boot
		}
		sinceJ := a.meter.DrawnJ(now) - a.chargeFromJ // NaN: it is not known
		a.meter.Restore(now, s, gapS)
		a.chargeFromJ = a.meter.DrawnJ(now) - sinceJ // the total now has what was drawn meanwhile
	})
}
