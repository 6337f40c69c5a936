package crew

import (
	"time"

	"prefdt/telemetry"
)

// challengeLifetimeS, wall time, is how long a challenge is the present one. It is valid
// for as long again, so what was recorded or withheld is of use for no longer
// than twice that, and no clock but ours is trusted.
const challengeLifetimeS = 30

// challenges are the present challenge and the one before.
type challenges struct {
	current, previous string
	since             time.Duration
}

// currentAt is the present challenge.
func (c *challenges) currentAt(now time.Duration) string {
	switch age := now - c.since; {
	case c.current == "" || age >= 2*challengeLifetimeS*time.Second: // nobody asked for so long
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
