package crew

import (
	"time"

	"prefdt/telemetry"
)

// challengeS, wall time, is how long a challenge is the present one. It is valid
// for as long again, so what was recorded or withheld is of use for no longer
// than twice that, and no clock but ours is trusted.
const challengeS = 30

// challenges are the present challenge and the one before.
type challenges struct {
	present, before string
	since           time.Duration
}

// at is the present challenge.
func (c *challenges) at(now time.Duration) string {
	switch age := now - c.since; {
	case c.present == "" || age >= 2*challengeS*time.Second: // nobody asked for so long
		c.before, c.present, c.since = "", telemetry.NewChallenge(), now
	case age >= challengeS*time.Second:
		c.before, c.present, c.since = c.present, telemetry.NewChallenge(), now
	}
	return c.present
}

func (c *challenges) valid(challenge string, now time.Duration) bool {
	present := c.at(now)
	return challenge != "" && (challenge == present || challenge == c.before)
}
