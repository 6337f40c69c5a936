package fleet

import "prefdt/firmware/energy"

// BatteryReading returns an aircraft's last battery reading.
func (f *Fleet) BatteryReading(number int) (r energy.Reading) {
	f.withAircraft(number, func(a *aircraft, _ float64) { r = a.batteryReading })
	return r
}
