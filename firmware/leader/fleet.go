package leader

import (
	"fmt"
	"log/slog"

	"prefdt/firmware/clock"
	"prefdt/firmware/config"
	"prefdt/firmware/envelope"
	"prefdt/firmware/fleet"
	"prefdt/inference/physics"
)

// separationMarginM covers the distance that two aircraft fly while a measured
// position is in transit: a tenth of a second at twice the speed of least power.
const separationMarginM = 2

// EnvelopeLimits are the limits that every setpoint is kept inside.
func EnvelopeLimits(c *config.Config, p *physics.Constants) envelope.Limits {
	return envelope.Limits{
		SpeedMaxMPS: min(c.Flight.SpeedMaxMPS, p.SpeedMaxMPS), SeparationM: p.SeparationM + separationMarginM, AreaM: p.AreaSideM,
		AltitudeM: p.AltitudeM, BandM: 20, FenceM: 15,
	}
}

// NewFleet returns the configuration's aircraft, of which nothing was received yet.
func NewFleet(c *config.Config, p physics.Constants, now clock.Clock, log *slog.Logger) (*fleet.Fleet, error) {
	f := &fleet.Fleet{
		SystemID: c.MAVLink.SystemID, Origin: c.Origin, Physics: p, Speed: c.SpeedFactor(), Limits: EnvelopeLimits(c, &p), Clock: now, Log: log,
	}
	for _, a := range c.Aircraft {
		f.VehicleLinks = append(f.VehicleLinks, fleet.VehicleLink{SystemID: a.SystemID, Endpoint: a.Endpoint})
	}
	if c.MAVLink.KeyFile != "" {
		key, err := fleet.ReadKey(c.MAVLink.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("mavlink.key_file: %w", err)
		}
		f.Key = key
	}
	return f, f.Initialize()
}
