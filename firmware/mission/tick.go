package mission

import (
	"slices"

	"prefdt/telemetry"
)

// contactGraceS, wall time, is how long after a restart, or after the broker is reached
// again, lost contact has no effect yet: what is there needs a moment to be received.
const contactGraceS = 5

// maxStations bounds the stations that are remembered.
const maxStations = 64

// Contact is how long nothing was received from broker and crew.
type Contact struct {
	BrokerLostS float64  `json:"broker_away_s,omitempty"` // mission time
	CrewLostS   float64  `json:"crew_away_s,omitempty"`   // wall time
	Stations    []string `json:"stations,omitempty"`      // that sent a heartbeat in this mission and did not leave
}

// addDowntime counts the time for which the leader itself was gone. For the broker it
// counts only if it was gone already.
func (c *Contact) addDowntime(missionS, wallS float64) {
	if c.BrokerLostS > 0 {
		c.BrokerLostS += missionS
	}
	c.CrewLostS += wallS
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
	c.CrewLostS = 0
}

// CommandReceived counts a verified command as contact. It does not by itself make the
// crew one that is missed later: a station that only sends commands is silent
// between them.
func (m *Mission) CommandReceived() { m.state.Contact.CrewLostS = 0 }

// TickInput are what a mission second brought.
type TickInput struct {
	MissionS, WallS  float64 // it took
	Connected        bool    // to the broker
	AtStart, EnRoute int     // aircraft at their starts, and on their way there
	AllLanded        bool    // no aircraft of ours is still on its way home
}

// TickResult is what time has changed.
type TickResult struct {
	Effect   Effect
	Reason   string // for the log; empty: nothing changed
	Expected bool   // nothing is wrong
}

// Tick takes in a mission second and returns what it changed, if anything.
func (m *Mission) Tick(f TickInput) TickResult {
	m.contact(f)
	c, limits := &m.state.Contact, &m.Limits
	if m.state.Phase == telemetry.StateClimbing {
		m.state.ClimbS += f.MissionS
	}
	late := m.state.ClimbS >= limits.ClimbS
	// What is missing: for so long, and not only because we were not there.
	broker := func(limitS float64) bool {
		return !f.Connected && m.uptimeS >= contactGraceS && c.BrokerLostS >= limitS
	}
	crew := func(limitS float64) bool { return len(c.Stations) > 0 && c.CrewLostS >= limitS }
	missed := func(limitS float64) bool { return m.connectedS >= contactGraceS && crew(limitS) }
	for _, t := range []struct {
		on     event
		holds  bool
		reason string
	}{
		{brokerReturn, broker(limits.BrokerReturnS), "the broker is gone; returning"},
		{crewReturn, missed(limits.CrewReturnS), "no contact with the crew; returning"},
		{brokerHold, broker(limits.BrokerHoldS), "the broker is gone; holding"},
		{crewHold, missed(limits.CrewHoldS), "no contact with the crew; holding"},
		{contactRestored, m.state.HeldBy != HeldByCrew && f.Connected && !crew(limits.CrewHoldS), "contact is back; flying on"},
		{climbFailed, f.AtStart == 0 && late, "no aircraft reached its start in time; returning"},
		{climbDone, f.AtStart > 0 && (f.EnRoute == 0 || late), "at the starts"},
		{landed, f.AllLanded, "landed"},
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
			m.state.HeldBy = HeldByBrokerLost
		case crewHold:
			m.state.HeldBy = HeldByCrewLost
		}
		return TickResult{do, t.reason, t.on == climbDone || t.on == landed || t.on == contactRestored}
	}
	return TickResult{}
}

// contact advances the time without broker and crew.
func (m *Mission) contact(f TickInput) {
	c := &m.state.Contact
	m.uptimeS += f.WallS
	m.connectedS += f.WallS
	c.CrewLostS += f.WallS
	c.BrokerLostS += f.MissionS
	if f.Connected {
		c.BrokerLostS = 0
	} else {
		m.connectedS = 0
	}
}
