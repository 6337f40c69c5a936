package fleet

import (
	"fmt"
	"math"
	"slices"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/firmware/energy"
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
