package energy

import "math"

// chargeCounter makes a counter of energy from that of charge: an autopilot may
// have no other, or relay no other of a battery that is measured outside of it.
type chargeCounter struct {
	MAh    float64 `json:"mah"`
	VoltsV float64 `json:"v"` // when it was read; 0: never
	J      float64 `json:"j"`
}

const mAhC = 3.6 // coulombs in a milliampere hour

// count enters the counter of charge, with the voltage then, and returns the energy since
// it was 0. A counter that was reset begins again.
func (c *chargeCounter) count(mAh, volts float64) float64 {
	if was := *c; was.VoltsV == 0 || mAh < was.MAh/2 {
		c.J = mAh * mAhC * volts
	} else {
		c.J = math.Max(was.J+(mAh-was.MAh)*mAhC*(volts+was.VoltsV)/2, 0)
	}
	c.MAh, c.VoltsV = mAh, volts
	return c.J
}

// WithCharge returns a reading with the energy that a counter of charge shows, in place
// of a counter of energy where the autopilot has none; a negative one is absent.
func (m *Meter) WithCharge(r Reading, consumedMAh int32) Reading {
	switch v := r.valid(); {
	case !math.IsNaN(v.ConsumedHJ):
		m.charged = chargeCounter{}
	case consumedMAh >= 0 && !math.IsNaN(v.PowerW()):
		const roundedMAh = 0.5
		r.ConsumedHJ = math.Floor((m.charged.count(float64(consumedMAh), v.VoltageV) + roundedMAh*mAhC*v.VoltageV) / consumedUnitJ)
	}
	return r
}
