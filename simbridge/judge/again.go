package judge

import (
	"bytes"
	"context"
	"math"

	"prefdt/inference/belief"
	"prefdt/inference/belief/learned"
	"prefdt/inference/slot"
	"prefdt/offline/rollout"
	"prefdt/simbridge/record"
)

// againRules compute again what the ledger has of a slot: from the same snapshot, with the checkpoint that the leader had.
var againRules = []Rule{
	{"believed again", "the ledger's snapshots and beliefs", "the wind 0.1 m/s and 1 %, the cost of flight 0.5 %, of the same estimator",
		"inference/belief", (*check).believedAgain},
	{"decided again", "what the leader recorded of its plans and decisions", "to the last bit, as the same policy decides again",
		"docs/architecture.md", (*check).decidedAgain},
	{"planned again", "statuses, reports, true positions", "4 % and 600 J of the floor, but in 3 slots",
		"inference/duty", (*check).plannedAgain},
	{"read power", "true joules, the ledger's snapshots", "four of the deviations that it tells, 8 % and 6 W, in three readings in a row",
		"inference/belief", (*check).readPower},
}

// decidedAgain: what an estimator remembered before a restart is not in the record.
func (c *check) decidedAgain() {
	for k, part := range c.recorded {
		if c.frozen == nil || k > 0 && c.World != nil && c.World.HidesState() {
			return
		}
		slots, err := rollout.Replay(context.Background(), bytes.NewReader(part), c.frozen, nil)
		c.finding.Active += float64(slots)
		if err != nil {
			c.breakAt(c.epochS+float64(slots), "%.300s", err)
		}
	}
}

// sensorSD is of what current sensors read over the truth, as the leader's configuration expects it.
const sensorSD = 0.04

// believedAgain: from a restart on, what was forgotten with the process may differ for as long as it is remembered.
func (c *check) believedAgain() {
	const windMPS, windShare, costShare = 0.1, 0.01, 0.005
	if c.frozen == nil || c.frozen.Beliefs == nil || c.World == nil || c.fades() {
		return
	}
	estimator := c.frozen.NewEstimator(learned.Surroundings{Physics: &c.Physics, Wind: true, SensorSD: sensorSD})
	var b belief.Belief
	for _, r := range c.rows() {
		if r.Seen == nil || r.Seen.Believed.WindMPS == nil {
			continue
		}
		b.Resize(&r.Seen.Snapshot)
		estimator.Estimate(&r.Seen.Snapshot, &b)
		told, again, timeS := r.Seen.Believed.WindMPS, b.Air.MeanMPS(), c.epochS+float64(r.Slot)
		off := math.Hypot(told[0]-again.EastM, told[1]-again.NorthM)
		c.atMost(timeS, off, windMPS+windShare*again.Norm(), "the ledger believes in a wind of (%.2f, %.2f) m/s in slot %d, again it is "+
			"(%.2f, %.2f)", told[0], told[1], r.Slot, again.EastM, again.NorthM)
		c.atMost(timeS, math.Abs(r.Seen.Believed.PowerMultiplier-b.Air.Multiplier), costShare*b.Air.Multiplier,
			"the ledger believes that flight takes %.3f of the formula in slot %d, again it is %.3f",
			r.Seen.Believed.PowerMultiplier, r.Slot, b.Air.Multiplier)
	}
}

// readPower: a reading is the mean power of about the slot before.
func (c *check) readPower() {
	const deviations, share, slackJ, agoS, forS, lasts = 4, 0.08, 6, 3, 1, 3
	wrong := make([]int, len(c.aircraft)) // readings in a row
	misread := c.fault(0, "battery_wild", "battery_reset", "battery_second", "low_battery", "autopilot_reboot").wider(0, 2*agoS)
	c.flownBefore(func(n int, timeS float64, a *aircraft, x *slot.Flown) {
		if c.excusesAny(a.number, timeS, "leader away", "link cut", "late datagrams") || misread.contains(timeS) {
			return
		}
		least, most := math.Inf(1), 0.0
		for t := timeS - agoS - a.MonitorS; t <= timeS-forS; t += record.PeriodS {
			w := (a.spentJ(t+forS) - a.spentJ(t)) / forS
			least, most = min(least, w), max(most, w)
		}
		off := max(least-x.FlightJ-computesMostJ, x.FlightJ-most, 0)
		bound := deviations*x.ErrorJ + share*most + math.Abs(a.gain()-1)*most + slackJ
		c.lasting(&wrong[a.number-1], lasts, timeS, off, bound, "the ledger has flight of %.0f W of aircraft %d in slot %d, it drew "+
			"%.0f to %.0f", x.FlightJ, a.number, n, least, most) // two may be of a gust or of a late frame
	})
}

// computesMostJ is the most that an aircraft draws in a slot for its users.
const computesMostJ = 110
