package envelope

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/physics"
)

// Two aircraft that a policy sends to and fro over one group of users keep the separation
// as long as a setpoint arrives no later than 0.2 s after the position that it rests on was
// measured. Above, they do not: at 0.5 s they come as near as 6 m.
func TestSeparationUnderDelay(t *testing.T) {
	for delayS, want := range map[float64]float64{0.1: 10.2, 0.2: 10.0, 0.3: 9.5} {
		least := math.Inf(1)
		for seed := range uint64(150) {
			least = min(least, leastDistanceM(rand.New(rand.NewPCG(seed, 1)), delayS))
		}
		t.Logf("%.1f s of delay: %.2f m", delayS, least)
		if least < want {
			t.Errorf("%.1f s of delay: %.2f m, want %v", delayS, least, want)
		}
	}
}

// leastDistanceM flies two aircraft for a minute, each to another random place of a square
// of 60 m every 4 s, and returns how near they come.
func leastDistanceM(r *rand.Rand, delayS float64) float64 {
	const (
		tickS, commandTicks, slotTicks, goalTicks = 0.02, 5, 50, 200
		gainPerS, lagS, accelerationMPS2          = 0.95, 0.65, 8.0 // as of PX4
	)
	l := Limits{SpeedMaxMPS: 20, SeparationM: 10, AreaM: 1000, AltitudeM: 100, BandM: 20, FenceM: 30}
	type body struct{ position, velocity physics.Position }
	now := [2]body{{position: physics.Position{EastM: 300, NorthM: 500}}, {position: physics.Position{EastM: 700, NorthM: 500}}}
	var flown [][2]body
	var goals, targets, feeds [2]physics.Position
	var held [2]*physics.Position
	commands := make([]Vehicle, 2)
	c, least := Checker{}, math.Inf(1)
	for tick := range int(60 / tickS) {
		flown = append(flown, now)
		measured := flown[max(tick-int(delayS/tickS), 0)]
		for i := range now {
			if tick%goalTicks == 0 {
				goals[i] = physics.Position{EastM: 500 + 60*r.Float64(), NorthM: 500 + 60*r.Float64()}
			}
			if tick%slotTicks == 0 {
				move := clamped(goals[i].Sub(measured[i].position), l.SpeedMaxMPS)
				targets[i], feeds[i] = measured[i].position.Add(move), move.Scale(1-gainPerS)
			}
		}
		if tick%commandTicks == 0 {
			for i, m := range measured {
				commands[i] = Vehicle{
					Controlled: true, Position: m.position, Velocity: m.velocity, UpM: l.AltitudeM, GainPerS: gainPerS, HeldAt: held[i],
					Target: targets[i], FeedForwardMPS: feeds[i], TargetUpM: l.AltitudeM,
				}
			}
			for i, verdict := range c.Check(commands, l) {
				held[i] = nil
				if verdict == Held {
					held[i] = new(commands[i].Target)
				}
			}
		}
		for i := range now {
			b := &now[i]
			wanted := clamped(commands[i].Target.Sub(b.position).Scale(gainPerS).Add(commands[i].FeedForwardMPS), l.SpeedMaxMPS)
			b.velocity = b.velocity.Add(clamped(wanted.Sub(b.velocity).Scale(1/lagS), accelerationMPS2).Scale(tickS))
			b.position = b.position.Add(b.velocity.Scale(tickS))
		}
		least = min(least, now[0].position.Sub(now[1].position).Norm())
	}
	return least
}

func clamped(p physics.Position, most float64) physics.Position {
	return p.Scale(min(1, most/max(p.Norm(), 1e-9)))
}
