package world

// EnergyScale returns the least flight energy of the fleet over a mission, at v*
// throughout, relative to the standard world's. Budgets that are tried in the
// standard world are tried in another one multiplied by it.
func (c *Config) EnergyScale() float64 {
	s := Standard()
	return float64(c.Aircraft) / float64(s.Aircraft) * (c.leastFlightW() / s.leastFlightW()) * (float64(c.Slots) / float64(s.Slots))
}

// leastFlightW returns an aircraft's power at v*.
func (c *Config) leastFlightW() float64 {
	return c.Physics.Propulsion.PowerW(c.Physics.Propulsion.BestSpeedMPS(c.Physics.SpeedMaxMPS))
}
