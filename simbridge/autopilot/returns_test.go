package autopilot

import (
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"

	"prefdt/firmware/fleet"
	"prefdt/inference/physics"
	"prefdt/simbridge/geo"
)

// Of 100 times that the leader of eight dies over the area, no two come within 3 m on their ways home by themselves, at the heights
// that `leader check` advises. At heights that are apart and below the mission's, some do.
func TestReturnsAtAdvisedHeights(t *testing.T) {
	const flights, areaM, altitudeM, nearM = 100, 1000, 100, 3
	random := rand.New(rand.NewPCG(1, 2))
	var views []fleet.View
	for i := range 8 {
		v := fleet.View{Number: i + 1, Received: true, Position: physics.Position{EastM: areaM * float64(i+1) / 9, NorthM: areaM / 2}}
		v.Params.OffboardLossAction, v.Params.OffboardLossS, v.Params.ReturnUpM = 3, 1, 50+5*float64(i)
		views = append(views, v)
	}
	_, set := fleet.ReturnsApart(views, altitudeM)
	advice := regexp.MustCompile(`^RTL_RETURN_ALT (\d+) of (\d+)$`)
	at := make([]float64, len(views))
	for _, text := range set {
		x := advice.FindStringSubmatch(text)
		number, _ := strconv.Atoi(x[2])
		at[number-1], _ = strconv.ParseFloat(x[1], 64)
	}
	near := func(heights func(i int) float64, flights int) (count int) {
		for range flights {
			var fleet []*vehicle
			for i := range views {
				c := testConfig()
				c.SystemID, c.Start = uint8(i+1), geo.Local{EastM: views[i].Position.EastM, NorthM: views[i].Position.NorthM}
				c.Parameters = map[string]float64{"RTL_RETURN_ALT": heights(i), "COM_OBL_RC_ACT": 3}
				fleet = append(fleet, orphan(c, random, fleet, areaM, altitudeM))
			}
			if nearest(fleet) < nearM {
				count++
			}
		}
		return count
	}
	if n := near(func(i int) float64 { return views[i].Params.ReturnUpM }, flights/5); n == 0 {
		t.Error("below the mission's height none met")
	}
	if n := near(func(i int) float64 { return at[i] }, flights); n > 0 {
		t.Errorf("at %v m, two met in %d of %d flights", at, n, flights)
	}
}

// orphan is an aircraft that was flying somewhere over an area, clear of others, as its last setpoint came.
func orphan(c Config, random *rand.Rand, others []*vehicle, areaM, upM float64) *vehicle {
	const clearM, speedMPS = 60, 8
	v := newVehicle(c)
	v.armed, v.landed, v.groundContact, v.flownSinceArmed = true, false, false, true
	v.timeUS, v.setpointUS, v.intendedMode, v.mode = 1e6, 1e6, ModeOffboard, ModeOffboard
	for again := true; again; {
		again = false
		v.body.Position = geo.Local{EastM: areaM * random.Float64(), NorthM: areaM * random.Float64(), UpM: upM}
		for _, o := range others {
			again = again || o.body.Position.Sub(v.body.Position).HorizontalM() < clearM
		}
	}
	sin, cos := math.Sincos(2 * math.Pi * random.Float64())
	v.setpoint.Position, v.body.Velocity = v.body.Position, geo.Local{EastM: speedMPS * sin, NorthM: speedMPS * cos}
	return v
}

// nearest is how near two come in the air until all descend over their own homes, below any way home.
func nearest(fleet []*vehicle) float64 {
	const every, lowM = 10, 40 // steps; metres
	least := math.Inf(1)
	for k, landed := 0, false; !landed; k++ {
		landed = true
		for i, v := range fleet {
			if v.body.Position.UpM < lowM {
				continue
			}
			v.step()
			landed = false
			for _, o := range fleet[:i] {
				if k%every == 0 && o.body.Position.UpM >= lowM {
					off := v.body.Position.Sub(o.body.Position)
					least = min(least, math.Hypot(off.HorizontalM(), off.UpM))
				}
			}
		}
	}
	return least
}
