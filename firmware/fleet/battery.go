package fleet

import "prefdt/firmware/energy"

// Battery returns an aircraft's last battery reading.
func (f *Fleet) Battery(number int) (r energy.Reading) {
	f.with(number, func(a *aircraft, _ float64) { r = a.reading })
	return r
}
