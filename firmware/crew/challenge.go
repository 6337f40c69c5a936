package crew

import (
	"time"

	"prefdt/telemetry"
)

// challengeLifetimeS, wall time, is how long a challenge is the present one. It stays
// valid for as long again, so a recorded or withheld command is valid for at most
// twice that, and no clock but the leader's own is trusted.
const challengeLifetimeS = 30

// challenges are the present challenge and the one before.
type challenges struct {
	current, previous string
	since             time.Duration
}

// currentAt returns the present challenge, renewed if its time is over.
func (c *challenges) currentAt(now time.Duration) string {
	switch age := now - c.since; {
	case c.current == "" || age >= 2*challengeLifetimeS*time.Second: // both have expired
		c.previous, c.current, c.since = "", telemetry.NewChallenge(), now
	case age >= challengeLifetimeS*time.Second:
		c.previous, c.current, c.since = c.current, telemetry.NewChallenge(), now
	}
	return c.current
}

func (c *challenges) valid(challenge string, now time.Duration) bool {
	present := c.currentAt(now)
	return challenge != "" && (challenge == present || challenge == c.previous)
}
