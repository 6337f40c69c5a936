package mission

import (
	"fmt"
	"slices"

	"prefdt/telemetry"
)

// contactGraceS, wall time, is how long after a restart, or after the broker is
// connected again, lost contact has no effect yet: the first messages need a moment.
const contactGraceS = 5

// Contact counts once it has lasted for lastsS in the last windowS: a link that comes and
// goes must not keep a failsafe from acting. With a hold after less than 30 s both are
// shorter in proportion.
const (
	windowS = 10.0
	lastsS  = 5.0
	// stationSilentS, wall time, is the longest time between two heartbeats of a contact
	// that lasts. A station sends one a second.
	stationSilentS = 3.0
)

// proportion is the share of these times that is asked for where a loss of contact holds the
// mission after holdS.
func proportion(holdS float64) float64 { return min(1, holdS/30) }

// span is a time of contact.
type span struct{ fromS, toS float64 }

// lasts adds the latest time of contact, and reports whether contact has lasted where its
// loss holds the mission after holdS. Spans too old to count are forgotten.
func lasts(spans *[]span, latest span, holdS float64) bool {
	*spans = append(slices.DeleteFunc(*spans, func(old span) bool { return old.toS < latest.toS-windowS }), latest)
	short, s := proportion(holdS), 0.0
	for _, x := range *spans {
		s += max(0, x.toS-max(x.fromS, latest.toS-short*windowS))
	}
	return s >= short*lastsS
}

// groundedS, mission time, is how long after the last aircraft was given up in a climb that has none in the air the
// mission ends: until then the crew may launch one.
const groundedS = 60

// maxStations bounds the stations that are remembered.
const maxStations = 64

// Contact is how long there was none with broker and crew that lasted.
type Contact struct {
	BrokerLostS float64  `json:"broker_away_s,omitempty"` // mission time
	CrewLostS   float64  `json:"crew_away_s,omitempty"`   // wall time
	Stations    []string `json:"stations,omitempty"`      // that sent a heartbeat in this mission and did not leave
}

// Heartbeat counts a station's heartbeat, so many seconds of wall time after the last
// tick, as contact. A station that leaves is no longer expected to send any.
func (m *Mission) Heartbeat(station string, leaving bool, afterTickS float64) {
	c := &m.state.Contact
	i := slices.Index(c.Stations, station)
	switch {
	case leaving && i >= 0:
		c.Stations = slices.Delete(c.Stations, i, i+1)
	case !leaving && i < 0 && len(c.Stations) < maxStations:
		if len(c.Stations) == 0 {
			c.CrewLostS = 0 // until now nobody was missed
		}
		c.Stations = append(c.Stations, station)
	}
	now := m.uptimeS + afterTickS
	from := now
	if m.crewReceived && now-m.heartbeatS <= stationSilentS {
		from = m.heartbeatS
	}
	m.crewReceived, m.heartbeatS = true, now
	if lasts(&m.crewSpans, span{from, now}, m.Limits.CrewHoldS) {
		c.CrewLostS = -afterTickS // the next tick adds the whole time since the last one
	}
}

// CrewAgeS is the wall time since contact with the crew counted; nil: no station that stays has sent
// a heartbeat.
func (m *Mission) CrewAgeS() *float64 {
	if len(m.state.Contact.Stations) == 0 {
		return nil
	}
	return new(max(0, m.state.Contact.CrewLostS))
}

// CommandReceived counts a verified command as contact that has lasted. Later silence has an effect
// only if a station sent heartbeats: one that sends commands alone is silent between
// them.
func (m *Mission) CommandReceived() { m.state.Contact.CrewLostS = 0 }

// TickInput is what was observed in a mission second.
type TickInput struct {
	MissionS, WallS  float64 // time passed
	Connected        bool    // to the broker
	AtStart, EnRoute int     // aircraft at their starts, and on their way there
	AllLanded        bool    // no aircraft under control is still on its way home
	Grounded         string  // why no aircraft is on its way or in the air, in a climb; empty: one is
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
	if m.state.Phase == telemetry.StateClimbing && !m.Held() {
		m.state.ClimbS += in.MissionS
	}
	if m.state.GroundedS += in.MissionS; m.state.Phase != telemetry.StateClimbing || in.Grounded == "" {
		m.state.GroundedS = 0
	}
	late, grounded := m.state.ClimbS >= limits.ClimbS, m.state.GroundedS >= groundedS
	// Contact is lost if none lasted for so long, and there is none at this moment, while
	// this leader could receive it.
	brokerLost := func(limitS float64) bool {
		return !in.Connected && m.uptimeS >= contactGraceS && c.BrokerLostS >= limitS
	}
	crewSilent := func(limitS float64) bool { return len(c.Stations) > 0 && c.CrewLostS >= limitS }
	crewHere := m.crewReceived && m.uptimeS-m.heartbeatS <= stationSilentS*proportion(limits.CrewHoldS)
	crewLost := func(limitS float64) bool { return m.connectedS >= contactGraceS && !crewHere && crewSilent(limitS) }
	for _, t := range []struct {
		event  event
		holds  bool
		reason string
	}{
		{brokerReturn, brokerLost(limits.BrokerReturnS), "the broker is gone; returning"},
		{crewReturn, crewLost(limits.CrewReturnS), telemetry.ReasonNoCrew + "; returning"},
		{brokerHold, brokerLost(limits.BrokerHoldS), "the broker is gone; holding"},
		{crewHold, crewLost(limits.CrewHoldS), telemetry.ReasonNoCrew + "; holding"},
		{contactRestored, m.state.HeldBy != HeldByCrew && in.Connected && c.BrokerLostS == 0 && !crewSilent(limits.CrewHoldS),
			"contact is back; flying on"},
		{climbFailed, grounded, "no aircraft took off; the mission ends"},
		{climbFailed, in.AtStart == 0 && late, "no aircraft reached its start in time; returning"},
		{climbDone, !m.Held() && in.AtStart > 0 && (in.EnRoute == 0 || late), "at the starts"},
		{landed, in.AllLanded, "landed"},
	} {
		if t.holds && m.transition(t.event) != nil {
			result := TickResult{m.apply(t.event), t.reason, t.event == climbDone || t.event == landed || t.event == contactRestored}
			switch t.event {
			case brokerHold, brokerReturn:
				m.state.Reason = fmt.Sprintf("the broker was gone for %.0f s of the mission", c.BrokerLostS)
			case crewHold, crewReturn:
				m.state.Reason = fmt.Sprintf("%s for %.0f s", telemetry.ReasonNoCrew, c.CrewLostS)
			case climbFailed:
				m.state.Reason = "no aircraft reached its start in time"
				if in.Grounded != "" {
					m.state.Reason = "no aircraft took off: " + in.Grounded
				}
			}
			return result
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
	m.missionS += in.MissionS
	if !in.Connected {
		m.connectedS = 0
	} else if m.wasConnected && lasts(&m.brokerSpans, span{m.missionS - in.MissionS, m.missionS}, m.Limits.BrokerHoldS) {
		c.BrokerLostS = 0 // connected from one tick to the next, for long enough
	}
	m.wasConnected = in.Connected
}
