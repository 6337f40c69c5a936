package mission

import (
	"slices"

	"prefdt/telemetry"
)

// contactGraceS, wall time, is how long after a restart, or after the broker is
// connected again, lost contact has no effect yet: the first messages need a moment.
const contactGraceS = 5

// maxStations bounds the stations that are remembered.
const maxStations = 64

// Contact is how long nothing was received from broker and crew.
type Contact struct {
	BrokerLostS float64  `json:"broker_away_s,omitempty"` // mission time
	CrewLostS   float64  `json:"crew_away_s,omitempty"`   // wall time
	Stations    []string `json:"stations,omitempty"`      // that sent a heartbeat in this mission and did not leave
}

// Heartbeat counts a station's heartbeat as contact. A station that leaves is no
// longer expected to send any.
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

// CommandReceived counts a verified command as contact. Later silence has an effect
// only if a station sent heartbeats: one that sends commands alone is silent between
// them.
func (m *Mission) CommandReceived() { m.state.Contact.CrewLostS = 0 }

// TickInput is what was observed in a mission second.
type TickInput struct {
	MissionS, WallS  float64 // time passed
	Connected        bool    // to the broker
	AtStart, EnRoute int     // aircraft at their starts, and on their way there
	AllLanded        bool    // no aircraft under control is still on its way home
}

// TickResult is the change that a tick made, if any.
type TickResult struct {
	Effect   Effect
	Reason   string // for the log; empty: nothing changed
	Expected bool   // part of a normal mission: no warning
}

// Tick advances the mission by a mission second and returns the change, if any.
func (m *Mission) Tick(in TickInput) TickResult {
	m.updateContact(in)
	c, limits := &m.state.Contact, &m.Limits
	if m.state.Phase == telemetry.StateClimbing {
		m.state.ClimbS += in.MissionS
	}
	late := m.state.ClimbS >= limits.ClimbS
	// Contact is lost if nothing came for so long while this leader could receive it.
	brokerLost := func(limitS float64) bool {
		return !in.Connected && m.uptimeS >= contactGraceS && c.BrokerLostS >= limitS
	}
	crewSilent := func(limitS float64) bool { return len(c.Stations) > 0 && c.CrewLostS >= limitS }
	crewLost := func(limitS float64) bool { return m.connectedS >= contactGraceS && crewSilent(limitS) }
	for _, t := range []struct {
		event  event
		holds  bool
		reason string
	}{
		{brokerReturn, brokerLost(limits.BrokerReturnS), "the broker is gone; returning"},
		{crewReturn, crewLost(limits.CrewReturnS), "no contact with the crew; returning"},
		{brokerHold, brokerLost(limits.BrokerHoldS), "the broker is gone; holding"},
		{crewHold, crewLost(limits.CrewHoldS), "no contact with the crew; holding"},
		{contactRestored, m.state.HeldBy != HeldByCrew && in.Connected && !crewSilent(limits.CrewHoldS), "contact is back; flying on"},
		{climbFailed, in.AtStart == 0 && late, "no aircraft reached its start in time; returning"},
		{climbDone, in.AtStart > 0 && (in.EnRoute == 0 || late), "at the starts"},
		{landed, in.AllLanded, "landed"},
	} {
		if !t.holds {
			continue
		}
		if effect, changed := m.apply(t.event); changed {
			return TickResult{effect, t.reason, t.event == climbDone || t.event == landed || t.event == contactRestored}
		}
	}
	return TickResult{}
}

func (m *Mission) updateContact(in TickInput) {
	c := &m.state.Contact
	m.uptimeS += in.WallS
	m.connectedS += in.WallS
	c.CrewLostS += in.WallS
	c.BrokerLostS += in.MissionS
	if in.Connected {
		c.BrokerLostS = 0
	} else {
		m.connectedS = 0
	}
}
