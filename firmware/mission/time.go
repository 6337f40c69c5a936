package mission

import (
	"slices"

	"prefdt/telemetry"
)

// graceS, wall time, is how long after a restart, or after the broker is reached
// again, lost contact has no effect yet: what is there needs a moment to be received.
const graceS = 5

// maxStations bounds the stations that are remembered.
const maxStations = 64

// Contact is how long nothing was received from broker and crew.
type Contact struct {
	BrokerAwayS float64  `json:"broker_away_s,omitempty"` // mission time
	CrewAwayS   float64  `json:"crew_away_s,omitempty"`   // wall time
	Stations    []string `json:"stations,omitempty"`      // that sent a heartbeat in this mission and did not leave
}

// away counts the time for which the leader itself was gone. For the broker it
// counts only if it was gone already.
func (c *Contact) away(missionS, wallS float64) {
	if c.BrokerAwayS > 0 {
		c.BrokerAwayS += missionS
	}
	c.CrewAwayS += wallS
}

// Heartbeat counts a station's heartbeat; one that leaves is no longer missed.
func (m *Mission) Heartbeat(station string, leaving bool) {
	c := &m.state.Contact
	i := slices.Index(c.Stations, station)
	switch {
	case leaving && i >= 0:
		c.Stations = slices.Delete(c.Stations, i, i+1)
	case !leaving && i < 0 && len(c.Stations) < maxStations:
		c.Stations = append(c.Stations, station)
	}
	c.CrewAwayS = 0
}

// Received counts a verified command as contact. It does not by itself make the
// crew one that is missed later: a station that only sends commands is silent
// between them.
func (m *Mission) Received() { m.state.Contact.CrewAwayS = 0 }

// Facts are what a mission second brought.
type Facts struct {
	MissionS, WallS float64 // it took
	Connected       bool    // to the broker
	Ready, Waiting  int     // aircraft at their starts, and on their way there
	Landed          bool    // no aircraft of ours is still on its way home
}

// Change is what time has changed.
type Change struct {
	Effect   Effect
	Reason   string // for the log; empty: nothing changed
	Expected bool   // nothing is wrong
}

// Tick takes in a mission second and returns what it changed, if anything.
func (m *Mission) Tick(f Facts) Change {
	m.contact(f)
	c, limits := &m.state.Contact, &m.Limits
	if m.state.Phase == telemetry.StateClimbing {
		m.state.ClimbS += f.MissionS
	}
	late := m.state.ClimbS >= limits.ClimbS
	// What is missing: for so long, and not only because we were not there.
	broker := func(limitS float64) bool { return !f.Connected && m.upS >= graceS && c.BrokerAwayS >= limitS }
	crew := func(limitS float64) bool { return len(c.Stations) > 0 && c.CrewAwayS >= limitS }
	missed := func(limitS float64) bool { return m.reachedS >= graceS && crew(limitS) }
	for _, t := range []struct {
		on     event
		holds  bool
		reason string
	}{
		{brokerReturn, broker(limits.BrokerReturnS), "the broker is gone; returning"},
		{contactReturn, missed(limits.CrewReturnS), "no contact with the crew; returning"},
		{brokerHold, broker(limits.BrokerHoldS), "the broker is gone; holding"},
		{contactHold, missed(limits.CrewHoldS), "no contact with the crew; holding"},
		{contactBack, m.state.HeldBy != HeldByCrew && f.Connected && !crew(limits.CrewHoldS), "contact is back; flying on"},
		{climbFailed, f.Ready == 0 && late, "no aircraft reached its start in time; returning"},
		{climbed, f.Ready > 0 && (f.Waiting == 0 || late), "at the starts"},
		{landed, f.Landed, "landed"},
	} {
		if !t.holds {
			continue
		}
		do, changed := m.apply(t.on)
		if !changed {
			continue
		}
		switch t.on {
		case brokerHold:
			m.state.HeldBy = HeldByBroker
		case contactHold:
			m.state.HeldBy = HeldByRadio
		}
		return Change{do, t.reason, t.on == climbed || t.on == landed || t.on == contactBack}
	}
	return Change{}
}

// contact advances the time without broker and crew.
func (m *Mission) contact(f Facts) {
	c := &m.state.Contact
	m.upS += f.WallS
	m.reachedS += f.WallS
	c.CrewAwayS += f.WallS
	c.BrokerAwayS += f.MissionS
	if f.Connected {
		c.BrokerAwayS = 0
	} else {
		m.reachedS = 0
	}
}
