package leader_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// fitPacks gives each aircraft of a rig a pack, which its configuration knows.
func fitPacks(r *rig.Rig, packsJ ...float64) {
	for i, j := range packsJ {
		r.ReplaceAutopilot(i, func(c *autopilot.Config) { c.CapacityJ = j })
		r.Config.Aircraft[i].PackJ = j
	}
}

// touchdowns has what is left in each pack when its aircraft last touched down, as a share of it.
type touchdowns [rig.MaxAircraft]atomic.Uint64

func (x *touchdowns) left(i int) float64 { return math.Float64frombits(x[i].Load()) }

// watchTouchdowns has the simulated batteries read at each landing, once the motors stand still.
func watchTouchdowns(r *rig.Rig) *touchdowns {
	x := new(touchdowns)
	for i := range r.Autopilots {
		flew := false
		r.ReplaceAutopilot(i, func(c *autopilot.Config) {
			c.OnMotion = func(_ int, s autopilot.State) {
				if flew && s.Landed {
					x[i].Store(math.Float64bits(s.LeftJ / s.PackJ))
				}
				flew = !s.Landed
			}
		})
	}
	return x
}

// budget sends a budget that must be accepted.
func budget(t *testing.T, r *rig.Rig, id, fields string) telemetry.Ack {
	t.Helper()
	ack := r.SendCommand(r.Topics.Budget(), fmt.Sprintf(`{"id":%q,%s}`, id, fields), id)
	if !ack.Accepted {
		t.Fatalf("refused: %s", ack.Reason)
	}
	return ack
}

const landWithAFifth = `"packs":[{"aircraft":1,"reserve":0.2},{"aircraft":2,"reserve":0.2}],"scope":"landed","stand_down":"land"`

// A leader that is killed as an aircraft leaves has it on its way after the restart, and keeps the
// reserves of both.
func TestKilledAsOneLeaves(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 60)
		fitPacks(r, 19e3, 34e3)
		r.Config.Flight.ReserveJ = 3e3
		x := watchTouchdowns(r)
		f := r.StartLeader()
		r.Await("the leader", rig.AnyStatus)
		budget(t, r, "b1", landWithAFifth)
		r.TakeOff()
		leaves := func(s telemetry.Status) bool {
			return s.State == telemetry.StateFlying && s.Aircraft[0].Duty == telemetry.DutyLeaving &&
				s.Aircraft[0].Reason == "sent home: for its reserve"
		}
		before := r.Await("one leaves", leaves)
		f.Restart(nil)
		s := r.Await("the leader is back", func(s telemetry.Status) bool { return s.Seq > before.Seq && s.Slot > before.Slot })
		if !leaves(s) || *s.BudgetJ != *before.BudgetJ || s.Scope != before.Scope || s.Aircraft[1].FliesUntilSlot == nil ||
			s.CoveredUntilSlot == nil {
			t.Errorf("before %+v\nafter %+v", before, s)
		}
		r.Await("both on the ground", func(s telemetry.Status) bool { return r.Landed(0) && r.Landed(1) && rig.Done(s) })
		for i := range 2 {
			if left := x.left(i); left < 0.2 {
				t.Errorf("aircraft %d touched down with %.2f %%", i+1, 100*left)
			}
		}
	})
}

// Where the crew keeps all up, none is said to leave for home by a plan, whatever its pack has.
func TestKeptUpHasNoWayHomePlanned(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 150)
		fitPacks(r, 24e3, 34e3)
		r.StartLeader()
		r.Await("the leader", rig.AnyStatus)
		budget(t, r, "b1", strings.Replace(landWithAFifth, `"land"`, `"never"`, 1))
		r.TakeOff()
		s := r.Await("slots", func(s telemetry.Status) bool { return s.State == telemetry.StateFlying && s.Slot > 2 })
		if a := s.Aircraft[0]; a.Duty != telemetry.DutyServing || a.FliesUntilSlot != nil || s.CoveredUntilSlot == nil || !s.Saturated {
			t.Errorf("covered %v, saturated %v, %+v", s.CoveredUntilSlot, s.Saturated, a)
		}
	})
}

// "Land everyone with 20 %": each aircraft comes home when its pack is at its reserve and the
// way, and none touches down below it.
func TestLandsWithItsReserve(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 150)
		fitPacks(r, 24e3, 34e3)
		x := watchTouchdowns(r)
		r.StartLeader()
		r.Await("the leader", rig.AnyStatus)
		ack := budget(t, r, "b1", landWithAFifth)
		if len(ack.Aircraft) != 2 || ack.Mode != telemetry.ModeCeiling || math.Abs(*ack.EnergyJ-0.8*58e3) > 500 {
			t.Errorf("acknowledged: %+v", ack)
		}
		if c := ack.CoveredUntilSlot; c == nil || *c < 100 || *c > 149 {
			t.Errorf("covered until %v", c)
		}
		r.TakeOff()
		early := 0
		s := r.Await("both on the ground", func(s telemetry.Status) bool {
			for i := range 2 {
				a := s.Aircraft[i]
				if s.State == telemetry.StateFlying && a.Duty == telemetry.DutyLeaving {
					early |= 1 << i
				}
				if s.State == telemetry.StateFlying && a.Duty == telemetry.DutyServing && a.FliesUntilSlot == nil {
					t.Fatalf("aircraft %d serves without a plan: %+v", a.Number, a)
				}
			}
			return r.Landed(0) && r.Landed(1) && rig.Done(s)
		})
		for i := range 2 {
			if left, isEarly := x.left(i), early>>i&1 == 1; left < 0.2 || isEarly && left > 0.23 || i == 0 && !isEarly {
				t.Errorf("aircraft %d touched down with %.2f %%, early %v; the status has %+v", i+1, 100*left, isEarly, s.Aircraft[i])
			}
		}
		if s.Scope != telemetry.ScopeLanded || math.Abs(r.BatteryLossJ()-s.SpentJ) > 300 {
			t.Errorf("%.0f J were drawn; the status has %+v", r.BatteryLossJ(), s)
		}
	})
}

// An aircraft that the crew names comes home; the mission goes on with the other, what it draws from
// then on is transit, and a restart keeps it on its way.
func TestReturnOfOne(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 400)
		f := r.FlyToSlot(10)
		if ack := r.SendAction("return", 3); ack.Accepted || !strings.Contains(ack.Reason, "this fleet has 2") {
			t.Errorf("return of one that is none: %+v", ack)
		}
		r.MustSendAction("return", 2)
		if ack := r.SendAction("return", 2); ack.Accepted || !strings.Contains(ack.Reason, "on its way home already") {
			t.Errorf("return again: %+v", ack)
		}
		s := r.AwaitSaved()
		f.Restart(nil)
		r.Await("it is down", func(now telemetry.Status) bool {
			return now.Seq > s.Seq && now.Aircraft[1].Duty == telemetry.DutyHome && r.Landed(1)
		})
		s = r.Await("the other flies on", rig.SlotSettled(r.LastStatus().Slot+10))
		if !rig.Flying(s) || s.Aircraft[0].Duty != telemetry.DutyServing || !slices.Equal(r.OfferedAircraft(), []int{1}) {
			t.Errorf("offered %v, %+v", r.OfferedAircraft(), s)
		}
		if r.HomeDistanceM(1) > 5 {
			t.Errorf("it landed %.0f m from its home", r.HomeDistanceM(1))
		}
		if ack := r.SendAction("return", 2); ack.Accepted {
			t.Errorf("return of one on the ground: %+v", ack)
		}
		at := s.Aircraft[1].SpentJ
		if s = r.Await("ten slots on", rig.SlotSettled(s.Slot+10)); s.Aircraft[1].SpentJ != at {
			t.Errorf("on the ground it spent %.0f J of the slots", s.Aircraft[1].SpentJ-at)
		}
	})
}
