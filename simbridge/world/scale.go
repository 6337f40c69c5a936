package world

// EnergyScale returns the least flight energy of the fleet over a mission, at v*
// throughout, relative to the standard world's. Budgets that are tried in the
// standard world are tried in another one multiplied by it.
func (c *Config) EnergyScale() float64 {
	s := Standard()
	return c.CalmFloorJ() / s.CalmFloorJ()
}

// CalmFloorJ returns the least flight energy of the fleet over a mission without shock, wind or payload, at v*
// throughout.
func (c *Config) CalmFloorJ() float64 {
	calm := *c
	calm.Shock, calm.SecondShock = Shock{}, Shock{}
	return calm.FloorFromJ(0)
}

// FloorFromJ returns the least flight energy of the fleet from a slot on, at v* throughout, shocks included and
// without wind or payload.
func (c *Config) FloorFromJ(slot int) float64 {
	_, powerW := c.Physics.MinPower()
	factors := 0.0 // slots of 1 s
	for ; slot < c.Slots; slot++ {
		factors += c.PropulsionFactor(slot)
	}
	return float64(c.Aircraft) * factors * powerW
}

// PriceScale returns the price of energy, in seconds per joule, at which edge
// computing is worth as much as it is at a price of 1 in the standard world: what
// a cycle takes on a user's CPU over what it costs on an aircraft's, kappa f^2.
func (c *Config) PriceScale() float64 {
	s := Standard()
	return (s.edgeJPerCycle() / c.edgeJPerCycle()) * (s.UserCPUHz / c.UserCPUHz)
}

func (c *Config) edgeJPerCycle() float64 {
	return c.Physics.SwitchedCapacitance * c.Physics.EdgeCPUHz * c.Physics.EdgeCPUHz
}
