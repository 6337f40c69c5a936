package leader_test

import (
	"math"
	"testing"
	"time"

	"prefdt/firmware/ledger"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
)

// A PX4 that is cut off flies on until its failsafe holds it, 30 m and more, and stays there: others keep clear of where
// it may be.
func TestOthersKeepClearOfWhereOneMayBe(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		for i := range r.Autopilots {
			r.ReplaceParameters(i, map[string]float64{"COM_OF_LOSS_T": 1, "MPC_XY_VEL_MAX": 12})
		}
		f := r.FlyToSlot(5)
		if !r.Eventually(func() bool { return r.Autopilots[0].State().SpeedMPS() > 7.5 }) {
			t.Fatal("it flies no faster")
		}
		from := r.Autopilots[0].State().Position
		r.Autopilots[0].CutLinks(600)
		time.Sleep(8 * time.Second)
		r.AwaitSaved()
		f.Stop()
		l, err := ledger.Open(r.Config.StateDir)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		s, _, err := l.Load()
		if err != nil {
			t.Fatal(err)
		}
		at, way := r.Autopilots[0].State().Position, s.Fleet[0].PossiblePath
		t.Logf("it flew on for %.1f m", at.Sub(from).HorizontalM())
		off := math.Inf(1)
		for i := 1; i < len(way); i++ {
			for k := range 101 {
				share := float64(k) / 100
				a, b := way[i-1], way[i]
				off = min(off, math.Hypot(a[0]+share*(b[0]-a[0])-at.EastM, a[1]+share*(b[1]-a[1])-at.NorthM))
			}
		}
		if on := at.Sub(from).HorizontalM(); off > 3 || on < 18 {
			t.Errorf("it flew on for %.1f m, and is %.1f m off where it may be, %v", on, off, way)
		}
	})
}

// A stop in full flight is by setpoints first: a PX4's own Hold would fly on for 20 m, past whatever is near.
func TestStopIsBySetpointsFirst(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100000)
		r.FlyToSlot(5)
		if !r.Eventually(func() bool { return r.Autopilots[0].State().SpeedMPS() > 7.5 }) {
			t.Fatal("it flies no faster")
		}
		r.MustSendAction("stop")
		from := r.Autopilots[0].State().Position
		time.Sleep(6 * time.Second)
		s := r.Autopilots[0].State()
		if on := s.Position.Sub(from).HorizontalM(); s.Mode != autopilot.ModeHold || on > 12 || s.SpeedMPS() > 0.5 {
			t.Errorf("6 s later it is in %s, %.1f m on, at %.1f m/s", s.Mode, on, s.SpeedMPS())
		}
	})
}
