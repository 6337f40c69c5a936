package preflight_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"
	"time"

	"prefdt/firmware/preflight"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/geo"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
)

var returnFlights = flag.Uint64("returns", 2, "`flights` of eight that come home by themselves")

// Eight that fly home by themselves after their leader's death come near no other, with the heights that the check advises: PX4s,
// ArduCopters, or some of each.
func TestReturnsByThemselves(t *testing.T) {
	for seed := range *returnFlights {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) { returnByThemselves(t, seed) })
		})
	}
}

const apartM = 3.0

var advised = regexp.MustCompile(`(RTL_RETURN_ALT|RTL_ALT) (\d+)[^,]*(, RTL_CONE_SLOPE 0)? of (\d+)`)

func returnByThemselves(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 3))
	r := rig.New(t, 8, 1000)
	r.Physics.AltitudeM = 100
	for i := range r.Autopilots {
		r.ReplaceAutopilot(i, func(c *autopilot.Config) {
			c.Copter = (seed+uint64(i))%3 == 0 || seed%3 == 1
			c.Parameters = map[string]float64{"COM_OBL_RC_ACT": 3}
		})
	}
	check := func() (result, detail string) {
		_, results, details := runCheck(t, r, r.WriteConfig("decide_by_ms: 999"), "60s")
		return results["returns"], details["returns"]
	}
	result, detail := check()
	heights := advised.FindAllStringSubmatch(detail, -1)
	if result != preflight.ResultWarn || len(heights) != 8 {
		t.Fatalf("%s: %s", result, detail)
	}
	for _, x := range heights {
		number, _ := strconv.Atoi(x[4])
		height, _ := strconv.ParseFloat(x[2], 64)
		set := map[string]float64{x[1]: height}
		if x[3] != "" {
			set["RTL_CONE_SLOPE"] = 0
		}
		r.ReplaceParameters(number-1, set)
	}
	if result, detail = check(); result != preflight.ResultOK {
		t.Fatalf("with what was advised: %s: %s", result, detail)
	}
	var to [8]physics.Position
	for i := range to {
		to[i] = physics.Position{EastM: 1000 * random.Float64(), NorthM: 1000 * random.Float64()}
	}
	r.OverrideDecision = func(s *slot.Snapshot, d *slot.Decision) {
		for m := range s.Aircraft {
			i := s.Aircraft[m].Number - 1
			if d.Move[m] = to[i].Sub(s.Aircraft[m].Position); d.Move[m].Norm() > 10 {
				d.Move[m] = d.Move[m].Scale(10 / d.Move[m].Norm())
			}
		}
	}
	f := r.FlyToSlot(10 + random.IntN(60))
	f.Kill()
	least, where := math.Inf(1), ""
	for landed := 0; landed < len(r.Autopilots); time.Sleep(100 * time.Millisecond) {
		landed = 0
		var at []geo.Local
		for i, a := range r.Autopilots {
			s := a.State()
			if s.OnGround {
				landed++
				continue
			}
			for _, p := range at {
				off := s.Position.Sub(p)
				if m := math.Hypot(off.HorizontalM(), off.UpM); m < least {
					least, where = m, fmt.Sprintf("aircraft %d in %s at %v", i+1, s.ModeName, s.Position)
				}
			}
			at = append(at, s.Position)
		}
	}
	if t.Logf("no nearer than %.1f m: %s", least, where); least < apartM {
		t.Errorf("two came within %.1f m: %s", least, where)
	}
}
