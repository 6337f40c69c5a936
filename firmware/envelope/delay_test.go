package envelope

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/physics"
)

// Two aircraft that a policy sends to and fro over one group of users keep the separation
// as long as a setpoint arrives no later than 0.2 s after the position that it rests on was
// measured, and later too where half of the delay is known. An aircraft that follows slowly
// keeps it where its lag is known.
func TestSeparationUnderDelay(t *testing.T) {
	const px4LagS, copterLagS, toPlacesM = 0.65, 1.6, 10.2
	flights := uint64(150)
	if testing.Short() { // an emulator takes a minute
		flights = 15
	}
	for _, c := range []struct{ delayS, lagS, knownS, wantM float64 }{
		{0.1, px4LagS, 0, 10.2}, {0.2, px4LagS, 0, 10.0}, {0.3, px4LagS, 0, 9.5},
		{0.3, px4LagS, px4LagS + 0.15, 10.5}, {0.5, px4LagS, px4LagS + 0.25, 10.5},
		{0.1, copterLagS, copterLagS, 12}, {0.3, copterLagS, copterLagS + 0.15, 12}, {0.5, copterLagS, copterLagS + 0.25, 12},
	} {
		least, toPlaces := math.Inf(1), math.Inf(1)
		for seed := range flights {
			least = min(least, leastDistanceM(rand.New(rand.NewPCG(seed, 1)), c.delayS, c.lagS, c.knownS, false))
			toPlaces = min(toPlaces, leastDistanceM(rand.New(rand.NewPCG(seed, 1)), c.delayS, c.lagS, c.knownS, true))
		}
		t.Logf("%+v: %.2f m, to places %.2f m", c, least, toPlaces)
		if least < c.wantM || toPlaces < min(c.wantM, toPlacesM) {
			t.Errorf("%+v: %.2f m, to places %.2f m", c, least, toPlaces)
		}
	}
}

// leastDistanceM flies two aircraft for a minute, each to another random place of a square
// of 60 m every 4 s, and returns how near they come. The envelope is told of a lag, and whether each
// is to reach a place.
func leastDistanceM(r *rand.Rand, delayS, lagS, knownS float64, toPlaces bool) float64 {
	const (
		tickS, commandTicks, slotTicks, goalTicks = 0.02, 5, 50, 200
		gainPerS, accelerationMPS2                = 0.95, 8.0
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
					Controlled: true, Position: m.position, Velocity: m.velocity, UpM: l.AltitudeM, GainPerS: gainPerS, LagS: knownS,
					HeldAt: held[i], ToPlace: toPlaces,
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
