package leader_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// hold, return and stop act on whatever is in the air without a pilot, in each state of the mission, and the status never says that
// they would be refused then.
func TestActsInEveryState(t *testing.T) {
	t.Parallel()
	upIn := func(state string) func(telemetry.Status) bool {
		return func(s telemetry.Status) bool {
			return s.State == state && slices.ContainsFunc(s.Aircraft, func(a telemetry.StatusAircraft) bool {
				return a.Landed != nil && !*a.Landed
			})
		}
	}
	for _, state := range []string{telemetry.StateClimbing, telemetry.StateFlying, telemetry.StateHolding, telemetry.StateReturning,
		telemetry.StateDone, telemetry.StateStopped} {
		for _, action := range []string{telemetry.ActionHold, telemetry.ActionReturn, telemetry.ActionStop} {
			t.Run(state+" "+action, func(t *testing.T) {
				simnet.Test(t, func(t *testing.T) {
					r := rig.New(t, 2, 100000)
					if state == telemetry.StateDone {
						r.Config.Slots = 20
					}
					r.StartLeader()
					r.TakeOff()
					if first := map[string]string{telemetry.StateHolding: "hold", telemetry.StateReturning: "return",
						telemetry.StateStopped: "stop"}[state]; first != "" {
						r.Await("on their way", rig.SlotSettled(20))
						r.MustSendAction(first)
					}
					s := r.Await("in the air, "+state, upIn(state))
					if why := *s.Refuses.Of(action); why != "" {
						t.Errorf("the status says that it is refused: %s", why)
					}
					r.MustSendAction(action)
					if action == telemetry.ActionReturn {
						r.Await("done", rig.Done)
						for i := range 2 {
							if !r.Eventually(func() bool { return r.Landed(i) }) || r.HomeDistanceM(i) > 5 {
								t.Errorf("aircraft %d: landed %v, %.0f m from its home", i+1, r.Landed(i), r.HomeDistanceM(i))
							}
						}
						return
					}
					time.Sleep(8 * time.Second) // it brakes, or climbs to its height first
					before := r.Autopilots[0].State().Position
					time.Sleep(10 * time.Second)
					for i := range 2 {
						if r.Landed(i) {
							t.Errorf("aircraft %d has landed", i+1)
						}
					}
					if now := r.Autopilots[0].State().Position; math.Hypot(now.EastM-before.EastM, now.NorthM-before.NorthM) > 1 {
						t.Errorf("aircraft 1 flew on from %v to %v", before, now)
					}
					r.MustSendAction("return")
					r.Await("done", rig.Done)
				})
			})
		}
	}
}

// A hold in the climb keeps those in the air where they are until `resume`, however long the climb may take, and has nobody take off.
func TestHoldInTheClimb(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		r.StartLeader()
		r.Await("the leader", rig.AnyStatus)
		r.TakeOff()
		r.Await("both in the air", func(s telemetry.Status) bool {
			return !slices.ContainsFunc(s.Aircraft, func(a telemetry.StatusAircraft) bool { return a.Landed == nil || *a.Landed })
		})
		r.MustSendAction("hold")
		time.Sleep(300 * time.Second) // flight.climb_s is 180
		if s := r.LastStatus(); s.State != telemetry.StateClimbing || s.Slot >= 0 {
			t.Fatalf("held in the climb: %s, slot %d", s.State, s.Slot)
		}
		r.MustSendAction("resume")
		r.Await("flying", rig.Flying)
		r.MustSendAction("return")
		r.Await("done", rig.Done)
	})
}

// What is left in Hold once the mission is over comes home by `return`.
func TestReturnWhenDone(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		r.Config.Slots = 6
		r.StartLeader()
		r.TakeOff()
		r.Await("done", func(s telemetry.Status) bool { return s.State == telemetry.StateDone })
		r.Autopilots[1].SetModeByRC(autopilot.ModeHold)
		s := r.Await("told", func(s telemetry.Status) bool {
			return slices.ContainsFunc(s.Dangers, func(d telemetry.Danger) bool {
				return d.Aircraft == 2 && strings.Contains(d.Text, "LEFT IN THE AIR") && d.Do == "return"
			})
		})
		if s.Refuses.Return != "" {
			t.Errorf("return would be refused: %s", s.Refuses.Return)
		}
		r.MustSendAction("return")
		r.Await("returning", rig.InState(telemetry.StateReturning))
		r.Await("done", rig.Done)
		if !r.Eventually(func() bool { return r.Landed(1) }) || r.HomeDistanceM(1) > 5 {
			t.Errorf("landed %v, %.0f m from its home", r.Landed(1), r.HomeDistanceM(1))
		}
		if s := r.LastStatus(); s.Refuses.Return == "" || s.Refuses.Stop == "" || s.Refuses.New != "" || s.Refuses.Budget == "" {
			t.Errorf("with all on the ground: %+v", s.Refuses)
		}
	})
}
